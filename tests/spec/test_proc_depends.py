"""Dependencies: what others wait for is started first, and who can wait no longer is told at once, with the reason."""

import json
import sqlite3

from harness.harness import eq, main, test
from harness.processes import Processes
from common import check_error

READY = ("--ready", "log:^ready$")


def shell(p, id, text, *options):
    p.script(id, text, "--cwd", str(p.ws.path), *options)


def when(file, then):
    """A script that does `then` when the file is there."""
    return f"while ! test -e {file}; do sleep 0.005; done; {then}"


def needs(**conditions):
    return [word for id, condition in conditions.items() for word in ("--depends-on", f"{id}={condition}")]


def starting(p, *ids):
    """`proc start` in the background."""
    return p.ws.spawn("--json", "proc", "start", *ids)


def touch(ws, name):
    (ws.path / name).touch()


def lines(ws, name):
    path = ws.path / name
    return path.read_text().split() if path.exists() else []


def state(p, id):
    return p.status(id)["state_name"]


def until_state_of_the_first(p, id, name):
    """The dependency was started by the command that waits for it now."""
    p.ws.until(lambda: state(p, id) == name, f"{id} is {name}")


def database(ws):
    return sqlite3.connect(ws.path / ".aiflow" / "state.db", timeout=60)


# -- D1: order ---------------------------------------------------------------------------------------------------------

@test("a dependant is started only when the other is ready, and the other is started for it")
def _(ws):
    p = Processes(ws)
    shell(p, "db", when("go", "echo ready; exec sleep 1000"), *READY)
    shell(p, "web", "test -e go && echo after > seen || echo before > seen; exec sleep 1000", *needs(db="ready"))
    start = starting(p, "web")
    until_state_of_the_first(p, "db", "Running")
    ws.until_file(p.dir("db") / "phase")
    eq(state(p, "web"), "NotStarted", "the dependant's state while the other is not ready")
    assert start.poll() is None
    touch(ws, "go")
    eq(ws.finish(start).expect(0).json["state_name"], "Running", "the dependant's state")
    eq(ws.until_file("seen").strip(), "after", "when it was started")
    p.call("stop", "--all").expect(0)


@test("started: the dependant does not wait for ready")
def _(ws):
    p = Processes(ws)
    shell(p, "db", "exec sleep 1000", "--ready", "log:never")
    shell(p, "web", "exec sleep 1000", *needs(db="started"))
    eq(p.start("web")["state_name"], "Running", "the dependant's state")
    eq(p.status("db")["phase"], "starting", "the other's phase")
    p.call("stop", "--all").expect(0)


@test("completed: the dependant waits for exit code 0, and what has completed is not run again")
def _(ws):
    p = Processes(ws)
    shell(p, "migrate", "echo $$ >> runs; " + when("go", "touch migrated"))
    shell(p, "web", "test -e migrated && echo after > seen; exec sleep 1000", *needs(migrate="completed"))
    start = starting(p, "web")
    until_state_of_the_first(p, "migrate", "Running")
    eq(state(p, "web"), "NotStarted", "the dependant's state")
    touch(ws, "go")
    ws.finish(start).expect(0)
    eq(ws.until_file("seen").strip(), "after", "when it was started")
    p.stop("web")
    p.start("web")
    eq(len(lines(ws, "runs")), 1, "how often the job ran")
    p.stop("web")


@test("without a ready probe, running is ready; what runs already is left alone")
def _(ws):
    p = Processes(ws)
    pid = p.run("db")["pid"]
    p.create("web", ("sleep", "1000"), *needs(db="ready"))
    p.start("web")
    eq((p.status("db")["pid"], p.status("db")["run"]), (pid, 1), "pid and run of what ran before")
    p.call("stop", "--all").expect(0)


@test("a whole graph comes up in its order, each process once")
def _(ws):
    p = Processes(ws)
    mark = 'echo "$TASUKI_PROCESS_ID" >> order; echo ready; exec sleep 1000'
    graph = {"top": ("a", "b"), "a": ("base",), "b": ("base",), "base": (), "lone": ()}
    for id, others in graph.items():
        shell(p, id, mark, *READY, *needs(**{other: "ready" for other in others}))
    result = p.call("start", "--all").expect(0).json
    eq({one["id"]: one["state_name"] for one in result["processes"]}, {id: "Running" for id in graph}, "the states")
    ws.until(lambda: len(lines(ws, "order")) == len(graph), "all have written")
    order = lines(ws, "order")
    for id, others in graph.items():
        for other in others:
            assert order.index(other) < order.index(id), order
    p.call("stop", "--all").expect(0)


@test("two who start at the same time what depends on one process start that one once")
def _(ws):
    p = Processes(ws)
    shell(p, "db", "echo $$ >> runs; " + when("go", "echo ready; exec sleep 1000"), *READY)
    names = [f"web{i}" for i in range(6)]
    for id in names:
        p.create(id, ("sleep", "1000"), *needs(db="ready"))
    starts = [starting(p, id) for id in names]
    until_state_of_the_first(p, "db", "Running")
    touch(ws, "go")
    for start in starts:
        eq(ws.finish(start).expect(0).json["state_name"], "Running", "the state")
    eq(len(lines(ws, "runs")), 1, "how often the shared one was started")
    p.call("stop", "--all").expect(0)


@test("a dependency that fails and is restarted by its policy is waited for")
def _(ws):
    p = Processes(ws)
    shell(p, "db", "echo $$ >> runs; test $(wc -l < runs) -lt 3 && exit 1; echo ready; exec sleep 1000", *READY, "--restart",
          "on-failure", "--backoff", "1ms")
    p.create("web", ("sleep", "1000"), *needs(db="ready"))
    eq(p.start("web")["state_name"], "Running", "the dependant's state")
    eq(p.status("db")["run"], 3, "the run of the dependency")
    p.call("stop", "--all").expect(0)


@test("a process that is running already is refused, and nothing is started for its sake")
def _(ws):
    p = Processes(ws)
    p.create("db")
    p.create("web", ("sleep", "1000"), *needs(db="started"))
    p.call("start", "web", "--no-deps").expect(0)
    check_error(p.call("start", "web"), 4, "ProcessAlreadyRunning")
    eq(state(p, "db"), "NotStarted", "the dependency's state")
    p.stop("web")


# -- D2: when it cannot be -----------------------------------------------------------------------------------------------

def fails(ws, start, id, message):
    """The start has failed with this message; returns the error."""
    error = check_error(ws.finish(start), 7, "ProcessStartFailed", "PROCESS")
    eq(error["message"], f"Failed to start process '{id}': {message}", "message")
    return error


@test("the other fails before it is ready: the dependant fails at once, with the exit code")
def _(ws):
    p = Processes(ws)
    shell(p, "db", when("go", "exit 3"), *READY)
    p.create("web", ("sleep", "1000"), *needs(db="ready"))
    start = starting(p, "web")
    until_state_of_the_first(p, "db", "Running")
    touch(ws, "go")
    error = fails(ws, start, "web", "it needs 'db' to be ready (web -> db), but 'db' has ended: "
                                    "Process exited with code 3")
    eq(error["next"], ["tasuki proc logs db"], "the next command")
    eq(state(p, "web"), "NotStarted", "the dependant's state")


@test("the other fails although exit code 0 was needed: the dependant fails")
def _(ws):
    p = Processes(ws)
    shell(p, "migrate", "exit 5")
    p.create("web", ("sleep", "1000"), *needs(migrate="completed"))
    fails(ws, starting(p, "web"), "web", "it needs 'migrate' to be completed (web -> migrate), but 'migrate' has ended: "
                                         "Process exited with code 5")


@test("the other ends with 0 and never was ready: the dependant fails")
def _(ws):
    p = Processes(ws)
    shell(p, "db", "exit 0", "--ready", "log:never")
    p.create("web", ("sleep", "1000"), *needs(db="ready"))
    fails(ws, starting(p, "web"), "web", "it needs 'db' to be ready (web -> db), but 'db' ended with exit code 0 "
                                         "and never was ready")


@test("the other is not ready in time: the dependant fails with what the probe saw")
def _(ws):
    p = Processes(ws)
    p.create("db", ("sleep", "1000"), "--ready", "exec:false", "--ready-timeout", "100ms")
    p.create("web", ("sleep", "1000"), *needs(db="ready"))
    fails(ws, starting(p, "web"), "web", "it needs 'db' to be ready (web -> db), but 'db' did not become ready within "
                                         "100 ms: exit 1")
    eq(state(p, "db"), "Running", "the dependency is left as it is")
    p.stop("db")


@test("the other is stopped meanwhile: the dependant fails at once")
def _(ws):
    p = Processes(ws)
    p.create("db", ("sleep", "1000"), "--ready", "log:never")
    p.create("web", ("sleep", "1000"), *needs(db="ready"))
    start = starting(p, "web")
    until_state_of_the_first(p, "db", "Running")
    p.stop("db")
    fails(ws, start, "web", "it needs 'db' to be ready (web -> db), but 'db' was stopped")


@test("the other is removed meanwhile: the dependant fails at once")
def _(ws):
    p = Processes(ws)
    p.create("db", ("sleep", "1000"), "--ready", "log:never")
    p.create("web", ("sleep", "1000"), *needs(db="ready"))
    start = starting(p, "web")
    until_state_of_the_first(p, "db", "Running")
    p.call("remove", "db", "--force").expect(0)
    error = check_error(ws.finish(start), 7, "ProcessStartFailed")
    eq(error["context"]["other"], "db", "who is to blame")
    assert error["message"].endswith(("but there is no such process", "but 'db' was stopped")), error


@test("the other gives up after its retries: the dependant fails then, and not before")
def _(ws):
    p = Processes(ws)
    shell(p, "db", "echo $$ >> runs; exit 4", *READY, "--restart", "on-failure", "--max-retries", "2", "--backoff", "1ms")
    p.create("web", ("sleep", "1000"), *needs(db="ready"))
    fails(ws, starting(p, "web"), "web", "it needs 'db' to be ready (web -> db), but 'db' has ended: "
                                         "Process exited with code 4")
    eq(len(lines(ws, "runs")), 3, "how often it was tried")


@test("the other cannot be executed: the dependant fails with that reason")
def _(ws):
    p = Processes(ws)
    p.create("db", ("there-is-no-such-command",))
    p.create("web", ("sleep", "1000"), *needs(db="started"))
    error = check_error(p.call("start", "web"), 7, "ProcessStartFailed")
    assert "it needs 'db' to be started (web -> db), but 'db' could not be started: there-is-no-such-command" \
        in error["message"], error


@test("the other does not exist: the dependant fails, and can be started without it")
def _(ws):
    p = Processes(ws)
    p.create("web", ("sleep", "1000"), *needs(db="ready"))
    error = fails(ws, starting(p, "web"), "web", "it needs 'db' to be ready (web -> db), but there is no such process")
    eq(error["next"], ["tasuki proc start web --no-deps"], "the next command")
    ws.tasuki("--json", *error["next"][0].split()[1:]).expect(0)
    p.stop("web")


@test("a failure goes along the whole chain, and every message shows the way to whoever is to blame")
def _(ws):
    p = Processes(ws)
    shell(p, "db", "exit 3", *READY)
    p.create("api", ("sleep", "1000"), *needs(db="ready"))
    p.create("web", ("sleep", "1000"), *needs(api="started"))
    p.create("other", ("sleep", "1000"))
    result = p.call("start", "web", "api", "other").expect(7).json
    errors = {one["id"]: one["error"]["message"] for one in result["errors"]}
    why = "but 'db' has ended: Process exited with code 3"
    eq(errors, {"web": f"Failed to start process 'web': it needs 'db' to be ready (web -> api -> db), {why}",
                "api": f"Failed to start process 'api': it needs 'db' to be ready (api -> db), {why}"}, "the errors")
    eq({id: one["state_name"] for id, one in p.list().items()},
       {"web": "NotStarted", "api": "NotStarted", "db": "Failed", "other": "Running"}, "the states")
    p.stop("other")


@test("the reason is told in Japanese and Chinese as well")
def _(ws):
    p = Processes(ws)
    p.create("web", ("sleep", "1000"), *needs(db="ready"))
    for lang, word in (("ja", "登録されていません"), ("zh", "没有这个进程")):
        error = check_error(p.call("start", "web", "--lang", lang), 7, "ProcessStartFailed")
        assert word in error["message"] and "web -> db" in error["message"], error


# -- D3: cycles --------------------------------------------------------------------------------------------------------

@test("a cycle is refused when it would be registered, with the way around")
def _(ws):
    p = Processes(ws)
    p.create("a", ("true",), *needs(b="started"))
    p.create("b", ("true",), *needs(c="started"))
    result = p.call("create", "c", *needs(a="ready"), "--", "true")
    error = check_error(result, 2, "INVALID_INPUT")
    eq(error["message"], "depends_on: the processes would wait for each other: c -> a -> b -> c", "message")
    check_error(p.call("create", "self", *needs(self="started"), "--", "true"), 2, "INVALID_INPUT")
    p.create("c", ("true",))
    check_error(p.call("update", "c", *needs(b="started")), 2, "INVALID_INPUT")
    eq(p.status("c")["depends_on"], {}, "what was registered")


@test("a cycle that is registered all the same is refused before anything starts")
def _(ws):
    p = Processes(ws)
    p.create("first", ("sleep", "1000"))
    p.create("a", ("sleep", "1000"), *needs(b="started", first="started"))
    p.create("b", ("sleep", "1000"))
    with database(ws) as db:  # two who register at the same instant could do that
        settings = json.loads(db.execute("SELECT settings FROM process WHERE id = 'b'").fetchone()[0])
        settings["depends_on"] = {"a": "started"}
        db.execute("UPDATE process SET settings = ? WHERE id = 'b'", (json.dumps(settings),))
    db.close()
    error = check_error(p.call("start", "--all"), 2, "INVALID_INPUT")
    eq(error["message"], "depends_on: the processes would wait for each other: a -> b -> a", "message")
    eq({one["state_name"] for one in p.list().values()}, {"NotStarted"}, "the states")
    p.nothing_runs()


main(__name__)
