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
    ("renew", steps.renew, ("name",)),
    ("release", steps.release, ("name",)),
    ("sprint acquire", steps.sprint_acquire, ("sprint",)),
    ("sprint release", steps.sprint_release, ("sprint",)),
    ("lock run", steps.lock_run, ("name",)),
)
FAULTS = {"name": ("ENOSPC", "SHORT", "EIO", "EMFILE", "ENOMEM"), "sprint": ("SHORT", "EIO", "EMFILE")}


def must_be_over(result, is_over):
    """A kill that did not happen: the operation made fewer calls, and went well."""
    assert is_over, f"exit {result.code} although call {result.calls} was to kill it"
    result.expect(0)


def must_be_clean(result, is_over):
    """Success, or exit 3 with a reason that is the environment's; or a refusal because it could not be found out
    whether the holder lives, which counts as alive."""
    if result.code == 0:
        return
    assert not is_over, f"it failed without a fault\n{result}"
    if result.code == 4:
        doubt = result.error["context"].get("holder", {}).get("alive", "unknown")
        assert doubt is None, f"exit 4, and alive is {doubt!r}\n{result}"
        return
    result.expect(3)
    if "error" in result.json:
        reason = result.error["reason_code"]
        assert reason in CLEAN, f"reason_code {reason}, expected one of {CLEAN}\n{result}"


def must_be_refused(result, is_over):
    """The lock is held by a living process: exit 4, or 3 when that could not be found out."""
    assert result.code != 0, f"a living holder was overlooked\n{result}"
    result.expect(3 if result.code == 3 and not is_over else 4)


def check(ws, operation, kind, mode, judge_code):
    bench = steps.Bench(ws, kind)
    try:
        count = steps.for_every_step(bench, operation, mode, judge_code)
        assert count >= 5, f"only {count} file-system calls were seen: are they going through the table?"
    finally:
        bench.close()


for _rule, _operation, _kinds in OPERATIONS:
    for _kind in _kinds:
        @test(f"{_rule} ({_kind}) ended by SIGKILL before any call needs no cleaning up", quick=_kind == "name",
              slow=_operation != OPERATIONS[0][1])
        def _(ws, operation=_operation, kind=_kind):
            check(ws, operation, kind, "kill", must_be_over)

        for _mode in FAULTS.get(_kind, ()):
            @test(f"{_rule} ({_kind}) in which any call fails with {_mode} succeeds or fails cleanly", quick=False)
            def _(ws, operation=_operation, kind=_kind, mode=_mode):
                check(ws, operation, kind, mode, must_be_clean)

for _kind in ("name", "sprint"):
    for _mode in FAULTS[_kind]:
        @test(f"a living holder ({_kind}) is not taken for a dead one when any call fails with {_mode}", quick=False)
        def _(ws, kind=_kind, mode=_mode):
            check(ws, steps.acquire_held, kind, mode, must_be_refused)


@test("release (name) ended by SIGKILL right after any call needs no cleaning up", slow=True)
def _(ws):
    check(ws, steps.release, "name", "kill-after", must_be_over)


main(__name__)
