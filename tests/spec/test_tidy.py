"""What commands make for their own use is gone when it is of no more use, and nothing else is: in each folder of the workspace."""

import json
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import Agent  # noqa: E402
from common import dead_pid, make_old, sleeper  # noqa: E402
from flows import last_document, run_flow  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from requests_common import GATE, add, call, go, spawn  # noqa: E402

DAY_S = 86400


def state(ws, *parts):
    return ws.path.joinpath(".aiflow", *parts)


def names(ws, *parts):
    folder = state(ws, *parts)
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def make(ws, *parts, text="x", age_s=0):
    path = state(ws, *parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    make_old(path, age_s)
    return path.name


LIST = 'ls "$(dirname "$TASUKI_CHANNEL")" | grep -E "^(channel|output|answer)" | tr "\\n" " " > seen.%s; '
WRITE = 'echo n=%d >> "$TASUKI_OUTPUT"'


def seen(ws, *tasks):
    return [(ws.path / f"seen.{task}").read_text().split() for task in tasks]


@test("a file of values stays as long as a task reads it, and what a task wrote until it has ended")
def _(ws):
    tasks = "".join(f"  {name}: {json.dumps(LIST % name + WRITE % number)}\n" for number, name in enumerate("abcd"))
    stage = run_flow(ws, f"flow: a >> b >> c >> d\ntasks:\n{tasks}", "-j", "1")
    eq(seen(ws, *"abcd"), [[], ["channel.1"], ["channel.2"], ["channel.3"]], "one after the other")
    left = [name for name in names(ws, "runs", stage["run_id"]) if name != "tasks"]  # a task of more than 30 ms has a log there
    eq(left, ["flow.yaml", "journal", "life", "stage.json"], "the run's files")
    tasks = {"a": {"run": WRITE % 1}, "b": {"needs": "a", "run": WRITE % 2}, "c": {"needs": "b", "run": f"{LIST % 'c'} touch up"},
             "slow": {"needs": "a", "run": f"until test -e up; do sleep 0.01; done; {LIST % 'slow'}"},
             "last": {"needs": ["slow", "c"], "run": LIST % "last"}}
    run_flow(ws, f"tasks: {json.dumps(tasks)}\n", "-j", "2")
    eq(seen(ws, "c", "slow", "last"), [["channel.1", "channel.2"]] * 2 + [["channel.2"]], "while an old one is read")


@test("a waiter for a lock is recorded until the wait is over; what a killed one has left is removed by the next")
def _(ws):
    ws.tasuki("lock", "acquire", "name", "a", "--pid", sleeper(ws).pid).expect(0)
    ws.tasuki("lock", "acquire", "name", "a", "--wait", "10ms").expect(4)
    eq(names(ws, "waiting"), [], "after a wait")
    for _ in range(2):
        waiter = ws.spawn("lock", "acquire", "name", "a", "--wait", "600s")
        ws.until(lambda: ws.tasuki("lock", "list", "--json").json["locks"][0].get("waiters"), "it waits")
        eq(len(names(ws, "waiting")), 1, "those that are written down")
        waiter.kill()
        waiter.wait()
    ws.tasuki("lock", "acquire", "name", "a", "--wait", "10ms").expect(4)
    eq(names(ws, "waiting"), [], "at the end")


@test("the cards of processes that are gone are removed when the next agent comes, and no others")
def _(ws):
    living = sleeper(ws)
    start = pathlib.Path(f"/proc/{living.pid}/stat").read_text().rpartition(")")[2].split()[19]
    for name in (f"{dead_pid()}.1", f"{living.pid}.{int(start) - 1}"):
        make(ws, "agents", name)
    kept = [make(ws, "agents", name) for name in (f"{living.pid}.{start}", "http-0123", "1.", "x.1")]
    agent = Agent(ws)
    agent.ok("get_status")
    eq([name for name in names(ws, "agents") if name in kept or name.endswith(".1") or name.startswith(f"{living.pid}.")], sorted(kept), "cards")
    agent.close()


@test("a question whose time is over, and a damaged one that is old, are removed by the next question, and no others")
def _(ws):
    ws.tasuki("lock", "acquire", "name", "a", "--pid", sleeper(ws).pid).expect(0)
    agent = Agent(ws)
    force = {"kind": "name", "id": "a", "force": True}
    first = agent.refused("lock_acquire", **force)[1]["context"]["confirm_token"]
    record = json.loads(state(ws, "confirm", f"{first}.json").read_text())
    over = {**record, "expires_boot_ms": record["expires_boot_ms"] - 30000 - 10001}
    for digit, text, age_s in (("0", json.dumps(over), 0), ("1", json.dumps({**record, "boot_id": "another"}), 0), ("2", "{", 3600)):
        make(ws, "confirm", digit * 32 + ".json", text=text, age_s=age_s)
    kept = [f"{first}.json", make(ws, "confirm", "3" * 32 + ".json", text=json.dumps({**record, "expires_boot_ms": record["expires_boot_ms"] + DAY_S})),
            make(ws, "confirm", "4" * 32 + ".json", text="{", age_s=-DAY_S)]
    second = agent.refused("lock_acquire", **force)[1]["context"]["confirm_token"]
    eq(names(ws, "confirm"), sorted([*kept, f"{second}.json"]), "questions")
    agent.close()


@test("the lock of an ended start is kept as long as somebody whom it has left behind has it", slow=True)
def _(ws):
    command = "setsid sleep 1000 & echo $! > left.tmp; mv left.tmp left; exec sleep 1000"
    ws.tasuki("proc", "create", "p", "--", "sh", "-c", command).expect(0)

    def start():
        (ws.path / "left").unlink(missing_ok=True)
        ws.tasuki("proc", "start", "p").expect(0)
        left, shown = int(ws.until_file("left")), ws.tasuki("proc", "status", "p", "--json").json
        starts = [name for name in names(ws, "processes", "p") if name.startswith("run.")]
        for pid in (shown["holder_pid"], shown["pid"]):
            os.kill(pid, signal.SIGKILL)
        ws.until(lambda: not ws.alive(shown["pid"]) and not ws.alive(shown["holder_pid"]), "both have ended")
        return left, starts

    first, starts = start()
    eq(starts, ["run.1.lock"], "the first start")
    second, starts = start()
    eq(starts, ["run.1.lock", "run.2.lock"], "while the first has left somebody behind")
    for pid in (first, second):
        os.kill(pid, signal.SIGKILL)
        ws.until(lambda: not ws.alive(pid), "its end")
    third, starts = start()
    eq(starts, ["run.3.lock"], "when nobody is left")
    os.kill(third, signal.SIGKILL)


@test("a request's text that was taken is not kept twice; one that was not is kept for 30 days")
def _(ws):
    add(ws, "RQ-1", "true")
    make(ws, "edit", "RQ-0.old.yaml", age_s=30 * DAY_S + 60)
    kept = make(ws, "edit", "RQ-0.new.yaml", age_s=30 * DAY_S - 3600)
    script = ws.base / "ed.sh"
    script.write_text("#!/bin/sh\necho \"priority: P1\" >> \"$1\"\n")
    script.chmod(0o755)
    eq(ws.tty(["request", "edit", "RQ-1"], [], env={"EDITOR": str(script)}).code, 0, "exit")
    eq(call(ws, "request", "show", "RQ-1").json["priority"], "P1", "what was written")
    eq(names(ws, "edit"), [kept], "what is kept")


@test("the word that stops a queue goes with the queue")
def _(ws):
    add(ws, "RQ-1", GATE)
    proc = spawn(ws, "queue", "run")
    ws.until_file("up")
    call(ws, "queue", "stop")
    eq("queue.stop" in names(ws), True, "while it stops")
    go(ws)
    eq(last_document(ws.finish(proc).expect(0))["reason"], "STOPPED", "why")
    eq("queue.stop" in names(ws), False, "afterwards")


main(__name__)
