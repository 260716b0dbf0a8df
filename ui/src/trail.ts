// The events that the page keeps: the newest, and those of processes, which reach back an hour however much else happens.
import { call } from "./api/http";
import type { TrailEvent } from "./api/types";
import { getWorld, setWorld } from "./store";

const KEPT_MAX = 2000;
const PAST = 1000;
const TOGETHER_MS = 60; // what comes together is shown together

const arrived: TrailEvent[] = [];
let isAsked = false;
let pastIsRead: () => void;

/** Until the past was asked for: what is made of it, the rules of a log say, is not made again. */
export const past = new Promise<void>((done) => (pastIsRead = done));

/** Each event once: an answer and the stream may both have it. */
function joined(older: TrailEvent[], newer: TrailEvent[]): TrailEvent[] {
  const ids = new Set(newer.map((one) => one.id));
  return [...older.filter((one) => !ids.has(one.id)), ...newer].sort((a, b) => a.id - b.id).slice(-KEPT_MAX);
}

function flush(): void {
  const { events, processEvents } = getWorld(), fresh = arrived.splice(0);
  const ofProcesses = fresh.filter((one) => one.type.startsWith("process."));
  setWorld({ events: joined(events, fresh), ...(ofProcesses.length > 0 ? { processEvents: joined(processEvents, ofProcesses) } : {}) });
}

export function keepEvent(event: TrailEvent): void {
  if (arrived.push(event) === 1) setTimeout(flush, TOGETHER_MS);
}

/** The events before the stream began, once. If there is no answer, the next call asks again. */
export async function readPast(signal: AbortSignal | undefined): Promise<void> {
  if (isAsked) return;
  isAsked = true;
  const ask = async (query: string): Promise<TrailEvent[]> => (await call<{ events: TrailEvent[] }>("GET", `/api/events?limit=${PAST}${query}`, undefined, undefined, signal)).events;
  const found = await Promise.all([ask(""), ask("&since=1h&type=process.*")]).catch(() => null);
  isAsked = found !== null;
  if (found) setWorld({ events: joined(found[0], getWorld().events), processEvents: joined(found[1], getWorld().processEvents) });
  pastIsRead();
}
