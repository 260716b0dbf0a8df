"""Spec 6: what a run must not do in silence: cancel as success, take requests unchecked, lose the cause of a failure."""

import json
import os

from flows import run_flow, trace
from harness.harness import eq, main, test


def one(command):
    return f"tasks:\n  a: {json.dumps({'run': command})}\n"


def tells(*requests):
    return one("".join(f"echo '{json.dumps(request)}' >> $TASUKI_OUTPUT; " for request in requests))


@test("a run that its only task cancels has failed, and the reason is the task's message")
def _(ws):
    stage = run_flow(ws, one("tasuki task cancel x"), code=7)
    eq((stage["status"], stage["reason_code"]), ("FAILED", "RUN_FAILED"), "status and reason code")
    assert "x" in stage["reason"], stage["reason"]


@test("a run that a branch of a tolerant group cancels has failed")
def _(ws):
    stage = run_flow(ws, "flow: g(a|b)\ngroups: {g: {policy: {at_least: 1}}}\n"
                         "tasks: {a: {run: 'tasuki task cancel x'}, b: {run: 'true'}}\n", code=7)
    eq(stage["reason_code"], "RUN_FAILED", "reason code")


RUN = {"run": ["true"]}
for what, request in [
        ("a name that is a path", {"do": "spawn", "task": "../../../x", "payload": RUN}),
        ("no name", {"do": "spawn", "payload": RUN}),
        ("no command", {"do": "spawn", "task": "x"}),
        ("an empty command", {"do": "spawn", "task": "x", "payload": {"run": []}}),
        ("a command that is not made of strings", {"do": "spawn", "task": "x", "payload": {"run": ["echo", 1]}}),
        ("the name of a task of the flow", {"do": "spawn", "task": "a", "payload": RUN})]:
    @test(f"a spawn with {what} fails the task that asked for it, and nothing is run")
    def _(ws, request=request):
        stage = run_flow(ws, tells(request), code=7)
        eq([(f["task"], f["reason_code"]) for f in stage["failures"]], [("a", "INVALID_INPUT")], "failures")
        assert not list(ws.path.rglob("x*.log")), "a log of the task that was refused"


@test("a task that spawns 40,000 keeps the runner busy for a moment, not for minutes", slow=True)
def _(ws):
    lines = """import json; [print(json.dumps({'do': 'spawn', 'task': f't{n}', 'payload': {'run': ['true']}})) for n in range(40000)]"""
    (ws.path / "spawn.py").write_text(lines)
    text = "limits: {max_steps: 3}\n" + one("python3 spawn.py >> $TASUKI_OUTPUT")
    is_sanitized = "ASAN_OPTIONS" in os.environ  # strict_string_checks reads all of the output for each of its lines
    stage = run_flow(ws, text, code=7, timeout=280 if is_sanitized else 110)
    eq((stage["reason_code"], stage["counts"]["total"]), ("MAX_STEPS_EXCEEDED", 40001), "the end, and how many there are")


@test("a name is spawned once at a time: two of one name are refused together")
def _(ws):
    spawn = {"do": "spawn", "task": "x", "payload": {"run": ["sh", "-c", "echo x >> trace"]}}
    stage = run_flow(ws, tells(spawn, spawn), code=7)
    eq((stage["failures"][0]["task"], trace(ws)), ("a", []), "the failed task and the trace")


for request, key in [({"do": "next"}, "task"), ({"do": "goto"}, "task"), ({"do": "ask"}, "question")]:
    @test(f"{request['do']} without a {key} fails the task and says what is missing")
    def _(ws, request=request, key=key):
        stage = run_flow(ws, tells(request), code=7)
        eq(stage["failures"][0]["reason_code"], "INVALID_INPUT", "reason code")
        assert key in stage["failures"][0]["reason"], stage["failures"]


@test("a cycle limit that a policy tolerates is among the failures")
def _(ws):
    stage = run_flow(ws, "flow: g(a|b) >> c\ngroups: {g: {policy: {at_least: 1}}}\n"
                         "tasks: {a: {run: tasuki task again, max_cycles: 2}, b: {run: 'true'}, c: {run: 'true'}}\n")
    eq([(f["task"], f["reason_code"]) for f in stage["failures"]], [("a", "CYCLE_LIMIT_EXCEEDED")], "failures")
    eq((stage["status"], stage["counts"]["failed"]), ("DONE", 1), "status and count")


def writes(name, value):
    return f"{name}: {{run: 'echo n={value} >> $TASUKI_OUTPUT'}}"


for rule, first, second in [("sum", "1", "foo"), ("sum", "foo", "1"), ("max", "-1", "foo"), ("min", "foo", "1"), ("max", "true", "false")]:
    @test(f"a {rule} of {first} and {second} fails the group and names the key and both branches")
    def _(ws, rule=rule, first=first, second=second):
        stage = run_flow(ws, f"flow: (a|b)\nchannel: {{merge: {{n: {rule}}}}}\n"
                             f"tasks: {{{writes('a', first)}, {writes('b', second)}}}\n", code=7)
        eq(stage["reason_code"], "GROUP_FAILED", "reason code")
        for word in ("n ", "a", "b"):
            assert word in stage["reason"], stage["reason"]


@test("a merge that fails in a nested group is the reason of the run, with the key and the branches")
def _(ws):
    stage = run_flow(ws, "flow: ((a|b)|c)\nchannel: {merge: {n: error}}\n"
                         f"tasks: {{{writes('a', 1)}, {writes('b', 2)}, c: {{run: 'true'}}}}\n", code=7)
    eq(stage["reason_code"], "GROUP_FAILED", "reason code")
    assert "error" in stage["reason"] and "n" in stage["reason"], stage["reason"]


@test("a flow that runs itself is refused below 16 runs, with the chain named")
def _(ws):
    stage = run_flow(ws, "tasks: {a: {run: 'tasuki run flow.yaml --json > out.$(echo $TASUKI_RUN_CHAIN | tr -cd : | wc -c)'}}\n", code=7)
    chain = [f"out.{i}" for i in range(16)]
    eq(sorted(p.name for p in ws.path.glob("out.*")), sorted(chain), "the runs that tried to start another")
    error = json.loads((ws.path / "out.15").read_text().strip().splitlines()[-1])["error"]
    eq(error["reason_code"], "INVALID_INPUT", "reason code")
    assert error["message"].count("RUN-") == 16 and stage["run_id"] in error["next"][0], error


@test("the trail has the start and the end of every attempt, and the stage the session of every task")
def _(ws):
    stage = run_flow(ws, "flow: a >> (b | c) >> d\ntasks: {a: 'true', b: 'true', c: {run: 'test $TASUKI_ATTEMPT = 2', retries: 1, "
                         "backoff: {initial: 1ms}}, d: 'exit 3'}\n", code=7)
    run = stage["run_id"]
    eq({task["task"]: task["session_id"] for task in stage["tasks"]}, {"a": run, "b": f"{run}_b", "c": f"{run}_c", "d": run}, "sessions")
    events = [e for e in ws.events() if e["type"] in ("task.started", "task.ended")]
    seen = [(e["type"][5:], e["task_id"], e["session_id"], e["data"]["attempt"]) for e in events if e["run_id"] == run]
    for task, session, attempts in (("a", run, 1), ("b", f"{run}_b", 1), ("c", f"{run}_c", 2), ("d", run, 1)):
        eq([s for s in seen if s[1] == task],
           [(what, task, session, n) for n in range(1, attempts + 1) for what in ("started", "ended")], f"the events of {task}")
    eq([e["data"]["outcome"] for e in events if e["type"] == "task.ended" and e["task_id"] in "cd"], ["retry", "ok", "failed"], "outcomes")
    types = [e["type"] for e in ws.events() if e.get("run_id") == run]
    eq((types[0], types[-2:]), ("run.started", ["task.failed", "run.ended"]), "the order")


@test("the reason of a run with several failures is the first of them")
def _(ws):
    stage = run_flow(ws, "tasks:\n  a: exit 3\n  b: {run: sleep 1000, timeout: 50ms}\n", "--parallel", "1", code=7)
    eq((stage["reason_code"], [one["task"] for one in stage["failures"]]), ("TASK_FAILED", ["a", "b"]), "the reason, and who failed")


main(__name__)
