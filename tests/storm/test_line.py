"""The line of waiters in a storm: callers that wait in bounded calls, keep their places between them, and are killed.

Each keeper (keeper.c) writes its steps to one log. The byte of a ticket is locked from before the line `in` to after the line
`out`, so between the two lines its caller is in the line of waiters for certain.

TASUKI_SEED=n repeats a storm's random choices, though not the scheduler's.
"""

import collections
import os
import random
import signal
import time

from harness.harness import eq, main, test
from storm.witness import Witness, read_log

KEEPERS = 6
ROUND_S = 4  # the table of kept places has 64 slots; a caller that dies between two calls leaves one for two minutes


class Storm:
    """One lock and the keepers that want it. A keeper that has died is started again, as another caller."""

    def __init__(self, ws, id, draw):
        self.ws, self.id, self.draw = ws, id, draw
        self.dir = ws.base / id
        self.dir.mkdir()
        self.stderr = open(self.dir / "stderr", "ab")
        self.witness = Witness(self.dir, id, "killer")
        self.keepers = {}
        self.kills = 0

    def start(self, role):
        program = self.ws.build / "tests/storm/storm-keeper"
        argv = [program, self.dir, self.id, role, self.draw.randrange(1, 1 << 30)]
        self.keepers[role] = self.ws.spawn_command(argv, stdout=self.stderr, stderr=self.stderr)

    def kill(self, role):
        self.witness.log("kill", victim=self.keepers[role].pid)
        self.keepers[role].kill()
        self.keepers[role].wait()
        self.witness.log("dead", victim=self.keepers[role].pid)

    def revive(self):
        for role, proc in list(self.keepers.items()):
            if proc.poll() is not None:
                said = (self.dir / "stderr").read_text(errors="replace")[-2000:]
                eq(proc.returncode, -signal.SIGKILL, f"the end of {role}, which said {said!r}")
                self.kills += 1
                self.start(role)

    def rage(self, seconds):
        for i in range(KEEPERS):
            self.start(f"keeper-{i}")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(self.draw.uniform(0, 0.15))
            self.revive()
            victim = self.draw.choice(list(self.keepers))
            if self.draw.random() < 0.5:
                self.kills += 1
                self.kill(victim)
                self.start(victim)

    def serve_everybody(self):
        """Nobody is starved: each keeper gets the lock once more."""
        begun = len(read_log(self.dir))

        def all_had_it():
            self.revive()
            return {line.role for line in read_log(self.dir)[begun:] if line.verb == "hold"} >= set(self.keepers)

        self.ws.until(all_had_it, "each keeper gets the lock once more")

    def close(self):
        for role in self.keepers:
            self.kill(role)
        self.witness.close()
        self.stderr.close()


class Verdict:
    """Reads the log from its first line to its last, and knows at each line which places are taken."""

    def __init__(self, lines):
        self.places = {}  # pid: the ticket that it has now, and the number of the line that says so
        self.left = {}  # pid: the ticket that it had last
        self.kept = {}  # pid: the ticket that is kept for it
        self.used_up = {}  # pid: the kept ticket that it did not need
        self.owners = {}  # ticket: the pid that it was given to
        self.calls, self.guards = {}, {}  # pid: the number of the line of its last call; of its last look under the guard
        self.counts = collections.Counter(line.verb for line in lines)
        self.dying = set()  # pids whose end is near: what they say no longer holds at the next line
        for line in lines:
            if line.pid not in self.dying or line.verb in ("double", "error"):
                getattr(self, f"on_{line.verb}", lambda line: None)(line)

    def on_call(self, line):
        self.calls[line.pid] = line.number

    def on_in(self, line):
        ticket = int(line.values["ticket"])
        eq(self.owners.setdefault(ticket, line.pid), line.pid, f"the caller that has ticket {ticket} (line {line.number})")
        if line.pid in self.kept:
            eq(ticket, self.kept.pop(line.pid), f"the place of a caller that comes back (line {line.number})")
            self.counts["came back"] += 1
        assert ticket != self.used_up.get(line.pid), f"{line.text} (line {line.number}): this place was used up"
        self.places[line.pid] = (ticket, line.number)

    def on_out(self, line):
        self.left[line.pid] = self.places.pop(line.pid)[0]

    def on_back(self, line):
        if line.values["kept"] == "1":
            self.kept[line.pid] = self.left[line.pid]
            self.counts["kept"] += 1

    def on_guard(self, line):
        self.guards[line.pid] = line.number

    def on_took(self, line):
        """The taker looked under the guard whether somebody is before it. One without a place looked when it was called."""
        ticket = self.places[line.pid][0] if line.pid in self.places else None
        looked = self.guards[line.pid] if ticket else self.calls[line.pid]
        before = [(pid, place) for pid, (place, since) in self.places.items()
                  if pid != line.pid and since < looked and (ticket is None or place < ticket)]
        assert not before, f"{line.text} (line {line.number}), and before it in the line were {before}"
        if line.pid in self.kept:
            self.used_up[line.pid] = self.kept.pop(line.pid)

    def on_die(self, line):
        self.forget(line.pid)

    def on_kill(self, line):
        self.dying.add(int(line.values["victim"]))
        self.forget(int(line.values["victim"]))

    def on_dead(self, line):
        self.dying.discard(int(line.values["victim"]))

    def forget(self, pid):
        for known in (self.places, self.left, self.kept, self.used_up):
            known.pop(pid, None)
        self.owners = {ticket: owner for ticket, owner in self.owners.items() if owner != pid}

    def on_double(self, line):
        raise AssertionError(f"two holders: {line.text}")

    def on_error(self, line):
        raise AssertionError(line.text)


def check_nothing_is_left(ws, id):
    """After the last kill the lock is free for the next caller, and nothing is to be swept up behind that one."""
    won = ws.tasuki("--json", "lock", "acquire", "name", id, "--pid", os.getpid(), "--wait", "60s").expect(0)
    ws.tasuki("lock", "release", "name", id, "--token", won.json["token"]).expect(0)
    ws.tasuki("lock", "check", "name", id).expect(0)
    eq(sorted(os.listdir(ws.path / ".aiflow/locks")), [".guard"], "what is left in .aiflow/locks")


def run_rounds(ws, rounds):
    seed = int(os.environ.get("TASUKI_SEED") or random.SystemRandom().randrange(1 << 30))
    draw = random.Random(seed)
    counts, kills = collections.Counter(), 0
    for number in range(rounds):
        storm = Storm(ws, f"line-{number}", draw)
        try:
            try:
                storm.rage(ROUND_S)
                storm.serve_everybody()
            finally:
                storm.close()
            counts += Verdict(read_log(storm.dir)).counts
            check_nothing_is_left(ws, storm.id)
        except BaseException as error:
            raise AssertionError(f"seed {seed}, round {number}: {error}") from error
        kills += storm.kills
    assert counts["came back"] and counts["took"] and counts["die"], counts
    print(f"# seed {seed}: {counts['took']} times taken, {counts['kept']} places kept, {counts['came back']} taken up again, "
          f"{kills} kills, {counts['die']} of them at a step", flush=True)


@test("callers that wait in bounded calls and are killed: one holder, the places in order, nobody starved, nothing left",
      quick=False, deadline=240)
def _(ws):
    run_rounds(ws, 4)


@test("the same for ten minutes", long=True, quick=False, deadline=1800)
def _(ws):
    run_rounds(ws, 120)


main(__name__)
