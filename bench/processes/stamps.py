"""When the children of a benchmark did what: the file that bench-child appends to."""
import os
import pathlib

from processes.supervisors import wait_for


def read_stamps(path):
    """[(tag, pid, nanoseconds)]; an unfinished last line is left out."""
    try:
        lines = pathlib.Path(path).read_text().split("\n")[:-1]
    except FileNotFoundError:
        return []
    return [(tag, int(pid), int(when)) for tag, pid, when in (line.split() for line in lines)]


def wait_stamps(path, count, pause=0.005):
    """The stamps, as soon as there are `count`."""
    def enough():
        # Cheaper than reading: no line is shorter than this.
        if not os.path.exists(path) or os.path.getsize(path) < count * 8:
            return None
        found = read_stamps(path)
        return found if len(found) >= count else None
    return wait_for(f"{count} stamps in {path}", enough, pause=pause)
