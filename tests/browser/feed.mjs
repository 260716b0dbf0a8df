// The feed under the page: nothing is read without an event, and every change is an event; confirmations; CPU and memory.
import { spawn } from "node:child_process";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";

/** An agent over stdio, with a process of its own. */
export class Agent {
  constructor(play) {
    const code = "import subprocess, sys; p = subprocess.Popen(sys.argv[1:]); sys.exit(p.wait())";
    this.child = spawn("python3", ["-c", code, play.binary, "mcp"], { cwd: play.root, stdio: ["pipe", "pipe", "ignore"], detached: true });
    play.children.push(this.child);
    this.answers = new Map();
    this.count = 0;
    createInterface(this.child.stdout).on("line", (line) => {
      const frame = JSON.parse(line);
      this.answers.get(frame.id)?.(frame.result);
    });
  }
  request(method, params) {
    const id = ++this.count;
    this.child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    return new Promise((resolve) => this.answers.set(id, resolve));
  }
  async begin(name) {
    await this.request("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name, version: "1" } });
    this.child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" })}\n`);
    return this;
  }
  call(name, args) {
    return this.request("tools/call", { name, arguments: args });
  }
}

export async function sleeper(play) {
  const child = spawn("sleep", ["1000"], { detached: true, stdio: "ignore" });
  play.children.push(child);
  return child;
}

export async function confirmations(play) {
  const holder = await sleeper(play);
  await play.cli("lock", "acquire", "name", "deploy", "--pid", String(holder.pid));
  const page = await play.window(), other = await play.window(), japanese = await play.window({ locale: "ja-JP" });
  await play.sees(page, "Live", ".live");
  await page.getByRole("button", { name: "Waits for you 0" }).click();
  await play.sees(page, "Notify", "[role=dialog]");
  await page.keyboard.press("Escape");
  await page.evaluate(() => document.activeElement?.blur());
  const agent = await new Agent(play).begin("cursor");
  const force = { kind: "name", id: "deploy", force: true };
  const ask = async () => (await agent.call("lock_acquire", force)).structuredContent.error.context.confirm_token;
  await ask();
  for (const one of [page, other]) await play.sees(one, "cursor asks", ".strip.askfor");
  await play.sees(japanese, "cursor が許可を求めています：ロック deploy の取得", ".strip.askfor");
  play.ok(!(await japanese.locator(".strip.askfor").innerText()).includes("The lock"), "nothing in English");
  await play.until(() => page.locator(".strip.askfor .ring").isVisible(), "there is a countdown");
  const strip = await page.locator(".strip.askfor").innerText();
  for (const words of ["cursor asks to take the lock deploy.", "It belongs to", "alive", "loses it at its next step.", "No answer means no"]) play.ok(strip.includes(words), `the strip says ${words}: ${strip}`);
  play.ok(!/lock\.acquire|session \?|\d{4}-\d\d-\d\dT/.test(strip), `no word of the wire: ${strip}`);
  await play.until(() => page.locator(".strip.askfor .wish").evaluate((box) => box.scrollWidth <= box.clientWidth && box.clientHeight >= 36), "nothing is cut off");
  const read = await page.locator(".strip.askfor").evaluate((box) => [...box.querySelectorAll(".ring, .num")].every((one) => one.closest("[aria-hidden=true]")));
  play.ok(read, "what changes each second is not read out");
  await play.sees(page, "One thing waits for you.", ".sentence");
  await play.sees(page, "cursor asks to take the lock deploy.", "main .card.question");
  await play.until(async () => /^Waits for you 1 \d+ s ago$/.test(await page.locator(".inbox").getAttribute("aria-label")), "the inbox has a number and an age");
  await play.until(() => page.evaluate(() => document.activeElement === document.body), "the focus stays");
  await play.until(async () => (await page.title()).startsWith("(1)"), "the tab says that something waits");
  await page.keyboard.press("Control+Backspace");
  for (const one of [page, other]) await one.locator(".strip.askfor").waitFor({ state: "detached" });
  await play.until(async () => (await play.json("events", "--type", "confirm.denied")).events.length === 1, "the no is an event");
  for (const words of ["cursor asks for a yes", "cursor was denied"]) await play.sees(page, words, ".happened");
  const happened = await page.locator(".happened").innerText();
  play.ok(!/\b[a-z]+\.[a-z_]+\b/.test(happened), `no type of an event: ${happened}`);
  const token = await ask();
  await japanese.locator(".strip.askfor").getByRole("button", { name: "許可…" }).click();
  const again = japanese.getByRole("alertdialog");
  await again.getByText("cursor が許可を求めています：ロック deploy の取得").waitFor();
  await again.locator(".facts").getByText("保持者").waitFor();
  await again.locator(".ring").waitFor();
  const english = (await again.innerText()).replace(/cursor|deploy|sleep|run\.mjs|pid \d+|Esc/g, "").match(/[A-Za-z]{3,}/g);
  play.eq(english, null, "words of another language in the second question");
  await again.getByRole("button", { name: "キャンセル" }).click();
  await page.locator(".strip.askfor").getByRole("button", { name: "Allow" }).click();
  await play.sees(page, "is alive and loses it", "[role=alertdialog]");
  await page.getByRole("alertdialog").getByRole("button", { name: "Allow" }).click();
  for (const one of [page, other]) await one.locator(".strip.askfor").waitFor({ state: "detached" });
  const result = await agent.call("lock_acquire", { ...force, confirm_token: token });
  play.ok(!result.isError, `the agent's call succeeds with the yes: ${result.content[0].text}`);
}

/** The requests to the API that the page makes from now on. */
function counted(page) {
  const made = [];
  page.on("request", (request) => request.url().includes("/api/") && made.push(request.url()));
  return made;
}

export async function quiet(play) {
  await play.cli("proc", "create", "web", "--start", "--", "sleep", "1000");
  const page = await play.window();
  await play.sees(page, "Live", ".live");
  await page.waitForLoadState();
  const made = counted(page);
  await play.until(async () => {
    made.length = 0; // what it read when it began, which on a slow machine takes a while
    await page.waitForTimeout(5000);
    return made.length === 0;
  }, "five seconds without a request");
  await play.sees(page, "Live", ".live");
}

export async function told(play) {
  const holder = await sleeper(play);
  await play.cli("lock", "acquire", "name", "deploy", "--pid", String(holder.pid));
  const page = await play.window();
  await play.go(page, "#/locks");
  await play.sees(page, "alive", "main");
  process.kill(holder.pid, "SIGKILL");
  await play.sees(page, "dead", "main");
  const file = `${play.root}/.aiflow/requests/RQ-1.yaml`;
  await play.go(page, "#/requests");
  writeFileSync(file, "title: By an editor\nrun: 'true'\n");
  await play.sees(page, "By an editor", "main");
  writeFileSync(file, "title: Changed by hand\nrun: 'true'\n");
  await play.sees(page, "Changed by hand", "main");
  rmSync(file);
  await page.locator("main").filter({ hasText: "Changed by hand" }).waitFor({ state: "detached" });
  await play.go(page, "#/processes");
  writeFileSync(`${play.root}/well`, "");
  await play.cli("proc", "create", "web", "--ready", "exec:test -e up", "--health", "exec:test -e well", "--health-interval", "100ms", "--health-failures", "1", "--start", "--no-wait", "--", "sleep", "1000");
  await play.sees(page, "starting", "[data-id=web]");
  writeFileSync(`${play.root}/up`, "");
  await play.sees(page, "ready", "[data-id=web]");
  rmSync(`${play.root}/well`);
  await play.sees(page, "unhealthy", "[data-id=web]");
  play.ok(existsSync(`${play.root}/up`), "the scene is as it was made");
}

export async function usage(play) {
  await play.cli("proc", "create", "busy", "--start", "--", "sh", "-c", "while :; do :; done");
  const page = await play.window({ width: 1600 });
  await play.go(page, "#/processes");
  const row = page.locator("[data-id=busy]");
  await play.until(async () => /[1-9]\d*\.\d %/.test(await row.innerText()), "its share of a processor");
  await play.until(async () => /[KM]B/.test(await row.innerText()), "its memory");
  await play.cli("proc", "stop", "busy");
  await play.until(async () => !/ %/.test(await row.innerText()), "nothing when it has stopped");
}

export async function two_windows(play) {
  await play.cli("proc", "create", "web", "--", "sleep", "1000");
  const page = await play.window(), other = await play.window();
  await play.go(page, "#/processes/web");
  await play.go(other, "#/processes/web");
  await play.sees(other, "not started", "[data-id=web]");
  let loads = 0;
  other.on("load", () => loads++);
  await page.locator(".detail").getByRole("button", { name: "Start", exact: true }).click();
  await play.sees(other, "ready", "[data-id=web]");
  await other.locator(".detail").getByRole("button", { name: "Stop", exact: true }).click();
  await play.sees(page, "stopped", "[data-id=web]");
  play.eq(loads, 0, "loads of the second window");
}
