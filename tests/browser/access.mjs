// For everybody: axe on every dialogue, menu and special state in light and dark; the bars of a run as the accessibility tree has them.
import { Agent, sleeper } from "./feed.mjs";
import { Proxy } from "./storm.mjs";
import { axe, furnish } from "./whole.mjs";
import { flow } from "./work.mjs";

const menu = (page, inside) => page.locator(`${inside} [data-menu]`).first().click();
const item = (page, name) => page.getByRole("menuitem", { name }).click();

/** Where, how it is opened, and a selector of what opens. */
const dialogues = [
  ["#/processes", (page) => page.getByRole("button", { name: "New process" }).click(), "[role=dialog]"],
  ["#/processes", async (page) => (await menu(page, ".list-pane .tools-row"), await item(page, /^Import/)), "[role=dialog]"],
  ["#/processes/web", (page) => page.locator(".detail").getByRole("button", { name: "Edit" }).click(), "[role=dialog]"],
  ["#/processes/web", (page) => menu(page, ".detail"), "[role=menu]"],
  ["#/processes/web", async (page) => (await menu(page, ".detail"), await item(page, /^Remove/)), "[role=alertdialog]"],
  ["#/requests", (page) => page.getByRole("button", { name: "New request" }).click(), "[role=dialog]"],
  ["#/requests", (page) => menu(page, "[data-id=RQ-4]"), "[role=menu]"],
  ["#/requests", async (page) => (await menu(page, "[data-id=RQ-4]"), await item(page, /^Edit/)), "[role=dialog]"],
  ["#/requests", async (page) => (await menu(page, "[data-id=RQ-4]"), await item(page, /^Remove/)), "[role=alertdialog]"],
  ["#/requests", async (page) => (await menu(page, ".auto"), await item(page, /^With limits/)), "[role=dialog]"],
  ["#/locks", (page) => page.locator("[data-id=deploy]").getByRole("button", { name: "Force…" }).click(), "[role=alertdialog]"],
  ["#/", (page) => page.keyboard.press("?"), "[role=dialog]"],
  ["#/", (page) => page.locator(".btn.inbox").click(), "[role=dialog]"],
  ["#/", (page) => page.locator(".side footer [data-menu]").click(), "[role=menu]"],
  ["#/events", (page) => page.locator(".c-event button").first().click(), ".json"],
];

async function closed(play, page) {
  for (let i = 0; i < 3 && (await page.locator("[role=dialog], [role=alertdialog], [role=menu]").count()) > 0; i++) await page.keyboard.press("Escape");
  await play.until(async () => (await page.locator("[role=dialog], [role=alertdialog], [role=menu]").count()) === 0, "it is closed");
}

export async function opened(play) {
  await furnish(play);
  for (const theme of ["light", "dark"]) {
    const page = await play.window({ theme });
    await play.sees(page, "Live", ".live");
    for (const [hash, open, what] of dialogues) {
      await play.go(page, hash);
      await page.locator("main .page, main .split").first().waitFor();
      await open(page);
      await page.locator(what).first().waitFor();
      await axe(play, page, `${what} of ${hash}, ${theme}: ${open}`, { inside: what, theme }); // what is behind it is looked at with the pages
      await closed(play, page);
    }
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox").fill("validate");
    await play.sees(page, "tasuki flow validate", "[role=option]");
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").locator("form").waitFor();
    await axe(play, page, `the form of an operation, ${theme}`, { theme });
    await page.context().close();
  }
}

/** What is not there every day: a conflict, an agent's question, a page without its server or its token. */
export async function special(play) {
  play.mayLoseServer = true;
  flow(play, "long", "name: long\ntasks: {wait: {run: 'sleep 1000'}}\n");
  await play.cli("request", "add", "First", "--id", "RQ-1", "--flow", "long");
  await play.cli("queue", "run", "--detach").catch(() => undefined);
  if ((await play.json("queue", "status")).status !== "running") play.spawn("queue", "run");
  await play.until(async () => (await play.json("queue", "status")).status === "running", "the queue runs");
  const holder = await sleeper(play);
  await play.cli("lock", "acquire", "name", "deploy", "--pid", String(holder.pid));
  const agent = await new Agent(play).begin("cursor");
  for (const theme of ["light", "dark"]) {
    const proxy = new Proxy();
    const port = await proxy.start(play.port);
    const page = await play.window({ theme, address: `http://127.0.0.1:${port}/${new URL(play.page).hash}` });
    await play.sees(page, "Queue running", ".strip");
    await play.go(page, "#/requests");
    await page.getByRole("button", { name: "Run next" }).click();
    await page.getByRole("alertdialog").waitFor();
    await axe(play, page, `the conflict of queues, ${theme}`, { theme });
    await closed(play, page);
    await agent.call("lock_acquire", { kind: "name", id: "deploy", force: true });
    await page.locator(".strip.askfor").first().waitFor();
    await axe(play, page, `what an agent asks, ${theme}`, { theme });
    await page.locator(".strip.askfor").first().getByRole("button", { name: "Allow" }).click();
    await page.getByRole("alertdialog").waitFor();
    await axe(play, page, `its second question, ${theme}`, { theme });
    await closed(play, page);
    proxy.turn("closed");
    await play.sees(page, "Not live since", ".strip.off");
    await axe(play, page, `a page that is not live, ${theme}`, { theme });
    proxy.stop();
    await page.context().close();
    const refused = await play.window({ theme, address: `${play.url}/` });
    await play.sees(refused, "This page needs its token");
    await axe(play, refused, `a page without its token, ${theme}`, { theme });
    await refused.context().close();
  }
}

/** What a screen reader is told of a run is what the picture shows. */
export async function tree(play) {
  const run = await furnish(play);
  const page = await play.window({ height: 1200 });
  await play.go(page, `#/runs/${run}`);
  await page.locator(".graph [data-task=chromium].warn").waitFor();
  const session = await page.context().newCDPSession(page);
  const value = (node, name) => node.properties?.find((one) => one.name === name)?.value.value;
  const told = async () => {
    const { nodes } = await session.send("Accessibility.getFullAXTree");
    const byId = new Map(nodes.map((one) => [one.nodeId, one]));
    const grid = nodes.find((one) => one.role?.value === "treegrid");
    const rows = [];
    const walk = (node) => {
      if (node.role?.value === "row") rows.push([value(node, "level"), words(node)]);
      else for (const id of node.childIds ?? []) if (byId.has(id)) walk(byId.get(id));
    };
    const words = (node) => (node.role?.value === "StaticText" || node.role?.value === "image" || node.role?.value === "img" ? node.name?.value : (node.childIds ?? []).map((id) => (byId.has(id) ? words(byId.get(id)) : "")).join(" "));
    walk(grid);
    return rows.slice(1); // without the heads
  };
  const levels = { fetch: 1, checks: 1, lint: 2, unit: 2, browsers: 2, chromium: 3, firefox: 3, publish: 1 };
  await play.until(async () => {
    const rows = await told();
    const drawn = Object.fromEntries(await page.locator(".graph [data-task]").evaluateAll((all) => all.map((one) => [one.getAttribute("data-task"), one.getAttribute("aria-label").split(", ").pop()])));
    const isSame = Object.entries(drawn).every(([task, state]) => rows.some(([, text]) => text.includes(task) && text.includes(state)));
    const isDeep = Object.entries(levels).every(([task, level]) => rows.some(([deep, text]) => deep === level && text.split(/\s+/).includes(task)));
    return rows.length === Object.keys(levels).length && Object.keys(drawn).length >= 6 && isSame && isDeep;
  }, "the treegrid has what the graph shows").catch(async (error) => {
    throw new Error(`${error.message}: ${JSON.stringify(await told())}`);
  });
}
