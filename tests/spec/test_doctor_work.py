"""doctor (spec 7; seed 000, 5) about what runs and what is held: locks, runs, processes, owners and requests."""

import json
import os
import shlex
import shutil
import signal
import socket

from common import acquire_from_a_script, dead_pid, edit_lock, foreign_lock, foreign_sprint, make_old, now, sleeper
from doctor_common import check, defect, differences, examine, problems, started, state, tree, type_in
from flows import only_run, run_flow, spawn_flow, with_tool
from harness.harness import eq, main, test
from harness.workspace import children_of

SLEEPING = "tasks: {a: {run: 'true'}, b: {run: 'sleep 1000', needs: [a]}}\n"


# -- locks ---------------------------------------------------------------------------------------------------------

@test("seed 000, 5.1 a lock whose expires_at is past and whose pid does not live is stale, and full recovers it")
def _(ws):
    for kind, id in (("request", "RQ-1"), ("queue", None), ("name", "deploy")):
        foreign_lock(ws, kind, id, dead_pid(), created=-4000, expires=-100)
    report = examine(ws)
    eq(sorted((r["kind"], r["id"]) for r in report["recovered"]), [("name", "deploy"), ("queue", None), ("request", "RQ-1")])
    eq(check(report, "locks")["status"], "PASS", "status")
    eq(len(check(report, "locks")["fixed"]), 3, "lines of the report")
    events = ws.events("LOCK_STALE_RECOVERED")
    eq(sorted(e["data"]["kind"] for e in events), ["name", "queue", "request"], "events")
    assert all(e["data"]["old_holder"]["how"] == "process is gone" for e in events), events
    eq(list(state(ws, "locks").glob("*.lock.json")), [], "lock files")
    eq(examine(ws)["recovered"], [], "the second time")


@test("seed 000, 5.1 a lock whose pid lives is not recovered, although it has expired")
def _(ws):
    foreign_lock(ws, "request", "RQ-1", sleeper(ws).pid, created=0, expires=-100)
    before = tree(ws)
    for args in ((), ("--quick",), ("--fix",)):
        report = examine(ws, *args)
        eq((report["recovered"], report["status"]), ([], "PASS"), f"with {args}")
    eq(differences(before, tree(ws)), [], "what has changed")


@test("seed 000, 5.2 a lock without a pid is recovered once it has expired, not before")
def _(ws):
    foreign_lock(ws, "request", "RQ-1", None, created=-4000, expires=-100)
    foreign_lock(ws, "request", "RQ-2", None)
    eq([r["id"] for r in examine(ws)["recovered"]], ["RQ-1"])


@test("seed 000, 5.2 quick recovers the dead locks of requests and of the queue, no others")
def _(ws):
    for kind, id in (("request", "RQ-1"), ("queue", None), ("name", "deploy")):
        foreign_lock(ws, kind, id, dead_pid(), created=-4000, expires=-100)
    foreign_lock(ws, "request", "RQ-2", dead_pid())  # dead, and not expired
    report = examine(ws, "--quick")
    eq(sorted(r["kind"] for r in report["recovered"]), ["queue", "request"])
    eq(report["mode"], "quick", "mode")
    eq(len(ws.events("LOCK_STALE_RECOVERED")), 2, "events")
    eq({p.name for p in state(ws, "locks").glob("*.lock.json")}, {"name.deploy.lock.json", "request.RQ-2.lock.json"})


@test("seed 000, 5.2 before a run the dead locks of the request and of the queue are recovered, nobody else's")
def _(ws):
    state(ws, "requests/RQ-1.yaml").write_text("title: one\nrun: 'true'\nstatus: ready\n")
    for kind, id in (("request", "RQ-1"), ("request", "RQ-2"), ("queue", None), ("name", "deploy")):
        foreign_lock(ws, kind, id, dead_pid(), created=-4000, expires=-100)
    ws.tasuki("request", "run", "RQ-1", "--quiet").expect(0)
    eq(sorted((e["data"]["kind"], e["data"]["id"]) for e in ws.events("LOCK_STALE_RECOVERED")), [("queue", None), ("request", "RQ-1")])
    eq({p.name for p in state(ws, "locks").glob("*.lock.json")}, {"name.deploy.lock.json", "request.RQ-2.lock.json"})


@test("a run is refused with DOCTOR_FAILED, the check, the reason and the command, when it cannot work")
def _(ws):
    state(ws, "requests/RQ-1.yaml").write_text("title: one\nrun: 'true'\nstatus: ready\n")
    for path in state(ws).glob("state.db*"):
        path.unlink()
    state(ws, "state.db").write_bytes(b"garbage" * 1000)
    state(ws, "state.db").chmod(0o600)
    error = ws.tasuki("request", "run", "RQ-1", "--json").expect(3, "DOCTOR_FAILED").error
    assert "state.db is damaged" in error["message"] and error["next"][-1] == "tasuki doctor", error
    eq(list(state(ws, "runs").glob("RUN-*")), [], "runs")
    type_in(ws, error["next"][0]).expect(0)
    ws.tasuki("request", "run", "RQ-1", "--quiet").expect(0)


@test("a lock of ours is recovered as soon as its holder is dead, whatever its TTL")
def _(ws):
    holder = sleeper(ws)
    ws.tasuki("lock", "acquire", "request", "RQ-1", "--pid", holder.pid, "--run", "RUN-7").expect(0)
    eq(examine(ws)["recovered"], [], "while it lives")
    holder.kill()
    holder.wait()
    recovered = examine(ws, "--quick")["recovered"]
    eq([(r["id"], r["state"], r["holder"]["run_id"], r["holder"]["alive"]) for r in recovered], [("RQ-1", "stale", "RUN-7", False)])


@test("a file that is no lock is left alone while somebody may be writing it, and recovered after that")
def _(ws):
    path = ws.write_lock("request", "RQ-1", '{"version": "1')
    eq(examine(ws)["recovered"], [], "while it is fresh")
    make_old(path)
    eq([r["id"] for r in examine(ws)["recovered"]], ["RQ-1"])


@defect("a lock whose guessed holder is dead and that has not expired is found", "locks", "WARN", "is dead (the process is gone)", "command")
def _(ws):
    acquire_from_a_script(ws, "lock", "acquire", "name", "a").expect(0)


@defect("another tool's lock whose holder is dead and that has not expired is found", "locks", "WARN", "it can be taken in")
def _(ws):
    foreign_lock(ws, "request", "RQ-1", dead_pid())
    ws.tasuki("lock", "check", "request", "RQ-1")


@defect("a lock that is no file is found", "locks", "FAIL", "name.a.lock.json")
def _(ws):
    state(ws, "locks/name.a.lock.json").mkdir()


@defect("a file whose name is no lock's is found", "locks", "WARN", "is not the name of a lock")
def _(ws):
    state(ws, "locks/reqest.RQ-1.lock.json").write_text("{}")


@test("what a takeover that was killed has left beside a lock is put away, and said")
def _(ws):
    for at in range(1, 200):
        foreign_lock(ws, "name", "a", dead_pid(), created=-4000, expires=-100)
        ws.fault("lock", "acquire", "name", "a", "--pid", os.getpid(), at=at, mode="kill")
        left = list(state(ws, "locks").glob(".tsk-*"))
        if left:
            break
    assert left, "no call of an acquisition leaves a private name"
    found = check(examine(ws), "locks")
    assert any(left[0].name in line for line in found["fixed"]), found
    eq(list(state(ws, "locks").glob(".tsk-*")), [], "private names")


@defect("a sprint whose process is dead is a warning", "sprint", "WARN", "is a zombie")
def _(ws):
    foreign_sprint(ws, dead_pid())


@defect("a sprint that is older than 24 hours is a warning, and its living holder is only looked at", "sprint", "WARN",
        "older than 24 hours", mends="look",
        changes=[".sprint-running.tmp"])
def _(ws):
    ws.tasuki("sprint", "acquire", "--session", "s", "--epic", "e", "--pid", sleeper(ws).pid).expect(0)
    edit_lock(ws, "sprint", None, expires_boot_ms=-3600 * 1000)


@test("no sprint is PASS, an active one is information")
def _(ws):
    eq(check(examine(ws), "sprint")["summary"], "none is running")
    foreign_sprint(ws, sleeper(ws).pid, started=0)
    found = check(examine(ws), "sprint")
    assert found["status"] == "PASS" and "is active" in found["summary"], found


@test("the directory that a dead sprint has left is put away, and said")
def _(ws):
    (ws.path / ".sprint-running.tmp").mkdir()
    found = check(examine(ws), "sprint")
    eq(found["fixed"], [".sprint-running.tmp was removed"])
    assert not (ws.path / ".sprint-running.tmp").exists()


# -- runs ----------------------------------------------------------------------------------------------------------

def interrupted(ws, text=SLEEPING, up=None):
    """A run that was killed; up: the file that its task makes first."""
    proc = spawn_flow(ws, text)
    ws.until(lambda: list(state(ws, "runs").glob("RUN-*/stage.json")) and b'"running"' in
             next(state(ws, "runs").glob("RUN-*/stage.json")).read_bytes(), "the second task runs")
    if up:
        ws.until_file(ws.path / up)
    own = children_of(proc.pid)
    proc.kill()
    proc.wait()
    ws.until(lambda: not any(ws.alive(pid) for pid in own), "the runner's own children, which die with it, are gone")
    run = only_run(ws)
    flow = state(ws, "runs", run, "flow.yaml")
    flow.write_text(flow.read_text().replace("sleep 1000", "true"))
    return run


@defect("a run whose runner is dead is found, and resumed by the command", "runs", "WARN", "its runner is dead (1 of 2 done)")
def _(ws):
    interrupted(ws)


@test("processes that a killed runner has left are found with their pids, and ended by the command")
def _(ws):
    run = interrupted(ws, "tasks: {a: {run: 'true'}, b: {run: 'sleep 1000 & echo $! > up; wait', needs: [a]}}\n", up="up")
    found = check(examine(ws), "runs")
    line = [e for e in found["evidence"] if "still live" in e]
    assert line, found
    pids = [int(p) for p in line[0].split("pid ")[1].split(")")[0].split(", ")]
    assert pids and all(ws.alive(p) for p in pids), line
    type_in(ws, f"tasuki runs cancel {run}").expect(0)
    ws.until(lambda: not any(ws.alive(p) for p in pids), "they end")
    eq(problems(examine(ws)), {}, "problems")


@defect("a run that was never begun is found; --fix removes it", "runs", "WARN", "is empty", "both")
def _(ws):
    empty = state(ws, "runs/RUN-20260101T000000-abcdef")
    empty.mkdir()
    make_old(empty, 120)


@defect("a damaged journal is found, with the place", "journals", "FAIL", "is damaged at byte")
def _(ws):
    run_flow(ws, "tasks: {a: {run: 'true'}, b: {run: 'true', needs: [a]}}\n")
    path = state(ws, "runs", only_run(ws), "journal")
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], b"\x00garbage", *lines[2:]]))


@test("a torn end of a journal is evidence, not a problem of its own: resume cuts it off")
def _(ws):
    run = interrupted(ws)
    path = state(ws, "runs", run, "journal")
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b'{"t":17')
    found = check(examine(ws), "journals")
    eq((found["status"], found["evidence"]), ("PASS", [f"{run}: the end of its journal is torn (from byte {size}); resume cuts it off"]))
    ws.tasuki("resume", run, "--json", env=with_tool(ws)).expect(0)


@defect("a stage.json that is none, without a journal that it could be made from, is put aside by the command", "journals", "WARN",
        "stage.json cannot be read")
def _(ws):
    run = run_flow(ws, "tasks: {a: 'true'}\n")["run_id"]
    state(ws, "runs", run, "journal").unlink()
    state(ws, "runs", run, "stage.json").write_text("{")
    refused = ws.tasuki("runs", "show", run, "--json").expect(3, "ENVIRONMENT").json["error"]
    eq((refused["message"], refused["next"]), (f"{state(ws, 'runs', run)}/stage.json is damaged", ["tasuki doctor"]), "what others say")


@defect("what is no directory in the place of a run is found, and put aside by the command", "runs", "WARN", "Not a directory")
def _(ws):
    state(ws, "runs").mkdir(exist_ok=True)
    state(ws, "runs/RUN-20260207T223000-1a2b3c").symlink_to(ws.path)


@defect("a stage.json that is none is found, and made anew by the command", "journals", "WARN", "stage.json cannot be read")
def _(ws):
    run_flow(ws, "tasks: {a: {run: 'true'}}\n")
    state(ws, "runs", only_run(ws), "stage.json").write_text('{"run_id": "RU')


# -- processes -----------------------------------------------------------------------------------------------------

def kill_holder(ws, id="web"):
    status = json.loads(state(ws, "processes", id, "status.json").read_text())
    pid = status["holder"]["pid"]
    os.kill(pid, signal.SIGKILL)
    ws.until(lambda: not ws.alive(pid), "the holder is gone")


@defect("a process without its holder is found; --fix and the command give it one", "processes", "WARN", "runs without its holder")
def _(ws):
    started(ws)
    kill_holder(ws)


@test("--fix gives a process without a holder a new one, and the process lives on")
def _(ws):
    record, _ = started(ws)
    kill_holder(ws)
    found = check(examine(ws, "--fix"), "processes")
    eq((found["status"], found["fixed"]), ("PASS", ["web was fixed (now Running)"]))
    eq([e["data"]["check"] for e in ws.events("doctor.fixed")], ["processes"], "events")
    assert ws.alive(record["pid"]), "the process was ended"
    eq(problems(examine(ws)), {}, "problems")


@defect("a process whose end nobody saw is found", "processes", "WARN", "its exit status is unknown")
def _(ws):
    record, _ = started(ws)
    kill_holder(ws)
    os.kill(record["pid"], signal.SIGKILL)
    ws.until(lambda: not ws.alive(record["pid"]), "it is gone")


@defect("files of a process that no record knows are found", "process_dirs", "WARN", "processes/old has no record")
def _(ws):
    state(ws, "processes/old").mkdir()
    state(ws, "processes/old/status.json").write_text("{}")


@defect("what a removal that was cut short has left is found; --fix removes it", "process_dirs", "WARN", "has no record", "both")
def _(ws):
    state(ws, "processes/old/log").mkdir(parents=True)


@test("--fix keeps the files of an unknown process that has run: they may be all that is left of it")
def _(ws):
    state(ws, "processes/old").mkdir()
    state(ws, "processes/old/status.json").write_text("{}")
    before = tree(ws)
    eq(problems(examine(ws, "--fix")), {"process_dirs": "WARN"})
    eq(differences(before, tree(ws)), [], "what has changed")


@test("a running process whose files were removed is a FAIL, and ended in order by the command")
def _(ws):
    record, status = started(ws)
    shutil.rmtree(state(ws, "processes/web"))
    found = check(examine(ws), "processes")
    eq(found["status"], "FAIL", "status")
    for command in found["fix"]:
        type_in(ws, command).expect(0)
    for pid in (record["pid"], status["holder"]["pid"]):  # doctor looks for the holder, which ends after its process
        ws.until(lambda pid=pid: not ws.alive(pid), f"{pid} ends")
    eq(check(examine(ws), "processes")["status"], "PASS", "status")


@defect("temporary files of commands that died are found; --fix removes them", "leftovers", "WARN", "was left by a command", "both")
def _(ws):
    for folder in ("", "requests"):
        path = state(ws, folder, ".tsk-0123456789abcdef")
        path.write_text("half")
        make_old(path, 3600)
    state(ws, ".tsk-fedcba9876543210").write_text("being written")


# -- owners and requests ---------------------------------------------------------------------------------------------

@defect("a workflow whose owner is dead is found, and claimed by the command", "owners", "WARN", "nobody drives it until it is claimed")
def _(ws):
    owner = f"{socket.gethostname()}-{dead_pid()}-{int(now().timestamp() * 1000)}"
    ws.tasuki("own", "claim", "wf-1", "--instance", owner).expect(0)


@defect("a broken request is found, with line and column, and does not hide the others", "requests", "WARN",
        ".aiflow/requests/RQ-2.yaml:2:", "look")
def _(ws):
    state(ws, "requests/RQ-1.yaml").write_text("title: one\nrun: 'true'\n")
    state(ws, "requests/RQ-2.yaml").write_text("title: two\npriority: urgent\nrun: 'true'\n")


@defect("what stands in the place of a request's file is said, and copied or put aside by the command", "requests", "WARN",
        ".aiflow/requests/RQ-1.yaml:1:1: it is a symbolic link")
def _(ws):
    (ws.path / "target").write_text("title: one\nrun: 'true'\n")
    state(ws, "requests/RQ-1.yaml").symlink_to(ws.path / "target")
    state(ws, "requests/RQ-2.yaml").mkdir()
    os.mkfifo(state(ws, "requests/RQ-3.yaml"))


@defect("a request's file with a name that cannot be an id is found under that name, and renamed by the command", "requests", "WARN",
        ".aiflow/requests/RQ-1.yml:1:1: ")
def _(ws):
    for name in ("RQ-1.yml", "RQ-a  b.yaml", "lower.yaml", "RQ-" + "x" * 140 + ".yaml"):
        state(ws, "requests", name).write_text("title: one\nrun: 'true'\n")


@defect("requests that wait for each other are found", "requests", "WARN", "depends on itself", "look")
def _(ws):
    state(ws, "requests/RQ-1.yaml").write_text("title: one\nrun: 'true'\nstatus: ready\ndepends_on: [RQ-2]\n")
    state(ws, "requests/RQ-2.yaml").write_text("title: two\nrun: 'true'\nstatus: ready\ndepends_on: [RQ-1]\n")


@defect("a request that waits for one that is not there is found", "requests", "WARN", "RQ-9", "look")
def _(ws):
    state(ws, "requests/RQ-1.yaml").write_text("title: one\nrun: 'true'\nstatus: ready\ndepends_on: [RQ-9]\n")


@test("the name that a misnamed request gets is a good id: one dash for what an id cannot have, and the prefix once")
def _(ws):
    state(ws, "requests").mkdir(exist_ok=True)
    named = {"RQ-a  b!!.yaml": "RQ-a-b-.yaml", "fix it.yaml": "RQ-fix-it.yaml", "RQ-plain.yml": "RQ-plain.yaml"}
    for name in named:
        state(ws, "requests", name).write_text("title: one\nrun: 'true'\n")
    words = [shlex.split(fix) for fix in check(examine(ws), "requests")["fix"]]
    eq({old.rpartition("/")[2]: new.rpartition("/")[2] for _, _, old, new in words}, named, "the new names")


main(__name__)
