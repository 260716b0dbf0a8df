"""Spec 3, "Files": names of locks are what people write, on every skin."""

import hashlib
import json
import pathlib
import shlex
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import Agent  # noqa: E402
from common import sleeper  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from http_common import Server, as_headers, register  # noqa: E402

NAMES = {"src/api": "src%2Fapi", "deploy prod": "deploy%20prod", "a.b_c-d": "a.b_c-d", ".hidden": "%2Ehidden", "-x": "%2Dx", "50%": "50%25",
         "鍵": "%E9%8D%B5", "it's \"q\" $(x)": "it%27s%20%22q%22%20%24%28x%29", "../../etc/passwd": "%2E.%2F..%2Fetc%2Fpasswd",
         "~a": "%7Ea", "x" * 180: "x" * 180, "queue": "queue", "RQ-1": "RQ-1", ".": "%2E", "..": "%2E."}


def cut(name):
    encoded = "".join(c if c.isascii() and c.isalnum() else "".join(f"%{b:02X}" for b in c.encode()) for c in name)
    return encoded[:120] + "~" + hashlib.sha256(name.encode()).hexdigest()[:16]


def path_of(ws, encoded):
    return ws.path / ".aiflow" / "locks" / f"name.{encoded}.lock.json"


def listed(ws):
    return {lock["id"] for lock in ws.tasuki("lock", "list", "--json").json["locks"]}


@test("any printable text is a name; its file is percent-encoded, and the name is in it")
def _(ws):
    holder = str(sleeper(ws).pid)
    for name, encoded in NAMES.items():
        got = ws.tasuki("lock", "acquire", "name", "--pid", holder, "--json", "--", name).expect(0).json
        eq((got["id"], got["path"]), (name, str(path_of(ws, encoded))), "acquired")
        eq(json.loads(path_of(ws, encoded).read_text())["name"], name, "name in the file")
        eq(ws.tasuki("lock", "check", "name", "--json", "--", name).expect(4).json["id"], name, "check")
        refused = ws.tasuki("lock", "acquire", "name", "--json", "--", name).expect(4, "LOCK_HELD").error
        eq(shlex.split(refused["next"][1])[-1], name, "the command to look")
    eq(listed(ws), set(NAMES), "list")
    assert all(name in ws.tasuki("lock", "list").out for name in NAMES)
    ws.tasuki("doctor", "--json").expect(0)
    for name, encoded in NAMES.items():
        token = json.loads(path_of(ws, encoded).read_text())["token"]
        ws.tasuki("lock", "release", "name", "--token", token, "--", name).expect(0)
    eq(listed(ws), set(), "list")


@test("a long name is cut and ends in its hash; names that begin alike are different locks")
def _(ws):
    names = ["鍵" * 66, "鍵" * 65 + "錠", " " * 100 + "end"]
    for name in names:
        got = ws.tasuki("lock", "acquire", "name", name, "--pid", sleeper(ws).pid, "--json").expect(0).json
        eq(got["path"], str(path_of(ws, cut(name))), "path")
    eq(listed(ws), set(names), "list")
    ws.tasuki("doctor", "--json").expect(0)


@test("what is not printable, too long or empty is refused, and nothing is made")
def _(ws):
    for name in ("a\nb", "\x1b[31m", "x" * 201, "\u202egpj", "", "a\u0085b"):
        ws.tasuki("--json", "lock", "acquire", "name", name).expect(2, "INVALID_INPUT")
        ws.tasuki("--json", "lock", "run", name, "--", "true").expect(2, "INVALID_INPUT")
    eq(list((ws.path / ".aiflow" / "locks").glob("*.json")), [], "files")
    ws.tasuki("--json", "lock", "acquire", "request", "a b").expect(2, "INVALID_INPUT")


@test("lock run, wait, and the hints take such names")
def _(ws):
    ws.tasuki("lock", "run", "deploy prod", "--", "sh", "-c", 'test "$TASUKI_LOCK" = "deploy prod"').expect(0)
    ws.tasuki("lock", "acquire", "name", "src/api").expect(0)
    ws.tasuki("wait", "lock", "src/api", "--timeout", "10ms", "--json").expect(4, "CONFLICT")
    ws.tasuki("wait", "lock", "name/src/api", "--timeout", "10ms", "--json").expect(4, "CONFLICT")
    own = ws.tasuki("lock", "run", "src/api", "--", "true").expect(4)
    assert "You hold name src/api already" in own.err, own.err
    refused = ws.tasuki("lock", "run", "src/api", "--", "true", env={"TASUKI_INSTANCE_ID": "other-1-1"}).expect(4)
    assert "src/api is held by test_lock_names.py (pid " in refused.err, refused.err
    shown = ws.tasuki("lock", "acquire", "name", "deploy prod").expect(0).out
    assert "tasuki lock release name 'deploy prod'" in shown, shown
    ws.tasuki("lock", "release", "name", "deploy prod").expect(0)
    ws.tasuki("lock", "release", "name", "src/api").expect(0)
    ws.tasuki("wait", "lock", "src/api", "--timeout", "60s").expect(0)


@test("such names over HTTP and MCP, as resources, and in events")
def _(ws):
    server, agent = Server(ws), Agent(ws, "--tools", "all")
    me = register(server)
    for name in ("src/api", "deploy prod", "鍵%"):
        where = "/api/locks/name/" + urllib.parse.quote(name, safe="")
        server.post(where, {}, headers=as_headers(me)).expect(200)
        eq(server.get(where).expect(409).json["id"], name, "GET")
        text, error = agent.refused("lock_acquire", kind="name", id=name)
        assert f"{name} is held by http (" in text, text
        uri = "tasuki://lock/name/" + urllib.parse.quote(name, safe="")
        read = agent.request("resources/read", {"uri": uri})["result"]["contents"][0]["text"]
        eq(json.loads(read)["id"], name, "resource")
        server.ask("DELETE", where, headers=as_headers(me)).expect(200)
        agent.ok("lock_acquire", kind="name", id=name)
        agent.ok("lock_release", kind="name", id=name)
    ids = {event["data"]["id"] for event in ws.tasuki("events", "--json").json["events"] if event["type"] == "lock.acquired"}
    eq(ids, {"src/api", "deploy prod", "鍵%"}, "events")


main(__name__)
