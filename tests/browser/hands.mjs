// The palette's Tab, filters, refusals, the keyboard alone.
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { flow } from "./work.mjs";

export async function palette_tab(play) {
  await play.cli("proc", "create", "web", "--start", "--no-wait", "--", "sleep", "1000");
  const page = await play.window();
  await play.sees(page, "Live", ".live");
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox").fill("proc stop web");
  await play.sees(page, "Stop process web", "[aria-selected=true]");
  await page.keyboard.press("Tab");
  const form = page.getByRole("dialog");
  play.eq(await form.getByLabel(/^id/).inputValue(), "web", "what is known");
  await form.getByLabel(/^note/).fill("for a test");
  await form.getByRole("button", { name: "Copy as command" }).click();
  await play.sees(page, "Copied.", ".toast");
  play.eq(await page.evaluate(() => navigator.clipboard.readText()), "tasuki proc stop web --note 'for a test'", "the command");
  await form.getByRole("button", { name: "Run", exact: true }).click();
  await play.sees(page, '"id": "web"', ".answer-json");
  play.eq((await play.json("proc", "status", "web")).state_name, "Stopped", "it was stopped");
  await page.keyboard.press("Escape");

  await page.keyboard.press("Control+k");
  await page.getByRole("combobox").fill("proc update");
  await play.sees(page, "tasuki proc update", "[role=option]");
  await page.getByRole("option").filter({ hasText: "tasuki proc update" }).hover();
  await page.keyboard.press("Tab");
  play.eq(await form.getByLabel(/^restart/).evaluate((one) => [...one.options].map((option) => option.value)), ["", "no", "on-failure", "always"], "choices");
  await page.keyboard.press("Escape");

  await page.keyboard.press("Control+k");
  await page.getByRole("combobox").fill("even");
  await play.sees(page, "Events", "[aria-selected=true]");
  await page.keyboard.press("Tab");
  await play.until(async () => (await page.getByRole("combobox").inputValue()) === "Events", "the name is completed");
  await page.keyboard.press("Enter");
  await play.until(async () => (await page.locator("h1").innerText()) === "Events", "Enter goes there");
}

/** An operation that needs a caller has one: this page; its question is asked as that of a button. */
export async function form_caller(play) {
  const holder = play.spawn("lock", "run", "deploy", "--", "sleep", "1000");
  await play.until(async () => (await play.json("lock", "list")).locks.length === 1, "the lock is held");
  const page = await play.window();
  await play.sees(page, "Live", ".live");
  const form = page.getByRole("dialog");
  const open = async (id) => {
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox").fill("lock acquire");
    await play.sees(page, "tasuki lock acquire", "[role=option]");
    await page.getByRole("option").filter({ hasText: /tasuki lock acquire$/ }).first().hover(); // not the one that forces `deploy`
    await page.keyboard.press("Tab");
    await form.getByLabel(/^id/).waitFor();
    const kind = form.getByLabel(/^kind/);
    if ((await kind.evaluate((one) => one.tagName)) === "SELECT") await kind.selectOption("name");
    else await kind.fill("name");
    await form.getByLabel(/^id/).fill(id);
  };
  await open("other");
  await play.sees(page, "tasuki lock acquire name other", ".form-command");
  await form.getByRole("button", { name: "Run", exact: true }).click();
  await play.sees(page, '"fence"', ".answer-json");
  await page.keyboard.press("Escape");
  await open("deploy");
  await form.getByLabel(/^force/).check();
  await play.sees(page, "tasuki lock acquire name deploy --force", ".form-command");
  await form.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByRole("alertdialog").locator(".btn.danger").click();
  await play.until(async () => (await play.json("lock", "list")).locks.find((one) => one.id === "deploy")?.holder?.who?.label === "page", "the page has the lock");
  await play.end(holder);
}

export async function refusals(play) {
  await play.cli("proc", "create", "web", "--", "sleep", "1000");
  const page = await play.window();
  const { error } = await play.api("POST", "/api/processes", { id: "web", command: "true" });
  play.ok(error.summary && error.actions.length > 0, "the answer has summary and actions");
  await play.go(page, "#/processes");
  await page.getByRole("button", { name: "New process" }).click();
  await page.getByLabel(/^Name/).fill("web");
  await page.getByLabel(/^Command/).fill("true");
  await page.getByRole("dialog").getByRole("button", { name: /^(Create|Start)/ }).first().click();
  await play.sees(page, error.message, ".problem");
  await play.sees(page, error.summary, ".problem");
  await play.sees(page, error.actions[0], ".problem li");
  await page.keyboard.press("Escape");

  // A dialogue: the process cannot be executed.
  await play.cli("proc", "create", "none", "--", "/no/such/program");
  await play.go(page, "#/processes/none");
  await page.locator(".detail").getByRole("button", { name: "Start", exact: true }).click();
  const refused = await play.api("POST", "/api/processes/none/start", {});
  await page.getByRole("alertdialog").waitFor();
  await play.sees(page, refused.error.summary, "[role=alertdialog]");
  await play.sees(page, refused.error.reason_code, "[role=alertdialog]");
}

export async function filters(play) {
  const git = (...words) => execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@t", ...words], { cwd: play.root });
  git("init", "-q", "-b", "trunk");
  git("commit", "-q", "--allow-empty", "-m", "first");
  mkdirSync(`${play.root}/apps/api`, { recursive: true });
  await play.cli("proc", "create", "web", "--start", "--no-wait", "--ready", "port:4799", "--", "sh", "-c", "echo hello; sleep 1000");
  await play.cli("proc", "create", "api", "--cwd", "apps/api", "--", "sleep", "1000");
  process.env.TASUKI_AGENT = "codex";
  await play.cli("proc", "start", "api");
  delete process.env.TASUKI_AGENT;
  const page = await play.window();
  const rows = () => page.locator(".list-pane a.item").evaluateAll((all) => all.map((one) => one.dataset.id).sort());
  await play.go(page, "#/processes/web");
  await play.sees(page, "apps/api", "[data-id=api] .place");
  await play.until(async () => (await rows()).length === 2, "both");
  await page.getByRole("combobox", { name: "Directory" }).selectOption("apps/api");
  await play.becomes(rows, ["api"], "of one directory");
  await page.getByRole("combobox", { name: "Directory" }).selectOption("");
  await page.getByRole("combobox", { name: "Agent" }).selectOption("codex");
  await play.becomes(rows, ["api"], "of one agent");
  await page.getByRole("combobox", { name: "Agent" }).selectOption("");
  await play.becomes(rows, ["api", "web"], "all again");
  await play.sees(page, "trunk", ".detail .kv");
  await play.until(async () => (await page.locator(".detail .kv a.link").getAttribute("href")) === "http://localhost:4799", "the port as a link");
  await play.sees(page, ":4799", "[data-id=web]");
}

export async function keys_only(play) {
  const page = await play.window();
  await play.sees(page, "Live", ".live");
  const press = async (...keys) => {
    for (const key of keys) await page.keyboard.press(key);
  };
  const openPalette = async () => { // its file is loaded when it is first needed
    await press("Control+k");
    await page.locator("[role=combobox]:focus").waitFor();
  };
  await openPalette();
  await page.keyboard.type("new process");
  await play.sees(page, "New process", "[aria-selected=true]");
  await press("Enter");
  await page.getByRole("dialog", { name: "New process" }).locator("input:focus").waitFor();
  await page.keyboard.type("loop");
  await page.getByLabel(/^Command/).focus();
  await page.keyboard.type("sh -c 'echo first; echo Second; sleep 1000'");
  await press("Enter");
  await play.until(async () => (await play.json("proc", "list")).processes.length === 1, "it is made");
  await press("g", "p");
  await play.until(async () => (await page.locator("h1").innerText()) === "Processes", "the page");
  if ((await play.json("proc", "status", "loop")).state_name !== "Running") await press("s");
  await play.sees(page, "Second", ".log .ln");
  await page.locator(".log-box [data-search]").focus();
  await page.keyboard.type("second");
  await play.sees(page, "1 of 1", ".log-box .tools");
  await press("Escape", "Escape");
  await press("x");
  await play.until(async () => (await play.json("proc", "status", "loop")).state_name === "Stopped", "x stops it");
  await play.sees(page, "stopped", ".item.sel");
  await openPalette();
  await page.keyboard.type("remove loop");
  await play.sees(page, "Remove process loop", "[aria-selected=true]");
  await press("Enter");
  await page.getByRole("alertdialog").waitFor();
  play.ok((await page.evaluate(() => document.activeElement?.textContent)) !== "Remove", "the safe answer has the focus");
  await press("Tab");
  for (let i = 0; i < 4 && (await page.evaluate(() => document.activeElement?.textContent?.trim())) !== "Remove"; i++) await press("Tab");
  await press("Enter");
  await play.until(async () => (await play.json("proc", "list")).processes.length === 0, "it is removed");
}

export async function attempts(play) {
  flow(play, "again", "name: again\ntasks:\n  a: {run: 'echo out; exit 1', retries: 3, backoff: {initial: 100ms, max: 100ms}}\n  b: {run: 'exit 1', retries: 2, backoff: {initial: 500s, max: 500s}}\n  c: {run: 'tasuki channel set city Kyoto'}\n");
  play.spawn("run", "again");
  const run = await play.until(async () => (await play.json("runs", "list")).runs[0]?.run_id, "the run");
  const page = await play.window();
  await play.go(page, `#/runs/${run}/a`);
  await play.until(async () => (await page.locator("[role=treegrid] [data-task=a] .track").getAttribute("aria-label")) === "4 attempts", "a bar for each attempt").catch(async (error) => {
    throw new Error(`${error.message}: ${await page.locator("[role=treegrid] [data-task=a] .track").getAttribute("aria-label")}`);
  });
  await play.sees(page, "in 8", ".graph [data-task=b]");
  await page.getByRole("button", { name: /^Attempts/ }).click();
  await play.until(async () => (await page.locator(".attempts li").count()) === 4, "its attempts");
  await play.go(page, `#/runs/${run}/c`);
  await page.getByRole("button", { name: /^Channel/ }).click();
  await play.sees(page, "Written by this task", ".task");
  await play.sees(page, "Kyoto", ".task .channel");
}

export async function older_events(play) {
  await play.api("POST", "/api/processes", { id: "the-first", command: "true" });
  for (let i = 0; i < 900; i++) {
    await play.api("POST", "/api/processes", { id: "other", command: "true" });
    await play.api("DELETE", "/api/processes/other");
  }
  const page = await play.window();
  await play.go(page, "#/events");
  await play.sees(page, "other", ".c-event");
  play.eq(await page.locator(".c-event").filter({ hasText: "the-first" }).count(), 0, "what the page does not keep");
  await play.until(async () => Number((await page.locator(".hourbars svg").getAttribute("aria-label")).match(/[\d,]+/)[0].replace(",", "")) >= 1801, "the bars count what the page does not keep");
  await play.sees(page, /1,\d{3}\+ today/, ".tools-row");
  const older = page.getByRole("button", { name: "Older events" });
  for (let i = 0; i < 12 && (await page.locator(".c-event").filter({ hasText: "the-first" }).count()) === 0; i++) {
    const before = await page.locator(".c-event").count();
    await older.click();
    await play.until(async () => (await page.locator(".c-event").count()) > before || (await older.count()) === 0, "older events");
  }
  await play.sees(page, "the-first registered", ".c-event");
  const ids = await page.locator(".c-event button").evaluateAll((all) => all.map((one) => Number(one.getAttribute("aria-label").match(/\d+$/)[0])));
  play.ok(ids.length > 1700 && ids.every((id, i) => i === 0 || id < ids[i - 1]), `each once and in order: ${ids.length}`);
}
