"""What a person sees on a terminal: `tasuki up` beside other tools that show several servers (up.py), and `tasuki watch` (watch.py)."""
import importlib
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
PARTS = ("up", "watch")


def measure(context):
    sys.path.insert(0, str(HERE))
    rows, raw = [], {}
    for name in PARTS:
        if not (HERE / f"{name}.py").exists():
            continue
        found, figures = importlib.import_module(name).measure(context)
        rows += found
        raw[name] = figures
    return rows, raw
