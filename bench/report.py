"""What every benchmark needs: rows with a target and a verdict, one aligned table, one JSON file."""
import dataclasses
import datetime
import json
import os
import pathlib
import platform

RESULTS = pathlib.Path(__file__).resolve().parent / "results"


@dataclasses.dataclass
class Row:
    """`ours` and `peer` are printed as they are; `ratio` is compared with `limit` in the direction of `better`."""
    work: str
    ours: str
    peer: str = ""
    ratio: float | None = None
    better: str = ""  # "at least", "at most", or "" for a row without a target
    limit: float | None = None
    unit: str = ""  # of ratio and limit: "x" for ratios, "ms", ...

    def target(self):
        return f"{'>=' if self.better == 'at least' else '<='} {self.limit:g} {self.unit}".strip() if self.better else ""

    def value(self):
        return "" if self.ratio is None else f"{self.ratio:.2f} {self.unit}".strip()

    def verdict(self):
        if not self.better:
            return ""
        if self.ratio is None:
            return "skipped"
        met = self.ratio >= self.limit if self.better == "at least" else self.ratio <= self.limit
        return "met" if met else "MISSED"


def file_system(path):
    """The type of the file system that holds `path`: the longest mount point above it."""
    best, kind = "", "unknown"
    real = os.path.realpath(path)
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        for line in mounts:
            before, after = line.split(" - ")
            point = before.split()[4].encode().decode("unicode_escape")
            inside = real == point or real.startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(best):
                best, kind = point, after.split()[0]
    return kind


def machine(directory):
    return {"cores": os.cpu_count(), "kernel": platform.release(), "arch": platform.machine(),
            "fs": file_system(directory), "load_at_start": round(os.getloadavg()[0], 2),
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}


def print_machine(facts):
    print("{cores} cores, Linux {kernel} {arch}, files on {fs}, load {load_at_start}".format(**facts))


def print_table(rows):
    cells = [("work", "tasuki", "peer", "value", "target", "verdict")]
    cells += [(r.work, r.ours, r.peer, r.value(), r.target(), r.verdict()) for r in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    for number, line in enumerate(cells):
        print("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))


def write_json(name, facts, rows, raw):
    RESULTS.mkdir(exist_ok=True)
    document = {"benchmark": name, "machine": facts,
                "rows": [{**dataclasses.asdict(row), "verdict": row.verdict()} for row in rows], "raw": raw}
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path
