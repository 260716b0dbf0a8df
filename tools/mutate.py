#!/usr/bin/env python3
"""Do the tests notice when the code is wrong? Makes small changes to src/, builds each, runs the fitting suites.

    tools/mutate.py [N] [FOLDER] [--seed S] [--jobs J] [--list] [--only KEY]

N (default 200) mutants of src/ or of one folder (`lock`, `src/lock`, `src/lock/guard.c`). A mutant that no suite notices
is a survivor; it is printed with its place and its diff, and the exit status is 1. What does not compile or compiles to
the same object is replaced by another mutant. A mutant that changes nothing a caller can see is struck out in
tests/mutants/equivalent.txt. A run continues where the last one stopped: a verdict holds as long as src/ and the suites that
gave it are the same, so after a change to a test only that suite runs on the survivors.

Each mutant is built in a copy of the tree (build-mutate/tree-N). Its tests run in a cage: a PID namespace of their own,
so that no signal reaches beyond it and no process outlives it, with a /tmp of their own and everything else read-only.
"""

import argparse
import collections
import concurrent.futures
import ctypes
import fcntl
import hashlib
import json
import os
import pathlib
import re
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
import mutants as mutation  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
HOME = ROOT / "build-mutate"
EQUIVALENT = ROOT / "tests/mutants/equivalent.txt"
MEASURE_S = 300
WORKER = "tasuki-worker"  # it is not built without hiredis
SUITES_MAX_CPU_S = 90  # of a mutant's suites, as they need it without a mutant: some minutes, if nothing else runs
CAUGHT, SURVIVED, HUNG, STILLBORN, SAME, EQUAL = "caught", "survived", "hung", "does not compile", "same object", "equivalent"
COUNTED = (CAUGHT, HUNG, SURVIVED)

# Which suites fit a folder of src/: how their names begin. Each suite is in one of these lists or in LEFT_OUT.
FITTING = {
    "base": "unit/ spec/test_words spec/test_fuzz_corpora spec/test_cli spec/test_bad_places spec/test_places "
            "spec/test_lock_ops spec/test_flow_files spec/test_proc_templates spec/test_judging spec/test_advice "
            "spec/test_unreadable spec/test_printed crash/test_private_name crash/test_failing_calls spec/test_refusals",
    "store": "unit/db unit/events unit/find unit/fs spec/test_places spec/test_bad_places spec/test_status spec/test_doctor "
             "spec/test_odd_cases spec/test_http_events spec/test_lookout spec/test_agents spec/test_cost spec/test_durability "
             "spec/test_unreadable spec/test_lock_ops spec/test_busy crash/test_every_step crash/test_failing_calls",
    "lock": "unit/guard unit/judge unit/lock unit/record unit/wait spec/test_lock spec/test_d39_locks spec/test_judging "
            "spec/test_wait spec/test_u2_sprint spec/test_living_holder spec/test_durability spec/test_unreadable "
            "spec/test_doctor. spec/test_doctor_fixes crash/test_private_name crash/test_inherited crash/test_waiters crash/test_every_step "
            "crash/test_force crash/test_guard_busy storm/test_foreign storm/test_races crash/test_failing_calls",
    "redis": "spec/test_redis",
    "own": "unit/instance unit/who spec/test_who spec/test_003 spec/test_agents spec/test_doctor_work spec/test_http_lease spec/test_mcp_http "
           "spec/test_client_end spec/test_living_holder spec/test_wait spec/test_status "
            "crash/test_failing_calls spec/test_refusals spec/test_tidy",
    "proc": "unit/proc spec/test_proc spec/test_memo spec/test_servers spec/test_up spec/test_attach spec/test_steps_servers spec/test_holder_adopt spec/test_holder_stop spec/test_004 spec/test_holder "
            "spec/test_example_processes spec/test_unreadable spec/test_doctor_fixes crash/test_proc_every_step "
            "crash/test_failing_calls spec/test_refusals spec/test_http_serve spec/test_notify crash/test_notify spec/test_tidy",
    "hold": "unit/hold spec/test_attach spec/test_holder spec/test_proc spec/test_004_exits spec/test_durability spec/test_notify",
    "graph": "unit/memory unit/graph unit/runner unit/wire spec/test_flow spec/test_001 spec/test_run spec/test_examples "
             "spec/test_answers spec/test_durability spec/test_unreadable crash/test_flow_kill crash/test_run_begin spec/test_doctor_fixes spec/test_prune crash/test_prune "
             "crash/test_failing_calls spec/test_refusals spec/test_tidy",
    "run": "unit/book spec/test_queue spec/test_request spec/test_run spec/test_d39_runs spec/test_detach "
           "spec/test_remote_runs spec/test_latest_run spec/test_answers spec/test_durability spec/test_unreadable "
           "crash/test_run storm/test_claims crash/test_failing_calls spec/test_refusals spec/test_prune crash/test_prune spec/test_queue_stay spec/test_short_ids spec/test_notify crash/test_notify spec/test_tidy spec/test_durability",
    "doctor": "spec/test_doctor spec/test_odd_cases spec/test_proc_restore spec/test_unreadable spec/test_latest_run "
              "spec/test_printed",
    "ops": "unit/ops spec/test_cli spec/test_lock spec/test_status spec/test_request spec/test_queue spec/test_proc_templates "
           "spec/test_proc_depends spec/test_proc_restore spec/test_proc_logs spec/test_proc_log_parts spec/test_003 spec/test_agents_fixes "
           "spec/test_flow_files spec/test_flow_run spec/test_flow_reflow spec/test_u2 spec/test_wait spec/test_mcp_confirm "
           "spec/test_http_table spec/test_run spec/test_detach spec/test_proc_exchange spec/test_doctor. "
           "spec/test_mcp_tools spec/test_d39_runs spec/test_http_attacks spec/test_advice spec/test_answers "
           "spec/test_living_holder spec/test_unreadable spec/test_latest_run spec/test_cost spec/test_remote_runs "
           "spec/test_proc_ready spec/test_proc_restart spec/test_words spec/test_004_exits spec/test_agents. "
           "spec/test_printed spec/test_http_serve crash/test_failing_calls spec/test_refusals spec/test_short_ids spec/test_up. "
           "spec/test_lookout spec/test_attach spec/test_prune spec/test_servers spec/test_http_events spec/test_notify spec/test_tidy",
    "cli": "unit/cli_parse spec/test_cli spec/test_words spec/test_status spec/test_watch spec/test_detach spec/test_u2 spec/test_lock_ops "
           "spec/test_doctor spec/test_servers spec/test_up spec/test_proc_logs spec/test_proc_exchange spec/test_proc_templates spec/test_request "
           "spec/test_003 spec/test_flow_run spec/test_flow_when spec/test_run_ends spec/test_run_logs spec/test_run_output spec/test_run_tasks "
           "spec/test_agents_fixes spec/test_advice spec/test_living_holder spec/test_printed spec/test_refusals spec/test_help spec/test_hints spec/test_screens spec/test_screens_runs spec/test_screens_servers spec/test_run_screens spec/test_times spec/test_questions spec/test_waits",
    "http": "unit/conn spec/test_http spec/test_mcp_http spec/test_remote_runs spec/test_client_end spec/test_advice "
            "spec/test_living_holder spec/test_refusals",
    "mcp": "unit/task spec/test_mcp spec/test_u2_prompts spec/test_advice spec/test_living_holder spec/test_unreadable "
           "spec/test_remote_runs spec/test_client_end",
    "main.c": "spec/test_cli spec/test_words",
}
# Files whose work other suites see than those of their folder: work on other machines.
ELSEWHERE = ("src/graph/pack", "src/graph/remote", "src/graph/wire", "src/run/elsewhere", "src/run/settle", "src/ops/op_workers",
             "src/cli/print_workers", "src/doctor/workers")
# Suites that judge no folder: three are about the documentation, one is about the harness, and the storms take minutes or
# depend on chance.
LEFT_OUT = ("spec/test_docs spec/test_steps_runs spec/test_every_night spec/test_picture spec/test_recipes spec/test_harness storm/test_proc_kill_anything "
            "storm/test_proc_races storm/test_queue_kill storm/test_conflict_kill storm/test_serve_kill storm/test_storm "
            "storm/test_line storm/test_redis_storm")

# Everything is read-only but the tree and /tmp, which is a folder of ours. The tree itself may be below /tmp.
CAGE = r"""
set -e
tmp=$1 tree=$2
shift 2
mount --make-rprivate /
case $tree in
/tmp/*)
    mkdir -p "$tmp/${tree#/tmp/}"
    mount --bind "$tree" "$tmp/${tree#/tmp/}"
    ;;
*) mount --bind "$tree" "$tree" ;;
esac
mount --rbind "$tmp" /tmp
cut -d ' ' -f 5 /proc/self/mountinfo | while read -r place; do
    case $place in
    /proc | /proc/* | /sys | /sys/* | /dev | /dev/* | /tmp | /tmp/* | "$tree" | "$tree"/*) ;;
    *) mount -o remount,bind,ro "$place" || test ! -w "$place" ;;
    esac
done
cd "$tree"
status=0
"$@" || status=$?
exit "$status"
"""


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Tree:
    """A copy of the project with a build in it, for one mutant at a time."""

    def __init__(self, number):
        self.path = HOME / f"tree-{number}"
        self.build = self.path / "build"
        self.tmp = HOME / f"tmp-{number}"
        self.mutated = None
        self.cpu_seconds = 0.0  # of the last suite that ran to its end

    def prepare(self, files):
        """Makes it equal to the working tree, changed and new files included."""
        wanted = {self.path / name for name in files}
        for old in self.path.rglob("*"):
            if self.build not in (old, *old.parents) and not old.is_dir() and old not in wanted:
                old.unlink()
        for name in files:
            copy_if_changed(ROOT / name, self.path / name)
        if not (self.build / "build.ninja").exists():
            self.run_tool("meson", "setup", "-Doptimization=2", "-Ddebug=false",
                          "-Dc_args=-Werror=incompatible-pointer-types -Werror=int-conversion", "build")
        self.run_tool("ninja", "-C", "build", "--quiet")

    def run_tool(self, *argv):
        env = dict(os.environ, CCACHE_BASEDIR=str(self.path), CCACHE_NOHASHDIR="1")
        done = subprocess.run(argv, cwd=self.path, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            sys.exit(f"mutate: {' '.join(argv)} failed in {self.path}\n{done.stdout[-4000:]}")

    def ninja(self, *targets):
        # Without ccache: it would fill up with mutants.
        done = subprocess.run(["ninja", "-C", str(self.build), "--quiet", *targets], stdin=subprocess.DEVNULL, check=False,
                              env=dict(os.environ, CCACHE_DISABLE="1"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return done.returncode == 0

    def object_of(self, file):
        for entry in json.loads((self.build / "compile_commands.json").read_text()):
            if (self.build / entry["file"]).resolve() == (self.path / file).resolve():
                return entry["output"]
        raise KeyError(file)

    def mutate(self, mutant):
        """Builds it. Returns None, or why it is no mutant."""
        self.restore()
        target = self.object_of(mutant.file)
        if not self.ninja(target):
            sys.exit(f"mutate: {target} does not build without a mutant")
        original = (self.build / target).read_bytes()
        self.mutated = self.path / mutant.file, (self.path / mutant.file).read_text()
        self.mutated[0].write_text(mutant.apply(self.mutated[1]))
        if not self.ninja(target):
            return STILLBORN
        if (self.build / target).read_bytes() == original:
            return SAME
        return None

    def restore(self):
        if self.mutated:
            self.mutated[0].write_text(self.mutated[1])
            self.mutated = None

    def run(self, suite, deadline):
        """Links and runs a suite, in the cage, until its first failure. Returns (verdict, what failed)."""
        there = [name for name in programs_of(suite) if name != WORKER or (self.build / f"{name}.p").exists()]
        if not self.ninja(*there):
            return CAUGHT, "does not link"
        shutil.rmtree(self.tmp, ignore_errors=True)
        self.tmp.mkdir(parents=True)
        self.tmp.chmod(0o1777)
        user = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
        argv = ["unshare", *user, "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "sh", "-c", CAGE, "cage",
                str(self.tmp), str(self.path), *command_of(suite, self)]
        env = dict(os.environ, TASUKI_BUILD=str(self.build), PYTHONPATH=str(self.path / "tests"),
                   PYTHONDONTWRITEBYTECODE="1", TMPDIR="/tmp")
        with subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              preexec_fn=die_with_parent) as proc:
            try:
                verdict, self.cpu_seconds = follow(proc, time.monotonic() + deadline)
                return verdict
            finally:
                proc.kill()  # and with it, by --kill-child, all that runs in the cage
                proc.wait()
                shutil.rmtree(self.tmp, ignore_errors=True)


def follow(proc, end):
    """Reads TAP until the first failure or the end. Returns ((verdict, what failed), seconds of a processor)."""
    text, planned, passed = b"", None, 0
    with selectors.DefaultSelector() as selector:
        selector.register(proc.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0, end - time.monotonic())):
                return (HUNG, "did not end in time"), 0.0
            chunk = os.read(proc.stdout.fileno(), 65536)
            text += chunk
            *lines, text = (text + b"\n" if not chunk else text).split(b"\n")
            for line in (one.decode("utf-8", "replace") for one in lines):
                if line.startswith("not ok"):
                    return (CAUGHT, line.partition(" - ")[2] or line), 0.0
                passed += line.startswith("ok")
                planned = int(line[3:].split()[0]) if line.startswith("1..") else planned
            if not chunk:
                break
    _, status, used = os.wait4(proc.pid, 0)
    proc.returncode = os.waitstatus_to_exitcode(status)
    if proc.returncode or planned is None or passed != planned:
        return (CAUGHT, f"ended with {proc.returncode} after {passed} of {planned} tests"), 0.0
    return (SURVIVED, ""), used.ru_utime + used.ru_stime


def seconds_of(began, tree):
    return [round(time.monotonic() - began, 2), round(tree.cpu_seconds, 2)]


def guess_of(path):
    count = len(re.findall(r"^\s*(?:@test|@defect|TEST)\(", path.read_text(), re.MULTILINE))
    return [1.0 * count, 0.1 * count]


def copy_if_changed(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_symlink():
        target.unlink(missing_ok=True)
        target.symlink_to(os.readlink(source))
    elif not target.is_file() or source.read_bytes() != target.read_bytes():
        shutil.copy(source, target)


def command_of(suite, tree):
    if suite.startswith("unit/"):
        return [str(tree.build / "tests" / suite)]
    return [sys.executable, str(tree.path / "tests" / suite), "--medium"]


def programs_of(suite):
    """The programs that it needs; none: all of them."""
    if suite.startswith("unit/"):
        return [f"tests/{suite}"]
    if suite.startswith("storm/") or any(word in suite for word in ("fuzz", "property", "example", "docs", "001")):
        return []
    more = [WORKER] * ("redis" in suite) + ["tests/mcp/tasuki-conformance"] * ("mcp" in suite)
    return ["tasuki", "tasuki-hold", "tests/fault/tasuki-fault", "tests/fault/tasuki-hold", *more]


def all_suites():
    """[(name, file)]"""
    found = [(f"unit/{path.stem}", path) for path in sorted((ROOT / "tests/unit").glob("*_test.c"))]
    for folder in ("spec", "crash", "storm"):
        found += [(f"{folder}/{path.name}", path) for path in sorted((ROOT / "tests" / folder).glob("test_*.py"))]
    return found


def parts_of(path):
    """A suite, and the text that it compares with."""
    known = path.parent / "golden" / f"{path.stem.removeprefix('test_')}.txt"
    return [part for part in (path, known) if part.is_file()]


def digest(paths):
    found = hashlib.sha256()
    for path in paths:
        found.update(path.name.encode() + b"\0" + (path.read_bytes() if path.is_file() else b"") + b"\0")
    return found.hexdigest()[:10]


class State:
    """What is known of these sources: how long each suite takes, and what each mutant came to. Written after each change.

    seconds   suite and its digest -> [seconds, seconds of a processor] of a run that passed; None: it fails without a mutant
    verdicts  key -> [verdict, suite and its digest, what failed]
    passed    key of a survivor -> [suites and their digests]
    """

    def __init__(self, path):
        self.path = path
        self.lock = threading.Lock()
        known = json.loads(path.read_text()) if path.exists() else {}
        self.seconds = known.get("seconds", {})
        self.verdicts = known.get("verdicts", {})
        self.passed = known.get("passed", {})

    def save(self):
        with self.lock:
            hidden = self.path.with_suffix(".new")
            known = {"seconds": self.seconds, "verdicts": self.verdicts, "passed": self.passed}
            hidden.write_text(json.dumps({name: dict(some) for name, some in known.items()}, indent=1))  # others write meanwhile
            hidden.replace(self.path)


class Run:
    def __init__(self, options):
        self.options = options
        self.files = git("ls-files", "-coz", "--exclude-standard").split("\0")
        self.files = [name for name in self.files if name and os.path.lexists(ROOT / name)]
        self.struck = read_equivalent()
        self.suites = {suite: f"{suite} {digest(parts_of(path))}" for suite, path in all_suites()}
        self.state = State(HOME / f"state-{digest(self.judged_by_all())}.json")
        self.guesses = {suite: guess_of(path) for suite, path in all_suites()}
        self.trees = []

    def judged_by_all(self):
        """The files that decide about every verdict: all but the suites themselves."""
        suites = {part for _, path in all_suites() for part in parts_of(path)}
        return [ROOT / name for name in self.files
                if name.startswith(("src/", "tests/", "include/", "share/")) and ROOT / name not in suites
                and ROOT / name != EQUIVALENT and not name.startswith("tests/checks/")]

    def candidates(self):
        """All mutants of the folder in the seed's order: kind by kind in turn, so that the rare kinds are seen."""
        codes = mutation.reason_codes((ROOT / "src/base/errors.def").read_text())
        by_kind = {}
        for name in self.files:
            if name.startswith(self.options.folder) and name.endswith(".c"):
                for mutant in mutation.find(name, (ROOT / name).read_text(), codes):
                    by_kind.setdefault(mutant.kind, []).append(mutant)
        def drawn(word):
            # By a hash and not by shuffling: a change of the sources leaves the order of the other mutants as it is.
            return hashlib.sha256(f"{self.options.seed} {word}".encode()).digest()

        for some in by_kind.values():
            some.sort(key=lambda mutant: drawn(mutant.key))
        while by_kind:
            for kind in sorted(by_kind, key=drawn):
                yield by_kind[kind].pop()
                if not by_kind[kind]:
                    del by_kind[kind]

    # -- suites -----------------------------------------------------------------------------------------------

    def chosen(self, folders):
        parts = tuple(part for folder in folders for part in FITTING[folder].split())
        return [suite for suite in self.suites if suite.startswith(parts)]

    def seconds(self, suite):
        """[seconds, seconds of a processor]: measured, or guessed from the number of its tests; None: it fails by itself."""
        return self.state.seconds.get(self.suites[suite], self.guesses[suite])

    def deadline(self, suite):
        return 30 + 5 * self.seconds(suite)[0]

    def fitting(self, mutant):
        """The suites to run. First come those that have caught much for the time that they take, and those whose names share
        words with the file's."""
        words = set(pathlib.Path(mutant.file).stem.split("_")) - {"op", "test", "spec", "crash", "unit", "storm"}
        words |= {"redis"} if mutant.file.startswith(ELSEWHERE) else set()
        caught = collections.Counter(suite.split(" ")[0] for verdict, suite, _ in list(self.state.verdicts.values())
                                     if verdict == CAUGHT)

        def worth(suite):
            return (5 * sum(word in suite for word in words) + caught[suite] + 1) / (self.seconds(suite)[1] + 0.3)

        folders = ["redis"] * mutant.file.startswith(ELSEWHERE) + [mutant.folder]
        chosen = [suite for suite in self.chosen(folders) if self.seconds(suite) is not None]
        kept, needed = [], 0.0
        for suite in sorted(chosen, key=lambda suite: self.seconds(suite)[1]):
            needed += self.seconds(suite)[1]
            if needed <= SUITES_MAX_CPU_S or not kept or any(word in suite for word in words):
                kept.append(suite)
        return sorted(kept, key=worth, reverse=True)

    def measure(self, suite, tree):
        """Runs it without a mutant. Whether it passes; how long it takes decides about order and deadline."""
        began = time.monotonic()
        verdict, failed = tree.run(suite, MEASURE_S)
        passes = verdict == SURVIVED
        self.state.seconds[self.suites[suite]] = seconds_of(began, tree) if passes else None
        if not passes and not failed.endswith("0 of 0 tests"):
            say(f"{suite} is left out: without a mutant: {failed}")
        self.state.save()
        return passes

    def is_confirmed(self, mutant, tree, suite, verdict):
        """Whether the mutant is why the suite failed: the suite passes without it. A suite that has hung is asked again, at
        the same load and with the same time; one that has failed only if it is not known to pass."""
        if verdict == CAUGHT and self.suites[suite] in self.state.seconds:
            return True
        tree.restore()
        if verdict == CAUGHT:
            passes = self.measure(suite, tree)
        else:
            passes = tree.run(suite, self.deadline(suite))[0] == SURVIVED
            if not passes:
                say(f"{suite} does not end in time without a mutant either: it is not counted for {mutant.key}")
                if self.suites[suite] not in self.state.seconds:  # its time was a guess
                    self.measure(suite, tree)
        if not passes:
            tree.mutate(mutant)
        return passes

    def in_trees(self, items, function):
        """function(item, tree) for each item, as many at a time as there are trees."""
        free = list(self.trees)
        lock = threading.Lock()

        def call(item):
            with lock:
                tree = free.pop()
            try:
                return function(item, tree)
            finally:
                with lock:
                    free.append(tree)

        with concurrent.futures.ThreadPoolExecutor(len(self.trees)) as pool:
            return list(pool.map(call, items))

    # -- mutants ----------------------------------------------------------------------------------------------

    def try_one(self, mutant, tree, suites):
        """[verdict, suite and its digest, what failed]"""
        problem = tree.mutate(mutant)
        if problem:
            return [problem, "", ""]
        for suite in suites:
            began = time.monotonic()
            verdict, failed = tree.run(suite, self.deadline(suite))
            if verdict != SURVIVED:
                if self.is_confirmed(mutant, tree, suite, verdict):
                    return [verdict, self.suites[suite], failed]
                continue
            self.state.seconds.setdefault(self.suites[suite], seconds_of(began, tree))
            self.state.passed.setdefault(mutant.key, []).append(self.suites[suite])
        return [SURVIVED, "", ""]

    def decide(self, mutant, tree):
        if mutant.key in self.struck:
            return [EQUAL, "", self.struck[mutant.key]]
        if self.options.only:
            self.state.verdicts.pop(mutant.key, None)
            self.state.passed.pop(mutant.key, None)
        known = self.state.verdicts.get(mutant.key, [SURVIVED, "", ""])
        if known[0] != SURVIVED and (not known[1] or known[1] in self.suites.values()):
            return known
        passed = self.state.passed.get(mutant.key, [])
        suites = [suite for suite in self.fitting(mutant) if self.suites[suite] not in passed]
        if not suites:
            return known
        began = time.monotonic()
        verdict = self.state.verdicts[mutant.key] = self.try_one(mutant, tree, suites)
        self.state.save()
        if verdict[0] in COUNTED:
            say(f"{verdict[0]:8} {place(mutant)} {mutant.kind} {mutant.key} {time.monotonic() - began:.0f} s "
                f"{verdict[1].split(' ')[0]} {verdict[2]}".rstrip())
        return verdict

    def go(self):
        """[(mutant, verdict)] of N mutants that count."""
        found = list(self.candidates())
        if self.options.only:
            found = [mutant for mutant in found if mutant.key == self.options.only]
        if not found:
            sys.exit(f"mutate: there is no {'such mutant' if self.options.only else 'code to change'} in {self.options.folder}")
        self.trees = [Tree(n) for n in range(self.options.jobs)]
        for tree in self.trees:
            say(f"building {tree.path.relative_to(ROOT)}")
            tree.prepare(self.files)
        source = iter(found)
        results, lock = [], threading.Lock()
        counted = 0

        def worker(_, tree):
            nonlocal counted
            while True:
                with lock:
                    mutant = next(source, None) if counted < self.options.count else None
                    if not mutant:
                        break
                    counted += 1
                verdict = self.decide(mutant, tree)
                with lock:
                    results.append((mutant, verdict))
                    counted -= verdict[0] not in COUNTED
            tree.restore()

        self.in_trees(range(len(self.trees)), worker)
        return results


def read_equivalent():
    """{key: reason}"""
    found = {}
    for line in EQUIVALENT.read_text().splitlines() if EQUIVALENT.exists() else []:
        if line.strip() and not line.startswith("#"):
            key, _, reason = line.split(None, 2)
            found[key] = reason
    return found


def place(mutant):
    return f"{mutant.file}:{mutant.line}"


def say(text):
    print(f"mutate: {text}", flush=True)


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def report(results):
    """Prints the score and the survivors; returns the exit status."""
    scores, survivors = {}, []
    for mutant, verdict in results:
        if verdict[0] in COUNTED:
            score = scores.setdefault(mutant.folder, [0, 0])
            score[0] += verdict[0] != SURVIVED
            score[1] += 1
        if verdict[0] == SURVIVED:
            survivors.append(mutant)
    for mutant in survivors:
        print(f"\n{place(mutant)} {mutant.function}: {mutant.kind}, {mutant.key}\n{mutant.diff()}")
    print()
    for folder, (caught, all) in sorted(scores.items()):
        print(f"{folder:8} {caught:4} of {all:4} caught  {100 * caught / all:5.1f} %")
    caught, all = sum(c for c, _ in scores.values()), sum(a for _, a in scores.values())
    print(f"{caught} of {all} mutants caught, {len(survivors)} survived"
          + (f" ({100 * caught / all:.1f} %)" if all else ""))
    return 1 if survivors else 0


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="N | FOLDER", help="how many mutants (200); a folder or file of src/")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument("--list", action="store_true", help="list the mutants that would be tried, and try none")
    parser.add_argument("--only", metavar="KEY", help="try this mutant again")
    options = parser.parse_args()
    options.count, options.folder = 200, "src/"
    for word in options.words:
        if word.isdigit():
            options.count = int(word)
        else:
            options.folder = word.rstrip("/") if word.startswith("src") else f"src/{word.rstrip('/')}"
            if not (ROOT / options.folder).exists():
                parser.error(f"there is no {options.folder}")
            options.folder += "/" if (ROOT / options.folder).is_dir() else ""
    options.jobs = 1 if options.only else max(1, options.jobs)
    return options


def main():
    options = options_of()
    HOME.mkdir(exist_ok=True)
    run = Run(options)
    if options.list:
        for mutant, _ in zip(run.candidates(), range(options.count)):
            print(f"{mutant.key} {place(mutant)} {mutant.function}: {mutant.kind}\n{mutant.diff()}")
        return 0
    with open(HOME / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"mutate: another run works in {HOME}")
        return report(run.go())


if __name__ == "__main__":
    sys.exit(main())
