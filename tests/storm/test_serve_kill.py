"""Issue 6, 6: `serve` is killed in a loop while clients use it. Nothing that was acknowledged is lost, no process and no run is
affected, and the event stream goes on without a gap and without a repetition."""

import os
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "spec"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from common import sleeper  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from http_common import Server  # noqa: E402


class Follower(threading.Thread):
    """A reader of /api/events that comes back with the last id it saw, as a browser does."""

    def __init__(self, server, first_id):
        super().__init__(daemon=True)
        self.server, self.last_id, self.ids, self.connections = server, str(first_id), [], 0
        self.is_over = threading.Event()

    def run(self):
        while not self.is_over.is_set():
            try:
                stream = self.server.stream("/api/events", {"Last-Event-ID": self.last_id}, timeout=2)
                self.connections += 1
                for id, _ in stream:
                    self.ids.append(int(id))
                    self.last_id = id
            except (OSError, ValueError, IndexError):  # the server is gone: again
                time.sleep(0.01)


class Worker(threading.Thread):
    """Makes processes, one after the other; keeps what was acknowledged."""

    def __init__(self, server, name, pid):
        super().__init__(daemon=True)
        self.server, self.name_, self.pid, self.done, self.count = server, name, pid, [], 0
        self.is_over = threading.Event()

    def run(self):
        while not self.is_over.is_set():
            id = f"{self.name_}-{self.count}"
            self.count += 1
            try:
                if self.server.post("/api/processes", {"id": id, "command": "true"}, timeout=5).status == 200:
                    self.done.append(id)
                got = self.server.post(f"/api/locks/name/{id}", {"pid": self.pid}, timeout=5)
                if got.status == 200:
                    self.server.ask("DELETE", f"/api/locks/name/{id}", {"token": got.json["token"]}, timeout=5)
            except Exception:  # whatever a killed server makes of a request
                time.sleep(0.01)


def storm(ws, kills):
    server = Server(ws)
    port = server.port
    server.post("/api/processes", {"id": "lives", "command": "sleep", "args": ["1000"]}).expect(200)
    pid = server.post("/api/processes/lives/start").expect(200).json["pid"]
    (ws.path / "f.yaml").write_text("tasks:\n  wait: {run: 'while ! [ -e stop ]; do sleep 0.05; done'}\n  after: {run: 'true'}\n"
                                    "flow: wait >> after\n")
    run = ws.spawn("run", "f.yaml", "--json")
    begun = ws.until(lambda: ws.events("run.started"), "the run begins")[0]
    first = server.get("/api/events?limit=1").json["events"][-1]["id"]
    followers = [Follower(server, first) for _ in range(3)]
    workers = [Worker(server, f"w{i}", sleeper(ws).pid) for i in range(3)]
    for thread in (*followers, *workers):
        thread.start()
    for _ in range(kills):
        before = sum(len(worker.done) for worker in workers)
        ws.until(lambda: sum(len(worker.done) for worker in workers) >= before + 3, "work goes on")
        server.proc.kill()
        server.proc.wait()
        server.proc = Server(ws, port=port).proc
    for worker in workers:
        worker.is_over.set()
    for worker in workers:
        worker.join(90)
    (ws.path / "stop").touch()
    eq(run.wait(60), 0, "the run's exit code")
    check(ws, server, followers, workers, first, pid, begun["run_id"])
    for follower in followers:
        follower.is_over.set()
    server.stop()
    for follower in followers:
        follower.join(90)
    ws.tasuki("proc", "stop", "lives").expect(0)


def check(ws, server, followers, workers, first, pid, run_id):
    made = {p["id"] for p in server.get("/api/processes").json["processes"]}
    lost = [id for worker in workers for id in worker.done if id not in made]
    eq(lost, [], "what was acknowledged and is not there")
    assert all(worker.done for worker in workers)
    eq(server.get("/api/processes/lives").json["pid"], pid, "the process")
    eq(server.get(f"/api/runs/{run_id}").json["status"], "DONE", "the run")
    want = [e["id"] for e in ws.tasuki("events", "--after", first, "--json").expect(0).json["events"]]
    for follower in followers:
        ws.until(lambda: len(follower.ids) >= len(want), f"all events: {len(follower.ids)} of {len(want)}")
        eq(follower.ids, want, f"the events of one stream, over {follower.connections} connections")
    eq(os.listdir(ws.path / ".aiflow" / "locks" / ".guard") != [], True, "guards")


@test("serve killed 12 times while clients use it", quick=False)
def _(ws):
    storm(ws, 12)


@test("serve killed 300 times while clients use it", long=True, deadline=1200)
def _(ws):
    storm(ws, 300)


main(__name__)
