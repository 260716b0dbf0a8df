"""What people read: every answer and refusal has words in each language, and says what a refusal must say."""
from harness.harness import test, main

LANGUAGES = ("en", "ja", "zh")


def said(result):
    """What a person sees, and that nothing of it is a hole."""
    text = result.out + result.err
    assert "bug at" not in text and "{" not in text and result.code >= 0, result
    return text


def holder(ws):
    return ws.spawn_command(["sleep", "600"])


@test("every lock command speaks every language, when it succeeds and when it refuses")
def _(ws):
    for lang in LANGUAGES:
        keeper, other = holder(ws), holder(ws)

        def do(*args):
            return said(ws.tasuki("--lang", lang, *args))
        do("lock", "acquire", "name", "x", "--pid", str(keeper.pid), "--session", "s-1", "--run", "RUN-1")
        do("lock", "check", "name", "x")
        do("lock", "list")
        do("status")
        do("lock", "renew", "name", "x", "--token", ws.read_lock("name", "x")["token"])
        for refused in (["acquire", "name", "x"], ["release", "name", "x"], ["renew", "name", "x"],
                        ["acquire", "name", "x", "--force"], ["run", "x", "--", "true"]):
            do("lock", *refused)
        keeper.kill()
        ws.finish(keeper)
        do("lock", "check", "name", "x")
        do("lock", "acquire", "name", "x", "--pid", str(other.pid))
        do("lock", "release", "name", "x", "--token", ws.read_lock("name", "x")["token"])
        do("lock", "release", "name", "x")
        other.kill()
        ws.finish(other)


@test("every sprint command speaks every language, when it succeeds and when it refuses")
def _(ws):
    for lang in LANGUAGES:
        keeper = holder(ws)

        def do(*args):
            return said(ws.tasuki("--lang", lang, "sprint", *args))
        do("check")
        do("acquire", "--session", "s-1", "--epic", "e", "--pid", str(keeper.pid))
        blocked = do("check")
        assert str(keeper.pid) in blocked and "s-1" in blocked, blocked
        do("acquire", "--session", "s-2", "--epic", "e")
        keeper.kill()
        ws.finish(keeper)
        do("check")
        do("acquire", "--session", "s-2", "--epic", "e")
        do("release", "--session", "s-9", "--strict")
        do("release", "--session", "s-9")
        do("acquire", "--session", "s-2")


@test("a refusal says who, since when, alive and how we know, until when, and what to do next")
def _(ws):
    keeper = holder(ws)
    ws.tasuki("lock", "acquire", "name", "x", "--pid", str(keeper.pid), "--session", "s-1").expect(0)
    text = ws.tasuki("lock", "acquire", "name", "x").err
    for needed in ("name x", f"pid {keeper.pid}", "session s-1", "since", "yes: the process exists", "expires", "--wait",
                   "lock release name x", "--force"):
        assert needed in text, f"{needed!r} is missing in:\n{text}"
    ws.tasuki("sprint", "acquire", "--session", "s-1", "--epic", "e", "--pid", str(keeper.pid)).expect(0)
    text = ws.tasuki("sprint", "acquire", "--session", "s-2", "--epic", "e").err
    for needed in (f"PID: {keeper.pid}", "s-1", "yes: the process exists", "sprint release", "--force"):
        assert needed in text, f"{needed!r} is missing in:\n{text}"


main(__name__)
