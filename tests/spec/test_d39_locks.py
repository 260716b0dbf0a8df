"""D39 (seed 000): the request and queue locks as files, what others may rely on, and when a lock is stale."""

import datetime
import os

from common import (ADDED_KEYS, D39_KEYS, HOLDER_KEYS, check_error, dead_pid, foreign_lock, make_old, now, parse_time,
                    sleeper)
from harness.harness import eq, main, test

MODE = 0o600


def acquire(ws, kind, id=None, *more):
    return ws.tasuki("lock", "acquire", kind, *([id] if id else []), *more, "--json")


# -- 2: the file --------------------------------------------------------------------------------------------

@test("2.1 the request lock is .aiflow/locks/request.<request_id>.lock.json, mode 0600")
def _(ws):
    value = acquire(ws, "request", "RQ-1", "--run", "RUN-1").expect(0).json
    path = ws.path / ".aiflow/locks/request.RQ-1.lock.json"
    eq(path.stat().st_mode & 0o7777, MODE, "mode")
    eq(os.path.realpath(ws.path / value["path"]), str(path), "path")


@test("2.1 the queue lock is .aiflow/locks/queue.lock.json")
def _(ws):
    acquire(ws, "queue").expect(0)
    assert (ws.path / ".aiflow/locks/queue.lock.json").is_file()


@test("2.2 the file has D39's keys with D39's types, and the added ones")
def _(ws):
    value = acquire(ws, "request", "RQ-1", "--run", "RUN-1").expect(0).json
    lock = ws.read_lock("request", "RQ-1")
    eq(list(lock)[:8], ["version", "lock_type", "request_id", "run_id", "pid", "host", "created_at", "expires_at"])
    eq((lock["version"], lock["lock_type"], lock["request_id"], lock["run_id"], lock["host"]),
       ("1.0", "request", "RQ-1", "RUN-1", "127.0.0.1"))
    eq(lock["pid"], os.getpid(), "pid")
    assert D39_KEYS | ADDED_KEYS <= set(lock), lock
    for key in ("fence", "pid_ns", "pid_start", "expires_boot_ms"):
        assert type(lock[key]) is int, f"{key} is {lock[key]!r}"
    for key in ("token", "hostname", "boot_id", "hold"):
        assert isinstance(lock[key], str) and lock[key], f"{key} is {lock[key]!r}"
    eq((lock["fence"], lock["token"]), (value["fence"], value["token"]), "fence and token")
    eq(lock["pid_ns"], os.stat("/proc/self/ns/pid").st_ino, "pid_ns")


@test("2.2 a name lock has lock_type name and the key name")
def _(ws):
    acquire(ws, "name", "deploy").expect(0)
    lock = ws.read_lock("name", "deploy")
    eq((lock["lock_type"], lock["name"], lock["request_id"], lock["run_id"]), ("name", "deploy", None, None))


@test("2.2 the queue lock has lock_type queue; between two requests request_id and run_id are null")
def _(ws):
    acquire(ws, "queue").expect(0)
    lock = ws.read_lock("queue")
    eq((lock["lock_type"], lock["request_id"], lock["run_id"]), ("queue", None, None))


@test("2.2 times are ISO 8601 with an offset; created_at is now")
def _(ws):
    acquire(ws, "request", "RQ-1").expect(0)
    created = parse_time(ws.read_lock("request", "RQ-1")["created_at"])
    assert abs((now() - created).total_seconds()) < 60, created


# -- 3: acquire, release, TTL -------------------------------------------------------------------------------

@test("3.1 another tool that creates with O_EXCL cannot while the lock is held, and can when it is released")
def _(ws):
    acquire(ws, "request", "RQ-1").expect(0)
    path = ws.lock_path("request", "RQ-1")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        raise AssertionError("another tool could create the lock file while it was held")
    except FileExistsError:
        pass
    ws.tasuki("lock", "release", "request", "RQ-1").expect(0)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))


@test("3.1 acquire fails when another tool holds the lock, and leaves its file alone")
def _(ws):
    path = foreign_lock(ws, "request", "RQ-1", sleeper(ws).pid, created=0)
    before = (path.read_text(), path.stat().st_ino)
    acquire(ws, "request", "RQ-1").expect(4, "RUN_IN_PROGRESS")
    eq((path.read_text(), path.stat().st_ino), before, "the file")


@test("3.3 the default TTL is 30 minutes; --ttl changes it")
def _(ws):
    for options, seconds in (([], 1800), (["--ttl", "90s"], 90), (["--ttl", "2h"], 7200)):
        value = acquire(ws, "request", "RQ-1", *options).expect(0).json
        lock = ws.read_lock("request", "RQ-1")
        span = parse_time(lock["expires_at"]) - parse_time(lock["created_at"])
        assert abs(span - datetime.timedelta(seconds=seconds)).total_seconds() <= 1, lock
        eq(parse_time(value["expires_at"]), parse_time(lock["expires_at"]), "expires_at of the result")
        ws.tasuki("lock", "release", "request", "RQ-1").expect(0)


@test("3.3 a heartbeat extends expires_at and keeps everything else")
def _(ws):
    token = acquire(ws, "request", "RQ-1", "--run", "RUN-1", "--ttl", "60s").expect(0).json["token"]
    before = ws.read_lock("request", "RQ-1")

    def renewed():
        ws.tasuki("lock", "renew", "request", "RQ-1", "--token", token).expect(0)
        return parse_time(ws.read_lock("request", "RQ-1")["expires_at"]) > parse_time(before["expires_at"])

    ws.until(renewed, "expires_at grows")
    after = ws.read_lock("request", "RQ-1")
    changed = {key for key in after if after[key] != before[key]}
    eq(changed, {"expires_at", "expires_boot_ms"}, "the keys that changed")


@test("a live lock of ours past half of its TTL is renewed by any tasuki that meets it", slow=True)
def _(ws):
    acquire(ws, "request", "RQ-1", "--ttl", "1s").expect(0)
    before = ws.read_lock("request", "RQ-1")["expires_at"]

    def is_renewed():
        ws.tasuki("lock", "check", "request", "RQ-1").expect(4)
        return ws.read_lock("request", "RQ-1")["expires_at"] != before

    ws.until(is_renewed, "the lock is renewed by a check")


# -- 4: conflicts -------------------------------------------------------------------------------------------

@test("4.1 a request conflict is RUN_IN_PROGRESS, category EXECUTION, with request_id, run_id and latest_run")
def _(ws):
    acquire(ws, "request", "RQ-1", "--run", "RUN-7").expect(0)
    result = acquire(ws, "request", "RQ-1", "--run", "RUN-8")
    error = check_error(result, 4, "RUN_IN_PROGRESS", "EXECUTION")
    eq((error["context"]["request_id"], error["context"]["run_id"]), ("RQ-1", "RUN-7"))
    assert "RUN-7" in result.json.get("latest_run", ""), result
    assert HOLDER_KEYS <= set(error["context"]["holder"]), error
    eq((error["context"]["holder"]["pid"], error["context"]["holder"]["alive"]), (os.getpid(), True))


@test("4.1 the message in Japanese is D39's")
def _(ws):
    acquire(ws, "request", "RQ-1", "--run", "RUN-7").expect(0)
    result = ws.tasuki("--lang", "ja", "lock", "acquire", "request", "RQ-1", "--json").expect(4)
    assert "同一RequestのRunが実行中です" in result.error["message"], result


@test("4.2 a queue conflict is QUEUE_IN_PROGRESS, category EXECUTION")
def _(ws):
    acquire(ws, "queue").expect(0)
    check_error(acquire(ws, "queue"), 4, "QUEUE_IN_PROGRESS", "EXECUTION")
    result = ws.tasuki("--lang", "ja", "lock", "acquire", "queue", "--json").expect(4)
    assert "キュー実行がすでに動作中です" in result.error["message"], result


@test("a name conflict is LOCK_HELD, category LOCK")
def _(ws):
    acquire(ws, "name", "deploy").expect(0)
    check_error(acquire(ws, "name", "deploy"), 4, "LOCK_HELD", "LOCK")


# -- 5: stale locks -----------------------------------------------------------------------------------------

def is_taken(ws, kind="request", id="RQ-1"):
    """Tries to acquire; True: taken over from a stale holder, with its event; False: refused."""
    before = len(ws.events("LOCK_STALE_RECOVERED"))
    result = acquire(ws, kind, id, "--run", "RUN-mine")
    if result.code == 4:
        eq(len(ws.events("LOCK_STALE_RECOVERED")), before, "number of LOCK_STALE_RECOVERED events")
        return False
    assert result.expect(0).json.get("recovered"), result
    eq(len(ws.events("LOCK_STALE_RECOVERED")), before + 1, "number of LOCK_STALE_RECOVERED events")
    return True


@test("5.1 another tool's lock that is dead and expired is taken over, with the event LOCK_STALE_RECOVERED")
def _(ws):
    for kind, id in (("request", "RQ-1"), ("queue", None), ("name", "deploy")):
        foreign_lock(ws, kind, id, dead_pid(), created=-3600, expires=-1800)
        assert is_taken(ws, kind, id), f"the {kind} lock was not taken over"


@test("5.1 another tool's lock that is dead but not expired is held")
def _(ws):
    foreign_lock(ws, "request", "RQ-1", dead_pid())
    assert not is_taken(ws)


@test("5.1 an expired lock whose process lives is not taken over")
def _(ws):
    foreign_lock(ws, "request", "RQ-1", sleeper(ws).pid, created=0, expires=-1)
    assert not is_taken(ws)


@test("5.2 without a pid a lock is stale once it is expired, and held before")
def _(ws):
    for pid in (None, "abc", 0, -1):
        foreign_lock(ws, "request", "RQ-1", pid)
        assert not is_taken(ws), f"taken over before its expiry with pid {pid!r}"
        foreign_lock(ws, "request", "RQ-1", pid, created=-3600, expires=-1)
        assert is_taken(ws), f"not taken over after its expiry with pid {pid!r}"
        ws.tasuki("lock", "release", "request", "RQ-1").expect(0)


@test("a lock file with keys that nobody knows is read")
def _(ws):
    foreign_lock(ws, "request", "RQ-1", sleeper(ws).pid, created=0, flavour={"deep": [1, 2]})
    error = check_error(acquire(ws, "request", "RQ-1"), 4, "RUN_IN_PROGRESS")
    eq(error["context"]["run_id"], "RUN-foreign")


@test("a large lock file with keys that nobody knows is read: its living holder keeps it")
def _(ws):
    for size in (3000, 6000, 20000, 60000):
        path = foreign_lock(ws, "request", "RQ-1", sleeper(ws).pid, created=0, notes="x" * size)
        make_old(path, 3600)
        assert not is_taken(ws), f"a live lock of {size} bytes was taken over"


@test("a file that cannot be parsed is held until it is 10 s old, then stale")
def _(ws):
    for text in ("", "{", '{"version": "1.0", "pid"', "[]", "null", "\0\0\0\0", '{"version": "1.0"} trailing'):
        path = ws.write_lock("request", "RQ-1", text)
        assert not is_taken(ws), f"taken over while young: {text!r}"
        eq(path.read_text(), text, "the file")
        make_old(path)
        assert is_taken(ws), f"not taken over when old: {text!r}"
        ws.tasuki("lock", "release", "request", "RQ-1").expect(0)


@test("what may be taken at once is not said to count as alive")
def _(ws):
    make_old(ws.write_lock("request", "RQ-1", "{"))
    foreign_lock(ws, "request", "RQ-2", None, created=-4000, expires=-2000)
    for id in ("RQ-1", "RQ-2"):
        result = ws.tasuki("lock", "check", "request", id).expect(6)
        text = result.out + result.err
        assert "stale" in text and "unknown" in text and "counts as alive" not in text, text


@test("our own lock is taken over as soon as its holder is dead, long before its expiry")
def _(ws):
    holder = sleeper(ws)
    acquire(ws, "request", "RQ-1", "--pid", str(holder.pid)).expect(0)
    assert not is_taken(ws)
    holder.kill()
    holder.wait()
    assert is_taken(ws)


@test("expiry alone never ends a live holder of ours")
def _(ws):
    value = acquire(ws, "request", "RQ-1", "--ttl", "1s").expect(0).json
    ws.until(lambda: now() > parse_time(value["expires_at"]), "the TTL is over")
    assert not is_taken(ws)
    ws.tasuki("lock", "renew", "request", "RQ-1", "--token", value["token"]).expect(0)


@test("the event of a takeover says which lock, and whose it was")
def _(ws):
    pid = dead_pid()
    foreign_lock(ws, "request", "RQ-1", pid, created=-3600, expires=-1800)
    assert is_taken(ws)
    events = ws.tasuki("events", "--type", "LOCK_STALE_RECOVERED", "--json").expect(0).json["events"]
    eq(len(events), 1, "number of events")
    event = events[0]
    assert {"id", "time", "type", "data"} <= set(event), event
    assert str(pid) in str(event) and "RQ-1" in str(event), event


# -- 10: acceptance -----------------------------------------------------------------------------------------

@test("10.1 the same request cannot run twice; another one can")
def _(ws):
    acquire(ws, "request", "RQ-1", "--run", "RUN-1").expect(0)
    acquire(ws, "request", "RQ-1", "--run", "RUN-2").expect(4, "RUN_IN_PROGRESS")
    acquire(ws, "request", "RQ-2", "--run", "RUN-3").expect(0)


@test("10.2 auto-run cannot be started twice")
def _(ws):
    acquire(ws, "queue").expect(0)
    acquire(ws, "queue").expect(4, "QUEUE_IN_PROGRESS")


@test("10.3 a crash does not clog: request and queue are free at once when their process was killed")
def _(ws):
    holder = sleeper(ws)
    acquire(ws, "queue", None, "--pid", str(holder.pid)).expect(0)
    acquire(ws, "request", "RQ-1", "--pid", str(holder.pid)).expect(0)
    holder.kill()
    holder.wait()
    assert is_taken(ws, "queue", None) and is_taken(ws, "request", "RQ-1")


@test("10.4 one can see what is locked now")
def _(ws):
    acquire(ws, "request", "RQ-1", "--run", "RUN-1").expect(0)
    acquire(ws, "queue").expect(0)
    text = ws.tasuki("lock", "list").expect(0).out
    assert "RQ-1" in text and "queue" in text and str(os.getpid()) in text, text
    assert "RQ-1" in ws.tasuki("status").expect(0).out


main(__name__)
