"""runs logs: read from the end, bytes as they are, whatever the size of the log."""

import os
import pathlib
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness.harness import eq, main, test  # noqa: E402
from http_common import Server  # noqa: E402
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


@test("a line that never ends is cut to the end of the log, and offset says where it begins", slow=True)
def _(ws):
    run_id, path = finished(ws)
    path.write_bytes(b"x" * (20 << 20))
    found = log_of(ws, run_id, "-n", "1")
    eq((len(found["text"]), found["offset"]), (16 << 20, 4 << 20), "the tail")


# -- by offset, by search, as it is written -------------------------------------------------------------------

def part(server, run_id, **query):
    return server.get(f"/api/runs/{run_id}/logs?" + urllib.parse.urlencode({"task": "run", **query})).expect(200).json


@test("a log is read by offset, forwards and backwards, in whole lines; every byte is in exactly one part")
def _(ws):
    run_id, path = finished(ws)
    lines = [f"line {i} {'x' * (i % 90)}\n" for i in range(2000)]
    path.write_text("".join(lines) + "no end")
    whole, server = path.read_text(), Server(ws)
    forwards, at = "", 0
    while True:
        got = part(server, run_id, offset=at, bytes=1000)
        eq((got["from"], got["end"], got["session_id"], got["attempt"]), (at, len(whole), run_id, 1))
        assert got["text"].endswith("\n") or got["to"] == len(whole), got
        forwards, at = forwards + got["text"], got["to"]
        if at == len(whole):
            break
    eq(forwards, whole, "forwards")
    backwards, before = "", len(whole)
    while before:
        got = part(server, run_id, before=before, bytes=1000)
        assert got["from"] == 0 or whole[got["from"] - 1] == "\n", got
        backwards, before = got["text"] + backwards, got["from"]
    eq(backwards, whole, "backwards")
    eq(part(server, run_id, bytes=20)["text"], "no end", "the end")
    eq(part(server, run_id, offset=10 ** 9)["text"], "", "beyond the end")
    path.write_text("x" * 5000)
    eq(part(server, run_id, offset=0, bytes=1000)["to"], 1000, "a line longer than a part comes in pieces")
    server.get(f"/api/runs/{run_id}/logs?task=none&offset=0").expect(404, "NOT_FOUND")
    server.get(f"/api/runs/{run_id}/logs?task=run&offset=-1").expect(400, "INVALID_INPUT")
    server.stop()


@test("a search names the offsets of its hits, at most 1,000, and where to go on")
def _(ws):
    run_id, path = finished(ws)
    path.write_text("".join(f"{'ERROR' if i % 3 == 0 else 'fine'} {i}\n" for i in range(6000)))
    whole, server = path.read_text(), Server(ws)
    found, at, calls = [], 0, 0
    while at is not None:
        got = part(server, run_id, grep="^ERROR [0-9]+$", offset=at)
        assert len(got["hits"]) <= 1000
        found += got["hits"]
        at, calls = got["next"], calls + 1
    eq((len(found), calls >= 2), (2000, True), "hits, calls")
    for hit in found[::100]:
        assert whole[hit["at"]:].startswith(hit["line"] + "\n"), hit
    server.get(f"/api/runs/{run_id}/logs?task=run&grep=(").expect(400, "INVALID_INPUT")
    server.stop()


@test("runs logs -f shows each task's lines as they are printed, whole, and ends with the run")
def _(ws):
    (ws.path / "f.yaml").write_text("tasks:\n  a: 'printf one; until test -e go; do sleep 0.02; done; echo two; printf three'\n"
                                    "  b: {run: 'echo four', needs: [a]}\n")
    runner = ws.spawn("run", "f.yaml")
    ws.until(lambda: list((ws.path / ".aiflow/runs").glob("RUN-*/tasks/*/a.1.log")), "the log of a")
    follower = ws.spawn("runs", "logs", "-f")
    only = ws.spawn("runs", "logs", "@1", "b", "-f")
    (ws.path / "go").touch()
    ws.finish(runner).expect(0)
    shown = ws.finish(follower).expect(0).out.splitlines()
    eq(sorted(shown), ["a | onetwo", "a | three", "b | four"], "what was shown")
    eq(ws.finish(only).expect(0).out, "four\n", "one task")


@test("a stream of a run's output has offsets as ids, goes on behind them, and ends with the run")
def _(ws):
    (ws.path / "f.yaml").write_text("tasks:\n  a: 'echo one; until test -e go; do sleep 0.02; done; echo two'\n")
    server = Server(ws)
    runner = ws.spawn("run", "f.yaml")
    ws.until(lambda: list((ws.path / ".aiflow/runs").glob("RUN-*/tasks/*/a.1.log")), "the log of a")
    run_id = next((ws.path / ".aiflow/runs").glob("RUN-*")).name
    stream = server.stream(f"/api/runs/{run_id}/logs/stream?task=a")
    id, first = next(stream)
    eq((id, first["task"], first["from"], first["to"], first["text"]), ("4", "a", 0, 4, "one\n"), "the first piece")
    (ws.path / "go").touch()
    eq(next(stream)[1]["text"], "two\n", "the second piece")
    ws.finish(runner).expect(0)
    stream.close()
    again = server.stream(f"/api/runs/{run_id}/logs/stream?task=a&offset=4")
    eq(next(again)[1]["text"], "two\n", "behind the first piece")
    again.close()
    server.stop()


# -- on the command line, as for processes ----------------------------------------------------------------------


def flow_of_two(ws):
    (ws.path / "two.yaml").write_text("flow: a >> b\ntasks:\n  a: 'echo apple; echo pear; echo apple pie'\n  b: 'echo plum; printf apple'\n")
    call(ws, "run", "two.yaml")
    return call(ws, "runs", "show").json["run_id"]


@test("--grep shows the lines that match, of all tasks or of one; -n the last of them; -f as they come")
def _(ws):
    flow_of_two(ws)
    logs = call(ws, "runs", "logs", "--grep", "^apple").json["logs"]
    eq([(log["task"], log["text"]) for log in logs], [("a", "apple\napple pie\n"), ("b", "apple")], "of all tasks")
    eq([log["text"] for log in call(ws, "runs", "logs", "a", "--grep", "apple", "-n", "1").json["logs"]], ["apple pie\n"], "the last one")
    eq(call(ws, "runs", "logs", "@1", "b", "--grep", "pear").json["logs"], [], "of a task without such a line")
    for words in (["nosuch"], ["-f", "nosuch"], ["-f", "@1", "nosuch"]):
        assert "nosuch has not run in RUN-" in ws.tasuki("runs", "logs", *words).expect(5).err, words
    eq(sorted(ws.tasuki("runs", "logs", "-f", "--grep", "^apple").expect(0).out.splitlines()), ["a | apple", "a | apple pie", "b | apple"], "followed")
    call(ws, "runs", "logs", "--grep", "(", code=2, reason="INVALID_INPUT")


@test("--since shows the tasks that printed something since then")
def _(ws):
    id = flow_of_two(ws)
    old = next((ws.path / ".aiflow/runs" / id / "tasks").glob("*/a.1.log"))
    os.utime(old, (1.0e9, 1.0e9))
    eq([log["task"] for log in call(ws, "runs", "logs", "--since", "1h").json["logs"]], ["b"], "the last hour")
    eq([log["task"] for log in call(ws, "runs", "logs", "--since", "2001-01-01T00:00:00Z").json["logs"]], ["a", "b"], "since 2001")
    eq(ws.tasuki("runs", "logs", "-f", "--since", "1h").expect(0).out.splitlines(), ["b | plum", "b | apple"], "followed")
    call(ws, "runs", "logs", "--since", "soon", code=2, reason="INVALID_INPUT")


@test("--since judges a line by the time at its beginning, and the lines behind it with it; a log without times says that lines may be older")
def _(ws):
    stamped = ["before any time", "2028-12-31T23:59:59Z old", "  its trace", "[2029-06-01 10:00:00,250] new", "  its trace", "2028-01-01T00:00:00.5+09:00: old again",
               "2029-06-01T00:00:00Z last", "2029-99-01T00:00:00Z is no time"]
    (ws.path / "words").write_text("\n".join(stamped) + "\n")
    (ws.path / "f.yaml").write_text("flow: a >> b\ntasks: {a: 'cat words', b: 'seq 100'}\n")
    call(ws, "run", "f.yaml")
    wanted = [stamped[i] for i in (0, 3, 4, 6, 7)]
    for log in (ws.path / ".aiflow/runs").glob("RUN-*/tasks/*/*.log"):
        os.utime(log, (1.9e9, 1.9e9))  # 2030: the tasks have run on until then
    since = ["--since", "2029-01-01T00:00:00Z"]
    a, b = call(ws, "runs", "logs", *since).json["logs"]
    eq((a["text"].splitlines(), "untimed" in a), (wanted, False), "a log with times")
    eq((b["text"].split(), b["untimed"]), ([str(n) for n in range(61, 101)], True), "one without: its last lines")
    eq(ws.tasuki("runs", "logs", *since).expect(0).out.count("(its lines have no times; some may be older)"), 1, "the remark")
    eq(call(ws, "runs", "logs", "a", "-n", "2", *since).json["logs"][0]["text"].splitlines(), wanted[-2:], "the last of them")
    eq(call(ws, "runs", "logs", "--grep", "trace", *since).json["logs"][0]["text"], "  its trace\n", "that match")
    eq(ws.tasuki("runs", "logs", "-f", "@1", "a", *since).expect(0).out.splitlines(), wanted, "followed")
    whole = call(ws, "runs", "logs", "--since", "1h").json["logs"]
    eq([len(log["text"].splitlines()) for log in whole], [len(stamped), 100], "tasks that began later: all that they printed")


main(__name__)
