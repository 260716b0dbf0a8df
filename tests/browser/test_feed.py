#!/usr/bin/env python3
"""The feed under the page: a quiet page reads nothing, every change comes as an event; confirmations; CPU and memory."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from browser_common import scenarios  # noqa: E402
from harness.harness import main  # noqa: E402

scenarios(
    "feed.mjs",
    confirmations="what an agent asks is a strip in every window, with its countdown; Ctrl-Backspace denies, Allow asks again for a living holder",
    quiet="a page on which nothing happens reads nothing",
    told="a killed holder, an edited request file, readiness and health are shown without a look",
    usage="CPU and memory come every two seconds",
    two_windows="what one window does the other one shows, without a reload",
)
main(__name__)
