// The pieces of the picture.
import type { JSX } from "preact";
import type { TaskState } from "../api/types";
import { taskState } from "../states";
import { t } from "../text";
import { duration, left, now } from "../time";
import { glyphShape } from "../ui/shapes";
import { middle, type Arc, type Placed, type PlacedScope } from "./layout";
import type { TaskView } from "./model";

const classes: Partial<Record<TaskState, string>> = { ok: "ok", passed: "w", skipped: "w", running: "run", retry: "warn", asks: "ask", failed: "bad", stopped: "bad", interrupted: "warn" };
const classOf = (state: TaskState): string => classes[state] ?? "w";
const isDone = (state: TaskState): boolean => state === "ok" || state === "passed" || state === "skipped";

/** The time beside a task's name; `compact` where there is little room: `1:04`. */
export function timeText(view: TaskView, compact: boolean): string {
  if (view.state === "asks") return t("state.asks");
  if (view.state === "interrupted") return ""; // nobody saw its end
  if (view.state === "retry") {
    const next = view.task?.next_try_at;
    const wait = next === undefined ? 0 : Math.max(0, Date.parse(next) - now());
    return next === undefined ? t("state.retry_short") : t("task.in", { span: compact && wait >= 60_000 ? left(wait) : duration(wait) });
  }
  const last = view.times[view.times.length - 1];
  if (!last) return "";
  const ms = (last.to ?? now()) - last.from;
  return compact && ms >= 60_000 ? left(ms) : duration(ms, last.to !== null);
}

function stateOf(placed: Placed): TaskState {
  return placed.shown.kind === "task" ? placed.shown.view.state : placed.shown.state;
}

function cutText(text: string, max: number): string {
  return text.length > max ? `${text.slice(0, max - 1)}…` : text;
}

function NodeBox({ placed, selected, onSelect }: { placed: Placed; selected: string; onSelect: (task: string) => void }): JSX.Element {
  const { shown, x, y, w, h } = placed;
  const isStack = shown.kind === "stack";
  const name = shown.kind === "task" ? shown.view.name : shown.kind === "stack" ? t("graph.stack", { n: shown.views.length }) : "";
  const state = taskState(stateOf(placed));
  const time = shown.kind === "task" ? timeText(shown.view, true) : "";
  const pick = shown.kind === "task" && name === selected;
  const target = shown.kind === "task" ? name : shown.kind === "stack" ? (shown.views[0]?.name ?? "") : "";
  const room = Math.floor((w - 44 - (time ? time.length * 6.2 + 8 : 0)) / 6.8);
  const shownName = cutText(name, room);
  return (
    <g
      class={`node ${classOf(stateOf(placed))}${shown.kind === "task" && shown.isSpawned ? " spawned" : ""}${pick ? " pick" : ""}`}
      tabindex={pick ? 0 : -1}
      role="button"
      aria-label={`${shownName} ${time}, ${state.word}`}
      aria-pressed={pick}
      data-task={target}
      onClick={() => onSelect(target)}
      onKeyDown={(event) => event.key === "Enter" && onSelect(target)}
    >
      {pick && <rect class="halo" x={x - 3.5} y={y - 3.5} width={w + 7} height={h + 7} rx="10.5" />}
      {isStack && <rect x={x + 6} y={y + 6} width={w} height={h} rx="8" />}
      {isStack && <rect x={x + 3} y={y + 3} width={w} height={h} rx="8" />}
      <rect x={x} y={y} width={w} height={h} rx="8" />
      <svg class={`g ${state.glyph === "arc" ? "turns" : ""}`} x={x + 10} y={y + h / 2 - 8} width="16" height="16" viewBox="0 0 16 16">
        {glyphShape(state.glyph)}
      </svg>
      <text x={x + 34} y={y + h / 2 + 4.5}>
        {shownName}
      </text>{" "}
      {time && (
        <text class="m" x={x + w - 10} y={y + h / 2 + 4} text-anchor="end">
          {time}
        </text>
      )}
    </g>
  );
}

/** What an edge leads to: a group counts as running when something in it runs. */
function targetState(placed: Placed): TaskState {
  return placed.shown.kind === "group" && placed.shown.isRunning ? "running" : stateOf(placed);
}

/** The nodes of this scope on a path to a node that runs. */
function leading(scope: PlacedScope): Set<Placed> {
  const before = new Map<Placed, Placed[]>();
  for (const [from, to] of scope.edges) before.set(to, [...(before.get(to) ?? []), from]);
  const found = new Set(scope.nodes.filter((one) => targetState(one) === "running"));
  for (const one of found) for (const from of before.get(one) ?? []) found.add(from);
  return found;
}

function edgeClass(from: TaskState, to: TaskState | null): string {
  if (!isDone(from)) return "edge w";
  if (to === "running") return "edge run";
  return to === null || to === "failed" || to === "asks" || isDone(to) ? "edge" : "edge w";
}

function path(x1: number, y1: number, x2: number, y2: number): string {
  if (Math.abs(y1 - y2) < 0.5) return `M${x1} ${y1}H${x2}`;
  const mid = (x1 + x2) / 2;
  return `M${x1} ${y1}C${mid} ${y1} ${mid} ${y2} ${x2} ${y2}`;
}

/** `388 ok · 8 running · 3 failed`. */
function countsOf(shown: Placed["shown"]): string {
  if (shown.kind !== "group") return "";
  const counts = new Map<TaskState, number>();
  for (const cell of shown.cells) counts.set(cell.state, (counts.get(cell.state) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).map(([state, n]) => `${n} ${taskState(state).word}`).join(" · ");
}

function GroupFrame({ placed, depth }: { placed: Placed; depth: number }): JSX.Element {
  const { shown } = placed;
  if (shown.kind !== "group") return <g />;
  const title = `${shown.name} · ${shown.policy} · ${t("graph.branches", { n: shown.total })}`;
  const axes = placed.inner.flatMap((scope) => [...scope.firsts, ...scope.lasts].map(middle));
  const card = placed.card;
  const top = Math.min(...axes.map((y) => y - 15), card?.y ?? Infinity), end = Math.max(...axes.map((y) => y + 15), card ? card.y + card.h : -Infinity);
  const from = card ? card.x + card.w : placed.x + 22;
  const began = shown.state !== "waiting" && shown.state !== "not_reached" && shown.state !== "blocked";
  return (
    <g>
      <rect class={`frame${depth % 2 === 1 ? " in" : ""}`} x={placed.x} y={placed.y} width={placed.w} height={placed.h} rx="12" />
      <text class="m" x={placed.x + 38} y={placed.y + 21}>
        {cutText(title, Math.floor((placed.w - 50) / 6))}
      </text>
      <rect class={`fork ${!began ? "w" : shown.isRunning && !placed.inner.some((scope) => scope.nodes.some((one) => one.shown.kind === "group" && one.shown.isRunning)) ? "run" : ""}`} x={placed.x + 18} y={top} width="4" height={end - top} rx="2" />
      <rect class={`fork ${isDone(shown.state) ? "" : "w"}`} x={placed.outX - 4} y={top} width="4" height={end - top} rx="2" />
      {placed.inner.flatMap((scope) =>
        scope.firsts.map((one) => <path key={`f${one.shown.key}`} class={edgeClass(began ? "ok" : "waiting", leading(scope).has(one) ? "running" : targetState(one))} d={path(from, middle(one), one.inX, middle(one))} />),
      )}
      {placed.inner.flatMap((scope) => scope.lasts.map((one) => <path key={`l${one.shown.key}`} class={edgeClass(stateOf(one), null)} d={path(one.outX, middle(one), placed.outX - 4, middle(one))} />))}
      {card && <rect class="cells" x={card.x} y={card.y} width={card.w} height={card.h} rx="8" />}
      {card && <path class={edgeClass(began ? "ok" : "waiting", shown.isRunning ? "running" : shown.state)} d={path(placed.x + 22, middle(card), card.x, middle(card))} />}
      {card && (
        <text class="m" x={card.x} y={card.y + card.h + 15}>
          {countsOf(placed.shown)}
        </text>
      )}
      {placed.cells.map((one, i) => (
        <rect key={i} class={`cell ${classOf(one.cell.state)}`} x={one.x} y={one.y} width={one.w} height={one.h} rx="1.5">
          <title>{`${one.cell.name} · ${taskState(one.cell.state).word}`}</title>
        </rect>
      ))}
    </g>
  );
}

/** Jumps that were taken: an arc below, with how often. */
export function Arcs({ arcs }: { arcs: Arc[] }): JSX.Element {
  return (
    <>
      {arcs.map(({ jump, d, x, y }) => (
        <g key={`${jump.from} ${jump.to}`} class="jump" data-jump={`${jump.from} ${jump.to}`}>
          <path class="edge" d={d} marker-end="url(#jump)" />
          <text class="m" x={x} y={y} text-anchor="middle">
            ×{jump.count}
          </text>
        </g>
      ))}
    </>
  );
}

export function ScopePicture(props: { scope: PlacedScope; depth: number; selected: string; onSelect: (task: string) => void }): JSX.Element {
  const { scope, depth } = props;
  const way = depth > 0 ? leading(scope) : null; // before the first group, only the last step
  return (
    <>
      {scope.nodes.map((one) => one.shown.kind === "group" && <GroupFrame key={`f${one.shown.key}`} placed={one} depth={depth} />)}
      {scope.edges.map(([from, to]) => (
        <path key={`${from.shown.key}-${to.shown.key}`} class={edgeClass(stateOf(from), way?.has(to) ? "running" : targetState(to))} d={path(from.outX, middle(from), to.inX, middle(to))} />
      ))}
      {scope.nodes.map((one) =>
        one.shown.kind === "group" ? (
          one.inner.map((inner, i) => <ScopePicture key={`${one.shown.key}${i}`} scope={inner} depth={depth + 1} selected={props.selected} onSelect={props.onSelect} />)
        ) : (
          <NodeBox key={one.shown.key} placed={one} selected={props.selected} onSelect={props.onSelect} />
        ),
      )}
    </>
  );
}
