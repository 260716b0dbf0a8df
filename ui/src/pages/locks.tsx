// Locks, the sprint among them, and owners: who holds what, alive or dead and how that is known.
import type { ComponentChildren, JSX } from "preact";
import { Act, claimWorkflow, forceLock, releaseLock, releaseSprint, releaseWorkflow, stopQueueNow } from "../actions";
import { callerInstance } from "../api/http";
import type { Agent, Lock, Workflow } from "../api/types";
import { href } from "../route";
import { lifeState, lockState } from "../states";
import { useTick, useWorld } from "../store";
import { language, t, titled } from "../text";
import { ageOf, clock, left, leftOf, span, now } from "../time";
import type { Question } from "../ui/confirm";
import { NewRows, useHold } from "../ui/hold";
import { Avatar, Empty, Mark, Section, StateText } from "../ui/parts";
import { Glyph } from "../ui/shapes";
import { useTint } from "../ui/tint";
import { nameOfAgent, nameOfHolder, nameOfOwner, shortId, shortRequest } from "../who";

function lockFacts(lock: Lock): [string, ComponentChildren][] {
  const holder = lock.holder;
  const facts: [string, ComponentChildren][] = [
    [t("fact.lock"), <span class="mono">{lock.id ?? lock.kind}</span>],
    [t("fact.holder"), nameOfHolder(holder).label],
    ["PID", <>{holder?.pid ?? "?"} <StateText state={lifeState(holder?.alive, holder?.how)} /></>],
  ];
  if (holder?.session_id) facts.push([t("fact.session"), holder.session_id]);
  if (lock.created_at) facts.push([t("run.started"), <>{clock(lock.created_at)} <span class="dim">{t("time.ago", { span: span(ageOf(lock) ?? 0) })}</span></>]);
  if (lock.epic_spec) facts.push(["Epic", <span class="mono">{lock.epic_spec}</span>]);
  return facts;
}

export function forceQuestion(lock: Lock): Question {
  const isDead = lock.holder?.alive === false;
  return { title: t("lock.force_q", { lock: lock.id ?? lock.kind }), text: isDead ? t("lock.force_dead") : t("lock.force_alive", { who: nameOfHolder(lock.holder).label }), facts: lockFacts(lock), yes: t("lock.force_yes"), no: t("lock.keep"), danger: !isDead, seconds: 30 };
}

export function sprintQuestion(lock: Lock): Question {
  return { title: t("sprint.release_q"), text: lock.state === "zombie" ? t("sprint.zombie") : t("sprint.alive"), facts: lockFacts(lock), yes: t("sprint.release_yes"), no: t("lock.keep"), danger: lock.state !== "zombie", seconds: 30 };
}

function Button({ lock }: { lock: Lock }): JSX.Element | null {
  const run = lock.holder?.run_id;
  const title = useWorld((w) => w.requests.find((one) => one.id === lock.request_id)?.title ?? "");
  const finished = useWorld((w) => w.openRuns[run ?? ""]?.counts?.ok ?? 0);
  if (lock.kind === "sprint") return <Act small action={releaseSprint(lock, () => sprintQuestion(lock))} />;
  if (lock.holder?.instance && lock.holder.instance === callerInstance()) return <Act small action={releaseLock(lock)} />;
  if (lock.kind === "queue") return lock.holder?.alive === true ? <Act small action={{ ...stopQueueNow(title, finished), label: t("queue.stop_dots"), tone: undefined }} /> : null;
  if (run && lock.kind === "request") return <a class="btn s" href={href("runs", run)}>{t("run.open")}</a>;
  return lock.kind === "name" ? <Act small action={forceLock(lock, () => forceQuestion(lock))} /> : null;
}

function LockRow({ lock }: { lock: Lock }): JSX.Element {
  const title = useWorld((w) => (lock.kind === "request" ? w.requests.find((one) => one.id === lock.id)?.title : undefined));
  useTick();
  const age = ageOf(lock), rest = leftOf(lock);
  const name = nameOfHolder(lock.holder);
  const state = lockState(lock), life = lifeState(lock.holder?.alive, lock.holder?.how);
  const tint = useTint(`${lock.state} ${lock.holder?.alive}`);
  const waiters = lock.waiters?.length ? ` · ${t("lock.wait", { n: lock.waiters.length, who: lock.waiters.map((one) => one.label ?? "?").join(", ") })}` : "";
  const detail = lock.kind === "request" ? ` · ${shortRequest(lock.id ?? "")}` : lock.epic_spec ? ` · ${lock.epic_spec}` : "";
  const more = [name.isKnown && lock.holder?.pid ? `pid ${lock.holder.pid}` : "", lock.holder?.hostname ?? "", lock.holder?.run_id ? `${t("thing.run")} ${shortId(lock.holder.run_id)}` : ""].filter(Boolean).join(" · ");
  return (
    <div class={`item c-lock${tint}`} data-row tabIndex={0} data-id={lock.id ?? lock.kind}>
      <Mark state={state} />
      <div class="cut">
        <div class="name cut" title={lock.id ?? undefined}>{title ?? lock.id ?? t("lock.kind.queue")}</div>
        <div class="dim cut small" title={lock.epic_spec ?? lock.id ?? undefined}>
          {lock.kind === "queue" ? t("lock.one_queue") : t(`lock.kind.${lock.kind}`)}
          {detail}
          {waiters}
        </div>
      </div>
      <span class={state.loud ? state.tone : ""}>{state.word}</span>
      <div class="row cut holder">
        <Avatar name={name} gone={lock.holder?.alive !== true} />
        <div class="cut">
          <div class="cut" title={[name.label, name.note].filter(Boolean).join(" ")}>
            <b class="b">{name.label}</b> <span class="mid">{name.note}</span>
          </div>
          <div class="dim cut small" title={[more, lock.holder?.run_id].filter(Boolean).join(" · ")}>{more}</div>
        </div>
      </div>
      <div class={`cut life ${life.loud ? life.tone : "mid"}`}>
        <StateText state={life} />
      </div>
      <span class="mid right num">
        <span class="dim on-phone">{t("locks.held_for")} </span>
        {age === null ? "" : span(age)}
      </span>
      <span class="num mid right">
        <span class="dim on-phone">{t("locks.expires")} </span>
        {lock.expires_at === null || lock.kind === "sprint" ? t("lock.never") : lock.expired || rest === 0 ? t("lock.expired") : rest === null ? "" : left(rest)}
      </span>
      <span class="row acts">
        <Button lock={lock} />
      </span>
    </div>
  );
}

export function ownerQuestion(workflow: Workflow): Question {
  const name = nameOfOwner(workflow);
  return {
    title: t("own.force_q", { id: workflow.ulTaskId }),
    text: t("own.force_text", { who: name.label }),
    facts: [
      [t("fact.workflow"), workflow.ulTaskId],
      [t("fact.owner"), name.label],
      ["PID", <>{workflow.ownerPid ?? "?"} <StateText state={lifeState(workflow.ownerAlive, workflow.how)} /></>],
    ],
    yes: t("own.force_yes"),
    no: t("lock.keep"),
    danger: true,
    seconds: 30,
  };
}

function OwnerRow({ workflow }: { workflow: Workflow }): JSX.Element {
  useTick();
  const name = nameOfOwner(workflow);
  const life = lifeState(workflow.ownerAlive, workflow.how);
  const isMine = workflow.ownerInstanceId !== null && workflow.ownerInstanceId === callerInstance();
  return (
    <div class="item c-lock" data-row tabIndex={0} data-id={workflow.ulTaskId}>
      <span class="mark" title="owned">
        <Glyph name="key" tone="mid" label={t("state.owned")} />
      </span>
      <div class="cut">
        <div class="name cut">{workflow.ulTaskId}</div>
        <div class="dim cut small">{t("thing.workflow")}</div>
      </div>
      <span>{t("state.owned")}</span>
      <div class="row cut holder">
        <Avatar name={name} gone={workflow.ownerAlive !== true} />
        <div class="cut">
          <div class="cut" title={[name.label, name.note].filter(Boolean).join(" ")}>
            <b class="b">{name.label}</b> <span class="mid">{name.isKnown ? name.note : ""}</span>
          </div>
          <div class="dim cut small" title={workflow.ownerInstanceId ?? undefined}>{workflow.ownerInstanceId ?? ""}</div>
        </div>
      </div>
      <div class={`cut life ${life.loud ? life.tone : "mid"}`}>
        <StateText state={life} />
      </div>
      <span class="mid right num">
        <span class="dim on-phone">{t("locks.owned_for")} </span>
        {workflow.claimed_at ? span(now() - Date.parse(workflow.claimed_at)) : ""}
      </span>
      <span />
      <span class="row acts">{isMine ? <Act small action={releaseWorkflow(workflow)} /> : <Act small action={claimWorkflow(workflow, () => ownerQuestion(workflow))} />}</span>
    </div>
  );
}

function Heads({ owner }: { owner: boolean }): JSX.Element {
  return (
    <div class="item th c-lock" aria-hidden="true">
      <span />
      <span>{owner ? t("fact.workflow") : t("fact.lock")}</span>
      <span>{t("request.state")}</span>
      <span>{owner ? t("fact.owner") : t("fact.holder")}</span>
      <span>{t("locks.alive")}</span>
      <span class="right">{owner ? t("locks.owned_for") : t("locks.held_for")}</span>
      <span class="right">{owner ? "" : t("locks.expires")}</span>
      <span />
    </div>
  );
}

/** Where an agent works, what it holds and what it waits for. */
function AgentRow({ agent }: { agent: Agent }): JSX.Element {
  useTick();
  const name = nameOfAgent(agent);
  const things = (list: { kind?: string; id?: string | null }[] | undefined): string => (list ?? []).map((one) => (one.kind === "run" && one.id ? shortId(one.id) : (one.id ?? one.kind ?? ""))).join(", ");
  const holds = things(agent.holding), waits = things(agent.waiting);
  return (
    <div class="item c-agent" data-row tabIndex={0}>
      <Avatar name={name} gone={agent.alive === false} />
      <div class="cut">
        <span class="name">{name.label}</span> <span class="mid">{name.note}</span>
        <div class="dim cut small">{[agent.directory ?? "", agent.branch ?? ""].filter(Boolean).join(" · ")}</div>
      </div>
      <div class={`cut life ${agent.alive === false ? "warn" : "mid"}`}>
        <StateText state={lifeState(agent.alive, agent.how)} />
      </div>
      <span class="cut mid" title={[holds, waits].filter(Boolean).join(" · ")}>{[holds && t("agent.holds", { what: holds }), waits && t("agent.waits", { what: waits })].filter(Boolean).join(" · ")}</span>
      <span class="mid right num">{agent.since ? span(now() - Date.parse(agent.since)) : ""}</span>
    </div>
  );
}

export function Locks(): JSX.Element {
  const locks = useWorld((w) => w.locks);
  const workflows = useWorld((w) => w.workflows);
  const agents = useWorld((w) => w.agents);
  const order = { sprint: 0, queue: 1, request: 2, name: 3 };
  const sorted = [...locks].sort((a, b) => Number(a.holder?.alive !== false) - Number(b.holder?.alive !== false) || order[a.kind] - order[b.kind] || (a.id ?? "").localeCompare(b.id ?? ""));
  const dead = locks.filter((one) => one.holder?.alive === false).length;
  const lists = [
    sorted.map((one) => <LockRow key={`lock ${one.kind}:${one.id}`} lock={one} />),
    workflows.map((one) => <OwnerRow key={`owner ${one.ulTaskId}`} workflow={one} />),
    (agents ?? []).map((one) => <AgentRow key={`agent ${one.instance}`} agent={one} />),
  ];
  const hold = useHold(lists.map((list) => ({ title: "", list })), (one) => String(one.key), "");
  const [held = [], owned = [], here = []] = hold.groups.map((group) => group.list);
  return (
    <div class="page">
      <NewRows hold={hold} />
      <div class="contents" {...hold.pointer}>
        <Section title={t("locks.title")} count={held.length} more={dead > 0 ? t("locks.dead", { n: dead }) : undefined}>
          {held.length === 0 ? (
            <Empty icon="locks" texts={titled("empty.locks")} command="tasuki lock run NAME -- CMD" />
          ) : (
            <>
              <Heads owner={false} />
              <div class="list">{held}</div>
            </>
          )}
        </Section>
        <Section title={t("locks.owners")} count={owned.length}>
          {owned.length === 0 ? (
            <p class="dim pad">{titled("empty.owners").join(language() === "en" ? ". " : t("stop"))}</p>
          ) : (
            <>
              <Heads owner />
              <div class="list">{owned}</div>
            </>
          )}
        </Section>
        {here.length > 0 && (
          <Section title={t("nav.here")} count={here.length}>
            <div class="list">{here}</div>
          </Section>
        )}
      </div>
    </div>
  );
}
