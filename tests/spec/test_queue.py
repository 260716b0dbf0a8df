"""Spec 7, the queue: what is next and why not the others; how far it goes; how it is stopped."""

import json
import os
import pathlib
import stat
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from flows import last_document  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from requests_common import GATE, add, begin, call, go, kill, no_locks, parent_of, queue, run, runs_of, shown, spawn, status, trace  # noqa: E402

ASK = 'answer=$(tasuki task ask "Deploy?" --type approval); test -n "$answer" || exit 0; echo $answer >> trace'
NOTE = "echo $(tasuki channel get request | sed 's/.*\"id\": *\"\\([^\"]*\\)\".*/\\1/') >> trace"


def next_of(ws, *args):
    answer = call(ws, "queue", "next", *args).json
    return answer["next"] and answer["next"]["id"], {o["request_id"]: (o["reason"], o.get("detail")) for o in answer["others"]}


def ran(answer):
    return [(line["request_id"], line["status"]) for line in answer["ran"]]


# -- what is next -------------------------------------------------------------------------------------------


@test("the most urgent comes first, among equals the oldest: by the time in its id, else by the file's")
def _(ws):
    add(ws, "RQ-20260101T000000-bbbb", NOTE)
    add(ws, "RQ-20250101T000000-aaaa", NOTE)
    add(ws, "RQ-urgent", NOTE, priority="P0")
    add(ws, "RQ-later", NOTE, priority="P3")
    for id, when in (("RQ-z-old", 1.0e9), ("RQ-a-new", 1.1e9)):
        os.utime(add(ws, id, NOTE, priority="P1"), (when, when))
    order = ["RQ-urgent", "RQ-z-old", "RQ-a-new", "RQ-20250101T000000-aaaa", "RQ-20260101T000000-bbbb", "RQ-later"]
    answer = call(ws, "queue", "next").json
    eq([answer["next"]["id"]] + [o["request_id"] for o in sorted(answer["others"], key=lambda o: o["position"])], order, "the order")
    eq([o["position"] for o in answer["others"]], [2, 3, 4, 5, 6], "positions")
    eq(ran(queue(ws)), [(id, "DONE") for id in order], "what it runs")
    eq(trace(ws), order, "in this order")


@test("requests that were added in the same second run in the order in which they were added")
def _(ws):
    ids = [call(ws, "request", "add", f"n{n}", "--", "true").json["id"] for n in range(8)]
    eq([line["request_id"] for line in queue(ws)["ran"]], ids, "the order")


@test("queue next explains every request that it did not choose")
def _(ws):
    add(ws, "RQ-chosen", "true", priority="P3")
    add(ws, "RQ-draft", "true", status="draft")
    add(ws, "RQ-archived", "true", status="archived")
    (ws.path / ".aiflow/requests/RQ-broken.yaml").write_text("title: [\n")
    add(ws, "RQ-waits", "true", depends_on=["RQ-chosen"])
    add(ws, "RQ-orphan", "true", depends_on=["RQ-nowhere"])
    for a, b in ("ab", "bc", "ca"):
        add(ws, f"RQ-{a}", "true", depends_on=[f"RQ-{b}"])
    add(ws, "RQ-behind-cycle", "true", depends_on=["RQ-a"])
    add(ws, "RQ-self", "true", depends_on=["RQ-self"])
    add(ws, "RQ-asks", ASK)
    add(ws, "RQ-fails", "false")
    add(ws, "RQ-done", "true")
    asks, fails, done = run(ws, "RQ-asks", code=8), run(ws, "RQ-fails", code=7), run(ws, "RQ-done")
    proc, locked = begin(ws, "RQ-locked")
    chosen, others = next_of(ws)
    eq(chosen, "RQ-chosen", "the next")
    eq(others, {"RQ-draft": ("NOT_READY", "draft"), "RQ-archived": ("NOT_READY", "archived"), "RQ-broken": ("NOT_READY", "broken"),
                "RQ-waits": ("DEPENDS_NOT_DONE", "RQ-chosen"), "RQ-orphan": ("DEPENDS_NOT_FOUND", "RQ-nowhere"),
                "RQ-a": ("DEPENDS_CYCLE", "RQ-a → RQ-b → RQ-c → RQ-a"), "RQ-b": ("DEPENDS_CYCLE", "RQ-b → RQ-c → RQ-a → RQ-b"),
                "RQ-c": ("DEPENDS_CYCLE", "RQ-c → RQ-a → RQ-b → RQ-c"), "RQ-behind-cycle": ("DEPENDS_NOT_DONE", "RQ-a"),
                "RQ-self": ("DEPENDS_CYCLE", "RQ-self → RQ-self"), "RQ-asks": ("LATEST_RUN_NEEDS_INPUT", asks["run_id"]),
                "RQ-fails": ("LATEST_RUN_FAILED", fails["run_id"]), "RQ-done": ("ALREADY_DONE", done["run_id"]),
                "RQ-locked": ("REQUEST_LOCKED", locked)}, "the others")
    for lang in ("en", "ja", "zh"):
        text = ws.tasuki("queue", "next", "--lang", lang).expect(0).out
        for id in ["RQ-chosen", *others]:
            assert id in text, f"{id} in {lang}: {text}"
    eq(next_of(ws, "--retry")[0], "RQ-fails", "with --retry")
    go(ws)
    ws.finish(proc)


@test("dependencies are done before what depends on them, however urgent that is")
def _(ws):
    add(ws, "RQ-top", NOTE, priority="P0", depends_on=["RQ-left", "RQ-right"])
    add(ws, "RQ-left", NOTE, priority="P2", depends_on=["RQ-base"])
    add(ws, "RQ-right", NOTE, priority="P1", depends_on=["RQ-base"])
    add(ws, "RQ-base", NOTE, priority="P3")
    eq(ran(queue(ws)), [(f"RQ-{name}", "DONE") for name in ("base", "right", "left", "top")], "the order")


@test("a chain of 300 dependencies, and a cycle of 300, are understood", slow=True)
def _(ws):
    for n in range(300):
        add(ws, f"RQ-{n:03}", "true", depends_on=[f"RQ-{n + 1:03}"] if n < 299 else [])
    eq(next_of(ws)[0], "RQ-299", "the end of the chain")
    add(ws, "RQ-299", "true", depends_on=["RQ-000"])
    chosen, others = next_of(ws)
    eq((chosen, {reason for reason, _ in others.values()}), (None, {"DEPENDS_CYCLE"}), "the cycle")


# -- how far it goes ----------------------------------------------------------------------------------------


@test("--once and run-next run one, --max N so many, --for no more after its time", slow=True)
def _(ws):
    for n in range(6):
        add(ws, f"RQ-{n}", "sleep 2.5" if n == 4 else "true")
    eq(len(queue(ws, "--once")["ran"]), 1, "--once")
    eq(len(last_document(call(ws, "queue", "run-next"))["ran"]), 1, "run-next")
    answer = queue(ws, "--max", "2")
    eq((len(answer["ran"]), answer["reason"]), (2, "MAX"), "--max 2")
    answer = queue(ws, "--for", "2s")
    eq((len(answer["ran"]), answer["reason"]), (1, "TIME"), "--for")
    answer = queue(ws)
    eq((len(answer["ran"]), answer["reason"]), (1, "EMPTY"), "the rest")


@test("the queue stops at the first that fails or asks, and leaves it out the next time; --retry begins a failed one anew")
def _(ws):
    add(ws, "RQ-1", "test -e mended", priority="P0")
    add(ws, "RQ-2", ASK, priority="P1")
    add(ws, "RQ-3", "true")
    eq(ran(queue(ws, code=7)), [("RQ-1", "FAILED")], "the first time")
    eq(ran(queue(ws, code=8)), [("RQ-2", "NEEDS_INPUT")], "the second time")
    (ws.path / "mended").touch()
    eq(ran(queue(ws, "--retry")), [("RQ-1", "DONE"), ("RQ-3", "DONE")], "with --retry")
    eq(shown(ws, "RQ-2")["status"], "needs_input", "an unanswered question is nobody's to cancel")
    call(ws, "answer", shown(ws, "RQ-2")["latest_run"]["run_id"], "--yes", "--wait")
    eq(queue(ws)["ran"], [], "nothing is left")


@test("a request that changes its own file is not run for ever")
def _(ws):
    add(ws, "RQ-1", "echo x >> trace; tasuki request edit RQ-1 --title again$$")
    answer = queue(ws)
    eq((ran(answer), answer["reason"], trace(ws)), ([("RQ-1", "DONE")], "EMPTY", ["x"]), "the queue")
    eq(shown(ws, "RQ-1")["status"], "ready", "it is to be run again, by another queue")


@test("a request whose flow cannot be read stops the queue, which says why and records it; the next queue passes it by")
def _(ws):
    path = ws.path / ".aiflow/requests/RQ-1.yaml"
    path.write_text("title: x\nflow: nowhere.yaml\npriority: P0\n")
    add(ws, "RQ-2", "true")
    answer = queue(ws, code=7)
    eq((answer["reason"], ran(answer), answer["error"]["reason_code"]), ("FAILED", [("RQ-1", "FAILED")], "NOT_FOUND"), "the answer")
    no_locks(ws)
    run_id = answer["ran"][0]["run_id"]
    stage = call(ws, "runs", "show", run_id).json
    eq((stage["status"], stage["reason_code"], stage["request_id"]), ("FAILED", "NOT_FOUND", "RQ-1"), "the run")
    eq((shown(ws, "RQ-1")["status"], shown(ws, "RQ-1")["latest_run"]["run_id"]), ("failed", run_id), "the request")
    eq(ran(queue(ws)), [("RQ-2", "DONE")], "the next queue")
    (ws.path / "nowhere.yaml").write_text("tasks:\n  a: {run: 'true'}\n")
    eq(ran(queue(ws, "--retry")), [("RQ-1", "DONE")], "with --retry, mended")


@test("an interrupted run whose flow was damaged stops one queue, not each")
def _(ws):
    proc, run_id = begin(ws, "RQ-1", GATE, priority="P0")
    kill(ws, proc.pid)
    (ws.path / ".aiflow/runs" / run_id / "flow.yaml").write_text("tasks: [")
    add(ws, "RQ-2", "true")
    answer = queue(ws, code=7)
    eq((answer["reason"], ran(answer)), ("FAILED", [("RQ-1", "FAILED")]), "the first queue")
    eq((status(ws, run_id), ran(queue(ws))), ("FAILED", [("RQ-2", "DONE")]), "the run, and the next queue")


# -- stopping -----------------------------------------------------------------------------------------------


@test("queue stop lets the request finish; a stop that nobody needed any more does not stop the next queue")
def _(ws):
    eq(call(ws, "queue", "stop").json["status"], "not_running", "without a queue")
    add(ws, "RQ-1", GATE)
    add(ws, "RQ-2", "true")
    proc = spawn(ws, "queue", "run")
    ws.until_file("up")
    eq(call(ws, "queue", "stop").json["request_id"], "RQ-1", "what is being run")
    eq(call(ws, "queue", "status").json["stopping"], True, "stopping")
    go(ws)
    answer = last_document(ws.finish(proc).expect(0))
    eq((ran(answer), answer["reason"]), ([("RQ-1", "DONE")], "STOPPED"), "the queue")
    eq(ran(queue(ws)), [("RQ-2", "DONE")], "the next queue")


@test("queue stop --now cancels the request; it stays ready, and the next queue runs it")
def _(ws):
    add(ws, "RQ-1", "test -e go && exit 0; echo > up; sleep 300")
    proc = spawn(ws, "queue", "run")
    ws.until_file("up")
    said = ws.tasuki("queue", "stop", "--now").expect(0).out
    assert "is cancelled" in said, said
    answer = last_document(ws.finish(proc).expect(0))
    eq((ran(answer), answer["reason"]), ([("RQ-1", "CANCELLED")], "STOPPED"), "the queue")
    eq(shown(ws, "RQ-1")["status"], "ready", "the request")
    go(ws)
    eq(ran(queue(ws)), [("RQ-1", "DONE")], "the next queue")
    no_locks(ws)


@test("a run of the queue that somebody cancels stops the queue")
def _(ws):
    add(ws, "RQ-1", "echo > up; sleep 300")
    add(ws, "RQ-2", "true")
    proc = spawn(ws, "queue", "run")
    ws.until_file("up")
    call(ws, "runs", "cancel", call(ws, "queue", "status").json["run_id"])
    answer = last_document(ws.finish(proc).expect(7))
    eq((ran(answer), answer["reason"]), ([("RQ-1", "CANCELLED")], "CANCELLED"), "the queue")


@test("queue run --detach answers when the first run has begun, goes on under a holder, and is refused like any other")
def _(ws):
    add(ws, "RQ-1", GATE)
    add(ws, "RQ-2", "true")
    answer = call(ws, "queue", "run", "--detach").json
    eq((answer["status"], answer["request_id"]), ("RUNNING", "RQ-1"), "the answer")
    call(ws, "queue", "run", "--detach", code=4, reason="QUEUE_IN_PROGRESS")
    pid = ws.read_lock("queue")["pid"]
    eq(pathlib.Path(f"/proc/{parent_of(pid)}/comm").read_text().strip(), "tasuki-hold", "its parent")
    ws.until_file("up")
    go(ws)
    ws.until(lambda: call(ws, "queue", "status").json["status"] == "idle", "the queue ends")
    eq(call(ws, "queue", "status").json["last"]["reason"], "EMPTY", "why")
    eq({id: shown(ws, id)["status"] for id in ("RQ-1", "RQ-2")}, {"RQ-1": "done", "RQ-2": "done"}, "the requests")
    empty = call(ws, "queue", "run", "--detach").json
    eq((empty["status"], empty["reason"]), ("STOPPED", "EMPTY"), "with nothing to do")


@test("a flow that can never be read fails its request once, waits for nobody, and the queue comes to the others")
def _(ws):
    os.mkfifo(ws.path / "pipe.yaml")
    os.mknod(ws.path / "socket.yaml", stat.S_IFSOCK | 0o600)
    flows = ["pipe.yaml", "socket.yaml", "/dev/zero", "n" * 300]
    for n, name in enumerate(flows):
        (ws.path / f".aiflow/requests/RQ-{n}.yaml").write_text(f"title: t\npriority: P0\nflow: {name}\n")
        call(ws, "request", "run", f"RQ-{n}", code=2, reason="INVALID_INPUT")
    add(ws, "RQ-good", NOTE)
    for n in range(len(flows)):
        eq(ran(queue(ws, code=7)), [(f"RQ-{n}", "FAILED")], "what the queue ran")
    eq(ran(queue(ws)), [("RQ-good", "DONE")], "what came after them")


@test("a queue and a run by hand do not run one request twice")
def _(ws):
    proc, id = begin(ws, "RQ-1")
    add(ws, "RQ-2", "true")
    eq(ran(queue(ws)), [("RQ-2", "DONE")], "what the queue runs")
    go(ws)
    ws.finish(proc).expect(0)
    eq([one["run_id"] for one in runs_of(ws, "RQ-1")], [id], "the runs of the other")


@test("the trail tells what the queue did: started, each run, stopped")
def _(ws):
    add(ws, "RQ-1", "true")
    answer = queue(ws, "--max", "5")
    told = [(e["type"], e["data"]) for e in ws.events() if e["type"].startswith("queue.")]
    eq(told, [("queue.started", {"max": 5, "for_ms": 0, "retry": False}),
              ("queue.next", {"request_id": "RQ-1", "run_id": answer["ran"][0]["run_id"]}),
              ("queue.stopped", {"reason": "EMPTY", "ran": answer["ran"]})], "the events")


@test("again puts a request that is done or has failed back into the queue, which runs it once more; its runs stay")
def _(ws):
    add(ws, "RQ-done", "echo done >> trace")
    add(ws, "RQ-failed", "echo failed >> trace; test -e mended")
    run(ws, "RQ-done")
    run(ws, "RQ-failed", code=7)
    eq([shown(ws, id)["status"] for id in ("RQ-done", "RQ-failed")], ["done", "failed"], "before")
    (ws.path / "mended").touch()
    for id in ("RQ-done", "RQ-failed"):
        for _ in range(2):  # one that is ready stays as it is
            answer = call(ws, "request", "again", id).json
            eq((answer["id"], answer["status"]), (id, "ready"), "the answer")
        eq(shown(ws, id)["status"], "ready", "its status")
    eq([e["data"] for e in ws.events("request.again")], [{"request_id": "RQ-done"}, {"request_id": "RQ-failed"}], "the events")
    no_locks(ws)
    eq(sorted(one["request_id"] for one in queue(ws)["ran"]), ["RQ-done", "RQ-failed"], "what the queue ran")
    eq(([shown(ws, id)["status"] for id in ("RQ-done", "RQ-failed")], len(runs_of(ws, "RQ-done"))), (["done", "done"], 2), "after")
    eq(sorted(trace(ws)), ["done", "done", "failed", "failed"], "what ran")


@test("again refuses a request that runs, asks, is a draft or archived, or is broken, with what to do instead; nothing changes")
def _(ws):
    add(ws, "RQ-asks", ASK)
    asks = run(ws, "RQ-asks", code=8)["run_id"]
    for status_of in ("draft", "archived"):
        add(ws, f"RQ-{status_of}", "true", status=status_of)
    add(ws, "RQ-broken", "true").write_text("title: [\n")
    add(ws, "RQ-runs", GATE)
    proc, runs = begin(ws, "RQ-runs")
    for id, code, reason, what in (("RQ-asks", 8, "NEEDS_INPUT", f"tasuki runs show {asks}"), ("RQ-runs", 4, "RUN_IN_PROGRESS", f"tasuki runs show {runs}"),
                                   ("RQ-draft", 4, "CONFLICT", "tasuki request edit RQ-draft --status ready"),
                                   ("RQ-archived", 4, "CONFLICT", "tasuki request edit RQ-archived --status ready"),
                                   ("RQ-broken", 2, "INVALID_INPUT", None), ("RQ-none", 5, "REQUEST_NOT_FOUND", "tasuki request list")):
        before = [call(ws, "request", "list").json["requests"], call(ws, "runs", "list").json["runs"]]
        error = call(ws, "request", "again", id, code=code, reason=reason).error
        assert what is None or what in error["next"], f"{id}: {error['next']}"
        eq([[one["status"] for one in some] for some in (call(ws, "request", "list").json["requests"], call(ws, "runs", "list").json["runs"])],
           [[one["status"] for one in some] for some in before], f"what there is after {id}")
    eq(ws.events("request.again"), [], "events")
    go(ws)
    eq(ws.finish(proc).code, 0, "the run that was there")


@test("100 requests run one after the other, each once, under one lock", quick=False)
def _(ws):
    for n in range(100):
        add(ws, f"RQ-{n:03}", "true")
    answer = queue(ws)
    eq((len(answer["ran"]), {line["status"] for line in answer["ran"]}), (100, {"DONE"}), "what it ran")
    eq(len({one["run_id"] for one in runs_of(ws)}), 100, "runs")


main(__name__)
