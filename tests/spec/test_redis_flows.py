"""Spec 6, "More than one machine": the tests of flows once more, with their tasks on three workers. A test that differs has its reason
beside it."""

import os
import pathlib
import subprocess
import sys

from harness.harness import eq, main, test
from harness.redis import Redis

HERE = pathlib.Path(__file__).resolve().parent
# Suite -> {the beginning of a test's name: why it differs}. (Random graphs and their reference, test_flow_property, are tests/storm/test_redis_storm.py here.)
ENVIRONMENT = "the environment of a task is its worker's, not the runner's"
SOON = {"test_flow_values": {}, "test_flow_when": {}, "test_flow_resume_fixes": {}}
LATER = {
    "test_001_graflow": {},
    "test_answers": {},
    "test_flow_attempts": {},
    "test_flow_chosen": {},
    "test_flow_engine_fixes": {},
    "test_flow_leftovers": {},
    "test_flow_limits": {},
    "test_flow_params": {"parameters are values of the channel": ENVIRONMENT},
    "test_flow_reflow": {},
    "test_flow_run": {},
    "test_questions": {},
    "test_run_output": {},
    "test_run_ends": {"a run whose runner was killed before its last stage has its values": ENVIRONMENT},
    "test_run_tasks": {},
}


def run_over_redis(ws, suite, different):
    Redis(ws)  # or the test is skipped
    done = subprocess.run([sys.executable, str(HERE / f"{suite}.py")], env={**os.environ, "TASUKI_TEST_REDIS": "1", "TASUKI_BUILD": str(ws.build)},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    passed = [line for line in done.stdout.splitlines() if line.startswith("ok ")]
    failed = [line.partition(" - ")[2] or line for line in done.stdout.splitlines() if line.startswith("not ok ")]
    odd = [name for name in failed if not any(name.startswith(known) for known in different)]
    eq((odd, len(failed), len(passed) > 2), ([], len(different), True), f"{suite}: failures, {done.stdout[-3000:]}")


for suites, is_long in ((SOON, False), (LATER, True)):
    for suite, different in suites.items():
        test(f"{suite} over Redis and three workers", slow=True, quick=False, long=is_long, init=False)(
            lambda ws, suite=suite, different=different: run_over_redis(ws, suite, different))


main(__name__)
