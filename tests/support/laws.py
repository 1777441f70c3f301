"""The law that programs are held to: compiled by jitlite, with whatever passes, they do what eager Python does.

What a call does is an `Outcome`: result or exception, arguments afterwards, printed text, and which mutable objects are
one and the same. `check(program)` compares the outcomes of eager Python, of the graph without passes, of the graph
after passes alone and after passes in random order, with the verifier after every pass; and of the ways in which an
executor runs a function: on each tier, with a plan for each kind of arguments, profiled, and specialized.

How much of that a program meets is a `Measure`. `SOME` takes the same time however many passes there are: the seed of a
program says which passes it meets alone, so that over a thousand programs every pass is met by more than a hundred.
`EVERY` is each pass alone and every way to run, `ALL` twenty orders more.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from region_programs import BACKENDS, form_by_chance, run_by
from strategies import Program, compile_source

import jitlite
from jitlite.base import options
from jitlite.base.records import replace
from jitlite.base.source import CompileError
from jitlite.compiler import program as compiler
from jitlite.debug.equality import difference
from jitlite.debug.outcome import Outcome, observe
from jitlite.executor.executor import Executor
from jitlite.executor.graph_runners import runner_for
from jitlite.executor.plans import Plan
from jitlite.executor.specialize import attempt
from jitlite.interpreter import bytecode, vm
from jitlite.interpreter.guards import tensor_type_of
from jitlite.ir import types as T
from jitlite.ir.parser import parse
from jitlite.ir.verify import verify
from jitlite.passes import registry

CHANGE_SIGNATURE = ("lower_tuples",)
"""Passes that may change what a graph takes and returns: tuples become their elements. They may also refuse."""

ORDER_LENGTH = 6


@dataclass(frozen=True)
class Measure:
    """How much a program is put through.

    Attributes:
        alone: how many passes are run alone; None for all.
        orders: how many random orders of `ORDER_LENGTH` passes.
        all_ways: is the program run in every way that an executor has, or in two of them?
    """

    alone: int | None
    orders: int
    all_ways: bool

    def chosen(self, names: list[str], chance: random.Random) -> list[list[str]]:
        """Lists of passes, each to be run on a copy of the graph."""
        alone = names if self.alone is None else chance.sample(names, min(self.alone, len(names)))
        return [[name] for name in alone] + [chance.choices(names, k=ORDER_LENGTH) for _ in range(self.orders)]


SOME = Measure(8, 2, False)
EVERY = Measure(None, 2, True)
ALL = Measure(None, 20, True)


class Broken(AssertionError):
    """The law does not hold."""


def run_graph(graph: Any) -> Callable[..., Any]:
    """A function that runs a graph as it is: no passes."""
    code = bytecode.lower(graph.copy())
    return lambda *arguments: vm.run(code, arguments)


def pass_names() -> list[str]:
    """The passes that leave alone what a graph takes and returns."""
    return [name for name in registry.names() if name not in CHANGE_SIGNATURE]


def check(program: Program, measure: Measure = SOME, seed: int = 0) -> None:
    """Hold a program to the law.

    Raises:
        Broken: it does something else than in eager Python; the text says after which passes, and shows the graph.
    """
    function = compile_source(program.source)["f"]
    expected = [observe(function, arguments) for arguments in program.inputs]
    scripted = jitlite.script(function)
    graph = scripted.graph
    verify(graph)
    text = graph.to_text(ranges=False)
    if parse(text).to_text(ranges=False) != text:
        raise Broken(f"the text of the graph does not read back:\n{program}\n{text}")
    compare(program, expected, run_graph(graph), "the graph without passes", text)
    compare(program, expected, scripted, "jitlite.script", text)
    if measure.all_ways or seed % 4 == 0:
        check_without_tuples(program, expected, graph)
    check_executors(program, expected, graph, measure, seed)
    check_regions(program, expected, graph, measure, seed)
    seen = {text}
    for order in measure.chosen(pass_names(), random.Random(seed)):
        optimized = graph.copy()
        run_passes(program, optimized, order, text)
        after = optimized.to_text(ranges=False)
        if after not in seen:
            seen.add(after)
            exact = all(map(registry.is_exact, order))
            compare(program, expected, run_graph(optimized), f"after {', '.join(order)}", after, exact)


def check_executors(program: Program, expected: list[Outcome], graph: Any, measure: Measure, seed: int) -> None:
    """Run the program in the ways that an executor may choose."""
    text = graph.to_text(ranges=False)
    general = compiler.optimized(graph)
    one = options.TIERS[seed % 2]
    for tier in options.TIERS if measure.all_ways else (one,):
        with options.override(tier=tier, specialize_after=2, profiled_runs=1):
            executor = Executor(graph, "f", general=Plan(general, runner_for(general, "f")))
            for _ in range(3):  # warm, profiled, specialized if that gains anything
                compare(program, expected, executor.entry, f"executor on {tier}", text)
    with options.override(tier=one):
        if measure.all_ways or seed % 4 < 2:
            check_specialized(program, expected, general)
        if measure.all_ways or seed % 4 >= 2:
            with options.override(executor="legacy"):
                compare(program, expected, Executor(graph, "f").entry, "a plan for each kind of arguments", text)


def check_regions(program: Program, expected: list[Outcome], graph: Any, measure: Measure, seed: int) -> None:
    """Make regions by chance; run them by what they are and by back ends, and put their nodes back."""
    general, chance = compiler.optimized(graph), random.Random(seed)
    before = str(general)

    def lines(text: str) -> tuple[list[str], list[str]]:
        """Constants, wherever they stand, and all else in order."""
        every = text.splitlines()
        constants = [line for line in every if " = prim::Constant" in line]
        return sorted(constants), [line for line in every if line not in constants]

    if not form_by_chance(general, chance):
        return
    verify(general)
    text = general.to_text(ranges=False)
    if parse(text).to_text(ranges=False) != text:
        raise Broken(f"the text of regions does not read back:\n{program}\n{text}")
    backends = ["that is not there", *BACKENDS]
    for backend in backends if measure.all_ways else [backends[seed % 3]]:
        with run_by(backend), options.override(tier=options.TIERS[seed // 3 % 2]):
            compare(program, expected, runner_for(general, "f"), f"regions, a back end {backend}", text)
    passed, order = general.copy(), chance.choices(pass_names(), k=ORDER_LENGTH)
    run_passes(program, passed, order, text)
    exact = all(map(registry.is_exact, order))
    compare(program, expected, run_graph(passed), f"regions, {', '.join(order)}", str(passed), exact)
    registry.run(general, "inline_regions", registry.PassHook(verify=True))
    if lines(str(general)) != lines(before):
        raise Broken(f"inlining regions gives another graph:\n{program}\n{before}\n{text}\n{general}")


def check_specialized(program: Program, expected: list[Outcome], general: Any) -> None:
    """Specialize the program for all that is known of each list of arguments, whether that gains anything or not."""
    seen = set()
    for arguments, wanted in zip(program.inputs, expected):
        types = tuple(map(argument_type, (v.type for v in general.inputs), arguments))
        if types in seen or types == tuple(v.type for v in general.inputs):
            continue
        seen.add(types)
        made = attempt(general, types)
        verify(made.graph)
        got = observe(runner_for(made.graph, "f"), arguments)
        found = difference(wanted.told, got.told, "(result, exception, arguments, printed, sharing)")
        if found:
            raise Broken(f"specialized for {types}, f{tuple(arguments)}: {found}\n{program}\n{made.graph}")


def argument_type(declared: T.Type, value: Any) -> T.Type:
    """All that is known of an argument available."""
    if value is None:
        return T.NONE
    bare = T.without_none(declared)
    return tensor_type_of(value, sizes=True) if isinstance(bare, T.TensorType) else bare


def check_without_tuples(program: Program, expected: list[Outcome], graph: Any) -> None:
    """Let `lower_tuples` take all tuples apart; the graph then takes and returns their elements."""
    lowered = graph.copy()
    try:
        registry.run(lowered, "inline,lower_tuples", registry.PassHook(verify=True))
    except CompileError:
        return  # a list of tuples, say, cannot be without them
    run = run_graph(lowered)

    def flat(value: Any) -> list[Any]:
        return [e for element in value for e in flat(element)] if isinstance(value, tuple) else [value]

    for arguments, wanted in zip(program.inputs, expected):
        got = observe(run, flat(tuple(arguments)))
        told = (flat(got.result), got.raised, got.printed)
        found = difference((flat(wanted.result), wanted.raised, wanted.printed), told, "(results, exception, printed)")
        if found:
            raise Broken(f"after inline, lower_tuples, f{tuple(arguments)}: {found}\n{program}\n{lowered}")


def run_passes(program: Program, graph: Any, names: list[str], before: str) -> None:
    try:
        registry.run(graph, names, registry.PassHook(verify=True))
    except Exception as error:
        raise Broken(f"{', '.join(names)}: {error}\n{program}\n{before}") from error


def compare(
    program: Program,
    expected: list[Outcome],
    run: Callable[..., Any],
    what: str,
    graph_text: str,
    exact: bool = True,
) -> None:
    """Hold a way to run the program to what it is expected to do; if it is not `exact`, numbers may be rounded."""
    for arguments, wanted in zip(program.inputs, expected):
        got = observe(run, arguments)
        if not exact:  # tensors are compared with a tolerance anyway, text cannot be
            wanted, got = replace(wanted, printed=""), replace(got, printed="")
        found = difference(wanted.told, got.told, "(result, exception, arguments, printed, sharing)")
        if found:
            raise Broken(f"{what}, f{tuple(arguments)}: {found}\n{program}\n{graph_text}")
