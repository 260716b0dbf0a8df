"""Spec 7: any open question can be answered at any time, once, whoever executes the run meanwhile."""

import json
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from flows import with_tool  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from requests_common import call, go, kill, run, shown, spawn, status, trace  # noqa: E402

ASK = ('a=$(tasuki task ask "{0}?" --type text); test -n "$a" || exit 0; echo {0}$a >> trace; echo > up.{0}; '
       'while ! test -e go; do sleep 0.01; done')
LONG = "echo > up.long; while ! test -e go; do sleep 0.01; done"


def make(ws, tasks="abc", **more):
    flow = {"flow": " | ".join([*tasks, *more]), "tasks": {**{n: {"run": ASK.format(n)} for n in tasks}, **{n: {"run": more[n]} for n in more}}}
    (ws.path / "f.yaml").write_text(json.dumps({**flow, "limits": {"parallel": 8}}))
    (ws.path / ".aiflow/requests/RQ-1.yaml").write_text("title: x\nflow: f.yaml\n")


def open_questions(ws, run_id):
    return sorted(one["task"] for one in call(ws, "runs", "show", run_id).json["questions"])


def done(ws, run_id):
    ws.until(lambda: status(ws, run_id) == "DONE", "the run ends", 60)


@test("while a run goes on after one answer, the other questions can be answered, and their tasks start then")
def _(ws):
    make(ws)
    run_id = run(ws, "RQ-1", code=8)["run_id"]
    for name, others in (("a", ["b", "c"]), ("b", ["c"]), ("c", [])):
        eq(call(ws, "answer", run_id, "1", "--task", name).json["status"], "RUNNING", "the answer")
        eq(open_questions(ws, run_id), others, "what is open")
        ws.until_file(f"up.{name}")
        eq(status(ws, run_id), "RUNNING", "the run")
    go(ws)
    done(ws, run_id)
    eq(sorted(trace(ws)), ["a1", "b1", "c1"], "the answers that were used")
    eq([line["what"] for line in call(ws, "runs", "show", run_id).json["history"]].count("answered"), 3, "the history")


@test("a question can be answered before its run waits: while other tasks of it still run; --wait follows the run")
def _(ws):
    make(ws, "a", long=LONG)
    proc = spawn(ws, "request", "run", "RQ-1")
    ws.until_file("up.long")
    run_id = ws.read_lock("request", "RQ-1")["run_id"]
    ws.until(lambda: open_questions(ws, run_id) == ["a"], "it asks", 60)
    waits = spawn(ws, "answer", run_id, "1", "--wait")
    ws.until_file("up.a")
    go(ws)
    eq(ws.finish(waits).code, 0, "--wait")
    eq((ws.finish(proc).code, trace(ws)), (0, ["a1"]), "the run")


@test("a second answer to a question is ALREADY_ANSWERED while the run goes on, though others are open; its own next command works")
def _(ws):
    make(ws)
    run_id = run(ws, "RQ-1", code=8)["run_id"]
    call(ws, "answer", run_id, "1", "--task", "a")
    error = call(ws, "answer", run_id, "2", "--task", "a", code=4, reason="ALREADY_ANSWERED").json["error"]
    eq(error["next"], [f"tasuki runs show {run_id}"], "next")
    call(ws, "answer", run_id, "2", "--task", "nope", code=5, reason="NOT_FOUND")
    call(ws, "answer", run_id, "2", code=2, reason="INVALID_INPUT")
    for name in "bc":
        call(ws, "answer", run_id, "1", "--task", name)
    go(ws)
    done(ws, run_id)
    eq(sorted(trace(ws)), ["a1", "b1", "c1"], "the answers that were used")


@test("of many answers to one question at once exactly one is accepted, and it is the one that is used; none of the others' is lost", slow=True)
def _(ws):
    make(ws)
    run_id = run(ws, "RQ-1", code=8)["run_id"]
    racers = [(name, number, spawn(ws, "answer", run_id, str(number), "--task", name)) for number in range(4) for name in "abc"]
    won = []
    for name, number, proc in racers:
        result = ws.finish(proc)
        if result.code == 0:
            won.append(f"{name}{number}")
        else:
            eq((result.code, result.error["reason_code"]), (4, "ALREADY_ANSWERED"), "a loser")
    eq(sorted(one[0] for one in won), ["a", "b", "c"], "the winners")
    go(ws)
    done(ws, run_id)
    eq(sorted(trace(ws)), sorted(won), "the answers that were used")


@test("an answer to a run whose runner is stopped, then killed, is kept: the next resume uses it", slow=True)
def _(ws):
    make(ws, "ab")
    run_id = run(ws, "RQ-1", code=8)["run_id"]
    call(ws, "answer", run_id, "1", "--task", "a")
    ws.until_file("up.a")
    runner = ws.read_lock("request", "RQ-1")["pid"]
    os.kill(runner, signal.SIGSTOP)
    eq(call(ws, "answer", run_id, "2", "--task", "b").json["status"], "RUNNING", "the answer")
    call(ws, "answer", run_id, "3", "--task", "b", code=4, reason="ALREADY_ANSWERED")
    kill(ws, runner)
    ws.until(lambda: status(ws, run_id) == "INTERRUPTED", "it is interrupted", 60)
    eq((open_questions(ws, run_id), shown(ws, "RQ-1")["status"]), ([], "ready"), "what is open")
    go(ws)
    run(ws, "RQ-1")
    eq((status(ws, run_id), sorted(set(trace(ws)))), ("DONE", ["a1", "b2"]), "the run that went on")


@test("an answer that a killed command has recorded counts, at every file-system call: the run goes on, or the question is open")
def _(ws):
    for at in range(1, 20):
        make(ws, "a")
        run_id = run(ws, "RQ-1", "--new", code=8)["run_id"]
        go(ws)
        result = ws.fault("--json", "answer", run_id, "1", "--wait", at=at, mode="kill", env={**with_tool(ws), "TASUKI_FAULT_PATH": "reply."})
        if result.code == 0:
            break
        if open_questions(ws, run_id) == ["a"]:
            call(ws, "answer", run_id, "1", "--wait")
        else:
            ws.until(lambda: status(ws, run_id) in ("INTERRUPTED", "DONE"), "somebody goes on with it, or can", 60)
            call(ws, "resume", run_id)
        eq(status(ws, run_id), "DONE", "the run")
    eq(len(trace(ws)), at, "answers that were used")


main(__name__)
