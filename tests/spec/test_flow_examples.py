"""The examples of the graph engine run and print what they say."""

import signal

from harness.harness import eq, main, test


def example(ws, name):
    return ws.build / "examples" / f"example-{name}"


@test("sequence.c hands values from task to task", init=False)
def _(ws):
    eq(ws.run([example(ws, "sequence")]).expect(0).out, "fetch\nsort [3,1,2]\nstore [1,2,3]\n", "stdout")


@test("diamond.c joins once and adds up what its branches counted", init=False)
def _(ws):
    result = ws.run([example(ws, "diamond")]).expect(0)
    eq(result.out, "store: count is 12\n4 steps\n", "stdout")
    eq(sorted(result.err.splitlines()), ["branch left ended", "branch right ended"], "stderr")


@test("policy.c passes with two of three, and the failure stays visible", init=False)
def _(ws):
    eq(ws.run([example(ws, "policy")]).expect(0).out,
       "The task bad failed (session demo_bad): no such host\npublished\n", "stdout")


@test("dynamic.c runs the tasks it added before the join, and goes round three times", init=False)
def _(ws):
    eq(ws.run([example(ws, "dynamic")]).expect(0).out, "handled 3, 3 rounds, 7 steps\n", "stdout")


@test("cancel.c ends at SIGINT, and what comes after does not start", init=False)
def _(ws):
    expected = "working until Ctrl-C\nThe run was cancelled\n"
    eq(ws.run([example(ws, "cancel"), "now"]).expect(0).out, expected, "stdout")
    proc = ws.spawn_command([example(ws, "cancel")])
    eq(proc.stdout.readline(), "working until Ctrl-C\n", "the first line")
    proc.send_signal(signal.SIGINT)
    eq(ws.finish(proc).expect(0).out, "The run was cancelled\n", "the rest")


main(__name__)
