// An event as a sentence: a thing, what happened to it, and its shape.
import type { TaskState, TrailEvent } from "./api/types";
import { taskState } from "./states";
import { getWorld } from "./store";
import { calm, fill, t, type TextKey, type Values } from "./text";
import { duration, span } from "./time";
import type { GlyphName, Tone } from "./ui/shapes";
import { nameOfAgent, shortId } from "./who";

export interface Sentence {
  glyph: GlyphName;
  tone: Tone;
  before: string;
  thing: string;
  after: string;
}

/** The sentence with `{thing}` taken out, so that it can be shown as a name. */
function sentence(glyph: GlyphName, tone: Tone, key: TextKey, thing: string, values: Values = {}): Sentence {
  const [before = "", after = ""] = t(key).split("{thing}");
  return { glyph, tone, before: fill(before, values), thing: calm(thing), after: fill(after, values) };
}

const text = (value: unknown): string => (value === null || value === undefined ? "" : String(value));

function titleOf(id: unknown): string {
  return getWorld().requests.find((one) => one.id === id)?.title ?? text(id);
}

function flowOf(event: TrailEvent): string {
  const id = event.run_id ?? "";
  const run = getWorld().openRuns[id] ?? getWorld().runs.find((one) => one.run_id === id);
  return run?.flow ?? shortId(id);
}

function lockName(data: Record<string, unknown>): string {
  if (data["kind"] === "queue") return t("lock.kind.queue");
  return data["kind"] === "request" ? titleOf(data["id"]) : text(data["id"]);
}

function exitWord(data: Record<string, unknown>): string {
  const status = Number(data["status"] ?? -1);
  if (status > 0 && (status & 127) !== 0) return t("exit.signal", { n: status & 127 });
  return data["exit_code"] === undefined ? t("exit.unknown") : t("exit.code", { code: text(data["exit_code"]) });
}

function processSentence(event: TrailEvent): Sentence | null {
  const data = event.data;
  const id = text(data["process_id"]);
  switch (event.type) {
    case "process.created":
      return sentence("ring", "dim", "event.process.created", id);
    case "process.updated":
      return sentence("pencil", "dim", "event.process.updated", id);
    case "process.removed":
      return sentence("slashed", "dim", "event.process.removed", id);
    case "process.started":
      return sentence("half", "run", Number(data["run"]) > 1 ? "event.process.started_again" : "event.process.started", id, { n: text(data["run"]), pid: text(data["pid"]) });
    case "process.exited": {
      const isBad = data["by"] === "itself" && data["exit_code"] !== 0;
      return sentence(isBad ? "cross" : "square", isBad ? "bad" : "dim", data["by"] === "stop" ? "event.process.stopped" : "event.process.exited", id, { exit: exitWord(data) });
    }
    case "process.restarting":
      return sentence("again", "bad", "event.process.restarting", id, { span: span(Number(data["delay_ms"] ?? 0)) });
    case "process.gave_up":
      return sentence("cross", "bad", "event.process.gave_up", id, { n: text(data["retries"]) });
    case "process.start_failed":
      return sentence("cross", "bad", "event.process.start_failed", id);
    case "process.adopted":
      return sentence("disc", "ok", "event.process.adopted", id);
    case "process.lost":
      return sentence("lost", "warn", "event.process.lost", id);
    default:
      return null;
  }
}

function runSentence(event: TrailEvent): Sentence | null {
  const data = event.data;
  const flow = flowOf(event);
  const task = text(event.task_id ?? data["task"]);
  switch (event.type) {
    case "run.started":
      return sentence("arc", "run", "event.run.started", text(data["flow"]) || flow, { n: text(data["tasks"]) });
    case "run.ended": {
      const isOk = data["status"] === "DONE";
      const shape: [GlyphName, Tone] = isOk ? ["check", "ok"] : data["status"] === "FAILED" ? ["cross", "bad"] : data["status"] === "NEEDS_INPUT" ? ["bubble", "ask"] : ["slashed", "dim"];
      const key = isOk ? "event.run.done" : data["status"] === "FAILED" ? "event.run.failed" : data["status"] === "NEEDS_INPUT" ? "event.run.asks" : "event.run.cancelled";
      return sentence(shape[0], shape[1], key, flow);
    }
    case "run.cancelling":
      return sentence("slashed", "dim", "event.run.cancelling", flow);
    case "run.answered":
      return sentence("check", "ok", "event.run.answered", task || flow, { flow });
    case "task.started":
      return sentence("arc", "run", "event.task.started", task, { flow });
    case "task.ended": {
      const outcome = text(data["outcome"]);
      if (outcome === "retry") return sentence("again", "warn", "event.task.retry", task, { flow, exit: exitWord({ ...data, status: -1 }) });
      return sentence(outcome === "ok" ? "check" : outcome === "failed" ? "cross" : "chevrons", outcome === "ok" ? "ok" : outcome === "failed" ? "bad" : "dim", outcome === "ok" ? "event.task.ok" : outcome === "failed" ? "event.task.failed" : "event.task.ended", task, {
        flow,
        ms: duration(Number(data["ms"] ?? 0), true),
        exit: exitWord({ ...data, status: -1 }),
      });
    }
    case "task.lost":
      return sentence("lost", "warn", data["why"] === "version" ? "event.task.returned" : "event.task.lost", task, { flow });
    case "task.failed":
      return sentence("cross", "bad", "event.task.failed", task, { flow, exit: exitWord({ ...data, status: -1 }) });
    case "task.asked":
      return sentence("bubble", "ask", "event.task.asked", task, { flow, question: text(data["question"]) });
    case "branch.ended":
      return sentence(data["outcome"] === "ok" ? "check" : "cross", data["outcome"] === "ok" ? "ok" : "bad", "event.branch.ended", text(data["branch"]), { flow, outcome: taskState(text(data["outcome"]) as TaskState).word });
    case "queue.started":
      return sentence("arc", "run", "event.queue.started", t("queue"));
    case "queue.next":
      return sentence("arc", "run", "event.queue.next", titleOf(data["request_id"]));
    case "queue.stopping":
      return sentence("square", "dim", "event.queue.stopping", t("queue"));
    case "queue.ended":
    case "queue.stopped":
      return sentence("square", "dim", "event.queue.ended", t("queue"));
    case "request.added":
      return sentence("ring", "dim", "event.request.added", titleOf(data["request_id"]));
    case "request.changed":
      return sentence("pencil", "dim", "event.request.changed", titleOf(data["request_id"]));
    case "request.removed":
      return sentence("slashed", "dim", "event.request.removed", titleOf(data["request_id"]));
    default:
      return null;
  }
}

function lockSentence(event: TrailEvent): Sentence | null {
  const data = event.data;
  switch (event.type) {
    case "lock.acquired":
      return sentence("lock", "mid", "event.lock.acquired", lockName(data));
    case "lock.released":
      return sentence("lock", "dim", "event.lock.released", lockName(data));
    case "lock.forced":
      return sentence("broken", "warn", "event.lock.forced", lockName(data));
    case "lock.lost":
      return sentence("broken", "warn", "event.lock.lost", lockName(data));
    case "LOCK_STALE_RECOVERED":
      return sentence("broken", "warn", "event.lock.recovered", lockName(data));
    case "lock.holder_died":
      return sentence("broken", "warn", "event.lock.holder_died", lockName(data));
    case "lock.renewed":
      return sentence("lock", "dim", "event.lock.renewed", lockName(data));
    case "workflow.claimed":
      return sentence("key", "mid", "event.workflow.claimed", text(data["workflow"]));
    case "workflow.released":
      return sentence("key", "dim", "event.workflow.released", text(data["workflow"]));
    default:
      return null;
  }
}

const process = (event: TrailEvent): string => text(event.data["process_id"]);
const template = (event: TrailEvent): string => text(event.data["template"]);
const request = (event: TrailEvent): string => titleOf(event.data["request_id"]);
const waiting = (event: TrailEvent): string => (event.data["kind"] === "request" ? titleOf(event.data["lock"]) : text(event.data["lock"]));

/** The agent that asks: by its name if it has one here. */
function asker(event: TrailEvent): string {
  const id = event.data["instance"];
  const agent = getWorld().agents?.find((one) => one.instance === id);
  return agent ? nameOfAgent(agent).label : text(id);
}

/** What needs no more than a shape and a thing: the sentence is `event.` and the type. */
const plain: Record<string, [GlyphName, Tone, (event: TrailEvent) => string]> = {
  "workspace.created": ["check", "dim", () => getWorld().root.split("/").pop() ?? ""],
  "doctor.examined": ["ring", "dim", (event) => text(event.data["status"])],
  "doctor.fixed": ["check", "ok", (event) => text(event.data["check"])],
  "lock.tmp_removed": ["lock", "dim", (event) => text(event.data["file"])],
  "workflow.owner_died": ["key", "warn", (event) => text(event.data["workflow"])],
  "instance.ended": ["slashed", "dim", (event) => text(event.data["label"]) || text(event.data["instance"])],
  "run.interrupted": ["bolt", "warn", (event) => text(event.data["flow"]) || flowOf(event)],
  "run.removed": ["slashed", "dim", flowOf],
  "run.pending": ["ring", "dim", waiting],
  "run.pending_dropped": ["slashed", "dim", waiting],
  "run.other_commit": ["triangle", "warn", (event) => text(event.data["worker"])],
  "queue.interrupted": ["bolt", "warn", () => t("queue")],
  "request.edited": ["pencil", "dim", request],
  "request.again": ["again", "dim", request],
  "channel.conflict": ["triangle", "warn", (event) => text(event.data["key"])],
  "process.ready": ["disc", "ok", process],
  "process.not_ready": ["triangle", "warn", process],
  "process.unhealthy": ["triangle", "warn", process],
  "process.healthy": ["disc", "ok", process],
  "notify.failed": ["cross", "bad", process],
  LOG_TRUNCATED: ["triangle", "warn", process],
  LOG_GAP: ["triangle", "warn", process],
  LOG_DISK_FULL: ["triangle", "bad", process],
  LOG_RESUMED: ["disc", "ok", process],
  "template.created": ["ring", "dim", template],
  "template.updated": ["pencil", "dim", template],
  "template.removed": ["slashed", "dim", template],
  "confirm.asked": ["bubble", "ask", asker],
  "confirm.given": ["check", "ok", asker],
  "confirm.denied": ["slashed", "dim", asker],
  "confirm.expired": ["slashed", "dim", asker],
};

function plainSentence(event: TrailEvent): Sentence | null {
  const shape = plain[event.type];
  return shape ? sentence(shape[0], shape[1], `event.${event.type}` as TextKey, shape[2](event), { flow: flowOf(event) }) : null;
}

export function sentenceOf(event: TrailEvent): Sentence {
  return processSentence(event) ?? runSentence(event) ?? lockSentence(event) ?? plainSentence(event) ?? { glyph: "ring", tone: "dim", before: "", thing: event.type, after: "" };
}

export type EventGroup = "processes" | "runs" | "queue" | "locks" | "owners" | "confirmations" | "other";

export function groupOf(type: string): EventGroup {
  const word = type.split(".")[0] ?? "";
  if (word === "process" || type.startsWith("LOG_") || word === "template") return "processes";
  if (word === "run" || word === "task" || word === "branch" || word === "channel") return "runs";
  if (word === "queue" || word === "request") return "queue";
  if (word === "lock" || word === "LOCK_STALE_RECOVERED") return "locks";
  if (word === "workflow" || word === "instance") return "owners";
  return word === "confirm" ? "confirmations" : "other";
}

export const isBad = (event: TrailEvent): boolean => sentenceOf(event).tone === "bad";

/** Where the thing of an event is shown. */
export function placeOf(event: TrailEvent): string | null {
  if (event.data["process_id"]) return `#/processes/${encodeURIComponent(text(event.data["process_id"]))}`;
  if (event.run_id) return `#/runs/${event.run_id}${event.task_id ? `/${encodeURIComponent(event.task_id)}` : ""}`;
  if (event.data["request_id"]) return `#/requests/${encodeURIComponent(text(event.data["request_id"]))}`;
  const group = groupOf(event.type);
  return group === "locks" || group === "owners" ? "#/locks" : null;
}
