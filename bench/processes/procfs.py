"""What /proc says about processes: who descends from whom, and what they cost."""
import collections
import os

PAGE_TABLES, THREADS = "VmPTE", "Threads"
KERNEL_STACK_KIB = 16  # of one thread, x86-64 and arm64


def read(pid, name):
    """A file of /proc/PID as text, "" when the process is gone."""
    try:
        with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def link(pid, name):
    try:
        return os.readlink(f"/proc/{pid}/{name}")
    except OSError:
        return ""


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def is_alive(pid):
    """It exists and is not a zombie."""
    after_name = read(pid, "stat").rpartition(")")[2].split()
    return bool(after_name) and after_name[0] not in "ZX"


def tree(roots):
    """The roots that live, and all that descends from them."""
    children = collections.defaultdict(list)
    for pid in pids():
        after_name = read(pid, "stat").rpartition(")")[2].split()
        if len(after_name) > 1:
            children[int(after_name[1])].append(pid)
    found, ahead = [], [pid for pid in roots if is_alive(pid)]
    while ahead:
        pid = ahead.pop()
        found.append(pid)
        ahead += children[pid]
    return found


def field(text, name):
    """The number in the line `name:` of a status-like file; 0 if there is none."""
    for line in text.splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    return 0


def pss_kib(some):
    return sum(field(read(pid, "smaps_rollup"), "Pss") for pid in some)


def private_kib(some):
    """What would be free if one of them ended: the part of the PSS that is not shared."""
    return sum(field(read(pid, "smaps_rollup"), name) for pid in some for name in ("Private_Clean", "Private_Dirty"))


def kernel_kib(some):
    """Page tables and kernel stacks, which the PSS does not show. (Slab cannot be told by process.)"""
    texts = [read(pid, "status") for pid in some]
    return sum(field(text, PAGE_TABLES) + KERNEL_STACK_KIB * field(text, THREADS) for text in texts)


def threads(some):
    for pid in some:
        try:
            yield from (f"{pid}/task/{name}" for name in os.listdir(f"/proc/{pid}/task"))
        except OSError:
            pass


def context_switches(some):
    """{thread: voluntary and other ones so far}"""
    found = {}
    for thread in threads(some):
        text = read(thread, "status")
        found[thread] = field(text, "voluntary_ctxt_switches") + field(text, "nonvoluntary_ctxt_switches")
    return found


def cpu_seconds(some):
    """Time on a processor, of all threads, to the nanosecond (stat counts in ticks of 10 ms)."""
    return sum(int((read(thread, "schedstat") or "0").split()[0]) for thread in threads(some)) / 1e9
