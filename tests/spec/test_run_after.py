"""`--on-conflict after`: one run follows the run that is there, the newest wins, and it is recorded before the answer."""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import Agent  # noqa: E402
from flows import last_document, with_tool  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from harness.race import race  # noqa: E402
from http_common import Server  # noqa: E402
from requests_common import GATE, add, call, go, kill, no_locks, runs_of, spawn, status  # noqa: E402

FLOW = "tasks: {work: {run: '%s; echo $(tasuki channel get n) >> trace'}}\n" % GATE.partition("; echo $TASUKI")[0]


def keep(ws, text=FLOW, name="nightly"):
    folder = ws.path / ".aiflow/flows"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.yaml").write_text(text)


def begin(ws):
    proc = spawn(ws, "run", "nightly", "--set", "n=1")
    ws.until_file("up")
    return proc, call(ws, "runs", "list").json["runs"][0]["run_id"]


def follow(ws, n, **options):
    return call(ws, "run", "nightly", "--set", f"n={n}", "--on-conflict", "after", **options)


def pending(ws):
    """The pending runs that are recorded."""
    found = []
    for path in (ws.path / ".aiflow/after").glob("[!.]*"):
        with contextlib.suppress(FileNotFoundError):  # it has just begun
            found.append(json.loads(path.read_text()))
    return found


def trace(ws):
    path = ws.path / "trace"
    return path.read_text().split() if path.exists() else []


def settled(ws, count):
    """So many runs are there, all are DONE, and nothing is left."""
    ws.until(lambda: [r["status"] for r in runs_of(ws)] == ["DONE"] * count and not pending(ws), f"{count} runs are done")
    ws.until(lambda: call(ws, "lock", "list").json["locks"] == [], "no lock is left")


@test("the newest of several pending runs begins when the run has ended, once, in the directory of the one that asked")
def _(ws):
    keep(ws, FLOW.replace("echo $(", "pwd >> trace; echo $("))
    proc, run = begin(ws)
    (ws.path / "sub").mkdir()
    first = last_document(follow(ws, 2))
    eq((first["run_id"], first["status"], first["flow"], first["replaced"]), (run, "PENDING", ".aiflow/flows/nightly.yaml", False), "the first")
    one = pending(ws)
    eq([(p["id"], p["after"], p["lock"]) for p in one], [(first["pending"], run, "flow:.aiflow/flows/nightly.yaml")], "its record")
    second = last_document(follow(ws, 3, cwd=ws.path / "sub"))
    eq((second["replaced"], [p["id"] for p in pending(ws)]), (True, [second["pending"]]), "the second")
    shown = call(ws, "runs", "show", run).json["pending"]
    eq((shown["id"], shown["after"]), (second["pending"], run), "runs show")
    assert shown["who"]["label"] in ws.tasuki("runs", "show", run).expect(0).out
    go(ws)
    eq(ws.finish(proc).code, 0, "the run that was there")
    (ws.path / "sub" / "go").touch()
    ws.until(lambda: len(runs_of(ws)) == 2, "the pending one begins")
    settled(ws, 2)
    eq((trace(ws), (ws.path / "sub/trace").read_text().split()), ([str(ws.path), "1"], [str(ws.path / "sub"), "3"]), "what ran where")
    eq([e["data"]["replaced"] for e in ws.events("run.pending")], [None, first["pending"]], "events")


@test("a request, too; a run of it that asks is answered first")
def _(ws):
    ask = 'answer=$(tasuki task ask "Go?" --type approval); test -n "$answer" || exit 0; '
    add(ws, "RQ-1", GATE.partition("; echo $TASUKI")[0] + "; test -e asked || { " + ask + "touch asked; }; echo x >> trace")
    proc = spawn(ws, "request", "run", "RQ-1")
    ws.until_file("up")
    answer = last_document(call(ws, "request", "run", "RQ-1", "--on-conflict", "after"))
    eq((answer["status"], answer["request_id"]), ("PENDING", "RQ-1"), "the answer")
    go(ws)
    eq(ws.finish(proc).code, 8, "the run asks")
    (ws.path / "other.yaml").write_text("tasks: {a: 'true'}\n")
    call(ws, "run", "other.yaml")
    eq((len(pending(ws)), len(runs_of(ws, "RQ-1"))), (1, 1), "it still waits")
    call(ws, "answer", answer["run_id"], "--yes")
    ws.until(lambda: [r["status"] for r in runs_of(ws, "RQ-1")] == ["DONE", "DONE"] and not pending(ws), "both are done")
    eq(trace(ws), ["x", "x"], "what ran")


@test("without a run that is there, after runs it at once; a flow that may run several times never waits")
def _(ws):
    keep(ws)
    go(ws)
    eq(last_document(follow(ws, 1))["status"], "DONE", "the first")
    (ws.path / "free.yaml").write_text("tasks: {a: 'true'}\n")
    eq(last_document(call(ws, "run", "free.yaml", "--on-conflict", "after"))["status"], "DONE", "a free one")
    eq(pending(ws), [], "pending")


@test("after the runner's SIGKILL the next run, resume or queue starts it: any of them")
def _(ws):
    (ws.path / "other.yaml").write_text("tasks: {a: 'true'}\n")
    keep(ws)
    done = last_document(call(ws, "run", "other.yaml"))["run_id"]
    for count, words in enumerate((["run", "other.yaml"], ["resume", done], ["queue", "run"]), 1):
        for name in ("go", "up", "trace"):
            (ws.path / name).unlink(missing_ok=True)
        proc, run = begin(ws)
        follow(ws, 2)
        kill(ws, proc.pid)
        go(ws)
        call(ws, "runs", "list")
        eq(len(pending(ws)), 1, "a look starts nothing")
        call(ws, *words)
        ws.until(lambda: trace(ws) == ["2"] and not pending(ws), "it runs")
        eq(status(ws, run), "INTERRUPTED", "the killed one")
        ws.until(lambda: call(ws, "lock", "list").json["locks"] == [], "its end")


def few_runners(ws):
    """Each process that begins or ends a run starts at most one for each pending run."""
    count = len(os.listdir(ws.path / ".aiflow/runners"))
    assert count <= 8, f"{count} runners were started"


@test("pending runs of two flows whose runners died do not start each other: one runner for each")
def _(ws):
    (ws.path / "other.yaml").write_text("tasks: {a: 'true'}\n")
    begun = []
    for name in ("nightly", "weekly"):
        keep(ws, FLOW.replace("up", f"up.{name}"), name)
        begun.append(spawn(ws, "run", name, "--set", "n=1"))
        ws.until_file(f"up.{name}")
    for name in ("nightly", "weekly"):
        call(ws, "run", name, "--set", "n=2", "--on-conflict", "after")
    for proc in begun:
        kill(ws, proc.pid)
    go(ws)
    call(ws, "run", "other.yaml")
    ws.until(lambda: trace(ws) == ["2", "2"] and not pending(ws), "both have run")
    few_runners(ws)


@test("a pending run of a request waits for the run that was interrupted, which its runner continues first")
def _(ws):
    (ws.path / "other.yaml").write_text("tasks: {a: 'true'}\n")
    add(ws, "RQ-1", GATE)
    proc = spawn(ws, "request", "run", "RQ-1")
    ws.until_file("up")
    call(ws, "request", "run", "RQ-1", "--on-conflict", "after")
    kill(ws, proc.pid)
    go(ws)
    call(ws, "run", "other.yaml")
    settled(ws, 3)
    eq(len(set(trace(ws))), 2, "runs of the request that were executed")
    few_runners(ws)


def start_runner(ws, job):
    """Starts the runner of a pending run, as the end of a run does; its exit code."""
    ours, theirs = socket.socketpair()
    words = 'exec 7<&0 0</dev/null; exec "$1" --root "$2" __detached'
    runner = subprocess.Popen(["sh", "-c", words, "sh", ws.binary, ws.path], stdin=theirs, env=ws.env(with_tool(ws)), cwd=ws.path)
    theirs.close()
    ours.sendall(json.dumps(job).encode())
    ours.shutdown(socket.SHUT_WR)
    code = runner.wait(60)
    ours.close()
    return code


@test("the runner of a pending run that meets another holder leaves it pending: that holder may be about to begin it")
def _(ws):
    add(ws, "RQ-1", GATE)
    proc = spawn(ws, "request", "run", "RQ-1")
    ws.until_file("up")
    call(ws, "request", "run", "RQ-1", "--on-conflict", "after")
    before = pending(ws)
    eq(start_runner(ws, before[0]["job"]), 4, "exit code of a runner whose lock is taken")
    eq((pending(ws), ws.events("run.pending_dropped")), (before, []), "what is pending")
    go(ws)
    ws.finish(proc)
    settled(ws, 2)


@test("a pending run that cannot begin now is tried once, and begins when it can")
def _(ws):
    (ws.path / "other.yaml").write_text("tasks: {a: 'true'}\n")
    begun = []
    for id in ("RQ-1", "RQ-2"):
        add(ws, id, GATE.replace("up", id))
        begun.append(spawn(ws, "request", "run", id))
        ws.until_file(id)
    call(ws, "request", "run", "RQ-1", "--on-conflict", "after")
    (ws.path / ".aiflow/config.yaml").write_text("max_runs: 1\n")
    kill(ws, begun[0].pid)
    call(ws, "run", "other.yaml")
    eq(len(pending(ws)), 1, "pending while there is no room")
    few_runners(ws)
    go(ws)
    ws.finish(begun[1])
    settled(ws, 4)


@test("the next run of the same flow goes first, then the pending one")
def _(ws):
    keep(ws)
    proc, _run = begin(ws)
    follow(ws, 2)
    kill(ws, proc.pid)
    go(ws)
    call(ws, "run", "nightly", "--set", "n=3")
    ws.until(lambda: trace(ws) == ["3", "2"] and not pending(ws), "both run")


@test("runs cancel --pending drops it and the run goes on; replace is newer than what is pending")
def _(ws):
    keep(ws)
    proc, run = begin(ws)
    follow(ws, 2)
    eq(call(ws, "runs", "cancel", run, "--pending").json, {"run_id": run, "status": "RUNNING", "dropped": True}, "dropped")
    eq(call(ws, "runs", "cancel", run, "--pending").json["dropped"], False, "nothing to drop")
    follow(ws, 3)
    replacing = spawn(ws, "run", "nightly", "--set", "n=4", "--on-conflict", "replace", "--yes")
    eq(ws.finish(proc).code, 7, "the replaced run")
    go(ws)
    eq(ws.finish(replacing).code, 0, "the newest")
    eq((trace(ws), pending(ws)), (["4"], []), "what ran")
    eq([e["data"]["why"] for e in ws.events("run.pending_dropped")], ["cancelled", "replaced"], "events")
    no_locks(ws)


@test("a pending run that can never begin is removed with an event; the run before it keeps its outcome")
def _(ws):
    keep(ws)
    proc, _run = begin(ws)
    follow(ws, 2)
    keep(ws, "tasks: {work: {walk: x}}\n")
    go(ws)
    eq(ws.finish(proc).code, 0, "the run")
    eq(([e["data"]["why"] for e in ws.events("run.pending_dropped")], pending(ws)), (["FLOW_INVALID"], []), "its end")


@test("a run may ask for its own successor")
def _(ws):
    keep(ws, "tasks: {work: 'echo $(tasuki channel get n) >> trace; test $(wc -l < trace) -ge 3 || tasuki run nightly --set n=2 --on-conflict after --quiet'}\n")
    call(ws, "run", "nightly", "--set", "n=1")
    settled(ws, 3)
    eq(trace(ws), ["1", "2", "2"], "what ran")


@test("over HTTP and MCP: PENDING, with 202")
def _(ws):
    keep(ws)
    server, agent = Server(ws, env=with_tool(ws)), Agent(ws, "--tools", "core", env=with_tool(ws))
    proc, run = begin(ws)
    answer = server.post("/api/flows/run", {"flow": "nightly", "on_conflict": "after", "set": {"n": "2"}}).expect(202).json
    eq((answer["status"], answer["run_id"]), ("PENDING", run), "over HTTP")
    eq(agent.ok("flow_run", flow="nightly", on_conflict="after", set={"n": 3})["replaced"], True, "over MCP")
    go(ws)
    eq(ws.finish(proc).code, 0, "the run")
    settled(ws, 2)
    eq(trace(ws), ["1", "3"], "what ran")


@test("many ask at the same instant: one at a time, and what was pending last runs exactly once", slow=True)
def _(ws):
    keep(ws, "tasks: {work: 'mkdir busy || echo overlap >> trace; echo $(tasuki channel get n) >> trace; rmdir busy'}\n")
    tool = ws.build / "tasuki"
    os.environ["PATH"] = with_tool(ws)["PATH"]
    for number in range(4):
        commands = [[tool, "run", "nightly", "--json", "--set", f"n={number}.{i}", "--on-conflict", "after"] for i in range(6)]
        answers = race(ws, commands)
        eq({code for code, _ in answers}, {0}, f"exit codes of {answers}")
        ws.until(lambda: not pending(ws) and call(ws, "lock", "list").json["locks"] == [], "all is done")
        lines = [line for line in trace(ws) if line.startswith(f"{number}.")]
        eq((len(lines), "overlap" in trace(ws)), (len(set(lines)), False), f"{lines}: once each, one at a time")
        recorded = [e["data"] for e in ws.events("run.pending")]
        replaced = {r["replaced"] for r in recorded}
        last = [r["id"] for r in recorded if r["id"] not in replaced]
        claimed = [p for p in last if p]
        assert len(lines) <= 6 and claimed, (lines, recorded)
        begun = sum(1 for _, out in answers if '"PENDING"' not in out)
        eq(len(lines) >= begun, True, "those that answered with a run have run")
    kept = [r["id"] for r in (e["data"] for e in ws.events("run.pending"))]
    dropped = {r["replaced"] for r in (e["data"] for e in ws.events("run.pending"))} - {None}
    eq(len(runs_of(ws)), 24 - len(dropped), f"each of {len(kept)} pending runs that no newer one replaced ran, and nothing else twice")
    eq({r["status"] for r in runs_of(ws)}, {"DONE"}, "their status")


main(__name__)
