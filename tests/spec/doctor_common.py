"""What the suites about doctor share: examining, and a defect that is found, said and mended."""

import json
import os
import pathlib
import shlex
import shutil

from flows import with_tool
from harness.harness import eq, test

# The protocol's own bookkeeping: any command that looks at a lock or the database writes there.
BOOKKEEPING = ("state.db-shm", "state.db-wal", "locks/.guard/", "events.lock")


def examine(ws, *args, code=None, **options):
    result = ws.tasuki("doctor", *args, "--json", **options)
    report = result.json
    eq(result.code, (3 if report["status"] == "FAIL" else 0) if code is None else code, f"exit code\n{result}")
    return report


def check(report, name):
    found = [c for c in report["checks"] if c["name"] == name]
    assert len(found) == 1, f"{name} is not among {[c['name'] for c in report['checks']]}"
    return found[0]


def status_of(report, name):
    """PASS also when the check has nothing left to look at."""
    return next((c["status"] for c in report["checks"] if c["name"] == name), "PASS")


def problems(report):
    return {c["name"]: c["status"] for c in report["checks"] if c["status"] != "PASS"}


def state(ws, *parts):
    return ws.path.joinpath(".aiflow", *parts)


def tree(ws):
    """Every file below the workspace: type, mode and bytes."""
    found = {}
    for folder, dirs, files in os.walk(ws.path):
        for name in dirs + files:
            path = pathlib.Path(folder, name)
            short = str(path.relative_to(ws.path / ".aiflow")) if ".aiflow" in path.parts else name
            if any(short.startswith(b) or f"/{b}" in short for b in BOOKKEEPING):
                continue
            st = path.lstat()
            content = None
            if path.is_symlink():
                content = os.readlink(path)
            elif path.is_file():
                content = path.read_bytes()
            found[str(path.relative_to(ws.path))] = (st.st_mode, st.st_uid, content)
    return found


def differences(before, after):
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def type_in(ws, command):
    """A fixing command, as it stands. It names nothing outside the workspace."""
    outside = [w for w in shlex.split(command) if w.startswith("/") and not w.startswith(f"{ws.path}/")]
    eq(outside, [], f"places outside the workspace in {command}")
    return ws.run(["sh", "-c", command], env={**with_tool(ws), "EDITOR": "true"})


def plant(ws):
    """One file of each kind that is the user's."""
    for place, text in {"notes.txt": "mine\n", ".aiflow/config.yaml": "max_runs: 2\n", ".aiflow/flows/mine.yaml": "tasks: {a: 'true'}\n",
                        ".aiflow/requests/RQ-mine.yaml": "title: mine\nstatus: draft\nrun: 'true'\n"}.items():
        (ws.path / place).parent.mkdir(exist_ok=True)
        (ws.path / place).write_text(text)


def defect(rule, name, status, says, mends="command", changes=()):
    """Registers a test: `prepare` breaks the workspace in one way; doctor finds it with evidence that has the words `says`,
    changes nothing but `changes`, and gives a command. mends="command": typed as it stands it makes the check PASS;
    "--fix": so does doctor --fix (and says so); "both"; "look": the command only helps to look."""

    def register(prepare):
        def body(ws):
            plant(ws)
            prepare(ws)
            before = tree(ws)
            report = examine(ws)
            found = check(report, name)
            eq(found["status"], status, f"status of {found}")
            assert any(says in line for line in found["evidence"]), f"{says!r} is not in {found['evidence']}"
            eq(differences(before, tree(ws)), sorted(changes), "what has changed")
            assert found.get("fix"), f"there is no command in {found}"
            mend(ws, name, found, mends)

        test(rule)(body)
        return prepare

    return register


def mend(ws, name, found, mends):
    if mends in ("--fix", "both"):
        saved = ws.base / "saved"
        shutil.copytree(ws.path, saved, symlinks=True, ignore=shutil.ignore_patterns("*.sock"))
        before = users(tree(ws))
        fixed = check(examine(ws, "--fix"), name)
        eq(differences(before, users(tree(ws))), [], "what --fix has changed of the user's")
        assert fixed.get("fixed"), f"--fix has mended nothing: {fixed}"
        eq(fixed["status"], "PASS", "status with --fix")
        eq(status_of(examine(ws), name), "PASS", "status after --fix")
        if mends == "both" and not any("doctor --fix" in c for c in found["fix"]):
            undo(ws, saved)
    if mends in ("command", "both"):
        for command in found["fix"]:
            type_in(ws, command)
        eq(status_of(examine(ws), name), "PASS", f"status after {found['fix']}")


def users(found):
    """Of a tree what its user has made: that is never doctor's to change."""
    kinds = (".aiflow/config.yaml", ".aiflow/requests/", ".aiflow/flows/")
    return {name: what for name, what in found.items() if (not name.startswith(".aiflow") or name.startswith(kinds)) and "/." not in name}


def undo(ws, saved):
    shutil.rmtree(ws.path)
    shutil.copytree(saved, ws.path, symlinks=True)


def started(ws, id="web", *command):
    ws.tasuki("proc", "create", id, "--", *(command or ("sleep", "1000"))).expect(0)
    record = ws.tasuki("proc", "start", id, "--json").expect(0).json
    status = json.loads(state(ws, "processes", id, "status.json").read_text())
    ws.at_close(lambda: ws.tasuki("proc", "remove", id, "--force"))
    return record, status
