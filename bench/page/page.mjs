// The page in Chromium, measured by the page's own clock where possible. Played by tests/browser/run.mjs; prints one JSON object.
import { spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { Proxy, Truth, blow } from "../../tests/browser/storm.mjs";

const QUICK = process.env.TASUKI_BENCH_QUICK === "1";
const TURNS = QUICK ? 2 : 5;
const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** In the page: when the condition first holds, in the page's own time. */
function noteWhen(text) {
  const isReady = new Function(`return ${text}`);
  const look = () => (isReady() ? (window.readyAt = performance.now()) : requestAnimationFrame(look));
  addEventListener("DOMContentLoaded", look);
}

/** In the page: what it has loaded, as it was sent, but the answers of the API. */
function loadedBytes() {
  return [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")].filter((one) => !one.name.includes("/api/")).reduce((sum, one) => sum + one.encodedBodySize, 0);
}

/** From the navigation until the page is live and the condition holds. */
async function opened(play, hash, ready, address = `${play.page}`) {
  const page = await play.window({ address: "about:blank" });
  await page.addInitScript(noteWhen, `document.querySelector(".live:not(.starting):not(.retry)") && ${ready}`);
  if (hash) await page.addInitScript((to) => addEventListener("DOMContentLoaded", () => setTimeout(() => (location.hash = to))), hash);
  await page.goto(address);
  await page.waitForFunction(() => window.readyAt);
  return { page, ms: await page.evaluate(() => window.readyAt) };
}

/** Processor time of the page's renderer so far: on a machine that does other work it says more than the clock. */
async function rendererMs(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const { metrics } = await session.send("Performance.getMetrics");
  await session.detach();
  return metrics.find((one) => one.name === "ProcessTime").value * 1000;
}

async function times(play, hash, ready) {
  const all = { ms: [], cpu_ms: [] };
  for (let i = 0; i < TURNS; i++) {
    const { page, ms } = await opened(play, hash, ready);
    all.ms.push(ms);
    all.cpu_ms.push(await rendererMs(page));
    await page.context().close();
  }
  return all;
}

async function firstLoad(play) {
  const ms = [];
  let bytes = 0;
  for (let i = 0; i < TURNS; i++) {
    const { page, ms: took } = await opened(play, "", "true");
    ms.push(took);
    bytes = await page.evaluate(loadedBytes);
    await page.context().close();
  }
  return { bytes, ms };
}

async function heap(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  await session.detach();
  return usedSize;
}

/** Moments at which any thread of the server did something, a second: system calls less than 50 ms apart are one. null: no strace. */
async function wakeupsPerSecond(play, seconds) {
  const file = `${play.root}/strace.txt`;
  const tracer = spawn("strace", ["-f", "-ttt", "-q", "-o", file, "-p", String(play.pid)], { stdio: "ignore" });
  const isMissing = await new Promise((resolve) => (tracer.on("error", () => resolve(true)), setTimeout(() => resolve(false), 500)));
  if (isMissing) return null;
  const from = Date.now() / 1000;
  await sleep(seconds * 1000);
  tracer.kill("SIGINT");
  await new Promise((resolve) => (tracer.exitCode === null ? tracer.on("exit", resolve) : resolve()));
  const at = readFileSync(file, "utf8").split("\n").map((line) => Number(/(\d+\.\d+)/.exec(line)?.[1])).filter((one) => one > from && one < from + seconds);
  return at.filter((one, i) => i === 0 || one - at[i - 1] > 0.05).length / seconds;
}

async function processes(play, from, to) {
  const lines = Array.from({ length: to - from }, (_, i) => `p${from + i}: sleep 100000\n`).join("");
  writeFileSync(`${play.root}/Procfile`, lines);
  await play.cli("proc", "import", "Procfile");
}

async function requests(play, count) {
  mkdirSync(`${play.root}/.aiflow/requests`, { recursive: true });
  for (let i = 0; i < count; i++) writeFileSync(`${play.root}/.aiflow/requests/RQ-${i}.yaml`, `title: Request ${i}\nrun: 'true'\n`);
}

/** A run of so many tasks in groups; its graph is drawn, then moved by the pointer. */
async function bigRun(play, count) {
  const groups = Array.from({ length: count / 100 }, (_, g) => `g${g}(${Array.from({ length: 100 }, (_, i) => `t${g * 100 + i}`).join(" | ")})`);
  const tasks = Array.from({ length: count }, (_, i) => `  t${i}: {run: ["true"]}\n`).join("");
  mkdirSync(`${play.root}/.aiflow/flows`, { recursive: true });
  writeFileSync(`${play.root}/.aiflow/flows/big.yaml`, `name: big\nflow: ${groups.join(" >> ")}\ntasks:\n${tasks}`);
  await play.cli("run", "big", "--quiet");
  const run = (await play.json("runs", "list")).runs[0].run_id;
  const page = await play.window();
  await play.sees(page, "Live", ".live");
  const longest = () => page.evaluate(() => {
    window.long = [];
    new PerformanceObserver((list) => window.long.push(...list.getEntries().map((one) => one.duration))).observe({ type: "longtask" });
  });
  await longest();
  const ms = await page.evaluate(async (hash) => {
    const began = performance.now();
    location.hash = hash;
    while (!document.querySelector(".graph [data-task], .graph .node")) await new Promise(requestAnimationFrame);
    return performance.now() - began;
  }, `#/runs/${run}`);
  await page.waitForTimeout(1500);
  const task = Math.max(0, ...(await page.evaluate(() => window.long)));
  const box = await page.locator(".graph svg").first().boundingBox();
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const script = async () => (await session.send("Performance.getMetrics")).metrics.find((one) => one.name === "ScriptDuration").value * 1000;
  const steps = [];
  await page.mouse.move(box.x + 300, box.y + 60);
  await page.mouse.down();
  for (let i = 0; i < 60; i++) {
    const before = await script();
    await page.mouse.move(box.x + 300 - i * 4, box.y + 60 + (i % 20));
    await page.evaluate(() => new Promise(requestAnimationFrame));
    steps.push((await script()) - before);
  }
  await page.mouse.up();
  await page.context().close();
  return { tasks: count, ms, longest_task_ms: task, pan_script_ms: { median: median(steps), worst: Math.max(...steps) } };
}

/** A log of so many bytes, opened at its end. */
async function bigLog(play, bytes) {
  await play.cli("proc", "create", "big", "--log", "direct", "--log-max", String(2 * bytes), "--", "cat", "big.txt");
  const line = `${"a line of a log, as long as many are, with some words and a number: 0123456789 ".repeat(2)}\n`;
  const block = Buffer.from(line.repeat(Math.ceil((1 << 20) / line.length)));
  const file = openSync(`${play.root}/big.txt`, "w");
  for (let size = 0; size < bytes; size += block.length) writeSync(file, block);
  writeSync(file, "the very end\n");
  closeSync(file);
  await play.cli("proc", "start", "big", "--no-wait");
  await play.until(async () => (await play.json("proc", "status", "big")).state_name !== "Running", "it is written");
  const size = (await play.json("proc", "status", "big")).log.size;
  const page = await play.window();
  await play.sees(page, "Live", ".live");
  await play.go(page, "#/processes/p0"); // the viewer itself is loaded
  await page.locator(".detail .log-box").waitFor();
  const all = [];
  for (let i = 0; i < TURNS; i++) {
    await play.go(page, "#/processes/p1");
    await page.waitForTimeout(300);
    all.push(await page.evaluate(async () => {
      const began = performance.now();
      location.hash = "#/processes/big";
      while (!document.querySelector(".log")?.textContent.includes("the very end")) await new Promise(requestAnimationFrame);
      return performance.now() - began;
    }));
  }
  await page.context().close();
  await play.cli("proc", "remove", "big", "--force");
  return { bytes: size, ms: all };
}

/** The page's memory while events come: two a task, of the large run, several times. The page keeps the newest 2,000. */
async function manyEvents(play, tasks) {
  const page = await play.window();
  await play.go(page, "#/events");
  await play.sees(page, "Live", ".live");
  const turns = QUICK ? 1 : 2;
  const turn = async () => {
    for (let i = 0; i < turns; i++) await play.cli("run", "big", "--quiet");
    await page.waitForTimeout(3000);
  };
  await turn();
  const before = await heap(page);
  await turn();
  const after = await heap(page);
  await page.context().close();
  return { events: 4 * turns * tasks, before, after };
}

async function follows(play, seconds) {
  const line = "x".repeat(1023);
  await play.cli("proc", "create", "loud", "--start", "--no-wait", "--", "python3", "-c", `import time\nwhile True:\n    print(("${line}\\n" * 103), end="", flush=True)\n    time.sleep(0.1)`);
  const page = await play.window();
  await play.go(page, "#/processes/loud");
  await play.sees(page, "xxx", ".log .ln");
  await sleep(seconds * 500);
  const before = await heap(page);
  await sleep(seconds * 500);
  const after = await heap(page);
  await page.context().close();
  await play.cli("proc", "remove", "loud", "--force");
  return { seconds, before, after };
}

async function cuts(play) {
  const proxy = new Proxy();
  const port = await proxy.start(play.port);
  const page = await play.window({ address: `http://127.0.0.1:${port}/${new URL(play.page).hash}` });
  const shown = {};
  for (const mode of ["closed", "silent"]) {
    await play.sees(page, "Live", ".live");
    await page.waitForTimeout(1000);
    const began = Date.now();
    proxy.turn(mode);
    await page.locator(".live.retry").waitFor();
    shown[mode] = Date.now() - began;
    proxy.turn("open");
    await play.sees(page, "Live", ".live");
  }
  proxy.stop();
  await page.context().close();
  return shown;
}

/** A click in one window until the other one shows what it did. */
async function twoWindows(play) {
  const one = await play.window(), two = await play.window();
  for (const page of [one, two]) {
    await play.go(page, "#/processes/p0");
    await page.locator(".detail .log-box").waitFor();
  }
  const all = [];
  for (let i = 0; i < TURNS; i++) {
    for (const [name, wire] of [["Start", "Running"], ["Stop", "Stopped"]]) {
      const seen = two.evaluate(async (word) => {
        while (!document.querySelector("[data-id=p0] .mark")?.title.startsWith(word)) await new Promise((resolve) => setTimeout(resolve, 5));
        return performance.timeOrigin + performance.now();
      }, wire);
      const button = one.locator(".detail").getByRole("button", { name, exact: true });
      await button.waitFor();
      const began = Date.now();
      await button.click();
      all.push((await seen) - began);
    }
  }
  for (const page of [one, two]) await page.context().close();
  return all;
}

async function storm(play) {
  const truth = new Truth(play);
  const asks = truth.go();
  const page = await play.window();
  await play.go(page, "#/processes");
  await page.locator("[data-id=p0]").waitFor();
  const watched = await truth.watch(page, "processes");
  await blow(play, QUICK ? 5 : 15);
  truth.isOver = true;
  await asks;
  const found = await truth.oldest(watched);
  await page.context().close();
  return { ...found, stood_still_ms: truth.worst };
}

export async function measure(play) {
  play.mayLoseServer = true;
  const made = {};
  const note = (text) => process.stderr.write(`# ${text}\n`);
  await processes(play, 0, 4);
  made.first_load = await firstLoad(play);
  await sleep(15_000); // the threads that the last page needed end after 10 s
  made.idle_wakeups = await wakeupsPerSecond(play, QUICK ? 5 : 20);
  const quiet = await play.window();
  await play.sees(quiet, "Live", ".live");
  await quiet.waitForTimeout(2000);
  made.quiet_page_wakeups = await wakeupsPerSecond(play, QUICK ? 5 : 20);
  await quiet.context().close();
  note("cuts, two windows, a storm");
  made.cuts = await cuts(play);
  made.two_windows = await twoWindows(play);
  made.storm = await storm(play);
  note("lists");
  await processes(play, 4, 100);
  made.processes_100 = await times(play, "#/processes", "document.querySelectorAll('.list-pane a.item').length === 100");
  if (!QUICK) {
    await processes(play, 100, 1000);
    made.processes_1000 = await times(play, "#/processes", "document.querySelectorAll('.list-pane a.item').length === 1000");
  }
  note("requests");
  await play.cli("request", "list");
  await requests(play, QUICK ? 100 : 1000);
  made.requests = { count: QUICK ? 100 : 1000, ...(await times(play, "#/requests", `document.querySelectorAll('.c-req[data-id]').length >= ${QUICK ? 100 : 1000}`)) };
  note("a large run");
  made.run = await bigRun(play, QUICK ? 500 : 2000);
  note("a large log");
  made.log = await bigLog(play, QUICK ? 64 << 20 : 1 << 30);
  note("memory");
  made.events = await manyEvents(play, made.run.tasks);
  made.follow = await follows(play, QUICK ? 10 : 60);
  process.stdout.write(`${JSON.stringify(made)}\n`);
}

/** Pages of peers, in the same browser: bytes, and the time until the list is there. They get nothing from other hosts. */
export async function peers(play) {
  const made = {};
  for (const { name, address, ready } of play.peers) {
    const ms = [];
    let bytes = 0;
    for (let i = 0; i < TURNS; i++) {
      const context = await play.browser.newContext({ viewport: { width: 1440, height: 900 } });
      await context.route((url) => url.origin !== new URL(address).origin, (route) => route.abort());
      const page = await context.newPage();
      await page.addInitScript(noteWhen, ready);
      await page.goto(address);
      await page.waitForFunction(() => window.readyAt, undefined, { timeout: 120_000 });
      ms.push(await page.evaluate(() => window.readyAt));
      bytes = await page.evaluate(loadedBytes);
      await context.close();
    }
    made[name] = { bytes, ms };
  }
  process.stdout.write(`${JSON.stringify(made)}\n`);
}
