"""More screens of runs, requests and help, on terminals of 80 and 60 columns: chosen tasks, once more, resumed, all of the help, the
short words for lists, a part that several ids have, and what is wrong in a command or in config.yaml."""

from flows import with_tool
from harness.harness import eq, main, test
from harness.screen import golden, tasuki_screen

AGENT = {"TASUKI_AGENT": "claude-code#2"}
SIZES = [(cols, 24, lang) for cols in (80, 60) for lang in ("en", "ja")]
FILES = {
    "test.yaml": "name: test\nflow: unit >> integration >> report\ntasks:\n  unit: 'echo 212 passed'\n"
                 "  integration: 'echo \"FAIL test_login: expected 200, got 500\" >&2; test -e repaired'\n  report: 'true'\n",
    ".aiflow/requests/RQ-1.yaml": "title: paint the door\nrun: 'true'\nstatus: ready\n",
}
CONFIG = {"notify-wrong": "notify:\n  failur: bell\n", "keep-wrong": "keep: {runs: many}\n"}
# name, exit code, words; after what stands before it
TABLE = (
    ("guess-noun", 2, ["flow", "run", "test.yaml"]),
    ("guess-synonym", 2, ["runs", "stop", "@1"]),
    ("help-all", 0, ["runs", "prune", "--help", "--all"]),
    ("run-task", 0, ["run", "test.yaml", "unit"]),
    ("run-task-failed", 7, ["run", "test.yaml", "integration"]),
    ("resume-failed", 7, ["resume"]),
    ("resume", 0, ["resume"]),  # the cause is repaired
    ("request-again", 0, ["request", "again", "RQ-1"]),
    ("ps", 0, ["ps"]),
    ("ls", 0, ["ls"]),
    ("request-ready", 0, ["request", "again", "RQ-1"]),
    ("id-of-several", 5, ["runs", "show", "RUN-2"]),
    ("guess-option", 2, ["run", "test.yaml", "--ouput", "live"]),
    ("guess-value", 2, ["runs", "list", "--status", "failed"]),
    ("runs-logs-grep", 0, ["runs", "logs", "@1", "--grep", "passed|FAIL"]),
    ("notify-wrong", 0, ["run", "test.yaml"]),
    ("keep-wrong", 2, ["runs", "prune"]),
    ("prune-done", 0, ["runs", "prune", "--keep", "1", "--older", "0s"]),
)


def furnish_test(ws):
    for name, text in FILES.items():
        (ws.path / name).write_text(text)
    ws.tasuki("request", "run", "RQ-1", env={**AGENT, **with_tool(ws)}).expect(0)
    ws.tasuki("proc", "create", "web", "--", "sleep", "1000", env=AGENT).expect(0)


for cols, rows, lang in SIZES:
    @test(f"what more commands show on a terminal of {cols}x{rows}: {lang}", slow=True)
    def _(ws, cols=cols, rows=rows, lang=lang):
        furnish_test(ws)
        for name, code, words in TABLE:
            if name == "resume":
                (ws.path / "repaired").touch()
            (ws.path / ".aiflow/config.yaml").write_text(CONFIG.get(name, ""))
            screen = tasuki_screen(ws, *words, cols=cols, rows=rows, lang=lang, env={**AGENT, **with_tool(ws), "PAGER": "cat"})
            eq(screen.ended(), code, f"exit code of {words}")
            golden(ws, name, screen.text(scrolled=True), cols, rows, lang)
            screen.close()


main(__name__)
