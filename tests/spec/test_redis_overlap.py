"""Never two copies of a task at once: a worker is cut off, or one process of it is stopped or killed, past the lease. The witness is a
file that the task locks for its life (flock), outside of tasuki: a copy that finds it locked says so."""

import os
import pathlib
import shutil
import signal
import struct
import subprocess

from flows import journal, last_document, only_run, write_flow
from harness.harness import eq, main, test
from harness.redis import Redis
from harness.redis_proxy import Proxy
from harness.redis_tls import certificates, tls_options
from harness.workspace import Skip, free_port

FLOW = """lease: 2s
tasks:
  t:
    retries: 1
    backoff: {initial: 1ms}
    run: |
      exec 9>>witness
      flock -n 9 || echo "$TASUKI_WORKER" >> overlaps
      echo "$TASUKI_WORKER $$" >> who
      test "$TASUKI_WORKER" = two || until test -e go; do sleep 0.05 SLEEP; done
"""


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(one) for one in file.read().split()]


class Pair:
    """A task on the worker `one`, which reaches its server over a proxy; `two` waits for it. `tls` = a folder of certificates: `one`
    speaks TLS. `env`: more for `one`; PROXY stands for the proxy's port. `more`: the rest of the flow."""

    def __init__(self, ws, sleep="", tls=None, env=None, more=""):
        port = free_port(ws) if tls else 0
        self.ws, self.redis = ws, Redis(ws, *(tls_options(tls, port) if tls else []))
        self.proxy = Proxy(ws, port or self.redis.port)
        env = {name: value.replace("PROXY", str(self.proxy.port)) for name, value in (env or {}).items()}
        self.one = self.redis.worker("-j", "1", "--name", "one", env={"TASUKI_REDIS": self.proxy.url, **env})
        self.guard = children(self.one.pid)[0]
        self.runner = ws.spawn("run", write_flow(ws, FLOW.replace("SLEEP", sleep) + more), "--json", env=self.redis.env())
        self.shell = int(ws.until_file("who").split()[1])
        self.redis.worker("-j", "1", "--name", "two")
        ws.at_close(lambda: self.redis.end_worker(self.one))  # before its proxy ends

    def stop_guard(self):
        os.kill(self.guard, signal.SIGSTOP)
        self.ws.kill_at_close(self.guard, signal.SIGCONT)

    def ends(self, workers, lost):
        """The run ends well, on these workers, and no two copies were there at once."""
        result = self.ws.finish(self.runner)
        self.proxy.is_silent = False
        eq(last_document(result.expect(0))["status"], "DONE", "status")
        eq((self.ws.path / "overlaps").exists(), False, "whether two copies ran at once")
        eq([line.split()[0] for line in (self.ws.path / "who").read_text().splitlines()], workers, "workers")
        eq([e["data"]["why"] for e in self.ws.events("task.lost")], lost, "why it was lost")

    def passes_leases(self, count=2):
        """The lease is renewed this long: its tick moves."""
        key = [key for key in self.redis.call("KEYS", "tasuki:*:lease")][0].replace(":lease", ":meta")
        first = int(self.redis.call("HGET", key, "fence"))
        self.ws.until(lambda: int(self.redis.call("HGET", key, "fence")) > first + 5 * count, "renewals")


@test("a worker that is cut off ends its task before its lease does, and another one takes it: never two at once", slow=True, quick=False)
def _(ws):
    pair = Pair(ws)
    pair.proxy.is_silent = True
    pair.ends(["one", "two"], ["lease"])


for _attribute, _what in (("is_deaf", "gets no answer, though its requests arrive"), ("is_mute", "cannot send, though it would hear")):
    @test(f"a worker that {_what}: it ends its task before its lease does, and another one takes it: never two at once", slow=True, quick=False,
          long=_attribute == "is_mute")
    def _(ws, attribute=_attribute):
        pair = Pair(ws)
        setattr(pair.proxy, attribute, True)
        pair.ends(["one", "two"], ["lease"])
        setattr(pair.proxy, attribute, False)


@test("a worker that is stopped: its guard ends the task in time; when it goes on, it starts nothing and says nothing", slow=True, quick=False)
def _(ws):
    pair = Pair(ws)
    pair.one.send_signal(signal.SIGSTOP)
    pair.ends(["one", "two"], ["lease"])
    pair.one.send_signal(signal.SIGCONT)


@test("a worker that is killed: its guard ends the task, then the lease goes back", slow=True, quick=False)
def _(ws):
    pair = Pair(ws)
    pair.one.kill()
    pair.ends(["one", "two"], ["back"])
    ws.until(lambda: len([path for path in pair.redis.dir.iterdir() if path.name.startswith("tasuki-worker-")]) == 1, "the removal of its files")


@test("all processes of a worker are stopped at once, as in a frozen machine: after the thaw the old copy is ended, and its result is refused",
      slow=True, quick=False)
def _(ws):
    pair = Pair(ws, more="  u: {run: 'echo u >> who; until test -e go-on; do sleep 0.05; done'}\nflow: t >> u\n")
    frozen = [pair.one.pid, pair.guard, pair.shell, *children(pair.shell)]
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    ws.until(lambda: "u" in (ws.path / "who").read_text(), "the task on the other worker, and the next one")
    for pid in frozen:
        if ws.alive(pid):
            os.kill(pid, signal.SIGCONT)
    ws.until(lambda: not ws.alive(pair.shell), "the end of the old copy")
    ws.until(lambda: "task=t lost" in pair.one.log.read_text(), "the worker's word")
    (ws.path / "go-on").touch()
    eq(last_document(ws.finish(pair.runner).expect(0))["status"], "DONE", "status")
    eq([line["k"] for line in journal(ws, only_run(ws)) if line["e"] == "end" and line["o"] == "ok"], ["t", "u"], "ends in the journal")
    eq([e["data"]["why"] for e in ws.events("task.lost")], ["lease"], "why it was lost")


for _what in ("", ", also if they were of the version before"):
    @test(f"worker and guard are killed at once: the next worker on the machine ends what their task left running, and removes their files{_what}",
          slow=True, quick=False)
    def _(ws, is_old=bool(_what)):
        pair = Pair(ws)
        scratch = lambda: {path for path in pair.redis.dir.iterdir() if path.name.startswith("tasuki-worker-")}
        eq(len(scratch()), 2, "directories of the two workers")
        sleeper = ws.until(lambda: children(pair.shell), "a process of the task")[0]
        os.kill(sleeper, signal.SIGSTOP)  # so that it stays
        pair.one.send_signal(signal.SIGSTOP)
        os.kill(pair.guard, signal.SIGKILL)
        pair.one.kill()
        pair.one.wait()
        eq(ws.alive(sleeper), True, "whether something of the task is left")
        if is_old:  # its log has a name that says what the file of attempts says now
            old = pathlib.Path(os.readlink(f"/proc/{sleeper}/fd/1")).parent
            (fence,) = struct.unpack_from("Q", (old / "attempts").read_bytes())
            (old / "log.0").rename(old / f"log.0.{fence}.{only_run(ws)}")
            (old / "attempts").unlink()
        pair.redis.worker("-j", "1", "--name", "three")
        ws.until(lambda: not ws.alive(sleeper), "its end")
        eq(len(scratch()), 2, "directories of the two workers that live")
        eq(last_document(ws.finish(pair.runner).expect(0))["status"], "DONE", "status")


@test("a guard that is stopped past the lease: the worker renews, and the guard that goes on kills nothing", slow=True, quick=False)
def _(ws):
    pair = Pair(ws)
    os.kill(pair.guard, signal.SIGSTOP)
    pair.passes_leases()
    os.kill(pair.guard, signal.SIGCONT)
    pair.passes_leases(1)
    (ws.path / "go").touch()
    pair.ends(["one"], [])


@test("a guard that was killed is replaced, and the new one ends the task of a worker that is cut off", slow=True, quick=False)
def _(ws):
    pair = Pair(ws)
    os.kill(pair.guard, signal.SIGKILL)
    pair.passes_leases(1)
    eq(ws.until(lambda: [one for one in children(pair.one.pid) if one not in (pair.guard, pair.shell)], "another guard") != [], True, "guard")
    pair.proxy.is_silent = True
    pair.ends(["one", "two"], ["lease"])


@test("a guard that is stopped, and a worker that is cut off: the worker ends the task in time, though it waits for an answer", slow=True, quick=False)
def _(ws):
    pair = Pair(ws)
    pair.stop_guard()
    pair.proxy.is_silent = True
    pair.ends(["one", "two"], ["lease"])


@test("a guard that is stopped, and a worker whose TLS handshake is not answered: the worker ends the task in time", slow=True, quick=False)
def _(ws):
    folder = certificates(ws.path.parent / "tls")
    pair = Pair(ws, tls=folder, env={"TASUKI_REDIS": "rediss://127.0.0.1:PROXY", "TASUKI_REDIS_CA": str(folder / "ca.crt")})
    pair.stop_guard()
    pair.proxy.is_silent = True
    pair.proxy.hang_up()
    pair.ends(["one", "two"], ["lease"])


NAMES = r"""#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <unistd.h>
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
    while (!(hints->ai_flags & AI_NUMERICHOST) && access(getenv("NAMES_HANG"), F_OK) == 0)
        usleep(50000);
    return real(host, port, hints, ret);
}
"""


@test("a guard that is stopped, and a worker that looks for the server's name without an end: the worker ends the task in time", slow=True,
      quick=False)
def _(ws):
    if not shutil.which("gcc"):
        raise Skip("gcc is not installed")
    folder = ws.path.parent
    (folder / "names.c").write_text(NAMES)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(folder / "names.so"), str(folder / "names.c"), "-ldl"], check=True)
    pair = Pair(ws, env={"TASUKI_REDIS": "redis://localhost:PROXY", "LD_PRELOAD": str(folder / "names.so"), "NAMES_HANG": str(folder / "hang")})
    pair.stop_guard()
    (folder / "hang").touch()
    ws.at_close((folder / "hang").unlink)
    pair.proxy.hang_up()
    pair.ends(["one", "two"], ["lease"])


@test("a task whose shell is stopped past the lease keeps its lease", slow=True, quick=False)
def _(ws):
    pair = Pair(ws)
    os.kill(pair.shell, signal.SIGSTOP)
    pair.passes_leases()
    os.kill(pair.shell, signal.SIGCONT)
    (ws.path / "go").touch()
    pair.ends(["one"], [])


@test("a task whose shell is killed has failed, and is tried again", slow=True, quick=False)
def _(ws):
    pair = Pair(ws, sleep="9>&-")
    os.kill(pair.shell, signal.SIGKILL)
    ws.until(lambda: len((ws.path / "who").read_text().splitlines()) == 2, "the second try")
    (ws.path / "go").touch()
    eq(last_document(ws.finish(pair.runner).expect(0))["status"], "DONE", "status")
    eq((ws.path / "overlaps").exists(), False, "whether two copies ran at once")


main(__name__)
