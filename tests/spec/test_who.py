"""Spec 4, "Who": a label, and what stands behind it, for every holder, owner, starter, waiter and event."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import Agent  # noqa: E402
from common import sleeper, until_let_go  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from http_common import Server, as_headers  # noqa: E402
from who_common import KEYS, client, events, who_of  # noqa: E402


# -- the label ----------------------------------------------------------------------------------------------

@test("the label of a command is TASUKI_AGENT, and the who has everything that is known")
def _(ws):
    env = {"TASUKI_AGENT": "bob", "TASUKI_AGENT_SESSION": "s-1", "TASUKI_SUBAGENT": "reviewer", "TASUKI_NOTE": "auth"}
    ws.tasuki("lock", "acquire", "name", "a", env=env).expect(0)
    who = who_of(ws, "a")
    eq(set(who), KEYS | {"session", "subagent", "note"}, "keys")
    eq((who["label"], who["session"], who["subagent"], who["note"]), ("bob", "s-1", "reviewer", "auth"), "who")
    holder = ws.tasuki("lock", "check", "name", "a", "--json").json["holder"]
    eq((who["pid"], who["instance"], who["host"]), (holder["pid"], holder["instance"], holder["hostname"]), "old keys")


@test("without TASUKI_AGENT it is the nearest program above that is no shell")
def _(ws):
    script = ws.path / "my-agent"
    script.write_text("#!" + sys.executable + "\nimport subprocess, sys\n"
                      "sys.exit(subprocess.run(['sh', '-c', sys.argv[1] + '; exit $?']).returncode)\n")
    script.chmod(0o755)
    done = ws.spawn_command([str(script), f"{ws.binary} lock acquire name a --pid {sleeper(ws).pid}"])
    done.communicate()
    eq(done.returncode, 0, "exit code")
    who = who_of(ws, "a")
    eq((who["label"], who["program"]), ("my-agent", "my-agent"), "label and program")
    assert set(who) == KEYS, who


@test("a person on a terminal is user and terminal: what opened the terminal is no program")
def _(ws):
    opener = ws.path / "tmux"
    opener.write_text("import os, pty, sys\nsys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))\n")
    done = ws.spawn_command([sys.executable, str(opener), "sh", "-c",
                             f"{ws.binary} lock acquire name a --pid {sleeper(ws).pid}; tty > where; exit 0"])
    done.communicate()
    eq(done.returncode, 0, "exit code")
    who, terminal = who_of(ws, "a"), (ws.path / "where").read_text().strip().removeprefix("/dev/")
    eq(who["label"], f"{who['user']}@{terminal}", "label")


@test("the label of an MCP client is its name, numbered when several live; its shell has the same label")
def _(ws):
    first, second, other = client(ws, "claude-code"), client(ws, "claude-code"), client(ws, "codex")
    for id, agent in (("a", first), ("b", second), ("c", other)):
        agent.ok("lock_acquire", kind="name", id=id)
    eq([who_of(ws, id)["label"] for id in "abc"], ["claude-code", "claude-code#2", "codex"], "labels")
    first.close()
    until_let_go(ws)
    third = client(ws, "claude-code")
    third.ok("lock_acquire", kind="name", id="d")
    eq(who_of(ws, "d")["label"], "claude-code", "the number of one that has ended is free")


@test("a shell command of an MCP client has its label and its session")
def _(ws):
    agent = Agent(ws, name="claude-code")  # the agent is this test, and so is the parent of the command
    agent.request("tools/call", {"name": "lock_acquire", "arguments": {"kind": "name", "id": "a"},
                                 "_meta": {"TASUKI_AGENT_SESSION": "s-7", "TASUKI_SUBAGENT": "tester"}})
    who = who_of(ws, "a")
    eq((who["label"], who["session"], who["subagent"]), ("claude-code", "s-7", "tester"), "by the tool")
    ws.tasuki("lock", "acquire", "name", "b").expect(0)
    by_shell = who_of(ws, "b")
    eq((by_shell["label"], by_shell["instance"]), ("claude-code", who["instance"]), "by the shell")
    eq(ws.tasuki("lock", "acquire", "name", "c", env={"TASUKI_AGENT": "bob"}).expect(0).code, 0, "exit")
    eq(who_of(ws, "c")["label"], "bob", "TASUKI_AGENT is first")


@test("the name of an agent is that of its commands alone: a person in the same shell is not taken for it, nor is the next agent")
def _(ws):
    bob = {"TASUKI_AGENT": "bob", "TASUKI_AGENT_SESSION": "s-1", "TASUKI_SUBAGENT": "tester"}
    ws.tasuki("lock", "acquire", "name", "a", env=bob).expect(0)  # this test is the process above all three
    ws.tasuki("own", "note", "auth", env={"TASUKI_AGENT": "bob"}).expect(0)
    ws.tasuki("lock", "acquire", "name", "b").expect(0)
    person = who_of(ws, "b")
    eq((set(person), person["label"], person["instance"]), (KEYS, "test_who.py", who_of(ws, "a")["instance"]), "the person")
    eq(who_of(ws, "a")["note"], "auth", "the agent's note")
    eq(ws.tasuki("own", "note", "--json", env={"TASUKI_AGENT": "bob"}).json["label"], "bob", "the agent is still known")
    ws.tasuki("lock", "acquire", "name", "c", env={"TASUKI_AGENT": "ann"}).expect(0)
    eq((set(who_of(ws, "c")), who_of(ws, "c")["label"]), (KEYS, "ann"), "the next agent")
    found = {one["who"]["label"]: [held["id"] for held in one["holding"]] for one in ws.tasuki("agents", "--json").json["agents"]}
    eq({label: sorted(ids) for label, ids in found.items()}, {"ann": ["c"], "bob": ["a"], "test_who.py": ["b"]}, "agents")


@test("TASUKI_AGENT in the environment of tasuki mcp is the label as it is, also in the commands of that client")
def _(ws):
    agent = Agent(ws, name="claude-code", env={"TASUKI_AGENT": "builder"})  # the agent is this test
    agent.ok("lock_acquire", kind="name", id="c")
    ws.tasuki("lock", "acquire", "name", "d").expect(0)
    eq([who_of(ws, id)["label"] for id in "cd"], ["builder", "builder"], "labels of the tool and of the shell")
    agents = [client(ws, "claude-code", env={"TASUKI_AGENT": "builder"}) for _ in range(2)]
    for id, agent in zip("ab", agents):
        agent.ok("lock_acquire", kind="name", id=id)
    eq([who_of(ws, id)["label"] for id in "ab"], ["builder", "builder"], "labels")


@test("a client of the server has the label that it registers with, numbered, and MCP clients their name")
def _(ws):
    server = Server(ws)
    callers = [server.get("/api/status?register=true&label=page").expect(200).json for _ in range(2)]
    for id, caller in zip("ab", callers):
        server.post(f"/api/locks/name/{id}", {}, headers=as_headers(caller)).expect(200)
    eq([who_of(ws, id)["label"] for id in "ab"], ["page", "page#2"], "labels")
    eq(who_of(ws, "a")["pid"], None, "pid")


@test("a name of blanks is none: the label is what it would be without it")
def _(ws):
    ws.tasuki("lock", "acquire", "name", "a", env={"TASUKI_AGENT": " \t"}).expect(0)
    eq(who_of(ws, "a")["label"], "test_who.py", "of a command")
    client(ws, " ").ok("lock_acquire", kind="name", id="b")
    eq(who_of(ws, "b")["label"], who_of(ws, "b")["program"], "of an MCP client")
    server = Server(ws)
    labels = [server.get(f"/api/status?register=true{label}").expect(200).json["label"].partition("#")[0] for label in ("", "&label=%20")]
    eq(labels[1], labels[0], "of a client of the server")


@test("what a delegated agent does has the label of who gave it the work, and its own name as sub-agent")
def _(ws):
    (ws.path / ".aiflow" / "config.yaml").write_text(json.dumps({"agents": {"reviewer": {"run": [
        "sh", "-c", f"{ws.binary} own claim done-by-sub # {{task}}"]}}}))
    agent = client(ws, "claude-code", "--tools", "all")
    agent.ok("subagent_run", subagentId="reviewer", task="look")
    actor = [event["actor"] for event in events(ws, "workflow.claimed") if event["data"]["workflow"] == "done-by-sub"][0]
    eq((actor["label"], actor["subagent"]), ("claude-code", "reviewer"), "actor")


# -- what is written ----------------------------------------------------------------------------------------

@test("lock files have the who in keys of their own; the keys of other tools stay")
def _(ws):
    ws.tasuki("lock", "acquire", "name", "a", env={"TASUKI_AGENT": "bob", "TASUKI_NOTE": "it's \"auth\""}).expect(0)
    record = json.loads((ws.path / ".aiflow" / "locks" / "name.a.lock.json").read_text())
    eq((record["label"], record["note"]), ("bob", "it's \"auth\""), "label and note")
    eq(record["version"], "1.0", "version")
    ws.tasuki("sprint", "acquire", "--session", "s", "--epic", "e", env={"TASUKI_AGENT": "bob"}).expect(0)
    lines = (ws.path / ".sprint-running").read_text().splitlines()
    eq([line.split(":")[0] for line in lines[:5]], ["pid", "session_id", "started_at", "epic_spec", "lock_version"], "keys")
    assert 'label: "bob"' in lines, lines


@test("a program has one instance, whatever command it calls and whenever")
def _(ws):
    for i in range(20):
        ws.tasuki("lock", "acquire", "name", f"a{i}").expect(0)
    owner = ws.tasuki("own", "claim", "w", "--json").expect(0).json["ownerInstanceId"]
    locks = ws.tasuki("lock", "list", "--json").expect(0).json["locks"]
    seen = {lock["holder"]["instance"] for lock in locks} | {e["actor"]["instance"] for e in ws.events() if "lock" in e["type"]}
    eq(seen, {owner}, "the instances of one program")


@test("every event has an actor")
def _(ws):
    agent = client(ws, "codex")
    agent.ok("lock_acquire", kind="name", id="a")
    agent.ok("create_process", id="p", command="true", start=True)
    agent.ok("ul_workflow_claim", ulTaskId="w")
    ws.tasuki("own", "claim", "v", env={"TASUKI_AGENT": "bob"}).expect(0)
    labels = {event["type"]: (event["actor"] or {}).get("label") for event in events(ws)
              if event["data"].get("workflow") != "v"}
    eq({type: labels[type] for type in ("lock.acquired", "process.created", "process.started", "workflow.claimed")},
       {"lock.acquired": "codex", "process.created": "codex", "process.started": "codex", "workflow.claimed": "codex"},
       "labels")
    eq(events(ws, "workflow.claimed")[-1]["actor"]["label"], "bob", "label")
    assert all("actor" in event for event in events(ws)), events(ws)


@test("an end that nobody caused has no actor; a stop has the one who stopped")
def _(ws):
    ws.tasuki("proc", "create", "a", "--start", "--", "true", env={"TASUKI_AGENT": "bob"}).expect(0)
    ws.tasuki("proc", "wait", "a").expect(0)
    ws.tasuki("proc", "create", "b", "--start", "--", "sleep", "1000", env={"TASUKI_AGENT": "bob"}).expect(0)
    ws.tasuki("proc", "stop", "b", "--yes", env={"TASUKI_AGENT": "ann"}).expect(0)
    ends = {event["data"]["process_id"]: event["actor"] for event in events(ws, "process.exited")}
    eq((ends["a"], ends["b"]["label"]), (None, "ann"), "actors")


@test("a process names its starter, also after its policy has restarted it")
def _(ws):
    env = {"TASUKI_AGENT": "bob", "TASUKI_NOTE": "dev server"}
    ws.tasuki("proc", "create", "a", "--restart", "always", "--backoff", "10ms", "--start", "--", "sh", "-c", "sleep 0.2", env=env).expect(0)
    ws.until(lambda: ws.tasuki("proc", "status", "a", "--json").json["run"] > 1, "a restart")
    record = ws.tasuki("proc", "status", "a", "--json").json
    eq((record["started_by"]["label"], record["started_by"]["note"]), ("bob", "dev server"), "started_by")
    assert "by        bob: dev server (pid " in ws.tasuki("proc", "status", "a").out
    restarts = [event for event in events(ws, "process.started") if event["data"]["run"] > 1]
    assert restarts and all(event["actor"] is None for event in restarts), restarts
    ws.tasuki("proc", "stop", "a").expect(0)
    ws.tasuki("proc", "create", "b", "--", "true").expect(0)
    eq(ws.tasuki("proc", "status", "b", "--json").json["started_by"], None, "of one that never ran")


@test("a run names the party that started it, also when it runs apart")
def _(ws):
    (ws.path / "f.yaml").write_text("tasks: {a: 'true'}\n")
    ws.tasuki("run", "f.yaml", "--note", "a try", env={"TASUKI_AGENT": "bob"}).expect(0)
    agent = client(ws, "codex", "--tools", "all")
    agent.ok("flow_run", flow="f.yaml", note="again")
    runs = ws.tasuki("runs", "list", "--json").json["runs"]
    eq([(run["started_by"]["label"], run["started_by"]["note"]) for run in runs], [("codex", "again"), ("bob", "a try")], "started_by")
    assert "by        codex: again (pid " in ws.tasuki("runs", "show", runs[0]["run_id"]).out
    actors = {event["actor"]["label"] for event in events(ws) if event.get("run_id") == runs[0]["run_id"]}
    eq(actors, {"codex"}, "actors of the run's events")


@test("a second start is refused with the one who started the first")
def _(ws):
    ws.tasuki("proc", "create", "web", "--start", "--note", "dev server", "--", "sleep", "1000", env={"TASUKI_AGENT": "bob"}).expect(0)
    refused = ws.tasuki("proc", "start", "web").expect(4)
    assert "by        bob: dev server (pid " in refused.err, refused.err
    eq(ws.tasuki("proc", "start", "web", "--json").error["context"]["started_by"]["label"], "bob", "started_by")
    ws.tasuki("proc", "stop", "web").expect(0)


# -- what people see ----------------------------------------------------------------------------------------

@test("people see the label and the note first, then the pid, in lists, checks and refusals, in every language")
def _(ws):
    holder = sleeper(ws)
    env = {"TASUKI_AGENT": "bob", "TASUKI_NOTE": "refactoring auth"}
    ws.tasuki("lock", "acquire", "name", "api", "--pid", holder.pid, env=env).expect(0)
    shown = f"bob: refactoring auth (pid {holder.pid}, on "
    for command in (("lock", "list"), ("lock", "check", "name", "api"), ("status",)):
        assert shown in ws.tasuki(*command).out, command
    for lang, words in (("en", f"api is held by bob: refactoring auth (pid {holder.pid}, alive)"),
                        ("ja", f"api は bob: refactoring auth が保持しています（pid {holder.pid}、稼働中）"),
                        ("zh", f"api 由 bob: refactoring auth 持有（pid {holder.pid}，存活）")):
        assert words in ws.tasuki("--lang", lang, "lock", "acquire", "name", "api").expect(4).err, lang
    refused = ws.tasuki("lock", "acquire", "name", "api", "--json").expect(4, "LOCK_HELD").error["context"]
    eq((refused["by"], refused["holder"]["who"]["label"]), ("bob: refactoring auth", "bob"), "context")
    ws.tasuki("proc", "create", "web", "--start", "--", "sleep", "1000", env=env).expect(0)
    assert "bob" in ws.tasuki("proc", "list").out
    ws.tasuki("own", "claim", "wf", env=env).expect(0)
    for command in (("own", "list"), ("status",)):
        assert "bob: refactoring auth (" in ws.tasuki(*command).out, command
    assert "That is bob: refactoring auth, and it is alive" in ws.tasuki("own", "claim", "wf", "--instance", "me").expect(4).err
    eq(ws.tasuki("own", "show", "wf", "--json").json["who"]["label"], "bob", "own show")
    assert "workflow.claimed  bob: refactoring auth  " in ws.tasuki("events").out
    ws.tasuki("proc", "stop", "web").expect(0)


@test("the owner of a workflow, and the starter of a run that goes on, are named by label and note, not by an id or as JSON")
def _(ws):
    env = {"TASUKI_AGENT": "bob", "TASUKI_NOTE": "refactoring auth"}
    ws.tasuki("own", "claim", "wf", "--instance", "me", env=env).expect(0)
    for lang, owner, late in (("en", "  owner     bob: refactoring auth (me)\n", "wf is still owned by bob: refactoring auth\n"),
                              ("ja", "  所有者    bob: refactoring auth (me)\n", "wf はまだ bob: refactoring auth が所有しています\n"),
                              ("zh", "  所有者    bob: refactoring auth (me)\n", "wf 仍归 bob: refactoring auth 所有\n")):
        shown = ws.tasuki("--lang", lang, "own", "show", "wf").expect(0).out
        assert owner in shown and "{" not in shown and "T" not in shown, shown
        assert late in ws.tasuki("--lang", lang, "wait", "workflow", "wf", "--timeout", "1ms").expect(4).err, lang
    ws.tasuki("own", "release", "wf", "--instance", "me").expect(0)
    eq(ws.tasuki("wait", "workflow", "wf").expect(0).out.split("\n")[0], "wf: nobody", "a workflow that is free")
    (ws.path / "f.yaml").write_text("tasks: {a: 'until test -e go; do sleep 0.05; done'}\n")
    run = ws.spawn("run", "f.yaml", env=env)
    ws.until(lambda: '"started_by"' in ws.tasuki("runs", "list", "--json").out, "it runs, and says by whom")
    for words in (("wait", "run", "--timeout", "1ms"), ("runs", "rm", "@1"), ("resume", "@1")):
        assert "  by        bob: refactoring auth (pid " in ws.tasuki(*words).expect(4).err, words
    for words in (("runs", "list"), ("status",)):
        assert "  bob: refactoring auth  " in ws.tasuki(*words, env={"COLUMNS": "100"}).out, words
        narrow = ws.tasuki(*words, env={"COLUMNS": "99"}).out
        assert "  bob  " in narrow and "bob:" not in narrow, narrow
    (ws.path / "go").touch()
    ws.finish(run).expect(0)


@test("an agent reads the label of the holder in the first words of a refusal")
def _(ws):
    first, second = client(ws, "claude-code"), client(ws, "codex")
    first.ok("lock_acquire", kind="name", id="a")
    first.ok("ul_workflow_claim", ulTaskId="w")
    text, _ = second.refused("lock_acquire", kind="name", id="a")
    assert text.startswith("NOT ACQUIRED: held by claude-code, pid "), text
    text, error = second.refused("ul_workflow_claim", ulTaskId="w")
    assert "That is claude-code, and it is alive" in text, text
    eq(error["context"]["who"]["label"], "claude-code", "who")


@test("another tool's lock has no who, and is shown as before")
def _(ws):
    path = ws.path / ".aiflow" / "locks" / "name.a.lock.json"
    path.write_text(json.dumps({"version": "1.0", "lock_type": "name", "request_id": None, "run_id": None, "pid": sleeper(ws).pid,
                                "host": "127.0.0.1", "created_at": "2126-02-07T13:30:00+09:00", "expires_at": "2126-02-07T14:00:00+09:00"}))
    eq(who_of(ws, "a"), None, "who")
    assert "is held by another process (pid " in ws.tasuki("lock", "acquire", "name", "a").expect(4).err


@test("control characters of the environment get nowhere; the terminal sees none")
def _(ws):
    ws.tasuki("lock", "acquire", "name", "a", env={"TASUKI_AGENT": "x\x1b[31m\ny", "TASUKI_NOTE": "\x07bell"}).expect(0)
    who = who_of(ws, "a")
    eq((who["label"], who["note"]), ("x?[31m?y", "?bell"), "who")


@test("TASUKI_NOTE is cut at 200 characters; that of an MCP server is its agent's note until it writes another one")
def _(ws):
    ws.tasuki("lock", "acquire", "name", "a", env={"TASUKI_AGENT": "bob", "TASUKI_NOTE": "é" * 201}).expect(0)
    eq(who_of(ws, "a")["note"], "é" * 200, "the note of a command")
    agent = client(ws, "codex", "--tools", "all", env={"TASUKI_NOTE": "auth"})
    agent.ok("lock_acquire", kind="name", id="b")
    listed = {one["who"]["label"]: one["who"].get("note") for one in ws.tasuki("agents", "--json").json["agents"]}
    eq((who_of(ws, "b").get("note"), listed["codex"]), ("auth", "auth"), "the note of a server")
    agent.ok("lock_acquire", kind="name", id="c", note="other")
    eq(who_of(ws, "c")["note"], "other", "its later note")
    agent.close()


@test("a look computes no who: it reads no file of another process and opens no card")
def _(ws):
    from common import strace_of
    ws.tasuki("lock", "acquire", "name", "a", "--pid", sleeper(ws).pid).expect(0)
    trace = ws.path / "trace"
    ws.run([strace_of(ws), "-f", "-qq", "-o", trace, "-e", "trace=openat,open,readlink", ws.binary, "lock", "check", "name", "a"]).expect(4)
    text = "\n".join(line for line in trace.read_text().splitlines() if "/proc/self/" not in line)
    assert "/etc/passwd" not in text and "agents/" not in text and "cmdline" not in text, text


main(__name__)
