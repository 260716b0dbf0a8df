"""The MCP rows of the speed table: start to first answer, memory after load, calls a second, over stdio."""
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
REAL_TOOLS = [{"name": "lock_check", "arguments": {"kind": "name", "id": "a"}}, {"name": "get_status", "arguments": {}}]


def load(context, calls, params, server, cwd):
    command = [context.driver("bench-mcp"), calls, IN_FLIGHT, json.dumps(params), *server]
    done = subprocess.run([str(word) for word in command], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"bench-mcp ended with {done.returncode}: {done.stderr}")
    result = json.loads(done.stdout)
    if result["errors"]:
        raise RuntimeError(f"the server refused {params}")
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
    subprocess.run([context.tasuki, "init"], cwd=root, check=True, stdout=subprocess.DEVNULL)
    calls, rounds = (5000, 1) if context.quick else (50000, ROUNDS)
    tasuki, peer = [context.tasuki, "mcp", "--conformance"], peer_command(context)
    ours, theirs, real = [], [], {tool["name"]: [] for tool in REAL_TOOLS}
    for number in range(rounds):  # in turn, so that both see the same machine
        context.say(f"mcp: round {number + 1} of {rounds}")
        ours.append(load(context, calls, QUICK_TOOL, tasuki, root))
        if peer:
            theirs.append(load(context, calls, {"name": "echo", "arguments": {}}, peer, root))
        for tool in REAL_TOOLS:
            real[tool["name"]].append(load(context, calls // 10, tool, [context.tasuki, "mcp", "--tools", "all"], root))
    rows = rows_of(ours, theirs)
    for name, results in real.items():
        rows.append(Row(f"MCP: {name}, {IN_FLIGHT} in flight", f"{per_second(results) / 1000:.1f} k/s"))
    return rows, {"ours": ours, "peer": theirs, "real": real}
