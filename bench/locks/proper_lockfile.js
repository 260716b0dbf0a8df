// The peer from npm, as its documentation says to use it. Arguments: NODE_MODULES PART FILE NUMBER
//   uncontended FILE COUNT   lock and release COUNT times; prints JSON
//   hold FILE STALE_MS       locks, prints "held", stays
//   wait FILE STALE_MS       prints "waiting", retries every 10 ms until it holds, prints "held"
'use strict';
const fs = require('fs');
const path = require('path');
const [modules, part, file, number] = process.argv.slice(2);
const lockfile = require(path.join(modules, 'proper-lockfile'));

async function uncontended(count) {
  for (let i = 0; i < count / 10; i++) await (await lockfile.lock(file))();
  const start = process.hrtime.bigint();
  for (let i = 0; i < count; i++) await (await lockfile.lock(file))();
  const seconds = Number(process.hrtime.bigint() - start) / 1e9;
  console.log(JSON.stringify({ method: 'proper-lockfile', count, per_second: count / seconds }));
}

async function hold(stale) {
  const retries = { forever: true, factor: 1, minTimeout: 10, maxTimeout: 10 };
  if (part === 'wait') console.log('waiting');
  await lockfile.lock(file, { stale, retries: part === 'wait' ? retries : 0 });
  console.log('held');
  setInterval(() => {}, 1 << 30);
}

fs.closeSync(fs.openSync(file, 'a')); // it locks files that exist
(part === 'uncontended' ? uncontended(Number(number)) : hold(Number(number))).catch((error) => {
  console.error(error);
  process.exit(1);
});
