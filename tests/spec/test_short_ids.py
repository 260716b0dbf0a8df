"""Ids for people: tables show the short form, every command takes it; a run and a request are named in the same way."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from flows import last_document, with_tool  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from requests_common import add, call, listed, queue, run, runs_of, shown  # noqa: E402


def table(ws, *words):
    """The first column of what a command prints."""
    return [line.split()[0] for line in ws.tasuki(*words).expect(0).out.splitlines()[1:]]


def refusal(ws, *words, code=5):
    return call(ws, *words, code=code, reason="REQUEST_NOT_FOUND").json["error"]["message"]


@test("runs list shows the end of each id, which names the run; --verbose and JSON show all of it")
def _(ws):
    (ws.path / "f.yaml").write_text("tasks: {a: 'true'}\n")
    for _ in range(2):
        call(ws, "run", "f.yaml")
    ids = [one["run_id"] for one in runs_of(ws)]
    eq(table(ws, "runs", "list"), [id[-6:] for id in ids], "short")
    eq(table(ws, "runs", "list", "--verbose"), ids, "whole")
    for id in ids:
        eq(call(ws, "runs", "show", id[-6:]).json["run_id"], id, "by its short form")


@test("ids with the same end are shown with their times, and both forms name the run")
def _(ws):
    (ws.path / "f.yaml").write_text("tasks: {a: 'true'}\n")
    call(ws, "run", "f.yaml")
    first = runs_of(ws)[0]["run_id"]
    folder = ws.path / ".aiflow/runs"
    (folder / first).rename(folder / "RUN-20260101T223000-1a2b3c")
    call(ws, "run", "f.yaml")
    second = next(one["run_id"] for one in runs_of(ws) if one["run_id"] != first)
    (folder / second).rename(folder / "RUN-20260101T223001-1a2b3c")
    eq([path.name for path in sorted(folder.glob("RUN-*"))], ["RUN-20260101T223000-1a2b3c", "RUN-20260101T223001-1a2b3c"], "the runs")
    # Their stages still have the old ids, so the list is asked for by position.
    for short in ("223000-1a2b3c", "223001-1a2b3c"):
        call(ws, "runs", "show", short)
    call(ws, "runs", "show", "1a2b3c", code=5, reason="RUN_NOT_FOUND")


@test("request list shows short ids of requests and of their runs; names of one's own stay")
def _(ws):
    id = call(ws, "request", "add", "Long", "--", "true").json["id"]
    add(ws, "RQ-own", "true")
    of = run(ws, id)["run_id"]
    rows = {line.split()[0]: line for line in ws.tasuki("request", "list").expect(0).out.splitlines()[1:]}
    eq(sorted(rows), sorted([id[-5:], "RQ-own"]), "the ids")
    eq(rows[id[-5:]].rstrip().endswith(of[-6:]), True, rows[id[-5:]])
    eq(id in ws.tasuki("request", "list", "--verbose").expect(0).out, True, "whole")


@test("status shows short ids of requests, also as the flow of their runs")
def _(ws):
    ids = [call(ws, "request", "add", title, "--", "true").json["id"] for title in ("Done", "Left")]
    run(ws, ids[0])
    status = ws.tasuki("status").expect(0).out
    eq([status.split().count(text) for text in (*ids, ids[0][-5:], ids[1][-5:])], [0, 0, 1, 1], status)
    whole = ws.tasuki("status", "--verbose").expect(0).out
    eq([id in whole for id in ids], [True, True], whole)


@test("queue next, queue run, queue status and request show: short ids, of what is in the way, too; --verbose shows all of each")
def _(ws):
    first, second = [call(ws, "request", "add", title, "--", "true").json["id"] for title in ("First", "Second")]
    third = call(ws, "request", "add", "Third", "--depends", second, "--", "true").json["id"]
    eq(ws.tasuki("queue", "next").expect(0).out.split().count(second[-5:]), 2, "second: in its row, and in the row of what waits for it")
    for words in (["queue", "next"], ["queue", "status"], ["request", "show", third]):
        short = ws.tasuki(*words).expect(0).out
        eq([id in short for id in (first, second)], [False, False], short)
    eq(all(id in ws.tasuki("queue", "next", "--verbose").expect(0).out for id in (first, second, third)), True, "whole")
    rows = [line.split() for line in ws.tasuki("queue", "run").expect(0).out.splitlines() if line.startswith("  ") and " DONE " in line]
    eq([row[0] for row in rows], [id[-5:] for id in (first, second, third)], "what has run")
    for row, id in zip(rows, (first, second, third)):
        eq(call(ws, "runs", "show", row[2]).json["request_id"], id, "the run by its short form")
        assert row[2] in ws.tasuki("request", "show", row[0]).expect(0).out, "the runs of a request"


@test("runs list shows the short id of a request as the flow; one that is gone keeps its whole id")
def _(ws):
    id, gone = [call(ws, "request", "add", title, "--", "true").json["id"] for title in ("Stays", "Goes")]
    for one in (id, gone):
        run(ws, one)
    call(ws, "request", "rm", gone)
    flows = {line.split()[2] for line in ws.tasuki("runs", "list").expect(0).out.splitlines()[1:]}
    eq(flows, {id[-5:], gone}, "the flows")
    add(ws, f"RQ-20260207T223000-{gone[-5:]}", "true")  # its end would name this one
    eq(gone in ws.tasuki("runs", "list").expect(0).out, True, "the end of an id that is gone names no other")


@test("two requests with the same end are shown with their times, and both forms name them")
def _(ws):
    ids = ["RQ-20260207T223000-1a2b3", "RQ-20260207T223001-1a2b3"]
    for id in ids:
        add(ws, id, "true")
    eq(sorted(line.split()[0] for line in ws.tasuki("queue", "next").expect(0).out.splitlines()), [id[-12:] for id in ids], "with times")
    for id in ids:
        eq(shown(ws, id[-12:])["id"], id, "by that form")


@test("among many, an end that two ids have and an end that is in another's time are shown with more; the form names that id only")
def _(ws):
    ids = [f"RQ-20260207T2230{n:02}-{n:02x}abc" for n in range(60)]
    ids += ["RQ-20260208T000000-01abc", "RQ-20260208T010203-40404", "RQ-20260208T140404-fffff"]
    for id in ids:
        add(ws, id, "true")
    rows = {line.split()[0] for line in ws.tasuki("request", "list").expect(0).out.splitlines()[1:]}
    wanted = {id[-5:] for id in ids[:60]} - {"01abc"} | {"223001-01abc", "000000-01abc", "010203-40404", "fffff"}
    eq(rows, wanted, "the forms")
    for form in ("223001-01abc", "000000-01abc", "010203-40404", "fffff", "02abc"):
        eq(shown(ws, form)["id"].endswith(form), True, form)


@test("a request is named by its id, by it without RQ-, by a part that no other has, and by @1, @2: in every command")
def _(ws):
    add(ws, "RQ-build", "true")
    os.utime(ws.path / ".aiflow/requests/RQ-build.yaml", (1.0e9, 1.0e9))
    id = call(ws, "request", "add", "Long", "--", "true").json["id"]
    for name in ("RQ-build", "build", "buil", "@2"):
        eq(shown(ws, name)["id"], "RQ-build", name)
    for name in (id, id[3:], id[-5:], "@1"):
        eq(shown(ws, name)["id"], id, name)
    for name in ("@", "@0", "@3", "@ 1", "@+1", "@-1", "@1x", "@01", "@:"):
        ws.tasuki("request", "show", name, "--json").expect(5, "REQUEST_NOT_FOUND")
    eq(run(ws, "@1")["request_id"], id, "run")
    eq(call(ws, "request", "again", id[-5:]).json["id"], id, "again")
    eq(call(ws, "request", "edit", "buil", "--title", "new").json["id"], "RQ-build", "edit")
    eq([one["request_id"] for one in call(ws, "runs", "list", "--request", id[-5:]).json["runs"]], [id], "runs list")
    eq(call(ws, "request", "rm", "build").json["id"], "RQ-build", "rm")
    eq("@9" in refusal(ws, "request", "show", "@9"), True, "too far back")


@test("a name that looks like an id is that id for a command that changes something: RQ-1 is never RQ-10")
def _(ws):
    add(ws, "RQ-10", "true")
    for words in (["request", "rm"], ["request", "run"], ["request", "again"], ["request", "edit"]):
        more = ["--title", "x"] if words[1] == "edit" else []
        for name in ("RQ-1", "1"):
            refusal(ws, *words, name, *more)
    eq(listed(ws)["RQ-10"]["title"], "RQ-10", "it is as it was")
    eq(shown(ws, "RQ-1")["id"], "RQ-10", "a look takes the beginning")


@test("request show without an id shows the one that was added last, and wait run awaits the latest run")
def _(ws):
    eq("no request" in refusal(ws, "request", "show"), True, "there is none")
    call(ws, "wait", "run", code=5, reason="RUN_NOT_FOUND")
    call(ws, "wait", "lock", code=2, reason="INVALID_INPUT")
    add(ws, "RQ-old", "true")
    os.utime(ws.path / ".aiflow/requests/RQ-old.yaml", (1.0e9, 1.0e9))
    id = call(ws, "request", "add", "New", "--", "true").json["id"]
    eq(shown(ws, "RQ-old")["id"], "RQ-old", "by its name")
    eq(call(ws, "request", "show").json["id"], id, "the latest")
    runs = [run(ws, one)["run_id"] for one in ("RQ-old", id)]
    eq(call(ws, "wait", "run").json["run_id"], runs[1], "the latest run")


@test("request run and request again without an id take the only one that they can mean; none and several are refused with a list")
def _(ws):
    refused = call(ws, "request", "run", code=5, reason="REQUEST_NOT_FOUND").json["error"]
    eq(refused["next"], ["tasuki queue next"], "none may run")
    add(ws, "RQ-draft", "true", status="draft")
    add(ws, "RQ-one", "true")
    eq(last_document(call(ws, "request", "run"))["request_id"], "RQ-one", "the only one that is ready")
    eq(call(ws, "request", "again").json["id"], "RQ-one", "the only one that is done")
    add(ws, "RQ-two", "true", priority="P0")
    refused = call(ws, "request", "run", code=2, reason="INVALID_INPUT").json["error"]
    eq((refused["next"], "RQ-two (RQ-two), RQ-one (RQ-one)" in refused["message"]), (["tasuki request run RQ-two"], True), refused)
    eq(len(runs_of(ws)), 1, "nothing was run")
    call(ws, "request", "again", code=5, reason="REQUEST_NOT_FOUND")
    queue(ws)
    refused = call(ws, "request", "again", code=2, reason="INVALID_INPUT").json["error"]
    eq("2 requests are done or have failed" in refused["message"], True, refused)
    call(ws, "request", "rm", code=2, reason="INVALID_INPUT")
    call(ws, "request", "edit", "--title", "x", code=2, reason="INVALID_INPUT")


@test("a look takes any part that no other run has; what changes something wants 4 characters, and says so")
def _(ws):
    (ws.path / "f.yaml").write_text("tasks: {a: 'false'}\n")
    folder = ws.path / ".aiflow/runs"
    for id in ("RUN-20260101T223000-29d33c", "RUN-20260101T223001-18a0f0"):
        call(ws, "run", "f.yaml", code=7)
        made = next(path for path in folder.glob("RUN-*") if not path.name.startswith("RUN-20260101"))
        made.rename(folder / id)
    for words in (["show"], ["tasks"], ["graph"]):
        call(ws, "runs", *words, "29d")
    call(ws, "wait", "run", "29d", code=7)
    eq(call(ws, "runs", "logs", "9d").json["run_id"], "RUN-20260101T223000-29d33c", "runs logs by a part")
    eq(call(ws, "runs", "logs", "a").json["run_id"], "RUN-20260101T223001-18a0f0", "a is a task of the latest run")
    several = call(ws, "runs", "show", "0", code=5, reason="RUN_NOT_FOUND").json["error"]["message"]
    eq("Several runs" in several, True, several)
    for words in (["resume"], ["runs", "cancel"], ["runs", "rm"]):
        short = call(ws, *words, "29d", code=5, reason="RUN_NOT_FOUND").json["error"]["message"]
        eq("at least 4 characters" in short, True, (words, short))
        none = call(ws, *words, "zzz", code=5, reason="RUN_NOT_FOUND").json["error"]["message"]
        eq("There is no run zzz" in none, True, (words, none))
    eq(len(list(folder.glob("RUN-*"))), 2, "nothing was removed")


@test("a look takes any part that no other request has; what changes something wants 4 characters, and says so")
def _(ws):
    for id in ("RQ-a18x", "RQ-b18y", "RQ-c18z"):
        add(ws, id, "true")
    eq(shown(ws, "8x")["id"], "RQ-a18x", "two characters")
    eq("Several requests have 18" in refusal(ws, "request", "show", "18"), True, "several")
    for words in (["request", "rm"], ["request", "run"], ["request", "edit", "--title", "x"]):
        eq("at least 4 characters" in refusal(ws, *words, "8x"), True, words)
        eq("There is no request zz" in refusal(ws, *words, "zz"), True, words)
    eq(len(listed(ws)), 3, "nothing was removed")


@test("several requests that have the part are refused, with what to do")
def _(ws):
    add(ws, "RQ-build-docs", "true")
    add(ws, "RQ-build-site", "true")
    eq("write more of it" in refusal(ws, "request", "run", "build"), True, "ambiguous")


@test("completion shows the status, the flow and the age of runs and requests")
def _(ws):
    (ws.path / "f.yaml").write_text("name: nightly\ntasks: {a: 'true'}\n")
    add(ws, "RQ-1", "true")
    (ws.path / ".aiflow/requests/RQ-2.yaml").write_text("title: T\nflow: f.yaml\n")
    call(ws, "run", "f.yaml")
    line = ws.tasuki("__describe", "runs", "show", "", env=with_tool(ws)).expect(0).out.splitlines()[0].split("\t")
    eq(line[1].split(" · ")[:2], ["DONE", "nightly"], "a run")
    eq(len(line[1].split(" · ")) >= 3, True, f"with its age: {line[1]}")
    lines = dict(one.split("\t") for one in ws.tasuki("__describe", "request", "show", "").expect(0).out.splitlines())
    eq((lines["RQ-2"].split(" · ")[:3], len(lines["RQ-2"].split(" · "))), (["ready", "f.yaml", "T"], 4), "a request")


@test("a filtered list without a hit says that nothing matches, not that there is nothing")
def _(ws):
    for noun, filters in (("runs", ("--status", "FAILED")), ("request", ("--status", "done")), ("own", ("--owner", "x"))):
        eq(ws.tasuki(noun, "list", *filters).expect(0).out, "Nothing matches.\n", f"{noun} list with a filter")
        assert "matches" not in ws.tasuki(noun, "list", "--limit", "5").expect(0).out, f"{noun} list without one"


main(__name__)
