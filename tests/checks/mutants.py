#!/usr/bin/env python3
"""What ./dev mutate changes, and that the mutants that are struck out still exist."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.harness import eq, main, test  # noqa: E402
from harness.sources import ROOT, read, refuse  # noqa: E402

sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools"))
import mutants  # noqa: E402
import mutate  # noqa: E402

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
    int fd = openat(dir, "x", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    return dir < 0 ? -1 : 0;
}
'''


@test("no fault is made that is the same program: descriptor 0, another number below 0, the mode of a file that is not made", init=False)
def _(_ws):
    found = [m.after.strip() for m in mutants.find("src/a/a.c", SAME, CODES) if m.kind in ("constant", "off-by-one")]
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


@test("every folder of src/ has fitting suites, and every suite fits a folder or is left out", init=False)
def _(_ws):
    folders = {path.name for path in (ROOT / "src").iterdir() if path.is_dir() or path.suffix == ".c"}
    eq(set(mutate.FITTING), folders, "the folders in FITTING of tools/mutate.py")
    suites = [name for name, _ in mutate.all_suites()]
    lists = {**mutate.FITTING, "LEFT_OUT": mutate.LEFT_OUT}
    refuse([f"{where}: {part}" for where, parts in lists.items() for part in parts.split()
            if not any(suite.startswith(part) for suite in suites)], "no suite's name begins like this, in tools/mutate.py:")
    judging, left_out = (tuple(part for parts in some for part in parts.split())
                         for some in (mutate.FITTING.values(), [mutate.LEFT_OUT]))
    refuse([suite for suite in suites if suite.startswith(judging) == suite.startswith(left_out)],
           "put these suites into FITTING or into LEFT_OUT of tools/mutate.py, not into both:")


main(__name__)
