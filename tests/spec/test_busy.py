"""A process hangs while it holds a lock of the workspace: a command waits for it once, and names it."""

import fcntl
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import Agent  # noqa: E402
from flows import spawn_flow  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from harness.processes import open_files_of  # noqa: E402


def keep(ws, name, kind=fcntl.F_WRLCK, length=1):
    """A process that hangs with a lock on an open file (length 0: on the whole file), of the same kind as tasuki's locks."""
    path, up = ws.path / ".aiflow" / name, ws.base / "kept"
    up.unlink(missing_ok=True)
    code = f"import fcntl, struct, time; f = open({str(path)!r}, 'a+'); " \
           f"fcntl.fcntl(f, fcntl.F_OFD_SETLK, struct.pack('hhqqi', {int(kind)}, 0, 0, {length}, 0)); open({str(up)!r}, 'w').close(); time.sleep(1000)"
    proc = ws.spawn_command([sys.executable, "-c", code])
    ws.until(up.exists, f"{name} is kept")
    return proc


def is_blamed(proc, error):
    eq(error["context"]["pid"], str(proc.pid), "the process that is named")
    assert f"ps -p {proc.pid}" in error["next"], error


def let_go(proc):
    proc.kill()
    proc.wait()


@test("the lock of the event trail: an acquire names the process that holds it, although the kernel names none; a reader delays nobody", slow=True)
def _(ws):
    ws.tasuki("lock", "acquire", "name", "a", "--json").expect(0)
    for length in (1, 0):
        proc = keep(ws, "events.lock", length=length)
        is_blamed(proc, ws.tasuki("lock", "acquire", "name", "b", "--json").expect(3, "ENVIRONMENT").error)
        let_go(proc)
    keep(ws, "events.lock", fcntl.F_RDLCK)
    ws.tasuki("lock", "acquire", "name", "b", "--json").expect(0)


@test("a command with many events waits for the lock of the trail once", slow=True)
def _(ws):
    ws.tasuki("events").expect(0)
    proc = keep(ws, "events.lock")
    names = [f"t{i}" for i in range(20)]
    run = spawn_flow(ws, f"flow: {' >> '.join(names)}\ntasks: {{{', '.join(name + ': sleep 0.5' for name in names)}}}\n")
    eq(run.wait(90), 0, "the run, at its end")  # each time that it wrote events, it waited for 10 s
    let_go(proc)


@test("the guard of processes and the lock of requests: a command waits for it once, and names the process that keeps it", slow=True)
def _(ws):
    ws.tasuki("proc", "create", "web", "--", "sleep", "1000").expect(0)
    ws.tasuki("proc", "create", "up", "--start", "--", "sleep", "1000").expect(0)
    ws.tasuki("request", "add", "x", "--id", "RQ-1", "--", "true").expect(0)
    proc = keep(ws, "processes/.guard", length=0)
    # An update tried 51 times, for 10 s each.
    running = [(words[1], ws.spawn("--json", "proc", *words)) for words in (["update", "web", "--env", "A=1"], ["start", "web"], ["stop", "up"])]
    for id, command in running:
        error = ws.finish(command).expect(4, "CONFLICT").error
        is_blamed(proc, error)
        eq(error["context"]["id"], id, "which process is meant")
    let_go(proc)
    ws.tasuki("proc", "stop", "up").expect(0)
    proc = keep(ws, "requests.lock")
    is_blamed(proc, ws.tasuki("--json", "request", "edit", "RQ-1", "--title", "y").expect(4, "CONFLICT").error)


@test("the lock of pending runs: a command waits for it once, and names the process that keeps it; a runner ends all the same", slow=True)
def _(ws):
    (ws.path / ".aiflow/after").mkdir()
    (ws.path / ".aiflow/flows").mkdir(exist_ok=True)
    (ws.path / ".aiflow/flows/nightly.yaml").write_text("tasks: {a: 'until [ -e go ]; do sleep 0.01; done'}\n")
    run = ws.spawn("run", "nightly")
    proc = keep(ws, "after/.guard")
    ws.until(lambda: "RUNNING" in ws.tasuki("runs", "list").out, "the run")
    is_blamed(proc, ws.tasuki("--json", "run", "nightly", "--on-conflict", "after", timeout=60).expect(4, "CONFLICT").error)
    (ws.path / "go").touch()
    eq(run.wait(90), 0, "the run, at its end")


@test("a server for an agent starts although another process keeps the agent's file", slow=True)
def _(ws):
    env = {"TASUKI_INSTANCE_ID": "me"}
    for is_kept in (False, True):
        agent = Agent(ws, env=env)
        assert agent.call("get_status"), "an answer"
        agent.proc.kill()
        agent.proc.wait()
        for path in (ws.path / ".aiflow/mcp").glob("serve*"):
            keep(ws, f"mcp/{path.name}", length=0) if not is_kept else None


@test("a request that somebody else removes meanwhile is not found")
def _(ws):
    ws.tasuki("request", "add", "x", "--id", "RQ-1", "--", "true").expect(0)
    proc = keep(ws, "requests.lock")
    remove = ws.spawn("--json", "request", "rm", "RQ-1")
    guard = str(ws.path.resolve() / ".aiflow/requests.lock")
    ws.until(lambda: guard in open_files_of(remove.pid), "it waits")
    (ws.path / ".aiflow/requests/RQ-1.yaml").unlink()
    let_go(proc)
    ws.finish(remove).expect(5, "REQUEST_NOT_FOUND")


main(__name__)
