"""What the suites about the who share."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import Agent  # noqa: E402

# A program that is an agent of its own: it starts its server and passes on what it is told.
WRAPPER = "import subprocess, sys; p = subprocess.Popen(sys.argv[1:]); sys.exit(p.wait())"
KEYS = {"label", "user", "program", "pid", "host", "instance"}


def client(ws, name, *args, env=None, **options):
    """An MCP client with a name and a process of its own."""
    return Agent(ws, command=[sys.executable, "-c", WRAPPER, ws.binary, "mcp", *args], name=name, env=env, **options)


def events(ws, type=None):
    found = [json.loads(line) for line in (ws.path / ".aiflow" / "events.ndjson").read_text().splitlines()]
    return [event for event in found if "type" in event and type in (None, event["type"])]


def who_of(ws, id):
    return ws.tasuki("lock", "check", "name", id, "--json").json["holder"]["who"]
