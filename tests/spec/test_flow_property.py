"""Spec 9, 4: random graphs on the engines, compared with a simple reference model. A failing seed is printed and reproduces."""

import random

from harness.harness import eq, main, test

GRAPHS = 20000
GRAPHS_QUICK = 2000


def agree(ws, engine, count):
    seed = random.SystemRandom().randrange(1 << 40)
    result = ws.run([ws.build / "tests/property/graph-property", "--on", engine, "--seed", seed, "--count", count], timeout=600)
    assert result.code == 0, result.err
    assert result.out.startswith(f"{count} graphs"), result.out


for engine, what in (("memory", "memory.h with random schedules, claims given back and repeated completions"),
                     ("pool", "the thread pool")):
    @test(f"{GRAPHS_QUICK} random graphs agree with the reference on {what}", init=False)
    def _(ws, engine=engine):
        agree(ws, engine, GRAPHS_QUICK)

    @test(f"{GRAPHS} random graphs agree with the reference on {what}", init=False, quick=False, deadline=600)
    def _(ws, engine=engine):
        agree(ws, engine, GRAPHS)


@test("the same seed makes the same graphs", init=False)
def _(ws):
    runs = [ws.run([ws.build / "tests/property/graph-property", "--seed", "7", "--count", "50"]).expect(0).out for _ in range(2)]
    eq(runs[0], runs[1], "what is printed")


main(__name__)
