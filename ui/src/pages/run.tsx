// One run: facts, questions, graph, bars, and the task that is chosen.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Act, cancelRun, menuItem, resumeRun, commandOf } from "../actions";
import { ApiError, call } from "../api/http";
import type { Graph, Lock, RunDetail, Task } from "../api/types";
import { useKey } from "../keys";
import { GraphView } from "../graph/view";
import { TaskLog } from "../lazy";
import { refresh } from "../live";
import { go, href } from "../route";
import { runState, taskState } from "../states";
import { useCanAct, useTick, useWorld } from "../store";
import { t, titled } from "../text";
import { clock, duration, exact, now, tookOf } from "../time";
import { AnswerForm, useQuestions } from "../ui/answer_form";
import { Menu } from "../ui/overlays";
import { By, copy, Empty, IconButton, Left, LockedTag, Seg, Skeleton, StateTag, StateText } from "../ui/parts";
import { Progress } from "../ui/progress";
import { nameOfHolder, nameOfWho, shortId } from "../who";
import { TaskAttempts, TaskDetails } from "./task_details";

/** An open run is in the world, if need be from the next look on; one that has ended is read once. */
function useRun(id: string): RunDetail | "missing" | null {
  const open = useWorld((w) => w.openRuns[id]);
  const status = useWorld((w) => w.runs.find((one) => one.run_id === id)?.status);
  const [read, setRead] = useState<RunDetail | "missing" | null>(null);
  const canRead = useCanAct();
  useEffect(() => {
    if (open || !canRead) return;
    if (status === "RUNNING" || status === "NEEDS_INPUT") void refresh();
    let isMine = true;
    call<RunDetail>("GET", `/api/runs/${encodeURIComponent(id)}`).then(
      (one) => isMine && setRead(one),
      (problem) => isMine && problem instanceof ApiError && setRead("missing"),
    );
    return () => void (isMine = false);
  }, [id, open === undefined, status, canRead]);
  return open ?? read;
}

/** Attempts, the next try and what was written to the channel are read apart, at most once a second; so are the tasks of a run that has more
 * than 1,000. */
function useTasks(run: RunDetail | "missing" | null): RunDetail | "missing" | null {
  const [more, setMore] = useState<{ id: string; tasks: Task[] }>({ id: "", tasks: [] });
  const lastRead = useRef(0);
  const id = run && run !== "missing" ? run.run_id : "";
  const key = run && run !== "missing" ? `${id} ${run.status} ${run.counts?.done ?? 0} ${run.tasks.map((one) => `${one.state[0] ?? ""}${one.attempt ?? ""}`).join("")}` : "";
  const canRead = useCanAct();
  const wanted = useRef(id);
  wanted.current = id; // an answer counts although the run has changed since: in a storm it always has
  useEffect(() => {
    if (!key || !canRead) return;
    const read = async (): Promise<void> => {
      lastRead.current = performance.now();
      const tasks: Task[] = [];
      let cursor: string | null = "";
      while (wanted.current === id && cursor !== null) {
        const page: { tasks: Task[]; cursor: string | null } = await call("GET", `/api/runs/${id}/tasks?attempts=true&limit=1000${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`);
        tasks.push(...page.tasks);
        cursor = page.cursor;
      }
      if (wanted.current === id) setMore({ id, tasks });
    };
    const timer = setTimeout(() => read().catch(() => undefined), Math.max(0, lastRead.current + 1000 - performance.now()));
    return () => clearTimeout(timer);
  }, [key, canRead]);
  if (!run || run === "missing" || more.id !== id) return run;
  const known = new Map(more.tasks.map((one) => [one.task, one]));
  const named = new Set(run.tasks.map((one) => one.task));
  const others = (run.tasks_left_out ?? 0) > 0 ? more.tasks.filter((one) => !named.has(one.task)) : [];
  return { ...run, tasks: [...run.tasks.map((one) => ({ ...known.get(one.task), ...one })), ...others] };
}

/** Tasks that were spawned and jumps that were taken belong to it: it is read again, at most once a second, when the run has more tasks, or
 * more starts than tasks that have ended or run. */
function useGraph(id: string, run: RunDetail | "missing" | null): Graph | null {
  const [graph, setGraph] = useState<{ id: string; graph: Graph } | null>(null);
  const lastRead = useRef(0);
  const counts = run && run !== "missing" ? run.counts : undefined;
  const running = run && run !== "missing" ? run.tasks.filter((one) => one.state === "running").length : 0;
  const isOpen = run !== null && run !== "missing" && run.ended_at === null;
  const key = counts ? `${isOpen} ${counts.total} ${isOpen ? (counts.steps ?? 0) - counts.done - running : ""}` : "";
  const canRead = useCanAct();
  const wanted = useRef(id);
  wanted.current = id;
  useEffect(() => {
    if (!canRead) return;
    const read = (): void => {
      lastRead.current = performance.now();
      call<{ graph: Graph }>("GET", `/api/runs/${encodeURIComponent(id)}/graph?format=json`).then((one) => wanted.current === id && setGraph({ id, graph: one.graph }), () => undefined);
    };
    const timer = setTimeout(read, graph?.id === id ? Math.max(0, lastRead.current + 1000 - performance.now()) : 0);
    return () => clearTimeout(timer);
  }, [id, key, canRead]);
  return graph?.id === id ? graph.graph : null;
}

/** What a person wants to see first: what asks, then what failed or was interrupted, then what runs, then the last one that ended. */
function firstTask(tasks: Task[]): string {
  for (const state of ["asks", "failed", "interrupted", "running", "retry"]) {
    const found = tasks.find((one) => one.state === state);
    if (found) return found.task;
  }
  return tasks.filter((one) => one.started_at).pop()?.task ?? tasks[0]?.task ?? "";
}

function RunFacts({ run, lock }: { run: RunDetail; lock: Lock | null }): JSX.Element {
  const request = useWorld((w) => w.requests.find((one) => one.id === run.request_id));
  useTick();
  const isOpen = run.status === "RUNNING" || run.status === "NEEDS_INPUT";
  const by = nameOfWho(run.started_by) ?? (lock ? nameOfHolder(lock.holder) : null);
  const canResume = run.status === "FAILED" || run.status === "INTERRUPTED" || run.status === "CANCELLED" || run.status === "NEEDS_INPUT";
  return (
    <div class="run-facts">
      <div class="row facts-row">
        <span class="on-phone">
          <StateTag state={runState(run.status)} />
        </span>
        <span class="row num">
          <span class="dim">{t("run.tasks")}</span> {run.counts && t("tasks.ok_of", { n: run.counts.ok, total: run.counts.total })}
          <Progress run={run} width={110} />
        </span>
        <span class="num">
          <span class="dim">{isOpen ? t("run.elapsed") : t("run.took")}</span> {tookOf(run, isOpen)}
        </span>
        <span class="row">
          <span class="dim">{t("run.started")}</span>
          <time dateTime={run.started_at} title={exact(run.started_at)}>
            {clock(run.started_at)}
          </time>
          {by && <span class="dim">{t("run.by")}</span>}
          {by && <By name={by} />}
        </span>
        {run.request_id && (
          <span class="cut">
            <span class="dim">{t("run.request")}</span> <a href={href("requests", run.request_id)}>{request?.title ?? run.request_id}</a>
          </span>
        )}
        {lock && lock.state === "held" && (
          <span class="row">
            <span class="dim">{t("run.lock")}</span>
            <LockedTag lock={lock} />
            <Left lock={lock} />
          </span>
        )}
        {run.reason && <span class="bad cut">{run.reason}</span>}
      </div>
      <span class="row acts">
        {isOpen ? <Act small action={cancelRun(run)} /> : canResume && <Act small action={resumeRun(run)} />}
        <Menu
          small
          label={t("more")}
          items={[
            menuItem(resumeRun(run)),
            menuItem(cancelRun(run)),
            menuItem(cancelRun(run, true)),
            { label: t("copy.show_command"), hint: commandOf("runs", "show", run.run_id), run: () => void copy(commandOf("runs", "show", run.run_id)) },
            { label: t("copy.id"), hint: run.run_id, run: () => void copy(run.run_id) },
          ]}
        />
      </span>
    </div>
  );
}

type Tab = "log" | "attempts" | "channel" | "details";

function TaskPanel({ run, task, command }: { run: RunDetail; task: Task; command: string | undefined }): JSX.Element {
  const [tab, setTab] = useState<Tab>("log");
  useTick();
  const isOver = run.status !== "RUNNING" && run.status !== "NEEDS_INPUT";
  const state = taskState(task.state === "blocked" && !isOver ? "waiting" : task.state);
  const channel = Object.keys(task.writes ?? {}).length;
  const last = task.attempts?.[task.attempts.length - 1];
  const took = task.state === "retry" && task.next_try_at ? t("task.in", { span: duration(Math.max(0, Date.parse(task.next_try_at) - now())) }) : last && (last.ended_at || task.state === "running") ? duration((last.ended_at ? Date.parse(last.ended_at) : now()) - Date.parse(last.started_at), Boolean(last.ended_at)) : "";
  return (
    <section class="task" aria-label={task.task}>
      <div class="row task-head">
        <StateText state={{ ...state, word: "" }} />
        <b class="b cut">{task.task}</b>
        <span class={`row num nowrap ${state.loud ? state.tone : "dim"}`}>
          <span aria-live="polite">{state.word}</span>
          <span>{took}</span>
        </span>
        <span class="grow" />
        <Seg
          label={t("task.tabs")}
          value={tab}
          onChoose={setTab}
          choices={[
            { value: "log", label: t("log") },
            { value: "attempts", label: t("task.attempts"), count: task.attempts?.length ?? task.attempt ?? 0 },
            { value: "channel", label: t("task.channel"), count: channel },
            { value: "details", label: t("task.details") },
          ]}
        />
      </div>
      {(command || task.session_id) && (
        <div class="row task-command">
          {command && (
            <span class="mono cut" title={command}>
              <span class="dim">$ </span>
              {command}
            </span>
          )}
          {task.session_id && (
            <span class="mono dim cut session" title={task.session_id}>
              {t("task.in_session", { id: task.session_id.replace(run.run_id, shortId(run.run_id)) })}
            </span>
          )}
          {command && <IconButton icon="copy" small label={t("copy.command")} onClick={() => void copy(command)} />}
        </div>
      )}
      {tab === "log" && <TaskLog key={`${task.task} ${task.attempt ?? 0}`} run={run.run_id} task={task.task} isOpen={!isOver && (task.state === "running" || task.state === "retry")} />}
      {tab === "attempts" && <TaskAttempts run={run} task={task} />}
      {tab === "details" && <TaskDetails run={run} task={task} />}
      {tab === "channel" && (
        <div class="task-details">
          {channel > 0 && <h3 class="dim">{t("task.writes")}</h3>}
          {channel > 0 && <pre class="mono channel">{JSON.stringify(task.writes, null, 2)}</pre>}
          <h3 class="dim">{t("task.channel_now")}</h3>
          <pre class="mono channel">{JSON.stringify(run.channel ?? {}, null, 2)}</pre>
        </div>
      )}
    </section>
  );
}

export function RunPage({ id, task: chosen }: { id: string; task: string | undefined }): JSX.Element {
  const run = useTasks(useRun(id));
  const graph = useGraph(id, run);
  const questions = useQuestions(id);
  const lock = useWorld((w) => w.locks.find((one) => one.kind === "request" && one.holder?.run_id === id) ?? null);
  const tasks = run && run !== "missing" ? run.tasks : [];
  const selected = chosen ?? firstTask(tasks);
  const select = (task: string): void => go("runs", id, task);
  const step = (by: number): void => {
    const at = tasks.findIndex((one) => one.task === selected);
    const next = tasks[at + by];
    if (next) select(next.task);
  };
  useKey("]", () => step(1));
  useKey("[", () => step(-1));
  if (run === "missing")
    return (
      <div class="page">
        <Empty icon="find" texts={titled("error.not_found")} />
      </div>
    );
  if (!run)
    return (
      <div class="page">
        <Skeleton />
      </div>
    );
  const task = tasks.find((one) => one.task === selected);
  return (
    <div class="page run-page">
      <RunFacts run={run} lock={lock} />
      {questions.map((one) => (
        <AnswerForm key={one.question.id} open={one} />
      ))}
      {graph && <GraphView part="graph" run={run} graph={graph} selected={selected} onSelect={select} />}
      <div class="run-below">
        {graph && <GraphView part="bars" run={run} graph={graph} selected={selected} onSelect={select} />}
        {task && <TaskPanel key={task.task} run={run} task={task} command={graph?.commands?.[task.task]} />}
      </div>
    </div>
  );
}
