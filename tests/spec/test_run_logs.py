"""runs logs: read from the end, bytes as they are, whatever the size of the log."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness.harness import eq, main, test  # noqa: E402
from requests_common import add, call, run  # noqa: E402


def log_of(ws, *args):
    return call(ws, "runs", "logs", *args).json["logs"][0]


def finished(ws, command="echo one; echo two"):
    add(ws, "RQ-1", command)
    run_id = run(ws, "RQ-1")["run_id"]
    return run_id, next((ws.path / ".aiflow/runs" / run_id / "tasks").glob("*/run.1.log"))


@test("a byte 0 and bytes that are no UTF-8 hide nothing; a last line without its end counts as a line")
def _(ws):
    run_id, path = finished(ws)
    path.write_bytes(b"one\ntw\0o\nth\xffree\nfour")
    eq(log_of(ws, run_id)["text"], "one\ntw\ufffdo\nth\ufffdree\nfour", "all of it")
    eq(log_of(ws, run_id, "-n", "2")["text"], "th\ufffdree\nfour", "the last two lines")
    path.write_bytes(b"\n\n\n")
    eq([log_of(ws, run_id, "-n", str(n))["text"] for n in (1, 2, 3, 4)], ["\n", "\n\n", "\n\n\n", "\n\n\n"], "empty lines")


@test("the last lines of a log of 200 MiB, and of its pieces' edges, are right; only its end is read")
def _(ws):
    run_id, path = finished(ws)
    with open(path, "r+b") as log:
        log.truncate(200 << 20)
        log.seek(0, os.SEEK_END)
        log.write(b"\nfirst\nsecond\nthird\n")
    found = log_of(ws, run_id, "-n", "3")
    eq((found["text"], found["offset"]), ("first\nsecond\nthird\n", (200 << 20) + 1), "the tail")
    for size in (65535, 65536, 65537, 131072):
        path.write_bytes(b"x" * (size - 8) + b"\nab\ncde\n")
        eq(log_of(ws, run_id, "-n", "2")["text"], "ab\ncde\n", f"of {size} bytes")
    path.write_bytes(b"".join(b"%d\n" % n for n in range(100000)))
    eq(log_of(ws, run_id, "-n", "50000")["text"].split(), [str(n) for n in range(50000, 100000)], "half of it")


@test("a log that cannot be read is an error, and not a task that printed nothing")
def _(ws):
    run_id, path = finished(ws)
    path.unlink()
    eq(call(ws, "runs", "logs", run_id).json["logs"], [], "no log")
    path.mkdir()
    call(ws, "runs", "logs", run_id, code=3)


@test("a line that never ends is cut to the end of the log, and offset says where it begins")
def _(ws):
    run_id, path = finished(ws)
    path.write_bytes(b"x" * (20 << 20))
    found = log_of(ws, run_id, "-n", "1")
    eq((len(found["text"]), found["offset"]), (16 << 20, 4 << 20), "the tail")


main(__name__)
