"""The harness of the black-box suites: a process per test, a private workspace, TAP on stdout.

    from harness.harness import test, main, Skip

    @test("a lock that is held is refused")
    def _(ws):
        ws.tasuki("lock", "acquire", "name", "a").expect(0)
        ws.tasuki("lock", "acquire", "name", "a").expect(4)

    main(__name__)

The name is the rule. Every test is forked and gets `ws`, a private directory in which `tasuki init` was run
(`init=False`: it was not). It fails when it leaves a process or an open descriptor behind, or after its deadline.
`long=True` runs only with --long. `slow=True` does not run with --quick, which is for the edit loop; `quick=False` neither
with --quick nor with --medium, which is for the sanitizers.

The binary is $TASUKI_BUILD/tasuki (default: build). The environment of the commands is clean: English messages,
no terminal, HOME in the test's directory.
"""

import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

from harness.workspace import Skip, Result, Workspace, children_of, eq, kill_tree  # noqa: F401 (offered to the tests)


class Deadline(Exception):
    pass


PR_SET_CHILD_SUBREAPER = 36

_tests = []
_kept = []  # processes of the suite


class _Test:
    def __init__(self, name, function, init, long, slow, quick, deadline, before):
        self.name = " ".join(name.split())
        self.function = function
        self.init = init
        self.long = long
        self.slow = slow
        self.quick = quick
        self.deadline = deadline
        self.before = before


def test(name, init=True, long=False, slow=False, quick=True, deadline=None, before=None):
    """Registers the decorated function as the test of the rule `name`; `before` is called in the process of the suite."""

    def register(function):
        _tests.append(_Test(name, function, init, long, slow, quick, deadline, before))
        return function

    return register


def keep(process):
    """A process of the suite outlives its tests: it ends when its input does."""
    _kept.append(process)


def _end_kept():
    for process in _kept:
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            kill_tree(process.pid)
    _end_orphans()


def main(module_name):
    """At the end of each test file: runs its tests when the file is the program."""
    if module_name != "__main__":
        return
    options = _options()
    chosen = list(enumerate((t for t in _tests if _is_chosen(t, options)), 1))
    if options.only:
        chosen = [chosen[int(number) - 1] for number in options.only.split(",")]
    print(f"1..{len(chosen)}" + ("" if chosen else " # SKIP no test is chosen"), flush=True)
    _become_subreaper()
    _reset_signals()
    failed = 0
    for number, one in chosen:
        began = time.monotonic(), _cpu_seconds()
        if one.before:
            one.before()
        with _reached(number):
            verdict, details = _run_forked(one, one.deadline or options.deadline, options.grace)
        failed += verdict == "not ok"
        _report(number, one.name, verdict, details)
        if options.times:
            print(f"# {time.monotonic() - began[0]:.2f} s, {_cpu_seconds() - began[1]:.2f} s of a processor", flush=True)
    _end_kept()
    sys.exit(1 if failed else 0)


@contextlib.contextmanager
def _reached(number):
    """For tools/mutate_map.py: what a test reaches is kept apart from what the others reach."""
    folder = os.environ.get("TASUKI_REACHED")
    if folder:
        os.environ["TASUKI_REACHED"] = f"{folder}/{number}"
        os.mkdir(f"{folder}/{number}")
        os.chmod(f"{folder}/{number}", 0o777)  # tests change to other users
    yield
    if folder:
        os.environ["TASUKI_REACHED"] = folder


def _cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _reset_signals():
    """A suite that was started in the background has SIGINT and SIGQUIT ignored; what it starts must not inherit that."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP, signal.SIGCHLD):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--medium", action="store_true")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--times", action="store_true", help="how long each test takes")
    parser.add_argument("--deadline", type=float, default=300, help="seconds per test")
    parser.add_argument("--grace", type=float, default=30, help="seconds for what is already ending when a test returns")
    parser.add_argument("--filter", default="", help="only tests whose name contains this")
    parser.add_argument("--only", default="", metavar="N,N", help="only these of the chosen tests, by their numbers")
    return parser.parse_args()


def _is_chosen(one, options):
    if one.long and not options.long:
        return False
    if (options.quick or options.medium) and not one.quick:
        return False
    if options.quick and one.slow:
        return False
    return options.filter.lower() in one.name.lower()


def _report(number, name, verdict, details):
    name = name.replace("#", "\\#")
    if verdict == "skip":
        print(f"ok {number} - {name} # SKIP {' '.join(details.split())}", flush=True)
        return
    print(f"{verdict} {number} - {name}", flush=True)
    if verdict == "not ok":
        for line in details.splitlines():
            print(f"# {line}", flush=True)


def _become_subreaper():
    """Orphans of this process's descendants become its children, so that none can hide."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _run_forked(one, deadline, grace):
    """Runs one test in a child. Returns ("ok" | "not ok" | "skip", details)."""
    base = pathlib.Path(tempfile.mkdtemp(prefix="tasuki-test-")).resolve()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _child(one, base, writer, deadline, grace)
    os.close(writer)
    try:
        answer = _read_until(reader, time.monotonic() + deadline + grace + 15)
    finally:
        os.close(reader)
        _end_child(pid)
        _remove(base)
    if answer is None:
        return "not ok", f"the test did not end {deadline + grace + 15:.0f} s after it began and was killed"
    if not answer:
        return "not ok", "the test's process died"
    verdict, details = json.loads(answer)
    return verdict, details


def _read_until(fd, end):
    data = b""
    while True:
        ready, _, _ = select.select([fd], [], [], max(0, end - time.monotonic()))
        if not ready:
            return None
        chunk = os.read(fd, 65536)
        if not chunk:
            return data
        data += chunk


def _end_child(pid):
    """Nothing of a test survives it: its process and whatever came to us as an orphan is killed."""
    for child in _children():
        kill_tree(child)
    os.waitpid(pid, 0)
    _end_orphans()


def _end_orphans():
    while _reap() or _children():
        for child in _children():
            kill_tree(child)


def _children():
    kept = {process.pid for process in _kept if process.poll() is None}
    return [child for child in children_of(os.getpid()) if child not in kept]


def _reap():
    try:
        return os.waitpid(-1, os.WNOHANG)[0] > 0
    except ChildProcessError:
        return False


def _remove(base):
    def make_writable(function, path, _):
        try:
            os.chmod(os.path.dirname(path), 0o700)
            os.chmod(path, 0o700)
            function(path)
        except OSError:
            pass

    shutil.rmtree(base, onerror=make_writable)


def _child(one, base, writer, deadline, grace):
    """The forked process: never returns."""
    try:
        _become_subreaper()
        signal.signal(signal.SIGALRM, _on_alarm)
        signal.setitimer(signal.ITIMER_REAL, deadline)
        answer = _perform(one, base, grace)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except BaseException:  # whatever it is, it is this test's failure
        answer = ("not ok", traceback.format_exc())
    data = json.dumps(answer).encode("utf-8", "surrogatepass")
    while data:
        data = data[os.write(writer, data):]
    os._exit(0)


def _on_alarm(_signal, _frame):
    raise Deadline("the deadline of the test has passed")


def _perform(one, base, grace):
    devnull = os.open(os.devnull, os.O_RDWR)
    os.dup2(devnull, 0)
    os.close(devnull)
    descriptors = _open_descriptors()
    ws = Workspace(base)
    os.chdir(ws.path)
    problem = None
    try:
        if one.init:
            ws.tasuki("init").expect(0)
            ws.commands.clear()
        one.function(ws)
    except Skip as skip:
        ws.close()
        return "skip", str(skip)
    except BaseException as error:  # AssertionError and Deadline, but a bug in the test is a failure as well
        problem = _describe(error)
    ws.close()
    problems = [p for p in (problem, _left_processes(grace), _left_descriptors(descriptors)) if p]
    if not problems:
        return "ok", ""
    return "not ok", "\n".join(problems + ["the last commands:"] + ws.commands[-6:])


def _describe(error):
    skipped = (str(pathlib.Path(__file__).parent), os.path.dirname(os.__file__))
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(skipped)]
    where = "".join(f"  at {pathlib.Path(f.filename).name}:{f.lineno}: {f.line}\n" for f in frames[-3:])
    text = str(error) or "the assertion is false"
    if not isinstance(error, AssertionError):
        text = f"{type(error).__name__}: {text}"
    return f"{text}\n{where}".rstrip()


def _left_processes(grace):
    end = time.monotonic() + grace
    while True:
        while _reap():
            pass
        left = children_of(os.getpid())
        if not left:
            return None
        if time.monotonic() > end:
            break
        time.sleep(0.01)
    names = [f"{pid} ({_command_line(pid)})" for pid in left]
    for pid in left:
        kill_tree(pid)
    return "processes were left behind: " + ", ".join(names)


def _command_line(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "?"


def _open_descriptors():
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            found[fd] = os.readlink("/proc/self/fd/" + fd)
        except OSError:
            continue  # the descriptor that listed the directory
    return found


def _left_descriptors(before):
    left = [f"{fd} -> {target}" for fd, target in sorted(_open_descriptors().items()) if fd not in before]
    return "descriptors were left open: " + ", ".join(left) if left else None
