"""Spec 8: the command line around the operations: help, errors, languages, init, status, events."""

import datetime
import itertools
import json
import os
import re

from common import check_error, run_as_nobody, run_held, sleeper
from harness.harness import Skip, eq, main, test

ESC = "\x1b"
STATE = ("locks", "events.ndjson", "events.lock", "state.db", "server.sock", "server.token", "runs", "processes")


# -- help and unknown words ---------------------------------------------------------------------------------

@test("help --all names every command and exits 0", init=False)
def _(ws):
    text = ws.tasuki("help", "--all").expect(0).out
    for word in ("lock", "sprint", "init", "status", "events", "version", "completion"):
        assert word in text, f"{word} is missing in:\n{text}"
    eq(ws.tasuki("--help", "--all").expect(0).out, text, "the output of --help --all")


@test("every noun and verb has --help, which needs no workspace", init=False)
def _(ws):
    for words in (["lock"], ["lock", "acquire"], ["lock", "release"], ["lock", "renew"], ["lock", "check"],
                  ["lock", "list"], ["lock", "run"], ["sprint"], ["sprint", "acquire"], ["sprint", "release"],
                  ["sprint", "check"], ["init"], ["status"], ["version"], ["events"], ["completion"]):
        result = ws.tasuki(*words, "--help").expect(0)
        assert words[-1] in result.out, result
        eq(ws.tasuki("help", *words).expect(0).out, result.out, f"the output of help {' '.join(words)}")


@test("the help of lock acquire names every option of spec 3", init=False)
def _(ws):
    text = ws.tasuki("lock", "acquire", "--help").expect(0).out
    for option in ("--session", "--run", "--epic", "--ttl", "--wait", "--pid", "--force", "--yes", "--kill"):
        assert option in text, f"{option} is missing in:\n{text}"


@test("an unknown noun, verb or option is exit 2 and the nearest word is suggested", init=False)
def _(ws):
    for words, nearest in ((["lokc", "list"], "lock"), (["lock", "aquire"], "acquire"), (["statsu"], "status"),
                           (["lock", "list", "--jsno"], "--json"), (["sprint", "chekc"], "check")):
        result = ws.tasuki(*words).expect(2)
        assert nearest in result.err, result
        eq(result.out, "", "stdout")


@test("a word that is near nothing gets no suggestion, but the way to the help", init=False)
def _(ws):
    result = ws.tasuki("xyzzyplugh").expect(2)
    assert "xyzzyplugh" in result.err and "help" in result.err, result


@test("usage errors: a missing value, a missing argument, one too many", init=False)
def _(ws):
    for words in (["lock", "acquire"], ["lock", "acquire", "name", "a", "--ttl"], ["lock", "list", "extra"],
                  ["version", "extra"], ["--lang"], ["--lang", "xx", "version"], ["version", "--json=x"]):
        result = ws.tasuki(*words)
        assert result.code == 2, result
        assert result.err and not result.out, result


# -- --json -------------------------------------------------------------------------------------------------

@test("with --json every error is one document with category, reason_code, message, context and next")
def _(ws):
    run_held(ws, "a")
    for words, code, reason in ((["lokc"], 2, "INVALID_INPUT"), (["lock", "aquire"], 2, "INVALID_INPUT"),
                                (["lock", "list", "--x"], 2, "INVALID_INPUT"),
                                (["lock", "acquire", "request", "../x"], 2, "INVALID_INPUT"),
                                (["lock", "acquire", "name", "a"], 4, "LOCK_HELD"),
                                (["--root", "missing", "lock", "list"], 5, "NOT_FOUND")):
        check_error(ws.tasuki("--json", *words), code, reason)


@test("--json works before the noun, after the verb and at the end")
def _(ws):
    for words in (["--json", "lock", "list"], ["lock", "list", "--json"], ["lock", "--json", "list"]):
        ws.tasuki(*words).expect(0).json
    ws.tasuki("lock", "acquire", "--json", "name", "a").expect(0).json


@test("a wrong value names the parameter as it is typed, and the command's help; documents keep the parameter's name")
def _(ws):
    for words, message, help in ((("run", "-j", "0", "x"), "--parallel: 0 is out of range (1 … 100000)", "tasuki run --help"),
                                 (("runs", "prune", "--keep", "x"), "--keep: 'x' is not a whole number (0 … 2147483647)", "tasuki runs prune --help"),
                                 (("init", "."), "unexpected argument '.'", "tasuki init --help"),
                                 (("lock", "acquire", "request"), "ID is missing", "tasuki lock acquire --help")):
        refused = ws.tasuki(*words).expect(2)
        eq(refused.err, f"tasuki: {message}\n  next      {help}\n", " ".join(words))
        eq(ws.tasuki("--json", *words).expect(2).json["error"]["next"], [help], "as a document")
    eq(ws.tasuki("--json", "run", "-j", "0", "x").json["error"]["context"]["param"], "parallel", "the name in a document")


@test("without --json an error goes to stderr and stdout stays empty")
def _(ws):
    result = ws.tasuki("lock", "acquire", "request", "../x").expect(2)
    assert result.err and not result.out, result


@test("options may be written --name=value and --name value, before and after the arguments")
def _(ws):
    pid = str(sleeper(ws).pid)
    ws.tasuki("lock", "acquire", "--pid", pid, "name", "a").expect(0)
    ws.tasuki("lock", "acquire", f"--pid={pid}", "name", "b").expect(0)
    ws.tasuki("lock", "acquire", "name", "c", f"--pid={pid}").expect(0)


@test("when stdout cannot be written the exit code is not 0")
def _(ws):
    result = ws.run(["sh", "-c", '"$0" version > /dev/full', ws.binary])
    assert result.code != 0, result


@test("more output than fits a buffer into a full disk is an error: of lists, of --json and of logs")
def _(ws):
    pid = str(sleeper(ws).pid)
    for number in range(40):
        ws.tasuki("lock", "acquire", "name", f"a-name-that-is-long-enough-to-fill-a-buffer-soon-{number}", "--pid", pid).expect(0)
    ws.tasuki("proc", "create", "talks", "--", "sh", "-c", "seq 5000").expect(0)
    ws.tasuki("proc", "start", "talks").expect(0)
    ws.until(lambda: ws.tasuki("--json", "proc", "status", "talks").json["state_name"] == "Stopped", "the process ends")
    for words in (["lock", "list"], ["--json", "lock", "list"], ["proc", "logs", "talks", "-n", "2000"],
                  ["--json", "proc", "logs", "talks", "-n", "2000"], ["--json", "events"]):
        size = len(ws.tasuki(*words).expect(0).out)
        assert size > 4096, f"{words} prints {size} bytes only"
        result = ws.run(["sh", "-c", '"$0" "$@" > /dev/full', ws.binary, *words]).expect(3)
        assert "Cannot write the output: No space left on device" in result.err, result


@test("a last line without its end is printed without one, and a whole line with one")
def _(ws):
    for id, text, shown in (("open", "a\\nb", "a\nb"), ("whole", "a\\nb\\n", "a\nb\n")):
        ws.tasuki("proc", "create", id, "--", "sh", "-c", f"printf '{text}'").expect(0)
        ws.tasuki("proc", "start", id).expect(0)
        ws.until(lambda: ws.tasuki("--json", "proc", "status", id).json["state_name"] == "Stopped", "the process ends")
        eq(ws.tasuki("proc", "logs", id).expect(0).out, shown, f"the output of {id}")


@test("a mistake in the words is named in one line, with the way to the help; advice about the machine is not given")
def _(ws):
    result = ws.tasuki("lock", "acquire", "request", "no/id").expect(2)
    eq(result.err.splitlines()[1:], ["  next      tasuki lock acquire --help"], f"lines of {result.err!r}")
    assert len(ws.run(["sh", "-c", '"$0" version > /dev/full', ws.binary]).err.splitlines()) > 1, "advice is given otherwise"


@test("the status of a process that failed says how, behind its label")
def _(ws):
    ws.tasuki("proc", "create", "bad", "--", "sh", "-c", "exit 1").expect(0)
    ws.tasuki("proc", "start", "bad").expect(7)
    shown = ws.tasuki("proc", "status", "bad").out
    assert re.search(r"^  error +Process exited with code 1$", shown, re.MULTILINE), shown
    assert "bad" in ws.tasuki("proc", "list").out


# -- languages and colours ----------------------------------------------------------------------------------

@test("--lang ja, zh and en change the messages, not the codes")
def _(ws):
    ws.tasuki("lock", "acquire", "queue").expect(0)
    messages = {}
    for lang in ("ja", "zh", "en"):
        error = check_error(ws.tasuki("--lang", lang, "lock", "acquire", "queue", "--json"), 4, "QUEUE_IN_PROGRESS")
        messages[lang] = error["message"]
    eq(len(set(messages.values())), 3, "number of different messages")
    assert re.search("[ぁ-んァ-ン]", messages["ja"]) and re.search("[一-鿿]", messages["zh"]), messages
    assert messages["en"].isascii(), messages


@test("TASUKI_LANG, then LANG choose the language; an unknown one is English")
def _(ws):
    ws.tasuki("lock", "acquire", "queue").expect(0)

    def message(**env):
        return ws.tasuki("lock", "acquire", "queue", "--json", env=env).expect(4).error["message"]

    japanese, english = message(TASUKI_LANG="ja"), message(TASUKI_LANG="en")
    assert japanese != english
    eq(message(TASUKI_LANG=None, LANG="ja_JP.UTF-8"), japanese, "message with LANG")
    eq(message(TASUKI_LANG="en", LANG="ja_JP.UTF-8"), english, "message with both")
    eq(message(TASUKI_LANG=None, LANG="fr_FR.UTF-8"), english, "message with an unknown LANG")


@test("no colours without a terminal, with NO_COLOR, with --no-color, or without TERM")
def _(ws):
    run_held(ws, "a")
    for result in (ws.tasuki("lock", "list"), ws.tasuki("status"), ws.tasuki("lock", "acquire", "name", "a"),
                   ws.tty(["status"], env={"NO_COLOR": "1", "TERM": "xterm-256color"}),
                   ws.tty(["status"], env={"TERM": None}), ws.tty(["status"], env={"TERM": ""}),
                   ws.tty(["--no-color", "lock", "list"], env={"TERM": "xterm-256color"})):
        assert ESC not in result.out + result.err, result


@test("control characters from files and arguments are escaped on the terminal")
def _(ws):
    session = f"{ESC}[31mred{ESC}]0;title\x07\r\x08\x9b2J"
    pid = sleeper(ws).pid
    ws.tasuki("lock", "acquire", "name", "a", "--pid", pid, "--session", session)
    ws.write_lock("request", "RQ-1", {"version": "1.0", "lock_type": "request", "request_id": "RQ-1",
                                      "run_id": session, "pid": pid, "host": session,
                                      "created_at": "2099-01-01T00:00:00Z", "expires_at": "2099-01-01T00:00:00Z"})
    for args in (["lock", "list"], ["status"], ["lock", "acquire", "request", "RQ-1"], ["events"],
                 ["lock", "acquire", "name", "a"], [f"{ESC}[31m"], ["lock", "acquire", "name", f"a{ESC}[2J"]):
        result = ws.tasuki(*args)
        for bad in (ESC, "\x07", "\r", "\x08", "\x9b"):
            assert bad not in result.out + result.err, f"{bad!r} came through {args}\n{result}"


# -- version, init, status ----------------------------------------------------------------------------------

@test("version --json needs no workspace", init=False)
def _(ws):
    value = ws.tasuki("version", "--json").expect(0).json
    assert re.match(r"^\d+\.\d+\.\d+", value["version"]), value
    assert value["version"] in ws.tasuki("version").expect(0).out
    assert value["version"] in ws.tasuki("--version").expect(0).out


@test("init creates a workspace; a second init changes nothing", init=False)
def _(ws):
    ws.tasuki("init", "--json").expect(0).json
    assert (ws.path / ".aiflow").is_dir()
    (ws.path / ".aiflow/config.yaml").write_text("# mine\n")
    before = {p: p.read_bytes() for p in ws.path.rglob("*") if p.is_file() and p.name in (".gitignore", "config.yaml")}
    ws.tasuki("init").expect(0)
    for path, content in before.items():
        eq(path.read_bytes(), content, str(path))


@test("init adds to .gitignore what it does not say yet, each on a line of its own, and leaves the rest as it is", init=False)
def _(ws):
    ours = "/.sprint-running\n/.sprint-running.tmp\n"
    for number, (before, after) in enumerate((
            ("", ours), ("a", "a\n" + ours), ("a\n", "a\n" + ours), ("a\n\n", "a\n\n" + ours), (ours, ours), (ours[:-1], ours[:-1]),
            ("/.sprint-running\n", ours), ("/.sprint-running\r\n/.sprint-running.tmp\r\n",) * 2,
            ("/.sprint-running2\n", "/.sprint-running2\n" + ours), ("x/.sprint-running", "x/.sprint-running\n" + ours))):
        root = ws.path / str(number)
        root.mkdir()
        (root / ".gitignore").write_bytes(before.encode())
        ws.tasuki("init", cwd=root).expect(0)
        eq((root / ".gitignore").read_bytes().decode(), after, f"what {before!r} becomes")


@test("init ignores everything in .aiflow but config, requests and flows, and the sprint lock beside it", init=False)
def _(ws):
    (ws.path / ".gitignore").write_text("node_modules")  # without a newline at the end
    ws.tasuki("init").expect(0)
    lines = (ws.path / ".gitignore").read_text().splitlines()
    eq(lines[0], "node_modules", "the line that was there")
    assert "/.sprint-running" in lines and "/.sprint-running.tmp" in lines, lines
    if ws.run(["git", "init", "-q"]).code != 0:
        raise Skip("git is not installed")
    for name, ignored in [(n, True) for n in STATE] + [("config.yaml", False), ("requests/RQ-1.yaml", False),
                                                       ("flows/f.yaml", False)]:
        code = ws.run(["git", "check-ignore", "-q", f".aiflow/{name}"]).code
        eq(code == 0, ignored, f"whether git ignores .aiflow/{name}")
    eq(ws.run(["git", "check-ignore", "-q", ".sprint-running"]).code, 0, "git check-ignore .sprint-running")
    ws.tasuki("init").expect(0)
    eq((ws.path / ".gitignore").read_text().splitlines().count("/.sprint-running"), 1, "number of lines")


@test("init where the directory cannot be written: exit 3, nothing half done", init=False)
def _(ws):
    ws.path.chmod(0o555)
    result = run_as_nobody(ws, [ws.binary, "init", "--json"])
    ws.path.chmod(0o755)
    check_error(result, 3, "ENVIRONMENT")
    eq(os.listdir(ws.path), [], "files")


@test("status shows the workspace and its locks, dead holders included")
def _(ws):
    holder = sleeper(ws)
    ws.tasuki("lock", "acquire", "name", "deploy", "--pid", holder.pid).expect(0)
    text = ws.tasuki("status").expect(0).out
    assert "deploy" in text and str(holder.pid) in text, text
    value = ws.tasuki("status", "--json").expect(0).json
    assert "deploy" in json.dumps(value), value


# -- events -------------------------------------------------------------------------------------------------

@test("events lists what happened: each has id, time, type and data, ids grow")
def _(ws):
    ws.tasuki("lock", "acquire", "name", "a", "--session", "s-1").expect(0)
    ws.tasuki("lock", "release", "name", "a").expect(0)
    events = read_events(ws.tasuki("events", "--json").expect(0).out)
    assert len(events) >= 2, events
    for event in events:
        assert {"id", "time", "type", "data"} <= set(event), event
    ids = [event["id"] for event in events]
    eq(ids, sorted(set(ids)), "the ids")
    text = ws.tasuki("events").expect(0).out
    assert events[-1]["type"] in text, text


def read_events(text):
    try:
        value = json.loads(text)
        return value["events"] if isinstance(value, dict) and "events" in value else [value]
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


@test("events -f prints new events as they happen, one JSON document per line")
def _(ws):
    ws.tasuki("lock", "acquire", "name", "before").expect(0)
    out = open(ws.base / "follow", "w+")
    proc = ws.spawn("events", "-f", "--json", stdout=out)
    try:
        for name in ("one", "two", "three"):
            ws.tasuki("lock", "acquire", "name", name).expect(0)
            ws.until(lambda: name in (ws.base / "follow").read_text(), f"the event of {name} is printed")
    finally:
        out.close()
    for line in (ws.base / "follow").read_text().splitlines():
        json.loads(line)
    proc.terminate()
    proc.wait(60)


@test("events -f ends when its reader goes away")
def _(ws):
    proc = ws.spawn("events", "-f", "--json")
    ws.tasuki("lock", "acquire", "name", "one").expect(0)
    assert proc.stdout.readline()
    proc.stdout.close()
    proc.stdout = None

    def has_ended():
        ws.tasuki("lock", "acquire", "name", "two")
        ws.tasuki("lock", "release", "name", "two")
        return proc.poll() is not None

    ws.until(has_ended, "events -f notices that nobody reads")


@test("what the caller has closed of 0, 1 and 2 is not given to a file of ours, which output would go into")
def _(ws):
    look = "for fd in 0 1 2; do readlink /proc/$PPID/fd/$fd; done > seen"
    proc = ws.spawn_command(["sh", "-c", 'exec "$0" lock run a -- sh -c "$1" <&- >&- 2>&-', ws.binary, look])
    eq((proc.wait(60), (ws.path / "seen").read_text().split()), (0, ["/dev/null"] * 3))


@test("a torn last line in the trail is closed and skipped")
def _(ws):
    ws.tasuki("lock", "acquire", "name", "a").expect(0)
    with open(ws.path / ".aiflow/events.ndjson", "a") as trail:
        trail.write('{"id": 99, "type": "TORN')
    ws.tasuki("lock", "release", "name", "a").expect(0)
    events = read_events(ws.tasuki("events", "--json").expect(0).out)
    assert not any("TORN" in e["type"] for e in events), events
    assert len(events) >= 2, events


@test("help and completion are JSON as well, and describe every operation")
def _(ws):
    operations = ws.tasuki("help", "--json").expect(0).json["operations"]
    names = [operation["name"] for operation in operations]
    assert "lock.acquire" in names and "init" in names, names
    for operation in operations:
        words = list(itertools.takewhile(str.islower, operation["usage"].split()[1:]))
        only = ws.tasuki(*words, "--help", "--json").expect(0).json["operations"]
        eq([one["name"] for one in only], [operation["name"]])
    eq(len(ws.tasuki("lock", "--help", "--json").expect(0).json["operations"]), 6)
    ws.tasuki("help", "nope", "--json").expect(2, "INVALID_INPUT")
    assert "complete" in ws.tasuki("completion", "bash", "--json").expect(0).json["script"]


@test("what is missing is named as the usage line names it")
def _(ws):
    for words, missing in ((["agent", "loop"], "AGENT"), (["agent", "loop", "a", "b"], "--max-iterations"), (["lock", "acquire"], "KIND"),
                           (["lock", "run", "x"], "-- CMD…"), (["request", "add"], "TITLE")):
        result = ws.tasuki(*words).expect(2)
        assert result.err.startswith(f"tasuki: {missing} is missing\n"), result.err
        assert missing in ws.tasuki(*words[:2], "--help").expect(0).out, f"{missing} is not in the usage line of {words}"


@test("completion of wait offers what its kind has")
def _(ws):
    ws.tasuki("proc", "create", "web", "--", "true").expect(0)
    run_held(ws, "deploy")
    offered = {kind: ws.tasuki("__complete", "wait", kind, "").expect(0).out.split() for kind in ("process", "lock")}
    eq(offered, {"process": ["web"], "lock": ["deploy"]})


@test("a root that is a file is no directory, and nothing that cannot work is offered")
def _(ws):
    (ws.path / "f").write_text("")
    error = check_error(ws.tasuki("--root", "f", "status", "--json"), 5, "NOT_FOUND", "NOT_FOUND")
    assert not any("init" in command for command in error["next"]), error


@test("with --json a missing command is an error like any other; a noun alone shows its verbs")
def _(ws):
    for words in ((), ("lock",)):
        check_error(ws.tasuki("--json", *words), 2, "INVALID_INPUT")
    assert "Usage" in ws.tasuki("lock").expect(2).out


@test("a flag with a value, and --root without one, are refused with the reason")
def _(ws):
    assert "takes no value" in ws.tasuki("--json=true", "status").expect(2).err
    assert "needs a value" in ws.tasuki("--root=", "status").expect(2).err
    assert "needs a value" in ws.tasuki("--root", "", "status").expect(2).err


@test("where documents come line by line, a wrong argument is one line, too")
def _(ws):
    result = ws.tasuki("run", "flow.yaml", "--set", "bad", "--json").expect(2)
    eq(len(result.out.splitlines()), 1, "lines")
    check_error(result, 2, "INVALID_INPUT")


# -- times --------------------------------------------------------------------------------------------------

@test("local times follow TZ, with its offsets and its rules for the summer")
def _(ws):
    rules = [f"AAA{m}:15BBB,M{m}.1.0/1:30,M{(m + 4) % 12 + 1}.2.3/2:00:30" for m in range(1, 13)]
    for zone in ("UTC0", "JST-9", "AAA-12:45", "AAA+3:30:00BBB-1,J60,J300/4", *rules):
        check = (ws.binary, "lock", "check", "name", "l", "--json")
        held = ws.tasuki("lock", "run", "l", "--", *check, env={"TZ": zone}).expect(4)  # it is held
        created = datetime.datetime.fromisoformat(held.json["created_at"])
        theirs = ws.run(["date", "-d", f"@{int(created.timestamp())}", "+%Y-%m-%dT%H:%M:%S%:z"], env={"TZ": zone}).expect(0).out
        eq(held.json["created_at"], theirs.strip(), f"the time with TZ={zone}")


main(__name__)
