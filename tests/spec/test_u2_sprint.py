"""U2 (seed 002): statuses, return value, messages, input checks, prompts and the lock file of the sprint lock."""

import os

from common import (ADDED_KEYS, ISO_UTC, NOBODY, U2_KEYS, acquire_from_a_script, check_error, check_u2, dead_pid, edit_lock,
                    foreign_sprint, iso, make_old, need_root, run_as_nobody, sleeper)
from harness.harness import eq, main, test

ACQUIRE = ("sprint", "acquire", "--session", "s-1", "--epic", "epic5", "--json")
CHECK = ("sprint", "check", "--json")
RELEASE = ("sprint", "release", "--json")


# -- the status table ---------------------------------------------------------------------------------------

@test("status acquired: acquire without a lock")
def _(ws):
    value = check_u2(ws.tasuki(*ACQUIRE), "acquired", 0, "acquire")
    eq(value["message"], "Lock acquired successfully for session s-1")
    eq(value["errors"], [])
    info = value["lock_info"]
    eq(info["pid"], os.getpid(), "the recorded pid (the caller of tasuki)")
    eq((info["session_id"], info["epic_spec"], info["pid_alive"], info["is_zombie"]), ("s-1", "epic5", True, False))
    assert 0 <= info["age_hours"] < 0.1, info
    assert ISO_UTC.match(info["started_at"]), info


@test("status acquired: a zombie is overwritten with --force, without a question")
def _(ws):
    foreign_sprint(ws, dead_pid())
    check_u2(ws.tasuki(*ACQUIRE, "--force"), "acquired", 0, "acquire")
    eq(ws.read_lock("sprint")["session_id"], "s-1")


@test("status released: the lock file is deleted")
def _(ws):
    ws.tasuki(*ACQUIRE).expect(0)
    value = check_u2(ws.tasuki(*RELEASE), "released", 0, "release")
    eq(value["message"], "Lock released successfully")
    eq((value["errors"], value["lock_info"]["exists"]), ([], False))
    assert not ws.lock_path("sprint").exists()


@test("status released: release without a lock succeeds (idempotent)")
def _(ws):
    value = check_u2(ws.tasuki(*RELEASE), "released", 0, "release")
    eq(value["lock_info"]["exists"], False)


@test("status blocked: acquire meets an active lock without force")
def _(ws):
    foreign_sprint(ws, sleeper(ws).pid, started=0)
    before = ws.lock_path("sprint").read_text()
    value = check_u2(ws.tasuki(*ACQUIRE), "blocked", 4, "acquire")
    info = value["lock_info"]
    eq(value["message"], f"Sprint already running (PID: {info['pid']}, session: other-session, "
                         f"started: {info['started_at']})")
    eq((info["pid_alive"], info["is_zombie"], info["exists"]), (True, False, True))
    eq(ws.lock_path("sprint").read_text(), before, "the lock file")


@test("the commands of a refusal have the caller's session and epic, ready to be typed")
def _(ws):
    words = ("sprint", "acquire", "--session", "s-2", "--epic", "epic 5")
    typed = "tasuki sprint acquire --session s-2 --epic 'epic 5'"
    foreign_sprint(ws, sleeper(ws).pid, started=0)
    text = ws.tasuki(*words).expect(4).err
    assert f"{typed} --wait 30m\n" in text and f"{typed} --force\n" in text and "S --epic" not in text, text
    text = ws.tasuki(*words, "--force").expect(6).err
    assert f"{typed} --wait 30m\n" in text and "S --epic" not in text, text
    ws.lock_path("sprint").unlink()
    foreign_sprint(ws, dead_pid())
    text = ws.tasuki(*words).err
    assert f"{typed} --yes\n" in text and "S --epic" not in text, text


@test("status blocked: check meets an active lock")
def _(ws):
    ws.tasuki(*ACQUIRE).expect(0)
    value = check_u2(ws.tasuki(*CHECK), "blocked", 4, "check")
    eq((value["lock_info"]["session_id"], value["lock_info"]["pid_alive"]), ("s-1", True))


@test("status zombie-detected: check meets a dead holder (case A)")
def _(ws):
    pid = dead_pid()
    foreign_sprint(ws, pid, started=-9000)
    info = check_u2(ws.tasuki(*CHECK), "zombie-detected", 6, "check")["lock_info"]
    eq((info["pid"], info["pid_alive"], info["is_zombie"], info["session_id"]), (pid, False, True, "other-session"))
    assert 2.4 <= info["age_hours"] <= 2.6, info


@test("status zombie-detected: a living holder older than 24 h (case B)")
def _(ws):
    hold_since(ws, -24 * 3600 - 60)
    info = check_u2(ws.tasuki(*CHECK), "zombie-detected", 6, "check")["lock_info"]
    eq((info["pid_alive"], info["is_zombie"]), (True, True))
    assert info["age_hours"] > 24, info


@test("status blocked: a living holder a little younger than 24 h is active (case C)")
def _(ws):
    hold_since(ws, -24 * 3600 + 60)
    info = check_u2(ws.tasuki(*CHECK), "blocked", 4, "check")["lock_info"]
    eq((info["pid_alive"], info["is_zombie"]), (True, False))


@test("the age of a sprint counts from its start: neither a check nor a renewal makes it younger")
def _(ws):
    hold_since(ws, -13 * 3600)
    token = ws.read_lock("sprint")["token"]
    for _ in range(2):
        info = check_u2(ws.tasuki(*CHECK), "blocked", 4, "check")["lock_info"]
        assert 12.9 < info["age_hours"] < 13.1, info
    ws.tasuki("lock", "renew", "sprint", "--token", token)
    info = check_u2(ws.tasuki(*CHECK), "blocked", 4, "check")["lock_info"]
    assert 12.9 < info["age_hours"] < 13.1, info


def hold_since(ws, seconds):
    """A sprint lock of ours with a living holder that began so long ago."""
    pid = sleeper(ws).pid
    ws.tasuki("lock", "acquire", "sprint", "--session", "s", "--epic", "e", "--pid", pid).expect(0)
    expires = ws.read_lock("sprint")["expires_boot_ms"]
    edit_lock(ws, "sprint", None, started_at=iso(seconds), expires_boot_ms=expires + seconds * 1000)


@test("status zombie-detected: a lock file that is not YAML (case D)")
def _(ws):
    ws.write_lock("sprint", None, "pid: [1, 2\n  }: {\n")
    value = check_u2(ws.tasuki(*CHECK), "zombie-detected", 6, "check")
    assert "Lock file exists but has invalid format" in value["errors"], value
    eq((value["lock_info"]["exists"], value["lock_info"]["is_zombie"]), (True, True))


@test("status zombie-detected: a lock file without a pid is a zombie")
def _(ws):
    ws.write_lock("sprint", None, "session_id: x\nstarted_at: \"2026-02-07T22:30:00Z\"\n")
    check_u2(ws.tasuki(*CHECK), "zombie-detected", 6, "check")


@test("status clean: check without a lock")
def _(ws):
    value = check_u2(ws.tasuki(*CHECK), "clean", 0, "check")
    eq((value["lock_info"]["exists"], value["errors"]), (False, []))


# -- input validation ---------------------------------------------------------------------------------------

@test("input: session_id is required for acquire")
def _(ws):
    for args in ([], ["--session", ""]):
        value = check_u2(ws.tasuki("sprint", "acquire", "--epic", "e", *args, "--json"), "failure", 2, "acquire")
        assert "session_id required for acquire mode" in [value["message"], *value["errors"]], value
    assert not ws.lock_path("sprint").exists()


@test("input: epic_spec is required for acquire")
def _(ws):
    for args in ([], ["--epic", ""]):
        value = check_u2(ws.tasuki("sprint", "acquire", "--session", "s", *args, "--json"), "failure", 2, "acquire")
        assert "epic_spec required for acquire mode" in [value["message"], *value["errors"]], value
    assert not ws.lock_path("sprint").exists()


@test("input: a mode other than acquire, release and check is refused")
def _(ws):
    check_error(ws.tasuki("sprint", "steal", "--json"), 2, "INVALID_INPUT")
    assert not ws.lock_path("sprint").exists()


@test("input: a project root that does not exist is refused", init=False)
def _(ws):
    for verb in ("acquire", "check", "release"):
        args = ["--session", "s", "--epic", "e"] if verb == "acquire" else []
        result = ws.tasuki("sprint", verb, *args, "--project-root", ws.path / "missing", "--json")
        assert result.code in (2, 3), result
        value = check_u2(result, "failure", result.code, verb)
        assert "Project root not accessible" in [value["message"], *value["errors"]], value


@test("input: a session id may contain what YAML finds special, and comes back unchanged")
def _(ws):
    for session in ("a: b #c", "'\"", "- x", "日本語", "null", "123", "a\\nb", "{}[]"):
        value = check_u2(ws.tasuki("sprint", "acquire", "--session", session, "--epic", session, "--json"),
                         "acquired", 0, "acquire")
        eq((value["lock_info"]["session_id"], value["lock_info"]["epic_spec"]), (session, session))
        eq(check_u2(ws.tasuki(*CHECK), "blocked", 4, "check")["lock_info"]["session_id"], session)
        ws.tasuki(*RELEASE).expect(0)


# -- the lock file ------------------------------------------------------------------------------------------

@test("lock file: U2's keys, then the added ones; mode 0600")
def _(ws):
    ws.tasuki(*ACQUIRE).expect(0)
    content = ws.read_lock("sprint")
    eq(list(content)[:5], ["pid", "session_id", "started_at", "epic_spec", "lock_version"], "the first keys")
    eq((content["pid"], content["session_id"], content["epic_spec"], content["lock_version"]),
       (os.getpid(), "s-1", "epic5", 1))
    assert ISO_UTC.match(content["started_at"]), content
    assert ADDED_KEYS <= set(content), content
    eq(ws.lock_path("sprint").stat().st_mode & 0o7777, 0o600, "mode")


@test("lock file: keys that nobody knows are tolerated, added ones may be missing")
def _(ws):
    foreign_sprint(ws, sleeper(ws).pid, started=0, flavour="vanilla", nested=[1, {"a": 2}])
    check_u2(ws.tasuki(*CHECK), "blocked", 4, "check")
    check_u2(ws.tasuki(*RELEASE, "--yes"), "released", 0, "release")


@test("lock file: the name can be given, and must be a plain file name")
def _(ws):
    ws.tasuki(*ACQUIRE, "--lock-file", ".other-lock").expect(0)
    assert (ws.path / ".other-lock").exists() and not ws.lock_path("sprint").exists()
    check_u2(ws.tasuki(*CHECK), "clean", 0, "check")
    check_u2(ws.tasuki(*CHECK, "--lock-file", ".other-lock"), "blocked", 4, "check")
    ws.tasuki(*RELEASE, "--lock-file", ".other-lock").expect(0)
    assert not (ws.path / ".other-lock").exists()
    for bad in ("../x", "a/b", ".", "..", "", "a\nb"):
        eq(ws.tasuki(*ACQUIRE, "--lock-file", bad).code, 2, f"exit for --lock-file {bad!r}")


@test("project root: the answer does not depend on the directory of the call", init=False)
def _(ws):
    project, inside = ws.path / "project", ws.path / "inside"
    for folder in (project, inside):
        folder.mkdir()
    ws.tasuki("--root", inside, "init").expect(0)
    ws.tasuki(*ACQUIRE, "--project-root", project, cwd=inside).expect(0)
    assert (project / ".aiflow/locks/.guard").is_dir(), "the guard of the project"
    assert "acquired" in (project / ".aiflow/events.ndjson").read_text(), "the events of the project"
    for folder in (inside, ws.path):
        check_u2(ws.tasuki(*CHECK, "--project-root", project, cwd=folder), "blocked", 4, "check")


@test("a sprint file that cannot be parsed has one verdict")
def _(ws):
    (ws.path / ".sprint-running").write_text("garbage")
    result = ws.tasuki("sprint", "check").expect(6)
    assert "zombie" in result.err and "counts as alive" not in result.out + result.err, result


@test("project root: the lock is there, with its guard, workspace or not", init=False)
def _(ws):
    root = ws.path / "project"
    root.mkdir()
    ws.tasuki(*ACQUIRE, "--project-root", root).expect(0)
    assert (root / ".sprint-running").exists() and (root / ".aiflow/locks/.guard").is_dir()
    check_u2(ws.tasuki(*CHECK, "--project-root", root), "blocked", 4, "check")
    check_u2(ws.tasuki(*RELEASE, "--project-root", root), "released", 0, "release")


@test(".sprint-session is never touched")
def _(ws):
    report = ws.path / ".sprint-session" / "report.md"
    report.parent.mkdir()
    report.write_text("kept")
    before = os.stat(report.parent)
    ws.tasuki(*ACQUIRE).expect(0)
    ws.tasuki(*RELEASE).expect(0)
    after = os.stat(report.parent)
    eq((report.read_text(), after.st_mtime_ns), ("kept", before.st_mtime_ns))


@test("an unreadable lock file: failure, Cannot read lock file", init=False)
def _(ws):
    need_root("a file of another user")
    root = sticky_root(ws)
    lock = root / ".sprint-running"
    lock.write_text("pid: 1\n")
    lock.chmod(0o600)
    result = run_as_nobody(ws, [ws.binary, *CHECK, "--project-root", root])
    value = check_u2(result, "failure", 3, "check")
    assert "Cannot read lock file" in [value["message"], *value["errors"]], value


def sticky_root(ws):
    """A directory that everybody may write to but in which nobody may delete another's file."""
    root = ws.path / "project"
    root.mkdir()
    root.chmod(0o1777)
    aiflow = root / ".aiflow"
    aiflow.mkdir()
    os.chown(aiflow, NOBODY, NOBODY)
    return root


# -- release ------------------------------------------------------------------------------------------------

@test("matrix: release with another session id warns and still releases")
def _(ws):
    ws.tasuki(*ACQUIRE).expect(0)
    value = check_u2(ws.tasuki(*RELEASE, "--session", "other"), "released", 0, "release")
    eq(value["errors"], ["Lock session mismatch (expected: other, actual: s-1)"], "errors")
    assert not ws.lock_path("sprint").exists()


@test("release: a living sprint that is not the caller's stays, whatever its age and whatever session is named, until a yes")
def _(ws):
    old = -24 * 3600 - 60
    for make in (lambda: foreign_sprint(ws, sleeper(ws).pid, started=0), lambda: hold_since(ws, -60), lambda: hold_since(ws, old)):
        make()
        before = ws.lock_path("sprint").read_text()
        session = ws.read_lock("sprint")["session_id"]
        for args in ((), ("--session", session), ("--session", "mine"), ("--session", session, "--strict")):
            value = check_u2(ws.tasuki(*RELEASE, *args), "blocked", 6, "release")
            eq((value["lock_info"]["exists"], value["lock_info"]["pid_alive"]), (True, True), f"{args}")
        check_error(ws.tasuki("lock", "release", "sprint", "--json"), 6, "NEEDS_CONFIRMATION")
        eq(ws.lock_path("sprint").read_text(), before, "the lock file")
        eq(ws.tty(["sprint", "release"], answers=["n"]).code, 6, "a person says no")
        eq(ws.lock_path("sprint").read_text(), before, "the lock file after a no")
        check_u2(ws.tasuki(*RELEASE, "--yes"), "released", 0, "release")
        assert not ws.lock_path("sprint").exists()


@test("release: on a terminal a yes releases a living sprint, and the question names its holder")
def _(ws):
    pid = sleeper(ws).pid
    foreign_sprint(ws, pid, started=0)
    result = ws.tty(["sprint", "release"], answers=["y"])
    assert f"PID: {pid} " in result.out and "[y/N]" in result.out, result
    eq(result.code, 0, "exit")
    assert not ws.lock_path("sprint").exists()


@test("no command that a refusal names frees or takes a living sprint without a question")
def _(ws):
    for since in (-60, -24 * 3600 - 60):
        hold_since(ws, since)
        before = ws.lock_path("sprint").read_text()
        for command in (("sprint", "acquire", "--session", "s-2", "--epic", "e"), ("sprint", "check"), ("sprint", "release"),
                        ("sprint", "acquire", "--session", "s-2", "--epic", "e", "--yes") if since == -60 else ("sprint", "check")):
            text = ws.tasuki(*command).err
            hints = [line.split("tasuki ", 1)[1].split() for line in text.splitlines() if "tasuki " in line and "  " in line]
            assert hints, f"{command}: {text}"
            for words in hints:
                if "--wait" not in words:
                    result = ws.tasuki(*words)
                    assert result.code != 0 and "--yes" not in words, result
                eq(ws.lock_path("sprint").read_text(), before, f"the lock file after {words}")
        ws.tasuki("sprint", "release", "--yes").expect(0)


@test("a dead holder's sprint names --yes as the next step, and following it takes the lock")
def _(ws):
    foreign_sprint(ws, dead_pid())
    text = ws.tasuki("sprint", "acquire", "--session", "s-1", "--epic", "e").expect(6).err
    command = next(line for line in text.splitlines() if line.endswith(" --yes")).split("tasuki ", 1)[1]
    ws.tasuki(*command.replace(" S ", " s-1 ").split()).expect(0)


@test("release: a script may release the sprint that it recorded by hand with its own pid")
def _(ws):
    script = ws.base / "own.sh"
    script.write_text('#!/bin/sh\nprintf "pid: $$\\nsession_id: mine\\nstarted_at: %s\\nepic_spec: e\\nlock_version: 1\\n" '
                      '"$(date -u +%Y-%m-%dT%H:%M:%SZ)" > .sprint-running\n"$@"\nexit $?\n')
    check_u2(ws.run(["/bin/sh", script, ws.binary, *RELEASE]), "released", 0, "release")


@test("who releases a sprint that is not its own is recorded, and so is a session that differs")
def _(ws):
    foreign_sprint(ws, dead_pid())
    check_u2(ws.tasuki(*RELEASE, "--session", "mine"), "released", 0, "release")
    data = ws.events("lock.released")[-1]["data"]
    eq((data["released_by"]["pid"], data["released_by"]["session_id"]), (os.getpid(), "mine"), "who did it")
    eq(data["session_mismatch"], {"expected": "mine", "actual": "other-session"}, "the sessions")
    ws.tasuki(*ACQUIRE).expect(0)
    check_u2(ws.tasuki(*RELEASE, "--session", "other"), "released", 0, "release")
    eq(ws.events("lock.released")[-1]["data"]["session_mismatch"], {"expected": "other", "actual": "s-1"}, "its own, another session")
    ws.tasuki(*ACQUIRE).expect(0)
    check_u2(ws.tasuki(*RELEASE), "released", 0, "release")
    assert "released_by" not in ws.events("lock.released")[-1]["data"], "its own"


@test("release with the right session id does not warn")
def _(ws):
    ws.tasuki(*ACQUIRE).expect(0)
    eq(check_u2(ws.tasuki(*RELEASE, "--session", "s-1"), "released", 0, "release")["errors"], [])


@test("release --strict refuses another session id and keeps the lock")
def _(ws):
    ws.tasuki(*ACQUIRE).expect(0)
    result = ws.tasuki("lock", "release", "sprint", "--session", "other", "--strict", "--json")
    assert result.code != 0, result
    assert ws.lock_path("sprint").exists()
    eq(ws.tasuki("lock", "release", "sprint", "--session", "s-1", "--strict").code, 0)


@test("matrix: release without permission to delete is a failure and keeps the lock", init=False)
def _(ws):
    need_root("a file of another user")
    root = sticky_root(ws)
    lock = root / ".sprint-running"
    lock.write_text("pid: 1\nsession_id: x\nstarted_at: 2026-02-07T22:30:00Z\nepic_spec: e\nlock_version: 1\n")
    lock.chmod(0o644)
    result = run_as_nobody(ws, [ws.binary, *RELEASE, "--project-root", root])
    value = check_u2(result, "failure", 3, "release")
    assert "Cannot delete lock file: permission denied" in [value["message"], *value["errors"]], value
    assert lock.exists() and value["lock_info"]["exists"] is True, value


@test("release of a zombie works")
def _(ws):
    foreign_sprint(ws, dead_pid())
    check_u2(ws.tasuki(*RELEASE), "released", 0, "release")
    ws.write_lock("sprint", None, "::: {not yaml")
    check_u2(ws.tasuki(*RELEASE), "released", 0, "release")
    assert not ws.lock_path("sprint").exists()


# -- the error matrix, other rows ---------------------------------------------------------------------------

@test("matrix: a project root that is not writable is a failure")
def _(ws):
    ws.path.chmod(0o555)
    result = run_as_nobody(ws, [ws.binary, *ACQUIRE])
    ws.path.chmod(0o755)
    assert result.code in (2, 3), result
    value = check_u2(result, "failure", result.code, "acquire")
    assert "Project root not accessible" in [value["message"], *value["errors"]], value


@test("matrix: a broken lock file is a zombie for acquire: blocked without a yes, overwritten with one")
def _(ws):
    ws.write_lock("sprint", None, "{{{")
    value = check_u2(ws.tasuki(*ACQUIRE), "blocked", 6, "acquire")
    assert "Lock file exists but has invalid format" in value["errors"], value
    check_u2(ws.tasuki(*ACQUIRE, "--yes"), "acquired", 0, "acquire")


@test("matrix (safer than U2): a pid check that is not permitted means alive")
def _(ws):
    foreign_sprint(ws, 1, started=0)
    ws.lock_path("sprint").chmod(0o644)
    ws.path.chmod(0o777)
    for path in [ws.path / ".aiflow", *(ws.path / ".aiflow").rglob("*")]:
        path.chmod(0o777 if path.is_dir() else 0o666)
    value = check_u2(run_as_nobody(ws, [ws.binary, *CHECK]), "blocked", 4, "check")
    eq(value["lock_info"]["pid_alive"], True, "pid_alive")


@test("matrix: when writing fails the status is failure, and no incomplete lock is left", slow=True)
def _(ws):
    seen = fail_every_call(ws, "ENOSPC", ACQUIRE)
    assert "Failed to write lock file" in seen, seen


@test("matrix: when the rename or the verification fails the status is failure, and no new lock is left", slow=True)
def _(ws):
    foreign_sprint(ws, dead_pid())
    seen = fail_every_call(ws, "EIO", (*ACQUIRE, "--force"), before=ws.lock_path("sprint").read_text())
    assert "Atomic rename failed" in seen, seen


def fail_every_call(ws, mode, args, before=None):
    """Lets the n-th file-system call fail for every n; returns the errors that were reported."""
    seen, problems, n = set(), [], 0
    lock = ws.lock_path("sprint")
    while True:
        n += 1
        result = ws.fault(*args, at=n, mode=mode)
        try:
            seen.update(check_failed_call(ws, result, before))
        except AssertionError as problem:
            problems.append(f"when call {n} failed: {problem}")
        lock.unlink(missing_ok=True)
        ws.tasuki(*RELEASE).expect(0)
        if before is not None:
            lock.write_text(before)
        if result.calls is None or result.calls < n:
            break
    assert not problems, "\n".join(problems)
    return seen


def check_failed_call(ws, result, before):
    """Acquired and ours; or U2's failure, and the lock is as it was or (after a failed verification) removed. Returns
    the errors."""
    lock = ws.lock_path("sprint")
    if result.code == 0:
        eq(ws.read_lock("sprint")["session_id"], "s-1", "session of a lock that was acquired")
        return []
    value = check_u2(result, "failure", result.code, "acquire")
    left = lock.read_text() if lock.exists() else None
    assert left in (before, None), f"the lock file is {left!r}\n{result}"
    return [value["message"], *value["errors"]]


@test("`lock acquire sprint` takes the same lock and answers like the other kinds")
def _(ws):
    args = ("lock", "acquire", "sprint", "--session", "s-1", "--epic", "epic5", "--json")
    value = ws.tasuki(*args).expect(0).json
    eq((value["status"], value["kind"]), ("acquired", "sprint"))
    eq(ws.read_lock("sprint")["token"], value["token"], "token")
    error = check_error(ws.tasuki(*args), 4, "SPRINT_BLOCKED")
    eq(error["context"]["holder"]["session_id"], "s-1")
    ws.tasuki("lock", "release", "sprint", "--token", value["token"]).expect(0)
    check_u2(ws.tasuki(*CHECK), "clean", 0, "check")


@test("who asks again for the sprint that it holds is told so, and is not told to wait for itself", slow=True)
def _(ws):
    ws.tasuki(*ACQUIRE).expect(0)
    eq(check_u2(ws.tasuki(*ACQUIRE), "blocked", 4, "acquire")["errors"], [], "errors")
    for args in (ACQUIRE[:-1], (*ACQUIRE[:-1], "--wait", "1s"), ("lock", "acquire", "sprint", *ACQUIRE[2:-1])):
        text = ws.tasuki(*args).expect(4).err
        assert "You hold sprint already" in text and "--wait" not in text and "--force" not in text, text
    text = ws.tasuki(*ACQUIRE[:-1], "--pid", sleeper(ws).pid).expect(4).err
    assert "You hold" not in text and "--wait" in text, text


# -- .sprint-running.tmp ------------------------------------------------------------------------------------

@test("while the lock is held .sprint-running.tmp is a directory; release removes it")
def _(ws):
    ws.tasuki(*ACQUIRE).expect(0)
    tmp = ws.path / ".sprint-running.tmp"
    assert tmp.is_dir()
    try:
        tmp.write_text("a U2 tool writes its lock")
        raise AssertionError("a U2 tool could write its temporary file")
    except IsADirectoryError:
        pass
    ws.tasuki(*RELEASE).expect(0)
    assert not os.path.lexists(tmp)


@test("a regular .sprint-running.tmp younger than 10 s means held")
def _(ws):
    tmp = ws.path / ".sprint-running.tmp"
    tmp.write_text("pid: 1\n")
    check_u2(ws.tasuki(*ACQUIRE), "blocked", 4, "acquire")
    assert tmp.is_file() and not ws.lock_path("sprint").exists()


@test("a sprint that another tool is about to take: check says so, and nothing names a lock file or a force")
def _(ws):
    (ws.path / ".sprint-running.tmp").write_text("pid: 1\n")
    for args, mode in ((CHECK, "check"), (ACQUIRE, "acquire")):
        value = check_u2(ws.tasuki(*args), "blocked", 4, mode)
        eq(value["errors"], [], "errors")
        text = ws.tasuki(*args[:-1]).expect(4).err
        assert "another tool is writing" in text and "--wait" in text and "--force" not in text, text


@test("a regular .sprint-running.tmp older than 10 s is removed, with an event")
def _(ws):
    tmp = ws.path / ".sprint-running.tmp"
    tmp.write_text("pid: 1\n")
    make_old(tmp)
    before = len(ws.events())
    check_u2(ws.tasuki(*ACQUIRE), "acquired", 0, "acquire")
    assert tmp.is_dir()
    assert any("tmp" in str(e).lower() for e in ws.events()[before:]), ws.events()[before:]


@test("the .tmp directory of a dead holder is removed by every sprint command")
def _(ws):
    acquire_from_a_script(ws, *ACQUIRE).expect(0)
    assert (ws.path / ".sprint-running.tmp").is_dir()
    check_u2(ws.tasuki(*CHECK), "zombie-detected", 6, "check")
    assert not os.path.lexists(ws.path / ".sprint-running.tmp")


@test("in a project that is no workspace, what a sprint lock needs is hidden from git, and a .gitignore that is there stays")
def _(ws):
    for name, before in (("new", None), ("own", "mine\n")):
        project = ws.path / name
        (project / ".git").mkdir(parents=True)
        if before:
            (project / ".aiflow").mkdir()
            (project / ".aiflow/.gitignore").write_text(before)
        lock = ws.tasuki("--json", "lock", "acquire", "sprint", "--session", "s", "--epic", "e", cwd=project).expect(0).json
        eq((project / ".aiflow/.gitignore").read_bytes(), (before or "*\n").encode(), f"the file of {name}")
        ws.tasuki("lock", "release", "sprint", "--token", lock["token"], cwd=project).expect(0)
        eq(sorted(p.name for p in project.iterdir()), [".aiflow", ".git"], "what is left")


@test("any other mode: U2's object with 'Invalid mode', and the lock is not touched")
def _(ws):
    foreign_sprint(ws, os.getpid())
    before = ws.lock_path("sprint").read_text()
    result = ws.tasuki("sprint", "fly", "--json").expect(2, "INVALID_INPUT").json
    eq({key: result[key] for key in ("status", "mode", "message", "errors")},
       {"status": "failure", "mode": "fly", "message": "Invalid mode", "errors": ["Invalid mode"]}, "the object")
    assert U2_KEYS <= set(result), result
    eq(ws.lock_path("sprint").read_text(), before, "the lock file")
    assert "Invalid mode" in ws.tasuki("sprint", "fly").expect(2).err


@test("a lock file with pid 0 names no process: no sentence calls it PID 0")
def _(ws):
    foreign_sprint(ws, 0)
    for command in (("check",), ("acquire", "--session", "s", "--epic", "e")):
        result = ws.tasuki("sprint", *command).expect(6)
        assert "PID: 0" not in result.out + result.err and "PID: ?" in result.out + result.err, result
        eq(ws.tasuki("sprint", *command, "--json").expect(6).json["lock_info"]["pid"], None, "pid")


main(__name__)
