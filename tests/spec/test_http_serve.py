"""Spec 8, HTTP: the server's life: where it is, what it says, how it ends, and what it leaves alone."""

import contextlib
import fcntl
import gzip
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import threading

from common import NOBODY, sleeper
from flows import only_run
from harness.harness import Skip, eq, main, test
from http_common import McpClient, Server, as_headers, over_unix, read_all, register, status_of


@test("serve says where it is, and its files are the user's alone")
def _(ws):
    server = Server(ws)
    eq((server.said["status"], server.said["root"], server.said["pid"]), ("serving", str(ws.path), server.proc.pid), "said")
    assert server.said["page"] == f"{server.url}/#token={server.token}", server.said
    for name in ("server.sock", "server.token", "server.lock"):
        eq(stat.S_IMODE((ws.path / ".aiflow" / name).stat().st_mode), 0o600, name)
    eq(len(server.token), 64, "the token")
    server.stop()
    assert not (ws.path / ".aiflow" / "server.sock").exists()


@test("a relative --root, or TASUKI_ROOT, is the same place when serve has gone to its workspace")
def _(ws):
    for words, env in ((["--root", ws.path.name], None), ([], {"TASUKI_ROOT": ws.path.name})):
        proc = ws.spawn_command([ws.binary, *words, "serve", "--json", "--port", 0], cwd=ws.path.parent, env=env)
        assert (line := proc.stdout.readline()), proc.stderr.read()
        eq(json.loads(line)["root"], str(ws.path), "the root that it says")
        for path in ("/api/status?register=true", "/api/locks", "/api/sprint", "/api/flows"):
            eq(over_unix(ws, path), 200, f"{words}: {path}")
        proc.terminate()
        eq(proc.wait(60), 0, "its end")


@test("without --json a person gets the page's address with the token")
def _(ws):
    proc = ws.spawn("serve", "--port", "0")
    line = ws.until(lambda: proc.stdout.readline() or None, "a line")
    eq(line.strip(), f"Serving {ws.path}", "the first line")
    page = proc.stdout.readline()
    token = (ws.path / ".aiflow" / "server.token").read_text().strip()
    assert f"/#token={token}" in page, page
    proc.terminate()
    eq(proc.wait(60), 0, "exit code")


@test("a second serve says where the first one is, and ends well; without a readable token it is refused")
def _(ws):
    (ws.path / ".aiflow/server.lock").write_text("{" + "what an earlier one wrote was longer " * 20 + "}\n")
    server = Server(ws)
    eq(json.loads((ws.path / ".aiflow/server.lock").read_text())["url"], server.url, "the whole file")
    said = ws.tasuki("serve", "--json").expect(0).json
    eq(said, {**server.said, "status": "running"}, "where")
    assert server.said["page"] in ws.tasuki("serve").expect(0).out
    eq(server.get("/healthz", token=False).expect(200).json, {"status": "ok"}, "the first one")
    (ws.path / ".aiflow" / "server.token").chmod(0o644)
    refused = ws.tasuki("serve", "--json").expect(4, "CONFLICT").error
    eq((refused["context"]["url"], refused["context"]["pid"]), (server.url, server.proc.pid), "where")
    server.stop()


@test("a server.lock that was removed lets no second server in, and nobody's socket is removed but one's own", slow=True)
def _(ws):
    state = ws.path / ".aiflow"
    server = Server(ws)
    (state / "server.lock").unlink()
    refused = ws.tasuki("serve", "--json").expect(4, "CONFLICT").error
    eq((refused["context"]["socket"], refused["context"]["pid"]), (str(state / "server.sock"), server.proc.pid), "where")
    (state / "server.sock").unlink()
    (state / "server.sock").write_text("another's")
    server.stop()
    eq((state / "server.sock").read_text(), "another's", "what the server did not make")


@test("the token stays over a restart; a new one is made when others could read it, or its file was removed")
def _(ws):
    server = Server(ws)
    server.stop()
    again = Server(ws)
    eq(again.token, server.token, "the token")
    again.stop()
    (ws.path / ".aiflow" / "server.token").chmod(0o644)
    third = Server(ws)
    assert third.token != server.token
    eq(stat.S_IMODE((ws.path / ".aiflow" / "server.token").stat().st_mode), 0o600, "its mode")
    third.stop()
    (ws.path / ".aiflow" / "server.token").unlink()
    fourth = Server(ws)
    fourth.get("/api/status").expect(200)
    fourth.get("/api/status", headers=third.auth(), token=False).expect(401)
    fourth.stop()


@test("a server that comes back takes the port it had")
def _(ws):
    first = Server(ws)
    first.proc.kill()
    first.proc.wait()
    second = Server(ws, port=None)
    eq(second.port, first.port, "the port")
    second.get("/api/status").expect(200)
    second.stop()


@test("a server takes the place of one that was just killed, also in the middle of a start")
def _(ws):
    server = Server(ws)

    def begin(server, i):
        with contextlib.suppress(OSError, http.client.HTTPException):  # it is killed meanwhile
            server.post("/api/processes", {"id": f"p{i}", "command": "true", "start": True})

    for i in range(8):
        caller = threading.Thread(target=begin, args=(server, i))
        caller.start()
        server.proc.kill()  # not waited for: it may still be dying
        server = Server(ws, port=server.port)
        eq(server.said["status"], "serving", f"round {i}")
        caller.join()
    server.stop()


@test("a server waits for a lock whose owner does not answer, and is refused if that one keeps it", slow=True)
def _(ws):
    dying = os.open(ws.path / ".aiflow", os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(dying, fcntl.LOCK_EX)
    releasing = threading.Timer(1, lambda: os.close(dying))
    releasing.start()
    server = Server(ws)
    eq(server.said["status"], "serving", "after it")
    releasing.join()
    server.proc.send_signal(signal.SIGSTOP)
    try:
        eq(ws.tasuki("serve", "--json").expect(0).json, {**server.said, "status": "running"}, "beside one that stands still")
    finally:
        server.proc.send_signal(signal.SIGCONT)
    server.stop()


@test("a port that is taken: the next one by default, an error when it was asked for")
def _(ws):
    taken = socket.socket()
    ws.at_close(taken.close)
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    port = taken.getsockname()[1]
    refused = ws.tasuki("serve", "--port", port, "--json").expect(3, "ENVIRONMENT").error
    assert f"127.0.0.1:{port}" in refused["message"] and refused["next"] == ["tasuki serve --port 0"], refused
    refused = ws.tasuki("serve", "--listen", "192.0.2.1", "--port", port, "--json").expect(3, "ENVIRONMENT").error
    assert f"192.0.2.1:{port}" in refused["message"] and not refused["next"], "another port does not make the address ours"
    server = Server(ws, port=None)
    server.stop()


@test("the unix socket needs no token, is only for its user, and works below a deep path")
def _(ws):
    deep = ws.path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    ws.tasuki("--root", deep, "init").expect(0)
    server = ws.spawn("--root", deep, "serve", "--json", "--port", "0")
    said = json.loads(server.stdout.readline())
    got = ws.run(["curl", "-s", "--unix-socket", ".aiflow/server.sock", "http://localhost/api/status"], cwd=deep)
    if got.code == 127:
        raise Skip("there is no curl")
    eq(got.json["root"], str(deep), "root")
    if os.geteuid() == 0:  # as another user: the file's mode aside, the peer is looked at
        for path in (deep, deep.parent, ws.path, ws.base):
            path.chmod(0o755)
        (deep / ".aiflow").chmod(0o755)
        (deep / ".aiflow" / "server.sock").chmod(0o666)
        script = ("import os,socket\nos.setuid(%d)\ns=socket.socket(socket.AF_UNIX)\ns.connect('server.sock')\n"
                  "try:\n s.sendall(b'GET /api/status HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n')\n print(len(s.recv(10)))\n"
                  "except OSError:\n print(0)\n" % NOBODY)
        other = ws.run(["/usr/bin/python3", "-c", script], cwd=deep / ".aiflow")
        eq(other.out.strip(), "0", f"what another user gets ({other.err})")
    assert said["socket"].endswith("server.sock")
    server.terminate()
    eq(server.wait(60), 0, "exit code")


@test("healthz and the page need no token, everything else does")
def _(ws):
    server = Server(ws)
    eq(server.get("/healthz", token=False).expect(200).json, {"status": "ok"}, "healthz")
    page = server.get("/", token=False).expect(200)
    assert "default-src 'none'" in page.headers["Content-Security-Policy"], page.headers
    for path in ("/api/status", "/metrics", "/api/openapi.json", "/mcp", "/api/events", "/api/nothing"):
        server.get(path, token=False).expect(401, "UNAUTHORIZED")
    server.stop()


@test("the page: files without a token, compressed and kept by their hash; not changed is 304; only GET")
def _(ws):
    server = Server(ws)
    page = server.get("/", token=False).expect(200)
    eq((page.headers["Content-Type"], page.headers["Cache-Control"]), ("text/html; charset=utf-8", "no-cache"), "the first file")
    for rule in ("script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"):
        assert rule in page.headers["Content-Security-Policy"], page.headers["Content-Security-Policy"]
    names = re.findall(r'(?:src|href)="(/assets/[^"]+)"', page.body.decode())
    eq(len(names), 2, f"files that the first one names ({page.body})")
    for name in ("/", *names):
        file = server.get(name, token=False).expect(200)
        again = server.get(name, token=False, headers={"If-None-Match": file.headers["ETag"]}).expect(304)
        eq((again.body, again.headers["Content-Length"]), (b"", None), f"{name}, not changed")
        server.get(name, token=False, headers={"If-None-Match": '"other"'}).expect(200)
        head = server.ask("HEAD", name, token=False).expect(200)
        eq((head.body, head.headers["ETag"]), (b"", file.headers["ETag"]), f"HEAD {name}")
        server.post(name, token=False).expect(401)
        server.post(name).expect(405)
    for name in names:
        file = server.get(name, token=False)
        assert "immutable" in file.headers["Cache-Control"], file.headers
        eq(file.headers["Content-Encoding"], "gzip", name)
        assert gzip.decompress(file.body), name
    server.get("/assets/nothing.js", token=False).expect(401)
    server.get("/assets/nothing.js").expect(404)
    server.stop()


@test("D39 and Vantage: processes from creation to removal over HTTP, with the statuses of their errors")
def _(ws):
    server = Server(ws)
    made = server.post("/api/processes", {"id": "web", "command": "sleep", "args": ["1000"]}).expect(200).json
    eq((made["id"], made["state"]), ("web", "NotStarted"), "created")
    server.post("/api/processes", {"id": "web", "command": "sleep"}).expect(409, "ProcessAlreadyExists")
    server.post("/api/processes/web/stop").expect(409, "ProcessNotRunning")
    running = server.post("/api/processes/web/start").expect(200).json
    assert "Running" in running["state"] and ws.alive(running["pid"]), running
    server.post("/api/processes/web/start").expect(409, "ProcessAlreadyRunning")
    refused = server.ask("DELETE", "/api/processes/web").expect(409, "NEEDS_CONFIRMATION")
    assert refused.error["message"], refused
    server.ask("PUT", "/api/processes/web", {"auto_start_on_restore": True}).expect(200)
    eq([p["id"] for p in server.get("/api/processes").json["processes"]], ["web"], "the list")
    again = server.post("/api/processes/web/restart").expect(200).json
    assert again["pid"] != running["pid"], again
    server.post("/api/processes/web/stop", {"grace_period_ms": 2000}).expect(200)
    server.post("/api/processes", {"id": "bad", "command": "/no/such/program"}).expect(200)
    server.post("/api/processes/bad/start").expect(422, "ProcessStartFailed")
    server.get("/api/processes/absent").expect(404, "ProcessNotFound")
    for id in ("web", "bad"):
        server.ask("DELETE", f"/api/processes/{id}").expect(200)
    eq(server.get("/api/processes").json["processes"], [], "what is left")
    server.stop()


@test("D39's 409: a held lock is refused with its holder; force needs a yes over HTTP")
def _(ws):
    server = Server(ws)
    holder, other = sleeper(ws), sleeper(ws)
    got = server.post("/api/locks/name/deploy", {"pid": holder.pid}).expect(200).json
    refused = server.post("/api/locks/name/deploy", {"pid": other.pid}).expect(409, "LOCK_HELD").error
    eq(refused["context"]["holder"]["pid"], holder.pid, "the holder")
    server.get("/api/locks/name/deploy").expect(409)
    asked = server.post("/api/locks/name/deploy/force", {"pid": other.pid}).expect(409)
    eq(asked.json["needs_confirmation"], True, "needs_confirmation")
    assert "[y/N]" not in asked.error["message"] + asked.error["context"]["question"], asked.json
    forced = server.post("/api/locks/name/deploy/force", {"pid": other.pid, "confirm": True}).expect(200).json
    eq((forced["holder"]["pid"], forced["forced"]["pid"]), (other.pid, holder.pid), "from whom to whom")
    server.ask("DELETE", "/api/locks/name/deploy", {"token": got["token"]}).expect(409, "LOCK_LOST")
    server.ask("DELETE", "/api/locks/name/deploy", {"token": forced["token"]}).expect(200)
    eq(server.get("/api/locks").json["locks"], [], "what is left")
    request = server.post("/api/locks/request/RQ-1", {"pid": holder.pid, "run": "RUN-1"}).expect(200).json
    held = server.post("/api/locks/request/RQ-1", {"pid": other.pid}).expect(409, "RUN_IN_PROGRESS").error
    eq((held["category"], held["context"]["holder"]["run_id"]), ("EXECUTION", "RUN-1"), "the run that has it")
    server.ask("DELETE", "/api/locks/request/RQ-1", {"token": request["token"]}).expect(200)
    server.stop()


@test("U2 over HTTP: GET checks, POST acquires and releases by mode, any other mode is 'Invalid mode'")
def _(ws):
    server = Server(ws)
    holder = sleeper(ws)
    eq(server.get("/api/sprint").expect(200).json["status"], "clean", "before")
    body = {"mode": "acquire", "session": "s1", "epic": "e1", "pid": holder.pid}
    eq(server.post("/api/sprint", body).expect(200).json["status"], "acquired", "acquire")
    blocked = server.post("/api/sprint", {**body, "session": "s2"}).expect(409).json
    eq((blocked["status"], blocked["lock_info"]["session_id"]), ("blocked", "s1"), "the second")
    eq(server.post("/api/sprint", {"mode": "check"}).expect(409).json["status"], "blocked", "check by POST")
    fly = server.post("/api/sprint", {"mode": "fly"}).expect(400, "INVALID_INPUT")
    eq((fly.error["message"], fly.json["status"], fly.json["mode"], fly.json["message"], fly.json["errors"]),
       ("Invalid mode", "failure", "fly", "Invalid mode", ["Invalid mode"]), "fly")
    eq(fly.json["lock_info"]["exists"], False, "lock_info")
    refused = server.post("/api/sprint", {"mode": "release", "session": "s1"}).expect(409).json
    eq((refused["status"], refused["needs_confirmation"]), ("blocked", True), "a session id, which everybody is shown, proves nothing")
    eq(server.post("/api/sprint", {"mode": "release", "confirm": True}).expect(200).json["status"], "released", "release")
    server.stop()


@test("U2 over HTTP: a living sprint of somebody else is neither released nor forced without confirm: true")
def _(ws):
    server = Server(ws)
    holder = sleeper(ws)
    ws.tasuki("sprint", "acquire", "--session", "s1", "--epic", "e1", "--pid", holder.pid).expect(0)
    before = ws.lock_path("sprint").read_text()
    force = {"mode": "acquire", "session": "s2", "epic": "e", "pid": holder.pid, "force": True}
    for body in ({"mode": "release"}, {"mode": "release", "session": "other"}, force):
        answer = server.post("/api/sprint", body).expect(409).json
        eq((answer["status"], answer["needs_confirmation"]), ("blocked", True), str(body))
        eq(ws.lock_path("sprint").read_text(), before, "the lock file")
    eq(server.post("/api/sprint", {"mode": "release", "confirm": True}).expect(200).json["status"], "released", "with a yes")
    server.stop()


@test("U2 over HTTP: its own input names are understood, too")
def _(ws):
    server = Server(ws)
    holder = sleeper(ws)
    body = {"mode": "acquire", "session_id": "s1", "epic_spec": "e1", "lock_file_name": ".other", "pid": holder.pid}
    info = server.post("/api/sprint", body).expect(200).json["lock_info"]
    eq((info["session_id"], info["epic_spec"]), ("s1", "e1"), "what was recorded")
    assert (ws.path / ".other").exists() and not (ws.path / ".sprint-running").exists()
    body = {"mode": "release", "session_id": "s1", "lock_file_name": ".other", "confirm": True}
    eq(server.post("/api/sprint", body).expect(200).json["status"], "released", "release")
    server.stop()


@test("a request's command may be a line for a shell, as in its file; what GET shows can be PUT back")
def _(ws):
    server = Server(ws)
    line = "echo $((1+1)) > sum"
    request = server.post("/api/requests", {"title": "t", "run": line}).expect(200).json
    eq((request["run"], request["status"]), (line, "ready"), "as it was given")
    path = f"/api/requests/{request['id']}"
    eq(server.ask("PUT", path, {"title": "u", "run": server.get(path).json["run"]}).expect(200).json["run"], line, "put back")
    ws.tasuki("request", "run", request["id"]).expect(0)
    eq((ws.path / "sum").read_text(), "2\n", "by a shell")
    server.post("/api/requests", {"title": "t", "run": 5}).expect(400, "INVALID_INPUT")
    server.stop()


@test("arguments: from path, query and body, checked like everywhere else")
def _(ws):
    server = Server(ws)
    server.post("/api/processes", {"id": "a", "command": "sh", "args": ["-c", "for i in 1 2 3; do echo $i; done"]}).expect(200)
    server.post("/api/processes/a/start").expect(200)
    server.get("/api/wait?kind=process&id=a&for=exit&timeout=45s").expect(200)
    server.post("/api/wait", {"kind": "process", "id": "a", "for": "exit", "timeout": "45s"}).expect(200)
    lines = server.get("/api/processes/a/logs?lines=2&strip_ansi=true").expect(200).json["lines"]
    eq([line["text"] for line in lines], ["2", "3"], "the last two lines")
    for path, text in (("/api/processes/a/logs?lines=x", "lines"), ("/api/processes/a/logs?nope=1", "nope"),
                       ("/api/processes/a/logs?follow=true", "follow"), ("/api/processes/a/logs?lines=1&lines=2", "lines"),
                       ("/api/events?limit=0", "limit"), ("/api/events?limit=" + "9" * 20, "9" * 20), ("/api/processes/%ff", "%XX"),
                       ("/api/status?=1", "status has no parameter ''"),
                       ("/api/status?" + "x" * 15000, "status has no parameter 'x")):
        assert text in server.get(path).expect(400, "INVALID_INPUT").error["message"], path
    server.get("/api/processes/a%2F..%2Fb").expect(400, "INVALID_INPUT")
    server.post("/api/processes/a/start", {"id": "b"}).expect(400, "INVALID_INPUT")
    for body in ("[1]", "nonsense", '{"a":1,"a":2}', "{} {}"):
        server.post("/api/processes", body).expect(400, "INVALID_INPUT")
    refused = server.ask("DELETE", "/api/status").expect(405, "INVALID_INPUT")
    eq(refused.headers["Allow"], "GET", "Allow")
    eq(server.get("/api/status", headers={"Accept-Language": "ja"}).status, 200, "a language")
    missing = server.get("/api/processes/absent", headers={"Accept-Language": "ja-JP,en"}).expect(404).error["message"]
    assert "absent" in missing and not missing.isascii(), missing
    for method, path, token, status in (("GET", "/api/status", False, 401), ("GET", "/api/nothing", True, 404),
                                        ("DELETE", "/api/status", True, 405), ("GET", "/api/events?limit=0", True, 400)):
        refused = server.ask(method, path, token=token, headers={"Accept-Language": "ja"}).expect(status)
        assert not refused.error["message"].isascii(), refused.body
    refused = server.get("/", headers={"Accept-Language": "zh", "Origin": "http://evil.example"}).expect(403)
    assert not refused.error["message"].isascii(), refused.body
    server.stop()


@test("HEAD is GET without a body; a connection is used again; what is sent ahead is answered in order")
def _(ws):
    server = Server(ws)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=90)
    for _ in range(3):
        connection.request("HEAD", "/api/status", headers=server.auth())
        answer = connection.getresponse()
        eq((answer.status, answer.read()), (200, b""), "HEAD")
        assert int(answer.headers["Content-Length"]) > 50
    sock = connection.sock
    connection.request("GET", "/healthz")
    eq((connection.getresponse().read(), connection.sock), (b'{"status":"ok"}\n', sock), "on the same connection")
    server.post("/api/processes", {"id": "a", "command": "true"}).expect(200)
    for path, status in (("/api/events", 200), ("/api/processes/a/logs/stream", 200), ("/api/processes/b/logs/stream", 404)):
        connection.request("HEAD", path, headers={**server.auth(), "Accept": "text/event-stream"})
        answer = connection.getresponse()
        eq((path, answer.status, answer.read(), connection.sock), (path, status, b"", sock), "HEAD of a stream")
    connection.close()
    head = f"Host: localhost\r\nAuthorization: Bearer {server.token}\r\n"
    ahead = "".join(f"GET {path} HTTP/1.1\r\n{head}\r\n" for path in ("/api/locks", "/healthz", "/api/nothing"))
    ahead += f"POST /api/processes HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\n\r\n"
    ahead += "9\r\n{\"id\":\"p\"\r\n12;x=y\r\n,\"command\":\"true\"}\r\n0\r\n\r\n"
    ahead += f"GET /api/locks HTTP/1.0\r\n{head}\r\n"
    data = server.raw(ahead.encode())
    eq([int(part[:3]) for part in data.split(b"HTTP/1.1 ")[1:]], [200, 200, 404, 200, 200], "the answers")
    server.stop()


@test("Expect: 100-continue is answered before the body comes, and not when it is not wanted")
def _(ws):
    server = Server(ws)
    body = b'{"id": "x", "command": "true"}'
    head = (f"POST /api/processes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nExpect: 100-continue\r\n"
            f"Content-Length: {len(body)}\r\n\r\n")
    sock = server.connect()
    sock.sendall((head % server.token).encode())
    eq(sock.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n", "first")
    sock.sendall(body)
    eq(status_of(sock.recv(4096)), 200, "then")
    sock.close()
    eq(status_of(server.raw((head % "wrong").encode())), 401, "without a token")
    server.stop()


@test("an operation that waits stops nobody else, and ends when its client goes away")
def _(ws):
    server = Server(ws)
    holder = sleeper(ws)
    server.post("/api/locks/name/a", {"pid": holder.pid}).expect(200)
    head = (f"POST /api/locks/name/a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n"
            "Content-Length: 34\r\n\r\n{\"wait\": \"45s\", \"pid\": %10d}" % os.getpid()).encode()
    waiting = [server.connect() for _ in range(20)]
    for sock in waiting:
        sock.sendall(head)
    waiters = ws.path / ".aiflow" / "locks" / ".guard"
    ws.until(lambda: server.get("/api/status").status == 200, "an answer meanwhile")
    for sock in waiting[1:]:
        sock.close()
    ws.until(lambda: server.get("/metrics").body.count(b"tasuki_http_connections 2\n"), "they are gone, and the one that stayed is there")
    server.ask("DELETE", "/api/locks/name/a", {"token": ws.read_lock("name", "a")["token"]}).expect(200)
    eq(status_of(waiting[0].recv(65536)), 200, "the one that stayed")
    assert waiters.exists()
    server.stop()


@test("300 operations that wait leave room for others, and end with their clients", slow=True)
def _(ws):
    server = Server(ws)
    server.post("/api/locks/name/a", {"pid": sleeper(ws).pid}).expect(200)
    body = json.dumps({"wait": "45s", "pid": os.getpid()})
    head = (f"POST /api/locks/name/a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}").encode()
    waiting = [server.connect() for _ in range(300)]
    for sock in waiting:
        sock.sendall(head)
    threads = pathlib.Path(f"/proc/{server.proc.pid}/task")
    ws.until(lambda: len(list(threads.iterdir())) > 300, "all of them wait")
    for _ in range(20):
        server.get("/api/processes/absent").expect(404)
    for sock in waiting:
        sock.close()
    ws.until(lambda: server.get("/metrics").body.count(b"tasuki_http_connections 1\n"), "they are gone")
    server.stop()


@test("a clean shutdown finishes open responses, ends streams and leaves processes alone")
def _(ws):
    server = Server(ws)
    server.post("/api/processes", {"id": "web", "command": "sleep", "args": ["1000"]}).expect(200)
    pid = server.post("/api/processes/web/start").expect(200).json["pid"]
    script = "trap 'touch told; while ! test -e go; do sleep 0.01; done; exit 0' TERM; touch up; while :; do sleep 0.05; done"
    slow = {"id": "slow", "command": "sh", "args": ["-c", script]}
    server.post("/api/processes", slow).expect(200)
    server.post("/api/processes/slow/start").expect(200)
    ws.until(lambda: (ws.path / "up").exists(), "it has its trap")
    answers = []
    asking = threading.Thread(target=lambda: answers.append(server.post("/api/processes/slow/stop", {"grace_period_ms": 60000})))
    stream = server.stream("/api/events").hello()
    asking.start()
    ws.until(lambda: (ws.path / "told").exists(), "the stop has begun")
    server.proc.terminate()
    ws.until(lambda: not (ws.path / ".aiflow" / "server.sock").exists(), "it has begun to end")
    (ws.path / "go").touch()
    eq(server.proc.wait(60), 0, "exit code")
    asking.join(90)
    eq(answers[0].expect(200).json["state_name"], "Stopped", "the open response")
    for _ in stream:
        pass
    stream.close()
    assert ws.alive(pid), "a process must outlive the server"
    eq(ws.tasuki("proc", "status", "web", "--json").json["state_name"], "Running", "its state")
    ws.tasuki("proc", "stop", "web").expect(0)


@test("a shutdown says so to what only waits, and waits for nobody who has not asked yet")
def _(ws):
    server = Server(ws)
    server.post("/api/locks/name/a", {"pid": sleeper(ws).pid}).expect(200)
    body = json.dumps({"wait": "45s", "pid": os.getpid()})
    head = f"Host: localhost\r\nAuthorization: Bearer {server.token}\r\n"
    asked = {
        "wait": f"GET /api/wait?kind=lock&id=name/a&timeout=40s HTTP/1.1\r\n{head}\r\n",
        "lock": f"POST /api/locks/name/a HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n{body}",
        "half a body": f"POST /api/locks/name/a HTTP/1.1\r\n{head}Content-Length: 1000\r\n\r\n{{",
        "half a head": "GET /api/status HTTP/1.1\r\nHost: ",
        "nothing": "",
    }
    agent = "".join(f"{name}: {value}\r\n" for name, value in McpClient(server).headers().items())
    for tool, arguments in (("wait_for", {"kind": "lock", "id": "a", "timeout": "40s"}),
                            ("lock_acquire", {"kind": "name", "id": "a", "wait": "40s", **register(server)})):
        call = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
        asked[tool] = f"POST /mcp HTTP/1.1\r\n{head}{agent}Content-Length: {len(call)}\r\n\r\n{call}"
    clients = {name: server.connect() for name in asked}
    for name, sock in clients.items():
        sock.sendall(asked[name].encode())
    server.get("/api/status").expect(200)  # it has read all of them before
    begun = ws.path / ".aiflow" / "server.sock"
    server.proc.terminate()
    ws.until(lambda: not begun.exists(), "it has begun to end")
    eq(server.proc.wait(60), 0, "exit code")
    answers = {name: read_all(sock) for name, sock in clients.items()}
    eq({name: status_of(data) for name, data in answers.items()},
       {"wait": 503, "lock": 503, "half a body": 503, "half a head": None, "nothing": None, "wait_for": 200, "lock_acquire": 200},
       "the answers")
    for tool, word in (("wait_for", b"FAILED: The server is ending"), ("lock_acquire", b"NOT ACQUIRED: The server is ending")):
        assert word in answers[tool], answers[tool]
    for name in ("wait", "lock", "half a body"):
        assert b"Retry-After: " in answers[name] and b"shutting down" in answers[name], answers[name]
        eq(json.loads(answers[name].partition(b"\r\n\r\n")[2])["error"]["reason_code"], "ENVIRONMENT", f"the reason of {name}")


@test("TASUKI_STOP_ON_SHUTDOWN and Vantage's name for it: a clean shutdown ends all processes")
def _(ws):
    ws.tasuki("proc", "create", "web", "--", "sleep", "1000").expect(0)
    for name in ("TASUKI_STOP_ON_SHUTDOWN", "VANTAGE_STOP_ON_SHUTDOWN"):
        server = Server(ws, env={name: "true"})
        pid = server.post("/api/processes/web/start").expect(200).json["pid"]
        server.stop()
        assert not ws.alive(pid), name
        eq(ws.tasuki("proc", "status", "web", "--json").json["state_name"], "Stopped", "the state")


@test("what a shutdown ended runs again with the next server if it should; what a person stopped, or has no flag, does not", slow=True)
def _(ws):
    for id, flags in (("auto", ["--auto-start"]), ("stopped", ["--auto-start"]), ("plain", [])):
        ws.tasuki("proc", "create", id, *flags, "--start", "--", "sleep", "1000").expect(0)
    ws.tasuki("proc", "stop", "stopped").expect(0)
    Server(ws, env={"TASUKI_STOP_ON_SHUTDOWN": "true"}).stop()
    eq({p["id"]: p["state_name"] for p in ws.tasuki("proc", "list", "--json").json["processes"]},
       {"auto": "Stopped", "stopped": "Stopped", "plain": "Stopped"}, "after the shutdown")
    restored = ws.tasuki("restore", "--json").expect(0).json  # as the next server does
    eq((restored["started"], [s["id"] for s in restored["skipped"]]), (["auto"], ["stopped"]), "started and left alone")
    ws.tasuki("proc", "stop", "auto").expect(0)
    eq(ws.tasuki("restore", "--json").expect(0).json["started"], [], "after a person's stop")


@test("serve starts what should run, adopts what runs, and leaves what was stopped on purpose")
def _(ws):
    for id in ("auto", "stopped", "running"):
        ws.tasuki("proc", "create", id, "--auto-start", "--", "sleep", "1000").expect(0)
    ws.tasuki("proc", "create", "manual", "--", "sleep", "1000").expect(0)
    pid = ws.tasuki("proc", "start", "running", "--json").json["pid"]
    ws.tasuki("proc", "start", "stopped").expect(0)
    ws.tasuki("proc", "stop", "stopped").expect(0)
    server = Server(ws)

    def states():
        return {p["id"]: p["state_name"] for p in server.get("/api/processes").json["processes"]}

    ws.until(lambda: states()["auto"] == "Running", "auto runs")
    eq(states(), {"auto": "Running", "stopped": "Stopped", "running": "Running", "manual": "NotStarted"}, "the states")
    eq(server.get("/api/processes/running").json["pid"], pid, "the one that ran")
    server.stop()
    ws.tasuki("proc", "stop", "--all").expect(0)


@test("what serve starts has the limit of descriptors that serve was given")
def _(ws):
    wrapper = ws.path / "limited.sh"
    wrapper.write_text(f'#!/bin/sh\nulimit -S -n 512\nexec {ws.binary} "$@"\n')
    wrapper.chmod(0o755)
    server = Server(ws, binary=wrapper)
    server.post("/api/processes", {"id": "a", "command": "sh", "args": ["-c", "ulimit -S -n"]}).expect(200)
    server.post("/api/processes/a/start").expect(200)
    server.get("/api/wait?kind=process&id=a&for=exit&timeout=45s").expect(200)
    eq(server.get("/api/processes/a/logs").json["lines"][0]["text"], "512", "the limit")
    assert "4096" in [w for line in pathlib.Path(f"/proc/{server.proc.pid}/limits").read_text().splitlines()
                      if line.startswith("Max open files") for w in line.split()], "the server's own"
    server.stop()


@test("/metrics: counters and gauges for locks, runs, tasks, processes, requests and latencies")
def _(ws):
    server = Server(ws)
    holder = sleeper(ws)
    (ws.path / "f.yaml").write_text("tasks:\n  a: {run: 'true'}\n  b: {run: 'true'}\n")
    ws.tasuki("run", "f.yaml").expect(0)
    server.post("/api/locks/name/x", {"pid": holder.pid}).expect(200)
    server.post("/api/locks/name/x", {"pid": os.getpid()}).expect(409)
    server.post("/api/processes", {"id": "a", "command": "true"}).expect(200)
    ws.tasuki("request", "add", "later").expect(0)
    ws.until(lambda: b'tasuki_events_total{type="lock.acquired"} 1' in server.get("/metrics").body, "the event is counted")
    answer = server.get("/metrics").expect(200)
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4"), answer.headers
    lines = answer.body.decode().splitlines()
    for line in ('tasuki_locks{kind="name"} 1', 'tasuki_processes{state="NotStarted"} 1', 'tasuki_runs{status="DONE"} 1',
                 'tasuki_requests{status="draft"} 1', 'tasuki_tasks{count="done"} 2', 'tasuki_http_requests_total{operation="lock.acquire",status="409"} 1'):
        assert line in lines, f"{line} is not in\n" + "\n".join(lines)
    assert any(line.startswith("tasuki_http_request_seconds_bucket") for line in lines)
    server.stop()


@test("an answer that is used twice is never older than what anybody was told", slow=True)
def _(ws):
    server = Server(ws)
    holder = sleeper(ws)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=90)

    def locks():
        found = []
        for path in ("/api/locks", "/api/status"):
            connection.request("GET", path, headers=server.auth())
            found.append([lock["id"] for lock in json.loads(connection.getresponse().read())["locks"]])
        eq(found[0], found[1], "two views")
        return found[0]

    for number in range(40):
        for _ in range(5):
            eq(locks(), [], "before")
        if number % 2:
            ws.tasuki("lock", "acquire", "name", "a", "--pid", holder.pid).expect(0)
        else:
            server.post("/api/locks/name/a", {"pid": holder.pid}).expect(200)
        eq(locks(), ["a"], "when it was acquired")
        token = ws.read_lock("name", "a")["token"]
        ws.tasuki("lock", "release", "name", "a", "--token", token).expect(0)
        eq(locks(), [], "when it was released")
    server.post("/api/processes", {"id": "p", "command": "sleep", "args": ["1000"]}).expect(200)
    for _ in range(10):
        eq(server.post("/api/processes/p/start").json["state_name"], "Running", "started")
        eq(server.get("/api/processes/p").json["state_name"], "Running", "after the start")
        ws.tasuki("proc", "stop", "p").expect(0)
        eq(server.get("/api/processes/p").json["state_name"], "Stopped", "after the stop")
    connection.close()
    server.stop()


@test("--listen on another address warns, and its Host is allowed; without it only loopback is bound")
def _(ws):
    server = Server(ws, "--listen", "0.0.0.0", "--host", "box.example")
    eq(server.get("/api/status", headers={"Host": f"box.example:{server.port}"}).status, 200, "a listed host")
    server.get("/api/status", headers={"Host": "evil.example"}).expect(403, "FORBIDDEN_ORIGIN")
    server.proc.terminate()
    assert "0.0.0.0" in ws.finish(server.proc).err
    default = Server(ws)
    found = subprocess.run(["cat", "/proc/net/tcp"], capture_output=True, text=True, check=True).stdout
    listening = [line.split()[1] for line in found.splitlines()[1:] if line.split()[3] == "0A"
                 and line.split()[1].endswith(f":{default.port:04X}")]
    eq(listening, [f"0100007F:{default.port:04X}"], "where it listens")
    default.stop()


@test("serve ends at once on SIGINT, and a second signal cuts the shutdown short")
def _(ws):
    server = Server(ws)
    server.proc.send_signal(signal.SIGINT)
    eq(server.proc.wait(60), 0, "exit code")
    server = Server(ws)
    deaf = {"id": "deaf", "command": "sh", "args": ["-c", "trap '' TERM; touch up; while :; do sleep 0.05; done"]}
    server.post("/api/processes", deaf).expect(200)
    pid = server.post("/api/processes/deaf/start").expect(200).json["pid"]
    ws.until(lambda: (ws.path / "up").exists(), "it has its trap")
    stopping = server.connect()  # an operation that is not cut short
    body = '{"grace_period_ms": 60000}'
    stopping.sendall(f"POST /api/processes/deaf/stop HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n"
                     f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
    ws.until(lambda: server.get("/api/processes/deaf").json["phase"] == "stopping", "the stop has begun")
    server.proc.send_signal(signal.SIGINT)
    ws.until(lambda: not (ws.path / ".aiflow" / "server.sock").exists(), "it has begun to end")
    eq(server.proc.poll(), None, "and waits for the operation")
    server.proc.send_signal(signal.SIGINT)
    eq((server.proc.wait(60), read_all(stopping)), (0, b""), "exit code, and no answer")
    os.kill(pid, signal.SIGKILL)
    ws.until(lambda: not ws.alive(pid), "its end")


@test("no operation leaves a descriptor of the server open, whether it succeeds or is refused")
def _(ws):
    (ws.path / "flow.yaml").write_text("tasks: {a: 'true'}\n")
    ws.tasuki("run", "flow.yaml").expect(0)
    run = only_run(ws)
    server = Server(ws)
    mine = as_headers(register(server))
    calls = [("GET", f"/api/{path}", None) for path in (
        "status", "events?limit=3", "flows", "runs", f"runs/{run}", f"runs/{run}/logs", f"runs/{run}/tasks", f"runs/{run}/graph",
        "flows/graph?flow=flow.yaml", "runs/RUN-none", "requests", "requests/RQ-1", "queue", "queue/next", "locks", "locks/name/a",
        "workflows", "workflows/w", "sprint", "processes", "processes/p", "processes/p/logs", "processes/export", "templates", "templates/t",
        "wait?kind=lock&id=b")]
    calls += [(method, f"/api/{path}", body) for method, path, body in (
        ("POST", "requests", {"title": "t", "id": "RQ-1", "run": ["true"]}), ("PUT", "requests/RQ-1", {"title": "u"}),
        ("DELETE", "requests/RQ-1", {}), ("DELETE", "requests/RQ-1", {}), ("POST", "locks/name/a", {}), ("POST", "locks/name/a", {}),
        ("PUT", "locks/name/a", {}), ("DELETE", "locks/name/a", {}), ("DELETE", "locks/name/a", {}),
        ("POST", "workflows/w/claim", {}), ("POST", "workflows/w/check", {}), ("POST", "workflows/w/release", {}),
        ("POST", "sprint", {"mode": "acquire", "session": "s", "epic": "e"}), ("POST", "sprint", {"mode": "acquire", "session": "t", "epic": "e"}),
        ("POST", "sprint", {"mode": "release", "session": "s"}), ("POST", "sprint", {"mode": "release", "session": "s"}),
        ("POST", "processes", {"id": "p", "command": "true"}), ("POST", "processes", {"id": "p", "command": "true"}),
        ("PUT", "processes/p", {"cwd": "/"}), ("POST", "processes/p/stop", {}), ("POST", "processes/none/start", {}), ("DELETE", "processes/p", {}),
        ("POST", "templates", {"name": "t", "command": "true"}), ("POST", "templates/t/use", {"id": "q"}), ("DELETE", "processes/q", {}),
        ("DELETE", "templates/t", {}), ("POST", "processes/import", {"content": "web: true\n", "format": "procfile"}),
        ("DELETE", "processes/web", {}), ("POST", "flows/validate", {"flow": "flow.yaml"}), ("POST", "flows/validate", {"flow": "none.yaml"}),
        ("POST", "doctor", {"mode": "quick"}), ("POST", "restore", {}), ("POST", "queue/stop", {}))]

    def used():
        return len(os.listdir(f"/proc/{server.proc.pid}/fd"))

    def all_of_them():
        for method, path, body in calls:
            status = server.ask(method, path, body, headers=mine).status
            assert status in (200, 404, 409), f"{method} {path}: {status}"

    all_of_them()
    all_of_them()
    before = used()
    for _ in range(3):
        all_of_them()
    ws.until(lambda: used() <= before, f"as few descriptors as before, {before}")
    server.stop()


@test("serve starts what should run; it is silent when all is well, and names what could not be started")
def _(ws):
    ws.tasuki("proc", "create", "good", "--auto-start", "--", "sleep", "1000").expect(0)
    server = Server(ws)
    ws.until(lambda: server.get("/api/processes/good").json["state_name"] == "Running", "the start")
    server.stop()
    eq(server.proc.stderr.read(), "", "what it said")
    ws.tasuki("proc", "create", "bad", "--auto-start", "--", "./missing").expect(0)
    server = Server(ws)
    assert "bad: " in server.proc.stderr.readline()
    server.stop()
    ws.tasuki("proc", "stop", "good").expect(0)


@test("serve --open shows the page with its token in a browser, of a new server and of the one that is there")
def _(ws):
    tools = ws.base / "tools"
    tools.mkdir()
    (tools / "xdg-open").write_text("#!/bin/sh\nread -r pid name state parent group session rest </proc/$$/stat\n"
                                    f"echo \"$@\" $((session == $$)) >> {ws.base}/opened.new; mv {ws.base}/opened.new {ws.base}/opened\n")
    (tools / "xdg-open").chmod(0o755)
    env = {"PATH": f"{tools}:{os.environ['PATH']}"}
    server = Server(ws, "--open", env=env)
    page = f"{server.url}/#token={server.token} 1\n"
    eq(ws.until_file(ws.base / "opened"), page, "what was opened, in a session of its own: Ctrl-C is for the server alone")
    (ws.base / "opened").unlink()
    ws.tasuki("serve", "--open", env=env)
    eq(ws.until_file(ws.base / "opened"), page, "what was opened")


main(__name__)
