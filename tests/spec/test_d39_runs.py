"""Seed 000 (D39), what it says of runs and the queue: sections 3 to 8 and, point by point, section 10."""

import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from common import dead_pid, foreign_lock, parse_time, sleeper  # noqa: E402
from flows import last_document, with_tool  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from harness.processes import open_files_of  # noqa: E402
from harness.race import race  # noqa: E402
from harness.workspace import children_of  # noqa: E402
from requests_common import (GATE, add, begin, call, go, kill, listed, no_locks, queue, refused, run, runs_of, shown, spawn,  # noqa: E402
                             stage_file, status, trace)

ASK = 'answer=$(tasuki task ask "Deploy?" --type approval); test -n "$answer" || exit 0; echo $answer >> trace'
MANY = 100


def documents(text):
    decoder, found = json.JSONDecoder(), []
    text = text.strip()
    while text:
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:].lstrip()
    return found


# -- 3: taking and releasing --------------------------------------------------------------------------------


@test("3.2: the request lock is released when a run is DONE, FAILED or NEEDS_INPUT, and so is the queue lock")
def _(ws):
    for id, command, code in (("RQ-done", "true", 0), ("RQ-fails", "exit 3", 7), ("RQ-asks", ASK, 8)):
        add(ws, id, command)
        run(ws, id, code=code)
        no_locks(ws)
    for id, command, code in (("RQ-q-done", "true", 0), ("RQ-q-fails", "exit 3", 7), ("RQ-q-asks", ASK, 8)):
        add(ws, id, command)
        queue(ws, code=code)
        no_locks(ws)


@test("3.3: the TTL is 30 minutes; a run with progress extends it", slow=True)
def _(ws):
    add(ws, "RQ-1", f"{GATE}")
    (ws.path / "flow.yaml").write_text("flow: a >> b\ntasks:\n  a: {run: 'sleep 1.1'}\n  b: {run: 'echo up > up; while ! test -e go; do sleep 0.01; done'}\n")
    (ws.path / ".aiflow/requests/RQ-1.yaml").write_text("title: x\nflow: flow.yaml\n")
    proc = spawn(ws, "request", "run", "RQ-1")
    ws.until_held("request", "RQ-1")
    first = ws.read_lock("request", "RQ-1")
    eq((parse_time(first["expires_at"]) - parse_time(first["created_at"])).total_seconds(), 1800.0, "the TTL")
    ws.until_file("up")
    ws.until(lambda: parse_time(ws.read_lock("request", "RQ-1")["expires_at"]) > parse_time(first["expires_at"]), "the lock is extended")
    later = ws.read_lock("request", "RQ-1")
    eq((later["fence"], later["created_at"], later["run_id"]), (first["fence"], first["created_at"], first["run_id"]), "the rest of it")
    go(ws)
    ws.finish(proc)


# -- 4: conflicts -------------------------------------------------------------------------------------------


@test("4.1: who runs a request that runs already gets RUN_IN_PROGRESS, the seed's keys, and the run's URL")
def _(ws):
    proc, id = begin(ws, "RQ-1")
    answer = refused(ws, "RQ-1")
    error = answer["error"]
    eq((error["category"], error["reason_code"]), ("EXECUTION", "RUN_IN_PROGRESS"), "category and code")
    eq((error["context"]["request_id"], error["context"]["run_id"]), ("RQ-1", id), "context")
    eq(answer["latest_run"], f"/api/runs/{id}", "latest_run")
    eq(error["next"][0], f"tasuki runs show {id}", "the first next command")
    ja = ws.tasuki("request", "run", "RQ-1", "--json", "--lang", "ja").expect(4).error
    eq(ja["message"], "同一RequestのRunが実行中です", "the seed's sentence")
    apart = call(ws, "request", "run", "RQ-1", "--detach", code=4, reason="RUN_IN_PROGRESS").json
    eq((apart["latest_run"], apart["error"]["context"]["run_id"]), (f"/api/runs/{id}", id), "the same from a runner apart")
    go(ws)
    ws.finish(proc).expect(0)


@test("4.2: who starts a queue while one runs gets QUEUE_IN_PROGRESS, with the seed's words")
def _(ws):
    add(ws, "RQ-1", GATE)
    proc = spawn(ws, "queue", "run")
    ws.until_file("up")
    for verb in (["run"], ["run", "--once"], ["run-next"], ["run", "--detach"]):
        error = call(ws, "queue", *verb, code=4, reason="QUEUE_IN_PROGRESS").json["error"]
        eq((error["category"], error["context"]["request_id"]), ("EXECUTION", "RQ-1"), "category and request")
    ja = ws.tasuki("queue", "run", "--json", "--lang", "ja").expect(4).error
    eq(ja["message"], "キュー実行がすでに動作中です", "the seed's title")
    go(ws)
    ws.finish(proc).expect(0)


# -- 5: stale locks, before a run ---------------------------------------------------------------------------


@test("5: an expired lock of a dead process is recovered before a run, with an event; of a living one it is not")
def _(ws):
    add(ws, "RQ-1", "true")
    foreign_lock(ws, "request", "RQ-1", dead_pid(), created=-4000, expires=-2000)
    eq(run(ws, "RQ-1")["status"], "DONE", "status")
    eq(len(ws.events("LOCK_STALE_RECOVERED")), 1, "recoveries")
    foreign_lock(ws, "request", "RQ-1", sleeper(ws).pid, created=0, expires=-1)
    refused(ws, "RQ-1")
    ws.lock_path("request", "RQ-1").unlink()


@test("5: an expired lock without a pid is recovered before a run; the same for the queue")
def _(ws):
    add(ws, "RQ-1", "true")
    foreign_lock(ws, "request", "RQ-1", None, created=-4000, expires=-2000)
    foreign_lock(ws, "queue", None, None, created=-4000, expires=-2000)
    eq([line["status"] for line in queue(ws)["ran"]], ["DONE"], "what it ran")


# -- 6: the queue -------------------------------------------------------------------------------------------


@test("6.1: the queue holds its lock from the first request to the last; it names what is run")
def _(ws):
    for number in "12":
        add(ws, f"RQ-{number}", f"cp .aiflow/locks/queue.lock.json seen{number}; cp .aiflow/locks/request.RQ-{number}.lock.json own{number}")
    eq([line["request_id"] for line in queue(ws)["ran"]], ["RQ-1", "RQ-2"], "what it ran")
    one, two = (json.loads((ws.path / f"seen{n}").read_text()) for n in "12")
    eq((one["lock_type"], one["request_id"], two["request_id"]), ("queue", "RQ-1", "RQ-2"), "the queue lock")
    eq(one["fence"], two["fence"], "the same lock, held all the time")
    for number, seen in (("1", one), ("2", two)):
        own = json.loads((ws.path / f"own{number}").read_text())
        eq((own["request_id"], own["run_id"], own["pid"]), (f"RQ-{number}", seen["run_id"], seen["pid"]), "the request lock")
    order = [(e["type"], e["data"]["kind"]) for e in ws.events() if e["type"] in ("lock.acquired", "lock.released")]
    r, q = "request", "queue"
    eq(order, [("lock.acquired", q), ("lock.acquired", r), ("lock.released", r), ("lock.acquired", r), ("lock.released", r), ("lock.released", q)],
       "the order of the locks")


@test("6.1: a question, a failure, a doctor FAIL, a stop and an empty queue each release the lock and say why")
def _(ws):
    def ends(reason, code, *args):
        answer = queue(ws, *args, code=code)
        eq((answer["status"], answer["reason"]), ("STOPPED", reason), "the answer")
        no_locks(ws)
        told = ws.events("queue.stopped")[-1]["data"]
        ran = [{key: run[key] for key in ("request_id", "run_id", "status")} for run in answer["ran"]]
        eq((told["reason"], told["ran"]), (reason, ran), "the event")
        last = call(ws, "queue", "status").json
        eq((last["status"], last["last"]["reason"]), ("idle", reason), "queue status")

    ends("EMPTY", 0)
    add(ws, "RQ-1", ASK)
    ends("NEEDS_INPUT", 8)
    add(ws, "RQ-2", "exit 1")
    ends("FAILED", 7)
    add(ws, "RQ-3", "tasuki queue stop")
    add(ws, "RQ-4", "true")
    ends("STOPPED", 0)
    ends("MAX", 0, "--once")
    add(ws, "RQ-5", "true")
    database = sqlite3.connect(ws.path / ".aiflow/state.db")
    database.execute("PRAGMA user_version = 9999")  # a newer tasuki's
    database.close()
    ends("DOCTOR_FAILED", 3)


@test("6.2: when the one who ran the queue is killed, both of its locks are recovered at once, and the run goes on")
def _(ws):
    add(ws, "RQ-1", "echo started >> trace; test -e go && exit 0; echo $$ > up; sleep 300")
    proc = spawn(ws, "queue", "run")
    ws.until_file("up")
    kill(ws, proc.pid)
    eq(call(ws, "queue", "status").json["status"], "interrupted", "queue status")
    eq(shown(ws, "RQ-1")["latest_run"]["status"], "INTERRUPTED", "the run")
    go(ws)
    answer = queue(ws)
    eq([(line["request_id"], line["status"]) for line in answer["ran"]], [("RQ-1", "DONE")], "what it ran")
    eq((len(runs_of(ws)), trace(ws)), (1, ["started", "started"]), "one run, gone on with")
    assert len(ws.events("LOCK_STALE_RECOVERED")) >= 1
    no_locks(ws)


# -- 8: safety ----------------------------------------------------------------------------------------------


@test("8: stage.json has the holder of the request lock as the lock file has it")
def _(ws):
    proc, id = begin(ws, "RQ-1")
    lock, stage = ws.read_lock("request", "RQ-1"), json.loads(stage_file(ws, id).read_text())
    for key in ("lock_type", "request_id", "run_id", "pid", "host", "hostname", "created_at", "fence"):
        eq(stage["lock"][key], lock[key], key)
    eq((stage["run_id"], stage["request_id"], stage["session_id"], stage["status"]), (id, "RQ-1", id, "RUNNING"), "the stage")
    assert "token" not in stage["lock"], "what proves the lock is not told"
    go(ws)
    ws.finish(proc).expect(0)
    after = json.loads(stage_file(ws, id).read_text())
    eq((after["lock"]["pid"], after["status"]), (lock["pid"], "DONE"), "at the end")


@test("8: stage.json is complete JSON at every look while it is being replaced", slow=True)
def _(ws):
    flow = "limits: {max_cycles: 100000}\ntasks:\n  a: {run: 'test -e go || tasuki task again', max_cycles: 100000}\n  b: {run: 'sleep 0.9'}\n  c: {needs: [b], run: 'sleep 0.9'}\n"
    (ws.path / "flow.yaml").write_text(flow)
    (ws.path / ".aiflow/requests/RQ-1.yaml").write_text("title: x\nflow: flow.yaml\n")
    proc = spawn(ws, "request", "run", "RQ-1", stdout=subprocess.DEVNULL)  # a pipe that nobody reads would stop it
    ws.until_held("request", "RQ-1")
    id = ws.read_lock("request", "RQ-1")["run_id"]
    path = stage_file(ws, id)
    ws.until(path.exists, "the stage is written")
    looks, kinds, end = 0, set(), time.monotonic() + 60
    while (looks <= 1000 or len(kinds) < 3) and time.monotonic() < end:  # a new one every second
        stage = json.loads(path.read_bytes())
        kinds.add(path.stat().st_mtime_ns)
        eq(stage["run_id"], id, "whose stage it is")
        looks += 1
    go(ws)
    ws.finish(proc).expect(0)
    assert looks > 1000 and len(kinds) >= 3, f"{looks} looks at {len(kinds)} files"


# -- 10: acceptance -----------------------------------------------------------------------------------------


@test(f"10.1: of {MANY} simultaneous runs of one request one runs, the others are refused and name it", slow=True)
def _(ws):
    add(ws, "RQ-1", GATE)
    finished = ws.base / "finished"
    command = f'"{ws.binary}" request run RQ-1 --json; code=$?; echo >> "{finished}"; exit $code'
    waiter = ws.spawn_command(["sh", "-c", f'while test "$(wc -l < "{finished}" 2>/dev/null || echo 0)" -lt {MANY - 1}; do sleep 0.05; done; touch "{ws.path}/go"'])
    os.chdir(ws.path)
    answers = race(ws, [["/bin/sh", "-c", command]] * MANY)
    ws.finish(waiter)
    eq(sorted(code for code, _ in answers), [0] + [4] * (MANY - 1), "exit codes")
    winner, = [documents(text)[-1] for code, text in answers if code == 0]
    for code, text in answers:
        if code:
            answer = json.loads(text)
            eq((answer["error"]["reason_code"], answer["error"]["context"]["run_id"], answer["latest_run"]),
               ("RUN_IN_PROGRESS", winner["run_id"], f"/api/runs/{winner['run_id']}"), "the refusal")
    eq((trace(ws), [r["run_id"] for r in runs_of(ws)]), ([winner["run_id"]], [winner["run_id"]]), "executions and runs")
    no_locks(ws)


@test(f"10.1: with --on-conflict attach the {MANY - 1} others follow it and return its outcome", slow=True)
def _(ws):
    add(ws, "RQ-1", "echo $$ >> up; while ! test -e go; do sleep 0.01; done; echo $TASUKI_RUN_ID >> trace; exit 3")
    os.chdir(ws.path)

    def follow():
        """The programs that have the run's `life` open: its runner, and the others, which wait for its end. (/proc/locks is no
        measure: while it changes, a reader meets an entry twice.)"""
        lives = {str(path) for path in (ws.path / ".aiflow/runs").glob("RUN-*/life")}
        return sum(1 for pid in children_of(os.getpid()) if lives & open_files_of(pid))

    waiter = ws.spawn_command(["sh", "-c", f'until test "$(cat "{ws.path}/ready" 2>/dev/null)"; do sleep 0.02; done; touch "{ws.path}/go"'])
    import threading
    seen = {}
    thread = threading.Thread(target=lambda: seen.update(answers=race(ws, [[str(ws.binary), "request", "run", "RQ-1", "--json", "--on-conflict", "attach"]] * MANY)))
    thread.start()
    ws.until(lambda: follow() == MANY, "the others wait", 200)
    (ws.path / "ready").write_text("yes")
    thread.join()
    ws.finish(waiter)
    eq([code for code, _ in seen["answers"]], [7] * MANY, "exit codes")
    stages = [documents(text)[-1] for _, text in seen["answers"]]
    eq(({s["run_id"] for s in stages}, {s["status"] for s in stages}), ({trace(ws)[0]}, {"FAILED"}), "the run and its outcome")
    eq((len(trace(ws)), sum("attached" in s for s in stages)), (1, MANY - 1), "executions and followers")
    no_locks(ws)


@test("10.2: of 30 queues that are started at once one runs, the others are refused; every request runs once")
def _(ws):
    for number in range(3):
        add(ws, f"RQ-{number}", "sleep 0.2; echo $TASUKI_RUN_ID >> trace")
    os.chdir(ws.path)
    answers = race(ws, [[str(ws.binary), "queue", "run", "--json"]] * 30)
    codes = sorted(code for code, _ in answers)
    assert codes[0] == 0 and set(codes) <= {0, 4}, codes
    ran = [line["run_id"] for code, text in answers if code == 0 for line in documents(text)[-1]["ran"]]
    eq((len(ran), sorted(trace(ws))), (3, sorted(ran)), "executions")
    for code, text in answers:
        if code:
            eq(json.loads(text)["error"]["reason_code"], "QUEUE_IN_PROGRESS", "the refusal")
    no_locks(ws)


@test("10.3: nothing is stuck after a runner was killed: no TTL is waited for, the run is INTERRUPTED and can be resumed")
def _(ws):
    proc, id = begin(ws, "RQ-1", "echo started >> trace; test -e go && exit 0; echo $$ > up; sleep 300")
    kill(ws, proc.pid)
    eq((status(ws, id), shown(ws, "RQ-1")["status"]), ("INTERRUPTED", "ready"), "run and request")
    go(ws)
    eq(last_document(call(ws, "resume", id))["status"], "DONE", "resumed")
    eq(len(ws.events("LOCK_STALE_RECOVERED")), 1, "recoveries")
    eq((shown(ws, "RQ-1")["status"], trace(ws)), ("done", ["started", "started"]), "request and executions")
    no_locks(ws)


@test("10.3: who runs a request after its runner was killed gets the lock at once and goes on with that run; --new begins anew")
def _(ws):
    proc, id = begin(ws, "RQ-1", "test -e go && exit 0; echo $$ > up; sleep 300")
    kill(ws, proc.pid)
    go(ws)
    stage = run(ws, "RQ-1", "--new")
    assert stage["run_id"] != id and stage["status"] == "DONE", stage
    eq(status(ws, id), "CANCELLED", "the one that was given up")
    (ws.path / "go").unlink()
    (ws.path / "up").unlink()
    proc, id = begin(ws, "RQ-2", "test -e go && exit 0; echo $$ > up; sleep 300")
    kill(ws, proc.pid)
    go(ws)
    stage = run(ws, "RQ-2")
    eq((stage["run_id"], stage["status"], len(runs_of(ws, "RQ-2"))), (id, "DONE", 1), "gone on with")
    no_locks(ws)


@test("10.3: what a killed run left behind keeps the request locked, until whoever goes on ends it")
def _(ws):
    proc, id = begin(ws, "RQ-1", "test -e go && exit 0; setsid sleep 300 & echo $! > left; echo $$ > up; sleep 300")
    left = int(ws.until_file("left"))
    ws.kill_at_close(left)
    kill(ws, proc.pid)
    eq(ws.alive(left), True, "whether the leftover lives")
    eq(ws.tasuki("lock", "check", "request", "RQ-1", "--json").expect(4).json["holder"]["run_id"], id, "who is in the way")
    go(ws)
    eq(call(ws, "queue", "next").json["next"]["resumes"], id, "what the queue would go on with")
    eq(queue(ws)["ran"], [{"request_id": "RQ-1", "run_id": id, "status": "DONE"}], "what the queue does")
    eq(ws.alive(left), False, "whether the leftover lives")
    no_locks(ws)


@test("10.4: that something is locked is seen: in the list with holder and time, and on the queue")
def _(ws):
    add(ws, "RQ-1", GATE)
    proc = spawn(ws, "queue", "run")
    ws.until_file("up")
    one = listed(ws)["RQ-1"]
    eq((one["status"], one["lock"]["holder"]["pid"], one["lock"]["state"]), ("running", proc.pid, "held"), "the request")
    assert 0 < one["lock"]["expires_in_ms"] <= 1800000, one["lock"]
    text = ws.tasuki("request", "list").expect(0).out
    assert "LOCKED" in text, text
    now = call(ws, "queue", "status").json
    eq((now["status"], now["request_id"], now["run_id"], now["holder"]["pid"], now["stopping"]),
       ("running", "RQ-1", one["latest_run"]["run_id"], proc.pid, False), "the queue")
    go(ws)
    ws.finish(proc).expect(0)


main(__name__)
