#!/usr/bin/env python3
"""The users of the product, each on a way from beginning to end, on the page."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from browser_common import scenarios  # noqa: E402
from harness.harness import main  # noqa: E402

scenarios(
    "journeys.mjs",
    three_agents="three agents want one job: one runs, the others and the page say who, since when, alive; a crashed one's lock is taken",
    dev_server="an agent starts a server and dies: the server stays, the page and the next agent read its true state and exit code",
    team_queue="a queue runs one request at a time, waits for an answer, and continues after everything was killed",
    pipeline="a diamond whose runner is killed: resumed on the page, the join runs once, no branch sees the other",
    browser_dies="the browser is killed in the middle of auto-run: the queue goes on, another browser shows it",
    inbox="questions and confirmations are in one inbox, with their age, on every page",
)
main(__name__)
