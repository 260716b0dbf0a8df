"""What the commands print for people, whole: the screens are in golden/printed.txt. TASUKI_WRITE=1 writes them anew; look at the
difference then."""

import pathlib
import re
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from flows import run_ids, with_tool  # noqa: E402
from harness.harness import main, test  # noqa: E402
from known_text import compare  # noqa: E402

FLOWS = {
    "build.yaml": "name: build\nflow: prepare >> (unit | lint) >> pack\ntasks:\n  prepare: echo one\n"
                  "  unit: {run: 'echo two', retries: 1}\n  lint: 'echo three; echo oh >&2'\n  pack: echo four\n",
    "bad.yaml": "tasks:\n  a: {run: 'echo trouble; exit 3'}\n  b: {run: 'true', needs: a}\n",
    "ask.yaml": "tasks:\n  a: tasuki task ask 'Deploy where?' --option here --option there\n",
    "wrong.yaml": "tasks:\n  a: {rum: 'false'}\n  b: {run: 'true', needs: c}\n",
    ".aiflow/flows/nightly.yaml": "tasks: {a: 'true'}\n",
    "Procfile": "web: echo web\nworker: echo worker\n",
    "compose.yaml": "version: '0.5'\nis_strict: true\nprocesses:\n  db: {command: echo db, entrypoint: [sh, -c], is_daemon: true, log_location: x}\n"
                    "  app: {command: echo app, depends_on: {db: {condition: process_completed}}, availability: {restart: always, backoff_seconds: 2}}\n",
    "many.yaml": "tasks:\n" + "".join(f"  t{n}: {{rum: x}}\n" for n in range(12)),
}
CHANGING = (  # what follows keeps the width of columns
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"),
     lambda m: re.sub(r"\d", "0", m[0]).replace("-00:00", "+00:00").replace("0000-00+00:00", "0000-00-00")),
    (re.compile(r"\b\d{4}-\d\d[-\dT:]*…"), lambda m: re.sub(r"\d", "0", m[0])),
    (re.compile(r"\b(\d+ (h|min|s|ms)( \d+ (min|s|ms))?)\b"), lambda m: "N s"),
    (re.compile(r"\b\d\d:\d\d(:\d\d)?\b"), lambda m: re.sub(r"\d", "0", m[0])),
    (re.compile(r"(FOR|SINCE|N s ago|N s)(\x1b\[0m)?  +"), lambda m: f"{m[1]}{m[2] or ''}  "),
    (re.compile(r"pid \d+|pid=\d+"), lambda m: "pid N"),
    (re.compile(r"\b[0-9a-f]{32}\b"), lambda m: "TOKEN"),
    (re.compile(rf"\bon {re.escape(socket.gethostname())}\b"), lambda m: "on HOST"),
    (re.compile(r"^who .*$", re.MULTILINE), lambda m: "who  …"),
    (re.compile(r"(RQ-\d)\.[0-9a-f]{4}\.yaml"), lambda m: f"{m[1]}.HEX.yaml"),
)


class Screens:
    """One text of all that was printed, without what changes from one time to the next."""

    def __init__(self, ws):
        self.ws = ws
        self.text = []
        self.runs = []

    def show(self, words, result):
        errors = f"-- stderr\n{result.err}" if result.err else ""
        printed = f"$ {' '.join(words)}  ({result.code})\n{result.out}{errors}".rstrip("\n") + "\n\n"
        there = sorted(path.name for path in (self.ws.path / ".aiflow/runs").glob("RUN-*"))
        for run in re.findall(r"RUN-\d{8}T\d{6}-[0-9a-f]{6}", printed) + there:
            if run not in self.runs:
                self.runs.append(run)
        for n, run in enumerate(self.runs, 1):
            printed = printed.replace(run, f"RUN-00000000T000000-{n:06}").replace(run[-6:], f"{n:06}")
        printed = printed.replace(str(self.ws.path), "ROOT")
        for pattern, new in CHANGING:
            printed = pattern.sub(new, printed)
        self.text.append(printed.replace("\033", "<ESC>").replace("\r", "<CR>"))

    def run(self, *words, env=None):
        self.show(words, self.ws.tasuki(*words, env={**with_tool(self.ws), **(env or {})}))

    def all(self, *lines, **options):
        for line in lines:
            self.run(*line.split(), **options)

    def tty(self, *words, columns=70):
        self.show(("tty", *words), self.ws.tty(words, env={**with_tool(self.ws), "TERM": "xterm", "COLUMNS": str(columns)}))


def arrange(ws):
    for name, text in FLOWS.items():
        (ws.path / name).parent.mkdir(exist_ok=True)
        (ws.path / name).write_text(text)


def latest(ws):
    return sorted(run_ids(ws))[-1]


@test("runs and flows")
def _(ws):
    arrange(ws)
    screens = Screens(ws)
    screens.all("runs list", "flow validate many.yaml", "run build.yaml --parallel 1", "runs list", "run bad.yaml", "run wrong.yaml", "run ask.yaml", "runs list",
                "runs list -n 1", "runs list --status FAILED", "flow list", "flow validate build.yaml", "flow validate wrong.yaml",
                "graph build.yaml", "run build.yaml --dry-run", "runs show RUN-", "runs show RUN-none")
    for run in sorted(run_ids(ws)):
        screens.all(f"runs show {run}", f"runs tasks {run}", f"runs graph {run}", f"runs cancel {run}")
    for run in sorted(run_ids(ws))[:2]:  # those that have printed something; a log without a byte may have no file
        screens.all(f"runs logs {run}")
    screens.all("status", "run build.yaml --quiet", "run bad.yaml --quiet", "run bad.yaml --verbose", f"resume {latest(ws)}")
    compare(__file__, "runs and flows", "".join(screens.text))


@test("requests and the queue")
def _(ws):
    arrange(ws)
    screens = Screens(ws)
    screens.all("request list", "queue next", "queue status", "request add one --id RQ-1 --priority P1 -- true",
                "request add two --id RQ-2 --depends-on RQ-1 --flow bad.yaml", "request add three --id RQ-3 --status draft -- echo a b",
                "request list", "request show RQ-2", "request show RQ-9", "queue next", "status", "queue run", "queue status", "request list",
                "request show RQ-1", "request show RQ-2", "request list --status done", "request run RQ-1", "request run RQ-2",
                "request edit RQ-3 --status archived", "request run RQ-3", "request edit RQ-3 --status ready", "queue run", "queue stop", "request rm RQ-3", "request rm RQ-3", "status")
    compare(__file__, "requests and the queue", "".join(screens.text))


@test("locks and workflows")
def _(ws):
    screens = Screens(ws)
    screens.all("lock list", "own list", "lock acquire name a --pid 1", "lock acquire name a --pid 1", "lock list", "lock check name a",
                "lock check name b", "lock renew name a", "lock acquire queue --pid 1", "lock check queue", "own claim w --instance me",
                "own claim w --instance you", "own list", "own show w", "own check w --instance me", "own check w --instance you",
                "own show v", "status", "own release w --instance you", "own release w --instance me", "own release w --instance me",
                "lock release name a", "lock release name a", "lock release queue", "sprint check", "sprint release", "lock list")
    compare(__file__, "locks and workflows", "".join(screens.text))


@test("processes and templates")
def _(ws):
    arrange(ws)
    screens = Screens(ws)
    screens.all("proc list", "proc create web --ready port:1 --restart always --env API_KEY=x --log pipe -- sleep 1000",
                "proc create job --depends-on web=started -- sh -c echo", "proc create web -- true", "proc status web", "proc status job",
                "proc list", "proc template create t --restart on-failure -- echo {{name}}", "proc template list", "proc template show t",
                "proc template use t made --set name=x", "proc export", "proc import Procfile", "proc import Procfile --replace", "proc list",
                "proc wait made", "proc stop made")
    ws.tasuki("proc", "start", "made").expect(0)  # which may have ended already when it returns, or not
    screens.all("proc create c --cwd / --auto-start --env A=b -- true", "proc status c", "proc update c --no-auto-start --no-depends-on", "proc status c",
                "proc remove c web --quiet", "proc import compose.yaml", "proc status app", "proc remove app db", "proc remove none job",
                "proc wait made", "proc list", "proc status made", "proc logs made", "proc stop made", "proc update made --cwd /",
                "proc remove made", "proc status made", "proc template delete t", "proc template list", "status", "restore")
    compare(__file__, "processes and templates", "".join(screens.text))


@test("agents")
def _(ws):
    (ws.path / ".aiflow/config.yaml").write_text("agents:\n  coder: {run: [sh, -c, 'echo done: \"$1\"', x, '{task}']}\n  lazy: {run: [sh, -c, 'exit 3', x, '{task}']}\n"
                                                 "teams:\n  all: {agents: [coder, lazy], policy: best_effort}\n")
    screens = Screens(ws)
    screens.all("agent run coder work", "agent run lazy work", "agent team all work", "agent run nobody work", "agent parallel coder lazy --task work",
                "status")
    compare(__file__, "agents", re.sub(r"^\w+: (started|ok in|failed after).*\n", "", "".join(screens.text), flags=re.MULTILINE))  # these come in any order


@test("on a terminal, with colours and few columns")
def _(ws):
    arrange(ws)
    screens = Screens(ws)
    ws.tasuki("proc", "create", "web", "--", "sh", "-c", "a command that is far too long for the columns of this terminal").expect(0)
    ws.tasuki("request", "add", "a title that is too long for the columns of this terminal, by far", "--id", "RQ-1", "--", "true").expect(0)
    ws.tasuki("run", "bad.yaml", env=with_tool(ws)).expect(7)
    ws.tasuki("own", "claim", "w", "--instance", "me").expect(0)
    for words in (["status"], ["proc", "list"], ["runs", "list"], ["request", "list"], ["own", "list"], ["queue", "next"],
                  ["runs", "show", latest(ws)], ["request", "show", "RQ-1"], ["proc", "status", "web"], ["proc", "status", "none"],
                  ["own", "claim", "w", "--instance", "you"], ["help", "lock"]):
        screens.tty(*words)
    screens.tty("status", columns=40)
    screens.tty("proc", "list", columns=200)
    compare(__file__, "on a terminal", "".join(screens.text))


@test("in Japanese and Chinese")
def _(ws):
    arrange(ws)
    screens = Screens(ws)
    ws.tasuki("request", "add", "日本語の題", "--id", "RQ-1", "--", "true").expect(0)
    for lang in ("ja", "zh"):
        screens.all("status", "request list", "request show RQ-1", "queue next", "queue status", "lock check name a", "proc list",
                    "runs show RUN-none", "flow validate wrong.yaml", "own show w", "help lock", env={"TASUKI_LANG": lang})
    compare(__file__, "in Japanese and Chinese", "".join(screens.text))


main(__name__)
