// The first page: what waits for me, what broke, what runs.
import type { JSX } from "preact";
import { Act, resumeRun, startProcess } from "../actions";
import type { Lock, Process, Run, TaskState } from "../api/types";
import { allBroken, isAsking, openQuestions, openRunsOf, runningProcesses, type Broken } from "../broke";
import { useUsage } from "../cpu";
import { useLastError, useRunError } from "../lastline";
import { href } from "../route";
import { sentenceOf } from "../sentences";
import { howWord, lifeState, lockState, processState, runState } from "../states";
import { useTick, useWorld } from "../store";
import { calm, capital, count, t, titled } from "../text";
import { ageOf, ago, duration, now, span, tookOf, uptime } from "../time";
import { QuestionCard } from "../ui/answer";
import { ConfirmationList } from "../ui/confirmations";
import { NewRows, useHold } from "../ui/hold";
import { Hour } from "../ui/hour";
import { At, By, Empty, Mark, Section } from "../ui/parts";
import { Progress } from "../ui/progress";
import { Glyph } from "../ui/shapes";
import { nameOfHolder, nameOfWho, shortId } from "../who";

const BROKEN_MAX = 50;

export function commandLine(process: Process): string {
  return [process.command, ...process.args].join(" ");
}

export function exitText(process: Process): string {
  if (process.raw_status?.signal) return t("process.killed", { signal: process.raw_status.signal });
  return process.exit_code === undefined || process.exit_code === null ? t("process.ended_unknown") : t("process.exited", { code: process.exit_code });
}

function BrokenProcess({ process }: { process: Process }): JSX.Element {
  const line = useLastError(process);
  useTick();
  const state = processState(process);
  const stopped = process.state?.["Failed"]?.stopped_at;
  const by = nameOfWho(process.started_by);
  const more = [process.restarts > 0 ? t("process.restarts", { n: process.restarts }) : "", stopped ? ago(stopped) : "", by ? t("by", { who: by.label }) : ""].filter(Boolean).join(" · ");
  return (
    <div class="item broke">
      <Mark state={state} />
      <a class="cut" href={href("processes", process.id)} data-row>
        <div class="name cut">{process.id}</div>
        <div class="dim cut small">{t("thing.process")}</div>
      </a>
      <div class="cut">
        <div class="cut">
          {exitText(process)}{t("comma")}<b class="b">{state.word}</b> <span class="dim">· {more}</span>
        </div>
        {line && <div class="err cut" title={line}>{line}</div>}
      </div>
      <span class="row acts">
        <a class="btn s" href={href("processes", process.id)}>
          {t("log")}
        </a>
        <Act small action={startProcess(process)} />
      </span>
    </div>
  );
}

function BrokenRun({ run }: { run: Run }): JSX.Element {
  const { task, line } = useRunError(run);
  useTick();
  const took = run.ended_at ? tookOf(run) : "";
  const what = run.status === "INTERRUPTED" ? t("run.was_interrupted") : task ? t("run.failed_in", { task }) : t("state.failed");
  const by = nameOfWho(run.started_by);
  const counts = run.counts ? t("run.counts", { ok: run.counts.ok, rest: run.counts.not_reached }) : "";
  return (
    <div class="item broke">
      <Mark state={runState(run.status)} />
      <a class="cut" href={href("runs", run.run_id)} data-row>
        <div class="name cut">{run.flow}</div>
        <div class="dim cut small" title={run.run_id}>
          {t("thing.run")} {shortId(run.run_id)}
        </div>
      </a>
      <div class="cut">
        <div class="cut">
          {what} <span class="dim">· {[took && t("run.after", { took }), counts, run.ended_at ? ago(run.ended_at) : "", by ? t("by", { who: by.label }) : ""].filter(Boolean).join(" · ")}</span>
        </div>
        {line && <div class="err cut" title={line}>{line}</div>}
      </div>
      <span class="row acts">
        <a class="btn s" href={href("runs", run.run_id, ...(task ? [task] : []))}>
          {t("log")}
        </a>
        <Act small action={resumeRun(run)} />
      </span>
    </div>
  );
}

function BrokenLock({ lock }: { lock: Lock }): JSX.Element {
  const name = nameOfHolder(lock.holder);
  const life = lifeState(lock.holder?.alive, lock.holder?.how);
  const age = ageOf(lock);
  useTick();
  return (
    <div class="item broke">
      <Mark state={lockState(lock)} />
      <a class="cut" href={href("locks")} data-row>
        <div class="name cut">{lock.id ?? t("lock.kind.queue")}</div>
        <div class="dim cut small">{t(`lock.kind.${lock.kind}`)}</div>
      </a>
      <div class="cut">
        <div class="cut">
          {lock.holder?.alive === false ? `${capital(lockState(lock).word)}${t("colon")}${howWord(lock.holder.how)}` : `${lockState(lock).word}${t("comma")}${life.word}`} <span class="dim">· {[name.label, name.isKnown && lock.holder?.pid ? `pid ${lock.holder.pid}` : "", age !== null ? t("lock.held_for", { span: span(age) }) : ""].filter(Boolean).join(" · ")}</span>
        </div>
        {lock.kind === "sprint" && <div class="dim cut small">{t("sprint.blocked")}</div>}
      </div>
      <span class="row acts">
        <a class="btn s" href={href("locks")}>
          {t("look")}
        </a>
      </span>
    </div>
  );
}

function BrokenRow({ one }: { one: Broken }): JSX.Element {
  if (one.kind === "process") return <BrokenProcess process={one.process} />;
  if (one.kind === "run") return <BrokenRun run={one.run} />;
  if (one.kind === "lock") return <BrokenLock lock={one.lock} />;
  return (
    <div class="item broke">
      <Glyph name="cross" tone="bad" label="FAIL" />
      <a class="name cut" href={href("doctor")} data-row>
        {one.name}
      </a>
      <div class="cut">
        <div class="cut">{one.summary}</div>
      </div>
      <span class="row acts">
        <a class="btn s" href={href("doctor")}>
          {t("look")}
        </a>
      </span>
    </div>
  );
}

function RunRow({ run }: { run: Run }): JSX.Element {
  const detail = useWorld((w) => w.openRuns[run.run_id]);
  const asks = useWorld((w) => isAsking(w, run.run_id));
  const request = useWorld((w) => w.requests.find((one) => one.id === run.request_id));
  useTick();
  const named = (state: TaskState): string[] => (detail?.tasks ?? []).filter((task) => task.state === state).map((task) => task.task);
  const running = named("running").slice(0, 3).join(", "), retried = named("retry"), first = retried[0];
  const lock = request?.lock ?? null;
  return (
    <a class="item c-run" href={href("runs", run.run_id)} data-row>
      <Mark state={runState(asks ? "NEEDS_INPUT" : run.status)} />
      <span class="name cut">{run.flow}</span>
      <span class="cut dim">
        {running && (
          <>
            {t("run.runs")} <span class="mid">{running}</span>
          </>
        )}
        {first && `${running && t("comma")}${retried.length === 1 ? t("run.retries.one", { task: first }) : t("run.retries.many", { n: retried.length })}`}
        {request && `${running || first ? " · " : ""}${calm(request.title)}`}
      </span>
      <Progress run={detail ?? run} />
      <By name={nameOfWho(run.started_by) ?? (lock ? nameOfHolder(lock.holder) : null)} />
      <span class="mid num w1400 right">{run.counts && t("tasks.of", { n: run.counts.ok, total: run.counts.total })}</span>
      <time class="dim right num">{duration(now() - Date.parse(run.started_at))}</time>
    </a>
  );
}

function ProcessRow({ process }: { process: Process }): JSX.Element {
  const usage = useUsage(process);
  useTick();
  const state = processState(process);
  const started = process.state?.["Running"]?.started_at;
  return (
    <a class="item c-proc" href={href("processes", process.id)} data-row>
      <Mark state={state} />
      <span class="name cut">{process.id}</span>
      <span class={`cut ${state.tone === "warn" ? "warn" : "dim"}${state.loud ? " said" : ""}`} title={state.loud ? (process.detail ?? undefined) : commandLine(process)}>{state.loud ? [state.word, process.detail].filter(Boolean).join(t("colon")) : commandLine(process)}</span>
      <Hour process={process} />
      <By name={nameOfWho(process.started_by)} />
      <span class="num mid w1400 right">{usage.cpu}</span>
      <span class="num mid w1400 right">{usage.memory}</span>
      <time class="dim right num">{started ? uptime(now() - Date.parse(started)) : ""}</time>
    </a>
  );
}

function Running({ rows }: { rows: JSX.Element[] }): JSX.Element {
  return (
    <section class="sec" aria-label={t("overview.h_processes")}>
      <header class="c-proc heads">
        <span class="two-columns">
          <h2>{t("overview.h_processes")}</h2> <span class="c">{rows.length}</span>
        </span>
        <span />
        <span>{t("process.last_hour")}</span>
        <span>{t("process.by")}</span>
        <span class="w1400 right">cpu</span>
        <span class="w1400 right">{t("process.memory")}</span>
        <span class="right">{t("process.up")}</span>
      </header>
      <div class="list">{rows}</div>
    </section>
  );
}

function Holds(): JSX.Element {
  const locks = useWorld((w) => w.locks);
  const requests = useWorld((w) => w.requests);
  useTick();
  return (
    <Section title={t("overview.h_holds")} count={locks.length} more={<a href={href("locks")}>{t("overview.all_locks")}</a>}>
      <div class="list">
        {locks.length === 0 && <p class="dim pad">{titled("empty.locks")[0]}</p>}
        {locks.slice(0, 8).map((lock) => {
          const name = nameOfHolder(lock.holder);
          const isDead = lock.holder?.alive === false;
          const age = ageOf(lock);
          const title = lock.kind === "request" ? (requests.find((one) => one.id === lock.id)?.title ?? lock.id) : (lock.id ?? t("lock.kind.queue"));
          return (
            <div class="item holds" key={`${lock.kind}${lock.id}`}>
              <Mark state={lockState(lock)} />
              <div class="cut">
                <div class="cut">
                  <span class="name">{title}</span> {lock.kind !== "queue" && <span class="dim">{t(`lock.kind.${lock.kind}`)}</span>}
                </div>
                <div class="cut mid small">
                  {name.label}
                  {name.isKnown && name.note && `${t("colon")}${name.note}`}
                  {isDead ? `${t("comma")}${lifeState(false, lock.holder?.how).word}` : lock.holder?.run_id ? `${t("comma")}${t("thing.run")} ${shortId(lock.holder.run_id)}` : ""}
                </div>
              </div>
              <span class="dim small num">{age === null ? "" : span(age)}</span>
            </div>
          );
        })}
      </div>
    </Section>
  );
}

function Happened(): JSX.Element {
  const events = useWorld((w) => w.events);
  useTick();
  const shown = events.filter((one) => !/^(task\.(started|ended)|lock\.(acquired|released|renewed)|process\.created|channel\.)/.test(one.type)).sort((a, b) => a.time.localeCompare(b.time)).slice(-8).reverse();
  return (
    <Section title={t("overview.h_events")} more={<a href={href("events")}>{t("overview.all_events")}</a>}>
      <div class="list happened">
        {shown.map((event) => {
          const one = sentenceOf(event);
          return (
            <div class="row" key={event.id}>
              <At class="dim small num" time={event.time}>
                {span(now() - Date.parse(event.time))}
              </At>
              <Glyph name={one.glyph} tone={one.tone} />
              <span class="mid" title={`${one.before}${one.thing}${one.after}`}>
                {one.before}
                <b class="b">{one.thing}</b>
                {one.after}
              </span>
            </div>
          );
        })}
      </div>
    </Section>
  );
}

const keyOf = (one: Broken): string => (one.kind === "process" ? `p ${one.process.id}` : one.kind === "run" ? `r ${one.run.run_id}` : one.kind === "lock" ? `${one.lock.kind} ${one.lock.id}` : `d ${one.name}`);

export function Overview(): JSX.Element {
  const world = useWorld((w) => w);
  const asks = openQuestions(world), broken = allBroken(world), runs = openRunsOf(world), processes = runningProcesses(world);
  const asked = world.confirmations.length, waits = asks.length + asked;
  const isQuiet = waits + broken.length + runs.length + processes.length === 0;
  const lists = [
    asks.map((one) => <QuestionCard key={`q ${one.run.run_id} ${one.question.id}`} open={one} />),
    broken.slice(0, BROKEN_MAX).map((one) => <BrokenRow key={keyOf(one)} one={one} />),
    runs.map((one) => <RunRow key={one.run_id} run={one} />),
    processes.map((one) => <ProcessRow key={one.id} process={one} />),
  ];
  const hold = useHold(lists.map((list) => ({ title: "", list })), (one) => String(one.key), "");
  const [questions = [], breaks = [], running = [], up = []] = hold.groups.map((group) => group.list);
  return (
    <div class="page">
      <NewRows hold={hold} />
      <div class="two">
        <div {...hold.pointer}>
          {isQuiet ? (
            <Empty icon="overview" texts={titled("empty.overview")} />
          ) : (
            <p class="sentence">
              {waits > 0 && <span class="ask">{count(asked > 0 ? "overview.waits" : "overview.asks", waits)} </span>}
              {broken.length > 0 && <span>{count("overview.broke", broken.length)} </span>}
              <span class="dim">{t("overview.running", { n: runs.length + processes.length })}</span>
            </p>
          )}
          {asked + questions.length > 0 && (
            <Section title={t("overview.h_asks")} count={asked + questions.length}>
              <div class="stack">
                <ConfirmationList />
                {questions}
              </div>
            </Section>
          )}
          {breaks.length > 0 && (
            <Section title={t("overview.h_broke")} count={hold.isHeld ? breaks.length : broken.length}>
              <div class="list">{breaks}</div>
            </Section>
          )}
          {running.length > 0 && (
            <Section title={t("overview.h_runs")} count={running.length}>
              <div class="list">{running}</div>
            </Section>
          )}
          {up.length > 0 && <Running rows={up} />}
        </div>
        <aside aria-label={t("overview.aside")}>
          <Holds />
          <Happened />
        </aside>
      </div>
    </div>
  );
}
