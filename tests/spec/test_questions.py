"""Questions are shown where one looks, with the command that answers; `tasuki answer` on a terminal asks them."""

import json
import shlex

from flows import run_flow, with_tool
from harness.harness import eq, main, test
from harness.screen import golden, tasuki_screen

SIZES = [(cols, rows, lang) for cols, rows in ((80, 24), (60, 24), (40, 12)) for lang in ("en", "ja")]
APPROVAL = "tasuki task ask 'Deploy to production?' --type approval"
TEXT = "tasuki task ask 'Which name?'"
ONE = "tasuki task ask 'Which colour?' --option red --option green --option blue"
SEVERAL = ONE + " --type multi_selection"


def ask(ws, command=None, **tasks):
    """A run that asks; returns its id."""
    tasks = tasks or {"ask": command}
    lines = "".join(f"  {name}: {{run: {json.dumps(command + ' > ' + name + '.txt')}}}\n" for name, command in tasks.items())
    return run_flow(ws, f"name: deploy\ntasks:\n{lines}", code=8)["run_id"]


def until_answered(ws, run, name="ask"):
    ws.until(lambda: ws.tasuki("runs", "show", run, "--json").json["status"] == "DONE", "the run ends")
    return (ws.path / f"{name}.txt").read_text().strip()


def answer_screen(ws, *words, **options):
    return tasuki_screen(ws, "answer", *words, env=with_tool(ws), **options)


@test("status shows what runs ask, with the command that answers, which works as it stands")
def _(ws):
    run = ask(ws, APPROVAL)
    out = ws.tasuki("status").expect(0).out
    command, no = [line.split("  ")[-1].strip() for line in out.splitlines() if "tasuki answer" in line]
    eq((command, no), (f"tasuki answer {run} --yes", f"tasuki answer {run} --no"), "both forms")
    assert out.index("Deploy to production?") < out.index("RUN  "), "what asks comes first"
    ws.tasuki(*shlex.split(command)[1:], env=with_tool(ws)).expect(0)
    eq(until_answered(ws, run), "true")
    assert "Deploy" not in ws.tasuki("status").expect(0).out


@test("the end of run shows the question with its options; on a terminal the command is one that asks")
def _(ws):
    (ws.path / "flow.yaml").write_text(f"tasks: {{ask: {json.dumps(ONE)}}}\n")
    screen = tasuki_screen(ws, "run", "flow.yaml", env=with_tool(ws))
    eq(screen.ended(), 8, "exit code")
    text = screen.text()
    assert "ask: Which colour?" in text and "    2. green" in text, text
    line = next(line for line in text.splitlines() if "tasuki answer" in line)
    assert "--choose" not in line, line


@test("answer on a terminal asks an approval until it is y or n")
def _(ws):
    run = ask(ws, APPROVAL)
    screen = answer_screen(ws, run)
    screen.until_text("Deploy to production?", "[y/n]")
    screen.keys("m", "Enter")
    screen.until(lambda text: text.count("[y/n]") == 2, "it asks again")
    screen.keys("n", "Enter")
    eq(screen.ended(), 0, "exit code")
    eq(until_answered(ws, run), "false")


@test("answer on a terminal asks a text: a line, in any script")
def _(ws):
    run = ask(ws, TEXT)
    screen = answer_screen(ws, run)
    screen.until_text("Which name?", "Answer:")
    screen.keys("Enter")
    screen.until(lambda text: text.count("Answer:") == 2, "an empty line is no answer")
    screen.type("日本 $x")
    screen.keys("Enter")
    eq(screen.ended(), 0, "exit code")
    eq(until_answered(ws, run), "日本 $x")


@test("answer on a terminal asks a selection by number, several for a multi_selection")
def _(ws):
    run = ask(ws, ONE)
    screen = answer_screen(ws, run)
    screen.until_text("3. blue", "Number:")
    screen.keys("4", "Enter")
    screen.until(lambda text: text.count("Number:") == 2, "there are only three")
    screen.keys("2", "Enter")
    eq((screen.ended(), until_answered(ws, run)), (0, "green"))
    run = ask(ws, ONE)
    screen = answer_screen(ws, run)
    screen.until_text("3. blue", "Number:")
    for wrong, times in (("gren", 2), ("", 3)):
        screen.type(wrong)
        screen.keys("Enter")
        screen.until(lambda text: text.count("Number:") == times, "it asks again")
        eq(screen.text().count("This question needs one of its options, by text or number: red, green, blue"), times - 1, "with what it needs")
    screen.type("green")
    screen.keys("Enter")
    eq((screen.ended(), until_answered(ws, run)), (0, "green"))
    run = ask(ws, SEVERAL)
    screen = answer_screen(ws, run)
    screen.until_text("Numbers")
    screen.type("4,red")
    screen.keys("Enter")
    screen.until_text("one or more of its options")
    screen.type("3, red")
    screen.keys("Enter")
    eq((screen.ended(), json.loads(until_answered(ws, run))), (0, ["blue", "red"]))


@test("answer alone asks the question that is open, or which of several")
def _(ws):
    run = ask(ws, one=TEXT, two=APPROVAL)
    other = ask(ws, TEXT)
    screen = answer_screen(ws)
    screen.until_text("1. ", "2. ", "3. ", "Which one?")
    number = next(line[0] for line in screen.text().splitlines() if "two (" in line)
    screen.keys(number, "Enter")
    screen.until_text("[y/n]")
    screen.keys("y", "Enter")
    eq(screen.ended(), 0, "exit code")
    ws.until(lambda: len(ws.tasuki("status", "--json").json["questions"]) == 2, "one is answered")
    for words, name, of in (([run], "one", run), ([], "ask", other)):
        screen = answer_screen(ws, *words)
        screen.until_text("Answer:")
        screen.type("x")
        screen.keys("Enter")
        eq((screen.ended(), until_answered(ws, of, name)), (0, "x"), name)
    screen = answer_screen(ws)
    eq(screen.ended(), 5, "exit code without a question")
    screen.until_text("No question is open", "next      tasuki status")
    assert "Check the name" not in screen.text(), screen.text()


@test("Ctrl-D and Ctrl-C answer nothing, and the run still waits")
def _(ws):
    run = ask(ws, TEXT)
    for key, code in (("C-d", 8), ("C-c", 130)):
        screen = answer_screen(ws, run)
        screen.until_text("Answer:")
        screen.keys(key)
        eq(screen.ended(), code, key)
    eq(ws.tasuki("runs", "show", run, "--json").json["status"], "NEEDS_INPUT")


@test("without a terminal answer asks nothing: an answer is required, and without a run it is for the only one that asks")
def _(ws):
    run = ask(ws, TEXT)
    for words in (["answer"], ["answer", run]):
        ws.tasuki(*words, "--json").expect(2, "INVALID_INPUT")
    eq(ws.tasuki("runs", "show", run, "--json").json["status"], "NEEDS_INPUT")


@test("a lone word that names no run is the answer to the only question that is open: a text, an option, its number, yes; on a terminal, too", slow=True)
def _(ws):
    long = "a sentence that is longer than the id of any run, with blanks in it; it is the most natural answer"
    for command, word, expected in ((TEXT, "hello", "hello"), (TEXT, long, long), (TEXT, "42", "42"), (ONE, "green", "green"), (ONE, "2", "green"),
                                    (SEVERAL, "3,1", '["blue","red"]'), (APPROVAL, "yes", "true"), (APPROVAL, "N", "false")):
        run = ask(ws, command)
        ws.tasuki("answer", word, env=with_tool(ws)).expect(0)
        eq(until_answered(ws, run), expected, word)
    run = ask(ws, ONE)
    refused = ws.tasuki("answer", "gren", "--json").expect(2, "INVALID_INPUT").json["error"]
    eq(refused["message"], "This question needs one of its options, by text or number: red, green, blue", "with the options")
    ws.tasuki("answer", "green").expect(0)
    run = ask(ws, TEXT)
    eq((answer_screen(ws, "staging").ended(), until_answered(ws, run)), (0, "staging"))


@test("a word that looks like a run, or is for none or several, answers nothing; the next command is right")
def _(ws):
    assert "No question is open" in ws.tasuki("answer", "hello").expect(5).err
    run = ask(ws, TEXT)
    for word, says in (("1a2b3d", f"tasuki answer {run} 1a2b3d"), ("@9", "tasuki runs list"), ("RUN-nope", "tasuki runs list")):
        refused = ws.tasuki("answer", word).expect(5)
        assert f"There is no run {word}" in refused.err and says in refused.err, refused.err
    ask(ws, TEXT)
    assert "2 runs ask something" in ws.tasuki("answer", "hello").expect(2).err
    eq(len(ws.tasuki("status", "--json").json["questions"]), 2, "still open")


@test("a task that asks is reached: counts says so in JSON, as for people")
def _(ws):
    ask(ws, one=TEXT, two="true")
    counts = ws.tasuki("runs", "show", "--json").json["counts"]
    eq({key: counts[key] for key in ("total", "ok", "asking", "not_reached")}, {"total": 2, "ok": 1, "asking": 1, "not_reached": 0})
    ws.tasuki("runs", "cancel", "@1").expect(0)
    counts = ws.tasuki("runs", "show", "--json").json["counts"]
    eq({key: counts[key] for key in ("total", "ok", "asking", "not_reached")}, {"total": 2, "ok": 1, "asking": 0, "not_reached": 1}, "cancelled")


@test("a question cannot change the screen: its sequences are text")
def _(ws):
    run = ask(ws, "tasuki task ask \"$(printf 'a\\033[31mb\\nc')\" --option \"$(printf 'x\\033]0;t\\007y')\"")
    screen = answer_screen(ws, run)
    text = screen.until_text("Number:")
    assert "\x1b" not in text and "[31m" in text, text
    assert "\x1b" not in ws.tasuki("status").expect(0).out


for cols, rows, lang in SIZES:
    @test(f"the questions of status and answer on a terminal of {cols}x{rows}: {lang}")
    def _(ws, cols=cols, rows=rows, lang=lang):
        ask(ws, ONE)
        screen = tasuki_screen(ws, "status", cols=cols, rows=rows, lang=lang)
        eq(screen.ended(), 0, "exit code")
        golden(ws, "questions-status", screen.text(scrolled=True), cols, rows, lang)
        screen = answer_screen(ws, cols=cols, rows=rows, lang=lang)
        screen.until_text("3. blue")
        screen.until(lambda text: text.rstrip().endswith((":", "：")), "the prompt")
        golden(ws, "answer", screen.text(), cols, rows, lang)


main(__name__)
