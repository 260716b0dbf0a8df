"""The removal of runs, ended or failed at every one of its file-system calls: a run is there as a whole, or not at all, the next
removal brings it to its end, and no request changes its state."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "spec"))
from flows import with_tool  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from prune_common import age, ids, left_behind, old_run, runs_dir  # noqa: E402
from requests_common import add, call, listed, run  # noqa: E402

STEPS_MAX = 400
ALL = ("runs", "prune", "--keep", "0", "--older", "0s")


def is_whole(ws, id):
    """What a run has that can be shown and resumed."""
    folder = runs_dir(ws) / id
    return all((folder / name).exists() for name in ("life", "journal", "stage.json", "flow.yaml")) and json.loads((folder / "stage.json").read_text())["run_id"] == id


def check(ws, mode, words):
    add(ws, "RQ-1", "true")
    run(ws, "RQ-1")
    kept = age(ws, max(ids(ws)), 0, year=2019)
    state = listed(ws)["RQ-1"]
    for n in range(1, STEPS_MAX):
        old = old_run(ws, n, command="echo hello")
        result = ws.fault(*words(old), "--json", at=n, mode=mode, env=with_tool(ws))
        there = set(ids(ws)) - {kept}
        eq(all(is_whole(ws, id) for id in there), True, f"each of {there} is whole, broken at call {n}")
        if there:
            call(ws, "runs", "show", old)
        else:
            call(ws, "runs", "show", old, code=5, reason="RUN_NOT_FOUND")
        eq(listed(ws)["RQ-1"], state, "the request")
        call(ws, *ALL)
        eq((ids(ws), left_behind(ws), list((runs_dir(ws) / ".open").iterdir())), ([kept], [], []), f"after the next removal, broken at call {n}")
        ws.commands.clear()
        if result.calls is not None and result.calls < n:
            assert n > 30, f"only {n} calls were seen"
            return
    raise AssertionError(f"it makes more than {STEPS_MAX} calls")


for _mode, _slow, _quick in (("kill", True, True), ("EIO", True, False), ("ENOSPC", True, False)):
    @test(f"runs prune broken by {_mode} at every file-system call", slow=_slow, quick=_quick)
    def _(ws, mode=_mode):
        check(ws, mode, lambda id: ALL)

    @test(f"runs rm broken by {_mode} at every file-system call", slow=_slow, quick=False)
    def _(ws, mode=_mode):
        check(ws, mode, lambda id: ("runs", "rm", id))


main(__name__)
