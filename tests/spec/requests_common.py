"""What tests of requests and the queue have in common."""

import json
import os
import signal
import pathlib

from flows import last_document, with_tool
from harness.harness import eq

GATE = "echo $$ >> up; while ! test -e go; do sleep 0.01; done; echo $TASUKI_RUN_ID >> trace"


def add(ws, id, command="echo $TASUKI_RUN_ID >> trace", **keys):
    """Writes a request's file as a person would."""
    lines = [f"title: {id}\n", f"run: {json.dumps(command)}\n"]
    lines += [f"{key}: {json.dumps(value)}\n" for key, value in keys.items()]
    path = ws.path / ".aiflow/requests" / f"{id}.yaml"
    path.write_text("".join(lines))
    return path


def call(ws, *args, code=0, reason=None, **options):
    return ws.tasuki("--json", *args, env=with_tool(ws), **options).expect(code, reason)


def run(ws, id, *args, code=0):
    """Runs it to its end; the stage."""
    return last_document(call(ws, "request", "run", id, *args, code=code))


def refused(ws, id, *args, code=4, reason="RUN_IN_PROGRESS"):
    return call(ws, "request", "run", id, *args, code=code, reason=reason).json


def queue(ws, *args, code=0):
    return last_document(call(ws, "queue", "run", *args, code=code))


def shown(ws, id):
    return call(ws, "request", "show", id).json


def listed(ws, *args):
    return {one["id"]: one for one in call(ws, "request", "list", *args).json["requests"]}


def runs_of(ws, id=None):
    runs = call(ws, "runs", "list", "-n", "100000").json["runs"]
    return [one for one in runs if id in (None, one["request_id"])]


def status(ws, run_id):
    return call(ws, "runs", "show", run_id).json["status"]


def spawn(ws, *args, **options):
    return ws.spawn(*args, "--json", env=with_tool(ws), **options)


def begin(ws, id, command=GATE, **keys):
    """A request that runs in the background until the file `go` is there. (Popen, run id)"""
    add(ws, id, command, **keys)
    proc = spawn(ws, "request", "run", id)
    ws.until_file("up")
    return proc, ws.read_lock("request", id)["run_id"]


def go(ws):
    (ws.path / "go").touch()


def no_locks(ws):
    eq(call(ws, "lock", "list").json["locks"], [], "locks")


def kill(ws, pid):
    """SIGKILL, and it is gone."""
    os.kill(pid, signal.SIGKILL)
    ws.until(lambda: not ws.alive(pid), f"{pid} is gone")


def trace(ws):
    path = ws.path / "trace"
    return path.read_text().split() if path.exists() else []


def stage_file(ws, run_id):
    return ws.path / ".aiflow/runs" / run_id / "stage.json"


def parent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
