#!/usr/bin/env python3
"""Do the tests notice when the code is wrong? Makes small changes to src/, builds each, runs the tests that reach them.

    tools/mutate.py [N] [FOLDER] [--seed S] [--jobs J] [--list] [--only KEY] [--map] [--unreached]

N (default 200) mutants of src/ or of one folder (`lock`, `src/lock`, `src/lock/guard.c`). A mutant that no suite notices
is a survivor; it is printed with its place and its diff, and the exit status is 1. What does not compile or compiles to
the same object is replaced by another mutant. A mutant that changes nothing a caller can see is struck out in
tests/mutants/equivalent.txt. tools/mutate_map.py says which tests reach a mutant. A run continues where the last one stopped: a
verdict holds as long as src/ and the suite that gave it are the same, so after a change to a test only that suite runs on the
survivors.

Each mutant is built in a copy of the tree (build-mutate/tree-N). Its tests run in a cage: a PID namespace of their own,
so that no signal reaches beyond it and no process outlives it, with a /tmp of their own and everything else read-only.
"""

import argparse
import collections
import concurrent.futures
import fcntl
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
import mutants as mutation  # noqa: E402
from mutate_map import Map  # noqa: E402
from mutate_tree import CAUGHT, EQUAL, HOME, HUNG, ROOT, SURVIVED, Tree, all_suites, digest, parts_of, say  # noqa: E402

EQUIVALENT = ROOT / "tests/mutants/equivalent.txt"
TESTS_MAX_S, TESTS_MAX_CPU_S = 40, 20  # of a mutant's tests, as they need it for the map
FAR_MAX_S = 4  # of the tests that reach the file only
FIRST_TESTS = 6  # then twice as many, and so on: tests of a suite that come one after the other start it once
COUNTED = (CAUGHT, HUNG, SURVIVED)

# Suites that judge no mutant: three are about the documentation, one is about the harness, and the storms take minutes or
# depend on chance.
LEFT_OUT = ("spec/test_docs spec/test_steps_runs spec/test_every_night spec/test_picture spec/test_recipes spec/test_harness storm/test_proc_kill_anything "
            "storm/test_proc_races storm/test_queue_kill storm/test_conflict_kill storm/test_serve_kill storm/test_storm "
            "storm/test_line storm/test_redis_storm")

class State:
    """What each mutant of these sources came to. Written after each change.

    verdicts  key -> [verdict, suite and its digest, what failed]
    passed    key of a survivor -> [the keys of the tests that did not notice it]
    """

    def __init__(self, path):
        self.path = path
        self.lock = threading.Lock()
        known = json.loads(path.read_text()) if path.exists() else {}
        self.verdicts = known.get("verdicts", {})
        self.passed = known.get("passed", {})

    def save(self):
        with self.lock:
            hidden = self.path.with_suffix(".new")
            hidden.write_text(json.dumps({"verdicts": dict(self.verdicts), "passed": dict(self.passed)}, indent=1))  # others write meanwhile
            hidden.replace(self.path)


class Run:
    def __init__(self, options):
        self.options = options
        self.files = git("ls-files", "-coz", "--exclude-standard").split("\0")
        self.files = [name for name in self.files if name and os.path.lexists(ROOT / name)]
        self.struck = read_equivalent()
        self.map = Map({suite: path for suite, path in all_suites() if not suite.startswith(tuple(LEFT_OUT.split()))}, self.files)
        self.versions = {self.map.version(suite) for suite in self.map.suites}
        self.state = State(HOME / f"state-{digest(self.judged_by_all())}.json")
        self.trees = []

    def judged_by_all(self):
        """The files that decide about every verdict: all but the suites themselves."""
        suites = {part for _, path in all_suites() for part in parts_of(path)}
        return [ROOT / name for name in self.files
                if name.startswith(("src/", "tests/", "include/", "share/")) and ROOT / name not in suites
                and ROOT / name != EQUIVALENT and not name.startswith("tests/checks/")]

    def candidates(self):
        """All mutants of the folder in the seed's order: kind by kind in turn, so that the rare kinds are seen."""
        codes = mutation.reason_codes((ROOT / "src/base/errors.def").read_text())
        by_kind = {}
        for name in self.files:
            if name.startswith(self.options.folder) and name.endswith(".c"):
                for mutant in mutation.find(name, (ROOT / name).read_text(), codes):
                    by_kind.setdefault(mutant.kind, []).append(mutant)
        def drawn(word):
            # By a hash and not by shuffling: a change of the sources leaves the order of the other mutants as it is.
            return hashlib.sha256(f"{self.options.seed} {word}".encode()).digest()

        for some in by_kind.values():
            some.sort(key=lambda mutant: drawn(mutant.key))
        while by_kind:
            for kind in sorted(by_kind, key=drawn):
                yield by_kind[kind].pop()
                if not by_kind[kind]:
                    del by_kind[kind]

    # -- tests ------------------------------------------------------------------------------------------------

    def fitting(self, mutant):
        """[(suite, its tests)] to run in this order, and whether one of them reaches the mutant. First come the tests that spend
        much of their work in the file, that have caught much, and that take little time."""
        words = set(pathlib.Path(mutant.file).stem.split("_")) - {"op", "test", "spec", "crash", "unit", "storm"}
        caught = collections.Counter(suite.split(" ")[0] for verdict, suite, _ in list(self.state.verdicts.values())
                                     if verdict == CAUGHT)

        def worth(test):
            share = test.lines[mutant.file].bit_count() / test.size
            return (1 + 40 * share + 2 * sum(word in test.suite or word in test.name for word in words)
                    + caught[test.suite] / 20) / (test.seconds + test.cpu + 0.3)

        near, far = self.map.reaching(mutant.file, self.lines_of(mutant))
        chosen, seconds, cpu = [], 0.0, 0.0
        for test in by_turns(near, worth):
            if chosen and (seconds + test.seconds > TESTS_MAX_S or cpu + test.cpu > TESTS_MAX_CPU_S):
                continue
            chosen, seconds, cpu = chosen + [test], seconds + test.seconds, cpu + test.cpu
        seconds = 0.0
        for test in sorted(far, key=worth, reverse=True) if not near else []:
            seconds += test.seconds
            if seconds <= FAR_MAX_S:
                chosen.append(test)
        return chosen, bool(near)

    def lines_of(self, mutant):
        """Its line; of a constant, the lines that name it."""
        if mutant.function:
            return [mutant.line]
        names = re.findall(r"[A-Z][A-Z0-9_]{2,}", mutant.before) or ["?"]
        text = (ROOT / mutant.file).read_text().splitlines()
        return [number for number, line in enumerate(text, 1) if any(re.search(rf"\b{name}\b", line) for name in names)]

    def deadline(self, tests):
        return 20 + 5 * sum(test.seconds for test in tests)

    def is_confirmed(self, mutant, tree, suite, tests, verdict):
        """Whether the mutant is why the tests failed. All have passed without it, for the map; if they have hung, they are asked
        again, at the same load and with the same time."""
        if verdict == CAUGHT:
            return True
        tree.restore()
        passes = tree.run(suite, tests, self.deadline(tests))[0] == SURVIVED
        if not passes:
            say(f"{suite} does not end in time without a mutant either: it is not counted for {mutant.key}")
            tree.mutate(mutant)
        return passes

    def in_trees(self, items, function):
        """function(item, tree) for each item, as many at a time as there are trees."""
        free = list(self.trees)
        lock = threading.Lock()

        def call(item):
            with lock:
                tree = free.pop()
            try:
                return function(item, tree)
            finally:
                with lock:
                    free.append(tree)

        with concurrent.futures.ThreadPoolExecutor(len(self.trees)) as pool:
            return list(pool.map(call, items))

    # -- mutants ----------------------------------------------------------------------------------------------

    def try_one(self, mutant, tree, tests):
        """[verdict, suite and its digest, what failed]"""
        problem = tree.mutate(mutant)
        if problem:
            return [problem, "", ""]
        for suite, some in batches(tests):
            verdict, failed = tree.run(suite, some, self.deadline(some))
            if verdict == SURVIVED:
                self.state.passed.setdefault(mutant.key, []).extend(test.key for test in some)
            elif self.is_confirmed(mutant, tree, suite, some, verdict):
                return [verdict, self.map.version(suite), failed]
        return [SURVIVED, "", ""]

    def decide(self, mutant, tree):
        if mutant.key in self.struck:
            return [EQUAL, "", self.struck[mutant.key]]
        if self.options.only:
            self.state.verdicts.pop(mutant.key, None)
            self.state.passed.pop(mutant.key, None)
        known = self.state.verdicts.get(mutant.key)
        if known and known[0] != SURVIVED and (not known[1] or known[1] in self.versions):
            return known
        passed = self.state.passed.get(mutant.key, [])
        tests, is_reached = self.fitting(mutant)
        tests = [test for test in tests if test.key not in passed]
        if known and known[0] == SURVIVED and not tests:
            return known
        began = time.monotonic()
        verdict = self.state.verdicts[mutant.key] = self.try_one(mutant, tree, tests)
        self.state.save()
        if verdict[0] in COUNTED:
            reached = "" if is_reached else "(no test reaches it) "
            say(f"{verdict[0]:8} {place(mutant)} {mutant.kind} {mutant.key} {time.monotonic() - began:.0f} s "
                f"{reached}{verdict[1].split(' ')[0]} {verdict[2]}".rstrip() + ("\n" + mutant.diff() if verdict[0] == SURVIVED else ""))
        return verdict

    def load_map(self):
        missing = self.map.load()
        if missing or self.options.map:
            self.map.make(list(self.map.suites) if self.options.map else missing, 2 * (os.cpu_count() or 1))
            self.map.load()

    def unreached(self):
        """[(file, line, function)]: the functions that no test enters."""
        self.load_map()
        found = []
        for name in self.files:
            if name.startswith(self.options.folder) and name in self.map.blocks:
                text = (ROOT / name).read_text()
                reached = functools.reduce(int.__or__, (-1 if name in test.outdated else test.lines.get(name, 0) for test in self.map.tests))
                for start, end, function in mutation.functions(text):
                    first, last = (text.count("\n", 0, at) + 1 for at in (start, end))
                    own = [line for line in self.map.blocks[name] if first - 1 <= line <= last]
                    if own and not any(reached >> line & 1 for line in own):
                        found.append((name, first, function))
        return found

    def go(self):
        """[(mutant, verdict)] of N mutants that count."""
        found = list(self.candidates())
        if self.options.only:
            found = [mutant for mutant in found if mutant.key == self.options.only]
        if not found:
            sys.exit(f"mutate: there is no {'such mutant' if self.options.only else 'code to change'} in {self.options.folder}")
        self.load_map()
        self.trees = [Tree(n) for n in range(self.options.jobs)]
        for tree in self.trees:
            say(f"building {tree.path.relative_to(ROOT)}")
            tree.prepare(self.files)
        source = iter(found)
        results, lock = [], threading.Lock()
        counted = 0

        def worker(_, tree):
            nonlocal counted
            while True:
                with lock:
                    mutant = next(source, None) if counted < self.options.count else None
                    if not mutant:
                        break
                    counted += 1
                verdict = self.decide(mutant, tree)
                with lock:
                    results.append((mutant, verdict))
                    counted -= verdict[0] not in COUNTED
            tree.restore()

        self.in_trees(range(len(self.trees)), worker)
        return results


def by_turns(tests, worth):
    """The best first; a suite's next test counts less than its last one, because it may look at the same."""
    count, found = collections.Counter(), []
    for test in sorted(tests, key=worth, reverse=True):
        found.append((worth(test) / (1 + count[test.suite] / 4), test))
        count[test.suite] += 1
    return [test for _, test in sorted(found, key=lambda one: one[0], reverse=True)]


def batches(tests):
    """[(suite, its tests)]: the tests in their order, but in groups, of which each is larger than the one before."""
    at, size = 0, FIRST_TESTS
    while at < len(tests):
        group = {}
        for test in tests[at: at + size]:
            group.setdefault(test.suite, []).append(test)
        yield from group.items()
        at, size = at + size, 2 * size


def read_equivalent():
    """{key: reason}"""
    found = {}
    for line in EQUIVALENT.read_text().splitlines() if EQUIVALENT.exists() else []:
        if line.strip() and not line.startswith("#"):
            key, _, reason = line.split(None, 2)
            found[key] = reason
    return found


def place(mutant):
    return f"{mutant.file}:{mutant.line}"


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def report(results):
    """Prints the score and the survivors; returns the exit status."""
    scores, survivors = {}, []
    for mutant, verdict in results:
        if verdict[0] in COUNTED:
            score = scores.setdefault(mutant.folder, [0, 0])
            score[0] += verdict[0] != SURVIVED
            score[1] += 1
        if verdict[0] == SURVIVED:
            survivors.append(mutant)
    for mutant in survivors:
        print(f"\n{place(mutant)} {mutant.function}: {mutant.kind}, {mutant.key}\n{mutant.diff()}")
    print()
    for folder, (caught, all) in sorted(scores.items()):
        print(f"{folder:8} {caught:4} of {all:4} caught  {100 * caught / all:5.1f} %")
    caught, all = sum(c for c, _ in scores.values()), sum(a for _, a in scores.values())
    print(f"{caught} of {all} mutants caught, {len(survivors)} survived"
          + (f" ({100 * caught / all:.1f} %)" if all else ""))
    return 1 if survivors else 0


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="N | FOLDER", help="how many mutants (200); a folder or file of src/")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=3, help="mutants at a time")
    parser.add_argument("--list", action="store_true", help="list the mutants that would be tried, and try none")
    parser.add_argument("--map", action="store_true", help="make the map of what the tests reach anew: some minutes")
    parser.add_argument("--unreached", action="store_true", help="list the functions that no test reaches")
    parser.add_argument("--only", metavar="KEY", help="try this mutant again")
    options = parser.parse_args()
    options.count, options.folder = 200, "src/"
    for word in options.words:
        if word.isdigit():
            options.count = int(word)
        else:
            options.folder = word.rstrip("/") if word.startswith("src") else f"src/{word.rstrip('/')}"
            if not (ROOT / options.folder).exists():
                parser.error(f"there is no {options.folder}")
            options.folder += "/" if (ROOT / options.folder).is_dir() else ""
    options.jobs = 1 if options.only else max(1, options.jobs)
    return options


def main():
    options = options_of()
    HOME.mkdir(exist_ok=True)
    run = Run(options)
    if options.list:
        for mutant, _ in zip(run.candidates(), range(options.count)):
            print(f"{mutant.key} {place(mutant)} {mutant.function}: {mutant.kind}\n{mutant.diff()}")
        return 0
    with open(HOME / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"mutate: another run works in {HOME}")
        if options.unreached:
            for file, line, function in run.unreached():
                print(f"{file}:{line} {function}")
            return 0
        return report(run.go())


if __name__ == "__main__":
    sys.exit(main())
