// Where the lines of a log come from, and what the page keeps of them. The end comes first, older and newer parts when the reader
// scrolls there, and new lines as they are written while the window reaches the end.
import { useEffect, useReducer, useRef } from "preact/hooks";
import { ApiError } from "../api/http";
import { getWorld, onChange } from "../store";
import { LogBuffer, type Line, type NewLine, type Part, type Place } from "./buffer";

export interface Hit {
  time?: string | undefined;
  source?: string | undefined;
  stream?: string | undefined;
  from: number;
  place: Place; // a part from here on begins with its line
}

export function isLineOf(hit: Hit, line: Line): boolean {
  return line.from === hit.from && line.source === hit.source && (line.stream ?? "stdout") === (hit.stream ?? "stdout");
}

export interface Feed {
  end(): Promise<Part>;
  before(place: Place): Promise<Part>;
  /** Where it is missing, the newer lines stay. */
  after?(place: Place): Promise<Part>;
  /** The hits from there on, the oldest first, and where to go on. */
  find(expression: string, from: Place): Promise<{ hits: Hit[]; next: Place | null }>;
  /** New lines, until the signal. */
  follow(place: Place, signal: AbortSignal, put: (lines: NewLine[]) => void): Promise<void>;
}

/** Resolves when it is due, which is asked whenever something changes; rejects when the signal comes first. */
export function when(signal: AbortSignal, isDue: () => boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (settle: () => void): void => {
      stop();
      settle();
    };
    const stop = onChange(() => isDue() && end(resolve));
    const leave = (): void => end(() => reject(new DOMException("aborted", "AbortError")));
    signal.addEventListener("abort", leave, { once: true });
    if (signal.aborted) leave();
    else if (isDue()) end(resolve);
  });
}

export const isLive = (): boolean => getWorld().live === "live";

export class LogWindow {
  readonly buffer = new LogBuffer();
  isAtEnd = true; // new lines are added
  isBegun = false; // there is nothing older
  isRead = false; // the log has been read at least once, or the server has refused it
  private reading: Promise<void> | null = null; // a part that is under way
  private stop = new AbortController();
  private waiting: NewLine[] = [];
  private isDue = false;
  private turn = 0; // of the place that was chosen last: answers for another one come too late
  private reaches = 0;

  constructor(private readonly feed: Feed, private readonly changed: () => void) {}

  close(): void {
    this.stop.abort();
  }

  private leave(): void {
    this.stop.abort();
    this.isAtEnd = false;
    this.waiting = [];
  }

  /** Shows the end, and follows it. */
  async toEnd(): Promise<void> {
    this.stop.abort();
    this.turn++;
    const stop = (this.stop = new AbortController());
    const part = await this.feed.end();
    if (stop.signal.aborted) return;
    this.isRead = true;
    this.waiting = [];
    this.isBegun = false;
    this.buffer.replace(part);
    this.changed();
    this.attach(stop);
  }

  /** Shows the end as soon as the server can be reached. A log that does not exist is shown as empty. */
  async begin(signal: AbortSignal): Promise<void> {
    while (!this.isRead) {
      await when(signal, isLive);
      await this.toEnd().catch((problem) => {
        this.isRead = problem instanceof ApiError;
        if (!this.isRead) return new Promise((resolve) => setTimeout(resolve, 500));
        this.changed();
      });
    }
  }

  private attach(stop: AbortController): void {
    this.isAtEnd = true;
    this.feed.follow([...this.buffer.to], stop.signal, (lines) => !stop.signal.aborted && this.put(lines)).catch(() => undefined);
  }

  /** Lines that come fast are drawn together. */
  put(lines: NewLine[]): void {
    if (!this.isAtEnd) return;
    this.waiting.push(...lines);
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      if (this.waiting.length === 0) return;
      this.buffer.add(this.waiting.splice(0));
      this.changed();
    });
  }

  /** One part at a time: where one is under way, that one is waited for. */
  private alone(work: () => Promise<void>): Promise<void> {
    this.reading ??= work().then(() => undefined, () => undefined).then(() => void (this.reading = null));
    return this.reading;
  }

  older(): Promise<void> {
    if (this.isBegun || (!this.feed.after && this.buffer.isFull)) return Promise.resolve();
    return this.alone(async () => {
      const mine = this.turn;
      const part = await this.feed.before([...this.buffer.from]);
      if (mine !== this.turn) return;
      if (part.lines.length === 0) this.isBegun = true;
      else if (this.buffer.prepend(part)) this.leave();
      this.changed();
    });
  }

  newer(): Promise<void> {
    if (this.isAtEnd || !this.feed.after) return Promise.resolve();
    return this.alone(async () => {
      const mine = this.turn;
      const part = await this.feed.after?.([...this.buffer.to]);
      if (!part || mine !== this.turn) return;
      if (part.lines.length === 0) this.attach((this.stop = new AbortController()));
      else this.buffer.add(part.lines, part.to);
      this.isBegun = false;
      this.changed();
    });
  }

  index(hit: Hit): number {
    return this.buffer.lines.findIndex((one) => isLineOf(hit, one));
  }

  /** Goes where the hit is, unless it is among the lines that are there; its index, or -1. */
  async show(hit: Hit): Promise<number> {
    if (!this.feed.after) return this.reach(hit);
    const mine = ++this.turn;
    const at = this.index(hit);
    if (at >= 0) return at;
    const [before, after] = await Promise.all([this.feed.before(hit.place), this.feed.after(hit.place)]);
    if (mine !== this.turn) return -1;
    this.leave();
    this.isBegun = before.lines.length === 0;
    this.buffer.replace({ lines: [...before.lines, ...after.lines], from: before.from, to: after.to });
    this.changed();
    return this.index(hit);
  }

  /** Without newer parts, the older ones are read up to there, as far as they are kept. None of them may be left out: they come once. */
  private async reach(hit: Hit): Promise<number> {
    const mine = ++this.reaches;
    while (mine === this.reaches && this.index(hit) < 0 && !this.isBegun && !this.buffer.isFull) {
      const count = this.buffer.lines.length;
      await this.older();
      if (this.buffer.lines.length === count) break; // nothing could be read
    }
    return mine === this.reaches ? this.index(hit) : -1;
  }

  find(expression: string, from: Place): Promise<{ hits: Hit[]; next: Place | null }> {
    return this.feed.find(expression, from);
  }
}

/** A window on the log that `make` reads; another `key` is another log. */
export function useLog(key: string, make: () => Feed): LogWindow {
  const [, again] = useReducer((n: number) => n + 1, 0);
  const shown = useRef<{ key: string; log: LogWindow } | null>(null);
  if (shown.current?.key !== key) {
    shown.current?.log.close();
    shown.current = { key, log: new LogWindow(make(), () => again(0)) };
  }
  const log = shown.current.log;
  useEffect(() => {
    const stop = new AbortController();
    log.begin(stop.signal).catch(() => undefined);
    return () => {
      stop.abort();
      log.close();
    };
  }, [log]);
  return log;
}
