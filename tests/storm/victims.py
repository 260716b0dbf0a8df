"""The processes of a test by what they are, and their deaths."""

import os
import pathlib
import signal

from harness.harness import children_of


def everybody():
    """Living processes of this test: {kind: [pids]}."""
    found, todo = {}, [os.getpid()]
    while todo:
        for pid in children_of(todo.pop()):
            todo.append(pid)
            try:
                name = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
            except OSError:
                continue
            kind = {"tasuki": "runner", "tasuki-hold": "holder"}.get(name, "task")
            found.setdefault(kind, []).append(pid)
    return found


def strike(rng):
    """SIGKILL for the runners, the holders, both, or all."""
    victims = rng.choice([["runner"], ["runner"], ["holder"], ["runner", "holder"], ["holder", "runner"], ["runner", "holder", "task"]])
    people = everybody()
    for kind in victims:
        for pid in people.get(kind, []):
            kill(pid)


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
