"""doctor (spec 7; seed 000, 5): broken workspaces are found with evidence and a command that mends them; nothing else changes."""

import json
import os
import pathlib
import random
import shlex
import shutil
import signal
import socket
import socketserver
import sqlite3
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import Agent  # noqa: E402
from common import (acquire_from_a_script, dead_pid, edit_lock, foreign_lock, foreign_sprint, make_old, need_namespace, need_root,
                    now, run_as_nobody, sleeper, unshare)  # noqa: E402
from flows import only_run, run_flow, spawn_flow, with_tool  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from harness.workspace import children_of  # noqa: E402

SLEEPING = "tasks: {a: {run: 'true'}, b: {run: 'sleep 1000', needs: [a]}}\n"
# The protocol's own bookkeeping: any command that looks at a lock or the database writes there.
BOOKKEEPING = ("state.db-shm", "state.db-wal", "locks/.guard/", "events.lock")


def examine(ws, *args, code=None, **options):
    result = ws.tasuki("doctor", *args, "--json", **options)
    report = result.json
    eq(result.code, (3 if report["status"] == "FAIL" else 0) if code is None else code, f"exit code\n{result}")
    return report


def check(report, name):
    found = [c for c in report["checks"] if c["name"] == name]
    assert len(found) == 1, f"{name} is not among {[c['name'] for c in report['checks']]}"
    return found[0]


def status_of(report, name):
    """PASS also when the check has nothing left to look at."""
    return next((c["status"] for c in report["checks"] if c["name"] == name), "PASS")


def problems(report):
    return {c["name"]: c["status"] for c in report["checks"] if c["status"] != "PASS"}


def state(ws, *parts):
    return ws.path.joinpath(".aiflow", *parts)


def tree(ws):
    """Every file below the workspace: type, mode and bytes."""
    found = {}
    for folder, dirs, files in os.walk(ws.path):
        for name in dirs + files:
            path = pathlib.Path(folder, name)
            short = str(path.relative_to(ws.path / ".aiflow")) if ".aiflow" in path.parts else name
            if any(short.startswith(b) or f"/{b}" in short for b in BOOKKEEPING):
                continue
            st = path.lstat()
            content = None
            if path.is_symlink():
                content = os.readlink(path)
            elif path.is_file():
                content = path.read_bytes()
            found[str(path.relative_to(ws.path))] = (st.st_mode, st.st_uid, content)
    return found


def differences(before, after):
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def type_in(ws, command):
    """A fixing command, as it stands. It names nothing outside the workspace."""
    outside = [w for w in shlex.split(command) if w.startswith("/") and not w.startswith(f"{ws.path}/")]
    eq(outside, [], f"places outside the workspace in {command}")
    return ws.run(["sh", "-c", command], env={**with_tool(ws), "EDITOR": "true"})


def plant(ws):
    """One file of each kind that is the user's."""
    for place, text in {"notes.txt": "mine\n", ".aiflow/config.yaml": "max_runs: 2\n", ".aiflow/flows/mine.yaml": "tasks: {a: 'true'}\n",
                        ".aiflow/requests/RQ-mine.yaml": "title: mine\nstatus: draft\nrun: 'true'\n"}.items():
        (ws.path / place).parent.mkdir(exist_ok=True)
        (ws.path / place).write_text(text)


def defect(rule, name, status, says, mends="command", changes=()):
    """Registers a test: `prepare` breaks the workspace in one way; doctor finds it with evidence that has the words `says`,
    changes nothing but `changes`, and gives a command. mends="command": typed as it stands it makes the check PASS;
    "--fix": so does doctor --fix (and says so); "both"; "look": the command only helps to look; None: there is no command."""

    def register(prepare):
        def body(ws):
            plant(ws)
            prepare(ws)
            before = tree(ws)
            report = examine(ws)
            found = check(report, name)
            eq(found["status"], status, f"status of {found}")
            assert any(says in line for line in found["evidence"]), f"{says!r} is not in {found['evidence']}"
            eq(differences(before, tree(ws)), sorted(changes), "what has changed")
            eq(bool(found.get("fix")), mends is not None, f"a command in {found}")
            mend(ws, name, found, mends)

        test(rule)(body)
        return prepare

    return register


def mend(ws, name, found, mends):
    if mends in ("--fix", "both"):
        saved = ws.base / "saved"
        shutil.copytree(ws.path, saved, symlinks=True, ignore=shutil.ignore_patterns("*.sock"))
        before = users(tree(ws))
        fixed = check(examine(ws, "--fix"), name)
        eq(differences(before, users(tree(ws))), [], "what --fix has changed of the user's")
        assert fixed.get("fixed"), f"--fix has mended nothing: {fixed}"
        eq(fixed["status"], "PASS", "status with --fix")
        eq(status_of(examine(ws), name), "PASS", "status after --fix")
        if mends == "both" and not any("doctor --fix" in c for c in found["fix"]):
            undo(ws, saved)
    if mends in ("command", "both"):
        for command in found["fix"]:
            type_in(ws, command)
        eq(status_of(examine(ws), name), "PASS", f"status after {found['fix']}")


def users(found):
    """Of a tree what its user has made: that is never doctor's to change."""
    kinds = (".aiflow/config.yaml", ".aiflow/requests/", ".aiflow/flows/")
    return {name: what for name, what in found.items() if (not name.startswith(".aiflow") or name.startswith(kinds)) and "/." not in name}


def undo(ws, saved):
    shutil.rmtree(ws.path)
    shutil.copytree(saved, ws.path, symlinks=True)


# -- a healthy workspace -------------------------------------------------------------------------------------------

@test("a healthy workspace passes without a warning, and nothing in it changes")
def _(ws):
    ws.run(["git", "init", "-q"]).expect(0)
    run_flow(ws, "tasks: {a: {run: 'true'}}\n")
    shutil.copy(ws.path / "flow.yaml", state(ws, "flows/flow.yaml"))
    state(ws, "config.yaml").write_text("max_runs: 2\n")
    ws.tasuki("proc", "create", "web", "--", "sleep", "1000").expect(0)
    ws.tasuki("proc", "start", "web").expect(0)
    ws.tasuki("lock", "acquire", "name", "deploy", "--pid", os.getpid()).expect(0)
    foreign_lock(ws, "request", "RQ-1", sleeper(ws).pid, created=0)
    examine(ws)  # the guard of another tool's lock is made by the first look
    before = tree(ws)
    report = examine(ws, "--strict")
    eq((report["status"], report["mode"], problems(report), report["recovered"]), ("PASS", "full", {}, []))
    eq(differences(before, tree(ws)), [], "what has changed")
    fixed = examine(ws, "--fix")
    eq((fixed["status"], [c for c in fixed["checks"] if "fixed" in c]), ("PASS", []))
    eq(differences(before, tree(ws)), [], "what --fix has changed")
    ws.tasuki("proc", "remove", "web", "--force").expect(0)


@test("the report has its keys; a person gets a line per check and the commands at the end, in three languages")
def _(ws):
    state(ws, "runs").chmod(0o755)
    report = examine(ws)
    eq(set(report), {"status", "mode", "checks", "recovered"}, "keys")
    for one in report["checks"]:
        assert {"name", "title", "status", "summary", "evidence"} <= set(one), one
        assert set(one) <= {"name", "title", "status", "summary", "evidence", "fix", "fixed"}, one
        assert one["summary"], one
    for lang, word in (("en", "To mend it:"), ("ja", "直すには:"), ("zh", "修复方法：")):
        out = ws.tasuki("--lang", lang, "doctor").expect(0).out
        lines = out.splitlines()
        eq(lines[0], "WARN", "the first line")
        assert word in lines and lines[-1].strip().startswith("chmod 700 "), out
        eq(sum(line.startswith(("  PASS  ", "  WARN  ")) for line in lines), len(report["checks"]), "lines of checks")


@test("exit 0 for a warning, 1 with --strict, 3 for a FAIL whatever the options")
def _(ws):
    state(ws, "runs").chmod(0o755)
    examine(ws, code=0)
    examine(ws, "--strict", code=1)
    state(ws, "config.yaml").write_text("trust_fs: perhaps\n")
    examine(ws, "--strict", code=3)
    ws.tasuki("doctor", "--quick", "--full", "--json").expect(2, "INVALID_INPUT")


@test("for an agent a FAIL is an answer, not an error; fix: true mends what is safe")
def _(ws):
    state(ws, "runs").chmod(0o755)
    state(ws, "config.yaml").write_text("max_runs: many\n")
    agent = Agent(ws, "--tools", "all")
    report = agent.ok("doctor", mode="full", fix=True)
    eq((report["status"], problems(report)), ("FAIL", {"config": "FAIL"}))
    eq(state(ws, "runs").stat().st_mode & 0o777, 0o700, "mode")
    agent.close()


# -- the place -----------------------------------------------------------------------------------------------------

@defect("a state directory that others may read is found; --fix closes it", "workspace", "WARN", "mode 0755", "both")
def _(ws):
    state(ws, "runs").chmod(0o755)


@defect("a database that others may read is found; --fix closes it", "workspace", "WARN", "state.db: mode 0644", "both")
def _(ws):
    state(ws, "state.db").chmod(0o644)


@defect("a state directory that others may write is found", "workspace", "WARN", "mode 0777", "both")
def _(ws):
    state(ws).chmod(0o777)


@defect("a place that is a symbolic link is found", "workspace", "FAIL", "is a symbolic link")
def _(ws):
    shutil.rmtree(state(ws, "locks"))
    (ws.base / "elsewhere").mkdir()
    state(ws, "locks").symlink_to(ws.base / "elsewhere")


@defect("a file where a directory belongs is found", "workspace", "FAIL", "runs is no directory")
def _(ws):
    state(ws, "runs").rmdir()
    state(ws, "runs").write_text("x")


@defect("a directory where the event trail belongs is found", "workspace", "FAIL", "events.ndjson is no regular file")
def _(ws):
    state(ws, "events.ndjson").unlink(missing_ok=True)
    state(ws, "events.ndjson").mkdir()


@test("what belongs to another user is found, with the command that gives it back")
def _(ws):
    need_root("chown")
    os.chown(state(ws, "runs"), 4321, 4321)
    found = check(examine(ws), "workspace")
    eq(found["status"], "WARN", "status")
    assert "belongs to uid 4321" in found["summary"], found
    for command in found["fix"]:
        type_in(ws, command).expect(0)
    eq(problems(examine(ws)), {}, "problems")


@test("a workspace that may not be written is a FAIL that names the place")
def _(ws):
    need_root("another user")
    for path in (state(ws), *state(ws).rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    result = run_as_nobody(ws, [ws.binary, "doctor", "--json"])
    report = result.expect(3).json
    assert any(".aiflow/locks cannot be used: Permission denied" in e for e in check(report, "workspace")["evidence"]), report


@test("a read-only file system is a FAIL, and everything else can still be seen")
def _(ws):
    need_root("a mount")
    need_namespace(ws, "-m")
    foreign_lock(ws, "request", "RQ-1", sleeper(ws).pid, created=0)
    script = 'mount --bind "$W" "$W"; mount -o remount,bind,ro "$W"; cd "$W"; "$T" doctor --fix --json; exit $?'
    result = unshare(ws, ["-m"], script.replace("--json;", "--json ||"))
    report = result.expect(3).json
    assert "read-only file system" in check(report, "workspace")["summary"], report
    assert any("RQ-1 is held" in e for e in check(report, "locks")["evidence"]), report
    eq(check(report, "database")["status"], "PASS", "database")


@test("a full disk is a FAIL, of the quick examination too; with room again it passes")
def _(ws):
    need_root("a mount")
    need_namespace(ws, "-m")
    script = """
        mkdir "$B/small"; mount -t tmpfs -o size=80m tmpfs "$B/small"; cd "$B/small"
        "$T" init >/dev/null
        dd if=/dev/zero of=fill bs=1M 2>/dev/null || true
        "$T" doctor --json > "$B/full.json" || echo "full $?"
        "$T" doctor --quick || echo "quick $?"
        rm fill
        "$T" doctor --strict >/dev/null && echo "works again"
    """
    result = unshare(ws, ["-m"], script).expect(0)
    found = check(json.loads((ws.base / "full.json").read_text()), "disk")
    assert found["status"] == "FAIL" and "are free for" in found["summary"] and found["fix"][0].startswith("du "), found
    assert "full 3" in result.out and "quick 3" in result.out and "works again" in result.out, result


@test("a file system on which locks do not hold is a FAIL; one that is trusted by configuration a warning")
def _(ws):
    report = ws.fault("doctor", "--json", fstype="nfs").expect(3).json
    assert "network file system" in check(report, "filesystem")["summary"], report
    report = ws.fault("doctor", "--json", fstype="fuse").expect(3).json
    assert "trust_fs: true" in check(report, "filesystem")["summary"], report
    state(ws, "config.yaml").write_text("trust_fs: true\n")
    eq(problems(ws.fault("doctor", "--json", fstype="fuse").expect(0).json), {"filesystem": "WARN"})


@defect("a .gitignore that lets the runtime's files into git is found; --fix adds the lines", "gitignore", "WARN",
        ".aiflow/.gitignore has no line", "both")
def _(ws):
    ws.run(["git", "init", "-q"]).expect(0)
    state(ws, ".gitignore").unlink()


@defect("a server's socket that nobody listens to is found; --fix removes it", "server", "WARN", "no server listens", "both")
def _(ws):
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(state(ws, "server.sock")))


@defect("a server's token that others may read is found; --fix closes it", "server", "WARN", "server.token: mode 0644", "both")
def _(ws):
    state(ws, "server.token").write_text("secret")
    state(ws, "server.token").chmod(0o644)


# -- the database --------------------------------------------------------------------------------------------------

def checkpoint(ws):
    with sqlite3.connect(state(ws, "state.db")) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        page, size = db.execute("PRAGMA page_size").fetchone()[0], None
        size = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'process'").fetchone()[0]
    db.close()
    return page, size


@defect("a database that is none is found", "database", "FAIL", "state.db is damaged")
def _(ws):
    for path in state(ws).glob("state.db*"):
        path.unlink()
    state(ws, "state.db").write_bytes(b"this is no database, and longer than the first sixteen bytes" * 100)


@defect("a damaged page of the database is found", "database", "FAIL", "state.db is damaged")
def _(ws):
    page, root = checkpoint(ws)
    with open(state(ws, "state.db"), "r+b") as file:
        file.seek((root - 1) * page)
        file.write(b"\xff" * page)


@test("a database of a newer tasuki is found")
def _(ws):
    with sqlite3.connect(state(ws, "state.db")) as db:
        db.execute("PRAGMA user_version = 999")
    db.close()
    found = check(examine(ws), "database")
    assert found["status"] == "FAIL" and "newer tasuki" in found["summary"], found


@defect("events that did not reach the trail are found; --fix moves them", "outbox", "WARN", "1 events have not reached", "both")
def _(ws):
    line = json.dumps({"time": "2026-01-01T00:00:00Z", "type": "process.created", "data": {"id": "web"}}) + "\n"
    with sqlite3.connect(state(ws, "state.db")) as db:
        db.execute("INSERT INTO outbox (line) VALUES (?)", (line.replace('{"id": "web"}', '{"id":"web"}'),))
    db.close()


# -- the trail -----------------------------------------------------------------------------------------------------

def trail(ws):
    ws.tasuki("lock", "run", "x", "--", "true").expect(0)
    return state(ws, "events.ndjson")


@defect("a torn last line of the trail is found; --fix closes it", "events", "WARN", "is torn", "both")
def _(ws):
    with trail(ws).open("a") as file:
        file.write('{"time":"2026-')


@defect("a trail that does not begin as one is found; --fix puts it aside", "events", "WARN", "does not begin", "--fix")
def _(ws):
    path = trail(ws)
    path.write_bytes(path.read_bytes().split(b"\n", 1)[1])


@defect("lines of the trail that are no events are found", "events", "WARN", "2 lines are no events", None)
def _(ws):
    with trail(ws).open("ab") as file:
        file.write(b"\x00\xff garbage\n{}\n")


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


@defect("a lock whose guessed holder is dead and that has not expired is found", "locks", "WARN", "is dead", "command")
def _(ws):
    acquire_from_a_script(ws, "lock", "acquire", "name", "a").expect(0)


@defect("another tool's lock whose holder is dead and that has not expired is found", "locks", "WARN", "takeable in")
def _(ws):
    foreign_lock(ws, "request", "RQ-1", dead_pid())
    ws.tasuki("lock", "check", "request", "RQ-1")


@defect("a lock that is no file is found", "locks", "FAIL", "name.a.lock.json")
def _(ws):
    state(ws, "locks/name.a.lock.json").mkdir()


@defect("a file whose name is no lock's is found", "locks", "WARN", "is no lock's name")
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


@defect("a sprint that is older than 24 hours is a warning", "sprint", "WARN", "older than 24 hours",
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
    eq(found["fixed"], [".sprint-running.tmp was put away"])
    assert not (ws.path / ".sprint-running.tmp").exists()


# -- runs ----------------------------------------------------------------------------------------------------------

def interrupted(ws, text=SLEEPING):
    proc = spawn_flow(ws, text)
    ws.until(lambda: list(state(ws, "runs").glob("RUN-*/stage.json")) and b'"running"' in
             next(state(ws, "runs").glob("RUN-*/stage.json")).read_bytes(), "the second task runs")
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
    run = interrupted(ws, "tasks: {a: {run: 'true'}, b: {run: 'sleep 1000 & wait', needs: [a]}}\n")
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


@defect("a stage.json that is none is found, and made anew by the command", "journals", "WARN", "stage.json cannot be read")
def _(ws):
    run_flow(ws, "tasks: {a: {run: 'true'}}\n")
    state(ws, "runs", only_run(ws), "stage.json").write_text('{"run_id": "RU')


# -- processes -----------------------------------------------------------------------------------------------------

def started(ws, id="web", *command):
    ws.tasuki("proc", "create", id, "--", *(command or ("sleep", "1000"))).expect(0)
    record = ws.tasuki("proc", "start", id, "--json").expect(0).json
    status = json.loads(state(ws, "processes", id, "status.json").read_text())
    ws.at_close(lambda: ws.tasuki("proc", "remove", id, "--force"))
    return record, status


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
    eq((found["status"], found["fixed"]), ("PASS", ["web was taken care of (now Running)"]))
    eq([e["data"]["check"] for e in ws.events("doctor.fixed")], ["processes"], "events")
    assert ws.alive(record["pid"]), "the process was ended"
    eq(problems(examine(ws)), {}, "problems")


@defect("a process whose end nobody saw is found", "processes", "WARN", "nobody saw how")
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
    record, _ = started(ws)
    shutil.rmtree(state(ws, "processes/web"))
    found = check(examine(ws), "processes")
    eq(found["status"], "FAIL", "status")
    for command in found["fix"]:
        type_in(ws, command).expect(0)
    ws.until(lambda: not ws.alive(record["pid"]), "it ends")
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


@defect("requests that wait for each other are found", "requests", "WARN", "depends on itself", "look")
def _(ws):
    state(ws, "requests/RQ-1.yaml").write_text("title: one\nrun: 'true'\nstatus: ready\ndepends_on: [RQ-2]\n")
    state(ws, "requests/RQ-2.yaml").write_text("title: two\nrun: 'true'\nstatus: ready\ndepends_on: [RQ-1]\n")


@defect("a request that waits for one that is not there is found", "requests", "WARN", "RQ-9", "look")
def _(ws):
    state(ws, "requests/RQ-1.yaml").write_text("title: one\nrun: 'true'\nstatus: ready\ndepends_on: [RQ-9]\n")


# -- clock, configuration, flows ------------------------------------------------------------------------------------

@test("a step of the wall clock since boot is found")
def _(ws):
    ws.tasuki("lock", "run", "x", "--", "true").expect(0)
    for wall_ms, word in ((3600 * 1000, "was set forward by"), (-3600 * 1000, "was set back by")):
        found = check(ws.fault("doctor", "--json", wall_ms=wall_ms).json, "clock")
        assert found["status"] == "WARN" and any(word in e for e in found["evidence"]), found


@test("files from the future are found")
def _(ws):
    make_old(trail(ws), -7200)
    found = check(examine(ws), "clock")
    assert found["status"] == "WARN" and "from the future" in found["summary"], found


@defect("a config.yaml that is no YAML is found, with line and column", "config", "FAIL", "config.yaml:3:1: ", "look")
def _(ws):
    state(ws, "config.yaml").write_text("max_runs: 2\nagents: [\n")


@defect("an unknown key of config.yaml is found, with the nearest one", "config", "WARN", "did you mean max_runs?", "look")
def _(ws):
    state(ws, "config.yaml").write_text("max_run: 2\n")


@defect("a value of the wrong kind in config.yaml is found", "config", "FAIL", "max_runs must be a number", "look")
def _(ws):
    state(ws, "config.yaml").write_text("max_runs: many\n")


@defect("an agent that cannot be understood is found, with line and column", "config", "FAIL", "config.yaml:2:", "look")
def _(ws):
    state(ws, "config.yaml").write_text("agents:\n  one: {runs: [true]}\n")


@test("commands are ready to be typed wherever the workspace is, and --root is in them")
def _(ws):
    place = ws.path / "it's a \"place\" $HOME"
    place.mkdir()
    ws.tasuki("--root", place, "init").expect(0)
    place.joinpath(".aiflow/runs").chmod(0o755)
    place.joinpath(".aiflow/locks/name.a.lock.json").mkdir()
    place.joinpath(".aiflow/events.ndjson").write_text("garbage\n")
    report = ws.tasuki("--root", place, "doctor", "--json").expect(3).json
    for one in report["checks"]:
        for command in one.get("fix", []):
            type_in(ws, command)
    eq(problems(ws.tasuki("--root", place, "doctor", "--json").json), {}, "problems")


@defect("a broken flow file is found, with line and column, and does not hide the others", "flows", "WARN", "flows/bad.yaml:1:", "look")
def _(ws):
    state(ws, "flows/bad.yaml").write_text("tasks: {a: {run: 'true', needs: [nobody]}}\n")
    state(ws, "flows/good.yaml").write_text("tasks: {a: {run: 'true'}}\n")


@defect("a program that a flow or an agent needs and that is not there is found", "tools", "WARN", "no-such-program is not found", None)
def _(ws):
    state(ws, "flows/a.yaml").write_text("tasks:\n  a: {run: [no-such-program, x]}\n  b: {run: 'true && also-not-there'}\n")
    state(ws, "config.yaml").write_text("agents: {one: {run: [no-such-agent, '{task}']}}\n")


@test("Redis is not listed unless it is configured; one that does not answer is a FAIL")
def _(ws):
    assert not [c for c in examine(ws)["checks"] if c["name"] == "redis"]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        state(ws, "config.yaml").write_text(f"redis: redis://user:secret@127.0.0.1:{port}/0\n")
        result = ws.tasuki("doctor", "--json").expect(3)
    found = check(result.json, "redis")
    assert f"127.0.0.1:{port} cannot be reached" in found["summary"] and "secret" not in result.out, found


@test("of a name's addresses the first one's reason is told: there somebody answers who is no Redis")
def _(ws):
    server = socketserver.TCPServer(("127.0.0.1", 0), type("Other", (socketserver.BaseRequestHandler,), {
        "handle": lambda self: self.request.recv(64) and self.request.sendall(b"220 who are you?\r\n")}))
    ws.at_close(server.server_close)
    thread = threading.Thread(target=server.handle_request, daemon=True)
    thread.start()
    state(ws, "config.yaml").write_text(f"redis: redis://localhost:{server.server_address[1]}\n")
    assert "Protocol error" in check(examine(ws), "redis")["summary"]
    thread.join(30)


# -- garbage --------------------------------------------------------------------------------------------------------

@test("garbage in any file is a finding, never a crash, and --fix does not make it worse")
def _(ws):
    seed = random.Random(7)
    run_flow(ws, "tasks: {a: {run: 'true'}}\n")
    run = only_run(ws)
    started(ws)
    ws.tasuki("lock", "acquire", "name", "a", "--pid", os.getpid()).expect(0)
    places = ["config.yaml", ".gitignore", "events.ndjson", "events.lock", "flows/f.yaml", "requests/RQ-1.yaml", "server.token",
              "locks/name.a.lock.json", "locks/queue.lock.json", "locks/.guard/name.a", f"runs/{run}/journal",
              f"runs/{run}/stage.json", f"runs/{run}/flow.yaml", f"runs/{run}/life", "processes/web/status.json",
              "processes/web/history", "processes/web/want", "processes/.guard", "state.db-wal"]
    for place in places:
        path = state(ws, place)
        saved = path.read_bytes() if path.exists() else None
        for content in (b"", bytes(seed.randbytes(seed.choice((1, 40, 5000)))), b"\x00" * 100, b"[" * 20000, b"\xff\xfe\n" * 50):
            path.write_bytes(content)
            for args in ((), ("--quick",), ("--fix",)):
                result = ws.tasuki("doctor", *args, "--json")
                assert result.code in (0, 3) and result.json["checks"], f"{place} with {content[:20]!r}: {result}"
        if saved is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(saved)


# -- crashes and failing calls ----------------------------------------------------------------------------------------

def stale_and_living(ws):
    dead = sleeper(ws)
    ws.tasuki("lock", "acquire", "request", "RQ-1", "--pid", dead.pid).expect(0)
    dead.kill()
    dead.wait()
    return ws.tasuki("lock", "acquire", "name", "a", "--pid", os.getpid(), "--json").expect(0).json["token"]


@test("doctor killed at any call leaves a lock that the next one gets, and never touches a living one")
def _(ws):
    token = stale_and_living(ws)
    stale = ws.lock_path("request", "RQ-1").read_bytes()
    recovered = 0
    for at in range(1, 5000):
        ws.lock_path("request", "RQ-1").write_bytes(stale)
        result = ws.fault("doctor", "--fix", "--json", at=at, mode="kill")
        eq(ws.read_lock("name", "a")["token"], token, f"the living lock after call {at}")
        if ws.lock_path("request", "RQ-1").exists():
            eq(ws.lock_path("request", "RQ-1").read_bytes(), stale, f"the lock file after call {at}")
        else:
            recovered += 1
        if result.code == 0:
            break
    assert result.code == 0 and recovered > 1, f"{recovered} recoveries, the last one: {result}"
    ws.tasuki("lock", "acquire", "request", "RQ-1", "--pid", os.getpid()).expect(0)


@test("doctor with any call failing ends with a report, and never touches a living lock", quick=False)
def _(ws):
    token = stale_and_living(ws)
    run_flow(ws, "tasks: {a: 'true'}\n")
    for at in range(1, 5000):
        result = ws.fault("doctor", "--json", at=at, mode="EIO")
        assert result.code in (0, 3) and result.out, f"call {at}: {result}"
        eq(ws.read_lock("name", "a")["token"], token, f"the living lock after call {at}")
        if result.calls < at:
            break
    assert at > 50, f"only {at} calls were seen"


main(__name__)
