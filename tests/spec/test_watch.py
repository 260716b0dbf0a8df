"""watch on a terminal (spec 8): everything on one screen, live, with keys. Each key is pressed here, on a real terminal."""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import Agent  # noqa: E402
from common import run_held, sleeper  # noqa: E402
from flows import only_run, run_flow, with_tool  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from harness.screen import Screen, aligned, cell_columns, tasuki_screen  # noqa: E402


def things(text):
    """The names in the list, from the top."""
    return [line.split()[0] for line in text.split("\n") if line.startswith(" ")]


def started(ws, name, script="echo up; exec sleep 1000", **options):
    ws.at_close(lambda: ws.tasuki("proc", "remove", name, "--force"))
    ws.tasuki("proc", "create", name, "--start", "--", "sh", "-c", script, **options)


def watching(ws, *, until=(), **options):
    screen = tasuki_screen(ws, "watch", **options)
    screen.until_text(*until)
    return screen


@test("watch shows what failed and what asks before what runs, and then the rest")
def _(ws):
    run_flow(ws, "name: deploy\ntasks: {ask: 'tasuki task ask \"Deploy where?\"'}\n", code=8)
    (ws.path / ".aiflow/requests/RQ-1.yaml").write_text("title: paint the door\nrun: 'true'\nstatus: ready\n")
    started(ws, "api", "echo no port >&2; exit 1")
    started(ws, "web")
    ws.tasuki("proc", "create", "zz", "--", "sleep", "1000").expect(0)
    ws.tasuki("lock", "acquire", "name", "prod", "--pid", sleeper(ws).pid).expect(0)
    text = watching(ws, until=["NEEDS YOU", "EVENTS"]).text()
    eq(things(text)[:6], ["deploy", "api", "web", "zz", "prod", "RQ-1"], "the things, from the top")
    for line in (f" deploy {only_run(ws)[-6:]}        asks        ask: Deploy where?", "Failed      exit 1: no port", "1 failed, 1 asking, 1 running"):
        assert line in text, (line, text)
    heads = [line for line in text.split("\n") if line.isupper() and line[0] not in " ▼"]
    eq(heads, ["NEEDS YOU", "PROCESSES", "LOCKS", "QUEUE", "EVENTS"], "the sections")


@test("watch shows owned workflows and those who wait, and for whom; a question names its flow and its run")
def _(ws):
    env = {"TASUKI_AGENT": "claude-code#2", "TASUKI_NOTE": "refactoring auth"}
    ws.tasuki("lock", "acquire", "name", "deploy", "--pid", sleeper(ws).pid, env=env).expect(0)
    ws.tasuki("own", "claim", "release-7", env=env).expect(0)
    run_flow(ws, "name: ship\ntasks: {ask: 'tasuki task ask \"Ship it?\"'}\n", code=8)
    run = only_run(ws)
    waiters = [ws.spawn("lock", "run", "deploy", "--wait", "1h", "--", "true", env={"TASUKI_AGENT": "codex"}),
               ws.spawn("own", "claim", "release-7", "--wait", "1h", "--instance", "me", env={"TASUKI_AGENT": "bob"})]
    ws.until(lambda: len(ws.tasuki("status", "--json").json["waiting"]) == 2, "two wait")
    screen = watching(ws, until=("WORKFLOWS", "WAITING"), cols=120)
    text = screen.text()
    for row in (f"ship {run[-6:]} +asks +ask: Ship it\\?", r"release-7 +alive +\S.*claude-code#2: refactoring auth \(",
                r"codex +waits +for name deploy of claude-code#2: refactoring auth, since \d\d:\d\d",
                r"bob +waits +for workflow release-7 of claude-code#2: refactoring auth, since \d\d:\d\d"):
        assert re.search("^ " + row, text, re.M), (row, text)
    screen.keys("/")
    screen.type("release-7")
    screen.keys("Enter")
    screen.until_gone("LOCKS")
    screen.keys("Enter")
    screen.until_text("owner     claude-code#2: refactoring auth (")
    for waiter in waiters:
        waiter.kill()
        waiter.wait()
    screen.keys("Escape", "Escape")
    screen.until_gone("WAITING")


@test("the cells of processes stand below each other, also of one that is stopped and of one that is not ready", slow=True)
def _(ws):
    started(ws, "a", env={"TASUKI_AGENT": "someone-with-a-long-name"})
    started(ws, "b", env={"TASUKI_AGENT": "bob"})
    started(ws, "c", env={"TASUKI_AGENT": "codex"})
    ws.tasuki("proc", "stop", "c").expect(0)
    ws.at_close(lambda: ws.tasuki("proc", "remove", "d", "--force"))
    ws.tasuki("proc", "create", "d", "--ready", "log:never", "--ready-timeout", "1h", "--", "sh", "-c", "exec sleep 1000").expect(0)
    ws.tasuki("proc", "start", "d", "--no-wait", env={"TASUKI_AGENT": "dora"}).expect(0)

    def rows(text):
        return {line.split()[0]: line for line in text.split("\n") if line.startswith(" ") and line.split()[0] in "abcd"}
    screen = watching(ws, until=["KiB", "Stopped", "starting"], cols=120)
    shown = rows(screen.until(lambda text: text.count("KiB") == 3 and len(rows(text)) == 4, "all four, three of them running"))
    whole = shown["d"]  # it has a phase, too
    aligned([whole, shown["a"], shown["b"], shown["c"]])
    for name, who in (("a", "someone-with-a-long-name"), ("b", "bob"), ("c", "codex")):
        eq(shown[name].index(who), whole.index("dora"), f"the column of {who}")
    assert len(cell_columns(whole)) >= 7, whole


@test("ids are short on the screen, as status shows them: of a run without a name, and of requests")
def _(ws):
    (ws.path / "f.yaml").write_text("tasks: {ask: 'tasuki task ask \"Ship it?\"'}\n")
    ws.tasuki("run", "f.yaml", env=with_tool(ws)).expect(8)
    run = only_run(ws)
    request = ws.tasuki("queue", "add", "--json", "--", "true").expect(0).json["id"]
    short = [line.split()[0] for line in ws.tasuki("status").out.split("\n") if request.endswith(line.split(" ")[0]) and line[:1].strip()][0]
    screen = watching(ws, until=["QUEUE", "asks"])
    text = screen.text()
    assert re.search(rf"^ f\.yaml {run[-6:]} +asks +ask: Ship it", text, re.M), text
    assert re.search(rf"^ {re.escape(short)} +ready ", text, re.M), (short, text)


@test("watch shows a change as soon as it is in the trail")
def _(ws):
    screen = watching(ws, until=["EVENTS"])
    started(ws, "web")
    screen.until_text("PROCESSES", "web", "Running", "process.started")
    run_held(ws, "deploy")
    screen.until_text("LOCKS", "deploy", "held")
    ws.tasuki("proc", "stop", "web").expect(0)
    ws.tasuki("proc", "remove", "web").expect(0)
    screen.until_gone("PROCESSES")


@test("watch shows how far a run is, and the last line that it printed")
def _(ws):
    flow = ws.path / "flow.yaml"
    flow.write_text("name: build\ntasks:\n  a: 'true'\n  b: {run: 'echo first; echo compiling; exec sleep 1000', needs: [a]}\n")
    ws.tasuki("run", "flow.yaml", "--detach").expect(0)
    ws.at_close(lambda: ws.tasuki("runs", "cancel", "@1", "--now"))
    screen = watching(ws, until=["build", "RUNNING", "1/2 [####....]", "compiling"])
    assert "first" not in screen.text(), screen.text()


@test("of a run that failed watch counts the tasks that ended well, as status does")
def _(ws):
    run_flow(ws, "name: build\ntasks:\n  a: 'true'\n  b: {run: 'exit 3', needs: [a]}\n", code=7)
    assert " 1/2 " in ws.tasuki("status").out
    watching(ws, until=["build", "FAILED", "1/2 [####....]"])


@test("arrows and pages choose a line and scroll; the screen says what is below")
def _(ws):
    for i in range(30):
        ws.tasuki("proc", "create", f"p{i:02}", "--", "true").expect(0)
    screen = watching(ws, rows=12, until=["PROCESSES\n", "p00", "▼ PROCESSES 22 · EVENTS"])
    screen.keys("NPage", "NPage")
    screen.until_text("▲ ", "p16")
    screen.until_gone("p00")
    screen.keys("Home")
    screen.until_text("p00")
    for _ in range(9):
        screen.keys("Down")
    screen.until_text("p09")
    screen.keys("Up", "Up", "PPage")
    screen.until_text("p00", "▼ PROCESSES 22 · EVENTS")
    screen.keys("End")
    screen.until_text("workspace.created")
    screen.until_gone("▼")


@test("Enter shows the details of a thing with its log, live; Esc, q and Left go back", slow=True)
def _(ws):
    started(ws, "web", "echo one; until [ -e go ]; do sleep 0.05; done; echo two; echo bad >&2; exec sleep 1000")
    screen = watching(ws, until=["web", "EVENTS"])
    screen.keys("Enter")
    screen.until_text("web  Running  pid", "command   sh -c", "  one")
    (ws.path / "go").touch()
    screen.until_text("  one", "  two", "! bad")
    for key in ("Escape", "q", "Left"):
        screen.keys(key)
        screen.until_text("EVENTS")
        screen.keys("Enter")
        screen.until_text("command   sh -c")


@test("Enter shows a run with its tasks, a lock with its holder, an event with its data")
def _(ws):
    run_flow(ws, "name: build\ntasks: {compile: 'echo hello from compile'}\n")
    ws.tasuki("lock", "acquire", "name", "prod", "--pid", sleeper(ws).pid, env={"TASUKI_AGENT": "bot", "TASUKI_NOTE": "deploys"}).expect(0)
    (ws.path / ".aiflow/requests/RQ-1.yaml").write_text("title: paint the door\nrun: 'true'\nstatus: ready\n")
    screen = watching(ws, until=["build", "prod", "RQ-1", "lock.acquired"])
    for texts in (["TASK", "compile", "compile | hello from compile"], ["name prod: held", "bot: deploys"], ["paint the door"],
                  ["\ntype        lock.acquired\n", "\nactor       bot: deploys\n", "\nfence       "]):
        screen.keys("Enter")
        screen.until_text(*texts)
        screen.keys("Escape")
        screen.until_text("EVENTS")
        screen.keys("Down")


@test("the details of an event are in two columns, and an exit has its code, not its raw status, there and in events")
def _(ws):
    ws.tasuki("proc", "create", "web", "--start", "--", "sh", "-c", "exit 3").expect(7)
    (shown,) = [line for line in ws.tasuki("events").expect(0).out.splitlines() if "process.exited" in line]
    assert "exit_code=3" in shown and "status=" not in shown, shown
    eq(ws.tasuki("events", "--type", "process.exited", "--json").expect(0).json["events"][0]["data"]["status"], 3 << 8, "in JSON it stays")
    screen = watching(ws, until=["process.started"])
    screen.keys("/")
    screen.type("process.started")
    screen.keys("Enter", "Enter")
    text = screen.until_text("stdout_offset 0")
    rows = [line for line in text.split("\n")[1:-2] if line]
    eq({len(line) - len(line.split(None, 1)[1]) for line in rows}, {len("stdout_offset ")}, text)


@test("of an event, a text that is longer than a time is shown whole")
def _(ws):
    id = "long-" + "x" * 50
    ws.tasuki("lock", "acquire", "name", id, "--pid", sleeper(ws).pid).expect(0)
    screen = watching(ws, until=["lock.acquired"])
    screen.keys("Down")
    screen.keys("Enter")
    screen.until_text("\ntype        lock.acquired\n", f" {id}\n")


@test("l shows the log alone and follows it; arrows scroll back in it")
def _(ws):
    started(ws, "web", "seq 100; until [ -e go ]; do sleep 0.05; done; echo the end; exec sleep 1000")
    screen = watching(ws, until=["web"])
    screen.keys("l")
    text = screen.until_text("Log of web", "  100\n", "▲ 80")
    assert "command" not in text, text
    screen.keys("Up", "Up")
    screen.until_text("  98\n", "▲ 78  ▼ 2")
    screen.keys("PPage")
    screen.until_text("  78\n")
    screen.keys("Home")
    screen.until_text("  1\n")
    screen.keys("End")
    screen.until_text("  100\n")
    (ws.path / "go").touch()
    screen.until_text("  the end")


@test("s starts a process, x stops it, r restarts it; the screen says what came out", slow=True)
def _(ws):
    ws.at_close(lambda: ws.tasuki("proc", "remove", "web", "--force"))
    ws.tasuki("proc", "create", "web", "--", "sleep", "1000").expect(0)
    screen = watching(ws, until=["web", "NotStarted"])
    screen.keys("s")
    screen.until_text("Running", "web  Running  pid")
    first = ws.tasuki("proc", "status", "web", "--json").json["pid"]
    screen.keys("r")
    ws.until(lambda: ws.tasuki("proc", "status", "web", "--json").json.get("pid") not in (first, None), "another process")
    pid = ws.tasuki("proc", "status", "web", "--json").json["pid"]
    screen.until_text(f"web  Running  pid {pid}")
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        eq([line for line in status if line.startswith("SigBlk")], ["SigBlk:\t0000000000000000\n"], "signals that it does not get")
    screen.keys("x")
    screen.until_text("Stopped", "SIGTERM")
    eq(ws.tasuki("proc", "status", "web", "--json").json["state_name"], "Stopped", "the state")


@test("a key that means nothing for a thing says so")
def _(ws):
    ws.tasuki("lock", "acquire", "name", "prod", "--pid", sleeper(ws).pid).expect(0)
    screen = watching(ws, until=["prod"])
    for key in "sxra":
        screen.keys(key)
        screen.until_text(f"The key {key} does nothing here.")
    screen.keys("l")
    screen.until_text("It has no output.")
    screen.keys("Down")
    screen.until_gone("no output")


@test("a key means the thing that was shown, whatever comes before it in the list, and nothing when it is gone", slow=True)
def _(ws):
    started(ws, "mm")
    screen = watching(ws, until=["mm", "Running"])
    started(ws, "aa")
    screen.until_text("aa")
    screen.keys("x")
    screen.until_text("Stopped")
    eq([p["state_name"] for p in ws.tasuki("proc", "list", "--json").json["processes"]], ["Running", "Stopped"], "aa and mm")
    screen.keys("Enter")
    screen.until_text("command   sh")
    ws.tasuki("proc", "remove", "mm").expect(0)
    screen.until_text("Process 'mm' not found")

    def says_gone():
        screen.keys("x")
        return "It is no longer in the list." in screen.text()
    ws.until(says_gone, "the list does not have it any more")
    eq(ws.tasuki("proc", "status", "aa", "--json").json["state_name"], "Running", "aa")


@test("x asks before it cancels a run; s begins a request")
def _(ws):
    (ws.path / ".aiflow/requests/RQ-1.yaml").write_text("title: wait\nrun: 'exec sleep 1000'\nstatus: ready\n")
    ws.at_close(lambda: ws.tasuki("runs", "cancel", "@1", "--now"))
    screen = watching(ws, until=["RQ-1"])
    screen.keys("s")
    screen.until_text("RUNS", "RUNNING")
    screen.keys("Home", "x")
    screen.until_text("Cancel RUN-", "[y/N]")
    screen.keys("n")
    screen.until_gone("[y/N]")
    eq(ws.tasuki("runs", "show", "@1", "--json").json["status"], "RUNNING", "after a no")
    screen.keys("x")
    screen.until_text("[y/N]")
    screen.keys("y")
    ws.until(lambda: ws.tasuki("runs", "show", "@1", "--json").json["status"] == "CANCELLED", "it is cancelled")


QUESTIONS = (("--type approval \"Really?\"", "y", True), ("\"Where to?\"", "日本 now", "日本 now"),
             ("--type selection --option red --option blue \"Which?\"", "2", "blue"))
for words, typed, answer in QUESTIONS:
    @test(f"a asks what a run asks, and the answer goes to it: {words}")
    def _(ws, words=words, typed=typed, answer=answer):
        flow = f"name: deploy\ntasks: {{ask: 'tasuki task ask {words} >answer; cat answer'}}\n".replace('\\"', '"')
        run_flow(ws, flow, code=8)
        screen = watching(ws, until=["deploy", "asks"])
        screen.keys("a")
        screen.until_text("ask (deploy): ")
        if "approval" in words:  # one key, as for what an agent asks
            screen.keys(typed)
        else:
            screen.type("x" * 3)
            screen.keys("BSpace", "BSpace", "BSpace")
            screen.type(typed)
            screen.until_text(typed)
            screen.keys("Enter")
        ws.until(lambda: ws.tasuki("runs", "show", "@1", "--json").json["status"] == "DONE", "the run is done")
        screen.until_gone("NEEDS YOU")
        given = [e for e in ws.tasuki("events", "--json", "--type", "run.answered").json["events"]]
        eq(given[0]["data"]["answer"], answer, "the answer")


@test("a hint says what fits when an answer does not; Esc leaves the question open")
def _(ws):
    ask = "name: deploy\ntasks: {ask: 'tasuki task ask %s'}\n"
    for words, typed, hint in (("--type approval \"Really?\"", ["m"], "y: yes, n: no"), ("\"Where?\"", ["Enter"], "Type a text"),
                               ("--type selection --option red --option blue \"Which?\"", ["9", "Enter"], "Type the number of an option")):
        run_flow(ws, ask % words, code=8)
        screen = watching(ws, until=["asks"])
        screen.keys("a")
        screen.until_text("ask (deploy): ")
        screen.keys(*typed)
        screen.until_text("ask (deploy): ", hint)
        screen.keys("Escape")
        screen.until_gone(hint)
        screen.until_text("asks", "EVENTS")
        eq(len(ws.tasuki("status", "--json").json["questions"]), 1, "open questions")
        screen.keys("q")
        screen.ended()
        ws.tasuki("runs", "cancel", "@1").expect(0)


@test("a says yes or no to what an agent asks; Esc leaves it open")
def _(ws):
    for key, type in ("y", "confirm.given"), ("n", "confirm.denied"):
        name = f"lock-{key}"
        ws.tasuki("lock", "acquire", "name", name, "--pid", sleeper(ws).pid).expect(0)
        agent = Agent(ws, name="asker")
        screen = watching(ws, until=[name])
        agent.refused("lock_acquire", kind="name", id=name, force=True)
        screen.until_text("asker", "wants a yes")
        screen.keys("Home", "a")
        screen.until_text("[y/N]")
        screen.keys("Escape")
        screen.until_gone("[y/N]")
        screen.keys("a")
        screen.until_text("[y/N]")
        screen.keys(key)
        screen.until_gone("wants a yes")
        assert "⏎" not in screen.text(), screen.text()
        eq(len(ws.events(type)), 1, type)
        screen.keys("q")
        screen.ended()


@test("the bell rings for what notify names, and for nothing else")
def _(ws):
    (ws.path / ".aiflow/config.yaml").write_text("notify: {failure: bell}\n")
    run_flow(ws, "name: old\ntasks: {a: 'exit 3'}\n", code=7)
    screen = watching(ws, until=["old", "run.ended"])
    run_flow(ws, "name: good\ntasks: {a: 'true'}\n")
    screen.until_text("good", "DONE")
    assert not screen.rang(), "it rang for a run that is done, or for one of before"
    run_flow(ws, "name: bad\ntasks: {a: 'exit 3'}\n", code=7)
    ws.until(screen.rang, "it rings")


@test("/ shows only lines that contain a text; Enter keeps it, Esc shows all again")
def _(ws):
    for name in ("alpha", "beta", "gamma"):
        ws.tasuki("proc", "create", name, "--", "true").expect(0)
    screen = watching(ws, until=["alpha", "beta", "gamma"])
    screen.keys("/")
    screen.type("BET")
    screen.until_gone("alpha")
    screen.until_text("beta", "/ BET")
    screen.keys("Enter")
    screen.until_text("/BET  Enter")
    screen.keys("/")
    screen.type("zz")
    screen.until_text("No line contains “BETzz”")
    screen.keys("Escape")
    screen.until_text("alpha", "beta", "gamma")


@test("? shows the keys, also inside of a view; any key closes it")
def _(ws):
    started(ws, "web")
    screen = watching(ws, until=["web"])
    screen.keys("?")
    screen.until_text("answer a question", "quit")
    screen.keys("q")
    screen.until_text("EVENTS")
    screen.keys("Enter", "?")
    screen.until_text("answer a question")
    screen.keys("Space")
    screen.until_text("command   sh")


@test("watch draws anew when the terminal changes its size, also to a very small one and back")
def _(ws):
    for i in range(20):
        ws.tasuki("proc", "create", f"p{i:02}", "--", "true").expect(0)
    screen = watching(ws, until=["p19"])
    screen.resize(40, 12)
    screen.until_text("▼ PROCESSES 12")
    screen.resize(10, 3)
    screen.until(lambda text: len(text.split("\n")) <= 4, "it is small")
    screen.keys("Down")
    screen.resize(120, 40)
    screen.keys("Home")  # Down has scrolled if it was read before the terminal grew
    screen.until_text("p19", "▼ EVENTS 6")
    screen.keys("q")
    eq(screen.ended(), 0, "exit code")


@test("q gives the terminal back and ends well; Ctrl-C too, as it ends any program")
def _(ws):
    for keys, code in (["q"], 0), (["C-c"], 130):
        screen = watching(ws, until=["EVENTS"])
        assert screen.alternate(), "it has no screen of its own"
        screen.keys(*keys)
        eq(screen.ended(), code, f"exit code after {keys}")
        assert not screen.alternate() and screen.text() == "\n", screen.text()


@test("Ctrl-Z gives the terminal back; watch goes on where it was")
def _(ws):
    screen = Screen(ws, ["sh", "-mc", f"{ws.binary} watch; echo stopped; read go; fg; echo over"])
    screen.until_text("EVENTS")
    screen.keys("C-z")
    screen.until_text("stopped")
    assert not screen.alternate(), "the terminal was not given back"
    screen.type("go\n")
    screen.until_text("EVENTS")
    screen.keys("q")
    screen.until_text("over")


@test("a terminal that cannot draw gets plain snapshots, one per change")
def _(ws):
    screen = tasuki_screen(ws, "watch", term="dumb", cols=100, rows=50)
    screen.until(lambda text: re.search(r"^== .*\d\d:\d\d:\d\d$", text, re.M), "the head of a picture")
    assert not screen.alternate(), "it draws"
    run_held(ws, "deploy")
    text = screen.until_text("name deploy")
    assert "\x1b" not in screen.text(colours=True) and "▼" not in text, text


@test("where there is no workspace, watch says so as every command does", init=False)
def _(ws):
    screen = tasuki_screen(ws, "watch")
    assert screen.ended() != 0, "it ended well"
    screen.until_text("tasuki init")


@test("names, questions and output can do nothing to the terminal: what controls it is shown as text")
def _(ws):
    (ws.path / ".aiflow/requests/RQ-1.yaml").write_text('title: "a\\e[2Jb"\nrun: "true"\nstatus: ready\n')
    (ws.path / "hostile").write_bytes(b"\x1b[31mred\x1b[0m\x1b]0;title\x07 a\tb\x01c \xff\n")
    started(ws, "web", "cat hostile; exec sleep 1000")
    screen = watching(ws, until=["web", "a\\x1b[2Jb"])
    screen.keys("l")
    text = screen.until_text("red", "\\x01c", "\ufffd")
    assert "\x1b[31m" not in screen.text(colours=True) and "title" not in text, text


AGENT = {"TASUKI_AGENT": "claude-code#2", "TASUKI_NOTE": "refactoring auth"}


@test("a person who stops an agent's process reads whose it was")
def _(ws):
    agent = sleeper(ws)
    started(ws, "web", env={**AGENT, "TASUKI_INSTANCE_ID": ""})
    screen = watching(ws, until=["web", "claude-code#2"])
    screen.keys("x")
    screen.until_text("Stopped", "claude-code#2: refactoring auth")
    assert agent.poll() is None


@test("an agent that stops another one's process is asked on the screen: n leaves it, y stops it")
def _(ws):
    other = ws.spawn_command(["sh", "-c", f"{ws.binary} proc create web --start -- sleep 1000; exec sleep 1000"], env=AGENT)
    ws.at_close(lambda: ws.tasuki("proc", "remove", "web", "--force", "--yes"))
    ws.until(lambda: "Running" in ws.tasuki("proc", "list").out, "it runs")
    screen = watching(ws, until=["web", "Running"], env={"TASUKI_AGENT": "codex"})
    for key, state in ("n", "Running"), ("y", "Stopped"):
        screen.keys("x")
        text = screen.until_text("[y/N]", "claude-code#2: refactoring auth")
        eq(text.count("[y/N]"), 1, "prompts")
        screen.keys(key)
        screen.until_gone("[y/N]")
        ws.until(lambda state=state: state in ws.tasuki("proc", "list").out, f"it is {state}")
    assert other.poll() is None


main(__name__)
