"""doctor (spec 7; seed 000, 5): broken workspaces are found with evidence and a command that mends them; nothing else changes. Here
the report, the place, the database, the trail, the clock and the configuration; what runs and is held: test_doctor_work.py."""

import json
import os
import pathlib
import random
import shutil
import socket
import socketserver
import sqlite3
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import Agent  # noqa: E402
from common import foreign_lock, make_old, need_namespace, need_root, parse_time, run_as_nobody, sleeper, unshare  # noqa: E402
from doctor_common import check, defect, differences, examine, problems, started, state, tree, type_in  # noqa: E402
from flows import only_run, run_flow  # noqa: E402
from http_common import Server
from harness.harness import eq, main, test  # noqa: E402


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
    for lang, word in (("en", "To fix it:"), ("ja", "直すには:"), ("zh", "修复方法：")):
        out = ws.tasuki("--lang", lang, "doctor").expect(0).out
        lines = out.splitlines()
        eq(lines[0], "WARN", "the first line")
        assert word in lines and lines[-1].strip().startswith("chmod 700 "), out
        eq(sum(line.startswith(("  PASS  ", "  WARN  ")) for line in lines), len(report["checks"]), "lines of checks")


@test("a recovered lock is told with the times of its file")
def _(ws):
    foreign_lock(ws, "request", "RQ-1", 4000000, created=-7200, expires=-3600)
    lock = ws.read_lock("request", "RQ-1")
    told = examine(ws, "--full")["recovered"][0]
    for key in ("created_at", "expires_at"):
        eq(parse_time(told[key]), parse_time(lock[key]), key)


@test("exit 0 for a warning, 1 with --strict, 3 for a FAIL whatever the options")
def _(ws):
    state(ws, "runs").chmod(0o755)
    examine(ws, code=0)
    examine(ws, "--strict", code=1)
    state(ws, "config.yaml").write_text("trust_fs: perhaps\n")
    examine(ws, "--strict", code=3)
    ws.tasuki("doctor", "--quick", "--full", "--json").expect(2, "INVALID_INPUT")


@test("the quick examination does not say that there are no locks: it looks at those of requests and of the queue only")
def _(ws):
    ws.tasuki("lock", "acquire", "name", "a", "--pid", sleeper(ws).pid).expect(0)
    eq([check(examine(ws, *mode), "locks")["summary"] for mode in (["--quick"], ["--full"])],
       ["no locks of requests, and no queue", "1 checked, none is stuck"], "locks")


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


@defect("a file where a directory belongs is found", "workspace", "FAIL", "runs is not a directory")
def _(ws):
    state(ws, "runs").rmdir()
    state(ws, "runs").write_text("x")


@defect("a directory where the event trail belongs is found", "workspace", "FAIL", "events.ndjson is not a regular file")
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


@test("inside locks/, processes/ and runs/ --full finds what belongs to another user, files and folders; what is not lasting is left out")
def _(ws):
    need_root("chown")
    for name, is_folder, is_told in (("locks/name.a.lock.json", False, True), ("processes/web", True, True), ("runs/RUN-x", True, True),
                                     ("runs/.gone", True, False), ("locks/.tsk-0123456789abcdef", False, False)):
        path = state(ws, name)
        path.mkdir(parents=True) if is_folder else path.touch()
        os.chown(path, 4321, 4321)
        told = [line for line in check(examine(ws, "--full"), "workspace").get("evidence", []) if "belongs to uid 4321" in line]
        eq((len(told), all(name in line for line in told)), (is_told, True), f"{name}: {told}")
        path.rmdir() if is_folder else path.unlink()


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
    eq(check(report, "workspace")["fix"], [f"findmnt -T {ws.path}/.aiflow"], "the command that helps to look")
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
    refused = ws.tasuki("own", "claim", "w", "--json").expect(3, "ENVIRONMENT").json["error"]
    eq(refused["next"], ["tasuki doctor"], "where others send their user")


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


@defect("events that did not reach the trail are found; --fix moves them", "outbox", "WARN", "1 event has not reached", "both")
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


@defect("lines of the trail that are no events are found", "events", "WARN", "2 lines are not events", "look")
def _(ws):
    with trail(ws).open("ab") as file:
        file.write(b"\x00\xff garbage\n{}\n")


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
    assert found["status"] == "WARN" and "in the future" in found["summary"], found


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


@defect("a broken flow file that ends in .yml is found", "flows", "WARN", "flows/bad.yml:1:", "look")
def _(ws):
    state(ws, "flows/bad.yml").write_text("tasks: {a: {run: 'true', needs: [nobody]}}\n")


@defect("a program that a flow or an agent needs and that is not there is found", "tools", "WARN", "no-such-program was not found", "look")
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


@test("of a name's addresses the first one's reason is told: there somebody answers who is no Redis", slow=True)
def _(ws):
    server = socketserver.TCPServer(("127.0.0.1", 0), type("Other", (socketserver.BaseRequestHandler,), {
        "handle": lambda self: self.request.recv(64) and self.request.sendall(b"220 who are you?\r\n")}))
    ws.at_close(server.server_close)
    thread = threading.Thread(target=server.handle_request, daemon=True)
    thread.start()
    state(ws, "config.yaml").write_text(f"redis: redis://localhost:{server.server_address[1]}\n")
    assert "Protocol error" in check(examine(ws), "redis")["summary"]
    thread.join(90)


# -- garbage --------------------------------------------------------------------------------------------------------

@test("garbage in any file is a finding, never a crash, and --fix does not make it worse", slow=True)
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


@test("doctor killed at any call leaves a lock that the next one gets, and never touches a living one", slow=True)
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


@test("the last full report over HTTP is there without another examination; before the first one there is none")
def _(ws):
    server = Server(ws)
    eq(server.get("/api/doctor").expect(404, "NOT_FOUND").error["next"], ["tasuki doctor"], "the next command")
    server.post("/api/doctor", {"mode": "quick"}).expect(200)
    server.get("/api/doctor").expect(404)
    eq(ws.events("doctor.examined"), [], "what is not kept is not announced")
    report = server.post("/api/doctor").expect(200).json
    eq([one["data"] for one in ws.events("doctor.examined")], [{"status": report["status"]}], "the event of the report")
    (ws.path / ".aiflow/locks/name.left.lock.json").write_text("{")
    last = server.get("/api/doctor").expect(200).json
    eq((last["status"], last["checks"]), (report["status"], report["checks"]), "the report")
    assert last["at"].endswith("Z") and last["took_ms"] >= 0, last
    server.stop()


# -- a table of findings --------------------------------------------------------------------------------------------

def config(text):
    return lambda ws: state(ws, "config.yaml").write_text(text)


def stale_socket(ws):
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(state(ws, "server.sock")))


def no_sprint_line(ws):
    ws.run(["git", "init", "-q"]).expect(0)
    (ws.path / ".gitignore").write_text("/build\n/.sprint-runningx\n # /.sprint-running\n")


def old_private(ws):
    path = state(ws, "locks/.tsk-name.zz")
    path.parent.mkdir(exist_ok=True)
    path.mkdir()
    (path / "in it").write_text("")


FINDINGS = [
    (config("- a\n"), "config", "FAIL", "not a map"), (config("a\n"), "config", "FAIL", "not a map"), (config("max_runs: 0\n"), "config", "FAIL", "at least 1"),
    (config("max_runs: 1\n"), "config", "PASS", ""), (config("max_runs: x\n"), "config", "FAIL", "at least 1"), (config("trust_fs: 1\n"), "config", "FAIL", "true or false"),
    (config("agents_confirm_live: 2\n"), "config", "FAIL", "true or false"), (config("trust_fs: false\n"), "config", "PASS", ""),
    (config("agents: []\n"), "config", "FAIL", "a map"), (config("agents:\n"), "config", "PASS", ""), (config("keep: 3\n"), "config", "FAIL", "a map"),
    (config("notify: x\n"), "config", "FAIL", "a map"), (config("processes: [x]\n"), "config", "FAIL", "a map"), (config("redis: [x]\n"), "config", "FAIL", "a text"),
    (config("max_run: 1\n"), "config", "WARN", "max_runs"), (config("zzzzzzzzzz: 1\n"), "config", "WARN", "zzzzzzzzzz"), (config("locks: redis\n"), "config", "FAIL", "locks"),
    (config("a: [\n"), "config", "FAIL", "config.yaml:"),
    *((config(f"redis: '{url}'\n"), "redis", "FAIL", "redis://host") for url in (
        "redis://", "redis:///0", "http://127.0.0.1:1", "redis://127.0.0.1:0", "redis://127.0.0.1:65536", "redis://127.0.0.1:x", "redis://127.0.0.1:",
        "redis://[::1", "redis://[::1]1", "redis://:1", "redis://u:p@", "redis://" + "h" * 320, "redis://" + "h" * 256 + ":1", "redis://127.0.0.1:123456")),
    *((config(f"redis: '{url}'\n"), "redis", "FAIL", "127.0.0.1") for url in (
        "redis://127.0.0.1:1", "redis://u:p@127.0.0.1:1/3", "redis://u:p@x@127.0.0.1:1?a=b", "redis://127.0.0.1:1#x")),
    (config("redis: {url: 'redis://[::1]:1'}\n"), "redis", "FAIL", "::1"),
    (lambda ws: state(ws, "server.sock").write_text(""), "server", "WARN", "not a socket"), (stale_socket, "server", "WARN", "no server listens"),
    (no_sprint_line, "gitignore", "WARN", "/.sprint-running"),
    (lambda ws: (state(ws, "events.ndjson").unlink(missing_ok=True), state(ws, "events.ndjson").mkdir()), "events", "FAIL", "events.ndjson"),
    (old_private, "locks", "PASS", ""),  # it may be somebody's who is at work
]


@test("what stands in config.yaml, the Redis URL, the socket, .gitignore: each has its status, its sentence and its command", slow=True)
def _(ws):
    kept = ws.base / "kept"
    shutil.copytree(ws.path, kept, symlinks=True)
    wrong = []
    for i, (arrange, name, status, words) in enumerate(FINDINGS):
        shutil.rmtree(ws.path)
        shutil.copytree(kept, ws.path, symlinks=True)
        arrange(ws)
        found = check(ws.tasuki("doctor", "--json").json, name)
        text = json.dumps(found)
        if (found["status"], words in text, bool(found.get("fix"))) != (status, True, status != "PASS" and name != "events"):  # of the trail the workspace's check has it
            wrong.append(f"{i} {status} {words}: {text}")
        ws.commands.clear()
    eq(wrong, [], "findings with another status, sentence or command")


@test("which of the calls that locks rest on does not work here is said; nothing of the attempt is left")
def _(ws):
    ws.tasuki("lock", "acquire", "name", "a", "--pid", "1").expect(0)
    before = sorted(p.name for p in state(ws, "locks").iterdir())
    for call, mode, status, words in (("linkat", "EPERM", "FAIL", "hard links"), ("renameat2", "EINVAL", "WARN", "RENAME_EXCHANGE"),
                                      ("ofd_lock", "ENOLCK", "FAIL", "byte locks")):
        result = ws.fault("doctor", "--json", at=1, mode=mode, env={"TASUKI_FAULT_ONLY": call, "TASUKI_FAULT_STICKY": "1"})
        found = check(result.json, "filesystem")
        eq((found["status"], words in json.dumps(found)), (status, True), f"without {call}: {found}")
        eq(sorted(p.name for p in state(ws, "locks").iterdir()), before, f"what is in locks/ after it, without {call}")


@test("a clock before this program was built cannot be right; a room that cannot be asked for is said")
def _(ws):
    found = check(ws.fault("doctor", "--json", wall_ms=-40 * 365 * 86400 * 1000).json, "clock")
    assert found["status"] == "WARN" and "cannot be right" in json.dumps(found) and "timedatectl" in json.dumps(found), found
    result = ws.fault("doctor", "--json", at=1, mode="EOPNOTSUPP", env={"TASUKI_FAULT_PATH": ".", "TASUKI_FAULT_STICKY": "1"})
    eq(check(result.json, "disk")["status"], "PASS", "where no file is without a name")
    eq([p.name for p in state(ws).rglob(".tsk-*")], [], "private names")


main(__name__)
