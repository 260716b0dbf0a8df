"""Spec 6, "More than one machine": a network that loses answers, cuts connections, or swallows everything. A proxy stands between worker
and server; nothing else is wrong."""

import signal

from flows import last_document, trace, write_flow
from harness.harness import eq, main, test
from harness.redis import Redis
from harness.redis_proxy import Proxy


TASKS = 40
WIDE = "lease: 20s\ntasks:\n" + "".join(f"  t{i}: {{run: 'echo t{i} >> trace'}}\n" for i in range(TASKS))


@test("every 7th answer is lost, and nothing else is wrong: each task runs once, no lease is taken back", slow=True, quick=False)
def _(ws):
    redis = Redis(ws)
    proxy = Proxy(ws, redis.port, lose=7)
    for name in ("one", "two"):
        redis.worker("-j", "2", "--name", name, env={"TASUKI_REDIS": proxy.url})
    stage = last_document(ws.tasuki("run", write_flow(ws, WIDE), "--json", env=redis.env(), timeout=200).expect(0))
    eq(stage["counts"]["ok"], TASKS, "tasks that ended well")
    eq(sorted(trace(ws)), sorted(f"t{i}" for i in range(TASKS)), "what ran")
    eq(ws.events("task.lost"), [], "takeovers")
    eq(proxy.lost > 5, True, f"whether answers were lost ({proxy.lost} of {proxy.answers})")


@test("every 9th answer to the runner is lost: each task runs once, and the run ends", slow=True, quick=False)
def _(ws):
    redis = Redis(ws)
    proxy = Proxy(ws, redis.port, lose=9)
    redis.worker("-j", "4")
    stage = last_document(ws.tasuki("run", write_flow(ws, WIDE), "--json", "-j", "4", env=redis.env({"TASUKI_REDIS": proxy.url}),
                                    timeout=200).expect(0))
    eq(stage["counts"]["ok"], TASKS, "tasks that ended well")
    eq(sorted(trace(ws)), sorted(f"t{i}" for i in range(TASKS)), "what ran")
    eq(ws.events("task.lost"), [], "takeovers")
    eq(proxy.lost > 3, True, f"whether answers were lost ({proxy.lost} of {proxy.answers})")


for _what, _options in (("every 7th answer ends in the middle", {"cut": 7}), ("every piece comes 20 ms later", {"delay_s": 0.02})):
    for _whose in ("the workers", "the runner"):
        @test(f"{_what}, for {_whose}: each task runs once, no lease is taken back", slow=True, quick=False,
              long=("cut" in _options) == (_whose == "the runner"))
        def _(ws, options=_options, is_runners=_whose == "the runner"):
            redis = Redis(ws)
            proxy = Proxy(ws, redis.port, **options)
            through = {"TASUKI_REDIS": proxy.url}
            for name in ("one", "two"):
                redis.worker("-j", "2", "--name", name, env={} if is_runners else through)
            stage = last_document(ws.tasuki("run", write_flow(ws, WIDE), "--json", env=redis.env(through if is_runners else {}),
                                            timeout=200).expect(0))
            eq((stage["counts"]["ok"], ws.events("task.lost")), (TASKS, []), "tasks that ended well, and takeovers")
            eq(sorted(trace(ws)), sorted(f"t{i}" for i in range(TASKS)), "what ran")
            eq(proxy.lost > 3 if "cut" in options else proxy.answers > 10, True, f"whether the proxy was used ({proxy.lost} of {proxy.answers})")


@test("the answer to a takeover is lost: the task is taken over all the same", slow=True, quick=False)
def _(ws):
    redis = Redis(ws)
    proxy = Proxy(ws, redis.port)
    one = redis.worker("-j", "1", "--name", "one")
    flow = write_flow(ws, "lease: 2s\ntasks:\n  t: {run: 'echo $TASUKI_WORKER >> trace; test $TASUKI_WORKER = two || sleep 600'}\n")
    runner = ws.spawn("run", flow, "--json", env=redis.env({"TASUKI_REDIS": proxy.url}))
    ws.until_file("trace")
    proxy.lose_one = b"\nreclaim\r"
    one.send_signal(signal.SIGSTOP)
    redis.worker("-j", "1", "--name", "two")
    eq(last_document(ws.finish(runner).expect(0))["status"], "DONE", "status")
    eq(proxy.lost, 1, "answers that were lost")
    eq([e["data"]["why"] for e in ws.events("task.lost")], ["lease"], "why it was lost")
    eq(trace(ws), ["one", "two"], "what ran")


main(__name__)
