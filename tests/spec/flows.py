"""What tests of flows have in common: writing a flow, running it, looking at what it left."""

import json
import os

from harness.harness import eq
from harness.redis import Redis


def write_flow(ws, text, name="flow.yaml"):
    (ws.path / name).write_text(text)
    return name


def with_tool(ws):
    """The environment of a run. With TASUKI_TEST_REDIS in the test's own, its tasks are executed by three workers, over Redis."""
    env = {"PATH": f"{ws.build}:{os.environ['PATH']}"}
    if not os.environ.get("TASUKI_TEST_REDIS"):
        return env
    if not getattr(ws, "redis", None):
        ws.redis = Redis(ws)
        for _ in range(3):
            ws.redis.worker("-j", "4")
    return {**env, "TASUKI_REDIS": ws.redis.url}


def run_flow(ws, text, *args, code=0, timeout=60):
    """Runs the flow to its end; the stage. The tasks find `tasuki` in their PATH and append to ./trace."""
    result = ws.tasuki("run", write_flow(ws, text), "--json", *args, env=with_tool(ws), timeout=timeout)
    result.expect(code)
    return last_document(result)


def resume(ws, run, *args, code=0, timeout=60):
    return last_document(ws.tasuki("resume", run, "--json", *args, env=with_tool(ws), timeout=timeout).expect(code))


def last_document(result):
    """`--json` prints a line per fact and the stage, which may span lines, at the end."""
    decoder, text, document = json.JSONDecoder(), result.out.strip(), None
    while text:
        document, end = decoder.raw_decode(text)
        text = text[end:].lstrip()
    return document


def spawn_flow(ws, text, *args):
    return ws.spawn("run", write_flow(ws, text), "--json", *args, env=with_tool(ws))


def trace(ws):
    path = ws.path / "trace"
    return path.read_text().split() if path.exists() else []


def journal(ws, run):
    lines = (ws.path / ".aiflow/runs" / run / "journal").read_bytes().split(b"\n")[:-1]
    return [json.loads(line) for line in lines]


def run_ids(ws):
    folder = ws.path / ".aiflow/runs"
    return {name for name in os.listdir(folder) if name.startswith("RUN-")} if folder.exists() else set()


def only_run(ws):
    runs = sorted(run_ids(ws))
    eq(len(runs), 1, "number of runs")
    return runs[0]


def processes_of(run):
    """Living processes that carry the run's id."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            words = open(f"/proc/{name}/environ", "rb").read().split(b"\0")
            state = open(f"/proc/{name}/stat", errors="replace").read().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if f"TASUKI_RUN_ID={run}".encode() in words and state not in "ZX":
            found.append(int(name))
    return found
