"""Spec 8: live events and output as streams that can be gone on with; what a reader that stalls costs."""

import json
import os
import pathlib
import select
import socket

from common import foreign_lock, need_namespace, sleeper
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


def usage_of(stream):
    """The next usage message."""
    for line in stream.file:
        if line == b"event: usage\n":
            text = json.loads(stream.file.readline().removeprefix(b"data: "))
            eq(stream.file.readline(), b"\n", "the end of the message")
            return text
    raise AssertionError("the stream ended")


@test("?usage=true has CPU and memory of what runs, without an id and not in the trail; other streams get none", slow=True)
def _(ws):
    server = Server(ws)
    ws.at_close(lambda: ws.tasuki("proc", "stop", "--all"))
    ws.tasuki("proc", "create", "busy", "--start", "--", "sh", "-c", "while :; do :; done").expect(0)
    ws.tasuki("proc", "create", "idle", "--start", "--", "sleep", "1000").expect(0)
    ws.tasuki("proc", "create", "off", "--", "true").expect(0)
    other = server.stream("/api/events").hello()
    stream = server.stream("/api/events?usage=true").hello()
    first = usage_of(stream)
    eq((set(first), set(first["processes"])), ({"time", "processes"}, {"busy", "idle"}), "the first sample")
    eq(first["processes"]["busy"]["cpu_percent"], None, "there is no share before the second sample")
    assert first["processes"]["idle"]["rss_bytes"] > 0, first
    second = usage_of(stream)
    while second["processes"]["busy"]["cpu_percent"] <= second["processes"]["idle"]["cpu_percent"]:
        second = usage_of(stream)
    before = len(ws.events())
    ws.tasuki("proc", "stop", "idle").expect(0)
    while "idle" in usage_of(stream)["processes"]:
        pass
    stream.close()
    ws.tasuki("lock", "acquire", "name", "a", "--pid", sleeper(ws).pid).expect(0)
    types = []
    while "lock.acquired" not in types:
        types.append(next(other)[1]["type"])
    assert before < len(ws.events()) and not [e for e in ws.events() if "usage" in e["type"]], types
    other.close()
    server.stop()


@test("?beat=true has the server's time at the begin and every 5 s, as an event of its own without an id", slow=True)
def _(ws):
    server = Server(ws)
    stream = server.stream("/api/events?beat=true").hello()
    times = []
    while len(times) < 2:
        line = stream.file.readline()
        assert line, "the stream ended"
        if line == b"event: beat\n":
            times.append(json.loads(stream.file.readline().removeprefix(b"data: "))["time"])
            eq(stream.file.readline(), b"\n", "the end of the beat")
    assert times == sorted(times) and times[0] != times[1], times
    holder = sleeper(ws)
    ws.tasuki("lock", "acquire", "name", "a", "--pid", holder.pid).expect(0)
    line = stream.file.readline()
    while not line.startswith(b"data: {\"id\""):
        line = stream.file.readline()
    eq(json.loads(line.removeprefix(b"data: "))["type"], "lock.acquired", "events come as before")
    stream.close()
    server.stop()


@test("a status knows its newest event; a stream from behind it has exactly what comes later")
def _(ws):
    server = Server(ws)
    append(ws, 20)
    status = server.get("/api/status").expect(200).json
    eq(status["event_id"] + 1, server.get("/api/events?limit=1").expect(200).json["next"], "the id behind it")
    append(ws, 2, first=20)
    stream = server.stream(f"/api/events?after={status['event_id']}")
    eq([data["data"]["n"] for _, data in take(stream, 2)], [20, 21], "what came later")
    stream.close()
    eq((status["queue"]["status"], status["questions"]), ("idle", []), "queue and questions")
    (ws.path / "f.yaml").write_text("name: release\ntasks: {sign: 'tasuki task ask \"which key?\"'}\n")
    ws.tasuki("run", "f.yaml", env={"PATH": f"{ws.build}:{os.environ['PATH']}"}).expect(8)
    asked = server.get("/api/status").expect(200).json["questions"]
    eq([(q["flow"], q["task"], q["question"]["question"]) for q in asked], [("release", "sign", "which key?")], "what a run asks")
    (ws.path / "f.yaml").write_text("name: wide\ntasks: {ask: 'tasuki task ask now?', long: 'until test -e go; do sleep 0.02; done'}\n")
    runner = ws.spawn("run", "f.yaml", env={"PATH": f"{ws.build}:{os.environ['PATH']}"})

    def of_wide():
        return [q["task"] for q in server.get("/api/status").expect(200).json["questions"] if q["flow"] == "wide"]

    ws.until(lambda: of_wide() == ["ask"], "a question while another task runs")
    eq([r["status"] for r in server.get("/api/status").json["runs"] if r["flow"] == "wide"], ["RUNNING"], "the run")
    (ws.path / "go").touch()
    ws.finish(runner)
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


@test("the end of a process is in the stream although nobody asks for it", slow=True)
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


@test("a process's output is streamed as it is written, and continued by Last-Event-ID", slow=True)
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


@test("too many streams of output are refused, and closing one makes room", slow=True)
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


@test("what another program changed is in the next answer, also what no event announces: a lock file, the end of a holder")
def _(ws):
    server = Server(ws)
    for i in range(20):
        holder = sleeper(ws)
        eq(server.get("/api/locks").expect(200).json["locks"], [], "before")
        foreign_lock(ws, "name", "a", holder.pid, created=0, expires=-1)
        eq([lock["state"] for lock in server.get("/api/locks").expect(200).json["locks"]], ["held"], f"with another tool's lock ({i})")
        holder.kill()
        holder.wait()
        eq([lock["state"] for lock in server.get("/api/locks").expect(200).json["locks"]], ["stale"], f"its holder has ended ({i})")
        ws.lock_path("name", "a").unlink()
    server.stop()


@test("serve works when no inotify instance is left: it says so once, and streams show events all the same", slow=True)
def _(ws):
    need_namespace(ws, "-Ur")
    wrapper = ws.base / "without-inotify.sh"
    wrapper.write_text('#!/bin/sh\nexec unshare -Ur sh -c \'echo 0 >/proc/sys/user/max_inotify_instances && exec "$@"\' - '
                       f'{ws.binary} "$@"\n')
    wrapper.chmod(0o755)
    server = Server(ws, binary=wrapper)
    stream = server.stream("/api/events").hello()
    ws.tasuki("lock", "run", "news", "--", "true").expect(0)
    while next(stream)[1]["type"] != "lock.released":
        pass
    stream.close()
    server.proc.terminate()
    server.proc.wait(60)
    said = server.proc.stderr.read()
    eq(said.count("once a second"), 1, f"how often it says so: {said}")


@test("the events of a request are its own, those of its runs, and those of its lock, also when the run is gone")
def _(ws):
    server = Server(ws)
    path = {"PATH": f"{ws.build}:{os.environ['PATH']}"}
    (ws.path / "ask.yaml").write_text("name: ask\nflow: a >> b\ntasks: {a: 'true', b: 'tasuki task ask \"which key?\"'}\n")
    for name in ("RQ-1", "RQ-2"):
        ws.tasuki("request", "add", name, "--flow", "ask.yaml", "--id", name).expect(0)
    run = json.loads(ws.tasuki("request", "run", "RQ-1", "--json", env=path).expect(8).out.splitlines()[-1])["run_id"]
    other = json.loads(ws.tasuki("request", "run", "RQ-2", "--json", env=path).expect(8).out.splitlines()[-1])["run_id"]
    ws.tasuki("answer", run, "blue", env=path).expect(0)
    ws.tasuki("wait", "run", run).expect(0)
    ws.tasuki("runs", "cancel", other).expect(0)

    def found(thing):
        return server.get(f"/api/events?limit=1000&thing={thing}").expect(200).json["events"]

    of_request = found("request:RQ-1")
    types = [one["type"] for one in of_request]
    for type in ("request.added", "lock.acquired", "run.started", "task.started", "task.ended", "task.asked", "run.answered", "run.ended", "lock.released"):
        assert type in types, f"{type} is not in {types}"
    eq({one.get("run_id") for one in of_request} - {None}, {run}, "the run is its own")
    missing = {one["id"] for one in found(f"run:{run}")} - {one["id"] for one in of_request}
    eq(missing, set(), "events of the run that are not the request's")
    eq([one["data"]["status"] for one in found("request:RQ-2") if one["type"] == "run.ended"], ["NEEDS_INPUT", "CANCELLED"], "the ends of the other")
    ws.tasuki("request", "rm", "RQ-1").expect(0)
    ws.tasuki("runs", "rm", run).expect(0)
    later = found("request:RQ-1")
    eq([one["id"] for one in later[:len(of_request)]], [one["id"] for one in of_request], "the same events afterwards")
    eq("run.removed" in [one["type"] for one in later], True, "and that of the removal")
    server.stop()


@test("events by type, thing, actor and time; before an id; the same filters in a stream")
def _(ws):
    server = Server(ws)
    holder = sleeper(ws)
    ws.tasuki("proc", "create", "web", "--", "true").expect(0)
    ws.tasuki("proc", "create", "api", "--", "true").expect(0)
    ws.tasuki("lock", "acquire", "name", "web", "--pid", holder.pid, env={"TASUKI_AGENT": "claude"}).expect(0)
    ws.tasuki("own", "claim", "w-1", "--instance", "me").expect(0)

    def found(query):
        return [(e["type"], e["data"].get("process_id") or e["data"].get("id") or e["data"].get("workflow"))
                for e in server.get(f"/api/events?limit=100&{query}").expect(200).json["events"]]

    eq(found("thing=process:web"), [("process.created", "web")], "of a process")
    eq(found("thing=lock:web"), [("lock.acquired", "web")], "of a lock")
    eq(found("thing=lock:name:web"), [("lock.acquired", "web")], "of a lock with its kind")
    eq(found("thing=workflow:w-1"), [("workflow.claimed", "w-1")], "of a workflow")
    ws.tasuki("sprint", "acquire", "--session", "s", "--epic", "e.md", "--pid", holder.pid).expect(0)
    eq(found("thing=lock:sprint"), [("lock.acquired", ".sprint-running")], "of the sprint lock, by its kind")
    eq(found("type=process.*"), [("process.created", "web"), ("process.created", "api")], "of a group of types")
    eq(found("actor=claude"), [("lock.acquired", "web")], "of a party")
    append(ws, 1)  # of the beginning of this year
    eq(("test.event", None) in found("since=1h"), False, "what is old is not there")
    eq(len(found("until=2026-01-02T00:00:00Z")), 1, "what is old")
    everything = server.get("/api/events?limit=100").json["events"]
    before = server.get(f"/api/events?limit=2&before={everything[3]['id']}").json["events"]
    eq([e["id"] for e in before], [e["id"] for e in everything[1:3]], "the two before it")
    eq(server.get(f"/api/events?limit=2&before={everything[0]['id']}").json["events"], [], "before the first one")
    server.get("/api/events?limit=1&thing=web").expect(400, "INVALID_INPUT")
    server.get("/api/events?limit=1&since=once").expect(400, "INVALID_INPUT")
    eq(server.stream("/api/events?thing=web").status, 400, "a stream is refused, too")
    stream = server.stream("/api/events?thing=process:api").hello()
    ws.tasuki("proc", "update", "web", "--env", "A=1").expect(0)
    ws.tasuki("proc", "update", "api", "--env", "A=1").expect(0)
    eq(next(stream)[1]["data"]["process_id"], "api", "a stream of one thing")
    stream.close()
    eq([e["type"] for e in ws.tasuki("events", "--thing", "workflow:w-1", "--json").expect(0).json["events"]], ["workflow.claimed"], "CLI")
    server.stop()


@test("counts of events: as many parts as asked for, what went wrong counted beside")
def _(ws):
    server = Server(ws)
    ws.tasuki("proc", "create", "bad", "--start", "--no-wait", "--", "false").expect(0)
    ws.until(lambda: server.get("/api/events?limit=10&type=process.exited").json["events"], "its end is noted")
    answer = server.get("/api/events/counts?bins=10&since=1h").expect(200).json
    eq(len(answer["bins"]), 10, "parts")
    eq((sum(one["all"] for one in answer["bins"]), sum(one["bad"] for one in answer["bins"])), (len(ws.events()), 1), "counts")
    assert answer["from"] < answer["to"], answer
    eq(len(server.get("/api/events/counts").json["bins"]), 120, "the default")
    server.stop()


main(__name__)
