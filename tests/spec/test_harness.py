"""The harness itself: a test can fail, and nothing that it leaves behind goes unnoticed."""

import pathlib
import shutil
import signal
import sys
import types

from harness.harness import eq, main, test
from harness.processes import Init, Processes
from harness.workspace import Skip, end_session

TESTS = pathlib.Path(__file__).resolve().parents[1]
HEAD = "import os, time\nfrom harness.harness import Skip, eq, main, test\n"


def run_suite(ws, body, *options):
    suite = ws.base / "suite.py"
    suite.write_text(HEAD + body + "\nmain(__name__)\n")
    return ws.run([sys.executable, suite, *options], env={"PYTHONPATH": str(TESTS)})


def rule(name, code, options="init=False"):
    return f'@test("{name}", {options})\ndef _(ws):\n    {code}\n'


@test("a passing, a failing and a skipped test are told apart", init=False)
def _(ws):
    body = rule("good", "eq(1, 1)") + rule("bad", "eq(1, 2, 'it')") + rule("not here", "raise Skip('why')")
    result = run_suite(ws, body)
    eq(result.code, 1, "exit code")
    lines = result.out.splitlines()
    for line in ("1..3", "ok 1 - good", "not ok 2 - bad", "# it is 1, expected 2", "ok 3 - not here # SKIP why"):
        assert line in lines, f"{line!r} is missing\n{result}"


@test("a process that a test leaves behind fails it, and is killed", slow=True, init=False)
def _(ws):
    code = f"ws.run(['sh', '-c', 'setsid sleep 1000 >/dev/null 2>&1 & echo $! > {ws.base}/pid'])"
    result = run_suite(ws, rule("leaks", code), "--grace", "1")
    assert "not ok 1" in result.out and "processes were left behind" in result.out, result
    assert not ws.alive(int((ws.base / "pid").read_text()))


@test("a descriptor that a test leaves open fails it", init=False)
def _(ws):
    result = run_suite(ws, rule("leaks", "os.open('/dev/null', 0)"))
    assert "not ok 1" in result.out and "descriptors were left open" in result.out, result


@test("a test that hangs or dies fails, and the next one runs", init=False)
def _(ws):
    body = rule("hangs", "time.sleep(1000)", "init=False, deadline=0.2")
    body += rule("dies", "os._exit(0)") + rule("good", "pass")
    result = run_suite(ws, body)
    for line in ("not ok 1 - hangs", "not ok 2 - dies", "ok 3 - good"):
        assert line in result.out.splitlines(), f"{line!r} is missing\n{result}"


@test("a process that has the number of one that was collected is a stranger, and is not signalled", init=False)
def _(ws):
    stranger = ws.spawn_command(["sleep", "1000"])
    end_session(types.SimpleNamespace(pid=stranger.pid, returncode=0))
    eq(ws.alive(stranger.pid), True, "whether the stranger lives")
    end_session(stranger)
    eq(stranger.wait(60), -signal.SIGKILL, "how a process that was not collected ends")


@test("the same holds for what a scenario of the page has started", init=False)
def _(ws):
    node = shutil.which("node")
    if not node:
        raise Skip("node is not installed")
    stranger = ws.spawn_command(["sleep", "1000"])
    code = "import(process.argv[1]).then(({ endGroup }) => endGroup({ pid: Number(process.argv[2]), exitCode: JSON.parse(process.argv[3]), signalCode: null }))"
    end = [node, "-e", code, TESTS / "browser" / "end.mjs", stranger.pid]
    ws.run([*end, "0"]).expect(0)
    eq(ws.alive(stranger.pid), True, "whether the stranger lives")
    ws.run([*end, "null"]).expect(0)
    eq(stranger.wait(60), -signal.SIGKILL, "how one that has not ended ends")


@test("what a test spawned is ended with it, descendants included", init=False)
def _(ws):
    code = f"ws.spawn_command(['sh', '-c', 'sleep 1000 & echo $! > {ws.base}/pid; wait'])"
    code += f"; ws.until_file('{ws.base}/pid')"
    result = run_suite(ws, rule("spawns", code))
    eq(result.code, 0, "exit code")
    assert not ws.alive(int((ws.base / "pid").read_text()))


@test("what a test runs is waited for by itself, and not reaped as an orphan", slow=True, init=False)
def _(ws):
    Init.POLL_S = 0
    Processes(ws)
    for _ in range(100):
        ws.run(["sh", "-c", "exit 3"]).expect(3)


@test("what a test registered for its end runs then, also when it fails", init=False)
def _(ws):
    code = f"ws.at_close(lambda: open('{ws.base}/closed', 'a').write('x')); eq(1, 2)"
    eq(run_suite(ws, rule("fails", code) + rule("fails too", code)).code, 1, "exit code")
    eq((ws.base / "closed").read_text(), "xx", "how often it ran")


@test("long tests run with --long only, slow ones not with --quick, others neither with --quick nor with --medium", slow=True, init=False)
def _(ws):
    body = rule("usual", "pass") + rule("long", "pass", "init=False, long=True")
    body += rule("minutes", "pass", "init=False, quick=False") + rule("slow", "pass", "init=False, slow=True")
    for options, count in (([], 3), (["--long"], 4), (["--quick"], 1), (["--medium"], 2), (["--filter", "none such"], 0)):
        result = run_suite(ws, body, *options).expect(0)
        assert result.out.startswith(f"1..{count}"), result


@test("the temporary directory of a test is gone when it has ended", init=False)
def _(ws):
    result = run_suite(ws, rule("any", f"open('{ws.base}/where', 'w').write(str(ws.base))"))
    eq(result.code, 0, "exit code")
    assert not pathlib.Path((ws.base / "where").read_text()).exists()


main(__name__)
