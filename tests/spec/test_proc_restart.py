"""Restart policies: when, how often and how soon; and that a stop is stronger than any of them.

What the holder decided is in its `history`: the delays are read there, not measured.
"""

import json
import signal

from harness.harness import eq, main, test
from harness.processes import Processes, send
from holder_common import stop_while

LATER = ("--backoff", "1h", "--backoff-max", "2h")  # the second retry does not come while the test runs
SOON = ("--backoff", "1ms", "--backoff-max", "2ms")


def create(p, id, then, *options):
    """A script that writes its pid into born.<id> first."""
    p.script(id, f'echo $$ >> "{p.ws.base}/born.{id}"; {then}', "--cwd", str(p.ws.path), *options)


def births(p, id):
    path = p.ws.base / f"born.{id}"
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


def until_births(p, id, count):
    p.ws.until(lambda: len(births(p, id)) >= count, f"{id} is born {count} times")
    return births(p, id)[count - 1]


def restarts_of(p, id):
    """[(retry, delay_ms)] as the holder decided them."""
    return [(fact["retry"], fact["delay_ms"]) for fact in p.history(id, "restarting")]


@test("a workspace that somebody renames during the backoff: the next start is in its new place")
def _(ws):
    p = Processes(ws)
    (ws.path / "sub").mkdir()
    p.script("web", f'pwd >> "{ws.base}/places"; while [ -e "{ws.base}/wait" ]; do sleep 0.05; done; exit 1', "--cwd", str(ws.path / "sub"),
             "--restart", "on-failure", "--backoff", "1ms", "--backoff-max", "1ms", "--ready", f"exec:test -e {ws.base}/second")
    (ws.base / "wait").touch()
    p.start("web")
    old, new = ws.path, ws.path.with_name("renamed")
    old.rename(new)
    (ws.base / "wait").unlink()
    ws.until(lambda: str(new / "sub") in (ws.base / "places").read_text().split(), "it starts in the new place")
    (ws.base / "wait").touch()
    (ws.base / "second").touch()
    old.symlink_to(new)  # for the commands of the test; the holder and its probe have begun without it
    p.until_state("web", "Running", phase="ready")
    p.stop("web")
    old.unlink()
    new.rename(old)


# -- the policies ----------------------------------------------------------------------------------------------------

@test("restart: no leaves a process that fails as it is")
def _(ws):
    p = Processes(ws)
    create(p, "web", "exit 1", "--restart", "no")
    p.start("web")
    record = p.until_state("web", "Failed")
    eq((record["phase"], record["run"], record["restarts"], len(births(p, "web"))), ("", 1, 0, 1), "phase, run, restarts, births")
    p.nothing_runs()  # no holder waits for anything


@test("restart: no is the default")
def _(ws):
    p = Processes(ws)
    eq(p.create("web")["restart"], "no", "the policy")


@test("restart: on-failure restarts after a failure and after a signal, not after exit 0")
def _(ws):
    p = Processes(ws)
    create(p, "web", 'n=$(wc -l < "$B/born.web"); case $n in 1) exit 1;; 2) kill -9 $$;; *) exit 0;; esac', "--restart",
           "on-failure", "--env", f"B={ws.base}", *SOON)
    p.start("web")
    ws.until(lambda: p.status("web")["run"] == 3 and p.status("web")["state_name"] == "Stopped", "the third run ends well")
    record = p.status("web")
    eq((len(births(p, "web")), record["restarts"], record["exit_code"]), (3, 2, 0), "births, restarts, exit_code")
    eq([e["exit_code"] for e in record["last_exits"]], [1, 137, 0], "the exits")
    p.nothing_runs()


@test("restart: always restarts after exit 0 as well")
def _(ws):
    p = Processes(ws)
    create(p, "web", f'test $(wc -l < "{ws.base}/born.web") -ge 3 && exec sleep 1000; exit 0', "--restart", "always", *SOON)
    p.start("web")
    pid = until_births(p, "web", 3)
    ws.until(lambda: p.status("web")["pid"] == pid, "the third run is the one that is shown")
    record = p.status("web")
    eq((record["state_name"], record["run"], record["restarts"]), ("Running", 3, 2), "state, run, restarts")
    p.stop("web")
    p.nothing_runs()


@test("a killed child is replaced by its successor, one at a time, and the exits are on record")
def _(ws):
    p = Processes(ws)
    create(p, "web", "exec sleep 1000", "--restart", "always", *SOON)
    p.start("web")
    for count in range(1, 5):
        pid = until_births(p, "web", count)
        ws.until(lambda: p.status("web")["pid"] == pid, "it is the one that is shown")
        send(pid)
        until_births(p, "web", count + 1)
        assert not ws.alive(pid), "two copies"
    eq([(e["run"], e["exit_code"]) for e in p.status("web")["last_exits"]], [(n, 137) for n in (1, 2, 3, 4)], "the exits")
    eq(len([e for e in ws.events("process.restarting")]), 4, "process.restarting events")
    p.stop("web")


@test("a command that can no longer be executed is not restarted for ever without a word")
def _(ws):
    p = Processes(ws)
    command = ws.path / "command"
    command.write_text(f'#!/bin/sh\necho $$ >> "{ws.base}/born.web"\nexec sleep 1000\n')
    command.chmod(0o755)
    p.create("web", (str(command),), "--restart", "always", "--max-retries", "2", *SOON)
    p.start("web")
    pid = until_births(p, "web", 1)
    command.unlink()
    send(pid)
    ws.until(lambda: p.status("web")["state_name"] != "Running" and not p.holders(), "it is given up")
    eq((p.status("web")["state_name"], len(births(p, "web"))), ("Failed", 1), "state and births")
    assert ws.events("process.start_failed"), "no event says why"
    p.nothing_runs()


# -- backoff -----------------------------------------------------------------------------------------------------------

@test("the first restart is at once, then the delays double up to their cap")
def _(ws):
    p = Processes(ws)
    create(p, "web", "exit 1", "--restart", "on-failure", "--max-retries", "6", "--backoff", "4ms", "--backoff-max", "20ms")
    p.start("web")
    ws.until(lambda: p.history("web", "gave_up"), "it gives up")
    eq(restarts_of(p, "web"), [(1, 0), (2, 4), (3, 8), (4, 16), (5, 20), (6, 20)], "(retry, delay)")


@test("max_retries: that many restarts, then it gives up, stays Failed, and the event says so")
def _(ws):
    p = Processes(ws)
    create(p, "web", "exit 7", "--restart", "on-failure", "--max-retries", "2", *SOON)
    p.start("web")
    ws.until(lambda: p.history("web", "gave_up"), "it gives up")
    record = p.until_state("web", "Failed", phase="")
    eq((len(births(p, "web")), record["run"], record["restarts"], record["exit_code"]), (3, 3, 2, 7), "births, run, restarts, code")
    events = ws.events("process.gave_up")
    eq([(e["data"]["process_id"], e["data"]["retries"]) for e in events], [("web", 2)], "process.gave_up events")
    p.nothing_runs()


@test("a start after it gave up begins to count anew")
def _(ws):
    p = Processes(ws)
    create(p, "web", "exit 7", "--restart", "on-failure", "--max-retries", "1", *SOON)
    for round in (1, 2):
        p.start("web")
        ws.until(lambda: len(p.history("web", "gave_up")) == round, "it gives up")
        p.until_state("web", "Failed", phase="")
        eq(len(births(p, "web")), 2 * round, "births")


@test("max_retries 0 is no restart at all")
def _(ws):
    p = Processes(ws)
    create(p, "web", "exit 7", "--restart", "always", "--max-retries", "0")
    p.start("web")
    ws.until(lambda: p.history("web", "gave_up"), "it gives up")
    eq(len(births(p, "web")), 1, "births")
    p.until_state("web", "Failed", phase="")
    p.nothing_runs()


@test("while it waits for its next start it is Failed with phase backoff and no pid")
def _(ws):
    p = Processes(ws)
    create(p, "web", "exit 3", "--restart", "on-failure", *LATER)
    p.start("web")
    record = p.until_state("web", "Failed", phase="backoff")
    eq((record["pid"], record["exit_code"], record["run"], len(births(p, "web"))), (None, 3, 2, 2), "pid, exit_code, run, births")
    assert ws.alive(record["holder_pid"]), "nobody is in charge of the next start"


@test("while it waits after exit 0 (always) it is Stopped with phase backoff")
def _(ws):
    p = Processes(ws)
    create(p, "web", "exit 0", "--restart", "always", *LATER)
    p.start("web")
    record = p.until_state("web", "Stopped", phase="backoff")
    eq((record["pid"], record["exit_code"], len(births(p, "web"))), (None, 0, 2), "pid, exit_code, births")


@test("stop during the backoff cancels the restart and gives Stopped")
def _(ws):
    p = Processes(ws)
    create(p, "web", "exit 3", "--restart", "on-failure", *LATER)
    p.start("web")
    p.until_state("web", "Failed", phase="backoff")
    record = p.stop("web")
    eq((record["state_name"], record["phase"]), ("Stopped", ""), "state and phase")
    eq(p.status("web")["state_name"], "Stopped", "the state afterwards")
    p.nothing_runs()
    eq(len(births(p, "web")), 2, "births")
    p.call("stop", "web").expect(4, "ProcessNotRunning")


@test("start during the backoff starts at once, and only one copy")
def _(ws):
    p = Processes(ws)
    create(p, "web", f'test $(wc -l < "{ws.base}/born.web") -ge 3 && exec sleep 1000; exit 3', "--restart", "on-failure", *LATER)
    p.start("web")
    p.until_state("web", "Failed", phase="backoff")
    record = p.start("web")
    eq((record["state_name"], record["run"]), ("Running", 3), "state and run")
    eq(until_births(p, "web", 3), record["pid"], "the pid of the third")
    eq((len(births(p, "web")), len(p.holders()["web"])), (3, 1), "births and holders")
    p.stop("web")
    p.nothing_runs()


@test("remove during the backoff needs no force, or says that it does; afterwards nothing comes back")
def _(ws):
    p = Processes(ws)
    create(p, "web", "exit 3", "--restart", "on-failure", *LATER)
    p.start("web")
    p.until_state("web", "Failed", phase="backoff")
    if p.call("remove", "web").code != 0:
        p.call("remove", "web", "--force").expect(0)
    p.nothing_runs()
    p.call("status", "web").expect(5, "ProcessNotFound")


@test("a holder killed during the backoff: the failure is on record, and a start starts one copy")
def _(ws):
    p = Processes(ws)
    create(p, "web", f'test $(wc -l < "{ws.base}/born.web") -ge 3 && exec sleep 1000; exit 3', "--restart", "on-failure", *LATER)
    p.start("web")
    p.until_state("web", "Failed", phase="backoff")
    p.kill_holder("web")
    record = p.status("web")
    eq((record["state_name"], record["exit_code"]), ("Failed", 3), "state and exit_code")
    if p.call("start", "web").code != 0:  # somebody who looked has taken up the restart already
        p.until_state("web", "Running")
    until_births(p, "web", 3)
    p.one_copy_runs("web", p.status("web"))
    eq(len(births(p, "web")), 3, "births")
    p.stop("web")
    p.nothing_runs()


@test("a holder killed between recording an end and telling it: whoever restarts the process tells it first", slow=True)
def _(ws):
    p = Processes(ws)
    create(p, "web", f'test $(wc -l < "{ws.base}/born.web") -ge 3 && exec sleep 1000; sleep 0.5; exit 3', "--restart", "on-failure", *LATER)
    p.start("web")
    ws.until(lambda: (lambda s: s["n"] == 2 and s["phase"] == "backoff")(p.status_file("web")), "it waits")  # nobody looks
    p.kill_holder("web")
    history, status = p.dir("web") / "history", p.dir("web") / "status.json"
    lines = history.read_text().splitlines(True)
    history.write_text("".join(line for line in lines if '"n":3' not in line and not ('"exited"' in line and '"n":2' in line)))
    status.write_text(json.dumps({**p.status_file("web"), "next_start_ms": 1}) + "\n")  # the restart is due
    record = p.until_state("web", "Running")
    eq([(e["run"], e["exit_code"]) for e in record["last_exits"]], [(1, 3), (2, 3)], "last_exits")
    eq(len(ws.events("process.exited")), 2, "process.exited events")
    p.stop("web")


@test("a run that was healthy long enough begins the count anew")
def _(ws):
    p = Processes(ws)
    create(p, "web", 'while ! mv "go.$$" gone 2>/dev/null; do sleep 0.01; done; exit 1', "--restart", "on-failure", "--max-retries",
           "1", "--healthy-after", "1ms", *LATER)
    p.start("web")
    for count in (1, 2, 3, 4):
        pid = until_births(p, "web", count)
        ws.until(lambda: (p.status("web").get("usage") or {}).get("uptime_ms", 0) > 1, "it has run longer than that")
        (ws.path / f"go.{pid}").write_text("")
    until_births(p, "web", 5)
    eq(restarts_of(p, "web"), [(1, 0)] * 4, "(retry, delay)")
    eq(p.history("web", "gave_up"), [], "whether it gave up")
    p.stop("web")


@test("runs that were not healthy long enough are counted together")
def _(ws):
    p = Processes(ws)
    create(p, "web", "exit 1", "--restart", "on-failure", "--max-retries", "3", "--healthy-after", "1h", *SOON)
    p.start("web")
    ws.until(lambda: p.history("web", "gave_up"), "it gives up")
    eq([retry for retry, _ in restarts_of(p, "web")], [1, 2, 3], "the retries")


# -- stop is stronger ----------------------------------------------------------------------------------------------------

@test("stop is stronger than restart: always")
def _(ws):
    p = Processes(ws)
    create(p, "web", "exec sleep 1000", "--restart", "always")
    for count in range(1, 6):
        p.start("web")
        until_births(p, "web", count)
        eq(p.stop("web")["state_name"], "Stopped", "the state")
        p.nothing_runs()
    eq(len(births(p, "web")), 5, "births")


@test("stop of a process that dies and is restarted all the time leaves nothing", quick=False)
def _(ws):
    p = Processes(ws)
    create(p, "web", "exit 1", "--restart", "always", "--backoff", "1ms", "--backoff-max", "1ms")
    for _ in range(10):
        p.start("web")
        born = len(births(p, "web"))
        until_births(p, "web", born + 2)
        p.stop("web")
        p.nothing_runs()
        count = len(births(p, "web"))
        eq(p.status("web")["state_name"], "Stopped", "the state")
        eq(len(births(p, "web")), count, "births after the stop")


@test("a stop survives the holder's death: the stopping command ends what the dead holder could not", quick=False)
def _(ws):
    p = Processes(ws)
    create(p, "web", "trap '' TERM; while :; do sleep 0.05; done", "--restart", "always", *SOON)
    for count in range(1, 4):
        p.start("web")
        pid = until_births(p, "web", count)
        holder = p.status("web")["holder_pid"]
        stopper = ws.spawn("--json", "proc", "stop", "web", "--grace", "300")
        ws.until(lambda: p.want("web") == "down", "want is down")
        send(holder)
        ws.finish(stopper).expect(0)
        assert not ws.alive(pid), "stop returned, and it lives"
        eq(p.status("web")["state_name"], "Stopped", "the state")
        eq(len(births(p, "web")), count, "births")
        p.nothing_runs()


@test("a stop survives the holder's and its own death: whoever looks next completes it, and nothing revives it", quick=False)
def _(ws):
    p = Processes(ws)
    create(p, "web", "trap '' TERM; while :; do sleep 0.05; done", "--restart", "always", "--auto-start", *SOON)
    looks = (["proc", "status", "web"], ["proc", "list"], ["restore"])
    for count, (look, kills_child) in enumerate(((look, kills) for look in looks for kills in (False, True)), 1):
        p.start("web")
        pid = until_births(p, "web", count)
        holder = p.status("web")["holder_pid"]
        stopper = ws.spawn("--json", "proc", "stop", "web", "--grace", "300")
        ws.until(lambda: p.want("web") == "down", "want is down")
        send(holder)
        send(stopper.pid)
        stopper.wait()
        p.until_gone(holder)  # it is not our child: kill returns before it has died
        if kills_child:
            send(pid)
            p.until_gone(pid)
        ws.tasuki(*look).expect(0)
        p.until_gone(pid)
        p.until_state("web", "Stopped")
        eq(len(births(p, "web")), count, "births")
        p.nothing_runs()


@test("a stop whose command was killed before the holder heard of it: the policy reads it and restarts nothing", slow=True)
def _(ws):
    p = Processes(ws)
    create(p, "web", "exec sleep 1000", "--restart", "always", *SOON)
    create(p, "late", "exit 1", "--restart", "always", "--backoff", "1s", "--backoff-max", "1s")
    p.start("web")
    p.start("late")
    pid = until_births(p, "web", 1)
    late = p.status_file("late")["holder"]["pid"]
    stop_while(late, lambda: p.status_file("late")["phase"] == "backoff", "the other one waits for its next restart")
    born = len(births(p, "late"))
    for id in ("web", "late"):
        (p.dir(id) / "want").write_text("down 100\n")
    send(late, signal.SIGCONT)
    send(pid)
    p.nothing_runs()
    eq((len(births(p, "web")), len(births(p, "late"))), (1, born), "births")
    for id in ("web", "late"):
        assert p.status(id)["state_name"] in ("Stopped", "Failed"), p.status(id)["state"]
    ws.tasuki("restore", "--all-auto").expect(0)
    p.nothing_runs()


@test("after the holder's death the policy goes on: an adopted process that dies is restarted")
def _(ws):
    p = Processes(ws)
    create(p, "web", "exec sleep 1000", "--restart", "always", *SOON)
    p.start("web")
    pid = until_births(p, "web", 1)
    p.kill_holder("web")
    eq(p.status("web")["pid"], pid, "the adopted one")
    send(pid)
    successor = until_births(p, "web", 2)
    ws.until(lambda: p.status("web")["pid"] == successor, "the successor is shown")
    send(successor)
    until_births(p, "web", 3)
    p.stop("web")
    p.nothing_runs()


@test("proc restart replaces a running process by one new copy, and starts one that does not run")
def _(ws):
    p = Processes(ws)
    create(p, "web", "exec sleep 1000")
    first = p.call("restart", "web").expect(0).json
    second = p.call("restart", "web").expect(0).json
    until_births(p, "web", 2)
    assert not ws.alive(first["pid"]), "the first still runs"
    p.one_copy_runs("web", second)
    eq((second["run"], births(p, "web")), (2, [first["pid"], second["pid"]]), "run and births")


@test("a signal to the supervised process that it survives changes nothing")
def _(ws):
    p = Processes(ws)
    create(p, "web", "trap : USR1; echo > ready; while :; do sleep 0.01; done", "--restart", "always")
    record = p.start("web")
    ws.until_file("ready")
    send(record["pid"], signal.SIGUSR1)
    send(record["holder_pid"], signal.SIGUSR1)  # "look at want": it is up
    eq(p.status("web")["pid"], record["pid"], "the pid")
    eq(len(births(p, "web")), 1, "births")


main(__name__)
