"""Many processes start the same two flows at once, with every rule for a conflict, while runners, holders and live views are killed.

What must hold: a flow that runs once at a time does so (storm-hold is the witness, which uses nothing of tasuki); a run that was
promised for later begins once, unless a newer one took its place; nobody is notified twice; nothing pending is left behind, and the
doctor finds nothing.

TASUKI_SEED=n repeats a storm's random choices, though not the scheduler's."""

import collections
import json
import os
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "spec"))
from flows import journal, last_document, processes_of, run_ids, with_tool  # noqa: E402
from harness.harness import Result, eq, main, test  # noqa: E402
from requests_common import call, runs_of  # noqa: E402
from storm.victims import everybody, kill, strike  # noqa: E402
from storm.witness import read_log  # noqa: E402

FLOWS = {"nightly": "nightly", "apart": "apart.yaml"}  # in .aiflow/flows/, and a file that says exclusive: true
RULES = ["fail", "attach", "replace", "after", "after", "after"]
KILLS_PER_WORLD = 10
KINDS = ("done", "failure", "stuck")
CODES = (0, 4, 7, -9)  # done or pending, refused, failed or cancelled, killed
KILLED_APART = "the runner ended before the run began"  # code 3 of a start with --detach


Start = collections.namedtuple("Start", "round flow rule proc output")


class World:
    """One workspace with its flows, and the starts that were made in it."""

    def __init__(self, ws, rng):
        self.ws, self.rng = ws, rng
        self.round = 0
        self.starts = {}  # number: Start
        self.views = []
        hold = ws.build / "tests/storm/storm-hold"
        work = f"exec {hold} {ws.path} $TASUKI_PARAM_WITNESS $TASUKI_PARAM_NUMBER"
        text = ("params: {number: {default: none}, witness: {default: none}}\nflow: a >> b\n"
                f"tasks:\n  a: {work} {rng.randrange(30)}\n  b: {work} {rng.randrange(10)}\n")
        (ws.path / ".aiflow/flows").mkdir(exist_ok=True)
        (ws.path / ".aiflow/flows/nightly.yaml").write_text(text)
        (ws.path / "apart.yaml").write_text("exclusive: true\n" + text)
        (ws.path / "other.yaml").write_text("tasks: {a: 'true'}\n")
        (ws.path / ".aiflow/config.yaml").write_text("notify: {" + ", ".join(f"{kind}: 'cat >> told'" for kind in KINDS) + "}\n")

    def start(self):
        number, flow, rule = len(self.starts), self.rng.choice(list(FLOWS)), self.rng.choice(RULES)
        is_beside = self.rng.random() < 0.15
        rule = "fail" if is_beside else rule  # with another rule --concurrent is refused
        witness = f"beside{number}" if is_beside else flow
        words = ["run", FLOWS[flow], "--json", "--on-conflict", rule, "--yes", "--set", f"number={number}", "--set", f"witness={witness}"]
        words += ["--concurrent"] * is_beside + self.rng.choice([[], [], ["--detach"]])
        with open(self.ws.base / f"start.{number}", "wb") as out:
            proc = self.ws.spawn(*words, env=with_tool(self.ws), stdout=out, stderr=-2)
        self.starts[number] = Start(self.round, flow, rule, proc, self.ws.base / f"start.{number}")

    def watch(self):
        """Two live views, which notify of what they see die."""
        self.views = [view for view in self.views if view.poll() is None]
        while len(self.views) < 2:
            self.views.append(self.ws.spawn("watch", "--json", stdout=-3, stderr=-3))

    def end_views(self):
        for view in self.views:
            kill(view.pid)
            view.wait()
        self.views = []

    def may_be_replaced_silently(self, number):
        """A start that was killed may have taken the place of another one without an event."""
        mine = self.starts[number]
        return any(other.flow == mine.flow and other.round >= mine.round and other.rule in ("after", "replace") and
                   other.proc.returncode not in (0, 4, 7) for other in self.starts.values())

    def answers(self):
        """{number: the last document that its command printed, of those that came to their end}"""
        found = {}
        for number, start in self.starts.items():
            code, text = start.proc.wait(), start.output.read_text()
            assert code in CODES or code == 3 and KILLED_APART in text, f"start {number}: {start} ended with {code}: {text}"
            if code in (0, 7):
                found[number] = last_document(Result([], code, text, ""))
        return found


def pending(ws):
    folder = ws.path / ".aiflow/after"
    return [json.loads(p.read_text()) for p in folder.iterdir() if not p.name.startswith(".")] if folder.exists() else []


def numbers_of_runs(ws):
    """{number: [runs]}"""
    found = collections.defaultdict(list)
    for run in run_ids(ws):
        number = journal(ws, run)[0].get("set", {}).get("number")
        if number is not None:
            found[int(number)].append(run)
    return found


def until_quiet(ws):
    ws.until(lambda: not set(everybody()) & {"runner", "holder"}, "no runner lives")


def settle(ws):
    """As a person would: the next run starts what is pending, and what was interrupted is resumed."""
    for _ in range(100):
        until_quiet(ws)
        call(ws, "run", "other.yaml")
        until_quiet(ws)
        left = [one["run_id"] for one in runs_of(ws) if one["status"] not in ("DONE", "CANCELLED", "FAILED")]
        for run in left:
            ws.tasuki("resume", run, "--quiet", env=with_tool(ws)).expect(0)
        if not left and not pending(ws):
            return
    raise AssertionError(f"it does not come to its end: {runs_of(ws)} {pending(ws)}")


def check_pending(world, answers):
    """A promise is kept once, or a newer start has taken its place."""
    ws, runs = world.ws, numbers_of_runs(world.ws)
    eq({n: r for n, r in runs.items() if len(r) > 1}, {}, "starts that became two runs")
    newest, gone = {}, set()
    for event in ws.events():
        if event["type"] == "run.pending":
            gone |= {event["data"].get("replaced"), newest.get(event["data"]["lock"])}
            newest[event["data"]["lock"]] = event["data"]["id"]
        elif event["type"] == "run.pending_dropped":
            gone.add(event["data"]["id"])
    for number, answer in answers.items():
        if answer["status"] == "PENDING" and answer["pending"] not in gone and not world.may_be_replaced_silently(number):
            eq(len(runs[number]), 1, f"runs of start {number}, which was pending as {answer['pending']}")
        elif answer["status"] not in ("PENDING", "RUNNING") and not answer.get("attached"):
            eq(len(runs[number]), 1, f"runs of start {number}, which has ended")


def check_notified(ws):
    told = [json.loads(line) for line in (ws.path / "told").read_text().splitlines()] if (ws.path / "told").exists() else []
    for (run, kind), count in collections.Counter((one["run_id"], one["event"]) for one in told).items():
        folder = ws.path / ".aiflow/runs" / run
        assert count <= (1 if kind == "done" else len(list(folder.glob(f"notified.{kind}.*")))), f"{run}: {count} notifications of {kind}"


def check_runs(ws):
    for one in runs_of(ws):
        completed = [record["n"] for record in journal(ws, one["run_id"]) if record["e"] == "end" and "exit" not in record.get("reason", "")]
        eq(len(completed), len(set(completed)), f"tasks of {one['run_id']} that were completed")
        eq(processes_of(one["run_id"]), [], "processes that are left")
        shown = call(ws, "runs", "show", one["run_id"]).json
        eq(shown["status"], one["status"], f"the status of {one['run_id']}")


def check(world):
    ws, answers = world.ws, world.answers()
    eq([str(line.text) for line in read_log(ws.path) if line.verb == "double"], [], "two at a time")
    check_pending(world, answers)
    check_notified(ws)
    check_runs(ws)
    eq({lock["state"] for lock in call(ws, "lock", "list").json["locks"]} - {"stale"}, set(), "locks that are stuck")
    call(ws, "doctor", "--full")
    report = call(ws, "doctor", "--full").json
    # A process that is killed in the middle of a line leaves a torn one, which readers skip.
    eq([c for c in report["checks"] if c["status"] != "PASS" and c["name"] != "events"], [], "what the doctor finds")
    return collections.Counter(answer["status"] for answer in answers.values())


def one_world(ws, rng):
    world = World(ws, rng)
    has_views = rng.random() < 0.5
    for world.round in range(KILLS_PER_WORLD):
        if has_views:
            world.watch()
        for _ in range(rng.randrange(2, 6)):
            world.start()
        time.sleep(rng.random() * 0.3)
        strike(rng)
    world.end_views()
    world.round += 1
    for _ in range(6):  # the last ones live: their promises are kept to the letter
        world.start()
    settle(ws)
    return check(world)


def clear(ws, number):
    """An empty workspace for the next world."""
    ws.close()
    ws.commands.clear()
    (ws.path / ".aiflow").rename(ws.base / f"old.{number}")
    for path in ws.path.iterdir():
        path.unlink()
    ws.tasuki("init").expect(0)


def many(ws, kills):
    seed = int(os.environ.get("TASUKI_SEED") or random.SystemRandom().randrange(1 << 32))
    rng, seen = random.Random(seed), collections.Counter()
    try:
        for number in range(kills // KILLS_PER_WORLD):
            seen += one_world(ws, rng)
            clear(ws, number)
    except BaseException:
        print(f"# TASUKI_SEED={seed}", flush=True)
        raise
    print(f"# {dict(seen)}", flush=True)
    assert seen["PENDING"] and seen["DONE"], f"the storm was none: {seen}"


@test("20 kills among processes that start two flows with every rule: one at a time, promises kept once, no notification twice", slow=True)
def _(ws):
    many(ws, 20)


@test("400 kills among processes that start two flows with every rule: one at a time, promises kept once, no notification twice",
      long=True, deadline=1800)
def _(ws):
    many(ws, 400)


main(__name__)
