#!/usr/bin/env python3
"""Text from outside is text, wherever the page shows it: markup, escapes, control characters, right to left, very long lines."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from browser_common import scenarios  # noqa: E402
from harness.harness import main  # noqa: E402

scenarios(
    "hostile.mjs",
    pages="hostile names, titles, notes, questions, channel values and findings are shown as text on every page; the layout holds",
    dialogues="the same in the inbox, the palette, the questions, the menus, the forms and the confirmations",
    forms="a form that is saved changes only what was changed in it, whatever the other fields hold",
    logs="logs with lines of a megabyte, NUL, bytes that are no text and escapes without an end",
    direction="a name with a direction override turns nothing beside it",
)
main(__name__)
