// What the buttons do. Every action is an operation of the API and has the command line that does the same.
import type { JSX } from "preact";
import { ApiError, call, dropGoneCaller, registerCaller, Unreachable, type Method } from "./api/http";
import type { Lock, Process, Request, Run, Workflow } from "./api/types";
import { holderFacts, runFacts, starterOf, whoFacts } from "./facts";
import { refresh } from "./live";
import { getWorld, useCanAct } from "./store";
import { t } from "./text";
import { bytes } from "./time";
import { ask, type Question } from "./ui/confirm";
import { showProblem, showQueueConflict } from "./ui/forms";
import { toast, type MenuItem } from "./ui/overlays";
import { Icon, type IconName } from "./ui/shapes";
import { go } from "./route";

export interface Action {
  label: string;
  icon?: IconName;
  command: string;
  method: Method;
  path: string;
  body?: Record<string, unknown>;
  needsCaller?: boolean; // it takes something: the page must have a name
  question?: () => Question; // asked before
  done?: string; // a toast
  undo?: () => Action;
  keys?: string; // that do it, too
  disabled?: string | undefined; // why it cannot be done now
  tone?: "pri" | "danger" | "askb" | "ghost" | undefined;
  then?: (answer: unknown, ms: number) => void;
}

/** A word for a shell: in quotes where it must be. */
export function quote(word: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, `'\\''`)}'`;
}

export const commandOf = (...words: string[]): string => ["tasuki", ...words.map(quote)].join(" ");

async function send(action: Action, more: Record<string, unknown>): Promise<unknown> {
  try {
    if (action.needsCaller) await registerCaller("page");
    return await call(action.method, action.path, action.method === "GET" ? undefined : { ...action.body, ...more });
  } catch (problem) {
    if (!dropGoneCaller(problem)) throw problem;
    return send(action, more); // once: there is no registration any more
  }
}

/** While the page is not live nothing is sent: what is shown may be old, and a silent server would do it later. */
function isOff(): boolean {
  if (getWorld().live === "live") return false;
  toast({ text: t("live.actions_off") });
  return true;
}

/** Does it; asks first where it must, and shows what the server says. True when it was done. */
export async function run(action: Action, more: Record<string, unknown> = {}): Promise<boolean> {
  if (action.disabled !== undefined || isOff()) return false;
  if (action.question && (!(await ask(action.question())) || isOff())) return false;
  try {
    const began = performance.now();
    const answer = await send(action, more);
    const ms = performance.now() - began;
    if (action.done) {
      const undo = action.undo?.();
      toast({ text: action.done, ...(undo ? { action: { label: undo.label, run: () => void run(undo) } } : {}) });
    }
    action.then?.(answer, ms);
    return true;
  } catch (problem) {
    return await refused(action, problem, more);
  } finally {
    void refresh();
  }
}

/** A refusal that is answered in a dialogue of its own, not shown in the form. */
export function hasDialogue(problem: unknown): boolean {
  return problem instanceof ApiError && (problem.body.needs_confirmation === true || problem.code === "QUEUE_IN_PROGRESS" || problem.code === "RUN_IN_PROGRESS");
}

export async function refused(action: Action, problem: unknown, more: Record<string, unknown>): Promise<boolean> {
  if (!(problem instanceof ApiError)) {
    if (problem instanceof Unreachable) toast({ text: t("error.unreachable") });
    else throw problem;
    return false;
  }
  if (problem.code === "QUEUE_IN_PROGRESS") {
    void showQueueConflict(problem.body);
    return false;
  }
  if (problem.code === "RUN_IN_PROGRESS") {
    const id = String(problem.body.error.context["run_id"] ?? problem.body.latest_run?.split("/").pop() ?? "");
    go("runs", id);
    toast({ text: t("run.conflict") });
    return false;
  }
  if (problem.body.needs_confirmation && more["confirm"] !== true) {
    const sure = await ask({ title: t("confirm.title", { what: action.label.replace(/…$/, "") }), text: problem.message, facts: [], yes: action.label.replace(/…$/, ""), danger: true, seconds: 30 });
    return sure && (await run({ ...action, question: undefined } as Action, { ...more, confirm: true }));
  }
  void showProblem(problem.body);
  return false;
}

/** A button. It is off while the page is not live, and says why when the state does not allow it. */
export function Act({ action, small, wide, hideIcon }: { action: Action; small?: boolean; wide?: boolean; hideIcon?: boolean }): JSX.Element {
  const canAct = useCanAct();
  const why = canAct ? action.disabled : t("live.actions_off");
  return (
    <button
      type="button"
      class={`btn${small ? " s" : ""} ${action.tone ?? ""}${wide ? " full" : ""}`}
      disabled={why !== undefined}
      title={why ?? action.command}
      onClick={(event) => {
        event.preventDefault();
        event.stopPropagation();
        void run(action);
      }}
    >
      {action.icon && !hideIcon && <Icon name={action.icon} />}
      {action.label}
      {action.keys && <kbd aria-hidden="true">{action.keys}</kbd>}
    </button>
  );
}

export function menuItem(action: Action): MenuItem {
  const why = getWorld().live === "live" ? action.disabled : t("live.actions_off");
  return { label: action.label, hint: action.command, disabled: why, danger: action.tone === "danger", run: () => void run(action) };
}

// ---- processes ----

const processPath = (id: string, verb = ""): string => `/api/processes/${encodeURIComponent(id)}${verb}`;

export function startProcess(process: Process): Action {
  const isNow = process.phase === "backoff";
  return {
    label: isNow ? t("process.start_now") : t("process.start"),
    icon: "play",
    command: commandOf("proc", "start", process.id),
    method: "POST",
    path: processPath(process.id, "/start"),
    body: { no_wait: true }, // the page shows what becomes of it
    done: t("process.started", { id: process.id }),
    undo: () => stopProcess({ ...process, state_name: "Running", phase: "" }),
    disabled: process.state_name === "Running" ? t("process.runs_already") : undefined,
  };
}

export function stopProcess(process: Process): Action {
  const canStop = process.state_name === "Running" || process.phase === "backoff" || (process.leftovers?.length ?? 0) > 0;
  return {
    label: t("process.stop"),
    icon: "stop",
    command: commandOf("proc", "stop", process.id),
    method: "POST",
    path: processPath(process.id, "/stop"),
    body: {},
    done: t("process.stopped", { id: process.id }),
    undo: () => ({ ...startProcess({ ...process, state_name: "Stopped", phase: "" }), label: t("process.start_again") }),
    disabled: canStop ? undefined : t("process.runs_not"),
  };
}

export function restartProcess(process: Process): Action {
  return {
    label: t("process.restart"),
    icon: "restart",
    command: commandOf("proc", "restart", process.id),
    method: "POST",
    path: processPath(process.id, "/restart"),
    body: { no_wait: true },
    done: t("process.restarted", { id: process.id }),
    disabled: process.state_name === "Running" ? undefined : t("process.runs_not"),
  };
}

export function removeProcess(process: Process): Action {
  const isRunning = process.state_name === "Running";
  const starter = starterOf(process);
  const waiting = getWorld().processes.filter((one) => process.id in one.depends_on).map((one) => one.id);
  return {
    label: t("process.remove"),
    tone: "danger",
    command: commandOf("proc", "remove", process.id, ...(isRunning ? ["--force"] : [])),
    method: "DELETE",
    path: processPath(process.id),
    body: isRunning ? { force: true } : {},
    done: t("process.removed", { id: process.id }),
    question: () => ({
      title: t("process.remove_q", { id: process.id }),
      text: isRunning ? t("process.remove_running") : "",
      facts: starter ? [] : whoFacts(process.started_by, undefined),
      bullets: [
        ...(starter ? [starter] : []),
        ...(waiting.length > 0 ? [t("process.remove_waiting", { n: waiting.length, ids: waiting.join(", ") })] : []),
        process.log.size ? t("process.remove_log", { size: bytes(process.log.size) }) : t("process.remove_log_gone"),
      ],
      yes: isRunning ? t("process.remove_yes") : t("process.remove"),
      danger: true,
    }),
    then: () => go("processes"),
  };
}

// ---- requests, runs, queue ----

export function runRequest(request: Request, again = false): Action {
  return {
    label: again ? t("request.retry") : t("request.run"),
    icon: "play",
    command: commandOf("request", "run", request.id, ...(again ? ["--new"] : [])),
    method: "POST",
    path: `/api/requests/${encodeURIComponent(request.id)}/run`,
    body: again ? { new: true } : {},
    disabled: request.status === "running" ? t("request.runs") : undefined,
    then: (answer) => {
      const id = (answer as { run_id?: string }).run_id;
      if (id) toast({ text: t("request.started", { title: request.title }), action: { label: t("run.open"), run: () => go("runs", id) } });
    },
  };
}

export function removeRequest(request: Request): Action {
  return {
    label: t("request.remove"),
    tone: "danger",
    command: commandOf("request", "rm", request.id),
    method: "DELETE",
    path: `/api/requests/${encodeURIComponent(request.id)}`,
    question: () => ({ title: t("request.remove_q", { title: request.title }), text: t("request.remove_text"), facts: [], yes: t("request.remove"), danger: true }),
    done: t("request.removed"),
    disabled: request.status === "running" ? t("request.runs") : undefined,
  };
}

export function resumeRun(run: Pick<Run, "run_id"> & { status?: Run["status"] }): Action {
  return {
    disabled: run.status === "RUNNING" ? t("request.runs") : run.status === "DONE" ? t("run.is_done") : undefined,
    label: t("run.resume"),
    icon: "play",
    command: commandOf("resume", run.run_id),
    method: "POST",
    path: `/api/runs/${run.run_id}/resume`,
    body: {},
    then: () => go("runs", run.run_id),
  };
}

export function cancelRun(run: Run, isNow = false): Action {
  const done = run.counts?.ok ?? 0;
  return {
    label: isNow ? t("run.cancel_now") : t("run.cancel"),
    icon: "stop",
    command: commandOf("runs", "cancel", run.run_id, ...(isNow ? ["--now"] : [])),
    method: "POST",
    path: `/api/runs/${run.run_id}/cancel`,
    body: isNow ? { now: true } : {},
    question: () => ({ title: t("run.cancel_q", { flow: run.flow }), text: t("run.cancel_text", { n: done }), facts: runFacts(run), yes: t("run.cancel_yes"), danger: true }),
    disabled: run.status === "RUNNING" || run.status === "NEEDS_INPUT" ? undefined : t("run.has_ended"),
  };
}

export interface QueueOptions {
  max?: number;
  for?: string;
  retry?: boolean;
}

export function startQueue(options: QueueOptions = {}): Action {
  const words = [...(options.max ? ["--max", String(options.max)] : []), ...(options.for ? ["--for", options.for] : []), ...(options.retry ? ["--retry"] : [])];
  return {
    label: t("queue.auto"),
    command: commandOf("queue", "run", ...words),
    method: "POST",
    path: "/api/queue/start",
    body: { ...options },
    done: t("queue.started"),
    undo: stopQueue,
  };
}

export function runNext(retry = false): Action {
  return {
    label: t("queue.run_next"),
    icon: "play",
    command: commandOf("queue", "run-next", ...(retry ? ["--retry"] : [])),
    method: "POST",
    path: "/api/queue/run-next",
    body: retry ? { retry: true } : {},
  };
}

export function stopQueue(): Action {
  return { label: t("queue.stop"), icon: "stop", command: commandOf("queue", "stop"), method: "POST", path: "/api/queue/stop", body: {}, done: t("queue.stops") };
}

export function stopQueueNow(title: string, finished: number): Action {
  const queue = getWorld().queue;
  return {
    label: t("queue.stop_now"),
    tone: "ghost",
    command: commandOf("queue", "stop", "--now"),
    method: "POST",
    path: "/api/queue/stop",
    body: { now: true },
    question: () => ({ title: t("queue.stop_now_q", { title, n: finished }), text: "", facts: queue?.holder ? holderFacts(queue.holder, queue.created_at) : [], yes: t("queue.stop_now").replace(/…$/, ""), danger: true }),
  };
}

// ---- locks and owners ----

const lockPath = (lock: Lock): string => `/api/locks/${lock.kind}/${encodeURIComponent(lock.id ?? "")}`;

export function releaseLock(lock: Lock): Action {
  return { label: t("lock.release"), command: commandOf("lock", "release", lock.id ?? ""), method: "DELETE", path: lockPath(lock), body: {}, needsCaller: true, done: t("lock.released", { lock: lock.id ?? lock.kind }) };
}

export function forceLock(lock: Lock, question: () => Question): Action {
  return {
    label: t("lock.force"),
    command: commandOf("lock", "acquire", lock.id ?? "", "--force"),
    method: "POST",
    path: `${lockPath(lock)}/force`,
    body: { confirm: true },
    needsCaller: true,
    question,
    done: t("lock.forced", { lock: lock.id ?? lock.kind }),
  };
}

export function releaseSprint(lock: Lock, question: () => Question): Action {
  const session = lock.holder?.session_id ?? "";
  return {
    label: t("sprint.release"),
    command: commandOf("sprint", "release", "--session", session),
    method: "POST",
    path: "/api/sprint",
    body: { mode: "release", session },
    question,
    done: t("lock.released", { lock: lock.id ?? "sprint" }),
  };
}

export function claimWorkflow(workflow: Workflow, question: () => Question): Action {
  const isForced = workflow.ownerAlive !== false;
  const path = `/api/workflows/${encodeURIComponent(workflow.ulTaskId)}`;
  return {
    label: isForced ? t("own.claim_force") : t("own.claim"),
    command: commandOf("own", isForced ? "force-claim" : "claim", workflow.ulTaskId),
    method: "POST",
    path: isForced ? `${path}/force-claim` : `${path}/claim`,
    body: isForced ? { confirm: true } : {},
    needsCaller: true,
    ...(isForced ? { question } : {}),
    done: t("own.claimed", { id: workflow.ulTaskId }),
  };
}

export function releaseWorkflow(workflow: Workflow): Action {
  return {
    label: t("lock.release"),
    command: commandOf("own", "release", workflow.ulTaskId),
    method: "POST",
    path: `/api/workflows/${encodeURIComponent(workflow.ulTaskId)}/release`,
    body: {},
    needsCaller: true,
    done: t("lock.released", { lock: workflow.ulTaskId }),
  };
}
