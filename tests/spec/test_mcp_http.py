"""Spec 8, MCP over HTTP: what the transport adds. The protocol itself: test_mcp_*.py, and the official suite."""

import http.client
import json
import os
import socket
import threading
import time

from common import sleeper
from harness.harness import eq, main, test
from http_common import Server, as_headers, lease_left, register, set_lease

MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
TASKS = META + "tasks"
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


class Client:
    """A client of /mcp; legacy with a session, or modern."""

    def __init__(self, server, session=None):
        self.server, self.session, self.count = server, session, 0

    def headers(self, more=None):
        named = {"Mcp-Session-Id": self.session, "MCP-Protocol-Version": "2025-11-25"} if self.session else {}
        return {"Accept": "application/json, text/event-stream", "Content-Type": "application/json", **named, **(more or {})}

    def post(self, message, headers=None, timeout=90):
        return self.server.post("/mcp", message, headers=self.headers(headers), timeout=timeout)

    def initialize(self):
        answer = self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}).expect(200)
        self.session = answer.headers["Mcp-Session-Id"]
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).expect(202)
        return self

    def request(self, method, params=None, status=200, **options):
        self.count += 1
        answer = self.post({"jsonrpc": "2.0", "id": self.count, "method": method, "params": params or {}}, **options)
        return answer.expect(status).json

    def call(self, tool, **arguments):
        return self.request("tools/call", {"name": tool, "arguments": arguments})["result"]


def modern(method, params=None, capabilities=None, id=1):
    meta = {META + "protocolVersion": MODERN, META + "clientCapabilities": capabilities or {}}
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**(params or {}), "_meta": meta}}


def modern_headers(message):
    name = message["params"].get("name") or message["params"].get("uri") or message["params"].get("taskId")
    return {"MCP-Protocol-Version": MODERN, "Mcp-Method": message["method"], "Accept": "application/json, text/event-stream",
            **({"Mcp-Name": name} if name else {})}


def post_modern(server, message, status=200):
    return server.post("/mcp", message, headers=modern_headers(message)).expect(status).json


def open_modern(server, message):
    """Sends the request and does not wait: its socket."""
    body = json.dumps(message)
    lines = ["POST /mcp HTTP/1.1", f"Host: localhost:{server.port}", f"Content-Length: {len(body)}",
             *(f"{k}: {v}" for k, v in {**server.auth(), **modern_headers(message)}.items())]
    sock = server.connect()
    sock.sendall("\r\n".join([*lines, "", body]).encode())
    return sock


def frames(sock):
    """The messages of a stream."""
    file = sock.makefile("rb")
    for line in file:
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


# -- sessions -------------------------------------------------------------------------------------------------

@test("a session: 400 without one, 404 for an unknown one, DELETE ends it, GET without a stream is refused")
def _(ws):
    server = Server(ws)
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    Client(server).post(ping).expect(400)
    for session in ("0" * 32, "x", "../../state.db", "0" * 31 + "/"):
        Client(server, session).post(ping).expect(404)
    client = Client(server).initialize()
    client.post(ping).expect(200)
    client.post(ping, {"MCP-Protocol-Version": "1999-01-01"}).expect(400)
    for method in ("GET", "DELETE"):
        server.ask(method, "/mcp", headers=client.headers({"MCP-Protocol-Version": "1999-01-01"})).expect(400)
    eq(server.get("/mcp", headers=client.headers({"Accept": "application/json"})).status, 405, "GET without a stream")
    eq(server.get("/mcp").status, 405, "GET without a session")
    eq(server.ask("PUT", "/mcp", b"{}").status, 405, "PUT")
    eq(server.ask("DELETE", "/mcp", headers=client.headers()).status, 200, "DELETE")
    client.post(ping).expect(404)
    client = Client(server).initialize()
    for body in (b"", b"nonsense", b"[1]", b'{"jsonrpc":"2.0"}', b'{"jsonrpc":"2.0","id":1,"method":5}', b'{"jsonrpc":"2.0","result":{}}'):
        for headers in ({}, client.headers()):
            assert server.ask("POST", "/mcp", body, headers=headers).status == 400, (body, headers)
    client.post({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "what?"}}).expect(202)
    server.stop()


@test("an initialize that is refused makes no session")
def _(ws):
    server = Server(ws)
    client = Client(server)
    bad = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
    answer = client.post(bad).expect(200)
    eq((answer.json["error"]["code"], answer.headers["Mcp-Session-Id"]), (-32602, None), "the refusal")
    answer = client.post({**bad, "params": HELLO}, {**as_headers(register(server)), "Tasuki-Secret": "0" * 32}).expect(401)
    eq((answer.headers["Mcp-Session-Id"], list((ws.path / ".aiflow").glob("mcp/session.*"))), (None, []), "what is left")
    server.stop()


@test("a session outlives the server, with what was negotiated and subscribed to")
def _(ws):
    server = Server(ws)
    client = Client(server).initialize()
    client.request("resources/subscribe", {"uri": "tasuki://locks"})
    for _ in range(3):
        server.proc.kill()
        server.proc.wait()
        server = Server(ws, port=server.port)
        client.server = server
        eq(client.call("lock_list")["structuredContent"]["locks"], [], "a call")
    stream = server.stream("/mcp", client.headers())
    eq(stream.status, 200, "its stream")
    server.post("/api/locks/name/a", {"pid": sleeper(ws).pid}).expect(200)
    for _, message in stream:
        if message["method"] == "notifications/resources/updated":
            eq(message["params"], {"uri": "tasuki://locks"}, "the news")
            break
    stream.close()
    server.stop()


@test("files of sessions: forgotten after a week, 4,096 at most, and looked through by nobody who waits", slow=True)
def _(ws):
    folder = ws.path / ".aiflow" / "mcp"
    folder.mkdir(mode=0o700)
    now = time.time()

    def put(count, age_s, name):
        for number in range(count):
            path = folder / f"session.{name}{number:028x}"
            path.write_text("{}")
            os.utime(path, (now - age_s - number, now - age_s - number))

    put(5, 8 * 86400, "dead")
    put(4090, 3600, "beef")
    server = Server(ws)
    ws.until(lambda: not list(folder.glob("session.dead*")), "the old ones are gone")
    eq(len(list(folder.iterdir())), 4090, "files")
    put(1, 8 * 86400, "dead")
    session = Client(server).initialize().session
    assert list(folder.glob("session.dead*")), "an initialize must not look through the folder"
    for _ in range(6):
        Client(server).initialize()
    ws.until(lambda: len(list(folder.iterdir())) < 3100, "there were too many")
    assert not list(folder.glob("session.dead*")) and (folder / f"session.{session}").exists(), "the oldest go"
    assert not (folder / f"session.beef{4089:028x}").exists() and (folder / f"session.beef{0:028x}").exists(), "the oldest go"
    server.stop()


@test("an agent that only listens keeps its session, however many others come", slow=True)
def _(ws):
    server = Server(ws)
    client, silent = Client(server).initialize(), Client(server).initialize()
    stream = server.stream("/mcp", client.headers())
    client.request("resources/subscribe", {"uri": "tasuki://processes"})
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=90)
    hello = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO})
    for _ in range(1000):
        connection.request("POST", "/mcp", hello, {**server.auth(), **Client(server).headers()})
        connection.getresponse().read()
    connection.close()
    server.post("/api/processes", {"id": "a", "command": "true"}).expect(200)
    eq(next(stream)[1]["params"]["uri"], "tasuki://processes", "the news")
    eq(silent.request("ping")["result"], {}, "who made room is known by its file")
    stream.close()
    server.stop()


@test("news come on the session's own stream, and a second stream takes its place")
def _(ws):
    server = Server(ws)
    client = Client(server).initialize()
    first = server.stream("/mcp", client.headers())
    second = server.stream("/mcp", client.headers())
    eq(list(first), [], "the first one ends")
    client.request("resources/subscribe", {"uri": "tasuki://processes"})
    server.post("/api/processes", {"id": "a", "command": "true"}).expect(200)
    eq(next(second)[1]["params"]["uri"], "tasuki://processes", "the news")
    for stream in (first, second):
        stream.close()
    server.stop()


@test("a question to a legacy client goes with the call it is about, and its answer comes by another POST")
def _(ws):
    server = Server(ws)
    holder = sleeper(ws)
    server.post("/api/locks/name/a", {"pid": holder.pid}).expect(200)
    client = Client(server)
    hello = {**HELLO, "capabilities": {"elicitation": {}}}
    client.session = client.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}).headers["Mcp-Session-Id"]
    who = client.call("get_status", register=True)["structuredContent"]
    arguments = {"kind": "name", "id": "a", "force": True, "instance": who["instance"], "secret": who["secret"]}
    body = json.dumps({"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": {"name": "lock_acquire", "arguments": arguments}})
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=90)
    connection.request("POST", "/mcp", body, {**client.headers(), **server.auth()})
    response = connection.getresponse()
    eq(response.headers["Content-Type"], "text/event-stream", "the answer is a stream")
    asked = forced = None
    for line in response:
        if line.startswith(b"data: "):
            message = json.loads(line[6:])
            if message.get("method") == "elicitation/create":
                asked = message
                client.post({"jsonrpc": "2.0", "id": message["id"], "result": {"action": "accept", "content": {"confirm": True}}}).expect(202)
            elif message.get("id") == "x":
                forced = message["result"]["structuredContent"]
                break
    connection.close()
    assert str(holder.pid) in asked["params"]["message"], asked
    eq(forced["forced"]["pid"], holder.pid, "from whom")
    server.stop()


# -- the modern era -------------------------------------------------------------------------------------------

@test("a modern client that goes away has cancelled: its wait ends and takes nothing")
def _(ws):
    server = Server(ws)
    holder, other = sleeper(ws), sleeper(ws)
    token = server.post("/api/locks/name/a", {"pid": holder.pid}).expect(200).json["token"]
    call = modern("tools/call", {"name": "lock_acquire", "arguments": {"kind": "name", "id": "a", "wait": "45s", "pid": other.pid}})
    sock = open_modern(server, call)
    ws.until(lambda: server.get("/metrics").body.count(b"tasuki_http_connections 2"), "it waits")
    sock.close()
    ws.until(lambda: server.get("/metrics").body.count(b"tasuki_http_connections 1"), "it is gone")
    server.ask("DELETE", "/api/locks/name/a", {"token": token}).expect(200)
    got = server.post("/api/locks/name/a", {"pid": holder.pid, "wait": "45s"}).expect(200).json
    eq(got["holder"]["pid"], holder.pid, "who has it")
    server.stop()


@test("headers that do not say what the body says are refused; Base64 is understood")
def _(ws):
    server = Server(ws)
    call = modern("tools/call", {"name": "lock_list", "arguments": {}})
    good = modern_headers(call)
    server.post("/mcp", call, headers=good).expect(200)
    server.post("/mcp", call, headers={**good, "Mcp-Name": "=?base64?bG9ja19saXN0?="}).expect(200)
    for name, value in (("Mcp-Name", "get_status"), ("Mcp-Method", "tools/list"), ("MCP-Protocol-Version", "2025-11-25"),
                        ("Mcp-Name", "=?base64?!!!!?="), ("Mcp-Name", "=?base64?bG9j?="), ("Mcp-Name", "=?base64?bG9ja19saXN0!!!!?="),
                        ("Mcp-Name", "=?base64?bG9ja19saXN0b?=")):
        answer = server.post("/mcp", call, headers={**good, name: value}).expect(400).json
        eq(answer["error"]["code"], -32020, f"{name}: {value}")
    for name in ("Mcp-Name", "Mcp-Method"):
        server.post("/mcp", call, headers={k: v for k, v in good.items() if k != name}).expect(400)
    eq(post_modern(server, modern("no/such"), 404)["error"]["code"], -32601, "an unknown method")
    server.stop()


@test("subscriptions/listen is a stream: acknowledged, told, and ended with a result when the server ends")
def _(ws):
    server = Server(ws)
    listen = modern("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["tasuki://locks"]}}, id="sub")
    sock = open_modern(server, listen)
    messages = frames(sock)
    eq(next(messages)["method"], "notifications/subscriptions/acknowledged", "first")
    server.post("/api/locks/name/a", {"pid": sleeper(ws).pid}).expect(200)
    news = next(messages)
    eq((news["params"]["uri"], news["params"]["_meta"][META + "subscriptionId"]), ("tasuki://locks", "sub"), "the news")
    server.stop()
    last = list(messages)[-1]
    eq((last["id"], last["result"]["resultType"]), ("sub", "complete"), "the end")
    sock.close()


@test("a call that takes long becomes a task; it is asked for on another connection, and its listeners are told", slow=True)
def _(ws):
    server = Server(ws)
    holder, other = sleeper(ws), sleeper(ws)
    token = server.post("/api/locks/name/a", {"pid": holder.pid}).expect(200).json["token"]
    able = {"extensions": {TASKS: {}}}
    call = modern("tools/call", {"name": "lock_acquire", "arguments": {"kind": "name", "id": "a", "wait": "45s", "pid": other.pid}}, able)
    made = post_modern(server, call)["result"]
    eq((made["resultType"], made["status"]), ("task", "working"), "the answer")
    sock = open_modern(server, modern("subscriptions/listen", {"notifications": {"taskIds": [made["taskId"]]}}, able, id=5))
    messages = frames(sock)
    next(messages)
    server.ask("DELETE", "/api/locks/name/a", {"token": token}).expect(200)
    told = next(messages)
    eq((told["method"], told["params"]["status"]), ("notifications/tasks", "completed"), "the news")
    task = post_modern(server, modern("tasks/get", {"taskId": made["taskId"]}, able))["result"]
    eq((task["status"], task["result"]["structuredContent"]["holder"]["pid"]), ("completed", other.pid), "the task")
    sock.close()
    server.stop()


@test("a client that does not take its answers waits alone")
def _(ws):
    server = Server(ws)
    client = Client(server).initialize()
    sock = server.connect()
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}})
    head = "\r\n".join(["POST /mcp HTTP/1.1", "Host: localhost", f"Content-Length: {len(message)}",
                        *(f"{k}: {v}" for k, v in {**server.auth(), **client.headers()}.items()), "", message]).encode()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(0.5)
    try:
        for _ in range(2000):
            sock.sendall(head)  # never reads: the server stops reading, too
    except OSError:
        pass
    assert client.call("get_status")["structuredContent"]["root"] == str(ws.path)
    sock.close()
    server.stop()


# -- who calls ------------------------------------------------------------------------------------------------

@test("an instance over HTTP is registered once, proves itself by its secret, and outlives the server")
def _(ws):
    server = Server(ws)
    one, two = Client(server).initialize(), Client(server).initialize()
    who = one.call("get_status", register=True, label="tester")["structuredContent"]
    me = {"instance": who["instance"], "secret": who["secret"]}
    assert who["instance"].startswith("http-") and len(who["secret"]) == 32, who
    eq(one.call("lock_acquire", kind="name", id="a", **me)["structuredContent"]["holder"]["instance"], who["instance"], "the holder")
    for wrong in ({"instance": who["instance"]}, {"instance": who["instance"], "secret": "0" * 32}):
        refused = two.call("lock_release", kind="name", id="a", **wrong)
        eq((refused["isError"], refused["structuredContent"]["error"]["reason_code"]), (True, "UNAUTHORIZED"), "without the secret")
        server.ask("DELETE", "/api/locks/name/a", wrong).expect(401, "UNAUTHORIZED")
    other = two.call("get_status", register=True)["structuredContent"]
    held = two.call("lock_acquire", kind="name", id="a", instance=other["instance"], secret=other["secret"])
    assert held["isError"] and held["content"][0]["text"].startswith(f"NOT ACQUIRED: held by tester, instance {who['instance']}"), held
    nobody = two.call("lock_acquire", kind="name", id="b")
    assert nobody["isError"] and "(get_status with register: true)" in nobody["content"][0]["text"], nobody
    for somebody, code in (({"instance": other["instance"], "secret": other["secret"]}, "LOCK_LOST"), ({}, "INVALID_INPUT")):
        taken = two.call("lock_release", kind="name", id="a", **somebody)
        eq(taken["structuredContent"]["error"]["reason_code"], code, "another one's release")
    claim = one.call("ul_workflow_claim", ulTaskId="w", **me)["structuredContent"]
    eq(claim.get("ownerInstanceId", who["instance"]), who["instance"], "the claim")
    server.proc.kill()
    server.proc.wait()
    server = Server(ws, port=server.port)
    one.server = two.server = server
    refused = two.call("ul_workflow_claim", ulTaskId="w", instance=other["instance"], secret=other["secret"])
    eq(refused["structuredContent"]["error"]["reason_code"], "workflow_owned_by_other", "somebody else")
    eq(one.call("lock_release", kind="name", id="a", **me)["structuredContent"]["existed"], True, "its own lock")
    assert "secret" not in json.dumps(ws.events()), "a secret in the trail"
    server.stop()


@test("who calls may be said in headers, as everywhere: what the arguments say counts, and a wrong secret is refused")
def _(ws):
    server = Server(ws)
    one, two = register(server), register(server)
    wrong = {**as_headers(one), "Tasuki-Secret": "0" * 32}
    client = Client(server).initialize()

    def call(tool, headers, **arguments):
        return client.request("tools/call", {"name": tool, "arguments": arguments}, headers=headers)["result"]["structuredContent"]

    for id, headers, arguments, holder in (("a", as_headers(one), {}, one), ("b", as_headers(one), two, two), ("c", wrong, two, two),
                                           ("d", as_headers(one), {"instance": one["instance"]}, one)):
        eq(call("lock_acquire", headers, kind="name", id=id, **arguments)["holder"]["instance"], holder["instance"], id)
    for headers, arguments in ((wrong, {}), (as_headers(one), {"instance": two["instance"]}), ({"Tasuki-Instance": one["instance"]}, {})):
        refused = call("lock_release", headers, kind="name", id="a", **arguments)
        eq(refused["error"]["reason_code"], "UNAUTHORIZED", f"{headers} {arguments}")
    message = modern("tools/call", {"name": "lock_release", "arguments": {"kind": "name", "id": "a"}})
    answer = server.post("/mcp", message, headers={**modern_headers(message), **as_headers(one)}).expect(200).json["result"]
    eq(answer["structuredContent"]["existed"], True, "a modern call")
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    for headers, status in ((wrong, 401), ({"Tasuki-Instance": "x" * 257}, 400), (as_headers(one), 200)):
        client.post(ping, headers).expect(status)
        server.post("/mcp", modern("tools/list"), headers={**modern_headers(modern("tools/list")), **headers}).expect(status)
    server.get("/mcp", headers=client.headers(wrong)).expect(401, "UNAUTHORIZED")
    for arguments in ({}, {"instance": None}):  # what no argument can say is not left unsaid
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "get_status", "arguments": arguments}}
        client.post(message, {"Tasuki-Instance": b"\xff"}).expect(401, "UNAUTHORIZED")
    set_lease(ws, one, -1)
    client.post(ping, as_headers(one)).expect(200)
    assert lease_left(ws, one) > 0, "a call that acts for nobody"
    assert one["secret"] not in json.dumps(ws.events()), "a secret in the trail"
    server.stop()


@test("an agent over HTTP owns the processes that it starts, however it names itself: another agent is asked before it stops one", slow=True)
def _(ws):
    server = Server(ws)
    one, two = register(server), register(server)
    client = Client(server).initialize()

    def call(tool, headers=None, **arguments):
        message = {"name": tool, "arguments": arguments}
        return client.request("tools/call", message, headers=headers)["result"]["structuredContent"]

    for id, said in (("a", {"headers": as_headers(one)}), ("b", one)):
        made = call("create_process", id=id, command="sleep", args=["1000"], start=True, **said)
        eq(made["started_by"]["instance"], one["instance"], f"who started {id}")
        eq(call("stop_process", id=id, **two)["error"]["reason_code"], "NEEDS_CONFIRMATION", "another one")
        eq(ws.events("confirm.asked")[-1]["actor"]["instance"], two["instance"], "who asked")
        eq(call("stop_process", id=id, instance=one["instance"])["error"]["reason_code"], "UNAUTHORIZED", "without the secret")
        eq(call("stop_process", id=id, **one)["state_name"], "Stopped", "its own")
    made = server.post("/api/processes", {"id": "c", "command": "sleep", "args": ["1000"], "start": True, **one}).expect(200).json
    eq(made["started_by"]["instance"], one["instance"], "who started c")
    server.post("/api/processes/c/stop", {"instance": one["instance"]}).expect(401, "UNAUTHORIZED")
    server.post("/api/processes/c/stop", {**one, "secret": 5}).expect(400, "INVALID_INPUT")
    server.post("/api/processes/c/stop", one).expect(200)
    server.get(f"/api/processes?instance={one['instance']}").expect(400, "INVALID_INPUT")
    assert one["secret"] not in json.dumps(ws.events()), "a secret in the trail"
    server.stop()


@test("over HTTP the tools say that they want to know who calls, and stay within their size")
def _(ws):
    server = Server(ws)
    tools = {tool["name"]: tool for tool in Client(server).initialize().request("tools/list")["result"]["tools"]}
    properties = tools["lock_acquire"]["inputSchema"]["properties"]
    assert "instance" in properties and "secret" in properties, properties.keys()
    for tool in tools.values():  # spec 8: of the tools that change something
        changes = not tool["annotations"].get("readOnlyHint")
        eq({"instance", "secret"} & set(tool["inputSchema"].get("properties", {})), {"instance", "secret"} if changes else set(), tool["name"])
    size = len(json.dumps(list(tools.values()), separators=(",", ":"), ensure_ascii=False))
    assert len(tools) <= 24 and size <= 24 * 1024, (len(tools), size)
    server.stop()


@test("100 calls at once over 20 connections are all answered, each with its own answer")
def _(ws):
    server = Server(ws, "--tools", "all")
    answers, failures = {}, []

    def work(number):
        client = Client(server)
        try:
            for i in range(5):
                id = f"{number}-{i}"
                call = modern("tools/call", {"name": "lock_check", "arguments": {"kind": "name", "id": f"l{id}"}}, id=id)
                answer = post_modern(client.server, call)
                answers[id] = (answer["id"], answer["result"]["structuredContent"]["id"])
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this test's failure
            failures.append(repr(error))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    eq((failures, len(answers)), ([], 100), "the answers")
    for id, (answered, lock) in answers.items():
        eq((answered, lock), (id, f"l{id}"), "an answer")
    server.stop()


main(__name__)
