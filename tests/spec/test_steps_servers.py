"""The steps that a person takes, counted beside those of peers: each test does them, and the number is that of its commands.

Peers, run here where they are installed: foreman shows all servers with one command, and who holds what with none. pm2 needs `start` for
each server and `logs`: four commands for three; the reason of a failure is in `logs`, one more."""

import pathlib
import re
import shutil
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from harness.harness import Skip, eq, main, test  # noqa: E402
from harness.processes import Processes  # noqa: E402
from harness.screen import Screen, tasuki_screen  # noqa: E402
from who_common import client  # noqa: E402

PEERS = pathlib.Path(__file__).resolve().parents[2] / ".cache" / "peers"
ERROR = "OSError: Address already in use"
PROCFILE = f"""db: echo listening; exec sleep 1000
web: echo serving; exec sleep 1000
api: sleep 1; echo '{ERROR}' >&2; exit 1
"""


class Steps:
    """The commands since the beginning."""

    def __init__(self, ws):
        self.ws, self.before = ws, len(ws.commands)

    def are(self, count, what):
        eq(len(self.ws.commands) - self.before, count, f"commands until {what}")


@test("three servers are visible with 1 command (foreman 1, pm2 4); the reason of one that fails takes 0 more (pm2 1)", slow=True)
def _(ws):
    Processes(ws)
    (ws.path / "Procfile").write_text(PROCFILE)
    steps = Steps(ws)
    screen = tasuki_screen(ws, "up")
    screen.until_text("db  | listening", "web | serving")
    steps.are(1, "three servers are visible")
    screen.until_text(f"api ! {ERROR}", "api | exited 1")
    steps.are(1, "the reason is visible")
    screen.keys("C-c")
    eq(screen.ended(), 0, "exit code")


@test("foreman beside it: the same Procfile, 1 command; the other servers end with the one that fails", slow=True)
def _(ws):
    if not shutil.which("foreman"):
        raise Skip("foreman is not installed")
    (ws.path / "Procfile").write_text(PROCFILE)
    steps = Steps(ws)
    screen = Screen(ws, ["foreman", "start"], cwd=ws.path)
    screen.until_text("listening", "serving", ERROR)
    steps.are(1, "three servers are visible")
    screen.ended()


def pm2_of(ws):
    """The words that run pm2 with a daemon of its own, which ends with the test."""
    if not shutil.which("node") or not (PEERS / "installed").exists():
        raise Skip("pm2 is not installed; ./dev test does it where npm can be reached")
    pm2 = ["env", f"PM2_HOME={ws.base}/pm2", "PM2_DISABLE_VERSION_CHECK=true", "node", PEERS / "node_modules/pm2/bin/pm2"]
    ws.at_close(lambda: ws.run([*pm2, "kill"], timeout=120))
    return pm2


@test("pm2 beside it: 4 commands until three servers are visible; the reason of one that fails takes 1 more", quick=False, deadline=600)
def _(ws):
    pm2 = pm2_of(ws)
    steps = Steps(ws)
    for line in PROCFILE.splitlines():
        name, command = line.split(": ", 1)
        ws.run([*pm2, "start", command, "--name", name, "--no-autorestart"], timeout=120).expect(0)
    screen = Screen(ws, [*pm2, "logs"], cwd=ws.path)
    screen.until(lambda text: re.search(r"db +\| listening", text) and re.search(r"web +\| serving", text), "their output", timeout=120)
    steps.are(4, "three servers are visible")
    screen.keys("C-c")
    screen.ended(timeout=120)
    steps = Steps(ws)
    started = ws.run([*pm2, "start", f"echo '{ERROR}' >&2; exit 1", "--name", "fails", "--no-autorestart"], timeout=120).expect(0)
    assert ERROR not in started.out + started.err, started
    log = ws.base / "pm2/logs/fails-error.log"
    ws.until(lambda: log.exists() and ERROR in log.read_text(), "its log")
    logs = ws.run([*pm2, "logs", "fails", "--nostream"], timeout=120).expect(0)
    assert ERROR in logs.out, logs
    steps.are(2, "the reason is visible")


@test("the reason of a server that fails in the background is in whatever is looked at next: the start's answer, list, status")
def _(ws):
    p = Processes(ws)
    p.script("api", f"echo '{ERROR}' >&2; exit 1")

    def start():
        steps = Steps(ws)
        answer = ws.tasuki("proc", "start", "api")
        steps.are(1, "the server is started")
        return answer

    answer = p.end_at_once("api", by=start)
    assert answer.code == 7 and ERROR in answer.out + answer.err, answer
    for words in (("proc", "list"), ("status",), ("proc", "status", "api")):
        steps = Steps(ws)
        assert ERROR in ws.tasuki(*words).expect(0).out, words
        steps.are(1, f"{' '.join(words)} shows the reason")


@test("who holds what and why: 1 command, with names (peers have none)")
def _(ws):
    first, second = client(ws, "claude-code", "--tools", "all"), client(ws, "codex", "--tools", "all")
    first.ok("lock_acquire", kind="name", id="src/api", note="refactoring auth")
    first.ok("create_process", id="web", command="sleep", args=["1000"], start=True, note="dev server")
    ws.at_close(lambda: ws.tasuki("proc", "stop", "--all"))
    second.ok("ul_workflow_claim", ulTaskId="release", note="release 2")
    steps = Steps(ws)
    shown = ws.tasuki("agents").expect(0).out
    steps.are(1, "who holds what and why")
    ours, theirs = shown.split("codex", 1)
    assert "claude-code" in ours and "src/api (refactoring auth)" in ours and "web (dev server)" in ours, shown
    assert "release (release 2)" in theirs and "src/api" not in theirs, shown


@test("one command stops the three servers, also those that others started")
def _(ws):
    p = Processes(ws)
    (ws.path / "Procfile").write_text(PROCFILE.replace("sleep 1; echo", "sleep 1000; echo"))
    running = ws.spawn("up")
    for id in ("db", "web", "api"):
        ws.until(lambda id=id: id in p.list(), f"{id} is registered")
        p.until_state(id, "Running")
    running.send_signal(signal.SIGHUP)
    ws.finish(running)
    steps = Steps(ws)
    ws.tasuki("down").expect(0)
    steps.are(1, "all have ended")
    eq({one["state_name"] for one in p.list().values()}, {"Stopped"}, "afterwards")


main(__name__)
