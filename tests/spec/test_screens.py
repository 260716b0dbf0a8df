"""Screens: what a person sees on a real terminal, read back and compared with golden/screens/. 80x24 first, then narrow ones."""

import re

from common import sleeper
from flows import run_flow
from harness.harness import children_of, eq, main, test
from harness.screen import Screen, aligned, golden, tasuki_screen

SIZES = [(cols, rows, lang) for cols, rows in ((120, 30), (80, 24), (60, 24), (40, 12)) for lang in ("en", "ja")]
AGENT = {"TASUKI_AGENT": "claude-code#2", "TASUKI_NOTE": "refactoring auth"}


def furnish(ws):
    """A workspace with something of everything."""
    run_flow(ws, "name: build\ntasks: {a: 'true'}\n")
    run_flow(ws, "name: deploy\ntasks: {ask: 'tasuki task ask \"Deploy to production?\"'}\n", code=8)
    (ws.path / ".aiflow/requests/RQ-1.yaml").write_text("title: paint the door\nrun: 'true'\nstatus: ready\n")
    ws.tasuki("proc", "create", "web", "--", "sleep", "1000", env=AGENT).expect(0)
    ws.tasuki("proc", "create", "api", "--", "sh", "-c", "echo no port >&2; exit 1", env=AGENT).expect(0)
    ws.tasuki("lock", "acquire", "name", "deploy", "--pid", sleeper(ws).pid, env=AGENT).expect(0)


for cols, rows, lang in SIZES:
    @test(f"status on a terminal of {cols}x{rows}: {lang}")
    def _(ws, cols=cols, rows=rows, lang=lang):
        furnish(ws)
        screen = tasuki_screen(ws, "status", cols=cols, rows=rows, lang=lang)
        eq(screen.ended(), 0, "exit code")
        text = screen.text(scrolled=True)
        for table in text.rstrip("\n").split("\n\n")[2:]:  # below the heading and the questions
            aligned(table.split("\n"))
        golden(ws, "status", text, cols, rows, lang)


@test("lists and watch cut a command of half a megabyte", slow=True)
def _(ws):
    ws.tasuki("proc", "create", "web", "--", "sleep", *["x" * 100_000] * 5).expect(0)
    ws.tasuki("queue", "add", "--", "sleep", *["日" * 33_000] * 5).expect(0)
    for words in (["proc", "list"], ["status"], ["request", "list"], ["queue", "next"]):
        screen = tasuki_screen(ws, *words)
        eq(screen.ended(), 0, words)
        assert "…" in screen.text(), screen.text()
    tasuki_screen(ws, "watch").until_text("web", "NotStarted", "…")


def settled(screen):
    """The screen as soon as it is the same twice, but for the time in its first line."""
    seen = [""]

    def is_same(text):
        rest = re.sub(r"\d+", "N", text)
        seen.append(rest)
        return seen[-1] == seen[-2] and len(seen) > 3
    return screen.until(is_same, "it stays the same")


WATCH_HIDE = [(r"\btest_screens\.py\b", "PROGRAM"), (r"\d+ [KM]iB", "MEMORY"), (r"(?<=PID )\d+", "N"), (r"(?<=\]  )\d+ …", "N…"),
              (r"(?<= owner=)\S+", "INSTANCE"),
              (r"(?<= deploy )[0-9a-f]+(?=…)", "ID"),  # of a run
              (r"\bprocess\.(started|exited)", "process.EVENT")]  # the last two come in either order
for cols, rows, lang in SIZES:
    @test(f"watch on a terminal of {cols}x{rows}: {lang}", slow=(cols, lang) != (80, "en"))
    def _(ws, cols=cols, rows=rows, lang=lang):
        ws.at_close(lambda: ws.tasuki("proc", "stop", "--all"))
        furnish(ws)
        ws.tasuki("proc", "start", "web", "api", env=AGENT)
        ws.tasuki("own", "claim", "release-7", env=AGENT).expect(0)
        ws.spawn("lock", "run", "deploy", "--wait", "1h", "--", "true", env={"TASUKI_AGENT": "codex"})
        ws.until(lambda: ws.tasuki("status", "--json").json["waiting"], "somebody waits")
        screen = tasuki_screen(ws, "watch", cols=cols, rows=rows, lang=lang)
        screen.until_text("api", "Failed")
        text = settled(screen)
        if cols >= 80:  # in a narrower one a long name leaves one space
            aligned([line for line in text.split("\n")[1:-2] if line.startswith(" ")], cells=3)
        golden(ws, "watch", text, cols, rows, lang, WATCH_HIDE)
        screen.keys("?")
        screen.until_gone("Failed")
        golden(ws, "watch-help", settled(screen), cols, rows, lang, WATCH_HIDE)
        screen.keys("Escape")
        screen.until_text("Failed")
        screen.keys("Down", "Enter")
        screen.until_text("! no port")
        golden(ws, "watch-detail", settled(screen), cols, rows, lang, WATCH_HIDE)
        if rows != 24:
            return
        screen.keys("l")
        screen.until_gone("stderr ")
        golden(ws, "watch-log", settled(screen), cols, rows, lang, WATCH_HIDE)
        screen.keys("q", "Home", "a")
        screen.until_text("ask (deploy): ")
        golden(ws, "watch-answer", settled(screen), cols, rows, lang, WATCH_HIDE)
        screen.keys("Escape", "/")
        screen.type("door")
        screen.until_text("/ door")
        screen.until_gone("Failed")
        golden(ws, "watch-filter", settled(screen), cols, rows, lang, WATCH_HIDE)


for cols, lang in ((cols, lang) for cols in (80, 60) for lang in ("en", "ja")):
    @test(f"watch asks an agent that stops another one's process, and is plain where nothing can be drawn: {cols}x24, {lang}")
    def _(ws, cols=cols, lang=lang):
        ws.at_close(lambda: ws.tasuki("proc", "stop", "--all"))
        ws.tasuki("proc", "create", "web", "--start", "--", "sleep", "1000", env=AGENT).expect(0)
        screen = tasuki_screen(ws, "watch", cols=cols, lang=lang, env={"TASUKI_AGENT": "codex"})
        screen.until_text("web", "Running")
        screen.keys("x")
        screen.until_text("[y/N]")
        golden(ws, "watch-asks", settled(screen), cols, 24, lang, WATCH_HIDE, flows=True)
        screen.keys("n", "q")
        eq(screen.ended(), 0, "exit code")
        ws.tasuki("proc", "stop", "web").expect(0)
        plain = tasuki_screen(ws, "watch", cols=cols, lang=lang, term="dumb")
        plain.until_text("Stopped", "==")
        golden(ws, "watch-plain", settled(plain), cols, 24, lang, WATCH_HIDE)


@test("the check of columns sees a cell that begins elsewhere, by the widths of a terminal", init=False)
def _(ws):
    aligned(["名前  状態  秒", "a     b     c  d", "長い  b", "a           c"])
    for line in ("a    b", "名前 b  c"):
        try:
            aligned(["名前  状態  秒", line])
        except AssertionError:
            continue
        raise AssertionError(f"{line!r} passes")


@test("the terminal of a test types, resizes, and reports how the command ended", init=False)
def _(ws):
    screen = Screen(ws, ["sh", "-c", "stty size; read line; echo \"got $line\"; stty size; exit 3"], cols=50, rows=10)
    screen.until_text("10 50")
    screen.resize(70, 20)
    screen.type("日本 $HOME")
    screen.keys("Enter")
    screen.until_text("got 日本 $HOME", "20 70")
    eq(screen.ended(), 3, "exit code")
    interrupted = Screen(ws, ["sleep", "1000"])
    ws.until(lambda: children_of(interrupted.pid()), "the command runs")
    interrupted.keys("C-c")
    eq(interrupted.ended(), 130, "exit code after Ctrl-C")


main(__name__)
