// Duration bars: one row per task in the order of the file, one bar per attempt. For screen readers and phones they are the graph.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Graph, Jump, RunDetail } from "../api/types";
import { taskState } from "../states";
import { useWorld } from "../store";
import { t } from "../text";
import { duration, left, now } from "../time";
import { Glyph } from "../ui/shapes";
import { timeText } from "./draw";
import { rowsOf, viewsOf, type RowView, type Timed } from "./model";

const tones: Record<string, string> = { running: "run", failed: "bad", retry: "bad", stopped: "bad", asks: "ask", group: "grp" };
const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];

function ticksOf(ms: number): number[] {
  const step = (steps.find((one) => ms / 1000 / one <= 4) ?? 86400) * 1000;
  return Array.from({ length: Math.floor(ms / step) + 1 }, (_, i) => i * step);
}

const ROW = 27, ROW_NARROW = 40, HEAD = 36;
const LONG = 200; // more rows than this: only those that are seen are drawn

interface Scale {
  from: number;
  ms: number;
}

function Bar({ time, scale, tone }: { time: Timed; scale: Scale; tone: string }): JSX.Element {
  const at = (ms: number): number => (100 * (ms - scale.from)) / scale.ms;
  const to = time.to ?? now();
  return <i class={tone} style={{ left: `${at(time.from)}%`, width: `max(2px, ${at(to) - at(time.from)}%)` }} />;
}

/** What the arcs and the dotted nodes of the graph say. */
function besideName(row: RowView, jumps: Jump[]): string {
  const words = jumps.filter((one) => one.from === row.name).map(({ from, to, count: n }) => (from === to ? t("graph.again", { n }) : t("graph.jump", { task: to, n })));
  return [...(row.spawnedBy === undefined ? [] : [t("graph.spawned", { task: row.spawnedBy })]), ...words].join(" · ");
}

function Row(props: { row: RowView; jumps: Jump[]; index: number; top: number | null; scale: Scale; isChosen: boolean; isOver: boolean; onSelect: (task: string) => void }): JSX.Element {
  const { row, scale } = props;
  const state = taskState(row.state);
  const beside = row.isGroup ? "" : besideName(row, props.jumps);
  const last = row.times[row.times.length - 1];
  const waits = !props.isOver && last && last.to !== null && (row.state === "retry" || row.state === "asks");
  const isNarrow = innerWidth <= 700;
  const ms = last ? (last.to ?? now()) - last.from : 0;
  const time = row.view ? timeText(row.view, isNarrow || row.state === "retry") : last ? (isNarrow && ms >= 60_000 ? left(ms) : duration(ms)) : "";
  return (
    <div
      class={`gr${props.isChosen ? " sel" : ""}`}
      role="row"
      aria-level={row.depth + 1}
      aria-rowindex={props.index + 2}
      style={props.top === null ? {} : { top: `${props.top}px` }}
      aria-selected={props.isChosen}
      aria-expanded={row.isGroup ? true : undefined}
      tabIndex={props.isChosen ? 0 : -1}
      data-row
      data-task={row.name}
      onClick={() => !row.isGroup && props.onSelect(row.name)}
      onKeyDown={(event) => event.key === "Enter" && !row.isGroup && props.onSelect(row.name)}
    >
      <span class="row cut" role="gridcell" style={{ paddingLeft: `${row.depth * 16}px` }}>
        <Glyph name={state.glyph} tone={state.tone} label={state.word} />
        <span class={`cut${props.isChosen ? " b" : ""}${row.times.length === 0 ? " dim" : ""}`}>{row.name}</span>
        {beside && <span class="dim small num cut beside" title={beside}>{beside}</span>}
      </span>
      <span class="track" role="gridcell" aria-label={t("bars.attempts", { n: row.times.length })}>
        {row.times.map((one, i) => (
          <Bar key={i} time={one} scale={scale} tone={tones[one.outcome] ?? ""} />
        ))}
        {waits && last && <Bar time={{ from: last.to ?? now(), to: null, outcome: "gap" }} scale={scale} tone="gap" />}
      </span>
      <span class={`d num${row.state === "asks" && !row.isGroup ? " ask" : ""}`} role="gridcell">{time}</span>
    </div>
  );
}

export function Bars(props: { run: RunDetail; graph: Graph; selected: string; onSelect: (task: string) => void }): JSX.Element {
  const events = useWorld((w) => w.events);
  const views = viewsOf(props.run, events);
  const rows = rowsOf(props.graph.scope, views);
  const inGraph = new Set(rows.map((one) => one.name));
  for (const view of views.values()) if (!inGraph.has(view.name)) rows.push({ key: `x${view.name}`, depth: 0, name: view.name, state: view.state, times: view.times, isGroup: false, view });
  const isOver = props.run.status !== "RUNNING" && props.run.status !== "NEEDS_INPUT";
  const from = Math.min(Date.parse(props.run.started_at), ...rows.flatMap((one) => one.times.map((time) => time.from)));
  const end = isOver ? Math.max(from + 1, ...rows.flatMap((one) => one.times.map((time) => time.to ?? time.from)), props.run.ended_at ? Date.parse(props.run.ended_at) : 0) : now();
  const ms = Math.max(1000, (end - from) * (isOver ? 1.02 : 1.12));
  const scale = { from, ms };
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const height = innerWidth <= 700 ? ROW_NARROW : ROW;
  const chosen = rows.findIndex((one) => one.name === props.selected);
  useEffect(() => {
    const one = box.current;
    if (!one || chosen < 0) return;
    const at = chosen * height;
    if (at < one.scrollTop || at > one.scrollTop + one.clientHeight - HEAD - height) one.scrollTop = at - one.clientHeight / 3;
  }, [props.selected]);
  const isLong = rows.length > LONG;
  const first = isLong ? Math.max(0, Math.floor(top / height) - 10) : 0;
  const shown = isLong ? rows.slice(first, first + Math.ceil((box.current?.clientHeight ?? 600) / height) + 30) : rows;
  const place = (at: number): string => `calc(180px + (100% - 264px) * ${at / ms})`;
  return (
    <div class={`bars${isLong ? " long" : ""}`} role="treegrid" aria-label={t("bars.label", { flow: props.graph.name })} aria-rowcount={rows.length + 1} ref={box} onScroll={(event) => isLong && setTop(event.currentTarget.scrollTop)}>
      <div class="gr heads" role="row">
        <span role="columnheader">{t("bars.task")}</span>
        <span class="track" role="columnheader" aria-label={t("bars.time")}>
          {ticksOf(ms).map((at) => (
            <span key={at} class="tick num" style={{ left: `${(100 * at) / ms}%` }}>
              {left(at)}
            </span>
          ))}
        </span>
        <span class="d" role="columnheader">{t("bars.duration")}</span>
      </div>
      <div class="gantt" role="rowgroup" style={isLong ? { height: `${rows.length * height}px` } : {}}>
        {ticksOf(ms).map((at) => (
          <span key={at} class="axis" style={{ left: place(at) }} aria-hidden="true" />
        ))}
        {!isOver && <span class="axis now" style={{ left: place(end - from) }} aria-hidden="true" />}
        {shown.map((row, i) => (
          <Row key={row.key} row={row} jumps={props.graph.jumps ?? []} index={first + i} top={isLong ? (first + i) * height : null} scale={scale} isOver={isOver} isChosen={row.name === props.selected} onSelect={props.onSelect} />
        ))}
      </div>
    </div>
  );
}
