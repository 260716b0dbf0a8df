"""Screens of servers and of those who share a workspace: on a real terminal of 80x24, of 60 columns, and for some of 120, in English and
Japanese."""

import json
import pathlib
import re
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from flows import only_run, with_tool, write_flow  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from harness.processes import SLEEP, Processes  # noqa: E402
from harness.screen import aligned, golden, tasuki_screen  # noqa: E402
from who_common import client  # noqa: E402

WIDE = 120
AGENT = {"TASUKI_AGENT": "claude-code#2", "TASUKI_NOTE": "refactoring auth"}
OTHER = {"TASUKI_AGENT": "codex"}
ERROR = "OSError: Address already in use"
SERVERS = {"version": 1, "processes": {
    "db": {"command": "sh", "args": ["-c", "echo listening; exec sleep 1000"], "ready": {"log": "listening"}},
    "web": {"command": "sh", "args": ["-c", "echo serving; exec sleep 1000"], "ready": {"log": "serving"}, "depends_on": {"db": "ready"}},
}}
PIDS = ((r"(?i)(?<=pid )\d+", "N"), (r"(?<=ps -p )\d+", "N"), (r"(?i)\bpid \d*…$", "…"), (rf"ホスト {re.escape(socket.gethostname())}", "ホスト HOST"))


def screens(what, sizes=(80, 60)):
    """A test for each size and language; it gets show(name, words…), which compares the screen of a command that ends, and
    see(name, screen), which compares what is there."""
    def decorate(function):
        for cols, lang in ((cols, lang) for cols in sizes for lang in ("en", "ja")):
            @test(f"{what}: {cols}x24, {lang}", slow=(cols, lang) != (80, "en"))
            def _(ws, cols=cols, lang=lang):
                def see(name, screen, hide=(), text=None, flows=False):
                    golden(ws, name, text or screen.text(scrolled=True), cols, 24, lang, hide=(*hide, *PIDS), flows=flows)

                def start(*words, env=None):
                    return tasuki_screen(ws, *words, cols=cols, lang=lang, env=env)

                def show(name, *words, code=0, env=None, hide=(), flows=False):
                    screen = start(*words, env=env)
                    eq(screen.ended(), code, f"exit code of {words}")
                    see(name, screen, hide, flows=flows)
                    return screen.text(scrolled=True)
                function(ws, start, show, see)
        return function
    return decorate


@screens("up that stops what it started, up that attaches, down, and a second down", sizes=(WIDE, 80, 60))
def _(ws, start, show, see):
    p = Processes(ws)
    (ws.path / "tasuki.yaml").write_text(json.dumps(SERVERS))
    screen = start("up")
    screen.until_text("web | serving")
    p.until_state("web", "Running", "ready")
    screen.until(lambda text: text.count("web |") >= 3, "web is ready")
    screen.keys("C-c")
    eq(screen.ended(), 0, "exit code")
    eq({one["state_name"] for one in p.list().values()}, {"Stopped"}, "after Ctrl-C")
    lines = screen.text(scrolled=True).splitlines(keepends=True)
    eq({line.index("|") for line in lines if re.match(r"\w+ +\|", line)}, {len("web ")}, "the columns of the bar")
    see("up-stop", screen, text="".join(lines[:-2] + sorted(lines[-2:])))  # the ends of both may be seen at the same time
    ws.tasuki("up", "--detach").expect(0)
    again = start("up")
    again.until_text("tasuki.yaml")
    again.keys("C-c")
    eq(again.ended(), 0, "exit code")
    see("up-attach", again)
    show("down", "down")
    show("down-nothing", "down")


@screens("up that restarts what an agent started with another definition, and leaves alone what is not in the file; the same with --detach")
def _(ws, start, show, see):
    p = Processes(ws)
    agent = client(ws, "claude-code")
    agent.ok("create_process", id="web", command="sleep", args=["500"], start=True, note="dev server")
    p.create("old", SLEEP)
    (ws.path / "Procfile").write_text("web: exec sleep 1000\n")
    screen = start("up")
    screen.until(lambda text: len(re.findall(r"^web \|", text, re.MULTILINE)) >= 2, "web is started again")
    screen.keys("d")
    eq(screen.ended(), 0, "exit code")
    see("up-changed", screen, flows=True)
    agent.ok("start_process", id="old")
    (ws.path / "Procfile").write_text("web: exec sleep 2000\nold: exec sleep 1000\n")
    detached = start("up", "--detach")
    eq(detached.ended(), 0, "exit code of up --detach")
    see("up-detach", detached, text=detached.text(scrolled=True).split("ID ")[0], flows=True)  # the columns below depend on pids
    agent.close()


@screens("up beside a file of another worktree, and down there")
def _(ws, start, show, see):
    Processes(ws)

    def git(*words):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *words], cwd=ws.path, check=True, capture_output=True)

    (ws.path / "Procfile").write_text("web: exec sleep 1000\n")
    git("init", "-q")
    git("add", "Procfile")
    git("commit", "-q", "-m", "start")
    git("worktree", "add", "-q", str(ws.base / "other"))
    ws.tasuki("up", "--detach").expect(0)
    screen = start("--root", str(ws.path), "up", "-f", str(ws.base / "other/Procfile"))
    eq(screen.ended(), 4, "exit code")
    see("up-elsewhere", screen, flows=True)


@screens("a process that starts again later: the start, the list, the workspace, and the logs that are followed")
def _(ws, start, show, see):
    p = Processes(ws)
    p.script("web", "echo serving; exec sleep 1000")

    def begin():
        """With a new log: a start that was late is repeated."""
        ws.tasuki("proc", "remove", "api", "--force")
        p.script("api", f"echo '{ERROR}' >&2; exit 1", "--restart", "on-failure", "--backoff", "1h")
        screen = start("proc", "start", "api", env=AGENT)
        return screen, screen.ended()

    screen, code = p.end_at_once("api", by=begin, exits=2)
    eq(code, 7, "exit code of the start")
    see("start-again", screen)
    show("list-again", "proc", "list")
    show("workspace-again", "status")
    followed = start("proc", "logs", "-f")
    followed.until_text(f"api ! {ERROR}")
    p.start("web")
    followed.until_text("web | serving")
    see("logs-follow", followed)


@screens("the answer to a start that failed, the record, and the logs of all")
def _(ws, start, show, see):
    p = Processes(ws)

    def begin():
        ws.tasuki("proc", "remove", "api", "--force")
        p.script("api", f"echo '{ERROR}' >&2; exit 1")
        screen = start("proc", "start", "api", env=AGENT)
        return screen, screen.ended()

    screen, code = p.end_at_once("api", by=begin)
    eq(code, 7, "exit code of the start")
    see("start-failed", screen)
    show("status-failed", "proc", "status", "api")
    p.script("web", "echo serving; printf '\\346\\227\\245\\346\\234\\254\\n'", "--log", "stamped")
    p.call("start", "web").expect(0)
    show("logs-one", "proc", "logs", "web")
    show("logs-all", "proc", "logs")


@screens("who is here, what they hold, and refusals that name them", sizes=(WIDE, 80, 60))
def _(ws, start, show, see):
    p = Processes(ws)
    agent = client(ws, "claude-code", "--tools", "all")
    agent.ok("lock_acquire", kind="name", id="src/api", note="refactoring auth")
    agent.ok("create_process", id="web", command="sleep", args=["1000"], start=True, note="dev server")
    agent.ok("ul_workflow_claim", ulTaskId="release", note="release 2")
    aligned([line for line in show("agents", "agents", flows=True).split("\n") if line.startswith("  ")], cells=2)
    aligned(show("lock-list", "lock", "list").rstrip("\n").split("\n"))
    show("lock-refused", "lock", "acquire", "name", "src/api", code=4, env=OTHER, flows=True)
    screen = start("lock", "acquire", "name", "src/api", "--force", env=OTHER)
    screen.until_text("[y/N]")
    screen.keys("n", "Enter")
    eq(screen.ended(), 4, "exit code after a no")
    see("lock-force", screen, flows=True)
    show("start-refused", "proc", "start", "web", code=4, env=OTHER, flows=True)
    screen = start("proc", "stop", "web", env=OTHER)
    screen.until_text("[y/N]")
    screen.keys("n", "Enter")
    eq(screen.ended(), 6, "exit code after a no")
    see("stop-guarded", screen, flows=True)
    show("claim-refused", "own", "claim", "release", code=4, env=OTHER, flows=True)
    show("stop-whose", "proc", "stop", "web", "--yes", env=OTHER, flows=True)
    eq(p.status("web")["state_name"], "Stopped", "after the yes")


@screens("two agents, one that waits for the other's lock and one whose run runs; a workflow and its owner; the events")
def _(ws, start, show, see):
    first, second = client(ws, "claude-code"), client(ws, "claude-code", "--tools", "all")
    first.ok("lock_acquire", kind="name", id="src/api", note="refactoring auth")
    second.ok("ul_workflow_claim", ulTaskId="release", note="release 2")
    (ws.path / "f.yaml").write_text("name: deploy\ntasks: {a: 'sleep 1000'}\n")
    ws.spawn("run", "f.yaml", "--json", env={**with_tool(ws), "TASUKI_AGENT": "codex", "TASUKI_NOTE": "to staging"})
    second.begin_call("lock_acquire", kind="name", id="src/api", wait="45s")

    def have(key):
        return [thing["id"] for one in ws.tasuki("--json", "agents").json["agents"] for thing in one[key] if thing["kind"] in ("run", "name")]
    ws.until(lambda: have("waiting") and len(have("holding")) == 2, "the run runs, and the second one waits")
    show("agents-several", "agents", flows=True)
    show("own-show", "own", "show", "release", flows=True)
    show("own-list", "own", "list", flows=True)
    show("events", "events", "--thing", "lock:src/api", flows=True)
    ws.tasuki("runs", "cancel", only_run(ws), "--now").expect(0)


def wait_screen(start, see, name, sign, *words):
    screen = start(*words)
    text = screen.until_text(sign)
    eq(len(text.splitlines()), 1, f"lines of {words}")
    see(name, screen, ((r"( since| at|、)?[ \d:]*…", "…"),), text=text)
    screen.keys("C-c")
    screen.ended()


@screens("waits for a process, a run and the queue")
def _(ws, start, show, see):
    p = Processes(ws)
    p.create("web", SLEEP)
    ws.tasuki("proc", "start", "web", env=AGENT).expect(0)
    wait_screen(start, see, "wait-process", "web", "wait", "process", "web")
    ws.spawn("run", write_flow(ws, "tasks: {a: 'sleep 1000'}\n"), "--json", env={**with_tool(ws), **AGENT})
    ws.until(lambda: list((ws.path / ".aiflow/runs").glob("RUN-*/stage.json")), "the run begins")
    run = only_run(ws)
    wait_screen(start, see, "wait-run", run[-6:], "wait", "run", run)
    ws.tasuki("runs", "cancel", run, "--now").expect(0)
    (ws.path / ".aiflow/requests").mkdir(exist_ok=True)
    (ws.path / ".aiflow/requests/RQ-1.yaml").write_text("title: paint the door\nrun: 'sleep 1000'\nstatus: ready\n")
    queue = ws.spawn("queue", "run", env={**with_tool(ws), **AGENT})
    ws.until(lambda: "queue" in ws.tasuki("lock", "list").out, "the queue runs")
    wait_screen(start, see, "wait-queue", "queue", "wait", "lock", "queue")
    queue.terminate()
    queue.wait(60)


@screens("a question at the end of a run")
def _(ws, start, show, see):
    flow = write_flow(ws, "name: deploy\ntasks: {ask: 'tasuki task ask \"Deploy to production?\" --type approval'}\n")
    show("run-question", "run", flow, code=8, env=with_tool(ws))


@screens("attach: its first line, detaching, and refusals")
def _(ws, start, show, see):
    p = Processes(ws)
    p.script("repl", "echo '> '; cat", "--tty", "--start")
    screen = start("proc", "attach", "repl")
    screen.until_text("Ctrl-]")
    screen.type("hello")
    screen.keys("Enter")
    screen.until(lambda text: text.count("hello") == 2, "the echo, and the answer")
    screen.keys("C-]")
    eq(screen.ended(), 0, "exit code")
    see("attach", screen)
    p.create("plain", SLEEP, "--start")
    show("attach-refused", "proc", "attach", "plain", code=4)


main(__name__)
