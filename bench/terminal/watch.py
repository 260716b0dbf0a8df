"""`tasuki watch` on a terminal while 200 processes run and 200 events a second happen: how soon a key is answered, and what it costs.

The peer is cat, which shows each line as it gets it: what the terminal and the machine take by themselves.

A key is answered when the terminal has got the picture that it asks for: `?` shows the help, the next key the list again. Words of both
pictures are looked for in what the program writes. The events are those of locks that are taken and released by commands."""
import fcntl
import os
import pty
import select
import signal
import statistics
import struct
import subprocess
import termios
import threading
import time

from report import Row

PROCESSES, EVENTS_A_SECOND = 200, 200
HELP, LIST = (b"cancel a run", b"say yes or no", b"closes it", b"its log alone"), (b"Running", b"PROCESSES", b"sleep 10")


def call(context, root, *words):
    done = subprocess.run([str(context.tasuki), "--root", str(root), *words], capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"tasuki {' '.join(words)} ended with {done.returncode}: {done.stderr}")
    return done.stdout


class Happenings(threading.Thread):
    """Takes and releases a lock, two events each, as often as asked for."""

    def __init__(self, context, root):
        super().__init__(daemon=True)
        self.argv = [str(context.tasuki), "--root", str(root), "lock", "run", "bench", "--", "true"]
        self.count, self.is_over = 0, False

    def run(self):
        due = time.monotonic()
        while not self.is_over:
            subprocess.run(self.argv, check=True)
            self.count += 2
            due += 2 / EVENTS_A_SECOND
            time.sleep(max(0, due - time.monotonic()))


class Screen:
    """A program on a terminal of 80x24."""

    def __init__(self, argv):
        self.pid, self.main = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm-256color", LC_ALL="C.UTF-8", TASUKI_LANG="en")
            os.execvp(argv[0], argv)
        fcntl.ioctl(self.main, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.written = 0

    def until(self, words, timeout=60):
        """Reads until one of the words is there. Returns when."""
        shown, end = b"", time.monotonic() + timeout
        while not any(word in shown for word in words):
            ready, _, _ = select.select([self.main], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise RuntimeError(f"the screen does not show {words}: {shown[-2000:]!r}")
            got = os.read(self.main, 65536)
            self.written += len(got)
            shown += got
        return time.monotonic()

    def rest(self, seconds):
        """Reads what comes in that time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self.main], [], [], left)[0]:
                self.written += len(os.read(self.main, 65536))

    def key_ms(self, key, words):
        begun = time.monotonic()
        os.write(self.main, key)
        return (self.until(words) - begun) * 1000

    def cpu_seconds(self):
        with open(f"/proc/{self.pid}/stat", encoding="utf-8") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mib(self):
        with open(f"/proc/{self.pid}/statm", encoding="utf-8") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)

    def close(self):
        os.kill(self.pid, signal.SIGTERM)
        os.waitpid(self.pid, 0)
        os.close(self.main)


def fill(context, root):
    root.mkdir()
    (root / ".git").mkdir()
    call(context, root, "init")
    (root / "Procfile").write_text("".join(f"p{i:03}: exec sleep 1000\n" for i in range(PROCESSES)))
    call(context, root, "proc", "import", str(root / "Procfile"))
    call(context, root, "proc", "start", "--all", "--no-wait")


def cost(screen, seconds):
    """Share of a core in percent, and bytes to the terminal a second."""
    began, spent, written = time.monotonic(), screen.cpu_seconds(), screen.written
    screen.rest(seconds)
    took = time.monotonic() - began
    return 100 * (screen.cpu_seconds() - spent) / took, (screen.written - written) / took


def keys(screen, count):
    """How long each key took, and each echo of cat, in turn."""
    taken, echoed, cat = [], [], Screen(["cat"])
    for i in range(count):
        for key, words in (b"?", HELP), (b" ", LIST):
            screen.rest(0.05 + i % 7 * 0.03)
            taken.append(screen.key_ms(key, words))
            cat.rest(0.01)
            echoed.append(cat.key_ms(b"x\n", [b"x\r\nx"]))
    cat.close()
    return sorted(taken), sorted(echoed)


def measure(context):
    root, seconds = context.work / "watch", 5 if context.quick else 30
    context.say(f"watch: {PROCESSES} processes, {EVENTS_A_SECOND} events a second")
    fill(context, root)
    happenings = Happenings(context, root)
    try:
        screen = Screen([str(context.tasuki), "--root", str(root), "watch"])
        screen.until(LIST)
        screen.rest(3)
        quiet, quiet_bytes = cost(screen, seconds)
        happenings.start()
        screen.rest(2)
        before, began = happenings.count, time.monotonic()
        busy, busy_bytes = cost(screen, seconds)
        rate = (happenings.count - before) / (time.monotonic() - began)
        taken, echoed = keys(screen, 5 if context.quick else 40)
        memory = screen.memory_mib()
        screen.close()
    finally:
        happenings.is_over = True
        if happenings.is_alive():
            happenings.join()
        call(context, root, "proc", "stop", "--all", "--grace", "0s")
    raw = {"key_ms": taken, "cat_ms": echoed, "cpu_percent": {"quiet": quiet, "busy": busy}, "events_a_second": rate, "memory_mib": memory,
           "bytes_a_second": {"quiet": quiet_bytes, "busy": busy_bytes}}
    return [Row(f"watch: the slowest of {len(taken)} keys", f"{taken[-1]:.1f} ms (median {statistics.median(taken):.1f})",
                f"cat: {echoed[-1]:.1f} ms (median {statistics.median(echoed):.1f})", taken[-1], "at most", 100, "ms"),
            Row(f"watch: CPU with {rate:.0f} events a second", f"{busy:.1f} % of a core", ratio=busy, better="at most", limit=5, unit="%"),
            Row("watch: CPU when nothing happens", f"{quiet:.1f} % of a core"),
            Row("watch: bytes to the terminal", f"{busy_bytes:.0f} a second"),
            Row("watch: memory", f"{memory:.0f} MiB")], raw
