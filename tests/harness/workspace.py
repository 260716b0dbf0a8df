"""What a test holds in its hands: a private workspace and the ways to run tasuki in it."""

import fcntl
import json
import os
import pathlib
import pty
import select
import signal
import socket
import struct
import subprocess
import termios
import threading
import time

# What the environment of the person who runs the tests may add: where programs are, and the sanitizers' options.
PASSED_ON = ("PATH", "ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS", "GCOV_PREFIX",
             "GCOV_PREFIX_STRIP", "LLVM_PROFILE_FILE", "TASUKI_REACHED")
POLL_S = 0.005


class Skip(Exception):
    """Raised by a test that cannot run here; the reason is printed."""


def eq(actual, expected, what="value"):
    """Like `assert actual == expected`, but says both."""
    assert actual == expected, f"{what} is {actual!r}, expected {expected!r}"


class Result:
    """How a command ended. `code` is negative when a signal ended it."""

    def __init__(self, args, code, out, err, calls=None):
        self.args = args
        self.code = code
        self.out = out
        self.err = err
        self.calls = calls  # of ws.fault: how many file-system calls were made

    @property
    def json(self):
        try:
            return json.loads(self.out)
        except ValueError:
            raise AssertionError(f"stdout is not one JSON document: {self.out!r}\n{self}") from None

    @property
    def error(self):
        """The error object of `--json`."""
        assert "error" in self.json, f"no error object\n{self}"
        return self.json["error"]

    def expect(self, code, reason_code=None):
        assert self.code == code, f"exit code {self.code}, expected {code}\n{self}"
        if reason_code:
            eq(self.error.get("reason_code"), reason_code, "reason_code")
        return self

    def __str__(self):
        command = " ".join(map(repr_arg, self.args))
        return f"$ {command}\n  exit {self.code}\n{indent('out', self.out)}{indent('err', self.err)}"


def repr_arg(arg):
    text = os.fspath(arg)
    return text if text and all(c.isalnum() or c in "-_./=:@%+," for c in text) else repr(text)


def indent(label, text):
    if not text:
        return ""
    if len(text) > 4000:
        text = text[:2000] + "\n[...]\n" + text[-2000:]
    return "".join(f"  {label}: {line}\n" for line in text.splitlines())


def children_of(pid):
    """Living children (not zombies) of a process."""
    while True:
        children = listed_children(pid)
        if children is None:
            return [child for child, (state, parent) in all_processes() if parent == pid and state not in "ZX"]
        states = [state_and_parent(child) for child in children]
        if None not in states:
            return [child for child, (state, _) in zip(children, states) if state not in "ZX"]
        # One was reaped while the kernel made the list: then it may have missed another.


def listed_children(pid):
    """The kernel's list of a process's children, zombies included; None where it keeps none."""
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                found += map(int, file.read().split())
    except OSError:
        return None if os.path.exists(f"/proc/{pid}") and not os.path.exists(f"/proc/{pid}/task/{pid}/children") else found
    return found


def all_processes():
    for name in os.listdir("/proc"):
        known = state_and_parent(name) if name.isdigit() else None
        if known:
            yield int(name), known


def state_and_parent(pid):
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:
            state, parent = file.read().rpartition(")")[2].split()[:2]
    except OSError:
        return None
    return state, int(parent)


def kill_tree(pid):
    """SIGKILL for a process and all of its descendants, the parent stopped first so that it starts no more."""
    try:
        os.kill(pid, signal.SIGSTOP)
        for child in children_of(pid):
            kill_tree(child)
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def end_session(proc):
    """SIGKILL for what is left of the session of a process that was started as its leader: children that outlived it. The kernel gives
    a number to no other process while a group has it; so a process that has the number of one that was collected is a stranger."""
    if proc.returncode is not None and os.path.exists(f"/proc/{proc.pid}"):
        return
    try:
        os.killpg(proc.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


class Workspace:
    """See the method of each name; `path` is the directory the commands run in."""

    def __init__(self, base):
        self.base = base
        self.path = base / "w"
        self.home = base / "home"
        self.path.mkdir()
        self.home.mkdir()
        self.build = pathlib.Path(os.environ.get("TASUKI_BUILD", "build"))
        if not self.build.is_absolute():
            self.build = pathlib.Path(__file__).resolve().parents[2] / self.build
        self.binary = self.build / "tasuki"
        self.fault_binary = self.build / "tests" / "fault" / "tasuki-fault"
        self.commands = []  # printed when the test fails
        self.starting = threading.Lock()  # held until a process that was started is among spawned_pids()
        self._spawned = []
        self._running = set()
        self._closers = []

    # -- running ------------------------------------------------------------------------------------------

    def env(self, extra=None):
        """A clean environment; a value of None in `extra` removes the variable."""
        env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        env.update(HOME=str(self.home), LANG="C.UTF-8", TASUKI_LANG="en", TERM="dumb", TMPDIR=str(self.base),
                   MALLOC_PERTURB_="165")  # memory that is read before it is written is never zero by chance
        env.update(extra or {})
        return {name: str(value) for name, value in env.items() if value is not None}

    def run(self, argv, cwd=None, env=None, input=None, timeout=60):
        """Runs any program to its end, without a terminal. Returns a Result."""
        argv = [os.fspath(a) if isinstance(a, os.PathLike) else str(a) for a in argv]
        data = input.encode() if isinstance(input, str) else input
        with self.starting:
            proc = subprocess.Popen(
                argv, cwd=cwd or self.path, env=self.env(env), start_new_session=True,
                stdin=subprocess.DEVNULL if data is None else subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self._running.add(proc.pid)
        try:
            out, err = proc.communicate(data, timeout)
        except BaseException:
            kill_tree(proc.pid)
            proc.kill()
            out, err = proc.communicate()
            self._record(argv, "did not end in time", out, err)
            raise
        finally:
            self._running.discard(proc.pid)
        return self._record(argv, proc.returncode, out, err)

    def tasuki(self, *args, cwd=None, env=None, input=None, timeout=60):
        return self.run([self.binary, *args], cwd, env, input, timeout)

    def fault(self, *args, at=None, mode=None, wall_ms=None, fstype=None, cwd=None, env=None, input=None, timeout=60):
        """Runs the build of tasuki whose n-th file-system call can be made to fail, whose wall clock can be off by
        `wall_ms` and whose file system can pretend to be of type `fstype`. Result.calls: the number of calls made."""
        if not self.fault_binary.exists():
            raise AssertionError(f"{self.fault_binary} was not built")
        count = self.base / "fault-count"
        count.unlink(missing_ok=True)
        switches = {"TASUKI_FAULT_AT": at, "TASUKI_FAULT_MODE": mode, "TASUKI_FAKE_WALL_MS": wall_ms,
                    "TASUKI_FAKE_FSTYPE": fstype, "TASUKI_FAULT_COUNT": count}
        result = self.run([self.fault_binary, *args], cwd, {**switches, **(env or {})}, input, timeout)
        try:
            result.calls = int(count.read_text().split()[-1])
        except (OSError, ValueError, IndexError):
            result.calls = None
        return result

    def spawn(self, *args, **options):
        """Starts tasuki and returns its Popen (text pipes for stdout and stderr, no stdin, its own session). It and
        its descendants are killed when the test ends. Options go to Popen; env is added to the clean one."""
        return self.spawn_command([self.binary, *args], **options)

    def spawn_command(self, argv, env=None, **options):
        argv = [os.fspath(a) if isinstance(a, os.PathLike) else str(a) for a in argv]
        defaults = dict(cwd=self.path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                        text=True, encoding="utf-8", errors="replace", start_new_session=True)
        with self.starting:
            proc = subprocess.Popen(argv, env=self.env(env), **{**defaults, **options})
            self._spawned.append(proc)
        self.commands.append(f"$ {' '.join(map(repr_arg, argv))} &   (pid {proc.pid})")
        return proc

    def spawned_pids(self):
        """Of what run and spawn have started, and wait for themselves."""
        return {proc.pid for proc in self._spawned} | self._running

    def finish(self, proc, timeout=60):
        """Waits for a spawned process. Returns a Result."""
        out, err = proc.communicate(timeout=timeout)
        return self._record(proc.args, proc.returncode, out or "", err or "")

    def tty(self, args, answers=(), split=False, size=None, cwd=None, env=None, timeout=60):
        """Runs tasuki on a terminal. Each time a new `[y/N]` shows up the next of `answers` is typed (None: nothing
        is typed; a function is called for its answer). Result.out is what the terminal showed; split=True: stdout is
        a pipe and Result.out is what it got, Result.err what the terminal showed. size: its rows and columns."""
        argv = [str(self.binary), *map(str, args)]
        try:
            main, side = pty.openpty()
        except OSError as error:
            raise Skip(f"no terminal is available here: {error}") from None
        out_r, out_w = os.pipe() if split else (-1, -1)
        if size:
            fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))

        def take_terminal():
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        proc = subprocess.Popen(argv, cwd=cwd or self.path, env=self.env(env), stdin=side,
                                stdout=out_w if split else side, stderr=side, start_new_session=True,
                                preexec_fn=take_terminal)
        os.close(side)
        if split:
            os.close(out_w)
        try:
            shown, piped = self._converse(proc, main, out_r, list(answers), time.monotonic() + timeout)
        finally:
            if proc.poll() is None:
                kill_tree(proc.pid)
            proc.wait()
            os.close(main)
            if split:
                os.close(out_r)
        shown = shown.replace(b"\r\n", b"\n")
        return self._record(argv, proc.returncode, piped if split else shown, shown if split else b"")

    @staticmethod
    def _converse(proc, main, out_r, answers, end):
        shown, piped, prompts = b"", b"", 0
        open_fds = [fd for fd in (main, out_r) if fd >= 0]
        while open_fds:
            ready, _, _ = select.select(open_fds, [], [], max(0, end - time.monotonic()))
            assert ready, f"the command on the terminal did not end; it showed {shown!r}"
            for fd in ready:
                try:
                    data = os.read(fd, 65536)
                except OSError:  # EIO: the other side of the terminal is closed
                    data = b""
                if not data:
                    open_fds.remove(fd)
                elif fd == main:
                    shown += data
                else:
                    piped += data
            while answers and shown.count(b"[y/N]") > prompts:
                prompts += 1
                answer = answers.pop(0)
                answer = answer() if callable(answer) else answer
                if answer is not None:
                    os.write(main, answer.encode() + b"\n")
        proc.wait(max(0.1, end - time.monotonic()))
        return shown, piped

    def _record(self, args, code, out, err):
        out, err = (t if isinstance(t, str) else t.decode("utf-8", "replace") for t in (out, err))
        result = Result(args, code, out, err)
        self.commands.append(str(result))
        return result

    # -- waiting ------------------------------------------------------------------------------------------

    def until(self, condition, what, timeout=60):
        """Waits until condition() is true and returns its value; fails with `what` after the deadline."""
        end = time.monotonic() + timeout
        while True:
            value = condition()
            if value:
                return value
            assert time.monotonic() < end, f"waited {timeout} s in vain: {what}"
            time.sleep(POLL_S)

    def until_file(self, path, timeout=60):
        """Waits until the file exists and is not empty; returns its text."""
        path = self.path / path
        self.until(lambda: path.exists() and path.stat().st_size > 0, f"the file {path.name} appears", timeout)
        return path.read_text()

    def until_held(self, kind, id=None, timeout=60):
        """Waits until the lock's file is there."""
        self.until(lambda: os.path.lexists(self.lock_path(kind, id)), f"the lock {kind} {id or ''} is held", timeout)

    def alive(self, pid):
        """Whether the process runs (a zombie does not)."""
        try:
            stat = pathlib.Path(f"/proc/{int(pid)}/stat").read_text(errors="replace")
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] not in "ZX"

    # -- locks and events ---------------------------------------------------------------------------------

    def lock_path(self, kind, id=None):
        if kind == "sprint":
            return self.path / ".sprint-running"
        name = "queue.lock.json" if kind == "queue" else f"{kind}.{id}.lock.json"
        return self.path / ".aiflow" / "locks" / name

    def read_lock(self, kind, id=None):
        """The lock file as a dict (of the YAML: the flat subset that lock files are)."""
        text = self.lock_path(kind, id).read_text()
        return parse_flat_yaml(text) if kind == "sprint" else json.loads(text)

    def write_lock(self, kind, id, content):
        """Writes a lock file as another tool would: `content` is a dict, or text as it is."""
        if isinstance(content, dict):
            content = format_flat_yaml(content) if kind == "sprint" else json.dumps(content, indent=2)
        path = self.lock_path(kind, id)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    def events(self, type=None):
        """The event trail, without each segment's first line; only those of `type` when given."""
        path = self.path / ".aiflow" / "events.ndjson"
        lines = path.read_text().splitlines() if path.exists() else []
        found = [json.loads(line) for line in lines if line.strip()]
        return [e for e in found if "type" in e and type in (None, e["type"])]

    def at_close(self, function):
        """Calls it when the test ends, however it ends, after what was spawned is gone."""
        self._closers.append(function)

    def kill_at_close(self, pid, number=signal.SIGKILL):
        """At the end of the test, signals a process that is alive now. If it has ended by then, nobody is signalled, even if
        another process has its number."""
        fd = os.pidfd_open(int(pid))

        def send():
            try:
                signal.pidfd_send_signal(fd, number)
            except ProcessLookupError:
                pass
            os.close(fd)
        self.at_close(send)

    def close(self):
        """Ends what was spawned, together with its descendants, and closes its pipes."""
        for proc in self._spawned:
            if proc.poll() is None:
                kill_tree(proc.pid)
            end_session(proc)
            proc.wait()
            for pipe in (proc.stdin, proc.stdout, proc.stderr):
                if pipe:
                    try:
                        pipe.close()
                    except OSError:
                        pass
        self._spawned.clear()
        while self._closers:
            self._closers.pop()()


def free_port(ws):
    """A port that nobody listens on, and that nobody else is given while the test runs: it stays bound. A program that sets
    SO_REUSEADDR, as servers do, may listen on it all the same."""
    one = socket.socket()
    ws.at_close(one.close)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("127.0.0.1", 0))
    return one.getsockname()[1]


def parse_flat_yaml(text):
    found = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if not colon or line.startswith("#"):
            continue
        value = value.strip()
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value.strip("'") or None
    return found


def format_flat_yaml(content):
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in content.items())
