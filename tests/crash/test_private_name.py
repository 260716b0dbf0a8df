"""What a crash between an exchange and its end leaves under the private name."""
import json

from harness.harness import test, main, eq


def killed_after_exchange(ws, *args):
    """Runs a taking command that is killed right after its exchange; the private name is left."""
    private = ws.lock_path("name", "prize").parent / ".tsk-name.prize"
    for at in range(1, 20):
        ws.fault("lock", "acquire", "name", "prize", *args, at=at, mode="kill-after",
                 env={"TASUKI_FAULT_ONLY": "renameat2"})
        if private.exists():
            return private
    raise AssertionError("no exchange was made")


@test("a living holder's file that a dead forcer left under the private name goes back to its place")
def _(ws):
    holder, forcer = ws.spawn_command(["sleep", "600"]), ws.spawn_command(["sleep", "600"])
    ws.tasuki("lock", "acquire", "name", "prize", "--pid", str(holder.pid)).expect(0)
    private = killed_after_exchange(ws, "--pid", str(forcer.pid), "--force", "--yes")
    eq(json.loads(private.read_text())["pid"], holder.pid)
    ws.finish(kill(forcer))
    eq(ws.tasuki("--json", "lock", "check", "name", "prize").expect(4).json["holder"]["pid"], holder.pid)
    assert not private.exists()


@test("a dead holder's file under the private name is removed")
def _(ws):
    holder, taker = ws.spawn_command(["sleep", "600"]), ws.spawn_command(["sleep", "600"])
    ws.tasuki("lock", "acquire", "name", "prize", "--pid", str(holder.pid)).expect(0)
    ws.finish(kill(holder))
    private = killed_after_exchange(ws, "--pid", str(taker.pid))
    eq(ws.tasuki("--json", "lock", "check", "name", "prize").expect(4).json["holder"]["pid"], taker.pid)
    assert not private.exists()


def kill(process):
    process.kill()
    return process


main(__name__)
