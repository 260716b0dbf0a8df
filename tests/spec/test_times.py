"""Times and spans for people: local, short and relative, in their language; exact with --verbose. JSON stays UTC."""

import json
import re

from common import ISO_UTC, parse_time, sleeper
from flows import run_flow
from harness.harness import eq, main, test

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
TOKYO = {"TZ": "JST-9"}
EXACT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def started(ws, later_ms, *options, env=None):
    """The last column of `runs list`, seen `later_ms` after the run."""
    out = ws.fault("runs", "list", *options, wall_ms=later_ms, env=env).expect(0).out
    return re.split(r"  +", out.splitlines()[1])[-1]


@test("a time in a list is a distance within an hour, then the local clock, then a date and the clock")
def _(ws):
    run_flow(ws, "tasks: {a: 'true'}\n")
    began = parse_time(ws.tasuki("runs", "list", "--json").expect(0).json["runs"][0]["started_at"])
    assert re.fullmatch(r"\d+ s ago", started(ws, 0)), started(ws, 0)
    eq(started(ws, 2 * MINUTE + 1000)[-8:], "2 min ago"[-8:])
    local = began.timestamp() + 9 * 3600
    clock = f"{int(local % 86400 // 3600):02}:{int(local % 3600 // 60):02}"
    eq(started(ws, 3 * DAY, env=TOKYO)[-5:], clock, "the clock of the place")
    assert re.fullmatch(r"\d\d-\d\d \d\d:\d\d", started(ws, 2 * DAY)) or began.month == 12, started(ws, 2 * DAY)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", started(ws, 400 * DAY)), started(ws, 400 * DAY)
    assert re.fullmatch(r"(\d\d-\d\d )?\d\d:\d\d", started(ws, -5 * MINUTE)), "a time to come has no distance"


@test("--verbose has the exact local time; JSON has UTC")
def _(ws):
    run_flow(ws, "tasks: {a: 'true'}\n")
    recorded = ws.tasuki("runs", "list", "--json", env=TOKYO).expect(0).json["runs"][0]["started_at"]
    assert ISO_UTC.match(recorded), recorded
    exact = started(ws, 0, "--verbose", env=TOKYO)
    assert exact.endswith("+09:00"), exact
    eq(parse_time(exact), parse_time(recorded), "the instant")
    line = ws.tasuki("events", "--verbose", env=TOKYO).expect(0).out.splitlines()[-1]
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+09:00 ", line), line
    assert re.match(r"\d\d:\d\d:\d\d ", ws.tasuki("events").expect(0).out.splitlines()[-1]), "short without it"


FLOW = "flow: a >> b\ntasks:\n  a: {run: \"true\"}\n  b: {run: \"exit 3\"}\n"
LISTED = (("runs", "list"), ("runs", "show"), ("runs", "tasks"), ("queue", "status"), ("request", "list"), ("own", "list"),
          ("own", "show", "w"), ("flow", "list"), ("agents",), ("events",), ("status",), ("proc", "list"), ("proc", "template", "list"))


def times_in(value, path=""):
    """The times in a document: path and text. Those of locks are left out, because other tools define their form."""
    if isinstance(value, list):
        return [one for item in value for one in times_in(item, path)]
    if not isinstance(value, dict) or "expires_at" in value:
        return []
    found = [(f"{path}.{key}", text) for key, text in value.items() if isinstance(text, str) and (key.endswith("_at") or key in ("time", "since"))]
    return found + [one for key, item in value.items() for one in times_in(item, f"{path}.{key}")]


@test("times in JSON are UTC with milliseconds, whatever the time zone")
def _(ws):
    def lines(code, *words):
        return [json.loads(line) for line in ws.tasuki(*words, "--json", env=TOKYO).expect(code).out.splitlines()]

    (ws.path / ".aiflow/flows/f.yaml").write_text(FLOW)
    documents = {"run": lines(7, "run", "f")}
    ws.tasuki("queue", "add", "--", "true").expect(0)
    documents["queue run"] = lines(0, "queue", "run")
    for words in (("own", "claim", "w"), ("proc", "create", "p", "--start", "--no-wait", "--", "true"), ("proc", "wait", "p"),
                  ("proc", "template", "create", "t", "--", "true")):
        ws.tasuki(*words).expect(0)
    documents.update({" ".join(words): ws.tasuki(*words, "--json", env=TOKYO).expect(0).json for words in LISTED})
    for name, document in documents.items():
        found = times_in(document)
        assert found, f"{name} has no time"
        eq([one for one in found if not EXACT.fullmatch(one[1])], [], f"other forms in {name}")


UNITS = {"en": (r"\(2 h 5 min ago\)", "0 s", "1 s"), "ja": ("（2 時間 5 分前）", "0 秒", "1 秒"), "zh": ("（2 小时 5 分钟前）", "0 秒", "1 秒")}

for lang, (details, listed, waited) in UNITS.items():
    @test(f"units are those of the language, in details, lists and refusals: {lang}")
    def _(ws, lang=lang, details=details, listed=listed, waited=waited):
        ws.tasuki("lock", "acquire", "name", "a", "--pid", sleeper(ws).pid, env={"TASUKI_AGENT": "me"}).expect(0)
        shown = ws.fault("--lang", lang, "agents", wall_ms=2 * HOUR + 5 * MINUTE + 1000).expect(0).out
        assert re.search(details, shown), shown
        shown = ws.tasuki("--lang", lang, "lock", "list").expect(0).out
        assert re.search(rf"\d+{listed[1:]} ", shown), shown
        assert waited in ws.tasuki("--lang", lang, "wait", "lock", "a", "--timeout", "1s").err


@test("a list on a narrow terminal leaves out columns before it cuts the rest")
def _(ws):
    ws.tasuki("proc", "create", "web", "--", "sleep", "1000").expect(0)
    heads = {columns: ws.tasuki("proc", "list", env={"COLUMNS": str(columns)}).expect(0).out.splitlines()[0].split()
             for columns in (120, 50, 30)}
    eq(heads[120], "ID STATE PHASE PID UPTIME MEMORY RESTARTS BY COMMAND".split())
    assert heads[50][:2] == ["ID", "STATE"] and heads[50][-1] == "COMMAND" and len(heads[30]) < len(heads[50]) < 9, heads
    for columns in heads:
        assert all(len(line) <= columns for line in ws.tasuki("proc", "list", env={"COLUMNS": str(columns)}).out.splitlines())


@test("a command that refuses a time accepts each form that its refusal names")
def _(ws):
    ws.tasuki("proc", "create", "web", "--", "true").expect(0)
    for words in (["events", "--since"], ["events", "--until"], ["proc", "logs", "web", "--since"], ["proc", "logs", "web", "--until"]):
        said = ws.tasuki("--json", *words, "yesterday").expect(2, "INVALID_INPUT").error["message"]
        forms = said.partition("write ")[2].replace(" (ago)", "").replace(" or ", ", ").split(", ")
        eq(len(forms), 4, f"forms in {said}")
        for form in forms:
            ws.tasuki(*words, form).expect(0)


main(__name__)
