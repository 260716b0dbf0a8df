"""What a crash between an exchange and its end leaves under the private name."""
import json
import time

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


def kill(ws, process):
    process.kill()
    ws.finish(process)


def forced_from_another_tool(ws):
    """A living holder of another tool's, whose file a killed forcer left under the private name."""
    holder, forcer = ws.spawn_command(["sleep", "600"]), ws.spawn_command(["sleep", "600"])
    now = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
    later = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() + 1800))
    ws.write_lock("name", "prize", {"version": "1.0", "lock_type": "name", "request_id": None, "run_id": None,
                                    "pid": holder.pid, "host": "127.0.0.1", "created_at": now, "expires_at": later})
    private = killed_after_exchange(ws, "--pid", str(forcer.pid), "--force", "--yes")
    eq(json.loads(private.read_text())["pid"], holder.pid)
    kill(ws, forcer)
    return holder, private


@test("another tool's living lock that a dead forcer left under the private name goes back to its place")
def _(ws):
    holder, private = forced_from_another_tool(ws)
    eq(ws.tasuki("--json", "lock", "check", "name", "prize").expect(4).json["holder"]["pid"], holder.pid)
    assert not private.exists()


@test("another tool's lock that was released since does not come back from the private name")
def _(ws):
    _, private = forced_from_another_tool(ws)
    ws.lock_path("name", "prize").unlink()  # D39's release: whatever is at the path
    ws.tasuki("--json", "lock", "check", "name", "prize").expect(0)
    assert not private.exists()


@test("a force that was killed after its exchange has happened: the old holder stays fenced off")
def _(ws):
    holder, forcer = ws.spawn_command(["sleep", "600"]), ws.spawn_command(["sleep", "600"])
    token = ws.tasuki("--json", "lock", "acquire", "name", "prize", "--pid", str(holder.pid)).expect(0).json["token"]
    private = killed_after_exchange(ws, "--pid", str(forcer.pid), "--force", "--yes")
    ws.tasuki("--json", "lock", "renew", "name", "prize", "--token", token).expect(4, "LOCK_LOST")
    kill(ws, forcer)
    ws.tasuki("--json", "lock", "check", "name", "prize").expect(6)
    ws.tasuki("--json", "lock", "renew", "name", "prize", "--token", token).expect(4, "LOCK_LOST")
    assert not private.exists()


@test("a dead holder's file under the private name is removed")
def _(ws):
    holder, taker = ws.spawn_command(["sleep", "600"]), ws.spawn_command(["sleep", "600"])
    ws.tasuki("lock", "acquire", "name", "prize", "--pid", str(holder.pid)).expect(0)
    kill(ws, holder)
    private = killed_after_exchange(ws, "--pid", str(taker.pid))
    eq(ws.tasuki("--json", "lock", "check", "name", "prize").expect(4).json["holder"]["pid"], taker.pid)
    assert not private.exists()


@test("an attempt that was killed before its exchange never becomes the holder")
def _(ws):
    holder, taker = ws.spawn_command(["sleep", "600"]), ws.spawn_command(["sleep", "600"])
    ws.tasuki("lock", "acquire", "name", "prize", "--pid", str(holder.pid)).expect(0)
    kill(ws, holder)
    for at in range(1, 10):
        ws.fault("lock", "acquire", "name", "prize", "--pid", str(taker.pid), at=at, mode="kill",
                 env={"TASUKI_FAULT_ONLY": "renameat2"})
        if (ws.lock_path("name", "prize").parent / ".tsk-name.prize").exists():
            break
    eq(ws.tasuki("--json", "lock", "check", "name", "prize").expect(6).json["holder"]["pid"], holder.pid)


main(__name__)
