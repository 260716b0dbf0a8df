"""Every input that once taught a fuzz target something is replayed in every build."""

import os
import pathlib

from harness.harness import eq, main, test

FUZZ = pathlib.Path(__file__).resolve().parents[1] / "fuzz"
BUILD = pathlib.Path(os.environ.get("TASUKI_BUILD", "build")).resolve()
TARGETS = sorted(path.name.removesuffix("_fuzz.c") for path in FUZZ.glob("*_fuzz.c"))


@test("every fuzz target has a corpus, and every corpus a target", init=False)
def _(_ws):
    assert len(TARGETS) >= 5, TARGETS
    eq(sorted(path.name for path in (FUZZ / "corpus").iterdir()), TARGETS, "the corpora")


def replay(target):
    @test(f"the corpus of {target} is digested", init=False)
    def _(ws):
        corpus = FUZZ / "corpus" / target
        count = sum(1 for path in corpus.iterdir() if not path.name.startswith("."))
        assert count, f"{corpus} is empty"
        result = ws.run([BUILD / "tests" / "fuzz" / f"{target}_replay", corpus]).expect(0)
        eq(result.out.strip(), f"{corpus}: {count} inputs", "the output")


for name in TARGETS:
    replay(name)

main(__name__)
