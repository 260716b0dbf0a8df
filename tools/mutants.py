"""The small changes to C sources that tools/mutate.py tries: where they can be made, and how each is named.

A mutant's key is a hash of its file, function, kind and of the line before and after. It stays the same when lines
above it move. Only text is looked at: a change that does not compile is dropped later.
"""

import hashlib
import random
import re

NOISE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?!define)[^\n]*',
                   re.DOTALL | re.MULTILINE)
CALL_NAME = re.compile(r"(?<![\w.>])((?:\w+(?:->|\.))*\w+)\(")
LONE_CALL = re.compile(r"^[ \t]+(?:\(void\))?(?:\w+(?:->|\.))*(\w+)\(", re.MULTILINE)
LOST = r"(?:fs->(?:fdatasync|fsync|ftruncate|unlinkat|renameat2?|linkat)|fsync|fdatasync|\w*_sync)\("
KEYWORDS = {"if", "while", "for", "switch", "return", "sizeof", "offsetof", "defined", "case", "else", "do", "_cleanup_"}
RELEASE = re.compile(r"(?:^|_)(?:free|decref|release_buf)$")  # a leak of memory: ./dev sanitize finds it
SWAPS = (
    ("off-by-one", re.compile(r" (<|<=|>|>=) "), {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}),
    ("equality", re.compile(r" (==|!=) "), {"==": "!=", "!=": "=="}),
    ("and-or", re.compile(r" (&&|\|\|)(?=\s)"), {"&&": "||", "||": "&&"}),
    ("true-false", re.compile(r"\b(true|false)\b"), {"true": "false", "false": "true"}),
    ("failure-to-success", re.compile(r"\breturn (-1);"), {"-1": "0"}),
)
ONE_DROPPED = re.compile(r"(?<=[\w)\]])( [+-] 1)\b(?!\.)")
# 0 is never a descriptor of ours: the same program.
DESCRIPTOR = re.compile(r".*(?:fd\w*|dir|folder|guard|listener|lock|log|pipe|runners|watch)(?:\[\w+\])? (?:<|>=) 0")
FAILED = re.compile(r"\breturn\b.*-$")  # 0 or below: no caller asks by how much
# Of two equal numbers either one is the smaller.
LESSER = re.compile(r"([\w>.-]+) (?:<|<=|>|>=) ([\w>.-]+) \? (?:\1 : \2|\2 : \1)(?![\w>.-])")
SYMMETRIC = re.compile(r"(?:strn?cmp|strcasecmp|memcmp)$")
MODE = re.compile(r"(?:openat|open)\((?!.*O_CREAT).*O_CLOEXEC, $")  # of a file that is not made
REASON = re.compile(r"\bTSK_([A-Z_]+)\b")
NUMBER = re.compile(r"(?<![\w.\"])(\d+)(?![\w.\"xX])")
ARRAY_SIZE = re.compile(r"\b(?:char|int|\w+_t|struct \w+|long)\s[^=;()]*\[$")
CONDITION = re.compile(r"\b(if|while) \(")


class Mutant:
    def __init__(self, file, text, start, end, new, kind, function):
        self.file, self.kind, self.function = file, kind, function
        self.folder = file.split("/")[1]
        self.start, self.end, self.new = start, end, new
        self.line = text.count("\n", 0, start) + 1
        first = text.rfind("\n", 0, start) + 1
        last = text.find("\n", end)
        self.before = text[first:last]
        self.after = text[first:start] + new + text[end:last]
        self.key = ""

    def name_it(self, seen):
        words = "\0".join((self.file, self.function, self.kind, self.before.strip(), self.after.strip()))
        seen[words] = seen.get(words, 0) + 1
        self.key = hashlib.sha256(f"{words}\0{seen[words]}".encode()).hexdigest()[:10]

    def apply(self, text):
        return text[: self.start] + self.new + text[self.end:]

    def diff(self):
        lines = [f"-{line}" for line in self.before.splitlines()] + [f"+{line}" for line in self.after.splitlines()]
        return "\n".join(lines)


def reason_codes(text):
    """The names in src/base/errors.def."""
    return re.findall(r"^X\((\w+),", text, re.MULTILINE)


def find(file, text, codes):
    """All mutants of one file."""
    code = NOISE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    found = []

    def add(start, end, new, kind, function):
        found.append(Mutant(file, text, start, end, new, kind, function))

    for start, end, function in functions(code):
        for kind, place in inside(code, text, start, end, codes):
            add(*place, kind, function)
    for match in re.finditer(r"^(?:#define \w+ .*|enum \{[^}]*\};)", code, re.MULTILINE):
        for number in NUMBER.finditer(code, *match.span()):
            add(*number.span(1), other_number(number[1], file + number[0] + match[0]), "constant", "")
    seen = {}
    for mutant in found:
        mutant.name_it(seen)
    return found


def functions(code):
    """(start, end, name) of each body: the style has both braces in column 1."""
    start = name = None
    offset = 0
    signature = ""
    for line in code.splitlines(keepends=True):
        if line.rstrip() == "{" and start is None:
            named = re.search(r"(\w+)\(", re.sub(r"__attribute__\(\(.*?\)\)", "", signature))
            start, name = offset + len(line), named[1] if named else "?"
        elif line.startswith("}") and start is not None:
            yield start, offset, name
            start = None
        if start is None:
            signature = signature + line if line.strip() and line[0] not in "}#" else ""
        offset += len(line)


def inside(code, text, start, end, codes):
    """(kind, (start, end, new)) of each mutant of one body."""
    lesser = [match.span() for match in LESSER.finditer(code, start, end)]
    for kind, pattern, swap in SWAPS:
        for match in pattern.finditer(code, start, end):
            if kind == "off-by-one" and any(first <= match.start() < last for first, last in lesser):
                continue
            if not DESCRIPTOR.fullmatch(code, code.rfind("\n", 0, match.start()) + 1, match.end() + 1):
                yield kind, (*match.span(1), swap[match[1]])
    for match in ONE_DROPPED.finditer(code, start, end):
        yield "one-dropped", (*match.span(1), "")
    for match in REASON.finditer(code, start, end):
        if match[1] in codes:
            yield "reason-code", (*match.span(1), other_code(match[1], codes))
    for match in NUMBER.finditer(code, start, end):
        line = code[code.rfind("\n", 0, match.start()) + 1: match.start()]
        new = other_number(match[1], line)
        if not ARRAY_SIZE.search(line) and "_Static_assert" not in line and not is_same_number(line, match[1], new):
            yield "constant", (*match.span(1), new)
    for match in CONDITION.finditer(code, start, end):
        close = closing(code, match.end() - 1, end)
        if close:
            yield "negated", (match.end() - 1, close + 1, f"(!{text[match.end() - 1: close + 1]})")
    for match in re.finditer(LOST, code[start:end]):
        close = closing(code, start + match.end() - 1, end)
        if close:
            yield "lost-sync", (start + match.start(), close + 1, "0")
    yield from calls(code, text, start, end)


def is_same_number(line, old, new):
    """Whether the other number behind this beginning of a line makes the same program."""
    return bool((new == "2" and FAILED.search(line)) or (new == "1" and DESCRIPTOR.fullmatch(line + old)) or
                (old == "0" and MODE.search(line)))


def calls(code, text, start, end):
    for match in LONE_CALL.finditer(code, start, end):
        if match[1] in KEYWORDS or RELEASE.search(match[1]):
            continue
        close = closing(code, match.end() - 1, end)
        if close and code[close + 1: close + 2] == ";" and not (match[1] == "BUG" and "(" not in code[match.end(): close]):
            first = match.start() + len(match[0]) - len(match[0].lstrip())
            yield "call-removed", (first, close + 1, "(void)0")
    for match in CALL_NAME.finditer(code, start, end):
        if match[1].split(">")[-1] in KEYWORDS:
            continue
        spans = arguments(code, match.end() - 1, end)
        close = closing(code, match.end() - 1, end)
        if close and SYMMETRIC.match(match[1]) and re.match(r" [=!]= 0", code[close + 1: end]):
            spans = spans[1:]  # the order of the first two is the same program
        for one, two in zip(spans, spans[1:]):
            words = text[slice(*one)].strip(), text[slice(*two)].strip()
            if words[0] != words[1]:
                first = one[1] - len(text[slice(*one)].lstrip())
                yield "swapped-arguments", (first, two[1], f"{words[1]}, {words[0]}")


def closing(code, open_at, end):
    depth = 0
    for at in range(open_at, end):
        depth += (code[at] in "([{") - (code[at] in ")]}")
        if depth == 0:
            return at
    return None


def arguments(code, open_at, end):
    """The spans of a call's arguments."""
    close = closing(code, open_at, end)
    if close is None:
        return []
    spans, depth, begin = [], 0, open_at + 1
    for at in range(open_at + 1, close + 1):
        depth += (code[at] in "([{") - (code[at] in ")]}")
        if at == close or (code[at] == "," and depth == 0):
            spans.append((begin, at))
            begin = at + 1
    return spans


def other_number(digits, salt):
    number = int(digits)
    if number < 2:
        return str(1 - number) if random.Random(salt).random() < 0.5 else str(number + 1)
    return str(number + 1) if number < 10 or random.Random(salt).random() < 0.5 else str(number * 2)


def other_code(name, codes):
    """A fixed one for each name, so that the key is stable: the tenth after it in the table."""
    return codes[(codes.index(name) + 10) % len(codes)]
