// The workers page, with a real Redis server and real workers.
import { writeFileSync } from "node:fs";
import { axe, settled } from "./whole.mjs";
import { flow } from "./work.mjs";

const row = (page, name) => page.locator(`main [data-id=${name}]`);
const dialogue = (page) => page.getByRole("alertdialog");

export async function workers(play) {
  flow(play, "long", "name: long\nlease: 5s\ntasks: {t: {run: 'while [ ! -e go ]; do sleep 0.1; done', on: [gpu]}}\n");
  const page = await play.window();
  await play.sees(page, "Live", ".live");
  await play.until(async () => /Workers\s*2/.test(await play.text(page, ".side a[href='#/workers']")), "both are counted");
  await page.keyboard.press("g");
  await page.keyboard.press("w");
  await play.sees(page, "Workers", "h1");
  for (const [name, words] of [["alpha", ["up", "gpu", "big", "0 of 2", "ago"]], ["beta", ["up", "0 of 1"]]]) for (const word of words) await play.sees(page, word, `main [data-id=${name}]`);
  const known = (await play.json("workers", "list")).workers.find((one) => one.name === "alpha");
  for (const word of [known.host, known.version]) await play.sees(page, word, "main [data-id=alpha]");

  const run = play.spawn("run", "long");
  await play.sees(page, "1 of 2", "main [data-id=alpha]");
  await row(page, "alpha").getByRole("button", { name: "Stop…" }).click();
  await play.sees(page, "Their unfinished work is lost", "[role=alertdialog]");
  await play.sees(page, "1 of 2", "[role=alertdialog]");
  await page.keyboard.press("Enter"); // the safe answer has the focus
  await dialogue(page).waitFor({ state: "detached" });
  await row(page, "alpha").getByRole("button", { name: "Drain…" }).click();
  await dialogue(page).getByRole("button", { name: "Drain", exact: true }).click();
  await play.sees(page, "draining", "main [data-id=alpha]");
  await play.until(() => row(page, "alpha").getByRole("button", { name: "Drain…" }).isDisabled(), "it drains already");
  play.eq(run.exitCode, null, "the run, whose task goes on");
  writeFileSync(`${play.root}/go`, "");
  await row(page, "alpha").waitFor({ state: "detached" });
  await row(page, "beta").getByRole("button", { name: "Stop…" }).click();
  await dialogue(page).getByRole("button", { name: "Stop", exact: true }).click();
  await play.sees(page, "No worker yet", "main");

  play.mayLoseServer = true; // refusals because of Redis are expected now
  process.kill(play.redis, "SIGKILL");
  await play.sees(page, /Redis|127\.0\.0\.1/, "main .finding");
}

/** Light, dark, narrow, three languages. */
export async function looks(play) {
  for (const [theme, width, locale, word] of [["light", 1440, "en-US", "Last sign"], ["dark", 1440, "zh-CN", "最近响应"], ["light", 380, "ja-JP", "退出させる…"], ["light", 768, "en-US", "Drain…"]]) {
    const page = await play.window({ theme, width, locale });
    await play.go(page, "#/workers");
    await play.sees(page, word, "main");
    await settled(page);
    await axe(play, page, `the workers, ${theme}, ${width}`, { theme });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    play.ok(wide <= 0, `the workers are ${wide} px too wide at ${width}`);
    const over = await page.locator("main .c-worker:not(.th)").first().evaluate((one) => one.scrollWidth - one.clientWidth);
    play.ok(over <= 0, `a row is ${over} px too wide at ${width}`);
    await page.context().close();
  }
}

export async function without(play) {
  const page = await play.window();
  await play.sees(page, "Live", ".live");
  await play.go(page, "#/workers");
  await play.sees(page, "No Redis server is configured", "main");
  play.eq(await page.locator(".side a[href='#/workers']").count(), 0, "entries for workers");
}
