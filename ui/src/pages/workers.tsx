// The workers of the Redis server: where they are, what they do, when they were last heard of.
import type { ComponentChildren, JSX } from "preact";
import { useEffect } from "preact/hooks";
import { Act, commandOf, type Action } from "../actions";
import type { Worker } from "../api/types";
import { workerState } from "../states";
import { useCanAct, useTick, useWorld } from "../store";
import { t, titled } from "../text";
import { ago, exact } from "../time";
import { NewRows, useHold } from "../ui/hold";
import { Empty, Mark, Section } from "../ui/parts";
import { Reasons } from "../ui/problem";
import { Glyph } from "../ui/shapes";
import { useTint } from "../ui/tint";
import { readWorkers } from "../workers";

const READ_MS = 3000;

function facts(worker: Worker): [string, ComponentChildren][] {
  return [
    [t("worker.name"), <span class="mono">{worker.name}</span>],
    [t("worker.host"), worker.host],
    [t("worker.tasks"), t("tasks.of_places", { n: worker.tasks, places: worker.places })],
  ];
}

function order(worker: Worker, verb: "drain" | "stop"): Action {
  const label = t(`worker.${verb}`);
  return {
    label,
    command: commandOf("workers", verb, worker.id),
    method: "POST",
    path: `/api/workers/${encodeURIComponent(worker.id)}/${verb}`,
    body: {},
    question: () => ({ title: t(`worker.${verb}_q`, { name: worker.name }), text: t(`worker.${verb}_text`), facts: facts(worker), yes: label.replace(/…$/, ""), no: t("lock.keep"), danger: verb === "stop" }),
    done: t(`worker.${verb}_done`, { name: worker.name }),
    disabled: verb === "drain" && worker.state === "draining" ? t("worker.drains") : undefined,
    then: () => void readWorkers(),
  };
}

function Row({ worker }: { worker: Worker }): JSX.Element {
  useTick();
  const state = workerState(worker);
  const tint = useTint(worker.state);
  const seen = new Date(worker.seen_ms).toISOString();
  return (
    <div class={`item c-worker${tint}`} data-row tabIndex={0} data-id={worker.name}>
      <Mark state={state} />
      <div class="cut" title={worker.id}>
        <div class="name cut">{worker.name}</div>
        <div class="dim cut small">{worker.host}</div>
      </div>
      <span class={state.loud ? state.tone : ""}>{state.word}</span>
      <span class="row cut tags">
        {worker.tags.map((one) => (
          <span class="tag" key={one}>{one}</span>
        ))}
      </span>
      <span class="num mid right">{t("tasks.of_places", { n: worker.tasks, places: worker.places })}</span>
      <span class="num mid right" title={exact(seen)}>{ago(seen)}</span>
      <div class="cut mono small">
        <div class="cut">{worker.version}</div>
        <div class="dim cut" title={worker.commit}>{worker.commit?.slice(0, 12)}</div>
      </div>
      <span class="row acts">
        <Act small action={order(worker, "drain")} />
        <Act small action={order(worker, "stop")} />
      </span>
    </div>
  );
}

function Heads(): JSX.Element {
  return (
    <div class="item th c-worker" aria-hidden="true">
      <span />
      <span>{t("worker.name")}</span>
      <span>{t("request.state")}</span>
      <span>{t("worker.tags")}</span>
      <span class="right">{t("worker.tasks")}</span>
      <span class="right">{t("worker.seen")}</span>
      <span>{t("worker.version")}</span>
      <span />
    </div>
  );
}

function useReading(): void {
  const canAct = useCanAct();
  useEffect(() => {
    if (!canAct) return;
    void readWorkers();
    const timer = setInterval(() => !document.hidden && void readWorkers(), READ_MS);
    return () => clearInterval(timer);
  }, [canAct]);
}

export function Workers(): JSX.Element {
  const pool = useWorld((w) => w.pool);
  useReading();
  const hold = useHold([{ title: "", list: pool?.workers ?? [] }], (one) => one.id, "");
  if (!pool) return <div class="page"><Empty icon="workers" texts={titled("empty.redis")} command="TASUKI_REDIS=redis://HOST tasuki serve" /></div>;
  if (pool.problem)
    return (
      <div class="page">
        <div class="card finding">
          <Glyph name="triangle" tone="warn" />
          <div class="cut">
            <b class="b big">{pool.problem.error.message}</b>
            <Reasons body={pool.problem} />
          </div>
        </div>
      </div>
    );
  return (
    <div class="page">
      <Section title={t("nav.workers")} count={pool.workers.length} more={<span class="mono">{pool.server}</span>}>
        {pool.workers.length === 0 ? (
          <Empty icon="workers" texts={titled("empty.workers")} command={commandOf("worker", "--redis", pool.server)} />
        ) : (
          <>
            <Heads />
            <NewRows hold={hold} />
            <div class="list" {...hold.pointer}>
              {hold.groups.flatMap((group) => group.list).map((one) => (
                <Row key={one.id} worker={one} />
              ))}
            </div>
          </>
        )}
      </Section>
    </div>
  );
}
