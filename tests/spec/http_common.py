"""What the suites about the server share: starting it, asking it, and speaking to it byte by byte."""

import contextlib
import hashlib
import http.client
import json
import pathlib
import socket
import sqlite3
import time

from harness.harness import eq
from harness.workspace import free_port


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]

    def expect(self, status, reason=None):
        assert self.status == status, f"status {self.status}, expected {status}: {self.body!r}"
        if reason:
            eq(self.error["reason_code"], reason, "reason_code")
        return self


class Server:
    """`tasuki serve` of a workspace."""

    def __init__(self, ws, *args, port=0, env=None, binary=None):
        """port=0: one that stays this test's, so that a later server can have it again; None: the server finds one."""
        self.ws = ws
        port = free_port(ws) if port == 0 else port
        words = ["serve", "--json", *(["--port", port] if port is not None else []), *args]
        self.proc = ws.spawn_command([binary or ws.binary, *words], env=env)
        line = self.proc.stdout.readline()
        assert line, f"the server said nothing: {self.proc.stderr.read()}"
        self.said = json.loads(line)
        self.url = self.said["url"]
        self.port = int(self.url.rpartition(":")[2])
        self.token = (ws.path / ".aiflow" / "server.token").read_text().strip()

    def stop(self, code=0):
        self.proc.terminate()
        self.proc.wait(60)
        assert self.proc.returncode == code, f"the server ended with {self.proc.returncode}: {self.proc.stderr.read()[-8000:]}"

    def auth(self):
        return {"Authorization": f"Bearer {self.token}"}

    def ask(self, method, path, body=None, headers=None, token=True, timeout=90):
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            data = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
            connection.request(method, path, data, {**(self.auth() if token else {}), **(headers or {})})
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path, **options):
        return self.ask("GET", path, **options)

    def post(self, path, body=None, **options):
        return self.ask("POST", path, {} if body is None else body, **options)

    def connect(self, timeout=90):
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        self.ws.at_close(sock.close)
        return sock

    def raw(self, data, timeout=90):
        """Sends bytes, returns what comes back until the server closes."""
        sock = self.connect(timeout)
        try:
            sock.sendall(data)
        except OSError:
            pass  # it has closed already
        return read_all(sock)

    def stream(self, path, headers=None, body=None, timeout=60):
        return Stream(self, path, headers, body, timeout)


def limited(ws, fds):
    """A program that is tasuki with so many descriptors, and no right to more."""
    wrapper = ws.path / f"limited-{fds}.sh"
    wrapper.write_text(f'#!/bin/sh\nulimit -n {fds}\nexec {ws.binary} "$@"\n')
    wrapper.chmod(0o755)
    return wrapper


# -- clients of the server, as the table `instance` has them --

LEASE_MS = 2 * 60 * 1000
MCP_META = "io.modelcontextprotocol/"


def register(server):
    """A new instance: what goes with its calls."""
    answer = server.get("/api/status?register=true").expect(200).json
    return {"instance": answer["instance"], "secret": answer["secret"]}


def as_headers(me):
    return {"Tasuki-Instance": me["instance"], "Tasuki-Secret": me["secret"]}


@contextlib.contextmanager
def table_of(ws):
    db = sqlite3.connect(ws.path / ".aiflow" / "state.db", timeout=60)
    try:
        with db:
            yield db
    finally:
        db.close()


def boot_ms():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000000


def set_lease(ws, me, left_ms):
    """As if the client had been silent: its lease ends in so many ms, or has ended."""
    with table_of(ws) as db:
        changed = db.execute("UPDATE instance SET lease_boot_ms = ?, lease_wall_ms = ? WHERE id = ?",
                             (boot_ms() + left_ms, time.time_ns() // 1000000 + left_ms, me["instance"])).rowcount
    eq(changed, 1, "rows of the instance")


def lease_left(ws, me):
    """In ms; None: it is not registered."""
    with table_of(ws) as db:
        row = db.execute("SELECT lease_boot_ms FROM instance WHERE id = ?", (me["instance"],)).fetchone()
    return row and row[0] - boot_ms()


class McpClient:
    """A client of /mcp with a session."""

    def __init__(self, server):
        self.server, self.session = server, None
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        self.session = self.post("initialize", hello).headers["Mcp-Session-Id"]

    def headers(self):
        named = {"Mcp-Session-Id": self.session, "MCP-Protocol-Version": "2025-11-25"} if self.session else {}
        return {"Accept": "application/json, text/event-stream", "Content-Type": "application/json", **named}

    def post(self, method, params):
        return self.server.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, headers=self.headers()).expect(200)

    def call(self, tool, **arguments):
        return self.post("tools/call", {"name": tool, "arguments": arguments}).json["result"]


def open_streams(ws, server):
    """One of each sort, each of a client of its own: [(client, stream)]."""
    ws.tasuki("proc", "create", "quiet", "--", "sleep", "1000").expect(0)
    ws.tasuki("proc", "start", "quiet").expect(0)
    agents = [McpClient(server) for _ in range(3)]
    sessions = [{"Mcp-Session-Id": agent.session} for agent in agents]
    clients = [register(server) for _ in range(5)] + [agents[0].call("get_status", register=True)["structuredContent"]]
    agents[1].call("lock_acquire", kind="name", id="heard", **clients[2])
    listen = {"_meta": {MCP_META + "protocolVersion": "2026-07-28", MCP_META + "clientCapabilities": {}},
              "notifications": {"resourceSubscriptions": ["tasuki://locks"]}}
    listens = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen", **as_headers(clients[4])}
    asked = [("/api/events", as_headers(clients[0])), ("/api/processes/quiet/logs/stream", as_headers(clients[1])),
             ("/mcp", sessions[1]), ("/mcp", {**sessions[2], **as_headers(clients[3])}),
             ("/mcp", listens, json.dumps({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": listen})),
             ("/mcp", sessions[0])]
    streams = [(me, server.stream(*how)) for me, how in zip(clients, asked)]
    eq([stream.status for _, stream in streams], [200] * 6, "streams")
    return streams


def enroll(ws, name):
    """An instance that is the same in every workspace, without asking a server."""
    digest = hashlib.sha256(name.encode()).hexdigest()
    me = {"instance": f"http-{digest[:16]}", "secret": digest[:32]}
    boot_id = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    with table_of(ws) as db:
        db.execute("INSERT INTO instance (id, hostname, pid, boot_id, pid_ns, start_ticks, created_at, secret_hash, lease_boot_ms,"
                   " lease_wall_ms) VALUES (?, 'h', 0, ?, 0, 0, '', ?, ?, ?)",
                   (me["instance"], boot_id, hashlib.sha256(me["secret"].encode()).hexdigest(), boot_ms() + 10 * LEASE_MS,
                    time.time_ns() // 1000000 + 10 * LEASE_MS))
    return me


def read_all(sock):
    data = b""
    try:
        while chunk := sock.recv(65536):
            data += chunk
    except OSError:
        pass
    sock.close()
    return data


def status_of(data):
    """The status of a raw answer; None when there is none."""
    return int(data.split(b" ", 2)[1]) if data.startswith(b"HTTP/1.1 ") else None


def over_unix(ws, path):
    """The status of a GET through the unix socket."""
    sock = socket.socket(socket.AF_UNIX)
    ws.at_close(sock.close)
    sock.connect(str(ws.path / ".aiflow" / "server.sock"))
    sock.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
    return status_of(read_all(sock))


class Stream:
    """A stream of events: iterating gives (id, data); comments and blocks without data are skipped."""

    def __init__(self, server, path, headers=None, body=None, timeout=60):
        self.sock = server.connect(timeout)
        headers = {**(headers or {}), **({"Content-Length": len(body)} if body else {})}
        lines = [f"{'POST' if body else 'GET'} {path} HTTP/1.1", f"Host: localhost:{server.port}", "Accept: text/event-stream"]
        lines += [f"{name}: {value}" for name, value in {**server.auth(), **headers}.items()]
        self.sock.sendall("\r\n".join([*lines, "", body or ""]).encode())
        self.file = self.sock.makefile("rb")
        self.last_id, self.comments, self.event = None, 0, None
        self.status = int(self.file.readline().split()[1])
        self.headers = {}
        while (line := self.file.readline().rstrip(b"\r\n")):
            name, _, value = line.decode().partition(":")
            self.headers[name.lower()] = value.strip()

    def __iter__(self):
        return self

    def __next__(self):
        data = None
        while True:
            line = self.file.readline()
            if not line:
                raise StopIteration
            field, _, value = line.decode().rstrip("\n").partition(": ")
            if field == "id":
                self.last_id = value
            elif field == "data":
                data = json.loads(value)
            elif field == "event":
                self.event = value
            elif line.startswith(b":"):
                self.comments += 1
            elif line == b"\n" and data is not None:
                return self.last_id, data

    def hello(self):
        """Reads the first block, which has an id and no data."""
        while (line := self.file.readline()) not in (b"\n", b""):
            if line.startswith(b"id: "):
                self.last_id = line[4:].strip().decode()
        return self

    def close(self):
        self.file.close()
        self.sock.close()
