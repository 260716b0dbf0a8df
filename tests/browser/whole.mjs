// What holds for every page: words in three languages, widths, keys, axe, the palette.
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { flow } from "./work.mjs";

const pages = ["#/", "#/processes", "#/requests", "#/runs", "#/locks", "#/events", "#/doctor"];

/** A workspace with something on every page. Returns the id of a run that goes on. */
export async function furnish(play) {
  flow(play, "release", "name: release\nflow: fetch >> checks(lint | unit >> browsers(chromium | firefox)) >> publish\nlimits: {parallel: 4}\ntasks:\n  fetch: echo fetched\n  lint: 'true'\n  unit: 'true'\n  chromium: {run: 'exit 1', retries: 2, backoff: {initial: 500s, max: 500s}}\n  firefox: {run: 'echo output; sleep 1000'}\n  publish: 'true'\n");
  flow(play, "ask", "name: ask\ntasks: {q: {run: \"tasuki task ask 'Which key?' --option a --option b\"}}\n");
  flow(play, "bad", "name: bad\ntasks: {t: {run: 'echo AssertionError >&2; exit 1'}}\n");
  await play.cli("proc", "create", "web", "--start", "--no-wait", "--", "sh", "-c", "while :; do echo tick; sleep 0.3; done");
  await play.cli("proc", "create", "tunnel", "--start", "--no-wait", "--", "sh", "-c", "echo refused >&2; exit 1");
  await play.cli("proc", "create", "seed", "--", "true");
  for (const [id, name] of [["RQ-1", "release"], ["RQ-2", "ask"], ["RQ-3", "bad"], ["RQ-4", "bad"]]) await play.cli("request", "add", `The ${name} of ${id}`, "--id", id, "--flow", name);
  await play.cli("request", "add", "A draft", "--id", "RQ-5", "--status", "draft");
  play.spawn("request", "run", "RQ-1");
  play.spawn("request", "run", "RQ-2");
  await play.cli("request", "run", "RQ-3").catch(() => undefined);
  play.spawn("lock", "run", "deploy", "--", "sleep", "1000");
  await play.cli("own", "claim", "UL-1");
  return play.until(async () => (await play.json("runs", "list")).runs.find((one) => one.flow === "release")?.run_id, "the run");
}

/** The parts of the page are there: no place is kept for one, and two frames have been drawn since. */
export async function settled(page) {
  await page.waitForFunction(() => !document.querySelector("main .skeleton"));
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
}

export async function words(play) {
  const run = await furnish(play);
  const page = await play.window({ locale: "ja-JP" });
  await play.sees(page, "概要", ".side");
  await play.becomes(() => page.evaluate(() => document.documentElement.lang), "ja", "lang");
  const keys = Object.keys(JSON.parse(readFileSync(new URL("../../ui/texts.json", import.meta.url), "utf8"))).filter((key) => key.includes("."));
  const english = /\b(started|running|waiting|failed|ago|Overview|Search|stopped|not started)\b/;
  for (const [language, word] of [["日本語", "プロセス"], ["中文", "进程"]]) {
    if (language === "中文") {
      await page.locator(".side footer [data-menu]").click();
      await page.getByRole("menuitem", { name: language }).click();
    }
    for (const hash of [...pages, `#/runs/${run}`, "#/processes/tunnel"]) {
      await play.go(page, hash);
      await play.sees(page, word, ".side");
      await settled(page);
      const text = await page.evaluate(() => {
        const all = [];
        const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) if (!walker.currentNode.parentElement.closest(".mono, .log, noscript")) all.push(walker.currentNode.data);
        return all.join("\n");
      });
      play.eq(keys.filter((key) => text.includes(key)), [], `keys instead of words on ${hash}`);
      const left = text.split("\n").filter((line) => english.test(line) && !/AssertionError|The (release|ask|bad) of|process\.|run\.|task\.|lock\.|queue\.|request\.|workflow\./.test(line));
      play.eq(left, [], `English words on ${hash} in ${language}`);
    }
  }
  await page.reload();
  await play.sees(page, "进程", ".side");
}

/** With the theme "dark" only the contrast: nothing else differs from "light". */
export async function axe(play, page, where, { inside = "html", theme = "light" } = {}) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(readFileSync(`${play.modules}/axe-core/axe.min.js`, "utf8"));
  // A dialogue that still fades in has pale text: axe looks at the finished page.
  await page.evaluate(() => Promise.allSettled(document.getAnimations()
    .filter((one) => one.effect.getComputedTiming().endTime !== Infinity).map((one) => one.finished)));
  const tags = { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa"] };
  const found = await page.evaluate(async ([part, runOnly]) => {
    const result = await window.axe.run(part, { runOnly, resultTypes: ["violations"] });
    return result.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.target} ${node.failureSummary?.split("\n")[1] ?? ""}`).join(" | ")}`);
  }, [inside, theme === "dark" ? ["color-contrast"] : tags]);
  play.eq(found, [], `what axe finds on ${where}`);
}

export async function accessible(play) {
  const run = await furnish(play);
  for (const [theme, width] of [["light", 1440], ["dark", 1440], ["light", 380]]) {
    const page = await play.window({ theme, width, height: 900 });
    for (const hash of width === 380 ? ["#/", `#/runs/${run}`, "#/processes/tunnel", "#/requests"] : [...pages, `#/runs/${run}`, "#/processes/tunnel"]) {
      await play.go(page, hash);
      await page.locator("main .page, main .split").first().waitFor();
      await settled(page);
      await axe(play, page, `${hash}, ${theme}, ${width}`, { theme });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      play.ok(wide <= 0, `${hash} is ${wide} px too wide at ${width}`);
      await play.becomes(() => page.locator("h1").count(), 1, `h1 on ${hash}`);
    }
    if (width === 1440) {
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox").fill("stop w");
      await play.sees(page, "tasuki proc stop web", "[role=option]");
      await axe(play, page, `the palette, ${theme}`, { theme });
    }
    await page.context().close();
  }
}

export async function widths(play) {
  const run = await furnish(play);
  for (const width of [380, 768, 1280, 1920]) {
    const page = await play.window({ width });
    for (const hash of [...pages, `#/runs/${run}`]) {
      await play.go(page, hash);
      await page.locator("main .page, main .split").first().waitFor();
      await settled(page);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      play.ok(wide <= 0, `${hash} is ${wide} px too wide at ${width}`);
    }
    await play.becomes(() => page.locator(".side").isVisible(), width > 700, `side bar at ${width}`);
    await play.becomes(() => page.locator(".tabs").isVisible(), width <= 700, `tabs at ${width}`);
    await play.becomes(() => page.locator(".graph").isVisible(), width > 700, `graph at ${width}`);
    if (width === 380) {
      await play.go(page, "#/processes");
      play.ok(!(await page.locator(".detail").isVisible()), "the list comes first");
      await page.locator("[data-id=web]").click();
      await play.sees(page, "tick", ".log .ln");
      await page.locator(".back").click();
      await page.locator("[data-id=web]").waitFor();
      const small = await page.locator("main button:visible, .tabs a:visible").evaluateAll((all) => all.filter((one) => one.getBoundingClientRect().height < 34).map((one) => one.outerHTML.slice(0, 80)));
      play.eq(small, [], "targets that are too small for a finger");
    }
    await page.context().close();
  }
}

export async function keyboard(play) {
  await furnish(play);
  const page = await play.window();
  await play.sees(page, "Live", ".live");
  for (const [key, title] of [["p", "Processes"], ["r", "Requests"], ["u", "Runs"], ["l", "Locks and owners"], ["e", "Events"], ["d", "Doctor"], ["o", "Overview"]]) {
    await page.keyboard.press("g");
    await page.keyboard.press(key);
    await play.until(async () => (await page.locator("h1").innerText()) === title, `g ${key} leads to ${title}`);
  }
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  for (const words of ["doctor, workers", "deny what an agent asks", "copy as command", "the next task in that direction"]) await play.sees(page, words, ".keys dd");
  play.eq(await page.locator(".keys kbd").evaluateAll((all) => all.filter((one) => one.clientHeight > 20).map((one) => one.textContent)), [], "keys as tall as their text");
  await page.keyboard.press("Escape");
  await play.until(() => page.getByRole("dialog").count().then((n) => n === 0), "Escape closes");
  await play.go(page, "#/processes/web");
  await play.sees(page, "tick", ".log .ln");
  await page.keyboard.press("x");
  await play.until(async () => (await play.json("proc", "status", "web")).state_name === "Stopped", "x stops");
  await play.sees(page, "stopped", ".item.sel");
  await page.keyboard.press("s");
  await play.until(async () => (await play.json("proc", "status", "web")).state_name === "Running", "s starts");
  await play.go(page, "#/processes"); // with a process open, `/` is the search of its log
  await page.locator(".split:not(.has-detail)").waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("seed");
  await play.until(() => page.locator(".list-pane a.item").count().then((n) => n === 1), "the filter");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await play.until(() => /processes\/\w+/.test(page.url()), "j and Enter open a row");
}

/** Effects come late, as on a busy machine: the part of the page arrives between its place and the question whether it is there. */
export async function late(play) {
  await play.cli("proc", "create", "web", "--", "true");
  let arrive, isAsked;
  const asked = new Promise((resolve) => (isAsked = resolve)), wait = new Promise((resolve) => (arrive = resolve));
  const page = await play.window({
    prepare: async (its) => {
      await its.route(/assets\/processes-/, async (route) => {
        isAsked();
        await wait;
        await route.continue();
      });
      await its.addInitScript(() => {
        const [soon, frame] = [window.setTimeout, window.requestAnimationFrame];
        window.setTimeout = (run, ms, ...rest) => soon(run, window.isBusy && ms < 200 ? 3000 : ms, ...rest);
        window.requestAnimationFrame = (run) => (window.isBusy ? soon(run, 3000) : frame.call(window, run));
      });
    },
  });
  await play.sees(page, "Live", ".live");
  await asked;
  await page.evaluate(() => ((window.isBusy = true), (location.hash = "#/processes")));
  await page.waitForSelector("main .skeleton", { state: "attached" });
  arrive();
  await page.locator("[data-id=web]").waitFor();
}

export async function palette(play) {
  await furnish(play);
  const page = await play.window();
  await play.sees(page, "Live", ".live");
  await page.keyboard.press("Control+k");
  const field = page.getByRole("combobox");
  await field.fill("stop w");
  await play.sees(page, "Stop process web", "[aria-selected=true]");
  await page.keyboard.press("Control+Shift+c");
  await play.until(async () => (await page.evaluate(() => navigator.clipboard.readText())) === "tasuki proc stop web", "the command is copied");
  await field.focus();
  await page.keyboard.press("Enter");
  await play.until(async () => (await play.json("proc", "status", "web")).state_name === "Stopped", "it runs");
  await page.keyboard.press("Control+k");
  await field.fill("validate");
  await play.sees(page, "tasuki flow validate", "[role=option]");
  await page.keyboard.press("Enter");
  await page.getByLabel(/^flow/).fill("release");
  await page.getByRole("dialog").getByRole("button", { name: "Run" }).click();
  await play.sees(page, '"valid"', ".answer-json");
}


/** The signs of a place: the machine beside the directory, the title of a run at every width, a task's state in one colour, its session. */
export async function signs(play) {
  const run = await furnish(play);
  const page = await play.window();
  await play.go(page, `#/runs/${run}/firefox`);
  await play.until(async () => (await page.locator(".side .place").textContent()).includes(` · ${hostname().split(".")[0]}`), "the machine in the side bar");
  await play.until(async () => /^Started\s+\d\d:\d\d:\d\d\s+by\s/.test(await page.locator(".facts-row > .row", { hasText: "Started" }).innerText()), "who started it");
  const state = page.locator(".task-head > .num");
  await play.until(async () => /^running\s+\d/.test(await state.innerText()), "the state and its time");
  const colours = await state.evaluate((one) => [...one.children].map((part) => getComputedStyle(part).color));
  play.eq(new Set(colours).size, 1, `colours of the state and its time, ${colours}`);
  await play.until(async () => /^session …\w{6}\S*firefox$/.test(await page.locator(".task-command .session").innerText()), "the session beside the command");
  for (const width of [380, 768, 1101, 1440]) {
    await page.setViewportSize({ width, height: 900 });
    await settled(page);
    const cut = await page.locator(".bar h1").evaluate((one) => one.scrollWidth - one.clientWidth);
    play.ok(cut <= 0, `the title of the run is cut by ${cut} px at ${width}`);
  }
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox").fill("firefox");
  await play.sees(page, /firefox\s+Task of run release · running/, "[role=option]");
}
