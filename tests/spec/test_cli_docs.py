"""Spec 8: what is generated from the operation table for shells and readers: completion, help and man pages."""

import os
import pathlib
import re
import shutil
import unicodedata

from flows import with_tool
from harness.harness import Skip, eq, main, test

COMMANDS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "protocol" / "cli.md"

NOUNS = ("lock", "sprint", "init", "status", "events", "version")


SHELLS = ("bash", "zsh", "fish")
# Lines, and what is offered for their last word.
LINES = {
    ("lock", "acq"): ["acquire"],
    ("--json", "lock", "rel"): ["release"],
    ("lock", "--json", "rel"): ["release"],
    ("--root", "/nowhere", "lock", "rel"): ["release"],
    ("--root=/nowhere", "lock", "rel"): ["release"],
    ("--lang", ""): ["en", "ja", "zh"],
    ("lock", "list", "--lang", "z"): ["zh"],
    ("--la",): ["--lang"],
    ("lock", "--verb"): ["--verbose"],
    ("lock", "acquire", "--wait", "1m", "na"): ["name"],
    ("help", "loc"): ["lock"],
    ("help", "comp"): ["completion"],
    ("help", "lock", "rel"): ["release"],
    ("help", "--format", ""): ["man", "text"],
    ("completion", ""): ["bash", "fish", "zsh"],
}
# Lines for which we have nothing to offer: the shell completes files.
NOTHING = (("--root", ""), ("lock", "run", "x", "--", "make", ""), ("lock", "run", "x", "--", "--j"),
           ("--", "lo", ""), ("nonsense", ""), ("lock", "nonsense", ""))


def need(program):
    if not shutil.which(program):
        raise Skip(f"{program} is not installed")


def script_for(ws, shell):
    script = ws.base / f"completion.{shell}"
    script.write_text(ws.tasuki("completion", shell).expect(0).out)
    return script


def with_tool(ws):
    return {"PATH": f"{ws.build}:{ws.env()['PATH']}"}


def complete(ws, *words):
    """What bash offers for the last word of the line."""
    need("bash")
    line = " ".join(["tasuki", *words])
    program = """
        source "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$LINE"; COMP_POINT=${#LINE}; COMP_TYPE=9; COMPREPLY=()
        function=$(complete -p tasuki | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        "$function" tasuki "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    result = ws.run(["bash", "-c", program, "bash", script_for(ws, "bash"), "tasuki", *words],
                    env={"LINE": line, **with_tool(ws)})
    return sorted(result.expect(0).out.split())


def complete_in_zsh(ws, *words):
    """What zsh is given; "FILES" or "COMMAND" where it is asked to complete files or another command's line."""
    need("zsh")
    program = """
        compdef() { }
        compadd() { print -l -- "${(@P)@[-1]}" }
        _files() { print FILES }
        _normal() { print COMMAND $CURRENT $words }
        source "$1"; shift
        words=("$@"); CURRENT=$#
        _tasuki
    """
    result = ws.run(["zsh", "-f", "-c", program, "zsh", script_for(ws, "zsh"), "tasuki", *words], env=with_tool(ws))
    eq(result.expect(0).err, "", "stderr of zsh")
    return sorted(result.out.split())


def complete_in_fish(ws, *words, env=None, in_order=False):
    need("fish")
    program = "source $argv[1]; complete -C \"$argv[2]\""
    line = " ".join(["tasuki", *words])
    result = ws.run(["fish", "--no-config", "-c", program, script_for(ws, "fish"), line], env=env or with_tool(ws))
    found = [row.partition("\t")[0] for row in result.expect(0).out.splitlines()]
    return found if in_order else sorted(found)


for shell in SHELLS:
    @test(f"the completion for {shell} is a valid script", init=False)
    def _(ws, shell=shell):
        script = script_for(ws, shell)
        assert "tasuki" in script.read_text(), shell
        need(shell)
        ws.run([shell, "-n", script]).expect(0)


@test("there is no completion for another shell, or for none", init=False)
def _(ws):
    eq(ws.tasuki("completion", "tcsh").code, 2, "exit for another shell")
    eq(ws.tasuki("completion").code, 2, "exit without a shell")


@test("bash completes past global options and their values, and nothing of ours after --", init=False)
def _(ws):
    for words, expected in LINES.items():
        eq(complete(ws, *words), expected, f"what is offered for {words}")
    for words in NOTHING:
        eq(complete(ws, *words), [], f"what is offered for {words}")
    registered = ws.run(["bash", "-c", 'source "$1"; complete -p tasuki', "bash", script_for(ws, "bash")]).expect(0).out
    assert "-o default" in registered, f"files are not completed: {registered}"


@test("bash completes --option=value, which it hands over as three words", init=False)
def _(ws):
    eq(complete(ws, "--lang", "="), ["en", "ja", "zh"], "after --lang=")
    eq(complete(ws, "--lang", "=", "z"), ["zh"], "after --lang=z")
    eq(complete(ws, "--root", "=", "/nowhere", "lock", "rel"), ["release"], "after --root=/nowhere")


@test("zsh completes as bash does, and files or the command where we offer nothing", init=False)
def _(ws):
    for words, expected in LINES.items():
        eq(complete_in_zsh(ws, *words), expected, f"what is offered for {words}")
    eq(complete_in_zsh(ws, "--lang=z"), ["--lang=zh"], "after --lang=z")
    eq(complete_in_zsh(ws, "--root", ""), ["FILES"], "after --root")
    eq(complete_in_zsh(ws, "lock", "run", "x", "--", "make", "al"), sorted(["COMMAND", "2", "make", "al"]), "after --")


@test("fish completes as bash does, and files where we offer nothing", init=False)
def _(ws):
    (ws.path / "a-file").touch()
    for words, expected in LINES.items():
        eq(complete_in_fish(ws, *words), expected, f"what is offered for {words}")
    eq(complete_in_fish(ws, "--lang=z"), ["--lang=zh"], "after --lang=z")
    for words in (("--root", "a-f"), ("lock", "run", "x", "--", "a-f")):
        eq(complete_in_fish(ws, *words), ["a-file"], f"what is offered for {words}")
    tool = ws.base / "bin" / "tool-of-mine"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    path = {"PATH": f"{tool.parent}:{with_tool(ws)['PATH']}"}
    eq(complete_in_fish(ws, "lock", "run", "x", "--", "tool-of", env=path), ["tool-of-mine"], "a command after --")


@test("zsh and fish show a description: a verb's summary, a run's flow and age, a task's state")
def _(ws):
    flows = ws.path / ".aiflow/flows"
    flows.mkdir(parents=True, exist_ok=True)
    (flows / "nightly.yaml").write_text("tasks: {first: {run: 'true'}}\n")
    ws.tasuki("run", "nightly").expect(0)
    run_id = next(path.name for path in (ws.path / ".aiflow/runs").glob("RUN-*"))
    described = {words: ws.tasuki("__describe", *words).expect(0).out for words in
                 (("lock", "acq"), ("run", "ni"), ("runs", "show", ""), ("runs", "logs", run_id, ""), ("sto",))}
    assert described["lock", "acq"].startswith("acquire\tTake a lock"), described
    eq(described["run", "ni"], "nightly\t.aiflow/flows/nightly.yaml\n")
    name, text = described["runs", "show", ""].rstrip("\n").split("\t")
    eq(name, run_id)
    assert text.startswith("DONE · .aiflow/flows/nightly.yaml · "), text
    eq(described["runs", "logs", run_id, ""], "first\tok\n")
    assert described[("sto",)].startswith("stop\tStop processes"), described
    eq(ws.tasuki("__complete", "run", "ni").expect(0).out, "nightly\n", "for bash")
    eq(complete_in_zsh(ws, "lock", "acq"), ["acquire"], "what zsh inserts")


@test("bash completes the command after -- where bash-completion is there", init=False)
def _(ws):
    need("bash")
    program = """
        _command_offset() { COMPREPLY=("offset $1"); }
        source "$1"
        COMP_WORDS=(tasuki lock run x -- make al); COMP_CWORD=6; COMPREPLY=()
        _tasuki; printf '%s\\n' "${COMPREPLY[@]}"
    """
    eq(ws.run(["bash", "-c", program, "bash", script_for(ws, "bash")], env=with_tool(ws)).expect(0).out, "offset 5\n")


@test("bash completes the first word after -- as a command where bash-completion is not there", init=False)
def _(ws):
    need("bash")
    program = 'source "$1"; COMP_WORDS=(tasuki lock run x -- mkdi); COMP_CWORD=5; _tasuki; printf "%s\\n" "${COMPREPLY[@]}"'
    found = ws.run(["bash", "-c", program, "bash", script_for(ws, "bash")], env=with_tool(ws)).expect(0).out.split()
    assert "mkdir" in found, found


@test("a flow is completed from the workspace first, then from the files that have one; a run also by @N and the end of its id")
def _(ws):
    (ws.path / ".aiflow/flows").mkdir(exist_ok=True)
    (ws.path / "sub").mkdir()
    for name in (".aiflow/flows/nightly.yaml", "deploy.yaml", "sub/inner.yml"):
        (ws.path / name).write_text("name: x\ntasks: {a: 'true'}\n")
    (ws.path / "other.yaml").write_text("services: {}\n")
    eq(ws.tasuki("__complete", "run", "").out.split(), ["nightly", "deploy.yaml"])
    keeps = {shell: script_for(ws, shell).read_text() for shell in SHELLS}
    assert "compadd -l -V " in keeps["zsh"] and " -k -a " in keeps["fish"], "a shell sorts what is offered"
    registered = ws.run(["bash", "-c", 'source "$1"; complete -p tasuki', "bash", script_for(ws, "bash")]).expect(0).out
    assert "-o nosort" in registered, registered
    if shutil.which("fish"):
        eq(complete_in_fish(ws, "run", "", in_order=True), ["nightly", "deploy.yaml"], "the order in fish")
    eq(complete(ws, "flow", "show", "sub/"), ["sub/inner.yml"])
    for _ in range(2):
        ws.tasuki("run", "nightly").expect(0)
    ids = sorted((path.name for path in (ws.path / ".aiflow/runs").glob("RUN-*")), reverse=True)
    eq(ws.tasuki("__complete", "runs", "show", "").out.split(), ids)
    eq(complete(ws, "runs", "show", "@"), ["@1", "@2"])
    eq(complete(ws, "runs", "show", ids[0][-6:-1]), [ids[0][-6:]])
    described = ws.tasuki("__describe", "").expect(0).out.splitlines()
    eq([line for line in described if line.startswith("queue\t")], ["queue\trun, run-next, stop, next, status, add"], "a noun")


@test("completion offers the runs that fit the command: answer those that ask, resume and cancel those that are not over; @N keeps its meaning")
def _(ws):
    (ws.path / "asks.yaml").write_text("tasks: {a: 'tasuki task ask Which?', b: 'tasuki task ask Where?'}\n")
    (ws.path / "f.yaml").write_text("tasks: {a: 'test -e good'}\n")
    ws.tasuki("run", "asks.yaml", env=with_tool(ws)).expect(8)
    ws.tasuki("run", "f.yaml").expect(7)
    failed, asks = [one["run_id"] for one in ws.tasuki("--json", "runs", "list").expect(0).json["runs"]]
    (ws.path / "good").touch()
    ws.tasuki("run", "f.yaml").expect(0)

    def offered(*words):
        return ws.tasuki("__complete", *words).expect(0).out.split()
    eq((offered("answer", ""), offered("answer", asks[-6:-1]), offered("answer", "@")), ([asks], [asks[-6:]], []), "answer")
    eq((offered("resume", ""), offered("resume", "@")), ([failed, asks], ["@2", "@3"]), "resume")
    eq(offered("runs", "cancel", ""), [asks], "cancel")
    eq(len(offered("runs", "show", "")), 3, "show")



@test("bash completes nouns, verbs and options", init=False)
def _(ws):
    found = complete(ws, "")
    assert set(NOUNS) <= set(found), found
    eq(complete(ws, "lock", "acq"), ["acquire"], "completion of lock acq")
    assert {"acquire", "release", "renew", "check", "list", "run"} <= set(complete(ws, "lock", ""))
    assert "--wait" in complete(ws, "lock", "acquire", "name", "x", "--w")


@test("bash completes kinds and the ids of the locks that are there")
def _(ws):
    for id in ("deploy", "database"):
        ws.tasuki("lock", "acquire", "name", id).expect(0)
    assert {"name", "request", "queue", "sprint"} <= set(complete(ws, "lock", "release", "")), "kinds"
    found = complete(ws, "lock", "release", "name", "d")
    eq(set(found) & {"deploy", "database"}, {"deploy", "database"}, "ids")
    eq(complete(ws, "lock", "release", "name", "dep"), ["deploy"], "ids that begin with dep")


@test("completion looks for ids in the workspace that --root names")
def _(ws):
    ws.tasuki("lock", "acquire", "name", "deploy").expect(0)
    elsewhere = ws.base / "elsewhere"
    elsewhere.mkdir()
    os.chdir(elsewhere)
    root = str(ws.path)
    for words in (["--root", root, "lock"], ["lock", f"--root={root}"], ["--root", "=", root, "lock"]):
        eq(complete(ws, *words, "release", "--force", "name", "d"), ["deploy"], f"ids after {words}")
    (ws.home / "w").symlink_to(ws.path)
    eq(complete(ws, "--root", "~/w", "lock", "release", "name", "d"), ["deploy"], "ids below ~")


@test("completion outside a workspace is silent", init=False)
def _(ws):
    eq(complete(ws, "lock", "release", "name", ""), [], "ids")


def columns(line):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def rows(text, header):
    """The lines below a header, up to the next empty one."""
    lines = text.split("\n")
    start = lines.index(header) + 1
    return lines[start:lines.index("", start)]


@test("help keeps to the terminal's width in every language", init=False)
def _(ws):
    commands = [c.split()[1:] for c in ("tasuki", "tasuki lock", "tasuki help", "tasuki completion", "tasuki events")]
    commands += [["lock", v] for v in ("acquire", "release", "renew", "check", "list", "run")]
    for width in (50, 72, 100):
        for lang in ("en", "ja", "zh"):
            for words in commands:
                text = ws.tasuki("--lang", lang, *words, "--help", env={"COLUMNS": width}).expect(0).out
                long = [line for line in text.splitlines() if columns(line) > width and len(line.split()) > 1]
                eq(long, [], f"lines of {words} in {lang} with more than {width} columns")


@test("help aligns the parameters, whatever their letters", init=False)
def _(ws):
    found = rows(ws.tasuki("lock", "run", "--help", "--all").expect(0).out, "Parameters")
    assert any("CMD…" in row for row in found), found
    for row in found:
        assert row[:24].endswith(" ") and row[24] != " ", row


@test("help says what errors mean in the user's language", init=False)
def _(ws):
    said = {lang: "\n".join(rows(ws.tasuki("--lang", lang, "lock", "run", "--help", "--all").expect(0).out,
                                 "Errors (exit code)")) for lang in ("en", "ja", "zh")}
    eq(len(set(said.values())), 3, "number of different texts")
    for lang in ("ja", "zh"):
        assert any(unicodedata.east_asian_width(c) == "W" for c in said[lang]), said[lang]


def man_source(ws, *noun):
    return ws.tasuki("help", *noun, "--format", "man").expect(0).out


@test("there is a man page for tasuki and one per noun, and groff finds nothing wrong with them", init=False)
def _(ws):
    nouns = sorted(set(re.findall(r"\(tasuki (\w+) VERB\)", ws.tasuki("help", "--all").expect(0).out)))
    assert "lock" in nouns, nouns
    made = sorted(path.name for path in (ws.build / "share").glob("tasuki-*.1"))
    eq(made, [f"tasuki-{noun}.1" for noun in nouns], "the pages that are installed (the list of share/meson.build)")
    for noun in ([], *([noun] for noun in nouns)):
        text = man_source(ws, *noun).replace("\\-", "-")
        title = "-".join(["tasuki", *noun]).upper()
        assert text.startswith(f".TH {title} 1 "), text[:400]
        for section in ("NAME", "SYNOPSIS", "COMMANDS", "OPTIONS", "EXIT STATUS", "SEE ALSO"):
            assert f".SH {section}\n" in text, f"{section} is missing in {title}"
        for option in ("--root", "--json", "--lang", "--quiet", "--verbose", "--no-color", "--help"):
            assert f"\n.TP\n\\fB{option}\\fR" in text.partition(".SH OPTIONS")[2], f"{option} is missing in {title}"
        if shutil.which("groff"):
            result = ws.run(["groff", "-man", "-ww", "-Tutf8", "-z", "-Kutf8"], input=man_source(ws, *noun)).expect(0)
            eq(result.err, "", f"what groff says about {title}")


@test("the man page of lock describes every verb and its options", init=False)
def _(ws):
    text = man_source(ws, "lock").replace("\\-", "-")
    for word in ("acquire", "release", "renew", "check", "list", "run", "--ttl", "--wait", "--force", "--kill"):
        assert word in text, f"{word} is missing"


def command_lines(ws):
    """A line for each command. What many commands share has one word: the settings of a process, the pages of a list."""
    operations = {op["name"]: op for op in ws.tasuki("help", "--json").expect(0).json["operations"]}
    create = operations["process.create"]["usage"]
    settings = create[create.index("[--env"):create.index(" [--start]")]
    for op in operations.values():
        usage = op["usage"].removeprefix("tasuki ").replace(settings, "[settings]")
        usage = usage.replace("[-n N] [--cursor C]", "[PAGE]").replace("|", "\\|")
        yield f"| `{usage}` | {op['summary']} |"


@test("docs/protocol/cli.md lists every command (TASUKI_WRITE=1 writes it)", init=False)
def _(ws):
    before, head, rest = COMMANDS.read_text().partition("| command | does |\n|---|---|\n")
    there, _, after = rest.partition("\n\n")
    lines = list(command_lines(ws))
    if os.environ.get("TASUKI_WRITE"):
        COMMANDS.write_text(before + head + "\n".join(lines) + "\n\n" + after)
        return
    eq([line for line in lines if line not in there.splitlines()], [], "missing lines (TASUKI_WRITE=1 writes them)")
    eq(there.splitlines(), lines, "the commands")


main(__name__)
