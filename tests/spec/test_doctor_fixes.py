"""doctor, status and what is left on disk: what a review found, each as a rule."""

import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import dead_pid, foreign_lock, foreign_sprint, make_old, need_root, run_as_nobody, sleeper  # noqa: E402
from doctor_common import problems  # noqa: E402
from flows import journal, only_run, resume, run_flow, spawn_flow, trace, with_tool  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402

ODD = "it's a $place; really"


def state(ws, *parts):
    return ws.path.joinpath(".aiflow", *parts)


def examine(ws, *args, root=None, **options):
    where = ["--root", root] if root else []
    return ws.tasuki(*where, "doctor", *args, "--json", **options).json


def check(report, name):
    return next(c for c in report["checks"] if c["name"] == name)


def shell(ws, command, **options):
    return ws.run(["sh", "-c", command], env=with_tool(ws), **options)


def new_project(ws, name):
    place = ws.path / name
    place.mkdir()
    ws.tasuki("--root", place, "init").expect(0)
    return place


def put_zombie(place):
    (place / ".sprint-running").write_text(f"lock_version: 1\nsession_id: old\nepic_spec: e\npid: {dead_pid()}\n"
                                           "started_at: 2026-01-01T00:00:00Z\n")


@test("a sprint that --root has left is released there by the command, and the living one of this project stays")
def _(ws):
    there, here = new_project(ws, ODD), new_project(ws, "here")
    put_zombie(there)
    ws.tasuki("sprint", "acquire", "--session", "LIVE", "--epic", "e", "--pid", sleeper(ws).pid, cwd=here).expect(0)
    found = check(ws.tasuki("--root", there, "doctor", "--json", cwd=here).json, "sprint")
    eq((found["status"], len(found["fix"])), ("WARN", 1))
    shell(ws, found["fix"][0], cwd=here).expect(0)
    eq(((there / ".sprint-running").exists(), (here / ".sprint-running").exists()), (False, True), "the locks")
    put_zombie(there)
    report = ws.tasuki("doctor", "--json", cwd=here, env={"TASUKI_ROOT": str(there)}).json
    eq(check(report, "sprint")["status"], "WARN", "with TASUKI_ROOT")


@test("commands that a refused lock suggests can be typed, whatever the path of the workspace")
def _(ws):
    there = new_project(ws, ODD)
    ws.tasuki("--root", there, "lock", "acquire", "name", "a", "--pid", os.getpid()).expect(0)
    for verb in (["acquire", "name", "a"], ["run", "a", "--", "true"]):
        for command in ws.tasuki("--root", there, "--json", "lock", *verb).expect(4).error["next"]:
            words = shlex.split(command)
            eq(words[:3], ["tasuki", "--root", str(there)], command)


@test("a name with bytes that no terminal shows is written so that it can be typed")
def _(ws):
    odd = state(ws, "locks/a\n\\ 100% 'b'\x01\udcff.lock.json")
    odd.write_text("x")
    found = check(examine(ws), "locks")
    assert not any(c in found["fix"][0] for c in "\n\x01"), found
    shell(ws, found["fix"][0]).expect(0)
    eq((odd.exists(), odd.with_name(odd.name + ".aside").exists()), (False, True))


@test("--fix removes nothing of an unknown process that has a byte in it")
def _(ws):
    place = state(ws, "processes/ghost/sub")
    place.mkdir(parents=True)
    notes = place.parent / "notes.txt"
    notes.write_text("important\n")
    eq(check(examine(ws, "--fix"), "process_dirs")["status"], "WARN", "status")
    notes.rename(place / "deep")
    eq(check(examine(ws, "--fix"), "process_dirs")["status"], "WARN", "status")
    eq((place / "deep").read_text(), "important\n")


@test("a lock that another user holds is not to be moved away")
def _(ws):
    need_root("another user")
    ws.tasuki("lock", "acquire", "name", "zz", "--pid", os.getpid()).expect(0)
    for path in (ws.path, state(ws), *state(ws).rglob("*")):
        if "name.zz" not in path.name:
            os.chown(path, 65534, 65534)
    told = check(examine(ws), "workspace")
    assert any("name.zz.lock.json belongs to uid 0" in line for line in told["evidence"]), told
    report = run_as_nobody(ws, [ws.binary, "doctor", "--json"]).expect(3).json
    found = check(report, "locks")
    assert any("belongs to uid 0" in line for line in found["evidence"]), found
    eq([c.split()[:2] for c in found["fix"]], [["sudo", "chown"]], "commands")


@test("in another user's workspace nobody is told to chmod, and the disk is not to blame")
def _(ws):
    need_root("another user")
    for path in (state(ws), *state(ws).rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    report = run_as_nobody(ws, [ws.binary, "doctor", "--json"]).expect(3).json
    eq(check(report, "disk")["status"], "PASS", "disk")
    found = check(report, "workspace")
    eq([c.split()[:2] for c in found["fix"]], [["sudo", "-u"]], found)


@test("a workspace that a team shares stays shared; only what anybody may write is closed")
def _(ws):
    for name in ("", "requests", "flows"):
        state(ws, name).mkdir(exist_ok=True)
        state(ws, name).chmod(0o2775)
    eq(check(examine(ws, "--fix"), "workspace")["status"], "PASS", "status")
    eq([oct(state(ws, n).stat().st_mode & 0o7777) for n in ("", "requests", "flows")], ["0o2775"] * 3, "modes")
    state(ws, "flows").chmod(0o777)
    eq(check(examine(ws), "workspace")["fix"], [f"chmod 775 {state(ws, 'flows')}"])


@test("the command for a dead holder's lock takes nothing from somebody who lives")
def _(ws):
    foreign_lock(ws, "request", "RQ-1", dead_pid(), created=-60, expires=600)
    command = check(examine(ws), "locks")["fix"][0]
    saved = ws.lock_path("request", "RQ-1").read_text()
    foreign_lock(ws, "request", "RQ-1", sleeper(ws).pid, created=1, expires=600)
    eq(shell(ws, command).code, 6, "exit code")
    ws.lock_path("request", "RQ-1").write_text(saved)
    shell(ws, command).expect(0)
    eq(ws.lock_path("request", "RQ-1").exists(), False, "the lock")


@test("a second damaged database is put beside the first")
def _(ws):
    for text in ("first", "second"):
        for path in state(ws).glob("state.db*"):
            path.unlink()
        state(ws, "state.db").write_text(text * 1000)
        shell(ws, check(examine(ws), "database")["fix"][0]).expect(0)
        # The name has the second in it.
        for path in state(ws, "damaged").glob("*/state.db"):
            path.parent.rename(path.parent.with_name(text)) if path.read_text().startswith(text) else None
    eq(sorted(p.read_text()[:5] for p in state(ws, "damaged").glob("*/state.db")), ["first", "secon"])


@test("what stands in config.yaml cannot get into a command; IPv6 and ports are understood; an empty agents: is one")
def _(ws):
    def redis(url):
        state(ws, "config.yaml").write_text(f"redis: '{url}'\nagents:\nteams:\n")
        report = examine(ws)
        eq(check(report, "config")["status"], "PASS", "config")
        return check(report, "redis")
    unknown = redis("redis://h.invalid;touch PWN;:1")
    assert unknown["status"] == "WARN" and "not in /etc/hosts" in unknown["summary"], unknown
    command = unknown["fix"][0]
    eq(shlex.split(command), ["redis-cli", "-h", "h.invalid;touch PWN;", "-p", "1", "ping"])
    assert "::1:1 cannot be reached" in redis("redis://[::1]:1")["summary"]
    assert "localhost:1 cannot be reached" in redis("redis://localhost:1")["summary"]
    for url in ("redis://h:0", "redis://h:65536", "redis://h:12345678", "redis://[::1", "redis://h:x"):
        assert "must have the form" in redis(url)["summary"], url


@test("an agent's program in a directory of its own is not missed")
def _(ws):
    state(ws, "config.yaml").write_text("agents: {a: {run: [./tool.sh, '{task}'], cwd: sub}}\n")
    eq([c for c in examine(ws)["checks"] if c["name"] == "tools" and c["status"] != "PASS"], [])


# -- runs -----------------------------------------------------------------------------------------------------------

@test("a stage that cannot be read is made anew without starting anything, and its run is listed as broken until then")
def _(ws):
    proc = spawn_flow(ws, "tasks: {a: {run: 'echo a >> trace; sleep 1000'}}\n")
    ws.until(lambda: trace(ws), "the task runs")
    run = only_run(ws)
    ws.until_file(state(ws, "runs", run, "stage.json"))
    ws.tasuki("runs", "cancel", run, "--now").expect(0)
    ws.finish(proc)
    state(ws, "runs", run, "stage.json").write_text("{")
    eq([(r["run_id"], r["status"]) for r in ws.tasuki("runs", "list", "--json").json["runs"]], [(run, "BROKEN")])
    shown = ws.tasuki("runs", "show", run).expect(3).err
    eq([text in shown for text in (f"{state(ws, 'runs', run)}/stage.json", "tasuki doctor")], [True] * 2, shown)
    for command in check(examine(ws), "journals")["fix"]:
        shell(ws, command)
    eq(ws.tasuki("runs", "show", run, "--json").expect(0).json["status"], "CANCELLED")
    eq((trace(ws), state(ws, "runs", run, "stage.json.damaged").read_text()), (["a"], "{"))


@test("a run that never began is not to be resumed; --fix removes all of it or nothing")
def _(ws):
    place = state(ws, "runs/RUN-20260101T000000-abcdef")
    place.mkdir(parents=True)
    for name in ("life", "flow.yaml", "journal", "task.1.txt"):
        place.joinpath(name).write_text("" if name == "journal" else "x")
    eq(ws.tasuki("runs", "show", place.name, "--json").json["status"], "RUNNING", "one that is being made")
    eq(check(examine(ws), "runs")["status"], "PASS", "one that is being made")
    place.joinpath("mine").write_text("x")
    make_old(place, 120)
    found = check(examine(ws, "--fix"), "runs")
    assert found["status"] == "WARN" and not any("resume" in c for c in found["fix"]), found
    eq(len(list(place.iterdir())), 5, "what is there")
    place.joinpath("mine").unlink()
    make_old(place, 120)
    eq((check(examine(ws, "--fix"), "runs")["status"], place.exists()), ("PASS", False))


@test("a run that cannot begin leaves nothing")
def _(ws):
    (ws.path / "flow.yaml").write_text("tasks: {a: {run: 'true'}}\n")
    calls = ws.fault("run", "flow.yaml").expect(0).calls
    for path in state(ws, "runs").glob("RUN-*"):
        shutil.rmtree(path)
    for at in range(1, calls):
        ws.fault("run", "flow.yaml", at=at, mode="ENOSPC")
        for path in state(ws, "runs").glob("RUN-*"):
            assert path.joinpath("journal").read_bytes().count(b"\n"), f"call {at} left {os.listdir(path)}"
            shutil.rmtree(path)


@test("resume cuts a damaged journal off where it is damaged, keeps a copy, and what it adds is read again")
def _(ws):
    text = "tasks: {a: {run: 'echo a >> trace'}, b: {run: 'echo b >> trace', needs: [a]}, c: {run: 'test -e ok', needs: [b]}}\n"
    run = run_flow(ws, text, code=7)["run_id"]
    path = state(ws, "runs", run, "journal")
    lines = path.read_bytes().split(b"\n")
    damaged = b"\n".join([lines[0], b"\x00garbage", *lines[2:]])
    path.write_bytes(damaged)
    (ws.path / "ok").touch()
    eq(resume(ws, run)["status"], "DONE")
    eq(journal(ws, run)[-1]["status"], "DONE", "the last record")
    eq(path.with_name("journal.damaged").read_bytes(), damaged, "the copy")
    eq((trace(ws), resume(ws, run)["nothing_to_do"]), (["a", "b", "a", "b"], True))


# -- status and the like --------------------------------------------------------------------------------------------

def fake_run(ws, number, status):
    place = state(ws, f"runs/RUN-20260101T{number:06}-abcdef")
    place.mkdir(parents=True)
    place.joinpath("stage.json").write_text(json.dumps({"run_id": place.name, "status": status, "counts": {}}))
    return place.name


@test("status shows what is open, however many newer runs are over, and locks before a long list of workflows")
def _(ws):
    asks = fake_run(ws, 0, "NEEDS_INPUT")
    for number in range(1, 206):
        fake_run(ws, number, "DONE")
    for number in range(32):
        ws.tasuki("own", "claim", f"W-{number}", "--instance", "me").expect(0)
    ws.tasuki("lock", "acquire", "name", "deploy", "--pid", os.getpid()).expect(0)
    status = ws.tasuki("status", "--json").json
    eq([r["run_id"] for r in status["runs"]][0], asks, "the first run")
    eq((len(status["runs"]), len(status["workflows"]), status["more_workflows"]), (6, 30, 2))
    text = ws.tasuki("status").expect(0).out
    assert text.index("deploy") < text.index("W-31") and "2 more" in text, text


@test("watch goes on when something cannot be seen for a moment")
def _(ws):
    proc = ws.spawn("watch", "--json", stdout=subprocess.PIPE)
    config = state(ws, "config.yaml")
    saved = config.read_text() if config.exists() else ""

    def document():
        text = ""
        while True:
            text += proc.stdout.readline()
            try:
                return json.loads(text)
            except ValueError:
                continue
    assert "locks" in document()
    config.write_text("agents: {")
    error = document()["error"]
    assert error["code"] == "INVALID_INPUT" and "config.yaml" in error["message"], error
    config.write_text(saved)
    assert "locks" in document()
    proc.terminate()
    proc.wait()


@test("a request's command is shown so that it can be typed")
def _(ws):
    ws.tasuki("request", "add", "t", "--id", "RQ-1", "--", "sh", "-c", "echo hi; sleep 1").expect(0)
    out = ws.tasuki("request", "show", "RQ-1").expect(0).out
    assert "sh -c 'echo hi; sleep 1'" in out, out


@test("whatever cannot be read is found under its name, and the other checks go on")
def _(ws):
    for name, text in (("flow.yaml", "tasks: {a: 'true'}\n"), (".aiflow/flows/f.yaml", "tasks: {a: 'true'}\n"), (".aiflow/config.yaml", "max_runs: 2\n")):
        (ws.path / name).parent.mkdir(exist_ok=True)
        (ws.path / name).write_text(text)
    for words in ("run flow.yaml", "request add t --id RQ-1 -- true", "lock acquire name a --pid 1", "own claim w --instance me", "proc create p -- true"):
        ws.tasuki(*words.split()).expect(0)
    run = only_run(ws)
    eq(problems(examine(ws)), {}, "before")
    denied = "cannot be used: Input/output error"
    for place, found, words in (
            ("config.yaml", {"config": "FAIL"}, f"config.yaml {denied}"), ("events.ndjson", {"events": "FAIL"}, f"events.ndjson {denied}"),
            ("locks", {"locks": "FAIL", "requests": "FAIL"}, f"Cannot open {ws.path}/.aiflow/locks: "),
            ("name.a.lock.json", {"locks": "FAIL"}, f"Cannot read {ws.path}/.aiflow/locks/name.a.lock.json: "),
            (".guard/name.a", {"locks": "FAIL"}, f"Cannot open {ws.path}/.aiflow/locks/.guard/name.a: "),
            ("runs", {"runs": "FAIL", "journals": "FAIL"}, f"Cannot read {ws.path}/.aiflow/runs: "),
            (run, {"runs": "WARN"}, f"{ws.path}/.aiflow/runs/{run} {denied}"), ("stage.json", {"journals": "WARN"}, "stage.json cannot be read (the journal says: DONE)"),
            ("journal", {"journals": "FAIL"}, f"runs/{run}/journal {denied}"), ("requests", {"requests": "FAIL"}, f"Cannot open {ws.path}/.aiflow/requests: "),
            ("RQ-1.yaml", {"requests": "WARN"}, ".aiflow/requests/RQ-1.yaml:1:1: Input/output error"), ("f.yaml", {"flows": "WARN"}, f"flows/f.yaml {denied}"),
            ("processes", {"processes": "FAIL", "process_dirs": "FAIL"}, f"Cannot open {ws.path}/.aiflow/processes: ")):
        name = place.rpartition("/")[2]
        env = {"TASUKI_FAULT_PATH": name, "TASUKI_FAULT_STICKY": "1"}
        report = ws.fault("doctor", "--json", at=1, mode="EIO", env=env).expect(3 if "FAIL" in found.values() else 0).json
        eq(problems(report), found, f"what is found without {place}")
        for one in found:
            assert any(words in line for line in check(report, one)["evidence"]), f"{place}: {check(report, one)}"


@test("--fix does not say that it has removed a stale lock whose guard or file it cannot use, and the lock stays")
def _(ws):
    def stale():
        if not ws.lock_path("name", "a").exists():
            ws.tasuki("lock", "acquire", "name", "a", "--pid", dead := sleeper(ws).pid).expect(0)
            os.kill(dead, signal.SIGKILL)
            ws.until(lambda: not ws.alive(dead), "its end")

    faults = [(n, {"TASUKI_FAULT_PATH": name}) for name in ("name.a", "name.a.lock.json") for n in range(1, 5)]  # each time that it is opened
    for n, env in [*faults, (1, {"TASUKI_FAULT_ONLY": "unlinkat", "TASUKI_FAULT_STICKY": "1"})]:
        stale()
        before = len(ws.events("LOCK_STALE_RECOVERED"))
        report = ws.fault("doctor", "--fix", "--json", at=n, mode="EIO", env=env).json
        is_left = ws.lock_path("name", "a").exists()
        eq(len(ws.events("LOCK_STALE_RECOVERED")) - before, 0 if is_left else 1, f"{n}, {env}: number of events")
        eq(check(report, "locks")["status"] in ("WARN", "FAIL"), is_left, f"{n}, {env}: {check(report, 'locks')}: whether a problem is reported")
    assert is_left, "the last fault had no effect"
    eq(check(examine(ws, "--fix"), "locks")["status"], "PASS", "without a fault")
    assert not ws.lock_path("name", "a").exists(), "the lock file is left"


main(__name__)
