"""Spec 9, 2 and 3: the runner is killed at random moments; resume loses nothing and repeats nothing that was completed. And a
journal that was cut at any byte is readable up to the cut."""

import json
import os
import pathlib
import random
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "spec"))
from flows import journal, last_document, only_run, processes_of, resume, run_flow, run_ids, spawn_flow, with_tool, write_flow  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402

FLOWS = 500
FLOWS_QUICK = 30
# Each start is noted; two of one task at a time would be noted, too, because the lock dies with its process.
BODY = ('exec 9>>lock.$TASUKI_TASK_ID; flock -n 9 || echo overlap:$TASUKI_TASK_ID >> trace; '
        'echo start:$TASUKI_TASK_ID >> trace; sleep 0.00%d; ')
FLOW = """
flow: a >> outer(b >> inner(c | d) >> e | f >> g) >> h
groups: {inner: {policy: best_effort}}
channel: {merge: {count: sum}}
tasks:
"""


def random_flow(rng):
    lines = []
    for name in "abcdefghi":
        more = "echo '{\"do\": \"add\", \"key\": \"count\", \"value\": 1}' >> $TASUKI_OUTPUT"
        if name == "c":
            more = "exit 1"  # its group passes all the same
        if name == "f":
            more += "; echo '{\"do\": \"spawn\", \"task\": \"x\", \"payload\": {\"run\": [\"sh\", \"-c\", \"echo start:x >> trace\"]}}' >> $TASUKI_OUTPUT"
        task = {"run": BODY % rng.randrange(10) + more}
        if name == "i":
            task["needs"] = ["a"]
        lines.append(f"  {name}: {json.dumps(task)}\n")
    return FLOW + "".join(lines)


def kill_at_random(ws, proc, rng):
    """Kills the runner after a random time, or lets it end."""
    time.sleep(rng.random() * 0.09)
    proc.kill()
    proc.wait()
    proc.stdout.close()
    proc.stderr.close()


def check_journal(records):
    """No recorded completion is repeated; at most one extra start per task in flight and crash."""
    completed, crashes = set(), 0
    starts = {}
    for r in records:
        if r["e"] == "resume":
            crashes += 1
        elif r["e"] == "start":
            assert r["n"] not in completed, f"{r['k']} was completed and started again"
            starts[r["n"]] = starts.get(r["n"], 0) + 1
        elif r["e"] == "end":
            assert r["n"] not in completed, f"{r['k']} was completed twice"
            if r["o"] == "ok":
                completed.add(r["n"])
    for node, count in starts.items():
        assert count <= 1 + crashes, f"node {node} was started {count} times in {crashes} resumes"


def one_flow(ws, rng):
    for name in ("trace", *(f"lock.{n}" for n in "abcdefghi")):
        (ws.path / name).unlink(missing_ok=True)
    known = run_ids(ws)
    kill_at_random(ws, spawn_flow(ws, random_flow(rng), "-j", "3"), rng)
    made = run_ids(ws) - known
    if not made:
        return  # it was killed before it began
    run, = made
    while rng.random() < 0.4:
        kill_at_random(ws, ws.spawn("resume", run, "--json", env=with_tool(ws)), rng)
    result = ws.tasuki("resume", run, "--json", env=with_tool(ws))
    if result.code == 3 and "journal" in result.error["message"]:  # killed before its first record: nothing had been started
        path = ws.path / ".aiflow/runs" / run / "journal"
        assert not path.exists() or b"\n" not in path.read_bytes(), f"a journal with records is refused: {result}"
        return
    stage = last_document(result.expect(0))
    eq((stage["status"], stage["channel"]["count"]), ("DONE", 8), "status and count")
    eq(processes_of(run), [], "processes that are left")
    seen = (ws.path / "trace").read_text().split()
    eq([word for word in seen if word.startswith("overlap")], [], "two of one task at a time")
    records = journal(ws, run)
    check_journal(records)
    started = {}
    for r in records:
        if r["e"] == "start":
            started[r["k"]] = started.get(r["k"], 0) + 1
    for name in "abcdefghix":
        assert 1 <= seen.count(f"start:{name}") <= started[name], f"{name}: {seen.count(f'start:{name}')} starts, {started[name]} in the journal"
    ws.commands.clear()


def many(ws, count):
    seed = random.SystemRandom().randrange(1 << 32)
    rng = random.Random(seed)
    try:
        for _ in range(count):
            one_flow(ws, rng)
    except BaseException:
        print(f"# seed {seed}", flush=True)
        raise


@test(f"{FLOWS_QUICK} flows whose runner is killed at random moments are resumed to the same end", slow=True)
def _(ws):
    many(ws, FLOWS_QUICK)


@test(f"{FLOWS} flows whose runner is killed at random moments are resumed to the same end", quick=False, deadline=780)
def _(ws):
    many(ws, FLOWS)


@test("a task in flight dies with its runner, and what it left behind is ended before anything starts again")
def _(ws):
    proc = spawn_flow(ws, "tasks:\n  a: 'test -e again && exit 0; setsid sleep 300 & echo $! > left; echo $$ > up; sleep 300'\n")
    pid = int(ws.until_file("up"))
    left = int(ws.until_file("left"))
    proc.kill()
    proc.wait()
    ws.until(lambda: not ws.alive(pid), "the task is dead")
    eq(ws.alive(left), True, "whether its grandchild lives")
    run = only_run(ws)
    eq(ws.tasuki("runs", "show", run, "--json").json["status"], "INTERRUPTED", "status")
    (ws.path / "again").touch()
    eq(resume(ws, run)["status"], "DONE", "status")
    eq(ws.alive(left), False, "whether its grandchild lives")


@test("a journal that was cut at any byte is read up to the cut, and the run goes on from there", slow=True)
def _(ws):
    text = "flow: a >> (b | c) >> d\ntasks:\n" + "".join(f"  {n}: 'echo {n} >> trace; echo {n}=1 >> $TASUKI_OUTPUT'\n" for n in "abcd")
    run = run_flow(ws, text)["run_id"]
    path = ws.path / ".aiflow/runs" / run / "journal"
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for cut in range(first, len(whole), 7):
        (ws.path / "trace").unlink(missing_ok=True)
        path.write_bytes(whole[:cut])
        done = {r["k"] for r in journal(ws, run) if r["e"] == "end"}
        stage = resume(ws, run)
        eq((stage["status"], sorted(stage["channel"])), ("DONE", list("abcd")), f"the end after a cut at {cut}")
        ran = set((ws.path / "trace").read_text().split()) if (ws.path / "trace").exists() else set()
        eq(ran, set("abcd") - done, f"what ran after a cut at {cut}")
    path.write_bytes(whole[:first - 5])
    ws.tasuki("resume", run, "--json").expect(3)


STEPS = "flow: a >> (b | c) >> d\ntasks:\n" + "".join(
    f"  {n}: 'echo {n} >> trace; echo {n}=1 >> $TASUKI_OUTPUT; echo printed'\n" for n in "abcd")


def after_fault(ws, known):
    """A run that a fault has hit goes on to the same end, or had not begun."""
    made = run_ids(ws) - known
    if not made:
        return
    run, = made
    path = ws.path / ".aiflow/runs" / run / "journal"
    result = ws.tasuki("resume", run, "--json", env=with_tool(ws))
    if not path.exists() or b"\n" not in path.read_bytes():
        result.expect(3)
        return
    stage = last_document(result.expect(0))
    eq((stage["status"], sorted(stage["channel"])), ("DONE", list("abcd")), f"the end of {run}")
    check_journal(journal(ws, run))


@test("a runner that is killed at any of its file-system calls leaves a run that goes on", quick=False, deadline=400)
def _(ws):
    write_flow(ws, STEPS)
    for at in range(1, 1000):
        (ws.path / "trace").unlink(missing_ok=True)
        known = run_ids(ws)
        result = ws.fault("run", "flow.yaml", "--quiet", "-j", "2", at=at, mode="kill", env=with_tool(ws))
        if result.code == 0 and result.calls is not None and result.calls < at:
            break
        after_fault(ws, known)
    assert 50 < at < 999, f"{at} steps"


@test("a disk that is full at any call is said, and the run goes on later", quick=False, deadline=400)
def _(ws):
    write_flow(ws, STEPS)
    for at in range(1, 1000):
        (ws.path / "trace").unlink(missing_ok=True)
        known = run_ids(ws)
        result = ws.fault("run", "flow.yaml", "--json", "-j", "2", at=at, mode="ENOSPC", env=with_tool(ws))
        if result.code == 0 and result.calls is not None and result.calls < at:
            break
        assert result.code in (0, 3, 7), f"call {at}\n{result}"
        after_fault(ws, known)
    assert 50 < at < 999, f"{at} steps"


@test("with journal: sync a run writes the same journal")
def _(ws):
    stage = run_flow(ws, "journal: sync\nflow: a >> b\ntasks:\n  a: 'true'\n  b: 'true'\n")
    eq([r["e"] for r in journal(ws, stage["run_id"])], ["run", "start", "end", "start", "end", "done"], "records")


@test("a run whose runner was killed can be cancelled")
def _(ws):
    proc = spawn_flow(ws, "tasks:\n  a: 'touch up; sleep 300'\n")
    ws.until(lambda: (ws.path / "up").exists(), "the task runs")
    run = only_run(ws)
    ws.until(lambda: (ws.path / ".aiflow/runs" / run / "stage.json").exists(), "the stage is there")
    os.kill(proc.pid, signal.SIGKILL)
    proc.wait()
    eq(ws.tasuki("runs", "cancel", run, "--json").expect(0).json["status"], "CANCELLED", "status")


main(__name__)
