"""Copies of the project, in which tools/mutate.py builds faulty programs, and the cage in which their tests run."""

import contextlib
import ctypes
import hashlib
import json
import os
import pathlib
import selectors
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
HOME = ROOT / "build-mutate"
PROGRAMS = ("tasuki", "tasuki-hold", "tests/fault/tasuki-fault", "tests/fault/tasuki-hold")  # tests start them by chance, too
CAUGHT, SURVIVED, HUNG, STILLBORN, SAME, EQUAL = "caught", "survived", "hung", "does not compile", "same object", "equivalent"
PLAIN = ("-Doptimization=2", "-Ddebug=false", "-Dc_args=-Werror=incompatible-pointer-types -Werror=int-conversion")

# Everything is read-only but the tree and /tmp, which is a folder of ours. The tree itself may be below /tmp.
CAGE = r"""
set -e
tmp=$1 tree=$2
shift 2
mount --make-rprivate /
case $tree in
/tmp/*)
    mkdir -p "$tmp/${tree#/tmp/}"
    mount --bind "$tree" "$tmp/${tree#/tmp/}"
    ;;
*) mount --bind "$tree" "$tree" ;;
esac
mount --rbind "$tmp" /tmp
cut -d ' ' -f 5 /proc/self/mountinfo | while read -r place; do
    case $place in
    /proc | /proc/* | /sys | /sys/* | /dev | /dev/* | /tmp | /tmp/* | "$tree" | "$tree"/*) ;;
    *) mount -o remount,bind,ro "$place" || test ! -w "$place" ;;
    esac
done
cd "$tree"
status=0
"$@" || status=$?
exit "$status"
"""


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Tree:
    """A copy of the project with a build in it: for one mutant at a time, or for the map of tools/mutate_map.py."""

    def __init__(self, name, options=PLAIN):
        self.path = HOME / f"tree-{name}"
        self.build = self.path / "build"
        self.tmp = HOME / f"tmp-{name}"
        self.options = options
        self.mutated = None

    def prepare(self, files):
        """Makes it equal to the working tree, changed and new files included."""
        wanted = {self.path / name for name in files}
        for old in self.path.rglob("*"):
            if self.build not in (old, *old.parents) and not old.is_dir() and old not in wanted:
                old.unlink()
        for name in files:
            copy_if_changed(ROOT / name, self.path / name)
        if not (self.build / "build.ninja").exists():
            self.run_tool("meson", "setup", *self.options, "build")
        self.run_tool("ninja", "-C", "build", "--quiet")

    def run_tool(self, *argv):
        env = dict(os.environ, CCACHE_BASEDIR=str(self.path), CCACHE_NOHASHDIR="1")
        done = subprocess.run(argv, cwd=self.path, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            sys.exit(f"mutate: {' '.join(argv)} failed in {self.path}\n{done.stdout[-4000:]}")

    def ninja(self, *targets):
        # Without ccache: it would fill up with mutants.
        done = subprocess.run(["ninja", "-C", str(self.build), "--quiet", *targets], stdin=subprocess.DEVNULL, check=False,
                              env=dict(os.environ, CCACHE_DISABLE="1"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return done.returncode == 0

    def object_of(self, file):
        for entry in json.loads((self.build / "compile_commands.json").read_text()):
            if (self.build / entry["file"]).resolve() == (self.path / file).resolve():
                return entry["output"]
        raise KeyError(file)

    def mutate(self, mutant):
        """Builds it. Returns None, or why it is no mutant."""
        self.restore()
        target = self.object_of(mutant.file)
        if not self.ninja(target):
            sys.exit(f"mutate: {target} does not build without a mutant")
        original = (self.build / target).read_bytes()
        self.mutated = self.path / mutant.file, (self.path / mutant.file).read_text()
        self.mutated[0].write_text(mutant.apply(self.mutated[1]))
        if not self.ninja(target):
            return STILLBORN
        if (self.build / target).read_bytes() == original:
            return SAME
        return None

    def restore(self):
        if self.mutated:
            self.mutated[0].write_text(self.mutated[1])
            self.mutated = None

    def run(self, suite, tests, deadline):
        """Links and runs tests of a suite, in the cage, until the first failure. Returns (verdict, what failed)."""
        programs = {program for test in tests for program in test.programs} | set(() if suite.startswith("unit/") else PROGRAMS)
        if not self.ninja(*sorted(programs)):
            return CAUGHT, "does not link"
        with self.caged(command_of(suite, self, [test.number for test in tests]), self.tmp) as proc:
            return follow(proc, time.monotonic() + deadline)

    @contextlib.contextmanager
    def caged(self, argv, tmp, **env):
        """The running program, in a cage whose /tmp is `tmp`. Nothing of it is left afterwards."""
        shutil.rmtree(tmp, ignore_errors=True)
        tmp.mkdir(parents=True)
        tmp.chmod(0o1777)
        user = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
        argv = ["unshare", *user, "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "sh", "-c", CAGE, "cage",
                str(tmp), str(self.path), *argv]
        env = dict(os.environ, TASUKI_BUILD=str(self.build), PYTHONPATH=str(self.path / "tests"),
                   PYTHONDONTWRITEBYTECODE="1", TMPDIR="/tmp", **env)
        with subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              preexec_fn=die_with_parent) as proc:
            try:
                yield proc
            finally:
                proc.kill()  # and with it, by --kill-child, all that runs in the cage
                proc.wait()
                shutil.rmtree(tmp, ignore_errors=True)


def lines_of(proc, end):
    """The lines that it prints until it ends; None when the time is over."""
    text = b""
    with selectors.DefaultSelector() as selector:
        selector.register(proc.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0, end - time.monotonic())):
                yield None
                return
            chunk = os.read(proc.stdout.fileno(), 65536)
            text += chunk
            *lines, text = (text + b"\n" if not chunk else text).split(b"\n")
            yield from (line.decode("utf-8", "replace") for line in lines)
            if not chunk:
                return


def follow(proc, end):
    """Reads TAP until the first failure or the end. Returns (verdict, what failed)."""
    planned, passed = None, 0
    for line in lines_of(proc, end):
        if line is None:
            return HUNG, "did not end in time"
        if line.startswith("not ok"):
            return CAUGHT, line.partition(" - ")[2] or line
        passed += line.startswith("ok")
        planned = int(line[3:].split()[0]) if line.startswith("1..") else planned
    code = proc.wait()
    if code or planned is None or passed != planned:
        return CAUGHT, f"ended with {code} after {passed} of {planned} tests"
    return SURVIVED, ""


def copy_if_changed(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_symlink():
        target.unlink(missing_ok=True)
        target.symlink_to(os.readlink(source))
    elif not target.is_file() or source.read_bytes() != target.read_bytes():
        shutil.copy(source, target)


def command_of(suite, tree, numbers=()):
    if suite.startswith("unit/"):
        return [str(tree.build / "tests" / suite)]
    return [sys.executable, str(tree.path / "tests" / suite), "--medium", *(["--only", ",".join(map(str, numbers))] if numbers else [])]


def all_suites():
    """[(name, file)]"""
    found = [(f"unit/{path.stem}", path) for path in sorted((ROOT / "tests/unit").glob("*_test.c"))]
    for folder in ("spec", "crash", "storm"):
        found += [(f"{folder}/{path.name}", path) for path in sorted((ROOT / "tests" / folder).glob("test_*.py"))]
    return found


def parts_of(path):
    """A suite, and the text that it compares with."""
    known = path.parent / "golden" / f"{path.stem.removeprefix('test_')}.txt"
    return [part for part in (path, known) if part.is_file()]


def digest(paths):
    found = hashlib.sha256()
    for path in paths:
        found.update(path.name.encode() + b"\0" + (path.read_bytes() if path.is_file() else b"") + b"\0")
    return found.hexdigest()[:10]


def say(text):
    print(f"mutate: {text}", flush=True)
