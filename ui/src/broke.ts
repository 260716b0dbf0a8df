// What the overview is about: what waits for a person, what broke, what runs.
import type { Lock, Process, Question, Run } from "./api/types";
import { sortProcesses } from "./states";
import type { World } from "./store";

export interface OpenQuestion {
  run: Pick<Run, "run_id" | "flow">;
  question: Question;
}

/** The oldest first. */
export function openQuestions(world: World): OpenQuestion[] {
  return world.questions.map((question) => ({ run: question, question })).sort((a, b) => (a.question.asked_at ?? "").localeCompare(b.question.asked_at ?? "") || a.run.run_id.localeCompare(b.run.run_id));
}

export type Broken =
  | { kind: "process"; process: Process }
  | { kind: "run"; run: Run }
  | { kind: "lock"; lock: Lock }
  | { kind: "doctor"; name: string; summary: string };

export function brokenProcesses(world: World): Process[] {
  return sortProcesses(world.processes.filter((one) => one.state_name === "Failed" || one.phase === "lost"));
}

const lineOf = (run: Run): string => run.request_id ?? `flow ${run.source ?? run.flow}`;

/** Failed and interrupted runs with nothing newer. */
export function brokenRuns(world: World): Run[] {
  const newest = new Map<string, Run>();
  for (const run of world.runs) {
    const other = newest.get(lineOf(run));
    if (!other || other.run_id < run.run_id) newest.set(lineOf(run), run);
  }
  return [...newest.values()].filter((run) => run.status === "FAILED" || run.status === "INTERRUPTED" || run.status === "BROKEN").sort((a, b) => b.run_id.localeCompare(a.run_id));
}

export function brokenLocks(world: World): Lock[] {
  return world.locks.filter((lock) => lock.state === "stale" || lock.state === "zombie" || lock.state === "unreadable");
}

export function allBroken(world: World): Broken[] {
  return [
    ...brokenProcesses(world).map((process): Broken => ({ kind: "process", process })),
    ...brokenRuns(world).map((run): Broken => ({ kind: "run", run })),
    ...brokenLocks(world).map((lock): Broken => ({ kind: "lock", lock })),
    ...(world.doctor?.checks ?? []).filter((one) => one.status === "FAIL").map((one): Broken => ({ kind: "doctor", name: one.title, summary: one.summary })),
  ];
}

export function runningProcesses(world: World): Process[] {
  return sortProcesses(world.processes.filter((one) => one.state_name === "Running"));
}

export function isAsking(world: World, run: string): boolean {
  return world.questions.some((one) => one.run_id === run);
}

/** Those that ask come first. */
export function openRunsOf(world: World): Run[] {
  const asks = (run: Run): number => Number(run.status === "NEEDS_INPUT" || isAsking(world, run.run_id));
  return world.runs.filter((run) => run.status === "RUNNING" || run.status === "NEEDS_INPUT").sort((a, b) => asks(b) - asks(a) || a.run_id.localeCompare(b.run_id));
}
