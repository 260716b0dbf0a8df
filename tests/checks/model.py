#!/usr/bin/env python3
"""Checks docs/models/*.pml with Spin: every variant of the protocols is safe, every mutant is caught.

    python3 tests/checks/model.py            the bounds that ./dev test uses, about a minute
    python3 tests/checks/model.py --long     bigger bounds as well
    python3 tests/checks/model.py --table    the results as a Markdown table (for docs/models/README.md)

Prints TAP. Without spin or gcc every line is a skip."""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

MODELS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "models"
MEMORY_MB = 900  # for each of two searches at once
SAFE, CAUGHT = "no violation", "violation"

# lock.pml: (rule, contenders/rounds/crashes, definitions, expected)
LOCK = [
    ("the protocol is exclusive, two rounds", "2/2/2", "", SAFE),
    ("the protocol is exclusive", "3/1/1", "", SAFE),
    ("a dead holder's lock is taken over by one", "3/1/1", "STALE0", SAFE),
    ("renewing keeps it exclusive", "2/1/2", "RENEW STALE0", SAFE),
    ("renewing by the holder and by contenders", "3/1/0", "RENEW", SAFE),
    ("a killed holder's child keeps the lock", "3/1/1", "CHILD", SAFE),
    ("a killed holder's child keeps the lock, two rounds", "2/2/2", "CHILD", SAFE),
    ("a killed holder's child, renewed by others", "2/1/2", "CHILD RENEW STALE0", SAFE),
    ("a spare inode that is written again", "2/2/2", "SPARE STALE0", SAFE),
    ("a spare inode, force by fence", "3/1/0", "SPARE FENCE", SAFE),
    ("a spare inode, renew and child", "2/1/2", "SPARE RENEW CHILD STALE0", SAFE),
    ("force by kill", "3/1/1", "KILL", SAFE),
    ("force by kill waits for the child", "2/1/1", "KILL CHILD RENEW", SAFE),
    ("force by fence: no late commit", "3/1/0", "FENCE", SAFE),
    ("force by fence with renewing", "2/1/1", "FENCE RENEW SPARE", SAFE),
    ("a foreign O_EXCL contender", "2/1/1", "FWX", SAFE),
    ("a foreign U2 contender", "2/1/1", "FU2", SAFE),
    ("life byte dropped before the unlink is harmless", "2/1/1", "EARLYLIFE STALE0", SAFE),
    ("a kept place in line is one call's, and nobody overtakes who is in line", "3/1/1", "LINE", SAFE),
    ("mutant: a kept place that stays in the table", "3/1/0", "LINE KEEPTWICE", CAUGHT),
    ("mutant: a call whose time is up takes what is free", "3/1/0", "LINE LASTTRY", CAUGHT),
    ("mutant: the head of the line does not look again", "3/1/0", "LINE NOLOOK", CAUGHT),
    ("mutant: no guard", "3/1/1", "NOGUARD STALE0", CAUGHT),
    ("mutant: release without a look", "3/1/1", "NOVERIFY FENCE", CAUGHT),
    ("mutant: a renewed lock known by its inode", "2/1/0", "BYINODE RENEW", CAUGHT),
    ("mutant: a spare inode known by its number", "3/1/0", "BYINODE SPARE FENCE", CAUGHT),
    ("mutant: the holder renews without the guard", "2/1/0", "PLAINRENEW RENEW FENCE", CAUGHT),
    ("mutant: others renew without the guard", "3/1/0", "PLAINMEET RENEW", CAUGHT),
    ("mutant: the child has no life byte", "2/1/1", "NOINHERIT CHILD", CAUGHT),
    ("mutant: U2's temporary name left free", "2/1/1", "NODIR FU2", CAUGHT),
    ("D39 as written is not exclusive", "3/1/1", "NAIVE", CAUGHT),
    ("U2 as written is not exclusive", "2/1/0", "U2ONLY", CAUGHT),
    ("Mercurial's break lock is not exclusive", "3/1/1", "HG", CAUGHT),
    ("claiming by rename is not exclusive", "3/2/1", "CLAIM", CAUGHT),
    ("residual risk: a foreign D39 tool that recovers", "2/1/1", "FREC", CAUGHT),
]

LOCK_LONG = [
    ("a dead holder's lock is taken over by one, two crashes", "3/1/2", "STALE0", SAFE),
    ("life byte dropped before the unlink is harmless, three contenders", "3/1/1", "EARLYLIFE STALE0", SAFE),
    ("the protocol is exclusive, three crashes", "3/1/3", "", SAFE),
    ("a dead holder's lock, three crashes", "3/1/3", "STALE0", SAFE),
    ("renewing, three contenders and a crash", "3/1/1", "RENEW", SAFE),
    ("a killed holder's child, three crashes", "3/1/3", "CHILD", SAFE),
    ("a spare inode, three crashes", "3/1/3", "SPARE STALE0", SAFE),
    ("a spare inode with renew, three contenders", "3/1/0", "SPARE RENEW", SAFE),
    ("force by fence and a crash", "3/1/1", "FENCE", SAFE),
    ("force by fence, spare inode and a crash", "3/1/1", "SPARE FENCE", SAFE),
    ("a foreign O_EXCL contender, two crashes", "2/1/2", "FWX", SAFE),
    ("a foreign O_EXCL contender, spare, renew, crash", "2/1/1", "FWX SPARE RENEW", SAFE),
    ("a foreign U2 contender, two crashes", "2/1/2", "FU2", SAFE),
    ("a foreign U2 contender, spare, renew, crash", "2/1/1", "FU2 SPARE RENEW", SAFE),
]

# lease.pml: (rule, takeovers/faults/lost answers, definitions, expected)
LEASE = [
    ("leases: slow workers, one copy at a time", "1/0/0", "", SAFE),
    ("leases: lost answers alone take nothing over", "1/0/2", "PROMPT", SAFE),
    ("leases: a worker that is killed", "1/1/0", "CRASH", SAFE),
    ("leases: a runner that is killed, and another one that goes on", "1/1/0", "RESUME", SAFE),
    ("mutant: a renewal is granted by a server in the past", "1/1/0", "RENEWPAST PAST", CAUGHT),
    ("mutant: the clock is looked at after renewing", "1/0/0", "RENEWFIRST", CAUGHT),
    ("mutant: the clock is not looked at after the guard has heard of it", "1/0/0", "NOLOOKAFTER", CAUGHT),
    ("mutant: a claim without a number", "1/0/1", "NONUMBER PROMPT", CAUGHT),
    ("mutant: the repeated answer to a claim does not renew", "1/0/1", "NOREPEAT", CAUGHT),
    ("mutant: a lease counted from its answer", "1/0/0", "AFTERSEND", CAUGHT),
    ("mutant: a takeover that does not wait for one lease", "1/0/0", "NOWAIT", CAUGHT),
    ("mutant: another server is opened at once", "1/1/0", "NOSETTLE FORGET", CAUGHT),
    ("mutant: the same id for what was taken back", "1/1/0", "SAMEID FORGET", CAUGHT),
    ("mutant: a result without fence and id", "1/0/0", "NOFENCE SAMEID", CAUGHT),
    ("mutant: a takeover that only its answer reports", "1/0/1", "QUIET", CAUGHT),
    ("mutant: a runner that does not wait for what it revoked", "1/1/0", "EARLY RESUME", CAUGHT),
]

LEASE_LONG = [
    ("leases: an answer is lost", "1/0/1", "", SAFE),
    ("leases: a server that forgets", "1/1/0", "FORGET", SAFE),
    ("leases: a server in the past", "1/1/0", "PAST", SAFE),
    ("leases: a frozen machine", "1/1/0", "FREEZE", SAFE),
    ("leases: two takeovers", "2/0/0", "", SAFE),
]


# What the model's assertions mean when they fail, by the text that pan prints.
MEANINGS = [("at_place", "two calls at one place"), ("overtaken", "a later one was first"), ("(incs==1)", "two holders"), ("igen[P]", "commit without the lock"), ("store", "late commit"),
            ("alive[", "two copies"), ("killed[", "a kill that counts as an end"), ("S.st[cur]", "an attempt is lost"), ("rage", "a takeover"),
            ("life", "stuck lock"), ("", "LOCK_LOST without a cause")]


def verdict(output):
    """What pan found; None when the search was not complete or failed for another reason."""
    if re.search(r"pan:\d+: assertion violated", output):
        return CAUGHT
    incomplete = re.search(r"out of memory|reached -DMEMLIM|too small|Search not completed|pan:\d+:", output)
    return SAFE if "errors: 0" in output and not incomplete else None


def meaning(output):
    violated = re.search(r"assertion violated (.*)", output)
    return next(f": {words}" for text, words in MEANINGS if text in violated.group(1)) if violated else ""


def model_of(case):
    """The file, the names of its bounds, and what pan is to leave out (workers that are frozen at the end do not go on)."""
    if case in LOCK + LOCK_LONG:
        return MODELS / "lock.pml", ("NB", "ROUNDS", "CRASHES"), []
    return MODELS / "lease.pml", ("LOST", "FAULTS", "LOSSES"), ["-E"]


def define(names, bounds, definitions):
    values = [f"{name}={value}" for name, value in zip(names, bounds.split("/"))]
    return [f"-D{value}" for value in values + definitions.split()]


def check(case, memory_mb):
    """Runs one case in its own directory; returns (case, found, states, seconds, output)."""
    _, bounds, definitions, expected = case
    model, names, options = model_of(case)
    with tempfile.TemporaryDirectory(prefix="tasuki-model-") as work:
        def run(*command):
            done = subprocess.run(command, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            return done.stdout
        output = run("spin", *define(names, bounds, definitions), "-a", str(model))
        # A mutant is caught after a few thousand states: compiling is what it costs.
        optimise = "-O2" if expected == SAFE else "-O0"
        output += run("gcc", optimise, "-w", "-DSAFETY", "-DCOLLAPSE", "-DNOFAIR", f"-DMEMLIM={memory_mb}",
                      "pan.c", "-o", "pan")
        started = time.monotonic()
        if os.path.exists(os.path.join(work, "pan")):
            output += run("./pan", "-m100000", *options)
        seconds = time.monotonic() - started
    states = re.search(r"(\d+) states, stored", output)
    return case, verdict(output), int(states.group(1)) if states else 0, seconds, output


def report(number, result, table):
    (rule, bounds, definitions, expected), found, states, seconds, output = result
    if table:
        print(f"| {rule} | {definitions or '-'} | {' / '.join(bounds.split('/'))} | {found}{meaning(output)} |"
              f" {states:,} | {seconds:.1f} s |")
        return
    ok = "ok" if found == expected else "not ok"
    print(f"{ok} {number} - {rule} ({bounds} {definitions}: {found}{meaning(output)}, {states} states, {seconds:.1f} s)")
    if found != expected:
        for line in output.splitlines()[-30:]:
            print(f"# {line}")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="bigger bounds as well")
    parser.add_argument("--quick", action="store_true", help="none: for the edit loop of the code")
    parser.add_argument("--medium", action="store_true", help="only a few cases")
    parser.add_argument("--table", action="store_true", help="print a Markdown table instead of TAP")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the rules that contain TEXT")
    arguments = parser.parse_args()
    cases = [case for case in LOCK + LEASE + (LOCK_LONG + LEASE_LONG if arguments.long else []) if arguments.only in case[0]]
    if arguments.quick:
        print("1..0 # SKIP the model takes longer than the edit loop")
        return 0
    if arguments.medium:
        cases = [case for case in cases if case[3] == SAFE][:3] + [case for case in cases if case[3] == CAUGHT][:3]
    if not arguments.table:
        print(f"1..{len(cases)}")
    for tool in ("spin", "gcc"):
        if not shutil.which(tool):
            for number, case in enumerate(cases, 1):
                print(f"ok {number} - {case[0]} # SKIP {tool} is not installed")
            return 0
    memory_mb = MEMORY_MB * (4 if arguments.long else 1)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        results = pool.map(lambda case: check(case, memory_mb), cases)
        for number, result in enumerate(results, 1):
            report(number, result, arguments.table)
            failed += result[1] != result[0][3]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
