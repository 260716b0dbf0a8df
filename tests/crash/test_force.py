"""A force that dies in the middle has happened or has not."""
from harness.harness import test, main, eq


def holder_of(ws):
    """A living process that holds the lock, with its token."""
    child = ws.spawn_command(["sleep", "600"])
    token = ws.tasuki("--json", "lock", "acquire", "name", "prize", "--pid", str(child.pid)).expect(0).json["token"]
    return child, token


@test("a force killed at any step leaves the lock with the holder or with the forcer, never with nobody", quick=False)
def _(ws):
    forcer = ws.spawn_command(["sleep", "600"])
    old, new = 0, 0
    for at in range(1, 200):
        _, token = holder_of(ws)
        result = ws.fault("--json", "lock", "acquire", "name", "prize", "--pid", str(forcer.pid), "--force", "--yes",
                          at=at, mode="kill")
        renewed = ws.tasuki("--json", "lock", "renew", "name", "prize", "--token", token)
        if renewed.code == 0:
            old += 1
        else:
            eq(renewed.error["reason_code"], "LOCK_LOST")
            eq(ws.read_lock("name", "prize")["pid"], forcer.pid)
            new += 1
        ws.tasuki("lock", "release", "name", "prize", "--token", ws.read_lock("name", "prize")["token"]).expect(0)
        if result.code == 0:
            break
    assert old > 10 and new >= 1, f"old {old}, new {new}: the force was not killed where it matters"


main(__name__)
