// From the server's words to shape, colour and word. The table is the one of the design; the server's own word is shown on hover.
import type { Lock, Process, RequestStatus, RunStatus, TaskState, Worker } from "./api/types";
import { t, type TextKey } from "./text";
import { now, span } from "./time";
import type { GlyphName, Tone } from "./ui/shapes";

export interface State {
  glyph: GlyphName;
  tone: Tone;
  word: string;
  wire: string; // as the server says it
  loud?: boolean; // the word is coloured, too
}

function state(glyph: GlyphName, tone: Tone, key: TextKey, wire: string, loud = false): State {
  return { glyph, tone, word: t(key), wire, loud };
}

export function workerState(worker: Worker): State {
  return worker.state === "draining" ? state("half", "dim", "state.draining", worker.state) : state("disc", "ok", "state.up", worker.state);
}

export function processState(process: Process): State {
  const wire = process.phase ? `${process.state_name} (${process.phase})` : process.state_name;
  switch (process.phase) {
    case "backoff": {
      const ms = process.next_start_at ? Date.parse(process.next_start_at) - now() : 0;
      return { glyph: "again", tone: "bad", word: t("state.backoff", { span: span(Math.max(0, ms) + 999) }), wire, loud: true };
    }
    case "starting":
      return state("half", "run", "state.starting", wire, true);
    case "unhealthy":
      return state("triangle", "warn", "state.unhealthy", wire, true);
    case "stopping":
      return state("half", "dim", "state.stopping", wire);
    case "gave_up":
      return state("cross", "bad", "state.gave_up", wire, true);
    case "lost":
      return state("lost", "warn", "state.lost", wire, true);
  }
  switch (process.state_name) {
    case "Running":
      return state("disc", "ok", "state.process_ready", wire);
    case "Failed":
      return state("cross", "bad", process.restarts > 0 && process.restart !== "no" ? "state.gave_up" : "state.failed", wire, true);
    case "Stopped":
      return state("square", "dim", "state.stopped", wire);
    default:
      return state("ring", "dim", "state.not_started", wire);
  }
}

/** Failed, unhealthy, starting, ready, stopped, not started. */
export function processRank(process: Process): number {
  if (process.state_name === "Failed" || process.phase === "lost") return 0;
  if (process.phase === "unhealthy") return 1;
  if (process.phase === "starting" || process.phase === "stopping") return 2;
  return { Running: 3, Stopped: 4, NotStarted: 5, Failed: 0 }[process.state_name];
}

export function sortProcesses(processes: Process[]): Process[] {
  return [...processes].sort((a, b) => processRank(a) - processRank(b) || a.id.localeCompare(b.id));
}

export function runState(status: RunStatus): State {
  switch (status) {
    case "RUNNING":
      return state("arc", "run", "state.running", status, true);
    case "NEEDS_INPUT":
      return state("bubble", "ask", "state.needs_input", status, true);
    case "DONE":
      return state("check", "ok", "state.done", status);
    case "FAILED":
      return state("cross", "bad", "state.failed", status, true);
    case "CANCELLED":
      return state("slashed", "dim", "state.cancelled", status);
    case "INTERRUPTED":
      return state("bolt", "warn", "state.interrupted", status, true);
    default:
      return state("triangle", "bad", "state.broken", status, true);
  }
}

export function requestState(status: RequestStatus): State {
  switch (status) {
    case "draft":
      return state("pencil", "dim", "state.draft", status);
    case "ready":
      return state("ring", "dim", "state.ready", status);
    case "blocked":
      return state("dashed", "dim", "state.blocked", status);
    case "running":
      return state("arc", "run", "state.running", status, true);
    case "needs_input":
      return state("bubble", "ask", "state.needs_input", status, true);
    case "failed":
      return state("cross", "bad", "state.failed", status, true);
    case "interrupted":
      return state("bolt", "warn", "state.interrupted", status, true);
    case "cancelled":
      return state("slashed", "dim", "state.cancelled", status);
    case "done":
      return state("check", "ok", "state.done", status);
    case "archived":
      return state("box", "dim", "state.archived", status);
    default:
      return state("triangle", "bad", "state.broken", status, true);
  }
}

export function taskState(word: TaskState): State {
  switch (word) {
    case "running":
      return state("arc", "run", "state.running", word, true);
    case "retry":
      return state("again", "warn", "state.retry", word, true);
    case "ok":
      return state("check", "ok", "state.ok", word);
    case "failed":
      return state("cross", "bad", "state.failed", word, true);
    case "asks":
      return state("bubble", "ask", "state.asks", word, true);
    case "skipped":
    case "passed":
      return state("chevrons", "dim", "state.skipped", word);
    case "blocked":
    case "not_reached":
      return state("dashed", "dim", "state.not_reached", word);
    case "stopped":
      return state("square", "dim", "state.stopped", word);
    case "interrupted":
      return state("bolt", "warn", "state.interrupted", word, true);
    default:
      return state("ring", "dim", "state.waiting", word);
  }
}

export function lockState(lock: Lock): State {
  switch (lock.state) {
    case "stale":
      return state("broken", "warn", "state.stale", lock.state, true);
    case "zombie":
      return state("broken", "warn", "state.zombie", lock.state, true);
    case "unreadable":
      return state("triangle", "bad", "state.unreadable", lock.state, true);
    default:
      return state("lock", "mid", "state.held", lock.state);
  }
}

/** Alive, dead or unknown, and how that is known. */
export function lifeState(alive: boolean | null | undefined, how: string | undefined): State {
  const known = howWord(how);
  if (alive === true) return { glyph: "disc", tone: "ok", word: t("state.alive", { how: known }), wire: how ?? "" };
  if (alive === false) return { glyph: "slashed", tone: "warn", word: t("state.dead", { how: known }), wire: how ?? "", loud: true };
  return { glyph: "lost", tone: "mid", word: t("state.unknown", { how: known }), wire: how ?? "" };
}

const hows: Record<string, TextKey> = {
  "life byte is locked": "how.life",
  "life byte is free": "how.life_free",
  "life byte cannot be read": "how.life_unknown",
  "process is gone": "how.gone",
  "process exists": "how.exists",
  "pid was reused": "how.reused",
  "machine was rebooted": "how.rebooted",
  "on another host": "how.host",
  "other pid namespace": "how.namespace",
  "in another pid namespace": "how.namespace",
  "process cannot be examined": "how.examined",
  "no usable pid": "how.no_pid",
};

export function howWord(how: string | undefined): string {
  const key = how === undefined ? undefined : hows[how];
  return key ? t(key) : (how ?? "?");
}
