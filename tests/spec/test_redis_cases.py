"""Spec 6, "More than one machine": odd cases. Many runs at once, long groups, wide groups, two resumes, a runner that is stopped, a worker
that has no room on its disk."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time

from flows import journal, last_document, only_run, run_ids, trace, write_flow
from harness.harness import eq, main, test
from harness.redis import Redis
from harness.redis_proxy import Proxy
from harness.workspace import Skip

WIDTH = 1000
DEEP = 130
GATED = "lease: 6s\nflow: a >> b >> c\ntasks:\n" + "".join(
    f"  {t}: {{run: 'echo {t} >> trace{'; until test -e go; do sleep 0.05; done' if t == 'b' else ''}'}}\n" for t in "abc")


@test("eight runs of one flow at once: each has its own tasks, and all end", slow=True)
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "4")
    redis.worker("-j", "4")
    flow = write_flow(ws, "flow: a >> (b | c) >> d\nchannel: {merge: {n: sum}}\ntasks:\n" + "".join(
        f"  {t}: {{run: 'echo $TASUKI_RUN_ID.{t} >> trace; tasuki channel add n 1'}}\n" for t in "abcd"))
    runners = [ws.spawn("run", flow, "--concurrent", "--json", env=redis.env()) for _ in range(8)]
    stages = [last_document(ws.finish(runner).expect(0)) for runner in runners]
    eq([stage["channel"]["n"] for stage in stages], [4] * 8, "what each has counted")
    eq(sorted(trace(ws)), sorted(f"{run}.{t}" for run in run_ids(ws) for t in "abcd"), "what ran")
    eq(redis.keys_without_ttl(), [], "keys without a TTL")


@test("a group that takes longer than the lease: nothing is taken over, and it is joined once", slow=True)
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "2")
    flow = write_flow(ws, "lease: 5s\nflow: (long | short) >> end\ntasks:\n  long: {run: 'sleep 12; echo long >> trace'}\n"
                      "  short: {run: 'echo short >> trace'}\n  end: {run: 'echo end >> trace'}\n")
    eq(last_document(ws.tasuki("run", flow, "--json", env=redis.env()).expect(0))["status"], "DONE", "status")
    eq(trace(ws), ["short", "long", "end"], "what ran")
    eq(ws.events("task.lost"), [], "takeovers")


@test(f"a fan-out to {WIDTH} tasks and the fan-in: each runs once, and the sum is right", slow=True, deadline=600)
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "4")
    redis.worker("-j", "4")
    names = [f"w{i}" for i in range(WIDTH)]
    flow = write_flow(ws, f"flow: begin >> ({' | '.join(names)}) >> end\nlimits: {{parallel: 64}}\nchannel: {{merge: {{n: sum}}}}\ntasks:\n"
                      "  begin: {run: 'echo n=5 >> $TASUKI_OUTPUT'}\n  end: {run: 'cat $TASUKI_CHANNEL >> sum'}\n" + "".join(
                          f"  {t}: {{run: 'tasuki channel add n 1'}}\n" for t in names))
    stage = last_document(ws.tasuki("run", flow, "--json", env=redis.env(), timeout=500).expect(0))
    eq((stage["status"], stage["counts"]["ok"], stage["channel"]["n"]), ("DONE", WIDTH + 2, WIDTH + 5), "status, tasks and sum")
    eq(ws.events("task.lost"), [], "takeovers")


@test("a fan-out whose branches have written nothing: the values of the session around them travel once; a branch that writes has its own")
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "16")
    names = [f"w{i}" for i in range(12)]
    tasks = "".join(f"  {t}: {{run: 'cat $TASUKI_CHANNEL > read.{t}; until test -e go; do sleep 0.05; done; echo {t}=1 >> $TASUKI_OUTPUT'}}\n"
                    for t in names)
    flow = write_flow(ws, f"flow: begin >> ({' | '.join(names)} | own >> next) >> end\ntasks:\n"
                      "  begin: {run: 'echo big=aaaa >> $TASUKI_OUTPUT'}\n  own: {run: 'echo own=2 >> $TASUKI_OUTPUT'}\n"
                      "  next: {run: 'cat $TASUKI_CHANNEL > read.next; until test -e go; do sleep 0.05; done'}\n"
                      "  end: {run: 'cat $TASUKI_CHANNEL > read.end'}\n" + tasks)
    runner = ws.spawn("run", flow, "--json", env=redis.env())
    ws.until(lambda: len(list(ws.path.glob("read.*"))) == 13, "the tasks of the group")
    run = only_run(ws)
    keys = redis.call("KEYS", f"tasuki:{{{run}}}:channel:*")
    eq(sorted(key.split(":channel:")[1] for key in keys), [run, f"{run}_own"], "sessions whose values are on the server")
    (ws.path / "go").touch()
    eq(last_document(ws.finish(runner).expect(0))["status"], "DONE", "status")
    read = {name: json.loads((ws.path / f"read.{name}").read_text()) for name in (*names, "next", "end")}
    eq([read[t] for t in names], [{"big": "aaaa"}] * 12, "what the branches have read")
    eq(read["next"], {"big": "aaaa", "own": 2}, "what a branch reads that has written")
    eq(len(read["end"]), 14, "keys after the group")


@test("the values of a branch leave the server when its group has ended, not with the run")
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "4")
    flow = write_flow(ws, "flow: begin >> (a >> b | c >> d) >> end\ntasks:\n  begin: {run: 'echo k=1 >> $TASUKI_OUTPUT'}\n"
                      "  end: {run: 'echo end >> trace; until test -e go; do sleep 0.05; done'}\n" + "".join(
                          f"  {t}: {{run: 'cat $TASUKI_CHANNEL > read.{t}; echo {t}=1 >> $TASUKI_OUTPUT'}}\n" for t in "abcd"))
    runner = ws.spawn("run", flow, "--json", env=redis.env())
    ws.until(lambda: trace(ws), "the end")
    key = f"tasuki:{{{only_run(ws)}}}:channel:"
    ws.until(lambda: redis.call("KEYS", key + "*") == [key + only_run(ws)], "only the values of the session that goes on", timeout=20)
    (ws.path / "go").touch()
    eq(last_document(ws.finish(runner).expect(0))["status"], "DONE", "status")
    eq([json.loads((ws.path / f"read.{t}").read_text()) for t in "bd"], [{"k": 1, "a": 1}, {"k": 1, "c": 1}], "what the branches have read")


@test("groups in groups: a session's id may be longer than the name of a file", slow=True)
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "4")
    inner = "last"
    for depth in range(DEEP):
        inner = f"a{depth} >> (b{depth} | {inner})"
    names = [f"{t}{depth}" for depth in range(DEEP) for t in "ab"]
    flow = write_flow(ws, f"flow: {inner}\ntasks:\n  last: {{run: 'cp $TASUKI_CHANNEL seen; echo $TASUKI_SESSION_ID > session'}}\n" + "".join(
        f"  {t}: {{run: 'true'}}\n" for t in names))
    eq(last_document(ws.tasuki("run", flow, "--set", "x=7", "--json", env=redis.env()).expect(0))["status"], "DONE", "status")
    assert len((ws.path / "session").read_text()) > 512, (ws.path / "session").read_text()
    eq(json.loads((ws.path / "seen").read_text())["x"], 7, "the value in the innermost session")


@test("no worker for a minute: the run waits, says it once, and goes on with the first that comes", slow=True, long=True)
def _(ws):
    redis = Redis(ws)
    runner = ws.spawn("run", write_flow(ws, "tasks: {t: {run: 'echo t >> trace'}}\n"), "--json", env=redis.env())
    time.sleep(62)
    redis.worker("-j", "1")
    result = ws.finish(runner).expect(0)
    eq((result.err.count("no worker is available"), trace(ws), ws.events("task.lost")), (1, ["t"], []), "what was said, ran and was lost")


@test("two resumes of one run at once: one goes on, the other is refused, and nothing runs twice", slow=True)
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "2")
    runner = ws.spawn("run", write_flow(ws, GATED), "--json", env=redis.env())
    ws.until(lambda: "b" in trace(ws), "b")
    runner.kill()
    runner.wait()
    resumes = [ws.spawn("resume", only_run(ws), "--json", env=redis.env()) for _ in range(2)]
    ws.until(lambda: any(one.poll() is not None for one in resumes), "the refusal")
    (ws.path / "go").touch()
    eq(sorted(ws.finish(one).code == 0 for one in resumes), [False, True], "which of them has ended well")
    eq([line["k"] for line in journal(ws, only_run(ws)) if line["e"] == "end" and line["o"] == "ok"], ["a", "b", "c"], "ends in the journal")
    eq(trace(ws), ["a", "b", "b", "c"], "what ran")


for _what, _renewals in (("past the lease", 10), ("for a minute", 105)):
    @test(f"a runner that is stopped {_what}: its tasks keep their leases, and the run goes on with it", slow=True, long=_renewals > 100)
    def _(ws, renewals=_renewals):
        redis = Redis(ws)
        redis.worker("-j", "2")
        runner = ws.spawn("run", write_flow(ws, GATED), "--json", env=redis.env())
        ws.until(lambda: "b" in trace(ws), "b")
        runner.send_signal(signal.SIGSTOP)
        meta = redis.call("KEYS", "tasuki:*:meta")[0]
        tick = int(redis.call("HGET", meta, "fence"))
        ws.until(lambda: int(redis.call("HGET", meta, "fence")) > tick + renewals, "renewals, five for each lease", timeout=400)
        runner.send_signal(signal.SIGCONT)
        (ws.path / "go").touch()
        eq(last_document(ws.finish(runner).expect(0))["status"], "DONE", "status")
        eq(trace(ws), ["a", "b", "c"], "what ran")
        eq(ws.events("task.lost"), [], "takeovers")


@test("a worker without room on its disk: it returns what it claims, and leaves the next to others", slow=True)
def _(ws):
    redis = Redis(ws)
    folder = ws.path.parent / "full"
    folder.mkdir()
    script = f"mount -t tmpfs -o size=8k tmpfs {folder} && exec \"$0\" \"$@\""
    if not shutil.which("unshare") or subprocess.run(["unshare", "-rm", "sh", "-c", script, "true"], stderr=subprocess.DEVNULL).returncode:
        raise Skip("a file system of one's own cannot be mounted here")
    script = script.replace("exec", f"(cat /dev/zero > {folder}/filler; true) 2>/dev/null; exec")
    log = open(redis.dir / "full-log", "ab")
    full = subprocess.Popen(["unshare", "-rm", "sh", "-c", script, str(ws.build / "tasuki-worker"), "worker", "--dir", str(ws.path), "-j", "1",
                             "--name", "full"], env=ws.env(redis.env({"TMPDIR": str(folder)})), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    redis.workers.append(full)
    ws.until(lambda: any(one.startswith("full.") for one in redis.call("ZRANGE", "tasuki:{pool default}:w", 0, -1)), "the worker")
    runner = ws.spawn("run", write_flow(ws, "tasks: {t: {run: 'echo $TASUKI_WORKER >> trace'}}\n"), "--json", env=redis.env())
    ws.until(lambda: ws.events("task.lost"), "what was returned")
    redis.worker("-j", "1", "--name", "good")
    eq(last_document(ws.finish(runner).expect(0))["status"], "DONE", "status")
    eq(trace(ws), ["good"], "where it ran")


@test("a worker that does not know the version of a specification leaves it to others and says so; that is no interruption", slow=True)
def _(ws):
    redis = Redis(ws)
    proxy = Proxy(ws, redis.port)
    proxy.swap = (b"\x01\0\0\0003\0", b"\x01\0\0\0004\0")  # the first piece of a specification
    runner = ws.spawn("run", write_flow(ws, "flow: a | b\ntasks:\n" + "".join(
        f"  {t}: {{run: 'echo {t} >> trace; until test -e go; do sleep 0.05; done', on_interrupt: fail}}\n" for t in "ab")), "--json",
        env=redis.env())
    ws.until(lambda: len(redis.call("KEYS", "tasuki:*:queue:*")) == 2, "both tasks")
    old = redis.worker("-j", "2", "--name", "w", env={"TASUKI_REDIS": proxy.url})
    ws.at_close(lambda: redis.end_worker(old))  # before its proxy ends
    ws.until(lambda: old.log.read_text().count("is of another version") == 2, "the words of the old worker")
    ws.until(lambda: ws.events("task.lost"), "what was returned")
    redis.end_worker(old)
    redis.worker("-j", "2", "--name", "w")
    ws.until(lambda: len(ws.events("task.started")) == 4, "the starts on the worker of our version, which has the name of the other one")
    (ws.path / "go").touch()
    result = ws.finish(runner).expect(0)
    eq(last_document(result)["status"], "DONE", "status")
    said = re.findall(r"tasuki: w\.\S+ cannot execute the tasks of RUN-.*\n +next +tasuki workers list --redis", result.err)
    eq(len(said), 1, f"how often the runner names the worker, and where to look, in {result.err}")
    eq(sorted(trace(ws)), ["a", "b"], "what ran")
    eq([(e["data"]["why"], e["data"]["times"]) for e in ws.events("task.lost")], [("version", 0)], "events of what the worker has returned, of two")


LINK = """#!{python} -S
import os, struct, sys
if sys.argv[1] != "link":
    os.execv({real!r}, [{real!r}, *sys.argv[1:]])
put = lambda *words: b"".join(struct.pack("<I", len(word)) + word + b"\\0" for word in words)
frame = lambda data: struct.pack("<I", len(data)) + data
stream, why = os.fdopen(3, "rb"), b"version"
while head := stream.read(4):
    data = stream.read(struct.unpack("<I", head)[0])
    words = []
    while data:
        size = struct.unpack("<I", data[:4])[0]
        words, data = [*words, data[4:4 + size]], data[5 + size:]
    if words[0] == b"push":
        id = words[1]
        os.write(3, frame(put(b"claimed", id, b"1", b"w", b"", b"w.1.1")) + frame(put(b"lost", id, why, b"w.1.1")))
        why = b"lease"
    if words[0] == b"end":
        break
"""


@test("a worker that has returned a task because of its version, and is lost with it later: the start is said before the loss")
def _(ws):
    redis = Redis(ws)
    folder = ws.path.parent / "programs"
    folder.mkdir()
    shutil.copy(ws.build / "tasuki", folder)
    (folder / "tasuki-worker").write_text(LINK.format(python=sys.executable, real=str(ws.build / "tasuki-worker")))
    (folder / "tasuki-worker").chmod(0o755)
    flow = write_flow(ws, "tasks: {t: {run: 'true'}}\n")
    result = ws.run([folder / "tasuki", "run", flow, "--json"], None, redis.env(), None, 60)
    eq(last_document(result.expect(7))["failures"][0]["task"], "t", "the task that was lost three times")
    told = [(e["type"], e["data"].get("why")) for e in ws.events() if e["type"] in ("task.started", "task.lost")]
    eq(told, [("task.started", None), ("task.lost", "version"), *[("task.started", None), ("task.lost", "lease")] * 3], "events")


@test("runner and worker whose programs store their data in different ways say so, once, and the run waits for another worker")
def _(ws):
    redis = Redis(ws)
    old, foreign = "tasuki:{pool default}:w:old.1.2", "RUN-20200101T000000-000000"
    redis.call("SET", old, "\t".join(["old.1.2", "old", "host", "", "4", "0", "up", "0.0.9", "", "", ""]), "EX", 600)
    redis.call("ZADD", "tasuki:{pool default}:w", 1, "old.1.2")
    info = redis.call("INFO", "server")
    server = next(line.split(":")[1] for line in info.splitlines() if line.startswith("run_id:"))
    redis.call("HSET", f"tasuki:{{{foreign}}}:meta", "server", f"1 {server}", "step", 1, "phase", "open")
    redis.call("EXPIRE", f"tasuki:{{{foreign}}}:meta", 600)
    redis.call("ZADD", "tasuki:{pool default}:live", int(time.time() * 1000), foreign)  # the link removes what is old
    runner = ws.spawn("run", write_flow(ws, "tasks: {t: {run: 'echo $TASUKI_WORKER >> trace'}}\n"), "--json", env=redis.env())
    ws.until(lambda: redis.call("ZCARD", "tasuki:{pool default}:live") == 2, "the run")
    new = redis.worker("-j", "1", "--name", "new")
    ws.until(lambda: f"run={foreign}" in new.log.read_text(), "the worker's word")
    result = ws.finish(runner).expect(0)
    eq(result.err.count("old.1.2 cannot execute the tasks of RUN-"), 1, f"how often the runner says so in {result.err}")
    eq([line.split("task= ")[1] for line in new.log.read_text().splitlines() if f"run={foreign}" in line],
       ["is a run of another version of tasuki, and is left to others"], "what the worker says")
    eq(trace(ws), ["new"], "where it ran")


main(__name__)
