"""Processes to files and from files: tasuki's own formats, Vantage's, Procfiles, process-compose."""

import json
import random
import subprocess

from harness.harness import eq, main, test
from harness.processes import SLEEP, Processes

EMPTY = {"created": [], "updated": [], "unchanged": [], "running": [], "templates": [], "ignored": [], "warnings": []}


def imported(ws, text, name="file.yaml", *options, code=0):
    """Writes the text to a file and imports it."""
    (ws.path / name).write_text(text)
    return ws.tasuki("--json", "proc", "import", name, *options).expect(code)


def exported(ws, *words):
    """{id: spec} of the processes, with their secrets."""
    text = ws.tasuki("proc", "export", *words, "--format", "json", "--secrets").expect(0).out
    return json.loads(text)["processes"]


def ids(ws):
    return sorted(one["id"] for one in ws.tasuki("--json", "proc", "list").expect(0).json["processes"])


def places(result):
    """The places of an import's problems."""
    return [(one["line"], one["column"]) for one in result.error["context"]["problems"]]


def reasons(result):
    return "\n".join(one["reason"] for one in result.error["context"]["problems"])


# -- export ----------------------------------------------------------------------------------------------------

@test("an export has only what differs from the defaults, and is the same text every time")
def _(ws):
    Processes(ws).create("web", ("npm", "run", "dev server"), "--env", "PORT=3000", "--env", "A=no", "--cwd", "/tmp",
                         "--restart", "on-failure", "--ready", "port:3000", "--depends-on", "db=ready")
    Processes(ws).create("db")
    expected = ("version: 1\n"
                "processes:\n"
                "  db:\n"
                "    command: sleep\n"
                "    args:\n"
                "      - \"1000\"\n"
                "  web:\n"
                "    command: npm\n"
                "    args:\n"
                "      - run\n"
                "      - dev server\n"
                "    env:\n"
                "      A: \"no\"\n"
                "      PORT: \"3000\"\n"
                "    cwd: /tmp\n"
                "    restart: on-failure\n"
                "    ready:\n"
                "      port: 3000\n"
                "    depends_on:\n"
                "      db: ready\n")
    for _ in range(2):
        result = ws.tasuki("proc", "export").expect(0)
        eq((result.out, result.err), (expected, ""), "the export")


@test("an export of named processes has those only; an unknown one is ProcessNotFound")
def _(ws):
    p = Processes(ws)
    for id in ("a", "b", "c"):
        p.create(id)
    eq(sorted(exported(ws, "a", "c")), ["a", "c"], "the processes")
    p.call("export", "a", "nobody").expect(5, "ProcessNotFound")


@test("secrets are *** in an export, named in `masked`, and in clear only with --secrets")
def _(ws):
    Processes(ws).create("web", SLEEP, "--env", "API_KEY=hidden", "--env", "PORT=1", "--env",
                         "DATABASE_URL=postgres://me:hidden@db/x")
    for form in ("yaml", "json"):
        result = ws.tasuki("--json", "proc", "export", "--format", form).expect(0)
        assert "hidden" not in result.out, result
        eq(result.json["masked"], ["web.API_KEY", "web.DATABASE_URL"], "masked")
    note = ws.tasuki("proc", "export").expect(0)
    assert "--secrets" in note.err and "hidden" not in note.out, note
    clear = ws.tasuki("proc", "export", "--secrets").expect(0)
    assert "API_KEY: hidden" in clear.out and clear.err == "", clear
    eq(exported(ws)["web"]["env"]["API_KEY"], "hidden", "the exported value")


# -- there and back --------------------------------------------------------------------------------------------

ODD = ["", " ", "a b", "no", "null", "~", "1", "0x1f", "1e3", "- x", "# x", "a: b", "a #b", "\n", "a\nb\n", "\t", '"', "'",
       "\\", "\\n", "{x}", "[x]", "&a", "*a", "!x", "|", ">", "%x", "@x", "`x`", "é", "日本", "😀", "\u0085", "\u2028",
       "\ufeff", "\uffff", "\x7f", "\x1b[0m", "$HOME", "<<", "=", "2001-01-01", "---", "...", "***"]


def random_spec(dice):
    def text():
        return "".join(dice.choice(ODD) for _ in range(dice.randint(0, 3)))

    spec = {"command": "x" + text(), "args": [text() for _ in range(dice.randint(0, 4))],
            "env": {f"V{n}" + text().replace("=", ""): text() for n in range(dice.randint(0, 3))}}
    more = {"cwd": "/" + text(), "restart": dice.choice(["no", "always"]), "max_retries": dice.randint(0, 9),
            "log": dice.choice(["pipe", "stamped"]), "auto_start_on_restore": True, "backoff_ms": dice.randint(0, 999),
            "ready": dice.choice([{"port": 80}, {"log": "^up: #"}, {"command": ["test", text()]}, {"notify": True}]),
            "health": {"http": "http://[::1]:1/a?b", "failures": dice.randint(4, 9), "action": "restart"},
            "depends_on": {"no": "ready", "1.5": "completed"}}
    spec.update({key: value for key, value in more.items() if dice.random() < 0.4})
    return {key: value for key, value in spec.items() if value not in ([], {}, "no")}


@test("what is imported is exported exactly, and the export imports into another workspace exactly", slow=True)
def _(ws):
    dice = random.Random(5)
    for round in range(6):
        processes = {f"p{n}": random_spec(dice) for n in range(40)}
        document = json.dumps({"version": 1, "secrets": True, "processes": processes})
        first, second, third = (ws.base / f"{name}{round}" for name in "abc")
        for root in (first, second, third):
            root.mkdir()
            ws.tasuki("init", cwd=root).expect(0)
        ws.tasuki("proc", "import", "-", "--format", "json", cwd=first, input=document).expect(0)
        as_json = ws.tasuki("proc", "export", "--secrets", "--format", "json", cwd=first).expect(0).out
        as_yaml = ws.tasuki("proc", "export", "--secrets", cwd=first).expect(0).out
        eq(json.loads(as_json)["processes"], processes, "the exported processes")
        ws.tasuki("proc", "import", "-", cwd=second, input=as_yaml).expect(0)
        ws.tasuki("proc", "import", "-", cwd=third, input=as_json).expect(0)
        for root in (second, third):
            eq(ws.tasuki("proc", "export", "--secrets", cwd=root).expect(0).out, as_yaml, "the export of the import")


@test("templates are exported and imported beside the processes")
def _(ws):
    ws.tasuki("proc", "template", "create", "node", "--env", "PORT={{PORT}}", "--cwd", "{{DIR}}", "--", "npm", "run").expect(0)
    text = ws.tasuki("proc", "export").expect(0).out
    ws.tasuki("proc", "template", "delete", "node").expect(0)
    eq(imported(ws, text).json["templates"], ["node"], "the imported templates")
    eq(ws.tasuki("proc", "export").expect(0).out, text, "the export after the import")


def template(ws, name):
    return ws.tasuki("--json", "proc", "template", "show", name).expect(0).json["spec"]


@test("templates that exist are refused by name, and nothing is imported; --replace updates them and leaves the others alone")
def _(ws):
    for name in ("go", "node", "other"):
        ws.tasuki("proc", "template", "create", name, "--", "old", name).expect(0)
    text = ("version: 1\nprocesses: {p: {command: 'true'}}\n"
            "templates: {go: {command: new}, node: {command: new}, fresh: {command: new}}\n")
    refused = imported(ws, text, code=4)
    eq((refused.error["reason_code"], refused.error["context"]["templates"]), ("CONFLICT", ["go", "node"]), "the refusal")
    assert "go, node" in refused.error["message"] and "--replace" in " ".join(refused.error["next"]), refused
    eq((template(ws, "go")["command"], ids(ws)), ("old", []), "what there is after the refusal")
    imported(ws, text, "file.yaml", "--replace")
    eq([template(ws, name)["command"] for name in ("go", "node", "fresh", "other")], ["new", "new", "new", "old"], "the templates")


@test("a masked value of a template is refused, and kept by --replace")
def _(ws):
    text = "version: 1\ntemplates: {t: {command: new, env: {API_KEY: '***'}}}\n"
    refused = imported(ws, text, code=2)
    assert "API_KEY" in refused.error["message"], refused
    ws.tasuki("proc", "template", "create", "t", "--env", "API_KEY=hidden", "--", "old").expect(0)
    imported(ws, text, "file.yaml", "--replace")
    shown = ws.tasuki("proc", "export", "--secrets", "--format", "json").expect(0).json["templates"]["t"]
    eq((shown["command"], shown["env"]), ("new", {"API_KEY": "hidden"}), "the template")


# -- secrets of an import --------------------------------------------------------------------------------------

@test("an import refuses masked values with their places; --replace keeps the values that are registered")
def _(ws):
    p = Processes(ws)
    p.create("web", SLEEP, "--env", "API_KEY=hidden")
    masked = ws.tasuki("proc", "export").expect(0).out
    masked = masked.replace("sleep", "true")
    p.call("remove", "web").expect(0)
    refused = imported(ws, masked, code=2)
    assert "API_KEY" in refused.error["message"] and "--secrets" in refused.error["message"], refused
    eq(refused.error["context"]["line"], 8, "the line")
    eq(ids(ws), [], "the processes after the refusal")
    p.create("web", SLEEP, "--env", "API_KEY=hidden")
    eq(imported(ws, masked, "file.yaml", "--replace").json["updated"], ["web"], "updated")
    eq(exported(ws)["web"], {"command": "true", "args": ["1000"], "env": {"API_KEY": "hidden"}}, "the spec")


@test("in a file with `secrets: true` *** means itself")
def _(ws):
    imported(ws, 'version: 1\nsecrets: true\nprocesses: {a: {command: x, env: {K: "***"}}}\n')
    eq(exported(ws)["a"]["env"], {"K": "***"}, "env")


# -- all or nothing --------------------------------------------------------------------------------------------

@test("all mistakes of a file are told at once with file, line and column, and nothing is changed")
def _(ws):
    text = ("version: 1\n"
            "processes:\n"
            "  good: {command: x}\n"
            "  a:\n"
            "    comand: x\n"
            "    restart: sometimes\n"
            "  'b c': {command: x}\n"
            "  d: {command: x, env: {A: {}}, ready: {port: 70000}}\n"
            "other: 1\n")
    refused = imported(ws, text, code=2)
    eq(places(refused), [(5, 5), (6, 14), (7, 3), (8, 25), (8, 47), (9, 1)], "the places")
    assert "Did you mean 'command'" in reasons(refused), refused
    eq(ids(ws), [], "the processes")
    shown = ws.tasuki("proc", "import", "file.yaml").expect(2)
    for line in ("file.yaml:5:5:", "file.yaml:7:3:", "file.yaml:9:1:"):
        assert line in shown.err, shown


@test("existing ids are ProcessAlreadyExists, all of them named, and nothing is changed")
def _(ws):
    p = Processes(ws)
    p.create("a")
    p.create("b")
    text = "version: 1\nprocesses: {a: {command: x}, b: {command: x}, c: {command: x}}\n"
    refused = imported(ws, text, code=4)
    eq(refused.error["reason_code"], "ProcessAlreadyExists")
    eq(refused.error["context"]["ids"], ["a", "b"], "the ids")
    eq(refused.error["next"], ["tasuki proc import file.yaml --replace"], "next")
    eq(ids(ws), ["a", "b"], "the processes")
    eq(exported(ws)["a"]["command"], "sleep", "the command")


@test("--replace updates what exists, creates what does not, and leaves alone what is the same")
def _(ws):
    p = Processes(ws)
    same = p.create("same", ("x",))
    p.create("old")
    text = "version: 1\nprocesses: {same: {command: x}, old: {command: y}, new: {command: z}}\n"
    eq(imported(ws, text, "f.yaml", "--replace").json,
       {**EMPTY, "format": "yaml", "created": ["new"], "updated": ["old"], "unchanged": ["same"]}, "the answer")
    eq(exported(ws), {"same": {"command": "x"}, "old": {"command": "y"}, "new": {"command": "z"}}, "the processes")
    eq(p.status("same")["updated_at"], same["updated_at"], "updated_at of the unchanged one")


@test("a running process that is replaced keeps running with what it has, and is named in `running`")
def _(ws):
    p = Processes(ws)
    running = p.run("web")
    p.create("idle")
    text = "version: 1\nprocesses: {web: {command: sleep, args: ['2000']}, idle: {command: x}}\n"
    eq(imported(ws, text, "f.yaml", "--replace").json["running"], ["web"], "running")
    record = p.status("web")
    eq((record["pid"], record["args"]), (running["pid"], ["2000"]), "pid and args")
    p.one_copy_runs("web", record)


@test("a circle of dependencies is refused, and nothing is imported")
def _(ws):
    text = "version: 1\nprocesses: {a: {command: x, depends_on: {b: ready}}, b: {command: x, depends_on: {a: ready}}}\n"
    refused = imported(ws, text, code=2)
    assert "a -> b -> a" in refused.error["message"], refused
    eq(ids(ws), [], "the processes")


@test("each import has its events, one per process")
def _(ws):
    imported(ws, "version: 1\nprocesses: {a: {command: x}, b: {command: x}}\ntemplates: {t: {command: x}}\n")
    events = ws.tasuki("--json", "events").expect(0).json["events"]
    eq([(e["type"], e["data"].get("process_id", e["data"].get("template"))) for e in events if e["data"]],
       [("process.created", "a"), ("process.created", "b"), ("template.created", "t")], "the events")


# -- where it comes from ---------------------------------------------------------------------------------------

@test("relative directories begin where the file is; `-` is standard input and begins where the command runs")
def _(ws):
    sub = ws.path / "sub"
    sub.mkdir()
    (sub / "f.yaml").write_text("version: 1\nprocesses: {a: {command: x, cwd: ./d}, b: {command: x}}\n")
    ws.tasuki("proc", "import", "sub/f.yaml").expect(0)
    ws.tasuki("proc", "import", "-", cwd=sub, input="version: 1\nprocesses: {c: {command: x, cwd: d}}\n").expect(0)
    found = exported(ws)
    eq((found["a"]["cwd"], found["b"].get("cwd"), found["c"]["cwd"]), ("sub/d", None, "sub/d"), "cwd")


@test("an export names directories below the root relative to it and without `..`; those outside, and behind links, stay")
def _(ws):
    front = ws.path / "front"
    front.mkdir()
    outside = ws.base / "outside"
    (outside / "deep").mkdir(parents=True)
    (ws.path / "link").symlink_to(outside / "deep")
    for id, where, words in (("here", front, ()), ("above", front, ("--cwd", "..")), ("side", front, ("--cwd", "../front//.")),
                             ("out", front, ("--cwd", "../../outside")), ("link", ws.path, ("--cwd", "link/..")),
                             ("root", ws.path, ())):
        ws.tasuki("proc", "create", id, *words, "--", "pwd", cwd=where).expect(0)
    found = exported(ws)
    eq({id: one.get("cwd") for id, one in found.items()},
       {"here": "front", "above": ".", "side": "front", "out": str(outside), "link": "link/..", "root": None}, "cwd")
    ws.tasuki("proc", "template", "create", "t", "--cwd", "front", "--", "x").expect(0)
    assert "    cwd: front\n" in ws.tasuki("proc", "export").out.split("templates:")[1]


@test("a file that is missing, a directory, too large, or binary is refused in plain words")
def _(ws):
    (ws.path / "big.yaml").write_text("#" * (5 << 20))
    (ws.path / "binary").write_bytes(b"a: b\0c\n")
    (ws.path / "latin").write_bytes(b"version: 1\nprocesses: {a: {command: \xe9}}\n")
    for name, code, reason in (("none.yaml", 5, "NOT_FOUND"), (".", 3, "ENVIRONMENT"), ("big.yaml", 2, "PAYLOAD_TOO_LARGE"),
                               ("binary", 2, "INVALID_INPUT"), ("latin", 2, "INVALID_INPUT")):
        refused = ws.tasuki("--json", "proc", "import", name).expect(code, reason)
        assert name in refused.error["message"], refused


@test("the text itself can be given instead of a file, but not both, and not neither")
def _(ws):
    text = "version: 1\nprocesses: {a: {command: x, cwd: d}}\n"
    ws.tasuki("proc", "import", "--content", text).expect(0)
    eq(exported(ws)["a"]["cwd"], "d", "cwd")
    ws.tasuki("--json", "proc", "import").expect(2, "INVALID_INPUT")
    (ws.path / "f").write_text(text)
    ws.tasuki("--json", "proc", "import", "f", "--content", text).expect(2, "INVALID_INPUT")


@test("a file that is no format of these is refused with what it is, or with how to say what it is")
def _(ws):
    for name, text, words in (("p.kdl", 'process "a" {\n}\n', "KDL"), ("old", 'process "a" {\n  command "x"\n}\n', "KDL"),
                              ("docker-compose.yml", "services: {a: {image: b}}\n", "docker"),
                              ("f.yaml", "processes: {a: {command: x}}\n", "version: 1"),
                              ("f.yaml", "version: 9\nprocesses: {}\n", "version 9"),
                              ("f.json", '{"version": 1,', "f.json:1:")):
        message = imported(ws, text, name, code=2).error["message"]
        assert words in message and name in message, message


# -- Vantage ---------------------------------------------------------------------------------------------------

RECORD = {"command": "npm", "args": ["run", "dev"], "env": {"PORT": "3000"}, "cwd": "/srv", "auto_start_on_restore": True}
SEED = {"id": "web", **RECORD, "state": {"Running": {"pid": 12, "started_at": "2025-11-02T00:00:00Z"}},
        "created_at": "2025-11-02T00:00:00Z"}
STATUS = {"state": "running", "pid": 12, "exit_code": None, "started_at": "2025-11-02T00:00:00Z", "stopped_at": None,
          "error": None}
STORED = {"process_id": "web", "name": "web", **RECORD, "status": STATUS, "created_at": "x", "updated_at": "x", "tags": []}


@test("Vantage's records are read in all their wrappings")
def _(ws):
    surql = ("-- Export\nUSE NS ichimi DB main;\n\n"
             f"CREATE process CONTENT {json.dumps({'process_id': 'web', **RECORD})};\n"
             'CREATE process_event CONTENT {"type":"started","process_id":"web"};\n')
    yaml = ("- process_id: web\n  name: web\n  command: npm\n  args:\n  - run\n  - dev\n  env:\n    PORT: '3000'\n  cwd: /srv\n"
            "  status:\n    state: running\n    pid: 12\n    exit_code: null\n  created_at: 2025-11-02T00:00:00.123456Z\n"
            "  updated_at: 2025-11-02T00:00:00.123456Z\n  tags: []\n  auto_start_on_restore: true\n")
    snapshot = {"version": "1.0", "timestamp": "x", "metadata": {"total_processes": 1}, "processes": [
        {"id": "web", "name": "web", **RECORD, "state": {"status": "not_started"}, "tags": []}]}
    texts = {"seed.json": json.dumps([SEED]), "seed.yaml": json.dumps([SEED]), "list.yaml": yaml, "dump.surql": surql,
             "map.json": json.dumps({"web": STORED}), "snapshot.yaml": json.dumps(snapshot),
             "db.json": json.dumps([{**SEED, "id": "process:web"}]), "db2.json": json.dumps([{**SEED, "id": "process:⟨web⟩"}])}
    for name, text in texts.items():
        answer = imported(ws, text, name).json
        eq((answer["format"], answer["created"], answer["ignored"]), ("vantage", ["web"], []), name)
        eq(exported(ws)["web"], RECORD, f"the spec from {name}")
        eq(ws.tasuki("--json", "proc", "status", "web").json["state"], "NotStarted", "the state")
        ws.tasuki("proc", "remove", "web").expect(0)


@test("what tasuki has nothing for in Vantage's records is listed; what is wrong is told with its place")
def _(ws):
    odd = [{**STORED, "name": "The Web", "tags": ["a"], "auto_start_on_create": True}]
    eq(imported(ws, json.dumps(odd), "v.json").json["ignored"], ["web.name", "web.tags", "web.auto_start_on_create"],
       "ignored")
    refused = imported(ws, "- id: a\n  command: x\n  args: text\n- command: y\n- id: b\n", "v.yaml", code=2)
    eq(places(refused), [(3, 9), (4, 3), (5, 3)], "the places")


# -- Procfile --------------------------------------------------------------------------------------------------

@test("a Procfile: one process per line, in the file's directory; a shell only where the line needs one")
def _(ws):
    text = ("# comment\n\nweb: bundle exec rails s -p $PORT\nworker:bin/worker --name \"a b\" 'c d' e\\ f\n"
            "both: make && make install\n")
    answer = imported(ws, text, "Procfile").json
    eq((answer["format"], answer["created"]), ("procfile", ["web", "worker", "both"]), "format and created")
    here = {"cwd": "."}
    eq(exported(ws), {"web": {"command": "sh", "args": ["-c", "bundle exec rails s -p $PORT"], **here},
                      "worker": {"command": "bin/worker", "args": ["--name", "a b", "c d", "e f"], **here},
                      "both": {"command": "sh", "args": ["-c", "make && make install"], **here}}, "the processes")


@test("a Procfile's mistakes are told with their places")
def _(ws):
    refused = imported(ws, "a: b\nno colon here\nq: 'x\n  c: d\na: again\ne:\n", "Procfile", code=2)
    eq(places(refused), [(2, 1), (3, 4), (4, 1), (5, 4), (6, 3)], "the places")
    eq(ids(ws), [], "the processes")


@test("a command line that is split gives the words that sh gives", slow=True)
def _(ws):
    dice = random.Random(7)
    parts = ["a", "b c", "'", '"', "\\", " ", "  ", "x=y", "$X", "~", "#", "'q q'", '"d d"', "\\ ", '\\"', '"\\""', "''", '""',
             "-", "é", "日"]
    lines = {}
    while len(lines) < 300:
        lines[f"p{len(lines)}"] = "cmd " + "".join(dice.choice(parts) for _ in range(dice.randint(1, 6)))
    script = "cmd() { for w in \"$@\"; do printf '%s\\0' \"$w\"; done; }\n"
    good = {}
    for id, line in lines.items():
        result = ws.run(["sh", "-c", script + line])
        if result.code == 0 and result.err == "":
            good[id] = (line, result.out.split("\0")[:-1])
    assert len(good) > 100, f"only {len(good)} of the lines are valid"
    imported(ws, "".join(f"{id}: {line}\n" for id, (line, _) in good.items()), "Procfile")
    found, split = exported(ws), 0
    for id, (line, words) in good.items():
        if found[id]["command"] == "cmd":
            eq(found[id].get("args", []), words, f"the words of {line!r}")
            split += 1
        else:
            eq([found[id]["command"], *found[id]["args"]], ["sh", "-c", line.strip(" ")], f"the shell for {line!r}")
    assert split > 50, f"only {split} lines were split"


# -- process-compose -------------------------------------------------------------------------------------------

COMPOSE = """\
version: "0.5"
log_level: debug
environment:
  - GLOBAL=1
processes:
  web:
    command: npm run "dev server"
    working_dir: front
    environment: [PORT=3000, "DIR=$HOME/x"]
    namespace: n
    replicas: 2
    depends_on:
      db: {condition: process_healthy}
      init: {condition: process_completed_successfully}
      log: {condition: process_started}
    availability: {restart: on_failure, max_restarts: 5, backoff_seconds: 2, exit_on_end: true}
    liveness_probe:
      http_get: {host: localhost, port: 3000, path: health}
      initial_delay_seconds: 5
      period_seconds: 2
      timeout_seconds: 3
      failure_threshold: 4
  db:
    command: postgres -D data | tee log
    environment: {PGDATA: data}
    readiness_probe:
      exec: {command: pg_isready -q, working_dir: /x}
      initial_delay_seconds: 30
      period_seconds: 20
      failure_threshold: 5
    shutdown: {signal: 2, timeout_seconds: 10}
  init:
    command: ./migrate
    availability: {restart: "no"}
  log:
    command: tail -F x
    ready_log_line: "up (1)."
"""


@test("a process-compose file becomes processes; what tasuki does not have is listed, never dropped silently")
def _(ws):
    answer = imported(ws, COMPOSE, "process-compose.yaml").json
    eq((answer["format"], answer["created"]), ("compose", ["web", "db", "init", "log"]), "format and created")
    eq(answer["ignored"], ["log_level", "web.namespace", "web.replicas", "web.availability.exit_on_end",
                           "web.liveness_probe.initial_delay_seconds", "db.shutdown",
                           "db.readiness_probe.exec.working_dir"], "ignored")
    eq(len(answer["warnings"]), 1, "the number of warnings")
    assert "web.environment.DIR" in answer["warnings"][0], answer
    eq(exported(ws), {
        "web": {"command": "npm", "args": ["run", "dev server"], "cwd": "front",
                "env": {"GLOBAL": "1", "PORT": "3000", "DIR": "$HOME/x"},
                "depends_on": {"db": "ready", "init": "completed", "log": "started"},
                "restart": "on-failure", "max_retries": 5, "backoff_ms": 2000, "backoff_max_ms": 2000,
                "health": {"http": "http://localhost:3000/health", "interval_ms": 2000, "timeout_ms": 3000, "failures": 4,
                           "action": "restart"}},
        "db": {"command": "bash", "args": ["-c", "postgres -D data | tee log"], "cwd": ".",
               "env": {"GLOBAL": "1", "PGDATA": "data"},
               "ready": {"command": ["pg_isready", "-q"], "interval_ms": 20000, "timeout_ms": 135000}},
        "init": {"command": "./migrate", "cwd": ".", "env": {"GLOBAL": "1"}},
        "log": {"command": "tail", "args": ["-F", "x"], "cwd": ".", "env": {"GLOBAL": "1"},
                "ready": {"log": r"up \(1\)\."}}}, "the processes")


@test("the mistakes of a process-compose file are told with their places")
def _(ws):
    text = ("version: '0.5'\n"
            "processes:\n"
            "  a:\n"
            "    command: 'x \"y'\n"
            "    depends_on: {b: {condition: process_ready}, c: {}}\n"
            "    availability: {restart: maybe, max_restarts: many}\n"
            "  b:\n"
            "    command: x\n"
            "    readiness_probe: {http_get: {scheme: https, port: 1}}\n"
            "  c:\n"
            "    environment: [NOVALUE]\n"
            "  d: text\n")
    refused = imported(ws, text, code=2)
    eq(places(refused), [(4, 14), (5, 33), (5, 49), (6, 29), (6, 50), (9, 22), (11, 19), (12, 6)], "the places")
    eq(ids(ws), [], "the processes")


@test("a process-compose file's own shell is used where a shell is needed")
def _(ws):
    imported(ws, "version: '0.5'\nshell: {shell_command: zsh, shell_argument: -ec}\nprocesses: {a: {command: 'x | y'}}\n")
    eq(exported(ws)["a"]["args"], ["-ec", "x | y"], "args")
    eq(exported(ws)["a"]["command"], "zsh", "the command")


# -- linked worktrees --------------------------------------------------------------------------------------------

@test("a directory in a linked worktree is exported relative to the root there: the file is for every checkout")
def _(ws):
    def git(*words):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *words], cwd=ws.path, check=True, capture_output=True)

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "start")
    for name, tree in (("beside", ws.base / "feat"), ("inside", ws.path / ".trees" / "fix")):
        git("worktree", "add", "-q", str(tree))
        (tree / "front").mkdir()
        ws.tasuki("proc", "create", name, "--", "true", cwd=tree / "front").expect(0)
        ws.tasuki("proc", "create", f"{name}-top", "--", "true", cwd=tree).expect(0)
    ws.tasuki("proc", "create", "far", "--cwd", str(ws.base), "--", "true").expect(0)
    for place in (ws.path, ws.base / "feat"):
        found = json.loads(ws.tasuki("proc", "export", "--format", "json", cwd=place).expect(0).out)["processes"]
        eq({id: one.get("cwd") for id, one in found.items()},
           {"beside": "front", "beside-top": ".", "inside": "front", "inside-top": ".", "far": str(ws.base)}, str(place))


main(__name__)
