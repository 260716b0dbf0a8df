"""Spec 8, access and limits; spec 9, security: each attack is a test, and the server answers others meanwhile."""

import json
import os
import resource
import socket
import time

from common import sleeper
from harness.harness import eq, main, test
from http_common import (LEASE_MS, Server, as_headers, lease_left, limited, open_streams, over_unix, read_all, register, set_lease,
                         status_of)


def request(server, line="GET /api/status HTTP/1.1", *headers, host=True, token=True, body=b""):
    lines = [line, *([f"Host: localhost:{server.port}"] if host else []),
             *([f"Authorization: Bearer {server.token}"] if token else []), *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def still_there(server):
    eq(server.get("/api/status").status, 200, "an answer for somebody else")


@test("a foreign Origin is refused, our own page's is not")
def _(ws):
    server = Server(ws)
    for origin in ("http://evil.example", "https://evil.example:443", "null", "http://localhost.evil.example",
                   f"http://localhost:{server.port + 1}", "http://localhost", "file://", f"http://evil@localhost:{server.port}",
                   f"http://evil.example#localhost:{server.port}"):
        server.get("/api/status", headers={"Origin": origin}).expect(403, "FORBIDDEN_ORIGIN")
        server.get("/", headers={"Origin": origin}, token=False).expect(403, "FORBIDDEN_ORIGIN")
    for origin in (f"http://localhost:{server.port}", f"http://127.0.0.1:{server.port}", f"http://[::1]:{server.port}"):
        server.get("/api/status", headers={"Origin": origin}).expect(200)
    answer = server.ask("OPTIONS", "/api/status", headers={"Origin": "http://evil.example"}).expect(403)
    assert not [name for name in answer.headers if name.lower().startswith("access-control")], answer.headers
    server.stop()


@test("a Host that a rebound name would send is refused, loopback names are not")
def _(ws):
    server = Server(ws)
    for host in ("evil.example", f"evil.example:{server.port}", "localhost.evil.example", "127.0.0.1.evil.example", "",
                 "192.168.0.1", "0.0.0.0", "[::2]", "localhost:80x", "127.0.0.1@evil.example"):
        server.get("/api/status", headers={"Host": host}).expect(403, "FORBIDDEN_ORIGIN")
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.2:99", "[::1]", f"[::1]:{server.port}"):
        server.get("/api/status", headers={"Host": host}).expect(200)
    server.stop()


@test("no token, a wrong token and tokens in other places are refused")
def _(ws):
    server = Server(ws)
    other = "0" * 64
    for headers in ({}, {"Authorization": f"Bearer {other}"}, {"Authorization": server.token},
                    {"Authorization": f"Basic {server.token}"}, {"Authorization": f"Bearer {server.token[:-1]}"},
                    {"Authorization": f"Bearer {server.token}0"}, {"Authorization": "Bearer "}, {"Cookie": f"token={server.token}"}):
        answer = server.get("/api/status", headers=headers, token=False).expect(401, "UNAUTHORIZED")
        eq(answer.headers["WWW-Authenticate"], "Bearer", "what is wanted")
    server.get(f"/api/status?token={server.token}", token=False).expect(401)
    server.get("/healthz", token=False).expect(200)
    for path in ("/healthz", "/"):
        server.ask("POST", path, {"a": 1}, token=False).expect(401, "UNAUTHORIZED")
    server.get("/api/status", headers={"Authorization": f"bearer {server.token}"}, token=False).expect(200)
    server.stop()


@test("a client of the server names files of the workspace only; the command line names any")
def _(ws):
    server = Server(ws)
    outside = ws.base / "outside"
    outside.mkdir()
    (outside / "flow.yaml").write_text("tasks:\n  a: {run: 'true'}\nflow: a\n")
    (ws.path / "sub").mkdir()
    (ws.path / "sub" / "flow.yaml").write_text("tasks:\n  a: {run: 'true'}\nflow: a\n")
    (ws.path / "link").symlink_to(outside)
    beside, as_long = ws.path.with_name("wx"), ws.path.with_name("v")  # the root is .../w
    for sibling in (beside, as_long):
        sibling.mkdir()
        (sibling / "flow.yaml").write_text("tasks:\n  a: {run: 'true'}\nflow: a\n")
    for path in ("/etc/passwd", outside / "flow.yaml", "../outside/flow.yaml", "link/flow.yaml", "link/absent.yaml", "sub/../../outside/flow.yaml",
                 "absent/../../outside/flow.yaml", "/proc/self/environ", beside / "flow.yaml", as_long / "flow.yaml"):
        for answer in (server.get(f"/api/flows/graph?flow={path}"), server.post("/api/flows/validate", {"flow": str(path)}),
                       server.post("/api/flows/run", {"flow": str(path)}),
                       server.post("/api/requests", {"title": "t", "flow": str(path)})):
            assert str(ws.path) in answer.expect(400, "INVALID_INPUT").error["message"], answer.body
            assert b"root:" not in answer.body, answer.body
    for path in ("sub/flow.yaml", "./sub/../sub/flow.yaml", ws.path / "sub" / "flow.yaml"):
        server.post("/api/flows/validate", {"flow": str(path)}).expect(200)
    server.post("/api/flows/validate", {"flow": "absent"}).expect(404)
    os.mkfifo(ws.path / "pipe")  # nobody writes into it: it is not waited for
    server.post("/api/flows/validate", {"flow": "pipe"}).expect(503)
    server.post("/api/flows/validate", {"flow": "-"}).expect(404)
    sprint = {"mode": "acquire", "session": "s", "epic": "e", "pid": os.getpid()}
    server.post("/api/sprint", {**sprint, "project_root": str(outside)}).expect(400, "INVALID_INPUT")
    eq(sorted(p.name for p in outside.iterdir()), ["flow.yaml"], "nothing is written there")
    ws.tasuki("flow", "validate", outside / "flow.yaml").expect(0)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    accept = {"Accept": "application/json, text/event-stream"}
    first = server.post("/mcp", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}, headers=accept).expect(200)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "flow_run", "arguments": {"flow": "/etc/passwd"}}}
    session = {"Mcp-Session-Id": first.headers["Mcp-Session-Id"]}
    result = server.post("/mcp", call, headers={**accept, **session}).expect(200).json["result"]
    eq((result["isError"], result["structuredContent"]["error"]["reason_code"]), (True, "INVALID_INPUT"), "a tool")
    server.stop()


@test("traversal in ids and paths reaches nothing")
def _(ws):
    (ws.path / "secret.txt").write_text("do not show me")
    server = Server(ws)
    for path in ("/../secret.txt", "/..%2fsecret.txt", "/static/../../secret.txt", "/api/../../secret.txt", "//secret.txt",
                 "/%2e%2e/secret.txt", "/api/processes/../../secret.txt/logs", "/api/processes/..%2f..%2fsecret.txt/logs",
                 "/api/processes/%2e%2e/logs", "/api/locks/request/..%2f..%2fx", "/api/runs/..%2f..%2fx", "/api/templates/..%2fx"):
        answer = server.get(path)
        assert answer.status in (400, 404) and b"do not show" not in answer.body, (path, answer.status, answer.body)
    for id in ("../x", "a/b", ".", "..", "a\0b", "\u202e", "x" * 200, "-x", ""):
        server.post("/api/processes", {"id": id, "command": "true"}).expect(400, "INVALID_INPUT")
    eq(sorted(p.name for p in ws.path.iterdir()), [".aiflow", ".gitignore", "secret.txt"], "what is in the workspace")
    server.stop()


@test("malformed framing is refused, and the connection closed")
def _(ws):
    server = Server(ws)
    length = "Content-Length: 2"
    bad = {
        "no Host": request(server, host=False),
        "two Hosts": request(server, "GET /api/status HTTP/1.1", "Host: evil.example"),
        "two Origins": request(server, "GET /api/status HTTP/1.1", "Origin: http://localhost", "Origin: http://evil.example"),
        "two lengths": request(server, "POST /api/processes HTTP/1.1", length, length, body=b"{}"),
        "two different lengths": request(server, "POST /api/processes HTTP/1.1", length, "Content-Length: 3", body=b"{}"),
        "a list of lengths": request(server, "POST /api/processes HTTP/1.1", "Content-Length: 2, 2", body=b"{}"),
        "a signed length": request(server, "POST /api/processes HTTP/1.1", "Content-Length: +2", body=b"{}"),
        "a negative length": request(server, "POST /api/processes HTTP/1.1", "Content-Length: -2", body=b"{}"),
        "a hexadecimal length": request(server, "POST /api/processes HTTP/1.1", "Content-Length: 0x2", body=b"{}"),
        "length and encoding": request(server, "POST /api/processes HTTP/1.1", length, "Transfer-Encoding: chunked",
                                       body=b"2\r\n{}\r\n0\r\n\r\n"),
        "two encodings": request(server, "POST /api/processes HTTP/1.1", "Transfer-Encoding: chunked",
                                 "Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
        "chunked in HTTP/1.0": request(server, "POST /api/processes HTTP/1.0", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
        "a space before the colon": request(server, "POST /api/processes HTTP/1.1", "Content-Length : 2", body=b"{}"),
        "a folded line": request(server, "GET /api/status HTTP/1.1", "X: a", " b"),
        "a header without a colon": request(server, "GET /api/status HTTP/1.1", "nonsense"),
        "a control character": request(server, "GET /api/status HTTP/1.1", "X: a\x01b"),
        "a NUL": request(server, "GET /api/status HTTP/1.1", "X: a\0b"),
        "a lone CR": request(server, "GET /api/status HTTP/1.1", "X: a\rY: b"),
        "a lone LF": request(server, "GET /api/status HTTP/1.1", "X: a\nTransfer-Encoding: chunked"),
        "a space in the path": request(server, "GET /api/ status HTTP/1.1"),
        "an absolute target": request(server, "GET http://localhost/api/status HTTP/1.1"),
        "no target": request(server, "GET  HTTP/1.1"),
        "a method with odd characters": request(server, "GE\tT / HTTP/1.1"),
        "nothing but an end": b"\r\n\r\n",
        "not UTF-8": b"\xff\xfe\xfd /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "a chunk without a size": request(server, "POST /api/processes HTTP/1.1", "Transfer-Encoding: chunked", body=b"\r\n{}\r\n"),
        "a chunk that is longer than it says": request(server, "POST /api/processes HTTP/1.1", "Transfer-Encoding: chunked",
                                                       body=b"1\r\n{}\r\n0\r\n\r\n"),
        "a negative chunk": request(server, "POST /api/processes HTTP/1.1", "Transfer-Encoding: chunked", body=b"-1\r\n{}\r\n"),
        "a chunk that ends with LF": request(server, "POST /api/processes HTTP/1.1", "Transfer-Encoding: chunked",
                                             body=b"2\n{}\n0\n\n"),
        "trailers": request(server, "POST /api/processes HTTP/1.1", "Transfer-Encoding: chunked",
                            body=b"2\r\n{}\r\n0\r\nHost: evil.example\r\n\r\n"),
    }
    smuggled = request(server)  # must never be answered as a request of its own
    for what, data in bad.items():
        got = server.raw(data + smuggled)
        eq((what, status_of(got), got.count(b"HTTP/1.1 ")), (what, 400, 1), "the answer")
        assert b"Connection: close" in got, what
    for line, last in ((b"\n", b"\n"), (b"\r\n", b"\n"), (b"\n", b"\r\n")):  # nothing follows: it is not waited for
        head = line.join([b"GET /api/status HTTP/1.1", b"Host: localhost", b""]) + last
        eq((head, status_of(server.raw(head))), (head, 400), "a head with lone LFs")
    eq(status_of(server.raw(request(server, "POST / HTTP/1.1", "Transfer-Encoding: gzip, chunked"))), 501, "another encoding")
    eq(status_of(server.raw(request(server, "GET / HTTP/2.0"))), 505, "another version")
    eq(status_of(server.raw(request(server, "POST /api/processes HTTP/1.1", length, "Expect: miracles", body=b"{}"))), 417, "Expect")
    got = server.raw(request(server, "POST /api/processes HTTP/1.1", length, "Content-Encoding: gzip", body=b"\x1f\x8b") + smuggled)
    eq((status_of(got), got.count(b"HTTP/1.1 ")), (415, 1), "a compressed body")
    still_there(server)
    server.stop()


@test("headers and bodies over the limits are refused, those at the limit are not")
def _(ws):
    server = Server(ws)
    base = len(request(server, "GET /healthz HTTP/1.0", "X: "))
    for extra, status in ((0, 200), (1, 431)):
        data = request(server, "GET /healthz HTTP/1.0", "X: " + "a" * (16384 - base + extra))
        eq((len(data) - extra, status_of(server.raw(data))), (16384, status), "a header of 16 KiB, and one byte more")
    eq(status_of(server.raw(request(server, "GET /healthz HTTP/1.1", "X: " + "a" * 16384))), 431, "more")
    eq(status_of(server.raw(b"GET /" + b"a" * 20000)), 431, "a line without an end")
    eq(status_of(server.raw(request(server, "GET /healthz HTTP/1.0", *(f"X{i}: 1" for i in range(120))))), 431, "120 lines")
    full = json.dumps({"id": "x", "command": "true", "args": ["a" * 1000] * 1030}).encode()
    for body, status in ((b" " * ((1 << 20) - 2) + b"{}", 400), (b" " * (1 << 20) + b"{}", 413), (full, 200 if len(full) <= 1 << 20 else 413)):
        eq(server.ask("POST", "/api/processes", body).status, status, f"{len(body)} bytes")
    eq(server.ask("POST", "/api/processes", b" " * (1 << 20) + b"{}").error["reason_code"], "PAYLOAD_TOO_LARGE", "the reason")
    chunks = b"".join(b"10000\r\n" + b" " * 65536 + b"\r\n" for _ in range(17)) + b"0\r\n\r\n"
    eq(status_of(server.raw(request(server, "POST /api/processes HTTP/1.1", "Transfer-Encoding: chunked", body=chunks))), 413, "chunks")
    eq(status_of(server.raw(request(server, "POST /api/processes HTTP/1.1", "Transfer-Encoding: chunked", body=b"fffffffff\r\n"))),
       413, "a huge chunk")
    eq(status_of(server.raw(request(server, "POST /api/processes HTTP/1.1", "Content-Length: 999999999999999999"))), 413, "a huge length")
    still_there(server)
    server.stop()


@test("deep JSON, huge numbers, invalid UTF-8 and NULs in a body are refused")
def _(ws):
    server = Server(ws)
    bodies = (b"[" * 100000, b'{"id":' * 50000, b'{"id": "x", "command": "true", "args": ' + b"[" * 5000 + b"]" * 5000 + b"}",
              b'{"lines": 1e999}', b'{"lines": 99999999999999999999999999}', b'{"id": "\xff\xfe", "command": "true"}',
              b'{"id": "a\\u0000b", "command": "true"}', b'{"id": "x", "command": "a\\u0000b"}', b'\xef\xbb\xbf{}', b"\0{}",
              b'{"id": "\\ud800", "command": "true"}', b'{"id": NaN}', b'{"id": 1.5, "command": true}', b'{"__proto__": {}}')
    for body in bodies:
        server.ask("POST", "/api/processes", body).expect(400, "INVALID_INPUT")
    for query in ("lines=99999999999999999999", "lines=-1", "lines=1e3", "lines=%00", "lines=%zz", "since=%ff", "%ff=1"):
        server.get(f"/api/processes/x/logs?{query}").expect(400, "INVALID_INPUT")
    still_there(server)
    server.stop()


@test("slow headers and slow bodies end after their time; others are answered meanwhile", quick=False)
def _(ws):
    server = Server(ws)
    listening = open_streams(ws, server)
    ws.tasuki("proc", "create", "loud", "--", "sh", "-c", "yes what nobody reads | head -c 8000000; exec sleep 1000").expect(0)
    ws.tasuki("proc", "start", "loud").expect(0)
    slow = register(server)
    listening.append((slow, server.stream("/api/processes/loud/logs/stream?cursor=0:0", as_headers(slow))))
    stream = server.stream("/api/events").hello()
    listening += [(slow, server.stream("/api/events", as_headers(slow))) for _ in range(100)]
    for me, _ in listening:
        set_lease(ws, me, 300000)
    begun = time.monotonic()
    slow_head, slow_body, silent = server.connect(), server.connect(), server.connect()
    slow_head.sendall(b"GET /api/status HTTP/1.1\r\n")
    slow_body.sendall(request(server, "POST /api/processes HTTP/1.1", "Content-Length: 1000"))
    ended, threads = {}, 0
    while time.monotonic() - begun < 120 and len(ended) < 3:
        for name, sock in (("head", slow_head), ("body", slow_body), ("silent", silent)):
            if name in ended:
                continue
            try:
                if name == "head":
                    sock.sendall(b"X: y\r\n")
                elif name == "body":
                    sock.sendall(b" ")
                sock.settimeout(0.2)
                data = sock.recv(4096)
                ended[name] = (status_of(data), time.monotonic() - begun)
                assert not data or b'"INVALID_INPUT"' in data, data
            except socket.timeout:
                pass
            except OSError:
                ended[name] = (None, time.monotonic() - begun)
        still_there(server)
        threads = max(threads, len(os.listdir(f"/proc/{server.proc.pid}/task")))
    assert threads < 50, f"{threads} threads for streams that only wait"
    eq(set(ended), {"head", "body", "silent"}, "what was ended")
    eq((ended["head"][0], ended["body"][0], ended["silent"][0]), (408, 408, None), f"how: {ended}")
    assert ended["head"][1] > 9.9 and ended["body"][1] > 19.9 and list(ended).index("head") < list(ended).index("body"), ended
    eq(stream.file.readline(), b": alive\n", "meanwhile a stream on which nothing happens has had its heartbeat")
    ws.until(lambda: all(lease_left(ws, me) > LEASE_MS for me, _ in listening), "with it the leases of those who listen are renewed")
    stream.close()
    ws.tasuki("proc", "stop", "quiet", "loud").expect(0)
    server.stop()


@test("2,000 connections: the server stays up, and whoever asks something is answered")
def _(ws):
    server = Server(ws)
    crowd = []
    for i in range(2000):
        sock = socket.create_connection(("127.0.0.1", server.port), timeout=90)
        ws.at_close(sock.close)
        crowd.append(sock)
        if i % 3 == 0:
            sock.sendall(b"GET /slow HTTP/1.1\r\nHost: ")
        if i % 400 == 399:
            still_there(server)
    still_there(server)
    metrics = server.get("/metrics").body.decode()
    open_now = int([line.split()[1] for line in metrics.splitlines() if line.startswith("tasuki_http_connections ")][0])
    assert open_now <= 1000, open_now
    for sock in crowd:
        sock.close()
    still_there(server)
    server.stop()


def crowd_of(ws, server, count, *greetings):
    """Connections that say one of these, in turn, and then nothing more; each is yielded."""
    for i in range(count):
        sock = socket.create_connection(("127.0.0.1", server.port), timeout=90)
        ws.at_close(sock.close)
        try:
            sock.sendall(greetings[i % len(greetings)])
        except OSError:
            pass  # it has had to leave already
        yield sock


@test("2,000 connections with 256 descriptors: a stream, a request that waits and operations go on", slow=True)
def _(ws):
    server = Server(ws, binary=limited(ws, 256))
    stream = server.stream("/api/events").hello()
    held = server.post("/api/locks/name/a", {"pid": sleeper(ws).pid}).expect(200).json
    waiting = server.connect()
    waiting.sendall(request(server, "GET /api/wait?kind=lock&id=name/a&timeout=45s HTTP/1.1"))
    still_there(server)
    greetings = (b"", b"GET /slow HTTP/1.1\r\nHost: ", request(server, "GET / HTTP/1.1", token=False),
                 request(server, "POST /api/processes HTTP/1.1", "Content-Length: 1000", token=False))
    for i, _ in enumerate(crowd_of(ws, server, 2000, *greetings)):
        if i % 500 == 499:
            made = server.post("/api/processes", {"id": f"p{i}", "command": "sleep", "args": ["1000"]}).expect(200).json
            running = server.post(f"/api/processes/{made['id']}/start").expect(200).json
            assert ws.alive(running["pid"]), running
            eq(over_unix(ws, "/api/processes"), 200, "through the unix socket")
    server.ask("DELETE", "/api/locks/name/a", {"token": held["token"]}).expect(200)
    eq(status_of(waiting.recv(65536)), 200, "who waited")
    seen = [next(stream)[1]["type"] for _ in range(6)]
    eq((seen[0], "process.created" in seen), ("lock.acquired", True), f"what the stream says: {seen}")
    server.stop()
    ws.tasuki("proc", "stop", "--all").expect(0)


@test("with a token, too, half bodies keep nobody out; and the last places are the unix socket's")
def _(ws):
    server = Server(ws, binary=limited(ws, 256))
    half = request(server, "POST /api/processes HTTP/1.1", "Content-Length: 1000")
    for _ in crowd_of(ws, server, 300, half):
        pass
    still_there(server)
    streams = [request(server, "GET /api/events HTTP/1.1", "Accept: text/event-stream")]
    answers = [status_of(sock.recv(4096)) for sock in crowd_of(ws, server, 120, *streams)]
    eq((answers[0], answers[-1]), (200, 503), "streams stay; when there are only such, a new one is sent away")
    eq(over_unix(ws, "/api/status"), 200, "through the unix socket")
    server.stop()


@test("streams of output and idle connections leave operations what they need", slow=True)
def _(ws):
    server = Server(ws, binary=limited(ws, 256))
    server.post("/api/processes", {"id": "quiet", "command": "sleep", "args": ["1000"], "start": True}).expect(200)
    for sock in crowd_of(ws, server, 100, request(server, "GET /api/locks HTTP/1.1")):
        eq(status_of(sock.recv(4096)), 200, "who is idle then")
    streams = [server.stream("/api/processes/quiet/logs/stream") for _ in range(40)]
    answers = [stream.status for stream in streams]
    eq((answers[:9], answers[-1]), ([200] * 9, 503), f"as many as there is room for: {answers}")
    used = len(os.listdir(f"/proc/{server.proc.pid}/fd"))
    assert used <= 160, f"{used} of 256 descriptors in use"
    server.post("/api/processes", {"id": "more", "command": "sleep", "args": ["1000"], "start": True}).expect(200)
    streams[0].close()
    ws.until(lambda: server.stream("/api/processes/quiet/logs/stream").status == 200, "a place for another one")
    server.stop()
    ws.tasuki("proc", "stop", "--all").expect(0)


@test("whoever has been quiet longest makes room: not who came first, and strangers before others")
def _(ws):
    server = Server(ws, binary=limited(ws, 128))
    busy, known = server.connect(), server.connect()

    def ask(sock, data):
        sock.sendall(data)
        return status_of(sock.recv(4096))

    eq(ask(known, request(server, "GET /api/locks HTTP/1.1")), 200, "one who has shown the token, and then is quiet")
    for i, _ in enumerate(crowd_of(ws, server, 300, b"")):
        if i % 10 == 0:
            eq((i, ask(busy, request(server, "GET /healthz HTTP/1.1", token=False))), (i, 200), "one who is not quiet")
    eq(ask(known, request(server, "GET /api/locks HTTP/1.1")), 200, "the quiet one")
    server.stop()


def kept_fds(pid):
    """The descriptors that a server has all the time. Every second it looks at processes, and has some more for a moment; on a
    slow machine that is a long one."""
    def all_fds():
        return {int(name) for name in os.listdir(f"/proc/{pid}/fd")}

    kept, since = all_fds(), time.monotonic()
    while time.monotonic() - since < 1.5:
        time.sleep(0.01)
        if not kept <= (now := all_fds()):
            kept, since = kept & now, time.monotonic()
    return kept


@test("without a descriptor for a new one nobody who is served leaves, and it waits until there is one", slow=True)
def _(ws):
    server = Server(ws)
    stream = server.stream("/api/events").hello()
    pid, taken = server.proc.pid, kept_fds(server.proc.pid)
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(set(range(1000)) - taken), limits[1]))
    late = server.connect()
    late.sendall(request(server))
    for n in range(3):
        with open(ws.path / ".aiflow" / "events.ndjson", "a") as f:
            f.write(json.dumps({"time": "2026-01-01T00:00:00.000Z", "type": "test.event", "data": {"n": n}}) + "\n")
        eq(next(stream)[1]["data"], {"n": n}, "the stream goes on")
    late.setblocking(False)
    try:
        eq(late.recv(4096), None, "what the late one gets")
    except BlockingIOError:
        pass
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    late.settimeout(90)
    eq(status_of(late.recv(4096)), 200, "the late one")
    stream.close()
    server.stop()


@test("a client that closes its side while it waits gets the reason, and takes nothing")
def _(ws):
    server = Server(ws)
    ws.tasuki("lock", "acquire", "name", "a", "--pid", os.getpid()).expect(0)
    sock = server.connect()
    body = json.dumps({"wait": "40s", "pid": os.getpid()})
    sock.sendall(f"POST /api/locks/name/a HTTP/1.1\r\nHost: localhost:{server.port}\r\nAuthorization: Bearer {server.token}\r\n"
                 f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
    sock.shutdown(socket.SHUT_WR)
    answer = read_all(sock)
    assert b" 409 " in answer and b"closed its side" in answer and b"signal" not in answer, answer
    server.stop()


@test("half-closed sockets are answered, and cost nothing afterwards")
def _(ws):
    server = Server(ws)
    for _ in range(50):
        sock = server.connect()
        sock.sendall(request(server))
        sock.shutdown(socket.SHUT_WR)
        eq(status_of(read_all(sock)), 200, "the answer")
    sock = server.connect()
    sock.sendall(request(server, "GET /api/processes/absent HTTP/1.1") * 200)  # each is an operation
    sock.shutdown(socket.SHUT_WR)
    eq(read_all(sock).count(b"HTTP/1.1 404"), 200, "what was sent ahead is answered to the last")
    for _ in range(50):
        sock = server.connect()
        sock.sendall(b"GET /api/st")
        sock.shutdown(socket.SHUT_WR)
        eq(read_all(sock), b"", "half a request")
    streams = [server.stream("/api/events").hello() for _ in range(20)]
    for stream in streams:
        stream.sock.shutdown(socket.SHUT_WR)

    def connections():
        return [line.split()[1] for line in server.get("/metrics").body.decode().splitlines()
                if line.startswith(("tasuki_http_connections ", "tasuki_http_streams "))]

    ws.until(lambda: connections() == ["1", "0"], "only the one that asks is open")
    for stream in streams:
        stream.close()
    server.stop()


@test("a client that resets its connection in the middle of anything harms nobody")
def _(ws):
    server = Server(ws)
    linger = b"\x01\0\0\0\0\0\0\0"  # SO_LINGER on, 0 s: close() resets
    pieces = (b"", b"GET", request(server)[:-2], request(server), request(server) * 20,
              request(server, "POST /api/processes HTTP/1.1", "Content-Length: 100", body=b"{"),
              request(server, "GET /api/events HTTP/1.1", "Accept: text/event-stream"),
              request(server, "GET /api/wait?kind=process&id=x&timeout=30s HTTP/1.1"))
    for i in range(200):
        sock = server.connect()
        sock.sendall(pieces[i % len(pieces)])
        if i % 3 == 0:
            sock.settimeout(0.01)
            try:
                sock.recv(10)
            except OSError:
                pass
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        sock.close()
    still_there(server)
    server.stop()


main(__name__)
