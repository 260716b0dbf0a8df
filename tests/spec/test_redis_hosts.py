"""Two hosts, which are two network namespaces. docs/guide/scale.md, "Five minutes": a diamond on both, with its scripts shipped. And a
network between them that swallows everything, without a word to the connections that use it."""

import os
import re
import shutil
import subprocess

from flows import last_document
from harness.harness import eq, main, test
from harness.sources import ROOT
from harness.workspace import Skip

SERVER = "10.77.0.1"


class Host:
    """A network namespace with a directory of its own."""

    def __init__(self, ws, name, address):
        self.ws, self.name, self.address = ws, name, address
        self.space, self.dir = f"tsk{name[-1]}{os.getpid()}", ws.path.parent / name
        self.dir.mkdir()
        ip("netns", "add", self.space)
        ws.at_close(lambda: subprocess.run(["ip", "netns", "del", self.space], capture_output=True))

    def words(self, *words):
        return ["ip", "netns", "exec", self.space, *words]

    def env(self):
        return {"PATH": f"{self.ws.build}:{os.environ['PATH']}", "TMPDIR": str(self.dir)}

    def start(self, *words):
        process = self.ws.spawn_command(self.words(*words), env=self.env(), cwd=self.dir)
        self.ws.at_close(lambda: (process.terminate(), process.terminate(), process.wait(30)))
        return process

    def run(self, *words):
        return self.ws.run(self.words(*words), env=self.env(), cwd=self.dir)


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode:
        raise Skip(f"ip {' '.join(words)}: {done.stderr.strip()}")


def two_hosts(ws):
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("redis-server"):
        raise Skip("it needs root, iproute2 and redis-server")
    hosts = [Host(ws, "host-a", SERVER), Host(ws, "host-b", "10.77.0.2")]
    ends = [f"{host.space}e" for host in hosts]
    ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
    for host, end in zip(hosts, ends):
        ip("link", "set", end, "netns", host.space)
        for words in (["addr", "add", f"{host.address}/24", "dev", end], ["link", "set", end, "up"], ["link", "set", "lo", "up"]):
            ip("-n", host.space, *words)
    return hosts


def guide_block(language, number=0):
    """The block of that language in the section."""
    text = (ROOT / "docs/guide/scale.md").read_text().partition("## Five minutes\n")[2].partition("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)[number]


@test("the five minutes of the guide: nothing on host-b but the program, and the diamond is finished by both", slow=True, init=False)
def _(ws):
    a, b = two_hosts(ws)
    a.start("redis-server", "--bind", SERVER, "--protected-mode", "no", "--save", "")
    ws.until(lambda: a.run("redis-cli", "-h", SERVER, "PING").out == "PONG\n", "redis-server")
    (a.dir / "scripts").mkdir()
    script = a.dir / "scripts/part.sh"  # the two parts wait for each other, so that both hosts are needed
    script.write_text(f'#!/bin/sh\nredis-cli -h {SERVER} incr met\nuntil test "$(redis-cli -h {SERVER} get met)" = 2; do sleep 0.1; done\n'
                      'tasuki channel set "$1" "$TASUKI_WORKER"\n')
    script.chmod(0o755)
    (a.dir / "diamond.yaml").write_text(guide_block("yaml"))
    commands = [line.partition("$ ") for line in guide_block("sh").splitlines() if "$ " in line]
    hosts = {"host-a": a, "host-b": b}
    for host, _, command in commands:
        words = command.partition("  #")[0].replace("host-a.internal", SERVER).split()
        if words[0] == "tasuki" and words[1] == "worker":
            hosts[host].start(*words)
        elif words[0] == "tasuki":
            result = hosts[host].run(*words, "--json").expect(0)
    stage = last_document(result)
    eq((stage["status"], sorted(stage["channel"].values())), ("DONE", ["host-a", "host-b"]), "status, and where the two parts ran")
    eq(os.listdir(b.dir) == [] or all(name.startswith("tasuki-worker-") for name in os.listdir(b.dir)), True, "what host-b has")


FLOW = """lease: 3s
tasks:
  t:
    run: |
      exec 9>>{place}/witness
      flock -n 9 || echo $TASUKI_WORKER >> {place}/overlaps
      echo $TASUKI_WORKER >> {place}/who
      test $TASUKI_WORKER = host-a || until test -e {place}/go; do sleep 0.05; done
"""


def wrong_neighbour(host, end, other):
    """What the host sends to the other goes to nobody; what comes from there arrives."""
    ip("-n", host.space, "neigh", "replace", other.address, "lladdr", "02:00:00:00:00:01", "dev", end, "nud", "permanent")


for _what, _cut in (("the link of host-b is down", lambda a, b: ip("-n", b.space, "link", "set", f"{b.space}e", "down")),
                    ("what host-b sends is lost", lambda a, b: wrong_neighbour(b, f"{b.space}e", a)),
                    ("what is sent to host-b is lost", lambda a, b: wrong_neighbour(a, f"{a.space}e", b))):
    @test(f"{_what}: its task ends there before the lease does, and then runs on host-a; never two at once", slow=True, quick=False, init=False)
    def _(ws, cut=_cut):
        a, b = two_hosts(ws)
        url = f"redis://{SERVER}"
        a.start("redis-server", "--bind", SERVER, "--protected-mode", "no", "--save", "")
        ws.until(lambda: a.run("redis-cli", "-h", SERVER, "PING").out == "PONG\n", "redis-server")
        a.run("tasuki", "init").expect(0)
        (a.dir / "flow.yaml").write_text(FLOW.format(place=ws.path))
        b.start("tasuki", "worker", "--redis", url, "-j", "1", "--name", "host-b")
        runner = a.start("tasuki", "run", "flow.yaml", "--redis", url, "--json")
        ws.until(lambda: (ws.path / "who").exists(), "the task on host-b")
        cut(a, b)
        a.start("tasuki", "worker", "--redis", url, "-j", "1", "--name", "host-a")
        eq(last_document(ws.finish(runner, timeout=120).expect(0))["status"], "DONE", "status")
        eq((ws.path / "who").read_text().split(), ["host-b", "host-a"], "where it ran")
        eq((ws.path / "overlaps").exists(), False, "whether two copies ran at once")


main(__name__)
