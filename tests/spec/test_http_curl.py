"""Issue 6, 2: D39's 409 bodies and Vantage's routes, with curl, as their users call them."""

import json
import threading

from harness.harness import Skip, eq, main, test
from harness.processes import Processes
from http_common import Answer, Server

WAIT = "tasks:\n  wait: {run: 'while ! [ -e go ]; do sleep 0.02; done'}\n"


class Curl:
    def __init__(self, ws, server, lang=None):
        self.ws, self.server, self.lang = ws, server, lang
        if ws.run(["sh", "-c", "command -v curl"]).code:
            raise Skip("there is no curl")

    def __call__(self, method, path, body=None):
        words = ["curl", "-s", "-X", method, "-w", "\n%{http_code}", "-H", f"Authorization: Bearer {self.server.token}",
                 *(["-H", f"Accept-Language: {self.lang}"] if self.lang else []),
                 *(["-d", json.dumps(body)] if body is not None else []), f"{self.server.url}{path}"]
        out = self.ws.run(words, timeout=60).expect(0).out
        text, _, status = out.rpartition("\n")
        return Answer(int(status), {}, text)


def started(ws, *args):
    server = Server(ws, *args)
    return server, Curl(ws, server)


def request_that_waits(ws, curl, id="RQ-1"):
    (ws.path / "wait.yaml").write_text(WAIT)
    curl("POST", "/api/requests", {"title": "wait", "id": id, "flow": "wait.yaml"}).expect(200)


# -- D39 ------------------------------------------------------------------------------------------------------

@test("D39 4.1: a second run of a request is 409 RUN_IN_PROGRESS with the run it conflicts with, and its URL")
def _(ws):
    server, curl = started(ws)
    request_that_waits(ws, curl)
    first = curl("POST", "/api/requests/RQ-1/run").expect(202).json
    refused = curl("POST", "/api/requests/RQ-1/run").expect(409, "RUN_IN_PROGRESS")
    error = refused.error
    eq((error["category"], error["context"]["request_id"], error["context"]["run_id"]),
       ("EXECUTION", "RQ-1", first["run_id"]), "the body")
    eq(refused.json["latest_run"], f"/api/runs/{first['run_id']}", "latest_run, beside the error")
    eq(curl("GET", refused.json["latest_run"]).expect(200).json["status"], "RUNNING", "what the URL leads to")
    assert error["next"], error
    ja = Curl(ws, server, "ja")("POST", "/api/requests/RQ-1/run").expect(409, "RUN_IN_PROGRESS").error["message"]
    assert not ja.isascii(), ja
    (ws.path / "go").touch()
    ws.until(lambda: curl("GET", refused.json["latest_run"]).json["status"] == "DONE", "it ends")
    curl("POST", "/api/requests/RQ-1/run", {"new": True})
    server.stop()


@test("D39 4.2: a second queue is 409 QUEUE_IN_PROGRESS, for run-next and for start")
def _(ws):
    server, curl = started(ws)
    request_that_waits(ws, curl)
    curl("POST", "/api/queue/start").expect(202)
    ws.until(lambda: (ws.path / ".aiflow" / "locks" / "queue.lock.json").exists(), "the queue runs")
    for path in ("/api/queue/start", "/api/queue/run-next"):
        error = curl("POST", path).expect(409, "QUEUE_IN_PROGRESS").error
        eq(error["category"], "EXECUTION", "the category")
    eq(Curl(ws, server, "ja")("POST", "/api/queue/run-next").error["message"][:4], "キュー実", "the seed's words")
    (ws.path / "go").touch()
    ws.until(lambda: not (ws.path / ".aiflow" / "locks" / "queue.lock.json").exists(), "the queue ends")
    server.stop()


@test("D39 10: after a crash of the runner nothing is stuck")
def _(ws):
    server, curl = started(ws)
    request_that_waits(ws, curl)
    run = curl("POST", "/api/requests/RQ-1/run").expect(202).json["run_id"]
    pid = ws.until(lambda: (ws.read_lock("request", "RQ-1") or {}).get("pid"), "the lock's pid")
    ws.run(["kill", "-9", pid]).expect(0)
    ws.until(lambda: curl("GET", f"/api/runs/{run}").json["status"] == "INTERRUPTED", "the run is seen as interrupted")
    (ws.path / "go").touch()
    again = curl("POST", f"/api/runs/{run}/resume").json
    ws.until(lambda: curl("GET", f"/api/runs/{run}").json["status"] == "DONE", f"it is resumed: {again}")
    server.stop()


# -- Vantage --------------------------------------------------------------------------------------------------

@test("TC-001 over HTTP: create, start, stop")
def _(ws):
    server, curl = started(ws)
    eq(curl("POST", "/api/processes", {"id": "web", "command": "sleep", "args": ["1000"]}).expect(200).json["state"], "NotStarted", "created")
    running = curl("POST", "/api/processes/web/start").expect(200).json["state"]["Running"]
    assert running["pid"] > 0 and running["started_at"], running
    stopped = curl("POST", "/api/processes/web/stop").expect(200).json["state"]["Stopped"]
    eq(stopped["exit_code"], 0, "exit_code")
    server.stop()


@test("TC-002 over HTTP: a process that fails is seen to have failed")
def _(ws):
    server, curl = started(ws)
    curl("POST", "/api/processes", {"id": "bad", "command": "sh", "args": ["-c", "exit 3"]}).expect(200)
    answer = Processes(ws).end_at_once("bad", by=lambda: curl("POST", "/api/processes/bad/start")).expect(422).json
    eq(answer["state"], curl("GET", "/api/processes/bad").json["state"], "the answer to the start, and the state")
    failed = answer["state"]["Failed"]
    eq((failed["exit_code"], failed["error"]), (3, "Process exited with code 3"), "how")
    server.stop()


@test("TC-003 over HTTP: stopping what was never started is ProcessNotRunning")
def _(ws):
    server, curl = started(ws)
    curl("POST", "/api/processes", {"id": "web", "command": "true"}).expect(200)
    curl("POST", "/api/processes/web/stop").expect(409, "ProcessNotRunning")
    server.stop()


@test("TC-004 over HTTP: of two starts at once one succeeds, the other is ProcessAlreadyRunning")
def _(ws):
    server, curl = started(ws)
    curl("POST", "/api/processes", {"id": "web", "command": "sleep", "args": ["1000"]}).expect(200)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(curl("POST", "/api/processes/web/start"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    eq(sorted(answer.status for answer in answers), [200, 409, 409, 409], "the statuses")
    eq({answer.error["reason_code"] for answer in answers if answer.status == 409}, {"ProcessAlreadyRunning"}, "the others")
    curl("POST", "/api/processes/web/stop").expect(200)
    server.stop()


@test("Vantage's templates, export and import over HTTP")
def _(ws):
    server, curl = started(ws)
    curl("POST", "/api/templates", {"name": "t", "command": "echo", "args": ["{{WORD}}"]}).expect(200)
    eq([t["name"] for t in curl("GET", "/api/templates").expect(200).json["templates"]], ["t"], "the list")
    curl("POST", "/api/templates/t/use", {"id": "p", "set": {"WORD": "hello"}}).expect(200)
    eq(curl("GET", "/api/processes/p").json["args"], ["hello"], "made from it")
    exported = curl("GET", "/api/processes/export").expect(200).json
    assert exported, exported
    curl("DELETE", "/api/templates/t").expect(200)
    curl("GET", "/api/templates/t").expect(404)
    curl("DELETE", "/api/processes/p").expect(200)
    server.stop()


@test("every path that spec 8 names is there")
def _(ws):
    server, _ = started(ws)
    paths = server.get("/api/openapi.json").json["paths"]
    named = """/api/status /api/processes /api/processes/{id} /api/processes/{id}/start /api/processes/{id}/stop
        /api/processes/{id}/restart /api/processes/{id}/logs /api/processes/{id}/logs/stream /api/templates /api/requests
        /api/requests/{} /api/requests/{}/run /api/runs /api/runs/{} /api/runs/{}/stage /api/runs/{}/graph /api/runs/{}/logs
        /api/runs/{}/answer /api/runs/{}/cancel /api/runs/{}/resume /api/queue /api/queue/next /api/queue/run-next
        /api/queue/start /api/queue/stop /api/locks /api/locks/{kind}/{id} /api/locks/{kind}/{id}/force /api/sprint
        /api/workflows /api/workflows/{} /api/workflows/{}/claim /api/workflows/{}/force-claim /api/workflows/{}/release
        /api/flows /api/flows/run /api/flows/validate /api/agents/run /api/wait /api/confirm /api/restore
        /api/processes/export /api/processes/import /api/doctor /api/events""".split()

    def plain(path):
        return "/".join("{}" if part.startswith("{") else part for part in path.split("/"))

    known = {plain(path) for path in paths}
    missing = [path for path in named if plain(path) not in known]
    eq(missing, [], "what is missing")
    server.stop()


main(__name__)
