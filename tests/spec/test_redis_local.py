"""Spec 6, "More than one machine": --local, the machine that began the run executes tasks beside the workers."""

import signal

from flows import last_document, only_run, write_flow
from harness.harness import eq, main, test
from harness.redis import Redis

MIXED = """name: mixed
lease: 5s
flow: fetch >> four(a | b | c | d) >> join >> rounds >> last
groups: {four: {policy: best_effort}}
channel: {merge: {seen: append}}
tasks:
  fetch: {run: 'echo seed=3 >> "$TASUKI_OUTPUT"; echo fetched'}
  a: {run: 'tasuki channel set a $(($(tasuki channel get seed) + 1))'}
  b: {run: 'test "$TASUKI_ATTEMPT" = 2 && tasuki channel append seen b', retries: 1}
  c: {run: 'exit 3'}
  d: {run: 'tasuki channel append seen d; echo d=[1,2] >> "$TASUKI_OUTPUT"; printf "%s\\n" one two'}
  join: {run: 'cat "$TASUKI_CHANNEL"'}
  rounds: {run: 'tasuki channel add rounds 1; grep -q \'\'"rounds.:2\'\' "$TASUKI_CHANNEL" || tasuki task again'}
  last: {run: 'echo end'}
"""


def facts(stage):
    return (stage["status"], stage["channel"], sorted((t["task"], t["state"], t["attempt"], t["exit_code"]) for t in stage["tasks"]))


@test("one flow at a time in memory, through Redis and with --local: the same values, the same ends", slow=True)
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "2", "--name", "far")
    flow, env = write_flow(ws, MIXED), {"PATH": redis.env()["PATH"]}
    ways = {"memory": ([], env), "redis": ([], redis.env()), "local": (["--local"], redis.env())}
    runs = {name: ws.spawn("run", flow, "--json", *more, env=e) for name, (more, e) in ways.items()}
    stages = {name: last_document(ws.finish(one).expect(0)) for name, one in runs.items()}
    eq(facts(stages["redis"]), facts(stages["memory"]), "through Redis")
    eq(facts(stages["local"]), facts(stages["memory"]), "with --local")
    eq(redis.keys_without_ttl(), [], "keys without a TTL")


@test("--local alone: the starter is the only worker, works for its own run only, and leaves with it")
def _(ws):
    redis = Redis(ws)
    flow = write_flow(ws, "tasks: {t: {run: 'echo $TASUKI_WORKER > who; tasuki workers list --json > list; until test -e go; do sleep 0.05; done'}}\n")
    runner = ws.spawn("run", flow, "--local", "--json", env=redis.env())
    who = ws.until_file("who").strip()
    eq(who.endswith("-local"), True, f"the worker's name, {who}")
    other = ws.spawn("run", write_flow(ws, "tasks: {u: {run: 'echo u >> trace'}}\n", "other.yaml"), "--json", env=redis.env())
    ws.until(lambda: redis.call("KEYS", "tasuki:*:queue:*"), "the attempt of the other run")
    (ws.path / "go").touch()
    eq(last_document(ws.finish(runner).expect(0))["status"], "DONE", "status")
    ws.until(lambda: redis.call("ZCARD", "tasuki:{pool default}:w") == 0, "the worker's leave")
    eq((ws.path / "trace").exists(), False, "whether it worked for the other run")
    other.send_signal(signal.SIGINT)
    ws.finish(other)
    eq(redis.keys_without_ttl(), [], "keys without a TTL")


@test("--local without a server is refused")
def _(ws):
    ws.tasuki("run", write_flow(ws, "tasks: {t: {run: 'true'}}\n"), "--local").expect(2)


@test("a runner with --local that is killed takes its worker and its task with it; resume goes on with a worker of its own", slow=True)
def _(ws):
    redis = Redis(ws)
    flow = write_flow(ws, "lease: 30s\ntasks: {t: {run: 'echo $$ >> pids; test -e go || exec sleep 1000'}}\n")
    runner = ws.spawn("run", flow, "--local", "--json", env=redis.env())
    pid = int(ws.until_file("pids"))
    runner.kill()
    ws.finish(runner)
    ws.until(lambda: not ws.alive(pid), "the end of the task")
    (ws.path / "go").touch()
    stage = last_document(ws.tasuki("resume", only_run(ws), "--json", env=redis.env()).expect(0))
    eq(stage["status"], "DONE", "status")
    ws.until(lambda: redis.call("ZCARD", "tasuki:{pool default}:w") == 0, "the workers' leave")


main(__name__)
