"""Spec 8, MCP: what a client reads, word by word: schemas, resources, prompts, completions, the records of tasks, the refusals."""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import META, MODERN, TASKS, Agent  # noqa: E402
from common import sleeper  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from http_common import Server  # noqa: E402

WITH_TASKS = {"extensions": {TASKS: {}}}


def code(answer):
    return answer.get("error", {}).get("code")


def tools_of(agent):
    return {tool["name"]: tool for tool in agent.request("tools/list")["result"]["tools"]}


# -- the handshake --------------------------------------------------------------------------------------------

@test("tasuki's capabilities are those that it has: its lists never change, and it sends no log")
def _(ws):
    agent = Agent(ws)
    offered = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}, "completions": {}}
    eq(agent.hello["capabilities"], offered, "legacy")
    eq(agent.request("server/discover", modern=True)["result"]["capabilities"], {**offered, "extensions": {TASKS: {}}}, "modern")
    eq({key: agent.hello["serverInfo"][key] for key in ("name", "title")}, {"name": "tasuki", "title": "tasuki run controller"}, "the server")
    version = ws.tasuki("version", "--json").expect(0).json["version"]
    eq(agent.hello["serverInfo"]["version"], version, "its version")
    eq(agent.request("tools/list", modern=True)["result"]["_meta"], {META + "serverInfo": {"name": "tasuki", "version": version}}, "in a result")


@test("the instructions name what is offered, a sentence each, with one space between two")
def _(ws):
    for tools, names in (("core", ["get_status", "lock_acquire", "create_process", "wait_for"]), ("locks", ["lock_acquire"]), ("templates", [])):
        text = Agent(ws, "--tools", tools).hello["instructions"]
        assert text.startswith("tasuki keeps ") and text.endswith(" Every error says what to do next.") and "  " not in text, text
        eq([name for name in ("get_status", "lock_acquire", "create_process", "wait_for") if name in text], names, tools)


@test("a modern request says what it lacks; its answer says which protocol there is")
def _(ws):
    agent = Agent(ws, initialize=False)
    for meta, text in (({META + "protocolVersion": 1, META + "clientCapabilities": {}}, "protocolVersion"),
                       ({META + "clientCapabilities": {}}, "protocolVersion"), ({META + "protocolVersion": MODERN}, "clientCapabilities"),
                       ({META + "protocolVersion": MODERN, META + "clientCapabilities": []}, "clientCapabilities")):
        answer = agent.request("tools/list", {"_meta": meta})
        assert code(answer) == -32602 and text in answer["error"]["message"], answer
    answer = agent.request("tools/list")
    assert MODERN in answer["error"]["message"], answer
    eq(code(agent.request("ping", {"_meta": {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}})), -32601, "legacy only")


# -- schemas --------------------------------------------------------------------------------------------------

SCHEMAS = {  # without their descriptions
    ("lock_acquire", "kind"): {"type": "string", "enum": ["request", "queue", "name", "sprint"]},
    ("lock_acquire", "id"): {"type": "string"},
    ("lock_acquire", "ttl"): {"type": "string", "default": "30m"},
    ("lock_acquire", "force"): {"type": "boolean"},
    ("lock_acquire", "confirm"): {"type": "boolean"},
    ("lock_acquire", "confirm_token"): {"type": "string"},
    ("get_process_output", "lines"): {"type": "integer", "default": 100},
    ("get_process_output", "stream"): {"type": "string", "enum": ["stdout", "stderr", "both"], "default": "stdout"},
    ("get_process_output", "id"): {"type": "string"},
    ("create_process", "args"): {"type": "array", "items": {"type": "string"}},
    ("create_process", "env"): {"type": "object", "additionalProperties": {"type": "string"}},
    ("create_process", "backoff_ms"): {"type": "integer", "default": 1000},
    ("create_process", "log_max"): {"type": "integer", "minimum": 4096, "default": 64 << 20},
    ("create_process", "health_failures"): {"type": "integer", "maximum": 1000, "default": 3},
    ("create_process", "restart"): {"type": "string", "enum": ["no", "on-failure", "always"], "default": "no"},
    ("create_process", "ready"): {"type": "string"},
    ("create_process", "max_retries"): {"type": "integer"},
    ("update_process", "health_failures"): {"type": "integer", "maximum": 1000},
    ("update_process", "log"): {"type": "string", "enum": ["direct", "pipe", "stamped", "tty"]},
    ("flow_run", "parallel"): {"type": "integer"},
    ("wait_for", "timeout"): {"type": "string", "default": "forever"},
    ("list_processes", "state"): {"type": "string", "enum": ["NotStarted", "Running", "Stopped", "Failed"]},
    ("subagent_run_dag", "tasks"): {"type": "array", "items": {"type": "object"}},
}


@test("a parameter's schema is its one type, its choices, the limits that matter, and its default")
def _(ws):
    (ws.path / ".aiflow/config.yaml").write_text('agents: {a: {run: [x, "{task}"]}}\n')  # for the tools that need one
    tools = tools_of(Agent(ws, "--tools", "all"))
    for (tool, param), wanted in SCHEMAS.items():
        got = dict(tools[tool]["inputSchema"]["properties"].get(param, {}))
        got.pop("description", None)
        eq(got, wanted, f"{tool} {param}")
    for tool, required in (("lock_acquire", ["kind"]), ("create_process", ["id", "command"]), ("remove_process", None),
                           ("sprint_acquire", ["session", "epic"]), ("update_process", ["id"]), ("get_status", None)):
        eq(tools[tool]["inputSchema"].get("required"), required, f"what {tool} must have")
    for tool, one in tools.items():
        has = {"confirm", "confirm_token"} & set(one["inputSchema"].get("properties", {}))
        assert len(has) in (0, 2), (tool, has)
    asking = {tool for tool, one in tools.items() if "confirm" in one["inputSchema"].get("properties", {})}
    assert {"lock_acquire", "remove_process", "sprint_acquire", "flow_run", "update_process"} <= asking, asking
    assert not {"get_status", "lock_list", "create_process", "wait_for", "list_processes"} & asking, asking


@test("what a value means is said once: a length of time has examples, and what another tool explains is left to it")
def _(ws):
    agent = Agent(ws, "--tools", "all")
    tools = tools_of(agent)

    def help_of(tool, param):
        return tools[tool]["inputSchema"]["properties"][param].get("description")
    assert help_of("lock_acquire", "wait").endswith(" (30s, 5m, forever)"), help_of("lock_acquire", "wait")
    assert help_of("lock_acquire", "ttl").endswith(" (30s, 5m)"), help_of("lock_acquire", "ttl")
    assert "(30s" not in help_of("create_process", "backoff_ms"), help_of("create_process", "backoff_ms")
    eq(help_of("create_process", "cwd"), "Its working directory. Default: the caller's.", "a default in words")
    eq((help_of("update_process", "cwd"), help_of("update_process", "ready")), (None, None), "explained by create_process")
    assert help_of("update_process", "env_clear") and help_of("update_process", "command"), "explained by itself"
    assert tools["update_process"]["description"].endswith(" Parameters without a description are those of create_process."), "where"
    eq([name for name, tool in tools.items() if "without a description" in tool["description"] and name != "update_process"], [], "no other")
    eq((help_of("lock_acquire", "confirm"), bool(help_of("flow_run", "confirm")), bool(help_of("sprint_acquire", "confirm"))), (None, True, True),
       "who explains a yes")
    assert help_of("flow_run", "confirm_token") and help_of("sprint_acquire", "confirm_token"), "and a token"


@test("a result's schema has the keys of one type that the caller has not said itself")
def _(ws):
    tools = tools_of(Agent(ws, "--tools", "all"))
    for tool, wanted in (("lock_acquire", {"status": "string", "fence": "integer", "token": "string", "path": "string", "holder": "object"}),
                         ("create_process", {"state_name": "string", "phase": "string", "restarts": "integer", "run": "integer"}),
                         ("list_processes", {"processes": "array", "total": "integer"}), ("remove_process", {})):
        eq(tools[tool]["outputSchema"], {"type": "object", "properties": {key: {"type": one} for key, one in wanted.items()}}, tool)


# -- resources ------------------------------------------------------------------------------------------------

@test("resources and templates: five and four, all JSON; what is read says its uri and its type")
def _(ws):
    agent = Agent(ws)
    listed = agent.request("resources/list")["result"]["resources"]
    eq([one["uri"] for one in listed], [f"tasuki://{name}" for name in ("status", "processes", "locks", "runs", "events")], "resources")
    templates = agent.request("resources/templates/list")["result"]["resourceTemplates"]
    eq([one["uriTemplate"] for one in templates], ["tasuki://process/{id}", "tasuki://process/{id}/log{?stream,tail}", "tasuki://run/{id}",
                                                   "tasuki://lock/{kind}/{id}"], "templates")
    for one in listed + templates:
        assert one["mimeType"] == "application/json" and one["name"] and one["description"].endswith("."), one
    for one in listed:
        content, = agent.request("resources/read", {"uri": one["uri"]})["result"]["contents"]
        eq((content["uri"], content["mimeType"]), (one["uri"], "application/json"), "a content")
        json.loads(content["text"])


@test("a uri names its resource exactly: one segment each, %XX as what it stands for, a query only where there is one")
def _(ws):
    agent = Agent(ws)
    for name in ("a/b", "a b", "ab", "é", "%4"):
        ws.tasuki("lock", "acquire", "name", name).expect(0)
    for uri, name in (("a%2Fb", "a/b"), ("a%2fb", "a/b"), ("a%20b", "a b"), ("%61%62", "ab"), ("%c3%a9", "é"), ("%4", "%4"), ("%254", "%4"), ("free", None)):
        content, = agent.request("resources/read", {"uri": f"tasuki://lock/name/{uri}"})["result"]["contents"]
        lock = json.loads(content["text"])
        eq((lock["id"], lock["state"]), (name or "free", "held" if name else "free"), uri)
    for uri in ("tasuki://status/", "tasuki://statu", "tasuki://status?x=1", "tasuki://lock/name/", "tasuki://lock/name", "tasuki://lock/name/a/b", "tasuki://lock//a",
                "tasuki://lock/name/ab?x=1", "tasuki://lock/name/%ff", "tasuki://lock/nome/a", "http://status", "", "tasuki://process/absent",
                "tasuki://run/RUN-20200101T000000-000000", "tasuki://process/absent/log", "tasuki://lock/queue/ab", "tasuki://lock/sprint/queue"):
        for modern, wanted in ((False, -32002), (True, -32602)):
            answer = agent.request("resources/read", {"uri": uri}, modern=modern)
            eq((code(answer), answer["error"].get("data")), (wanted, {"uri": uri}), f"{uri} {modern}")
    for params in ({}, {"uri": 5}):
        eq(code(agent.request("resources/read", params)), -32602, params)


@test("a log's uri takes stream and tail, in any order, once each by name, and nothing else")
def _(ws):
    agent = Agent(ws)
    agent.ok("create_process", id="p", command="sh", args=["-c", "echo 1; echo 2; echo 3; echo bad >&2"])
    agent.ok("start_process", id="p", no_wait=True)
    agent.ok("wait_for", kind="process", id="p")
    for query, wanted in (("", ["1", "2", "3"]), ("?", ["1", "2", "3"]), ("?tail=2", ["2", "3"]), ("?stream=stderr", ["bad"]), ("?stream=stdout&tail=1", ["3"]),
                          ("?tail=1&stream=stdout", ["3"]), ("?tail=1&", ["3"]), ("?stream=%73tderr", ["bad"]),
                          ("?lines=1", None), ("?tail", None), ("?tai=1", None), ("?tails=1", None), ("?stream,tail=1", None), ("?tail=%ff", None),
                          ("?tail=x", None), ("?stream=x", None), ("&tail=1", None)):
        answer = agent.request("resources/read", {"uri": f"tasuki://process/p/log{query}"})
        if wanted is None:
            eq(code(answer), -32002, query)
        else:
            eq([line["text"] for line in json.loads(answer["result"]["contents"][0]["text"])["lines"]], wanted, query)


@test("what is subscribed to is a resource, a process or a lock: what tells no news and what is none is refused, in both eras")
def _(ws):
    agent = Agent(ws)
    for method in ("resources/subscribe", "resources/unsubscribe"):
        eq(code(agent.request(method)), -32602, f"{method} without a uri")
    eq(agent.request("resources/unsubscribe", {"uri": "tasuki://nonsense"})["result"], {}, "what was never subscribed to")
    asked = ["tasuki://events", "tasuki://run/x", "tasuki://process/p/log", "tasuki://lock/queue/x", "tasuki://nonsense", 5]
    number = agent.begin("subscriptions/listen", {"notifications": {"resourceSubscriptions": asked, "toolsListChanged": True, "promptsListChanged": True,
                                                                    "taskIds": ["task-1"]}}, modern=True)
    told = agent.until(lambda n: n["method"] == "notifications/subscriptions/acknowledged", "the acknowledgement")["params"]
    eq(told["notifications"], {"resourceSubscriptions": asked[:2]}, "what is honoured without the extension of tasks")
    second = agent.begin("subscriptions/listen", {"notifications": {"taskIds": ["task-1", 7]}}, modern=True, capabilities=WITH_TASKS)
    told = agent.until(lambda n: n["params"]["_meta"][META + "subscriptionId"] == second, "the second")["params"]
    eq(told["notifications"], {"taskIds": ["task-1"]}, "with it")
    for params in ({}, {"notifications": []}):
        eq(code(agent.request("subscriptions/listen", params, modern=True)), -32602, params)
    assert not agent.has_answer(number)


# -- prompts and completion -------------------------------------------------------------------------------------

@test("a prompt has one argument; where it must be said the refusal names it, else the text says that nobody said it")
def _(ws):
    agent = Agent(ws)
    prompts = {prompt["name"]: prompt for prompt in agent.request("prompts/list")["result"]["prompts"]}
    wanted = {"start_work": ("task", False, "tasuki://status"), "hand_over": ("to", False, "tasuki://status"),
              "resolve_conflict": ("lock", False, "tasuki://locks"), "debug_failed_process": ("id", True, None)}
    for name, (argument, is_required, uri) in wanted.items():
        eq([(one["name"], one["required"]) for one in prompts[name]["arguments"]], [(argument, is_required)], name)
        for given in ({}, {argument: "THIS"}, {argument: 5}, {"nonsense": "THIS"}):
            answer = agent.request("prompts/get", {"name": name, "arguments": given})
            if is_required and given.get(argument) != "THIS":
                assert code(answer) == -32602 and f"{name} needs the argument {argument}" in answer["error"]["message"], answer
                continue
            result = answer["result"]
            eq((result["description"], [one["role"] for one in result["messages"]]), (prompts[name]["description"], ["user"] * (1 + bool(uri))), name)
            eq([one["content"]["resource"]["uri"] for one in result["messages"][:-1]], [uri] if uri else [], "what it speaks of")
            text = result["messages"][-1]["content"]["text"]
            assert ("THIS" in text) == (given.get(argument) == "THIS") and ("(not said; ask)" in text) == ("THIS" not in text) and "{}" not in text, text
    eq(code(agent.request("prompts/get", {})), -32602, "no name")


@test("completions: kinds, streams and ids that begin with the value; what is no prompt, template or argument is refused or has none")
def _(ws):
    for name in ("deploy", "docs", "x"):
        ws.tasuki("lock", "acquire", "name", name).expect(0)
    ws.tasuki("proc", "create", "web", "--", "true").expect(0)
    agent = Agent(ws)

    def complete(ref, name, value):
        return agent.request("completion/complete", {"ref": ref, "argument": {"name": name, "value": value}})
    log, lock = ({"type": "ref/resource", "uri": uri} for uri in ("tasuki://process/{id}/log{?stream,tail}", "tasuki://lock/{kind}/{id}"))
    conflict, start = ({"type": "ref/prompt", "name": name} for name in ("resolve_conflict", "start_work"))
    for ref, name, value, wanted in ((log, "stream", "std", ["stdout", "stderr"]), (log, "stream", "", ["stdout", "stderr", "both"]), (log, "id", "w", ["web"]),
                                     (log, "id", "x", []), (lock, "kind", "", ["request", "queue", "name", "sprint"]), (lock, "kind", "q", ["queue"]),
                                     (lock, "kind", "queues", []), (lock, "id", "d", ["deploy", "docs"]), (conflict, "lock", "do", ["docs"]),
                                     (conflict, "id", "", []), (start, "task", "", []), (log, "tail", "", [])):
        got = complete(ref, name, value)["result"]["completion"]
        eq((sorted(got["values"]), got["total"], got["hasMore"]), (sorted(wanted), len(wanted), False), (ref, name, value))
    for ref in ({"type": "ref/resource", "uri": "tasuki://status"}, {"type": "ref/resource", "uri": "tasuki://process/web"}, {"type": "ref/prompt", "name": "x"},
                {"type": "ref/prompt"}, None):
        eq(code(complete(ref, "id", "")), -32602, ref)
    for argument in (None, {"name": "id"}, {"value": ""}, {"name": "id", "value": 5}):
        eq(code(agent.request("completion/complete", {"ref": log, "argument": argument})), -32602, argument)


@test("of a hundred completions all are given, and there are no more")
def _(ws):
    agent = Agent(ws)
    for number in [agent.begin_call("create_process", id=f"p{i}", command="true") for i in range(100)]:
        agent.answer(number)
    ref = {"type": "ref/resource", "uri": "tasuki://process/{id}"}
    got = agent.request("completion/complete", {"ref": ref, "argument": {"name": "id", "value": "p"}})["result"]["completion"]
    eq((len(got["values"]), got["total"], got["hasMore"]), (100, 100, False))


# -- records of tasks --------------------------------------------------------------------------------------------

@test("a task's record is shown without its owner; one that is over takes answers and a cancellation, and changes by neither")
def _(ws):
    folder = ws.path / ".aiflow/mcp"
    folder.mkdir(exist_ok=True)
    agent = Agent(ws, capabilities=WITH_TASKS, initialize=False)
    for status in ("completed", "failed", "cancelled"):
        record = {"taskId": "task-1", "status": status, "ttlMs": 3600000, "owner": {"pid": 1}}
        (folder / "task-1.json").write_text(json.dumps(record))
        for method, params in (("tasks/update", {"inputResponses": {}}), ("tasks/cancel", {}), ("tasks/get", {})):
            result = agent.request(method, {"taskId": "task-1", **params}, modern=True)["result"]
        eq({key: value for key, value in result.items() if key not in ("_meta", "resultType")}, {key: record[key] for key in ("taskId", "status", "ttlMs")}, status)
        eq(code(agent.request("tasks/update", {"taskId": "task-1"}, modern=True)), -32602, "no answers")
        assert not list(folder.glob("*.cancel")), "a mark"


@test("a task whose server is gone has failed and asks nothing; a record that cannot be read is no unknown task")
def _(ws):
    folder = ws.path / ".aiflow/mcp"
    folder.mkdir(exist_ok=True)
    agent = Agent(ws, capabilities=WITH_TASKS, initialize=False)
    (folder / "task-1.json").write_text(json.dumps({"taskId": "task-1", "status": "input_required", "inputRequests": {"a": {}}, "owner": {"pid": 99999999}}))
    got = agent.request("tasks/get", {"taskId": "task-1"}, modern=True)["result"]
    eq((got["status"], got["error"]["code"], "inputRequests" in got, "ended" in got["error"]["message"]), ("failed", -32603, False, True), "an orphan")
    (folder / "task-2.json").write_text("{")
    (folder / "task-3.json").mkdir()
    for name, wanted in (("task-2", -32603), ("task-3", -32603), ("task-4", -32602), ("t" * 40, -32602), ("t" * 41, -32602), ("../x", -32602), (None, -32602)):
        for method, params in (("tasks/get", {}), ("tasks/update", {"inputResponses": {}}), ("tasks/cancel", {})):
            eq(code(agent.request(method, {**params, **({"taskId": name} if name else {})}, modern=True)), wanted, (method, name))
    (folder / ("t" * 40 + ".json")).write_text(json.dumps({"taskId": "t", "status": "completed"}))
    (folder / ("t" * 41 + ".json")).write_text(json.dumps({"taskId": "t", "status": "completed"}))
    eq(code(agent.request("tasks/get", {"taskId": "t" * 40}, modern=True)), None, "40 characters")
    eq(code(agent.request("tasks/get", {"taskId": "t" * 41}, modern=True)), -32602, "41 characters")


@test("a new task says for how long it is kept, how often to ask, and when it began", slow=True)
def _(ws):
    agent = Agent(ws, capabilities=WITH_TASKS, initialize=False)
    holder = sleeper(ws)
    ws.tasuki("lock", "acquire", "name", "a", "--pid", holder.pid).expect(0)
    result = agent.call("wait_for", modern=True, kind="lock", id="a")
    eq((result["resultType"], result["status"], result["ttlMs"], result["pollIntervalMs"]), ("task", "working", 3600000, 1000), "the task")
    assert result["taskId"].startswith("task-") and len(result["taskId"]) == 37 and "owner" not in result, result
    eq(result["createdAt"], result["lastUpdatedAt"], "its times")
    holder.kill()
    holder.wait()

    def task():
        return agent.request("tasks/get", {"taskId": result["taskId"]}, modern=True)["result"]
    ws.until(lambda: task()["status"] == "completed", "its end")
    eq((task()["result"]["resultType"], task()["result"]["structuredContent"]["state"], task()["createdAt"]), ("complete", "stale", result["createdAt"]), "its result")


@test("progress begins with 0 if its tool says so, has its total, and goes to the caller that gave a token, a text or a whole number")
def _(ws):
    program = ws.build / "tests" / "mcp" / "tasuki-conformance"
    agent = Agent(ws, command=[program, "mcp", "--tools", "core"])
    for token, wanted in (("t", [0, 50, 100]), (0, [0, 50, 100]), (None, []), (1.5, []), ([], [])):
        agent.notifications.clear()
        agent.call("test_tool_with_progress", more={"_meta": {"progressToken": token}} if token is not None else {})
        got = [n["params"] for n in agent.notifications if n["method"] == "notifications/progress"]
        eq(got, [{"progressToken": token, "progress": part, "total": 100} for part in wanted], token)


# -- refusals ----------------------------------------------------------------------------------------------------

@test("what exists or runs already says who has made it; what is not found, and what only a person decides, begins with that")
def _(ws):
    agent = Agent(ws, "--tools", "all", name="maker")
    pid = os.getpid()
    agent.ok("create_process", id="p", command="sleep", args=["1000"])
    text, _ = agent.refused("create_process", id="p", command="true")
    assert f". It was registered by maker (pid {pid}).\nNext: tasuki proc status p (get_process_status); " in text, text
    agent.ok("start_process", id="p")
    text, _ = agent.refused("start_process", id="p")
    assert text.startswith("NOT STARTED: Process 'p' is already running (ProcessAlreadyRunning). It was started by maker"), text
    assert text.split("\nNext: ")[1].startswith("tasuki proc status p (get_process_status); tasuki proc logs p -f (get_process_output)"), text
    text, _ = agent.refused("remove_process", id="p")
    assert text.startswith("NEEDS CONFIRMATION: "), text
    text, _ = agent.refused("get_process_status", id="absent")
    assert text.startswith("NOT FOUND: Process 'absent' not found (ProcessNotFound)\nNext: tasuki proc list (list_processes)"), text
    assert "by maker" not in text, text
    agent.ok("stop_process", id="p")


@test("what is JSON in a text has one line and no spaces, and a refusal of the server has its structure beside it")
def _(ws):
    agent = Agent(ws, "--tools", "all")
    agent.ok("lock_acquire", kind="name", id="a")
    for text in (agent.call("lock_list")["content"][0]["text"], agent.request("resources/read", {"uri": "tasuki://locks"})["result"]["contents"][0]["text"]):
        eq(text, json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False), "a text")
    result = agent.call("lock_acquire", kind="x", id="a")
    eq([set(one) for one in result["content"]], [{"type", "text"}], "its content")
    assert {"category", "reason_code", "message", "context", "next", "actions"} <= set(result["structuredContent"]["error"]), result


@test("over stdio nobody says who calls: the server knows it")
def _(ws):
    agent = Agent(ws, "--tools", "all")
    for tool, arguments in (("lock_acquire", {"kind": "name", "id": "a"}), ("get_status", {"register": True}), ("lock_release", {"kind": "name", "id": "a"})):
        text, error = agent.refused(tool, **arguments, instance="x")
        assert error["reason_code"] == "INVALID_INPUT" and "'instance'" in text, text
    eq(agent.ok("lock_list")["locks"], [], "what was locked")


@test("a lock's refusal names its holder's process, session, run and instance, and each command with its tool")
def _(ws):
    holder = sleeper(ws)
    ws.tasuki("lock", "acquire", "name", "a", "--session", "S", "--run", "RUN-1", "--pid", holder.pid).expect(0)
    lock = ws.tasuki("lock", "check", "name", "a", "--json").expect(4).json
    agent = Agent(ws, "--tools", "all")
    text, _ = agent.refused("lock_acquire", kind="name", id="a")
    begin = f"NOT ACQUIRED: held by {lock['holder']['who']['label']}, pid {holder.pid}, session S, run RUN-1, instance {lock['holder']['instance']} "
    assert text.startswith(f"{begin}(alive: process exists) since {lock['created_at']}. a is held by "), text
    eq(text.partition("\nNext: ")[2], "tasuki lock acquire name a --wait 30m (lock_acquire); tasuki lock check name a (lock_check); "
                                      "tasuki lock acquire name a --force (lock_acquire with force: true)", "what to do")
    few = Agent(ws, "--tools", "processes,locks")
    text, _ = few.refused("lock_release", kind="name", id="a")
    eq(text.partition("\nNext: ")[2], "tasuki lock check name a (lock_check); tasuki lock release name a --token TOKEN (lock_release)", "what to do")
    agent.ok("lock_acquire", kind="name", id="mine")
    text, _ = agent.refused("lock_acquire", kind="name", id="mine")
    assert text.startswith("NOT ACQUIRED: You hold name mine already"), text
    text, _ = few.refused("lock_acquire", kind="name")
    eq(text, "INVALID INPUT: id is missing (INVALID_INPUT)", "without a command")


@test("a workflow of somebody else is refused with the word that existing clients look for")
def _(ws):
    holder = sleeper(ws)
    Agent(ws, "--tools", "all", "--instance", "other").ok("ul_workflow_claim", ulTaskId="w")
    ws.tasuki("lock", "acquire", "name", "a", "--pid", holder.pid).expect(0)
    text, error = Agent(ws, "--tools", "all", "--instance", "me").refused("ul_workflow_release", ulTaskId="w")
    eq((text[:7], error["category"]), ("error: ", "OWNERSHIP"), text)


@test("a flow that is not there is NOT DONE, a look that finds nothing NOT FOUND, and no success without an error has its code beside it")
def _(ws):
    holder = sleeper(ws)
    agent = Agent(ws, "--tools", "all")
    for tool, arguments, begin in (("flow_run", {"flow": "x.yaml"}, "NOT DONE: "), ("run_show", {"run": "RUN-x"}, "NOT FOUND: "), ("request_show", {"id": "RQ-9"}, "NOT FOUND: "),
                                   ("flow_run", {}, "INVALID INPUT: "), ("lock_check", {"kind": "x", "id": "a"}, "INVALID INPUT: ")):
        text, _ = agent.refused(tool, **arguments)
        assert text.startswith(begin), text
    eq(agent.call("lock_check", kind="name", id="a").get("_meta"), None, "free")
    ws.tasuki("lock", "acquire", "name", "a", "--pid", holder.pid).expect(0)
    for reason in ("LOCK_HELD", "ZOMBIE_DETECTED"):
        result = agent.call("lock_check", kind="name", id="a")
        eq((result["_meta"], "isError" in result), ({"tasuki/reasonCode": reason}, False), reason)
        holder.kill()
        holder.wait()


@test("lists come in pages of 64; the last entry can be asked for alone, and what is behind it cannot")
def _(ws):
    agent = Agent(ws, command=[ws.build / "tests" / "mcp" / "tasuki-conformance", "mcp", "--tools", "all"])
    first = agent.request("tools/list", {"cursor": None})["result"]
    eq((len(first["tools"]), first["nextCursor"]), (64, "64"), "the first page")
    second = agent.request("tools/list", {"cursor": "64"})["result"]
    total = 64 + len(second["tools"])
    assert second["tools"] and "nextCursor" not in second, "the last page"
    last = agent.request("tools/list", {"cursor": str(total - 1)})["result"]
    eq((last["tools"], "nextCursor" in last), (second["tools"][-1:], False), "the last entry")
    eq(len(agent.request("tools/list", {"cursor": str(total - 64)})["result"]["tools"]), 64, "a page that is just full")
    eq("nextCursor" in agent.request("tools/list", {"cursor": str(total - 64)})["result"], False, "and has none behind it")
    eq(code(agent.request("tools/list", {"cursor": str(total)})), -32602, "behind the end")


@test("groups are whole words between commas: all has every tool, and a part of a word, or none, is refused")
def _(ws):
    every = set(tools_of(Agent(ws, "--tools", "all")))
    core = set(tools_of(Agent(ws, "--tools", "core")))
    locks, templates = (set(tools_of(Agent(ws, "--tools", name))) for name in ("locks", "templates"))
    eq(set(tools_of(Agent(ws, "--tools", "locks,templates"))), locks | templates, "two groups")
    eq(set(tools_of(Agent(ws, "--tools", "templates,core"))), core | templates, "a group and the working set")
    eq(set(tools_of(Agent(ws, "--tools", "locks,all"))), every, "all of them")
    assert not locks & templates and core < every and "lock_renew" in locks - core, (locks, core)
    for wrong in ("lock", "lockss", ",core", "core,,locks", "cor", "all ", "Core"):
        ws.tasuki("mcp", "--tools", wrong, "--json").expect(2, "INVALID_INPUT")


@test("a call may name the session and the sub-agent that it is made for; the next one without them has none")
def _(ws):
    agent = Agent(ws, "--tools", "all", name="maker")
    for id, meta in (("a", {"TASUKI_AGENT_SESSION": "S1", "TASUKI_SUBAGENT": "helper"}), ("b", {"TASUKI_SUBAGENT": "other"}), ("c", {"TASUKI_AGENT_SESSION": "S2"}), ("d", {}),
                     ("e", {"TASUKI_SUBAGENT": 5, "TASUKI_AGENT_SESSION": []})):
        agent.call("lock_acquire", more={"_meta": meta}, kind="name", id=id)
        actor = ws.tasuki("events", "--json", "-n", "1").expect(0).json["events"][-1]["actor"]
        eq(tuple(actor.get(key) for key in ("label", "session", "subagent")),
           ("maker", *(value if isinstance(value, str) else None for value in (meta.get("TASUKI_AGENT_SESSION"), meta.get("TASUKI_SUBAGENT")))), id)


# -- questions -------------------------------------------------------------------------------------------------------

FORM = {"type": "object", "properties": {"confirm": {"type": "boolean", "title": "Yes, do it", "default": False}}, "required": ["confirm"]}


@test("a question is a form with one box that is not ticked, the same in both eras; its state is one of this call")
def _(ws):
    holder, asked = sleeper(ws), []
    ws.tasuki("lock", "acquire", "name", "a", "--pid", holder.pid).expect(0)
    forms = {"elicitation": {}}
    legacy = Agent(ws, capabilities=forms, on_request=lambda method, params: asked.append((method, params)) or {"action": "decline"})
    text, error = legacy.refused("lock_acquire", kind="name", id="a", force=True)
    assert text.startswith("REFUSED: ") and error["reason_code"] == "NEEDS_CONFIRMATION" and not error["next"], text
    (method, params), = asked
    eq((method, params["requestedSchema"], set(params)), ("elicitation/create", FORM, {"message", "requestedSchema"}), "legacy")
    eq(error["context"]["question"], params["message"], "what was asked")
    agent = Agent(ws, capabilities=forms, initialize=False)
    result = agent.call("lock_acquire", modern=True, kind="name", id="a", force=True)
    eq({key: value for key, value in result.items() if key not in ("_meta", "requestState")},
       {"resultType": "input_required", "inputRequests": {"confirm": {"method": "elicitation/create", "params": params}}}, "modern")
    state = result["requestState"]

    def answer(more, **changes):
        return agent.answer(agent.begin_call("lock_acquire", True, None, {"requestState": state, **more}, **{"kind": "name", "id": "a", "force": True, **changes}))
    no = {"inputResponses": {"confirm": {"action": "decline"}}}
    for changes in ({"id": "b"}, {"force": False}, {"note": "x"}):
        eq(code(answer(no, **changes)), -32602, changes)
    other = agent.answer(agent.begin_call("lock_release", True, None, {"requestState": state, **no}, kind="name", id="a"))
    assert "result" in answer(no) and answer(no)["error"]["code"] == -32602, "once"
    assert "error" in other or other["result"].get("isError"), other


@test("a token is refused with its question until a person has confirmed it, and says for how long it counts")
def _(ws):
    holder = sleeper(ws)
    ws.tasuki("lock", "acquire", "name", "a", "--pid", holder.pid).expect(0)
    agent = Agent(ws)
    arguments = {"kind": "name", "id": "a", "force": True}
    text, error = agent.refused("lock_acquire", **arguments)
    context = error["context"]
    token = context["confirm_token"]
    eq((error["reason_code"], context["confirm_token_expires_in_ms"], error["next"]), ("NEEDS_CONFIRMATION", 30000, [f"tasuki confirm {token}"]), "first")
    assert text.startswith("NEEDS CONFIRMATION: ") and context["question"] in text and token in text, text
    text, again = agent.refused("lock_acquire", confirm_token=token, **arguments)
    eq((again["reason_code"], again["next"], again["context"]["confirm_token"], again["context"]["question"]),
       ("NEEDS_CONFIRMATION", [f"tasuki confirm {token}"], token, context["question"]), "before the yes")
    for change in ({"id": "b"}, {"force": False}, {"note": "x"}):
        _, wrong = agent.refused("lock_acquire", **{**arguments, **change, "confirm_token": token})
        eq((wrong["reason_code"], wrong["context"].get("token")), ("INVALID_INPUT", token), change)
    for name, value, want in (("confirm", "yes", "boolean"), ("confirm", 1, "boolean"), ("confirm_token", 5, "string"), ("confirm_token", True, "string")):
        _, wrong = agent.refused("lock_acquire", **arguments, **{name: value})
        eq((wrong["reason_code"], wrong["context"]["param"], wrong["context"]["want"]), ("INVALID_INPUT", name, want), value)
    for nothing in ({"confirm": None}, {"confirm_token": None}, {"confirm": False}):
        _, wrong = agent.refused("lock_acquire", **arguments, **nothing)
        eq(wrong["reason_code"], "NEEDS_CONFIRMATION", nothing)


# -- the same over HTTP ---------------------------------------------------------------------------------------------

@test("over HTTP each error of the modern era has its status, and the legacy era says it in the body")
def _(ws):
    server = Server(ws)

    def post(method, params=None, version=MODERN, capabilities=None, **more):
        meta = {META + "protocolVersion": version, META + "clientCapabilities": {} if capabilities is None else capabilities}
        name = (params or {}).get("name") or (params or {}).get("uri") or (params or {}).get("taskId")
        headers = {"MCP-Protocol-Version": version, "Mcp-Method": method, "Accept": "application/json, text/event-stream", **({"Mcp-Name": name} if name else {})}
        return server.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**(params or {}), "_meta": meta}, **more}, headers=headers)
    for status, wanted, answer in ((200, None, post("tools/list")), (404, -32601, post("nonsense")), (404, -32601, post("ping")),
                                   (400, -32602, post("tools/list", {"cursor": "x"})), (400, -32602, post("resources/read", {"uri": "tasuki://x"})),
                                   (400, -32022, post("tools/list", version="2027-01-01")), (400, -32021, post("tasks/get", {"taskId": "x"})),
                                   (400, -32602, post("tools/list", capabilities=[])), (400, -32600, post("tools/list", id={})),
                                   (400, -32600, post("tools/list", jsonrpc="1.0"))):
        eq((answer.status, code(answer.json)), (status, wanted), answer.body)
    folder = ws.path / ".aiflow/mcp"
    folder.mkdir(exist_ok=True)
    (folder / "task-2.json").write_text("{")
    answer = post("tasks/get", {"taskId": "task-2"}, capabilities=WITH_TASKS)
    eq((answer.status, code(answer.json)), (200, -32603), "ours")
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    accept = {"Accept": "application/json, text/event-stream"}
    first = server.post("/mcp", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}, headers=accept).expect(200)
    session = {**accept, "Mcp-Session-Id": first.headers["Mcp-Session-Id"]}
    for version, status in (("2025-03-26", 200), ("2025-06-18", 200), ("2025-11-25", 200), ("2024-11-05", 400)):
        answer = server.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers={**session, "MCP-Protocol-Version": version})
        eq(answer.status, status, version)
    for method, params, status, wanted in (("nonsense", {}, 200, -32601), ("tools/list", {"cursor": "x"}, 200, -32602), ("resources/read", {"uri": "tasuki://x"}, 200, -32002)):
        answer = server.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, headers=session)
        eq((answer.status, code(answer.json), answer.headers["Mcp-Session-Id"]), (status, wanted, session["Mcp-Session-Id"]), method)
    for method in ("PUT", "PATCH", "HEAD"):
        eq((server.ask(method, "/mcp", headers=session).status, server.ask(method, "/mcp", headers=session).headers["Allow"]), (405, "POST, GET, DELETE"), method)
    server.stop()


@test("over HTTP a tool takes who calls and its secret; the first that takes both explains it, and who registers says neither")
def _(ws):
    server = Server(ws)
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list", "Accept": "application/json, text/event-stream"}
    meta = {"_meta": {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}}
    listed = server.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": meta}, headers=headers).expect(200).json["result"]["tools"]
    tools = {tool["name"]: tool["inputSchema"]["properties"] for tool in listed}
    assert not {"instance", "secret"} & set(tools["get_status"]), tools["get_status"]
    callers = [name for name, properties in tools.items() if "instance" in properties]
    assert {"lock_acquire", "lock_release", "start_process"} <= set(callers), callers
    for name in callers:
        eq(tools[name]["secret"], {"type": "string"}, name)
        eq(tools[name]["instance"]["type"], "string", name)
    eq([tools[name]["instance"].get("description") for name in callers if "description" in tools[name]["instance"]], ["Yours (get_status register)."], "who explains it")
    server.stop()


main(__name__)
