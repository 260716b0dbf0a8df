"""What the checks of the source tree share: which files there are, and C without its comments and strings."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
C_FOLDERS = ("src", "include", "tests", "examples", "bench")
NOISE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)


def c_files(*folders):
    """The C sources and headers below `folders` (all of ours by default), sorted."""
    found = []
    for folder in folders or C_FOLDERS:
        found += [p for p in (ROOT / folder).rglob("*.[ch]") if "node_modules" not in p.parts]
    return sorted(found)


def read(path):
    return path.read_text(encoding="utf-8")


def code_of(path):
    """The text with comments and literals blanked out; the line numbers stay right."""
    return NOISE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), read(path))


def lines_matching(path, pattern):
    """["src/a.c:12: name"] for every match of `pattern` in the code; the name is its first group."""
    code = code_of(path)
    return [f"{place(path, code, m.start())}: {m[1]}" for m in re.finditer(pattern, code)]


def place(path, text, offset):
    return f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, offset) + 1}"


def refuse(problems, rule):
    assert not problems, rule + "\n" + "\n".join(problems)
