"""Supervised processes as a test handles them: the commands, the files that src/hold/protocol.h describes, and the end.

A test's process is a subreaper: a holder becomes its child when the command that started it returns, and so does the
supervised process when its holder is killed. So "nothing is left" can be asked of the kernel (`nothing_runs`), and
whatever a test that failed has left is ended with it. As init does, it reaps such orphans at once.
"""

import json
import os
import pathlib
import signal
import threading
import time

from harness.harness import children_of, eq, kill_tree

OTHER_BOOT = "00000000-1111-4222-8333-444444444444"
SLEEP = ("sleep", "1000")
LATE_MS = 150  # a start looks for 300 ms, and an exit is recorded a little later than it happens


def state_of(pid):
    """The letter of /proc/<pid>/stat; X when it is gone."""
    return stat_fields(pid)[0]


def start_ticks_of(pid):
    return int(stat_fields(pid)[19])


def stat_fields(pid):
    """The fields of /proc/<pid>/stat from the third on."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return ["X"] + ["0"] * 49
    return stat.rpartition(")")[2].split()


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return ""


def command_line_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def environment_of(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return {}
    return dict(pair.partition("=")[::2] for pair in text.split("\0") if pair)


def open_files_of(pid):
    """The paths that a process has open; none when it is gone."""
    try:
        return {os.readlink(entry) for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir()}
    except OSError:
        return set()


def descendants_of(pid):
    found = []
    for child in children_of(pid):
        found += [child] + descendants_of(child)
    return found


def send(pid, number=signal.SIGKILL):
    """Sends a signal; it does not matter whether the process was still there."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Init:
    """Reaps orphans, and leaves alone what the test itself has started and waits for."""

    POLL_S = 0.005
    OWN = ("tasuki", "tasuki-fault", "setpriv") + tuple(name for name in (name_of(os.getpid()),) if name)

    def __init__(self, ws):
        self.ws = ws
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.is_over.wait(self.POLL_S):
            with self.ws.starting:  # or what was just started and has ended already would be taken for an orphan
                orphans = set(zombies_of(os.getpid())) - self.ws.spawned_pids()
            for pid in orphans:
                if name_of(pid) not in self.OWN:
                    reap(pid)

    def close(self):
        self.is_over.set()
        self.thread.join()


def zombies_of(pid):
    """Of its main thread, which is where orphans go."""
    text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [child for child in map(int, text.split()) if state_of(child) == "Z"]


def reap(pid=-1):
    """Whether there was one to reap."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] > 0
    except ChildProcessError:
        return False


class Processes:
    """The registered processes of a workspace. What still runs when the test ends is killed."""

    def __init__(self, ws, is_reaping=True):
        self.ws = ws
        self.init = Init(ws) if is_reaping else None
        ws.at_close(self.close)

    def close(self):
        if self.init:
            self.init.close()
        self.kill_everything()

    # -- commands: `call` gives the Result, the others expect success and give the JSON ------------------------

    def call(self, *words, **options):
        return self.ws.tasuki("--json", "proc", *words, **options)

    def create(self, id, command=SLEEP, *options):
        return self.call("create", id, *options, "--", *command).expect(0).json

    def script(self, id, text, *options):
        """Creates a process that is a shell script."""
        return self.create(id, ("sh", "-c", text), *options)

    def start(self, id):
        return self.call("start", id, "--no-wait").expect(0).json

    def stop(self, id, *options):
        return self.call("stop", id, *options).expect(0).json

    def status(self, id):
        return self.call("status", id).expect(0).json

    def list(self):
        return {one["id"]: one for one in self.call("list").expect(0).json["processes"]}

    def run(self, id, command=SLEEP, *options):
        """Creates and starts; returns the running record."""
        self.create(id, command, *options)
        return self.start(id)

    # -- files ---------------------------------------------------------------------------------------------

    @property
    def folder(self):
        return self.ws.path / ".aiflow" / "processes"

    def dir(self, id):
        return self.folder / id

    def status_file(self, id):
        return json.loads((self.dir(id) / "status.json").read_text())

    def want(self, id):
        """What `want` says: "up" or "down"; "" if there is none."""
        path = self.dir(id) / "want"
        return path.read_text().split()[0] if path.exists() else ""

    def history(self, id, what=None):
        """The facts of `history`; only those of one word when given."""
        path = self.dir(id) / "history"
        lines = path.read_text().splitlines() if path.exists() else []
        facts = [json.loads(line) for line in lines]
        return [fact for fact in facts if "what" in fact and what in (None, fact["what"])]

    def after_reboot(self, id, **numbers):
        """Makes the records say that they are from before a reboot. `numbers` (pid, start_ticks) replaces those of child
        and holder: after a reboot they belong to somebody else."""
        for path in [self.dir(id) / "status.json", *self.dir(id).glob("run.*.lock")]:
            record = json.loads(path.read_text())
            record["boot_id"] = OTHER_BOOT
            for one in (record.get("child") or record, record.get("holder") or {}):
                one.update(numbers if one else {})
            with open(path, "r+") as file:  # the same inode: the run lock is a lock on it
                file.truncate(0)
                file.write(json.dumps(record, separators=(",", ":")) + "\n")

    # -- waiting -------------------------------------------------------------------------------------------

    def until_state(self, id, state, phase=None, timeout=60):
        """Waits until the state's name (and the phase, when given) is that; returns the record."""
        seen = {}

        def is_so():
            seen.update(self.status(id))
            return seen["state_name"] == state and phase in (None, seen["phase"])

        try:
            self.ws.until(is_so, "", timeout)
        except AssertionError:
            raise AssertionError(f"process {id} is {seen['state_name']}/{seen['phase']}, not {state}/{phase or ''} "
                                 f"after {timeout} s; {json.dumps(seen)}") from None
        return seen

    def until_gone(self, *pids):
        for pid in pids:
            self.ws.until(lambda: not self.ws.alive(pid), f"process {pid} ({name_of(pid)}) ends")

    def until_pids(self, path, count):
        """Waits until `count` lines, a pid each, are in a file; returns them."""
        path = self.ws.path / path
        self.ws.until(lambda: path.exists() and path.read_text().count("\n") >= count, f"{count} pids in {path.name}")
        return [int(line) for line in path.read_text().split()]

    # -- what runs -----------------------------------------------------------------------------------------

    def kill_holder(self, id):
        """SIGKILL for the one in charge, and for nobody else. Returns its pid when it is gone."""
        pid = self.status_file(id)["holder"]["pid"]
        send(pid)
        self.until_gone(pid)
        return pid

    def kill_everything(self):
        """SIGKILL for all holders and their processes, of this test and nobody else's."""
        while True:
            left = children_of(os.getpid())
            for pid in left:
                kill_tree(pid)
            while reap():
                pass
            if not left:
                return

    def end_at_once(self, *ids, by, exits=1):
        """Returns the result of by(), which starts processes that end at once, with `exits` exits. A start waits 300 ms for such an
        end. If the history shows that one of them lived longer because the machine is busy, the start is repeated."""
        while True:
            began = time.time_ns() // 1000000
            result = by()
            facts = {id: self.until_exits(id, began, exits) for id in ids}
            if all(some[-1]["time"] - some[0]["time"] < LATE_MS for some in facts.values()):
                return result

    def until_exits(self, id, began, exits):
        """Waits for that many exits; returns the history from `began` (ms) to the last of them."""
        def facts():
            found = [fact for fact in self.history(id, "started") + self.history(id, "exited") if fact["time"] >= began]
            return sum(fact["what"] == "exited" for fact in found) >= exits and sorted(found, key=lambda fact: fact["time"])

        return self.ws.until(facts, f"{id} has ended {exits} times")

    def nothing_runs(self):
        """Fails when a holder or a supervised process, or anything they started, is alive (after a grace period)."""
        def left():
            return [f"{pid} {' '.join(command_line_of(pid))}" for pid in descendants_of(os.getpid())]

        try:
            self.ws.until(lambda: not left(), "")
        except AssertionError:
            raise AssertionError(f"still running: {left()}") from None

    def holders(self):
        """{id: [pids]} of the holders that live below this test."""
        found = {}
        for pid in descendants_of(os.getpid()):
            if name_of(pid).startswith("tasuki-hold"):
                found.setdefault((command_line_of(pid) + ["?", "?"])[1], []).append(pid)
        return found

    def one_copy_runs(self, id, record):
        """The record is Running, and its pid is the process that was started for this id."""
        eq(record["state_name"], "Running", f"the state of {id}")
        assert self.ws.alive(record["pid"]), f"{id} is said to run as {record['pid']}, which does not live"
        eq(environment_of(record["pid"]).get("TASUKI_PROCESS_ID"), id, f"TASUKI_PROCESS_ID of {record['pid']}")
