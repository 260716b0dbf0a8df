"""The picture in README.md: its commands work, and it shows what the program prints today. The pictures of the page: all are there."""

import html
import importlib.util
import os
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


@test("no text of the picture needs its blanks: browsers join them", init=False)
def _(_ws):
    texts = [element.text for element in xml.etree.ElementTree.parse(PICTURE).iter("{http://www.w3.org/2000/svg}text")]
    eq([text for text in texts if text != text.strip() or "  " in text], [], "blanks that would be lost")


@test("docs/images has every page in light, dark, narrow and Japanese, with 4 MB at most", init=False)
def _(_ws):
    pages = ("overview", "processes", "requests", "runs", "run", "locks", "events", "doctor", "workers")
    wanted = {f"page-{page}{kind}.png" for page in pages for kind in ("", "-dark", "-narrow", "-ja")}
    found = {path.name: path.stat().st_size for path in (ROOT / "docs" / "images").glob("*.png")}
    eq(sorted(wanted - found.keys()), [], "missing; tools/page_pictures.py takes them")
    assert sum(found.values()) < 4_000_000, found


@test("the pictures of the page show nothing of the caller's environment", init=False)
def _(ws):
    spec = importlib.util.spec_from_file_location("page_pictures", ROOT / "tools" / "page_pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    os.environ.update(TASUKI_LANG="ja", TASUKI_AGENT="somebody", TASUKI_INSTANCE_ID="one", CI="1")
    env = module.Scene(ws.build / "tasuki", ws.path / "src" / "shop").by("codex-c")
    eq(sorted(env), ["HOME", "LANG", "PATH", "TASUKI_AGENT", "TASUKI_LANG", "TASUKI_NOTE"], "the variables of the scene")
    eq((env["TASUKI_LANG"], env["TASUKI_AGENT"], env["HOME"]), ("en", "codex-c", str(ws.path)), "their values")


main(__name__)
