"""What people read: every answer and refusal has words in each language, and says what a refusal must say."""

import os
import pty
import re
import subprocess

from harness.harness import eq, test, main

LANGUAGES = ("en", "ja", "zh")
KANA = re.compile("[\u3041-\u30ff]")
HAN = re.compile("[\u4e00-\u9fff]")
JAPANESE = re.compile("[\u3041-\u30ff\u4e00-\u9fff]")
# The sprint's first line and its warning are the contract of U2, word for word, whatever the language.
FIXED = re.compile(r"^(?:clean|acquired|released|blocked|zombie-detected|failure): .*|Lock session mismatch .*",
                   re.MULTILINE)
WORDS = re.compile(r"[A-Za-z']{2,}(?: [A-Za-z']{2,}){2,}")


def said(result):
    """What a person sees, and that nothing of it is a hole."""
    text = result.out + result.err
    assert "bug at" not in text and "{" not in text and result.code >= 0, result
    return text


def sentences(text):
    """The lines that have three words in a row and are no command to type. Numbers differ anyway."""
    lines = [re.sub(r"\d+", "0", line.strip()) for line in text.splitlines()]
    return {line for line in lines if WORDS.search(line) and not line.startswith("tasuki ")}


def compare(steps):
    """steps: language -> [(command, what it said)]. Each language must have words of its own for each command."""
    eq([len(steps[lang]) for lang in LANGUAGES], [len(steps["en"])] * 3, "numbers of steps")
    assert any(sentences(text) for _, text in steps["en"]), "no sentence in English"
    for rows in zip(*(steps[lang] for lang in LANGUAGES)):
        command = rows[0][0]
        english, japanese, chinese = (text.strip() for _, text in rows)
        eq(bool(japanese), bool(english), f"whether {command} says anything in Japanese")
        eq(bool(chinese), bool(english), f"whether {command} says anything in Chinese")
        for lang, text in (("Japanese", japanese), ("Chinese", chinese)):
            eq(sentences(english) & sentences(text), set(), f"English in the {lang} of {command}")
        if english:
            assert not KANA.search(english) and not HAN.search(english), f"{command} in English:\n{english}"
            needed = KANA if sentences(english) else JAPANESE  # a label may do without kana, a sentence may not
            assert needed.search(japanese), f"{command} has no Japanese:\n{japanese}"
            assert HAN.search(chinese) and not KANA.search(chinese), f"{command} has no Chinese:\n{chinese}"


def holder(ws):
    return ws.spawn_command(["sleep", "600"])


@test("every lock command speaks every language, when it succeeds and when it refuses")
def _(ws):
    steps = {}
    for lang in LANGUAGES:
        keeper, other = holder(ws), holder(ws)
        steps[lang] = []

        def do(*args):
            steps[lang].append((args, said(ws.tasuki("--lang", lang, *args))))
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
    compare(steps)


@test("every sprint command speaks every language, when it succeeds and when it refuses")
def _(ws):
    steps = {}
    for lang in LANGUAGES:
        keeper = holder(ws)
        steps[lang] = []

        def do(*args):
            text = said(ws.tasuki("--lang", lang, "sprint", *args))
            steps[lang].append((args, FIXED.sub("", text)))
            return text
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
        do("release", "--session", "s-2")
    compare(steps)


@test("the comparison of languages notices English that was not translated", init=False)
def _(ws):
    def refused(japanese, chinese):
        try:
            compare({"en": [("c", "The lock is free.")], "ja": [("c", japanese)], "zh": [("c", chinese)]})
        except AssertionError:
            return True
        return False
    assert not refused("ロックは空いています。", "锁是空闲的。")
    assert refused("The lock is free.", "锁是空闲的。")
    assert refused("ロックは空いています。", "ロックは空いています。")
    assert refused("はい\nThe lock is free.", "锁是空闲的。")
    assert refused("", "锁是空闲的。")


@test("the end of the input answers a question with no, on a line of its own")
def _(ws):
    keeper = holder(ws)
    ws.tasuki("lock", "acquire", "name", "x", "--pid", str(keeper.pid)).expect(0)
    main_side, side = pty.openpty()
    proc = subprocess.Popen([ws.binary, "lock", "acquire", "name", "x", "--force"], cwd=ws.path, env=ws.env(),
                            stdin=side, stdout=side, stderr=side)
    os.close(side)
    question = read_terminal(main_side, b"[y/N] ")
    os.write(main_side, b"\x04")
    answer = read_terminal(main_side)
    os.close(main_side)
    eq(proc.wait(), 4, "exit code")
    assert question.endswith(b"[y/N] ") and answer.startswith(b"\r\ntasuki: "), question + answer


def read_terminal(fd, until=None):
    """What the terminal shows up to `until`, or to the end."""
    data = b""
    while until is None or until not in data:
        try:
            data += os.read(fd, 4096)
        except OSError:  # EIO: the other side is closed
            break
    return data


@test("a refusal says who, since when, alive and how we know, until when, and what to do next")
def _(ws):
    keeper = holder(ws)
    ws.tasuki("lock", "acquire", "name", "x", "--pid", str(keeper.pid), "--session", "s-1").expect(0)
    text = ws.tasuki("lock", "acquire", "name", "x").err
    for needed in ("name x", f"pid {keeper.pid}", "session s-1", "since", "yes: the process exists", "expires", "--wait",
                   "lock check name x", "--force"):
        assert needed in text, f"{needed!r} is missing in:\n{text}"
    ws.tasuki("sprint", "acquire", "--session", "s-1", "--epic", "e", "--pid", str(keeper.pid)).expect(0)
    text = ws.tasuki("sprint", "acquire", "--session", "s-2", "--epic", "e").err
    for needed in (f"PID: {keeper.pid}", "s-1", "yes: the process exists", "sprint check", "--force"):
        assert needed in text, f"{needed!r} is missing in:\n{text}"


main(__name__)
