"""Spec 6 and 7: how a run has ended is said the same by everybody: its journal, its stage, the queue, who answers, what comes next."""

import json
import os

from common import need_namespace, need_root, unshare
from flows import journal, last_document, only_run, resume, run_flow, run_ids, trace, with_tool, write_flow
from harness.harness import eq, main, test
from requests_common import add, call, queue, shown, stage_file, status

ASK = 'x=$(tasuki task ask "{}"); test -n "$x" || exit 0; echo $x >> trace'
LATER = "until grep -q '\"ask\"' .aiflow/runs/$TASUKI_RUN_ID/journal; do sleep 0.01; done"
LARGE = "python3 -c \"print('{}=' + '{}' * {})\" >> $TASUKI_OUTPUT"


def as_if_killed(ws, run):
    """The stage as a runner leaves it that is killed behind its last record."""
    path = stage_file(ws, run)
    stage = json.loads(path.read_text())
    stage.update(status="RUNNING", ended_at=None, questions=[])
    path.write_text(json.dumps(stage))


# ---- the journal is the truth ----

@test("a run that asked and was cancelled by somebody who was killed before the stage could say so is cancelled: its request can run anew")
def _(ws):
    add(ws, "RQ-1", ASK.format("Q?"))
    call(ws, "request", "run", "RQ-1", code=8)
    run = only_run(ws)
    asking = stage_file(ws, run).read_text()
    call(ws, "runs", "cancel", run)
    stage_file(ws, run).write_text(asking)
    os.utime(stage_file(ws, run), (1e9, 1e9))
    seen = call(ws, "runs", "show", run).json
    eq((seen["status"], seen["questions"], shown(ws, "RQ-1")["status"]), ("CANCELLED", [], "ready"), "what is seen")
    call(ws, "request", "run", "RQ-1", code=8)
    eq(len(run_ids(ws)), 2, "runs")


@test("an answer that was recorded by somebody who was killed before the stage could say so is no open question any more: the run can go on")
def _(ws):
    add(ws, "RQ-1", ASK.format("Q?"))
    call(ws, "request", "run", "RQ-1", code=8)
    run = only_run(ws)
    asked = next(r for r in journal(ws, run) if r["e"] == "ask")
    with stage_file(ws, run).with_name("journal").open("a") as file:
        for record in ({"e": "resume", "keep": True}, {"e": "answer", "n": asked["n"], "v": "first"}):
            file.write(json.dumps({"t": asked["t"], **record}, separators=(",", ":")) + "\n")
    seen = call(ws, "runs", "show", run).json
    eq((seen["status"], seen["questions"], seen["tasks"][0]["state"]), ("INTERRUPTED", [], "waiting"), "what is seen")
    refused = call(ws, "answer", run, "second", code=4, reason="ALREADY_ANSWERED").json["error"]
    eq(refused["next"], [f"tasuki resume {run}"], "next")
    eq([(one["run_id"], one["status"]) for one in queue(ws)["ran"]], [(run, "DONE")], "what the queue went on with")
    eq(trace(ws), ["first"], "the answer")


@test("a run whose journal has its end has ended, whatever its stage says; the queue does not run a failed one again")
def _(ws):
    add(ws, "RQ-1", "echo x >> trace; exit 1")
    run = call(ws, "request", "run", "RQ-1", code=7) and only_run(ws)
    as_if_killed(ws, run)
    eq((status(ws, run), shown(ws, "RQ-1")["status"]), ("FAILED", "failed"), "what it is")
    eq(queue(ws)["ran"], [], "what the queue runs")
    stage_file(ws, run).unlink()
    eq((status(ws, run), queue(ws)["ran"], trace(ws)), ("FAILED", [], ["x"]), "without any stage")


@test("a run whose runner was killed before its last stage has its values all the same; too many are left out, and that is said")
def _(ws):
    write = "flow: (a | b) >> c\nchannel: {merge: {n: sum}}\ntasks:\n" + "".join(
        f"  {name}: {json.dumps(command)}\n" for name, command in
        [("a", "tasuki channel add n 1"), ("b", "tasuki channel add n 2"), ("c", "tasuki channel set word $(printf %0${LENGTH}d 7)")])
    for length, left_out in (("3", None), ("70000", True)):
        name = write_flow(ws, write)
        stage = last_document(ws.tasuki("run", name, "--json", env={**with_tool(ws), "LENGTH": length}).expect(0))
        eq(stage["channel"]["n"], 3, "what the run says itself")
        as_if_killed(ws, stage["run_id"])
        seen = call(ws, "runs", "show", stage["run_id"]).json
        expected = {} if left_out else stage["channel"]
        eq((seen["status"], seen["channel"], seen.get("channel_left_out")), ("DONE", expected, left_out), "what is seen")
        stage_file(ws, stage["run_id"]).unlink()
        eq(call(ws, "runs", "show", stage["run_id"]).json["channel"], expected, "without any stage")


@test("a run that asks is one that asks, with its question, when its stage does not say so")
def _(ws):
    run = run_flow(ws, f"tasks: {{a: {json.dumps(ASK.format('Q?'))}}}\n", code=8)["run_id"]
    as_if_killed(ws, run)
    stage = call(ws, "runs", "show", run).json
    eq((stage["status"], [q["question"]["question"] for q in stage["questions"]]), ("NEEDS_INPUT", ["Q?"]), "what is seen")
    call(ws, "answer", run, "yes", "--wait")
    eq((status(ws, run), trace(ws)), ("DONE", ["yes"]), "the end")


@test("the disk gets full at the end of a run: what the command says is what the list says")
def _(ws):
    need_root("a mount")
    need_namespace(ws, "-m")
    script = """
        mkdir "$B/small"; mount -t tmpfs -o size=1m tmpfs "$B/small"; cd "$B/small"
        "$T" init >/dev/null
        printf 'tasks: {a: {run: "cat /dev/zero > fill; exit 1"}}\\n' > flow.yaml
        "$T" run flow.yaml || echo "code $?"
        rm fill
        "$T" runs list
    """
    lines = unshare(ws, ["-m"], script).expect(0).out.splitlines()
    said = [line.split()[1] for line in lines if line.startswith("RUN-") or line == lines[-1]]
    eq((said, "code 7" in lines), (["FAILED", "FAILED"], True), "the command and the list")


# ---- questions of a run that has ended ----

ENDS = [("finish", "finish", 0, "DONE", ""), ("a failure with fail_fast", None, 7, "FAILED", "groups: {g: {policy: fail_fast}}\n")]
for how, request, code, word, groups in ENDS:
    @test(f"a question that nobody waits for after {how} is not open, and its answer is refused")
    def _(ws, request=request, code=code, word=word, groups=groups):
        ends = f"{LATER}; tasuki task {request}" if request else f"{LATER}; test -e ok"
        text = f"flow: g(a | b)\n{groups}tasks:\n  a: {json.dumps(ASK.format('Q?'))}\n  b: {json.dumps(ends)}\n"
        stage = run_flow(ws, text, "-j", "2", code=code)
        run = stage["run_id"]
        eq((stage["status"], stage["questions"], call(ws, "runs", "show", run).json["questions"]), (word, [], []), "the stage")
        before = journal(ws, run)
        error = call(ws, "answer", run, "late", code=4, reason="CONFLICT").json["error"]
        assert f"ended ({word})" in error["message"] and error["next"] == [f"tasuki runs show {run}"], error
        eq((journal(ws, run), status(ws, run), trace(ws)), (before, word, []), "what the answer left")
        if word == "FAILED":  # what runs again opens it again
            (ws.path / "ok").touch()
            eq([q["task"] for q in resume(ws, run, code=8)["questions"]], ["a"], "after resume")


@test("an answer to a run that has not asked anything is no second one")
def _(ws):
    run = run_flow(ws, "tasks: {a: 'true'}\n")["run_id"]
    error = call(ws, "answer", run, "yes", code=4, reason="CONFLICT").json["error"]
    assert "not asked" in error["message"], error


@test("a second answer to a run that is done says so, and does not propose to resume it")
def _(ws):
    run = run_flow(ws, f"tasks: {{a: {json.dumps(ASK.format('Q?'))}}}\n", code=8)["run_id"]
    call(ws, "answer", run, "yes", "--wait")
    eq(call(ws, "answer", run, "yes", code=4, reason="ALREADY_ANSWERED").json["error"]["next"], [f"tasuki runs show {run}"], "next")


# ---- what comes next ----

def proposals(result):
    lines = result.out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("  next "))
    return [line.removeprefix("  next").strip() for line in lines[at:]]


@test("with several questions each has a command that answers it; one that does not say which is refused with where to look")
def _(ws):
    pick = 'x=$(tasuki task ask Which --option red --option blue); test -n "$x" || exit 0; echo $x >> trace'
    name = write_flow(ws, f"flow: (a | b)\ntasks:\n  a: {json.dumps(pick)}\n  b: {json.dumps(ASK.format('Q?'))}\n")
    next_ = sorted(proposals(ws.tasuki("run", name, env=with_tool(ws)).expect(8)))
    run = only_run(ws)
    eq(next_, [f"tasuki answer {run} --task a --choose N", f"tasuki answer {run} --task b TEXT"], "next")
    refused = call(ws, "answer", run, "text", code=2, reason="INVALID_INPUT").json["error"]
    assert "name the task" in refused["message"] and refused["next"] == [f"tasuki runs show {run}"], refused
    call(ws, *next_[1].split()[1:], "--wait", code=8)
    call(ws, "answer", run, "--choose", "2", "--wait")
    eq(sorted(trace(ws)), ["TEXT", "blue"], "the answers")


@test("an option that is chosen twice counts once; a second answer, and one to a run that was cancelled, name the run and where to look")
def _(ws):
    pick = 'x=$(tasuki task ask Which --type multi_selection --option red --option blue); test -n "$x" || exit 0; echo $x >> trace'
    run = run_flow(ws, f"tasks: {{a: {json.dumps(pick)}}}\n", code=8)["run_id"]
    call(ws, "answer", run, "red,2,1", "--wait")
    eq(trace(ws), ['["red","blue"]'], "the answer")
    cancelled = run_flow(ws, f"tasks: {{a: {json.dumps(ASK.format('Q?'))}}}\n", code=8)["run_id"]
    call(ws, "runs", "cancel", cancelled)
    for id, reason in ((run, "ALREADY_ANSWERED"), (cancelled, "CONFLICT")):
        refused = call(ws, "answer", id, "blue", code=4, reason=reason).json["error"]
        eq((refused["context"]["run_id"], refused["next"]), (id, [f"tasuki runs show {id}"]), f"of {refused}")


@test("a request whose run asks is refused with commands that can be typed as they stand")
def _(ws):
    add(ws, "RQ-1", ASK.format("Q?"))
    call(ws, "request", "run", "RQ-1", code=8)
    next_ = call(ws, "request", "run", "RQ-1", code=8, reason="NEEDS_INPUT").json["error"]["next"]
    eq(next_, [f"tasuki runs show {only_run(ws)}", f"tasuki answer {only_run(ws)} TEXT"], "next")
    eq(proposals(ws.tasuki(*next_[0].split()[1:]).expect(0))[0], f"tasuki answer {only_run(ws)} TEXT", "what the first one proposes")


DECIDED = [("a task cancelled", "a", "tasuki task cancel no", ""),
           ("two branches contradict each other", "(a | b)", "echo x=$TASUKI_TASK_ID >> $TASUKI_OUTPUT", "channel: {merge: {x: error}}\n")]
for why, expression, command, more in DECIDED:
    @test(f"a run that {why} is begun anew, not resumed: that would end the same")
    def _(ws, expression=expression, command=command, more=more):
        tasks = "".join(f"  {name}: {json.dumps(command)}\n" for name in "ab" if name in expression)
        name = write_flow(ws, f"flow: {expression}\n{more}tasks:\n{tasks}")
        eq(proposals(ws.tasuki("run", name, env=with_tool(ws)).expect(7)), ["tasuki run flow.yaml"], "next")


@test("a run of a request that a task cancelled is begun anew by its request")
def _(ws):
    add(ws, "RQ-1", "tasuki task cancel no")
    eq(proposals(ws.tasuki("request", "run", "RQ-1", env=with_tool(ws)).expect(7)), ["tasuki request run RQ-1"], "next")


# ---- large values ----

@test("six tasks with 15 MB each that end together: the run is DONE, its stage without the values, and stays DONE", quick=False)
def _(ws):
    names = "abcdef"
    wait = f"; touch up.$TASUKI_TASK_ID; until test -e up.{' -a -e up.'.join(names)}; do sleep 0.05; done"
    tasks = "".join(f"  {name}: {json.dumps(LARGE.format(name, 'x', 15000000) + wait)}\n" for name in names)
    name = write_flow(ws, f"flow: ({' | '.join(names)}) >> z\ntasks:\n{tasks}  z: wc -c < $TASUKI_CHANNEL > trace\n")
    ws.tasuki("run", name, "-j", "6", "--quiet", env=with_tool(ws), timeout=280).expect(0)
    assert int(trace(ws)[0]) > 90000000, trace(ws)
    stage = json.loads(stage_file(ws, only_run(ws)).read_text())
    eq((stage["status"], stage["channel"], stage["channel_left_out"]), ("DONE", {}, True), "the stage")


for why, text, limit in [("17 MiB", LARGE.format("k", "x", 17 << 20), "16 MiB"), ("72 MB as JSON", LARGE.format("k", "\\x01", 12000000), "32 MiB")]:
    @test(f"a task that writes {why} fails and says the limit; the run is over and can be resumed", slow=True)
    def _(ws, text=text, limit=limit):
        stage = run_flow(ws, f"flow: a >> b\ntasks:\n  a: {json.dumps('test -e ok || ' + text)}\n  b: 'true'\n", code=7)
        assert limit in stage["failures"][0]["reason"] and "file" in stage["failures"][0]["reason"], stage["failures"]
        (ws.path / "ok").touch()
        eq((resume(ws, stage["run_id"])["status"], len(run_ids(ws))), ("DONE", 1), "after resume")


@test("the reason of a failure is in the language of its reader, not in that of the run; a stage of an older version keeps its words")
def _(ws):
    (ws.path / "f.yaml").write_text("tasks: {a: 'exit 3'}\n")
    begun = last_document(ws.tasuki("--json", "--lang", "ja", "run", "f.yaml").expect(7))
    eq((begun["reason"], begun["failures"][0]["reason"]), ("a は終了コード 3 で終わりました",) * 2, "the run itself")
    words = {"ja": "a は終了コード 3 で終わりました", "en": "a ended with exit code 3", "zh": "a 以退出码 3 结束"}

    def shown(lang):
        show, listed, status = [ws.tasuki("--json", "--lang", lang, *name.split()).expect(0).json for name in ("runs show", "runs list", "status")]
        return {show["reason"], show["failures"][0]["reason"], listed["runs"][0]["reason"], status["runs"][0]["reason"]}, "reason_text" in str((show, listed, status))

    for lang, text in words.items():
        eq(shown(lang), ({text}, False), lang)
    stage = next((ws.path / ".aiflow/runs").glob("RUN-*/stage.json"))
    kept = json.loads(stage.read_text())
    for change in (lambda one: one["reason_text"].update(key="key_of_a_later_version"), lambda one: one.pop("reason_text")):
        for one in (kept, *kept["failures"]):
            change(one)
        stage.write_text(json.dumps(kept))
        eq(shown("en"), ({words["ja"]}, False), "its own words")


@test("an error without a sentence of its own is kept by its code: a run that was cancelled")
def _(ws):
    (ws.path / "f.yaml").write_text("tasks: {a: 'sleep 600'}\n")
    runner = ws.spawn("--lang", "ja", "run", "f.yaml", env=with_tool(ws))
    ws.until(lambda: '"running"' in ws.tasuki("runs", "show", "--json").out, "a runs")
    call(ws, "runs", "cancel", "@1")
    ws.finish(runner)
    reasons = {lang: ws.tasuki("--json", "--lang", lang, "runs", "show").expect(0).json["reason"] for lang in ("ja", "en", "zh")}
    eq(len(set(reasons.values())), 3, f"three languages: {reasons}")


@test("a cancel from another pid namespace says that it cannot reach the runner, and changes nothing", slow=True)
def _(ws):
    need_namespace(ws, "-p", "-f", "--mount-proc")
    proc = ws.spawn("run", write_flow(ws, "tasks: {a: 'until [ -e go ]; do sleep 0.01; done'}\n"))
    ws.until(lambda: "RUNNING" in ws.tasuki("runs", "list").out, "the run")
    result = unshare(ws, ["-p", "-f", "--mount-proc"], 'cd "$W"; "$T" runs cancel @1 || echo "code $?"').expect(0)
    assert "code 3" in result.out and "container" in result.err, result
    (ws.path / "go").touch()
    ws.finish(proc).expect(0)


main(__name__)
