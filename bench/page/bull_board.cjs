// bull_board.cjs JOBS REDIS_PORT: bull-board over one BullMQ queue with so many jobs that wait. Prints the page's address.
const { createRequire } = require("node:module");
const need = createRequire(`${process.env.BULL_MODULES}/`);
const { createBullBoard } = need("@bull-board/api");
const { BullMQAdapter } = need("@bull-board/api/bullMQAdapter");
const { ExpressAdapter } = need("@bull-board/express");
const { Queue } = need("bullmq");

const [jobs, port] = process.argv.slice(2).map(Number);

async function main() {
  const queue = new Queue("requests", { connection: { host: "127.0.0.1", port } });
  await queue.addBulk(Array.from({ length: jobs }, (_, i) => ({ name: `Request ${i}`, data: {} })));
  const adapter = new ExpressAdapter();
  createBullBoard({ queues: [new BullMQAdapter(queue)], serverAdapter: adapter });
  const app = need("express")();
  app.use("/", adapter.getRouter());
  const server = app.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/queue/requests?status=waiting`));
}

main();
