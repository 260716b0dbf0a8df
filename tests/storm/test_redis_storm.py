"""Runs on workers while everything is killed and stopped: SIGKILL of any process; SIGSTOP past the lease of one process of a worker at a
time, of the runner, of its link and of redis-server. A witness outside of tasuki (flock) sees two copies at once. What must be true
after each run: every task has ended once in the journal, the channel is what a simple model says, and nothing is left in Redis.

TASUKI_STORM_TASKS: how many tasks the long storm has; TASUKI_STORM_SIDES: in how many workspaces at once, each with a server, workers and
strikes of its own; TASUKI_STORM_SEED: of the first side (what is struck depends on the machine's time, too); TASUKI_STORM_KEEP: where
the files of a side go that failed."""

import collections
import os
import pathlib
import random
import shutil
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "spec"))
from flows import journal, run_ids  # noqa: E402
from harness.harness import children_of, eq, main, test  # noqa: E402
from harness.redis import Redis  # noqa: E402
from harness.workspace import Workspace  # noqa: E402

TASKS, PER_RUN = 300, 150
TASKS_LONG = int(os.environ.get("TASUKI_STORM_TASKS", 200000))
PER_RUN_LONG = 50, 2000
SIDES = int(os.environ.get("TASUKI_STORM_SIDES", os.cpu_count() or 1))
STRIKES = 12  # in a run of the short storm
WORKERS, PLACES, LEASE_S = 4, 8, 3
PAST_LEASE_S = LEASE_S * 1.4
AOF_S = 1  # so much a server that is killed forgets (everysec)
PARTS = 8  # as in redis_task.c
RUN_S = 3600  # a run that has not ended by then never will
MEMORY_MORE = 2 << 20  # what the server may keep of its own (clients, AOF buffers)


class Graph:
    """A random nesting of sequences and groups, and what it must leave in the channel."""

    def __init__(self, rng, count):
        self.rng, self.names, self.saw = rng, [f"t{i}" for i in range(count)], {}
        self.todo = list(reversed(self.names))
        parts = []
        while self.todo:
            parts.append(self.part(3))
        self.text, self.order = self.sequence(parts)
        self.look(("seq", parts), 0)

    def part(self, depth):
        if depth == 0 or len(self.todo) < 4 or self.rng.random() < 0.3:
            return self.todo.pop()
        kind, most = self.rng.choice([("par", 7), ("par", 40), ("seq", 5)])
        return kind, [self.part(depth - 1) for _ in range(min(self.rng.randrange(2, most), len(self.todo))) if self.todo]

    def written(self, part):
        if isinstance(part, str):
            return part, [part]
        kind, parts = part
        return self.sequence(parts) if kind == "seq" else self.group(parts)

    def sequence(self, parts):
        texts, orders = zip(*[self.written(part) for part in parts])
        return " >> ".join(texts), [name for order in orders for name in order]

    def group(self, parts):
        texts, orders = zip(*[self.written(part) for part in parts])
        return "(" + " | ".join(texts) + ")", [name for order in orders for name in order]

    def look(self, part, seen):
        """How many ends each task sees: those before it in its own branch, and those before the fork."""
        if isinstance(part, str):
            self.saw[part] = seen
            return 1
        kind, parts = part
        count = 0
        for one in parts:
            count += self.look(one, seen + count if kind == "seq" else seen)
        return count

    def channel(self):
        last = {f"last_{int(name[1:]) % PARTS}": self.saw[name] for name in self.order}
        return {"n": len(self.names), "log": [f"{t} saw {self.saw[t]}" for t in self.order], "last": self.order[-1], **last}

    def flow(self, program):
        tasks = "".join(f"  {t}: {{run: [{program}, {t}, '{self.rng.randrange(2, 60)}'], retries: 100, backoff: {{max: 2s}}}}\n"
                        for t in self.names)
        return (f"lease: {LEASE_S}s\nflow: {self.text}\nlimits: {{parallel: 64}}\n"
                f"channel: {{merge: {{n: sum, log: append, \"*\": last}}}}\ntasks:\n{tasks}")


class Storm:
    def __init__(self, ws, seed):
        self.ws, self.rng = ws, random.Random(seed)
        self.redis = Redis(ws, "--appendonly", "yes", "--appendfsync", "everysec")
        self.workers, self.resting, self.runner, self.struck = [], {}, None, {}
        self.strikes, self.server_killed, self.ended = collections.deque(maxlen=12), 0, 0
        (ws.path / "locks").mkdir()
        for _ in range(WORKERS):
            self.workers.append(self.redis.worker("-j", str(PLACES)))
        self.memory = self.used_memory()
        self.program = ws.build / "tests/storm/storm-redis-task"
        ws.at_close(self.wake_all)

    def used_memory(self):
        info = self.redis.call("INFO", "memory")
        return int(next(line for line in info.splitlines() if line.startswith("used_memory:")).split(":")[1])

    # ---- strikes ----

    def stop(self, pid, what):
        """SIGSTOP past the lease; `what` is left alone meanwhile."""
        def go_on():
            time.sleep(PAST_LEASE_S)
            send(pid, signal.SIGCONT)
            self.resting.pop(what, None)
        send(pid, signal.SIGSTOP)
        self.resting[what] = threading.Thread(target=go_on, daemon=True)
        self.resting[what].start()
        return "stopped"

    def wake_all(self):
        for thread in list(self.resting.values()):
            thread.join()

    def strike(self):
        way = self.rng.choices([self.hit_worker, self.hit_guard, self.hit_task, self.hit_link, self.hit_runner, self.hit_server],
                               [5, 3, 4, 2, 2, 2])[0]
        how = way()
        if how:
            what = f"{way.__name__[4:]} {how}"
            self.struck[what] = self.struck.get(what, 0) + 1
            self.strikes.append((time.monotonic(), what))

    def hit_worker(self):
        index = self.rng.randrange(WORKERS)
        worker = self.workers[index]
        if worker in self.resting:
            return None
        if self.rng.random() < 0.5:
            return self.stop(worker.pid, worker)
        worker.kill()
        worker.wait()
        self.workers[index] = self.redis.worker("-j", str(PLACES))
        return "killed"

    def hit_guard(self):
        worker = self.rng.choice(self.workers)
        guards = [pid for pid in children_of(worker.pid) if name_of(pid) == "tasuki-guard"]
        if worker in self.resting or not guards:
            return None
        return self.stop(guards[0], worker) if self.rng.random() < 0.5 else send(guards[0], signal.SIGKILL)

    def hit_task(self):
        worker = self.rng.choice(self.workers)
        tasks = [pid for pid in children_of(worker.pid) if name_of(pid) not in ("tasuki-worker", "tasuki-guard")]
        if worker in self.resting or not tasks:
            return None
        return self.stop(tasks[0], worker) if self.rng.random() < 0.3 else send(tasks[0], signal.SIGKILL)

    def hit_link(self):
        links = [pid for pid in children_of(self.runner.pid) if name_of(pid) == "tasuki-worker"]
        if "runner" in self.resting or not links:
            return None
        return self.stop(links[0], "runner") if self.rng.random() < 0.5 else send(links[0], signal.SIGKILL)

    def hit_runner(self):
        if "runner" in self.resting:
            return None
        if self.rng.random() < 0.5:
            return self.stop(self.runner.pid, "runner")
        self.runner.kill()
        return "killed"

    def hit_server(self):
        if "server" in self.resting:
            return None
        way = self.rng.randrange(3)
        if way == 0:
            self.redis._hang_up()
            self.stop(self.redis.process.pid, "server")
            self.resting["server"].join()
            return "stopped"
        if way == 1:
            self.server_killed = time.monotonic()
            self.redis.kill()
            self.redis.start()
            return "killed"
        self.redis.call("FLUSHALL")
        return "emptied"

    def keep(self):
        """For the one who looks for the cause of a failure: the last strikes, and all files if TASUKI_STORM_KEEP names a directory."""
        now = time.monotonic()
        for at, what in self.strikes:
            print(f"# {now - at:.1f} s ago: {what}", flush=True)
        if self.ended:
            print(f"# {now - self.ended:.1f} s ago: the last look at the run", flush=True)
        if os.environ.get("TASUKI_STORM_KEEP"):
            shutil.copytree(self.ws.base, pathlib.Path(os.environ["TASUKI_STORM_KEEP"]) / str(time.time()), symlinks=True,
                            ignore_dangling_symlinks=True, copy_function=copy_plain)

    # ---- a run ----

    def begin(self, *words):
        """What it prints goes to a file: nobody reads a pipe meanwhile, and a full one would stop it."""
        with open(self.ws.path.parent / "said", "wb") as said:
            self.runner = self.ws.spawn(*words, "--quiet", env=self.redis.env(), stdout=said, stderr=said)

    def run(self, graph, pause, strikes):
        """Strikes so often, or until the run has ended; its id."""
        before = run_ids(self.ws)
        (self.ws.path / "flow.yaml").write_text(graph.flow(self.program))
        self.begin("run", "flow.yaml")
        self.ws.until(lambda: run_ids(self.ws) - before or self.runner.poll() is not None, "the run")
        run = (run_ids(self.ws) - before).pop()
        until = time.monotonic() + RUN_S
        while time.monotonic() < until:
            time.sleep(self.rng.random() * pause)
            code, self.ended = self.runner.poll(), time.monotonic()
            if code == 0:
                break
            if code is not None:
                eq(code, -signal.SIGKILL, f"exit code ({(self.ws.path.parent / 'said').read_text()[-3000:]})")
                self.begin("resume", run)
            elif strikes > 0:
                self.strike()
                strikes -= 1
        self.wake_all()
        eq(self.runner.wait(60), 0, "exit code")
        return run

    def judge(self, graph, run):
        lines = journal(self.ws, run)
        ends = [line["k"] for line in lines if line["e"] == "end" and line["o"] == "ok"]
        eq(sorted(ends), sorted(graph.names), "tasks that have ended, each once")
        # Twice, if the runner was killed after its journal had the end: the resume of what is done ends it again.
        eq({line["status"] for line in lines if line["e"] == "done"}, {"DONE"}, "status")
        values, expected = [line["v"] for line in lines if line["e"] == "done"][-1], graph.channel()
        wrong = {key: (values.get(key), expected.get(key)) for key in {*values, *expected} if values.get(key) != expected.get(key)}
        eq(wrong, {}, f"values that differ from the model in {graph.text}")
        eq(overlaps(self.ws), [], "tasks of which two copies ran at once")
        eq(self.redis.keys_without_ttl(), [], "keys without a TTL")
        self.no_key_of(run)

    def no_key_of(self, run):
        keys = lambda: [key for key in self.redis.call("KEYS", f"tasuki:{{{run}}}:*") if key != f"tasuki:{{{run}}}:meta"]
        if self.server_killed > self.ended - 2 * AOF_S:  # it may have gone back to before the end of the run: the keys expire
            for key in keys():
                self.redis.call("DEL", key)
        self.ws.until(lambda: not keys(), f"no key of {run}, but {keys()}")


def copy_plain(source, target):
    if pathlib.Path(source).is_file():  # and no socket, say
        shutil.copy2(source, target)


def overlaps(ws):
    path = ws.path / "overlaps"
    return path.read_text().split() if path.exists() else []


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
    return "killed" if number == signal.SIGKILL else None


class Score:
    """What all sides have done."""

    def __init__(self, tasks):
        self.tasks, self.begun, self.done, self.lost, self.runs, self.struck = tasks, 0, 0, 0, 0, {}
        self.began, self.lock = time.monotonic(), threading.Lock()

    def take(self, sizes, rng):
        """The size of the next run; 0: there is none."""
        with self.lock:
            low, high = sizes
            count = round(low * (high / low) ** rng.random()) if self.begun < self.tasks else 0
            self.begun += count
            return count

    def add(self, count):
        with self.lock:
            self.done += count
            self.runs += 1
            print(f"# {self.done} tasks in {self.runs} runs after {time.monotonic() - self.began:.0f} s", flush=True)

    def end(self, one, lost):
        with self.lock:
            self.lost += lost
            for name, count in one.struck.items():
                self.struck[name] = self.struck.get(name, 0) + count

    def say(self):
        strikes = ", ".join(f"{name} {count}" for name, count in sorted(self.struck.items()))
        print(f"# {self.done} tasks in {self.runs} runs, {time.monotonic() - self.began:.0f} s; {self.lost} taken over; "
              f"{sum(self.struck.values())} strikes ({strikes})", flush=True)


def side(ws, score, seed, sizes, strikes, pause):
    print(f"# seed {seed}", flush=True)
    one = Storm(ws, seed)
    while count := score.take(sizes, one.rng):
        graph = Graph(one.rng, count)
        try:
            one.judge(graph, one.run(graph, pause, strikes))
        except BaseException:
            one.keep()
            raise
        score.add(count)
    ws.until(lambda: one.used_memory() < one.memory + MEMORY_MORE, "memory at its baseline")
    score.end(one, len(ws.events("task.lost")))


def storm(ws, tasks, sizes, strikes, pause, sides=1):
    seed = int(os.environ.get("TASUKI_STORM_SEED", random.SystemRandom().randrange(1 << 32)))
    score, problems = Score(tasks), []

    def try_side(number):
        try:
            side(beside(ws, number), score, seed + number, sizes, strikes, pause)
        except BaseException as problem:
            score.tasks = 0  # the others end their runs
            problems.append(problem)
            print(f"# side {number}: {problem}", flush=True)

    threads = [threading.Thread(target=try_side, args=(number,)) for number in range(sides)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    score.say()
    if problems:
        raise problems[0]


def beside(ws, number):
    """A workspace of its own for each side."""
    base = ws.base / f"side-{number}"
    base.mkdir()
    one = Workspace(base)
    ws.at_close(one.close)
    one.tasuki("init").expect(0)
    return one


@test(f"{TASKS} tasks in random graphs on {WORKERS} workers while all is killed and stopped: each ends once, never two copies", slow=True,
      quick=False, deadline=1200)
def _(ws):
    storm(ws, TASKS, (PER_RUN, PER_RUN), STRIKES, 0.4)


@test(f"the same with {TASKS_LONG} tasks, {SIDES} storms at once", long=True, deadline=12 * 3600)
def _(ws):
    storm(ws, TASKS_LONG, PER_RUN_LONG, TASKS_LONG, 0.5, SIDES)


main(__name__)
