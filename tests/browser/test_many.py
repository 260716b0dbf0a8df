#!/usr/bin/env python3
"""More than fits into one answer, and what goes on while nothing is read: the page leaves nothing out and counts on."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from browser_common import scenarios  # noqa: E402
from harness.harness import main  # noqa: E402

scenarios(
    "many.mjs",
    broken_stays="a failed run is seen until its flow has a newer one, however many others end; durations have tenths",
    many_questions="every question is in the inbox and can be answered on its run's page, also with more than 20 open runs",
    many_runs="the run that is shown goes on before the eyes, also with more than 20 open runs",
    many_owners="every owner is there, also more than the status has",
    countdown="a lock's countdown goes on between two answers of the server",
    life_whole="how a holder's death is known is said whole at every width",
    last_report="the last report of doctor is there in every window, without an examination",
    gone_caller="a tab that the server does not know any more goes on, and is registered anew when it takes something",
    last_hour="the last hour of a process and the rules of its log are there, however much else has happened since",
    chosen_done="a link to a request that is done shows it",
    waits_already="a run that is not begun because the last one waits for an answer is a refusal, and says so",
)
main(__name__)
