"""The states of tasks as `runs show` and `runs tasks` have them: of a run that goes on as its journal has them, of one whose runner died."""

import json
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness.harness import eq, main, test  # noqa: E402
from http_common import Server  # noqa: E402
from requests_common import call, spawn  # noqa: E402

STEPS = 8
WAIT = "echo > up.{n}; while ! test -e go.{n}; do sleep 0.01; done"


def flow(ws, tasks):
    (ws.path / "f.yaml").write_text(json.dumps({"tasks": tasks}))


def states(answer):
    """Of the tasks that have begun: a run that has no stage yet does not list the others."""
    return {one["task"]: one["state"] for one in answer["tasks"] if one["state"] != "waiting"}


def counts(answer):
    return {key: answer["counts"][key] for key in ("total", "done", "ok", "failed", "asking", "not_reached", "steps")}


@test("runs show has what the journal has, at every moment of a run: states, counts and steps")
def _(ws):
    flow(ws, {f"t{n}": {"run": WAIT.format(n=n), **({"needs": [f"t{n - 1}"]} if n else {})} for n in range(STEPS)})
    runner = spawn(ws, "run", "f.yaml")
    for n in range(STEPS):
        ws.until_file(f"up.{n}")
        answer = call(ws, "runs", "show").json
        eq((answer["status"], states(answer)), ("RUNNING", {f"t{k}": "ok" if k < n else "running" for k in range(n + 1)}), f"step {n}")
        eq(counts(answer), {"total": STEPS, "done": n, "ok": n, "failed": 0, "asking": 0, "not_reached": STEPS - n, "steps": n + 1}, f"step {n}")
        eq("journal_size" in answer, False, "what is only for readers of the file")
        (ws.path / f"go.{n}").touch()
    ws.finish(runner).expect(0)
    answer = call(ws, "runs", "show").json
    eq((answer["status"], set(states(answer).values()), counts(answer)["steps"]), ("DONE", {"ok"}, STEPS), "the end")


@test("runs show has a question and a failure as soon as they are recorded, and a task that was added")
def _(ws):
    flow(ws, {"asks": {"run": 'answer=$(tasuki task ask "Which?"); test -n "$answer" || exit 0'}, "bad": {"run": "exit 3"}, "stays": {"run": WAIT.format(n="s")},
              "adds": {"run": f"tasuki task spawn more -- sh -c '{WAIT.format(n='m')}'"}})
    runner = spawn(ws, "run", "f.yaml", "--parallel", "5")
    for name in ("s", "m"):
        ws.until_file(f"up.{name}")
    ws.until(lambda: len([one for one in states(call(ws, "runs", "show").json).values() if one in ("asks", "failed")]) == 2, "both are recorded")
    answer = call(ws, "runs", "show").json
    eq(states(answer), {"asks": "asks", "bad": "failed", "stays": "running", "adds": "ok", "more": "running"}, "the states")
    eq(([one["question"]["question"] for one in answer["questions"]], counts(answer)), (["Which?"], {"total": 5, "done": 2, "ok": 1, "failed": 1, "asking": 1, "not_reached": 2, "steps": 5}), "the question and the counts")
    for name in ("s", "m"):
        (ws.path / f"go.{name}").touch()
    ws.finish(runner)


@test("a task whose runner was killed is interrupted in runs show and runs tasks, over HTTP too; resume runs it again")
def _(ws):
    flow(ws, {"first": {"run": "true"}, "second": {"run": WAIT.format(n=2), "needs": ["first"]}, "third": {"run": "true", "needs": ["second"]}})
    runner = spawn(ws, "run", "f.yaml")
    ws.until_file("up.2")  # the stage that was written last may know nothing of it
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    expected = {"first": "ok", "second": "interrupted"}
    answer = call(ws, "runs", "show").json
    eq((answer["status"], states(answer), answer["counts"]["done"]), ("INTERRUPTED", expected, 1), "runs show")
    eq(states(call(ws, "runs", "tasks").json), {"first": "ok", "second": "interrupted"}, "runs tasks")
    eq(states(call(ws, "runs", "tasks", "--state", "interrupted").json), {"second": "interrupted"}, "chosen by their state")
    eq("interrupted" in ws.tasuki("runs", "show").expect(0).out, True, "for people")
    server = Server(ws)
    eq((states(server.get(f"/api/runs/{answer['run_id']}").json), states(server.get(f"/api/runs/{answer['run_id']}/tasks?attempts=true").json)["second"]), (expected, "interrupted"), "over HTTP")
    server.stop()
    (ws.path / "go.2").touch()
    call(ws, "resume", "@1")
    eq(set(states(call(ws, "runs", "show").json).values()), {"ok"}, "after the resume")


@test("a task that was cancelled before it started is \"not reached\" in the table and in the counts above it")
def _(ws):
    flow(ws, {"first": {"run": WAIT.format(n=1)}, "second": {"run": "true", "needs": ["first"]}})
    runner = spawn(ws, "run", "f.yaml")
    ws.until_file("up.1")
    call(ws, "runs", "cancel", "@1")
    runner.wait()
    shown = ws.tasuki("runs", "show").expect(0).out
    assert "1 stopped, 1 not reached" in shown, shown
    rows = dict(line.split("  ", 1) for line in shown.splitlines() if line.startswith(("first", "second")))
    eq({name: " ".join(rest.split()[:2]) for name, rest in rows.items()}, {"first": "stopped 1", "second": "not reached"}, "the table")


@test("the graph of a run as JSON names the session of each branch as its tasks do")
def _(ws):
    (ws.path / "f.yaml").write_text("flow: a >> ((b >> (c | d)) | e) >> f\ntasks: {" + ", ".join(f"{t}: {{run: 'true'}}" for t in "abcdef") + "}\n")
    ws.tasuki("run", "f.yaml").expect(0)
    shown = ws.tasuki("--json", "runs", "show").expect(0).json
    found = {}

    def walk(scope):
        for node in scope["nodes"]:
            found[node["name"]] = scope["session_id"]
            for branch in node.get("group", {}).get("branches", []):
                walk(branch)

    walk(ws.tasuki("--json", "runs", "graph", "--format", "json").expect(0).json["graph"]["scope"])
    tasks = {one["task"]: one["session_id"] for one in shown["tasks"]}
    eq({name: found[name] for name in tasks}, tasks, "the sessions")
    assert len(set(tasks.values())) == 5, tasks
    scope = ws.tasuki("--json", "graph", "f.yaml", "--format", "json").expect(0).json["graph"]["scope"]
    assert "session_id" not in scope, scope.keys()


main(__name__)
