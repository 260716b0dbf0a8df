"""The process that runs the queue or a request is killed at random moments. After that every request runs to its end exactly
once, no lock is stuck, and there is nothing to clean up by hand."""

import json
import os
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "spec"))
from flows import journal, last_document, processes_of, run_ids, with_tool  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from requests_common import call, no_locks, runs_of  # noqa: E402
from storm.victims import everybody, strike  # noqa: E402

ROUNDS = 200
ROUNDS_QUICK = 30
PER_WORLD = 10  # kills, then everything must come to its end
# An overlap of two executions of one request would be noted: the lock dies with its process.
BODY = "exec 9>>lock.$R; flock -n 9 || echo overlap:$R >> trace; exec 9>&-; sleep 0.00%d; echo %s:$R >> trace"
FLOW = "flow: a >> (b | c) >> d\nlimits: {parallel: 1}\ntasks:\n"


def write_request(ws, rng, id):
    flow = ws.path / f"{id}.flow.yaml"
    tasks = [f"  {name}: {json.dumps({'run': BODY % (rng.randrange(10), name), 'env': {'R': id}})}\n" for name in "abcd"]
    flow.write_text(FLOW + "".join(tasks))
    status = "draft" if is_by_hand(id) else "ready"
    (ws.path / f".aiflow/requests/{id}.yaml").write_text(f"title: {id}\nstatus: {status}\nflow: {flow.name}\npriority: P{rng.randrange(4)}\n")


def is_by_hand(id):
    """The queue leaves drafts alone: they are begun once, and resumed, by hand."""
    return id.endswith("h")


def by_hand(ws, is_alone=False):
    """The commands that begin or continue drafts, except those that are done or being run. A caller that is alone may run an
    interrupted one by its request: no other can have run it since, which would make it a second time."""
    found = []
    for one in call(ws, "request", "list").json["requests"]:
        latest = one["latest_run"]
        if is_by_hand(one["id"]) and not latest:
            found.append(["request", "run", one["id"]])
        elif is_by_hand(one["id"]) and latest["status"] == "INTERRUPTED":
            found.append(["request", "run", one["id"]] if is_alone else ["resume", latest["run_id"]])
    return found


def start(ws, rng):
    """Somebody begins to work: a queue or a request, in the foreground or apart."""
    commands = by_hand(ws) if rng.random() < 0.4 else []
    command = rng.choice(commands or [["queue", "run"]]) + rng.choice([[], ["--detach"]])
    return ws.spawn(*command, "--quiet", env=with_tool(ws), stdout=-3, stderr=-3)


def settle(ws, ids):
    """Restart and resume, as a person would: the queue until it has nothing left, the others one by one."""
    for _ in range(100):
        result = ws.tasuki("queue", "run", "--json", env=with_tool(ws))
        # A detached one that nobody has killed may be about to begin a draft: who begins it as well does it twice, as he said.
        ws.until(lambda: not set(everybody()) & {"runner", "holder"}, "nobody is at work")
        for command in by_hand(ws, is_alone=True):
            ws.tasuki(*command, "--quiet", env=with_tool(ws)).expect(0)
        if result.code == 0 and last_document(result)["reason"] == "EMPTY":
            runs = runs_of(ws)
            if all(r["status"] == "DONE" for r in runs) and len(runs) >= len(ids):
                return
        else:
            assert result.code in (0, 4), str(result)
    raise AssertionError("the queue did not come to its end")


def check_world(ws, ids):
    runs = runs_of(ws)
    eq(sorted((r["request_id"], r["status"]) for r in runs), [(id, "DONE") for id in sorted(ids)], "one run of each, done")
    words = (ws.path / "trace").read_text().split()
    eq([w for w in words if w.startswith("overlap")], [], "two at a time")
    for one in runs:
        completed, ends = set(), 0
        for record in journal(ws, one["run_id"]):
            if record["e"] == "start":
                assert not ends, f"{record['k']} of {one['request_id']} was started after the end"
                assert record["n"] not in completed, f"{record['k']} of {one['request_id']} was completed and started again"
            elif record["e"] == "end":
                assert record["n"] not in completed, f"{record['k']} of {one['request_id']} was completed twice"
                completed.add(record["n"])
            ends += record["e"] == "done" and record["status"] == "DONE"
        # A runner that was killed between its last record and its last stage ends twice, but does nothing twice.
        eq((len(completed), ends > 0), (4, True), f"the tasks and the end of {one['request_id']}")
        for name in "abcd":
            assert f"{name}:{one['request_id']}" in words, f"{name} of {one['request_id']} was never executed"
        eq(processes_of(one["run_id"]), [], "processes that are left")
    # A runner that was killed behind its last word has left a lock file that stops nobody.
    eq({lock["state"] for lock in call(ws, "lock", "list").json["locks"]} - {"stale"}, set(), "locks that are stuck")
    call(ws, "doctor", "--full")
    no_locks(ws)
    report = call(ws, "doctor", "--full").json
    eq([c for c in report["checks"] if c["status"] != "PASS"], [], "what the doctor finds")


def one_world(ws, rng, number):
    ids = []
    for _ in range(PER_WORLD):
        for _ in range(rng.randrange(1, 4)):
            ids.append(f"RQ-{number}-{len(ids)}" + rng.choice(["", "", "h"]))
            write_request(ws, rng, ids[-1])
        proc = start(ws, rng)
        time.sleep(rng.random() * 0.12)
        strike(rng)
        if rng.random() < 0.5:  # the dead are collected later: a pid that is a zombie must not look alive
            proc.wait()
    settle(ws, ids)
    check_world(ws, ids)


def many(ws, rounds):
    seed = int(os.environ.get("TASUKI_SEED") or random.SystemRandom().randrange(1 << 32))
    rng = random.Random(seed)
    try:
        for number in range(rounds // PER_WORLD):
            one_world(ws, rng, number)
            for path in (ws.path / ".aiflow/requests").iterdir():
                path.unlink()
            for run in run_ids(ws):
                os.rename(ws.path / ".aiflow/runs" / run, ws.base / run)
            (ws.path / "trace").unlink()
            ws.close()
            ws.commands.clear()
    except BaseException:
        print(f"# TASUKI_SEED={seed}", flush=True)
        raise


@test(f"{ROUNDS_QUICK} kills of runners, queue runners and holders: every request runs to its end once", slow=True)
def _(ws):
    many(ws, ROUNDS_QUICK)


@test(f"{ROUNDS} kills of runners, queue runners and holders: every request runs to its end once", quick=False, deadline=400)
def _(ws):
    many(ws, ROUNDS)


main(__name__)
