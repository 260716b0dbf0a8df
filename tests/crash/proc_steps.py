"""One operation on a process, broken at its n-th file-system call, for every n: the operations, and what must hold afterwards.

  I1  there is never a second copy (the process is its own witness: storm/proc_child.c)
  I2  the record is true: Running if and only if it runs, with its pid
  I3  the same command, unbroken, does its work or says that it is done already; nobody has to clean up
  I4  after a forced remove nothing is left: no process, no holder, no directory, no private file
  I5  the event trail can be read
"""

import json
import os
import signal
import subprocess

from harness.harness import eq
from harness.processes import Processes
from storm.lives import Lives, doubles

ID = "web"
STEPS_EACH = 130  # every one of the first calls is tried, then some of those that follow
STEPS_MAX = 50000  # more file-system calls than this in one operation is a bug of its own; a look at all processes takes some 20 for each


class Impatient(Processes):
    """A command that does not come back in time is one that hangs."""

    def call(self, *words, **options):
        return super().call(*words, **{"timeout": 60, **options})


class Bench:
    """A workspace in which one process is broken again and again."""

    def __init__(self, ws):
        self.ws = ws
        self.p = Impatient(ws)
        self.lives = Lives(ws.base, ID)
        ws.at_close(self.lives.close)
        self.command = (str(ws.build / "tests" / "storm" / "storm-proc-child"), str(ws.base), ID, "1000000")
        # What makes `.aiflow/processes` and the database is not to be counted at every operation.
        self.p.create("first")
        self.p.call("remove", "first").expect(0)
        self.before = self.files()

    # -- preparing ---------------------------------------------------------------------------------------------

    def create(self):
        self.p.create(ID, self.command)

    def run(self):
        self.create()
        return self.p.start(ID)

    def orphan(self):
        """Running, and its holder is dead."""
        record = self.run()
        self.p.kill_holder(ID)
        return record

    # -- looking -----------------------------------------------------------------------------------------------

    def record(self):
        """The unbroken program's word on the process; None: it is not registered."""
        result = self.p.call("status", ID)
        if result.code == 5:
            return None
        return result.expect(0).json

    def is_running(self):
        return self.lives.somebody_lives()

    def files(self):
        return sorted(os.listdir(self.p.folder))

    def check_truth(self):
        """I1, I2. A broken stop may still be under way: the record has some time to become true."""
        eq(doubles(self.ws.base), [], "I1: second copies")
        seen = []

        def is_true():
            record = self.record()
            seen[:] = [record]
            if record is None or record["state_name"] != "Running":
                return not self.is_running()
            return self.is_running() and self.lives.has(record["pid"]) and self.ws.alive(record["pid"])

        try:
            self.ws.until(is_true, "")
        except AssertionError:
            raise AssertionError(f"I2: the record is {seen[0]}; it runs: {self.is_running()}") from None
        return seen[0]

    def check_sweep(self):
        """I4."""
        result = self.p.call("remove", ID, "--force")
        assert result.code in (0, 5), f"I4: {result}"
        self.p.nothing_runs()
        eq(self.files(), self.before, "I4: what is left in processes/")

    def start_anew(self):
        """After a command that hung, or did not sweep: the rest is done from outside."""
        self.p.kill_everything()
        result = self.p.call("remove", ID, "--force")
        assert result.code in (0, 5), result

    def check_trail(self):
        self.ws.tasuki("--json", "events").expect(0)


# -- the operations. Each prepares, and returns (command, judge, repeat) ----------------------------------------------
#
# judge(result): the command was not killed; its answer must be true. repeat(): I3, with the unbroken program.


def accept(result, *refusals):
    """Success, or one of these reason codes."""
    if result.code != 0:
        assert "error" in result.json and result.error["reason_code"] in refusals, f"I3: {result}"


def create(bench):
    words = ["create", ID, "--env", "A=1", "--restart", "always", "--", *bench.command]

    def is_complete(record):
        return (record["args"], record["env"], record["restart"], record["state"]) == (
            list(bench.command[1:]), {"A": "1"}, "always", "NotStarted")

    def judge(result):
        record = bench.record()
        eq(record is not None, result.code == 0, f"whether it is registered after exit {result.code}")
        assert record is None or is_complete(record), record

    def repeat():
        record = bench.record()
        assert record is None or is_complete(record), record
        accept(bench.p.call(*words), "ProcessAlreadyExists")
        bench.p.start(ID)

    return words, judge, repeat


def start(bench):
    bench.create()

    def judge(result):
        eq(bench.check_truth()["state_name"] == "Running", result.code == 0, f"whether it runs after exit {result.code}")

    def repeat():
        accept(bench.p.call("start", ID, "--no-wait"), "ProcessAlreadyRunning")
        bench.ws.until(lambda: bench.lives.has(bench.record()["pid"]), "I3: it runs")

    return ["start", ID, "--no-wait"], judge, repeat


def start_running(bench):
    """Whatever fails, what runs is not taken for dead."""
    pid = bench.run()["pid"]
    bench.ws.until(lambda: bench.lives.has(pid), "it runs")

    def judge(result):
        assert result.code != 0, f"a running process was started: {result}"

    def repeat():
        accept(bench.p.call("start", ID, "--no-wait"), "ProcessAlreadyRunning")
        eq(bench.record()["pid"], pid, "I3: the pid of what has been running all the time")

    return ["start", ID, "--no-wait"], judge, repeat


def look(bench):
    """The holder is dead, the process lives: the next command makes a new holder, or fails; it is not declared lost."""
    pid = bench.orphan()["pid"]
    bench.ws.until(lambda: bench.lives.has(pid), "it runs")

    def judge(result):
        if result.code == 0:
            eq((result.json["state_name"], result.json["pid"]), ("Running", pid), "what it saw")

    def repeat():
        record = bench.record()
        eq((record["state_name"], record["pid"]), ("Running", pid), "I3: what is seen")
        eq(len(bench.p.holders().get(ID, [])), 1, "I3: how many are in charge")

    return ["status", ID], judge, repeat


def stop(bench):
    pid = bench.run()["pid"]
    bench.ws.until(lambda: bench.lives.has(pid), "it runs")

    def judge(result):
        if result.code == 0:
            assert not bench.is_running(), "stop has returned, and it runs"
            eq(bench.record()["state_name"], "Stopped", "the state after stop")

    def repeat():
        accept(bench.p.call("stop", ID), "ProcessNotRunning")
        assert not bench.is_running(), "I3: it runs"
        eq(bench.record()["state"]["Stopped"]["exit_code"], 0, "I3: the exit code")

    return ["stop", ID], judge, repeat


def remove(bench):
    """With force, of a running process: the longest way."""
    pid = bench.run()["pid"]
    bench.ws.until(lambda: bench.lives.has(pid), "it runs")

    def judge(result):
        if result.code == 0:
            eq((bench.record(), bench.is_running(), bench.files()), (None, False, bench.before), "record, process, files")

    def repeat():
        accept(bench.p.call("remove", ID, "--force"), "ProcessNotFound")
        eq((bench.record(), bench.is_running()), (None, False), "I3: record and process")
        bench.run()  # nothing of the old one is in the way
        eq(bench.record()["run"], 1, "I3: the run of the new one")

    return ["remove", ID, "--force"], judge, repeat


def update(bench):
    bench.create()
    old = {"A": None, "restart": "no", "args": list(bench.command[1:])}
    new = {"A": "2", "restart": "always", "args": ["2000"]}

    def shown():
        record = bench.record()
        return {"A": record["env"].get("A"), "restart": record["restart"], "args": record["args"]}

    words = ["update", ID, "--env", "A=2", "--restart", "always", "--", "sleep", "2000"]

    def judge(result):
        eq(shown(), new if result.code == 0 else old, f"the record after exit {result.code}")

    def repeat():
        assert shown() in (old, new), f"I3: half an update: {shown()}"
        bench.p.call(*words).expect(0)
        eq(shown(), new, "I3: the record")

    return words, judge, repeat


def import_file(bench):
    ids = ("im-1", "im-2", "im-3")
    for id in ids:
        bench.p.call("remove", id)
    document = {"version": 1, "processes": {id: {"command": "sleep", "args": ["1000"], "env": {"N": id}} for id in ids}}
    (bench.ws.path / "import.json").write_text(json.dumps(document))

    def found():
        return {id: (one["command"], one["args"], one["env"]) for id, one in bench.p.list().items() if id in ids}

    complete = {id: ("sleep", ["1000"], {"N": id}) for id in ids}

    def judge(result):
        eq(found(), complete if result.code == 0 else {}, f"what is registered after exit {result.code}")

    def repeat():
        assert found() in ({}, complete), f"I3: half an import: {found()}"
        bench.p.call("import", "import.json", "--replace").expect(0)
        eq(found(), complete, "I3: what is registered")
        bench.p.call("remove", *ids).expect(0)

    return ["import", "import.json"], judge, repeat


def steps():
    """1, 2, … and then, where an operation is likely to be waiting for somebody, in strides."""
    n = 1
    while n < STEPS_MAX:
        yield n
        n += 1 if n < STEPS_EACH else n // 8


def for_every_step(bench, operation, mode, judge_code):
    """Runs the operation with the fault at call 1, 2, … until it makes fewer calls than that. Returns how many. All
    steps are tried, also after one went wrong: a fault path that is missing is seldom alone."""
    problems = []
    for n in steps():
        words, judge, repeat = operation(bench)
        result = bench.ws.fault("--json", "proc", *words, at=n, mode=mode)
        is_over = result.calls is not None and result.calls < n
        for check in (lambda: check_answer(result, is_over, mode, judge_code, judge), bench.check_truth, repeat,
                      bench.check_truth, bench.check_sweep):
            try:
                check()
            except (AssertionError, subprocess.TimeoutExpired) as error:
                problems.append(f"{mode} at call {n}: {error}")
                if check == bench.check_sweep or isinstance(error, subprocess.TimeoutExpired):
                    bench.start_anew()
                    break
        if is_over:
            bench.check_trail()
            break
        assert len(problems) < 20, "\n".join(problems)
    assert not problems, f"{len(problems)} things went wrong\n" + "\n".join(problems)
    assert is_over, f"more than {STEPS_MAX} file-system calls"
    return n - 1


def check_answer(result, is_over, mode, judge_code, judge):
    if result.code == -signal.SIGKILL:
        assert mode.startswith("kill"), f"it was killed\n{result}"
        return
    judge_code(result, is_over)
    judge(result)
