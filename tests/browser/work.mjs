// Processes, requests, runs, locks: what the buttons do, seen on the page and on the command line.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";

export function flow(play, name, text) {
  mkdirSync(`${play.root}/.aiflow/flows`, { recursive: true });
  writeFileSync(`${play.root}/.aiflow/flows/${name}.yaml`, text);
}

export async function process_life(play) {
  const page = await play.window();
  await play.go(page, "#/processes");
  await page.getByRole("button", { name: "New process" }).click();
  await page.getByLabel("Name", { exact: true }).fill("web");
  await page.getByLabel(/^Command/).fill(`sh -c 'while :; do printf "\\033[32mGET\\033[0m /cart 200\\n"; sleep 0.2; done'`);
  await page.getByRole("button", { name: "Create" }).click();
  await play.sees(page, "web", ".item.sel");
  await play.until(async () => (await play.json("proc", "status", "web")).state_name === "Running", "the process runs");
  await play.sees(page, "GET /cart 200", ".log .ln");
  await play.becomes(() => page.locator(".log .ln .a-ok").first().innerText(), "GET", "what is green");

  await page.locator(".detail").getByRole("button", { name: "Stop", exact: true }).click();
  await play.sees(page, "web stopped.", ".toast");
  play.eq((await play.json("proc", "status", "web")).state_name, "Stopped", "after Stop");
  await page.getByRole("button", { name: "Start again" }).click();
  await play.until(async () => (await play.json("proc", "status", "web")).state_name === "Running", "the undo starts it");
  await play.sees(page, "web started.", ".toast");
  await page.locator(".toast", { hasText: "web started." }).getByRole("button", { name: "Stop", exact: true }).click();
  await play.until(async () => (await play.json("proc", "status", "web")).state_name === "Stopped", "the toast of a start stops it");
  await page.locator(".detail").getByRole("button", { name: "Start", exact: true }).click();
  await play.until(async () => (await play.json("proc", "status", "web")).state_name === "Running", "it runs again");
  const pid = (await play.json("proc", "status", "web")).pid;
  await page.locator(".detail").getByRole("button", { name: "Restart" }).click();
  await play.until(async () => ![pid, null].includes((await play.json("proc", "status", "web")).pid), "another pid");

  await page.locator(".detail [data-menu]").click();
  await page.getByRole("menuitem", { name: /^Remove/ }).click();
  await play.sees(page, "The process is running. Stop it before you remove it.", "[role=alertdialog]");
  await play.sees(page, /\((alive|dead|unknown): .+\) started it/, "[role=alertdialog] .bullets");
  await play.sees(page, /Its log \(.*\) is deleted/, "[role=alertdialog]");
  await play.becomes(() => page.evaluate(() => document.activeElement?.textContent), "Cancel", "what has the focus");
  await page.keyboard.press("Enter");
  play.eq((await play.json("proc", "status", "web")).state_name, "Running", "Enter is no");
  await page.locator(".detail [data-menu]").click();
  await page.getByRole("menuitem", { name: /^Remove/ }).click();
  await page.getByRole("button", { name: "Stop and remove" }).click();
  await play.sees(page, "No process yet");
  play.eq((await play.json("proc", "list")).processes, [], "processes");
}

export async function process_states(play) {
  await play.cli("proc", "create", "tunnel", "--start", "--no-wait", "--restart", "on-failure", "--max-retries", "0", "--", "sh", "-c", "echo 'Connection timed out' >&2; exit 255");
  await play.cli("proc", "create", "api", "--start", "--no-wait", "--restart", "on-failure", "--backoff", "60s", "--", "sh", "-c", "echo 'address already in use' >&2; exit 1");
  await play.cli("proc", "create", "mail", "--start", "--no-wait", "--health", "exec:false", "--health-interval", "1s", "--health-failures", "1", "--", "sleep", "1000");
  await play.cli("proc", "create", "seed", "--", "true");
  const page = await play.window();
  await play.go(page, "#/processes/api");
  await play.sees(page, "again in", ".item.sel");
  await play.sees(page, "address already in use", ".lasterr");
  const buttons = async () => (await page.locator(".detail .acts > button").allInnerTexts()).map((one) => one.trim());
  await play.becomes(buttons, ["Start now", "Stop", "Edit"], "buttons in backoff");
  await play.go(page, "#/processes/tunnel");
  await play.sees(page, "Connection timed out", ".lasterr");
  await play.becomes(buttons, ["Start", "Edit"], "buttons of Failed");
  await play.go(page, "#/processes/mail");
  await play.sees(page, "unhealthy", ".item.sel");
  await play.becomes(buttons, ["Stop", "Restart", "Edit"], "buttons of Running");
  await play.go(page, "#/processes/seed");
  await play.sees(page, "not started", ".item.sel");
  const rows = await page.locator(".list-pane a.item .name").allInnerTexts();
  play.eq(rows, ["api", "tunnel", "mail", "seed"], "the order of the list");
  await page.locator(".detail [data-menu]").click();
  for (const [name, why] of [[/^Stop /, "It does not run"], [/^Restart /, "It does not run"], [/^Start /, null]]) {
    const item = page.getByRole("menuitem", { name });
    play.eq([await item.getAttribute("aria-disabled"), await item.getAttribute("title")], why ? ["true", why] : ["false", null], `the item ${name}`);
  }
  await page.keyboard.press("Escape");
  const pid = (await play.json("proc", "status", "mail")).pid;
  process.kill(pid, "SIGKILL");
  await play.go(page, "#/processes/mail");
  await play.sees(page, "failed", ".item.sel");
  await play.go(page, "#/");
  await play.sees(page, "3 things broke.");
  await play.until(() => page.title().then((title) => title.startsWith("✕ 3")), "the tab's title says so");
}

export async function question(play) {
  flow(play, "release", "name: release\nflow: fetch >> sign >> publish\ntasks:\n  fetch: echo fetched\n  sign: {run: \"tasuki task ask 'Which key?' --option release-2026 --option staging\"}\n  publish: {run: \"tasuki channel get x; echo published\"}\n");
  await play.cli("request", "add", "Release", "--id", "RQ-1", "--flow", "release");
  const page = await play.window();
  await play.go(page, "#/requests");
  await page.locator("[data-id=RQ-1]").getByRole("button", { name: "Run", exact: true }).click();
  await play.sees(page, "needs input", ".seg button");
  await play.go(page, "#/");
  await play.sees(page, "One question waits for you.");
  await play.until(() => page.title().then((title) => title.startsWith("(1)")), "the tab's title says so");
  await page.getByRole("button", { name: /Waits for you 1/ }).click();
  await page.getByRole("dialog").getByRole("button", { name: "staging" }).click();
  await play.sees(page, "Answer sent", ".toast");
  await play.until(async () => (await play.json("runs", "list")).runs[0].status === "DONE", "the run goes on");
  await page.keyboard.press("Escape");
  await play.until(() => page.getByText("One question waits for you.").count().then((n) => n === 0), "the question is gone");
}

export async function run_page(play) {
  flow(play, "f", "name: f\nflow: a >> g(b | c >> d) >> e\nlimits: {parallel: 4}\ntasks:\n  a: echo one\n  b: {run: 'for i in 1 2 3; do echo line $i; done; sleep 1000'}\n  c: 'true'\n  d: {run: 'echo broken >&2; exit 3', retries: 1, backoff: {initial: 500s, max: 500s}}\n  e: 'true'\n");
  play.spawn("run", "f");
  const run = await play.until(async () => (await play.json("runs", "list")).runs[0]?.run_id, "the run");
  const page = await play.window({ height: 1200 });
  await play.go(page, `#/runs/${run}`);
  await page.locator(".graph [data-task=d].warn").waitFor();
  const states = async (selector) => Object.fromEntries(await page.locator(selector).evaluateAll((all) => all.map((one) => [one.getAttribute("data-task"), one.querySelector("svg")?.getAttribute("aria-label") ?? one.getAttribute("aria-label")?.split(", ").pop()])));
  const want = { a: "ok", b: "running", c: "ok", d: "will be tried again", e: "waiting" };
  await play.until(async () => JSON.stringify(await states(".graph [data-task]")) === JSON.stringify(want), "the graph has the states");
  const bars = await states("[role=treegrid] [data-task]");
  play.eq({ ...bars, g: undefined }, { ...want, g: undefined }, "the bars");
  play.ok(bars.g === "will be tried again", `the group has its strongest state, not ${bars.g}`);
  await play.becomes(() => page.locator("[role=treegrid] [role=row][aria-level='2']").count(), 3, "rows inside the group");

  await page.locator(".graph [data-task=b]").click();
  await play.sees(page, "line 3", ".task .ln");
  await page.locator(".graph [data-task=b]").focus();
  await page.keyboard.press("ArrowLeft");
  await play.sees(page, "one", ".task .ln");
  await page.keyboard.press("]");
  await play.until(() => page.url().endsWith("/b"), "the next task");
  await page.locator(".run-facts").getByRole("button", { name: "Cancel…" }).click();
  await play.sees(page, "Cancel f?", "[role=alertdialog]");
  await play.sees(page, "Started by", "[role=alertdialog] .facts");
  await page.getByRole("button", { name: "Cancel the run" }).click();
  await play.until(async () => (await play.json("runs", "list")).runs[0].status === "CANCELLED", "it is cancelled");
  await play.sees(page, "cancelled", ".bar .tag");
}

export async function queue(play) {
  flow(play, "long", "name: long\ntasks: {wait: {run: 'while [ ! -e go ]; do sleep 0.1; done'}}\n");
  await play.cli("request", "add", "First", "--id", "RQ-1", "--flow", "long");
  await play.cli("request", "add", "Second", "--id", "RQ-2", "--flow", "long");
  const page = await play.window(), other = await play.window();
  const before = await play.api("GET", "/api/requests?all=true&limit=1000");
  await play.go(page, "#/requests");
  await play.go(other, "#/requests");
  play.eq((await page.locator("[data-id=RQ-1] .state-cell").innerText()).trim(), "next", "the first one");
  await page.getByRole("switch", { name: "Auto-run" }).click();
  await play.sees(page, "Queue running", ".strip");
  await play.sees(other, "Queue running", ".strip");
  await play.sees(other, "LOCKED", "[data-id=RQ-1]");

  // A second queue: nothing is started, and the dialogue leads to the one that runs.
  await other.getByRole("button", { name: "Run next" }).click();
  const dialog = other.getByRole("alertdialog");
  await dialog.waitFor();
  await play.sees(other, "Another queue is running", "[role=alertdialog]");
  await play.becomes(() => dialog.locator(".bullets li").count(), 3, "actions of the catalogue");
  await dialog.getByRole("button", { name: "Open that queue" }).click();

  // A request that runs: straight to its run.
  const answer = await play.api("POST", "/api/requests/RQ-1/run", {});
  play.eq(answer.error.reason_code, "RUN_IN_PROGRESS", "the API");
  const late = await play.window({ prepare: (one) => one.route(/api.requests\?/, (route) => route.fulfill({ json: before })) });
  await play.go(late, "#/requests");
  await late.locator("[data-id=RQ-1]").getByRole("button", { name: "Run", exact: true }).click();
  await play.sees(late, "It is already running; this is that run.", ".toast");
  await play.until(() => late.url().includes("#/runs/RUN-"), "it leads to the run");
  await late.context().close();

  // What cannot be done says why.
  await other.locator("[data-id=RQ-1] [data-menu]").click();
  for (const name of [/^Run /, /^Resume /]) {
    const item = other.getByRole("menuitem", { name });
    play.ok((await item.isDisabled()) || (await item.getAttribute("aria-disabled")) === "true", `${name} is off while it runs`);
  }
  await other.keyboard.press("Escape");

  // The browser goes away, the queue does not; a new window shows it.
  await page.context().close();
  const next = await play.window();
  await play.sees(next, "Queue running", ".strip");
  await next.locator(".strip").getByRole("button", { name: "Stop after this" }).click();
  await play.sees(next, "stops after First", ".strip");
  await play.sees(next, "The queue stops after this request.", ".toast");
  const auto = other.getByRole("switch", { name: "Auto-run" });
  await play.until(() => auto.isDisabled(), "auto-run is off while the queue stops");
  await play.becomes(() => auto.getAttribute("title"), "stops after First", "why it is off");
  writeFileSync(`${play.root}/go`, "");
  await play.until(async () => (await play.json("queue", "status")).status !== "running", "the queue ends");
  await play.until(() => next.locator(".strip").count().then((n) => n === 0), "the strip goes");
  play.eq((await play.json("request", "list", "--all")).requests.map((one) => one.status), ["done", "ready"], "the requests");
}

export async function request_forms(play) {
  const page = await play.window();
  await play.go(page, "#/requests");
  await page.getByRole("button", { name: "New request" }).click();
  await page.getByLabel("Title").fill("Say hello");
  await page.getByLabel("or a command").fill("echo 'hello world'");
  await page.getByRole("button", { name: "Create" }).click();
  const id = await play.until(async () => (await play.json("request", "list")).requests[0]?.id, "the request");
  play.eq((await play.json("request", "show", id)).run, ["echo", "hello world"], "its command");
  const row = page.locator(`[data-id="${id}"]`);
  await row.getByRole("button", { name: "Run", exact: true }).click();
  await play.sees(page, "done in", ".c-req");
  await row.locator("[data-menu]").click();
  await page.getByRole("menuitem", { name: /^Edit/ }).click();
  await page.getByLabel("Title").fill("Say goodbye");
  writeFileSync(`${play.root}/.aiflow/requests/${id}.yaml`, "title: Changed elsewhere\nrun: echo\n");
  await page.getByRole("button", { name: "Save" }).click();
  await page.locator(".problem").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  await play.sees(page, "Changed elsewhere", ".c-req");
  await row.locator("[data-menu]").click();
  await page.getByRole("menuitem", { name: /^Remove/ }).click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Remove" }).click();
  await play.sees(page, "No request yet");
}

export async function locks(play) {
  const holder = play.spawn("lock", "run", "deploy", "--", "sleep", "1000");
  await play.until(async () => (await play.json("lock", "list")).locks.length === 1, "the lock is held");
  await play.cli("sprint", "acquire", "--session", "epic", "--epic", "specs/a.md", "--pid", String(play.spawn("wait", "lock", "deploy").pid));
  await play.end(play.children[1]);
  const page = await play.window();
  await play.go(page, "#/locks");
  await play.sees(page, "zombie", "[data-id='.sprint-running']");
  await play.sees(page, "dead: the process is gone", "[data-id='.sprint-running']");
  await play.sees(page, "alive: the kernel holds its lock", "[data-id=deploy]");
  const first = await page.locator(".c-lock[data-id]").first().getAttribute("data-id");
  play.eq(first, ".sprint-running", "dead holders come first");

  await page.locator("[data-id=deploy]").getByRole("button", { name: "Force…" }).click();
  const dialog = page.getByRole("alertdialog");
  await dialog.waitFor();
  await play.becomes(() => page.evaluate(() => document.activeElement?.textContent), "Keep it", "what has the focus");
  await dialog.locator(".ring").waitFor();
  await page.keyboard.press("Enter");
  play.eq((await play.json("lock", "list")).locks.find((one) => one.id === "deploy").holder.alive, true, "Enter keeps it");
  await page.locator("[data-id=deploy]").getByRole("button", { name: "Force…" }).click();
  await dialog.getByRole("button", { name: "Take it" }).click();
  await play.sees(page, "This page holds deploy now.", ".toast");
  await play.end(holder);
  await page.locator("[data-id=deploy]").getByRole("button", { name: "Release", exact: true }).click();
  await play.until(async () => !(await play.json("lock", "list")).locks.some((one) => one.id === "deploy"), "it is released");

  await page.locator("[data-id='.sprint-running']").getByRole("button", { name: "Release…" }).click();
  await play.sees(page, "A zombie lock was found.", "[role=alertdialog]");
  await dialog.getByRole("button", { name: "Release", exact: true }).click();
  await play.sees(page, "Nobody holds anything");

  await play.cli("own", "claim", "UL-1");
  await page.locator("[data-id=UL-1]").getByRole("button", { name: "Claim" }).click();
  if (await dialog.isVisible().catch(() => false)) await dialog.getByRole("button", { name: "Take it" }).click();
  await play.sees(page, "This page owns UL-1 now.", ".toast");
}

export async function more_processes(play) {
  const page = await play.window();
  await play.go(page, "#/processes");
  await page.getByRole("button", { name: "Import a Procfile" }).click();
  await page.getByRole("dialog").locator("textarea").fill("one: sh -c 'while :; do echo from one; sleep 0.2; done'\ntwo: sh -c 'while :; do echo from two; sleep 0.2; done'\n");
  await page.getByRole("dialog").getByRole("button", { name: "Import", exact: true }).click();
  await play.sees(page, "Imported. Nothing was started.", ".toast");
  await play.cli("proc", "start", "one", "two");
  await page.locator(".list-pane .tools-row [data-menu]").click();
  await page.getByRole("menuitem", { name: /^Combined log/ }).click();
  await page.getByRole("checkbox", { name: "one" }).check();
  await page.getByRole("checkbox", { name: "two" }).check();
  await play.sees(page, "one │ from one", ".log .ln");
  await play.sees(page, "two │ from two", ".log .ln");
  await page.locator(".list-pane .tools-row [data-menu]").click();
  await page.getByRole("menuitem", { name: /^End the combined log/ }).click();
  await play.go(page, "#/processes/one");
  await page.locator(".detail").getByRole("button", { name: "Edit" }).click();
  await page.getByLabel(/^Command/).fill("sleep 500");
  await page.getByLabel(/^Environment/).fill("PORT=3000\nMODE=dev");
  await page.getByLabel(/^When it ends/).selectOption("on-failure");
  await play.sees(page, "tasuki proc update one --env PORT=3000 --env MODE=dev --restart on-failure -- sleep 500", "[role=dialog] .foot");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await play.until(async () => (await play.json("proc", "status", "one")).command === "sleep", "the change");
  const changed = await play.json("proc", "status", "one");
  play.eq([changed.args, changed.env, changed.restart], [["500"], { MODE: "dev", PORT: "3000" }, "on-failure"], "what the form has set");
  await page.locator(".detail").getByRole("button", { name: "Edit" }).click();
  await page.getByLabel(/^Environment/).fill("");
  await play.sees(page, "tasuki proc update one --env-clear", "[role=dialog] .foot");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await play.until(async () => Object.keys((await play.json("proc", "status", "one")).env).length === 0, "the environment is empty");
}

export async function templates(play) {
  const page = await play.window();
  await play.go(page, "#/processes");
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "New process" }).click();
  await dialog.getByLabel("Name", { exact: true }).waitFor();
  play.eq(await dialog.getByLabel("Template").count(), 0, "without a template there is no choice");
  await page.keyboard.press("Escape");
  await play.cli("proc", "template", "create", "server", "--restart", "on-failure", "--env", "A=1", "--", "sh", "-c", "echo serves '{{PORT}}' with '{{NAME}}'; sleep 1000");
  await page.getByRole("button", { name: "New process" }).click();
  await dialog.getByLabel("Name", { exact: true }).fill("web");
  await dialog.getByLabel("Template").selectOption("server");
  await play.until(async () => (await dialog.getByLabel(/^Command/).inputValue()).includes("{{PORT}}"), "the template's command is shown");
  await play.becomes(() => dialog.getByLabel(/^When it ends/).inputValue(), "on-failure", "the template's setting is shown");
  await dialog.getByLabel("PORT", { exact: true }).fill("8080");
  await dialog.getByLabel("NAME", { exact: true }).fill("two words");
  await dialog.getByLabel(/^Environment/).fill("B=2");
  await play.sees(page, "tasuki proc template use server web --set 'NAME=two words' --set PORT=8080 --env B=2 --start", "[role=dialog] .foot");
  await dialog.getByRole("button", { name: "Create" }).click();
  await play.sees(page, "serves 8080 with two words", ".log .ln");
  const made = await play.json("proc", "status", "web");
  play.eq([made.state_name, made.env, made.restart], ["Running", { A: "1", B: "2" }, "on-failure"], "the process of the template");
}

export async function more_runs(play) {
  flow(play, "flaky", "name: flaky\nflow: a >> b\ntasks: {a: echo a, b: {run: 'test -e fixed'}}\n");
  flow(play, "text", "name: text\ntasks: {q: {run: \"tasuki task ask 'What is its name?' > name; test -s name\"}}\n");
  flow(play, "many", "name: many\ntasks: {q: {run: \"tasuki task ask 'Which ones?' --type multi_selection --option red --option green --option blue > chosen; test -s chosen\"}}\n");
  flow(play, "yes", "name: yes\ntasks: {q: {run: \"tasuki task ask 'Deploy?' --type approval > approved; test -s approved\"}}\n");
  for (const [id, name] of [["RQ-1", "flaky"], ["RQ-2", "text"], ["RQ-3", "many"], ["RQ-4", "yes"]]) await play.cli("request", "add", `The ${name} one`, "--id", id, "--flow", name);
  const page = await play.window({ height: 1000 });
  await play.go(page, "#/requests");
  await page.locator(".auto [data-menu]").click();
  await page.getByRole("menuitem", { name: /^With limits/ }).click();
  await page.getByLabel("At most N requests").fill("1");
  await play.sees(page, "tasuki queue run --max 1", "[role=dialog]");
  await page.getByRole("dialog").getByRole("button", { name: "Start" }).click();
  await play.sees(page, "failed", "[data-id=RQ-1]");

  await play.go(page, "#/");
  writeFileSync(`${play.root}/fixed`, "");
  await page.locator(".item.broke").getByRole("button", { name: "Resume" }).click();
  await play.sees(page, "done", ".bar .tag");

  const ask = async (id) => {
    await play.cli("request", "run", id, "--detach").catch(() => undefined);
    const run = await play.until(async () => (await play.json("runs", "list")).runs.find((one) => one.request_id === id && one.status === "NEEDS_INPUT")?.run_id, `${id} asks`);
    await play.go(page, `#/runs/${run}`);
    await page.locator("form.answer").waitFor();
    return async () => play.until(async () => (await play.json("runs", "show", run)).status === "DONE", `${id} is done`);
  };
  let done = await ask("RQ-2");
  await page.locator(".answer textarea").fill("Tasuki");
  await page.keyboard.press("Control+Enter");
  await done();
  play.eq(readFileSync(`${play.root}/name`, "utf8").trim(), "Tasuki", "the text");
  done = await ask("RQ-3");
  // Both before the page is drawn again: neither is lost.
  await page.evaluate(() => ["1", "3"].forEach((key) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }))));
  await page.locator(".answer").getByRole("button", { name: "Answer" }).click();
  await done();
  play.ok(/red/.test(readFileSync(`${play.root}/chosen`, "utf8")) && !/green/.test(readFileSync(`${play.root}/chosen`, "utf8")), "what was chosen");
  done = await ask("RQ-4");
  await page.locator(".answer").getByRole("button", { name: "Yes" }).click();
  await done();
}

/** Several forms: keys choose in the one whose task is selected; an option may have commas. */
export async function several_questions(play) {
  const ask = (question) => `tasuki task ask '${question}' --type multi_selection --option red --option 'green, dark' --option blue`;
  flow(play, "two", `name: two\nflow: a | b\nlimits: {parallel: 2}\ntasks:\n  a: {run: "${ask("First?")}"}\n  b: {run: "${ask("Second?")} > chosen"}\n`);
  play.spawn("run", "two");
  const run = await play.until(async () => (await play.json("runs", "list")).runs[0]?.run_id, "the run");
  await play.until(async () => (await play.json("runs", "show", run)).questions.length === 2, "both ask");
  const page = await play.window();
  await play.go(page, `#/runs/${run}/b`);
  const form = (text) => page.locator("form.answer").filter({ hasText: text });
  await form("First?").waitFor();
  await form("Second?").waitFor();
  await play.sees(page, "Live", ".live");
  await page.keyboard.press("1");
  await play.until(() => form("Second?").locator("input:checked").count().then((n) => n === 1), "the key chooses in the selected task's form");
  await page.keyboard.press("a");
  await play.becomes(() => page.evaluate(() => document.activeElement?.closest("form")?.getAttribute("aria-label")), "Second?", "the form that has the focus");
  await page.keyboard.press("2");
  await play.until(() => form("Second?").locator("input:checked").count().then((n) => n === 2), "keys choose inside the form, too");
  play.eq(await form("First?").locator("input:checked").count(), 0, "what is chosen in the other form");
  await form("Second?").getByRole("button", { name: "Answer" }).click();
  await play.sees(page, "Answer sent", ".toast");
  await play.until(() => existsSync(`${play.root}/chosen`) && readFileSync(`${play.root}/chosen`, "utf8").includes("green, dark"), "the answer has the option with a comma");
  play.ok(!readFileSync(`${play.root}/chosen`, "utf8").includes("blue"), "only what was chosen");
}

export async function loops(play) {
  flow(play, "f", "name: f\nflow: a >> b >> c >> d\ntasks:\n  a: {run: 'echo x >>n; [ $(wc -l <n) -ge 4 ] || tasuki task again'}\n  b: 'tasuki task spawn extra1 -- true'\n  c: {run: 'echo x >>m; [ $(wc -l <m) -ge 3 ] || tasuki task next b'}\n  d: {run: 'while [ ! -e go ]; do sleep 0.1; done; tasuki task spawn late -- true'}\n");
  play.spawn("run", "f");
  const run = await play.until(async () => (await play.json("runs", "list")).runs[0]?.run_id, "the run");
  const page = await play.window({ height: 1200 });
  await play.go(page, `#/runs/${run}`);
  const arc = (from, to) => page.locator(`.graph [data-jump='${from} ${to}']`).textContent();
  await play.until(async () => (await page.locator(".graph .jump").count()) === 2, "two arcs");
  await play.until(async () => (await arc("a", "a")) === "×3" && (await arc("c", "b")) === "×2", "each with its count");
  await page.locator(".graph .node.spawned[data-task=extra1]").waitFor();
  const row = (task) => page.locator(`[role=treegrid] [data-task=${task}]`).innerText();
  await play.until(async () => (await row("a")).includes("again ×3"), "the treegrid says again");
  await play.until(async () => (await row("c")).includes("to b ×2"), "the treegrid says where the jump leads");
  await play.until(async () => (await row("extra1")).includes("added by b"), "the treegrid says which task added it");
  writeFileSync(`${play.root}/go`, "");
  await page.locator(".graph .node.spawned[data-task=late]").waitFor(); // the picture is not the first one
  const { graph } = await play.api("GET", `/api/runs/${run}/graph?format=json`);
  play.eq(graph.jumps, [{ from: "a", to: "a", count: 3 }, { from: "c", to: "b", count: 2 }], "jumps in the API");
  play.eq(graph.spawned, [{ task: "extra1", by: "b" }, { task: "late", by: "d" }], "spawned tasks in the API");
}

export async function still(play) {
  for (const id of ["api", "web"]) await play.cli("proc", "create", id, "--start", "--no-wait", "--", "sleep", "1000");
  const page = await play.window();
  await play.go(page, "#/processes");
  const order = () => page.locator(".list-pane a.item .name").allInnerTexts();
  await play.until(async () => (await order()).join() === "api,web", "both are there");
  await page.locator(".list-pane [data-id=web]").hover();
  const at = (await page.locator(".list-pane [data-id=web]").boundingBox()).y;
  await play.cli("proc", "create", "broken", "--start", "--no-wait", "--", "sh", "-c", "echo 'no such table' >&2; exit 1");
  process.kill((await play.json("proc", "status", "api")).pid, "SIGKILL");
  await play.sees(page, "1 new", ".new-rows");
  await play.sees(page, "failed", ".list-pane [data-id=api]"); // states go on
  play.eq((await page.locator(".list-pane [data-id=web]").boundingBox()).y, at, "the place of the row under the pointer");
  await page.locator(".bar h1").hover();
  await play.until(async () => (await order()).join() === "api,broken,web", "the order comes back");

  flow(play, "asking", "name: asking\ntasks: {sign: {run: \"tasuki task ask 'Which key?' --option a --option b\"}}\n");
  flow(play, "busy", "name: busy\ntasks: {wait: {run: 'sleep 1000'}}\n");
  play.spawn("run", "busy");
  await play.until(async () => (await play.json("runs", "list")).runs.length === 1, "the first run");
  play.spawn("run", "asking");
  await play.until(async () => (await play.json("runs", "list")).runs[0].status === "NEEDS_INPUT", "the second run asks");
  await play.go(page, "#/runs");
  await play.until(async () => (await page.locator(".c-runs .name").allInnerTexts()).join() === "asking,busy", "the one that asks is first");
  await page.locator(".c-runs", { hasText: "asking" }).click();
  await play.until(async () => /Elapsed [1-9]/.test(await play.text(page, ".run-facts")), "its time goes on while it waits");
}

/** What a row says is seen: inside the window, and not hidden. */
export async function narrow(play) {
  flow(play, "long", "name: long\ntasks: {wait: {run: 'sleep 1000'}}\n");
  await play.cli("request", "add", "First", "--id", "RQ-1", "--flow", "long", "--priority", "P1");
  await play.cli("proc", "create", "tunnel", "--start", "--no-wait", "--", "sh", "-c", "echo ssh: connect to host bastion port 22: Connection timed out >&2; exit 1");
  play.spawn("lock", "run", "deploy", "--", "sleep", "1000");
  const dead = play.spawn("lock", "run", "old", "--", "sleep", "1000");
  await play.until(async () => (await play.json("lock", "list")).locks.length === 2, "both locks are held");
  await play.end(dead);
  const wide = await play.window();
  await play.sees(wide, "1", ".nav[href='#/locks'] .pip");
  await play.until(() => wide.locator(".nav > span:not(.n)").evaluateAll((all) => all.every((one) => one.scrollWidth <= one.clientWidth)), "no name of a page is cut");
  await wide.context().close();
  await play.cli("queue", "run", "--detach");
  const run = await play.until(async () => (await play.json("runs", "list")).runs[0]?.run_id, "the run");
  for (const width of [1280, 768, 380]) {
    const page = await play.window({ width, height: 900 });
    await play.go(page, "#/locks");
    for (const text of ["held", "alive: the kernel holds its lock", /\d+ (s|min)$/, /\d\d:\d\d$/]) await page.locator("[data-id=deploy]").getByText(text).first().waitFor();
    await play.go(page, "#/requests");
    await page.locator("[data-id=RQ-1] .prio").getByText("P1").waitFor();
    await page.locator("[data-id=RQ-1] .state-cell .by").waitFor();
    await page.locator(".strip").getByRole("button", { name: "Stop now…" }).waitFor();
    const by = page.locator(".strip .by");
    await by.getByText(/started by ./).waitFor();
    play.ok(await by.evaluate((one) => one.scrollWidth <= one.clientWidth), `who runs the queue is cut at ${width}`);
    for (const [place, row] of [["#/processes", ".c-list"], ["#/runs", ".c-runs"], ["#/events", ".c-event"]]) {
      await play.go(page, place);
      await page.locator(`main ${row} .by .av`).filter({ visible: true }).first().waitFor();
    }
    await play.go(page, `#/runs/${run}`);
    await page.locator(".run-facts").getByRole("link", { name: "First" }).waitFor();
    await page.locator(".bar .tag, .run-facts .tag").filter({ hasText: "running", visible: true }).first().waitFor();
    if (width === 380)
      for (const place of ["#/", "#/processes/tunnel", "#/requests", "#/locks", `#/runs/${run}`]) {
        await play.go(page, place);
        await page.locator(".content button").first().waitFor({ state: "attached" });
        const low = () => page.locator("button.btn:visible, a.btn:visible, .seg button:visible").evaluateAll((all) => all.filter((one) => one.getBoundingClientRect().height < 39.5).map((one) => `${one.textContent} ${one.className} ${one.getBoundingClientRect().height}`));
        play.eq(await low(), [], `targets under 40 px at ${place}`);
        const tall = await page.locator(".strip").evaluate((one) => one.clientHeight);
        play.ok(tall <= 120, `the strip of the queue takes ${tall} px at ${place}`);
        if (place === "#/processes/tunnel") {
          await play.sees(page, "Connection timed out", ".lasterr");
          play.ok(await page.locator(".lasterr .mono").evaluate((one) => one.scrollWidth <= one.clientWidth), "the last line of stderr is cut");
        }
      }
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    play.ok(over <= 0, `nothing is wider than ${width} px: ${over}`);
    await page.context().close();
  }
}

export async function by_mouse(play) {
  flow(play, "pay", "name: pay\nflow: cart >> checkout_pay\ntasks: {cart: 'true', checkout_pay: 'echo refused >&2; exit 1'}\n");
  await play.cli("request", "add", "Pay", "--id", "RQ-1", "--flow", "pay");
  await play.cli("request", "add", "New one", "--id", "RQ-2", "--flow", "pay");
  await play.cli("request", "run", "RQ-1").catch(() => undefined);
  const { run_id } = (await play.json("runs", "list")).runs[0];
  const page = await play.window();
  await play.sees(page, "Failed in checkout_pay", ".item.broke");
  await play.sees(page, "by run.mjs", ".item.broke");
  await play.go(page, "#/requests");
  await play.sees(page, "failed in checkout_pay", "[data-id=RQ-1] .state-cell");
  await page.locator("[data-id=RQ-1] .name").click();
  await play.until(() => page.url().includes(run_id), "a click opens the latest run");
  await play.go(page, "#/requests");
  await page.locator("[data-id=RQ-1]").focus();
  await page.keyboard.press("Enter");
  await play.until(() => page.url().includes(run_id), "so does Enter");
  await play.go(page, "#/requests");
  await page.locator("[data-id=RQ-2] .name").click();
  await page.getByRole("dialog").getByLabel("Title").waitFor(); // it has no run
  await page.keyboard.press("Escape");

  await play.go(page, "#/events");
  const times = () => page.locator(".c-event time").evaluateAll((all) => all.map((one) => one.dateTime));
  await play.until(async () => (await times()).length >= 4, "the events");
  const shown = await times();
  play.eq(shown, [...shown].sort().reverse(), "the order of the events");
  play.eq(await page.locator(".older-rows").count(), 0, "older events, where there are none");
  await page.locator(".c-event .type").first().click();
  await page.locator(".event .json").waitFor();
}

export async function palette_things(play) {
  await play.cli("proc", "create", "job", "--start", "--no-wait", "--restart", "on-failure", "--backoff", "1s", "--max-retries", "1", "--", "sh", "-c", "exit 3");
  play.spawn("lock", "run", "src-api", "--", "sleep", "1000");
  await play.until(async () => (await play.json("lock", "list")).locks.length === 1, "the lock is held");
  flow(play, "long", "name: long\ntasks: {wait: {run: 'sleep 1000'}}\n");
  await play.cli("request", "add", "First", "--id", "RQ-1", "--flow", "long");
  play.spawn("queue", "run");
  const page = await play.window();
  await play.sees(page, "Queue running", ".strip");
  await play.go(page, "#/locks");
  await play.sees(page, "alive", "[data-id=src-api]");
  await page.keyboard.press("Control+k");
  const options = page.getByRole("dialog").getByRole("option");
  const input = page.getByRole("dialog").getByRole("combobox");
  await input.fill("stop now");
  await options.filter({ hasText: "Stop the queue now" }).waitFor();
  await input.fill("lock acquire");
  await play.until(async () => (await options.allInnerTexts()).length > 0, "hits");
  const hits = await options.allInnerTexts();
  play.eq(hits.length, new Set(hits).size, "different rows");
  await input.fill("stop jo");
  await play.until(() => options.evaluateAll((all) => all.some((one) => one.textContent.startsWith("job process"))), "the thing itself, beside what can be done to it");
  await input.fill("force src-api");
  await options.filter({ hasText: "Force lock src-api" }).click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Keep it" }).click();
  await play.go(page, "#/processes/job");
  await play.until(async () => (await page.locator(".detail .exit").count()) >= 2, "each exit is listed");
  await play.sees(page, "Back-off", ".detail dl");
  await play.sees(page, "Log mode", ".detail dl");
}
