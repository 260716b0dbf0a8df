// A storm of changes, a cut network, sleep: each state shown was the server's within the last second, or is marked as not live.
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { flow } from "./work.mjs";

/** Between the page and the server: open, closed (connections end, none is accepted), or silent (nothing passes). */
export class Proxy {
  mode = "open";
  sockets = new Set();

  async start(port) {
    this.server = createServer((near) => {
      if (this.mode === "closed") return near.destroy();
      const far = connect(port, "127.0.0.1");
      for (const [from, to] of [[near, far], [far, near]]) {
        this.sockets.add(from);
        from.on("data", (data) => this.mode !== "silent" && to.write(data));
        from.on("error", () => undefined);
        from.on("close", () => (this.sockets.delete(from), this.mode !== "silent" && to.destroy()));
      }
    });
    await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    return this.server.address().port;
  }

  turn(mode) {
    this.mode = mode;
    if (mode !== "silent") for (const one of this.sockets) one.destroy(); // what was silent is lost
  }

  stop() {
    this.turn("closed");
    this.server.close();
  }
}

const wireOf = (one) => (one.phase ? `${one.state_name} (${one.phase})` : one.state_name);
const isOver = (status) => (status === "done" || status === "archived" ? undefined : status); // the page shows only some of these
const said = {
  processes: (answer) => Object.fromEntries(answer.processes.map((one) => [one.id, wireOf(one)])),
  locks: (answer) => Object.fromEntries(answer.locks.map((one) => [one.id ?? one.kind, one.state])),
  requests: (answer) => Object.fromEntries(answer.requests.map((one) => [one.id, isOver(one.status)])),
};

/** What the server has said, and when: asked by the test ten times a second, and by the pages themselves. */
export class Truth {
  records = { processes: [], locks: [], requests: [] };
  worst = 0; // the longest time for which this test, a page or the server stood still
  isOver = false;

  constructor(play) {
    this.play = play;
  }

  put(kind, from, answer) {
    this.records[kind].push({ from, to: Date.now(), of: said[kind](answer) });
    this.worst = Math.max(this.worst, Date.now() - from);
  }

  async ask() {
    const from = Date.now();
    const [status, requests] = await Promise.all([this.play.api("GET", "/api/status"), this.play.api("GET", "/api/requests?all=true&limit=1000")]);
    for (const kind of ["processes", "locks"]) this.put(kind, from, status);
    this.put("requests", from, requests);
  }

  async go() {
    while (!this.isOver) {
      const from = Date.now();
      await this.ask().catch(() => undefined); // there may be no server
      await new Promise((resolve) => setTimeout(resolve, 100));
      this.worst = Math.max(this.worst, Date.now() - from - 100);
    }
  }

  /** What the page reads, and what it shows: ten samples a second, taken in the page. */
  async watch(page, kind) {
    page.on("response", async (response) => {
      const kinds = response.url().includes("/api/status") ? ["processes", "locks"] : response.url().includes("/api/requests?") ? ["requests"] : [];
      const answer = kinds.length > 0 && response.ok() ? await response.json().catch(() => null) : null;
      if (answer) for (const one of kinds) this.put(one, response.request().timing().startTime, answer);
    });
    await page.evaluate(() => {
      const now = () => performance.timeOrigin + performance.now();
      let last = now();
      window.samples = [];
      setInterval(() => {
        const rows = [...document.querySelectorAll("main [data-id]")].map((row) => [row.dataset.id, row.querySelector(".mark")?.title]);
        const isLive = document.querySelector(".live.retry, .live.starting, .live.off") === null && !document.documentElement.classList.contains("stale");
        window.samples.push({ at: now(), late: now() - last - 100, isLive, rows: Object.fromEntries(rows) });
        last = now();
      }, 100);
    });
    return { page, kind };
  }

  /** How old the oldest thing was that a page showed as live, in ms; with what it was. */
  async oldest({ page, kind }) {
    const samples = await page.evaluate(() => window.samples.splice(0));
    let found = { ms: 0, what: "" };
    for (const one of samples) this.worst = Math.max(this.worst, one.late);
    for (const sample of samples.filter((one) => one.isLive)) {
      const ids = new Set(Object.keys(sample.rows));
      for (const record of this.records[kind]) for (const id of Object.keys(record.of)) ids.add(id);
      for (const id of ids) {
        const shown = isOver(sample.rows[id]);
        let ms = Infinity;
        for (const record of this.records[kind]) if (record.from <= sample.at && record.of[id] === shown) ms = Math.min(ms, Math.max(0, sample.at - record.to));
        if (ms > found.ms) found = { ms, what: `${id} ${shown ?? "missing"} at ${new Date(sample.at).toISOString()}` };
      }
    }
    return { ...found, live: samples.filter((one) => one.isLive).length, all: samples.length };
  }
}

const SECOND = 1000;

async function agrees(play, truth, watched) {
  const found = await truth.oldest(watched);
  play.ok(found.ms <= SECOND + 2 * truth.worst, `${watched.kind}: what was shown was ${Math.round(found.ms)} ms old (${found.what}); the machine stood still for up to ${Math.round(truth.worst)} ms`);
  return found;
}

/** Kills a process, which another part of the storm may have stopped since it was listed. */
function killed(pid) {
  try {
    process.kill(pid, "SIGKILL");
  } catch (problem) {
    if (problem.code !== "ESRCH") throw problem;
  }
}

/** Processes start, end and are killed; locks come and go; requests are written, run and removed. For some seconds, and until `isEnough`. */
export function blow(play, seconds, isEnough = () => true) {
  const end = Date.now() + seconds * 1000;
  const quietly = (promise) => promise.catch(() => undefined);
  const turns = async (act) => {
    for (let i = 0; Date.now() < end || !isEnough(); i++) await act(i);
  };
  const pids = async () => (await play.json("proc", "list")).processes.filter((one) => one.pid).map((one) => one.pid);
  return Promise.all([
    turns(async (i) => {
      await quietly(play.cli("proc", "start", `p${i % 4}`, `p${(i + 1) % 4}`));
      await quietly(play.cli("proc", "stop", `p${(i + 2) % 4}`));
    }),
    turns(async () => {
      await new Promise((resolve) => setTimeout(resolve, 700));
      for (const pid of (await pids()).slice(0, 2)) killed(pid);
    }),
    turns((i) => quietly(play.cli("lock", "run", `l${i % 3}`, "--", "sleep", "0.2"))),
    turns(async (i) => {
      const id = `RQ-${i % 3}`;
      await quietly(play.cli("request", "add", `Title ${i}`, "--id", id, "--", "sleep", "0.3"));
      await quietly(play.cli("request", "run", id));
      await quietly(play.cli("request", "remove", id, "--force"));
    }),
  ]);
}

async function windows(play, truth, address) {
  const watched = [];
  for (const kind of ["processes", "requests", "locks"]) {
    const page = await play.window(address ? { address } : {});
    await play.sees(page, "Live", ".live");
    await play.go(page, `#/${kind}`);
    await play.sees(page, { processes: "Processes", requests: "Requests", locks: "Locks and owners" }[kind], "h1");
    await page.locator("main .page, main .split").first().waitFor();
    watched.push(await truth.watch(page, kind));
  }
  return watched;
}

async function right(play, { page, kind }) {
  await play.sees(page, "Live", ".live");
  await play.until(async () => {
    const answer = await play.api("GET", kind === "requests" ? "/api/requests?all=true&limit=1000" : "/api/status");
    const rows = Object.fromEntries(await page.locator("main [data-id]").evaluateAll((all) => all.map((row) => [row.dataset.id, row.querySelector(".mark")?.title])));
    const want = said[kind](answer);
    return Object.keys({ ...want, ...rows }).every((id) => want[id] === isOver(rows[id]));
  }, `${kind} are right again`);
}

async function scene(play) {
  play.mayLoseServer = true;
  for (const id of ["p0", "p1", "p2", "p3"]) await play.cli("proc", "create", id, "--", "sleep", "1000");
}

export async function storm(play) {
  await scene(play);
  const truth = new Truth(play);
  const asks = truth.go();
  const watched = await windows(play, truth);
  await blow(play, 6);
  for (const one of watched) await right(play, one);
  truth.isOver = true;
  await asks;
  for (const one of watched) play.ok((await agrees(play, truth, one)).live > 0, `${one.kind} were live`);
}

/** The server is killed in the middle of a storm; a new one takes its place, and the page is live before the storm ends. */
export async function restarted(play) {
  await scene(play);
  const truth = new Truth(play);
  const asks = truth.go();
  const watched = (await windows(play, truth)).slice(0, 1);
  let isEnough = false;
  const storm = blow(play, 2, () => isEnough);
  await new Promise((resolve) => setTimeout(resolve, 1000));
  process.kill(play.pid, "SIGKILL");
  await play.sees(watched[0].page, "Reconnecting", ".live");
  play.serve();
  await play.sees(watched[0].page, "Live", ".live").finally(() => (isEnough = true)); // while things go on changing
  await storm;
  await right(play, watched[0]);
  truth.isOver = true;
  await asks;
  const found = await truth.oldest(watched[0]);
  // A connection that has ended is shown at once, but for two seconds at most nobody can know it.
  play.ok(found.ms <= 2 * SECOND + 2 * truth.worst, `what was shown was ${Math.round(found.ms)} ms old (${found.what})`);
}

/** Each way in which a network goes away: the page says so, does not lie meanwhile, and is right when it is back. */
export async function cut(play) {
  await scene(play);
  const proxy = new Proxy();
  const port = await proxy.start(play.port);
  const page = await play.window({ address: `http://127.0.0.1:${port}/${new URL(play.page).hash}` });
  try {
    await play.sees(page, "Live", ".live");
    await play.go(page, "#/processes/p0");
    await page.locator(".detail .acts .btn").first().waitFor(); // the page itself is loaded when it is first needed
    for (const [mode, act, state] of [["closed", "start", "Running"], ["silent", "stop", "Stopped"]]) {
      proxy.turn(mode);
      await play.sees(page, "Reconnecting", ".live");
      await play.sees(page, "Not live since", ".strip.off");
      play.ok(await page.locator(".detail .acts .btn").first().isDisabled(), `no action while the network is ${mode}`);
      if (mode === "closed") {
        await page.keyboard.press("Control+k"); // a part that was not loaded yet
        await play.sees(page, "The server does not answer", ".toast");
        await play.go(page, "#/doctor");
      }
      await play.cli("proc", act, "p0");
      proxy.turn("open");
      await play.sees(page, "Live", ".live");
      if (mode === "closed") await play.sees(page, "Full examination"); // it is loaded after all
      await play.go(page, "#/processes/p0");
      await page.locator(".detail .log-box").waitFor();
      await play.until(async () => (await page.locator("[data-id=p0] .mark").getAttribute("title")).startsWith(state), `${state} is shown`);
      await play.until(async () => (await page.locator(".strip.off").count()) === 0, "the strip is gone");
    }
  } finally {
    proxy.stop();
  }
}

/** The processes of the browser, from /proc. */
export function browserTree() {
  const parents = new Map();
  for (const pid of readdirSync("/proc").filter((one) => /^\d+$/.test(one)))
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      parents.set(Number(pid), { parent: Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]), name: stat.slice(stat.indexOf("(") + 1, stat.lastIndexOf(")")) });
    } catch {
      // it has ended
    }
  const isBelow = (pid) => pid === process.pid || (parents.has(pid) && isBelow(parents.get(pid).parent));
  return [...parents].filter(([pid, one]) => pid !== process.pid && /^chrom/.test(one.name) && isBelow(pid)).map(([pid]) => pid);
}

/** The laptop sleeps: the browser stands still, things change, and its clock has jumped when it wakes up. */
export async function asleep(play) {
  await play.launch();
  await scene(play);
  await play.cli("proc", "start", "p0");
  const page = await play.window();
  await play.sees(page, "Live", ".live");
  await play.go(page, "#/processes/p0");
  await play.until(async () => (await page.locator("[data-id=p0] .mark").getAttribute("title")) === "Running (ready)", "p0 runs");
  const truth = new Truth(play), watched = await truth.watch(page, "processes");
  await truth.ask();
  const HOUR = 3600_000;
  await page.evaluate((ms) => {
    const real = Date;
    const shift = () => (window.hasSlept ? ms : 0);
    window.Date = class extends real {
      constructor(...args) {
        if (args.length === 0) super(real.now() + shift());
        else super(...args);
      }
      static now() {
        return real.now() + shift();
      }
    };
    setInterval(() => {
      if (performance.now() - (window.turn ?? performance.now()) > 5000) window.hasSlept = true;
      window.turn = performance.now();
    }, 50);
  }, HOUR);
  await page.waitForTimeout(200);
  const tree = browserTree();
  play.ok(tree.length > 2, "the browser's processes are found");
  const signal = (name) => {
    for (const pid of tree)
      try {
        process.kill(pid, name);
      } catch (problem) {
        if (problem.code !== "ESRCH") throw problem; // the browser ends processes of its own that it no longer needs
      }
  };
  signal("SIGSTOP");
  try {
    process.kill((await play.json("proc", "status", "p0")).pid, "SIGKILL");
    await play.cli("proc", "start", "p1");
    await new Promise((resolve) => setTimeout(resolve, 10_000));
  } finally {
    signal("SIGCONT");
  }
  const woke = Date.now();
  await play.sees(page, "failed", "[data-id=p0]");
  await truth.ask();
  await right(play, watched);
  play.ok(await page.evaluate(() => window.hasSlept), "its clock has jumped");
  await truth.ask();
  const found = await page.evaluate((from) => window.samples.filter((one) => one.at > from), woke + SECOND);
  play.ok(found.every((one) => !one.isLive || one.rows.p0.startsWith("Failed")), "nothing old is shown as live after it woke up");
  const age = await page.locator(".detail dl").innerText();
  play.ok(!/\b\d+ h/.test(age), `ages are those of the server: ${age}`);
}

/** The server's answers are late: what an event has announced is not shown as if nothing had happened. */
export async function late(play) {
  await scene(play);
  const page = await play.window();
  await play.go(page, "#/processes/p0");
  await page.locator(".detail .log-box").waitFor();
  await play.sees(page, "Live", ".live");
  let answer = () => undefined;
  const waits = new Promise((resolve) => (answer = resolve));
  await page.route("**/api/status", async (route) => {
    await waits;
    await route.continue();
  });
  await play.cli("proc", "start", "p0");
  await play.until(async () => page.locator(".live.retry").isVisible(), "it is marked");
  play.eq(await page.locator("[data-id=p0] .mark").getAttribute("title"), "NotStarted", "what is shown meanwhile");
  answer();
  await play.sees(page, "Live", ".live");
  await play.until(async () => (await page.locator("[data-id=p0] .mark").getAttribute("title")) === "Running (ready)", "it is right");
}

/** Questions that get no answer: those of a lost connection do not hold up the next one, the past holds up nothing. */
export async function unanswered(play) {
  await scene(play);
  const proxy = new Proxy();
  const port = await proxy.start(play.port);
  const unheard = [], told = [];
  const hold = (page, pattern) => page.route(pattern, (route) => void unheard.push(route.request().url()), { times: 1 });
  const place = (what) => told.findLastIndex((one) => one.includes(what));
  const prepare = async (page) => {
    page.on("requestfailed", (request) => told.push(`end of ${request.url()}`));
    page.on("response", (response) => told.push(`answer to ${response.url()}`));
    await hold(page, "**/api/events?limit=*");
  };
  try {
    const page = await play.window({ address: `http://127.0.0.1:${port}/${new URL(play.page).hash}`, prepare });
    await play.go(page, "#/processes");
    await play.until(() => unheard.length === 1, "the past is asked for");
    await play.cli("proc", "create", "made-meanwhile", "--", "true");
    await play.sees(page, "made-meanwhile", ".list-pane");
    play.eq(place(`end of ${unheard[0]}`), -1, "the question for the past, given up");

    await hold(page, "**/api/status");
    await play.cli("proc", "start", "p0");
    await play.until(() => unheard.length === 2, "the status is asked for");
    proxy.turn("closed");
    await play.sees(page, "Reconnecting", ".live");
    proxy.turn("open");
    await play.sees(page, "Live", ".live");
    const ended = place(`end of ${unheard[1]}`);
    play.ok(ended >= 0 && ended < place("answer to"), "the old question ended before the new one was answered");
    await play.until(async () => (await page.locator("[data-id=p0] .mark").getAttribute("title")) === "Running (ready)", "it is right");
  } finally {
    proxy.stop();
  }
}

/** A page that is not seen: its title says what waits. */
export async function hidden(play) {
  flow(play, "ask", "name: ask\ntasks: {t: {run: \"tasuki task ask 'Which?'\"}}\n");
  const notes = () => {
    window.notes = [];
    window.Notification = class {
      static permission = "default";
      static requestPermission = async () => (this.permission = "granted");
      constructor(_, { body }) {
        window.notes.push(body);
      }
    };
  };
  const page = await play.window({ prepare: (its) => its.addInitScript(notes) }), other = await play.window({ prepare: (its) => its.addInitScript(notes) });
  await play.sees(page, "Live", ".live");
  await page.locator(".btn.inbox").click();
  await page.getByLabel("Notify me").check();
  await page.keyboard.press("Escape");
  for (const one of [page, other])
    await one.evaluate(() => {
      Object.defineProperty(document, "hidden", { get: () => true });
      document.dispatchEvent(new Event("visibilitychange"));
    });
  const icon = async () => decodeURIComponent(await page.locator("link[rel=icon]").getAttribute("href"));
  play.ok(!(await icon()).includes("<circle"), "the icon while nothing waits");
  play.spawn("run", "ask");
  for (const one of [page, other]) await play.until(async () => (await one.title()).startsWith("(1)"), "the title says that a question waits");
  await play.until(async () => (await icon()).includes('fill="#7632bf"'), "the icon says so, in violet");
  await play.becomes(() => page.evaluate(() => window.notes), ["One question waits for you."], "the notification that was wanted");
  play.eq(await other.evaluate(() => window.notes), [], "notifications that nobody wanted");
}

/** Events that go on: between two looks the page rests. Its timers go only when the test says so, so that no time is measured. */
export async function rests(play) {
  await scene(play);
  let asked = 0, answer = null;
  const page = await play.window({ prepare: (its) => its.clock.install() });
  await play.sees(page, "Live", ".live");
  await page.clock.pauseAt(Date.now() + 3600_000);
  await play.until(async () => (await page.clock.runFor(100), (await page.locator(".live").innerText()) === "Live"), "it is live again");
  await page.route("**/api/status", async (route) => {
    asked++;
    if (asked === 1) await new Promise((resolve) => (answer = resolve));
    await route.continue();
  });
  await play.cli("proc", "create", "first", "--", "true");
  await play.until(async () => (await page.clock.runFor(100), answer !== null), "the first look");
  await play.cli("proc", "create", "second", "--", "true");
  await new Promise((resolve) => setTimeout(resolve, 1000)); // the event is in the page, if the machine is quick; else there is less to see
  const answered = page.waitForResponse((one) => one.url().endsWith("/api/status"));
  answer();
  await answered;
  await new Promise((resolve) => setTimeout(resolve, 500));
  play.eq(asked, 1, "looks while no timer goes");
  await play.until(async () => (await page.clock.runFor(100), asked > 1), "the next look");
  await play.go(page, "#/processes");
  await play.until(async () => (await page.clock.runFor(100), page.locator("[data-id=second]").isVisible()), "it shows what came last");
}

/** Events that come one after the other, without a pause in which a look would begin by itself, do not put it off. */
export async function steady(play) {
  await scene(play);
  const page = await play.window();
  await play.go(page, "#/processes");
  await play.sees(page, "Live", ".live");
  await page.waitForTimeout(1500); // it reads nothing: what follows must make it read
  const line = JSON.stringify({ time: new Date().toISOString(), type: "test.event", data: {} });
  const writer = spawn("sh", ["-c", `for i in $(seq 12000); do echo '${line}'; sleep 0.01; done >> .aiflow/events.ndjson`], { cwd: play.root, detached: true });
  play.children.push(writer);
  await play.cli("proc", "create", "made-meanwhile", "--", "true");
  await play.sees(page, "made-meanwhile", ".list-pane");
  await play.end(writer);
}
