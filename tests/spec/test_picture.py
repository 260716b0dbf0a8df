"""The picture in README.md: its commands work, and it shows what the program prints today."""

import html
import pathlib
import re
import subprocess
import xml.etree.ElementTree

from harness.harness import eq, main, test

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "terminal.svg"


def masked(text):
    """The lines of the text in any order, without what differs from time to time: numbers, times, ids, bars and columns."""
    text = re.sub(r"RUN-\w+-\w+", "RUN", text)
    text = re.sub(r"(?:\d[\d.:T+-]*(?: (?:ms|s|min|h|KiB|MiB))?\s*)+", "0", text)
    return sorted(filter(None, ("".join(line.split()) for line in text.splitlines())))


def shown():
    """The lines of the picture: the texts of one height belong together."""
    rows = {}
    for element in xml.etree.ElementTree.parse(PICTURE).iter("{http://www.w3.org/2000/svg}text"):
        rows.setdefault(int(element.get("y")), []).append(element.text)
    return "\n".join(" ".join(rows[y]) for y in sorted(rows))


@test("the picture of README.md shows what its commands print", init=False)
def _(ws):
    done = subprocess.run([ROOT / "tools" / "picture", ws.build / "tasuki", "-"], capture_output=True, text=True, timeout=600,
                          check=False)
    eq(done.returncode, 0, f"the commands of the picture fail:\n{done.stderr}")
    eq(masked(shown()), masked(done.stdout), "the picture is old; draw it again: tools/picture build/tasuki")


@test("a picture names no machine and no directory of the person who drew it", init=False)
def _(_ws):
    text = html.unescape(PICTURE.read_text(encoding="utf-8"))
    for word in ("/tmp/", "/home/", "/root", "pts/"):
        assert word not in text, word


main(__name__)
