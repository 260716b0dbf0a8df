#!/usr/bin/env python3
"""Each state that the page shows was the server's within the last second, or is marked: storms, cut networks, sleep."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from browser_common import scenarios  # noqa: E402
from harness.harness import main  # noqa: E402

scenarios(
    "storm.mjs",
    storm="in a storm of changes each state shown was the server's within the last second",
    restarted="the server is killed in a storm: the page says so, and is live and right again while the storm goes on",
    cut="connections that end or fall silent are shown, nothing can be done meanwhile, and all is right when they are back",
    late="answers that are late: what an event has announced is marked until it is read",
    unanswered="questions that get no answer hold up neither what happens next nor the next connection",
    hidden="a page that is not seen: its title and its icon say what waits, and a notification if it is wanted",
    steady="events without a pause between them do not put off what the page reads",
    rests="while events go on, the page rests between two looks",
    asleep="the browser stands still for ten seconds, its clock jumps an hour: nothing old is shown as live, ages are right",
)
main(__name__)
