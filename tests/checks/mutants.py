#!/usr/bin/env python3
"""What ./dev mutate changes, and that the mutants that are struck out still exist."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.harness import eq, main, test  # noqa: E402
from harness.sources import ROOT, read, refuse  # noqa: E402

sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools"))
import mutants  # noqa: E402
import mutate  # noqa: E402
import mutate_map  # noqa: E402

CODES = ["NOT_FOUND", *(f"OTHER_{n}" for n in range(9)), "LOCK_HELD"]
CODE = '''#define LIMIT 30
/* if (a < b) return -1; */
static int f(int a, int b)
{
    if (a < b && fs->fdatasync(a) < 0)
        return -1;
    put(a, "x, y");
    free(b);
    return error(TSK_NOT_FOUND, a + 1);
}
'''


def struck():
    lines = read(ROOT / "tests/mutants/equivalent.txt").splitlines()
    return [line.split(None, 2) for line in lines if line.strip() and not line.startswith("#")]


@test("each kind of fault is made where it can be made, and none in comments and texts", init=False)
def _(_ws):
    found = {(m.kind, m.after.strip()) for m in mutants.find("src/a/a.c", CODE, CODES)}
    for one in (("off-by-one", "if (a <= b && fs->fdatasync(a) < 0)"), ("and-or", "if (a < b || fs->fdatasync(a) < 0)"),
                ("lost-sync", "if (a < b && 0 < 0)"), ("negated", "if (!(a < b && fs->fdatasync(a) < 0))"),
                ("failure-to-success", "return 0;"), ("call-removed", "(void)0;"), ("swapped-arguments", 'put("x, y", a);'),
                ("reason-code", "return error(TSK_LOCK_HELD, a + 1);"), ("one-dropped", "return error(TSK_NOT_FOUND, a);")):
        assert one in found, f"{one} is not among\n" + "\n".join(map(str, sorted(found)))
    eq(len([m for m in found if m[0] == "call-removed"]), 1, "calls that can be removed without a leak")
    assert ("constant", "#define LIMIT 31") in found or ("constant", "#define LIMIT 60") in found, found


SAME = '''static int f(int dir)
{
    long left = now < end ? end : now, right = a->b <= c.d ? a->b : c.d, other = now < end ? end : a;
    int fd = openat(dir, "x", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    return dir < 0 ? -1 : 0;
}
'''


@test("no fault is made that is the same program: descriptor 0, the smaller of two equal numbers, another number below 0, the mode of a file that is not made", init=False)
def _(_ws):
    found = [m.after.strip() for m in mutants.find("src/a/a.c", SAME, CODES) if m.kind in ("constant", "off-by-one")]
    eq(len([one for one in found if one.startswith("long left")]), 1, "the smaller of two, and something else")
    eq([one for one in found if "<= 0" in one or "< 1" in one or "-2" in one or "O_CLOEXEC, 1" in one], [], "the same program")
    assert "return dir < 0 ? -1 : 1;" in found or "return dir < 0 ? -0 : 0;" in found, found


BUGS = '''static void f(int a)
{
    BUG(a > 3);
    BUG(!take(a));
}
'''


@test("an assertion is removed only where it also does something: no state reaches the others", init=False)
def _(_ws):
    found = [m.line for m in mutants.find("src/a/a.c", BUGS, CODES) if m.kind == "call-removed"]
    eq(found, [4], "the lines of removed calls")


@test("a mutant keeps its key when lines above it change, and two mutants never share one", init=False)
def _(_ws):
    before, after = ({m.key for m in mutants.find("src/a/a.c", text, CODES)} for text in (CODE, "int x;\n\n" + CODE))
    eq(before, after, "the keys")
    eq(len(before), len(mutants.find("src/a/a.c", CODE, CODES)), "number of keys")


@test("every mutant that is struck out exists, and has a reason", init=False)
def _(_ws):
    codes = mutants.reason_codes(read(ROOT / "src/base/errors.def"))
    known = {}
    problems = []
    for key, file, *reason in struck():
        if file not in known:
            known[file] = {m.key for m in mutants.find(file, read(ROOT / file), codes)} if (ROOT / file).exists() else set()
        if key not in known[file] or not reason:
            problems.append(f"{key} {file}")
    refuse(problems, "remove these lines from tests/mutants/equivalent.txt, or give the reason:")


@test("a suite that judges no mutant exists", init=False)
def _(_ws):
    suites = [name for name, _ in mutate.all_suites()]
    refuse([part for part in mutate.LEFT_OUT.split() if not any(suite.startswith(part) for suite in suites)],
           "no suite's name begins like this, in LEFT_OUT of tools/mutate.py:")


@test("a mutant of a constant is judged by the tests that reach the lines which name it", init=False)
def _(ws):
    (ws.path / "a.c").write_text(CODE.replace("a + 1", "a + LIMIT"))
    run = mutate.Run.__new__(mutate.Run)
    found = {m.function: m for m in mutants.find(os.path.relpath(ws.path / "a.c", ROOT), CODE.replace("a + 1", "a + LIMIT"), CODES)}
    eq((run.lines_of(found[""]), run.lines_of(found["f"])[0] > 1), ([1, 9], True), "the lines")


class Reaching:
    """A map of two tests and a file with blocks at lines 10 and 20."""

    def __init__(self, outdated):
        self.map = mutate_map.Map.__new__(mutate_map.Map)
        self.map.blocks = {"src/a.c": [10, 20]}
        self.map.tests = [mutate_map.Test(f"spec/{n}", f"spec/{n} 0", 1, n, 1, 1, [], {"src/a.c": f"{1 << line:x}"}, outdated)
                          for n, line in (("first", 10), ("second", 20))]

    def names(self, line):
        return [[test.name for test in tests] for tests in self.map.reaching("src/a.c", [line])]


@test("a line is reached by the tests that reach a block in which it may stand; after a change of the file by all that reached it",
      init=False)
def _(_ws):
    eq([Reaching(set()).names(line) for line in (5, 10, 19, 20, 21, 99)],
       [[["first"], ["second"]]] * 3 + [[["first", "second"], []]] + [[["second"], ["first"]]] * 2, "the tests that are near and far")
    eq(Reaching({"src/a.c"}).names(12), [["first", "second"], []], "the tests of a changed file")


main(__name__)
