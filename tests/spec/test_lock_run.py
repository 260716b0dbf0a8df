"""Spec 3: `tasuki lock run`, and waiting in arrival order."""

import json
import os
import pty
import pathlib
import signal

from common import check_error, foreign_lock, run_held, sleeper, until_settled
from harness.harness import eq, main, test

ACQUIRE = ("lock", "acquire", "name", "a", "--json")
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def is_free(ws, id="a"):
    return ws.tasuki("lock", "check", "name", id).code == 0


# -- the command --------------------------------------------------------------------------------------------

@test("the command's exit code is returned")
def _(ws):
    for code in (0, 1, 3, 4, 77, 255):
        eq(ws.tasuki("lock", "run", "a", "--", "sh", "-c", f"exit {code}").code, code, "exit code")
    assert is_free(ws)


@test("a command that does not exist is 127, one that cannot be executed 126; the lock is free again")
def _(ws):
    result = ws.tasuki("lock", "run", "a", "--", "no-such-command-here")
    eq(result.code, 127, "exit code")
    assert "no-such-command-here" in result.err, result
    plain = ws.path / "plain"
    plain.write_text("not a program")
    eq(ws.tasuki("lock", "run", "a", "--", str(plain)).code, 126, "exit code")
    assert is_free(ws)


@test("a command ended by a signal is 128 + its number")
def _(ws):
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV):
        eq(ws.tasuki("lock", "run", "a", "--", "sh", "-c", f"kill -{int(number)} $$").code, 128 + number, "exit code")
    assert is_free(ws)


@test("signals are passed on to the command")
def _(ws):
    for number in SIGNALS:
        name = number.name[3:]
        proc = run_held(ws, "a", f"trap 'echo {name} > got; exit 7' {name}; echo > ready; while :; do sleep 0.05; done")
        ws.until_file(ws.path / "ready")
        proc.send_signal(number)
        eq(ws.finish(proc).code, 7, f"exit code after {name}")
        eq((ws.path / "got").read_text().strip(), name, "what the command got")
        (ws.path / "ready").unlink()
        assert is_free(ws)


@test("the command finds TASUKI_LOCK and TASUKI_LOCK_FENCE in its environment")
def _(ws):
    result = ws.tasuki("lock", "run", "a", "--", "sh", "-c",
                       f'echo "$TASUKI_LOCK $TASUKI_LOCK_FENCE"; cat {ws.lock_path("name", "a")}').expect(0)
    first, _, rest = result.out.partition("\n")
    name, fence = first.split()
    assert "a" in name, first
    assert f'"fence": {fence}' in rest.replace('"fence":', '"fence": ').replace("  ", " "), result


@test("nothing is printed on success")
def _(ws):
    result = ws.tasuki("lock", "run", "a", "--", "true").expect(0)
    eq((result.out, result.err), ("", ""), "output")


@test("stdin, stdout and stderr are the command's")
def _(ws):
    result = ws.tasuki("lock", "run", "a", "--", "sh", "-c", "cat; echo e >&2", input="through\0\xff\n").expect(0)
    eq((result.out, result.err), ("through\0\xff\n", "e\n"), "output")


@test("the command sees its arguments unchanged, options and `--` included")
def _(ws):
    args = ["--json", "--", "-x", "", "a b", "$HOME", "*"]
    result = ws.tasuki("lock", "run", "a", "--", "printf", "[%s]", *args).expect(0)
    eq(result.out, "".join(f"[{a}]" for a in args), "output")


@test("the lock is held while the command runs, by a life byte, and free afterwards")
def _(ws):
    proc = run_held(ws, "a")
    lock = ws.read_lock("name", "a")
    eq((lock["hold"], lock["pid"]), ("life", proc.pid), "hold and pid")
    ws.tasuki(*ACQUIRE).expect(4, "LOCK_HELD")
    proc.terminate()
    eq(ws.finish(proc).code, 128 + signal.SIGTERM, "exit code")
    assert is_free(ws) and not ws.lock_path("name", "a").exists()


@test("without `--` or without a command nothing is run: exit 2")
def _(ws):
    eq(ws.tasuki("lock", "run", "a").code, 2, "exit without a command")
    eq(ws.tasuki("lock", "run", "a", "--").code, 2, "exit with nothing after --")
    eq(ws.tasuki("lock", "run", "a", "touch", "ran").code, 2, "exit without --")
    eq(ws.tasuki("lock", "run", "--", "touch", "ran").code, 2, "exit without a name")
    assert not (ws.path / "ran").exists() and is_free(ws)


@test("a refusal does not run the command: exit 4")
def _(ws):
    run_held(ws, "a")
    result = ws.tasuki("lock", "run", "a", "--", "touch", "ran").expect(4)
    assert not (ws.path / "ran").exists()
    assert result.err and not result.out, result


@test("the command does not inherit descriptors other than the life byte's")
def _(ws):
    result = ws.tasuki("lock", "run", "a", "--", "sh", "-c", "ls -l /proc/self/fd").expect(0)
    extra = [line for line in result.out.splitlines() if "->" in line and int(line.split()[-3]) > 2]
    extra = [line for line in extra if "/proc/" not in line]
    assert len(extra) == 1 and ".guard" in extra[0], extra


# -- death --------------------------------------------------------------------------------------------------

@test("tasuki SIGKILLed: the lock stays held until the command and what it started have ended")
def _(ws):
    proc = run_held(ws, "a", "sleep 1000 & echo $! > child; echo $$ > parent; wait")
    child = int(ws.until_file(ws.path / "child"))
    parent = int(ws.until_file(ws.path / "parent"))
    proc.kill()
    proc.wait()
    ws.tasuki(*ACQUIRE).expect(4, "LOCK_HELD")
    os.kill(parent, signal.SIGKILL)
    ws.until(lambda: not ws.alive(parent), "the command has ended")
    ws.tasuki(*ACQUIRE).expect(4, "LOCK_HELD")
    os.kill(child, signal.SIGKILL)
    ws.until(lambda: ws.tasuki(*ACQUIRE).code == 0, "the lock is free when the last one has ended")


@test("a daemon that the command leaves behind does not keep the lock after a normal end")
def _(ws):
    ws.tasuki("lock", "run", "a", "--", "sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $! > daemon").expect(0)
    daemon = int(ws.until_file(ws.path / "daemon"))
    try:
        assert ws.alive(daemon)
        ws.tasuki(*ACQUIRE).expect(0)
    finally:
        os.kill(daemon, signal.SIGKILL)


@test("a forced lock: the command goes on, and at its end the new holder's lock is untouched")
def _(ws):
    proc = run_held(ws, "a", "while ! test -e go; do sleep 0.02; done; exit 5")
    holder = sleeper(ws)
    ws.tasuki(*ACQUIRE, "--force", "--yes", "--pid", holder.pid).expect(0)
    content = ws.lock_path("name", "a").read_text()
    (ws.path / "go").touch()
    result = ws.finish(proc)
    eq(ws.lock_path("name", "a").read_text(), content, "the new holder's lock")
    assert result.code in (4, 5), result
    assert result.err, "nobody said that the lock was lost"


def renewed_twice(ws, id):
    for _ in range(2):
        before = ws.read_lock("name", id)["expires_at"]
        ws.until(lambda: ws.read_lock("name", id)["expires_at"] > before, "a renewal")


@test("the lock is renewed while the command runs, again and again; that it is lost is said when it is found, and at the end", slow=True)
def _(ws):
    one, two = (ws.spawn("--json", "lock", "run", id, "--ttl", "1s", "--", "sh", "-c", "while ! test -e go; do sleep 0.02; done")
                for id in ("a", "b"))
    for id in ("a", "b"):
        ws.until_held("name", id)
    renewed_twice(ws, "a")
    ws.lock_path("name", "a").unlink()
    said = [one.stderr.readline()]
    renewed_twice(ws, "b")  # the first could have said it again meanwhile
    (ws.path / "go").touch()
    ws.finish(two).expect(0)
    said += ws.finish(one).err.splitlines()
    eq([json.loads(line)["error"]["reason_code"] for line in said], ["LOCK_LOST", "LOCK_LOST"], "found by a renewal, and at the end")


@test("with --json a lost lock is one JSON document on stderr")
def _(ws):
    proc = ws.spawn("--json", "lock", "run", "a", "--", "sh", "-c", "echo x > up; while ! test -e go; do sleep 0.02; done")
    ws.until_file("up")
    ws.tasuki(*ACQUIRE, "--force", "--yes", "--pid", sleeper(ws).pid).expect(0)
    (ws.path / "go").touch()
    result = ws.finish(proc)
    eq([json.loads(line)["error"]["reason_code"] for line in result.err.splitlines()], ["LOCK_LOST"], f"documents in {result.err!r}")


# -- waiting ------------------------------------------------------------------------------------------------

def start_waiter(ws, tag, wait="forever"):
    proc = ws.spawn("lock", "run", "a", "--wait", wait, "--", "sh", "-c", f"echo {tag} >> order")
    until_settled(ws, proc)
    return proc


def gated_holder(ws):
    return run_held(ws, "a", "while ! test -e go; do sleep 0.02; done")


@test("--wait: the waiters get the lock in the order in which they came, and do not poll")
def _(ws):
    gated_holder(ws)
    waiters = [start_waiter(ws, tag) for tag in "ABCD"]
    (ws.path / "go").touch()
    for waiter in waiters:
        ws.finish(waiter).expect(0)
    eq((ws.path / "order").read_text().split(), list("ABCD"), "the order")


@test("--wait wakes when the holder is killed with all it started")
def _(ws):
    proc = run_held(ws, "a")
    waiter = start_waiter(ws, "A")
    os.killpg(proc.pid, signal.SIGKILL)
    ws.finish(waiter).expect(0)
    eq((ws.path / "order").read_text(), "A\n", "the order")


@test("--wait wakes when the recorded process of an acquired lock ends")
def _(ws):
    holder = sleeper(ws)
    ws.tasuki("lock", "acquire", "name", "a", "--pid", holder.pid).expect(0)
    waiter = start_waiter(ws, "A")
    holder.kill()
    holder.wait()
    ws.finish(waiter).expect(0)


@test("--wait wakes when the lock is released by another command, of any kind")
def _(ws):
    for kind, id in (("name", ["a"]), ("request", ["RQ-1"]), ("queue", [])):
        token = ws.tasuki("lock", "acquire", kind, *id, "--json").expect(0).json["token"]
        waiter = ws.spawn("lock", "acquire", kind, *id, "--wait", "60s", "--json")
        until_settled(ws, waiter)
        ws.tasuki("lock", "release", kind, *id, "--token", token).expect(0)
        ws.finish(waiter).expect(0)


@test("--wait wakes when another tool deletes its lock file")
def _(ws):
    path = foreign_lock(ws, "name", "a", sleeper(ws).pid, created=0)
    waiter = ws.spawn("lock", "run", "a", "--wait", "60s", "--", "sh", "-c", "echo A >> order")
    ws.until(lambda: ws.alive(waiter.pid) and pathlib.Path(f"/proc/{waiter.pid}/stat").read_text().split(") ")[1][0]
             == "S", "the waiter sleeps")
    path.unlink()
    ws.finish(waiter).expect(0)


@test("a waiter that is killed does not disturb the others")
def _(ws):
    gated_holder(ws)
    first, second, third, fourth = (start_waiter(ws, tag) for tag in "ABCD")
    first.kill()
    third.kill()
    first.wait()
    third.wait()
    (ws.path / "go").touch()
    ws.finish(second).expect(0)
    ws.finish(fourth).expect(0)
    eq((ws.path / "order").read_text().split(), ["B", "D"], "the order")
    assert is_free(ws)


@test("a waiter can be interrupted: it ends, runs nothing and leaves the queue")
def _(ws):
    gated_holder(ws)
    first, second = (start_waiter(ws, tag) for tag in "AB")
    first.send_signal(signal.SIGINT)
    result = ws.finish(first)
    assert result.code != 0, result
    (ws.path / "go").touch()
    ws.finish(second).expect(0)
    eq((ws.path / "order").read_text().split(), ["B"], "the order")


@test("when the wait is over: exit 4, with the holder")
def _(ws):
    proc = run_held(ws, "a")
    result = ws.tasuki("lock", "run", "a", "--wait", "100ms", "--", "touch", "ran").expect(4)
    assert str(proc.pid) in result.err, result
    error = check_error(ws.tasuki(*ACQUIRE, "--wait", "100ms"), 4, "LOCK_HELD")
    eq(error["context"]["holder"]["pid"], proc.pid, "pid of the holder")
    assert not (ws.path / "ran").exists()


@test("a new command does not overtake those who wait")
def _(ws):
    gated_holder(ws)
    waiter = ws.spawn("lock", "run", "a", "--wait", "60s", "--", "sh", "-c",
                      "echo A >> order; while ! test -e end; do sleep 0.02; done")
    until_settled(ws, waiter)
    (ws.path / "go").touch()
    ws.until_file(ws.path / "order")
    ws.tasuki(*ACQUIRE).expect(4)
    (ws.path / "end").touch()
    ws.finish(waiter).expect(0)


@test("a lock run inside a lock run of the same name is refused, not a deadlock")
def _(ws):
    result = ws.tasuki("lock", "run", "a", "--", ws.binary, "lock", "run", "a", "--", "true", timeout=60)
    eq(result.code, 4, "exit code")


@test("a wait for a lock that the surrounding lock run holds ends at once, in words; a lock of that name elsewhere is another one")
def _(ws):
    for inner in ("lock run a --wait 1h -- true", "lock acquire name a --wait 1h"):
        result = ws.tasuki("lock", "run", "a", "--", "sh", "-c", f"exec {ws.binary} {inner}").expect(4)
        assert "holds the lock a already" in result.err and "--wait" not in result.err + result.out, result
        assert "--force" not in result.err, result
    (ws.path / "other").mkdir()
    script = f"{ws.binary} --root other init >&2 && exec {ws.binary} --root other lock run a -- echo taken"
    eq(ws.tasuki("lock", "run", "a", "--", "sh", "-c", script).expect(0).out, "taken\n", "in another workspace")


@test("a lock run by the program that holds the lock: the refusal says so, and proposes no wait for itself")
def _(ws):
    ws.tasuki(*ACQUIRE).expect(0)
    for wait in ((), ("--wait", "300ms")):
        error = ws.tasuki("lock", "run", "a", *wait, "--", "true").expect(4).err
        assert "You hold name a already" in error and "--wait" not in error and "--force" not in error, error
    ws.tasuki("lock", "release", "name", "a").expect(0)
    ws.tasuki(*ACQUIRE, "--pid", sleeper(ws).pid).expect(0)
    error = ws.tasuki("lock", "run", "a", "--", "true").expect(4).err
    assert "You hold" not in error and "--wait" in error, error


@test("ten locks at once are independent")
def _(ws):
    procs = [run_held(ws, f"n{i}", "while ! test -e go; do sleep 0.02; done") for i in range(10)]
    (ws.path / "go").touch()
    for proc in procs:
        ws.finish(proc).expect(0)


@test("Ctrl-C on a terminal reaches the command exactly once")
def _(ws):
    script = ws.base / "count.sh"
    count = ws.base / "signals"
    script.write_text(f'trap "echo int >> {count}" INT\necho > {ws.base}/ready\nwhile [ ! -e {ws.base}/end ]; do sleep 0.05; done\nexit 7\n')
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ws.path)
        os.execv(ws.binary, [str(ws.binary), "lock", "run", "a", "--", "/bin/sh", str(script)])
    try:
        ws.until_file(ws.base / "ready")
        os.write(terminal, b"\x03")
        ws.until_file(count)
        ws.tasuki("lock", "check", "name", "a").expect(4)  # passing it on a second time would have had time enough
        (ws.base / "end").write_text("")
        eq(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 7, "exit")
    finally:
        os.close(terminal)
    eq(count.read_text().split(), ["int"], "signals that the command saw")


@test("with too few descriptors lock run fails in words or runs, and leaves no lock behind in either case")
def _(ws):
    codes = set()
    for limit in range(4, 20):
        ran = ws.path / f"ran.{limit}"
        result = ws.run(["sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh", ws.binary, "lock", "run", "x", "--", "touch", ran])
        codes.add(result.code)
        if result.code:
            assert not ran.exists() and "Too many open files" in result.err, f"{limit} descriptors: {result}"
        eq(sorted(os.listdir(ws.path / ".aiflow/locks")), [".guard"], f"what is left with {limit} descriptors")
    eq(codes, {0, 3}, "exit codes")


main(__name__)
