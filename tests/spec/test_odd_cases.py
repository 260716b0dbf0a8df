"""Cases that a review found; each was once wrong."""
import os
import signal
import subprocess
import time

from harness.harness import Skip, eq, main, test


def sleeper(ws):
    return ws.spawn_command(["sleep", "600"])


def end(ws, process):
    process.kill()
    ws.finish(process)


@test("a yes is for the holder that was shown, not for one that came since")
def _(ws):
    for lock in (["lock", "acquire", "name", "prize"], ["lock", "acquire", "sprint", "--session", "s", "--epic", "e"]):
        shown, later = sleeper(ws), sleeper(ws)
        words = lock[2:4] if lock[2] == "name" else lock[2:3]
        token = ws.tasuki("--json", *lock, "--pid", str(shown.pid)).expect(0).json["token"]

        def answer():
            ws.tasuki("lock", "release", *words, "--token", token).expect(0)
            ws.tasuki(*lock, "--pid", str(later.pid)).expect(0)
            return "y"
        result = ws.tty([*lock, "--pid", str(os.getpid()), "--force", "--kill"], answers=[answer])
        eq(result.code, 4)
        assert later.poll() is None, "the one who came later was killed"
        end(ws, shown)
        end(ws, later)
        ws.tasuki(*lock, "--pid", str(os.getpid()), "--yes").expect(0)


@test("a file of the project is never taken for a sprint lock")
def _(ws):
    for name, text in (("README.md", "# Title\n"), ("data.yaml", "a: 1\n"), ("Makefile", "all:\n\techo\n")):
        path = ws.path / name
        path.write_text(text)
        ws.tasuki("lock", "release", "sprint", name).expect(2)
        ws.tasuki("lock", "acquire", "sprint", name, "--session", "s", "--epic", "e", "--force").expect(2)
        for verb in (["release"], ["check"], ["acquire", "--session", "s", "--epic", "e", "--force"]):
            ws.tasuki("sprint", *verb, "--lock-file", name).expect(2)
        eq(path.read_text(), text)


@test("a script without #! and with thousands of arguments runs under a lock")
def _(ws):
    script = ws.path / "script"
    script.write_text("echo $#\n")
    script.chmod(0o755)
    result = ws.tasuki("lock", "run", "many", "--", str(script), *map(str, range(6000)))
    eq((result.code, result.out), (0, "6000\n"))
    ws.tasuki("lock", "check", "name", "many").expect(0)


@test("signals that keep coming do not keep a lock from being renewed")
def _(ws):
    run = ws.spawn("lock", "run", "busy", "--ttl", "600ms", "--", "sh", "-c", "trap : USR1; echo > ready; while :; do sleep 0.05; done")
    ws.until_file("ready")
    first = ws.read_lock("name", "busy")["expires_boot_ms"]
    deadline = time.monotonic() + 60
    while ws.read_lock("name", "busy")["expires_boot_ms"] == first:
        assert time.monotonic() < deadline, "never renewed"
        os.kill(run.pid, signal.SIGUSR1)
        time.sleep(0.02)  # the rate of the signals; nothing is waited for
    run.terminate()
    ws.finish(run)


@test("an empty directory that a U2 tool's mv left at the sprint path is removed")
def _(ws):
    (ws.path / ".sprint-running").mkdir()
    eq(ws.tasuki("--json", "sprint", "check").expect(0).json["status"], "clean")
    (ws.path / ".sprint-running").mkdir()
    ws.tasuki("sprint", "acquire", "--session", "s", "--epic", "e", "--pid", str(os.getpid())).expect(0)


@test("a holder that ended and was not collected is gone, not another process")
def _(ws):
    child = subprocess.Popen(["sleep", "600"])
    ws.tasuki("lock", "acquire", "name", "x", "--pid", str(child.pid)).expect(0)
    child.kill()
    ws.until(lambda: open(f"/proc/{child.pid}/stat").read().rpartition(")")[2].split()[0] == "Z", "it is a zombie")
    eq(ws.tasuki("--json", "lock", "check", "name", "x").expect(6).json["holder"]["how"], "process is gone")
    child.wait()


@test("the instance of a holder is written once and stays the same")
def _(ws):
    keeper = sleeper(ws)
    ws.tasuki("lock", "acquire", "name", "x", "--pid", str(keeper.pid)).expect(0)
    seen = {ws.tasuki("--json", "lock", "check", "name", "x").json["holder"]["instance"] for _ in range(30)}
    eq(len(seen), 1, "instances")
    instance = seen.pop()
    assert f"-{keeper.pid}-" in instance, instance
    end(ws, keeper)
    eq(ws.tasuki("--json", "lock", "check", "name", "x").json["holder"]["instance"], instance)


@test("output that cannot be written is said on stderr")
def _(ws):
    with open("/dev/full", "w") as full:
        process = ws.spawn_command([ws.binary, "lock", "acquire", "name", "x", "--pid", str(os.getpid())], stdout=full)
        result = ws.finish(process)
    eq(result.code, 3)
    assert "Cannot write the output" in result.err, result


@test("an instance id that is too long or no UTF-8 is refused, from the environment as well")
def _(ws):
    for value in ("x" * 5000, os.fsdecode(b"\xff\xfe")):
        ws.tasuki("--json", "lock", "acquire", "name", "x", "--pid", str(os.getpid()),
                  env={"TASUKI_INSTANCE_ID": value}).expect(2, "INVALID_INPUT")


@test("a file-size limit is a failed write, not a death")
def _(ws):
    if b"__tsan_init" in ws.binary.read_bytes():
        raise Skip("ThreadSanitizer itself writes a file at the start")
    result = ws.run(["sh", "-c", "ulimit -f 0; exec \"$@\"", "sh", ws.binary, "--json", "lock", "run", "u", "--", "true"])
    eq(result.code, 3)


@test("the hints name the same lock that was asked for")
def _(ws):
    keeper = sleeper(ws)
    other = ws.path / "other"
    other.mkdir()
    place = ["--project-root", str(other), "--lock-file", ".mine"]
    ws.tasuki("sprint", "acquire", "--session", "s", "--epic", "e", "--pid", str(keeper.pid), *place).expect(0)
    text = ws.tasuki("sprint", "acquire", "--session", "t", "--epic", "e", *place).err
    eq(text.count(f"--project-root {other} --lock-file .mine"), 3)
    ws.tasuki("lock", "acquire", "name", "x", "--pid", str(keeper.pid)).expect(0)
    hints = ws.tasuki("--json", "--root", str(ws.path), "lock", "acquire", "name", "x", cwd="/").error["next"]
    assert all(f"--root {ws.path} " in hint for hint in hints), hints


@test("the commands in the hints of a refusal are commands that exist")
def _(ws):
    keeper = sleeper(ws)
    ws.tasuki("lock", "acquire", "name", "x", "--pid", str(keeper.pid)).expect(0)
    ws.tasuki("sprint", "acquire", "--session", "s", "--epic", "e", "--pid", str(keeper.pid)).expect(0)
    ws.tasuki("lock", "acquire", "request", "RQ-1", "--pid", str(keeper.pid)).expect(0)
    hints = []
    for words in (["lock", "acquire", "name", "x"], ["lock", "run", "x", "--", "true"], ["lock", "acquire", "request", "RQ-1"],
                  ["lock", "acquire", "name", "x", "--force"], ["lock", "release", "name", "x", "--token", "no"],
                  ["lock", "acquire", "sprint", "--session", "t", "--epic", "e"]):
        hints += ws.tasuki("--json", *words).error["next"]
    assert len(hints) > 12, hints
    for hint in hints:
        words = hint.replace("30m", "1ms").replace("COMMAND", "true").split()[1:]
        code = ws.tasuki("--json", *words).code
        assert code != 2, f"{hint}: not understood"


main(__name__)
