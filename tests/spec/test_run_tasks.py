"""runs tasks: all tasks of a run, page by page; what stage.json leaves out is counted."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from flows import with_tool  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from http_common import Server  # noqa: E402


@test("beyond 1,000 tasks the stage says how many it leaves out, and runs tasks gives all of them by page, on the command line and over HTTP")
def _(ws):
    tasks = {f"t{i:04}": {"run": ["true"]} for i in range(1100)}
    (ws.path / "f.yaml").write_text(json.dumps({"flow": " | ".join(tasks), "tasks": tasks}))
    ws.tasuki("run", "f.yaml", "--quiet", env=with_tool(ws), timeout=120).expect(0)
    run = ws.tasuki("--json", "runs", "list").expect(0).json["runs"][0]["run_id"]
    stage = ws.tasuki("--json", "runs", "show", run).expect(0).json
    eq((len(stage["tasks"]), stage["tasks_left_out"]), (0, 1100), "the stage")
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


@test("a run of few tasks leaves out none; runs tasks --state chooses, and a retried task is shown with its last attempt")
def _(ws):
    (ws.path / "f.yaml").write_text(json.dumps({"flow": "a | b", "tasks": {"a": {"run": "test -e x || { touch x; exit 1; }", "retries": 1}, "b": "exit 3"}}))
    ws.tasuki("run", "f.yaml", "--quiet", env=with_tool(ws)).expect(7)
    run = ws.tasuki("--json", "runs", "list").expect(0).json["runs"][0]["run_id"]
    assert "tasks_left_out" not in ws.tasuki("--json", "runs", "show", run).json
    found = {one["task"]: one for one in ws.tasuki("--json", "runs", "tasks", run).expect(0).json["tasks"]}
    eq((found["a"]["state"], found["a"]["attempt"], found["b"]["state"], found["b"]["exit_code"]), ("ok", 2, "failed", 3), "the tasks")
    eq([one["task"] for one in ws.tasuki("--json", "runs", "tasks", run, "--state", "failed").json["tasks"]], ["b"], "the failed one")
    assert "failed" in ws.tasuki("runs", "tasks", run).expect(0).out


main(__name__)
