"""A request's latest run that cannot be known: nothing begins then, and the answer says what cannot be read."""

import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness.harness import eq, main, test  # noqa: E402
from requests_common import add, call, listed, queue, run, runs_of, shown, trace  # noqa: E402


def note(ws, id):
    return ws.path / ".aiflow/runs/.requests" / id


def make_unreadable(path):
    """Also for root: a directory where a file is expected."""
    path.unlink()
    path.mkdir()


@test("a request whose note of its latest run cannot be read is broken and is not run a second time, also not with --new")
def _(ws):
    add(ws, "RQ-1", "echo x >> trace; exit 3")
    first = run(ws, "RQ-1", code=7)["run_id"]
    make_unreadable(note(ws, "RQ-1"))
    eq(listed(ws)["RQ-1"]["status"], "broken", "the list")
    for more in ([], ["--new"], ["--detach"]):
        refusal = call(ws, "request", "run", "RQ-1", *more, code=3).json["error"]
        eq(".requests/RQ-1" in refusal["message"], True, f"the file in {refusal['message']}")
    eq((trace(ws), [one["run_id"] for one in runs_of(ws)]), (["x"], [first]), "what ran")
    eq(queue(ws)["ran"], [], "the queue")
    note(ws, "RQ-1").rmdir()
    note(ws, "RQ-1").write_text(first)
    run(ws, "RQ-1", code=7)
    eq(trace(ws), ["x", "x"], "after the repair")


@test("an answer is not used for a run while the note of the latest run cannot be read; it is recorded, and the run resumes later")
def _(ws):
    add(ws, "RQ-1", 'a=$(tasuki task ask "Which?"); test -n "$a" || exit 0; echo $a >> trace')
    asked = run(ws, "RQ-1", code=8)["run_id"]
    make_unreadable(note(ws, "RQ-1"))
    refusal = call(ws, "answer", asked, "blue", code=3).json["error"]
    eq((refusal["context"]["answer"], trace(ws)), ("recorded", []), "the refusal")
    note(ws, "RQ-1").rmdir()
    note(ws, "RQ-1").write_text(asked)
    call(ws, "resume", asked)
    eq(trace(ws), ["blue"], "the answer")


@test("a damaged note: the search for the newest run does not pass over a run that cannot be read")
def _(ws):
    add(ws, "RQ-1", 'a=$(tasuki task ask "Which?"); test -n "$a" || exit 0')
    asked = run(ws, "RQ-1", code=8)["run_id"]
    note(ws, "RQ-1").write_text("nonsense")
    eq(shown(ws, "RQ-1")["status"], "needs_input", "found by searching")
    folder = ws.path / ".aiflow/runs" / asked
    for name in ("stage.json", "journal"):
        make_unreadable(folder / name)
    eq(shown(ws, "RQ-1")["status"], "broken", "not known")
    call(ws, "request", "run", "RQ-1", code=3)
    eq([one["run_id"] for one in call(ws, "runs", "list").json["runs"]], [asked], "the runs")
    shutil.rmtree(folder)
    eq(shown(ws, "RQ-1")["status"], "ready", "without the run")


@test("a request whose lock cannot be read is broken, and the queue does not take it")
def _(ws):
    add(ws, "RQ-1")
    run(ws, "RQ-1")
    add(ws, "RQ-2")
    (ws.path / ".aiflow/locks/request.RQ-2.lock.json").mkdir(parents=True)
    found = listed(ws)["RQ-2"]
    eq((found["status"], len(found["problems"])), ("broken", 1), "the list")
    eq(queue(ws)["ran"], [], "the queue")


@test("requests that cannot be listed are an error, not 'no such request'; runs that cannot be listed are not 'no runs'")
def _(ws):
    add(ws, "RQ-1")
    run(ws, "RQ-1")
    shutil.rmtree(ws.path / ".aiflow/runs")
    (ws.path / ".aiflow/runs").write_text("")
    call(ws, "request", "show", "RQ-1", code=3)
    requests = ws.path / ".aiflow/requests"
    shutil.rmtree(requests)
    requests.write_text("")
    call(ws, "request", "show", "RQ", code=3)


@test("a run that failed before its flow was read has no graph and cannot go on, and both say why")
def _(ws):
    ws.tasuki("request", "add", "X", "--id", "RQ-x", "--flow", "nope").expect(0)
    ws.tasuki("queue", "run").expect(7)
    run = ws.tasuki("runs", "list", "--json").json["runs"][0]["run_id"]
    (ws.path / "f.yaml").write_text("tasks: {a: 'true'}\n")
    for words in (("runs", "graph"), ("runs", "graph", "--format", "json"), ("resume",), ("resume", run, "--flow", "f.yaml")):
        error = ws.tasuki(*words, "--json").expect(5, "NOT_FOUND").error
        eq((error["message"], error["next"]),
           (f"{run} has no flow: it failed before its flow was read", [f"tasuki runs show {run}"]), f"the refusal of {words}")


main(__name__)
