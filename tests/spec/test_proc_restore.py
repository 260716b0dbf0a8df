"""`tasuki restore`: what runs is adopted, what should run is started once, what was stopped on purpose is left alone.

Each process writes its pid into a file when it is born, so that a second copy cannot hide.
"""

import signal

from harness.harness import eq, main, test
from harness.processes import Processes, send
from harness.race import race

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


main(__name__)
