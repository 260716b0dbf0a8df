#!/usr/bin/env python3
"""Logs on the page: a window on a long log, the search on the server, several processes in one."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from browser_common import scenarios  # noqa: E402
from harness.harness import main  # noqa: E402

scenarios(
    "logs.mjs",
    long_log="a log of 100 MB opens at its end and is read in parts, backwards and forwards; nothing loads the whole",
    search="the search looks through the whole log on the server: number of hits, next, previous, also far from what is shown",
    task_search="the log of a task has the same search",
    combined_busy="a hit is found while an older part of the logs is under way, and no line of that part is left out",
    combined="five processes in one log, over one connection: their lines by time, older ones above, new ones as they come",
)
main(__name__)
