#!/usr/bin/env python3
"""Delegation (spec 4): work for the agents of config.yaml, with a stand-in program as the agent."""

import json
import os
import pathlib
import shutil
import signal
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.harness import eq, main, test  # noqa: E402
from mcp.agent import Agent  # noqa: E402
from spec.common import sleeper  # noqa: E402

TOOLS = ["subagent_run", "subagent_run_parallel", "subagent_run_dag", "agent_team_run", "agent_team_run_parallel", "loop_run"]
VERBS = dict(zip(TOOLS, ["run", "parallel", "dag", "team", "teams", "loop"]))
DETAIL_KEYS = ["error", "ulTaskId", "ownerInstanceId", "ownerPid", "outcomeCode", "retryRecommended"]
OTHER = "another-agent"

# The stand-in: notes how it was called, says so, and does what its task says.
STAND_IN = r'''
import json, os, pathlib, sys, time
name, task = sys.argv[1], pathlib.Path(sys.argv[2][1:]).read_bytes() if sys.argv[2].startswith("@") else os.fsencode(sys.argv[2])
note = {"name": name, "task": task.hex(), "instance": os.environ.get("TASUKI_INSTANCE_ID"),
        "workflow": os.environ.get("TASUKI_UL_TASK_ID"), "argc": len(sys.argv)}
with open("calls", "a") as file:
    file.write(json.dumps(note) + "\n")
print(f"I am {name}", flush=True)
words = task.decode("utf-8", "replace").split()
if "wait" in words or f"{name}-waits" in words:
    while True:
        time.sleep(1000)
if "fail" in words or f"{name}-fails" in words:
    print("I give up", file=sys.stderr)
    sys.exit(3)
'''


def configure(ws, more="", teams=True):
    stand_in = ws.base / "stand_in.py"
    stand_in.write_text(STAND_IN)
    program = json.dumps([sys.executable, str(stand_in)])[1:-1]
    config = "agents:\n" + "".join(f'  {name}: {{run: [{program}, {name}, "{{task}}"]}}\n' for name in ("coder", "tester"))
    config += f'  reader: {{run: [{program}, reader, "@{{task_file}}"]}}\n'
    config += f'  hasty: {{run: [{program}, hasty, "{{task}}"], timeout: 4s}}\n'
    if teams:
        config += ("teams:\n  pair: {agents: [coder, tester]}\n  easy: {agents: [coder, tester], policy: best_effort}\n"
                   "  one: {agents: [coder, tester], policy: {at_least: 1}}\n"
                   "  led: {agents: [coder, tester], policy: {critical: [coder]}}\n")
    (ws.path / ".aiflow/config.yaml").write_text(config + more)


def calls(ws):
    path = ws.path / "calls"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def arguments(ws, tool, task="do it"):
    """The arguments of a tool, and of its command."""
    plan = [{"id": "first", "subagentId": "coder", "task": task}, {"id": "then", "subagentId": "tester", "task": task,
                                                                    "needs": ["first"]}]
    (ws.path / "plan.json").write_text(json.dumps(plan))
    return {
        "subagent_run": ({"subagentId": "coder", "task": task}, ["coder", task]),
        "subagent_run_parallel": ({"subagentIds": ["coder", "tester"], "task": task}, ["coder", "tester", "--task", task]),
        "subagent_run_dag": ({"tasks": plan}, ["plan.json"]),
        "agent_team_run": ({"teamId": "pair", "task": task}, ["pair", task]),
        "agent_team_run_parallel": ({"teamIds": ["pair", "easy"], "task": task}, ["pair", "easy", "--task", task]),
        "loop_run": ({"subagentId": "coder", "task": task, "maxIterations": 2}, ["coder", task, "--max-iterations", "2"]),
    }[tool]


EXPECTED = {"subagent_run": ["coder"], "subagent_run_parallel": ["coder", "tester"], "subagent_run_dag": ["coder", "tester"],
            "agent_team_run": ["coder", "tester"], "agent_team_run_parallel": ["coder", "tester", "coder", "tester"],
            "loop_run": ["coder"]}
CALLED = {**EXPECTED, "loop_run": ["coder", "coder"]}


def agent(ws, *args, **options):
    return ws.tasuki("agent", *args, "--json", **options)


# -- the six, with and without a workflow, owned and not ------------------------------------------------------------

def check_result(ws, tool, result, workflow=None):
    eq(result["status"], "DONE", "status")
    eq([a["subagentId"] for a in result["agents"]], EXPECTED[tool], "agents")
    for one in result["agents"]:
        eq((one["state"], one["exit_code"]), ("ok", 0), one["task"])
        eq(one["output"].splitlines()[-1], f"I am {one['subagentId']}", "the end of its output")
        assert pathlib.Path(one["log"]).read_text().endswith(one["output"]), one
    eq(sorted(c["name"] for c in calls(ws)), sorted(CALLED[tool]), "who was called")
    eq({c["workflow"] for c in calls(ws)}, {workflow}, "TASUKI_UL_TASK_ID")
    stage = ws.tasuki("runs", "show", result["run_id"], "--json").expect(0).json
    eq(stage["status"], "DONE", "the run")


def six(rule, quick=True):
    """A test for each of the six tools."""
    def register(function):
        for name in TOOLS:
            test(f"{name}: {rule}", quick=quick)(lambda ws, name=name: function(ws, name))
    return register


@six("as a command it runs its agents and returns their outcomes")
def _(ws, tool):
    configure(ws)
    _, words = arguments(ws, tool)
    check_result(ws, tool, agent(ws, VERBS[tool], *words).expect(0).json)
    ids = {c["instance"] for c in calls(ws)}
    assert len(ids) == 1 and ids.pop().startswith(f"{socket.gethostname()}-{os.getpid()}-"), calls(ws)


@six("over MCP with a workflow that nobody owns it claims it first")
def _(ws, tool):
    configure(ws)
    args, _ = arguments(ws, tool)
    client = Agent(ws)
    check_result(ws, tool, client.ok(tool, ulTaskId="W", **args), "W")
    owner = ws.tasuki("own", "show", "W", "--json").expect(0).json
    eq(owner["ownerPid"], os.getpid(), "the owner")
    eq({c["instance"] for c in calls(ws)}, {owner["ownerInstanceId"]}, "TASUKI_INSTANCE_ID")


@six("with a workflow of its own it goes on, with another's nothing is started, with seed 003's error")
def _(ws, tool):
    configure(ws)
    args, words = arguments(ws, tool)
    owner = sleeper(ws)
    id = f"{socket.gethostname()}-{owner.pid}-{2**42}"
    ws.tasuki("own", "claim", "W", env={"TASUKI_INSTANCE_ID": id}).expect(0)
    refused = agent(ws, VERBS[tool], *words, "--workflow", "W").expect(4, "ul_workflow_not_owned").json
    eq(list(refused), ["error", "details"], "the document")
    eq((list(refused["details"]), refused["details"]), (DETAIL_KEYS, {
        "error": "ul_workflow_not_owned", "ulTaskId": "W", "ownerInstanceId": id, "ownerPid": owner.pid,
        "outcomeCode": "NONRETRYABLE_FAILURE", "retryRecommended": False}), "the details")
    eq(refused["error"]["category"], "OWNERSHIP", "category")
    result = Agent(ws).call(tool, ulTaskId="W", **args)
    assert result["isError"] and result["content"][0]["text"].startswith(
        f"error: UL workflow W is owned by another instance ({id})."), result
    eq(result["structuredContent"]["details"], refused["details"], "over MCP")
    eq((calls(ws), ws.tasuki("runs", "list", "--json").json["runs"]), ([], []), "what was started")
    agent(ws, VERBS[tool], *words, "--workflow", "W", "--instance", id).expect(0)
    eq({(c["instance"], c["workflow"]) for c in calls(ws)}, {(id, "W")}, "its owner's agents")


@six("a failing agent is a failure that names it, with the end of its output")
def _(ws, tool):
    configure(ws)
    args, words = arguments(ws, tool, "please fail")
    failed = agent(ws, VERBS[tool], *words).expect(7).json
    eq((failed["status"], failed["agents"][0]["state"], failed["agents"][0]["exit_code"]), ("FAILED", "failed", 3), "outcome")
    eq(failed["agents"][0]["output"], "I am coder\nI give up\n", "output")
    assert failed["reason_code"] in ("TASK_FAILED", "GROUP_FAILED") and failed["message"], failed
    if tool == "subagent_run_dag":
        eq(failed["agents"][1]["state"], "blocked", "what needs it")
    if tool == "subagent_run":
        result = Agent(ws).call(tool, **args)
        assert result["isError"] and result["content"][0]["text"].startswith("NOT DONE: "), result
        eq(result["structuredContent"]["agents"][0]["exit_code"], 3, "over MCP")


@six("from inside a workflow it must be named")
def _(ws, tool):
    configure(ws)
    _, words = arguments(ws, tool)
    inside = {"TASUKI_UL_TASK_ID": "W"}
    ws.tasuki("own", "claim", "W").expect(0)
    refused = agent(ws, VERBS[tool], *words, env=inside).expect(4, "ul_workflow_not_owned").json
    eq((list(refused["details"]), refused["details"]["ulTaskId"]), (DETAIL_KEYS, "W"), "details")
    assert "ulTaskId: W" in refused["error"]["message"], refused
    eq(refused["error"]["next"], [f"tasuki agent {VERBS[tool]} … --workflow W"], "next")
    agent(ws, VERBS[tool], *words, "--workflow", "V", env=inside).expect(4, "ul_workflow_not_owned")
    eq(calls(ws), [], "what was started")
    agent(ws, VERBS[tool], *words, "--workflow", "W", env=inside).expect(0)


@test("over MCP, from inside a workflow: the text says to add the parameter")
def _(ws):
    configure(ws)
    client = Agent(ws, env={"TASUKI_UL_TASK_ID": "W"})
    text, error = client.refused("subagent_run", subagentId="coder", task="x")
    eq(error["reason_code"], "ul_workflow_not_owned", "reason code")
    assert text.startswith("error: ") and "add ulTaskId: W" in text, text
    client.ok("subagent_run", subagentId="coder", task="x", ulTaskId="W")


# -- the task's text ----------------------------------------------------------------------------------------------

ODD = ["it's \"quoted\" \\ and \\n", "$(touch hacked) `touch hacked` ; touch hacked & ${HOME} *", "two\nlines\r\n\n\ttab\n",
       "-n --help", "{task} {task_file} %s {{", "日本語 \U0001f600 \x7f\x85\u2028\u2029\ufeff\ufffe\x1b[31m", " ", "- a: [b",
       "# no comment", "@file"]


@test("the text arrives byte for byte, as an argument and as a file, from a command and over MCP", slow=True)
def _(ws):
    configure(ws)
    client = Agent(ws)
    for text in ODD:
        words = ["run", "--json", "--", "reader", text] if text.startswith("-") else ["run", "reader", text, "--json"]
        ws.tasuki("agent", *words).expect(0)
        client.ok("subagent_run", subagentId="reader", task=text)
        if text != "@file":  # that one would be a file for the stand-in
            client.ok("subagent_run_parallel", tasks=[{"subagentId": "coder", "task": text}])
    got = [(c["name"], bytes.fromhex(c["task"]).decode("utf-8", "surrogatepass"), c["argc"]) for c in calls(ws)]
    wanted = [(name, text, 3) for text in ODD for name in ("reader", "reader", "coder") if (name, text) != ("coder", "@file")]
    eq(got, wanted, "what the agents got")
    assert not (ws.path / "hacked").exists() and not (ws.home / "hacked").exists()


@test("--task-file gives the text of a file or of stdin, byte for byte, longer than an argument of a command, with every verb", slow=True)
def _(ws):
    configure(ws, "  readers: {agents: [reader, reader]}\n")
    text = "line 'one' $(date)\n" + "täsk\n" * 100000
    (ws.path / "task.md").write_text(text)
    ways = {"run": ["reader"], "parallel": ["reader", "reader"], "team": ["readers"], "teams": ["readers"],
            "loop": ["reader", "--max-iterations", "1"]}
    for verb, words in ways.items():
        agent(ws, verb, *words, "--task-file", "task.md").expect(0)
    agent(ws, "run", "reader", "--task-file=-", input="from a pipe\n").expect(0)
    agent(ws, "run", "reader", "--task-file", "task.md", "--detach").expect(0)
    ws.until(lambda: len(calls(ws)) == 10, "all were called")
    eq([bytes.fromhex(c["task"]).decode() == text for c in calls(ws)], [True] * 8 + [False, True], "the texts")
    eq(bytes.fromhex(calls(ws)[8]["task"]), b"from a pipe\n", "what came through the pipe")


@test("--task-file is refused where there is no file, beside a task, and for what is no text; only commands know it")
def _(ws):
    configure(ws)
    agent(ws, "run", "coder", "--task-file", "missing.md").expect(5, "NOT_FOUND")
    for content in (b"", b"\xff\xfe", b"a\0b", b"x" * ((1 << 20) + 1)):
        (ws.path / "task").write_bytes(content)
        agent(ws, "run", "reader", "--task-file", "task").expect(2, "INVALID_INPUT")
    (ws.path / "task").write_text("do it")
    assert "--task-file" in agent(ws, "run", "coder", "do that", "--task-file", "task").expect(2, "INVALID_INPUT").json["error"]["message"]
    _, error = Agent(ws).refused("subagent_run", subagentId="coder", task="x", task_file="task")
    eq((error["reason_code"], "task_file" in error["message"], calls(ws)), ("INVALID_INPUT", True, []), "over MCP, and who was called")


@test("a text that is too long for an argument is refused before anything starts; a file takes it")
def _(ws):
    configure(ws)
    client = Agent(ws)
    text = "x" * 500_000
    refusal, error = client.refused("subagent_run", subagentId="coder", task=text)
    eq(error["reason_code"], "INVALID_INPUT", "as an argument")
    assert "task_file" in refusal, refusal
    client.ok("subagent_run", subagentId="reader", task=text)
    eq([len(c["task"]) // 2 for c in calls(ws)], [500_000], "bytes that arrived")
    _, error = client.refused("subagent_run", subagentId="reader", task="x" * (1 << 20) + "y")
    eq(error["reason_code"], "INVALID_INPUT", "over the limit")


# -- time ---------------------------------------------------------------------------------------------------------

@test("an agent that takes longer than its timeout is ended with everything it started", slow=True)
def _(ws):
    configure(ws)
    result = agent(ws, "run", "hasty", "wait").expect(7).json
    eq((result["reason_code"], result["agents"][0]["state"]), ("TASK_TIMEOUT", "failed"), "outcome")
    eq(result["agents"][0]["output"], "I am hasty\n", "output")


@six("an agent's time limit holds, and is the reason")
def _(ws, tool):
    configure(ws)
    config = ws.path / ".aiflow/config.yaml"
    config.write_text(config.read_text().replace('coder, "{task}"]', 'coder, "{task}"], timeout: 300ms'))
    _, words = arguments(ws, tool, "coder-waits")
    late = agent(ws, VERBS[tool], *words, timeout=60).expect(7).json
    eq((late["status"], late["agents"][0]["subagentId"], late["agents"][0]["state"]), ("FAILED", "coder", "failed"), "outcome")
    failures = ws.tasuki("runs", "show", late["run_id"], "--json").json["failures"]
    eq({one["reason_code"] for one in failures}, {"TASK_TIMEOUT"}, "why")


@test("over MCP a run that takes longer is answered with its id and goes on; a cancelled call leaves it alone")
def _(ws):
    configure(ws)
    client = Agent(ws)
    number = client.begin_call("subagent_run", subagentId="coder", task="wait")
    ws.until(lambda: calls(ws), "the agent works")
    client.notify("notifications/cancelled", {"requestId": number})
    runs = ws.tasuki("runs", "list", "--json").json["runs"]
    eq([r["status"] for r in runs], ["RUNNING"], "the run")
    agent_pid = ws.tasuki("runs", "show", runs[0]["run_id"], "--json").json["runner"]["pid"]
    client.kill()
    assert ws.alive(agent_pid), "the runner lives on"
    ws.tasuki("runs", "cancel", runs[0]["run_id"], "--now").expect(0)
    ws.until(lambda: not ws.alive(agent_pid), "the end of the run")


@test("with --detach the answer is {run_id, status: RUNNING}, and the run goes on")
def _(ws):
    configure(ws)
    started = agent(ws, "run", "coder", "do it", "--detach").expect(0).json
    eq((list(started), started["status"]), (["run_id", "status"], "RUNNING"), "the answer")
    def status():
        return ws.tasuki("runs", "show", started["run_id"], "--json").json["status"]
    ws.until(lambda: status() == "DONE", "the end of the run")
    eq(len(calls(ws)), 1, "calls")


@test("when the workflow is taken by force, the former owner's agents are stopped", slow=True)
def _(ws):
    configure(ws)
    running = ws.spawn("agent", "run", "coder", "wait", "--workflow", "W", "--json")
    ws.until(lambda: calls(ws), "the agent works")
    ws.tasuki("own", "force-claim", "W", "--yes", "--instance", OTHER).expect(0)
    ended = ws.finish(running)
    eq((ended.code, ended.json["status"], ended.json["agents"][0]["state"]), (7, "CANCELLED", "stopped"), "the run")


@test("a run of agents that was killed goes on with resume, and the text is the same")
def _(ws):
    configure(ws)
    running = ws.spawn("agent", "parallel", "reader", "coder", "--task", "reader-waits\n'$x'", "--workflow", "W")
    ws.until(lambda: len(calls(ws)) == 2, "both work")
    run = ws.tasuki("runs", "list", "--json").json["runs"][0]["run_id"]
    def view():
        return {t["task"]: t["state"] for t in ws.tasuki("runs", "show", run, "--json").json["tasks"]}
    ws.until(lambda: view()["coder"] == "ok", "one is done")
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    resumed = ws.spawn("resume", run)
    ws.until(lambda: len(calls(ws)) == 3, "the other works again")
    eq([c["name"] for c in calls(ws)][2:], ["reader"], "who")
    eq(len({(c["task"], c["instance"], c["workflow"]) for c in calls(ws)}), 1, "task, instance and workflow")
    ws.tasuki("runs", "cancel", run, "--now").expect(0)
    ws.finish(resumed)


# -- shapes -------------------------------------------------------------------------------------------------------

@test("a dag starts a task after those it needs; unknown needs, double ids and cycles are refused before")
def _(ws):
    configure(ws)
    plan = ws.path / "plan.yaml"
    plan.write_text("tasks:\n- {id: c, subagentId: tester, task: three, needs: [a, b]}\n- {id: a, subagentId: coder, task: one}\n"
                    "- {id: b, subagentId: coder, task: two, needs: [a]}\n")
    agent(ws, "dag", "plan.yaml").expect(0)
    eq([bytes.fromhex(c["task"]).decode() for c in calls(ws)], ["one", "two", "three"], "order")
    client = Agent(ws)
    one = {"id": "a", "subagentId": "coder", "task": "x"}
    for tasks, code in (([{**one, "needs": ["z"]}], "INVALID_INPUT"), ([one, one], "INVALID_INPUT"), ([], "INVALID_INPUT"),
                        ([{**one, "needs": ["b"]}, {**one, "id": "b", "needs": ["a"]}], "INVALID_INPUT"),
                        ([{**one, "subagentId": "nobody"}], "NOT_FOUND"), ([{"id": "a", "task": "x"}], "INVALID_INPUT"),
                        ([{**one, "more": 1}], "INVALID_INPUT"), ([{**one, "needs": "b"}], "INVALID_INPUT"),
                        ([{**one, "id": "../a"}], "INVALID_INPUT"), ("plan.yaml", "INVALID_INPUT")):
        _, error = client.refused("subagent_run_dag", tasks=tasks, ulTaskId="W")
        eq(error["reason_code"], code, repr(tasks))
    eq((len(calls(ws)), ws.tasuki("own", "list", "--json").json["workflows"]), (3, []), "nothing started, nothing claimed")


@test("parallel takes one task for all or to each its own, and an agent twice")
def _(ws):
    configure(ws)
    client = Agent(ws)
    result = client.ok("subagent_run_parallel", tasks=[{"subagentId": "coder", "task": "a"}, {"subagentId": "coder", "task": "b"}])
    eq([a["task"] for a in result["agents"]], ["coder", "coder-2"], "tasks")
    eq(sorted(bytes.fromhex(c["task"]).decode() for c in calls(ws)), ["a", "b"], "texts")
    for wrong in ({"subagentIds": ["coder"]}, {"task": "x"}, {"subagentIds": [], "task": "x"},
                  {"subagentIds": ["coder"], "task": "x", "tasks": [{"subagentId": "coder", "task": "a"}]}):
        eq(client.refused("subagent_run_parallel", **wrong)[1]["reason_code"], "INVALID_INPUT", repr(wrong))


@test("a team succeeds by its policy, alone and among other teams", slow=True)
def _(ws):
    configure(ws)
    for team, task, code in (("pair", "coder-fails", 7), ("easy", "coder-fails", 0), ("one", "coder-fails", 0), ("one", "fail", 7),
                             ("led", "coder-fails", 7), ("led", "tester-fails", 0)):
        result = agent(ws, "team", team, task).expect(code).json
        eq({a["teamId"] for a in result["agents"]}, {team}, "team")
        result = agent(ws, "teams", team, "easy" if team != "easy" else "pair", "--task", task).json
        states = {a["task"]: a["state"] for a in result["agents"]}
        eq(states[f"{team}.coder"], "failed" if task in ("coder-fails", "fail") else "ok", "the member of that team")
    agent(ws, "teams", "pair", "pair", "--task", "x").expect(2, "INVALID_INPUT")
    agent(ws, "team", "pear", "x").expect(5, "NOT_FOUND")


@test("a loop ends when its command succeeds, after so many times without one, and fails at its limit with one", slow=True)
def _(ws):
    configure(ws)
    loop = agent(ws, "loop", "coder", "x", "--max-iterations", "5", "--until", "test $(wc -l < calls) -ge 3").expect(0).json
    eq(loop["agents"][0]["executions"], 3, "until the command succeeds")
    loop = agent(ws, "loop", "coder", "x", "--max-iterations", "4").expect(0).json
    eq(loop["agents"][0]["executions"], 4, "without a command")
    loop = agent(ws, "loop", "coder", "x", "--max-iterations", "2", "--until", "false").expect(7).json
    eq((loop["agents"][0]["executions"], loop["reason_code"]), (2, "CYCLE_LIMIT_EXCEEDED"), "at the limit")
    agent(ws, "loop", "coder", "x", "--max-iterations", "0").expect(2, "INVALID_INPUT")
    agent(ws, "loop", "coder", "x").expect(2, "INVALID_INPUT")


@test("a loop by a program whose file was removed meanwhile is refused with the reason, and no agent is called")
def _(ws):
    configure(ws)
    gone = ws.base / "tasuki-gone"
    shutil.copy2(ws.binary, gone)
    result = ws.run(["sh", "-c", 'exec 9< "$0" && rm "$0" && exec /proc/self/fd/9 "$@"', gone, "--json", "agent", "loop", "coder", "x",
                     "--max-iterations", "1"]).expect(3, "ENVIRONMENT")
    assert f"({gone}) was removed while it ran" in result.error["message"], result
    eq(calls(ws), [], "calls")


# -- the configuration ---------------------------------------------------------------------------------------------

@test("the tools are listed when agents are configured, at most 30 with them, and small")
def _(ws):
    listed = {t["name"] for t in Agent(ws).request("tools/list")["result"]["tools"]}
    eq(listed & set(TOOLS), set(), "without agents")
    configure(ws)
    tools = Agent(ws).request("tools/list")["result"]["tools"]
    eq(set(TOOLS) - {t["name"] for t in tools}, set(), "with agents")
    mine = json.dumps([t for t in tools if t["name"] in TOOLS], separators=(",", ":"), ensure_ascii=False)
    assert len(tools) <= 30 and len(mine.encode()) <= 4352, (len(tools), len(mine))
    status = Agent(ws).ok("get_status")
    eq((status["agents"], status["teams"]), (["coder", "tester", "reader", "hasty"], ["pair", "easy", "one", "led"]), "who there is")


@test("an agent that takes no text is one all the same, and stands in nobody's way; --ulTaskId is --workflow")
def _(ws):
    (ws.path / ".aiflow/config.yaml").write_text("agents:\n  no: {run: ['false']}\n  say: {run: [echo, '{task}']}\n")
    eq(agent(ws, "run", "no", "x").expect(7).json["reason_code"], "TASK_FAILED", "it ran")
    for option in ("--workflow", "--ulTaskId", "--ul-task-id"):
        eq(agent(ws, "run", "say", "x", option, "W1").expect(0).json["ulTaskId"], "W1", option)
    eq(agent(ws, "run", "say", "x", "--ulTaskId=W1").expect(0).json["ulTaskId"], "W1", "with =")
    agent(ws, "run", "say", "x", "--ul-Task-id", "W1").expect(2, "INVALID_INPUT")


@test("what is wrong in the configuration is said with its place, and nothing is started")
def _(ws):
    config = ws.path / ".aiflow/config.yaml"
    for text, place, words in (
            ("agents:\n  a: {run: 'x {task}'}\n", "2:12", "list"),
            ("agents:\n  a: {run: [x, '{task}'], time: 3s}\n", "2:", "did you mean timeout"),
            ("agents:\n  a: {run: [x, '{task}'], timeout: soon}\n", "2:36", "timeout"),
            ("agents:\n  a: {run: [x, '{task}'], env: [b]}\n", "2:32", "env"),
            ("agents:\n  a: {}\n", "2:6", "run"),
            ("agents: [a]\n", "1:9", "agents"),
            ("agents:\n  a b: {run: [x, '{task}']}\n", "2:", "name"),
            ("agents:\n  a: {run: [x, '{task}']}\nteams:\n  t: {agents: [a, b]}\n", "4:19", "no agent b"),
            ("agents:\n  a: {run: [x, '{task}']}\nteams:\n  t: {agents: [a], policy: lax}\n", "4:28", "policy"),
            ("agents:\n  a: {run: [x, '{task}']}\nteams:\n  t: {agents: [a], policy: {at_least: 2}}\n", "4:39", "at_least"),
            ("agents:\n  a: {run: [x, '{task}']}\nteams:\n  t: {agents: [a], policy: {critical: [b]}}\n", "4:40", "not in this team"),
            ("agents:\n  a: {run: [x, '{task}']}\nteams:\n  t: {agents: [a], policy: {critical: a}}\n", "4:39", "critical"),
            ("agents:\n  a: {run: [x, '{task}']}\nteams:\n  t: {agents: [a], policy: {least: 1}}\n", "4:36", "unknown key least"),
            ("agents:\n  a: {run: [x, '{task}']}\nteams:\n  t: {agents: [a], policy: {at_least: 1, critical: [a]}}\n", "4:", "at_least"),
            ("agents:\n  a: {run: [x, '{task}']}\nteams:\n  t: {agents: [a], policy: {}}\n", "4:", "at_least"),
            ("agents:\n  a: {run: [x, '{task}']}\nteams:\n  t: {agents: [a], policy: {at_least: 0}}\n", "4:39", "at_least"),
            ("agents:\n  a: {run: [x, '{task}']}\nteams:\n  t: {agents: a}\n", "4:", "agents"),
            ("agents:\n  a: {run: [x, '{task}']}\nteams:\n  t: {policy: strict}\n", "4:", "agents"),
            ("agents:\n  a: {run: [x, '{task}']}\nteams:\n  t: {agents: [a], members: 1}\n", "4:", "members"),
            ("agents:\n  a: {run: [x, '{task}']}\nteams:\n  t t: {agents: [a]}\n", "4:", "name"),
            (f"agents:\n  a: {{run: [x, '{{task}}']}}\nteams:\n  t: {{agents: [{', '.join(257 * ['a'])}]}}\n", "4:", "256"),
            (f"agents:\n  {61 * 'a'}: {{run: [x, '{{task}}']}}\n", "2:", "60"),
            ("agents:\n  a: {run: [x, '{task}'], cwd: [b]}\n", "2:32", "directory"),
            ("agents:\n  a: {run: [x, '{task}'], retries: -1}\n", "2:36", "retries")):
        config.write_text(text)
        refused = agent(ws, "run", "a", "x").expect(2, "INVALID_INPUT").error
        assert refused["message"].startswith(f".aiflow/config.yaml:{place}") and words in refused["message"], (text, refused)
    config.write_text("agents:\n  coder: {run: [x, '{task}']}\n")
    unknown = agent(ws, "run", "codr", "x").expect(5, "NOT_FOUND").error
    assert "coder" in unknown["message"], unknown
    missing = agent(ws, "run", "coder", "x").expect(7).json
    eq(missing["agents"][0]["exit_code"], 127, "a program that is not there")


@test("a text that is too long for an agent's argument, and an agent that is not there, are refused in every shape; nothing runs")
def _(ws):
    (ws.path / ".aiflow/config.yaml").write_text(
        "agents:\n  short: {run: [sh, -c, 'echo x >> ran', sh, '{task}']}\n  twice: {run: [sh, -c, 'echo x >> ran', sh, '{task}{task}']}\n"
        "teams:\n  both: {agents: [short, twice]}\n")
    (ws.path / ".aiflow/runs").mkdir(exist_ok=True)
    plan = ws.path / "plan.json"
    for name, text, code, reason in (("twice", "x" * 65501, 2, "INVALID_INPUT"), ("none", "x", 5, "NOT_FOUND")):
        plan.write_text(json.dumps([{"id": "one", "subagentId": "short", "task": "x"}, {"id": "two", "subagentId": name, "task": text}]))
        team = "both" if name == "twice" else name
        for words in (("run", name, text), ("parallel", "short", name, "--task", text), ("dag", "plan.json"), ("team", team, text), ("teams", team, "--task", text),
                      ("loop", name, text, "--max-iterations", "2")):
            error = agent(ws, *words).expect(code, reason).error
            assert name in error["message"], (words[0], error)
            assert reason == "NOT_FOUND" or "131000" in error["message"], (words[0], error)
    eq(list((ws.path / ".aiflow/runs").glob("RUN-*")), [], "runs")
    assert not (ws.path / "ran").exists(), "an agent ran"
    agent(ws, "run", "twice", "x" * 65500).expect(0)
    for more, words in (({"id": "one"}, "one"), ({"id": "two", "needs": ["one", "three"]}, "three")):
        plan.write_text(json.dumps([{"id": "one", "subagentId": "short", "task": "x"}, {"subagentId": "short", "task": "x", **more}]))
        assert words in agent(ws, "dag", "plan.json").expect(2, "INVALID_INPUT").error["message"]


@test("an agent has its own directory, environment and retries", slow=True)
def _(ws):
    (ws.path / "sub").mkdir()
    (ws.path / ".aiflow/config.yaml").write_text(
        "agents:\n  a: {run: [sh, -c, 'pwd; echo $MINE; test $TASUKI_ATTEMPT = 2', sh, '{task}'], cwd: sub, env: {MINE: 'v w'},"
        " retries: 1}\n")
    result = agent(ws, "run", "a", "x").expect(0).json
    eq(result["agents"][0]["output"], f"{ws.path}/sub\nv w\n", "output of the last attempt")


main(__name__)
