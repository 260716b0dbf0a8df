"""status and watch (spec 8): the whole workspace on one screen, once and live."""

import json
import os
import re
import shutil

from common import run_held, sleeper, until_settled
from flows import run_flow, with_tool
from harness.harness import eq, main, test
from harness.screen import tasuki_screen
from http_common import Server

KEYS = {"version", "root", "state", "time", "host", "locks", "processes", "runs", "requests", "waiting", "workflows", "questions", "confirmations", "queue", "event_id"}


def fill(ws):
    run_flow(ws, "tasks: {a: 'true'}\n")
    (ws.path / ".aiflow/requests/RQ-1.yaml").write_text("title: paint the door\nrun: 'true'\nstatus: ready\n")
    ws.tasuki("own", "claim", "wf-1").expect(0)
    ws.tasuki("proc", "create", "web", "--", "sleep", "1000").expect(0)
    ws.tasuki("lock", "acquire", "name", "deploy", "--pid", sleeper(ws).pid).expect(0)


@test("lists and watch show a flow of .aiflow/flows/ by the name that run takes; --verbose and JSON have its file")
def _(ws):
    flows = ws.path / ".aiflow/flows"
    flows.mkdir(exist_ok=True)
    (flows / "nightly.yaml").write_text("tasks: {a: 'true', ask: 'tasuki task ask Which?'}\n")
    ws.tasuki("run", "nightly", env=with_tool(ws)).expect(8)
    for words in (["runs", "list"], ["status"]):
        shown = ws.tasuki(*words).expect(0).out
        assert "  nightly  " in shown and "nightly.yaml" not in shown, shown
    assert ".aiflow/flows/nightly.yaml" in ws.tasuki("runs", "list", "--verbose").expect(0).out
    eq(ws.tasuki("runs", "list", "--json").expect(0).json["runs"][0]["source"], ".aiflow/flows/nightly.yaml")
    screen = tasuki_screen(ws, "watch")
    screen.until_text(" nightly ", "Which?")
    assert "nightly.yaml" not in screen.text().split("EVENTS")[0], screen.text()
    screen.keys("q")
    eq(screen.ended(), 0, "exit code")


@test("status shows processes, requests, runs, workflows and locks, each with its state")
def _(ws):
    fill(ws)
    status = ws.tasuki("status", "--json").expect(0).json
    eq(set(status), KEYS, "keys")
    eq([p["id"] for p in status["processes"]], ["web"], "processes")
    eq([(r["id"], r["status"]) for r in status["requests"]], [("RQ-1", "ready")], "requests")
    eq([r["status"] for r in status["runs"]], ["DONE"], "runs")
    eq([w["ulTaskId"] for w in status["workflows"]], ["wf-1"], "workflows")
    eq([(k["kind"], k["id"], k["state"]) for k in status["locks"]], [("name", "deploy", "held")], "locks")
    out = ws.tasuki("status").expect(0).out
    for word in ("web", "NotStarted", "RQ-1", "paint the door", "RUN", "DONE", "wf-1", "name deploy", "held"):
        assert word in out, f"{word!r} is not in\n{out}"


@test("status names the machine, and over HTTP when doctor was asked last; without a report nobody need ask for one")
def _(ws):
    server = Server(ws)
    before = server.get("/api/status").expect(200).json
    eq((before["host"], before.get("examined_at")), (os.uname().nodename, None), "before")
    server.get("/api/doctor").expect(404, "NOT_FOUND")
    server.post("/api/doctor", {"mode": "full"}).expect(200)
    after = server.get("/api/status").expect(200).json
    eq(after["examined_at"][:4], server.get("/api/doctor").expect(200).json["at"][:4], "there is a report, and its time")
    server.stop()


@test("status of an empty workspace is short, and a broken request does not hide the rest")
def _(ws):
    status = ws.tasuki("status", "--json").expect(0).json
    eq([status[k] for k in ("locks", "processes", "runs", "requests", "workflows")], [[], [], [], [], []])
    (ws.path / ".aiflow/requests/RQ-1.yaml").write_text("title: [\n")
    (ws.path / ".aiflow/requests/RQ-2.yaml").write_text("title: two\nrun: 'true'\n")
    requests = ws.tasuki("status", "--json").expect(0).json["requests"]
    eq({r["id"]: r["status"] for r in requests}["RQ-1"], "broken", "status of the broken one")
    assert "RQ-2" in {r["id"] for r in requests}, requests


@test("status shows a queue that runs, and runs that are older than others as long as they are open")
def _(ws):
    ws.tasuki("lock", "acquire", "queue", "--pid", sleeper(ws).pid).expect(0)
    assert "queue running" in ws.tasuki("status").expect(0).out
    run_flow(ws, "tasks: {q: {run: 'tasuki task ask --type approval \"Go on?\"'}}\n", code=8)
    for _ in range(7):
        run_flow(ws, "tasks: {a: 'true'}\n")
    runs = [r["status"] for r in ws.tasuki("status", "--json").expect(0).json["runs"]]
    eq((runs.count("NEEDS_INPUT"), runs.count("DONE")), (1, 5), "runs")


@test("status lists the runs that go on or wait before those that are over, however many and however old, in text, JSON and HTTP")
def _(ws):
    run_flow(ws, "tasks: {a: 'tasuki task ask Deploy?'}\n", code=8)
    waits = next((ws.path / ".aiflow/runs").glob("RUN-*"))
    old = [waits.with_name(f"RUN-20200101T0000{i:02}-000000") for i in range(12)]
    for path in old:
        shutil.copytree(waits, path)
    interrupted = old[11] / "stage.json"
    interrupted.write_text(interrupted.read_text().replace('"NEEDS_INPUT"', '"RUNNING"'))
    lines = (old[11] / "journal").read_text().splitlines(keepends=True)
    (old[11] / "journal").write_text("".join(lines[:-1]))  # without its end
    for _ in range(2):
        run_flow(ws, "tasks: {a: 'true'}\n")
    expected = 12 * ["NEEDS_INPUT"] + ["INTERRUPTED"] + 2 * ["DONE"]
    for runs in (ws.tasuki("status", "--json").expect(0).json["runs"], Server(ws).get("/api/status").json["runs"]):
        eq(sorted(r["status"] for r in runs[:13]), sorted(expected[:13]), "first what goes on or waits")
        eq([r["status"] for r in runs[13:]], expected[13:], "then what is over")
        for some in (runs[:13], runs[13:]):
            eq([r["run_id"] for r in some], sorted((r["run_id"] for r in some), reverse=True), "the newest first")
    text = ws.tasuki("status").expect(0).out
    eq((re.findall(r"^\S+ +DONE", text, re.MULTILINE), "5 more" in text), ([], True), text)


def lasting(document):
    text = json.dumps(document)
    return re.sub(r'"(time|age_ms|expires_in_ms|expires_at|uptime_ms|cpu_ms|rss_bytes)": ("[^"]*"|-?\d+|null)', "", text)


@test("status costs the same with 10 runs and with 1,000: it looks at no more than it shows, and the oldest is shown if it waits", slow=True)
def _(ws):
    run_flow(ws, "tasks: {a: 'tasuki task ask Deploy?'}\n", code=8)
    run_flow(ws, "tasks: {a: 'true'}\n")
    done = next(path.parent for path in (ws.path / ".aiflow/runs").glob("RUN-*/stage.json") if '"DONE"' in path.read_text())
    calls = []
    for count in (10, 1000):
        for i in range(count):
            path = done.with_name(f"RUN-2090{i:04}T000000-000000")
            if not path.exists():
                shutil.copytree(done, path)
        result = ws.fault("status", "--json").expect(0)
        eq([one["status"] for one in result.json["runs"]], ["NEEDS_INPUT"] + 5 * ["DONE"], f"of {count}")
        calls.append(result.calls)
    eq(calls[0], calls[1], "file-system calls")
    eq(os.listdir(ws.path / ".aiflow/runs/.open"), [json.loads(result.out)["runs"][0]["run_id"]], "the runs that may go on")


@test("of many runs status shows the first, and how many more there are; --json has them all")
def _(ws):
    run_flow(ws, "tasks: {a: 'tasuki task ask Deploy?'}\n", code=8)
    run = next((ws.path / ".aiflow/runs").glob("RUN-*"))
    for i in range(14):
        shutil.copytree(run, run.with_name(f"RUN-20200101T0000{i:02}-000000"))
    known = len(ws.tasuki("status", "--json").expect(0).json["runs"])
    assert known > 10, known
    text = ws.tasuki("status").expect(0).out
    eq(len(re.findall(r"^\S+ +NEEDS_INPUT", text, re.MULTILINE)), 10, "runs shown")
    assert f"{known - 10} more" in text, text


@test("watch --json prints one document per change, and ends with its reader", slow=True)
def _(ws):
    proc = ws.spawn("watch", "--json")
    first = json.loads(proc.stdout.readline())
    eq((set(first), first["locks"]), (KEYS, []), "the first document")
    documents = [first]
    for name in ("a", "b", "c"):
        ws.tasuki("lock", "run", "z", "--", "true").expect(0)  # after which everything is as it was
        until_settled(ws, proc)
        run_held(ws, name)
        while name not in {k["id"] for k in documents[-1]["locks"]}:
            documents.append(json.loads(proc.stdout.readline()))
    for before, after in zip(documents, documents[1:]):
        assert lasting(before) != lasting(after), f"nothing has changed in {after}"
    proc.stdout.close()
    run_held(ws, "d")
    ws.until(lambda: proc.poll() is not None, "it ends when nobody reads")


@test("watch into a pipe prints plain snapshots, one per change")
def _(ws):
    proc = ws.spawn("watch")
    first = proc.stdout.readline()
    assert re.fullmatch(r"== (\d\d-\d\d )?\d\d:\d\d:\d\d\n", first), first
    run_held(ws, "deploy")
    shown = ""
    while "name deploy" not in shown:
        shown += proc.stdout.readline()
    assert "\x1b" not in shown, shown


@test("a run that cannot be read is in status, by its name, as BROKEN; the others are shown")
def _(ws):
    (ws.path / "f.yaml").write_text("tasks: {a: 'true'}\n")
    for _ in range(2):
        ws.tasuki("run", "f.yaml", "--quiet").expect(0)
    first, second = sorted(path.name for path in (ws.path / ".aiflow/runs").glob("RUN-*"))
    (ws.path / ".aiflow/runs" / first / "stage.json").write_text("{not json")
    (ws.path / ".aiflow/runs" / first / "journal").write_text("no record\n")
    runs = ws.tasuki("status", "--json").expect(0).json["runs"]
    eq([(run["run_id"], run["status"]) for run in runs], [(second, "DONE"), (first, "BROKEN")], "the runs")
    text = ws.tasuki("status").expect(0).out
    for run, state in ((first, "BROKEN"), (second, "DONE")):
        assert re.search(rf"^{run.rpartition('-')[2]} +{state}", text, re.MULTILINE), text


main(__name__)
