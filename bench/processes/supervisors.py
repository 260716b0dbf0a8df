"""The supervisors that are compared, all used in one way: define services, start them, look at them, end them.

Each is configured as its manual says, in its fastest sensible form: no delay before a restart that can be switched off,
no rotation of logs in the middle of a measurement. Where a shell must start the command, it is Debian's /bin/sh."""
import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

from processes import procfs

PM2 = "pm2@7.0.4"
KEEP_BYTES = 4 << 30  # of each log: nothing is dropped while it is measured


@dataclasses.dataclass
class Service:
    name: str
    argv: list
    log: str = "direct"  # tasuki's way to capture; the others have one
    log_max: int | None = KEEP_BYTES  # None: the default


def call(*command, check=True, timeout=600, **options):
    """Standard output of a command that must succeed."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, text=True, timeout=timeout, **options)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command[:6]))} ended with {done.returncode}: "
                           f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def wait_for(what, condition, seconds=120, pause=0.002):
    """The condition's value as soon as it is true."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise RuntimeError(f"after {seconds} s still no {what}")
        time.sleep(pause)


def end_all(pids, seconds=10):
    """Waits for processes that were asked to end, then kills what is left. A pidfd means nobody else."""
    waiting = {}
    for pid in pids:
        try:
            waiting[os.pidfd_open(pid)] = pid
        except ProcessLookupError:
            pass
    deadline = time.monotonic() + seconds
    while any(procfs.is_alive(pid) for pid in waiting.values()) and time.monotonic() < deadline:
        time.sleep(0.02)
    for fd in waiting:
        try:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.close(fd)


class Supervisor:
    """One instance of a supervisor, with its services, in a directory of its own."""
    name = ""
    needs = ()  # programs, all from the package `package`
    package = ""

    def __init__(self, context, root, services):
        self.context, self.root, self.services = context, pathlib.Path(root), services
        self.process = None
        self.root.mkdir(parents=True)
        self.prepare()

    @classmethod
    def missing(cls, _context):
        """Why it is not available, or ""."""
        absent = [program for program in cls.needs if not shutil.which(program)]
        return f"{', '.join(absent)} not installed (Debian package {cls.package})" if absent else ""

    def prepare(self):
        """Writes the definitions. Not measured."""

    def start(self):
        """Everything defined is to run. Returns at once, or when the supervisor's own command does."""
        raise NotImplementedError

    def tell_end(self):
        """Asks for an orderly end."""
        self.process.terminate()

    def log_files(self, service):
        raise NotImplementedError

    def roots(self):
        return [self.process.pid] if self.process else []

    # ---- the same for all

    def launch(self, *command, **options):
        with open(self.root / "supervisor.out", "ab") as out:
            self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=out, start_new_session=True, **options)

    def log_bytes(self, service):
        total = 0
        for path in self.log_files(service):
            try:
                total += path.stat().st_size
            except FileNotFoundError:
                pass  # not made yet, or just renamed by a rotation
        return total

    def parts(self):
        """The pids of what supervises and logs: everything of the supervisor but the children themselves."""
        children = {self.context.driver("bench-child"), self.context.driver("bench-witness")}
        return [pid for pid in procfs.tree(self.roots()) if procfs.link(pid, "exe") not in children]

    def end(self):
        everybody = procfs.tree(self.roots())
        try:
            self.tell_end()
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            self.context.say(f"{self.name} did not end in order: {error}")
        end_all(everybody)
        if self.process:
            self.process.wait()


@contextlib.contextmanager
def running(supervisors):
    """Ends them whatever happens. Their files stay until everything is measured: ext4 does not use the inode of a
    deleted file again for minutes, and who creates files among many such pays for each of them."""
    try:
        yield
    finally:
        for one in supervisors:
            one.end()


def write_script(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")
    path.chmod(0o755)


def quoted(argv):
    return " ".join("'" + str(word).replace("'", "'\\''") + "'" for word in argv)


class Bare(Supervisor):
    """The limit: `bench-child respawn`, a loop of vfork and wait. No logs, no commands, no record."""
    name = "a loop of vfork and wait"

    def start(self):
        program, _, *arguments = self.services[0].argv
        self.launch(program, "respawn", *arguments)

    def tell_end(self):
        self.process.kill()


class Tasuki(Supervisor):
    name = "tasuki"
    # As s6 and runit do by nature: at once again after a second of running.
    policy = {"restart": "always", "healthy_after_ms": 1000}

    def prepare(self):
        self.tasuki("init")
        self.definitions = self.root / "import.json"
        self.definitions.write_text(json.dumps({"version": 1, "processes": {service.name: self.define(service)
                                                                            for service in self.services}}))
        self.import_all()

    def define(self, service):
        limit = {} if service.log_max is None else {"log_max": service.log_max}
        return {"command": str(service.argv[0]), "args": [str(word) for word in service.argv[1:]], "log": service.log,
                **limit, **self.policy}

    def import_all(self):
        start = time.monotonic()
        self.tasuki("proc", "import", self.definitions)
        self.import_seconds = time.monotonic() - start

    def tasuki(self, *arguments, **options):
        return call(self.context.tasuki, "--root", self.root, *arguments, cwd=self.root, **options)

    def start(self):
        self.tasuki("proc", "start", "--all", "--no-wait")

    def tell_end(self):
        self.tasuki("proc", "stop", "--all", "--grace", "1000", check=False)

    def roots(self):
        """The holders, by what they have open: nobody has to be asked."""
        return [pid for pid in procfs.pids() if procfs.link(pid, "exe").endswith("/tasuki-hold")
                and procfs.link(pid, "fd/3").startswith(f"{self.root}/")]

    def log_files(self, service):
        return [*(self.root / ".aiflow" / "processes" / service.name / "log").glob("*.log")]


class S6(Supervisor):
    name = "s6"
    needs = ("s6-svscan", "s6-log")
    package = "s6"

    def prepare(self):
        for service in self.services:
            home, logs = self.root / "scan" / service.name, self.root / "logs" / service.name
            logs.mkdir(parents=True)
            write_script(home / "run", f"exec {quoted(service.argv)}")
            # The greatest size that s6-log knows, and enough files of it.
            write_script(home / "log" / "run", f"exec s6-log n20 s268435455 {quoted([logs])}")

    def start(self):
        self.launch("s6-svscan", "-c", str(2 * len(self.services) + 100), "-t", "0", self.root / "scan")

    def log_files(self, service):
        return [path for path in (self.root / "logs" / service.name).iterdir() if path.name[0] in "@c"]


class Runit(Supervisor):
    name = "runit"
    needs = ("runsvdir", "runsv", "svlogd")
    package = "runit"

    def prepare(self):
        for service in self.services:
            home, logs = self.root / "services" / service.name, self.root / "logs" / service.name
            logs.mkdir(parents=True)
            (logs / "config").write_text("s0\nn0\n")  # never rotate, never delete
            write_script(home / "run", f"exec {quoted(service.argv)}")
            write_script(home / "log" / "run", f"exec svlogd {quoted([logs])}")

    def start(self):
        self.launch("runsvdir", self.root / "services")

    def tell_end(self):
        self.process.send_signal(signal.SIGHUP)  # SIGTERM would leave the services running

    def log_files(self, service):
        return [path for path in (self.root / "logs" / service.name).iterdir() if path.name[0] in "@c"
                and path.name != "config"]


class Supervisord(Supervisor):
    name = "supervisord"
    needs = ("supervisord", "supervisorctl")
    package = "supervisor"

    def prepare(self):
        (self.root / "logs").mkdir()
        lines = ["[supervisord]", "nodaemon=true", "minfds=8192", f"logfile={self.root}/supervisord.log",
                 "logfile_maxbytes=0", f"pidfile={self.root}/supervisord.pid",
                 "[unix_http_server]", f"file={self.root}/s",
                 "[supervisorctl]", f"serverurl=unix://{self.root}/s",
                 "[rpcinterface:supervisor]",
                 "supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface"]
        for service in self.services:
            logs = self.root / "logs" / service.name
            lines += [f"[program:{service.name}]", f"command={' '.join(map(str, service.argv))}", "autorestart=true",
                      "startsecs=0", "stopwaitsecs=2", f"stdout_logfile={logs}.out", "stdout_logfile_maxbytes=0",
                      f"stderr_logfile={logs}.err", "stderr_logfile_maxbytes=0"]
        (self.root / "supervisord.conf").write_text("\n".join(lines) + "\n")

    def start(self):
        self.launch("supervisord", "-n", "-c", self.root / "supervisord.conf")

    def log_files(self, service):
        return [self.root / "logs" / f"{service.name}.out"]


class Pm2(Supervisor):
    name = "pm2"

    @classmethod
    def missing(cls, context):
        """Installs it, into the build directory."""
        if not (shutil.which("npm") and shutil.which("node")):
            return "npm or node not installed"
        home = context.build / "bench-npm-pm2"
        if not (home / "node_modules" / "pm2").is_dir():
            home.mkdir(exist_ok=True)
            try:
                call("npm", "install", "--prefix", home, "--no-audit", "--no-fund", "--no-save", PM2, cwd=home)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                return f"npm could not install it: {str(error)[-300:]}"
        return ""

    def prepare(self):
        apps = [{"name": service.name, "script": str(service.argv[0]), "args": [str(w) for w in service.argv[1:]],
                 "interpreter": "none", "exec_mode": "fork", "cwd": str(self.root), "out_file": f"{service.name}.out",
                 "error_file": f"{service.name}.err", "autorestart": True, "kill_timeout": 500, "vizion": False,
                 "pmx": False, "automation": False} for service in self.services]
        (self.root / "apps.json").write_text(json.dumps({"apps": apps}))

    def pm2(self, *arguments, **options):
        program = self.context.build / "bench-npm-pm2" / "node_modules" / "pm2" / "bin" / "pm2"
        environment = {**os.environ, "PM2_HOME": str(self.root / "home"), "PM2_DISABLE_VERSION_CHECK": "true"}
        return call("node", program, *arguments, cwd=self.root, env=environment, **options)

    def start(self):
        self.pm2("start", self.root / "apps.json")

    def roots(self):
        path = self.root / "home" / "pm2.pid"
        return [int(path.read_text())] if path.exists() else []

    def tell_end(self):
        self.pm2("kill")

    def log_files(self, service):
        return [self.root / f"{service.name}.out"]


PEERS = (S6, Runit, Supervisord, Pm2)


def available(context, *classes):
    """The classes that are available here; the others are named."""
    found = []
    for one in classes:
        why = one.missing(context)
        if why:
            context.say(f"{one.name} is skipped: {why}")
        else:
            found.append(one)
    return found
