"""Screens of flows, runs, requests and help, on terminals of 80 and 60 columns: a table of commands and what they show. The first
screen is in test_help.py."""

import os
import re
import socket
import time

from flows import with_tool
from harness.harness import eq, main, test
from harness.screen import golden, tasuki_screen
from prune_common import old_run

AGENT = {"TASUKI_AGENT": "claude-code#2", "TASUKI_NOTE": "refactoring auth"}
SIZES = [(cols, 24, lang) for cols in (80, 60) for lang in ("en", "ja")]
WAITING = re.compile(r"waiting for requests.*\)$|リクエストを待っています.*\)$", re.MULTILINE)  # the line is drawn again in place, so a read may miss it
HIDE = ((r"/tmp/t[^\s…]*…", "PATH…"), (r"(?<=PID )\d+", "N"), (rf"(?<=ホスト ){re.escape(socket.gethostname())}", "HOST"))
GATE = "until test -e go; do sleep 0.05; done"
FILES = {
    "build.yaml": f"name: build\nflow: fetch >> (compile | lint) >> pack\ntasks:\n  fetch: 'true'\n  compile: 'echo compiling parser.c; {GATE}'\n"
                  f"  lint: 'echo checking 48 of 112 files, the rest of which are in folders with long names; {GATE}'\n  pack: 'true'\n",
    "test.yaml": "name: test\nflow: unit >> integration >> report\ntasks:\n  unit: 'echo 212 passed'\n"
                 "  integration: 'echo starting; echo \"FAIL test_login: expected 200, got 500\" >&2; exit 1'\n  report: 'true'\n",
    "one.yaml": f"name: one\ntasks: {{hello: 'echo first line; {GATE}; echo second line'}}\n",
    "wrong.yaml": "tasks:\n  a: 'true'\n  b: {command: 'true', depends_on: [a]}\n",
    ".aiflow/flows/nightly.yaml": f"name: nightly\nparams:\n  target: {{default: staging, choices: [staging, production], help: Where it goes.}}\n"
                                  f"tasks: {{all: '{GATE}'}}\n",
    "deploy.yaml": "name: deploy\nparams:\n  version: {help: Which release.}\ntasks: {all: 'true'}\n",
    ".aiflow/requests/RQ-1.yaml": "title: paint the door\nrun: 'true'\nstatus: ready\n",
    ".aiflow/requests/RQ-2.yaml": "title: a request with a title that is longer than a narrow terminal has room for\nrun: 'true'\ndepends_on: [RQ-1]\nstatus: ready\n",
}
# name, exit code, words; after what stands before it
TABLE = (
    ("help-verb", 0, ["runs", "prune", "--help"]),
    ("guess-word", 2, ["lst"]),
    ("guess-across", 2, ["acquire", "deploy"]),
    ("guess-verb", 2, ["runs", "lits"]),
    ("guess-key", 2, ["run", "wrong.yaml"]),
    ("guess-file", 5, ["run", "biuld.yaml"]),
    ("set-unknown", 2, ["run", "nightly", "--set", "tarket=production"]),
    ("set-choice", 2, ["run", "nightly", "--set", "target=moon"]),
    ("set-missing", 2, ["run", "deploy.yaml"]),
    ("run-failed", 7, ["run", "test.yaml"]),
    ("run-grouped", 7, ["run", "test.yaml", "--output", "grouped"]),
    ("run-live", 7, ["run", "test.yaml", "--output", "live"]),
    ("runs-list", 0, ["runs", "list"]),
    ("runs-show", 0, ["runs", "show"]),
    ("runs-logs", 0, ["runs", "logs", "@1", "integration"]),
    ("flow-show", 0, ["flow", "show", "nightly"]),
    ("request-list", 0, ["request", "list"]),
    ("queue-next", 0, ["queue", "next"]),
    ("queue-add", 0, ["queue", "add", "--", "echo", "docs are built"]),
    ("queue-run", 0, ["queue", "run"]),
    ("queue-status", 0, ["queue", "status"]),
    ("prune", 0, ["runs", "prune", "--keep", "1", "--older", "365d", "--dry-run"]),
    ("runs-rm-refused", 4, ["runs", "rm", "@1"]),  # the latest run of a request
    ("runs-rm", 0, ["runs", "rm", "RUN-2020"]),
)


def furnish_files(ws):
    for name, text in FILES.items():
        (ws.path / name).parent.mkdir(parents=True, exist_ok=True)
        (ws.path / name).write_text(text)
        os.utime(ws.path / name, (time.time() - 5,) * 2)  # the queue's order: these are older than what is added


for cols, rows, lang in SIZES:
    def show(ws, name, code, words, cols=cols, rows=rows, lang=lang, flows=False):
        screen = tasuki_screen(ws, *words, cols=cols, rows=rows, lang=lang, env={**AGENT, **with_tool(ws)})
        eq(screen.ended(), code, f"exit code of {words}")
        golden(ws, name, screen.text(scrolled=True), cols, rows, lang, hide=HIDE, flows=flows)
        screen.close()

    @test(f"what commands show on a terminal of {cols}x{rows}: {lang}", slow=True)
    def _(ws, show=show):
        old_run(ws)
        furnish_files(ws)
        for row in TABLE:
            show(ws, *row)

    @test(f"a flow while it runs and after it, on a terminal of {cols}x{rows}: {lang}", slow=(cols, lang) != (80, "en"))
    def _(ws, cols=cols, rows=rows, lang=lang):
        furnish_files(ws)
        for name, words, there in (("run-running", ["run", "build.yaml", "-j", "2"], ("compiling", "checking")),
                                   ("run-one", ["run", "one.yaml"], ("first line", "0/1"))):
            (ws.path / "go").unlink(missing_ok=True)
            screen = tasuki_screen(ws, *words, cols=cols, rows=rows, lang=lang, env={**AGENT, **with_tool(ws)})
            text = screen.until_text(*there)
            golden(ws, name, text, cols, rows, lang)
            if name == "run-running" and lang == "en":  # the golden screen has lost the widths
                assert re.search(r"compile  (?=\d+ s).{6}  compiling", text), f"the last lines begin below each other: {text}"
            (ws.path / "go").touch()
            eq(screen.ended(), 0, f"exit code of {words}")
            golden(ws, f"{name}-done", screen.text(scrolled=True), cols, rows, lang)

    @test(f"a second run of an exclusive flow, on a terminal of {cols}x{rows}: {lang}", slow=(cols, lang) != (80, "en"))
    def _(ws, show=show, cols=cols, rows=rows, lang=lang):
        furnish_files(ws)
        first = ws.spawn("run", "nightly", env={**AGENT, **with_tool(ws)})
        ws.until(lambda: '"RUNNING"' in ws.tasuki("runs", "list", "--json").out, "it runs")
        show(ws, "run-refused", 4, ["run", "nightly"], flows=True)
        show(ws, "run-pending", 0, ["run", "nightly", "--on-conflict", "after"])
        show(ws, "run-pending-again", 0, ["run", "nightly", "--on-conflict", "after"])
        show(ws, "runs-show-pending", 0, ["runs", "show"])
        show(ws, "cancel-pending", 0, ["runs", "cancel", "@1", "--pending"])
        ws.tasuki("run", "nightly", "--on-conflict", "after", env={**AGENT, **with_tool(ws)}).expect(0)
        attached = tasuki_screen(ws, "run", "nightly", "--on-conflict", "attach", cols=cols, rows=rows, lang=lang, env={**AGENT, **with_tool(ws)})
        golden(ws, "run-attaching", attached.until_text("0/1"), cols, rows, lang)
        (ws.path / "go").touch()
        ws.finish(first).expect(0)
        eq(attached.ended(), 0, "exit code of what follows the run")
        golden(ws, "run-attached", attached.text(scrolled=True), cols, rows, lang)
        ws.until(lambda: [run["status"] for run in ws.tasuki("runs", "list", "--json").json["runs"]] == ["DONE"] * 2, "the pending run is done, too")

    @test(f"a run that replaces another one, on a terminal of {cols}x{rows}: {lang}", slow=(cols, lang) != (80, "en"))
    def _(ws, cols=cols, rows=rows, lang=lang):
        furnish_files(ws)
        first = ws.spawn("run", "nightly", env={**AGENT, **with_tool(ws)})
        ws.until(lambda: '"running"' in ws.tasuki("runs", "show", "--json").out, "its task runs")
        screen = tasuki_screen(ws, "run", "nightly", "--on-conflict", "replace", cols=cols, rows=rows, lang=lang, env={**AGENT, **with_tool(ws)})
        screen.until_text("[y/N]")
        golden(ws, "run-replace-asks", screen.text(scrolled=True), cols, rows, lang, hide=HIDE)
        (ws.path / "go").touch()
        screen.keys("y", "Enter")
        eq(screen.ended(), 0, "exit code of the second")
        ws.finish(first)

    @test(f"a queue that stays, on a terminal of {cols}x{rows}: {lang}", slow=(cols, lang) != (80, "en"))
    def _(ws, cols=cols, rows=rows, lang=lang):
        furnish_files(ws)
        screen = tasuki_screen(ws, "queue", "run", "--stay", cols=cols, rows=rows, lang=lang, env={**AGENT, **with_tool(ws)})
        ws.until(lambda: [run["status"] for run in ws.tasuki("runs", "list", "--json").json["runs"]] == ["DONE"] * 2, "both requests are done")
        shown = ws.until(lambda: WAITING.search(text := screen.text(scrolled=True)) and text, "it waits for more requests")
        golden(ws, "queue-stay", shown, cols, rows, lang, hide=HIDE)
        ws.tasuki("queue", "stop").expect(0)
        eq(screen.ended(), 0, "exit code")
        golden(ws, "queue-stay-end", screen.text(scrolled=True), cols, rows, lang, hide=HIDE)

    @test(f"a queue whose runs fail, on a terminal of {cols}x{rows}: {lang}", slow=(cols, lang) != (80, "en"))
    def _(ws, show=show):
        jobs = (("build the documentation for the next release, with pictures", "true"), ("test it", "echo boom; exit 1"),
                ("test it again", "echo starting; echo boom again >&2; exit 2"))
        for number, (title, command) in enumerate(jobs, 1):
            file = ws.path / f".aiflow/requests/RQ-{number}.yaml"
            file.write_text(f"title: {title}\nrun: '{command}'\nstatus: ready\n")
            os.utime(file, (time.time() - 10 + number,) * 2)
        show(ws, "queue-failed", 7, ["queue", "run"])
        show(ws, "queue-next-failed", 0, ["queue", "next"])
        show(ws, "queue-keep-going", 7, ["queue", "run", "--keep-going", "--retry"])


main(__name__)
