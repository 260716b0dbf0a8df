"""Waiting for a lock: in arrival order, and a waiter that dies delays no other.

That a waiter has taken its place is seen from outside: it holds a ticket byte of the guard file (src/lock/wait.h)."""

import os
import resource
import pathlib
import random
import signal

from harness.harness import eq, kill_tree, main, test
from spec.common import strace_of

WAITERS = 50
TICKETS = 1 << 62


def has_ticket(pid):
    """Whether the process stands in the queue, by what the kernel says of its locks."""
    try:
        for info in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
            for line in info.read_text().splitlines():
                words = line.split()
                if words[:1] == ["lock:"] and "OFDLCK" in words and int(words[-2]) >= TICKETS:
                    return True
    except (OSError, ValueError):
        pass
    return False


def is_stopped(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


class Queue:
    """A holder that lets go when told, and waiters behind it that write their number when it is their turn."""

    def __init__(self, ws):
        self.ws = ws
        self.order = ws.path / "order"
        self.holder = ws.spawn("lock", "run", "w", "--", "sh", "-c", "echo in >&2; exec cat", stdin=-1)
        eq(self.holder.stderr.readline().strip(), "in", "the holder's first word")
        self.waiters = []

    def add(self, wait="forever", then=":"):
        number = len(self.waiters)
        proc = self.ws.spawn("lock", "run", "w", "--wait", wait, "--", "sh", "-c", f"echo {number} >>order; {then}")
        self.waiters.append(proc)
        self.ws.until(lambda: has_ticket(proc.pid), f"waiter {number} is in the queue")
        return proc

    def release(self):
        self.holder.stdin.close()
        self.holder.stdin = None
        eq(self.holder.wait(60), 0, "the holder's exit code")

    def finish(self, expected):
        """Waits for all; those in `expected` must have been in, in that order."""
        for proc in self.waiters:
            proc.wait(60)
        entered = [int(n) for n in self.order.read_text().split()] if self.order.exists() else []
        eq(entered, expected, "who was in, in order")

    def kill(self, number):
        self.waiters[number].kill()
        self.waiters[number].wait()


def check_free(ws):
    ws.tasuki("lock", "check", "name", "w").expect(0)
    eq([n for n in os.listdir(ws.path / ".aiflow/locks") if n != ".guard"], [], "what is left over")


@test("fifty waiters get the lock in the order in which they came", slow=True)
def _(ws):
    queue = Queue(ws)
    for _ in range(WAITERS):
        queue.add()
    queue.release()
    queue.finish(list(range(WAITERS)))
    eq([proc.returncode for proc in queue.waiters], [0] * WAITERS, "exit codes")
    check_free(ws)


@test("waiters that are killed while they wait are in nobody's way")
def _(ws):
    seed = int(os.environ.get("TASUKI_SEED") or random.SystemRandom().randrange(1 << 30))
    draw = random.Random(seed)
    print(f"# seed {seed}", flush=True)
    queue = Queue(ws)
    killed = set()
    for number in range(WAITERS):
        queue.add()
        if draw.random() < 0.4:
            victim = draw.randrange(number + 1)
            queue.kill(victim)
            killed.add(victim)
    queue.release()
    queue.finish([n for n in range(WAITERS) if n not in killed])
    check_free(ws)


@test("holders that are killed one after the other let the next one in, in order")
def _(ws):
    queue = Queue(ws)
    for number in range(20):
        queue.add(then="kill -9 $PPID" if number % 2 else "kill -9 $PPID; kill -9 $$")
    queue.release()
    queue.finish(list(range(20)))
    eq([proc.returncode for proc in queue.waiters], [-signal.SIGKILL] * 20, "exit codes")
    ws.tasuki("lock", "run", "w", "--wait", "60s", "--", "true", timeout=90).expect(0)
    check_free(ws)


@test("a waiter that is stopped and then killed lets those behind it go on")
def _(ws):
    queue = Queue(ws)
    for _ in range(3):
        queue.add()
    first = queue.waiters[0]
    first.send_signal(signal.SIGSTOP)
    ws.until(lambda: is_stopped(first.pid), "the first waiter is stopped")
    queue.release()
    queue.kill(0)
    queue.finish([1, 2])
    check_free(ws)


@test("a waiter that is stopped for a while keeps its place")
def _(ws):
    queue = Queue(ws)
    for _ in range(3):
        queue.add()
    first = queue.waiters[0]
    first.send_signal(signal.SIGSTOP)
    ws.until(lambda: is_stopped(first.pid), "the first waiter is stopped")
    queue.release()
    first.send_signal(signal.SIGCONT)
    queue.finish([0, 1, 2])
    check_free(ws)


@test("when tasuki is killed the lock stays with its command, and the waiter gets in when that ends")
def _(ws):
    queue = Queue(ws)
    queue.add()
    queue.holder.kill()
    queue.holder.wait()
    ws.tasuki("--json", "lock", "acquire", "name", "w", "--pid", os.getpid()).expect(4, "LOCK_HELD")
    eq(queue.order.exists(), False, "that the waiter was in while the command ran")
    queue.holder.stdin.close()  # the orphaned command reads its end, and ends
    queue.holder.stdin = None
    queue.finish([0])
    check_free(ws)


@test("a waiter that gives up is refused, and those behind it keep their order")
def _(ws):
    queue = Queue(ws)
    queue.add()
    hasty = queue.add(wait="300ms")
    queue.add()
    eq(hasty.wait(60), 4, "the exit code of the one that gave up")
    queue.release()
    queue.finish([0, 2])
    check_free(ws)


@test("the holder and the first waiters killed at the same moment leave the lock to the next one")
def _(ws):
    queue = Queue(ws)
    for _ in range(6):
        queue.add()
    for number in (0, 1, 2):
        queue.waiters[number].send_signal(signal.SIGKILL)
    kill_tree(queue.holder.pid)
    queue.holder.wait()
    queue.finish([3, 4, 5])
    check_free(ws)


@test("lock run sees the end of its command also where SIGCHLD is ignored")
def _(ws):
    run = ws.spawn("lock", "run", "w", "--", "sh", "-c", "exit 7",
                   preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    eq(run.wait(60), 7, "the exit code")
    check_free(ws)


@test("a zombie is not waited for: the answer comes at once, and a yes takes it")
def _(ws):
    sprint = ["lock", "acquire", "sprint", "--session", "s", "--epic", "e"]
    holder = ws.spawn_command(["sleep", "600"])
    ws.tasuki(*sprint, "--pid", str(holder.pid)).expect(0)
    holder.kill()
    ws.finish(holder)
    ws.tasuki("--json", *sprint, "--pid", str(os.getpid()), "--wait", "600s").expect(6, "NEEDS_CONFIRMATION")
    ws.tasuki("--json", *sprint, "--pid", str(os.getpid()), "--wait", "600s", "--yes").expect(0)


@test("--yes while waiting for a sprint holds for every holder that dies meanwhile, not only for the first")
def _(ws):
    sprint = ["lock", "acquire", "sprint", "--epic", "e", "--wait", "600s", "--yes"]
    holders = [ws.spawn_command(["sleep", "600"]) for _ in range(4)]
    waiters = []
    for i, holder in enumerate(holders):
        waiters.append(ws.spawn(*sprint, "--session", f"s{i}", "--pid", str(holder.pid)))
        if i == 0:
            eq(waiters[0].wait(60), 0, "the first one finds no lock")
        else:
            ws.until(lambda: has_ticket(waiters[-1].pid), f"waiter {i} is in the queue")
    for i, holder in enumerate(holders):
        ws.until(lambda: ws.read_lock("sprint")["session_id"] == f"s{i}", f"sprint {i}")
        eq(waiters[i].wait(60), 0, f"exit of {i}")
        holder.kill()
        ws.finish(holder)


@test("a waiter makes one helper thread for its wait, not one for each second look", slow=True)
def _(ws):
    queue = Queue(ws)
    strace = strace_of(ws)
    traces = []

    def threads(trace):
        return len([line for line in trace.read_text().splitlines() if " clone" in line and "resumed" not in line])

    for name in ("head", "second"):
        trace = ws.base / name
        argv = [strace, "-f", "-o", trace, "-e", "trace=clone,clone3,newfstatat,openat", ws.binary, "lock", "run", "w", "--wait", "100s", "--", "true"]
        queue.waiters.append(ws.spawn_command(argv))
        ws.until(lambda: "clone" in (trace.read_text() if trace.exists() else ""), f"{name} waits")
        traces.append(trace)

    def looks(trace):
        text = trace.read_text()
        return text[text.index("clone"):].count('"name.w.lock.json"')

    for trace in traces:
        ws.until(lambda: looks(trace) >= 1, f"a look of the {trace.name}")
        ws.until(lambda: looks(trace) >= 4, f"four looks of the {trace.name}")
        made = threads(trace)  # one waits, one shows that it waits, and TSan adds one of its own
        assert made <= 3, f"{made} threads of the {trace.name}"
    queue.release()
    for proc in queue.waiters:
        eq(proc.wait(60), 0, "exit")


@test("waiting while another tool writes its temporary file ends at the deadline and costs no processor time", slow=True)
def _(ws):
    (ws.path / ".sprint-running.tmp").write_text("pid: 1\n")

    def used(wait):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        ws.tasuki("--json", "lock", "acquire", "sprint", "--session", "s", "--epic", "e", "--pid", str(os.getpid()), "--wait",
                  wait).expect(4, "SPRINT_BLOCKED")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    short, long = used("1ms"), used("2s")  # what a start costs, which is much on a slow machine, is in both
    assert long - short < 1, f"{long - short:.2f} s of processor time in 2 s of waiting"


main(__name__)
