"""Every operation on a process, ended or failed at every one of its file-system calls. What must hold: crash/proc_steps.py."""

from crash import proc_steps as steps
from harness.harness import main, test

CLEAN = ("ENVIRONMENT", "STORAGE_FULL")
# (rule, operation, what an unbroken run answers, the errors that it is tried with)
OPERATIONS = (
    ("create", steps.create, 0, ("EIO", "SHORT")),
    ("start", steps.start, 0, ("EIO", "SHORT", "EMFILE")),
    ("start of a running process", steps.start_running, 4, ("EIO",)),
    ("a look at a process whose holder is dead", steps.look, 0, ("EIO",)),
    ("stop", steps.stop, 0, ("EIO", "SHORT")),
    ("remove --force of a running process", steps.remove, 0, ("EIO",)),
    ("update", steps.update, 0, ("EIO", "SHORT")),
    ("import", steps.import_file, 0, ("EIO",)),
)


def must_be_over(expected):
    """A kill that did not happen: the operation made fewer calls, and went as it should. Or it hit the clone that was about to
    become a holder: then a start has failed, and a look can do without."""
    def judge(result, is_over):
        assert result.code == expected or not is_over and result.code in (3, 7), f"it failed without a fault\n{result}"
    return judge


def must_be_clean(expected):
    """As it should go, or exit 3 with a reason that is the environment's."""
    def judge(result, is_over):
        if result.code == expected:
            return
        assert not is_over, f"it failed without a fault\n{result}"
        result.expect(3)
        reason = result.error["reason_code"]
        assert reason in CLEAN, f"reason_code {reason}, expected one of {CLEAN}\n{result}"
    return judge


def check(ws, operation, mode, judge_code):
    count = steps.for_every_step(steps.Bench(ws), operation, mode, judge_code)
    assert count >= 5, f"only {count} file-system calls were seen: are they going through the table?"


for _rule, _operation, _expected, _modes in OPERATIONS:
    @test(f"{_rule}, ended by SIGKILL before any call, needs no cleaning up", quick=False, deadline=300)
    def _(ws, operation=_operation, expected=_expected):
        check(ws, operation, "kill", must_be_over(expected))

    for _mode in _modes:
        @test(f"{_rule}, in which any call fails with {_mode}, succeeds or fails cleanly", quick=False, deadline=300)
        def _(ws, operation=_operation, expected=_expected, mode=_mode):
            check(ws, operation, mode, must_be_clean(expected))


main(__name__)
