"""The law that programs are held to: compiled by jitlite, with whatever passes, they do what eager Python does.

What a call does is an `Outcome`: result or exception, arguments afterwards, printed text, and which mutable objects are
one and the same. `check(program)` compares the outcomes of eager Python, of the graph without passes, of the graph
after each pass alone and after passes in random order, with the verifier after every pass.
"""

from __future__ import annotations

import contextlib
import copy
import io
import random
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from strategies import Program, compile_source

import jitlite
from jitlite.equality import difference
from jitlite.interpreter import bytecode, vm
from jitlite.ir.parser import parse
from jitlite.ir.verify import verify
from jitlite.passes import registry
from jitlite.source import CompileError

CHANGE_SIGNATURE = ("lower_tuples",)
"""Passes that may change what a graph takes and returns: tuples become their elements. They may also refuse."""

RANDOM_ORDERS = 2
ORDER_LENGTH = 6


class Broken(AssertionError):
    """The law does not hold."""


@dataclass
class Outcome:
    result: Any
    raised: str
    arguments: list[Any]
    printed: str
    sharing: list[int]

    @property
    def told(self) -> tuple[Any, ...]:
        return self.result, self.raised, self.arguments, self.printed, self.sharing


def observe(function: Callable[..., Any], arguments: list[Any]) -> Outcome:
    """Call a function with a copy of the arguments and write down all that it does."""
    arguments = copy.deepcopy(arguments)
    torch.default_generator.manual_seed(1)  # torch.manual_seed takes ten times as long
    printed, result, raised = io.StringIO(), None, ""
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = function(*arguments)
        except Exception as error:
            raised = type(error).__name__
    return Outcome(result, raised, arguments, printed.getvalue(), sharing([result, arguments]))


def sharing(root: Any) -> list[int]:
    """For every mutable object below `root`, in order: the position of the first one that is the same object.

    Tensors are the same where they are one object, or where they show the same memory.
    """
    first: dict[Any, int] = {}
    pattern: list[int] = []
    todo = [root]
    while todo:
        item = todo.pop()
        if isinstance(item, list | dict | torch.Tensor):
            key = ("memory", item.untyped_storage().data_ptr()) if isinstance(item, torch.Tensor) else id(item)
            pattern.append(first.setdefault(key, len(pattern)))
        if isinstance(item, list | tuple):
            todo.extend(item)
        elif isinstance(item, dict):
            todo.extend(item.values())
    return pattern


def run_graph(graph: Any) -> Callable[..., Any]:
    """A function that runs a graph as it is: no passes."""
    code = bytecode.lower(graph.copy())
    return lambda *arguments: vm.run(code, arguments)


def check(program: Program, passes: Iterable[str] | None = None, seed: int = 0) -> None:
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
    names = [name for name in passes or registry.names() if name not in CHANGE_SIGNATURE]
    check_without_tuples(program, expected, graph)
    chance = random.Random(seed)
    orders = [[name] for name in names] + [chance.choices(names, k=ORDER_LENGTH) for _ in range(RANDOM_ORDERS)]
    seen = {text}
    for order in orders:
        optimized = graph.copy()
        run_passes(program, optimized, order, text)
        after = optimized.to_text(ranges=False)
        if after not in seen:
            seen.add(after)
            compare(program, expected, run_graph(optimized), f"after {', '.join(order)}", after)


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


def compare(program: Program, expected: list[Outcome], run: Callable[..., Any], what: str, graph_text: str) -> None:
    for arguments, wanted in zip(program.inputs, expected):
        got = observe(run, arguments)
        found = difference(wanted.told, got.told, "(result, exception, arguments, printed, sharing)")
        if found:
            raise Broken(f"{what}, f{tuple(arguments)}: {found}\n{program}\n{graph_text}")
