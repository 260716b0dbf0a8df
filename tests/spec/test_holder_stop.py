"""Stopping by the holder program: who is ended, who is not, in which order, and that it is true when it is said."""

import ctypes
import json
import os
import pathlib
import shutil
import signal
import sys

from common import need_namespace
from harness.harness import Skip, Workspace, eq, main, test
from holder_common import Holder, kill, python, sh, ticks_of, wait_until

NOBODY = 65534
PR_SET_PDEATHSIG = 1
GRACE_MS = 600000  # longer than any test waits, so a process that ends was ended by SIGTERM


def read_pid(path):
    return wait_until(lambda: path.exists() and path.read_text().strip() and int(path.read_text()), path.name)


@test("stop ends the child with SIGTERM and records it", init=False)
def _(ws):
    h = Holder(ws)
    h.start(["sleep", "100"])
    pid = h.pid
    status = h.stop(GRACE_MS)
    eq((status["phase"], status["exit"]["status"], status["exit"]["by"]), ("ended", signal.SIGTERM, "stop"))
    eq(h.words(), ["started", "exited"])
    eq(h.facts("exited")[0]["by"], "stop")
    eq((ticks_of(pid), h.run_locks(), h.is_locked()), (None, [], False))


@test("what the child does with SIGTERM is kept beside the stop", init=False)
def _(ws):
    h = Holder(ws)
    h.start(sh("trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done"))
    wait_until(lambda: h.log(), "the child's trap")
    eq(h.stop(GRACE_MS)["exit"]["status"], 7 << 8)


@test("a child that ignores SIGTERM is killed when the grace has passed", init=False)
def _(ws):
    h = Holder(ws)
    h.start(sh("trap '' TERM; echo ready; while :; do sleep 0.01; done"))
    wait_until(lambda: h.log(), "the child's trap")
    h.order_stop(100)
    wait_until(lambda: h.status["phase"] in ("stopping", "ended"), "stopping")
    eq(h.wait()["exit"]["status"], signal.SIGKILL)


@test("status.json says stopping while it waits", init=False)
def _(ws):
    h = Holder(ws)
    h.start(sh("trap '' TERM; echo ready; while :; do sleep 0.01; done"))
    wait_until(lambda: h.log(), "the child's trap")
    h.order_stop(GRACE_MS)
    wait_until(lambda: h.status["phase"] == "stopping", "stopping")
    eq(h.status["exit"], None)
    assert h.is_locked(), "nobody is in charge"
    h.order_stop(0)
    h.wait()


@test("a second stop with a shorter grace shortens the first", init=False)
def _(ws):
    h = Holder(ws)
    h.start(sh("trap '' TERM; echo ready; while :; do sleep 0.01; done"))
    wait_until(lambda: h.log(), "the child's trap")
    h.order_stop(GRACE_MS)
    wait_until(lambda: h.status["phase"] == "stopping", "stopping")
    eq(h.stop(10)["exit"]["status"], signal.SIGKILL)


@test("grandchildren in other groups and sessions are ended and waited for", init=False)
def _(ws):
    h = Holder(ws)
    code = f"""
import os, time
for name in ('group', 'session', 'orphan', 'bare'):
    if os.fork() == 0:
        if name == 'group': os.setpgid(0, 0)
        if name in ('session', 'orphan', 'bare'): os.setsid()
        if name in ('orphan', 'bare') and os.fork(): os._exit(0)
        open({str(ws.path)!r} + '/' + name, 'w').write(str(os.getpid()))
        if name == 'bare':
            os.closerange(0, 200)
            os.execve('/bin/sleep', ['sleep', '1000'], {{}})
        time.sleep(1000)
time.sleep(1000)
"""
    h.start(python(code))
    pids = [read_pid(ws.path / name) for name in ("group", "session", "orphan", "bare")]
    h.stop(GRACE_MS)
    eq([pid for pid in pids if ticks_of(pid)], [], "still alive")
    eq(h.run_locks(), [], "life locks")


@test("a child that ends at once on SIGTERM does not hide a descendant that needs longer", init=False)
def _(ws):
    h = Holder(ws)
    h.start(sh("(trap 'sleep 0.3; echo done > late; exit 0' TERM; echo $$ > ready; while :; do sleep 0.01; done) & exec sleep 100"))
    read_pid(ws.path / "ready")
    status = h.stop(GRACE_MS)
    eq((ws.path / "late").read_text(), "done\n")
    eq(status["exit"]["status"], signal.SIGTERM)


@test("nobody gets SIGTERM twice", slow=True, init=False)
def _(ws):
    h = Holder(ws)
    names = [f"same{i}" for i in range(12)] + ["other"]
    code = f"""
import os, signal, time
got, name = [], 'main'
signal.signal(signal.SIGTERM, lambda *_: got.append(1))
for other in {names}:
    if name == 'main' and os.fork() == 0:
        name = other
        if name == 'other': os.setsid()
open('{ws.path}/' + name + '.up', 'w').write('1')
while not got: time.sleep(0.01)
time.sleep(0.2)
open('{ws.path}/' + name, 'w').write(str(len(got)))
while name == 'main' and not all(os.path.exists('{ws.path}/' + n) for n in {names}): time.sleep(0.01)
"""
    h.start(python(code))
    names.append("main")
    for name in names:
        read_pid(ws.path / f"{name}.up")
    h.stop(GRACE_MS)
    eq({name: (ws.path / name).read_text() for name in names}, {name: "1" for name in names})


@test("a stopped (SIGSTOP) child hears SIGTERM", init=False)
def _(ws):
    h = Holder(ws)
    h.start(sh("trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done"))
    wait_until(lambda: h.log(), "the child's trap")
    os.kill(h.pid, signal.SIGSTOP)
    eq(h.stop(GRACE_MS)["exit"]["status"], 7 << 8)


NESTED = """
import os, sys, time
sys.path[:0] = {path!r}
from types import SimpleNamespace
from holder_common import Holder, sh
import pathlib
ws = SimpleNamespace(path=pathlib.Path({root!r}), build=pathlib.Path({build!r}), commands=[], env=lambda more: {{**os.environ, **more}})
for name in ('inner', 'dead'):
    h = Holder(ws, name)
    h.start(sh({command!r}.replace('NAME', name)))
h.kill()
open('nested', 'w').write('1')
time.sleep(1000)
"""


def start_nested(ws, command):
    h = Holder(ws)
    h.start(python(NESTED.format(path=[str(p) for p in list(pathlib.Path(__file__).parents)[:2]], root=str(ws.path),
                                 build=str(ws.build), command=command)))
    read_pid(ws.path / "nested")
    return h


@test("a holder that the child started survives, and so does its child, even when that holder is dead", init=False)
def _(ws):
    h = start_nested(ws, "sleep 100 & echo $! > NAME.below; exec sleep 100")
    inner, dead = (json.loads((ws.path / name / "status.json").read_text()) for name in ("inner", "dead"))
    mine = [inner["holder"]["pid"], inner["child"]["pid"], dead["child"]["pid"],
            read_pid(ws.path / "inner.below"), read_pid(ws.path / "dead.below")]
    h.stop(GRACE_MS)
    eq([pid for pid in mine if not ticks_of(pid)], [], "ended")
    eq(ticks_of(h.pid), None, "our child")
    for pid in mine:
        kill(pid)


@test("what a dead holder leaves survives also in the middle of an exec, when it has no environment", slow=True, init=False)
def _(ws):
    (ws.path / "again").write_text("#!/bin/sh\nexec ./again\n")
    (ws.path / "again").chmod(0o755)
    h = start_nested(ws, "[ NAME = inner ] || for i in $(seq 40); do ./again & echo $!; done > pids; echo 1 > NAME.below; exec sleep 100")
    read_pid(ws.path / "dead.below")
    mine = [int(pid) for pid in (ws.path / "pids").read_text().split()]
    kill(json.loads((ws.path / "dead" / "status.json").read_text())["child"]["pid"])  # its parent: they come to our holder
    h.stop(GRACE_MS)
    eq([pid for pid in mine if not ticks_of(pid)], [], "ended")
    inner = json.loads((ws.path / "inner" / "status.json").read_text())
    for pid in [*mine, inner["holder"]["pid"], inner["child"]["pid"]]:
        kill(pid)


@test("a name does not save: neither a holder's nor that of another start", init=False)
def _(ws):
    h = Holder(ws)
    code = f"""
import os, time
if os.fork() == 0:
    os.setsid()
    open('/proc/self/comm', 'w').write('tasuki-hold')
    open('{ws.path}/holder', 'w').write(str(os.getpid()))
    time.sleep(1000)
if os.fork() == 0:
    os.setsid()
    open('{ws.path}/start', 'w').write(str(os.getpid()))
    os.execve('/bin/sleep', ['sleep', '1000'], {{'TASUKI_PROCESS_START': 'other'}})
time.sleep(1000)
"""
    h.start(python(code))
    pids = [read_pid(ws.path / name) for name in ("holder", "start")]
    h.stop(GRACE_MS)
    eq([pid for pid in pids if ticks_of(pid)], [], "still alive")


@test("what goes on making more of itself does not escape", init=False)
def _(ws):
    """In a PID namespace, holder and all, whose init process ends with this one: nothing survives a test that is killed."""
    namespace = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    need_namespace(ws, *namespace[1:])
    inside = ws.base / "inside"
    inside.mkdir()
    inner = ws.spawn_command([*namespace, sys.executable, __file__, "--inside", inside], preexec_fn=end_with_parent,
                             env={"TASUKI_BUILD": ws.build, "PYTHONPATH": os.pathsep.join(sys.path)})
    ws.finish(inner).expect(0)


def end_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def stop_a_bomb(ws):
    h = Holder(ws)
    # Each lives for a moment only, in a session of its own, after it has made its successor.
    code = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.write(1, b'up')
for _ in range(3):
    if os.fork() == 0: break
else:
    time.sleep(1000)
while True:
    time.sleep(0.001)  # or it would use up the machine's process ids before anybody can reap them
    if os.fork(): os._exit(0)
    os.setsid()
"""
    h.start(python(code))
    wait_until(lambda: h.log(), "the bomb")
    status = h.stop(50)
    eq(status["exit"]["reason"], "")
    left = [p for p in pathlib.Path("/proc").iterdir() if p.name.isdigit() and belongs(p, h.start_id)]
    eq(left, [], "processes left")


def belongs(path, start_id):
    try:
        return start_id.encode() in (path / "environ").read_bytes() and ticks_of(int(path.name))
    except OSError:
        return False


for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    @test(f"{number.name} to the holder ends the child in order, without a restart, and leaves want up", init=False)
    def _(ws, number=number):
        h = Holder(ws)
        h.start(["sleep", "100"], restart="always", backoff_ms=1, backoff_max_ms=1)
        h.proc.send_signal(number)
        status = h.wait()
        eq((status["exit"]["by"], status["exit"]["status"], status["restarts"]), ("signal", signal.SIGTERM, 0))
        eq((h.dir / "want").read_text(), "up\n")


@test("a stop that was ordered before the holder could be signalled is carried out", init=False)
def _(ws):
    h = Holder(ws)
    h.write_want("down 1000")
    h.start(["sleep", "100"], restart="always")
    eq(h.wait()["exit"]["by"], "stop")


@test("a signal that is not for it does not disturb the holder", init=False)
def _(ws):
    h = Holder(ws)
    h.start(["sleep", "100"])
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGQUIT, signal.SIGPIPE, 32, 33,
                   34, 35, signal.SIGIO):
        h.proc.send_signal(number)
    eq(h.status["phase"], "running")
    eq(h.stop(GRACE_MS)["exit"]["by"], "stop")


@test("SIGCONT at any moment does not keep the holder from its end", slow=True, init=False)
def _(ws):
    for i in range(20):
        h = Holder(ws, f"p{i}")
        h.start(["sleep", "100"])
        h.order_stop(GRACE_MS)

        def has_ended():
            for _ in range(50000):
                os.kill(h.proc.pid, signal.SIGCONT)  # to a zombie, too: it is not reaped yet
            return h.proc.poll() is not None
        wait_until(has_ended, "the holder's end")
        eq(h.status["phase"], "ended")


@test("stopping ends the leftovers of earlier starts of this holder", init=False)
def _(ws):
    h = Holder(ws)
    h.start(sh("[ -e left ] && exec sleep 100; sleep 100 & echo $! > left; exit 1"), restart="on-failure", max_retries=-1,
            backoff_ms=1, backoff_max_ms=1, healthy_ms=60000)
    h.wait_for("started", 2)
    left = read_pid(ws.path / "left")
    assert ticks_of(left) and h.is_locked("run.1.lock"), "the leftover is gone before the stop"
    h.stop(GRACE_MS)
    eq(ticks_of(left), None, "the leftover")


@test("what cannot be killed is told: how many are still alive", init=False, quick=False)
def _(ws):
    if os.getuid() != 0:
        raise Skip("only root can make a process that its holder may not kill")
    helper = ws.path / "setpriv"
    shutil.copy(shutil.which("setpriv"), helper)
    helper.chmod(0o4755)
    for path in (ws.base, ws.path):
        path.chmod(0o755)
    h = Holder(ws)
    for path in (h.dir, *h.dir.iterdir()):
        os.chown(path, NOBODY, NOBODY)
    h.preexec = lambda: os.setresuid(NOBODY, NOBODY, NOBODY)
    # The child gives up the user that started it; its child as well, so two are out of reach.
    report = h.start([str(helper), "--reuid=0", "--regid=0", "--clear-groups", "sh", "-c", "sleep 1000 & echo up; wait"])
    if report[:1] != ["ok"] or os.stat(f"/proc/{h.pid}").st_uid not in (0, NOBODY):
        raise Skip(f"a program of another user cannot be started here: {report}")
    wait_until(lambda: h.log(), "the child's line")
    children = [h.pid, *map(int, pathlib.Path(f"/proc/{h.pid}/task/{h.pid}/children").read_text().split())]
    h.write_want("down 10")
    h.proc.send_signal(signal.SIGUSR1)
    status = h.wait()
    eq((status["exit"]["by"], status["exit"]["status"], status["exit"]["reason"]), ("stop", -1, "2 processes still alive"))
    for pid in children:
        kill(pid)


if sys.argv[1:2] == ["--inside"]:
    stop_a_bomb(Workspace(pathlib.Path(sys.argv[2])))
else:
    main(__name__)
