#!/usr/bin/env python3
"""Lock cycles for a long time: memory, descriptors and disk must stay flat, and nobody may hold twice.

    tools/soak.py [--build DIR] [MINUTES]      (default 30)

Three kinds of load share a workspace: a long-lived process that uses the library, commands that take and release
locks, and holders that are killed at random moments. Everything is measured after a first part that warms up, and
again at the end. The event trail is meant to grow; it is counted apart, per event.
"""

import argparse
import ctypes
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

CYCLES_PER_SECOND = 100  # of the library; paced, so that the trail stays small
RSS_SLACK_KIB = 512
DISK_SLACK_KIB = 256
KIND_NAME = 2  # TSK_LOCK_NAME
ERROR_SIZE = 8192  # struct tsk_error and room to spare


class Library:
    """The few functions of libtasuki that the soak needs."""

    def __init__(self, path, root):
        self.lib = ctypes.CDLL(str(path))
        self.err = ctypes.create_string_buffer(ERROR_SIZE)
        self.lib.tsk_lock_fence.restype = ctypes.c_uint64
        self.lib.tsk_error_message.restype = ctypes.c_char_p
        self.ws = ctypes.c_void_p()
        self.check(self.lib.tsk_workspace_open(os.fsencode(root), ctypes.byref(self.ws), self.err))

    def check(self, result):
        if result != 0:
            text = ctypes.create_string_buffer(1024)
            raise RuntimeError(self.lib.tsk_error_message(self.err, b"en", text, 1024).decode())

    def cycle(self, name):
        """Acquire and release once. Returns the fence."""
        lock = ctypes.c_void_p()
        self.check(self.lib.tsk_lock_acquire(self.ws, KIND_NAME, name.encode(), None, ctypes.byref(lock), self.err))
        fence = self.lib.tsk_lock_fence(lock)
        self.check(self.lib.tsk_lock_release(lock, self.err))
        return fence

    def close(self):
        self.lib.tsk_workspace_close(self.ws)


def library_worker(library, root, control):
    """A process of its own: one cycle per line `N` read from stdin; answers with its size after each batch."""
    tasuki = Library(library, root)
    last = 0
    for line in sys.stdin:
        for _ in range(int(line)):
            fence = tasuki.cycle(control)
            if fence <= last:
                raise RuntimeError(f"the fence went from {last} to {fence}")
            last = fence
        print(json.dumps(measure_process(os.getpid())), flush=True)
    tasuki.close()


def measure_process(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    rss = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    return {"rss_kib": rss, "fds": len(os.listdir(f"/proc/{pid}/fd"))}


def measure_disk(root):
    """Files and KiB below `root`; the event trail apart."""
    files, kib, trail = 0, 0, 0
    for path in root.rglob("*"):
        try:
            stat = path.lstat()
        except FileNotFoundError:
            continue
        if path.name.startswith("events."):
            trail += stat.st_size
        else:
            files += 1
            kib += stat.st_blocks // 2
    return {"files": files, "disk_kib": kib, "trail_bytes": trail}


class Load(threading.Thread):
    """Commands on one lock until stopped: some end well, some are killed while they hold. `witness` is a directory
    that exists while somebody holds: a second holder cannot make it."""

    def __init__(self, binary, root, seed):
        super().__init__()
        self.binary, self.root, self.random = binary, root, random.Random(seed)
        self.stop = threading.Event()
        self.commands = self.kills = 0
        self.doubles = []

    def run(self):
        while not self.stop.is_set():
            self.one_holder(kill=self.random.random() < 0.3)

    def one_holder(self, kill):
        script = ('mkdir "$W" || { echo double; exit 99; }; echo held; '
                  + ("exec sleep 60" if kill else 'rmdir "$W"'))
        witness = self.root / "witness"
        process = subprocess.Popen(
            [str(self.binary), "lock", "run", "storm", "--wait", "60s", "--", "sh", "-c", script], cwd=self.root,
            env=dict(os.environ, W=str(witness)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True)
        answer = process.stdout.readline().strip()
        if kill and answer == "held":
            # Everything of it at once; the witness goes first, because nobody can remove it afterwards in time.
            os.rmdir(witness)
            os.killpg(process.pid, signal.SIGKILL)
            self.kills += 1
        _, errors = process.communicate()
        self.commands += 1
        if answer != "held" or (not kill and process.returncode != 0):
            self.doubles.append(f"answer {answer!r}, exit {process.returncode}: {errors.strip()}")


class Soak:
    def __init__(self, build, minutes):
        self.binary, self.library = build / "tasuki", build / "libtasuki.so"
        self.seconds = minutes * 60
        self.cycles = 0

    def run(self):
        with tempfile.TemporaryDirectory(prefix="tasuki-soak-") as directory:
            self.root = pathlib.Path(directory).resolve()
            os.environ.pop("TASUKI_ROOT", None)
            subprocess.run([str(self.binary), "init"], cwd=self.root, check=True, stdout=subprocess.DEVNULL)
            self.worker = subprocess.Popen(
                [sys.executable, __file__, "--worker", str(self.library), str(self.root), "steady"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            loads = [Load(self.binary, self.root, seed) for seed in (1, 2)]
            for load in loads:
                load.start()
            try:
                first, last = self.measure_over_time()
            finally:
                self.end(loads)
            return self.judge(first, last, loads)

    def measure_over_time(self):
        """(measurement after a tenth of the time, the last one)."""
        began, first, sample, said = time.monotonic(), None, None, 0.0
        while (passed := time.monotonic() - began) < self.seconds:
            sample = self.batch()
            if first is None and passed >= self.seconds / 10:
                first = sample
            if passed - said >= 60:
                said = passed
                print(f"{passed / 60:5.1f} min  {sample}", flush=True)
        return first or sample, sample

    def batch(self):
        """One second's worth of cycles, then everything measured."""
        began = time.monotonic()
        self.worker.stdin.write(f"{CYCLES_PER_SECOND}\n")
        self.worker.stdin.flush()
        answer = self.worker.stdout.readline()
        if not answer:
            raise RuntimeError("the library's process ended: see above")
        self.cycles += CYCLES_PER_SECOND
        time.sleep(max(0.0, 1 - (time.monotonic() - began)))
        return {**json.loads(answer), **measure_disk(self.root)}

    def end(self, loads):
        for load in loads:
            load.stop.set()
        for load in loads:
            load.join()
        self.worker.stdin.close()
        self.worker.wait()

    def judge(self, first, last, loads):
        problems = [d for load in loads for d in load.doubles]
        for key, slack in (("rss_kib", RSS_SLACK_KIB), ("fds", 0), ("files", 8), ("disk_kib", DISK_SLACK_KIB)):
            if last[key] > first[key] + slack:
                problems.append(f"{key} grew from {first[key]} to {last[key]}")
        if self.worker.returncode != 0:
            problems.append(f"the library's process ended with {self.worker.returncode}")
        problems += self.judge_end()
        commands, kills = sum(load.commands for load in loads), sum(load.kills for load in loads)
        print(f"{self.cycles} cycles in the library, {commands} commands, {kills} of them killed while holding")
        print(f"after the start: {first}\nat the end:      {last}")
        for problem in problems[:20]:
            print(f"NOT FLAT: {problem}")
        print("soak: " + (f"{len(problems)} problems" if problems else "flat"))
        return 1 if problems else 0

    def judge_end(self):
        """Nobody is there any more: both locks can be taken at once."""
        problems = []
        for name in ("steady", "storm"):
            result = subprocess.run([str(self.binary), "lock", "run", name, "--", "true"], cwd=self.root,
                                    capture_output=True, text=True, check=False)
            if result.returncode != 0:
                problems.append(f"the lock {name} is stuck: {result.stderr.strip()}")
        return problems


def main():
    if sys.argv[1:2] == ["--worker"]:
        return library_worker(*sys.argv[2:5])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("minutes", nargs="?", default=30, type=float)
    options = parser.parse_args()
    return Soak(options.build, options.minutes).run()


if __name__ == "__main__":
    sys.exit(main())
