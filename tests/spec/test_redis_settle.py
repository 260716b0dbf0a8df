"""A runner dies while its task runs on a worker. The lock of its request or flow is free then, but the task goes on. A command that
begins another run, or cancels or removes this one, ends the task first. The witness is a file that the task locks for its life (flock),
outside of tasuki."""

import json
import re
import signal

from common import strace_of
from flows import last_document, only_run, trace, write_flow
from harness.harness import eq, main, test
from harness.redis import Redis
from harness.redis_proxy import Proxy

FLOW = """lease: {lease}
tasks:
  t:
    run: |
      exec 9>>witness
      flock -n 9 || echo "$$ $TASUKI_WORKER" >> overlaps
      echo $$ >> pids
      echo t >> trace
      until test -e go; do sleep 0.05; done
"""


LAST_STEP = b"$3\r\nend\r\n"  # of a run: the sweep of its keys


class Orphan:
    """The workspace after the death of a runner: its task runs on a worker."""

    def __init__(self, ws, *command, lease="30s", has_proxy=False):
        """With a proxy, the commands reach the server over it; the worker needs none."""
        self.ws, self.redis = ws, Redis(ws)
        self.proxy = Proxy(ws, self.redis.port) if has_proxy else None
        self.worker = self.redis.worker("-j", "2")
        ws.tasuki("init").expect(0)
        (ws.path / ".aiflow/flows").mkdir(exist_ok=True)
        (ws.path / ".aiflow/flows/f.yaml").write_text(FLOW.format(lease=lease))
        ws.tasuki("request", "add", "t", "--id", "RQ-1", "--flow", "f.yaml").expect(0)
        runner = self.spawn(*command)
        ws.until(lambda: trace(ws), "the task")
        self.pid = int((ws.path / "pids").read_text())
        runner.kill()
        runner.wait()
        self.run = only_run(ws)
        eq(ws.alive(self.pid), True, "whether the task outlives its runner")

    def env(self):
        return self.redis.env({"TASUKI_REDIS": self.proxy.url} if self.proxy else {})

    def spawn(self, *args):
        return self.ws.spawn(*args, env=self.env())

    def tasuki(self, *args):
        return self.ws.tasuki(*args, env=self.env(), timeout=120)

    def ends_alone(self, second):
        """The second copy begins, ends well, and no two have ever been there."""
        self.ws.until(lambda: len(trace(self.ws)) == 2, "the second copy")
        eq(self.ws.alive(self.pid), False, "whether the first copy lives")
        (self.ws.path / "go").touch()
        eq(last_document(self.ws.finish(second).expect(0))["status"], "DONE", "status")
        self.no_overlap()

    def no_overlap(self):
        eq((self.ws.path / "overlaps").exists(), False, "whether two copies ran at once")
        marks = self.ws.path / ".aiflow/runs/.elsewhere"
        eq([mark.name for mark in marks.iterdir()], [], "marks of runs that are out")


@test("that a run is out is on the disk, with each name above it, before a task of it can be on a worker")
def _(ws):
    redis, log = Redis(ws), ws.base / "trace"
    redis.worker()
    ws.run([strace_of(ws), "-f", "-y", "-qq", "-e", "trace=fdatasync,sendto", "-s", "200", "-o", log, ws.binary, "run",
            write_flow(ws, "tasks: {a: 'true'}\n")], env=redis.env()).expect(0)
    calls = log.read_text()
    before = calls[:calls.index("FCALL")]
    synced = re.findall(r"fdatasync\(\d+<.*/\.aiflow(?:/(.*?))?>\) += 0", before)
    eq(synced, [f"runs/.elsewhere/{only_run(ws)}", "runs/.elsewhere", "runs", ""], "what was synced")


@test("request run --new after its runner's death: the task on the worker ends first", slow=True)
def _(ws):
    orphan = Orphan(ws, "request", "run", "RQ-1")
    orphan.ends_alone(orphan.spawn("request", "run", "RQ-1", "--new", "--json"))


@test("request run --new while the worker is stopped: it waits for the lease, and the guard has ended the task", slow=True)
def _(ws):
    orphan = Orphan(ws, "request", "run", "RQ-1", lease="3s")
    orphan.worker.send_signal(signal.SIGSTOP)
    second = orphan.spawn("request", "run", "RQ-1", "--new", "--json")
    ws.until(lambda: not ws.alive(orphan.pid), "the end of the first copy")
    orphan.worker.send_signal(signal.SIGCONT)
    orphan.ends_alone(second)


@test("request run goes on with the interrupted run, and so does the queue: never two copies", slow=True)
def _(ws):
    orphan = Orphan(ws, "request", "run", "RQ-1")
    second = orphan.spawn("queue", "run", "--json")
    ws.until(lambda: len(trace(ws)) == 2, "the second copy")
    eq(ws.alive(orphan.pid), False, "whether the first copy lives")
    (ws.path / "go").touch()
    ws.finish(second).expect(0)
    orphan.no_overlap()


@test("a flow that runs once at a time: a run after the runner's death ends the task of the dead one first", slow=True)
def _(ws):
    orphan = Orphan(ws, "run", "f.yaml")
    orphan.ends_alone(orphan.spawn("run", "f.yaml", "--json"))


@test("runs cancel of a run whose runner is dead: its task has ended when the run is CANCELLED; then it can be removed", slow=True)
def _(ws):
    orphan = Orphan(ws, "run", "f.yaml")
    eq(orphan.tasuki("runs", "cancel", orphan.run, "--json").expect(0).json["status"], "CANCELLED", "status")
    eq(ws.alive(orphan.pid), False, "whether the task lives")
    orphan.tasuki("runs", "rm", orphan.run).expect(0)
    orphan.no_overlap()
    eq(orphan.redis.keys_without_ttl(), [], "keys without a TTL")


@test("a server that answers and refuses is as good as away: the cancel is refused with the reason, and works later", slow=True)
def _(ws):
    orphan = Orphan(ws, "run", "f.yaml")
    orphan.redis.call("ACL", "SETUSER", "default", "-@scripting")
    refused = orphan.tasuki("runs", "cancel", orphan.run, "--json")
    assert refused.code not in (0, None), refused
    assert "NOPERM" in json.dumps(refused.json, ensure_ascii=False), refused.json
    orphan.redis.call("ACL", "SETUSER", "default", "+@all")
    orphan.tasuki("runs", "cancel", orphan.run).expect(0)
    eq(ws.alive(orphan.pid), False, "whether the task lives")
    orphan.no_overlap()


@test("a cancel that cannot reach the server ends no process of its own machine: the task's worker still reaches the server", slow=True)
def _(ws):
    orphan = Orphan(ws, "run", "f.yaml", has_proxy=True)
    orphan.proxy.is_silent = True
    eq(orphan.tasuki("runs", "cancel", orphan.run, "--json").expect(4).error["reason_code"], "RUN_IN_PROGRESS", "code")
    eq(ws.alive(orphan.pid), True, "whether the task lives")
    orphan.proxy.is_silent = False
    orphan.tasuki("runs", "cancel", orphan.run).expect(0)
    eq(ws.alive(orphan.pid), False, "whether the task lives")
    orphan.no_overlap()


def keys_of(orphan):
    base = "tasuki:{%s}:" % orphan.run
    return sorted(key[len(base):] for key in orphan.redis.call("KEYS", base + "*"))


@test("a cancel whose connection is lost at the last step takes that step again: nothing of the run stays in Redis", slow=True)
def _(ws):
    orphan = Orphan(ws, "run", "f.yaml", has_proxy=True)
    orphan.proxy.refuse = (LAST_STEP, 3)
    orphan.tasuki("runs", "cancel", orphan.run).expect(0)
    eq(orphan.proxy.refuse, (LAST_STEP, 0), "what was refused")
    eq(keys_of(orphan), ["meta"], "keys")
    eq(orphan.redis.call("HGETALL", "tasuki:{%s}:meta" % orphan.run), ["ended", "1"], "what is left of the run")
    orphan.no_overlap()


@test("a cancel that cannot take its last step is done all the same, and the next command takes it", slow=True)
def _(ws):
    orphan = Orphan(ws, "run", "f.yaml", has_proxy=True)
    orphan.proxy.refuse = (LAST_STEP, 1000000)
    eq(orphan.tasuki("runs", "cancel", orphan.run, "--json").expect(0).json["status"], "CANCELLED", "status")
    eq(ws.alive(orphan.pid), False, "whether the task lives")
    eq([mark.name for mark in (ws.path / ".aiflow/runs/.elsewhere").iterdir()], [orphan.run], "marks")
    orphan.proxy.refuse = (None, 0)
    orphan.tasuki("runs", "rm", orphan.run).expect(0)
    eq(keys_of(orphan), ["meta"], "keys")
    orphan.no_overlap()


@test("a request run beside a cancel that waits: the new run begins after the task has ended", slow=True)
def _(ws):
    orphan = Orphan(ws, "request", "run", "RQ-1", lease="6s")
    orphan.worker.send_signal(signal.SIGSTOP)
    cancel = orphan.spawn("runs", "cancel", orphan.run, "--json")
    ws.until(lambda: orphan.redis.call("HGET", "tasuki:{%s}:meta" % orphan.run, "phase") == "settling", "the cancel")
    second = orphan.spawn("request", "run", "RQ-1", "--new", "--json")
    ws.until(lambda: not ws.alive(orphan.pid), "the end of the first copy")
    orphan.worker.send_signal(signal.SIGCONT)
    orphan.ends_alone(second)
    ws.finish(cancel).expect(0)


@test("without Redis all of them are refused, say by when the task ends, and change nothing; with it again they are not", slow=True)
def _(ws):
    orphan = Orphan(ws, "request", "run", "RQ-1", lease="3s")
    orphan.redis.kill()
    for command in (("request", "run", "RQ-1", "--new"), ("runs", "cancel", orphan.run)):
        error = orphan.tasuki(*command, "--json").expect(4).json["error"]
        eq(error["reason_code"], "RUN_IN_PROGRESS", f"code of {command}")
        eq(all(word in error["message"] for word in (orphan.run, "may still run", "end them by 20")), True, error["message"])
    eq(orphan.tasuki("runs", "show", orphan.run, "--json").json["status"], "INTERRUPTED", "status")
    orphan.redis.start()
    orphan.ends_alone(orphan.spawn("request", "run", "RQ-1", "--new", "--json"))


main(__name__)
