"""A child whose holder was killed: a new holder takes charge of it (adopt=)."""

import ctypes
import errno
import os
import pathlib
import signal
import struct
import time

from harness.harness import Skip, eq, main, test
from holder_common import Holder, kill, python, sh, ticks_of, wait_until

GRACE_MS = 600000  # longer than any test waits, so a process that ends was ended by SIGTERM
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SYS_PIDFD_OPEN = 22, 38, 434
POLICY = dict(restart="always", max_retries=-1, backoff_ms=1, backoff_max_ms=1, healthy_ms=0)


def kernel_tells():
    """Whether the kernel tells the exit status of a process that is not a child (PIDFD_GET_INFO, Linux 6.15)."""
    return tuple(map(int, os.uname().release.split("-")[0].split(".")[:2])) >= (6, 15)


@test("an adopted child goes on, is recorded, and is stopped like any other", init=False)
def _(ws):
    h = Holder(ws)
    h.start(["sleep", "100"], restarts=3)
    before = h.status
    h.kill()
    report = h.adopt(["sleep", "100"], restarts=3)
    eq(report, ["ok", *map(str, (*before["child"].values(), before["started_at_ms"]))])
    status = h.status
    same = ("n", "start_id", "child", "started_at_ms", "restarts", "stdout_offset", "exit", "phase")
    eq({k: status[k] for k in same}, {k: before[k] for k in same})
    eq(status["holder"]["pid"], h.proc.pid)
    eq(h.words(), ["started", "adopted"])
    eq(h.facts("adopted")[0]["pid"], h.pid)
    status = h.stop(GRACE_MS)
    eq((status["exit"]["by"], ticks_of(h.pid), h.run_locks()), ("stop", None, []))


for name, script, raw in (("exit 7", "exit 7", 7 << 8), ("SIGKILL", "kill -KILL $$", signal.SIGKILL)):
    @test(f"the exit status of an adopted child is known where the kernel tells it, else said to be unknown: {name}", init=False)
    def _(ws, script=script, raw=raw):
        h = Holder(ws)
        os.mkfifo(ws.path / "go")
        command = sh("read -r x < go; " + script)
        h.start(command)
        h.kill()
        h.adopt(command)
        (ws.path / "go").write_text("x\n")
        end = h.wait()["exit"]
        if kernel_tells():
            eq((end["status"], end["by"], end["reason"]), (int(raw), "itself", ""))
        else:
            eq((end["status"], end["by"]), (-1, "unknown"))
            assert end["reason"], "no reason"


@test("the exit status of an adopted child that nobody reaps is read from the zombie", init=False)
def _(ws):
    h = Holder(ws)
    h.start(["sleep", "100"])
    h.kill()
    h.adopt(["sleep", "100"])
    kill(h.pid)
    end = h.wait_exit()
    eq((end["status"], end["by"]), (9, "itself"))
    h.wait()


@test("a child that ended before it could be adopted is unknown, not guessed; its pid alone does not identify it", init=False)
def _(ws):
    h = Holder(ws)
    h.start(["sleep", "100"])
    h.kill()
    identity = h.identity()
    words = f"{identity['pid']}:{identity['start_ticks'] - 1}:{identity['started_at_ms']}"
    h.start(["sleep", "100"], n=1, adopt=words)
    end = h.wait()["exit"]
    eq((end["status"], end["by"], end["reason"]), (-1, "unknown", "it ended while nobody watched"))
    assert ticks_of(identity["pid"]), "a process that only has the same pid was ended"
    eq(h.words(), ["started", "exited"])
    kill(identity["pid"])


@test("what holder and child left in the pipes when both were dead is told to be gone", init=False)
def _(ws):
    h = Holder(ws)
    h.start(["sleep", "100"], log="pipe")
    h.kill()
    identity = h.identity()
    kill(identity["pid"])
    os.waitpid(identity["pid"], 0)
    h.start(["sleep", "100"], n=1, adopt=f"{identity['pid']}:{identity['start_ticks']}:0", log="pipe")
    h.wait()
    eq(h.words(), ["started", "gap", "gap", "exited"])
    eq([f["stream"] for f in h.facts("gap")], ["stdout", "stderr"])


@test("the restart policy goes on after an adoption", init=False)
def _(ws):
    h = Holder(ws)
    h.start(["sleep", "100"], **POLICY)
    first = h.pid
    h.kill()
    h.adopt(["sleep", "100"], **POLICY)
    kill(first)
    os.waitpid(first, 0)  # the test is the subreaper that inherited it
    h.wait_for("started", 2)
    eq((h.status["n"], h.status["restarts"], h.status["phase"]), (2, 1, "running"))
    assert h.pid != first
    kill(h.pid)
    fact = h.wait_for("exited", 2)
    eq((fact["n"], fact["status"]), (2, int(signal.SIGKILL)))
    h.wait_for("started", 3)
    h.stop(GRACE_MS)


@test("a stop that the dead holder did not finish is finished by the next", init=False)
def _(ws):
    h = Holder(ws)
    h.start(sh("trap '' TERM; echo ready; while :; do sleep 0.01; done"), **POLICY)
    wait_until(lambda: h.log(), "the child's trap")
    h.order_stop(GRACE_MS)
    wait_until(lambda: h.status["phase"] == "stopping", "stopping")
    h.kill()
    h.write_want("down 10")
    h.adopt(["true"], **POLICY)
    status = h.wait()
    eq((status["n"], status["exit"]["by"], ticks_of(h.pid)), (1, "stop", None))


@test("descendants that a dead holder left elsewhere are found and ended by a stop", init=False)
def _(ws):
    h = Holder(ws)
    code = f"""
import os, time
for name in ('session', 'renamed', 'below'):
    if os.fork() == 0:
        os.setsid()
        if os.fork(): os._exit(0)
        if name == 'below' and os.fork() == 0:
            open({str(ws.path)!r} + '/below', 'w').write(str(os.getpid()))
            os.closerange(0, 200)
            os.execve('/bin/sleep', ['sleep', '1000'], {{}})
        elif name != 'below':
            open({str(ws.path)!r} + '/' + name, 'w').write(str(os.getpid()))
        if name == 'renamed': os.execve('/bin/sleep', ['sleep', '1000'], {{}})
        time.sleep(1000)
time.sleep(1000)
"""
    h.start(python(code))
    pids = [wait_until(lambda path=ws.path / name: path.exists() and path.read_text() and int(path.read_text()), name)
            for name in ("session", "renamed", "below")]
    h.kill()
    h.adopt(["true"])
    h.stop(GRACE_MS)
    eq([pid for pid in pids if ticks_of(pid)], [], "still alive")


def watches_child(h):
    """Whether it has an adopted child's pidfd, or works on what that said."""
    folder = pathlib.Path(f"/proc/{h.proc.pid}")
    state = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    try:
        return state != "S" or any("pidfd" in os.readlink(fd) for fd in (folder / "fd").iterdir())
    except FileNotFoundError:  # it has just closed one
        return True


@test("a stop after an adoption is over when the last descendant has ended, however long the grace is", init=False)
def _(ws):
    h = Holder(ws)
    os.mkfifo(ws.path / "go")
    slow = "trap 'read -r x < go; exit 0' TERM; echo $$ > slow; while :; do sleep 0.01; done"
    command = ["/bin/sh", "-c", 'sh -c "$1" & exec sleep 1000', "sh", slow]
    h.start(command)
    pid = int(wait_until(lambda: (ws.path / "slow").exists() and (ws.path / "slow").read_text(), "the descendant's trap"))
    h.kill()
    h.adopt(command)
    h.order_stop(GRACE_MS)
    os.waitpid(h.pid, 0)
    wait_until(lambda: not watches_child(h), "the holder hears of the child's end")
    assert ticks_of(pid), "the descendant did not wait"
    (ws.path / "go").write_text("x\n")
    eq((h.wait()["exit"]["by"], ticks_of(pid)), ("stop", None))


@test("a holder that is told where its strays are ends those and looks at no other process", init=False)
def _(ws):
    h = Holder(ws)
    code = f"""
import os, time
for name in ('listed', 'unlisted'):
    if os.fork() == 0:
        os.setsid()
        if os.fork(): os._exit(0)
        open({str(ws.path)!r} + '/' + name, 'w').write(str(os.getpid()))
        time.sleep(1000)
time.sleep(1000)
"""
    h.start(python(code))
    listed, unlisted = [wait_until(lambda path=ws.path / name: path.exists() and path.read_text() and int(path.read_text()), name)
                        for name in ("listed", "unlisted")]
    h.kill()
    h.adopt(["true"])
    assert h.status["adopted"], h.status
    now_ms = int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1000)
    (h.dir / "strays").write_text(f"{now_ms} {listed}:{ticks_of(listed)}\n")
    h.stop(GRACE_MS)
    eq((ticks_of(listed), bool(ticks_of(unlisted)), (h.dir / "strays").exists()), (None, True, False))
    kill(unlisted)


for what, age_ms, end in (("torn", 0, ""), ("too old", 61000, "\n"), ("from the future", -60000, "\n")):
    @test(f"what a holder is told about its strays counts for nothing when it is {what}: it looks for itself", init=False)
    def _(ws, age_ms=age_ms, end=end):
        h = Holder(ws)
        h.start(python(f"import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork(): os._exit(0)\n"
                       f"    open('{ws.path}/stray', 'w').write(str(os.getpid()))\ntime.sleep(1000)"))
        stray = wait_until(lambda path=ws.path / "stray": path.exists() and path.read_text() and int(path.read_text()), "the stray")
        h.kill()
        h.adopt(["true"])
        told_ms = int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1000) - age_ms
        (h.dir / "strays").write_text(f"{told_ms} {h.pid}:{ticks_of(h.pid)}{end}")
        h.stop(GRACE_MS)
        eq((ticks_of(stray), (h.dir / "strays").exists()), (None, False))


@test("a descendant that nothing marks is found in the child's session, and stays found when its parent has ended", init=False)
def _(ws):
    h = Holder(ws)
    code = f"""
import os, signal, time
for name in ('member', 'elsewhere'):
    if os.fork() == 0:
        if name == 'elsewhere': os.setsid()
        if name == 'member' and os.fork(): os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open('{ws.path}/' + name, 'w').write(str(os.getpid()))
        os.closerange(0, 200)
        os.execve('/bin/sleep', ['sleep', '1000'], {{}})
time.sleep(1000)
"""
    h.start(python(code))
    pids = [wait_until(lambda path=ws.path / name: path.exists() and path.read_text() and int(path.read_text()), name)
            for name in ("member", "elsewhere")]
    wait_until(lambda: all(not os.listdir(f"/proc/{pid}/fd") for pid in pids), "their exec")
    h.kill()
    h.adopt(["true"])
    h.stop(200)
    eq([pid for pid in pids if ticks_of(pid)], [], "still alive")


def refuse_pidfds():
    """In a process that is to become a holder: pidfd_open fails with EPERM, as in containers with an old filter."""
    def statement(code, k, jump_true=0, jump_false=0):
        return struct.pack("HBBI", code, jump_true, jump_false, k)
    load, equal, answer = 0x20, 0x15, 0x06
    code = ctypes.create_string_buffer(statement(load, 0) + statement(equal, SYS_PIDFD_OPEN, 0, 1) +
                                       statement(answer, 0x00050000 | errno.EPERM) + statement(answer, 0x7FFF0000))
    program = struct.pack("HxxxxxxP", 4, ctypes.addressof(code))
    libc = ctypes.CDLL(None)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, 2, program, 0, 0):
        os._exit(1)


@test("where no pidfd is to be had, an adopted child is watched all the same", init=False)
def _(ws):
    h = Holder(ws)
    os.mkfifo(ws.path / "go")
    command = sh("read -r x < go; exit 7")
    h.start(command)
    h.kill()
    h.preexec = refuse_pidfds
    report = h.adopt(command)
    if not report:
        raise Skip("system calls cannot be filtered here")
    eq((h.status["phase"], h.words()), ("running", ["started", "adopted"]))
    (ws.path / "go").write_text("x\n")
    end = h.wait_exit()
    assert (end["status"], end["by"]) in ((7 << 8, "itself"), (-1, "unknown")), end
    h.wait()


@test("a start that the dead holder did not record is recorded by the next", init=False)
def _(ws):
    h = Holder(ws)
    h.start(["sleep", "100"])
    h.kill()
    (h.dir / "status.json").unlink()
    (h.dir / "history").unlink()
    h.adopt(["sleep", "100"])
    eq(h.words(), ["started", "adopted"])
    eq((h.facts("started")[0]["pid"], h.status["n"], h.status["exit"]), (h.pid, 1, None))
    h.stop(GRACE_MS)


@test("an adopted child's output goes on being captured, noted and bounded", init=False)
def _(ws):
    h = Holder(ws)
    os.mkfifo(ws.path / "go")
    command = sh("echo one; read -r x < go; echo two; exec sleep 100")
    h.start(command)
    wait_until(lambda: h.index()[-1][1] == 4, "the first line")
    h.kill()
    h.adopt(command)
    (ws.path / "go").write_text("x\n")
    wait_until(lambda: h.index()[-1][1] == 8, "the second line in the index")
    h.stop(GRACE_MS)


main(__name__)
