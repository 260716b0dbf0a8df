"""Spec 3, operations: what acquire, release, renew, check and list answer, proofs of holding, and force."""

import os
import signal

from common import (HOLDER_KEYS, acquire_from_a_script, check_error, dead_pid, foreign_lock, parse_time, run_held,
                    sleeper)
from harness.harness import eq, main, test

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


# -- force --------------------------------------------------------------------------------------------------

@test("force on a live holder needs a confirmation: NEEDS_CONFIRMATION, exit 6, nothing is touched")
def _(ws):
    held_by(ws)
    before = ws.lock_path("name", "a").read_text()
    error = check_error(acquire(ws, "--force"), 6, "NEEDS_CONFIRMATION")
    assert any("--yes" in command for command in error["next"]), error
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


# -- what a refusal says ------------------------------------------------------------------------------------

@test("a refusal names lock, pid, since when, alive and how we know, the expiry, and the next commands")
def _(ws):
    proc = run_held(ws, "deploy")
    since = ws.read_lock("name", "deploy")["created_at"]
    text = ws.tasuki("lock", "acquire", "name", "deploy").expect(4).err
    for fact in ("deploy", str(proc.pid), "alive", "kernel still holds", since, "expires", "--wait", "release", "--force"):
        assert fact in text, f"{fact!r} is missing in:\n{text}"


@test("the refusal's next commands are the exact ones for this lock")
def _(ws):
    run_held(ws, "deploy")
    error = check_error(acquire(ws, id="deploy"), 4, "LOCK_HELD")
    for word in ("--wait", "release", "--force"):
        command = [c for c in error["next"] if word in c]
        assert command and all(c.startswith("tasuki ") and "deploy" in c for c in command), error["next"]


@test("a refusal because of a guessed holder that is gone says dead, and until when it excludes")
def _(ws):
    acquire_from_a_script(ws, "lock", "acquire", "name", "a").expect(0)
    text = ws.tasuki("lock", "acquire", "name", "a").expect(4).err
    assert "dead" in text or "gone" in text or "ended" in text, text
    assert "expires" in text and "while the holder lives" not in text, text


main(__name__)
