"""Jobs in one command: queue add, a queue that stays and keeps going, request again."""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from common import until_settled  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from harness.screen import tasuki_screen  # noqa: E402
from requests_common import add, call, kill, listed, no_locks, queue, run, runs_of, shown, spawn, trace  # noqa: E402

ASK = 'answer=$(tasuki task ask "Deploy?" --type approval); test -n "$answer" || exit 0; echo yes >> trace'


def stay(ws, *args):
    """A queue that waits for more."""
    proc = spawn(ws, "queue", "run", "--stay", *args, stdout=subprocess.PIPE, text=True)
    ws.until(lambda: call(ws, "queue", "status").json["status"] == "running", "the queue runs")
    return proc


def ends(proc, code=0):
    """How it ended: its last document."""
    out, _ = proc.communicate(timeout=60)
    assert code in (proc.returncode, None), f"the exit code is {proc.returncode}\n{out}"
    return json.loads(out.strip().splitlines()[-1]) if out.strip().startswith('{"') else json.loads(out[out.rindex("\n{") if "\n{" in out else 0:])


def until_done(ws, id, status="done"):
    ws.until(lambda: shown(ws, id)["status"] == status, f"{id} is {status}")


# -- queue add -------------------------------------------------------------------------------------------------


@test("queue add makes a ready request with the command as its title")
def _(ws):
    job = call(ws, "queue", "add", "--", "sh", "-c", "echo 'a b'\necho $0").json
    eq((job["status"], job["title"], job["run"], job["queue_runs"]), ("ready", "sh -c 'echo '\\''a b'\\'' echo $0'", ["sh", "-c", "echo 'a b'\necho $0"], False), "the request")
    titled = call(ws, "queue", "add", "--title", "Mine", "--priority", "P0", "--depends", job["id"], "--", "true").json
    eq((titled["title"], titled["priority"], titled["status"]), ("Mine", "P0", "blocked"), "with options")
    long = call(ws, "queue", "add", "--", "echo", "日" * 200).json["title"]
    eq((long.startswith("echo 日日") or long.startswith("echo '日"), long.endswith("…"), len(long.encode()) < 110), (True, True, True), long)
    call(ws, "queue", "add", code=2, reason="INVALID_INPUT")
    for words in ([], [""], ["", "x"]):
        refused = ws.tasuki("queue", "add", "--", *words).expect(2)
        eq("-- CMD… is missing" in refused.err, True, refused.err)
    eq(len(listed(ws)), 3, "requests")


@test("a job runs in the directory of who added it")
def _(ws):
    (ws.path / "a b").mkdir()
    job = call(ws, "queue", "add", "--", "sh", "-c", "pwd > here", cwd=ws.path / "a b").json
    eq(job["run"], "cd 'a b' && sh -c 'pwd > here'", "its command")
    queue(ws)
    eq((ws.path / "a b/here").read_text().strip(), str(ws.path / "a b"), "where it ran")


@test("queue add says how the queue is started, unless one is there")
def _(ws):
    out = ws.tasuki("queue", "add", "--", "true").expect(0).out
    eq("tasuki queue run" in out, True, out)
    proc = stay(ws)
    out = ws.tasuki("queue", "add", "--", "true").expect(0).out
    eq("tasuki queue run" in out, False, out)
    call(ws, "queue", "stop")
    ends(proc)


@test("an ad hoc job is one command, as with task-spooler")
def _(ws):
    proc = stay(ws)
    steps = [["queue", "add", "--", "sh", "-c", "echo ours > ours"]]
    for words in steps:
        call(ws, *words)
    ws.until_file("ours")
    call(ws, "queue", "stop")
    ends(proc)
    peer = shutil.which("tsp") or shutil.which("ts")
    is_spooler = peer and "task" in subprocess.run([peer, "-h"], capture_output=True, text=True).stdout.lower()
    peers = [[peer, "sh", "-c", "echo theirs > theirs"]] if is_spooler else [["ts", "CMD"]]
    if is_spooler:
        env = os.environ | {"TS_SOCKET": str(ws.path / "ts.socket"), "TMPDIR": str(ws.path)}
        for words in peers:
            subprocess.run(words, cwd=ws.path, env=env, check=True, stdout=subprocess.DEVNULL)
        ws.until_file("theirs")
        subprocess.run([peer, "-K"], cwd=ws.path, env=env, check=True)
    eq(len(steps), len(peers), "commands")


# -- queue run --stay ------------------------------------------------------------------------------------------


@test("a queue that stays runs what is added later, and ends at queue stop with 0 and its lock released")
def _(ws):
    proc = stay(ws)
    for number in range(3):
        until_done(ws, call(ws, "queue", "add", "--", "sh", "-c", f"echo {number} >> trace").json["id"])
    call(ws, "queue", "stop")
    answer = ends(proc)
    eq((answer["reason"], len(answer["ran"]), trace(ws)), ("STOPPED", 3, ["0", "1", "2"]), "how it ended")
    no_locks(ws)


@test("on a terminal a queue that waits says so, with the ways to end it; in a pipe it says nothing", slow=True)
def _(ws):
    screen = tasuki_screen(ws, "queue", "run", "--stay", cols=80)
    text = screen.until(lambda text: re.search(r"\([1-9] s\)$", text, re.M), "the line")
    assert "waiting for requests; Ctrl-C or tasuki queue stop ends it (" in text, text
    call(ws, "queue", "add", "--", "echo", "hello")
    screen.until(lambda text: re.search(r"^hello.*^waiting for requests", text, re.M | re.S), "its run, and the line again")
    screen.keys("C-c")
    eq(screen.ended(), 0, "exit code")
    assert "waiting" not in screen.text(), screen.text()
    proc = spawn(ws, "queue", "run", "--stay", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ws.until(lambda: call(ws, "queue", "status").json["status"] == "running", "the queue runs")
    until_settled(ws, proc)
    call(ws, "queue", "stop")
    eq(proc.communicate()[1], "", "in a pipe")


for _name in ("SIGINT", "SIGTERM", "SIGHUP"):
    @test(f"{_name} ends a queue that waits, in good order")
    def _(ws, name=_name):
        proc = stay(ws)
        call(ws, "queue", "add", "--title", "x", "--", "sh", "-c", "echo 1 > one")
        ws.until_file("one")
        ws.until(lambda: call(ws, "queue", "status").json["request_id"] is None, "the run has ended")
        proc.send_signal(getattr(signal, name))
        eq(ends(proc)["reason"], "STOPPED", "the reason")
        eq((call(ws, "queue", "status").json["status"], call(ws, "lock", "list").json["locks"]), ("idle", []), "the queue")


@test("a signal at any moment ends a queue that stays with its words, its exit code and its lock released; no run is lost", slow=True)
def _(ws):
    chance = random.Random(15)
    for round in range(12):
        jobs = [call(ws, "queue", "add", "--", "sh", "-c", f"echo {round}.{n} >> trace").json["id"] for n in range(4)]
        proc = stay(ws)
        seen = chance.randrange(4)
        ws.until(lambda: len([one for one in trace(ws) if one.startswith(f"{round}.")]) > seen, "some of them have run")
        time.sleep(chance.random() * 0.05)
        proc.send_signal(chance.choice((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)))
        answer = ends(proc, None)
        assert (answer["reason"], proc.returncode) in (("STOPPED", 0), ("CANCELLED", 7)), (proc.returncode, answer)
        record = json.loads((ws.path / ".aiflow/queue.json").read_text())
        eq((record["status"], record["reason"], record["ran"]), ("STOPPED", answer["reason"], [{key: one[key] for key in ("request_id", "run_id", "status")} for one in answer["ran"]]), "queue.json")
        eq((call(ws, "queue", "status").json["status"], call(ws, "lock", "list").json["locks"]), ("idle", []), "the queue")
        for one in answer["ran"]:
            eq(call(ws, "runs", "show", one["run_id"]).json["status"], one["status"], "the run")
        ended = {one["request_id"] for one in answer["ran"]}
        eq([listed(ws)[id]["status"] for id in jobs if id not in ended], ["ready"] * len([id for id in jobs if id not in ended]), "those that did not begin")
        for id in jobs:
            call(ws, "request", "edit", id, "--status", "archived")


@test("a task of a queue that stays has no signal blocked")
def _(ws):
    proc = stay(ws)
    call(ws, "queue", "add", "--", "sh", "-c", "grep SigBlk /proc/self/status > blocked.new; mv blocked.new blocked")
    ws.until_file("blocked")
    eq((ws.path / "blocked").read_text().split()[1], "0" * 16, "what the task has blocked")
    call(ws, "queue", "stop")
    ends(proc)


@test("a queue that stays begins a request whose dependency is done by hand")
def _(ws):
    add(ws, "RQ-first", "true", status="draft")
    add(ws, "RQ-second", "echo 2 > second", depends_on=["RQ-first"])
    proc = stay(ws)
    run(ws, "RQ-first")  # a draft is run by hand
    call(ws, "request", "edit", "RQ-first", "--status", "archived")
    ws.until_file("second")
    call(ws, "queue", "stop")
    eq(ends(proc)["reason"], "STOPPED", "the reason")


@test("a queue that stays runs a request again when its file changes or it is put back, and not otherwise")
def _(ws):
    path = add(ws, "RQ-1", "echo x >> trace")
    proc = stay(ws, "--retry")
    until_done(ws, "RQ-1")
    path.write_text(path.read_text() + "body: more\n")
    ws.until(lambda: len(trace(ws)) == 2, "after the change")
    until_done(ws, "RQ-1")
    eq(call(ws, "request", "again", "RQ-1").json["changed"], True, "put back")
    ws.until(lambda: len(trace(ws)) == 3, "after it was put back")
    until_done(ws, "RQ-1")
    add(ws, "RQ-2", "echo y >> trace")
    until_done(ws, "RQ-2")
    call(ws, "queue", "stop")
    ends(proc)
    eq(trace(ws), ["x", "x", "x", "y"], "what ran")


@test("a detached queue that stays answers although nothing is there to run")
def _(ws):
    eq(call(ws, "queue", "run", "--stay", "--detach").json["status"], "RUNNING", "the answer")
    job = call(ws, "queue", "add", "--", "true").json
    eq(job["queue_runs"], True, "the queue is there")
    until_done(ws, job["id"])
    call(ws, "queue", "stop")
    ws.until(lambda: call(ws, "queue", "status").json["status"] == "idle", "it ends")


@test("a queue that stays and is killed leaves nothing behind that stops the next one")
def _(ws):
    proc = stay(ws)
    kill(ws, proc.pid)
    proc.communicate()
    proc = stay(ws)
    until_done(ws, call(ws, "queue", "add", "--", "true").json["id"])
    call(ws, "queue", "stop")
    ends(proc)


@test("a second queue is refused while one waits; --for ends it")
def _(ws):
    proc = stay(ws)
    call(ws, "queue", "run", code=4, reason="QUEUE_IN_PROGRESS")
    call(ws, "queue", "stop")
    ends(proc)
    eq(queue(ws, "--stay", "--for", "50ms")["reason"], "TIME", "the reason")


# -- --keep-going ----------------------------------------------------------------------------------------------


@test("--keep-going passes over what fails or asks, each once; the exit code says so")
def _(ws):
    add(ws, "RQ-1", "echo 1 >> trace; exit 3", priority="P0")
    add(ws, "RQ-2", ASK, priority="P1")
    add(ws, "RQ-3", "echo 3 >> trace")
    (ws.path / ".aiflow/requests/RQ-0.yaml").write_text("title: no flow\nflow: nowhere.yaml\npriority: P0\n")
    answer = queue(ws, "--keep-going", "--retry", code=7)
    eq((answer["reason"], [(one["request_id"], one["status"]) for one in answer["ran"]]),
       ("EMPTY", [("RQ-1", "FAILED"), ("RQ-0", "FAILED"), ("RQ-2", "NEEDS_INPUT"), ("RQ-3", "DONE")]), "what it ran")
    eq(trace(ws), ["1", "3"], "the tasks")


@test("--keep-going with nothing but a question ends with 8")
def _(ws):
    add(ws, "RQ-2", ASK)
    eq(queue(ws, "--keep-going", code=8)["reason"], "EMPTY", "the reason")


@test("a queue that stays and keeps going lives through failures and stops with 0; without --keep-going it stops at the first one")
def _(ws):
    proc = stay(ws, "--keep-going", "--retry")
    bad = call(ws, "queue", "add", "--", "false").json["id"]
    until_done(ws, bad, "failed")
    until_done(ws, call(ws, "queue", "add", "--", "true").json["id"])
    call(ws, "queue", "stop")
    answer = ends(proc)
    eq([one["status"] for one in answer["ran"]], ["FAILED", "DONE"], "what it ran")
    eq(len(runs_of(ws, bad)), 1, "the failed one is not repeated")
    proc = stay(ws)
    call(ws, "queue", "add", "--", "false")
    eq(ends(proc, 7)["reason"], "FAILED", "the reason")


# -- request again ---------------------------------------------------------------------------------------------


@test("request again puts back what is done or has failed; its runs stay, and what depends on it waits")
def _(ws):
    add(ws, "RQ-1", "true")
    add(ws, "RQ-2", "test -e good")
    add(ws, "RQ-3", "true", depends_on=["RQ-1"])
    first = run(ws, "RQ-1")["run_id"]
    run(ws, "RQ-2", code=7)
    for id in ("RQ-1", "RQ-2"):
        back = call(ws, "request", "again", id).json
        eq((back["status"], back["changed"], back["latest_run"]), ("ready", True, None), id)
        eq(call(ws, "request", "again", id).json["changed"], False, "a second time")
    eq((listed(ws)["RQ-3"]["status"], [one["run_id"] for one in shown(ws, "RQ-1")["runs"]]), ("blocked", [first]), "the others")
    (ws.path / "good").touch()
    eq(sorted(one["request_id"] for one in queue(ws)["ran"]), ["RQ-1", "RQ-2", "RQ-3"], "the queue takes them")
    eq(len(runs_of(ws, "RQ-1")), 2, "runs")
    no_locks(ws)


@test("request again is refused while a run of it lives or asks, and for what its file holds back; the refusal has the command that helps")
def _(ws):
    add(ws, "RQ-asks", ASK)
    asks = run(ws, "RQ-asks", code=8)["run_id"]
    eq(call(ws, "request", "again", "RQ-asks", code=8, reason="NEEDS_INPUT").json["error"]["next"], [f"tasuki runs show {asks}"], "it asks")
    add(ws, "RQ-draft", "true", status="draft")
    eq(call(ws, "request", "again", "RQ-draft", code=4, reason="CONFLICT").json["error"]["next"], ["tasuki request edit RQ-draft --status ready"], "a draft")
    add(ws, "RQ-long", "touch up; while ! test -e go; do sleep 0.01; done")
    long = call(ws, "request", "run", "RQ-long", "--detach").json["run_id"]
    eq(call(ws, "request", "again", "RQ-long", code=4, reason="RUN_IN_PROGRESS").json["error"]["next"], [f"tasuki runs show {long}"], "it runs")
    (ws.path / "go").touch()
    call(ws, "wait", "run", long)
    call(ws, "request", "again", "RQ-nowhere", code=5, reason="REQUEST_NOT_FOUND")
    (ws.path / ".aiflow/requests/RQ-broken.yaml").write_text("title: [\n")
    call(ws, "request", "again", "RQ-broken", code=2)


@test("in a pipe a queue that stays says of each run what it is about and, when it ends, how it ended, with the last lines of what failed")
def _(ws):
    proc = ws.spawn("queue", "run", "--stay", "--keep-going", stdout=subprocess.PIPE, text=True)
    ws.until(lambda: call(ws, "queue", "status").json["status"] == "running", "the queue runs")
    for words in (("--title", "Bad", "--", "sh", "-c", "echo boom; exit 3"), ("--title", "Good", "--", "true")):
        call(ws, "queue", "add", *words)
    lines = []
    while not any("1 of 1 tasks" in line for line in lines):  # the queue goes on; what it has said is here
        lines.append(proc.stdout.readline())
        assert lines[-1], lines
    told = "".join(lines)
    for one in ("  Bad\n", " FAILED  0 of 1 tasks, 1 failed", "    boom\n", "exit code 3", "  Good\n", " DONE  1 of 1 tasks"):
        eq(told.count(one), 1, one + told)
    call(ws, "queue", "stop")
    out, _ = proc.communicate(timeout=60)
    eq(("boom" in out, out.count("FAILED"), out.count("DONE")), (False, 1, 1), out)


main(__name__)
