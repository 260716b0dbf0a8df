"""Spec 8, MCP: both eras of the protocol, and frames that are none."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import META, MODERN, Agent  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402


def code(answer):
    assert "error" in answer, f"no error: {answer}"
    return answer["error"]["code"]


def modern_params(version=MODERN, **meta):
    return {"_meta": {META + "protocolVersion": version, META + "clientCapabilities": {}, **meta}}


# -- legacy -------------------------------------------------------------------------------------------------

@test("initialize echoes each version that it knows, and offers its newest for any other")
def _(ws):
    for asked, given in {"2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
                         "2024-11-05": "2025-11-25", "2026-07-28": "2025-11-25", "x": "2025-11-25"}.items():
        agent = Agent(ws, initialize=False)
        answer = agent.request("initialize", {"protocolVersion": asked, "capabilities": {}})["result"]
        eq(answer["protocolVersion"], given, f"the answer to {asked}")
        eq(answer["serverInfo"]["name"], "tasuki", "the server's name")
        assert 0 < len(answer["instructions"]) <= 600, len(answer["instructions"])
        assert {"tools", "resources", "prompts", "completions"} <= set(answer["capabilities"]), answer
        agent.close()


@test("a request before initialize says what to send first")
def _(ws):
    agent = Agent(ws, initialize=False)
    answer = agent.request("tools/list")
    eq(code(answer), -32602)
    assert "initialize" in answer["error"]["message"], answer
    eq(agent.request("ping")["result"], {}, "ping")
    eq(code(agent.request("initialize", {})), -32602, "without a version")


@test("a second initialize is refused and changes nothing")
def _(ws):
    agent = Agent(ws)
    eq(code(agent.request("initialize", {"protocolVersion": "2025-03-26", "capabilities": {}})), -32600)
    assert agent.request("tools/list")["result"]["tools"]


@test("methods of the other era do not exist")
def _(ws):
    agent = Agent(ws)
    for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe",
                   "tasks/list", "tasks/result", "nonsense"):
        eq(code(agent.request(method, modern=True)), -32601, method)
    eq(code(agent.request("nonsense")), -32601, "an unknown method, legacy")
    eq(code(agent.request("server/discover")), -32602, "a modern method without _meta")


# -- modern -------------------------------------------------------------------------------------------------

@test("server/discover says versions, capabilities and instructions without a handshake")
def _(ws):
    agent = Agent(ws, initialize=False)
    result = agent.request("server/discover", modern=True)["result"]
    eq(result["supportedVersions"], [MODERN], "versions")
    eq(result["resultType"], "complete", "resultType")
    assert {"ttlMs", "cacheScope", "instructions"} <= set(result), result
    assert META + "tasks" in result["capabilities"]["extensions"], result
    eq(result["_meta"][META + "serverInfo"]["name"], "tasuki", "serverInfo")


@test("a modern request must say its version and its capabilities, and nothing else")
def _(ws):
    agent = Agent(ws, initialize=False)
    eq(code(agent.request("tools/list", {"_meta": {META + "protocolVersion": MODERN}})), -32602, "no capabilities")
    eq(code(agent.request("tools/list", {"_meta": {META + "clientCapabilities": {}}})), -32602, "no version")
    answer = agent.request("tools/list", modern_params("2099-01-01"))
    eq(code(answer), -32022, "another version")
    eq(answer["error"]["data"], {"supported": [MODERN], "requested": "2099-01-01"}, "data")
    assert agent.request("tools/list", modern_params())["result"]["tools"]


@test("every modern result has its type, lists and contents have hints for caching, legacy ones do not")
def _(ws):
    agent = Agent(ws)
    for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list"):
        result = agent.request(method, modern=True)["result"]
        eq((result["resultType"], result["cacheScope"]), ("complete", "private"), method)
        assert not {"resultType", "ttlMs"} & set(agent.request(method)["result"]), method
    read = agent.request("resources/read", {"uri": "tasuki://locks"}, modern=True)["result"]
    assert {"ttlMs", "cacheScope", "resultType"} <= set(read), read
    eq(agent.call("lock_list", modern=True)["resultType"], "complete", "of a call")


# -- frames -------------------------------------------------------------------------------------------------

@test("what is no message is refused by its code, and the next one is served")
def _(ws):
    agent = Agent(ws)
    deep = b"[" * 100000 + b"]" * 100000
    for frame, wanted in ((b"{", -32700), (b"nonsense", -32700), (b'{"a":"\xff"}', -32700), (deep, -32700),
                          (b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}', -32700), (b"[]", -32600), (b"7", -32700),
                          (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32700), (b'"ping"', -32700),
                          (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
                          (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
                          (b'{"jsonrpc":"1.0","id":"x","method":"ping"}', -32600),
                          (b'{"jsonrpc":"2.0","id":"x","method":5}', -32600),
                          (b'{"jsonrpc":"2.0","id":"x","params":{}}', -32600),
                          (b'[{"jsonrpc":"2.0","id":"x","method":"ping"}]', -32600)):
        agent._answers.clear()
        agent.send_raw(frame + b"\n")
        got = ws.until(agent.answers, f"an answer to {frame[:60]}")
        eq(code(got[0]), wanted, f"the answer to {frame[:60]}")
    eq(agent.request("ping")["result"], {}, "ping")


@test("params that are no object, and arguments that are none, are refused")
def _(ws):
    agent = Agent(ws)
    agent.send({"jsonrpc": "2.0", "id": "p", "method": "tools/list", "params": [1]})
    eq(code(agent.answer("p")), -32602)
    eq(code(agent.request("tools/call", {"name": "lock_list", "arguments": [1]})), -32602)
    eq(code(agent.request("tools/call", {"name": "absent"})), -32602, "an unknown tool")
    eq(code(agent.request("tools/call", {})), -32602, "no tool")


@test("ids come back as they were sent, and a notification has no answer")
def _(ws):
    agent = Agent(ws)
    for number in ("a b", "", 0, -5, 2**53):
        agent.send({"jsonrpc": "2.0", "id": number, "method": "ping"})
        eq(agent.answer(number)["id"], number, "id")
    agent._answers.clear()
    agent.notify("notifications/nonsense")
    agent.notify("notifications/cancelled", {"requestId": 99})
    for of_ours in ({}, {"id": None}, {"id": 77}):  # nor has an error: two that answer each other's would never end
        agent.send({"jsonrpc": "2.0", **of_ours, "error": {"code": -32700, "message": "what?"}})
    agent.request("ping")
    eq(len(agent._answers), 1, "answers")


@test("a line over 4 MiB is refused once, and the next one is served")
def _(ws):
    agent = Agent(ws)
    agent.send_raw(b'{"jsonrpc":"2.0","id":"big","method":"')
    for _ in range(80):
        agent.send_raw(b"x" * 65536)
    agent.send_raw(b'"}\n')
    eq(agent.request("ping")["result"], {}, "ping")
    eq([code(a) for a in agent._answers[None]], [-32700], "the refusals")


@test("frames may come in pieces, with CRLF, several at once, with empty lines between, and a byte order mark before the first")
def _(ws):
    agent = Agent(ws)
    frames = [json.dumps({"jsonrpc": "2.0", "id": f"r{i}", "method": "ping"}).encode() for i in range(50)]
    data = b"\xef\xbb\xbf" + b"\r\n\n".join(frames) + b"\n"
    for at in range(0, len(data), 7):
        agent.send_raw(data[at:at + 7])
    for i in range(50):
        eq(agent.answer(f"r{i}")["result"], {}, f"answer {i}")


@test("lists are given page by page, each entry once, and a wrong cursor is refused")
def _(ws):
    agent = Agent(ws, command=[ws.build / "tests" / "mcp" / "tasuki-conformance", "mcp", "--tools", "all"])
    names, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        result = agent.request("tools/list", {"cursor": cursor} if cursor else {})["result"]
        names += [tool["name"] for tool in result["tools"]]
        cursor, pages = result.get("nextCursor"), pages + 1
    assert pages > 1, "there is one page only"
    eq(len(names), len(set(names)), "names")
    for wrong in ("-1", "x", "99999", "1x", " 5", "+3", "", 5):
        eq(code(agent.request("tools/list", {"cursor": wrong})), -32602, f"the cursor {wrong!r}")


@test("a long message of an error is cut between two characters", init=False)
def _(ws):
    place = ws.path
    for _ in range(7):
        place = place / ("深" * 60)
        place.mkdir()
    message = Agent(ws, cwd=place).request("resources/read", {"uri": "tasuki://status"})["error"]["message"]
    assert "深" * 60 in message and len(message.encode()) > 900, message


main(__name__)
