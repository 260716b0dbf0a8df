#!/usr/bin/env python3
"""Shell and Python files parse, and the shell keeps to what shellcheck asks."""

import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.harness import Skip, main, test  # noqa: E402
from harness.sources import ROOT, read, refuse  # noqa: E402

FOLDERS = (".ci", "bench", "examples", "packaging", "share", "tests", "tools")


def files():
    found = [p for p in ROOT.iterdir() if p.is_file()]
    for folder in FOLDERS:
        found += [p for p in (ROOT / folder).rglob("*")
                  if p.is_file() and not {"node_modules", "__pycache__"} & set(p.parts)]
    return sorted(found)


def first_line(path):
    with open(path, "rb") as file:
        return file.readline(200).decode("ascii", "replace").rstrip()


def shells():
    """[(path, "sh" or "bash")] by their first line."""
    found = []
    for path in files():
        line = first_line(path)
        if line.startswith("#!") and line.split("/")[-1].split()[-1] in ("sh", "bash"):
            found.append((path, line.split("/")[-1].split()[-1]))
    return found


@test("shell scripts parse", init=False)
def _(_ws):
    assert any(path == ROOT / "dev" for path, _ in shells()), "./dev was not found"
    problems = []
    for path, shell in shells():
        if not shutil.which(shell):
            raise Skip(f"{shell} is not installed")
        result = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True, check=False)
        problems += [result.stderr.strip()] if result.returncode else []
    refuse(problems, "syntax errors:")


@test("shellcheck finds nothing", init=False)
def _(_ws):
    if not shutil.which("shellcheck"):
        raise Skip("shellcheck is not installed")
    result = subprocess.run(["shellcheck", "-S", "warning", *(str(path) for path, _ in shells())],
                            capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


@test("what has a #! line can be executed", init=False)
def _(_ws):
    problems = [str(path.relative_to(ROOT)) for path, _ in shells() if not path.stat().st_mode & 0o100]
    refuse(problems, "not executable:")


@test("./dev refuses words that it would ignore", init=False)
def _(_ws):
    for words in (["build", "extra"], ["nonsense"], ["fmt", "extra"], ["install", "--help"]):
        result = subprocess.run([ROOT / "dev", *words], capture_output=True, text=True, check=False)
        assert result.returncode == 2 and "usage" in result.stderr, result


@test("Python files parse", init=False)
def _(_ws):
    problems = []
    for path in files():
        if path.suffix == ".py":
            try:
                compile(read(path), str(path.relative_to(ROOT)), "exec")
            except SyntaxError as error:
                problems.append(f"{path.relative_to(ROOT)}:{error.lineno}: {error.msg}")
    refuse(problems, "syntax errors:")


main(__name__)
