// Where things are drawn: left to right. Sequences and groups nest, so each scope is laid out once, from the inside; a scope with
// other edges is drawn in columns by the longest way to each node. All of it is linear in nodes and edges.
import type { Jump } from "../api/types";
import type { Cell, Shown, ShownScope } from "./model";

export interface Box {
  x: number;
  y: number;
  w: number;
  h: number;
}

export interface Placed extends Box {
  shown: Shown;
  inner: PlacedScope[]; // of a group: its branches
  cells: (Box & { cell: Cell; count: number })[];
  card: Box | null; // around the cells
  inX: number; // where edges arrive and leave
  outX: number;
}

export interface PlacedScope extends Box {
  nodes: Placed[];
  edges: [Placed, Placed][];
  firsts: Placed[];
  lasts: Placed[];
}

const NODE_H = 38, GAP_X = 46, GAP_Y = 8, BRANCH_GAP = 10;
const TOP = 34, BOTTOM = 14, FORK = 18, LEFT = 54, JOIN = 20, RIGHT = 24;
const CELL = 9, CELLS_MAX = 2000, CAPTION = 20;

function widthOf(text: string): number {
  let units = 0;
  for (const c of text) units += c.charCodeAt(0) > 0x2e80 ? 12.5 : 7;
  return Math.max(140, Math.min(200, Math.ceil(34 + units + 56)));
}

function placeCells(cells: Cell[]): { w: number; h: number; cells: Placed["cells"] } {
  const step = Math.max(1, Math.ceil(cells.length / CELLS_MAX));
  const shown = cells.filter((_, i) => i % step === 0);
  const columns = Math.max(12, Math.ceil(Math.sqrt(shown.length * 3)));
  const placed = shown.map((cell, i) => ({ cell, count: step, x: 8 + (i % columns) * CELL, y: 8 + Math.floor(i / columns) * CELL, w: CELL - 2, h: CELL - 2 }));
  return { cells: placed, w: columns * CELL + 14, h: Math.ceil(shown.length / columns) * CELL + 14 };
}

function measureGroup(shown: Shown & { kind: "group" }): Placed {
  const inner = shown.branches.map(measureScope);
  const grid = shown.cells.length > 0 ? placeCells(shown.cells) : null;
  const left = grid ? LEFT + grid.w + 14 : LEFT;
  let y = TOP;
  for (const one of inner) {
    one.x = left;
    one.y = y;
    y += one.h + BRANCH_GAP;
  }
  const height = Math.max(y - BRANCH_GAP - TOP, grid ? grid.h + CAPTION : 0, NODE_H);
  if (grid) for (const cell of grid.cells) {
    cell.x += LEFT;
    cell.y += TOP;
  }
  const title = `${shown.name} · ${shown.policy} · ${shown.total} branches`;
  const content = Math.max(left + Math.max(0, ...inner.map((one) => one.w)), title.length * 6.3 + 6);
  const w = content + JOIN + 4 + RIGHT;
  return { shown, inner, cells: grid?.cells ?? [], card: grid ? { x: LEFT, y: TOP, w: grid.w, h: grid.h } : null, x: 0, y: 0, w, h: TOP + height + BOTTOM, inX: FORK, outX: content + JOIN + 4 };
}

function measure(shown: Shown): Placed {
  if (shown.kind === "group") return measureGroup(shown);
  const w = widthOf(shown.kind === "task" ? shown.view.name : String(shown.views.length) + " tasks");
  return { shown, inner: [], cells: [], card: null, x: 0, y: 0, w, h: NODE_H, inX: 0, outX: w };
}

/** The column of each node: the longest way to it. */
function columnsOf(scope: ShownScope): number[] {
  const n = scope.nodes.length;
  const after: number[][] = Array.from({ length: n }, () => []);
  const waits = Array<number>(n).fill(0);
  for (const [from, to] of scope.edges) {
    after[from]?.push(to);
    waits[to] = (waits[to] ?? 0) + 1;
  }
  const column = Array<number>(n).fill(0);
  const ready = waits.flatMap((w, i) => (w === 0 ? [i] : []));
  for (let at = 0; at < ready.length; at++) {
    const node = ready[at] ?? 0;
    for (const next of after[node] ?? []) {
      column[next] = Math.max(column[next] ?? 0, (column[node] ?? 0) + 1);
      waits[next] = (waits[next] ?? 1) - 1;
      if (waits[next] === 0) ready.push(next);
    }
  }
  return column;
}

/** Nodes of a column in the order of what leads to them, so that edges cross little. */
function orderColumns(scope: ShownScope, column: number[]): number[][] {
  const columns: number[][] = [];
  scope.nodes.forEach((_, i) => (columns[column[i] ?? 0] ??= []).push(i));
  const place = new Map<number, number>();
  const before = new Map<number, number[]>();
  for (const [from, to] of scope.edges) before.set(to, [...(before.get(to) ?? []), from]);
  for (const list of columns) {
    const mean = (i: number): number => {
      const all = (before.get(i) ?? []).map((one) => place.get(one) ?? 0);
      return all.length > 0 ? all.reduce((a, b) => a + b, 0) / all.length : i;
    };
    const means = new Map(list.map((i) => [i, mean(i)]));
    list.sort((a, b) => (means.get(a) ?? 0) - (means.get(b) ?? 0) || a - b);
    list.forEach((i, at) => place.set(i, at));
  }
  return columns;
}

function measureScope(scope: ShownScope): PlacedScope {
  const nodes = scope.nodes.map(measure);
  const columns = orderColumns(scope, columnsOf(scope));
  const heights = columns.map((list) => list.reduce((sum, i) => sum + (nodes[i]?.h ?? 0) + GAP_Y, -GAP_Y));
  const height = Math.max(NODE_H, ...heights);
  let x = 0;
  columns.forEach((list, c) => {
    let y = (height - (heights[c] ?? 0)) / 2;
    let wide = 0;
    for (const i of list) {
      const node = nodes[i];
      if (!node) continue;
      node.x = x;
      node.y = y;
      y += node.h + GAP_Y;
      wide = Math.max(wide, node.w);
    }
    x += wide + GAP_X;
  });
  const has = { before: new Set(scope.edges.map((one) => one[1])), after: new Set(scope.edges.map((one) => one[0])) };
  const edges = scope.edges.flatMap(([a, b]): [Placed, Placed][] => {
    const from = nodes[a], to = nodes[b];
    return from && to ? [[from, to]] : [];
  });
  return { x: 0, y: 0, w: Math.max(0, x - GAP_X), h: height, nodes, edges, firsts: nodes.filter((_, i) => !has.before.has(i)), lasts: nodes.filter((_, i) => !has.after.has(i)) };
}

/** Makes all places absolute. */
function settle(scope: PlacedScope, x: number, y: number): void {
  scope.x += x;
  scope.y += y;
  for (const node of scope.nodes) {
    node.x += scope.x;
    node.y += scope.y;
    node.inX += node.x;
    node.outX += node.x;
    for (const cell of node.cells) {
      cell.x += node.x;
      cell.y += node.y;
    }
    if (node.card) {
      node.card.x += node.x;
      node.card.y += node.y;
    }
    for (const one of node.inner) settle(one, node.x, node.y);
  }
}

const MARGIN = 16;

export function layout(scope: ShownScope): PlacedScope {
  const placed = measureScope(scope);
  settle(placed, MARGIN, MARGIN);
  return placed;
}

export interface Arc {
  jump: Jump;
  d: string;
  x: number; // of its count
  y: number;
}

function placesOf(scope: PlacedScope, found = new Map<string, Placed>()): Map<string, Placed> {
  for (const node of scope.nodes) {
    if (node.shown.kind === "task") found.set(node.shown.view.name, node);
    if (node.shown.kind === "stack") for (const view of node.shown.views) found.set(view.name, node);
    for (const one of node.inner) placesOf(one, found);
  }
  return found;
}

const ARC = 16, ARC_STEP = 14;

/** A jump is an arc below its tasks; each lies deeper than the one before, so that the counts do not meet. */
export function arcsOf(placed: PlacedScope, jumps: Jump[]): Arc[] {
  const places = placesOf(placed);
  const arcs: Arc[] = [];
  for (const jump of jumps) {
    const from = places.get(jump.from), to = places.get(jump.to);
    if (!from || !to) continue;
    const a = from.x + from.w / 2 + (from === to ? 16 : -8), b = to.x + to.w / 2 + (from === to ? -16 : 8);
    const y1 = from.y + from.h, y2 = to.y + to.h, low = Math.max(y1, y2) + ARC + (from === to ? 0 : ARC_STEP * (1 + arcs.length % 4));
    arcs.push({ jump, d: `M${a} ${y1}C${a} ${low} ${a} ${low} ${(a + b) / 2} ${low}C${b} ${low} ${b} ${low} ${b} ${y2 + 1}`, x: (a + b) / 2, y: low + 13 });
  }
  return arcs;
}

export const size = (placed: PlacedScope): { w: number; h: number } => ({ w: placed.w + 2 * MARGIN, h: placed.h + 2 * MARGIN });
export const middle = (box: Box): number => box.y + box.h / 2;
