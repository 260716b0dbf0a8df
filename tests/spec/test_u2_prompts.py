"""U2 (seed 002), step 3: who is asked before a sprint lock is overwritten, in which words, and what silence means."""

import re

from common import check_u2, dead_pid, foreign_sprint, iso, sleeper
from harness.harness import eq, main, test

ACQUIRE = ("sprint", "acquire", "--session", "s-1", "--epic", "epic9", "--json")
CHECK = ("sprint", "check", "--json")


def session_in_lock(ws):
    return ws.read_lock("sprint")["session_id"]


@test("a zombie on a terminal is asked about in U2's words (zh)")
def _(ws):
    pid = dead_pid()
    started = iso(-9000)
    foreign_sprint(ws, pid, started=-9000, session="老会话")
    result = ws.tty([*ACQUIRE, "--lang", "zh"], answers=["n"])
    expected = (rf"检测到僵尸锁：\n- PID: {pid} \(进程状态: dead\)\n- Session: 老会话\n"
                rf"- 启动时间: {started[:14]}\d\d:\d\dZ \([\d.]+h ago\)\n- Epic: epic5\n\n"
                r"是否覆盖此锁并启动新 Sprint\? \[y/N\]")
    assert re.search(expected, result.out), result
    result.expect(4)


@test("a live holder with --force is asked about a second time in U2's words (zh)")
def _(ws):
    pid = sleeper(ws).pid
    foreign_sprint(ws, pid, started=0)
    result = ws.tty([*ACQUIRE, "--force", "--lang", "zh"], answers=["n", "n"])
    expected = (rf"警告: 检测到活跃的 Sprint 进程！\n- PID: {pid} \(进程状态: alive\)\n- Session: other-session\n"
                r"- 启动时间: \S+ \([\d.]+h ago\)\n强制覆盖可能导致状态文件损坏。确认覆盖\? \[y/N\]")
    assert re.search(expected, result.out), result
    result.expect(4)
    eq(session_in_lock(ws), "other-session")


@test("the prompts are translated to English and Japanese and name the same facts")
def _(ws):
    pid = dead_pid()
    foreign_sprint(ws, pid)
    shown = {lang: ws.tty([*ACQUIRE, "--lang", lang], answers=["n"]).expect(4).out for lang in ("en", "ja")}
    for lang, text in shown.items():
        for fact in (str(pid), "other-session", "epic5", "[y/N]"):
            assert fact in text, f"{lang}: {fact} is missing in {text!r}"
        assert "检测到" not in text, f"{lang} shows the Chinese text"
    assert shown["en"] != shown["ja"]


@test("matrix: the user refuses to overwrite a zombie: blocked, the lock is as it was")
def _(ws):
    for answer in ("n", "", "no", "x"):
        foreign_sprint(ws, dead_pid())
        before = ws.lock_path("sprint").read_text()
        result = ws.tty(ACQUIRE, answers=[answer], split=True)
        check_u2(result, "blocked", 4, "acquire")
        eq(ws.lock_path("sprint").read_text(), before, f"the lock file after the answer {answer!r}")


@test("y overwrites a zombie")
def _(ws):
    for answer in ("y", "Y"):
        foreign_sprint(ws, dead_pid())
        check_u2(ws.tty(ACQUIRE, answers=[answer], split=True), "acquired", 0, "acquire")
        eq(session_in_lock(ws), "s-1")
        ws.tasuki("sprint", "release").expect(0)


@test("a live holder without --force blocks at once, without a question")
def _(ws):
    foreign_sprint(ws, sleeper(ws).pid, started=0)
    result = ws.tty(ACQUIRE, answers=["y"], split=True)
    check_u2(result, "blocked", 4, "acquire")
    assert "[y/N]" not in result.err, result


@test("a live holder gives way to --force and a second yes")
def _(ws):
    foreign_sprint(ws, sleeper(ws).pid, started=0)
    check_u2(ws.tty([*ACQUIRE, "--force"], answers=["n", "n"], split=True), "blocked", 4, "acquire")
    eq(session_in_lock(ws), "other-session")
    check_u2(ws.tty([*ACQUIRE, "--force"], answers=["y", "y"], split=True), "acquired", 0, "acquire")
    eq(session_in_lock(ws), "s-1")


@test("no answer within 30 s is a no", quick=False)
def _(ws):
    foreign_sprint(ws, dead_pid())
    result = ws.tty(ACQUIRE, answers=[None], split=True, timeout=90)
    check_u2(result, "blocked", 4, "acquire")
    assert "[y/N]" in result.err, result
    eq(session_in_lock(ws), "other-session")


@test("without a terminal and without --yes a zombie blocks at once")
def _(ws):
    foreign_sprint(ws, dead_pid())
    value = check_u2(ws.tasuki(*ACQUIRE, input="y\n", timeout=45), "blocked", 6, "acquire")
    eq(value["lock_info"]["is_zombie"], True, "is_zombie")
    eq(session_in_lock(ws), "other-session")


@test("without a terminal --yes overwrites a zombie")
def _(ws):
    foreign_sprint(ws, dead_pid())
    check_u2(ws.tasuki(*ACQUIRE, "--yes"), "acquired", 0, "acquire")
    eq(session_in_lock(ws), "s-1")


@test("--yes alone never takes a live holder's lock, --force alone neither")
def _(ws):
    foreign_sprint(ws, sleeper(ws).pid, started=0)
    check_u2(ws.tasuki(*ACQUIRE, "--yes"), "blocked", 4, "acquire")
    value = check_u2(ws.tasuki(*ACQUIRE, "--force", timeout=45), "blocked", 6, "acquire")
    assert any("--yes" in text for text in value["errors"]), value
    eq(session_in_lock(ws), "other-session")


@test("--force with --yes takes a live holder's lock")
def _(ws):
    foreign_sprint(ws, sleeper(ws).pid, started=0)
    check_u2(ws.tasuki(*ACQUIRE, "--force", "--yes"), "acquired", 0, "acquire")
    eq(session_in_lock(ws), "s-1")
    check_u2(ws.tasuki(*CHECK), "blocked", 4, "check")


@test("while a person is asked another one may take the lock; the late yes does not take it away again")
def _(ws):
    foreign_sprint(ws, dead_pid())
    result = ws.tty(ACQUIRE, split=True, answers=[lambda: take(ws) or "y"])
    check_u2(result, "blocked", 4, "acquire")
    eq(session_in_lock(ws), "quick")


def take(ws):
    ws.tasuki("sprint", "acquire", "--session", "quick", "--epic", "e", "--yes").expect(0)


@test("a session id that tries to colour the terminal is shown escaped in the prompt")
def _(ws):
    foreign_sprint(ws, dead_pid(), session="\x1b[31mred\x07")
    result = ws.tty(ACQUIRE, answers=["n"])
    assert "\x1b[31m" not in result.out and "\x07" not in result.out, result


main(__name__)
