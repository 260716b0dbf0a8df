"""Values of the channel: a value stays as it was written unless it prints back identically as a number."""

import json

from flows import run_flow, with_tool, write_flow
from harness.harness import eq, main, test

TEXTS = ["1.10", "1234e56", "19.90", "1e3", "007", "-0", "+5", "0x10", "12345678901234567890", "1.", ".5", "1_000", "NaN", "", " 5", "1E5"]
NUMBERS = {"42": 42, "-7": -7, "1.5": 1.5, "0.1": 0.1, "1.0": 1.0, "1e25": 1e25, "9007199254740993": 9007199254740993}
OTHERS = {"true": True, "null": None, "[1, 2]": [1, 2], '"1.10"': "1.10"}
EXPECTED = {**{text: text for text in TEXTS}, **NUMBERS, **OTHERS}


def same(found, name):
    eq(json.dumps(found[name]), json.dumps(EXPECTED[name]), f"the value of {name!r}")


@test("a value that a task writes is kept as it was written, unless it prints back as the same number")
def _(ws):
    (ws.path / "values").write_text("".join(f"v{i}={text}\n" for i, text in enumerate(EXPECTED)))
    channel = run_flow(ws, "tasks: {a: 'cat values >> $TASUKI_OUTPUT'}\n")["channel"]
    for i, text in enumerate(EXPECTED):
        same({text: channel[f"v{i}"]}, text)


@test("a value of --set is kept as it was written, unless it prints back as the same number")
def _(ws):
    args = [arg for i, text in enumerate(EXPECTED) for arg in ("--set", f"v{i}={text}")]
    channel = run_flow(ws, "tasks: {a: 'true'}\n", *args)["channel"]
    for i, text in enumerate(EXPECTED):
        same({text: channel[f"v{i}"]}, text)


@test("a value of channel set is kept as it was written, and channel get prints it so")
def _(ws):
    texts = [text for text in EXPECTED if text and text not in ("-7", "-0")]
    (ws.path / "values").write_text("\n".join(texts) + "\n")
    (ws.path / "task.sh").write_text("i=0\nwhile IFS= read -r v; do tasuki channel set v$i \"$v\"; tasuki channel get v$i >> got; i=$((i + 1)); done < values\n")
    channel = run_flow(ws, "tasks: {a: [sh, task.sh]}\n")["channel"]
    for i, text in enumerate(texts):
        same({text: channel[f"v{i}"]}, text)
    eq((ws.path / "got").read_text().split("\n")[:3], ["1.10", "1234e56", "19.90"], "what channel get prints")


@test("real numbers are printed with as few digits as they need, in the channel's file, the stage and runs show")
def _(ws):
    stage = run_flow(ws, "flow: a >> b\ntasks: {a: 'echo \"{\\\"x\\\": 1.1, \\\"y\\\": [19.90]}\" >> $TASUKI_OUTPUT', b: 'cat $TASUKI_CHANNEL > got'}\n")
    eq((ws.path / "got").read_text(), '{"x":1.1,"y":[19.9]}', "the channel's file")
    text = (ws.path / ".aiflow/runs" / stage["run_id"] / "stage.json").read_text()
    assert "1.1" in text and "1.10000" not in text and "19.89" not in text, text
    shown = ws.tasuki("runs", "show", stage["run_id"], "--json").expect(0).out
    assert "1.10000" not in shown and "19.89" not in shown, shown


@test("a text that is a number counts as one where numbers are asked for: add, sum, max, min")
def _(ws):
    flow = ("flow: s >> (a | b)\nchannel: {merge: {n: sum, m: max, l: min}}\ntasks:\n"
            "  s: 'tasuki channel set n 19.90; tasuki channel add n 0.10'\n"
            "  a: 'tasuki channel add n 1.50; echo m=9.10 >> $TASUKI_OUTPUT; echo l=9.10 >> $TASUKI_OUTPUT'\n"
            "  b: 'tasuki channel add n 2; echo m=10.50 >> $TASUKI_OUTPUT; echo l=10.50 >> $TASUKI_OUTPUT'\n")
    channel = run_flow(ws, flow)["channel"]
    eq((channel["n"], channel["m"], channel["l"]), (23.5, "10.50", "9.10"), "n, m, l")


@test("channel add takes a number however it is written, and refuses a text")
def _(ws):
    run_flow(ws, "tasks: {a: 'tasuki channel add n 1.10; tasuki channel get n > got; ! tasuki channel add n 1,5'}\n")
    eq((ws.path / "got").read_text().strip(), "1.1", "n")


@test("append joins texts and lists in one task and across branches; max and min compare texts, too")
def _(ws):
    flow = ("flow: s >> (a | b) >> c\nchannel: {merge: {t: append, l: append, u: append, n: append, m: max, w: min}}\ntasks:\n"
            "  s: 'tasuki channel set t ab; tasuki channel append l 1; tasuki channel append l two; tasuki channel set n x'\n"
            "  a: 'tasuki channel append t cd; tasuki channel append l 3; tasuki channel append u new; tasuki channel set n [7]; "
            "echo m=pear >> $TASUKI_OUTPUT; echo w=pear >> $TASUKI_OUTPUT'\n"
            "  b: 'tasuki channel append t ef; tasuki channel append l 4; tasuki channel set u [5]; echo m=apple >> $TASUKI_OUTPUT; "
            "echo w=apple >> $TASUKI_OUTPUT'\n"
            "  c: 'tasuki channel append t gh; tasuki channel get t > got; tasuki channel get l >> got'\n")
    channel = run_flow(ws, flow)["channel"]
    eq(channel, {"t": "abcdefgh", "l": [1, "two", 3, 4], "u": ["new", 5], "n": ["x", 7], "m": "pear", "w": "apple"}, "the channel")
    eq((ws.path / "got").read_text().split("\n")[0], "abcdefgh", "what the task sees of itself")


main(__name__)
