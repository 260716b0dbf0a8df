"""Wrong input of every kind: the exit code, the reason code and the words of each refusal are in golden/refusals.txt. TASUKI_WRITE=1
writes them anew; look at the difference then."""

import json
import pathlib
import re
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "mcp"), str(pathlib.Path(__file__).resolve().parent)]
from agent import TASKS, Agent  # noqa: E402
from flows import last_document, with_tool  # noqa: E402
from harness.harness import main, test  # noqa: E402
from http_common import Server  # noqa: E402
from known_text import compare  # noqa: E402

LONG = "x" * 5000


def keep(ws, name, lines):
    """Compares with what is known, without what changes from one time to the next."""
    text = "\n".join(lines).replace(str(ws.path), "ROOT").replace(LONG, "LONG")
    compare(__file__, name, re.sub(r"\b(RUN|RQ)-\d{8}T\d{6}-[0-9a-f]+", r"\1-ID", text))


def told(shown, result):
    """One line: what was asked, exit code, reason code, message."""
    document = last_document(result) or {}
    error = document.get("error") or {"reason_code": document.get("reason_code", "-"), "message": document.get("message", "-")}
    return f"{shown}: {result.code} {error['reason_code']} {error['message']}"


def all_of(ws, lines, **options):
    return [told(line, ws.tasuki("--json", *line.split(), env=with_tool(ws), **options)) for line in lines]


@test("words of the command line")
def _(ws):
    lines = ["", "proc", "nonsense", "proc nonsense", "proc template", "help nonsense", "help proc nonsense", "lock acquire", "lock acquire nokind x",
             "lock acquire name", "lock acquire queue x", "lock acquire sprint --session s", "lock acquire name a --epic e",
             "lock acquire name a --pid 999999999", "lock acquire name a --ttl nonsense", "lock acquire name a --wait 5x", "lock check name ../x",
             "lock renew name none", "lock run", "own claim", "own claim bad/id", "wait", "wait lock bad/id", "wait run RUN-x --for ready",
             "wait nothing x", "events -n x", "events --after x", "runs list -n 0", "runs list --cursor none", "runs show", "runs logs RUN-none",
             "request show", "request list --status nonsense", "request list --cursor RQ-none", "request add", "request add t --priority P9",
             "request add t --id bad/id -- true", "request add t", "request add t --flow f -- true", "request edit RQ-none --title t",
             "request run RQ-none", "queue run --max 0", "queue run --for x", "graph none.yaml", "graph", "flow validate none.yaml",
             "run none.yaml", "run - --detach", "resume RUN-none", "answer RUN-none x", "proc create", "proc create p", "proc create bad/id -- true",
             "proc create p --env A -- true", "proc create p --env =x -- true", "proc create p --restart sometimes -- true",
             "proc create p --max-retries x -- true", "proc create p --backoff -1s -- true", "proc create p --log none -- true",
             "proc create p --log-max 0 -- true", "proc create p --ready nonsense -- true", "proc create p --ready port:0 -- true",
             "proc create p --ready port:99999 -- true", "proc create p --ready log:[ -- true", "proc create p --ready http: -- true",
             "proc create p --ready exec: -- true", "proc create p --health-failures 0 -- true", "proc create p --health-action x -- true",
             "proc create p --depends-on q -- true", "proc create p --depends-on q=x -- true", "proc create p --depends-on p=started -- true",
             f"proc create p --cwd {LONG} -- true", "proc create p --health-interval 1s -- true", "proc status none", "proc start none", "proc start",
             "proc stop none", "proc logs none", "proc wait none", "proc remove none", "proc update none --cwd /", "proc export none",
             "proc export --format x", "proc import none", "proc template show none", "proc template use none x", "proc template delete none",
             "proc template create t", "proc template create bad/id -- true", "probe none", "restore x", "doctor --mode x", "completion nonsense",
             "confirm", "confirm nonsense", "channel get x", "task next x", "task ask x", "task finish", "agent run", "agent run none x",
             "agent team none x", "agent dag", "sprint acquire", "sprint release --project-root none", "serve --port x", "serve --listen nonsense",
             "wait process bad/id", "wait workflow bad/id", "wait lock name", "proc create p --env KEY=*** -- true", "run flow.yaml --start a --tasks b",
             "run none.yaml --tasks", "run --set x none.yaml", "request rm RQ-none", "request again RQ-none", "request edit RQ-none", "request show @0",
             "request show @99", "request show @1x", "request run @+1", "queue add", "queue add --", "queue status x", "queue stop", "runs cancel RUN-none", "runs rm RUN-none",
             "runs prune --keep x", "runs prune --older x", "runs tasks RUN-none", "runs graph RUN-none", "workers list", "workers stop none", "worker", "up none.yaml",
             "down none.yaml", "restore none", "flow show none", "agents x", "own release bad/id", "own note a b", "own show bad/id", "own force-claim", "lock release name ../x",
             "lock renew name a --ttl x", "lock release name a --token none", "lock renew name a --token none", "lock list --kind x", "proc attach none",
             "proc update none", "proc restart none", "proc remove", "proc template update none --cwd /", "proc template use", "proc logs -n x", "proc logs --since x",
             "proc logs none --grep [", "proc wait none --for x", "events --type x --since y", "events --since 2026-13-01", "version x", "init none x", "agent loop none x",
             "agent teams x", "agent parallel x", "mcp --tools nonsense", "status --unknown", "--lang xx status", "--root none status"]
    keep(ws, "words of the command line", all_of(ws, lines))


FLOWS = {
    "empty": "", "scalar": "x", "list": "- a", "no tasks": "name: x\n", "tasks no map": "tasks: [a]\n", "task a number": "tasks: {a: 5}\n",
    "task a list": "tasks: {a: [x]}\n", "no command": "tasks: {a: {retries: 1}}\n", "empty command": "tasks: {a: {run: ''}}\n",
    "empty words": "tasks: {a: {run: []}}\n", "words of maps": "tasks: {a: {run: [{x: 1}]}}\n", "command a map": "tasks: {a: {run: {x: 1}}}\n",
    "bad name": "tasks: {'a b': 'true'}\n", "bad flow name": "name: 'a/b'\ntasks: {a: 'true'}\n", "name a list": "name: [x]\ntasks: {a: 'true'}\n",
    "env a list": "tasks: {a: {run: 'true', env: [x]}}\n", "env name": "tasks: {a: {run: 'true', env: {'a=b': x}}}\n",
    "env value": "tasks: {a: {run: 'true', env: {A: [x]}}}\n", "needs a map": "tasks: {a: {run: 'true', needs: {x: 1}}}\n",
    "needs of maps": "tasks: {a: {run: 'true', needs: [{x: 1}]}}\n", "needs itself": "tasks: {a: {run: 'true', needs: a}}\n",
    "needs in a circle": "tasks: {a: {run: 'true', needs: b}, b: {run: 'true', needs: a}}\n", "retries": "tasks: {a: {run: 'true', retries: -1}}\n",
    "retries a word": "tasks: {a: {run: 'true', retries: x}}\n", "retries too many": "tasks: {a: {run: 'true', retries: 99999999}}\n",
    "timeout": "tasks: {a: {run: 'true', timeout: x}}\n", "two keys": "tasks: {a: {run: 'true', run: 'false'}}\n",
    "two tasks": "tasks: {a: 'true', a: 'false'}\n", "unknown key": "taks: {a: 'true'}\n", "groups a list": "tasks: {a: 'true'}\ngroups: [x]\n",
    "group a word": "flow: g(a | b)\ntasks: {a: 'true', b: 'true'}\ngroups: {g: x}\n", "group policy": "flow: g(a | b)\ntasks: {a: 'true', b: 'true'}\ngroups: {g: {policy: x}}\n",
    "group unknown": "flow: a\ntasks: {a: 'true'}\ngroups: {g: {policy: strict}}\n", "group twice": "flow: g(a | b)\ntasks: {a: 'true', b: 'true'}\ngroups: {g: {policy: strict}, g: {policy: strict}}\n",
    "flow empty": "flow: ''\ntasks: {a: 'true'}\n", "flow open": "flow: (a\ntasks: {a: 'true'}\n", "flow close": "flow: a)\ntasks: {a: 'true'}\n",
    "flow between": "flow: a b\ntasks: {a: 'true', b: 'true'}\n", "flow sign": "flow: a > b\ntasks: {a: 'true', b: 'true'}\n", "flow twice": "flow: a >> a\ntasks: {a: 'true'}\n",
    "flow unknown": "flow: a >> c\ntasks: {a: 'true', b: 'true'}\n", "flow group name": "flow: a(a | b)\ntasks: {a: 'true', b: 'true'}\n", "flow empty group": "flow: a >> ()\ntasks: {a: 'true'}\n",
    "flow and needs": "flow: a >> b\ntasks: {a: 'true', b: {run: 'true', needs: a}}\n", "when": "tasks: {a: {run: 'true', when: 'x ='}}\n", "when open": "tasks: {a: {run: 'true', when: '(x'}}\n",
    "when word": "tasks: {a: {run: 'true', when: 'channel.x = 5 and'}}\n", "channels a list": "channel: [x]\ntasks: {a: 'true'}\n", "values a word": "values: x\ntasks: {a: 'true'}\n",
    "merge": "merge: {x: nonsense}\ntasks: {a: 'true'}\n", "tab": "tasks:\n\ta: 'true'\n", "alias": "tasks: {a: &x 'true', b: *x}\n", "tag": "tasks: {a: !!int '5'}\n",
    "two documents": "tasks: {a: 'true'}\n---\ntasks: {}\n", "agent unknown": "tasks: {a: {agent: none, task: x}}\n", "agent and run": "tasks: {a: {agent: none, run: x}}\n",
    "max_cycles": "tasks: {a: {run: 'true', max_cycles: 0}}\n", "parallel": "parallel: 0\ntasks: {a: 'true'}\n", "max_steps": "max_steps: x\ntasks: {a: 'true'}\n",
    "backoff": "tasks: {a: {run: 'true', retries: 1, backoff: x}}\n", "cwd": "tasks: {a: {run: 'true', cwd: [x]}}\n",
}


def problems_of(ws, name, text, *words):
    path = ws.path / "wrong.yaml"
    path.write_text(text)
    result = ws.tasuki("--json", *words, env=with_tool(ws))
    document = last_document(result) or {}
    error = document.get("error", {})
    found = error.get("context", {}).get("problems") or document.get("problems") or []
    lines = [f"{p.get('line')}:{p.get('column')} {p.get('message') or p.get('reason')}" for p in found if isinstance(p, dict)]
    return f"{name}: {result.code} {error.get('reason_code', '-')} {error.get('message', '-')}" + "".join(f"\n    {line}" for line in lines)


@test("flow files")
def _(ws):
    keep(ws, "flow files", [problems_of(ws, name, text, "flow", "validate", "wrong.yaml") for name, text in FLOWS.items()])


REQUESTS = {
    "empty": "", "a list": "- x\n", "title a list": "title: [x]\nrun: x\n", "no title": "run: x\n", "no command": "title: t\n", "two commands": "title: t\nrun: x\nflow: y\n",
    "run a map": "title: t\nrun: {x: 1}\n", "run of lists": "title: t\nrun: [[x]]\n", "run empty": "title: t\nrun: []\n", "priority": "title: t\nrun: x\npriority: P9\n",
    "status": "title: t\nrun: x\nstatus: nonsense\n", "depends": "title: t\nrun: x\ndepends_on: {x: 1}\n", "depends id": "title: t\nrun: x\ndepends_on: ['../x']\n",
    "itself": "title: t\nrun: x\ndepends_on: [RQ-1]\n", "key": "title: t\nrum: x\n", "key twice": "title: t\ntitle: u\nrun: x\n", "other id": "id: RQ-2\ntitle: t\nrun: x\n",
    "yaml": "title: [\n", "flow a number": "title: t\nflow: [1]\n", "set": "title: t\nflow: f\nset: x\n",
}


@test("requests")
def _(ws):
    lines = []
    for name, text in REQUESTS.items():
        (ws.path / ".aiflow/requests/RQ-1.yaml").write_text(text)
        shown = ws.tasuki("--json", "request", "show", "RQ-1").expect(0).json
        ran = ws.tasuki("--json", "request", "run", "RQ-1")
        lines.append(told(f"{name}: {shown['status']}", ran))
        lines += [f"    {p['line']}:{p['column']} {p['reason']}" for p in shown.get("problems", [])]
    keep(ws, "requests", lines)


CONFIGS = {
    "a list": "- x\n", "agents a list": "agents: [x]\n", "agent a word": "agents: {a: x}\n", "no run": "agents: {a: {cwd: x}}\n", "run a word": "agents: {a: {run: x}}\n",
    "run empty": "agents: {a: {run: []}}\n", "run of lists": "agents: {a: {run: [[x]]}}\n", "no program": "agents: {a: {run: ['{task}']}}\n", "env": "agents: {a: {run: [x], env: [y]}}\n",
    "env value": "agents: {a: {run: [x], env: {A: [y]}}}\n", "retries": "agents: {a: {run: [x], retries: 2000}}\n", "cwd": "agents: {a: {run: [x], cwd: [y]}}\n", "name": "agents: {'a b': {run: [x]}}\n",
    "key": "agents: {a: {run: [x], nonsense: 1}}\n", "teams a list": "agents: {a: {run: [x]}}\nteams: [x]\n", "team a word": "agents: {a: {run: [x]}}\nteams: {t: x}\n",
    "team name": "agents: {a: {run: [x]}}\nteams: {'t t': {agents: [a]}}\n", "team empty": "agents: {a: {run: [x]}}\nteams: {t: {agents: []}}\n",
    "team of nobody": "agents: {a: {run: [x]}}\nteams: {t: {agents: [b]}}\n", "team policy": "agents: {a: {run: [x]}}\nteams: {t: {agents: [a], policy: x}}\n",
    "team policy map": "agents: {a: {run: [x]}}\nteams: {t: {agents: [a], policy: {x: 1}}}\n", "at least": "agents: {a: {run: [x]}}\nteams: {t: {agents: [a], policy: {at_least: 5}}}\n",
    "critical": "agents: {a: {run: [x]}}\nteams: {t: {agents: [a], policy: {critical: [b]}}}\n", "trust_fs": "trust_fs: x\n", "max_runs": "max_runs: x\n",
}


@test("config.yaml, as the commands that need it say it")
def _(ws):
    lines = []
    for name, text in CONFIGS.items():
        (ws.path / ".aiflow/config.yaml").write_text(text)
        for words in (["agent", "run", "a", "x"], ["agent", "team", "t", "x"], ["status"]):
            result = ws.tasuki("--json", *words, env=with_tool(ws))
            if result.code not in (0, 7):
                lines.append(told(f"{name}, {words[0]} {words[1] if len(words) > 1 else ''}".strip(), result))
    keep(ws, "config.yaml", lines)


IMPORTS = {
    "nothing": "", "a list": "- x\n", "version": "version: 9\nprocesses: {}\n", "processes a list": "version: 1\nprocesses: [x]\n", "a word": "version: 1\nprocesses: {a: x}\n",
    "no command": "version: 1\nprocesses: {a: {cwd: /}}\n", "args": "version: 1\nprocesses: {a: {command: x, args: y}}\n", "compose command list": "version: '0.5'\nprocesses: {a: {command: [x, {y: 1}]}}\n", "compose entrypoint": "version: '0.5'\nprocesses: {a: {entrypoint: {x: 1}}}\n",
    "compose environment list": "version: '0.5'\nprocesses: {a: {command: x, environment: [y]}}\n", "compose disabled": "version: '0.5'\nprocesses: {a: {command: x, disabled: [y]}}\n",
    "compose is_daemon": "version: '0.5'\nprocesses: {a: {command: x, is_daemon: 5}}\n", "compose log_location": "version: '0.5'\nprocesses: {a: {command: x, log_location: {y: 1}}}\n",
    "compose depends map": "version: '0.5'\nprocesses: {a: {command: x, depends_on: {b: y}}}\n", "compose shell": "version: '0.5'\nshell: {shell_command: [x], shell_argument: {y: 1}}\nprocesses: {a: {command: x}}\n",
    "compose processes": "version: '0.5'\nprocesses: [x]\n", "compose process": "version: '0.5'\nprocesses: {a: x}\n", "log": "version: 1\nprocesses: {a: {command: x, log: y}}\n",
    "ready": "version: 1\nprocesses: {a: {command: x, ready: y}}\n", "ready log": "version: 1\nprocesses: {a: {command: x, ready: {log: '['}}}\n",
    "ready port": "version: 1\nprocesses: {a: {command: x, ready: {port: 70000}}}\n", "health": "version: 1\nprocesses: {a: {command: x, health: {http: 'ftp://x'}}}\n",
    "depends on itself": "version: 1\nprocesses: {a: {command: x, depends_on: {a: ready}}}\n", "depends on none": "version: 1\nprocesses: {a: {command: x, depends_on: {z: ready}}}\n",
    "env a list": "version: 1\nprocesses: {a: {command: x, env: [y]}}\n", "env name": "version: 1\nprocesses: {a: {command: x, env: {'a=b': y}}}\n", "secrets": "version: 1\nsecrets: x\nprocesses: {}\n",
    "twice": "version: 1\nprocesses: {a: {command: x}, a: {command: y}}\n", "template id": "version: 1\ntemplates: {'t t': {command: x}}\n", "template variable": "version: 1\ntemplates: {t: {command: '{{a b}}'}}\n",
    "key": "version: 1\nprocesses: {a: {command: x, nonsense: 1}}\n",
    "id": "version: 1\nprocesses: {'a b': {command: x}}\n", "masked": "version: 1\nprocesses: {a: {command: x, env: {KEY: '***'}}}\n", "templates": "version: 1\ntemplates: {t: x}\n",
    "compose command": "version: '0.5'\nprocesses: {a: {command: {x: 1}}}\n", "compose environment": "version: '0.5'\nprocesses: {a: {command: x, environment: {y: 1}}}\n",
    "compose working_dir": "version: '0.5'\nprocesses: {a: {command: x, working_dir: [y]}}\n", "compose availability": "version: '0.5'\nprocesses: {a: {command: x, availability: y}}\n",
    "compose restart": "version: '0.5'\nprocesses: {a: {command: x, availability: {restart: y}}}\n", "compose backoff": "version: '0.5'\nprocesses: {a: {command: x, availability: {backoff_seconds: y}}}\n",
    "compose depends": "version: '0.5'\nprocesses: {a: {command: x, depends_on: {b: {condition: y}}}}\n", "compose depends list": "version: '0.5'\nprocesses: {a: {command: x, depends_on: y}}\n",
    "compose probe": "version: '0.5'\nprocesses: {a: {command: x, readiness_probe: {http_get: {port: y}}}}\n",
    "compose two probes": "version: '0.5'\nprocesses: {a: {command: x, ready_log_line: y, readiness_probe: {exec: {command: z}}}}\n",
    "compose probe a word": "version: '0.5'\nprocesses: {a: {command: x, readiness_probe: y}}\n", "compose exec": "version: '0.5'\nprocesses: {a: {command: x, readiness_probe: {exec: {command: [y]}}}}\n",
    "compose log line": "version: '0.5'\nprocesses: {a: {command: x, ready_log_line: [y]}}\n", "json": "{\"processes\": [", "tabs": "processes:\n\ta: x\n",
}


@test("files to import")
def _(ws):
    lines = []
    for name, text in IMPORTS.items():
        (ws.path / "in.yaml").write_text(text)
        result = ws.tasuki("--json", "proc", "import", "in.yaml")
        lines.append(told(name, result) + (f" {json.dumps(result.json, sort_keys=True)}" if result.code == 0 else ""))
        ws.tasuki("proc", "remove", "--all", "--force")
    keep(ws, "files to import", lines)


ASKED = "tasks:\n  a: tasuki task ask 'Which?' {}\n"


@test("answers")
def _(ws):
    lines = []
    for options in ("", "--option red --option blue", "--type approval", "--type text"):
        (ws.path / "ask.yaml").write_text(ASKED.format(options))
        run = last_document(ws.tasuki("--json", "run", "ask.yaml", env=with_tool(ws)).expect(8))["run_id"]
        for words in ([], ["--yes"], ["--yes", "--no"], ["--choose", "9"], ["--choose", "0"], ["--choose", "x"], ["green"], [""], ["x", "--yes"], ["x", "--task", "none"]):
            lines.append(told(f"{options or 'free'}: {' '.join(words)!r}", ws.tasuki("--json", "answer", run, *words, "--no-wait", env=with_tool(ws))))
            if lines[-1].split(": ")[2].startswith("0"):
                break
    keep(ws, "answers", lines)


@test("inside a task")
def _(ws):
    words = ["channel get none", "channel set 'a b' 1", "channel set", "channel add x y", "channel nonsense", "task spawn", "task spawn b", "task next none",
             "channel set '' 1", "channel set a=b 1", "channel append a=b 1", "channel set k \"$(printf '\\377')\"", "channel append x", "channel add x 1 2", "task spawn b --", "task spawn 'a b' -- true", "task spawn a -- true",
             "task finish x y", "task cancel x y", "task next", "task again --set x", "task ask q --type approval --option x", "task ask q --type selection",
             "task again x", "task ask", "task ask q --type nonsense", "task ask q --option x --type text", "task next a --unknown"]
    script = "; ".join(f"tasuki --json {one} >> told; echo \"= $? {one}\" | tr -d \"'\" >> told" for one in words)
    (ws.path / "in.yaml").write_text(json.dumps({"tasks": {"a": {"run": script}}}))
    ws.tasuki("run", "in.yaml", env=with_tool(ws))
    documents = re.split(r"^= (.*)$", (ws.path / "told").read_text(errors="replace"), flags=re.MULTILINE)
    said = [re.findall('"message": *"(.*)"', document) or ["-"] for document in documents[::2]]
    lines = [f"{what}: {message[0]}" for message, what in zip(said, documents[1::2])]
    keep(ws, "inside a task", lines)


WRITTEN = ('{"do": "set", "value": 1}', '{"do": "set", "key": "k"}', '{"do": "set", "key": "a b", "value": 1}', '{"do": "add", "key": "k", "value": "x"}', '{"do": "nonsense"}',
           '{"do": 5}', '{"do": "next"}', '{"do": "next", "task": "none"}', '{"do": "goto", "task": "none"}', '{"do": "ask"}', '{"do": "ask", "question": 5}',
           '{"do": "ask", "question": "q", "type": "x"}', '{"do": "ask", "question": "q", "type": "selection"}', '{"do": "ask", "question": "q", "options": "x"}',
           '{"do": "spawn"}', '{"do": "spawn", "task": "b"}', '{"do": "spawn", "task": "b", "payload": {"run": []}}', '{"do": "spawn", "task": "b", "payload": {"run": "x", "y": 1}}',
           '{"a b": 1}', '{"": 1}', "[1]", "{", "=1", "a b=1", "x", '{"a": 1, "a": 2}', "k=" + "x" * 200)


@test("what a task writes")
def _(ws):
    lines = []
    for text in WRITTEN:
        (ws.path / "written").write_text(text + "\n")
        (ws.path / "in.yaml").write_text("tasks: {a: 'cat written >> $TASUKI_OUTPUT'}\n")
        stage = last_document(ws.tasuki("--json", "run", "in.yaml", env=with_tool(ws)))
        failed = stage.get("failures") or [{}]
        lines.append(f"{text[:90]}: {stage['status']} {failed[0].get('reason_code')} {failed[0].get('reason')}")
    keep(ws, "what a task writes", lines)


ASKS = (("none", {}), ("tools/call", {}), ("tools/call", {"name": 5}), ("tools/call", {"name": "none"}), ("tools/call", {"name": "lock_check", "arguments": 5}),
        ("tools/call", {"name": "lock_check", "arguments": {"kind": "x"}}), ("tools/list", {"cursor": "none"}), ("resources/read", {}), ("resources/read", {"uri": "x"}),
        ("resources/read", {"uri": "tasuki://none"}), ("resources/subscribe", {}), ("resources/subscribe", {"uri": "x"}), ("resources/unsubscribe", {}), ("prompts/get", {}),
        ("prompts/get", {"name": "none"}), ("completion/complete", {}), ("completion/complete", {"ref": {"type": "ref/prompt", "name": "none"}, "argument": {"name": "x", "value": ""}}),
        ("completion/complete", {"ref": {"type": "x"}, "argument": {}}), ("logging/setLevel", {}), ("logging/setLevel", {"level": "loud"}), ("logging/setLevel", {"level": "debug"}),
        ("tasks/get", {}), ("tasks/get", {"taskId": "none"}), ("tasks/update", {}), ("tasks/update", {"taskId": "none"}), ("tasks/cancel", {"taskId": "none"}),
        ("subscriptions/listen", {}), ("subscriptions/listen", {"notifications": 5}), ("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["x"]}}),
        ("initialize", {}), ("ping", {}), ("server/discover", {}))


@test("over MCP")
def _(ws):
    lines = []
    for is_modern in (False, True):
        agent = Agent(ws, initialize=not is_modern)
        for method, params in ASKS:
            if (method, params) == ("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["x"]}}) and is_modern:
                continue  # it has no answer before its end
            answer = agent.request(method, params, modern=is_modern, capabilities={"extensions": {TASKS: {}}} if method.startswith("tasks/") else None)
            said = answer.get("error") or answer["result"]
            text = f"{said['code']} {said['message']}" if "error" in answer else f"ok {said['content'][0]['text'][:200]}" if "content" in said else "ok"
            lines.append(f"{'modern' if is_modern else 'legacy'} {method} {json.dumps(params)}: {text}")
        agent.close()
    keep(ws, "over MCP", lines)


CALLS = (
    ("POST", "/api/processes", {"id": "p", "command": "true", "env": 5}), ("POST", "/api/processes", {"id": "p", "command": "true", "env": {"A": 5}}),
    ("POST", "/api/processes", {"id": "p", "command": "true", "args": 5}), ("POST", "/api/processes", {"id": "p", "command": "true", "args": [5]}),
    ("POST", "/api/processes", {"id": "p", "command": "a\0b"}), ("POST", "/api/processes", {"id": "p", "command": "true", "args": ["x" * 131072]}),
    ("POST", "/api/processes", {"id": "p", "command": "true", "nonsense": 1}), ("POST", "/api/processes", {"id": "p", "command": "true", "ready": {"log": "["}}),
    ("POST", "/api/processes", {"id": "p", "command": "true", "ready": {"log": 5}}), ("POST", "/api/processes", {"id": "p", "command": "true", "ready": {"log": "x" * 4097}}),
    ("POST", "/api/processes", {"id": "p", "command": "true", "ready": {}}), ("POST", "/api/processes", {"id": "p", "command": "true", "ready_timeout_ms": 5}),
    ("PUT", "/api/processes/p", {"expected_updated_at": "nonsense"}), ("PUT", "/api/templates/t", {"expected_updated_at": "nonsense"}),
    ("POST", "/api/processes/start", {}), ("GET", "/api/runs?limit=1&limit=2", None), ("GET", "/api/runs?limit=x", None), ("GET", "/api/runs?nonsense=1", None),
    ("POST", "/api/locks/name/a", {"id": "b"}), ("POST", "/api/locks/name/a", {"instance": "nobody"}), ("POST", "/api/locks/name/a", {"ttl": "x"}),
    ("DELETE", "/api/instances/nobody", {}), ("POST", "/api/workflows/w/claim", {"instance": "nobody"}), ("PATCH", "/api/runs", {}), ("GET", "/api/none", None),
    ("POST", "/api/requests", {"title": 5}), ("POST", "/api/requests", {"title": "t", "depends_on": "x"}), ("POST", "/api/agents/run-dag", {"tasks": "x", "ulTaskId": "w"}),
    ("POST", "/api/agents/run-dag", {"tasks": [5], "ulTaskId": "w"}), ("POST", "/api/flows/run", {"flow": 5}), ("POST", "/api/flows/run", {"flow": "none.yaml"}),
    ("POST", "/api/confirm", {"token": "x"}), ("POST", "/api/processes/import", {"content": 5}), ("POST", "/api/wait", {"kind": "x", "id": "y"}), ("POST", "/api/doctor", {"mode": "x"}),
    ("POST", "/api/locks/name/a", {}), ("POST", "/api/locks/name/a", {"wait": "x"}), ("POST", "/api/flows/run", {"flow": ""}), ("POST", "/api/flows/run", {"flow": "/etc/passwd"}),
    ("POST", "/api/processes/import", {}), ("POST", "/api/processes/import", {"path": "none"}), ("DELETE", "/api/locks/name/a", {"token": 5}), ("POST", "/api/requests/RQ-none/run", {}),
    ("POST", "/api/requests/RQ-none/again", {}), ("GET", "/api/requests/RQ-none", None), ("DELETE", "/api/requests/RQ-none", None), ("PUT", "/api/requests/RQ-none", {"title": "x"}),
    ("POST", "/api/runs/RUN-none/cancel", {}), ("POST", "/api/runs/RUN-none/resume", {}), ("DELETE", "/api/runs/RUN-none", None), ("GET", "/api/runs/RUN-none/tasks", None),
    ("GET", "/api/runs/RUN-none/logs", None), ("GET", "/api/runs/RUN-none/graph", None), ("GET", "/api/processes/none", None), ("DELETE", "/api/processes/none", None),
    ("POST", "/api/processes/none/start", {}), ("POST", "/api/processes/none/stop", {"grace_period_ms": -1}), ("GET", "/api/processes/none/logs?lines=x", None),
    ("GET", "/api/events?limit=0", None), ("GET", "/api/events?since=x", None), ("GET", "/api/events?after=-1", None), ("GET", "/api/locks?kind=x", None),
    ("GET", "/api/flows/show?flow=none", None), ("GET", "/api/workflows/bad%2Fid", None), ("GET", "/api/status%zz", None), ("GET", "/api/runs?limit=%31%zz", None),
    ("POST", "/api/templates", {"name": "t", "command": "true"}), ("DELETE", "/api/templates/none", None), ("POST", "/api/agents/run", {"subagentId": "none", "task": "x"}),
    ("POST", "/api/sprint", {"mode": "x"}), ("POST", "/api/sprint", {"mode": "acquire"}), ("POST", "/api/queue/start", {"max": -1}), ("POST", "/api/runs/RUN-none/answer", {"text": "x"}),
)


@test("over HTTP")
def _(ws):
    ws.tasuki("proc", "template", "create", "t", "--", "true").expect(0)
    server = Server(ws)
    lines = []
    for method, path, body in CALLS:
        answer = server.ask(method, path, body)
        error = answer.json.get("error", {}) if answer.body.startswith(b"{") else {}
        shown = json.dumps(body) if body is not None else ""
        lines.append(f"{method} {path} {shown[:90]}: {answer.status} {error.get('reason_code')} {str(error.get('message'))[:300]}")
    server.stop()
    keep(ws, "over HTTP", lines)


main(__name__)
