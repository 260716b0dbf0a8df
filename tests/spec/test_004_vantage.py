"""Seed 004 (Vantage): its test cases, its six errors, its states and operations; ids and secrets.

The table of states and operations is spelled out: one test per cell.
"""

import json
import os
import re
import shutil

from harness.harness import Skip, eq, main, test
from harness.processes import SLEEP, Processes, command_line_of, environment_of, send, stat_fields
from harness.race import race
from spec.common import NOBODY, need_root, parse_time

WARNING_JA = "プロセスは実行中です。削除する前に停止してください。"
ISO_UTC = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")
RECORD_KEYS = {"id", "command", "args", "env", "cwd", "state", "auto_start_on_restore", "created_at", "updated_at",
               "state_name", "phase", "pid", "restarts", "run", "restart", "log"}


# -- the seed's test cases -----------------------------------------------------------------------------------

@test("TC-001 a process is created NotStarted, started Running, stopped Stopped")
def _(ws):
    p = Processes(ws)
    eq(p.create("web")["state"], "NotStarted", "the state after create")
    running = p.start("web")
    eq(running["state"]["Running"]["pid"], running["pid"], "the pid in the state")
    assert ws.alive(running["pid"]), "it does not run"
    stopped = p.stop("web")
    eq(stopped["state"]["Stopped"]["exit_code"], 0, "the exit code after stop")
    assert not ws.alive(running["pid"]), "it still runs after stop"
    p.nothing_runs()


@test("TC-002 a process that fails at once becomes Failed with its exit code and an error message")
def _(ws):
    p = Processes(ws)
    p.script("bad", "exit 1")
    p.start("bad")
    failed = p.until_state("bad", "Failed")["state"]["Failed"]
    eq((failed["exit_code"], failed["error"]), (1, "Process exited with code 1"), "exit_code and error")


@test("TC-003 stopping a process that was never started is ProcessNotRunning")
def _(ws):
    p = Processes(ws)
    p.create("web")
    p.call("stop", "web").expect(4, "ProcessNotRunning")
    eq(p.status("web")["state"], "NotStarted", "the state")


@test("TC-004 of two simultaneous starts one succeeds and the other is ProcessAlreadyRunning", slow=True)
def _(ws):
    p = Processes(ws)
    p.create("web")
    for _ in range(5):
        answers = race(ws, [[ws.binary, "--json", "proc", "start", "web"]] * 2)
        eq(sorted(code for code, _ in answers), [0, 4], "the exit codes")
        refusal = next(out for code, out in answers if code == 4)
        assert "ProcessAlreadyRunning" in refusal, refusal
        p.one_copy_runs("web", p.status("web"))
        p.stop("web")
    p.nothing_runs()


# -- the six errors --------------------------------------------------------------------------------------------

def check_error(result, code, name, message, id):
    result.expect(code, name)
    eq(result.error["message"], message, "the message")
    eq(result.error["context"].get("process_id", result.error["context"].get("id")), id, "the id in the context")


@test("ProcessNotFound: every operation on an unknown id says so (exit 5) and names the nearest one")
def _(ws):
    p = Processes(ws)
    p.create("backend")
    for words in (["start"], ["stop"], ["restart"], ["status"], ["remove"], ["remove", "--force"], ["logs"],
                  ["update", "--restart", "no"]):
        result = p.call(words[0], "backent", *words[1:])
        check_error(result, 5, "ProcessNotFound", "Process 'backent' not found", "backent")
        eq(result.error["category"], "NOT_FOUND", "the category")
    assert "backend" in json.dumps(p.call("start", "backent").error), "the nearest id is not offered"


@test("ProcessAlreadyExists: a second create of an id is refused (exit 4) and changes nothing")
def _(ws):
    p = Processes(ws)
    before = p.create("web", ("sleep", "1"))
    check_error(p.call("create", "web", "--", "sleep", "2"), 4, "ProcessAlreadyExists", "Process 'web' already exists", "web")
    after = p.status("web")
    eq([after[key] for key in ("args", "state", "updated_at")], [before[key] for key in ("args", "state", "updated_at")],
       "the record")


@test("ProcessAlreadyRunning: a second start is refused (exit 4) and the first process goes on")
def _(ws):
    p = Processes(ws)
    pid = p.run("web")["pid"]
    check_error(p.call("start", "web"), 4, "ProcessAlreadyRunning", "Process 'web' is already running", "web")
    eq(p.status("web")["pid"], pid, "the pid")


@test("ProcessNotRunning: stopping what does not run is refused (exit 4)")
def _(ws):
    p = Processes(ws)
    p.create("web")
    check_error(p.call("stop", "web"), 4, "ProcessNotRunning", "Process 'web' is not running", "web")


@test("ProcessStartFailed: a command that cannot be executed is reported at once (exit 7) with the reason")
def _(ws):
    p = Processes(ws)
    p.create("web", ("/nonexistent/command",))
    result = p.call("start", "web").expect(7, "ProcessStartFailed")
    message = result.error["message"]
    assert message.startswith("Failed to start process 'web': "), message
    assert "No such file or directory" in message and "/nonexistent/command" in message, message
    eq(p.status("web")["state"], "NotStarted", "the state after a start that failed")


@test("ProcessStopFailed: a process that outlives SIGKILL is reported (exit 7) with the reason", slow=True)
def _(ws):
    # It has become another user's, as with sudo: whoever started it may not end it.
    need_root("a process that its starter may not end")
    tasuki = as_nobody(ws)
    becomes_root = ws.base / "setpriv"
    shutil.copy(shutil.which("setpriv"), becomes_root)
    becomes_root.chmod(0o4755)
    p = Processes(ws)
    tasuki("create", "db", "--", becomes_root, "--reuid=0", "--regid=0", "--clear-groups", "sleep", "1000").expect(0)
    pid = tasuki("start", "db").expect(0).json["pid"]
    ws.until(lambda: os.stat(f"/proc/{pid}").st_uid == 0 and command_line_of(pid)[0] == "sleep", "it is root's")
    result = tasuki("stop", "db", "--grace", "50").expect(7, "ProcessStopFailed")
    message = result.error["message"]
    assert message.startswith("Failed to stop process 'db': ") and str(pid) in message, message
    eq(tasuki("status", "db").expect(0).json["state_name"], "Running", "the state while it lives")
    send(pid)
    p.until_gone(pid)
    ws.until(lambda: tasuki("status", "db").json["state_name"] == "Stopped", "it is Stopped when it has ended")
    p.nothing_runs()


def as_nobody(ws):
    """A function that runs `tasuki --json proc …` without privileges, in a workspace of that user."""
    if not shutil.which("setpriv"):
        raise Skip("setpriv is not installed")
    programs = ws.base / "bin"
    programs.mkdir()
    for program in (ws.binary, ws.build / "tasuki-hold"):
        shutil.copy2(program, programs)
    ws.base.chmod(0o755)
    for folder, names, files in os.walk(ws.path):
        for name in [folder] + [os.path.join(folder, n) for n in names + files]:
            os.chown(name, NOBODY, NOBODY)
    prefix = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", programs / "tasuki", "--json", "proc"]
    return lambda *words: ws.run(prefix + list(words))


@test("update --env changes the variables that it names; --env-clear drops the others")
def _(ws):
    p = Processes(ws)
    p.create("web", SLEEP, "--env", "A=1", "--env", "B=2")
    eq(p.call("update", "web", "--env", "B=3", "--env", "C=4").expect(0).json["env"], {"A": "1", "B": "3", "C": "4"})
    eq(p.call("update", "web", "--env-clear", "--env", "D=5").expect(0).json["env"], {"D": "5"})
    eq(p.call("update", "web", "--env-clear").expect(0).json["env"], {})


@test("root who only looks does not start another user's command, whatever its policy says")
def _(ws):
    need_root("another user")
    tasuki = as_nobody(ws)
    p = Processes(ws)
    tasuki("create", "web", "--restart", "always", "--auto-start", "--", "sh", "-c", f"id -u >> {ws.path}/born; exec sleep 1000").expect(0)
    record = tasuki("start", "web").expect(0).json
    ws.until(lambda: (ws.path / "born").exists() and (ws.path / "born").read_text(), "it is born")
    send(record["holder_pid"])
    send(record["pid"])
    p.until_gone(record["holder_pid"], record["pid"])
    for words in (("proc", "status", "web"), ("proc", "list"), ("doctor",), ("status",)):
        ws.tasuki(*words)
        eq((ws.path / "born").read_text(), f"{NOBODY}\n", f"births after {' '.join(words)}")
    p.nothing_runs()
    tasuki("status", "web").expect(0)  # its own user: the policy starts it again
    ws.until(lambda: (ws.path / "born").read_text() == f"{NOBODY}\n" * 2, "its second birth")
    tasuki("stop", "web").expect(0)


@test("an error without --json says what is wrong and what to do, on stderr")
def _(ws):
    result = ws.tasuki("proc", "start", "nope").expect(5)
    eq(result.out, "", "stdout")
    assert "Process 'nope' not found" in result.err and "tasuki proc" in result.err, result


# -- states × operations: every cell -----------------------------------------------------------------------------

def make_not_started(p):
    p.create("web")


def make_running(p):
    p.run("web")


def make_stopped(p):
    p.run("web")
    p.stop("web")


def make_failed(p):
    # The first run fails, later ones stay: a start of a failed process is to be seen running.
    p.script("web", "if mkdir ran; then exit 3; fi; exec sleep 1000", "--cwd", str(p.ws.base))
    p.start("web")
    p.until_state("web", "Failed")


MAKERS = {"NotStarted": make_not_started, "Running": make_running, "Stopped": make_stopped, "Failed": make_failed}


def check_started(p):
    p.one_copy_runs("web", p.call("start", "web").expect(0).json)
    p.one_copy_runs("web", p.status("web"))


def check_stopped(p):
    pid = p.status("web")["pid"]
    eq(p.call("stop", "web").expect(0).json["state_name"], "Stopped", "the state after stop")
    assert not p.ws.alive(pid), "it still runs"
    eq(p.status("web")["state"]["Stopped"]["exit_code"], 0, "the exit code")


def check_removed(p, *options):
    value = p.call("remove", "web", *options).expect(0).json
    eq((value["id"], value["removed"]), ("web", True), "the answer")
    p.call("status", "web").expect(5, "ProcessNotFound")
    eq(os.path.lexists(p.dir("web")), False, "whether its directory is still there")
    p.nothing_runs()


def check_refused(p, code, reason, *words):
    before = p.status("web")
    p.call(words[0], "web", *words[1:]).expect(code, reason)
    after = p.status("web")
    for key in ("state", "pid", "run"):
        eq(after[key], before[key], f"{key} after the refusal")
    if before["pid"]:
        p.one_copy_runs("web", after)


CELLS = (
    ("NotStarted", "start", "becomes Running", check_started),
    ("NotStarted", "stop", "is ProcessNotRunning", lambda p: check_refused(p, 4, "ProcessNotRunning", "stop")),
    ("NotStarted", "remove", "is removed", check_removed),
    ("NotStarted", "remove --force", "is removed", lambda p: check_removed(p, "--force")),
    ("Running", "start", "is ProcessAlreadyRunning", lambda p: check_refused(p, 4, "ProcessAlreadyRunning", "start")),
    ("Running", "stop", "becomes Stopped", check_stopped),
    ("Running", "remove", "is NEEDS_CONFIRMATION", lambda p: check_refused(p, 6, "NEEDS_CONFIRMATION", "remove")),
    ("Running", "remove --force", "is stopped, then removed", lambda p: check_removed(p, "--force")),
    ("Stopped", "start", "becomes Running", check_started),
    ("Stopped", "stop", "is ProcessNotRunning", lambda p: check_refused(p, 4, "ProcessNotRunning", "stop")),
    ("Stopped", "remove", "is removed", check_removed),
    ("Stopped", "remove --force", "is removed", lambda p: check_removed(p, "--force")),
    ("Failed", "start", "becomes Running", check_started),
    ("Failed", "stop", "is ProcessNotRunning", lambda p: check_refused(p, 4, "ProcessNotRunning", "stop")),
    ("Failed", "remove", "is removed", check_removed),
    ("Failed", "remove --force", "is removed", lambda p: check_removed(p, "--force")),
)
assert {(state, operation) for state, operation, _, _ in CELLS} == {
    (state, operation) for state in MAKERS for operation in ("start", "stop", "remove", "remove --force")}

for _state, _operation, _outcome, _check in CELLS:
    @test(f"{_state} × {_operation}: {_outcome}")
    def _(ws, state=_state, check=_check):
        p = Processes(ws)
        MAKERS[state](p)
        eq(p.status("web")["state_name"], state, "the state to begin with")
        check(p)


# -- the wire form ---------------------------------------------------------------------------------------------------

@test("the state is written as the seed's enum serialises: NotStarted is a string")
def _(ws):
    p = Processes(ws)
    created = p.create("web")
    eq((created["state"], created["state_name"], created["pid"], created["run"]), ("NotStarted", "NotStarted", None, 0),
       "state, state_name, pid, run")
    eq(p.status("web")["state"], "NotStarted", "the state after create")


@test("the state is written as the seed's enum serialises: Running has exactly pid and started_at")
def _(ws):
    p = Processes(ws)
    running = p.run("web")
    eq((list(running["state"]), set(running["state"]["Running"])), (["Running"], {"pid", "started_at"}), "the form")
    assert ISO_UTC.match(running["state"]["Running"]["started_at"]), running["state"]
    eq((running["state_name"], running["run"]), ("Running", 1), "state_name, run")
    eq(p.list()["web"]["state"], running["state"], "the state in the list")


@test("the state is written as the seed's enum serialises: Stopped has exactly exit_code, started_at, stopped_at")
def _(ws):
    p = Processes(ws)
    started_at = p.run("web")["state"]["Running"]["started_at"]
    stopped = p.stop("web")
    eq((list(stopped["state"]), set(stopped["state"]["Stopped"])),
       (["Stopped"], {"exit_code", "started_at", "stopped_at"}), "the form")
    state = stopped["state"]["Stopped"]
    eq((state["exit_code"], state["started_at"]), (0, started_at), "exit_code and started_at")
    assert ISO_UTC.match(state["stopped_at"]) and state["stopped_at"] >= started_at, state
    eq((stopped["state_name"], stopped["pid"]), ("Stopped", None), "state_name and pid")


@test("the state is written as the seed's enum serialises: Failed has exactly exit_code, error, started_at, stopped_at")
def _(ws):
    p = Processes(ws)
    p.script("bad", "exit 3")
    p.start("bad")
    failed = p.until_state("bad", "Failed")
    eq((list(failed["state"]), set(failed["state"]["Failed"])),
       (["Failed"], {"exit_code", "error", "started_at", "stopped_at"}), "the form")
    eq((failed["state"]["Failed"]["exit_code"], failed["pid"]), (3, None), "exit_code and pid")


@test("a record has the seed's keys with the values that were given, and ours beside them")
def _(ws):
    p = Processes(ws)
    (ws.path / "sub").mkdir()
    value = p.create("web", ("sh", "-c", "exec sleep 1000", ""), "--env", "PORT=3000", "--env", "EMPTY=", "--env", "EQ=a=b",
                     "--cwd", "sub", "--auto-start", "--restart", "on-failure")
    missing = RECORD_KEYS - value.keys()
    assert not missing, f"missing: {missing}"
    eq((value["id"], value["command"], value["args"]), ("web", "sh", ["-c", "exec sleep 1000", ""]), "id, command, args")
    eq(value["env"], {"PORT": "3000", "EMPTY": "", "EQ": "a=b"}, "env")
    eq((value["cwd"], value["auto_start_on_restore"]), (str(ws.path / "sub"), True), "cwd, auto_start_on_restore")
    eq((value["restart"], value["log"]["mode"]), ("on-failure", "direct"), "restart and log mode")
    assert ISO_UTC.match(value["created_at"]) and ISO_UTC.match(value["updated_at"]), value


@test("the process gets its arguments, environment and working directory as they were given")
def _(ws):
    p = Processes(ws)
    (ws.path / "sub").mkdir()
    p.run("web", ("sh", "-c", 'printf "%s\\n" "$@" "$ODD" "$PWD" > ../out.tmp; mv ../out.tmp ../out', "sh", "", "a b", "*",
                  "--json", "日本"), "--env", "ODD=x  y=$HOME", "--cwd", "sub")
    eq(ws.until_file("out").splitlines(), ["", "a b", "*", "--json", "日本", "x  y=$HOME", str(ws.path / "sub")], "what it saw")


@test("list has all processes sorted by id with their number, and can be filtered by state")
def _(ws):
    p = Processes(ws)
    for id in ("b", "a", "c"):
        p.create(id)
    p.start("b")
    value = p.call("list").expect(0).json
    eq(([one["id"] for one in value["processes"]], value["total"]), (["a", "b", "c"], 3), "ids and total")
    eq([one["id"] for one in p.call("list", "--state", "Running").expect(0).json["processes"]], ["b"], "running ones")
    p.call("list", "--state", "Sleeping").expect(2, "INVALID_INPUT")


@test("several ids: each has its answer, and the exit code is the first error's")
def _(ws):
    p = Processes(ws)
    p.create("a")
    p.create("b")
    value = p.call("start", "a", "nope", "b").expect(5).json
    eq(sorted(one["id"] for one in value["processes"]), ["a", "b"], "what was started")
    eq([(e["id"], e["error"]["reason_code"]) for e in value["errors"]], [("nope", "ProcessNotFound")], "errors")
    p.one_copy_runs("a", p.status("a"))
    p.one_copy_runs("b", p.status("b"))
    value = p.call("stop", "--all").expect(0).json
    eq(sorted(one["state_name"] for one in value["processes"]), ["Stopped", "Stopped"], "after stop --all")
    p.nothing_runs()


@test("a started process outlives the session, the terminal and the command that started it")
def _(ws):
    p = Processes(ws)
    p.create("web")
    result = ws.tty(["--json", "proc", "start", "web"])
    eq(result.code, 0, "exit code on a terminal that is then closed")
    record = p.status("web")
    p.one_copy_runs("web", record)
    eq(stat_fields(record["pid"])[4], "0", "its controlling terminal")


@test("update changes the record; a running process keeps what it was started with until it is restarted")
def _(ws):
    p = Processes(ws)
    first = p.run("web", SLEEP, "--env", "A=1")
    value = p.call("update", "web", "--env", "A=2", "--", "sleep", "2000").expect(0).json
    eq((value["args"], value["env"], value["pid"]), (["2000"], {"A": "2"}, first["pid"]), "the updated record")
    eq(environment_of(first["pid"])["A"], "1", "what runs")
    second = p.call("restart", "web").expect(0).json
    p.until_gone(first["pid"])
    eq((second["run"], environment_of(second["pid"])["A"], command_line_of(second["pid"])[:2]), (2, "2", ["sleep", "2000"]),
       "run, environment and command after restart")


@test("update with an expected_updated_at that is no longer true is CONFLICT and changes nothing")
def _(ws):
    p = Processes(ws)
    seen = p.create("web")["updated_at"]
    p.call("update", "web", "--restart", "always", "--expected-updated-at", seen).expect(0)
    p.call("update", "web", "--restart", "no", "--expected-updated-at", seen).expect(4, "CONFLICT")
    eq(p.status("web")["restart"], "always", "the policy")


@test("what happens to a process is in the event trail")
def _(ws):
    p = Processes(ws)
    p.run("web")
    p.stop("web")
    p.call("update", "web", "--restart", "no").expect(0)
    p.call("remove", "web").expect(0)
    found = [e["type"] for e in ws.events() if e["type"].startswith("process.") and e["data"]["process_id"] == "web"]
    eq(found, ["process.created", "process.started", "process.exited", "process.updated", "process.removed"], "events")


@test("the end of a process is in the trail once, with the time at which it happened, whoever looks first")
def _(ws):
    p = Processes(ws)
    p.script("bad", "exit 3")
    p.start("bad")
    ws.until(lambda: p.status_file("bad")["exit"], "the exit record")
    stopped_at = p.status_file("bad")["exit"]["stopped_at_ms"]
    race(ws, [[ws.binary, "--json", "proc", "status", "bad"], [ws.binary, "--json", "proc", "list"]] * 4)
    found = ws.tasuki("--json", "events").expect(0).json["events"]
    exits = [e for e in found if e["type"] == "process.exited"]
    eq(len(exits), 1, "how often the exit is told")
    eq(exits[0]["data"]["process_id"], "bad", "process_id")
    eq(int(parse_time(exits[0]["time"]).timestamp()), stopped_at // 1000, "the second of the exit")


# -- removing what runs: the seed's warning -----------------------------------------------------------------------------

@test("remove of a running process warns with the seed's words (ja)")
def _(ws):
    p = Processes(ws)
    p.run("web")
    result = ws.tasuki("--lang", "ja", "--json", "proc", "remove", "web").expect(6, "NEEDS_CONFIRMATION")
    eq(result.error["message"], WARNING_JA, "the message")
    result = ws.tasuki("--lang", "ja", "proc", "remove", "web").expect(6)
    assert WARNING_JA in result.err, result


@test("remove of a running process warns in the language of the reader and names the way out")
def _(ws):
    p = Processes(ws)
    p.run("web")
    texts = set()
    for lang in ("ja", "en", "zh"):
        error = ws.tasuki("--lang", lang, "--json", "proc", "remove", "web").expect(6).error
        texts.add(error["message"])
        nexts = " ".join(error["next"])
        assert "proc stop web" in nexts or "--force" in nexts, error
    eq(len(texts), 3, "different texts")
    p.one_copy_runs("web", p.status("web"))


# -- ids ----------------------------------------------------------------------------------------------------------------------

HOSTILE = ("", ".", "..", "../x", "a/b", "/tmp/x", ".guard", ".hidden", "-x", "a b", "a\nb", "a\tb", "ä", "a\x1b[31m",
           "x" * 129, "a:b", "a*", "~", "$(id)", "a\\b", "%2e%2e")


@test("an id that is hostile as a directory name is refused by create, and nothing is made")
def _(ws):
    p = Processes(ws)
    p.create("good")
    before = sorted(os.listdir(p.folder))
    outside = sorted(os.listdir(ws.path)), sorted(os.listdir(ws.base))
    for id in HOSTILE:
        result = p.call("create", id, "--", "sleep", "1").expect(2, "INVALID_INPUT")
        assert "\x1b" not in result.err + result.out, f"the terminal is sent what the id contains: {result}"
    eq([one["id"] for one in p.call("list").json["processes"]], ["good"], "the registry")
    eq(sorted(os.listdir(p.folder)), before, "processes/")
    eq((sorted(os.listdir(ws.path)), sorted(os.listdir(ws.base))), outside, "the folders around")


@test("an id that is hostile as a directory name reaches no file through any other operation")
def _(ws):
    p = Processes(ws)
    p.create("good")
    victim = ws.path / ".aiflow" / "victim"
    victim.mkdir()
    (victim / "want").write_text("kept\n")
    for verb in (["start"], ["stop"], ["remove", "--force"], ["logs"], ["status"], ["update", "--restart", "no"]):
        for id in ("../victim", "..", ".", "good/../../victim", str(victim)):
            result = p.call(verb[0], id, *verb[1:])
            assert result.code in (2, 5), result
    eq((victim / "want").read_text(), "kept\n", "the victim's file")
    eq(os.listdir(victim), ["want"], "the victim's files")


@test("an id as long as allowed and with every kind of character works")
def _(ws):
    p = Processes(ws)
    for id in ("a" + "b" * 127, "A.b_c-9", "0"):
        p.run(id)
        p.stop(id)
        p.call("remove", id).expect(0)
    eq(p.list(), {}, "the registry")


@test("a symbolic link in the place of a process's directory is not followed")
def _(ws):
    p = Processes(ws)
    p.create("first")
    victim = ws.base / "victim"
    victim.mkdir()
    os.symlink(victim, p.dir("web"))
    result = p.call("create", "web", "--start", "--", *SLEEP)
    eq(os.listdir(victim), [], "the directory that the link points to")
    assert result.code in (0, 3), result


@test("the files of a process are for its owner alone")
def _(ws):
    p = Processes(ws)
    p.run("web", ("sh", "-c", "echo out; echo err >&2; exec sleep 1000"))
    ws.until(lambda: (p.dir("web") / "log" / "stdout.log").stat().st_size, "output")
    for folder, _, files in os.walk(p.folder):
        eq(os.stat(folder).st_mode & 0o777, 0o700, folder)
        for name in files:
            eq(os.stat(os.path.join(folder, name)).st_mode & 0o077, 0, f"the rights of others on {name}")


# -- secrets ----------------------------------------------------------------------------------------------------------------

SECRET = "hunter2-zq81"
SECRETS = {"API_TOKEN": SECRET, "DB_PASSWORD": SECRET, "STRIPE_API_KEY": SECRET, "CLIENT_SECRET": SECRET,
           "AWS_CREDENTIALS": SECRET, "SESSION_COOKIE": SECRET, "PRIVATE_PEM": SECRET, "BASIC_AUTH": SECRET, "passwd": SECRET,
           "DATABASE_URL": f"postgres://app:{SECRET}@db/app"}
PLAIN = {"PORT": "3000", "HOST": "localhost", "KEYBOARD": "jp106"}


def env_options(env):
    return [word for key, value in env.items() for word in ("--env", f"{key}={value}")]


@test("values of secret-looking variables are masked in every answer, and the process gets the true ones", slow=True)
def _(ws):
    p = Processes(ws)
    value = p.create("web", SLEEP, *env_options(SECRETS), *env_options(PLAIN))
    for key in SECRETS:
        assert "***" in value["env"][key], f"{key} is shown as {value['env'][key]!r}"
    for key in PLAIN:
        eq(value["env"][key], PLAIN[key], f"{key}, which is no secret")
    pid = p.start("web")["pid"]
    real = environment_of(pid)
    for key, secret in SECRETS.items():
        eq(real.get(key), secret, f"{key} as the process sees it")
    for words in (["proc", "status", "web"], ["proc", "list"], ["status"], ["events"], ["proc", "export"], ["restore"],
                  ["proc", "export", "web", "--format", "yaml"], ["proc", "export", "web", "--format", "json"],
                  ["proc", "update", "web", "--restart", "always"], ["proc", "logs", "web"], ["proc", "restart", "web"],
                  ["proc", "stop", "web"], ["proc", "start", "web"], ["proc", "remove", "web", "--force"], ["events"]):
        for json_option in (["--json"], []):
            result = ws.tasuki(*json_option, *words)
            assert SECRET not in result.out + result.err, f"the secret is shown by {words}: {result}"
    assert SECRET not in (ws.path / ".aiflow" / "events.ndjson").read_text(), "the secret is in the trail"


@test("values of secret-looking variables are masked in refusals")
def _(ws):
    p = Processes(ws)
    secrets = env_options(SECRETS)
    p.create("web", ("/nonexistent/command",), *secrets)
    document = {"version": 1, "processes": {"two": {"command": "sleep", "env": SECRETS, "restart": "perhaps"}}}
    (ws.path / "bad.json").write_text(json.dumps(document))
    (ws.path / "bad.yaml").write_text("version: 1\nprocesses:\n  two:\n    env: {API_TOKEN: " + SECRET + "}\n    command: [\n")
    for words in (["create", "web", *secrets, "--", "sleep", "1"], ["start", "web"], ["update", "web", *secrets, "--restart", "x"],
                  ["create", "new", *secrets, "--restart", "perhaps", "--", "sleep"], ["create", "new", *secrets],
                  ["import", "bad.json"], ["import", "bad.yaml"]):
        for json_option in (["--json"], []):
            result = ws.tasuki(*json_option, "proc", *words)
            assert result.code != 0, result
            assert SECRET not in result.out + result.err, f"the secret is shown by {words[0]}: {result}"


@test("no secret is on the command line of a holder, where every user of the machine can read it")
def _(ws):
    p = Processes(ws)
    record = p.run("web", SLEEP, *env_options(SECRETS))
    holder = command_line_of(record["holder_pid"])
    assert holder and "tasuki-hold" in holder[0], f"{record['holder_pid']} is no holder: {holder}"
    assert SECRET not in "\0".join(holder), holder


@test("the status record, the history and the run lock contain no secret")
def _(ws):
    p = Processes(ws)
    p.run("web", SLEEP, *env_options(SECRETS))
    p.stop("web")
    for folder, _, files in os.walk(p.dir("web")):
        for name in files:
            with open(os.path.join(folder, name), "rb") as file:
                assert SECRET.encode() not in file.read(), name


main(__name__)
