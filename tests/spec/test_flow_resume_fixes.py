"""Spec 6, rule 8: runs that are resumed more than once, by two at a time, or by an answer; what answers a question accepts."""

import json
import os
import signal
import subprocess

from flows import last_document, only_run, resume, run_flow, run_ids, spawn_flow, trace, with_tool
from harness.harness import eq, main, test

NOTE = "echo $TASUKI_TASK_ID >> trace"
ONCE = f"{NOTE}; test -e $TASUKI_TASK_ID.ok || {{ touch $TASUKI_TASK_ID.ok; exit 1; }}"
QUESTION = 'answer=$(tasuki task ask "Q?" --type {} {}); test -n "$answer" || exit 0; echo answered >> trace'


def flow(expression, more="", **tasks):
    lines = "".join(f"  {name}:\n    run: |\n      {run}\n" for name, run in tasks.items())
    return f"flow: {expression}\ntasks:\n{lines}{more}"


def answer(ws, run, *args, code=0):
    return ws.tasuki("answer", run, *args, "--wait", "--json", env=with_tool(ws)).expect(code)


def kill_when_up(ws, runner):
    ws.until(lambda: (ws.path / "up").exists(), "the task works")
    runner.kill()
    ws.finish(runner)
    (ws.path / "up").unlink()


def log_of(ws, run, task):
    return [line for path in (ws.path / ".aiflow/runs" / run / "tasks").rglob(f"{task}.1.log") for line in path.read_text().splitlines()]


@test("a run that fails in two places goes on at each resume, and stays DONE when it is resumed once more")
def _(ws):
    run = run_flow(ws, flow("(b | c) >> d >> e", b=NOTE, c=ONCE, d=ONCE, e=NOTE), code=7)["run_id"]
    eq([f["task"] for f in resume(ws, run, code=7)["failures"]], ["d"], "failures after the first resume")
    eq(resume(ws, run)["status"], "DONE", "after the second")
    ran = trace(ws)
    eq(sorted(ran), ["b", "c", "c", "d", "d", "e"], "what ran")
    before = (ws.path / ".aiflow/runs" / run / "journal").read_bytes()
    stage = resume(ws, run)
    eq((stage["status"], stage.get("nothing_to_do"), trace(ws)), ("DONE", True, ran), "after the third")
    eq((ws.path / ".aiflow/runs" / run / "journal").read_bytes(), before, "the journal")


@test("a task's fence grows with every start, also over resumes", slow=True)
def _(ws):
    fence = "echo $TASUKI_FENCE >> trace; test $(wc -l < trace) -ge 4"
    run = run_flow(ws, flow("a", "limits: {retries: 1}\n", a=fence), code=7)["run_id"]
    resume(ws, run)
    fences = [int(word) for word in trace(ws)]
    eq((len(fences), fences), (4, sorted(set(fences))), "the fences")


@test("a run that is killed in its first execution and in two resumes ends at the third: nothing completed runs again, fences grow")
def _(ws):
    stuck = f"{NOTE}; echo $TASUKI_FENCE >> fences; test $(wc -l < fences) -ge 4 && exit 0; touch up; sleep 300"
    runner = spawn_flow(ws, flow("a >> b >> c", a=NOTE, b=stuck, c=NOTE))
    for number in range(3):
        kill_when_up(ws, runner)
        if number < 2:
            runner = ws.spawn("resume", only_run(ws), "--json", env=with_tool(ws))
    eq(resume(ws, only_run(ws))["status"], "DONE", "after the third resume")
    eq(trace(ws), ["a", "b", "b", "b", "b", "c"], "what ran")
    fences = [int(word) for word in (ws.path / "fences").read_text().split()]
    eq((len(fences), fences), (4, sorted(set(fences))), "the fences")


@test("a question and a failure side by side: the answer is used once, the failure is repeated by the resume")
def _(ws):
    question = QUESTION.format("text", "")
    run = run_flow(ws, flow("(q | b) >> c", q=question, b=ONCE, c=NOTE), code=8)["run_id"]
    eq(trace(ws), ["b"], "what ran before the answer")
    last = answer(ws, run, "yes", code=7)
    eq([one["task"] for one in last_document(last)["failures"]], ["b"], "failures after the answer")
    eq(resume(ws, run)["status"], "DONE", "after resume")
    eq(trace(ws), ["b", "answered", "b", "c"], "what ran")


def has_ended(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def killed_after_answer(ws, kind):
    """A task that has got its answer is killed while it works."""
    work = 'answer=$(tasuki task ask "Q?"); test -n "$answer" || exit 0; echo $answer >> trace; test -e again && exit 0; touch up; sleep 300'
    text = f"flow: a >> b\ntasks:\n  a:\n    on_interrupt: {kind}\n    run: |\n      {work}\n  b:\n    run: {NOTE}\n"
    run = run_flow(ws, text, code=8)["run_id"]
    ws.tasuki("answer", run, "first", env=with_tool(ws)).expect(0)
    ws.until(lambda: (ws.path / "up").exists(), "the task works")
    stage = json.loads((ws.path / ".aiflow/runs" / run / "stage.json").read_text())
    os.kill(stage["runner"]["pid"], signal.SIGKILL)
    ws.until(lambda: has_ended(stage["runner"]["pid"]), "the runner has gone")
    (ws.path / "again").touch()
    return run


@test("an answered task that was interrupted runs again with its answer (on_interrupt: rerun)")
def _(ws):
    run = killed_after_answer(ws, "rerun")
    eq(resume(ws, run)["status"], "DONE", "after resume")
    eq(trace(ws), ["first", "first", "b"], "what ran")


@test("an answered task that was interrupted fails without another start (on_interrupt: fail), until a resume asks for it")
def _(ws):
    run = killed_after_answer(ws, "fail")
    eq([(one["task"], one["reason_code"]) for one in resume(ws, run, code=7)["failures"]], [("a", "TASK_FAILED")], "failures")
    eq(trace(ws), ["first"], "what ran")
    eq(resume(ws, run)["status"], "DONE", "after another resume")
    eq(trace(ws), ["first", "first", "b"], "what ran")


@test("an answered task that was interrupted asks whether it may run again (on_interrupt: ask), and has its first answer then")
def _(ws):
    run = killed_after_answer(ws, "ask")
    question, = resume(ws, run, code=8)["questions"]
    eq((question["task"], question["question"]["type"]), ("a", "approval"), "the question")
    eq(trace(ws), ["first"], "what ran before the answer")
    eq(last_document(answer(ws, run, "--yes"))["status"], "DONE", "after the answer")
    eq(trace(ws), ["first", "first", "b"], "what ran")


@test("the output of an interrupted task that cannot be kept is reported")
def _(ws):
    work = "echo text; touch .aiflow/runs/$TASUKI_RUN_ID/tasks; touch up; sleep 300"
    for _ in range(50):  # the runner may give the log its name before the task has begun; then it is another case
        known = set(run_ids(ws))
        runner = spawn_flow(ws, f"tasks:\n  a:\n    on_interrupt: fail\n    run: {work}\n")
        kill_when_up(ws, runner)
        run, = set(run_ids(ws)) - known
        if (ws.path / ".aiflow/runs" / run / "tasks").is_file():
            break
        ws.tasuki("runs", "cancel", run, env=with_tool(ws))  # ends what its task has left behind
    result = ws.tasuki("resume", run, env=with_tool(ws)).expect(7)
    eq(f"{run}/tasks/" in result.err, True, f"the path is in {result.err!r}")


@test("a failure that its group tolerated is not run again by a later resume")
def _(ws):
    run = run_flow(ws, flow("g(b | c) >> d", "groups: {g: {policy: best_effort}}\n", b=NOTE, c=f"{NOTE}; exit 1", d=ONCE), code=7)["run_id"]
    eq(resume(ws, run)["status"], "DONE", "after resume")
    eq(sorted(trace(ws)), ["b", "c", "d", "d"], "what ran")


@test("who only reads the life file of a dead run is not killed by resume; leftovers of its tasks are")
def _(ws):
    runner = spawn_flow(ws, flow("a", a="test -e again && exit 0; touch again; env -i setsid -f sleep 300; echo >> up; sleep 300"))
    ws.until(lambda: (ws.path / "up").exists(), "the task runs")
    run = only_run(ws)
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    life = ws.path / ".aiflow/runs" / run / "life"
    reader = subprocess.Popen(["tail", "-f", str(life)], stdout=subprocess.DEVNULL)
    try:
        ws.until(lambda: str(life.resolve()) in descriptors(reader.pid).values(), "tail has opened it")
        eq(resume(ws, run)["status"], "DONE", "after resume")
        eq(reader.poll(), None, "how the reader ended")
        eq(holders(life), [], "leftovers")
    finally:
        reader.kill()
        reader.wait()


ROUNDS = 50


@test(f"of two that resume a killed run at once one executes it, the other is refused; no task runs twice ({ROUNDS} rounds)", slow=True)
def _(ws):
    tasks = {name: f"{NOTE}; touch up; until test -e go; do sleep 0.01; done" if name == "b" else NOTE for name in "abc"}
    for number in range(ROUNDS):
        for name in ("trace", "up", "go"):
            (ws.path / name).unlink(missing_ok=True)
        known = run_ids(ws)
        runner = spawn_flow(ws, flow("a >> b >> c", **tasks))
        ws.until(lambda: (ws.path / "up").exists(), "the second task runs")
        runner.kill()
        ws.finish(runner)
        run, = run_ids(ws) - known
        both = [ws.spawn("resume", run, "--json", env=with_tool(ws)) for _ in range(2)]
        ws.until(lambda: any(one.poll() is not None for one in both), "one of them is refused")
        (ws.path / "go").touch()
        results = sorted((ws.finish(one) for one in both), key=lambda result: result.code)
        eq([result.code for result in results], [0, 4], f"exit codes in round {number}")
        eq(results[1].error["reason_code"], "RUN_IN_PROGRESS", "why the other was refused")
        eq((last_document(results[0])["status"], trace(ws)), ("DONE", ["a", "b", "b", "c"]), f"the end of round {number}")
        ws.commands.clear()


def descriptors(pid):
    found = {}
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            found[name] = os.readlink(f"/proc/{pid}/fd/{name}")
    except OSError:
        pass
    return found


def holders(life):
    """Processes that have the life file where tasks get it."""
    return [pid for pid in os.listdir("/proc") if pid.isdigit() and descriptors(pid).get("62") == str(life.resolve())]


@test("what a task writes when it runs again, after a question, a kill or in a cycle, is all in its log, also while it runs", slow=True)
def _(ws):
    slow = "test -e waited || sleep 0.2; touch waited; echo second half"
    ask = f'answer=$(tasuki task ask Colour?); test -n "$answer" || {{ echo asked; exit 0; }}; echo first half; {slow}'
    run = run_flow(ws, flow("a", a=ask), code=8)["run_id"]
    answer(ws, run, "blue")
    eq(log_of(ws, run, "a"), ["asked", "first half", "second half"], "after a question")
    (ws.path / "waited").unlink()
    known = run_ids(ws)
    proc = spawn_flow(ws, flow("a", a=f"test -e up && {{ echo first half; {slow}; exit; }}; echo begun; touch up; sleep 1000"))
    ws.until(lambda: (ws.path / "up").exists(), "it runs")
    run, = run_ids(ws) - known
    ws.until(lambda: log_of(ws, run, "a") == ["begun"], "its log has its name")
    proc.kill()
    proc.wait()
    resume(ws, run)
    eq(log_of(ws, run, "a"), ["begun", "first half", "second half"], "after a kill")
    (ws.path / "waited").unlink()
    run = run_flow(ws, flow("a", a=f"echo turn; {slow}; test -e twice || {{ touch twice; tasuki task again; }}"))["run_id"]
    eq(log_of(ws, run, "a"), ["turn", "second half"] * 2, "in a cycle")
    spawn = "tasuki task spawn page -- sh -c 'echo first half; sleep 0.1; echo second half'"
    ended = "tasuki runs tasks \"$TASUKI_RUN_ID\" --state ok --json | grep -q page"  # a task that runs cannot be added again
    again = f"test -e again || {{ until {ended}; do sleep 0.02; done; touch again; tasuki task next a; }}"
    run = run_flow(ws, flow("a >> w", a=spawn, w=again), "-j", "2")["run_id"]
    eq(log_of(ws, run, "page"), ["first half", "second half"] * 2, "of a task that was added twice")


main(__name__)
