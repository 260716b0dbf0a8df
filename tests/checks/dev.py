#!/usr/bin/env python3
"""The exit status of ./dev and of .ci/run: 0 only when nothing was found, and 0 when nothing was found."""

import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.harness import eq, main, test  # noqa: E402
from harness.sources import ROOT  # noqa: E402

TOOLS = ("bash", "cat", "cmp", "cp", "date", "dirname", "find", "grep", "mkdir", "mktemp", "rm", "sh", "tail", "tee", "true", "xargs")


def tree(ws, **stubs):
    """A tree with our scripts and one source file, and a PATH on which the large tools are scripts of one line."""
    top, tools = ws.path / "tree", ws.path / "bin"
    for folder in (top / ".ci", top / "src", top / "build", tools):
        folder.mkdir(parents=True, exist_ok=True)
    for name in ("dev", ".ci/run"):
        shutil.copy(ROOT / name, top / name)
    (top / "src/a.c").write_text("int a;\n")
    for name in TOOLS:
        if not (tools / name).exists():
            (tools / name).symlink_to(shutil.which(name))
    for name, line in {"meson": "", "ninja": "", "python3": "", "clang": "", "clang_tidy": "", **stubs}.items():
        path = tools / name.replace("_", "-")
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)
    return top, {"PATH": str(tools), "TMPDIR": str(ws.path)}


def status(ws, *command, **stubs):
    top, env = tree(ws, **stubs)
    return subprocess.run([str(top / command[0]), *command[1:]], cwd=top, env=env, capture_output=True, text=True, check=False)


@test("./dev sanitize ends with 0 when there is no finding, and with another status when a tool found something", init=False)
def _(ws):
    result = status(ws, "dev", "sanitize", "--quick")
    eq(result.returncode, 0, f"without a finding, after\n{result.stderr}")
    eq(status(ws, "dev", "sanitize", "--quick", clang_tidy="echo 'a.c:1: warning'; exit 1").returncode, 1, "clang-tidy has a finding")
    eq(status(ws, "dev", "sanitize", "--quick", python3="exit 1").returncode, 1, "a test fails")


@test(".ci/run ends with 0 when tests and sanitizers do, its last line is the summary of the tests", init=False)
def _(ws):
    summary = "echo '3 passed, 0 failed'"
    result = status(ws, ".ci/run", python3=summary)
    eq((result.returncode, result.stdout.splitlines()[-1]), (0, "3 passed, 0 failed"), f"without a failure, after\n{result.stdout}{result.stderr}")
    result = status(ws, ".ci/run", python3="echo '2 passed, 1 failed'; exit 1")
    eq((result.returncode, result.stdout.splitlines()[-1]), (1, "2 passed, 1 failed"), "with a failure")
    result = status(ws, ".ci/run", python3=summary, clang_tidy="exit 1")
    eq((result.returncode, result.stdout.splitlines()[-1]), (1, "3 passed, 0 failed"), "with a finding of clang-tidy")


main(__name__)
