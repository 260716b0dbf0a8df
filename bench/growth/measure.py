"""What lists and readers cost when there is ten times as much: the exponent between two sizes, 1 is linear.

Locks, processes that run, and tasks are in the benches of their names; here is what else can become long.
"""
import json
import math
import os
import random
import resource
import shutil
import signal
import subprocess
import time

from report import Row

TURNS = 5


def call(context, root, *words):
    done = subprocess.run([str(context.tasuki), "--root", str(root), *map(str, words)], capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"tasuki {' '.join(map(str, words))} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def spent():
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def seconds(context, root, words, count):
    """Processor time, the best of some turns: on a busy machine what takes long is interrupted more often, and would seem to grow
    faster than it does. `count` says from the answer whether all was there."""
    best, wanted = math.inf, count[1]
    for _ in range(TURNS):
        begun = spent()
        text = call(context, root, *words, "--json")
        best = min(best, spent() - begun)
    found = len(json.loads(text)[count[0]])
    if found < wanted:  # a driver may warm up first, so there may be more
        raise RuntimeError(f"tasuki {' '.join(map(str, words))} gave {found} and not {wanted}")
    return best


# -- making much ----------------------------------------------------------------------------------------------

def make_runs(context, root, size):
    """One run, and copies of it under other ids."""
    (root / "flow.yaml").write_text("tasks:\n  a: {run: 'true'}\nflow: a\n")
    call(context, root, "run", root / "flow.yaml")
    folder = root / ".aiflow" / "runs"
    first = next(folder.glob("RUN-*"))
    rng = random.Random(1)
    for number in range(size - 1):
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(1577836800 + number * 60))
        other = folder / f"RUN-{stamp}-{rng.randrange(1 << 24):06x}"
        shutil.copytree(first, other)
        stage = other / "stage.json"
        stage.write_text(stage.read_text().replace(first.name, other.name))


def make_requests(_context, root, size):
    """With ids as they are made."""
    rng = random.Random(1)
    for number in range(size):
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(1577836800 + number * 60))
        (root / ".aiflow" / "requests" / f"RQ-{stamp}-{rng.randrange(1 << 20):05x}.yaml").write_text("title: t\nstatus: ready\nrun: ['true']\n")


def make_processes(context, root, size):
    (root / "many.json").write_text(json.dumps({"processes": [{"id": f"p{n:06}", "command": "true"} for n in range(size)]}))
    call(context, root, "proc", "import", root / "many.json")


def make_events(context, root, size):
    """An acquisition and a release are one event each."""
    subprocess.run([context.driver("bench-locks"), "uncontended", "tasuki", str(root), str(size // 2)], check=True, capture_output=True, timeout=600)


def make_log(context, root, size):
    call(context, root, "proc", "create", "log", "--", "seq", size)
    call(context, root, "proc", "start", "log", "--no-wait")
    call(context, root, "proc", "wait", "log", "--for", "exit", "--timeout", "60s")


# What there is much of, how much, how it is made; then the commands, the key of the answer, and how much it has (0: all).
MUCH = [
    ("runs", 300, make_runs, [("runs list", ["runs", "list", "-n", 100000], "runs", 0), ("runs list, one page", ["runs", "list", "-n", 20], "runs", 20)]),
    ("requests", 300, make_requests, [("request list", ["request", "list"], "requests", 0),
                                      ("request list, one page", ["request", "list", "-n", 20], "requests", 20),
                                      ("queue next", ["queue", "next"], "others", None)]),
    ("processes", 300, make_processes, [("proc list, none running", ["proc", "list"], "processes", 0),
                                        ("proc list, one page", ["proc", "list", "-n", 20], "processes", 20)]),
    ("events", 10000, make_events, [("events, all", ["events", "--after", 0], "events", 0), ("events, the last 50", ["events", "-n", 50], "events", 50),
                                    ("events, the last of a type that is rare", ["events", "-n", 50, "--type", "workspace.none"], "events", None)]),
    ("lines of output", 20000, make_log, [("proc logs, all", ["proc", "logs", "log", "-n", 1000000], "lines", 0),
                                          ("proc logs, the last 100", ["proc", "logs", "log", "-n", 100], "lines", 100),
                                          ("proc logs --grep", ["proc", "logs", "log", "-n", 1000000, "--grep", "^77$"], "lines", 1)]),
]


def stop_adopted(context, size):
    """Seconds that `stop --all` takes when each holder has adopted its process: its descendants may then be anywhere."""
    root = context.work / f"adopted-{size}"
    root.mkdir()
    call(context, root, "init")
    (root / "many.json").write_text(json.dumps({"processes": [{"id": f"p{n:06}", "command": "sleep", "args": ["1000"]} for n in range(size)]}))
    call(context, root, "proc", "import", root / "many.json")
    call(context, root, "proc", "start", "--all", "--no-wait")
    for status in (root / ".aiflow" / "processes").glob("*/status.json"):
        os.kill(json.loads(status.read_text())["holder"]["pid"], signal.SIGKILL)
    call(context, root, "proc", "list")
    begun = time.monotonic()
    call(context, root, "proc", "stop", "--all")
    return time.monotonic() - begun


# What a person asks while very many runs are there: the command, and how it is called.
AMONG_RUNS = [("status", ["status"]), ("runs list", ["runs", "list"]), ("runs show, the latest", ["runs", "show"]),
              ("completion of run ids", ["__complete", "runs", "show", "RUN-"])]


def copy_runs(context, root, size):
    """Runs with ids as they are made, a minute apart, the last one some months ago."""
    rng, today = random.Random(1), time.strftime("%Y-%m-%dT", time.gmtime()).encode()
    (root / "flow.yaml").write_text("tasks:\n  a: {run: 'true'}\nflow: a\n")
    call(context, root, "run", root / "flow.yaml")
    first = next((root / ".aiflow" / "runs").glob("RUN-*"))
    files = [(path.relative_to(first), path.read_bytes()) for path in first.rglob("*") if path.is_file()]
    for number in range(size - 1):
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(time.time() - 200 * 86400 + number * 60))
        name = f"RUN-{stamp}-{rng.randrange(1 << 24):06x}"
        for path, data in files:
            (first.parent / name / path).parent.mkdir(parents=True, exist_ok=True)
            (first.parent / name / path).write_bytes(data.replace(first.name.encode(), name.encode()).replace(today, b"2020-01-01T"))


def milliseconds(context, root, words):
    best = math.inf
    for _ in range(TURNS):
        begun = spent()
        done = subprocess.run([str(context.tasuki), *words], cwd=root, capture_output=True, text=True, check=True, timeout=600)
        best = min(best, spent() - begun)
    if "RUN-" not in done.stdout and "DONE" not in done.stdout:
        raise RuntimeError(f"tasuki {' '.join(words)} shows no run: {done.stdout}")
    return best * 1000


def measure_runs(context):
    """What each further run costs the commands that look at the newest, and how many runs the end of one removes."""
    sizes = [100, 1000] if context.quick else [100, 1000, 10000]
    values = {name: {} for name, _ in AMONG_RUNS}
    for size in sizes:
        context.say(f"{size:,} runs")
        root = context.work / f"among-{size}"
        root.mkdir()
        call(context, root, "init")
        (root / ".aiflow" / "config.yaml").write_text("keep: {runs: 1000000}\n")
        copy_runs(context, root, size)
        for name, words in AMONG_RUNS:
            values[name][size] = milliseconds(context, root, words)
    rows = []
    for name, found in values.items():
        few, many = found[sizes[0]], found[sizes[-1]]
        rows.append(Row(f"{name}: {' · '.join(f'{size:,}' for size in sizes)} runs: each further run", " · ".join(f"{found[size]:.1f}" for size in sizes) + " ms",
                        f"{many / few:.1f} times", (many - few) * 1000 / (sizes[-1] - sizes[0]), "at most", 1.0, "µs"))
    (root / ".aiflow" / "config.yaml").unlink()
    call(context, root, "run", root / "flow.yaml")
    removed = sizes[-1] + 1 - len(list((root / ".aiflow" / "runs").glob("RUN-*")))
    rows.append(Row(f"runs that the end of one removes, {sizes[-1]:,} runs of last winter", f"{removed}", "", removed, "at most", 20))
    return rows, values


def measure_adopted(context):
    sizes = [size // (4 if context.quick else 1) for size in (40, 400)]
    values = {}
    for size in sizes:
        context.say(f"{size:,} adopted processes")
        values[size] = stop_adopted(context, size)
    times = " · ".join(f"{values[size] * 1000:.0f}" for size in sizes)
    row = Row(f"proc stop --all: {' · '.join(f'{size:,}' for size in sizes)} adopted processes: exponent", f"{times} ms", "",
              math.log10(values[sizes[1]] / values[sizes[0]]), "at most", 1.2)
    return row, values


def measure(context):
    rows, raw = [], {}
    row, raw["proc stop --all, adopted"] = measure_adopted(context)
    rows.append(row)
    more, raw["among runs"] = measure_runs(context)
    rows += more
    for what, least, make, commands in MUCH:
        sizes = [size // (10 if context.quick else 1) for size in (least, least * 10)]
        found = {name: {} for name, *_ in commands}
        for size in sizes:
            context.say(f"{size:,} {what}")
            root = context.work / f"{what.split()[0]}-{size}"
            root.mkdir()
            call(context, root, "init")
            make(context, root, size)
            for name, words, key, count in commands:
                wanted = size if count == 0 else count or 0
                found[name][size] = seconds(context, root, words, (key, wanted))
        for name, values in found.items():
            raw[name] = values
            exponent = math.log10(values[sizes[1]] / values[sizes[0]])
            times = " · ".join(f"{values[size] * 1000:.1f}" for size in sizes)
            rows.append(Row(f"{name}: {' · '.join(f'{size:,}' for size in sizes)} {what}: exponent", f"{times} ms", "", exponent, "at most", 1.1))
    return rows, raw
