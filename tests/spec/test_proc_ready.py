"""Readiness and health: each kind of probe against a real process, waiting for it, and probes that end when they should."""

import json
import os
import signal
import socket

from harness.harness import Skip, children_of, eq, main, test
from harness.processes import Processes, command_line_of, send
from harness.workspace import free_port
from common import check_error

PYTHON = "/usr/bin/env", "python3"

# Answers with 503 until the file `go` is there, then with 200.
HTTP_SERVER = """
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if os.path.exists("go") else 503)
        self.end_headers()
        self.wfile.write(self.path.encode())
    def log_message(self, *args):
        print(self.headers["Host"], self.path, flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""

# Listens on its port when the file `go` is there.
PORT_SERVER = """
import os, socket, sys, time
while not os.path.exists("go"):
    time.sleep(0.005)
server = socket.create_server((sys.argv[2], int(sys.argv[1])), family=socket.AF_INET6 if ":" in sys.argv[2] else socket.AF_INET)
time.sleep(1000)
"""

# Sends each line of the file `say` as a datagram of sd_notify(3), as they come.
NOTIFIER = r"""
import os, socket, time
place = os.environ["NOTIFY_SOCKET"].replace("@", "\0", 1)
mail = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
said = 0
while True:
    lines = open("say").read().split("\n")[:-1] if os.path.exists("say") else []
    for line in lines[said:]:
        mail.sendto(line.encode().decode("unicode_escape").encode(), place)
        said += 1
    open("said", "w").write(str(said))
    time.sleep(0.005)
"""


def python(p, id, text, *args, options=()):
    """Creates a process that is a Python program, in the workspace's directory."""
    p.create(id, (*PYTHON, "-uc", text, *map(str, args)), "--cwd", str(p.ws.path), *options)


def shell(p, id, text, *options):
    p.script(id, text, "--cwd", str(p.ws.path), *options)


def when_go(then):
    """A script that does `then` when the file `go` is there, and stays."""
    return f"while ! test -e go; do sleep 0.005; done; {then}; exec sleep 1000"


def wait_ready(p, id, *options):
    """`proc wait --for ready` in the background."""
    return p.ws.spawn("--json", "proc", "wait", id, "--for", "ready", *options)


def go(ws):
    (ws.path / "go").touch()


def becomes_ready_only_after_go(p, id, phases=("ready",)):
    """It is started, is not ready, and is ready when `go` is there; who waits is told. Returns the record."""
    eq(p.start(id)["phase"], "starting", "the phase after the start")
    waiter = wait_ready(p, id)
    p.ws.until_file(p.dir(id) / "phase")
    eq(p.status(id)["phase"], "starting", "the phase before it says so")
    assert waiter.poll() is None, "the wait has ended before it is ready"
    go(p.ws)
    record = p.ws.finish(waiter).expect(0).json
    eq(record["state_name"], "Running", "the state")
    assert record["phase"] in phases, record["phase"]
    return record


def probes(pid):
    """The pids of the probes below a process."""
    return [child for child in children_of(pid) if "probe" in command_line_of(child)[1:2]]


def probe_of(p, id):
    holder = p.status_file(id)["holder"]["pid"]
    return p.ws.until(lambda: probes(holder), f"the probe of {id} runs")[0]


def phase_file(p, id):
    return json.loads((p.dir(id) / "phase").read_text())


# -- kinds -----------------------------------------------------------------------------------------------------------

for stream in ("", " >&2"):
    for mode in ("direct", "pipe", "stamped"):
        @test(f"ready by a log line{' of stderr' if stream else ''}, output kept in mode {mode}")
        def _(ws, stream=stream, mode=mode):
            p = Processes(ws)
            shell(p, "web", "echo begin; " + when_go(f"echo listening on 8080{stream}"), "--log", mode, "--ready",
                  "log:^listening on [0-9]+$")
            becomes_ready_only_after_go(p, "web")
            assert "listening on 8080" in phase_file(p, "web")["detail"]
            p.stop("web")


# -- only its own listener counts -------------------------------------------------------------------------------------

def taken_port():
    """A socket of the test's that listens, and its port."""
    other = socket.create_server(("127.0.0.1", 0))
    return other, other.getsockname()[1]


@test("ready by a port: the listener is found behind a hundred others, which the kernel lists in pieces")
def _(ws):
    p = Processes(ws)
    others = [socket.create_server(("127.0.0.1", 0)) for _ in range(100)]
    by_port = {one.getsockname()[1]: one for one in others}
    with open("/proc/self/net/tcp") as table:
        ports = [int(line.split()[1].partition(":")[2], 16) for line in table.readlines()[1:]]
    port = [port for port in ports if port in by_port][-1]
    by_port[port].close()
    python(p, "web", PORT_SERVER, port, "127.0.0.1", options=("--ready", f"port:{port}"))
    go(ws)
    p.start("web")
    ws.finish(wait_ready(p, "web")).expect(0)
    for one in others:
        one.close()


for kind, place in (("port", "port:{}"), ("http", "http://127.0.0.1:{}/")):
    @test(f"{kind}: what another program answers does not make a process ready", slow=True)
    def _(ws, place=place):
        p = Processes(ws)
        other, port = taken_port()
        p.create("web", ("sleep", "1000"), "--ready", place.format(port))
        p.start("web")
        ws.until(lambda: (p.dir("web") / "phase").exists() and "another program listens there" in phase_file(p, "web")["detail"],
                 "the probe says who answers")
        eq(p.status("web")["phase"], "starting")
        other.setblocking(False)
        heard = b""
        try:
            while not heard:
                heard = other.accept()[0].recv(100)
        except BlockingIOError:
            pass
        eq(heard, b"", "what the other program was asked")
        p.stop("web")
        other.close()


@test("a phase file that cannot be read makes no process ready, and the status says so")
def _(ws):
    p = Processes(ws)
    shell(p, "web", "echo up; exec sleep 1000", "--ready", "log:up")
    shell(p, "api", "exec sleep 1000", "--health", "exec:true", "--health-interval", "1h")
    for id, phase in (("web", "starting"), ("api", "unhealthy")):
        p.start(id)
        if id == "web":
            ws.finish(wait_ready(p, id)).expect(0)  # its probe has ended
        else:
            ws.until_file(p.dir(id) / "phase")
            send(probe_of(p, id), signal.SIGSTOP)
        (p.dir(id) / "phase").write_text("{")
        record = p.status(id)
        eq((record["phase"], "cannot be read" in json.dumps(record)), (phase, True), id)


@test("a server that dies of a taken port was never ready", slow=True)
def _(ws):
    p = Processes(ws)
    other, port = taken_port()
    python(p, "web", PORT_SERVER, port, "127.0.0.1", options=("--ready", f"port:{port}"))
    p.start("web")
    ws.until(lambda: (p.dir("web") / "phase").exists() and "another program" in phase_file(p, "web")["detail"], "a look at the port")
    waiter = wait_ready(p, "web")
    go(ws)
    check_error(ws.finish(waiter), 7, "ProcessStartFailed")
    p.until_state("web", "Failed")
    eq(phase_file(p, "web")["phase"], "starting")
    other.close()


# The listener is an orphan in a session of its own, without the life lock.
DAEMON = """
import os, time
if os.fork():
    time.sleep(1000)
os.setsid()
if os.fork():
    os._exit(0)
os.closerange(3, 200)
""" + PORT_SERVER

for adopted in (False, True):
    @test("a listener that left its parents counts as the process's own" + (", also after an adoption" if adopted else ""))
    def _(ws, adopted=adopted):
        p = Processes(ws)
        port = free_port(ws)
        python(p, "web", DAEMON, port, "127.0.0.1", options=("--ready", f"port:{port}"))
        p.start("web")
        if adopted:
            p.kill_holder("web")
        go(ws)
        p.until_state("web", "Running", "ready")
        p.stop("web")


@test("a log line of an earlier start does not count")
def _(ws):
    p = Processes(ws)
    shell(p, "web", when_go("echo listening"), "--ready", "log:listening")
    go(ws)
    p.start("web")
    p.until_state("web", "Running", "ready")
    p.stop("web")
    (ws.path / "go").unlink()
    becomes_ready_only_after_go(p, "web")
    eq(phase_file(p, "web")["n"], 2, "the start that the phase is about")
    p.stop("web")


@test("ready by a line that has no end yet, as a prompt has")
def _(ws):
    p = Processes(ws)
    shell(p, "web", when_go("printf 'what now> '"), "--ready", "log:now> $")
    becomes_ready_only_after_go(p, "web")
    p.stop("web")


for address in ("127.0.0.1", "::1"):
    @test(f"ready by a port on {address}")
    def _(ws, address=address):
        p, port = Processes(ws), free_port(ws)
        if address == "::1" and not os.path.exists("/proc/net/if_inet6"):
            raise Skip("this machine has no IPv6")
        python(p, "web", PORT_SERVER, port, address, options=("--ready", f"port:{port}"))
        becomes_ready_only_after_go(p, "web")
        p.stop("web")


@test("ready by HTTP: not while the answer is 503")
def _(ws):
    p, port = Processes(ws), free_port(ws)
    python(p, "web", HTTP_SERVER, port, options=("--ready", f"http://127.0.0.1:{port}/healthz?deep=1"))
    becomes_ready_only_after_go(p, "web")
    assert phase_file(p, "web")["detail"].endswith("HTTP 200")
    text = (p.dir("web") / "log" / "stdout.log").read_text()
    assert f"127.0.0.1:{port} /healthz?deep=1" in text, text
    p.stop("web")


@test("ready by a command, which runs in the process's directory with its environment and its id")
def _(ws):
    p = Processes(ws)
    (ws.path / "check.sh").write_text('test -e go && test "$PORT" = 3000 && test "$TASUKI_PROCESS_ID" = web && pwd')
    shell(p, "web", "exec sleep 1000", "--env", "PORT=3000", "--ready", "exec:sh check.sh")
    becomes_ready_only_after_go(p, "web")
    eq(phase_file(p, "web")["detail"], f"exit 0: {ws.path}", "the detail")
    p.stop("web")


@test("ready by sd_notify: READY=1 counts, STATUS= is shown, everything else is ignored", slow=True)
def _(ws):
    p = Processes(ws)
    python(p, "web", NOTIFIER, options=("--ready", "notify"))
    p.start("web")
    waiter = wait_ready(p, "web")
    (ws.path / "say").write_text("ready=1\n\\x00\\xff\nREADY=0\nSTATUS=warming up\n")
    ws.until(lambda: p.status("web").get("detail") == "warming up", "the status is shown")
    eq(p.status("web")["phase"], "starting", "the phase before READY=1")
    assert waiter.poll() is None
    with open(ws.path / "say", "a") as say:
        say.write("MAINPID=1\\nREADY=1\\nSTATUS=serving\n")
    eq(ws.finish(waiter).expect(0).json["phase"], "ready", "the phase")
    eq(p.status("web")["detail"], "serving", "the detail")
    p.stop("web")


@test("a process that notifies without end is not blocked, and is heard after it was ready", slow=True)
def _(ws):
    p = Processes(ws)
    python(p, "web", NOTIFIER, options=("--ready", "notify"))
    p.start("web")
    (ws.path / "say").write_text("READY=1\n" + "STATUS=busy\n" * 2000 + "RELOADING=1\n")
    ws.until(lambda: (ws.path / "said").exists() and (ws.path / "said").read_text() == "2002", "all of it was sent")
    ws.until(lambda: p.status("web").get("detail") == "reloading", "the last of it was heard")
    eq(p.status("web")["phase"], "ready", "the phase")
    p.stop("web")


@test("without a ready probe a process is ready as soon as it runs")
def _(ws):
    p = Processes(ws)
    p.run("web")
    eq(ws.finish(wait_ready(p, "web")).expect(0).json["phase"], "ready", "the phase")
    p.stop("web")


# -- when it cannot be -------------------------------------------------------------------------------------------------

@test("a process that is not ready in time stays starting, says why, and who waits is told at once")
def _(ws):
    p, port = Processes(ws), free_port(ws)
    p.run("web", ("sleep", "1000"), "--ready", f"port:{port}", "--ready-timeout", "200ms")
    error = check_error(ws.finish(wait_ready(p, "web")), 7, "ProcessStartFailed", "PROCESS")
    eq(error["message"], "Failed to start process 'web': it did not become ready within 200 ms: "
                         f"port {port}: Connection refused", "message")
    record = p.status("web")
    eq((record["state_name"], record["phase"]), ("Running", "starting"), "state and phase")
    assert "did not become ready within 200 ms" in record["detail"], record
    check_error(ws.finish(wait_ready(p, "web")), 7, "ProcessStartFailed")
    p.stop("web")


@test("a process that ends before it is ready: who waits is told at once, with the exit code")
def _(ws):
    p = Processes(ws)
    shell(p, "web", "while ! test -e go; do sleep 0.005; done; exit 3", "--ready", "log:never")
    p.start("web")
    waiter = wait_ready(p, "web")
    ws.until_file(p.dir("web") / "phase")
    go(ws)
    error = check_error(ws.finish(waiter), 7, "ProcessStartFailed", "PROCESS")
    eq(error["message"], "Failed to start process 'web': it ended before it was ready: Process exited with code 3", "message")
    eq(error["next"][0], "tasuki proc logs web", "the next command")


@test("a process that is stopped before it is ready: who waits is told at once")
def _(ws):
    p = Processes(ws)
    p.run("web", ("sleep", "1000"), "--ready", "log:never")
    waiter = wait_ready(p, "web")
    ws.until_file(p.dir("web") / "phase")
    p.stop("web")
    error = check_error(ws.finish(waiter), 7, "ProcessStartFailed")
    eq(error["message"], "Failed to start process 'web': it was stopped before it was ready", "message")


@test("a process that was ready and runs no more: a wait does not say that it ended before it was ready")
def _(ws):
    p = Processes(ws)
    shell(p, "web", when_go("exit 3"), "--ready", "exec:true")
    p.start("web")
    ws.finish(wait_ready(p, "web")).expect(0)
    go(ws)
    p.until_state("web", "Failed")
    p.run("db", ("sleep", "1000"), "--ready", "exec:true")
    ws.finish(wait_ready(p, "db")).expect(0)
    p.run("plain", ("sleep", "1000"))
    for id in ("db", "plain"):
        p.stop(id)
    for id, state in (("web", "Process exited with code 3"), ("db", "Stopped"), ("plain", "Stopped")):
        error = check_error(ws.finish(wait_ready(p, id)), 7, "ProcessStartFailed")
        eq(error["message"], f"Process '{id}' was ready, but does not run any more: {state}", "message")


@test("a process that has ended with 0 is not ready, and never will be")
def _(ws):
    p = Processes(ws)
    p.run("job", ("true",))
    p.until_state("job", "Stopped")
    check_error(ws.finish(wait_ready(p, "job")), 7, "ProcessStartFailed")


@test("a restart by policy begins with starting and is waited for")
def _(ws):
    p = Processes(ws)
    shell(p, "web", 'echo $$ >> born; test $(wc -l < born) -eq 1 && exit 1; ' + when_go("echo ready"), "--restart",
          "on-failure", "--ready", "log:ready")
    p.start("web")
    waiter = wait_ready(p, "web")
    ws.until(lambda: p.status("web")["run"] == 2, "it was restarted")
    eq(p.status("web")["phase"], "starting", "the phase of the second run")
    assert waiter.poll() is None
    go(ws)
    record = ws.finish(waiter).expect(0).json
    eq((record["run"], record["phase"]), (2, "ready"), "run and phase")
    p.stop("web")


# -- waiting -----------------------------------------------------------------------------------------------------------

@test("proc wait gives the record when the process has ended")
def _(ws):
    p = Processes(ws)
    shell(p, "job", "while ! test -e go; do sleep 0.005; done; exit 0")
    p.start("job")
    waiters = [ws.spawn("--json", "proc", "wait", "job"), ws.spawn("--json", "wait", "process", "job", "--for", "exit")]
    go(ws)
    for waiter in waiters:
        record = ws.finish(waiter).expect(0).json
        eq((record["id"], record["state_name"], record["exit_code"]), ("job", "Stopped", 0), "the record")
    eq(p.call("wait", "job").expect(0).json["state_name"], "Stopped", "the state afterwards")


@test("proc wait exits with 7 when the process has failed, so that a script stops")
def _(ws):
    p = Processes(ws)
    p.run("job", ("sh", "-c", "exit 3"))
    record = p.call("wait", "job").expect(7).json
    eq((record["state_name"], record["exit_code"]), ("Failed", 3), "the record")


@test("proc wait waits until no restart is to come")
def _(ws):
    p = Processes(ws)
    shell(p, "job", "echo $$ >> born; exit 3", "--restart", "on-failure", "--max-retries", "2", "--backoff", "1ms")
    p.start("job")
    record = p.call("wait", "job").expect(7).json
    eq((record["run"], len((ws.path / "born").read_text().split())), (3, 3), "run and births")


@test("a time that is up is CONFLICT with a command to go on with, and changes nothing")
def _(ws):
    p = Processes(ws)
    pid = p.run("web", ("sleep", "1000"), "--ready", "log:never")["pid"]
    for what in ("exit", "ready"):
        error = check_error(p.call("wait", "web", "--for", what, "--timeout", "10ms"), 4, "CONFLICT")
        eq(error["message"], f"Waited 10 ms for process 'web' ({what}) without success; it is Running", "message")
        eq(error["next"][0], f"tasuki proc wait web --for {what}", "the next command")
    eq(p.status("web")["pid"], pid, "the pid")
    p.stop("web")


@test("waiting for what was never started, or does not exist, is refused at once")
def _(ws):
    p = Processes(ws)
    p.create("web")
    for what in ("exit", "ready"):
        error = check_error(p.call("wait", "web", "--for", what), 4, "ProcessNotRunning")
        eq(error["next"], ["tasuki proc start web"], "the next command")
    check_error(p.call("wait", "wbe"), 5, "ProcessNotFound")
    check_error(p.call("wait", "web", "--for", "lunch"), 2, "INVALID_INPUT")


@test("a process that is removed while somebody waits for it is not found any more")
def _(ws):
    p = Processes(ws)
    p.run("web")
    waiter = ws.spawn("--json", "proc", "wait", "web")
    ws.until(lambda: any("inotify" in target for target in descriptors(waiter.pid)), "it waits")
    p.call("remove", "web", "--force").expect(0)
    result = ws.finish(waiter)
    assert result.code in (0, 5), result  # it may see the stop before the removal


def descriptors(pid):
    found = []
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return found
    for name in names:
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            continue
    return found


# -- health ------------------------------------------------------------------------------------------------------------

@test("an unhealthy process is shown as such, and as ready when it answers again, again and again")
def _(ws):
    p = Processes(ws)
    go(ws)
    p.run("web", ("sleep", "1000"), "--cwd", str(ws.path), "--health", "exec:test -e go", "--health-interval", "20ms")
    eq(p.until_state("web", "Running", "ready")["restarts"], 0, "restarts")
    for _ in range(3):
        (ws.path / "go").unlink()
        record = p.until_state("web", "Running", "unhealthy")
        eq(record["detail"], "exit 1", "the detail")
        go(ws)
        p.until_state("web", "Running", "ready")
    eq(phase_file(p, "web")["n"], 1, "it was never restarted")
    p.stop("web")


@test("health begins when the process is ready, by its own probe")
def _(ws):
    p, port = Processes(ws), free_port(ws)
    python(p, "web", PORT_SERVER, port, "127.0.0.1",
           options=("--ready", f"port:{port}", "--health", "exec:test -e healthy", "--health-interval", "20ms"))
    becomes_ready_only_after_go(p, "web", ("ready", "unhealthy"))
    p.until_state("web", "Running", "unhealthy")
    (ws.path / "healthy").touch()
    p.until_state("web", "Running", "ready")
    p.stop("web")


@test("a wait for ready ends for a process that was ready and is unhealthy now, and says so")
def _(ws):
    p = Processes(ws)
    shell(p, "web", "echo up; exec sleep 1000", "--ready", "log:up", "--health", "exec:false", "--health-interval", "10ms")
    p.start("web")
    p.until_state("web", "Running", "unhealthy")
    record = ws.finish(wait_ready(p, "web")).expect(0).json
    eq((record["state_name"], record["phase"]), ("Running", "unhealthy"))
    p.stop("web")


@test("health with the action restart ends an unhealthy process, even one that ignores SIGTERM, and its policy starts it again", slow=True)
def _(ws):
    p = Processes(ws)
    spec = {"command": "sh", "args": ["-c", "trap '' TERM; echo $$ >> born; while :; do sleep 0.01; done"], "cwd": str(ws.path),
            "restart": "always", "backoff_ms": 1, "backoff_max_ms": 1,
            "health": {"command": ["sh", "-c", "! test -e born || test $(wc -l < born) -gt 1"], "interval_ms": 20, "failures": 2,
                       "action": "restart"}}
    (ws.path / "web.json").write_text(json.dumps({"version": 1, "processes": {"web": spec}}))
    p.call("import", "web.json").expect(0)
    p.start("web")
    record = p.until_state("web", "Running", "ready")
    ws.until(lambda: p.status("web")["run"] == 2, "it was restarted")
    eq(p.history("web", "exited")[0]["status"], signal.SIGKILL, "how the first one ended")
    p.until_state("web", "Running", "ready")
    p.stop("web", "--grace", "0")
    assert record["run"] in (1, 2)


@test("health with the action restart does nothing when no policy would start the process again")
def _(ws):
    p = Processes(ws)
    spec = {"command": "sleep", "args": ["1000"], "health": {"command": ["false"], "interval_ms": 10, "failures": 1,
                                                             "action": "restart"}}
    (ws.path / "web.json").write_text(json.dumps({"version": 1, "processes": {"web": spec}}))
    p.call("import", "web.json").expect(0)
    p.start("web")
    record = p.until_state("web", "Running", "unhealthy")
    eq(record["run"], 1, "the run")
    p.stop("web")


# -- the probe itself --------------------------------------------------------------------------------------------------

@test("a probe that has nothing more to find out is gone")
def _(ws):
    p = Processes(ws)
    go(ws)
    shell(p, "web", when_go("echo up"), "--ready", "log:up")
    p.start("web")
    p.until_state("web", "Running", "ready")
    holder = p.status_file("web")["holder"]["pid"]
    ws.until(lambda: not probes(holder), "the probe ends")
    p.stop("web")


@test("a probe ends with its holder, and the next holder's probe goes on")
def _(ws):
    p = Processes(ws)
    shell(p, "web", when_go("echo up"), "--ready", "log:up")
    pid = p.start("web")["pid"]
    probe = probe_of(p, "web")
    p.kill_holder("web")
    p.until_gone(probe)
    assert ws.alive(pid)
    eq(p.status("web")["phase"], "starting", "the phase after the adoption")
    go(ws)
    record = p.until_state("web", "Running", "ready")
    eq(record["pid"], pid, "the pid")
    p.stop("web")


@test("what was found stays found when a new holder adopts the process")
def _(ws):
    p = Processes(ws)
    python(p, "web", NOTIFIER, options=("--ready", "notify"))
    (ws.path / "say").write_text("READY=1\n")
    pid = p.start("web")["pid"]
    since = p.until_state("web", "Running", "ready") and phase_file(p, "web")["since_ms"]
    p.kill_holder("web")
    record = p.until_state("web", "Running", "ready")
    eq((record["pid"], phase_file(p, "web")["since_ms"]), (pid, since), "pid and since")
    p.stop("web")


@test("a probe ends with its process, and takes its command with it")
def _(ws):
    p = Processes(ws)
    p.run("web", ("sleep", "1000"), "--ready", "exec:sleep 1000")
    probe = probe_of(p, "web")
    ws.until(lambda: children_of(probe), "the command runs")
    p.stop("web")
    p.nothing_runs()


@test("a probe that was killed is started again and goes on", slow=True)
def _(ws):
    p = Processes(ws)
    shell(p, "web", when_go("echo up"), "--ready", "log:up")
    p.start("web")
    first = probe_of(p, "web")
    ws.until_file(p.dir("web") / "phase")
    send(first)
    p.until_gone(first)
    go(ws)
    p.until_state("web", "Running", "ready")
    p.stop("web")


@test("a probe has none of the locks of its process, and no database open")
def _(ws):
    p = Processes(ws)
    p.run("web", ("sleep", "1000"), "--ready", "log:never")
    probe = probe_of(p, "web")
    ws.until_file(p.dir("web") / "phase")
    ws.until(lambda: any("inotify" in target for target in descriptors(probe)), "it waits for the log")
    held = [target for target in descriptors(probe) if target.endswith((".lock", ".db", "-wal", "-shm"))]
    eq(held, [], "what it has open")
    p.stop("web")


@test("tasuki probe by hand tries the probes once, says what they find, and changes nothing")
def _(ws):
    p, port = Processes(ws), free_port(ws)
    shell(p, "web", "exec sleep 1000", "--env", "A=b c", "--ready", f"port:{port}", "--health", "exec:sh check.sh")
    (ws.path / "check.sh").write_text('test "$A" = "b c" && echo fine')
    check_error(ws.tasuki("--json", "probe", "web"), 4, "ProcessNotRunning")
    p.start("web")
    ws.until_file(p.dir("web") / "phase")
    found = ws.tasuki("--json", "probe", "web").expect(0).json
    eq(found, {"id": "web", "phase": "starting", "ready": {"ok": False, "detail": f"port {port}: Connection refused"},
               "health": {"ok": True, "detail": "exit 0: fine"}}, "what was found")
    with socket.create_server(("127.0.0.1", port)):
        eq(ws.tasuki("--json", "probe", "web").expect(0).json["ready"],
           {"ok": False, "detail": f"port {port}: another program listens there, not this process"}, "the port")
    check_error(ws.tasuki("--json", "probe", "nobody"), 5, "ProcessNotFound")
    p.stop("web")


main(__name__)
