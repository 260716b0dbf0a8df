"""SIGKILL of the holder program at every system call and at random moments: H1-H7 of src/hold/protocol.h hold."""

import ctypes
import os
import random
import signal
import time

from harness.harness import Skip, eq, main, test
from holder_common import Holder, check_invariants, kill, next_start, ticks_of, wait_until

GRACE_MS = 60000
POLICY = dict(restart="always", max_retries=-1, backoff_ms=1, backoff_max_ms=1, healthy_ms=0)
COMMAND = ["sleep", "1000"]
ROUNDS = 60


def finish(h):
    """What tasuki does after a holder's death: adopt what lives, and stop it. Then nothing may be left."""
    identity = check_invariants(h)
    if identity:
        h.adopt(COMMAND, **POLICY)
        eq((h.status["n"], h.status["child"]["pid"]), (identity["n"], identity["pid"]))
        if h.proc.poll() is None:
            h.order_stop(GRACE_MS)
        eq(h.wait()["exit"]["by"], "stop")
    eq(check_invariants(h), None, "a child after the stop")
    numbers = [f["n"] for f in h.facts("started")]
    eq(numbers, sorted(set(numbers)), "H7: numbers of the starts")
    for n in h.run_locks():
        assert not h.is_locked(f"run.{n}.lock"), f"the lock of start {n} is held by nobody we know"
    return next_start(h)


# -- at every system call -------------------------------------------------------------------------------------

PTRACE_TRACEME, PTRACE_CONT, PTRACE_SYSCALL, PTRACE_SETOPTIONS, PTRACE_GETEVENTMSG = 0, 7, 24, 0x4200, 0x4201
PTRACE_O_TRACESYSGOOD, PTRACE_O_TRACEVFORK = 1, 4
WALL = 0x40000000
SET_UP_CALLS = 75  # the holder's first ones touch nothing but itself
START_CALLS = 140  # fewer than a start makes
libc = ctypes.CDLL(None, use_errno=True)


def ptrace(request, pid, data=0):
    if libc.ptrace(request, pid, None, ctypes.c_void_p(data)) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")


class Traced(Holder):
    """A holder that is killed when it enters its k-th system call. Whenever it sleeps, the next of `actions` is carried
    out; the last must end it."""

    def __init__(self, ws, name, k, actions):
        super().__init__(ws, name)
        self.k, self.actions = k, list(actions)

    def preexec(self):
        super().preexec()
        if self.k:
            ptrace(PTRACE_TRACEME, 0)

    def spawned(self):
        if self.k:
            k, self.k = self.k, 0  # those that come after it are not traced
            self.is_killed = self._follow(self.proc.pid, k)
            self.proc.returncode = -signal.SIGKILL if self.is_killed else 0

    def _follow(self, pid, k):
        """Whether the k-th call came."""
        os.waitpid(pid, 0)  # stopped after its exec
        ptrace(PTRACE_SETOPTIONS, pid, PTRACE_O_TRACESYSGOOD)
        calls = 0  # entered and left
        while calls < 2 * k - 1:
            ptrace(PTRACE_SYSCALL, pid)
            status = self._next_stop(pid)
            if not os.WIFSTOPPED(status):
                return False
            calls += os.WSTOPSIG(status) == signal.SIGTRAP | 0x80
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return True

    def _next_stop(self, pid):
        end, asleep, looks = time.monotonic() + 60, 0, 0
        while time.monotonic() < end:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                return status
            looks += 1
            if looks % 100:  # most calls take microseconds
                continue
            asleep = asleep + 1 if state_of(pid) == "S" else 0
            if asleep > 20 and self.actions:
                self.actions.pop(0)(self)
                asleep = 0
            time.sleep(0.0001)
        raise AssertionError("the holder neither ends nor calls the system")


def order_stop(h):
    h.write_want(f"down {GRACE_MS}")
    os.kill(h.proc.pid, signal.SIGUSR1)


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stream:
        return stream.read().rpartition(")")[2].split()[0]


def is_to_be_had():
    """Whether processes may be traced here."""
    pid = os.fork()
    if pid == 0:
        os._exit(libc.ptrace(PTRACE_TRACEME, 0, None, None) != 0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def kill_at_every_call(ws, first, actions, **options):
    if not is_to_be_had():
        raise Skip("processes may not be traced here")
    for k in range(first, 2000):
        h = Traced(ws, f"p{k}", k, actions)
        ws.commands.append(f"SIGKILL at call {k}")
        h.start(COMMAND, **options)
        finish(h)
        if not h.is_killed:
            return k
    raise AssertionError("the holder does not end")


@test("SIGKILL at each system call of a start and a stop", init=False, slow=True)
def _(ws):
    kill_at_every_call(ws, SET_UP_CALLS, [order_stop])


@test("SIGKILL at each system call of a restart", init=False, quick=False)
def _(ws):
    kill_at_every_call(ws, START_CALLS, [lambda h: kill(h.pid), order_stop], **POLICY)


@test("SIGKILL at each system call of an adoption", init=False, quick=False)
def _(ws):
    if not is_to_be_had():
        raise Skip("processes may not be traced here")
    h = Traced(ws, "p", 0, [])
    h.start(COMMAND)
    h.kill()
    identity = check_invariants(h)
    for k in range(SET_UP_CALLS, 2000):
        h.k, h.actions = k, [lambda _: None, order_stop]
        h.adopt(COMMAND)
        if not h.is_killed:
            break
        if h.status["phase"] == "stopping":
            break
        eq(check_invariants(h), identity, "the living start")
    finish(h)


class ChildTraced(Holder):
    """The child's side of the clone gets SIGKILL when it enters its k-th system call (0: before it does anything), or after
    its exec if it does not make so many."""

    def __init__(self, ws, name, k):
        super().__init__(ws, name)
        self.k, self.has_executed = k, False

    def preexec(self):
        ptrace(PTRACE_TRACEME, 0)

    def spawned(self):
        pid, message = self.proc.pid, ctypes.c_ulong()
        os.waitpid(pid, 0)
        ptrace(PTRACE_SETOPTIONS, pid, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEVFORK)
        ptrace(PTRACE_CONT, pid)
        os.waitpid(pid, 0)  # at its vfork
        libc.ptrace(PTRACE_GETEVENTMSG, pid, None, ctypes.byref(message))
        self._kill_child(message.value)
        ptrace(PTRACE_CONT, pid)
        self.proc.returncode = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def _kill_child(self, child):
        os.waitpid(child, WALL)
        calls = 0
        while calls < 2 * self.k - 1 and not self.has_executed:
            ptrace(PTRACE_SYSCALL, child)
            number = os.WSTOPSIG(os.waitpid(child, WALL)[1])
            calls += number == signal.SIGTRAP | 0x80
            self.has_executed = number == signal.SIGTRAP
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, WALL)  # only then its parent hears of it


@test("SIGKILL at each system call of the child before its exec: it failed, or it was a start that ended so", init=False, slow=True)
def _(ws):
    if not is_to_be_had():
        raise Skip("processes may not be traced here")
    for k in range(100):
        h = ChildTraced(ws, f"p{k}", k)
        ws.commands.append(f"SIGKILL at call {k}")
        report = h.start(COMMAND)
        if report[0] == "ok":
            eq((h.status["child"]["pid"], h.status["exit"]["status"]), (int(report[1]), int(signal.SIGKILL)))
            eq(h.words(), ["started", "exited"])
        else:
            eq(report, ["error", "clone", "4"])
            eq((h.status, h.history, h.run_locks(), h.proc.returncode), (None, [], [], 1))
        if h.has_executed:
            eq(report[0], "ok")
            return
    raise AssertionError("the child does not execute its command")


# -- at random moments ----------------------------------------------------------------------------------------

def begin(h, chance, n):
    """A holder gets SIGKILL at some moment of its start, or later, after its child got it a few times."""
    if chance.random() < 0.4:
        h.start(COMMAND, n=n, kill_after_s=chance.random() * 0.004, **POLICY)
        return
    h.start(COMMAND, n=n, **POLICY)
    killed = set()
    deadline = time.monotonic() + chance.random() * 0.012
    while time.monotonic() < deadline:
        if chance.random() < 0.3:
            pid = h.pid
            killed.add(pid)
            kill(pid)
        time.sleep(chance.random() * 0.001)
    h.kill()
    wait_until(lambda: not any(map(ticks_of, killed)), "the end of the children that got a signal")


@test(f"SIGKILL of holder and child at random moments, {ROUNDS} rounds", init=False, slow=True)
def _(ws):
    seed = int.from_bytes(os.urandom(4), "big")
    ws.commands.append(f"seed {seed}")
    chance, n = random.Random(seed), 1
    h = Holder(ws)
    for _ in range(ROUNDS):
        h.write_want("up")
        begin(h, chance, n)
        identity = check_invariants(h)
        while identity and chance.random() < 0.5:
            h.adopt(COMMAND, kill_after_s=chance.random() * 0.004, **POLICY)
            eq(check_invariants(h), identity, "the living start after another death")
        n = finish(h)


main(__name__)
