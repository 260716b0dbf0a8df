"""Every operation on a lock, ended or failed at every one of its file-system calls. What must hold: crash/steps.py."""

from crash import steps
from harness.harness import main, test

CLEAN = ("ENVIRONMENT", "STORAGE_FULL")

# (rule, operation, kinds). The request and the queue lock share the code of the name lock: they are only killed.
OPERATIONS = (
    ("acquire of a free lock", steps.acquire_absent, ("name", "sprint", "request", "queue")),
    ("takeover of a stale lock", steps.acquire_stale, ("name", "sprint", "request", "queue")),
    ("force on a living holder", steps.acquire_force, ("name", "sprint")),
    ("force with --kill", steps.acquire_force_kill, ("name",)),
    ("renew", steps.renew, ("name", "sprint")),
    ("release", steps.release, ("name", "sprint")),
    ("sprint acquire", steps.sprint_acquire, ("sprint",)),
    ("sprint release", steps.sprint_release, ("sprint",)),
    ("lock run", steps.lock_run, ("name",)),
)
FAULTS = ("ENOSPC", "SHORT", "EIO", "EMFILE", "ENOMEM")


def must_be_over(result, is_over):
    """A kill that did not happen: the operation made fewer calls, and went well."""
    assert is_over, f"exit {result.code} although call {result.calls} was to kill it"
    result.expect(0)


def must_be_clean(result, is_over):
    """Success, or exit 3 with a reason that is the environment's."""
    if result.code == 0:
        return
    assert not is_over, f"it failed without a fault\n{result}"
    result.expect(3)
    if "error" in result.json:
        reason = result.error["reason_code"]
        assert reason in CLEAN, f"reason_code {reason}, expected one of {CLEAN}\n{result}"


def check(ws, operation, kind, mode):
    bench = steps.Bench(ws, kind)
    try:
        count = steps.for_every_step(bench, operation, mode, must_be_over if mode.startswith("kill") else must_be_clean)
        assert count >= 5, f"only {count} file-system calls were seen: are they going through the table?"
    finally:
        bench.close()


for _rule, _operation, _kinds in OPERATIONS:
    for _kind in _kinds:
        _modes = ("kill",) if _kind in ("request", "queue") else ("kill", "kill-after")
        for _mode in _modes:
            @test(f"{_rule} ({_kind}) ended by SIGKILL {'after' if _mode == 'kill-after' else 'before'} any call needs "
                  "no cleaning up", quick=_mode == "kill" and _kind == "name")
            def _(ws, operation=_operation, kind=_kind, mode=_mode):
                check(ws, operation, kind, mode)
    for _mode in FAULTS:
        for _kind in [k for k in _kinds if k in ("name", "sprint")]:
            @test(f"{_rule} ({_kind}) in which any call fails with {_mode} succeeds or fails cleanly", quick=False)
            def _(ws, operation=_operation, kind=_kind, mode=_mode):
                check(ws, operation, kind, mode)


main(__name__)
