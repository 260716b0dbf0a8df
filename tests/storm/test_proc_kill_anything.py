"""Kill anything: holder, process, the command that starts, stops or looks, or several of them get SIGKILL at random
moments, while the process writes numbered lines.

What must hold: no second copy ever runs, no line is missing, every exit code is right or declared unknown (and that only
when a holder was killed during that run), the restart policy works afterwards, and a stop leaves nothing.

The process is its own witness (proc_child.c). Each target has a thread of its own and its own random numbers;
TASUKI_SEED=n repeats them, TASUKI_STORM_ROUNDS=n sets how many rounds there are in all.
"""

import collections
import concurrent.futures
import os
import pathlib
import random
import signal
import subprocess
import threading
import time

from harness.harness import children_of, eq, main, test
from harness.processes import Processes, command_line_of, descendants_of, name_of, send, state_of
from storm.lives import Lives, doubles

ROUNDS, ROUNDS_LONG = 2000, 20000
QUICK_RESTART = ("--backoff", "1ms", "--backoff-max", "5ms", "--healthy-after", "1ms")
# id, log mode, restart policy. Pipe and stamped lose nothing when the holder dies; when both die, what was in the pipe is
# gone and said so, which is why those two are only hit where nothing may be missing.
TARGETS = (("direct-no-1", "direct", "no"), ("direct-no-2", "direct", "no"), ("direct-always-1", "direct", "always"),
           ("direct-always-2", "direct", "always"), ("pipe", "pipe", "no"), ("stamped", "stamped", "no"))
SLACK_MS = 50  # between our clock at a kill and the holder's at the fact


def wall_ms():
    return time.time_ns() // 1000000


class Target:
    """One supervised process, and everything that was done to it."""

    def __init__(self, storm, id, log, policy, seed):
        self.storm, self.ws, self.p = storm, storm.ws, storm.p
        self.id, self.log, self.policy = id, log, policy
        self.draw = random.Random(f"{seed} {id}")
        self.lives = Lives(storm.dir, id)
        self.killed = set()  # pids of lives that got SIGKILL from us
        self.holder_kills = []  # wall ms
        self.kills_before = {}  # run -> how many holders had been killed when it was begun, at the latest
        self.kills_at_begin = 0  # of the round
        self.stops = []  # (from, to) wall ms
        self.facts = {}  # n -> {"started": fact, "ended": fact}
        self.kinds = collections.Counter()

    def create(self):
        self.p.create(self.id, (str(self.storm.child), str(self.storm.dir), self.id, "400"), "--log", self.log, "--restart",
                      self.policy, *QUICK_RESTART)

    # -- a round ---------------------------------------------------------------------------------------------

    def play(self, rounds):
        kind = self.settle
        for number in range(rounds):
            if self.storm.is_lost.is_set():
                return
            try:
                record = self.settle()
                kind = self.choose(record)
                self.kinds[kind.__name__] += 1
                self.kills_at_begin = len(self.holder_kills)
                kind(record)
                self.note_facts()
            except Exception as error:
                self.storm.is_lost.set()
                raise AssertionError(f"{self.id}, round {number}, {kind.__name__}: {error!r}") from error

    def choose(self, record):
        if record["state_name"] != "Running":
            return self.draw.choice([self.hit_start, self.hit_start, self.start]) if self.log == "direct" else self.start
        if self.log != "direct":
            return self.draw.choices([self.hit_holder, self.hit_look, self.stop], [5, 4, 1])[0]
        return self.draw.choices([self.hit_holder, self.hit_child, self.hit_both, self.hit_exit, self.hit_look, self.hit_stop],
                                 [3, 3, 3, 2, 3, 3])[0]

    def hit_holder(self, record):
        self.pause(0.004)
        self.kill_holder(record)
        after = self.status()
        eq((after["state_name"], after["pid"], after["run"]), ("Running", record["pid"], record["run"]),
           "state, pid and run after the holder's death")

    def hit_child(self, record):
        self.pause(0.004)
        self.kill_child(record["pid"])
        self.await_end(record, 137)

    def hit_exit(self, record):
        """It ends by itself, and perhaps its holder is killed at that moment."""
        code = self.draw.choice([0, 3, 255])
        self.lives.order(code)
        if self.draw.random() < 0.5:
            self.pause(0.004)
            self.kill_holder(record)
        self.await_end(record, code)
        self.lives.cancel_order()

    def hit_both(self, record):
        first, second = self.draw.sample([lambda: self.kill_child(record["pid"]), lambda: self.kill_holder(record)], 2)
        self.pause(0.004)
        first()
        self.pause(0.001)
        second()
        self.await_end(record, 137)

    def hit_look(self, record):
        """The holder dies, and so does the process that is about to replace it."""
        self.kill_holder(record)
        for _ in range(self.draw.randint(1, 3)):
            words = self.draw.choice([["status", self.id], ["list"], ["start", self.id, "--no-wait"], ["logs", self.id]])
            self.run_and_kill(words, whole_chance=0.3)
        after = self.status()
        eq((after["state_name"], after["pid"]), ("Running", record["pid"]), "state and pid after the deaths of those who looked")

    def hit_stop(self, record):
        """A stop in which stopper, holder or process is killed; the next stop completes it."""
        began = wall_ms()
        stopper = self.spawn(["stop", self.id, "--grace", "2000"])
        self.stops.append((began, float("inf")))
        for role in self.draw.sample(["stopper", "holder", "child"], self.draw.randint(1, 2)):
            self.pause(self.storm.start_s)
            if role == "stopper":
                send(stopper.pid)
            elif role == "holder":
                self.kill_holder(record)
            else:
                self.kill_child(record["pid"])
        code = stopper.wait(60)
        assert code in (0, 4, -9), f"proc stop ended with {code}"
        # "it does not run": the process was killed before anybody wanted it down. A policy may bring it back.
        if code == 4 or code == -9:
            again = self.p.call("stop", self.id)
            assert again.code in (0, 4), again
        self.stops[-1] = (began, wall_ms())
        if self.p.want(self.id) == "down":
            self.nothing_is_left()
            eq(self.status()["state_name"] in ("Stopped", "Failed"), True, "whether it is down after stop")

    def stop(self, record):
        began = wall_ms()
        self.p.stop(self.id)
        self.stops.append((began, wall_ms()))
        self.nothing_is_left()

    def start(self, record):
        born = self.lives.born
        record = self.p.start(self.id)
        self.ws.until(lambda: self.lives.has(record["pid"]), f"{self.id} is born as {record['pid']}")
        if self.policy == "no":
            eq(self.lives.born, born + 1, "lives after one start")

    def hit_start(self, record):
        self.run_and_kill(["start", self.id, "--no-wait"], whole_chance=0.2, below=True)

    # -- hitting ---------------------------------------------------------------------------------------------

    def pause(self, most_s):
        time.sleep(self.draw.uniform(0, most_s))

    def kill_child(self, pid):
        self.killed.add(pid)
        send(pid)

    def kill_holder(self, record):
        self.kill_holder_pid(record["holder_pid"])

    def kill_holder_pid(self, pid):
        self.holder_kills.append(wall_ms())
        send(pid)
        self.ws.until(lambda: state_of(pid) in "ZX", f"holder {pid} dies")
        self.holder_kills.append(wall_ms())

    def spawn(self, words):
        return subprocess.Popen([str(self.ws.binary), "--json", "proc", *words], cwd=self.ws.path, env=self.ws.env(),
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                start_new_session=True)

    def run_and_kill(self, words, whole_chance, below=False):
        """Runs a command and kills it at a random moment, or lets it end (`whole_chance`). `below`: the holder that it has
        started and the process that this one has started are victims as well."""
        command = self.spawn(words)
        if self.draw.random() >= whole_chance:
            self.pause(self.storm.start_s * 1.2)
            roles = ["command"] if not below else self.draw.choice(
                [["command"], ["command"], ["holder"], ["child"], ["command", "holder"], ["holder", "command"],
                 ["command", "holder", "child"], ["child", "holder"]])
            holders = [pid for pid in children(command.pid) if name_of(pid) == "tasuki-hold"]
            grandchildren = [pid for holder in holders for pid in children(holder)]
            for role in roles:
                for pid in {"command": [command.pid], "holder": holders, "child": grandchildren}[role]:
                    if role == "holder":
                        self.kill_holder_pid(pid)
                    elif role == "child":
                        self.kill_child(pid)
                    else:
                        send(pid)
        code = command.wait(60)
        assert code in (0, 4, 7, 3, -9) if below else code in (0, 4, -9), f"proc {words} ended with {code}"

    # -- judging ---------------------------------------------------------------------------------------------

    def status(self):
        return self.p.status(self.id)

    def settle(self):
        """Waits until the record says what the kernel says, and somebody is in charge of what runs; returns it."""
        seen, kills = [], self.kills_at_begin

        def is_true():
            record = self.status()
            seen[:] = [record]
            if record["state_name"] == "Running":
                return self.lives.has(record["pid"]) and self.ws.alive(record["pid"]) and self.ws.alive(record["holder_pid"] or 0)
            return not record["holder_pid"] and not self.lives.somebody_lives()

        try:
            self.ws.until(is_true, "")
        except AssertionError:
            raise AssertionError(f"the record is not what runs: {seen[0]}; lives: {self.lives.all()[-2:]}, witness held: "
                                 f"{self.lives.somebody_lives()}; below us: {self.storm.tree()}") from None
        self.note_facts()
        self.kills_before.setdefault(seen[0]["run"], kills)
        return seen[0]

    def has_its_parent(self, run):
        """Whether the run has the holder that started it: only that one learns from the kernel how it ended."""
        return self.kills_before.get(run, -1) == len(self.holder_kills)

    def await_end(self, before, code):
        """The run of record `before` has ended, with that code where it can be known, and the policy did its work."""
        self.p.until_gone(before["pid"])
        holder_lives = self.ws.alive(before["holder_pid"])
        if self.policy == "always" and holder_lives:
            self.ws.until(lambda: self.lives.born and self.lives.all()[-1].pid not in (0, before["pid"]), "it is restarted")
        try:
            exits = self.ws.until(lambda: [e for e in self.status()["last_exits"] if e["run"] == before["run"]], "")
        except AssertionError:
            raise AssertionError(f"run {before['run']} has no exit: {self.status()}; {self.p.history(self.id)[-4:]}; "
                                 f"{self.p.status_file(self.id)}; below us: {self.storm.tree()}") from None
        if self.has_its_parent(before["run"]):
            eq(exits[0]["exit_code"], code, f"the exit code of run {before['run']}, whose holder has lived: {exits[0]}")

    def nothing_is_left(self):
        """Nobody with this id lives: neither the process nor a holder."""
        assert not self.lives.somebody_lives(), f"{self.id} lives after stop"
        self.ws.until(lambda: not [pid for pid, id in self.storm.holders() if id == self.id], f"the holder of {self.id} ends")

    def note_facts(self):
        for fact in self.p.history(self.id):
            if fact["what"] in ("started", "adopted"):
                self.facts.setdefault(fact["n"], {}).setdefault("started", fact)
            elif fact["what"] in ("exited", "lost"):
                earlier = self.facts.setdefault(fact["n"], {}).setdefault("ended", fact)
                assert fact == earlier, f"the end of run {fact['n']} of {self.id} is reported twice: {self.p.history(self.id)[-8:]}"

    def check_exits(self):
        """Every end on record is one that happened."""
        lives = {life.pid: life for life in self.lives.all()}
        known = unknown = 0
        for n, run in sorted(self.facts.items()):
            started, ended = run.get("started"), run.get("ended")
            if not started or not ended:
                continue
            status = ended.get("status", -1) if ended["what"] == "exited" else -1
            if status == -1:
                unknown += 1
                assert self.holder_died_between(started["time"], ended["time"]), \
                    f"{self.id} run {n}: declared unknown although its holder was never killed: {run}"
            else:
                known += 1
                allowed = self.allowed(lives.get(started["pid"]), started, ended)
                assert status in allowed, f"{self.id} run {n}: status {status}, possible are {allowed}: {run}"
        return known, unknown

    def allowed(self, life, started, ended):
        """The wait statuses with which this life can have ended."""
        found = {signal.SIGKILL} if started["pid"] in self.killed else set()
        if life and life.leaving:
            found.add((life.leaving - 1) << 8)
        if any(begin - SLACK_MS <= ended["time"] <= end + SLACK_MS for begin, end in self.stops):
            found |= {signal.SIGKILL, signal.SIGTERM}
        return {int(status) for status in found}

    def holder_died_between(self, begin, end):
        """Each death is somewhere between two times, which a slow machine may put far apart."""
        deaths = zip(self.holder_kills[::2], self.holder_kills[1::2])
        return any(first - SLACK_MS <= end and begin <= last + SLACK_MS for first, last in deaths)

    def check_log(self):
        """A holder of the mode stamped that dies between writing a line and consuming it leaves it to its successor to write it
        again: there a line may come twice."""
        is_stamped = self.log == "stamped"
        log = self.p.dir(self.id) / "log" / ("output.log" if is_stamped else "stdout.log")
        problems = self.lives.missing_lines(log.read_bytes(), may_repeat=is_stamped)
        assert not problems, f"{self.id}: {len(problems)} of {self.lives.born} lives\n" + "\n".join(problems[:5])

    def check_policy_works(self):
        """After all that: a process that is killed comes back, if that is its policy, and does not if it is not."""
        record = self.settle()
        if record["state_name"] != "Running":
            self.start(record)
            record = self.settle()
        born = self.lives.born
        self.kill_child(record["pid"])
        if self.policy == "always":
            self.ws.until(lambda: self.lives.born > born, f"{self.id} is restarted by its policy")
        else:
            exit_code = self.p.until_state(self.id, "Failed")["exit_code"]
            assert exit_code == 137 or not self.has_its_parent(record["run"]), f"{self.id}: exit code {exit_code}"
            eq(self.lives.born, born, f"lives of {self.id}")
        self.settle()


class Storm:
    def __init__(self, ws, seed):
        self.ws, self.p = ws, Processes(ws)
        self.dir = ws.base / "s"
        self.dir.mkdir()
        self.child = ws.build / "tests" / "storm" / "storm-proc-child"
        self.targets = [Target(self, id, log, policy, seed) for id, log, policy in TARGETS]
        self.start_s = 0.01
        self.is_lost = threading.Event()  # something went wrong: the others need not go on

    def calibrate(self):
        """How long a start takes here and now: that is the time in which it can be hit."""
        for target in self.targets:
            target.create()
            began = time.monotonic()
            target.p.start(target.id)
            self.start_s = time.monotonic() - began

    def rage(self, rounds):
        with concurrent.futures.ThreadPoolExecutor(len(self.targets)) as pool:
            each = -(-rounds // len(self.targets))
            done = [pool.submit(target.play, each) for target in self.targets]
            problems = [str(error) for error in (one.exception() for one in done) if error]
        assert not problems, "\n".join(problems)
        return each * len(self.targets)

    @staticmethod
    def holders():
        return [(pid, (command_line_of(pid) + ["", ""])[1]) for pid in children_of(os.getpid()) if name_of(pid) == "tasuki-hold"]

    @staticmethod
    def tree():
        """What lives below the test, for a message."""
        return [f"{pid} {state_of(pid)} {' '.join(command_line_of(pid)[:3])}" for pid in descendants_of(os.getpid())]

    def judge(self):
        eq(doubles(self.dir), [], "second copies")
        known = unknown = 0
        for target in self.targets:
            target.check_policy_works()
            began = wall_ms()
            target.p.call("stop", target.id)
            target.stops.append((began, wall_ms()))
            target.nothing_is_left()
            target.note_facts()
            target.check_log()
            more = target.check_exits()
            known, unknown = known + more[0], unknown + more[1]
        eq(doubles(self.dir), [], "second copies")
        self.p.nothing_runs()
        return known, unknown

    def close(self):
        for target in self.targets:
            target.lives.close()


def children(pid):
    try:
        return [int(one) for one in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def run_storm(ws, rounds):
    rounds = int(os.environ.get("TASUKI_STORM_ROUNDS", rounds))
    seed = int(os.environ.get("TASUKI_SEED") or random.SystemRandom().randrange(1 << 30))
    storm = Storm(ws, seed)
    try:
        storm.calibrate()
        played = storm.rage(rounds)
        known, unknown = storm.judge()
        kinds = sum((target.kinds for target in storm.targets), collections.Counter())
        idle = {"hit_holder", "hit_child", "hit_both", "hit_exit", "hit_look", "hit_stop", "hit_start"} - kinds.keys()
        assert not idle or rounds < ROUNDS, f"never played: {idle}"
        assert known >= rounds // 10, f"only {known} exits were known"
        lives = sum(target.lives.born for target in storm.targets)
        print(f"# seed {seed}: {played} rounds ({dict(kinds)}), {lives} lives, {known} exits known, {unknown} unknown", flush=True)
    except BaseException as error:
        raise AssertionError(f"TASUKI_SEED={seed}\n{error}") from error
    finally:
        storm.close()


@test(f"kill anything, {ROUNDS} rounds: no second copy, no line missing, no wrong exit code, policies work", quick=False, deadline=400)
def _(ws):
    run_storm(ws, ROUNDS)


@test(f"kill anything, {ROUNDS_LONG} rounds", long=True, quick=False, deadline=3000)
def _(ws):
    run_storm(ws, ROUNDS_LONG)


main(__name__)
