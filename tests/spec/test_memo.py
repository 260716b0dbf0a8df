"""Decision 016: a server remembers what its last look found, and the very next look sees what another program has changed since."""

import json
import os
import pathlib
import random
import shutil
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import Agent  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from http_common import Server  # noqa: E402


class Scene:
    """Processes that run, and an agent's server that has looked at them."""

    def __init__(self, ws, *names, options=(), command=("sleep", "1000")):
        self.ws = ws
        ws.at_close(lambda: ws.tasuki("proc", "remove", "--all", "--force"))
        for name in names:
            ws.tasuki("proc", "create", name, *options, "--start", "--", *command).expect(0)
        self.agent = Agent(ws, "--tools", "all")
        self.folder = ws.path / ".aiflow" / "processes"
        self.remember(*names)

    def remember(self, *names):
        """Looks until the server has kept what it found: its holder.lock is open."""
        for name in names:
            self.ws.until(lambda: self.list() and self.is_remembered(name), f"{name} is remembered")

    def is_remembered(self, name):
        return any(link.removesuffix(" (deleted)").endswith(f"/processes/{name}/holder.lock") for link in self.links())

    def links(self):
        for entry in pathlib.Path(f"/proc/{self.agent.proc.pid}/fd").iterdir():
            try:
                yield os.readlink(entry)
            except FileNotFoundError:
                pass

    def list(self):
        return self.agent.ok("list_processes", limit=1000)["processes"]

    def one(self, name="p"):
        """The record in the list. What the status says must be the same."""
        listed = next((record for record in self.list() if record["id"] == name), None)
        status = self.agent.call("get_process_status", id=name)["structuredContent"]
        for key in listed or ():
            if key not in ("usage", "log"):
                eq(status.get(key), listed[key], f"{key} of the status")
        return listed

    def edit(self, name="p", file="status.json", **changes):
        """Overwrites values in place, and leaves the file as long and, for stat(2), as old as it was written."""
        path = self.folder / name / file
        text, st = path.read_text(), path.stat()
        record = json.loads(text)
        new = json.dumps({**record, **changes}, separators=(",", ":")) + "\n"
        assert len(new) == len(text), (new, text)
        with open(path, "r+") as out:
            out.write(new)
        os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))

    def overwrite(self, text, name="p", file="status.json"):
        (self.folder / name / file).write_text(text)

    def replace(self, text, name="p", file="status.json"):
        path = self.folder / name / file
        path.with_name(".new").write_text(text)
        path.with_name(".new").rename(path)


def steady(records):
    """Without what changes by itself."""
    return [{key: value for key, value in record.items() if key != "usage"} for record in records]


@test("what the server remembers is what a command finds")
def _(ws):
    scene = Scene(ws, "a", "b", "c")
    for _ in range(3):
        eq(steady(scene.list()), steady(ws.tasuki("proc", "list", "--json").expect(0).json["processes"]), "the list")
    status = scene.agent.ok("get_process_status", id="a")
    command = ws.tasuki("proc", "status", "a", "--json").expect(0).json
    eq(list(status), list(command), "keys of the status")
    eq(steady([status]), steady([command]), "the status")
    eq(sorted(record["id"] for record in scene.agent.ok("get_status")["processes"]), ["a", "b", "c"], "the overview")


@test("a status record that is replaced, or overwritten with as many bytes, is seen by the next look")
def _(ws):
    scene = Scene(ws, "p")
    record = json.loads((scene.folder / "p" / "status.json").read_text())
    scene.replace(json.dumps({**record, "restarts": 3}, separators=(",", ":")) + "\n")
    eq(scene.one()["restarts"], 3, "replaced")
    scene.remember("p")
    scene.edit(restarts=5)
    eq(scene.one()["restarts"], 5, "overwritten")


@test("of changes that follow each other within a tick of the kernel's clock, each is seen by the next look")
def _(ws):
    scene = Scene(ws, "p")
    for number in range(300):
        scene.edit(restarts=number % 10)
        eq(scene.list()[0]["restarts"], number % 10, f"change {number}")


@test("a child that was killed is seen by the next look, although nobody has recorded its end")
def _(ws):
    scene = Scene(ws, "p")
    before = scene.one()
    os.kill(before["holder_pid"], signal.SIGSTOP)
    ws.at_close(lambda: ws.alive(before["holder_pid"]) and os.kill(before["holder_pid"], signal.SIGCONT))
    os.kill(before["pid"], signal.SIGKILL)
    ws.until(lambda: not ws.alive(before["pid"]), "the child is dead")
    eq(scene.list()[0]["phase"], "lost", "the phase")
    os.kill(before["holder_pid"], signal.SIGCONT)
    ws.until(lambda: scene.list()[0]["state_name"] == "Failed", "the end is recorded")
    eq(scene.is_remembered("p"), False, "one that has ended is remembered")


@test("a process whose holder was killed gets another one by the next look")
def _(ws):
    scene = Scene(ws, "p")
    before = scene.one()
    os.kill(before["holder_pid"], signal.SIGKILL)
    ws.until(lambda: not ws.alive(before["holder_pid"]), "the holder is dead")
    after = scene.list()[0]
    assert after["holder_pid"] not in (None, before["holder_pid"]), after
    eq((after["pid"], after["phase"]), (before["pid"], "ready"), "the child")


@test("a holder.lock that was replaced, and that nobody holds, is seen by the next look")
def _(ws):
    scene = Scene(ws, "p")
    before = scene.one()
    ws.kill_at_close(before["holder_pid"])
    (scene.folder / "p" / "holder.lock").unlink()
    assert scene.list()[0]["holder_pid"] != before["holder_pid"], "the old holder is in charge"


@test("another pid's process is not taken for one that has ended: the identity in the record counts")
def _(ws):
    scene = Scene(ws, "p")
    record = json.loads((scene.folder / "p" / "status.json").read_text())
    other = ws.spawn_command(["sleep", "1000"])
    scene.replace(json.dumps({**record, "child": {**record["child"], "pid": other.pid}}, separators=(",", ":")) + "\n")
    eq(scene.list()[0]["phase"], "lost", "a pid with the start of another process")


@test("the word for the holder, the probe's word, the history and the directory are seen by the next look")
def _(ws):
    scene = Scene(ws, "p", options=("--ready", "log:up"), command=("sh", "-c", "echo up; exec sleep 1000"))
    eq(scene.one()["phase"], "ready", "at first")
    for write in (scene.replace, scene.overwrite):  # a full disk has no room for another file
        for word, phase in (("down 3000\n", "stopping"), ("up\n", "ready")):
            write(word, file="want")
            eq(scene.one()["phase"], phase, f"after {word}")
            scene.remember("p")
        record = json.loads((scene.folder / "p" / "phase").read_text())
        for phase in ("unhealthy", "ready"):
            write(json.dumps({**record, "phase": phase}), file="phase")
            eq(scene.one()["phase"], phase, "the probe's word")
            scene.remember("p")
    (scene.folder / "p" / "phase").unlink()
    eq(scene.one()["phase"], "starting", "without it")
    scene.remember("p")
    with open(scene.folder / "p" / "history", "a") as out:
        out.write('{"time":1,"what":"gap","n":1,"stream":"both"}\n')
    scene.one()
    eq(len(ws.events("LOG_GAP")), 1, "events of the history")
    aside = ws.path / "aside"
    scene.remember("p")
    (scene.folder / "p").rename(aside)
    eq(scene.one()["state_name"], "NotStarted", "without its directory")
    aside.rename(scene.folder / "p")
    eq(scene.one()["state_name"], "Running", "with its directory again")


@test("a row that another program changes, removes or adds is seen by the next look")
def _(ws):
    scene = Scene(ws, "p", "q")
    ws.tasuki("proc", "update", "p", "--restart", "always").expect(0)
    eq((scene.one()["restart"], scene.one()["needs_restart"]), ("always", True), "updated")
    scene.remember("p")
    ws.tasuki("proc", "remove", "p", "--force").expect(0)
    eq(scene.agent.refused("get_process_status", id="p")[1]["reason_code"], "ProcessNotFound", "its status")
    eq(scene.is_remembered("p"), False, "a removed one is remembered")
    eq([record["id"] for record in scene.list()], ["q"], "removed")
    ws.tasuki("proc", "create", "p", "--", "true").expect(0)
    eq(scene.one()["state_name"], "NotStarted", "added again")


@test("of a long history, a server that remembers shows what a command shows")
def _(ws):
    scene = Scene(ws, "p")
    ws.tasuki("proc", "restart", "p").expect(0)
    with open(scene.folder / "p" / "history", "a") as out:
        out.write('{"time":1,"what":"gap","n":2,"stream":"both"}\n' * 400)
    scene.remember("p")
    shown = ws.tasuki("proc", "status", "p", "--json").expect(0).json["last_exits"]
    eq(scene.agent.ok("get_process_status", id="p")["last_exits"], shown, "the last ends")


@test("a record that has no log, because its path is not UTF-8, is whole at each look", init=False)
def _(ws):
    place = pathlib.Path(os.fsdecode(os.fsencode(ws.path) + b"/caf\xe9"))
    place.mkdir()
    run = lambda *args: ws.run([ws.binary, *args], cwd=place)  # noqa: E731
    run("init").expect(0)
    run("proc", "create", "p", "--", "true").expect(0)  # one that was never started is remembered at once
    agent = Agent(ws, "--tools", "all", cwd=place)
    first = agent.ok("get_process_status", id="p")
    eq(agent.ok("get_process_status", id="p"), first, "the status")
    eq([record["id"] for record in agent.ok("list_processes")["processes"]], ["p"], "the list")


@test("when another workspace takes the place of one, what was remembered of the old one is let go")
def _(ws):
    scene = Scene(ws, "p")
    aside = ws.path / "aside"
    (ws.path / ".aiflow").rename(aside)
    ws.tasuki("init").expect(0)
    eq(scene.list(), [], "the new one")
    eq(scene.is_remembered("p"), False, "the old one is remembered")
    shutil.rmtree(ws.path / ".aiflow")
    aside.rename(ws.path / ".aiflow")
    scene.remember("p")


@test("what a process uses, the size of its log and the end of its directory are those of this moment")
def _(ws):
    place = ws.path / "place"
    place.mkdir()
    scene = Scene(ws, "p", options=("--cwd", place), command=("sh", "-c", "while :; do :; done"))
    first = scene.one()
    ws.until(lambda: scene.one()["usage"]["cpu_ms"] > first["usage"]["cpu_ms"], "it uses more")
    eq(scene.is_remembered("p"), True, "it is remembered")
    size = scene.agent.ok("get_process_status", id="p")["log"]["size"]
    with open(scene.one()["log"]["stdout"], "a") as out:
        out.write("x" * 100)
    eq(scene.agent.ok("get_process_status", id="p")["log"]["size"], size + 100, "the log")
    place.rmdir()
    eq(scene.one().get("directory_gone"), True, "its directory")
    place.mkdir()
    eq("directory_gone" in scene.one(), False, "its directory again")


@test("the server over HTTP remembers in the same way")
def _(ws):
    ws.at_close(lambda: ws.tasuki("proc", "remove", "--all", "--force"))
    ws.tasuki("proc", "create", "p", "--start", "--", "sleep", "1000").expect(0)
    server = Server(ws)
    record = lambda: server.ask("GET", "/api/processes/p").expect(200).json  # noqa: E731
    fds = pathlib.Path(f"/proc/{server.proc.pid}/fd")
    ws.until(lambda: record() and any(os.readlink(fd).endswith("/p/holder.lock") for fd in fds.iterdir() if fd.is_symlink()),
             "it is remembered")
    ws.tasuki("proc", "restart", "p").expect(0)
    eq(record()["run"], 2, "after a restart")
    ws.tasuki("proc", "stop", "p").expect(0)
    eq(record()["state_name"], "Stopped", "after a stop")
    server.stop()


def settled(ws, look):
    """(What a look says, what a command says) at a moment when nothing changes by itself."""
    def both():
        before = steady(ws.tasuki("proc", "list", "--json").expect(0).json["processes"])
        seen = steady(look())
        return (seen, before) if before == steady(ws.tasuki("proc", "list", "--json").expect(0).json["processes"]) else None
    return ws.until(both, "nothing changes by itself")


def kill(record, key, number):
    try:
        if record.get(key):
            os.kill(record[key], number)
    except ProcessLookupError:
        pass


@test("in a storm of changes, a server that remembers says what a new command says", slow=True)
def _(ws):
    names = ["a", "b", "c", "d"]
    scene = Scene(ws, *names)
    dice = random.Random(28)
    changes = {
        "update": lambda name, record: ws.tasuki("proc", "update", name, "--restart", dice.choice(["no", "always", "on-failure"])),
        "remove": lambda name, record: ws.tasuki("proc", "remove", name, "--force"),
        "create": lambda name, record: ws.tasuki("proc", "create", name, "--start", "--", "sleep", "1000"),
        "start": lambda name, record: ws.tasuki("proc", "start", name),
        "stop": lambda name, record: ws.tasuki("proc", "stop", name),
        "restart": lambda name, record: ws.tasuki("proc", "restart", name),
        "kill": lambda name, record: kill(record, "pid", signal.SIGKILL),
        "kill the holder": lambda name, record: kill(record, "holder_pid", signal.SIGKILL),
        "touch": lambda name, record: os.utime(scene.folder / name) if (scene.folder / name).exists() else None,
        "nothing": lambda name, record: None,
    }
    for number in range(60):
        what, name = dice.choice(list(changes)), dice.choice(names)
        found = {record["id"]: record for record in scene.list()}
        changes[what](name, found.get(name, {}))
        seen, said = settled(ws, scene.list)
        eq(seen, said, f"change {number}: {what} {name}")


main(__name__)
