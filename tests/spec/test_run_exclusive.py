"""Flows that run once at a time: those of .aiflow/flows/, and any with `exclusive: true`."""

import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import Agent  # noqa: E402
from flows import last_document, with_tool  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from harness.processes import open_files_of  # noqa: E402
from harness.screen import tasuki_screen  # noqa: E402
from http_common import Server  # noqa: E402
from requests_common import GATE, call, go, kill, no_locks, spawn, status, trace  # noqa: E402

LOCK = "flow:.aiflow/flows/nightly.yaml"


def keep(ws, name="nightly", command=GATE, more=""):
    """A flow in .aiflow/flows/."""
    folder = ws.path / ".aiflow/flows"
    folder.mkdir(exist_ok=True)
    indented = command.replace("\n", "\n      ")
    (folder / f"{name}.yaml").write_text(f"{more}tasks:\n  work:\n    run: |\n      {indented}\n")


def begin(ws, *words):
    """The flow runs until the file `go` is there. (Popen, run id)"""
    proc = spawn(ws, "run", *(words or ("nightly",)))
    ws.until_file("up")
    locks = call(ws, "lock", "list").json["locks"]
    return proc, locks[0]["holder"]["run_id"]


def refused(ws, *words, reason="RUN_IN_PROGRESS", code=4):
    return call(ws, "run", *words, code=code, reason=reason).json


def until_follows(ws, proc, run):
    """The program waits for the run's end: it has the run's `life` open."""
    life = str(ws.path / ".aiflow/runs" / run / "life")
    ws.until(lambda: life in open_files_of(proc.pid), "it follows the run")


@test("a second run of a flow in .aiflow/flows/ is refused with the run and its starter, whatever names the file; then the lock is free")
def _(ws):
    keep(ws)
    (ws.path / "sub").mkdir()
    (ws.path / "link.yaml").symlink_to(".aiflow/flows/nightly.yaml")
    proc, run = begin(ws)
    for words in (["nightly"], [".aiflow/flows/nightly.yaml"], ["link.yaml"], [str(ws.path / ".aiflow/flows/nightly.yaml")]):
        answer = refused(ws, *words)
        error = answer["error"]
        eq((error["category"], error["context"]["run_id"], answer["latest_run"]), ("EXECUTION", run, f"/api/runs/{run}"), "the refusal")
        eq((error["context"]["kind"], error["context"]["id"], error["context"]["flow"]), ("name", LOCK, LOCK[5:]), "its lock")
        eq(error["next"], [f"tasuki runs show {run}", f"tasuki run {words[0]} --on-conflict attach"], "what to do")
        assert error["context"]["holder"]["who"]["label"] in error["message"], error["message"]
    ws.tasuki("run", "nightly", cwd=ws.path / "sub").expect(4)
    eq(call(ws, "runs", "show", run).json["lock"]["name"], LOCK, "the stage's lock")
    go(ws)
    eq(ws.finish(proc).code, 0, "the first run")
    no_locks(ws)
    eq(trace(ws), [run], "what was run")


@test("exclusive: true makes any flow exclusive, exclusive: false allows one of .aiflow/flows/ several times; --concurrent allows a second run")
def _(ws):
    (ws.path / "own.yaml").write_text("exclusive: true\ntasks: {a: 'echo $$ >> up; while ! test -e go; do sleep 0.01; done'}\n")
    proc, run = begin(ws, "own.yaml")
    eq(refused(ws, "own.yaml")["error"]["context"]["id"], "flow:own.yaml", "its lock")
    keep(ws, "free", "echo $TASUKI_RUN_ID >> trace", "exclusive: false\n")
    keep(ws, "busy", "tasuki run free --quiet")
    call(ws, "run", "busy")
    eq(len(trace(ws)), 1, "a flow that others run")
    second = spawn(ws, "run", "own.yaml", "--concurrent")
    ws.until(lambda: len(call(ws, "runs", "list", "--status", "RUNNING").json["runs"]) == 2, "two run")
    go(ws)
    eq((ws.finish(proc).code, ws.finish(second).code), (0, 0), "both")
    call(ws, "run", "-", input="exclusive: true\ntasks: {a: 'true'}\n", code=2, reason="INVALID_INPUT")
    call(ws, "run", "-", "--concurrent", input="exclusive: true\ntasks: {a: 'true'}\n")
    answer = call(ws, "run", "bad.yaml", code=5, reason="NOT_FOUND")
    (ws.path / "bad.yaml").write_text("exclusive: maybe\ntasks: {a: 'true'}\n")
    answer = call(ws, "flow", "validate", "bad.yaml", code=2, reason="FLOW_INVALID")
    assert "true, false" in answer.json["error"]["message"], answer.json["error"]["message"]
    no_locks(ws)


@test("--concurrent beside another rule than fail is refused: it would run at once and not after")
def _(ws):
    (ws.path / "own.yaml").write_text("exclusive: true\ntasks: {a: 'true'}\n")
    for rule in ("attach", "replace", "after"):
        refused = ws.tasuki("run", "own.yaml", "--concurrent", "--on-conflict", rule).expect(2)
        assert "--on-conflict and --concurrent cannot be given together" in refused.err and "next      tasuki run --help\n" in refused.err, refused
    eq(ws.tasuki("runs", "list", "--json").json["runs"], [], "runs")
    ws.tasuki("run", "own.yaml", "--concurrent", "--on-conflict", "fail").expect(0)


@test("run --on-conflict attach follows the run and has its outcome; replace cancels it after a yes and runs anew")
def _(ws):
    keep(ws)
    proc, run = begin(ws)
    follower = spawn(ws, "run", "nightly", "--on-conflict", "attach")
    until_follows(ws, follower, run)
    refused(ws, "nightly", "--on-conflict", "replace", reason="NEEDS_CONFIRMATION", code=6)
    go(ws)
    document = last_document(ws.finish(follower))
    eq((document["run_id"], document["status"], document["attached"]), (run, "DONE", True), "the followed run")
    eq(ws.finish(proc).code, 0, "the run itself")
    (ws.path / "go").unlink()
    (ws.path / "up").unlink()
    proc, run = begin(ws)
    replacing = spawn(ws, "run", "nightly", "--on-conflict", "replace", "--yes")
    eq(ws.finish(proc).code, 7, "the replaced run")
    go(ws)
    second = last_document(ws.finish(replacing))
    eq((second["status"], status(ws, run)), ("DONE", "CANCELLED"), "both")
    no_locks(ws)


@test("a question about a flow whose name has brackets still shows which answers it takes")
def _(ws):
    keep(ws, "a[1]")
    proc, run = begin(ws, ".aiflow/flows/a[1].yaml")
    screen = tasuki_screen(ws, "run", ".aiflow/flows/a[1].yaml", "--on-conflict", "replace", cols=140)
    screen.until(lambda text: "[y/N]" in text, "the question")
    screen.keys("n", "Enter")
    eq(screen.ended(), 6, "exit code")
    go(ws)
    eq(ws.finish(proc).code, 0, "the run goes on")


@test("attach is refused where the run that is there has other values or tasks: it would not do what was asked")
def _(ws):
    keep(ws, more="params: {who: {default: me}}\n")
    proc, run = begin(ws)
    for other in (["--set", "who=x"], ["work"]):
        for words in (other, [*other, "--detach"]):
            error = refused(ws, "nightly", *words, "--on-conflict", "attach")["error"]
            eq(("other values or tasks" in error["message"], run in error["message"]), (True, True), error["message"])
            eq(error["next"], [f"tasuki runs show {run}", f"tasuki wait run {run}"], "what to do")
    follower = spawn(ws, "run", "nightly", "--set", "who=me", "--on-conflict", "attach")
    until_follows(ws, follower, run)
    go(ws)
    eq(last_document(ws.finish(follower))["status"], "DONE", "the same values, given by hand")
    eq(ws.finish(proc).code, 0, "the run itself")
    eq(trace(ws), [run], "what was run")
    no_locks(ws)


@test("a task that runs its own flow is refused, with attach and replace too: it would wait for itself")
def _(ws):
    keep(ws, command="for rule in fail attach replace; do tasuki run nightly --on-conflict $rule --yes || echo $? >> codes; done")
    call(ws, "run", "nightly")
    eq((ws.path / "codes").read_text().split(), ["4", "4", "4"], "exit codes")


@test("a runner that was killed leaves a lock that the next run takes, and processes that it ends; resume takes the lock again")
def _(ws):
    keep(ws, command="test -e left || setsid sh -c 'echo $$ >> left; exec sleep 300' & " + GATE)
    proc, run = begin(ws)
    ws.until_file("left")
    left = int((ws.path / "left").read_text())
    kill(ws, proc.pid)
    eq(status(ws, run), "INTERRUPTED", "the killed run")
    go(ws)
    second = last_document(call(ws, "run", "nightly"))
    eq((second["status"], second["run_id"] != run), ("DONE", True), "the next run")
    ws.until(lambda: not ws.alive(left), "the leftover is ended")
    eq([e["data"]["kind"] for e in ws.events("LOCK_STALE_RECOVERED")][:1], ["name"], "its recovery")
    for one in ("go", "up"):
        (ws.path / one).unlink()
    resumed = spawn(ws, "resume", run)
    ws.until_file("up")
    refusal = refused(ws, "nightly")["error"]
    eq(refusal["context"]["run_id"], run, "the run that is in the way")
    call(ws, "resume", run, code=4, reason="RUN_IN_PROGRESS")
    go(ws)
    eq(last_document(ws.finish(resumed))["status"], "DONE", "the resumed run")
    no_locks(ws)


@test("a resume that finds another run of its flow is refused; nothing has changed")
def _(ws):
    keep(ws, command="test -e go || exit 3; " + GATE.replace("go;", "gone;"))
    failed = last_document(call(ws, "run", "nightly", code=7))["run_id"]
    go(ws)
    proc, run = begin(ws)
    before = (ws.path / ".aiflow/runs" / failed / "journal").read_bytes()
    refusal = call(ws, "resume", failed, code=4, reason="RUN_IN_PROGRESS").json["error"]
    eq(refusal["next"], [f"tasuki runs show {run}", f"tasuki wait run {run}"], "what to do")
    eq((ws.path / ".aiflow/runs" / failed / "journal").read_bytes(), before, "its journal")
    (ws.path / "gone").touch()
    eq(ws.finish(proc).code, 0, "the run that was in the way")


@test("a lock on the flow's name that somebody took by hand keeps the flow from running; its refusal is the lock's")
def _(ws):
    keep(ws, command="true")
    token = call(ws, "lock", "acquire", "name", LOCK).json["token"]
    refused(ws, "nightly", reason="LOCK_HELD")
    refused(ws, "nightly", "--on-conflict", "attach", reason="LOCK_HELD")
    call(ws, "lock", "release", "name", LOCK, "--token", token)
    call(ws, "run", "nightly")


@test("a run whose flow's lock was taken by force is cancelled with LOCK_LOST", slow=True)
def _(ws):
    keep(ws)
    proc, run = begin(ws)
    call(ws, "lock", "acquire", "name", LOCK, "--force", "--yes")
    result = ws.finish(proc)
    eq((result.code, last_document(result)["reason_code"]), (4, "LOCK_LOST"), "the run")
    eq(call(ws, "lock", "list").json["locks"][0]["id"], LOCK, "the new holder's lock stays")


@test("over HTTP and MCP: the same refusal, attach, replace and concurrent")
def _(ws):
    keep(ws)
    proc, run = begin(ws)
    server, agent = Server(ws, env=with_tool(ws)), Agent(ws, "--tools", "core", env=with_tool(ws))
    answer = server.post("/api/flows/run", {"flow": "nightly"}).expect(409).json
    eq((answer["error"]["reason_code"], answer["latest_run"]), ("RUN_IN_PROGRESS", f"/api/runs/{run}"), "over HTTP")
    text, error = agent.refused("flow_run", flow="nightly")
    eq((error["context"]["run_id"], text.split(":")[0]), (run, "NOT DONE"), "over MCP")
    answer = server.post("/api/flows/run", {"flow": "nightly", "on_conflict": "replace"}).expect(409).json
    eq(answer["error"]["reason_code"], "NEEDS_CONFIRMATION", "replace without a yes")
    go(ws)
    answer = server.post("/api/flows/run", {"flow": "nightly", "on_conflict": "attach"}).json
    assert answer["status"] == "DONE", answer
    eq(ws.finish(proc).code, 0, "the first run")
    eq(agent.ok("flow_run", flow="nightly", on_conflict="attach")["status"], "DONE", "attach to nothing runs it")
    (ws.path / "go").unlink()
    (ws.path / "up").unlink()
    proc, run = begin(ws)
    poster = threading.Thread(target=server.post, args=("/api/flows/run", {"flow": "nightly", "on_conflict": "replace", "confirm": True}))
    poster.start()
    eq(ws.finish(proc).code, 7, "the replaced run")
    go(ws)
    poster.join()
    eq((status(ws, run), call(ws, "runs", "list").json["runs"][0]["status"]), ("CANCELLED", "DONE"), "both runs")


main(__name__)
