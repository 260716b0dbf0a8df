"""`tasuki up` on a terminal with 50 chatty processes, 1 MB a second together, beside foreman, concurrently and `pm2 logs`.

Measured are the programs that start and show, not the processes themselves: of tasuki `up` and its 50 holders, of pm2 its daemon and
`logs`. The processes wait until everything is up, print their lines, and stay; every line that reaches the terminal is counted."""
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import time

from processes import procfs
from processes.supervisors import Pm2
from report import Row
from watch import Screen

COUNT, LINE, LINES_A_SECOND = 50, 100, 200
CONCURRENTLY = "concurrently@9.2.5"
TALKER = """
import os, sys, time
name, lines, at_a_time = sys.argv[1], int(sys.argv[2]), 10
while not os.path.exists("go"):
    time.sleep(0.05)
due = time.monotonic()
for first in range(0, lines, at_a_time):
    text = "".join(f"{name} {i} ".ljust(LINE - 1, "x") + "\\n" for i in range(first, first + at_a_time))
    os.write(1, text.encode())
    due += at_a_time / RATE
    time.sleep(max(0, due - time.monotonic()))
time.sleep(1000)
""".replace("LINE", str(LINE)).replace("RATE", str(LINES_A_SECOND))
SEEN = re.compile(rb"(p\d\d) (\d+) x")


class Shower:
    """Something that starts the processes and shows them on a terminal."""

    def __init__(self, context, lines):
        self.context, self.lines, self.root = context, lines, context.work / f"up-{self.name}"
        self.root.mkdir()
        (self.root / ".git").mkdir()
        (self.root / "talker.py").write_text(TALKER)
        (self.root / "Procfile").write_text("".join(f"{name}: exec {self.command(name)}\n" for name in self.names()))
        self.prepare()
        os.chdir(self.root)
        self.screen = Screen(self.argv())

    def names(self):
        return [f"p{i:02}" for i in range(COUNT)]

    def command(self, name):
        return f"{sys.executable} -SEu talker.py {name} {self.lines}"

    def prepare(self):
        pass

    def roots(self):
        return [self.screen.pid]

    def own(self):
        """The pids of what starts and shows."""
        return [pid for pid in procfs.tree(self.roots()) if not self.is_talker(pid)]

    @staticmethod
    def is_talker(pid):
        words = procfs.read(pid, "cmdline").split("\0")
        return words[0] == sys.executable and "talker.py" in words

    def talkers(self):
        root = str(self.root)
        return [pid for pid in procfs.pids() if self.is_talker(pid) and procfs.link(pid, "cwd") == root]

    def close(self):
        os.kill(self.screen.pid, signal.SIGINT)
        end = time.monotonic() + 30
        while time.monotonic() < end and os.waitpid(self.screen.pid, os.WNOHANG)[0] == 0:
            if select.select([self.screen.main], [], [], 0.1)[0]:
                try:
                    os.read(self.screen.main, 65536)
                except OSError:  # its terminal is closed: it is about to end
                    time.sleep(0.1)
        for pid in self.talkers():
            os.kill(pid, signal.SIGKILL)
        os.close(self.screen.main)
        os.chdir("/")


class Tasuki(Shower):
    name = "tasuki up"

    @classmethod
    def missing(cls, context):
        return ""

    def prepare(self):
        subprocess.run([self.context.tasuki, "--root", self.root, "init"], check=True, capture_output=True)

    def argv(self):
        return [str(self.context.tasuki), "up"]

    def own(self):
        below = f"{self.root}/.aiflow/processes/"
        holders = [pid for pid in procfs.pids() if procfs.read(pid, "comm").strip() == "tasuki-hold" and procfs.link(pid, "fd/3").startswith(below)]
        return super().own() + holders


class Foreman(Shower):
    name = "foreman"

    @classmethod
    def missing(cls, context):
        return "" if shutil.which("foreman") else "foreman not installed (Debian: ruby-foreman)"

    def argv(self):
        return ["foreman", "start"]


class Concurrently(Shower):
    name = "concurrently"

    @classmethod
    def home(cls, context):
        return context.build / "bench-npm-concurrently"

    @classmethod
    def missing(cls, context):
        """Installs it, into the build directory."""
        home = cls.home(context)
        if not (shutil.which("npm") and shutil.which("node")):
            return "npm or node not installed"
        if not (home / "node_modules" / "concurrently").is_dir():
            home.mkdir(exist_ok=True)
            done = subprocess.run(["npm", "install", "--prefix", home, "--no-audit", "--no-fund", "--no-save", CONCURRENTLY], cwd=home, capture_output=True,
                                  text=True, timeout=600)
            if done.returncode != 0:
                return f"npm could not install it: {done.stderr[-300:]}"
        return ""

    def argv(self):
        program = self.home(self.context) / "node_modules" / "concurrently" / "dist" / "bin" / "concurrently.js"
        return ["node", str(program), "-n", ",".join(self.names()), *(f"exec {self.command(name)}" for name in self.names())]


class Pm2Logs(Shower):
    name = "pm2 logs"
    missing = Pm2.missing

    def pm2(self, *words):
        program = self.context.build / "bench-npm-pm2" / "node_modules" / "pm2" / "bin" / "pm2"
        return ["env", f"PM2_HOME={self.root}/home", "PM2_DISABLE_VERSION_CHECK=true", "node", str(program), *words]

    def prepare(self):
        apps = [{"name": name, "script": sys.executable, "args": ["-SEu", "talker.py", name, str(self.lines)], "interpreter": "none", "exec_mode": "fork",
                 "cwd": str(self.root), "vizion": False, "pmx": False, "automation": False} for name in self.names()]
        (self.root / "apps.json").write_text(json.dumps({"apps": apps}))
        subprocess.run(self.pm2("start", str(self.root / "apps.json")), check=True, capture_output=True, cwd=self.root, timeout=300)

    def argv(self):
        return self.pm2("logs", "--lines", "0")

    def roots(self):
        return [self.screen.pid, int((self.root / "home" / "pm2.pid").read_text())]

    def close(self):
        subprocess.run(self.pm2("kill"), capture_output=True, timeout=120)
        super().close()


def cpu_seconds(some):
    ticks = 0
    for pid in some:
        fields = procfs.read(pid, "stat").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12]) if fields else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def read_lines(screen, wanted, quiet_s=10):
    """Numbers of the lines of each process, in the order in which they come, until all are there or nothing comes any more."""
    seen, count, rest = {}, 0, b""
    while count < wanted and select.select([screen.main], [], [], quiet_s)[0]:
        *whole, rest = (rest + os.read(screen.main, 65536)).split(b"\n")
        for line in whole:
            found = SEEN.search(line)
            if found:
                seen.setdefault(found[1].decode(), []).append(int(found[2]))
                count += 1
    return seen


def show(context, cls, seconds):
    context.say(f"{cls.name}: {COUNT} processes, {COUNT * LINE * LINES_A_SECOND / 1e6:g} MB/s, {seconds} s")
    lines = seconds * LINES_A_SECOND
    shower = cls(context, lines)
    try:
        end = time.monotonic() + 120
        while len(shower.talkers()) < COUNT:
            if time.monotonic() > end:
                raise RuntimeError(f"{cls.name}: {len(shower.talkers())} of {COUNT} processes run")
            shower.screen.rest(0.2)
        shower.screen.rest(3)
        own = shower.own()
        spent, begun = cpu_seconds(own), time.monotonic()
        pathlib.Path("go").touch()
        seen = read_lines(shower.screen, COUNT * lines)
        took = time.monotonic() - begun
        cpu = 100 * (cpu_seconds(own) - spent) / took
        memory = procfs.pss_kib(own) / 1024
    finally:
        shower.close()
    there = sum(len(set(numbers)) for numbers in seen.values())
    return {"cpu_percent": cpu, "memory_mib": memory, "lines": COUNT * lines, "lost": COUNT * lines - there, "seconds": took,
            "ordered": all(numbers == sorted(numbers) for numbers in seen.values())}


def measure(context):
    seconds, raw = 3 if context.quick else 20, {}
    for cls in (Tasuki, Foreman, Concurrently, Pm2Logs):
        reason = cls.missing(context)
        if reason:
            context.say(f"{cls.name} is left out: {reason}")
            raw[cls.name] = {"missing": reason}
            continue
        raw[cls.name] = show(context, cls, seconds)
    ours = raw[Tasuki.name]
    rows = [Row(f"up: lines lost of {ours['lines']}", str(ours["lost"]), ratio=ours["lost"], better="at most", limit=0)]
    for name, theirs in raw.items():
        if name == Tasuki.name:
            continue
        if "missing" in theirs:
            rows.append(Row(f"up: beside {name}", f"{ours['cpu_percent']:.1f} % of a core, {ours['memory_mib']:.0f} MiB", theirs["missing"][:40]))
            continue
        rows += [Row("up: CPU, 50 processes, 1 MB/s", f"{ours['cpu_percent']:.1f} % of a core", f"{name}: {theirs['cpu_percent']:.1f} %",
                     ours["cpu_percent"] / theirs["cpu_percent"], unit="x"),
                 Row("up: memory", f"{ours['memory_mib']:.1f} MiB", f"{name}: {theirs['memory_mib']:.1f} MiB, {theirs['lost']} lines lost",
                     ours["memory_mib"] / theirs["memory_mib"], unit="x")]
    return rows, raw
