"""The record that storm-proc-child (proc_child.c) keeps of its lives, and what its log must contain because of it."""

import collections
import errno
import mmap
import os
import re
import socket
import struct

LIVES_MAX = 65536
HEAD, LIFE = struct.Struct("=QQ"), struct.Struct("=IIQ")
SIZE = HEAD.size + LIVES_MAX * LIFE.size
LINE = re.compile(rb"<([\w.-]+) (\d+) (\d+) (\d+)>\n")

Life = collections.namedtuple("Life", "pid leaving written")


class Lives:
    """`directory` and `name` as the child gets them."""

    def __init__(self, directory, name):
        self.place = f"{directory}/{name}"
        fd = os.open(f"{self.place}.lives", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(fd, SIZE)
        self.map = mmap.mmap(fd, SIZE)
        os.close(fd)

    def close(self):
        self.map.close()

    @property
    def born(self):
        return HEAD.unpack_from(self.map, 0)[0]

    def order(self, code):
        """The child that reads this exits with `code`; 0 lines later, or never if it is dead."""
        struct.pack_into("=Q", self.map, 8, code + 1)

    def cancel_order(self):
        struct.pack_into("=Q", self.map, 8, 0)

    def all(self):
        return [Life(*LIFE.unpack_from(self.map, HEAD.size + i * LIFE.size)) for i in range(self.born)]

    def has(self, pid):
        """Whether the newest life is that process."""
        return self.born > 0 and self.all()[-1].pid == pid

    def somebody_lives(self):
        """Asks the kernel whether anybody has the witness's name. (Without taking it: a process that is born at this instant
        would see a second copy.)"""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            return probe.connect_ex("\0" + self.place) != errno.ECONNREFUSED

    def missing_lines(self, log, may_repeat=False):
        """What is wrong with a log (bytes): lines missing, twice (unless they may be), or out of order; [] if nothing is. A
        death between a write and its count leaves one line more than was counted."""
        found = collections.defaultdict(list)
        for _, life, pid, number in LINE.findall(log):
            found[int(life), int(pid)].append(int(number))
        problems = []
        for index, life in enumerate(self.all()):
            numbers = found.pop((index, life.pid), [])
            if may_repeat:
                numbers = sorted(set(numbers))
            if numbers != list(range(1, len(numbers) + 1)) or len(numbers) not in (life.written, life.written + 1):
                problems.append(describe(index, life, numbers))
        # A life that was ended before it wrote its pid into its entry has nothing to say, and has not.
        return problems + [f"lines of a life that never was: {key}" for key in found]


def describe(index, life, numbers):
    wanted = set(range(1, life.written + 1))
    lost = sorted(wanted - set(numbers))
    return (f"life {index} (pid {life.pid}) wrote {life.written} lines, the log has {len(numbers)}; missing: {len(lost)}, "
            f"first {lost[:3]}, last {lost[-3:]}; in order: {numbers == sorted(set(numbers))}")


def doubles(directory):
    try:
        with open(f"{directory}/doubles", encoding="utf-8") as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []
