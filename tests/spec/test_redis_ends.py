"""How a worker leaves: its results, its claims and its attempts reach the runner or another worker, whatever becomes of the connection."""

import signal

from flows import last_document, trace, write_flow
from harness.harness import eq, main, test
from harness.redis import Redis
from harness.redis_proxy import Proxy

TASK = "lease: {lease}\ntasks:\n  t: {{run: 'echo $TASUKI_WORKER >> trace; until test -e go; do sleep 0.05; done'}}\n"


class Scene:
    """A run whose worker `one` reaches the server over a proxy."""

    def __init__(self, ws, lease="60s"):
        self.ws, self.redis = ws, Redis(ws)
        self.proxy = Proxy(ws, self.redis.port)
        self.flow = write_flow(ws, TASK.format(lease=lease))

    def worker(self):
        return self.redis.worker("-j", "1", "--name", "one", env={"TASUKI_REDIS": self.proxy.url})

    def run(self):
        return self.ws.spawn("run", self.flow, "--json", env=self.redis.env())

    def cut(self):
        self.proxy.is_silent = True
        self.proxy.hang_up()

    def ends(self, runner):
        (self.ws.path / "go").touch()
        eq(last_document(self.ws.finish(runner).expect(0))["status"], "DONE", "status")

    def lost(self):
        return [e["data"]["why"] for e in self.ws.events("task.lost")]


def has_pending(process, number=signal.SIGTERM):
    """Whether the signal was sent and not taken yet: another one like it would be lost."""
    with open(f"/proc/{process.pid}/status") as file:
        masks = [int(line.split()[1], 16) for line in file if line.startswith(("SigPnd", "ShdPnd"))]
    return any(mask >> (number - 1) & 1 for mask in masks)


@test("a drained worker that cannot reach Redis keeps the result of its task until it can, and says so", slow=True)
def _(ws):
    scene = Scene(ws)
    one = scene.worker()
    runner = scene.run()
    ws.until_file("trace")
    one.send_signal(signal.SIGTERM)
    scene.cut()
    (ws.path / "go").touch()
    ws.until(lambda: one.poll() is not None or "waits for Redis" in one.log.read_text(), "its words, or its end")
    eq(one.poll(), None, "its exit code")
    scene.proxy.is_silent = False
    scene.ends(runner)
    eq((one.wait(60), trace(ws), scene.lost()), (0, ["one"], []), "its exit code, what ran, what was lost")


@test("a second SIGTERM ends the wait of a drained worker that cannot reach Redis", slow=True)
def _(ws):
    scene = Scene(ws, lease="6s")
    one = scene.worker()
    runner = scene.run()
    ws.until_file("trace")
    one.send_signal(signal.SIGTERM)
    scene.cut()
    (ws.path / "go").touch()
    ws.until(lambda: one.poll() is not None or "waits for Redis" in one.log.read_text(), "its words, or its end")
    one.send_signal(signal.SIGTERM)
    eq(one.wait(60), 0, "its exit code")
    scene.redis.worker("-j", "1", "--name", "two")
    scene.ends(runner)
    eq((trace(ws), scene.lost()), (["one", "two"], ["lease"]), "what ran, what was lost")


@test("the answer to a claim is lost, and the worker is drained: it asks again, and executes what it has claimed", slow=True)
def _(ws):
    scene = Scene(ws)
    one = scene.worker()
    scene.proxy.lose_one = b"\nnext\r"
    runner = scene.run()
    ws.until(lambda: scene.proxy.lost, "the lost answer")
    one.send_signal(signal.SIGTERM)
    ws.until(lambda: one.poll() is not None or trace(ws), "the task, or the worker's end")
    eq((one.poll(), trace(ws)), (None, ["one"]), "its exit code, what ran")
    scene.ends(runner)
    eq((one.wait(60), trace(ws), scene.lost()), (0, ["one"], []), "its exit code, what ran, what was lost")


@test("the answer to a claim is lost, and the worker is stopped: it asks again, and returns what it has claimed", slow=True)
def _(ws):
    scene = Scene(ws)
    one = scene.worker()
    scene.proxy.lose_one = b"\nnext\r"
    runner = scene.run()
    ws.until(lambda: scene.proxy.lost, "the lost answer")
    scene.proxy.is_silent = True
    one.send_signal(signal.SIGTERM)
    ws.until(lambda: one.poll() is not None or not has_pending(one), "the first signal")
    one.send_signal(signal.SIGTERM)
    scene.proxy.is_silent = False
    scene.proxy.hang_up()
    eq(one.wait(60), 0, "its exit code")
    eq(trace(ws), [], "what ran on a stopped worker")
    scene.redis.worker("-j", "1", "--name", "two")
    ws.until(lambda: trace(ws), "the task")
    scene.ends(runner)
    eq((trace(ws), scene.lost()), (["two"], ["back"]), "what ran, why it was lost")


@test("a worker whose run has ended while it was stopped forgets what it has of it, and asks no more about it", slow=True)
def _(ws):
    scene = Scene(ws, lease="2s")
    one = scene.worker()
    runner = scene.run()
    ws.until_file("trace")
    one.send_signal(signal.SIGSTOP)
    scene.redis.worker("-j", "1", "--name", "two")
    ws.until(lambda: len(trace(ws)) == 2, "the second copy")
    scene.ends(runner)
    before = len(scene.proxy.seen)
    one.send_signal(signal.SIGTERM)
    one.send_signal(signal.SIGCONT)
    eq(one.wait(60), 0, "its exit code")
    eq("task=t lost" in one.log.read_text(), True, "whether it says that the task was lost")
    late = [step for step in scene.proxy.seen[before:] if b"\ngive_back\r" in step or b"\nlog\r" in step]
    eq(len(late) <= 2, True, f"calls about the ended run ({len(late)})")


@test("a worker without tasks that cannot reach Redis ends at once: its guard has nothing to return and asks nobody", slow=True)
def _(ws):
    scene = Scene(ws)
    one = scene.worker()
    scene.cut()
    before = scene.proxy.accepted
    one.send_signal(signal.SIGTERM)
    eq(one.wait(120), 0, "its exit code")
    eq(scene.proxy.accepted - before <= 4, True, f"connections that were tried ({scene.proxy.accepted - before})")


main(__name__)
