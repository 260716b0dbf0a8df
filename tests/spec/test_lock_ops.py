"""Spec 3, operations: what acquire, release, renew, check and list answer, proofs of holding, and force."""

import fcntl
import os
import pathlib
import re
import signal

from common import (HOLDER_KEYS, NOBODY, acquire_from_a_script, check_error, dead_pid, foreign_lock, need_root, parse_time,
                    run_as_nobody, run_held, sleeper)
from harness.harness import eq, main, test
from harness.screen import tasuki_screen

RESULT_KEYS = {"status", "kind", "id", "fence", "token", "path", "expires_at", "holder"}


def acquire(ws, *more, id="a"):
    return ws.tasuki("lock", "acquire", "name", id, "--json", *more)


def held_by(ws, *more):
    holder = sleeper(ws)
    return holder, acquire(ws, "--pid", holder.pid, *more).expect(0).json


# -- acquire and the holder ---------------------------------------------------------------------------------

@test("acquire answers with the documented keys")
def _(ws):
    value = acquire(ws, "--session", "s-1", "--run", "RUN-1").expect(0).json
    assert RESULT_KEYS <= set(value), value
    eq((value["status"], value["kind"], value["id"]), ("acquired", "name", "a"))
    assert HOLDER_KEYS <= set(value["holder"]), value
    eq((value["holder"]["pid"], value["holder"]["alive"]), (os.getpid(), True))
    eq((value["holder"]["session_id"], value["holder"]["run_id"]), ("s-1", "RUN-1"))
    parse_time(value["expires_at"])
    assert type(value["fence"]) is int and value["token"], value


@test("--pid records that process")
def _(ws):
    holder, value = held_by(ws)
    eq(value["holder"]["pid"], holder.pid, "pid")
    lock = ws.read_lock("name", "a")
    eq((lock["hold"], lock["pid"]), ("process", holder.pid), "hold and pid")


@test("without --pid the caller is recorded as a guess, and it is said who")
def _(ws):
    result = ws.tasuki("lock", "acquire", "name", "a").expect(0)
    eq(ws.read_lock("name", "a")["hold"], "guess", "hold")
    assert str(os.getpid()) in result.out + result.err, result


@test("shells started with -c, timeout and xargs are passed through to find the holder")
def _(ws):
    for wrap in (["sh", "-c", '"$0" "$@"; true'], ["bash", "-c", '"$0" "$@"; true'], ["timeout", "60"], ["xargs"],
                 ["timeout", "60", "sh", "-c", '"$0" "$@"; :']):
        ws.run([*wrap, ws.binary, "lock", "acquire", "name", "a"], input="").expect(0)
        eq(ws.read_lock("name", "a")["pid"], os.getpid(), f"the holder through {wrap}")
        ws.tasuki("lock", "release", "name", "a").expect(0)


@test("a script's shell is not passed through: it is the holder")
def _(ws):
    value = acquire_from_a_script(ws, "lock", "acquire", "name", "a", "--json").expect(0).json
    assert value["holder"]["pid"] != os.getpid(), value
    assert not ws.alive(value["holder"]["pid"])


@test("a lock that this caller holds already is refused to it as to everybody")
def _(ws):
    acquire(ws).expect(0)
    check_error(acquire(ws), 4, "LOCK_HELD")


# -- check and list -----------------------------------------------------------------------------------------

@test("check: exit 0 free, 4 held, 6 held by a dead holder")
def _(ws):
    eq(ws.tasuki("lock", "check", "name", "a").code, 0, "exit when free")
    holder, _ = held_by(ws)
    eq(ws.tasuki("lock", "check", "name", "a").code, 4, "exit when held")
    holder.kill()
    holder.wait()
    eq(ws.tasuki("lock", "check", "name", "a").code, 6, "exit when dead")


@test("check changes nothing: a dead holder's lock stays until somebody takes it")
def _(ws):
    foreign_lock(ws, "name", "a", dead_pid(), created=-3600, expires=-1800)
    before = ws.lock_path("name", "a").read_text()
    eq(ws.tasuki("lock", "check", "name", "a", "--json").code, 6, "exit")
    eq(ws.lock_path("name", "a").read_text(), before, "the file")


@test("list shows every kind with its holder, and nothing that is free")
def _(ws):
    eq(locks_listed(ws), [], "locks at first")
    acquire(ws).expect(0)
    ws.tasuki("lock", "acquire", "request", "RQ-1").expect(0)
    ws.tasuki("lock", "acquire", "queue").expect(0)
    ws.tasuki("sprint", "acquire", "--session", "s", "--epic", "e").expect(0)
    eq(sorted((lock["kind"], lock["id"] or "") for lock in locks_listed(ws) if lock["kind"] != "sprint"),
       [("name", "a"), ("queue", ""), ("request", "RQ-1")], "locks")
    assert any(lock["kind"] == "sprint" for lock in locks_listed(ws))
    for lock in locks_listed(ws):
        eq((lock["holder"]["pid"], lock["holder"]["alive"]), (os.getpid(), True), "the holder")
    ws.tasuki("lock", "release", "queue").expect(0)
    assert not any(lock["kind"] == "queue" for lock in locks_listed(ws))


def locks_listed(ws):
    value = ws.tasuki("lock", "list", "--json").expect(0).json
    return value["locks"] if isinstance(value, dict) else value


@test("list does not show tokens")
def _(ws):
    token = acquire(ws).expect(0).json["token"]
    for options in ([], ["--json"]):
        assert token not in ws.tasuki("lock", "list", *options).expect(0).out
    result = acquire(ws).expect(4)
    assert token not in result.out + result.err, "a refusal gives the holder's token away"


# -- release and renew --------------------------------------------------------------------------------------

@test("release and renew with the token succeed from anywhere")
def _(ws):
    _, value = held_by(ws)
    ws.tasuki("lock", "renew", "name", "a", "--token", value["token"], "--json").expect(0)
    ws.tasuki("lock", "release", "name", "a", "--token", value["token"], "--json").expect(0)
    assert not ws.lock_path("name", "a").exists()


@test("release and renew by the recorded process need no token")
def _(ws):
    acquire(ws).expect(0)
    ws.tasuki("lock", "renew", "name", "a").expect(0)
    ws.tasuki("lock", "release", "name", "a").expect(0)
    assert not ws.lock_path("name", "a").exists()


@test("a wrong token is LOCK_LOST, exit 4, and nothing is touched")
def _(ws):
    _, value = held_by(ws)
    before = ws.lock_path("name", "a").read_text()
    for token in ("wrong", value["token"][:-1], value["token"] + "0"):
        for verb in ("release", "renew"):
            check_error(ws.tasuki("lock", verb, "name", "a", "--token", token, "--json"), 4, "LOCK_LOST", "LOCK")
    eq(ws.lock_path("name", "a").read_text(), before, "the file")


@test("without a token somebody else's lock cannot be released or renewed: LOCK_LOST, nothing is touched")
def _(ws):
    held_by(ws)
    before = ws.lock_path("name", "a").read_text()
    for verb in ("release", "renew"):
        check_error(ws.tasuki("lock", verb, "name", "a", "--json"), 4, "LOCK_LOST")
    eq(ws.lock_path("name", "a").read_text(), before, "the file")


@test("release is idempotent: no lock is success")
def _(ws):
    for _ in range(2):
        ws.tasuki("lock", "release", "name", "a", "--json").expect(0)
    token = acquire(ws).expect(0).json["token"]
    for _ in range(2):
        ws.tasuki("lock", "release", "name", "a", "--token", token, "--json").expect(0)


@test("renew without a lock fails")
def _(ws):
    result = ws.tasuki("lock", "renew", "name", "a", "--json")
    assert result.code in (4, 5), result
    assert not ws.lock_path("name", "a").exists()


@test("when another tool deleted the file, renew reports LOCK_LOST or that there is none, and creates nothing")
def _(ws):
    token = acquire(ws).expect(0).json["token"]
    ws.lock_path("name", "a").unlink()
    result = ws.tasuki("lock", "renew", "name", "a", "--token", token, "--json")
    assert result.code in (4, 5), result
    assert not ws.lock_path("name", "a").exists()


@test("when another tool took the lock over, renew and release report LOCK_LOST and keep its file")
def _(ws):
    token = acquire(ws).expect(0).json["token"]
    path = ws.lock_path("name", "a")
    path.unlink()
    foreign_lock(ws, "name", "a", sleeper(ws).pid, created=0)
    before = path.read_text()
    for verb in ("renew", "release"):
        check_error(ws.tasuki("lock", verb, "name", "a", "--token", token, "--json"), 4, "LOCK_LOST")
    eq(path.read_text(), before, "the file")


# -- a place in line ----------------------------------------------------------------------------------------

def until_in_line(ws, proc):
    """Waits until the process holds a ticket byte of the guard file (src/lock/guard.h)."""
    def has_ticket():
        try:
            lines = [line.split() for info in pathlib.Path(f"/proc/{proc.pid}/fdinfo").iterdir() for line in info.read_text().splitlines()]
        except FileNotFoundError:  # a descriptor was closed meanwhile
            return False
        return any(words[0] == "lock:" and "OFDLCK" in words and int(words[-2]) >= 1 << 62 for words in lines if words)
    ws.until(has_ticket, f"process {proc.pid} is in line")


def waiting_call(ws, me, wait="120s"):
    """A call of the instance `me` that waits for the lock; returns when it is in line."""
    proc = ws.spawn("lock", "acquire", "name", "a", "--instance", me, "--wait", wait, "--json")
    until_in_line(ws, proc)
    return proc


def bounded_call(ws, me, env=None):
    """A call that ends by its own time limit. Only an agent reads words about its turn."""
    error = check_error(ws.tasuki("lock", "acquire", "name", "a", "--instance", me, "--wait", "1s", "--json", env=env), 4, "LOCK_HELD")
    assert "place in line is kept" in error["message"], error
    eq(("Repeat the command" in error["message"], "same arguments" in error["message"], "Do not end your turn" in error["message"]),
       (not env, bool(env), bool(env)), "the words for people, for agents")
    eq(error["context"]["place_kept_ms"], 120000, "for how long")


def next_holder(ws):
    """Releases the lock; returns the instance that gets it then."""
    lock = ws.read_lock("name", "a")
    ws.tasuki("lock", "release", "name", "a", "--token", lock["token"]).expect(0)
    ws.until(lambda: ws.lock_path("name", "a").exists() and ws.read_lock("name", "a")["token"] != lock["token"], "a new holder")
    return ws.read_lock("name", "a")["instance"]


@test("a place in line outlives a call that ended by its time limit: the caller's next call has it, one call only", slow=True)
def _(ws):
    acquire(ws, "--pid", sleeper(ws).pid).expect(0)
    bounded_call(ws, "agent-1")
    later = waiting_call(ws, "agent-2")
    bounded_call(ws, "agent-1", env={"TASUKI_AGENT": "codex"})
    again, second = waiting_call(ws, "agent-1"), waiting_call(ws, "agent-1")
    eq([next_holder(ws) for _ in range(3)], ["agent-1", "agent-2", "agent-1"], "the order")
    for proc in (again, later, second):
        eq(proc.wait(), 0, "exit")


@test("a kept place is passed over while nobody comes back for it", slow=True)
def _(ws):
    acquire(ws, "--pid", sleeper(ws).pid).expect(0)
    bounded_call(ws, "agent-1")
    later = waiting_call(ws, "agent-2")
    eq(next_holder(ws), "agent-2", "the next holder")
    eq(later.wait(), 0, "exit")


@test("a kept place is used up when its caller gets the lock without it: later it queues at the end", slow=True)
def _(ws):
    acquire(ws, "--pid", sleeper(ws).pid).expect(0)
    bounded_call(ws, "agent-1")
    token = ws.read_lock("name", "a")["token"]
    ws.tasuki("lock", "release", "name", "a", "--token", token).expect(0)
    mine = ws.tasuki("lock", "acquire", "name", "a", "--instance", "agent-1", "--wait", "60s", "--json").expect(0).json
    ws.tasuki("lock", "release", "name", "a", "--token", mine["token"]).expect(0)
    acquire(ws, "--pid", sleeper(ws).pid).expect(0)
    first, second = waiting_call(ws, "agent-2"), waiting_call(ws, "agent-1")
    eq([next_holder(ws) for _ in range(2)], ["agent-2", "agent-1"], "the order")
    for proc in (first, second):
        eq(proc.wait(), 0, "exit")


@test("a call whose time is up gets the free lock when the caller before it is stopped", slow=True)
def _(ws):
    acquire(ws, "--pid", sleeper(ws).pid).expect(0)
    first = waiting_call(ws, "agent-1")
    first.send_signal(signal.SIGSTOP)
    ws.until(lambda: " T " in pathlib.Path(f"/proc/{first.pid}/stat").read_text(), "the first one is stopped")
    ws.tasuki("lock", "release", "name", "a", "--token", ws.read_lock("name", "a")["token"]).expect(0)
    ws.tasuki("lock", "acquire", "name", "a", "--instance", "agent-2", "--wait", "1ms", "--json").expect(0)
    first.kill()


@test("a place is kept for its own instance only, and only by a call that waited", slow=True)
def _(ws):
    acquire(ws, "--pid", sleeper(ws).pid).expect(0)
    bounded_call(ws, "agent-1")
    error = check_error(ws.tasuki("lock", "acquire", "name", "a", "--instance", "agent-3", "--json"), 4, "LOCK_HELD")
    assert "place_kept_ms" not in error["context"], error
    first, other = waiting_call(ws, "agent-2"), waiting_call(ws, "agent-3")
    eq([next_holder(ws) for _ in range(2)], ["agent-2", "agent-3"], "the order")
    for proc in (first, other):
        eq(proc.wait(), 0, "exit")


@test("lock run in bounded calls keeps the place of the shell that calls it", slow=True)
def _(ws):
    holder = sleeper(ws)
    acquire(ws, "--pid", holder.pid).expect(0)
    run = ("lock", "run", "a", "--wait")
    mine = {"TASUKI_INSTANCE_ID": "agent-1"}
    ws.tasuki(*run, "1s", "--json", "--", "true", env=mine).expect(4, "LOCK_HELD")
    later = waiting_call(ws, "agent-2")
    again = ws.spawn(*run, "120s", "--", "sh", "-c", f'echo > "{ws.base}/ran"', env=mine)
    until_in_line(ws, again)
    token = ws.read_lock("name", "a")["token"]
    ws.tasuki("lock", "release", "name", "a", "--token", token).expect(0)
    eq(later.wait(), 0, "the later one, afterwards")
    assert (ws.base / "ran").exists(), "lock run came first"
    eq(again.wait(), 0, "exit")


@test("somebody who keeps the lock of the event trail: an acquire fails with its pid, a release goes on and its event comes later", slow=True)
def _(ws):
    acquire(ws).expect(0)
    with open(ws.path / ".aiflow/events.lock", "r+") as trail, open(ws.base / "other", "w") as other:
        for byte in range(0, 600, 2):  # the kernel's list of locks is long
            fcntl.lockf(other, fcntl.LOCK_EX, 1, byte)
        fcntl.lockf(trail, fcntl.LOCK_EX)
        error = check_error(acquire(ws, id="b"), 3, "ENVIRONMENT")
        assert str(os.getpid()) in error["message"], error
        eq(error["next"], [f"ps -p {os.getpid()}"], "what to do")
        assert not ws.lock_path("name", "b").exists()
        ws.tasuki("lock", "release", "name", "a").expect(0)
        assert not ws.lock_path("name", "a").exists()
        fcntl.lockf(trail, fcntl.LOCK_UN)
    ws.tasuki("own", "claim", "w").expect(0)  # whoever uses the database moves what waits there
    eq(len(ws.events("lock.released")), 1, "events")


@test("what root makes in a user's workspace belongs to the user, who is not locked out")
def _(ws):
    need_root("another user")
    for path in (ws.base, ws.path, *ws.path.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    ws.tasuki("lock", "run", "deploy", "--", "true").expect(0)
    acquire(ws, id="c").expect(0)
    ws.tasuki("sprint", "acquire", "--session", "s", "--epic", "e").expect(0)
    ws.tasuki("own", "claim", "w").expect(0)
    ws.tasuki("proc", "create", "p", "--", "true").expect(0)
    eq([str(p) for p in ws.path.rglob("*") if p.lstat().st_uid != NOBODY], [], "files of root's")
    run_as_nobody(ws, [ws.binary, "lock", "run", "deploy", "--", "true"]).expect(0)
    run_as_nobody(ws, [ws.binary, "own", "list"]).expect(0)


@test("doctor names one command for all that root has left, and it is enough")
def _(ws):
    need_root("another user")
    acquire(ws).expect(0)
    for path in (ws.base, ws.path, ws.path / ".aiflow"):
        os.chown(path, NOBODY, NOBODY)
    report = ws.tasuki("doctor", "--full", "--json").json
    commands = {c for check in report["checks"] if check["name"] == "workspace" for c in check.get("fix", []) if "chown" in c}
    eq(len(commands), 1, str(commands))
    ws.run(["sh", "-c", commands.pop()]).expect(0)
    eq([str(p) for p in (ws.path / ".aiflow").rglob("*") if p.lstat().st_uid != NOBODY], [], "files of root's")


@test("who asks again for what it holds is told so", slow=True)
def _(ws):
    acquire(ws).expect(0)
    for args in ((), ("--wait", "1s")):
        error = check_error(acquire(ws, *args), 4, "LOCK_HELD")
        assert error["message"].startswith("You hold name a already"), error
        eq(error["next"], ["tasuki lock release name a"], "what to do")
    error = check_error(acquire(ws, "--pid", sleeper(ws).pid), 4, "LOCK_HELD")
    assert error["message"].startswith("a is held by test_lock_ops.py (pid "), error


# -- force --------------------------------------------------------------------------------------------------

@test("force on a live holder needs a confirmation: NEEDS_CONFIRMATION, exit 6, nothing is touched")
def _(ws):
    held_by(ws)
    before = ws.lock_path("name", "a").read_text()
    error = check_error(acquire(ws, "--force"), 6, "NEEDS_CONFIRMATION")
    assert not [c for c in error["next"] if "--yes" in c or "--force" in c], error
    eq(ws.lock_path("name", "a").read_text(), before, "the file")


@test("--yes without --force does not take a live holder's lock")
def _(ws):
    held_by(ws)
    check_error(acquire(ws, "--yes"), 4, "LOCK_HELD")


@test("--force --yes fences the old holder: its next renew and release fail with LOCK_LOST")
def _(ws):
    holder, old = held_by(ws)
    new = acquire(ws, "--force", "--yes").expect(0).json
    assert new["fence"] > old["fence"], (old, new)
    before = ws.lock_path("name", "a").read_text()
    for verb in ("renew", "release"):
        check_error(ws.tasuki("lock", verb, "name", "a", "--token", old["token"], "--json"), 4, "LOCK_LOST")
    eq(ws.lock_path("name", "a").read_text(), before, "the new holder's file")
    assert holder.poll() is None, "the old holder was killed without --kill"


@test("--force --yes --kill ends the old holder first")
def _(ws):
    holder, _ = held_by(ws)
    acquire(ws, "--force", "--yes", "--kill").expect(0)
    holder.wait(60)
    assert holder.returncode in (-signal.SIGTERM, -signal.SIGKILL), holder.returncode


for mode in ("by a life byte", "by a process"):
    @test(f"--kill of a holder that may not be ended is an error with the reason, and the lock stays where it is; held {mode}")
    def _(ws, mode=mode):
        need_root("another user")
        holder = sleeper(ws) if mode == "by a process" else ws.spawn("lock", "run", "a", "--", "sleep", "1000")
        if mode == "by a process":
            acquire(ws, "--pid", holder.pid).expect(0)
        ws.until_held("name", "a")
        for path in (ws.base, ws.path, *ws.path.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        before = ws.lock_path("name", "a").read_text()
        result = run_as_nobody(ws, [ws.binary, "lock", "acquire", "name", "a", "--json", "--force", "--yes", "--kill"])
        error = check_error(result, 3, "ENVIRONMENT")
        assert error["message"].startswith("Cannot end the holder") and "Operation not permitted" in error["message"], error
        eq((ws.lock_path("name", "a").read_text(), holder.poll()), (before, None), "the lock and its holder")


@test("--kill needs --force")
def _(ws):
    holder, _ = held_by(ws)
    result = acquire(ws, "--kill", "--yes")
    assert result.code in (2, 4), result
    assert holder.poll() is None


@test("--kill does not kill a process that only has the pid of a dead holder")
def _(ws):
    holder, _ = held_by(ws)
    lock = ws.read_lock("name", "a")
    ws.write_lock("name", "a", {**lock, "pid_start": lock["pid_start"] - 1})
    acquire(ws, "--force", "--yes", "--kill").expect(0)
    assert holder.poll() is None, "a stranger was killed"


@test("force on a terminal asks; no keeps the holder, yes takes the lock")
def _(ws):
    _, old = held_by(ws)
    args = ("lock", "acquire", "name", "a", "--force", "--json")
    result = ws.tty(args, answers=["n", "n"], split=True)
    assert result.code in (4, 6), result
    eq(ws.read_lock("name", "a")["token"], old["token"], "token after no")
    ws.tty(args, answers=["y", "y"], split=True).expect(0)
    assert ws.read_lock("name", "a")["token"] != old["token"]


@test("force on a free or dead lock asks nothing")
def _(ws):
    acquire(ws, "--force").expect(0)
    ws.tasuki("lock", "release", "name", "a").expect(0)
    holder, _ = held_by(ws)
    holder.kill()
    holder.wait()
    acquire(ws, "--force").expect(0)


@test("a forced takeover is in the event trail")
def _(ws):
    held_by(ws)
    before = len(ws.events())
    acquire(ws, "--force", "--yes").expect(0)
    assert any("FORCE" in e["type"].upper() or "force" in str(e["data"]).lower() for e in ws.events()[before:]), \
        ws.events()[before:]


@test("a force whose event cannot be written leaves the living holder's lock exactly as it was")
def _(ws):
    for kind in ("name", "sprint"):
        words = [kind, "a"] if kind == "name" else [kind, "--session", "s", "--epic", "e"]
        token = ws.tasuki("lock", "acquire", *words, "--pid", sleeper(ws).pid, "--json").expect(0).json["token"]
        path = ws.lock_path("name", "a") if kind == "name" else ws.lock_path("sprint")
        before = (path.read_text(), path.stat().st_ino)
        trail = ws.path / ".aiflow/events.ndjson"
        trail.rename(ws.base / "trail")
        trail.mkdir()
        ws.tasuki("lock", "acquire", *words, "--pid", sleeper(ws).pid, "--force", "--yes", "--json").expect(3)
        eq((path.read_text(), path.stat().st_ino), before, f"the {kind} lock")
        eq([p.name for p in path.parent.iterdir() if p.name.startswith(".tsk-")], [], "what is left beside it")
        trail.rmdir()
        (ws.base / "trail").rename(trail)
        ws.tasuki("lock", "renew", *words[:2 if kind == "name" else 1], "--token", token).expect(0)
        ws.tasuki("lock", "release", *words[:2 if kind == "name" else 1], "--token", token).expect(0)


# -- what a refusal says ------------------------------------------------------------------------------------

@test("a refusal names lock, pid, since when, alive and how we know, the expiry, and the next commands")
def _(ws):
    proc = run_held(ws, "deploy")
    since = ws.read_lock("name", "deploy")["created_at"]
    text = ws.tasuki("--verbose", "lock", "acquire", "name", "deploy").expect(4).err
    for fact in ("deploy", str(proc.pid), "alive", "kernel still holds", since, "expires", "--wait", "lock check", "--force"):
        assert fact in text, f"{fact!r} is missing in:\n{text}"


@test("the refusal's next commands are the exact ones for this lock")
def _(ws):
    run_held(ws, "deploy")
    error = check_error(acquire(ws, id="deploy"), 4, "LOCK_HELD")
    assert not [c for c in error["next"] if "--token" in c], error["next"]
    for word in ("--wait", " check ", "--force"):
        command = [c for c in error["next"] if word in c]
        assert command and all(c.startswith("tasuki ") and "deploy" in c for c in command), error["next"]


@test("a refusal because of a guessed holder that is gone says dead, and until when it excludes")
def _(ws):
    acquire_from_a_script(ws, "lock", "acquire", "name", "a").expect(0)
    text = ws.tasuki("lock", "acquire", "name", "a").expect(4).err
    assert "dead" in text or "gone" in text or "ended" in text, text
    assert "expires" in text and "while the holder lives" not in text, text


@test("the state of a lock whose holder is dead and that is not to be taken yet is dead for people, and held in JSON")
def _(ws):
    acquire_from_a_script(ws, "lock", "acquire", "name", "a").expect(0)
    acquire(ws, id="b").expect(0)
    eq([lock["state"] for lock in ws.tasuki("lock", "list", "--json").expect(0).json["locks"]], ["held", "held"], "states")
    for lang, dead, held in (("en", "dead", "held"), ("ja", "保持者終了", "保持中"), ("zh", "持有者已退出", "被持有")):
        for command in (("lock", "list"), ("status",)):
            rows = {line.split()[1]: line.split()[2] for line in ws.tasuki("--lang", lang, *command).expect(0).out.splitlines()
                    if line.startswith("name ")}
            eq(rows, {"a": dead, "b": held}, f"{command} in {lang}")
    assert ws.tasuki("lock", "check", "name", "a").expect(6).out.startswith("name a: dead\n")
    assert "holds     name a (dead)" in ws.tasuki("agents").expect(0).out
    assert "name b (" not in ws.tasuki("agents").out
    watch = tasuki_screen(ws, "watch")
    rows = watch.until(lambda text: text if re.search(r"^ *a +dead ", text, re.M) else None, "a row of the lock")
    assert re.search(r"^ *b +held ", rows, re.M), rows


main(__name__)
