#!/usr/bin/env python3
"""Words that must not come back into what a person reads: comments, messages, documents.

Two lists. PHRASES read like a translation, or hide the subject of the sentence; each has the plain form beside it. NAMES
belong to the specifications that tasuki implements: a reader of src/ and include/ cannot look them up (docs/origins.md can
be read, but need not be).

Paths that are not clean yet are in REMAINING with the number of places that they may still have. A number may only
shrink: lower it when you clean a file, remove the row when it reaches 0. The check prints the numbers of today.
"""

import functools
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.harness import main, test  # noqa: E402
from harness.sources import NOISE, ROOT, place, read, refuse  # noqa: E402

PHRASES = {
    r"mend(?:s|ed|ing)?": "fix",
    r"who(?:m)?ever": "name the subject: the next command, the holder, another process",
    r"gone on with": "continue",
    r"must stand": "expected … here",
    r"(?:is|are|was|were|be) led to": "tasuki takes you to",
    r"(?:to|can|cannot|could not) be had": "available",
    r"(?:is|are|was|were) told": "gets, is reported",
    r"manieth": "the number of",
    r"words? too many": "unexpected argument",
    r"asked in a circle": "name who asks whom",
    r"(?:give|gives|gave|given|giving) back": "release, return",
    r"(?:give|gives|gave|given|giving) (?:it|them|a lock|the lock|his|its lock) back": "release",
    r"no lock is success": "succeeds if the lock is not held",
    r"stand(?:s|ing)? in the way": "refused the operation, blocks",
    r"at the door": "waiting to connect",
    r"put(?:s|ting)? away": "remove, clean up",
    r"(?:not|cannot|never) for himself": "itself",
    r"go(?:es|ing)? on with": "continue",
    r"(?:goes|went) on(?= (?:by itself|after|until|where|behind|here|there)\b)": "continues",
    r"(?:at most|by|after|of) so many": "at most N",
    r"begin(?:s|ning)? anew": "start a new one, begin again",
    r"(?:become|becomes) of": "name the result: how it has ended",
}
# A sentence whose subject is "who …". A question ("Who holds it?") is none.
WHO = re.compile(r"(?:^|[.:;!?]\s+|/\*\s*|\*\s+|#\s+|[-|]\s+)Who\s+(?:[a-z]+s|has|is|does)\b(?![^.]*\?)", re.MULTILINE)
PHRASE = re.compile(r"\b(?:" + "|".join(PHRASES).replace(" ", r"\s+") + r")\b", re.IGNORECASE)
NAME = re.compile(r"\bD39\b|\bU2\b|\bseeds?\b(?!->|\s*=|\s*\*)|\bspec(?:ification)? \d\b|\brules? \d+ (?:of|and)\b", re.IGNORECASE)
# The exact formats of other tools that a user sees may carry their names: (file, text) -> why.
NAMES_ALLOWED = {
    ("src/run/queue.h", "U2"): "an invariant of the queue: U1 to U6",
    ("src/run/queue.c", "U2"): "the same",
}

READ = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "dev", "docs", "include", "src", "examples", "tools", "tests", "bench",
        "share/messages.v1.en.json")
SUFFIXES = {".md", ".h", ".c", ".def", ".py", ".sh", ".json", ".pml", ".build", ".yaml", ""}
EXEMPT = ("docs/origins.md", "tests/spec/", "tests/checks/words.py", "tests/fuzz/corpus/", "tests/mcp/", "bench/results/")

# Path (a file or a folder) -> how many places it may still have.
REMAINING = {
}
REMAINING_NAMES = {
}


def files():
    found = []
    for name in READ:
        top = ROOT / name
        found += [top] if top.is_file() else [p for p in top.rglob("*") if p.is_file()]
    names = [(p, p.relative_to(ROOT).as_posix()) for p in sorted(found)]
    return [(p, n) for p, n in names if p.suffix in SUFFIXES and not n.startswith(EXEMPT)
            and not {"node_modules", "__pycache__"} & set(p.parts)]


def words_of(path):
    """What a person reads of the file. Of C: comments and strings; of a table of messages: everything."""
    text = read(path)
    if path.suffix not in (".c", ".h"):
        return text
    kept = [" " if c != "\n" else c for c in text]
    for found in NOISE.finditer(text):
        kept[found.start():found.end()] = found[0]
    return "".join(kept)


def joined(text):
    """A comment's next line begins with ` * `: blanked, so that a phrase over two lines is seen. Offsets stay."""
    return re.sub(r"\n[ \t]*(?:\*|#|//)?[ \t]?", lambda m: "\n" + " " * (len(m[0]) - 1), text)


def phrase_problems(path, text):
    found = [*PHRASE.finditer(joined(text)), *WHO.finditer(text)]
    return [f"{place(path, text, m.start())}: {' '.join(m[0].split())}" for m in sorted(found, key=lambda m: m.start())]


def name_problems(path, name, text):
    return [f"{place(path, text, m.start())}: {m[0]}" for m in NAME.finditer(text) if (name, m[0]) not in NAMES_ALLOWED]


def row_of(name, table):
    """The most exact row of the table that the file belongs to."""
    rows = [row for row in table if name == row or name.startswith(row.rstrip("/") + "/")]
    return max(rows, key=len, default=None)


def judge(found, table, what):
    """Places outside the table are refused, and more places than a row allows."""
    problems, counts = [], {row: [] for row in table}
    for name, places in found:
        row = row_of(name, table)
        if row is None:
            problems += places
        else:
            counts[row] += places
    for row, places in counts.items():
        if len(places) > table[row]:
            problems += [f"{row}: {len(places)} {what}, at most {table[row]}:", *places]
    return problems, {row: len(places) for row, places in counts.items()}


@functools.cache
def phrases_found():
    return [(name, phrase_problems(path, words_of(path))) for path, name in files()]


@functools.cache
def names_found():
    return [(name, name_problems(path, name, words_of(path))) for path, name in files() if name.startswith(("src/", "include/"))]


def report():
    for found, table, what in ((phrases_found(), REMAINING, "phrases"), (names_found(), REMAINING_NAMES, "names")):
        counts = judge(found, table, what)[1]
        print(f"# {sum(counts.values())} {what} remain in paths that are not clean yet")
        for row, count in counts.items():
            if count < table[row]:
                print(f"# {row}: {count} {what}; lower its number from {table[row]}")


@test("no phrase of the list is in what a person reads", init=False)
def _(_ws):
    refuse(judge(phrases_found(), REMAINING, "phrases")[0], "say it plainly (tests/checks/words.py has the plain form):")


@test("src/ and include/ name no specification that their reader does not have", init=False)
def _(_ws):
    refuse(judge(names_found(), REMAINING_NAMES, "names")[0], "describe the rule instead of naming its source:")


@test("the check finds phrases in comments, strings and over two lines, and nothing in code", init=False)
def _(ws):
    source = ws.path / "x.c"
    source.write_text('/* Whoever\n * comes. It can be gone\n * on with. */\nint mend(int whoever); /* Who holds it? */\n'
                      'char *s = "it is told";\n/* Who waits is woken. seed 3 */\n')
    text = words_of(source)
    found = [problem.split(": ")[1] for problem in phrase_problems(ROOT / "x.c", text)]
    assert found == ["Whoever", "gone on with", "is told", "/* Who waits"], found
    assert [m[0] for m in NAME.finditer(text)] == ["seed"], text


report()
main(__name__)
