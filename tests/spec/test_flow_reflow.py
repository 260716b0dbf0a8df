"""A run that goes on with a repaired flow: `resume --flow FILE`; and without it, the report that the file has changed."""

import json
import os

from flows import journal, resume, run_flow, trace, with_tool, write_flow
from harness.harness import eq, main, test

NOTE = "echo $TASUKI_TASK_ID >> trace"


def flow(expression, more="", **tasks):
    lines = "".join(f"  {name}:\n    run: |\n      {run}\n" for name, run in tasks.items())
    return f"flow: {expression}\ntasks:\n{lines}{more}"


def resumed(ws, run, *args, code=0):
    return ws.tasuki("resume", run, *args, env=with_tool(ws)).expect(code)


def check(fact, text):
    eq(bool(fact), True, text)


def folder(ws, run):
    return ws.path / ".aiflow/runs" / run


def content(ws, run):
    return {path.name: path.read_bytes() for path in folder(ws, run).iterdir() if path.is_file()}


BROKEN = flow("a >> b >> c", a=f"{NOTE}; echo x=1 >> $TASUKI_OUTPUT", b=f"{NOTE}; exit 1", c=NOTE)
REPAIRED = flow("z >> a >> b >> c", z="true", a=f"{NOTE}; echo x=1 >> $TASUKI_OUTPUT", b=f"{NOTE}; tasuki channel get x >> trace", c=NOTE)


@test("a resume reports that the file was changed, uses the run's copy, and names the command that uses the file")
def _(ws):
    run = run_flow(ws, BROKEN, code=7)["run_id"]
    quiet = resumed(ws, run, code=7)
    check("--flow" not in quiet.out + quiet.err, f"nothing was changed: {quiet.err}")
    write_flow(ws, flow("a >> b >> c", a=f"{NOTE}; echo x=1 >> $TASUKI_OUTPUT", b=NOTE, c=NOTE))
    result = resumed(ws, run, code=7)
    check("flow.yaml was changed since" in result.err, result.err)
    check(f"tasuki resume {run} --flow flow.yaml" in result.err, result.err)
    eq(trace(ws), ["a", "b", "b", "b"], "what ran")


@test("a resume without a run takes the latest one, and takes no file of a request for a flow that was changed")
def _(ws):
    ws.tasuki("queue", "add", "--", "sh", "-c", "echo tried >> trace; exit 3").expect(0)
    ws.tasuki("queue", "run").expect(7)
    result = ws.tasuki("resume")
    eq((result.code, (ws.path / "trace").read_text()), (7, "tried\n" * 2), "the second try")
    check("--flow" not in result.out + result.err, f"nothing was changed: {result.err}")
    ws.tasuki("queue", "add", "--", "true").expect(0)
    ws.tasuki("queue", "run").expect(0)
    check("nothing to do" in ws.tasuki("resume").expect(0).out, "the latest one is done")


@test("resume --flow keeps what is completed and defined alike, reports the rest first, and stays with the new flow")
def _(ws):
    run = run_flow(ws, BROKEN, code=7)["run_id"]
    write_flow(ws, flow("a >> b >> c >> d", a=f"{NOTE}; echo x=1 >> $TASUKI_OUTPUT", b=f"{NOTE}; tasuki channel get x >> trace", c=NOTE, d=f"{NOTE}; exit 1"))
    result = resumed(ws, run, "--flow", "flow.yaml", code=7)
    check("Changed: b; new: d; removed: -;" in result.err, result.err)
    eq(trace(ws), ["a", "b", "b", "1", "c", "d"], "what ran")
    (ws.path / "flow.yaml").unlink()
    resumed(ws, run, code=7)
    eq(trace(ws), ["a", "b", "b", "1", "c", "d", "d"], "what ran after a resume without --flow")
    record, = [one for one in journal(ws, run) if one["e"] == "flow"]
    eq((record["flow"], record["changed"], record["new"], record["removed"]), ("flow.yaml", ["b"], ["d"], []), "the record")


@test("a new task in front moves the numbers: completed tasks behind it run again, and the report names them")
def _(ws):
    run = run_flow(ws, BROKEN, code=7)["run_id"]
    write_flow(ws, REPAIRED)
    result = resumed(ws, run, "--flow", "flow.yaml")
    check("Changed: b; new: z; removed: -; completed, but run again because of them: a" in result.err, result.err)
    eq(trace(ws), ["a", "b", "a", "b", "1", "c"], "what ran")


@test("the report names 20 tasks of a kind; of more it names 20 and says how many they are")
def _(ws):
    for count, more in ((20, ";"), (21, ", … (21);")):
        run = run_flow(ws, flow("a", a="exit 1"), code=7)["run_id"]
        names = [f"n{i}" for i in range(count)]
        write_flow(ws, flow(" >> ".join(["a", *names]), a="exit 1", **dict.fromkeys(names, "true")))
        result = resumed(ws, run, "--flow", "flow.yaml", code=7)
        check(f"new: {', '.join(names[:20])}{more} removed" in result.err, result.err)


@test("tasks keep their records by name when the numbers move, and a removed task is reported")
def _(ws):
    run = run_flow(ws, flow("(p | q) >> r >> s", p=NOTE, q=f"{NOTE}; echo v=7 >> $TASUKI_OUTPUT", r=f"{NOTE}; exit 1", s=NOTE), code=7)["run_id"]
    write_flow(ws, "tasks:\n  n:\n    run: echo n >> trace\n" + flow("(q | n) >> s", q=f"{NOTE}; echo v=7 >> $TASUKI_OUTPUT", s=f"{NOTE}; tasuki channel get v >> trace").split("tasks:\n")[1] + "flow: (q | n) >> s\n")
    result = resumed(ws, run, "--flow", "flow.yaml")
    check("Changed: s; new: n; removed: p, r;" in result.err, result.err)
    eq((sorted(trace(ws)[:2]), trace(ws)[2:]), (["p", "q"], ["r", "n", "s", "7"]), "what ran")


@test("a completed task whose group is not in the new flow is refused by name, an open question is, too; nothing changes")
def _(ws):
    run = run_flow(ws, flow("g(a | b) >> c", a=NOTE, b=NOTE, c="exit 1"), code=7)["run_id"]
    before = content(ws, run)
    write_flow(ws, flow("a >> b >> c", a=NOTE, b=NOTE, c="true"))
    result = resumed(ws, run, "--flow", "flow.yaml", code=4)
    check("a was completed" in result.err and "group g;" in result.err, result.err)
    eq(content(ws, run), before, "the run's files")
    asked = run_flow(ws, flow("q", q='answer=$(tasuki task ask "Q?"); test -n "$answer"'), code=8)["run_id"]
    before = content(ws, asked)
    write_flow(ws, flow("q", q="true"))
    check("open question" in resumed(ws, asked, "--flow", "flow.yaml", code=4).err, "the reason")
    eq(content(ws, asked), before, "the run's files")


@test("a run whose tasks added others cannot change its flow: the refusal names one, and nothing changes; without a new flow it goes on")
def _(ws):
    run = run_flow(ws, flow("a >> b", a=f"{NOTE}; tasuki task spawn extra -- true", b=f"{NOTE}; test -e mended"), code=7)["run_id"]
    (ws.path / "mended").touch()
    write_flow(ws, REPAIRED, "new.yaml")
    before = content(ws, run)
    refused = ws.tasuki("resume", run, "--flow", "new.yaml", "--json", env=with_tool(ws))
    eq((refused.code != 0, "extra" in refused.error["message"]), (True, True), f"the refusal {refused}")
    eq(content(ws, run), before, "the run's files")
    eq(resume(ws, run)["status"], "DONE", "without a new flow")


@test("a task that has had its answer asks anew when the new flow changes it, and gets the new answer")
def _(ws):
    ask = 'answer=$(tasuki task ask "Which?"); test -n "$answer" || exit 0; echo {}$answer >> trace'
    run = run_flow(ws, flow("q >> b", q=ask.format(""), b="exit 1"), code=8)["run_id"]
    ws.tasuki("answer", run, "one", "--wait", env=with_tool(ws)).expect(7)
    write_flow(ws, flow("q >> b", q=ask.format("new:"), b="true"))
    resumed(ws, run, "--flow", "flow.yaml", code=8)
    ws.tasuki("answer", run, "two", "--wait", env=with_tool(ws)).expect(0)
    eq(trace(ws), ["one", "new:two"], "the answers")


@test("a flow with a mistake, or one that is not there, is refused; the run is as before")
def _(ws):
    run = run_flow(ws, BROKEN, code=7)["run_id"]
    before = content(ws, run)
    write_flow(ws, "flow: a >> nobody\ntasks: {a: 'true'}\n", "wrong.yaml")
    resumed(ws, run, "--flow", "wrong.yaml", code=2)
    resumed(ws, run, "--flow", "absent.yaml", code=5)
    eq(content(ws, run), before, "the run's files")


@test("a change that was recorded is finished by the next resume, one that was not is forgotten")
def _(ws):
    run = run_flow(ws, BROKEN, code=7)["run_id"]
    old = (folder(ws, run) / "flow.yaml").read_bytes()
    (folder(ws, run) / "flow.next.yaml").write_text(flow("a", a="false"))
    resumed(ws, run, code=7)
    eq((folder(ws, run) / "flow.yaml").read_bytes(), old, "the copy")
    write_flow(ws, flow("a >> b >> c", a=f"{NOTE}; echo x=1 >> $TASUKI_OUTPUT", b=NOTE, c="exit 1"))
    resumed(ws, run, "--flow", "flow.yaml", code=7)
    # As after a crash between the journal and the name of the copy.
    os.rename(folder(ws, run) / "flow.yaml", folder(ws, run) / "flow.next.yaml")
    (folder(ws, run) / "flow.yaml").write_bytes(old)
    resumed(ws, run, code=7)
    eq(trace(ws), ["a", "b", "b", "b"], "what ran: c fails, b is completed")
    check(b"exit 1" in (folder(ws, run) / "flow.yaml").read_bytes().split(b"  c:")[1], "the copy is the new one")


@test("an answer of before the change is used for its task, and for no other that has its number now")
def _(ws):
    ask = 'answer=$(tasuki task ask "Q?"); test -n "$answer" || exit 0; echo $TASUKI_TASK_ID=$answer >> trace'
    run = run_flow(ws, flow("q >> b", q=ask, b="exit 1"), code=8)["run_id"]
    ws.tasuki("answer", run, "old", "--wait", env=with_tool(ws)).expect(7)
    write_flow(ws, flow("q >> n", n=ask, q=ask))
    eq(resume(ws, run, "--flow", "flow.yaml", code=8)["questions"][0]["task"], "n", "the task that asks")
    ws.tasuki("answer", run, "new", "--wait", env=with_tool(ws)).expect(0)
    eq(trace(ws), ["q=old", "n=new"], "the answers")


@test("each part of a task's definition counts: a completed task whose definition differs in one is changed and runs again", slow=True)
def _(ws):
    backoff = {"initial": "1s", "factor": 2, "max": "2s", "jitter": 0}
    whole = {"run": ["sh", "-c", NOTE], "retries": 1, "max_cycles": 5, "timeout": "30s", "cwd": ".", "env": {"A": "x", "B": "y"},
             "on_interrupt": "fail", "when": "n == 1", "backoff": backoff}
    variants = [("run", ["sh", "-c", f"{NOTE} "]), ("run", ["sh", "-c", NOTE, "x"]), ("run", NOTE), ("retries", 2), ("max_cycles", 6), ("timeout", "31s"),
                ("cwd", "sub"), ("env", {"A": "x"}), ("env", {"A": "x", "B": "z"}), ("on_interrupt", "ask"), ("when", "n >= 1")]
    variants += [("backoff", {**backoff, key: value}) for key, value in (("initial", "2s"), ("factor", 3), ("max", "3s"), ("jitter", 0.5))]
    variants += [("backoff", None), ("env", None)]

    def text(task):
        return json.dumps({"flow": "a >> b", "tasks": {"a": task, "b": {"run": "exit 1"}}})

    (ws.path / "sub").mkdir()
    for key, value in [(None, None), *variants]:
        run = run_flow(ws, text(whole), "--set", "n=1", code=7)["run_id"]
        task = {one: what for one, what in {**whole, key: value}.items() if one and what is not None}
        write_flow(ws, text(task))
        result = resumed(ws, run, "--flow", "flow.yaml", code=7)
        eq("Changed: a; new: -; removed: -" in result.err, key is not None, f"{key}: {value}: whether a is changed in {result.err!r}")


main(__name__)
