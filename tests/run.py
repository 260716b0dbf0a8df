#!/usr/bin/env python3
"""Runs every test and says in the last line how it went: `N passed, N failed[, N skipped]`.

    tests/run.py --build DIR [--quick | --medium] [--long] [--jobs N] [FILTER...]

A suite is a program that prints TAP: the unit tests and examples' tests of the build directory, tests/checks/*, and
tests/{spec,crash,browser,storm}/test_*.py. FILTER: only suites whose path contains one (`storm`, `spec/test_cli`). Two suites
per processor run at a time, four with --quick, because most of them wait; the storms come last, one per processor, because they
do not. A suite that prints no test, stops before its plan is fulfilled or crashes counts as a failed test.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time

TESTS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(TESTS))
sys.dont_write_bytecode = True

from harness.workspace import kill_tree  # noqa: E402

SUITE_DEADLINE_S = 1800
LINE = re.compile(r"^(not )?ok\b(?: (\d+))?(?: - )?(.*?)(?:\s+# (SKIP|TODO)\b\s*(.*))?$", re.IGNORECASE)
PLAN = re.compile(r"^1\.\.(\d+)(\s+# SKIP\b.*)?")


class Suite:
    def __init__(self, name, argv, takes_options=False, is_storm=False):
        self.name = name
        self.argv = argv
        self.takes_options = takes_options
        self.is_storm = is_storm


class Outcome:
    """What a suite's TAP says."""

    def __init__(self, suite):
        self.suite = suite
        self.passed = 0
        self.skipped = []  # (test, reason)
        self.failed = []  # (test, details)
        self.seconds = 0.0
        self.is_empty = False  # none of its tests was chosen

    def read(self, text, code, errors):
        plan, waived, failing = None, False, None
        for line in text.splitlines():
            found, planned = LINE.match(line), PLAN.match(line)
            if planned:
                plan, waived = int(planned[1]), bool(planned[2])
            elif found:
                failing = self._count(found)
            elif failing is not None and line.strip():
                failing.append(line)
        self._judge(plan, waived, code, errors)

    def _count(self, found):
        name = found[3].strip() or f"test {found[2]}"
        if found[4] and found[4].upper() == "SKIP":
            self.skipped.append((name, found[5] or "no reason given"))
            return None
        if not found[1]:
            self.passed += 1
            return None
        details = []
        self.failed.append((name, details))
        return details

    def _judge(self, plan, waived, code, errors):
        ran = self.passed + len(self.failed) + len(self.skipped)
        tail = errors.splitlines()[-30:]
        self.is_empty = ran == 0 and waived and code == 0
        if ran == 0 and not self.is_empty:
            self.failed.append(("the suite runs", [f"# it printed no test (exit {code})", *tail]))
        elif plan is None and ran:
            self.failed.append(("the suite states its plan", ["# there is no line 1..N"]))
        elif plan is not None and plan != ran:
            self.failed.append(("the suite runs to its end", [f"# {ran} of {plan} tests ran (exit {code})", *tail]))
        elif code != 0 and not self.failed:
            self.failed.append(("the suite ends well", [f"# exit {code} without a failing test", *tail]))


def find_suites(build):
    suites = []
    for folder in ("", "unit/", "examples/"):
        for path in sorted((build / "tests" / folder).glob("*_test")):
            suites.append(Suite(f"{folder or 'unit/'}{path.name}", [path]))
    for path in sorted((TESTS / "checks").glob("*")):
        if path.suffix == ".py":
            suites.append(Suite(f"checks/{path.name}", [sys.executable, path], path.name == "model.py"))
        elif path.is_file() and os.access(path, os.X_OK):
            suites.append(Suite(f"checks/{path.name}", [path]))
    for folder in ("spec", "examples", "crash", "browser", "storm"):
        for path in sorted((TESTS / folder).glob("test_*.py")):
            suites.append(Suite(f"{folder}/{path.name}", [sys.executable, path], True, is_storm=folder == "storm"))
    return suites


def run_suite(suite, options):
    env = dict(os.environ, TASUKI_BUILD=str(options.build), PYTHONPATH=str(TESTS), PYTHONPYCACHEPREFIX=str(options.build / "pycache"))
    argv = [str(a) for a in suite.argv]
    if suite.takes_options:
        argv += ["--quick"] * options.quick + ["--medium"] * options.medium + ["--long"] * options.long
    outcome = Outcome(suite)
    began = time.monotonic()
    with subprocess.Popen(argv, cwd=TESTS.parent, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace") as proc:
        try:
            out, err = proc.communicate(timeout=None if options.long else SUITE_DEADLINE_S)
        except subprocess.TimeoutExpired:
            kill_tree(proc.pid)
            out, err = proc.communicate()
            err += f"\nthe suite did not end within {SUITE_DEADLINE_S} s"
    outcome.seconds = time.monotonic() - began
    outcome.read(out, proc.returncode, err)
    show(outcome, options)
    return outcome


def show(outcome, options):
    lines = []
    for name, details in outcome.failed:
        lines += [f"FAILED {outcome.suite.name}: {name}"] + [f"    {line}" for line in details]
    counts = f"{outcome.passed:4} passed {len(outcome.failed):3} failed {len(outcome.skipped):3} skipped"
    if outcome.is_empty:
        counts = f"{'(nothing in --quick)' if options.quick or options.medium else '(nothing without --long)':{len(counts)}}"
    lines.append(f"{outcome.suite.name:36} {counts} {outcome.seconds:7.1f} s")
    print("\n".join(lines), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--quick", action="store_true", help="only the quick tests, for the edit loop")
    parser.add_argument("--medium", action="store_true", help="only what takes seconds, for the sanitizers")
    parser.add_argument("--long", action="store_true", help="the long ones as well, without a deadline")
    parser.add_argument("--jobs", type=int, default=0, help="suites at a time (two per processor, with --quick four)")
    parser.add_argument("filters", nargs="*", default=[""])
    options = parser.parse_args()
    suites = [s for s in find_suites(options.build) if any(part in s.name for part in options.filters)]
    if not suites:
        sys.exit(f"no suite's name contains {' or '.join(options.filters)!r}")
    cores = os.cpu_count() or 1
    jobs = options.jobs or (4 if options.quick else 2) * cores
    storms = [s for s in suites if s.is_storm and not options.quick]
    beside = [s for s in suites if s not in storms]
    beside = longest_first(beside, options.build) if options.quick else folders_first(beside, "crash/", "browser/", "checks/")
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        outcomes = list(pool.map(lambda s: run_suite(s, options), beside))
    with concurrent.futures.ThreadPoolExecutor(cores) as pool:
        outcomes += list(pool.map(lambda s: run_suite(s, options), storms))
    remember_seconds(outcomes, options)
    sys.exit(summarize(outcomes))


def seconds_path(build):
    return build / "suite-seconds.json"


def known_seconds(build):
    """How long each suite took when it last ran with --quick."""
    try:
        return json.loads(seconds_path(build).read_text())
    except (OSError, ValueError):
        return {}


def longest_first(suites, build):
    """So that none of them is the last to end, alone."""
    known = known_seconds(build)
    return sorted(suites, key=lambda suite: -known.get(suite.name, 1.0))


def folders_first(suites, *folders):
    """The folders with the longest suites, for a build that has never run them."""
    return sorted(suites, key=lambda suite: next((i for i, folder in enumerate(folders) if suite.name.startswith(folder)), len(folders)))


def remember_seconds(outcomes, options):
    if options.quick:
        known = {**known_seconds(options.build), **{o.suite.name: round(o.seconds, 2) for o in outcomes}}
        seconds_path(options.build).write_text(json.dumps(known, indent=1))


def summarize(outcomes):
    passed = sum(o.passed for o in outcomes)
    failed = sum(len(o.failed) for o in outcomes)
    skipped = [(o.suite.name, *s) for o in outcomes for s in o.skipped]
    for suite, name, reason in skipped:
        print(f"skipped {suite}: {name} ({reason})")
    for outcome in outcomes:
        for name, _ in outcome.failed:
            print(f"failed {outcome.suite.name}: {name}")
    print(f"{passed} passed, {failed} failed" + (f", {len(skipped)} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    main()
