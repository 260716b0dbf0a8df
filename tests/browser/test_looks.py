#!/usr/bin/env python3
"""The looks of the page: text that has room is not cut, lines are in the right order, and words are right."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from browser_common import scenarios  # noqa: E402
from harness.harness import main  # noqa: E402

scenarios(
    "looks.mjs",
    asked_on_phone="on a phone the strip says what an agent asks, and the second question shows whose thing it is",
    menus="no entry of a menu leaves it, and no menu leaves the window",
    rules="a start stands before the lines of its process, an exit behind them, while they come and when they are read again",
    ends="an end is one rule: code or signal, after how long, and when the next start is due",
    broke_on_phone="on a phone a broken thing is one target that says everything, uncut",
    combined_narrow="in a narrow window a third process can join a combined log, and the combination can be ended",
    came_back="after a way back the keys act on the process that is shown",
    run_signs="a run: the way to what runs, the words of its attempts, the time of the next one, the buttons beside the facts",
    room="what has room is not cut: progress of the queue, names, states, the lock of a request",
    between="between a wide and a narrow window names, titles and holders are readable, and no button is outside",
    opened_away="a run that is opened while the server is away is there when it is back, and nothing untrue is said before",
    still="on the overview nothing moves under the pointer; new rows wait",
    still_locks="nor does it on the page of locks",
    no_hit="a filter of the runs without a hit says so; sentences end as their language does",
    marks="Japanese and Chinese sentences have their own marks and words",
)
main(__name__)
