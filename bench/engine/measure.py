"""The library's function tasks beside Taskflow and a plain loop, and how the cost grows with the number of tasks."""
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess

from report import Row

HERE = pathlib.Path(__file__).resolve().parent
KINDS = ("independent", "chain", "diamonds")
INCLUDES = ("/usr/include", "/usr/local/include", os.environ.get("TASKFLOW_INCLUDE", ""))


def call(*words):
    done = subprocess.run([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"{words[0]} ended with {done.returncode}: {done.stderr[:500]}")
    return json.loads(done.stdout)


def taskflow(context):
    """The peer's program, or None (said aloud)."""
    found = [path for path in INCLUDES if path and (pathlib.Path(path) / "taskflow/taskflow.hpp").exists()]
    if not found or not shutil.which("c++"):
        context.say("Taskflow is skipped: taskflow/taskflow.hpp is not installed (TASKFLOW_INCLUDE names its directory)")
        return None
    program = context.work / "taskflow"
    subprocess.run(["c++", "-O2", "-std=c++20", "-I", found[0], HERE / "taskflow.cpp", "-o", program, "-pthread"], check=True)
    return program


def median_of(runs):
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def measure(context):
    count = 100_000 if context.quick else 1_000_000
    rounds = 3 if context.quick else 7
    workers = os.cpu_count() or 1
    ours, theirs, rows, raw = context.driver("bench-engine"), taskflow(context), [], {}
    loop = median_of([call(ours, "loop", count) for _ in range(rounds)])
    raw["loop"] = loop
    for kind in KINDS:
        runs = {"tasuki": [], "taskflow": []}
        for _ in range(rounds):  # in turn, so that both see the same machine
            runs["tasuki"].append(call(ours, kind, count, workers))
            if theirs:
                runs["taskflow"].append(call(theirs, kind, count, workers))
        mine = median_of(runs["tasuki"])
        peer = median_of(runs["taskflow"]) if theirs else None
        raw[kind] = {"tasuki": mine, "taskflow": peer}
        rows.append(Row(f"{kind}, {count:,} function tasks, building included", f"{mine['total_ns']:.0f} ns/task",
                        f"Taskflow {peer['total_ns']:.0f} ns" if peer else "Taskflow (not installed)",
                        mine["total_ns"] / peer["total_ns"] if peer else None, "at most", 1.0, "x"))
        rows.append(Row(f"{kind}: build + run, memory", f"{mine['build_ns']:.0f} + {mine['run_ns']:.0f} ns, {mine['bytes']:.0f} B",
                        f"plain loop {loop['total_ns']:.1f} ns"))
    rows += growth(context, ours, workers, raw)
    return rows, raw


def growth(context, ours, workers, raw):
    """From 1,000 to 1,000,000 tasks: ns and bytes per task, and the exponent of the whole."""
    sizes = (1_000, 10_000, 100_000) if context.quick else (1_000, 10_000, 100_000, 1_000_000)
    points = {size: median_of([call(ours, "diamonds", size, workers) for _ in range(5)]) for size in sizes}
    raw["growth"] = {str(size): point for size, point in points.items()}
    # From 10,000 on: below, the threads' start is most of it.
    first, last = sizes[1], sizes[-1]
    exponent = math.log(points[last]["total_ns"] * last / (points[first]["total_ns"] * first)) / math.log(last / first)
    text = ", ".join(f"{size:,}: {points[size]['total_ns']:.0f} ns" for size in sizes)
    return [Row("growth of diamonds", text),
            Row(f"exponent of the time, {first:,} to {last:,}", f"{points[last]['bytes']:.0f} B/task at the end", "", exponent,
                "at most", 1.05, "")]
