// bull.mjs N DEPTH PORT: N jobs that do nothing, through BullMQ: one process adds them, another executes DEPTH at a time. Prints seconds.
import { fork } from "node:child_process";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(process.env.BULL_MODULES + "/"));
const { Queue, Worker } = require("bullmq");
const [total, depth, port, role] = process.argv.slice(2);
const connection = { host: "127.0.0.1", port: Number(port), maxRetriesPerRequest: null };
const name = "bench";

async function work() {
  let done = 0;
  const worker = new Worker(name, async () => {}, { connection, concurrency: Number(depth), removeOnComplete: { count: 0 } });
  worker.on("completed", () => { if (++done === Number(total)) process.send("done"); });
  worker.on("error", (error) => { console.error(error.message); process.exit(1); });
  await worker.waitUntilReady();
  process.send("ready");
}

async function add() {
  const queue = new Queue(name, { connection });
  await queue.obliterate({ force: true });
  const spec = "s".repeat(300);
  const batch = (from, count) => Array.from({ length: count }, (_, i) => ({ name: "t", data: { spec, i: from + i }, opts: { removeOnComplete: true } }));
  const child = fork(process.argv[1], [total, depth, port, "worker"]);
  const messages = [];
  const wait = (word) => new Promise((resolve) => child.on("message", (m) => m === word && resolve()));
  messages.push(wait("done"));
  await wait("ready");
  const began = performance.now();
  for (let at = 0; at < Number(total); at += 256)
    await queue.addBulk(batch(at, Math.min(256, Number(total) - at)));
  await messages[0];
  console.log(JSON.stringify({ seconds: (performance.now() - began) / 1000, attempts: Number(total) }));
  child.kill("SIGKILL");
  process.exit(0);
}

await (role === "worker" ? work() : add());
