"""Runs of long ago, for tests of their removal."""

import json

from requests_common import call


def runs_dir(ws):
    return ws.path / ".aiflow/runs"


def ids(ws):
    return sorted(path.name for path in runs_dir(ws).glob("RUN-*"))


def age(ws, run_id, number, year=2020):
    """Makes a run one of years ago, as if the clock had been there; its new id."""
    folder, day = runs_dir(ws), f"{year}-01-01T00:00:{number % 60:02}Z"
    old = f"RUN-{year}0101T{number // 60:04}{number % 60:02}-{run_id[-6:]}"
    stage = folder / run_id / "stage.json"
    document = json.loads(stage.read_text())
    document |= {"run_id": old, "started_at": day} | ({"ended_at": day} if document.get("ended_at") else {})
    stage.write_text(json.dumps(document))
    (folder / run_id).rename(folder / old)
    mark = folder / ".open" / run_id
    if mark.exists():
        mark.rename(folder / ".open" / old)
    note = folder / ".requests" / str(document.get("request_id"))
    if note.exists() and note.read_text() == run_id:
        note.write_text(old)
    return old


def old_run(ws, number=0, command="true", code=0, keep=999):
    """A run of a flow, years old. The end of it removes nothing."""
    flow = ws.path / "one.yaml"
    flow.write_text(json.dumps({"tasks": {"a": {"run": command}}}))
    config = ws.path / ".aiflow/config.yaml"
    before = config.read_text() if config.exists() else None
    config.write_text(f"keep: {{runs: {keep}}}\n")
    call(ws, "run", str(flow), code=code)
    config.unlink() if before is None else config.write_text(before)
    newest = max(ids(ws))
    return age(ws, newest, number)


def left_behind(ws):
    """What removals have left."""
    gone = runs_dir(ws) / ".gone"
    return sorted(path.name for path in gone.iterdir()) if gone.exists() else []
