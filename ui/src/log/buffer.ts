// The lines that the page keeps of a log: a window of at most 4 MB, and its place in the log.

/** Offsets of stdout and stderr; a task has one output, the first. */
export type Place = [number, number];

export interface Line {
  key: number;
  text: string;
  time?: string | undefined;
  stream?: string | undefined;
  source?: string | undefined; // which process, in a combined log
  from?: number | undefined; // its offset in its output, and where the next line begins
  to?: number | undefined;
  isOpen?: boolean | undefined; // the rest of the line follows
  rule?: boolean; // a rule across: a start, an exit, a gap
  at?: number | undefined; // the time of a rule: it goes before the lines that are newer
  bad?: boolean;
  of?: "exit" | "restart" | undefined; // a restart joins the rule of the exit before it
}
export type NewLine = Omit<Line, "key">;

export interface Part {
  lines: NewLine[];
  from: Place;
  to: Place;
}

const CHARS_MAX = 4 << 20;
const LINES_MAX = 60_000;

function output(line: NewLine): 0 | 1 {
  return line.stream === "stderr" ? 1 : 0;
}

/** How it ended, and when it starts again. */
export function joinedRule<T extends NewLine>(exit: T, restart: NewLine): T {
  return { ...exit, text: `${exit.text} · ${restart.text}`, of: undefined };
}

export class LogBuffer {
  lines: Line[] = [];
  from: Place = [0, 0]; // of the window
  to: Place = [0, 0];
  private chars = 0;
  private nextKey = 1;

  /** Lines and rules come over two connections. A rule goes before the lines that are newer, a line before the rules that are. */
  private placeOf(line: NewLine): number {
    const time = line.rule ? line.at : line.time ? Date.parse(line.time) : undefined;
    let at = this.lines.length;
    if (time === undefined) return at;
    for (let one = this.lines[at - 1]; one; one = this.lines[at - 1]) {
      const isNewer = line.rule ? !one.rule && one.time !== undefined && Date.parse(one.time) > time : one.rule && one.at !== undefined && one.at >= time;
      if (!isNewer) break;
      at--;
    }
    return at;
  }

  private push(line: NewLine): void {
    const at = this.placeOf(line);
    const last = this.lines[at - 1];
    this.chars += line.text.length;
    if (last?.isOpen && !line.rule && last.source === line.source && last.stream === line.stream && last.to === line.from)
      this.lines[at - 1] = { ...last, text: last.text + line.text, to: line.to, isOpen: line.isOpen };
    else if (line.of === "restart" && last?.of === "exit" && !line.source) this.lines[at - 1] = joinedRule(last, line);
    else this.lines.splice(at, 0, { ...line, key: this.nextKey++ });
    if (line.to !== undefined) this.to[output(line)] = line.to;
  }

  /** Newer lines; the oldest ones make room. */
  add(lines: NewLine[], to?: Place): void {
    this.lines = this.lines.slice();
    for (const line of lines) this.push(line);
    if (to) this.to = [...to];
    let drop = 0;
    while ((this.chars > CHARS_MAX || this.lines.length - drop > LINES_MAX) && drop < this.lines.length - 1) this.chars -= this.lines[drop++]?.text.length ?? 0;
    if (drop === 0) return;
    this.lines = this.lines.slice(drop);
    for (const k of [0, 1] as const) this.from[k] = this.lines.find((one) => one.from !== undefined && output(one) === k)?.from ?? this.to[k];
  }

  get isFull(): boolean {
    return this.chars > CHARS_MAX * 0.9 || this.lines.length > LINES_MAX * 0.9;
  }

  /** Older lines; the newest ones make room. Their keys count down. true: newest lines are no longer kept. */
  prepend(part: Part): boolean {
    const first = this.lines[0]?.key ?? this.nextKey;
    this.lines = [...part.lines.map((line, i) => ({ ...line, key: first - part.lines.length + i })), ...this.lines];
    for (const line of part.lines) this.chars += line.text.length;
    this.from = [...part.from];
    let end = this.lines.length;
    while ((this.chars > CHARS_MAX || end > LINES_MAX) && end > part.lines.length) this.chars -= this.lines[--end]?.text.length ?? 0;
    if (end === this.lines.length) return false;
    this.lines = this.lines.slice(0, end);
    for (const k of [0, 1] as const) this.to[k] = [...this.lines].reverse().find((one) => one.to !== undefined && output(one) === k)?.to ?? this.from[k];
    return true;
  }

  replace(part: Part): void {
    this.lines = [];
    this.chars = 0;
    this.from = [...part.from];
    this.to = [...part.to];
    this.add(part.lines, part.to);
  }
}
