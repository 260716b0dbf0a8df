"""Driving tasuki-hold directly: the directory, the locks and descriptors that tasuki would give it, and waiting for facts."""

import ctypes
import fcntl
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import time

from harness.workspace import eq

DEADLINE_S = 60
POLL_S = 0.003
F_OFD_GETLK, F_OFD_SETLK = 36, 37
FLOCK = "hhqqi4x"
INDEX = struct.Struct("qqqQ")
BOOT_ID = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def wait_until(condition, what="the condition"):
    """Waits for a fact, with a deadline. Returns what the condition returned."""
    end = time.monotonic() + DEADLINE_S
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"{what} did not come true within {DEADLINE_S} s"
        time.sleep(POLL_S)


def stop_while(pid, condition, what):
    """SIGSTOP for a process at a moment at which the condition is true, and stays so."""
    while True:
        wait_until(condition, what)
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T", "its stop")
        if condition():
            return
        os.kill(pid, signal.SIGCONT)


def lock_call(fd, command, byte):
    kind = fcntl.F_WRLCK
    return struct.unpack(FLOCK, fcntl.fcntl(fd, command, struct.pack(FLOCK, kind, 0, byte, 1, 0)))[0]


def lock_wait(fd, byte):
    """As tasuki does it: a child that a dead holder was just starting has the lock until it executes its program."""
    def is_taken():
        try:
            lock_call(fd, F_OFD_SETLK, byte)
        except BlockingIOError:
            return False
        return True
    wait_until(is_taken, "the lock is free")


def ticks_of(pid):
    """Start ticks of a living process, None if there is none (a zombie does not live)."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def kill(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def reap(pid):
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


class Holder:
    """One process directory, and the holders that are started for it one after the other."""

    def __init__(self, ws, name="p", directory=None):
        self.ws = ws
        self.binary = ws.build / "tasuki-hold"
        self.dir = pathlib.Path(directory or ws.path) / name
        self.dir.mkdir(mode=0o700, parents=True)
        self.id = name
        self.start_id = os.urandom(16).hex()
        self.proc = None
        self.write_want("up")

    # -- starting -----------------------------------------------------------------------------------------

    def start(self, command, n=1, adopt=None, env=None, cwd=None, lock=True, kill_after_s=None, **options):
        """Starts a holder as tasuki does. Returns the words of its report ([] if there was none). kill_after_s: it gets
        SIGKILL that soon, whatever it is doing."""
        self.env = self.ws.env({"TASUKI_PROCESS_ID": self.id, "TASUKI_PROCESS_START": self.start_id, **(env or {})})
        words = dict(n=n, start_id=self.start_id, boot_id=BOOT_ID, pid_ns=os.stat("/proc/self/ns/pid").st_ino,
                     cwd=cwd or self.ws.path, **options)
        if adopt:
            words["adopt"] = adopt
        argv = [self.binary, self.id, *(f"{k}={v}" for k, v in words.items()), "--", *command]
        fds = [os.open(self.dir, os.O_RDONLY | os.O_DIRECTORY),
               os.open(self.dir / "holder.lock", os.O_RDWR | os.O_CREAT, 0o600)]
        report, writer = os.pipe()
        fds.append(writer)
        if lock:
            lock_wait(fds[1], 0)
        self._spawn(argv, fds, self.dir / f"run.{n}.lock", lock and not adopt)
        for fd in fds:
            os.close(fd)
        if kill_after_s is not None:
            time.sleep(kill_after_s)
            self.kill()
        with open(report, encoding="ascii") as stream:
            return stream.read().split()

    def _spawn(self, argv, fds, run_lock, takes_life):
        def place():
            # Here, so that the test has no descriptor of it: the holder removes only what nobody has.
            fds.insert(2, os.open(run_lock, os.O_RDWR | os.O_CREAT, 0o600))
            if takes_life:
                lock_call(fds[2], F_OFD_SETLK, 0)
            high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 50) for fd in fds]
            for number, fd in enumerate(high, 3):
                os.dup2(fd, number, inheritable=True)
            os.closerange(7, 100)
            self.preexec()

        self.proc = subprocess.Popen([os.fspath(a) for a in argv], env=self.env, stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
                                     preexec_fn=place)
        self.ws.commands.append("$ " + " ".join(str(a) for a in argv))
        self.spawned()

    def preexec(self):
        """In the new process, before it becomes the holder."""

    def spawned(self):
        """In the test, when the holder has been started."""

    def adopt(self, command, **options):
        """A new holder for the newest start, whose holder has died."""
        identity = self.identity()
        words = f"{identity['pid']}:{identity['start_ticks']}:{identity['started_at_ms']}"
        return self.start(command, n=identity["n"], adopt=words, **options)

    # -- what is on disk ----------------------------------------------------------------------------------

    @property
    def status(self):
        try:
            return json.loads((self.dir / "status.json").read_text())
        except FileNotFoundError:
            return None

    @property
    def pid(self):
        return self.status["child"]["pid"]

    @property
    def history(self):
        try:
            lines = (self.dir / "history").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines[1:]]

    def facts(self, what):
        return [fact for fact in self.history if fact["what"] == what]

    def words(self):
        return [fact["what"] for fact in self.history]

    def run_locks(self):
        return sorted(int(p.name.split(".")[1]) for p in self.dir.glob("run.*.lock"))

    def identity(self):
        return json.loads((self.dir / f"run.{self.run_locks()[-1]}.lock").read_text())

    def log(self, name="stdout"):
        return (self.dir / "log" / f"{name}.log").read_bytes()

    def index(self, name="stdout"):
        data = (self.dir / f"{name}.idx").read_bytes()
        return [r for r in INDEX.iter_unpack(data[:len(data) // INDEX.size * INDEX.size]) if r[0]]

    def is_locked(self, name="holder.lock", byte=0):
        fd = os.open(self.dir / name, os.O_RDWR)
        try:
            return lock_call(fd, F_OFD_GETLK, byte) != fcntl.F_UNLCK
        finally:
            os.close(fd)

    # -- telling it ---------------------------------------------------------------------------------------

    def write_want(self, text):
        new = self.dir / "want.new"
        new.write_text(text + "\n")
        new.rename(self.dir / "want")

    def order_stop(self, grace_ms=3000):
        self.write_want(f"down {grace_ms}")
        self.proc.send_signal(signal.SIGUSR1)

    def stop(self, grace_ms=3000):
        self.order_stop(grace_ms)
        return self.wait()

    def wait(self):
        """Until the holder has ended. Returns status.json. An adopted child is reaped, as init would."""
        def has_ended():
            if self.status and not ticks_of(self.pid):
                reap(self.pid)
            return self.proc.poll() is not None
        wait_until(has_ended, "the holder's end")
        return self.status

    def wait_for(self, what, count=1):
        return wait_until(lambda: self.facts(what)[count - 1:], f"{count} of '{what}' in history")[0]

    def wait_exit(self):
        return wait_until(lambda: self.status["exit"], "an exit record")

    def kill(self):
        self.proc.kill()
        self.proc.wait(DEADLINE_S)


def python(code):
    """The command that runs a piece of Python."""
    return [sys.executable, "-c", code]


def sh(script):
    return ["/bin/sh", "-c", script]


# -- after SIGKILL: the children are `sleep`, and nothing else has the start's name ---------------------------

def is_settled(h):
    """Whether every start that is under way has got to its command: the child's side goes on when its holder dies."""
    for n in h.run_locks():
        if h.is_locked(f"run.{n}.lock"):
            text = (h.dir / f"run.{n}.lock").read_text()
            if not text:
                return False
            pid = json.loads(text)["pid"]
            if ticks_of(pid) and pathlib.Path(f"/proc/{pid}/comm").read_text() != "sleep\n":
                return False
    return True


def check_invariants(h):
    """What the files say after the holder was killed. Returns the living start's identity, or None."""
    wait_until(lambda: is_settled(h), "the end of a start under way")
    problem = None

    def holds():
        nonlocal problem
        living, problem = living_starts(h)
        return not problem
    try:
        wait_until(holds, "H1-H7")  # at once, but for a child that is just dying
    except AssertionError:
        raise AssertionError(problem) from None
    return (living_starts(h)[0] or [None])[0]


def living_starts(h):
    """(identities of the starts that live, what is wrong with them or None)"""
    status, living = h.status, []
    newest = status["n"] if status else 0
    for n in h.run_locks():
        text = (h.dir / f"run.{n}.lock").read_text()
        identity = json.loads(text) if text else None
        if identity and ticks_of(identity["pid"]) == identity["start_ticks"]:
            living.append(identity)
            if not h.is_locked(f"run.{n}.lock"):
                return living, f"H1: start {n} lives without its lock"
        assert n <= newest + 1, f"H7: there is a start {n} although status.json says {newest}"
    assert len(living) <= 1, f"two starts live: {living}"
    running = [int(p) for p in os.listdir("/proc") if p.isdigit() and is_child(p, h.start_id)]
    if running != [i["pid"] for i in living]:
        return living, f"H2: {running} run, {living} are recorded"
    if living and status and living[0]["n"] == newest + 1:
        assert status["exit"], f"H5: start {newest + 1} runs, but start {newest} has no exit"
    return living, None


def is_child(pid, start_id):
    try:
        return (start_id.encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes() and ticks_of(pid)
                and pathlib.Path(f"/proc/{pid}/comm").read_text() == "sleep\n")
    except OSError:
        return False


def next_start(h):
    """What tasuki would do before it starts it again: a start that ended unrecorded is declared lost."""
    status, newest = h.status or {"n": 0, "exit": {}}, h.run_locks()[-1:]
    n = status["n"]
    if newest and newest[0] > n and (h.dir / f"run.{newest[0]}.lock").read_text():
        n = newest[0]
    if n > status["n"] or status["exit"] is None:
        lost = {"n": n, "child": {"pid": 0}, "exit": {"status": -1}}
        (h.dir / "status.json").write_text(json.dumps(lost))
    return n + 1
