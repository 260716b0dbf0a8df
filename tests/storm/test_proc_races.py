"""Many want the same process to start, stop, change or go at the same instant: one copy runs, and the record is true."""

import json
import os
import random
import signal
import subprocess
import time

from harness.harness import eq, main, test
from harness.processes import Processes, descendants_of, environment_of, name_of
from harness.race import race
from storm.lives import Lives, doubles

STARTERS, REPETITIONS = 50, 6
STORM_S = 20
IDS = ("a", "b", "c", "d", "e")


def child(ws, id):
    """The command line of a process that is its own witness."""
    return str(ws.build / "tests" / "storm" / "storm-proc-child"), str(ws.base), id, "20000"


def reason(out):
    return json.loads(out)["error"]["reason_code"]


@test(f"{STARTERS} simultaneous starts: one success, {STARTERS - 1} ProcessAlreadyRunning, one copy", quick=False)
def _(ws):
    p = Processes(ws)
    lives = Lives(ws.base, "web")
    ws.at_close(lives.close)
    p.create("web", child(ws, "web"))
    for number in range(1, REPETITIONS + 1):
        answers = race(ws, [[ws.binary, "--json", "proc", "start", "web", "--no-wait"]] * STARTERS)
        codes = [code for code, _ in answers]
        eq(sorted(codes), [0] + [4] * (STARTERS - 1), f"repetition {number}: the exit codes")
        eq({reason(out) for code, out in answers if code == 4}, {"ProcessAlreadyRunning"}, "the refusals")
        won = json.loads(next(out for code, out in answers if code == 0))
        ws.until(lambda: lives.has(won["pid"]), "it is born")
        record = p.status("web")
        p.one_copy_runs("web", record)
        eq((record["pid"], record["run"], lives.born), (won["pid"], number, number), "pid, run, lives")
        eq((doubles(ws.base), len(p.holders()["web"])), ([], 1), "second copies, and holders")
        if number % 2:
            p.stop("web")
        else:
            p.kill_everything()  # the next race begins with records of the dead
    p.call("stop", "web")
    p.nothing_runs()


@test("simultaneous start and stop: the last word on disk is what is true", quick=False)
def _(ws):
    p = Processes(ws)
    lives = Lives(ws.base, "web")
    ws.at_close(lives.close)
    p.create("web", child(ws, "web"))
    for number in range(25):
        commands = [[ws.binary, "--json", "proc", verb, "web", *(["--no-wait"] if verb != "stop" else [])]
                    for verb in ("start", "stop", "start", "stop", "restart")]
        codes = [code for code, _ in race(ws, commands)]
        assert set(codes) <= {0, 4}, f"round {number}: {codes}"
        record = p.status("web")
        if record["state_name"] == "Running":
            ws.until(lambda: lives.has(record["pid"]), "it is born")
            p.one_copy_runs("web", record)
        else:
            ws.until(lambda: not lives.somebody_lives(), "nothing runs")
    eq(doubles(ws.base), [], "second copies")
    p.call("stop", "web")
    p.nothing_runs()


@test("simultaneous creates of one id: one success, the others ProcessAlreadyExists", quick=False)
def _(ws):
    p = Processes(ws)
    for number in range(5):
        answers = race(ws, [[ws.binary, "--json", "proc", "create", f"web-{number}", "--", "sleep", str(i)] for i in range(20)])
        eq(sorted(code for code, _ in answers), [0] + [4] * 19, "the exit codes")
        eq({reason(out) for code, out in answers if code == 4}, {"ProcessAlreadyExists"}, "the refusals")
        winner = [code for code, _ in answers].index(0)
        eq(p.status(f"web-{number}")["args"], [str(winner)], "the registered arguments")
    eq(len([e for e in ws.events("process.created")]), 5, "process.created events")


@test("simultaneous updates with the same expected_updated_at: one is accepted, the others are CONFLICT", quick=False)
def _(ws):
    p = Processes(ws)
    seen = p.create("web")["updated_at"]
    answers = race(ws, [[ws.binary, "--json", "proc", "update", "web", "--expected-updated-at", seen, "--", "sleep", str(i)]
                        for i in range(10)])
    eq(sorted(code for code, _ in answers), [0] + [4] * 9, "the exit codes")
    eq(p.status("web")["args"], [str([code for code, _ in answers].index(0))], "the registered arguments")


# -- the storm ------------------------------------------------------------------------------------------------------------

ALLOWED = {  # which exit codes each verb may have when anybody does anything at any time
    "create": {0, 4}, "start": {0, 4, 5}, "stop": {0, 4, 5}, "restart": {0, 4, 5}, "remove": {0, 5}, "update": {0, 5},
    "status": {0, 5}, "list": {0}, "restore": {0, 4, 5},
}


def command_of(ws, draw):
    id = draw.choice(IDS)
    verb = draw.choices(list(ALLOWED), [4, 6, 4, 2, 2, 2, 2, 1, 1])[0]
    words = {"start": ["proc", "start", id, "--no-wait"], "restart": ["proc", "restart", id, "--no-wait"],
             "create": ["proc", "create", id, "--restart", draw.choice(["no", "always"]), "--auto-start", "--", *child(ws, id)],
             "remove": ["proc", "remove", id, "--force"], "list": ["proc", "list"], "restore": ["restore"],
             "update": ["proc", "update", id, "--restart", draw.choice(["no", "on-failure", "always"])]}
    return verb, [ws.binary, "--json", *words.get(verb, ["proc", verb, id])]


def contend(ws, seed, end, log):
    """A process that does one thing after the other; writes a line for every answer that is not allowed."""
    draw = random.Random(seed)
    while time.monotonic() < end:
        verb, argv = command_of(ws, draw)
        done = subprocess.run([str(a) for a in argv], cwd=ws.path, env=ws.env(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        os.write(log, f"{verb} {done.returncode}\n".encode())
        if done.returncode not in ALLOWED[verb]:
            os.write(log, f"WRONG {verb}: exit {done.returncode}: {done.stdout.decode(errors='replace')!r}\n".encode())


def rage(ws, seed, contenders, seconds):
    log = os.open(ws.base / "answers", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    end = time.monotonic() + seconds
    pids = []
    for index in range(contenders):
        pid = os.fork()
        if pid == 0:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0)
                contend(ws, f"{seed} {index}", end, log)
            finally:
                os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    os.close(log)
    return (ws.base / "answers").read_text().splitlines()


def what_runs():
    """{id: [pids]} of the processes below this test that were started for an id; their holders are not counted."""
    processes = {}
    for pid in descendants_of(os.getpid()):
        id = environment_of(pid).get("TASUKI_PROCESS_ID")
        if id and name_of(pid) == "storm-proc-chil":
            processes.setdefault(id, []).append(pid)
    return processes


@test(f"{STORM_S} s of create, start, stop, restart, update, remove and restore leave a record of what runs", quick=False)
def _(ws):
    seed = int(os.environ.get("TASUKI_SEED") or random.SystemRandom().randrange(1 << 30))
    p = Processes(ws)
    lives = [Lives(ws.base, id) for id in IDS]
    for one in lives:
        ws.at_close(one.close)
    answers = rage(ws, seed, contenders=6, seconds=float(os.environ.get("TASUKI_STORM_S", STORM_S)))
    for lap in range(9):  # on a slow machine not every verb has had its turn
        if {f"{verb} 0" for verb in ALLOWED} <= set(answers):
            break
        answers = rage(ws, f"{seed} {lap}", contenders=6, seconds=5)
    wrong = [line for line in answers if line.startswith("WRONG")]
    assert not wrong, f"TASUKI_SEED={seed}: {len(wrong)} of {len(answers)} answers\n" + "\n".join(wrong[:5])
    for verb in ALLOWED:
        assert f"{verb} 0" in answers, f"{verb} never succeeded among {len(answers)} answers"
    eq(doubles(ws.base), [], f"TASUKI_SEED={seed}: second copies")

    def is_true():
        registered, running = p.list(), what_runs()
        expected = {id: [one["pid"]] for id, one in registered.items() if one["state_name"] == "Running"}
        holders = {id: [one["holder_pid"]] for id, one in registered.items() if one["holder_pid"]}
        said[:] = [f"registered {expected}, running {running}, holders {p.holders()}, in charge {holders}"]
        return expected == running and p.holders() == holders
    said = []
    try:
        ws.until(is_true, "")  # a policy may be about to restart somebody
    except AssertionError:
        raise AssertionError(f"TASUKI_SEED={seed}: the record is not what runs: {said[0]}") from None
    folders = {name for name in os.listdir(p.folder) if not name.startswith(".")}
    assert folders <= set(p.list()), f"folders without a record: {folders - set(p.list())}"
    ws.tasuki("--json", "events").expect(0)
    p.call("stop", "--all")
    p.nothing_runs()
    p.call("remove", "--all", "--force")
    eq((p.list(), [name for name in os.listdir(p.folder) if not name.startswith(".")]), ({}, []), "what is left")


main(__name__)
