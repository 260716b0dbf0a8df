"""A process that fails for good: its holder, and what its holder starts, are killed at every step. No notification twice."""

import json
import os
import random
import signal
import time

from harness.harness import eq, main, test

STEPS_MAX = 1000
TELL = "notify: {failure: 'cat >> told'}\n"


def status(ws, id):
    return json.loads((ws.path / f".aiflow/processes/{id}/status.json").read_text())


def told(ws):
    path = ws.path / "told"
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")] if path.exists() else []


def fail_again(ws):
    """One more start that fails; returns its number."""
    ws.tasuki("proc", "start", "web", "--no-wait")
    ws.until(lambda: status(ws, "web")["phase"] == "ended", "it has failed")
    return status(ws, "web")["n"]


@test("what tells of a failure, killed at every file-system call and started again, tells it at most once", quick=False)
def _(ws):
    config = ws.path / ".aiflow/config.yaml"
    ws.tasuki("proc", "create", "web", "--", "sh", "-c", "exit 3").expect(0)
    for step in range(1, STEPS_MAX):
        config.unlink(missing_ok=True)  # the holder is to tell nothing by itself
        n = fail_again(ws)
        config.write_text(TELL)
        words = ["--root", ws.path, "__failed", "web", n]
        result = ws.fault(*words, at=step, mode="kill")
        ws.tasuki(*words)
        if result.calls is not None and result.calls < step:
            break
        ws.commands.clear()
    else:
        raise AssertionError(f"it makes more than {STEPS_MAX} calls")
    ws.until(lambda: n in [one["run"] for one in told(ws)], "the last one, which nobody has killed, is reported")
    starts = [one["run"] for one in told(ws)]
    eq(len(starts), len(set(starts)), f"notifications of different starts: {starts}")
    eq([path.name for path in (ws.path / ".aiflow/processes/web").glob("notified.*")], [f"notified.failure.{n}"], "the marks")


@test("a holder that is killed around the failure of its process tells it at most once, with a live view beside it", quick=False)
def _(ws):
    chance = random.Random(15)
    (ws.path / ".aiflow/config.yaml").write_text(TELL)
    view = ws.spawn("events", "--follow", stdout=-3, stderr=-3)
    ws.until(lambda: (ws.path / ".aiflow/watch.json").exists(), "the view looks")
    for round in range(25):
        id = f"p{round}"
        ws.tasuki("proc", "create", id, "--start", "--no-wait", "--", "sh", "-c", f"while ! test -e go{round}; do sleep 0.005; done; exit 3")
        holder = status(ws, id)["holder"]["pid"]
        (ws.path / f"go{round}").touch()
        time.sleep(chance.random() * 0.04)
        try:
            os.kill(holder, signal.SIGKILL)
        except ProcessLookupError:
            pass
        ws.until(lambda: ws.tasuki("--json", "proc", "status", id).json["state_name"] == "Failed", "it has failed")
        ws.commands.clear()
    ws.tasuki("proc", "create", "last", "--start", "--no-wait", "--", "sh", "-c", "sleep 0.1; exit 3")
    ws.until(lambda: "last" in [one["process_id"] for one in told(ws)], "the last one, whose holder nobody has killed, is reported")
    view.kill()
    view.wait()
    ids = [one["process_id"] for one in told(ws)]
    eq(len(ids), len(set(ids)), f"notifications of different processes: {ids}")


main(__name__)
