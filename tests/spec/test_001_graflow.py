"""Seed 001 (graflow): the scenarios that its sections 4, 5 and 7 name, and the cases in which the original goes wrong."""

import concurrent.futures

from flows import last_document, only_run, run_flow, trace, with_tool, write_flow
from harness.harness import eq, main, test

NOTE = "echo $TASUKI_TASK_ID >> trace"
DIAMOND = f"""
flow: fetch >> (transform_a | transform_b) >> store
tasks:
  fetch: {{run: '{NOTE}'}}
  transform_a: {{run: '{NOTE}'}}
  transform_b: {{run: '{NOTE}'}}
  store: {{run: '{NOTE}'}}
"""


@test("4.1: the diamond is fetch, the two transforms in any order, store: four executions")
def _(ws):
    stage = run_flow(ws, DIAMOND)
    seen = trace(ws)
    eq((seen[0], sorted(seen[1:3]), seen[3]), ("fetch", ["transform_a", "transform_b"], "store"), "order")
    eq((len(seen), stage["counts"]["steps"]), (4, 4), "executions")


@test("4.1: a diamond drawn with plain edges joins once, too")
def _(ws):
    run_flow(ws, f"""
tasks:
  fetch: {{run: '{NOTE}'}}
  transform_a: {{run: '{NOTE}', needs: fetch}}
  transform_b: {{run: '{NOTE}', needs: fetch}}
  store: {{run: '{NOTE}', needs: [transform_a, transform_b]}}
""")
    seen = trace(ws)
    eq((seen[0], sorted(seen[1:3]), seen[3:]), ("fetch", ["transform_a", "transform_b"], ["store"]), "order")


@test("5, phase 3: nested parallel groups are joined from the inside to the outside, each once")
def _(ws):
    stage = run_flow(ws, f"""
flow: a >> outer(b >> inner(c | d) >> e | f) >> g
tasks:
""" + "".join(f"  {n}: {{run: '{NOTE}'}}\n" for n in "abcdefg"))
    seen = trace(ws)
    eq(sorted(seen), list("abcdefg"), "executions")
    assert seen[0] == "a" and seen[-1] == "g", seen
    assert seen.index("b") < min(seen.index("c"), seen.index("d")) and seen.index("e") > max(seen.index("c"), seen.index("d")), seen
    eq(stage["status"], "DONE", "status")


@test("5, phase 3: tasks that a branch adds run in that branch, before its join")
def _(ws):
    run_flow(ws, f"""
flow: (a | b) >> c
tasks:
  a: {{run: "{NOTE}; tasuki task spawn extra -- sh -c 'echo extra:$TASUKI_SESSION_ID >> trace; tasuki channel set made 1'"}}
  b: {{run: '{NOTE}'}}
  c: {{run: "{NOTE}; tasuki channel get made >> trace"}}
""")
    seen, run = trace(ws), only_run(ws)
    eq(seen[-2:], ["c", "1"], "the join and what it reads")
    assert f"extra:{run}_a" in seen, seen


@test("5.3: when a branch fails, its siblings run to their end and the successors are not queued")
def _(ws):
    stage = run_flow(ws, DIAMOND.replace(f"transform_a: {{run: '{NOTE}'}}", "transform_a: {run: 'exit 3'}"), code=7)
    eq(sorted(trace(ws)), ["fetch", "transform_b"], "executions")
    eq((stage["status"], stage["reason_code"]), ("FAILED", "GROUP_FAILED"), "status")
    assert "transform_a" in stage["reason"] and "transform_b" not in stage["reason"], stage["reason"]


@test("7.2, successor handling: several successors of a group run once each, after it")
def _(ws):
    run_flow(ws, f"""
flow: (a | b) >> c
tasks:
  a: {{run: '{NOTE}'}}
  b: {{run: '{NOTE}'}}
  c: {{run: '{NOTE}'}}
  d: {{run: '{NOTE}', needs: [a]}}
""")
    seen = trace(ws)
    eq((sorted(seen[:2]), sorted(seen[2:])), (["a", "b"], ["c", "d"]), "order")


@test("7.1: a branch has its parent's session id and its own, and its queue and channel by that id")
def _(ws):
    run_flow(ws, """
flow: a >> (b | c >> d) >> e
tasks:
  a: {run: 'echo $TASUKI_TASK_ID=$TASUKI_SESSION_ID >> trace'}
  b: {run: 'echo $TASUKI_TASK_ID=$TASUKI_SESSION_ID >> trace'}
  c: {run: 'echo $TASUKI_TASK_ID=$TASUKI_SESSION_ID >> trace'}
  d: {run: 'echo $TASUKI_TASK_ID=$TASUKI_SESSION_ID >> trace'}
  e: {run: 'echo $TASUKI_TASK_ID=$TASUKI_SESSION_ID >> trace'}
""")
    run = only_run(ws)
    eq(dict(line.split("=") for line in trace(ws)), {"a": run, "b": f"{run}_b", "c": f"{run}_c", "d": f"{run}_c", "e": run}, "sessions")


@test("7.1: the channel is copied at the fork and merged at the join")
def _(ws):
    stage = run_flow(ws, """
flow: a >> (b | c) >> d
tasks:
  a: {run: 'tasuki channel set x 1'}
  b: {run: 'tasuki channel set x 2; tasuki channel set only_b yes'}
  c: {run: 'tasuki channel get x >> trace; tasuki channel get only_b || true'}
  d: {run: 'tasuki channel get x >> trace; tasuki channel get only_b >> trace'}
""")
    eq(trace(ws), ["1", "2", "yes"], "what c and d read")
    eq(stage["channel"], {"x": 2, "only_b": "yes"}, "the channel at the end")


@test("where the original goes wrong: a key that a sibling only read keeps what the other branch wrote")
def _(ws):
    stage = run_flow(ws, """
flow: a >> (writer | reader) >> b
tasks:
  a: {run: 'tasuki channel set x old'}
  writer: {run: 'tasuki channel set x new'}
  reader: {run: 'tasuki channel get x'}
  b: {run: 'true'}
""")
    eq(stage["channel"]["x"], "new", "x")


COUNTERS = """
flow: a >> (b | c) >> d
tasks:
  a: {run: 'tasuki channel set count 5'}
  b: {run: 'tasuki channel add count 1'}
  c: {run: 'tasuki channel add count 1'}
  d: {run: 'true'}
"""


@test("where the original goes wrong: two branches that increment one counter add up with the rule sum")
def _(ws):
    eq(run_flow(ws, COUNTERS + "channel: {merge: {count: sum}}\n")["channel"]["count"], 7, "count")
    eq(ws.events("channel.conflict"), [], "conflicts")


@test("where the original goes wrong: without a rule the conflict is an event that names both branches")
def _(ws):
    eq(run_flow(ws, COUNTERS)["channel"]["count"], 6, "count")
    events = ws.events("channel.conflict")
    eq([(e["data"]["key"], e["data"]["branches"], e["run_id"]) for e in events], [("count", ["b", "c"], only_run(ws))], "events")


@test("where the original goes wrong: max_steps is a failure of its own")
def _(ws):
    stage = run_flow(ws, f"""
flow: a >> b
tasks:
  a: {{run: '{NOTE}; tasuki task again', max_cycles: 1000}}
  b: {{run: '{NOTE}'}}
limits: {{max_steps: 5}}
""", code=7)
    eq((trace(ws), stage["reason_code"], stage["status"]), (["a"] * 5, "MAX_STEPS_EXCEEDED", "FAILED"), "the end")


@test("where the original goes wrong: a group that takes longer than 30 s is joined", quick=False, deadline=120)
def _(ws):
    stage = run_flow(ws, DIAMOND.replace(f"transform_b: {{run: '{NOTE}'}}", f"transform_b: {{run: 'sleep 31; {NOTE}'}}"), timeout=90)
    eq((stage["status"], trace(ws)[-1]), ("DONE", "store"), "the end")


@test("where the original goes wrong: eight runs of one flow at once do not see each other")
def _(ws):
    text = """
flow: a >> (b | c) >> d
tasks:
  a: {run: 'tasuki channel set who $TASUKI_RUN_ID'}
  b: {run: 'tasuki channel add count 1'}
  c: {run: 'tasuki channel add count 1'}
  d: {run: 'test $(tasuki channel get who) = $TASUKI_RUN_ID'}
channel: {merge: {count: sum}}
"""
    name = write_flow(ws, text)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(ws.tasuki, "run", name, "--json", env=with_tool(ws)) for _ in range(8)]
        stages = [last_document(job.result().expect(0)) for job in jobs]
    eq(len({s["run_id"] for s in stages}), 8, "runs")
    for stage in stages:
        eq(stage["channel"], {"who": stage["run_id"], "count": 2}, "channel")


main(__name__)
