"""Spec 6, rules 4, 6 and 8: whoever is stopped leaves no process behind, however it has hidden; what it left on purpose stays."""

import json
import os
import resource
import signal

from flows import last_document, processes_of, resume, run_flow, run_ids, spawn_flow
from harness.harness import eq, main, test
from harness.processes import Processes

# Two forks, a session of its own, an empty environment, no descriptor of ours: nothing is inherited but what the kernel keeps.
HIDE = "env -i setsid -f bash -c 'exec 62>&- >/dev/null 2>&1; echo $$ > {0}.tmp; mv {0}.tmp {0}; exec sleep 1000'"
UP = "until test -e {0}; do sleep 0.01; done"


def hides(name, then="sleep 1000"):
    return f"{HIDE.format(name)}; {UP.format(name)}; {then}"


def flow(expression, more="", **tasks):
    lines = "".join(f"  {name}: {json.dumps(task if isinstance(task, dict) else {'run': task})}\n" for name, task in tasks.items())
    return f"flow: {expression}\ntasks:\n{lines}{more}"


def left(ws, name="left"):
    return int(ws.until_file(name))


def is_hidden(ws, pid):
    """That the test tests something: neither the environment nor the descriptor gives it away."""
    eq("TASUKI" in open(f"/proc/{pid}/environ").read(), False, "whether its environment tells")
    eq(os.path.exists(f"/proc/{pid}/fd/62"), False, "whether it has the life file")
    eq(ws.alive(pid), True, "whether it lives")


@test("a timeout ends what a task has hidden, and the hidden one of another task lives on", slow=True)
def _(ws):
    stage = run_flow(ws, flow("(a | b)", a={"run": hides("left", f"{UP.format('other')}; sleep 1000"), "timeout": "4s"},
                              b=hides("other", "while ! test -e left || readlink /proc/$(cat left)/exe; do sleep 0.05; done")), "-j", "2", code=7)
    eq([f["reason_code"] for f in stage["failures"]], ["TASK_TIMEOUT"], "failures")
    eq((ws.alive(left(ws)), ws.alive(left(ws, "other"))), (False, True), "who lives")
    os.kill(left(ws, "other"), signal.SIGKILL)


@test("fail_fast ends what the other branches have hidden")
def _(ws):
    run_flow(ws, flow("g(a | b)", "groups: {g: {policy: fail_fast}}\n", a=f"{UP.format('left')}; exit 1", b=hides("left")),
             "-j", "2", code=7)
    eq(ws.alive(left(ws)), False, "whether it lives")


for signals in (1, 2):
    @test(f"{signals} times SIGINT ends what a task has hidden")
    def _(ws, signals=signals):
        proc = spawn_flow(ws, flow("a", a=hides("left", "touch up; trap '' TERM; sleep 1000 & wait; sleep 1000" if signals == 2 else "touch up; sleep 1000")))
        ws.until(lambda: (ws.path / "up").exists(), "the task runs")
        pid = left(ws)
        is_hidden(ws, pid)
        proc.send_signal(signal.SIGINT)
        if signals == 2:
            ws.until(lambda: ws.events("run.cancelling"), "the first signal was seen")
            proc.send_signal(signal.SIGINT)
        eq(last_document(ws.finish(proc).expect(7))["status"], "CANCELLED", "status")
        eq(ws.alive(pid), False, "whether it lives")


@test("resume ends what the tasks of a killed runner have hidden, and so does runs cancel")
def _(ws):
    for end, code in ((("resume",), 0), (("runs", "cancel"), 0)):
        for name in ("left", "up", "again"):
            (ws.path / name).unlink(missing_ok=True)
        known = run_ids(ws)
        proc = spawn_flow(ws, flow("a", a="test -e again && exit 0; touch again; " + hides("left", "touch up; sleep 1000")))
        ws.until(lambda: (ws.path / "up").exists(), "the task runs")
        proc.kill()
        proc.wait()
        pid, (run,) = left(ws), run_ids(ws) - known
        is_hidden(ws, pid)
        ws.tasuki(*end, run, "--json").expect(code)
        eq(ws.alive(pid), False, f"whether it lives after {' '.join(end)}")


@test("a run inside a task is ended with it, with everything that its own tasks have hidden", slow=True)
def _(ws):
    inner = flow("i", i=hides("left", "touch up; trap '' TERM; while :; do sleep 1; done"))
    (ws.path / "inner.yaml").write_text(inner)
    stage = run_flow(ws, flow("g(a | b)", "groups: {g: {policy: fail_fast}}\n", a=f"{UP.format('up')}; exit 1",
                              b="trap '' TERM; tasuki run inner.yaml; sleep 1000"), "-j", "2", code=7)
    eq((stage["status"], ws.alive(left(ws))), ("FAILED", False), "the end")


@test("what a stopped task has started gets SIGTERM and the grace time as well, also when its shell is gone at once")
def _(ws):
    cleans = "trap 'sleep 0.3; touch cleaned.$0; exit' TERM; touch up.$0; while :; do sleep 0.01; done"
    proc = spawn_flow(ws, flow("a", a={"run": 'sh -c "$CLEANS" near & setsid -f sh -c "$CLEANS" far; wait', "env": {"CLEANS": cleans}}))
    ws.until(lambda: (ws.path / "up.near").exists() and (ws.path / "up.far").exists(), "both run")
    proc.send_signal(signal.SIGINT)
    ws.finish(proc).expect(7)
    eq([(ws.path / f"cleaned.{name}").exists() for name in ("near", "far")], [True, True], "who could clean up")


@test("what ignores SIGTERM is killed after the grace time, though the task itself has ended before", slow=True)
def _(ws):
    stubborn = "trap '' TERM; echo $$ > left.tmp; mv left.tmp left; while :; do sleep 1; done"
    proc = spawn_flow(ws, flow("a", a={"run": 'setsid -f sh -c "$STUBBORN"; sleep 1000', "env": {"STUBBORN": stubborn}}))
    pid = left(ws)
    proc.send_signal(signal.SIGTERM)
    ws.finish(proc).expect(7)
    eq(ws.alive(pid), False, "whether it lives")


@test("what a task leaves running that ends by itself lives on, well or not, also when the run is cancelled later")
def _(ws):
    for code in (0, 1):
        (ws.path / "left").unlink(missing_ok=True)
        run_flow(ws, flow("a", a=hides("left", f"exit {code}")), code=7 if code else 0)
        eq(ws.alive(left(ws)), True, f"whether it lives after exit {code}")
        os.kill(left(ws), signal.SIGKILL)
    (ws.path / "left").unlink()
    proc = spawn_flow(ws, flow("a >> b", a=hides("left", "exit 0"), b="touch up; sleep 1000"))
    ws.until(lambda: (ws.path / "up").exists(), "the second task runs")
    proc.send_signal(signal.SIGINT)
    ws.finish(proc).expect(7)
    eq(ws.alive(left(ws)), True, "whether it lives after the run was cancelled")
    os.kill(left(ws), signal.SIGKILL)


@test("what a task has started with `tasuki proc start` outlives its timeout, and the resume of its run", slow=True)
def _(ws):
    processes = Processes(ws)
    start = "tasuki proc create db --json -- sleep 1000; tasuki proc start db --json"
    run = run_flow(ws, flow("a >> b", a=start, b={"run": "test -e fixed || sleep 1000", "timeout": "3s"}), code=7)["run_id"]
    (ws.path / "fixed").touch()
    pid = processes.status("db")["pid"]
    eq("TASUKI_RUN_ID" in open(f"/proc/{pid}/environ").read(), False, "whether its environment names the run")
    limits = [line for line in open(f"/proc/{pid}/limits").read().splitlines() if "realtime timeout" in line]
    eq(limits[0].split()[3], "unlimited", "the mark of the task")
    eq((resume(ws, run)["status"], ws.alive(pid)), ("DONE", True), "the run and the process after resume")
    run_flow(ws, flow("a", a={"run": "tasuki proc restart db --json; touch up; sleep 1000", "timeout": "15s"}), code=7)
    eq((ws.alive(pid), processes.status("db")["state_name"], (ws.path / "up").exists()), (False, "Running", True), "the process")
    processes.stop("db")


@test("a limit of the user's own is left as it is, and the rest is still ended", slow=True)
def _(ws):
    resource.setrlimit(resource.RLIMIT_RTTIME, (5_000_000, 6_000_000))
    command = ["bash", "-c", "grep 'realtime timeout' /proc/self/limits > limits; setsid -f sleep 1000; sleep 1000"]
    stage = run_flow(ws, flow("a", a={"run": command, "timeout": "3s"}), code=7)
    eq((ws.path / "limits").read_text().split()[3:5], ["5000000", "6000000"], "the limits of the task")
    eq(processes_of(stage["run_id"]), [], "processes that are left")


main(__name__)
