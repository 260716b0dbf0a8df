"""Spec 8: `tasuki wait` and wait_for: runs and locks instead of polling them. (Processes: test_proc_ready.)"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from agent import Agent  # noqa: E402
from common import run_held, sleeper  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from requests_common import add, begin, call, go, kill, spawn  # noqa: E402


def until_it_waits(ws, waiter):
    """It waits in a thread. (ThreadSanitizer has one of its own, and the result does not depend on who is first.)"""
    ws.until(lambda: len(os.listdir(f"/proc/{waiter.pid}/task")) >= 2, "it waits")


@test("wait run returns when the run has ended, with its stage and its exit code; the request's lock is free then")
def _(ws):
    for id, end, code, status in (("RQ-1", "true", 0, "DONE"), ("RQ-2", "exit 3", 7, "FAILED")):
        (ws.path / "go").unlink(missing_ok=True)
        (ws.path / "up").unlink(missing_ok=True)
        add(ws, id, f"echo $$ > up; while ! test -e go; do sleep 0.01; done; {end}")
        run = call(ws, "request", "run", id, "--detach").json["run_id"]
        ws.until_file("up")
        waiter = spawn(ws, "wait", "run", run)
        until_it_waits(ws, waiter)
        go(ws)
        eq(ws.finish(waiter).expect(code).json["status"], status, "status")
        call(ws, "lock", "check", "request", id)
        eq(call(ws, "wait", "run", run, code=code).json["status"], status, "waiting for what has ended")


@test("a wait whose time is up is CONFLICT, and can be repeated; a run that was killed is INTERRUPTED at once")
def _(ws):
    proc, run = begin(ws, "RQ-1", "echo $$ > up; exec sleep 300")
    call(ws, "wait", "run", run, "--timeout", "50ms", code=4, reason="CONFLICT")
    call(ws, "wait", "lock", "RQ-1", "--timeout", "50ms", code=4, reason="CONFLICT")
    call(ws, "wait", "run", "RUN-nowhere", code=5, reason="RUN_NOT_FOUND")
    waiter = spawn(ws, "wait", "run", run)
    lock = spawn(ws, "wait", "lock", "RQ-1")
    until_it_waits(ws, waiter)
    kill(ws, proc.pid)
    eq(ws.finish(waiter).expect(7).json["status"], "INTERRUPTED", "the run")
    eq(ws.finish(lock).expect(0).json["state"], "stale", "the lock")


@test("wait lock returns when the lock is free, without taking it")
def _(ws):
    eq(call(ws, "wait", "lock", "deploy").json["state"], "free", "a free one")
    holder = run_held(ws, "deploy", "while ! test -e go; do sleep 0.01; done")
    waiter = spawn(ws, "wait", "lock", "deploy")
    until_it_waits(ws, waiter)
    go(ws)
    eq(ws.finish(waiter).expect(0).json["state"], "free", "the lock")
    ws.finish(holder).expect(0)
    eq(call(ws, "lock", "list").json["locks"], [], "locks")


@test("wait_for: a run and a lock over MCP, NOT YET when the time is up")
def _(ws):
    proc, run = begin(ws, "RQ-1")
    agent = Agent(ws)
    text, error = agent.refused("wait_for", kind="run", id=run, timeout="100ms")
    assert text.startswith("NOT YET") and error["reason_code"] == "CONFLICT", text
    number = agent.begin_call("wait_for", kind="run", id=run)
    lock = agent.begin_call("wait_for", kind="lock", id="RQ-1")
    go(ws)
    eq(agent.answer(number)["result"]["structuredContent"]["status"], "DONE", "the run")
    eq(agent.answer(lock)["result"]["structuredContent"]["state"], "free", "the lock")
    ws.finish(proc).expect(0)


@test("a lock names those that wait for it")
def _(ws):
    holder = sleeper(ws)
    ws.tasuki("lock", "acquire", "name", "a", "--pid", holder.pid).expect(0)
    waiter = ws.spawn("lock", "acquire", "name", "a", "--wait", "60s", env={"TASUKI_AGENT": "codex"})
    found = ws.until(lambda: ws.tasuki("lock", "list", "--json").json["locks"][0].get("waiters"), "it waits")
    eq([one["label"] for one in found], ["codex"], "those that wait")
    waiter.kill()
    waiter.wait()
    ws.until(lambda: "waiters" not in ws.tasuki("lock", "list", "--json").json["locks"][0], "nobody waits any more")


main(__name__)
