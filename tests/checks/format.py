#!/usr/bin/env python3
"""clang-format decides how C looks. `./dev fmt` puts right what this finds."""

import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.harness import Skip, main, test  # noqa: E402
from harness.sources import ROOT, c_files, refuse  # noqa: E402


@test("C files are formatted as .clang-format says", init=False)
def _(_ws):
    program = shutil.which("clang-format")
    if not program:
        raise Skip("clang-format is not installed")
    result = subprocess.run([program, "--dry-run", "--Werror", *map(str, c_files())], cwd=ROOT, capture_output=True,
                            text=True, check=False)
    places = re.findall(rf"^(?:{re.escape(str(ROOT))}/)?(\S+?):\d+:\d+: error", result.stderr, re.MULTILINE)
    refuse(sorted(set(places)), "./dev fmt would change:")
    assert result.returncode == 0, result.stderr


@test("no text file has trailing blanks, tabs in C, or a missing last newline", init=False)
def _(_ws):
    problems = []
    for path in c_files():
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(ROOT)
        problems += [f"{name}:{i}: blank at the end" for i, line in enumerate(text.split("\n"), 1) if line != line.rstrip()]
        problems += [f"{name}:{i}: tab" for i, line in enumerate(text.split("\n"), 1) if "\t" in line]
        problems += [f"{name}: no newline at the end"] if not text.endswith("\n") else []
    refuse(problems, "untidy:")


main(__name__)
