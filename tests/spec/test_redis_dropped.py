"""Spec 6, "More than one machine": a server that is short of memory drops keys (maxmemory-policy allkeys-lru, say), and logs that are long."""

import os
import pathlib
import signal

from flows import journal, last_document, only_run, trace, write_flow
from harness.harness import children_of, eq, main, test
from harness.redis import Redis

WAIT = "until test -e go; do sleep 0.05; done"
FLOW = f"""
lease: 1s
flow: first >> (left | right) >> last
tasks:
  first: {{run: 'tasuki channel set k 1'}}
  left:  {{run: '{WAIT}; cat $TASUKI_CHANNEL; echo left >> trace'}}
  right: {{run: '{WAIT}; cat $TASUKI_CHANNEL; echo right >> trace'}}
  last:  {{run: 'echo last >> trace'}}
"""
ONE = f"tasks:\n  one: {{run: 'echo begun >> trace; {WAIT}; echo printed'}}\n"


def keys_of(redis, name):
    return [key for key in redis.call("KEYS", "*:{RUN-*") if key.split("}:")[1].startswith(name)]


def ended(ws, run):
    return sorted(line["k"] for line in journal(ws, run) if line["e"] == "end")


for dropped in ("queue:", "queues", "specs:", "channel:", "results", "state", "lease"):
    @test(f"a server that drops {dropped} of a run while a task runs and another one waits: the run goes on, each task ends once", slow=True)
    def _(ws, dropped=dropped):
        redis = Redis(ws)
        redis.worker("-j", "1")
        runner = ws.spawn("run", write_flow(ws, FLOW), "-j", "2", "--json", env=redis.env())
        ws.until(lambda: keys_of(redis, "queue:") and keys_of(redis, "channel:"), "a task that waits")
        eq([redis.call("DEL", key) for key in keys_of(redis, dropped)] != [], True, "whether something was dropped")
        (ws.path / "go").touch()
        eq(last_document(ws.finish(runner, timeout=120).expect(0))["status"], "DONE", "status")
        eq(ended(ws, only_run(ws)), ["first", "last", "left", "right"], "ends in the journal")


def begin_one(ws, redis):
    runner = ws.spawn("run", write_flow(ws, ONE), "--json", env=redis.env())
    ws.until(lambda: "begun" in trace(ws), "the task")
    return runner


def put_logs(redis, count, size):
    """As if the task had printed; the runner has had these bytes, and does not write them again."""
    key = keys_of(redis, "results")[0]
    redis.call("EVAL", "for i = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 't', 'log', 'i', ARGV[3], 'f', '1', 'o', '0', 'b', "
                       "string.rep('x', ARGV[2])) end", 1, key, count, size, redis.call("HKEYS", keys_of(redis, "specs:")[0])[0])
    return key


@test("a task that has printed for hours, while no other ended: the server keeps little of its log, and it ends once", slow=True)
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "1")
    runner = begin_one(ws, redis)
    results = put_logs(redis, 20000, 1)
    ws.until(lambda: redis.call("XLEN", results) < 100, "the removal of what the runner has")
    (ws.path / "go").touch()
    stage = last_document(ws.finish(runner).expect(0))
    eq(([task["takeovers"] for task in stage["tasks"]], trace(ws)), ([0], ["begun"]), "takeovers, and what ran")


def resident(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def steps_taken(redis):
    return sum(int(line.split("calls=")[1].split(",")[0]) for line in redis.call("INFO", "commandstats").splitlines()
               if line.startswith("cmdstat_fcall:"))


@test("a runner that is stopped while its tasks print a lot: its link leaves most of that on the server", slow=True)
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "1")
    runner = begin_one(ws, redis)
    link = children_of(runner.pid)[0]
    os.kill(runner.pid, signal.SIGSTOP)
    put_logs(redis, 2500, 65000)
    taken = steps_taken(redis)
    ws.until(lambda: steps_taken(redis) >= taken + 20, "some turns of the link")
    assert resident(link) < 80 << 20, f"the link has {resident(link)} bytes"
    os.kill(runner.pid, signal.SIGCONT)
    (ws.path / "go").touch()
    eq(last_document(ws.finish(runner).expect(0))["status"], "DONE", "status")


main(__name__)
