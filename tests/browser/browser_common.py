"""What the suites of the page share: a server, Debian's Chromium, and the scenarios in tests/browser/*.mjs.

A scenario is a function of one of those files. `run.mjs` gives it a page that is open, and ways to use the command line
beside it; it fails when the page reports an error or breaks its Content-Security-Policy. The scenarios of a suite have one
browser, each of them windows that share nothing with the others'; a browser that has died is started again.
"""

import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "spec"))

from harness.harness import Skip, keep, test  # noqa: E402
from http_common import Server  # noqa: E402

CACHE = HERE.parents[1] / ".cache" / "browser"
CHROMIUM = "/usr/bin/chromium"
NODE = CACHE / "node_modules" / ".bin" / "node"  # the driver needs a newer one than Debian's


def need_browser():
    if not os.path.exists(CHROMIUM):
        raise Skip("chromium is not installed; ./dev test does it where Debian's packages can be reached")
    if not (CACHE / "installed").exists():
        raise Skip("the driver of the browser is not installed; ./dev test does it where npm can be reached")


class Browser:
    """The one of this suite; begun before the test that needs it is forked."""

    process, home, address = None, None, None

    @classmethod
    def begin(cls):
        if not is_here() or (cls.process and cls.process.poll() is None):
            return
        cls.home = cls.home or tempfile.TemporaryDirectory(prefix="tasuki-browser-")
        env = {"PATH": os.environ["PATH"], "HOME": cls.home.name, "TMPDIR": cls.home.name, "LANG": "C.UTF-8"}
        cls.process = subprocess.Popen([NODE, HERE / "browser.mjs", CACHE / "node_modules", CHROMIUM], env=env, text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        keep(cls.process)
        ready, _, _ = select.select([cls.process.stdout], [], [], 60)
        cls.address = cls.process.stdout.readline().strip() if ready else None  # without one each scenario starts its own


def is_here():
    return os.path.exists(CHROMIUM) and (CACHE / "installed").exists()


def clean_up(ws):
    """Whatever the scenario has started ends here."""
    ws.tasuki("proc", "stop", "--all", "--quiet")
    ws.tasuki("proc", "remove", "--all", "--force", "--quiet")


def play(ws, file, name, env=None, scene=None):
    """`env`: for the server and for what the scenario calls; `scene`: what the scenario knows besides."""
    need_browser()
    path = f"{ws.build}:{ws.env()['PATH']}"  # tasks of flows call tasuki
    env = {**(env or {}), "PATH": path}
    server = Server(ws, env=env)
    env["TASUKI_SCENE"] = json.dumps({
        **(scene or {}),
        "page": server.said["page"], "url": server.url, "pid": server.proc.pid, "port": server.port, "root": str(ws.path),
        "binary": str(ws.binary), "chromium": CHROMIUM,
        "browser": Browser.address, "modules": str(CACHE / "node_modules")})
    env["TASUKI_PATIENCE_MS"] = os.environ.get("TASUKI_PATIENCE_MS", "60000")
    try:
        result = ws.run([NODE, HERE / "run.mjs", HERE / file, name], env=env, timeout=170)
    finally:
        server.proc.kill()
        server.proc.wait()
        clean_up(ws)
    result.expect(0)


def scenarios(file, **names):
    """A test for each scenario of the file: name of the function -> the rule."""
    for name, rule in names.items():
        test(rule, quick=False, deadline=240, before=Browser.begin)(lambda ws, name=name: play(ws, file, name))
