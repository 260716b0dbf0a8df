"""Spec 4 and 8: clients of the server. Their locks live by their lease, only registered ones act, and who ends leaves nothing."""

import ctypes
import fcntl
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE / "mcp"))
from agent import Agent  # noqa: E402
from common import instance_of, sleeper  # noqa: E402
from harness.harness import PR_SET_CHILD_SUBREAPER, eq, main, test  # noqa: E402
from harness.workspace import Workspace  # noqa: E402
from http_common import LEASE_MS, McpClient, Server, as_headers, lease_left, register, set_lease, status_of  # noqa: E402

F_OFD_SETLK = 37
LOCKS = {"name": "/api/locks/name/a", "request": "/api/locks/request/RQ-1", "queue": "/api/locks/queue/queue"}


def check(ws, *words):
    """`lock check`: exit code and answer."""
    result = ws.tasuki("lock", "check", *words, "--json")
    return result.code, result.json


def waiting(ws, server, path, me):
    """Begins to wait for a lock; returns what gives its answer."""
    box = []
    tickets = len(ws.events())
    thread = threading.Thread(target=lambda: box.append(server.post(path, {**me, "wait": "45s"})))
    thread.start()
    ws.until(lambda: somebody_waits(ws, path.rpartition("/")[2]), "somebody waits in line")
    assert len(ws.events()) == tickets

    def answer():
        thread.join(90)
        return box[0]
    return answer


def somebody_waits(ws, id):
    """The guard counts the tickets (docs/protocol/lock-files.md)."""
    guard = (ws.path / ".aiflow" / "locks" / ".guard" / f"name.{id}").read_bytes()
    return len(guard) >= 64 and int.from_bytes(guard[56:64], sys.byteorder) > 0


# -- the lease ------------------------------------------------------------------------------------------------

@test("a client's lock of any kind is held by its lease: only the client, or who has the token, renews and releases it")
def _(ws):
    server = Server(ws)
    one, two = register(server), register(server)
    for kind, path in LOCKS.items():
        got = server.post(path, one).expect(200).json
        eq((got["holder"]["hold"], got["holder"]["pid"], got["holder"]["instance"], got["holder"]["how"]),
           ("lease", None, one["instance"], "lease runs"), f"{kind}: the holder")
        held = server.post(path, two).expect(409).error
        eq((held["context"]["holder"]["instance"], held["context"]["holder"]["alive"]), (one["instance"], True), f"{kind}: refused")
        for method in ("DELETE", "PUT"):
            server.ask(method, path, two).expect(409, "LOCK_LOST")
            said = server.ask(method, path, {}).expect(400, "INVALID_INPUT").error  # whose call it is nobody knows
            assert "instance" in said["message"] and "token" in said["message"] and "register" in said["next"][0], said
        words = path.split("/")[3:4] if kind == "queue" else path.split("/")[3:5]
        ws.tasuki("lock", "release", *words, "--json").expect(4, "LOCK_LOST")  # this process is above the server, too
        server.ask("PUT", path, {"token": got["token"]}).expect(200)
        server.ask("PUT", path, one).expect(200)
        eq(server.ask("DELETE", path, one).expect(200).json["existed"], True, f"{kind}: its own release")
    server.post(LOCKS["name"], one).expect(200)
    assert " is held by http (a client of the server, http-" in server.post(LOCKS["name"], two).error["message"]
    assert f"client {one['instance']}" in ws.tasuki("lock", "list").expect(0).out
    server.stop()


@test("when the lease is over the lock is taken at once, whatever its TTL; before that, never")
def _(ws):
    server = Server(ws)
    one, two = register(server), register(server)
    server.post("/api/locks/name/short", {**one, "ttl": "1ms"}).expect(200)
    eq(server.post("/api/locks/name/short", two).expect(409, "LOCK_HELD").error["context"]["holder"]["alive"], True, "past its TTL")
    server.post("/api/locks/name/a", {**one, "ttl": "9h"}).expect(200)
    set_lease(ws, one, 60000)
    eq(check(ws, "name", "a")[0], 4, "while the lease runs")
    token = ws.read_lock("name", "a")["token"]
    set_lease(ws, one, -1)
    assert "lease" in server.ask("PUT", "/api/locks/name/a", {"token": token}).expect(409, "LOCK_LOST").error["message"]
    code, seen = check(ws, "name", "a")
    eq((code, seen["state"], seen["holder"]["alive"], seen["holder"]["how"]), (6, "stale", False, "lease is over"), "after it")
    taken = server.post("/api/locks/name/a", two).expect(200).json
    eq(taken["recovered"]["instance"], one["instance"], "from whom")
    event = ws.events("LOCK_STALE_RECOVERED")[-1]["data"]
    eq((event["instance"], event["old_holder"]["instance"]), (two["instance"], one["instance"]), "the event")
    server.ask("PUT", "/api/locks/name/a", one).expect(409, "LOCK_LOST")
    eq(server.ask("PUT", "/api/locks/name/short", one).expect(200).json["status"], "renewed", "what nobody took is its own again")
    server.stop()


@test("who has ended while its call waited for a lock does not get it", slow=True)
def _(ws):
    server = Server(ws)
    one, two = register(server), register(server)
    server.post("/api/locks/name/a", one).expect(200)
    answer = waiting(ws, server, "/api/locks/name/a", two)
    server.ask("DELETE", f"/api/instances/{two['instance']}", {"secret": two["secret"]}).expect(200)
    server.ask("DELETE", "/api/locks/name/a", one).expect(200)
    answer().expect(404, "NOT_FOUND")
    eq(check(ws, "name", "a")[0], 0, "the lock")
    for lap in range(20):  # nor who locks while it ends: whatever its calls were told, nothing is left
        me = register(server)
        calls = [threading.Thread(target=server.post, args=(f"/api/locks/name/lap{lap}-{n}", me)) for n in range(4)]
        for call in calls:
            call.start()
        server.ask("DELETE", f"/api/instances/{me['instance']}", {"secret": me["secret"]}).expect(200)
        for call in calls:
            call.join()
    eq(server.get("/api/locks").json["locks"], [], "what is left of those who ended")
    server.stop()


@test("doctor recovers a lock whose client is gone, and leaves one whose client lives")
def _(ws):
    server = Server(ws)
    one, two = register(server), register(server)
    server.post("/api/locks/name/a", one).expect(200)
    server.post("/api/locks/name/b", two).expect(200)
    set_lease(ws, one, -1)
    said = ws.tasuki("doctor", "--full", "--json").out
    assert f"name a was recovered from client {one['instance']}" in said and f"name b is held by client {two['instance']}" in said, said
    eq([lock["id"] for lock in server.get("/api/locks").json["locks"]], ["b"], "what is left")
    server.stop()


@test("who waits is woken when the lease ends, and when the client ends cleanly", slow=True)
def _(ws):
    server = Server(ws)
    one, two, three = register(server), register(server), register(server)
    server.post("/api/locks/name/a", one).expect(200)
    answer = waiting(ws, server, "/api/locks/name/a", two)
    set_lease(ws, one, 200)
    eq(answer().expect(200).json["recovered"]["instance"], one["instance"], "after the lease")
    server.post("/api/locks/name/b", two).expect(200)
    answer = waiting(ws, server, "/api/locks/name/b", three)
    server.ask("DELETE", f"/api/instances/{two['instance']}", {"secret": two["secret"]}).expect(200)
    assert "recovered" not in answer().expect(200).json, "released, not left behind"
    server.stop()


@test("a restart of the server extends leases once: what was locked before is locked after, what was left behind stays so")
def _(ws):
    server = Server(ws)
    one, two, gone = register(server), register(server), register(server)
    server.post("/api/locks/name/a", one).expect(200)
    server.post("/api/locks/name/left", gone).expect(200)
    server.proc.kill()
    server.proc.wait()
    set_lease(ws, one, -60000)  # nobody could renew it meanwhile
    set_lease(ws, gone, -600000)  # it was over when the server was still there
    seen = time.time() - 300
    os.utime(ws.path / ".aiflow" / "server.lock", (seen, seen))
    server = Server(ws, port=server.port)
    assert lease_left(ws, one) > LEASE_MS - 60000, "the lease is extended before the server is to be found"
    server.post("/api/locks/name/a", two).expect(409, "LOCK_HELD")
    eq(check(ws, "name", "left")[0], 6, "the lock of who was gone")
    set_lease(ws, two, -1000)  # more than the time of a file may be behind the clock
    server.stop()
    server = Server(ws, port=server.port)
    assert lease_left(ws, two) < 0, "a server that ends says when"
    eq(server.ask("DELETE", "/api/locks/name/a", one).expect(200).json["existed"], True, "its own")
    server.stop()


@test("a server that nobody stands above (setsid, systemd) takes locks for its clients")
def _(ws):
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    try:
        server = Server(ws, binary=detached(ws))
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    ws.kill_at_close(server.said["pid"])
    one = register(server)
    eq(server.post("/api/locks/name/a", one).expect(200).json["holder"]["hold"], "lease", "how it is held")
    os.kill(server.said["pid"], signal.SIGTERM)
    ws.until(lambda: not ws.alive(server.said["pid"]), "the server ends")


def detached(ws):
    script = ws.base / "detached"
    script.write_text(f'#!/bin/sh\nexec setsid --fork {ws.binary} "$@"\n')
    script.chmod(0o755)
    return script


@test("a table that cannot be read is no death, and a reboot is", slow=True)
def _(ws):
    server = Server(ws)
    one = register(server)
    server.post("/api/locks/name/a", {**one, "ttl": "1ms"}).expect(200)
    server.stop()
    files = {path: path.read_bytes() for path in (ws.path / ".aiflow").glob("state.db*")}
    for path in files:
        path.write_bytes(b"no database at all" * 100)
    code, seen = check(ws, "name", "a")
    eq((code, seen["holder"]["alive"], seen["holder"]["how"], seen["expired"]), (4, None, "lease cannot be read", True), "unreadable")
    ws.tasuki("lock", "acquire", "name", "a", "--json", "--pid", os.getpid()).expect(4, "LOCK_HELD")
    for path, good in files.items():
        path.write_bytes(good)
    eq(check(ws, "name", "a")[0], 4, "readable again")
    ws.write_lock("name", "a", {**ws.read_lock("name", "a"), "boot_id": "0" * 36})
    code, seen = check(ws, "name", "a")
    eq((code, seen["holder"]["how"]), (6, "machine was rebooted"), "after a reboot")
    ws.tasuki("lock", "renew", "name", "a", "--json", "--token", ws.read_lock("name", "a")["token"]).expect(4, "LOCK_LOST")


@test("force fences a client off after a yes; it has no process that could be killed")
def _(ws):
    server = Server(ws)
    one, two = register(server), register(server)
    server.post("/api/locks/name/a", one).expect(200)
    eq(server.post("/api/locks/name/a/force", two).expect(409, "NEEDS_CONFIRMATION").json["needs_confirmation"], True, "without a yes")
    server.post("/api/locks/name/a/force", {**two, "kill": True, "confirm": True}).expect(400, "INVALID_INPUT")
    eq(server.post("/api/locks/name/a/force", {**two, "confirm": True}).expect(200).json["forced"]["instance"], one["instance"], "from whom")
    server.ask("PUT", "/api/locks/name/a", one).expect(409, "LOCK_LOST")
    server.stop()


# -- other tools ----------------------------------------------------------------------------------------------

@test("a literal D39 tool sees a client's lock as one without a pid: held until its TTL, which each call of the client renews")
def _(ws):
    server = Server(ws)
    one = register(server)
    server.post("/api/locks/request/RQ-1", one).expect(200)
    before = ws.read_lock("request", "RQ-1")
    eq((before["pid"], before["hold"], before["instance"]), (None, "lease", one["instance"]), "the file")
    tool = [sys.executable, HERE / "clients" / "d39.py", "once", ws.lock_path("request", "RQ-1"), "request", "RQ-1"]
    eq(ws.run(tool).out.split(), ["held"], "the tool")
    set_lease(ws, one, LEASE_MS - 1000)  # the time to spare is used up
    server.get("/api/status?" + "&".join(f"{k}={v}" for k, v in one.items())).expect(200)
    after = ws.read_lock("request", "RQ-1")
    assert after["expires_boot_ms"] > before["expires_boot_ms"], (before, after)
    eq((after["fence"], after["token"]), (before["fence"], before["token"]), "the same lock")
    ws.write_lock("request", "RQ-1", {**after, "expires_at": "2020-01-01T00:00:00+00:00"})
    eq(ws.run(tool).out.split()[0], "acquired", "seed 000, 5.2: expired, and no pid")
    server.stop()


@test("a sprint of a client: a literal U2 tool is blocked, and from another workspace it is judged by the table it names")
def _(ws):
    server = Server(ws)
    one, two = register(server), register(server)
    sprint = {"mode": "acquire", "session": "s", "epic": "e"}
    server.post("/api/sprint", sprint).expect(400)
    eq(server.post("/api/sprint", {**sprint, **one}).expect(200).json["status"], "acquired", "by its lease")
    eq(server.post("/api/sprint", {**sprint, **two}).expect(409).json["lock_info"]["pid_alive"], True, "the other")
    eq(ws.run(["sh", HERE / "clients" / "u2.sh", "acquire", ws.path, "t", "e"]).out.split()[0], "blocked", "the tool")
    set_lease(ws, one, -1)
    eq(server.get("/api/sprint").expect(409).json["status"], "zombie-detected", "when the lease is over")
    (ws.path / "other").mkdir()  # below the server's workspace: a client names nothing else
    other = Workspace(ws.path / "other")
    ws.at_close(other.close)
    other.tasuki("init").expect(0)
    server.post("/api/sprint", {**sprint, **two, "project_root": str(other.path)}).expect(200)
    eq(other.tasuki("sprint", "check", "--json").expect(4).json["status"], "blocked", "from the other workspace")
    set_lease(ws, two, -1)
    eq(other.tasuki("sprint", "check", "--json").expect(6).json["status"], "zombie-detected", "and after the lease")
    server.stop()


# -- only registered instances --------------------------------------------------------------------------------

@test("through the server an instance that was not registered there proves nothing, and nobody is taken for the shell above it")
def _(ws):
    server = Server(ws)
    mine = ws.tasuki("own", "claim", "w", "--json").expect(0).json["ownerInstanceId"]
    ws.tasuki("lock", "acquire", "name", "shell").expect(0)
    client = McpClient(server)
    for name in (mine, "somebody", "http-0123456789abcdef", "http-x"):
        for method, path, body in (("POST", "/api/workflows/w/release", {}), ("POST", "/api/workflows/v/claim", {}),
                                   ("POST", "/api/locks/name/x", {}), ("DELETE", "/api/locks/name/shell", {}),
                                   ("PUT", "/api/locks/name/shell", {}), ("DELETE", f"/api/instances/{name}", {}),
                                   ("POST", "/api/sprint", {"mode": "acquire", "session": "s", "epic": "e"})):
            body = body if "instances" in path else {**body, "instance": name}
            refused = server.ask(method, path, body).expect(401, "UNAUTHORIZED").error
            assert "register=true" in refused["next"][0], refused
        answer = client.call("lock_acquire", kind="name", id="x", instance=name)
        eq((answer["isError"], answer["structuredContent"]["error"]["reason_code"]), (True, "UNAUTHORIZED"), name)
    for path in ("/api/locks/name/x", "/api/workflows/v/claim"):
        refused = server.post(path).expect(400, "INVALID_INPUT").error
        assert "register=true" in refused["next"][0], refused
    assert client.call("lock_acquire", kind="name", id="x")["structuredContent"]["error"]["message"].startswith("The caller of this request is unknown")
    server.ask("DELETE", "/api/locks/name/shell").expect(400, "INVALID_INPUT")
    eq([lock["id"] for lock in server.get("/api/locks").json["locks"]], ["shell"], "what is locked")
    eq(server.get("/api/workflows/w").json["ownerInstanceId"], mine, "whose it is")
    server.stop()


@test("a pid that is named holds the lock, and proves nothing: the token does")
def _(ws):
    server = Server(ws)
    holder = sleeper(ws)
    got = server.post("/api/locks/name/a", {"pid": holder.pid}).expect(200).json
    eq((got["holder"]["hold"], got["holder"]["pid"]), ("process", holder.pid), "the holder")
    server.ask("DELETE", "/api/locks/name/a", {"pid": holder.pid}).expect(400, "INVALID_INPUT")
    server.ask("DELETE", "/api/locks/name/a", register(server)).expect(409, "LOCK_LOST")
    server.ask("DELETE", "/api/locks/name/a", {"token": got["token"]}).expect(200)
    mine = server.post("/api/locks/name/b", {"pid": os.getpid()}).expect(200).json
    server.ask("DELETE", "/api/locks/name/b").expect(400, "INVALID_INPUT")  # this process stands above the server
    server.ask("DELETE", "/api/locks/name/b", {"token": mine["token"]}).expect(200)
    server.stop()


# -- a clean end ----------------------------------------------------------------------------------------------

@test("who calls is said in one way, or refused")
def _(ws):
    server = Server(ws)
    one, two = register(server), register(server)
    head = f"Host: localhost\r\nAuthorization: Bearer {server.token}\r\nConnection: close\r\n"
    names = "".join(f"{name}: {value}\r\n" for me in (one, two) for name, value in as_headers(me).items())
    eq(status_of(server.raw(f"POST /api/locks/name/a HTTP/1.1\r\n{head}{names}\r\n".encode())), 400, "two callers")
    server.get("/api/locks", headers={"Tasuki-Instance": "x" * 257}).expect(400, "INVALID_INPUT")
    server.post("/api/locks/name/a", {"instance": [one["instance"]]}, headers=as_headers(one)).expect(400, "INVALID_INPUT")
    assert "secret must be of type string" in server.post("/api/locks/name/a", {**one, "secret": 5}).expect(400).error["message"]
    eq(server.get("/api/locks").json["locks"], [], "what was locked")
    server.stop()


@test("clients that have gone are forgotten when the next one registers, unless they own something")
def _(ws):
    server = Server(ws)
    gone, owner, late = register(server), register(server), register(server)
    server.post("/api/workflows/w/claim", owner).expect(200)
    for me, hours in ((gone, 25), (owner, 25), (late, 23)):
        set_lease(ws, me, -hours * 3600 * 1000)
    register(server)
    eq([lease_left(ws, me) is None for me in (gone, owner, late)], [True, False, False], "who is forgotten")
    server.stop()


@test("who ends leaves nothing: its locks and claims are free, its secret is of no use, and others keep theirs")
def _(ws):
    server = Server(ws)
    one, two = register(server), register(server)
    for me, id in ((one, "a"), (one, "b"), (two, "c")):
        server.post(f"/api/locks/name/{id}", me).expect(200)
        server.post(f"/api/workflows/w{id}/claim", me).expect(200)
    (ws.path / "sub").mkdir()
    sprints = [{}, {"lock_file": ".other"}, {"project_root": "sub"}]
    for where in sprints:
        server.post("/api/sprint", {"mode": "acquire", "session": "s", "epic": "e", **where, **one}).expect(200)
    server.ask("DELETE", f"/api/instances/{one['instance']}", {"secret": two["secret"]}).expect(401, "UNAUTHORIZED")
    left = server.ask("DELETE", f"/api/instances/{one['instance']}", headers=as_headers(one)).expect(200).json
    eq(left, {"status": "left", "instance": one["instance"], "locks": 5, "workflows": 2, "unreadable": []}, "the answer")
    eq(lease_left(ws, one), None, "the row")
    eq([lock["id"] for lock in server.get("/api/locks").json["locks"]], ["c"], "locks")
    eq([wf["ulTaskId"] for wf in server.get("/api/workflows").json["workflows"]], ["wc"], "workflows")
    eq(len(ws.events("lock.released")), 5, "events")
    for where in sprints:
        server.post("/api/sprint", {"mode": "acquire", "session": "s", "epic": "e", **where, **two}).expect(200)
    for again in (("POST", "/api/locks/name/a", one), ("DELETE", f"/api/instances/{one['instance']}", {"secret": one["secret"]})):
        server.ask(*again).expect(401, "UNAUTHORIZED")
    server.stop()


@test("who takes a sprint of its own file again while it ends leaves none of it, either")
def _(ws):
    server = Server(ws)
    me = register(server)

    def acquire(file):
        return server.post("/api/sprint", {"mode": "acquire", "session": "s", "epic": "e", "lock_file": file, **me}).expect(200).json["status"]

    eq([acquire(file) for file in (".a", ".b")], ["acquired"] * 2, "what it has")
    guard = os.open(ws.path / ".aiflow" / "locks" / ".guard" / "sprint..b", os.O_RDWR)
    fcntl.fcntl(guard, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 1, 0))
    end = threading.Thread(target=server.ask, args=("DELETE", f"/api/instances/{me['instance']}", {"secret": me["secret"]}))
    end.start()
    ws.until(lambda: not (ws.path / ".a").exists(), "the first one is released, the second cannot be yet")
    eq(acquire(".a"), "acquired", "a call that was on its way")
    os.close(guard)
    end.join(90)
    eq([(ws.path / file).exists() for file in (".a", ".b")], [False] * 2, "what is left")
    eq(lease_left(ws, me), None, "it has ended")
    server.stop()


@test("the end of an MCP session ends what it registered, also in a later server; a tool does it without one")
def _(ws):
    server = Server(ws, "--tools", "all")
    first, second, third = (McpClient(server) for _ in range(3))
    who = [client.call("get_status", register=True)["structuredContent"] for client in (first, second, third)]
    who = [{"instance": one["instance"], "secret": one["secret"]} for one in who]
    for client, me, id in zip((first, second, third), who, "abc"):
        eq(client.call("lock_acquire", kind="name", id=id, **me)["structuredContent"]["holder"]["hold"], "lease", "held by")
    server.ask("DELETE", "/mcp", headers=first.headers()).expect(200)
    eq([lock["id"] for lock in server.get("/api/locks").json["locks"]], ["b", "c"], "after the first")
    saved = "".join(path.read_text() for path in (ws.path / ".aiflow" / "mcp").glob("session.*"))
    assert who[1]["instance"] in saved and who[1]["secret"] not in saved, saved
    server.stop()
    server = Server(ws, "--tools", "all", port=server.port)
    second.server = third.server = server
    server.ask("DELETE", "/mcp", headers=second.headers()).expect(200)
    eq([lock["id"] for lock in server.get("/api/locks").json["locks"]], ["c"], "after the second")
    eq(third.call("release_all", **who[2])["structuredContent"]["locks"], 1, "the tool")
    eq((server.get("/api/locks").json["locks"], [lease_left(ws, me) for me in who]), ([], [None] * 3), "what is left")
    for _ in range(65):  # more than a session remembers
        last = third.call("get_status", register=True)["structuredContent"]
    server.post("/api/locks/name/last", {"instance": last["instance"], "secret": last["secret"]}).expect(200)
    server.ask("DELETE", "/mcp", headers=third.headers()).expect(200)
    eq(server.get("/api/locks").json["locks"], [], "of many, the latest are remembered")
    server.stop()


@test("on the command line `own leave` releases what the caller has, and not what a lock run holds")
def _(ws):
    ws.tasuki("lock", "acquire", "name", "a").expect(0)
    ws.tasuki("own", "claim", "w").expect(0)
    out = ws.tasuki("own", "leave").expect(0).out
    assert "1 × lock, 1 × workflow" in out, out
    eq(ws.tasuki("lock", "list", "--json").json["locks"], [], "what is left")
    inside = ws.tasuki("lock", "run", "r", "--", ws.binary, "own", "leave", "--json").expect(0).json
    eq(inside["locks"], 0, "what the command of a lock run releases")
    giver = sleeper(ws)
    name = ws.tasuki("own", "claim", "w", "--json", "--instance", instance_of(giver.pid)).expect(0).json["ownerInstanceId"]
    ws.tasuki("own", "leave", "--json", env={"TASUKI_INSTANCE_ID": name}).expect(4, "CONFLICT")
    eq(ws.tasuki("own", "leave", "--json", "--instance", name).expect(0).json["workflows"], 1, "said in full")


@test("an agent that works for a client of the server takes nothing from it when its connection ends")
def _(ws):
    server = Server(ws)
    one = register(server)
    server.post("/api/locks/name/a", one).expect(200)
    server.post("/api/workflows/w/claim", one).expect(200)
    agent = Agent(ws, "--grace", "0s", "--tools", "all", env={"TASUKI_INSTANCE_ID": one["instance"]})
    eq(agent.ok("ul_workflow_check", ulTaskId="w")["owned"], True, "it acts for the client")
    text, _ = agent.refused("release_all")
    assert text.startswith("NOT RELEASED: You work in the name of"), text
    agent.close()
    named = {"TASUKI_INSTANCE_ID": one["instance"]}
    ws.tasuki("own", "leave", "--json", env=named).expect(4, "CONFLICT")
    eq(server.get("/api/workflows/w").json["ownerInstanceId"], one["instance"], "the claim")
    eq(server.ask("DELETE", "/api/locks/name/a", one).expect(200).json["existed"], True, "the lock")
    server.stop()


# -- streams --------------------------------------------------------------------------------------------------

@test("a stream may say whose it is: that counts as a call, a wrong secret is refused, and no secret is written down")
def _(ws):
    server = Server(ws)
    ws.tasuki("proc", "create", "p", "--", "sh", "-c", "echo hello").expect(0)
    ws.tasuki("proc", "start", "p").expect(0)
    one = register(server)
    query = "&".join(f"{name}={value}" for name, value in one.items())
    for path in ("/api/events", "/api/processes/p/logs/stream"):
        server.get(path, headers={"Accept": "text/event-stream", **as_headers(one), "Tasuki-Secret": "0" * 32}).expect(401, "UNAUTHORIZED")
        server.get(f"{path}?instance=somebody", headers={"Accept": "text/event-stream"}).expect(401, "UNAUTHORIZED")
        for how, headers in ((path, as_headers(one)), (f"{path}?{query}", {})):
            set_lease(ws, one, -1)
            stream = server.stream(how, headers)
            eq(stream.status, 200, how)
            assert lease_left(ws, one) > LEASE_MS - 60000, how
            stream.close()
    set_lease(ws, one, -1)
    server.get("/api/locks", headers=as_headers(one)).expect(200)
    assert lease_left(ws, one) > 0, "a call that has no `instance` of its own"
    agent = McpClient(server)
    two = agent.call("get_status", register=True)["structuredContent"]
    set_lease(ws, two, -1)
    agent.call("list_processes")
    ws.until(lambda: lease_left(ws, two) > 0, "a call through the session that registered it")
    trail = json.dumps(ws.events())
    assert one["secret"] not in trail and "hello" not in trail, "in the trail"
    server.stop()
    found = subprocess.run(["grep", "-rl", one["secret"], ws.path], capture_output=True, text=True, check=False).stdout
    eq(found, "", "files with the secret")


main(__name__)
