"""A command that waits says for whom, since when, and its place in line: once in a pipe, in place on a terminal."""

import pathlib
import re
import signal
import sys

HERE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE / "mcp"))
sys.path.insert(0, str(HERE / "spec"))
from agent import Agent  # noqa: E402
from common import check_u2, run_held, sleeper, until_settled  # noqa: E402
from flows import spawn_flow, only_run  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from harness.screen import golden, tasuki_screen  # noqa: E402
from http_common import McpClient, Server, register  # noqa: E402

SIZES = [(cols, rows, lang) for cols, rows in ((80, 24), (60, 24), (40, 12)) for lang in ("en", "ja")]
AGENT = {"TASUKI_AGENT": "claude-code#2", "TASUKI_NOTE": "refactoring auth"}


def waits_in_pipe(ws, *words):
    """The first line on stderr of a command that waits."""
    proc = ws.spawn(*words)
    return proc, proc.stderr.readline().rstrip("\n")


def let_go(ws, proc):
    proc.send_signal(signal.SIGTERM)
    proc.wait(60)


@test("a wait for a lock says for whom, since when and the place in line, once, and nothing else follows", slow=True)
def _(ws):
    holder = run_held(ws, "deploy", env=AGENT)
    first, line = waits_in_pipe(ws, "lock", "run", "deploy", "--wait", "60s", "--", "true")
    assert re.fullmatch(r"waiting for name deploy, held by claude-code#2: refactoring auth since \d\d:\d\d \(\d+ s ago\), place 1 in line", line), line
    second, line = waits_in_pipe(ws, "lock", "acquire", "name", "deploy", "--wait", "60s", "--pid", holder.pid)
    assert line.endswith("place 2 in line"), line
    until_settled(ws, second)
    let_go(ws, holder)
    eq(ws.finish(first).err, "", "what follows the line")


@test("a wait for the sprint names the holder, and others see the wait; over MCP and HTTP it ends with an answer, and the server stays alive", slow=True)
def _(ws):
    holder = sleeper(ws)
    words = {"session": "s-2", "epic": "e"}
    ws.tasuki("sprint", "acquire", "--session", "s-1", "--epic", "e", "--pid", holder.pid, env=AGENT).expect(0)
    agent, server = Agent(ws, "--tools", "all"), Server(ws)
    assert "Sprint already running" in agent.refused("sprint_acquire", wait="1s", **words)[0]
    answer = server.post("/api/sprint", {"mode": "acquire", "wait": "1s", **words, **register(server)}).expect(409).json
    eq(answer["status"], "blocked", "the answer")
    eq((agent.ok("sprint_check")["status"], server.get("/api/sprint").json["status"]), ("blocked", "blocked"), "both live")
    proc, line = waits_in_pipe(ws, "sprint", "acquire", "--session", "s-2", "--epic", "e", "--wait", "60s")
    assert line.startswith("waiting for sprint .sprint-running, held by claude-code#2: refactoring auth since "), line
    eq([one["kind"] for one in ws.tasuki("status", "--json").expect(0).json["waiting"]], ["sprint"], "what is waited for")
    holder.kill()
    holder.wait()
    eq(proc.wait(60), 6, "exit code: a dead holder's sprint needs a yes")


@test("a sprint can be waited for on the command line, over HTTP and by agents, and in a project that is not a workspace")
def _(ws):
    next_sprint = {"session": "s-2", "epic": "e"}
    words = [word for key, value in next_sprint.items() for word in (f"--{key}", value)]
    (ws.path / "bare").mkdir()
    for place in ((), ("--project-root", ws.path / "bare")):
        ws.tasuki("sprint", "acquire", "--session", "s-1", "--epic", "e", "--pid", sleeper(ws).pid, *place).expect(0)
        check_u2(ws.tasuki("sprint", "acquire", *words, "--wait", "1ms", *place, "--json"), "blocked", 4, "acquire")
    server = Server(ws, "--tools", "all")
    call = {**next_sprint, "wait": "1ms", **register(server)}
    eq(server.post("/api/sprint", {"mode": "acquire", **call}).expect(409).json["status"], "blocked", "over HTTP")
    eq(McpClient(server).call("sprint_acquire", **call)["structuredContent"]["status"], "blocked", "by an agent")
    waiter, line = waits_in_pipe(ws, "sprint", "acquire", *words, "--wait", "60s")
    assert line.startswith("waiting for sprint .sprint-running, held by test_waits.py since "), line
    eq([(one["kind"], one["id"]) for agent in ws.tasuki("agents", "--json").json["agents"] for one in agent["waiting"]],
       [("sprint", ".sprint-running")], "who waits")
    ws.tasuki("sprint", "release", "--yes").expect(0)
    eq((waiter.wait(60), ws.read_lock("sprint")["session_id"]), (0, "s-2"), "the waiter")
    server.stop()


@test("waits for a run, a process and a workflow name their starter or owner", slow=True)
def _(ws):
    ws.tasuki("proc", "create", "web", "--", "sleep", "1000").expect(0)
    ws.tasuki("proc", "start", "web", env=AGENT).expect(0)
    proc, line = waits_in_pipe(ws, "wait", "process", "web")
    assert re.fullmatch(r"waiting for process web, Running, started by claude-code#2: refactoring auth at \d\d:\d\d \(.*\)", line), line
    ws.tasuki("proc", "stop", "web").expect(0)
    eq(proc.wait(60), 0, "exit code")
    spawn_flow(ws, "tasks: {a: 'sleep 1000'}\n")
    ws.until(lambda: list((ws.path / ".aiflow/runs").glob("RUN-*/stage.json")), "the run begins")
    run = only_run(ws)
    _, line = waits_in_pipe(ws, "wait", "run", run)
    assert line.startswith(f"waiting for run {run}, started by test_waits.py at ") and line.endswith(", 0/1"), line
    ws.tasuki("own", "claim", "wf", env=AGENT).expect(0)
    proc, line = waits_in_pipe(ws, "wait", "workflow", "wf")
    assert line.startswith("waiting for workflow wf, owned by claude-code#2: refactoring auth since "), line
    ws.tasuki("runs", "cancel", run, "--now").expect(0)


@test("who attaches to a run is told for whom it waits on a terminal, and nothing in a pipe; agents lists the waiters until the run has ended")
def _(ws):
    (ws.path / "own.yaml").write_text("exclusive: true\ntasks: {a: 'echo 1 >up; until test -e go; do sleep 0.1; done'}\n")
    first = ws.spawn("run", "own.yaml", env={"TASUKI_AGENT": "bob"})
    ws.until_file("up")
    run = only_run(ws)
    attach = ("run", "own.yaml", "--on-conflict", "attach")
    screen = tasuki_screen(ws, *attach, cols=140, env={"TASUKI_AGENT": "cleo"})
    piped = ws.spawn(*attach, env={"TASUKI_AGENT": "dora"})
    screen.until(lambda text: re.search(rf"^waiting for run {run}, started by bob at \d\d:\d\d \(.*\), 0/1 \(\d+ s\)$", text, re.M), "for whom it waits")
    waiting = lambda: [(agent["who"]["label"], one["kind"], one["id"], one["for"] and one["for"]["label"])  # noqa: E731
                       for agent in ws.tasuki("agents", "--json").json["agents"] for one in agent["waiting"]]
    ws.until(lambda: sorted(waiting()) == [("cleo", "run", run, "bob"), ("dora", "run", run, "bob")], "who waits for whom")
    (ws.path / "go").touch()
    ws.finish(first).expect(0)
    eq((screen.ended(), ws.finish(piped).expect(0).err), (0, ""), "the exit code of one, and what the other one said")
    eq(waiting(), [], "afterwards")


@test("--quiet and --json say nothing while they wait, and a wait that is over at once says nothing either")
def _(ws):
    ws.tasuki("proc", "create", "web", "--", "sh", "-c", "while ! test -e go; do sleep 0.1; done").expect(0)
    ws.tasuki("proc", "start", "web").expect(0)
    silent = [ws.spawn(*options, "wait", "process", "web") for options in (["--quiet"], ["--json"])]
    _, line = waits_in_pipe(ws, "wait", "process", "web")
    assert line.startswith("waiting for process web"), line
    (ws.path / "go").touch()
    for proc in silent:
        result = ws.finish(proc)
        eq((result.code, result.err), (0, ""), "without a word")
    eq(ws.tasuki("wait", "process", "web").expect(0).err, "", "nothing to wait for")


@test("on a terminal the line is updated in place, is gone at the end, and Ctrl-C ends the wait", slow=True)
def _(ws):
    holder = run_held(ws, "deploy", env=AGENT)
    screen = tasuki_screen(ws, "lock", "run", "deploy", "--wait", "60s", "--", "echo", "done", cols=140)
    screen.until_text("waiting for name deploy", "(1 s)")
    text = screen.until(lambda text: re.search(r"\((2|3|4) s\)$", text, re.M), "time goes by")
    eq(text.count("waiting for"), 1, "lines")
    let_go(ws, holder)
    eq(screen.ended(), 0, "exit code")
    eq(screen.text(), "done\n")
    run_held(ws, "deploy", env=AGENT)
    screen = tasuki_screen(ws, "lock", "run", "deploy", "--wait", "60s", "--", "true")
    screen.until_text("waiting for name deploy")
    screen.keys("C-c")
    assert screen.ended() in (130, 4), screen.text()


@test("a start that waits until a process is ready says so on a terminal, and nothing in a pipe", slow=True)
def _(ws):
    ws.tasuki("proc", "create", "web", "--ready", "log:serving", "--", "sh", "-c",
              "while ! test -e go; do sleep 0.1; done; echo serving; exec sleep 1000").expect(0)
    screen = tasuki_screen(ws, "proc", "start", "web", cols=140)
    text = screen.until(lambda text: re.search(r"\((1|2|3|4) s\)$", text, re.M), "the line")
    assert re.search(r"^waiting for process web, Running, started by ", text, re.M), text
    (ws.path / "go").touch()
    eq(screen.ended(), 0, "exit code")
    assert "waiting" not in screen.text(), screen.text()
    (ws.path / "go").unlink()
    restart = ws.spawn("proc", "restart", "web")
    ws.until(lambda: ws.tasuki("--json", "proc", "status", "web").json["phase"] == "starting", "it is not ready")
    (ws.path / "go").touch()
    eq(ws.finish(restart).expect(0).err, "", "in a pipe")
    ws.tasuki("proc", "stop", "web").expect(0)


@test("a start that waits for what a process depends on says so on a terminal, and nothing in a pipe", slow=True)
def _(ws):
    ws.at_close(lambda: ws.tasuki("proc", "stop", "--all"))
    for id in ("db", "cache"):
        ws.tasuki("proc", "create", id, "--ready", "log:serving", "--", "sh", "-c",
                  f"while ! test -e go-{id}; do sleep 0.1; done; echo serving; exec sleep 1000").expect(0)
    ws.tasuki("proc", "create", "web", "--depends-on", "db=ready", "--depends-on", "cache=ready", "--", "sleep", "1000").expect(0)
    screen = tasuki_screen(ws, "proc", "start", "web", cols=140)
    screen.until(lambda text: re.search(r"^waiting for process (db, cache|cache, db) \(", text, re.M), "the line")
    (ws.path / "go-db").touch()
    screen.until(lambda text: re.search(r"^waiting for process cache, Running, started by ", text, re.M), "the line about the other one")
    (ws.path / "go-cache").touch()
    eq(screen.ended(), 0, "exit code")
    assert "waiting" not in screen.text(), screen.text()
    ws.tasuki("proc", "stop", "--all").expect(0)
    (ws.path / "go-db").unlink()
    start = ws.spawn("proc", "start", "web")
    ws.until(lambda: ws.tasuki("--json", "proc", "status", "db").json["phase"] == "starting", "it is not ready")
    (ws.path / "go-db").touch()
    eq(ws.finish(start).expect(0).err, "", "in a pipe")


NEEDS = """version: 1
processes:
  db: {command: sh, args: [-c, 'while ! test -e go; do sleep 0.1; done; echo serving; exec sleep 1000'], ready: {log: serving}}
  web: {command: sleep, args: ['1000'], depends_on: {db: ready}}
"""


@test("up says on its last line for whom it waits, until it waits no more; in a pipe once", slow=True)
def _(ws):
    ws.at_close(lambda: ws.tasuki("proc", "stop", "--all"))
    (ws.path / "tasuki.yaml").write_text(NEEDS)
    screen = tasuki_screen(ws, "up")
    text = screen.until(lambda text: re.search(r"^Waiting for db, which others need \([2-9] s\)$", text, re.M), "the line")
    eq(text.count("Waiting for"), 1, "one line, in place")
    (ws.path / "go").touch()
    text = screen.until_text("web | started")
    assert "Waiting for" not in text, text
    screen.keys("C-c")
    eq(screen.ended(), 0, "exit code")
    (ws.path / "go").unlink()
    piped = ws.spawn("up")
    assert "SIGINT stops them" in piped.stderr.readline()
    eq(piped.stderr.readline(), "Waiting for db, which others need\n", "in a pipe")
    (ws.path / "go").touch()
    ws.until(lambda: ws.tasuki("--json", "proc", "status", "web").json["state_name"] == "Running", "web runs")
    piped.send_signal(signal.SIGINT)
    assert "Waiting" not in (rest := ws.finish(piped).expect(0).err), rest


@test("up that was detached while a process waits for another one says so until that is started, too", slow=True)
def _(ws):
    ws.at_close(lambda: ws.tasuki("proc", "stop", "--all"))
    (ws.path / "tasuki.yaml").write_text(NEEDS)
    for lang, waits in (("en", "Waiting for db, which"), ("ja", "db を待っています")):
        screen = tasuki_screen(ws, "up", cols=40, rows=12, lang=lang)
        screen.until_text(waits)
        screen.keys("d")
        screen.until(lambda text: waits in text.splitlines()[-1] and "`tasuki down`" in text.replace("\n  ", " "), "it still says so")
        (ws.path / "go").touch()
        eq(screen.ended(), 0, "exit code")
        assert waits not in screen.text(), screen.text()
        eq(ws.tasuki("--json", "proc", "status", "web").json["state_name"], "Running", "web")
        (ws.path / "go").unlink()
        ws.tasuki("down").expect(0)


@test("a start that waits for what a process depends on is a waiter in agents, with the party that started that one")
def _(ws):
    ws.at_close(lambda: ws.tasuki("proc", "stop", "--all"))
    (ws.path / "tasuki.yaml").write_text(NEEDS)
    ws.tasuki("proc", "import", "tasuki.yaml").expect(0)
    ws.tasuki("proc", "start", "db", "--no-wait", env={"TASUKI_AGENT": "bob"}).expect(0)
    waiting = lambda: [(agent["who"]["label"], one["kind"], one["id"], one["for"] and one["for"]["label"])  # noqa: E731
                       for agent in ws.tasuki("agents", "--json").json["agents"] for one in agent["waiting"]]
    start = ws.spawn("proc", "start", "web", env={"TASUKI_AGENT": "cleo"})
    eq(ws.until(waiting, "cleo waits"), [("cleo", "process", "db", "bob")], "who waits for whom")
    (ws.path / "go").touch()
    ws.finish(start).expect(0)
    eq(waiting(), [], "afterwards")


for cols, rows, lang in SIZES:
    @test(f"a wait on a terminal of {cols}x{rows}: {lang}")
    def _(ws, cols=cols, rows=rows, lang=lang):
        run_held(ws, "deploy", env=AGENT)
        screen = tasuki_screen(ws, "lock", "run", "deploy", "--wait", "60s", "--", "true", cols=cols, rows=rows, lang=lang)
        text = screen.until_text("name deploy")
        assert len(text.splitlines()) == 1, text
        seen = (["place 1 in line"] if lang == "en" else ["順番 1"]) + (["claude-code#2"] if cols >= 60 else [])
        assert all(part in text for part in seen), text
        golden(ws, "wait", text, cols, rows, lang, hide=[(r"(since |、)?[\d:]*…", "…")])


main(__name__)
