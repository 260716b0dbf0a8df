"""What several spec suites share: lock files as other tools write them, and processes to be their holders."""

import datetime
import os
import pathlib
import re
import shutil
import socket
import subprocess

from harness.harness import Skip, eq

U2_KEYS = {"status", "mode", "lock_info", "message", "errors"}
LOCK_INFO_KEYS = {"exists", "pid", "session_id", "started_at", "epic_spec", "age_hours", "pid_alive", "is_zombie"}
HOLDER_KEYS = {"pid", "hostname", "session_id", "run_id", "instance", "alive", "how"}
D39_KEYS = {"version", "lock_type", "request_id", "run_id", "pid", "host", "created_at", "expires_at"}
ADDED_KEYS = {"hold", "fence", "token", "hostname", "boot_id", "pid_ns", "pid_start", "expires_boot_ms"}
ISO_OFFSET = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")
ISO_UTC = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")
DAY_MS = 24 * 3600 * 1000
NOBODY = 65534


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def iso(seconds=0):
    """The time `seconds` from now, as U2 writes it."""
    return (now() + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def jst(seconds=0):
    """The same as D39 writes it, with Japan's offset."""
    zone = datetime.timezone(datetime.timedelta(hours=9))
    return (now() + datetime.timedelta(seconds=seconds)).astimezone(zone).replace(microsecond=0).isoformat()


def parse_time(text):
    assert ISO_OFFSET.match(text), f"{text!r} is not ISO 8601 with an offset"
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def boot_time():
    for line in pathlib.Path("/proc/stat").read_text().splitlines():
        if line.startswith("btime "):
            return int(line.split()[1])
    raise Skip("the boot time is unknown")


def dead_pid():
    """The pid of a process that has ended a moment ago."""
    proc = subprocess.Popen(["true"])
    proc.wait()
    return proc.pid


def instance_of(pid):
    """The id that a process has as an instance (spec 4)."""
    ticks = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    with open("/proc/stat") as lines:
        boot = next(int(line.split()[1]) for line in lines if line.startswith("btime"))
    return f"{socket.gethostname()}-{pid}-{boot * 1000 + ticks * 1000 // os.sysconf('SC_CLK_TCK')}"


def sleeper(ws):
    """A living process that can be a recorded holder."""
    return ws.spawn_command(["sleep", "1000"])


def foreign_sprint(ws, pid, started=-60, session="other-session", epic="epic5", **more):
    """.sprint-running as a U2 tool writes it."""
    content = {"pid": pid, "session_id": session, "started_at": iso(started), "epic_spec": epic, "lock_version": 1}
    return ws.write_lock("sprint", None, {**content, **more})


def foreign_lock(ws, kind, id, pid, created=-60, expires=1740, run="RUN-foreign", **more):
    """A lock file as a D39 tool writes it. pid=None: without that key."""
    content = {"version": "1.0", "lock_type": kind, "request_id": id if kind == "request" else None, "run_id": run,
               "pid": pid, "host": "127.0.0.1", "created_at": jst(created), "expires_at": jst(expires), **more}
    if pid is None:
        del content["pid"]
    return ws.write_lock(kind, id, content)


def make_old(path, seconds=11):
    """Sets the file's time back, as if nobody had written it for so long."""
    then = now().timestamp() - seconds
    os.utime(path, (then, then), follow_symlinks=False)


def edit_lock(ws, kind, id, **changes):
    """Changes keys of a lock file in place: same inode, as the protocol sees it."""
    content = {**ws.read_lock(kind, id), **changes}
    ws.write_lock(kind, id, content)
    return content


def run_held(ws, name, command="exec sleep 1000", **options):
    """`tasuki lock run` in the background; returns when the command runs, and so the lock is held."""
    mark = ws.base / f"held.{name}"
    mark.unlink(missing_ok=True)
    proc = ws.spawn("lock", "run", name, "--", "sh", "-c", f'echo $$ > "{mark}"; {command}', **options)
    ws.until_file(mark)
    return proc


def acquire_from_a_script(ws, *args):
    """Runs `tasuki lock acquire` (or sprint) from a script whose shell is then gone: the guessed holder is dead."""
    script = ws.base / "script.sh"
    script.write_text('#!/bin/sh\n"$@"\ncode=$?\nexit $code\n')
    script.chmod(0o755)
    return ws.run(["/bin/sh", script, ws.binary, *args])


def until_settled(ws, proc):
    """Waits until the process sleeps and stays asleep: it waits for something, and does not poll."""
    seen = {"sign": None, "times": 0}

    def is_settled():
        status = pathlib.Path(f"/proc/{proc.pid}/status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines())
        switches = fields["voluntary_ctxt_switches"] + fields["nonvoluntary_ctxt_switches"]
        assert fields["State"].strip()[0] not in "ZX", f"the waiting process {proc.pid} has ended"
        asleep = fields["State"].strip()[0] == "S"
        seen["times"] = seen["times"] + 1 if asleep and seen["sign"] == switches else 0
        seen["sign"] = switches
        return seen["times"] >= 30

    ws.until(is_settled, f"process {proc.pid} sleeps without polling")


def need_root(what):
    if os.geteuid() != 0:
        raise Skip(f"{what} needs root")


def run_as_nobody(ws, argv, **options):
    """Runs a program without privileges; as it is when the tests have none themselves. tasuki is copied to where
    everybody can execute it."""
    for path in (ws.base, ws.path):
        path.chmod(path.stat().st_mode | 0o055)
    argv = [public_binary(ws) if a == ws.binary else a for a in argv]
    if os.geteuid() != 0:
        return ws.run(argv, **options)
    if not shutil.which("setpriv"):
        raise Skip("setpriv is not installed")
    return ws.run(["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *argv], **options)


def public_binary(ws):
    copy = ws.base / "tasuki-copy"
    if not copy.exists():
        shutil.copy2(ws.binary, copy)
        copy.chmod(0o755)
    return copy


def unshare(ws, options, script, **more):
    """Runs a shell script in new namespaces; $T is tasuki, $W the workspace, $B the private directory around it."""
    argv = ["unshare", *options, "sh", "-euc", script]
    return ws.run(argv, env={"T": str(ws.binary), "W": str(ws.path), "B": str(ws.base)}, **more)


def need_namespace(ws, *options):
    if not shutil.which("unshare"):
        raise Skip("unshare is not installed")
    probe = ws.run(["unshare", *options, "true"])
    if probe.code != 0:
        raise Skip(f"unshare {' '.join(options)} is not permitted here")


def check_u2(result, status, code, mode):
    """The return value has exactly U2's keys (and needs_confirmation where only a yes is missing), and the exit code of its
    status. Returns it."""
    value = result.expect(code).json
    lacks_yes = status == "blocked" and code == 6
    eq(value.get("needs_confirmation", False), lacks_yes, "needs_confirmation")
    assert set(value) == U2_KEYS | ({"needs_confirmation"} if lacks_yes else set()), f"the keys of the return value are {sorted(value)}\n{result}"
    eq(value["status"], status, "status")
    eq(value["mode"], mode, "mode")
    assert isinstance(value["message"], str) and isinstance(value["errors"], list), value
    info = value["lock_info"]
    assert isinstance(info["exists"], bool), info
    if info["exists"]:
        eq(set(info), LOCK_INFO_KEYS, "the keys of lock_info")
    else:
        assert set(info) <= LOCK_INFO_KEYS, info
    return value


def check_error(result, code, reason_code, category=None):
    """The error document of `--json`. Returns the error object."""
    error = result.expect(code, reason_code).error
    assert {"category", "reason_code", "message", "context", "next"} <= set(error), error
    assert isinstance(error["message"], str) and error["message"], error
    assert isinstance(error["context"], dict) and isinstance(error["next"], list), error
    if category:
        eq(error["category"], category, "category")
    return error


def strace_of(ws):
    """The program that traces system calls. LeakSanitizer cannot work under it, so it is switched off for what follows."""
    program = shutil.which("strace")
    if not program:
        raise Skip("strace is not installed")
    if ws.run([program, "-o", os.devnull, "true"]).code != 0:
        raise Skip("strace may not trace here")
    os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    return program


def until_let_go(ws):
    """Waits until the programs have ended that keep what closed MCP clients of this workspace held, for their grace."""
    def is_one(pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                return b"--let-go" in file.read() and os.readlink(f"/proc/{pid}/cwd") == str(ws.path)
        except OSError:
            return False

    ws.until(lambda: not any(is_one(pid) for pid in os.listdir("/proc") if pid.isdigit()), "the grace of closed clients is over")
