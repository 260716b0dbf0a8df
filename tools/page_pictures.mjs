// page_pictures.mjs SETTINGS - opens the page in Chromium and takes the pictures; tools/page_pictures.py calls it.
import { writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { ARGS } from "../tests/browser/browser.mjs";
import { smallPng } from "./small_png.mjs";

const settings = JSON.parse(process.argv[2]);
const { chromium } = await import(`${settings.modules}/playwright-core/index.mjs`);
const run = `#/runs/${settings.run}/firefox`;
const pages = { overview: "#/", processes: "#/processes/api", requests: "#/requests", runs: "#/runs", run, locks: "#/locks", events: "#/events", doctor: "#/doctor", ...(settings.workers ? { workers: "#/workers" } : {}) };
const kinds = { "": {}, "-dark": { theme: "dark" }, "-narrow": { width: 380, height: 820 }, "-ja": { locale: "ja-JP" } };
const widths = { "-768": { width: 768, height: 1000 }, "-1280": { width: 1280 }, "-1920": { width: 1920, height: 1080 } };
const click = (selector) => async (page) => void (await page.locator(selector).last().click());

/** Picture -> window, address, and what is done before. */
const pictures = {
  "page-conflict-ja": [{ locale: "ja-JP" }, pages.requests, click("main .tools-row > .btn:not(.pri)")],
  "page-palette-dark": [{ theme: "dark" }, pages.overview, async (page) => { await page.keyboard.press("Control+k"); await page.getByRole("combobox").fill("stop w"); }],
  "page-log": [{}, "#/processes/web", async (page) => void (await page.locator(".log-box input").fill("cart/1.* 200"))],
  "page-new-process": [{}, "#/processes", async (page) => { await page.getByRole("button", { name: "New process" }).click(); await page.getByLabel("Template").selectOption("server"); }],
  "page-new-request": [{}, pages.requests, async (page) => void (await page.getByRole("button", { name: "New request" }).click())],
  "page-keys": [{}, pages.overview, async (page) => void (await page.keyboard.press("?"))],
  "page-inbox-narrow": [kinds["-narrow"], pages.locks, click(".inbox")],
};
for (const [name, hash] of Object.entries(pages))
  for (const [kind, options] of Object.entries({ ...kinds, ...(settings.all ? widths : {}) }))
    pictures[`page-${name}${kind}`] = [name === "run" && !options.height ? { ...options, height: 1000 } : options, hash, name === "doctor" ? click("main .btn.pri") : undefined];

/** In the page: other words in the place of those that differ from machine to machine. */
function replaceWords(words) {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) for (const [word, shown] of words) walker.currentNode.data = walker.currentNode.data.replace(new RegExp(word, "g"), shown);
}

const browser = await chromium.launch({ executablePath: settings.chromium, args: ARGS });
for (const [name, [{ width = 1440, height = 900, theme = "light", locale = "en-US" }, hash, before]] of Object.entries(pictures)) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, locale, timezoneId: "Asia/Tokyo" });
  const page = await context.newPage();
  await page.goto(settings.page);
  await page.locator(".live.live").waitFor();
  await page.evaluate((to) => void (location.hash = to), hash);
  await page.waitForTimeout(1500);
  await before?.(page);
  await page.waitForTimeout(1000);
  await page.evaluate(replaceWords, [[settings.home, "~"], ["…/src/shop", "~/src/shop"], [`\\b${hostname()}\\b`, "mori"]]);
  writeFileSync(`${settings.out}/${name}.png`, smallPng(await page.screenshot()));
  await context.close();
}
await browser.close();
