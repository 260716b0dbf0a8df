"""Spec 6, "More than one machine": a run whose attempts are executed by workers, over a real redis-server."""

import json
import os
import pathlib
import shutil
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import Agent  # noqa: E402
from flows import last_document, only_run, run_ids, trace, write_flow  # noqa: E402
from harness.harness import children_of, eq, main, test  # noqa: E402
from harness.redis import Redis  # noqa: E402
from harness.redis_proxy import Proxy  # noqa: E402
from http_common import Server  # noqa: E402

LAST_STEP = b"$3\r\nend\r\n"  # of a run: the sweep of its keys
DIAMOND = """name: diamond
lease: 20s
flow: fetch >> (a | b) >> store
tasks:
  fetch: {run: 'echo out-of-fetch; echo k=1 >> "$TASUKI_OUTPUT"; echo fetch >> trace'}
  a: {run: 'tasuki channel set a 2; echo a >> trace'}
  b: {run: 'echo "b $TASUKI_WORKER" >> who; echo b >> trace'}
  store: {run: 'cat "$TASUKI_CHANNEL"; echo store >> trace'}
"""


def start(ws, redis, text, *args):
    return ws.spawn("run", write_flow(ws, text), "--json", *args, env=redis.env())


def run(ws, redis, text, *args, code=0, timeout=60):
    result = ws.tasuki("run", write_flow(ws, text), "--json", *args, env=redis.env(), timeout=timeout)
    return last_document(result.expect(code))


def resume(ws, redis, *args, code=0):
    return last_document(ws.tasuki("resume", only_run(ws), "--json", *args, env=redis.env()).expect(code))


@test("a diamond runs on a worker as it does here: joined, merged, with its logs, and nothing stays in Redis")
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "2", "--name", "one")
    stage = run(ws, redis, DIAMOND)
    eq(stage["status"], "DONE", "status")
    eq(stage["channel"], {"k": 1, "a": 2}, "values")
    got = trace(ws)
    eq((got[0], sorted(got[1:3]), got[3:]), ("fetch", ["a", "b"], ["store"]), "order")
    eq((ws.path / "who").read_text(), "b one\n", "TASUKI_WORKER")
    logs = ws.tasuki("runs", "logs", only_run(ws)).expect(0).out
    eq(("out-of-fetch" in logs, '{"k":1,"a":2}' in logs), (True, True), "logs")
    eq(redis.keys_without_ttl(), [], "keys without a TTL")


def said(process):
    """What a worker has written, without the times."""
    return [line.split(" ", 1)[1] for line in process.log.read_text().splitlines()]


@test("a worker says when it begins and ends, and of each task when it begins and whether it ended or was returned")
def _(ws):
    redis = Redis(ws)
    worker = redis.worker("--name", "one")
    first = run(ws, redis, "tasks: {t: {run: 'true'}}\n")["run_id"]
    runner = start(ws, redis, "tasks: {u: {run: 'echo $$ > up; exec sleep 1000'}}\n")
    ws.until_file("up")
    redis.end_worker(worker)
    runner.send_signal(signal.SIGINT)
    second = last_document(ws.finish(runner))["run_id"]
    of = "worker=one run={0} session={0} task={1} {2}".format
    eq(said(worker), ["worker=one run= session= task= started", of(first, "t", "started"), of(first, "t", "ended"),
                      of(second, "u", "started"), of(second, "u", "returned"), "worker=one run= session= task= ended"], "its words")


@test("a log in which nothing was printed serves the worker's next task; one with output is nobody else's")
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "1")
    tasks = "".join(f"  {t}: {{run: 'stat -L -c %.9W /proc/self/fd/2 >> logs.{t}{'; echo word-of-c' if t == 'c' else ''}'}}\n" for t in "abcd")
    eq(run(ws, redis, "flow: a >> b >> c >> d\ntasks:\n" + tasks)["status"], "DONE", "status")
    a, b, c, d = [(ws.path / f"logs.{t}").read_text() for t in "abcd"]
    eq((a == b, b == c, c == d), (True, True, False), "whether two tasks in turn had the same file")
    eq(ws.tasuki("runs", "logs", only_run(ws)).expect(0).out.count("word-of-c"), 1, "how often the output is in the logs")


@test("what a task has left running prints nothing into the log of a later task at its place")
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "1")
    run(ws, redis, "tasks: {t: {run: '(until test -e go; do sleep 0.05; done; echo secret; touch said) &'}}\n")
    run(ws, redis, "tasks: {t: {run: 'touch go; until test -e said; do sleep 0.05; done; echo mine'}}\n")
    eq([ws.tasuki("runs", "logs", one).expect(0).out.split("\n").count("secret") for one in run_ids(ws)], [0, 0], "how often it is in the logs")


@test("a worker that is killed: its task ends with it, and runs again on another one, at once", slow=True)
def _(ws):
    redis = Redis(ws)
    first = redis.worker("-j", "1", "--name", "one")
    runner = start(ws, redis, """lease: 1h
tasks:
  t: {run: 'echo $$ >> pids; echo "$TASUKI_WORKER" >> who; test "$TASUKI_WORKER" = two || sleep 1000'}
""")
    ws.until_file("who")
    pid = int((ws.path / "pids").read_text())
    redis.worker("-j", "1", "--name", "two")
    first.kill()
    first.wait()
    eq(last_document(ws.finish(runner).expect(0))["status"], "DONE", "status")
    eq((ws.path / "who").read_text(), "one\ntwo\n", "workers")
    ws.until(lambda: not ws.alive(pid), "the end of the first copy")
    eq([e["data"]["why"] for e in ws.events("task.lost")], ["back"], "why it was lost")
    show = ws.tasuki("runs", "show", only_run(ws)).expect(0).out
    eq([line.split()[-1] for line in show.splitlines()[-2:]], ["WORKER", "two"], f"the column of {show}")
    task = ws.tasuki("runs", "show", only_run(ws), "--json").expect(0).json["tasks"][0]
    eq((task["worker"], task["takeovers"]), ("two", 1), "worker and takeovers")


@test("a worker that is stopped: its guard ends the task before the lease is over, another worker takes it, the late one is refused",
      slow=True)
def _(ws):
    redis = Redis(ws)
    first = redis.worker("-j", "1", "--name", "one")
    runner = start(ws, redis, """lease: 3s
tasks:
  t: {run: 'echo $$ >> pids; echo "$TASUKI_WORKER" >> who; test "$TASUKI_WORKER" = two || sleep 1000'}
""")
    ws.until_file("who")
    pid = int((ws.path / "pids").read_text())
    first.send_signal(signal.SIGSTOP)
    redis.worker("-j", "1", "--name", "two")
    ws.until(lambda: not ws.alive(pid) or zombie(pid), "the end of the first copy")
    eq((ws.path / "who").read_text(), "one\n", "workers when the first copy has ended")
    eq(last_document(ws.finish(runner).expect(0))["status"], "DONE", "status")
    first.send_signal(signal.SIGCONT)
    eq((ws.path / "who").read_text(), "one\ntwo\n", "workers")
    eq([e["data"]["why"] for e in ws.events("task.lost")], ["lease"], "why it was lost")


def zombie(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


@test("on_interrupt: fail holds for a task that is lost with its worker", slow=True)
def _(ws):
    redis = Redis(ws)
    first = redis.worker("-j", "1", "--name", "one")
    runner = start(ws, redis, "lease: 30s\ntasks: {t: {run: 'echo up > up; sleep 1000', on_interrupt: fail}}\n")
    ws.until_file("up")
    first.kill()
    first.wait()
    stage = last_document(ws.finish(runner).expect(7))
    eq([f["task"] for f in stage["failures"]], ["t"], "failures")


@test("a task that is lost three times is failed, visibly", slow=True)
def _(ws):
    redis = Redis(ws)
    runner = start(ws, redis, "lease: 30s\ntasks: {t: {run: 'echo x >> trace; sleep 1000'}}\n")
    for number in range(1, 4):
        one = redis.worker("-j", "1")
        ws.until(lambda: len(trace(ws)) == number, f"start {number}")
        one.kill()
        one.wait()
    stage = last_document(ws.finish(runner).expect(7))
    eq("3 times" in stage["failures"][0]["reason"], True, f"the reason, {stage['failures'][0]['reason']!r}")


@test("Ctrl-C reaches the task on the worker, and the run is CANCELLED")
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "1")
    runner = start(ws, redis, "tasks: {t: {run: 'echo $$ > pid.tmp; mv pid.tmp pid; exec sleep 1000'}, u: {run: 'exec sleep 1000'}}\n", "-j", "2")
    pid = int(ws.until_file("pid"))
    runner.send_signal(signal.SIGINT)
    eq(last_document(ws.finish(runner).expect(7))["status"], "CANCELLED", "status")
    eq(ws.alive(pid) and not zombie(pid), False, "whether the task lives")
    eq(redis.keys_without_ttl(), [], "keys without a TTL")


@test("Ctrl-C while Redis is away: the first waits for the task's end, the second leaves the run, which can be cancelled when it is back", slow=True)
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "1")
    runner = ws.spawn("run", write_flow(ws, "lease: 2s\ntasks: {t: {run: 'echo $$ > up; sleep 600'}}\n"), env=redis.env())
    pid = int(ws.until_file("up"))
    redis.kill()
    ws.until(lambda: not ws.alive(pid), "the end of the lease")
    runner.send_signal(signal.SIGINT)
    ws.until(lambda: ws.events("run.cancelling"), "the first")
    runner.send_signal(signal.SIGINT)
    left = ws.finish(runner)
    eq((left.code, "may still run on workers" in left.err, f"tasuki runs cancel {only_run(ws)}" in left.err), (4, True, True), f"{left}")
    eq(ws.tasuki("runs", "show", only_run(ws), "--json").json["status"], "INTERRUPTED", "status")
    redis.start()
    ws.tasuki("runs", "cancel", only_run(ws), env=redis.env(), timeout=120).expect(0)


@test("a Redis that is emptied in the middle of a run: nothing is lost, and nothing that ended runs again", slow=True)
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "2")
    runner = start(ws, redis, """lease: 2s
flow: a >> b >> c
tasks:
  a: {run: 'echo a >> trace'}
  b: {run: 'echo b >> trace; until test -e go; do sleep 0.05; done'}
  c: {run: 'echo c >> trace'}
""")
    ws.until(lambda: "b" in trace(ws), "b")
    redis.call("FLUSHALL")
    (ws.path / "go").touch()
    eq(last_document(ws.finish(runner).expect(0))["status"], "DONE", "status")
    got = trace(ws)
    eq((got.count("a"), got.count("c"), got[-1]), (1, 1, "c"), f"what ran ({got})")
    eq(redis.keys_without_ttl(), [], "keys without a TTL")


@test("a Redis that is killed and starts empty: the run goes on", slow=True)
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "2")
    runner = start(ws, redis, """lease: 2s
flow: a >> b >> c
tasks:
  a: {run: 'echo a >> trace'}
  b: {run: 'echo b >> trace; until test -e go; do sleep 0.05; done'}
  c: {run: 'echo c >> trace'}
""")
    ws.until(lambda: "b" in trace(ws), "b")
    redis.kill()
    redis.start()
    (ws.path / "go").touch()
    eq(last_document(ws.finish(runner).expect(0))["status"], "DONE", "status")
    got = trace(ws)
    eq((got.count("a"), got.count("c"), got[-1]), (1, 1, "c"), f"what ran ({got})")


@test("a link that is killed: another one takes its place, and the run goes on", slow=True)
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "2")
    runner = start(ws, redis, """lease: 2s
flow: a >> b
tasks:
  a: {run: 'echo a >> trace; until test -e go; do sleep 0.05; done'}
  b: {run: 'echo b >> trace'}
""")
    ws.until(lambda: "a" in trace(ws), "a")
    link = children_of(runner.pid)
    eq(len(link), 1, "children of the runner")
    os.kill(link[0], signal.SIGKILL)
    (ws.path / "go").touch()
    eq(last_document(ws.finish(runner).expect(0))["status"], "DONE", "status")
    eq(trace(ws).count("b"), 1, "how often b ran")


@test("a runner that is killed: resume ends what still runs, and goes on; what had ended does not run again", slow=True)
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "2")
    runner = start(ws, redis, """lease: 20s
flow: a >> b >> c
tasks:
  a: {run: 'echo a >> trace'}
  b: {run: 'echo $$ >> pids; echo b >> trace; until test -e go; do sleep 0.05; done'}
  c: {run: 'echo c >> trace'}
""")
    ws.until(lambda: "b" in trace(ws), "b")
    pid = int((ws.path / "pids").read_text())
    runner.kill()
    runner.wait()
    again = ws.spawn("resume", only_run(ws), "--json", env=redis.env())
    ws.until(lambda: trace(ws).count("b") == 2, "the second b")
    eq(ws.alive(pid) and not zombie(pid), False, "whether the first copy lives")
    (ws.path / "go").touch()
    eq(last_document(ws.finish(again).expect(0))["status"], "DONE", "status")
    eq(trace(ws), ["a", "b", "b", "c"], "what ran")


@test("a runner that is killed: what goes on reads the values of then, not what a worker has kept of an earlier version", slow=True)
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "1")
    runner = start(ws, redis, """lease: 20s
flow: a >> b >> c
tasks:
  a: {run: 'echo x=1 >> $TASUKI_OUTPUT'}
  b: {run: 'cat $TASUKI_CHANNEL; echo x=2 >> $TASUKI_OUTPUT'}
  c: {run: 'echo $(cat $TASUKI_CHANNEL) >> trace; until test -e go; do sleep 0.05; done'}
""")
    ws.until(lambda: trace(ws), "c")
    runner.kill()
    runner.wait()
    (ws.path / "go").touch()
    eq(last_document(ws.tasuki("resume", only_run(ws), "--json", env=redis.env()).expect(0))["status"], "DONE", "status")
    eq([json.loads(line) for line in (ws.path / "trace").read_text().splitlines()], [{"x": 2}] * 2, "what c has read")


@test("a link that is killed at the end of a run, before it has removed the run's keys: another one removes them")
def _(ws):
    redis = Redis(ws)
    proxy = Proxy(ws, redis.port)
    redis.worker("-j", "1")
    proxy.refuse = (LAST_STEP, 1000000)
    runner = ws.spawn("run", write_flow(ws, "tasks: {t: {run: 'true'}}\n"), "--json", env=redis.env({"TASUKI_REDIS": proxy.url}))
    ws.until(lambda: proxy.lost, "the last step")
    (link,) = [pid for pid in children_of(runner.pid) if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "tasuki-worker"]
    os.kill(link, signal.SIGKILL)
    proxy.refuse = (None, 0)
    eq(last_document(ws.finish(runner).expect(0))["status"], "DONE", "status")
    key = f"tasuki:{{{only_run(ws)}}}:"
    eq(redis.call("KEYS", key + "*"), [key + "meta"], "keys of the run")
    eq(redis.call("HGETALL", key + "meta"), ["ended", "1"], "what is left of it")


@test("links that are killed at the end of a run, one after the other: two more are started, and the run ends")
def _(ws):
    redis = Redis(ws)
    proxy = Proxy(ws, redis.port)
    redis.worker("-j", "1")
    folder = ws.path.parent / "programs"
    folder.mkdir()
    shutil.copy(ws.build / "tasuki", folder)
    program = folder / "tasuki-worker"
    program.write_text(f"""#!/bin/sh
test "$1" != link || echo >> {folder}/links
test "$1" != link || ! test -e {folder}/kill || kill -9 $$
exec {ws.build}/tasuki-worker "$@"
""")
    program.chmod(0o755)
    proxy.refuse = (LAST_STEP, 1000000)
    runner = ws.spawn_command([folder / "tasuki", "run", write_flow(ws, "tasks: {t: {run: 'true'}}\n"), "--json"],
                              env=redis.env({"TASUKI_REDIS": proxy.url}))
    ws.until(lambda: proxy.lost, "the last step")
    (folder / "kill").touch()
    (link,) = [pid for pid in children_of(runner.pid) if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "tasuki-worker"]
    os.kill(link, signal.SIGKILL)
    eq(last_document(ws.finish(runner).expect(0))["status"], "DONE", "status")
    eq((folder / "links").read_text(), "\n\n\n", "links")


@test("a question of a task on a worker is answered as one here")
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "1")
    stage = run(ws, redis, "tasks: {t: {run: 'tasuki task ask \"Go on?\" --type text > got; cat got'}}\n", code=8)
    eq(stage["status"], "NEEDS_INPUT", "status")
    ws.tasuki("answer", only_run(ws), "yes", env=redis.env()).expect(0)
    ws.until(lambda: (ws.path / "got").read_text().strip() == "yes", "the answer")
    ws.until(lambda: "DONE" in ws.tasuki("runs", "show", only_run(ws)).out, "the end of the run")


@test("a run that failed goes on with resume, on a worker that knows it from before")
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "1")
    eq(run(ws, redis, "flow: a >> b\ntasks: {a: {run: 'echo a >> trace'}, b: {run: 'test -e fixed'}}\n", code=7)["status"], "FAILED", "status")
    (ws.path / "fixed").touch()
    eq(resume(ws, redis)["status"], "DONE", "status after the repair")
    eq(trace(ws), ["a"], "what ran")


@test("a timeout ends the task on the worker; retries and exit codes are as here")
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "2")
    stage = run(ws, redis, """tasks:
  slow: {run: 'sleep 1000', timeout: 300ms}
  fails: {run: 'echo x >> trace; exit 3', retries: 1, backoff: {initial: 1ms}}
  absent: {run: [no-such-program]}
""", code=7)
    found = {f["task"]: (f["exit_code"], f["reason_code"]) for f in stage["failures"]}
    eq(found["fails"], (3, "TASK_FAILED"), "fails")
    eq(found["absent"], (127, "TASK_FAILED"), "absent")
    eq(found["slow"][1], "TASK_TIMEOUT", "slow")
    eq(trace(ws), ["x", "x"], "tries")


@test("a task with tags runs on a worker that has them")
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "2", "--name", "plain")
    redis.worker("-j", "1", "--name", "gpu", "--tags", "big,gpu")
    run(ws, redis, "tasks: {t: {run: 'echo $TASUKI_WORKER > who', on: [gpu, big]}, u: {run: 'true'}}\n")
    eq((ws.path / "who").read_text(), "gpu\n", "worker")


@test("a hint for a task with tags stays for a worker that has them, however many others wait")
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "1", "--name", "plain")
    hints = "tasuki:{pool default}:tag:gpu"
    runner = ws.spawn("run", write_flow(ws, "tasks: {t: {run: 'echo $TASUKI_WORKER > who', on: [gpu]}}\n"), env=redis.env())
    ws.until(lambda: redis.call("LLEN", hints), "the hint")
    redis.worker("-j", "1", "--name", "gpu", "--tags", "gpu,new")
    ws.finish(runner).expect(0)
    eq((ws.path / "who").read_text(), "gpu\n", "worker")
    ws.until(lambda: redis.call("LLEN", hints) == 0, "the worker, which waits at the list of its tag")


@test("workers are listed, drained and stopped; a run without a worker says so once, with the command that starts one", slow=True)
def _(ws):
    redis = Redis(ws)
    one = redis.worker("-j", "3", "--name", "one", "--tags", "gpu")
    found = ws.tasuki("workers", "list", "--json", "--redis", redis.url).expect(0).json["workers"]
    eq([(w["name"], w["places"], w["tasks"], w["state"]) for w in found], [("one", 3, 0, "up")], "workers")
    table = [line.split() for line in ws.tasuki("workers", "list", "--redis", redis.url).expect(0).out.splitlines()]
    eq(table[0], ["NAME", "HOST", "TAGS", "PLACES", "TASKS", "SEEN", "VERSION", "COMMIT"], "head of the table")
    eq((table[1][0], table[1][2:5]), ("one", ["gpu", "3", "0"]), "its line")
    two = redis.worker("-j", "1", "--name", "three")
    page = ws.tasuki("workers", "list", "--json", "--limit", "1", "--redis", redis.url).expect(0).json
    rest = ws.tasuki("workers", "list", "--json", "--cursor", page["cursor"], "--redis", redis.url).expect(0).json
    eq([w["name"] for w in page["workers"] + rest["workers"]], ["one", "three"], "workers in pages")
    redis.end_worker(two)
    ws.tasuki("workers", "drain", "two", "--redis", redis.url).expect(5)
    ws.tasuki("workers", "drain", "one", "--redis", redis.url).expect(0)
    one.wait(60)
    eq(ws.tasuki("workers", "list", "--json", "--redis", redis.url).expect(0).json["workers"], [], "workers after the drain")
    said = ws.base / "said"
    with open(said, "wb") as file:
        runner = ws.spawn("run", write_flow(ws, "tasks: {t: {run: 'echo t >> trace'}}\n"), "--redis", redis.url, "--json", stderr=file)
    ws.until(lambda: "no worker is available" in said.read_text(), "it says so")
    redis.worker("-j", "1")
    ws.finish(runner).expect(0)
    eq(said.read_text().count("no worker is available"), 1, "how often it says so")
    eq(f"tasuki worker --redis {redis.url}" in said.read_text(), True, f"the command, in {said.read_text()}")


@test("an agent lists, drains and stops workers, and reads the verdict of a refusal")
def _(ws):
    redis = Redis(ws)
    first = Agent(ws, "--tools", "workers")
    eq(first.ok("worker_list"), {"workers": [], "total": 0, "cursor": None, "server": None}, "without a server")
    text, error = first.refused("worker_stop", worker="one")
    eq(error["reason_code"], "INVALID_INPUT", "no server to ask")
    assert "--redis" not in text and "config.yaml" in text, text
    first.close()
    (ws.path / ".aiflow/config.yaml").write_text(f"redis: {{url: '{redis.url}'}}\n")
    agent = Agent(ws, "--tools", "workers")
    one, two = redis.worker("-j", "3", "--name", "one"), redis.worker("-j", "1", "--name", "two")
    eq(sorted((w["name"], w["places"]) for w in agent.ok("worker_list")["workers"]), [("one", 3), ("two", 1)], "workers")
    eq(agent.refused("worker_drain", worker="three")[0][:13], "NOT DRAINED: ", "no such worker")
    eq(agent.ok("worker_drain", worker="one")["order"], "drain")
    eq(agent.ok("worker_stop", worker="two")["order"], "end")
    one.wait(60)
    two.wait(60)
    eq(agent.ok("worker_list")["workers"], [], "afterwards")


@test("a caller over HTTP names no URL: its run goes to the workers of the configured server, which /metrics has by name")
def _(ws):
    redis = Redis(ws)
    (ws.path / ".aiflow/config.yaml").write_text(f"redis: {{url: '{redis.url}'}}\n")
    redis.worker("-j", "3", "--name", "one")
    ws.tasuki("request", "add", "t", "--id", "RQ-1", "--", "sh", "-c", "echo $TASUKI_WORKER >> trace").expect(0)
    server = Server(ws, env={"PATH": redis.env()["PATH"]})
    run_id = server.post("/api/requests/RQ-1/run", {}).expect(202).json["run_id"]
    ws.until(lambda: server.get(f"/api/runs/{run_id}").json["status"] == "DONE", "the end")
    eq(trace(ws), ["one"], "where it ran")
    lines = server.get("/metrics").body.decode().splitlines()
    for line in ('tasuki_worker_places{worker="one"} 3', 'tasuki_worker_tasks{worker="one"} 0'):
        eq(line in lines, True, f"{line} in {lines}")
    server.stop()


@test("a stopped worker returns its task, which another one executes", slow=True)
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "1", "--name", "one")
    runner = start(ws, redis, "tasks: {t: {run: 'echo \"$TASUKI_WORKER\" >> who; test \"$TASUKI_WORKER\" = two || exec sleep 1000'}}\n")
    ws.until_file("who")
    redis.worker("-j", "1", "--name", "two")
    ws.tasuki("workers", "stop", "one", "--redis", redis.url).expect(0)
    ws.finish(runner).expect(0)
    eq((ws.path / "who").read_text(), "one\ntwo\n", "workers")


@test("a server that cannot be reached, a Sentinel, and what is no URL are refused before anything starts")
def _(ws):
    Redis(ws)
    for url, code, reason in (("redis://127.0.0.1:1", 3, "REDIS_UNAVAILABLE"), ("redis+sentinel://127.0.0.1:26379/main", 2, "INVALID_INPUT"),
                              ("http://127.0.0.1", 2, "INVALID_INPUT")):
        for words in (("run", write_flow(ws, DIAMOND)), ("workers", "list"), ("worker",)):
            ws.tasuki(*words, "--json", env={"TASUKI_REDIS": url}).expect(code, reason)
    eq((ws.path / "trace").exists(), False, "whether anything ran")


@test("a server without functions has the steps as a script")
def _(ws):
    redis = Redis(ws, "--rename-command", "FUNCTION", "", "--rename-command", "FCALL", "")
    redis.worker("-j", "2", "--name", "one")
    stage = run(ws, redis, DIAMOND)
    eq((stage["status"], stage["channel"]), ("DONE", {"k": 1, "a": 2}), "status and values")
    eq(redis.keys_without_ttl(), [], "keys without a TTL")


main(__name__)
