"""The beginning of a run, killed at every file-system call: a run that is listed can be resumed."""

import os
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "spec"))
from flows import run_ids, with_tool, write_flow  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402

STEPS_MAX = 400


@test("run, killed at every file-system call: whatever is listed can be resumed", slow=True)
def _(ws):
    write_flow(ws, "flow: a >> b\ntasks: {a: 'true', b: 'true'}\n")
    listed = 0
    for n in range(1, STEPS_MAX):
        result = ws.fault("run", "flow.yaml", "--json", at=n, mode="kill", env=with_tool(ws))
        for run in run_ids(ws):
            listed += 1
            ws.tasuki("resume", run, "--json", env=with_tool(ws)).expect(0)
            shutil.rmtree(ws.path / ".aiflow/runs" / run)
        shutil.rmtree(ws.path / ".aiflow/runs/.new", ignore_errors=True)
        ws.commands.clear()
        if result.calls is not None and result.calls < n:
            break
    else:
        raise AssertionError(f"it makes more than {STEPS_MAX} calls")
    assert listed > 5, f"only {listed} runs were listed"


@test("what a crash has left of a run that was being made is removed by the next run; a new one is left alone")
def _(ws):
    write_flow(ws, "tasks: {a: 'true'}\n")
    for name, age in (("RUN-20200101T000000-000aaa", 3600), ("RUN-20200101T000000-000bbb", 0)):
        place = ws.path / ".aiflow/runs/.new" / name
        place.mkdir(parents=True)
        (place / "life").touch()
        (place / "flow.yaml").write_text("x")
        if age:
            os.utime(place, (1, 1))
    ws.tasuki("run", "flow.yaml").expect(0)
    eq(sorted(p.name for p in (ws.path / ".aiflow/runs/.new").iterdir()), ["RUN-20200101T000000-000bbb"], "what is left")


main(__name__)
