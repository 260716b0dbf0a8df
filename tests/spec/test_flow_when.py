"""The conditions of tasks: what holds, and what follows from a task that is passed over."""

import re

from flows import journal, resume, run_flow, spawn_flow, trace, with_tool, write_flow
from harness.harness import eq, main, test

NOTE = "echo $TASUKI_TASK_ID >> trace"
SET = ("mode=fast", "count=5", "price=19.90", "debug=true", "name=very fast", "zero=0", "big=9007199254740993", "list=[1]", "text=\"5\"")

CASES = [
    ("mode == fast", True), ("mode == slow", False), ("mode != slow", True), ("mode != fast", False), ("mode=='fast'", True),
    ("count == 5", True), ("count == 5.0", True), ("count == '5'", True), ("count != 5", False), ("count < 5", False), ("count <= 5", True),
    ("count > 4.5", True), ("count >= 6", False), ("count >= 5", True), ("count > -1", True),
    ("price > 19", True), ("price == 19.90", True), ("price == '19.90'", True), ("price == '19.9'", False), ("price < 19.91", True),
    ("text == 5", True), ("text > 4", True),
    ("big == 9007199254740993", True), ("big == 9007199254740992", False), ("big > 9007199254740992", True),
    ("debug == true", True), ("debug == false", False), ("debug != false", True), ("name == 'very fast'", True), ('name == "very fast"', True),
    ("none == fast", False), ("none != fast", True), ("none < 5", False), ("none >= 5", False), ("none in [fast]", False),
    ("mode < 5", False), ("mode > 5", False), ("list == '[1]'", True),
    ("mode in [slow, fast]", True), ("mode in [slow]", False), ("count in [4, 5.0]", True), ("name in ['very fast', x]", True),
    ("not mode == slow", True), ("not mode == fast", False), ("not not mode == fast", True), ("not mode in [fast]", False),
    ("mode == fast and count == 5", True), ("mode == fast and count == 6", False), ("mode == slow or count == 5", True),
    ("mode == slow or count == 6", False), ("mode == fast or count == 6 and zero == 1", True),
    ("(mode == fast or count == 6) and zero == 1", False), ("not (mode == slow or count == 6)", True),
    ("not mode == slow and count == 5", True), ("zero == 0", True), ("((count == 5))", True), ("never", False),
]


@test("when: what holds is what its words say")
def _(ws):
    lines = "".join(f"  t{i}: {{run: '{NOTE}', when: \"{text.replace(chr(34), chr(92) + chr(34))}\"}}\n" for i, (text, _) in enumerate(CASES))
    run_flow(ws, "tasks:\n" + lines, *(word for pair in SET for word in ("--set", pair)))
    ran = set(trace(ws))
    for i, (text, holds) in enumerate(CASES):
        eq(f"t{i}" in ran, holds, text)


def middle(when):
    return f"flow: a >> b >> c >> d\ntasks: {{a: '{NOTE}', b: {{run: '{NOTE}', when: {when}}}, c: '{NOTE}', d: '{NOTE}'}}\n"


@test("when: a task that is passed over lets its successors run, and is counted as skipped")
def _(ws):
    stage = run_flow(ws, middle("mode == fast"))
    eq(trace(ws), ["a", "c", "d"], "what ran")
    eq({key: stage["counts"][key] for key in ("total", "done", "ok", "skipped", "failed", "not_reached")},
       {"total": 4, "done": 4, "ok": 3, "skipped": 1, "failed": 0, "not_reached": 0}, "counts")
    eq([task["state"] for task in stage["tasks"]], ["ok", "skipped", "ok", "ok"], "states")


@test("when: never lets nothing follow from a task that nobody asks for")
def _(ws):
    stage = run_flow(ws, middle("never"))
    eq((trace(ws), stage["counts"]["ok"], stage["counts"]["skipped"]), (["a"], 1, 3), "what ran, counts")


@test("when: never as one of two predecessors does not keep a join from running")
def _(ws):
    run_flow(ws, f"tasks: {{a: '{NOTE}', n: {{run: '{NOTE}', when: never}}, j: {{run: '{NOTE}', needs: [a, n]}}}}\n")
    eq(trace(ws), ["a", "j"], "what ran")


@test("when: a group whose tasks are all passed over lets its successors run")
def _(ws):
    stage = run_flow(ws, f"flow: (a | b) >> c\ntasks: {{a: {{run: '{NOTE}', when: x == 1}}, b: {{run: '{NOTE}', when: x == 1}}, c: '{NOTE}'}}\n")
    eq((trace(ws), stage["status"]), (["c"], "DONE"), "what ran")


@test("when: a passed-over task stays passed over after a resume, whatever the channel says then")
def _(ws):
    flow = (f"flow: a >> b >> c\ntasks:\n  a: {{run: '{NOTE}', when: mode == fast}}\n"
            f"  b: '{NOTE}; echo mode=fast >> $TASUKI_OUTPUT'\n  c: 'test -e go; {NOTE}; test -e go'\n")
    stage = run_flow(ws, flow, code=7)
    (ws.path / "go").touch()
    stage = resume(ws, stage["run_id"])
    eq((trace(ws), stage["counts"]["skipped"], stage["counts"]["ok"]), (["b", "c", "c"], 1, 2), "what ran, counts")
    eq([r["o"] for r in journal(ws, stage["run_id"]) if r["e"] == "end" and r["k"] == "a"], ["passed"], "what the journal says")


@test("the last line counts what is ok, skipped, failed and not reached")
def _(ws):
    def last_line(text, code):
        out = ws.tasuki("run", write_flow(ws, text), env=with_tool(ws)).expect(code).out
        last = next(line for line in out.splitlines() if line.startswith("RUN-"))
        return re.sub(r"  [0-9 mins]+$", "", last)  # its duration

    assert last_line("flow: a >> b\ntasks: {a: 'true', b: 'true'}\n", 0).endswith(" DONE  2 of 2 tasks")
    line = last_line("flow: s >> a >> b >> c >> d\ntasks: {s: {run: 'true', when: x == 1}, a: 'true', b: 'exit 1', c: 'true', d: 'true'}\n", 7)
    assert line.endswith(" FAILED  2 of 5 tasks, 1 skipped, 1 failed, 2 not reached"), line


@test("a task that is passed over is not a step: max_steps N allows N executions, in a resumed run, too")
def _(ws):
    limits = "limits: {max_steps: 2}\n"
    chain = "flow: a >> b >> c >> d\ntasks: {a: 'true', b: {run: 'true', when: x == 1}, c: 'test -e ok', d: {run: 'true', when: x == 1}}\n"
    failed = run_flow(ws, limits + chain, code=7)
    eq((failed["reason_code"], failed["counts"]["steps"], failed["counts"]["skipped"]), ("TASK_FAILED", 2, 1), "before it is resumed")
    (ws.path / "ok").touch()
    done = resume(ws, failed["run_id"])
    eq((done["counts"]["steps"], done["counts"]["ok"], done["counts"]["skipped"]), (2, 2, 2), "after it")
    done = run_flow(ws, limits + chain, "--start", "c")
    eq((done["counts"]["steps"], done["counts"]["skipped"]), (1, 3), "the tasks before the start")
    heads = run_flow(ws, limits + "tasks: {n: {run: 'true', when: never}, m: {run: 'true', when: never}, a: 'true', b: {run: 'true', needs: [a]}}\n")
    eq((heads["counts"]["steps"], heads["counts"]["skipped"]), (2, 2), "tasks that only others ask for")
    third = run_flow(ws, limits + "flow: a >> b >> c\ntasks: {a: 'true', b: 'true', c: 'true'}\n", code=7)
    eq((third["reason_code"], third["counts"]["steps"]), ("MAX_STEPS_EXCEEDED", 2), "a third execution")


@test("a task that is passed over is not a cycle: max_cycles N allows N executions of a task that others request, or that a jump leaves out")
def _(ws):
    loop = f"""
limits: {{max_cycles: 1}}
tasks:
  test: {{run: '{NOTE}; test $(grep -c test trace) -gt %s || tasuki task next --goto repair', max_cycles: 9}}
  repair: {{run: '{NOTE}; tasuki task next test', when: never, max_cycles: 3}}
  ship: {{run: '{NOTE}', needs: [test]}}
"""
    run_flow(ws, loop % 3)
    eq(trace(ws), ["test", "repair"] * 3 + ["test", "ship"], "what ran")
    (ws.path / "trace").unlink()
    failed = run_flow(ws, loop % 4, code=7)
    eq((failed["reason_code"], trace(ws)), ("CYCLE_LIMIT_EXCEEDED", ["test", "repair"] * 3 + ["test"]), "a fourth execution")


main(__name__)
