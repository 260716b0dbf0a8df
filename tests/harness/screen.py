"""A terminal that a test can read: tmux runs a command in a pseudo-terminal of a given size, and its screen is read back.

    from harness.screen import Screen, golden

    screen = Screen(ws, [ws.binary, "status"], cols=80, rows=24)
    screen.until_text("web")           # or until(lambda text: ...); waits up to 60 s
    screen.keys("Down", "Enter")       # names of keys as tmux knows them; screen.type("text") types a text
    screen.resize(60, 24)
    screen.ended()                     # waits for the end of the command and returns its exit code
    golden(ws, "status", screen.text(), 80, 24, "en")

`tasuki_screen(ws, "status", cols=60)` runs tasuki. The command's environment is the clean one of `ws`, with a terminal. Each
terminal has its own tmux server, which ends with the test. `golden` compares the screen, without what changes from one time to
the next, with tests/spec/golden/screens/NAME.COLSxROWS.LANG.txt; TASUKI_WRITE=1 writes that file: look at the difference then.
"""

import contextlib
import ctypes
import difflib
import os
import pathlib
import re
import shlex
import socket
import subprocess
import time
import unicodedata

from harness.harness import Skip
from harness.workspace import eq

CLONE_NEWUTS = 0x04000000
HOST_MAX = 12  # a longer name would be cut on some screens
CUT_PID = (r"\((?:pid|PID) .*…$", "(WHO…")  # where such a line is cut depends on the pid and on the machine's name
GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "spec" / "golden" / "screens"
DEADLINE_S = 60
LOOK_S = 0.03
# Reports the command's end in a file, and keeps what it has printed on the screen. What interrupts the command leaves the shell.
RUN_AND_STAY = 'trap : INT QUIT; "$@"; echo $? >"$TASUKI_SCREEN_END.new"; mv "$TASUKI_SCREEN_END.new" "$TASUKI_SCREEN_END"; exec sleep 100000'


class Screen:
    """A command on a terminal. `term` is the TERM that it sees."""

    count = 0

    def __init__(self, ws, argv, cols=80, rows=24, env=None, cwd=None, lang="en", term="tmux-256color"):
        Screen.count += 1
        self.ws = ws
        self.end_file = ws.base / f"screen-end.{Screen.count}"
        self.socket = ws.base / f"tmux.{Screen.count}"
        own = {"TERM": term, "LC_ALL": "C.UTF-8", "TASUKI_LANG": lang, "TASUKI_SCREEN_END": self.end_file}
        self.env = ws.env({**own, **(env or {})})
        argv = [os.fspath(a) if isinstance(a, os.PathLike) else str(a) for a in argv]
        config = ws.base / "tmux.conf"
        config.write_text(f"set -g status off\nset -g default-terminal {term}\n"
                          "set -s escape-time 0\nset -g history-limit 5000\nset -g default-shell /bin/sh\n")
        ws.at_close(self.close)
        ws.commands.append(f"$ {shlex.join(argv)}   (on a terminal of {cols}x{rows})")
        self._tmux("-f", config, "new-session", "-d", "-x", cols, "-y", rows, "-c", cwd or ws.path,
                   shlex.join(["exec", "/bin/sh", "-c", RUN_AND_STAY, "sh", *argv]))
        self._tmux("resize-window", "-x", cols, "-y", rows)

    def _tmux(self, *words, check=True):
        words = ["tmux", "-u", "-S", self.socket, *words]
        done = subprocess.run([str(w) for w in words], env=self.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE_S)
        assert not check or done.returncode == 0, f"{' '.join(map(str, words))}: {done.stderr.decode(errors='replace')}"
        return done.stdout.decode("utf-8", "replace")

    def text(self, colours=False, scrolled=False):
        """What the terminal shows, line by line, without spaces at the ends of lines and without empty lines at the end.
        colours: with the sequences that choose them; scrolled: all that was printed, also what has left the screen at its top, a
        line that the terminal has wrapped as one."""
        shown = self._tmux("capture-pane", "-p", *["-e"] * colours, *["-J", "-S", "-"] * scrolled)
        return "\n".join(line.rstrip() for line in shown.split("\n")).rstrip("\n") + "\n"

    def until(self, condition, what, timeout=DEADLINE_S):
        """Waits until condition(text of the screen) is true; returns the text."""
        end = time.monotonic() + timeout
        while True:
            text = self.text()
            if condition(text):
                return text
            assert time.monotonic() < end, f"waited {timeout} s in vain: {what}; the screen shows\n{text}"
            time.sleep(LOOK_S)

    def until_text(self, *texts):
        """Waits until all of them are on the screen."""
        return self.until(lambda shown: all(one in shown for one in texts), f"the screen shows {texts}")

    def until_gone(self, text):
        return self.until(lambda shown: text not in shown, f"{text!r} is no longer on the screen")

    def keys(self, *names):
        """Presses keys: Up Down PageDown Enter Escape C-c BSpace, or a character."""
        self._tmux("send-keys", *names)

    def type(self, text):
        self._tmux("send-keys", "-l", "--", text)

    def resize(self, cols, rows):
        self._tmux("resize-window", "-x", cols, "-y", rows)

    def pid(self):
        """Of the shell whose child the command is."""
        return int(self._tmux("display-message", "-p", "#{pane_pid}"))

    def alternate(self):
        """Whether the command shows its own screen, which leaves no trace behind."""
        return self._tmux("display-message", "-p", "#{alternate_on}").strip() == "1"

    def rang(self):
        """Whether the command has rung the bell."""
        return self._tmux("display-message", "-p", "#{window_bell_flag}").strip() == "1"

    def ended(self, timeout=DEADLINE_S):
        """Waits for the end of the command; returns its exit code (128 + the number of a signal)."""
        end = time.monotonic() + timeout
        while not self.end_file.exists():
            assert time.monotonic() < end, f"the command on the terminal did not end; the screen shows\n{self.text()}"
            time.sleep(LOOK_S)
        return int(self.end_file.read_text())

    def close(self):
        """Ends the terminal, the server and the command."""
        if self.socket.exists():
            self._tmux("kill-server", check=False)


def tasuki_screen(ws, *args, **options):
    return Screen(ws, [ws.binary, *args], **options)


# -- golden screens -------------------------------------------------------------------------------------------

UNIT = r"(?:ms|min|s|h|d|days?|ミリ秒|秒|分|時間|日|毫秒|分钟|小时|天)"
SPAN = rf"\d+(?:\.\d+)? ?{UNIT}(?: \d+ ?{UNIT})?(?![a-z])"
CHANGING = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:\d\d)?"), "TIME"),
    (re.compile(r"\b\d{4}-\d\d[-\dT:]*(?=…)"), "TIME"),
    (re.compile(r"\b\d\d:\d\d(:\d\d)?\b"), "HH:MM"),
    (re.compile(rf"(?<![\w.]){SPAN}"), "N s"),
    (re.compile(r"(?<=pid )\d+|(?<=PID )\d+|(?<=pid=)\d+"), "N"),
    (re.compile(r"(?<=  )\d{2,7}(?=  |$)", re.MULTILINE), "N"),  # a pid in a column
    (re.compile(r"\b[0-9a-f]{32}\b"), "TOKEN"),
    (re.compile(r"/tmp/tasuki-test-[^\s…]*"), "PATH"),
)


def masked(ws, text, hide=()):
    """The text without what changes: times, spans, pids, ids of runs, the test's paths. In a block of lines with such a part, two
    spaces separate the columns, and a line that is cut behind it ends there. `hide`: pairs of a pattern and what replaces it."""
    for number, run in enumerate(dict.fromkeys(re.findall(r"RUN-\d{8}T\d{6}-[0-9a-f]{6}", text)), 1):
        text = text.replace(run, f"RUN-00000000T000000-{number:06}")
    for number, run in enumerate(sorted((ws.path / ".aiflow/runs").glob("RUN-*")), 1):  # the short forms
        text = text.replace(run.name[-6:], f"{number:06}")
    for number, request in enumerate(sorted((ws.path / ".aiflow/requests").glob("RQ-[0-9]*T*.yaml")), 1):
        text = text.replace(request.stem, f"RQ-00000000T000000-{number:05}").replace(request.stem[-5:], f"{number:05}")
    return "\n\n".join(_masked_block(ws, block, hide) for block in text.split("\n\n"))


def _masked_block(ws, block, hide):
    own = [(re.escape(str(ws.path)), "ROOT"), (re.escape(str(ws.base)), "BASE"), (rf"\b{re.escape(socket.gethostname())}-\d+-\d+", "INSTANCE"),
           (rf"\bon {re.escape(socket.gethostname())}\b", "on HOST"), (rf"ホスト {re.escape(socket.gethostname())}\b", "ホスト HOST")]
    lines = []
    for line in block.split("\n"):
        given = line
        for pattern, new in (CUT_PID, *hide, *own, *CHANGING):
            line = re.sub(pattern, lambda _, new=new: f"\0{new}\0", line)
        if line != given and line.endswith("…"):
            line = line[:line.rindex("\0")] + "…"
        lines.append(line)
    text = "\n".join(lines)
    return re.sub(r"(?<=\S)  +", "  ", text.replace("\0", "")) if "\0" in text else text


def cell_columns(line):
    """Where the cells of a line begin, in columns of the terminal; two spaces separate cells."""
    return [width(line[:cell.start()]) for cell in re.finditer(r"\S+(?: \S+)*", line)]


def aligned(lines, cells=99):
    """The cells of the lines begin where those of the first line do. `cells`: so many are looked at; the last one may contain more. The
    screen itself is checked: a masked one has lost the widths of times and pids."""
    first = cell_columns(lines[0])[:cells]
    for line in lines[1:]:
        wrong = [column for column in cell_columns(line) if column <= first[-1] and column not in first]
        assert not wrong, f"not below the first line's columns {first}: {wrong} in\n{lines[0]}\n{line}"


def name_machine():
    """Gives the tests' machine a short name, for this program and its children only. Without root it keeps its own."""
    if len(socket.gethostname()) > HOST_MAX and ctypes.CDLL(None).unshare(CLONE_NEWUTS) == 0:
        with contextlib.suppress(OSError):
            socket.sethostname("host")


name_machine()  # before the first thread: the others inherit it


# What the terminal may wrap anywhere: commands and paths, which are copied; what programs print.
MAY_BE_LONG = re.compile(r"  (next|次の手|command|コマンド|output|出力|directory|場所) +|" + " " * 12 + r"tasuki |\S+ +[|!] |/")


def width(line):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def words_are_whole(text, cols):
    """`text` has the lines that the terminal has wrapped as one: a sentence is broken by us, between words."""
    long = [line for line in text.split("\n") if width(line) > cols and not MAY_BE_LONG.match(line)]
    assert not long, f"the terminal of {cols} columns breaks inside of a word: {long}"


def golden(ws, name, text, cols, rows, lang, hide=(), flows=False):
    """Compares the masked screen with its file. TASUKI_WRITE=1 writes the file. `flows`: where sentences are broken depends on pids
    and times, so spaces and line ends are not compared."""
    path = GOLDEN / f"{name}.{cols}x{rows}.{lang}.txt"
    words_are_whole(text, cols)
    if flows:
        text = re.sub(r"(pid|PID|ホスト|on)\n *", r"\1 ", text)  # what is masked stays in one piece
    text = masked(ws, text, hide)
    if os.environ.get("TASUKI_WRITE"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    expected = path.read_text() if path.exists() else ""
    if flows and "".join(expected.split()) == "".join(text.split()):
        return
    difference = list(difflib.unified_diff(expected.splitlines(), text.splitlines(), "expected", "given", lineterm="", n=2))
    if difference and len(socket.gethostname()) > HOST_MAX:
        raise Skip(f"the name of this machine is longer than {HOST_MAX} characters, and only root can give the test another one")
    eq(len(difference), 0, f"{path.name}: the difference (TASUKI_WRITE=1 accepts it)\n" + "\n".join(difference) + "\nits length")
