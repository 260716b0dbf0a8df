"""Texts that a suite compares with what is known: of test_x.py in golden/x.txt, in parts. TASUKI_WRITE=1 writes them anew."""

import difflib
import os
import pathlib
import re

from harness.harness import eq


def compare(suite, name, text):
    """With the part of the suite's file that has that name. `suite` is its __file__."""
    path = pathlib.Path(suite).parent / "golden" / f"{pathlib.Path(suite).stem.removeprefix('test_')}.txt"
    parts = dict(re.findall(r"^=== (.*)\n\n((?:(?!=== ).*\n)*)", path.read_text() if path.exists() else "", re.MULTILINE))
    text = text.rstrip("\n") + "\n\n"
    if os.environ.get("TASUKI_WRITE"):
        parts[name] = text
        path.write_text("".join(f"=== {one}\n\n{parts[one]}" for one in sorted(parts)))
    difference = list(difflib.unified_diff(parts.get(name, "").splitlines(), text.splitlines(), "expected", "given", lineterm="", n=2))
    eq(len(difference), 0, "the difference (TASUKI_WRITE=1 accepts it)\n" + "\n".join(difference) + "\nits length")
