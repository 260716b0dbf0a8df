"""Flow files and their pictures: what is accepted, what is refused and how that is said, what is drawn."""

import json
import pathlib
import random
import re
import shutil
import subprocess
import xml.etree.ElementTree

from dot import Dot, DotError
from harness.harness import eq, main, test

DIAMOND = """\
name: diamond
flow: fetch >> (transform_a | transform_b) >> store
tasks:
  fetch:        {run: ./fetch.sh}
  transform_a:  {run: [python3, a.py], timeout: 30s, retries: 2}
  transform_b:  {run: ./b.sh}
  store:        {run: ./store.sh}
"""
SPEC_6 = DIAMOND.replace("(transform_a | transform_b)", "checks(transform_a | transform_b)") + """\
groups:
  checks: {policy: best_effort}
channel: {merge: {counter: sum, log: append, "*": last}}
limits:  {parallel: 4, max_steps: 10000, max_cycles: 10, retries: 0}
"""


def write(ws, text, name="f.yaml"):
    (ws.path / name).write_text(text)
    return name


def problems(ws, text):
    """[(line, column, message)] of a flow that is refused."""
    result = ws.tasuki("flow", "validate", write(ws, text), "--json").expect(2, "FLOW_INVALID")
    return [(p["line"], p["column"], p["message"]) for p in result.error["context"]["problems"]]


def only_problem(ws, text):
    found = problems(ws, text)
    eq(len(found), 1, f"number of problems in {found}")
    return found[0]


def tasks(expression, names="a b c d", more=""):
    return f"flow: {expression}\ntasks:\n" + "".join(f"  {n}: {{run: 'true'}}\n" for n in names.split()) + more


def edges_of(dot):
    """Edges by label; groups are their fork and join."""
    labels = dict(re.findall(r'(n\d+) \[label="([^"]+)"\]', dot))
    return sorted((labels.get(a, a[0]), labels.get(b, b[0])) for a, b in re.findall(r"(\w+) -> (\w+);", dot))


@test("a flow is read from standard input, or from a pipe; detached, there is none")
def _(ws):
    def said(script, code=0):
        proc = ws.spawn_command(["bash", "-c", script, ws.binary])
        out = "".join(proc.communicate(timeout=60))
        eq((proc.returncode, out), (code, out))
        return out

    flow = '"tasks: {a: cat; echo hello}"'
    stage = json.loads(said(f"echo {flow} | $0 run - --json").splitlines()[-1])
    eq((stage["status"], stage["source"]), ("DONE", "stdin"))
    eq(ws.tasuki("runs", "logs", stage["run_id"]).expect(0).out.splitlines()[-1], "hello", "a task does not read the flow's rest")
    eq(said(f"$0 flow validate <(echo {flow})").split(":")[1], " valid, 1 task, 0 groups\n")
    eq(said("echo 'tasks: 5' | $0 graph -", 2).startswith("tasuki: stdin:1:8: "), True)
    eq("cannot be detached" in said(f"echo {flow} | $0 run - --detach", 2), True)
    eq("cannot be detached" in said(f"$0 run <(echo {flow}) --detach", 2), True)
    eq(ws.tasuki("runs", "list", "--json").json["runs"][0]["run_id"], stage["run_id"], "the only run")
    again = said("PATH=$(dirname $0):$PATH; echo 'tasks: {a: tasuki task cancel no}' | $0 run -", 7).split("next")[1].split()
    eq(again[:2], ["tasuki", "run"])
    ws.tasuki("flow", "validate", again[2]).expect(0)


@test("the flow of the specification is valid", init=False)
def _(ws):
    result = ws.tasuki("flow", "validate", write(ws, SPEC_6), "--json").expect(0).json
    eq((result["valid"], result["name"], result["tasks"], result["groups"]), (True, "diamond", 4, 1), "result")


@test("a flow in .aiflow/flows is found by its name")
def _(ws):
    (ws.path / ".aiflow/flows").mkdir(exist_ok=True)
    (ws.path / ".aiflow/flows/nightly.yaml").write_text(DIAMOND)
    eq(ws.tasuki("flow", "validate", "nightly", "--json").expect(0).json["source"], ".aiflow/flows/nightly.yaml", "source")
    result = ws.tasuki("flow", "validate", "nigtly", "--json").expect(5, "NOT_FOUND")
    assert ".aiflow/flows" in result.error["message"], result.error


@test("all problems of a file are told at once, in the order of the file, each with its place and line", init=False)
def _(ws):
    text = """\
flow: fetch >> (lint | lnt)
tasks:
  fetch: {run: ./fetch.sh, timout: 3s, retries: many}
  lint: {needs: [nope]}
  fetch: {run: x}
  a: {run: x, needs: b}
  b: {run: x, needs: [a]}
grups: {}
limits: {parallel: 0}
"""
    eq([(line, column) for line, column, _ in problems(ws, text)],
       [(1, 24), (3, 28), (3, 49), (4, 3), (4, 18), (5, 3), (6, 3), (8, 1), (9, 20)], "places")
    result = ws.tasuki("flow", "validate", "f.yaml").expect(2)
    assert "f.yaml:1:24: there is no task 'lnt'; did you mean 'lint'?\n    flow: fetch >> (lint | lnt)\n" in result.err, result
    assert "f.yaml:3:28: the key 'timout' is not known here; did you mean 'timeout'?\n" in result.err, result
    assert "f.yaml:6:3: The tasks wait for each other: a >> b >> a\n" in result.err, result


@test("a mistake of YAML is told with its place, after what was found before it", init=False)
def _(ws):
    found = problems(ws, "nme: x\ntasks:\n  a: {run: x\n  b: {run: y}\n")
    eq(found[0][:2], (1, 1), "the unknown key before it")
    eq(len(found), 2, "problems")


@test("all mistakes of an expression are told, and all cycles", init=False)
def _(ws):
    eq([p[:2] for p in problems(ws, tasks("a >> >> b & zz | (c d) >> ) >> g()"))],
       [(1, 12), (1, 17), (1, 19), (1, 27), (1, 33), (1, 40)], "places in the expression")
    found = problems(ws, "flow: a >> b\ntasks:\n  a: {run: x, needs: b}\n  b: x\n  c: {run: x, needs: d}\n  d: {run: x, needs: c}\n")
    eq([(line, words.split(": ")[1]) for line, _, words in found], [(3, "a >> b >> a"), (5, "c >> d >> c")], "cycles")


@test("a mark stands below the place of a mistake, whatever stands before it; a long line is shown around it", init=False)
def _(ws):
    (ws.path / "f.yaml").write_text('tasks:\n  a: {run: "日\t本", cmd: x}\n  b: {run: ' + "x" * 300 + ", cmd: y}\n"
                                   "  c: {run: " + "日" * 70 + ", cmd: z}\n")
    lines = ws.tasuki("flow", "validate", "f.yaml").expect(2).err.splitlines()
    short, long, wide = [(lines[i - 1], line.index("^")) for i, line in enumerate(lines) if line.strip() == "^"]
    eq((short[0], short[1]), ('      a: {run: "日\\x09本", cmd: x}', len('      a: {run: "  \\x09  ", ')), "beside wide characters and a tab")
    assert long[0].startswith("    xxx") and long[0][long[1]:] == "cmd: y}", long
    assert wide[0].startswith("    日日") and wide[0].endswith("日, cmd: z}"), wide
    eq(wide[1], len(wide[0].replace("日", "  ")) - len("cmd: z}"), "beside characters of several bytes")


for name, text, place, words in [
    ("an unknown key of a task", "tasks:\n  a: {run: x, colour: y}\n", (2, 15), "'colour' is not known"),
    ("another tool's name of a key", "tasks:\n  a: {run: x, cmd: y}\n", (2, 15), "'cmd' is called 'run' here"),
    ("a third tool's name of a key", "tasks:\n  y: x\n  a: {run: x, requires: y}\n", (3, 15), "'requires' is called 'needs' here"),
    ("a task that the expression does not find", tasks("a >> b >> c >> d >> e"), (1, 27), "no task 'e'"),
    ("a task that stands twice in the expression", tasks("a >> b >> a >> c >> d"), (1, 17), "is in the flow twice"),
    ("an empty group", tasks("a >> () >> b >> c >> d"), (1, 13), "empty"),
    ("a parenthesis that nothing closes", tasks("a >> (b | c >> d"), (1, 23), "ends here"),
    ("a parenthesis that closes nothing", tasks("a >> b) >> c >> d"), (1, 13), "closes nothing"),
    ("two tasks without an operator", tasks("a b >> c >> d"), (1, 9), "expected >> or | instead of 'b'"),
    ("a single >", tasks("a > b >> c >> d"), (1, 9), "instead of '>'"),
    ("an operator at the end", tasks("a >> b >> c >> d >>"), (1, 26), "ends here"),
    ("a task that nothing reaches", tasks("a >> b >> c"), (6, 3), "never reached"),
    ("a cycle of plain edges with its path", "tasks:\n  a: {run: x, needs: [c]}\n  b: {run: x, needs: [a]}\n"
     "  c: {run: x, needs: [b]}\n", (2, 3), ">>"),
    ("a task that needs itself", "tasks:\n  a: {run: x, needs: [a]}\n", (2, 3), "a >> a"),
    ("a need between two branches of one group", tasks("(a | b) >> c >> d").replace("b: {", "b: {needs: a, "), (4, 14),
     "two branches of one group"),
    ("a task without a command", "tasks:\n  a: {timeout: 3s}\n", (2, 3), "no command"),
    ("an empty command", "tasks:\n  a: {run: []}\n", (2, 12), "empty"),
    ("a command whose program is empty", "tasks:\n  a: {run: [\"\", x]}\n", (2, 12), "empty"),
    ("a policy that does not exist", tasks("g(a | b) >> c >> d", more="groups: {g: {policy: besteffort}}\n"), (7, 22),
     "best_effort"),
    ("more branches than a group has", tasks("g(a | b) >> c >> d", more="groups: {g: {policy: {at_least: 3}}}\n"), (7, 10),
     "only 2"),
    ("a critical branch that does not exist", tasks("g(a | b) >> c >> d", more="groups: {g: {policy: {critical: [c]}}}\n"),
     (7, 33), "no branch 'c'"),
    ("a group that is not in the expression", tasks("checks(a | b) >> c >> d", more="groups: {cheks: {policy: strict}}\n"),
     (7, 10), "did you mean 'checks'"),
    ("a policy that is two", tasks("g(a | b) >> c >> d", more="groups: {g: {policy: {at_least: 1, critical: [a]}}}\n"),
     (7, 22), "either"),
    ("a policy that is none", tasks("g(a | b) >> c >> d", more="groups: {g: {policy: {}}}\n"), (7, 22), "either"),
    ("a variable that stands twice", "tasks:\n  a: {run: x, env: {A: 1, B: 2, A: 3}}\n", (2, 33), "is repeated"),
    ("a merge rule that stands twice", tasks("a >> b >> c >> d", more="channel: {merge: {k: sum, k: last}}\n"), (7, 27), "is repeated"),
    ("a merge rule that does not exist", tasks("a >> b >> c >> d", more="channel: {merge: {k: add}}\n"), (7, 22), "sum"),
    ("a duration that is none", "tasks:\n  a: {run: x, timeout: soon}\n", (2, 24), "not a duration"),
    ("a condition that is none", "tasks:\n  a: {run: x, when: 'a b'}\n", (2, 24), "an operator"),
    ("a key alone as a condition", "tasks:\n  a: {run: x, when: debug}\n", (2, 26), "an operator"),
    ("parentheses that nothing closes", "tasks:\n  a: {run: x, when: '(a == 1'}\n", (2, 29), "`)` is missing"),
    ("parentheses around nothing", "tasks:\n  a: {run: x, when: '()'}\n", (2, 23), "a key of the channel"),
    ("a condition with &&", "tasks:\n  a: {run: x, when: 'a == 1 && b == 2'}\n", (2, 29), "expected `and`, `or`"),
    ("a condition with a word behind its end", "tasks:\n  a: {run: x, when: a == b c}\n", (2, 28), "expected `and`, `or`"),
    ("a condition whose quote nothing closes", "tasks:\n  a: {run: x, when: 'a == \"b'}\n", (2, 27), "not closed"),
    ("a condition without a value", "tasks:\n  a: {run: x, when: 'a =='}\n", (2, 26), "a value is expected"),
    ("a condition with a value on the left", "tasks:\n  a: {run: x, when: '\"fast\" == mode'}\n", (2, 22), "a key of the channel"),
    ("a condition with one =", "tasks:\n  a: {run: x, when: 'a = 1'}\n", (2, 24), "an operator"),
    ("less than a text", "tasks:\n  a: {run: x, when: 'a < fast'}\n", (2, 26), "need a number"),
    ("more than a number in quotes", "tasks:\n  a: {run: x, when: \"a >= '5'\"}\n", (2, 27), "need a number"),
    ("in without a list", "tasks:\n  a: {run: x, when: 'a in b'}\n", (2, 27), "a list"),
    ("in an empty list", "tasks:\n  a: {run: x, when: 'a in []'}\n", (2, 28), "a value is expected"),
    ("a list that nothing closes", "tasks:\n  a: {run: x, when: 'a in [b'}\n", (2, 29), "a list"),
    ("not in", "tasks:\n  a: {run: x, when: 'a not in [b]'}\n", (2, 24), "an operator"),
    ("a condition that ends with and", "tasks:\n  a: {run: x, when: 'a == 1 and'}\n", (2, 32), "a key of the channel"),
    ("a condition behind wide characters", "tasks:\n  a: {run: x, when: '日本 == 語 x'}\n", (2, 30), "expected `and`, `or`"),
    ("a condition that nests too deep", "tasks:\n  a: {run: x, when: '" + "(" * 65 + "a == 1" + ")" * 65 + "'}\n", (2, 86), "64 levels"),
    ("a timeout of nothing", "tasks:\n  a: {run: x, timeout: 0s}\n", (2, 24), "longer than 0"),
    ("a group that is called as a task", tasks("a >> d(b | c) >> d", more="groups: {d: {policy: best_effort}}\n"), (1, 12), "'d' is taken"),
    ("two groups of one name", tasks("g(a | b) >> g(c | d)"), (1, 19), "'g' is taken"),
    ("a name that cannot be a file name", "tasks:\n  ../a: {run: x}\n", (2, 3), "cannot be a name"),
    ("a key of the file that stands twice", "tasks: {a: x}\ntasks: {b: y}\n", (2, 1), "is repeated"),
    ("an empty file", "", (1, 1), "no tasks"),
    ("a file without tasks", "name: x\n", (1, 1), "no tasks"),
]:
    @test(f"refused with its place: {name}", init=False)
    def _(ws, text=text, place=place, words=words):
        line, column, message = only_problem(ws, text)
        eq((line, column), place, f"the place of {message!r}")
        assert words in message, message


@test("the place of a word is right in a folded, a literal and a quoted expression, and after wide characters", init=False)
def _(ws):
    for text, place in [(tasks(">\n  a >>\n  (b | x)\n  >> c >> d\n"), (3, 8)), (tasks("|\n  a >> b\n    >> x >> c >> d\n"), (3, 8)),
                        (tasks('"a >> x >> b >> c >> d"'), (1, 13)),
                        ("tasks:\n  a: {run: 'echo 日本', needs: x}\n", (2, 30))]:
        eq(only_problem(ws, text)[:2], place, f"the place in {text!r}")


@test(">> binds tighter than |, parentheses nest, and a parenthesis without | is none", init=False)
def _(ws):
    def edges(expression):
        return edges_of(ws.tasuki("graph", write(ws, tasks(expression)), "--format", "dot").expect(0).out)

    eq(edges("a >> b | c >> d"), sorted([("a", "b"), ("b", "j"), ("c", "d"), ("d", "j"), ("f", "a"), ("f", "c")]), "edges")
    eq(edges("(a >> b) >> (c >> d)"), [("a", "b"), ("b", "c"), ("c", "d")], "edges")
    eq(edges("a >> ((b) | (c)) >> d"), sorted([("a", "f"), ("f", "b"), ("f", "c"), ("b", "j"), ("c", "j"), ("j", "d")]), "edges")
    eq(edges("a>>b>>c>>d"), [("a", "b"), ("b", "c"), ("c", "d")], "edges")


@test("parentheses nest 256 deep, also where the stack is small; more is refused in words", slow=True)
def _(ws):
    def deep(levels):
        expression = "z"
        for n in range(levels):
            expression = f"a{n} >> ({expression} | b{n})"
        names = ["z", *(f"{letter}{n}" for letter in "ab" for n in range(levels))]
        return f"flow: {expression}\ntasks:\n" + "".join(f"  {name}: 'true'\n" for name in names)

    write(ws, deep(256))
    small = f"ulimit -s 512; exec {ws.build}/tasuki run f.yaml"
    done = subprocess.run(["sh", "-c", small], cwd=ws.path, capture_output=True, text=True, timeout=60)
    eq((done.returncode, '513 of 513' in done.stdout), (0, True), done.stderr[-500:])
    assert "256 levels" in only_problem(ws, deep(257))[2], "the refusal"


@test("needs and expression may be mixed; a need into a group waits for the group", init=False)
def _(ws):
    text = tasks("(a | b) >> c") + "  e: {run: x, needs: [a]}\n"
    text = text.replace("  d: {run: 'true'}\n", "")
    edges = edges_of(ws.tasuki("graph", write(ws, text), "--format", "dot").expect(0).out)
    assert ("j", "e") in edges and ("j", "c") in edges, edges


@test("a key that is like no other is refused with the list of keys", init=False)
def _(ws):
    text = "tasks: {a: x}\ngraph: a\n"
    assert "the key 'graph' is not known here; the keys are: " in ws.tasuki("flow", "validate", write(ws, text)).expect(2).err


@test("the ascii picture shows fork, branches and join", init=False)
def _(ws):
    eq(ws.tasuki("graph", write(ws, SPEC_6)).expect(0).out, """\
* fetch
+-- fork checks (best_effort)
|-- branch transform_a
|   * transform_a
|-- branch transform_b
|   * transform_b
+-- join checks
* store
""", "the picture")


@test("the ascii picture of plain edges forks and joins", init=False)
def _(ws):
    text = "tasks:\n  a: x\n  b: {run: x, needs: a}\n  c: {run: x, needs: a}\n  d: {run: x, needs: [b, c]}\n"
    eq(ws.tasuki("graph", write(ws, text)).expect(0).out, "* a\n+-.\n* | b\n| * c\n+-'\n* d\n", "the picture")


@test("a task that waits for nothing does not stand under one that it could seem to wait for", init=False)
def _(ws):
    eq(ws.tasuki("graph", write(ws, "tasks: {a: x, b: x}\n")).expect(0).out, "* a\n\n* b\n", "the picture")


@test("a lane that passes a group stands at its left in the ascii picture", init=False)
def _(ws):
    text = tasks("a >> (b | c) >> d").replace("  d: {run: 'true'}\n", "  d: {run: 'true', needs: [a]}\n")
    eq(ws.tasuki("graph", write(ws, text)).expect(0).out, """\
* a
+-.
+-|-- fork group-1 (strict)
|-|-- branch b
| |   * b
|-|-- branch c
| |   * c
+-|-- join group-1
+-'
* d
""", "the picture")


@test("with too many lanes for a terminal each task says what it waits for", init=False)
def _(ws):
    names = [f"t{i}" for i in range(40)]
    text = "tasks:\n  a: x\n" + "".join(f"  {n}: {{run: x, needs: a}}\n" for n in names) + f"  z: {{run: x, needs: [{', '.join(names)}]}}\n"
    out = ws.tasuki("graph", write(ws, text)).expect(0).out.splitlines()
    eq((out[0], out[1], out[-1]), ("* a", "* t0  <- a", "* z  <- t0, t1, t2, t3, t4, t5, t6, t7, … (40)"), "lines")


def edges_of_ascii(picture):
    """The edges that a person reads from the lanes: a lane belongs to the nodes whose fork it is."""
    lanes, edges, above = {}, set(), None
    for line in picture.splitlines():
        cells = {i // 2: c for i, c in enumerate(line) if i % 2 == 0}
        lanes = {lane: begins for lane, begins in lanes.items() if cells.get(lane, " ") in "|*+.'"}
        if "*" in line:
            at = line.index("*") // 2
            above = line.split()[-1]
            edges |= {(begin, above) for begin in lanes.pop(at, ())}
            lanes[at] = {above}
        if "+" not in line:
            continue
        at = line.index("+") // 2
        marked = [lane for lane, c in cells.items() if c in ".'"]
        if "'" in line:
            lanes[at] |= set().union(*(lanes.pop(lane) for lane in marked))
        else:
            lanes.update({lane: {above} for lane in marked})
    return edges


@test("the ascii picture of random plain edges can be read back", init=False)
def _(ws):
    for seed in range(60):
        rng = random.Random(seed)
        count = rng.randint(2, 14)
        needs = {f"t{i}": sorted(rng.sample([f"t{k}" for k in range(i)], rng.randint(0, min(i, 3)))) for i in range(count)}
        text = "tasks:\n" + "".join(f"  {t}: {{run: x, needs: [{', '.join(n)}]}}\n" for t, n in needs.items())
        picture = ws.tasuki("graph", write(ws, text)).expect(0).out
        eq(edges_of_ascii(picture), {(n, t) for t in needs for n in needs[t]}, f"seed {seed}:\n{picture}")


@test("mermaid has a subgraph with fork and join for each group", init=False)
def _(ws):
    out = ws.tasuki("graph", write(ws, SPEC_6), "--format", "mermaid").expect(0).out
    for part in ("flowchart LR", 'subgraph g1["checks (best_effort)"]', "f1{{fork}}", "j1{{join}}", "n0 --> f1", "j1 --> n4"):
        assert part in out, f"{part} is missing in\n{out}"


@test("dot follows the grammar of dot and has a cluster with fork and join for each group, nested as they are", init=False)
def _(ws):
    text = tasks("a >> out(b >> in(c | d) | e) >> f", "a b c d e f")
    out = ws.tasuki("graph", write(ws, text), "--format", "dot").expect(0).out
    read = Dot(out)
    names = {id: given["label"] for id, given in read.nodes.items()}
    eq(sorted(names.values()), sorted(["a", "b", "c", "d", "e", "f", "fork", "fork", "join", "join"]), "nodes")
    clusters = {c["label"].split()[0]: (sorted(names[n] for n in c["nodes"]), c["inside"]) for c in read.clusters.values()}
    outer, = (name for name, c in read.clusters.items() if c["label"].startswith("out"))
    eq(clusters, {"out": (["b", "e", "fork", "join"], None), "in": (["c", "d", "fork", "join"], outer)}, "clusters")
    eq(sorted((names[a], names[b]) for a, b in read.edges),
       sorted([("a", "fork"), ("fork", "b"), ("b", "fork"), ("fork", "c"), ("fork", "d"), ("c", "join"), ("d", "join"),
               ("join", "join"), ("fork", "e"), ("e", "join"), ("join", "f")]), "edges")
    if shutil.which("dot"):
        ws.run(["dot", "-Tsvg"], input=out).expect(0)


@test("the reader of dot in these tests refuses what is not dot", init=False)
def _(_ws):
    for text in ("graph {", "digraph {a -> }", "digraph {a [label=]}", 'digraph "x {}', "digraph {} {}", "digraph {a b c]}",
                 "digraph {node -> a}", 'digraph "a"b" {}', "digraph {a; a;}", "digraph {subgraph {}}"):
        try:
            Dot(text)
        except DotError:
            continue
        raise AssertionError(f"{text} was taken for dot")


@test("svg is well-formed and names every task and group", init=False)
def _(ws):
    out = ws.tasuki("graph", write(ws, SPEC_6), "--format", "svg").expect(0).out
    root = xml.etree.ElementTree.fromstring(out)
    texts = {element.text for element in root.iter() if element.tag.endswith("text")}
    eq(texts, {"fetch", "transform_a", "transform_b", "store", "checks"}, "texts")


@test("svg: each task stands to the right of the one before it, in a picture that is wide enough", init=False)
def _(ws):
    names = ["a", "b", "c", "d"]
    out = ws.tasuki("graph", write(ws, f"flow: {' >> '.join(names)}\ntasks: {{{', '.join(name + ': x' for name in names)}}}\n"), "--format", "svg").expect(0).out
    root = xml.etree.ElementTree.fromstring(out)
    at = {element.text: float(element.get("x")) for element in root.iter() if element.tag.endswith("text")}
    assert sorted(names, key=at.get) == names and len(set(at.values())) == len(names), at
    assert max(at.values()) < float(root.get("width")), (at, root.attrib)


@test("json has nodes, edges, and groups with their branches, in the order of the file", init=False)
def _(ws):
    text = "name: n\nflow: a >> g(b | c >> h(d | e)) >> f\ngroups: {h: {policy: best_effort}}\ntasks: {a: 'true', b: 'true', c: 'true', d: 'true', e: 'true', f: 'true'}\n"
    graph = json.loads(ws.tasuki("graph", write(ws, text), "--format", "json").expect(0).out)
    eq(ws.tasuki("graph", write(ws, text), "--format", "json", "--json").expect(0).json, {"format": "json", "graph": graph}, "--json")
    names = {}

    def shape(scope):
        for node in scope["nodes"]:
            names[node["node"]] = node["name"]
        rows = [(n["name"], n["group"]["policy"], [(b["name"], shape(b)) for b in n["group"]["branches"]]) if "group" in n
                else n["name"] for n in scope["nodes"]]
        return rows, [f"{names[a]}>{names[b]}" for a, b in scope["edges"]]

    inner = ("h", "best_effort", [("d", (["d"], [])), ("e", (["e"], []))])
    group = ("g", "strict", [("b", (["b"], [])), ("c", (["c", inner], ["c>h"]))])
    eq((graph["name"], shape(graph["scope"])), ("n", (["a", group, "f"], ["a>g", "g>f"])), "the graph")
    eq(graph["commands"], dict.fromkeys("abcdef", "true"), "what they execute")


@test("json has the command of each task as a shell takes it, and the beginning of a long one", init=False)
def _(ws):
    text = "tasks: {words: {run: [echo, 'a b', \"it's\"]}, line: 'echo $HOME | cat', long: {run: 'echo " + "é" * 2000 + "'}}\n"
    commands = json.loads(ws.tasuki("graph", write(ws, text), "--format", "json").expect(0).out)["commands"]
    eq((commands["words"], commands["line"]), ("echo 'a b' 'it'\\''s'", "echo $HOME | cat"), "commands")
    assert commands["long"].startswith("echo 'éé") and len(commands["long"].encode()) < 1000, len(commands["long"])


@test("a flow of 100,000 tasks is loaded", init=False)
def _(ws):
    lines = [f"  t{i}: {{run: /bin/true, needs: [t{i - 1}]}}" for i in range(1, 100000)]
    text = "tasks:\n  t0: {run: /bin/true}\n" + "\n".join(lines) + "\n"
    result = ws.tasuki("flow", "validate", write(ws, text), "--json").expect(0).json
    eq((result["tasks"], result["edges"]), (100000, 99999), "tasks and edges")


@test("what is wrong with YAML is said in three languages, with line and column: in flows, requests and config.yaml")
def _(ws):
    catalogues = {lang: json.loads((pathlib.Path(__file__).parents[2] / f"share/messages.v1.{lang}.json").read_text())["texts"] for lang in ("en", "ja", "zh")}
    cases = (("token", "x:\n\ty: 1\n", "2:1"), ("colon", "x:\n  a: x: y\n", "2:7"), ("key", "x:\n  a: x\n b: y\n", "3:2"), ("quote", 'x: "y\n', "1:4"),
             ("brace", "x: {a: y\n", "2:1"), ("alias", "x: *y\n", "1:4"), ("name", "x: *.txt\n", "1:5"), ("anchor", "x: &y {}\n", "1:4"), ("tag", "x: !y z\n", "1:4"),
             ("block", "x: | text\n", "1:6"), ("token", "x: @y\n", "1:4"))
    for key, text, place in cases:
        write(ws, text.replace("x:", "tasks:", 1), "f.yaml")
        write(ws, text, ".aiflow/requests/RQ-1.yaml")
        write(ws, text, ".aiflow/config.yaml")
        for lang, texts in catalogues.items():
            line, column = place.split(":")
            moved = f"1:{int(column) + 4}" if line == "1" else place  # tasks: is longer than x:
            for words, where in ((["flow", "validate", "f.yaml"], moved), (["request", "show", "RQ-1"], place), (["runs", "prune"], place)):
                result = ws.tasuki("--lang", lang, *words)
                assert f":{where}: {texts['yaml_why_' + key]}\n" in result.out + result.err, (key, lang, words, result)
    write(ws, "%FOO bar\n---\nx: 1\n", ".aiflow/config.yaml")
    eq("“found unknown directive name”" in ws.tasuki("--lang", "ja", "runs", "prune").expect(2).err, True, "what has no text of its own")
    write(ws, "max_runs: 1\n\nmax_runs: 2\n", ".aiflow/config.yaml")
    eq("3:1: キー `max_runs` が二重に書かれています。最初は 1 行目です" in ws.tasuki("--lang", "ja", "runs", "prune").expect(2).err, True, "a key twice")


@test("a text runs in the shell of its task, of the flow, or in /bin/sh, wherever the key stands")
def _(ws):
    write(ws, """\
tasks:
  own: {run: "false; echo own went on", shell: sh}
  flows: {run: "false; echo flows went on"}
  list: {run: [sh, -c, "false; echo list went on"]}
  python: {shell: [python3, -I], run: "import sys; print(sys.flags.isolated)"}
  words: {run: exit}
shell: bash -e
""")
    result = ws.tasuki("run", "f.yaml", "--output", "grouped").expect(7)
    for line in ("own went on", "list went on", "    1\n"):
        assert line in result.out, (line, result.out)
    assert "flows went on" not in result.out, result.out
    shown = ws.tasuki("runs", "show", "--json").json
    eq({task["task"]: task["state"] for task in shown["tasks"]},
       {"own": "ok", "flows": "failed", "list": "ok", "python": "ok", "words": "ok"}, "tasks")


@test("a shell that is empty, or that no text would use, is refused")
def _(ws):
    eq(problems(ws, """\
shell: []
tasks:
  a: {run: [echo, a], shell: bash}
  b: {run: echo, shell: " "}
  c: {run: echo, shell: {a: b}}
  d: {agent: x, run: do it, shell: bash}
"""), [(1, 8, "the command is empty"),
       (3, 30, "`shell` is only for a `run` that is a text; this one is a list or an agent's"),
       (4, 25, "the command is empty"), (5, 25, "expected a text here"),
       (6, 36, "`shell` is only for a `run` that is a text; this one is a list or an agent's")], "problems")


@test("a task whose shell was changed is another task when the run is resumed with the flow")
def _(ws):
    write(ws, "flow: a >> b\ntasks: {a: {run: 'echo a; true', shell: sh}, b: {run: test -e ok}}\n")
    ws.tasuki("run", "f.yaml").expect(7)
    write(ws, "flow: a >> b\ntasks: {a: {run: 'echo a; true', shell: bash}, b: {run: test -e ok}}\n")
    (ws.path / "ok").write_text("")
    result = ws.tasuki("resume", "--flow", "f.yaml").expect(0)
    assert "a: started" in result.out, result.out


main(__name__)
