// How far a run is: one piece per task, at most 24 of them.
import type { JSX } from "preact";
import type { Run, RunDetail, Task } from "../api/types";
import { t } from "../text";

const PIECES_MAX = 24;
const tones: Partial<Record<Task["state"], string>> = { ok: "ok", skipped: "ok", passed: "ok", running: "run", retry: "warn", asks: "ask", failed: "bad", stopped: "bad" };
const order = ["ok", "run", "warn", "ask", "bad", ""];

function tonesOf(run: Run | RunDetail): string[] {
  const counts = run.counts;
  if (!counts) return [];
  const found = "tasks" in run ? run.tasks.map((task) => tones[task.state] ?? "") : [];
  const isWhole = found.length === counts.total;
  const all = isWhole ? found : [...Array<string>(counts.ok + counts.skipped).fill("ok"), ...Array<string>(counts.failed + counts.stopped).fill("bad"), ...Array<string>(Math.max(0, counts.total - counts.done)).fill("")];
  return all.sort((a, b) => order.indexOf(a) - order.indexOf(b));
}

export function Progress({ run, width }: { run: Run | RunDetail; width?: number }): JSX.Element {
  const all = tonesOf(run);
  const step = Math.max(1, all.length / PIECES_MAX);
  const pieces = Array.from({ length: Math.min(all.length, PIECES_MAX) }, (_, i) => all[Math.floor(i * step)] ?? "");
  const text = t("tasks.of", { n: run.counts?.ok ?? 0, total: run.counts?.total ?? 0 });
  return (
    <span class="segs" role="img" aria-label={text} title={text} style={width ? { width: `${width}px` } : {}}>
      {pieces.map((tone, i) => (
        <i class={tone} key={i} />
      ))}
    </span>
  );
}
