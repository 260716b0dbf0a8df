"""notify: in config.yaml: a command for each kind of event, at most once for each, and never by a look."""

import json
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from flows import with_tool  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from requests_common import add, call, run, spawn  # noqa: E402

ALL = "notify: {question: 'cat >> told', failure: 'cat >> told', done: 'cat >> told', stuck: 'cat >> told'}\n"
# The command writes a line for each time that it is started, in one write.
LOOKS = (["runs", "list"], ["runs", "show"], ["status"], ["request", "list"], ["doctor"], ["queue", "status"], ["runs", "logs"])


def configure(ws, text=ALL):
    (ws.path / ".aiflow/config.yaml").write_text(text)


def told(ws):
    path = ws.path / "told"
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")] if path.exists() else []


def until_told(ws, count):
    ws.until(lambda: len(told(ws)) >= count, f"{count} notifications")
    return told(ws)


def flow(ws, command, name="f.yaml"):
    (ws.path / name).write_text(json.dumps({"tasks": {"a": {"run": command}}}))
    return name


def marks(ws):
    return sorted(path.name.rpartition(".")[0] for path in (ws.path / ".aiflow/runs").glob("RUN-*/notified.*"))


@test("a run that is done, fails or asks starts the command of that event, with the event as JSON on its input")
def _(ws):
    configure(ws)
    call(ws, "run", flow(ws, "true"))
    until_told(ws, 1)
    call(ws, "run", flow(ws, "echo first; echo '<last> & \\least' >&2; exit 3"), code=7)
    until_told(ws, 2)
    add(ws, "RQ-1", 'tasuki task ask "Which?"')
    asks = run(ws, "RQ-1", code=8)["run_id"]
    events = until_told(ws, 3)
    eq([one["event"] for one in events], ["done", "failure", "question"], "the events")
    eq((events[2]["run_id"], events[2]["request_id"], events[2]["status"], events[2]["workspace"]), (asks, "RQ-1", "NEEDS_INPUT", str(ws.path)), "the question")
    eq((events[1]["failures"][0]["lines"], events[1]["workspace"]), (["first", "<last> & \\least"], str(ws.path)), "what failed, and where")
    eq((events[1]["failures"][0]["task"], events[2]["questions"][0]["question"]["question"]), ("a", "Which?"), "what happened")
    eq(marks(ws), ["notified.done", "notified.failure", "notified.question"], "the marks")
    eq(ws.events("notify.failed"), [], "notifications that failed")


@test("each end of a run is an event of its own; a cancelled run is none; a detached run notifies, too")
def _(ws):
    configure(ws)
    call(ws, "run", flow(ws, "exit 3"), code=7)
    until_told(ws, 1)
    call(ws, "resume", "@1", code=7)
    until_told(ws, 2)
    add(ws, "RQ-1", "echo $$ > up; while ! test -e go; do sleep 0.01; done")
    long = call(ws, "request", "run", "RQ-1", "--detach").json["run_id"]
    ws.until_file("up")
    call(ws, "runs", "cancel", long)
    call(ws, "wait", "run", long, code=7)
    (ws.path / "go").touch()
    long = call(ws, "request", "run", "RQ-1", "--detach").json["run_id"]
    call(ws, "wait", "run", long)
    eq([one["event"] for one in until_told(ws, 3)], ["failure", "failure", "done"], "the events")


@test("without notify nothing is marked or started; a look starts nothing; bell is no command")
def _(ws):
    call(ws, "run", flow(ws, "true"))
    configure(ws)
    for words in LOOKS:
        call(ws, *words)
    configure(ws, "notify: {done: bell}\n")
    call(ws, "run", "f.yaml")
    eq((told(ws), marks(ws)), ([], []), "notifications")


@test("a list is a command word by word; desktop is notify-send where it exists; a program that is missing changes no exit code")
def _(ws):
    bin = ws.path / "bin"
    bin.mkdir()
    (bin / "notify-send").write_text('#!/bin/sh\nprintf "%s\\n" "$@" > sent.new\nmv sent.new sent\n')
    (bin / "notify-send").chmod(0o755)
    configure(ws, "notify: {failure: [sh, -c, 'cat > \"$1\"', sh, 'a b'], done: desktop}\n")
    env = with_tool(ws)
    env["PATH"] = f"{bin}:{env['PATH']}"
    ws.tasuki("run", flow(ws, "exit 3"), env=env).expect(7)
    ws.until(lambda: (ws.path / "a b").exists() and (ws.path / "a b").read_text().endswith("}\n"), "the list's command")
    ws.tasuki("run", flow(ws, "true"), env=env).expect(0)
    ws.until_file("sent")
    eq((ws.path / "sent").read_text(), f"--\ntasuki: done f.yaml\n{ws.path}\n", "notify-send")
    (ws.path / "sent").unlink()
    configure(ws, "notify: {failure: desktop}\n")
    ws.tasuki("run", flow(ws, "echo 1; echo 2; echo 3; echo '<last> & least'; exit 3"), env=env).expect(7)
    ws.until_file("sent")
    eq((ws.path / "sent").read_text(), f"--\ntasuki: failure f.yaml\n{ws.path}\n2\n3\n&lt;last&gt; &amp; least\n", "place and last lines")
    configure(ws, "notify: {done: [no-such-program]}\n")
    result = ws.tasuki("run", flow(ws, "true")).expect(0)
    eq("no-such-program" in result.err, True, result.err)
    configure(ws, "notify: {done: desktop}\n")
    eq(ws.tasuki("run", "f.yaml", env={**with_tool(ws), "PATH": f"{ws.binary.parent if hasattr(ws.binary, 'parent') else os.path.dirname(ws.binary)}:/nowhere:/usr/bin:/bin"}).expect(0).code, 0, "the exit code")


@test("a wrong notify is found by doctor, with its place; the run says so and ends as it would")
def _(ws):
    for text, words in (("notify: {finished: x}\n", "no key finished"), ("notify: {done: {a: b}}\n", "notify.done must be"), ("notify: {done: []}\n", "notify.done must be")):
        configure(ws, text)
        result = ws.tasuki("run", flow(ws, "true")).expect(0)
        eq((words in result.err, "config.yaml:1:" in result.err), (True, True), result.err)
        eq(words in str(call(ws, "doctor", code=3).json), True, "doctor")


@test("a section of config.yaml that is no map, or has a key that nobody reads, is found by doctor and by who reads it, with its place")
def _(ws):
    prune = ("runs", "prune", "--dry-run")
    for text, words, reader in (("keep: {runs: 2, dayz: 0}\n", "keep has no key dayz; did you mean days?", prune),
                                ("keep: {runs: 2, colour: 0}\n", "keep has no key colour: runs, days", prune),
                                ("keep: 5\n", "keep must be a map with the keys runs, days", prune),
                                ("notify: desktop\n", "notify must be a map with the keys question, failure, done, stuck", ("run", flow(ws, "true"))),
                                ("processes: {guard: foo}\n", "processes.guard must be one of ask, warn, off", None),
                                ("processes: {gaurd: off}\n", "processes has no key gaurd; did you mean guard?", None)):
        configure(ws, text)
        found = str(call(ws, "doctor", code=3).json)
        is_kind = text in ("keep: 5\n", "notify: desktop\n")  # doctor has its own words
        eq((words in found or is_kind, "config.yaml:1:" in found), (True, True), found)
        said = ws.tasuki(*reader).err if reader else f"{words} config.yaml:1:"
        eq((words in said, "config.yaml:1:" in said), (True, True), said)
    configure(ws, "keep: {dayz: 0}\n")
    assert "config.yaml:1:8: keep has no key dayz" in ws.tasuki(*prune).expect(2).err, "the place is the key's"
    for fine in ("keep:\n", "keep: {days: 1}\n", "notify:\n", "processes: {guard: off}\n"):
        configure(ws, fine)
        call(ws, "doctor", code=0)


@test("what is wrong in config.yaml is said in the language of the reader")
def _(ws):
    for text, *said in (("keep: {dayz: 0}\n", "keep にキー dayz はありません。days のことですか？", "keep 没有键 dayz；是否指 days？"),
                        ("keep: {runs: -1}\n", "keep.runs は 0 から ", "keep.runs 必须是 0 到 "),
                        ("keep: {colour: 1}\n", "使えるキー: runs, days", "可用的键: runs, days"),
                        ("notify: {done: []}\n", "notify.done は desktop、bell、", "notify.done 必须是 desktop、bell、"),
                        ("processes: {guard: foo}\n", "processes.guard は ask, warn, off のいずれか", "processes.guard 必须是 ask, warn, off 之一"),
                        ("agents: {a: {}}\n", "エージェント a に run: [PROGRAM, ..., \"{task}\"] がありません", "代理 a 没有 run: [PROGRAM, ..., \"{task}\"]"),
                        ("agents: {a: {run: x}}\n", "run は語のリスト", "run 必须是词的列表"),
                        ("agents: {a: {run: [x], retries: many}}\n", "retries は 0 から 1000 まで", "retries 必须是 0 到 1000 之间"),
                        ("agents: {a: {run: [x], timout: 1s}}\n", "キー timout は使えません。timeout のことですか", "未知的键 timout；是否指 timeout"),
                        ("teams: {t: {agents: [b]}}\n", "agents: にエージェント b がありません", "agents: 中没有代理 b"),
                        ("agents: {a: {run: [x]}}\nteams: {t: {agents: [a], policy: {at_least: 2}}}\n", "at_least は 1 からチームの人数まで", "at_least 必须是 1 到团队大小")):
        configure(ws, text)
        for lang, words in zip(("ja", "zh"), said):
            found = ws.tasuki("doctor", "--json", env={"TASUKI_LANG": lang}).expect(3).json
            assert words in json.dumps(found, ensure_ascii=False).replace('\\"', '"'), f"{text}{lang}: {found}"


@test("a notification whose command is not there, or fails, is an event; doctor warns of a program that is not there")
def _(ws):
    for text, key, value in (("notify: {failure: ./nosuch.sh}\n", "exit_code", 127), ("notify: {failure: 'cat > /dev/null; exit 3'}\n", "exit_code", 3),
                             ("notify: {failure: [./nosuch.sh]}\n", "error", None)):
        configure(ws, text)
        before = len(ws.events("notify.failed"))
        ws.tasuki("run", flow(ws, "exit 1")).expect(7)
        ws.until(lambda: len(ws.events("notify.failed")) > before, "the event")
        event = ws.events("notify.failed")[-1]
        eq((event["data"]["event"], event["data"]["run_id"], key in event["data"]), ("failure", event["run_id"], True), str(event))
        eq(event["data"][key] if value else "nosuch.sh" in str(event["data"][key]), value or True, str(event))
        found = [one for one in call(ws, "doctor").json["checks"] if one["name"] == "tools"]
        eq("nosuch.sh" in str(found) and found[0]["status"] == "WARN", "nosuch" in text, str(found))


@test("a run inside of a task notifies nobody; the outer run does")
def _(ws):
    configure(ws)
    flow(ws, "true", "inner.yaml")
    call(ws, "run", flow(ws, "tasuki run inner.yaml --quiet"))
    events = until_told(ws, 1)
    eq([one["source"] for one in events], ["f.yaml"], "whose")


@test("a queue that cannot go on is stuck; one that stops at a failure is not, because the run has notified")
def _(ws):
    configure(ws)
    add(ws, "RQ-1", "exit 3")
    call(ws, "queue", "run", code=7)
    eq([one["event"] for one in until_told(ws, 1)], ["failure"], "a failure")
    (ws.path / ".aiflow/requests/RQ-2.yaml").write_text("title: no flow\nflow: nowhere.yaml\n")
    call(ws, "queue", "run", code=7)
    eq([(one["event"], one.get("reason")) for one in until_told(ws, 2)][1:], [("stuck", "FAILED")], "it could not begin")


@test("a run whose runner was killed is reported once, however many live views are open and whichever of them are killed", slow=True)
def _(ws):
    configure(ws)
    for round in range(3):
        (ws.path / "up").unlink(missing_ok=True)
        views = [spawn(ws, "events", "--follow") for _ in range(3)]
        runner = spawn(ws, "run", flow(ws, "echo $$ > up; while :; do sleep 0.05; done"))
        ws.until_file("up")
        runner.kill()
        runner.wait()
        if round:
            views[0].kill()
        ws.until(lambda: len(told(ws)) > round, "the notification")
        for view in views:
            view.kill()
            view.wait()
        last = spawn(ws, "events", "--follow")  # takes over, and reports nothing again
        ws.until(lambda: (ws.path / ".aiflow/watch.json").exists(), "it looks")
        last.send_signal(signal.SIGTERM)
        last.wait()
    runs = [one["run_id"] for one in told(ws)]
    eq((len(runs), len(set(runs)), {one["event"] for one in told(ws)}), (3, 3, {"stuck"}), "once each")


@test("a live view that has forgotten what was reported finds the mark, and starts the command no second time")
def _(ws):
    configure(ws)
    runner = spawn(ws, "run", flow(ws, "echo $$ > up; while :; do sleep 0.05; done"))
    ws.until_file("up")
    runner.kill()
    runner.wait()
    for _ in range(3):
        view = spawn(ws, "events", "--follow")
        ws.until(lambda: ws.events("run.interrupted") and (ws.path / ".aiflow/watch.json").exists(), "the report, and the memory that is written after it")
        until_told(ws, 1)  # a view that is killed between its mark and the command loses the notification
        view.kill()
        view.wait()
        for name in ("watch.json", "events.ndjson"):
            (ws.path / ".aiflow" / name).unlink(missing_ok=True)
    add(ws, "RQ-last", "true")
    run(ws, "RQ-last")
    ws.until(lambda: told(ws)[-1:] and told(ws)[-1]["event"] == "done", "what comes after it")
    eq([one["event"] for one in told(ws)], ["stuck", "done"], "the notifications")


main(__name__)
