#!/usr/bin/env python3
"""Rules for the C code that no compiler checks: banned functions, the file-system table, sizes, globals."""

import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.harness import main, test  # noqa: E402
from harness.sources import NOISE, ROOT, c_files, code_of, lines_matching, place, read, refuse  # noqa: E402

BANNED = """strcpy stpcpy strcat strncpy strncat sprintf vsprintf strtok atoi atol atoll atof gets
    system popen tmpnam tempnam mktemp alloca gmtime localtime ctime asctime rand srand bsd_signal siglongjmp
    longjmp setjmp""".split()
# The latter would make the static program (not tasuki-worker, which is dynamic) larger by 80 KB and 120 KB (words_split, host_addresses).
BANNED_IN_SRC = """scanf fscanf
    sscanf vsscanf getaddrinfo gethostbyname gethostbyname_r""".split()
# Calls that fault injection must be able to see (src/base/fs.h).
THROUGH_FS = """open openat openat2 creat pread write pwrite ftruncate truncate fdatasync fsync fstat fstatat stat lstat
    fstatfs statfs mkdir mkdirat rmdir unlink unlinkat link linkat rename renameat renameat2 symlink symlinkat
    fopen mkstemp""".split()
# Calls that are not about the workspace's state: (file, call) -> why.
FS_EXCEPTIONS = {
    ("src/base/lockers.c", "fopen"): "reads /proc",
    ("src/lock/wait.c", "write"): "an eventfd",
    ("src/graph/pack.c", "symlinkat"): "the private directory of an attempt on a worker",
    ("src/http/job.c", "write"): "an eventfd",
    ("src/mcp/signals.c", "write"): "an eventfd, in a signal handler",
    ("src/mcp/stdio.c", "write"): "an eventfd",
    ("src/store/db_conn.c", "fstat"): "made for SQLite, whose calls the table does not see either",
    ("src/store/db_conn.c", "ftruncate"): "the same",
    ("src/store/db_conn.c", "pwrite"): "the same",
    ("src/ops/up_follow.c", "write"): "a pipe, also in a signal handler",
    ("src/cli/watch.c", "read"): "an eventfd",
    ("src/cli/watch.c", "write"): "an eventfd",
    ("src/cli/watch_feed.c", "write"): "an eventfd",
    ("src/cli/attach.c", "write"): "the terminal",
}
FILE_LINES_MAX = 600  # as CONTRIBUTING.md says
FUNCTION_LINES_MEDIAN_MAX = 22
MUTABLE_PER_1000_LINES = 0.5
MUTABLE_MIN = 6  # a small tree may have this many whatever its size

# A file-scope object: begins in column 1, is no function, type or constant, and ends as a definition does.
GLOBAL = re.compile(r"^(?!typedef|extern|struct\s+\w+\s*\{|union\s|enum\s|#|return|_Static_assert|\}|__attribute__)"
                    r"(?:static\s+)?(?:_Thread_local\s+)?[A-Za-z_][\w\s*]*?\b(\w+)\s*(?:\[[^\]]*\]\s*)*(?:=|;)",
                    re.MULTILINE)


def call(names):
    """Matches a plain call of one of `names`, not a member's (fs->openat) and not a longer name's."""
    return r"(?<![\w.>])(" + "|".join(names) + r")\s*\("


def mutable_globals(path):
    code = code_of(path)
    return [m for m in GLOBAL.finditer(code) if not re.search(r"\bconst\b(?!.*\*\s*\w+\s*(?:=|;|\[))", m[0])]


def function_lengths(path):
    """Lines between the braces of each function: the style puts both in column 1."""
    lengths, start = [], None
    for number, line in enumerate(read(path).splitlines()):
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            lengths.append(number - start - 1)
            start = None
    return lengths


@test("no banned function is called", init=False)
def _(_ws):
    found = [p for path in c_files() for p in lines_matching(path, call(BANNED))]
    found += [p for path in c_files("src") if path.parent.name != "redis" for p in lines_matching(path, call(BANNED_IN_SRC))]
    refuse(found, "banned functions:")


@test("the check for banned functions sees calls and nothing else", init=False)
def _(_ws):
    pattern = call(BANNED)
    for bad in ("strcpy(a, b)", "x = atoi (s)", "if (!system(s))"):
        assert re.search(pattern, bad), bad
    for good in ("my_system(s)", "table->system(s)", "systems(s)", "int strcpy_count;", "snprintf(b, n, f)"):
        assert not re.search(pattern, good), good
    assert not re.search(pattern, NOISE.sub(" ", '/* strcpy(a) */ "strcpy(a)" // strcpy(a)'))


def numbers_of(path):
    """The names that a file gives to numbers and texts: `#define NAME 3000`, `enum {NAME = 3000}`."""
    text = path.read_text()
    names = re.findall(r'^#define (\w+)[ \t]+(?:[(\d"-]|U?INT64_C)', text, re.M)
    return names + [name for body in re.findall(r"enum \{(.*?)\}", text, re.S)
                    for name in re.findall(r"\b([A-Z][A-Z0-9_]+) = ", body)]


@test("a number has one name and a name one number, so that a reader who searches for it finds it", init=False)
def _(_ws):
    places = {}
    for path in [*ROOT.glob("src/**/*.[ch]")]:
        for name in numbers_of(path):
            places.setdefault(name, set()).add(str(path.relative_to(ROOT)))
    refuse([f"{name}: {', '.join(sorted(files))}" for name, files in sorted(places.items()) if len(files) > 1],
           "names of numbers that stand in several files:")


STATIC = re.compile(r"^static\s(?:__attribute__\(\(.*?\)\)\s)?[^=;{}()]*?\b(?!__attribute__)(\w+)\(", re.MULTILINE)
# The handler of the operation NOUN.VERB is `run_VERB` in src/ops/op_NOUN*.c: the row beside it names the noun (CONTRIBUTING.md).
HANDLER = re.compile(r"run_\w+")


def homes_of_statics(files):
    """Static functions by name: the files that define one."""
    homes = {}
    for path in files:
        is_op = path.parent.name == "ops" and path.name.startswith("op_")
        for name in set(STATIC.findall(code_of(path))):
            if not (is_op and HANDLER.fullmatch(name)):
                homes.setdefault(name, []).append(path.name)
    return homes


@test("a static function has a name of its own: at most two files have one of the same name", init=False)
def _(_ws):
    homes = homes_of_statics(c_files("src"))
    refuse([f"{name}: {', '.join(sorted(files))}" for name, files in sorted(homes.items()) if len(files) > 2],
           "name it after its noun, or share it:")


@test("the check for names of static functions sees definitions, and handlers only where they belong", init=False)
def _(ws):
    (ws.path / "ops").mkdir()
    text = "static __attribute__((cold)) int take(int a)\n{\n}\nstatic const char *\nput(void)\n{\n}\nstatic int run_list(void)\n{\n}\nint x = take(3);\n"
    for name in ("a.c", "ops/op_a.c"):
        (ws.path / name).write_text(text)
    homes = homes_of_statics([ws.path / "a.c", ws.path / "ops/op_a.c"])
    assert homes == {"take": ["a.c", "op_a.c"], "put": ["a.c", "op_a.c"], "run_list": ["a.c"]}, homes


@test("file-system calls go through the table", init=False)
def _(_ws):
    # The holder program links nothing of ours (src/hold/protocol.h); its crash tests kill it from outside.
    files = [path for path in c_files("src") if path != ROOT / "src/base/fs.c" and path.parent != ROOT / "src/hold"]
    problems = [p for path in files for p in lines_matching(path, call(THROUGH_FS))
                if not is_declaration(path, p) and not is_excepted(p)]
    refuse(problems, "calls that fault injection cannot see (use fs->, or add an exception with its reason):")


def is_excepted(problem):
    file, _, name = problem.split(":")
    return (file, name.strip()) in FS_EXCEPTIONS


def is_declaration(path, problem):
    """`int (*close)(...)` does not match the pattern, but a prototype of the same name would."""
    line = read(path).splitlines()[int(problem.split(":")[1]) - 1]
    return re.match(r"(static |extern )?(int|ssize_t|void) \w+\(", line) is not None


@test("an error about a file of the workspace names its whole path: fs_error, not a name that nobody can open", init=False)
def _(_ws):
    bare = re.compile(r'error_errno\([^,]+,\s*"(?:read|write|open|make|create|remove|rename|delete|repair|name)",\s*'
                      r'(name|file|hidden|[A-Z][A-Z_]+|"[^"/]*\.[a-z]+")\)')
    files = [p for folder in ("own", "graph", "run", "ops") for p in c_files(f"src/{folder}")]
    refuse([f"{place(p, read(p), m.start())}: {m[1]}" for p in files for m in bare.finditer(read(p))], "found:")


@test("only the command line and main end the process or write to stdout", init=False)
def _(_ws):
    skins = ("cli", "hold", "http", "mcp", "redis")  # redis is a program of its own
    files = [p for p in c_files("src") if p.relative_to(ROOT / "src").parts[0] not in (*skins, "main.c")]
    refuse([q for p in files for q in lines_matching(p, call(["exit", "printf", "puts", "putchar"]))], "found:")


@test(f"no file of src has more than {FILE_LINES_MAX} lines", init=False)
def _(_ws):
    sizes = [(len(read(path).splitlines()), path.relative_to(ROOT)) for path in c_files("src")]
    refuse([f"{path}: {lines} lines" for lines, path in sizes if lines > FILE_LINES_MAX], "split by noun:")


@test(f"the median function of src has at most {FUNCTION_LINES_MEDIAN_MAX} lines", init=False)
def _(_ws):
    lengths = sorted(n for path in c_files("src") for n in function_lengths(path))
    assert lengths, "no function found"
    median = lengths[len(lengths) // 2]
    assert median <= FUNCTION_LINES_MEDIAN_MAX, f"the median is {median} lines"


@test("mutable variables at file scope stay rare", init=False)
def _(_ws):
    found = [f"{path.relative_to(ROOT)}: {m[1]}" for path in c_files("src") if path.suffix == ".c"
             for m in mutable_globals(path)]
    lines = sum(len(read(path).splitlines()) for path in c_files("src"))
    budget = max(MUTABLE_MIN, int(lines / 1000 * MUTABLE_PER_1000_LINES))
    if len(found) > budget:
        refuse(found, f"{len(found)} mutable variables in {lines} lines, at most {budget}:")


@test("the check for mutable variables tells them from constants and functions", init=False)
def _(ws):
    mutable = "static int count;\nstatic char *name = 0;\nint table[4] = {0};\nstatic const char *current;\n"
    constant = ("static const int limit = 3;\nstatic const char *const names[] = {0};\nint f(void)\n{\n    int x = 0;\n"
                "}\nstatic int g(int a);\nstruct s {\n    int a;\n};\nconst struct t t[2] = {0};\nenum { A = 1 };\n")
    (ws.path / "m.c").write_text(mutable)
    (ws.path / "c.c").write_text(constant)
    assert [m[1] for m in mutable_globals(ws.path / "m.c")] == ["count", "name", "table", "current"]
    assert [m[1] for m in mutable_globals(ws.path / "c.c")] == []


@test("no two files define the same name: of two functions in two archives the linker silently takes one", init=False)
def _(_):
    archives = sorted((pathlib.Path(os.environ.get("TASUKI_BUILD", "build")) / "src").glob("lib*.a"))
    assert archives, "no archives in the build directory"
    names = subprocess.run(["nm", "-A", "--defined-only", *archives], capture_output=True, text=True, check=True).stdout
    homes = {}
    for place, kind, name in (line.rsplit(" ", 2) for line in names.splitlines() if line.count(" ") >= 2):
        if kind in "TDBR":
            homes.setdefault(name, set()).add(place.split(":")[1])
    twice = sorted(f"{name}: {', '.join(sorted(files))}" for name, files in homes.items() if len(files) > 1)
    refuse(twice, "defined twice:")


main(__name__)
