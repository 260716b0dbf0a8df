// Live or marked, true or not shown: the server killed, silent, cut off; storms; hostile text; events, doctor, logs.
import { writeFileSync } from "node:fs";
import { flow } from "./work.mjs";

export async function killed_server(play) {
  play.mayLoseServer = true;
  await play.cli("proc", "create", "web", "--start", "--no-wait", "--", "sleep", "1000");
  const page = await play.window();
  await play.go(page, "#/processes/web");
  await play.sees(page, "Live", ".live");
  const stop = page.locator(".detail").getByRole("button", { name: "Stop", exact: true });
  await play.until(() => stop.isEnabled(), "Stop works while the page is live");
  process.kill(play.pid, "SIGKILL");
  await play.sees(page, "Reconnecting", ".live");
  await play.sees(page, "Not live since", ".strip.off");
  await play.until(() => stop.isDisabled(), "no action while the page is not live");
  await play.until(() => page.evaluate(() => document.documentElement.classList.contains("stale")), "states are grey");
  await play.cli("proc", "stop", "web");
  play.serve();
  await play.sees(page, "Live", ".live");
  await play.sees(page, "stopped", ".item.sel");
  play.eq(await page.locator(".strip.off").count(), 0, "strips");
}

export async function silent_server(play) {
  play.mayLoseServer = true;
  await play.cli("proc", "create", "web", "--start", "--no-wait", "--", "sleep", "1000");
  const page = await play.window();
  await play.go(page, "#/processes/web");
  await play.sees(page, "ready", ".item.sel");
  await play.sees(page, "Live", ".live");
  await page.keyboard.press("Control+k"); // its file is loaded when it is first needed
  await page.getByRole("combobox").waitFor();
  await page.keyboard.press("Escape");
  const { pid } = await play.json("proc", "status", "web");
  process.kill(play.pid, "SIGSTOP");
  try {
    await play.sees(page, "Not live since", ".strip.off");
    for (const name of ["Edit", "New process"]) play.ok(await page.getByRole("button", { name, exact: true }).isDisabled(), `${name} is off`);
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox").fill("stop web");
    await play.sees(page, "proc stop web", "[role=option][aria-selected=true]");
    await page.keyboard.press("Enter");
    await play.sees(page, "Not live: actions are off", ".toast");
    await page.keyboard.press("x");
    await play.until(() => page.locator(".toast").filter({ hasText: "Not live: actions are off" }).count().then((n) => n === 2), "the key is off, too");
  } finally {
    process.kill(play.pid, "SIGCONT");
  }
  await play.sees(page, "Live", ".live");
  await play.cli("proc", "create", "afterwards", "--", "true");
  await play.sees(page, "afterwards", ".list-pane");
  play.eq((await play.json("proc", "status", "web")).pid, pid, "the process that nobody has stopped");
}

/** `.` and `/` are for what is open, or has the focus. */
export async function open_thing(play) {
  for (const id of ["api", "web"]) await play.cli("proc", "create", id, "--", "sleep", "1000");
  for (const id of ["RQ-1", "RQ-2"]) await play.cli("request", "add", id, "--id", id, "--", "true");
  const page = await play.window();
  await play.go(page, "#/processes/web");
  await page.locator(".detail .log-box [data-search]").waitFor();
  await page.keyboard.press("/");
  await play.until(() => page.evaluate(() => document.activeElement?.closest(".detail") !== null), "the search of the log has the focus");
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press(".");
  await play.sees(page, "proc remove web", ".detail [role=menu]");
  await page.keyboard.press("Control+Shift+C");
  await play.sees(page, "Copied.", ".toast");
  await play.becomes(() => page.evaluate(() => navigator.clipboard.readText()), "tasuki proc start web", "what was copied by the key");
  await page.locator(".detail [data-menu]").click();
  await page.locator(".menu-row").filter({ hasText: "proc remove" }).getByRole("menuitem", { name: "Copy as command" }).click();
  await play.until(async () => (await page.evaluate(() => navigator.clipboard.readText())) === "tasuki proc remove web", "the button copies");
  await page.locator(".detail [data-menu]").click();
  await page.locator(".detail [role=menu]").waitFor();
  await page.locator(".detail [data-item]").last().focus();
  await page.keyboard.press("Tab");
  await page.locator(".detail [role=menu]").waitFor({ state: "detached" });
  await play.go(page, "#/requests");
  await page.locator("[data-row][data-id=RQ-2]").focus();
  await page.keyboard.press(".");
  await play.sees(page, "RQ-2", "[data-id=RQ-2] [role=menu]");
}

/** s, x and r act on the row that has the focus, not on the process beside the list. */
export async function focused_row(play) {
  for (const id of ["api", "db", "web"]) await play.cli("proc", "create", id, "--start", "--no-wait", "--", "sleep", "1000");
  const page = await play.window();
  await play.go(page, "#/processes/api");
  await play.sees(page, "api", ".item.sel");
  await play.sees(page, "Live", ".live");
  await page.keyboard.press("j");
  await play.until(() => page.evaluate(() => document.activeElement?.dataset?.id === "db"), "the row of db has the focus");
  await page.keyboard.press("x");
  await play.sees(page, "db stopped.", ".toast");
  const states = Object.fromEntries((await play.json("proc", "list")).processes.map((one) => [one.id, one.state_name]));
  play.eq(states, { api: "Running", db: "Stopped", web: "Running" }, "the states");
}

export async function cut_network(play) {
  play.mayLoseServer = true;
  const page = await play.window();
  await play.sees(page, "Live", ".live");
  await page.context().setOffline(true);
  await play.sees(page, "Not live since", ".strip.off");
  await play.cli("proc", "create", "made-meanwhile", "--", "true");
  await page.context().setOffline(false);
  await play.sees(page, "Live", ".live");
  await play.go(page, "#/processes");
  await play.sees(page, "made-meanwhile", ".list-pane");
}

export async function access(play) {
  const page = await play.window({ address: `${play.url}/` });
  await play.sees(page, "This page needs its token");
  const wrong = await play.window({ address: `${play.url}/#token=${"0".repeat(64)}` });
  await play.sees(wrong, "This page needs its token");
  const right = await play.window();
  await play.sees(right, "Live", ".live");
  play.ok(!right.url().includes("token"), "the token does not stay in the address");
  await right.reload();
  await play.sees(right, "Live", ".live");
}

/** Every state that the page shows was the server's, or becomes it at once. */
export async function true_states(play) {
  for (const id of ["a", "b", "c", "d"]) await play.cli("proc", "create", id, "--", "sleep", "1000");
  const page = await play.window(), other = await play.window();
  await play.go(page, "#/processes");
  await play.go(other, "#/processes");
  for (let round = 0; round < 3; round++) {
    await Promise.all(["a", "b", "c", "d"].map((id) => play.cli("proc", "start", id)));
    await Promise.all(["a", "b"].map((id) => play.cli("proc", "stop", id)));
    const pids = (await play.json("proc", "list")).processes.filter((one) => one.pid).map((one) => one.pid);
    for (const pid of pids) process.kill(pid, "SIGKILL");
    await play.until(async () => (await play.json("proc", "list")).processes.every((one) => one.state_name !== "Running"), "they have ended");
  }
  const truth = (await play.json("proc", "list")).processes.map((one) => `${one.id} ${one.state_name}`).sort();
  const words = { stopped: "Stopped", failed: "Failed" };
  for (const one of [page, other])
    await play.until(async () => {
      const rows = await one.locator(".list-pane a.item").evaluateAll((all) => all.map((row) => [row.dataset.id, row.querySelector(".word")?.textContent]));
      return JSON.stringify(rows.map(([id, word]) => `${id} ${words[word] ?? word}`).sort()) === JSON.stringify(truth);
    }, "the page shows what is true");
}

export async function hostile(play) {
  const evil = `<img src=x onerror="console.error('hacked')"><script>console.error('hacked')</script>`;
  writeFileSync(`${play.root}/evil.txt`, `${evil}\n\u001b[31mred\u001b[0m \u001b]0;title\u0007 \u001b[2Jcleared\nover\rwritten\nnul \u0000 here\n\u202ertl override\n${"x".repeat(20000)}\n\u001b[38;2;250;250;250mpale\u001b[0m\n`);
  await play.cli("proc", "create", "evil", "--start", "--no-wait", "--env", `A=${evil}`, "--", "sh", "-c", `cat evil.txt; echo '${evil.replace(/'/g, "")}' >&2; exit 3`);
  await play.cli("request", "add", evil, "--id", "RQ-evil", "--", "echo", evil);
  flow(play, "evil", `name: evil\ntasks: {t: {run: ["tasuki", "task", "ask", ${JSON.stringify(evil)}, "--option", ${JSON.stringify(evil)}, "--option", "b"]}}\n`);
  play.spawn("run", "evil");
  await play.until(async () => (await play.json("runs", "list")).runs[0]?.status === "NEEDS_INPUT", "the question");
  const page = await play.window();
  await play.sees(page, "<img src=x", ".question");
  await play.go(page, "#/processes/evil");
  await play.sees(page, "<script>", ".log .ln");
  await play.sees(page, "<img src=x", ".lasterr");
  const lines = await page.locator(".log .ln .text").allInnerTexts();
  play.ok(lines.some((one) => one.includes("red") && one.includes("cleared") && !one.includes("title")), `escapes are dropped: ${lines[1]}`);
  play.ok(lines.includes("written"), "a carriage return overwrites");
  play.ok(lines.some((one) => one.includes("nul ␀ here")), "a NUL is shown");
  play.ok(lines.some((one) => /show .* more/.test(one) && one.length < 5000), "a long line is cut");
  play.eq(await page.locator(".log img, .log script").count(), 0, "elements made by text");
  await play.go(page, "#/requests");
  await play.sees(page, "<img src=x", ".c-req");
  await play.go(page, "#/events");
  await page.getByRole("searchbox").fill("RQ-evil");
  await play.sees(page, "<img src=x", ".c-event");
  const run = (await play.json("runs", "list")).runs[0].run_id;
  await play.go(page, `#/runs/${run}`);
  await play.sees(page, "<img src=x", ".answer");
  play.eq(await page.locator("main img, main script").count(), 0, "elements made by text");
}

export async function events(play) {
  await play.cli("proc", "create", "web", "--", "sleep", "1000");
  const page = await play.window();
  await play.go(page, "#/events");
  await play.sees(page, "web registered", ".c-event");
  await play.cli("proc", "start", "web");
  await play.sees(page, "web started, pid", ".c-event");
  await page.locator(".c-event").first().hover();
  await play.cli("proc", "stop", "web");
  await play.sees(page, "new", ".new-rows");
  play.eq(await page.locator(".c-event").filter({ hasText: "web stopped" }).count(), 0, "nothing moves under the pointer");
  await page.locator(".new-rows").click();
  await play.sees(page, "web stopped", ".c-event");
  await page.getByRole("button", { name: "Locks" }).first().click();
  await play.sees(page, "Nothing matches");
  await page.getByRole("button", { name: "All", exact: true }).click();
  await page.locator(".c-event button").first().click();
  await play.sees(page, '"process_id": "web"', ".json");
}

export async function doctor(play) {
  const page = await play.window();
  const asked = [];
  page.on("request", (request) => request.url().includes("/api/doctor") && request.method() !== "GET" && asked.push(request.method())); // GET: the last report
  await play.go(page, "#/doctor");
  await play.sees(page, "Not examined yet");
  play.eq(asked, [], "examinations");
  const holder = play.spawn("lock", "run", "x", "--", "sleep", "1000");
  await play.cli("sprint", "acquire", "--session", "epic", "--epic", "specs/a.md", "--pid", String(holder.pid));
  await play.end(holder);
  await page.getByRole("button", { name: "Full examination" }).click();
  await play.sees(page, "needs attention", ".sentence");
  await play.sees(page, "tasuki sprint", ".finding");
  await play.sees(page, "can be read and written", ".passes");
}

/** A server that answers, but cannot tell: the page says why, and is live when that has gone. */
export async function refusing(play) {
  const config = `${play.root}/.aiflow/config.yaml`;
  writeFileSync(config, "locks: [\n");
  const page = await play.window();
  await play.sees(page, "config.yaml", ".strip.off");
  writeFileSync(config, "{}\n");
  await play.sees(page, "Live", ".live");
  await page.locator(".strip.off").waitFor({ state: "detached" });
}

/** A finding's command is a button where it is an operation; it asks what it asks on its own page, and then all is examined again. */
export async function fixes(play) {
  flow(play, "long", "name: long\ntasks: {t: {run: 'while [ ! -e go ]; do sleep 0.1; done'}}\n");
  const holder = play.spawn("lock", "run", "x", "--", "sleep", "1000");
  await play.cli("sprint", "acquire", "--session", "epic", "--epic", "specs/a.md", "--pid", String(holder.pid));
  await play.end(holder);
  play.spawn("run", "long");
  const run = await play.until(async () => (await play.json("runs", "list")).runs[0]?.run_id, "the run");
  await play.until(async () => (await play.json("runs", "show", run)).tasks[0].state === "running", "its task runs");
  process.kill((await play.json("runs", "show", run)).runner.pid, "SIGKILL");
  writeFileSync(`${play.root}/.aiflow/requests/RQ-broken.yaml`, "title: [\n");
  const page = await play.window();
  await play.go(page, "#/doctor");
  await page.getByRole("button", { name: "Full examination" }).click();
  const finding = (text) => page.locator(".finding").filter({ hasText: text });
  await finding("RQ-broken").first().waitFor();
  play.eq(await finding("RQ-broken").locator(".fixes").count(), 0, "buttons beside an editor's command");
  const release = finding("tasuki sprint release").getByRole("button", { name: "Release…" });
  await release.click();
  await play.sees(page, "epic", "[role=alertdialog]");
  await page.keyboard.press("Enter"); // the safe answer has the focus
  await page.getByRole("alertdialog").waitFor({ state: "detached" });
  play.eq((await play.json("sprint", "check").catch(() => ({ state: "zombie" }))).state, "zombie", "the sprint after no");
  await release.click();
  await page.getByRole("alertdialog").locator(".btn:not([data-first])").last().click();
  await finding("tasuki sprint release").waitFor({ state: "detached" });
  writeFileSync(`${play.root}/go`, "");
  await finding("tasuki resume").getByRole("button", { name: "Resume" }).click();
  await play.until(() => page.url().includes(run), "the run is shown");
  await play.sees(page, "done", ".bar .tag");
  await play.sees(page, "while [ ! -e go ]", ".task-command");
}

export async function log_viewer(play) {
  await play.cli("proc", "create", "many", "--start", "--no-wait", "--", "sh", "-c", "i=0; while [ $i -lt 1500 ]; do i=$((i+1)); echo line $i; done; while [ ! -e more ]; do sleep 0.1; done; echo the end; sleep 1000");
  const page = await play.window();
  await play.go(page, "#/processes/many");
  await play.sees(page, "line 1500", ".log .ln");
  play.ok((await page.locator(".log .ln").count()) < 200, "only what is seen is drawn");
  await page.locator(".log").evaluate((box) => (box.scrollTop = 0));
  await play.sees(page, "line 1", ".log .ln");
  writeFileSync(`${play.root}/more`, "");
  await play.sees(page, "1 new line · End", ".tail");
  await page.locator(".tail").click();
  await play.sees(page, "the end", ".log .ln");
  await page.locator(".log-box").getByRole("searchbox").fill("line 77");
  await play.sees(page, "11 of 11", ".log-box .tools");
  await page.keyboard.press("Enter");
  await play.sees(page, "1 of 11", ".log-box .tools");
  await play.until(() => page.locator(".ln.hit mark").count().then((n) => n === 1), "the hit is marked");
}
