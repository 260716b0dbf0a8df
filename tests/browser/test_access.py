#!/usr/bin/env python3
"""The page for everybody: axe on every dialogue and special state, light and dark; a run as the accessibility tree has it."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from browser_common import scenarios  # noqa: E402
from harness.harness import main  # noqa: E402

scenarios(
    "access.mjs",
    opened="axe finds nothing in any dialogue, menu or form, light and dark",
    special="axe finds nothing in conflicts, confirmations, a page that is not live and one without its token, light and dark",
    tree="the treegrid of a run, read from the accessibility tree, says what the graph shows",
)
main(__name__)
