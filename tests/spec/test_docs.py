"""What README.md and the guides show works as shown.

A fence ```sh run is executed with `sh -eu` in a fresh workspace that has build/ in it and in PATH. A fence
```text output right after it is what the snippet prints (stdout and stderr), where `…` stands for anything in a line, and a line that is
only `…` for any lines.
"""

import itertools
import os
import pathlib
import re

from harness.harness import eq, main, test

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
ALL = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
ARCHITECTURE_LINES_MAX = 200


class Snippet:
    def __init__(self, path, line, script, output):
        self.path = path
        self.line = line
        self.script = script
        self.output = output  # None: anything

    def __str__(self):
        return f"{self.path.relative_to(ROOT)}:{self.line}"


def snippets(path):
    text = path.read_text(encoding="utf-8")
    fences = [(m[1].strip(), m[2], text.count("\n", 0, m.start()) + 1) for m in FENCE.finditer(text)]
    found = []
    for number, (info, body, line) in enumerate(fences):
        if info != "sh run":
            continue
        after = fences[number + 1] if number + 1 < len(fences) else ("", "", 0)
        found.append(Snippet(path, line, body, after[1] if after[0] == "text output" else None))
    return found


def pattern_of(output):
    """A server may write the end of a line later than the line, so a line that ends in … may be incomplete."""
    lines = ["(?s:.*)" if line == "…" else ".*".join(map(re.escape, line.split("…"))) for line in output.splitlines()]
    return "\n".join(lines).replace(".*\n", ".*\n?")


def run_snippet(ws, snippet):
    (ws.path / "build").symlink_to(ws.build)
    script = ws.base / "snippet.sh"
    script.write_text("exec 2>&1\n" + snippet.script)
    result = ws.run(["sh", "-eu", script], env={"PATH": f"{ws.build}:{os.environ['PATH']}"})
    assert result.code == 0, f"{snippet} fails\n{result}"
    if snippet.output is not None:
        shown = result.out.rstrip("\n")
        assert re.fullmatch(pattern_of(snippet.output), shown), f"{snippet} prints\n{shown}\nand not\n{snippet.output}"


def add_snippet_test(snippet, number):
    name = f"{snippet.path.relative_to(ROOT)}: snippet {number} works as shown"

    @test(name)
    def _(ws):
        run_snippet(ws, snippet)


for document in DOCUMENTS:
    for count, one in enumerate(snippets(document), 1):
        add_snippet_test(one, count)


@test("README.md and the guide of locks have snippets that run", init=False)
def _(_ws):
    for path in (ROOT / "README.md", ROOT / "docs" / "guide" / "locks.md"):
        assert snippets(path), f"{path.name} has none"


STAND_INS = {
    "npm": "exec sleep 600",
    "make": "exit 0",
    "claude": 'while [ "$1" != -- ]; do shift; done; shift; exec "$@" </dev/null',  # as the client would start it
}


@test("the commands in the table of README.md work as typed", slow=True)
def _(ws):
    rows = re.findall(r"^\| .*\| (`tasuki.*|`claude.*) \|$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    commands = [command for row in rows for command in re.findall(r"`([^`]+)`", row)]
    assert len(commands) >= 5, f"the table was not understood: {rows}"
    stand_ins = ws.base / "stand-ins"
    stand_ins.mkdir()
    for name, body in STAND_INS.items():
        (stand_ins / name).write_text(f"#!/bin/sh\n{body}\n")
        (stand_ins / name).chmod(0o755)
    (ws.path / "Procfile").write_text("web: echo hello\n")
    (ws.path / "release.yaml").write_text("flow: a >> b\ntasks: {a: echo a, b: echo b}\n")
    for command in commands:
        result = ws.run(["sh", "-c", command], env={"PATH": f"{stand_ins}:{ws.build}:{os.environ['PATH']}"})
        assert result.code == 0, f"`{command}` fails\n{result}"
    ws.tasuki("proc", "remove", "--all", "--force").expect(0)


@test("the C code in the guides compiles", init=False)
def _(ws):
    for path in DOCUMENTS:
        for number, found in enumerate(m[2] for m in FENCE.finditer(path.read_text()) if m[1].strip() == "c"):
            source = ws.base / f"{path.stem}{number}.c"
            source.write_text(found)
            ws.run(["cc", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{ROOT / 'include'}", source]).expect(0)


@test("links between the documents lead somewhere", init=False)
def _(_ws):
    broken = []
    for path in ALL:
        for target in LINK.findall(path.read_text(encoding="utf-8")):
            if "://" not in target and not (path.parent / target).exists():
                broken.append(f"{path.relative_to(ROOT)}: {target}")
    assert not broken, "\n".join(broken)


@test("the documents name only files that are there", init=False)
def _(_ws):
    named = re.compile(r"`(?!tools/(?:list|call)`)((?:src|tests|docs|examples|include|share|tools)/[\w./-]*\w)`")
    missing = [f"{path.relative_to(ROOT)}: {name}" for path in ALL for name in named.findall(path.read_text(encoding="utf-8"))
               if not (ROOT / name).exists()]
    assert not missing, "\n".join(missing)


@test(f"the architecture fits in {ARCHITECTURE_LINES_MAX} lines", init=False)
def _(_ws):
    lines = len((ROOT / "docs" / "architecture.md").read_text().splitlines())
    assert lines <= ARCHITECTURE_LINES_MAX, f"it has {lines}"


@test("every operation, reason code and exit code is in the protocol of the command line", init=False)
def _(ws):
    text = (ROOT / "docs" / "protocol" / "cli.md").read_text()
    verbs = re.findall(r"^  (\w+) {2,}", ws.tasuki("help").expect(0).out, re.MULTILINE)
    eq([verb for verb in verbs if verb not in text], [], "commands that it does not name")
    table = (ROOT / "src" / "base" / "errors.def").read_text()
    rows = re.findall(r'^X\(\w+, "(\w+)", (\w+), (\d+), (\d+)', table, re.MULTILINE)
    assert rows, "errors.def was not understood"
    wrong = [name for name, category, http, code in rows if f"| `{name}` | {category} | {http} | {code} |" not in text]
    eq(wrong, [], "reason codes that are missing or differ")


def commands_in(path):
    """Of README and the guides: [(line, words)] of the commands in fences of the shell, and between backticks."""
    text = path.read_text(encoding="utf-8")
    found = [(m.start(2), m[2]) for m in FENCE.finditer(text) if m[1].strip() in ("sh", "sh run")]
    outside = FENCE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    found += [(m.start(1), m[1]) for m in re.finditer(r"`([^`]+)`", outside)]
    for start, code in found:
        code = re.sub(r"claude mcp add[^\n]*?( -- |$)", lambda m: " " * len(m[0]), code, flags=re.MULTILINE)
        for m in re.finditer(r"(?<![\w/.-])(?:build/)?tasuki ([^\n|;&#)]*)", code):
            yield text.count("\n", 0, start + m.start()) + 1, m[1].split()


@test("the commands in README.md and the guides exist, with the options that are shown", init=False)
def _(ws):
    usages = [one["usage"].split() for one in ws.tasuki("help", "--json").expect(0).json["operations"]]
    verbs = {}
    for usage in usages:
        words = tuple(itertools.takewhile(re.compile("[a-z-]+$").match, usage[1:]))
        verbs[words] = set(re.findall(r"--?[a-z][a-z-]*", " ".join(usage)))
    everywhere = set(re.findall(r"--?[a-z][a-z-]*", ws.tasuki("help", "--all").expect(0).out.split("Options for every command")[1]))
    wrong, count = [], 0
    for path in DOCUMENTS:
        for line, words in commands_in(path):
            while words and words[0].startswith("--"):
                words = words[2:] if words[0] in ("--root", "--lang") else words[1:]
            verb = next((tuple(words[:n]) for n in (3, 2, 1) if tuple(words[:n]) in verbs), None)
            is_noun = len(words) == 1 and any(words[0] in one[:-1] for one in verbs)
            rest = list(itertools.takewhile(lambda word: word != "--", words[len(verb or ()):]))
            options = {m[0] for word in rest if (m := re.match(r"--[a-z][a-z-]*", word))}
            count += 1
            if not verb and words and not is_noun or verb and not options <= verbs[verb] | everywhere:
                wrong.append(f"{path.relative_to(ROOT)}:{line}: tasuki {' '.join(words)}")
    assert count > 200, f"{count} commands were found"
    assert not wrong, "\n".join(wrong)


NOT_FOR_USERS = {"TASUKI_PROCESS_MARK"}  # between a holder and its own programs


@test("each environment variable that the program reads or sets is in the documents", init=False)
def _(_ws):
    named = {name for path in sources(ROOT / "src") for name in re.findall(r'"((?:TASUKI|VANTAGE)_[A-Z_]*[A-Z])"', path.read_text())}
    text = " ".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md") if path.name != "architecture.md")
    assert len(named) > 25, f"few were found: {named}"
    eq(sorted(name for name in named - NOT_FOR_USERS if not re.search(rf"\b{name}\b", text)), [], "those that no document names")


def sources(folder):
    return [path for path in folder.rglob("*") if path.suffix in (".c", ".h", ".def")]


@test("the guide of doctor says what each check finds", init=False)
def _(_ws):
    checks = re.findall(r"^X\((\w+),", (ROOT / "src/doctor/checks.def").read_text(), re.MULTILINE)
    table = (ROOT / "docs/guide/doctor.md").read_text().split("## The checks")[1]
    named = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)))
    eq(sorted(named), sorted(checks), "the checks of the table")


main(__name__)
