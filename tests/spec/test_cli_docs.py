"""Spec 8: what is generated from the operation table for shells and readers: completion and man pages."""

import shutil

from harness.harness import Skip, eq, main, test

NOUNS = ("lock", "sprint", "init", "status", "events", "version")


def complete(ws, *words):
    """What bash offers for the last word of the line."""
    if not shutil.which("bash"):
        raise Skip("bash is not installed")
    script = ws.base / "completion.bash"
    script.write_text(ws.tasuki("completion", "bash").expect(0).out)
    tool_path = f"{ws.build}:{ws.env()['PATH']}"
    line = " ".join(["tasuki", *words])
    program = """
        source "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$LINE"; COMP_POINT=${#LINE}; COMP_TYPE=9; COMPREPLY=()
        function=$(complete -p tasuki | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        "$function" tasuki "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    result = ws.run(["bash", "-c", program, "bash", script, "tasuki", *words], env={"LINE": line, "PATH": tool_path})
    return result.expect(0).out.replace("\t", " ").split()


@test("the completions for bash, zsh and fish are valid scripts", init=False)
def _(ws):
    for shell in ("bash", "zsh", "fish"):
        script = ws.base / f"completion.{shell}"
        script.write_text(ws.tasuki("completion", shell).expect(0).out)
        assert "tasuki" in script.read_text(), shell
        if shutil.which(shell):
            ws.run([shell, "-n", script]).expect(0)
    eq(ws.tasuki("completion", "tcsh").code, 2, "exit for another shell")
    eq(ws.tasuki("completion").code, 2, "exit without a shell")


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


@test("completion outside a workspace is silent", init=False)
def _(ws):
    eq(complete(ws, "lock", "release", "name", ""), [], "ids")


def man_source(ws, *noun):
    return ws.tasuki("help", *noun, "--format", "man").expect(0).out


@test("there is a man page for tasuki and one per noun, and groff finds nothing wrong with them", init=False)
def _(ws):
    for noun in ([], ["lock"], ["sprint"]):
        text = man_source(ws, *noun).replace("\\-", "-")
        title = "-".join(["tasuki", *noun])
        assert f'.TH "{title}"'.lower() in text.lower() or f".TH {title}".lower() in text.lower(), text[:400]
        assert ".SH NAME" in text or '.SH "NAME"' in text, text[:400]
        if shutil.which("groff"):
            result = ws.run(["groff", "-man", "-ww", "-Tutf8", "-z", "-Kutf8"], input=man_source(ws, *noun)).expect(0)
            eq(result.err, "", f"what groff says about {title}")


@test("the man page of lock describes every verb and its options", init=False)
def _(ws):
    text = man_source(ws, "lock").replace("\\-", "-")
    for word in ("acquire", "release", "renew", "check", "list", "run", "--ttl", "--wait", "--force", "--kill"):
        assert word in text, f"{word} is missing"


main(__name__)
