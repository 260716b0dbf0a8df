"""Attempts of a task: timeouts, pauses between them, and how many there may be."""

from flows import journal, run_flow
from harness.harness import eq, main, test


def pauses(ws, stage, task):
    return [r["pause"] for r in journal(ws, stage["run_id"]) if r["e"] == "end" and r["k"] == task and r["o"] == "retry"]


@test("a task that runs out of time has failed, though it exits 0 when it is told to end", slow=True)
def _(ws):
    (ws.path / "polite.sh").write_text("trap 'echo x=1 >> $TASUKI_OUTPUT; exit 0' TERM\ntouch ready\nwhile :; do sleep 0.05; done\n")
    stage = run_flow(ws, "flow: a >> b\ntasks: {a: {run: [sh, polite.sh], timeout: 4s}, b: 'touch after'}\n", code=7)
    failure = stage["failures"][0]
    eq((failure["task"], failure["reason_code"], failure["exit_code"]), ("a", "TASK_TIMEOUT", 0), "the failure")
    eq((stage["channel"], (ws.path / "after").exists()), ({}, False), "what it wrote, what follows")


@test("a task that ran out of time is tried again as often as its retries say", slow=True)
def _(ws):
    (ws.path / "polite.sh").write_text("echo x >> tries\ntrap 'exit 0' TERM\nwhile :; do sleep 0.05; done\n")
    stage = run_flow(ws, "tasks: {a: {run: [sh, polite.sh], timeout: 2s, retries: 1, backoff: {initial: 1ms}}}\n", code=7)
    eq((stage["reason_code"], len((ws.path / "tries").read_text().split())), ("TASK_TIMEOUT", 2), "the end, and the attempts")


@test("the pauses between attempts grow by the factor up to the most")
def _(ws):
    stage = run_flow(ws, "tasks: {a: {run: exit 1, retries: 5, backoff: {initial: 10ms, factor: 3, max: 100ms}}}\n", code=7)
    eq(pauses(ws, stage, "a"), [10, 30, 90, 100, 100], "pauses in ms")


@test("tasks that fail together pause differently with jitter, and no pause is longer than the most")
def _(ws):
    task = "{run: exit 1, retries: 3, backoff: {initial: 100ms, factor: 1, max: 110ms, jitter: 1.0}}"
    stage = run_flow(ws, "tasks:\n" + "".join(f"  t{i}: {task}\n" for i in range(8)), "-j", "8", code=7)
    found = [pause for i in range(8) for pause in pauses(ws, stage, f"t{i}")]
    eq(len(found), 24, "pauses")
    assert all(0 <= pause <= 110 for pause in found), found
    assert len(set(found)) > 3, f"more than one for each of three attempts: {found}"


for retries, needs, code in [(2, 2, 0), (2, 3, 0), (2, 4, 7)]:
    @test(f"a task with {retries} retries that succeeds at attempt {needs} {'fails' if code else 'is done'}")
    def _(ws, retries=retries, needs=needs, code=code):
        stage = run_flow(ws, f"tasks: {{a: {{run: 'test $TASUKI_ATTEMPT -ge {needs}', retries: {retries}, backoff: {{initial: 1ms}}}}}}\n", code=code)
        eq(len(pauses(ws, stage, "a")), min(needs - 1, retries), "attempts that were repeated")


for rounds, code in [(3, 0), (4, 0), (5, 7)]:
    @test(f"a task that runs {rounds} times with max_cycles 4 {'fails' if code else 'is done'}")
    def _(ws, rounds=rounds, code=code):
        run = f"echo x >> rounds; test $(wc -l < rounds) -ge {rounds} || tasuki task again"
        stage = run_flow(ws, f"tasks: {{a: {{run: '{run}', max_cycles: 4}}}}\n", code=code)
        eq(len((ws.path / "rounds").read_text().split()), min(rounds, 4), "executions")
        eq(stage.get("reason_code"), "CYCLE_LIMIT_EXCEEDED" if code else None, "reason code")


for count, code in [(3, 0), (4, 0), (5, 7)]:
    @test(f"a run of {count} tasks with max_steps 4 {'fails' if code else 'is done'}")
    def _(ws, count=count, code=code):
        stage = run_flow(ws, "limits: {max_steps: 4}\ntasks:\n" + "".join(f"  t{i}: echo x >> ran\n" for i in range(count)), "-j", "1", code=code)
        eq((len((ws.path / "ran").read_text().split()), stage.get("reason_code")),
           (min(count, 4), "MAX_STEPS_EXCEEDED" if code else None), "executions, reason code")


main(__name__)
