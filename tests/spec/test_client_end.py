"""Spec 4 and 8: a client of the server that goes without a word, one that says so, and forcing; waiting for a workflow."""

import os
import pathlib
import signal
import sys

HERE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE / "mcp"))
sys.path.insert(0, str(HERE / "spec"))
from agent import Agent  # noqa: E402
from common import instance_of, sleeper  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from http_common import LEASE_MS, McpClient, Server, lease_left, register, set_lease  # noqa: E402


def own(ws, *args, code=0, reason=None, **options):
    return ws.tasuki("--json", "own", *args, **options).expect(code, reason)


def tool(agent, name, **arguments):
    return agent.request("tools/call", {"name": name, "arguments": arguments})["result"]


# -- the lease ------------------------------------------------------------------------------------------------

@test("a client's lease is 2 minutes from its last call, and a restart of the server extends every lease once")
def _(ws):
    server = Server(ws)
    one = register(server)
    assert LEASE_MS <= lease_left(ws, one) <= LEASE_MS + 15000, lease_left(ws, one)
    set_lease(ws, one, 1000)
    server.post("/api/locks/name/a", one).expect(200)
    assert lease_left(ws, one) > LEASE_MS - 60000, "a call renews it"
    set_lease(ws, one, 1000)
    server.stop()
    server = Server(ws)
    assert lease_left(ws, one) > LEASE_MS - 60000, "the restart extends it"
    set_lease(ws, one, -1)
    eq(ws.tasuki("lock", "check", "name", "a", "--json").code, 6, "nobody was heard of: it is free")
    server.stop()


@test("release_all is one of the default tools, and what it could not release it does not call released")
def _(ws):
    agent = Agent(ws)
    names = [one["name"] for one in agent.request("tools/list", {})["result"]["tools"]]
    assert "release_all" in names and len(names) <= 24, names
    tool(agent, "lock_acquire", kind="name", id="a")
    tool(agent, "ul_workflow_claim", ulTaskId="w")
    answer = tool(agent, "release_all")["structuredContent"]
    eq((answer["status"], answer["locks"], answer["workflows"]), ("left", 1, 1), "what was released")
    locks, aside = ws.path / ".aiflow/locks", ws.path / "aside"
    ws.tasuki("lock", "acquire", "name", "b", "--pid", str(os.getpid()), "--instance", "me").expect(0)
    locks.rename(aside)
    locks.write_text("")  # what there is to release cannot be listed
    own(ws, "leave", "--instance", "me", code=3)
    locks.unlink()
    aside.rename(locks)
    eq(own(ws, "leave", "--instance", "me").json["locks"], 1, "the second time")


@test("the locks of an agent that has closed its connection are released one by one, each with an event")
def _(ws):
    agent = Agent(ws, "--grace", "0s")
    for kind, id in (("name", "a"), ("request", "RQ-1")):
        tool(agent, "lock_acquire", kind=kind, id=id)
    agent.close()
    ws.until(lambda: len(ws.events("lock.released")) == 2, "both are released")
    released = [(e["data"]["kind"], e["data"]["id"]) for e in ws.events("lock.released")]
    eq(sorted(released), [("name", "a"), ("request", "RQ-1")], "released")
    eq(ws.tasuki("lock", "list", "--json").expect(0).json["locks"], [], "locks")


@test("own leave names the locks that it cannot read, and releases the others")
def _(ws):
    for name in ("a", "b"):
        ws.tasuki("lock", "acquire", "name", name, "--pid", str(os.getpid()), "--instance", "me").expect(0)
    path = ws.lock_path("name", "a")
    path.unlink()
    path.mkdir()
    text = ws.tasuki("own", "leave", "--instance", "me").expect(0).out
    assert str(path) in text and "Released: 1" in text, text
    answer = own(ws, "leave", "--instance", "me").json
    eq((answer["locks"], answer["unreadable"]), (0, [str(path)]), "the second time")
    path.rmdir()
    eq(own(ws, "leave", "--instance", "me").json["unreadable"], [], "when all can be read")


# -- forcing --------------------------------------------------------------------------------------------------

@test("forcing has one code: NEEDS_CONFIRMATION, over HTTP as on the command line, for locks and workflows; confirm: true is the yes")
def _(ws):
    server = Server(ws)
    one, two = register(server), register(server)
    server.post("/api/locks/name/a", one).expect(200)
    server.post("/api/workflows/w/claim", one).expect(200)
    for path, body in (("/api/locks/name/a", {"force": True}), ("/api/locks/name/a/force", {}), ("/api/workflows/w/force-claim", {})):
        refused = server.post(path, {**two, **body}).expect(409, "NEEDS_CONFIRMATION")
        assert "confirm: true" in refused.error["message"] and one["instance"] in refused.error["message"], refused.error
        eq((refused.json["needs_confirmation"], [one for one in refused.error["next"] if "force" in one]), (True, []), "the refusal")
    for words in (("lock", "acquire", "name", "a", "--force", "--pid", str(os.getpid())), ("own", "force-claim", "w")):
        eq(ws.tasuki("--json", *words).expect(6, "NEEDS_CONFIRMATION").json["needs_confirmation"], True, str(words))
    assert "needs_confirmation" not in ws.tasuki("--json", "lock", "acquire", "name", "a").expect(4, "LOCK_HELD").json, "only a yes is missing"
    eq(server.get("/api/workflows/w").json["ownerInstanceId"], one["instance"], "nothing was changed")
    server.post("/api/locks/name/a", {**two, "force": True, "confirm": True}).expect(200)
    server.post("/api/workflows/w/force-claim", {**two, "confirm": True}).expect(200)
    server.stop()


# -- waiting for a workflow -----------------------------------------------------------------------------------

@test("wait workflow and own claim --wait end when the owner has released it, and when it has died")
def _(ws):
    for how in ("release", "death"):
        owner = sleeper(ws)
        name = instance_of(owner.pid)
        own(ws, "claim", how, "--instance", name)
        ws.tasuki("--json", "wait", "workflow", how, "--timeout", "10ms").expect(4, "CONFLICT")
        own(ws, "claim", how, "--wait", "10ms", code=4, reason="workflow_owned_by_other")
        waits, claims = ws.spawn("--json", "wait", "workflow", how), ws.spawn("--json", "own", "claim", how, "--wait", "1h", "--instance", "me")
        if how == "release":
            own(ws, "release", how, "--instance", name)
        else:
            owner.send_signal(signal.SIGKILL)
            owner.wait()
        claimed = ws.finish(claims).expect(0).json
        eq((claimed["ownerInstanceId"], claimed["fence"] > 1), ("me", True), "the claim")
        own(ws, "release", how, "--instance", "me")
        assert ws.finish(waits).expect(0).json["state"] in ("free", "stale"), "the wait"
    eq(ws.tasuki("--json", "wait", "workflow", "never-claimed").expect(0).json["state"], "free", "one that nobody owns")


@test("wait_for and ul_workflow_claim wait for a workflow over MCP and HTTP, too")
def _(ws):
    agent, server = Agent(ws), Server(ws)
    own(ws, "claim", "w", "--instance", "somebody")
    refused = tool(agent, "wait_for", kind="workflow", id="w", timeout="10ms")
    assert refused["isError"] and refused["content"][0]["text"].startswith("NOT YET"), refused
    server.get("/api/wait?kind=workflow&id=w&timeout=10ms").expect(409, "CONFLICT")
    own(ws, "release", "w", "--instance", "somebody")
    eq(tool(agent, "wait_for", kind="workflow", id="w")["structuredContent"]["state"], "free", "wait_for")
    eq(tool(agent, "ul_workflow_claim", ulTaskId="w", wait="1s")["structuredContent"]["owned"], True, "the claim")
    server.stop()


@test("the hints of an owned workflow: look (only on this host), wait, force; in that order")
def _(ws):
    owner = sleeper(ws)
    own(ws, "claim", "here", "--instance", instance_of(owner.pid))
    own(ws, "claim", "far", "--instance", "somebody")
    eq(own(ws, "claim", "here", "--instance", "me", code=4).json["error"]["next"],
       [f"ps -p {owner.pid}", "tasuki own claim here --wait 10m --instance me", "tasuki own force-claim here --instance me"], "of a living one")
    eq(own(ws, "claim", "far", "--instance", "me", code=4).json["error"]["next"],
       ["tasuki own claim far --wait 10m --instance me", "tasuki own force-claim far --instance me"], "of one that nobody can look at")


main(__name__)
