"""A process that is stopped in the middle of changing a lock is named; it does not hang the others."""
import os
import signal

from harness.harness import test, main


@test("a command that meets a guard held for ten seconds names the process that holds it", quick=False)
def _(ws):
    # The first pwrite of an acquisition writes the guard's state, which is done with byte 0 held.
    stopped = ws.spawn_command([ws.fault_binary, "lock", "acquire", "name", "busy", "--pid", str(os.getpid())],
                               env={"TASUKI_FAULT_STOP_AT": "1", "TASUKI_FAULT_ONLY": "pwrite"})
    ws.until(lambda: state_of(stopped.pid) == "T", "the process stops")
    result = ws.tasuki("--json", "lock", "acquire", "name", "busy", "--pid", str(os.getpid()))
    os.kill(stopped.pid, signal.SIGCONT)
    ws.finish(stopped)
    result.expect(3, "ENVIRONMENT")
    assert str(stopped.pid) in result.error["message"], result
    ws.tasuki("--json", "lock", "check", "name", "busy").expect(4)


def state_of(pid):
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0]


main(__name__)
