"""Every example runs, and a program outside this repository can be built against what is installed."""

import os
import pathlib
import shutil

from common import run_held
from harness.harness import Skip, eq, main, test

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
HELD = "held, fence "


def library(ws):
    return ws.build / "libtasuki.so"


def is_sanitized(ws):
    return any(name in library(ws).read_bytes() for name in (b"__asan_init", b"__tsan_init", b"__ubsan_handle"))


def is_for_coverage(ws):
    return b"__gcov_init" in library(ws).read_bytes()


def need_plain_build(ws):
    if is_sanitized(ws):
        raise Skip("a plain program cannot load a library that was built with sanitizers")


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Skip(f"{program} is not installed")


def install(ws):
    """Installs the build below a private directory. Returns that directory and the one with tasuki.pc."""
    need("meson")
    destination = ws.base / "installed"
    ws.run(["meson", "install", "-C", ws.build, "--no-rebuild", "--destdir", destination]).expect(0)
    found = list(destination.rglob("tasuki.pc"))
    eq(len(found), 1, "number of tasuki.pc files")
    return destination, found[0].parent


def build_against(ws, destination, config):
    """Compiles examples/lock.c as somebody would who has only the installed files. Returns program and environment."""
    need("pkg-config", "cc")
    env = {"PKG_CONFIG_LIBDIR": config, "PKG_CONFIG_SYSROOT_DIR": destination}
    flags = ws.run(["pkg-config", "--cflags", "--libs", "tasuki"], env=env).expect(0).out.split()
    program = ws.base / "lock"
    ws.run(["cc", "-Wall", "-Wextra", "-Werror", EXAMPLES / "lock.c", *flags, "-o", program]).expect(0)
    return program, {"LD_LIBRARY_PATH": config.parent}


@test("lock.c takes the lock, works and gives it back")
def _(ws):
    result = ws.run([ws.build / "examples" / "example-lock", "deploy"]).expect(0)
    assert result.out.startswith(HELD) and result.out.endswith("step 3\n"), result.out
    eq([e["type"] for e in ws.events() if e["type"] in ("lock.acquired", "lock.released")], ["lock.acquired", "lock.released"], "events")
    ws.tasuki("lock", "check", "name", "deploy").expect(0)


@test("lock.c says who has the lock when it cannot have it")
def _(ws):
    run_held(ws, "deploy")
    result = ws.run([ws.build / "examples" / "example-lock", "deploy", "0"]).expect(4)
    pid = ws.read_lock("name", "deploy")["pid"]
    assert str(pid) in result.err and "tasuki lock" in result.err, result.err
    eq(result.out, "", "stdout")


@test("lock.c outside a workspace says so", init=False)
def _(ws):
    result = ws.run([ws.build / "examples" / "example-lock", "deploy"], env={"TASUKI_ROOT": ws.path}).expect(3)
    assert "workspace" in result.err, result.err


@test("coordinator.c runs each task in a branch that begins with it, and merges those that succeeded", init=False)
def _(ws):
    result = ws.run([ws.build / "examples" / "example-coordinator"]).expect(0)
    eq(result.out.splitlines(), ["wrong is not merged: The task wrong failed (session demo_wrong): it is broken",
                                 'count is 13, keys are ["count","left","right"], 2 steps'], "stdout")


@test("lock.sh runs both of its ways and leaves no lock")
def _(ws):
    env = {"PATH": f"{ws.build}:{os.environ['PATH']}"}
    eq("making the report" in ws.run([EXAMPLES / "lock.sh", "short"], env=env).expect(0).out, True, "short")
    eq(ws.run([EXAMPLES / "lock.sh", "long"], env=env).expect(0).out, "collecting\npublishing\n", "stdout of long")
    ws.tasuki("lock", "check", "name", "report").expect(0)


@test("lock.sh does nothing while somebody else has the lock")
def _(ws):
    env = {"PATH": f"{ws.build}:{os.environ['PATH']}", "WAIT": "0"}
    run_held(ws, "report")
    for way in ("short", "long"):
        eq(ws.run([EXAMPLES / "lock.sh", way], env=env).expect(4).out, "", f"stdout of {way}")


@test("lock.c builds with pkg-config against the installed library and works", slow=True)
def _(ws):
    need_plain_build(ws)
    program, env = build_against(ws, *install(ws))
    result = ws.run([program, "deploy"], env=env).expect(0)
    assert result.out.startswith(HELD), result.out


@test("the installation has the program, the library, the header and the pkg-config file")
def _(ws):
    destination, config = install(ws)
    names = {path.name for path in destination.rglob("*")}
    missing = {"tasuki", "libtasuki.so", "libtasuki.so.0", "tasuki.h", "tasuki.pc"} - names
    assert not missing, f"missing: {missing}"
    version = ws.run(["pkg-config", "--modversion", "tasuki"], env={"PKG_CONFIG_LIBDIR": config}).expect(0).out.strip()
    eq(version, ws.tasuki("version", "--json").json["version"], "the version of the pkg-config file")


@test("the library exports the names of tasuki.h and nothing else", init=False)
def _(ws):
    need("nm")
    if is_for_coverage(ws):
        raise Skip("a library that was built for coverage exports gcov's names as well")
    lines = ws.run(["nm", "-D", "--defined-only", library(ws)]).expect(0).out.splitlines()
    exported = {line.split()[-1].partition("@")[0] for line in lines}
    exported = {name for name in exported if not name.startswith("__")}  # the compiler's own (sanitizers)
    header = (ROOT / "include" / "tasuki.h").read_text()
    assert exported, "nothing is exported"
    eq(sorted(name for name in exported if not name.startswith("tsk_")), [], "names without the prefix")
    eq(sorted(name for name in exported if f"{name}(" not in header), [], "names that the header does not declare")


main(__name__)
