"""The page in Chromium: first load, lists, a large run, a large log, memory, how soon it shows what happened; what it costs the server."""
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import time
import urllib.request

from report import Row

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "browser"
BULL = ROOT / ".cache" / "page"
CHROMIUM = "/usr/bin/chromium"
SUPERVISOR = """[supervisord]
nodaemon=true
logfile={work}/supervisord.log
pidfile={work}/supervisord.pid
childlogdir={work}
[inet_http_server]
port=127.0.0.1:{port}
"""


def play(context, root, page, pid, name="measure", **more):
    scene = {**more, "page": page["page"], "url": page["url"], "pid": pid, "port": int(page["url"].rpartition(":")[2]), "root": str(root),
             "binary": str(context.tasuki), "chromium": CHROMIUM, "modules": str(CACHE / "node_modules")}
    env = dict(os.environ, TASUKI_SCENE=json.dumps(scene), TASUKI_PATIENCE_MS="120000", TASUKI_BENCH_QUICK="1" if context.quick else "0",
               PATH=f"{context.tasuki.parent}:{os.environ['PATH']}")
    done = subprocess.run([CACHE / "node_modules" / ".bin" / "node", ROOT / "tests" / "browser" / "run.mjs", pathlib.Path(__file__).with_name("page.mjs"), name], env=env,
                          stdout=subprocess.PIPE, text=True, timeout=1500)
    if done.returncode != 0:
        raise RuntimeError("the page could not be measured")
    return json.loads(done.stdout.splitlines()[-1])


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def answers(address):
    try:
        with urllib.request.urlopen(address, timeout=5):
            return True
    except OSError:
        return False


class Peers:
    """The pages of other programs. What is not installed is skipped, and said so."""

    def __init__(self, context):
        self.context, self.pages, self.processes = context, [], []

    def start(self, *words, **options):
        self.processes.append(subprocess.Popen(words, stderr=subprocess.DEVNULL, **{"stdout": subprocess.DEVNULL, **options}))
        return self.processes[-1]

    def add(self, name, address, ready):
        until = time.monotonic() + 60
        while not answers(address):
            if time.monotonic() > until:
                self.context.say(f"{name} does not answer: skipped")
                return
            time.sleep(0.1)
        self.pages.append({"name": name, "address": address, "ready": ready})

    def add_supervisor(self):
        """supervisord's own page, with 100 programs. It is not live: a reader reloads it."""
        program = shutil.which("supervisord")
        if not program:
            self.context.say("supervisor is not installed: skipped")
            return
        port, config = free_port(), self.context.work / "supervisord.conf"
        programs = "".join(f"[program:p{i}]\ncommand=sleep 100000\nautostart=false\n" for i in range(100))
        config.write_text(SUPERVISOR.format(work=self.context.work, port=port) + programs)
        self.start(program, "-c", config)
        self.add("supervisor", f"http://127.0.0.1:{port}/", "document.querySelectorAll('tbody tr').length >= 100")

    def add_bull_board(self):
        """bull-board, with one queue of as many jobs as there are requests on our page. It shows ten of them, and asks every 5 s."""
        if not (BULL / "installed").exists() or not shutil.which("redis-server"):
            self.context.say("bull-board or redis-server is not installed: skipped")
            return
        port = free_port()
        self.start("redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(self.context.work))
        board = self.start("node", pathlib.Path(__file__).with_name("bull_board.cjs"), "100" if self.context.quick else "1000", str(port),
                           env={**os.environ, "BULL_MODULES": str(BULL)}, stdout=subprocess.PIPE, text=True)
        address = board.stdout.readline().strip()
        if address:
            self.add("bull-board", address, "/Request \\d/.test(document.body.innerText)")
        else:
            self.context.say("bull-board does not start: skipped")

    def close(self):
        for one in reversed(self.processes):
            one.terminate()
            one.wait(20)


def peers_of(context, root, page, pid):
    """{name: {bytes, ms}}"""
    peers = Peers(context)
    try:
        peers.add_supervisor()
        peers.add_bull_board()
        return play(context, root, page, pid, "peers", peers=peers.pages) if peers.pages else {}
    finally:
        peers.close()


def at_most(work, value, limit, unit, text=None, peer=""):
    return Row(f"page: {work}", text or f"{value:.0f} {unit}", peer, value, "at most", limit, unit)


def listed(found):
    return f"{statistics.median(found['ms']):.0f} ms (processor {statistics.median(found['cpu_ms']):.0f} ms)"


def growth(work, found):
    ratio = found["after"] / found["before"]
    return Row(f"page: {work}", f"{found['before'] / 1e6:.1f} -> {found['after'] / 1e6:.1f} MB", "", ratio, "at most", 1.15, "x")


def wakeups(work, value, limit):
    return Row(f"page: {work}", "no strace" if value is None else f"{value:.2f} /s", "", value, "at most", limit, "/s")


def beside(raw, text, *names):
    """The peers of a row that were there, each in the form of `text`."""
    found = [(name, raw["peers"][name]) for name in names if name in raw["peers"]]
    return "; ".join(text.format(name=name, kb=one["bytes"] / 1000, ms=statistics.median(one["ms"])) for name, one in found)


def rows_of(raw):
    mid = statistics.median
    rows = [
        at_most("first load, compressed", raw["first_load"]["bytes"] / 1000, 60, "kB", f"{raw['first_load']['bytes']} bytes",
                beside(raw, "{name} {kb:.0f} kB", "supervisor", "bull-board")),
        Row("page: first load until live", f"{mid(raw['first_load']['ms']):.0f} ms"),
        Row("page: live list of 100 processes", listed(raw["processes_100"]), beside(raw, "{name} {ms:.0f} ms, not live", "supervisor")),
    ]
    if "processes_1000" in raw:
        rows.append(at_most("live list of 1,000 processes", mid(raw["processes_1000"]["ms"]), 1000, "ms", listed(raw["processes_1000"])))
    rows += [
        at_most(f"live list of {raw['requests']['count']:,} requests", mid(raw["requests"]["ms"]), 1000, "ms", listed(raw["requests"]),
                beside(raw, "{name} {ms:.0f} ms, ten of them", "bull-board")),
        at_most(f"run of {raw['run']['tasks']:,} tasks until it is drawn", raw["run"]["ms"], 1000, "ms"),
        Row("page: its longest task", f"{raw['run']['longest_task_ms']:.0f} ms"),
        at_most("script per frame while it is moved, worst", raw["run"]["pan_script_ms"]["worst"], 8, "ms",
                f"{raw['run']['pan_script_ms']['median']:.1f} ms, worst {raw['run']['pan_script_ms']['worst']:.1f} ms"),
        at_most(f"log of {raw['log']['bytes'] / 1e6:.0f} MB opened at its end", mid(raw["log"]["ms"]), 200, "ms"),
        growth(f"memory over the second half of {raw['events']['events']:,} events", raw["events"]),
        growth(f"memory over the second half of {raw['follow']['seconds']} s at 1 MB/s", raw["follow"]),
        at_most("a closed connection is shown", raw["cuts"]["closed"], 2000, "ms"),
        at_most("a silent connection is shown", raw["cuts"]["silent"], 12000, "ms"),
        at_most("a click in one window is seen in another, worst", max(raw["two_windows"]), 1000, "ms",
                f"{mid(raw['two_windows']):.0f} ms, worst {max(raw['two_windows']):.0f} ms"),
        at_most("age of what is shown as live in a storm, worst", raw["storm"]["ms"], 1000, "ms"),
        wakeups("server without a page, wake-ups a second", raw["idle_wakeups"], 0),
        wakeups("server with a quiet page, wake-ups a second", raw["quiet_page_wakeups"], 1.05),
    ]
    return rows


def measure(context):
    if not os.path.exists(CHROMIUM) or not (CACHE / "installed").exists():
        context.say("chromium or its driver is not installed: skipped")
        return [], {}
    root = context.work / "w"
    root.mkdir()
    subprocess.run([context.tasuki, "--root", root, "init", "--quiet"], check=True, stdout=subprocess.DEVNULL)
    server = subprocess.Popen([context.tasuki, "--root", root, "serve", "--json", "--port", "0"], cwd=root, stdout=subprocess.PIPE, text=True)
    try:
        page = json.loads(server.stdout.readline())
        raw = play(context, root, page, server.pid)
        raw["peers"] = peers_of(context, root, page, server.pid)
    finally:
        server.terminate()
        server.wait(20)
        subprocess.run([context.tasuki, "--root", root, "proc", "stop", "--all", "--quiet"], check=False, stdout=subprocess.DEVNULL)
    return rows_of(raw), raw
