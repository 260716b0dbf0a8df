#!/usr/bin/env python3
"""Do the tests fail by chance? Runs them many times: alone, beside busy loops, with little processor time.

    tools/flakes.py [PART [COUNT]]

    check-alone   ./dev check, 20 times
    check-busy    ./dev check, 20 times beside four busy loops
    check-slow    ./dev check, 5 times with 20 % of one processor
    test-alone    ./dev test, 3 times
    test-busy     ./dev test, once beside four busy loops

Without a PART all of them. A run continues where the last one stopped, as long as what is built and tested is the same
(documents may change); the state and the logs of the runs that failed are in build-flakes/KEY/. The exit status is 1 when a run
has failed.
"""

import argparse
import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
sys.dont_write_bytecode = True

from harness.workspace import kill_tree  # noqa: E402

HOME = ROOT / "build-flakes"
PARTS = {  # name: (./dev command, surroundings, how often)
    "check-alone": ("check", "alone", 20),
    "check-busy": ("check", "busy", 20),
    "check-slow": ("check", "slow", 5),
    "test-alone": ("test", "alone", 3),
    "test-busy": ("test", "busy", 1),
}
TESTED = ("src", "include", "share", "ui", "tests", "examples", "meson.build")
LOOPS = 4
SHARE = 0.2  # of one processor
RUN_DEADLINE_S = 3 * 3600
PERIOD_US = 100_000
PR_SET_PDEATHSIG = 1
LAST_LINE = re.compile(r"^\d+ passed, \d+ failed.*$", re.MULTILINE)


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@contextlib.contextmanager
def busy_loops(processors=None):
    def prepare():
        die_with_parent()
        if processors:
            os.sched_setaffinity(0, processors)

    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"], stdin=subprocess.DEVNULL, preexec_fn=prepare)
             for _ in range(LOOPS)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def make_group():
    """A control group with SHARE of one processor, or None where we may not make one."""
    limits = (("/sys/fs/cgroup", "cpu.max", f"{int(SHARE * PERIOD_US)} {PERIOD_US}"),
              ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", str(int(SHARE * PERIOD_US))))
    for home, file, limit in limits:
        group = pathlib.Path(home) / f"tasuki-flakes-{os.getpid()}"
        try:
            if not (pathlib.Path(home) / "cgroup.procs").exists():
                continue
            group.mkdir()
            if (group / file).exists():
                (group / file).write_text(limit)
                return group
            group.rmdir()
        except OSError:
            with contextlib.suppress(OSError):
                group.rmdir()
    return None


@contextlib.contextmanager
def little_time():
    """Yields a function that a child calls before it runs the tests."""
    group = make_group()
    if group:
        try:
            yield lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
        finally:
            remove_group(group)
        return
    say(f"no control group can be made here: one processor is shared with {LOOPS} busy loops instead")
    processor = {min(os.sched_getaffinity(0))}
    with busy_loops(processor):
        yield lambda: os.sched_setaffinity(0, processor)


def remove_group(group):
    end = time.monotonic() + 30
    while True:
        try:
            return group.rmdir()
        except OSError:  # its last process is just ending
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


@contextlib.contextmanager
def surroundings(name):
    if name == "slow":
        with little_time() as enter:
            yield enter
    elif name == "busy":
        with busy_loops():
            yield lambda: None
    else:
        yield lambda: None


def run_once(command, around, log):
    """Runs ./dev COMMAND; returns the words of its end, and whether it passed."""
    with surroundings(around) as enter, open(log, "w") as out:
        def prepare():
            die_with_parent()
            enter()

        with subprocess.Popen([ROOT / "dev", command], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out,
                              stderr=subprocess.STDOUT, preexec_fn=prepare) as proc:
            try:
                code = proc.wait(RUN_DEADLINE_S)
            except BaseException as error:
                kill_tree(proc.pid)
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                code = proc.wait()
                print(f"\nit did not end within {RUN_DEADLINE_S} s", file=out)
    found = LAST_LINE.findall(log.read_text(errors="replace"))
    return found[-1] if found else f"exit {code} without a result", code == 0 and bool(found)


def key_of_sources():
    """Of everything that is built and tested, as it is in the working tree."""
    found = hashlib.sha256()
    names = subprocess.run(["git", "ls-files", "-z", "dev", *TESTED], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    for name in sorted(filter(None, names.split("\0"))):
        path = ROOT / name
        found.update(name.encode() + b"\0" + (path.read_bytes() if path.is_file() else b"") + b"\0")
    return found.hexdigest()[:12]


class State:
    """What was run for these sources: [{part, seconds, said, passed, log}]."""

    def __init__(self, folder):
        self.folder = folder
        self.path = folder / "state.json"
        self.runs = json.loads(self.path.read_text()) if self.path.exists() else []

    def add(self, run):
        self.runs.append(run)
        hidden = self.path.with_suffix(".new")
        hidden.write_text(json.dumps(self.runs, indent=1))
        hidden.replace(self.path)

    def of(self, part):
        return [run for run in self.runs if run["part"] == part]


def run_part(state, part, count):
    command, around, _ = PARTS[part]
    for number in range(len(state.of(part)) + 1, count + 1):
        log = state.folder / f"{part}-{number}.log"
        began = time.monotonic()
        said, passed = run_once(command, around, log)
        seconds = round(time.monotonic() - began)
        if passed:
            log.unlink()
        state.add({"part": part, "seconds": seconds, "said": said, "passed": passed, "log": None if passed else log.name})
        say(f"{part} {number} of {count}: {said}, {seconds} s" + ("" if passed else f"; {log.relative_to(ROOT)}"))


def report(state, parts):
    failed = [run for part in parts for run in state.of(part) if not run["passed"]]
    for part in parts:
        runs = state.of(part)
        say(f"{part:12} {len(runs):3} runs, {sum(not run['passed'] for run in runs)} failed")
    for run in failed:
        log = state.folder / run["log"]
        say(f"failed: {log.relative_to(ROOT)}: {run['said']}")
        for line in log.read_text(errors="replace").splitlines():
            if line.startswith("failed "):
                say(f"    {line}")
    return 1 if failed else 0


def say(text):
    print(f"flakes: {text}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=PARTS)
    parser.add_argument("count", nargs="?", type=int)
    options = parser.parse_args()
    folder = HOME / key_of_sources()
    folder.mkdir(parents=True, exist_ok=True)
    parts = [options.part] if options.part else list(PARTS)
    with open(HOME / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"flakes: another run works in {HOME}")
        state = State(folder)
        for part in parts:
            run_part(state, part, PARTS[part][2] if options.count is None else options.count)
        return report(state, parts)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
