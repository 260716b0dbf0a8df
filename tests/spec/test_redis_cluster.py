"""Spec 6, "More than one machine": a Redis Cluster. The keys of a run are at one node, those of the pool and of files at others."""

import time

from flows import last_document, only_run, run_ids, trace, write_flow
from harness.harness import eq, main, test
from harness.redis import Redis
from harness.redis_cluster import answers, begin_move, cluster, give_up_move, knows_all, move_keys, move_slot, refusals, slot_of


@test("eight runs over a cluster of three nodes, each at the node of its keys, with files and a question of doctor", slow=True)
def _(ws):
    nodes = cluster(ws)
    redis = nodes[0]
    redis.worker("-j", "4", "--name", "one")
    redis.worker("-j", "4", "--name", "two")
    (ws.path / "word").write_text("hello")
    flow = write_flow(ws, "files: [word]\nflow: a >> (b | c) >> d\ntasks:\n" + "".join(
        f"  {t}: {{run: 'cat word; tasuki channel set {t} 1'}}\n" for t in "abcd"))
    runs = [ws.spawn("run", flow, "--json", "--redis", nodes[n % 3].url, env={"PATH": redis.env()["PATH"]}) for n in range(8)]
    stages = [last_document(ws.finish(one).expect(0)) for one in runs]
    eq({tuple(sorted(stage["channel"].items())) for stage in stages}, {(("a", 1), ("b", 1), ("c", 1), ("d", 1))}, "values")
    homes = {redis.call("CLUSTER", "KEYSLOT", "{" + stage["run_id"] + "}") * 3 // 16384 for stage in stages}
    eq(len(homes) > 1, True, f"whether several nodes had runs, {homes}")
    report = ws.tasuki("doctor", "--json", env=redis.env()).json
    found = [check for check in report["checks"] if check["name"] == "workers"][0]
    eq((found["status"], "2 workers with 8 places" in found["summary"]), ("PASS", True), f"doctor, {found}")
    eq(redis.keys_without_ttl(), [], "keys without a TTL")


@test("a slot that moves to another node in the middle of its run: the run goes on there, and what had ended does not run again", slow=True)
def _(ws):
    nodes = cluster(ws)
    redis = nodes[0]
    redis.worker("-j", "2", "--name", "one")
    runner = ws.spawn("run", write_flow(ws, """lease: 2s
flow: a >> b >> c
tasks:
  a: {run: 'echo a >> trace'}
  b: {run: 'echo up > up; until test -e go; do sleep 0.05; done; echo b >> trace'}
  c: {run: 'echo c >> trace'}
"""), "--json", env=redis.env())
    ws.until_file("up")
    move_slot(nodes, *slot_of(nodes, only_run(ws)))
    time.sleep(1)
    (ws.path / "go").touch()
    eq(last_document(ws.finish(runner).expect(0))["status"], "DONE", "status")
    eq((trace(ws)[0], trace(ws).count("a"), trace(ws)[-1]), ("a", 1, "c"), f"what ran, {trace(ws)}")


@test("the slot of the pool is on its way to another node: what the old node does not have is asked of the new one (ASK)", slow=True)
def _(ws):
    nodes = cluster(ws)
    nodes[0].worker("-j", "2", "--name", "one")
    slot, source, target = slot_of(nodes, "pool default")
    begin_move(slot, source, target)
    flow = write_flow(ws, "flow: a >> b\ntasks: {a: {run: 'echo a >> trace'}, b: {run: 'echo b >> trace'}}\n")
    eq(last_document(ws.tasuki("run", flow, "--json", env=nodes[0].env()).expect(0))["status"], "DONE", "status")
    eq(trace(ws), ["a", "b"], "what ran")
    eq(answers(source, "ASK") > 0, True, "whether the old node said ASK")
    eq(Redis.call(target, "CLUSTER", "COUNTKEYSINSLOT", slot) > 0, True, "whether the new node was asked")
    move_slot(nodes, slot, source, target)
    eq(last_document(ws.tasuki("run", flow, "--json", env=nodes[0].env()).expect(0))["status"], "DONE", "status after the move")
    eq(trace(ws), ["a", "b", "a", "b"], "what ran")


STAY = """lease: 2s
flow: a >> b >> c
tasks:
  a: {run: 'echo a >> trace'}
  b: {run: 'echo up > up; until test -e go; do sleep 0.05; done; echo b >> trace'}
  c: {run: 'echo c >> trace'}
"""


@test("the slot of a run is half moved (ASK), and then wholly: no step is taken in between, and the run ends at the new node", slow=True)
def _(ws):
    nodes = cluster(ws)
    nodes[0].worker("-j", "2", "--name", "one")
    runner = ws.spawn("run", write_flow(ws, STAY), "--json", env=nodes[0].env())
    ws.until_file("up")
    run = only_run(ws)
    slot, source, target = slot_of(nodes, run)
    begin_move(slot, source, target)
    move_keys(source, target, f"tasuki:{{{run}}}:meta")
    said = answers(source, "ASK")
    ws.until(lambda: answers(source, "ASK") > said + 5, "ASK, for the steps of worker and runner")
    move_slot(nodes, slot, source, target)
    (ws.path / "go").touch()
    eq(last_document(ws.finish(runner).expect(0))["status"], "DONE", "status")
    eq((trace(ws)[0], trace(ws).count("a"), trace(ws)[-1]), ("a", 1, "c"), f"what ran, {trace(ws)}")
    eq(Redis.call(source, "CLUSTER", "COUNTKEYSINSLOT", slot), 0, "keys at the old node")


@test("a claim while the slot of its run is on its way, and the move is given up: the claim was made wholly or not at all", slow=True)
def _(ws):
    nodes = cluster(ws)
    nodes[0].worker("-j", "1", "--name", "one")
    runner = ws.spawn("run", write_flow(ws, "lease: 2s\ntasks: {t: {on: [gpu], run: 'echo t >> trace'}}\n"), "--json", env=nodes[0].env())
    ws.until(lambda: run_ids(ws), "the run")
    run = only_run(ws)
    slot, source, target = slot_of(nodes, run)
    ws.until(lambda: source.call("KEYS", f"tasuki:{{{run}}}:queue:*"), "the attempt in its queue")
    begin_move(slot, source, target)
    calls = refusals(source)
    nodes[0].worker("-j", "1", "--name", "two", "--tags", "gpu")
    ws.until(lambda: refusals(source) > calls + 10, "steps that are refused, the worker's claim among them")
    give_up_move(slot, source, target)
    eq(last_document(ws.finish(runner).expect(0))["status"], "DONE", "status")
    eq(trace(ws), ["t"], "what ran")


@test("the node of a run is killed (CLUSTERDOWN) and comes back empty: the run goes on, and what had ended does not run again", slow=True,
      quick=False)
def _(ws):
    nodes = cluster(ws)
    nodes[0].worker("-j", "2", "--name", "one")
    runner = ws.spawn("run", write_flow(ws, STAY), "--json", env=nodes[0].env())
    ws.until_file("up")
    _, node, _ = slot_of(nodes, only_run(ws))
    node.kill()
    ws.until(lambda: "cluster_state:fail" in Redis.call([one for one in nodes if one is not node][0], "CLUSTER", "INFO"), "CLUSTERDOWN")
    node.start()
    for one in nodes:
        ws.until(lambda: knows_all(one), "the cluster")
    (ws.path / "go").touch()
    eq(last_document(ws.finish(runner, timeout=120).expect(0))["status"], "DONE", "status")
    eq((trace(ws)[0], trace(ws).count("a"), trace(ws)[-1]), ("a", 1, "c"), f"what ran, {trace(ws)}")
    eq(nodes[0].keys_without_ttl(), [], "keys without a TTL")


main(__name__)
