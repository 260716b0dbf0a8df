"""Spec 8, MCP: what an agent may not decide alone, by each of the three ways to ask a person."""

import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import FORMS  # noqa: E402
from agent import Agent as Connection  # noqa: E402
from common import need_namespace, sleeper, unshare  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from http_common import Server  # noqa: E402
from who_common import WRAPPER  # noqa: E402

FORCE = dict(kind="name", id="a", force=True)


def Agent(ws, *args, command=None, **options):
    """An agent with a process of its own: this test is a person, who may confirm."""
    return Connection(ws, command=[sys.executable, "-c", WRAPPER, *(command or [ws.binary, "mcp", *args])], **options)


def held_lock(ws):
    holder = sleeper(ws)
    ws.tasuki("lock", "acquire", "name", "a", "--pid", holder.pid).expect(0)
    return holder


def holder_of(ws):
    return ws.tasuki("lock", "check", "name", "a", "--json").json.get("holder", {}).get("pid")


def dead_sprint(ws):
    holder = sleeper(ws)
    ws.tasuki("sprint", "acquire", "--session", "s", "--epic", "e", "--pid", holder.pid).expect(0)
    holder.kill()
    holder.wait()


# -- legacy with elicitation --------------------------------------------------------------------------------

def answering(**result):
    asked = []

    def answer(method, params):
        asked.append((method, params))
        return result
    return asked, answer


@test("a client that shows forms is asked, and a yes takes the lock from its living holder")
def _(ws):
    holder = held_lock(ws)
    asked, answer = answering(action="accept", content={"confirm": True})
    agent = Agent(ws, capabilities=FORMS, on_request=answer)
    result = agent.ok("lock_acquire", **FORCE)
    eq(result["forced"]["pid"], holder.pid, "from whom")
    eq([method for method, _ in asked], ["elicitation/create"], "what was asked")
    assert str(holder.pid) in asked[0][1]["message"], asked
    eq(asked[0][1]["requestedSchema"]["required"], ["confirm"], "the form")


@test("a person's no is a refusal; a form that was only closed, or not understood, leaves the token's way", slow=True)
def _(ws):
    holder = held_lock(ws)
    for result, is_no in (({"action": "decline"}, True), ({"action": "accept", "content": {"confirm": False}}, True),
                          ({"action": "cancel"}, False), ({"action": "accept", "content": {}}, False), ({}, False)):
        _, answer = answering(**result)
        agent = Agent(ws, capabilities=FORMS, on_request=answer)
        text, error = agent.refused("lock_acquire", **FORCE)
        eq(error["reason_code"], "NEEDS_CONFIRMATION", f"the answer to {result}")
        assert text.startswith("REFUSED: " if is_no else "NEEDS CONFIRMATION: "), text
        eq("confirm_token" in error["context"], not is_no, f"a token after {result}")
        eq(holder_of(ws), holder.pid, "the holder")
        if not is_no:
            ws.tasuki("confirm", error["context"]["confirm_token"]).expect(0)
            assert agent.ok("lock_acquire", confirm_token=error["context"]["confirm_token"], **FORCE)["fence"]
            agent.ok("lock_release", kind="name", id="a")
            holder = held_lock(ws)
        agent.close()


@test("a token that nobody gave, or that was given for something else, is refused and confirms nothing")
def _(ws):
    holder = held_lock(ws)
    agent = Agent(ws)
    for token in ("nonsense", "cf-0000000000000000", "../../requests/x"):
        text, error = agent.refused("lock_acquire", confirm_token=token, **FORCE)
        eq(error["reason_code"] in ("NOT_FOUND", "INVALID_INPUT", "CONFIRMATION_EXPIRED"), True, f"the refusal of {token}: {text}")
    _, error = agent.refused("lock_acquire", **FORCE)
    token = error["context"]["confirm_token"]
    ws.tasuki("confirm", token).expect(0)
    other = sleeper(ws)
    ws.tasuki("lock", "acquire", "name", "b", "--pid", other.pid).expect(0)
    text, error = agent.refused("lock_acquire", confirm_token=token, kind="name", id="b", force=True)
    eq(error["reason_code"], "INVALID_INPUT", text)
    eq((holder_of(ws), other.poll()), (holder.pid, None), "the holders")
    assert agent.ok("lock_acquire", confirm_token=token, **FORCE)["fence"], "it holds for what it was given for"


@test("the question of a form has no keys of a terminal in it")
def _(ws):
    held_lock(ws)
    asked, answer = answering(action="decline")
    Agent(ws, capabilities=FORMS, on_request=answer).refused("lock_acquire", **FORCE)
    assert asked[0][1]["message"].endswith("?"), asked


@test("while a person is asked, other calls are served")
def _(ws):
    held_lock(ws)
    agent = Agent(ws, capabilities=FORMS)
    number = agent.begin_call("lock_acquire", **FORCE)
    question = agent.until(lambda n: n["method"] == "elicitation/create", "the question")
    agent.ok("get_status")
    assert not agent.has_answer(number)
    agent.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})
    eq(agent.answer(number)["result"]["isError"], True)


@test("a question whose call is over is taken back")
def _(ws):
    held_lock(ws)
    agent = Agent(ws, capabilities=FORMS)
    number = agent.begin_call("lock_acquire", **FORCE)
    question = agent.until(lambda n: n["method"] == "elicitation/create", "the question")
    agent.notify("notifications/cancelled", {"requestId": number})
    taken = agent.until(lambda n: n["method"] == "notifications/cancelled", "the end of the question")
    eq(taken["params"]["requestId"], question["id"], "which one")


# -- modern with elicitation --------------------------------------------------------------------------------

def ask(agent, **arguments):
    result = agent.call("lock_acquire", modern=True, **(arguments or FORCE))
    eq(result.get("resultType"), "input_required", "resultType")
    eq(list(result["inputRequests"]), ["confirm"], "the questions")
    eq(result["inputRequests"]["confirm"]["method"], "elicitation/create", "the method")
    return result["requestState"]


def reply(state, action="accept", **content):
    return {"requestState": state, "inputResponses": {"confirm": {"action": action, "content": content}}}


@test("a stateless client is asked by a round trip, on any server of the workspace")
def _(ws):
    holder = held_lock(ws)
    asking = Agent(ws, "--instance", "me", capabilities=FORMS, initialize=False)
    state = ask(asking)
    asking.close()
    other = Agent(ws, "--instance", "me", capabilities=FORMS, initialize=False)
    result = other.call("lock_acquire", modern=True, more=reply(state, confirm=True), **FORCE)
    eq(result["structuredContent"]["forced"]["pid"], holder.pid, "from whom")


@test("the state of a round trip is used once, by who asked, for what was asked")
def _(ws):
    holder = held_lock(ws)
    agent = Agent(ws, "--instance", "me", capabilities=FORMS, initialize=False)
    stranger = Agent(ws, "--instance", "you", capabilities=FORMS, initialize=False)

    def refuse(who, state, what, **arguments):
        answer = who.answer(who.begin_call("lock_acquire", True, None, reply(state, confirm=True), **arguments))
        eq(answer.get("error", {}).get("code"), -32602, what)

    refuse(agent, "f" * 32, "an invented one", **FORCE)
    refuse(agent, "../../x", "a path", **FORCE)
    refuse(agent, ask(agent) + "x", "a tampered one", **FORCE)
    refuse(stranger, ask(agent), "another caller's", **FORCE)
    refuse(agent, ask(agent), "another call's", kind="name", id="b", force=True)
    eq(holder_of(ws), holder.pid, "the holder")
    state = ask(agent)
    answer = agent.answer(agent.begin_call("lock_acquire", True, {}, reply(state, confirm=True), **FORCE))
    eq(answer.get("error", {}).get("code"), -32602, "from a client that shows no forms")
    refuse(agent, state, "first with other arguments", kind="name", id="b", force=True)
    assert not agent.call("lock_acquire", modern=True, more=reply(state, "decline"), **FORCE)["structuredContent"].get("fence")
    refuse(agent, state, "one that was declined", **FORCE)
    eq(holder_of(ws), holder.pid, "the holder")


@test("a token is no state of a round trip: nobody has seen a form")
def _(ws):
    holder = held_lock(ws)
    agent = Agent(ws, initialize=False)
    token = agent.call("lock_acquire", modern=True, **FORCE)["structuredContent"]["error"]["context"]["confirm_token"]
    for capabilities in ({}, FORMS):
        answer = agent.answer(agent.begin_call("lock_acquire", True, capabilities, reply(token, confirm=True), **FORCE))
        eq(answer.get("error", {}).get("code"), -32602, f"with {capabilities}")
    eq(holder_of(ws), holder.pid, "the holder")


@test("a round trip without the answer asks again, and extra answers are ignored")
def _(ws):
    held_lock(ws)
    agent = Agent(ws, capabilities=FORMS, initialize=False)
    state = ask(agent)
    result = agent.call("lock_acquire", modern=True, more={"requestState": state, "inputResponses": {"x": {}}}, **FORCE)
    eq(result["resultType"], "input_required", "resultType")
    more = reply(result["requestState"], confirm=True)
    more["inputResponses"]["x"] = {"action": "accept"}
    assert agent.call("lock_acquire", modern=True, more=more, **FORCE)["structuredContent"]["fence"]


@test("the yes is for the holder that was shown, not for the one who came since")
def _(ws):
    first = held_lock(ws)
    agent = Agent(ws, capabilities=FORMS, initialize=False)
    state = ask(agent)
    ws.tasuki("lock", "release", "name", "a", "--token", ws.read_lock("name", "a")["token"]).expect(0)
    second = held_lock(ws)
    assert first.pid != second.pid
    result = agent.call("lock_acquire", modern=True, more=reply(state, confirm=True), **FORCE)
    eq(result["resultType"], "input_required", "it is asked again")
    eq(holder_of(ws), second.pid, "the holder")


# -- without elicitation ------------------------------------------------------------------------------------

def token_of(agent):
    text, error = agent.refused("lock_acquire", **FORCE)
    eq(error["reason_code"], "NEEDS_CONFIRMATION")
    token = error["context"]["confirm_token"]
    assert f"tasuki confirm {token}" in text and f'repeat this call with the same arguments and confirm_token: "{token}"' in text, text
    assert error["context"]["holder"]["pid"], error
    return token


@test("otherwise a person confirms the token, and the same call with it succeeds once")
def _(ws):
    holder = held_lock(ws)
    agent = Agent(ws)
    token = token_of(agent)
    text, error = agent.refused("lock_acquire", confirm_token=token, **FORCE)
    eq((error["reason_code"], error["context"]["confirm_token"]), ("NEEDS_CONFIRMATION", token), "before the yes")
    answer = ws.tasuki("confirm", token, "--json").expect(0).json
    eq((answer["status"], answer["operation"]), ("confirmed", "lock.acquire"))
    assert str(holder.pid) in answer["question"], answer
    eq(len(ws.events("confirm.given")), 1, "events")
    eq(agent.ok("lock_acquire", confirm_token=token, **FORCE)["forced"]["pid"], holder.pid, "from whom")
    text, error = agent.refused("lock_acquire", confirm_token=token, **FORCE)
    eq(error["reason_code"], "NOT_FOUND", "the second time")


@test("an agent answers neither its own question nor another's: not with its name, not from the shell of its client; a person's yes counts")
def _(ws):
    holder = held_lock(ws)
    agent = Connection(ws, name="asker")  # the agent is this test, and so is the parent of its commands
    token = token_of(agent)
    for env, label in (({}, "asker"), ({"TASUKI_AGENT": "other"}, "other")):
        for more in ((), ("--yes",), ("--deny",)):
            refused = ws.tasuki("confirm", token, *more, "--json", env=env).expect(6, "NEEDS_CONFIRMATION").error
            assert refused["message"].startswith(f"{label} is an agent. A person answers this question"), refused
            eq(refused["next"], [], "no way past the person")
    text, error = agent.refused("lock_acquire", confirm_token=token, **FORCE)
    eq((error["reason_code"], holder_of(ws)), ("NEEDS_CONFIRMATION", holder.pid), "after the agent's own yes")
    person = [sys.executable, "-c", WRAPPER, ws.binary]
    said = ws.run([*person, "confirm", token]).expect(0).out
    eq(said.count("\n"), 1, "on one line")
    assert said.startswith(f"Confirmed. Now asker repeats the same call with confirm_token {token}. The question was: The lock "), said
    assert re.search(r", since [\d:-]+\. Taking it by force", said) and "⏎" not in said and "\\x0a" not in said, said
    assert "⏎ Taking it by force" in ws.tasuki("events").expect(0).out and "\\x0a" not in ws.tasuki("events").out
    assert agent.ok("lock_acquire", confirm_token=token, **FORCE)["forced"]
    (ws.path / ".aiflow/config.yaml").write_text("agents_confirm_live: true\n")
    ws.tasuki("lock", "release", "name", "a", "--token", ws.read_lock("name", "a")["token"]).expect(0)
    held_lock(ws)
    ws.tasuki("confirm", token_of(agent)).expect(0)


@test("an agent's shell keeps the agent's name after another agent has appeared in another pid namespace, which cannot see the first one")
def _(ws):
    need_namespace(ws, "-p", "-f", "--mount-proc")
    held_lock(ws)
    agent = Connection(ws, name="asker")
    token = token_of(agent)
    call = f"import subprocess; subprocess.run([{str(ws.binary)!r}, 'own', 'claim', 'W'], env={{'TASUKI_AGENT': 'other'}}, check=True)"
    unshare(ws, ["-p", "-f", "--mount-proc"], f'{sys.executable} -c "{call}"; :').expect(0)
    eq(len(list((ws.path / ".aiflow/agents").iterdir())), 2, "cards")
    refused = ws.tasuki("confirm", token, "--json").expect(6, "NEEDS_CONFIRMATION").error
    assert refused["message"].startswith("asker is an agent."), refused


@test("what an agent asks stands in the status with its end and who would lose what; a no removes it; all of it is events")
def _(ws):
    holder = held_lock(ws)
    server = Server(ws)
    agent = Agent(ws, name="asker")
    token = token_of(agent)
    open_ = server.get("/api/status").json["confirmations"]
    eq([(one["token"], one["operation"], one["asked_by"]["label"], one["from"]["pid"], one["from_alive"], one["thing"]) for one in open_],
       [(token, "lock.acquire", "asker", holder.pid, True, "a")], "open ones")
    assert 0 < open_[0]["expires_in_ms"] <= 30000 and str(holder.pid) in open_[0]["question"] and "args" not in open_[0], open_
    assert "token" not in agent.call("get_status")["structuredContent"]["confirmations"][0], "an agent sees no token"
    shown = ws.tasuki("status").expect(0).out
    assert "  asker wants a yes: The lock" in shown and f"tasuki confirm {token}" in shown, shown
    shown = ws.tasuki("status", env={"TASUKI_AGENT": "other"}).expect(0).out
    assert "asker wants a yes" in shown and token not in shown, shown
    for agent_env, has_token in (({"TASUKI_AGENT": "other"}, False), ({}, True)):
        open_ = ws.tasuki("status", "--json", env=agent_env).expect(0).json["confirmations"]
        eq([one.get("token") for one in open_], [token if has_token else None], f"the token in JSON with {agent_env}")
    eq(server.post("/api/confirm", {"token": token, "deny": True}).expect(200).json["status"], "denied", "the answer")
    eq(server.get("/api/status").json["confirmations"], [], "open ones after the no")
    server.post("/api/confirm", {"token": token}).expect(404, "NOT_FOUND")
    _, error = agent.refused("lock_acquire", confirm_token=token, **FORCE)
    eq(error["reason_code"], "NOT_FOUND", "the agent's call")
    token = token_of(agent)
    ws.tasuki("confirm", token, "--json").expect(0)
    eq(ws.tasuki("confirm", token, "--deny", "--json").expect(4, "CONFLICT").error["context"]["token"], token, "a no after the yes")
    eq(server.get("/api/status").json["confirmations"], [], "a yes does not wait any more")
    found = [(e["type"], e["data"]["confirmation"]) for e in ws.events() if e["type"].startswith("confirm.")]
    first, second = open_[0]["id"], found[2][1]
    eq(found, [("confirm.asked", first), ("confirm.denied", first), ("confirm.asked", second), ("confirm.given", second)], "events")
    assert token not in (ws.path / ".aiflow/events.ndjson").read_text(), "the trail has no token"
    server.stop()


@test("a question that nobody answers is an event when its time is over, once", slow=True)
def _(ws):
    held_lock(ws)
    agent = Agent(ws)
    token = token_of(agent)
    path = ws.path / f".aiflow/confirm/{token}.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "expires_boot_ms": record["expires_boot_ms"] - 30001}))
    view = ws.spawn("events", "-f", "--json")
    ws.until(lambda: ws.events("confirm.expired"), "the event")
    token_of(agent)
    view.kill()
    view.wait()
    view = ws.spawn("events", "-f", "--json")
    holder = sleeper(ws)
    ws.tasuki("lock", "acquire", "name", "mark", "--pid", holder.pid).expect(0)
    holder.kill()
    holder.wait()
    ws.until(lambda: ws.events("lock.holder_died"), "another look")
    eq([e["data"]["operation"] for e in ws.events("confirm.expired")], ["lock.acquire"], "once")


@test("a token whose record is damaged is reported as that, not as unknown, and nothing is forced")
def _(ws):
    holder = sleeper(ws)
    ws.tasuki("lock", "acquire", "name", "a", "--pid", holder.pid).expect(0)
    agent = Agent(ws)
    token = token_of(agent)
    (ws.path / f".aiflow/confirm/{token}.json").write_text("{")
    error = ws.tasuki("confirm", token, "--json").expect(3, "ENVIRONMENT").error
    assert "damaged" in error["message"], error
    _, error = agent.refused("lock_acquire", confirm_token=token, **FORCE)
    assert "damaged" in error["message"], error
    eq(ws.read_lock("name", "a")["pid"], holder.pid, "the holder")
    agent.close()


@test("a token is for its own call only, and one that is unknown is said to be")
def _(ws):
    held_lock(ws)
    agent = Agent(ws)
    token = token_of(agent)
    ws.tasuki("confirm", token).expect(0)
    text, error = agent.refused("lock_acquire", kind="name", id="a", force=True, kill=True, confirm_token=token)
    eq(error["reason_code"], "INVALID_INPUT", "other arguments")
    for wrong in ("0" * 32, "../../config", "x"):
        ws.tasuki("confirm", wrong, "--json").expect(5, "NOT_FOUND")


@test("a confirmation is over after 30 s: neither a person's yes nor the call with its token counts 31 s later")
def _(ws):
    holder = held_lock(ws)
    agent = Agent(ws)
    folder = ws.path / ".aiflow/confirm"

    def let_31_s_go_by(token):
        path = next(p for p in folder.iterdir() if token in p.name)
        record = json.loads(path.read_text())
        path.write_text(json.dumps({**record, "expires_boot_ms": record["expires_boot_ms"] - 31000}))

    token = token_of(agent)
    let_31_s_go_by(token)
    ws.tasuki("confirm", token, "--json").expect(5, "NOT_FOUND")
    token = token_of(agent)
    ws.tasuki("confirm", token).expect(0)
    let_31_s_go_by(token)
    text, error = agent.refused("lock_acquire", confirm_token=token, **FORCE)
    eq((error["reason_code"], holder_of(ws)), ("NOT_FOUND", holder.pid), text)


@test("a yes is used once, however often it is given")
def _(ws):
    held_lock(ws)
    agent = Agent(ws)
    folder = ws.path / ".aiflow/confirm"
    for _ in range(3):
        token = token_of(agent)
        confirms = [ws.spawn("confirm", token) for _ in range(4)]
        ws.until(lambda: not agent.call("lock_acquire", confirm_token=token, **FORCE).get("isError"), "the yes")
        for confirm in confirms:
            confirm.wait()
        eq([p.name for p in folder.iterdir() if token in p.name], [], "what is left of the question")
        agent.ok("lock_release", kind="name", id="a")
        held_lock(ws)


@test("without a workspace nobody has asked: a token is NOT FOUND, and the state of a round trip is of no call", init=False)
def _(ws):
    agent = Agent(ws)
    text, error = agent.refused("lock_acquire", kind="name", id="a", confirm_token="0" * 32)
    eq((error["reason_code"], text.partition(":")[0], error["context"]["token"]), ("NOT_FOUND", "NOT ACQUIRED", "0" * 32), text)
    for capabilities in ({}, {"elicitation": {}}):
        answer = agent.answer(agent.begin_call("lock_acquire", True, capabilities, {"requestState": "0" * 32}, kind="name", id="a"))
        eq(answer["error"]["code"], -32602, capabilities)


@test("confirm and confirm_token of a wrong type are said to be")
def _(ws):
    agent = Agent(ws)
    for wrong in ({"confirm": "yes"}, {"confirm_token": 5}):
        text, error = agent.refused("lock_acquire", kind="name", id="a", **wrong)
        eq(error["reason_code"], "INVALID_INPUT", str(wrong))


@test("on a terminal, confirm shows the question and takes no for an answer")
def _(ws):
    held_lock(ws)
    token = token_of(Agent(ws))
    result = ws.tty(["confirm", token], answers=["n"])
    eq(result.code, 6, "exit")
    assert "[y/N]" in result.out, result
    eq(ws.tty(["confirm", token], answers=["y"]).code, 0, "exit")


@test("an agent frees its own sprint and a dead one's, and no living one that is not its own")
def _(ws):
    agent = Agent(ws, "--tools", "all")
    agent.ok("sprint_acquire", session="mine", epic="e")
    eq(agent.ok("sprint_release", session="mine")["status"], "released", "its own")
    dead_sprint(ws)
    eq(agent.ok("sprint_release")["status"], "released", "a dead one's")
    holder = sleeper(ws)
    ws.tasuki("sprint", "acquire", "--session", "s", "--epic", "e", "--pid", holder.pid).expect(0)
    before = ws.lock_path("sprint").read_text()
    for tool, args in (("sprint_release", {}), ("sprint_release", {"session": "s", "confirm": True}),
                       ("lock_release", {"kind": "sprint"})):
        text, error = agent.refused(tool, **args)
        eq(error["reason_code"], "NEEDS_CONFIRMATION", f"{tool} {args}: {text}")
        assert "--yes" not in str(error["next"]), error
        eq(ws.lock_path("sprint").read_text(), before, "the lock file")
    token = error["context"]["confirm_token"]
    ws.tasuki("confirm", token).expect(0)
    agent.ok("lock_release", kind="sprint", confirm_token=token)
    assert not ws.lock_path("sprint").exists()


# -- confirm: true ------------------------------------------------------------------------------------------

@test("where an agent may confirm by itself, the refusal says so")
def _(ws):
    dead_sprint(ws)
    text, _ = Agent(ws, "--tools", "all").refused("sprint_acquire", session="t", epic="e")
    assert text.startswith("NEEDS CONFIRMATION: ") and "confirm: true" in text, text


@test("an agent's force is enough for a dead sprint, not for one that nobody can judge")
def _(ws):
    (ws.path / ".sprint-running").write_text("what is this?\n")
    agent = Agent(ws, "--tools", "all")
    text, error = agent.refused("sprint_acquire", session="t", epic="e", force=True)
    eq((error or {}).get("reason_code"), "NEEDS_CONFIRMATION", text)
    (ws.path / ".sprint-running").unlink()
    dead_sprint(ws)
    eq(agent.ok("sprint_acquire", session="t", epic="e", force=True)["status"], "acquired", "a dead one's")


@test("an agent may confirm for itself what a dead holder left")
def _(ws):
    dead_sprint(ws)
    agent = Agent(ws, "--tools", "all")
    text, error = agent.refused("sprint_acquire", session="t", epic="e")
    eq(error["reason_code"], "NEEDS_CONFIRMATION", "without")
    eq(agent.ok("sprint_acquire", session="t", epic="e", confirm=True)["status"], "acquired", "with")


@test("an agent's own yes is not enough for a living holder, unless config.yaml says so")
def _(ws):
    holder = held_lock(ws)
    agent = Agent(ws)
    text, error = agent.refused("lock_acquire", confirm=True, **FORCE)
    eq((error["reason_code"], holder_of(ws)), ("NEEDS_CONFIRMATION", holder.pid))
    (ws.path / ".aiflow" / "config.yaml").write_text("agents_confirm_live: true\n")
    assert agent.ok("lock_acquire", confirm=True, **FORCE)["forced"]


@test("a running process is removed with force, or after a yes")
def _(ws):
    asked, answer = answering(action="accept", content={"confirm": True})
    agent = Agent(ws, capabilities=FORMS, on_request=answer)
    for arguments, questions in (({}, 1), ({"force": True}, 1)):
        agent.ok("create_process", id="p", command="sleep", args=["1000"], start=True)
        agent.ok("remove_process", id="p", **arguments)
        eq(len(asked), questions, "questions so far")


@test("of several that need a yes each is asked for")
def _(ws):
    asked, answer = answering(action="accept", content={"confirm": True})
    agent, ids = Agent(ws, capabilities=FORMS, on_request=answer), ["x", "y"]
    for name in ids:
        agent.ok("create_process", id=name, command="sleep", args=["1000"], start=True)
    eq(agent.ok("remove_process", id=ids)["removed"], ids, "removed")
    eq([name in str(question) for name, question in zip(("'x'", "'y'"), asked)], [True, True], "a question for each")


WARNINGS = {"en": "The process is running. Stop it before you remove it.",
            "ja": "プロセスは実行中です。削除する前に停止してください。",
            "zh": "进程正在运行。请先停止再删除。"}


@test("removing a running process: the command line, agents and HTTP give one warning, and force is the yes", slow=True)
def _(ws):
    server = Server(ws)
    for lang, warning in WARNINGS.items():
        agent = Agent(ws, command=[str(ws.binary), "--lang", lang, "mcp"])
        agent.ok("create_process", id="p", command="sleep", args=["1000"], start=True)
        text, error = agent.refused("remove_process", id="p")
        many = agent.call("remove_process", id=["p"])["structuredContent"]["errors"][0]["error"]
        shell = ws.tasuki("--lang", lang, "--json", "proc", "remove", "p").expect(6).error
        http = server.ask("DELETE", "/api/processes/p", headers={"Accept-Language": lang})
        eq((http.status, http.json["needs_confirmation"]), (409, True), "over HTTP")
        for found in (error, many, shell, http.json["error"]):
            eq((found["reason_code"], found["message"]), ("NEEDS_CONFIRMATION", warning), lang)
            eq(found["next"], ["tasuki proc status p", "tasuki proc stop p"], "the ways out")
        assert warning in text and "stop_process" in text and "person" not in text and "confirm_token" not in str(error), (text, error)
        eq(agent.ok("get_process_status", id="p")["state_name"], "Running", "its state")
        eq(agent.ok("remove_process", id="p", force=True)["removed"], True, "with force")
        agent.close()
    for how in ("force", "confirm"):
        ws.tasuki("proc", "create", "p", "--start", "--", "sleep", "1000").expect(0)
        eq(server.ask("DELETE", "/api/processes/p", {how: True}).status, 200, how)


main(__name__)
