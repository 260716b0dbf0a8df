"""What a run shows while it goes on: --output live, grouped, fail; on a terminal, in a pipe, on GitHub."""

import json
import re

from flows import only_run, with_tool, write_flow
from harness.harness import eq, main, test
from harness.screen import Screen, tasuki_screen

GATE = "until test -e go; do sleep 0.05; done"
THREE = "tasks:\n  a: 'echo one; echo two'\n  b: {run: 'echo broken >&2; exit 3', needs: [a]}\n  c: {run: 'true', needs: [b]}\n"


def run(ws, text, *args, code=0, env=None):
    return ws.tasuki("run", write_flow(ws, text), *args, env={**with_tool(ws), **(env or {})}).expect(code).out


def without_spans(lines):
    return [re.sub(r"\d+ (ms|s|min)\b", "N s", line) for line in lines]


def before_end(out):
    """The lines before the one that says how the run ended."""
    lines = out.splitlines()
    return without_spans(lines[:next(i for i, line in enumerate(lines) if line.startswith("RUN-"))])


@test("live lines of tasks that run at the same time are aligned")
def _(ws):
    wait = "touch {}; until test -e {}; do sleep 0.01; done; echo here"
    (ws.path / "f.yaml").write_text(f"tasks: {{a: '{wait.format('a', 'compile')}', compile: '{wait.format('compile', 'a')}'}}\n")
    shown = ws.tasuki("run", "f.yaml", "-j", "2", "--output", "live").expect(0).out.splitlines()
    eq(sorted(line for line in shown if "|" in line), ["a       | here", "compile | here"])


@test("in a pipe there is a plain line when a task starts and when it ends; what tasks print is not shown until one fails")
def _(ws):
    out = run(ws, THREE, code=7)
    eq(before_end(out), ["a: started", "a: ok in N s", "b: started", "b: failed after N s"])
    assert "    broken\n" in out and "one" not in out, out


@test("--output grouped shows what a task has printed below the line about its end")
def _(ws):
    out = run(ws, THREE, "--output", "grouped", code=7)
    eq(before_end(out), ["a: started", "a: ok in N s", "    one", "    two", "b: started", "b: failed after N s", "    broken"])
    eq(out.count("broken"), 1, "what stands right above is not repeated")


@test("--output live shows what a task prints while it runs, each line with its task; a line without an end comes with the task's end")
def _(ws):
    text = f"tasks:\n  a: 'echo early; printf late; {GATE}'\n  b: 'true'\n"
    out = ws.path / "out"
    with open(out, "wb") as file:
        proc = ws.spawn("run", write_flow(ws, text), "--output", "live", "-j", "2", env=with_tool(ws), stdout=file)
    ws.until(lambda: "a | early\n" in out.read_text(), "the first line is shown")
    assert "late" not in out.read_text(), out.read_text()
    (ws.path / "go").touch()
    ws.finish(proc).expect(0)
    assert "a | late\na: ok in " in out.read_text(), out.read_text()


@test("a task that runs again, in a cycle or after a resume, shows only what is new")
def _(ws):
    again = "test -e again && echo second || { echo first; touch again; tasuki task again; }"
    out = run(ws, f"tasks: {{a: '{again}'}}\n", "--output", "live")
    eq([line for line in out.splitlines() if line in ("first", "second")], ["first", "second"])
    out = run(ws, "tasks: {a: 'test -e fixed && echo third || { echo fourth; exit 1; }'}\n", "--output", "live", code=7)
    (ws.path / "fixed").touch()
    out = ws.tasuki("resume", "@1", "--output", "live").expect(0).out
    assert "third" in out and "fourth" not in out, out


@test("on GitHub the output of each task is a group, a failure is an error, and no task can give a command to the workflow")
def _(ws):
    evil = "echo ::set-output name=x::y; echo \"  ::add-mask::x\"; echo \"##[add-path]x\"; echo ::endgroup::; exit 3"
    for how in ([], ["--output", "live"], ["--output", "fail"]):
        out = run(ws, f"tasks:\n  a: 'echo fine'\n  b: {{run: '{evil}', needs: [a]}}\n", *how, code=7, env={"GITHUB_ACTIONS": "true"})
        fence, outside = None, []
        for line in out.splitlines():
            if fence:
                fence = None if line == f"::{fence}::" else fence
            elif line.startswith("::stop-commands::"):
                fence = line.removeprefix("::stop-commands::")
                assert re.fullmatch("[0-9a-f]{32}", fence), line
            elif "::" in line or "##[" in line:
                outside.append(re.sub(r"::error title=b::.*", "::error", line))
        eq((fence, outside), (None, ["::error"] if how else ["::group::a", "::endgroup::", "::group::b", "::endgroup::", "::error"]), f"commands with {how}")
        tokens = re.findall(r"::stop-commands::(\w+)", out)
        eq(len(tokens), len(set(tokens)), f"a token for each, in\n{out}")
    logs = ws.tasuki("runs", "logs", env={"GITHUB_ACTIONS": "true"}).expect(0).out
    assert re.search(r"::stop-commands::(\w+)\n::set-output[^\0]*::\1::\n", logs), logs
    assert "::" not in run(ws, "tasks: {a: 'echo fine'}\n", env={"GITHUB_ACTIONS": "false"}), "what GitHub is not told"


@test("on a terminal each task that runs has a line: its name, since when, what it printed last; at the end none of this is left")
def _(ws):
    text = f"name: build\ntasks:\n  first: 'true'\n  compile: 'echo main.c; printf \"50%%\\r\\033[31m60%%\\tdone\"; {GATE}'\n  lint: '{GATE}'\n"
    screen = tasuki_screen(ws, "run", write_flow(ws, text), "-j", "3", cols=80, rows=24)
    shown = screen.until_text("1/3", "60%")
    assert re.search(r"\[#{8}\.{16}\] 1/3  \d+ s\n  compile  \d+ s +60% done\n  lint     \d+ s\n", shown), shown
    screen.resize(40, 12)
    screen.until(lambda text: text.startswith("[##......] 1/3"), "the narrow one")
    assert screen.text().count("compile") == 1, screen.text()
    (ws.path / "go").touch()
    eq(screen.ended(), 0, "exit code")
    eq(len(screen.text(scrolled=True).splitlines()), 1 + (len("RUN-20261116T144331-1efaa4 DONE  3 of 3 tasks  100 ms") > 40), screen.text())


@test("the tasks that run are never more lines than a terminal has; the rest are counted")
def _(ws):
    tasks = "".join(f"  task-{i:02}: 'echo line {i}; {GATE}'\n" for i in range(20))
    screen = tasuki_screen(ws, "run", write_flow(ws, "tasks:\n" + tasks), "-j", "20", cols=40, rows=12)
    shown = screen.until_text("task-00", "line 7", "… and 12 more")
    eq((len(shown.splitlines()), "task-08" in shown), (10, False), f"lines of\n{shown}")
    screen.resize(100, 30)
    shown = screen.until_text("task-19", "line 19")
    assert "more" not in shown and shown.count("task-") == 20, shown
    (ws.path / "go").touch()
    eq(screen.ended(), 0, "exit code")
    eq([line[:4] for line in screen.text(scrolled=True).splitlines()], ["RUN-"], screen.text(scrolled=True))


@test("while Ctrl-C waits for a task that ignores SIGTERM its name is said once; a task that never began was not reached, and not stopped")
def _(ws):
    text = "tasks:\n  stubborn: \"trap '' TERM; touch up; while :; do sleep 0.1; done\"\n  later: 'true'\n"
    screen = tasuki_screen(ws, "run", write_flow(ws, text), "-j", "1", cols=100)
    ws.until((ws.path / "up").exists, "it runs")
    screen.keys("C-c")
    screen.until_text("Still running after SIGTERM: stubborn. SIGKILL comes after 3 s, or at once with Ctrl-C.")
    screen.keys("C-c")
    eq(screen.ended(), 7, "exit code")
    shown = screen.text(scrolled=True)
    assert shown.count("Still running") == 1 and "CANCELLED  0 of 2 tasks, 1 stopped, 1 not reached" in shown, shown


@test("on a terminal a failure is told at once, above the tasks that still run")
def _(ws):
    screen = tasuki_screen(ws, "run", write_flow(ws, f"tasks:\n  bad: 'echo broken; exit 1'\n  slow: '{GATE}'\n"), "-j", "2")
    shown = screen.until_text("bad: failed after", "slow")
    assert shown.index("bad: failed") < shown.index("1/2") and "broken" not in shown, shown
    (ws.path / "go").touch()
    eq(screen.ended(), 7, "exit code")
    assert "    broken\n" in screen.text(), screen.text()


@test("on a terminal a flow of one task is live, and what it printed is not repeated when it fails")
def _(ws):
    screen = tasuki_screen(ws, "run", write_flow(ws, f"tasks: {{a: 'echo early; {GATE}; echo late; exit 2'}}\n"))
    screen.until_text("early\n[....", "0/1")
    (ws.path / "go").touch()
    eq(screen.ended(), 7, "exit code")
    shown = screen.text()
    assert shown.startswith("early\nlate\nRUN-") and shown.count("late") == 1, shown


@test("a run in the background leaves the terminal to the shell, until it has ended")
def _(ws):
    flow = write_flow(ws, f"tasks:\n  a: 'echo line; {GATE}'\n  b: 'true'\n")
    script = (f"set -m; {ws.binary} run {flow} & until grep -q RUNNING .aiflow/runs/RUN-*/stage.json 2>/dev/null; do sleep 0.05; done; "
              "echo prompt; touch go; wait; echo end")
    screen = Screen(ws, ["bash", "-c", script])
    shown = screen.until_text("\nend\n")
    eq(screen.ended(), 0, "exit code")
    assert "0/2" not in shown and "1/2" not in shown and "prompt\nRUN-" in shown, shown


@test("a terminal that cannot move its cursor gets plain lines")
def _(ws):
    screen = tasuki_screen(ws, "run", write_flow(ws, THREE), term="dumb")
    eq(screen.ended(), 7, "exit code")
    eq(before_end(screen.text()), ["a: started", "a: ok in N s", "b: started", "b: failed after N s"])


@test("resume, request run and queue run show it the same way; a run apart has nothing to show")
def _(ws):
    live = ("--output", "live")
    request = lambda number: (ws.path / f".aiflow/requests/RQ-{number}.yaml").write_text("title: t\nrun: 'echo hello'\nstatus: ready\n")
    for number in (1, 2, 3):
        request(number)
    assert "hello\n" in ws.tasuki("request", "run", "RQ-1", *live).expect(0).out
    assert "hello\n" in ws.tasuki("queue", "run-next", *live).expect(0).out
    assert "hello\n" in ws.tasuki("queue", "run", *live).expect(0).out
    ws.tasuki("run", write_flow(ws, "tasks: {a: 'true'}\n"), "--detach", *live).expect(0)
    ws.tasuki("run", "flow.yaml", "--output", "loud").expect(2)


@test("in CI a terminal gets plain lines, whatever the flow; on GitHub also the groups")
def _(ws):
    for variables in ({"CI": "true"}, {"GITHUB_ACTIONS": "true"}):
        screen = tasuki_screen(ws, "run", write_flow(ws, THREE), env=variables)
        eq(screen.ended(), 7, "exit code")
        shown = screen.text(scrolled=True)
        eq((shown.count("a: started"), shown.count("b: failed after"), "::group::a" in shown), (1, 1, "GITHUB_ACTIONS" in variables), shown)
        screen.close()
    for no in ("", "false"):
        screen = tasuki_screen(ws, "run", write_flow(ws, THREE), env={"CI": no, "GITHUB_ACTIONS": no})
        eq(screen.ended(), 7, "exit code")
        eq("a: started" in screen.text(scrolled=True), False, screen.text(scrolled=True))
        screen.close()


@test("a progress bar is one line: of what was overwritten by carriage returns, only the last is among the last lines of a failure")
def _(ws):
    text = "tasks:\n  a: 'echo early; for i in $(seq 900); do printf \"\\rprogress %d%%\" $i; done; echo; echo broken; exit 1'\n"
    out = run(ws, text, code=7)
    eq(re.findall(r"^    \S.*$", out, re.MULTILINE), ["    early", "    progress 900%", "    broken"], out)
    eq(ws.tasuki("runs", "show", "--json").json["failures"][0]["lines"], ["early", "progress 900%", "broken"], "in JSON")
    for words in (("runs", "logs"), ("run", "flow.yaml", "--output", "grouped"), ("run", "flow.yaml")):
        screen = tasuki_screen(ws, *words)
        screen.ended()
        shown = screen.text(scrolled=True)
        eq((shown.count("progress"), "progress 900%\n" in shown), (1, True), f"{words}: {shown}")
        screen.close()


@test("a task that printed nothing has no log to look at; one whose directory is not there names it")
def _(ws):
    out = run(ws, "tasks: {a: {run: pwd, cwd: nodir}}\n", code=7)
    is_talking = "ASan is ignoring" in out  # a sanitizer writes into the log of what could not start
    eq(("a: the directory nodir cannot be entered: No such file or directory" in out, "runs logs" in out, "tasuki resume RUN-" in out),
       (True, is_talking, True), out)
    out = run(ws, "tasks: {a: 'false'}\n", code=7)
    eq(("runs logs" in out, "tasuki resume RUN-" in out), (False, True), out)
    out = run(ws, "tasks: {a: 'false', b: 'echo here; exit 1'}\n", "-j", "1", code=7)
    eq(re.findall(r"runs logs RUN-\S+ (\w+)", out), ["b"], out)


def edit_stage(ws, **changes):
    file = next((ws.path / ".aiflow/runs").glob("RUN-*/stage.json"))
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


@test("lists say how long a run took by its duration, not by the seconds in which it began and ended")
def _(ws):
    run(ws, "tasks: {a: 'true'}\n")
    edit_stage(ws, started_at="2026-01-01T10:00:00.000Z", ended_at="2026-01-01T10:00:04.000Z", duration_ms=3000)
    eq(ws.tasuki("runs", "list", "--json").json["runs"][0]["duration_ms"], 3000, "in JSON")
    for words in (("runs", "list"), ("status",)):
        out = ws.tasuki(*words).expect(0).out
        eq(("  3 s  " in out, "  4 s  " in out), (True, False), out)


@test("the time between two runners of a run is no part of its duration")
def _(ws):
    hour = 3600 * 1000
    run(ws, "tasks: {a: 'test -e fixed'}\n", code=7)
    journal = next((ws.path / ".aiflow/runs").glob("RUN-*/journal*"))
    earlier = lambda match: f'"t":{int(match[1]) - hour}'
    journal.write_text(re.sub(r'"t":(\d+)', earlier, journal.read_text()))
    (ws.path / "fixed").touch()
    duration = ws.tasuki("resume", "@1", "--json").expect(0)
    assert ws.tasuki("runs", "show", "--json").json["duration_ms"] < hour, duration.out


@test("skipped tasks are settled, in the list as at the end; a task that asks is not one that was not reached")
def _(ws):
    out = run(ws, "tasks: {a: 'true', b: {run: 'true', when: x == 1}, c: {run: 'true', when: x == 1}}\n", "--set", "x=0")
    assert "3 of 3 tasks, 2 skipped" in out, out
    assert "  3/3  " in ws.tasuki("runs", "list").out
    asks = "tasks: {a: 'tasuki task ask Go?', b: {run: 'true', needs: [a]}}\n"
    out = ws.tasuki("run", write_flow(ws, asks), env=with_tool(ws)).expect(8).out
    assert "0 of 2 tasks, 1 waiting, 1 not reached" in out, out


@test("status has the words of requests in the reader's language; so has the queue's status; a pending run has a time for people")
def _(ws):
    (ws.path / ".aiflow/requests/RQ-1.yaml").write_text("title: t\nrun: 'true'\nstatus: ready\n")
    (ws.path / ".aiflow/requests/RQ-2.yaml").write_text("title: t\nrun: 'exit 1'\nstatus: ready\n")
    ws.tasuki("request", "run", "RQ-2").expect(7)
    out = ws.tasuki("status", env={"TASUKI_LANG": "ja"}).out
    eq(("失敗" in out, "failed" in out, "実行可能" in out, "ready" in out), (True, False, True, False), out)
    out = ws.tasuki("queue", "status", env={"TASUKI_LANG": "ja"}).out
    eq("ready" in out, False, out)


main(__name__)
