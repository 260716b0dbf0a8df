#!/usr/bin/env python3
"""What holds for every page: three languages, all widths, the keyboard, axe, the size of the first load."""

import gzip
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from browser_common import CACHE, HERE, NODE, Server, need_browser, scenarios  # noqa: E402
from harness.harness import main, test  # noqa: E402

FIRST_LOAD_MAX = 60_000


@test("the first load has less than 60 KB, whatever the language; log viewer and graph come later")
def _(ws):
    server = Server(ws)
    sizes, contents = {}, {}

    def load(path):
        if path in sizes:
            return
        body = server.get(path, token=False).expect(200).body
        sizes[path] = len(body)
        text = body.decode() if path == "/" else gzip.decompress(body).decode()
        contents[path] = text
        linked = re.findall(r'(?:src|href)="(/assets/[^"]+)"', text) if path == "/" else re.findall(r'(?:from|import)\s*"\./([^"]+)"', text)
        for name in linked:
            load(name if name.startswith("/") else f"/assets/{name}")

    load("/")
    app = "".join(contents.values())
    words = max((len(server.get(f"/assets/{name}", token=False).expect(200).body), name)
                for name in re.findall(r'import\("\./((?:en|ja|zh)-[^"]+)"\)', app))
    total = sum(sizes.values()) + words[0]
    assert total < FIRST_LOAD_MAX, f"{total} bytes: {sizes}, {words}"
    for part in ("treegrid", "zoom", "contain-intrinsic"):
        assert part not in "".join(text for path, text in contents.items() if path.endswith(".js")), f"{part} is loaded at first"
    server.stop()


@test("the page's TypeScript has no error", quick=False)
def _(ws):
    need_browser()
    result = ws.run([NODE, CACHE / "node_modules/typescript/bin/tsc", "-p", HERE.parents[1] / "ui"], timeout=120)
    assert result.code == 0, result.out


@test("the page makes no element from text, and has no `any`")
def _(ws):
    for path in sorted((HERE.parents[1] / "ui" / "src").rglob("*.ts*")):
        text = path.read_text()
        for word in (r"\binnerHTML\b", r"\bouterHTML\b", r"dangerouslySetInnerHTML", r"insertAdjacentHTML", r"\bany\b(?=[\[\]>,;)\s]*[=;>,)])", r"\beval\("):
            code = re.sub(r"//.*|/\*.*?\*/", "", text)
            assert not re.search(word, code), f"{path.name} has {word}"
        assert text.count("\n") < 400, f"{path.name} has more than 400 lines"


@test("the palette calls every operation as the command line does")
def _(ws):
    source = (HERE.parents[1] / "ui" / "src" / "operations.ts").read_text()
    nouns = dict(re.findall(r'(\w+): "([^"]+)"', re.search(r"const nouns[^{]*\{([^}]*)\}", source)[1]))
    alone = dict(re.findall(r'if \(id === "([^"]+)"\) return "([^"]+)"', source))
    for row in ws.tasuki("help", "--json").expect(0).json["operations"]:
        noun, _, verb = row["name"].partition(".")
        command = alone.get(row["name"]) or " ".join(filter(None, ["tasuki", nouns.get(noun, noun) if verb else noun, verb]))
        assert "absent" in row["http"] or f"{row['usage']} ".startswith(f"{command} "), (row["name"], command, row["usage"])


@test("a build without node ends with the package to install", init=False)
def _(ws):
    root = HERE.parents[1]
    done = subprocess.run([sys.executable, root / "tools" / "build_page.py", root / "ui", ws.path / "o.c", ws.path / "o.d"], env={"PATH": "/nowhere"},
                          capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "apt-get install nodejs" in done.stderr, done


scenarios(
    "whole.mjs",
    words="ja and zh: no key and no English word is left on any page; the choice is kept",
    accessible="axe finds nothing on any page, light, dark and narrow, and in the palette; one h1",
    widths="from 380 to 1920 px nothing is too wide; tabs, sheets and bars where it is narrow",
    keyboard="the keys: pages, help, start and stop, filter, rows",
    late="a part of the page that arrives while its place is drawn is shown",
    signs="the machine in the side bar, a run's title at every width, a task's state in one colour with its session",
    palette="the palette: finds, copies, runs; any operation has a form",
)
main(__name__)
