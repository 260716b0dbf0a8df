"""Which tests reach a line of src/? tools/mutate.py asks, so that a mutant is judged by the tests that can notice it.

The map is made by itself: a build in build-mutate/tree-map writes down which of its blocks it reaches (tools/mutate_map.c), each
test for itself, also in processes that are killed. build-mutate/map has one file for each suite; a suite that has changed is
run again, and so is a test's whole suite when the test is new. A file of src/ that has changed since has no known lines:
then every test that reaches the file counts, until `./dev mutate --map` makes the map anew.
"""

import bisect
import concurrent.futures
import json
import os
import re
import shutil
import struct
import subprocess
import threading
import time

from mutate_tree import HOME, ROOT, Tree, command_of, digest, lines_of, parts_of, say

MAP = HOME / "map"
SUITE_MAX_S = 1500
RUNTIME = HOME / "mutate_map.o"
OPTIONS = ("-Doptimization=0", "-Ddebug=true", "-Dc_args=-g -O0 -fsanitize-coverage=trace-pc", f"-Dc_link_args={RUNTIME}")
RESULT = re.compile(r"^ok (\d+) - (.*?)(?: # SKIP.*)?$")
TIMES = re.compile(r"^# ([\d.]+) s, ([\d.]+) s of a processor$")
BLOCK = re.compile(r"^\s*([0-9a-f]+):\s.*\bcall\S*\s.*<__sanitizer_cov_trace_pc>")


class Test:
    """A test that passes without a mutant; of the unit tests, a whole suite. It is not known which lines of an outdated file it
    reaches."""

    def __init__(self, suite, version, number, name, seconds, cpu, programs, lines, outdated):
        self.suite, self.number, self.name, self.seconds, self.cpu, self.programs = suite, number, name, seconds, cpu, programs
        self.lines = {file: int(bits, 16) for file, bits in lines.items()}  # a bit for each line
        self.size = sum(bits.bit_count() for bits in self.lines.values())
        self.outdated = outdated
        self.key = f"{version}#{number}"


class Map:
    def __init__(self, suites, files):
        self.suites = suites  # name -> path
        self.files = files
        self.sources = {name: digest([ROOT / name]) for name in files if name.startswith("src/")}
        self.tests, self.blocks, self.known = [], {}, {}

    def version(self, suite):
        return f"{suite} {digest(parts_of(self.suites[suite]))}"

    def place(self, suite):
        return MAP / (self.version(suite).replace("/", "-").replace(" ", "-") + ".json")

    def load(self):
        """Reads what there is. Returns the suites that are missing."""
        missing = [suite for suite in self.suites if not self.place(suite).exists()]
        self.tests = []
        for suite in set(self.suites) - set(missing):
            known = json.loads(self.place(suite).read_text())
            for number, name, seconds, cpu, programs, lines in known["tests"]:
                outdated = {file for file in lines if known["sources"].get(file) != self.sources.get(file)}
                self.tests.append(Test(suite, self.version(suite), number, name, seconds, cpu, programs, lines, outdated))
        blocks = json.loads((MAP / "blocks.json").read_text()) if (MAP / "blocks.json").exists() else {}
        self.blocks = {file: lines for file, (version, lines) in blocks.items() if self.sources.get(file) == version}
        return missing

    def reaching(self, file, lines):
        """The tests that reach one of the lines, and those that reach the file (a test's lines may be unknown, or it may run
        another path because of the mutant)."""
        wanted = 0
        for line in lines:
            wanted |= sum(1 << block for block in self.blocks_of(file, line))
        near, far = [], []
        for test in self.tests:
            if file in test.lines:
                hit = file in test.outdated or file not in self.blocks or test.lines[file] & wanted
                (near if hit else far).append(test)
        return near, far

    def blocks_of(self, file, line):
        """The lines at which the blocks of a line begin, or nearly: the last one before it that begins one, and if it begins one
        itself, the one before as well, because its first words may belong to that."""
        lines = self.blocks.get(file, [0])
        at = bisect.bisect_right(lines, line)
        return lines[max(0, at - 1 - (lines[at - 1] == line)): max(1, at)]

    # -- making -----------------------------------------------------------------------------------------------

    def make(self, missing, jobs):
        say(f"which lines do the tests reach? {len(missing)} suites are run for the map in {MAP.relative_to(ROOT)}")
        MAP.mkdir(parents=True, exist_ok=True)
        subprocess.run(["gcc", "-O2", "-c", "-fno-stack-protector", ROOT / "tools/mutate_map.c", "-o", RUNTIME], check=True)
        tree = Tree("map", OPTIONS)
        tree.prepare(self.files)
        shutil.rmtree(tree.build / "reached", ignore_errors=True)
        places = Places(tree)
        for program in ("tasuki", "tasuki-hold", "tasuki-worker"):
            places.add_all(program)
        blocks = {}
        for file, line in places.known():
            blocks.setdefault(file, set()).add(line)
        (MAP / "blocks.json").write_text(json.dumps({file: (self.sources.get(file), sorted(lines)) for file, lines in blocks.items()}))
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for suite in concurrent.futures.as_completed([pool.submit(self.run, suite, tree, places) for suite in missing]):
                suite.result()

    def run(self, suite, tree, places):
        """Runs a suite and writes its part of the map."""
        name = suite.replace("/", "-")
        folder = tree.build / "reached" / name
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        options = [] if suite.startswith("unit/") else ["--times"]
        tests, passed, began = [], None, time.monotonic()
        used = os.times()
        with tree.caged(command_of(suite, tree) + options, HOME / f"tmp-map-{name}", TASUKI_REACHED=str(folder)) as proc:
            for line in lines_of(proc, began + SUITE_MAX_S):
                if line is None:
                    say(f"{suite} did not end in {SUITE_MAX_S} s: the rest of its tests are left out")
                    break
                result, times = RESULT.match(line), TIMES.match(line)
                if line.startswith("not ok"):
                    say(f"{suite}: without a mutant: {line}")
                if result or line.startswith("not ok"):
                    passed = result
                if passed and times:
                    tests.append([int(passed[1]), passed[2], float(times[1]), float(times[2]), *places.reached(folder / passed[1])])
                    passed = None
        if suite.startswith("unit/"):
            seconds = round(time.monotonic() - began, 2)
            tests = [[0, suite, seconds, seconds, *places.reached(folder)]] if proc.returncode == 0 else []
        shutil.rmtree(folder, ignore_errors=True)
        self.place(suite).write_text(json.dumps({"sources": self.sources, "tests": tests}))


class Places:
    """The lines of the blocks of our programs."""

    def __init__(self, tree):
        self.tree = tree
        self.lock = threading.Lock()
        self.files = {}  # program -> its file
        for path in sorted(tree.build.rglob("*")):
            if path.is_file() and not path.is_symlink() and os.access(path, os.X_OK) and not path.suffix == ".p":
                self.files.setdefault("libtasuki.so" if path.name.startswith("libtasuki.so") else path.name, path)
        self.lines = {}  # program -> offset -> (file, line)

    def known(self):
        return {place for lines in self.lines.values() for place in lines.values() if place}

    def add_all(self, program):
        if program not in self.files:
            return
        listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", self.files[program]], stdout=subprocess.PIPE, text=True,
                                 check=True).stdout.splitlines()
        base = base_of(self.files[program])
        calls = [at for at, line in enumerate(listing[:-1]) if BLOCK.match(line)]
        self.resolve(program, [int(listing[at + 1].split(":")[0], 16) - base for at in calls if ":" in listing[at + 1]])

    def resolve(self, program, offsets):
        known = self.lines.setdefault(program, {})
        unknown = [offset for offset in offsets if offset not in known]
        if not unknown:
            return known
        base = base_of(self.files[program])
        asked = "".join(f"{base + offset - 1:#x}\n" for offset in unknown)
        told = subprocess.run(["addr2line", "-e", self.files[program]], input=asked, stdout=subprocess.PIPE, text=True, check=True)
        for offset, line in zip(unknown, told.stdout.splitlines()):
            file, _, number = line.split(" ")[0].rpartition(":")
            inside = os.path.relpath(os.path.join(self.tree.build, file), self.tree.path) if file and number.isdigit() else ""
            known[offset] = (inside, int(number)) if inside.startswith("src/") else None
        return known

    def reached(self, folder):
        """[programs, {file: lines}] of a test."""
        programs, lines = [], {}
        for path in folder.iterdir() if folder.exists() else []:
            if path.name not in self.files or not path.is_file():
                continue
            offsets = bits_of(path)
            with self.lock:
                known = self.resolve(path.name, offsets)
            programs.append(str(self.files[path.name].relative_to(self.tree.build)))
            for offset in offsets:
                if known[offset]:
                    file, line = known[offset]
                    lines[file] = lines.get(file, 0) | 1 << line
        shutil.rmtree(folder, ignore_errors=True)
        return programs, {file: f"{bits:x}" for file, bits in lines.items()}


def bits_of(path):
    """The numbers of the bits that are set. The file is sparse."""
    found = []
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END)
        at = 0
        while at < end:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                break
            hole = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            data = os.pread(file.fileno(), hole - at, at)
            for byte in re.finditer(rb"[^\0]", data, re.DOTALL):
                value = byte[0][0]
                found += [8 * (at + byte.start()) + bit for bit in range(8) if value >> bit & 1]
            at = hole
    return found


def base_of(path):
    """The address for which the program was linked: of its first part."""
    with open(path, "rb") as file:
        head = file.read(64)
        start, size, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
        file.seek(start)
        for _ in range(count):
            part = file.read(size)
            if struct.unpack_from("<I", part)[0] == 1:
                return struct.unpack_from("<Q", part, 16)[0]
    return 0
