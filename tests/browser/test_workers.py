#!/usr/bin/env python3
"""The workers of a Redis server on the page: who is there, and orders for them."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from browser_common import Browser, need_browser, play, scenarios  # noqa: E402
from harness.harness import main, test  # noqa: E402
from harness.redis import Redis  # noqa: E402


def with_workers(ws, name):
    need_browser()
    redis = Redis(ws)
    redis.worker("--name", "alpha", "--tags", "gpu,big", "-j", "2")
    redis.worker("--name", "beta", "-j", "1")
    play(ws, "workers.mjs", name, env={"TASUKI_REDIS": redis.url}, scene={"redis": redis.process.pid})


for name, rule in (("workers", "workers with host, tags, places, tasks and version; drain and stop ask first; a Redis that is away is said"),
                   ("looks", "the list of workers: axe finds nothing; light, dark, narrow; English, Japanese, Chinese")):
    test(rule, quick=False, deadline=240, before=Browser.begin)(lambda ws, name=name: with_workers(ws, name))
scenarios("workers.mjs", without="without Redis there are no workers in the navigation")
main(__name__)
