"""Spec 2 and 9: a command that only looks writes nothing and syncs nothing, and still sees every change at once."""

import os
import pathlib
import re
import signal
import sqlite3
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import Agent  # noqa: E402
from common import sleeper, strace_of  # noqa: E402
from flows import run_flow, write_flow  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from http_common import Server, register  # noqa: E402

LOOKS = (("proc", "list"), ("proc", "status", "web"), ("proc", "status", "done"), ("proc", "logs", "web"), ("own", "list"),
         ("own", "show", "wf"), ("own", "check", "wf", "--instance", "me"), ("lock", "list"), ("lock", "check", "name", "a"), ("status",),
         ("runs", "list"), ("request", "list"), ("queue", "next"), ("queue", "status"), ("flow", "list"), ("events", "-n", "3"),
         ("proc", "export"), ("proc", "template", "list"))
TOOLS = (("get_process_status", {"id": "web"}), ("list_processes", {}), ("ul_workflow_check", {"ulTaskId": "mine"}),
         ("ul_workflow_list", {}), ("lock_check", {"kind": "name", "id": "a"}), ("lock_list", {}), ("get_status", {}), ("run_list", {}))
WRITES = ("write,pwrite64,writev,pwritev,pwritev2,fsync,fdatasync,sync_file_range,syncfs,msync,truncate,ftruncate,fallocate,mkdir,mkdirat,"
          "unlink,unlinkat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,chmod,fchmod,fchmodat,chown,fchown,fchownat,utimensat")


def fill(ws):
    """Something of everything: a process that runs and one that has ended, a lock, an owner, a run, a request."""
    ws.tasuki("proc", "create", "web", "--start", "--", "sleep", "1000").expect(0)
    ws.at_close(lambda: ws.tasuki("proc", "stop", "--all"))
    ws.tasuki("proc", "create", "done", "--start", "--", "true").expect(0)
    ws.tasuki("proc", "wait", "done").expect(0)
    ws.tasuki("lock", "acquire", "name", "a", "--pid", sleeper(ws).pid).expect(0)
    ws.tasuki("own", "claim", "wf", "--instance", "me").expect(0)
    ws.tasuki("request", "add", "t", "--", "true").expect(0)
    run_flow(ws, "tasks: {a: 'true'}\n")


def stamps(ws):
    """What every file and folder of the workspace looks like; a shared mapping that is written to changes its file's time."""
    found = {}
    for path in [ws.path, *ws.path.rglob("*")]:
        st = path.lstat()
        found[str(path.relative_to(ws.path))] = (st.st_ino, st.st_mode, st.st_size, st.st_mtime_ns, st.st_ctime_ns)
    return found


def changed(before, after):
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def need_strace(ws):
    return [strace_of(ws), "-f", "-y", "-qq", "-s", "8", "-e", f"trace={WRITES}"]


def writes_of(text, ws):
    """The traced calls that are not output: pipes, the terminal, /dev/null."""
    outside = re.compile(r"\b(write|writev)\(\d+<(pipe|socket|anon_inode|/dev/)")
    return [line for line in text.splitlines() if "(" in line and not outside.search(line)]


@test("a second look at an unchanged workspace changes no file")
def _(ws):
    fill(ws)
    for words in LOOKS:
        assert ws.tasuki(*words, "--json").code in (0, 4), words
        before = stamps(ws)
        ws.tasuki(*words, "--json")
        eq(changed(before, stamps(ws)), [], " ".join(words))


@test("a second look at an unchanged workspace makes 0 writes and 0 syncs", slow=True)
def _(ws):
    strace = need_strace(ws)
    fill(ws)
    trace = ws.base / "trace"
    for words in LOOKS:
        ws.tasuki(*words)
        ws.run([*strace, "-o", str(trace), str(ws.binary), *words])
        eq(writes_of(trace.read_text(), ws), [], " ".join(words))


@test("the same for an agent's calls: a look makes 0 writes and 0 syncs")
def _(ws):
    strace = need_strace(ws)
    fill(ws)
    trace = ws.base / "trace"
    agent = Agent(ws, command=[*strace, "-o", str(trace), str(ws.binary), "mcp", "--tools", "all"])
    agent.call("ul_workflow_claim", ulTaskId="mine")
    for name, arguments in TOOLS:
        agent.call(name, **arguments)
        before, seen = stamps(ws), len(trace.read_text())
        for _ in range(5):
            agent.call(name, **arguments)
        eq(writes_of(trace.read_text()[seen:], ws), [], name)
        eq(changed(before, stamps(ws)), [], name)


@test("stop --all looks at the machine's processes as often for 9 processes that have ended as for 3")
def _(ws):
    strace = need_strace(ws)
    strace[strace.index(f"trace={WRITES}")] = "trace=openat"
    trace, looks = ws.base / "trace", []
    for count in (3, 9):
        for i in range(count):
            if ws.tasuki("proc", "status", f"p{i}").code != 0:
                ws.tasuki("proc", "create", f"p{i}", "--start", "--", "true").expect(0)
            ws.tasuki("proc", "wait", f"p{i}").expect(0)
        ws.run([*strace, "-o", str(trace), str(ws.binary), "proc", "stop", "--all"]).expect(0)
        looks.append(len(re.findall(r'openat\(AT_FDCWD[^,]*, "/proc",', trace.read_text())))
    assert looks[0] == looks[1] > 0, looks


@test("an agent's acquisition opens the guard once, and the agent's process not again; so does its release")
def _(ws):
    strace = need_strace(ws)
    strace[strace.index(f"trace={WRITES}")] = "trace=openat"
    trace = ws.base / "trace"
    agent = Agent(ws, command=[*strace, "-s", "100", "-o", str(trace), str(ws.binary), "mcp", "--tools", "all"])
    costs = {"lock_acquire": [], "lock_release": []}
    for tool in ("lock_acquire", "lock_release") * 4:
        seen = len(trace.read_text())
        agent.call(tool, kind="name", id="a")
        opened = re.findall(r'openat\([^"]*"([^"]*)"', trace.read_text()[seen:])
        costs[tool].append((opened.count("name.a"), len([path for path in opened if path.endswith("/stat")])))
    for tool, found in costs.items():  # the first opens what the others keep open; one may meet the server's own look
        eq(min(found[1:]), (1, 0), f"{tool}: the guard's and the process's file were opened")
    agent.call("lock_acquire", kind="name", id="a")
    text = agent.call("lock_acquire", kind="name", id="a")["content"][0]["text"]
    assert "You hold name a already" in text, text


@test("each process of a list costs the same few system calls, and its files are opened once", slow=True)
def _(ws):
    strace = need_strace(ws)
    strace[strace.index(f"trace={WRITES}")] = "trace=!mmap,munmap,brk,mprotect,madvise,futex"
    trace, calls = ws.base / "trace", []
    ws.at_close(lambda: ws.tasuki("proc", "stop", "--all"))
    for first, last in ((0, 4), (4, 14)):
        names = [f"p{i}" for i in range(first, last)]
        for name in names:
            ws.tasuki("proc", "create", name, "--", "sleep", "1000").expect(0)
        ws.tasuki("proc", "start", *names).expect(0)
        ws.tasuki("proc", "list").expect(0)
        ws.run([*strace, "-s", "100", "-o", str(trace), str(ws.binary), "proc", "list", "--json"]).expect(0)
        text = trace.read_text()
        calls.append(len(text.splitlines()))
    each = (calls[1] - calls[0]) / 10
    assert each <= 15, f"{each} calls for each process"
    opened = re.findall(r'openat\(.*?, "((?:[^"]*/)?(?:stat|status.json|want|history))",', text)
    for record in ws.tasuki("proc", "list", "--json").json["processes"]:
        eq(opened.count(f"/proc/{record['pid']}/stat"), 1, record["id"])
    eq((opened.count("status.json"), opened.count("want"), opened.count("history")), (14, 0, 0), "files of processes")
    ws.run([*strace, "-s", "100", "-o", str(trace), str(ws.binary), "proc", "status", "p0", "--json"]).expect(0)
    opened = re.findall(r'openat\(\d+<[^>]*/p0>, "([^"]*)",', trace.read_text())
    eq(sorted(opened), ["holder.lock", "status.json"], "files of one that was started once")


@test("the events of many short tasks are appended together, at most one append in 20 ms", slow=True)
def _(ws):
    strace = need_strace(ws)
    strace[strace.index("-f")] = "-q"  # the runner, not its tasks
    flow = write_flow(ws, "limits: {max_steps: 1000}\ntasks:\n" + "".join(f"  t{i}: 'true'\n" for i in range(200)))
    begun = time.monotonic()
    ws.run([*strace, "-o", str(ws.base / "trace"), str(ws.binary), "run", flow, "-j", "1"]).expect(0)
    periods = (time.monotonic() - begun) * 1000 / 20
    appends = re.findall(r"write\(\d+<[^>]*/events.ndjson>", (ws.base / "trace").read_text())
    assert 1 < len(appends) <= periods + 3, (len(appends), periods)
    eq(len([e for e in ws.events() if e["type"] in ("task.started", "task.ended")]), 400, "events of tasks")


@test("a removal looks at the environment of the machine's processes, and not at their sessions")
def _(ws):
    strace = need_strace(ws)
    strace[strace.index(f"trace={WRITES}")] = "trace=openat"
    ws.tasuki("proc", "create", "p", "--start", "--", "true").expect(0)
    ws.tasuki("proc", "wait", "p").expect(0)
    ws.run([*strace, "-o", str(ws.base / "trace"), str(ws.binary), "proc", "remove", "p"]).expect(0)
    opened = re.findall(r'openat\(\d+</proc/\d+>, "(\w+)"', (ws.base / "trace").read_text())
    assert 0 < opened.count("environ") >= opened.count("stat"), (opened.count("environ"), opened.count("stat"))


@test("a look that finds an end records it, and the next look writes nothing")
def _(ws):
    fill(ws)
    record = ws.tasuki("proc", "status", "web", "--json").expect(0).json
    os.kill(record["pid"], signal.SIGKILL)
    ws.until(lambda: ws.tasuki("proc", "status", "web", "--json").json["state_name"] == "Failed", "its end is seen")
    eq(len([e for e in ws.events("process.exited") if e["data"]["process_id"] == "web"]), 1, "events")
    before = stamps(ws)
    ws.tasuki("proc", "list").expect(0)
    eq(changed(before, stamps(ws)), [], "the next look")


@test("a server that keeps its connection sees the change of another program at once")
def _(ws):
    fill(ws)
    agent = Agent(ws, "--tools", "all")
    names = lambda: [p["id"] for p in agent.call("list_processes")["structuredContent"]["processes"]]  # noqa: E731
    eq(names(), ["done", "web"], "before")
    ws.tasuki("proc", "create", "more", "--", "true").expect(0)
    eq(names(), ["done", "more", "web"], "after a command")
    with sqlite3.connect(ws.path / ".aiflow/state.db", timeout=60) as db:
        db.execute("DELETE FROM process WHERE id = 'more'")
    db.close()
    eq(names(), ["done", "web"], "after another program's change")
    folder = ws.path / ".aiflow"
    for path in list(folder.glob("state.db*")):
        path.rename(ws.base / path.name)
    eq(names(), [], "in a new database")
    for path in folder.glob("state.db*"):
        path.unlink()
    for path in ws.base.glob("state.db*"):
        path.rename(folder / path.name)
    eq(names(), ["done", "web"], "in the old one again")


@test("a client of the server that calls often costs no write for its lease")
def _(ws):
    server = Server(ws)
    one = register(server)
    headers = {"Tasuki-Instance": one["instance"], "Tasuki-Secret": one["secret"]}
    ask = lambda: server.ask("GET", "/api/locks/name/a", headers=headers).expect(200)  # noqa: E731
    ask()
    before = stamps(ws)
    for _ in range(20):
        ask()
    eq(changed(before, stamps(ws)), [], "20 calls")
    server.stop()


@test("what is only in the WAL is there after a kill, for a reader and for a writer")
def _(ws):
    ws.tasuki("proc", "create", "a", "--", "true").expect(0)
    folder = ws.path / ".aiflow"
    assert (folder / "state.db-wal").stat().st_size > 0, "the WAL is empty"
    for path in folder.glob("state.db-shm"):
        path.write_bytes(os.urandom(path.stat().st_size))  # as after a power failure
    eq([p["id"] for p in ws.tasuki("proc", "list", "--json").expect(0).json["processes"]], ["a"], "a reader")
    ws.tasuki("proc", "create", "b", "--", "true").expect(0)
    eq([p["id"] for p in ws.tasuki("proc", "list", "--json").expect(0).json["processes"]], ["a", "b"], "a writer")


@test("the WAL begins anew before it gets long")
def _(ws):
    for number in range(40):
        ws.tasuki("proc", "create", f"p{number}", "--", "true").expect(0)
    size = (ws.path / ".aiflow/state.db-wal").stat().st_size
    assert size < 120 * 4120, f"{size} bytes"


main(__name__)
