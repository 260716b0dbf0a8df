// browser.mjs MODULES CHROMIUM - a Chromium for all scenarios of a suite: prints where it is, and ends when its input does.
export const ARGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];

const [, file, modules, executablePath] = process.argv;
if (file.endsWith("/browser.mjs")) {
  const { chromium } = await import(`${modules}/playwright-core/index.mjs`);
  const server = await chromium.launchServer({ executablePath, args: ARGS });
  server.on("close", () => process.exit(0)); // it has died
  process.stdin.on("end", () => void server.close()).resume();
  console.log(server.wsEndpoint());
}
