"""A run that notifies, killed at every one of its file-system calls: no notification twice."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "spec"))
from flows import with_tool  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from requests_common import call  # noqa: E402

STEPS_MAX = 1000


@test("a run with notify, killed at every file-system call and resumed, notifies at most once", quick=False)
def _(ws):
    (ws.path / ".aiflow/config.yaml").write_text("notify: {done: 'cat >> told', stuck: 'cat >> told'}\n")
    (ws.path / "f.yaml").write_text("tasks: {a: 'true'}\n")
    for n in range(1, STEPS_MAX):
        result = ws.fault("run", "f.yaml", "--json", at=n, mode="kill", env=with_tool(ws))
        for id in [path.name for path in (ws.path / ".aiflow/runs").glob("RUN-*")]:
            ws.tasuki("resume", id, "--json", env=with_tool(ws))
            marks = list((ws.path / ".aiflow/runs" / id).glob("notified.done.*"))
            assert len(marks) <= 1, f"{marks} after a kill at call {n}"
        ws.commands.clear()
        call(ws, "runs", "prune", "--keep", "0", "--older", "0s")
        if result.calls is not None and result.calls < n:
            break
    else:
        raise AssertionError(f"it makes more than {STEPS_MAX} calls")
    ws.until(lambda: id in (ws.path / "told").read_text(), "the last one, which nobody has killed, has notified")
    told = [json.loads(line)["run_id"] for line in (ws.path / "told").read_text().splitlines()]
    eq(len(told), len(set(told)), "notifications of different runs")


main(__name__)
