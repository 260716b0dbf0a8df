"""The rows about output: a child writes as fast as it can; how fast is it all in the log, and what does that cost?"""
import fcntl
import os
import pathlib
import signal
import statistics
import subprocess
import tempfile
import time

from processes import procfs
from processes.stamps import wait_stamps
from processes.supervisors import PEERS, Service, Supervisor, Tasuki, running
from report import Row

LINE_BYTES = 128  # of bench-child pour
# What programs write at once: 8 KiB is what Python collects before it writes (the C library: 4). 64 KiB is the best case
# of a plain file, whose pages are then handled in large groups; a pipe cannot gain as much from it.
PIECE_KIB, BIG_PIECE_KIB = 8, 64


class File(Supervisor):
    """A limit: the child's output is a file, and nobody supervises it."""
    name = "direct file"

    def start(self):
        with open(self.root / "log", "ab") as out:
            self.process = subprocess.Popen([str(word) for word in self.services[0].argv], stdout=out)

    def tell_end(self):
        self.process.kill()

    def log_files(self, service):
        return [self.root / "log"]


class Splice(File):
    """A limit: nothing but a pipe of 1 MiB and a loop of splice between the child and its file."""
    name = "a loop of splice"

    def start(self):
        reader, writer = os.pipe()
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 1 << 20)
        with open(self.root / "log", "wb") as out:  # splice refuses to append
            self.pump = subprocess.Popen([self.context.driver("bench-child"), "splice"], stdin=reader, stdout=out)
        self.process = subprocess.Popen([str(word) for word in self.services[0].argv], stdout=writer)
        os.close(reader)
        os.close(writer)

    def parts(self):
        return [self.pump.pid]

    def end(self):
        super().end()
        self.pump.wait()


# name -> (class, options of the service)
WAYS = {"file": (File, {}), "splice": (Splice, {}), "direct": (Tasuki, {}), "pipe": (Tasuki, {"log": "pipe"}),
        "stamped": (Tasuki, {"log": "stamped"}), "default log_max": (Tasuki, {"log_max": None})}
OFTEN = ("file", "splice", "direct", "pipe")


def output(context, peers, raw):
    mib = 64 if context.quick else 512
    ways = {**WAYS, **{cls.name: (cls, {}) for cls in peers}}
    found = {way: [] for way in ways}
    big = {way: [] for way in OFTEN}
    for turn in range(1 if context.quick else 9):
        # What is compared closely has every turn; the others are slow, and far away.
        for way in OFTEN if turn % 3 else ways:
            found[way].append(pour_into(context, *ways[way], mib, PIECE_KIB))
        for way in big if turn % 3 == 1 or context.quick else []:
            big[way].append(pour_into(context, *ways[way], mib, BIG_PIECE_KIB))
    raw["output"] = {"mib": mib, f"pieces of {PIECE_KIB} KiB": listed(found), f"of {BIG_PIECE_KIB} KiB": listed(big)}
    return output_rows(f"capture of {mib} MiB", medians(found)) + big_rows(medians(big)) + peer_rows(medians(found))


def listed(found):
    return {way: [{"mb_per_second": speed, "cpu_seconds": cpu} for speed, cpu in values]
            for way, values in found.items()}


def medians(found):
    """{way: (MB/s, processor seconds)}"""
    return {way: tuple(statistics.median(column) for column in zip(*values)) for way, values in found.items()}


def compared(work, ours, theirs, **target):
    return Row(work, f"{ours[0]:.0f} MB/s", f"{theirs[0]:.0f} MB/s", ours[0] / theirs[0], unit="x", **target)


def output_rows(title, found):
    direct, pipe = found["direct"], found["pipe"]
    return [
        compared(f"{title}, direct: a child alone with its file", direct, found["file"], better="at least", limit=0.95),
        Row("  processor time of the holder", f"{direct[1]:.3f} s", "", direct[1], "at most", 0.01, "s"),
        compared("  with the default log_max (64 MiB are kept)", found["default log_max"], found["file"]),
        compared(f"{title}, pipe: a loop of splice", pipe, found["splice"], better="at least", limit=0.9),
        Row("  processor time of the holder beside the loop's", f"{pipe[1]:.3f} s", f"{found['splice'][1]:.3f} s",
            pipe[1] / found["splice"][1], "at most", 1.1, "x"),
        compared("  a child alone with its file", pipe, found["file"]),
        compared(f"{title}, stamped: a child alone with its file", found["stamped"], found["file"]),
        Row("  processor time of the holder", f"{found['stamped'][1]:.3f} s", "", found["stamped"][1], unit="s"),
    ]


def big_rows(found):
    title = f"the same in pieces of {BIG_PIECE_KIB} KiB"
    return [compared(f"{title}, direct: a child alone with its file", found["direct"], found["file"]),
            compared("  pipe: a child alone with its file", found["pipe"], found["file"]),
            compared("  pipe: a loop of splice", found["pipe"], found["splice"])]


def peer_rows(found):
    rows = []
    for name in [cls.name for cls in PEERS if cls.name in found]:
        rows += [compared(f"capture, pipe: {name}", found["pipe"], found[name]),
                 Row("  processor time", f"{found['pipe'][1]:.3f} s", f"{found[name][1]:.3f} s")]
    return rows


def pour_into(context, cls, options, mib, kib):
    root = pathlib.Path(tempfile.mkdtemp(prefix="pour-", dir=context.work)) / "home"
    argv = [context.driver("bench-child"), "pour", root / "stamps", "pour", mib, kib]
    supervisor = cls(context, root, [Service("pour", argv, **options)])
    with running([supervisor]):
        supervisor.start()
        try:
            return pour(supervisor, root / "stamps", mib)
        finally:
            for path in supervisor.log_files(supervisor.services[0]):
                os.truncate(path, 0)  # before it is written to the disk


def pour(supervisor, stamps, mib):
    """(MB/s until everything is in the log, processor seconds of the capture)"""
    [(_, pid, _)] = wait_stamps(stamps, 1)
    time.sleep(0.5)  # its starter is done
    before = procfs.cpu_seconds(supervisor.parts())
    os.kill(pid, signal.SIGUSR1)
    _, (_, _, begun), (_, _, written) = wait_stamps(stamps, 3, pause=0.001)
    captured = written
    while not has_all(supervisor.log_files(supervisor.services[0]), mib << 20):
        captured = time.monotonic_ns()
        if captured - written > 120e9:
            raise RuntimeError(f"{stamps}: the log has not got everything after two minutes")
        time.sleep(0.001)
    time.sleep(1.5)  # what is done about the log at most once a second is done
    return (mib << 20) * 1e3 / (captured - begun), procfs.cpu_seconds(supervisor.parts()) - before


def has_all(files, size):
    """Whether the lines of `size` bytes are in the log; with a time on each line they are longer there."""
    files = [path for path in files if path.exists() and path.stat().st_size]
    if not files:
        return False
    with open(files[0], "rb") as file:
        line = file.readline(4096)
    # The beginning of a log may be dropped already: then it reads as zeros, and there were no times on its lines.
    factor = len(line) / LINE_BYTES if line.endswith(b"x\n") else 1
    return sum(path.stat().st_size for path in files) >= size * factor
