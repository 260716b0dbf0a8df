"""A reader of the dot language (https://graphviz.org/doc/info/lang.html) that accepts what its grammar does and nothing else;
HTML labels and ports apart. For tests: graphviz itself brings a dozen libraries."""

import re

WORDS = re.compile(r"""\s*(?:(?://[^\n]*|/\*.*?\*/|\#[^\n]*\n)\s*)*
    (?: (?P<id>[A-Za-z_\200-\377][A-Za-z_0-9\200-\377]*|-?(?:\.\d+|\d+(?:\.\d*)?)) | "(?P<text>(?:[^"\\]|\\.)*)"
      | (?P<sign>->|--|[{}\[\];,=:]) | (?P<end>\Z) )""", re.X | re.S)
KEYWORDS = ("node", "edge", "graph", "digraph", "subgraph", "strict")


class DotError(Exception):
    pass


class Dot:
    """name; nodes: {id: attributes}; edges: [(from, to)]; clusters: {name: {"label": …, "nodes": [ids], "inside": cluster or None}}"""

    def __init__(self, text):
        self.words = list(self.split(text))
        self.nodes, self.edges, self.clusters = {}, [], {}
        self.cluster, self.name = None, ""
        if self.word()[1] != "digraph":
            raise DotError("it does not begin with digraph")
        self.take()
        if self.word()[0] == "id":
            self.name = self.take()[1]
        self.block()
        if self.word()[0] != "end":
            raise DotError(f"something follows the graph: {self.word()}")

    @staticmethod
    def split(text):
        at = 0
        while True:
            found = WORDS.match(text, at)
            if not found:
                raise DotError(f"no word of dot: {text[at:at + 40]!r}")
            at = found.end()
            if found["text"] is not None:
                yield "id", re.sub(r"\\(.)", r"\1", found["text"]), True
            elif found["id"] is not None:
                yield "id", found["id"], False
            else:
                yield ("end", "", False) if found["sign"] is None else ("sign", found["sign"], False)
            if found["sign"] is None and found["id"] is None and found["text"] is None:
                return

    def word(self):
        return self.words[0]

    def is_sign(self, sign):
        return self.word()[:2] == ("sign", sign)

    def take(self, sign=None):
        if sign and not self.is_sign(sign):
            raise DotError(f"{sign} expected, not {self.word()}")
        return self.words.pop(0)

    def take_id(self):
        kind, text, is_quoted = self.take()
        if kind != "id" or (text.lower() in KEYWORDS and not is_quoted):
            raise DotError(f"an id expected, not {text!r}")
        return text

    def attributes(self):
        found = {}
        while self.is_sign("["):
            self.take("[")
            while not self.is_sign("]"):
                key = self.take_id()
                self.take("=")
                found[key] = self.take_id()
                if self.is_sign(",") or self.is_sign(";"):
                    self.take()
            self.take("]")
        return found

    def block(self):
        self.take("{")
        while not self.is_sign("}"):
            self.statement()
            if self.is_sign(";"):
                self.take()
        self.take("}")

    def statement(self):
        kind, text, is_quoted = self.word()
        if kind == "id" and not is_quoted and text == "subgraph":
            self.subgraph()
        elif kind == "id" and not is_quoted and text in ("node", "edge", "graph"):
            self.take()
            self.attributes()
        else:
            self.node_or_edge()

    def subgraph(self):
        self.take()
        outer, name = self.cluster, self.take_id()
        if name in self.clusters:
            raise DotError(f"the cluster {name} stands there twice")
        self.clusters[name] = {"label": None, "nodes": [], "inside": outer}
        self.cluster = name
        self.block()
        self.cluster = outer

    def node_or_edge(self):
        name = self.take_id()
        if self.is_sign("="):
            self.take()
            value = self.take_id()
            if name == "label" and self.cluster:
                self.clusters[self.cluster]["label"] = value
            return
        ends = [name]
        while self.is_sign("->"):
            self.take()
            ends.append(self.take_id())
        given = self.attributes()
        self.edges += zip(ends, ends[1:])
        if len(ends) == 1:
            if name in self.nodes:
                raise DotError(f"the node {name} stands there twice")
            self.nodes[name] = given
            if self.cluster:
                self.clusters[self.cluster]["nodes"].append(name)
