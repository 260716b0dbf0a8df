// Shows lines: only those that are seen are drawn. Follows the end until the reader scrolls up.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useKey } from "../keys";
import { t } from "../text";
import { isDark } from "../theme";
import { bytes, clock, exact } from "../time";
import { IconButton } from "../ui/parts";
import { Icon } from "../ui/shapes";
import { parseLine, readable, textOf, type Piece } from "./ansi";
import type { Line } from "./buffer";
import type { LogWindow } from "./feed";
import { useSearch } from "./search";

const ROW = 19, EXTRA = 20, CUT = 4000, WRAPPED_MAX = 1500;

interface Props {
  log: LogWindow;
  empty: [string, string];
  name: string; // of the file that is saved
  filter?: ComponentChildren;
  showMs?: boolean;
  hasTimes: boolean;
  sources: string[]; // of a combined log, in the order of their colours
}

/** The pieces of a line, cut where a hit begins and ends. */
function marked(pieces: Piece[], search: RegExp | null): (Piece & { hit?: boolean })[] {
  if (!search) return pieces;
  const text = textOf(pieces);
  const hits = [...text.matchAll(search)].filter((one) => one[0] !== "").map((one) => [one.index ?? 0, (one.index ?? 0) + one[0].length] as const);
  if (hits.length === 0) return pieces;
  const made: (Piece & { hit?: boolean })[] = [];
  let at = 0;
  for (const piece of pieces) {
    let from = 0;
    const end = at + piece.text.length;
    for (const [begin, stop] of hits) {
      if (stop <= at || begin >= end) continue;
      const a = Math.max(begin - at, from), b = Math.min(stop - at, piece.text.length);
      if (a > from) made.push({ ...piece, text: piece.text.slice(from, a) });
      if (b > a) made.push({ ...piece, text: piece.text.slice(a, b), hit: true });
      from = Math.max(from, b);
    }
    if (from < piece.text.length) made.push({ ...piece, text: piece.text.slice(from) });
    at = end;
  }
  return made;
}

function Pieces({ text, search }: { text: string; search: RegExp | null }): JSX.Element {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? text : text.slice(0, CUT);
  const dark = isDark();
  return (
    <>
      {marked(parseLine(shown), search).map((one, i) => {
        const style = one.colour ? { color: readable(one.colour, dark) } : {};
        return one.hit ? <mark key={i}>{one.text}</mark> : <span key={i} class={one.class} style={style}>{one.text}</span>;
      })}
      {text.length > shown.length && (
        <button type="button" class="linkish" onClick={() => setWhole(true)}>
          {t("log.show_more", { size: bytes(text.length - CUT) })}
        </button>
      )}
    </>
  );
}

function Row(props: { line: Line; top: number | null; search: RegExp | null; isHit: boolean; hasTimes: boolean; showMs: boolean; sources: string[] }): JSX.Element {
  const { line, top } = props;
  const style = top === null ? {} : { top: `${top}px` };
  if (line.rule)
    return (
      <div class={`cutln${line.bad ? " bad" : ""}`} style={style}>
        <span title={line.time ? exact(line.time) : undefined}>{line.text}</span>
      </div>
    );
  return (
    <div class={`ln${line.stream === "stderr" ? " e" : ""}${props.isHit ? " hit" : ""}`} style={style}>
      {props.hasTimes && <time title={line.time ? exact(line.time) : ""}>{line.time ? clock(line.time, props.showMs) : ""}</time>}
      <span class="text" dir="ltr">
        {line.source !== undefined && <b class={`source s${props.sources.indexOf(line.source) % 6}`}>{line.source} │ </b>}
        <Pieces text={line.text} search={props.search} />
      </span>
    </div>
  );
}

export function LogViewer(props: Props): JSX.Element {
  const { log } = props;
  const lines = log.buffer.lines;
  const [wraps, setWraps] = useState(innerWidth <= 700);
  const [times, setTimes] = useState(props.hasTimes && innerWidth > 700);
  const [follows, setFollows] = useState(true);
  const [view, setView] = useState({ top: 0, height: 400 });
  const [middle, setMiddle] = useState<number | null>(null); // wrapped: the index around which lines are drawn; null: the end
  const seen = useRef(0);
  const box = useRef<HTMLDivElement>(null);
  const last = lines[lines.length - 1]?.key ?? 0;
  if (follows) seen.current = last;
  useEffect(() => setFollows(true), [log]);
  useLayoutEffect(() => {
    if (follows && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [last, lines.length, follows, wraps, view.height]);
  const firstKey = lines[0]?.key ?? 0;
  const before = useRef(firstKey);
  useLayoutEffect(() => {
    const added = before.current - firstKey;
    before.current = firstKey;
    if (!follows && box.current && !wraps) box.current.scrollTop += added * ROW; // what is read stays where it is, also when the oldest lines go
  }, [firstKey]);
  useEffect(() => {
    const one = box.current;
    if (!one) return;
    const watch = new ResizeObserver(() => setView({ top: one.scrollTop, height: one.clientHeight }));
    watch.observe(one);
    return () => watch.disconnect();
  }, []);
  const toEnd = (): void => {
    setMiddle(null);
    if (log.isAtEnd) setFollows(true);
    else void log.toEnd().then(() => setFollows(true), () => undefined);
  };
  const onScroll = (): void => {
    const one = box.current;
    if (!one) return;
    setView({ top: one.scrollTop, height: one.clientHeight });
    const isLow = one.scrollHeight - one.scrollTop - one.clientHeight < ROW * 1.5;
    const isAtEnd = isLow && log.isAtEnd && (middle === null || !wraps);
    if (isAtEnd !== follows) setFollows(isAtEnd);
    if (one.scrollTop < ROW * 20 && !isAtEnd) void log.older();
    if (one.scrollHeight - one.scrollTop - one.clientHeight < ROW * 20) void log.newer();
  };
  const goTo = (at: number): void => {
    setFollows(false);
    setMiddle(at);
    const height = box.current?.clientHeight ?? 0;
    requestAnimationFrame(() => {
      if (!box.current) return;
      if (wraps) box.current.querySelector(".ln.hit")?.scrollIntoView({ block: "center" });
      else box.current.scrollTop = Math.max(0, at * ROW - height / 2);
    });
  };
  const search = useSearch(log, () => setFollows(false), goTo);
  useKey("f", () => (follows ? setFollows(false) : toEnd()));
  useKey("w", () => setWraps(!wraps));
  useKey("t", () => setTimes(!times));
  const save = (): void => {
    const url = URL.createObjectURL(new Blob([lines.filter((one) => !one.rule).map((one) => `${one.text}\n`).join("")], { type: "text/plain" }));
    const link = document.createElement("a");
    link.href = url;
    link.download = props.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  };
  const around = Math.max(0, (middle ?? lines.length) - (middle === null ? WRAPPED_MAX : WRAPPED_MAX / 2));
  const first = wraps ? around : Math.max(0, Math.floor(view.top / ROW) - EXTRA);
  const end = wraps ? around + WRAPPED_MAX : Math.min(lines.length, Math.ceil((view.top + view.height) / ROW) + EXTRA);
  const fresh = follows ? 0 : lines.filter((one) => one.key > seen.current).length;
  return (
    <div class="log-box">
      <div class="tools">
        {props.filter}
        {search.field}
        <span class="grow" />
        {props.hasTimes && <IconButton icon="clock" label={t("log.times")} pressed={times} onClick={() => setTimes(!times)} />}
        <IconButton icon="wrap" label={t("log.wrap")} pressed={wraps} onClick={() => setWraps(!wraps)} />
        <IconButton icon="save" label={t("log.save")} onClick={save} />
        <button type="button" class={`btn s${follows ? " held" : ""}`} aria-pressed={follows} onClick={() => (follows ? setFollows(false) : toEnd())}>
          <Icon name="down" />
          {t("log.follow")}
        </button>
      </div>
      <div class={`log${wraps ? " wrapped" : ""}${times ? "" : " plain"}${props.showMs ? " ms" : ""}`} role="log" aria-live="off" aria-label={props.name} tabIndex={0} ref={box} onScroll={onScroll}>
        {lines.length === 0 ? log.isRead && (
          <div class="empty">
            <h3>{props.empty[0]}</h3>
            <p>{props.empty[1]}</p>
          </div>
        ) : (
          <div class="lines" style={wraps ? {} : { height: `${lines.length * ROW}px` }}>
            {lines.slice(first, end).map((line, i) => (
              <Row key={line.key} line={line} top={wraps ? null : (first + i) * ROW} search={search.marks} isHit={search.isHit(line)} hasTimes={times} showMs={props.showMs ?? false} sources={props.sources} />
            ))}
          </div>
        )}
      </div>
      {(fresh > 0 || !log.isAtEnd) && (
        <button type="button" class="btn pri tail" onClick={toEnd}>
          {log.isAtEnd ? t("log.paused", { n: fresh }) : t("log.end")}
        </button>
      )}
    </div>
  );
}
