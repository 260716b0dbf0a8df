"""The steps of an attempt on the server (src/redis/steps.lua), called one by one: repeated, late, out of order, on a server that forgot."""

from harness.harness import eq, main, test
from harness.redis import Redis
from harness.sources import ROOT

META = "t:{RUN-1}:meta"


class Steps:
    """The library on a server of the test's own. `server` is the id that callers name."""

    def __init__(self, ws):
        self.redis, self.server, self.seen = Redis(ws), "S1", 0
        self.load()

    @classmethod
    def of(cls, redis):
        steps = cls.__new__(cls)
        steps.redis, steps.server, steps.seen = redis, "S1", 0
        steps.load()
        return steps

    def load(self):
        text = (ROOT / "src/redis/steps.lua").read_text()
        self.redis.call("FUNCTION", "LOAD", "REPLACE", f"#!lua name=steps\n{text}redis.register_function('steps', main)\n")

    def call(self, step, *words):
        return self.redis.call("FCALL", "steps", 1, META, step, self.server, *words)

    def begin(self, owner="r", epoch=1, lease=1000):
        return self.redis.call("FCALL", "steps", 1, META, "begin", self.server, epoch, lease, owner)

    def open(self):
        eq(self.begin()[0], "OK", "begin")
        return self.call("open", 0, "r")

    def push(self, *ids, session="s", tags="", spec="spec", how=""):
        words = [word for id in ids for word in (id, session, tags, spec)]
        return self.call("advance", 0, "r", how, "", 0, len(ids), *words)

    def next(self, number, max=1, worker="w", tags="", ends=(), bytes=1000000):
        words = [word for end in ends for word in end]
        return self.call("next", 0, worker, number, worker, tags, max, bytes, len(ends), *words)

    def claims(self, answer):
        return [tuple(answer[i:i + 2]) for i in range(5, len(answer), 4)]

    def results(self, kind):
        """What the results say about claims ("c") or ends ("e"): (id, fence or result)."""
        entries = [f for _, f in self.redis.call("XRANGE", "t:{RUN-1}:results", "-", "+") if f[1] == "work"]
        return [(f[i + 1], f[i + 3]) for f in entries for i in range(6, len(f), 4) if f[i] == kind]


@test("a claim that is repeated with its number has the same answer, and renews; the next number claims more")
def _(ws):
    steps = Steps(ws)
    steps.open()
    steps.push("1", "2")
    first = steps.next(1)
    tick = steps.redis.call("ZSCORE", "t:{RUN-1}:lease", "1")
    eq(steps.claims(steps.next(1)), steps.claims(first), "the repeated answer")
    eq(steps.redis.call("ZSCORE", "t:{RUN-1}:lease", "1") != tick, True, "whether its lease was renewed")
    eq([id for id, _ in steps.claims(steps.next(2))], ["2"], "the next claim")
    eq(len(steps.results("c")), 2, "claims in the results")


@test("a repeated claim leaves out what was taken back meanwhile")
def _(ws):
    steps = Steps(ws)
    steps.open()
    steps.push("1")
    steps.next(1)
    tick = steps.redis.call("ZSCORE", "t:{RUN-1}:lease", "1")
    eq(steps.call("reclaim", 0, "r", 1, "1", tick)[2], "y", "reclaim")
    eq(steps.claims(steps.next(1)), [], "the repeated answer")


@test("a push that is repeated queues nothing twice, whatever became of the first one")
def _(ws):
    steps = Steps(ws)
    steps.open()
    for how in ("", "a"):
        steps.push("1", how=how)
    (claim,) = steps.claims(steps.next(1, max=5))
    steps.push("1", how="a")
    eq(steps.claims(steps.next(2, max=5)), [], "claims after the second push")
    eq(steps.next(3, 0, ends=[(*claim, "x")])[3], "y", "its end")
    steps.push("1", how="a")
    eq(steps.claims(steps.next(4, max=5)), [], "claims after the third push")


@test("an end counts once, with its fence and its worker only; one that is late is refused")
def _(ws):
    steps = Steps(ws)
    steps.open()
    steps.push("1")
    fence = steps.claims(steps.next(1))[0][1]
    eq(fence, str(2 ** 32 + 1), "the fence: epoch × 2^32 + counter")
    eq(steps.next(1, 0, "other", ends=[("1", fence, "x")])[3], "a", "another worker")
    eq(steps.next(1, 0, ends=[("1", "7", "x")])[3], "a", "another fence")
    eq([steps.next(1, 0, ends=[("1", fence, "x")])[3] for _ in range(2)], ["y", "a"], "its own, twice")
    eq(len(steps.results("e")), 1, "ends")


@test("a lease is taken back only if nobody has renewed it since; then neither renewal nor end counts")
def _(ws):
    steps = Steps(ws)
    steps.open()
    steps.push("1")
    fence = steps.claims(steps.next(1))[0][1]
    old = steps.redis.call("ZSCORE", "t:{RUN-1}:lease", "1")
    eq(steps.call("renew", 0, "w", 1, "1", fence, 0)[2], "k", "renew")
    eq(steps.call("reclaim", 0, "r", 1, "1", old)[2], "n", "reclaim by the old tick")
    new = steps.redis.call("ZSCORE", "t:{RUN-1}:lease", "1")
    eq(steps.call("reclaim", 0, "r", 1, "1", new)[2], "y", "reclaim by the new tick")
    eq(steps.call("renew", 0, "w", 1, "1", fence, 0)[2], "l", "renew after it")
    eq(steps.next(1, 0, ends=[("1", fence, "x")])[3], "a", "end after it")


@test("the lease of what has ended is nobody's: it is neither taken back nor revoked, and hides no attempt that still runs")
def _(ws):
    steps = Steps(ws)
    steps.open()
    ids = [str(number) for number in range(600)]
    steps.push(*ids)
    claims = steps.claims(steps.next(1, max=600))
    eq(steps.next(2, 0, ends=[(*claim, "x") for claim in claims[:599]])[3], "y" * 599, "ends")
    tick = steps.redis.call("ZSCORE", "t:{RUN-1}:lease", "0")
    eq(steps.call("reclaim", 0, "r", 1, "0", tick)[2], "n", "reclaim of what has ended")
    eq(steps.begin("other", 2)[0], "OK", "another runner")
    pages = [steps.call("holders", 0, "other")[2:] for _ in range(3)]
    eq([page[:2] for page in pages], [["1"], ["1"], ["0", "599"]], "pages: whether there may be more leases, and who is revoked")


@test("the runner learns that the server has dropped one of a run's keys, also if it was made anew since")
def _(ws):
    def lost(name, *again):
        steps = Steps.of(redis)
        steps.open()
        steps.push("1", "2")
        eq(steps.call("leases", 0, "r", "1", "s", "")[0], "OK", f"before {name}")
        redis.call("DEL", f"t:{{RUN-1}}:{name}")
        for one in again:
            one(steps)
        eq(steps.call("leases", 0, "r", "1", "s", ""), ["GONE"], name)
        redis.call("FLUSHALL")

    redis = Redis(ws)
    claim = lambda steps: steps.next(1)
    for name in ("queue:s", "specs:s", "queues", "state", "lease", "results"):
        lost(name)
    for name in ("specs:s", "state", "lease", "results"):
        lost(name, claim)
    lost("queue:s", lambda steps: steps.push("3"))


@test("results that the server has dropped are not made anew while the run is open")
def _(ws):
    steps = Steps(ws)
    steps.open()
    steps.push("1")
    fence = steps.claims(steps.next(1))[0][1]
    steps.redis.call("DEL", "t:{RUN-1}:results")
    eq(steps.call("log", 0, "w", "1", fence, 0, "text", "")[2], "y", "a log")
    eq(steps.next(2, 0, ends=[("1", fence, "x")])[3], "y", "an end")
    eq(steps.redis.call("EXISTS", "t:{RUN-1}:results"), 0, "results")


@test("results that are long take no more of a log, but the rest of it, which goes before an end")
def _(ws):
    steps = Steps(ws)
    steps.open()
    steps.push("1")
    fence = steps.claims(steps.next(1))[0][1]
    steps.redis.call("EVAL", "for i = 1, 3000 do redis.call('XADD', KEYS[1], '*', 't', 'log') end", 1, "t:{RUN-1}:results")
    eq(steps.call("log", 0, "w", "1", fence, 0, "text", "")[2], "f", "a part")
    eq(steps.call("log", 0, "w", "1", fence, 0, "text", "1")[2], "y", "the rest")


@test("a call that lets the keys of a run live on does so for its queues, specifications and values, too")
def _(ws):
    steps = Steps(ws)
    steps.open()
    steps.push("1")
    steps.call("channel", 0, "r", "s", 1, "{}", 0)
    names = ["queue:s", "specs:s", "channel:s", "state", "results", "lease", "meta"]
    for name in names:
        steps.redis.call("EXPIRE", f"t:{{RUN-1}}:{name}", 100)
    eq(steps.call("advance", 0, "r", "l", "", 0, 0)[0], "OK", "advance")
    eq([name for name in names if steps.redis.call("TTL", f"t:{{RUN-1}}:{name}") <= 100], [], "what does not live on")


@test("what is revoked has a mark, so that a list that was dropped is not taken for one that is done")
def _(ws):
    steps = Steps(ws)
    steps.open()
    steps.push("1")
    steps.next(1)
    eq(steps.begin("other", 2)[0], "OK", "another runner")
    eq(steps.call("holders", 0, "other")[3], "1", "who is revoked")
    eq(steps.redis.call("HKEYS", "t:{RUN-1}:revoked"), ["1", ""], "the list")


@test("on another server, an emptied one, and one that is behind nobody claims, renews or ends anything")
def _(ws):
    steps = Steps(ws)
    steps.open()
    steps.push("1")
    fence = steps.claims(steps.next(1))[0][1]
    ways = {"renew": lambda seen: steps.call("renew", seen, "w", 1, "1", fence, 0),
            "next": lambda seen: steps.call("next", seen, "w", 2, "w", "", 1, 1000, 1, "1", fence, "x"),
            "advance": lambda seen: steps.call("advance", seen, "r", "", "", 0, 1, "2", "s", "", "spec")}
    for name, way in ways.items():
        eq(way(2 ** 34), ["BEHIND"], name)
        steps.server = "S2"
        eq(way(0), ["SERVER"], name)
        steps.server = "S1"
    eq(steps.call("advance", 0, "other", "", "", 0, 0), ["OWNER"], "another runner")
    steps.redis.call("FLUSHALL")
    for name, way in ways.items():
        eq(way(0), ["GONE"], name)


@test("while the runner compares, nobody claims or renews, and a result of any earlier fence is taken once")
def _(ws):
    steps = Steps(ws)
    steps.open()
    steps.push("1")
    fence = steps.claims(steps.next(1))[0][1]
    steps.redis.call("DEL", META, "t:{RUN-1}:state", "t:{RUN-1}:lease", "t:{RUN-1}:results")
    eq(steps.begin("r2", 2)[1], "2", "the epoch")
    eq(steps.call("advance", 0, "r2", "", "", 0, 1, "1", "s", "", "spec")[0], "OK", "what is put back")
    eq(steps.call("renew", 0, "w", 1, "1", fence, 0)[2], "w", "renew")
    eq(steps.claims(steps.next(9)), [], "claims")
    eq([steps.next(1, 0, ends=[("1", fence, "x")])[3] for _ in range(2)], ["y", "a"], "the result, twice")


@test("a result that comes before the runner has said what is out is kept by its worker, and taken then")
def _(ws):
    steps = Steps(ws)
    steps.open()
    steps.push("1")
    fence = steps.claims(steps.next(1))[0][1]
    steps.redis.call("DEL", META, "t:{RUN-1}:state", "t:{RUN-1}:lease", "t:{RUN-1}:results")
    steps.begin("r2", 2)
    eq(steps.next(2, 0, ends=[("1", fence, "x")])[3], "d", "its end, too early")
    eq(steps.call("renew", 0, "w", 0, 1, "1", fence)[2], "d", "what is kept")
    steps.call("advance", 0, "r2", "", "", 0, 1, "1", "s", "", "spec")
    eq(steps.call("renew", 0, "w", 0, 1, "1", fence)[2], "w", "what is kept, when it is wanted")
    eq(steps.next(2, 0, ends=[("1", fence, "x")])[3], "y", "its end")


@test("who begins while another one had still to wait, on a server that forgot, waits a lease as well: nothing says what is out")
def _(ws):
    steps = Steps(ws)
    steps.open()
    steps.push("1")
    steps.next(1)
    eq(steps.begin("r2", 2)[3], "SAME", "after a run that was open here")
    eq(steps.begin("r3", 3)[3], "OTHER", "after one that had not ended its wait")
    steps.server = "S2"
    eq(steps.begin("r4", 4)[3], "OTHER", "on another server")
    eq(steps.begin("r5", 5)[3], "OTHER", "there, before that was open")
    eq(steps.call("open", 0, "r5")[0], "OK", "open")
    eq(steps.begin("r6", 6)[3], "SAME", "there, when it was open")


@test("what is put back while the runner compares is queued once when the run is open; what ended meanwhile is not")
def _(ws):
    steps = Steps(ws)
    steps.open()
    steps.push("1", "2")
    (claim,) = steps.claims(steps.next(1))
    steps.redis.call("DEL", META, "t:{RUN-1}:state", "t:{RUN-1}:lease", "t:{RUN-1}:results", "t:{RUN-1}:queue:s", "t:{RUN-1}:specs:s", "t:{RUN-1}:queues")
    steps.begin("r", 2)
    steps.push("1", "2")
    eq(steps.redis.keys_without_ttl(), [], "keys without a TTL")
    eq(steps.next(2, 0, ends=[(*claim, "x")])[3], "y", "an end")
    steps.call("open", 0, "r")
    for _ in range(2):
        steps.push("1", "2", "3", how="a")
    eq([id for id, _ in steps.claims(steps.next(3, max=9))], ["2", "3"], "claims")
    eq(steps.redis.keys_without_ttl(), [], "keys without a TTL")


@test("a program with another layout of the data leaves a run alone")
def _(ws):
    steps = Steps(ws)
    steps.open()
    steps.redis.call("HSET", META, "server", "1 S1")
    eq(steps.next(1), ["LAYOUT"], "a claim")
    eq(steps.begin("r2", 2)[3], "OTHER", "what the run was")


@test("a claim is bounded in items and in bytes, takes turns between sessions, and asks for tags")
def _(ws):
    steps = Steps(ws)
    steps.open()
    steps.push("1", "2", "3", spec="x" * 1000)
    steps.push("4", session="s_b")
    steps.push("5", session="s_c", tags="big,gpu")
    eq(len(steps.claims(steps.next(1, max=9, bytes=1500))), 2, "claims within 1500 bytes")
    eq(steps.claims(steps.next(2, max=1))[0][0], "4", "the next session's turn")
    eq([id for id, _ in steps.claims(steps.next(3, max=9, tags=",gpu,"))], ["3"], "with one of two tags")
    eq([id for id, _ in steps.claims(steps.next(4, max=9, tags=",gpu,big,"))], ["5"], "with both")


@test("the end of a run removes its keys; what is left says that it is over, and expires")
def _(ws):
    steps = Steps(ws)
    steps.open()
    steps.push("1")
    steps.next(1)
    steps.call("channel", 0, "r", "s", 1, "{}", 0)
    eq(all(steps.redis.call("TTL", key) > 0 for key in steps.redis.call("KEYS", "*")), True, "whether every key expires")
    eq(steps.call("sweep", 0, "r", "end"), ["OK", "0"], "sweep")
    eq(steps.redis.call("KEYS", "*"), [META], "keys")
    eq(steps.redis.call("TTL", META) > 0, True, "whether it expires")
    eq(steps.call("renew", 0, "w", 0, 0), ["ENDED"], "renew")
    eq(steps.begin("again", 5)[0], "OK", "a run that goes on")


@test("thousands are pushed, claimed, ended and acknowledged by one call each, in order; every key has a TTL")
def _(ws):
    steps = Steps(ws)
    steps.open()
    ids = [str(number) for number in range(2500)]
    steps.push(*ids)
    claims = steps.claims(steps.next(1, max=3000))
    eq([id for id, _ in claims], ids, "what was claimed")
    eq([int(fence) - 2 ** 32 for _, fence in claims], list(range(1, 2501)), "fences")
    eq(steps.redis.call("ZCARD", "t:{RUN-1}:lease"), 2501, "leases, and the mark that keeps the key")
    ends = [(id, fence, "x") for id, fence in claims]
    eq(steps.next(2, 0, ends=ends)[3], "y" * 2500, "ends")
    eq(steps.next(2, 0, ends=ends)[3], "a" * 2500, "the same ends again")
    eq((len(steps.results("c")), len(steps.results("e"))), (2500, 2500), "results")
    eq(steps.redis.keys_without_ttl(), [], "keys without a TTL")
    steps.call("advance", 0, "r", "", "", 2500, *(word for id in ids for word in (id, "s")), 0)
    eq(steps.redis.call("ZCARD", "t:{RUN-1}:lease"), 1, "leases: the mark that keeps the key")
    eq([steps.redis.call("EXISTS", f"t:{{RUN-1}}:{name}") for name in ("specs:s", "queue:s")], [0, 0], "what is left")
    eq(steps.redis.call("HGETALL", "t:{RUN-1}:state"), ["", ""], "states")


@test("the bytes of a claim are bounded: what is too much stays in front of its queue, in order")
def _(ws):
    steps = Steps(ws)
    steps.open()
    steps.push(*(str(number) for number in range(40)), spec="x" * 100)
    eq([id for id, _ in steps.claims(steps.next(1, max=40, bytes=250))], ["0", "1", "2"], "the first claim")
    eq([id for id, _ in steps.claims(steps.next(2, max=30))], [str(number) for number in range(3, 33)], "the second claim")
    eq([id for id, _ in steps.claims(steps.next(3, max=30))], [str(number) for number in range(33, 40)], "the third claim")


@test("an id that is twice in one call counts once")
def _(ws):
    steps = Steps(ws)
    steps.open()
    steps.push("1", "1")
    (claim,) = steps.claims(steps.next(1, max=5))
    eq(steps.next(2, 0, ends=[(*claim, "x"), (*claim, "x")])[3], "ya", "ends")
    eq(len(steps.results("e")), 1, "ends in the results")


@test("sessions take turns, and a queue that was emptied by the last claim takes part again when something comes")
def _(ws):
    steps = Steps(ws)
    steps.open()
    steps.push("a", "b", session="one")
    steps.push("c", "d", session="two")
    eq([steps.claims(steps.next(number))[0][0] for number in range(1, 5)], ["a", "c", "b", "d"], "turns")
    steps.push("e", session="one")
    steps.push("f", session="two")
    eq(sorted(steps.claims(steps.next(number))[0][0] for number in (5, 6)), ["e", "f"], "what came later")
    eq(steps.claims(steps.next(7)), [], "nothing is left")
    eq(steps.redis.call("EXISTS", "t:{RUN-1}:queues"), 0, "queues")


main(__name__)
