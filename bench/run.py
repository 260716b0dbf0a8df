#!/usr/bin/env python3
"""Benchmarks beside peers and limits: ./dev bench [NAME]

Every target is a ratio of two things measured in turn in the same run, because absolute figures move with the
machine. Results: a table on stdout, and the last run's figures in bench/results/NAME.json. A peer that is not
installed is skipped, and said so. A missed target is shown, not an error; a broken exclusion or a failing driver is
an error (exit 1)."""
import argparse
import importlib.util
import os
import pathlib
import shutil
import signal
import sys
import tempfile

import report

HERE = pathlib.Path(__file__).resolve().parent
# Each is bench/NAME/measure.py with measure(context) -> (rows, raw).
BENCHES = ["locks", "processes", "crash", "flows", "engine", "mcp", "http", "page", "growth", "terminal", "redis"]


class Context:
    """Where things are, and how long to measure."""

    def __init__(self, build, work, quick):
        self.build, self.work, self.quick = build, work, quick
        here = build / "tasuki"
        self.tasuki = here if here.exists() else build / "src" / "tasuki"
        self.conformance = build / "tests" / "mcp" / "tasuki-conformance"  # tasuki with the fixtures of the MCP suite

    def driver(self, name):
        return str(self.build / "bench" / name)

    def say(self, text):
        print(f"# {text}", file=sys.stderr, flush=True)


def load(name):
    spec = importlib.util.spec_from_file_location(f"bench_{name}", HERE / name / "measure.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name, build, quick):
    # Beside the build, not in /tmp: that is often memory, where creating a file costs nothing.
    work = pathlib.Path(tempfile.mkdtemp(prefix="bench-", dir=build))
    (work / ".git").mkdir()  # or, in a linked worktree, commands without --root would mean the main one's workspace
    try:
        facts = report.machine(work)
        report.print_machine(facts)
        rows, raw = load(name).measure(Context(build, work, quick))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    report.print_table(rows)
    if quick:
        print("quick run: figures are rough and were not written")
    else:
        print(f"written to {os.path.relpath(report.write_json(name, facts, rows, raw))}")


def main():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored if the bench was started in the background
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", choices=BENCHES, help="default: all")
    parser.add_argument("--build", default="build", type=pathlib.Path, metavar="DIR", help="the build directory")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, to see that it runs")
    arguments = parser.parse_args()
    for name in [arguments.name] if arguments.name else BENCHES:
        try:
            run(name, arguments.build.resolve(), arguments.quick)
        except (RuntimeError, OSError) as error:
            print(f"bench {name}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
