"""`tasuki proc attach`: a terminal at the terminal of a process that was created with --tty."""

import os
import signal
import socket
import struct

from harness.harness import children_of, eq, main, test
from harness.processes import SLEEP, Processes
from harness.screen import Screen, tasuki_screen

PROMPT = ["python3", "-q", "-i", "-c", "import os, sys"]
# What the shell says behind the command shows whether the terminal is as it was.
THEN_STTY = '"$@"; echo "code $?"; stty -a | tr ";" "\\n" | grep -c -w -e icanon; stty -a | grep -q -w -e "-icanon" && echo RAW; echo END'


def prompt(p, id="repl", *options):
    return p.create(id, PROMPT, "--tty", "--start", *options)


def attach(ws, *words, **options):
    screen = tasuki_screen(ws, "proc", "attach", *words, **options)
    screen.until_text("Attached to")
    return screen


def attach_in_shell(ws, *words, **options):
    screen = Screen(ws, ["sh", "-c", THEN_STTY, "sh", ws.binary, "proc", "attach", *words], **options)
    screen.until_text("Attached to")
    return screen


def type_line(screen, text):
    screen.type(text)
    screen.keys("Enter")


def is_restored(screen, code=0):
    shown = screen.until_text("END")
    assert f"code {code}" in shown and "RAW" not in shown, shown


def attach_pid(screen):
    """Of `tasuki proc attach` on a Screen of attach()."""
    return children_of(screen.pid())[0]


def connect(ws, id):
    """What `attach` does, without a terminal."""
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one.settimeout(60)
    os.chdir(ws.path / ".aiflow/processes" / id)
    try:
        one.connect("tty")
    finally:
        os.chdir("/")
    ws.at_close(one.close)
    return one


# -- using it ---------------------------------------------------------------------------------------------------------

@test("a prompt is typed into, detached from with Ctrl-], attached to again, and its output is in the log")
def _(ws):
    p = Processes(ws)
    prompt(p)
    pid = p.status("repl")["pid"]
    screen = attach_in_shell(ws, "repl")
    type_line(screen, "answer = 6 * 7; print('the answer is', answer)")
    screen.until_text("\nthe answer is 42")
    screen.keys("C-]")
    screen.until_text("Detached; repl keeps running")
    is_restored(screen)
    eq(p.status("repl")["pid"], pid, "its pid")
    again = attach(ws, "repl")
    again.until_text("\nthe answer is 42")  # the newest of its log
    type_line(again, "print(answer + 1)")
    again.until_text("\n43")
    again.keys("C-]")
    eq(again.ended(), 0, "exit code of a detached attach")
    log = ws.tasuki("proc", "logs", "repl").out
    assert "the answer is 42\n" in log and "43\n" in log and "\r\n" not in log, log
    eq(p.status("repl")["log"]["mode"], "tty", "the mode")


@test("Ctrl-C reaches the program and not attach; another key detaches where one is asked for")
def _(ws):
    p = Processes(ws)
    prompt(p)
    screen = attach(ws, "repl", "--detach-key", "ctrl-x")
    screen.until_text("Ctrl-X detaches")
    type_line(screen, "print('it', 'reads')")
    screen.until_text("\nit reads")  # before that, Ctrl-C ends it
    screen.keys("C-c")
    screen.until_text("KeyboardInterrupt")
    type_line(screen, "print('still', 'here')")
    screen.until_text("\nstill here")
    screen.keys("C-x")
    eq(screen.ended(), 0, "exit code")
    ws.tasuki("--json", "proc", "attach", "repl", "--detach-key", "x").expect(2, "INVALID_INPUT").error


@test("the program sees the size of the terminal, and its changes")
def _(ws):
    p = Processes(ws)
    prompt(p)
    screen = attach(ws, "repl", cols=72, rows=20)
    type_line(screen, "print(*os.get_terminal_size())")
    screen.until_text("\n72 20")
    type_line(screen, "import signal; _ = signal.signal(28, lambda *_: print('now', *os.get_terminal_size())); print('it', 'is set')")
    screen.until_text("\nit is set")
    screen.resize(66, 22)
    type_line(screen, "")  # a prompt handles signals between two lines
    screen.until_text("now 66 22")


@test("several attach: all see the output and all may type; the ninth is refused")
def _(ws):
    p = Processes(ws)
    prompt(p)
    one, two = attach(ws, "repl"), attach(ws, "repl")
    type_line(one, "print('from', 'one')")
    two.until_text("\nfrom one")
    type_line(two, "print('from', 'two')")
    one.until_text("\nfrom two")
    others = [connect(ws, "repl") for _ in range(6)]
    assert all(b"from two" in other.recv(70000) for other in others), "the newest of the log comes first"
    full = tasuki_screen(ws, "proc", "attach", "repl")
    eq(full.ended(), 4, "exit code")
    full.until_text("8 terminals are attached to 'repl' already")
    others[0].close()
    type_line(one, "print('one', 'less')")
    two.until_text("\none less")
    attach(ws, "repl")


@test("a program that ends while a terminal is attached: the reason is said; one that starts again keeps the terminal", slow=True)
def _(ws):
    p = Processes(ws)
    prompt(p)
    screen = attach_in_shell(ws, "repl")
    type_line(screen, "sys.exit('no more of this')")
    screen.until_text("repl has ended: exit 1: no more of this")
    is_restored(screen)
    prompt(p, "again", "--restart", "always")
    screen = attach(ws, "again")
    type_line(screen, "os._exit(3)")
    screen.until_text("again has ended; it starts again.")
    type_line(screen, "print('a new', 'one')")
    screen.until_text("\na new one")
    eq(p.status("again")["restarts"], 1, "restarts")


# -- who dies ---------------------------------------------------------------------------------------------------------

for name in ("SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT"):
    @test(f"{name} ends attach, the terminal is as it was, and the program runs on")
    def _(ws, name=name):
        p = Processes(ws)
        prompt(p)
        screen = attach_in_shell(ws, "repl")
        type_line(screen, r"print('\033[?1049h\033[?25l\033[?1000h', end='other screen', flush=True)")
        screen.until(lambda _: screen.alternate(), "the program shows its other screen")
        os.kill(attach_pid_in_shell(screen), getattr(signal, name))
        is_restored(screen)
        assert not screen.alternate(), "the other screen is still shown"
        eq(screen._tmux("display-message", "-p", "#{cursor_flag} #{mouse_any_flag}").strip(), "1 0", "cursor, mouse")
        eq(p.status("repl")["state_name"], "Running", "the state")


def attach_pid_in_shell(screen):
    """Of the command below the shell that says END."""
    return children_of(children_of(screen.pid())[0])[0]


@test("attach is killed, and its terminal closed: the program runs on, and one can attach again")
def _(ws):
    p = Processes(ws)
    prompt(p)
    screen = attach(ws, "repl")
    type_line(screen, "kept = 5; print('it', 'is kept')")
    screen.until_text("\nit is kept")
    os.kill(attach_pid(screen), signal.SIGKILL)
    eq(screen.ended(), 137, "exit code")
    second = attach(ws, "repl")
    type_line(second, "print('kept', kept)")
    second.until_text("\nkept 5")
    second.close()
    third = attach(ws, "repl")
    type_line(third, "print('kept', kept + 1)")
    third.until_text("\nkept 6")


@test("the holder is killed: attach says so and gives the terminal back; the next one has the same program, and LOG_GAP is told")
def _(ws):
    p = Processes(ws)
    prompt(p)
    before = p.status("repl")
    screen = attach_in_shell(ws, "repl")
    type_line(screen, "kept = 5; print('it', 'is kept')")
    screen.until_text("\nit is kept")
    os.kill(before["holder_pid"], signal.SIGKILL)
    screen.until_text("The holder of 'repl' was killed; repl keeps running", "tasuki proc attach repl")
    is_restored(screen, 4)
    second = attach(ws, "repl")
    type_line(second, "print('kept', kept)")
    second.until_text("\nkept 5")
    after = p.status("repl")
    eq(after["pid"], before["pid"], "the pid")
    assert after["holder_pid"] != before["holder_pid"], "there is no new holder"
    ws.until(lambda: "kept 5" in ws.tasuki("proc", "logs", "repl").out, "the log goes on")
    eq(len(ws.events("LOG_GAP")), 1, "LOG_GAP")


# Its copy of the master has another number than the one that a new holder looks for: as where the kernel refuses to give it.
HIDDEN = """
import os, sys, time
os.dup2(101, 150)
os.close(101)
print("ready", flush=True)
while not os.path.exists("go"):
    time.sleep(0.01)
for i in range(20000):
    print("a line that nobody reads", i)
sys.stdout.flush()
open("done", "w").close()
time.sleep(1000)
"""


@test("a terminal that a new holder cannot have: the program does not wait for a reader, attach is refused, restart brings it back", slow=True)
def _(ws):
    p = Processes(ws)
    p.create("hidden", ("python3", "-c", HIDDEN), "--tty", "--start")
    ws.until(lambda: "ready" in ws.tasuki("proc", "logs", "hidden").out, "it runs")
    before = p.status("hidden")
    os.kill(before["holder_pid"], signal.SIGKILL)
    p.until_gone(before["holder_pid"])
    eq(p.status("hidden")["pid"], before["pid"], "the pid of what was adopted")
    (ws.path / "go").touch()
    ws.until(lambda: (ws.path / "done").exists(), "it has printed everything")
    error = ws.tasuki("--json", "proc", "attach", "hidden").expect(4, "CONFLICT").error
    eq(error["next"], ["tasuki proc restart hidden"], "the next command")
    eq(len(ws.events("LOG_GAP")), 1, "LOG_GAP")
    (ws.path / "go").unlink()
    ws.tasuki("proc", "restart", "hidden").expect(0)
    attach(ws, "hidden").until_text("ready")


@test("an attach that is stopped does not stop the program; it reads afterwards how much it has missed")
def _(ws):
    p = Processes(ws)
    p.script("chatty", "read x; seq 200000; touch done; echo all; exec sleep 1000", "--tty", "--start")
    screen = attach(ws, "chatty")
    pid = attach_pid(screen)
    os.kill(pid, signal.SIGSTOP)
    connect(ws, "chatty").send(b"k\r")
    ws.until(lambda: (ws.path / "done").exists(), "it has printed everything")
    os.kill(pid, signal.SIGCONT)
    connect(ws, "chatty").send(b"khello\r")
    # The holder may still have something to read when it says so: what follows moves the sentence up.
    ws.until(lambda: "bytes were not shown; `tasuki proc logs chatty` has them" in screen.text(scrolled=True), "it says what was missed")
    log = (p.dir("chatty") / "log/stdout.log").read_text().splitlines()
    eq([line for line in log if line.isdigit()], [str(i + 1) for i in range(200000)], "the log")


@test("packets of another kind do no harm, and a size of nothing is not taken")
def _(ws):
    p = Processes(ws)
    prompt(p)
    one = connect(ws, "repl")
    for packet in (b"w", b"w\0\0\0\0", b"w" + struct.pack("HHH", 1, 2, 3), b"x" * 4096, b"?", b"k"):
        one.send(packet)
    one.send(b"w" + struct.pack("HH", 7, 9))
    one.send(b"kprint(*os.get_terminal_size())\r")
    log = p.dir("repl") / "log/stdout.log"  # a terminal that attaches would bring its own size
    ws.until(lambda: "\n9 7\n" in log.read_text(), "the size that was sent")


# -- refusals ---------------------------------------------------------------------------------------------------------

@test("what has no terminal is refused, with the command that gives it one")
def _(ws):
    p = Processes(ws)
    p.create("plain", SLEEP, "--start")
    error = ws.tasuki("--json", "proc", "attach", "plain").expect(4, "CONFLICT").error
    assert "was not created with --tty" in error["message"], error
    eq(error["next"], ["tasuki proc update plain --tty"], "the next command")
    ws.tasuki("proc", "update", "plain", "--tty").expect(0)
    error = ws.tasuki("--json", "proc", "attach", "plain").expect(4, "CONFLICT").error
    eq(error["next"], ["tasuki proc restart plain"], "and then")
    ws.tasuki("proc", "restart", "plain").expect(0)
    error = ws.tasuki("--json", "proc", "attach", "plain").expect(2, "INVALID_INPUT").error  # the test has no terminal
    eq(error["next"], ["tasuki proc logs plain -f"], "without a terminal")
    assert "There is no terminal here" in ws.tasuki("proc", "attach", "plain").expect(2).err
    ws.tasuki("proc", "stop", "plain", "--grace", "100").expect(0)
    error = ws.tasuki("--json", "proc", "attach", "plain").expect(4, "ProcessNotRunning").error
    eq(error["next"], ["tasuki proc start plain"], "when it does not run")
    ws.tasuki("--json", "proc", "attach", "nobody").expect(5, "ProcessNotFound").error
    ws.tasuki("--json", "proc", "create", "both", "--tty", "--log", "stamped", "--", "true").expect(2, "INVALID_INPUT")


@test("a terminal is no default, it is in the exported file, and nothing of it is left behind by a stop")
def _(ws):
    p = Processes(ws)
    prompt(p)
    p.create("plain", ("true",))
    text = ws.tasuki("proc", "export").out
    eq(text.count("log: tty"), 1, "in the file")
    (ws.path / "tasuki.yaml").write_text(text)
    ws.tasuki("up", "--detach", "--no-wait").expect(0)
    holder = p.status("repl")["holder_pid"]
    ws.tasuki("proc", "stop", "repl").expect(0)
    p.until_gone(holder)
    assert not (ws.path / ".aiflow/processes/repl/tty").exists(), "the socket is still there"


main(__name__)
