"""`tasuki run FLOW TASK…`: these tasks with what they need."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import Agent  # noqa: E402
from flows import last_document, resume, trace, with_tool, write_flow  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from http_common import Server  # noqa: E402
from requests_common import call  # noqa: E402

NAMES = ("fetch", "lint", "test", "report", "docs", "publish", "announce", "alone")
FLOW = ("flow: fetch >> checks(lint | test >> report) >> docs >> publish >> announce\ntasks:\n"
        + "".join(f"  {name}: 'echo {name} >> trace'\n" for name in NAMES)).replace("alone: 'echo", "alone: {needs: fetch, run: 'echo").replace(
            "alone >> trace'", "alone >> trace'}")
NEEDED = {"fetch": {"fetch"}, "lint": {"fetch", "lint"}, "report": {"fetch", "test", "report"}, "test": {"fetch", "test"},
          "checks": {"fetch", "lint", "test", "report"}, "docs": {"fetch", "lint", "test", "report", "docs"},
          "alone": {"fetch", "alone"}, "announce": set(NAMES) - {"alone"}}


def run(ws, *words, code=0, **options):
    (ws.path / "trace").unlink(missing_ok=True)
    return last_document(ws.tasuki("--json", "run", "flow.yaml", *words, env=with_tool(ws), **options).expect(code))


@test("the tasks that are named run with what they need, in order, and nothing else")
def _(ws):
    write_flow(ws, FLOW)
    for name, needed in NEEDED.items():
        stage = run(ws, name)
        eq((set(trace(ws)), len(trace(ws))), (needed, len(needed)), f"what ran for {name}")
        eq((stage["status"], stage["counts"]["ok"], stage["counts"]["skipped"]), ("DONE", len(needed), len(NAMES) - len(needed)), f"counts for {name}")
    run(ws, "alone", "report")
    eq(set(trace(ws)), {"fetch", "alone", "test", "report"}, "for two")
    eq((trace(ws)[0], trace(ws).index("test") < trace(ws).index("report")), ("fetch", True), "their order")


@test("nested groups: the branches beside the task, and groups behind it, do not run")
def _(ws):
    text = "flow: a >> outer(b >> inner(c | d) >> e | f) >> g\ntasks:\n" + "".join(f"  {n}: 'echo {n} >> trace'\n" for n in "abcdefg")
    write_flow(ws, text)
    for name, needed in (("c", "abc"), ("e", "abcde"), ("inner", "abcd"), ("f", "af"), ("outer", "abcdef")):
        run(ws, name)
        eq("".join(sorted(trace(ws))), needed, f"what ran for {name}")


@test("a run of chosen tasks that failed goes on with these tasks; what is unknown is refused, as is --start with tasks")
def _(ws):
    write_flow(ws, FLOW.replace("test: 'echo test", "test: 'test -e good || exit 1; echo test"))
    stage = run(ws, "report", code=7)
    eq(trace(ws), ["fetch"], "what ran")
    (ws.path / "good").touch()
    eq(resume(ws, stage["run_id"])["status"], "DONE", "the resumed run")
    eq(trace(ws), ["fetch", "test", "report"], "what ran")
    error = call(ws, "run", "flow.yaml", "repotr", code=2, reason="INVALID_INPUT").json["error"]
    assert "repotr" in error["message"], error["message"]
    call(ws, "run", "flow.yaml", "report", "--start", "test", code=2, reason="INVALID_INPUT")
    eq(len(call(ws, "runs", "list").json["runs"]), 1, "runs")
    order = call(ws, "run", "flow.yaml", "report", "--dry-run").json["order"]
    eq([step["task"] for step in order], ["fetch", "test", "report"], "the order of a dry run")
    call(ws, "run", "flow.yaml", "repotr", "--dry-run", code=2, reason="INVALID_INPUT")


@test("over HTTP and MCP, and completed from the flow")
def _(ws):
    write_flow(ws, FLOW)
    eq(Server(ws).post("/api/flows/run", {"flow": "flow.yaml", "tasks": ["lint"]}).json["counts"]["ok"], 2, "over HTTP")
    eq(Agent(ws, "--tools", "core").ok("flow_run", flow="flow.yaml", tasks=["lint", "alone"])["counts"]["ok"], 3, "over MCP")
    eq(ws.tasuki("__complete", "run", "flow.yaml", "--start", "re").out, ws.tasuki("__complete", "run", "flow.yaml", "re").out, "the first task")
    offered = ws.tasuki("__complete", "run", "flow.yaml", "re").out.split()
    eq(offered, ["report"], "completion")


main(__name__)
