"""The parameters of a flow: declared, shown, checked; as values of the channel and as variables."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import Agent  # noqa: E402
from flows import last_document, resume, with_tool, write_flow  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from http_common import Server  # noqa: E402
from requests_common import call  # noqa: E402

FLOW = """params:
  env: {default: staging, choices: [staging, production], help: where to deploy}
  count: 3
  dry-run: {default: "007", help: a text}
tasks:
  show: 'echo "$TASUKI_PARAM_ENV $TASUKI_PARAM_COUNT $TASUKI_PARAM_DRY_RUN $(tasuki channel get env)" >> trace; test -z "$FAIL" || exit 1'
"""


def lines(ws):
    return (ws.path / "trace").read_text().splitlines()


def run(ws, *args, code=0, reason=None, env=None):
    return ws.tasuki("--json", "run", "flow.yaml", *args, env={**with_tool(ws), **(env or {})}).expect(code, reason)


@test("parameters are values of the channel and variables of the tasks, as they were given; a resumed run keeps them")
def _(ws):
    write_flow(ws, FLOW)
    stage = last_document(run(ws))
    eq(stage["channel"], {"env": "staging", "count": 3, "dry-run": "007"}, "the channel")
    stage = last_document(run(ws, "--set", "env=production", "--set", "count=1.10", env={"FAIL": "1"}, code=7))
    eq(stage["channel"], {"env": "production", "count": "1.10", "dry-run": "007"}, "the channel")
    resume(ws, stage["run_id"])
    eq(lines(ws), ["staging 3 007 staging", "production 1.10 007 production", "production 1.10 007 production"], "what tasks saw")


@test("a value that is no choice and a name that is no parameter are refused with the list, and nothing runs; so is a missing value")
def _(ws):
    write_flow(ws, FLOW)
    for words, texts in ((["env=prod"], ["prod", "staging, production"]), (["evn=staging"], ["evn", "env, count, dry-run"])):
        for more in ([], ["--dry-run"]):
            error = run(ws, "--set", *words, *more, code=2, reason="INVALID_INPUT").json["error"]
            assert all(text in error["message"] for text in texts), error["message"]
            eq(error["next"], ["tasuki flow show flow.yaml"], "what to do")
    write_flow(ws, "params: {tag: {help: the version}}\ntasks: {a: 'echo $TASUKI_PARAM_TAG >> trace'}\n")
    error = run(ws, code=2, reason="INVALID_INPUT").json["error"]
    assert "--set tag=VALUE" in error["message"], error["message"]
    eq(call(ws, "runs", "list").json["runs"], [], "runs")
    run(ws, "--set", "tag=")
    run(ws, "--set", "tag=v1")
    eq(lines(ws), ["", "v1"], "what tasks saw")


@test("a flow without params takes any name; a run within a run does not inherit the variables")
def _(ws):
    write_flow(ws, "tasks: {a: 'echo \"${TASUKI_PARAM_ENV-none}\" >> trace'}\n", "inner.yaml")
    write_flow(ws, "params: {env: x}\ntasks: {a: 'tasuki run inner.yaml --quiet --set whatever=1'}\n")
    run(ws)
    eq(lines(ws), ["none"], "what the inner task saw")


@test("what is wrong with params is reported with its place")
def _(ws):
    for text, place, word in (
            ("params: [a]", "1:9", "key: value"), ("params: {1a: x}", "1:10", "1a"), ("params: {a: x, a: y}", "1:16", "'a'"),
            ("params: {a-b: x, a_b: y}", "1:18", "TASUKI_PARAM_A_B"), ("params: {a: {choices: []}}", "1:23", "at least one"),
            ("params: {a: {default: x, choices: [y, z]}}", "1:10", "y, z"), ("params: {a: {choice: [y]}}", "1:14", "choice"),
            ("params: {a: {default: [y]}}", "1:23", "text")):
        write_flow(ws, f"{text}\ntasks: {{a: 'true'}}\n")
        error = call(ws, "flow", "validate", "flow.yaml", code=2, reason="FLOW_INVALID").json["error"]
        assert f"flow.yaml:{place}:" in error["message"] and word in error["message"], (text, error["message"])


@test("flow show lists the parameters and the tasks; over HTTP and MCP, too")
def _(ws):
    (ws.path / ".aiflow/flows").mkdir(exist_ok=True)
    write_flow(ws, FLOW, ".aiflow/flows/deploy.yaml")
    shown = call(ws, "flow", "show", "deploy").json
    eq([p["name"] for p in shown["params"]], ["env", "count", "dry-run"], "parameters")
    eq(shown["params"][0], {"name": "env", "variable": "TASUKI_PARAM_ENV", "default": "staging", "choices": ["staging", "production"],
                            "help": "where to deploy"}, "the first one")
    eq((shown["exclusive"], shown["tasks"]), (True, ["show"]), "the rest")
    text = ws.tasuki("flow", "show", "deploy").expect(0).out
    assert all(word in text for word in ("PARAM", "staging production", "where to deploy", "runs once at a time", "show")), text
    eq(Server(ws).get("/api/flows/deploy").json, shown, "over HTTP")
    eq(Agent(ws, "--tools", "all").ok("flow_show", flow="deploy"), shown, "over MCP")


@test("a request whose flow has parameters runs with the defaults; without one it is refused")
def _(ws):
    write_flow(ws, FLOW)
    (ws.path / ".aiflow/requests/RQ-1.yaml").write_text("title: t\nflow: flow.yaml\n")
    call(ws, "request", "run", "RQ-1")
    eq(lines(ws), ["staging 3 007 staging"], "what the task saw")
    write_flow(ws, "params: {tag: {}}\ntasks: {a: 'true'}\n")
    call(ws, "request", "run", "RQ-1", code=2, reason="INVALID_INPUT")
    eq(call(ws, "lock", "list").json["locks"], [], "locks")
    (ws.path / ".aiflow/requests/RQ-2.yaml").write_text("title: t\nflow: flow.yaml\n")
    call(ws, "queue", "run", code=7)
    eq([r["status"] for r in call(ws, "runs", "list", "--request", "RQ-2").json["runs"]], ["FAILED"], "after the queue")


main(__name__)
