"""The MCP rows of the speed table: start to first answer, memory after load, calls a second, over stdio and HTTP."""
import http.client
import json
import pathlib
import statistics
import subprocess

from report import Row

HERE = pathlib.Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".cache" / "mcp"
IN_FLIGHT = 32
ROUNDS = 5
QUICK_TOOL = {"name": "test_simple_text"}  # answers at once, as the peer's: what the protocol itself costs
# What agents call, beside the peer's echo: each kind of call, and what it may cost beside it.
REAL_CALLS = {
    "get_process_status": [{"name": "get_process_status", "arguments": {"id": "p000"}}],
    "lock_check": [{"name": "lock_check", "arguments": {"kind": "name", "id": "a"}}],
    # So many that an acquire is answered long before its release is sent.
    "lock_acquire, lock_release": [{"name": tool, "arguments": {"kind": "name", "id": f"l{number}"}}
                                   for tool in ("lock_acquire", "lock_release") for number in range(16 * IN_FLIGHT)],
}
PROCESSES, MORE_PROCESSES, RUNS, MORE_RUNS = 100, 300, 10, 1000


def load(context, calls, params, server, cwd, in_flight=IN_FLIGHT):
    """`params`: of a call, or of several that are made in turn."""
    turns = params if isinstance(params, list) else [params]
    command = [context.driver("bench-mcp"), calls, in_flight, "\n".join(json.dumps(one) for one in turns), *server]
    done = subprocess.run([str(word) for word in command], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"bench-mcp ended with {done.returncode}: {done.stderr}")
    result = json.loads(done.stdout)
    if result["errors"]:
        raise RuntimeError(f"the server refused a call of {turns[0]['name']}")
    return result


def peer_command(context):
    """The peer, or None (said aloud) when it is not installed."""
    if not (CACHE / "installed").exists():
        context.say("the official TypeScript server is not installed (./dev bench does it with npm): skipped")
        return None
    script = context.work / "peer.mjs"
    script.write_text((HERE / "peer.mjs").read_text())
    (context.work / "node_modules").symlink_to(CACHE / "node_modules")
    return [CACHE / "node_modules" / ".bin" / "node", script]


def median(results, key):
    return statistics.median(result[key] for result in results)


def per_second(results):
    return statistics.median(result["calls"] / result["seconds"] for result in results)


# -- over HTTP ----------------------------------------------------------------------------------------------

def http_request(host, headers, body):
    data = json.dumps(body)
    lines = ["POST /mcp HTTP/1.1", f"Host: {host}", "Content-Type: application/json",
             "Accept: application/json, text/event-stream", f"Content-Length: {len(data)}",
             *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", data])


def http_session(port, headers):
    """The session id of a new session."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    accept = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json", **headers}
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "load", "version": "1"}}}
    connection.request("POST", "/mcp", json.dumps(hello), accept)
    answer = connection.getresponse()
    answer.read()
    session = answer.headers["Mcp-Session-Id"]
    connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
                       {**accept, "Mcp-Session-Id": session})
    connection.getresponse().read()
    connection.close()
    return session


def http_load(context, pid, port, headers, params, calls):
    """CPU microseconds per call."""
    session = http_session(port, headers)
    file = context.work / "call.request"
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"arguments": {}, **params}}
    file.write_text(http_request(f"127.0.0.1:{port}", {**headers, "Mcp-Session-Id": session,
                                                       "MCP-Protocol-Version": "2025-11-25"}, message), newline="")
    before = cpu_us(pid)
    done = subprocess.run([context.driver("bench-http"), "requests", str(port), "8", str(calls), str(file)], check=True,
                          stdout=subprocess.PIPE, text=True, timeout=300)
    if json.loads(done.stdout)["errors"]:
        raise RuntimeError("a server refused calls over HTTP")
    return (cpu_us(pid) - before) / calls


def cpu_us(pid):
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1000


def measure_http(context, root, has_peer, calls, rounds):
    served = subprocess.Popen([context.conformance, "--root", root, "serve", "--json", "--port", "0"],
                              stdout=subprocess.PIPE, text=True)
    port = int(json.loads(served.stdout.readline())["url"].rpartition(":")[2])
    token = (root / ".aiflow" / "server.token").read_text().strip()
    peer = None
    if has_peer:
        script = context.work / "peer_http.mjs"
        script.write_text((HERE / "peer_http.mjs").read_text())
        peer = subprocess.Popen([CACHE / "node_modules" / ".bin" / "node", script], stdout=subprocess.PIPE, text=True)
        peer_port = int(peer.stdout.readline())
    ours, theirs = [], []
    try:
        for _ in range(rounds):
            ours.append(http_load(context, served.pid, port, {"Authorization": f"Bearer {token}"}, QUICK_TOOL, calls))
            if peer:  # the SDK's server takes one initialize only: one round
                theirs.append(http_load(context, peer.pid, peer_port, {}, {"name": "echo"}, calls // 5)) if not theirs else None
    finally:
        for proc in (served, peer):
            if proc:
                proc.terminate()
                proc.wait(20)
    mine, his = statistics.median(ours), theirs[0] if theirs else None
    row = Row("MCP: CPU per call over HTTP", f"{mine:.1f} us", f"{his:.1f} us" if his else "", mine / his if his else None,
              "at most", 0.15, "x")
    return row, {"tasuki_us": ours, "peer_us": theirs}


# -- real tools ---------------------------------------------------------------------------------------------

def run_tasuki(context, root, *words):
    subprocess.run([str(word) for word in (context.tasuki, "--root", root, *words)], cwd=root, check=True, stdout=subprocess.DEVNULL)


def add_processes(context, root, first, last):
    """Processes that run: what is listed is looked at."""
    names = [f"p{number:03}" for number in range(first, last)]
    for name in names:
        run_tasuki(context, root, "proc", "create", name, "--", "sleep", "100000")
    run_tasuki(context, root, "proc", "start", *names, "--no-wait")


def add_runs(context, root, count):
    flow = root / "flow.yaml"
    flow.write_text("tasks: {a: 'true'}\n")
    for _ in range(count):
        run_tasuki(context, root, "run", flow)


def milliseconds(context, root, calls, params):
    """CPU time of the server per call, one call after the other: the time that others leave us says nothing."""
    done = load(context, calls, params, [context.tasuki, "--root", root, "mcp", "--tools", "all"], root, in_flight=1)
    return done["cpu_s"] / done["calls"] * 1000


def median_ms(context, root, calls, params, rounds):
    return statistics.median(milliseconds(context, root, calls, params) for _ in range(rounds))


def measure_lists(context, root, calls, rounds):
    """Lists and the overview, which grow with what is there."""
    listed = {"name": "list_processes", "arguments": {"limit": 1000}}
    status = {"name": "get_status", "arguments": {}}
    few = median_ms(context, root, calls, listed, rounds)
    add_runs(context, root, RUNS)
    with_few = median_ms(context, root, calls, status, rounds)
    more_runs = RUNS * 10 if context.quick else MORE_RUNS
    add_runs(context, root, more_runs - RUNS)
    with_more = median_ms(context, root, calls, status, rounds)
    more_processes = PROCESSES + 50 if context.quick else MORE_PROCESSES
    add_processes(context, root, PROCESSES, more_processes)
    many = median_ms(context, root, calls, listed, rounds)
    each, each_more = few / PROCESSES * 1000, (many - few) / (more_processes - PROCESSES) * 1000
    rows = [
        Row(f"MCP: list_processes, CPU per process ({PROCESSES})", f"{each:.1f} us", "", each, "at most", 15, "us"),
        Row(f"MCP: the same, each further one (to {more_processes})", f"{each_more:.1f} us", "", each_more, "at most", 15, "us"),
        Row(f"MCP: get_status, CPU, {PROCESSES} processes, {RUNS} runs", f"{with_few:.2f} ms", "", with_few, "at most", 2, "ms"),
        Row(f"MCP: the same, {more_runs} runs", f"{with_more:.2f} ms", f"{with_few:.2f} ms", with_more, "at most", 2, "ms"),
    ]
    return rows, {"list_ms": {PROCESSES: few, more_processes: many}, "status_ms": {RUNS: with_few, more_runs: with_more}}


def rows_of(ours, theirs):
    """Rows with a ratio to the peer, or without when there is none."""
    def ratio(of):
        return of(ours) / of(theirs) if theirs else None

    def text(of, form):
        return (form(of(ours)), form(of(theirs)) if theirs else "")
    first, memory = (lambda r: median(r, "first_ms")), (lambda r: median(r, "rss_kib"))
    milliseconds, mebibytes = (lambda v: f"{v:.1f} ms"), (lambda v: f"{v / 1024:.1f} MiB")
    return [
        Row("MCP: start to first answer", *text(first, milliseconds), ratio(first), "at most", 0.02, "x"),
        Row("MCP: memory after load", *text(memory, mebibytes), ratio(memory), "at most", 0.08, "x"),
        Row(f"MCP: calls over stdio, {IN_FLIGHT} in flight", *text(per_second, lambda v: f"{v / 1000:.1f} k/s"),
            ratio(per_second), "at least", 2, "x"),
    ]


def measure(context):
    root = context.work / "mcp"
    root.mkdir()
    run_tasuki(context, root, "init")
    add_processes(context, root, 0, PROCESSES)
    try:
        return measure_in(context, root)
    finally:
        run_tasuki(context, root, "proc", "remove", "--all", "--force")


def measure_in(context, root):
    calls, rounds = (5000, 1) if context.quick else (50000, ROUNDS)
    tasuki, peer = [context.conformance, "--root", root, "mcp"], peer_command(context)
    ours, theirs, real = [], [], {name: [] for name in REAL_CALLS}
    for number in range(rounds):  # in turn, so that both see the same machine
        context.say(f"mcp: round {number + 1} of {rounds}")
        ours.append(load(context, calls, QUICK_TOOL, tasuki, root))
        if peer:
            theirs.append(load(context, calls, {"name": "echo", "arguments": {}}, peer, root))
        for name, turns in REAL_CALLS.items():
            real[name].append(load(context, calls // 5, turns, [context.tasuki, "--root", root, "mcp", "--tools", "all"], root))
    rows = rows_of(ours, theirs)
    for name, results in real.items():
        of = per_second(results)
        rows.append(Row(f"MCP: {name}, beside the peer's echo", f"{of / 1000:.1f} k/s", f"{per_second(theirs) / 1000:.1f} k/s" if theirs else "",
                        of / per_second(theirs) if theirs else None, "at least", 0.5, "x"))
    context.say("mcp: over HTTP")
    row, over_http = measure_http(context, root, bool(peer), calls // 5, rounds)
    rows.insert(3, row)
    context.say("mcp: lists")
    more, lists = measure_lists(context, root, 200, rounds)
    return rows + more, {"ours": ours, "peer": theirs, "real": real, "http": over_http, "lists": lists}
