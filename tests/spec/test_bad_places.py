"""Spec 3 and 9: odd ids, symbolic links, torn files, directories that cannot be written and disks that are full."""

import contextlib
import os
import shutil
import sqlite3

from common import NOBODY, check_error, make_old, need_namespace, need_root, run_as_nobody, run_held, strace_of, unshare
from harness.harness import Skip, eq, main, test
from harness.processes import Processes
from http_common import Server

ACQUIRE = ("lock", "acquire", "name", "a", "--json")
BAD_IDS = ("../x", "a/b", "/x", "a\nb", "", "x" * 129, ".hidden", "..", "a b", "a*", "ü", "_a", "a\x1b[31m", "a\\b")


def tree(path):
    """Every file below, with inode and size: to see that nothing was changed."""
    return sorted((str(p), p.lstat().st_ino, p.lstat().st_size) for p in path.rglob("*"))


# -- ids ----------------------------------------------------------------------------------------------------

@test("a request's id that is not [A-Za-z0-9][A-Za-z0-9._-]{0,127} is INVALID_INPUT, and nothing is created; a name is any printable text")
def _(ws):
    before = tree(ws.base)
    for bad in BAD_IDS:
        for verb in ("acquire", "release", "renew", "check"):
            result = ws.tasuki("lock", verb, "request", bad, "--json")
            assert result.code == 2, f"id {bad!r}\n{result}"
            check_error(result, 2, "INVALID_INPUT")
    for bad in ("", "x" * 201, "a\nb", "\x7f", "\u202e"):
        for verb in ("acquire", "release", "renew", "check"):
            check_error(ws.tasuki("lock", verb, "name", bad, "--json"), 2, "INVALID_INPUT")
        assert ws.tasuki("lock", "run", bad, "--", "true").code == 2, bad
    eq(tree(ws.base), before, "the files")


@test("ids of 1 and of 128 characters with every allowed sign are taken")
def _(ws):
    for good in ("a", "Z", "0", "x" * 128, "RQ-2026.01_02-a"):
        ws.tasuki("lock", "acquire", "name", good).expect(0)
        assert ws.lock_path("name", good).exists()
        ws.tasuki("lock", "release", "name", good).expect(0)


@test("request and name locks of the same id are two locks")
def _(ws):
    ws.tasuki("lock", "acquire", "name", "queue").expect(0)
    ws.tasuki("lock", "acquire", "request", "queue").expect(0)
    ws.tasuki("lock", "acquire", "queue").expect(0)


@test("a queue lock takes no id, a request lock needs one")
def _(ws):
    eq(ws.tasuki("lock", "acquire", "queue", "x").code, 2, "exit with an id")
    eq(ws.tasuki("lock", "acquire", "request").code, 2, "exit without an id")
    eq(ws.tasuki("lock", "acquire", "nonsense", "x").code, 2, "exit for an unknown kind")


@test("durations and pids are checked before anything is done")
def _(ws):
    before = tree(ws.path)
    for option, value in (("--ttl", "abc"), ("--ttl", "-5s"), ("--wait", "5 parsecs"), ("--pid", "x"),
                          ("--pid", "-1"), ("--pid", "0"), ("--ttl", "99999999999999999999s")):
        eq(ws.tasuki(*ACQUIRE, option, value).code, 2, f"exit for {option} {value}")
    eq(tree(ws.path), before, "the files")


@test("a --pid that does not exist is refused")
def _(ws):
    result = ws.tasuki(*ACQUIRE, "--pid", "4194303")
    assert result.code not in (0, 9), result
    assert not ws.lock_path("name", "a").exists()


# -- files that are not what they should be -----------------------------------------------------------------

@test("a symbolic link at the lock path is not followed; its target is not changed")
def _(ws):
    target = ws.base / "precious"
    target.write_text("precious")
    before = (target.stat().st_ino, target.stat().st_mtime_ns, target.stat().st_mode)
    lock = ws.lock_path("name", "a")
    lock.parent.mkdir(exist_ok=True)
    lock.symlink_to(target)
    for verb in ("acquire", "check", "renew", "release"):
        ws.tasuki("lock", verb, "name", "a", "--json")
        eq(target.read_text(), "precious", f"the target after {verb}")
        eq((target.stat().st_ino, target.stat().st_mtime_ns, target.stat().st_mode), before, f"the target after {verb}")


@test("a dangling symbolic link at the lock path does not create its target")
def _(ws):
    target = ws.base / "nothing"
    for lock, verb in ((ws.lock_path("name", "a"), ACQUIRE), (ws.lock_path("sprint"),
                       ("sprint", "acquire", "--session", "s", "--epic", "e", "--json"))):
        lock.parent.mkdir(exist_ok=True)
        lock.symlink_to(target)
        ws.tasuki(*verb)
        assert not target.exists(), f"{verb} followed the link"


@test("a symbolic link at .sprint-running is not followed; its target is not changed")
def _(ws):
    target = ws.base / "precious"
    target.write_text("precious: true\n")
    ws.lock_path("sprint").symlink_to(target)
    for args in (("check",), ("acquire", "--session", "s", "--epic", "e", "--force", "--yes"), ("release",)):
        ws.tasuki("sprint", *args, "--json")
        eq(target.read_text(), "precious: true\n", f"the target after {args}")


@test("a directory at the lock path is refused, and kept")
def _(ws):
    lock = ws.lock_path("name", "a")
    lock.mkdir(parents=True)
    (lock / "inside").write_text("x")
    result = ws.tasuki(*ACQUIRE)
    assert result.code not in (0, 9), result
    assert (lock / "inside").exists()


@test("a lock file of more than a megabyte is refused without reading it all, as one that cannot be parsed")
def _(ws):
    path = ws.write_lock("name", "a", '{"version": "1.0", "x": "' + "y" * (3 << 20) + '"}')
    ws.tasuki(*ACQUIRE).expect(4)
    make_old(path)
    ws.tasuki(*ACQUIRE).expect(0)


@test("acquire leaves nothing in locks/ but the lock and the guards")
def _(ws):
    ws.tasuki(*ACQUIRE).expect(0)
    names = set(os.listdir(ws.path / ".aiflow/locks"))
    eq(names, {"name.a.lock.json", ".guard"}, "what is in locks/")


@test("lock files, guards and the trail can be read by their owner only")
def _(ws):
    ws.tasuki(*ACQUIRE).expect(0)
    for path in (ws.path / ".aiflow").rglob("*"):
        if path.name not in (".gitignore", "config.yaml", "requests", "flows"):
            eq(path.lstat().st_mode & 0o077, 0, f"what others may do with {path.name}")


# -- places that cannot be written --------------------------------------------------------------------------

@test("a workspace of another user is refused with its path, the reason and the command that shows its permissions")
def _(ws):
    need_root("another user")
    (ws.path / ".aiflow").chmod(0o700)
    result = run_as_nobody(ws, [ws.binary, "status"]).expect(3)
    assert f"{ws.path}/.aiflow: Permission denied" in result.err and f"next      namei -l {ws.path}/.aiflow\n" in result.err, result.err
    shown = run_as_nobody(ws, ["namei", "-l", f"{ws.path}/.aiflow"])
    assert "drwx------ root" in shown.out, shown.out


@test("a read-only directory: ENVIRONMENT, exit 3, nothing is changed")
def _(ws):
    ws.tasuki("lock", "acquire", "name", "other").expect(0)
    ws.tasuki("own", "note", "the database is there").expect(0)
    for path in [ws.path, *ws.path.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = tree(ws.path)
    result = run_as_nobody(ws, [ws.binary, *ACQUIRE])
    noted = run_as_nobody(ws, [ws.binary, "own", "note", "x", "--json"])
    after = tree(ws.path)
    for path in [ws.path, *ws.path.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    error = check_error(result, 3, "ENVIRONMENT")
    eq(after, before, "the files")
    assert "ermission" in str(error) or "ead-only" in str(error), error
    error = check_error(noted, 3, "ENVIRONMENT")
    assert "Permission denied" in error["message"] and error["next"] == [f"namei -l {ws.path}/.aiflow/state.db"], error


@test("a read-only mount: exit 3, and what is held can still be seen")
def _(ws):
    need_root("a mount")
    need_namespace(ws, "-m")
    run_held(ws, "a")
    script = ('mount --bind "$W" "$W"; mount -o remount,bind,ro "$W"; cd "$W"; '
              '"$T" lock acquire name b --json; echo "code $?"; "$T" lock check name a || echo "check $?"')
    result = unshare(ws, ["-m"], script.replace("--json;", "--json || "))
    assert "code 3" in result.out and "check 4" in result.out, result
    assert str(ws.path.resolve() / ".aiflow/locks") in result.out, f"where it is: {result}"


@test("a read-only mount: what runs is seen as running, and a wait for it goes on")
def _(ws):
    need_root("a mount")
    need_namespace(ws, "-m")
    p = Processes(ws)
    p.run("web")
    (ws.path / "flow.yaml").write_text("tasks: {a: 'until [ -e go ]; do sleep 0.01; done'}\n")
    run = ws.spawn("run", "flow.yaml")
    ws.until(lambda: "RUNNING" in ws.tasuki("runs", "list").out, "the run")
    script = """
        mount --bind "$W" "$W"; mount -o remount,bind,ro "$W"; cd "$W"
        "$T" wait run --timeout 0s || echo "code $?"
        "$T" runs list
        "$T" proc list
    """
    result = unshare(ws, ["-m"], script).expect(0)
    assert "code 4" in result.out and "INTERRUPTED" not in result.out and result.out.count("RUNNING") == 1, result
    assert "Running" in result.out and "Cannot" not in result.err, result
    (ws.path / "go").touch()
    ws.finish(run).expect(0)


@test("a read-only mount: a wait for a lock looks a few times a second, not all the time")
def _(ws):
    need_root("a mount")
    need_namespace(ws, "-m")
    strace_of(ws)
    run_held(ws, "a")
    script = """
        mount --bind "$W" "$W"; mount -o remount,bind,ro "$W"; cd "$W"
        strace -f -e trace=openat -o "$B/trace" "$T" wait lock a --timeout 1s || echo "code $?"
    """
    result = unshare(ws, ["-m"], script).expect(0)
    looks = (ws.base / "trace").read_text().count("name.a.lock.json")
    assert "code 4" in result.out and looks < 30, f"{looks} looks: {result}"


@test("a read-only mount with the database of an older tasuki: exit 3, and both versions are named")
def _(ws):
    need_root("a mount")
    need_namespace(ws, "-m")
    ws.tasuki("proc", "create", "web", "--", "sleep", "1000").expect(0)
    with contextlib.closing(sqlite3.connect(ws.path / ".aiflow/state.db")) as database:
        database.execute("PRAGMA user_version = 2")
    script = 'mount --bind "$W" "$W"; mount -o remount,bind,ro "$W"; cd "$W"; "$T" proc list --json || echo "code $?"'
    result = unshare(ws, ["-m"], script)
    assert "code 3" in result.out and '"ENVIRONMENT"' in result.out, result
    assert "written by an older tasuki (schema 2, this program needs " in result.out, result


@test("a read-only mount: each refusal says so, and names the command that shows the mount")
def _(ws):
    need_root("a mount")
    need_namespace(ws, "-m")
    ws.tasuki("proc", "create", "web", "--", "sleep", "1000").expect(0)
    script = """
        mount --bind "$W" "$W"; mount -o remount,bind,ro "$W"; cd "$W"
        "$T" lock acquire name a || echo "code $?"
        "$T" proc start web || echo "code $?"
        "$T" own note busy || echo "code $?"
    """
    result = unshare(ws, ["-m"], script).expect(0)
    eq(result.out.count("code 3"), 3, result)
    eq(result.err.count(": Read-only file system"), 3, result)
    eq(result.err.count(f"next      findmnt -T {ws.path.resolve()}\n"), 3, result)


@test("a full disk: STORAGE_FULL, exit 3, no lock is left; with room again it works")
def _(ws):
    need_root("a mount")
    need_namespace(ws, "-m")
    script = """
        mkdir "$B/small"; mount -t tmpfs -o size=1m tmpfs "$B/small"; cd "$B/small"
        "$T" init >/dev/null
        dd if=/dev/zero of=fill bs=4096 2>/dev/null || true
        "$T" lock acquire name a --json || echo "code $?"
        test ! -e .aiflow/locks/name.a.lock.json || echo "a lock was left"
        rm fill
        "$T" lock acquire name a >/dev/null && echo "works again"
    """
    result = unshare(ws, ["-m"], script).expect(0)
    assert "STORAGE_FULL" in result.out and "code 3" in result.out, result
    assert "a lock was left" not in result.out and "works again" in result.out, result
    assert f'"df -h {ws.base.resolve()}/small"' in result.out, result


@test("a full disk: a process that is created and started names the file and asks for room, not for another command")
def _(ws):
    need_root("a mount")
    need_namespace(ws, "-m")
    script = """
        mkdir "$B/small"; mount -t tmpfs -o size=1m tmpfs "$B/small"; cd "$B/small"
        "$T" init >/dev/null
        "$T" proc create first --start -- true >/dev/null
        dd if=/dev/zero of=fill bs=4096 2>/dev/null || true
        "$T" proc create web --start -- sleep 1000 2>&1 || echo "code $?"
        "$T" proc list
    """
    result = unshare(ws, ["-m"], script).expect(0)
    assert "No space left on device" in result.out and "code 3" in result.out, result
    assert "next      df -h " in result.out and "--help" not in result.out and "web " not in result.out, result


@test("a full disk: a lock can still be released, and nobody is kept out")
def _(ws):
    need_root("a mount")
    need_namespace(ws, "-m")
    script = """
        mkdir "$B/small"; mount -t tmpfs -o size=1m tmpfs "$B/small"; cd "$B/small"
        "$T" init >/dev/null
        "$T" lock acquire name a >/dev/null
        dd if=/dev/zero of=fill bs=4096 2>/dev/null || true
        "$T" lock release name a --json || echo "code $?"
        test ! -e .aiflow/locks/name.a.lock.json && echo "released"
    """
    result = unshare(ws, ["-m"], script).expect(0)
    assert "released" in result.out and "code" not in result.out, result


# -- root in somebody else's workspace ------------------------------------------------------------------------

def nobodys_workspace(ws):
    need_root("another user")
    os.chown(ws.path, NOBODY, NOBODY)
    shutil.copy(ws.binary.parent / "tasuki-hold", ws.base)
    user = lambda *args: run_as_nobody(ws, [ws.binary, *args])
    user("init").expect(0)
    return user


# -- where it is ---------------------------------------------------------------------------------------------

@test("an error about a file of a run, a request or the queue has its whole path, so that it can be opened from anywhere")
def _(ws):
    (ws.path / "flow.yaml").write_text("tasks: {a: 'exit 1'}\n")
    ws.tasuki("run", "flow.yaml").expect(7)
    state = ws.path / ".aiflow"
    run = next((state / "runs").glob("RUN-*"))

    def names(path, *args):
        """The error of a command where there is a directory in the place of a file."""
        path.unlink(missing_ok=True)
        path.mkdir(parents=True)
        error = ws.tasuki(*args, "--json").expect(3).json["error"]
        assert str(path) in error["message"], f"{path} is not in {error['message']!r}"
        path.rmdir()

    journal, stage = (run / "journal").read_text(), (run / "stage.json").read_text()
    names(run / "stage.json", "runs", "show", run.name)
    (run / "stage.json").write_text(stage)
    names(run / "journal", "resume", run.name)
    (run / "journal").write_text(journal)
    names(run / "flow.yaml", "resume", run.name)
    names(run / "flow.yaml", "runs", "graph", run.name)
    (run / "flow.yaml").write_text("tsks: {}\n")
    for args in (("resume",), ("runs", "graph")):
        text = ws.tasuki(*args, run.name, "--json").expect(2, "FLOW_INVALID").json["error"]["message"]
        assert text.startswith(f".aiflow/runs/{run.name}/flow.yaml:1:"), text  # of a line in a file: from where one stands
    (state / "requests/RQ-1.yaml").write_text("title: one\nrun: 'true'\n")
    names(state / "config.yaml", "request", "run", "RQ-1")


@test("what root makes in somebody's workspace and obeys itself is not his: no token, no run, no process", init=False)
def _(ws):
    user = nobodys_workspace(ws)
    (ws.path / "flow.yaml").write_text("tasks: {a: 'true'}\n")
    ws.tasuki("run", "flow.yaml").expect(0)
    ws.tasuki("proc", "create", "r", "--start", "--", "sleep", "1000").expect(0)
    server = Server(ws)
    state = ws.path / ".aiflow"
    obeyed = [state / "server.token", *(state / "runs").glob("RUN-*"), state / "processes/r"]
    eq({str(path): path.stat().st_uid for path in obeyed}, {str(path): 0 for path in obeyed}, "owners")
    token = server.token
    server.stop()
    server = Server(ws)
    eq(server.token, token, "the token of the next start")
    server.stop()
    eq([p["phase"] for p in user("proc", "list", "--json").expect(0).json["processes"]], ["unreadable"], "what the user sees")
    ws.tasuki("proc", "stop", "r").expect(0)


@test("root stops a user's process", init=False)
def _(ws):
    user = nobodys_workspace(ws)
    user("proc", "create", "u", "--start", "--", "sleep", "1000").expect(0)
    ws.tasuki("proc", "stop", "u").expect(0)
    eq(user("proc", "list", "--json").expect(0).json["processes"][0]["state_name"], "Stopped")


@test("a process whose files cannot be read hides no other; it and doctor say which and why", slow=True, init=False)
def _(ws):
    user = nobodys_workspace(ws)
    for id in ("a", "r", "z"):
        user("proc", "create", id, "--start", "--", "sleep", "1000").expect(0)
    directory = ws.path / ".aiflow/processes/r"
    os.chown(directory, 0, 0)
    for args in (("proc", "list", "--json"), ("status", "--json")):
        found = {p["id"]: p for p in user(*args).expect(0).json["processes"]}
        eq([found[id]["phase"] for id in ("a", "r", "z")], ["ready", "unreadable", "ready"])
        assert str(directory) in found["r"]["detail"] and "ermission denied" in found["r"]["detail"], found["r"]
        eq(found["r"]["state_name"], "Running")
    assert str(directory) in user("proc", "status", "r").expect(3).err
    report = user("doctor", "--json")
    check = next(check for check in report.json["checks"] if any(str(directory) in line for line in check["evidence"]))
    eq(check["fix"], [f"sudo chown -hR {NOBODY}:{NOBODY} {ws.path}/.aiflow"])
    os.chown(directory, NOBODY, NOBODY)
    user("proc", "stop", "--all").expect(0)


@test("who may not read a workspace, a run or a flow is told what to look at; a run that cannot be opened is in the list as BROKEN", init=False)
def _(ws):
    user = nobodys_workspace(ws)
    (ws.path / "f.yaml").write_text("tasks: {a: 'true'}\n")
    ws.tasuki("run", "f.yaml", "--quiet").expect(0)
    run = ws.path.resolve() / ".aiflow/runs" / next((ws.path / ".aiflow/runs").glob("RUN-*")).name
    eq([(r["run_id"], r["status"]) for r in user("runs", "list", "--json").expect(0).json["runs"]], [(run.name, "BROKEN")], "the list")
    eq(user("runs", "show", run.name, "--json").expect(3, "ENVIRONMENT").json["error"]["next"], [f"namei -l {run}"])
    os.chmod(ws.path / "f.yaml", 0)
    eq(user("run", "f.yaml", "--json").expect(3, "ENVIRONMENT").json["error"]["next"], ["namei -l f.yaml"])


FULL_DISK = """
    "$T" init >/dev/null
    "$T" proc create p --start -- sleep 1000 >/dev/null
    "$T" proc create never -- true >/dev/null
    dd if=/dev/zero of=fill bs=4096 2>/dev/null || true
    dd if=/dev/zero of=fill2 bs=64 2>/dev/null || true
    "$T" proc list --json >/dev/null || echo "list $?"
    "$T" proc start never --json || echo "start $?"
    "$T" proc stop p >/dev/null || echo "stop $?"
    "$T" proc status p || echo "status $?"
    "$T" proc remove p || echo "remove $?"
    rm fill fill2
    "$T" proc stop p >/dev/null 2>&1 || true
"""


def check_full_disk(ws, mount):
    need_root("a mount")
    need_namespace(ws, "-m")
    result = unshare(ws, ["-m"], f'mkdir "$B/small"; {mount} || exit 77; cd "$B/small"\n' + FULL_DISK, timeout=120)
    if result.code == 77:
        raise Skip("such a file system is not to be had here")
    result.expect(0)
    assert "p  Stopped" in result.out and "process 'p' removed" in result.out, result
    for word in ("list", "stop", "status", "remove"):
        assert f"{word} 1" not in result.out and f"{word} 3" not in result.out and f"{word} 7" not in result.out, result
    assert "start 3" in result.out and "STORAGE_FULL" in result.out, result


@test("a full disk: a process can be looked at, stopped and removed; a start says that the disk is full")
def _(ws):
    check_full_disk(ws, 'mount -t tmpfs -o size=1m tmpfs "$B/small"')


@test("a full disk with blocks of 1 KiB: the same (the database's shared memory has all of its blocks)")
def _(ws):
    check_full_disk(ws, 'dd if=/dev/zero of="$B/image" bs=1M count=4 2>/dev/null && '
                        'mkfs.ext4 -q -b 1024 -m 0 "$B/image" && mount -o loop "$B/image" "$B/small"')


@test("the disk gets full at any call of acquire: it succeeds, or STORAGE_FULL and no lock is left")
def _(ws):
    fail_every_call(ws, "SHORT")


@test("ENOSPC from any single call of acquire: it succeeds, or STORAGE_FULL and no lock is left")
def _(ws):
    fail_every_call(ws, "ENOSPC")


def fail_every_call(ws, mode):
    refused, n, problems = 0, 0, []
    while True:
        n += 1
        result = ws.fault(*ACQUIRE, at=n, mode=mode)
        if result.code != 0:
            refused += result.error["reason_code"] == "STORAGE_FULL"
            if result.code != 3:
                problems.append(f"when call {n} failed: {result}")
            assert not ws.lock_path("name", "a").exists(), f"a lock was left when call {n} failed"
        else:
            ws.tasuki("lock", "release", "name", "a").expect(0)
        if result.calls is None or result.calls < n:
            break
    assert not problems, "\n".join(problems)
    assert refused, "no call was refused with STORAGE_FULL"
    ws.tasuki(*ACQUIRE).expect(0)


main(__name__)
