"""Other tools at the same lock, at their worst moments: the literal D39 and U2 clients, stopped between two steps."""

import os
import pathlib
import signal
import sys

from harness.harness import eq, main, test

CLIENTS = pathlib.Path(__file__).resolve().parents[1] / "clients"
HOUR_MS = 3600 * 1000


def d39(ws, *more):
    """Starts the client; it tries once and holds until its stdin is closed."""
    path = ws.lock_path("name", "x")
    return ws.spawn_command([sys.executable, CLIENTS / "d39.py", "once", path, "name", "x", *more], stdin=-1)


def answer(proc):
    return proc.stdout.readline().strip()


def let_end(proc):
    proc.stdin.close()
    proc.stdin = None
    return proc.wait(60)


def stat_of(pid):
    """The fields of /proc/<pid>/stat from the state on."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def until_stopped(ws, proc):
    ws.until(lambda: stat_of(proc.pid)[0] == "T", "the client is stopped")


def resume(proc):
    proc.send_signal(signal.SIGCONT)


def u2(ws, *args, stop=None):
    return ws.spawn_command([CLIENTS / "u2.sh", *args], env={"U2_STOP": stop, "U2_PID": os.getpid()})


def acquire(ws, *more):
    return ws.tasuki("--json", "lock", "acquire", "name", "x", "--pid", os.getpid(), *more)


def sprint(ws, *more):
    return ws.tasuki("--json", "sprint", *more)


@test("a D39 client that holds a lock keeps tasuki out, and lets a waiter in when it is done")
def _(ws):
    client = d39(ws)
    eq(answer(client), "acquired", "the client's answer")
    acquire(ws).expect(4, "LOCK_HELD")
    waiter = ws.spawn("lock", "run", "x", "--wait", "60s", "--", "true")
    eq(let_end(client), 0, "the client's exit code")
    eq(waiter.wait(60), 0, "the waiter's exit code")


@test("a lock of ours keeps a D39 client out, also when it has expired")
def _(ws):
    ws.fault("--json", "lock", "acquire", "name", "x", "--pid", os.getpid(), wall_ms=-2 * HOUR_MS).expect(0)
    client = d39(ws)
    eq(answer(client), "held", "the client's answer")
    eq(client.wait(60), 4, "the client's exit code")


@test("another tool's lock with much more in it than we know is still a lock")
def _(ws):
    client = d39(ws)
    eq(answer(client), "acquired", "the client's answer")
    content = ws.read_lock("name", "x")
    content["notes"] = ["what the other tool keeps here is its own business"] * 400
    path = ws.write_lock("name", "x", content)
    os.utime(path, (0, 0))  # nobody can take it for a file that is being written
    acquire(ws).expect(4, "LOCK_HELD")
    eq(let_end(client), 0, "the client's exit code")


@test("waiting for another tool's process that has ended but was not reaped costs no processor time", slow=True)
def _(ws):
    client = d39(ws)
    eq(answer(client), "acquired", "the client's answer")
    os.kill(client.pid, signal.SIGKILL)
    ws.until(lambda: stat_of(client.pid)[0] == "Z", "the client is a zombie")
    waiter = ws.spawn("lock", "run", "x", "--wait", "1s", "--", "true")
    used = 0
    while waiter.poll() is None:
        try:
            used = max(used, sum(map(int, stat_of(waiter.pid)[11:13])))
        except OSError:
            break
    eq(waiter.wait(60), 4, "the waiter's exit code")
    assert used <= os.sysconf("SC_CLK_TCK") // 4, f"the waiter used {used} clock ticks in one second"


def leave_expired_lock_of_the_dead(ws):
    victim = ws.spawn_command(["sleep", "1000"])
    ws.fault("--json", "lock", "acquire", "name", "x", "--pid", victim.pid, wall_ms=-2 * HOUR_MS).expect(0)
    victim.kill()
    victim.wait()


@test("a D39 client that deletes late takes our lock away, and every command of ours says LOCK_LOST")
def _(ws):
    leave_expired_lock_of_the_dead(ws)
    client = d39(ws, "--stop-before-delete")
    until_stopped(ws, client)
    won = acquire(ws).expect(0).json
    resume(client)
    eq(answer(client), "acquired", "the client's answer")
    ws.tasuki("--json", "lock", "renew", "name", "x", "--token", won["token"]).expect(4, "LOCK_LOST")
    ws.tasuki("--json", "lock", "release", "name", "x", "--token", won["token"]).expect(4, "LOCK_LOST")
    eq(ws.read_lock("name", "x")["pid"], client.pid, "the pid in the lock file")
    eq(let_end(client), 0, "the client's exit code")


@test("lock run tells that its lock was deleted under it")
def _(ws):
    leave_expired_lock_of_the_dead(ws)
    client = d39(ws, "--stop-before-delete")
    until_stopped(ws, client)
    run = ws.spawn("lock", "run", "x", "--", "sh", "-c", "echo in; exec cat", stdin=-1)
    eq(answer(run), "in", "the command's first word")
    resume(client)
    eq(answer(client), "acquired", "the client's answer")
    run.stdin.close()
    run.stdin = None
    run.wait(60)
    assert run.stderr.read().strip(), "it said nothing"
    eq(len(ws.events("lock.lost")), 1, "lock.lost events")
    eq(ws.read_lock("name", "x")["pid"], client.pid, "the pid in the lock file")
    eq(let_end(client), 0, "the client's exit code")


@test("a U2 client that saw no lock cannot write over the one we took meanwhile")
def _(ws):
    client = u2(ws, "acquire", ws.path, "u2", "epic", stop="before-tmp")
    until_stopped(ws, client)
    sprint(ws, "acquire", "--session", "ours", "--epic", "e").expect(0)
    resume(client)
    eq(answer(client), "failure", "the client's answer")
    client.wait(60)
    eq(ws.read_lock("sprint")["session_id"], "ours", "the session in the file")
    sprint(ws, "release", "--session", "ours").expect(0)
    eq(os.path.lexists(ws.path / ".sprint-running.tmp"), False, "that the temporary directory is left")


@test("a U2 client that is about to rename keeps us out, and then has the lock")
def _(ws):
    client = u2(ws, "acquire", ws.path, "u2", "epic", stop="before-mv")
    until_stopped(ws, client)
    eq(sprint(ws, "acquire", "--session", "ours", "--epic", "e").expect(4).json["status"], "blocked", "our status")
    resume(client)
    eq(answer(client), "acquired", "the client's answer")
    client.wait(60)
    eq(sprint(ws, "check").expect(4).json["lock_info"]["session_id"], "u2", "the session that blocks us")


@test("a U2 client that judged a zombie cannot write over the one who replaced it")
def _(ws):
    victim = ws.spawn_command(["sleep", "1000"])
    ws.tasuki("lock", "acquire", "sprint", "--session", "dead", "--epic", "e", "--pid", victim.pid).expect(0)
    victim.kill()
    victim.wait()
    client = u2(ws, "acquire", ws.path, "u2", "epic", "yes", stop="before-tmp")
    until_stopped(ws, client)
    sprint(ws, "acquire", "--session", "ours", "--epic", "e", "--yes").expect(0)
    resume(client)
    eq(answer(client), "failure", "the client's answer")
    client.wait(60)
    eq(ws.read_lock("sprint")["session_id"], "ours", "the session in the file")


@test("a U2 client and tasuki see each other's sprint")
def _(ws):
    client = u2(ws, "acquire", ws.path, "u2", "epic")
    eq(answer(client), "acquired", "the client's answer")
    client.wait(60)
    eq(sprint(ws, "acquire", "--session", "ours", "--epic", "e").expect(4).json["status"], "blocked", "our status")
    u2(ws, "release", ws.path).wait(60)
    sprint(ws, "acquire", "--session", "ours", "--epic", "e").expect(0)
    client = u2(ws, "acquire", ws.path, "u2", "epic", "yes")
    eq(answer(client), "blocked", "the client's answer")
    client.wait(60)


main(__name__)
