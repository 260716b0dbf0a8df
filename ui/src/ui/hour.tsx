import type { JSX } from "preact";
import type { Process } from "../api/types";
import { piecesOf } from "../hour";
import { useTick, useWorld } from "../store";
import { t } from "../text";
import { now } from "../time";

export function Hour({ process }: { process: Process }): JSX.Element {
  const events = useWorld((w) => w.processEvents);
  useTick(15);
  return (
    <svg class="hour" viewBox="0 0 120 14" preserveAspectRatio="none" role="img" aria-label={t("process.last_hour")}>
      <rect class="t" x="0" y="6.5" width="120" height="1" />
      {piecesOf(process, events, now()).map((one, i) => (
        <rect key={i} class={one.kind} x={one.from} y="4" width={one.to - one.from} height="6" rx="1.5" />
      ))}
    </svg>
  );
}
