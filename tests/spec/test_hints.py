"""The next commands that results and refusals name: they can be typed as they stand, and they are right for this caller."""

import os
import re
import shlex

from common import NOBODY, need_root, run_as_nobody
from flows import with_tool
from harness.harness import eq, main, test
from harness.screen import tasuki_screen

STEPS = re.compile(r"^ {2}(?:next)? {6,}(tasuki .+)$", re.M)


def steps(result):
    """The commands behind `next`."""
    return STEPS.findall(result.out + result.err)


def typed(ws, command, **options):
    """Runs a proposed command as it stands."""
    words = shlex.split(command)
    eq(words[0], "tasuki", "the program")
    return ws.tasuki(*words[1:], env=with_tool(ws), **options)


@test("an operation on several processes that all fail prints no empty table, and proposes the next command once; sentences break at blanks")
def _(ws):
    refused = ws.tasuki("proc", "start", "one", "two").expect(5)
    eq((refused.out, refused.err.splitlines()), ("", ["Process 'one' not found", "Process 'two' not found", "  next      tasuki proc list"]), "the answer")
    for words in (["proc", "list"], ["runs", "list"], ["flow", "list"], ["proc", "template", "list"]):
        screen = tasuki_screen(ws, *words, cols=50)
        eq(screen.ended(), 0, words)
        assert all(line.startswith("  ") for line in screen.text().splitlines()[1:]) and screen.text().count("\n") < 5, screen.text()
    ws.tasuki("proc", "create", "web", "--start", "--", "sleep", "1000").expect(0)
    ws.at_close(lambda: ws.tasuki("proc", "stop", "web"))
    screen = tasuki_screen(ws, "proc", "update", "web", "--", "sleep", "2000", cols=60)
    eq(screen.ended(), 0, "exit code")
    assert "  changed   its settings were changed since it was started;\n            restart it to apply them\n" in screen.text(), screen.text()


@test("on a narrow terminal the long name of a task is cut, not its line broken, and what doctor says breaks at blanks")
def _(ws):
    name = "a_task_with_a_rather_long_name"
    (ws.path / "f.yaml").write_text(f"flow: {name} | b\ntasks: {{{name}: 'true', b: 'true'}}\n")
    ws.tasuki("run", "f.yaml").expect(0)
    screen = tasuki_screen(ws, "runs", "show", cols=60)
    eq(screen.ended(), 0, "exit code")
    rows = [line.split() for line in screen.text().splitlines() if line.startswith(("TASK", "a_task", "b/b"))]
    eq((rows[0], rows[1][0][-1]), (["TASK", "STATE", "STARTED"], "…"), screen.text())
    eq([(row[1], row[-1]) for row in rows[1:]], [("ok", "ago"), ("ok", "ago")], screen.text())
    screen = tasuki_screen(ws, "doctor", cols=60, rows=60)
    eq(screen.ended(), 0, "exit code")
    assert re.search(r"  PASS  configuration    there is no config.yaml \(everything\n {25}has its default\)\n", screen.text()), screen.text()


@test("a verb without its noun, or a letter that is not an option: next has the right word and the rest of the line")
def _(ws):
    eq(steps(ws.tasuki("attach", "a b").expect(2)), ["tasuki proc attach 'a b'"], "one noun has that verb")
    eq(steps(ws.tasuki("attach").expect(2)), ["tasuki proc attach --help"], "nothing was written behind it")
    eq(steps(ws.tasuki("acquire", "x").expect(2)), ["tasuki lock acquire --help", "tasuki sprint acquire --help"], "several nouns")
    assert "Did you mean --detach?" in ws.tasuki("up", "-d").expect(2).err, "up -d"


@test("the command after a run whose flow file has blanks in its name can be typed; its sentences break at blanks")
def _(ws):
    (ws.path / "my flow.yaml").write_text("limits: {max_steps: 2}\ntasks: {a: {run: 'tasuki task again', max_cycles: 9}}\n")
    (ws.path / "it's.yaml").write_text("tasks: {a: 'tasuki task cancel no'}\n")
    for name, reason in (("my flow.yaml", "2 steps were executed"), ("it's.yaml", "cancelled the run")):
        refused = ws.tasuki("run", name, env=with_tool(ws)).expect(7)
        again = typed(ws, steps(refused)[-1]).expect(7)
        assert reason in again.out, again
    screen = tasuki_screen(ws, "runs", "show", "@3", cols=60)
    eq(screen.ended(), 0, "exit code")
    text = screen.text()
    assert "  Correct the condition that should end it, or raise\n    max_steps under limits: in my flow.yaml" in text, text


# -- the workspace that was named ---------------------------------------------------------------------------

def below(ws):
    """A workspace in a/, where the caller does not stand."""
    (ws.path / "a").mkdir()
    ws.tasuki("--root", "a", "init").expect(0)
    return lambda *args, **options: ws.tasuki("--root", "a", *args, env=with_tool(ws), **options)


@test("with --root every next command of a result names the workspace, and can be typed", init=False)
def _(ws):
    call = below(ws)
    (ws.path / "a/fails.yaml").write_text("tasks: {x: 'echo trouble; false'}\n")
    (ws.path / "a/asks.yaml").write_text("tasks: {x: 'tasuki task ask Which?'}\n")
    shown = steps(call("run", "a/fails.yaml").expect(7))
    eq([re.sub("RUN-[^ ]*", "RUN", one) for one in shown], ["tasuki --root a runs logs RUN x", "tasuki --root a resume RUN"])
    typed(ws, shown[0]).expect(0)
    typed(ws, shown[1]).expect(7)
    eq(steps(call("runs", "show")), shown, "runs show")
    asked = steps(call("run", "a/asks.yaml").expect(8))
    assert len(asked) == 1 and asked[0].startswith("tasuki --root a answer RUN-"), asked
    eq(steps(call("queue", "add", "--", "true").expect(0)), ["tasuki --root a queue run"], "queue add")
    typed(ws, "tasuki --root a queue run").expect(0)
    call("queue", "add", "--", "false").expect(0)
    failed = steps(call("queue", "run").expect(7))
    assert failed and all(one.startswith("tasuki --root a ") for one in failed), failed


@test("with --root the next commands of a pending run name the workspace", init=False)
def _(ws):
    call = below(ws)
    (ws.path / "a/.aiflow/flows").mkdir(exist_ok=True)
    (ws.path / "a/.aiflow/flows/slow.yaml").write_text("tasks: {x: 'touch up; while ! test -e go; do sleep 0.01; done'}\n")
    first = ws.spawn("--root", "a", "run", "slow", env=with_tool(ws))
    ws.until(lambda: list(ws.path.glob("**/up")), "the first run")
    pending = steps(call("run", "slow", "--on-conflict", "after").expect(0))
    eq([re.sub("RUN-[^ ]*", "RUN", one) for one in pending],
       ["tasuki --root a runs show RUN", "tasuki --root a runs cancel RUN --pending"])
    typed(ws, pending[1]).expect(0)
    next(ws.path.glob("**/up")).with_name("go").touch()
    first.wait(60)


@test("with --root the command that a wrong word means names it, too", init=False)
def _(ws):
    words = ("--root", "b", "runs", "lits", "-n", "2")
    eq(steps(ws.tasuki(*words).expect(2)), ["tasuki --root b runs list -n 2", "tasuki --root b runs --help"])
    eq(ws.tasuki(*words, "--json").expect(2).error["next"], ["tasuki --root b runs list -n 2", "tasuki --root b runs --help"])


# -- words that belong elsewhere ----------------------------------------------------------------------------

@test("a verb that another noun has, or that needs none, is proposed with the rest of the line", init=False)
def _(ws):
    for words, right in (("flow run m.yaml", "run m.yaml"), ("runs resume @1", "resume @1"), ("runs run m.yaml", "run m.yaml"),
                         ("proc prune", "runs prune"), ("queue logs", "runs logs"), ("lock claim web", "own claim web"),
                         ("request cancel", "runs cancel"), ("runs delete x", "runs rm x"), ("runs start m.yaml", "run m.yaml"),
                         ("runs stop @1", "runs cancel @1"), ("runs kill @1", "runs cancel @1"), ("top", "watch"),
                         ("list", "status"), ("show", "status"), ("queue list", "request list"), ("queue edit RQ-1", "request edit RQ-1"),
                         ("proc run web", "proc start web"), ("queue start", "queue run"), ("runs wait @1", "wait run @1"),
                         ("lock wait deploy", "wait lock deploy"), ("proc up", "up"), ("request logs RQ-1", "runs logs")):
        shown = steps(ws.tasuki(*words.split()).expect(2))
        eq(shown[:1], [f"tasuki {right}"], f"next after {words}")


@test("a word that no noun has proposes the noun's help only", init=False)
def _(ws):
    for words in ("runs zzzzzz", "runs help"):
        eq(steps(ws.tasuki(*words.split()).expect(2)), ["tasuki runs --help"], words)


# -- a run that is not named --------------------------------------------------------------------------------

ASKS = "tasks: {x: 'tasuki task ask Go? --type approval'}\n"


@test("answer without a run answers the only run that asks; none and several are refused")
def _(ws):
    (ws.path / "asks.yaml").write_text(ASKS)
    none = ws.tasuki("answer", "--yes").expect(5).err
    assert "No question is open" in none and "next      tasuki status" in none, none
    asking = [ws.tasuki("run", "asks.yaml", env=with_tool(ws)).expect(8).out.split("RUN-")[1].split()[0] for _ in range(2)]
    several = ws.tasuki("answer", "--yes").expect(2)
    assert "2 runs ask something" in several.err, several.err
    eq(steps(several), ["tasuki status"])
    ws.tasuki("answer", f"RUN-{asking[0]}", "--yes", "--wait", env=with_tool(ws)).expect(0)
    ws.tasuki("answer", "--yes", "--wait", env=with_tool(ws)).expect(0)
    eq(ws.tasuki("runs", "show", f"RUN-{asking[1]}", "--json").json["status"], "DONE")
    assert "tasuki answer [RUN] [TEXT]" in ws.tasuki("answer", "--help").expect(0).out


@test("runs cancel without a run names the only run in progress, and changes nothing")
def _(ws):
    (ws.path / "slow.yaml").write_text("tasks: {x: 'touch $TASUKI_RUN_ID.up; while ! test -e go; do sleep 0.01; done'}\n")
    none = ws.tasuki("runs", "cancel").expect(2)
    assert "no run is running" in none.err and steps(none) == ["tasuki runs list"], none
    first = ws.spawn("run", "slow.yaml", env=with_tool(ws))
    ws.until(lambda: len(list(ws.path.glob("*.up"))) == 1, "the run")
    run = next(ws.path.glob("*.up")).stem
    one = ws.tasuki("runs", "cancel").expect(2)
    assert f"{run} is the only run in progress" in one.err, one
    eq(steps(one), [f"tasuki runs cancel {run}"])
    eq(steps(ws.tasuki("runs", "cancel", "--now").expect(2)), [f"tasuki runs cancel {run} --now"])
    eq(steps(ws.tasuki("runs", "rm").expect(2)), ["tasuki runs list"], "runs rm")
    second = ws.spawn("run", "slow.yaml", env=with_tool(ws))
    ws.until(lambda: len(list(ws.path.glob("*.up"))) == 2, "the second run")
    several = ws.tasuki("runs", "cancel").expect(2)
    assert "2 runs are running" in several.err and steps(several) == ["tasuki runs list"], several
    eq([ws.tasuki("runs", "show", path.stem, "--json").json["status"] for path in ws.path.glob("*.up")], ["RUNNING"] * 2)
    typed(ws, steps(one)[0]).expect(0)
    (ws.path / "go").touch()
    first.wait(60)
    second.wait(60)


# -- messages -----------------------------------------------------------------------------------------------

@test("a key that was given twice is named", init=False)
def _(ws):
    err = ws.tasuki("run", "x.yaml", "--set", "who=a", "--set", "who=c").expect(2).err
    assert err.startswith("tasuki: --set who was given twice\n"), err


@test("a command without -- is proposed with it, all words as they were typed", init=False)
def _(ws):
    for words, right in ((["queue", "add", "echo", "hello", "wor ld"], "queue add -- echo hello 'wor ld'"),
                         (["proc", "create", "web", "--restart", "always", "npm", "run", "dev"], "proc create web --restart always -- npm run dev")):
        eq(steps(ws.tasuki(*words).expect(2)), [f"tasuki {right}"], words)


@test("a task whose log is asked for by almost its name is proposed; one that has not run is not")
def _(ws):
    (ws.path / "f.yaml").write_text("flow: compile >> check\ntasks: {compile: 'echo here; false', check: 'true'}\n")
    ws.tasuki("run", "f.yaml", env=with_tool(ws)).expect(7)
    for words in (["@1", "comple"], ["comple"]):
        result = ws.tasuki("runs", "logs", *words).expect(5)
        assert "did you mean compile?" in result.err, result
        assert "here" in typed(ws, steps(result)[0]).expect(0).out
    eq("did you mean" in ws.tasuki("runs", "logs", "@1", "check").expect(5).err, False, "a task that was not reached")


@test("a process that is almost named is proposed with the same verb")
def _(ws):
    ws.tasuki("proc", "create", "web", "--", "sleep", "1000").expect(0)
    for words, right in ((["stop", "wbe"], "proc stop web"), (["proc", "logs", "wbe"], "proc logs web"), (["restart", "wbe"], "proc restart web"),
                         (["proc", "status", "wbe"], "proc status web")):
        eq(steps(ws.tasuki(*words).expect(5)), [f"tasuki {right}", "tasuki proc list"], words)


@test("tasks as a list and parameters under another name are corrected; flow validate does not propose itself")
def _(ws):
    for text, reason, line in (("tasks:\n  - name: a\n    run: echo x\n", "tasks are `NAME: …` pairs, not a list", "  +   a:\n"),
                               ("parameters: {who: {default: a}}\ntasks: {a: 'true'}\n", "'parameters' is called 'params' here", "  + params: {who: {default: a}}\n"),
                               ("tasks: [{name: a, run: [x, y]}, b]\n", "not a list", "")):
        (ws.path / "f.yaml").write_text(text)
        err = ws.tasuki("flow", "validate", "f.yaml").expect(2).err
        assert reason in err and err.count("  + ") == bool(line) and line in err and "validate" not in err, err


@test("flow show names the variables by which tasks read the parameters")
def _(ws):
    (ws.path / "f.yaml").write_text("exclusive: true\nparams: {env: {default: dev}, log-level: {default: info}}\ntasks: {a: 'true'}\n")
    out = ws.tasuki("flow", "show", "f.yaml").expect(0).out
    assert "Tasks read them as TASUKI_PARAM_ENV TASUKI_PARAM_LOG_LEVEL\n" in out and "runs once at a time" in out, out


@test("--on-conflict replace without a terminal leads nobody past the living runner; a person who says yes replaces the run")
def _(ws):
    (ws.path / ".aiflow/flows").mkdir(exist_ok=True)
    (ws.path / ".aiflow/flows/slow.yaml").write_text(
        "params: {who: {default: x}}\ntasks: {a: 'echo $TASUKI_PARAM_WHO >> up; test \"$TASUKI_PARAM_WHO\" = \"b c\" || sleep 1000'}\n")
    first = ws.spawn("run", "slow", env=with_tool(ws))
    run = re.search("RUN-[-0-9a-zT]+", ws.until_file("up") and ws.tasuki("runs", "list", "--verbose").expect(0).out)[0]
    words = ("run", "slow", "a", "--set", "who=b c", "-j", "2", "--on-conflict", "replace")
    for env in ({}, {"TASUKI_AGENT": "bot"}):
        refused = ws.tasuki(*words, env={**with_tool(ws), **env}).expect(6)
        assert "--yes" not in refused.err and "replace" not in "".join(steps(refused)), refused.err
        eq(steps(refused), [f"tasuki runs show {run}", "tasuki run slow a --parallel 2 --set 'who=b c' --on-conflict attach"])
    ws.tasuki(*words, "--yes", env=with_tool(ws)).expect(0)
    eq((ws.path / "up").read_text(), "x\nb c\n", "what ran")
    first.wait(60)


def last_steps(result):
    """All commands behind `next`, also those of other programs."""
    return [line[10:].strip() for line in result.err[result.err.index("  next "):].splitlines()] if "  next " in result.err else []


@test("an error in a file that up, down, import, run or a request reads proposes the editor at its line")
def _(ws):
    (ws.path / "below").mkdir()
    for name, text, line in (("Procfile", "web: sleep 1\ndb sleep\n", 2), ("tasuki.yaml", "version: 1\nprocesses: {web: {comand: sleep}}\n", 2),
                             ("tasuki.yaml", "version: 1\nprocesses: [\n", 3), ("my file.yaml", "version: 1\nprocesses: 5\n", 2)):
        (ws.path / name).write_text(text)
        given = [] if " " not in name else ["-f", name]
        place = f"'{name}'" if " " in name else name
        for words in (("up", *given), ("down", *given), ("proc", "import", name)):
            eq(last_steps(ws.tasuki(*words).expect(2)), [f"${{EDITOR:-vi}} +{line} {place}"], words)
        if not given:
            eq(last_steps(ws.tasuki("up", cwd=ws.path / "below").expect(2)), [f"${{EDITOR:-vi}} +{line} ../{place}"], "from below")
        (ws.path / name).unlink()
    (ws.path / "Procfile").write_text("web: sleep 1\n")
    (ws.path / ".env").write_text("A=1\nno variable\n")
    wrong = ws.tasuki("up").expect(2)
    assert wrong.err.startswith("tasuki: .env, line 2: "), wrong.err
    eq(last_steps(wrong), ["${EDITOR:-vi} +2 .env"])
    (ws.path / "Procfile").unlink()
    (ws.path / "tasuki.yaml").write_text("version: 1\nprocesses: {a: {command: sleep, depends_on: {b: ready}}, b: {command: sleep, depends_on: {a: ready}}}\n")
    for words in (("up",), ("proc", "import", "tasuki.yaml")):
        eq(last_steps(ws.tasuki(*words).expect(2)), ["${EDITOR:-vi} tasuki.yaml"], "a cycle")
    (ws.path / "f.yaml").write_text("tasks:\n  a: {run: 'true', neds: [b]}\n")
    eq(last_steps(ws.tasuki("flow", "validate", "f.yaml").expect(2)), ["${EDITOR:-vi} +2 f.yaml"], "flow validate")


@test("a file that the caller may not open is named as it lies from here, with the command that shows who may")
def _(ws):
    need_root("files that their reader may not open")
    (ws.path / ".aiflow/flows").mkdir(exist_ok=True)
    (ws.path / ".aiflow/requests/RQ-1.yaml").write_text("title: x\nrun: 'true'\nstatus: ready\n")
    for path in ("Procfile", ".aiflow/flows/nightly.yaml", ".aiflow/requests/RQ-1.yaml"):
        (ws.path / path).touch()
    ws.tasuki("own", "claim", "w").expect(0)
    ws.tasuki("own", "release", "w").expect(0)
    for path in (ws.path, *ws.path.glob("**/*")):
        os.chown(path, NOBODY, NOBODY)
    for path, words in (("Procfile", ("up",)), ("Procfile", ("down",)), ("Procfile", ("proc", "import", "Procfile")),
                        (".aiflow/flows/nightly.yaml", ("run", "nightly")), (".aiflow/requests/RQ-1.yaml", ("request", "run", "RQ-1")),
                        (f"{ws.path}/.aiflow/state.db", ("own", "list"))):
        whole = ws.path / path
        os.chmod(whole, 0)
        refused = run_as_nobody(ws, [ws.binary, *words]).expect(3)
        assert refused.err.startswith("tasuki: Cannot ") and f" {path}: Permission denied\n" in refused.err, refused.err
        eq(last_steps(refused), [f"namei -l {path}"], words)
        os.chmod(whole, 0o644)


@test("a refused input has a next command where no file can be corrected")
def _(ws):
    (ws.path / "f.yaml").write_text("tasks: {a: 'true'}\n")
    (ws.path / "docker-compose.yaml").write_text("services: {a: {image: b}}\n")
    (ws.path / "folder").mkdir()
    (ws.path / ".aiflow/requests/RQ-1.yaml").write_text("title: x\nflow: gone.yaml\nstatus: ready\n")
    for words, code, right in ((("run", "f.yaml", "a", "--start", "a"), 2, "tasuki run --help"),
                               (("workers", "list"), 2, "tasuki workers list --help"),
                               (("agent", "parallel"), 2, "tasuki agent parallel --help"),
                               (("own", "note", "a\tb"), 2, "tasuki own note --help"),
                               (("confirm", "0" * 32), 5, "tasuki status"),
                               (("up", "-f", "docker-compose.yaml"), 2, "tasuki up --help"),
                               (("proc", "import", "nosuch.yaml"), 5, "tasuki proc import FILE"),
                               (("up", "-f", "folder"), 3, "ls folder"),
                               (("request", "run", "RQ-1"), 5, "tasuki request edit RQ-1")):
        eq(last_steps(ws.tasuki(*words).expect(code)), [right], words)


@test("a name in the place of a lock's kind is proposed with its kind, by the commands that take a name")
def _(ws):
    eq(ws.tasuki("lock", "acquire", "deploy", "--json").expect(2).error["next"], ["tasuki lock acquire name deploy"], "acquire")
    listing = ws.tasuki("lock", "list", "--kind", "deploy", "--json").expect(2).error["next"]
    eq(listing, ["tasuki lock list --help"], "list, which takes none")


@test("a flow or a task that is almost named is proposed with everything else that was typed: a dry run stays one")
def _(ws):
    (ws.path / "ci.yaml").write_text("flow: fetch >> (lint | test) >> publish\ntasks: {fetch: 'touch ran', lint: 'true', test: 'true', publish: 'true'}\n")
    for words, right in ((["ci.yml", "lint", "-j", "3", "--dry-run"], "run ci.yaml lint --parallel 3 --dry-run"),
                         (["ci.yaml", "lint", "tset", "--set", "who=b c", "--dry-run"], "run ci.yaml lint test --set 'who=b c' --dry-run"),
                         (["ci.yaml", "--start", "publsh", "--dry-run"], "run ci.yaml --start publish --dry-run")):
        result = ws.tasuki("run", *words)
        eq((result.code in (2, 5), steps(result)), (True, [f"tasuki {right}"]), words)
        typed(ws, steps(result)[0]).expect(0)
    eq(steps(ws.tasuki("run", "ci.yaml", "--start", "nothing").expect(2)), ["tasuki flow show ci.yaml"])
    for words, right in ((["ci.yml", "lint", "--detach", "--on-conflict", "after"], "run ci.yaml lint --on-conflict after --detach"),
                         (["ci.yaml", "lnt", "--detach"], "run ci.yaml lint --detach")):
        eq(steps(ws.tasuki("run", *words)), [f"tasuki {right}"], words)
    eq((ws.path / "ran").exists(), False, "whether a task ran")


@test("the refusal of an exclusive flow proposes to attach with the values that were given, not to a run with others")
def _(ws):
    (ws.path / ".aiflow/flows").mkdir(exist_ok=True)
    (ws.path / ".aiflow/flows/slow.yaml").write_text("params: {who: {default: x}}\ntasks: {a: 'echo up > up; while ! test -e enough; do sleep 0.05; done'}\n")
    first = ws.spawn("run", "slow")
    ws.until_file("up")
    eq(steps(ws.tasuki("run", "slow", "--detach").expect(4))[1], "tasuki run slow --detach --on-conflict attach", "apart")
    proposed = steps(ws.tasuki("run", "slow", "--set", "who=y").expect(4))[1]
    eq(proposed, "tasuki run slow --set who=y --on-conflict attach")
    typed(ws, proposed).expect(4)
    (ws.path / "enough").touch()
    eq(first.wait(60), 0, "the run that was there")


@test("a verb of runs behind `run` is proposed; so is the longer one of two words that are as near")
def _(ws):
    eq(steps(ws.tasuki("run", "logs", "lint").expect(5)), ["tasuki runs logs lint"])
    eq(steps(ws.tasuki("run", "list").expect(5)), ["tasuki runs list"])
    for name in ("slow.yaml", "list.yaml"):
        (ws.path / name).write_text("tasks: {a: 'true'}\n")
    eq(steps(ws.tasuki("run", "show").expect(5)), ["tasuki runs show"], "not another flow, which it would run")
    eq(steps(ws.tasuki("run", "list").expect(5)), ["tasuki run list.yaml"], "a file of that name")
    eq(steps(ws.tasuki("lgs").expect(2))[0], "tasuki logs")


@test("completion of --set offers the parameters of the flow and their choices, in the words of each shell")
def _(ws):
    (ws.path / "f.yaml").write_text("params: {env: {default: dev, choices: [dev, prod], help: Where}, who: {default: x}}\ntasks: {a: 'true'}\n")
    for words, offered in ((["--set", ""], ["env=", "who="]), (["--set", "w"], ["who="]), (["--set", "env="], ["env=dev", "env=prod"]),
                           (["--set", "env=p"], ["env=prod"]), (["--set", "env", "="], ["dev", "prod"]), (["--set", "env", "=", "p"], ["prod"]),
                           (["--set=e"], ["--set=env="]), (["--set", "env", "=", "dev", "--set", "w"], ["who="]), (["--set", "who", "="], [])):
        eq(ws.tasuki("__complete", "run", "f.yaml", *words).expect(0).out.split(), offered, words)
    eq(ws.tasuki("__describe", "run", "f.yaml", "--set", "e").expect(0).out, "env=\tWhere\n")


main(__name__)
