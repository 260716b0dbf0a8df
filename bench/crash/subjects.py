"""The supervisors of `bench crash`: beside what bench/processes asks of them, what can be killed, and what they say.

A report is what a supervisor says about the end of a run: ("exit", code), ("signal", number) or ("unknown",)."""
import json
import re
import signal

from processes import procfs
from processes.supervisors import Runit, Supervisord, Tasuki, call, write_script

SERVICE = "job"


class CrashTasuki(Tasuki):
    name = "tasuki"
    # Restarts at once, always, as the peers are configured to.
    policy = {"restart": "always", "healthy_after_ms": 100, "backoff_ms": 100, "backoff_max_ms": 1000,
              "auto_start_on_restore": True}
    log = "direct"

    def victims(self, _random):
        return self.roots()

    def revive(self):
        """What a boot, or `serve`, does."""
        self.tasuki("restore")

    def status(self):
        return json.loads(self.tasuki("--json", "proc", "status", SERVICE))

    def running_pid(self):
        return self.status().get("pid")

    def start_command(self):
        return [self.context.tasuki, "--root", self.root, "proc", "start", SERVICE, "--no-wait"]

    def stop_service(self):
        self.tasuki("proc", "stop", SERVICE)

    def reports(self):
        """The ends that are new since the last call."""
        seen, found = getattr(self, "seen", 0), []
        for one in self.status().get("last_exits", []):
            if one["run"] <= seen:
                continue
            self.seen = max(getattr(self, "seen", 0), one["run"])
            if one.get("signal"):
                found.append(("signal", int(signal.Signals[one["signal"]])))
            elif one["exit_code"] == -1:
                found.append(("unknown",))
            else:
                found.append(("exit", one["exit_code"]))
        return found

    def announced_losses(self):
        """How often it said that output was lost."""
        history = self.root / ".aiflow" / "processes" / SERVICE / "history"
        return history.read_text().count('"what":"gap"') if history.exists() else 0


class CrashTasukiPipe(CrashTasuki):
    name = "tasuki, log: pipe"
    log = "pipe"


class CrashSupervisord(Supervisord):
    log = ""

    def victims(self, _random):
        return self.roots()

    def revive(self):
        """What systemd does with Debian's unit (its KillMode=process leaves the children alone)."""
        self.process.wait()
        self.start()

    def control(self, *arguments):
        return call("supervisorctl", "-c", self.root / "supervisord.conf", *arguments, check=False)

    def running_pid(self):
        text = self.control("pid", SERVICE).strip()
        return int(text) if text.isdigit() and text != "0" else None

    def start_command(self):
        return ["supervisorctl", "-c", self.root / "supervisord.conf", "start", SERVICE]

    def stop_service(self):
        self.control("stop", SERVICE)

    def reports(self):
        log = (self.root / "supervisord.log").read_text()
        new, self.seen = log[getattr(self, "seen", 0):], len(log)
        found = []
        for what, value in re.findall(r"exited: \S+ \((exit status|terminated by) (\w+)", new):
            found.append(("exit", int(value)) if what == "exit status" else ("signal", int(signal.Signals[value])))
        return found

    def announced_losses(self):
        return 0


class CrashRunit(Runit):
    log = ""

    def prepare(self):
        super().prepare()
        # How runit tells an end: exit code (-1: by a signal) and the low byte of the wait status.
        write_script(self.root / "services" / SERVICE / "finish", f"echo \"$1 $2\" >>'{self.root}/ends'")

    def victims(self, random):
        names = {"runsv": [], "svlogd": []}
        for pid in procfs.tree(self.roots()):
            names.setdefault(procfs.read(pid, "comm").strip(), []).append(pid)
        return names["svlogd"] if names["svlogd"] and random.random() < 0.25 else names["runsv"]

    def revive(self):
        """runsvdir does."""

    def control(self, *arguments):
        return call("sv", *arguments, self.root / "services" / SERVICE, check=False)

    def running_pid(self):
        found = re.match(r"run: \S+ \(pid (\d+)\)", self.control("status"))
        return int(found[1]) if found else None

    def start_command(self):
        return ["sv", "start", self.root / "services" / SERVICE]

    def stop_service(self):
        self.control("stop")

    def reports(self):
        path = self.root / "ends"
        lines = path.read_text().splitlines() if path.exists() else []
        new, self.seen = lines[getattr(self, "seen", 0):], len(lines)
        pairs = [tuple(map(int, line.split())) for line in new]
        return [("exit", code) if code >= 0 else ("signal", status & 0x7F) for code, status in pairs]

    def announced_losses(self):
        return 0


SUBJECTS = (CrashTasuki, CrashTasukiPipe, CrashSupervisord, CrashRunit)
