"""Spec 5, 7: a runner that was started apart outlives its starter, is ended with its whole tree, and is not started again."""

import json
import os
import shutil
import signal
import sys
import pathlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from flows import last_document, only_run, run_ids, with_tool, write_flow  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402

HOLD_FILES = ".aiflow/runners"
SLOW = "tasks:\n  a: 'setsid sleep 300 & echo $! > left; echo $$ > up; while ! test -e go; do sleep 0.01; done'\n"
AGAIN = "tasks:\n  a: 'test -e go && exit 0; setsid sleep 300 & echo $! > left; echo $$ > up; sleep 300'\n"


def detach(ws, text, *args, code=0):
    return ws.tasuki("run", write_flow(ws, text), "--detach", "--json", *args, env=with_tool(ws)).expect(code)


def status(ws, run):
    return ws.tasuki("runs", "show", run, "--json").expect(0).json["status"]


def parent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def begin(ws, text=SLOW):
    stage = detach(ws, text).json
    ws.until_file("up")
    runner = stage["runner"]["pid"]
    ws.kill_at_close((ws.path / "left").read_text())
    ws.kill_at_close(runner)
    return stage["run_id"], runner, parent_of(runner)


def finish(ws, run, wanted="DONE"):
    (ws.path / "go").touch()
    ws.until(lambda: status(ws, run) == wanted, f"the run is {wanted}")


@test("a detached run returns at once with its stage, goes on, and leaves its words in its directory")
def _(ws):
    run, runner, holder = begin(ws)
    eq((status(ws, run), run_ids(ws)), ("RUNNING", {run}), "status and runs")
    eq(pathlib.Path(f"/proc/{holder}/comm").read_text().strip(), "tasuki-hold", "its parent")
    finish(ws, run)
    assert (ws.path / ".aiflow/runs" / run / "runner.log").exists()
    ws.until(lambda: not ws.alive(runner) and not ws.alive(holder), "runner and holder end")
    eq(ws.alive(int((ws.path / "left").read_text())), True, "what a task left behind on purpose")


@test("the error of a detached run is the starter's own, key by key")
def _(ws):
    apart = detach(ws, "tasks:\n  a: {run: x, needs: [b]}\n", code=2).json
    here = ws.tasuki("run", "flow.yaml", "--json").expect(2).json
    eq(apart, here, "the error document")
    eq(run_ids(ws), set(), "runs")


@test("a killed runner takes its whole tree with it, is not started again, and can be resumed")
def _(ws):
    run, runner, _ = begin(ws, AGAIN)
    left = int((ws.path / "left").read_text())
    os.kill(runner, signal.SIGKILL)
    ws.until(lambda: not ws.alive(left), "what its tasks have started is gone")
    eq(status(ws, run), "INTERRUPTED", "status")
    (ws.path / "go").touch()
    eq(ws.tasuki("resume", run, "--detach", "--json").expect(0).json["run_id"], run, "run")
    ws.until(lambda: status(ws, run) == "DONE", "it is done")


@test("a killed holder does not end the runner")
def _(ws):
    run, runner, holder = begin(ws)
    os.kill(holder, signal.SIGKILL)
    ws.until(lambda: not ws.alive(holder), "the holder is gone")
    eq((ws.alive(runner), status(ws, run)), (True, "RUNNING"), "the runner")
    finish(ws, run)


@test("runs cancel ends a detached run and everything it started")
def _(ws):
    run, runner, _ = begin(ws)
    ws.tasuki("runs", "cancel", run).expect(0)
    ws.until(lambda: status(ws, run) == "CANCELLED", "it is cancelled")
    ws.until(lambda: not ws.alive(runner), "the runner ends")


@test("a run that a task has detached does not end with that task's run")
def _(ws):
    write_flow(ws, SLOW, "inner.yaml")
    outer = ws.spawn("run", write_flow(ws, "tasks:\n  a: {run: 'tasuki run inner.yaml --detach --json > inner.json; touch told; sleep 300'}\n"),
                     "--json", env=with_tool(ws))
    ws.until(lambda: (ws.path / "told").exists(), "the inner run has begun")
    outer.send_signal(signal.SIGINT)
    eq(last_document(ws.finish(outer).expect(7))["status"], "CANCELLED", "the outer run")
    inner = json.loads((ws.path / "inner.json").read_text())
    eq(status(ws, inner["run_id"]), "RUNNING", "the inner run")
    ws.until_file("left")
    finish(ws, inner["run_id"])
    os.kill(int((ws.path / "left").read_text()), signal.SIGKILL)


@test("what holders leave in the workspace is removed by a later one")
def _(ws):
    for _ in range(3):
        run = detach(ws, "tasks:\n  a: 'true'\n").json["run_id"]
        ws.until(lambda: status(ws, run) == "DONE", "it is done")
    folder = ws.path / HOLD_FILES
    for place in folder.iterdir():
        ws.until(lambda: json.loads((place / "status.json").read_text())["exit"], "the holder has ended")
        os.utime(place, (1e9, 1e9))
    run = detach(ws, "tasks:\n  a: 'true'\n").json["run_id"]
    ws.until(lambda: status(ws, run) == "DONE", "it is done")
    eq(len(list(folder.iterdir())), 1, "places of holders")


@test("what is refused is refused in the same words with --detach as without")
def _(ws):
    (ws.path / "wrong.yaml").write_text("tasks: {a: {rum: x}, b: {run: x, needs: c}}\n")
    (ws.path / "ask.yaml").write_text("tasks: {a: tasuki task ask Which}\n")
    requests = ws.path / ".aiflow/requests"
    requests.mkdir(exist_ok=True)
    (requests / "RQ-1.yaml").write_text("title: one\nflow: ask.yaml\n")
    (requests / "RQ-2.yaml").write_text("title: [two]\n")
    (requests / "RQ-3.yaml").write_text("title: three\nflow: none.yaml\n")
    ws.tasuki("request", "run", "RQ-1", env=with_tool(ws)).expect(8)
    for words in ("run none.yaml", "run wrong.yaml", "request run RQ-none", "request run RQ-1", "request run RQ-2", "request run RQ-3", "resume RUN-none",
                  "run wrong.yaml --lang ja"):
        plain, detached = (ws.tasuki("--json", *words.split(), *more, env=with_tool(ws)) for more in ([], ["--detach"]))
        eq((detached.code, detached.error), (plain.code, plain.error), words)
        assert plain.error["message"], plain


@test("a program whose file was removed meanwhile starts nothing apart: it says so, and leaves no run")
def _(ws):
    gone = ws.base / "tasuki-gone"
    ws.tasuki("proc", "create", "web", "--", "true").expect(0)
    for words in (("run", write_flow(ws, "tasks: {a: 'true'}\n"), "--detach"), ("proc", "start", "web")):
        shutil.copy2(ws.binary, gone)
        result = ws.run(["sh", "-c", 'exec 9< "$0" && rm "$0" && exec /proc/self/fd/9 "$@"', gone, "--json", *words])
        assert f"({gone}) was removed while it ran" in result.expect(3, "ENVIRONMENT").error["message"], result
    eq(run_ids(ws), set(), "runs")


main(__name__)
