"""The advice of refusals and of help: it reaches the caller, fits its skin, and shows nothing that it should not."""

import json
import os
import pathlib
import sqlite3
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import Agent  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from http_common import Server  # noqa: E402
from requests_common import GATE, add, call, go, spawn  # noqa: E402


@test("the actions of the catalogue are in the error, in the caller's language, over --json and HTTP")
def _(ws):
    add(ws, "RQ-1", GATE)
    runner = spawn(ws, "queue", "run")
    ws.until_file("up")
    for lang, first in (("en", "Check whether it was started in another tab or window"),
                        ("ja", "別タブ/別ウィンドウで起動していないか確認")):
        error = ws.tasuki("queue", "run", "--json", "--lang", lang).expect(4, "QUEUE_IN_PROGRESS").error
        eq((len(error["actions"]), error["actions"][0]), (3, first), f"actions in {lang}")
    error = Server(ws).post("/api/queue/start", headers={"Accept-Language": "ja"}).expect(409).error
    eq(error["actions"][1], "しばらく待つ（TTLで回収されます）", "actions over HTTP")
    go(ws)
    runner.wait(60)


@test("a request whose run has a question is answered; the refusal does not propose to give the run up")
def _(ws):
    add(ws, "RQ-1", "tasuki task ask 'Which one?'")
    run = json.loads(call(ws, "request", "run", "RQ-1", code=8).out.splitlines()[-1])["run_id"]
    error = call(ws, "request", "run", "RQ-1", code=8, reason="NEEDS_INPUT").error
    eq(error["next"], [f"tasuki runs show {run}", f"tasuki answer {run} TEXT"], "next")
    text, _ = Agent(ws, "--tools", "all").refused("request_run", request="RQ-1")
    assert "(run_answer)" in text and "--new" not in text, text


@test("a refused answer names no option of the command line, as agents have none")
def _(ws):
    add(ws, "RQ-1", "tasuki task ask 'Which one?'")
    run = json.loads(call(ws, "request", "run", "RQ-1", code=8).out.splitlines()[-1])["run_id"]
    text, error = Agent(ws, "--tools", "all").refused("run_answer", run=run, yes=True, text="x")
    eq(error["reason_code"], "INVALID_INPUT", "the code")
    assert "--" not in error["message"], text


@test("DOCTOR_FAILED has the name of the check, which is the same in every language")
def _(ws):
    add(ws, "RQ-1", "true")
    for name in ("state.db-wal", "state.db-shm"):
        (ws.path / ".aiflow" / name).unlink(missing_ok=True)
    (ws.path / ".aiflow/state.db").write_bytes(b"garbage" * 1000)
    names = {ws.tasuki("request", "run", "RQ-1", "--json", "--lang", lang).expect(3, "DOCTOR_FAILED").error["context"]["check"]
             for lang in ("en", "ja", "zh")}
    checks = {check["name"] for check in ws.tasuki("doctor", "--json").json["checks"]}
    assert len(names) == 1 and names <= checks, (names, checks)


@test("a database that is busy for too long: the process that keeps it is named, and nothing is said of permissions", slow=True)
def _(ws):
    ws.tasuki("own", "claim", "W").expect(0)
    for begin in ("BEGIN EXCLUSIVE", "BEGIN IMMEDIATE"):
        db = sqlite3.connect(ws.path / ".aiflow/state.db", isolation_level=None)
        db.execute(begin)
        error = ws.tasuki("own", "claim", "V", "--json", timeout=120).expect(3, "ENVIRONMENT").error
        db.close()
        eq((error["context"]["pid"], error["next"]), (str(os.getpid()), [f"ps -p {os.getpid()}"]), begin)
        assert "ermission" not in json.dumps(error), error


@test("a line of a file is quoted if the file is a flow; a refusal shows nothing of others")
def _(ws):
    (ws.path / "token").write_text("tasks: s3cret-in-a-file\n")
    agent = Agent(ws, "--tools", "all")
    text, _ = agent.refused("flow_validate", flow="token")
    assert "s3cret" not in text and "token:" in text, text
    (ws.path / ".aiflow/flows").mkdir(exist_ok=True)
    for path in ("token", ".aiflow/flows/../../token", str(ws.path / ".aiflow/flows/../../token")):
        assert "s3cret" not in ws.tasuki("flow", "validate", path).err, path
    (ws.path / "token").write_text("s3cret-in-a-file\n")
    text, _ = agent.refused("flow_validate", flow="token")
    assert "s3cret" not in text, text
    (ws.path / "flow.yaml").write_text("tasks: 7\n")
    assert "tasks: 7" in ws.tasuki("flow", "validate", "flow.yaml").err


@test("help says how many documents --json prints")
def _(ws):
    for words in (("request", "run"), ("queue", "run")):
        assert "One JSON document per line" in ws.tasuki(*words, "--help", "--all").out, words
    assert "One JSON document on stdout" in ws.tasuki("lock", "list", "--help", "--all").out
    add(ws, "RQ-1", "true")
    for line in call(ws, "queue", "run").out.splitlines():
        json.loads(line)


@test("a phase of a process is in the reader's language")
def _(ws):
    ws.tasuki("proc", "create", "web", "--", "sleep", "1000").expect(0)
    ws.tasuki("proc", "start", "web").expect(0)
    for lang, word in (("en", "ready"), ("ja", "準備完了"), ("zh", "就绪")):
        assert word in ws.tasuki("proc", "list", "--lang", lang).out, lang
    eq(ws.tasuki("proc", "status", "web", "--json", "--lang", "ja").json["phase"], "ready", "the value for programs")
    ws.tasuki("proc", "stop", "web").expect(0)


@test("refused input proposes the help of its command where nothing better is known, over HTTP, too; a conflict and a missing thing name the look")
def _(ws):
    for words, right in ((["--lang", "fr", "status"], "--help"), (["status", "--root"], "--help"), (["channel", "get", "x"], "channel get --help"),
                         (["lock", "acquire", "name", "a", "--pid", "2000000000"], "lock acquire --help"), (["workers", "drain", "w"], "workers drain --help"),
                         (["lock", "check", "deploy"], "lock check name deploy"), (["lock", "check", "board", "deploy"], "lock check --help")):
        eq(ws.tasuki("--json", *words).expect(2).error["next"], [f"tasuki {right}"], words)
    eq(ws.tasuki("--json", "lock", "run", "a", "--", "./absent").expect(127).error["next"], [], "a command that is not ours")
    eq(ws.tasuki("--json", "lock", "renew", "name", "a").expect(5).error["next"], ["tasuki lock acquire name a"], "a lock that is not there")
    eq(ws.tasuki("--json", "confirm", "absent").expect(5).error["next"], ["tasuki status"], "a question that is over")
    ws.tasuki("request", "add", "x", "--id", "RQ-1", "--", "true").expect(0)
    for words in (["add", "x", "--id", "RQ-1", "--", "true"], ["edit", "RQ-1", "--title", "y", "--expected-updated-at", "2020-01-01T00:00:00.000Z"]):
        eq(ws.tasuki("--json", "request", *words).expect(4).error["next"], ["tasuki request show RQ-1"], words)
    server = Server(ws)
    for answer, right in ((server.post("/api/requests", {"title": "x", "priority": "P9"}), "request add --help"), (server.post("/api/doctor", {"more": 1}), "doctor --help"),
                          (server.get("/api/locks/board/deploy"), "lock check --help"), (server.ask("PUT", "/api/requests/RQ-1", {}), "request edit --help")):
        eq(answer.expect(400, "INVALID_INPUT").error["next"], [f"tasuki {right}"], right)
    stale = {"title": "y", "expected_updated_at": "2020-01-01T00:00:00.000Z"}
    eq(server.ask("PUT", "/api/requests/RQ-1", stale).expect(409, "CONFLICT").error["next"], ["tasuki request show RQ-1"], "a conflict")
    server.stop()
    agent = Agent(ws)
    text = agent.refused("lock_acquire", kind="board", id="a")[0]
    agent.close()
    assert "--help" not in text, f"an agent has the schema: {text}"


main(__name__)
