// run.mjs FILE NAME - opens the page in Chromium and plays one scenario of FILE. TASUKI_SCENE says where everything is.
import { execFile, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import { ARGS } from "./browser.mjs";
import { endGroup } from "./end.mjs";

const scene = JSON.parse(process.env.TASUKI_SCENE);
const { chromium } = await import(`${scene.modules}/playwright-core/index.mjs`);
const PATIENCE = Number(process.env.TASUKI_PATIENCE_MS ?? 60_000);
const exec = promisify(execFile);

export class Play {
  problems = [];
  children = [];
  mayLoseServer = false; // then failed requests are no problem

  constructor() {
    Object.assign(this, scene);
  }

  /** The browser of the suite, if there is one; the windows of this scenario end with the connection. */
  async connect() {
    if (!scene.browser) return this.launch();
    this.browser = await chromium.connect(scene.browser);
  }

  /** A browser of its own: for a scenario that stops it or kills it, and another one after that. */
  async launch() {
    await this.browser?.close();
    this.browser = await chromium.launch({ executablePath: scene.chromium, args: ARGS });
  }

  /** A window of its own, with the token unless told otherwise. */
  async window({ width = 1440, height = 900, theme = "light", locale = "en-US", address = scene.page, prepare } = {}) {
    const context = await this.browser.newContext({ viewport: { width, height }, colorScheme: theme, locale, timezoneId: "Asia/Tokyo", permissions: ["clipboard-read", "clipboard-write"] });
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE);
    await page.addInitScript(() => addEventListener("securitypolicyviolation", (event) => console.error(`CSP: ${event.violatedDirective} ${event.blockedURI}`)));
    page.on("console", (message) => message.type() === "error" && !this.isExpected(message.text()) && this.problems.push(message.text()));
    page.on("pageerror", (error) => this.problems.push(`${error.message}\n${error.stack}`));
    page.on("request", (request) => ![scene.url, new URL(address).origin].includes(new URL(request.url()).origin) && !/^(data|blob):/.test(request.url()) && this.problems.push(`a request to ${request.url()}`));
    await prepare?.(page);
    await page.goto(address);
    return page;
  }

  isExpected(text) {
    if (/status of 4\d\d/.test(text) && /Failed to load resource/.test(text)) return true; // a refusal, which the page shows
    return this.mayLoseServer && /ERR_|Failed to load resource|net::/.test(text);
  }

  async cli(...args) {
    return this.as({}, ...args);
  }

  /** A command with further variables: by another party, say. */
  async as(env, ...args) {
    const { stdout } = await exec(scene.binary, [...args], { cwd: scene.root, timeout: PATIENCE, env: { ...process.env, ...env } });
    return stdout;
  }

  async json(...args) {
    return JSON.parse(await this.cli(...args, "--json"));
  }

  /** A command that goes on beside the test. */
  spawn(...args) {
    const child = spawn(scene.binary, args, { cwd: scene.root, stdio: "ignore", detached: true });
    this.children.push(child);
    return child;
  }

  /** Another server in the place of the killed one. What it says in the end belongs to a failure. */
  serve() {
    const child = spawn(scene.binary, ["serve", "--port", String(scene.port), "--quiet"], { cwd: scene.root, stdio: ["ignore", "ignore", "pipe"], detached: true });
    child.stderr.setEncoding("utf8").on("data", (text) => console.error(`serve: ${text}`));
    child.on("exit", (code, signal) => signal !== "SIGKILL" && console.error(`serve ended with ${code ?? signal}`));
    this.children.push(child);
    return child;
  }

  /** Ends it with everything that it has started; resolves when it is dead. */
  end(child) {
    const ended = new Promise((resolve) => (child.exitCode === null && child.signalCode === null ? child.once("exit", resolve) : resolve()));
    endGroup(child);
    return ended;
  }

  async api(method, path, body) {
    const token = new URL(scene.page).hash.slice(7);
    const answer = await fetch(scene.url + path, { method, headers: { Authorization: `Bearer ${token}` }, body: body ? JSON.stringify(body) : undefined });
    return answer.json();
  }

  async until(condition, what) {
    const end = Date.now() + PATIENCE;
    let value;
    while (!(value = await condition())) {
      if (Date.now() > end) throw new Error(`waited in vain: ${what}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return value;
  }

  go(page, hash) {
    return page.evaluate((to) => void (location.hash = to), hash);
  }

  text(page, selector = "body") {
    return page.locator(selector).first().innerText();
  }

  /** Waits until the text is somewhere on the page. */
  async sees(page, text, selector = "body") {
    const found = page.locator(selector).filter({ hasText: text }).first();
    await found.waitFor({ state: "visible" }).catch(async () => {
      throw new Error(`the page does not show ${text}. It shows:\n${(await this.text(page)).slice(0, 3000)}`);
    });
  }

  eq(actual, expected, what) {
    const a = JSON.stringify(actual), b = JSON.stringify(expected);
    if (a !== b) throw new Error(`${what} is ${a}, expected ${b}`);
  }

  /** Waits until what is read is what is expected: the page draws a change a moment after it knows of it. */
  async becomes(read, expected, what) {
    const wanted = JSON.stringify(expected), end = Date.now() + PATIENCE;
    let seen;
    while ((seen = JSON.stringify(await read())) !== wanted) {
      if (Date.now() > end) throw new Error(`${what} is ${seen}, expected ${wanted}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  ok(fact, what) {
    if (!fact) throw new Error(what);
  }
}

const [, , file, name] = process.argv;
const play = new Play();
await play.connect();
let code = 0;
try {
  const scenarios = await import(file);
  await scenarios[name](play);
  if (play.problems.length > 0) throw new Error(`the page reported:\n${[...new Set(play.problems)].slice(0, 20).join("\n")}`);
} catch (error) {
  code = 1;
  console.error(error.stack ?? String(error));
  if (play.problems.length > 0) console.error(`the page reported:\n${[...new Set(play.problems)].slice(0, 20).join("\n")}`);
  for (const context of play.browser.contexts()) for (const page of context.pages()) console.error(`--- ${page.url()}\n${await page.locator("body").innerText().catch(() => "")}`.slice(0, 4000));
}
// Runs first: a runner that is killed leaves its tasks to the next one.
const open = async () => (await play.json("runs", "list")).runs.filter((run) => run.status === "RUNNING" || run.status === "NEEDS_INPUT");
for (const run of await open()) await play.cli("runs", "cancel", run.run_id, "--now").catch(() => undefined);
await play.until(async () => (await open()).length === 0, "the runs have ended").catch((error) => console.error(error.message));
for (const child of play.children) play.end(child);
await play.browser.close();
process.exit(code);
