// Text from outside is text: markup, escapes, control characters, writing from right to left, lines of a megabyte, wherever the page
// shows something. run.mjs fails a scenario when a script of a text runs or the Content-Security-Policy is broken.
import { writeFileSync } from "node:fs";
import { Agent, sleeper } from "./feed.mjs";
import { settled } from "./whole.mjs";
import { flow } from "./work.mjs";

const MARKUP = `<img src=x onerror="console.error('hacked')"><script>console.error('hacked')</script><style>*{display:none}</style></textarea></title>`;
const ODD = `&lt;b&gt; {flow} {thing} {n} | $& %s \\u003cb`;
const ESCAPES = "\u001b[31mred\u001b[0m\u001b]0;owned\u0007\u001b[2J";
const OVERRIDE = "\u202eevil\u2067"; // neither of them is closed
const LONG = "W".repeat(3000);
const EVIL = `${MARKUP} ${ODD} ${OVERRIDE} ${LONG}`;
const shown = ["#/", "#/processes", "#/processes/evil", "#/requests", "#/runs", "#/locks", "#/events", "#/doctor"];

/** Nothing was made from text, nothing is wider than the window, the page is still there. */
async function holds(play, page, where) {
  const found = await page.evaluate(() => ({
    made: [...document.querySelectorAll("body img, body script:not([src]), body style, body b b, body title")].map((one) => one.outerHTML.slice(0, 100)),
    wide: document.documentElement.scrollWidth - innerWidth,
    outside: [...document.querySelectorAll("body *")].filter((one) => {
      const box = one.getBoundingClientRect();
      if (box.width === 0 || (box.right <= innerWidth + 1 && box.left >= -1) || !one.checkVisibility({ visibilityProperty: true })) return false;
      let up = one.parentElement;
      while (up && !/auto|scroll|hidden|clip/.test(getComputedStyle(up).overflowX)) up = up.parentElement;
      return up === null && !one.closest(".skip, .off-screen, .graph");
    }).slice(0, 5).map((one) => one.outerHTML.slice(0, 100)),
    tall: [...document.querySelectorAll(".item, .bar, .strip, .gr")].filter((one) => one.getBoundingClientRect().height > 320).map((one) => `${one.className} ${one.getBoundingClientRect().height}`),
  }));
  play.eq(found, { made: [], wide: 0, outside: [], tall: [] }, `the layout of ${where}`);
}

/** Everything that has a text of its own has a hostile one. Returns the run that asks. */
async function furnish(play) {
  const by = { TASUKI_AGENT: `agent ${MARKUP} ${OVERRIDE}`, TASUKI_NOTE: `note ${MARKUP} ${OVERRIDE}` };
  await play.as(by, "proc", "create", "evil", "--note", EVIL.slice(0, 200), "--start", "--no-wait", "--env", `A=${EVIL}`, "--", "sh", "-c", `printf '%s\\n' "$1" >&2; exit 3`, "sh", EVIL);
  await play.as(by, "proc", "create", "alive", "--start", "--no-wait", "--", "sh", "-c", "sleep 1000", EVIL);
  writeFileSync(`${play.root}/.aiflow/requests/RQ-evil.yaml`, `title: ${JSON.stringify(`${ESCAPES}${EVIL}`)}\nbody: ${JSON.stringify(EVIL)}\nrun: ${JSON.stringify(["echo", EVIL])}\n`);
  writeFileSync(`${play.root}/.aiflow/requests/RQ-broken.yaml`, `title: [${MARKUP} ${OVERRIDE}\n`);
  writeFileSync(`${play.root}/.aiflow/requests/RQ-unknown.yaml`, `title: ${JSON.stringify(EVIL)}\n${JSON.stringify(MARKUP)}: 1\n`);
  const ask = ["tasuki", "task", "ask", EVIL, "--option", EVIL.slice(0, 900), "--option", `b ${MARKUP}`];
  const out = `printf 'note=%s\\n' ${JSON.stringify(JSON.stringify(EVIL)).replace(/[$\`]/g, "\\$&")} >> "$TASUKI_OUTPUT"`;
  const name = "n".repeat(128);
  flow(play, "evil", `name: ${name}\nflow: write-${name.slice(6)} >> ask\ntasks:\n  write-${name.slice(6)}: {run: ["sh", "-c", ${JSON.stringify(out)}]}\n  ask: {run: ${JSON.stringify(ask)}}\n`);
  flow(play, "failing", `name: failing\ntasks:\n  t: {run: ["sh", "-c", ${JSON.stringify(`printf '%s' "$1" >&2; exit 1`)}, "sh", ${JSON.stringify(EVIL)}]}\n`);
  play.spawn("run", "evil");
  await play.cli("run", "failing").catch(() => undefined);
  const holder = await sleeper(play);
  await play.as(by, "lock", "acquire", "name", "deploy", "--pid", String(holder.pid), "--note", EVIL.slice(0, 200));
  await play.as(by, "lock", "acquire", "name", MARKUP, "--pid", String(holder.pid));
  await play.as(by, "own", "claim", "UL-1");
  writeFileSync(`${play.root}/.sprint-running`, JSON.stringify({ session_id: EVIL, pid: 4194303, started_at: "2026-01-01T00:00:00Z", epic_spec: EVIL }));
  return play.until(async () => (await play.json("runs", "list")).runs.find((one) => one.status === "NEEDS_INPUT")?.run_id, "the question");
}

export async function pages(play) {
  const run = await furnish(play);
  for (const width of [1440, 380]) {
    const page = await play.window({ width });
    await play.sees(page, "<img src=x", ".question");
    for (const hash of [...shown, `#/runs/${run}`, `#/runs/${run}/ask`]) {
      await play.go(page, hash);
      await page.locator("main .page, main .split").first().waitFor();
      await play.sees(page, { "#/doctor": "Full examination", "#/runs": "nnnnnnnn" }[hash] ?? /<img src=x|evil/, "main");
      await settled(page);
      await holds(play, page, `${hash} at ${width}`);
    }
    await play.go(page, "#/requests");
    await play.sees(page, /\d+:\d+ .*`\[`/, "[data-id=RQ-broken]");
    await play.go(page, `#/runs/${run}/ask`);
    await page.getByRole("button", { name: "Channel" }).click();
    await play.sees(page, "<script>console.error", ".channel");
    await page.getByRole("button", { name: "Details" }).click();
    await holds(play, page, `the details of a task at ${width}`);
    await play.go(page, "#/doctor");
    await page.getByRole("button", { name: "Full examination" }).click();
    await play.sees(page, /needs? attention/, ".sentence");
    await holds(play, page, `doctor's findings at ${width}`);
    await play.go(page, "#/events");
    await page.getByRole("searchbox").fill("<script>");
    await page.locator(".c-event button").first().click();
    await play.sees(page, "<script>", ".json");
    await holds(play, page, `an event at ${width}`);
    await page.context().close();
  }
}

export async function dialogues(play) {
  await furnish(play);
  const page = await play.window();
  await play.sees(page, "Live", ".live");
  await page.getByRole("button", { name: /Waits for you/ }).click();
  await play.sees(page, "<img src=x", "[role=dialog]");
  await holds(play, page, "the inbox");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox").fill(`${MARKUP} | {q}`);
  await holds(play, page, "the palette");
  await page.getByRole("combobox").fill("run <img");
  await play.until(() => page.getByRole("option").count().then((n) => n > 0), "the palette finds it");
  await holds(play, page, "the palette with hits");
  await page.keyboard.press("Escape");
  await play.go(page, "#/locks");
  await page.locator("[data-id=deploy]").getByRole("button", { name: "Force…" }).click();
  await play.sees(page, "<img src=x", "[role=alertdialog]");
  await holds(play, page, "the question of a lock");
  await page.keyboard.press("Escape");
  await page.locator("[data-id='.sprint-running']").getByRole("button", { name: "Release…" }).click();
  await play.sees(page, "<img src=x", "[role=alertdialog]");
  await holds(play, page, "the question of the sprint");
  await page.keyboard.press("Escape");
  await play.go(page, "#/requests");
  await page.locator("[data-id=RQ-evil] [data-menu]").click();
  await holds(play, page, "the menu of a request");
  await page.getByRole("menuitem", { name: /^Edit/ }).click();
  await play.until(async () => (await page.getByRole("dialog").getByLabel("Title", { exact: true }).inputValue()).includes("<img src=x"), "the form has the title");
  await holds(play, page, "the form of a request");
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  const agent = await new Agent(play).begin(`mcp ${MARKUP} ${OVERRIDE}`);
  await agent.call("lock_acquire", { kind: "name", id: "deploy", force: true });
  await play.sees(page, "<img src=x", ".strip.askfor");
  await holds(play, page, "what an agent asks");
  await page.locator(".strip.askfor").getByRole("button", { name: "Allow" }).click();
  await play.sees(page, "<img src=x", "[role=alertdialog]");
  await holds(play, page, "its second question");
}

/** A form that is saved as it was opened changes nothing, whatever is in it. */
export async function forms(play) {
  const args = ["-c", "exit 0", `two\nlines`, `tab\there`, ` 'both "quotes`, "", "$HOME `x` \\", MARKUP, "日本 \u202eevil"];
  await play.cli("proc", "create", "p", "--env", "MANY=one\ntwo=2\n", "--env", `M=${MARKUP}`, "--cwd", ".", "--", "sh", ...args);
  const before = await play.json("proc", "status", "p");
  const page = await play.window();
  await play.go(page, "#/processes/p");
  await page.locator(".detail").getByRole("button", { name: "Edit" }).click();
  await page.getByLabel(/^When it ends/).selectOption("on-failure");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await play.until(async () => (await play.json("proc", "status", "p")).restart === "on-failure", "the change");
  const after = await play.json("proc", "status", "p");
  play.eq([after.command, after.args, after.env], [before.command, before.args, before.env], "what the form did not show a change of");
}

/** Logs: lines of a megabyte, NUL, bytes that are no text, escapes without an end. */
export async function logs(play) {
  const long = Buffer.from(`${"<b>x</b>".repeat(131072)}\n`);
  const odd = Buffer.concat([Buffer.from(`${MARKUP}\n${OVERRIDE} tail\n${ESCAPES}\nnul \0 here\n\u001b]0;never ends\nafter it\n`), Buffer.from([0xff, 0xfe, 0x80, 0x0a]), Buffer.from("\u001b[31m".repeat(20000)), Buffer.from("\nthe last line\n")]);
  writeFileSync(`${play.root}/odd.txt`, Buffer.concat([long, odd]));
  await play.cli("proc", "create", "odd", "--start", "--no-wait", "--", "sh", "-c", "cat odd.txt; cat odd.txt >&2; exit 1");
  flow(play, "odd", "name: odd\ntasks: {t: {run: cat odd.txt}}\n");
  await play.cli("run", "odd");
  const run = (await play.json("runs", "list")).runs[0].run_id;
  for (const width of [1440, 380]) {
    const page = await play.window({ width });
    for (const hash of ["#/processes/odd", `#/runs/${run}/t`]) {
      await play.go(page, hash);
      await play.sees(page, "the last line", ".log .ln");
      if (width > 700) await play.until(async () => { // a line that is wrapped and not seen has no text
        const end = (await page.locator(".log .ln .text").allInnerTexts()).join("\n");
        return end.includes("<script>console.error") && /nul [␀\ufffd] here/.test(end) && !end.includes("owned");
      }, `text is text on ${hash}`);
      await play.until(() => page.locator(".log .linkish").first().isVisible(), "a long line is cut");
      const longest = Math.max(...(await page.locator(".log .ln .text").allInnerTexts()).map((one) => one.length));
      play.ok(longest < 6000, `no line of ${longest} characters is drawn`);
      await holds(play, page, `${hash} at ${width}`);
    }
    await page.context().close();
  }
}

/** An override in a name turns its own characters, not those beside it. */
export async function direction(play) {
  const title = "\u2069\u202eabc"; // left open: without isolation all that follows is turned, too
  writeFileSync(`${play.root}/.aiflow/requests/RQ-1.yaml`, `title: ${JSON.stringify(title)}\nrun: 'true'\n`);
  flow(play, "ask", `name: ask\ntasks: {t: {run: ["tasuki", "task", "ask", ${JSON.stringify(title)}]}}\n`);
  await play.as({ TASUKI_AGENT: title, TASUKI_NOTE: title }, "proc", "create", "p", "--start", "--no-wait", "--", "sh", "-c", "exit 1", title);
  await play.as({ TASUKI_AGENT: title }, "own", "claim", "UL-1");
  const holder = await sleeper(play);
  await play.as({ TASUKI_AGENT: title, TASUKI_NOTE: title }, "lock", "acquire", "name", "deploy", "--pid", String(holder.pid));
  play.spawn("run", "ask");
  const run = await play.until(async () => (await play.json("runs", "list")).runs.find((one) => one.status === "NEEDS_INPUT")?.run_id, "the question");
  const page = await play.window();
  for (const hash of [...shown.filter((one) => !one.endsWith("/evil")), `#/runs/${run}`]) {
    await play.go(page, hash);
    await page.locator("main .page, main .split").first().waitFor();
    await settled(page);
    // Each text node without an override of its own must run from left to right.
    const turned = await page.evaluate(() => {
      const bad = [];
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      const left = (node, i) => {
        const range = document.createRange();
        range.setStart(node, i);
        range.setEnd(node, i + 1);
        return range.getBoundingClientRect();
      };
      while (walker.nextNode()) {
        const node = walker.currentNode, text = node.data;
        const from = text.search(/[a-zA-Z0-9]{3}/);
        if (from < 0 || !node.parentElement.checkVisibility()) continue;
        const last = text.match(/[a-zA-Z0-9]{3}(?![\s\S]*[a-zA-Z0-9]{3})/);
        for (const at of [from, last.index]) {
          if (text.slice(0, at).includes("\u202e") && text.slice(at, at + 3) === "abc") continue; // the name itself
          const a = left(node, at), b = left(node, at + 1);
          if (a.width > 0 && b.width > 0 && a.top === b.top && b.left < a.left) bad.push(`${node.parentElement.className}: ${text}`);
        }
      }
      return bad;
    });
    play.eq(turned, [], `what is turned on ${hash}`);
  }
}
