"""runs tasks: all tasks of a run, page by page; what stage.json leaves out is counted."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from flows import with_tool  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from http_common import Server  # noqa: E402


@test("beyond 1,000 tasks the stage says how many it leaves out, and runs tasks gives all of them by page, on the command line and over HTTP", slow=True)
def _(ws):
    tasks = {f"t{i:04}": {"run": ["true"]} for i in range(1100)}
    (ws.path / "f.yaml").write_text(json.dumps({"flow": " | ".join(tasks), "tasks": tasks}))
    ws.tasuki("run", "f.yaml", "--quiet", env=with_tool(ws), timeout=120).expect(0)
    run = ws.tasuki("--json", "runs", "list").expect(0).json["runs"][0]["run_id"]
    stage = ws.tasuki("--json", "runs", "show", run).expect(0).json
    eq((len(stage["tasks"]), stage["tasks_left_out"]), (0, 1100), "the stage")
    shown = ws.tasuki("runs", "show", run).expect(0).out
    assert f"1100 tasks that ended well are not listed here: tasuki runs tasks {run}" in shown, shown
    seen, cursor = [], None
    while True:
        page = ws.tasuki("--json", "runs", "tasks", run, "-n", "500", *(["--cursor", cursor] if cursor else [])).expect(0).json
        eq((page["total"], page["run_id"]), (1100, run), "the page")
        seen += page["tasks"]
        cursor = page["cursor"]
        if not cursor:
            break
    eq(sorted(one["task"] for one in seen), sorted(tasks), "all tasks, each once")
    eq({(one["state"], one["exit_code"], one["attempt"]) for one in seen}, {("ok", 0, 1)}, "their states")
    server = Server(ws)
    eq(server.get(f"/api/runs/{run}/tasks?limit=3").expect(200).json["tasks"], seen[:3], "over HTTP")
    eq(len(server.get(f"/api/runs/{run}/tasks").json["tasks"]), 100, "the default")
    server.stop()


@test("a run of few tasks leaves out none; runs tasks --state chooses, and a retried task is shown with its last attempt", slow=True)
def _(ws):
    (ws.path / "f.yaml").write_text(json.dumps({"flow": "a | b", "tasks": {"a": {"run": "test -e x || { touch x; exit 1; }", "retries": 1}, "b": "exit 3"}}))
    ws.tasuki("run", "f.yaml", "--quiet", env=with_tool(ws)).expect(7)
    run = ws.tasuki("--json", "runs", "list").expect(0).json["runs"][0]["run_id"]
    assert "tasks_left_out" not in ws.tasuki("--json", "runs", "show", run).json
    assert "not listed" not in ws.tasuki("runs", "show", run).out
    found = {one["task"]: one for one in ws.tasuki("--json", "runs", "tasks", run).expect(0).json["tasks"]}
    eq((found["a"]["state"], found["a"]["attempt"], found["b"]["state"], found["b"]["exit_code"]), ("ok", 2, "failed", 3), "the tasks")
    eq([one["task"] for one in ws.tasuki("--json", "runs", "tasks", run, "--state", "failed").json["tasks"]], ["b"], "the failed one")
    assert "failed" in ws.tasuki("runs", "tasks", run).expect(0).out


GATED = {"flow": "a >> b >> c", "tasks": {
    "a": {"run": "test -e x || { touch x; exit 1; }", "retries": 1, "backoff": {"initial": "50ms"}},
    "b": {"run": "tasuki channel set answer 42; echo $$ > up; while ! test -e go; do sleep 0.02; done"}, "c": "true"}}


def begin(ws):
    (ws.path / "f.yaml").write_text(json.dumps(GATED))
    runner = ws.spawn("run", "f.yaml", "--quiet", env=with_tool(ws))
    ws.until_file("up")
    return runner, ws.tasuki("--json", "runs", "list").expect(0).json["runs"][0]["run_id"]


@test("a run's stream has its stage first, then every record of the journal with its place, live, until it ends; Last-Event-ID goes on")
def _(ws):
    server = Server(ws)
    runner, run = begin(ws)
    stream = server.stream(f"/api/runs/{run}/stream")
    _, stage = next(stream)
    eq((stream.event, stage["run_id"], stage["status"]), ("run", run, "RUNNING"), "the first message")
    seen = []
    while not seen or (seen[-1][1].get("task"), seen[-1][1]["e"]) != ("b", "start"):
        seen.append(next(stream))
    retry = [one for _, one in seen if one.get("outcome") == "retry"]
    eq([(one["e"], one["task"], one["attempt"], one["exit_code"]) for one in retry], [("end", "a", 1, 1)], "the retry")
    assert retry[0]["next_try_in_ms"] >= 0 and retry[0]["ms"] >= 0 and retry[0]["t"] > 1e12 and retry[0]["session_id"], retry
    again = server.stream(f"/api/runs/{run}/stream", {"Last-Event-ID": seen[-2][0]})
    next(again)
    eq(next(again)[1], seen[-1][1], "one who comes back goes on behind what it saw")
    again.close()
    (ws.path / "go").touch()
    rest = [one for _, one in stream]
    eq([(one["e"], one.get("task")) for one in rest if "e" in one], [("end", "b"), ("start", "c"), ("end", "c"), ("done", None)], "the rest")
    eq((rest[-1], stream.event), ({}, "end"), "the stream ends with the run")
    eq(runner.wait(60), 0, "the run")
    whole = server.stream(f"/api/runs/{run}/stream")
    eq([one["t"] for _, one in whole if "t" in one][-4:], [one["t"] for one in rest if "t" in one], "of a run that has ended: all at once")
    server.get(f"/api/runs/RUN-none/stream").expect(404, "RUN_NOT_FOUND")
    server.stop()


@test("the attempts of a task, its next try and what it wrote are in /tasks?attempts=true")
def _(ws):
    server = Server(ws)
    runner, run = begin(ws)
    (ws.path / "go").touch()
    eq(runner.wait(60), 0, "the run")
    tasks = {one["task"]: one for one in server.get(f"/api/runs/{run}/tasks?attempts=true").expect(200).json["tasks"]}
    eq([(one["attempt"], one["outcome"], one["exit_code"]) for one in tasks["a"]["attempts"]], [(1, "retry", 1), (2, "ok", 0)], "of a")
    assert all(one["started_at"] <= one["ended_at"] and one["ms"] >= 0 for one in tasks["a"]["attempts"]), tasks["a"]
    eq((tasks["b"]["writes"], "writes" in tasks["a"], "next_try_at" in tasks["a"]), ({"answer": 42}, False, False), "writes")
    (ws.path / "slow.yaml").write_text(json.dumps({"tasks": {"s": {"run": "touch tried; exit 1", "retries": 1, "backoff": {"initial": "1h", "max": "1h"}}}}))
    runner = ws.spawn("run", "slow.yaml", "--quiet", env=with_tool(ws))
    run = ws.until(lambda: [one["run_id"] for one in server.get("/api/runs").json["runs"] if one["run_id"] != run], "the second run")[0]
    task = ws.until(lambda: [one for one in server.get(f"/api/runs/{run}/tasks?attempts=true").json["tasks"] if "next_try_in_ms" in one],
                    "it will be tried again")[0]
    assert task["state"] == "retry" and 0 < task["next_try_in_ms"] <= 3600000, task
    ws.tasuki("runs", "cancel", run, "--now").expect(0)
    runner.wait(60)
    server.stop()


main(__name__)
