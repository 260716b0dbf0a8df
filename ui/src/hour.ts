// When a process ran in the last hour, from the events of processes that the page has.
import type { Process, TrailEvent } from "./api/types";

export interface Piece {
  from: number; // 0 to 120
  to: number;
  kind: "u" | "r" | "f" | "w";
}

const HOUR_MS = 3600_000;

let known: { events: TrailEvent[]; byProcess: Map<unknown, TrailEvent[]> } | null = null;

/** The events of one process; sorted out once for all of them. */
function eventsOf(id: string, events: TrailEvent[]): TrailEvent[] {
  if (known?.events !== events) {
    const byProcess = new Map<unknown, TrailEvent[]>();
    for (const event of events) {
      const of = event.data["process_id"];
      if (of === undefined) continue;
      const list = byProcess.get(of);
      if (list) list.push(event);
      else byProcess.set(of, [event]);
    }
    known = { events, byProcess };
  }
  return known.byProcess.get(id) ?? [];
}

export function piecesOf(process: Process, events: TrailEvent[], now: number): Piece[] {
  const begin = now - HOUR_MS;
  const at = (ms: number): number => Math.max(0, Math.min(120, ((ms - begin) / HOUR_MS) * 120));
  const pieces: Piece[] = [];
  let since: number | null = null;
  for (const event of eventsOf(process.id, events)) {
    const time = Date.parse(event.time);
    if (event.type === "process.started" || event.type === "process.adopted") since = time;
    else if (event.type === "process.exited" || event.type === "process.lost") {
      const from = since ?? begin;
      const isBad = event.data["by"] === "itself" && event.data["exit_code"] !== 0;
      if (time > begin && (since !== null || process.run === 1)) {
        pieces.push({ from: at(from), to: at(time), kind: "u" });
        if (isBad) pieces.push({ from: Math.max(0, at(time) - 1.5), to: at(time), kind: "f" });
      }
      since = null;
    }
  }
  if (process.state_name === "Running") {
    const started = process.state?.["Running"]?.started_at;
    const from = started ? Date.parse(started) : (since ?? begin);
    const kind = process.phase === "unhealthy" ? "w" : process.phase === "starting" ? "r" : "u";
    pieces.push({ from: at(from), to: 120, kind });
  }
  return pieces.map((one) => ({ ...one, to: Math.max(one.to, one.from + 1.2) })).filter((one) => one.to > 0);
}
