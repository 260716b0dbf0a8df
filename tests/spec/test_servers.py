"""Servers: the reason of a failure, wherever a process is shown; starts that wait; all output on one screen."""

import contextlib
import pathlib
import sqlite3
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "mcp"))
from agent import Agent  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from harness.processes import Processes  # noqa: E402

OS_ERROR = "OSError: Address already in use"


def failed(p, id, text, *options):
    """A shell script that has ended with its own exit code; its record."""
    p.script(id, text, *options)
    p.call("start", id)
    return p.until_state(id, "Failed")


# -- the reason of a failure ----------------------------------------------------------------------------------------

@test("a failed process carries the last line of its stderr in the list, in its status and on the workspace's screen")
def _(ws):
    p = Processes(ws)
    p.run("web")
    failed(p, "api", f"echo started; echo Traceback >&2; echo '{OS_ERROR}' >&2; exit 1")
    eq(p.status("api")["last_stderr"], OS_ERROR, "status")
    eq(p.list()["api"]["last_stderr"], OS_ERROR, "list")
    eq(p.list()["web"]["last_stderr"], None, "of one that runs")
    shown = {one["id"]: one for one in ws.tasuki("--json", "status").expect(0).json["processes"]}
    eq(shown["api"]["last_stderr"], OS_ERROR, "the workspace's screen")
    for words in (("proc", "list"), ("status",)):
        line = next(line for line in ws.tasuki(*words).expect(0).out.splitlines() if line.startswith("api "))
        eq(line.split(None, 2), ["api", "Failed", f"exit 1: {OS_ERROR}"], " ".join(words))
    assert OS_ERROR in ws.tasuki("proc", "status", "api").expect(0).out
    p.stop("web")


for mode in ("direct", "pipe", "stamped"):
    @test(f"the last line is of the newest start, of stderr, and has text; output kept in mode {mode}")
    def _(ws, mode=mode):
        p = Processes(ws)
        failed(p, "api", "test -e again && exit 3; echo first >&2; touch again; exit 2", "--log", mode, "--cwd", str(ws.path))
        eq(p.status("api")["last_stderr"], "first", "of the first start")
        p.call("start", "api")
        p.ws.until(lambda: p.status("api").get("exit_code") == 3, "the second start has ended")
        eq(p.status("api")["last_stderr"], None, "the second start said nothing")
        failed(p, "db", r"printf '\033[31m10 %%\rno such\033[0m table \n\n  \n' >&2; echo later; exit 1", "--log", mode)
        eq(p.status("db")["last_stderr"], "no such table", "without escapes, and what a carriage return leaves")


@test("the last line is cut to 500 bytes of whole characters, however long it is, and bytes that are no text do no harm")
def _(ws):
    p = Processes(ws)
    failed(p, "long", "head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1")
    eq(p.status("long")["last_stderr"], "x" * 500, "a line of 100,000 bytes without an end")
    failed(p, "wide", "printf 'x'; printf 'あ%.0s' $(seq 300) >&2; exit 1")
    eq(p.status("wide")["last_stderr"], "あ" * 166, "characters of three bytes")
    failed(p, "bytes", r"printf 'a\377b\n' >&2; exit 1")
    eq(p.status("bytes")["last_stderr"], "a\ufffdb", "invalid bytes")


@test("in a back-off the list says when it starts again, and why it ended")
def _(ws):
    p = Processes(ws)
    p.script("api", f"echo '{OS_ERROR}' >&2; exit 1", "--restart", "on-failure", "--backoff", "100s", "--backoff-max", "100s")
    p.call("start", "api")
    p.until_state("api", "Failed", "backoff")
    line = ws.tasuki("proc", "list").expect(0).out.splitlines()[1]
    assert line.startswith("api  Failed  exit 1, again in ") and line.endswith(f": {OS_ERROR}"), line
    line = ws.tasuki("--lang", "ja", "proc", "list").expect(0).out.splitlines()[1]
    assert "後に再起動: " + OS_ERROR in line, line
    p.stop("api")


# -- a start waits --------------------------------------------------------------------------------------------------

@test("a start is answered as Failed, with the reason, when the process ends at once: exit 7, 422 and isError")
def _(ws):
    p = Processes(ws)
    p.script("api", f"echo '{OS_ERROR}' >&2; exit 1")
    answer = p.end_at_once("api", by=lambda: p.call("start", "api")).expect(7).json
    eq((answer["state_name"], answer["last_stderr"]), ("Failed", OS_ERROR), "the answer")
    eq(answer["message"], f"'api' did not start: exit 1: {OS_ERROR}", "its sentence")
    result = p.end_at_once("api", by=lambda: ws.tasuki("start", "api")).expect(7)
    assert OS_ERROR in result.out, result.out
    answer = p.end_at_once("api", by=lambda: p.call("restart", "api")).expect(7).json
    eq(answer["state_name"], "Failed", "the answer to a restart")

    def create():
        p.call("remove", "db")
        return p.call("create", "db", "--start", "--", "sh", "-c", "echo full >&2; exit 2")

    answer = p.end_at_once("db", by=create).expect(7).json
    eq((answer["id"], answer["last_stderr"]), ("db", "full"), "the answer to create --start")
    eq(p.list()["db"]["state_name"], "Failed", "it stays registered: it was executed")


@test("a start of several waits for all at once; one that ends with 0 is no failure, and the good ones run")
def _(ws):
    p = Processes(ws)
    p.create("web")
    p.create("db")
    p.script("job", "exit 0")
    p.script("api", "echo no >&2; exit 1")

    def start():
        p.call("stop", "--all")
        return p.call("start", "--all")

    answer = p.end_at_once("api", "job", by=start).expect(7).json
    states = {one["id"]: one["state_name"] for one in answer["processes"]}
    eq(states, {"api": "Failed", "db": "Running", "job": "Stopped", "web": "Running"}, "the states")
    eq(answer["errors"], [], "what could not be executed")
    assert "'api'" in answer["message"], answer["message"]
    eq(p.end_at_once("job", by=lambda: p.call("start", "job")).expect(0).json["state_name"], "Stopped", "one that ended well")
    p.call("stop", "--all").expect(0)


@test("a start with a probe returns when it is ready; --timeout and --no-wait return before, with phase starting")
def _(ws):
    p = Processes(ws)
    text = "while ! test -e go; do sleep 0.01; done; echo up; exec sleep 1000"
    p.script("web", text, "--ready", "log:up", "--cwd", str(ws.path))
    eq(p.call("start", "web", "--no-wait").expect(0).json["phase"], "starting", "the phase with --no-wait")
    eq(p.call("restart", "web", "--timeout", "0").expect(0).json["phase"], "starting", "the phase when the time is up")
    p.stop("web")
    starting = ws.spawn("--json", "proc", "start", "web")
    p.until_state("web", "Running", "starting")
    assert starting.poll() is None, "it has returned before the process is ready"
    (ws.path / "go").touch()
    eq(ws.finish(starting).expect(0).json["phase"], "ready", "the phase in the answer")
    p.stop("web")


@test("a start returns when the process is ready, not at its next look a second later")
def _(ws):
    p = Processes(ws)
    p.script("web", "sleep 0.1; echo up; sleep 0.7; echo later; exec sleep 1000", "--ready", "log:up")
    log = p.dir("web") / "log/stdout.log"
    for _ in range(20):  # on a busy machine a start may take longer, now and then
        p.call("start", "web").expect(0)
        if not log.read_text().endswith("later\n"):
            break
        p.stop("web")
    assert not log.read_text().endswith("later\n"), "each of 20 starts waited for the next look"
    p.stop("web")


@test("a start whose probe gives up is a failure, and the process runs on")
def _(ws):
    p = Processes(ws)
    p.create("web", ("sleep", "1000"), "--ready", "log:never", "--ready-timeout", "100ms")
    answer = p.call("start", "web").expect(7).json
    eq((answer["state_name"], answer["phase"]), ("Running", "starting"), "the answer")
    assert answer["message"].startswith("'web' did not start: not ready in time"), answer["message"]
    p.stop("web")


@test("a restart of the policy that is made at once is waited for; one in a back-off is not")
def _(ws):
    p = Processes(ws)
    p.script("twice", "test -e two && exec sleep 1000; : > two; exit 1", "--restart", "on-failure", "--cwd", str(ws.path))

    def start():
        p.call("stop", "twice")
        (ws.path / "two").unlink(missing_ok=True)
        return p.call("start", "twice")

    answer = p.end_at_once("twice", by=start).expect(0).json
    eq((answer["state_name"], answer["restarts"]), ("Running", 1), "one that runs the second time")
    p.script("never", "echo no >&2; exit 1", "--restart", "on-failure", "--backoff", "100s", "--backoff-max", "100s")
    answer = p.end_at_once("never", exits=2, by=lambda: p.call("start", "never")).expect(7).json
    eq((answer["state_name"], answer["phase"], answer["last_stderr"]), ("Failed", "backoff", "no"), "one that never does")
    p.call("stop", "--all").expect(0)


@test("over MCP a start that fails is isError, and its text says why")
def _(ws):
    p = Processes(ws)
    p.script("api", f"echo '{OS_ERROR}' >&2; exit 1")
    client = Agent(ws)
    result = p.end_at_once("api", by=lambda: client.call("start_process", id="api"))
    assert result["isError"], result
    text = result["content"][0]["text"]
    assert text.startswith("NOT STARTED: ") and OS_ERROR in text, text
    client.close()


# -- the output of several -------------------------------------------------------------------------------------------

@test("proc logs shows all processes, both outputs, with names; --stdout, --stderr, --grep, -n and ids choose")
def _(ws):
    p = Processes(ws)
    for id in ("api", "web-server"):
        p.script(id, f"echo {id} out; echo {id} err >&2; printf rest", "--log", "stamped")
        p.start(id)
        p.until_state(id, "Stopped")
    result = ws.tasuki("proc", "logs").expect(0)
    eq(sorted(result.out.splitlines()), ["api        ! api err", "api        | api out", "api        | rest",
                                         "web-server ! web-server err", "web-server | rest", "web-server | web-server out"],
       "all of it")
    assert "exact" in result.err, result.err
    eq(ws.tasuki("--quiet", "proc", "logs").err, "", "--quiet says nothing more")
    eq(sorted(ws.tasuki("proc", "logs", "--stderr").out.splitlines()), ["api        ! api err", "web-server ! web-server err"],
       "--stderr")
    eq(len(ws.tasuki("proc", "logs", "--stdout").out.splitlines()), 4, "--stdout")
    eq(ws.tasuki("proc", "logs", "--grep", "web.*out").out, "web-server | web-server out\n", "--grep")
    eq(len(ws.tasuki("proc", "logs", "-n", "2").out.splitlines()), 2, "-n is for all together")
    # Its last line has an end in the file if the holder has read a line of stderr after it.
    eq(ws.tasuki("proc", "logs", "api", "--stdout").out.splitlines(), ["api out", "rest"], "of one, its lines alone")
    lines = p.call("logs", "api", "web-server", "--stderr").expect(0).json
    eq((lines["order"], sorted((one["id"], one["text"]) for one in lines["lines"])),
       ("exact", [("api", "api err"), ("web-server", "web-server err")]), "as JSON")
    eq(p.call("logs", "api", "nobody").code, 5, "one that does not exist")
    eq(p.call("logs", "--cursor", "0:0").code, 2, "a cursor is for one")


@test("the lines of several come in the order of time: exact in mode stamped; of plain logs the remark says to the second")
def _(ws):
    p = Processes(ws)
    texts = []
    for number in range(6):
        id = ("b", "a")[number % 2]
        path = ws.path / f"say-{number}"
        texts.append(f"{number} of {id}")
        if number < 2:
            p.script(id, 'while :; do for f in say-?; do test -e "$f.$0" && continue; test -e "$f" || continue; '
                         'read -r who line < "$f"; test "$who" = "$0" && { touch "$f.$0"; echo "$line"; }; done; sleep 0.01; done',
                     "--log", "stamped", "--cwd", str(ws.path))
            p.call("update", id, "--", "sh", "-c", p.status(id)["args"][1], id).expect(0)
            p.start(id)
        path.with_suffix(".new").write_text(f"{id} {texts[-1]}\n")
        path.with_suffix(".new").rename(path)
        ws.until(lambda: texts[-1] in ws.tasuki("proc", "logs", id).out, texts[-1])
    shown = [line.split("| ")[1] for line in ws.tasuki("proc", "logs").expect(0).out.splitlines()]
    eq(shown, texts, "the order")
    p.call("stop", "--all").expect(0)
    p.script("plain", "echo plain")
    p.start("plain")
    p.until_state("plain", "Stopped")
    assert "to the second" in ws.tasuki("proc", "logs").expect(0).err


@test("a last line without an end counts as one: -n shows that many")
def _(ws):
    p = Processes(ws)
    for id, text in (("a", "echo one; printf rest"), ("b", "echo two; echo three")):
        p.script(id, text, "--log", "stamped")
        p.start(id)
        p.until_state(id, "Stopped")
    for n, shown in ((1, ["b | three"]), (2, ["b | two", "b | three"]), (3, ["a | rest", "b | two", "b | three"])):
        eq(ws.tasuki("proc", "logs", "-n", n).expect(0).out.splitlines(), shown, f"-n {n}")


@test("proc logs -f of several goes on over a restart, ends when all have ended, and loses nothing", slow=True)
def _(ws):
    p = Processes(ws)
    p.script("a", "for i in $(seq 2000); do echo a $i; done; exit 1", "--restart", "on-failure", "--max-retries", "1")
    p.script("b", "for i in $(seq 2000); do echo b $i >&2; done; while ! test -e go; do sleep 0.01; done", "--cwd", str(ws.path))
    p.start("b")
    following = ws.spawn("proc", "logs", "-f", "-n", "100000")
    p.start("a")
    p.until_state("a", "Failed")
    (ws.path / "go").touch()
    lines = ws.finish(following).expect(0).out.splitlines()
    eq([line for line in lines if line.startswith("a ")], [f"a | a {i}" for i in range(1, 2001)] * 2, "the lines of a")
    eq([line for line in lines if line.startswith("b ")], [f"b ! b {i}" for i in range(1, 2001)], "the lines of b")


# -- where one stands --------------------------------------------------------------------------------------------------

@test("a process runs where it was created; its directory is kept relative to the root and moves with the workspace")
def _(ws):
    sub = ws.path / "front end"
    sub.mkdir()
    say = ("sh", "-c", "pwd; echo \"$PWD\" >&2")
    ws.tasuki("proc", "create", "here", "--", *say, cwd=sub).expect(0)
    ws.tasuki("proc", "create", "root", "--", *say).expect(0)
    ws.tasuki("proc", "create", "named", "--cwd", "..", "--", *say, cwd=sub).expect(0)
    ws.tasuki("proc", "template", "create", "talk", "--", *say).expect(0)
    ws.tasuki("proc", "template", "use", "talk", "used", cwd=sub).expect(0)
    with contextlib.closing(sqlite3.connect(ws.path / ".aiflow/state.db")) as db:
        rows = dict(db.execute("SELECT id, cwd FROM process").fetchall())
    eq((rows["here"], rows["root"]), ("front end", None), "what is kept")
    moved = ws.path.parent / "moved"
    ws.path.rename(moved)
    ws.tasuki("proc", "start", "--all", "--no-wait", cwd=moved).expect(0)
    ws.tasuki("proc", "wait", "here", cwd=moved).expect(0)
    places = {}
    for id in ("here", "root", "named", "used"):
        ws.tasuki("proc", "wait", id, cwd=moved).expect(0)
        places[id] = ws.tasuki("proc", "logs", id, "--stdout", cwd=moved).expect(0).out.strip()
    moved.rename(ws.path)
    eq(places, {"here": f"{moved}/front end", "root": str(moved), "named": str(moved), "used": f"{moved}/front end"}, "where they ran")


main(__name__)
