"""The witness of witness.h for contenders written in Python, and what the log says when the storm is over."""

import fcntl
import os
import pathlib
import struct
import time

FLOCK = "hhqqi4x"  # struct flock of a 64-bit Linux: type, whence, start, len, pid


class Witness:
    def __init__(self, directory, lock, role):
        directory = pathlib.Path(directory)
        self.common = f"lock={lock} role={role} pid={os.getpid()}"
        self.fd = os.open(directory / f"{lock}.witness", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.log_fd = os.open(directory / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def log(self, verb, **more):
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000000
        pairs = "".join(f" {key}={value}" for key, value in more.items())
        os.write(self.log_fd, f"{verb} {self.common} t={now}{pairs}\n".encode())

    def enter(self):
        """Whether nobody else holds it; if somebody does, that is in the log."""
        try:
            fcntl.lockf(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            pass
        question = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(FLOCK, fcntl.fcntl(self.fd, fcntl.F_GETLK, question))
        self.log("double", other=-1 if kind == fcntl.F_UNLCK else pid)
        return False

    def leave(self):
        fcntl.lockf(self.fd, fcntl.LOCK_UN)

    def close(self):
        os.close(self.fd)
        os.close(self.log_fd)


class Line:
    """One line of the log. `text` keys come last and may contain spaces."""

    def __init__(self, number, text):
        self.number = number
        self.text = text
        verb, _, rest = text.partition(" ")
        head, _, tail = rest.partition(" text=")
        self.verb = verb
        self.values = dict(word.partition("=")[::2] for word in head.split())
        if tail:
            self.values["text"] = tail
        self.lock = self.values.get("lock")
        self.role = self.values.get("role")
        self.pid = int(self.values.get("pid", 0))


class Hold:
    """From `hold` (or rather the `want` before it) to `end`. A holder that was killed has no end."""

    def __init__(self, line, wanted_at):
        self.lock, self.role, self.pid = line.lock, line.role, line.pid
        self.fence = None if line.values.get("fence", "-") == "-" else int(line.values["fence"])
        self.begin = wanted_at
        self.number = line.number
        self.end = None
        self.status = None

    def __str__(self):
        return f"{self.role}({self.pid}) fence={self.fence} lines {self.number}-{self.end or ''} {self.status or 'killed'}"


def read_log(directory):
    path = pathlib.Path(directory) / "log"
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    return [Line(number, text) for number, text in enumerate(lines, 1)]


def holds_of(lines):
    """All holds in the order in which they began. A pid has one hold at a time."""
    wanted, open_holds, found = {}, {}, []
    for line in lines:
        key = (line.lock, line.pid)
        if line.verb == "want":
            wanted[key] = line.number
            open_holds.pop(key, None)  # pids come again
        elif line.verb == "hold":
            hold = Hold(line, wanted.get(key, line.number))
            open_holds[key] = hold
            found.append(hold)
        elif line.verb == "end" and key in open_holds:
            hold = open_holds.pop(key)
            hold.end, hold.status = line.number, line.values.get("status")
    return found


def deletions_of(lines):
    """When a foreign D39 client was between its judgement and the end of its unlink: (lock, begin, end) by line. One
    that was killed meanwhile has done what it did before its successor in the role wrote its first line."""
    found, open_at = [], {}
    for line in lines:
        begun = open_at.get((line.lock, line.role))
        if begun and (line.verb == "delete-end" or line.pid != begun.pid):
            found.append((line.lock, begun.number, line.number))
            del open_at[(line.lock, line.role)]
        if line.verb == "delete-begin":
            open_at[(line.lock, line.role)] = line
    found += [(lock, begun.number, len(lines) + 1) for (lock, _), begun in open_at.items()]
    return found


def was_deleted(hold, deletions, last):
    """Whether the residual case can have hit this hold: another tool's deletion overlaps it."""
    end = hold.end or last
    return any(lock == hold.lock and begin <= end and hold.begin <= done for lock, begin, done in deletions)
