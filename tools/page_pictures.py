#!/usr/bin/env python3
"""Pictures of the page: a temporary workspace with something in every state, a server, and Debian's Chromium.

    page_pictures.py [--all] [TASUKI [FOLDER]]

The pictures of docs/images/: every page in light, dark, narrow (380 px) and Japanese, and some dialogues; with --all also 768,
1280 and 1920 px. The page of the workers needs redis-server. `./dev test` installs what it needs (Chromium, its driver), but for the
fonts: Debian's fonts-inter and fonts-noto-cjk.
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
CHROMIUM = "/usr/bin/chromium"
FLOWS = {
    "release": """name: release
flow: fetch >> checks(lint | unit >> browsers(chromium | firefox | webkit) | build >> sign) >> publish >> announce
groups: {browsers: {policy: best_effort}}
limits: {parallel: 8}
tasks:
  fetch: sleep 0.3
  lint: sleep 0.5
  unit: sleep 0.6
  chromium: {run: "echo ok; sleep 0.4"}
  firefox: {run: "i=0; while :; do i=$((i+1)); printf '  \\\\033[32m✓\\\\033[0m %s [firefox] cart.spec.ts:%s adds an item\\\\n' $i $i; sleep 0.4; done"}
  webkit: {run: "echo boom >&2; exit 1", retries: 8, backoff: {initial: 200s, max: 600s}}
  build: sleep 0.8
  sign: {run: "tasuki task ask 'Sign app-1.4.2.tar.gz with which key?' --option release-2026 --option staging --option 'Do not sign'"}
  publish: echo
  announce: echo
""",
    "e2e": """name: e2e
flow: setup >> checkout_pay >> report
tasks:
  setup: echo ok
  checkout_pay: {run: "echo 'AssertionError: expected 200, got 402 (tests/checkout/pay.spec.ts:88)' >&2; exit 1"}
  report: echo
""",
    "nightly-import": """name: nightly-import
flow: a >> b >> c >> load_orders >> index >> done
tasks: {a: sleep 0.2, b: sleep 0.2, c: sleep 0.2, load_orders: sleep 1000, index: echo, done: echo}
""",
    "lint": "name: lint\ntasks: {lint: sleep 0.4}\n",
}
PROCESSES = [
    ("db", ["--start"], "while :; do echo checkpoint complete; sleep 2; done"),
    ("web", ["--start"], r"i=0; while :; do i=$((i+1)); printf '\033[32mGET\033[0m /cart/%s \033[36m200\033[0m\n' $i; sleep 0.5; done"),
    ("api", ["--start", "--restart", "on-failure", "--backoff", "60s", "--log", "stamped"],
     "echo 'INFO:     Started server process'; echo 'OSError: [Errno 98] address already in use' >&2; sleep 0.3; exit 1"),
    ("tunnel", ["--start", "--restart", "on-failure", "--max-retries", "0"], "echo 'ssh: connect to host bastion port 22: Connection timed out' >&2; exit 255"),
    ("mail", ["--start", "--ready", "exec:true", "--health", "exec:false", "--health-interval", "1s", "--health-failures", "1"], "sleep 1000"),
    ("seed", [], "echo seed"),
]
REQUESTS = [
    ("Nightly import", "RQ-20261116-1b906", ["--flow", "nightly-import", "--priority", "P0"]),
    ("Release 1.4.2", "RQ-20261116-1b7ce", ["--flow", "release", "--priority", "P1"]),
    ("Fix flaky payment test", "RQ-20261116-2c4f0", ["--flow", "lint", "--priority", "P0"]),
    ("Update dependencies", "RQ-20261116-2d118", ["--flow", "lint", "--priority", "P1"]),
    ("Announce 1.4.2", "RQ-20261116-2e0b1", ["--flow", "lint", "--depends-on", "RQ-20261116-1b7ce"]),
    ("End-to-end suite", "RQ-20261116-2a77e", ["--flow", "e2e", "--priority", "P1"]),
    ("Split the billing service", "RQ-20261116-31c55", ["--status", "draft", "--priority", "P3"]),
    ("Lint the monorepo", "RQ-20261116-27ab2", ["--flow", "lint", "--priority", "P3"]),
]


NOTES = {"claude-a": "refactor auth", "codex-c": "nightly import", "cursor-b": "checkout tests"}


class Scene:
    def __init__(self, tasuki, folder):
        self.tasuki, self.folder, self.running = tasuki, folder, []
        # Nothing of the caller's environment: an agent's name or TASUKI_LANG would change what is shown.
        self.env = {"PATH": f"{tasuki.parent}:/usr/bin:/bin", "HOME": str(folder.parents[1]), "LANG": "C.UTF-8", "TASUKI_LANG": "en"}

    def by(self, agent):
        """The environment of an agent: its name and what it works on."""
        return {**self.env, "TASUKI_AGENT": agent, "TASUKI_NOTE": NOTES[agent]}

    def run(self, *words, check=True, agent="claude-a"):
        return subprocess.run([self.tasuki, *words], cwd=self.folder, env=self.by(agent), check=check, capture_output=True, text=True)

    def spawn(self, *words, agent="claude-a"):
        return self.start(self.tasuki, *words, env=self.by(agent))

    def start(self, *words, env=None):
        self.running.append(subprocess.Popen(words, cwd=self.folder, env=env or self.env, stdout=subprocess.PIPE,
                                             stderr=subprocess.DEVNULL, start_new_session=True, text=True))
        return self.running[-1]

    def add_workers(self):
        """A Redis server of its own with two workers. False: there is none."""
        if not shutil.which("redis-server"):
            return False
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            port = str(sock.getsockname()[1])
        redis = self.start("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "")
        while "Ready to accept" not in redis.stdout.readline():
            pass
        self.env["TASUKI_REDIS"] = f"redis://127.0.0.1:{port}"
        self.spawn("worker", "--name", "alpha", "--tags", "gpu,big", "-j", "2")
        self.spawn("worker", "--name", "beta", "-j", "1")
        return True

    def furnish(self):
        self.run("init")
        flows = self.folder / ".aiflow" / "flows"
        flows.mkdir(parents=True, exist_ok=True)
        for name, text in FLOWS.items():
            (flows / f"{name}.yaml").write_text(text)
        for name, options, script in PROCESSES:
            self.run("proc", "create", name, *options, *(["--no-wait"] if "--start" in options else []), "--", "sh", "-c", script)
        self.run("proc", "template", "create", "server", "--restart", "on-failure", "--", "python3", "-m", "http.server", "{{PORT}}")
        for title, name, options in REQUESTS[:1]:
            self.run("request", "add", title, "--id", name, *options)
        self.spawn("queue", "run", agent="codex-c")
        time.sleep(1)
        for title, name, options in REQUESTS[1:]:
            self.run("request", "add", title, "--id", name, *options)
        self.spawn("request", "run", "RQ-20261116-1b7ce", agent="cursor-b")
        for name in ("RQ-20261116-2a77e", "RQ-20261116-27ab2"):
            self.run("request", "run", name, check=False)
        self.spawn("lock", "run", "src-api", "--", "sleep", "1000")
        dead = self.spawn("lock", "run", "other", "--", "sleep", "1000")
        self.run("sprint", "acquire", "--session", "epic-checkout", "--epic", "specs/checkout.md", "--pid", str(dead.pid))
        self.end(dead)
        self.run("own", "claim", "UL-142")
        self.run("own", "note", NOTES["claude-a"])
        time.sleep(12)  # something to see in logs and bars

    def end(self, child):
        self.running.remove(child)
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()

    def close(self):
        for run in json.loads(self.run("runs", "list", "--json").stdout)["runs"]:
            if run["status"] in ("RUNNING", "NEEDS_INPUT"):
                self.run("runs", "cancel", run["run_id"], "--now", check=False)
        self.run("proc", "stop", "--all", check=False)
        for child in list(self.running):
            self.end(child)


def need_fonts():
    fonts = subprocess.run(["fc-list", ":lang=ja", "family"], capture_output=True, text=True, check=True).stdout
    if not fonts.strip():
        sys.exit("page_pictures: no font has Japanese letters: apt-get install fonts-inter fonts-noto-cjk")


def main():
    need_fonts()
    words = [word for word in sys.argv[1:] if word != "--all"]
    tasuki = pathlib.Path(words[0] if words else ROOT / "build" / "tasuki").resolve()
    out = pathlib.Path(words[1] if len(words) > 1 else ROOT / "docs" / "images").resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        scene = Scene(tasuki, pathlib.Path(name) / "src" / "shop")
        scene.folder.mkdir(parents=True)
        try:
            scene.furnish()
            workers = scene.add_workers()
            said = json.loads(scene.spawn("serve", "--port", "0", "--json").stdout.readline())
            runs = json.loads(scene.run("runs", "list", "--json").stdout)["runs"]
            run = next(one["run_id"] for one in runs if one["flow"] == "release")
            settings = {"page": said["page"], "home": name, "out": str(out), "run": run, "all": "--all" in sys.argv, "workers": workers, "chromium": CHROMIUM,
                        "modules": str(ROOT / ".cache" / "browser" / "node_modules")}
            subprocess.run([ROOT / ".cache/browser/node_modules/.bin/node", ROOT / "tools" / "page_pictures.mjs", json.dumps(settings)], check=True, env=scene.env)
        finally:
            scene.close()


if __name__ == "__main__":
    main()
