"""Runs that are started by a server: by an agent's tools over MCP. They outlive the connection; a refusal has everything in it."""

import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from agent import Agent  # noqa: E402
from flows import with_tool  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from http_common import Server  # noqa: E402
from requests_common import GATE, add, call, go, kill, no_locks, parent_of, runs_of, status, trace  # noqa: E402

ASK = 'answer=$(tasuki task ask "Deploy?" --type approval); test -n "$answer" || exit 0; echo $answer >> trace'


def agent(ws, **options):
    return Agent(ws, "--tools", "all", env=with_tool(ws), **options)


def tool(connection, name, **arguments):
    return connection.request("tools/call", {"name": name, "arguments": arguments})["result"]


def structure(answer, is_error=False):
    eq(answer.get("isError", False), is_error, f"isError of {answer['content'][0]['text'][:300]}")
    return answer["structuredContent"]


def children_of(pid, are_zombies):
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            stat = pathlib.Path(f"/proc/{name}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if (stat[0] == "Z") == are_zombies and int(stat[1]) == pid:
            found.append(int(name))
    return found


@test("request_run answers with the run that has begun, which is under a holder and outlives a killed server")
def _(ws):
    add(ws, "RQ-1", GATE)
    server = agent(ws)
    stage = structure(tool(server, "request_run", request="RQ-1"))
    eq((stage["status"], stage["request_id"]), ("RUNNING", "RQ-1"), "the answer")
    runner = ws.read_lock("request", "RQ-1")["pid"]
    eq(pathlib.Path(f"/proc/{parent_of(runner)}/comm").read_text().strip(), "tasuki-hold", "its parent")
    kill(ws, server.proc.pid)
    eq((ws.alive(runner), status(ws, stage["run_id"])), (True, "RUNNING"), "the run")
    go(ws)
    ws.until(lambda: status(ws, stage["run_id"]) == "DONE", "it is done")
    ws.until(lambda: not ws.alive(runner), "the runner ends")
    no_locks(ws)


@test("a client that runs a request whose run was interrupted goes on with it, over HTTP and MCP; new: true begins anew")
def _(ws):
    server, connection = Server(ws, env=with_tool(ws)), agent(ws)
    ways = [lambda **more: structure(tool(connection, "request_run", request="RQ-1", **more)),
            lambda **more: server.post("/api/requests/RQ-1/run", more).expect(202).json]
    add(ws, "RQ-1", "echo $$ >> up; sleep 300")
    ids = []
    for number, (way, more) in enumerate([(ways[0], {}), (ways[1], {}), (ways[0], {}), (ways[1], {"new": True})], 1):
        ids.append(way(**more)["run_id"])
        ws.until(lambda: len((ws.path / "up").read_text().split()) == number if (ws.path / "up").exists() else False, "it runs")
        kill(ws, ws.read_lock("request", "RQ-1")["pid"])
        ws.until(lambda: status(ws, ids[-1]) == "INTERRUPTED", "it is interrupted")
    eq((ids[1:3], ids[3] != ids[0], status(ws, ids[0])), ([ids[0], ids[0]], True, "CANCELLED"), "the runs")


@test("a refusal begins with the verdict, and has the seed's keys and latest_run in its structure")
def _(ws):
    add(ws, "RQ-1", GATE)
    server = agent(ws)
    id = structure(tool(server, "request_run", request="RQ-1"))["run_id"]
    answer = tool(server, "request_run", request="RQ-1")
    refusal = structure(answer, is_error=True)
    assert answer["content"][0]["text"].startswith("NOT STARTED: "), answer
    eq((refusal["error"]["reason_code"], refusal["error"]["category"], refusal["error"]["context"]["run_id"], refusal["latest_run"]),
       ("RUN_IN_PROGRESS", "EXECUTION", id, f"/api/runs/{id}"), "the refusal")
    attached = structure(tool(server, "request_run", request="RQ-1", on_conflict="attach"))
    eq((attached["run_id"], attached["attached"], attached["status"]), (id, True, "RUNNING"), "attached")
    answer = tool(server, "request_run", request="RQ-1", on_conflict="replace")
    eq(structure(answer, is_error=True)["error"]["reason_code"], "NEEDS_CONFIRMATION", "replace needs a person")
    eq(status(ws, id), "RUNNING", "the run")
    go(ws)
    ws.until(lambda: status(ws, id) == "DONE", "it is done")


@test("12 calls at once for one request in one server: one run, 11 refusals that name it; nothing is left of their holders", slow=True)
def _(ws):
    add(ws, "RQ-1", GATE)
    server = agent(ws)
    numbers = [server.begin("tools/call", {"name": "request_run", "arguments": {"request": "RQ-1"}}) for _ in range(12)]
    answers = [server.answer(number)["result"] for number in numbers]
    won, = [a["structuredContent"] for a in answers if not a.get("isError")]
    eq({a["structuredContent"]["error"]["context"]["run_id"] for a in answers if a.get("isError")}, {won["run_id"]}, "whom they name")
    go(ws)
    ws.until(lambda: status(ws, won["run_id"]) == "DONE", "it is done")
    eq((len(trace(ws)), len(runs_of(ws))), (1, 1), "executions and runs")
    ws.until(lambda: not children_of(server.proc.pid, are_zombies=False), "all of their holders have ended")
    structure(tool(server, "request_run", request="RQ-1"))
    assert len(children_of(server.proc.pid, are_zombies=True)) <= 1, "the next one collects them"


@test("flow_run waits for the end; a question is an answer; run_answer goes on without the server")
def _(ws):
    server = agent(ws)
    (ws.path / "good.yaml").write_text("tasks: {a: 'echo a >> trace'}\n")
    eq(structure(tool(server, "flow_run", flow="good.yaml"))["status"], "DONE", "a good one")
    (ws.path / "bad.yaml").write_text("tasks: {a: 'exit 3'}\n")
    eq(structure(tool(server, "flow_run", flow="bad.yaml"), is_error=True)["status"], "FAILED", "a bad one")
    eq(structure(tool(server, "flow_run", flow="nowhere"), is_error=True)["error"]["reason_code"], "NOT_FOUND", "none")
    add(ws, "RQ-1", ASK)
    id = structure(tool(server, "request_run", request="RQ-1"))["run_id"]
    ws.until(lambda: status(ws, id) == "NEEDS_INPUT", "it asks")
    eq(structure(tool(server, "run_answer", run=id, yes=True, wait=True))["status"], "DONE", "after the answer")
    refusal = structure(tool(server, "run_answer", run=id, yes=True), is_error=True)
    eq(refusal["error"]["reason_code"], "ALREADY_ANSWERED", "a second answer")
    add(ws, "RQ-2", 'x=$(tasuki task ask Name?); test -n "$x" || exit 0; echo $x >> trace')
    id = structure(tool(server, "request_run", request="RQ-2"))["run_id"]
    ws.until(lambda: status(ws, id) == "NEEDS_INPUT", "it asks")
    given = structure(tool(server, "run_answer", run=id, answer="Ann"))
    eq(given["answer"], "Ann", "the answer, called as the result calls it")
    eq(os.readlink(f"/proc/{server.proc.pid}/cwd"), str(ws.path), "where the server is")


@test("queue_run goes on by itself, queue_next explains, queue_stop ends it")
def _(ws):
    add(ws, "RQ-1", GATE)
    add(ws, "RQ-2", "true")
    server = agent(ws)
    eq(structure(tool(server, "queue_next"))["next"]["id"], "RQ-1", "next")
    begun = structure(tool(server, "queue_run"))
    eq((begun["status"], begun["ran"][0]["request_id"]), ("RUNNING", "RQ-1"), "the answer")
    refusal = structure(tool(server, "queue_run"), is_error=True)
    eq(refusal["error"]["reason_code"], "QUEUE_IN_PROGRESS", "a second one")
    eq(structure(tool(server, "queue_stop"))["status"], "stopping", "stop")
    go(ws)
    ws.until(lambda: call(ws, "queue", "status").json["status"] == "idle", "it stops")
    eq(call(ws, "queue", "status").json["last"]["reason"], "STOPPED", "why")
    last = structure(tool(server, "queue_run", once=True))
    ws.until(lambda: call(ws, "queue", "status").json["status"] == "idle", "it ends")
    eq(last["ran"][0]["request_id"], "RQ-2", "the next one")


@test("request_add and request_show: what an agent writes down is a file")
def _(ws):
    server = agent(ws)
    one = structure(tool(server, "request_add", title="Build", run=["make", "all"], depends_on=["RQ-a"], priority="P1"))
    eq((one["status"], one["run"], one["depends_on"]), ("blocked", ["make", "all"], ["RQ-a"]), "the answer")
    eq(structure(tool(server, "request_show", request=one["id"]))["title"], "Build", "shown")
    eq([r["id"] for r in structure(tool(server, "request_list"))["requests"]], [one["id"]], "listed")
    assert (ws.path / one["path"]).exists()


main(__name__)
