"""The shell example of processes, and the demo: both run to their end, and nothing is left running."""

import os
import pathlib

from harness.harness import eq, main, test

ROOT = pathlib.Path(__file__).resolve().parents[2]
WITH_SERVER = ROOT / "examples" / "with-server.sh"
SERVER = "python3 -u -m http.server 0 --bind 127.0.0.1"


def with_server(ws, *args):
    return ws.run([WITH_SERVER, *args], env={"PATH": f"{ws.build}:{os.environ['PATH']}"})


def ids(ws):
    return [p["id"] for p in ws.tasuki("proc", "list", "--json").expect(0).json["processes"]]


@test("with-server.sh runs the command while the server is ready, then removes the server")
def _(ws):
    result = with_server(ws, "log:Serving HTTP", SERVER, "tasuki", "proc", "list", "--json").expect(0)
    eq([(p["state_name"], p["phase"]) for p in result.json["processes"]], [("Running", "ready")], "the server")
    eq(ids(ws), [], "what is registered afterwards")


@test("with-server.sh ends with the command's exit code, the server removed")
def _(ws):
    with_server(ws, "log:Serving HTTP", SERVER, "sh", "-c", "exit 3").expect(3)
    eq(ids(ws), [], "what is registered afterwards")


@test("with-server.sh does not run the command when the server fails, and shows what it said")
def _(ws):
    result = with_server(ws, "log:Serving HTTP", "echo no port >&2; exit 3", "touch", "ran").expect(1)
    assert "no port" in result.err and not (ws.path / "ran").exists(), result
    eq(ids(ws), [], "what is registered afterwards")


@test("the demo tells its whole story and leaves nothing running", slow=True, init=False)
def _(ws):
    result = ws.run([ROOT / "tools" / "demo", ws.binary]).expect(0)
    eq(result.err, "", "stderr")
    told = [f"{n}." for n in range(1, 15)]
    eq([n for n in told if f"\n{n} " not in result.out], [], "parts that are missing")
    for fact in ("process.adopted", "process.restarting", "LOCK_STALE_RECOVERED", "INTERRUPTED", "waits for RQ-hello", "the kernel still holds its lock"):
        assert fact in result.out, f"{fact} is not in\n{result.out}"
    left = list(pathlib.Path(ws.base).glob("tasuki-demo.*"))
    eq(len(left), 1, "workspaces")
    records = ws.tasuki("--root", left[0], "proc", "list", "--json").expect(0).json["processes"]
    eq([p["state_name"] for p in records], ["Stopped"], "states")


main(__name__)
