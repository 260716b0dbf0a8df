"""Spec 6, "More than one machine": what happens to a run when Redis itself is killed, goes back in time, is full, or is another one; and
which servers are refused."""

import ctypes
import fcntl
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import termios
import time

from flows import journal, last_document, only_run, trace, write_flow
from harness.harness import children_of, eq, main, test
from harness.redis import Redis
from harness.redis_cluster import answers
from harness.redis_proxy import Proxy
from harness.redis_tls import certificates, tls_options
from harness.workspace import Skip, free_port

SYS_pidfd_getfd = 438
CHAIN = [f"t{i}" for i in range(8)]
# Each one waits in the middle of the chain, until the test has done its worst.
FLOW = ("lease: 3s\nflow: " + " >> ".join(CHAIN) + "\ntasks:\n"
        + "".join(f"  {t}: {{run: 'echo {t} >> trace{'; until test -e go; do sleep 0.05; done' if t == 't3' else ''}'}}\n" for t in CHAIN))


def begin(ws, redis, url=None, flow=FLOW, env=None, **options):
    """A run that is in the middle of its chain."""
    more = {**({"TASUKI_REDIS": url} if url else {}), **(env or {})}
    redis.worker("-j", "2", env=more)
    runner = ws.spawn("run", write_flow(ws, flow), "--json", env=redis.env(more), **options)
    ws.until(lambda: "t3" in trace(ws), "t3")
    return runner


def ends_well(ws, runner):
    """Each task has ended once, and none that had ended before ran again."""
    (ws.path / "go").touch()
    result = ws.finish(runner, timeout=120)
    eq(last_document(result.expect(0))["status"], "DONE", "status")
    ends = [line["k"] for line in journal(ws, only_run(ws)) if line["e"] == "end"]
    eq(ends, CHAIN, "ends in the journal")
    eq([t for t in trace(ws) if t in ("t0", "t1", "t2")], ["t0", "t1", "t2"], "what had ended")
    return result


for name, options in (("off", []), ("everysec", ["--appendonly", "yes", "--appendfsync", "everysec"]),
                      ("always", ["--appendonly", "yes", "--appendfsync", "always"])):
    @test(f"kill -9 of Redis with AOF {name}: the run goes on, and what had ended does not run again", slow=True)
    def _(ws, options=options):
        redis = Redis(ws, *options)
        runner = begin(ws, redis)
        redis.kill()
        redis.start()
        ends_well(ws, runner)
        eq(redis.keys_without_ttl(), [], "keys without a TTL")


def says(log, word):
    return word in log.read_text()


def unread_bytes(pid):
    """What waits in the sockets of a process."""
    libc, count = ctypes.CDLL(None, use_errno=True), 0
    pidfd = os.pidfd_open(pid)
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        if os.readlink(link).startswith("socket:"):
            copy = libc.syscall(SYS_pidfd_getfd, pidfd, int(link.name), 0)
            assert copy >= 0, os.strerror(ctypes.get_errno())
            count += int.from_bytes(fcntl.ioctl(copy, termios.FIONREAD, bytes(4)), sys.byteorder)
            os.close(copy)
    os.close(pidfd)
    return count


@test("a Redis that is killed while a run ends, and comes back with what it had: nothing of the run stays there", slow=True)
def _(ws):
    redis = Redis(ws, "--appendonly", "yes", "--appendfsync", "always")
    redis.worker("-j", "1")
    runner = ws.spawn("run", write_flow(ws, "tasks: {a: 'echo 1 > up; until test -e go; do sleep 0.05; done'}\n"), "--json", env=redis.env())
    ws.until_file("up")
    base = f"tasuki:{{{only_run(ws)}}}:"
    link = next(pid for pid in children_of(runner.pid) if "tasuki-worker" in pathlib.Path(f"/proc/{pid}/cmdline").read_text())
    runner.send_signal(signal.SIGSTOP)
    before = unread_bytes(runner.pid)
    (ws.path / "go").touch()
    ws.until(lambda: [one for one in redis.call("HVALS", base + "state") if one.startswith("d ")], "the task's end at the server")
    ws.until(lambda: unread_bytes(runner.pid) > before, "the task's end before the runner")
    os.kill(link, signal.SIGSTOP)
    redis.kill()
    redis.start()
    assert base + "state" in redis.call("KEYS", base + "*"), "the server has what it had"
    runner.send_signal(signal.SIGCONT)
    ws.until(lambda: [line for line in journal(ws, only_run(ws)) if line["e"] == "done"], "the end of the run in the journal")
    os.kill(link, signal.SIGCONT)
    ws.finish(runner, timeout=120).expect(0)
    eq([key for key in redis.call("KEYS", base + "*") if key != base + "meta"], [], "keys of the run")


@test("an older dump is put back: nothing of then counts, and what had ended does not run again", slow=True)
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "2")
    flow = FLOW.replace("echo t1 >> trace", "echo t1 >> trace; until test -e saved; do sleep 0.05; done")
    runner = ws.spawn("run", write_flow(ws, flow), "--json", env=redis.env())
    ws.until(lambda: "t1" in trace(ws), "t1")
    redis.call("SAVE")
    (ws.path / "saved").touch()
    ws.until(lambda: "t3" in trace(ws), "t3")
    redis.kill()
    redis.start()
    eq(any(":specs:" in key for key in redis.call("KEYS", "*")), True, "whether the dump has something of the run")
    ends_well(ws, runner)


for _what, _word, _begin, _end in (
        ("memory is full", "OOM", "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
        ("permission to call the steps is taken away", "NOPERM", "ACL SETUSER default -@scripting", "ACL SETUSER default +@all"),
        ("replicas are too few", "NOREPLICAS", "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0")):
    @test(f"a Redis whose {_what} ({_word}), twice: the runner says it once, the worker each time, and the run goes on", slow=True)
    def _(ws, word=_word, begins=_begin.split(), ends=_end.split()):
        redis, said = Redis(ws), ws.path.parent / "said"
        flow = FLOW.replace("lease: 3s", "lease: 1h").replace("echo t5 >> trace", "echo t5 >> trace; until test -e go-on; do sleep 0.05; done")
        with open(said, "wb") as file:
            runner = begin(ws, redis, flow=flow, stderr=file)
        for times, gate, after in ((1, "go", "t5"), (2, "go-on", "t7")):
            redis.call(*begins)
            refused = answers(redis, word)
            (ws.path / gate).touch()
            ws.until(lambda: [log.read_text().count(word) for log in (said, redis.workers[0].log)] == [1, times], f"{word}, said by both")
            ws.until(lambda: answers(redis, word) > refused + 20, "more refusals, also of the end of the task")
            redis.call(*ends)
            ws.until(lambda: after in trace(ws), after)
        ends_well(ws, runner)
        eq([log.read_text().count(word) for log in (said, redis.workers[0].log)], [1, 2], "how often it was said")
        eq((trace(ws), ws.events("task.lost")), (CHAIN, []), "what ran, and was lost")


@test("a replica is promoted: the run goes on there", slow=True)
def _(ws):
    primary, replica = Redis(ws), Redis(ws)
    proxy = Proxy(ws, primary.port)
    replica.call("REPLICAOF", "127.0.0.1", primary.port)
    ws.until(lambda: "master_link_status:up" in replica.call("INFO", "replication"), "the replica")
    runner = begin(ws, primary, proxy.url)
    ws.until(lambda: any(replica.call("ZCARD", key) > 1 for key in replica.call("KEYS", "*:lease")), "the lease on the replica")
    proxy.port_behind = replica.port
    primary.kill()
    replica.call("REPLICAOF", "NO", "ONE")
    ends_well(ws, runner)
    eq(replica.keys_without_ttl(), [], "keys without a TTL")


def switch_roles(primary, replica, proxy):
    """From now on `replica` is the primary, and the proxy's new connections go there; the old ones stay."""
    proxy.port_behind = replica.port
    replica.call("REPLICAOF", "NO", "ONE")
    primary.call("REPLICAOF", "127.0.0.1", replica.port)


@test("a primary that lives on as a replica (READONLY) is left: the run goes on at the new one", slow=True)
def _(ws):
    primary, replica = Redis(ws), Redis(ws)
    proxy = Proxy(ws, primary.port)
    replica.call("REPLICAOF", "127.0.0.1", primary.port)
    ws.until(lambda: "master_link_status:up" in replica.call("INFO", "replication"), "the replica")
    runner = begin(ws, primary, proxy.url)
    switch_roles(primary, replica, proxy)
    ws.until(lambda: says(primary.workers[0].log, "READONLY"), "the worker's word")
    ends_well(ws, runner)
    primary.end_worker(primary.workers[0])  # before its proxy ends
    eq(replica.keys_without_ttl(), [], "keys without a TTL")


@test("a worker without tasks whose primary lives on as a replica (READONLY) is soon known at the new one", slow=True)
def _(ws):
    primary, replica = Redis(ws), Redis(ws)
    proxy = Proxy(ws, primary.port)
    worker = primary.worker("-j", "1", env={"TASUKI_REDIS": proxy.url})
    switch_roles(primary, replica, proxy)
    ws.until(lambda: any(f".{worker.pid}." in one for one in replica.call("ZRANGE", "tasuki:{pool default}:w", 0, -1)), "the worker there",
             timeout=120)


@test("a password and an ACL user: with them a run works, without them it is refused in words that do not show them", slow=True)
def _(ws):
    redis = Redis(ws)
    redis.call("ACL", "SETUSER", "tasuki", "on", ">sesame", "~tasuki:*", "resetchannels", "+@all", "-@admin")
    redis.call("CONFIG", "SET", "requirepass", "open-up")
    place = f"127.0.0.1:{redis.port}"
    flow = write_flow(ws, "tasks: {t: {run: 'echo t >> trace'}}\n")
    for url in (f"redis://{place}", f"redis://:wrong-word@{place}", f"redis://tasuki:wrong-word@{place}"):
        refused = ws.tasuki("run", flow, env=redis.env({"TASUKI_REDIS": url}))
        eq(refused.code not in (0, 7), True, f"exit code for {url}")
        said = re.search(r"Redis at (\S+) refuses the login: (NOAUTH|WRONGPASS) .*password_file", refused.err)
        eq(said and place in said[1], True, f"the server, the reason and the remedy in {refused.err}")
        eq(".." in refused.err, False, f"whether a sentence ends twice in {refused.err}")
        eq("wrong-word" in refused.err + refused.out, False, "whether the password is shown")
    for url in (f"redis://:open-up@{place}", f"redis://tasuki:sesame@{place}"):
        worker = redis.worker("-j", "1", env={"TASUKI_REDIS": url})
        eq(last_document(ws.tasuki("run", flow, "--json", env=redis.env({"TASUKI_REDIS": url})).expect(0))["status"], "DONE", url)
        redis.end_worker(worker)


@test("a URL may have its words encoded, name a database, and name a socket; and one that is none is refused before anything is asked")
def _(ws):
    socket = ws.path.parent / "a socket"
    redis = Redis(ws, "--unixsocket", str(socket))
    redis.call("CONFIG", "SET", "requirepass", "p@ss/word:%x?")
    place = f"127.0.0.1:{redis.port}"
    word = "p%40ss%2Fword%3A%25x%3f"
    redis.call("SELECT", "3")
    redis.worker("-j", "1", env={"TASUKI_REDIS": f"redis://:{word}@{place}/3"})
    ws.until(lambda: redis.call("KEYS", "*"), "the worker is known in that database")
    redis.call("SELECT", "0")
    eq(redis.call("KEYS", "*"), [], "what is in database 0")

    def ask(url, **env):
        return ws.tasuki("workers", "list", "--json", env=redis.env({"TASUKI_REDIS": url, **env}))

    (ws.path / "password").write_text("p@ss/word:%x?\r\nnot this\n")
    with_file = {"TASUKI_REDIS_PASSWORD_FILE": str(ws.path / "password")}
    for url, env, count in ((f"redis://:{word}@{place}/3", {}, 1), (f"redis://:{word}@{place}/", {}, 0), (f"redis://{place}", with_file, 0),
                            (f"redis://default:{word}@127%2E0.0.1:{redis.port}/3", {}, 1), (f"unix://{socket}".replace(" ", "%20"), with_file, 0)):
        eq(len(ask(url, **env).expect(0).json["workers"]), count, f"workers that {url} finds")
    for url in ("redis:/x", "http://x", "redis://", "redis://:6379", "redis://x:", "redis://x:12a", "redis://x:1:2", "redis://[::1", "redis://[::1]x",
                "redis://x/1a", "redis://x/12345678", "redis://x%", "redis://x%4", "redis://x%4g", "redis://x%g4", "redis://x%00y",
                f"redis://{'x' * 300}", f"redis://:{'x' * 5000}@x", "redis://a%zz:b@x", "unix://", "unix://%2"):
        refused = ask(url)
        eq((refused.code, refused.error["reason_code"]), (2, "INVALID_INPUT"), f"the refusal of {url}")
    for url, shown in (("redis://[::1]:1/7", "redis://::1:1/7"), ("rediss://127.0.0.1:1", "rediss://127.0.0.1:1/0"),
                       ("unix:///no%7Ewhere", "unix:///no~where")):
        message = ask(url).error["message"]
        assert shown in message, f"{url}: {message}"


@test("the URL of a Sentinel is refused in words")
def _(ws):
    refused = ws.tasuki("run", write_flow(ws, FLOW), env=Redis(ws).env({"TASUKI_REDIS": "redis+sentinel://127.0.0.1:26379/main"}))
    eq(refused.code not in (0, 7), True, "exit code")
    eq("Sentinel" in refused.err, True, f"the word in {refused.err}")


@test("TLS: with its CA a run works; a certificate of another CA, and one for another name, are refused in words")
def _(ws):
    folder, port = certificates(ws.path.parent / "tls"), free_port(ws)
    redis = Redis(ws, *tls_options(folder, port))
    flow = write_flow(ws, "tasks: {t: {run: 'echo t >> trace'}}\n")
    for host, ca in (("127.0.0.1", "other.crt"), ("localhost", "ca.crt")):
        refused = ws.tasuki("run", flow, env=redis.env({"TASUKI_REDIS": f"rediss://{host}:{port}", "TASUKI_REDIS_CA": str(folder / ca)}))
        eq(refused.code not in (0, 7), True, f"exit code for {host} with {ca}")
        eq("certificate" in refused.err or "mismatch" in refused.err, True, f"the reason in {refused.err}")
    eq(trace(ws), [], "what ran")
    env = {"TASUKI_REDIS": f"rediss://127.0.0.1:{port}", "TASUKI_REDIS_CA": str(folder / "ca.crt")}
    redis.worker("-j", "1", env=env)
    eq(last_document(ws.tasuki("run", flow, "--json", env=redis.env(env)).expect(0))["status"], "DONE", "status")


def refusal_of(redis):
    try:
        return redis.call("PING") and ""
    except RuntimeError as refusal:
        return str(refusal)


@test("a server that is busy with another's script (BUSY): the run goes on when it is free again", slow=True)
def _(ws):
    redis = Redis(ws, "--busy-reply-threshold", "50")
    runner = begin(ws, redis)
    other = socket.create_connection(("127.0.0.1", redis.port))
    ws.at_close(other.close)
    other.sendall(b"EVAL \"while true do end\" 0\r\n")
    ws.until(lambda: refusal_of(redis).startswith("BUSY"), "a busy server")
    ws.until(lambda: says(redis.workers[0].log, "BUSY"), "the worker's word")
    redis.call("SCRIPT", "KILL")
    ends_well(ws, runner)


@test("a server that loads its data (LOADING) is away: the run goes on when it has them", slow=True)
def _(ws):
    redis = Redis(ws)
    runner = begin(ws, redis)
    redis.call("MSET", *[word for i in range(2000) for word in (f"k{i}", "x" * 100)])
    redis.call("SAVE")
    redis.kill()
    redis.process = subprocess.Popen(["redis-server", "--port", str(redis.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(redis.dir),
                                      "--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ws.until(lambda: says(redis.workers[0].log, "LOADING"), "the worker's word")
    ws.until(redis._answers, "the end of the loading")
    ends_well(ws, runner)


@test("a server that has no room for more clients (maxclients): the run goes on when it has", slow=True)
def _(ws):
    redis = Redis(ws)
    runner = begin(ws, redis)
    redis.call("CONFIG", "SET", "maxclients", "1")
    redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    ws.until(lambda: says(redis.workers[0].log, "max number of clients"), "the worker's word")
    redis.call("CONFIG", "SET", "maxclients", "100")
    ends_well(ws, runner)


@test("TLS: a server that wants a client's certificate gets it from the configuration; without one, and with one of another CA, it is refused")
def _(ws):
    folder, port = certificates(ws.path.parent / "tls"), free_port(ws)
    redis = Redis(ws, *tls_options(folder, port, clients="yes"))
    flow = write_flow(ws, "tasks: {t: {run: 'echo t >> trace'}}\n")
    def config(more):
        (ws.path / ".aiflow/config.yaml").write_text(f"redis: {{url: 'rediss://127.0.0.1:{port}', ca: {folder}/ca.crt{more}}}\n")
    env = {"PATH": redis.env()["PATH"]}
    for more in ("", f", cert: {folder}/other.crt, key: {folder}/other.key"):
        config(more)
        refused = ws.tasuki("run", flow, env=env)
        eq((refused.code not in (0, 7), "Redis" in refused.err), (True, True), f"the refusal for '{more}', {refused.err}")
    config(f", cert: {folder}/server.crt, key: {folder}/server.key")
    names = {"CA": "ca.crt", "CERT": "server.crt", "KEY": "server.key"}
    redis.worker("-j", "1", env={"TASUKI_REDIS": f"rediss://127.0.0.1:{port}", **{f"TASUKI_REDIS_{k}": f"{folder}/{v}" for k, v in names.items()}})
    eq(last_document(ws.tasuki("run", flow, "--json", env=env).expect(0))["status"], "DONE", "status")
    eq(trace(ws), ["t"], "what ran")


CLOCK = r"""#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
int gettimeofday(struct timeval *now, void *zone)
{
    static int (*real)(struct timeval *, void *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "gettimeofday");
    int result = real(now, zone);
    FILE *file = fopen(getenv("CLOCK_STEP"), "r");
    long step = 0;
    if (file && fscanf(file, "%ld", &step) == 1) now->tv_sec += step;
    if (file) fclose(file);
    return result;
}
"""


@test("the server's clock is stepped by a minute, forth and back: nothing is taken over", slow=True)
def _(ws):
    if not shutil.which("gcc"):
        raise Skip("gcc is not installed")
    folder = ws.path.parent
    (folder / "clock.c").write_text(CLOCK)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(folder / "clock.so"), str(folder / "clock.c"), "-ldl"], check=True)
    (folder / "step").write_text("0")
    os.environ.update({"LD_PRELOAD": str(folder / "clock.so"), "CLOCK_STEP": str(folder / "step")})
    try:
        redis = Redis(ws)
    finally:
        os.environ.pop("LD_PRELOAD")
    runner = begin(ws, redis)
    meta = next(key for key in redis.call("KEYS", "tasuki:*:lease")).replace(":lease", ":meta")
    for step in (60, -60, 0):
        before = int(redis.call("TIME")[0])
        (folder / "step").write_text(str(step))
        ws.until(lambda: abs(int(redis.call("TIME")[0]) - before) > 40, "the step of the server's clock")
        tick = int(redis.call("HGET", meta, "fence"))
        ws.until(lambda: int(redis.call("HGET", meta, "fence")) > tick + 7, "renewals for more than a lease")
    ends_well(ws, runner)
    eq(trace(ws), CHAIN, "what ran")
    eq(ws.events("task.lost"), [], "takeovers")


main(__name__)
