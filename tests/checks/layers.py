#!/usr/bin/env python3
"""Nothing calls upward: a folder includes only folders above it, and a third-party header is included in one folder only."""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.harness import main, test  # noqa: E402
from harness.sources import ROOT, c_files, place, read, refuse  # noqa: E402

# From the bottom to the top; folders of one row do not see each other (docs/architecture.md).
ROWS = [
    ("base", "hold"),
    ("store",),
    ("own",),
    ("lock",),
    ("proc",),
    ("graph",),
    ("run", "redis"),  # redis is in the program tasuki-worker only
    ("doctor",),
    ("ops",),
    ("mcp", "cli"),
    ("http",),  # /mcp is a transport of mcp; all three are skins over ops
]
LEVEL = {folder: level for level, row in enumerate(ROWS) for folder in row}

# Header (or its directory) -> the only folder of src/ that may include it.
THIRD_PARTY = {
    "jansson.h": "base",
    "yaml.h": "base",
    "sqlite3.h": "store",
    "hiredis": "redis",
    "openssl": "redis",
    "curses.h": "cli",
    "term.h": "cli",
}
SYSTEM_FOLDERS = ("sys", "linux", "asm", "bits", "sanitizer", "net", "netinet", "arpa")
SYSTEM = set("""assert ctype dirent endian err errno fcntl float fnmatch getopt glob grp inttypes langinfo libgen limits link
    locale malloc math mntent netdb poll pthread pty pwd regex sched semaphore signal spawn stdalign stdarg stdatomic stdbool stddef
    stdint stdio stdlib stdnoreturn string strings syslog termios threads time uchar unistd utime utmp wait wchar
    wctype""".split())

OURS = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)
THEIRS = re.compile(r"^[ \t]*#[ \t]*include[ \t]+<([^>]+)>", re.MULTILINE)


def folder_of(path):
    """The layer of a file below src/, or None for src/*.c, which see everything."""
    parts = path.relative_to(ROOT / "src").parts
    return parts[0] if len(parts) > 1 else None


def may_include(folder, other):
    return folder == other or LEVEL[other] < LEVEL[folder]


def is_system(header):
    first, _, rest = header.partition("/")
    return first in SYSTEM_FOLDERS if rest else first.removesuffix(".h") in SYSTEM


def layer_problems(path, text):
    folder, problems = folder_of(path), []
    if folder is None:
        return problems
    if folder not in LEVEL:
        return [f"{path.relative_to(ROOT)}: src/{folder} has no place in the layers"]
    for found in OURS.finditer(text):
        other, slash, _ = found[1].partition("/")
        if not slash:
            if found[1] != "tasuki.h":
                problems.append(f"{place(path, text, found.start())}: write the folder: \"{folder}/{found[1]}\"")
        elif other not in LEVEL or not may_include(folder, other) or (folder == "hold" and other != "hold"):
            problems.append(f"{place(path, text, found.start())}: src/{folder} includes {found[1]}")
    return problems


def third_party_problems(path, text):
    folder, problems = folder_of(path), []
    for found in THEIRS.finditer(text):
        header = found[1]
        home = THIRD_PARTY.get(header) or THIRD_PARTY.get(header.partition("/")[0])
        if home is None and not is_system(header):
            problems.append(f"{place(path, text, found.start())}: <{header}> is not known; give it a home in THIRD_PARTY")
        elif home is not None and home != folder:
            problems.append(f"{place(path, text, found.start())}: <{header}> belongs to src/{home}")
    return problems


@test("a folder of src includes only folders above it in the list of layers", init=False)
def _(_ws):
    problems = [p for path in c_files("src") for p in layer_problems(path, read(path))]
    refuse(problems, "the layers are broken:")


@test("each third-party header is included in one folder only", init=False)
def _(_ws):
    problems = [p for path in c_files("src") for p in third_party_problems(path, read(path))]
    refuse(problems, "third-party headers outside their folder:")


@test("the layer check finds an include that goes up, and one that hides its folder", init=False)
def _(_ws):
    base, lock = ROOT / "src/base/x.c", ROOT / "src/lock/x.c"
    assert layer_problems(base, '#include "lock/lock.h"\n')
    assert layer_problems(base, '#include "cli/cli.h"\n')
    assert layer_problems(lock, '#include "lock.h"\n')
    assert not layer_problems(lock, '#include "base/buf.h"\n#include "lock/lock.h"\n#include "tasuki.h"\n')


@test("the third-party check finds a foreign and an unknown header", init=False)
def _(_ws):
    lock = ROOT / "src/lock/x.c"
    assert third_party_problems(lock, "#include <jansson.h>\n")
    assert third_party_problems(lock, "#include <sqlite3.h>\n")
    assert third_party_problems(lock, "#include <glib.h>\n")
    assert not third_party_problems(lock, "#include <sys/stat.h>\n#include <stdio.h>\n")


@test("the public header needs the C library only", init=False)
def _(_ws):
    text = read(ROOT / "include/tasuki.h")
    refuse(OURS.findall(text), "tasuki.h includes files that are not installed:")
    refuse([h for h in THEIRS.findall(text) if not is_system(h)], "tasuki.h includes:")


@test("the examples use the public header only", init=False)
def _(_ws):
    problems = [f"{p.relative_to(ROOT)}: {h}" for p in c_files("examples") for h in OURS.findall(read(p)) if h != "tasuki.h"]
    refuse(problems, "examples include what users do not have:")


main(__name__)
