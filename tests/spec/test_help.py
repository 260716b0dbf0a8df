"""Help that fits a screen, words that are guessed, and the pager; on a real terminal where that matters."""

import json
import os
import pathlib
import re
import unicodedata
from datetime import datetime

from harness.harness import eq, main, test

GOLDEN = pathlib.Path(__file__).parent / "golden"
SCREENS = [(lang, columns) for lang in ("en", "ja", "zh") for columns in (80, 60)]


def width(line):
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in line)


def golden(name, text):
    """Compares with tests/spec/golden/NAME; TASUKI_WRITE=1 writes it."""
    path = GOLDEN / name
    if os.environ.get("TASUKI_WRITE"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    eq(text, path.read_text(), f"the screen of {path.name}")


for lang, columns in SCREENS:
    @test(f"a bare tasuki is one screen of at most 22 lines by purpose: {lang}, {columns} columns", init=False)
    def _(ws, lang=lang, columns=columns):
        result = ws.tasuki("--lang", lang, env={"COLUMNS": str(columns)}).expect(0)
        lines = result.out.splitlines()
        assert len(lines) <= 22, f"{len(lines)} lines"
        assert max(map(width, lines)) <= columns, f"too wide:\n{result.out}"
        golden(f"first.{lang}.{columns}", result.out)
        for words in (("help",), ("--help",)):
            eq(ws.tasuki(*words, "--lang", lang, env={"COLUMNS": str(columns)}).expect(0).out, result.out, f"{words}")


@test("every command of the first screen has help", init=False)
def _(ws):
    rows = [line[2:].split("  ")[0] for line in ws.tasuki().expect(0).out.splitlines() if line.startswith("  ")]
    assert len(rows) > 10, rows
    for row in rows:
        words = re.split(r" (?:[A-Z]|--)", row)[0]
        for command in words.split(", "):
            assert "Usage" in ws.tasuki(*command.split(), "--help").expect(0).out, row


@test("the help of a command has usage, examples and parameters; --all adds errors and global options", init=False)
def _(ws):
    short = ws.tasuki("lock", "acquire", "--help").expect(0).out
    headings = [line for line in short.splitlines() if re.match(r"[A-Z][a-z]+$", line)]
    eq(headings, ["Usage", "Examples", "Parameters"])
    assert "tasuki lock acquire --help --all" in short and "LOCK_HELD" not in short, short
    whole = ws.tasuki("lock", "acquire", "--help", "--all").expect(0).out
    assert "LOCK_HELD (4)" in whole and "Options for every command" in whole, whole
    eq(ws.tasuki("help", "lock", "acquire", "--all").expect(0).out, whole, "help lock acquire --all")


# -- aliases and guesses ------------------------------------------------------------------------------------

@test("start, stop, restart, logs, ps and ls stand for the obvious")
def _(ws):
    ws.tasuki("proc", "create", "web", "--", "sh", "-c", "echo here; exec sleep 1000").expect(0)
    ws.tasuki("start", "web").expect(0)
    ws.until(lambda: "here" in ws.tasuki("logs", "web").expect(0).out, "the output of web")
    eq(json.loads(ws.tasuki("ps", "--json").out)["processes"][0]["state_name"], "Running")
    assert "web" in ws.tasuki("ls").expect(0).out
    ws.tasuki("restart", "web").expect(0)
    ws.tasuki("stop", "web").expect(0)
    eq(json.loads(ws.tasuki("ps", "--json").out)["processes"][0]["state_name"], "Stopped")
    assert "tasuki proc stop" in ws.tasuki("stop", "--help").expect(0).out
    err = ws.tasuki("stop").expect(2).err
    assert "tasuki proc stop --help" in err, err


@test("a verb without its noun is answered with the nouns that have it", init=False)
def _(ws):
    both = ws.tasuki("acquire").expect(2).err
    assert "lock acquire, sprint acquire" in both and "tasuki lock acquire --help" in both, both
    assert "flow validate" in ws.tasuki("validate").expect(2).err
    assert "flow validate" in ws.tasuki("validat").expect(2).err, "a slip of the pen"


@test("a file of processes that almost exists is suggested, with the command; and so is proc for process")
def _(ws):
    (ws.path / "Procfile").write_text("web: sleep 1000\n")
    for words, command in ((("up", "-f", "Procfil"), "tasuki up -f Procfile"), (("down", "-f", "./procfile"), "tasuki down -f ./Procfile"),
                           (("proc", "import", "Profile"), "tasuki proc import Procfile")):
        err = ws.tasuki(*words).expect(5).err
        assert f"There is no file {words[-1]}. Did you mean " in err and err.rstrip().endswith(f"next      {command}"), err
    err = ws.tasuki("process", "list").expect(2).err
    assert "Did you mean 'proc'?" in err and "next      tasuki proc list\n" in err, err


FLOW = """tasks:
  a: {command: [echo, hi]}
  b: {run: echo b, depends_on: [a]}
  c: {run: echo c, neds: [a]}
  "d": {"cmd": echo d}
"""


@test("a key that other tools have is refused with the right word and the corrected line")
def _(ws):
    (ws.path / "f.yaml").write_text(FLOW)
    result = ws.tasuki("flow", "validate", "f.yaml").expect(2)
    for line in ("the key 'command' is called 'run' here", "  +   a: {run: [echo, hi]}",
                 "the key 'depends_on' is called 'needs' here", "  +   b: {run: echo b, needs: [a]}",
                 "did you mean 'needs'?", "  +   c: {run: echo c, needs: [a]}", "the key 'cmd' is called 'run' here"):
        assert line in result.err, f"{line!r} is missing in:\n{result.err}"
    eq("flow validate f.yaml" in result.err, False, "a command that was just given is the next one")
    for words in (["run"], ["graph"], ["flow", "show"]):
        refused = ws.tasuki(*words, "f.yaml").expect(2)
        assert "next      tasuki flow validate f.yaml\n" in refused.err, refused.err
    assert "has no command" not in result.err, "the value of a misnamed key seems to be missing"
    problems = ws.tasuki("flow", "validate", "f.yaml", "--json").expect(2).json["error"]["context"]["problems"]
    eq([problem.get("corrected") for problem in problems],
       ["  a: {run: [echo, hi]}", "  b: {run: echo b, needs: [a]}", "  c: {run: echo c, needs: [a]}", None])
    eq(list((ws.path / ".aiflow/runs").glob("RUN-*")), [], "runs")


@test("a slip of the pen in a key that other tools have is answered with the right word, too")
def _(ws):
    (ws.path / "f.yaml").write_text("tasks:\n  a: {comand: 'true'}\n  b: {run: 'true', dependsOn: [a]}\n  c: {run: 'true', enviroment: {A: b}}\n"
                                    "  d: {run: 'true', timeout_minutes: 5m}\n  e: {run: 'true', parallel: 2}\n")
    problems = ws.tasuki("flow", "validate", "f.yaml", "--json").expect(2).json["error"]["context"]["problems"]
    eq([(problem["message"].split("; ")[1].split(": ")[0], problem.get("corrected")) for problem in problems],
       [("did you mean 'run'?", "  a: {run: 'true'}"), ("did you mean 'needs'?", "  b: {run: 'true', needs: [a]}"), ("did you mean 'env'?", "  c: {run: 'true', env: {A: b}}"),
        ("did you mean 'timeout'?", None), ("the keys are", None)], problems)


@test("a key whose value means something else here is named, and no line is corrected")
def _(ws):
    (ws.path / "f.yaml").write_text("tasks:\n  a: {run: x, timeout-minutes: 5}\n  b: {run: y, container: x}\n")
    result = ws.tasuki("flow", "validate", "f.yaml").expect(2)
    assert "'timeout-minutes' is called 'timeout' here" in result.err and "the key 'container' is not known" in result.err, result.err
    assert "  + " not in result.err, result.err


@test("a task that the flow does not have is refused with the command that was meant")
def _(ws):
    (ws.path / "b.yaml").write_text("flow: lint >> build\ntasks: {lint: 'true', build: 'true'}\n")
    for more, kept in (([], ""), (["--dry-run"], " --dry-run"), (["--detach"], " --detach")):
        refused = ws.tasuki("run", "b.yaml", "build", "lnt", *more).expect(2).err
        eq(refused, f"tasuki: There is no task lnt in b.yaml; did you mean lint?\n  next      tasuki run b.yaml build lint{kept}\n", f"with {more}")
    assert "next      tasuki flow show b.yaml\n" in ws.tasuki("run", "b.yaml", "zzzzzz").expect(2).err
    eq(list((ws.path / ".aiflow/runs").glob("RUN-*")), [], "runs")


@test("a flow that almost exists is suggested")
def _(ws):
    flows = ws.path / ".aiflow/flows"
    flows.mkdir(parents=True, exist_ok=True)
    (flows / "nightly.yaml").write_text("tasks: {a: {run: 'true'}}\n")
    (ws.path / "deploy.yaml").write_text("tasks: {a: {run: 'true'}}\n")
    for given, near in (("nigthly", "nightly"), ("deplpy.yaml", "deploy.yaml"), ("./deplpy.yaml", "./deploy.yaml"),
                        (".aiflow/flows/nighly.yaml", ".aiflow/flows/nightly.yaml")):
        result = ws.tasuki("run", given).expect(5)
        assert f"Did you mean {near}?" in result.err and f"  tasuki run {near}\n" in result.err, result
    far = ws.tasuki("run", "zzz").expect(5).err
    assert "Did you mean" not in far and "tasuki flow list" in far, far


@test("a wrong word is corrected in the command that was typed", init=False)
def _(ws):
    for words, right in ((["requests", "list"], "request list"), (["strat", "web", "a b"], "start web 'a b'"), (["runs", "lits", "-n", "2"], "runs list -n 2")):
        err = ws.tasuki(*words).expect(2).err
        assert f"next      tasuki {right}\n" in err, err
    for words, right in ((["help", "strat"], "start --help"), (["help", "dwn"], "down --help"), (["dwn", "--help"], "down --help"), (["help", "proc", "strat"], "proc start --help"),
                         (["help", "requests"], "request --help"), (["help", "request", "logs"], "runs logs --help"), (["help", "claim", "--format", "man"], "own claim --help")):
        err = ws.tasuki(*words).expect(2).err
        assert f"next      tasuki {right}\n" in err, err


@test("an option or a value that is almost right is corrected in the command that was typed")
def _(ws):
    for words, right in ((["run", "a b.yaml", "--ouput", "live"], "run 'a b.yaml' --output live"), (["run", "f.yaml", "--ouput=live"], "run f.yaml --output=live"),
                         (["up", "-d"], "up --detach"), (["queue", "add", "--titel", "x y", "--", "sleep", "1"], "queue add --title 'x y' -- sleep 1"),
                         (["runs", "list", "--status", "failed"], "runs list --status FAILED"), (["run", "f.yaml", "--on-conflict=afetr"], "run f.yaml --on-conflict=after"),
                         (["queue", "run", "--output", "liv"], "queue run --output live"), (["--root", ws.path, "runs", "list", "--limt", "3"], f"--root {ws.path} runs list --limit 3"),
                         (["proc", "stop", "web", "-y"], "proc stop --help"), (["lock", "acquire", "name", "x", "--forc"], "lock acquire --help"),  # a yes is the caller's own
                         (["queue", "add", "--nothing", "--", "x", "--nothing"], "queue add --help"), (["request", "add", "t", "--priority", "P9"], "request add --help")):
        refused = ws.tasuki(*words).expect(2).err
        eq(refused.split("next      ")[1:], [f"tasuki {right}\n"], (words, refused))


@test("what a stranger types wrong around flows, the queue and requests is answered with a command that is right")
def _(ws):
    (ws.path / "sub").mkdir()
    (ws.path / ".aiflow/flows").mkdir(exist_ok=True)
    (ws.path / ".aiflow/flows/nightly.yaml").write_text("tasks: {a: 'true'}\n")
    (ws.path / "build.yaml").write_text("tasks: {a: 'true', b: 'true'}\n")
    ws.tasuki("run", "build.yaml").expect(0)
    run = next((ws.path / ".aiflow/runs").glob("RUN-*")).name
    for words, code, right in ((["run", "buildd"], 5, "run build.yaml"), (["run", "nightly.yml"], 5, "run nightly"), (["run", "nigthly"], 5, "run nightly"),
                               (["run", "sub"], 2, "flow list"), (["run", "nightly", "a", "c"], 2, "flow show nightly"), (["queue", "list"], 2, "request list"),
                               (["queue", "edit", "RQ-1"], 2, "request edit RQ-1"), (["runs", "logs", "nope"], 5, f"runs show {run}"),
                               (["request", "again", "nope"], 5, "request list"), (["run", "--root", ws.path, "build.yml"], 5, f"--root {ws.path} run build.yaml")):
        err = ws.tasuki(*words).expect(code).err
        assert f"next      tasuki {right}\n" in err, (words, err)
    below = ws.tasuki("run", "build.yaml", cwd=ws.path / "sub").expect(5).err
    assert "Did you mean ../build.yaml?" in below and "next      tasuki run ../build.yaml\n" in below, below
    eq("Did you mean" in ws.tasuki("run", "build.yaml", "--on-conflict", "wait").expect(2).err, False, "another word is no misspelling")


@test("an error names its file from where one stands: config.yaml, a request, a Procfile")
def _(ws):
    below = ws.path / "src/deep"
    below.mkdir(parents=True)
    state = ws.path / ".aiflow"
    (state / "requests/RQ-1.yaml").write_text("title: T\nstatus: nonsense\n")
    (state / "requests/RQ-2.yaml").write_text("title: T\nflow: [\n")
    (ws.path / "src/Procfile").write_text("no process here\n")
    request = ".aiflow/requests/RQ-1.yaml"
    for words, place in ((["request", "run", "RQ-1"], request + ":2:9: "), (["request", "list"], request + ":2:9: "), (["request", "show", "RQ-1"], request + "\n"),
                         (["request", "run", "RQ-2"], ".aiflow/requests/RQ-2.yaml:"), (["up", "--detach"], "Procfile")):
        for cwd, way in ((ws.path, ""), (ws.path / "src", "../"), (below, "../../")):
            if words[0] == "up":  # it is found in src/
                if cwd == ws.path:
                    continue
                way = way[3:]
            result = ws.tasuki(*words, cwd=cwd)
            shown = result.out + result.err
            assert f" {way}{place}" in shown and str(ws.path) not in shown, (words, cwd, shown)
    (state / "config.yaml").write_text("max_runs: many\n")
    (state / "requests/RQ-3.yaml").write_text("title: T\nrun: 'true'\n")
    eq("../../.aiflow/config.yaml:1:11: " in ws.tasuki("request", "run", "RQ-3", cwd=below).expect(2).err, True, "config.yaml")
    outside = ws.tasuki("--root", ws.path, "request", "run", "RQ-1", cwd=ws.base).expect(2).err
    eq(f"tasuki: {ws.path.name}/{request}:2:9: " in outside, True, outside)
    elsewhere = ws.tasuki("--root", ws.path, "request", "run", "RQ-1", cwd="/usr").expect(2).err
    eq(f"{ws.path}/{request}:2:9: " in elsewhere, True, elsewhere)


@test("an error in a flow of the workspace names its file from where one stands")
def _(ws):
    (ws.path / ".aiflow/flows").mkdir(exist_ok=True)
    (ws.path / ".aiflow/flows/wrong.yaml").write_text("tasks: {a: {rum: x}}\n")
    (ws.path / "sub/deep").mkdir(parents=True)
    for place, root, name in ((ws.path, (), ".aiflow/flows/wrong.yaml"), (ws.path / "sub/deep", (), "../../.aiflow/flows/wrong.yaml"),
                              (ws.base, ("--root", ws.path), f"{ws.path.name}/.aiflow/flows/wrong.yaml"),
                              ("/usr", ("--root", ws.path), f"{ws.path}/.aiflow/flows/wrong.yaml")):
        err = ws.tasuki(*root, "run", "wrong", cwd=place).expect(2).err
        assert err.startswith(f"tasuki: {name}:1:13: "), err


@test("a flow that is being run is named from where one stands, or as it was given")
def _(ws):
    (ws.path / ".aiflow/flows").mkdir(exist_ok=True)
    (ws.path / "sub").mkdir()
    text = "exclusive: true\ntasks: {a: 'echo > UP; while ! test -e %s/go; do sleep 0.01; done'}\n" % ws.path
    (ws.path / ".aiflow/flows/nightly.yaml").write_text(text.replace("UP", f"{ws.path}/up1"))
    (ws.path / "own.yaml").write_text(text.replace("UP", f"{ws.path}/up2"))
    runs = [ws.spawn("run", flow) for flow in ("nightly", "own.yaml")]
    for mark in ("up1", "up2"):
        ws.until_file(mark)
    for cwd, root, flow, name in ((ws.path, (), "nightly", ".aiflow/flows/nightly.yaml"), (ws.path / "sub", (), "nightly", "../.aiflow/flows/nightly.yaml"),
                                  (ws.path / "sub", (), "../own.yaml", "../own.yaml"), (ws.path, (), "own.yaml", "own.yaml"),
                                  (ws.base, ("--root", ws.path.name), "nightly", f"{ws.path.name}/.aiflow/flows/nightly.yaml")):
        err = ws.tasuki(*root, "run", flow, cwd=cwd).expect(4).err
        assert err.startswith(f"tasuki: {name} is being run by "), (name, err)
    (ws.path / "go").touch()
    for run in runs:
        run.wait(60)


# -- width and pager ----------------------------------------------------------------------------------------

@test("in a pipe the help is as wide as the terminal; a text longer than the screen goes through the pager", init=False)
def _(ws):
    seen = ws.base / "seen"
    env = {"TASUKI_PAGER": f"cat > {seen}", "TERM": "xterm"}
    every = ["help", "--all"]
    ws.tty(every, size=(24, 60), env=env).expect(0)
    lines = seen.read_text().splitlines()
    assert len(lines) > 24 and max(map(width, lines)) <= 60, f"{len(lines)} lines, {max(map(width, lines))} columns"
    seen.unlink()
    shown = ws.tty(every, size=(24, 60), env={**env, "TASUKI_PAGER": ""}).expect(0).out
    assert "template use" in shown and not seen.exists(), "an empty TASUKI_PAGER means none"
    shown = ws.tty([], size=(24, 80), env=env).expect(0).out
    assert "lock run NAME" in shown and not seen.exists(), "a text that fits needs no pager"
    piped = ws.tty(every, size=(24, 60), split=True, env=env).expect(0).out
    assert "template use" in piped and max(map(width, piped.splitlines())) <= 60, "the width of a pipe"
    eq(ws.tty(every, size=(24, 60), env={**env, "TASUKI_PAGER": "head -1 >/dev/null"}).expect(0).out, "", "ended early")


@test("a pager that is not there, or is no program, loses nothing: the text is printed", init=False)
def _(ws):
    for pager in ("no-such-pager", "/etc/passwd", "no-such-pager -R --quit"):
        shown = ws.tty(["help", "--all"], size=(24, 60), env={"PAGER": pager, "TERM": "xterm"}).expect(0).out
        eq((shown.count("template use"), pager.split()[0] in shown), (1, True), f"{pager}: {shown[:200]}")


def span(text):
    """Milliseconds of 10s, 30m, 3000."""
    return int(text[:-1]) * {"s": 1000, "m": 60000}[text[-1]] if text[-1] in "sm" else int(text)


@test("the defaults that help shows are those that apply")
def _(ws):
    def shown(*words):
        described = ws.tasuki("--json", *words, "--help").json["operations"][0]["params"]
        return {param["name"]: param["default"] for param in described if param["default"] is not None}

    create = shown("proc", "create")
    ws.tasuki("proc", "create", "a", "--ready", "port:1", "--health", "port:1", "--", "true").expect(0)
    made = ws.tasuki("--json", "proc", "status", "a").json
    made |= {"log": made["log"]["mode"], "log_max": made["log"]["max"], "ready_timeout_ms": made["ready"]["timeout_ms"]}
    made |= {f"health_{key}": made["health"][key] for key in ("interval_ms", "failures", "action")}
    for name, default in create.items():
        if name in ("cwd", "max_retries"):  # words
            continue
        eq(made[name], span(default) if default[0].isdigit() else default, name)
    assert len(create) >= 10, create
    for words in (("lock", "acquire"), ("lock", "run")):
        eq(span(shown(*words)["ttl"]), 30 * 60000, " ".join(words))
    ws.tasuki("lock", "acquire", "name", "x").expect(0)
    times = [datetime.fromisoformat(ws.read_lock("name", "x")[key]) for key in ("created_at", "expires_at")]
    eq((times[1] - times[0]).total_seconds(), 1800, "the TTL that applies")
    number = span(shown("proc", "logs")["lines"])
    ws.tasuki("proc", "create", "b", "--start", "--", "seq", "500").expect(0)
    ws.tasuki("proc", "wait", "b").expect(0)
    eq(len(ws.tasuki("proc", "logs", "b").expect(0).out.splitlines()), number, "lines of a log")


main(__name__)
