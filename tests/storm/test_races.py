"""Many want one lock at the same instant: exactly one gets it, 200 times in a row, for every kind."""

import json
import os
import signal

from harness.harness import eq, main, test
from harness.race import race

ROUNDS, RACERS = 200, 8
IDS = {"request": "RQ-race", "queue": None, "name": "race", "sprint": None}


class Holders:
    """Processes that do nothing but be alive, for commands that take a lock on behalf of `--pid`."""

    def __init__(self, count):
        self.gate_r, self.gate_w = os.pipe()
        self.pids = [self.start() for _ in range(count)]

    def start(self):
        pid = os.fork()
        if pid == 0:
            os.close(self.gate_w)
            os.read(self.gate_r, 1)  # until the test ends, however it ends
            os._exit(0)
        return pid

    def replace(self, index):
        """Its death makes what it holds stale."""
        self.kill(index)
        self.pids[index] = self.start()

    def kill(self, index):
        os.kill(self.pids[index], signal.SIGKILL)
        os.waitpid(self.pids[index], 0)

    def close(self):
        for index in range(len(self.pids)):
            self.kill(index)
        os.close(self.gate_r)
        os.close(self.gate_w)


def acquire_command(ws, kind, pid):
    command = [ws.binary, "--json", "lock", "acquire", kind] + ([IDS[kind]] if IDS[kind] else [])
    if kind == "sprint":
        command += ["--session", f"s-{pid}", "--epic", "race", "--yes"]
    return command + ["--pid", pid]


def winner_of(answers, number):
    codes = [code for code, _ in answers]
    assert sorted(codes) == [0] + [4] * (len(codes) - 1), \
        f"round {number}: exit codes {codes}\n" + "\n".join(out for _, out in answers)
    return codes.index(0)


def race_commands(ws, kind, leave_stale):
    """The winner of a round dies (its lock is the stale one of the next round) or releases."""
    holders = Holders(RACERS)
    last_fence = 0
    try:
        for number in range(1, ROUNDS + 1):
            answers = race(ws, [acquire_command(ws, kind, pid) for pid in holders.pids])
            winner = winner_of(answers, number)
            won = json.loads(answers[winner][1])
            eq(ws.read_lock(kind, IDS[kind])["pid"], holders.pids[winner], f"round {number}: the pid in the file")
            assert won["fence"] > last_fence, f"round {number}: fence {won['fence']} after {last_fence}"
            last_fence = won["fence"]
            if leave_stale:
                if number > 1:
                    assert won.get("recovered"), f"round {number}: {won} does not say that it recovered a stale lock"
                holders.replace(winner)
            else:
                ws.tasuki("lock", "release", kind, *([IDS[kind]] if IDS[kind] else []), "--token", won["token"]).expect(0)
    finally:
        holders.close()


def race_library(ws, kind, state):
    racer = ws.build / "tests" / "storm" / "storm-racer"
    done = ws.run([racer, kind, IDS[kind] or "-", str(ROUNDS), str(RACERS), state], timeout=100).expect(0)
    lines = done.out.splitlines()
    eq(len(lines), ROUNDS, "rounds")
    wrong = [line for line in lines if not line.startswith(f"won=1 refused={RACERS - 1} failed=0")]
    assert not wrong, f"{len(wrong)} of {ROUNDS} rounds went wrong, first: {wrong[0]}"


for _kind in IDS:
    @test(f"a stale {_kind} lock is taken over by exactly one of many commands", quick=False)
    def _(ws, kind=_kind):
        race_commands(ws, kind, leave_stale=True)

    @test(f"a free {_kind} lock is taken by exactly one of many commands", quick=False)
    def _(ws, kind=_kind):
        race_commands(ws, kind, leave_stale=False)

    @test(f"a free {_kind} lock is taken by exactly one of many library callers", slow=_kind != "name")
    def _(ws, kind=_kind):
        race_library(ws, kind, "absent")

    if _kind != "sprint":  # a sprint's dead holder is replaced only by who says so: the commands above
        @test(f"a stale {_kind} lock is taken over by exactly one of many library callers", slow=True)
        def _(ws, kind=_kind):
            race_library(ws, kind, "stale")


main(__name__)
