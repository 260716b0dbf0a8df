"""Steps beside peers: how many commands a person types, counted by doing it. A peer that is installed does the same."""

import os
import pathlib
import re
import shutil

from harness.harness import eq, main, test

GUIDE = pathlib.Path(__file__).resolve().parents[2] / "docs/guide/every-night.md"
ERROR = "FAIL test_login: expected 200, got 500"


class Steps:
    """What somebody types, one command after the other."""

    def __init__(self, ws):
        self.ws = ws
        self.count = 0

    def type(self, line, env=None):
        self.count += 1
        return self.ws.run(["sh", "-c", line], env={"PATH": f"{self.ws.build}:{os.environ['PATH']}", **(env or {})})


@test("why a run failed: no command after the run, as with make", init=False)
def _(ws):
    ws.tasuki("init").expect(0)
    (ws.path / "test.yaml").write_text(f"flow: unit >> login\ntasks:\n  unit: 'true'\n  login: 'echo \"{ERROR}\"; exit 1'\n")
    (ws.path / "Makefile").write_text(f"test:\n\t@echo '{ERROR}'; exit 1\n")
    for command in ("tasuki run test.yaml", *["make test"] * bool(shutil.which("make"))):
        steps = Steps(ws)
        shown = steps.type(command)
        eq((shown.code != 0, ERROR in shown.out + shown.err, steps.count - 1), (True, True, 0), f"failed, why, further commands of {command}")


@test("an ad hoc job: one command, as with task-spooler", init=False)
def _(ws):
    ws.tasuki("init").expect(0)
    queue = ws.spawn("queue", "run", "--stay")
    steps = Steps(ws)
    steps.type("tasuki queue add -- touch done").expect(0)
    ws.until(lambda: (ws.path / "done").exists(), "the job is done")
    eq(steps.count, 1, "commands")
    ws.tasuki("queue", "stop").expect(0)
    ws.finish(queue).expect(0)
    if shutil.which("tsp"):
        ours = {"TS_SOCKET": str(ws.base / "ts"), "TMPDIR": str(ws.base)}
        steps = Steps(ws)
        steps.type("tsp touch done-by-ts", ours).expect(0)
        ws.until(lambda: (ws.path / "done-by-ts").exists(), "the job is done")
        eq(steps.count, 1, "commands of task-spooler")
        Steps(ws).type("tsp -K", ours)


@test("why a job of the queue failed: no command after the queue, each failed job with its way on", init=False)
def _(ws):
    ws.tasuki("init").expect(0)
    for number in (1, 2):
        ws.tasuki("queue", "add", "--", "sh", "-c", f"echo '{ERROR} {number}'; exit 1").expect(0)
    ws.tasuki("queue", "add", "--title", "Third", "--", "echo", "silent as long as it goes well").expect(0)
    shown = Steps(ws).type("tasuki queue run").expect(7).out
    eq([shown.count(text) for text in (f"{ERROR} 1\n", f"{ERROR} 2\n", "1 failed", "next", "tasuki runs logs RUN-", "tasuki resume RUN-")], [1, 0, 1, 1, 1, 1], shown)
    shown = Steps(ws).type("tasuki queue run --retry --keep-going").expect(7).out
    eq([shown.count(text) for text in (f"{ERROR} 1\n", f"{ERROR} 2\n", "1 failed", "next", "tasuki resume RUN-", "goes well")], [1, 1, 2, 2, 2, 0], shown)


@test("a job every night, with its error in the mail: three lines", init=False)
def _(ws):
    lines = re.search(r"^```crontab\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)[1].splitlines()
    eq(len(lines), 3, "lines of the crontab, which test_every_night.py runs")
    assert "mail" not in lines[-1], "cron mails what a command prints, the job need not"


main(__name__)
