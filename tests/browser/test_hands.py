#!/usr/bin/env python3
"""What hands do on the page: the palette's Tab, filters, refusals in the catalogue's words."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from browser_common import scenarios  # noqa: E402
from harness.harness import main  # noqa: E402

scenarios(
    "hands.mjs",
    palette_tab="Tab in the palette: the form of the operation with what is known, choices as a list; the name of a place",
    form_caller="the form of an operation shows its command, calls as this page, and asks what the operation asks",
    refusals="a refusal shows the catalogue's summary, its actions and the next command, in a dialogue and in a form",
    filters="processes by directory and by agent; directory, branch, port as a link and size of the log",
    attempts="a run: each attempt of a task, when it is tried again, what it wrote to the channel, although the page came later",
    older_events="events that the page does not keep are read when they are asked for, without a gap",
    keys_only="a process is made, found, searched, stopped and removed without a mouse",
)
main(__name__)
