"""Spec 2, Events: of all live views one reports deaths, each exactly once; requests that an editor changes; phases of processes."""

import json
import os
import pathlib

from common import sleeper
from harness.harness import eq, main, test
from harness.screen import tasuki_screen
from http_common import Server, as_headers, register, set_lease
from requests_common import add, begin, kill, spawn
from who_common import client

DEATHS = ("lock.holder_died", "run.interrupted", "queue.interrupted", "workflow.owner_died", "instance.ended")


def follow(ws):
    """`events -f`, once it watches."""
    view = ws.spawn("events", "-f", "--json")
    ws.until(lambda: is_watched(ws), "somebody watches")
    return view


def is_watched(ws):
    """Whether somebody holds watch.lock (an OFD lock, which /proc/locks shows with its inode)."""
    try:
        inode = (ws.path / ".aiflow/watch.lock").stat().st_ino
    except OSError:
        return False
    lines = [line.split() for line in pathlib.Path("/proc/locks").read_text().splitlines()]
    return any(":" in word and word.rpartition(":")[2] == str(inode) for words in lines for word in words[1:])


def end(process):
    process.kill()
    process.wait()


def deaths(ws):
    return [event for event in ws.events() if event["type"] in DEATHS]


def until_event(ws, type, count=1):
    return ws.until(lambda: len(ws.events(type)) >= count and ws.events(type), f"{count} {type}")


def look_again(ws):
    """The watcher has looked at everything at least once more: a fresh lock's death is reported after all that was there."""
    holder = sleeper(ws)
    name = f"mark{holder.pid}"
    ws.tasuki("lock", "acquire", "name", name, "--pid", holder.pid).expect(0)
    end(holder)
    ws.until(lambda: [e for e in ws.events("lock.holder_died") if e["data"]["id"] == name], "the mark is reported")


@test("a lock's holder that is killed is an event, once, with fence and who; the actor is null", slow=True)
def _(ws):
    follow(ws)
    holder = sleeper(ws)
    ws.tasuki("lock", "acquire", "name", "deploy", "--pid", holder.pid).expect(0)
    fence = ws.read_lock("name", "deploy")["fence"]
    end(holder)
    event = until_event(ws, "lock.holder_died")[0]
    eq((event["data"]["kind"], event["data"]["id"], event["data"]["fence"], event["data"]["pid"], event["actor"]),
       ("name", "deploy", fence, holder.pid, None), "the event")
    look_again(ws)
    eq([e["data"]["id"] for e in ws.events("lock.holder_died")].count("deploy"), 1, "events of this fence")


@test("a death in the trail names the party that has died, as every other event names its actor", slow=True)
def _(ws):
    holder = sleeper(ws)
    env = {"TASUKI_AGENT": "bob", "TASUKI_NOTE": "refactoring auth"}
    ws.tasuki("lock", "acquire", "name", "api", "--pid", holder.pid, env=env).expect(0)
    ws.tasuki("own", "claim", "wf", "--instance", f"{os.uname().nodename}-{holder.pid}-9999999999999", env=env).expect(0)
    agent = client(ws, "codex")
    agent.ok("ul_workflow_claim", ulTaskId="other")
    screen = tasuki_screen(ws, "watch", cols=120)
    screen.until_text("lock.acquired", "wf")
    look_again(ws)
    end(holder)
    agent.kill()
    types = ("lock.holder_died", "workflow.owner_died", "instance.ended")
    ws.until(lambda: set(types) <= {event["type"] for event in ws.events()}, "the deaths are in the trail")
    printed = ws.tasuki("events").out
    for type, who in zip(types, ("bob: refactoring auth", "bob: refactoring auth", "codex")):
        assert f"{type}  {who}  " in printed, printed
        screen.until(lambda text, type=type, who=who: any(line.split()[:1] == [type] and f" {who}  " in line for line in text.split("\n")), f"{type} names {who}")
    assert "who=" not in printed, printed


@test("a killed runner, a killed queue and a killed owner are events", slow=True)
def _(ws):
    follow(ws)
    proc, run_id = begin(ws, "RQ-1")
    kill(ws, proc.pid)
    event = until_event(ws, "run.interrupted")[0]
    eq((event["run_id"], event["data"]["request_id"], event["data"]["pid"]), (run_id, "RQ-1", proc.pid), "the run")
    owner = sleeper(ws)
    ws.tasuki("own", "claim", "wf", "--instance", f"{os.uname().nodename}-{owner.pid}-{9999999999999}").expect(0)
    end(owner)
    eq(until_event(ws, "workflow.owner_died")[0]["data"]["workflow"], "wf", "the workflow")
    (ws.path / "up").unlink()
    add(ws, "RQ-2", "echo $$ >> up; sleep 1000")
    queue = spawn(ws, "queue", "run")
    ws.until_file("up")
    kill(ws, queue.pid)
    until_event(ws, "queue.interrupted")
    look_again(ws)
    eq([len(ws.events(type)) for type in ("queue.interrupted", "workflow.owner_died")], [1, 1], "each once")
    runs = [(event["run_id"], event["data"]["pid"]) for event in ws.events("run.interrupted")]
    eq(len(runs), len(set(runs)), "runs, each once")


@test("a run that is resumed and killed again is interrupted twice", slow=True)
def _(ws):
    follow(ws)
    proc, run_id = begin(ws, "RQ-1")
    kill(ws, proc.pid)
    until_event(ws, "run.interrupted")
    (ws.path / "up").unlink()
    again = spawn(ws, "resume", run_id)
    ws.until_file("up")
    kill(ws, again.pid)
    until_event(ws, "run.interrupted", 2)
    look_again(ws)
    eq([event["run_id"] for event in ws.events("run.interrupted")], [run_id] * 2, "the run")


@test("an agent that ends is an event, also one that ends in good order; so is a client whose lease is over", slow=True)
def _(ws):
    server = Server(ws)
    stream = server.stream("/api/events").hello()
    agents = [client(ws, "claude"), client(ws, "codex")]
    for agent in agents:
        agent.call("ul_workflow_claim", ulTaskId=f"of-{agent.proc.pid}")
    me = register(server)
    look_again(ws)
    end(agents[0].proc)
    agents[1].proc.stdin.close()
    agents[1].proc.wait(60)
    set_lease(ws, me, -1000)
    labels = ws.until(lambda: len(ws.events("instance.ended")) >= 3 and
                      sorted(event["data"]["label"] for event in ws.events("instance.ended")), "all three")
    look_again(ws)
    eq(len(ws.events("instance.ended")), 3, "once each")
    assert "claude" in labels and "codex" in labels, labels
    stream.close()
    server.stop()


@test("the view that watches is killed: another one reports what dies from then on, and nothing twice", slow=True)
def _(ws):
    views = [follow(ws)]
    views += [ws.spawn("events", "-f", "--json") for _ in range(2)]
    holders = []
    for round in range(3):
        holder = sleeper(ws)
        holders.append(holder)
        ws.tasuki("lock", "acquire", "name", f"a{round}", "--pid", holder.pid).expect(0)
        if round == 1:
            end(views[0])
        end(holder)
        if round == 0:
            until_event(ws, "lock.holder_died")
        if round == 2:
            ws.until(lambda: is_watched(ws), "another one has taken over")
    until_event(ws, "lock.holder_died", 3)
    look_again(ws)
    names = [e["data"]["id"] for e in ws.events("lock.holder_died")]
    eq(sorted(name for name in names if name[0] == "a"), ["a0", "a1", "a2"], "deaths")


def pruned_file(ws):
    """watch.json as it was before the death that is in the trail was remembered (V3): without its keys, and with an older place."""
    path = ws.path / ".aiflow/watch.json"
    path.write_text(json.dumps({"event_id": 0, "reported": {}, "instances": {}}))


@test("a reporter that is killed between the event and its memory leaves no repetition; nor does one without its memory", slow=True)
def _(ws):
    for forget in (pruned_file, lambda ws: (ws.path / ".aiflow/watch.json").unlink(),
                   lambda ws: (ws.path / ".aiflow/watch.json").write_text('{"event_id": 99')):
        view = follow(ws)
        holder = sleeper(ws)
        ws.tasuki("lock", "acquire", "name", f"x{holder.pid}", "--pid", holder.pid).expect(0)
        end(holder)
        ws.until(lambda: [e for e in ws.events("lock.holder_died") if e["data"]["pid"] == holder.pid], "the death")
        end(view)
        forget(ws)
        view = follow(ws)
        look_again(ws)
        end(view)
    pids = [event["data"]["pid"] for event in ws.events("lock.holder_died")]
    eq(len(pids), len(set(pids)), "each once")


def storm(ws, rounds):
    views = [follow(ws)] + [ws.spawn("events", "-f", "--json") for _ in range(2)]
    names = []
    for i in range(rounds):
        holder = sleeper(ws)
        names.append(f"n{i}")
        ws.tasuki("lock", "acquire", "name", names[-1], "--pid", holder.pid).expect(0)
        if i % 3 == 2:
            end(views.pop(0))
            views.append(ws.spawn("events", "-f", "--json"))
        end(holder)
    ws.until(lambda: {e["data"]["id"] for e in ws.events("lock.holder_died")} >= set(names), "all are reported")
    look_again(ws)
    found = [e["data"]["id"] for e in ws.events("lock.holder_died") if e["data"]["id"] in names]
    eq(sorted(found), sorted(names), "each once")


@test("a storm of kills, of holders and of views: each death exactly once", slow=True)
def _(ws):
    storm(ws, 9)


@test("the same for a longer time", long=True)
def _(ws):
    storm(ws, 120)


@test("a server without a stream leaves the watch to others, and takes it with its first stream")
def _(ws):
    server = Server(ws)
    assert not is_watched(ws), "a quiet server watches"
    stream = server.stream("/api/events").hello()
    ws.until(lambda: is_watched(ws), "it watches")
    stream.close()
    ws.until(lambda: not is_watched(ws), "it has stopped")
    server.stop()


@test("a request that an editor writes, changes or removes is an event; an operation's change is one event only")
def _(ws):
    follow(ws)
    path = add(ws, "RQ-1")
    eq(until_event(ws, "request.added")[0]["data"]["request_id"], "RQ-1", "added")
    path.write_text(path.read_text() + "priority: P0\n")
    eq(until_event(ws, "request.changed")[0]["data"]["request_id"], "RQ-1", "changed")
    new = path.with_name("draft")
    new.write_text(path.read_text() + "body: text\n")
    new.rename(path)
    until_event(ws, "request.changed", 2)
    path.unlink()
    eq(until_event(ws, "request.removed")[0]["data"]["request_id"], "RQ-1", "removed")
    id = ws.tasuki("request", "add", "t", "--json", "--", "true").expect(0).json["id"]
    ws.tasuki("request", "edit", id, "--priority", "P1").expect(0)
    add(ws, "RQ-9")  # the files before it have been looked at when this one is reported
    ws.until(lambda: [e for e in ws.events("request.added") if e["data"]["request_id"] == "RQ-9"], "the last one")
    found = [event["type"] for event in ws.events() if event["data"].get("request_id") == id]
    eq(found, ["request.added", "request.edited"], "of the operation")


@test("ready, not ready, unhealthy and healthy are events, with their reason")
def _(ws):
    ws.at_close(lambda: ws.tasuki("proc", "stop", "--all"))
    ws.tasuki("proc", "create", "web", "--ready", "log:UP", "--health", "exec:test -e well", "--health-interval", "50ms", "--health-failures", "1",
              "--start", "--", "sh", "-c", "touch well; echo UP; sleep 1000").expect(0)
    event = until_event(ws, "process.ready")[0]
    eq((event["data"]["process_id"], event["data"]["run"], event["actor"]), ("web", 1, None), "ready")
    (ws.path / "well").unlink()
    until_event(ws, "process.unhealthy")
    (ws.path / "well").touch()
    until_event(ws, "process.healthy")
    ws.tasuki("proc", "create", "late", "--ready", "log:NEVER", "--ready-timeout", "50ms", "--start", "--no-wait", "--", "sleep", "1000").expect(0)
    event = until_event(ws, "process.not_ready")[0]
    assert event["data"]["process_id"] == "late" and "50 ms" in event["data"]["reason"], event


@test("a renewal is an event with the new end; a client's lease is none")
def _(ws):
    holder = sleeper(ws)
    token = ws.tasuki("lock", "acquire", "name", "a", "--pid", holder.pid, "--json").expect(0).json["token"]
    ws.tasuki("lock", "renew", "name", "a", "--token", token).expect(0)
    event = ws.events("lock.renewed")
    eq([(e["data"]["id"], e["data"]["pid"]) for e in event], [("a", holder.pid)], "renewed")
    assert event[0]["data"]["expires_at"].endswith("Z"), event
    server = Server(ws)
    me = register(server)
    server.post("/api/locks/name/b", {}, headers=as_headers(me)).expect(200)
    set_lease(ws, me, 1000)
    server.get("/api/status", headers=as_headers(me)).expect(200)
    eq(len(ws.events("lock.renewed")), 1, "renewals")
    server.stop()


main(__name__)
