// Below the bar: not live, what an agent asks, and the queue while it runs.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Act, stopQueue, stopQueueNow } from "../actions";
import { connect } from "../live";
import { href } from "../route";
import { useTick, useWorld } from "../store";
import { t } from "../text";
import { clock, duration, now, span } from "../time";
import { nameOfHolder } from "../who";
import { Confirmations } from "./confirmations";
import { Progress } from "./progress";
import { Glyph } from "./shapes";

/** A connection that is back within two seconds is no news; silence has lasted long enough when it is known. */
function useIsOff(): boolean {
  const live = useWorld((w) => w.live);
  const isSilent = useWorld((w) => w.isSilent);
  const [isOff, setOff] = useState(false);
  useEffect(() => {
    if (live !== "retry") {
      setOff(false);
      return;
    }
    const timer = setTimeout(() => setOff(true), isSilent ? 0 : 1500);
    return () => clearTimeout(timer);
  }, [live, isSilent]);
  return isOff;
}

function NotLive(): JSX.Element | null {
  const isOff = useIsOff();
  const since = useWorld((w) => w.offSince);
  const refusal = useWorld((w) => w.refusal);
  const next = useWorld((w) => w.nextTryAt);
  const [, again] = useState(0);
  useEffect(() => {
    if (!isOff) return;
    const timer = setInterval(() => again((n) => n + 1), 500);
    return () => clearInterval(timer);
  }, [isOff]);
  if (!isOff || since === null) return null;
  return (
    <div class="strip off" role="alert">
      <Glyph name="triangle" tone="warn" />
      <b class="b">{t("live.off", { time: clock(since) })}</b>
      <span class="mid">{refusal ?? t("live.off_text")}</span>
      <span class="grow" />
      {next !== null && <span class="mid num" aria-hidden="true">{t("live.next", { span: span(Math.max(0, next - performance.now()) + 999) })}</span>}
      <button type="button" class="btn s" onClick={connect}>
        {t("live.now")}
      </button>
    </div>
  );
}

function QueueStrip(): JSX.Element | null {
  const queue = useWorld((w) => w.queue);
  const request = useWorld((w) => w.requests.find((one) => one.id === w.queue?.request_id));
  const run = useWorld((w) => w.openRuns[w.queue?.run_id ?? ""]);
  useTick();
  if (!queue || queue.status !== "running") return null;
  const title = request?.title ?? queue.request_id ?? "";
  const name = nameOfHolder(queue.holder);
  return (
    <div class="strip" role="status" aria-label={t("queue.running")}>
      <Glyph name="arc" tone="run" />
      <b class="b">{t("queue.running")}</b>
      <span class="sep" />
      {queue.stopping ? (
        <span class="cut">{t("queue.stopping", { title })}</span>
      ) : (
        <a class="cut row" href={run ? href("runs", run.run_id) : href("requests")} title={title}>
          <span class="cut">{title}</span>
          {run?.counts && (
            <span class="dim num nowrap">
              {t("tasks.of", { n: run.counts.ok, total: run.counts.total })}
              <span class="took"> · {duration(now() - Date.parse(run.started_at))}</span>
            </span>
          )}
        </a>
      )}
      {run && <Progress run={run} width={96} />}
      <span class="grow" />
      <span class="dim by" title={t("by", { who: name.label })}>
        {queue.ready > 0 && <span class="more">{t("queue.more_ready", { n: queue.ready })} · </span>}
        {t("by", { who: name.label })}
      </span>
      {!queue.stopping && <Act small action={stopQueue()} />}
      <Act small action={stopQueueNow(title, run?.counts?.ok ?? 0)} />
    </div>
  );
}

export function Strips(): JSX.Element {
  return (
    <>
      <NotLive />
      <Confirmations />
      <QueueStrip />
    </>
  );
}
