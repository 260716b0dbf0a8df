"""A request's run, the queue and the change of a request's file, ended or failed at every one of their file-system calls.

What must hold afterwards, without anybody cleaning up: the next queue brings every request to its end; no task that was
completed runs again; no lock is held; a request's file is the old one or the new one."""

import pathlib
import random
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "spec"))
from flows import journal, with_tool  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from requests_common import add, call, queue, runs_of  # noqa: E402

STEPS_MAX = 1000  # more file-system calls than this is a bug of its own
FAULTS = ("ENOSPC", "EIO", "SHORT")


def for_every_step(ws, mode, arrange, words, check, first=1, stride=1):
    """Breaks `words` at each call in turn, until it makes fewer. `arrange(n)` prepares, `check(n, result)` looks."""
    for n in range(first, STEPS_MAX, stride):
        arrange(n)
        result = ws.fault(*words(n), at=n, mode=mode, env=with_tool(ws))
        check(n, result)
        ws.commands.clear()
        (ws.path / f".aiflow/requests/{request_of(n)}.yaml").unlink(missing_ok=True)
        for run in (ws.path / ".aiflow/runs").glob("RUN-*"):
            shutil.rmtree(run)
        if result.calls is not None and result.calls < n:
            return n
    raise AssertionError(f"it makes more than {STEPS_MAX} calls")


def request_of(n):
    return f"RQ-{n:04}"


def arrange_request(ws):
    return lambda n: add(ws, request_of(n), f"echo {n} >> trace")


def held_locks(ws):
    return [lock for lock in call(ws, "lock", "list").json["locks"] if lock["state"] == "held" and lock["holder"]["alive"]]


def comes_to_its_end(ws, n, result):
    """The next queue does what is left; what is there then is what one run leaves."""
    # A task that is in the middle of its exec has the runner's descriptors for some moments more: the kernel wakes the runner before
    # it closes them.
    ws.until(lambda: not held_locks(ws), "the locks of the one that was killed are free")
    answer = queue(ws)
    eq(answer["reason"], "EMPTY", "how the queue ended")
    id = request_of(n)
    runs = runs_of(ws, id)
    eq([r["status"] for r in runs], ["DONE"], f"the runs of {id}, broken at call {n}; exit {result.code}")
    records = journal(ws, runs[0]["run_id"])
    ends = [r for r in records if r["e"] == "end" and r["o"] == "ok"]
    starts = [r for r in records if r["e"] == "start"]
    eq(len(ends), 1, "how often the task was completed")
    words = (ws.path / "trace").read_text().split().count(str(n))
    assert 1 <= words <= len(starts), f"{words} executions, {len(starts)} starts"
    eq(held_locks(ws), [], "locks")
    left = [p.name for p in (ws.path / ".aiflow/requests").iterdir() if not p.name.startswith("RQ-")]
    eq(left, [], "what is left beside the requests")


@test("request run, killed at every file-system call: the queue brings it to its end, once", slow=True)
def _(ws):
    def check(n, result):
        assert result.code in (0, -9), f"exit {result.code}\n{result}"
        comes_to_its_end(ws, n, result)

    steps = for_every_step(ws, "kill", arrange_request(ws), lambda n: ["request", "run", request_of(n), "--json"], check)
    assert steps > 100, f"only {steps} calls were seen"


@test("queue run, killed at every file-system call: the next queue brings it to its end, once", quick=False)
def _(ws):
    def check(n, result):
        assert result.code in (0, -9), f"exit {result.code}\n{result}"
        comes_to_its_end(ws, n, result)

    for_every_step(ws, "kill", arrange_request(ws), lambda n: ["queue", "run", "--json"], check)


def add_fault_test(mode):
    @test(f"request run with {mode} at file-system calls: it works, or says what is wrong; the queue brings it to its end", quick=False)
    def _(ws):
        def check(n, result):
            assert result.code in (0, 3, 4, 7), f"exit {result.code} at call {n}\n{result}"
            if result.code in (0, 7) and [r["status"] for r in runs_of(ws, request_of(n))] == ["FAILED"]:
                # The task itself could not be started, or not be recorded: that is a failure that a person looks at.
                call(ws, "resume", runs_of(ws, request_of(n))[0]["run_id"])
            comes_to_its_end(ws, n, result)

        # One call in three, another one each time: the errors take the same ways.
        first = random.randrange(1, 4)
        for_every_step(ws, mode, arrange_request(ws), lambda n: ["request", "run", request_of(n), "--json"], check, first, 3)


for _mode in FAULTS:
    add_fault_test(_mode)


@test("request add and edit, killed at every file-system call: the file is absent, the old one, or the new one", slow=True)
def _(ws):
    old = "title: old # why\nrun: make\n"

    def no_file(n):
        pass

    def check_add(n, result):
        path = ws.path / f".aiflow/requests/{request_of(n)}.yaml"
        if path.exists():
            eq(path.read_text(), f"id: {request_of(n)}\ntitle: new\nstatus: ready\npriority: P2\nrun: [make]\n", "the file")
        else:
            call(ws, "request", "add", "new", "--id", request_of(n), "--", "make")
        path.unlink()

    for_every_step(ws, "kill", no_file, lambda n: ["request", "add", "new", "--id", request_of(n), "--json", "--", "make"], check_add)

    path = ws.path / ".aiflow/requests/RQ-1.yaml"

    def check_edit(n, result):
        text = path.read_text()
        assert text in (old, old.replace("old", "new")), text
        eq(call(ws, "request", "edit", "RQ-1", "--priority", "P0").json["priority"], "P0", "the next edit")
        eq([p.name for p in path.parent.iterdir()], ["RQ-1.yaml"], "what is left beside it")

    for_every_step(ws, "kill", lambda n: path.write_text(old), lambda n: ["request", "edit", "RQ-1", "--title", "new", "--json"], check_edit)


@test("request again, killed at every file-system call: the request is done or ready, and the next call puts it back", slow=True)
def _(ws):
    def arrange(n):
        add(ws, request_of(n), "true")
        call(ws, "request", "run", request_of(n))

    def check(n, result):
        id = request_of(n)
        assert call(ws, "request", "show", id).json["status"] in ("done", "ready"), f"broken at call {n}"
        call(ws, "request", "again", id)
        eq(call(ws, "request", "show", id).json["status"], "ready", f"put back after a kill at call {n}")
        eq([run["status"] for run in runs_of(ws, id)], ["DONE"], "its run")

    for_every_step(ws, "kill", arrange, lambda n: ["request", "again", request_of(n), "--json"], check)


main(__name__)
