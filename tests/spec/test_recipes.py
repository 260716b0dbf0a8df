"""The recipes of CONTRIBUTING.md, applied to a copy of the tree as they stand there: it builds, and each result works on the
command line, over HTTP and over MCP."""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "mcp"))
from agent import Agent  # noqa: E402
from common import sleeper  # noqa: E402
from harness.harness import Skip, eq, main, test  # noqa: E402
from http_common import Server  # noqa: E402

BLOCK = re.compile(r"^```(?:c|json)\n/\* (to the end of|in) (\S+)(?: (before|after): ([^\n]*))? \*/\n(.*?)^```$", re.M | re.S)
FLOW = """flow: all(a | b | c) >> end
channel: {merge: {word: longest}}
groups: {all: {policy: majority}}
tasks:
  a: echo word=aaa >> $TASUKI_OUTPUT
  b: echo word=bbbbb >> $TASUKI_OUTPUT
  c: "false"
  end: "true"
"""


def recipes():
    return [match.groups() for match in BLOCK.finditer((ROOT / "CONTRIBUTING.md").read_text())]


def apply(tree, recipe):
    _where, name, side, line, body = recipe
    path = tree / name
    text = path.read_text()
    if not side:
        path.write_text(text + body)
        return
    lines = text.splitlines(keepends=True)
    found = [i for i, each in enumerate(lines) if each.strip().startswith(line)]
    eq(len(found), 1, f"lines of {name} that begin with {line!r}")
    at = found[0] + (side == "after")
    path.write_text("".join(lines[:at]) + body + "".join(lines[at:]))


def copy_tree(into):
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=True).stdout.decode().split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, into / name)


@test("CONTRIBUTING.md has a recipe for each table, and each block says where it goes", init=False)
def _(_ws):
    named = {recipe[1] for recipe in recipes()}
    for table in ("src/base/errors.def", "src/ops/op_events.c", "src/lock/kinds.def", "src/graph/merge.def",
                  "src/graph/policy.def", "src/doctor/checks.def"):
        assert table in named, table
    text = (ROOT / "CONTRIBUTING.md").read_text()
    eq(text.count("```c\n") + text.count("```json\n"), len(recipes()), "blocks that are applied")


def build(ws):
    if not shutil.which("meson"):
        raise Skip("there is no meson")
    if not (ROOT / ".git").exists():
        raise Skip("this is no git checkout: the files of the tree are not known")
    tree = ws.base / "tree"
    tree.mkdir()
    copy_tree(tree)
    for recipe in recipes():
        apply(tree, recipe)
    for command in (["meson", "setup", "-Dwerror=true", "-Ddebug=false", "-Doptimization=0", "build"], ["ninja", "-C", "build", "tasuki", "tasuki-hold"]):
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return tree / "build" / "tasuki"


@test("every recipe, followed literally, works on all skins", quick=False, deadline=1200)
def _(ws):
    ws.binary = build(ws)
    server = Server(ws, "--tools", "all")
    agent = Agent(ws, "--tools", "all")
    # the operation and its reason code
    eq(ws.tasuki("--json", "measure", "hello").expect(0).json["bytes"], 5, "on the command line")
    eq(server.ask("GET", "/api/measure?text=hello").json["bytes"], 5, "over HTTP")
    eq(agent.ok("measure_text", text="hello")["bytes"], 5, "over MCP")
    assert "bytes" in ws.tasuki("measure", "hello").expect(0).out
    assert "Too short" in ws.tasuki("measure", "x").expect(2).err
    eq(server.ask("GET", "/api/measure?text=x").status, 400)
    eq(agent.call("measure_text", text="x")["structuredContent"]["error"]["reason_code"], "TOO_SHORT")
    # the lock kind
    ws.tasuki("lock", "acquire", "board", "a", "--pid", sleeper(ws).pid).expect(0)
    eq(server.ask("GET", "/api/locks").json["locks"][0]["kind"], "board", "over HTTP")
    eq(agent.ok("lock_check", kind="board", id="a")["state"], "held", "over MCP")
    # the merge rule and the policy
    (ws.path / "f.yaml").write_text(FLOW)
    ws.tasuki("run", "f.yaml").expect(0)
    run = server.ask("GET", "/api/runs").json["runs"][0]["run_id"]
    for seen in (ws.tasuki("--json", "runs", "show", run).expect(0).json, server.ask("GET", f"/api/runs/{run}").json):
        eq((seen["status"], seen["channel"]["word"]), ("DONE", "bbbbb"), "the run")
    eq(agent.ok("run_show", run=run)["status"], "DONE", "over MCP")
    # the check
    for report in (ws.tasuki("--json", "doctor").json, server.ask("POST", "/api/doctor", {}).json, agent.ok("doctor")):
        eq([check["status"] for check in report["checks"] if check["name"] == "readme"], ["WARN"], "the check")
    server.stop()


main(__name__)
