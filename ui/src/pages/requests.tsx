// Requests and the queue: what runs, what comes next, what does not and why, what is done.
import { openQueueForm, openRequestForm } from "../ui/forms";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Act, menuItem, removeRequest, resumeRun, run, runNext, runRequest, startQueue, stopQueue, type QueueOptions } from "../actions";
import type { Request } from "../api/types";
import { useKey } from "../keys";
import { useRunError } from "../lastline";
import { go, href } from "../route";
import { requestState } from "../states";
import { useCanAct, useTick, useWorld } from "../store";
import { language, t, titled } from "../text";
import { ago, span, now, tookOf } from "../time";
import { NewRows, useHold } from "../ui/hold";
import { Menu } from "../ui/overlays";
import { By, Empty, Left, LockedTag, Mark, Search, Section, Seg } from "../ui/parts";
import { Icon } from "../ui/shapes";
import { useTint } from "../ui/tint";
import { nameOfHolder, shortId, shortRequest } from "../who";

const FAILED_READ = 20; // each is read apart: of more, the run is named and not its task
type Filter = "all" | "needs_input" | "ready" | "failed" | "done";

function Priority({ of }: { of: Request["priority"] }): JSX.Element {
  const level = 3 - Number(of.slice(1));
  return (
    <span class="row prio" title={of}>
      <svg width="12" height="12" viewBox="0 0 12 12" aria-hidden="true">
        {[0, 1, 2].map((i) => (
          <rect key={i} x={i * 4} y={8 - i * 3} width="3" height={4 + i * 3} rx=".8" fill={i < level ? "var(--ink-2)" : "var(--line-2)"} />
        ))}
      </svg>
      <span class="dim num small">{of}</span>
    </span>
  );
}

/** Why it is not in the queue, in words. */
function Why({ request }: { request: Request }): JSX.Element {
  const other = useWorld((w) => w.requests.find((one) => one.id === request.detail));
  const state = requestState(request.status);
  const lastRun = request.latest_run;
  const areFew = useWorld((w) => w.requests.filter((one) => one.status === "failed").length <= FAILED_READ);
  const failedIn = useRunError(areFew && request.status === "failed" ? lastRun : null).task;
  switch (request.status) {
    case "blocked":
      return (
        <>
          {t("request.waits_for")} <span class="mid">{other?.title ?? request.detail}</span>
        </>
      );
    case "failed":
    case "interrupted":
    case "cancelled":
      return (
        <>
          {failedIn ? <span class={state.tone}>{t("request.failed_in", { task: failedIn })}</span> : <span class={state.tone}>{state.word}</span>} {lastRun && !failedIn && <span class="dim">{t("thing.run")} {shortId(lastRun.run_id)}</span>}
        </>
      );
    case "done":
      return (
        <span class="dim">
          {lastRun?.ended_at ? t("request.done_in", { span: tookOf(lastRun) }) : state.word}
        </span>
      );
    case "broken": {
      const problems = (request.problems ?? []).map((one) => `${one.line}:${one.column} ${one.reason}`);
      return <span class="bad cut" title={problems.join("\n")}>{problems[0] ?? state.word}</span>;
    }
    default:
      return <span class={state.loud ? state.tone : "dim"}>{state.word}</span>;
  }
}

function StateCell({ request, position }: { request: Request; position: number }): JSX.Element {
  if (request.lock && request.lock.state === "held")
    return (
      <span class="row">
        <LockedTag lock={request.lock} />
        <By name={nameOfHolder(request.lock.holder)} wide />
        <Left lock={request.lock} />
      </span>
    );
  if (position === 1) return <span class="tag">{t("request.next")}</span>;
  return <Why request={request} />;
}

function Button({ request }: { request: Request }): JSX.Element | null {
  const lastRun = request.latest_run;
  const asks = (lastRun?.questions?.length ?? 0) > 0;
  if (asks && lastRun)
    return (
      <a class="btn s askb" href={href("runs", lastRun.run_id, lastRun.questions?.[0]?.task ?? "")}>
        {t("answer")}
      </a>
    );
  switch (request.status) {
    case "running":
      return lastRun && <a class="btn s" href={href("runs", lastRun.run_id)}>{t("run.open")}</a>;
    case "ready":
      return <Act small action={runRequest(request)} />;
    case "failed":
    case "cancelled":
      return <Act small action={runRequest(request, true)} hideIcon />;
    case "interrupted":
      return lastRun && <Act small action={resumeRun(lastRun)} hideIcon />;
    case "done":
    case "archived":
      return null;
    case "blocked":
      return null;
    default:
      return <button type="button" class="btn s" onClick={() => void openRequestForm(request)}>{t("edit")}</button>;
  }
}

function RequestMenu({ request }: { request: Request }): JSX.Element {
  const lastRun = request.latest_run;
  return (
    <Menu
      small
      label={`${t("more")} ${request.title}`}
      items={[
        menuItem(runRequest(request)),
        ...(lastRun ? [{ label: t("request.last_run"), hint: `tasuki runs show ${lastRun.run_id}`, run: () => go("runs", lastRun.run_id) }] : []),
        ...(lastRun ? [menuItem(resumeRun(lastRun))] : []),
        { label: t("edit"), hint: `tasuki request edit ${request.id}`, run: () => void openRequestForm(request) },
        menuItem(removeRequest(request)),
      ]}
    />
  );
}

function Row({ request, position, isChosen }: { request: Request; position: number; isChosen: boolean }): JSX.Element {
  useTick(request.status === "running" ? 1 : 15);
  const lastRun = request.latest_run;
  const tint = useTint(request.status);
  const asks = (lastRun?.questions?.length ?? 0) > 0;
  const when = lastRun ? (request.status === "running" ? span(now() - Date.parse(lastRun.started_at)) : ago(lastRun.ended_at ?? lastRun.started_at)) : "";
  const what = request.flow ?? (Array.isArray(request.run) ? `$ ${request.run.join(" ")}` : request.run ? `$ ${request.run}` : "");
  const open = (): void => (lastRun ? go("runs", lastRun.run_id) : void openRequestForm(request));
  const isControl = (event: Event): boolean => event.target instanceof Element && event.target.closest("a, button, [role=menu]") !== null;
  return (
    <div class={`item c-req opens${isChosen ? " sel" : ""}${tint}`} tabIndex={0} data-row data-id={request.id} onClick={(event) => !isControl(event) && open()} onKeyDown={(event) => event.key === "Enter" && event.target === event.currentTarget && open()}>
      <span class="num dim small right">{position > 0 ? position : ""}</span>
      <Mark state={requestState(asks ? "needs_input" : request.status)} />
      <div class="row cut">
        <span class="name cut">{request.title || request.id}</span>
        <span class="mono dim tiny" title={request.id}>
          {shortRequest(request.id)}
        </span>
      </div>
      <Priority of={request.priority} />
      <span class="mono dim cut what" title={what}>{what}</span>
      <div class="cut state-cell">
        <StateCell request={request} position={position} />
      </div>
      <span class="dim right num when">{when}</span>
      <span class="row acts">
        <Button request={request} />
        <RequestMenu request={request} />
      </span>
    </div>
  );
}

function AutoRun(): JSX.Element {
  const queue = useWorld((w) => w.queue);
  const canAct = useCanAct();
  const isOn = queue?.status === "running" && !queue.stopping;
  const title = useWorld((w) => w.requests.find((one) => one.id === w.queue?.request_id)?.title ?? w.queue?.request_id ?? "");
  const why = queue?.status === "running" && queue.stopping ? t("queue.stopping", { title }) : undefined;
  const start = (options: QueueOptions): void => void run(startQueue(options));
  return (
    <span class="row auto">
      <button type="button" class={`sw${isOn ? " on" : ""}`} role="switch" aria-checked={isOn} aria-label={t("queue.auto")} disabled={!canAct || why !== undefined} title={why ?? (isOn ? stopQueue().command : startQueue().command)} onClick={() => void run(isOn ? stopQueue() : startQueue())} />
      <b class="b">{t("queue.auto")}</b>
      <Menu
        small
        label={t("queue.options")}
        items={[
          { label: t("queue.until_empty"), hint: startQueue().command, disabled: why, run: () => start({}) },
          { label: t("queue.with_retry"), hint: startQueue({ retry: true }).command, disabled: why, run: () => start({ retry: true }) },
          { label: t("queue.with_limits"), hint: "tasuki queue run --max N --for D", disabled: why, run: () => void openQueueForm() },
        ]}
      />
    </span>
  );
}

export function Requests({ id }: { id: string | undefined }): JSX.Element {
  const all = useWorld((w) => w.requests);
  const queue = useWorld((w) => w.queue);
  const [filter, setFilter] = useState<Filter>("all");
  const [words, setWords] = useState("");
  const [isDoneShown, setDoneShown] = useState(false);
  useKey("n", () => void openRequestForm(null));
  const asks = (one: Request): boolean => (one.latest_run?.questions?.length ?? 0) > 0 || one.status === "needs_input";
  const inFilter = (one: Request, of: Filter): boolean => of === "all" || (of === "needs_input" ? asks(one) : one.status === of);
  const shown = all.filter((one) => inFilter(one, filter) && `${one.title} ${one.id} ${one.flow ?? ""}`.toLowerCase().includes(words.toLowerCase()));
  const positions = new Map(all.filter((one) => one.status === "ready").map((one, i) => [one.id, i + 1]));
  const running = shown.filter((one) => one.status === "running" || asks(one));
  const next = shown.filter((one) => one.status === "ready");
  const done = shown.filter((one) => one.status === "done" || one.status === "archived");
  const rest = shown.filter((one) => !running.includes(one) && !next.includes(one) && !done.includes(one));
  const n = (of: Filter): number => all.filter((one) => inFilter(one, of)).length;
  const rows = (list: Request[]): JSX.Element[] => list.map((one) => <Row key={one.id} request={one} position={positions.get(one.id) ?? 0} isChosen={one.id === id} />);
  const allDone = isDoneShown || filter === "done" || words !== "" || done.some((one) => one.id === id);
  const hold = useHold([running, next, rest, allDone ? done : done.slice(0, 1)].map((list, i) => ({ title: String(i), list })), (one) => one.id, `${filter} ${words} ${isDoneShown} ${id ?? ""}`);
  useEffect(() => document.querySelector("main .item.sel")?.scrollIntoView({ block: "nearest" }), [id]);
  const [heldRunning = [], heldNext = [], heldRest = [], shownDone = []] = hold.groups.map((one) => one.list);
  if (all.length === 0)
    return (
      <div class="page">
        <Empty icon="requests" texts={titled("empty.requests")} command={'tasuki request add "Say hello" -- echo hello'}>
          <button type="button" class="btn pri" onClick={() => void openRequestForm(null)}>
            <Icon name="plus" />
            {t("request.new")}
          </button>
        </Empty>
      </div>
    );
  return (
    <div class="page">
      <div class="row tools-row">
        <Seg
          label={t("filter")}
          value={filter}
          onChoose={setFilter}
          choices={[
            { value: "all", label: t("filter.all"), count: n("all") },
            { value: "needs_input", label: t("state.needs_input"), count: n("needs_input") },
            { value: "ready", label: t("state.ready"), count: n("ready") },
            { value: "failed", label: t("state.failed"), count: n("failed") },
            { value: "done", label: t("state.done"), count: n("done") },
          ]}
        />
        <Search label={t("filter")} value={words} onInput={setWords} />
        <span class="grow" />
        <AutoRun />
        <Act action={{ ...runNext(), disabled: queue?.status === "running" ? undefined : positions.size === 0 ? t("queue.nothing_ready") : undefined }} />
        <button type="button" class="btn pri" onClick={() => void openRequestForm(null)}>
          <Icon name="plus" />
          {t("request.new")}
        </button>
      </div>
      <div class="item th c-req" aria-hidden="true">
        <span />
        <span />
        <span />
        <span>{t("request.priority")}</span>
        <span>{t("request.runs_what")}</span>
        <span>{t("request.state")}</span>
        <span class="right">{t("request.last_run")}</span>
        <span />
      </div>
      <NewRows hold={hold} />
      <div class="contents" {...hold.pointer}>
      {heldRunning.length > 0 && (
        <Section title={t("requests.running")} count={heldRunning.length}>
          <div class="list">{rows(heldRunning)}</div>
        </Section>
      )}
      {(filter === "all" || filter === "ready") && (
        <Section title={t("requests.next")} count={heldNext.length}>
          <div class="list">
            {heldNext.length > 0 ? rows(heldNext) : <p class="dim pad">{titled("empty.queue", { n: rest.length }).slice(0, rest.length > 0 ? 2 : 1).join(language() === "en" ? ". " : t("stop"))}</p>}
          </div>
        </Section>
      )}
      {heldRest.length > 0 && (
        <Section title={t("requests.rest")} count={heldRest.length}>
          <div class="list">{rows(heldRest)}</div>
        </Section>
      )}
      {shownDone.length > 0 && (
        <Section
          title={t("requests.done")}
          count={done.length}
          more={
            done.length > shownDone.length && (
              <button type="button" class="linkish" onClick={() => setDoneShown(true)}>
                {t("requests.show", { n: done.length - shownDone.length })}
              </button>
            )
          }
        >
          <div class="list">{rows(shownDone)}</div>
        </Section>
      )}
      </div>
    </div>
  );
}
