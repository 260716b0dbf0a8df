"""`tasuki up` and `tasuki down`: what a file names, on one screen."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from who_common import client  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from harness.processes import Processes  # noqa: E402
from harness.screen import tasuki_screen  # noqa: E402
from up_common import PROCFILE, SERVERS, lines_of, states, until_state, up, write  # noqa: E402

# -- what is started, and what ends -----------------------------------------------------------------------------------

@test("up registers and starts what a Procfile and .env say, shows both outputs with names, and SIGINT stops it")
def _(ws):
    p = Processes(ws)
    write(ws, "Procfile", PROCFILE)
    write(ws, ".env", "# a comment\n\nexport PORT='30 00'\nOTHER=\"x\"\n")
    running = up(ws)
    until_state(p, "web", "Running")
    until_state(p, "db", "Running")
    ws.until(lambda: "db" in ws.tasuki("proc", "logs", "db", "--stderr").out, "db has said something")
    running.send_signal(signal.SIGINT)
    result = ws.finish(running).expect(0)
    assert "web | web on 30 00" in result.out.splitlines() and "db  ! db" in result.out.splitlines(), result.out
    for id in ("web", "db "):
        assert f"{id} | started" in result.out and f"{id} | stopped" in result.out, result.out
    assert "SIGINT stops them" in result.err.splitlines()[0], result.err
    eq(states(p), {"web": "Stopped", "db": "Stopped"}, "afterwards")
    eq(p.status("web")["env"]["OTHER"], "x", "a variable of .env")


@test("the screen of a given file, when it is left, names the commands with that file")
def _(ws):
    p = Processes(ws)
    write(ws, "my servers", PROCFILE)
    first = up(ws, "-f", "my servers")
    until_state(p, "web", "Running")
    first.send_signal(signal.SIGHUP)
    left = ws.finish(first).expect(0).err
    assert "`tasuki up -f 'my servers'`" in left and "`tasuki down -f 'my servers'`" in left, left
    ws.tasuki("down", "-f", "my servers").expect(0)


@test("called again it attaches, and SIGINT only detaches; SIGHUP leaves what it started running; down stops it")
def _(ws):
    p = Processes(ws)
    write(ws, "Procfile", PROCFILE)
    first = up(ws)
    until_state(p, "web", "Running")
    until_state(p, "db", "Running")
    pids = {id: one["pid"] for id, one in p.list().items()}
    second = up(ws)
    ws.until(lambda: is_following(second.pid), "the second follows")
    first.send_signal(signal.SIGHUP)
    result = ws.finish(first).expect(0)
    assert "Detached" in result.err, result.err
    eq({id: one["pid"] for id, one in p.list().items()}, pids, "the pids after SIGHUP")
    attached = up(ws)
    ws.until(lambda: is_following(attached.pid), "it follows")
    attached.send_signal(signal.SIGINT)
    assert "attached" in ws.finish(attached).expect(0).err
    second.send_signal(signal.SIGINT)
    assert "attached" in ws.finish(second).expect(0).err
    eq({id: one["pid"] for id, one in p.list().items()}, pids, "the pids after the second's SIGINT")
    down = ws.tasuki("--json", "down").expect(0).json
    eq({one["id"]: one["state_name"] for one in down["processes"]}, {"web": "Stopped", "db": "Stopped"}, "down")
    eq(ws.tasuki("--json", "down").expect(0).json["processes"], [], "down, when nothing runs")
    eq(sorted(states(p)), ["db", "web"], "nothing is unregistered")


def is_following(pid):
    """Whether its signal handlers are there."""
    try:
        caught = int(next(line.split()[1] for line in open(f"/proc/{pid}/status") if line.startswith("SigCgt")), 16)
    except (OSError, StopIteration):
        return False
    return bool(caught & 1 << (signal.SIGHUP - 1))


@test("only what has another definition is restarted; what is no longer in the file is named and left alone", slow=True)
def _(ws):
    p = Processes(ws)
    write(ws, "Procfile", PROCFILE)
    ws.tasuki("up", "--detach").expect(0)
    before = p.list()
    write(ws, "Procfile", "web: echo new; exec sleep 1000\nmore: exec sleep 1000\n")
    answer = ws.tasuki("--json", "up", "--detach").expect(0).json
    after = p.list()
    eq(answer["left_alone"], ["db"], "what is left alone")
    eq(after["db"]["pid"], before["db"]["pid"], "its pid")
    assert after["web"]["pid"] != before["web"]["pid"], "web was not restarted"
    eq(after["web"]["args"], ["-c", "echo new; exec sleep 1000"], "the new definition")
    eq(after["more"]["state_name"], "Running", "what is new")
    again = ws.tasuki("--json", "up", "--detach").expect(0).json
    eq({one["id"]: one["pid"] for one in again["processes"]}, {id: after[id]["pid"] for id in ("web", "more")},
       "the second time nothing is restarted")
    ws.tasuki("down").expect(0)
    eq(states(p)["db"], "Running", "down leaves it alone, too")
    p.stop("db")


@test("the first of tasuki.yaml, process-compose.yaml and Procfile is read, here or above; -f reads another", slow=True)
def _(ws):
    p = Processes(ws)
    write(ws, "Procfile", "c: exec sleep 1000\n")
    below = ws.path / "below" / "deep"
    below.mkdir(parents=True)
    ws.tasuki("up", "--detach", cwd=below).expect(0)
    write(ws, "process-compose.yaml", "processes:\n  b:\n    command: exec sleep 1000\n")
    ws.tasuki("up", "--detach").expect(0)
    (below / "tasuki.yaml").write_text("version: 1\nprocesses:\n  a: {command: sleep, args: ['1000']}\n")
    ws.tasuki("up", "--detach", cwd=below).expect(0)
    other = write(ws, "other.yaml", "version: 1\nprocesses:\n  d: {command: sleep, args: ['1000']}\n")
    ws.tasuki("up", "-f", other, "--detach", cwd=below).expect(0)
    eq(states(p), dict.fromkeys("abcd", "Running"), "what runs")
    eq([p.status(id)["cwd"] for id in "ac"], [str(below), str(ws.path)], "the directories: where the file is")
    p.call("stop", "--all").expect(0)
    empty = ws.base / "empty"
    empty.mkdir()
    result = ws.tasuki("--root", ws.path, "up", cwd=empty)
    eq(result.code, 5, "no file")
    assert str(empty) in result.err, result.err
    result = ws.tasuki("up", "-f", other, "nobody")
    eq(result.code, 5, "an id that is not in the file")


@test("what proc export has written comes up again, its masked secrets as they were")
def _(ws):
    p = Processes(ws)
    p.create("web", ("sleep", "1000"), "--env", "API_KEY=one")
    write(ws, "tasuki.yaml", ws.tasuki("proc", "export").expect(0).out)
    ws.tasuki("up", "--detach").expect(0)
    pid = p.status("web")["pid"]
    ws.tasuki("up", "--detach").expect(0)
    eq(p.status("web")["pid"], pid, "the pid: nothing has changed")
    assert b"API_KEY=one" in pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    p.stop("web")


@test("a process-compose file gets .env and the env_file of each process, below its environment; a proc import reads neither")
def _(ws):
    p = Processes(ws)
    ws.at_close(lambda: ws.tasuki("down"))
    (ws.path / "app").mkdir()
    write(ws, "app/.env", "# shared\nA=dot\nB=dot\nC=dot\nexport D='a d'\n")
    write(ws, "app/web.env", "B=file\nC=file\nE=first\n")
    write(ws, "app/more.env", "E=second\n")
    compose = write(ws, "app/process-compose.yaml", """
environment: ["G=global"]
processes:
  web:
    command: exec sleep 1000
    env_file: [web.env, more.env]
    environment: ["C=own"]
  one:
    command: exec sleep 1000
    env_file: more.env
    is_dotenv_disabled: true
""")
    names = "ABCDEG"
    web, one = dict(zip(names, ("dot", "file", "own", "a d", "second", "global"))), {"E": "second", "G": "global"}
    ws.tasuki("up", "--detach", cwd=ws.path / "app").expect(0)
    for id, expected in (("web", web), ("one", one)):
        environ = pathlib.Path(f"/proc/{p.status(id)['pid']}/environ").read_text().split("\0")
        eq({pair[0]: pair[2:] for pair in environ if pair[:1] in names and pair[1:2] == "="}, expected, id)
    pid = p.status("web")["pid"]
    ws.tasuki("up", "--detach", cwd=ws.path / "app").expect(0)
    eq(p.status("web")["pid"], pid, "the pid: nothing has changed")
    ws.tasuki("down", cwd=ws.path / "app").expect(0)
    (ws.path / "app/more.env").unlink()
    refused = ws.tasuki("up", "--detach", cwd=ws.path / "app")
    assert refused.code != 0 and "more.env" in refused.err, refused
    eq({id: p.status(id)["state_name"] for id in ("web", "one")}, {"web": "Stopped", "one": "Stopped"}, "states after the refusal")
    answer = ws.tasuki("proc", "import", compose, "--replace", "--json").expect(0).json
    eq(sorted(answer["ignored"]), ["one.env_file", "one.is_dotenv_disabled", "web.env_file"], "ignored by an import")


@test("a mistake in the file or in .env is named with its place, and nothing is changed")
def _(ws):
    p = Processes(ws)
    write(ws, "Procfile", "web: sleep 1000\n")
    write(ws, ".env", "A=1\nno variable\n")
    result = ws.tasuki("up").expect(2)
    assert ".env, line 2" in result.err, result.err
    write(ws, "Procfile", "web: sleep 'x\n")
    ws.tasuki("up").expect(2)
    unknown = write(ws, "x.yaml", "web: 3\n")
    for verb in ("up", "down"):
        result = ws.tasuki(verb, "-f", unknown).expect(2)
        assert "Procfile" in result.err and "--format" not in result.err, result.err
        result = ws.tasuki(verb, "-f", "nofile").expect(5)
        assert f"tasuki {verb} -f FILE" in result.err and "tasuki status" not in result.err, result.err
    eq(p.list(), {}, "what is registered")


@test("a stop while one waits for another says nothing of failures; one that was to start again is stopped, too")
def _(ws):
    p = Processes(ws)
    write(ws, "tasuki.yaml", """version: 1
processes:
  api: {command: sh, args: [-c, 'exit 3'], restart: always, backoff_ms: 600000, backoff_max_ms: 600000}
  db: {command: sleep, args: ['1000'], ready: {log: never, timeout_ms: 600000}}
  front: {command: sleep, args: ['1000'], depends_on: {db: ready}}
""")
    running = up(ws)
    until_state(p, "db", "Running")
    until_state(p, "api", "Failed", "backoff")
    running.send_signal(signal.SIGINT)
    result = ws.finish(running).expect(0)
    assert "front" not in result.err.split("\n", 1)[1] and "Failed" not in result.err, result.err
    for id in ("api", "db"):
        assert lines_of(result.out, id)[-1].endswith("| stopped"), result.out
    eq(states(p), {"api": "Stopped", "db": "Stopped", "front": "NotStarted"}, "afterwards")


@test("init beside a file that up reads names up as the next command", init=False)
def _(ws):
    assert "tasuki up" not in ws.tasuki("init").expect(0).out
    for name in ("Procfile", "process-compose.yaml", "tasuki.yaml"):
        place = ws.base / name.split(".")[0]
        place.mkdir()
        (place / name).write_text("a: true\n")
        lines = [line.split() for line in ws.tasuki("--root", place, "init").expect(0).out.splitlines()]
        eq([line for line in lines if line[:1] == ["next"]], [["next", "tasuki", "--root", str(place), "up"]], name)


MIGRATION = """version: 1
processes:
  base: {command: sh, args: [-c, 'echo base >>log']}
  mig: {command: sh, args: [-c, 'echo mig >>log'], depends_on: {base: completed}}
  front: {command: sleep, args: ['1000'], depends_on: {mig: completed}}
  back: {command: sleep, args: ['1000'], depends_on: {mig: completed}}
"""


@test("what has completed for others is not run again while they run; after down, or when one of them is to start, it is", slow=True)
def _(ws):
    p = Processes(ws)
    log = ws.path / "log"
    write(ws, "tasuki.yaml", MIGRATION)

    def runs_again(*words):
        log.unlink(missing_ok=True)
        answer = ws.tasuki("--json", "up", "--detach", *words).expect(0).json
        return log.read_text().split() if log.exists() else [], answer.get("completed")

    eq(runs_again(), (["base", "mig"], []), "the first up")
    pids = [p.status(id)["pid"] for id in ("front", "back")]
    eq(runs_again(), ([], ["base", "mig"]), "all run")
    eq(runs_again("front"), ([], ["base", "mig"]), "the one that was asked for runs")
    eq([p.status(id)["pid"] for id in ("front", "back")], pids, "the servers")
    attached = up(ws)
    ws.until(lambda: is_following(attached.pid), "it follows")
    attached.send_signal(signal.SIGINT)
    err = ws.finish(attached).expect(0).err
    assert "attached" in err and "not run again: base, mig" in err, err
    eq(runs_again("mig"), (["base", "mig"], []), "it was asked for")
    p.stop("back")
    eq(runs_again(), (["base", "mig"], []), "one of them is to start")
    write(ws, "tasuki.yaml", MIGRATION.replace("echo mig", "echo other"))
    eq(runs_again(), (["base", "other"], []), "another definition")
    ws.tasuki("down").expect(0)
    eq(runs_again(), (["base", "other"], []), "after down")
    ws.tasuki("down").expect(0)


@test("keys of a process-compose file that mean nothing to tasuki are named, on the screen, with --detach and in JSON")
def _(ws):
    write(ws, "process-compose.yaml", "processes:\n  db:\n    command: sleep 1000\n    shutdown: {signal: 2}\n    depnds_on: {}\n")
    said = "Ignored keys, which tasuki does not read from a file of this format: db.shutdown, db.depnds_on"
    detached = ws.tasuki("up", "--detach").expect(0)
    assert said in detached.out + detached.err, (detached.out, detached.err)
    eq(ws.tasuki("--json", "up", "--detach").expect(0).json["ignored"], ["db.shutdown", "db.depnds_on"], "ignored")
    for words in ((), ("--json",)):
        attached = ws.spawn(*words, "up")
        ws.until(lambda: is_following(attached.pid), "it follows")
        attached.send_signal(signal.SIGINT)
        result = ws.finish(attached).expect(0)
        if words:
            eq(json.loads(result.out.splitlines()[0])["ignored"], ["db.shutdown", "db.depnds_on"], "ignored")
        else:
            assert said in result.err.splitlines()[1], result.err
    ws.tasuki("down").expect(0)


@test("a file with another word for a key, a list for a map, or a list of processes is refused with the right word or form, and nothing else")
def _(ws):
    write(ws, "tasuki.yaml", "version: 1\nprocesses:\n  db: {cmd: sleep, args: ['9'], comand: sleep}\n  web: {run: sleep, needs: {db: ready}, depends_on: [db]}\n")
    problems = ws.tasuki("--json", "up").expect(2, "INVALID_INPUT").json["error"]["context"]["problems"]
    eq([(one["line"], one["column"], one["reason"]) for one in problems], [
        (3, 8, "db: The key 'cmd' is called 'command' here"),
        (3, 33, "db: There is no key 'comand'. Did you mean 'command'?"),
        (4, 9, "web: The key 'run' is called 'command' here"),
        (4, 21, "web: The key 'needs' is called 'depends_on' here"),
        (4, 41, "web: depends_on must be a map, such as {db: ready}")], "problems")
    for text in ("version: 1\nprocesses:\n  - {id: web, command: sleep, restart: always}\n", "processes:\n  - {id: web, command: sleep}\nversion: '1'\n"):
        write(ws, "tasuki.yaml", text)
        error = ws.tasuki("--json", "up").expect(2, "INVALID_INPUT").json["error"]
        assert error["message"].endswith("processes must be a map, such as {web: {command: ./server}}"), error
    (ws.path / "tasuki.yaml").unlink()
    write(ws, "process-compose.yaml", "processes:\n  db: {command: sleep 1}\n  web: {command: sleep 1, depends_on: [db]}\n")
    error = ws.tasuki("--json", "up").expect(2, "INVALID_INPUT").json["error"]
    assert error["message"].endswith("web: depends_on must be a map, such as {db: {condition: process_healthy}}"), error


@test("down stops the processes of a file whose .env has a mistake or is gone by now", slow=True)
def _(ws):
    p = Processes(ws)
    write(ws, "Procfile", "web: sleep 1000\n")
    for text in ("A=1\nno variable\n", None):
        write(ws, ".env", "A=1\n")
        ws.tasuki("up", "--detach").expect(0)
        write(ws, ".env", text) if text else (ws.path / ".env").unlink()
        if text:
            ws.tasuki("up", "--detach").expect(2)
        eq(p.status("web")["state_name"], "Running", "before")
        ws.tasuki("down").expect(0)
        eq(p.status("web")["state_name"], "Stopped", "after")
    write(ws, "process-compose.yaml", "processes: {api: {command: sleep 1000, env_file: [api.env]}}\n")
    write(ws, "api.env", "B=2\n")
    ws.tasuki("up", "--detach").expect(0)
    (ws.path / "api.env").unlink()
    ws.tasuki("down").expect(0)
    eq(p.status("api")["state_name"], "Stopped", "after")


@test("an id that the file does not have: next is the one that was meant, with -f as it was given, and never all of them")
def _(ws):
    Processes(ws)
    write(ws, "Procfile", PROCFILE)
    write(ws, "other file", PROCFILE)
    for verb in ("up", "down"):
        for words, next in ((("wev",), f"tasuki {verb} web"), (("-f", "other file", "wev"), f"tasuki {verb} -f 'other file' web"),
                            (("mail-gateway",), "tasuki proc list")):
            eq(ws.tasuki("--json", verb, *words).expect(5).json["error"]["next"], [next], f"{verb} {words}")


@test("a file that names no process is refused with its name")
def _(ws):
    for name, text in (("Procfile", "# nothing yet\n"), ("Procfile", ""), ("process-compose.yaml", "processes: {}\n"),
                       ("tasuki.yaml", "version: 1\nprocesses: {}\n")):
        write(ws, name, text)
        for verb in ("up", "down"):
            refused = ws.tasuki("--json", verb).expect(2, "INVALID_INPUT")
            eq(refused.error["message"], f"{name} names no process", "the message")
            eq([one for one in refused.error["next"]], [f"tasuki {verb} -f FILE"], "next")


# -- whose it is ---------------------------------------------------------------------------------------------------------

@test("an id of another worktree is refused: both directories are named, and nothing is changed")
def _(ws):
    p = Processes(ws)

    def git(*words):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *words], cwd=ws.path, check=True, capture_output=True)

    write(ws, "Procfile", "web: exec sleep 1000\n")
    git("init", "-q")
    git("add", "Procfile")
    git("commit", "-q", "-m", "start")
    other = ws.base / "other"
    git("worktree", "add", "-q", str(other))
    ws.tasuki("up", "--detach").expect(0)
    pid = p.status("web")["pid"]
    (other / "Procfile").write_text("new: exec sleep 1000\nweb: exec sleep 2000\n")
    for words in (("up",), ("up", "--detach"), ("down",)):
        result = ws.tasuki(*words, cwd=other).expect(4)
        assert str(ws.path) in result.err and str(other) in result.err, result.err
    eq({id: one["pid"] for id, one in p.list().items()}, {"web": pid}, "what runs")
    p.stop("web")


@test("an export is for every checkout: up runs the code of the worktree, or of the clone, that it is in", slow=True)
def _(ws):
    def git(*words):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *words], cwd=ws.path, check=True, capture_output=True)

    p = Processes(ws)
    (ws.path / "front").mkdir()
    write(ws, "front/srv.sh", "exec sleep 1000\n")
    ws.tasuki("proc", "create", "web", "--", "sh", "srv.sh", cwd=ws.path / "front").expect(0)
    write(ws, "tasuki.yaml", ws.tasuki("proc", "export").expect(0).out)
    ws.tasuki("proc", "remove", "web", "--yes").expect(0)
    git("init", "-q")
    git("add", "tasuki.yaml", "front")
    git("commit", "-q", "-m", "start")
    tree, clone = ws.base / "feat", ws.base / "clone"
    git("worktree", "add", "-q", str(tree))
    git("clone", "-q", str(ws.path), str(clone))
    ws.tasuki("init", cwd=clone).expect(0)
    for place in (tree, clone):
        ws.tasuki("up", "--detach", cwd=place).expect(0)
        pid = ws.tasuki("--json", "proc", "status", "web", cwd=place).json["pid"]
        eq(os.readlink(f"/proc/{pid}/cwd"), str(place / "front"), "where it runs")
        ws.tasuki("down", cwd=place).expect(0)
    eq(states(p), {"web": "Stopped"}, "after down")


@test("an entry of the file in another worktree is refused; a directory in another repository is as good as any other")
def _(ws):
    def git(*words, cwd=ws.path):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *words], cwd=cwd, check=True, capture_output=True)

    p = Processes(ws)
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "start")
    tree, other = ws.base / "feat", ws.path / "part"
    git("worktree", "add", "-q", str(tree))
    other.mkdir()
    git("init", "-q", cwd=other)
    text = "version: 1\nprocesses:\n  new: {command: sleep, args: ['1000']}\n  web: {command: sleep, args: ['1000'], cwd: %s}\n"
    (tree / "tasuki.yaml").write_text(text % ws.path)
    for words in (("up",), ("up", "--detach")):
        refused = ws.tasuki(*words, cwd=tree).expect(4)
        assert f"web' of tasuki.yaml names {ws.path}" in refused.err and str(tree) in refused.err, refused.err
    eq(p.list(), {}, "what is registered")
    write(ws, "tasuki.yaml", text % "./part")
    for _ in range(2):
        ws.tasuki("up", "--detach").expect(0)
    eq((p.status("web")["cwd"], p.status("web").get("other_worktree")), (str(other), None), "where it runs")
    ws.tasuki("down").expect(0)


@test("an agent that would restart or stop what another living agent started is asked, and nothing is changed")
def _(ws):
    p = Processes(ws)
    write(ws, "Procfile", "web: exec sleep 1000\n")
    other = client(ws, "claude-code")
    other.ok("create_process", id="web", command="sleep", args=["500"], start=True)
    pid = p.status("web")["pid"]
    env = {"TASUKI_AGENT": "codex"}
    for words in (("up", "--detach"), ("down",)):
        result = ws.tasuki("--json", *words, env=env).expect(6)
        eq(result.json["error"]["reason_code"], "NEEDS_CONFIRMATION", "the code")
    eq((p.status("web")["pid"], p.status("web")["args"]), (pid, ["500"]), "what runs")
    ws.tasuki("up", "--detach", "--yes", env=env).expect(0)
    assert p.status("web")["pid"] != pid, "--yes has not restarted it"
    ws.tasuki("down", "--yes", env=env).expect(0)
    other.close()


@test("SIGINT of an agent's up leaves what another agent has restarted since, and names it; a person's stops it, and names it, too", slow=True)
def _(ws):
    p = Processes(ws)
    write(ws, "Procfile", "db: exec sleep 1000\nweb: exec sleep 1000\n")
    other = client(ws, "claude-code")
    whose = r"warning: web was started by claude-code \(pid \d+\), which is alive"
    for env, left in (({"TASUKI_AGENT": "alpha"}, {"web"}), ({}, set())):
        running = up(ws, env=env)
        for id in ("db", "web"):
            until_state(p, id, "Running", "ready")
        if env:
            ws.tasuki("proc", "stop", "web").expect(0)  # a person
            other.ok("start_process", id="web")
        else:
            other.ok("restart_process", id="web")
        running.send_signal(signal.SIGINT)
        err = ws.finish(running).expect(0).err
        eq(({id for id, state in states(p).items() if state == "Running"}, "since: web" in err), (left, bool(left)), "what runs on")
        assert re.search(whose, err) and "db was" not in err, err
        ws.tasuki("down").expect(0)
    other.close()


@test("a person whose up restarts what a living agent started reads whose it was, on the screen and with --detach", slow=True)
def _(ws):
    p = Processes(ws)
    other = client(ws, "claude-code")
    other.ok("create_process", id="web", command="sleep", args=["500"], start=True)
    p.create("old", ("sleep", "1000"))
    write(ws, "Procfile", "web: exec sleep 1000\n")
    whose = r"warning:? +web was started by claude-code \(pid \d+\), which is alive"
    running = up(ws)
    p.ws.until(lambda: p.status("web")["args"] != ["500"] and p.status("web")["state_name"] == "Running", "web is restarted")
    running.send_signal(signal.SIGINT)
    err = ws.finish(running).expect(0).err
    assert re.search(whose, err) and "has changed: web" in err and "left alone: old" in err, err
    other.ok("start_process", id="web")
    write(ws, "Procfile", "web: exec sleep 2000\n")
    out = ws.tasuki("up", "--detach").expect(0).out
    assert re.search(whose, out) and "has changed: web" in out and "left alone: old" in out, out
    again = ws.tasuki("up", "--detach").expect(0).out
    assert "warning" not in again and "another one" not in again, again
    ws.tasuki("down").expect(0)
    other.close()


# -- order, ends -----------------------------------------------------------------------------------------------------------

@test("up starts in the order of dependencies, says when each is ready, and why one ended; an id brings what it depends on")
def _(ws):
    p = Processes(ws)
    write(ws, "tasuki.yaml", SERVERS)
    screen = tasuki_screen(ws, "up", cols=100)
    screen.until_text("api | exited 1, again in ")
    screen.keys("C-c")
    eq(screen.ended(), 0, "exit code")
    out = screen.text()
    assert out.index("db  | ready") < out.index("web | started") and out.index("web | ready") < out.index("api | started"), out
    eq([line.split(" (pid")[0] for line in lines_of(out, "api")][:5],
       ["api | started", "api ! OSError: Address already in use", "api | exited 1", "api | started",
        "api ! OSError: Address already in use"], "the lines of api")
    answer = ws.tasuki("--json", "up", "web", "--detach").expect(0).json
    eq(sorted(one["id"] for one in answer["processes"]), ["db", "web"], "web, and what it depends on")
    stopped = ws.tasuki("--json", "down", "web").expect(0).json
    eq([one["id"] for one in stopped["processes"]], ["web"], "what down web stops")
    eq((states(p)["db"], states(p)["web"]), ("Running", "Stopped"), "what web depends on runs on")
    ws.tasuki("up", "web", "--detach").expect(0)
    ws.tasuki("down").expect(0)
    eq((states(p)["db"], states(p)["web"]), ("Stopped", "Stopped"), "down")


CHAIN = """version: 1
processes:
""" + "".join(f"""  {id}:
    command: sh
    args: [-c, 'trap "echo {id} ends >>ends; {work}; echo {id} gone >>ends; exit" TERM; echo up; while :; do sleep 0.1; done']
    ready: {{log: up}}
    depends_on: {{{needs}}}
""" for id, needs, work in (("a", "", "true"), ("b", "a: ready", "true"), ("c", "b: ready", "sleep 0.5"),
                            ("d", "a: ready", "true"), ("alone", "", "true")))

for name, stop in (("down", lambda ws: ws.tasuki("down").expect(0)),
                   ("proc stop --all", lambda ws: ws.tasuki("proc", "stop", "--all").expect(0)),
                   ("proc stop", lambda ws: ws.tasuki("proc", "stop", "a", "d", "c", "alone", "b").expect(0)),
                   ("proc restart --all", lambda ws: ws.tasuki("proc", "restart", "--all").expect(0)),
                   ("proc remove --force", lambda ws: ws.tasuki("proc", "remove", "a", "b", "c", "d", "alone", "--force").expect(0))):
    @test(f"{name} stops in reverse order of dependencies: what others need ends after all of those have gone")
    def _(ws, stop=stop):
        Processes(ws)
        write(ws, "tasuki.yaml", CHAIN)
        ws.tasuki("up", "--detach").expect(0)
        stop(ws)
        check_chain(ws)
        ws.tasuki("down").expect(0)


def check_chain(ws):
    ends = (ws.path / "ends").read_text().splitlines()
    eq(sorted(ends), sorted(f"{id} {end}" for id in ("a", "b", "c", "d", "alone") for end in ("ends", "gone")), "all ends")
    for id, needed in (("c", "b"), ("b", "a"), ("d", "a")):
        assert ends.index(f"{id} gone") < ends.index(f"{needed} ends"), ends


@test("SIGINT of up stops in reverse order of dependencies")
def _(ws):
    p = Processes(ws)
    write(ws, "tasuki.yaml", CHAIN)
    running = up(ws)
    until_state(p, "c", "Running", "ready")
    until_state(p, "d", "Running", "ready")
    running.send_signal(signal.SIGINT)
    ws.finish(running).expect(0)
    check_chain(ws)


@test("up ends by itself when all have ended: 0 if all ended well, else 7; --json prints a document per line", slow=True)
def _(ws):
    Processes(ws)
    write(ws, "Procfile", "one: echo first\ntwo: echo second >&2\n")
    ws.finish(up(ws)).expect(0)
    write(ws, "Procfile", "one: echo first\ntwo: echo second >&2; exit 3\n")
    documents = [json.loads(line) for line in ws.finish(up(ws, "--json")).expect(7).out.splitlines()]
    eq(sorted(documents[0]), ["completed", "file", "ignored", "left_alone", "restart", "running", "start"], "the first document")
    two = [one for one in documents[1:] if one["id"] == "two"]
    eq([one.get("state") or one["text"] for one in two], ["started", "second", "ended"], "two")
    eq(two[-1]["exit_code"], 3, "its exit code")


@test("a process that cannot be executed is named, and the others run")
def _(ws):
    p = Processes(ws)
    write(ws, "Procfile", "bad: /no/such/program\nweb: exec sleep 1000\n")
    running = up(ws)
    until_state(p, "web", "Running")
    running.send_signal(signal.SIGINT)
    result = ws.finish(running).expect(7)
    assert "/no/such/program" in result.err, result.err
    eq(states(p), {"bad": "NotStarted", "web": "Stopped"}, "afterwards")


@test("without a file, up proposes to write one: an export of what is registered, or a Procfile; down proposes to look")
def _(ws):
    Processes(ws)
    later = lambda verb: ws.tasuki(verb, "--json").expect(5).error["next"][1:]
    eq((later("up"), later("down")), (["echo 'NAME: COMMAND' > Procfile"], []), "with nothing")
    ws.tasuki("proc", "create", "web", "--", "sleep", "1000").expect(0)
    eq((later("up"), later("down")), (["tasuki proc export > tasuki.yaml"], ["tasuki proc list"]), "with a process")


@test("a process-compose.yaml without processes, or with a list of them, is told what is missing")
def _(ws):
    for text, why in (("web: {command: x}\n", "1:1: processes is missing"),
                      ("processes: [web]\n", "1:12: processes must be a map, such as {web: {command: ./server}}")):
        write(ws, "process-compose.yaml", text)
        assert f"process-compose.yaml:{why}\n" in ws.tasuki("up").expect(2).err, text


@test("an error that does not name its process has the name in front, also with --quiet", slow=True)
def _(ws):
    Processes(ws)
    write(ws, "Procfile", "one: exec sleep 1000\ntwo: exec sleep 1000\n")
    ws.tasuki("up", "--detach").expect(0)
    ws.tasuki("down").expect(0)
    guard = ws.path / ".aiflow/processes/.guard"
    guard.unlink()
    guard.mkdir()
    for words in [], ["--quiet"]:
        err = ws.finish(up(ws, *words)).expect(3).err
        eq([line.split(": ")[0] for line in err.splitlines() if str(guard) in line], ["one", "two"], err)
    guard.rmdir()


@test("a process that cannot be started comes with the command that helps, said once", slow=True)
def _(ws):
    Processes(ws)
    write(ws, "Procfile", "bad: /no/such/program\n")
    for words, count in ([], 1), (["--quiet"], 0):
        err = ws.finish(up(ws, *words)).expect(7).err
        assert "/no/such/program" in err, err
        eq(err.splitlines().count("next: tasuki proc status bad"), count, err)


@test("a second up, of which one is to be started, names those that run on after its SIGINT")
def _(ws):
    p = Processes(ws)
    write(ws, "Procfile", PROCFILE)
    ws.tasuki("up", "--detach").expect(0)
    p.stop("db")
    running = up(ws)
    until_state(p, "db", "Running")
    running.send_signal(signal.SIGINT)
    err = ws.finish(running).expect(0).err
    assert "starting db." in err and "not stopped by this call: web\n" in err, err
    eq(states(p), {"web": "Running", "db": "Stopped"}, "afterwards")
    ws.tasuki("down").expect(0)


@test("fifty processes that write as fast as they can: every line is shown, once and in order", slow=True)
def _(ws):
    Processes(ws)
    count, lines = 50, 1000
    text = f"i=0; while [ $i -lt {lines} ]; do i=$((i+1)); echo \"$0 $i abcdefghijklmnopqrstuvwxyz\"; done"
    processes = {f"p{n:02}": {"command": "sh", "args": ["-c", text, f"p{n:02}"]} for n in range(count)}
    write(ws, "tasuki.yaml", json.dumps({"version": 1, "processes": processes}))
    out = ws.finish(up(ws)).expect(0).out
    seen = {}
    for line in out.splitlines():
        name, _, rest = line.partition(" | ")
        if rest.startswith(name + " "):
            seen.setdefault(name, []).append(int(rest.split()[1]))
    eq({name: seen.get(name) == list(range(1, lines + 1)) for name in processes}, dict.fromkeys(processes, True), "all lines")


@test("examples/servers comes up in its order, and down stops it")
def _(ws):
    p = Processes(ws)
    example = pathlib.Path(__file__).resolve().parents[2] / "examples" / "servers" / "tasuki.yaml"
    write(ws, "tasuki.yaml", example.read_text())
    ws.tasuki("up", "--detach").expect(0)
    eq({id: (one["state_name"], one["phase"]) for id, one in p.list().items()},
       dict.fromkeys(("db", "api", "web"), ("Running", "ready")), "what runs")
    ws.tasuki("down").expect(0)
    eq(set(states(p).values()), {"Stopped"}, "afterwards")


main(__name__)
