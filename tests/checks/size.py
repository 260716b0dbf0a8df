#!/usr/bin/env python3
"""The program stays small."""

import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.harness import Skip, main, test  # noqa: E402

SIZE_MAX = 5 << 20  # stripped


def need_release_build(ws):
    values = {o["name"]: o["value"] for o in json.loads((ws.build / "meson-info/intro-buildoptions.json").read_text())}
    if values["b_sanitize"] != "none":
        raise Skip("a build with sanitizers is another program")
    if values["b_coverage"] or values["optimization"] not in ("2", "s"):
        raise Skip("installed is what is built with -O2")


@test(f"the stripped program has at most {SIZE_MAX >> 20} MiB", init=False)
def _(ws):
    need_release_build(ws)
    stripped = ws.base / "tasuki"
    subprocess.run(["strip", "-o", stripped, ws.build / "tasuki"], check=True)
    size = stripped.stat().st_size
    assert size <= SIZE_MAX, f"{size:,} bytes, {size - SIZE_MAX:,} too many (docs/decisions/002-static-program.md)"


main(__name__)
