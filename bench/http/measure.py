"""The HTTP rows of the speed table: CPU per request beside nginx and node, streams beside node, memory."""
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import time

from report import Row

HERE = pathlib.Path(__file__).resolve().parent
REAL_PATHS = {"process": "/api/processes/p0", "processes": "/api/processes", "locks": "/api/locks"}
NGINX = """daemon off; worker_processes 1; pid {work}/nginx.pid; error_log /dev/null;
events {{ worker_connections 1024; }}
http {{ access_log off; client_body_temp_path {work}/t1; proxy_temp_path {work}/t2; fastcgi_temp_path {work}/t3;
  uwsgi_temp_path {work}/t4; scgi_temp_path {work}/t5; keepalive_requests 1000000000;
  server {{ listen 127.0.0.1:{port}; root {work}/static; }} }}
"""


def cpu_us(pids):
    """CPU time of all threads, as the scheduler counts it."""
    total = 0
    for pid in pids:
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1000


def memory_kib(pid, key="VmRSS"):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    raise RuntimeError(f"no {key}")


def children(pid):
    return [int(p) for t in pathlib.Path(f"/proc/{pid}/task").iterdir() for p in (t / "children").read_text().split()]


class Server:
    """Something that listens, with the request to send to it."""

    def __init__(self, context, name, port, proc, path, headers=""):
        self.context, self.name, self.port, self.proc = context, name, port, proc
        self.file = context.work / f"{name}.request"
        self.headers = headers
        self.request(path)

    def request(self, path, accept="*/*"):
        self.file.write_text(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n{self.headers}\r\n", newline="")

    def pids(self):
        return children(self.proc.pid) if self.name == "nginx" else [self.proc.pid]

    def load(self, requests, connections=8):
        """CPU microseconds per request."""
        before = cpu_us(self.pids())
        done = run(self.context, "requests", self.port, connections, requests, self.file)
        if done["errors"]:
            raise RuntimeError(f"{self.name} answered {done['errors']} requests with an error")
        return (cpu_us(self.pids()) - before) / requests

    def stop(self):
        self.proc.terminate()
        self.proc.wait(20)


def run(context, *words):
    done = subprocess.run([context.driver("bench-http"), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"bench-http ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


# -- servers ------------------------------------------------------------------------------------------------

def start_tasuki(context, root):
    begun = time.monotonic()
    proc = subprocess.Popen([context.tasuki, "--root", root, "serve", "--json", "--port", "0"], cwd=root, stdout=subprocess.PIPE, text=True)
    said = json.loads(proc.stdout.readline())
    started_ms = (time.monotonic() - begun) * 1000
    token = (root / ".aiflow" / "server.token").read_text().strip()
    server = Server(context, "tasuki", int(said["url"].rpartition(":")[2]), proc, "/api/status",
                    f"Authorization: Bearer {token}\r\n")
    server.started_ms = started_ms
    return server


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def wait_for(port):
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.01)
    raise RuntimeError("the peer does not listen")


def start_nginx(context, body):
    program = shutil.which("nginx") or ("/usr/sbin/nginx" if os.path.exists("/usr/sbin/nginx") else None)
    if not program:
        context.say("nginx is not installed: skipped")
        return None
    static = context.work / "static"
    static.mkdir()
    (static / "status.json").write_bytes(body)
    for path in (context.work, static, context.work.parent, static / "status.json"):
        path.chmod(0o755)  # its worker is another user
    port = free_port()
    config = context.work / "nginx.conf"
    config.write_text(NGINX.format(work=context.work, port=port) + ("" if os.geteuid() else "user root;\n"))
    proc = subprocess.Popen([program, "-c", str(config), "-p", str(context.work)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(port)
    return Server(context, "nginx", port, proc, "/status.json")


def start_node(context, body):
    program = shutil.which("node")
    if not program:
        context.say("node is not installed: skipped")
        return None
    document = context.work / "document.json"
    document.write_bytes(body)
    proc = subprocess.Popen([program, str(HERE / "peer.mjs"), str(document)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return Server(context, "node", int(proc.stdout.readline()), proc, "/")


# -- streams ------------------------------------------------------------------------------------------------

def stream(context, server, path, clients, events, emit):
    """Seconds from the first event until everybody has all; KiB of the server's memory per stream."""
    server.request(path, "text/event-stream")
    pid = server.proc.pid
    before = memory_kib(pid)
    driver = subprocess.Popen([context.driver("bench-http"), "streams", str(server.port), str(clients), str(events), str(server.file)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if driver.stdout.readline().strip() != "ready":
        raise RuntimeError(f"bench-http: {driver.stderr.read()}")
    each = (memory_kib(pid) - before) / clients
    cpu, begun = cpu_us([pid]), time.monotonic()
    for number in range(events):
        emit(number)
    if driver.wait(300) != 0:
        raise RuntimeError(f"bench-http: {driver.stderr.read()}")
    seconds = time.monotonic() - begun
    return {"seconds": seconds, "kib": max(each, 0), "cpu_s": (cpu_us([pid]) - cpu) / 1e6}


def event_line(number):
    return json.dumps({"time": "2026-01-01T00:00:00.000Z", "type": "test.event", "data": {"n": number, "text": "x" * 60}})


def measure_streams(context, tasuki, node, root, clients, events):
    trail = os.open(root / ".aiflow" / "events.ndjson", os.O_WRONLY | os.O_APPEND)
    ours = stream(context, tasuki, "/api/events", clients, events, lambda n: os.write(trail, event_line(n).encode() + b"\n"))
    os.close(trail)
    tasuki.request("/api/status")

    def to_node(number):
        node.proc.stdin.write(event_line(number) + "\n")
        node.proc.stdin.flush()
    theirs = stream(context, node, "/events", clients, events, to_node) if node else None
    if node:
        node.request("/")
    return ours, theirs


# -- the rows -----------------------------------------------------------------------------------------------

def workspace(context):
    """A workspace as people have it: some processes, some locks."""
    root = context.work / "http"
    root.mkdir()
    subprocess.run([context.tasuki, "--root", root, "init"], cwd=root, check=True, stdout=subprocess.DEVNULL)
    for i in range(5):
        subprocess.run([context.tasuki, "--root", root, "proc", "create", f"p{i}", "--", "sleep", "1000"], cwd=root, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([context.tasuki, "--root", root, "lock", "acquire", "name", f"l{i}", "--pid", str(os.getpid())], cwd=root, check=True,
                       stdout=subprocess.DEVNULL)
    return root


def get(server, path):
    with socket.create_connection(("127.0.0.1", server.port)) as sock:
        sock.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n{server.headers}\r\n".encode())
        data = b""
        while chunk := sock.recv(65536):
            data += chunk
    return data.partition(b"\r\n\r\n")[2]


def measure(context):
    root = workspace(context)
    requests, rounds = (3000, 1) if context.quick else (40000, 5)
    clients, events = (50, 100) if context.quick else (500, 1000)
    tasuki = start_tasuki(context, root)
    servers = []
    try:
        idle_kib = memory_kib(tasuki.proc.pid)
        body = get(tasuki, "/api/status")
        nginx, node = start_nginx(context, body), start_node(context, body)
        servers = [s for s in (tasuki, nginx, node) if s]
        raw = {s.name: [] for s in servers}
        for number in range(rounds):  # in turn, so that all see the same machine
            context.say(f"http: round {number + 1} of {rounds}")
            for server in servers:
                raw[server.name].append(server.load(requests))
        tasuki.request("/api/processes/p0/logs?lines=5")
        raw["fresh"] = [tasuki.load(max(requests // 20, 100))]
        for name, path in REAL_PATHS.items():  # an answer may be used again until something changes
            tasuki.request(path)
            raw[name] = [tasuki.load(max(requests // 20, 100))]
        tasuki.request("/api/status")
        context.say("http: streams")
        ours, theirs = measure_streams(context, tasuki, node, root, clients, events)
        loaded_kib = memory_kib(tasuki.proc.pid)
    finally:
        for server in servers or [tasuki]:
            server.stop()
    cpu = {name: statistics.median(values) for name, values in raw.items()}
    raw.update(streams={"tasuki": ours, "node": theirs}, idle_kib=idle_kib, loaded_kib=loaded_kib, started_ms=tasuki.started_ms,
               body_bytes=len(body))
    return rows_of(cpu, ours, theirs, idle_kib, tasuki.started_ms, clients, events), raw


def rows_of(cpu, ours, theirs, idle_kib, started_ms, clients, events):
    def us(name):
        return f"{cpu[name]:.1f} us" if name in cpu else ""
    return [
        Row("HTTP: GET /api/status, CPU per request, beside nginx (static)", us("tasuki"), us("nginx"),
            cpu["tasuki"] / cpu["nginx"] if "nginx" in cpu else None, "at most", 3, "x"),
        Row("HTTP: the same beside node's http", us("tasuki"), us("node"), cpu["tasuki"] / cpu["node"] if "node" in cpu else None, "", None, "x"),
        Row("HTTP: an operation in a worker for each request (logs)", us("fresh")),
        *(Row(f"HTTP: GET {path}, CPU per request", us(name)) for name, path in REAL_PATHS.items()),
        Row(f"HTTP: {clients} streams, {events} events, until all have all", f"{ours['seconds']:.2f} s", f"{theirs['seconds']:.2f} s" if theirs else "",
            ours["seconds"] / theirs["seconds"] if theirs else None, "at most", 0.2, "x"),
        Row("HTTP: the same, CPU of the server", f"{ours['cpu_s']:.2f} s", f"{theirs['cpu_s']:.2f} s" if theirs else "",
            ours["cpu_s"] / theirs["cpu_s"] if theirs else None, "", None, "x"),
        Row("HTTP: memory per stream", f"{ours['kib']:.1f} KiB", f"{theirs['kib']:.1f} KiB" if theirs else "", ours["kib"], "at most", 32, "KiB"),
        Row("HTTP: memory of an idle server (RSS)", f"{idle_kib / 1024:.1f} MiB", "", idle_kib / 1024, "at most", 8, "MiB"),
        Row("HTTP: start until it listens", f"{started_ms:.1f} ms"),
    ]
