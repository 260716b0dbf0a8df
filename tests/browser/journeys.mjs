// The four users of the product, each on a way from beginning to end: what the page shows, what agents and the command line are told.
import { readFileSync, writeFileSync } from "node:fs";
import { Agent, sleeper } from "./feed.mjs";
import { browserTree } from "./storm.mjs";
import { flow } from "./work.mjs";

const lines = (play, name) => readFileSync(`${play.root}/${name}`, "utf8").trim().split("\n");
const latest = async (play) => (await play.json("runs", "list")).runs[0];

/** The server goes with everything that it serves; another one takes its place. */
async function restart(play, page) {
  process.kill(play.pid, "SIGKILL");
  await play.sees(page, "Reconnecting", ".live");
  play.serve();
}

/** Three agents in one repository want the same job; one of them crashes with a lock. */
export async function three_agents(play) {
  flow(play, "job", "name: job\ntasks: {work: {run: 'while [ ! -e go ]; do sleep 0.1; done; echo once >> ran'}}\n");
  await play.cli("request", "add", "The nightly job", "--id", "RQ-1", "--flow", "job");
  const [claude, codex, cursor] = await Promise.all(["claude-code", "codex", "cursor"].map((name) => new Agent(play).begin(name)));
  const page = await play.window();
  await play.sees(page, "Live", ".live");
  const run = (await claude.call("request_run", { request: "RQ-1" })).structuredContent.run_id;
  for (const other of [codex, cursor]) {
    const { reason_code, context, next } = (await other.call("request_run", { request: "RQ-1" })).structuredContent.error;
    play.eq([reason_code, context.run_id, context.holder.alive], ["RUN_IN_PROGRESS", run, true], "what the others are told");
    play.ok(context.holder.who.label === "claude-code" && context.age_ms >= 0 && next.length > 0, "who, since when, and the next command");
  }
  await play.go(page, "#/locks");
  for (const words of ["The nightly job", "claude-code", "alive: the kernel holds its lock"]) await play.sees(page, words, "[data-id=RQ-1]");
  await play.go(page, "#/requests");
  await page.locator("[data-id=RQ-1] [data-menu]").click();
  play.eq(await page.getByRole("menuitem", { name: /^Run / }).getAttribute("title"), "It runs", "why it cannot be run");
  await page.keyboard.press("Escape");
  await page.locator("[data-id=RQ-1] .name").click();
  await play.until(() => page.url().includes(run), "a person is led to the run");

  await codex.call("lock_acquire", { kind: "name", id: "deploy" });
  await play.go(page, "#/locks");
  await play.sees(page, "codex", "[data-id=deploy]");
  await play.end(codex.child);
  await play.sees(page, "dead", "[data-id=deploy]");
  const taken = await cursor.call("lock_acquire", { kind: "name", id: "deploy" });
  play.ok(!taken.isError, "the lock of a dead holder is taken");
  await play.sees(page, "cursor", "[data-id=deploy]");
  writeFileSync(`${play.root}/go`, "");
  await play.go(page, `#/runs/${run}`);
  await play.sees(page, "done", ".bar .tag");
  play.eq(lines(play, "ran"), ["once"], "what the job did");
}

/** An agent starts a server and goes; what it has started stays, with its true state. */
export async function dev_server(play) {
  const first = await new Agent(play).begin("claude-code");
  const script = "while [ ! -e stop ]; do echo tick; sleep 0.1; done; exit 7";
  await first.call("create_process", { id: "web", command: "sh", args: ["-c", script], start: true });
  const page = await play.window();
  await play.go(page, "#/processes/web");
  await play.sees(page, "tick", ".log .ln");
  await play.sees(page, "claude-code", ".detail dl");
  const { pid } = await play.json("proc", "status", "web");
  await play.end(first.child);
  const second = await new Agent(play).begin("codex");
  const status = (await second.call("get_process_status", { id: "web" })).structuredContent;
  play.eq([status.state_name, status.pid], ["Running", pid], "what the next agent reads");
  play.ok(JSON.stringify((await second.call("get_process_output", { id: "web", lines: 5 })).structuredContent).includes("tick"), "its output");
  await play.sees(page, "ready", "[data-id=web]");
  process.kill(pid, "SIGKILL");
  await play.sees(page, "failed", "[data-id=web]");
  await play.sees(page, "SIGKILL", ".detail dl");
  play.eq((await second.call("get_process_status", { id: "web" })).structuredContent.raw_status.signal, "SIGKILL", "how it ended");
  await page.locator(".detail").getByRole("button", { name: "Start", exact: true }).click();
  await play.sees(page, "ready", "[data-id=web]");
  writeFileSync(`${play.root}/stop`, "");
  await play.sees(page, /^exit 7\b/, ".detail dl dd");
  play.eq((await second.call("get_process_status", { id: "web" })).structuredContent.exit_code, 7, "its exit code");
}

/** A queue runs one request at a time, stops for a question, and survives that everything is killed. */
export async function team_queue(play) {
  play.mayLoseServer = true;
  flow(play, "ask", "name: ask\ntasks: {q: {run: \"tasuki task ask 'Which key?' --option a --option b\"}}\n");
  flow(play, "long", "name: long\nflow: a >> b\ntasks: {a: 'echo a >> did', b: {run: 'while [ ! -e go ]; do sleep 0.1; done; echo b >> did'}}\n");
  flow(play, "last", "name: last\ntasks: {c: 'echo c >> did'}\n");
  for (const [id, name] of [["RQ-1", "ask"], ["RQ-2", "long"], ["RQ-3", "last"]]) await play.cli("request", "add", `The ${name} one`, "--id", id, "--flow", name);
  const page = await play.window();
  await play.go(page, "#/requests");
  await page.getByRole("switch", { name: "Auto-run" }).click();
  await page.getByRole("button", { name: /Waits for you 1/ }).click();
  await page.getByRole("dialog").getByRole("button", { name: "b", exact: true }).click();
  await page.keyboard.press("Escape");
  await play.until(async () => (await play.json("request", "show", "RQ-1")).status === "done", "the first one is done");
  if ((await play.json("queue", "status")).status !== "running") await page.getByRole("switch", { name: "Auto-run" }).click(); // it had stopped for the question
  await play.sees(page, "LOCKED", "[data-id=RQ-2]");
  play.eq((await play.json("request", "show", "RQ-3")).status, "ready", "the one after it waits");
  await play.until(async () => (await play.json("runs", "show", (await latest(play)).run_id)).tasks.find((one) => one.task === "b")?.state === "running", "its second task runs");
  const { holder } = await play.json("queue", "status");
  await restart(play, page);
  process.kill(holder.pid, "SIGKILL");
  await play.sees(page, "Live", ".live");
  await play.sees(page, "next", "[data-id=RQ-2]"); // its run was interrupted: the queue takes it up again
  play.eq(await page.locator(".strip").filter({ hasText: "Queue running" }).count(), 0, "queues that run");
  writeFileSync(`${play.root}/go`, "");
  await page.getByRole("switch", { name: "Auto-run" }).click();
  await play.until(async () => (await play.json("request", "show", "RQ-3")).status === "done", "the queue goes on");
  play.eq(lines(play, "did"), ["a", "b", "c"], "each task ran once, in order");
}

/** A diamond: the branches do not see each other, the join runs once, also when the runner is killed in between. */
export async function pipeline(play) {
  flow(play, "diamond", "name: diamond\nflow: fetch >> parts(left | right) >> join\ntasks:\n  fetch: 'echo base=1 >> $TASUKI_OUTPUT'\n" +
    "  left: 'while [ ! -e go ]; do sleep 0.1; done; echo l=$(tasuki channel get r 2>/dev/null || echo none) >> $TASUKI_OUTPUT'\n  right: 'echo right >> rights; echo r=2 >> $TASUKI_OUTPUT'\n  join: 'echo joined >> joins'\n");
  const runner = play.spawn("run", "diamond");
  const run = await play.until(async () => (await latest(play))?.run_id, "the run");
  const page = await play.window();
  await play.go(page, `#/runs/${run}`);
  const state = (task) => page.locator(`[role=treegrid] [data-task=${task}] svg`).first().getAttribute("aria-label");
  await play.until(async () => (await state("right")) === "ok" && (await state("left")) === "running", "one branch has ended");
  process.kill((await play.json("runs", "show", run)).runner?.pid ?? runner.pid, "SIGKILL");
  await play.sees(page, "interrupted", ".bar .tag");
  await play.until(async () => (await state("left")) === "interrupted", "the task that ran says so, too");
  writeFileSync(`${play.root}/go`, "");
  await page.locator(".run-facts").getByRole("button", { name: "Resume" }).click();
  await play.sees(page, "done", ".bar .tag");
  for (const task of ["fetch", "left", "right", "join"]) await play.until(async () => (await state(task)) === "ok", `${task} is ok`);
  play.eq([lines(play, "joins"), lines(play, "rights")], [["joined"], ["right"]], "what ran once");
  await page.getByRole("button", { name: "Channel" }).click();
  const { channel } = await play.json("runs", "show", run);
  play.eq([channel.base, channel.l, channel.r], [1, "none", 2], "the channel");
  await play.sees(page, '"l": "none"', ".channel");
}

/** The browser dies in the middle of auto-run: the queue goes on, and another browser shows it. */
export async function browser_dies(play) {
  await play.launch();
  flow(play, "step", "name: step\ntasks: {t: {run: 'while [ ! -e go ]; do sleep 0.1; done; echo done >> did'}}\n");
  for (const id of ["RQ-1", "RQ-2", "RQ-3"]) await play.cli("request", "add", `Request ${id}`, "--id", id, "--flow", "step");
  const page = await play.window();
  await play.go(page, "#/requests");
  await page.getByRole("switch", { name: "Auto-run" }).click();
  await play.sees(page, "Queue running", ".strip");
  for (const pid of browserTree())
    try {
      process.kill(pid, "SIGKILL");
    } catch (problem) {
      if (problem.code !== "ESRCH") throw problem; // the death of one ends others
    }
  await play.until(async () => (await play.json("queue", "status")).status === "running", "the queue goes on");
  await play.launch();
  const next = await play.window();
  await play.sees(next, "Queue running", ".strip");
  await play.go(next, "#/requests");
  await play.sees(next, "LOCKED", "[data-id=RQ-1]");
  writeFileSync(`${play.root}/go`, "");
  await play.until(async () => (await play.json("request", "list", "--all")).requests.every((one) => one.status === "done"), "every request is done");
  await play.until(() => next.locator(".strip").count().then((n) => n === 0), "the strip goes");
  play.eq(lines(play, "did").length, 3, "requests that ran");
}

/** What waits for a person is in one place, on every page, with its age. */
export async function inbox(play) {
  flow(play, "ask", "name: ask\ntasks: {q: {run: \"tasuki task ask 'Which key?' --option a --option b\"}}\n");
  play.spawn("run", "ask");
  await play.until(async () => (await latest(play))?.status === "NEEDS_INPUT", "the question");
  const holder = await sleeper(play);
  await play.cli("lock", "acquire", "name", "deploy", "--pid", String(holder.pid));
  const agent = await new Agent(play).begin("cursor");
  for (const width of [1440, 380]) {
    const page = await play.window({ width });
    await play.sees(page, "Live", ".live");
    await agent.call("lock_acquire", { kind: "name", id: "deploy", force: true });
    for (const hash of ["#/", "#/processes", "#/requests", "#/runs", "#/locks", "#/events", "#/doctor"]) {
      await play.go(page, hash);
      await page.locator("main .page, main .split").first().waitFor();
      await page.locator(".btn.inbox").click();
      await play.sees(page, /asked .*ago/, "[role=dialog] .question");
      if (hash === "#/") await play.sees(page, /cursor asks[\s\S]*asked[\s\S]*ago/, "[role=dialog] .question");
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
    }
    await page.context().close();
  }
}
