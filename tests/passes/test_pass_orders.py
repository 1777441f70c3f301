"""Each pass alone, and passes in random orders, on more than five hundred generated and real graphs.

Results, exceptions, printed text, what arguments and modules hold afterwards, which objects are one, and gradients stay
as they are; the graph is well formed after every pass. `make test` takes a few graphs, each with some passes; the slow
tests take half of all graphs, each with some passes; `make passes` takes all graphs with each pass and twenty orders,
which takes about an hour on two cores.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import islice

import pytest
from laws import ALL, Broken, Measure, pass_names, run_graph
from specimens import Maker, Specimen, all_specimens, gradient_programs, programs, torch_modules

from jitlite.passes import registry

SLICES = 8
"""Parts of the list of graphs, so that several workers share it."""

FEW = Measure(4, 1, False)


def check(specimen: Specimen, measure: Measure, seed: int) -> None:
    """Hold a graph to the law.

    Raises:
        Broken: it does something else after some passes.
    """
    graph = specimen.graph
    expected = specimen.look(run_graph(graph))
    seen = {graph.to_text(ranges=False)}
    for order in measure.chosen(pass_names(), random.Random(seed)):
        changed = graph.copy()
        try:
            registry.run(changed, order, registry.PassHook(verify=True))
        except Exception as error:
            raise Broken(f"{specimen.name}, {', '.join(order)}: {error}\n{graph}") from error
        text = changed.to_text(ranges=False)
        if text in seen:
            continue
        seen.add(text)
        exact = all(map(registry.is_exact, order))
        found = specimen.difference(expected, specimen.look(run_graph(changed)), exact)
        if found:
            raise Broken(f"{specimen.name}, after {', '.join(order)}: {found}\n{graph}\n{changed}")


def check_all(makers: Iterable[Maker], measure: Measure) -> int:
    """Hold all that are made to the law; how many these are. What fails is told at the end, all of it."""
    number, failures = 0, []
    for make in makers:
        specimen = make()
        if specimen is None:
            continue
        number += 1
        try:
            check(specimen, measure, number)
        except Broken as error:
            failures.append(str(error))
    assert not failures, f"{len(failures)} failures, the first one:\n{failures[0]}\n\n" + "\n".join(
        failure.partition("\n")[0] for failure in failures
    )
    return number


def test_a_few_graphs():
    assert check_all([*programs(2), *gradient_programs(12), *islice(torch_modules(), 0, 120, 8)], FEW) > 30


@pytest.mark.slow
@pytest.mark.parametrize("number", range(0, SLICES, 2))
def test_many_graphs_and_some_passes(number):
    assert check_all(islice(all_specimens(), number, None, SLICES), FEW) * SLICES > 500


@pytest.mark.sweep
@pytest.mark.parametrize("number", range(SLICES))
def test_all_graphs_and_all_passes(number):
    assert check_all(islice(all_specimens(), number, None, SLICES), ALL) * SLICES > 500
