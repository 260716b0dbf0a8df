"""Spec 7: request files belong to their users. What was not read, not asked for or not understood is never lost."""

import fcntl
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness.harness import eq, main, test  # noqa: E402
from requests_common import add, call, go, kill, listed, queue, run, shown, spawn, stage_file, trace  # noqa: E402


def file(ws, id):
    return ws.path / ".aiflow/requests" / f"{id}.yaml"


def edited(ws, before, *args):
    file(ws, "RQ-1").write_bytes(before.encode())
    call(ws, "request", "edit", "RQ-1", *args)
    return file(ws, "RQ-1").read_bytes().decode()


# -- nothing is lost ----------------------------------------------------------------------------------------


@test("request edit refuses a file that it could not read, and leaves it as it was")
def _(ws):
    for text in ('title: "unclosed\nrun: [make]\nbody: |\n  precious\n', "- a list\n", "just a text\n", "title: x\nthis_is_an_unknown_key: y # why\n",
                 "title: x\n" + "".join(f"k{n}: {n}\n" for n in range(20)), "{title: x, run: make} # one\n",
                 "{ # in braces\ntitle: x,\nrun: make\n}\n", "title: x\nbody: " + "y" * (1 << 20) + "\n"):
        file(ws, "RQ-1").write_text(text)
        call(ws, "request", "edit", "RQ-1", "--priority", "P0", code=2, reason="INVALID_INPUT")
        eq(file(ws, "RQ-1").read_text(), text, "the file")
    file(ws, "RQ-1").unlink()
    (ws.path / "target").write_text("title: x\nrun: make\n")
    file(ws, "RQ-1").symlink_to(ws.path / "target")
    os.mkfifo(file(ws, "RQ-2"))
    for id in ("RQ-1", "RQ-2"):
        call(ws, "request", "edit", id, "--priority", "P0", code=2, reason="INVALID_INPUT")
        ws.tty(["request", "edit", id], [], env={"EDITOR": "touch"}).expect(2)
    eq((file(ws, "RQ-1").is_symlink(), file(ws, "RQ-2").is_fifo()), (True, True), "what they are")


@test("request edit keeps a BOM, line ends of both kinds, the end of the document, and files of only comments")
def _(ws):
    bom = "\ufefftitle: x # keep\nrun: make\n"
    eq(edited(ws, bom, "--title", "why"), bom.replace(": x", ": why"), "a BOM")
    eq(edited(ws, bom, "--priority", "P0"), bom.replace("keep\n", "keep\npriority: P0\n"), "a BOM, a new key")
    crlf = "title: x # keep\r\nrun: make\r\n"
    eq(edited(ws, crlf, "--priority", "P0", "--body", "a\nb\n"), "title: x # keep\r\npriority: P0\r\nrun: make\r\nbody: |\r\n  a\r\n  b\r\n", "CRLF")
    eq(shown(ws, "RQ-1")["body"], "a\nb\n", "the body")
    eq(edited(ws, "\ntitle: x\nrun: make\n", "--body", "a\nb\n"), "\ntitle: x\nrun: make\nbody: |\n  a\n  b\n", "an empty first line")
    eq(edited(ws, "---\ntitle: x\n...\n# the end\n", "--body", "b"), "---\ntitle: x\nbody: b\n...\n# the end\n", "the end of the document")
    eq(edited(ws, "# only this\n", "--title", "x"), "# only this\ntitle: x\n", "a comment")
    odd = "title: x # a\u2028b\nrun: make\n# c\n"
    file(ws, "RQ-1").write_text("# a\x85# b\u2028title: x\nrun: make\n")
    call(ws, "request", "edit", "RQ-1", "--title", "why")
    eq(file(ws, "RQ-1").read_text(), "# a\x85# b\u2028title: why\nrun: make\n", "line breaks of YAML")
    file(ws, "RQ-1").write_text(odd)
    eq(call(ws, "request", "show", "RQ-1").json["status"], "broken", "a comment that ends there")


@test("a key that does not stand in the file is not written into it, and does not cost its comments")
def _(ws):
    eq(edited(ws, "title: t # keep\n# c\n", "--flow", "f"), "title: t # keep\nflow: f\n# c\n", "flow")
    eq(shown(ws, "RQ-1")["file_status"], "ready", "what it stands for now")
    eq(edited(ws, "title: t # keep\nrun: x\n", "--", "make", "z"), "title: t # keep\nrun: [make, z]\n", "run")


@test("texts with characters that YAML takes for line breaks, or refuses, are stored as they are")
def _(ws):
    for odd in ("\x85", "\u2028", "\u2029", "\ufeff", "\x80", "\x9f", "\x7f", "\ufffe", "\uffff"):
        for text in (f"a{odd}b", f"null{odd}x", f"a\n\n{odd}", f"{odd}", f"a{odd}"):
            one = call(ws, "request", "add", "t" + text.replace("\n", ""), "--body", text, "--", "echo", text).json
            eq((one["title"], one["body"], one["run"]), ("t" + text.replace("\n", ""), text, ["echo", text]), f"{text!r}")
    one = call(ws, "request", "add", "t", "--id", "RQ-e", "--body", "a\n\n\u2028", "--", "null\u2028x").json
    eq((one["body"], one["run"]), ("a\n\n\u2028", ["null\u2028x"]), "a block")
    eq(call(ws, "request", "edit", "RQ-e", "--title", "x\u2029y").json["title"], "x\u2029y", "an edit")


@test("an editor's text that is not taken is kept, the message says where; one of a file that was changed since is not opened")
def _(ws):
    add(ws, "RQ-1", "true")
    folder, old = ws.path / ".aiflow/edit", ws.path / ".aiflow/edit/RQ-0.abc.yaml"
    folder.mkdir()
    old.write_text("old")
    os.utime(old, (1e9, 1e9))
    script = ws.base / "ed.sh"
    script.write_text('#!/bin/sh\necho "titel: x" > "$1"\n')
    script.chmod(0o755)
    out = ws.tty(["request", "edit", "RQ-1"], ["n"], env={"EDITOR": str(script)})
    kept = list(folder.iterdir())
    eq((out.code, [p.read_text() for p in kept]), (2, ["titel: x\n"]), "what is kept; the old one is gone")
    assert kept[0].name in "".join(out.out.split()), out.out
    kept[0].unlink()
    eq(ws.tty(["request", "edit", "RQ-1"], [], env={"EDITOR": "false"}).code, 3, "an editor that fails")
    eq(ws.tty(["request", "edit", "RQ-1", "--expected-updated-at", "2026-01-01T00:00:00.000Z"], [], env={"EDITOR": str(script)}).code, 4, "another time")
    eq(list(folder.iterdir()), [], "what was not changed is not kept")


# -- which file, which run ----------------------------------------------------------------------------------


@test("only looking takes the beginning of an id; what starts, changes or removes a request wants all of it")
def _(ws):
    add(ws, "RQ-10", "touch ran")
    before = file(ws, "RQ-10").read_text()
    eq(shown(ws, "RQ-1")["id"], "RQ-10", "what is shown")
    for args in (("rm",), ("run",), ("edit", "--title", "x")):
        error = call(ws, "request", args[0], "RQ-1", *args[1:], code=5, reason="REQUEST_NOT_FOUND").json["error"]
        assert "RQ-10" in error["message"], error
    eq((file(ws, "RQ-10").read_text(), (ws.path / "ran").exists()), (before, False), "the file, and whether it ran")
    add(ws, "RQ-11", "true")
    call(ws, "request", "show", "RQ-1", code=5, reason="REQUEST_NOT_FOUND")


@test("a file that was only touched, or has its old text again, is done; one with another text is not")
def _(ws):
    path = add(ws, "RQ-1")
    before = path.read_text()
    stage = run(ws, "RQ-1")
    eq(len(stage["request_sha256"]), 64, "the stage's hash")
    os.utime(path, (1e9, 1e9))
    eq((shown(ws, "RQ-1")["status"], queue(ws)["ran"]), ("done", []), "touched")
    path.write_text(before + "# another\n")
    eq(shown(ws, "RQ-1")["status"], "ready", "another text")
    path.write_text(before)
    eq((shown(ws, "RQ-1")["status"], len(trace(ws))), ("done", 1), "the old text")


@test("a damaged stage or an empty note does not make a request that is done ready again")
def _(ws):
    add(ws, "RQ-1")
    id = run(ws, "RQ-1")["run_id"]
    note = ws.path / ".aiflow/runs/.requests/RQ-1"
    for text in ('{"sta', "", "{}", "[]"):
        stage_file(ws, id).write_text(text)
        eq((shown(ws, "RQ-1")["status"], queue(ws)["ran"]), ("done", []), f"a stage of {text!r}")
    note.write_text("")
    eq((shown(ws, "RQ-1")["status"], shown(ws, "RQ-1")["latest_run"]["run_id"], queue(ws)["ran"]), ("done", id, []), "an empty note")
    (stage_file(ws, id).parent / "journal").write_text("")
    note.write_text(id)
    eq((shown(ws, "RQ-1")["status"], queue(ws)["ran"]), ("broken", []), "nothing that could be read")
    assert id in shown(ws, "RQ-1")["problems"][0]["reason"], "the problem names the run"
    eq(len(trace(ws)), 1, "executions")


@test("a run that was killed and whose stage is damaged goes on, and is in nobody's way")
def _(ws):
    add(ws, "RQ-1", "echo once >> trace; test -e go || exec sleep 300", priority="P0")
    proc = spawn(ws, "request", "run", "RQ-1")
    id = ws.until(lambda: trace(ws) and ws.read_lock("request", "RQ-1")["run_id"], "it runs")
    kill(ws, proc.pid)
    stage_file(ws, id).write_text('{"sta')
    add(ws, "RQ-2", "true")
    go(ws)
    eq([(line["request_id"], line["status"]) for line in queue(ws)["ran"]], [("RQ-1", "DONE"), ("RQ-2", "DONE")], "what the queue does")
    eq((shown(ws, "RQ-1")["latest_run"]["run_id"], len(trace(ws))), (id, 2), "the run that went on")
    stage_file(ws, id).write_text("")
    eq(run(ws, "RQ-1")["status"], "DONE", "by hand")


@test("the stage has the run's history: started, asked, answered, resumed, ended")
def _(ws):
    add(ws, "RQ-1", 'answer=$(tasuki task ask "Go?" --type approval); test -n "$answer" || exit 0; echo $answer >> trace')
    id = run(ws, "RQ-1", code=8)["run_id"]
    call(ws, "answer", id, "--yes", "--wait")
    history = call(ws, "runs", "show", id).json["history"]
    eq([(h["what"], h.get("task"), h.get("status")) for h in history],
       [("started", None, None), ("asked", "run", None), ("ended", None, "NEEDS_INPUT"), ("answered", "run", None), ("resumed", None, None),
        ("ended", None, "DONE")], "the history")
    eq([h["time"] for h in history], sorted(h["time"] for h in history), "the times")


@test("while another command changes requests the next one waits; after its time it is refused, and the files are as before", slow=True)
def _(ws):
    path = add(ws, "RQ-1")
    before = path.read_text()
    with open(ws.path / ".aiflow/requests.lock", "w") as guard:
        fcntl.lockf(guard, fcntl.LOCK_EX, 1, 0)
        commands = (("add", "t", "--id", "RQ-2", "--", "true"), ("edit", "RQ-1", "--title", "new"), ("rm", "RQ-1"))
        waiting = [ws.spawn("--json", "request", *words) for words in commands]
        for proc in waiting:
            ws.finish(proc).expect(4, "CONFLICT")
    eq((path.read_text(), file(ws, "RQ-2").exists()), (before, False), "the files")
    call(ws, "request", "rm", "RQ-1")


@test("files that can have no id are shown as broken, with their names")
def _(ws):
    folder = ws.path / ".aiflow/requests"
    add(ws, "RQ-good", "true")
    long = "RQ-" + "x" * 140 + ".yaml"
    for name in ("RQ-a b.yaml", "RQ-x.yml", long):
        (folder / name).write_text("title: x\nrun: [\"true\"]\n")
    (pathlib.Path(os.fsencode(folder).decode()) / os.fsdecode(b"RQ-\xff.yaml")).write_text("title: x\n")
    (folder / "notes.yml").write_text("no request")
    paths = {one["path"].split("/")[-1]: one["status"] for one in listed(ws).values()}
    eq(paths, {"RQ-good.yaml": "ready", "RQ-a b.yaml": "broken", "RQ-x.yml": "broken", long: "broken", "RQ-\\xff.yaml": "broken"}, "the files")
    said = {line["request_id"]: (line["reason"], line.get("detail")) for line in call(ws, "queue", "next").json["others"]}
    eq(said["RQ-x.yml"], ("NOT_READY", "broken"), "why it is not chosen")
    eq([line["request_id"] for line in queue(ws)["ran"]], ["RQ-good"], "what the queue runs")
    assert "RQ-a b.yaml:1:1: " in ws.tasuki("request", "list").expect(0).out


@test("cycles of any length are found at once, and told from what only waits for one", slow=True)
def _(ws):
    for n in range(1100):
        add(ws, f"RQ-{n}", "true", depends_on=[f"RQ-{(n + 1) % 1100}"])
    add(ws, "RQ-waits", "true", depends_on=["RQ-7"])
    add(ws, "RQ-self", "true", depends_on=["RQ-self"])
    for a, b in ("ab", "bc", "ca"):
        add(ws, f"RQ-{a}", "true", depends_on=["RQ-" + b])
    others = {o["request_id"]: (o["reason"], o["detail"]) for o in call(ws, "queue", "next").json["others"]}
    ws.commands.clear()
    eq({others[f"RQ-{n}"][0] for n in range(1100)}, {"DEPENDS_CYCLE"}, "the long one")
    eq(others["RQ-5"][1], "RQ-5 → RQ-6 → … → RQ-5", "its way")
    eq(others["RQ-waits"], ("DEPENDS_NOT_DONE", "RQ-7"), "what waits")
    eq(others["RQ-self"], ("DEPENDS_CYCLE", "RQ-self → RQ-self"), "itself")
    eq(others["RQ-b"], ("DEPENDS_CYCLE", "RQ-b → RQ-c → RQ-a → RQ-b"), "a short one")


@test("on a narrow screen a long title gives way; the excerpt of a long line ends with a whole character")
def _(ws):
    call(ws, "request", "add", "a long title " * 10, "--id", "RQ-1")
    wide = ws.tasuki("request", "list").expect(0).out
    narrow = ws.tasuki("request", "list", env={"COLUMNS": "50"}).expect(0).out
    assert "a long title " * 9 in wide and "a long title a l" not in narrow and "…" in narrow, narrow
    assert max(len(line) for line in narrow.splitlines()) <= 50, narrow
    for lead in ("", "a", "ab"):
        file(ws, "RQ-2").write_text(f"title: x\npriority: {lead}" + "日" * 100 + "\n")
        excerpt = shown(ws, "RQ-2")["problems"][0]["excerpt"]
        assert excerpt.startswith(f"priority: {lead}日日") and len(excerpt.encode()) > 150, excerpt


main(__name__)
