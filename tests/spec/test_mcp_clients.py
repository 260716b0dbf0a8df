"""Spec 9, real clients: the official conformance suite, both generations of the official client, the Inspector; over stdio
and over HTTP. They come from npm into .cache/mcp (`./dev test` installs them)."""

import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parents[1]
CACHE = HERE.parent / ".cache" / "mcp"
sys.path.insert(0, str(HERE / "mcp"))
from common import sleeper  # noqa: E402
from harness.harness import Skip, eq, main, test  # noqa: E402
from http_common import Server  # noqa: E402

SCORED = {"2025-11-25": 30, "2026-07-28": 37}
UNSCORED = {"2025-11-25": 3, "2026-07-28": 13}


def npm_env(ws):
    modules = CACHE / "node_modules"
    if not (CACHE / "installed").exists():
        raise Skip("the MCP clients are not installed; ./dev test does it where npm can be reached")
    return {"PATH": f"{modules / '.bin'}:{ws.env()['PATH']}"}


# -- the conformance suite ----------------------------------------------------------------------------------

def conformance(ws, version):
    """The suite speaks HTTP only, and has no token: tests/mcp/token.mjs adds it."""
    env = npm_env(ws)
    server = Server(ws, "--tools", "all", binary=ws.build / "tests" / "mcp" / "tasuki-conformance")
    env.update(NODE_OPTIONS=f"--import {HERE / 'mcp' / 'token.mjs'}", TASUKI_TOKEN=server.token,
               TASUKI_MODULES=f"{CACHE / 'node_modules'}/")
    result = ws.run(["conformance", "server", "--url", f"{server.url}/mcp", "--requirements", version], env=env, timeout=240)
    server.stop()
    verdicts = re.findall(r"^(\S) (\S+): \d+ passed, \d+ failed", result.out, re.MULTILINE)
    eq([name for mark, name in verdicts if mark != "✓"], [], f"what fails of {version}")
    eq(len(verdicts), SCORED[version] + UNSCORED[version], f"scenarios of {version}")
    result.expect(0)


for version in SCORED:
    test(f"the official suite passes every scenario for {version}, scored and unscored", quick=False, deadline=300)(
        lambda ws, version=version: conformance(ws, version))


# -- the official clients -----------------------------------------------------------------------------------

def clients(ws, mode, wanted, is_http):
    env = npm_env(ws)
    server = Server(ws) if is_http else None
    where = [f"{server.url}/mcp", server.token] if server else [ws.binary, "mcp", "--grace", "0s"]
    (ws.path / "node_modules").symlink_to(CACHE / "node_modules")
    (ws.path / "clients.mjs").write_text((HERE / "mcp" / "clients.mjs").read_text())
    holder = sleeper(ws)
    ws.tasuki("lock", "acquire", "name", "held", "--pid", holder.pid).expect(0)
    seen = ws.run(["node", "clients.mjs", mode, *where], env=env, timeout=60).expect(0).json
    if seen["version"]:
        eq(seen["version"], wanted, "the version")
    assert 0 < seen["instructions"] <= 600 and "get_status" in seen["tools"] and "start_work" in seen["prompts"], seen
    eq((seen["status"]["isError"], seen["status"]["structure"]["root"]), (False, str(ws.path)), "get_status")
    eq(seen["acquired"]["structure"]["status"], "acquired", "the lock")
    eq(seen["refused"]["isError"], True, "the refusal")
    assert seen["refused"]["text"].startswith("NOT ACQUIRED: ") and str(holder.pid) in seen["refused"]["text"], seen
    eq(seen["refused"]["structure"]["error"]["reason_code"], "LOCK_HELD", "its code")
    eq((seen["forced"]["isError"], seen["asked"]), (False, 1), "after a yes")
    eq(seen["forced"]["structure"]["forced"]["pid"], holder.pid, "from whom")
    eq((seen["locks"], seen["prompt"], seen["released"]["structure"]["existed"]), (2, 2, True), "the rest")
    eq(ws.tasuki("lock", "list", "--json").json["locks"], [], "what is locked after its end")
    if server:
        eq(list((ws.path / ".aiflow").glob("mcp/session.*")), [], "what is left of its session")
        server.stop()


for mode, wanted in {"v1": "2025-11-25", "v2-legacy": "2025-11-25", "v2-auto": "2026-07-28",
                     "v2-modern": "2026-07-28"}.items():
    for is_http in (False, True):
        test(f"the official client {mode} over {'HTTP' if is_http else 'stdio'} connects, works, is refused and asked, and "
             "leaves nothing", quick=False)(
            lambda ws, mode=mode, wanted=wanted, is_http=is_http: clients(ws, mode, wanted, is_http))


# -- two of them --------------------------------------------------------------------------------------------

class Rival:
    """An agent with the official client, in a process of its own."""

    def __init__(self, ws):
        env = npm_env(ws)
        if not (ws.path / "rival.mjs").exists():
            (ws.path / "node_modules").symlink_to(CACHE / "node_modules")
            (ws.path / "rival.mjs").write_text((HERE / "mcp" / "rival.mjs").read_text())
        self.proc = ws.spawn_command(["node", "rival.mjs", ws.binary, "mcp", "--tools", "all", "--grace", "0s"], env=env,
                                     stdin=subprocess.PIPE)
        eq(json.loads(self.proc.stdout.readline()), {"ready": True}, "connected")

    def begin(self, tool, **arguments):
        self.proc.stdin.write(json.dumps({"tool": tool, "arguments": arguments}) + "\n")
        self.proc.stdin.flush()

    def result(self):
        return json.loads(self.proc.stdout.readline())

    def call(self, tool, **arguments):
        self.begin(tool, **arguments)
        return self.result()

    def kill(self):
        self.proc.kill()
        self.proc.wait()

    def leave(self):
        self.proc.stdin.close()
        eq(self.proc.wait(60), 0, "its exit code")


def compete(ws, tool, **arguments):
    """Two agents, the same call at once: (the one that got it, the other one, what the other was told)."""
    rivals = [Rival(ws), Rival(ws)]
    for rival in rivals:
        rival.begin(tool, **arguments)
    results = [rival.result() for rival in rivals]
    eq(sorted(result["isError"] for result in results), [False, True], f"who got it: {results}")
    loser = 1 if results[1]["isError"] else 0
    return rivals[1 - loser], rivals[loser], results[loser]


@test("two official clients compete for a lock: one gets it, the other is told what to do and takes over when the first is killed", quick=False)
def _(ws):
    winner, loser, refusal = compete(ws, "lock_acquire", kind="name", id="deploy")
    assert refusal["text"].startswith("NOT ACQUIRED: ") and refusal["structure"]["error"]["next"], refusal
    loser.begin("lock_acquire", kind="name", id="deploy", wait="30s")
    winner.kill()
    eq(loser.result()["structure"]["status"], "acquired", "when the first is dead")
    loser.leave()


@test("two official clients compete for a workflow: one owns it, the other is told so and takes over when the first is killed", quick=False)
def _(ws):
    winner, loser, refusal = compete(ws, "ul_workflow_claim", ulTaskId="UL-1")
    eq(refusal["structure"]["error"]["reason_code"], "workflow_owned_by_other", "the refusal")
    winner.kill()
    ws.until(lambda: not loser.call("ul_workflow_claim", ulTaskId="UL-1")["isError"], "it is claimed")
    loser.leave()


@test("two official clients compete for a process: one starts it, it runs once, and outlives both", quick=False)
def _(ws):
    ws.tasuki("proc", "create", "web", "--", "sleep", "1000").expect(0)
    winner, loser, refusal = compete(ws, "start_process", id="web")
    eq(refusal["structure"]["error"]["reason_code"], "ProcessAlreadyRunning", "the refusal")
    pid = loser.call("get_process_status", id="web")["structure"]["pid"]
    winner.kill()
    eq(loser.call("get_process_status", id="web")["structure"]["pid"], pid, "after the first one's death")
    eq(loser.call("restart_process", id="web")["isError"], False, "the other takes over")
    loser.leave()
    eq(ws.tasuki("proc", "status", "web", "--json").json["state_name"], "Running", "after both")
    ws.tasuki("proc", "stop", "web").expect(0)


# -- the Inspector ------------------------------------------------------------------------------------------

def inspect(ws, *args, code=0, server=None):
    where = [f"{server.url}/mcp", "--transport", "http", "--header", f"Authorization: Bearer {server.token}"] if server else []
    command = [] if server else [ws.binary, "mcp", "--tools", "all"]
    result = ws.run(["mcp-inspector", "--cli", *where, *args, "--format", "json", "-q", *command], env=npm_env(ws), timeout=60)
    return result.expect(code)


@test("the Inspector finds nothing to complain about in the schemas, in both eras, over stdio and HTTP", quick=False)
def _(ws):
    npm_env(ws)
    server = Server(ws, "--tools", "all")
    for era in ("legacy", "modern"):
        for where in (None, server):
            result = inspect(ws, "--protocol-era", era, "--method", "tools/list", "--strict", server=where)
            assert len(result.json["result"]["tools"]) > 20, result
            assert "Warning" not in result.err and "Error" not in result.err, result.err
    call = inspect(ws, "--method", "tools/call", "--tool-name", "lock_list", "--tool-args-json", "{}", server=server).json
    eq(call["result"]["structuredContent"]["locks"], [], "a call over HTTP")
    server.stop()


@test("the Inspector calls tools and reads resources", quick=False)
def _(ws):
    call = inspect(ws, "--method", "tools/call", "--tool-name", "lock_list", "--tool-args-json", "{}").json
    eq(call["result"]["structuredContent"]["locks"], [], "a call")
    text = inspect(ws, "--method", "resources/read", "--uri", "tasuki://status").json["result"]["contents"][0]["text"]
    eq(json.loads(text)["root"], str(ws.path), "a resource")
    inspect(ws, "--method", "tools/call", "--tool-name", "get_process_status", "--tool-args-json", '{"id": "absent"}', code=5)


main(__name__)
