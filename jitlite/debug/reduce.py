"""Making a graph small that shows a fault, while it still shows it (delta debugging).

A step makes a smaller candidate; it is kept if it is well formed and the fault is still there. Steps are, from coarse
to fine: leave away what comes after some point; start at some point, with the values computed before it as arguments;
drop nodes, many at once and then fewer, their users taking an input of the node or the value that it had when the graph
ran; put one block of an If, a loop or a try in its place; drop outputs and unused inputs.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jitlite.base.records import Record
from jitlite.base.source import CompileError
from jitlite.debug.outcome import copied, observe
from jitlite.interpreter import vm
from jitlite.interpreter.bytecode import lower
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value, is_constant
from jitlite.ir.structure import Loop
from jitlite.ir.values import UNINITIALIZED
from jitlite.ir.verify import VerifyError, verify

SMALL_ENOUGH = 3
"""Nodes, constants not counted, below which no more steps are tried."""


class Reproducer(Record, eq=True):
    """A graph and an argument for each of its inputs."""

    graph: Graph
    arguments: tuple[Any, ...]

    @property
    def size(self) -> int:
        """How many nodes there are, constants not counted."""
        return sum(node.kind != "prim::Constant" for node in self.graph.all_nodes())

    @property
    def bulk(self) -> int:
        """What every step must make smaller: nodes, inputs and outputs."""
        return 3 * self.size + len(self.graph.inputs) + len(self.graph.outputs)


HasFault = Callable[[Reproducer], bool]


def reduce(reproducer: Reproducer, has_fault: HasFault, *, seconds: float = 30.0) -> Reproducer:
    """The smallest reproducer found that still has the fault.

    Args:
        reproducer: one that has the fault. It is not changed.
        has_fault: must not change what it is given.
        seconds: after which the smallest so far is given.
    """
    end = time.monotonic() + seconds

    def is_better(candidate: Reproducer, than: Reproducer) -> bool:
        return candidate.bulk < than.bulk and _is_valid(candidate.graph) and has_fault(candidate)

    progress = True
    while progress and reproducer.size > SMALL_ENOUGH and time.monotonic() < end:
        progress = False
        for steps in (_tails, _heads, _without_chunks, _with_one_block, _without_outputs):
            found = True
            while found and time.monotonic() < end:
                found = False
                for candidate in steps(reproducer):
                    if time.monotonic() > end:
                        break
                    if is_better(candidate, reproducer):
                        reproducer, found, progress = candidate, True, True
                        break
    return reproducer


def _is_valid(graph: Graph) -> bool:
    try:
        verify(graph)
    except VerifyError:
        return False
    return True


# -- values at run time


def _values(reproducer: Reproducer) -> dict[Value, Any]:
    """What the values were when the graph ran, the last time for those computed several times."""
    copy, copies = reproducer.graph.copy_with_map()
    seen: dict[Value, object] = {}

    def recorder(value: Value) -> Callable[[Any], None]:
        def record(found: object) -> None:
            if found is not UNINITIALIZED:
                seen[value] = copied(found)

        return record

    for value, twin in list(copies.items()):
        if is_constant(value) or twin.node.block is None:
            continue
        node = copy.create("prim::profile", (), (twin.type,), {"record": recorder(value)})
        twin.replace_all_uses_with(node.output)
        node.add_input(twin)
        node.insert_after(twin.node)
    try:
        code = lower(copy)
    except CompileError:
        return seen
    observe(lambda *arguments: vm.run(code, arguments, step_limit=200_000), reproducer.arguments)
    return seen


# -- steps


def _cuts(reproducer: Reproducer) -> list[int]:
    """Places to cut the top block at: halves first, then quarters, ..."""
    count = sum(1 for _ in reproducer.graph.nodes)
    places: list[int] = []
    step = count
    while step > 1:
        step = (step + 1) // 2
        places += [p for p in range(step, count, step) if p not in places]
        if len(places) > 64:
            break
    return places


def _tails(reproducer: Reproducer) -> Iterator[Reproducer]:
    """Without what comes after a cut: values that were read there are results."""
    for cut in sorted(_cuts(reproducer)):
        graph = reproducer.graph.copy()
        nodes = list(graph.nodes)
        kept = set(nodes[:cut])
        needed = [v for n in nodes[:cut] for v in n.outputs if _is_read_outside(v, kept) and not is_constant(v)]
        for index in reversed(range(len(graph.outputs))):
            graph.block.erase_output(index)
        for node in reversed(nodes[cut:]):
            node.destroy()
        for value in needed:
            graph.add_output(value)
        yield _tidy(graph, reproducer.arguments)


def _is_read_outside(value: Value, kept: set[Node]) -> bool:
    return any(_top(use.user) not in kept for use in value.uses)


def _top(node: Node) -> Node:
    while node.block is not None and node.block.owner is not None:
        node = node.block.owner
    return node


def _heads(reproducer: Reproducer) -> Iterator[Reproducer]:
    """Without what comes before a cut: values that were computed there are arguments."""
    values = _values(reproducer)
    for cut in sorted(_cuts(reproducer), reverse=True):
        graph, copies = reproducer.graph.copy_with_map()
        seen = {copies[v]: found for v, found in values.items() if v in copies}
        nodes = list(graph.nodes)
        gone = [n for n in nodes[:cut] if n.kind != "prim::Constant"]
        arguments = list(reproducer.arguments)
        if all(_become_inputs(graph, node, seen, arguments) for node in reversed(gone)):
            yield _tidy(graph, arguments)


def _become_inputs(graph: Graph, node: Node, seen: dict[Value, object], arguments: list[object]) -> bool:
    """Drop a node; its outputs become inputs of the graph. False where it is not known what they are."""
    for output in node.outputs:
        if output.has_uses:
            if output not in seen:
                return False
            output.replace_all_uses_with(graph.add_input(output.type))
            arguments.append(seen[output])
    node.destroy()
    return True


def _without_chunks(reproducer: Reproducer) -> Iterator[Reproducer]:
    """Without some nodes, more at first; users take an input of theirs, or the value at run time."""
    count = sum(1 for _ in reproducer.graph.all_nodes())
    values = _values(reproducer)
    chunk = max(count // 2, 1)
    while True:
        for start in range(count - chunk, -chunk, -chunk):
            for inputs_first in (True, False):
                made = _without(reproducer, max(start, 0), start + chunk, values, inputs_first)
                if made is not None:
                    yield made
        if chunk == 1:
            return
        chunk = (chunk + 1) // 2


def _put_inputs_for_outputs(node: Node) -> None:
    """Use inputs of a node for its outputs, where the types fit."""
    for output in node.outputs:
        fitting = next((v for v in node.inputs if T.is_subtype(v.type, output.type)), None)
        if output.has_uses and fitting is not None:
            output.replace_all_uses_with(fitting)


def _without(
    reproducer: Reproducer, start: int, stop: int, values: dict[Value, object], inputs_first: bool
) -> Reproducer | None:
    graph, copies = reproducer.graph.copy_with_map()
    seen = {copies[v]: found for v, found in values.items() if v in copies}
    nodes = [n for n in itertools.islice(graph.all_nodes(), start, stop) if n.kind != "prim::Constant"]
    arguments = list(reproducer.arguments)
    for node in reversed(nodes):
        if inputs_first:
            _put_inputs_for_outputs(node)
        if not _become_inputs(graph, node, seen, arguments):
            return None
    return _tidy(graph, arguments) if nodes else None


def _with_one_block(reproducer: Reproducer) -> Iterator[Reproducer]:
    """With a block of a control flow node in place of the node."""
    count = sum(1 for _ in reproducer.graph.all_nodes())
    for index in range(count):
        for block in range(2):
            graph = reproducer.graph.copy()
            node = next(itertools.islice(graph.all_nodes(), index, None))
            arguments = list(reproducer.arguments)
            if block < len(node.blocks) and _put_block_in_place(graph, node, block, arguments):
                yield _tidy(graph, arguments)


def _put_block_in_place(graph: Graph, node: Node, index: int, arguments: list[object]) -> bool:
    block = node.blocks[index]
    loop = Loop(node) if node.kind == "prim::Loop" else None
    if loop is not None:
        starts = [graph.add_input(T.INT), *loop.starts]
        arguments.append(0)
        for parameter, start in zip(block.inputs, starts, strict=True):
            parameter.replace_all_uses_with(start)
    elif block.inputs:
        return False
    results = list(block.outputs if loop is None else loop.followings)
    for inner in list(block.nodes):
        inner.move_before(node)
    for output, value in zip(node.outputs, results, strict=True):
        output.replace_all_uses_with(value)
    node.destroy()
    return True


def _without_outputs(reproducer: Reproducer) -> Iterator[Reproducer]:
    """With fewer results."""
    for index in reversed(range(len(reproducer.graph.outputs))):
        graph = reproducer.graph.copy()
        graph.block.erase_output(index)
        yield _tidy(graph, reproducer.arguments)


def _tidy(graph: Graph, arguments: Sequence[object]) -> Reproducer:
    """Without constants and inputs that nobody reads."""
    for node in list(graph.all_nodes()):
        if node.kind == "prim::Constant" and not node.output.has_uses:
            node.destroy()
    kept = [i for i, value in enumerate(graph.inputs) if value.has_uses]
    for index in reversed(range(len(graph.inputs))):
        if index not in kept:
            graph.block.erase_input(index)
    return Reproducer(graph, tuple(arguments[i] for i in kept))
