#!/usr/bin/env python3
"""A dead owner's workflow and many that want it at the same instant."""

import collections
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.harness import eq, main, test  # noqa: E402

ROUNDS, RACERS = 1000, 8


@test("of eight that claim a dead owner's workflow one wins, a thousand times, and the dead owner's later write is refused", slow=True)
def _(ws):
    racer = ws.build / "tests/storm/storm-claim-racer"
    done = ws.run([racer, ROUNDS, RACERS], timeout=110).expect(0)
    seen = collections.Counter(done.out.splitlines())
    eq(dict(seen), {f"won=1 refused={RACERS - 1} failed=0 winners=1 fence=2 late=1": ROUNDS}, "rounds by their outcome")
    claims = [e for e in ws.events() if e["type"] == "workflow.claimed"]
    eq(len(claims), ROUNDS + 1, "claims in the trail: one per round, and the dead owner's own")
    eq({c["data"]["how"] for c in claims[1:]}, {"dead owner"}, "how")


main(__name__)
