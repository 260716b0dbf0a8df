"""Delegation and ownership: what a review found, each as a rule."""

import json
import os
import pathlib
import shutil
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from flows import last_document, only_run, run_flow, with_tool, write_flow  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from mcp.agent import Agent  # noqa: E402

# Runs once at a time: says who it is, waits as long as the file `hold` is there.
AGENTS = """agents:
  slow: {run: [sh, -c, 'echo "$TASUKI_INSTANCE_ID $TASUKI_UL_TASK_ID" >> ran; while test -e hold; do sleep 0.05; done', sh, "{task}"]}
  ask: {run: [sh, -c, 'test -n "$TASUKI_ANSWER" && echo answered >> ran && exit; tasuki task ask "which?"', sh, "{task}"]}
  echo: {run: [echo, "{task}"]}
  file: {run: [cat, "{task_file}"]}
  bytes: {run: [printf, 'end\\000after\\n{task}']}
  fail: {run: [sh, -c, 'test "$TASUKI_TASK_ID" = fail', sh, "{task}"]}
  pair-team: {run: [echo, "{task}"]}
teams:
  twice: {agents: [fail, fail], policy: {critical: [fail]}}
  pair: {agents: [echo, pair-team]}
"""


def configure(ws, text=AGENTS):
    (ws.path / ".aiflow/config.yaml").write_text(text)


def ran(ws):
    path = ws.path / "ran"
    return path.read_text().split("\n")[:-1] if path.exists() else []


def agent(ws, *args, **options):
    return ws.tasuki("agent", *args, "--json", env=with_tool(ws), **options)


def begin_slow(ws, workflow="W", instance="me"):
    """An agent at work for a workflow."""
    configure(ws)
    (ws.path / "hold").touch()
    proc = ws.spawn("agent", "run", "slow", "x", "--workflow", workflow, "--instance", instance, "--json", env=with_tool(ws))
    ws.until(lambda: ran(ws), "the agent runs")
    return proc


def steal(ws, workflow="W"):
    ws.tasuki("own", "force-claim", workflow, "--yes", "--instance", "thief").expect(0)


@test("a run that lost its workflow says to whom, and only the owner resumes it, under its own name", slow=True)
def _(ws):
    proc = begin_slow(ws)
    steal(ws)
    result = ws.finish(proc).expect(7).json
    eq((result["status"], result["reason_code"]), ("CANCELLED", "workflow_owned_by_other"))
    assert "thief" in result["message"], result
    told = ws.events("run.cancelling")[-1]["data"]
    assert told["reason_code"] == "workflow_owned_by_other" and "thief" in told["reason"], told
    (ws.path / "hold").unlink()
    for who in ([], ["--instance", "me"]):
        ws.tasuki("resume", result["run_id"], "--json", *who, env=with_tool(ws)).expect(4, "ul_workflow_not_owned")
    eq(len(ran(ws)), 1, "how often it ran")
    stage = last_document(ws.tasuki("resume", result["run_id"], "--instance", "thief", "--json", env=with_tool(ws)).expect(0))
    eq((stage["status"], stage["ulTaskId"], ran(ws)), ("DONE", "W", ["me W", "thief W"]))


@test("a resumed run is stopped, too, when its workflow is taken", slow=True)
def _(ws):
    proc = begin_slow(ws)
    proc.kill()
    proc.wait()
    again = ws.spawn("resume", only_run(ws), "--instance", "me", "--json", env=with_tool(ws))
    ws.until(lambda: len(ran(ws)) == 2, "it runs again")
    steal(ws)
    stage = last_document(ws.finish(again).expect(7))
    eq((stage["status"], stage["reason_code"]), ("CANCELLED", "workflow_owned_by_other"))


@test("an answer to an agent of a workflow that somebody else owns now is refused, and nothing runs")
def _(ws):
    configure(ws)
    run = agent(ws, "run", "ask", "x", "--workflow", "W", "--instance", "me").expect(8).json["run_id"]
    steal(ws)
    for who in ([], ["--instance", "me"]):
        ws.tasuki("answer", run, "this", "--json", *who, env=with_tool(ws)).expect(4, "ul_workflow_not_owned")
    eq(ran(ws), [], "what ran")
    ws.tasuki("answer", run, "this", "--wait", "--instance", "thief", env=with_tool(ws)).expect(0)
    eq(ran(ws), ["answered"])


def ends_after(ws, change):
    """The runner looks whose the workflow is when a task has ended, unless it looked less than a second ago."""
    proc = begin_slow(ws)
    stage = ws.path / ".aiflow/runs" / only_run(ws) / "stage.json"
    ws.until(stage.exists, "there is a stage")
    stamp = stage.stat().st_mtime_ns  # one is written every second
    ws.until(lambda: stage.stat().st_mtime_ns != stamp, "the stage is written anew")
    change()
    (ws.path / "hold").unlink()
    return ws.finish(proc).json["status"]


@test("who releases and claims again keeps its agents", slow=True)
def _(ws):
    def change():
        ws.tasuki("own", "release", "W", "--instance", "me").expect(0)
        ws.tasuki("own", "claim", "W", "--instance", "me").expect(0)
    eq(ends_after(ws, change), "DONE")


@test("a database that is gone is no reason to stop agents", slow=True)
def _(ws):
    def change():
        for path in (ws.path / ".aiflow").glob("state.db*"):
            path.rename(ws.path / path.name)
    eq(ends_after(ws, change), "DONE")


@test("all tasks that were made of a critical agent are critical")
def _(ws):
    configure(ws)
    result = agent(ws, "team", "twice", "x").json
    eq((result["status"], [a["subagentId"] for a in result["agents"]]), ("FAILED", ["fail", "fail"]))


@test("an agent may be called as its team's group would be")
def _(ws):
    configure(ws)
    eq(agent(ws, "team", "pair", "x").expect(0).json["status"], "DONE")


@test("a byte 0 in the output of an agent hides nothing of the rest")
def _(ws):
    configure(ws)
    output = agent(ws, "run", "bytes", "x").expect(0).json["agents"][0]["output"]
    eq(output, "end\ufffdafter\nx")


@test("the files of a delegation are there before the run can be resumed, and a run that could not begin is not there", slow=True)
def _(ws):
    configure(ws)
    args = ["agent", "run", "file", "some text", "--json"]
    calls = ws.fault(*args).expect(0).calls
    shutil.rmtree(ws.path / ".aiflow/runs")
    assert calls > 30, calls
    for at in range(1, calls):
        ws.fault(*args, at=at, mode="kill")
        for path in (ws.path / ".aiflow/runs").glob("RUN-*"):
            records = path.joinpath("journal").read_bytes().split(b"\n")[:-1] if path.joinpath("journal").exists() else []
            if records:
                eq(path.joinpath("task.1.txt").read_text(), "some text", f"task.1.txt, killed at {at}")
            shutil.rmtree(path)


@test("tasks of a dag that wait for each other, and ids that are none, are refused in the caller's words")
def _(ws):
    configure(ws)
    plan = ws.path / "plan.json"

    def refused(tasks, code=2, reason="INVALID_INPUT"):
        plan.write_text(json.dumps(tasks))
        return agent(ws, "dag", "plan.json").expect(code, reason).error["message"]

    one = {"subagentId": "echo", "task": "x"}
    message = refused([{**one, "id": "a", "needs": ["b"]}, {**one, "id": "b", "needs": ["a"]}, {**one, "id": "c"}])
    assert "a, b" in message and "agent.dag" not in message, message
    assert "a b" in refused([{**one, "id": "a b"}])
    assert "tasks[1]" in refused([{**one, "id": "a"}, {**one, "id": 1}])
    agent(ws, "dag", "no-such-file").expect(5, "NOT_FOUND")
    agent(ws, "dag", ".").expect(2, "INVALID_INPUT")
    eq((ws.path / ".aiflow/runs").exists() and list((ws.path / ".aiflow/runs").glob("RUN-*")), [], "runs")


@test("a value that an agent sets does not end its loop")
def _(ws):
    configure(ws, 'agents: {one: {run: [sh, -c, "tasuki channel set iteration 99; echo x >> ran", sh, "{task}"]}}\n')
    agent(ws, "loop", "one", "x", "--max-iterations", "3").expect(0)
    eq(len(ran(ws)), 3, "iterations")


@test("commands that a refusal suggests mean the same workspace and the same caller")
def _(ws):
    place = ws.path / "it's here"
    place.mkdir()
    ws.tasuki("--root", place, "init").expect(0)
    ws.tasuki("--root", place, "own", "claim", "W", "--instance", "somebody").expect(0)
    error = ws.tasuki("--root", place, "own", "claim", "W", "--instance", "me", "--json").expect(4).error
    command = next(c for c in error["next"] if "force-claim" in c)
    ws.run(["sh", "-c", f"{command} --yes"], env=with_tool(ws)).expect(0)
    eq(ws.tasuki("--root", place, "own", "show", "W", "--json").json["ownerInstanceId"], "me", "the owner")


@test("an id of a workflow in the environment that is none is refused, not ignored")
def _(ws):
    configure(ws)
    ws.tasuki("agent", "run", "echo", "x", "--json", env={"TASUKI_UL_TASK_ID": "a/b"}).expect(2, "INVALID_INPUT")


@test("an agent's server whose program was replaced goes on delegating with the new one")
def _(ws):
    configure(ws)
    place = ws.base / "bin"
    place.mkdir()
    for name in ("tasuki", "tasuki-hold"):
        shutil.copy(ws.build / name, place / name)
    binary, ws.binary = ws.binary, place / "tasuki"
    client = Agent(ws)
    shutil.copy(binary, place / "new")
    (place / "new").rename(place / "tasuki")
    eq(client.ok("loop_run", subagentId="echo", task="x", maxIterations=2)["status"], "DONE")


# -- flows ----------------------------------------------------------------------------------------------------------

@test("a task of a flow may be an agent's: run is its text, never seen by a shell; what the task says wins over the agent")
def _(ws):
    configure(ws, 'agents:\n  say: {run: [sh, -c, \'printf "%s|%s|%s\\n" "$1" "$A" "$B" >> said; pwd >> said\', sh, "{task}"], '
                  'env: {A: agent, B: agent}, cwd: sub}\n  file: {run: [cp, "{task_file}", copy]}\n')
    (ws.path / "sub").mkdir()
    text = "two  words; $(touch pwned) 'x'"
    flow = {"tasks": {"a": {"run": text, "agent": "say", "env": {"B": "task"}},
                      "b": {"agent": "file", "run": text, "needs": ["a"]}}}
    run_flow(ws, json.dumps(flow))
    eq((ws.path / "sub/said").read_text(), f"{text}|agent|task\n{ws.path}/sub\n")
    eq((ws.path / "copy").read_text(), text)
    assert not list(ws.path.rglob("pwned"))


@test("an agent's time limit and retries are those of its task in a flow, unless the task has its own; resume does the same")
def _(ws):
    configure(ws, 'agents: {bad: {run: [sh, -c, "echo x >> ran; test -e good", sh, "{task}"], retries: 1}}\n')
    run = run_flow(ws, "tasks: {a: {agent: bad, run: do it, backoff: {initial: 1ms}}}\n", code=7)["run_id"]
    eq(len(ran(ws)), 2, "how often it ran")
    configure(ws, "max_runs: 3\n")
    (ws.path / "good").touch()
    eq(last_document(ws.tasuki("resume", run, "--json").expect(0))["status"], "DONE")
    eq(len(ran(ws)), 3, "how often it ran")
    configure(ws, 'agents: {slow: {run: [sh, -c, "sleep 1000", sh, "{task}"], timeout: 100ms}}\n')
    eq(run_flow(ws, "tasks: {a: {agent: slow, run: do it}}\n", code=7)["reason_code"], "TASK_TIMEOUT")


@test("an agent that is not there, or a run that is no text, is refused with its place before anything starts")
def _(ws):
    configure(ws)
    for text, place in (("tasks:\n  a: {agent: ech, run: x}\n", (2, 14)), ("tasks:\n  a: {agent: echo, run: [x]}\n", (2, 25)),
                        ("tasks:\n  a: {agent: echo}\n", (2, 3))):
        name = write_flow(ws, text)
        for verb in (["flow", "validate"], ["run"]):
            error = ws.tasuki(*verb, name, "--json").expect(2, "FLOW_INVALID").error
            eq((error["context"]["line"], error["context"]["column"]), place, text)
            eq("Did you mean echo?" in error["message"], "ech," in text, error["message"])
    ws.tasuki("request", "add", "t", "--flow", "flow.yaml", "--id", "RQ-1").expect(0)
    ws.tasuki("request", "run", "RQ-1", "--json").expect(2, "FLOW_INVALID")
    assert not (ws.path / ".aiflow/runs").exists() or not list((ws.path / ".aiflow/runs").glob("RUN-*"))


@test("a program that was removed while it runs says so where it would start itself again")
def _(ws):
    configure(ws)
    ws.tasuki("proc", "create", "p", "--", "true").expect(0)
    for words in ("agent loop slow x --max-iterations 1", "run none.yaml --detach", "proc start p"):
        copy = ws.base / "copy"
        shutil.copy(ws.binary, copy)
        (ws.path / "none.yaml").write_text("tasks: {a: 'true'}\n")
        script = f'exec 9<"{copy}"; rm "{copy}"; exec /proc/self/fd/9 --json {words}'
        result = ws.run(["sh", "-c", script]).expect(3, "ENVIRONMENT")
        assert str(copy) in result.error["message"], result


main(__name__)
