// Keeps the world new. One stream says that something has happened; then what changed is read again. Without an event nothing is
// read, but for a slow look at what has no event (the parties that wait, the last calls of agents).
//
//  L1  `live` means: the stream is open, and the last read was answered after it was opened.
//  L2  A stream that ends is not live at once. The server sends a beat every 5 s: silence of 9 s, or an answer that is missing for
//      10 s, ends the stream.
//  L3  After a pause of this program (sleep, a stopped tab) nothing is live before the next answer.
//  L4  What an event has announced and no answer has shown within a second is old: the page is not live until the answer is here.
//  L5  A page that is not seen reads what events announce, for its title and for notifications, once a second at most.
//  L6  What a connection asks ends with it: the next one does not wait for its answers, nor fail by them.
//  L7  Events that go on do not keep the server busy: the page rests between two looks, as long as the first one took.
import { ApiError, call, dropGoneCaller, readStream, Unreachable, hasToken } from "./api/http";
import type { Agent, AskedQuestion, Confirmation, DoctorReport, Lock, OpenConfirmation, Request, Run, RunDetail, Status, TrailEvent, Workflow } from "./api/types";
import { parseRoute } from "./route";
import { getWorld, setWorld, type World } from "./store";
import { freezeClock, now, setCountedAt, setServerTime } from "./time";
import { keepEvent, readPast } from "./trail";
import { readWorkers } from "./workers";

const SLOW_MS = 15_000;
const SILENCE_MS = 10_000;
const BEATLESS_MS = 9_000;
const SOON_MS = 60; // what happens together is read once
const HIDDEN_MS = 1000; // the same of a page that is not seen
const LATE_MS = 1000;
const PAUSE_MS = 300; // leaves time for an answer before L4
const RETRY_MS = [300, 600, 1200, 2500, 5000];
const OPEN_RUNS_MAX = 20; // that are read in full; the one that is shown is among them
const RUNS_KEPT = 200;

const silence = new Unreachable("silence");

let current: AbortController | null = null; // the connection that counts
let stream: AbortController | null = null; // the same, once it is open
let lastId: string | undefined;
let tries = 0;
let retryTimer: ReturnType<typeof setTimeout> | undefined;
let lookTimer: ReturnType<typeof setTimeout> | undefined;
let plannedAt = Infinity; // when the timer goes
let looking: Promise<void> | null = null;
let isDirty = false;
let owedSince: number | null = null; // the first event that no question has followed
let askedSince: number | null = null; // the same, of the question that is not answered yet
let lateTimer: ReturnType<typeof setTimeout> | undefined;
let lastLook = 0;
let lastTurn = performance.now();
let hasAgents = true;
let lastReport: string | null = null; // when the one that was read was made
let areRunsOld = true; // a run has begun, ended or gone since they were listed
const eventListeners = new Set<(event: TrailEvent) => void>();

export function onEvent(tell: (event: TrailEvent) => void): () => void {
  eventListeners.add(tell);
  return () => void eventListeners.delete(tell);
}

// ---- reading ----

async function optional<T>(promise: Promise<T>): Promise<T | null> {
  try {
    return await promise;
  } catch (problem) {
    if (problem instanceof ApiError && problem.status !== 401) return null;
    throw problem;
  }
}

/** A question of the connection that counts. */
function read<T>(path: string): Promise<T> {
  return call<T>("GET", path, undefined, SILENCE_MS, current?.signal);
}

async function all<K extends string, T>(path: string, key: K): Promise<T[]> {
  const found: T[] = [];
  let cursor: string | null = null;
  do {
    const page: Record<K, T[]> & { cursor: string | null } = await read(`${path}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`);
    found.push(...page[key]);
    cursor = page.cursor;
  } while (cursor);
  return found;
}

async function readAgents(): Promise<Agent[] | null> {
  if (!hasAgents) return null;
  try {
    return (await read<{ agents: Agent[] }>("/api/agents")).agents;
  } catch (problem) {
    if (!(problem instanceof ApiError) || problem.status === 401) throw problem;
    hasAgents = false;
    return null;
  }
}

/** Keeps the old object where nothing has changed, so that a row is drawn again only when it must be. */
function keep<T>(before: T, after: T): T {
  return JSON.stringify(before) === JSON.stringify(after) ? before : after;
}

function keepAll<T>(before: T[], after: T[], key: (one: T) => string): T[] {
  const old = new Map(before.map((one) => [key(one), one]));
  let isSame = before.length === after.length;
  const made = after.map((one, i) => {
    const was = old.get(key(one));
    const kept = was === undefined ? one : keep(was, one);
    isSame = isSame && before[i] === kept;
    return kept;
  });
  return isSame ? before : made;
}

const lockKey = (lock: Lock): string => `${lock.kind}:${lock.id ?? ""}`;

/** When each one ends is known from the first answer that had it. */
function keepConfirmations(before: OpenConfirmation[], after: Confirmation[]): OpenConfirmation[] {
  const made = after.map((one) => before.find((was) => was.id === one.id) ?? { ...one, until: performance.now() + one.expires_in_ms });
  return made.length === before.length && made.every((one, i) => one === before[i]) ? before : made;
}

/** A file that cannot be read has no title and no priority. */
function whole(request: Request): Request {
  return { ...request, title: request.title ?? request.id, priority: request.priority ?? "P2", depends_on: request.depends_on ?? [] };
}

/** The newest runs: the status has few of those that are over, and one that failed is to be seen until something newer is there. */
async function readRuns(): Promise<{ runs: Run[]; cursor: string | null } | null> {
  if (!areRunsOld) return null;
  areRunsOld = false;
  return read<{ runs: Run[]; cursor: string | null }>(`/api/runs?limit=${RUNS_KEPT}`).catch((problem: unknown) => {
    areRunsOld = true;
    throw problem;
  });
}

function mergeRuns(known: Run[], fresh: Run[]): Run[] {
  const all = new Map(known.map((one) => [one.run_id, one]));
  for (const one of fresh) all.set(one.run_id, { ...all.get(one.run_id), ...one });
  return [...all.values()].sort((a, b) => b.run_id.localeCompare(a.run_id));
}

/** Those that are read in full: what is shown and what the queue runs come first. */
function openOnes(status: Status): Run[] {
  const wanted = [parseRoute(location.hash).parts[0], status.queue?.run_id];
  const isWanted = (run: Run): number => Number(wanted.includes(run.run_id));
  return status.runs.filter((run) => run.status === "RUNNING" || run.status === "NEEDS_INPUT").sort((a, b) => isWanted(b) - isWanted(a)).slice(0, OPEN_RUNS_MAX);
}

/** A run that was read in full knows best what it asks. */
function questionsOf(status: Status, open: Record<string, RunDetail>): AskedQuestion[] {
  const whole = Object.values(open).flatMap((run) =>
    run.questions.map((one): AskedQuestion => {
      const asked = run.history?.filter((note) => note.what === "asked" && note.task === one.task).pop()?.time;
      return { run_id: run.run_id, flow: run.flow, ...(asked ? { asked_at: asked } : {}), ...one };
    }),
  );
  return [...whole, ...status.questions.filter((one) => !open[one.run_id])];
}

async function look(): Promise<void> {
  const [status, requests, agents, listed] = await Promise.all([
    read<Status>("/api/status"),
    all<"requests", Request>("/api/requests?all=true&limit=1000", "requests"),
    readAgents(),
    readRuns(),
  ]);
  setServerTime(status.time);
  const countedAt = now();
  const workflows = status.more_workflows ? await all<"workflows", Workflow>("/api/workflows?all=true&limit=1000", "workflows") : status.workflows;
  const open = openOnes(status);
  const details = await Promise.all(open.map((run) => optional(read<RunDetail>(`/api/runs/${run.run_id}`))));
  const before = getWorld();
  const openRuns: Record<string, RunDetail> = {};
  for (const run of details) if (run) openRuns[run.run_id] = keep(before.openRuns[run.run_id] ?? run, run);
  setCountedAt(countedAt);
  setWorld({
    isLoaded: true,
    version: status.version,
    root: status.root,
    host: status.host ?? "",
    processes: keepAll(before.processes, status.processes, (one) => one.id),
    requests: keepAll(before.requests, requests.map(whole), (one) => one.id),
    runs: keepAll(before.runs, mergeRuns(listed?.runs ?? before.runs, status.runs), (one) => one.run_id),
    ...(listed ? { olderRuns: listed.cursor } : {}),
    questions: keep(before.questions, questionsOf(status, openRuns)),
    openRuns: keep(before.openRuns, openRuns),
    locks: keepAll(before.locks, status.locks, lockKey),
    workflows: keepAll(before.workflows, workflows, (one) => one.ulTaskId),
    queue: keep(before.queue, status.queue),
    agents: agents && keep(before.agents, agents),
    confirmations: keepConfirmations(before.confirmations, status.confirmations ?? []),
  });
  void readLastReport(status.examined_at);
}

let lastByte = 0;

/** As long as the answers took, so that a storm of events keeps the server busy for half of the time at most. */
const pause = (took: number): Promise<void> => new Promise((go) => setTimeout(go, Math.min(Math.max(took, SOON_MS), PAUSE_MS)));

/** Reads everything again; calls that come meanwhile make one more round. */
export function refresh(): Promise<void> {
  if (looking) {
    isDirty = true;
    return looking;
  }
  const mine = current;
  looking = (async () => {
    try {
      do {
        const open = stream, began = performance.now();
        isDirty = false;
        owe(owedSince, null);
        await look();
        if (mine !== current) return; // L6
        lastLook = performance.now();
        owe(null, owedSince);
        if (open && open === stream && (owedSince ?? lastLook) > lastLook - LATE_MS) becomeLive();
        if (isDirty && !document.hidden) await pause(lastLook - began); // L7
        if (mine !== current) return;
      } while (isDirty && !document.hidden); // L5
      void readPast(current?.signal);
    } catch (problem) {
      if (mine === current) failed(problem);
    } finally {
      looking = null;
      if (stream && mine !== current) void refresh();
      else plan(!isDirty ? SLOW_MS : document.hidden ? HIDDEN_MS : SOON_MS);
    }
  })();
  return looking;
}

function plan(ms: number): void {
  clearTimeout(lookTimer);
  plannedAt = performance.now() + ms;
  lookTimer = setTimeout(() => {
    plannedAt = Infinity;
    if (stream && (!document.hidden || owedSince !== null)) void refresh(); // without an event, a page that is not seen reads nothing
  }, ms);
}

function owe(asked: number | null, owed: number | null): void {
  askedSince = asked;
  owedSince = owed;
  clearTimeout(lateTimer);
  const first = asked ?? owed;
  if (first !== null) lateTimer = setTimeout(notLive, first + LATE_MS - performance.now());
}

function soon(): void {
  if (owedSince === null) owe(askedSince, performance.now());
  if (looking) isDirty = true;
  else if (!document.hidden) {
    if (performance.now() + SOON_MS < plannedAt) plan(SOON_MS); // an event does not put off what another one has announced
  }
  else if (performance.now() - lastLook > HIDDEN_MS) void refresh(); // at once: timers of a page that is not seen are late
  else plan(HIDDEN_MS);
}

// ---- being live ----

function becomeLive(): void {
  tries = 0;
  freezeClock(false);
  if (getWorld().live !== "live") setWorld({ live: "live", isSilent: false, offSince: null, nextTryAt: null });
}

function notLive(): void {
  const world = getWorld();
  if (world.live === "live" || world.live === "starting") {
    freezeClock(world.live === "live");
    setWorld({ live: "retry", offSince: now() });
  }
}

function failed(problem: unknown): void {
  current?.abort();
  current = null;
  stream = null;
  owe(null, null);
  if (problem instanceof ApiError && problem.status === 401 && !dropGoneCaller(problem)) {
    setWorld({ live: "refused" });
    return;
  }
  if (!(problem instanceof Unreachable || problem instanceof ApiError || problem instanceof TypeError)) console.error(problem);
  notLive();
  setWorld({ isSilent: problem === silence, refusal: problem instanceof ApiError ? problem.message : null });
  const wait = RETRY_MS[Math.min(tries++, RETRY_MS.length - 1)] ?? 5000;
  setWorld({ nextTryAt: performance.now() + wait });
  clearTimeout(retryTimer);
  retryTimer = setTimeout(connect, wait);
}

/** Opens the stream, and reads everything once it is open: what happens in between is in the stream. */
export function connect(): void {
  clearTimeout(retryTimer);
  if (!hasToken()) {
    setWorld({ live: "refused" });
    return;
  }
  current?.abort();
  stream = null;
  areRunsOld = true;
  const mine = new AbortController();
  current = mine;
  const opened = setTimeout(() => current === mine && failed(new Unreachable("no answer")), SILENCE_MS);
  setWorld({ nextTryAt: null });
  lastByte = performance.now();
  readStream("/api/events?beat=true&usage=true", {
    signal: mine.signal,
    lastId,
    onOpen: () => {
      clearTimeout(opened);
      stream = mine;
      isDirty = true;
      void refresh();
      void readWorkers();
    },
    onByte: () => (lastByte = performance.now()),
    onFrame: (frame) => {
      if (frame.id) lastId = frame.id;
      if (frame.event === "beat") setServerTime((JSON.parse(frame.data) as { time: string }).time);
      if (frame.event === "usage") setWorld({ usage: (JSON.parse(frame.data) as { processes: World["usage"] }).processes });
      if (frame.data && frame.event === "message") take(JSON.parse(frame.data) as TrailEvent);
    },
  }).then(
    () => current === mine && failed(new Unreachable("the stream has ended")),
    (problem: unknown) => {
      clearTimeout(opened);
      if (current === mine) failed(problem instanceof ApiError ? problem : new Unreachable(String(problem)));
    },
  );
}

function take(event: TrailEvent): void {
  areRunsOld ||= event.type.startsWith("run.");
  for (const tell of eventListeners) tell(event);
  keepEvent(event);
  soon();
}

/** What doctor said last, to any window: asked for when the status says that there is another report. */
async function readLastReport(examinedAt: string | undefined): Promise<void> {
  if (examinedAt === undefined || examinedAt === lastReport) return;
  lastReport = examinedAt;
  const last = await call<DoctorReport & { at: string; took_ms: number }>("GET", "/api/doctor").catch(() => null);
  if (!last) lastReport = null; // the next look asks again
  const at = Date.parse(last?.at ?? "");
  if (last && at > (getWorld().doctor?.at ?? 0)) setWorld({ doctor: { ...last, at, took: last.took_ms } });
}

function wake(): void {
  const pause = performance.now() - lastTurn;
  lastTurn = performance.now();
  if (pause > 5000) {
    notLive();
    lastByte = performance.now();
    if (stream) void refresh();
  } else if (stream && !document.hidden && performance.now() - lastByte > BEATLESS_MS) failed(silence);
}

export function start(): void {
  setInterval(wake, 1000);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    lastTurn = performance.now();
    if (performance.now() - lastByte > BEATLESS_MS) notLive();
    if (stream) void refresh();
  });
  addEventListener("offline", () => failed(new Unreachable("offline")));
  connect();
}
