"""What a command of `lock run` inherits, and what a stopped waiter keeps from others."""
import os
import signal

from harness.harness import test, main, eq


@test("tasuki killed while it renews leaves the lock held by its command, and the guard free")
def _(ws):
    holder = ws.spawn_command([ws.fault_binary, "lock", "run", "job", "--ttl", "300ms", "--", "sleep", "600"],
                              env={"TASUKI_FAULT_AT": "1", "TASUKI_FAULT_MODE": "kill", "TASUKI_FAULT_ONLY": "renameat2"})
    ws.until(lambda: holder.poll() is not None, "tasuki is killed at its first renewal")
    eq(holder.returncode, -signal.SIGKILL)
    found = ws.tasuki("--json", "lock", "check", "name", "job").expect(4).json
    eq(found["holder"]["how"], "life byte is locked")
    ws.tasuki("--json", "lock", "acquire", "name", "job", "--pid", str(os.getpid()), "--force", "--yes", "--kill").expect(0)


@test("a waiter that is stopped does not keep a free lock from those behind it", slow=True)
def _(ws):
    holder = ws.spawn("lock", "run", "gate", "--", "sleep", "600")
    ws.until_held("name", "gate")
    first = ws.spawn("lock", "run", "gate", "--wait", "forever", "--", "true")
    ws.until(lambda: tickets(ws, "gate") == 1, "the first one stands in line")
    os.kill(first.pid, signal.SIGSTOP)
    second = ws.spawn("lock", "run", "gate", "--wait", "forever", "--", "true")
    ws.until(lambda: tickets(ws, "gate") == 2, "the second one stands in line")
    holder.terminate()
    ws.finish(holder)
    eq(ws.finish(second).code, 0)
    os.kill(first.pid, signal.SIGCONT)
    eq(ws.finish(first).code, 0)


def tickets(ws, name):
    """The last ticket that was given, from the guard file."""
    state = (ws.path / ".aiflow/locks/.guard" / f"name.{name}").read_bytes()
    return int.from_bytes(state[56:64], "little")


main(__name__)
