"""Spec 4 and 5, "Who": the parties that are here, notes, and processes that another agent has started."""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import FORMS  # noqa: E402
from common import acquire_from_a_script, need_namespace, sleeper, until_let_go  # noqa: E402
from flows import only_run, with_tool, write_flow  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from http_common import McpClient, Server, as_headers  # noqa: E402
from who_common import client, events, who_of  # noqa: E402


def agents(ws, *args):
    return {agent["who"]["label"]: agent for agent in ws.tasuki("agents", "--json", *args).expect(0).json["agents"]}


def held(agent):
    return {(one["kind"], one["id"]) for one in agent["holding"]}


def running(ws, id):
    return ws.tasuki("proc", "status", id, "--json").json["state_name"] == "Running"


def refused_for(agent, tool, **args):
    """A refusal that names the starter; the error."""
    text, error = agent.refused(tool, **args)
    assert text.startswith("NEEDS CONFIRMATION: "), text
    eq(error["reason_code"], "NEEDS_CONFIRMATION", "reason_code")
    return text, error


# -- three clients ------------------------------------------------------------------------------------------

@test("three MCP clients in one workspace: every refusal, list, event and agents names the right one, and a stop of "
      "another's server is asked about")
def _(ws):
    first, second, other = client(ws, "claude-code", "--tools", "all"), client(ws, "claude-code"), client(ws, "codex", "--tools", "all")
    first.ok("lock_acquire", kind="name", id="src", note="refactoring auth")
    first.ok("create_process", id="web", command="sleep", args=["1000"], start=True, note="dev server")
    second.ok("lock_acquire", kind="name", id="docs")
    second.ok("ul_workflow_claim", ulTaskId="release", note="release 2")
    text, error = other.refused("lock_acquire", kind="name", id="src")
    assert text.startswith("NOT ACQUIRED: held by claude-code: refactoring auth, pid "), text
    text, error = other.refused("lock_acquire", kind="name", id="docs")
    assert text.startswith("NOT ACQUIRED: held by claude-code#2, pid "), text
    text, error = other.refused("ul_workflow_claim", ulTaskId="release")
    assert "That is claude-code#2: release 2, and it is alive" in text, text
    text, error = refused_for(other, "stop_process", id="web")
    assert "web was started by claude-code: dev server (pid " in text, text
    assert running(ws, "web")
    locks = {lock["id"]: lock["holder"]["who"]["label"] for lock in other.ok("lock_list")["locks"]}
    eq(locks, {"src": "claude-code", "docs": "claude-code#2"}, "lock_list")
    eq(other.ok("list_processes")["processes"][0]["started_by"]["label"], "claude-code", "list_processes")
    eq(other.ok("ul_workflow_list")["workflows"][0]["who"]["label"], "claude-code#2", "ul_workflow_list")
    status = other.ok("get_status")
    eq((status["locks"][0]["holder"]["who"]["label"], status["processes"][0]["started_by"]["label"]),
       ("claude-code#2", "claude-code"), "get_status")
    waiting = second.begin_call("lock_acquire", kind="name", id="src", wait="45s")
    ws.until(lambda: agents(ws)["claude-code#2"]["waiting"], "the second one waits")
    found = {agent["who"]["label"]: agent for agent in other.ok("agents_list")["agents"]}
    eq(list(found), ["claude-code", "claude-code#2", "codex"], "labels")
    eq(held(found["claude-code"]), {("name", "src"), ("process", "web")}, "of the first")
    eq(held(found["claude-code#2"]), {("name", "docs"), ("workflow", "release")}, "of the second")
    wait = found["claude-code#2"]["waiting"][0]
    eq((wait["kind"], wait["id"], wait["for"]["label"]), ("name", "src", "claude-code"), "waits for")
    eq([found[label]["last_call"]["operation"] for label in found], ["process.create", "lock.acquire", "process.stop"], "last call")
    assert all(agent["alive"] and agent["agent"] and agent["how"] == "process exists" for agent in found.values()), found
    first.ok("lock_release", kind="name", id="src")
    second.answer(waiting)
    first.ok("stop_process", id="web")  # its own
    labels = {(event["type"], event["data"].get("id") or event["data"].get("process_id") or event["data"].get("workflow")):
              event["actor"]["label"] for event in events(ws) if event["type"] in ("lock.acquired", "process.started",
                                                                                  "process.exited", "workflow.claimed")}
    eq(labels, {("lock.acquired", "src"): "claude-code#2", ("lock.acquired", "docs"): "claude-code#2",
                ("process.started", "web"): "claude-code", ("process.exited", "web"): "claude-code",
                ("workflow.claimed", "release"): "claude-code#2"}, "actors")


# -- agents -------------------------------------------------------------------------------------------------

@test("agents shows programs and people that hold a lock, with directory and branch, and nobody who has gone")
def _(ws):
    subprocess.run(["git", "init", "-q", "-b", "topic", "."], cwd=ws.path, check=True)
    holder = ws.spawn_command([ws.binary, "lock", "run", "deploy", "--note", "to staging", "--", "sleep", "1000"], env={"TASUKI_AGENT": "bob"})
    ws.until(lambda: held(agents(ws).get("bob", {"holding": []})), "bob holds it")
    bob = agents(ws)["bob"]
    eq((held(bob), bob["alive"], bob["branch"], bob["directory"]), ({("name", "deploy")}, True, "topic", str(ws.path)), "bob")
    shown = ws.tasuki("agents").out
    assert "bob  pid " in shown and "holds     name deploy (to staging)" in shown and "(topic)" in shown, shown
    eq(ws.tasuki("lock", "check", "name", "deploy", "--json").json["holder"]["who"]["note"], "to staging", "note")
    holder.terminate()
    holder.wait()
    ws.tasuki("lock", "acquire", "name", "left", "--pid", (gone := sleeper(ws)).pid, env={"TASUKI_AGENT": "ann"}).expect(0)
    gone.kill()
    gone.wait()
    found = ws.tasuki("agents", "--json").json["agents"]
    assert not any(("name", "deploy") in held(agent) for agent in found), found


@test("the last call of a person or a program that is no agent is the newest thing that is recorded of it")
def _(ws):
    ws.at_close(lambda: ws.tasuki("proc", "stop", "--all"))
    ws.tasuki("proc", "create", "web", "--start", "--", "sleep", "1000").expect(0)
    ws.tasuki("lock", "acquire", "name", "a").expect(0)
    for kind in ("name a", "process web"):
        assert f"holds     {kind}" in (shown := ws.tasuki("agents").out) or f", {kind}" in shown, shown
    person, = agents(ws).values()
    assert person["last_call"]["operation"] in ("lock.acquire", "process.start"), person  # within one second
    assert "last call" in shown and person["last_call"]["at"].endswith("Z"), (shown, person)
    assert "deed" not in person and not list((ws.path / ".aiflow").glob("agents/*")), "no card is written for it"
    ws.tasuki("lock", "release", "name", "a").expect(0)
    eq(next(iter(agents(ws).values()))["last_call"]["operation"], "process.start", "what is left")


@test("agents shows a person whose processes run, also after the person's shell has ended; who started nothing that runs is not here")
def _(ws):
    ws.at_close(lambda: ws.tasuki("proc", "stop", "--all"))
    ws.tasuki("proc", "create", "web", "--start", "--note", "dev server", "--", "sleep", "1000").expect(0)
    ws.tasuki("proc", "create", "once", "--start", "--", "true").expect(0)
    ws.tasuki("proc", "wait", "once").expect(0)
    person = agents(ws)["test_who_agents.py"]
    eq((held(person), person["alive"], person["how"], person["directory"]),
       ({("process", "web")}, True, "process exists", os.getcwd()), "the person")
    assert person["since"], person
    assert "  holds     process web (dev server)\n" in ws.tasuki("agents").expect(0).out
    acquire_from_a_script(ws, "proc", "create", "api", "--start", "--", "sleep", "1000").expect(0)
    gone = [agent for agent in ws.tasuki("agents", "--json").json["agents"] if agent["alive"] is False]
    eq([held(agent) for agent in gone], [{("process", "api")}], "of a shell that has ended")
    ws.tasuki("proc", "stop", "--all").expect(0)
    eq(agents(ws), {}, "nothing runs")


@test("agents shows the party whose run runs, with the run's flow and short id; a run that has ended or asks is nobody's")
def _(ws):
    env = {**with_tool(ws), "TASUKI_AGENT": "bob", "TASUKI_NOTE": "release 2"}
    flow = write_flow(ws, "name: deploy\ntasks: {a: 'sleep 1000'}\n")
    ws.tasuki("run", write_flow(ws, "tasks: {ask: 'tasuki task ask \"Which?\"'}\n", "ask.yaml"), env=with_tool(ws)).expect(8)
    eq(agents(ws), {}, "a run that asks")
    ws.spawn("run", flow, "--json", env=env)
    bob = ws.until(lambda: (one := agents(ws).get("bob", {"holding": []}))["holding"] and one, "bob's run runs")
    run = bob["holding"][0]["id"]
    eq((bob["holding"], bob["alive"]), ([{"kind": "run", "id": run, "note": "release 2", "flow": "deploy", "source": flow}], True), "bob")
    ws.tasuki("own", "note", "tests", env={"TASUKI_AGENT": "bob"}).expect(0)
    assert f"  holds     run deploy {run[-6:]} (release 2)\n" in ws.tasuki("agents").out
    assert f"run deploy {run} (" in ws.tasuki("agents", "--verbose").out
    ws.spawn("wait", "run", run, env={"TASUKI_AGENT": "cleo"})
    ws.until(lambda: agents(ws).get("cleo", {"waiting": []})["waiting"], "cleo waits")
    assert f"waits     for run {run[-6:]} of bob: release 2, since " in ws.tasuki("agents").out
    ws.tasuki("runs", "cancel", run, "--now").expect(0)
    ws.until(lambda: not agents(ws).get("bob", {"holding": []})["holding"], "the run has ended")


@test("the owner of a workflow is here with its label, though it never said who it is")
def _(ws):
    ws.tasuki("own", "claim", "w").expect(0)
    found = agents(ws)
    eq((list(found), held(found["test_who_agents.py"])), (["test_who_agents.py"], {("workflow", "w")}), "agents")


@test("agents shows each waiter, its lock and the holder; a waiter that was killed is not shown")
def _(ws):
    ws.tasuki("lock", "acquire", "name", "a", "--pid", sleeper(ws).pid, env={"TASUKI_AGENT": "bob", "TASUKI_NOTE": "auth"}).expect(0)
    ws.tasuki("own", "claim", "w", env={"TASUKI_AGENT": "bob"}).expect(0)
    waits = [(("lock", "run", "a", "--wait", "1h", "--", "true"), "name", "a"), (("wait", "lock", "a"), "lock", "a"),
             (("own", "claim", "w", "--wait", "1h", "--instance", "me"), "workflow", "w"),
             (("lock", "acquire", "name", "a", "--wait", "1h", "--pid", str(sleeper(ws).pid)), "name", "a")]
    for command, kind, id in waits:
        waiter = ws.spawn(*command, env={"TASUKI_AGENT": "cleo"})
        ws.until(lambda: any(agent["waiting"] for agent in ws.tasuki("agents", "--json").json["agents"]), f"{command} waits")
        wait = [one for agent in ws.tasuki("agents", "--json").json["agents"] for one in agent["waiting"]]
        eq([(one["kind"], one["id"], one["for"]["label"]) for one in wait], [(kind, id, "bob")], "waiting")
        assert "waits     for" in ws.tasuki("agents").out
        waiter.kill()
        waiter.wait()
        ws.until(lambda: not any(agent["waiting"] for agent in ws.tasuki("agents", "--json").json["agents"]), "nobody waits")


@test("agents shows a waiter that has no program above it, as in a container")
def _(ws):
    alone = ["unshare", "-p", "-f", "--kill-child", ws.binary]
    need_namespace(ws, "-p", "-f")
    ws.tasuki("lock", "acquire", "name", "a", "--pid", sleeper(ws).pid, env={"TASUKI_AGENT": "bob"}).expect(0)
    ws.spawn_command([*alone, "lock", "run", "a", "--wait", "1h", "--", "true"], env={"TASUKI_AGENT": "cleo"})
    cleo = ws.until(lambda: agents(ws).get("cleo"), "cleo is here")
    eq((cleo["instance"], cleo["alive"], [(one["id"], one["for"]["label"]) for one in cleo["waiting"]]), (None, True, [("a", "bob")]), "cleo")
    assert "cleo  alive: it is waiting at this moment" in ws.tasuki("agents").out


@test("agents shows for whom one waits who waits for a run, and since when")
def _(ws):
    ws.spawn("run", write_flow(ws, "tasks: {a: 'sleep 1000'}\n"), "--json",
             env={**with_tool(ws), "TASUKI_AGENT": "claude-code#2", "TASUKI_NOTE": "refactoring auth"})
    ws.until(lambda: list((ws.path / ".aiflow/runs").glob("RUN-*/stage.json")), "the run begins")
    run = only_run(ws)
    ws.spawn("wait", "run", run)
    wait = ws.until(lambda: [one for agent in agents(ws).values() for one in agent["waiting"]], "somebody waits")[0]
    eq((wait["kind"], wait["id"], wait["for"]["label"], wait["for"]["note"]), ("run", run, "claude-code#2", "refactoring auth"), "waits for")
    assert wait["since"].endswith("Z"), wait
    assert "claude-code#2" in ws.tasuki("agents").out
    ws.tasuki("runs", "cancel", run, "--now").expect(0)


@test("agents over HTTP; a client of the server is there by its lease")
def _(ws):
    server = Server(ws)
    page = server.get("/api/status?register=true&label=page").expect(200).json
    server.post("/api/locks/name/a", {"note": "looking"}, headers=as_headers(page)).expect(200)
    found = {agent["who"]["label"]: agent for agent in server.get("/api/agents").expect(200).json["agents"]}
    eq((held(found["page"]), found["page"]["how"], found["page"]["agent"]), ({("name", "a")}, "lease runs", False), "page")
    eq(found["page"]["last_call"]["operation"], "lock.acquire", "last call")
    eq(who_of(ws, "a")["note"], "looking", "note")


# -- notes --------------------------------------------------------------------------------------------------

@test("own note is shown with everything that the instance holds, until it is changed; a lock's own note stays")
def _(ws):
    env = {"TASUKI_AGENT": "bob"}
    ws.tasuki("lock", "acquire", "name", "a", env=env).expect(0)
    ws.tasuki("lock", "acquire", "name", "b", "--note", "just b", env=env).expect(0)
    eq(ws.tasuki("own", "note", "refactoring auth", env=env).expect(0).out, "bob: refactoring auth\n", "own note")
    eq((who_of(ws, "a")["note"], who_of(ws, "b")["note"]), ("refactoring auth", "just b"), "notes")
    ws.tasuki("own", "note", "tests", env=env).expect(0)
    eq(who_of(ws, "a")["note"], "tests", "changed")
    eq(ws.tasuki("own", "note", "--json", env=env).json["note"], "tests", "without a text")
    assert "a is held by bob: tests (pid " in ws.tasuki("lock", "acquire", "name", "a", "--pid", sleeper(ws).pid).expect(4).err
    ws.tasuki("own", "note", "", env=env).expect(0)
    assert "note" not in who_of(ws, "a")


@test("own note over HTTP and MCP")
def _(ws):
    agent = client(ws, "codex", "--tools", "all")
    agent.ok("lock_acquire", kind="name", id="a")
    eq(agent.ok("note_set", text="docs")["note"], "docs", "note_set")
    eq(who_of(ws, "a")["note"], "docs", "note")
    server = Server(ws)
    page = server.get("/api/status?register=true&label=page").expect(200).json
    eq(server.ask("PUT", "/api/agents/me", {"text": "reading"}, headers=as_headers(page)).expect(200).json["note"], "reading", "PUT")
    server.ask("PUT", "/api/agents/me", {"text": "two\nlines"}, headers=as_headers(page)).expect(400, "INVALID_INPUT")


@test("a note is at most 200 characters on one line; nothing is changed by a refusal")
def _(ws):
    ws.tasuki("lock", "acquire", "name", "a", "--note", "錠" * 200).expect(0)
    eq(who_of(ws, "a")["note"], "錠" * 200, "note")
    for note in ("錠" * 201, "two\nlines", "\x1b[31m"):
        for command in (("lock", "acquire", "name", "b"), ("own", "claim", "w"), ("proc", "create", "p"), ("own", "note")):
            words = [note] if command == ("own", "note") else ["--note", note, *(["--", "true"] if "create" in command else [])]
            ws.tasuki("--json", *command, *words).expect(2, "INVALID_INPUT")
    assert not ws.lock_path("name", "b").exists()
    eq(ws.tasuki("proc", "list", "--json").json["total"], 0, "processes")


# -- the guard ----------------------------------------------------------------------------------------------

def of_first(ws, id="web"):
    """A process that an agent has started; the agent."""
    first = client(ws, "claude-code")
    first.ok("create_process", id=id, command="sleep", args=["1000"], start=True, note="dev server")
    ws.at_close(lambda: ws.tasuki("proc", "stop", "--all"))
    return first


@test("stop, restart, update and remove of another living agent's process are asked about; a person's yes does it")
def _(ws):
    of_first(ws)
    other = client(ws, "codex")
    for tool, args in (("stop_process", {}), ("restart_process", {}), ("update_process", {"restart": "always"}),
                       ("remove_process", {"force": True}), ("stop_process", {"confirm": True})):
        before = ws.tasuki("proc", "status", "web", "--json").json
        refused_for(other, tool, id="web", **args)
        after = ws.tasuki("proc", "status", "web", "--json").json
        eq((after["pid"], after["updated_at"]), (before["pid"], before["updated_at"]), tool)
    _, error = refused_for(other, "stop_process", id="web")
    eq(error["context"]["started_by"]["label"], "claude-code", "started_by")
    token = error["context"]["confirm_token"]
    refused_for(other, "stop_process", id="web", confirm_token=token)
    ws.tasuki("confirm", token).expect(0)
    answer = other.ok("stop_process", id="web", confirm_token=token)
    eq(answer["state_name"], "Stopped", "state")
    assert "web was started by claude-code: dev server (pid " in answer["warning"], answer


@test("an import with --replace changes another living agent's process only with a yes; what stays the same is not asked about")
def _(ws):
    of_first(ws)
    same = ws.tasuki("proc", "export").expect(0).out
    changed = same.replace("1000", "2000")
    assert changed != same, same
    other = client(ws, "codex", "--tools", "all")
    eq(other.ok("import_processes", content=same, replace=True)["unchanged"], ["web"], "unchanged")
    text, error = refused_for(other, "import_processes", content=changed, replace=True)
    assert "web was started by claude-code: dev server (pid " in text, text
    (ws.path / "more.yaml").write_text(changed + "  new:\n    command: 'true'\n")
    ws.tasuki("proc", "import", "more.yaml", "--replace", env={"TASUKI_AGENT": "bob"}).expect(6)
    eq([one["id"] for one in ws.tasuki("--json", "proc", "list").json["processes"]], ["web"], "nothing was registered")
    eq(ws.tasuki("proc", "export").expect(0).out, same, "nothing was changed")
    token = error["context"]["confirm_token"]
    ws.tasuki("confirm", token).expect(0)
    answer = other.ok("import_processes", content=changed, replace=True, confirm_token=token)
    eq((answer["updated"], answer["running"]), (["web"], ["web"]), "updated")
    assert "web was started by claude-code: dev server" in answer["warning"], answer
    yes = ws.tasuki("proc", "import", "more.yaml", "--replace", "--yes", env={"TASUKI_AGENT": "bob"}).expect(0)
    eq(ws.tasuki("--json", "proc", "status", "web").json["args"], ["2000"], "the arguments")
    assert "new" in yes.out, yes.out


@test("a start of what runs, and a create of what exists, name the starter in the text; so does the command line")
def _(ws):
    of_first(ws)
    other = client(ws, "codex")
    named = "It was started by claude-code: dev server (pid "
    for tool, args, first in (("start_process", {}, "NOT STARTED: Process 'web' is already running (ProcessAlreadyRunning). "),
                              ("create_process", {"command": "true"}, "NOT CREATED: Process 'web' already exists (ProcessAlreadyExists). ")):
        text, error = other.refused(tool, id="web", **args)
        assert text.startswith(first + named), text
        eq(error["context"]["started_by"]["label"], "claude-code", tool)
    for words in (("start", "web"), ("create", "web", "--", "true")):
        assert "  by        claude-code: dev server (pid " in ws.tasuki("proc", *words).expect(4).err, words


@test("a create of what was never started names the party that has registered it, and so does an import")
def _(ws):
    first, other = client(ws, "claude-code"), client(ws, "codex")
    first.ok("create_process", id="new", command="true", note="dev server")
    text, error = other.refused("create_process", id="new", command="true")
    assert "It was registered by claude-code: dev server (pid " in text and "started by" not in text, text
    eq(error["context"]["created_by"]["label"], "claude-code", "the context")
    (ws.path / "one.yaml").write_text("version: 1\nprocesses:\n  new: {command: false}\n")
    for words in (("create", "new", "--", "true"), ("import", "one.yaml")):
        assert "  added by  claude-code: dev server (pid " in ws.tasuki("proc", *words).expect(4).err, words
    ws.tasuki("proc", "update", "new", "--restart", "always", env={"TASUKI_AGENT": "bob"}).expect(0)
    assert "added by  claude-code" in ws.tasuki("proc", "create", "new", "--", "true").expect(4).err, "an update registers nothing"


@test("the status of what was never started names the party that has registered it; that of what was started, its starter")
def _(ws):
    ws.tasuki("proc", "create", "new", "--note", "dev server", "--", "sleep", "1000", env={"TASUKI_AGENT": "alpha"}).expect(0)
    eq(ws.tasuki("--json", "proc", "status", "new").expect(0).json["created_by"]["label"], "alpha", "created_by")
    assert "  added by  alpha: dev server (pid " in ws.tasuki("proc", "status", "new").expect(0).out
    ws.tasuki("proc", "start", "new", env={"TASUKI_AGENT": "beta"}).expect(0)
    shown = ws.tasuki("proc", "status", "new").expect(0).out
    assert "  by        beta (pid " in shown and "added by" not in shown, shown
    ws.tasuki("proc", "remove", "new", "--force").expect(0)


@test("a client that shows forms asks its person")
def _(ws):
    of_first(ws)
    questions = []

    def answer(method, params):
        questions.append(params["message"])
        return {"action": "accept", "content": {"confirm": True}}
    other = client(ws, "codex", capabilities=FORMS, on_request=answer)
    eq(other.ok("stop_process", id="web")["state_name"], "Stopped", "state")
    assert len(questions) == 1 and "web was started by claude-code: dev server" in questions[0], questions


@test("people and scripts are not asked and read whose it was; an agent on the command line is asked, and --yes answers", slow=True)
def _(ws):
    of_first(ws)
    refused = ws.tasuki("proc", "stop", "web", env={"TASUKI_AGENT": "bob"}).expect(6)
    assert "web was started by another living agent, claude-code: dev server; `stop` needs a person's yes" in refused.err, refused.err
    assert "--yes" not in refused.err and running(ws, "web"), refused.err
    ws.tasuki("proc", "restart", "web", "--yes", env={"TASUKI_AGENT": "bob"}).expect(0)
    of_first(ws, "api")
    script = [sys.executable, "-c", "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"]
    done = ws.spawn_command([*script, ws.binary, "proc", "stop", "api"])
    out, _ = done.communicate()
    eq(done.returncode, 0, "exit code")
    assert "warning   api was started by claude-code" in out, out


@test("a person in a shell that an agent has used is not asked, and what the person starts is no agent's")
def _(ws):
    of_first(ws)
    ws.tasuki("lock", "acquire", "name", "a", env={"TASUKI_AGENT": "bob"}).expect(0)
    ws.tasuki("proc", "stop", "web", env={"TASUKI_AGENT": "bob"}).expect(6)
    ws.tasuki("proc", "stop", "web").expect(0)
    ws.tasuki("proc", "create", "mine", "--start", "--", "sleep", "1000").expect(0)
    eq(client(ws, "codex").ok("stop_process", id="mine")["state_name"], "Stopped", "state")


@test("one's own processes, those of ended agents and those of people are free", slow=True)
def _(ws):
    first = of_first(ws)
    first.ok("restart_process", id="web")
    ws.tasuki("proc", "create", "mine", "--start", "--", "sleep", "1000", env={"TASUKI_AGENT": ""}).expect(0)
    other = client(ws, "codex")
    other.ok("stop_process", id="mine")
    first.close()
    until_let_go(ws)
    other.ok("stop_process", id="web")


@test("two agents below one program, each with its TASUKI_AGENT, are asked about each other's processes, not about their own", slow=True)
def _(ws):
    alpha, beta = {"TASUKI_AGENT": "alpha"}, {"TASUKI_AGENT": "beta"}
    ws.tasuki("proc", "create", "w", "--start", "--", "sleep", "1000", env=alpha).expect(0)
    pid = ws.tasuki("--json", "proc", "status", "w").json["pid"]
    for words in (("stop", "w"), ("restart", "w"), ("update", "w", "--restart", "always"), ("remove", "w", "--force")):
        refused = ws.tasuki("proc", *words, env=beta).expect(6)
        assert "w was started by another living agent, alpha" in refused.err, refused.err
    eq(ws.tasuki("--json", "proc", "status", "w").json["pid"], pid, "the process")
    ws.tasuki("proc", "restart", "w", env=alpha).expect(0)
    ws.tasuki("proc", "restart", "w").expect(0)  # a person
    ws.tasuki("proc", "stop", "w", env=beta).expect(0)  # it is the person's now


@test("two agents below one program, each with its TASUKI_AGENT, are refused each other's locks and led past neither")
def _(ws):
    alpha, beta = {"TASUKI_AGENT": "alpha"}, {"TASUKI_AGENT": "beta"}
    token = ws.tasuki("--json", "lock", "acquire", "name", "x", env=alpha).expect(0).json["token"]
    for words in (("acquire", "name", "x"), ("renew", "name", "x"), ("release", "name", "x")):
        refused = ws.tasuki("lock", *words, env=beta).expect(4)
        assert "alpha" in refused.err and "You hold" not in refused.err, refused.err
        assert "lock release name x\n" not in refused.err, refused.err
    ws.tasuki("lock", "acquire", "name", "y", env=beta).expect(0)
    eq(ws.tasuki("--json", "own", "leave", env=beta).expect(0).json["locks"], 1, "what beta releases with all that it holds")
    eq(ws.tasuki("--json", "lock", "check", "name", "x").expect(4).json["holder"]["who"]["label"], "alpha", "the holder")
    assert "You hold name x already" in ws.tasuki("lock", "acquire", "name", "x", env=alpha).expect(4).err
    ws.tasuki("lock", "renew", "name", "x", env=alpha).expect(0)
    ws.tasuki("lock", "renew", "name", "x", "--token", token, env=beta).expect(0)
    ws.tasuki("lock", "release", "name", "x", env=alpha).expect(0)
    ws.tasuki("lock", "acquire", "name", "x", env=alpha).expect(0)
    ws.tasuki("lock", "release", "name", "x").expect(0)  # a person


@test("two agents below one program, each with its TASUKI_AGENT, are refused each other's workflows and led past neither")
def _(ws):
    alpha, beta = {"TASUKI_AGENT": "alpha"}, {"TASUKI_AGENT": "beta"}
    (ws.path / ".aiflow" / "config.yaml").write_text("agents: {one: {run: [echo, done]}}\n")
    fence = ws.tasuki("--json", "own", "claim", "w", env=alpha).expect(0).json["fence"]
    for words in (("own", "claim", "w"), ("own", "check", "w"), ("own", "release", "w"),
                  ("agent", "run", "one", "a task", "--workflow", "w")):
        refused = ws.tasuki("--json", *words, env=beta).expect(4)
        owner = refused.json if words[1] == "check" else refused.json["error"]["context"]
        eq(owner["who"]["label"], "alpha", f"the owner, by {words}")
        assert not any("release" in next or "--yes" in next for next in refused.json.get("error", {}).get("next", [])), refused.out
    asked = ws.tasuki("--json", "own", "force-claim", "w", env=beta).expect(6)
    eq(asked.json["error"]["reason_code"], "NEEDS_CONFIRMATION", "a living owner is asked about")
    eq(ws.tasuki("--json", "own", "claim", "v", env=beta).expect(0).json["claimed"], True, "another workflow")
    eq(ws.tasuki("--json", "own", "leave", env=beta).expect(0).json["workflows"], 1, "what beta releases with all that it owns")
    again = ws.tasuki("--json", "own", "claim", "w", env=alpha).expect(0).json
    eq((again["claimed"], again["fence"]), (False, fence), "it is still alpha's")
    ws.tasuki("agent", "run", "one", "a task", "--workflow", "w", env=alpha).expect(0)
    taken = ws.tasuki("--json", "own", "force-claim", "w", "--yes", env=beta).expect(0).json
    eq((taken["who"]["label"], taken["fence"]), ("beta", fence + 1), "after a yes")
    ws.tasuki("own", "release", "w", env=alpha).expect(4)
    ws.tasuki("own", "release", "w").expect(0)  # a person


@test("a command below an MCP client is the client's, also with a TASUKI_AGENT of its own")
def _(ws):
    of_first(ws)
    instance = ws.tasuki("--json", "proc", "status", "web").json["started_by"]["instance"]
    ws.tasuki("proc", "stop", "web", env={"TASUKI_AGENT": "helper", "TASUKI_INSTANCE_ID": instance}).expect(0)


@test("the guard is configured: warn goes on with a warning, off says nothing, another word is an error", slow=True)
def _(ws):
    of_first(ws)
    other = client(ws, "codex")
    config = ws.path / ".aiflow" / "config.yaml"
    config.write_text("processes: {guard: warn}\n")
    assert "web was started by claude-code" in other.ok("restart_process", id="web")["warning"]
    of_first(ws, "api")
    config.write_text("processes: {guard: off}\n")
    assert "warning" not in other.ok("stop_process", id="api")
    of_first(ws, "db")
    config.write_text("processes: {guard: maybe}\n")
    text, error = other.refused("stop_process", id="db")
    assert "processes.guard must be one of ask, warn, off" in text, text


@test("over HTTP a person with the server's token is not asked, and reads whose it was")
def _(ws):
    of_first(ws)
    server = Server(ws)
    answer = server.post("/api/processes/web/stop", {}).expect(200).json
    assert "web was started by claude-code: dev server" in answer["warning"], answer


@test("an MCP client over HTTP is an agent: it is asked, and a person confirms")
def _(ws):
    of_first(ws)
    agent = McpClient(Server(ws))
    refused = agent.call("stop_process", id="web")
    assert refused["isError"] and refused["content"][0]["text"].startswith("NEEDS CONFIRMATION: "), refused
    token = refused["structuredContent"]["error"]["context"]["confirm_token"]
    ws.tasuki("confirm", token).expect(0)
    eq(agent.call("stop_process", id="web", confirm_token=token)["structuredContent"]["state_name"], "Stopped", "state")


@test("several processes: one question names them all, and nothing is stopped without a yes", slow=True)
def _(ws):
    first = of_first(ws)
    first.ok("create_process", id="api", command="sleep", args=["1000"], start=True)
    other = client(ws, "codex")
    other.ok("create_process", id="own", command="sleep", args=["1000"], start=True)
    text, _ = refused_for(other, "stop_process", all=True)
    assert "web was started by" in text and "api was started by" in text and "own was" not in text, text
    assert all(running(ws, id) for id in ("web", "api", "own"))


main(__name__)
