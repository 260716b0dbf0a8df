#!/usr/bin/env python3
"""Builds the page (ui/) and turns it into a C table: every file with its name, type and ETag; all but index.html compressed.

    build_page.py UI_DIR OUT.c DEPFILE

The page needs node and npm. npm installs what ui/package-lock.json names, once; the stamp ui/node_modules/.installed says for
which list. DEPFILE names every source, so that ninja calls this again only when one of them has changed.
"""

import gzip
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8"}
NODE_MIN = 18


def die(text):
    sys.exit(f"build_page: {text}")


def need_node():
    for program, package in (("node", "nodejs"), ("npm", "npm")):
        if not shutil.which(program):
            die(f"there is no {program}, and the page is built with it. Install it, then build again: apt-get install {package}")
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.lstrip("v").split(".")[0]) < NODE_MIN:
        die(f"node is {version}, and the page needs {NODE_MIN} or newer. Install it, then build again: apt-get install nodejs")


def install(ui):
    """What the lock file names, unless it is there. Two builds at a time take turns."""
    wanted = (ui / "package-lock.json").read_bytes()
    stamp = ui / "node_modules" / ".installed"
    if stamp.exists() and stamp.read_bytes() == wanted:
        return
    import fcntl
    with open(ui / "package.json", "rb") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_bytes() == wanted:
            return
        done = subprocess.run(["npm", "ci", "--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1",
                               "--fetch-retry-mintimeout=1000", "--fetch-timeout=60000"], cwd=ui, capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            die(f"npm could not install what ui/package-lock.json names:\n{done.stdout}{done.stderr}"
                "It needs the network once. Try again: npm ci --prefix ui")
        stamp.write_bytes(wanted)


def bundle(ui, out):
    done = subprocess.run(["node", "build.mjs", str(out)], cwd=ui, capture_output=True, text=True, check=False)
    sys.stderr.write(done.stderr)
    if done.returncode != 0:
        die("the page does not compile")
    return json.loads(done.stdout)


def c_bytes(data):
    lines = []
    for at in range(0, len(data), 24):
        lines.append("    " + "".join(f"{byte}," for byte in data[at:at + 24]))
    return "\n".join(lines)


def table(out, files):
    """One array per file, and the table that http/page.c searches."""
    arrays, rows = [], []
    for number, name in enumerate(sorted(file["name"] for file in files)):
        data = (out / name).read_bytes()
        tag = hashlib.sha256(data).hexdigest()[:16]
        is_first = name == "index.html"
        packed = data if is_first else gzip.compress(data, 9, mtime=0)
        path = "/" if is_first else f"/assets/{name}"
        arrays.append(f"static const unsigned char file_{number}[] = {{\n{c_bytes(packed)}\n}};\n")
        rows.append(f'    {{"{path}", "{TYPES[pathlib.Path(name).suffix]}", "\\"{tag}\\"", file_{number}, sizeof file_{number}, {"false" if is_first else "true"}}},\n')
    return ("/* Made by tools/build_page.py. */\n#include \"http/page.h\"\n\n" + "\n".join(arrays) +
            "\nconst struct page_file page_files[] = {\n" + "".join(rows) + "    {0},\n};\n")


def main():
    ui, out_c, depfile = (pathlib.Path(word) for word in sys.argv[1:4])
    need_node()
    install(ui.resolve())
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder)
        made = bundle(ui, out)
        out_c.write_text(table(out, made["files"]), encoding="utf-8")
    (out_c.parent / "page.json").write_text(json.dumps(made["files"], indent=1) + "\n", encoding="utf-8")
    sources = [os.path.relpath(ui / name) for name in made["inputs"]] + [os.path.relpath(ui / "package-lock.json")]
    depfile.write_text(f"{out_c}: " + " ".join(name.replace(" ", "\\ ") for name in sorted(set(sources))) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
