"""Spec 8, MCP: the rows of the operation table as tools."""

import json
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import Agent  # noqa: E402
from common import sleeper  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402

TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict, "number": (int, float)}


def operations(ws):
    return ws.tasuki("help", "--json").expect(0).json["operations"]


def tools_of(agent):
    tools, cursor = {}, None
    while True:
        result = agent.request("tools/list", {"cursor": cursor} if cursor else {})["result"]
        tools.update({tool["name"]: tool for tool in result["tools"]})
        cursor = result.get("nextCursor")
        if not cursor:
            return tools


# -- the list -----------------------------------------------------------------------------------------------

def configure_agent(ws):
    """There are tools that are offered only when there is an agent."""
    (ws.path / ".aiflow/config.yaml").write_text('agents: {a: {run: [x, "{task}"]}}\n')


@test("every row of the table is a tool, or says why it is none")
def _(ws):
    configure_agent(ws)
    tools = tools_of(Agent(ws, "--tools", "all"))
    rows = {row["mcp"]["tool"]: row for row in operations(ws) if row["mcp"].get("tool")}
    eq(sorted(tools), sorted(rows), "the tools")
    for row in operations(ws):
        assert row["mcp"].get("tool") or row["mcp"].get("absent"), row["name"]


@test("a tool's schema has the row's parameters, but those of the command line and of the caller")
def _(ws):
    configure_agent(ws)
    tools = tools_of(Agent(ws, "--tools", "all"))
    for row in operations(ws):
        if not row["mcp"].get("tool"):
            continue
        schema = tools[row["mcp"]["tool"]]["inputSchema"]
        eq((schema["type"], schema.get("additionalProperties", True)), ("object", "properties" in schema), row["name"])
        shown = set(schema.get("properties", {})) - {"confirm", "confirm_token"}
        assert shown <= {p["name"] for p in row["params"]}, (row["name"], shown)
        for param in row["params"]:
            if param.get("required") and param["name"] in shown:
                assert param["name"] in schema["required"], (row["name"], param)
        assert not shown & {"follow", "instance", "pid"}, (row["name"], shown)
        text = tools[row["mcp"]["tool"]]["description"]
        elsewhere = "without a description" in text or text.startswith("As ")
        for name, value in schema.get("properties", {}).items():
            is_plain = name in ("note", "no_wait", "kind", "session", "run", "confirm", "confirm_token")  # the name says it
            assert value["type"] in TYPES and (value.get("description") or elsewhere or is_plain), (row["name"], name)


@test("the working set has at most 24 tools in at most 24,000 bytes, 30 in 24 KiB with delegation, and is the default")
def _(ws):
    tools = tools_of(Agent(ws))
    eq(sorted(tools), sorted(tools_of(Agent(ws, "--tools", "core"))), "the default")
    size = len(json.dumps(list(tools.values())))  # with spaces: whoever counts, it is not more
    assert len(tools) <= 24 and size <= 24000, (len(tools), size)
    configure_agent(ws)
    more = [json.dumps(tool, separators=(",", ":"), ensure_ascii=False) for tool in tools_of(Agent(ws)).values()]
    assert len(tools) < len(more) <= 30 and len(",".join(more).encode()) <= 24 << 10, (len(more), len(",".join(more).encode()))
    assert {"get_status", "lock_acquire", "lock_release", "lock_list", "wait_for", "create_process", "start_process",
            "stop_process", "get_process_status", "get_process_output", "list_processes", "remove_process",
            "update_process", "restart_process"} <= set(tools), sorted(tools)


@test("groups can be chosen; a word that is none is refused, and said which there are")
def _(ws):
    tools = tools_of(Agent(ws, "--tools", "locks,workspace"))
    assert {"lock_check", "sprint_check", "get_status"} <= set(tools) and "start_process" not in tools, sorted(tools)
    result = ws.tasuki("mcp", "--tools", "locks,nonsense", "--json").expect(2, "INVALID_INPUT")
    assert "nonsense" in result.error["message"] and "processes" in result.error["message"], result.error
    ws.tasuki("mcp", "--tools", "", "--json").expect(2, "INVALID_INPUT")
    groups = {one["mcp"]["group"] for one in operations(ws) if one["mcp"].get("group")}
    shown = ws.tasuki("mcp", "--help").expect(0).out.partition("groups with commas")[2]
    eq(sorted(re.findall(r"\w+", shown[shown.index("(") + 1:shown.index(")")])), sorted(groups), "the groups that the help names")


@test("instructions and prompts send nobody to a tool that is not offered")
def _(ws):
    agent = Agent(ws, "--tools", "processes")
    assert "create_process" in agent.hello["instructions"] and len(agent.hello["instructions"]) <= 600, agent.hello
    for tool in ("get_status", "lock_acquire", "wait_for"):
        assert tool not in agent.hello["instructions"], tool
    eq([p["name"] for p in agent.request("prompts/list")["result"]["prompts"]], ["debug_failed_process"], "the prompts")
    assert len(Agent(ws).hello["instructions"]) <= 600


@test("tasuki has none of the conformance suite's fixtures")
def _(ws):
    for args in ((), ("--tools", "all")):
        agent = Agent(ws, *args)
        assert not [name for name in tools_of(agent) if name.startswith("test_")], args
        eq(agent.request("resources/read", {"uri": "test://static-text"})["error"]["code"], -32002)
        eq(agent.request("prompts/get", {"name": "test_simple_prompt"})["error"]["code"], -32602)


@test("what a result calls run_id, request_id or id may be handed back under that name")
def _(ws):
    agent = Agent(ws, "--tools", "all")
    request = agent.ok("request_add", title="t", run=["true"])["id"]
    run = agent.ok("request_run", request_id=request)["run_id"]
    for arguments in ({"run": run}, {"run_id": run}, {"id": run}, {"id": run, "run": run}):
        eq(agent.ok("run_show", **arguments)["run_id"], run, arguments)
    eq(agent.ok("request_show", id=request)["id"], request, "a request by id")
    eq(agent.ok("run_list", request_id=request)["runs"][0]["run_id"], run, "a filter")
    for tool, arguments in (("run_show", {"id": "RUN-x", "run": run}), ("run_show", {"name": run}), ("run_list", {"id": request})):
        assert "has no parameter" in agent.call(tool, **arguments)["structuredContent"]["error"]["message"], arguments


@test("a number or a truth value in a map is the text that a command line would have")
def _(ws):
    agent = Agent(ws)
    (ws.path / "f.yaml").write_text("tasks: {a: 'true'}\n")
    run = agent.ok("flow_run", flow="f.yaml", set={"n": 1, "yes": True, "half": 0.5, "s": "x"})
    eq(run["channel"], {"n": 1, "yes": True, "half": 0.5, "s": "x"}, "the channel")
    eq(agent.ok("create_process", id="p", command="true", env={"PORT": 8080})["env"], {"PORT": "8080"}, "the environment")
    agent.refused("flow_run", flow="f.yaml", set={"n": [1]})


@test("annotations say what only reads, what destroys, what may be repeated")
def _(ws):
    tools = tools_of(Agent(ws, "--tools", "all"))
    for name, hints in {"lock_list": {"readOnlyHint": True}, "stop_process": {"destructiveHint": True},
                        "lock_release": {"destructiveHint": False, "idempotentHint": True},
                        "lock_acquire": {"destructiveHint": True}, "flow_run": {"destructiveHint": True},
                        "create_process": {"destructiveHint": False}}.items():
        eq(tools[name]["annotations"], hints, name)


@test("a default that a schema names is what the operation takes without it")
def _(ws):
    tools = tools_of(Agent(ws, "--tools", "all"))
    for name in ("stop_process", "restart_process"):
        eq(tools[name]["inputSchema"]["properties"]["grace_period_ms"].get("default"), 3000, name)
    eq(tools["create_process"]["inputSchema"]["properties"]["backoff_ms"].get("default"), 1000, "1s")
    for name in ("update_template", "create_process_from_template", "update_process"):
        for param, schema in tools[name]["inputSchema"]["properties"].items():
            assert "default" not in schema, (name, param, "what is not named stays")


@test("a description says first what the tool does, and never names an option of the command line")
def _(ws):
    configure_agent(ws)
    for name, tool in tools_of(Agent(ws, "--tools", "all")).items():
        first = tool["description"].split(".")[0]
        assert 10 < len(first) < 200, (name, tool["description"])
        for schema in (tool, *tool["inputSchema"].get("properties", {}).values()):
            text = schema.get("description", "")
            assert "--" not in text and "may be repeated" not in text and "`tasuki" not in text, (name, text)


# -- results ------------------------------------------------------------------------------------------------

def without_time(value):
    """What does not change from one moment to the next."""
    if isinstance(value, dict):
        return {key: without_time(item) for key, item in value.items() if key not in ("time", "age_ms", "expires_in_ms")}
    return [without_time(item) for item in value] if isinstance(value, list) else value


@test("a result is the JSON of the command line, as text and as structure, of the types the schema says")
def _(ws):
    ws.tasuki("proc", "create", "web", "--", "sleep", "1000").expect(0)
    ws.tasuki("lock", "acquire", "name", "a", "--pid", os.getpid()).expect(0)
    agent = Agent(ws, "--tools", "all")
    tools = tools_of(agent)
    for tool, arguments, command in (("get_status", {}, ["status"]), ("lock_list", {}, ["lock", "list"]),
                                     ("lock_check", {"kind": "name", "id": "a"}, ["lock", "check", "name", "a"]),
                                     ("list_processes", {}, ["proc", "list"]),
                                     ("get_process_status", {"id": "web"}, ["proc", "status", "web"]),
                                     ("get_process_output", {"id": "web"}, ["proc", "logs", "web"]),
                                     ("list_templates", {}, ["proc", "template", "list"]),
                                     ("sprint_check", {}, ["sprint", "check"]),
                                     ("events", {"limit": 3}, ["events", "-n", "3"])):
        result = agent.call(tool, **arguments)
        assert not result.get("isError"), result
        structure = result["structuredContent"]
        eq(without_time(structure), without_time(ws.tasuki("--json", *command).json), tool)
        eq(json.loads(result["content"][0]["text"]), structure, f"the text of {tool}")
        for key, schema in tools[tool]["outputSchema"]["properties"].items():
            if key in structure:
                assert isinstance(structure[key], TYPES[schema["type"]]), (tool, key, structure[key])


@test("a refusal has the reason code of the command line, and its text begins with the verdict")
def _(ws):
    holder = sleeper(ws)
    ws.tasuki("lock", "acquire", "name", "a", "--pid", holder.pid).expect(0)
    ws.tasuki("proc", "create", "web", "--", "sleep", "1000").expect(0)
    agent = Agent(ws, "--tools", "all")
    for verdict, tool, arguments, command in (
            ("NOT ACQUIRED", "lock_acquire", {"kind": "name", "id": "a"}, ["lock", "acquire", "name", "a"]),
            ("NOT RELEASED", "lock_release", {"kind": "name", "id": "a"}, ["lock", "release", "name", "a"]),
            ("NOT CREATED", "create_process", {"id": "web", "command": "x"}, ["proc", "create", "web", "--", "x"]),
            ("NOT STOPPED", "stop_process", {"id": "web"}, ["proc", "stop", "web"]),
            ("NOT STARTED", "start_process", {"id": "wep"}, ["proc", "start", "wep"]),
            ("NOT FOUND", "get_process_status", {"id": "wep"}, ["proc", "status", "wep"]),
            ("FAILED", "wait_for", {"kind": "process", "id": "web"}, ["wait", "process", "web"]),
            ("NOT FOUND", "wait_for", {"kind": "process", "id": "wep"}, ["wait", "process", "wep"]),
            ("INVALID INPUT", "lock_acquire", {"kind": "nome", "id": "a"}, ["lock", "acquire", "nome", "a"])):
        text, error = agent.refused(tool, **arguments)
        shown = ws.tasuki("--json", *command).error
        eq(error["reason_code"], shown["reason_code"], f"the code of {tool}")
        assert text.startswith(verdict + ": ") and error["reason_code"] in text, text
        eq(error["message"], shown["message"], f"the message of {tool}")
    text, error = agent.refused("lock_acquire", kind="name", id="a")
    assert str(holder.pid) in text and error["context"]["holder"]["pid"] == holder.pid, (text, error)
    assert "Next: tasuki lock acquire" in text and "(lock_acquire)" in text, text


@test("a refused lock begins with who holds it, whatever its kind; commands with --root name their tools, too")
def _(ws):
    holder = sleeper(ws)
    agent = Agent(ws, command=[ws.binary, "--root", str(ws.path), "mcp"])
    for kind in ({"kind": "name", "id": "a"}, {"kind": "request", "id": "RQ-1"}, {"kind": "queue"},
                 {"kind": "sprint", "session": "s", "epic": "e"}):
        options = [word for key in ("session", "epic") if key in kind for word in ("--" + key, kind[key])]
        ws.tasuki("lock", "acquire", kind["kind"], *([kind["id"]] if "id" in kind else []), *options, "--pid", holder.pid).expect(0)
        text, error = agent.refused("lock_acquire", **kind)
        assert text.startswith("NOT ACQUIRED: held by test") and f", pid {holder.pid}, " in text and error["message"] in text, text
        assert " (alive: process exists) since " in text, text
        if kind["kind"] != "sprint":  # whose commands are of tools that are not in the working set
            assert "--wait 30m (lock_acquire)" in text, text


@test("an answer that is no success is a refusal where something was asked for, and none where it was only looked")
def _(ws):
    holder = sleeper(ws)
    ws.tasuki("sprint", "acquire", "--session", "s", "--epic", "e", "--pid", holder.pid).expect(0)
    agent = Agent(ws, "--tools", "all")
    result = agent.call("sprint_check")
    assert not result.get("isError"), result
    eq(result["_meta"]["tasuki/reasonCode"], "SPRINT_BLOCKED", "the verdict")
    result = agent.call("sprint_acquire", session="t", epic="e")
    eq((result["isError"], result["structuredContent"]["status"]), (True, "blocked"))
    assert result["content"][0]["text"].startswith("NOT ACQUIRED: Sprint already running"), result


@test("a look that could not be taken is a refusal, too")
def _(ws):
    text, _ = Agent(ws, "--tools", "all").refused("sprint_check", project_root="/nonexistent")
    assert text.startswith("INVALID INPUT: "), text


@test("a run that failed says in its text which task, why, and how to go on")
def _(ws):
    (ws.path / "f.yaml").write_text("flow: a\ntasks:\n  a: {run: [sh, -c, 'exit 3']}\n")
    result = Agent(ws, "--tools", "all").call("flow_run", flow="f.yaml")
    first = result["content"][0]["text"].split("\n{")[0]
    assert result["isError"] and first.startswith("NOT DONE: a: "), first
    assert "(TASK_FAILED)" in first and "(run_logs)" in first and "(run_resume)" in first, first


@test("an answer that cannot be shown is an error, not an empty success", init=False)
def _(ws):
    place = os.fsencode(ws.path) + b"/x\xff"
    os.mkdir(place)
    ws.run([ws.binary, "init"], cwd=place).expect(0)
    agent = Agent(ws, cwd=place)
    for tool, arguments in (("get_status", {}), ("lock_acquire", {"kind": "name", "id": "a"})):
        result = agent.call(tool, **arguments)
        assert result.get("isError") or result["structuredContent"], (tool, result)
    eq((result["structuredContent"]["error"]["reason_code"], result["structuredContent"]["error"]["context"]), ("INTERNAL", {"tool": "lock_acquire"}), "what was done")
    assert "'lock_acquire' was performed" in result["content"][0]["text"], result


@test("bad arguments are refusals that a model can read, not protocol errors")
def _(ws):
    agent = Agent(ws, "--tools", "all")
    for tool, arguments, word in (("lock_acquire", {}, "kind"), ("lock_acquire", {"kind": "name", "id": "a", "x": 1}, "x"),
                                  ("lock_acquire", {"kind": "request", "id": "../a"}, "../a"),
                                  ("create_process", {"id": "a b", "command": "x"}, "a b"),
                                  ("get_process_output", {"id": "a", "lines": "many"}, "lines: 'many' is not a whole number"),
                                  ("get_process_output", {"id": "a", "lines": 1.5}, "lines: '1.5' is not a whole number"),
                                  ("get_process_output", {"id": "a", "lines": 10**18}, "1000000000000000000 is out of range"),
                                  ("wait_for", {"kind": "lock", "id": "a", "timeout": [1]}, "timeout: '[1]' is not a duration"),
                                  ("wait_for", {"kind": "lock", "id": "a", "timeout": 2**53 + 1}, "'9007199254740993' is not a duration"),
                                  ("wait_for", {"kind": 5, "id": "a"}, "kind: '5' is not one of"),
                                  ("get_process_output", {"id": "a", "follow": True}, "follow"),
                                  ("lock_acquire", {"kind": "name", "id": "a", "yes": True}, "yes"),
                                  ("lock_acquire", {"kind": "name", "id": "a", "instance": "you"}, "instance"),
                                  ("lock_acquire", {"kind": "name", "id": "a", "pid": 1}, "pid"),
                                  ("lock_release", {"kind": "name", "id": "a", "instance": "you"}, "instance"),
                                  ("remove_process", {"id": "a", "yes": True}, "yes")):
        text, error = agent.refused(tool, **arguments)
        eq(error["reason_code"], "INVALID_INPUT", tool)
        assert text.startswith("INVALID INPUT: ") and word in text, text
    eq(agent.ok("lock_list", limit=1.0)["total"], 0, "JSON Schema knows 1.0 as an integer")
    eq(agent.ok("wait_for", kind="lock", id="a", timeout=1.0)["state"], "free", "and 1.0 s as a second")


@test("without a workspace the server answers, and every tool says how to make one", init=False)
def _(ws):
    agent = Agent(ws)
    assert tools_of(agent)
    text, error = agent.refused("get_status")
    eq(error["reason_code"], "NOT_FOUND")
    assert "tasuki init" in text, text
    ws.tasuki("init").expect(0)
    assert agent.ok("get_status")["root"], "after init"


@test("a workspace that was removed and made anew is used, not the memory of the old one")
def _(ws):
    agent = Agent(ws)
    agent.ok("create_process", id="a", command="true")
    ws.run(["rm", "-r", ".aiflow"]).expect(0)
    ws.tasuki("init").expect(0)
    eq(agent.ok("list_processes")["total"], 0, "processes")


@test("a server that was there before its workspace is as good as one that came later", init=False)
def _(ws):
    agent = Agent(ws)
    eq(agent.request("resources/subscribe", {"uri": "tasuki://locks"})["error"]["code"], -32002, "news from nowhere")
    ws.tasuki("init").expect(0)
    holder = sleeper(ws)
    ws.tasuki("lock", "acquire", "name", "a", "--pid", holder.pid).expect(0)
    _, error = agent.refused("lock_acquire", kind="name", id="a", force=True)
    assert error["context"]["confirm_token"], error
    eq(agent.request("resources/subscribe", {"uri": "tasuki://locks"}).get("result"), {}, "news")
    agent.ok("lock_acquire", kind="name", id="b")
    agent.until(lambda n: n["params"].get("uri") == "tasuki://locks", "news of the locks")
    second = Agent(ws)
    second.refused("lock_release", kind="name", id="b")  # it is served: this one is an instance of its own


@test("an agent that acquires its own lock again is told so, and does not wait for itself")
def _(ws):
    agent = Agent(ws)
    agent.ok("lock_acquire", kind="name", id="a")
    for more in ({}, {"wait": "40s"}, {"force": True}):
        text, error = agent.refused("lock_acquire", kind="name", id="a", **more)
        eq(error["reason_code"], "LOCK_HELD", text)
        assert text.startswith("NOT ACQUIRED: You hold name a already") and "--force" not in text, text


@test("what is called first is short, and says how to get more")
def _(ws):
    agent = Agent(ws)
    for number in [agent.begin_call("create_process", id=f"p{i:02}", command="true") for i in range(60)]:
        agent.answer(number)
    page = agent.ok("list_processes")
    eq((len(page["processes"]), page["total"]), (50, 60), "a page")
    eq(len(agent.ok("list_processes", cursor=page["cursor"])["processes"]), 10, "the next one")
    eq(len(agent.ok("list_processes", limit=60)["processes"]), 60, "all")
    agent.ok("create_process", id="z", command="sh", args=["-c", "head -c 200000 /dev/zero | tr '\\0' x; sleep 1000"], start=True)
    ws.until(lambda: agent.ok("get_process_output", id="z")["lines"], "its output")
    assert len(json.dumps(agent.ok("get_process_output", id="z"))) < 40000, "one long line"
    status = agent.ok("get_status")
    eq((len(status["processes"]), status["processes_total"]), (50, 61), "the status")
    assert "z" in [p["id"] for p in status["processes"]], "what runs is shown first"
    ws.tasuki("proc", "stop", "z").expect(0)


# -- waiting ------------------------------------------------------------------------------------------------

@test("a run can be waited for, on every way in")
def _(ws):
    (ws.path / "f.yaml").write_text("flow: a\ntasks:\n  a: {run: [sh, -c, 'while [ ! -e go ]; do sleep 0.05; done; exit 3']}\n")
    run = ws.tasuki("run", "f.yaml", "--detach", "--json").expect(0).json["run_id"]
    agent = Agent(ws)
    text, error = agent.refused("wait_for", kind="run", id=run, timeout="50ms")
    eq((text[:8], error["reason_code"]), ("NOT YET:", "CONFLICT"), text)
    ws.tasuki("wait", "run", run, "--timeout", "50ms", "--json").expect(4, "CONFLICT")
    waiting = agent.begin_call("wait_for", kind="run", id=run)
    (ws.path / "go").touch()
    stage = agent.answer(waiting)["result"]
    eq((stage.get("isError"), stage["structuredContent"]["status"]), (None, "FAILED"), "its end")
    eq(ws.tasuki("wait", "run", run, "--json").expect(7).json["run_id"], run, "on the command line")
    text, _ = agent.refused("wait_for", kind="run", id="RUN-20200101T000000-000000")
    assert text.startswith("NOT FOUND: "), text
    text, _ = agent.refused("wait_for", kind="run", id=run, **{"for": "ready"})
    assert text.startswith("INVALID INPUT: "), text


@test("a lock can be waited for without being taken")
def _(ws):
    holder = sleeper(ws)
    ws.tasuki("lock", "acquire", "name", "a", "--pid", holder.pid).expect(0)
    agent = Agent(ws)
    text, error = agent.refused("wait_for", kind="lock", id="a", timeout="50ms")
    eq((text[:8], error["context"]["holder"]["pid"]), ("NOT YET:", holder.pid), text)
    ws.tasuki("wait", "lock", "name/a", "--timeout", "50ms", "--json").expect(4, "CONFLICT")
    waiting = agent.begin_call("wait_for", kind="lock", id="a")
    agent.ok("get_status")
    assert not agent.has_answer(waiting)
    holder.kill()
    holder.wait()
    eq(agent.answer(waiting)["result"]["structuredContent"]["state"], "stale", "its state")
    for name in ("b", "request/RQ-1", "queue/queue", "sprint/.sprint-running"):
        eq(agent.ok("wait_for", kind="lock", id=name)["state"], "free", name)
    assert "free" in ws.tasuki("wait", "lock", "b").expect(0).out


@test("a process from its creation to its removal, by tools alone")
def _(ws):
    agent = Agent(ws, "--tools", "all")
    agent.ok("create_process", id="job", command="sh", args=["-c", "echo hello; echo bad >&2; exit 3"])
    agent.ok("start_process", id="job", no_wait=True)
    record = agent.ok("wait_for", kind="process", id="job")
    eq((record["state_name"], record["exit_code"]), ("Failed", 3), "its end")
    lines = agent.ok("get_process_output", id="job", stream="both")["lines"]
    eq(sorted((line["stream"], line["text"]) for line in lines), [("stderr", "bad"), ("stdout", "hello")], "its output")
    cursor = agent.ok("get_process_output", id="job")["cursor"]
    eq(agent.ok("get_process_output", id="job", cursor=cursor)["lines"], [], "nothing new")
    eq(agent.ok("update_process", id="job", command="/bin/sh")["args"][0], "-c", "what is not named stays")
    agent.ok("update_process", id="job", command="true", args=[])
    agent.ok("restart_process", id="job")
    eq(agent.ok("wait_for", kind="process", id="job")["state_name"], "Stopped", "the new one")
    eq(agent.ok("remove_process", id="job")["removed"], True, "removed")
    eq(agent.ok("list_processes")["total"], 0, "left")


@test("a process that an agent creates runs in the directory of its `tasuki mcp`: a linked worktree, or below the root", slow=True)
def _(ws):
    ws.at_close(lambda: ws.tasuki("proc", "stop", "--all"))
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@t")
    ws.run([*git, "init", "-q"]).expect(0)
    ws.run([*git, "commit", "-q", "--allow-empty", "-m", "x"]).expect(0)
    tree, below = ws.base / "tree", ws.path / "front" / "end"
    ws.run([*git, "worktree", "add", "-q", str(tree), "-b", "other"]).expect(0)
    below.mkdir(parents=True)
    rooted = [str(ws.binary), "--root", str(ws.path), "mcp"]
    for name, place, command, want in (("tree", tree, None, tree), ("below", below, None, below), ("root", ws.path, None, ws.path),
                                       ("away", ws.base, rooted, ws.path), ("named", below, rooted, below)):
        agent = Agent(ws, command=command, cwd=place)
        record = agent.ok("create_process", id=name, command="sleep", args=["1000"], start=True)
        eq(os.readlink(f"/proc/{record['pid']}/cwd"), str(want), name)
        agent.close()
    first = Agent(ws, cwd=tree).ok("get_process_status", id="root")
    eq(first["other_worktree"], str(ws.path), "seen from the other worktree")


@test("a directory below the root moves with the workspace")
def _(ws):
    (ws.path / "front").mkdir()
    (ws.path / "sub").mkdir()
    ws.tasuki("proc", "create", "a", "--", "pwd", cwd=ws.path / "front").expect(0)
    ws.tasuki("proc", "create", "b", "--cwd", "front", "--", "pwd").expect(0)
    ws.tasuki("proc", "create", "c", "--cwd", ws.path, "--", "pwd", cwd=ws.path / "sub").expect(0)
    ws.tasuki("proc", "create", "d", "--cwd", "/", "--", "pwd").expect(0)
    moved = ws.base / "moved"
    for name, want in (("a", "front"), ("b", "front"), ("c", ""), ("d", "/")):
        eq(ws.tasuki("proc", "status", name, "--json").expect(0).json["cwd"], str(ws.path / want).rstrip("/") or "/", name)
    ws.path.rename(moved)
    try:
        for name, want in (("a", "front"), ("b", "front"), ("c", ""), ("d", "/")):
            ws.tasuki("--root", moved, "proc", "start", name, cwd=moved).expect(0)
            ws.tasuki("--root", moved, "proc", "wait", name, cwd=moved).expect(0)
            eq(ws.tasuki("--root", moved, "proc", "logs", name, cwd=moved).expect(0).out.split()[-1], str(moved / want).rstrip("/") or "/", name)
    finally:
        moved.rename(ws.path)


@test("an agent's tools name files from the workspace's root, wherever their server was started")
def _(ws):
    (ws.path / "sub").mkdir()
    (ws.path / ".aiflow/flows").mkdir(exist_ok=True)
    (ws.path / ".aiflow/flows/bad.yaml").write_text("tasks: {a: {walk: x}}\n")
    agent = Agent(ws, cwd=ws.path / "sub")
    text, error = agent.refused("flow_run", flow="bad")
    eq((error["reason_code"], error["context"]["source"]), ("FLOW_INVALID", ".aiflow/flows/bad.yaml"), "the refusal")
    assert " .aiflow/flows/bad.yaml:1" in text, text
    shown = ws.tasuki("run", "bad", "--json", cwd=ws.path / "sub").expect(2).error["context"]["source"]
    eq(shown, "../.aiflow/flows/bad.yaml", "what a person in the same place sees")


main(__name__)
