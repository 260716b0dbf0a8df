"""How a process ended is known, or is said to be unknown; a stop leaves nothing; a start that fails says why."""

import json
import os
import pathlib
import shutil
import signal
import sys
import threading

from harness.harness import eq, main, test
from harness.processes import SLEEP, Processes, children_of, name_of, send, start_ticks_of, state_of
from harness.race import race
from spec.common import need_namespace, parse_time
from spec.holder_common import lock_wait

UNKNOWN = "exit status unknown: "


def ended(p, id, state="Failed"):
    """The record when the process has ended; the seed's state and the keys beside it say the same."""
    record = p.until_state(id, state)
    inside = record["state"][state]
    eq(record["exit_code"], inside["exit_code"], "exit_code beside the state")
    eq(record.get("error"), inside.get("error"), "error beside the state")
    eq(record["pid"], None, "the pid of what has ended")
    assert inside["stopped_at"] >= inside["started_at"], inside
    last = record["last_exits"][-1]
    eq((last["run"], last["raw_status"]), (record["run"], record["raw_status"]), "run and raw_status in last_exits")
    return record


def facts(record):
    return record["exit_code"], record["raw_status"], record.get("error")


# -- by itself -----------------------------------------------------------------------------------------------------

@test("exit 0 is Stopped with exit_code 0 and no error")
def _(ws):
    p = Processes(ws)
    p.run("done", ("true",))
    record = ended(p, "done", "Stopped")
    eq(facts(record), (0, {"code": 0}, None), "exit_code, raw_status, error")
    eq(record["last_exits"][-1]["by"], "itself", "by whom")


@test("exit 3 is Failed with exit_code 3")
def _(ws):
    p = Processes(ws)
    p.script("bad", "exit 3")
    p.start("bad")
    eq(facts(ended(p, "bad")), (3, {"code": 3}, "Process exited with code 3"), "exit_code, raw_status, error")


@test("exit 255 is Failed with exit_code 255, which is not the unknown one")
def _(ws):
    p = Processes(ws)
    p.script("bad", "exit 255")
    p.start("bad")
    eq(facts(ended(p, "bad")), (255, {"code": 255}, "Process exited with code 255"), "exit_code, raw_status, error")


@test("SIGSEGV is Failed with exit_code 139 and the signal's name")
def _(ws):
    p = Processes(ws)
    p.script("crash", "ulimit -c 0; kill -SEGV $$; sleep 1000")
    p.start("crash")
    record = ended(p, "crash")
    eq(facts(record), (139, {"signal": "SIGSEGV", "number": 11}, "killed by signal SIGSEGV"), "exit_code, raw_status, error")
    eq(record["last_exits"][-1]["by"], "itself", "by whom")


@test("killed by somebody else is Failed with that signal")
def _(ws):
    p = Processes(ws)
    for number, name in ((signal.SIGKILL, "SIGKILL"), (signal.SIGTERM, "SIGTERM"), (signal.SIGHUP, "SIGHUP")):
        pid = p.run(f"victim-{name}")["pid"]
        send(pid, number)
        record = ended(p, f"victim-{name}")
        eq(facts(record), (128 + number, {"signal": name, "number": int(number)}, f"killed by signal {name}"), "the facts")


@test("last_exits keeps the exits of several runs in their order")
def _(ws):
    p = Processes(ws)
    (ws.path / "n").write_text("0")
    p.script("many", 'read n < n; echo $((n + 1)) > n; exit $((n + 1))', "--cwd", str(ws.path))
    for code in (1, 2, 3):
        p.start("many")
        ws.until(lambda: p.status("many").get("exit_code") == code, f"it ends with {code}")
    exits = p.status("many")["last_exits"]
    eq([(e["run"], e["exit_code"]) for e in exits], [(1, 1), (2, 2), (3, 3)], "run and exit_code")


@test("an exit has one time: the state, last_exits and the event say the same")
def _(ws):
    p = Processes(ws)
    p.script("bad", "exit 3")
    p.start("bad")
    record = ended(p, "bad")
    at = record["state"]["Failed"]["stopped_at"]
    eq(record["last_exits"][-1]["stopped_at"], at, "stopped_at in last_exits")
    eq([parse_time(e["time"]) for e in ws.events("process.exited")], [parse_time(at)], "the time of the event")


@test("an exit that the holder could record but no longer tell (SIGKILL between the two) is told by whoever looks, once")
def _(ws):
    p = Processes(ws)
    p.script("bad", "while ! test -e go; do sleep 0.01; done; exit 3", "--cwd", str(ws.path))
    p.start("bad")
    (ws.path / "go").touch()  # nobody looks between its end and what follows
    ws.until(lambda: p.history("bad", "exited") and not p.holders(), "its end is recorded")
    history = p.dir("bad") / "history"
    lines = history.read_text().splitlines(True)
    history.write_text("".join(line for line in lines if '"exited"' not in line))  # as if it had been killed before that line
    for _ in range(2):
        eq([(e["run"], e["exit_code"]) for e in p.status("bad")["last_exits"]], [(1, 3)], "last_exits")
        eq(len(ws.events("process.exited")), 1, "process.exited events")
    p.start("bad")
    ws.until(lambda: p.status("bad")["run"] == 2 and not p.holders(), "the second run ends")
    eq([(e["run"], e["exit_code"]) for e in p.status("bad")["last_exits"]], [(1, 3), (2, 3)], "last_exits of both")


# -- by us ---------------------------------------------------------------------------------------------------------

@test("stopped by us is Stopped with exit_code 0; what really happened is kept beside it")
def _(ws):
    p = Processes(ws)
    p.run("web")
    p.stop("web")
    record = ended(p, "web", "Stopped")
    eq(facts(record), (0, {"signal": "SIGTERM", "number": 15}, None), "exit_code, raw_status, error")
    eq(record["last_exits"][-1]["by"], "stop", "by whom")


@test("a process that answers SIGTERM with its own exit code is Stopped; its code is the raw status")
def _(ws):
    p = Processes(ws)
    p.script("web", "trap 'exit 5' TERM; echo > ready; while :; do sleep 0.01; done", "--cwd", str(ws.path))
    p.start("web")
    ws.until_file("ready")
    p.stop("web")
    eq(facts(ended(p, "web", "Stopped")), (0, {"code": 5}, None), "exit_code, raw_status, error")


@test("a child that ignores SIGTERM gets SIGKILL when the grace period is over")
def _(ws):
    p = Processes(ws)
    p.script("deaf", "trap '' TERM; echo > ready; while :; do sleep 1000; done", "--cwd", str(ws.path))
    pid = p.start("deaf")["pid"]
    ws.until_file("ready")
    p.stop("deaf", "--grace", "100")
    assert not ws.alive(pid), "it still runs"
    eq(facts(ended(p, "deaf", "Stopped")), (0, {"signal": "SIGKILL", "number": 9}, None), "exit_code, raw_status, error")
    p.nothing_runs()


@test("a grace period of 0 is SIGKILL without waiting")
def _(ws):
    p = Processes(ws)
    p.script("deaf", "trap '' TERM; echo > ready; while :; do sleep 1000; done", "--cwd", str(ws.path))
    p.start("deaf")
    ws.until_file("ready")
    p.stop("deaf", "--grace", "0")
    p.nothing_runs()


@test("a child that is itself stopped (SIGSTOP) is ended all the same")
def _(ws):
    p = Processes(ws)
    pid = p.run("frozen")["pid"]
    os.kill(pid, signal.SIGSTOP)
    ws.until(lambda: state_of(pid) == "T", "it is stopped")
    p.stop("frozen", "--grace", "200")
    assert not ws.alive(pid), "it still runs"
    p.nothing_runs()


GRANDCHILDREN = {
    "in the process group": "sleep 1000 & echo $! >> pids",
    "in another process group": "(set -m; sleep 1000 & echo $! >> pids)",
    "in another session": "setsid sleep 1000 & sleep 0; setsid sh -c 'echo $$ >> pids; exec sleep 1000' &",
    "as a daemon whose parent is gone": "(setsid sh -c 'echo $$ >> pids; exec sleep 1000' &) ; true",
    "as a daemon that ignores SIGTERM": "(setsid sh -c \"trap '' TERM; echo \\$\\$ >> pids; exec sleep 1000\" &) ; true",
    "as a daemon with no environment and no open file":
        "(env -i PATH=\"$PATH\" setsid sh -c 'exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; echo $$ >> pids; exec sleep 1000 "
        "</dev/null >/dev/null 2>&1' &) ; true",
}

for _where, _script in GRANDCHILDREN.items():
    @test(f"stop ends a grandchild {_where}")
    def _(ws, script=_script):
        p = Processes(ws)
        p.script("web", f"{script}\necho $$ >> pids; exec sleep 1000", "--cwd", str(ws.path))
        p.start("web")
        pids = p.until_pids("pids", 2)
        p.stop("web", "--grace", "200")
        eq([pid for pid in pids if ws.alive(pid)], [], "what still runs after stop has returned")
        p.nothing_runs()

    @test(f"stop after the holder's death ends a grandchild {_where}")
    def _(ws, script=_script, where=_where):
        p = Processes(ws)
        p.script("web", f"{script}\necho $$ >> pids; exec sleep 1000", "--cwd", str(ws.path))
        p.start("web")
        pids = p.until_pids("pids", 2)
        p.kill_holder("web")
        p.stop("web", "--grace", "200")
        left = [pid for pid in pids if ws.alive(pid)]
        if "no environment" in where and left:
            return  # it has shed all that it could be recognised by, and its subreaper is gone: nobody can know it
        eq(left, [], "what still runs after stop has returned")
        p.nothing_runs()


@test("a fork that races with stop is ended as well")
def _(ws):
    p = Processes(ws)
    program = ws.base / "forks.py"
    program.write_text("import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nsignal.signal(signal.SIGCHLD,"
                       " signal.SIG_IGN)\nopen('ready', 'w').write('x')\nwhile True:\n    if os.fork() == 0:\n"
                       "        os.setsid()\n        time.sleep(0.02)\n        os._exit(0) if os.fork() else time.sleep(0.3)\n"
                       "        os._exit(0)\n    time.sleep(0.003)\n")
    p.run("forks", (sys.executable, str(program)), "--cwd", str(ws.path))
    ws.until_file("ready")
    p.stop("forks", "--grace", "50")
    left = [pid for pid in children_of(os.getpid()) if ws.alive(pid)]
    eq(left, [], "what still runs when stop has returned")
    p.nothing_runs()


# -- what an ended child leaves behind ----------------------------------------------------------------------------------

DAEMON = "setsid sh -c 'echo $$ > daemon.tmp; mv daemon.tmp daemon; exec sleep 1000' & while ! test -e daemon; do :; done"


@test("a daemon that an ended process left behind is listed, and does not block the next start")
def _(ws):
    p = Processes(ws)
    p.script("web", f"if test -e daemon; then exec sleep 1000; fi; {DAEMON}; exit 0", "--cwd", str(ws.path))
    p.start("web")
    record = ended(p, "web", "Stopped")
    daemon = int((ws.path / "daemon").read_text())
    eq([one["pid"] for one in record["leftovers"]], [daemon], "the leftovers")
    eq(record["leftovers"][0]["name"], name_of(daemon), "the leftover's name")
    second = p.start("web")
    p.one_copy_runs("web", second)
    eq((second["run"], ws.alive(daemon)), (2, True), "the run, and whether the daemon lives")
    p.stop("web")
    eq(ws.alive(daemon), False, "whether the daemon lives after stop")
    p.nothing_runs()


@test("stop of a process that has ended ends its leftovers, and succeeds")
def _(ws):
    p = Processes(ws)
    p.script("web", f"{DAEMON}; exit 0", "--cwd", str(ws.path))
    p.start("web")
    ended(p, "web", "Stopped")
    daemon = int((ws.path / "daemon").read_text())
    assert ws.alive(daemon), "the daemon has not outlived its parent"
    p.stop("web")
    assert not ws.alive(daemon), "the daemon still runs"
    p.call("stop", "web").expect(4, "ProcessNotRunning")
    p.nothing_runs()


@test("stop --all ends the leftovers of processes that have ended, too")
def _(ws):
    p = Processes(ws)
    p.script("web", f"{DAEMON}; exit 0", "--cwd", str(ws.path))
    p.script("quiet", "exit 0")
    p.start("web")
    p.start("quiet")
    ended(p, "web", "Stopped")
    ended(p, "quiet", "Stopped")
    daemon = int((ws.path / "daemon").read_text())
    p.call("stop", "--all").expect(0)
    assert not ws.alive(daemon), "the daemon still runs"
    p.nothing_runs()


@test("stop --all succeeds if one that it was to stop is stopped or removed by somebody else meanwhile")
def _(ws):
    p = Processes(ws)
    for end in (["stop", "db"], ["remove", "db", "--force"]):
        p.create("db")
        p.script("web", f"trap '{ws.binary} proc {' '.join(end)} >&2; exit 0' TERM; echo 1 > up; sleep 1000 & wait", "--cwd",
                 str(ws.path), "--depends-on", "db=started")
        p.start("web")
        ws.until_file("up")
        answer = p.call("stop", "--all", "--grace", "5000").expect(0).json
        eq(answer["errors"], [], f"errors after {end}")
        p.call("remove", "--all").expect(0)
        (ws.path / "up").unlink()
    p.nothing_runs()


@test("a stop that meets a start of which no record says who is in charge waits for it")
def _(ws):
    p = Processes(ws)
    p.create("web")
    p.dir("web").mkdir()
    locks = [os.open(p.dir("web") / name, os.O_RDWR | os.O_CREAT, 0o600) for name in ("holder.lock", "run.1.lock")]
    for lock in locks:
        lock_wait(lock, 0)
    eq(p.status("web")["phase"], "starting", "the phase")
    stop = ws.spawn("--json", "proc", "stop", "web")
    ws.until(lambda: p.want("web") == "down", "the stop is written down")
    for lock in locks:  # the start came to nothing
        os.close(lock)
    eq(ws.finish(stop).expect(0).json["state_name"], "NotStarted", "the state")


@test("remove of a process that has ended ends its leftovers")
def _(ws):
    p = Processes(ws)
    p.script("web", f"{DAEMON}; exit 0", "--cwd", str(ws.path))
    p.start("web")
    ended(p, "web", "Stopped")
    daemon = int((ws.path / "daemon").read_text())
    p.call("remove", "web").expect(0)
    assert not ws.alive(daemon), "the daemon still runs"
    p.nothing_runs()


# -- the holder dies -----------------------------------------------------------------------------------------------------

@test("a process whose holder was killed stays Running with its pid; a new holder takes charge")
def _(ws):
    p = Processes(ws)
    first = p.run("web")
    old = p.kill_holder("web")
    record = p.status("web")
    eq((record["state_name"], record["pid"], record["run"]), ("Running", first["pid"], 1), "state, pid, run")
    eq(record["state"], first["state"], "the state, with when it was started")
    assert record["holder_pid"] not in (None, old) and ws.alive(record["holder_pid"]), "nobody is in charge"
    eq(len(p.holders().get("web", [])), 1, "how many are in charge")
    p.call("start", "web").expect(4, "ProcessAlreadyRunning")
    eq(len([e for e in ws.events("process.adopted") if e["data"]["process_id"] == "web"]), 1, "process.adopted events")
    p.stop("web")
    p.nothing_runs()


@test("an adopted process can be stopped where nobody reaps orphans (a container without an init)")
def _(ws):
    p = Processes(ws, is_reaping=False)
    pid = p.run("web")["pid"]
    p.kill_holder("web")
    eq(p.stop("web")["state_name"], "Stopped", "the state")
    eq(state_of(pid), "Z", "what is left of it")
    p.call("remove", "web").expect(0)


@test("many that look at a process without a holder make one holder")
def _(ws):
    p = Processes(ws)
    pid = p.run("web")["pid"]
    for _ in range(3):
        p.kill_holder("web")
        commands = [[ws.binary, "--json", "proc", *words] for words in (["status", "web"], ["list"], ["start", "web"])] * 4
        codes = [code for code, _ in race(ws, commands)]
        eq(sorted(set(codes)), [0, 4], "exit codes")
        eq(len(p.holders().get("web", [])), 1, "how many are in charge")
        eq(p.status("web")["pid"], pid, "the pid")


@test("a process killed with its holder is Failed, its exit status unknown and not guessed")
def _(ws):
    p = Processes(ws)
    pid = p.run("web")["pid"]
    holder = p.status_file("web")["holder"]["pid"]
    send(holder, signal.SIGSTOP)  # so that it does not see the child's end before its own
    send(pid)
    send(holder)
    p.until_gone(pid, holder)
    record = ended(p, "web")
    eq((record["exit_code"], record["raw_status"]), (-1, None), "exit_code and raw_status")
    assert record["error"].startswith(UNKNOWN) and len(record["error"]) > len(UNKNOWN), record["error"]
    eq(record["last_exits"][-1]["by"], "unknown", "by whom")
    eq(len([e for e in ws.events("process.lost") if e["data"]["process_id"] == "web"]), 1, "process.lost events")
    p.one_copy_runs("web", p.start("web"))


@test("an adopted process that ends by itself is Stopped or Failed as it ended, or unknown; never guessed")
def _(ws):
    p = Processes(ws)
    for code in (0, 3):
        id = f"web-{code}"
        p.script(id, f"while ! test -e go; do sleep 0.01; done; exit {code}", "--cwd", str(ws.path))
        p.start(id)
        p.kill_holder(id)
        p.status(id)
    (ws.path / "go").write_text("")
    for code, state in ((0, "Stopped"), (3, "Failed")):
        record = ws.until(lambda: (lambda r: r if r["state_name"] != "Running" else None)(p.status(f"web-{code}")), "it ends")
        if record["exit_code"] == -1:
            assert record["state_name"] == "Failed" and record["error"].startswith(UNKNOWN), record
            eq(record["raw_status"], None, "raw_status")
        else:
            eq((record["state_name"], record["exit_code"], record["raw_status"]), (state, code, {"code": code}), "the end")


@test("the machine was rebooted: what ran is Failed and unknown, and can be started again")
def _(ws):
    p = Processes(ws)
    p.run("web")
    p.kill_everything()
    p.after_reboot("web")
    record = ended(p, "web")
    eq((record["exit_code"], record["raw_status"]), (-1, None), "exit_code and raw_status")
    assert record["error"].startswith(UNKNOWN), record["error"]
    p.one_copy_runs("web", p.start("web"))
    eq(p.status("web")["run"], 2, "the run")


@test("the machine was rebooted: a stranger with the same pid and start time is neither adopted nor ended")
def _(ws):
    p = Processes(ws)
    stranger = ws.spawn_command(["sleep", "1000"])
    p.run("web")
    for pid in [p.status("web")["pid"], p.status("web")["holder_pid"]]:
        send(pid)
        p.until_gone(pid)
    p.after_reboot("web", pid=stranger.pid, start_ticks=start_ticks_of(stranger.pid))
    eq(p.status("web")["state_name"], "Failed", "the state")
    p.call("stop", "web").expect(4, "ProcessNotRunning")
    p.start("web")
    p.stop("web")
    p.call("remove", "web", "--force").expect(0)
    assert ws.alive(stranger.pid), "a stranger was killed"


@test("in the same boot, a stranger that has got the pid is neither adopted nor ended")
def _(ws):
    p = Processes(ws)
    stranger = ws.spawn_command(["sleep", "1000"])
    p.run("web")
    for pid in [p.status("web")["pid"], p.status("web")["holder_pid"]]:
        send(pid)
        p.until_gone(pid)
    path = p.dir("web") / "status.json"
    record = json.loads(path.read_text())
    if record["exit"] is not None:  # the holder saw the child's end before its own: make it as if it had not
        record.update(exit=None, phase="running")
    record["child"]["pid"] = record["holder"]["pid"] = stranger.pid  # the start ticks are another process's
    path.write_text(json.dumps(record) + "\n")
    eq(p.status("web")["state_name"], "Failed", "the state")
    p.start("web")
    p.stop("web")
    assert ws.alive(stranger.pid), "a stranger was killed"


@test("a holder that is told to end (SIGTERM) ends its process in order, and it can be started again")
def _(ws):
    p = Processes(ws)
    first = p.run("web", SLEEP, "--restart", "always")
    send(first["holder_pid"], signal.SIGTERM)
    p.until_gone(first["pid"], first["holder_pid"])
    record = p.status("web")
    assert record["state_name"] in ("Stopped", "Failed"), record["state"]
    eq((record["raw_status"], record["last_exits"][-1]["by"]), ({"signal": "SIGTERM", "number": 15}, "signal"), "how it ended")
    eq(record["run"], 1, "the run: it was not restarted")
    p.nothing_runs()
    p.one_copy_runs("web", p.start("web"))


# -- starts that fail -------------------------------------------------------------------------------------------------------

def make_command(ws, name, content, mode):
    path = ws.path / name
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


def missing(ws):
    return (str(ws.path / "nothing"),), (), "No such file or directory"


def missing_in_path(ws):
    return ("no-such-command-anywhere",), (), "No such file or directory"


def no_permission(ws):
    return (make_command(ws, "plain", b"#!/bin/sh\n", 0o644),), (), "Permission denied"


def a_directory(ws):
    (ws.path / "folder").mkdir()
    return (str(ws.path / "folder"),), (), "Permission denied"


def no_program(ws):
    return (make_command(ws, "elf", b"\x7fELF\x02\x01\x01" + b"\0" * 57, 0o755),), (), "Exec format error"


def missing_interpreter(ws):
    return (make_command(ws, "script", b"#!/nonexistent/interpreter\n", 0o755),), (), "No such file or directory"


def bad_cwd(ws):
    return SLEEP, ("--cwd", str(ws.path / "nowhere")), "No such file or directory"


def cwd_is_a_file(ws):
    return SLEEP, ("--cwd", make_command(ws, "file", b"", 0o644)), "Not a directory"


FAILURES = {"a command that is missing": missing, "a command that is not in PATH": missing_in_path,
            "a file without the permission to execute": no_permission, "a directory": a_directory,
            "a file that is no program": no_program, "a script whose interpreter is missing": missing_interpreter,
            "a working directory that is missing": bad_cwd, "a working directory that is a file": cwd_is_a_file}

for _what, _make in FAILURES.items():
    @test(f"{_what} is ProcessStartFailed with the reason; the state is unchanged")
    def _(ws, make=_make):
        p = Processes(ws)
        command, options, reason = make(ws)
        p.create("web", command, *options)
        place = options[1] if options else command[0]
        for _ in range(2):
            error = p.call("start", "web").expect(7, "ProcessStartFailed").error
            assert error["message"].startswith("Failed to start process 'web': "), error["message"]
            assert reason in error["message"] and place in error["message"], f"{error['message']!r}: {reason!r}, {place!r}"
            record = p.status("web")
            eq((record["state"], record["run"], record["pid"]), ("NotStarted", 0, None), "state, run and pid")
            p.nothing_runs()
        p.call("update", "web", "--cwd", str(ws.path), "--", *SLEEP).expect(0)
        p.one_copy_runs("web", p.start("web"))


@test("a start that fails leaves a Stopped and a Failed process as they were")
def _(ws):
    p = Processes(ws)
    for id, command in (("good", ("true",)), ("bad", ("false",))):
        p.run(id, command)
        before = ended(p, id, "Stopped" if id == "good" else "Failed")
        p.call("update", id, "--", "/nonexistent/command").expect(0)
        p.call("start", id).expect(7, "ProcessStartFailed")
        after = p.status(id)
        eq((after["state"], after["run"]), (before["state"], before["run"]), "state and run")
        eq(len(after["last_exits"]), 1, "exits")


@test("a script without #! is started as a shell would")
def _(ws):
    p = Processes(ws)
    p.run("web", (make_command(ws, "plain", b"echo it runs; exec sleep 1000\n", 0o755),))
    log = pathlib.Path(p.dir("web") / "log" / "stdout.log")
    ws.until(lambda: log.read_text() == "it runs\n", "its output")


@test("create --start with a command that fails says so and registers nothing")
def _(ws):
    p = Processes(ws)
    error = p.call("create", "web", "--start", "--", "/nonexistent/command").expect(7, "ProcessStartFailed").error
    assert not any("proc status" in hint for hint in error["next"]), error["next"]
    p.call("status", "web").expect(5, "ProcessNotFound")
    p.call("create", "web", "--start", "--", *SLEEP).expect(0)
    p.call("create", "web", "--start", "--", *SLEEP).expect(4, "ProcessAlreadyExists")
    eq(p.status("web")["state_name"], "Running", "the one that was there")
    p.stop("web")


@test("a line where a program is asked for is called one, and a missing ./program names the directory")
def _(ws):
    p = Processes(ws)
    p.create("web", ("npm run dev",))
    error = p.call("start", "web").expect(7, "ProcessStartFailed").error
    assert "has blanks" in error["message"], error
    eq(error["next"][0], "tasuki proc update web -- npm run dev")
    (ws.path / "front").mkdir()
    error = ws.tasuki("--json", "proc", "create", "srv", "--start", "--", "./srv", cwd=ws.path / "front").expect(7).error
    assert f"(in {ws.path}/front)" in error["message"], error


@test("a process runs in the directory that it was created in, in its own git worktree, and others say so first")
def _(ws):
    p = Processes(ws)
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@t")
    ws.run([*git, "init", "-q"]).expect(0)
    ws.run([*git, "commit", "-q", "--allow-empty", "-m", "x"]).expect(0)
    tree = ws.base / "tree"
    ws.run([*git, "worktree", "add", "-q", str(tree), "-b", "other"]).expect(0)
    p.run("web")
    error = ws.tasuki("--json", "proc", "start", "web", cwd=tree).expect(4, "ProcessAlreadyRunning").error
    assert error["message"].startswith("Process 'web' belongs to another worktree"), error
    eq(error["context"]["worktree"], str(ws.path))
    lines = ws.tasuki("proc", "status", "web", cwd=tree).expect(0).out.splitlines()
    eq(lines[0], f"web is in another worktree: {ws.path}")
    eq(ws.tasuki("status", cwd=tree).expect(0).out.splitlines()[2], f"web is in another worktree: {ws.path}", "status")
    assert "another worktree" not in ws.tasuki("status").expect(0).out, "where it is"
    record = ws.tasuki("--json", "proc", "create", "api", "--start", "--", *SLEEP, cwd=tree).expect(0).json
    eq((record["cwd"], os.readlink(f"/proc/{record['pid']}/cwd"), record.get("other_worktree")), (str(tree), str(tree), None))
    eq(p.status("api")["other_worktree"], str(tree))
    ws.run([*git, "worktree", "remove", "--force", str(tree)]).expect(0)
    listing = ws.tasuki("proc", "list").expect(0).out
    assert f"api: its directory is gone: {tree}" in listing, listing
    for verb in ("stop", "remove"):  # it is never removed by force: what is alive is stopped first
        checks = ws.tasuki("--json", "doctor").json["checks"]
        finding = next(c for c in checks if "directory is gone" in json.dumps(c) and "api" in json.dumps(c))
        eq(finding["status"], "WARN")
        assert f"proc {verb} api" in json.dumps(finding) and "--force" not in json.dumps(finding), finding
        p.call(verb, "api").expect(0)
    p.call("stop", "--all").expect(0)


@test("a supervised process has no descriptor of tasuki but its output and the run lock, and default signals")
def _(ws):
    p = Processes(ws)
    pid = p.run("web")["pid"]
    targets = {int(fd): os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    eq(targets.pop(0), "/dev/null", "stdin")
    for fd, name in ((1, "stdout.log"), (2, "stderr.log")):
        eq(targets.pop(fd), str(p.dir("web") / "log" / name), f"descriptor {fd}")
    eq([t for t in targets.values() if not t.endswith("/run.1.lock")], [], "other descriptors")
    status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    for mask in ("SigBlk", "SigIgn"):
        eq(int(status[mask], 16), 0, f"{mask} of the process")


@test("remove refuses a running process with the commands that show and stop it, in that order")
def _(ws):
    ws.tasuki("proc", "create", "web", "--", "sleep", "1000").expect(0)
    ws.tasuki("proc", "start", "web").expect(0)
    error = ws.tasuki("proc", "remove", "web", "--json").expect(6, "NEEDS_CONFIRMATION").error
    eq(error["next"][:2], ["tasuki proc status web", "tasuki proc stop web"], "next")
    eq(ws.tasuki("proc", "status", "web", "--json").expect(0).json["state_name"], "Running", "it runs on")
    ws.tasuki("proc", "remove", "web", "--force").expect(0)


@test("remove --all looks at the machine's processes once, not once for each", slow=True)
def _(ws):
    calls = {}
    others = [ws.spawn_command(["sleep", "1000"]) for _ in range(200)]
    for count in (3, 9):
        for i in range(count):
            ws.tasuki("proc", "create", f"p{i}", "--", "true").expect(0)
        ws.tasuki("proc", "start", "--all", "--no-wait").expect(0)
        for i in range(count):
            ws.tasuki("proc", "wait", f"p{i}", "--for", "exit").expect(0)
        calls[count] = ws.fault("proc", "remove", "--all", "--json").expect(0).calls
    for other in others:
        other.kill()
        other.wait()
    each = (calls[9] - calls[3]) / 6
    assert each < 200, f"{each} calls for each further process, with 200 others on the machine"


@test("remove --all ends what the processes have left behind")
def _(ws):
    for i in range(3):
        ws.tasuki("proc", "create", f"p{i}", "--", "sh", "-c", "setsid sleep 1000 & echo $! > left.$0; exit 0", str(i)).expect(0)
    ws.tasuki("proc", "start", "--all", "--no-wait").expect(0)
    for i in range(3):
        ws.tasuki("proc", "wait", f"p{i}", "--for", "exit").expect(0)
    pids = [int((ws.path / f"left.{i}").read_text()) for i in range(3)]
    eq(ws.tasuki("proc", "remove", "--all", "--json").expect(0).json["removed"], ["p0", "p1", "p2"], "removed")
    eq([pid for pid in pids if ws.alive(pid)], [], "left behind")


@test("remove --all on a terminal asks once, and force is the yes; without a terminal nothing asks")
def _(ws):
    p = Processes(ws)
    for args, answers, code, left in ((["--all"], ["n"], 6, 2), (["--all"], ["y"], 0, 0), (["--all", "--force"], [], 0, 0)):
        for name in ("a", "b"):
            p.call("create", name, "--", "true").expect(0)
        result = ws.tty(["proc", "remove", *args], answers).expect(code)
        eq((result.out.count("[y/N]"), len(p.call("list").json["processes"])), (len(answers), left), " ".join(args))
        ws.tasuki("proc", "remove", "--all").expect(0)


@test("an error of one of several processes names it once")
def _(ws):
    ws.tasuki("proc", "create", "web", "--", "./absent").expect(0)
    ws.tasuki("proc", "create", "api", "--", "./absent").expect(0)
    lines = ws.tasuki("proc", "start", "--all").err.split("  next ")[0].splitlines()
    eq([line.count("web") + line.count("api") for line in lines], [1, 1], "names in a line")
    ws.tasuki("proc", "create", "run", "--start", "--", *SLEEP).expect(0)
    ws.at_close(lambda: ws.tasuki("proc", "stop", "--all"))
    result = ws.tasuki("proc", "remove", "run", "web")
    assert result.err.startswith("run: "), result


@test("a process whose holder was killed can be stopped without the holder program, with all that it started")
def _(ws):
    p = Processes(ws)
    place = ws.base / "bin"
    place.mkdir()
    shutil.copy(ws.binary, place / "tasuki")
    pids = ws.base / "pids"
    for trap in ("", "trap '' TERM; "):
        pids.unlink(missing_ok=True)
        p.script("web", f'{trap}sleep 1000 & echo $! $$ >"{pids}.new"; mv "{pids}.new" "{pids}"; while :; do sleep 0.1; done')
        p.start("web")
        ws.until_file(pids)
        p.kill_holder("web")
        ws.run([place / "tasuki", "proc", "stop", "web", "--grace", "200ms"]).expect(0)
        p.until_gone(*map(int, pids.read_text().split()))
        eq(p.status("web")["state_name"], "Stopped", "after the stop")
        p.call("remove", "web").expect(0)


@test("events -f and watch work when no inotify instance is left: they look once a second")
def _(ws):
    need_namespace(ws, "-Ur")
    for words, what in ((["events", "-f", "-n", "1", "--json"], '"lock.acquired"'), (["watch", "--json"], '"root"')):
        follower = ws.spawn_command(["unshare", "-Ur", "sh", "-c", 'echo 0 >/proc/sys/user/max_inotify_instances && exec "$@"', "-",
                                     str(ws.binary), *words])
        lines = []
        threading.Thread(target=lambda f=follower: lines.extend(iter(f.stdout.readline, "")), daemon=True).start()

        def is_shown():
            assert follower.poll() is None, follower.stderr.read()
            ws.tasuki("lock", "run", "news", "--", "true").expect(0)
            return any(what in line for line in lines)
        ws.until(is_shown, f"{words[0]} shows something")
        follower.kill()
        follower.wait()


@test("a command that runs inside the process that it stops does not stop itself, also when the holder is gone")
def _(ws):
    p = Processes(ws)
    for kills_holder in (False, True):
        record = p.run(f"p{kills_holder}")
        words = pathlib.Path(f"/proc/{record['pid']}/environ").read_bytes().decode().split("\0")
        inside = dict(word.split("=", 1) for word in words if word.startswith("TASUKI_"))
        assert "TASUKI_PROCESS_START" in inside, inside
        if kills_holder:
            os.kill(record["holder_pid"], signal.SIGKILL)
        for verb in ("status", "stop"):
            p.call(verb, record["id"], env=inside).expect(0)
        ws.until(lambda: not ws.alive(record["pid"]), "its end")


@test("start --all does not pass over a process that cannot start because its files were removed by hand")
def _(ws):
    p = Processes(ws)
    p.create("api")
    pid = p.start("api")["pid"]
    shutil.rmtree(ws.path / ".aiflow/processes/api")
    refused = p.call("start", "--all").json["errors"]
    eq([(one["id"], one["error"]["reason_code"]) for one in refused], [("api", "ProcessAlreadyRunning")], "what is in the way")
    assert "kill" in refused[0]["error"]["next"][0], refused
    send(pid, signal.SIGTERM)
    p.nothing_runs()


main(__name__)
