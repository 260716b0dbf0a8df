"""notify: in config.yaml for processes: reported once when one has failed for good, by its holder's last child or by a live view."""

import json
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness.harness import eq, main, test  # noqa: E402

TELL = "notify: {failure: 'cat >> told'}\n"


def configure(ws, text=TELL):
    (ws.path / ".aiflow/config.yaml").write_text(text)


def call(ws, *words, code=0):
    return ws.tasuki("--json", *words).expect(code)


def told(ws):
    path = ws.path / "told"
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")] if path.exists() else []


def starts_told(ws, id):
    return [one["run"] for one in told(ws) if one["process_id"] == id]


def until_told(ws, count):
    ws.until(lambda: len(told(ws)) >= count, f"{count} notifications")
    return told(ws)


def create(ws, id, *words):
    """On a busy machine it may have failed before the answer: the exit code says so."""
    result = ws.tasuki("--json", "proc", "create", id, "--start", "--no-wait", *words)
    assert result.code in (0, 7), f"{result.code}\n{result.err}"
    return result


def script(ws, id, text, *words):
    """A process that waits for the file `go.<id>`, so that its start is over before it ends."""
    return create(ws, id, *words, "--", "sh", "-c", f"while ! test -e go.{id}; do sleep 0.01; done; {text}")


def go(ws, id):
    (ws.path / f"go.{id}").touch()


def status(ws, id):
    return json.loads((ws.path / f".aiflow/processes/{id}/status.json").read_text())


def until_over(ws, id):
    ws.until(lambda: status(ws, id)["phase"] == "ended", f"{id} has ended")


def marks(ws, id):
    return sorted(path.name for path in (ws.path / f".aiflow/processes/{id}").glob("notified.*"))


def last(ws):
    """One more failure; when that is reported, what came before it has had its time."""
    count = len(told(ws))
    create(ws, "last", "--", "sh", "-c", "sleep 0.1; exit 9")
    ws.until(lambda: "last" in [one["process_id"] for one in told(ws)[count:]], "the last one is reported")
    return [one["process_id"] for one in told(ws)]


@test("a process that fails is reported once, with the place and its last lines; a second failure is reported again")
def _(ws):
    configure(ws)
    script(ws, "web", "echo out; printf '\\033[31mbad\\033[0m\\n' >&2; exit 3")
    go(ws, "web")
    event = until_told(ws, 1)[0]
    eq({key: event[key] for key in ("event", "workspace", "process_id", "run", "exit_code", "error", "by", "restarts")},
       {"event": "failure", "workspace": str(ws.path), "process_id": "web", "run": 1, "exit_code": 3, "error": "Process exited with code 3", "by": "itself", "restarts": 0}, "the event")
    eq(sorted(event["lines"]), ["bad", "out"], "its last lines")
    until_over(ws, "web")
    ws.tasuki("proc", "start", "web")
    until_told(ws, 2)
    ws.until(lambda: marks(ws, "web") == ["notified.failure.2"], "only the newest mark stays")
    eq(last(ws), ["web", "web", "last"], "the notifications")


@test("a process that is started again by its policy is reported when the last try has failed")
def _(ws):
    configure(ws)
    script(ws, "flaky", "exit 4", "--restart", "on-failure", "--max-retries", "3", "--backoff", "10ms")
    go(ws, "flaky")
    until_told(ws, 1)
    eq((starts_told(ws, "flaky"), told(ws)[0]["restarts"]), ([4], 3), "the start that is reported")
    eq(last(ws), ["flaky", "last"], "the notifications")


@test("nothing is reported of a process that ends with 0, is stopped, is ended together with its holder, or is configured to ring only")
def _(ws):
    configure(ws)
    script(ws, "good", "exit 0")
    go(ws, "good")
    for id in ("stopped", "ended", "backoff"):
        policy = ["--restart", "always", "--backoff", "60s"] if id == "backoff" else []
        script(ws, id, "exit 5", *policy)
    call(ws, "proc", "stop", "stopped")
    os.kill(status(ws, "ended")["holder"]["pid"], signal.SIGTERM)
    go(ws, "backoff")
    ws.until(lambda: status(ws, "backoff")["phase"] == "backoff" and status(ws, "backoff")["n"] > 1, "it waits for its next try")
    call(ws, "proc", "stop", "backoff")
    for id in ("good", "stopped", "ended", "backoff"):
        until_over(ws, id)
    configure(ws, "notify: {failure: bell, done: 'cat >> told'}\n")
    script(ws, "rings", "exit 5")
    go(ws, "rings")
    until_over(ws, "rings")
    configure(ws)
    eq(last(ws), ["last"], "the notifications")
    eq([marks(ws, id) for id in ("good", "stopped", "ended", "backoff", "rings")], [[]] * 5, "the marks")


@test("a process that was started without notify costs nothing: its holder knows of no command; a look tells nothing")
def _(ws):
    script(ws, "web", "exit 3")
    words = pathlib.Path(f"/proc/{status(ws, 'web')['holder']['pid']}/cmdline").read_bytes()
    eq((b"tell=" in words, b"root=" in words), (False, False), "the holder's words")
    configure(ws)
    go(ws, "web")
    until_over(ws, "web")
    for words in (["proc", "list"], ["proc", "status", "web"], ["status"], ["proc", "logs", "web"], ["events"], ["doctor"]):
        ws.tasuki(*words)
    for words in (["watch"], ["events", "--follow"]):  # live views tell what they see happen
        view = ws.spawn(*words)
        ws.until(lambda: (ws.path / ".aiflow/watch.json").exists(), "it looks")
        view.kill()
        view.wait()
        (ws.path / ".aiflow/watch.json").unlink()
    eq((last(ws), marks(ws, "web")), (["last"], []), "the notifications")


@test("a process that is lost with its holder is reported by the live view that sees it, once", slow=True)
def _(ws):
    configure(ws)
    script(ws, "web", "exit 3")
    views = [ws.spawn("events", "--follow") for _ in range(3)]
    ws.until(lambda: (ws.path / ".aiflow/watch.json").exists(), "a view looks")
    record = status(ws, "web")
    holder = record["holder"]["pid"]
    os.kill(holder, signal.SIGSTOP)  # it sees no end, and nobody adopts what it holds
    ws.until(lambda: pathlib.Path(f"/proc/{holder}/stat").read_text().rpartition(")")[2].split()[0] == "T", "it stands still")
    os.kill(record["child"]["pid"], signal.SIGKILL)
    os.kill(holder, signal.SIGKILL)
    event = until_told(ws, 1)[0]
    eq((event["process_id"], event["run"], event["by"]), ("web", 1, "unknown"), "the event")
    for view in views:
        view.kill()
        view.wait()
    (ws.path / ".aiflow/watch.json").unlink()
    view = ws.spawn("events", "--follow")
    ws.until(lambda: (ws.path / ".aiflow/watch.json").exists(), "the next view looks")
    eq(last(ws), ["web", "last"], "the notifications")
    view.kill()
    view.wait()


@test("a notify: that cannot be read when a process fails is an event that names the process and the mistake")
def _(ws):
    configure(ws)
    script(ws, "web", "exit 3")
    configure(ws, "notify: {failure: {no: command}}\n")
    go(ws, "web")
    data = ws.until(lambda: ws.events("notify.failed"), "the event")[0]["data"]
    eq((data["process_id"], "config.yaml" in json.dumps(data["error"])), ("web", True), f"{data}")


@test("a command that is missing is an event; what the command inherits names no process, so that no stop ends it")
def _(ws):
    configure(ws, "notify: {failure: [no-such-program]}\n")
    create(ws, "web", "--", "sh", "-c", "sleep 0.1; exit 3")
    ws.until(lambda: ws.events("notify.failed"), "the event")
    data = ws.events("notify.failed")[0]["data"]
    eq((data["process_id"], "no-such-program" in json.dumps(data["error"])), ("web", True), f"{data}")
    configure(ws, "notify: {failure: 'env > env.new; mv env.new env; while ! test -e enough; do sleep 0.01; done; cat > told'}\n")
    create(ws, "other", "--", "sh", "-c", "sleep 0.1; exit 3")
    ws.until_file("env")
    eq([line for line in (ws.path / "env").read_text().splitlines() if line.startswith("TASUKI_PROCESS_")], [], "marks of the process")
    until_over(ws, "other")
    eq(call(ws, "proc", "status", "other").json.get("leftovers", []), [], "leftovers")
    call(ws, "proc", "remove", "other")
    (ws.path / "enough").touch()
    ws.until_file("told")


@test("a command that hangs keeps neither the holder nor the next start, and is ended after a while", quick=False)
def _(ws):
    configure(ws, "notify: {failure: 'echo $$ > pid.new; mv pid.new pid; trap \"\" TERM; while :; do sleep 1; done'}\n")
    create(ws, "web", "--", "sh", "-c", "sleep 0.1; exit 3")
    ws.until_file("pid")
    holder = status(ws, "web")["holder"]["pid"]
    ws.until(lambda: not ws.alive(holder), "the holder has ended")
    pid = int((ws.path / "pid").read_text())
    eq(ws.alive(pid), True, "the command goes on")
    call(ws, "proc", "update", "web", "--", "sleep", "100")
    call(ws, "proc", "start", "web")
    for _ in range(2):
        if ws.alive(pid):
            try:
                ws.until(lambda: not ws.alive(pid), "the command is ended")
            except AssertionError:
                continue
    eq(ws.alive(pid), False, "the command")
    call(ws, "proc", "stop", "web")


main(__name__)
