"""Flows of processes beside GNU make, ninja, xargs and a bare vfork loop, with the journal on; and loading a large flow."""
import math
import resource
import shutil
import statistics
import subprocess
import time

from report import Row

TRUE = "/bin/true"


class Turn(float):
    """Seconds by the clock; `cpu`: by the processors, of the program and everything it ran."""
    cpu = 0.0


def cpu_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(words, cwd):
    began, cpu = time.perf_counter(), cpu_of_children()
    done = subprocess.run([str(w) for w in words], cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"{words[0]} ended with {done.returncode}: {done.stderr[:500]!r}")
    turn = Turn(time.perf_counter() - began)
    turn.cpu = cpu_of_children() - cpu
    return turn


def edges_of(shape, count):
    """[(task, predecessors)]"""
    if shape == "independent":
        return [(i, []) for i in range(count)]
    if shape == "chain":
        return [(i, [i - 1] if i else []) for i in range(count)]
    tasks = []
    for i in range(0, count, 4):  # diamonds
        tasks += [(i, []), (i + 1, [i]), (i + 2, [i]), (i + 3, [i + 1, i + 2])]
    return tasks


def write(folder, shape, count):
    """The same work for every program, in a folder of its own."""
    folder.mkdir(exist_ok=True)
    tasks = edges_of(shape, count)
    needs = {t: f", needs: [{', '.join(f't{p}' for p in before)}]" if before else "" for t, before in tasks}
    (folder / "flow.yaml").write_text(f"limits: {{max_steps: {count * 2}}}\ntasks:\n"
                                      + "".join(f"  t{t}: {{run: {TRUE}{needs[t]}}}\n" for t, _ in tasks))
    (folder / "Makefile").write_text("all: " + " ".join(f"t{t}" for t, _ in tasks) + "\n"
                                     + "".join(f"t{t}: {' '.join(f't{p}' for p in before)}\n\t@{TRUE}\n" for t, before in tasks))
    (folder / "build.ninja").write_text(f"rule r\n  command = {TRUE}\n"
                                        + "".join(f"build t{t}: r {' '.join(f't{p}' for p in before)}\n" for t, before in tasks))
    return folder


def commands(context, count, parallel, with_loop):
    found = {"tasuki": [context.tasuki, "--root", ".", "run", "flow.yaml", "-j", parallel, "--quiet"],
             "make": ["make", "-s", "-j", parallel, "all"]}
    if with_loop:
        found["vfork loop"] = [context.driver("bench-vfork"), count, parallel]
        found["xargs"] = ["sh", "-c", f"seq {count} | xargs -P {parallel} -n 1 {TRUE}"]
    if shutil.which("ninja"):
        found["ninja"] = ["ninja", "--quiet", f"-j{parallel}"]
    else:
        context.say("ninja is not installed and skipped")
    return found


def compare(context, shape, count, parallel, rounds, with_loop, only=None):
    """The best turn of each program (or of the `only` one): they take turns, and a neighbour can only make one slower."""
    folder = write(context.work / f"{shape}-{count}", shape, count)
    run([context.tasuki, "--root", ".", "init"], folder)  # in a linked worktree it would be the main one's
    seconds = {}
    for _ in range(rounds):
        for name, words in commands(context, count, parallel, with_loop).items():
            if only not in (None, name):
                continue
            seconds.setdefault(name, []).append(run(words, folder))
            for run_left in (folder / ".aiflow/runs").glob("RUN-*"):
                shutil.rmtree(run_left)
            for left in (".ninja_log", ".ninja_deps"):
                (folder / left).unlink(missing_ok=True)
    return {name: min(values) for name, values in seconds.items()}


def others(found, *without):
    return ", ".join(f"{name} {value:.2f} s" for name, value in found.items() if name not in ("tasuki", *without))


def peak_kib(words, cwd):
    """Peak memory of a command, by time(1), which looks at that child only."""
    done = subprocess.run(["/usr/bin/time", "-f", "%M", *map(str, words)], cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True)
    return int(done.stderr.split()[-1])


def loading(context, rounds, raw):
    count = 10_000 if context.quick else 100_000
    folder = write(context.work / "load", "chain", count)
    programs = {"tasuki": [context.tasuki, "flow", "validate", "flow.yaml"]}
    if shutil.which("ninja"):
        programs["ninja"] = ["ninja", "-n", "-t", "query", "t0"]
    seconds = {name: statistics.median(run(words, folder) for _ in range(rounds)) for name, words in programs.items()}
    memory = {name: peak_kib(words, folder) for name, words in programs.items()}
    raw["load"] = {"seconds": seconds, "peak_kib": memory}
    peer = seconds.get("ninja")
    small = write(context.work / "load-small", "chain", count // 10)
    tenth = statistics.median(run(programs["tasuki"], small) for _ in range(rounds))
    return [Row(f"load a flow of {count:,} tasks", f"{seconds['tasuki'] * 1000:.0f} ms", f"ninja {peer * 1000:.0f} ms" if peer else "ninja",
                seconds["tasuki"] / peer if peer else None, "at most", 2.0, "x"),
            Row("… its memory", f"{memory['tasuki'] / 1024:.0f} MiB", f"ninja {memory['ninja'] / 1024:.0f} MiB" if peer else "ninja",
                memory["tasuki"] / memory["ninja"] if peer else None, "at most", 1.0, "x"),
            Row(f"exponent of loading, {count // 10:,} to {count:,}", "", "", math.log(seconds["tasuki"] / tenth, 10), "at most", 1.1, "")]


def growing(context, rounds, raw):
    """Each task of a chain writes a key of its own, which all later ones can read; beside it the same chain that keeps nothing."""
    count, used = 300 if context.quick else 3000, {}
    for name, target in (("kept", "$TASUKI_OUTPUT"), ("not kept", "/dev/null")):
        folder = context.work / f"channel-{name.replace(' ', '-')}"
        folder.mkdir()
        run([context.tasuki, "--root", ".", "init"], folder)
        lines = [f"  t{i}: {{run: 'echo k{i}=some-twenty-characters >> {target}'{f', needs: t{i - 1}' if i else ''}}}\n" for i in range(count)]
        (folder / "flow.yaml").write_text(f"limits: {{max_steps: {count * 2}}}\ntasks:\n" + "".join(lines))
        words = [context.tasuki, "--root", ".", "run", "flow.yaml", "--quiet"]
        used[name] = min(run(words, folder).cpu for _ in range(min(rounds, 3))) / count * 1e6
    raw["growing channel, us"] = used
    return Row(f"chain of {count:,} tasks that write a value each, against one that keeps none", f"{used['kept']:.0f} us/task",
               f"{used['not kept']:.0f} us/task", used["kept"] / used["not kept"], "at most", 2.0, "x")


def measure(context):
    rounds = 1 if context.quick else 7
    scale = 10 if context.quick else 1
    raw, rows = {}, []
    found = raw["independent"] = compare(context, "independent", 5000 // scale, 2, rounds, True)
    raw["independent_cpu_us"] = {name: turn.cpu / (5000 // scale) * 1e6 for name, turn in found.items()}
    rows.append(Row(f"{5000 // scale:,} x {TRUE}, -j2, journal on: share of the bare vfork loop", f"{found['tasuki']:.2f} s",
                    others(found), found["vfork loop"] / found["tasuki"], "at least", 0.93, "x"))
    rows.append(Row("… against make", f"{found['tasuki']:.2f} s", f"make {found['make']:.2f} s", found["tasuki"] / found["make"],
                    "at most", 1.0, "x"))
    used = raw["independent_cpu_us"]
    rows.append(Row("… processor time per task, of runner and tasks", f"{used['tasuki']:.0f} us",
                    f"vfork loop {used['vfork loop']:.0f} us, make {used['make']:.0f} us"))
    for shape, count in (("chain", 1000), ("diamonds", 4000)):
        found = raw[shape] = compare(context, shape, count // scale, 2, rounds, False)
        rows.append(Row(f"{shape} of {count // scale:,} processes against make", f"{found['tasuki'] / (count // scale) * 1e6:.0f} us/task",
                        others(found), found["tasuki"] / found["make"], "at most", 1.0, "x"))
    single = raw["single"] = compare(context, "independent", 1, 1, 5 * rounds, False)
    rows.append(Row("one task, start to end, against make", f"{single['tasuki'] * 1000:.1f} ms", f"make {single['make'] * 1000:.1f} ms",
                    single["tasuki"] / single["make"], "at most", 1.0, "x"))
    large = compare(context, "independent", 20000 // scale, 2, 1 if context.quick else 2, False, "tasuki")
    small = raw["independent"]["tasuki"] / (5000 // scale)
    rows.append(Row("cost per task at four times the size", f"{large['tasuki'] / (20000 // scale) * 1e6:.0f} us/task", "",
                    large["tasuki"] / (20000 // scale) / small, "at most", 1.2, "x"))
    rows.append(growing(context, rounds, raw))
    rows += loading(context, max(3, rounds), raw)
    return rows, raw
