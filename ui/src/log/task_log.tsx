// What a task has printed.
import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { call, readStream } from "../api/http";
import { titled } from "../text";
import type { NewLine, Part, Place } from "./buffer";
import { isLive, useLog, when, type Feed, type Hit } from "./feed";
import { LogViewer } from "./viewer";

const PART = 262_144;

interface Piece {
  from: number;
  to: number;
  text: string;
}

const encoder = new TextEncoder();
// eslint-disable-next-line no-control-regex
const size = (text: string): number => (/^[\u0000-\u007f]*$/.test(text) ? text.length : encoder.encode(text).length);

/** Text as lines, each with its offset; one without an end is continued by the next piece. */
function linesOf(piece: Piece): NewLine[] {
  let at = piece.from;
  const all = piece.text.split("\n");
  const rest = all.pop() ?? "";
  const lines: NewLine[] = all.map((text) => {
    const from = at;
    at += size(text) + 1;
    return { text, from, to: at };
  });
  if (rest !== "") lines.push({ text: rest, from: at, isOpen: true });
  const last = lines[lines.length - 1];
  if (last) last.to = piece.to; // bytes that are no text are counted by the server only
  return lines;
}

class TaskFeed implements Feed {
  constructor(private readonly base: string, private readonly query: string, private readonly isOpen: () => boolean) {}

  private async part(more: string): Promise<Part> {
    const piece = await call<Piece>("GET", `${this.base}?${this.query}&bytes=${PART}${more}`);
    return { lines: linesOf(piece), from: [piece.from, 0], to: [piece.to, 0] };
  }

  end = (): Promise<Part> => this.part("");
  before = (at: Place): Promise<Part> => this.part(`&before=${at[0]}`);
  after = (at: Place): Promise<Part> => this.part(`&offset=${at[0]}`);

  async find(expression: string, from: Place): Promise<{ hits: Hit[]; next: Place | null }> {
    const got = await call<{ hits: { at: number }[]; next: number | null }>("GET", `${this.base}?${this.query}&grep=${encodeURIComponent(expression)}&offset=${from[0]}`);
    return { hits: got.hits.map((one) => ({ from: one.at, place: [one.at, 0] })), next: got.next === null ? null : [got.next, 0] };
  }

  async follow(place: Place, signal: AbortSignal, put: (lines: NewLine[]) => void): Promise<void> {
    let at = place[0];
    while (this.isOpen()) {
      await readStream(`${this.base}/stream?${this.query}&offset=${at}`, {
        signal,
        onFrame: (frame) => {
          if (frame.event !== "message" || !frame.data) return;
          const piece = JSON.parse(frame.data) as Piece;
          at = piece.to;
          put(linesOf(piece));
        },
      }).catch(() => undefined);
      await new Promise((resolve) => setTimeout(resolve, 500));
      await when(signal, isLive);
    }
  }
}

export function TaskLog({ run, task, isOpen }: { run: string; task: string; isOpen: boolean }): JSX.Element {
  const open = useRef({ now: isOpen, times: 0 });
  if (isOpen && !open.current.now) open.current.times++; // it has begun since: another attempt
  open.current.now = isOpen;
  const log = useLog(`${run} ${task} ${open.current.times}`, () => new TaskFeed(`/api/runs/${run}/logs`, `task=${encodeURIComponent(task)}`, () => open.current.now));
  return <LogViewer log={log} empty={titled("empty.task_log")} name={`${task}.log`} hasTimes={false} sources={[]} />;
}
