"""Spec 7, requests: files of the user's, their effective status, runs by hand, questions and answers."""

import json
import os
import pathlib
import random
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from flows import last_document, with_tool  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from harness.race import race  # noqa: E402
from http_common import Server  # noqa: E402
from requests_common import (GATE, add, begin, call, go, kill, listed, no_locks, parent_of, queue, refused, run, runs_of, shown,  # noqa: E402
                             spawn, stage_file, status, trace)

ASK = 'answer=$(tasuki task ask "Deploy?" --type approval); test -n "$answer" || exit 0; echo $answer >> trace'
OTHER_BOOT = "00000000-1111-2222-3333-444444444444"


def file(ws, id):
    return ws.path / ".aiflow/requests" / f"{id}.yaml"


def write(ws, id, text):
    file(ws, id).write_text(text)


def edited(ws, id, before, *args):
    write(ws, id, before)
    call(ws, "request", "edit", id, *args)
    return file(ws, id).read_text()


# -- the files ----------------------------------------------------------------------------------------------


@test("request add writes a file with the keys that were given, and nothing is run by it")
def _(ws):
    one = call(ws, "request", "add", "Build the docs", "--priority", "P1", "--depends", "RQ-a", "--depends", "RQ-b", "--body", "more\nof it\n",
               "--", "make", "docs now").json
    assert re.fullmatch(r"RQ-\d{8}T\d{6}-[0-9a-f]{5}", one["id"]), one["id"]
    eq(file(ws, one["id"]).read_text(), f"id: {one['id']}\ntitle: Build the docs\nstatus: ready\npriority: P1\n"
       "depends_on: [RQ-a, RQ-b]\nrun: [make, docs now]\nbody: |\n  more\n  of it\n", "the file")
    eq((one["title"], one["run"], one["depends_on"], one["body"], one["latest_run"]),
       ("Build the docs", ["make", "docs now"], ["RQ-a", "RQ-b"], "more\nof it\n", None), "the answer")
    eq(runs_of(ws), [], "runs")
    eq(ws.events("request.added")[0]["data"], {"request_id": one["id"]}, "the event")


@test("a flow that is not there yet is a warning at add and edit, not a refusal")
def _(ws):
    added = call(ws, "request", "add", "x", "--flow", "nope.yaml").json
    eq((added["status"], added["warning"]), ("ready", "There is no flow nope.yaml, neither as a file nor in .aiflow/flows/"), "add")
    assert "  warning   There is no flow nope.yaml" in ws.tasuki("request", "add", "x", "--flow", "nope.yaml").expect(0).out
    (ws.path / "nope.yaml").write_text("tasks: {a: {run: 'true'}}\n")
    assert "warning" not in call(ws, "request", "edit", added["id"], "--title", "y").json


@test("a request without a flow or a command is a draft; its own id is taken, but only once")
def _(ws):
    eq(call(ws, "request", "add", "Think", "--id", "RQ-think").json["status"], "draft", "status")
    call(ws, "request", "add", "Think", "--id", "RQ-think", code=4, reason="CONFLICT")
    call(ws, "request", "add", "x", "--id", "../x", code=2, reason="INVALID_INPUT")
    call(ws, "request", "add", "x", "--id", "other", code=2, reason="INVALID_INPUT")
    call(ws, "request", "add", "x", "--status", "ready", code=2, reason="INVALID_INPUT")
    call(ws, "request", "add", "x", "--depends", "no/id", code=2, reason="INVALID_INPUT")
    eq(set(listed(ws)), {"RQ-think"}, "requests")


@test("every text survives being written: quotes, colons, hashes, other scripts, what looks like a number or a boolean")
def _(ws):
    for text in ("a: b # c", '"quoted"', "'single'", "yes", "null", "12", "{map}", "日本語 とスペース", "tab\tin it", "trailing ",
                 "#", "&anchor", "*alias", "a\\b", "%", "@x", "`x`", "!tag", "|", ">", "?", ": ", "🎉"):
        one = call(ws, "request", "add", text, "--body", text + "\n" + text, "--", "echo", text).json
        back = shown(ws, one["id"])
        eq((back["title"], back["run"], back["body"]), (text, ["echo", text], text + "\n" + text), f"{text!r}")


@test("40 requests that are added at once get 40 files")
def _(ws):
    os.chdir(ws.path)
    answers = race(ws, [[str(ws.binary), "request", "add", f"n{n}", "--json", "--", "true"] for n in range(40)])
    eq([code for code, _ in answers], [0] * 40, "exit codes")
    eq((len({json.loads(text)["id"] for _, text in answers}), len(listed(ws))), (40, 40), "ids and files")


@test("a broken file is shown with all of its problems and their places, and is in nobody's way")
def _(ws):
    add(ws, "RQ-good", "true")
    write(ws, "RQ-bad", "titel: x\nstatus: redy\npriority: high\ndepends_on: [a b]\nrun: {a: b}\nflow: x.yaml\n")
    write(ws, "RQ-torn", "title: [\n")
    write(ws, "RQ-list", "- a\n")
    write(ws, "RQ-id", "id: RQ-other\ntitle: x\n")
    write(ws, "RQ-empty", "")
    write(ws, "other", "title: x\n")
    (ws.path / ".aiflow/requests/RQ-bytes.yaml").write_bytes(b"title: \xff\xfe\n")
    (ws.path / ".aiflow/requests/RQ-link.yaml").symlink_to("/etc/hostname")
    (ws.path / ".aiflow/requests/RQ-dir.yaml").mkdir()
    (ws.path / ".aiflow/requests/notes.txt").write_text("no request")
    all = listed(ws)
    eq({id for id in all if all[id]["status"] == "broken"}, set(all) - {"RQ-good"}, "the broken ones")
    eq(set(all), {"RQ-good", "RQ-bad", "RQ-torn", "RQ-list", "RQ-id", "RQ-empty", "other", "RQ-bytes", "RQ-link", "RQ-dir"}, "all of them")
    places = [(p["line"], p["column"]) for p in all["RQ-bad"]["problems"]]
    eq(places, [(1, 1), (2, 9), (3, 11), (4, 14), (5, 6), (1, 1), (5, 6)], "the places")
    assert "did you mean title" in all["RQ-bad"]["problems"][0]["reason"], all["RQ-bad"]["problems"]
    eq(all["RQ-bad"]["problems"][1]["excerpt"], "status: redy", "the line")
    text = ws.tasuki("request", "list").expect(0).out
    assert ".aiflow/requests/RQ-bad.yaml:2:9: " in text, text
    error = call(ws, "request", "run", "RQ-bad", code=2, reason="INVALID_INPUT").json["error"]
    eq((error["context"]["line"], error["context"]["source"], error["context"]["count"]), (1, ".aiflow/requests/RQ-bad.yaml", 7), "the refusal")
    eq([line["request_id"] for line in queue(ws)["ran"]], ["RQ-good"], "what the queue runs")
    eq({o["request_id"]: o["reason"] for o in call(ws, "queue", "next").json["others"]}["RQ-torn"], "NOT_READY", "why not")


@test("request edit changes what is mentioned; everything else stays byte for byte")
def _(ws):
    before = ("# my request\n\ntitle: Old title   # keep me\nstatus:   ready\n\n# how urgent\npriority: P2 # later\nrun: [make, all]  # build\n"
              "body: |\n  first\n    second # no comment\n\n  third\n# the end\n")
    eq(edited(ws, "RQ-1", before, "--title", "New: title"), before.replace("Old title ", '"New: title" '), "title")
    eq(edited(ws, "RQ-1", before, "--priority", "P0"), before.replace("P2 #", "P0 #"), "priority")
    eq(edited(ws, "RQ-1", before, "--status", "draft"), before.replace("ready", "draft"), "status")
    eq(edited(ws, "RQ-1", before, "--depends", "RQ-a", "--depends", "RQ-b"), before.replace("# later\n", "# later\ndepends_on: [RQ-a, RQ-b]\n"), "a new key")
    eq(edited(ws, "RQ-1", before, "--body", "short"), before[:before.index("body")] + "body: short\n# the end\n", "a value of several lines")
    eq(edited(ws, "RQ-1", before, "--body", ""), before[:before.index("body")] + "# the end\n", "without it")
    eq(edited(ws, "RQ-1", before, "--flow", "x.yaml"), before.replace("run: [make, all]  # build\n", "").replace("# later\n", "# later\nflow: x.yaml\n"), "flow instead of run")
    eq(edited(ws, "RQ-1", before, "--", "sh", "-c", "x y"), before.replace("[make, all]", '[sh, "-c", x y]'), "another command")
    eq(edited(ws, "RQ-1", before, "--title", "Old title"), before, "nothing")


@test("request edit understands lists of several lines, files without a last newline, and files in braces")
def _(ws):
    before = "title: x\ndepends_on:\n  - RQ-a\n  - RQ-b   # both\nrun: make"
    eq(edited(ws, "RQ-1", before, "--depends", "RQ-c"), "title: x\ndepends_on: [RQ-c]\nrun: make", "a list of several lines")
    eq(edited(ws, "RQ-1", before, "--depends", ""), "title: x\nrun: make", "no list")
    eq(edited(ws, "RQ-1", before, "--body", "b"), before + "\nbody: b\n", "behind the last line")
    eq(edited(ws, "RQ-1", '{title: x, run: "make all"}\n', "--priority", "P1"),
       'title: x\npriority: P1\nrun: make all\n', "written anew")


@test("300 random edits of random files say what was meant, and keep every comment at the margin", slow=True)
def _(ws):
    rng = random.Random(7)
    texts = ["x", "a: b", "two\nlines", "two\nlines\n", "#no", "日本", " lead", "1", "true", "x" * 100]
    for _ in range(60):
        values = {"title": rng.choice(texts[:1] + texts[4:6])}
        lines = [f"# c{rng.randrange(10)}"] if rng.random() < 0.5 else []
        for key in rng.sample(["title", "priority", "run", "body", "depends_on"], 5):
            value = {"title": values["title"], "priority": "P3", "run": "make", "body": rng.choice(texts), "depends_on": ["RQ-a"]}[key]
            values[key] = value
            lines.append(f"{key}: {json.dumps(value, ensure_ascii=rng.random() < 0.5)}" + rng.choice(["", "  # why"]))
            lines += rng.choice([[], [""], ["# between"], ["", "# two", "# lines", ""]])
        write(ws, "RQ-1", "\n".join(lines) + rng.choice(["", "\n"]))
        for _ in range(5):
            key = rng.choice(["title", "priority", "body"])
            value = {"title": rng.choice(texts), "priority": rng.choice(["P0", "P1"]), "body": rng.choice(texts)}[key]
            margin = [line for line in file(ws, "RQ-1").read_text().split("\n") if line.startswith("#")]
            values[key] = value
            call(ws, "request", "edit", "RQ-1", f"--{key}", value)
            now = shown(ws, "RQ-1")
            eq({k: now[k] for k in values}, values, f"after {key} = {value!r}")
            eq([line for line in file(ws, "RQ-1").read_text().split("\n") if line.startswith("#")], margin, "comments")
        ws.commands.clear()


@test("an edit that would break the file is refused, and so is one of a file that was changed since")
def _(ws):
    add(ws, "RQ-1", "true")
    before = file(ws, "RQ-1").read_text()
    seen = shown(ws, "RQ-1")["updated_at"]
    call(ws, "request", "edit", "RQ-1", "--title", "", code=2, reason="INVALID_INPUT")
    call(ws, "request", "edit", "RQ-1", code=2, reason="INVALID_INPUT")
    eq(file(ws, "RQ-1").read_text(), before, "the file")
    os.utime(file(ws, "RQ-1"), (1e9, 1e9))
    error = call(ws, "request", "edit", "RQ-1", "--title", "x", "--expected-updated-at", seen, code=4, reason="CONFLICT").json["error"]
    eq(error["context"]["updated_at"], shown(ws, "RQ-1")["updated_at"], "the file's time")
    now = shown(ws, "RQ-1")["updated_at"]
    eq(call(ws, "request", "edit", "RQ-1", "--title", "x", "--expected-updated-at", now).json["title"], "x", "title")


@test("an edit of an outdated request is refused, however soon it follows the other edit; requests are listed in the order in which they were added", slow=True)
def _(ws):
    server = Server(ws)
    names = [f"RQ-{number}" for number in range(60, 0, -1)]
    for name in names:
        before = server.post("/api/requests", {"id": name, "title": "old", "run": ["true"]}).expect(200).json["updated_at"]
        edit = {"title": "new", "expected_updated_at": before}
        after = server.ask("PUT", f"/api/requests/{name}", edit).expect(200).json["updated_at"]
        assert after > before, (before, after)
        server.ask("PUT", f"/api/requests/{name}", {**edit, "title": "lost"}).expect(409, "CONFLICT")
        eq(server.ask("PUT", f"/api/requests/{name}", {"title": "last", "expected_updated_at": after}).expect(200).json["title"], "last")
    eq(list(listed(ws)), names, "the order")
    server.stop()


@test("request edit without options opens the editor, and takes only what is right")
def _(ws):
    add(ws, "RQ-1", "true")
    script = ws.base / "ed.sh"
    script.write_text('#!/bin/sh\nn=$(cat "$0.n" 2>/dev/null); n=$((n + 1)); echo $n > "$0.n"\n'
                      'if test $n = 1; then echo "title: [" > "$2"; else echo "title: by hand" > "$2"; fi\n')
    script.chmod(0o755)
    shownly = ws.tty(["request", "edit", "RQ-1"], ["y"], env={"EDITOR": f"{script} -x"})
    eq((shownly.code, shown(ws, "RQ-1")["title"]), (0, "by hand"), "code and title")
    script.write_text('#!/bin/sh\necho "titel: x" > "$2"\n')
    out = ws.tty(["request", "edit", "RQ-1"], ["n"], env={"EDITOR": f"{script} -x"})
    eq((out.code, shown(ws, "RQ-1")["title"]), (2, "by hand"), "code and title")
    eq([p.read_text() for p in (ws.path / ".aiflow/edit").iterdir()], ["titel: x\n"], "what was written is kept")


@test("request rm takes the file away and keeps it; not while it runs")
def _(ws):
    proc, _ = begin(ws, "RQ-1")
    answer = call(ws, "request", "rm", "RQ-1", code=4, reason="RUN_IN_PROGRESS").json
    eq(answer["latest_run"], "/api/runs/" + answer["error"]["context"]["run_id"], "the run that is in the way")
    go(ws)
    ws.finish(proc)
    text = file(ws, "RQ-1").read_text()
    kept = call(ws, "request", "rm", "RQ-1").json["kept"]
    eq((file(ws, "RQ-1").exists(), (ws.path / kept).read_text()), (False, text), "the file")
    call(ws, "request", "show", "RQ-1", code=5, reason="REQUEST_NOT_FOUND")
    eq(len(runs_of(ws, "RQ-1")), 1, "its runs")


@test("lists come in pages, and go on where they ended")
def _(ws):
    ids = [f"RQ-{n}" for n in range(7)]
    for id in ids:
        add(ws, id, "true")
        run(ws, id)
    seen, cursor = [], None
    while True:
        page = call(ws, "request", "list", "-n", "3", *(["--cursor", cursor] if cursor else [])).json
        eq(page["total"], 7, "how many there are")
        seen += [one["id"] for one in page["requests"]]
        cursor = page["cursor"]
        if not cursor:
            break
    eq(seen, ids, "requests")
    seen, cursor = [], None
    while True:
        page = call(ws, "runs", "list", "-n", "3", *(["--cursor", cursor] if cursor else [])).json
        seen += [one["request_id"] for one in page["runs"]]
        cursor = page["cursor"]
        if not cursor:
            break
    eq(seen, ids[::-1], "runs, the newest first")
    eq([one["request_id"] for one in call(ws, "runs", "list", "--request", "RQ-3").json["runs"]], ["RQ-3"], "runs of one request")


# -- the effective status -----------------------------------------------------------------------------------


@test("the effective status follows from the file, the runs, the lock and the dependencies")
def _(ws):
    add(ws, "RQ-draft", "true", status="draft")
    add(ws, "RQ-ready", "true")
    add(ws, "RQ-archived", "true", status="archived")
    add(ws, "RQ-blocked", "true", depends_on=["RQ-ready"])
    add(ws, "RQ-asks", ASK)
    add(ws, "RQ-fails", "false")
    add(ws, "RQ-done", "true")
    run(ws, "RQ-asks", code=8)
    run(ws, "RQ-fails", code=7)
    run(ws, "RQ-done")
    proc, _ = begin(ws, "RQ-running")
    eq({id: one["status"] for id, one in listed(ws, "--all").items()},
       {"RQ-draft": "draft", "RQ-ready": "ready", "RQ-archived": "archived", "RQ-blocked": "blocked", "RQ-asks": "needs_input",
        "RQ-fails": "failed", "RQ-done": "done", "RQ-running": "running"}, "statuses")
    assert "RQ-archived" not in listed(ws)
    eq(set(listed(ws, "--status", "failed")), {"RQ-fails"}, "only the failed ones")
    go(ws)
    ws.finish(proc)
    for id in ("RQ-draft", "RQ-ready"):
        eq(file(ws, id).read_text().count("\n"), 3 if id == "RQ-draft" else 2, "the files are as they were written")


@test("a request is done until its file is changed; archiving it does not undo it")
def _(ws):
    add(ws, "RQ-1", "true")
    add(ws, "RQ-2", "true", depends_on=["RQ-1"])
    run(ws, "RQ-1")
    eq((shown(ws, "RQ-1")["status"], shown(ws, "RQ-2")["status"]), ("done", "ready"), "after the run")
    call(ws, "request", "edit", "RQ-1", "--title", "changed")
    eq((shown(ws, "RQ-1")["status"], shown(ws, "RQ-2")["status"]), ("ready", "blocked"), "after a change")
    run(ws, "RQ-1")
    call(ws, "request", "edit", "RQ-1", "--status", "archived")
    eq((shown(ws, "RQ-1")["status"], shown(ws, "RQ-2")["status"]), ("archived", "ready"), "after archiving")


# -- runs by hand -------------------------------------------------------------------------------------------


@test("request run exits 0 when done, 7 when failed, 8 when something is asked")
def _(ws):
    for id, command, code, word in (("RQ-1", "true", 0, "DONE"), ("RQ-2", "exit 9", 7, "FAILED"), ("RQ-3", ASK, 8, "NEEDS_INPUT")):
        add(ws, id, command)
        stage = run(ws, id, code=code)
        eq((stage["status"], stage["request_id"]), (word, id), "the stage")
        assert re.fullmatch(r"RUN-\d{8}T\d{6}-[0-9a-f]{6}", stage["run_id"]), stage["run_id"]


@test("tasks of a request run in the workspace's root, and find what it says in their channel")
def _(ws):
    (ws.path / "sub").mkdir()
    add(ws, "RQ-1", 'pwd > where; tasuki channel get request > what', body="do it", priority="P0")
    ws.tasuki("request", "run", "RQ-1", cwd=ws.path / "sub", env=with_tool(ws)).expect(0)
    eq((ws.path / "where").read_text().strip(), str(ws.path), "where")
    eq(json.loads((ws.path / "what").read_text()), {"id": "RQ-1", "title": "RQ-1", "priority": "P0", "body": "do it"}, "what")


@test("a request runs a flow: by path from the root, or by its name in .aiflow/flows; an invalid one begins nothing")
def _(ws):
    (ws.path / "f.yaml").write_text("flow: a >> b\ntasks: {a: 'true', b: 'true'}\n")
    (ws.path / ".aiflow/flows/named.yaml").write_text("tasks: {a: 'true'}\n")
    for id, flow, total in (("RQ-1", "f.yaml", 2), ("RQ-2", "named", 1), ("RQ-4", "named.yaml", 1)):
        write(ws, id, f"title: x\nflow: {flow}\n")
        eq(run(ws, id)["counts"]["done"], total, "tasks")
    write(ws, "RQ-3", "title: x\nflow: bad.yaml\n")
    call(ws, "request", "run", "RQ-3", code=5, reason="NOT_FOUND")
    (ws.path / "bad.yaml").write_text("tasks: {a: {needs: [b], run: x}}\n")
    call(ws, "request", "run", "RQ-3", code=2, reason="FLOW_INVALID")
    call(ws, "request", "run", "RQ-3", "--detach", code=2, reason="FLOW_INVALID")
    eq(len(runs_of(ws)), 3, "runs")
    no_locks(ws)


@test("an archived request is not run, a draft is; one that says nothing has nothing to run")
def _(ws):
    add(ws, "RQ-1", "true", status="archived")
    add(ws, "RQ-2", "true", status="draft")
    write(ws, "RQ-3", "title: x\n")
    call(ws, "request", "run", "RQ-1", code=2, reason="INVALID_INPUT")
    run(ws, "RQ-2")
    call(ws, "request", "run", "RQ-3", code=2, reason="INVALID_INPUT")
    call(ws, "request", "run", "RQ-4", code=5, reason="REQUEST_NOT_FOUND")


@test("runs of different requests overlap, as many as max_runs allows")
def _(ws):
    (ws.path / ".aiflow/config.yaml").write_text("max_runs: 2\n")
    procs = []
    for number in (1, 2):
        add(ws, f"RQ-{number}", f"echo > up{number}; while ! test -e go; do sleep 0.01; done")
        procs.append(spawn(ws, "request", "run", f"RQ-{number}"))
        ws.until_file(f"up{number}")
    add(ws, "RQ-3", "true")
    call(ws, "request", "run", "RQ-3", code=4, reason="CONFLICT")
    no_lock = call(ws, "lock", "list").json["locks"]
    eq({lock["id"] for lock in no_lock}, {"RQ-1", "RQ-2"}, "locks")
    kill(ws, procs[0].pid)
    run(ws, "RQ-3")
    go(ws)
    ws.finish(procs[1]).expect(0)
    (ws.path / ".aiflow/config.yaml").write_text("max_runs: none\n")
    call(ws, "request", "run", "RQ-3", code=2, reason="INVALID_INPUT")


@test("--detach returns when the run has begun; it is followed with attach; the request's lock is its runner's")
def _(ws):
    add(ws, "RQ-1", GATE)
    stage = call(ws, "request", "run", "RQ-1", "--detach").json
    eq((stage["status"], stage["request_id"]), ("RUNNING", "RQ-1"), "the stage")
    lock = ws.read_lock("request", "RQ-1")
    eq((lock["run_id"], lock["pid"], lock["hold"]), (stage["run_id"], stage["runner"]["pid"], "life"), "the lock")
    ws.until_file("up")
    follower = spawn(ws, "request", "run", "RQ-1", "--on-conflict", "attach")
    ws.until(lambda: len(os.listdir(f"/proc/{follower.pid}/task")) == 2, "somebody follows it")
    go(ws)
    end = last_document(ws.finish(follower).expect(0))
    eq((end["run_id"], end["status"], end["attached"]), (stage["run_id"], "DONE", True), "the end")
    no_locks(ws)


@test("a killed runner of a detached run: its tree is swept, the lock is free at once, the run can be resumed")
def _(ws):
    add(ws, "RQ-1", "test -e go && exit 0; setsid sleep 300 & echo $! > left; echo > up; sleep 300")
    stage = call(ws, "request", "run", "RQ-1", "--detach").json
    left = int(ws.until_file("left"))
    ws.until_file("up")
    kill(ws, stage["runner"]["pid"])
    ws.until(lambda: not ws.alive(left), "the leftover is swept")
    eq(status(ws, stage["run_id"]), "INTERRUPTED", "the run")
    go(ws)
    eq(last_document(call(ws, "resume", stage["run_id"]))["status"], "DONE", "resumed")


@test("replace runs anew also if the runner is killed while it cancels: what was left of that run is not gone on with")
def _(ws):
    proc, first = begin(ws, "RQ-1", "trap 'echo >> told' TERM; " + GATE)
    second = spawn(ws, "request", "run", "RQ-1", "--on-conflict", "replace", "--yes")
    ws.until_file("told")
    kill(ws, proc.pid)
    go(ws)
    stage = last_document(ws.finish(second).expect(0))
    assert stage["run_id"] != first, stage
    eq((status(ws, first), stage["status"]), ("CANCELLED", "DONE"), "the old run and the new one")
    no_locks(ws)


@test("replace cancels the run that is there, after a yes, and runs anew; without a yes nothing happens")
def _(ws):
    proc, first = begin(ws, "RQ-1", "echo $TASUKI_RUN_ID >> up; while ! test -e go; do sleep 0.01; done")
    error = refused(ws, "RQ-1", "--on-conflict", "replace", code=6, reason="NEEDS_CONFIRMATION")["error"]
    eq(error["context"]["run_id"], first, "what would be replaced")
    eq(status(ws, first), "RUNNING", "the first")
    second = spawn(ws, "request", "run", "RQ-1", "--on-conflict", "replace", "--yes")
    ws.until(lambda: len((ws.path / "up").read_text().split()) == 2, "the second runs")
    eq((status(ws, first), ws.finish(proc).code), ("CANCELLED", 7), "the first")
    go(ws)
    stage = last_document(ws.finish(second).expect(0))
    eq((stage["status"], len(runs_of(ws))), ("DONE", 2), "the second")


@test("a run whose lock was forced away is cancelled", slow=True)
def _(ws):
    (ws.path / "f.yaml").write_text("flow: a >> b\ntasks:\n  a: {run: 'echo > up; while ! test -e go; do sleep 0.01; done'}\n"
                                    "  b: {run: 'echo b >> trace'}\n")
    write(ws, "RQ-1", "title: x\nflow: f.yaml\n")
    proc = spawn(ws, "request", "run", "RQ-1")
    ws.until_file("up")
    ws.tasuki("lock", "acquire", "request", "RQ-1", "--force", "--yes", "--pid", os.getpid()).expect(0)
    stage = last_document(ws.finish(proc).expect(4))  # although its first task would wait for ever
    eq((stage["status"], stage["reason_code"]), ("CANCELLED", "LOCK_LOST"), "status and reason")
    eq((trace(ws), ws.read_lock("request", "RQ-1")["pid"]), ([], os.getpid()), "executions, and whose lock it is")


# -- questions ----------------------------------------------------------------------------------------------


@test("a request whose latest run asks something is not run again (exit 8), unless --new, which cancels that run")
def _(ws):
    add(ws, "RQ-1", ASK)
    first = run(ws, "RQ-1", code=8)["run_id"]
    error = call(ws, "request", "run", "RQ-1", code=8, reason="NEEDS_INPUT").json["error"]
    eq((error["context"]["run_id"], error["context"]["request_id"]), (first, "RQ-1"), "context")
    no_locks(ws)
    second = run(ws, "RQ-1", "--new", code=8)["run_id"]
    eq((status(ws, first), status(ws, second)), ("CANCELLED", "NEEDS_INPUT"), "the runs")
    call(ws, "answer", first, "--yes", code=4, reason="CONFLICT")
    eq(last_document(call(ws, "answer", second, "--yes", "--wait"))["status"], "DONE", "the second")


@test("after an answer a runner apart takes the lock again; --wait follows it; a second answer is refused, also while it runs")
def _(ws):
    add(ws, "RQ-1", ASK + "; echo $TASUKI_RUN_ID > up; while ! test -e go; do sleep 0.01; done")
    id = run(ws, "RQ-1", code=8)["run_id"]
    no_locks(ws)
    eq(call(ws, "answer", id, "--yes").json, {"run_id": id, "answer": True, "status": "RUNNING"}, "the answer")
    ws.until_file("up")
    lock = ws.read_lock("request", "RQ-1")
    eq((lock["run_id"], pathlib.Path(f"/proc/{parent_of(lock['pid'])}/comm").read_text().strip()), (id, "tasuki-hold"), "whose lock it is")
    call(ws, "answer", id, "--yes", code=4, reason="ALREADY_ANSWERED")
    eq(refused(ws, "RQ-1")["error"]["context"]["run_id"], id, "who is in the way")
    go(ws)
    call(ws, "wait", "run", id)
    call(ws, "answer", id, "--yes", code=4, reason="ALREADY_ANSWERED")
    eq((trace(ws), shown(ws, "RQ-1")["status"]), (["true"], "done"), "executions and status")


def reboot(ws):
    """Everything that tells one boot from another says that there was one since, and nobody is left who writes or removes files:
    the holder of a detached runner ends after the runner."""
    for path in (ws.path / ".aiflow").glob("runners/*/status.json"):
        holder = json.loads(path.read_text())["holder"]["pid"]
        ws.until(lambda pid=holder: not ws.alive(pid), f"the holder {holder} is gone")
    for path in (ws.path / ".aiflow").rglob("*"):
        if path.is_file() and path.suffix in (".json", ".lock") and path.stat().st_size:
            text = path.read_text(errors="surrogateescape")
            boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
            if boot in text:
                path.write_text(text.replace(boot, OTHER_BOOT), errors="surrogateescape")
    for path in (ws.path / ".aiflow/locks/.guard").glob("[!.]*"):
        with open(path, "r+b") as guard:  # magic, then the boot's id
            guard.seek(8)
            guard.write(bytes(range(16)))


NESTED = """
flow: first >> outer(left >> inner(asks | beside) | right) >> last
tasks:
  first: {run: 'echo first >> trace'}
  left: {run: 'echo left >> trace'}
  asks: {run: 'answer=$(tasuki task ask "Which?" --type selection --option red --option blue); test -n "$answer" || exit 0; echo asks:$answer >> trace'}
  beside: {run: 'echo beside >> trace'}
  right: {run: 'echo right >> trace'}
  last: {run: 'echo last:$(tasuki channel get asks.answer) >> trace'}
"""


@test("a question of a nested branch is answered after a reboot, late, and the run goes on where it was; a second answer is refused")
def _(ws):
    (ws.path / "nested.yaml").write_text(NESTED)
    write(ws, "RQ-1", "title: x\nflow: nested.yaml\n")
    stage = call(ws, "request", "run", "RQ-1", "--detach").json
    id = stage["run_id"]
    ws.until(lambda: status(ws, id) == "NEEDS_INPUT", "it asks")
    ws.until(lambda: not ws.alive(stage["runner"]["pid"]), "nothing of it is left")
    reboot(ws)
    questions = call(ws, "runs", "show", id).json["questions"]
    eq([(q["task"], q["question"]["options"]) for q in questions], [("asks", ["red", "blue"])], "the question")
    eq(call(ws, "queue", "next").json["others"][0]["reason"], "LATEST_RUN_NEEDS_INPUT", "why the queue leaves it alone")
    end = last_document(call(ws, "answer", id, "--choose", "2", "--wait"))
    eq((end["run_id"], end["status"], end["request_id"]), (id, "DONE", "RQ-1"), "the end")
    seen = trace(ws)
    eq(sorted(seen), sorted(["first", "left", "beside", "right", "asks:blue", "last:blue"]), "each task once")
    eq((seen[0], seen[-1]), ("first", "last:blue"), "first and last")
    call(ws, "answer", id, "--choose", "1", code=4, reason="ALREADY_ANSWERED")
    eq((shown(ws, "RQ-1")["status"], len(runs_of(ws))), ("done", 1), "the request")
    no_locks(ws)


@test("a run that a killed runner left, whose machine was then started anew, goes on")
def _(ws):
    add(ws, "RQ-1", "echo started >> trace; test -e go && exit 0; echo $$ > up; exec sleep 300")
    proc = spawn(ws, "request", "run", "RQ-1")
    ws.until_file("up")
    kill(ws, proc.pid)
    reboot(ws)
    go(ws)
    eq(shown(ws, "RQ-1")["latest_run"]["status"], "INTERRUPTED", "the run")
    eq([line["status"] for line in queue(ws)["ran"]], ["DONE"], "what the queue does")
    eq((trace(ws), len(runs_of(ws))), (["started", "started"], 1), "executions and runs")


@test("a request that would be longer than a request's file may be is refused, and the old file stays", slow=True)
def _(ws):
    long = ["x" * 120000] * 9
    call(ws, "request", "add", "t", "--id", "RQ-1", "--", "echo", *long, code=2, reason="PAYLOAD_TOO_LARGE")
    eq(list((ws.path / ".aiflow/requests").iterdir()), [], "the requests")
    path = add(ws, "RQ-1")
    before = path.read_text()
    call(ws, "request", "edit", "RQ-1", "--", "echo", *long, code=2)
    eq(path.read_text(), before, "the file")


@test("max_runs of config.yaml: a request by hand waits for nobody, it is refused until a place is free")
def _(ws):
    (ws.path / ".aiflow/config.yaml").write_text("max_runs: 1\n")
    add(ws, "RQ-2", "true")
    proc, _ = begin(ws, "RQ-1")
    refusal = call(ws, "request", "run", "RQ-2", code=4, reason="CONFLICT").json["error"]
    eq((refusal["context"]["max"], refusal["next"]), ("1", ["tasuki runs list --status RUNNING"]), "the refusal")
    eq(runs_of(ws, "RQ-2"), [], "the runs")
    (ws.path / ".aiflow/config.yaml").write_text("max_runs: 2\n")
    eq(run(ws, "RQ-2")["status"], "DONE", "with a second place")
    go(ws)
    ws.finish(proc).expect(0)
    (ws.path / ".aiflow/config.yaml").write_text("max_runs: 1\n")
    eq(run(ws, "RQ-2", "--new")["status"], "DONE", "when the first has ended")


@test("a request that is removed and added again, word for word, has not run yet; a file that comes back has")
def _(ws):
    for expected in (1, 2):
        call(ws, "request", "add", "one", "--id", "RQ-1", "--", "sh", "-c", "echo x >> ran")
        eq(call(ws, "request", "show", "RQ-1").json["status"], "ready", "the new one")
        queue(ws)
        eq((ws.path / "ran").read_text().count("x"), expected, "how often it ran")
        kept = call(ws, "request", "rm", "RQ-1").json["kept"]
    (ws.path / kept).rename(ws.path / ".aiflow/requests/RQ-1.yaml")
    eq(call(ws, "request", "show", "RQ-1").json["status"], "done", "the file that came back")


main(__name__)
