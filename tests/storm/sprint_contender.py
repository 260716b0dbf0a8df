#!/usr/bin/env python3
"""sprint_contender.py TASUKI DIR ROLE SEED - takes and releases the sprint lock with the real commands until killed.

It draws between the two spellings: `lock acquire sprint --pid` with a token for the release, and `sprint acquire`,
which finds this process by itself. `--yes` agrees to replace a dead holder, never a living one.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from storm.witness import Witness  # noqa: E402

REFUSED = 4


class Contender:
    def __init__(self, tasuki, directory, role, seed):
        self.tasuki = tasuki
        self.role = role
        self.draw = random.Random(seed)
        self.witness = Witness(directory, "sprint", role)

    def run(self, *args):
        done = subprocess.run([self.tasuki, "--json", *args], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode not in (0, REFUSED):
            said = " ".join((done.stdout + done.stderr).split())[:300]
            self.witness.log("error", call="-".join(args[:2]), code=done.returncode, text=said)
        return done.returncode, done.stdout

    def acquire(self):
        """The arguments that release it again, or None; and the fence, if the command says it."""
        names = ["--session", self.role, "--epic", "storm", "--yes"]
        if self.draw.random() < 0.5:
            code, _ = self.run("sprint", "acquire", *names)
            return (["sprint", "release", "--session", self.role], "-") if code == 0 else (None, None)
        wait = self.draw.choice([[], ["--wait", "200ms"], ["--wait", "2s"]])
        code, out = self.run("lock", "acquire", "sprint", *names, "--pid", str(os.getpid()), *wait)
        if code != 0:
            return None, None
        answer = json.loads(out)
        return ["lock", "release", "sprint", "--token", answer["token"]], answer["fence"]

    def turn(self):
        self.witness.log("want")
        release, fence = self.acquire()
        if not release:
            time.sleep(self.draw.uniform(0.005, 0.03))
            return
        self.witness.log("hold", fence=fence)
        entered = self.witness.enter()
        time.sleep(self.draw.uniform(0, 0.01))
        if entered:
            self.witness.leave()
        code, out = self.run(*release)
        status = "ok" if code == 0 else "lost" if "LOCK_LOST" in out else "error"
        self.witness.log("end", status=status)


if __name__ == "__main__":
    contender = Contender(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
    while True:
        contender.turn()
