"""What reaches the disk before what: the order of writes, syncs and renames, as the kernel saw them."""

import ctypes
import os
import pathlib
import re
import shutil
import struct

from common import sleeper, strace_of
from flows import write_flow
from harness.harness import Skip, main, test

CALLS = "write,pwrite64,fdatasync,fsync,rename,renameat,renameat2,linkat"
MIB = 1 << 20
PUNCH_AND_KEEP_SIZE = 3
UNNAMED = r"#\d+>\(deleted\)"


def traced(ws, *words, inject=None):
    """The calls of each process that the command started, the holder included: one list per process, in order."""
    program = strace_of(ws)
    folder = pathlib.Path(ws.base) / "traces"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    more = ["-e", f"inject={inject}"] if inject else []
    ws.run([program, "-ff", "-y", "-qq", "-s", "4096", "-e", f"trace={CALLS}", *more, "-o", str(folder / "t"), str(ws.binary), *words]).expect(0)
    return [path.read_text().splitlines() for path in sorted(folder.iterdir())]


def find(lines, pattern, start=0):
    return [i for i in range(start, len(lines)) if re.search(pattern, lines[i])]


def check_order(processes, write, sync, then):
    """Between the last `write` and each `then` after it there is a `sync` that succeeded. Without `then`: before the end."""
    seen = False
    for lines in processes:
        if not find(lines, write):
            continue
        for end in find(lines, then) if then else [len(lines)]:
            written = [i for i in find(lines, write) if i < end]
            if not written:
                continue
            seen = True
            between = lines[written[-1] + 1:end]
            assert not sync or find(between, sync + r".*\) = 0$"), \
                "no sync between\n  %s\nand\n  %s" % (lines[written[-1]][:200], lines[end][:200] if then else "the end")
    assert seen, f"no {write} before {then}:\n" + "\n".join(line[:160] for lines in processes for line in lines)


# -- what is done -------------------------------------------------------------------------------------------------

def end_of_a_process(ws):
    return traced(ws, "proc", "create", "p", "--start", "--", "true")


def end_on_a_full_disk(ws):
    """The first record gets its name, the next cannot; the holder overwrites the old one then. Without the command itself, which
    answers: pids, by which the traces are sorted, begin again."""
    traces = traced(ws, "proc", "create", "p", "--start", "--", "true", inject="renameat:error=ENOSPC:when=2+")
    return [lines for lines in traces if not find(lines, r"^write\(1<")]


def stop(ws):
    ws.tasuki("proc", "create", "p", "--start", "--", "sleep", "1000").expect(0)
    return traced(ws, "proc", "stop", "p")


def compaction(ws):
    """A log of 3 MiB of which the holder has dropped the first two."""
    ws.tasuki("proc", "create", "p", "--start", "--", "true").expect(0)
    ws.tasuki("proc", "wait", "p").expect(0)
    place = ws.path / ".aiflow" / "processes" / "p"
    log = place / "log" / "stdout.log"
    log.write_bytes(b"a line of sixteen"[1:] * (3 * MIB // 16))
    with open(log, "r+b") as file:
        for end in range(15, 3 * MIB, 4096):
            os.pwrite(file.fileno(), b"\n", end)
        punch = ctypes.CDLL(None, use_errno=True).fallocate
        punch.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong]
        if punch(file.fileno(), PUNCH_AND_KEEP_SIZE, 0, 2 * MIB) != 0:
            raise Skip("no holes can be punched here")
    (place / "stdout.idx").write_bytes(struct.pack("=qqqQ", 1770471000000, 3 * MIB, 0, log.stat().st_ino))
    return traced(ws, "proc", "start", "p")


def synced_run(ws):
    return traced(ws, "run", write_flow(ws, "journal: sync\nflow: a >> b\ntasks:\n  a: 'true'\n  b: 'true'\n"))


def first_event(ws):
    (ws.path / ".aiflow" / "events.ndjson").unlink(missing_ok=True)
    return traced(ws, "lock", "acquire", "name", "a", "--pid", str(sleeper(ws).pid))


def rotation(ws):
    ws.tasuki("lock", "acquire", "name", "a", "--pid", sleeper(ws).pid).expect(0)
    os.truncate(ws.path / ".aiflow" / "events.ndjson", 65 * MIB)
    return traced(ws, "lock", "acquire", "name", "b", "--pid", str(sleeper(ws).pid))


def first_lock(ws):
    return traced(ws, "lock", "acquire", "name", "a", "--pid", str(sleeper(ws).pid))


def claim(ws):
    return traced(ws, "own", "claim", "wf", "--instance", "me")


def pending_run(ws):
    """A run that is to follow the one that is there. The trace is of the command that answers."""
    write_flow(ws, "exclusive: true\ntasks: {a: 'echo > up; until test -e go; do sleep 0.01; done'}\n")
    first = ws.spawn("run", "flow.yaml")
    ws.until_file("up")
    traces = traced(ws, "run", "flow.yaml", "--on-conflict", "after", "--json")
    (ws.path / "go").touch()
    ws.finish(first).expect(0)
    ws.until(lambda: [run["status"] for run in ws.tasuki("runs", "list", "--json").json["runs"]] == ["DONE", "DONE"], "both runs")
    return traces


# -- the table: what is done, the write, its sync, and what must come after both --------------------------------------

TABLE = (
    ("the exit of a process is on the disk before it is status.json", end_of_a_process,
     r'^pwrite64\(\d+<.*/status\.new>.*"exit\\":\{', r"^fdatasync\(\d+<.*/status\.new>", r'^renameat2?\(.*"status\.new".*"status\.json"'),
    ("an exit that is overwritten on a full disk is synced before the history has it", end_on_a_full_disk,
     r'^pwrite64\(\d+<.*/status\.json>.*"exit\\":\{', r"^fdatasync\(\d+<.*/status\.json>", r'^write\(\d+<.*/history>.*exited'),
    ("the wanted state is whole before it has its name", stop,
     rf'^write\(\d+<.*/processes/p/{UNNAMED}, "down', None, r'^renameat2?\(.*"want"'),
    ("a registered process is on the disk before the answer", end_of_a_process,
     r"^pwrite64\(\d+<.*/state\.db-wal>", r"^fdatasync\(\d+<.*/state\.db-wal>", r"^write\(1<"),
    ("a compacted log is on the disk before it has a name", compaction,
     rf"^write\(\d+<.*/log/{UNNAMED}", r"^fdatasync\(\d+<.*/log/", r'^linkat\(.*"stdout\.new"'),
    ("the index has the compacted log's record on the disk before the log takes the old one's place", compaction,
     r"^pwrite64\(\d+<.*/stdout\.idx>", r"^fdatasync\(\d+<.*/stdout\.idx>", r'^renameat2?\(.*"stdout\.log"'),
    ("journal: sync: what ended is on the disk before the stage says so", synced_run,
     r"^write\(\d+<.*/journal", r"^fdatasync\(\d+<.*/journal", r'^(renameat2?|linkat)\(.*"stage\.json"'),
    ("journal: sync: each flush is on the disk before the next", synced_run,
     r"^write\(\d+<.*/journal", r"^fdatasync\(\d+<.*/journal", r"^write\(\d+<.*/journal"),
    ("journal: sync: the last record is on the disk at the end", synced_run,
     r"^write\(\d+<.*/journal", r"^fdatasync\(\d+<.*/journal", None),
    ("the first line of the event trail is on the disk before the trail has its name", first_event,
     rf"^write\(\d+<.*/\.aiflow/{UNNAMED}", rf"^fdatasync\(\d+<.*/\.aiflow/{UNNAMED}", r'^linkat\(.*"events\.ndjson"'),
    ("the next segment is on the disk before the full one gives up its name", rotation,
     rf"^write\(\d+<.*/\.aiflow/{UNNAMED}", rf"^fdatasync\(\d+<.*/\.aiflow/{UNNAMED}", r'^renameat2?\(.*"events\.ndjson", .*"events'),
    ("an event is on the disk before its row leaves the outbox", claim,
     r"^write\(\d+<.*/events\.ndjson>.*workflow\.claimed", r"^fdatasync\(\d+<.*/events\.ndjson>", r"^pwrite64\(\d+<.*/state\.db-wal>"),
    ("a pending run is on the disk before it is promised", pending_run,
     r'^renameat2?\(.*/\.aiflow>, "after/', r"^fdatasync\(\d+<.*/after/[^>]+>", r"^write\(1<.*PENDING"),
    ("so is its name", pending_run, r'^renameat2?\(.*/\.aiflow>, "after/', r"^fdatasync\(\d+<[^>]*/after>", r"^write\(1<.*PENDING"),
    ("the number of a boot is on the disk before a fence is given", first_lock,
     r"^pwrite64\(\d+<.*/\.guard/name\.a>", r"^fdatasync\(\d+<.*/\.guard/name\.a>", r"^pwrite64\(\d+<.*/\.guard/name\.a>"),
)

for _name, _action, _write, _sync, _then in TABLE:

    @test(_name)
    def _(ws, action=_action, write=_write, sync=_sync, then=_then):
        ws.at_close(lambda: ws.tasuki("proc", "stop", "--all"))
        check_order(action(ws), write, sync, then)


main(__name__)
