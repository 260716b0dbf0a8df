#!/usr/bin/env python3
"""The output of processes for a page: parts by offset, forwards and backwards, a search with its hits, one stream of several."""

import pathlib
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness.harness import eq, main, test  # noqa: E402
from http_common import Server  # noqa: E402

BOTH = "for i in $(seq 1 3000); do echo out $i; [ $((i % 10)) != 0 ] || echo err $i >&2; done"


def ended(ws, name, script, *options):
    ws.tasuki("proc", "create", name, "--start", "--no-wait", *options, "--", "sh", "-c", script).expect(0)
    ws.until(lambda: ws.tasuki("proc", "status", name, "--json").json["state_name"] == "Stopped", f"{name} has ended")


def part(server, name, **query):
    return server.get(f"/api/processes/{name}/logs?" + urllib.parse.urlencode({"stream": "both", **query})).expect(200).json


def brief(lines, stream):
    return [(line["from"], line["to"], line["text"]) for line in lines if line["stream"] == stream]


def backwards(server, name, **query):
    """All parts from the end to the beginning, as one list."""
    lines, before, calls = [], None, 0
    while True:
        got = part(server, name, bytes=1, **({"before": before} if before else {}), **query)
        if not got["lines"]:
            return lines, calls
        eq(before is None or got["cursor"] == before, True, "a part ends where the next one begins")
        lines, before, calls = got["lines"] + lines, got["from"], calls + 1


@test("output is read by offset, forwards and backwards; every line is in exactly one part, in both directions the same")
def _(ws):
    server = Server(ws)
    for name, options in (("plain", ()), ("stamped", ("--log", "stamped"))):
        ended(ws, name, BOTH + "; for i in $(seq 1 100); do printf '%2000s\\n' $i; done; printf 'no end'", *options)
        lines, calls = backwards(server, name)
        eq(len(lines), 3000 + 300 + 101, f"{name}: lines backwards")
        eq(calls > 2, True, f"{name}: in several parts")
        forwards, at = [], "0:0"
        while True:
            got = part(server, name, cursor=at, bytes=1)
            eq(got["from"], at, f"{name}: where the part begins")
            if not got["lines"]:
                break
            forwards, at = forwards + got["lines"], got["cursor"]
        for stream in ("stdout", "stderr"):
            eq(brief(forwards, stream) == brief(lines, stream), True, f"{name}: both directions, {stream}")
        for stream in ("stdout", "stderr"):
            own = [line for line in lines if line["stream"] == stream]
            eq([line["text"].split()[-1] for line in own if line["text"].startswith(stream[3:])],
               [str(i) for i in range(1, 3001) if stream == "stdout" or i % 10 == 0], f"{name}: {stream}")
            eq(brief(backwards(server, name, stream=stream)[0], stream) == brief(lines, stream), True, f"{name}: only {stream}")
        # One file for both in `stamped`: what the holder reads of stderr after it ends the line.
        eq([line["text"] for line in lines if line["stream"] == "stdout"][-1], "no end", f"{name}: the last line")
        if name == "plain":
            eq([line["text"] for line in lines if line.get("partial")], ["no end"], "the line without an end")
    server.get("/api/processes/plain/logs?before=x").expect(400, "INVALID_INPUT")
    server.get("/api/processes/none/logs?before=0:0").expect(404, "ProcessNotFound")
    server.stop()


@test("of one output a place is a byte, as in the log of a task: offset and before")
def _(ws):
    server = Server(ws)
    ended(ws, "web", "for i in 1 2 3 4; do echo out $i; echo err $i >&2; done")
    for stream, word in (("stdout", "out"), ("stderr", "err")):
        for at in (0, 12, 24):
            after, before = (part(server, "web", stream=stream, **{key: at})["lines"] for key in ("offset", "before"))
            eq([line["text"] for line in after], [f"{word} {n}" for n in range(at // 6 + 1, 5)], f"{stream} from {at} on")
            eq([line["text"] for line in before], [f"{word} {n}" for n in range(1, at // 6 + 1)], f"{stream} before {at}")
    eq(part(server, "web", offset="6:6")["from"], "6:6", "a cursor is a place of both")
    for key in ("offset", "before"):
        server.get(f"/api/processes/web/logs?stream=both&{key}=6").expect(400, "INVALID_INPUT")


@test("a search names the places of its hits in the order of both outputs, at most 1,000, and where to go on")
def _(ws):
    server = Server(ws)
    for name, options in (("plain", ()), ("stamped", ("--log", "stamped"))):
        ended(ws, name, BOTH, *options)
        found, at, calls = [], "0:0", 0
        while at is not None:
            got = part(server, name, grep="[05]$", hits="true", cursor=at)
            eq(len(got["hits"]) <= 1000, True, "at most 1,000")
            found, at, calls = found + got["hits"], got["next"], calls + 1
        eq((len(found), calls), (600 + 300, 1), f"{name}: hits, calls")
        for hit in found[::50]:
            line = part(server, name, cursor=hit["cursor"], bytes=1)["lines"][0]
            eq([line[key] for key in ("stream", "from", "text")], [hit[key] for key in ("stream", "from", "text")], f"{name}: the line at the hit")
        got = part(server, name, grep="out", hits="true")
        eq((len(got["hits"]), isinstance(got["next"], str)), (1000, True), f"{name}: there is more")
        eq(part(server, name, grep="out", hits="true", cursor=got["next"])["hits"][0]["text"], "out 1001", f"{name}: it goes on")
    server.get("/api/processes/plain/logs?grep=(&hits=true").expect(400, "INVALID_INPUT")
    server.stop()


@test("a line of many pieces is found once, by a word that lies across two of them")
def _(ws):
    server = Server(ws)
    ended(ws, "long", "head -c 65530 /dev/zero | tr '\\0' x; echo needle; echo other")
    got = part(server, "long", grep="needle", hits="true")
    eq([(hit["from"], hit["stream"]) for hit in got["hits"]], [(0, "stdout")], "the hit")
    server.stop()


@test("one stream has the output of several processes, each from its own cursor, without a gap and without a repetition", slow=True)
def _(ws):
    server, names = Server(ws), ["a", "b", "c", "d", "e"]
    for name in names:
        ws.tasuki("proc", "create", name, "--start", "--no-wait", "--", "sh", "-c",
                  f"echo {name} 1; echo {name} 2 >&2; until test -e more; do sleep 0.05; done; echo {name} 3; until test -e end; do sleep 0.05; done; echo {name} 4").expect(0)
        ws.until(lambda: len(part(server, name, bytes=1)["lines"]) == 2, f"{name} has written")
    cursors = {name: part(server, name, bytes=1)["cursor"] for name in names}

    def stream():
        query = [("id", name) for name in names] + [("stream", "both"), ("cursor", ",".join(cursors.values()))]
        one = server.stream("/api/processes/logs/stream?" + urllib.parse.urlencode(query))
        assert one.status == 200, one.file.read()
        return one

    def take(one, wanted):
        seen = []
        while len(seen) < wanted:
            line = next(one)[1]
            seen.append(line["text"])
            at = cursors[line["id"]].split(":")
            at[line["stream"] == "stderr"] = str(line["to"])
            cursors[line["id"]] = ":".join(at)
        return sorted(seen)

    first = stream()
    (ws.path / "more").touch()
    eq(take(first, 5), [f"{name} 3" for name in names], "what came")
    first.close()
    second = stream()
    (ws.path / "end").touch()
    eq(take(second, 5), [f"{name} 4" for name in names], "what came later")
    second.close()
    server.get("/api/processes/logs/stream?id=a&id=b&cursor=0:0").expect(400, "INVALID_INPUT")
    server.get("/api/processes/logs/stream?id=a&id=b&cursor=0:0,x").expect(400, "INVALID_INPUT")
    server.stop()


main(__name__)
