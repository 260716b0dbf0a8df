"""`--on-conflict after`, with its processes killed at every file-system call: the process that records the pending run, and the runner
that ends and starts it (the runner that it starts is killed at the same call of its own).

What must hold: a pending run that was answered for is not lost, and it begins once, whatever is killed."""

import json
import pathlib
import random
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "spec"))
from flows import journal, processes_of, run_ids, with_tool  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from requests_common import GATE, call, spawn, status  # noqa: E402

STEPS_MAX = 1000  # more file-system calls than this is a bug of its own
SAMPLE = 14  # calls that the quick form kills at
WORK = "echo $(tasuki channel get n) >> trace"
SUCCESSOR = "test $(tasuki channel get n) = 2 || { tasuki run nightly --set n=2 --on-conflict after --quiet && echo yes > recorded; }"


def keep(ws, command):
    folder = ws.path / ".aiflow/flows"
    folder.mkdir(exist_ok=True)
    (folder / "nightly.yaml").write_text(f"tasks:\n  work:\n    run: {json.dumps(command)}\n")
    (ws.path / "other.yaml").write_text("tasks: {a: 'true'}\n")


def pending(ws):
    folder = ws.path / ".aiflow/after"
    return [p.name for p in folder.iterdir() if not p.name.startswith(".")] if folder.exists() else []


def successors(ws):
    """The runs that the pending run has become."""
    return [run for run in run_ids(ws) if journal(ws, run)[0].get("set", {}).get("n") == 2]


def living(ws):
    return [lock for lock in call(ws, "lock", "list").json["locks"] if lock["state"] == "held"]


def until_quiet(ws):
    """No runner lives, and nothing of a killed one."""
    ws.until(lambda: not any(processes_of(run) for run in run_ids(ws)) and not living(ws), "nothing runs")


def clear(ws):
    for name in ("up", "go", "trace", "recorded"):
        (ws.path / name).unlink(missing_ok=True)
    for run in run_ids(ws):
        shutil.rmtree(ws.path / ".aiflow/runs" / run)
    ws.commands.clear()


def comes_to_its_end(ws, n, is_recorded):
    """The next run starts what is pending; what it became is resumed if it was interrupted."""
    until_quiet(ws)
    call(ws, "run", "other.yaml")
    until_quiet(ws)
    eq(pending(ws), [], f"pending after the next run, killed at call {n}")
    found = successors(ws)
    assert len(found) <= 1, f"begun {len(found)} times, killed at call {n}"
    if is_recorded:
        eq(len(found), 1, f"runs of what was recorded, killed at call {n}")
    for run in found:
        if status(ws, run) != "DONE":
            eq(status(ws, run), "INTERRUPTED", "a killed one")
            call(ws, "resume", run)
        eq((status(ws, run), "2" in (ws.path / "trace").read_text().split()), ("DONE", True), "the pending run")


def steps(is_quick):
    return sorted(random.sample(range(1, 260), SAMPLE)) if is_quick else range(1, STEPS_MAX)


def recorder(ws, is_quick):
    keep(ws, GATE.partition("; echo $TASUKI")[0] + "; " + WORK)
    for n in steps(is_quick):
        proc = spawn(ws, "run", "nightly", "--set", "n=1")
        ws.until_file("up")
        result = ws.fault("run", "nightly", "--set", "n=2", "--on-conflict", "after", "--json", at=n, mode="kill", env=with_tool(ws))
        assert result.code in (0, -9), f"exit {result.code}\n{result}"
        (ws.path / "go").touch()
        eq(ws.finish(proc).code, 0, "the run that was there")
        comes_to_its_end(ws, n, result.code == 0)
        clear(ws)
        if result.calls is not None and result.calls < n:
            return
    assert is_quick, f"it makes more than {STEPS_MAX} calls"


def ending_runner(ws, is_quick):
    keep(ws, WORK + "; " + SUCCESSOR)
    alone = 0  # how often neither it nor the runner that it starts was killed
    for n in steps(is_quick):
        result = ws.fault("run", "nightly", "--set", "n=1", "--json", at=n, mode="kill", env=with_tool(ws))
        assert result.code in (0, -9), f"exit {result.code}\n{result}"
        until_quiet(ws)
        found = successors(ws)
        alone += result.code == 0 and len(found) == 1 and status(ws, found[0]) == "DONE"
        comes_to_its_end(ws, n, (ws.path / "recorded").exists())
        clear(ws)
        if alone == 2:
            return
    assert is_quick, f"it makes more than {STEPS_MAX} calls"


@test("recording a pending run, killed at some file-system calls: it is lost only without an answer, and begins once")
def _(ws):
    recorder(ws, True)


@test("the runner that starts a pending run, killed at some file-system calls: it is not lost, and begins once", slow=True)
def _(ws):
    ending_runner(ws, True)


@test("recording a pending run, killed at every file-system call: it is lost only without an answer, and begins once", quick=False, deadline=900)
def _(ws):
    recorder(ws, False)


@test("the runner that starts a pending run, killed at every file-system call: it is not lost, and begins once", quick=False, deadline=900)
def _(ws):
    ending_runner(ws, False)


main(__name__)
