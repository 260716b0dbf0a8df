"""Spec 8, MCP: resources, subscriptions fed by the event trail, tasks, prompts, completion."""

import fcntl
import json
import os
import pathlib
import signal
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import META, TASKS, Agent  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402

WITH_TASKS = {"extensions": {TASKS: {}}}


def read(agent, uri, **options):
    answer = agent.request("resources/read", {"uri": uri}, **options)
    assert "result" in answer, answer
    content = answer["result"]["contents"][0]
    eq((content["uri"], content["mimeType"]), (uri, "application/json"))
    return json.loads(content["text"])


# -- resources ----------------------------------------------------------------------------------------------

@test("every listed resource can be read, and is what the operation answers")
def _(ws):
    ws.tasuki("proc", "create", "web", "--", "true").expect(0)
    agent = Agent(ws)
    uris = [r["uri"] for r in agent.request("resources/list")["result"]["resources"]]
    assert {"tasuki://status", "tasuki://processes", "tasuki://locks", "tasuki://events"} <= set(uris), uris
    for uri in uris:
        read(agent, uri)
    eq(read(agent, "tasuki://processes"), ws.tasuki("proc", "list", "--json").json, "processes")


@test("templates name one process, its output, and one lock")
def _(ws):
    ws.tasuki("proc", "create", "p.1", "--start", "--", "sh", "-c", "echo a; echo b; echo c >&2").expect(0)
    ws.tasuki("proc", "wait", "p.1").expect(0)
    ws.tasuki("lock", "acquire", "name", "a").expect(0)
    agent = Agent(ws)
    templates = [t["uriTemplate"] for t in agent.request("resources/templates/list")["result"]["resourceTemplates"]]
    assert {"tasuki://process/{id}", "tasuki://process/{id}/log{?stream,tail}",
            "tasuki://lock/{kind}/{id}"} <= set(templates), templates
    eq(read(agent, "tasuki://process/p.1")["id"], "p.1")
    eq(read(agent, "tasuki://process/p%2E1")["id"], "p.1", "with an escape")
    eq([line["text"] for line in read(agent, "tasuki://process/p.1/log")["lines"]], ["a", "b"])
    eq([line["text"] for line in read(agent, "tasuki://process/p.1/log?tail=1")["lines"]], ["b"])
    eq([line["text"] for line in read(agent, "tasuki://process/p.1/log?stream=stderr&tail=5")["lines"]], ["c"])
    eq(read(agent, "tasuki://lock/name/a")["state"], "held")


@test("what is no resource is refused by the era's code, with its uri")
def _(ws):
    agent = Agent(ws)
    for uri in ("tasuki://nonsense", "tasuki://process/absent", "tasuki://process/", "tasuki://process/..%2f..%2fx",
                "tasuki://process/a/log?nonsense=1", "tasuki://process/a/log?tail", "tasuki://lock/nonsense/a",
                "tasuki://statusx", "file:///etc/passwd", "", "tasuki://process/%ff"):
        for modern, code in ((False, -32002), (True, -32602)):
            error = agent.request("resources/read", {"uri": uri}, modern=modern).get("error")
            assert error, f"{uri} was read"
            eq((error["code"], error["data"]["uri"]), (code, uri), uri)
    eq(agent.request("resources/read", {})["error"]["code"], -32602, "without a uri")


@test("a name that is wrong in its last character is no resource")
def _(ws):
    agent = Agent(ws)
    for uri in ("tasuki://statux", "tasuki://statu", "tasuki://process/p/loX", "tasuki://lockss"):
        eq(agent.request("resources/read", {"uri": uri}).get("error", {}).get("code"), -32002, uri)
        eq(agent.request("resources/subscribe", {"uri": uri}).get("error", {}).get("code"), -32002, uri)


# -- subscriptions ------------------------------------------------------------------------------------------

def updates(agent):
    return [n["params"]["uri"] for n in agent.notifications if n["method"] == "notifications/resources/updated"]


@test("a legacy subscriber is told of what happens to its resource, and of nothing else")
def _(ws):
    agent = Agent(ws)
    for uri in ("tasuki://lock/name/a", "tasuki://process/p"):
        eq(agent.request("resources/subscribe", {"uri": uri})["result"], {}, uri)
    eq(agent.request("resources/subscribe", {"uri": "tasuki://nonsense"})["error"]["code"], -32002)
    ws.tasuki("lock", "acquire", "name", "b").expect(0)
    ws.tasuki("lock", "acquire", "name", "a").expect(0)
    agent.until(lambda n: n["params"].get("uri") == "tasuki://lock/name/a", "news of the lock")
    ws.tasuki("proc", "create", "p", "--", "true").expect(0)
    agent.until(lambda n: n["params"].get("uri") == "tasuki://process/p", "news of the process")
    eq(set(updates(agent)), {"tasuki://lock/name/a", "tasuki://process/p"}, "the news")


@test("only what tells news can be subscribed to; queue and sprint are called by their files")
def _(ws):
    agent = Agent(ws)
    for uri in ("tasuki://process/p/log", "tasuki://lock/queue/x", "tasuki://lock/sprint/x"):
        eq(agent.request("resources/subscribe", {"uri": uri}).get("error", {}).get("code"), -32002, uri)
    for uri in ("tasuki://lock/queue/queue", "tasuki://lock/sprint/.sprint-running"):
        eq(agent.request("resources/subscribe", {"uri": uri}).get("result"), {}, uri)
        assert '"free"' in agent.request("resources/read", {"uri": uri})["result"]["contents"][0]["text"], uri
    ws.tasuki("lock", "acquire", "queue").expect(0)
    agent.until(lambda n: n["params"].get("uri") == "tasuki://lock/queue/queue", "news of the queue")
    ws.tasuki("sprint", "acquire", "--session", "s", "--epic", "e").expect(0)
    agent.until(lambda n: n["params"].get("uri") == "tasuki://lock/sprint/.sprint-running", "news of the sprint")


@test("an ended subscription gets no more news")
def _(ws):
    agent = Agent(ws)
    for uri in ("tasuki://lock/name/a", "tasuki://lock/name/b"):
        agent.request("resources/subscribe", {"uri": uri})
    eq(agent.request("resources/unsubscribe", {"uri": "tasuki://lock/name/a"})["result"], {})
    ws.tasuki("lock", "acquire", "name", "a").expect(0)
    ws.tasuki("lock", "acquire", "name", "b").expect(0)
    agent.until(lambda n: n["params"].get("uri") == "tasuki://lock/name/b", "news of b")
    eq(updates(agent), ["tasuki://lock/name/b"], "the news")


@test("the end of a process is told although nobody else looks", slow=True)
def _(ws):
    agent = Agent(ws)
    agent.ok("create_process", id="p", command="sleep", args=["1000"], start=True)
    agent.request("resources/subscribe", {"uri": "tasuki://process/p"})
    pid = agent.ok("get_process_status", id="p")["pid"]
    before = len(updates(agent))
    os.kill(pid, signal.SIGKILL)
    ws.until(lambda: len(updates(agent)) > before, "news of its end")
    ws.until(lambda: agent.ok("get_process_status", id="p")["state_name"] == "Failed", "its end")


@test("a change of the tools or the prompts is told to the streams that asked for it, and to no other")
def _(ws):
    program = ws.build / "tests" / "mcp" / "tasuki-conformance"
    agent = Agent(ws, command=[program, "mcp", "--tools", "all"], initialize=False)
    streams = {}
    for filter in ({}, {"toolsListChanged": True}, {"promptsListChanged": True}, {"toolsListChanged": True, "promptsListChanged": False}):
        number = agent.begin("subscriptions/listen", {"notifications": filter}, modern=True)
        told = agent.until(lambda n: n["params"]["_meta"][META + "subscriptionId"] == number, "the acknowledgement")
        eq(told["params"]["notifications"], {key: True for key, value in filter.items() if value}, f"what is honoured of {filter}")
        streams[number] = set(told["params"]["notifications"])
    for tool, what in (("test_trigger_tool_change", "tools"), ("test_trigger_prompt_change", "prompts")):
        agent.notifications.clear()
        agent.call(tool, modern=True)
        agent.request("tools/list", modern=True)  # what was told before is here now
        heard = {n["params"]["_meta"][META + "subscriptionId"] for n in agent.notifications if n["method"] == f"notifications/{what}/list_changed"}
        eq(heard, {number for number, honoured in streams.items() if f"{what}ListChanged" in honoured}, f"who hears of {what}")


@test("a modern stream begins with what is honoured, tags its news, and ends by cancellation")
def _(ws):
    agent = Agent(ws, initialize=False)
    number = agent.begin("subscriptions/listen", {"notifications": {
        "toolsListChanged": True, "resourceSubscriptions": ["tasuki://locks", "tasuki://nonsense"]}}, modern=True)
    first = agent.until(lambda n: True, "the acknowledgement")
    eq(first["method"], "notifications/subscriptions/acknowledged")
    eq(first["params"]["notifications"], {"resourceSubscriptions": ["tasuki://locks"]}, "what is honoured")
    eq(first["params"]["_meta"][META + "subscriptionId"], number, "its tag")
    ws.tasuki("lock", "acquire", "name", "a").expect(0)
    news = agent.until(lambda n: n["method"] == "notifications/resources/updated", "news")
    eq((news["params"]["uri"], news["params"]["_meta"][META + "subscriptionId"]), ("tasuki://locks", number))
    agent.notify("notifications/cancelled", {"requestId": number})
    again = agent.begin("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["tasuki://locks"]}}, modern=True)
    agent.until(lambda n: n["params"]["_meta"][META + "subscriptionId"] == again, "the second one")
    count = len(updates(agent))
    ws.tasuki("lock", "release", "name", "a").expect(0)
    ws.until(lambda: len(updates(agent)) > count, "news for the second")
    tags = [n["params"]["_meta"][META + "subscriptionId"] for n in agent.notifications[-1:]]
    eq(tags, [again], "who is told")
    assert not agent.has_answer(number)
    agent.proc.stdin.close()
    eq(agent.answer(again)["result"]["resultType"], "complete", "the end of the stream")
    agent.proc.wait(60)


# -- tasks --------------------------------------------------------------------------------------------------

def start_waiting(agent):
    agent.ok("create_process", modern=True, capabilities={}, id="p", command="sleep", args=["1000"], start=True)
    result = agent.call("wait_for", modern=True, kind="process", id="p")
    eq(result["resultType"], "task", "resultType")
    assert {"taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs"} <= set(result), result
    return result["taskId"]


def task(agent, number):
    return agent.request("tasks/get", {"taskId": number}, modern=True)["result"]


@test("a call that takes long becomes a task for a client that knows them, and its result is kept", slow=True)
def _(ws):
    agent = Agent(ws, capabilities=WITH_TASKS, initialize=False)
    number = start_waiting(agent)
    eq((task(agent, number)["status"], task(agent, number)["resultType"]), ("working", "complete"))
    agent.ok("stop_process", modern=True, capabilities={}, id="p")
    ws.until(lambda: task(agent, number)["status"] == "completed", "its end")
    eq(task(agent, number)["result"]["structuredContent"]["id"], "p", "its result")
    other = Agent(ws, capabilities=WITH_TASKS, initialize=False)
    eq(task(other, number)["status"], "completed", "seen by another server")


@test("a quick call is answered at once, and without the extension there are no tasks")
def _(ws):
    agent = Agent(ws, capabilities=WITH_TASKS, initialize=False)
    # On a slow machine one may take longer than the second after which it is a task.
    ws.until(lambda: agent.call("lock_list", modern=True)["resultType"] == "complete", "a quick call")
    error = agent.request("tasks/get", {"taskId": "x"}, modern=True, capabilities={})["error"]
    eq((error["code"], error["data"]["requiredCapabilities"]), (-32021, WITH_TASKS), "the refusal")
    for wrong in ("x", "../../config", "task-" + "0" * 32, ""):
        eq(agent.request("tasks/get", {"taskId": wrong}, modern=True)["error"]["code"], -32602, wrong)


@test("a cancelled task is cancelled, and one whose server died has failed, for every server that looks", slow=True)
def _(ws):
    agent = Agent(ws, capabilities=WITH_TASKS, initialize=False)
    number = start_waiting(agent)
    os.utime(ws.path / f".aiflow/mcp/{number}.json", (1, 1))
    second = agent.call("wait_for", modern=True, kind="process", id="p")["taskId"]
    eq(task(agent, number)["status"], "working", "one that works for longer than it would be kept")
    eq(agent.request("tasks/cancel", {"taskId": number}, modern=True)["result"]["resultType"], "complete")
    eq(task(agent, number)["status"], "cancelled")
    agent.kill()
    other = Agent(ws, capabilities=WITH_TASKS, initialize=False)
    eq((task(other, number)["status"], task(other, second)["status"]), ("cancelled", "failed"))
    assert task(other, second)["error"]["message"], task(other, second)
    ws.tasuki("proc", "stop", "p").expect(0)


@test("the record of a task that is over is kept for an hour; the next task removes it", slow=True)
def _(ws):
    folder = ws.path / ".aiflow/mcp"
    folder.mkdir(exist_ok=True)
    agent = Agent(ws, capabilities=WITH_TASKS, initialize=False)
    now = time.time()
    for name, status, age in (("task-old", "completed", 3700), ("task-orphan", "working", 3700), ("task-young", "completed", 3500),
                              ("note-old", "completed", 3700)):
        (folder / f"{name}.json").write_text(json.dumps({"taskId": name, "status": status}))
        os.utime(folder / f"{name}.json", (now - age, now - age))
    start_waiting(agent)
    eq(sorted(path.stem for path in folder.glob("*-*.json") if len(path.stem) < 20), ["note-old", "task-young"], "what is kept")
    agent.kill()
    ws.tasuki("proc", "stop", "p").expect(0)


@test("a task is cancelled by whichever server is asked; its answers must go to its own", slow=True)
def _(ws):
    agent = Agent(ws, capabilities=WITH_TASKS, initialize=False)
    number = start_waiting(agent)
    other = Agent(ws, capabilities=WITH_TASKS, initialize=False)
    update = other.request("tasks/update", {"taskId": number, "inputResponses": {}}, modern=True)
    eq(update.get("error", {}).get("code"), -32602, "an answer that nobody would get")
    assert "result" in other.request("tasks/cancel", {"taskId": number}, modern=True)
    ws.until(lambda: task(other, number)["status"] == "cancelled", "its end")
    agent.ok("stop_process", modern=True, capabilities={}, id="p")


@test("a question inside a task is the task's question", slow=True)
def _(ws):
    agent = Agent(ws, capabilities={**WITH_TASKS, "elicitation": {}}, initialize=False)
    agent.ok("create_process", modern=True, capabilities={}, id="p", command="sleep", args=["1000"], start=True)
    guard = os.open(ws.path / ".aiflow/processes/.guard", os.O_RDWR)
    fcntl.fcntl(guard, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))  # F_OFD_SETLK
    number = agent.call("remove_process", modern=True, id="p")["taskId"]
    os.close(guard)
    asked = ws.until(lambda: task(agent, number).get("inputRequests"), "the question")
    eq((task(agent, number)["status"], list(asked)), ("input_required", ["confirm"]))
    yes = {"confirm": {"action": "accept", "content": {"confirm": True}}}
    agent.request("tasks/update", {"taskId": number, "inputResponses": yes}, modern=True)
    ws.until(lambda: task(agent, number)["status"] == "completed", "its end")
    eq(task(agent, number)["result"]["structuredContent"]["removed"], True, "its result")


@test("who listens for a task is told of its end", slow=True)
def _(ws):
    agent = Agent(ws, capabilities=WITH_TASKS, initialize=False)
    number = start_waiting(agent)
    agent.begin("subscriptions/listen", {"notifications": {"taskIds": [number]}}, modern=True)
    agent.until(lambda n: n["method"].endswith("acknowledged"), "the acknowledgement")
    agent.ok("stop_process", modern=True, capabilities={}, id="p")
    news = agent.until(lambda n: n["method"] == "notifications/tasks", "news of the task")
    eq((news["params"]["taskId"], news["params"]["status"]), (number, "completed"))


# -- prompts and completion ---------------------------------------------------------------------------------

@test("each prompt has the present state of what it speaks of")
def _(ws):
    ws.tasuki("proc", "create", "web", "--", "true").expect(0)
    agent = Agent(ws)
    prompts = {p["name"]: p for p in agent.request("prompts/list")["result"]["prompts"]}
    eq(sorted(prompts), ["debug_failed_process", "hand_over", "resolve_conflict", "start_work"], "the prompts")
    for name, prompt in prompts.items():
        arguments = {prompt["arguments"][0]["name"]: "web"}
        messages = agent.request("prompts/get", {"name": name, "arguments": arguments})["result"]["messages"]
        eq([m["content"]["type"] for m in messages], ["resource", "text"], name)
        assert "web" in messages[1]["content"]["text"], name
    eq(agent.request("prompts/get", {"name": "debug_failed_process"})["error"]["code"], -32602, "without its argument")
    eq(agent.request("prompts/get", {"name": "nonsense"})["error"]["code"], -32602, "an unknown one")


@test("arguments of prompts and templates are completed from what there is")
def _(ws):
    for name in ("web", "worker", "db"):
        ws.tasuki("proc", "create", name, "--", "true").expect(0)
    ws.tasuki("lock", "acquire", "name", "deploy").expect(0)
    agent = Agent(ws)

    def complete(ref, name, value):
        answer = agent.request("completion/complete", {"ref": ref, "argument": {"name": name, "value": value}})
        return answer["result"]["completion"]["values"]
    prompt = {"type": "ref/prompt", "name": "debug_failed_process"}
    eq(complete(prompt, "id", "w"), ["web", "worker"], "processes")
    lock = {"type": "ref/resource", "uri": "tasuki://lock/{kind}/{id}"}
    eq(complete(lock, "kind", "n"), ["name"], "kinds")
    eq(complete(lock, "id", ""), ["deploy"], "locks")
    eq(complete(prompt, "nonsense", ""), [], "an unknown argument")
    (ws.path / "f.yaml").write_text("flow: a\ntasks:\n  a: {run: ['true']}\n")
    run = ws.tasuki("run", "f.yaml", "--json").expect(0).out.split('"run_id"')[1].split('"')[1]
    eq(complete({"type": "ref/resource", "uri": "tasuki://run/{id}"}, "id", "RUN"), [run], "runs")
    unknown = {"ref": {"type": "ref/prompt", "name": "nonsense"}, "argument": {"name": "id", "value": ""}}
    eq(agent.request("completion/complete", unknown).get("error", {}).get("code"), -32602, "an unknown prompt")


@test("of many completions a hundred are given, and it is said that there are more")
def _(ws):
    agent = Agent(ws)
    for number in [agent.begin_call("create_process", id=f"p{i}", command="true") for i in range(101)]:
        agent.answer(number)
    ref = {"type": "ref/resource", "uri": "tasuki://process/{id}"}
    got = agent.request("completion/complete", {"ref": ref, "argument": {"name": "id", "value": "p"}})["result"]
    eq((len(got["completion"]["values"]), got["completion"]["total"], got["completion"]["hasMore"]), (100, 101, True))


main(__name__)
