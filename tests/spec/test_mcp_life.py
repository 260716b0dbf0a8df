"""Spec 8 and 4, MCP: several calls at once, whose tools they are, and what stays when the agent goes."""

import json
import os
import pathlib
import random
import select
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import Agent  # noqa: E402
from common import instance_of, sleeper  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from harness.workspace import children_of  # noqa: E402

LOCK = dict(kind="name", id="a")
# A program that is an agent of its own: it starts its server and passes on what it is told.
WRAPPER = ("import subprocess, sys; p = subprocess.Popen(sys.argv[1:]); sys.exit(p.wait())")


def own_agent(ws, *args, **options):
    """A connection whose agent is not this test but a program that can be killed."""
    return Agent(ws, command=[sys.executable, "-c", WRAPPER, ws.binary, "mcp", *args], **options)


def holder_pid(ws, id="a"):
    return (ws.tasuki("lock", "check", "name", id, "--json").json.get("holder") or {}).get("pid")


def waiters(ws, guard):
    """How many stand in line for a lock: each has a byte of its guard file locked, far beyond all others."""
    inode = f":{(ws.path / '.aiflow' / 'locks' / '.guard' / guard).stat().st_ino} "
    lines = [line for line in pathlib.Path("/proc/locks").read_text().splitlines() if inode in line and "->" not in line]
    return sum(int(line.split()[-2]) >= 2**62 for line in lines)


# -- several at once ----------------------------------------------------------------------------------------

@test("a call that waits does not keep others waiting, and gets the lock when it is free")
def _(ws):
    first, second = own_agent(ws), Agent(ws)
    first.ok("lock_acquire", **LOCK)
    waiting = [second.begin_call("lock_acquire", wait="45s", **LOCK) for _ in range(40)]
    for _ in range(20):
        second.ok("get_status")
    assert not any(second.has_answer(number) for number in waiting)
    first.ok("lock_release", **LOCK)
    ws.until(lambda: any(second.has_answer(number) for number in waiting), "one of them gets it")


@test("a hundred calls at once are all answered")
def _(ws):
    agent = Agent(ws)
    numbers = [agent.begin_call("create_process", id=f"p{i}", command="true") for i in range(100)]
    for number in numbers:
        assert not agent.answer(number)["result"].get("isError"), agent.answer(number)
    eq(agent.ok("list_processes")["total"], 100, "processes")


@test("however many calls wait, others are served, and one wait too many is refused")
def _(ws):
    holder, agent = own_agent(ws), Agent(ws)
    holder.ok("lock_acquire", **LOCK)
    waiting = [agent.begin_call("lock_acquire", wait="45s", **LOCK) for _ in range(140)]
    agent.ok("get_status")
    refused = [number for number in waiting if agent.has_answer(number)]
    eq(len(refused), 140 - 96, "refusals")
    assert agent.answer(refused[0])["result"]["content"][0]["text"].startswith("NOT YET: 96 "), agent.answer(refused[0])
    eq(agent.ok("lock_acquire", kind="name", id="b")["status"], "acquired", "what does not wait")
    agent.kill()


@test("a flow runs outside of the server: cancelling hits the one that is meant, and the server ends when told to")
def _(ws):
    (ws.path / "f.yaml").write_text("flow: a\ntasks:\n  a: {run: [sleep, '1000']}\n")
    agent = Agent(ws, "--tools", "all")
    status = {}

    def runs():
        status.update((run["run_id"], run["status"]) for run in agent.ok("run_list")["runs"])
        return status
    for count in (1, 2):
        agent.begin_call("flow_run", flow="f.yaml")
        ws.until(lambda: len(runs()) == count, f"run {count}")
    first, second = sorted(status)
    agent.ok("run_cancel", run=first)
    ws.until(lambda: runs()[first] == "CANCELLED", "its end")
    eq(runs()[second], "RUNNING", "the other one")
    agent.proc.send_signal(signal.SIGTERM)
    eq(agent.proc.wait(60), 0, "exit")
    eq(ws.tasuki("runs", "show", second, "--json").json["status"], "RUNNING", "the other one, later")
    ws.tasuki("runs", "cancel", second, "--now").expect(0)
    ws.until(lambda: ws.tasuki("runs", "show", second, "--json").json["status"] == "CANCELLED", "its end")


@test("a run that is gone on with does not move the server to another directory")
def _(ws):
    (ws.path / "sub").mkdir()
    for place in (ws.path, ws.path / "sub"):
        (place / "f.yaml").write_text("flow: a\ntasks:\n  a: {run: ['false']}\n")
    run = ws.tasuki("run", "f.yaml", "--detach", "--json", cwd=ws.path / "sub").expect(0).json["run_id"]
    ws.tasuki("wait", "run", run)
    agent = Agent(ws, "--tools", "all")
    before = os.readlink(f"/proc/{agent.proc.pid}/cwd")
    agent.call("run_resume", run=run)
    eq(os.readlink(f"/proc/{agent.proc.pid}/cwd"), before, "its directory")


@test("a cancelled wait ends without an answer and without the lock")
def _(ws):
    holder, agent = own_agent(ws), Agent(ws)
    holder.ok("lock_acquire", **LOCK)
    number = agent.begin_call("lock_acquire", wait="45s", **LOCK)
    ws.until(lambda: waiters(ws, "name.a") == 1, "it waits in line")
    agent.notify("notifications/cancelled", {"requestId": number})
    ws.until(lambda: waiters(ws, "name.a") == 0, "it has left the line")
    holder.ok("lock_release", **LOCK)
    own_agent(ws).ok("lock_acquire", **LOCK)
    assert not agent.has_answer(number), agent.answer(number)
    eq(agent.request("ping")["result"], {}, "ping")


@test("a cancelled wait_for ends without an answer", slow=True)
def _(ws):
    agent = Agent(ws)
    agent.ok("create_process", id="p", command="sleep", args=["1000"], start=True)
    number = agent.begin_call("wait_for", kind="process", id="p")
    agent.notify("notifications/cancelled", {"requestId": number})
    again = agent.begin_call("wait_for", kind="process", id="p", timeout="3s")
    eq(agent.answer(again)["result"]["isError"], True, "one that is not cancelled waits its time out")
    assert not agent.has_answer(number), agent.answer(number)
    agent.ok("stop_process", id="p")
    eq(agent.request("ping")["result"], {}, "ping")
    assert not agent.has_answer(number), agent.answer(number)


@test("a long call reports progress if it was asked to, growing, and only until its answer", slow=True)
def _(ws):
    agent = Agent(ws)
    agent.ok("create_process", id="p", command="sleep", args=["1000"], start=True)
    number = agent.begin("tools/call", {"name": "wait_for", "arguments": {"kind": "process", "id": "p"},
                                        "_meta": {"progressToken": "t"}})
    first = agent.until(lambda n: n["method"] == "notifications/progress", "progress")
    eq(first["params"]["progressToken"], "t", "token")
    agent.ok("stop_process", id="p")
    agent.answer(number)
    values = [n["params"]["progress"] for n in agent.notifications if n["method"] == "notifications/progress"]
    eq(values, sorted(set(values)), "progress grows")


@test("waiting that runs out says so, and can be repeated", slow=True)
def _(ws):
    agent = Agent(ws)
    agent.ok("create_process", id="p", command="sleep", args=["1000"], start=True)
    text, error = agent.refused("wait_for", kind="process", id="p", timeout="700ms")
    assert text.startswith("NOT YET: ") and "700 ms" in text, text
    agent.ok("stop_process", id="p")


# -- whose tools --------------------------------------------------------------------------------------------

@test("an agent's tools and its shell commands are one instance")
def _(ws):
    agent = Agent(ws)  # this test is the agent
    agent.ok("lock_acquire", **LOCK)
    eq(holder_pid(ws), os.getpid(), "the holder")
    ws.tasuki("lock", "release", "name", "a", "--json").expect(0)
    ws.tasuki("lock", "acquire", "name", "a").expect(0)
    eq(agent.ok("lock_release", token=ws.read_lock("name", "a")["token"], **LOCK)["existed"], True, "released by a tool")


@test("shells, timeout and package runners between the agent and its server are passed through")
def _(ws):
    runner = ws.path / "npx"
    runner.write_text("import subprocess, sys\nsys.exit(subprocess.call(sys.argv[1:]))\n")
    node = ws.path / "bin" / "node"
    node.parent.mkdir()
    node.symlink_to(sys.executable)
    for prefix in (["sh", "-c", '"$0" "$@"; true'], ["timeout", "100"]):
        agent = Agent(ws, command=[*prefix, ws.binary, "mcp"])
        agent.ok("lock_acquire", **LOCK)
        eq(holder_pid(ws), os.getpid(), f"the holder through {prefix[0]}")
        agent.ok("lock_release", **LOCK)
        agent.close()
    agent = Agent(ws, command=[node, runner, ws.binary, "mcp"])
    agent.ok("lock_acquire", **LOCK)
    eq(holder_pid(ws), os.getpid(), "the holder through npx")


@test("each package runner that starts a server is passed through, by its name or by its script; what only resembles one is the agent", slow=True)
def _(ws):
    place = ws.path / "bin"
    place.mkdir()
    runners = ("npx", "npm", "pnpm", "pnpx", "yarn", "bunx", "uvx", "uv", "pipx")
    scripts = ("npx-cli.js", "npm-cli.js", "npx", "npm", "pnpm.cjs", "yarn.js")
    (place / "scripts").mkdir()
    for name in (*scripts, "run", "server.js", "npx-cli"):
        (place / "scripts" / name).write_text('"$@"\nexit $?\n')
    for name in (*runners, "node", "bun", "npxx", "make"):
        (place / name).symlink_to("/bin/sh")
    cases = [(name, "run", True) for name in runners] + [(name, script, True) for name in ("node", "bun") for script in scripts]
    for name, script, passes in [*cases, ("npxx", "run", False), ("make", "npx-cli.js", False), ("node", "server.js", False), ("node", "npx-cli", False)]:
        agent = Agent(ws, command=[place / name, place / "scripts" / script, ws.binary, "mcp", "--grace", "0s"])
        agent.ok("lock_acquire", **LOCK)
        eq(holder_pid(ws), os.getpid() if passes else agent.proc.pid, f"the holder through {name} {script}")
        agent.ok("lock_release", **LOCK)
        agent.close()


@test("a second server of one process is an instance of its own")
def _(ws):
    first = Agent(ws)
    first.ok("lock_acquire", **LOCK)
    second = Agent(ws)
    text, error = second.refused("lock_acquire", **LOCK)
    eq(error["reason_code"], "LOCK_HELD")
    text, error = second.refused("lock_release", **LOCK)
    eq(error["reason_code"], "LOCK_LOST", "release by the other")
    second.ok("lock_acquire", kind="name", id="b")
    eq(holder_pid(ws, "b"), second.proc.pid, "the second one's holder")
    eq(holder_pid(ws), os.getpid(), "the first one's holder")


@test("a server that is only tried out does not take the agent's place")
def _(ws):
    probe = Agent(ws, initialize=False)
    assert probe.request("server/discover", modern=True)["result"]
    agent = Agent(ws)
    agent.ok("lock_acquire", **LOCK)
    eq(holder_pid(ws), os.getpid(), "the holder")


@test("an instance can be named, by option or environment")
def _(ws):
    for options in ({"args": ("--instance", "me")}, {"env": {"TASUKI_INSTANCE_ID": "me"}}):
        agent = Agent(ws, *options.get("args", ()), "--grace", "0s", env=options.get("env"))
        agent.ok("lock_acquire", **LOCK)
        eq(agent.ok("lock_list")["locks"][0]["holder"]["instance"], "me", "instance")
        ws.tasuki("lock", "release", "name", "a", "--instance", "me").expect(0)
        agent.close()


@test("a name that two servers serve keeps its locks when one of them ends")
def _(ws):
    first, second = Agent(ws, "--instance", "X", "--grace", "0s"), Agent(ws, "--instance", "X")
    second.ok("lock_acquire", **LOCK)
    first.ok("get_status")
    eq(first.close(), 0, "exit")
    eq(ws.tasuki("lock", "check", "name", "a", "--json").json["state"], "held", "the lock")


@test("who delegates work keeps its locks when the delegated agent's server ends")
def _(ws):
    agent = own_agent(ws)
    agent.ok("lock_acquire", **LOCK)
    instance = agent_instance(ws)
    delegated = Agent(ws, "--grace", "0s", env={"TASUKI_INSTANCE_ID": instance})
    delegated.ok("get_status")
    delegated.close()
    eq(agent_instance(ws), instance, "a lock of its tools")
    shell = sleeper(ws)  # an agent that has no server
    instance = instance_of(shell.pid)
    ws.tasuki("lock", "acquire", "name", "b", env={"TASUKI_INSTANCE_ID": instance}).expect(0)
    for _ in range(2):
        delegated = Agent(ws, "--grace", "0s", env={"TASUKI_INSTANCE_ID": instance})
        delegated.ok("get_status")
        delegated.close()
    eq(holder_pid(ws, "b"), shell.pid, "a lock of its shell")


@test("a lock with a short TTL is renewed in time", slow=True)
def _(ws):
    agent = Agent(ws)
    agent.ok("lock_acquire", ttl="9s", **LOCK)
    first = ws.read_lock("name", "a")["expires_at"]
    ws.until(lambda: ws.read_lock("name", "a")["expires_at"] > first, "a renewal")


# -- the end ------------------------------------------------------------------------------------------------

@test("the server ends when its input ends, answers first what was asked, and exits with 0")
def _(ws):
    request = ('{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}\n'
               '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_status"}}\n')
    result = ws.tasuki("mcp", input=request).expect(0)
    eq(sorted(line.split('"id":')[1][0] for line in result.out.splitlines()), ["1", "2"], "the answers")
    eq(ws.tasuki("mcp", input="").expect(0).out, "", "the output")


@test("a call that waits when the server ends is answered: not its time was up, the server ended")
def _(ws):
    holder = sleeper(ws)
    ws.tasuki("lock", "acquire", "name", "a", "--pid", holder.pid).expect(0)
    agent = Agent(ws, "--tools", "all")
    waits = [agent.begin_call("wait_for", kind="lock", id="a"), agent.begin_call("lock_acquire", kind="name", id="a", wait="40s")]
    agent.ok("get_status")
    agent.proc.stdin.close()
    for number in waits:
        result = agent.answer(number)["result"]
        eq((result["isError"], result["structuredContent"]["error"]["reason_code"]), (True, "ENVIRONMENT"), result)
    eq(agent.proc.wait(60), 0, "exit")


@test("a last line without an end is a message, too")
def _(ws):
    result = ws.tasuki("mcp", input='{"jsonrpc":"2.0","id":1,"method":"ping"}').expect(0)
    assert '"id":1' in result.out, result


def ask_much(proc):
    """Asks for much more than a pipe takes."""
    proc.stdin.write('{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}\n')
    proc.stdin.write("".join(f'{{"jsonrpc":"2.0","id":{i},"method":"tools/list"}}\n' for i in range(1, 31)))
    proc.stdin.flush()


@test("it ends although nobody reads its output: at the end of its input, when told to, and with its parent", slow=True)
def _(ws):
    for end in (lambda proc: proc.stdin.close(), lambda proc: proc.terminate(), lambda proc: proc.send_signal(signal.SIGHUP)):
        proc = ws.spawn("mcp", stdin=subprocess.PIPE)
        ask_much(proc)
        ws.until(lambda: select.select([proc.stdout], [], [], 0)[0], "it writes")
        end(proc)
        eq(proc.wait(60), 0, "exit")
    reader, writer = os.pipe()
    parent = ws.spawn_command([sys.executable, "-c", WRAPPER, ws.binary, "mcp"], stdin=subprocess.PIPE, stdout=writer)
    server = ws.until(lambda: children_of(parent.pid), "the server")[0]
    ask_much(parent)
    ws.until(lambda: select.select([reader], [], [], 0)[0], "it writes")
    held = os.dup(parent.stdin.fileno())
    parent.kill()
    parent.wait()
    ws.until(lambda: not ws.alive(server), "the server ends")
    for fd in (reader, writer, held):
        os.close(fd)


@test("an output that does not block gets whole lines")
def _(ws):
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    proc = ws.spawn("mcp", stdin=subprocess.PIPE, stdout=writer)
    os.close(writer)
    ask_much(proc)
    with open(reader, encoding="utf-8") as lines:
        eq([json.loads(next(lines))["id"] for _ in range(31)], list(range(31)), "the answers")
    proc.stdin.close()
    proc.wait(60)


@test("it ends although a call waits", slow=True)
def _(ws):
    holder, agent = own_agent(ws), Agent(ws)
    holder.ok("lock_acquire", **LOCK)
    agent.begin_call("lock_acquire", wait="45s", **LOCK)
    agent.ok("create_process", id="p", command="sleep", args=["1000"], start=True)
    agent.begin_call("wait_for", kind="process", id="p")
    agent.ok("get_status")
    eq(agent.close(timeout=35), 0, "exit")  # before the wait is over
    ws.tasuki("proc", "stop", "p").expect(0)


@test("it ends when it is told to, when its output is closed, and when its parent is gone")
def _(ws):
    agent = Agent(ws)
    agent.proc.send_signal(signal.SIGTERM)
    eq(agent.proc.wait(60), 0, "exit after SIGTERM")
    reader, writer = os.pipe()
    proc = ws.spawn("mcp", stdin=subprocess.PIPE, stdout=writer)
    os.close(writer)
    os.close(reader)
    proc.stdin.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    proc.stdin.flush()
    proc.wait(60)
    agent = own_agent(ws)
    server = ws.until(lambda: children_of(agent.proc.pid), "the server")[0]
    held = os.dup(agent.proc.stdin.fileno())  # its input stays open
    agent.kill()
    ws.until(lambda: not ws.alive(server), "the server ends")
    os.close(held)


@test("what the agent started lives on, and holds nothing of the connection open")
def _(ws):
    agent = Agent(ws)
    agent.ok("create_process", id="p", command="sleep", args=["1000"], start=True)
    eq(agent.close(), 0, "exit")
    ws.until(lambda: agent.is_over, "the end of its output")
    eq(ws.tasuki("proc", "status", "p", "--json").json["state_name"], "Running", "the process")
    ws.tasuki("proc", "stop", "p").expect(0)


@test("what the agent locked is free at the end of a grace period, unless it has come back")
def _(ws):
    agent = Agent(ws, "--grace", "0s")
    agent.ok("lock_acquire", **LOCK)
    agent.close()
    eq(holder_pid(ws), None, "with no grace")
    agent = Agent(ws, "--grace", "1h")
    agent.ok("lock_acquire", **LOCK)
    agent.close()
    waiting = ws.until(lambda: let_goers(ws), "somebody waits for the end of the grace")
    eq(holder_pid(ws), os.getpid(), "in its grace")
    for pid in waiting:
        os.kill(pid, signal.SIGKILL)
    instance = ws.read_lock("name", "a").get("instance") or agent_instance(ws)
    agent = Agent(ws)  # it is back: the old one's end changes nothing
    agent.ok("get_status")  # and has said so, before somebody looks
    ws.tasuki("mcp", "--let-go", "--instance", instance, "--grace", "0s").expect(0)
    eq(holder_pid(ws), os.getpid(), "after it came back")
    agent.kill()
    ws.tasuki("mcp", "--let-go", "--instance", instance, "--grace", "0s").expect(0)
    eq(holder_pid(ws), None, "after it has not")


@test("an agent that has ended before anybody waits for its end: what it had is free at once, not after the grace")
def _(ws):
    agent = sleeper(ws)
    instance = instance_of(agent.pid)
    ws.tasuki("own", "claim", "w", "--instance", instance).expect(0)
    agent.kill()
    agent.wait()
    ws.tasuki("mcp", "--let-go", "--instance", instance, "--grace", "1h", timeout=60).expect(0)
    eq([one["ulTaskId"] for one in ws.tasuki("own", "list", "--json").json["workflows"]], [], "what is owned")


@test("the grace period is that of the last end, and what was locked after it stays", slow=True)
def _(ws):
    agent = Agent(ws, "--instance", "X", "--grace", "1h")
    agent.ok("lock_acquire", **LOCK)
    early = ws.spawn("mcp", "--let-go", "--instance", "X", "--grace", "4s")
    # However slow the machine is: it looks after the second end, not before. It is stopped where it has nothing locked.
    ws.until(lambda: "poll" in pathlib.Path(f"/proc/{early.pid}/wchan").read_text(), "it waits")
    os.kill(early.pid, signal.SIGSTOP)
    for pid in end_with_grace(ws, agent):
        os.kill(pid, signal.SIGKILL)
    agent = Agent(ws, "--instance", "X", "--grace", "1h")  # it is back, and ends once more
    agent.ok("get_status")
    time.sleep(0.3)  # so that the two graces differ by more than the clocks do
    before_end = time.monotonic()
    for pid in end_with_grace(ws, agent):
        os.kill(pid, signal.SIGKILL)
    ws.tasuki("lock", "acquire", "name", "later", "--instance", "X", "--pid", os.getpid()).expect(0)
    os.kill(early.pid, signal.SIGCONT)
    eq(early.wait(60), 0, "exit")
    assert time.monotonic() - before_end > 3.9, "the first end's grace was taken for the second one's"
    eq((holder_pid(ws), holder_pid(ws, "later")), (None, os.getpid()), "the holders")


def end_with_grace(ws, agent):
    """Ends the connection; returns who waits for the end of its grace."""
    agent.close()
    return ws.until(lambda: let_goers(ws, b"--let-go\0--instance\0X\0--grace\0" + b"3600000ms"), "somebody waits")


def let_goers(ws, words=b"--let-go"):
    """The processes of this workspace that wait for the end of a grace period."""
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if words in command_line(pid) and cwd_of(pid) == str(ws.path)]


def cwd_of(pid):
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return None


@test("what named servers leave behind is removed when it is old")
def _(ws):
    Agent(ws, "--instance", "X").ok("get_status")
    agent = Agent(ws, "--instance", "Y")
    agent.ok("get_status")
    agent.close()
    files = sorted((ws.path / ".aiflow/mcp").glob("serve.*"))
    eq(len(files), 2, "the files of both")
    for file in files:
        os.utime(file, (1, 1))
    Agent(ws, "--instance", "Z").ok("get_status")
    eq(len(set(files) & set((ws.path / ".aiflow/mcp").glob("serve.*"))), 1, "the one that is served")


@test("of what servers leave behind, a process's file goes with the process, a name's after two hours, and other files stay")
def _(ws):
    folder = ws.path / ".aiflow/mcp"
    folder.mkdir(exist_ok=True)
    ticks = pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    now = time.time()
    files = {f"serve.{os.getpid()}.{ticks}": 1e6, f"serve.{os.getpid()}.1": 0, "serve.99999999.5": 0, "serve.00000000000000aa": 7000,
             "serve.00000000000000ab": 7400, "other.00000000000000ab": 1e6, "server.1": 1e6}
    for name, age in files.items():
        (folder / name).write_text("")
        os.utime(folder / name, (now - age, now - age))
    Agent(ws, "--instance", "Z").ok("get_status")
    left = {path.name for path in folder.iterdir()} & set(files)
    eq(left, {f"serve.{os.getpid()}.{ticks}", "serve.00000000000000aa", "other.00000000000000ab", "server.1"}, "what is left")


def command_line(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def agent_instance(ws):
    return ws.tasuki("lock", "check", "name", "a", "--json").json["holder"]["instance"]


@test("two agents compete for a lock and a process: one has each, and when it is killed the other takes over")
def _(ws):
    agents = [own_agent(ws) for _ in range(2)]
    agents[0].ok("create_process", id="p", command="sleep", args=["1000"])
    for tool, arguments, code in (("lock_acquire", LOCK, "LOCK_HELD"), ("start_process", {"id": "p"}, "ProcessAlreadyRunning")):
        numbers = [agent.begin_call(tool, **arguments) for agent in agents]
        results = [agent.answer(number)["result"] for agent, number in zip(agents, numbers)]
        eq(sorted(bool(result.get("isError")) for result in results), [False, True], f"winners of {tool}")
        lost = next(result for result in results if result.get("isError"))
        eq(lost["structuredContent"]["error"]["reason_code"], code, tool)
        assert lost["structuredContent"]["error"]["next"], lost
        if tool == "lock_acquire":
            winner = next(i for i, result in enumerate(results) if not result.get("isError"))
    agents[winner].kill()
    other = agents[1 - winner]
    result = other.ok("lock_acquire", wait="45s", **LOCK)
    eq(result["holder"]["pid"], other.proc.pid, "the new holder")
    eq(other.ok("get_process_status", id="p")["state_name"], "Running", "the process lives on")
    other.ok("stop_process", id="p")


def is_server(pid):
    words = command_line(pid).split(b"\0")
    return b"mcp" in words and b"--let-go" not in words


def kill_clients(ws, count):
    """Agents that are killed at any moment leave no server and no lock that stays, and no process is lost."""
    ws.tasuki("proc", "create", "p", "--start", "--", "sleep", "1000").expect(0)
    servers = []
    for number in range(count):
        agent = own_agent(ws, initialize=False)
        agent.begin("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
        agent.begin_call("lock_acquire", kind="name", id=f"l{number % 3}")
        agent.begin_call("create_process", id=f"p{number}", command="true", start=True)
        if random.random() < 0.5:
            ws.until(lambda: agent.has_answer(2) or agent.is_over, "an answer")
        servers += children_of(agent.proc.pid)
        agent.kill()
        if random.random() < 0.5:
            ws.until(lambda: not [pid for pid in servers if ws.alive(pid)], "it ends with its parent")
        agent.proc.stdin.close()  # a server that came up after that death sees this instead
    ws.until(lambda: not [pid for pid in servers + children_of(os.getpid()) if ws.alive(pid) and is_server(pid)], "the servers end")
    for number in range(3):
        # A server that came up after its client's death belongs to whoever adopted it, and that is us: 60 s (spec 4).
        ws.tasuki("lock", "acquire", "name", f"l{number}", "--wait", "200s", timeout=220).expect(0)
    eq(ws.tasuki("proc", "status", "p", "--json").json["state_name"], "Running", "the process")
    ws.tasuki("proc", "stop", "p").expect(0)
    ws.until(lambda: all(p["state_name"] != "Running" for p in ws.tasuki("proc", "list", "--json").json["processes"]),
             "the others have ended")


@test("killed clients leave no server, no lock that stays, and lose no process", slow=True)
def _(ws):
    kill_clients(ws, 20)


@test("a thousand killed clients leave no server, no lock that stays, and lose no process", long=True, deadline=1200)
def _(ws):
    kill_clients(ws, 1000)


@test("calls from many threads of one client and the end of the connection in the middle of them", slow=True)
def _(ws):
    for _ in range(5):
        agent = Agent(ws)
        stop = threading.Event()

        def work():
            try:
                while not stop.is_set():
                    agent.begin_call("lock_list")
            except (OSError, ValueError):
                pass
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        ws.until(lambda: len(agent._answers) > 200, "answers")
        stop.set()
        for thread in threads:
            thread.join()
        eq(agent.close(), 0, "exit")


main(__name__)
