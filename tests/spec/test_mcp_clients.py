"""Spec 9, real clients: the official conformance suite, both generations of the official client, the Inspector; over stdio
and over HTTP. They come from npm into .cache/mcp (`./dev test` installs them)."""

import json
import pathlib
import re
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
    server = Server(ws, "--conformance", "--tools", "all")
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
    eq(call["result"]["structuredContent"], {"locks": []}, "a call over HTTP")
    server.stop()


@test("the Inspector calls tools and reads resources", quick=False)
def _(ws):
    call = inspect(ws, "--method", "tools/call", "--tool-name", "lock_list", "--tool-args-json", "{}").json
    eq(call["result"]["structuredContent"], {"locks": []}, "a call")
    text = inspect(ws, "--method", "resources/read", "--uri", "tasuki://status").json["result"]["contents"][0]["text"]
    eq(json.loads(text)["root"], str(ws.path), "a resource")
    inspect(ws, "--method", "tools/call", "--tool-name", "get_process_status", "--tool-args-json", '{"id": "absent"}', code=5)


main(__name__)
