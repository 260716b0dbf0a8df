// More than fits on a screen or into one answer, and what goes on while nothing is read.
import { appendFileSync } from "node:fs";
import { flow } from "./work.mjs";

/** A failed run is seen until something newer of its kind is there, however many others end after it. */
export async function broken_stays(play) {
  flow(play, "bad", "name: bad\ntasks: {t: 'sleep 0.2; echo no such file >&2; exit 1'}\n");
  flow(play, "good", "name: good\ntasks: {t: 'true'}\n");
  await play.cli("run", "bad").catch(() => undefined);
  for (let i = 0; i < 7; i++) await play.cli("run", "good");
  const page = await play.window();
  await play.sees(page, "One thing broke.", ".sentence");
  await play.sees(page, "no such file", ".item.broke");
  await play.sees(page, /after 0\.\d s/, ".item.broke");
  await play.go(page, "#/runs");
  const group = page.getByRole("region", { name: "Failed and interrupted" });
  await play.becomes(() => group.locator("[data-row] .name").allInnerTexts(), ["bad"], "what failed");
  await play.sees(page, /0\.\d s/, ".c-runs");
  flow(play, "bad", "name: bad\ntasks: {t: 'true'}\n");
  await play.cli("run", "bad");
  await play.until(async () => (await group.count()) === 0, "it is not broken any more");
  await play.go(page, "#/");
  await play.sees(page, "All quiet.");
}

/** The inbox has every question, and each can be answered on its run's page, also when more runs wait than are read in full. */
export async function many_questions(play) {
  flow(play, "ask", "name: ask\ntasks: {ask: {run: \"tasuki task ask 'Go on?' --option yes --option no\"}}\n");
  const wanted = 22;
  for (let i = 0; i < wanted; i++) await play.cli("run", "ask").catch(() => undefined); // exit 8: it asks
  const page = await play.window();
  await play.sees(page, `${wanted} questions wait for you.`, ".sentence");
  await play.becomes(() => page.locator(".question").count(), wanted, "cards");
  await play.until(async () => /asked .* ago/.test(await page.locator(".question").last().innerText()), "each says when it was asked");
  for (const run of (await play.json("runs", "list", "--limit", "100")).runs) {
    await play.go(page, `#/runs/${run.run_id}`);
    await page.locator("form.answer").waitFor();
  }
  await page.locator("form.answer").getByRole("button", { name: "Answer" }).click();
  await play.sees(page, "Done", ".bar .tag");
  await play.go(page, "#/");
  await play.sees(page, `${wanted - 1} questions wait for you.`, ".sentence");
}

/** A run that is shown goes on before the eyes, however many others do. */
export async function many_runs(play) {
  flow(play, "ask", "name: ask\ntasks: {ask: {run: \"tasuki task ask 'Go on?'\"}}\n");
  flow(play, "steps", "name: steps\nflow: a >> b\ntasks: {a: 'while [ ! -e go ]; do sleep 0.1; done', b: 'while [ ! -e on ]; do sleep 0.1; done'}\n");
  play.spawn("run", "steps");
  const run = await play.until(async () => (await play.json("runs", "list")).runs[0]?.run_id, "the run");
  for (let i = 0; i < 21; i++) await play.cli("run", "ask").catch(() => undefined);
  const page = await play.window({ height: 1200 });
  await play.go(page, `#/runs/${run}`);
  await page.locator(".graph [data-task=a].run").waitFor();
  await play.cli("proc", "create", "go", "--start", "--", "touch", "go");
  await page.locator(".graph [data-task=b].run").waitFor();
}

export async function many_owners(play) {
  for (let i = 10; i < 42; i++) await play.cli("own", "claim", `W-${i}`);
  const page = await play.window();
  await play.go(page, "#/locks");
  await play.until(async () => (await page.locator("[data-id^=W-]").count()) === 32, "every owner is there");
}

/** Between two answers of the server a countdown goes on by itself. */
export async function countdown(play) {
  play.spawn("lock", "run", "deploy", "--", "sleep", "1000");
  const page = await play.window();
  await play.go(page, "#/locks");
  const cell = page.locator("[data-id=deploy] .num").nth(1);
  const seconds = async () => {
    const [, min, s] = /(\d+):(\d\d)/.exec(await cell.innerText()) ?? [];
    return Number(min) * 60 + Number(s);
  };
  let before = await seconds();
  await play.until(async () => {
    const now = await seconds(), gap = before - now;
    before = now;
    return gap === 1;
  }, "it counts the seconds");
}

/** How a holder's death is known is said whole, at every width. */
export async function life_whole(play) {
  const dead = play.spawn("lock", "run", "deploy", "--", "sleep", "1000");
  play.spawn("lock", "run", "other", "--", "sleep", "1000");
  await play.until(async () => (await play.json("lock", "list")).locks.length === 2, "both are held");
  await play.end(dead);
  for (const width of [1920, 1440, 1280, 768, 380]) {
    const page = await play.window({ width, locale: "en-US" });
    await play.go(page, "#/locks");
    await play.sees(page, "dead: the kernel has released its lock", "[data-id=deploy] .life");
    const cut = await page.locator(".life, .life *").evaluateAll((all) => all.filter((one) => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== "inline").map((one) => one.textContent));
    play.eq(cut, [], `what is cut at ${width} px`);
    await page.context().close();
  }
}

/** The last verdict of doctor is there for a window that has not asked for it; opening examines nothing. */
export async function last_report(play) {
  const refused = [];
  const first = await play.window({ prepare: (page) => page.on("response", (one) => one.status() >= 400 && refused.push(`${one.status()} ${one.url()}`)) });
  await play.go(first, "#/doctor");
  await play.sees(first, "Not examined yet");
  await first.getByRole("button", { name: "Full examination" }).click();
  await play.sees(first, "Passes");
  play.eq(refused, [], "what the server refused to a window that has only looked");
  const asked = [];
  const second = await play.window({ prepare: (page) => page.on("request", (one) => one.url().endsWith("/api/doctor") && asked.push(one.method())) });
  await play.go(second, "#/doctor");
  await play.sees(second, "Passes");
  await play.sees(second, /full · \d+ s ago/);
  play.ok(!asked.includes("POST"), "opening the page examines");
}

/** The server has forgotten who this tab is: it goes on, and is registered anew when it takes something. */
export async function gone_caller(play) {
  const holder = play.spawn("lock", "run", "deploy", "--", "sleep", "1000");
  await play.until(async () => (await play.json("lock", "list")).locks.length === 1, "the lock is held");
  const page = await play.window();
  await play.sees(page, "Live", ".live");
  const forget = () => page.evaluate(() => sessionStorage.setItem("tasuki.instance", JSON.stringify({ instance: "http-0123456789abcdef", secret: "none" })));
  await forget();
  await play.go(page, "#/locks");
  await page.locator("[data-id=deploy]").getByRole("button", { name: "Force…" }).click();
  await page.getByRole("button", { name: "Take it" }).click();
  await play.until(async () => (await play.json("lock", "list")).locks[0]?.holder?.who?.label === "page", "the page has it");
  await forget();
  await page.reload();
  await play.sees(page, "Live", ".live");
  await play.sees(page, "deploy", "[data-id=deploy]");
  await play.end(holder);
}

/** The last hour of a process is drawn, and its log has its starts and ends, however much else has happened since. */
export async function last_hour(play) {
  await play.cli("proc", "create", "web", "--start", "--no-wait", "--", "sh", "-c", "echo no such file >&2; exit 3");
  await play.until(async () => (await play.json("events", "--type", "process.exited")).events.length === 1, "its end is noted");
  const other = JSON.stringify({ time: new Date().toISOString(), type: "test.event", actor: null, data: {} });
  appendFileSync(`${play.root}/.aiflow/events.ndjson`, `${other}\n`.repeat(1200));
  const page = await play.window();
  await play.go(page, "#/processes/web");
  await page.locator("[data-id=web] svg.hour rect.f").waitFor();
  for (const words of ["start 1", "exit 3 after"]) await play.sees(page, words, ".cutln");
}

/** A request that is done is shown when a link leads to it, and not only the newest one. */
export async function chosen_done(play) {
  for (const id of ["RQ-1", "RQ-2", "RQ-3"]) {
    await play.cli("request", "add", `Title of ${id}`, "--id", id, "--", "true");
    await play.cli("request", "run", id);
  }
  const page = await play.window();
  for (const id of ["RQ-1", "RQ-2", "RQ-3"]) {
    await play.go(page, "#/");
    await play.go(page, `#/requests/${id}`);
    await page.locator(`.item.sel[data-id="${id}"]`).waitFor();
  }
}

/** A request whose run waits for an answer is not run: the page says why, although the server's answer is a 200. */
export async function waits_already(play) {
  flow(play, "ask", "name: ask\ntasks: {ask: {run: \"tasuki task ask 'Go on?'\"}}\n");
  await play.cli("request", "add", "Release", "--flow", "ask", "--id", "RQ-1");
  await play.cli("request", "run", "RQ-1").catch(() => undefined); // exit 8: it asks
  const page = await play.window();
  await play.go(page, "#/requests");
  await page.locator("[data-id=RQ-1] [data-menu]").click();
  await page.getByRole("menuitem", { name: /^Run tasuki/ }).click();
  await play.sees(page, "The latest run of RQ-1 waits for an answer", "[role=alertdialog]");
}
