"""`tasuki up` on a terminal: its screen, Ctrl-C, Ctrl-Z, bg and fg, and the end of the terminal."""

import os
import re

from harness.harness import eq, main, test
from harness.processes import Processes, command_line_of, descendants_of, state_of
from harness.screen import Screen, golden, tasuki_screen
from up_common import PROCFILE, SERVERS, states, until_state, write

for cols, lang in ((80, "en"), (80, "ja"), (60, "en"), (60, "ja")):
    @test(f"the screen of up on a terminal of {cols}x24: {lang}; d leaves all running, Ctrl-C of the one that started stops them")
    def _(ws, cols=cols, lang=lang):
        p = Processes(ws)
        write(ws, "tasuki.yaml", SERVERS)
        screen = tasuki_screen(ws, "up", cols=cols, lang=lang)
        until_state(p, "api", "Failed", "backoff")
        screen.until_text(*(["again in"] if lang == "en" else ["後に再起動"]))
        screen.keys("d")
        eq(screen.ended(), 0, "exit code")
        golden(ws, "up", screen.text(scrolled=True), cols, 24, lang, hide=((r" \(pid \d+\)", ""),))
        eq((states(p)["db"], states(p)["web"]), ("Running", "Running"), "after d")
        ws.tasuki("down").expect(0)
        logs = tasuki_screen(ws, "proc", "logs", "-n", "4", cols=cols, lang=lang)
        logs.ended()
        golden(ws, "up-logs", logs.text(), cols, 24, lang)
        p.create("later", ("sleep", "1000"))
        p.script("api-2", "echo 'OSError: Address already in use' >&2; exit 1")
        p.end_at_once("api-2", by=lambda: p.call("start", "api-2")).expect(7)
        p.call("remove", "api", "db", "web").expect(0)
        listed = tasuki_screen(ws, "proc", "list", cols=cols, lang=lang)
        listed.ended()
        golden(ws, "failed-list", listed.text(), cols, 24, lang)


@test("a failure rings the bell where notify says so; a stop does not")
def _(ws):
    write(ws, "Procfile", "web: while :; do test -e fail && exit 3; sleep 0.1; done\ndb: exec sleep 1000\n")
    (ws.path / ".aiflow/config.yaml").write_text("notify: {failure: bell}\n")
    screen = tasuki_screen(ws, "up")
    screen.until_text("db  | started", "web | started")
    ws.tasuki("proc", "stop", "db").expect(0)
    screen.until_text("db  | stopped")
    assert not screen.rang(), "it rang for a stop"
    (ws.path / "fail").touch()
    screen.until_text("web | exited 3")
    ws.until(screen.rang, "it rings")


@test("Ctrl-C on the terminal of the up that started them stops them; the colour of a name is its own, stderr has a mark")
def _(ws):
    p = Processes(ws)
    write(ws, "Procfile", PROCFILE)
    screen = tasuki_screen(ws, "up")
    screen.until_text("! db", "| web on")
    shown = screen.text(colours=True)
    for pattern in (r"\x1b\[36m(\x1b\[\d+m)*web \|", r"\x1b\[33m(\x1b\[\d+m)*db +\|", r"\x1b\[31m(\x1b\[\d+m)* !"):
        assert re.search(pattern, shown), (pattern, shown)
    screen.keys("C-c")
    eq(screen.ended(), 0, "exit code")
    eq(states(p), {"web": "Stopped", "db": "Stopped"}, "afterwards")


def stopped_up(ws, rest):
    """`up` below a shell, stopped by Ctrl-Z; the shell continues with `rest`."""
    write(ws, "Procfile", PROCFILE)
    screen = Screen(ws, ["sh", "-mc", f"{ws.binary} up; {rest}; fg; echo over"])
    screen.until_text("! db", "| web on")
    screen.keys("C-z")
    return screen


def detach(ws, screen, *texts):
    """`d` leaves everything running."""
    screen.keys("d")
    screen.until_text("Detached", *texts)
    eq(states(Processes(ws)), {"web": "Running", "db": "Running"}, "afterwards")
    ws.tasuki("down").expect(0)


@test("Ctrl-Z gives the terminal back; after fg, d detaches as before")
def _(ws):
    screen = stopped_up(ws, "stty -a; echo stopped; read go")
    text = screen.until_text("stopped")
    assert " icanon" in text and " echo " in text, text
    screen.type("go\n")
    detach(ws, screen, "over")


@test("Ctrl-Z has no effect where nobody could continue the command")
def _(ws):
    write(ws, "Procfile", PROCFILE)
    screen = tasuki_screen(ws, "up")  # as with `ssh -t host tasuki up`: no shell
    screen.until_text("! db", "| web on")
    screen.keys("C-z")
    detach(ws, screen)
    eq(screen.ended(), 0, "exit code")


@test("after bg, what is typed is the shell's and costs nothing; after fg, d detaches as before", slow=True)
def _(ws):
    screen = stopped_up(ws, "echo stopped; bg; until test -e go; do sleep 0.05; done; read line; echo got $line")
    screen.until_text("stopped")
    up = next(pid for pid in descendants_of(os.getpid()) if command_line_of(pid)[1:2] == ["up"])
    screen.type("mine\n")
    screen.until_text("mine")
    ws.until(lambda: all(state_of(up) == "S" for _ in range(50)), "it sleeps beside a line that it does not read")
    (ws.path / "go").touch()
    screen.until_text("got mine")
    detach(ws, screen, "over")


@test("the end of the terminal leaves everything running")
def _(ws):
    p = Processes(ws)
    write(ws, "Procfile", PROCFILE)
    screen = tasuki_screen(ws, "up")
    screen.until_text("! db", "| web on")
    screen.close()
    ws.until(lambda: not any(command_line_of(pid)[1:2] == ["up"] for pid in descendants_of(os.getpid())), "the command ends")
    eq(states(p), {"web": "Running", "db": "Running"}, "afterwards")
    ws.tasuki("down").expect(0)


main(__name__)
