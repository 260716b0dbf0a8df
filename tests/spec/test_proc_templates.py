"""Templates: settings with {{VARIABLES}} that processes are made of."""

from harness.harness import eq, main, test
from harness.processes import SLEEP, Processes


def template(ws, *words, code=0):
    return ws.tasuki("--json", "proc", "template", *words).expect(code)


def node(ws):
    """A template with variables in every place that can have one."""
    return template(ws, "create", "node", "--env", "PORT={{PORT}}", "--env", "MODE=dev", "--cwd", "{{DIR}}/app", "--restart",
                    "always", "--", "{{BIN}}", "run", "{{ SCRIPT }}", "{{.State}}").json


@test("a template is created, listed, shown, updated and deleted")
def _(ws):
    record = node(ws)
    eq(record["spec"], {"command": "{{BIN}}", "args": ["run", "{{ SCRIPT }}", "{{.State}}"],
                        "env": {"MODE": "dev", "PORT": "{{PORT}}"}, "cwd": "{{DIR}}/app", "restart": "always"}, "the spec")
    eq(record["variables"], ["BIN", "DIR", "PORT", "SCRIPT"], "the variables")
    eq(template(ws, "show", "node").json, record, "the shown template")
    eq(template(ws, "list").json, {"templates": [record], "total": 1, "cursor": None}, "the list")
    changed = template(ws, "update", "node", "--log", "pipe").json
    eq(changed["spec"], {**record["spec"], "log": "pipe"}, "the updated spec")
    eq(template(ws, "delete", "node").json, {"name": "node", "removed": True}, "the answer to delete")
    eq(template(ws, "list").json["total"], 0, "how many are left")


@test("using a template gives its variables their values, and only them")
def _(ws):
    node(ws)
    record = template(ws, "use", "node", "web", "--set", "PORT=3000", "--set", "SCRIPT=a {{PORT}}", "--set", "BIN=npm",
                      "--set", "DIR=/srv").json
    eq((record["command"], record["args"], record["env"], record["cwd"], record["state"]),
       ("npm", ["run", "a {{PORT}}", "{{.State}}"], {"MODE": "dev", "PORT": "3000"}, "/srv/app", "NotStarted"), "the process")


@test("an unset variable is an error that names all of them, and no process is made")
def _(ws):
    node(ws)
    refused = template(ws, "use", "node", "web", "--set", "PORT=1", code=2)
    eq(refused.error["context"]["variables"], ["BIN", "DIR", "SCRIPT"], "the variables")
    assert "BIN, DIR, SCRIPT" in refused.error["message"], refused
    eq(Processes(ws).list(), {}, "the processes")


@test("a value for a variable that the template does not have is an error with the nearest one")
def _(ws):
    node(ws)
    refused = template(ws, "use", "node", "web", "--set", "PROT=1", code=2)
    assert "PROT" in refused.error["message"] and "PORT" in refused.error["message"], refused


@test("options take the place of what the template says; --env adds; what is replaced needs no value")
def _(ws):
    node(ws)
    record = template(ws, "use", "node", "web", "--env", "PORT=1", "--env", "X=2", "--cwd", "/tmp", "--restart", "no",
                      "--", "sleep", "5").json
    eq((record["command"], record["args"], record["env"], record["cwd"], record["restart"]),
       ("sleep", ["5"], {"MODE": "dev", "PORT": "1", "X": "2"}, "/tmp", "no"), "the process")


@test("a template of a process has everything that the process has, its secrets too, which are not shown")
def _(ws):
    p = Processes(ws)
    p.create("web", SLEEP, "--env", "API_KEY=hidden", "--restart", "always")
    shown = template(ws, "create", "like", "--from-process", "web", "--log", "pipe")
    assert "hidden" not in shown.out, shown
    eq(shown.json["spec"], {"command": "sleep", "args": ["1000"], "env": {"API_KEY": "***"}, "restart": "always",
                            "log": "pipe"}, "the spec")
    assert "hidden" not in ws.tasuki("proc", "template", "list").out + ws.tasuki("proc", "template", "show", "like").out
    template(ws, "use", "like", "web2")
    text = ws.tasuki("proc", "export", "web2", "--secrets").expect(0).out
    assert "API_KEY: hidden" in text, text
    template(ws, "create", "none", "--from-process", "nobody", code=5)


@test("a process of a template can be started at once")
def _(ws):
    p = Processes(ws)
    template(ws, "create", "sleeper", "--", "sleep", "{{N}}")
    record = template(ws, "use", "sleeper", "a", "--set", "N=1000", "--start").json
    p.one_copy_runs("a", record)
    p.stop("a")


@test("a name that is taken is CONFLICT, one that does not exist is NOT_FOUND with the nearest one")
def _(ws):
    node(ws)
    template(ws, "create", "node", "--", "x", code=4)
    for words in (["show", "noed"], ["update", "noed", "--log", "pipe"], ["delete", "noed"], ["use", "noed", "x"]):
        refused = template(ws, *words, code=5)
        eq(refused.error["reason_code"], "NOT_FOUND")
        assert "tasuki proc template show node" in refused.error["next"], refused


@test("a process id that is taken is ProcessAlreadyExists")
def _(ws):
    template(ws, "create", "t", "--", "x")
    template(ws, "use", "t", "a")
    eq(template(ws, "use", "t", "a", code=4).error["reason_code"], "ProcessAlreadyExists")


@test("update with an outdated expected_updated_at is CONFLICT and changes nothing")
def _(ws):
    first = template(ws, "create", "t", "--", "x").json
    second = template(ws, "update", "t", "--expected-updated-at", first["updated_at"], "--", "y").json
    refused = template(ws, "update", "t", "--expected-updated-at", first["updated_at"], "--", "z", code=4)
    eq(refused.error["reason_code"], "CONFLICT")
    eq(template(ws, "show", "t").json, second, "the template")


@test("a template is checked like a process: a wrong value is refused when it is created")
def _(ws):
    for options in (["--ready", "tcp:1", "--", "x"], ["--depends-on", "a=b", "--", "x"], []):
        template(ws, "create", "t", *options, code=2)
    template(ws, "create", "a/b", "--", "x", code=2)
    eq(template(ws, "list").json["total"], 0, "how many there are")


@test("templates have their events")
def _(ws):
    template(ws, "create", "t", "--", "x")
    template(ws, "update", "t", "--", "y")
    template(ws, "delete", "t")
    events = ws.tasuki("--json", "events").expect(0).json["events"]
    eq([(e["type"], e["data"]["template"]) for e in events if "template" in e["data"]],
       [("template.created", "t"), ("template.updated", "t"), ("template.removed", "t")], "the events")


@test("completion offers the templates' names")
def _(ws):
    node(ws)
    result = ws.tasuki("__complete", "proc", "template", "show", "").expect(0)
    assert "node" in result.out.split(), result


main(__name__)
