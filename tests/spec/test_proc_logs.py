"""Spec 5, output: reading what a process wrote by lines, cursor, time, pattern and start, and following it."""

import ctypes
import json
import os
import select
import shutil
import signal
import struct
import time

from harness.harness import Skip, eq, main, test
from harness.processes import Processes, send
from common import check_error

# Performs the lines that the test writes into the FIFO `say`; a later start goes on with the next one.
OBEY = 'while read -r line; do eval "$line"; done <say'


class Talker:
    """A process that says what it is told to say."""

    def __init__(self, ws, *options, id="web"):
        self.ws, self.id = ws, id
        self.p = Processes(ws)
        os.mkfifo(ws.path / "say")
        self.fifo = os.open(ws.path / "say", os.O_RDWR | os.O_CLOEXEC)
        ws.at_close(lambda: os.close(self.fifo))
        self.p.script(id, OBEY, "--cwd", str(ws.path), *options)
        self.p.start(id)

    def say(self, *commands):
        for command in commands:
            os.write(self.fifo, command.encode() + b"\n")

    def said(self, *commands):
        """The same, and it is done when this returns."""
        marker = self.ws.path / "said"
        marker.unlink(missing_ok=True)
        self.say(*commands, ": >said")
        self.ws.until(marker.exists, f"the process has done {commands}")

    def logs(self, *options):
        return self.p.call("logs", self.id, *options).expect(0).json

    def texts(self, *options):
        return [line["text"] for line in self.logs(*options)["lines"]]

    def plain(self, *options):
        """What the command writes into a pipe, as bytes."""
        proc = self.ws.spawn("proc", "logs", self.id, *options, text=False, encoding=None, errors=None)
        out, _ = proc.communicate(timeout=60)
        eq(proc.returncode, 0, "exit code")
        return out

    def seen(self):
        """How far the holder has seen stdout, by its index."""
        path = self.p.dir(self.id) / "stdout.idx"
        records = path.read_bytes() if path.exists() else b""
        return struct.unpack("=qqqQ", records[-32:])[1] if len(records) >= 32 else -1

    def follow(self, *options, json=False):
        words = ["--json"] if json else []
        return Follower(self.ws, self.ws.spawn(*words, "proc", "logs", self.id, "-f", *options))


class Follower:
    def __init__(self, ws, proc):
        self.ws, self.proc, self.shown = ws, proc, b""

    def _read(self, end):
        ready, _, _ = select.select([self.proc.stdout], [], [], max(0, end - time.monotonic()))
        data = os.read(self.proc.stdout.fileno(), 65536) if ready else b""
        self.shown += data
        return data

    def look(self):
        """All that it has shown so far."""
        while self._read(0):
            pass
        return self.shown

    def until(self, text):
        """Waits until it has shown exactly this, from its beginning."""
        end = time.monotonic() + 60
        while len(self.shown) < len(text.encode()) and self._read(end):
            pass
        eq(self.shown.decode(), text, "what follow shows")

    def ends(self, text):
        """It ends by itself, successfully, having shown exactly this."""
        end = time.monotonic() + 60
        while self._read(end):
            pass
        eq(self.proc.wait(max(0.1, end - time.monotonic())), 0, "exit code of follow")
        eq(self.shown.decode(), text, "what follow has shown")


# -- lines -----------------------------------------------------------------------------------------------------


@test("logs shows the last lines of stdout, of stderr, or of both")
def _(ws):
    t = Talker(ws)
    t.said("for i in 1 2 3; do echo out $i; done", "echo bad >&2")
    eq(t.plain("--stdout"), b"out 1\nout 2\nout 3\n")
    eq(t.plain("--stdout", "-n", "2"), b"out 2\nout 3\n")
    eq(t.plain("-n0"), b"")
    eq(t.plain("--stderr"), b"bad\n")
    for options in ((), ("--both",), ("--stdout", "--stderr")):
        eq(sorted(t.plain(*options).split(b"\n")), sorted([b"out 1", b"out 2", b"out 3", b"bad", b""]), str(options))


@test("a hundred lines are shown unless another number is asked for")
def _(ws):
    t = Talker(ws)
    t.said("seq 1 250")
    eq(t.texts(), [str(i) for i in range(151, 251)])
    eq(t.texts("--lines", "1000"), [str(i) for i in range(1, 251)])


@test("the JSON of logs has stream, time and text of each line, and a cursor")
def _(ws):
    t = Talker(ws)
    t.said("echo one", "printf two")
    result = t.logs()
    eq(list(result), ["id", "lines", "cursor"])
    eq(result["id"], "web")
    one, two = result["lines"]
    eq(sorted(one), ["stream", "text", "time"])
    eq((one["stream"], one["text"]), ("stdout", "one"))
    eq((two["text"], two["partial"]), ("two", True))
    eq(result["cursor"], "7:0")


@test("a process that was never started has an empty log, and one that does not exist is not found")
def _(ws):
    p = Processes(ws)
    p.create("idle")
    eq(p.call("logs", "idle").expect(0).json, {"id": "idle", "lines": [], "cursor": "0:0"})
    eq(ws.tasuki("proc", "logs", "idle", "-f").expect(0).out, "")
    check_error(p.call("logs", "idel"), 5, "ProcessNotFound")


@test("binary output reaches a pipe as it is and JSON as valid text")
def _(ws):
    t = Talker(ws)
    t.said(r"printf '\000\001\377\033[31mred\033]0;title\007\n\351\n'")
    eq(t.plain(), b"\0\1\xff\x1b[31mred\x1b]0;title\x07\n\xe9\n")
    eq(t.plain("--strip-ansi"), b"\0\1\xffred\n\xe9\n")
    eq(t.texts(), ["\0\1�\x1b[31mred\x1b]0;title\x07", "�"])


@test("on a terminal colours stay and nothing else can act on it")
def _(ws):
    t = Talker(ws)
    t.said(r"printf '\033[31mred\033[2J\033]0;title\007\007\n10%%\r20%%\n'")
    shown = ws.tty(["proc", "logs", "web"], env={"TERM": "xterm"}).expect(0).out
    eq(shown, "\x1b[31mred\\x07\x1b[0m\n10%\n20%\n")
    shown = ws.tty(["--no-color", "proc", "logs", "web"], env={"TERM": "xterm"}).expect(0).out
    eq(shown, "red\\x07\n10%\n20%\n")


@test("a line of a hundred megabytes does no harm", quick=False)
def _(ws):
    t = Talker(ws, "--log-max", str(256 << 20))
    t.said("head -c 104857600 /dev/zero | tr '\\000' x; echo; echo after", "")
    eq(t.texts("-n", "1"), ["after"])
    eq(len(t.plain("-n", "2")), 104857600 + 1 + 6)
    lines = t.logs("-n", "2")["lines"]
    assert all(line.get("partial") for line in lines[:-2]) and len(lines) > 50, len(lines)


# -- choosing --------------------------------------------------------------------------------------------------


@test("a cursor goes on where an answer ended, over dropped output and a restart", slow=True)
def _(ws):
    t = Talker(ws, "--log-max", "65536")
    t.said("seq 1 10")
    first = t.logs()
    eq(len(first["lines"]), 10)
    eq(t.texts("--cursor", first["cursor"]), [])
    t.said("seq 11 20")
    step = t.logs("--cursor", first["cursor"], "-n", "4")
    eq([line["text"] for line in step["lines"]], ["11", "12", "13", "14"])
    rest = t.logs("--cursor", step["cursor"])
    eq([line["text"] for line in rest["lines"]], [str(i) for i in range(15, 21)])
    t.said("seq 21 400000")
    log = t.p.dir("web") / "log" / "stdout.log"
    ws.until(lambda: log.stat().st_blocks * 512 < 400_000, "old output is dropped")
    old = t.logs("--cursor", first["cursor"])["lines"]  # it was dropped: goes on with the oldest that is kept
    eq([line["text"] for line in old], [str(i) for i in range(int(old[0]["text"]), 400001)])
    end = t.logs("-n", "1")
    eq([line["text"] for line in end["lines"]], ["400000"])
    t.p.stop("web")
    t.p.start("web")
    assert log.stat().st_size < 1_000_000, "the space of dropped output was not given back"
    t.said("echo again")
    eq(t.texts("--cursor", end["cursor"]), ["again"])


@test("a pattern chooses lines, and the last N are those that match")
def _(ws):
    t = Talker(ws)
    t.said("seq 1 5000")
    eq(t.texts("--grep", "^77.$|^12$"), ["12"] + [str(i) for i in range(770, 780)])
    eq(t.texts("--grep", "0$", "-n", "3"), ["4980", "4990", "5000"])
    result = t.p.call("logs", "web", "--grep", "(")
    check_error(result, 2, "INVALID_INPUT")
    assert "grep" in result.error["message"], result.error["message"]


@test("times choose lines: since and until, as a time or as how long ago")
def _(ws):
    t = Talker(ws, "--log", "stamped")
    for count, command in enumerate(("echo one", "sleep 0.01; echo two >&2", "sleep 0.01; echo three"), 1):
        t.say(command)  # the time of a line is that at which it was read
        ws.until(lambda: len(t.logs("--both")["lines"]) == count, f"the holder has read {command}")
    times = [line["time"] for line in t.logs("--both")["lines"]]
    eq(sorted(set(times)), times, "the times")
    eq(t.texts("--both", "--since", times[1]), ["two", "three"])
    eq(t.texts("--both", "--until", times[1]), ["one", "two"])
    eq(t.texts("--both", "--since", times[1], "--until", times[1]), ["two"])
    eq(t.texts("--since", "1h"), ["one", "two", "three"])
    eq(t.texts("--until", "1h"), [])
    eq(t.texts("--since", "2000-01-01", "--until", "2001-01-01 12:00"), [])
    eq(t.texts("--stdout", "--since", "2000-01-01T00:00:00+09:00"), ["one", "three"])


@test("the time of a line in a plain log is that of the look which first saw it", slow=True)
def _(ws):
    t = Talker(ws)
    t.said("echo one")
    ws.until(lambda: t.seen() >= 4, "the holder has seen the first line")
    t.said("echo two")
    ws.until(lambda: t.seen() >= 8, "the holder has seen the second line")
    first, second = (line["time"] for line in t.logs()["lines"])
    assert first < second, (first, second)
    eq(t.texts("--since", second), ["two"])
    eq(t.texts("--until", first), ["one"])


@test("the output of one start is chosen by its number")
def _(ws):
    t = Talker(ws)
    t.said("echo first")
    t.p.call("restart", "web").expect(0)
    t.said("echo second", "echo bad >&2")
    eq(t.texts("--run", "1"), ["first"])
    eq(t.texts("--run", "2", "--stdout"), ["second"])
    eq(sorted(t.texts("--run", "-1")), ["bad", "second"])
    eq(t.texts("--run", "1", "--stderr"), [])
    eq(t.texts("--run", "2", "--stderr"), ["bad"])
    eq(t.texts("--run", "0", "--stdout"), ["first", "second"])
    check_error(t.p.call("logs", "web", "--run", "3"), 2, "INVALID_INPUT")


@test("what cannot be meant is refused with the word that is wrong")
def _(ws):
    p = Processes(ws)
    p.create("web")
    for option, value in (("cursor", "12"), ("cursor", "1:2:3"), ("cursor", ":"), ("cursor", "-1:0"), ("since", "soon"),
                          ("until", "2026-02-30"), ("run", "-2"), ("lines", "-1"), ("stream", "stdin"),
                          ("grep", "x{99999}")):
        result = p.call("logs", "web", f"--{option}", value)
        check_error(result, 2, "INVALID_INPUT")
        assert option in json.dumps(result.error["context"]), result.error
    check_error(p.call("logs", "web", "-f", "--until", "1m"), 2, "INVALID_INPUT")


# -- compaction ------------------------------------------------------------------------------------------------

MIB = 1 << 20
PUNCH_AND_KEEP_SIZE = 3


def wear_out(ws, directory):
    """A log of 3 MiB in lines of 16 bytes, of which the holder has dropped the first two; made anew each time."""
    log = directory / "log" / "stdout.log"
    log.unlink(missing_ok=True)
    text = b"".join(b"line %010d\n" % i for i in range(3 * MIB // 16))
    log.write_bytes(text)
    with open(log, "r+b") as file:
        punch = ctypes.CDLL(None, use_errno=True).fallocate
        punch.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong]
        if punch(file.fileno(), PUNCH_AND_KEEP_SIZE, 0, 2 * MIB) != 0:
            raise Skip("no holes can be punched here")
    record = struct.pack("=qqqQ", 1770471000000, len(text), 0, log.stat().st_ino)
    (directory / "stdout.idx").write_bytes(record)
    return text


def check_kept(p, text, what):
    """Whatever happened: the end is there, and a cursor means what it meant."""
    back = MIB // 2
    result = p.call("logs", "job", "--cursor", f"{len(text) - back}:0").expect(0).json
    shown = "".join(line["text"] + "\n" for line in result["lines"]).encode()
    assert shown == text[-back:], f"{what}: the cursor shows {shown[:50]!r} …"


for _mode in ("kill", "kill-after", "ENOSPC"):

    @test(f"nothing is lost when a start is cut short while it compacts the log: {_mode} at every change", quick=False)
    def _(ws, mode=_mode):
        p = Processes(ws)
        p.run("job", ("true",))
        p.until_state("job", "Stopped")
        log = p.dir("job") / "log" / "stdout.log"
        step, compacted, before = 0, 0, 0
        while True:
            step += 1
            text = wear_out(ws, p.dir("job"))
            result = ws.fault("proc", "start", "job", at=step, mode=mode,
                              env={"TASUKI_FAULT_ONLY": "write,pwrite,fdatasync,linkat,renameat2"})
            ws.until(lambda: p.status("job")["state_name"] in ("Stopped", "Failed"), "the job is over")
            check_kept(p, text, f"{mode} at call {step}")
            compacted += log.stat().st_size < 2 * MIB
            before += log.stat().st_size > 2 * MIB
            if result.code == 0 and result.calls is not None and result.calls < step:
                break
        assert compacted and before, "the compaction was not cut short"
        eq(sorted(os.listdir(log.parent)), ["stderr.log", "stdout.log"], "what is left in log/")


# -- modes -----------------------------------------------------------------------------------------------------


@test("mode stamped keeps the order of both outputs, and parts them again")
def _(ws):
    t = Talker(ws, "--log", "stamped")
    lines = []
    for line, command in ((f"{name} {i}", f"echo {name} {i} {to}") for i in range(3) for name, to in (("out", ""), ("err", ">&2"))):
        lines.append(line)
        t.say(command)  # the order is that in which they were read: the next one is said when this one was
        ws.until(lambda: t.plain("--both").decode().splitlines() == lines, f"{line} is the last line")
    eq(t.plain("--stderr", "-n", "2"), b"err 1\nerr 2\n")
    eq(t.texts("--stdout", "-n", "1"), ["out 2"])


@test("mode pipe is read like a plain log")
def _(ws):
    t = Talker(ws, "--log", "pipe")
    t.say("seq 1 3")
    ws.until(lambda: t.plain() == b"1\n2\n3\n", "the output is there")
    end = t.logs()["cursor"]
    t.say("echo 4")
    ws.until(lambda: t.texts("--cursor", end) == ["4"], "the cursor goes on")


# -- what a reader does not see ----------------------------------------------------------------------------------

@test("logs reads through no link: neither a log that is one nor a directory that is one")
def _(ws):
    t = Talker(ws)
    t.say("echo mine")
    ws.until(lambda: "mine" in t.p.call("logs", "web").out, "the line")
    outside, log = ws.base / "outside", t.p.dir("web") / "log"
    outside.mkdir()
    (outside / "stdout.log").write_text("a secret\n")
    log.rename(ws.base / "kept")
    log.symlink_to(outside)
    for words in (("logs", "web"), ("logs", "web", "--both"), ("logs", "web", "--cursor", "0:0")):
        result = t.p.call(*words)
        assert result.code != 0 and "secret" not in result.out + result.err, result
    log.unlink()
    (ws.base / "kept").rename(log)


@test("a reader that was overtaken hears how much was dropped: by a cursor, and while it follows", slow=True)
def _(ws):
    t = Talker(ws, "--log-max", "65536")
    t.say("echo first")
    text, documents = t.follow(), t.follow(json=True)
    for follower in (text, documents):
        ws.until(lambda f=follower: b"first" in f.look(), "the first line")
        os.kill(follower.proc.pid, signal.SIGSTOP)
    t.say("seq 100000 199999; echo; echo last")
    ws.until(lambda: t.p.call("logs", "web", "-n", "1").json["lines"][0]["text"] == "last", "the last line")
    ws.until(lambda: t.p.call("logs", "web", "--cursor", "6:0").json.get("missed_bytes", 0) > 400000, "what was dropped")
    missed = t.p.call("logs", "web", "--cursor", "6:0").json["missed_bytes"]
    shown = ws.tasuki("proc", "logs", "web", "--cursor", "6:0").expect(0).out.splitlines()
    eq(shown[0], f"-- {missed} bytes were dropped before they could be read --", "the first line")
    assert "missed_bytes" not in t.p.call("logs", "web", "-n", "3").json, "nobody was overtaken"
    for follower in (text, documents):
        os.kill(follower.proc.pid, signal.SIGCONT)
        ws.until(lambda f=follower: b"last" in f.look(), "the last line")
    lines = text.look().decode().splitlines()
    eq([line for line in lines if "dropped" in line], [shown[0]], "one line says it")
    eq(lines.index(shown[0]), 1, "in the place of what was dropped")
    values = [json.loads(line) for line in documents.look().splitlines()]
    eq([value["missed_bytes"] for value in values if "missed_bytes" in value], [missed], "one document says it")


# -- following -------------------------------------------------------------------------------------------------


@test("follow shows what is written when it is written, over a restart, and ends with the process")
def _(ws):
    t = Talker(ws)
    t.said("seq 1 3")
    follower = t.follow("-n", "2")
    follower.until("2\n3\n")
    t.say("echo more", "printf 'no end'")
    follower.until("2\n3\nmore\nno end")
    t.say("echo ' yet'")
    follower.until("2\n3\nmore\nno end yet\n")
    t.p.call("restart", "web").expect(0)
    t.say("echo again")
    follower.until("2\n3\nmore\nno end yet\nagain\n")
    t.say("echo last; exit 3")
    follower.ends("2\n3\nmore\nno end yet\nagain\nlast\n")


@test("follow of a process that does not run shows what there is and ends")
def _(ws):
    t = Talker(ws)
    t.said("echo one", "echo two")
    t.p.stop("web")
    t.follow().ends("one\ntwo\n")
    t.follow("-n", "1", json=True).proc.wait(60)


@test("follow waits through a backoff and ends when the process is stopped", slow=True)
def _(ws):
    t = Talker(ws, "--restart", "on-failure", "--backoff", "1h", "--backoff-max", "1h")
    follower = t.follow()
    t.say("echo one; exit 1", "echo two; exit 1")
    t.p.until_state("web", "Failed", "backoff")
    follower.until("one\ntwo\n")
    t.p.start("web")
    t.say("echo three")
    follower.until("one\ntwo\nthree\n")
    t.p.stop("web")
    follower.ends("one\ntwo\nthree\n")


@test("follow prints one JSON document per line, of whole lines")
def _(ws):
    t = Talker(ws)
    follower = t.follow("--both", json=True)
    t.said("printf 'half '", "echo whole", "echo bad >&2")
    ws.until(lambda: follower._read(time.monotonic() + 60) and follower.shown.count(b"\n") == 2, "two documents")
    documents = [json.loads(line) for line in follower.shown.decode().splitlines()]
    eq(sorted((d["stream"], d["text"]) for d in documents), [("stderr", "bad"), ("stdout", "half whole")])
    assert all("partial" not in d for d in documents)
    t.say("printf tail; exit 0")
    follower.proc.wait(60)
    follower._read(time.monotonic() + 60)
    eq(json.loads(follower.shown.splitlines()[-1])["text"], "tail")


@test("follow with a pattern shows a line when it is complete and matches")
def _(ws):
    t = Talker(ws)
    follower = t.follow("--grep", "^need.*le$")
    t.say("echo other", "printf need", "echo less", "printf need", "echo le", "exit 0")
    follower.ends("needle\n")


@test("follow in mode stamped shows both outputs in their order")
def _(ws):
    t = Talker(ws, "--log", "stamped")
    follower = t.follow("--both")
    t.say("echo one")
    follower.until("one\n")  # the order is that in which they were read
    t.say("echo two >&2")
    follower.until("one\ntwo\n")
    t.say("printf three", "exit 0")
    follower.ends("one\ntwo\nthree")


@test("follow goes on when the process cuts its own log")
def _(ws):
    t = Talker(ws)
    t.said("echo one, which is longer")
    follower = t.follow()
    follower.until("one, which is longer\n")
    ws.until(lambda: t.seen() >= 21, "the holder has seen it")
    t.say("echo two >/dev/stdout")
    follower.until("one, which is longer\ntwo\n")
    t.say("echo three", "exit 0")
    follower.ends("one, which is longer\ntwo\nthree\n")


@test("follow ends when its process is removed")
def _(ws):
    t = Talker(ws)
    t.said("echo one")
    follower = t.follow()
    follower.until("one\n")
    t.p.call("remove", "web", "--force").expect(0)
    follower.ends("one\n")


@test("follow ends when holder and process are killed together")
def _(ws):
    t = Talker(ws)
    t.said("echo one")
    follower = t.follow()
    follower.until("one\n")
    record = t.p.status_file("web")
    send(record["holder"]["pid"])
    send(record["child"]["pid"])
    follower.ends("one\n")


@test("follow of one start ends with it, although the process is started again")
def _(ws):
    t = Talker(ws)
    follower = t.follow("--run", "-1")
    t.said("echo one")
    follower.until("one\n")  # it has begun before the next start
    t.p.call("restart", "web").expect(0)
    t.said("echo two")
    follower.ends("one\n")


@test("follow works where no inotify instance is to be had")
def _(ws):
    t = Talker(ws)
    if not shutil.which("unshare"):
        raise Skip("unshare is not installed")
    script = f"echo 0 >/proc/sys/user/max_inotify_instances; exec {ws.binary} proc logs web -f"
    probe = ws.run(["unshare", "-Ur", "sh", "-euc", "echo 0 >/proc/sys/user/max_inotify_instances"])
    if probe.code != 0:
        raise Skip(f"no user namespace with a limit of its own: {probe.err.strip()}")
    follower = Follower(ws, ws.spawn_command(["unshare", "-Ur", "sh", "-euc", script]))
    t.say("echo one")
    follower.until("one\n")
    t.say("echo two; exit 0")
    follower.ends("one\ntwo\n")


main(__name__)
