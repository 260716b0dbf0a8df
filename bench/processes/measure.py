"""The process rows of the speed table: starting, memory, restarting, output, idling, growth, beside the peers."""
import contextlib
import math
import os
import signal
import subprocess
import time

from processes import procfs
from processes.output import output
from processes.stamps import wait_stamps
from processes.supervisors import PEERS, Bare, Service, Tasuki, available, running
from report import Row


def stampers(context, root, count):
    """`count` services that stamp root/stamps."""
    width = len(str(count))
    return [Service(f"s{i:0{width}}", [context.driver("bench-child"), "stamp", root / "stamps", f"s{i}"])
            for i in range(count)]


def started(context, cls, name, count):
    """A supervisor whose `count` children run, and the seconds that took."""
    root = context.work / name
    supervisor = cls(context, root, stampers(context, root, count))
    try:
        begun = time.monotonic_ns()
        supervisor.start()
        returned = time.monotonic_ns()
        last = max(when for _, _, when in wait_stamps(root / "stamps", count))
    except BaseException:
        supervisor.end()
        raise
    # tasuki's command promises that all run when it returns, so its return counts; the peers have no such moment.
    end = max(last, returned) if cls is Tasuki else last
    return supervisor, (end - begun) / 1e9


def exponent(values):
    """Of the growth between the first and the last of {size: value}."""
    first, last = min(values), max(values)
    return math.log(values[last] / values[first]) / math.log(last / first)


def quantile(values, permille):
    return sorted(values)[(len(values) - 1) * permille // 1000]


def start_and_memory(context, peers, raw):
    count = 20 if context.quick else 200
    seconds, imports, memory = {one: [] for one in (Tasuki, *peers)}, [], {}
    for turn in range(1 if context.quick else 7):
        for cls in seconds:
            supervisor, took = started(context, cls, f"start-{cls.name}-{turn}", count)
            with running([supervisor]):
                seconds[cls].append(took)
                if cls is Tasuki:
                    imports.append(supervisor.import_seconds)
                if cls not in memory:
                    memory[cls] = memory_per_child(supervisor, count)
    raw["start"] = {"count": count, "import_seconds": imports, **{c.name: s for c, s in seconds.items()}}
    raw["memory"] = {cls.name: found for cls, found in memory.items()}
    # The best of each: what else happens on the machine can only add to it, and adds most to who makes most files.
    return start_rows(count, {cls: min(found) for cls, found in seconds.items()}, min(imports)) + memory_rows(memory)


def start_rows(count, seconds, import_seconds):
    ours, rows = seconds.pop(Tasuki), []
    for cls, theirs in seconds.items():
        target = {"better": "at most", "limit": 0.5} if cls.name == "s6" else {}
        rows.append(Row(f"start of {count} with logs: {cls.name}" if not rows else f"  {cls.name}", f"{ours:.3f} s",
                        f"{theirs:.3f} s", ours / theirs, unit="x", **target))
    return rows + [Row(f"  proc import of the {count} before it (the peers' files are not timed)",
                       f"{import_seconds:.3f} s")]


def memory_per_child(supervisor, count):
    """KiB per child, when nothing moves any more: PSS, its private part, and what the kernel has beside it."""
    time.sleep(2)
    parts = supervisor.parts()
    return {"processes": len(parts) / count, "pss": procfs.pss_kib(parts) / count,
            "private": procfs.private_kib(parts) / count, "kernel": procfs.kernel_kib(parts) / count}


def memory_rows(memory):
    ours = memory[Tasuki]
    rows = [Row("memory of supervision per child, PSS", f"{ours['pss']:.1f} KiB", "", ours["pss"], "at most", 25,
                "KiB")]
    for cls, theirs in memory.items():
        if cls is not Tasuki:
            rows.append(Row(f"  {cls.name}", f"{ours['pss']:.1f} KiB", f"{theirs['pss']:.0f} KiB",
                            ours["pss"] / theirs["pss"], unit="x"))
            rows.append(Row(f"  {cls.name}, page tables and kernel stacks", f"{ours['kernel']:.0f} KiB",
                            f"{theirs['kernel']:.0f} KiB", ours["kernel"] / theirs["kernel"], unit="x"))
    return rows


def restart(context, peers, raw):
    """SIGKILL of a child until its successor's first instruction. All in turn, each child at least 1.2 s old:
    s6 and runit wait where a child lived less than a second."""
    rounds = 5 if context.quick else 50
    supervisors, gaps = [], {}
    with contextlib.ExitStack() as stack:
        for cls in (Tasuki, Bare, *peers):
            root = context.work / f"restart-{cls.name.split()[0]}"
            one = cls(context, root, stampers(context, root, 1))
            stack.enter_context(running([one]))
            one.start()
            wait_stamps(root / "stamps", 1)
            supervisors.append(one)
        for turn in range(1, rounds + 1):
            time.sleep(1.2)
            for one in supervisors:
                gaps.setdefault(one.name, []).append(restart_once(one, turn))
    raw["restart_us"] = gaps
    return restart_rows(rounds, gaps)


def restart_rows(rounds, gaps):
    ours, rows = gaps[Tasuki.name], []
    for name, theirs in gaps.items():
        if name == Tasuki.name:
            continue
        for label, permille in ((f"SIGKILL -> successor runs, median of {rounds}: {name}", 500),
                                ("  99th percentile", 990)):
            here, there = (quantile(found, permille) / 1000 for found in (ours, theirs))
            cells = (label, f"{here:.2f} ms", f"{there:.2f} ms")
            if name == Bare.name and permille == 500:
                rows.append(Row(*cells, here, "at most", 1, "ms"))
            else:
                rows.append(Row(*cells, here / there, unit="x"))
    return rows


def restart_once(supervisor, turn):
    path = supervisor.root / "stamps"
    _, pid, _ = wait_stamps(path, turn)[-1]
    killed = time.monotonic_ns()
    os.kill(pid, signal.SIGKILL)
    time.sleep(0.004)  # do not take processor time from what is measured
    _, _, when = wait_stamps(path, turn + 1, pause=0.001)[-1]
    return (when - killed) / 1000


def idle(context, peers, raw):
    count, seconds = (10, 3) if context.quick else (100, 20)
    supervisors = []
    with contextlib.ExitStack() as stack:
        for cls in (Tasuki, *peers):
            one, _ = started(context, cls, f"idle-{cls.name}", count)
            stack.enter_context(running([one]))
            supervisors.append(one)
        time.sleep(5)
        before = [procfs.context_switches(one.parts()) for one in supervisors]
        time.sleep(seconds)
        after = [procfs.context_switches(one.parts()) for one in supervisors]
    switches = {one.name: sum(new.values()) - sum(old.get(thread, 0) for thread in new)
                for one, old, new in zip(supervisors, before, after)}
    raw["idle"] = {"processes": count, "seconds": seconds, "context_switches": switches}
    ours = switches.pop(Tasuki.name)
    rows = [Row(f"idle with {count} for {seconds} s: context switches", f"{ours}", "", ours, "at most", 0)]
    return rows + [Row(f"  {name}", f"{ours}", f"{theirs}") for name, theirs in switches.items()]


def growth(context, raw):
    sizes = [10, 100] if context.quick else [100, 1000]
    found = {"list": {}, "start": {}, "memory": {}}
    for size in sizes:
        starts = []
        for turn in range(1 if context.quick else 3):
            supervisor, took = started(context, Tasuki, f"growth-{size}-{turn}", size)
            with running([supervisor]):
                starts.append(took)
                if turn == 0:
                    found["list"][size] = min(list_seconds(supervisor, size) for _ in range(5))
                    time.sleep(2)
                    found["memory"][size] = procfs.pss_kib(supervisor.parts())
        found["start"][size] = min(starts)
    raw["growth"] = found
    label = " · ".join(f"{size:,}" for size in sizes)

    def row(work, key, scale, unit):
        values = " · ".join(f"{found[key][size] * scale:.1f}" for size in sizes)
        return Row(f"{work} of {label}: exponent", f"{values} {unit}", "", exponent(found[key]), "at most", 1.1)
    return [row("proc list", "list", 1000, "ms"), row("proc start --all", "start", 1000, "ms"),
            row("memory of the holders", "memory", 1 / 1024, "MiB")]


def list_seconds(supervisor, size):
    start = time.monotonic()
    text = supervisor.tasuki("--json", "proc", "list")
    took = time.monotonic() - start
    if text.count('"holder_pid"') < size:
        raise RuntimeError(f"proc list does not show all of {size} processes")
    return took


def spread(directory):
    """Lets ext4 place each folder made in it far from the others, as it does at the top of a disk. Otherwise they share
    a group of inodes with everything near by, and where many files were deleted in the last minutes, as beside a test
    suite, creating one costs ten times more: the group is searched for an inode that was not used lately."""
    with contextlib.suppress(OSError):
        subprocess.run(["chattr", "+T", str(directory)], stderr=subprocess.DEVNULL, check=False)


def measure(context):
    spread(context.work)
    raw, rows = {}, []
    peers = available(context, *PEERS)
    loggers = [cls for cls in peers if cls.name != "pm2"]
    for title, part in [("start and memory", lambda: start_and_memory(context, peers, raw)),
                        ("restart", lambda: restart(context, peers, raw)),
                        ("output", lambda: output(context, loggers, raw)),
                        ("idle", lambda: idle(context, peers, raw)),
                        ("growth", lambda: growth(context, raw))]:
        context.say(f"processes: {title}")
        rows += part()
    return rows, raw
