"""`tasuki restore`: what runs is adopted, what should run is started once, what was stopped on purpose is left alone.

Each process writes its pid into a file when it is born, so that a second copy cannot hide.
"""

import signal
import sys

from harness.harness import Skip, eq, main, test
from harness.processes import Processes, send
from harness.race import race
from common import need_namespace, unshare

AUTO = "--auto-start"


def create(p, id, *options, then="exec sleep 1000"):
    p.script(id, f'echo $$ >> "{p.ws.base}/born.{id}"; {then}', *options)


def births(p, id):
    path = p.ws.base / f"born.{id}"
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


def restore(p, *options):
    return p.ws.tasuki("--json", "restore", *options).expect(0)


def start_all(p, *ids):
    for id in ids:
        p.start(id)
        p.ws.until(lambda: births(p, id), f"{id} is born")


@test("restore after SIGKILL of everything starts once what has the flag, and nothing else")
def _(ws):
    p = Processes(ws)
    create(p, "auto", AUTO)
    create(p, "plain")
    create(p, "never", AUTO)
    start_all(p, "auto", "plain")
    p.kill_everything()
    restore(p)
    ws.until(lambda: len(births(p, "auto")) == 2 and births(p, "never"), "they are born")
    p.one_copy_runs("auto", p.status("auto"))
    p.one_copy_runs("never", p.status("never"))  # never started before: the flag says that it should run
    eq((p.status("plain")["state_name"], len(births(p, "plain"))), ("Failed", 1), "without the flag")
    restore(p)
    eq((len(births(p, "auto")), len(births(p, "never"))), (2, 1), "births after a second restore")


IN_NAMESPACE = ["-pf", "--mount-proc", "--kill-child"]


def start_in_namespace(p, id, then="true"):
    """Starts a process in a pid namespace of its own, which ends when `then` has."""
    need_namespace(p.ws, *IN_NAMESPACE)
    unshare(p.ws, IN_NAMESPACE, f"'{p.ws.binary}' proc start {id}; {then}").expect(0)


@test("a process whose pid namespace was killed has failed, and can be started, stopped, restored and removed", slow=True)
def _(ws):
    p = Processes(ws)
    for id in ("auto", "gone"):
        create(p, id, AUTO, "--restart", "always")
        start_in_namespace(p, id)
        state = p.status(id)
        eq(state["state_name"], "Failed", id)
        error = state["state"]["Failed"]["error"]
        assert "exit status unknown" in error, state
        for lang in ("ja", "zh"):
            assert error in " ".join(ws.tasuki("--lang", lang, "proc", "status", id).out.split()), f"the reason in {lang}"
        eq(p.history(id, "started")[1:], [], "nothing was started on this side")
    restore(p)
    p.one_copy_runs("auto", p.status("auto"))
    p.stop("auto")
    start_in_namespace(p, "auto")
    p.one_copy_runs("auto", p.start("auto"))
    p.call("stop", "auto").expect(0)
    p.call("remove", "gone", "--force").expect(0)


@test("a process that lives in another pid namespace runs, even when it closed its life lock and its holder is dead")
def _(ws):
    p = Processes(ws)
    code = "import os, time; os.close(100); open('../up', 'w'); time.sleep(1000)"
    p.create("web", ("/usr/bin/env", "python3", "-c", code), "--cwd", str(ws.path))
    need_namespace(ws, *IN_NAMESPACE)
    script = (f"'{ws.binary}' proc start web; until test -e ../up; do sleep 0.01; done; for d in /proc/[0-9]*; do if [ $(cat $d/comm) = tasuki-hold ]; then kill -KILL ${{d#/proc/}}; fi; done; echo 1 > ../dead;"
              " until test -e ../go; do sleep 0.01; done")
    inside = ws.spawn_command(["unshare", *IN_NAMESPACE, "sh", "-euc", script])
    ws.until_file(ws.base / "dead")
    eq(p.status("web")["state_name"], "Running")
    (ws.base / "go").touch()
    ws.finish(inside).expect(0)
    p.until_state("web", "Failed")


@test("restore adopts what still runs: same pid, one holder")
def _(ws):
    p = Processes(ws)
    create(p, "auto", AUTO)
    create(p, "plain")
    start_all(p, "auto", "plain")
    p.kill_holder("auto")
    p.kill_holder("plain")
    restore(p)
    for id in ("auto", "plain"):
        eq(len(p.holders().get(id, [])), 1, f"holders of {id}")
        record = p.status(id)
        eq((record["state_name"], [record["pid"]], record["run"]), ("Running", births(p, id), 1), "state, pid, run")


@test("restore leaves alone what runs with its holder")
def _(ws):
    p = Processes(ws)
    create(p, "auto", AUTO)
    start_all(p, "auto")
    before = p.status("auto")
    restore(p)
    restore(p, "--all-auto")
    after = p.status("auto")
    eq([after[key] for key in ("pid", "holder_pid", "run")], [before[key] for key in ("pid", "holder_pid", "run")], "the record")


@test("restore after a reboot starts once what has the flag")
def _(ws):
    p = Processes(ws)
    create(p, "auto", AUTO)
    create(p, "plain")
    start_all(p, "auto", "plain")
    p.kill_everything()
    for id in ("auto", "plain"):
        p.after_reboot(id)
    restore(p)
    ws.until(lambda: len(births(p, "auto")) == 2, "it is born again")
    record = p.status("auto")
    p.one_copy_runs("auto", record)
    eq((record["run"], record["last_exits"][-1]["by"]), (2, "unknown"), "the run, and how the one before ended")
    eq((p.status("plain")["state_name"], len(births(p, "plain"))), ("Failed", 1), "without the flag")


@test("restore after a reboot starts what a shutdown had ended (SIGTERM to the holders)")
def _(ws):
    p = Processes(ws)
    create(p, "auto", AUTO)
    start_all(p, "auto")
    holder = p.status("auto")["holder_pid"]
    send(holder, signal.SIGTERM)
    p.until_gone(holder)
    p.after_reboot("auto")
    restore(p)
    ws.until(lambda: len(births(p, "auto")) == 2, "it is born again")
    p.one_copy_runs("auto", p.status("auto"))


@test("what was stopped on purpose is not started by restore, but with --all-auto")
def _(ws):
    p = Processes(ws)
    create(p, "auto", AUTO)
    create(p, "plain")
    start_all(p, "auto", "plain")
    p.stop("auto")
    p.stop("plain")
    restore(p)
    eq(p.status("auto")["state_name"], "Stopped", "after restore")
    p.after_reboot("auto")
    restore(p)
    eq(p.status("auto")["state_name"], "Stopped", "after a reboot")
    restore(p, "--all-auto")
    ws.until(lambda: len(births(p, "auto")) == 2, "it is born again")
    p.one_copy_runs("auto", p.status("auto"))
    eq(len(births(p, "plain")), 1, "births of the one without the flag")


@test("a stop counts only since the last start: stopped, started again and killed is restored")
def _(ws):
    p = Processes(ws)
    create(p, "auto", AUTO)
    start_all(p, "auto")
    p.stop("auto")
    p.start("auto")
    ws.until(lambda: len(births(p, "auto")) == 2, "it is born")
    p.kill_everything()
    restore(p)
    ws.until(lambda: len(births(p, "auto")) == 3, "it is born again")


@test("what had ended by itself is started by restore when it has the flag")
def _(ws):
    p = Processes(ws)
    create(p, "done", AUTO, then="exit 0")
    start_all(p, "done")
    p.until_state("done", "Stopped")
    restore(p)
    ws.until(lambda: len(births(p, "done")) == 2, "it is born again")
    p.until_state("done", "Stopped")


@test("20 simultaneous restores start each process once", quick=False)
def _(ws):
    p = Processes(ws)
    ids = ["a", "b", "c", "d"]
    for id in ids:
        create(p, id, AUTO)
    start_all(p, *ids)
    for number in range(2, 5):
        if number == 2:
            p.kill_everything()
        else:
            p.call("stop", "--all").expect(0)
        if number == 3:
            for id in ids:
                p.after_reboot(id)
        codes = [code for code, _ in race(ws, [[ws.binary, "--json", "restore", "--all-auto"]] * 20)]
        eq(set(codes), {0}, "exit codes")
        for id in ids:
            ws.until(lambda: len(births(p, id)) >= number, f"{id} is born")
            eq(len(births(p, id)), number, f"births of {id}")
            p.one_copy_runs(id, p.status(id))
        eq(sorted((id, len(pids)) for id, pids in p.holders().items()), [(id, 1) for id in ids], "holders")
    p.call("stop", "--all").expect(0)
    p.nothing_runs()


@test("restore that meets a process which cannot be started says so, and starts the others")
def _(ws):
    p = Processes(ws)
    p.create("broken", ("/nonexistent/command",), AUTO)
    create(p, "good", AUTO)
    result = ws.tasuki("--json", "restore")
    assert result.code == 7 and "broken" in result.out, result
    ws.until(lambda: births(p, "good"), "the other one is born")


@test("restore in a workspace without processes is success and makes nothing run")
def _(ws):
    p = Processes(ws)
    restore(p)
    p.nothing_runs()


# Runs the rest of its arguments in a new time namespace whose boot clock is shifted by the first two: seconds, nanoseconds.
SHIFTED = """import ctypes, os, sys
if ctypes.CDLL(None, use_errno=True).unshare(0x80) != 0:  # CLONE_NEWTIME
    sys.exit(99)
with open("/proc/self/timens_offsets", "w") as file:
    file.write("boottime %s %s\\n" % (sys.argv[1], sys.argv[2]))
pid = os.fork()
if pid == 0:
    os.execv(sys.argv[3], sys.argv[3:])
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def in_shifted_time(ws, shift, *words):
    result = ws.run([sys.executable, "-c", SHIFTED, *shift, str(ws.binary), *words])
    if result.code == 99:
        raise Skip("no time namespace may be made here")
    return result


for _shift in (("100000", "0"), ("100000", "9999999")):

    @test(f"a child whose holder was killed is adopted, and stopped, in a time namespace that is shifted by {_shift[0]} s {_shift[1]} ns")
    def _(ws, shift=_shift):
        p = Processes(ws)
        before = p.run("web")
        p.kill_holder("web")
        record = in_shifted_time(ws, shift, "--json", "proc", "status", "web").expect(0).json
        eq((record["state_name"], record["pid"]), ("Running", before["pid"]), "seen from inside")
        ws.until(lambda: "adopted" in (p.dir("web") / "history").read_text(), "the adoption")
        assert "lost" not in (p.dir("web") / "history").read_text()
        in_shifted_time(ws, shift, "--json", "proc", "stop", "web").expect(0)
        eq(p.status("web")["state_name"], "Stopped", "after the stop")


main(__name__)
