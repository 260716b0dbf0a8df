"""Kill anything: SIGKILL at random moments for the supervisor, its child, both, or the command that starts it, while
the child writes numbered lines. The same rounds for tasuki and its peers; the child keeps its own account (witness.c)."""
import collections
import dataclasses
import fcntl
import os
import random
import re
import signal
import struct
import subprocess
import time

from crash.subjects import SERVICE, SUBJECTS, CrashTasuki
from processes.supervisors import Service, available, wait_for
from report import Row

SEED = 3
SETTLE_SECONDS = 10  # a successor that does not run by then has not come
KINDS = {"child": "SIGKILL of the child", "exit": "the child exits by itself",
         "supervisor": "SIGKILL of the supervisor",
         "both": "SIGKILL of supervisor and child", "exit and supervisor": "the child exits, SIGKILL of the supervisor",
         "starter": "SIGKILL of the command that starts it"}
LINE = re.compile(rb"([0-9a-f]{16}) (\d{8})\n")


# ---- the child's accounts ----------------------------------------------------------------------------------

@dataclasses.dataclass
class Run:
    """One run of the child, as it noted it itself."""
    pid: int
    start_ns: int
    lines: int
    is_second: bool
    exit_code: int
    signal: int
    is_alive: bool

    def end(self):
        """How it ended, if the child knew: as a report."""
        return ("exit", self.exit_code) if self.exit_code >= 0 else ("signal", self.signal) if self.signal else None


def read_run(path):
    with open(path, "rb") as file:
        start_ns, lines, is_second, exit_code, number = struct.unpack("5q", file.read(40))
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            is_alive = False
        except BlockingIOError:
            is_alive = True
    if not is_alive:  # what it wrote last may have come after our look
        with open(path, "rb") as file:
            start_ns, lines, is_second, exit_code, number = struct.unpack("5q", file.read(40))
    return Run(int(path.name.split("-")[0]), start_ns, lines, bool(is_second), exit_code, number, is_alive)


class Witness:
    def __init__(self, directory):
        self.directory = directory
        self.ended = {}  # by file name: what has ended does not change any more
        (directory / "runs").mkdir(parents=True)

    def runs(self):
        found = []
        for path in (self.directory / "runs").iterdir():
            run = self.ended.get(path.name) or read_run(path)
            if not run.is_alive:
                self.ended[path.name] = run
            found.append(run)
        return sorted(found, key=lambda run: run.start_ns)

    def living(self):
        return [run for run in self.runs() if run.is_alive]


# ---- one supervisor, many rounds ---------------------------------------------------------------------------

class Trial:
    """A supervisor that goes through the rounds; `count` is what was seen."""

    def __init__(self, context, cls, plan):
        root = context.work / cls.__name__
        root.mkdir()
        self.witness = Witness(root / "witness")
        service = Service(SERVICE, [context.driver("bench-witness"), self.witness.directory], log=cls.log)
        self.subject = cls(context, root / "home", [service])
        self.context, self.plan, self.random = context, plan, random.Random(SEED)
        self.killed, self.put_away = set(), set()  # start_ns of the runs that we killed: as part of a round, after one
        self.judged = set()
        self.count = collections.Counter()
        self.stories = []

    def perform(self):
        begun = time.monotonic()
        try:
            self.subject.start()
            self.settle(0)
            self.start_seconds = self.time_start_command()
            for number, kind in enumerate(self.plan):
                self.round(number, kind)
        finally:
            self.subject.end()
            for run in self.witness.living():
                os.kill(run.pid, signal.SIGKILL)
        self.count["seconds"] = round(time.monotonic() - begun)
        self.count_lines()
        self.count["second copies"] = sum(run.is_second for run in self.witness.runs())
        self.count["losses announced"] = self.subject.announced_losses()
        self.count["runs"] = len(self.witness.runs())

    def time_start_command(self):
        self.subject.stop_service()
        begun = time.monotonic()
        subprocess.run([str(word) for word in self.subject.start_command()], stdout=subprocess.DEVNULL, check=True)
        took = time.monotonic() - begun
        self.settle(0)
        return took

    def round(self, number, kind):
        self.subject.reports()  # what came late belongs to an earlier round
        living = self.witness.living()
        before = len([run for run in self.witness.runs() if run.is_second])
        wait_for("line of the child", lambda: self.witness.living() and self.witness.living()[-1].lines > 0)
        time.sleep(self.random.random() * 0.15)
        event = time.monotonic_ns()
        getattr(self, "do_" + kind.replace(" ", "_"))()
        has_ended = kind in ("child", "exit", "both", "exit and supervisor")
        is_settled = self.settle(event if has_ended else 0)
        if not is_settled:
            self.count["restarts missing"] += 1
            self.restart_by_hand()
        self.judge_ends(kind, living)
        self.put_surplus_away()
        after = len([run for run in self.witness.runs() if run.is_second])
        if not is_settled or after > before:
            self.stories.append({"round": number, "kind": kind, "settled": is_settled, "second": after - before})

    # ---- what happens in a round

    def kill(self, run):
        if self.witness_still_alive(run):
            self.killed.add(run.start_ns)
            os.kill(run.pid, signal.SIGKILL)

    def witness_still_alive(self, run):
        return any(run.start_ns == other.start_ns for other in self.witness.living())

    def kill_supervisor(self):
        for pid in self.subject.victims(self.random):
            os.kill(pid, signal.SIGKILL)

    def do_child(self):
        self.kill(self.witness.living()[-1])

    def do_exit(self):
        os.kill(self.witness.living()[-1].pid, signal.SIGUSR1)

    def do_supervisor(self):
        self.kill_supervisor()
        time.sleep(self.random.random() * 0.05)
        self.subject.revive()

    def do_both(self):
        child = self.witness.living()[-1]
        acts = [self.kill_supervisor, lambda: self.kill(child)]
        self.random.shuffle(acts)
        acts[0]()
        time.sleep(self.random.random() * 0.002)
        acts[1]()
        self.subject.revive()

    def do_exit_and_supervisor(self):
        os.kill(self.witness.living()[-1].pid, signal.SIGUSR1)
        time.sleep(self.random.random() * 0.003)
        self.kill_supervisor()
        time.sleep(self.random.random() * 0.05)
        self.subject.revive()

    def do_starter(self):
        self.subject.stop_service()
        starter = subprocess.Popen([str(word) for word in self.subject.start_command()], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        time.sleep(self.random.random() * 1.2 * self.start_seconds)
        starter.kill()
        starter.wait()
        if not self.subject.running_pid():
            subprocess.run([str(word) for word in self.subject.start_command()], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=False)

    # ---- what is seen after it

    def settle(self, since_ns):
        """Whether the supervisor says that a copy runs, and the copy itself (begun after since_ns) says so too."""
        def is_settled():
            pid = self.subject.running_pid()
            return pid and any(run.pid == pid and run.start_ns > since_ns for run in self.witness.living())
        try:
            wait_for("successor", is_settled, seconds=SETTLE_SECONDS, pause=0.01)
        except RuntimeError:
            return False
        return True

    def restart_by_hand(self):
        done = subprocess.run([str(word) for word in self.subject.start_command()], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if not self.settle(0):
            raise RuntimeError(f"{self.subject.name} does not run again: {done.stdout}")

    def put_surplus_away(self):
        """Copies beside the one that the supervisor knows: counted, and ended, so that each round begins alike."""
        time.sleep(0.1)  # one that is being started
        known = self.subject.running_pid()
        surplus = [run for run in self.witness.living() if run.pid != known]
        for run in surplus:
            self.put_away.add(run.start_ns)
            os.kill(run.pid, signal.SIGKILL)
        if surplus:
            wait_for("end of surplus copies", lambda: len(self.witness.living()) <= 1)

    def judge_ends(self, kind, living):
        """Compares how the runs of this round ended with what the supervisor says of them, in any order."""
        reports = self.subject.reports()
        started_before = {run.start_ns for run in living}
        for run in self.witness.runs():
            if run.is_alive or run.start_ns in self.judged or run.start_ns in self.put_away:
                continue
            self.judged.add(run.start_ns)
            truth = run.end() or (("signal", int(signal.SIGKILL)) if run.start_ns in self.killed else None)
            if kind == "starter" or not truth:
                continue  # stopped on purpose
            if kind == "supervisor" and run.start_ns in started_before:
                self.count["children ended by it"] += 1
            self.count["ends"] += 1
            if truth in reports:
                reports.remove(truth)
                self.count["ends right"] += 1
            elif ("unknown",) in reports:
                reports.remove(("unknown",))
                self.count["ends unknown"] += 1
            elif reports:
                wrong = reports.pop(0)
                self.count["ends wrong"] += 1
                self.stories.append({"kind": kind, "truth": truth, "said": wrong})
            else:
                self.count["ends silent"] += 1

    def count_lines(self):
        found = collections.defaultdict(set)
        for path in self.subject.log_files(self.subject.services[0]):
            for run, number in LINE.findall(path.read_bytes()):
                found[int(run, 16)].add(int(number))
        for run in self.witness.runs():
            there = len([number for number in found[run.start_ns] if number <= run.lines])
            self.count["lines"] += run.lines
            self.count["lines lost"] += run.lines - there
            self.count["runs with a loss"] += there < run.lines


# ---- the table ---------------------------------------------------------------------------------------------

def rows_of(peer, ours, theirs):
    def row(work, text, value=None):
        target = {} if value is None else {"ratio": value(ours), "better": "at most", "limit": 0}
        return Row(work, text(ours), text(theirs), **target)
    return [
        row(f"second copies seen in {ours['rounds']} rounds: {peer}", lambda c: f"{c['second copies']}",
            lambda c: c["second copies"]),
        row("  lines lost", lambda c: f"{c['lines lost']} of {c['lines']}", lambda c: c["lines lost"]),
        row("  losses of output announced", lambda c: f"{c['losses announced']} in {c['runs with a loss']} runs"),
        row("  ends told wrongly, or not at all", lambda c: f"{c['ends wrong']} + {c['ends silent']} of {c['ends']}",
            lambda c: c["ends wrong"] + c["ends silent"]),
        row("  ends unknown, and said to be", lambda c: f"{c['ends unknown']} of {c['ends']}"),
        row("  children that died with their supervisor", lambda c: f"{c['children ended by it']}",
            lambda c: c["children ended by it"]),
        row("  restarts that did not happen", lambda c: f"{c['restarts missing']}", lambda c: c["restarts missing"]),
    ]


def measure(context):
    rounds = 12 if context.quick else 48
    plan = (list(KINDS) * rounds)[:rounds]
    random.Random(SEED).shuffle(plan)
    raw, counts = {"seed": SEED, "kinds": KINDS, "plan": plan}, {}
    for cls in available(context, *SUBJECTS):
        context.say(f"crash: {cls.name}, {rounds} rounds")
        trial = Trial(context, cls, plan)
        trial.perform()
        trial.count["rounds"] = rounds
        counts[cls.name] = trial.count
        raw[cls.name] = {"count": dict(trial.count), "stories": trial.stories}
    ours = counts.pop(CrashTasuki.name)
    return [row for name, theirs in counts.items() for row in rows_of(name, ours, theirs)], raw
