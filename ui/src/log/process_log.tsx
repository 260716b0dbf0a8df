// The output of one process, or of several together, live.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError, call, readStream } from "../api/http";
import type { TrailEvent } from "../api/types";
import { onEvent } from "../live";
import { getWorld, useWorld } from "../store";
import { t, titled } from "../text";
import { bytes, clock, duration, span } from "../time";
import { past } from "../trail";
import { Seg } from "../ui/parts";
import { joinedRule, type NewLine, type Part, type Place } from "./buffer";
import { isLive, useLog, when, type Feed, type Hit } from "./feed";
import { LogViewer } from "./viewer";

const PART = 262_144;
const PART_OF_MANY = 65_536;
const HITS_OF_ONE = 5000;
const PAST_MS = 2000; // then lines are shown without their rules
const LINES_OF_MANY = 2000; // so many at least, as far as there are
type Stream = "both" | "stdout" | "stderr";

interface LogLine {
  id?: string;
  stream?: string;
  time?: string | null;
  text?: string;
  from?: number;
  to?: number;
  partial?: boolean;
  cursor?: string;
  missed_bytes?: number;
}

/** The event of a start may be a little later than the first line of output. */
const START_LATE_MS = 100;

/** When a start began: the events of the page reach only so far back, and the newest ones are not among them yet. */
const begun = new Map<string, number>();
const startOf = (data: TrailEvent["data"]): string => `${String(data["process_id"])} ${String(data["run"])}`;

/** How it ended, and after how long if that is known. */
function exitText(event: TrailEvent): string {
  const data = event.data;
  const exit = typeof data["signal"] === "string" ? data["signal"] : t("exit.code", { code: String(data["exit_code"] ?? "?") });
  const isItsStart = (one: TrailEvent): boolean => one.type === "process.started" && startOf(one.data) === startOf(data);
  const known = getWorld().processEvents.find(isItsStart);
  const began = begun.get(startOf(data)) ?? (known && Date.parse(known.time));
  return began === undefined ? t("log.rule.exit", { exit, time: clock(event.time) }) : t("log.rule.exit_after", { exit, took: duration(Date.parse(event.time) - began, true) });
}

function ruleOf(event: TrailEvent): NewLine | null {
  const data = event.data, at = Date.parse(event.time);
  if (event.type === "process.started") {
    if (begun.size > 1000) begun.clear();
    begun.set(startOf(data), at);
    return { rule: true, time: event.time, at: at - START_LATE_MS, text: t("log.rule.start", { n: String(data["run"] ?? ""), time: clock(event.time), pid: String(data["pid"] ?? "") }) };
  }
  if (event.type === "process.exited") {
    const isBad = data["by"] === "itself" && data["exit_code"] !== 0;
    return { rule: true, of: "exit", bad: isBad, time: event.time, at, text: data["by"] === "stop" ? t("log.rule.stopped", { time: clock(event.time) }) : exitText(event) };
  }
  if (event.type === "process.restarting" && Number(data["delay_ms"]) > 0) return { rule: true, of: "restart", bad: true, time: event.time, at, text: t("state.backoff", { span: span(Number(data["delay_ms"])) }) };
  if (event.type === "LOG_TRUNCATED") return { rule: true, time: event.time, at, text: t("log.dropped", { size: bytes(Number(data["lost"] ?? 0)) }) };
  if (event.type === "LOG_GAP") return { rule: true, time: event.time, at, text: t("log.rule.gap") };
  return null;
}

/** Of the events of one process. An exit and the restart that follows it are one rule. */
function rulesOf(events: TrailEvent[]): NewLine[] {
  const rules: NewLine[] = [];
  for (const event of events) {
    const rule = ruleOf(event), last = rules[rules.length - 1];
    if (!rule) continue;
    if (rule.of === "restart" && last?.of === "exit") rules[rules.length - 1] = joinedRule(last, rule);
    else rules.push(rule);
  }
  return rules;
}

function linesOf(line: LogLine, source: string | undefined): NewLine[] {
  const missed: NewLine[] = line.missed_bytes === undefined ? [] : [{ rule: true, text: t("log.dropped", { size: bytes(line.missed_bytes) }), source }];
  if (line.text === undefined) return missed;
  return [...missed, { text: line.text, time: line.time ?? undefined, stream: line.stream, source, from: line.from, to: line.to, isOpen: line.partial }];
}

/** Puts rules among lines, by time. A start goes before its lines, but after the end of the run before it. An exit goes after the lines of the same time. */
function merged(lines: NewLine[], events: TrailEvent[]): NewLine[] {
  const keyed: { at: number; line: NewLine }[] = [];
  let last = 0;
  for (const line of lines) keyed.push({ at: (last = line.time ? Date.parse(line.time) : last), line });
  let before = 0;
  for (const rule of rulesOf(events)) keyed.push({ at: (before = Math.max(before, rule.at ?? 0)), line: rule });
  return keyed.sort((a, b) => a.at - b.at).map((one) => one.line);
}

function place(text: string): Place {
  const [out, err] = text.split(":").map(Number);
  return [out ?? 0, err ?? 0];
}

const cursor = (at: Place): string => `${at[0]}:${at[1]}`;

/** Follows the new lines of these processes from their places on, over one connection. It continues when one of them has run or runs again. */
async function follow(ids: string[], stream: Stream, places: Map<string, Place>, signal: AbortSignal, put: (lines: NewLine[]) => void): Promise<void> {
  const source = (id: string | undefined): string | undefined => (ids.length > 1 ? id : undefined);
  const isThere = (id: string): boolean => getWorld().processes.some((one) => one.id === id);
  const read = new Map<string, number | undefined>(); // the run up to which a process has been read
  const hasMore = (id: string): boolean => getWorld().processes.some((one) => one.id === id && (one.state_name === "Running" || one.run !== read.get(id)));
  for (;;) {
    const there = ids.filter(isThere);
    for (const one of getWorld().processes) if (ids.includes(one.id)) read.set(one.id, one.run);
    const query = [...there.map((id) => `id=${encodeURIComponent(id)}`), `stream=${stream}`, `cursor=${there.map((id) => cursor(places.get(id) ?? [0, 0])).join()}`];
    try {
      if (there.length > 0)
        await readStream(`/api/processes/logs/stream?${query.join("&")}`, {
          signal,
          onFrame: (frame) => {
            if (frame.event !== "message" || !frame.data) return;
            const line = JSON.parse(frame.data) as LogLine;
            const at = places.get(line.id ?? there[0] ?? "");
            if (at && line.to !== undefined) at[line.stream === "stderr" ? 1 : 0] = line.to;
            put(linesOf(line, source(line.id ?? there[0])));
          },
        });
    } catch (problem) {
      if (signal.aborted || (problem instanceof ApiError && problem.status === 404 && ids.length === 1)) return;
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
    await when(signal, () => isLive() && ids.some(hasMore));
  }
}

class ProcessFeed implements Feed {
  constructor(private readonly id: string, private readonly stream: Stream, private readonly source?: string) {}

  private get<T>(query: string): Promise<T> {
    return call<T>("GET", `/api/processes/${encodeURIComponent(this.id)}/logs?stream=${this.stream}&${query}`);
  }

  private async part(query: string, isEnd = false): Promise<Part> {
    const got = await this.get<{ lines: LogLine[]; from: string; cursor: string }>(query);
    const lines = got.lines.flatMap((one) => linesOf(one, this.source));
    await Promise.race([past, new Promise((resolve) => setTimeout(resolve, PAST_MS))]);
    const first = lines[0]?.time, last = isEnd ? undefined : lines[lines.length - 1]?.time;
    const isWhole = isEnd && /^0:0$/.test(got.from); // then the first start belongs to it
    const { events, processEvents } = getWorld();
    const known = [...processEvents, ...events.filter((one) => one.type.startsWith("LOG_"))].sort((a, b) => a.id - b.id);
    const own = known.filter((one) => one.data["process_id"] === this.id && (isWhole || (first === undefined ? isEnd : one.time >= first)) && (last === undefined ? isEnd : one.time < last));
    return { lines: this.source === undefined ? merged(lines, own) : lines, from: place(got.from), to: place(got.cursor) };
  }

  end = (size = PART / 2): Promise<Part> => this.part(`bytes=${size}`, true);
  before = (at: Place, size = PART): Promise<Part> => this.part(`bytes=${size}&before=${cursor(at)}`);
  after = (at: Place): Promise<Part> => this.part(`bytes=${PART}&cursor=${cursor(at)}`);

  async find(expression: string, from: Place): Promise<{ hits: Hit[]; next: Place | null }> {
    const got = await this.get<{ hits: (LogLine & { cursor: string })[]; next: string | null }>(`grep=${encodeURIComponent(expression)}&hits=true&cursor=${cursor(from)}`);
    return { hits: got.hits.map((one) => ({ source: this.source, time: one.time ?? undefined, stream: one.stream, from: one.from ?? 0, place: place(one.cursor) })), next: got.next === null ? null : place(got.next) };
  }

  follow(at: Place, signal: AbortSignal, put: (lines: NewLine[]) => void): Promise<void> {
    return follow([this.id], this.stream, new Map([[this.id, at]]), signal, put);
  }
}

/** Several logs as one, by time. Older lines are given out as far back as all of them have been read. */
class CombinedFeed implements Feed {
  private sources: { id: string; feed: ProcessFeed; waiting: NewLine[]; from: Place; isBegun: boolean }[] = [];
  private places = new Map<string, Place>();

  constructor(private readonly ids: string[], private readonly stream: Stream) {}

  async end(): Promise<Part> {
    const parts = await Promise.all(
      this.ids.map(async (id) => {
        const feed = new ProcessFeed(id, this.stream, id);
        return { id, feed, part: await feed.end(PART_OF_MANY).catch(() => ({ lines: [], from: [0, 0], to: [0, 0] }) satisfies Part) };
      }),
    );
    this.sources = parts.map(({ id, feed, part }) => ({ id, feed, waiting: part.lines, from: part.from, isBegun: part.lines.length === 0 }));
    this.places = new Map(parts.map(({ id, part }) => [id, part.to]));
    return this.before();
  }

  /** The waiting lines, newest first, until one of the logs has to be read further. */
  private take(lines: NewLine[]): void {
    while (!this.sources.some((one) => one.waiting.length === 0 && !one.isBegun)) {
      let best: NewLine[] | null = null, at = "";
      for (const { waiting } of this.sources) {
        const time = waiting[waiting.length - 1]?.time ?? "";
        if (waiting.length > 0 && (best === null || time > at)) (best = waiting), (at = time);
      }
      const line = best?.pop();
      if (!line) return;
      lines.push(line);
    }
  }

  async before(): Promise<Part> {
    const lines: NewLine[] = [];
    this.take(lines);
    while (lines.length < LINES_OF_MANY) {
      const short = this.sources.filter((one) => one.waiting.length === 0 && !one.isBegun);
      if (short.length === 0) break;
      await Promise.all(
        short.map(async (one) => {
          const part = await one.feed.before(one.from, PART_OF_MANY);
          one.waiting = part.lines;
          one.from = part.from;
          one.isBegun = part.lines.length === 0;
        }),
      );
      this.take(lines);
    }
    return { lines: lines.reverse(), from: [0, 0], to: [0, 0] };
  }

  async find(expression: string): Promise<{ hits: Hit[]; next: null }> {
    const all = await Promise.all(
      this.sources.map(async ({ feed }) => {
        const hits: Hit[] = [];
        let at: Place | null = [0, 0];
        while (at !== null && hits.length < HITS_OF_ONE) {
          const found: { hits: Hit[]; next: Place | null } = await feed.find(expression, at);
          hits.push(...found.hits);
          at = found.next;
        }
        return hits;
      }),
    );
    return { hits: all.flat().sort((a, b) => ((a.time ?? "") < (b.time ?? "") ? -1 : 1)), next: null };
  }

  follow(_: Place, signal: AbortSignal, put: (lines: NewLine[]) => void): Promise<void> {
    return follow(this.ids, this.stream, this.places, signal, put);
  }
}

export function ProcessLog({ ids }: { ids: string[] }): JSX.Element {
  const [stream, setStream] = useState<Stream>("both");
  const mode = useWorld((w) => w.processes.find((one) => one.id === ids[0])?.log.mode);
  const log = useLog(`${ids.join()} ${stream}`, () => (ids.length > 1 ? new CombinedFeed(ids, stream) : new ProcessFeed(ids[0] ?? "", stream)));
  useEffect(() => {
    const together: TrailEvent[] = []; // what one message brings
    const put = (): void => {
      const events = together.splice(0);
      for (const id of ids) {
        const rules = rulesOf(events.filter((one) => one.data["process_id"] === id));
        log.put(ids.length > 1 ? rules.map((rule) => ({ ...rule, source: id, text: `${id}: ${rule.text}` })) : rules);
      }
    };
    return onEvent((event) => {
      if (ids.includes(String(event.data["process_id"] ?? "")) && together.push(event) === 1) queueMicrotask(put);
    });
  }, [log]);
  const filter = (
    <Seg
      label={t("log.streams")}
      value={stream}
      onChoose={setStream}
      choices={[
        { value: "both", label: t("filter.all") },
        { value: "stdout", label: "stdout" },
        { value: "stderr", label: "stderr" },
      ]}
    />
  );
  return <LogViewer log={log} empty={titled("empty.process_log")} name={`${ids.join("+")}.log`} filter={filter} hasTimes showMs={mode === "stamped"} sources={ids} />;
}
