#!/usr/bin/env python3
"""The program stays small, and nothing of ours uses what src/left_out.c leaves out of it."""

import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.harness import Skip, eq, main, test  # noqa: E402
from harness.sources import ROOT, c_files, place, read, refuse  # noqa: E402

SIZE_MAX = 3 << 20  # stripped, with everything that is to come
LEFT_OUT = ROOT / "src/left_out.c"
# SQL has more names for the same functions, and makes tables of the kinds by USING.
SQL_NAMES = ("ln", "log2", "log10")
SQL_KINDS = ("fts3", "fts4", "fts5", "rtree", "rtree_i32", "geopoly")
STRING = re.compile(r'"((?:\\.|[^"\\\n])*)"')


def left_out():
    code = read(LEFT_OUT)
    return set(name for pair in re.findall(r"^\w+ (\w+)\([^;{]*\)\n\{|^NOT_A_NUMBER\((\w+)\)", code, re.MULTILINE)
               for name in pair if name)


def sql_pattern():
    functions = "|".join(sorted(left_out()) + list(SQL_NAMES))
    return re.compile(rf"\b(?:{functions})\s*\(|\busing\s+(?:{'|'.join(SQL_KINDS)})\b", re.IGNORECASE)


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
    assert size <= SIZE_MAX, (f"{size:,} bytes, {size - SIZE_MAX:,} too many; "
                              "docs/decisions/002-static-program.md tells what helped before")


@test("no C of ours calls what is left out of the program", init=False)
def _(ws):
    archives = [ws.build / "src/libcore.a", ws.build / "src/libskins.a"]
    lines = subprocess.run(["nm", "-A", "--undefined-only", *archives], capture_output=True, text=True, check=True).stdout
    names = left_out()
    refuse([line for line in lines.splitlines() if names & set(line.split())], "src/left_out.c has no real one:")


@test("no SQL of ours uses what is left out of the program", init=False)
def _(_ws):
    pattern = sql_pattern()
    files = [path for path in c_files("src") if path != LEFT_OUT]
    refuse([f"{place(path, text, m.start())}: {m[1]}" for path, text in ((p, read(p)) for p in files)
            for m in STRING.finditer(text) if pattern.search(m[1])], "src/left_out.c has no real one:")


@test("the checks know what is left out, and see it used", init=False)
def _(_ws):
    eq({"sqlite3Fts5Init", "acos", "atan2"} - left_out(), set(), "not found in left_out.c")
    for bad in ("SELECT sin(a) FROM t", "SELECT Ln (2)", "CREATE VIRTUAL TABLE t USING fts5(a)"):
        assert sql_pattern().search(bad), bad
    for good in ("SELECT min(a), asinine(b) FROM t", "a log of t (so far)", "julianday('now')"):
        assert not sql_pattern().search(good), good


main(__name__)
