"""What happens between a look and a lock: each test holds a process in one such window and lets somebody else overtake it."""

import fcntl
import json
import os
import pathlib
import shutil
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from common import foreign_lock, sleeper  # noqa: E402
from flows import last_document, with_tool  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from requests_common import (GATE, add, begin, call, go, kill, no_locks, queue, refused, run, runs_of, shown, spawn, stage_file,  # noqa: E402
                             status, trace)

TRACE = "echo $TASUKI_RUN_ID >> trace"
ASK = 'answer=$(tasuki task ask "Deploy?" --type approval); test -n "$answer" || exit 0; echo $answer >> trace'
LOCKED = "runs/.requests"  # opened by who has the request's lock and is about to make the run


def state_of(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def held(ws, path, number, *args, only=None):
    """tasuki, stopped before it opens (only="unlinkat": removes) the path for that time."""
    env = {**with_tool(ws), "TASUKI_FAULT_PATH": path, "TASUKI_FAULT_STOP_AT": str(number), "TASUKI_FAULT_ONLY": only}
    proc = ws.spawn_command([ws.fault_binary, "--json", *args], env=env)
    ws.until(lambda: state_of(proc.pid) == "T", f"{args} stops before {path}")
    return proc


def follows(ws, proc):
    """Waits until it has met the lock, and looks at it from time to time."""
    wchan = pathlib.Path(f"/proc/{proc.pid}/wchan")
    ws.until(lambda: proc.poll() is not None or "nanosleep" in wchan.read_text(), "the follower waits")


def let_go(ws, proc, code=0):
    os.kill(proc.pid, signal.SIGCONT)
    return ws.finish(proc).expect(code)


def with_flow(ws, id, command=TRACE, **keys):
    (ws.path / f"{id}.flow").write_text(json.dumps({"tasks": {"a": {"run": command}}}))
    (ws.path / ".aiflow/requests" / f"{id}.yaml").write_text(json.dumps({"title": id, "flow": f"{id}.flow", **keys}))


def ran(answer):
    return [(line["request_id"], line["status"]) for line in answer["ran"]]


def is_free(path, byte):
    with open(path, "r+b") as life:
        try:
            fcntl.lockf(life, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except OSError:
            return False
    return True


def interrupted(ws, id="RQ-1"):
    """A run that was killed in its first task, with `go` there already."""
    proc, run_id = begin(ws, id)
    kill(ws, proc.pid)
    ws.until(lambda: is_free(ws.path / ".aiflow/runs" / run_id / "life", 0), "its task is gone, and with it the lock")
    go(ws)
    return run_id


# -- nothing runs twice -------------------------------------------------------------------------------------


STEPS = "flow: a >> b\ntasks: {a: 'echo a >> trace', b: 'echo $$ >> up; while ! test -e go; do sleep 0.01; done; echo b >> trace'}\n"


@test("request run goes on with an interrupted run: what is done is not done twice, here, apart, and whoever comes at the same time")
def _(ws):
    (ws.path / "steps.yaml").write_text(STEPS)
    (ws.path / ".aiflow/requests/RQ-1.yaml").write_text("title: two steps\nflow: steps.yaml\n")
    id = call(ws, "request", "run", "RQ-1", "--detach").json["run_id"]
    for number in (1, 2):
        ws.until(lambda: len((ws.path / "up").read_text().split()) == number if (ws.path / "up").exists() else False, "b runs")
        kill(ws, call(ws, "runs", "show", id).json["runner"]["pid"])
        ws.until(lambda: is_free(ws.path / ".aiflow/runs" / id / "life", 0), "its task is gone")
        if number == 1:
            eq(call(ws, "request", "run", "RQ-1", "--detach").json["run_id"], id, "the run that goes on apart")
    go(ws)
    procs = [spawn(ws, "request", "run", "RQ-1", "--on-conflict", "attach") for _ in range(4)]
    ends = [last_document(ws.finish(proc).expect(0)) for proc in procs]
    eq({end["status"] for end in ends}, {"DONE"}, "their ends")
    assert id in {end["run_id"] for end in ends}, ends
    eq((status(ws, id), trace(ws)[:2]), ("DONE", ["a", "b"]), "the first run")


@test("a request that was changed since its run was interrupted is refused, with the two ways on; a touched one is not changed")
def _(ws):
    id = interrupted(ws)
    path = ws.path / ".aiflow/requests/RQ-1.yaml"
    text = path.read_text()
    path.write_text(text.replace("title: RQ-1", "title: another"))
    error = refused(ws, "RQ-1", reason="CONFLICT")["error"]
    eq(error["next"], [f"tasuki resume {id}", "tasuki request run RQ-1 --new"], "what to do")
    eq((status(ws, id), len(runs_of(ws))), ("INTERRUPTED", 1), "nothing has begun")
    path.write_text(text)
    eq(run(ws, "RQ-1")["run_id"], id, "the run")


@test("so is one whose flow was changed; the queue goes on with what was begun")
def _(ws):
    flow = ws.path / "steps.yaml"
    flow.write_text(STEPS)
    (ws.path / ".aiflow/requests/RQ-1.yaml").write_text("title: two steps\nstatus: ready\nflow: steps.yaml\n")
    proc = spawn(ws, "request", "run", "RQ-1")
    ws.until_file("up")
    id = ws.read_lock("request", "RQ-1")["run_id"]
    kill(ws, proc.pid)
    ws.until(lambda: is_free(ws.path / ".aiflow/runs" / id / "life", 0), "its task is gone")
    go(ws)
    flow.write_text(STEPS.replace("echo b", "echo c"))
    error = refused(ws, "RQ-1", reason="CONFLICT")["error"]
    eq(error["next"], [f"tasuki resume {id}", "tasuki request run RQ-1 --new"], "what to do")
    eq((ran(queue(ws)), trace(ws)), ([("RQ-1", "DONE")], ["a", "b"]), "the queue")


@test("an interrupted run whose byte somebody has for a moment, as a runner that is just being killed, is not overtaken")
def _(ws):
    id = interrupted(ws)
    with open(ws.path / ".aiflow/runs" / id / "life", "r+b") as life:
        fcntl.lockf(life, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 1)
        proc = spawn(ws, "request", "run", "RQ-1")
        follows(ws, proc)
    eq(last_document(ws.finish(proc).expect(0))["run_id"], id, "the run")
    eq(len(runs_of(ws)), 1, "runs")


@test("a run whose runner is just being killed is cancelled, not refused because the runner is gone")
def _(ws):
    id = interrupted(ws)
    with open(ws.path / ".aiflow/runs" / id / "life", "r+b") as life:
        fcntl.lockf(life, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 1)
        proc = spawn(ws, "runs", "cancel", id)
        follows(ws, proc)
    eq(last_document(ws.finish(proc).expect(0))["status"], "CANCELLED", "the run")


@test("an interrupted run that cannot go on is an error for who runs its request, and --new gives it up")
def _(ws):
    for number, name in enumerate(("flow.yaml", "journal")):
        for left in ("go", "up"):
            (ws.path / left).unlink(missing_ok=True)
        id = interrupted(ws, f"RQ-{number}")
        folder = ws.path / ".aiflow/runs" / id
        (folder / name).unlink()
        os.utime(folder, (1, 1))  # one that has just been made is looked at as if somebody made it
        error = call(ws, "request", "run", f"RQ-{number}", code=3).json["error"]
        assert f"tasuki request run RQ-{number} --new" in error["next"], error
        assert run(ws, f"RQ-{number}", "--new")["run_id"] != id
        eq(status(ws, id), "CANCELLED", f"the one without its {name}")


@test("a queue does not run what somebody has run since it looked")
def _(ws):
    with_flow(ws, "RQ-1")
    proc = held(ws, "RQ-1.flow", 1, "queue", "run")
    run(ws, "RQ-1")
    answer = last_document(let_go(ws, proc))
    eq((answer["reason"], ran(answer), len(trace(ws))), ("EMPTY", [], 1), "the queue, and executions")
    no_locks(ws)


@test("a queue does not run a request that was made a draft, or whose dependency was undone, since it looked")
def _(ws):
    with_flow(ws, "RQ-1")
    proc = held(ws, "RQ-1.flow", 1, "queue", "run")
    call(ws, "request", "edit", "RQ-1", "--status", "draft")
    eq(ran(last_document(let_go(ws, proc))), [], "what the queue ran")
    add(ws, "RQ-2", "exit $(cat code)")
    (ws.path / "code").write_text("0")
    run(ws, "RQ-2")
    with_flow(ws, "RQ-3", depends_on=["RQ-2"])
    proc = held(ws, "RQ-3.flow", 1, "queue", "run")
    (ws.path / "code").write_text("1")
    run(ws, "RQ-2", code=7)
    eq((ran(last_document(let_go(ws, proc))), trace(ws)), ([], []), "what the queue ran")


@test("a queue does not go on with a run that was cancelled since it looked")
def _(ws):
    run_id = interrupted(ws)
    # The book, the queue's own look, then the run's byte.
    for number in (2, 3):
        proc = held(ws, "life", number, "queue", "run")
        call(ws, "runs", "cancel", run_id)
        answer = last_document(let_go(ws, proc))
        eq((status(ws, run_id), [line["run_id"] == run_id for line in answer["ran"]]), ("CANCELLED", [False]), "the run, and what the queue ran")
        (ws.path / "go").unlink()
        (ws.path / "up").unlink()
        (ws.path / ".aiflow/requests/RQ-1.yaml").unlink()
        run_id = interrupted(ws)


@test("a run that ends while somebody cancels it keeps its end")
def _(ws):
    run_id = interrupted(ws)
    proc = held(ws, "life", 2, "runs", "cancel", run_id)
    call(ws, "resume", run_id)
    eq(let_go(ws, proc).json["status"], "DONE", "what cancel says")
    eq((status(ws, run_id), shown(ws, "RQ-1")["status"]), ("DONE", "done"), "the run and the request")
    eq((ran(queue(ws)), len(trace(ws))), ([], 1), "the queue, and executions")


@test("a cancel that comes when a run has just ended leaves no lock behind")
def _(ws):
    with_flow(ws, "RQ-1")
    for number in (signal.SIGTERM, signal.SIGUSR1):
        proc = held(ws, "request.RQ-1.lock.json", 1, "request", "run", "RQ-1", only="unlinkat")
        eq([one["status"] for one in runs_of(ws, "RQ-1")][0], "DONE", "the run")
        assert ws.lock_path("request", "RQ-1").exists(), "its lock is there"
        proc.send_signal(number)
        os.kill(proc.pid, signal.SIGCONT)
        proc.wait(60)
        no_locks(ws)


@test("an answer does not go on with a run that was given up since it was recorded, by cancel or by --new")
def _(ws):
    add(ws, "RQ-1", ASK)
    for overtake in (lambda first: call(ws, "runs", "cancel", first), lambda _: run(ws, "RQ-1", "--new", code=8)):
        first = run(ws, "RQ-1", "--new", code=8)["run_id"]
        proc = held(ws, "runners", 1, "answer", first, "--yes")
        overtake(first)
        result = let_go(ws, proc, code=4)
        eq((result.error["reason_code"], status(ws, first)), ("CONFLICT", "CANCELLED"), "the answer, and the run")
        eq(trace(ws), [], "executions")


# -- nothing is stuck ---------------------------------------------------------------------------------------


@test("an answer whose command was killed before the run went on leaves a run that goes on: by resume, request run, the queue")
def _(ws):
    for id in ("RQ-1", "RQ-2", "RQ-3"):
        add(ws, id, ASK)
        run_id = run(ws, id, code=8)["run_id"]
        env = {**with_tool(ws), "TASUKI_FAULT_PATH": "runners"}
        ws.fault("--json", "answer", run_id, "--yes", at=1, mode="kill", env=env).expect(-9)
        stage = call(ws, "runs", "show", run_id).json
        eq((stage["status"], stage["questions"]), ("INTERRUPTED", []), "the run")
        again = call(ws, "answer", run_id, "--yes", code=4, reason="ALREADY_ANSWERED").json["error"]
        eq(again["next"], [f"tasuki resume {run_id}"], "what helps")
        if id == "RQ-1":
            call(ws, "resume", run_id)
        elif id == "RQ-2":
            eq(run(ws, id)["run_id"], run_id, "what request run does")
        else:
            eq(ran(queue(ws)), [("RQ-3", "DONE")], "the queue")
        eq((status(ws, run_id), len(runs_of(ws, id))), ("DONE", 1), "the run, and how many there are")
    eq(trace(ws), ["true"] * 3, "the answers that were used")


@test("an answer waits a moment for the request's lock")
def _(ws):
    add(ws, "RQ-1", ASK)
    run_id = run(ws, "RQ-1", code=8)["run_id"]
    holder = sleeper(ws)
    call(ws, "lock", "acquire", "request", "RQ-1", "--pid", holder.pid)
    proc = spawn(ws, "answer", run_id, "--yes", "--wait")
    ws.until(lambda: call(ws, "runs", "show", run_id).json["questions"] == [], "the answer is recorded")
    holder.kill()
    holder.wait()
    eq(last_document(ws.finish(proc).expect(0))["status"], "DONE", "status")


@test("who runs a request whose question was just answered does not overtake the answer")
def _(ws):
    add(ws, "RQ-1", ASK)
    first = run(ws, "RQ-1", code=8)["run_id"]
    proc = held(ws, "runners", 1, "answer", first, "--yes")
    eq(run(ws, "RQ-1", "--on-conflict", "attach")["run_id"], first, "which run it is")
    let_go(ws, proc)
    eq((trace(ws), [one["run_id"] for one in runs_of(ws)]), (["true"], [first]), "the answer that was used, and the runs")


@test("two answers to two questions at once: both are recorded, used, and told so", slow=True)
def _(ws):
    ask = 'a=$(tasuki task ask "{0}?" --type text); test -n "$a" || exit 0; echo {0}$a >> trace; echo > up; while ! test -e go; do sleep 0.01; done'
    (ws.path / "f.yaml").write_text(json.dumps({"flow": "a | b", "tasks": {n: {"run": ask.format(n)} for n in "ab"}}))
    (ws.path / ".aiflow/requests/RQ-1.yaml").write_text("title: x\nflow: f.yaml\n")
    run_id = run(ws, "RQ-1", code=8)["run_id"]
    first = held(ws, "runners", 1, "answer", run_id, "1", "--task", "a")
    call(ws, "answer", run_id, "2", "--task", "b")
    ws.until_file("up")
    eq(let_go(ws, first).json["status"], "RUNNING", "what the first is told")
    go(ws)
    ws.until(lambda: status(ws, run_id) == "DONE", "the run ends")
    eq(sorted(trace(ws)), ["a1", "b2"], "the answers that were used")


@test("a request that may run and whose lock cannot be had lets the others pass", slow=True)
def _(ws):
    # An interrupted run whose lock is held by nobody who executes it: the book says that it may run.
    run_id = interrupted(ws)
    resumer = held(ws, "life", 2, "resume", run_id)
    add(ws, "RQ-2", "echo 2 >> trace")
    queue_ = spawn(ws, "queue", "run")
    ws.until(lambda: "2" in trace(ws), "the other one is run")
    let_go(ws, resumer)
    ws.finish(queue_)
    eq((sorted(trace(ws)), status(ws, run_id)), (["2", run_id], "DONE"), "executions")


# -- following ----------------------------------------------------------------------------------------------


@test("who attaches between the lock and the run gets that run's outcome")
def _(ws):
    add(ws, "RQ-1", TRACE)
    starter = held(ws, LOCKED, 1, "request", "run", "RQ-1")
    follower = spawn(ws, "request", "run", "RQ-1", "--on-conflict", "attach")
    follows(ws, follower)
    first = last_document(let_go(ws, starter))
    second = last_document(ws.finish(follower).expect(0))
    eq((second["run_id"], second["status"], second.get("attached")), (first["run_id"], "DONE", True), "the outcome")
    eq(len(runs_of(ws, "RQ-1")), 1, "runs")


@test("who attaches to a run that is just gone on with gets its end, not the stage from before")
def _(ws):
    run_id = interrupted(ws)
    # resume looks once before it takes the byte; by then it has the lock.
    resumer = held(ws, "life", 2, "resume", run_id)
    follower = spawn(ws, "request", "run", "RQ-1", "--on-conflict", "attach")
    follows(ws, follower)
    let_go(ws, resumer)
    second = last_document(ws.finish(follower).expect(0))
    eq((second["run_id"], second["status"]), (run_id, "DONE"), "the outcome")


@test("who attaches to a run that never comes to be runs the request itself")
def _(ws):
    add(ws, "RQ-1", TRACE)
    starter = held(ws, LOCKED, 1, "request", "run", "RQ-1")
    follower = spawn(ws, "request", "run", "RQ-1", "--on-conflict", "attach")
    follows(ws, follower)
    starter.kill()
    starter.wait()
    stage = last_document(ws.finish(follower).expect(0))
    eq((stage["status"], "attached" in stage, len(trace(ws))), ("DONE", False, 1), "the outcome")


@test("forty starts of a very short run at once, all attaching: each gets DONE, and nothing runs beside another")
def _(ws):
    add(ws, "RQ-1", "mkdir busy && rmdir busy")
    procs = [spawn(ws, "request", "run", "RQ-1", "--on-conflict", "attach") for _ in range(40)]
    eq({last_document(ws.finish(proc).expect(0))["status"] for proc in procs}, {"DONE"}, "outcomes")
    no_locks(ws)


@test("who follows a run is not taken for its runner")
def _(ws):
    run_id = interrupted(ws)
    with open(ws.path / ".aiflow/runs" / run_id / "life", "r+b") as life:
        fcntl.lockf(life, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 1)
        eq(status(ws, run_id), "INTERRUPTED", "status")


@test("a lock without a run of ours is a refusal for attach and replace, with the holder, at once; they are not proposed")
def _(ws):
    add(ws, "RQ-1", "true")
    call(ws, "lock", "acquire", "request", "RQ-1", "--pid", sleeper(ws).pid)
    for rule in ("fail", "attach", "replace"):
        error = refused(ws, "RQ-1", "--on-conflict", rule, "--yes")["error"]
        eq(error["next"], ["tasuki wait lock request/RQ-1", "tasuki lock check request RQ-1",
                           "tasuki lock acquire request RQ-1 --force"], "what can be done")
    add(ws, "RQ-2", "true")
    foreign_lock(ws, "request", "RQ-2", sleeper(ws).pid, created=0, expires=600, run_id="RUN-foreign")
    for rule in ("attach", "replace"):
        error = refused(ws, "RQ-2", "--on-conflict", rule, "--yes")["error"]
        eq((error["context"]["run_id"], error["next"]),
           ("RUN-foreign", ["tasuki wait lock request/RQ-2", "tasuki lock check request RQ-2",
                            "tasuki lock acquire request RQ-2 --force"]), "the holder, and what can be done")


# -- stopping -----------------------------------------------------------------------------------------------


@test("a stop that comes between two requests, at once or not, lets no further one begin")
def _(ws):
    with_flow(ws, "RQ-1")
    for args in ([], ["--now"]):
        proc = held(ws, "RQ-1.flow", 1, "queue", "run")
        call(ws, "queue", "stop", *args)
        answer = last_document(let_go(ws, proc))
        eq((answer["reason"], answer["ran"], trace(ws)), ("STOPPED", [], []), "the queue")


@test("a stop at once that comes just before a run begins cancels that run")
def _(ws):
    add(ws, "RQ-1", TRACE)
    proc = held(ws, LOCKED, 1, "queue", "run")
    call(ws, "queue", "stop", "--now")
    answer = last_document(let_go(ws, proc))
    eq((answer["reason"], ran(answer), trace(ws)), ("STOPPED", [("RQ-1", "CANCELLED")], []), "the queue")


@test("a queue lock that was taken by hand cannot be told to stop")
def _(ws):
    call(ws, "lock", "acquire", "queue", "--pid", sleeper(ws).pid)
    call(ws, "queue", "stop", code=4, reason="QUEUE_IN_PROGRESS")


# -- locks and signals --------------------------------------------------------------------------------------


@test("a lock that is forced away while a task runs is noticed while it runs; what is complete is DONE all the same", slow=True)
def _(ws):
    proc, _ = begin(ws, "RQ-1")
    force = ("lock", "acquire", "request", "RQ-1", "--force", "--yes", "--pid", os.getpid())
    ws.tasuki(*force).expect(0)
    stage = last_document(ws.finish(proc).expect(4))
    eq((stage["status"], stage["reason_code"], trace(ws)), ("CANCELLED", "LOCK_LOST", []), "a run that was cut short")
    ws.lock_path("request", "RQ-1").unlink()
    (ws.path / "up").unlink()
    proc, _ = begin(ws, "RQ-1")
    task = int((ws.path / "up").read_text())
    os.kill(proc.pid, signal.SIGSTOP)
    ws.tasuki(*force).expect(0)
    go(ws)
    ws.until(lambda: state_of(task) == "Z", "the task ends")
    eq(last_document(let_go(ws, proc))["status"], "DONE", "a run with nothing left to do")
    ws.lock_path("request", "RQ-1").unlink()


@test("a run under nohup is not ended by SIGHUP; cancel --now ends it")
def _(ws):
    for ending in ("go", "cancel"):
        add(ws, "RQ-1", GATE)
        proc = ws.spawn_command(["sh", "-c", 'trap "" HUP; exec "$@"', "sh", ws.binary, "--json", "request", "run", "RQ-1"], env=with_tool(ws))
        ws.until_file("up")
        os.kill(proc.pid, signal.SIGHUP)
        if ending == "go":
            go(ws)
            eq(last_document(ws.finish(proc).expect(0))["status"], "DONE", "status")
            (ws.path / "go").unlink()
            (ws.path / "up").unlink()
        else:
            call(ws, "runs", "cancel", ws.read_lock("request", "RQ-1")["run_id"], "--now")
            eq(last_document(ws.finish(proc).expect(7))["status"], "CANCELLED", "status")


@test("an answer does not end what a completed task left running on purpose; going on after a crash does")
def _(ws):
    daemon = "setsid sh -c 'echo $$ > daemon; exec sleep 600' < /dev/null > /dev/null 2>&1 & while ! test -s daemon; do sleep 0.01; done"
    (ws.path / "f.yaml").write_text(json.dumps({"flow": "a >> b", "tasks": {"a": {"run": daemon}, "b": {"run": ASK + "; " + GATE}}}))
    (ws.path / ".aiflow/requests/RQ-1.yaml").write_text("title: x\nflow: f.yaml\n")
    run_id = run(ws, "RQ-1", code=8)["run_id"]
    pid = int((ws.path / "daemon").read_text())
    ws.kill_at_close(pid)
    call(ws, "answer", run_id, "--yes")
    ws.until_file("up")
    assert ws.alive(pid), "what was left on purpose is gone"
    kill(ws, call(ws, "runs", "show", run_id).json["runner"]["pid"])
    go(ws)
    call(ws, "resume", run_id)
    assert not ws.alive(pid), "it lives on after a crash"


@test("max_runs holds for resume and answer, too; the answer is kept")
def _(ws):
    add(ws, "RQ-2", ASK)
    asked = run(ws, "RQ-2", code=8)["run_id"]
    (ws.path / ".aiflow/config.yaml").write_text("max_runs: 1\n")
    proc, _ = begin(ws, "RQ-1")
    error = call(ws, "answer", asked, "--yes", code=4, reason="CONFLICT").json["error"]
    eq((error["context"]["answer"], error["next"][-1]), ("recorded", f"tasuki resume {asked}"), "what it says")
    call(ws, "resume", asked, code=4, reason="CONFLICT")
    go(ws)
    ws.finish(proc).expect(0)
    call(ws, "resume", asked)
    eq(status(ws, asked), "DONE", "status")


@test("an answer for a task that asks nothing is refused as that, whatever kind of answer it is")
def _(ws):
    add(ws, "RQ-1", ASK)
    run_id = run(ws, "RQ-1", code=8)["run_id"]
    for answer in ("--yes", "text"):
        call(ws, "answer", run_id, answer, "--task", "nope", code=5, reason="NOT_FOUND")


@test("the documents of a run and of a queue are one to a line")
def _(ws):
    add(ws, "RQ-1", "true")
    for args in (["request", "run", "RQ-1"], ["queue", "run"]):
        for line in call(ws, *args).out.splitlines():
            assert isinstance(json.loads(line), dict), line


@test("a runner that cannot be started apart is a matter of the machine (exit 3), not of a process that could be looked up")
def _(ws):
    add(ws, "RQ-1", "true")
    result = ws.run(["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", ws.binary, "--json", "request", "run", "RQ-1", "--detach"])
    result.expect(3, "STORAGE_FULL")
    assert not any("proc status" in command for command in result.error["next"]), result.error


@test("a queue that could not begin a run names no run; queue next names who has the lock")
def _(ws):
    add(ws, "RQ-1", "true")
    run(ws, "RQ-1")
    holder = sleeper(ws)
    call(ws, "lock", "acquire", "request", "RQ-1", "--pid", holder.pid)
    other = call(ws, "queue", "next").json["others"][0]
    eq((other["reason"], other["detail"]), ("REQUEST_LOCKED", f"pid {holder.pid}"), "what is in the way")


@test("a run that is removed between the look at the list and the look at the run is no run; the one before it is the latest")
def _(ws):
    with_flow(ws, "RQ-1", "exit 3")
    runs = [last_document(ws.tasuki("--json", "request", "run", "RQ-1", "--new").expect(7))["run_id"] for _ in range(3)]
    for run, words, seen in ((runs[2], None, ("ready", None)), (runs[1], "nonsense", ("failed", runs[0]))):
        if words:  # a note that says nothing: the newest run is searched
            (ws.path / ".aiflow/runs/.requests/RQ-1").write_text(words)
        look = held(ws, f"runs/{run}", 1, "request", "show", "RQ-1")
        shutil.rmtree(ws.path / ".aiflow/runs" / run)
        found = let_go(ws, look).json
        eq((found["status"], (found["latest_run"] or {}).get("run_id")), seen, "what is shown")


main(__name__)
