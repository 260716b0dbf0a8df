"""One file-system call of a command fails: the command reports it, or does all the same what it says. A failure is never taken for
success, and nothing crashes."""

import pathlib
import re
import shutil
import sqlite3
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "spec"))
from known_text import compare  # noqa: E402
from flows import only_run, run_ids, with_tool, write_flow  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402

STEPS_MAX = 400  # more file-system calls than this is a bug of its own
FLOW = "tasks:\n  a: {run: 'echo one'}\n  b: {run: 'echo two', needs: a}\n"
REASONS = ("Input/output error", "Invalid argument")  # the latter: what was not read is not what was written
CHANGING = re.compile(r'"(expires_in_ms|age_ms|idle_ms|uptime_ms|seconds|time)": [^,\n]*')


NOT_LOCKS = "openat,pread,write,pwrite,ftruncate,fdatasync,fstat,fstatat,mkdirat,unlinkat,linkat,renameat2"  # a lock would wait for 10 s


def at_every_call(ws, words, check, before=None, first=1, mode="EIO", **env):
    """Lets each call of the command fail in turn, until it makes fewer."""
    for n in range(first, STEPS_MAX):
        if before:
            before()
        result = ws.fault("--root", ws.path, "--json", *words, at=n, mode=mode, env={**with_tool(ws), **env})
        assert result.code >= 0 or mode == "kill", f"call {n}\n{result}"
        check(result, n)
        ws.commands.clear()
        if result.calls is not None and result.calls < n:
            assert n > 5, f"{' '.join(words)} made only {result.calls} calls"
            return
    raise AssertionError(f"{' '.join(words)} makes more than {STEPS_MAX} calls")


def is_reported(result, n):
    """Exit 3 and an error document that gives the reason."""
    error = result.expect(3, "ENVIRONMENT").error
    assert any(reason in error["message"] for reason in REASONS), f"call {n}: {error}"


def arrange(ws):
    """Something of everything; the run's id."""
    write_flow(ws, FLOW)
    ws.tasuki("run", "flow.yaml").expect(0)
    ws.tasuki("request", "add", "first", "--id", "RQ-1", "--", "true").expect(0)
    ws.tasuki("request", "add", "second", "--id", "RQ-2", "--depends-on", "RQ-1", "--", "true").expect(0)
    ws.tasuki("lock", "acquire", "name", "a").expect(0)
    ws.tasuki("own", "claim", "w").expect(0)
    ws.tasuki("proc", "create", "new", "--", "true").expect(0)
    ws.tasuki("proc", "create", "p", "--", "sh", "-c", "echo out; echo err >&2").expect(0)
    ws.tasuki("proc", "start", "p").expect(0)
    ws.tasuki("proc", "wait", "p").expect(0)
    return only_run(ws)


LOOKS = ("runs show RUN", "runs logs RUN", "runs tasks RUN", "runs graph RUN",
         "flow validate flow.yaml", "graph flow.yaml", "proc status new", "proc logs p", "proc export", "events")


@test("a command that looks reports a call that failed, or its answer is the same as ever", slow=True)
def _(ws):
    run = arrange(ws)
    first = 1
    for look in LOOKS:
        words = look.replace("RUN", run).split()
        whole = ws.fault("--root", ws.path, "--json", *words)

        def check(result, n):
            if (result.code, CHANGING.sub("", result.out)) != (whole.code, CHANGING.sub("", whole.out)):
                is_reported(result, n)

        at_every_call(ws, words, check, first=first)
        first = 4  # the calls that find the workspace are the same for all


@test("of what cannot be read a list shows that it is there", slow=True)
def _(ws):
    run = arrange(ws)
    of_all = (("runs", "run_id", run), ("locks", "id", "a"), ("workflows", "ulTaskId", "w"), ("processes", "id", "p"))
    for look, *things in (("runs list", of_all[0]), ("lock list", of_all[1]), ("own list", of_all[2]), ("proc list", of_all[3]),
                          ("request list", ("requests", "id", "RQ-1")), ("queue next", ("others", "request_id", "RQ-2")),
                          ("status", *of_all)):
        keys = set(ok(ws, *look.split()))

        def check(result, n):
            if result.code == 0:
                eq(set(result.json), keys, f"call {n}: the keys")
                for key, name, id in things:
                    assert id in [one[name] for one in result.json[key]], f"call {n}: {key}\n{result}"
            else:
                is_reported(result, n)

        at_every_call(ws, look.split(), check, first=4)


@test("a living holder or owner stays one, whatever cannot be read: no command reports it as free or left behind")
def _(ws):
    ws.tasuki("lock", "acquire", "name", "a").expect(0)
    ws.tasuki("own", "claim", "w").expect(0)
    owner = ws.tasuki("own", "show", "w", "--json").json["ownerInstanceId"]

    def check_lock(result, n):
        if result.code == 4:
            assert result.json["state"] in ("held", "unreadable"), f"call {n}\n{result}"
        else:
            is_reported(result, n)

    def check_owner(result, n):
        if result.code == 0:
            eq(result.json["ownerInstanceId"], owner, f"call {n}: the owner")
            assert result.json["ownerAlive"] is not False, f"call {n}\n{result}"
        else:
            is_reported(result, n)

    at_every_call(ws, ["lock", "check", "name", "a"], check_lock, first=4)
    at_every_call(ws, ["own", "show", "w"], check_owner, first=4)


@test("doctor names what it cannot read, whichever call fails, and takes nothing of it for sound", slow=True)
def _(ws):
    arrange(ws)
    run = only_run(ws)
    (ws.path / ".aiflow/config.yaml").write_text("agents: {a: {run: 'true'}}\n")
    found = {}

    def look(n, names, **env):
        result = ws.fault("--root", ws.path, "--json", "doctor", at=n, mode="EIO", env=env)
        ws.commands.clear()
        assert "checks" in result.json or n < 6, f"call {n}\n{result}"
        for one in result.json.get("checks", []):
            if one["status"] != "PASS" and one["name"] in names:
                text = f"{one['status']} {one['summary']}".replace(str(ws.path), "W").replace(run, "RUN")
                found.setdefault(one["name"], set()).add(text)

    for n in range(4, 240):  # then come those that look at /proc: their number depends on the machine
        look(n, "workspace filesystem disk database locks sprint events outbox requests runs journals".split())
    for path in ("processes", "p", "status.json", "config.yaml", "flows"):
        for n in range(1, 6):
            look(n, "processes process_dirs owners config tools".split(), TASUKI_FAULT_PATH=path)
    compare(__file__, "doctor", "\n".join(f"{name}: {text}" for name, texts in found.items() for text in sorted(texts)))


@test("a run that is removed, and a note: a call that failed is reported, or it is done", slow=True)
def _(ws):
    write_flow(ws, FLOW)

    def present():
        if not run_ids(ws):
            ws.tasuki("run", "flow.yaml").expect(0)

    def check_note(result, n):
        is_kept = ok(ws, "own", "note")["note"] == "busy"
        eq((result.code, is_kept), (0, True) if is_kept else (3, False), f"call {n}: the exit code, and whether the note is kept\n{result}")

    at_every_call(ws, ["own", "note", "busy"], check_note, lambda: ws.tasuki("own", "note", "idle").expect(0), 4)
    for words in (["runs", "rm", "@1"], ["runs", "prune", "--keep", "0", "--older", "0s"]):
        def check(result, n):
            if result.code == 0 and words[1] == "rm":  # prune leaves to its next time what it cannot look at
                eq(run_ids(ws), set(), f"call {n}: exit 0, and the runs\n{result}")
            elif result.code not in (0, 4):  # in doubt it is being executed
                is_reported(result, n)
            listed = [one["run_id"] for one in ok(ws, "runs", "list")["runs"]]
            eq(set(listed), run_ids(ws), f"call {n}: the runs that are listed")

        at_every_call(ws, words, check, present, 4, TASUKI_FAULT_ONLY=NOT_LOCKS)


@test("a run that goes on: a call that failed is reported, and what it did not do the next one does", slow=True)
def _(ws):
    write_flow(ws, "tasks:\n  a: {run: 'echo a >> trace'}\n  b: {run: 'test -e go && echo b >> trace', needs: a}\n")
    ws.tasuki("run", "flow.yaml", env=with_tool(ws)).expect(7)
    run, state, kept = only_run(ws), ws.path / ".aiflow", ws.base / "kept"
    shutil.copytree(state, kept)
    (ws.path / "go").touch()

    def as_before():
        shutil.rmtree(state)
        shutil.copytree(kept, state)
        (ws.path / "trace").write_text("a\n")

    def check(result, n):
        if result.code == 0:
            eq(result.out.count('"DONE"') > 0, True, f"call {n}: exit 0, and DONE\n{result}")
        elif ok(ws, "runs", "show", run)["status"] != "DONE":
            assert result.code in (3, 7, -9), f"call {n}\n{result}"
            ws.tasuki("resume", run, env=with_tool(ws)).expect(0)
        status = ok(ws, "runs", "show", run)
        eq((status["status"], status["counts"]["ok"], status["failures"]), ("DONE", 2, []), f"call {n}: the run")
        lines = (ws.path / "trace").read_text().split()
        assert lines[0] == "a" and set(lines[1:]) == {"b"} and len(lines) < 4, f"call {n}: {lines}"

    at_every_call(ws, ["resume", run], check, as_before, 4)
    at_every_call(ws, ["resume", run], check, as_before, 4, "kill")


@test("a request that runs, alone or from the queue: a call that failed is reported, and its status is what was done", slow=True)
def _(ws):
    ws.tasuki("request", "add", "first", "--id", "RQ-1", "--", "sh", "-c", "echo ran >> trace").expect(0)
    state, kept = ws.path / ".aiflow", ws.base / "kept"
    shutil.copytree(state, kept)

    def as_before():
        shutil.rmtree(state)
        shutil.copytree(kept, state)
        (ws.path / "trace").write_text("")

    for words in (["request", "run", "RQ-1"], ["queue", "run"]):
        def check(result, n):
            ran = (ws.path / "trace").read_text().count("ran")
            status = ok(ws, "request", "show", "RQ-1")["status"]
            eq(ran <= 1, True, f"call {n}: it ran {ran} times\n{result}")
            if '"EMPTY","ran":[]' in result.out:  # a request that cannot be read is passed over
                eq((ran, status), (0, "ready"), f"call {n}: EMPTY\n{result}")
            elif result.code == 0:
                eq((ran, status), (1, "done"), f"call {n}: exit 0\n{result}")
            else:
                assert result.code in (3, 4, 7), f"call {n}\n{result}"
                assert status in ("ready", "failed", "done", "running", "interrupted", "broken"), f"call {n}: {status}\n{result}"
            eq([one for one in ok(ws, "lock", "list")["locks"] if one["state"] != "stale"], [], f"call {n}: the locks that are held\n{result}")

        at_every_call(ws, words, check, as_before, 4, TASUKI_FAULT_ONLY=NOT_LOCKS)


def changes(ws, words, before, is_done, first=4):
    """The command succeeds and it is done, or it reports why not."""

    def check(result, n):
        if result.code == 0:
            assert is_done(), f"call {n}: exit 0, and it is not done\n{result}"
        else:
            is_reported(result, n)

    at_every_call(ws, words.split(), check, before, first)


def ok(ws, *words):
    return ws.tasuki("--json", *words).expect(0).json


@test("owning a workflow: a call that failed is reported, or the workflow is owned", slow=True)
def _(ws):
    def free():
        ws.tasuki("own", "release", "w").expect(0)

    changes(ws, "own claim w", free, lambda: ok(ws, "own", "show", "w")["ownerInstanceId"])
    changes(ws, "own release w", lambda: ws.tasuki("own", "claim", "w").expect(0),
            lambda: not ok(ws, "own", "show", "w")["ownerInstanceId"])


@test("the definition of a process: a call that failed is reported, or the definition is changed", slow=True)
def _(ws):
    def absent():
        ws.tasuki("proc", "remove", "p")

    def present():
        absent()
        ws.tasuki("proc", "create", "p", "--", "true").expect(0)

    changes(ws, "proc create p -- true", absent, lambda: ok(ws, "proc", "status", "p")["command"] == "true")
    changes(ws, "proc update p --cwd /", present, lambda: ok(ws, "proc", "status", "p")["cwd"] == "/")
    changes(ws, "proc remove p", present, lambda: ws.tasuki("proc", "status", "p").code == 5)


@test("a request's file: a call that failed is reported, or the file is what it should be", slow=True)
def _(ws):
    path = ws.path / ".aiflow/requests/RQ-1.yaml"

    def absent():
        path.unlink(missing_ok=True)

    def present():
        path.write_text("id: RQ-1\ntitle: old\nstatus: ready\npriority: P2\nrun: [make]\n")

    def check_add(result, n):
        assert result.code != 0 or path.exists(), f"call {n}\n{result}"
        assert result.code in (0, 3, 5) and (result.code == 0 or result.error["message"]), f"call {n}\n{result}"

    at_every_call(ws, "request add t --id RQ-1 -- make".split(), check_add, absent, 4)

    def check_edit(result, n):
        assert result.code != 0 or "new" in path.read_text(), f"call {n}\n{result}"
        assert result.code in (0, 3, 5) and (result.code == 0 or result.error["message"]), f"call {n}\n{result}"

    at_every_call(ws, "request edit RQ-1 --title new".split(), check_edit, present, 4)

    def check_rm(result, n):
        eq(path.exists(), result.code != 0, f"call {n}: whether the file is there")
        assert result.code in (0, 3, 5) and (result.code == 0 or result.error["message"]), f"call {n}\n{result}"

    at_every_call(ws, "request rm RQ-1".split(), check_rm, present, 4)


@test("run: a call that failed is reported, or the run does what it would have done", slow=True)
def _(ws):
    write_flow(ws, FLOW)

    def clean():
        for run in run_ids(ws):
            shutil.rmtree(ws.path / ".aiflow/runs" / run)

    def check(result, n):
        runs = ok(ws, "runs", "list")["runs"]
        states = [run["status"] for run in runs]
        if result.code == 0:
            eq(states, ["DONE"], f"call {n}: the runs")
        elif runs:  # it began
            assert result.code in (3, 7) and states != ["RUNNING"], f"call {n}: {runs}\n{result}"
            eq(ws.tasuki("resume", runs[0]["run_id"], env=with_tool(ws)).code, 0, f"call {n}: the exit code of resume")
        else:
            is_reported(result, n)

    at_every_call(ws, ["run", "flow.yaml"], check, clean, 4)


@test("cancelling a run that nobody executes: a call that failed is reported, or the run is cancelled and stays so", slow=True)
def _(ws):
    write_flow(ws, "tasks: {a: 'answer=$(tasuki task ask Which?); test -n \"$answer\"'}\n")
    ws.tasuki("run", "flow.yaml", env=with_tool(ws)).expect(8)
    run, state, kept = only_run(ws), ws.path / ".aiflow", ws.base / "kept"
    shutil.copytree(state, kept)

    def as_before():
        shutil.rmtree(state)
        shutil.copytree(kept, state)

    def check(result, n):
        status = ok(ws, "runs", "show", run)["status"]
        if result.code == 0:
            eq((result.json["status"], status), ("CANCELLED", "CANCELLED"), f"call {n}: the answer and the run")
            eq(ws.tasuki("resume", run, env=with_tool(ws)).code != 0, True, f"call {n}: a cancelled run does not go on by itself")
        else:
            is_reported(result, n)
            assert status in ("NEEDS_INPUT", "CANCELLED"), f"call {n}: {status}"

    at_every_call(ws, ["runs", "cancel", run], check, as_before, 4)


@test("templates: a call that failed is reported, or the template is what it should be", slow=True)
def _(ws):
    def absent():
        for words in (("proc", "template", "delete", "t"), ("proc", "remove", "made")):
            ws.tasuki(*words)

    def present():
        absent()
        ws.tasuki("proc", "template", "create", "t", "--", "true").expect(0)

    def shown():
        return ok(ws, "proc", "template", "show", "t")["spec"]

    changes(ws, "proc template create t -- true", absent, lambda: shown()["command"] == "true")
    changes(ws, "proc template update t --cwd /", present, lambda: shown()["cwd"] == "/")
    changes(ws, "proc template use t made", present, lambda: ok(ws, "proc", "status", "made")["command"] == "true")
    changes(ws, "proc template delete t", present, lambda: ws.tasuki("proc", "template", "show", "t").code == 5)


@test("a change that the database refuses is reported, and nothing has changed")
def _(ws):
    for words in ("own claim w", "proc create p -- true", "proc create q -- true", "proc template create t -- true"):
        ws.tasuki(*words.split()).expect(0)
    (ws.path / "Procfile").write_text("web: true\n")

    def shown():
        return [ok(ws, *look.split()) for look in ("own list", "proc list", "proc template list", "proc template show t")]

    before = shown()
    with sqlite3.connect(ws.path / ".aiflow/state.db") as base:
        for table in ("process", "template", "workflow"):
            for what in ("INSERT", "UPDATE", "DELETE"):
                base.execute(f"CREATE TRIGGER no_{table}_{what} BEFORE {what} ON {table} BEGIN SELECT RAISE(ABORT, 'not today'); END")
    base.close()
    for words in ("own claim v", "own release w", "own force-claim w --yes --instance other", "own leave", "proc create r -- true",
                  "proc update p --cwd /", "proc remove p", "proc remove --all --force", "proc import Procfile",
                  "proc template create u -- true", "proc template update t --cwd /", "proc template delete t",
                  "proc template use t made"):
        result = ws.tasuki("--json", *words.split())
        assert result.code == 9, f"exit {result.code}\n{result}"
        assert "not today" in result.out, result
        eq(shown(), before, f"after {words}: what is there")


@test("a table that cannot be read is reported by whatever needs it; none takes it for empty")
def _(ws):
    for words in ("own claim w", "proc create p -- true", "proc template create t -- true"):
        ws.tasuki(*words.split()).expect(0)
    (ws.path / "Procfile").write_text("web: true\n")
    for table, looks in (("workflow", ("own list", "own show w", "own check w", "own claim w", "own release w", "own leave", "status")),
                         ("instance", ("own show w", "own claim w", "own release w", "own leave", "own list")),
                         ("template", ("proc template list", "proc template show t", "proc template use t made", "proc export",
                                       "proc template create u -- true", "proc template update t --cwd /", "proc template delete t")),
                         ("process", ("proc list", "proc status p", "proc start p", "proc stop p", "proc remove p", "proc update p --cwd /",
                                      "proc create q -- true", "proc logs p", "proc wait p", "proc export", "proc import Procfile", "probe p",
                                      "proc template use t made", "proc restart p", "restore", "status"))):
        base = sqlite3.connect(ws.path / ".aiflow/state.db")
        base.execute("PRAGMA legacy_alter_table = ON")
        base.execute(f"ALTER TABLE {table} RENAME TO hidden")
        for words in looks:
            result = ws.tasuki("--json", *words.split())
            assert result.code in (3, 9) and "no such table" in result.out, f"{table}: exit {result.code}\n{result}"
        base.execute(f"ALTER TABLE hidden RENAME TO {table}")
        base.close()


@test("where a rename cannot exchange two files, locks are renewed, forced and released all the same")
def _(ws):
    for mode in ("EINVAL", "ENOSYS"):
        env = {"TASUKI_FAULT_ONLY": "renameat2"}
        token = ok(ws, "lock", "acquire", "name", "a", "--pid", "1")["token"]
        before = ws.lock_path("name", "a").read_text()
        renewed = ws.fault("--json", "lock", "renew", "name", "a", "--token", token, "--ttl", "2h", at=1, mode=mode, env=env).expect(0)
        assert renewed.calls and ws.lock_path("name", "a").read_text() != before, renewed
        forced = ws.fault("--json", "lock", "acquire", "name", "a", "--force", "--yes", "--pid", "1", at=1, mode=mode, env=env).expect(0)
        eq(ok(ws, "lock", "list")["locks"][0]["fence"], forced.json["fence"], "the fence of the new lock")
        ws.tasuki("lock", "release", "name", "a", "--token", forced.json["token"]).expect(0)
        eq(ok(ws, "lock", "list")["locks"], [], "the locks")
        eq([p.name for p in ws.lock_path("name", "a").parent.iterdir() if p.is_file()], [], "files")


@test("where no file can be made without a name, commands work all the same, and no private name is left")
def _(ws):
    env = {**with_tool(ws), "TASUKI_FAULT_PATH": ".", "TASUKI_FAULT_STICKY": "1"}
    write_flow(ws, "tasks: {a: 'answer=$(tasuki task ask Which?); test -n \"$answer\"'}\n")
    for words, code in ((["lock", "acquire", "name", "a", "--pid", "1"], 0), (["lock", "acquire", "name", "a", "--wait", "10ms"], 4),
                        (["run", "flow.yaml"], 8), (["answer", "RUN", "this", "--wait"], 0),
                        (["request", "add", "t", "--id", "RQ-1", "--", "true"], 0), (["request", "edit", "RQ-1", "--title", "u"], 0),
                        (["proc", "create", "p", "--start", "--", "true"], 0), (["own", "claim", "w"], 0)):
        words = [only_run(ws) if word == "RUN" else word for word in words]
        result = ws.fault("--json", *words, at=1, mode="EOPNOTSUPP", env=env).expect(code)
        eq([str(p) for p in (ws.path / ".aiflow").rglob(".tsk-*")], [], f"private names after\n{result}")
    eq(ok(ws, "runs", "show", only_run(ws))["status"], "DONE", "the run")
    eq((ws.path / ".aiflow/requests/RQ-1.yaml").exists(), True, "the request")


@test("a process whose folder cannot be opened is unreadable in lists, and the others are shown; without the folder of all nothing is")
def _(ws):
    for id in ("zebra", "yak"):
        ws.tasuki("proc", "create", id, "--", "true").expect(0)

    def without(name, *words):
        return ws.fault("--json", *words, at=1, mode="EIO", env={"TASUKI_FAULT_PATH": name, "TASUKI_FAULT_STICKY": "1"})

    for words in (["proc", "list"], ["status"]):
        found = {one["id"]: one["phase"] for one in without("zebra", *words).expect(0).json["processes"]}
        eq(found, {"zebra": "unreadable", "yak": ""}, " ".join(words))
        is_reported(without("processes", *words), 1)
    is_reported(without("zebra", "proc", "status", "zebra"), 1)


def said(ws, result):
    """The exit code and the message, without what differs from one call to the next."""
    is_error = result.out.startswith('{\n  "error"')
    text = result.error["message"] if is_error else "; ".join(result.json.get("errors", [])) if '"errors": [\n' in result.out else ""
    text += "".join(f" ({line.removeprefix('tasuki: ')})" for line in result.err.splitlines()[:1])
    return f"{result.code} {re.sub(r'(RUN|RQ)-[0-9]{8}T[0-9]{6}-[0-9a-z]+', '<id>', text.replace(str(ws.path), 'W').replace(str(ws.build), 'BUILD'))}".strip()


for words, only in (("lock acquire name b", ""), ("lock acquire name a --wait 1ms", ""), ("lock release name a", ""),
                    ("lock run c -- true", NOT_LOCKS), ("lock list", ""), ("sprint check", ""),
                    ("own force-claim w --yes", ""), ("own leave", ""), ("own list", ""), ("agents", ""),
                    ("proc import Procfile", ""), ("proc export", ""), ("proc template use t made", ""),
                    ("proc logs p --grep out", ""), ("restore", NOT_LOCKS), ("queue add -- true", ""), ("queue status", ""),
                    ("request again RQ-1", ""), ("request rm RQ-1", ""), ("request list", ""), ("run flow.yaml --on-conflict after", "ofd_lock"),
                    ("request run RQ-1", "openat,renameat2,fdatasync"), ("runs list", ""), ("runs logs", ""), ("status", "")):
    @test(f"{words}: whichever call fails, what it says is known", slow=True)
    def _(ws, words=words, only=only):
        arrange(ws)
        ws.tasuki("proc", "template", "create", "t", "--", "true").expect(0)
        (ws.path / "Procfile").write_text("web: true\n")
        state, kept, found = ws.path / ".aiflow", ws.base / "kept", set()
        shutil.copytree(state, kept, symlinks=True)

        def as_before():
            shutil.rmtree(state)
            shutil.copytree(kept, state, symlinks=True)

        at_every_call(ws, words.split(), lambda result, n: found.add(said(ws, result)), as_before, 4,
                      **({"TASUKI_FAULT_ONLY": only} if only else {}))
        compare(__file__, words, "\n".join(sorted(found - {"0"})))


@test("a lock that is busy for a moment is waited for, or what it means is said; what each command does then is known", slow=True)
def _(ws):
    arrange(ws)
    ws.tasuki("proc", "create", "s", "--", "sleep", "1000").expect(0)
    found = []
    for undo, words in (("request rm RQ-9", "request add t --id RQ-9 -- true"), ("", "request edit RQ-1 --title n"),
                        ("own release v", "own claim v"), ("own claim v", "own release v"), ("proc remove z", "proc create z -- true"),
                        ("", "proc update new --cwd /"), ("proc stop s", "proc start s"), ("proc start s", "proc stop s"),
                        ("proc create z -- true", "proc remove z"), ("lock release name b", "lock acquire name b"),
                        ("lock acquire name b", "lock release name b"), ("", "lock check name a"), ("", "events"), ("", "proc list"),
                        ("", "runs list"), ("", "run flow.yaml"), ("", "queue run")):
        for n in range(1, 10):
            if undo:
                ws.tasuki(*undo.split())
            result = ws.fault("--root", ws.path, "--json", *words.split(), at=n, mode="EAGAIN",
                              env={**with_tool(ws), "TASUKI_FAULT_ONLY": "ofd_lock"})
            ws.commands.clear()
            if result.calls is not None and result.calls < n:
                break
            found.append(f"{words} ({n}): {said(ws, result)}")
    ws.tasuki("proc", "stop", "s")
    compare(__file__, "busy", "\n".join(found))


@test("a row of a process or a template that is damaged is named by whatever needs it, and takes nothing else with it")
def _(ws):
    for words in ("proc create db -- true", "proc create web --depends-on db=started -- true", "proc create other -- true", "proc template create t -- true",
                  "proc template create u -- true"):
        ws.tasuki(*words.split()).expect(0)
    (ws.path / "import.yaml").write_text("version: 1\nprocesses:\n  db: {command: 'true'}\n  new: {command: 'true'}\n")
    found = []
    for table, column, one, looks in (
            ("template", "spec", "t", ("proc template list", "proc template show t", "proc template show u", "proc template use t made",
                                       "proc template use u made2", "proc template update t --cwd /", "proc template create v -- true", "proc export", "proc template delete t")),
            ("process", "args", "db", ("proc list", "status", "proc status db", "proc status web", "proc start db", "proc start web", "proc stop db",
                                     "proc stop --all", "proc update db --cwd /", "proc update web --cwd /", "proc logs db", "proc wait db", "proc export",
                                     "proc export web", "proc import import.yaml", "proc import import.yaml --replace", "restore", "probe db",
                                     "proc start other", "proc wait other", "proc create db -- true", "proc remove db", "proc remove web --force"))):
        with sqlite3.connect(ws.path / ".aiflow/state.db") as base:
            base.execute(f"UPDATE {table} SET {column} = '{{' WHERE {'id' if table == 'process' else 'name'} = '{one}'")
        base.close()
        found += [f"{table}: {words}: {said(ws, ws.tasuki('--json', *words.split()))}" for words in looks]
    compare(__file__, "damaged rows", re.sub(r"state.db:1:[0-9]+", "state.db:1:N", "\n".join(found)))


@test("an event or a party that cannot be stored: nothing is changed, and the refusal says why")
def _(ws):
    for words in ("own claim w", "proc create p -- true", "proc template create t -- true"):
        ws.tasuki(*words.split()).expect(0)

    def shown():
        return [ok(ws, *look.split()) for look in ("own show w", "proc list", "proc template list")]

    def change(text):
        with sqlite3.connect(ws.path / ".aiflow/state.db") as base:
            base.execute(text)
        base.close()

    before = shown()
    change("CREATE TRIGGER no_event BEFORE INSERT ON outbox BEGIN SELECT RAISE(ABORT, 'not today'); END")
    for words in ("own claim v --instance third", "own force-claim w --yes --instance third", "own release w", "own leave",
                  "proc create r -- true", "proc remove p", "proc update p --cwd /", "proc template create u -- true",
                  "proc template update t --cwd /", "proc template delete t"):
        result = ws.tasuki("--json", *words.split())
        assert result.code == 9 and "not today" in result.out, f"{words}: {result}"
        eq(shown(), before, f"what is there after {words}")
    change("DROP TRIGGER no_event")
    change("DELETE FROM instance")
    change("CREATE TRIGGER no_party BEFORE INSERT ON instance BEGIN SELECT RAISE(ABORT, 'not today'); END")
    result = ws.tasuki("--json", "own", "claim", "v")
    assert result.code == 9 and "not today" in result.out, result
    ws.tasuki("own", "show", "v").expect(5)


@test("an import that cannot store a template stores nothing; one whose templates are there asks for --replace")
def _(ws):
    ws.tasuki("proc", "template", "create", "t", "--", "true").expect(0)
    ws.tasuki("proc", "create", "p", "--", "true").expect(0)
    (ws.path / "both.yaml").write_text(ws.tasuki("proc", "export").expect(0).out)
    ws.tasuki("proc", "remove", "p").expect(0)
    refused = ws.tasuki("--json", "proc", "import", "both.yaml").expect(4, "CONFLICT")
    assert '"t"' in refused.out and "--replace" in refused.out, refused
    eq([one["id"] for one in ok(ws, "proc", "list")["processes"]], [], "the processes")
    ws.tasuki("proc", "template", "delete", "t").expect(0)
    with sqlite3.connect(ws.path / ".aiflow/state.db") as base:
        base.execute("CREATE TRIGGER no_template BEFORE INSERT ON template BEGIN SELECT RAISE(ABORT, 'not today'); END")
    base.close()
    result = ws.tasuki("--json", "proc", "import", "both.yaml")
    assert result.code == 9 and "not today" in result.out, result
    eq((ok(ws, "proc", "list")["processes"], ok(ws, "proc", "template", "list")["templates"]), ([], []), "what is there")


@test("a file of a process that cannot be opened: what each command says is known, and no process that runs is taken for one that does not",
      slow=True)
def _(ws):
    ws.tasuki("proc", "create", "s", "--", "sleep", "1000").expect(0)
    found = []
    for path in ("status.json", "want", "holder.lock", "run.1.lock", "history", "stdout.log", "log"):
        for words in ("proc status s", "proc list", "proc logs s", "proc start s", "proc wait s --for ready", "proc update s --cwd /",
                      "proc stop s", "proc restart s", "proc remove s --force"):
            if ws.tasuki("proc", "start", "s").code == 5:
                ws.tasuki("proc", "create", "s", "--", "sleep", "1000").expect(0)
                ws.tasuki("proc", "start", "s").expect(0)
            result = ws.fault("--json", *words.split(), at=1, mode="EIO", env={"TASUKI_FAULT_PATH": path, "TASUKI_FAULT_STICKY": "1"})
            ws.commands.clear()
            found.append(f"{path}: {words}: {re.sub(r'pid [0-9]+|[0-9]+ ms', '<n>', said(ws, result))}")
            if words == "proc list" and result.code == 0:
                eq(result.json["processes"][0]["state_name"], "Running", f"{path}: the state in the list")
    ws.tasuki("proc", "remove", "s", "--force")
    compare(__file__, "files of a process", "\n".join(found))


@test("where one kind of call always fails, what each command says is known, and none succeeds that had to make it", slow=True)
def _(ws):
    arrange(ws)
    state, kept, found = ws.path / ".aiflow", ws.base / "kept", []
    shutil.copytree(state, kept, symlinks=True)
    write_flow(ws, FLOW)
    for kind, mode in (("ofd_lock", "EIO"), ("write", "ENOSPC"), ("pwrite", "ENOSPC"), ("ftruncate", "EIO"), ("fdatasync", "EIO"),
                       ("mkdirat", "ENOSPC"), ("unlinkat", "EROFS"), ("renameat2", "EROFS"), ("linkat", "EIO"), ("fstat", "EIO"), ("clone", "EAGAIN")):
        for words in ("request add t --id RQ-9 -- true", "request edit RQ-1 --title n", "request rm RQ-2", "own claim v", "own note busy",
                      "proc create z -- true", "proc update new --cwd /", "proc start new", "proc remove new", "lock acquire name b",
                      "lock release name a", "lock run c -- true", "run flow.yaml", "runs rm @1", "queue run", "init", "proc list", "doctor"):
            shutil.rmtree(state)
            shutil.copytree(kept, state, symlinks=True)
            result = ws.fault("--root", ws.path, "--json", *words.split(), at=1, mode=mode, env={
                **with_tool(ws), "TASUKI_FAULT_ONLY": kind, "TASUKI_FAULT_STICKY": "1"})
            ws.commands.clear()
            failed = [one["name"] for one in result.json["checks"] if one["status"] == "FAIL"] if '"checks"' in result.out else ""
            found.append(f"{kind} {mode} {words}: {said(ws, result)}{' '.join(failed)}")
    compare(__file__, "always", "\n".join(found))


@test("request add and edit: a call that fails leaves the file as it was, or what is written is answered for", quick=False)
def _(ws):
    arrange(ws)
    path = ws.path / ".aiflow/requests/RQ-9.yaml"

    def is_true(result, n):
        is_written = path.exists() and "new title" in path.read_text()
        eq(result.code == 0, is_written, f"answered with 0, and written, at call {n}\n{result}")
        if is_written and "problems" not in result.json:  # it may be that it cannot be read again
            eq(result.json["title"], "new title", f"the answer at call {n}")

    at_every_call(ws, ["request", "add", "new title", "--id", "RQ-9", "--", "true"], is_true, lambda: path.unlink(missing_ok=True))
    at_every_call(ws, ["request", "edit", "RQ-9", "--title", "new title"], is_true,
                  lambda: path.write_text("title: old\nstatus: ready\nrun: ['true']\n"))


main(__name__)
