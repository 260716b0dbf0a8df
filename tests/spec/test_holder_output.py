"""The output of the child through the holder program: the three modes, index, bounds, truncation, full disks, leftovers."""

import os
import pathlib
import re
import signal
import stat
import subprocess
import time

from harness.harness import Skip, eq, main, test
from common import until_settled
from holder_common import Holder, kill, python, sh, ticks_of, wait_until

MIB = 1 << 20
STAMP = re.compile(rb"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (out|err) ")


def disk_use(path):
    return path.stat().st_blocks * 512


def stamped(data):
    """[(stream, text)] of the lines of output.log."""
    lines = data.split(b"\n")
    eq(lines.pop(), b"", "after the last newline")
    found = []
    for line in lines:
        match = STAMP.match(line)
        assert match, f"no stamp: {line[:80]!r}"
        found.append((match[1].decode(), line[match.end():]))
    return found


# -- all modes ------------------------------------------------------------------------------------------------

for mode in ("direct", "pipe"):
    @test(f"{mode}: what the child writes is in the files, byte for byte, a new start appends", init=False)
    def _(ws, mode=mode):
        h = Holder(ws)
        code = "import os; os.write(1, bytes(range(256)) * 9); os.write(2, b'\\0\\n\\xff')"
        for n in (1, 2):
            h.start(python(code), n=n, log=mode)
            h.wait()
            eq(h.log(), bytes(range(256)) * 9 * n, "stdout")
            eq(h.log("stderr"), b"\0\n\xff" * n, "stderr")
        eq((h.status["stdout_offset"], h.status["stderr_offset"]), (256 * 9, 3))

    @test(f"{mode}: the index knows the end of each stream, when it was reached, and the file", init=False)
    def _(ws, mode=mode):
        h = Holder(ws)
        before = int(time.time() * 1000)
        h.start(sh("echo hello; echo no >&2"), log=mode)
        h.wait()
        for name, size in (("stdout", 6), ("stderr", 3)):
            at, offset, base, inode = h.index(name)[-1]
            eq((offset, base, inode), (size, 0, (h.dir / f"log/{name}.log").stat().st_ino))
            assert before <= at <= time.time() * 1000, at

    @test(f"{mode}: the first write after a quiet time is noted at once", init=False, slow=True)
    def _(ws, mode=mode):
        h = Holder(ws)
        os.mkfifo(ws.path / "go")
        h.start(sh("while read -r word; do echo $word; done < go"), log=mode)
        eq(h.index()[-1][1], 0, "the offset at the start")
        with open(ws.path / "go", "w", encoding="ascii") as go:
            for i, word in enumerate(("one", "two"), 1):
                print(word, file=go, flush=True)
                wait_until(lambda i=i: h.index()[-1][1] == 4 * i, f"the index record of line {i}")
        h.wait()

    @test(f"{mode}: a file that was cut is noticed; its logical offsets go on", init=False, slow=True)
    def _(ws, mode=mode):
        h = Holder(ws)
        os.mkfifo(ws.path / "go")
        h.start(sh("echo 0123456789; read -r x < go; echo ab; exec sleep 100"), log=mode)
        wait_until(lambda: h.index()[-1][1] == 11, "the index")
        (h.dir / "log/stdout.log").write_bytes(b"")
        (ws.path / "go").write_text("x\n")
        fact = h.wait_for("truncated")
        eq((fact["stream"], fact["lost"], fact["n"]), ("stdout", 11, 1))
        wait_until(lambda: h.index()[-1][1] == 14, "the index after the cut")
        eq(h.index()[-1][2], 11, "base")
        eq(h.log(), b"ab\n")
        h.stop()

    @test(f"{mode}: only the newest bytes are kept on the disk, at their places", init=False)
    def _(ws, mode=mode):
        h = Holder(ws)
        total, keep = 6 * MIB, MIB
        code = f"import os\nfor i in range({total} // 64): os.write(1, b'%63d\\n' % i)"
        h.start(python(code), log=mode, log_max=keep)
        h.wait()
        path = h.dir / "log/stdout.log"
        eq(path.stat().st_size, total, "apparent size")
        data = path.read_bytes()
        eq(data[-keep:], b"".join(b"%63d\n" % i for i in range((total - keep) // 64, total // 64)), "the newest bytes")
        use = disk_use(path)
        assert use <= keep + keep // 8 + 64 * 1024 + 8192, f"{use} bytes on the disk"
        eq(data[:4096].strip(b"\0"), b"", "the oldest bytes")

    @test(f"{mode}: a file that was cut or replaced while nobody looked goes on behind its old end", init=False)
    def _(ws, mode=mode):
        h = Holder(ws)
        h.start(sh("echo 0123456789"), log=mode)
        h.wait()
        (h.dir / "log/stdout.log").unlink()
        h.start(sh("echo ab"), n=2, log=mode)
        eq(h.wait()["stdout_offset"], 11)
        eq((h.facts("truncated")[0]["lost"], h.index()[-1][1:3]), (11, (14, 11)))
        (h.dir / "log/stdout.log").write_bytes(b"")
        h.start(sh("echo c"), n=3, log=mode)
        eq(h.wait()["stdout_offset"], 14)
        eq((h.facts("truncated")[1]["lost"], h.index()[-1][1:3]), (3, (16, 14)))


@test("direct: the child has the file itself, in append mode, each start its own description of it", init=False)
def _(ws):
    h = Holder(ws)
    h.start(["sleep", "100"])
    for fd, name in ((1, "stdout"), (2, "stderr")):
        eq(os.readlink(f"/proc/{h.pid}/fd/{fd}"), str(h.dir / f"log/{name}.log"))
        flags = int(pathlib.Path(f"/proc/{h.pid}/fdinfo/{fd}").read_text().split("flags:")[1].split()[0], 8)
        eq(flags & (os.O_APPEND | os.O_ACCMODE), os.O_APPEND | os.O_WRONLY, "flags")
    h.stop()


@test("direct: a log that was moved away is not written to by the next start", init=False)
def _(ws):
    h = Holder(ws)
    h.start(sh("echo x >> count; echo $(wc -l < count); exec sleep 100"), restart="always", healthy_ms=0)
    wait_until(lambda: h.log() == b"1\n", "the first start")
    (h.dir / "log/stdout.log").rename(h.dir / "log/old.log")
    kill(h.pid)
    wait_until(lambda: (h.dir / "log/stdout.log").exists() and h.log() == b"2\n", "the second start")
    eq((h.dir / "log/old.log").read_bytes(), b"1\n")
    h.stop()


@test("the index is bounded like the log", init=False)
def _(ws):
    h = Holder(ws)
    h.start(["true"])
    h.wait()
    record = (h.dir / "stdout.idx").read_bytes()[-32:]
    (h.dir / "stdout.idx").write_bytes(record * (3 * MIB // 32))
    h.start(sh("echo x"), n=2)
    h.wait()
    path = h.dir / "stdout.idx"
    assert disk_use(path) <= MIB + 64 * 1024 + 8192, disk_use(path)
    eq(h.index()[-1][1], 2)


@test("a torn record at the end of the index is cut off", init=False)
def _(ws):
    h = Holder(ws)
    h.start(sh("echo x"))
    h.wait()
    with open(h.dir / "stdout.idx", "ab") as stream:
        stream.write(b"torn")
    h.start(sh("echo y"), n=2)
    h.wait()
    eq((h.dir / "stdout.idx").stat().st_size % 32, 0)
    eq(h.index()[-1][1], 4)


# -- pipe -----------------------------------------------------------------------------------------------------

@test("pipe: reopening the output with truncation loses nothing", init=False)
def _(ws):
    h = Holder(ws)
    h.start(sh("echo one; echo two > /dev/stdout; echo three > /dev/stderr; echo four"), log="pipe")
    h.wait()
    eq((h.log(), h.log("stderr")), (b"one\ntwo\nfour\n", b"three\n"))


@test("pipe: the death of the holder loses nothing while the child lives, and the child does not notice", init=False, slow=True)
def _(ws):
    h = Holder(ws)
    # It writes until it is told that there were deaths enough: how many there are in a given time is the machine's matter.
    code = ("import os, time\ni = 0\nwhile i < 3000 or not os.path.exists('enough'):\n  os.write(1, b'%d\\n' % i); i += 1; time.sleep(0.0002)\n"
            "os.write(2, b'%d done\\n' % i); time.sleep(1000)")
    command = python(code)
    h.start(command, log="pipe")
    for _ in range(8):
        h.kill()
        eq(h.adopt(command, log="pipe")[0], "ok")
    (ws.path / "enough").touch()
    count = int(wait_until(lambda: h.log("stderr").endswith(b"done\n") and h.log("stderr"), "its last word").split()[0])
    eq(h.log(), b"".join(b"%d\n" % i for i in range(count)))
    h.stop()


@test("pipe: output that is still in the pipe when the child ends is in the file before the exit is recorded", init=False)
def _(ws):
    h = Holder(ws)
    os.mkfifo(ws.path / "go")
    h.start(python(f"import os; open('{ws.path}/go').read(); os.write(1, b'x' * 60000)"), log="pipe")
    h.proc.send_signal(signal.SIGSTOP)
    (ws.path / "go").write_text("x")
    wait_until(lambda: not ticks_of(h.pid), "the child's end")
    h.order_stop()  # so that it does not stay to empty the pipe
    h.proc.send_signal(signal.SIGCONT)
    h.wait()
    eq(len(h.log()), 60000)


@test("pipe: a leftover's output is captured after the child's end, without holder.lock, until it ends", init=False)
def _(ws):
    h = Holder(ws)
    os.mkfifo(ws.path / "go")
    h.start(sh("(exec < go; read -r x; echo late; read -r x) & echo early"), log="pipe")
    h.wait_exit()
    wait_until(lambda: not h.is_locked(), "the end of holder.lock")
    eq(h.proc.poll(), None, "the holder has ended")
    with open(ws.path / "go", "w", encoding="ascii") as go:
        print("x", file=go, flush=True)
        wait_until(lambda: h.log() == b"early\nlate\n", "the leftover's line")
    h.proc.wait(60)


@test("pipe: the next start's holder takes over a leftover's pipe from the one that only emptied it", init=False)
def _(ws):
    h = Holder(ws)
    os.mkfifo(ws.path / "go")
    h.start(sh("(read -r x < go; echo late; exec sleep 100) & echo $! > left; echo early"), log="pipe")
    h.wait_exit()
    wait_until(lambda: not h.is_locked(), "the end of holder.lock")
    first = h.proc
    h.start(sh("echo second; exec sleep 100"), n=2, log="pipe")
    wait_until(lambda: h.log() == b"early\nsecond\n", "the second start's line")
    (ws.path / "go").write_text("x\n")
    wait_until(lambda: h.log() == b"early\nsecond\nlate\n", "the leftover's line")
    first.wait(60)
    h.stop()
    kill(int((ws.path / "left").read_text()))


@test("pipe: a leftover's pipe and a next start in mode direct do not disturb each other", init=False)
def _(ws):
    h = Holder(ws)
    os.mkfifo(ws.path / "go")
    h.start(sh("(while read -r x; do echo late$x; done < go) & echo early"), log="pipe")
    h.wait_exit()
    wait_until(lambda: not h.is_locked(), "the end of holder.lock")
    first = h.proc
    h.start(sh("echo second; exec sleep 100"), n=2)
    wait_until(lambda: h.log() == b"early\nsecond\n", "the second start's line")
    with open(ws.path / "go", "w", encoding="ascii") as go:
        for word in ("1", "2"):
            print(word, file=go, flush=True)
            wait_until(lambda word=word: b"late" + word.encode() in h.log(), "the leftover's line")
    eq(h.log(), b"early\nsecond\nlate1\nlate2\n")
    first.wait(60)
    h.stop()


@test("pipe: a child that closes its output costs nothing", init=False)
def _(ws):
    h = Holder(ws)
    h.start(sh("exec sleep 100 >/dev/null 2>&1"), log="pipe")
    name = pathlib.Path(f"/proc/{h.pid}/comm")  # the shell, until it has opened /dev/null and become the command
    wait_until(lambda: name.read_text().strip() == "sleep", "the child's exec")
    until_settled(ws, h.proc)  # it does not spin
    h.stop()


# -- stamped --------------------------------------------------------------------------------------------------

# Two streams have the order in which they were read: the next is written when this was.
READ = "read_it() { until grep -q $1 p/log/output.log; do sleep 0.01; done; }; read_it"


@test("stamped: both streams are in one file, each line with its time and stream", init=False)
def _(ws):
    h = Holder(ws)
    h.start(sh(f"echo one; {READ} one; echo two >&2; {READ} two; printf 'a\\nb\\n\\n'"), log="stamped")
    h.wait()
    eq(stamped(h.log("output")), [("out", b"one"), ("err", b"two"), ("out", b"a"), ("out", b"b"), ("out", b"")])
    eq(sorted(p.name for p in (h.dir / "log").iterdir()), ["output.log"])
    eq(h.index("output")[-1][1], len(h.log("output")))


@test("stamped: a long line has one stamp and keeps every byte", init=False)
def _(ws):
    h = Holder(ws)
    h.start(python("import os\nfor _ in range(40): os.write(1, bytes(range(11, 256)) * 400)\nos.write(1, b'\\n')"), log="stamped")
    h.wait()
    eq(stamped(h.log("output")), [("out", bytes(range(11, 256)) * 400 * 40)])


@test("stamped: many short lines are all there", init=False)
def _(ws):
    h = Holder(ws)
    h.start(python("import os; os.write(1, b''.join(b'%d\\n' % i for i in range(50000)))"), log="stamped")
    h.wait()
    eq(stamped(h.log("output")), [("out", b"%d" % i) for i in range(50000)])


@test("stamped: an unfinished line is ended before the other stream's, and goes on with a new stamp", init=False)
def _(ws):
    h = Holder(ws)
    h.start(sh(f"printf abc; {READ} abc; echo 123 >&2; {READ} 123; echo def"), log="stamped")
    h.wait()
    eq(stamped(h.log("output")), [("out", b"abc"), ("err", b"123"), ("out", b"def")])


@test("stamped: a new start does not go on in the line of the one before", init=False)
def _(ws):
    h = Holder(ws)
    h.start(sh("printf abc"), log="stamped")
    h.wait()
    h.start(sh("echo def"), n=2, log="stamped")
    h.wait()
    eq(stamped(h.log("output")), [("out", b"abc"), ("out", b"def")])
    h.start(sh("echo x >> count; printf abc; [ $(wc -l < count) -ge 2 ] && echo"), n=3, log="stamped", restart="on-failure")
    h.wait()
    eq(stamped(h.log("output"))[2:], [("out", b"abc"), ("out", b"abc")])


@test("stamped: a stamp that a SIGKILL has torn does not stay as a line; an unfinished line does", init=False)
def _(ws):
    h = Holder(ws)
    log = h.dir / "log" / "output.log"
    h.start(sh("echo abc"), log="stamped")
    h.wait()
    whole = h.log("output").split(b"abc")[0]
    for n, torn in enumerate((b"2026-1", whole[:-1], whole), start=2):
        with log.open("ab") as file:
            file.write(torn)
        h.start(sh("echo abc"), n=n, log="stamped")
        h.wait()
    eq(stamped(h.log("output")), [("out", b"abc")] * 4)
    with log.open("ab") as file:
        file.write(whole + b"a")
    h.start(sh("echo abc"), n=5, log="stamped")
    h.wait()
    eq(stamped(h.log("output"))[4:], [("out", b"a"), ("out", b"abc")])


@test("stamped: the death of the holder loses no line", slow=True, init=False)
def _(ws):
    h = Holder(ws)
    code = "import os, time\nfor i in range(2000):\n  os.write(1, b'%d\\n' % i); time.sleep(0.0003)\nos.write(2, b'done\\n'); time.sleep(100)"
    command = python(code)
    h.start(command, log="stamped")
    while b"err done\n" not in h.log("output"):
        h.kill()
        eq(h.adopt(command, log="stamped")[0], "ok")
    seen = [int(text) for stream, text in stamped(h.log("output")) if stream == "out" and text]
    eq(sorted(set(seen)), list(range(2000)))
    h.stop()


# -- a full disk ----------------------------------------------------------------------------------------------

def small_disk(ws, size):
    return disk(ws, "tmpfs", f"size={size},mode=700")


def disk(ws, kind, options):
    path = ws.path / "disk"
    path.mkdir()
    done = subprocess.run(["mount", "-t", kind, "-o", options, "none", path], capture_output=True, check=False)
    if done.returncode:
        raise Skip(f"a small file system is not to be had: {done.stderr.decode().strip()}")
    ws._closers.append(lambda: subprocess.run(["umount", "-l", path], check=False))
    return path


@test("pipe: where holes cannot be punched the newest bytes move into a new file, their logical offsets stay", init=False)
def _(ws):
    h = Holder(ws, directory=disk(ws, "ramfs", "mode=700"))
    total, keep = 6 * MIB, MIB
    code = f"import os\nfor i in range({total} // 64): os.write(1, b'%63d\\n' % i)"
    h.start(python(code), log="pipe", log_max=keep)
    h.wait()
    data, (_, offset, base, inode) = h.log(), h.index()[-1]
    assert keep <= len(data) <= 2 * keep + MIB, len(data)
    eq((offset, base, inode), (total, total - len(data), (h.dir / "log/stdout.log").stat().st_ino))
    eq(data, b"".join(b"%63d\n" % i for i in range((total - len(data)) // 64, total // 64)))
    eq(sorted(p.name for p in (h.dir / "log").iterdir()), ["stderr.log", "stdout.log"])


@test("pipe: where the newest bytes cannot be copied the log stays as it is, and the next attempt moves them", init=False)
def _(ws):
    h = Holder(ws, directory=disk(ws, "ramfs", "mode=700"))
    total, keep, new = 4 * MIB, MIB, h.dir / "log/stdout.new"
    new.parent.mkdir(mode=0o700)
    try:
        os.mknod(new, 0o600 | stat.S_IFCHR, os.stat("/dev/full").st_rdev)  # every write to it says that the disk is full
        os.close(os.open(new, os.O_RDWR))
    except OSError as error:
        raise Skip(f"no device can be made here: {error}") from None
    code = f"import os\nfor i in range({total} // 64): os.write(1, b'%63d\\n' % i)"
    h.start(python(code), log="pipe", log_max=keep)
    h.wait()
    assert (h.dir / "log/stdout.log").is_file() and not new.exists(), sorted((h.dir / "log").iterdir())
    data, (_, offset, base, _) = h.log(), h.index()[-1]
    eq((offset, base), (total, total - len(data)), "the newest record of the index")
    eq(data, b"".join(b"%63d\n" % i for i in range(base // 64, total // 64)), "the newest bytes")


for mode in ("pipe", "stamped"):
    @test(f"{mode}: a full disk stops the capture, not the child, and both its begin and its end are told", init=False, slow=True)
    def _(ws, mode=mode):
        disk = small_disk(ws, MIB)
        h = Holder(ws, directory=disk)
        os.mkfifo(ws.path / "go")
        code = ("import os\nfor i in range(4000): os.write(1, b'%1023d\\n' % i)\nos.write(2, b'')\n"
                f"open('{ws.path}/written', 'w').write('1')\n"
                f"for line in open('{ws.path}/go'): os.write(1, b'after\\n')\n")
        h.start(python(code), log=mode, log_max=64 * MIB)
        wait_until(lambda: (ws.path / "written").exists(), "the child's last write")
        h.wait_for("log_full")
        name = "output" if mode == "stamped" else "stdout"
        with open(disk / "p/log" / f"{name}.log", "r+b") as stream:
            stream.truncate(4096)
        with open(ws.path / "go", "w", encoding="ascii") as go:
            def is_resumed():
                go.write("x\n")
                go.flush()
                return h.facts("log_resumed")
            wait_until(is_resumed, "the capture's return")
        h.wait()
        assert b"after\n" in h.log(name), "the newest line"
        full, resumed = h.facts("log_full")[0], h.facts("log_resumed")[0]
        eq((full["stream"], resumed["stream"]), (name, name))
        assert resumed["dropped"] > 2 * MIB, resumed


@test("direct: that the disk is full is told, and that there is room again", slow=True, init=False)
def _(ws):
    disk = small_disk(ws, MIB)
    h = Holder(ws, directory=disk)
    code = ("import os, time\ntry:\n    while True: os.write(1, b'x' * 1024)\nexcept OSError: pass\n"
            f"open('{ws.path}/go').read()\n")
    os.mkfifo(ws.path / "go")
    h.start(python(code), log="direct", log_max=64 * MIB)
    h.wait_for("log_full")
    with open(disk / "p/log/stdout.log", "r+b") as stream:
        stream.truncate(4096)
    h.wait_for("log_resumed")
    (ws.path / "go").write_text("x")
    h.wait()
    eq([word for word in h.words() if word.startswith("log_")], ["log_full", "log_resumed"])


def fill_up(disk):
    with open(disk / "fill", "wb", buffering=0) as fill:
        try:
            while True:
                fill.write(b"x" * 4096)
        except OSError:
            pass


@test("on a full disk the end is written over the old record: a stop is not kept waiting", init=False)
def _(ws):
    disk = small_disk(ws, MIB)
    h = Holder(ws, directory=disk)
    os.mkfifo(ws.path / "go")
    h.start(sh("read -r x < go; exit 3"))
    fill_up(disk)
    (ws.path / "go").write_text("x\n")
    eq(h.wait()["exit"]["status"], 3 << 8)
    eq((h.facts("exited")[0]["status"], (h.dir / "status.new").exists()), (3 << 8, False))


@test("an exit that cannot be recorded is recorded as soon as it can, and until then the holder stays in charge", slow=True, init=False)
def _(ws):
    disk = small_disk(ws, MIB)
    h = Holder(ws, directory=disk)
    os.mkfifo(ws.path / "go")
    h.start(sh("read -r x < go; exit 3"))
    pid = h.pid
    (h.dir / "status.json").unlink()  # nothing that could be overwritten
    fill_up(disk)
    (ws.path / "go").write_text("x\n")
    wait_until(lambda: not ticks_of(pid), "the child's end")
    eq(((h.dir / "status.json").exists(), h.is_locked(), h.proc.poll()), (False, True, None))
    (disk / "fill").unlink()
    eq(h.wait()["exit"]["status"], 3 << 8)


main(__name__)
