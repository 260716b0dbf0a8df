// The answers of the API (docs/protocol/http.md). A member with `?` may be missing: the page leaves out what it does not know.

/** The party behind a record (docs/guide/agents.md). */
export interface Who {
  label?: string | null;
  note?: string | null;
  user?: string | null;
  program?: string | null; // null: a person on a terminal
  pid?: number | null;
  host?: string | null;
  instance?: string | null;
  subagent?: string | null;
}

export interface Holder {
  pid?: number | null;
  hostname?: string | null;
  session_id?: string | null;
  run_id?: string | null;
  instance?: string | null;
  alive?: boolean | null;
  how?: string;
  hold?: string;
  who?: Who | null;
}

export interface Lock {
  kind: "name" | "request" | "queue" | "sprint";
  id: string | null;
  state: "free" | "held" | "stale" | "zombie" | "unreadable";
  created_at?: string | null;
  expires_at?: string | null;
  expires_in_ms?: number | null;
  age_ms?: number | null;
  expired?: boolean;
  request_id?: string | null;
  epic_spec?: string | null;
  holder?: Holder | null;
  waiters?: Who[];
}

export interface Probe {
  command?: string[];
  port?: number;
  url?: string;
  http?: string;
  log?: string;
  [key: string]: unknown;
}

export interface Process {
  id: string;
  command: string;
  args: string[];
  env: Record<string, string>;
  cwd: string | null;
  state_name: "NotStarted" | "Running" | "Stopped" | "Failed";
  state?: Record<string, { started_at?: string; stopped_at?: string }>;
  phase: string;
  pid: number | null;
  restarts: number;
  run?: number;
  exit_code?: number | null;
  raw_status?: { code?: number; signal?: string } | null;
  error?: string | null;
  next_start_at?: string | null;
  usage?: { cpu_ms?: number; cpu_percent?: number | null; rss_bytes?: number; uptime_ms?: number };
  restart: "no" | "on-failure" | "always";
  max_retries: number | null;
  backoff_ms: number;
  backoff_max_ms: number;
  healthy_after_ms: number;
  detail?: string | null; // of the probe that failed
  last_exits?: { run: number; exit_code?: number | null; raw_status?: { code?: number; signal?: string } | null; stopped_at: string; by: string }[];
  ready: Probe | null;
  health: Probe | null;
  depends_on: Record<string, string>;
  auto_start_on_restore: boolean;
  created_at: string;
  updated_at: string;
  log: { mode: "direct" | "pipe" | "stamped"; max: number; size?: number };
  started_by?: Who | null;
  last_stderr?: string | null;
  branch?: string | null;
  leftovers?: { pid: number; command?: string }[];
}

/** The spec has what differs from the defaults; `variables` stand in it as `{{NAME}}`. */
export interface Template {
  name: string;
  spec: Pick<Process, "command"> & Partial<Pick<Process, "args" | "cwd" | "restart" | "auto_start_on_restore">>;
  variables: string[];
}

export interface Question {
  id: string;
  task: string;
  session_id: string;
  asked_at?: string;
  question: { question: string; type: "approval" | "text" | "selection" | "multi_selection"; options: string[] };
}

/** With its run. */
export interface AskedQuestion extends Question {
  run_id: string;
  flow: string;
}

export interface Counts {
  total: number;
  done: number;
  ok: number;
  skipped: number;
  failed: number;
  stopped: number;
  asking: number;
  not_reached: number;
  steps?: number; // starts of tasks
}

export type RunStatus = "RUNNING" | "DONE" | "NEEDS_INPUT" | "FAILED" | "CANCELLED" | "INTERRUPTED" | "BROKEN";

export interface Run {
  run_id: string;
  request_id?: string | null;
  flow: string;
  source?: string;
  status: RunStatus;
  started_at: string;
  ended_at: string | null;
  duration_ms?: number;
  counts?: Counts;
  reason?: string;
  reason_code?: string;
  started_by?: Who | null;
}

export type TaskState = "waiting" | "running" | "retry" | "ok" | "failed" | "asks" | "skipped" | "passed" | "not_reached" | "blocked" | "stopped" | "interrupted";

export interface Task {
  node?: number;
  task: string;
  state: TaskState;
  attempt?: number;
  session_id?: string;
  started_at?: string;
  ended_at?: string;
  exit_code?: number;
  attempts?: Attempt[];
  next_try_at?: string;
  asked_at?: string;
  writes?: Record<string, unknown>; // to the channel
  command?: string;
}

export interface Attempt {
  attempt: number;
  started_at: string;
  ended_at?: string | null;
  outcome?: string;
  exit_code?: number;
}

export interface RunDetail extends Run {
  session_id?: string;
  runner?: { pid: number } | null;
  questions: Question[];
  failures?: { task: string; session_id?: string; exit_code?: number; log?: string; log_from?: number; reason?: string }[];
  channel?: Record<string, unknown>;
  tasks: Task[];
  tasks_left_out?: number;
  history?: { time: string; what: string; task?: string; status?: string }[];
}

export type RequestStatus =
  | "draft" | "ready" | "blocked" | "running" | "needs_input" | "failed" | "interrupted" | "cancelled" | "done" | "archived" | "broken";

export interface Request {
  id: string;
  title: string;
  status: RequestStatus;
  priority: "P0" | "P1" | "P2" | "P3";
  flow?: string;
  run?: string | string[];
  body?: string;
  depends_on: string[];
  updated_at: string;
  latest_run: { run_id: string; status: RunStatus; started_at: string; ended_at: string | null; duration_ms?: number; questions?: Question[] } | null;
  lock: Lock | null;
  reason?: string | null;
  detail?: string | null;
  problems?: { line: number; column: number; reason: string }[];
}

export interface Workflow {
  ulTaskId: string;
  ownerInstanceId: string | null;
  ownerPid?: number | null;
  ownerAlive?: boolean | null;
  claimed_at?: string | null;
  how?: string;
  who?: Who | null;
}

export interface Queue {
  status: "running" | "idle" | string;
  ready: number;
  next: string | null;
  stopping?: boolean;
  request_id?: string | null;
  run_id?: string | null;
  created_at?: string;
  age_ms?: number;
  expires_in_ms?: number | null;
  holder?: Holder | null;
  last?: { status: string; reason?: string | null; ran: { request_id: string; run_id: string; status: string }[] } | null;
}

export interface Agent {
  instance: string;
  who: Who;
  agent: boolean;
  since?: string | null;
  alive?: boolean | null;
  how?: string;
  directory?: string | null;
  branch?: string | null;
  holding?: { kind: string; id: string | null }[];
  waiting?: { kind?: string; id?: string | null }[];
  last_call?: { operation?: string; name?: string; at?: string; time?: string } | string | null;
}

/** What an agent may not decide alone. */
export interface Confirmation {
  id: string;
  token: string;
  operation: string;
  instance: string;
  thing?: string | null; // the lock, workflow, process or request
  question: string;
  asked_at: string;
  expires_in_ms: number;
  asked_by?: Who | null;
  from?: Who | null;
  from_alive?: boolean | null;
  how?: string;
}

export type OpenConfirmation = Confirmation & { until: number }; // performance.now()

export interface Status {
  version: string;
  root: string;
  host?: string;
  time: string;
  examined_at?: string; // there is a report of doctor
  locks: Lock[];
  processes: Process[];
  runs: Run[]; // those that go on or wait, and the last few that are over
  questions: AskedQuestion[];
  workflows: Workflow[];
  more_workflows?: number;
  queue: Queue | null;
  confirmations?: Confirmation[];
}

export interface TrailEvent {
  id: number;
  time: string;
  type: string;
  run_id?: string;
  session_id?: string;
  task_id?: string;
  actor?: Who | null;
  data: Record<string, unknown>;
}

export interface DoctorCheck {
  name: string;
  title: string;
  status: "PASS" | "WARN" | "FAIL";
  summary: string;
  evidence: string[];
  fix?: string[];
}

export interface DoctorReport {
  status: "PASS" | "WARN" | "FAIL";
  mode: string;
  checks: DoctorCheck[];
  recovered: Lock[];
}

export interface Scope {
  name?: string;
  nodes: GraphNode[];
  edges: [number, number][];
}

export interface GraphNode {
  node: number;
  name: string;
  group?: { policy: string; branches: Scope[] };
  spawnedBy?: string; // added while the run went on, by this task
}

export interface Jump {
  from: string;
  to: string;
  count: number;
}

export interface Graph {
  name: string;
  scope: Scope;
  commands?: Record<string, string>; // by task
  jumps?: Jump[]; // that the run took: `task again`, `task next`
  spawned?: { task: string; by: string }[];
}

export interface ErrorBody {
  error: {
    category: string;
    reason_code: string;
    message: string;
    summary?: string;
    context: Record<string, unknown>;
    next: string[];
    actions: string[];
  };
  latest_run?: string;
  needs_confirmation?: boolean;
  details?: unknown;
}

export interface Worker {
  id: string;
  name: string;
  host: string;
  tags: string[];
  places: number;
  tasks: number;
  state: string; // up, draining
  version: string;
  commit?: string; // of the directory in which it works
  seen_ms: number;
}
