"""The mutual exclusion storm: contenders of ours and of other tools, random SIGKILL and SIGSTOP, and a witness that
knows nothing of the protocol.

Four locks are fought over. The name and the request lock also by a literal D39 client, the sprint lock by a literal
U2 client; the queue lock by ours alone. What may happen: a D39 client judges a stale file, sleeps, and unlinks what
meanwhile is ours (docs/guide/locks.md). Then our holder must be told LOCK_LOST. Nothing else may.

TASUKI_SEED=n repeats a storm's random choices; TASUKI_STORM_S=n sets its length.
"""

import collections
import os
import pathlib
import random
import signal
import sys
import time

from harness.harness import children_of, eq, main, test
from storm.witness import Witness, deletions_of, holds_of, read_log, was_deleted

TESTS = pathlib.Path(__file__).resolve().parents[1]
IDS = {"name": "storm", "request": "RQ-storm", "queue": None, "sprint": None}
WITH_D39 = ("name", "request")
FOREIGN = ("d39", "u2")


def state_of(pid):
    """The letter of /proc/<pid>/stat; X when it is gone."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return "X"
    return stat.rpartition(")")[2].split()[0]


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def await_state(pid, states):
    end = time.monotonic() + 60
    while state_of(pid) not in states:
        assert time.monotonic() < end, f"process {pid} is {state_of(pid)}, not one of {states}"
        time.sleep(0.0005)


def stop_wholly(pid):
    """It does nothing more. What waits for a child between vfork and exec stops only when that child goes on, and the storm
    may have stopped the child."""
    send(pid, signal.SIGSTOP)
    end = time.monotonic() + 60
    while state_of(pid) not in "TZX":
        assert time.monotonic() < end, f"process {pid} is {state_of(pid)}"
        for child in children_of(pid):
            send(child, signal.SIGCONT)
        time.sleep(0.0005)


def descendants_of(pid):
    found = []
    for child in children_of(pid):
        found += [child] + descendants_of(child)
    return found


class Contender:
    """A program that wants a lock for ever; it is started again when it was killed."""

    def __init__(self, storm, role, argv, weight=1.0, whole_tree=False):
        self.storm = storm
        self.role = role
        self.argv = argv  # a function of the seed of this start
        self.weight = weight
        self.whole_tree = whole_tree
        self.proc = None

    def start(self):
        seed = self.storm.draw.randrange(1, 1 << 30)
        self.proc = self.storm.ws.spawn_command(
            self.argv(seed), stdout=self.storm.trash, stderr=self.storm.stderr)

    def kill(self):
        """For a client whose helpers (mv, rm, the work) act in its name, death means: nothing of it runs any more
        when others can first see it dead. So it is stopped, its helpers end, then it ends."""
        if self.whole_tree:
            stop_wholly(self.proc.pid)
            helpers = descendants_of(self.proc.pid)
            for pid in helpers:
                send(pid, signal.SIGKILL)
            for pid in helpers:
                await_state(pid, "ZX")
        send(self.proc.pid, signal.SIGKILL)
        send(self.proc.pid, signal.SIGCONT)
        self.proc.wait()
        self.start()


class Storm:
    def __init__(self, ws, seconds, seed):
        self.ws = ws
        self.seconds = seconds
        self.draw = random.Random(seed)
        self.dir = ws.base / "storm"
        self.dir.mkdir()
        self.trash = open(os.devnull, "wb")
        self.stderr = open(self.dir / "stderr", "ab")
        self.stopped = []  # (when to continue, pid)
        self.kills = self.stops = 0
        self.contenders = self.make_contenders()

    def make_contenders(self):
        made = []
        programs = self.ws.build / "tests" / "storm"
        hold = programs / "storm-hold"
        for kind, count in (("name", 2), ("request", 3), ("queue", 3)):
            for i in range(count):
                role = f"lib-{kind}-{i}"
                made.append(Contender(self, role, lambda seed, k=kind, r=role: [
                    programs / "storm-contender", self.dir, k, IDS[k] or "-", r, seed]))
        for i in range(2):
            role = f"run-name-{i}"
            made.append(Contender(self, role, lambda seed, r=role: [
                TESTS / "storm/run_loop.sh", self.ws.binary, hold, self.dir, r]))
        for i in range(2):
            role = f"cli-sprint-{i}"
            made.append(Contender(self, role, lambda seed, r=role: [
                sys.executable, TESTS / "storm/sprint_contender.py", self.ws.binary, self.dir, r, seed], whole_tree=True))
        for kind in WITH_D39:
            made.append(Contender(self, f"d39-{kind}", lambda seed, k=kind: [
                sys.executable, TESTS / "clients/d39.py", "storm", self.ws.lock_path(k, IDS[k]), k, IDS[k],
                "--dir", self.dir, "--role", f"d39-{k}", "--seed", seed, "--ttl", "0.5"], weight=0.7))
        made.append(Contender(self, "u2-sprint", lambda seed: [
            TESTS / "clients/u2.sh", "storm", self.ws.path, "u2-sprint", "epic", hold, self.dir, "u2-sprint"],
            weight=0.3, whole_tree=True))
        return made

    # -- the weather --------------------------------------------------------------------------------------

    def rage(self):
        for one in self.contenders:
            one.start()
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            time.sleep(self.draw.uniform(0.005, 0.06))
            self.let_go(time.monotonic())
            self.strike()
            self.reap_orphans()

    def strike(self):
        one = self.draw.choices(self.contenders, [c.weight for c in self.contenders])[0]
        action = self.draw.random()
        if one.proc.poll() is not None:
            code = one.proc.returncode
            assert code < 0, f"{one.role} ended by itself with code {code}; see {self.said()}"
            one.start()
        elif action < 0.45:
            self.kills += 1
            one.kill()
        elif action < 0.65:
            self.kill_somebody_below(one)
        else:
            self.stop(self.draw.choice([one.proc.pid] + descendants_of(one.proc.pid)))

    def kill_somebody_below(self, one):
        """`tasuki lock run` without its loop, or the command without `tasuki lock run`. Not for the clients whose
        helpers act in their name: a U2 tool does not lose its `rm` alone."""
        below = [] if one.whole_tree else descendants_of(one.proc.pid)
        if below:
            self.kills += 1
            send(self.draw.choice(below), signal.SIGKILL)

    def stop(self, pid):
        self.stops += 1
        send(pid, signal.SIGSTOP)
        self.stopped.append((time.monotonic() + self.draw.choice([0.01, 0.05, 0.3, 1.2]), pid))

    def let_go(self, now):
        for when, pid in [s for s in self.stopped if s[0] <= now]:
            send(pid, signal.SIGCONT)
            self.stopped.remove((when, pid))

    def reap_orphans(self):
        """What a killed `lock run` left behind comes to this process, which is a subreaper."""
        ours = {c.proc.pid for c in self.contenders}
        me = pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        for pid in map(int, me):
            if pid not in ours and state_of(pid) == "Z":
                try:
                    os.waitpid(pid, os.WNOHANG)
                except ChildProcessError:
                    pass

    def calm(self):
        for _, pid in self.stopped:
            send(pid, signal.SIGCONT)
        for one in self.contenders:
            stop_wholly(one.proc.pid)
        for one in self.contenders:
            for pid in descendants_of(one.proc.pid):
                send(pid, signal.SIGKILL)
            send(one.proc.pid, signal.SIGKILL)
            one.proc.wait()
        self.ws.until(lambda: self.reap_orphans() or not children_of(os.getpid()), "the orphans end")
        self.trash.close()
        self.stderr.close()

    def said(self):
        return (self.dir / "stderr").read_text(errors="replace")[-2000:]


# -- the verdict ------------------------------------------------------------------------------------------


def is_foreign(hold):
    return hold.role.startswith(FOREIGN)


def explain(hold, deletions, last):
    """Whether this hold was taken away by a late deletion of a D39 client, and knew it if it lived to say so."""
    return not is_foreign(hold) and hold.status in ("lost", None) and was_deleted(hold, deletions, last)


def complete_runs(ws, holds):
    """The command of a `lock run` begins after tasuki has the lock, and does not learn that tasuki found it lost: the first is
    put at the end of the role's hold before, the second taken from the trail."""
    lost = {(event["data"]["kind"], event["data"]["fence"]) for event in ws.events("lock.lost")}
    ended = {}
    for hold in holds:
        if hold.role.startswith("run-"):
            hold.begin = ended.get(hold.role, 1)
            if (hold.lock, hold.fence) in lost:
                hold.status = "lost"
        ended[hold.role] = hold.end or hold.number


def check_double_holds(lines, holds, deletions):
    """Returns how many were the residual case; fails for any other."""
    residual = 0
    for line in (one for one in lines if one.verb == "double"):
        mine = next(h for h in reversed(holds) if h.pid == line.pid and h.number < line.number)
        other_pid = int(line.values["other"])
        parties = [mine] + [h for h in holds if h.lock == line.lock and h is not mine and h.number <= line.number + 50
                            and (h.end is None or h.end > mine.begin) and other_pid in (-1, h.pid)]
        told = " and ".join(map(str, parties))
        assert any(explain(h, deletions, len(lines)) for h in parties), f"DOUBLE HOLD: {line.text}\n{told}"
        residual += 1
    return residual


def check_losses(lines, holds, deletions):
    for hold in holds:
        if hold.status == "lost":
            assert was_deleted(hold, deletions, len(lines)), f"LOCK_LOST without anybody's deletion: {hold}"
    return sum(1 for h in holds if h.status == "lost")


def check_fences(holds):
    """No fence twice; and on a lock that no other tool can delete they grow in the order of the holds."""
    for kind in IDS:
        fences = [h.fence for h in holds if h.lock == kind and h.fence is not None]
        eq(len(fences), len(set(fences)), f"different fences of {kind}")
        if kind not in WITH_D39:
            eq(fences, sorted(fences), f"the order of the fences of {kind}")


def check_everybody_played(holds, contenders):
    played = collections.Counter(h.role for h in holds)
    idle = [c.role for c in contenders if not played[c.role]]
    assert not idle, f"never held anything: {idle}; the others: {dict(played)}"
    return played


def check_nothing_is_stuck(ws):
    """Whatever the last kill left: the next one gets in, and after it there is nothing to sweep up."""
    for kind, id in IDS.items():
        words = [kind] + ([id] if id else [])
        names = ["--session", "after", "--epic", "storm", "--yes"] if kind == "sprint" else []
        # A foreign file that was torn by a kill counts as being written until it is 10 s old.
        won = ws.tasuki("--json", "lock", "acquire", *words, *names, "--pid", os.getpid(), "--wait", "45s").expect(0)
        ws.tasuki("lock", "release", *words, "--token", won.json["token"]).expect(0)
        ws.tasuki("lock", "check", *words).expect(0)
    left = sorted(os.listdir(ws.path / ".aiflow/locks"))
    eq(left, [".guard"], "what is left in .aiflow/locks")
    left = sorted(n for n in os.listdir(ws.path) if n not in (".aiflow", ".gitignore"))
    eq(left, [], "what is left in the project")


def check_trail(ws, holds):
    """Every acquisition that was witnessed is in the trail, once, and in the order of the fences."""
    ws.tasuki("--json", "events").expect(0)
    trail = collections.defaultdict(list)
    for event in ws.events():
        if "fence" in event.get("data", {}):
            trail[event["data"]["kind"]].append((event["type"], event["data"]["fence"]))
    for kind in IDS:
        fences = [fence for type, fence in trail[kind] if type == "lock.acquired"]
        eq(fences, sorted(set(fences)), f"the fences of {kind} in the trail")
        missing = {h.fence for h in holds if h.lock == kind and h.fence is not None} - set(fences)
        assert not missing, f"{kind}: held, but not in the trail: {sorted(missing)[:5]} ({len(missing)} in all)"
    check_turns(trail["queue"], holds)


def check_turns(trail, holds):
    """The lock that only we touch: before the next one acquires it, it is released, or recovered from the dead. (A
    holder that is killed between the removal of its file and the event cannot say that it released.)"""
    finished = {h.fence for h in holds if h.lock == "queue" and h.status == "ok"}
    holder = None
    for type, fence in trail:
        if type == "lock.acquired":
            assert holder is None or holder not in finished, f"{fence} was acquired, but {holder} was not released"
            holder = fence
        elif type == "LOCK_STALE_RECOVERED":
            assert holder not in finished, f"{fence} was recovered from {holder}, who lived to release it"
            holder = None
        elif type == "lock.released":
            assert holder in (fence, None), f"{fence} was released while {holder} had it"
            holder = None


def run_storm(ws, seconds):
    seconds = float(os.environ.get("TASUKI_STORM_S", seconds))
    seed = int(os.environ.get("TASUKI_SEED") or random.SystemRandom().randrange(1 << 30))
    storm = Storm(ws, seconds, seed)
    try:
        try:
            storm.rage()
        finally:
            storm.calm()
        lines = read_log(storm.dir)
        holds, deletions = holds_of(lines), deletions_of(lines)
        complete_runs(ws, holds)
        errors = [line.text for line in lines if line.verb == "error"]
        assert not errors, f"{len(errors)} errors, first: " + "\n".join(errors[:5])
        played = check_everybody_played(holds, storm.contenders)
        residual = check_double_holds(lines, holds, deletions)
        lost = check_losses(lines, holds, deletions)
        check_fences(holds)
        check_nothing_is_stuck(ws)
        check_trail(ws, holds)
    except BaseException as error:
        keep = pathlib.Path(os.environ.get("TASUKI_STORM_KEEP", "/nonexistent"))
        if keep.is_dir():
            os.rename(storm.dir, keep / f"storm-{seed}")
        raise AssertionError(f"seed {seed} ({seconds:.0f} s): {error}") from error
    print(f"# seed {seed}: {len(holds)} holds, {storm.kills} kills, {storm.stops} stops, {len(deletions)} deletions "
          f"by D39 clients, {lost} LOCK_LOST, {residual} double holds of the residual case\n# {dict(played)}", flush=True)


@test("the witness sees a double hold and says whose it is")
def _(ws):
    hold = ws.build / "tests" / "storm" / "storm-hold"
    first = Witness(ws.path, "name", "first")
    try:
        eq(first.enter(), True, "the first one's entrance")
        ws.run([hold, ws.path, "name", "second", 0]).expect(0)
        doubles = [line for line in read_log(ws.path) if line.verb == "double"]
        eq([(d.role, d.values["other"]) for d in doubles], [("second", str(os.getpid()))], "the double holds")
        first.leave()
        ws.run([hold, ws.path, "name", "third", 0]).expect(0)
        eq(len([line for line in read_log(ws.path) if line.verb == "double"]), 1, "double holds after it left")
    finally:
        first.close()


@test("in a storm of kills, stops and other tools nobody holds a lock twice", quick=False, deadline=240)
def _(ws):
    run_storm(ws, 60)


@test("in a ten minutes' storm nobody holds a lock twice", long=True, quick=False, deadline=1200)
def _(ws):
    run_storm(ws, 600)


main(__name__)
