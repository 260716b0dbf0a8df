"""Files that cannot be read: nobody takes that for silence, or for nothing being there."""

import os
import pathlib
import shutil
import sqlite3
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import TASKS, Agent  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from http_common import Server  # noqa: E402

TRAIL = ".aiflow/events.ndjson"


def break_trail(ws):
    """Where the trail was is a folder."""
    (ws.path / "new").mkdir()
    os.rename(ws.path / TRAIL, ws.path / "trail")
    os.rename(ws.path / "new", ws.path / TRAIL)


@test("a stream ends when the trail cannot be read, and a new one does, too; neither is silent")
def _(ws):
    ws.tasuki("lock", "acquire", "name", "a").expect(0)
    server = Server(ws)
    live = server.stream("/api/events").hello()
    filtered = server.stream("/api/events?type=lock.acquired").hello()
    break_trail(ws)
    for stream in (live, filtered):
        eq(list(stream), [], "events before the end of the stream")
    eq(list(server.stream("/api/events").hello()), [], "events of a new stream before its end")


@test("a trail that cannot be written is reported once for each command, not once for each event")
def _(ws):
    break_trail(ws)
    for words in (["proc", "create", "web", "--", "true"], ["run", "f.yaml"], ["queue", "add", "--", "true"]):
        (ws.path / "f.yaml").write_text("tasks: {a: {run: 'true'}, b: {run: 'true'}}\n")
        eq(ws.tasuki(*words).expect(0).err.count("Cannot append to"), 1, words)


@test("agents that listen look for themselves when the trail cannot be read")
def _(ws):
    ws.tasuki("lock", "acquire", "name", "a").expect(0)
    agent = Agent(ws, "--tools", "all")
    uri = agent.request("resources/list")["result"]["resources"][0]["uri"]
    agent.request("resources/subscribe", {"uri": uri})
    break_trail(ws)
    agent.until(lambda frame: frame.get("method") == "notifications/resources/updated" and frame["params"]["uri"] == uri,
                "a notification")


@test("the damaged record of a task is reported as damaged; only a task that does not exist is unknown")
def _(ws):
    agent = Agent(ws, "--tools", "all", initialize=False)
    (ws.path / ".aiflow/mcp").mkdir(exist_ok=True)
    (ws.path / ".aiflow/mcp/damaged.json").write_text("{not json")
    answers = {name: agent.request("tasks/get", {"taskId": name}, modern=True, capabilities={"extensions": {TASKS: {}}})
               for name in ("damaged", "absent")}
    assert "There is no task" in answers["absent"]["error"]["message"], answers
    assert "cannot be read" in answers["damaged"]["error"]["message"], answers


@test("a flow whose file cannot be looked at is in the list, without a time")
def _(ws):
    flows = ws.path / ".aiflow/flows"
    flows.mkdir(exist_ok=True)
    (flows / "good.yaml").write_text("tasks: {a: {run: 'true'}}\n")
    (flows / "loop.yaml").symlink_to("loop.yaml")
    listed = ws.tasuki("flow", "list", "--json").expect(0).json["flows"]
    eq([(flow["name"], flow["updated_at"] is not None) for flow in listed], [("good", True), ("loop", False)], "flows")
    ws.tasuki("flow", "list").expect(0)


@test("doctor reports a process folder that it cannot open")
def _(ws):
    ws.tasuki("proc", "create", "web", "--", "true").expect(0)
    (ws.path / ".aiflow/processes/loop").symlink_to("loop")
    report = ws.tasuki("doctor", "--json").json
    found = [check for check in report["checks"] if "processes/loop" in str(check) and check["status"] != "PASS"]
    assert found, report


@test("while somebody keeps the database locked, every change is refused with the reason, and no change is made", slow=True)
def _(ws):
    for words in ("own claim w", "proc create p -- true", "proc template create t -- true", "lock acquire name a"):
        ws.tasuki(*words.split()).expect(0)
    (ws.path / "Procfile").write_text("web: true\n")
    base = sqlite3.connect(ws.path / ".aiflow/state.db", isolation_level=None)
    ws.at_close(base.close)

    def rows():
        return {table: base.execute(f"SELECT * FROM {table}").fetchall() for table in ("workflow", "process", "template")}

    before, folders = rows(), sorted(p.name for p in (ws.path / ".aiflow/processes").iterdir())
    base.execute("BEGIN IMMEDIATE")
    changes = ["own claim v", "own release w", "own force-claim w --yes --instance other", "proc create q -- true", "proc update p --cwd /",
               "proc remove p", "proc import Procfile", "proc template create u -- true", "proc template update t --cwd /",
               "proc template delete t", "proc template use t made", "own note busy", "own leave"]
    running = {words: ws.spawn("--json", *words.split()) for words in changes}
    for words, proc in running.items():
        result = ws.finish(proc)
        assert result.code == 3 and "locked" in result.error["message"], f"{words}\n{result}"
    base.execute("COMMIT")
    eq(rows(), before, "what is in the database")
    eq(sorted(p.name for p in (ws.path / ".aiflow/processes").iterdir()), folders, "the directories of processes")


@test("a server whose program was removed says so when it is needed, for a holder or a runner")
def _(ws):
    copy = ws.base / "copy"
    copy.mkdir()
    for name in ("tasuki", "tasuki-hold"):
        shutil.copy(ws.build / name, copy / name)
    (ws.path / "flow.yaml").write_text("tasks: {a: 'true'}\n")
    ws.tasuki("proc", "create", "p", "--", "true").expect(0)
    agent = Agent(ws, command=[copy / "tasuki", "mcp", "--tools", "all"])
    (copy / "tasuki").unlink()
    for tool, arguments in (("start_process", {"id": "p"}), ("flow_run", {"flow": "flow.yaml"})):
        text, error = agent.refused(tool, **arguments)
        eq(error["reason_code"], "ENVIRONMENT", f"{tool}: {text}")
        assert "copy/tasuki" in text, f"{tool}: {text}"


main(__name__)
