"""The holder program alone, driven as tasuki drives it (src/hold/protocol.h): start, records, exits, restart policy, probe."""

import json
import os
import pathlib
import signal
import socket
import stat
import time

from harness.harness import eq, main, test
from holder_common import BOOT_ID, F_OFD_SETLK, Holder, kill, lock_call, python, reap, sh, stop_while, ticks_of, wait_until

IDLE_S = 2.0
POLICY = dict(max_retries=-1, backoff_ms=1, backoff_max_ms=1, healthy_ms=60000)


def children(pid):
    return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


# -- a start --------------------------------------------------------------------------------------------------

@test("the report of a start names the child, and the child is what status.json says", init=False)
def _(ws):
    h = Holder(ws)
    word, pid, ticks, started = h.start(["sleep", "100"])
    eq(word, "ok")
    status = h.status
    eq(status["child"], {"pid": int(pid), "start_ticks": int(ticks)})
    eq(status["holder"], {"pid": h.proc.pid, "start_ticks": ticks_of(h.proc.pid)})
    eq(ticks_of(int(pid)), int(ticks), "start ticks")
    eq((status["version"], status["n"], status["phase"], status["exit"]), (1, 1, "running", None))
    eq((status["start_id"], status["boot_id"], status["log"]), (h.start_id, BOOT_ID, "direct"))
    eq((status["started_at_ms"], status["restarts"], status["retries"]), (int(started), 0, 0))
    assert abs(time.time() * 1000 - int(started)) < 60000, started
    h.stop()


@test("the life lock says who the child is, and the child holds it", init=False)
def _(ws):
    h = Holder(ws)
    h.start(["sleep", "100"], n=7)
    identity, status = h.identity(), h.status
    eq({k: identity[k] for k in ("n", "pid", "start_ticks", "boot_id", "start_id", "log")},
       {"n": 7, **dict(zip(("pid", "start_ticks"), status["child"].values())), "boot_id": BOOT_ID,
        "start_id": h.start_id, "log": "direct"})
    eq((identity["stdout_offset"], identity["stderr_offset"], identity["pid_ns"]), (0, 0, status["pid_ns"]))
    h.kill()
    assert h.is_locked("run.7.lock"), "the child does not hold the life lock"
    assert not h.is_locked(), "holder.lock is held although the holder is dead"
    kill(h.pid)
    wait_until(lambda: not h.is_locked("run.7.lock"), "the end of the life lock")


@test("the child leads its own session, has default signals, the starter's umask, its cwd, and no descriptor of ours", init=False)
def _(ws):
    h = Holder(ws)
    out = ws.path / "seen"
    code = ("import os, signal, json; json.dump(dict(sid=os.getsid(0) == os.getpid(), fds=sorted(map(int, os.listdir('/proc/self/fd'))),"
            "mask=sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))), umask=os.umask(0), cwd=os.getcwd(),"
            "ignored=[s for s in range(1, 65) if s not in (9, 19, 32, 33) and signal.getsignal(s) == signal.SIG_IGN],"
            f"stdin=os.readlink('/proc/self/fd/0'), id=os.environ['TASUKI_PROCESS_ID']), open({str(out)!r}, 'w'))")
    old = os.umask(0o027)
    (ws.path / "d=e").mkdir()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    h.start(["/bin/sh", "-c", 'exec "$0" "$@"', *python(code)], cwd=ws.path / "d=e")
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.umask(old)
    h.wait()
    seen = json.loads(out.read_text())
    fds = [fd for fd in seen.pop("fds") if fd != 3]  # 3: the directory that it lists
    eq(fds, [0, 1, 2, 100])
    # Python ignores SIGPIPE and SIGXFSZ by itself.
    eq(seen, {"sid": True, "mask": [], "umask": 0o027, "cwd": str(ws.path / "d=e"), "ignored": [13, 25],
              "stdin": "/dev/null", "id": "p"})


@test("the holder leaves its starter's session and directory, and its files are private", init=False)
def _(ws):
    h = Holder(ws)
    h.start(["sleep", "100"])
    eq(os.getsid(h.proc.pid), h.proc.pid, "session")
    eq(os.readlink(f"/proc/{h.proc.pid}/cwd"), "/")
    for path in [h.dir / "status.json", h.dir / "history", h.dir / "log/stdout.log", h.dir / "stdout.idx"]:
        eq(stat.S_IMODE(path.stat().st_mode), 0o600, str(path))
    eq(stat.S_IMODE((h.dir / "log").stat().st_mode), 0o700)
    h.stop()


@test("a command is searched along the PATH of its own environment, from its own directory", init=False)
def _(ws):
    tool = ws.path / "bin/tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\nexit 5\n")
    tool.chmod(0o755)
    h = Holder(ws)
    eq(h.start(["tool"], env={"PATH": "/nowhere:bin"})[0], "ok")
    eq(h.wait()["exit"]["status"], 5 << 8)


@test("a script without a first line for the kernel is run by the shell, with its arguments, at each restart", init=False)
def _(ws):
    script = ws.path / "plain"
    script.write_text('echo "$0 $1 $2"; exit 1\n')
    script.chmod(0o755)
    h = Holder(ws)
    eq(h.start([str(script), "a b", "c"], restart="on-failure", **{**POLICY, "max_retries": 1})[0], "ok")
    h.wait()
    eq(h.log(), f"{script} a b c\n".encode() * 2)


# -- a start that does not come to be -------------------------------------------------------------------------

def check_nothing_changed(h, n=1):
    h.wait()
    eq(h.status, None, "status.json")
    eq(h.history, [], "history")
    eq(h.run_locks(), [], "life locks")
    assert not h.is_locked(), "holder.lock is held"
    eq(h.proc.returncode, 1, "the holder's exit code")


for stage, number, command, options in [
        ("exec", 2, ["/nowhere/at/all"], {}), ("exec", 2, ["no-such-command"], {}), ("exec", 2, [""], {}),
        ("exec", 13, ["/etc/passwd"], {}), ("exec", 13, ["/tmp"], {}), ("cwd", 2, ["true"], {"cwd": "/nowhere"}),
        ("cwd", 20, ["true"], {"cwd": "/etc/passwd"})]:
    @test(f"a start that fails ({stage}, errno {number}, {command[0] or 'empty'}) says so and changes nothing", init=False)
    def _(ws, stage=stage, number=number, command=command, options=options):
        h = Holder(ws)
        eq(h.start(command, **options), ["error", stage, str(number)])
        check_nothing_changed(h)


@test("a start whose log cannot be opened fails with the stage log", init=False)
def _(ws):
    h = Holder(ws)
    (h.dir / "log/stdout.log").mkdir(parents=True)
    eq(h.start(["true"])[:2], ["error", "log"])
    check_nothing_changed(h)


@test("a start whose FIFO is something else fails with the stage pipe", init=False)
def _(ws):
    h = Holder(ws)
    (h.dir / "stdout.pipe").write_text("")
    eq(h.start(["true"], log="pipe")[:2], ["error", "pipe"])
    check_nothing_changed(h)


def is_dir(path):
    path.mkdir(parents=True)


def is_file(path):
    path.parent.mkdir(exist_ok=True)
    path.write_text("")


def is_fifo(path):
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)


def is_link(path):
    path.parent.mkdir(exist_ok=True)
    path.symlink_to("elsewhere")


for name, make, mode, stage, number in [
        ("history", is_dir, "direct", "record", 21), ("history", is_link, "direct", "record", 40), ("log", is_file, "direct", "log", 20),
        ("log/stderr.log", is_dir, "direct", "log", 21), ("log/stdout.log", is_fifo, "direct", "log", 22),
        ("log/stdout.log", is_link, "direct", "log", 40), ("stdout.idx", is_dir, "direct", "log", 21), ("stderr.idx", is_link, "pipe", "log", 40),
        ("output.idx", is_dir, "stamped", "log", 21), ("log/output.log", is_fifo, "stamped", "log", 22),
        ("stdout.pipe", is_link, "pipe", "pipe", 40), ("stderr.pipe", is_file, "pipe", "pipe", 22), ("stderr.pipe", is_dir, "stamped", "pipe", 22),
        ("tty", is_dir, "tty", "tty", 98)]:
    @test(f"what stands in the way of a file ({name}, {make.__name__[3:]}, mode {mode}) fails the start with stage {stage} and errno {number}",
          init=False)
    def _(ws, name=name, make=make, mode=mode, stage=stage, number=number):
        h = Holder(ws)
        make(h.dir / name)
        eq(h.start(["true"], log=mode), ["error", stage, str(number)])
        h.wait()
        eq((h.status, h.run_locks(), h.proc.returncode), (None, [], 1), "status.json, life locks, the holder's exit code")
        assert not h.is_locked(), "holder.lock is held"
        assert not (ws.path / "elsewhere").exists() and not (h.dir / "elsewhere").exists(), "a link was followed"


@test("a notification socket without a proper name, or with one that is taken, fails the start with stage notify", init=False)
def _(ws):
    taken = "tasuki-test-taken-" + os.urandom(8).hex()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind("\0" + taken)
        for i, (name, number) in enumerate(((None, 22), ("", 22), ("/run/socket", 22), ("@" + "x" * 108, 22), ("@" + taken, 98))):
            h = Holder(ws, f"p{i}")
            eq(h.start(["true"], notify=1, env={} if name is None else {"NOTIFY_SOCKET": name}), ["error", "notify", str(number)], f"{name}")
            check_nothing_changed(h)
    h = Holder(ws, "long")
    eq(h.start(["true"], notify=1, env={"NOTIFY_SOCKET": ("@" + h.start_id).ljust(108, "x")})[0], "ok", "a name of 107 bytes")
    eq(h.wait()["exit"]["status"], 0)


@test("a restart that finds something in the way fails with its stage, and is tried again", init=False)
def _(ws):
    for i, (script, stage, number) in enumerate((("mkdir ../p0/run.2.lock", "record", 21), ("mv ../p1/log ../p1/old; : > ../p1/log", "log", None))):
        h = Holder(ws, f"p{i}")
        (ws.path / "work").mkdir(exist_ok=True)
        h.start(sh(f"{script}; exit 1"), restart="on-failure", cwd=ws.path / "work", **{**POLICY, "max_retries": 2})
        h.wait()
        found = {(f["n"], f["stage"], f["errno"]) for f in h.facts("start_failed")}
        if number:
            eq(found, {(2, stage, number)}, script)
            (h.dir / "run.2.lock").rmdir()
        eq(h.facts("gave_up")[0]["retries"], 2, script)


@test("a process whose log cannot be opened is not adopted, and lives on", init=False)
def _(ws):
    h = Holder(ws)
    h.start(["sleep", "100"])
    pid = h.pid
    h.kill()
    (h.dir / "log/stdout.log").rename(h.dir / "log/kept")
    (h.dir / "log/stdout.log").mkdir()
    eq(h.adopt(["sleep", "100"]), ["error", "log", "21"])
    eq(h.proc.wait(), 1, "the holder's exit code")
    assert ticks_of(pid) and h.is_locked("run.1.lock"), "it lives, and has its lock"
    eq(h.status["exit"], None)
    eq(h.words(), ["started"])
    kill(pid)
    wait_until(lambda: not ticks_of(pid), "its end")
    reap(pid)


@test("a holder that is not given the locks does nothing", init=False)
def _(ws):
    h = Holder(ws)
    h.start(["sleep", "100"])
    first, status = h.proc, h.status
    eq(h.start(["sleep", "200"], n=2, lock=False), ["error", "record", "11"])
    h.wait()
    eq(h.status, status, "status.json")
    eq([f["what"] for f in h.history], ["started"])
    h.proc = first
    h.stop()


@test("without a proper command line it says whose part it is", init=False)
def _(ws):
    result = ws.run([ws.build / "tasuki-hold", "x", "nonsense=1", "--", "true"])
    eq(result.code, 2)
    assert "tasuki proc start" in result.err, result.err


# -- ends -----------------------------------------------------------------------------------------------------

for name, script, raw in [("exit 0", "exit 0", 0), ("exit 3", "exit 3", 3 << 8), ("SIGSEGV", "kill -SEGV $$", signal.SIGSEGV),
                          ("SIGKILL by somebody", "kill -KILL $$", signal.SIGKILL)]:
    @test(f"the end of the child is recorded as it was: {name}", init=False)
    def _(ws, script=script, raw=raw):
        h = Holder(ws)
        os.mkfifo(ws.path / "go")
        h.start(sh("ulimit -c 0; read -r x < go; " + script))
        (ws.path / "go").write_text("x\n")  # the starter has let go of the lock by now
        status = h.wait()
        eq({k: v for k, v in status["exit"].items() if k != "stopped_at_ms"},
           {"status": int(raw), "by": "itself", "reason": ""})
        assert status["exit"]["stopped_at_ms"] >= status["started_at_ms"]
        eq(status["phase"], "ended")
        eq(h.words(), ["started", "exited"])
        eq((h.facts("exited")[0]["status"], h.facts("exited")[0]["by"], h.facts("exited")[0]["n"]), (int(raw), "itself", 1))
        eq(h.run_locks(), [], "life locks")
        eq(sorted(p.name for p in h.dir.iterdir()),
           ["history", "holder.lock", "log", "status.json", "stderr.idx", "stdout.idx", "want"])


@test("a leftover of the ended child keeps the life lock, and the holder does not wait for it", init=False)
def _(ws):
    h = Holder(ws)
    h.start(sh("sleep 100 & echo $! > left"))
    status = h.wait()
    left = int((ws.path / "left").read_text())
    eq(status["exit"]["status"], 0)
    assert ticks_of(left), "the leftover was ended"
    assert h.is_locked("run.1.lock"), "the leftover does not hold the life lock"
    assert not h.is_locked(), "holder.lock is held"
    kill(left)


@test("life locks of earlier starts that nobody has any more are removed by the next", init=False)
def _(ws):
    h = Holder(ws)
    h.start(sh("sleep 100 & echo $! > left"))
    h.wait()
    for n in (2, 3, 11):
        (h.dir / f"run.{n}.lock").write_text("")
    h.start(["sleep", "100"], n=5)
    wait_until(lambda: h.run_locks() == [1, 5, 11], "the tidying")
    kill(int((ws.path / "left").read_text()))
    h.stop()


@test("history says where it begins", init=False)
def _(ws):
    h = Holder(ws)
    h.start(["true"])
    h.wait()
    eq(json.loads((h.dir / "history").read_text().splitlines()[0]), {"base": 0})


@test("a torn line in history is closed before the next fact", init=False)
def _(ws):
    h = Holder(ws)
    (h.dir / "history").write_text('{"base":0}\n{"time":1,"wh')
    h.start(["true"])
    h.wait()
    lines = (h.dir / "history").read_text().splitlines()
    eq(lines[1], '{"time":1,"wh')
    eq([json.loads(line)["what"] for line in lines[2:]], ["started", "exited"])


@test("history does not grow without bound, and its lines keep their logical offsets", init=False)
def _(ws):
    h = Holder(ws)
    line = b'{"time":1,"what":"exited","n":1,"status":0,"by":"itself"}\n'
    first = b'{"base":0}\n'
    (h.dir / "history").write_bytes(first + line * (1050000 // len(line)))
    h.start(["true"])
    h.wait()
    data = (h.dir / "history").read_bytes()
    assert len(data) < 100000, len(data)
    head, _, rest = data.partition(b"\n")
    base = json.loads(head)["base"]
    eq((base + len(head) + 1 - len(first)) % len(line), 0, "distance of the first kept line from the beginning")
    eq(json.loads(rest.splitlines()[0])["what"], "exited")
    eq([json.loads(x)["what"] for x in rest.splitlines()[-2:]], ["started", "exited"])


# -- the restart policy ---------------------------------------------------------------------------------------

@test("on-failure restarts after a failure until it ends with 0; each start has its number, identity and records", init=False)
def _(ws):
    h = Holder(ws)
    h.start(sh("echo x >> count; [ $(wc -l < count) -ge 3 ]"), restart="on-failure", **POLICY)
    status = h.wait()
    eq((status["n"], status["restarts"], status["exit"]["status"]), (3, 2, 0))
    eq(h.words(), ["started", "exited", "restarting", "started", "exited", "restarting", "started", "exited"])
    eq([f["n"] for f in h.history], [1, 1, 2, 2, 2, 3, 3, 3])
    eq([(f["delay_ms"], f["retry"]) for f in h.facts("restarting")], [(0, 1), (1, 2)])
    # The first is handed over by us, and may still be open here when its start has ended: then the next holder removes it.
    eq([n for n in h.run_locks() if n != 1 or h.is_locked("run.1.lock")], [], "life locks")


@test("at its end a holder removes the life locks of earlier starts that could not be removed in time", init=False)
def _(ws):
    h = Holder(ws)
    (h.dir / "run.1.lock").touch()
    h.start(sh("until test -e go; do sleep 0.01; done"), n=3)
    wait_until(lambda: h.run_locks() == [3], "it has removed what was there before")
    for n in (1, 2):
        (h.dir / f"run.{n}.lock").touch()
    held = os.open(h.dir / "run.2.lock", os.O_RDWR)
    lock_call(held, F_OFD_SETLK, 0)
    (ws.path / "go").touch()
    h.wait()
    os.close(held)
    eq([n for n in h.run_locks() if n != 3], [2], "only what somebody has")


@test("always restarts after 0 as well; no never does", init=False)
def _(ws):
    h, other = Holder(ws), Holder(ws, "q")
    h.start(["true"], restart="always", **POLICY)
    h.wait_for("started", 3)
    h.stop()
    other.start(["false"], restart="no", **POLICY)
    eq(other.wait()["restarts"], 0)


@test("the first retry is at once, then the delay doubles up to its cap", init=False)
def _(ws):
    h = Holder(ws)
    h.start(["false"], restart="always", max_retries=6, backoff_ms=2, backoff_max_ms=9, healthy_ms=60000)
    h.wait()
    eq([f["delay_ms"] for f in h.facts("restarting")], [0, 2, 4, 8, 9, 9])


@test("after max_retries it gives up and says so", init=False)
def _(ws):
    h = Holder(ws)
    h.start(["false"], restart="on-failure", **{**POLICY, "max_retries": 2})
    status = h.wait()
    eq((status["phase"], status["n"], status["retries"], status["exit"]["status"]), ("ended", 3, 2, 256))
    eq(h.facts("gave_up")[0]["retries"], 2)


@test("a start that stayed up long enough begins the count anew", init=False)
def _(ws):
    h = Holder(ws)
    h.start(sh("echo x >> count; [ $(wc -l < count) -lt 6 ]"), restart="always", max_retries=1, backoff_ms=1, backoff_max_ms=1,
            healthy_ms=0)
    h.wait_for("started", 6)
    eq([f["retry"] for f in h.facts("restarting")][:5], [1] * 5)
    h.stop()


@test("while it waits for the next try, status.json says backoff and when", init=False)
def _(ws):
    h = Holder(ws)
    h.start(["false"], restart="always", max_retries=-1, backoff_ms=600000, backoff_max_ms=600000, healthy_ms=60000)
    status = wait_until(lambda: next((s for s in [h.status] if (s["phase"], s["n"]) == ("backoff", 2)), None), "backoff")
    assert status["next_start_ms"] > time.time() * 1000 + 300000, status
    eq((status["exit"]["status"], status["retries"]), (256, 2))
    assert h.is_locked(), "nobody is in charge"
    status = h.stop()
    eq((status["phase"], status["exit"]["by"], status["exit"]["status"]), ("ended", "stop", 256))


@test("a restart that cannot be executed is a failed retry; n is not used up", init=False)
def _(ws):
    tool = ws.path / "tool"
    tool.write_text('#!/bin/sh\nrm "$0"; exit 1\n')
    tool.chmod(0o755)
    h = Holder(ws)
    h.start([str(tool)], restart="on-failure", **{**POLICY, "max_retries": 3})
    status = h.wait()
    eq((status["n"], status["restarts"], status["exit"]["status"]), (1, 0, 256))
    eq(h.words(), ["started", "exited", "restarting", "start_failed", "restarting", "start_failed", "restarting",
                   "start_failed", "gave_up"])
    eq({(f["n"], f["stage"], f["errno"]) for f in h.facts("start_failed")}, {(2, "exec", 2)})
    eq(h.run_locks(), [], "life locks")


@test("no restart is made when want is down, even if nobody told the holder", init=False)
def _(ws):
    h = Holder(ws)
    os.mkfifo(ws.path / "go")
    h.start(sh("read -r x < go; echo 'down 100' > p/want; exit 1"), restart="always", **POLICY)
    (ws.path / "go").write_text("x\n")
    status = h.wait()
    eq((status["n"], status["restarts"], status["exit"]["by"]), (1, 0, "stop"))


@test("no restart is made when want went down during the delay", slow=True, init=False)
def _(ws):
    h = Holder(ws)
    h.start(["false"], restart="always", max_retries=-1, backoff_ms=1000, backoff_max_ms=1000, healthy_ms=60000)
    stop_while(h.proc.pid, lambda: h.status["n"] >= 2 and h.status["phase"] == "backoff", "it waits for the next try")
    n = h.status["n"]
    h.write_want("down 100")
    h.proc.send_signal(signal.SIGCONT)
    status = h.wait()
    eq((status["n"], status["exit"]["by"]), (n, "stop"))


@test("restarts go on counting from what the holder was given", init=False)
def _(ws):
    h = Holder(ws)
    h.start(["false"], n=5, restarts=4, restart="always", **{**POLICY, "max_retries": 1})
    status = h.wait()
    eq((status["n"], status["restarts"]), (6, 5))


# -- the probe ------------------------------------------------------------------------------------------------

PROBE = """#!/bin/sh
echo "$@" >> {path}/probed
{rest}
"""


def probe(ws, rest, name="probe"):
    path = ws.path / name
    path.write_text(PROBE.format(path=ws.path, rest=rest))
    path.chmod(0o755)
    return dict(probe=path, root=ws.path)


def probed(ws):
    try:
        return (ws.path / "probed").read_text().splitlines()
    except FileNotFoundError:
        return []


@test("the probe runs beside each start, in a group of its own, and is killed at the end of it", init=False)
def _(ws):
    h = Holder(ws)
    h.start(sh("exec sleep 100"), restart="always", **POLICY, **probe(ws, "exec sleep 1000"))
    wait_until(lambda: probed(ws) == [f"probe --root {ws.path} p"], "the probe's start")
    mine = [pid for pid in children(h.proc.pid) if pid != h.pid]
    eq(len(mine), 1, "probes")
    eq(os.getpgid(mine[0]), mine[0], "the probe's group")
    kill(h.pid)
    wait_until(lambda: len(probed(ws)) == 2, "the second probe")
    wait_until(lambda: not ticks_of(mine[0]), "the first probe's end")
    h.stop()


TELLER = """#!/bin/sh
echo "$*" "$(pwd)" "$(env | grep -c TASUKI_PROCESS_)" >> {path}/told
"""


def teller(ws):
    path = ws.path / "teller"
    path.write_text(TELLER.format(path=ws.path))
    path.chmod(0o755)
    return dict(tell=path, root="../../..")


def said(ws):
    path = ws.path / "told"
    return path.read_text().splitlines() if path.exists() else []


@test("a failure that no start follows is reported once, by a program that is no descendant of the process", init=False)
def _(ws):
    h = Holder(ws)
    h.start(sh("exit 3"), restart="on-failure", **{**POLICY, "max_retries": 2}, **teller(ws))
    wait_until(lambda: said(ws), "it is reported")
    eq(said(ws), [f"--root ../../.. __failed p 3 {h.dir} 0"], "its words, directory and marks")
    h.wait()


@test("a process that ends with 0, or is stopped, is not reported", init=False)
def _(ws):
    for name, command in (("good", "exit 0"), ("stopped", "exec sleep 100"), ("bad", "exit 3")):
        h = Holder(ws, name)
        h.start(sh(command), **teller(ws))
        h.stop() if name == "stopped" else h.wait()
    wait_until(lambda: said(ws), "the bad one is reported")
    eq([line.split()[3] for line in said(ws)], ["bad"], "what was reported")


@test("a probe that fails is started again, a few times; one that has done its work is not", slow=True, init=False)
def _(ws):
    h, other = Holder(ws), Holder(ws, "q")
    h.start(["sleep", "100"], **probe(ws, "exit 1"))
    other.start(["sleep", "100"], **probe(ws, "exit 0", "other"))
    wait_until(lambda: len(probed(ws)) >= 3, "another probe")
    eq(sum(line.endswith(" q") for line in probed(ws)), 1)
    h.stop()
    other.stop()


@test("the probe gets the notification socket, on which the child's words carry its credentials", init=False)
def _(ws):
    h = Holder(ws)
    name = "@tasuki-test-" + h.start_id
    code = ("import socket,struct,sys; s=socket.socket(fileno=3); d,a,_,_=s.recvmsg(100,100);"
            f"open('{ws.path}/heard','w').write(d.decode()+' '+str(struct.unpack('3i',a[0][2])[0]))")
    options = probe(ws, f"exec {python('')[0]} -c \"{code}\"")
    sender = ("import os,socket,time; s=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM);"
              "s.sendto(b'READY=1', os.environ['NOTIFY_SOCKET'].replace('@','\\0')); time.sleep(100)")
    eq(h.start(python(sender), env={"NOTIFY_SOCKET": name}, notify=1, **options)[0], "ok")
    wait_until(lambda: (ws.path / "heard").exists() and (ws.path / "heard").read_text(), "the notification")
    eq((ws.path / "heard").read_text(), f"READY=1 {h.pid}")
    h.stop()


# -- cost -----------------------------------------------------------------------------------------------------

def until_silent(pid):
    """Waits until it has not run for IDLE_S. It looks once more a second after the last growth, and that may come late; one that
    looks every second is never so long at rest."""
    seen, since = switches(pid), time.monotonic()
    end = since + 60
    while time.monotonic() - since < IDLE_S:
        assert time.monotonic() < end, f"{switches(pid)} context switches, and still not at rest"
        time.sleep(0.05)
        if switches(pid) != seen:
            seen, since = switches(pid), time.monotonic()


def switches(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return [int(line.split()[1]) for line in lines if "ctxt_switches" in line]


for mode in ("direct", "pipe", "stamped"):
    @test(f"a holder with nothing to do does not wake up, until there is output (mode {mode})", init=False, slow=True)
    def _(ws, mode=mode):
        h = Holder(ws)
        os.mkfifo(ws.path / "go")
        name = "output" if mode == "stamped" else "stdout"
        h.start(sh("echo hello; read -r x < go; echo again; exec sleep 100"), log=mode)
        first = wait_until(lambda: h.index(name)[-1][1], "the first line in the index")
        until_silent(h.proc.pid)
        (ws.path / "go").write_text("x\n")
        wait_until(lambda: h.index(name)[-1][1] > first, "the second line in the index")
        h.stop()


for first, cap, pauses in ((2, 8, [0, 2, 4, 8, 8]), (0, 4, [0, 1, 2, 4, 4]), (3, 3, [0, 3, 3, 3, 3])):
    @test(f"the pauses of a back-off of {first} ms up to {cap} ms, and the retries that it has", init=False)
    def _(ws, first=first, cap=cap, pauses=pauses):
        for limit in range(len(pauses) - 2, len(pauses) + 1):
            h = Holder(ws, f"p{limit}")
            h.start(["false"], restart="always", max_retries=limit, backoff_ms=first, backoff_max_ms=cap, healthy_ms=60000)
            h.wait()
            eq([fact["delay_ms"] for fact in h.facts("restarting")], pauses[:limit], "the pauses")
            eq((h.status["n"], h.facts("gave_up")[0]["retries"]), (limit + 1, limit))
            eq([fact["n"] for fact in h.facts("exited")], list(range(1, limit + 2)), "one end of each start")


main(__name__)
