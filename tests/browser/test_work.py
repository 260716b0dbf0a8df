#!/usr/bin/env python3
"""The page at work: every button does what the command line does, and both show it."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from browser_common import scenarios  # noqa: E402
from harness.harness import main  # noqa: E402

scenarios(
    "work.mjs",
    process_life="a process is created, followed, stopped, started again, restarted and removed; Enter in the warning is no",
    process_states="each state of a process has its buttons; failures come first and show their last line; a kill shows",
    question="a question waits on every page, is answered in place, and its run goes on",
    run_page="a run: graph and bars show the same states, the keyboard moves between tasks, its log follows, it is cancelled",
    queue="auto-run, two windows, the 409 dialogues, the browser closed in the middle, stop after this",
    request_forms="a request is written, run, edited (a change elsewhere is not overwritten) and removed",
    more_processes="a Procfile is imported, several logs are shown as one, a process is changed by its form",
    templates="a process is made of a template: a field for each variable, the command line beside it; without templates no choice",
    more_runs="the queue with limits, a failed run is resumed, questions of every kind are answered",
    several_questions="with several questions the keys choose in the selected task's form; an option may have a comma",
    still="rows stay where they are while the pointer is over the list, new ones wait; runs that ask come first and their time goes on",
    narrow="at 1280, 768 and 380 px nothing that a person must know is hidden, and a finger hits what it aims at",
    by_mouse="a row of a request opens its latest run, else its form; events are in the order of time and open by a click",
    palette_things="the palette has locks, owners, answers and stop now; no row is there twice; a process lists its exits and settings",
    loops="again and next are arcs with a count, spawned tasks are dotted nodes; the treegrid says the same",
    locks="locks: dead holders first, force asks with the safe answer first, the sprint, owners",
)
main(__name__)
