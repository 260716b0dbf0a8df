// Faults that a careful look at every page has found: text that was cut or missing, wrong words, rules of a log in the wrong order.
import { appendFileSync } from "node:fs";
import { Agent, sleeper } from "./feed.mjs";
import { flow } from "./work.mjs";
import { furnish, settled } from "./whole.mjs";

/** The texts of the elements that are cut. */
const cut = (found) => found.evaluateAll((all) => all.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent));

/** On a phone: the strip says what an agent asks, and the second question shows the holder and how we know that it is alive. */
export async function asked_on_phone(play) {
  const holder = await sleeper(play);
  await play.cli("lock", "acquire", "name", "deploy", "--pid", String(holder.pid));
  const page = await play.window({ width: 380, height: 820 });
  await play.sees(page, "Live", ".live");
  const agent = await new Agent(play).begin("cursor");
  await agent.call("lock_acquire", { kind: "name", id: "deploy", force: true });
  await page.locator(".strip.askfor").getByText("cursor asks to take the lock deploy.").waitFor();
  await page.locator(".strip.askfor").getByText("No answer means no").waitFor();
  await page.locator(".strip.askfor").getByRole("button", { name: "Allow" }).click();
  const dialog = page.getByRole("alertdialog");
  await dialog.getByText("alive: the process exists").waitFor();
  play.eq(await cut(dialog.locator("dd, dd *")), [], "facts that are cut");
  play.ok(await dialog.evaluate((one) => [...one.querySelectorAll("dd *")].every((part) => part.getBoundingClientRect().right <= one.getBoundingClientRect().right - 16)), "no fact leaves the dialogue");
}

/** A menu is as wide as its window allows; a long command is cut inside it, and its button to copy is there. */
export async function menus(play) {
  const run = await furnish(play);
  for (const width of [1440, 380]) {
    const page = await play.window({ width, height: 900 });
    for (const [place, button] of [[`#/runs/${run}`, ".run-facts [data-menu]"], ["#/processes/web", ".detail [data-menu]"]]) {
      await play.go(page, place);
      await page.locator(button).last().click();
      const box = await page.getByRole("menu").boundingBox();
      play.ok(box.x >= 0 && box.x + box.width <= width, `the menu is in the window: ${JSON.stringify(box)}, ${width}`);
      play.ok(box.width >= 360, `there is room for the commands: ${box.width} px`);
      const out = await page.getByRole("menu").evaluate((menu) => [...menu.querySelectorAll("button")].filter((one) => one.getBoundingClientRect().right > menu.getBoundingClientRect().right).map((one) => one.textContent || one.title));
      play.eq(out, [], `what leaves the menu at ${place}, ${width} px`);
      await page.keyboard.press("Escape");
    }
    await page.context().close();
  }
}

/** While the log is followed: each start before its lines, and each exit behind them. */
export async function rules(play) {
  await play.cli("proc", "create", "quick", "--log", "stamped", "--", "sh", "-c", "echo begins; echo ends; exit 3");
  const page = await play.window();
  await play.go(page, "#/processes/quick");
  await play.sees(page, "No output yet", ".log");
  const expected = [];
  for (let i = 1; i <= 5; i++) {
    await play.cli("proc", "start", "quick", "--quiet").catch(() => undefined);
    expected.push(`start ${i}`, "begins", "ends", "exit 3");
    const read = () => page.locator(".log .lines > *").evaluateAll((all) => all.map((one) => /start \d+|begins|ends|exit \d/.exec(one.textContent)?.[0] ?? one.textContent));
    await play.becomes(read, expected, `the log after start ${i}`);
  }
  let logIsRead;
  const log = new Promise((done) => (logIsRead = done));
  page.on("response", (one) => one.url().includes("/logs?") && logIsRead());
  await page.route(/api\/events\?limit=/, async (route) => log.then(() => route.continue())); // the past is known after the log, as on a busy machine
  await page.reload();
  await play.becomes(() => page.locator(".log .lines > *").evaluateAll((all) => all.map((one) => /start \d+|begins|ends|exit \d/.exec(one.textContent)?.[0] ?? one.textContent)), expected, "the log that is read again");
}

/** An end says how and after how long, and when the next start is due, in one rule: while it is followed, and when it is read again. */
export async function ends(play) {
  await play.cli("proc", "create", "tries", "--log", "stamped", "--restart", "on-failure", "--backoff", "600s", "--", "sh", "-c", "echo begins; exit 3");
  await play.cli("proc", "create", "killed", "--start", "--no-wait", "--", "sleep", "1000");
  const page = await play.window();
  const rules = () => page.locator(".log .cutln").evaluateAll((all) => all.map((one) => one.textContent.replace(/\d+\.\d s/, "N s").replace(/ · \d\d:\d\d:\d\d · pid \d+/, "")));
  await play.go(page, "#/processes/tries");
  await play.sees(page, "No output yet", ".log");
  await play.cli("proc", "start", "tries", "--quiet", "--no-wait");
  const expected = ["start 1", "exit 3 after N s", "start 2", "exit 3 after N s · again in 10 min"];
  await play.becomes(rules, expected, "the rules that are followed");
  await page.reload();
  await play.becomes(rules, expected, "the rules that are read again");
  await play.go(page, "#/processes/killed");
  await play.becomes(rules, ["start 1"], "it runs");
  process.kill((await play.json("proc", "status", "killed")).pid, "SIGKILL");
  await play.becomes(rules, ["start 1", "SIGKILL after N s"], "how it was killed");
  await play.sees(page, "SIGKILL", ".detail .exit");
  await play.cli("proc", "create", "slow", "--", "true");
  await play.go(page, "#/processes/slow");
  await play.sees(page, "No output yet", ".log");
  const event = (type, data) => appendFileSync(`${play.root}/.aiflow/events.ndjson`, `${JSON.stringify({ time: new Date().toISOString(), type, actor: null, data: { process_id: "slow", run: 1, ...data } })}\n`);
  event("process.exited", { status: 768, exit_code: 3, by: "itself" });
  await play.becomes(async () => (await rules()).length, 1, "the rules of an end whose restart is not known yet");
  event("process.restarting", { run: 2, delay_ms: 600_000, retry: 1 });
  await play.becomes(async () => (await rules()).map((one) => /exit 3.*again in 10 min/.test(one)), [true], "they are one rule, also when they come one after the other");
}

/** On a phone a broken thing is three lines that say everything, and one target. */
export async function broke_on_phone(play) {
  await play.cli("proc", "create", "api", "--start", "--no-wait", "--restart", "on-failure", "--backoff", "600s", "--", "sh", "-c", "echo 'address already in use' >&2; exit 1");
  const page = await play.window({ width: 380, height: 820 });
  const row = page.locator(".item.broke", { hasText: "address already in use" });
  await row.getByText("started by run.mjs").waitFor();
  await play.becomes(() => cut(row.locator(".cut:visible")), [], "what is cut");
  play.eq(await row.locator(".acts").isVisible(), false, "its buttons are on its own page");
  await row.getByText("address already in use").click({ force: true });
  await page.locator(".detail").getByRole("button", { name: "Start now" }).waitFor();
}

/** In a narrow window the list stays beside a combined log: another process can be chosen, and the combination be ended. */
export async function combined_narrow(play) {
  for (const id of ["a", "b", "c"]) await play.cli("proc", "create", id, "--start", "--no-wait", "--", "sh", "-c", `echo from ${id}; sleep 1000`);
  for (const width of [768, 380]) {
    const page = await play.window({ width, height: 900 });
    await play.go(page, "#/processes");
    await page.locator(".list-pane [data-menu]").click();
    await page.getByRole("menuitem", { name: /^Combined log/ }).click();
    for (const id of ["a", "b", "c"]) await page.getByRole("checkbox", { name: id, exact: true }).check();
    for (const id of ["a", "b", "c"]) await play.sees(page, `from ${id}`, ".log .ln");
    await page.getByRole("button", { name: "End the combined log" }).click();
    await play.until(async () => (await page.getByRole("checkbox").count()) === 0, "it has ended");
    await page.context().close();
  }
}

/** The keys act on the process that the address has come back to, and not on the row that was clicked before. */
export async function came_back(play) {
  for (const id of ["api", "db"]) await play.cli("proc", "create", id, "--start", "--no-wait", "--", "sleep", "1000");
  const page = await play.window();
  await play.go(page, "#/processes/api");
  await page.locator(".item.sel", { hasText: "api" }).waitFor();
  await page.locator(".item", { hasText: "db" }).click();
  await page.locator(".item.sel", { hasText: "db" }).waitFor();
  await page.goBack();
  await page.locator(".item.sel", { hasText: "api" }).waitFor();
  await settled(page);
  await page.keyboard.press("x");
  await play.sees(page, /stopped\./, ".toast");
  const states = Object.fromEntries((await play.json("proc", "list")).processes.map((one) => [one.id, one.state_name]));
  play.eq(states, { api: "Stopped", db: "Running" }, "the states");
}

/** A run: the path to a running task is blue without a gap, a repeated attempt is shown as failed, and the head says when the next one begins. */
export async function run_signs(play) {
  const run = await furnish(play);
  const page = await play.window({ width: 1280, height: 900 });
  await play.go(page, `#/runs/${run}/chromium`);
  await play.until(async () => /^will be tried again\s+in \d/.test(await page.locator(".task-head > .num").innerText()), "the head says when it is tried again");
  play.eq(await cut(page.locator(".task-head > b")), [], "the name of the task");
  play.eq(await page.locator(".task-head").evaluate((head) => [...head.children].every((one) => one.getBoundingClientRect().right <= head.getBoundingClientRect().right)), true, "its tabs are in the window");
  await page.getByRole("button", { name: /^Attempts/ }).click();
  await play.sees(page, /^\d\d:\d\d:\d\d\.\d{3} failed/, ".attempts li");
  await play.until(async () => (await page.locator("[data-task=firefox].run").count()) > 0, "firefox runs");
  const blue = await page.locator(".graph path.edge").evaluateAll((all) => all.map((one) => ({ isBlue: one.classList.contains("run"), x: one.getBBox().x, end: one.getBBox().x + one.getBBox().width })).filter((one) => one.isBlue).sort((a, b) => a.x - b.x));
  play.eq(blue.length, 4, `blue edges: to the group, to unit, to the inner group, to firefox: ${JSON.stringify(blue)}`);
  const facts = await page.locator(".run-facts").boundingBox(), acts = await page.locator(".run-facts .acts").boundingBox();
  play.ok(acts.y < facts.y + 6, `the buttons are beside the first line of the facts: ${JSON.stringify([facts, acts])}`);
}

/** A narrow window does not cut text that it has room for: the progress of the queue, the name of a task, the holder of a request. */
export async function room(play) {
  const run = await furnish(play);
  await play.cli("proc", "create", "mail", "--start", "--ready", "exec:true", "--health", "exec:false", "--health-interval", "200ms", "--health-failures", "1", "--", "sleep", "1000");
  await play.cli("proc", "create", "a-process-with-quite-a-long-name-that-goes-on", "--start", "--no-wait", "--", "sleep", "1000");
  await play.cli("request", "add", "Nightly import", "--id", "RQ-9", "--priority", "P0", "--", "sleep", "1000");
  await play.cli("queue", "run", "--detach");
  await play.until(async () => (await play.json("queue", "status")).run_id, "the queue runs something");
  const page = await play.window({ width: 768, height: 900 });
  await page.locator(".strip").getByText("0 of 1 task").waitFor();
  play.eq(await cut(page.locator(".strip a.cut, .strip a.cut .cut, .strip a.cut .num")), [], "the queue's progress at 768 px");
  for (const width of [1399, 1241, 1110, 1101, 900]) {
    await page.setViewportSize({ width, height: 900 });
    play.eq(await cut(page.locator(".strip a.cut .cut")), [], `what the queue runs at ${width} px`);
  }
  await play.go(page, "#/runs");
  for (const width of [768, 380]) {
    await page.setViewportSize({ width, height: 820 });
    await page.locator(".c-runs", { hasText: "release" }).getByText("The release of RQ-1").waitFor();
  }
  await play.go(page, "#/");
  await play.sees(page, "unhealthy", ".c-proc");
  await play.go(page, "#/processes");
  await page.locator(".c-list", { hasText: "a-process-with" }).getByText("ready").waitFor();
  await play.go(page, "#/requests");
  const parts = page.locator("[data-id=RQ-1] .state-cell .row > *:visible");
  await parts.first().waitFor();
  const tops = await parts.evaluateAll((all) => all.map((one) => Math.round(one.getBoundingClientRect().y + one.getBoundingClientRect().height / 2)));
  play.ok(tops.length >= 3 && Math.max(...tops) - Math.min(...tops) <= 2, `the lock of a request is one line: ${tops}`);
  await play.go(page, `#/runs/${run}/firefox`);
  await play.sees(page, "firefox", ".task-head");
  play.eq(await cut(page.locator(".task-head > b")), [], "the name of the task");
  await page.locator(".task-head").getByRole("button", { name: "Details" }).click();
  await page.setViewportSize({ width: 1440, height: 900 });
  await play.go(page, "#/processes");
  const word = page.locator(".c-list", { hasText: "a-process-with" }).locator(".word");
  play.eq(await word.evaluate((one) => one.getBoundingClientRect().right <= one.parentElement.getBoundingClientRect().right), true, "the state beside a long name is seen");
}

/** Chinese and Japanese sentences have their own marks and words. */
export async function marks(play) {
  await furnish(play);
  await play.until(async () => (await play.json("events", "--type", "branch.ended")).events.length > 0, "a branch has ended");
  for (const [locale, failed, ended] of [["ja-JP", "終了コード 1、失敗", "終了：成功"], ["zh-CN", "以 1 退出，失败", "结束：成功"]]) {
    const page = await play.window({ locale });
    await play.sees(page, failed, ".broke");
    await play.sees(page, ended, ".happened");
    await page.context().close();
  }
}

/** Between a wide and a narrow window: names, titles and holders are readable, and no button is outside. */
export async function between(play) {
  await furnish(play);
  await play.cli("proc", "create", "api", "--start", "--no-wait", "--restart", "on-failure", "--backoff", "600s", "--", "sh", "-c", "echo address already in use >&2; exit 1");
  await play.cli("request", "add", "Split the billing service", "--id", "RQ-8", "--", "true");
  play.spawn("lock", "run", "deploy", "--", "sleep", "1000");
  await play.until(async () => (await play.json("lock", "list")).locks.some((one) => one.id === "deploy"), "the lock is held");
  const page = await play.window();
  for (const width of [1101, 1180, 1279]) {
    await page.setViewportSize({ width, height: 900 });
    await play.go(page, "#/processes/api");
    await play.sees(page, "again in", ".detail .title-row");
    play.eq(await cut(page.locator(".detail .title")), [], `the name of the process at ${width} px`);
    const outside = await page.locator(".detail .btn").evaluateAll((all) => all.filter((one) => one.getBoundingClientRect().right > innerWidth).map((one) => one.textContent));
    play.eq(outside, [], `buttons outside the window at ${width} px`);
    await play.go(page, "#/requests");
    await page.locator(".c-req", { hasText: "Split the billing service" }).waitFor();
    play.eq(await cut(page.locator(".c-req .name")), [], `titles of requests at ${width} px`);
    await play.go(page, "#/locks");
    const name = page.locator("[data-id=deploy] .holder b");
    await name.waitFor();
    play.ok(await name.evaluate((one) => one.getBoundingClientRect().right <= one.parentElement.getBoundingClientRect().right + 1), `the holder's name at ${width} px`);
  }
}

/** A run that is opened while the server is away: the page says nothing untrue, and shows the run when the server is back. */
export async function opened_away(play) {
  play.mayLoseServer = true;
  flow(play, "two", "name: two\nflow: a >> b\ntasks: {a: echo from-a, b: echo from-b}\n");
  await play.cli("run", "two");
  await play.cli("run", "two");
  const [first, second] = (await play.json("runs", "list")).runs.map((one) => one.run_id);
  const page = await play.window(), other = await play.window();
  for (const [one, run] of [[page, first], [other, second]]) {
    await play.go(one, `#/runs/${run}/a`);
    await play.sees(one, "from-a", ".log");
  }
  process.kill(play.pid, "SIGKILL");
  await play.sees(page, "Not live since", ".strip.off");
  await play.go(page, `#/runs/${first}/b`);
  await page.locator(".task-head", { hasText: "b" }).waitFor();
  await play.go(other, `#/runs/${first}/b`);
  await page.getByRole("button", { name: "Try now" }).click();
  play.ok(!(await play.text(page)).includes("has printed nothing"), "it is not said that the task has printed nothing");
  play.eq(await page.locator(".bar .tag").first().evaluate((one) => getComputedStyle(one).color === getComputedStyle(document.querySelector(".bar .live")).color), true, "the state in the bar is grey");
  play.serve();
  for (const one of [page, other]) {
    await play.sees(one, "from-b", ".log");
    await one.locator(".graph [data-task=b]").waitFor();
  }
}

/** The overview: while the pointer is over a button, nothing moves it away; what is new waits behind a button. */
export async function still(play) {
  const fails = (id) => play.cli("proc", "create", id, "--start", "--no-wait", "--", "sh", "-c", "exit 1");
  await fails("first");
  const page = await play.window();
  const start = page.locator(".item.broke", { hasText: "first" }).getByRole("button", { name: "Start" });
  await start.hover();
  const before = await start.boundingBox();
  await fails("another");
  await play.cli("proc", "create", "third", "--start", "--no-wait", "--", "sleep", "1000");
  await page.getByRole("button", { name: "2 new" }).waitFor();
  play.eq(await start.boundingBox(), before, "where the button under the pointer is");
  await page.mouse.move(5, 5);
  await page.locator(".item.broke", { hasText: "another" }).waitFor();
  await page.locator(".c-proc", { hasText: "third" }).waitFor();
}

/** The same on the page of locks: a lock that sorts above does not put its button under the pointer. */
export async function still_locks(play) {
  const held = async (n) => play.until(async () => (await play.json("lock", "list")).locks.length === n, `${n} locks are held`);
  play.spawn("lock", "run", "m", "--", "sleep", "1000");
  await held(1);
  const page = await play.window();
  await play.go(page, "#/locks");
  const force = page.locator("[data-id=m]").getByRole("button", { name: "Force…" });
  await force.hover();
  const before = await force.boundingBox();
  play.spawn("lock", "run", "a", "--", "sleep", "1000");
  await held(2);
  await page.locator(".new-rows").waitFor();
  play.eq(await force.boundingBox(), before, "where the button under the pointer is");
  await page.mouse.move(5, 5);
  await page.locator("[data-id=a]").waitFor();
}

/** A filter without a hit says so, and two sentences in a row have the language's full stop. */
export async function no_hit(play) {
  flow(play, "one", "name: one\ntasks: {a: 'true'}\n");
  await play.cli("run", "one");
  const page = await play.window({ locale: "ja-JP" });
  await play.go(page, "#/runs");
  await page.locator("main").getByRole("searchbox").fill("nothing-like-this");
  await play.sees(page, "「nothing-like-this」は見つかりません", "main");
  await play.go(page, "#/locks");
  await play.sees(page, "所有者のいるワークフローはありません。エージェントは", "main");
  await play.cli("request", "add", "夜間取込", "--id", "RQ-1", "--", "true");
  await play.cli("request", "run", "RQ-1");
  await play.go(page, "#/requests");
  await play.becomes(() => page.locator("main .list p.dim").allInnerTexts(), ["実行できる Request はありません"], "a queue in which nothing waits");
  await play.cli("request", "add", "下書き", "--id", "RQ-2", "--status", "draft", "--", "true");
  await play.becomes(() => page.locator("main .list p.dim").allInnerTexts(), ["実行できる Request はありません。1 件が待機中です。理由は下にあります。"], "one waits");
}
