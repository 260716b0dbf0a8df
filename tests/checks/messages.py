#!/usr/bin/env python3
"""What the program says exists in ja, en and zh, and tools/embed_messages.py refuses a catalogue with a hole."""

import json
import pathlib
import re
import subprocess
import sys
import unicodedata

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.harness import main, test  # noqa: E402
from harness.sources import ROOT, c_files, place, read, refuse  # noqa: E402

TOOL = ROOT / "tools/embed_messages.py"
ERRORS = ROOT / "src/base/errors.def"
LANGUAGES = ("ja", "en", "zh")
STRING = r'"((?:\\.|[^"\\])*)"'
# Function -> which argument is a text key. Functions of ours that pass a key on belong here as well.
KEY_ARGUMENT = {"error_set": 2, "text_get": 0, "text_put": 2, "bad": 2, "label": 1, "cli_put_line": 3, "print_ids": 1, "put_pairs": 2, "put_probe": 2,
                "workflow_refuse_as": 2, "find": 2, "print_line": 2, "finding_add": 2, "req_problem": 2, "not_yet": 0, "finding_summary": 1, "finding_fixed": 1, "finding_recovered": 1, "too_large": 1}
CALL = re.compile(r"(?<!\w)(" + "|".join(KEY_ARGUMENT) + r")\(")
ASSIGNED_TEXT = re.compile(r"->(?:text|says) = ([^;]*);")


def catalogue(lang):
    return json.loads(read(ROOT / f"share/messages.v1.{lang}.json"))


def argument(code, start, wanted):
    """The text of the argument number `wanted` of the call whose arguments begin at `start`."""
    depth, number, begin, i = 0, 0, start, start
    while i < len(code) and depth >= 0:
        literal = re.compile(STRING).match(code, i)
        if literal:
            i = literal.end()
            continue
        depth += {"(": 1, ")": -1}.get(code[i], 0)
        if depth < 0 or (depth == 0 and code[i] == ","):
            if number == wanted:
                return code[begin:i]
            number, begin = number + 1, i + 1
        i += 1
    return ""


def without_characters(code):
    """A quotation mark as a character constant begins no string."""
    return re.sub(r"'(\\.|[^\\'\n])'", "' '", code)


def without_calls(text):
    """`get(a, "b") ? "c" : "d"` -> `get ? "c" : "d"`: only the literals that can be the value."""
    while (shorter := re.sub(r"\([^()]*\)", "", text)) != text:
        text = shorter
    return text


def keys_made_from_facts():
    """Keys that are made from words of the layers below (cli_word, cli_key): how_<how>, state_<verdict>, doctor_title_<check>,
    queue_end_<reason>, why_<reason>."""
    judged = "".join(read(path) for path in c_files("src/lock"))
    hows = [word for found in re.findall(r"->how = ([^;]*);", judged) for word in re.findall(STRING, found)]
    known = "".join(read(path) for path in [*c_files("src/own"), ROOT / "src/ops/op_agents.c"])
    hows += re.findall(r'agent_of\([^;]*, "([^"]+)"\);', known)
    hows += re.findall(STRING, "".join(re.findall(r"state_with\([^;]*;", known)))
    states = re.findall(r"\[VERDICT_\w+\] = " + STRING, judged)
    states += re.findall(r'(?<!{)"state", ' + STRING, "".join(read(path) for path in c_files("src/ops")))
    states += re.findall(r"&& json_is_false\(alive\) \? " + STRING, read(ROOT / "src/cli/print_lock.c"))
    titles = {"doctor_title_" + check for check in re.findall(r"^X\((\w+),", read(ROOT / "src/doctor/checks.def"), re.MULTILINE)}
    for prefix, header in (("queue_end_", "src/run/queue.h"), ("why_", "src/run/book.h")):
        titles |= {prefix + reason.lower() for reason in re.findall(r"^ *X\((\w+)[,)]", read(ROOT / header), re.MULTILINE)}
    return titles | {"how_" + re.sub(r"[^A-Za-z0-9]", "_", how) for how in hows} | {"state_" + state for state in states}


def keys_in(code):
    """[(offset, key)] of the text keys: literals (`a ? "x" : "y"` included) and what was assigned to a variable."""
    found = []
    for call in CALL.finditer(code):
        key = argument(code, call.end(), KEY_ARGUMENT[call[1]]).strip()
        if re.fullmatch(r"[a-z]\w*", key):
            key = " ".join(re.findall(rf"[\s*]{key} = ([^;]*);", code))
        key = without_calls(key)
        found += [(call.start(), word) for word in re.findall(STRING, key) if re.fullmatch(r"[a-z]\w+", word)]
    return found + [(m.start(), literal) for m in ASSIGNED_TEXT.finditer(code) for literal in re.findall(STRING, m[1])]


def used_keys():
    found = []
    for path in c_files("src"):
        code = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), read(path), flags=re.DOTALL)
        found += [(place(path, code, offset), key) for offset, key in keys_in(code)]
    return found


@test("the search for keys sees conditions, nested calls, variables and assignments", init=False)
def _(_ws):
    code = """error_set(err, f(a, b), is_x ? "one" : "two", "path", "no", NULL); text_get("three", lang);
              const char *key = is_y ? "four" : "five"; text_put(&b, l, key, "path", "no", NULL);
              err->text = "six";"""
    assert [key for _, key in keys_in(code)] == ["one", "two", "three", "four", "five", "six"], keys_in(code)


def embed(directory, changes):
    """Runs the generator over the catalogues with `changes` {lang: text -> text}. Returns its result."""
    paths = []
    for lang in LANGUAGES:
        text = read(ROOT / f"share/messages.v1.{lang}.json")
        path = directory / f"{lang}.json"
        path.write_text(changes[lang](text) if lang in changes else text, encoding="utf-8")
        paths.append(str(path))
    return subprocess.run([sys.executable, str(TOOL), str(ERRORS), *paths, str(directory / "out.c")],
                          capture_output=True, text=True, check=False)


def refused(directory, changes, *words):
    result = embed(directory, changes)
    assert result.returncode != 0, "a broken catalogue was accepted"
    for word in words:
        assert word in result.stderr, f"{word!r} is not in: {result.stderr}"


def without(*path):
    def change(text):
        tree = json.loads(text)
        node = tree
        for key in path[:-1]:
            node = node[key]
        del node[path[-1]]
        return json.dumps(tree)

    return change


@test("every text that the code names is in the catalogues of all languages", init=False)
def _(_ws):
    texts = {lang: catalogue(lang)["texts"] for lang in LANGUAGES}
    problems = [f"{where}: {key!r} is not in {lang}" for where, key in used_keys() for lang in LANGUAGES
                if key not in texts[lang]]
    problems += [f"{key!r} is not in {lang}" for key in keys_made_from_facts() for lang in LANGUAGES
                 if key not in texts[lang]]
    refuse(problems, "texts that are missing:")


@test("every text of the catalogues is named somewhere in the code", init=False)
def _(_ws):
    # Keys also stand in tables, so any literal counts; some are made from a prefix and a word.
    literals = {m for path in c_files("src") for m in re.findall(STRING, without_characters(read(path)))}
    literals |= {prefix + word.lower() for prefix in ("view_", "phase_", "request_status_", "task_line_") for word in literals}
    refuse(sorted(set(catalogue("en")["texts"]) - literals - keys_made_from_facts()), "texts that nobody says:")


@test("labels leave a blank before what they label", init=False)
def _(_ws):
    columns = 10  # put_line in src/cli/print.c
    wide = lambda text: sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
    problems = [f"{lang}: {key} {text!r}" for lang in LANGUAGES for key, text in catalogue(lang)["texts"].items()
                if key.startswith("label_") and wide(text) >= columns]
    refuse(problems, f"labels of {columns} columns or more:")


@test("the catalogues are complete", init=False)
def _(ws):
    result = embed(ws.path, {})
    assert result.returncode == 0, result.stderr


@test("a code or a text that is missing in one language stops the build", init=False)
def _(ws):
    refused(ws.path, {"zh": without("LOCK_HELD")}, "zh.json", "LOCK_HELD")
    refused(ws.path, {"ja": without("LOCK_HELD", "summary")}, "ja.json", "LOCK_HELD")
    refused(ws.path, {"ja": without("texts", "system_call")}, "ja.json", "system_call")
    refused(ws.path, {"en": without("texts", "system_call")}, "en.json", "system_call")


@test("a key that appears twice stops the build", init=False)
def _(ws):
    twice = lambda text: text.replace('"texts": {', '"texts": {"system_call": "x",', 1)
    refused(ws.path, {"en": twice}, "en.json", "'system_call' appears twice")


@test("placeholders that differ between the languages stop the build", init=False)
def _(ws):
    rename = lambda text: text.replace("{what}", "{verb}")
    refused(ws.path, {"zh": rename}, "texts.system_call", "differ")


@test("a code that errors.def does not have, and broken JSON, stop the build", init=False)
def _(ws):
    unknown = lambda text: text.replace('"LOCK_HELD"', '"LOCK_HELD_X"', 1)
    refused(ws.path, {"en": unknown}, "LOCK_HELD_X is not a reason code")
    refused(ws.path, {"en": lambda text: text[:-3]}, "en.json")


@test("what a code tells people to do are commands that there are: no page, which only says where everything is", init=False)
def _(ws):
    rows = json.loads(subprocess.run([ws.binary, "help", "--json"], capture_output=True, text=True, check=True).stdout)["operations"]
    commands = {re.match(r"tasuki ((?:[a-z][a-z-]* ?)+)", row["usage"])[1].strip() for row in rows}
    problems = []
    for lang, page in (("en", r"\bpage\b"), ("ja", "ページ"), ("zh", "页面")):
        for code, entry in catalogue(lang).items():
            for action in entry.get("actions", []) if code != "texts" else []:
                said = re.findall(r"`tasuki ((?:[a-z][a-z-]* ?)+)", action)
                problems += [f"{lang} {code}: {action}" for words in said if not any((words.strip() + " ").startswith(c + " ") for c in commands)]
                problems += [f"{lang} {code}: {action}"] if re.search(page, action) else []
    refuse(problems, "actions that offer what there is not")


@test("the Japanese texts of D39 are the seed's, word for word", init=False)
def _(_ws):
    ja = catalogue("ja")
    assert ja["RUN_IN_PROGRESS"]["title"] == "同一RequestのRunが実行中です"
    assert ja["QUEUE_IN_PROGRESS"] == {
        "title": "キュー実行がすでに動作中です",
        "summary": "Auto-runは同時に1つのみ実行できます。",
        "actions": ["別タブ/別ウィンドウで起動していないか確認", "しばらく待つ（TTLで回収されます）",
                    "必要なら doctor(full) でロック回収を実施"],
    }


@test("every type of event has a sentence on the page")
def _(_ws):
    protocol = ROOT / "docs/protocol"
    tables = re.findall(r"^\| (`[^|]*) \|", read(protocol / "events.md").split("## Types")[1].split("## Segments")[0], re.M)
    lists = [read(protocol / name).split("## Events")[1].split("\n## ")[0] for name in ("runs.md", "requests.md")]
    types = set(re.findall(r"`((?!data\.)[a-z]+\.[a-z_]+|L[A-Z_]{4,})`", "\n".join(tables + lists)))
    assert len(types) > 50, sorted(types)
    page, texts = read(ROOT / "ui/src/sentences.ts"), json.loads(read(ROOT / "ui/texts.json"))
    plain = re.findall(r'^  "?([\w.]+)"?: \["', page, re.M)
    known = set(re.findall(r'case "([\w.]+)":', page)) | set(plain)
    refuse([f"ui/src/sentences.ts: {one}" for one in sorted(types - known)], "types without a sentence")
    refuse([f"ui/texts.json: event.{one}" for one in plain if f"event.{one}" not in texts], "sentences without a text")


main(__name__)
