// The graph of a run as it is drawn: tasks with their states, groups, and folds where there is too much to show.
import type { Graph, GraphNode, RunDetail, Scope, Task, TaskState, TrailEvent } from "../api/types";

export interface Timed {
  from: number;
  to: number | null; // null: it goes on
  outcome: string;
}

export interface TaskView {
  name: string;
  state: TaskState;
  task: Task | null;
  times: Timed[];
}

export type Shown =
  | { kind: "task"; key: string; view: TaskView; isSpawned: boolean }
  | { kind: "stack"; key: string; views: TaskView[]; state: TaskState }
  | { kind: "group"; key: string; name: string; policy: string; state: TaskState; branches: ShownScope[]; cells: Cell[]; total: number; isRunning: boolean };

export interface Cell {
  name: string;
  state: TaskState;
}

export interface ShownScope {
  nodes: Shown[];
  edges: [number, number][]; // places in `nodes`
}

/** The strongest state of several: failed, asks, retry, running, waiting, ok. */
const strength: TaskState[] = ["failed", "stopped", "interrupted", "asks", "retry", "running", "waiting", "blocked", "not_reached", "ok", "passed", "skipped"];

export function strongest(states: TaskState[]): TaskState {
  let best = strength.length;
  let hasDone = false;
  for (const state of states) {
    best = Math.min(best, strength.indexOf(state));
    hasDone = hasDone || state === "ok";
  }
  const found = strength[best] ?? "waiting";
  return (found === "waiting" || found === "blocked") && hasDone ? "waiting" : found;
}

/** When the attempts of a task began and ended: from the trail, to the millisecond; else from the state file, to the second. */
export function timesOf(events: TrailEvent[], runId: string): Map<string, Timed[]> {
  const found = new Map<string, Timed[]>();
  for (const event of events) {
    if (event.run_id !== runId || !event.task_id) continue;
    const list = found.get(event.task_id) ?? [];
    found.set(event.task_id, list);
    const time = Date.parse(event.time);
    const last = list[list.length - 1];
    if (event.type === "task.started") list.push({ from: time, to: null, outcome: "running" });
    else if (last && last.to === null && event.type === "task.ended") Object.assign(last, { to: time, outcome: String(event.data["outcome"] ?? "ok") });
    else if (last && last.to === null && event.type === "task.asked") Object.assign(last, { to: time, outcome: "asks" });
  }
  return found;
}

/** From the journal, unless the task has gone on since it was read. */
function fromAttempts(task: Task): Timed[] | null {
  const last = task.attempts?.[task.attempts.length - 1];
  const isOpen = task.state === "running" || task.state === "asks" || task.state === "interrupted";
  if (!task.attempts || !last || last.attempt !== (task.attempt ?? last.attempt) || (isOpen && last.ended_at) || (!isOpen && !last.ended_at)) return null;
  const asked = task.state === "asks" && task.asked_at ? { to: Date.parse(task.asked_at), outcome: "asks" } : {};
  return task.attempts.map((one) => ({ from: Date.parse(one.started_at), to: one.ended_at ? Date.parse(one.ended_at) : null, outcome: one.outcome ?? "running", ...(one === last ? asked : {}) }));
}

export function viewsOf(run: RunDetail, events: TrailEvent[]): Map<string, TaskView> {
  const times = timesOf(events, run.run_id);
  const views = new Map<string, TaskView>();
  const isOver = run.status !== "RUNNING" && run.status !== "NEEDS_INPUT";
  for (const task of run.tasks) {
    let known = fromAttempts(task) ?? times.get(task.task) ?? [];
    if (known.length === 0 && task.started_at) known = [{ from: Date.parse(task.started_at), to: task.ended_at ? Date.parse(task.ended_at) : task.state === "running" ? null : Date.parse(task.started_at), outcome: task.state }];
    if (task.state === "interrupted") known = known.map((one) => (one.to === null ? { ...one, to: one.from, outcome: task.state } : one)); // nobody saw its end
    const state: TaskState = task.state === "blocked" ? (isOver ? "not_reached" : "waiting") : task.state;
    views.set(task.task, { name: task.task, state, task, times: known });
  }
  return views;
}

function viewOf(views: Map<string, TaskView>, name: string): TaskView {
  return views.get(name) ?? { name, state: "waiting", task: null, times: [] };
}

function scopeOf(scope: Scope, name: string): Scope | null {
  if (scope.nodes.some((one) => one.name === name)) return scope;
  for (const node of scope.nodes)
    for (const branch of node.group?.branches ?? []) {
      const found = scopeOf(branch, name);
      if (found) return found;
    }
  return null;
}

/** The flow with the tasks that were spawned, each in the branch of its parent and behind it. */
export function withSpawned(graph: Graph): Graph {
  if (!graph.spawned?.length) return graph;
  const scope = structuredClone(graph.scope);
  graph.spawned.forEach(({ task, by }, i) => {
    const home = scopeOf(scope, by) ?? scope;
    const parent = home.nodes.find((one) => one.name === by);
    if (home.nodes.some((one) => one.name === task)) return;
    home.nodes.push({ node: -1 - i, name: task, spawnedBy: by });
    if (parent) home.edges.push([parent.node, -1 - i]);
  });
  return { ...graph, scope };
}

// ---- folding ----

const NODES_MAX = 300;
const CHAIN_MIN = 5;
const BRANCHES_MAX = 12;
const LIFTED_MAX = 5;
const loud = new Set<TaskState>(["failed", "asks", "stopped", "interrupted"]);

function countNodes(scope: Scope): number {
  let n = 0;
  for (const node of scope.nodes) n += 1 + (node.group ? node.group.branches.reduce((sum, one) => sum + countNodes(one), 0) : 0);
  return n;
}

function statesIn(scope: Scope, views: Map<string, TaskView>): TaskState[] {
  return scope.nodes.flatMap((node) => (node.group ? node.group.branches.flatMap((one) => statesIn(one, views)) : [viewOf(views, node.name).state]));
}

function hasTask(scope: Scope, name: string): boolean {
  return scope.nodes.some((node) => node.name === name || (node.group?.branches.some((one) => hasTask(one, name)) ?? false));
}

interface Folding {
  views: Map<string, TaskView>;
  isFolded: boolean;
  selected: string;
}

function showGroup(node: GraphNode, folding: Folding): Shown {
  const branches = node.group?.branches ?? [];
  const inside = branches.map((one) => statesIn(one, folding.views));
  const states = inside.map(strongest);
  const base = { kind: "group" as const, key: `g${node.node}`, name: node.name, policy: node.group?.policy ?? "", state: strongest(states), total: branches.length, isRunning: inside.some((one) => one.includes("running")) };
  if (!folding.isFolded || branches.length <= BRANCHES_MAX) return { ...base, branches: branches.map((one) => showScope(one, folding)), cells: [] };
  const cells = branches.map((one, i) => ({ name: one.name ?? one.nodes[0]?.name ?? "", state: states[i] ?? "waiting" }));
  const rank = (i: number): number => strength.indexOf(states[i] ?? "ok");
  const worst = cells.map((_, i) => i).filter((i) => loud.has(states[i] ?? "ok") || hasTask(branches[i] ?? { nodes: [], edges: [] }, folding.selected)).sort((a, b) => rank(a) - rank(b)).slice(0, LIFTED_MAX);
  return { ...base, cells, branches: worst.map((i) => showScope(branches[i] ?? { nodes: [], edges: [] }, folding)) };
}

/** Chains of one state become a stack; what is chosen, failed or asks stays visible. */
function showScope(scope: Scope, folding: Folding): ShownScope {
  const after = new Map<number, number[]>(), before = new Map<number, number>();
  for (const [from, to] of scope.edges) {
    after.set(from, [...(after.get(from) ?? []), to]);
    before.set(to, (before.get(to) ?? 0) + 1);
  }
  const byNumber = new Map(scope.nodes.map((one) => [one.node, one]));
  const nodes: Shown[] = [];
  const placeOf = new Map<number, number>();
  const canFold = (node: GraphNode | undefined, state: TaskState): node is GraphNode =>
    node !== undefined && !node.group && viewOf(folding.views, node.name).state === state && !loud.has(state) && node.name !== folding.selected;
  for (const node of scope.nodes) {
    if (placeOf.has(node.node)) continue;
    const chain = [node];
    const state = viewOf(folding.views, node.name).state;
    if (folding.isFolded && canFold(node, state))
      for (let at = node; ; ) {
        const nexts = after.get(at.node) ?? [];
        const next = nexts.length === 1 ? byNumber.get(nexts[0] ?? -1) : undefined;
        if (!canFold(next, state) || before.get(next.node) !== 1 || placeOf.has(next.node)) break;
        chain.push(next);
        at = next;
      }
    if (chain.length >= CHAIN_MIN) {
      for (const one of chain) placeOf.set(one.node, nodes.length);
      nodes.push({ kind: "stack", key: `s${node.node}`, state, views: chain.map((one) => viewOf(folding.views, one.name)) });
    } else {
      placeOf.set(node.node, nodes.length);
      nodes.push(node.group ? showGroup(node, folding) : { kind: "task", key: `n${node.node}`, view: viewOf(folding.views, node.name), isSpawned: node.spawnedBy !== undefined });
    }
  }
  const edges = new Set<string>();
  for (const [from, to] of scope.edges) {
    const a = placeOf.get(from), b = placeOf.get(to);
    if (a !== undefined && b !== undefined && a !== b) edges.add(`${a} ${b}`);
  }
  return { nodes, edges: [...edges].map((one) => one.split(" ").map(Number) as [number, number]) };
}

export function showGraph(scope: Scope, views: Map<string, TaskView>, selected: string): ShownScope {
  return showScope(scope, { views, selected, isFolded: countNodes(scope) > NODES_MAX });
}

/** The tasks in the order of the file, with the groups around them: the rows of the bars. */
export interface RowView {
  key: string;
  depth: number;
  name: string;
  state: TaskState;
  times: Timed[];
  isGroup: boolean;
  view: TaskView | null;
  spawnedBy?: string | undefined;
}

export function rowsOf(scope: Scope, views: Map<string, TaskView>, depth = 0): RowView[] {
  return scope.nodes.flatMap((node): RowView[] => {
    if (!node.group) {
      const view = viewOf(views, node.name);
      return [{ key: `n${node.node}`, depth, name: node.name, state: view.state, times: view.times, isGroup: false, view, spawnedBy: node.spawnedBy }];
    }
    const inner = node.group.branches.flatMap((one) => rowsOf(one, views, depth + 1));
    const tasks = inner.filter((one) => !one.isGroup);
    const state = strongest(tasks.map((one) => one.state));
    const all = tasks.flatMap((one) => one.times);
    const from = Math.min(...all.map((one) => one.from));
    const isOpen = tasks.some((one) => one.state === "running" || one.state === "retry" || one.state === "asks" || (one.state === "waiting" && all.length > 0));
    const to = Math.max(...all.map((one) => one.to ?? one.from));
    const times = all.length > 0 ? [{ from, to: isOpen ? null : to, outcome: "group" }] : [];
    return [{ key: `g${node.node}`, depth, name: node.name, state, times, isGroup: true, view: null }, ...inner];
  });
}
