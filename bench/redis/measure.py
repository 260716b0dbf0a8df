"""Attempts over Redis beside BullMQ and Celery: throughput, the server's time, latency, takeover, memory. The peers and we take
turns on servers of the benchmark's own; a figure is the median of the rounds."""
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import time

from report import Row

HERE = pathlib.Path(__file__).resolve().parent
MODULES = HERE.parents[1] / ".cache" / "redis"
PYTHON = "/usr/bin/python3"  # Debian's, for which the package celery is
MODES = {"no AOF": [], "everysec": ["--appendonly", "yes"], "always": ["--appendonly", "yes", "--appendfsync", "always"]}


class Server:
    """A redis-server; `cpu` is what it has used."""

    def __init__(self, context, *options):
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        self.context, self.dir = context, context.work / f"redis-{self.port}"
        self.dir.mkdir()
        self.process = subprocess.Popen(["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(self.dir), *options],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        until(lambda: self.cli("PING") == "PONG", "redis-server")

    def cli(self, *words):
        return subprocess.run(["redis-cli", "-p", str(self.port), *words], capture_output=True, text=True).stdout.strip()

    def info(self, section):
        return dict(line.split(":", 1) for line in self.cli("INFO", section).splitlines() if ":" in line)

    def cpu(self):
        info = self.info("cpu")
        return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])

    def env(self):
        return {**os.environ, "TASUKI_REDIS": f"redis://127.0.0.1:{self.port}", "BENCH_PORT": str(self.port), "BULL_MODULES": str(MODULES),
                "PATH": f"{self.context.build}:{os.environ['PATH']}"}

    def turn(self, words):
        """What the driver prints, and the server's seconds per attempt."""
        before = self.cpu()
        done = subprocess.run([str(w) for w in words], env=self.env(), cwd=self.dir, capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise RuntimeError(f"{words[0]} ended with {done.returncode}: {done.stderr[-500:]}")
        found = json.loads(done.stdout.strip().splitlines()[-1])
        if "attempts" in found:
            found["rate"] = found["attempts"] / found["seconds"]
            found["cpu_us"] = (self.cpu() - before) / found["attempts"] * 1e6
        self.cli("FLUSHALL")
        return found

    def close(self):
        self.process.kill()
        self.process.wait()


def until(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"waited in vain for {what}")
        time.sleep(0.005)


def peers(context):
    found = {}
    if shutil.which("node") and (MODULES / "node_modules" / "bullmq").exists():
        found["BullMQ"] = lambda depth, count, port: ["node", HERE / "bull.mjs", count, depth, port]
    else:
        context.say("BullMQ is not installed and skipped")
    if subprocess.run([PYTHON, "-c", "import celery, redis"], capture_output=True).returncode == 0:
        found["Celery"] = lambda depth, count, port: [PYTHON, HERE / "celery_app.py", max(200, count // 10), depth, port]
    else:
        context.say("Celery is not installed and skipped")
    return found


def throughput(context, mode, rounds, scale):
    """{name: {figure: median}} for both depths."""
    server, seen = Server(context, *MODES[mode]), {}
    ours = context.driver("bench-redis")
    try:
        for _ in range(rounds):
            turns = {("tasuki", 1): [ours, "attempts", 4000 // scale, 1, 1, 1], ("tasuki", 50): [ours, "attempts", 16000 // scale, 50, 1, 1],
                     ("tasuki single", 50): [ours, "attempts", 12000 // scale, 50, 0, 1], ("calls", 1): [ours, "calls", 10000 // scale, 0]}
            if mode != "no AOF":
                turns["writes", 1] = [ours, "calls", 4000 // scale, 1]
            for name, words in peers(context).items():
                if name == "BullMQ" or mode == "no AOF":
                    turns |= {(name, depth): words(depth, (2000, 4000)[depth > 1] // scale, server.port) for depth in (1, 50)}
            for key, words in turns.items():
                seen.setdefault(key, []).append(server.turn(words))
    finally:
        server.close()
    medians = {}
    for (name, depth), found in seen.items():
        rates = [f["rate"] if "rate" in f else f["calls"] / f["seconds"] for f in found]
        medians[f"{name} {depth}"] = {"rate": statistics.median(rates), "rates": [round(r) for r in rates],
                                      "cpu_us": statistics.median(f.get("cpu_us", 0) for f in found)}
    return medians


def beside(medians, ours, peer):
    """Ours, the peer and their ratio, as texts and a number."""
    if peer not in medians:
        return f"{medians[ours]['rate']:.0f}/s", "", None
    return f"{medians[ours]['rate']:.0f}/s", f"{peer} {medians[peer]['rate']:.0f}/s", medians[ours]["rate"] / medians[peer]["rate"]


def throughput_rows(context, rounds, scale, raw):
    rows = []
    for mode in MODES:
        medians = raw[mode] = throughput(context, mode, rounds, scale)
        for depth, limit in ((1, 3.5), (50, 6)) if mode == "no AOF" else ((1, 3), (50, 3)):
            rows.append(Row(f"no-op attempts, depth {depth}, {mode}", *beside(medians, f"tasuki {depth}", f"BullMQ {depth}"), "at least", limit, "x"))
        if mode != "no AOF":
            rows.append(Row(f"depth 1 beside bare FCALLs that write, {mode}", *beside(medians, "tasuki 1", "writes 1")))
            continue
        rows.append(Row("one end per call, depth 50", *beside(medians, "tasuki single 50", "BullMQ 50"), "at least", 4, "x"))
        for name in ("tasuki 50", "tasuki single 50"):
            peer = medians.get("BullMQ 50")
            rows.append(Row(f"the server's time per attempt, {name}", f"{medians[name]['cpu_us']:.0f} us", f"BullMQ {peer['cpu_us']:.0f} us" if peer else "",
                            medians[name]["cpu_us"] / peer["cpu_us"] if peer else None, "at most", 0.2 if name == "tasuki 50" else 0.3, "x"))
        rows.append(Row("depth 1 beside bare FCALLs", *beside(medians, "tasuki 1", "calls 1"), "at least", 0.65, "x"))
        for depth in (1, 50):
            rows.append(Row(f"beside Celery, depth {depth}", *beside(medians, f"tasuki {depth}", f"Celery {depth}")))
    return rows


class IdleWorkers:
    """What a server has of workers without tasks: of each a connection for calls, and two that wait."""

    def __init__(self, server, count):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.connections = []
        for number in range(count):
            for key in ("", "tasuki:{pool idle}:wake", f"tasuki:{{pool idle}}:o:{number}"):
                one = socket.create_connection(("127.0.0.1", server.port))
                one.sendall(f"BLPOP {key} 0\r\n".encode() if key else b"PING\r\n")
                self.connections.append(one)
        until(lambda: int(server.info("clients")["blocked_clients"]) == 2 * count, "the idle workers")

    def close(self):
        for one in self.connections:
            one.close()


def steps_rows(context, scale, raw):
    """Diamonds, a long queue, several workers: our own driver alone."""
    server, ours, rows = Server(context), context.driver("bench-redis"), []
    try:
        raw["diamonds"] = found = server.turn([ours, "diamonds", 1000 // scale])
        rows += [Row(f"a diamond of 4, no processes, {p}", f"{found[p + '_ms']:.2f} ms", "", found[p + "_ms"], "at most", limit, "ms")
                 for p, limit in (("p50", 2), ("p99", 8))]
        server.cli("CONFIG", "SET", "slowlog-log-slower-than", "5000")
        server.cli("CONFIG", "SET", "slowlog-max-len", "10000")
        raw["queued"] = found = server.turn([ours, "queued", 1_000_000 // scale])
        found["slow_calls"] = server.cli("SLOWLOG", "GET", "-1").split().count("FCALL")
        rows += [Row(f"{1_000_000 // scale} queued: a claim, p99.9", f"{found['p999_ms']:.2f} ms", "", found["p999_ms"], "at most", 1, "ms"),
                 Row(f"{1_000_000 // scale} queued: calls that took the server more than 5 ms", f"{found['slow_calls']}", "", found["slow_calls"], "at most", 0, ""),
                 Row("memory of a queued attempt, beside its 300 B", f"{found['bytes_each']:.0f} B", "", found["bytes_each"] - 300, "at most", 100, "B"),
                 Row("memory of an attempt after its run", f"{found['bytes_left'] / (1_000_000 // scale):.1f} B", "", found["bytes_left"] / (1_000_000 // scale),
                     "at most", 1, "B")]
        for workers in (1, 2, 4):
            raw[f"workers {workers}"] = found = server.turn([ours, "attempts", 30000 // scale, 50, 1, workers])
            rows.append(Row(f"{workers} workers of depth 50", f"{found['rate']:.0f}/s"))
        idle_workers = IdleWorkers(server, 1000)
        try:
            raw["beside idle workers"] = found = server.turn([ours, "attempts", 30000 // scale, 50, 1, 1])
            rows.append(Row("1 worker of depth 50 beside 1000 idle ones", f"{found['rate']:.0f}/s"))
        finally:
            idle_workers.close()
    finally:
        server.close()
    return rows


# ---- the whole program ----


class Place:
    """A workspace with a server and workers."""

    def __init__(self, context, name):
        self.context, self.server, self.workers = context, Server(context), []
        self.dir = context.work / name
        self.dir.mkdir()
        self.tasuki("init")

    def tasuki(self, *words):
        began = time.perf_counter()
        done = subprocess.run([str(self.context.tasuki), "--root", ".", *map(str, words)], cwd=self.dir, env=self.server.env() if "--redis" in words else
                              {**os.environ}, capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise RuntimeError(f"tasuki {words[0]} ended with {done.returncode}: {done.stderr[-500:]}")
        return time.perf_counter() - began

    def start(self, flow, *words):
        (self.dir / "flow.yaml").write_text(flow)
        return subprocess.Popen([str(self.context.tasuki), "--root", ".", "run", "flow.yaml", "--redis", self.server.env()["TASUKI_REDIS"], "--quiet", *words],
                                cwd=self.dir, env=self.server.env(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def worker(self, *words):
        process = subprocess.Popen([str(self.context.build / "tasuki-worker"), "worker", *map(str, words)], cwd=self.dir, env=self.server.env(),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.workers.append(process)
        until(lambda: f".{process.pid}." in self.server.cli("ZRANGE", "tasuki:{pool default}:w", "0", "-1"), "the worker")
        return process

    def close(self):
        for process in self.workers:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
        self.server.close()


def children_of(pid):
    return [int(p.parent.name) for p in pathlib.Path("/proc").glob("[0-9]*/stat") if parent_of(p) == pid]


def parent_of(stat):
    try:
        return int(stat.read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def lines(path):
    return path.read_text().split() if path.exists() else []


def takeover(context, is_machine):
    """From the death of a worker, or of all its processes at once, until its task runs elsewhere; seconds."""
    place = Place(context, f"takeover-{is_machine}")
    try:
        first = place.worker("-j", 1, "--name", "one")
        runner = place.start("lease: 5s\ntasks: {t: {run: 'echo $$ >> pids; test $TASUKI_WORKER = two || exec sleep 1000'}}\n")
        pids = place.dir / "pids"
        until(lambda: lines(pids), "the task")
        place.worker("-j", 1, "--name", "two")
        began = time.perf_counter()
        doomed = [*children_of(first.pid), int(lines(pids)[0])] if is_machine else []
        for pid in [first.pid, *doomed]:
            os.kill(pid, signal.SIGKILL)
        until(lambda: len(lines(pids)) > 1, "the second copy")
        seconds = time.perf_counter() - began
        runner.wait(60)
        return seconds
    finally:
        place.close()


def cancel(context):
    """From Ctrl-C until the last of eight remote tasks is gone; seconds."""
    place = Place(context, "cancel")
    try:
        place.worker("-j", 8)
        runner = place.start("tasks:\n" + "".join(f"  t{i}: {{run: 'echo $$ >> pids; exec sleep 1000'}}\n" for i in range(8)), "-j", "8")
        until(lambda: len(lines(place.dir / "pids")) == 8, "the tasks")
        began = time.perf_counter()
        runner.send_signal(signal.SIGINT)
        until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in lines(place.dir / "pids")), "the end of the tasks")
        seconds = time.perf_counter() - began
        runner.wait(60)
        return seconds
    finally:
        place.close()


def idle(context, seconds):
    """Commands per second of an idle worker, and the memory of its two processes in MiB."""
    place = Place(context, "idle")
    try:
        worker = place.worker("-j", 8)
        time.sleep(2)
        before = int(place.server.info("stats")["total_commands_processed"])
        time.sleep(seconds)
        commands = int(place.server.info("stats")["total_commands_processed"]) - before - 1
        pages = sum(int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) - int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[2])
                    for pid in [worker.pid, *children_of(worker.pid)])
        return commands / seconds, pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    finally:
        place.close()


def processes(context, count, rounds):
    """Seconds of `count` × /bin/true here, and on one worker of the same machine."""
    place, here, there = Place(context, "processes"), [], []
    flow = place.dir / "flow.yaml"
    flow.write_text(f"limits: {{max_steps: {2 * count}}}\ntasks:\n" + "".join(f"  t{i}: {{run: /bin/true}}\n" for i in range(count)))
    try:
        place.worker("-j", 16)
        for _ in range(rounds):
            here.append(place.tasuki("run", "flow.yaml", "-j", 16, "--quiet"))
            there.append(place.tasuki("run", "flow.yaml", "-j", 16, "--quiet", "--redis", place.server.env()["TASUKI_REDIS"]))
        return statistics.median(here), statistics.median(there)
    finally:
        place.close()


def program_rows(context, rounds, scale, raw):
    here, there = raw["processes"] = processes(context, 5000 // scale, rounds)
    killed, gone = raw["takeover"] = takeover(context, False), takeover(context, True)
    ended, (commands, memory) = cancel(context), idle(context, 60 // scale)
    raw["cancel"], raw["idle"] = ended, (commands, memory)
    return [Row(f"{5000 // scale} x /bin/true on one worker", f"{there:.2f} s", f"here {here:.2f} s", here / there, "at least", 0.8, "x"),
            Row("worker killed: its task runs elsewhere", f"{killed:.2f} s", "BullMQ 61 s", killed, "at most", 2, "s"),
            Row("machine gone, lease 5 s", f"{gone:.2f} s", "Buildkite 4 min", gone, "at most", 6, "s"),
            Row("Ctrl-C: the last remote task is gone", f"{ended:.2f} s", "", ended, "at most", 1, "s"),
            Row("idle worker: commands", f"{commands:.2f}/s", "", commands, "at most", 0.3, "/s"),
            Row("idle worker: memory of its own", f"{memory:.1f} MiB", "", memory, "at most", 8, "MiB")]


def measure(context):
    if not shutil.which("redis-server") or not os.path.exists(context.driver("bench-redis")):
        raise RuntimeError("redis-server or tasuki-worker is missing")
    rounds, scale, raw = (2, 10, {}) if context.quick else (5, 1, {})
    rows = throughput_rows(context, rounds, scale, raw)
    rows += steps_rows(context, scale, raw)
    rows += program_rows(context, min(rounds, 3), scale, raw)
    return rows, raw
