"""Spec 6: running flows. Each of the nine rules has tests that fail when it is broken; then what a task gets, and the CLI."""

import json
import os
import re
import signal
import time

from common import check_error
from flows import journal, last_document, only_run, processes_of, resume, run_flow, run_ids, spawn_flow, trace, with_tool, write_flow
from harness.harness import eq, main, test

NOTE = "echo $TASUKI_TASK_ID >> trace"


def flow(expression, more="", **tasks):
    """A flow whose tasks note their name; `name="command"` replaces the command, a dict all keys."""
    names = dict.fromkeys(re.findall(r"[a-z]\w*(?!\w*\()", expression))
    lines = []
    for name in names:
        task = tasks.get(name, NOTE)
        lines.append(f"  {name}: {json.dumps(task if isinstance(task, dict) else {'run': task})}\n")
    return f"flow: {expression}\ntasks:\n" + "".join(lines) + more


# ---- rule 1: join, rule 2: isolation ----

@test("rule 1: a task with two predecessors starts once, when both have ended")
def _(ws):
    run_flow(ws, flow("a >> (b | c) >> d", b=f"while ! test -e trace || ! grep -q c trace; do sleep 0.01; done; {NOTE}"), "-j", "4")
    eq(trace(ws), ["a", "c", "b", "d"], "order")


@test("rule 2: the successors of a group are queued in the parent's session, after the whole group")
def _(ws):
    run_flow(ws, flow("(a | b) >> c"))
    records = journal(ws, only_run(ws))
    ends = [r["k"] for r in records if r["e"] == "end"]
    starts = [r["k"] for r in records if r["e"] == "start"]
    eq((sorted(ends[:2]), ends[2], starts[2]), (["a", "b"], "c", "c"), "ends and the last start")
    order = [(r["e"], r.get("k")) for r in records]
    assert order.index(("group", "group-1")) < order.index(("start", "c")), order


# ---- rule 3: channel ----

@test("rule 3: branches are merged in the order of the file, not in the order in which they end")
def _(ws):
    stage = run_flow(ws, flow("(a | b)", a="until test -e done; do sleep 0.01; done; echo x=a >> $TASUKI_OUTPUT",
                              b="echo x=b >> $TASUKI_OUTPUT; touch done"), "-j", "2")
    eq(stage["channel"]["x"], "b", "x")


def merged(ws, rule, *values):
    """What a rule makes of values that branches write, in that order; all differ from what was there before."""
    names = "abc"[:len(values)]
    return run_flow(ws, flow(f"s >> ({' | '.join(names)})", f"channel: {{merge: {{x: {rule}}}}}\n", s="echo x=100 >> $TASUKI_OUTPUT",
                             **{name: f"echo x={value} >> $TASUKI_OUTPUT" for name, value in zip(names, values)}))["channel"]["x"]


for rule, expected in [("last", 5), ("first", 3), ("sum", 100 - 97 - 93 - 95), ("max", 7), ("min", 3)]:
    @test(f"rule 3: the rule {rule} makes one value of three")
    def _(ws, rule=rule, expected=expected):
        eq(merged(ws, rule, 3, 7, 5), expected, "x")


@test("rule 3: max and min do not depend on the order, and whole numbers are compared as such")
def _(ws):
    eq([merged(ws, rule, *values) for rule in ("max", "min") for values in ((7, 3, 5), (5, 7, 3))], [7, 7, 3, 3], "x")
    large = 2**53
    eq([merged(ws, "max", large, large + 1), merged(ws, "min", large + 1, large)], [large + 1, large], "above 2^53")
    eq([merged(ws, "max", 2.5, 2), merged(ws, "min", 2, 1.5)], [2.5, 1.5], "with fractions")


@test("rule 3: append puts what each branch added behind the other, in the order of the file")
def _(ws):
    stage = run_flow(ws, flow("s >> (a | b)", "channel: {merge: {log: append}}\n", s="tasuki channel append log start",
                              a="tasuki channel append log from_a", b="tasuki channel append log from_b"))
    eq(stage["channel"]["log"], ["start", "from_a", "from_b"], "log")


@test("rule 3: the rule error fails the group, and nothing is merged")
def _(ws):
    stage = run_flow(ws, flow("(a | b) >> c", "channel: {merge: {x: error}}\n", a="echo x=1 >> $TASUKI_OUTPUT",
                              b="echo x=2 >> $TASUKI_OUTPUT"), code=7)
    eq((stage["reason_code"], stage["channel"], trace(ws)), ("GROUP_FAILED", {}, []), "the end")


# ---- rule 4: failure ----

for policy, code, runs_on in [("strict", 7, False), ("best_effort", 0, True), ("{at_least: 1}", 0, True), ("{at_least: 2}", 7, False),
                              ("{critical: [a]}", 7, False), ("{critical: [b]}", 0, True)]:
    @test(f"rule 4: with policy {policy} a group whose first branch fails {'passes' if runs_on else 'fails'}")
    def _(ws, policy=policy, code=code, runs_on=runs_on):
        stage = run_flow(ws, flow("g(a | b) >> c", f"groups: {{g: {{policy: {policy}}}}}\n", a="echo lost=1 >> $TASUKI_OUTPUT; exit 4"),
                         code=code)
        eq(("c" in trace(ws), "b" in trace(ws)), (runs_on, True), "whether c and b ran")
        eq([(f["task"], f["exit_code"]) for f in stage["failures"]], [("a", 4)], "the failures, which stay visible")
        assert "lost" not in stage["channel"], "what a failed branch wrote is not merged"


@test("rule 4: fail_fast stops the other branches with all their processes")
def _(ws):
    stage = run_flow(ws, flow("g(a | b >> c)", "groups: {g: {policy: fail_fast}}\n", a="until test -e up; do sleep 0.01; done; exit 1",
                              b="sh -c 'sleep 300 & setsid sleep 300 & touch up; wait' & wait"), "-j", "2", code=7)
    eq(processes_of(stage["run_id"]), [], "processes that are left")
    states = {t["task"]: t["state"] for t in stage["tasks"]}
    eq(states, {"a": "failed", "b": "stopped", "c": "stopped"}, "states")


@test("rule 4: what does not depend on a failed task runs to its end")
def _(ws):
    run_flow(ws, f"tasks:\n  a: 'exit 1'\n  b: {{run: '{NOTE}', needs: a}}\n  c: '{NOTE}'\n  d: {{run: '{NOTE}', needs: c}}\n", code=7)
    eq(trace(ws), ["c", "d"], "what ran")


# ---- rule 5: counters ----

@test("rule 5: max_cycles N allows N executions, and the next is a failure of its own")
def _(ws):
    stage = run_flow(ws, flow("a >> b", a={"run": f"{NOTE}; tasuki task again", "max_cycles": 3}), code=7)
    eq((trace(ws), stage["reason_code"]), (["a"] * 3, "CYCLE_LIMIT_EXCEEDED"), "the end")


@test("rule 5: steps add up over branches")
def _(ws):
    eq(run_flow(ws, flow("a >> (b >> c | d) >> e"))["counts"]["steps"], 5, "steps")


# ---- rule 6: retries and timeouts ----

@test("rule 6: a failed task is tried again, with its attempt in the environment, and the run succeeds")
def _(ws):
    stage = run_flow(ws, flow("a", a={"run": "echo $TASUKI_ATTEMPT >> trace; test $TASUKI_ATTEMPT = 3", "retries": 2,
                                      "backoff": {"initial": "1ms"}}))
    eq((trace(ws), stage["status"], stage["counts"]["steps"]), (["1", "2", "3"], "DONE", 1), "the end")


@test("rule 6: a retry waits in a timer while other tasks run")
def _(ws):
    run_flow(ws, f"tasks:\n  a: {{run: 'echo $TASUKI_TASK_ID >> trace; test -e b_ran', retries: 5, backoff: {{initial: 200ms}}}}\n"
                 f"  b: 'touch b_ran; {NOTE}'\n", "-j", "1")
    eq(trace(ws), ["a", "b", "a"], "order")


@test("rule 6: a timeout ends the whole process group, grandchildren included")
def _(ws):
    stage = run_flow(ws, flow("a", a={"run": "sleep 300 & setsid sleep 300 & sh -c 'sleep 300' & wait", "timeout": "200ms"}), code=7)
    eq((stage["reason_code"], stage["failures"][0]["reason_code"]), ("TASK_TIMEOUT", "TASK_TIMEOUT"), "reason")
    eq(processes_of(stage["run_id"]), [], "processes that are left")


# ---- rule 7: dynamic tasks, cycles ----

@test("rule 7: a task that was added can add another; the join waits for all")
def _(ws):
    run_flow(ws, flow("(a | b) >> c", a="tasuki task spawn x -- sh -c 'echo x >> trace; tasuki task spawn y -- sh -c \"echo y >> trace\"'"))
    seen = trace(ws)
    eq((seen[-1], sorted(seen)), ("c", ["b", "c", "x", "y"]), "order")


@test("rule 7: next runs another task beside the successors, goto instead of them")
def _(ws):
    text = flow("a >> b", f"  fix: {{run: '{NOTE}', when: never}}\n", a=f"{NOTE}; tasuki task next fix%s")
    for places in ("1", "2"):
        run_flow(ws, text % "", "-j", places)
        eq((trace(ws)[0], sorted(trace(ws)[1:])), ("a", ["b", "fix"]), f"with next, {places} at a time")
        (ws.path / "trace").unlink()
        run_flow(ws, text % " --goto", "-j", places)
        eq(trace(ws), ["a", "fix"], f"with goto, {places} at a time")
        (ws.path / "trace").unlink()


def asking(words, when):
    """a asks for fix, which is ready from the beginning on; b comes after a."""
    return (f"tasks:\n  a: {{run: '{NOTE}; tasuki task {words}'}}\n  b: {{run: '{NOTE}', needs: [a]}}\n"
            f"  fix: {{run: '{NOTE}', when: '{when}'}}\n")


@test("rule 7: a task whose condition is false runs once if another one asks for it, also while it still waits for a place")
def _(ws):
    for words, when in (("next fix", "x == 1"), ("next fix", "never"), ("next fix --goto", "x == 1")):
        for places in ("1", "2"):
            run_flow(ws, asking(words, when), "-j", places)
            eq((trace(ws).count("fix"), trace(ws).count("b")), (1, "goto" not in words), f"{words}, {when}, {places} at a time")
            (ws.path / "trace").unlink()


@test("rule 7: a task whose condition holds has its own turn and the one that another task asks for")
def _(ws):
    for places in ("1", "2"):
        run_flow(ws, asking("next fix", "x != 1"), "-j", places)
        eq(trace(ws).count("fix"), 2, f"{places} at a time")
        (ws.path / "trace").unlink()


@test("rule 7: goto back repeats what lies between")
def _(ws):
    run_flow(ws, flow("a >> b >> c", b=f"{NOTE}; test -e once || {{ touch once; tasuki task next a --goto; }}"))
    eq(trace(ws), ["a", "b", "a", "b", "c"], "order")


@test("rule 7: goto back repeats a group: each branch runs and is joined once more, as if it had not run before")
def _(ws):
    back = f"{NOTE}; test $(grep -c d trace) -gt 2 || tasuki task next s --goto"
    stage = run_flow(ws, flow("s >> g(a | b >> (c | x)) >> d", "groups: {g: {policy: fail_fast}}\nchannel: {merge: {n: sum}}\n",
                              a=f"{NOTE}; tasuki channel add n 1", d=back))
    turns = " ".join(trace(ws)).split("s ")[1:]
    eq([sorted(turn.split()) for turn in turns], [["a", "b", "c", "d", "x"]] * 3, "what ran in each turn")
    eq([(turn.split()[-1], turn.index("b") < turn.index("c")) for turn in turns], [("d", True)] * 3, "the order in each turn")
    eq(stage["channel"]["n"], 3, "what the branch added in its turns")


@test("rule 7: a group whose branch failed, and was tolerated, begins anew when it is repeated")
def _(ws):
    fails_once = f"{NOTE}; test -e failed || {{ touch failed; exit 1; }}"
    back = f"{NOTE}; test $(grep -c d trace) -gt 1 || tasuki task next s --goto"
    stage = run_flow(ws, flow("s >> g(a >> b | c) >> d", "groups: {g: {policy: best_effort}}\n", a=fails_once, d=back))
    eq(sorted(trace(ws)), sorted("sacd" "sabcd"), "what ran")
    eq((stage["status"], [f["task"] for f in stage["failures"]]), ("DONE", ["a"]), "the end")


@test("rule 7: the graph of a run has the jumps that it took, with their number, the tasks that were added, and each branch's session")
def _(ws):
    run = run_flow(ws, flow("a >> (b | x) >> c >> d", a=f"{NOTE}; test $(grep -c a trace) -ge 4 || tasuki task again",
                            b="tasuki task spawn extra -- true", c=f"{NOTE}; test $(grep -c c trace) -ge 3 || tasuki task next d; true",
                            d=f"{NOTE}; test $(grep -c d trace) -ge 2 || tasuki task next c --goto"))["run_id"]
    graph = ws.tasuki("runs", "graph", run, "--format", "json", "--json").expect(0).json["graph"]
    jumps = {(one["from"], one["to"]): one["count"] for one in graph["jumps"]}
    eq((jumps[("a", "a")], jumps[("d", "c")], jumps[("c", "d")] >= 1), (3, 1, True), f"the jumps {jumps}")
    eq(graph["spawned"], [{"task": "extra", "by": "b"}], "what was added")
    group = next(node["group"] for node in graph["scope"]["nodes"] if node.get("group"))
    eq((graph["scope"]["session_id"], [one["session_id"] for one in group["branches"]]), (run, [f"{run}_b", f"{run}_x"]), "the sessions")
    eq(set(graph["commands"]), set("abxcd"), "the commands")


@test("rule 7: a branch cannot go on with a task outside itself")
def _(ws):
    stage = run_flow(ws, flow("(a | b) >> c", a="tasuki task next c"), code=7)
    assert "another branch" in stage["failures"][0]["reason"], stage["failures"]


@test("rule 7: a task that is only asked for runs in the branch that asks, before its join, and once more after a resume if it failed")
def _(ws):
    more = ("  fix: {run: 'echo $TASUKI_SESSION_ID:$TASUKI_ATTEMPT:$E >> trace; test -e fixed && tasuki channel add n 10', when: never, "
            "retries: 1, backoff: {initial: 1ms}, env: {E: own}}\nchannel: {merge: {n: sum}}\n")
    text = flow("s >> (a | b) >> c", more, s="echo n=1 >> $TASUKI_OUTPUT", a="tasuki task next fix", b="tasuki task next fix --goto")
    run = run_flow(ws, text, code=7)["run_id"]
    eq(sorted(trace(ws)), sorted(f"{run}_{branch}:{attempt}:own" for branch in "ab" for attempt in (1, 2)), "before")
    (ws.path / "fixed").touch()
    eq(resume(ws, run)["channel"]["n"], 21, "what both copies added")
    eq((sorted(trace(ws)[4:6]), trace(ws)[6:]), ([f"{run}_a:1:own", f"{run}_b:1:own"], ["c"]), "after")


@test("rule 7: copies of one task that ask in several branches are answered each, and told apart also after the join")
def _(ws):
    more = "  fix: {run: 'x=$(tasuki task ask Which?); test -n \"$x\" || exit 0; echo $TASUKI_SESSION_ID:$x >> trace', when: never}\n"
    run = run_flow(ws, flow("((a | x) | b) >> c", more, a="tasuki task next fix", b="tasuki task next fix"), code=8)["run_id"]
    asked = ws.tasuki("runs", "show", run).expect(0).out
    names = sorted(re.findall(r"answer \S+ --task (\S+)/fix TEXT", asked))
    eq([name.split("_")[-1] for name in names], ["b", "a"], "the commands")
    ws.tasuki("answer", run, "--task", "fix", "1").expect(2)
    ws.tasuki("answer", run, "--task", "x/fix", "1").expect(5)
    ws.tasuki("answer", run, "--task", f"{names[1]}/fix", "A", "--wait", env=with_tool(ws)).expect(8)
    ws.tasuki("answer", run, "--task", f"{run}_{names[0]}/fix", "B", "--wait", env=with_tool(ws)).expect(0)
    eq(sorted(trace(ws)), sorted(["x", "c", f"{run}_{names[0]}:B", f"{run}_{names[1]}:A"]), "who got which answer")
    shown = ws.tasuki("runs", "show", run, "--json").expect(0).json["tasks"]
    eq([(t["state"], t.get("session_id")) for t in shown if t["task"] == "fix"],
       [("skipped", run)] + [("ok", t["session_id"]) for t in shown if t["task"] == "fix"][1:], "the states")
    eq(sorted(t["session_id"] for t in shown if t["task"] == "fix")[1:], [f"{run}_{name}" for name in names], "the copies")
    path = ws.path / ".aiflow/runs" / run / "stage.json"
    stage = json.loads(path.read_text())
    path.write_text(json.dumps({**stage, "status": "RUNNING", "tasks": [{**t, "state": "running"} for t in stage["tasks"]]}))
    eq(ws.tasuki("runs", "show", run, "--json").expect(0).json["tasks"], shown, "as the journal has them")


@test("rule 7: a branch that asks for the same task over and over reaches that task's max_cycles")
def _(ws):
    more = f"  fix: {{run: '{NOTE}; tasuki task next fix', when: never, max_cycles: 3}}\n"
    stage = run_flow(ws, flow("(a | b) >> c", more, a="tasuki task next fix"), code=7)
    eq((trace(ws).count("fix"), stage["failures"][0]["reason_code"]), (3, "CYCLE_LIMIT_EXCEEDED"), "executions and the reason")


# ---- rule 8: crash and resume (more in tests/crash/test_flow_kill.py) ----

@test("rule 8: resume runs what failed and what follows, and nothing that was completed")
def _(ws):
    stage = run_flow(ws, flow("a >> b >> c", a=f"{NOTE}; echo x=1 >> $TASUKI_OUTPUT", b=f"{NOTE}; test -e fixed"), code=7)
    (ws.path / "fixed").touch()
    stage = resume(ws, stage["run_id"])
    eq((stage["status"], trace(ws), stage["channel"]), ("DONE", ["a", "b", "b", "c"], {"x": 1}), "the end")


@test("rule 8: resume goes on from the flow that the run began with")
def _(ws):
    stage = run_flow(ws, flow("a >> b", b=f"test -e fixed && {NOTE}"), code=7)
    write_flow(ws, flow("z"))
    (ws.path / "fixed").touch()
    resume(ws, stage["run_id"])
    eq(trace(ws), ["a", "b"], "what ran")


@test("rule 8: what failed in a group that passed is not run again")
def _(ws):
    stage = run_flow(ws, flow("g(a | b) >> c", "groups: {g: {policy: best_effort}}\n", a=f"{NOTE}; exit 1",
                              c="test -e fixed"), code=7)
    (ws.path / "fixed").touch()
    resume(ws, stage["run_id"])
    eq(sorted(trace(ws)), ["a", "b"], "what ran")


@test("rule 8: a run that is executed cannot be resumed at the same time")
def _(ws):
    proc = spawn_flow(ws, flow("a", a="touch up; while test -e up; do sleep 0.01; done"))
    ws.until(lambda: (ws.path / "up").exists(), "the task runs")
    refused = ws.tasuki("resume", only_run(ws), "--json").expect(4, "RUN_IN_PROGRESS").json
    eq(refused["latest_run"], f"/api/runs/{only_run(ws)}", "the run that is in the way")
    (ws.path / "up").unlink()
    ws.finish(proc).expect(0)


@test("rule 8: on_interrupt: fail and ask are obeyed at resume")
def _(ws):
    for kind, code, status in (("fail", 7, "FAILED"), ("ask", 8, "NEEDS_INPUT")):
        known = run_ids(ws)
        proc = spawn_flow(ws, flow("a", a={"run": f"{NOTE}; touch up; sleep 300", "on_interrupt": kind}))
        ws.until(lambda: (ws.path / "up").exists(), "the task runs")
        proc.kill()
        proc.wait()
        run, = run_ids(ws) - known
        stage = last_document(ws.tasuki("resume", run, "--json", env=with_tool(ws)).expect(code))
        eq(stage["status"], status, f"status with {kind}")
        (ws.path / "up").unlink()


# ---- rule 9: trace ----

@test("rule 9: each branch's end is an event with its session, and so are the run's beginning and end")
def _(ws):
    run = run_flow(ws, flow("(a | b)"))["run_id"]
    eq(sorted((e["session_id"], e["run_id"]) for e in ws.events("branch.ended")), [(f"{run}_a", run), (f"{run}_b", run)], "branches")
    eq([e["data"]["status"] for e in ws.events("run.ended")], ["DONE"], "the end")


@test("rule 9: what follows from the end of a task is told behind it, and names the branch's task; what has ended does not run")
def _(ws):
    result = ws.tasuki("run", write_flow(ws, flow("(a | b >> b2)", b2="exit 1")), "--json", "-j", "1", env=with_tool(ws)).expect(7)
    told = [json.loads(line) for line in result.out.splitlines() if line.startswith('{"time"')]
    eq([(e["type"], e["task_id"], e["progress"]["running"]) for e in told if e["type"] not in ("run.started", "task.started", "run.ended")],
       [("task.ended", "a", 0), ("branch.ended", "a", 0), ("task.ended", "b", 0), ("task.failed", "b2", 0), ("branch.ended", "b", 0)],
       "ends")
    eq([(e["type"], e["task_id"]) for e in ws.events() if e["type"] in ("branch.ended", "task.failed")],
       [("branch.ended", "a"), ("task.failed", "b2"), ("branch.ended", "b")], "in the trail")


@test("rule 9: logs and journal carry session, run and task")
def _(ws):
    run = run_flow(ws, flow("(a | b)", a="echo hello"))["run_id"]
    eq((ws.path / ".aiflow/runs" / run / "tasks" / f"{run}_a" / "a.1.log").read_text(), "hello\n", "the log of a")
    assert all(r["s"].startswith(run) for r in journal(ws, run) if "s" in r)


# ---- what a task gets and how it talks back ----

@test("a task gets its ids, its channel and its output by the environment")
def _(ws):
    run_flow(ws, flow("a", a="for v in RUN_ID SESSION_ID TASK_ID ATTEMPT FENCE CHANNEL OUTPUT; do eval test -n \\\"\\$TASUKI_$v\\\" || exit 1; "
                             "done; test -f $TASUKI_CHANNEL"), "--set", "x=1")


@test("output lines are key=value or JSON; values keep their type")
def _(ws):
    stage = run_flow(ws, flow("a", a="printf 'n=3\\ns=a text\\nb=true\\n{\"list\": [1, 2], \"m\": {\"k\": null}}\\n' >> $TASUKI_OUTPUT"))
    eq(stage["channel"], {"n": 3, "s": "a text", "b": True, "list": [1, 2], "m": {"k": None}}, "channel")


@test("lines of blanks in the output are none, and a line may end as in Windows")
def _(ws):
    eq(run_flow(ws, flow("a", a="printf ' \\t \\n\\nx=1\\r\\n    \\n\\t\\n' > $TASUKI_OUTPUT"))["channel"], {"x": 1}, "channel")


@test("what a failed task wrote is not applied")
def _(ws):
    eq(run_flow(ws, flow("a", a="echo x=1 >> $TASUKI_OUTPUT; exit 1"), code=7)["channel"], {}, "channel")


@test("what a task writes counts, also among many that write nothing", slow=True)
def _(ws):
    names = [f"{'w' if i % 150 == 149 else 't'}{i}" for i in range(750)]
    text = "flow: " + " >> ".join(names) + "\ntasks:\n" + "".join(
        f"  {n}: {{run: [{'sh, -c, echo $TASUKI_TASK_ID=1 >> $TASUKI_OUTPUT' if n[0] == 'w' else '/bin/true'}]}}\n" for n in names)
    eq(sorted(run_flow(ws, text)["channel"]), sorted(n for n in names if n[0] == "w"), "who has written")


@test("a line of the output that is neither fails the task and is shown")
def _(ws):
    stage = run_flow(ws, flow("a", a="echo nonsense >> $TASUKI_OUTPUT"), code=7)
    assert "line 1" in stage["failures"][0]["reason"] and "nonsense" in stage["failures"][0]["reason"], stage["failures"]


@test("a task sees its own writes, its siblings' only after the join")
def _(ws):
    run_flow(ws, flow("a", a="tasuki channel set x 1; tasuki channel add x 2; tasuki channel get x >> trace"))
    eq(trace(ws), ["3"], "x")


@test("a negative number is a value, and no option; a letter is one")
def _(ws):
    stage = run_flow(ws, flow("a", a="tasuki channel set x -5; tasuki channel add x -1.5; tasuki channel set y -z 2> trace || true"))
    eq(stage["channel"], {"x": -6.5}, "the values")
    eq(trace(ws)[1:4], ["Unknown", "option", "-z"], "a letter")


@test("only a number can be added to a value, a fraction too; the refusal says what was given for which key")
def _(ws):
    stage = run_flow(ws, flow("a", a="tasuki channel add x 1; tasuki channel add x 0.5; tasuki channel add x much 2> trace || true"))
    eq((stage["channel"]["x"], " ".join(trace(ws))),
       (1.5, "tasuki: 'much' is not a number; only numbers can be added to x next tasuki channel add --help"))


@test("finish ends the run early as success, cancel as failure")
def _(ws):
    eq(run_flow(ws, flow("a >> b", a="tasuki task finish enough"))["status"], "DONE", "status")
    stage = run_flow(ws, flow("a >> b", a="tasuki task cancel 'no licence'"), code=7)
    eq((stage["status"], "no licence" in stage["reason"], trace(ws)), ("FAILED", True, []), "the end")


@test("outside a task the helpers say so")
def _(ws):
    for words in (["channel", "get", "x"], ["channel", "set", "x", "1"], ["task", "again"], ["task", "ask", "Why?"]):
        assert "inside a task" in ws.tasuki(*words, "--json").expect(2, "INVALID_INPUT").error["message"], words


@test("a command without shell syntax is executed directly, others by a shell; env and cwd are the task's")
def _(ws):
    (ws.path / "sub").mkdir()
    run_flow(ws, """
tasks:
  direct: {run: sh show.sh, cwd: sub, env: {WHO: me}}
  shell: {run: 'echo $0 >> trace'}
  list: {run: [sh, -c, 'echo "$1" >> trace', x, 'a  b']}
""".replace("sh show.sh", "sh ../show.sh"), "-j", "1") if (ws.path / "show.sh").write_text('echo "$WHO:$(basename $PWD)" >> ../trace\n') else None
    eq((ws.path / "trace").read_text().split("\n")[:-1], ["me:sub", "/bin/sh", "a  b"], "trace")


@test("a task's variable takes the place of ours: no name is there twice, and who the task is cannot be changed")
def _(ws):
    text = "tasks: {a: {run: 'tr \"\\\\0\" \"\\\\n\" < /proc/self/environ > seen', env: {OURS: task, TASUKI_TASK_ID: other}}}\n"
    ws.tasuki("run", write_flow(ws, text), env={"OURS": "outer", "KEPT": "1", "TASUKI_TASK_ID": "outer"}).expect(0)
    pairs = (ws.path / "seen").read_text().splitlines()
    names = [pair.split("=")[0] for pair in pairs if "=" in pair]
    eq(sorted(set(names)), sorted(names), "the names")
    assert {"OURS=task", "KEPT=1", "TASUKI_TASK_ID=a"} <= set(pairs), pairs


@test("a command that does not exist is a failed task with the reason, exit code 127")
def _(ws):
    stage = run_flow(ws, "tasks:\n  a: [no-such-program]\n", code=7)
    eq(stage["failures"][0]["exit_code"], 127, "exit code")
    assert "no-such-program" in stage["failures"][0]["reason"], stage["failures"]


# ---- questions ----

ASK = 'answer=$(tasuki task ask "Deploy?" --type approval); test -n "$answer" || exit 0; echo $answer >> trace'


@test("a question stops the run after its siblings ended; the answer goes on with the same task")
def _(ws):
    stage = run_flow(ws, flow("(a | b) >> c", a=ASK, b=f"{NOTE}"), code=8)
    run = stage["run_id"]
    eq((stage["status"], stage["questions"][0]["question"]["question"], trace(ws)), ("NEEDS_INPUT", "Deploy?", ["b"]), "the stage")
    ws.tasuki("answer", run, "text", "--json").expect(2, "INVALID_INPUT")
    stage = last_document(ws.tasuki("answer", run, "--yes", "--wait", "--json", env=with_tool(ws)).expect(0))
    eq((stage["status"], trace(ws), stage["channel"]), ("DONE", ["b", "true", "c"], {"a.answer": True}), "the end")
    starts = [r for r in journal(ws, run) if r["e"] == "start" and r["k"] == "a"]
    eq([r["a"] for r in starts], [1, 1], "attempts of a")
    ws.tasuki("answer", run, "--yes", "--json").expect(4, "ALREADY_ANSWERED")


@test("an answer without --wait lets the run go on in the background")
def _(ws):
    run = run_flow(ws, flow("a >> c", a='x=$(tasuki task ask "Which?" --option red --option blue); test -n "$x" || exit 0; echo $x >> trace'),
                   code=8)["run_id"]
    ws.tasuki("answer", run, "--choose", "2", env=with_tool(ws)).expect(0)
    ws.until(lambda: ws.tasuki("runs", "show", run, "--json").json["status"] == "DONE", "the run is done")
    eq(trace(ws), ["blue", "c"], "trace")


@test("a question that nobody could answer fails the task that asked it, and is shown as that")
def _(ws):
    for wrong, says in (({"type": "selection"}, "lacks options"), ({"type": "multi_selection", "options": []}, "lacks options"),
                        ({"type": "maybe"}, "'maybe' is not one of"), ({"options": [1, None]}, "options must be"), ({"options": "red"}, "options must be")):
        (ws.path / "line").write_text(json.dumps({"do": "ask", "question": "Which?", **wrong}) + "\n")
        stage = run_flow(ws, flow("a", a="cat line >> $TASUKI_OUTPUT"), code=7)
        assert says in stage["failures"][0]["reason"], f"{wrong}: {stage['failures']}"
    stage = run_flow(ws, flow("a", a="tasuki task ask Which? --type selection || exit 5"), code=7)
    eq(stage["failures"][0]["exit_code"], 5, "what task ask told the task")
    ws.tasuki("runs", "show", stage["run_id"]).expect(0)


# ---- the command line ----

@test("without a terminal there is a line per task; a failure ends with its last 20 lines and the commands for log and resume")
def _(ws):
    result = ws.tasuki("run", write_flow(ws, flow("a >> b", b="seq 1 30; printf '\\033[2Jbroken' >&2; exit 9")), env=with_tool(ws)).expect(7)
    run = only_run(ws)
    assert "a: ok in " in result.out and "b: failed after " in result.out, result.out
    lines = [line.strip() for line in result.out.splitlines() if line.startswith("    ") and "tasuki" not in line]
    eq(lines, [str(i) for i in range(12, 31)] + ["broken"], "the last lines, without what moves the cursor")
    for text in ("exit code 9", f"tasuki runs logs {run} b", f"tasuki resume {run}"):
        assert text in result.out, f"{text} is missing in:\n{result.out}"
    stage = ws.tasuki("runs", "show", run, "--json").expect(0).json
    eq((len(stage["failures"][0]["lines"]), stage["failures"][0]["lines"][0]), (20, "12"))
    assert stage["duration_ms"] >= 0 and "lines" not in json.loads((ws.path / f".aiflow/runs/{run}/stage.json").read_text())["failures"][0]


@test("a run is named by nothing, @N, or a part of its id; a part that two runs have is refused")
def _(ws):
    file = write_flow(ws, flow("a >> b", b="echo out"))
    for _ in range(3):
        ws.tasuki("run", file, env=with_tool(ws)).expect(0)
    newest = sorted((path.name for path in (ws.path / ".aiflow/runs").glob("RUN-*")), reverse=True)
    show = lambda *name: ws.tasuki("runs", "show", *name, "--json").expect(0).json["run_id"]
    eq([show(), show("@1"), show("@2"), show("@3")], [newest[0], *newest])
    eq(show(newest[1][-6:]), newest[1], "the end of an id")
    eq(ws.tasuki("runs", "logs", "b").expect(0).out.count("== b"), 1, "a task of the latest run")
    for name in ("@4", "@0", "@", "@1x", newest[0][:8], "zz", "../x"):
        check_error(ws.tasuki("runs", "show", name, "--json"), 5, "RUN_NOT_FOUND")
    assert "tasuki runs list" in ws.tasuki("runs", "show", "@9").expect(5).err
    ws.tasuki("runs", "cancel").expect(2)
    assert newest[0] in ws.tasuki("resume").expect(0).out, "resume of the latest run"
    late = ws.tasuki("runs", "cancel", "@2").expect(0).out
    eq(late, f"{newest[1]} has ended already: DONE\n")


@test("a flow may come through a pipe, and its run can be resumed like any other")
def _(ws):
    text = flow("a >> b", b=f"test -e fixed && {NOTE}")
    ws.run([ws.binary, "run", "/dev/stdin"], input=text, env=with_tool(ws)).expect(7)
    (ws.path / "fixed").touch()
    resume(ws, only_run(ws))
    eq(trace(ws), ["a", "b"], "what ran")


@test("a run goes on although nobody reads what it says, and its tasks can still be told so")
def _(ws):
    read, write = os.pipe()
    os.close(read)
    text = flow("a >> b >> c", b="sh -c 'kill -PIPE $$'; echo $? >> trace")
    with open(write, "wb") as out:
        proc = ws.spawn("run", write_flow(ws, text), env=with_tool(ws), stdout=out)
    ws.finish(proc).expect(-signal.SIGPIPE)
    eq((trace(ws), ws.tasuki("runs", "show", only_run(ws), "--json").json["status"]), (["a", "141", "c"], "DONE"), "the run")


@test("--json prints one document per line and the stage at the end; --quiet prints nothing on success")
def _(ws):
    result = ws.tasuki("run", write_flow(ws, flow("a")), "--json", env=with_tool(ws)).expect(0)
    told = [json.loads(line) for line in result.out.splitlines() if line.startswith('{"time"')]
    eq([(one["type"], one["progress"]["running"]) for one in told],
       [("run.started", 0), ("task.started", 1), ("task.ended", 0), ("run.ended", 0)], "types, and how many tasks run")
    eq(ws.tasuki("run", "flow.yaml", "--quiet").expect(0).out, "", "quiet")


@test("runs list, show and logs show what happened")
def _(ws):
    run = run_flow(ws, flow("a >> b", a="echo one; echo two", b="exit 1"), code=7)["run_id"]
    listed = ws.tasuki("runs", "list", "--json").expect(0).json["runs"]
    eq([(r["run_id"], r["status"]) for r in listed], [(run, "FAILED")], "runs")
    eq(ws.tasuki("runs", "list", "--status", "DONE", "--json").json["runs"], [], "runs that are done")
    shown = ws.tasuki("runs", "show", run[:20], "--json").expect(0).json
    eq([(t["task"], t["state"]) for t in shown["tasks"]], [("a", "ok"), ("b", "failed")], "tasks")
    logs = ws.tasuki("runs", "logs", run, "a", "-n", "1", "--json").expect(0).json["logs"]
    eq([entry["text"] for entry in logs], ["two\n"], "the log of a")
    ws.tasuki("runs", "show", "RUN-nothing", "--json").expect(5, "RUN_NOT_FOUND")
    ws.tasuki("runs", "logs", run, "zzz", "--json").expect(5)


@test("--start begins in the middle, --dry-run runs nothing")
def _(ws):
    name = write_flow(ws, flow("a >> (b | c) >> d"))
    ws.tasuki("run", name, "--start", "c", env=with_tool(ws)).expect(0)
    eq(trace(ws), ["c", "d"], "what ran")
    order = ws.tasuki("run", name, "--dry-run", "--json").expect(0).json["order"]
    eq([o["task"] for o in order], ["a", "b", "c", "d"], "order")
    eq(trace(ws), ["c", "d"], "what ran")


@test("--start and named tasks are two ways to say what runs, and refused together; so is a task that is not there")
def _(ws):
    name = write_flow(ws, flow("a >> b >> c"))
    for words, text in ((["a", "--start", "b"], "--start"), (["a", "none"], "none"), (["--start", "none"], "none")):
        refused = ws.tasuki("run", name, *words, "--json", env=with_tool(ws))
        eq(refused.code, 2, f"{words}")
        assert text in refused.error["message"], refused.error["message"]
    eq((trace(ws), run_ids(ws)), ([], set()), "what ran, and the runs")


@test("--dry-run lists what would run: from --start on, and no task that only others ask for")
def _(ws):
    name = write_flow(ws, flow("a >> (b | c) >> d", "  fix: {run: 'true', when: never}\n"))
    for words, tasks in ((["--start", "c"], ["c", "d"]), ([], ["a", "b", "c", "d"])):
        order = ws.tasuki("run", name, "--dry-run", *words, "--json").expect(0).json["order"]
        eq([o["task"] for o in order], tasks, words)
    ws.tasuki("run", name, "b", "--start", "c", "--dry-run", "--json").expect(2, "INVALID_INPUT")


@test("behind --start a task that is only asked for runs, in a branch as outside of it")
def _(ws):
    text = flow("s >> (a | b) >> c", f"  fix: {{run: '{NOTE}', when: never}}\n", b="tasuki task next fix", c=f"{NOTE}; tasuki task next fix")
    result = ws.tasuki("run", write_flow(ws, text), "--start", "b", "--json", env=with_tool(ws)).expect(0)
    eq((trace(ws), sorted(t["state"] for t in last_document(result)["tasks"])), (["fix", "c", "fix"], ["ok"] * 4 + ["skipped"] * 2))


@test("what lies before --start is shown as skipped, also after a resume")
def _(ws):
    result = ws.tasuki("run", write_flow(ws, flow("a >> (b | c) >> d", d="test -e fixed")), "--start", "c", env=with_tool(ws)).expect(7)
    lines = [" ".join(line.split()[:2]) for line in result.out.splitlines()[:6]]
    eq(lines, ["a: skipped", "b: skipped", "c: started", "c: ok", "d: started", "d: failed"], "lines")
    (ws.path / "fixed").touch()
    states = {t["task"]: t["state"] for t in resume(ws, only_run(ws))["tasks"]}
    eq(states, {"a": "skipped", "b": "skipped", "c": "ok", "d": "ok"}, "states after resume")
    eq(trace(ws), ["c"], "what ran")


@test("a task counts once however often it runs, and one that was added counts as well")
def _(ws):
    once = "test -e once || { touch once; tasuki task spawn x -- true; tasuki task again; }"
    result = ws.tasuki("run", write_flow(ws, flow("a >> b", a=once)), "-j", "1", "--json", env=with_tool(ws)).expect(0)
    ends = [json.loads(line) for line in result.out.splitlines() if '"task.ended"' in line]
    eq([(end["task_id"], end["progress"]["done"], end["progress"]["total"]) for end in ends],
       [("a", 1, 3), ("x", 2, 3), ("a", 2, 3), ("b", 3, 3)], "ends")
    eq((last_document(result)["counts"]["ok"], last_document(result)["counts"]["total"]), (3, 3), "at the end")
    stage = run_flow(ws, flow("a >> b >> c", a="exit 1"), code=7)
    eq((stage["counts"]["done"], stage["counts"]["total"]), (1, 3), "what a run that failed has done")


@test("rule 5: max_steps holds in nested branches as it does outside them")
def _(ws):
    text = flow("s >> (a | (b | c)) >> d", "limits: {max_steps: 6, max_cycles: 99}\n", b=f"{NOTE}; tasuki task again")
    stage = run_flow(ws, text, "-j", "1", code=7)
    eq((stage["reason_code"], stage["counts"]["steps"], len(trace(ws))), ("MAX_STEPS_EXCEEDED", 6, 6), "the end, the steps, what ran")


@test("a run that ends at a limit says who used it up and what to do; resume is not it")
def _(ws):
    name = write_flow(ws, flow("a >> b", "limits: {max_steps: 4, max_cycles: 9}\n", a="tasuki task again"))
    result = ws.tasuki("run", name, env=with_tool(ws)).expect(7)
    assert "a ran most often: 4 times" in result.out and "raise max_steps under limits: in flow.yaml" in result.out, result.out
    assert "tasuki run flow.yaml" in result.out and "tasuki resume" not in result.out, result.out
    result = ws.tasuki("resume", only_run(ws), env=with_tool(ws)).expect(7)
    assert "in flow.yaml" in result.out, result.out


@test("a killed run is listed with what its journal says, though its stage is older or was never written")
def _(ws):
    proc = spawn_flow(ws, flow("a >> b >> c >> d", c="touch up; exec sleep 300"))
    ws.until(lambda: (ws.path / "up").exists(), "the third task runs")
    proc.kill()
    ws.finish(proc)
    (ws.path / ".aiflow/runs" / only_run(ws) / "stage.json").unlink(missing_ok=True)
    run, = ws.tasuki("runs", "list", "--json").expect(0).json["runs"]
    eq((run["status"], run["counts"]["done"], run["counts"]["total"]), ("INTERRUPTED", 2, 4), "the run in the list")
    assert " 2/4 " in ws.tasuki("runs", "list").expect(0).out


@test("a task that ran when its run was killed is shown as interrupted")
def _(ws):
    proc = spawn_flow(ws, flow("a >> b", b="exec sleep 300"))
    states = lambda: [line.split()[1] for line in ws.tasuki("runs", "show").out.splitlines() if line.startswith(("a ", "b "))]  # noqa: E731
    ws.until(lambda: states() == ["ok", "running"], "the stage says that the second task runs")
    proc.kill()
    ws.finish(proc)
    eq(states(), ["ok", "interrupted"], "its tasks")


@test("a question that was answered before its run was killed is no longer open")
def _(ws):
    run = run_flow(ws, flow("a", a="tasuki task ask Which?"), code=8)["run_id"]
    with open(ws.path / ".aiflow/runs" / run / "journal", "a") as file:  # as if it had been killed before the task's start
        file.write('{"t":1,"e":"answer","n":0,"v":"this"}\n{"t":1,"e":"resume","keep":true}\n')
    shown = ws.tasuki("runs", "show", run, "--json").expect(0).json
    eq((shown["status"], shown["counts"]["asking"], shown["questions"]), ("INTERRUPTED", 0, []), "the run")


@test("a list counts what has ended well or was skipped, and no failure")
def _(ws):
    ws.tasuki("run", write_flow(ws, flow("a >> b", b="exit 1"))).expect(7)
    for words in (("runs", "list"), ("status",)):
        assert " 1/2 " in ws.tasuki(*words).expect(0).out, words
    run_flow(ws, "flow: c >> d\ntasks:\n  c: 'true'\n  d: {run: 'true', when: mode == fast}\n")
    assert " 2/2 " in ws.tasuki("runs", "list").expect(0).out
    assert "1 of 2 tasks, 1 failed" in ws.tasuki("runs", "show", "@2").expect(0).out


@test("a run that died before its first record is listed without a count")
def _(ws):
    run_flow(ws, flow("a"))
    (ws.path / ".aiflow/runs" / only_run(ws) / "journal").write_text("")
    (ws.path / ".aiflow/runs" / only_run(ws) / "stage.json").unlink()
    assert " - " in ws.tasuki("runs", "list").expect(0).out


@test("-j limits how many tasks run at a time")
def _(ws):
    busy = "mkdir lock || echo twice >> trace; sleep 0.02; rmdir lock"
    run_flow(ws, "tasks:\n" + "".join(f"  t{i}: '{busy}'\n" for i in range(5)), "-j", "1")
    eq(trace(ws), [], "two at a time")


# ---- cancelling ----

STUBBORN = "trap '' TERM INT; touch up; sh -c \"trap '' TERM; sleep 300\" & setsid sleep 300 & while :; do sleep 1; done"


def cancelled(ws, proc, code=7):
    stage = last_document(ws.finish(proc).expect(code))
    eq(stage["status"], "CANCELLED", "status")
    eq(processes_of(stage["run_id"]), [], "processes that are left")
    return stage


@test("one SIGINT ends the run in good order: the task can clean up, nothing is left, resume goes on")
def _(ws):
    proc = spawn_flow(ws, flow("a >> b", a="test -e cleaned && exit 0; trap 'touch cleaned; exit 3' TERM; touch up; while :; do sleep 0.05; done"))
    ws.until(lambda: (ws.path / "up").exists(), "the task runs")
    proc.send_signal(signal.SIGINT)
    stage = cancelled(ws, proc)
    assert (ws.path / "cleaned").exists(), "the task did not get SIGTERM"
    eq(resume(ws, stage["run_id"])["status"], "DONE", "after resume")
    eq(trace(ws), ["b"], "what ran")


@test("a second SIGINT ends it at once, grandchildren included")
def _(ws):
    proc = spawn_flow(ws, flow("a", a=STUBBORN))
    ws.until(lambda: (ws.path / "up").exists(), "the task runs")
    proc.send_signal(signal.SIGINT)
    ws.until(lambda: ws.events("run.cancelling"), "the first signal was seen")
    proc.send_signal(signal.SIGINT)
    cancelled(ws, proc)


@test("Ctrl-C without end: the outcome and the exit code stay those of the run", slow=True)
def _(ws):
    for lap in range(10):
        (ws.path / "up").unlink(missing_ok=True)
        proc = spawn_flow(ws, flow("a", a="touch up; sleep 1000"))
        ws.until(lambda: (ws.path / "up").exists(), "the task runs")
        while proc.poll() is None:
            proc.send_signal(signal.SIGINT)
            time.sleep(0.001)
        cancelled(ws, proc)


@test("a task that ignores SIGTERM is ended after the grace time, with everything it started", slow=True)
def _(ws):
    proc = spawn_flow(ws, flow("a", a=STUBBORN))
    ws.until(lambda: (ws.path / "up").exists(), "the task runs")
    proc.send_signal(signal.SIGTERM)
    cancelled(ws, proc)


@test("runs cancel ends a run from outside; one that waits for an answer as well")
def _(ws):
    proc = spawn_flow(ws, flow("a", a="touch up; sleep 300"))
    ws.until(lambda: (ws.path / "up").exists(), "the task runs")
    run = only_run(ws)
    ws.until(lambda: (ws.path / ".aiflow/runs" / run / "stage.json").exists(), "the stage is there")
    ws.tasuki("runs", "cancel", run).expect(0)
    cancelled(ws, proc)
    waiting = run_flow(ws, flow("a", a=ASK), code=8)["run_id"]
    eq(ws.tasuki("runs", "cancel", waiting, "--json").expect(0).json["status"], "CANCELLED", "status")
    eq(ws.tasuki("runs", "show", waiting, "--json").json["status"], "CANCELLED", "status")


@test("a daemon that a task leaves behind on purpose lives on, and does not keep the run from ending")
def _(ws):
    stage = run_flow(ws, flow("a", a="setsid sleep 300 >/dev/null 2>&1 & echo $! > daemon"))
    pid = int((ws.path / "daemon").read_text())
    eq((stage["status"], ws.alive(pid)), ("DONE", True), "the end")
    os.kill(pid, signal.SIGKILL)


main(__name__)
