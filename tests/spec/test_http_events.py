"""Spec 8: live events and output as streams that can be gone on with; what a reader that stalls costs."""

import json
import os
import pathlib
import select
import socket

from common import sleeper
from harness.harness import eq, main, test
from http_common import Server


def trail(ws):
    """(id, type) of all events, by another way."""
    return [(e["id"], e["type"]) for e in ws.tasuki("events", "--limit", "100000", "--json").expect(0).json["events"]]


def take(stream, count):
    return [next(stream) for _ in range(count)]


def append(ws, count, size=50, first=0, type="test.event"):
    """Events as any tasuki program would leave them: one line each, under the shared lock."""
    filler = "x" * size
    lines = "".join(json.dumps({"time": "2026-01-01T00:00:00.000Z", "type": type, "data": {"n": first + i, "x": filler}}) + "\n"
                    for i in range(count))
    with open(ws.path / ".aiflow" / "events.ndjson", "a") as f:
        f.write(lines)


def memory_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1])
    raise AssertionError("no RssAnon")


@test("what happens is in the stream at once, whoever does it, with the trail's ids")
def _(ws):
    server = Server(ws)
    stream = server.stream("/api/events").hello()
    eq((stream.status, stream.headers["content-type"], stream.headers["cache-control"]),
       (200, "text/event-stream", "no-store"), "the head")
    holder = sleeper(ws)
    ws.tasuki("lock", "acquire", "name", "a", "--pid", holder.pid).expect(0)
    server.post("/api/locks/name/b", {"pid": holder.pid}).expect(200)
    got = take(stream, 2)
    eq([(data["type"], data["data"]["id"]) for _, data in got], [("lock.acquired", "a"), ("lock.acquired", "b")], "the events")
    eq([(int(id), data["id"], data["type"]) for id, data in got], [(i, i, t) for i, t in trail(ws)[-2:]], "their ids")
    stream.close()
    server.stop()


@test("Last-Event-ID goes on behind that event, without a gap and without a repetition; so does ?after=")
def _(ws):
    server = Server(ws)
    append(ws, 500)
    everything = [id for id, _ in trail(ws)]
    stream = server.stream("/api/events", {"Last-Event-ID": "0"})
    first = [int(id) for id, _ in take(stream, 100)]
    stream.close()
    stream = server.stream("/api/events", {"Last-Event-ID": stream.last_id})
    second = [int(id) for id, _ in take(stream, 200)]
    stream.close()
    stream = server.stream(f"/api/events?after={stream.last_id}")
    rest = [int(id) for id, _ in take(stream, len(everything) - 300)]
    append(ws, 10, first=500)
    rest += [int(id) for id, _ in take(stream, 10)]
    stream.close()
    eq(first + second + rest, [id for id, _ in trail(ws)], "all ids in order")
    # One who saw nothing yet has an id, too.
    stream = server.stream("/api/events").hello()
    stream.close()
    append(ws, 3, first=510)
    stream = server.stream("/api/events", {"Last-Event-ID": stream.last_id})
    eq([data["data"]["n"] for _, data in take(stream, 3)], [510, 511, 512], "after an empty stream")
    stream.close()
    server.stop()


@test("?type= streams only those; who asks for JSON or for a page gets a list, everybody else the stream")
def _(ws):
    server = Server(ws)
    stream = server.stream("/api/events?type=lock.released").hello()
    holder = sleeper(ws)
    for id in ("a", "b"):
        got = server.post(f"/api/locks/name/{id}", {"pid": holder.pid}).expect(200).json
        server.ask("DELETE", f"/api/locks/name/{id}", {"token": got["token"]}).expect(200)
    eq([data["data"]["id"] for _, data in take(stream, 2)], ["a", "b"], "the released ones")
    stream.close()
    listed = server.get("/api/events?limit=2").expect(200).json
    eq(server.get("/api/events", headers={"Accept": "application/json"}).expect(200).json["next"], listed["next"], "a list")
    for path, headers in (("/api/events", {}), ("/api/events?type=x", {"Accept": "*/*"}), ("/api/events?limit=2", {"Last-Event-ID": "0"})):
        kind = server.ask("HEAD", path, headers=headers).expect(200).headers["Content-Type"]
        eq(kind, "text/event-stream", "live without being asked")
    eq([e["type"] for e in listed["events"]], ["lock.acquired", "lock.released"], "the list")
    server.get("/api/events?type=" + "x" * 200, headers={"Accept": "text/event-stream"}).expect(400, "INVALID_INPUT")
    server.stop()


@test("a filter that finds nothing in a long trail holds nobody up", slow=True)
def _(ws):
    server = Server(ws)
    append(ws, 50000, size=1000)  # 50 MB
    append(ws, 1, first=50000, type="test.last")
    stream = server.stream("/api/events?type=test.last&after=0").hello()
    answers = 0
    while not select.select([stream.sock], [], [], 0)[0]:
        server.get("/api/processes/absent").expect(404)
        answers += 1
    eq(next(stream)[1]["data"]["n"], 50000, "what it was looking for")
    assert answers > 2, f"{answers} answers to others before the trail was read to its end"
    stream.close()
    server.stop()


@test("an id beyond the end of the trail, which may be another one by now, means its end")
def _(ws):
    server = Server(ws)
    append(ws, 3)
    end = trail(ws)[-1][0]
    for path in ("/api/events", "/api/events?type=test.event"):
        for after in (10**6, 10**15, 2**64 - 2, 2**64 - 1, 10**30):
            stream = server.stream(path, {"Last-Event-ID": after}).hello()
            assert end < int(stream.last_id) < 10**6, f"{stream.last_id} for {after}, where {end} is the last"
            append(ws, 1, first=7)
            eq(next(stream)[1]["data"]["n"], 7, "what happens then")
            stream.close()
    server.stop()


@test("the end of a process is in the stream although nobody asks for it")
def _(ws):
    server = Server(ws)
    server.post("/api/processes", {"id": "a", "command": "cat", "args": [str(ws.path / "fifo")]}).expect(200)
    ws.run(["mkfifo", "fifo"]).expect(0)
    server.post("/api/processes/a/start").expect(200)
    stream = server.stream("/api/events").hello()
    (ws.path / "fifo").write_text("end")
    for _, data in stream:
        if data["data"].get("process_id") == "a" and "exited" in data["type"]:
            break
    stream.close()
    server.stop()


@test("50 readers get every event once and in order, slow ones included", quick=False)
def _(ws):
    server = Server(ws)
    streams = [server.stream("/api/events").hello() for _ in range(50)]
    for burst in range(10):
        append(ws, 400, size=200, first=burst * 400)
    want = list(range(4000))
    for stream in streams:  # one after the other: the last ones have fallen far behind
        eq([data["data"]["n"] for _, data in take(stream, 4000)], want, "what one reader got")
        stream.close()
    server.stop()


@test("readers that stall cost a bounded amount of memory, and nobody else waits for them", slow=True)
def _(ws):
    server = Server(ws)
    stalled = [server.stream("/api/events").hello() for _ in range(100)]
    reader = server.stream("/api/events").hello()
    append(ws, 1, first=0)
    next(reader)
    before = memory_kib(server.proc.pid)
    for burst in range(20):  # 16 MB of events
        append(ws, 1000, size=700, first=1 + burst * 1000)
        eq([data["data"]["n"] for _, data in take(reader, 1000)][-1], (burst + 1) * 1000, "who reads goes on")
    grown = memory_kib(server.proc.pid) - before
    is_sanitized = {"ASAN_OPTIONS", "TSAN_OPTIONS"} & set(os.environ)  # they keep what was freed
    assert grown < 100 * 256 or is_sanitized, f"{grown} KiB more for 100 stalled readers"
    got = [data["data"]["n"] for _, data in take(stalled[0], 20001)]
    eq(got, list(range(20001)), "and one that wakes up gets everything")
    for stream in (*stalled, reader):
        stream.close()
    server.stop()


@test("a stream crosses a rotation of the trail", slow=True)
def _(ws):
    server = Server(ws)
    stream = server.stream("/api/events").hello()
    append(ws, 5)
    eq(len(take(stream, 5)), 5, "before")
    size = 64 << 20
    with open(ws.path / ".aiflow" / "events.ndjson", "r+b") as f:
        at = f.seek(0, 2)
        f.write(b'{"time":"2026-01-01T00:00:00.000Z","type":"big","data":{"x":"')
        f.write(b"y" * 1000 + b'"}}\n')
        line = json.dumps({"time": "2026-01-01T00:00:00.000Z", "type": "filler", "data": {"x": "z" * 200000}}).encode() + b"\n"
        while f.tell() - at < size:
            f.write(line)
    holder = sleeper(ws)
    ws.tasuki("lock", "acquire", "name", "a", "--pid", holder.pid).expect(0)  # closes the segment
    assert list((ws.path / ".aiflow").glob("events.0*.ndjson")), "the trail was rotated"
    seen = []
    for id, data in stream:
        seen.append(int(id))
        if data["type"] == "lock.acquired":
            break
    eq(seen, sorted(set(seen)), "ids only grow")
    stream.close()
    server.stop()


# -- output -------------------------------------------------------------------------------------------------

class Logger:
    """A process that writes some lines, then whatever it is told."""

    def __init__(self, ws, server, lines=5):
        fifo = ws.path / "fifo"
        ws.run(["mkfifo", fifo]).expect(0)
        self.fd = os.open(fifo, os.O_RDWR)  # so that it never ends for the reader
        ws.at_close(lambda: os.close(self.fd))
        script = f"for i in $(seq {lines}); do echo line $i; done; exec cat {fifo}"
        server.post("/api/processes", {"id": "p", "command": "sh", "args": ["-c", script]}).expect(200)
        server.post("/api/processes/p/start").expect(200)

    def tell(self, text):
        os.write(self.fd, text.encode() + b"\n")


@test("a process's output is streamed as it is written, and gone on with by Last-Event-ID")
def _(ws):
    server = Server(ws)
    process = Logger(ws, server)
    stream = server.stream("/api/processes/p/logs/stream")
    eq((stream.status, [data["text"] for _, data in take(stream, 5)]), (200, [f"line {i}" for i in range(1, 6)]), "so far")
    process.tell("six")
    eq(next(stream)[1]["text"], "six", "then")
    stream.close()
    process.tell("seven\neight")
    ws.until(lambda: server.get("/api/processes/p/logs?lines=1").json["lines"][0]["text"] == "eight", "it is written")
    stream = server.stream("/api/processes/p/logs/stream", {"Last-Event-ID": stream.last_id})
    eq([data["text"] for _, data in take(stream, 2)], ["seven", "eight"], "without a gap or a repetition")
    server.post("/api/processes/p/stop").expect(200)
    eq(list(stream)[-1][1], {}, "the end")
    eq(stream.event, "end", "says so")
    stream.close()
    server.stop()


@test("each document of the output has the cursor behind it")
def _(ws):
    server = Server(ws)
    Logger(ws, server, lines=4)
    stream = server.stream("/api/processes/p/logs/stream")
    ids = [id for id, _ in take(stream, 4)]
    stream.close()
    for number, id in enumerate(ids, 1):
        lines = server.get(f"/api/processes/p/logs?cursor={id}").expect(200).json["lines"]
        eq([line["text"] for line in lines], [f"line {i}" for i in range(number + 1, 5)], f"behind line {number}")
    server.post("/api/processes/p/stop").expect(200)
    server.stop()


@test("what is wrong with a stream's request is an answer, not a stream")
def _(ws):
    server = Server(ws)
    server.get("/api/processes/absent/logs/stream").expect(404, "ProcessNotFound")
    server.post("/api/processes", {"id": "a", "command": "true"}).expect(200)
    server.get("/api/processes/a/logs/stream?grep=(").expect(400, "INVALID_INPUT")
    server.get("/api/processes/a/logs/stream?lines=x").expect(400, "INVALID_INPUT")
    stream = server.stream("/api/processes/a/logs/stream")
    eq((stream.status, [data for _, data in stream]), (200, [{}]), "of one that does not run")
    stream.close()
    server.stop()


@test("too many streams of output are refused, and closing one makes room")
def _(ws):
    server = Server(ws)
    Logger(ws, server, lines=1)
    streams = []
    for _ in range(64):
        stream = server.stream("/api/processes/p/logs/stream")
        eq(stream.status, 200, "a stream")
        streams.append(stream)
    server.get("/api/processes/p/logs/stream").expect(503, "ENVIRONMENT")
    server.get("/api/status").expect(200)
    for stream in streams:
        stream.close()

    def again():
        stream = server.stream("/api/processes/p/logs/stream")
        stream.close()
        return stream.status == 200

    ws.until(again, "room for one more")
    server.post("/api/processes/p/stop").expect(200)
    server.stop()


@test("streams of output that are sent ahead on one connection are answered in turn, and keep no place")
def _(ws):
    server = Server(ws)
    ahead = ("GET /api/processes/absent/logs/stream HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
             f"Authorization: Bearer {server.token}\r\n\r\n").encode()
    for _ in range(66):  # more than there are places
        with socket.create_connection(("127.0.0.1", server.port), timeout=90) as sock:
            sock.sendall(ahead * 2)
            data = b""
            while data.count(b"ProcessNotFound") < 2:
                data += sock.recv(65536) or b"ProcessNotFound" * 9
            eq(data.count(b"HTTP/1.1 404"), 2, "answers")
    server.stop()


main(__name__)
