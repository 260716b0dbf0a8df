// What the page knows of the workspace. Everything here comes from the server; `live.ts` keeps it new.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Agent, AskedQuestion, DoctorReport, Lock, OpenConfirmation, Process, Queue, Request, Run, RunDetail, TrailEvent, Workflow } from "./api/types";
import type { Pool } from "./workers";

export type LiveState = "starting" | "live" | "retry" | "off" | "refused";

export interface World {
  live: LiveState;
  isSilent: boolean; // not live because nothing came for a while: that is known late enough
  offSince: number | null; // server time of the last thing known to be true
  refusal: string | null; // why a server that answers does not tell (its configuration cannot be read, say)
  nextTryAt: number | null; // performance.now()
  isLoaded: boolean;
  version: string;
  root: string;
  host: string;
  processes: Process[];
  requests: Request[];
  runs: Run[]; // the newest, newest first
  olderRuns: string | null; // where the list goes on
  questions: AskedQuestion[];
  openRuns: Record<string, RunDetail>;
  locks: Lock[];
  workflows: Workflow[];
  queue: Queue | null;
  agents: Agent[] | null; // null: the server does not tell
  confirmations: OpenConfirmation[]; // what agents ask, oldest first
  usage: Record<string, { cpu_percent: number | null; rss_bytes: number }>; // of the processes that run, every 2 s
  events: TrailEvent[]; // the newest, oldest first
  processEvents: TrailEvent[]; // the same, of processes only: they reach back an hour, however much else happens
  doctor: (DoctorReport & { at: number; took: number }) | null;
  pool: Pool | null; // null: there is no Redis
}

let world: World = {
  live: "starting",
  isSilent: false,
  offSince: null,
  refusal: null,
  nextTryAt: null,
  isLoaded: false,
  version: "",
  root: "",
  host: "",
  processes: [],
  requests: [],
  runs: [],
  olderRuns: null,
  questions: [],
  openRuns: {},
  locks: [],
  workflows: [],
  queue: null,
  agents: null,
  confirmations: [],
  usage: {},
  events: [],
  processEvents: [],
  doctor: null,
  pool: null,
};
const listeners = new Set<() => void>();

export function getWorld(): World {
  return world;
}

export function setWorld(change: Partial<World>): void {
  world = { ...world, ...change };
  for (const tell of listeners) tell();
}

export function onChange(tell: () => void): () => void {
  listeners.add(tell);
  return () => void listeners.delete(tell);
}

/** A part of the world; renders again when that part is another one. */
export function useWorld<T>(choose: (world: World) => T): T {
  const [value, setValue] = useState(() => choose(world));
  const latest = useRef(choose);
  latest.current = choose;
  useEffect(() => {
    const look = (): void => setValue(() => latest.current(world));
    look();
    return onChange(look);
  }, []);
  return choose(world) === value ? value : choose(world);
}

/** Whether buttons work: not while what is shown may be old. */
export function useCanAct(): boolean {
  return useWorld((w) => w.live === "live");
}

let tickers = 0;
let timer: ReturnType<typeof setInterval> | undefined;
let turn = 0;
const ticks = new Map<() => void, number>();

function tick(): void {
  if (world.live !== "live" || document.hidden) return;
  turn++;
  for (const [tell, seconds] of ticks) if (turn % seconds === 0) tell();
}

/** Renders again every so many seconds, so that ages and countdowns go on. */
export function useTick(seconds = 1): void {
  const [, again] = useState(0);
  useEffect(() => {
    const tell = (): void => again((n) => n + 1);
    ticks.set(tell, seconds);
    if (tickers++ === 0) timer = setInterval(tick, 1000);
    return () => {
      ticks.delete(tell);
      if (--tickers === 0) clearInterval(timer);
    };
  }, [seconds]);
}
