"""The lock rows of the speed table: what a lock costs, alone, contended, as a command, and after a death."""
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import time

from report import Row

HERE = pathlib.Path(__file__).resolve().parent
PEER = "proper-lockfile@4.1.2"
CONTENDERS = 8


def call(*command, **options):
    """Standard output of a command that must succeed."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=600, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} {command[1]} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def driver(context, *arguments):
    return json.loads(call(context.driver("bench-locks"), *arguments))


def workspace(context, name):
    root = context.work / name
    root.mkdir()
    call(context.tasuki, "init", cwd=root)
    return root


def median(values, key):
    return statistics.median(value[key] for value in values)


def thousands(per_second):
    return f"{per_second / 1000:.1f} k/s"


# ---- the peer from npm -------------------------------------------------------------------------------------

def install_peer(context):
    """The peer's node_modules, kept in the build directory; None, with a message, if it is not available."""
    if not (shutil.which("npm") and shutil.which("node")):
        context.say("npm is not installed: proper-lockfile is skipped")
        return None
    home = context.build / "bench-npm"
    if not (home / "node_modules" / "proper-lockfile").is_dir():
        home.mkdir(exist_ok=True)
        try:
            call("npm", "install", "--prefix", home, "--no-audit", "--no-fund", "--no-save", PEER, cwd=home)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            context.say(f"proper-lockfile is skipped, npm could not install it: {str(error)[:300]}")
            return None
    return home / "node_modules"


def peer(modules, *arguments):
    return ["node", str(HERE / "proper_lockfile.js"), str(modules), *map(str, arguments)]


def peer_death_ms(context, modules, stale_ms):
    """SIGKILL of the peer's holder until its next contender holds."""
    path = context.work / f"peer-{stale_ms}"
    processes = []

    def start(part):
        process = subprocess.Popen(peer(modules, part, path, stale_ms), stdout=subprocess.PIPE, text=True)
        processes.append(process)
        return process

    def hear(process, word):
        if process.stdout.readline().strip() != word:
            raise RuntimeError(f"proper-lockfile did not say {word}")
    try:
        holder = start("hold")
        hear(holder, "held")
        waiter = start("wait")
        hear(waiter, "waiting")
        killed = time.monotonic()
        holder.kill()
        hear(waiter, "held")
        return (time.monotonic() - killed) * 1000
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.stdout.close()


# ---- the measurements --------------------------------------------------------------------------------------

def uncontended(context, modules, raw):
    root = workspace(context, "uncontended")
    # Many short turns: the speed of the disk changes within seconds by more than any of this differs.
    counts = {"tasuki": 1000, "excl": 2000, "excl-content": 1000, "ofd": 20000}
    found = {method: [] for method in counts}
    peers = []
    for turn in range(5 if context.quick else 51):
        for method, count in counts.items():
            found[method].append(driver(context, "uncontended", method, root, count))
        if modules and turn % 10 == 0:
            peers.append(json.loads(call(*peer(modules, "uncontended", root / "peer", 500))))
    raw["uncontended"] = {**found, "proper-lockfile": peers}
    ours = median(found["tasuki"], "per_second")

    def row(work, values, **target):
        theirs = median(values, "per_second")
        return Row(work, thousands(ours), thousands(theirs), ours / theirs, unit="x", **target)
    rows = [row("acquire+release: O_EXCL create, write the holder, unlink", found["excl-content"], better="at least", limit=0.6),
            row("  bare O_EXCL create+unlink", found["excl"]),
            row("  OFD lock of an open file (the kernel's limit)", found["ofd"])]
    if peers:
        rows.append(row("  proper-lockfile", peers))
    return rows


def contended(context, raw):
    root = workspace(context, "contended")
    methods = ["tasuki", "flock", "excl-nap", "excl-yield", "excl", "ofd"]
    found = {method: [] for method in methods}
    for _ in range(1 if context.quick else 9):
        for method in methods:
            found[method].append(driver(context, "contended", method, root, CONTENDERS, 300 if context.quick else 800))
    raw["contended"] = found
    handed = [median(found[m], "handovers_per_second") for m in ("tasuki", "flock")]
    rows = [Row(f"{CONTENDERS} contenders, hand-overs: blocking flock(2), same work", thousands(handed[0]), thousands(handed[1]),
                handed[0] / handed[1], unit="x", better="at least", limit=0.5)]
    # The others serve in bursts: the process that releases takes the lock again. How a polling loop pauses decides its figures, so
    # all three ways are shown; the target of the 99th percentile is put on usleep(100).
    for method, label, has_target in [("flock", "blocking flock(2), same work", False),
                                      ("excl-nap", "polling O_EXCL, usleep(100) between", True),
                                      ("excl-yield", "polling O_EXCL, sched_yield between", False),
                                      ("excl", "polling O_EXCL, no pause", False),
                                      ("ofd", "OFD lock, waits in the kernel", False)]:
        speed = [median(found[m], "per_second") for m in ("tasuki", method)]
        late = [median(found[m], "p99_us") for m in ("tasuki", method)]
        rows.append(Row(f"{CONTENDERS} contenders, acquisitions: {label}", thousands(speed[0]), thousands(speed[1]), speed[0] / speed[1], unit="x"))
        target = {"better": "at most", "limit": 0.5} if has_target else {}
        rows.append(Row("  99th percentile of acquire", f"{late[0] / 1000:.2f} ms", f"{late[1] / 1000:.2f} ms",
                        late[0] / late[1], unit="x", **target))
    return rows


def command(context, raw):
    if not shutil.which("flock"):
        context.say("flock is not installed: lock run is not compared")
        return []
    root = workspace(context, "command")
    # Both in the same directory; flock's file exists from its first run on, as ours does.
    environment = {**os.environ, "TASUKI_ROOT": str(root)}
    text = call(context.driver("bench-locks"), "spawn", 50 if context.quick else 1000,
                context.tasuki, "lock", "run", "bench", "--", "true", "+",
                "flock", root / "flock.lock", "true", "+", "true", cwd=root, env=environment)
    ours, flock, bare = json.loads(text)
    raw["command"] = {"tasuki lock run": ours, "flock": flock, "true": bare}

    def row(work, theirs, **target):
        return Row(work, f"{ours['median_us'] / 1000:.2f} ms", f"{theirs['median_us'] / 1000:.2f} ms",
                   ours["median_us"] / theirs["median_us"], unit="x", **target)
    return [row("lock run L -- true: flock L true", flock, better="at most", limit=1.1), row("  true alone", bare)]


def death(context, modules, raw):
    root = workspace(context, "death")
    count = 5 if context.quick else 50
    ours, limit = driver(context, "death", "tasuki", root, count), driver(context, "death", "ofd", root, count)
    raw["death"] = {"tasuki": ours, "ofd": limit}
    rows = []
    for key in ("median", "max"):
        value = ours[f"{key}_us"] / 1000
        rows.append(Row(f"holder's death -> next holds, {key} of {count}: OFD lock", f"{value:.2f} ms",
                        f"{limit[f'{key}_us'] / 1000:.2f} ms", value, "at most", 10, "ms"))
    for stale_ms in [] if not modules or context.quick else [2000, 10000]:
        gap = peer_death_ms(context, modules, stale_ms)
        raw["death"][f"proper-lockfile stale {stale_ms}"] = gap
        rows.append(Row(f"  proper-lockfile, stale after {stale_ms // 1000} s", f"{ours['median_us'] / 1000:.2f} ms",
                        f"{gap:.0f} ms"))
    return rows


def growth(context, raw):
    sizes = [100, 1000] if context.quick else [100, 1000, 10000]
    seconds, speeds = {}, {}
    for size in sizes:
        root = workspace(context, f"growth-{size}")
        empty = driver(context, "uncontended", "tasuki", root, 2000)["per_second"]
        filler = subprocess.Popen([context.driver("bench-locks"), "fill", str(root), str(size)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            if "held" not in filler.stdout.readline():
                raise RuntimeError(f"could not hold {size} locks")
            seconds[size] = min(list_seconds(context, root, size) for _ in range(5))
            speeds[size] = (empty, driver(context, "uncontended", "tasuki", root, 2000)["per_second"])
        finally:
            filler.stdin.close()
            filler.wait()
            filler.stdout.close()
    raw["growth"] = {"list_seconds": seconds, "acquire_per_second_without_and_with": speeds}
    last, before = sizes[-1], sizes[-2]
    exponent = math.log10(seconds[last] / seconds[before])
    times = " · ".join(f"{seconds[size] * 1000:.1f}" for size in sizes)
    without, with_ = speeds[last]
    return [Row(f"lock list with {' · '.join(f'{size:,}' for size in sizes)} locks: exponent", f"{times} ms", "",
                exponent, "at most", 1.1),
            Row(f"acquire+release beside {last:,} held locks: beside none", thousands(with_), thousands(without),
                with_ / without, "at least", 0.8, "x")]


def list_seconds(context, root, size):
    start = time.monotonic()
    text = call(context.tasuki, "--root", root, "--json", "lock", "list")
    took = time.monotonic() - start
    if text.count("fill-") < size:
        raise RuntimeError(f"lock list does not show all of {size} locks")
    return took


def measure(context):
    raw = {}
    modules = install_peer(context)
    rows = []
    for title, part in [("uncontended", lambda: uncontended(context, modules, raw)),
                        ("contended", lambda: contended(context, raw)),
                        ("command", lambda: command(context, raw)),
                        ("death", lambda: death(context, modules, raw)),
                        ("growth", lambda: growth(context, raw))]:
        context.say(f"locks: {title}")
        rows += part()
    return rows, raw
