// The bar on top: where we are, whether it is live, what waits, search.
import { openPalette } from "./forms";
import type { JSX } from "preact";
import { openQuestions } from "../broke";
import { href, type Route } from "../route";
import { runState } from "../states";
import { useTick, useWorld, type World } from "../store";
import { count, t, type TextKey } from "../text";
import { ago } from "../time";
import { shortId } from "../who";
import { openInbox } from "./inbox";
import { StateTag } from "./parts";
import { Glyph, Icon } from "./shapes";

const titles: Record<string, TextKey> = {
  "": "nav.overview",
  processes: "nav.processes",
  requests: "nav.requests",
  runs: "nav.runs",
  locks: "nav.locks",
  events: "nav.events",
  doctor: "nav.doctor",
  workers: "nav.workers",
};

function RunTitle({ id }: { id: string }): JSX.Element {
  const run = useWorld((w) => w.openRuns[id] ?? w.runs.find((one) => one.run_id === id));
  const asks = useWorld((w) => w.questions.filter((one) => one.run_id === id).length);
  return (
    <>
      <h1 class="cut">
        <a class="crumb" href={href("runs")}>
          {t("nav.runs")}
        </a>{" "}
        <span class="crumb">/</span> {run?.flow ?? id}
      </h1>
      <span class="mono dim" title={id}>
        {shortId(id)}
      </span>
      {run && (
        <span class="tags row">
          <StateTag state={runState(run.status)} />
          {asks > 0 && <span class="tag ask"><Glyph name="bubble" />{count("run.questions", asks)}</span>}
        </span>
      )}
    </>
  );
}

function LiveMark(): JSX.Element {
  const live = useWorld((w) => w.live);
  return (
    <span class={`live ${live}`} role="status">
      <i />
      <span>{live === "live" ? t("live.on") : t("live.retry")}</span>
    </span>
  );
}

/** When the oldest of what waits was asked. */
function oldestOf(world: World): string | undefined {
  return [...world.questions.map((one) => one.asked_at), ...world.confirmations.map((one) => one.asked_at)].filter((one) => one !== undefined).sort()[0];
}

/** Always there: notifications are switched inside. */
function InboxButton(): JSX.Element {
  const n = useWorld((w) => openQuestions(w).length + w.confirmations.length);
  const oldest = useWorld(oldestOf);
  useTick();
  const age = oldest ? ago(oldest) : "";
  return (
    <button type="button" class="btn inbox" onClick={openInbox} aria-label={[t("overview.h_asks"), n, age].filter((one) => one !== "").join(" ")} title={t("overview.h_asks")}>
      <Icon name="inbox" />
      {n > 0 && <span class="pip ask">{n}</span>}{" "}
      {age && <span class="age mid num">{age}</span>}
    </button>
  );
}

export function Bar({ route }: { route: Route }): JSX.Element {
  const title = titles[route.page];
  return (
    <header class="bar">
      {route.page === "runs" && route.parts[0] ? <RunTitle id={route.parts[0]} /> : <h1>{title ? t(title) : "tasuki"}</h1>}
      <span class="grow" />
      <LiveMark />
      <InboxButton />
      <button type="button" class="find" onClick={() => void openPalette()} title={t("nav.find")}>
        <Icon name="find" />
        <span class="grow">{t("nav.find")}</span>
        <kbd aria-hidden="true">Ctrl K</kbd>
      </button>
    </header>
  );
}
