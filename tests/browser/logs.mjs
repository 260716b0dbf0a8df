// Logs: windows on them, searches in them, several in one.
import { settled } from "./whole.mjs";
import { mkdirSync, writeFileSync } from "node:fs";

/** A process that has printed so many numbered lines, with a word on some of them, and waits. */
async function printed(play, id, lines, more = "") {
  const script = `awk 'BEGIN { for (i = 1; i <= ${lines}; i++) print "line " i (i % 100000 == 77 ? " Needle" : ""), "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" }'; echo the last line; ${more} sleep 1000`;
  await play.cli("proc", "create", id, "--log-max", "1000000000", "--start", "--no-wait", "--", "sh", "-c", script);
  await play.until(async () => (await play.cli("proc", "logs", id, "-n", "1")).includes("the last line"), `${id} has printed`);
}

function watched(page) {
  const answers = [];
  page.on("response", (response) => {
    if (!/\/logs\?/.test(response.url())) return;
    response.body().then((body) => answers.push({ url: response.url(), size: body.length }), () => undefined);
  });
  return answers;
}

const scrollTo = (page, top) => page.locator(".log").evaluate((box, to) => (box.scrollTop = to < 0 ? box.scrollHeight : to), top);
const tools = ".log-box .tools";
const field = (page) => page.locator(".log-box").getByRole("searchbox");

export async function long_log(play) {
  await printed(play, "long", 1_900_000, "until test -e more; do sleep 0.1; done; echo something new;");
  play.ok((await play.json("proc", "status", "long")).log.size > 100e6, "it is long");
  const page = await play.window();
  const answers = watched(page);
  await play.go(page, "#/processes/long");
  await play.sees(page, "the last line", ".log .ln");
  const sum = () => answers.reduce((all, one) => all + one.size, 0);
  play.ok(sum() < 2e6, `what was loaded: ${sum()}`);
  // Upwards, part by part: more than is kept, so that the end goes.
  let oldest = 1_900_000;
  const first = async () => Number((await page.locator(".log .ln").first().innerText()).match(/line (\d+)/)?.[1] ?? oldest);
  for (let i = 0; i < 60 && !(await page.locator(".tail").filter({ hasText: "To the end" }).count()); i++) {
    await scrollTo(page, 0);
    await play.until(async () => (await first()) < oldest - 10, "older lines");
    oldest = await first();
  }
  await play.sees(page, "To the end", ".tail");
  play.ok(sum() < 30e6, `what was loaded: ${sum()}`);
  // Down again: the lines follow each other without a gap.
  for (let i = 0; i < 5; i++) {
    await scrollTo(page, -1);
    await page.waitForTimeout(100);
  }
  const numbers = (await page.locator(".log .ln").allInnerTexts()).map((text) => Number(text.match(/line (\d+)/)?.[1])).filter(Boolean);
  play.ok(numbers.length > 5 && numbers.every((n, i) => i === 0 || n === numbers[i - 1] + 1), `one after the other: ${numbers.slice(0, 50)}`);
  await page.locator(".tail").click();
  await play.sees(page, "the last line", ".log .ln");
  writeFileSync(`${play.root}/more`, "");
  await play.sees(page, "something new", ".log .ln");
}

/** Requests for parts of a log, kept from the server until they are released. */
async function hold(page, which = /\/logs\?/) {
  const held = { isHeld: true, routes: [], release: () => Promise.all(held.routes.map(async (route) => {
    await route.continue();
    await (await route.request().response()).finished();
  })) };
  await page.route(which, (route) => (held.isHeld ? void held.routes.push(route) : route.continue()));
  return held;
}

export async function search(play) {
  await printed(play, "long", 800_000);
  const page = await play.window();
  await play.go(page, "#/processes/long");
  await play.sees(page, "the last line", ".log .ln");
  await field(page).fill("needle");
  await play.sees(page, "8 of 8", tools);
  await play.sees(page, "line 700077 Needle", ".ln.hit");
  await page.getByRole("button", { name: "Previous hit" }).click();
  await play.sees(page, "7 of 8", tools);
  await play.sees(page, "line 600077 Needle", ".ln.hit");
  await play.sees(page, "line 600078", ".log .ln");
  await play.sees(page, "line 600076", ".log .ln");
  const late = await hold(page); // the answers for this hit come after those for the next one
  await page.getByRole("button", { name: "Next hit" }).click();
  await play.until(() => late.routes.length >= 2, "the hit is asked for");
  late.isHeld = false;
  await page.getByRole("button", { name: "Next hit" }).click();
  await play.sees(page, "1 of 8", tools);
  await play.sees(page, "line 77 Needle", ".ln.hit");
  await late.release();
  await settled(page);
  await play.sees(page, "line 77 Needle", ".ln.hit");
  await page.locator(".log").focus();
  await page.keyboard.press("n");
  await play.sees(page, "line 100077 Needle", ".ln.hit");
  await page.keyboard.press("Shift+N");
  await play.sees(page, "line 77 Needle", ".ln.hit");
  await page.keyboard.press("w");
  await play.sees(page, "line 77 Needle", ".ln.hit");
  await page.keyboard.press("w");
  await field(page).fill("no such (word");
  await play.sees(page, "no hit", tools);
  await field(page).fill("^LINE");
  await play.sees(page, "no hit", tools);
  await field(page).fill("^line 79999\\d");
  await play.sees(page, "10 of 10", tools);
  await page.locator(".tail").click();
  await play.sees(page, "the last line", ".log .ln");
  await field(page).fill("");
  await play.until(() => page.locator(".ln.hit").count().then((n) => n === 0), "no hit is marked");
}

export async function task_search(play) {
  mkdirSync(`${play.root}/.aiflow/flows`, { recursive: true });
  writeFileSync(`${play.root}/.aiflow/flows/long.yaml`, `name: long\ntasks: {a: {run: "awk 'BEGIN { for (i = 1; i <= 300000; i++) print \\"line \\" i (i % 50000 == 77 ? \\" Needle\\" : \\"\\") }'"}}\n`);
  await play.cli("run", "long");
  const run = (await play.json("runs", "list")).runs[0].run_id;
  const page = await play.window();
  await play.go(page, `#/runs/${run}/a`);
  await play.sees(page, "line 300000", ".log .ln");
  await field(page).fill("needle");
  await play.sees(page, "6 of 6", tools);
  await play.sees(page, "line 250077 Needle", ".ln.hit");
  await field(page).press("Enter");
  await play.sees(page, "1 of 6", tools);
  await play.sees(page, "line 77 Needle", ".ln.hit");
  await play.sees(page, "line 78", ".log .ln");
  await page.locator(".tail").click();
  await play.sees(page, "line 300000", ".log .ln");
}

/** The window with the logs of these processes, which have printed 1,500 lines each and wait for the file `go`. */
async function together(play, names, prepare) {
  for (const name of names) {
    const script = `for i in $(seq 1 1500); do echo ${name} old $i; done; until test -e go; do sleep 0.1; done; echo ${name} new; sleep 1000`;
    await play.cli("proc", "create", name, "--start", "--no-wait", "--", "sh", "-c", script);
    await play.until(async () => (await play.cli("proc", "logs", name, "-n", "1")).includes(`${name} old 1500`), `${name} has printed`);
  }
  const page = await play.window({ prepare });
  await play.go(page, "#/processes");
  await page.locator(".list-pane .tools-row [data-menu]").click();
  await page.getByRole("menuitem", { name: /^Combined log/ }).click();
  for (const name of names) await page.getByRole("checkbox", { name, exact: true }).check();
  await play.sees(page, "old 1500", ".log .ln");
  return page;
}

/** A part that is under way when a hit is looked for: the page waits for it, and leaves none of its lines out. */
export async function combined_busy(play) {
  const page = await together(play, ["one", "two"]);
  const held = await hold(page, /\/logs\?.*before=/);
  await scrollTo(page, 0);
  await play.until(() => held.routes.length > 0, "an older part is asked for");
  await field(page).fill("old 1$");
  await play.sees(page, "2 of 2", tools);
  const hit = async (last, names) => {
    const text = (await page.locator(".ln.hit").allInnerTexts())[0] ?? "";
    return text.endsWith(`old ${last}`) && names.add(text).size;
  };
  for (let i = 0; i < 2; i++) await page.getByRole("button", { name: "Next hit" }).click(); // one of the two is in the part
  await play.sees(page, "2 of 2", tools);
  held.isHeld = false;
  await held.release();
  for (const last of ["1", "700"]) {
    const seen = new Set();
    await field(page).fill(`old ${last}$`);
    await play.sees(page, "2 of 2", tools);
    await play.until(() => hit(last, seen), `a hit of ${last}`);
    await page.getByRole("button", { name: "Next hit" }).click();
    await play.until(async () => (await hit(last, seen)) === 2, `the other hit of ${last}`);
  }
}

export async function combined(play) {
  const names = ["one", "two", "three", "four", "five"], streams = [];
  const page = await together(play, names, (one) => one.on("request", (request) => request.url().includes("/logs/stream") && streams.push(request.url())));
  streams.length = 0;
  writeFileSync(`${play.root}/go`, "");
  for (const name of names) await play.sees(page, `${name} │ ${name} new`, ".log .ln");
  play.ok(streams.length <= 1, `connections since: ${streams.length}`);
  // Which of them wrote last is known to the second: each hit is there, wherever it is.
  for (const last of ["1500", "1"]) {
    await field(page).fill(`old ${last}$`);
    await play.sees(page, "5 of 5", tools);
    const seen = new Set();
    for (let i = 1; i <= 5; i++) {
      await page.getByRole("button", { name: "Next hit" }).click();
      await play.sees(page, `${i} of 5`, tools);
      await play.until(async () => {
        const text = (await page.locator(".ln.hit").allInnerTexts())[0] ?? "";
        return text.endsWith(`old ${last}`) && !seen.has(text) && seen.add(text);
      }, `hit ${i}`);
    }
    play.eq([...seen].map((text) => text.match(/(\w+) │/)[1]).sort(), [...names].sort(), "of each process");
  }
}
