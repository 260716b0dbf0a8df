"""Runs that have ended are removed: when they are old and not among the newest, a few at a time, and never what somebody needs."""

import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness.harness import eq, main, test  # noqa: E402
from prune_common import age, ids, left_behind, old_run, runs_dir  # noqa: E402
from requests_common import add, call, listed, run, shown, spawn  # noqa: E402

ALL = ("runs", "prune", "--keep", "0", "--older", "0s")


def config(ws, text):
    (ws.path / ".aiflow/config.yaml").write_text(text)


def copies(ws, run_id, count):
    """As many runs more, as old as `run_id`."""
    for i in range(count):
        shutil.copytree(runs_dir(ws) / run_id, runs_dir(ws) / f"RUN-20190101T{i // 60:04}{i % 60:02}-{i:06x}")


def new_run(ws):
    call(ws, "run", "one.yaml")
    return max(ids(ws))


@test("a run goes only when it is older than 30 days and not among the newest 200")
def _(ws):
    old = old_run(ws)
    eq(call(ws, "runs", "prune").json["removed"], [], "it is among the newest 200")
    eq(call(ws, "runs", "prune", "--keep", "1").json["removed"], [], "it is the newest")
    new = new_run(ws)
    eq(call(ws, "runs", "prune", "--keep", "0").json["removed"], [old], "the old one goes, the new one is younger than 30 days")
    eq(ids(ws), [new], "what is left")
    eq(call(ws, *ALL).json["removed"], [new], "no limits")
    eq((ids(ws), left_behind(ws)), ([], []), "nothing is left")


@test("a run of long ago that ended a moment ago stays: its end counts")
def _(ws):
    old = old_run(ws, command="test -e repaired", code=7)
    (ws.path / "repaired").touch()
    call(ws, "resume", old)
    eq(call(ws, "runs", "prune", "--keep", "0").json["removed"], [], "removed")


@test("keep in config.yaml says how many runs and days are kept; a wrong value is refused with its place, and doctor finds it")
def _(ws):
    old = old_run(ws)
    config(ws, "keep: {runs: 0, days: 36500}\n")
    eq(call(ws, "runs", "prune").json["removed"], [], "100 years")
    config(ws, "keep: {runs: 0}\n")
    eq(call(ws, "runs", "prune").json["removed"], [old], "30 days")
    config(ws, "keep: {runs: many}\n")
    refusal = call(ws, "runs", "prune", code=2, reason="INVALID_INPUT").json["error"]["message"]
    eq("config.yaml:1:14: keep.runs must be a number" in refusal, True, refusal)
    checks = {one["name"]: one for one in call(ws, "doctor", code=3).json["checks"]}
    eq(checks["config"]["status"], "FAIL", "doctor")


@test("--dry-run names the runs and removes nothing")
def _(ws):
    old = old_run(ws)
    eq(call(ws, *ALL, "--dry-run").json, {"removed": [old], "count": 1, "dry_run": True}, "the answer")
    eq(ids(ws), [old], "the runs")


@test("the end of a run removes at most 20 old runs, repeated ends come to all of them; a look removes nothing")
def _(ws):
    old = old_run(ws)
    copies(ws, old, 49)
    config(ws, "keep: {runs: 5}\n")
    for words in (["runs", "list"], ["runs", "show"], ["status"], ["doctor"], ["runs", "prune", "--dry-run"]):
        call(ws, *words)
    eq(len(ids(ws)), 50, "after looks")
    for left in (31, 12, 5, 5):
        new_run(ws)
        eq(len(ids(ws)), left, "the runs after one more")
    eq(left_behind(ws), [], "what is left of them")


@test("a request's run and a queue remove old runs, too")
def _(ws):
    config(ws, "keep: {runs: 0}\n")
    for number, words in enumerate((["request", "run", "RQ-1"], ["queue", "run"])):
        old = old_run(ws, number, keep=0)
        add(ws, f"RQ-{number + 1}", "true")
        call(ws, *words)
        eq(old in ids(ws), False, f"{old} after {words}")


@test("doctor --fix removes 20 and says so; doctor alone says how many can go")
def _(ws):
    copies(ws, old_run(ws), 29)
    config(ws, "keep: {runs: 0}\n")
    lines = str(call(ws, "doctor").json)
    eq("old runs that can be removed: 20" in lines, True, lines)
    eq("old runs that were removed: 20" in str(call(ws, "doctor", "--fix").json), True, "the report")
    eq(len(ids(ws)), 10, "what is left")


@test("everything is pruned, and no request changes its state: the latest run of each stays, as do those that wait or are interrupted")
def _(ws):
    add(ws, "RQ-done", "true")
    add(ws, "RQ-failed", "exit 3")
    add(ws, "RQ-asks", 'tasuki task ask "Which?"')
    add(ws, "RQ-killed", "kill -9 $PPID; while :; do :; done")
    add(ws, "RQ-after", "true", depends_on=["RQ-done"])
    add(ws, "RQ-again", "true")
    for number, (id, code) in enumerate((("RQ-again", 0), ("RQ-again", 0), ("RQ-done", 0), ("RQ-failed", 7), ("RQ-asks", 8), ("RQ-killed", -9))):
        run(ws, id, *(["--new"] if number == 1 else []), code=code) if code >= 0 else spawn(ws, "request", "run", id).wait()
        age(ws, max(ids(ws)), number)
    ws.until(lambda: listed(ws)["RQ-killed"]["status"] != "running", "its task, which has the lock, too, is gone")
    config(ws, "keep: {runs: 0, days: 0}\n")
    before, states = len(ids(ws)), {id: (one["status"], one["latest_run"]) for id, one in listed(ws).items()}
    eq(len(call(ws, *ALL).json["removed"]), 1, "only the older run of RQ-again goes")
    eq(len(ids(ws)), before - 1, "the runs")
    eq({id: (one["status"], one["latest_run"]) for id, one in listed(ws).items()}, states, "the states")
    eq(states["RQ-killed"][1]["status"], "INTERRUPTED", "the run that was killed")
    call(ws, "request", "rm", "RQ-done")
    eq(len(call(ws, *ALL).json["removed"]), 1, "the run of a request that is gone")


@test("runs rm removes a run that has ended, and refuses others with the command that helps")
def _(ws):
    old = old_run(ws)
    eq(call(ws, "runs", "rm", old).json, {"run_id": old, "removed": True}, "the answer")
    call(ws, "runs", "show", old, code=5, reason="RUN_NOT_FOUND")
    add(ws, "RQ-asks", 'tasuki task ask "Which?"')
    asks = run(ws, "RQ-asks", code=8)["run_id"]
    refusal = call(ws, "runs", "rm", asks, code=8, reason="NEEDS_INPUT").json["error"]
    eq(refusal["next"], [f"tasuki runs show {asks}", f"tasuki runs cancel {asks}"], "it waits")
    call(ws, "runs", "cancel", asks)
    refusal = call(ws, "runs", "rm", asks, code=4, reason="CONFLICT").json["error"]
    eq(refusal["next"], ["tasuki request rm RQ-asks"], "the latest run of its request")
    add(ws, "RQ-long", "echo $$ > up; while ! test -e go; do sleep 0.01; done")
    long = call(ws, "request", "run", "RQ-long", "--detach").json["run_id"]
    refusal = call(ws, "runs", "rm", long, code=4, reason="RUN_IN_PROGRESS").json["error"]
    eq(refusal["next"], [f"tasuki wait run {long}", f"tasuki runs show {long}"], "it is executed")
    (ws.path / "go").touch()
    call(ws, "wait", "run", long)
    spawn(ws, "run", "killed.yaml").wait() if (ws.path / "killed.yaml").write_text("tasks: {a: 'kill -9 $PPID; while :; do :; done'}\n") else None
    killed = max(ids(ws))
    refusal = call(ws, "runs", "rm", killed, code=4, reason="CONFLICT").json["error"]
    eq(refusal["next"], [f"tasuki runs show {killed}", f"tasuki runs cancel {killed}"], "it was interrupted")
    call(ws, "runs", "cancel", killed)
    call(ws, "runs", "rm", killed)
    events = [line for line in (ws.path / ".aiflow/events.ndjson").read_text().splitlines() if '"run.removed"' in line]
    eq(len(events), 2, "events")


@test("a run whose end only the journal has, because the disk was full, is removed by runs rm and by prune")
def _(ws):
    for words in (("runs", "rm"), ALL):
        old = old_run(ws, command="false", code=7)
        (runs_dir(ws) / old / "stage.json").unlink()
        eq(call(ws, "runs", "show", old).json["status"], "FAILED", "as the journal says")
        call(ws, *words, *[old] * (words != ALL))
        eq(ids(ws), [], words)


@test("a process that a task left running keeps the run that it holds")
def _(ws):
    (ws.path / "left.yaml").write_text("tasks: {a: {run: 'kill -9 $PPID; while :; do :; done'}}\n")
    spawn(ws, "run", "left.yaml").wait()
    killed = max(ids(ws))
    eq(call(ws, *ALL).json["removed"], [], "interrupted")
    call(ws, "runs", "cancel", killed)
    eq(call(ws, *ALL).json["removed"], [killed], "cancelled, and its processes are gone")


@test("what a killed removal has left is removed by the next one")
def _(ws):
    old = old_run(ws)
    gone = runs_dir(ws) / ".gone"
    gone.mkdir()
    (runs_dir(ws) / old).rename(gone / old)
    call(ws, "runs", "show", old, code=5, reason="RUN_NOT_FOUND")
    call(ws, "resume", old, code=5, reason="RUN_NOT_FOUND")
    eq(call(ws, "runs", "list").json["runs"], [], "the list")
    call(ws, "runs", "prune")
    eq(left_behind(ws), [], "what is left")


@test("prune beside show, resume and rm of the same runs: each is there as a whole or not at all, and no run is executed in a removed directory", slow=True)
def _(ws):
    for round in range(6):
        runs = [old_run(ws, 60 * round + i, command="test -e repaired", code=7) for i in range(4)]
        (ws.path / "repaired").touch()
        commands = [spawn(ws, *ALL), spawn(ws, *ALL)]
        commands += [spawn(ws, *words, id) for id in runs for words in (("runs", "show"), ("resume",), ("runs", "rm"))]
        for command in commands:
            command.wait()
            assert command.returncode in (0, 4, 5, 7), f"exit {command.returncode}"
        (ws.path / "repaired").unlink()
        eq((left_behind(ws), call(ws, *ALL).code), ([], 0), "what is left")
        eq(([one for one in ids(ws)], list((runs_dir(ws) / ".open").iterdir())), ([], []), "runs and marks")


main(__name__)
