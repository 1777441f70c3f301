"""Graphs that are handed out whole, so that they need nothing of jitlite where they run.

    graph(%self, %x, %z):                        graph(%x, %z_0, %weight):
      %w = prim::GetAttr[name="weight"](%self)     %y = aten::mm(%x, %weight)
      %n = aten::size(%x, 1)                       return (%y, %z_0)
       = prim::If(%n == 8), else raise      =>
      %a, %b = prim::TupleUnpack(%z)             weights: "weight"
      %y = aten::mm(%x, %w)                      conditions: "x has 8 columns"
      return ({"y": %y, "a": %a})                outputs: "y", "a"

Tuples, lists and dicts become the tensors in them. Checks of arguments, which such a graph cannot make, become
conditions: sentences that say what the graph was made for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field

import torch

from jitlite.base.errors.ways_out import NOT_TRANSLATED
from jitlite.base.records import Record
from jitlite.base.source import NotSupportedError
from jitlite.engines.engine import LARGEST_EMBEDDED, EngineRefusal
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of, is_constant
from jitlite.ir.types import TensorType, Type
from jitlite.passes.example_facts import attribute_of
from jitlite.passes.registry import run
from jitlite.passes.to_core_aten import Unsupported


class WholeGraph(Record, frozen=False):
    """A graph whose inputs and outputs are tensors and numbers.

    Attributes:
        graph: the weights are its last inputs.
        inputs: names of the other inputs, in order.
        outputs: names of the outputs.
        weights: by name, in order.
        conditions: what holds for the arguments that it was made for.
    """

    graph: Graph
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    weights: dict[str, torch.Tensor] = field(default_factory=dict)
    conditions: list[str] = field(default_factory=list)


class UnsupportedOperators(NotSupportedError):
    """Operators of a graph have no translation.

    Attributes:
        unsupported: all of them, by kind and reason.
    """

    def __init__(self, language: str, found: Sequence[Unsupported], first: Node) -> None:
        kinds = ", ".join(dict.fromkeys(u.kind for u in found))
        super().__init__(
            f"there is no translation to {language} of {kinds}",
            first.range,
            notes=[str(u) for u in found],
            hint="jitlite.optimize(model, inputs, engine=...) runs the rest by an engine, and these as they are",
        )
        self.unsupported = tuple(found)
        self.code = NOT_TRANSLATED.code


def refused(language: str, why: EngineRefusal) -> NotSupportedError:
    """Why a model cannot be written in a language, for its author."""
    return NOT_TRANSLATED(f"the model cannot be written as {language}: {why}")


def check_supported(graph: Graph, language: str, why_not: Callable[[Node], str | None]) -> None:
    """See that every node has a translation.

    Raises:
        UnsupportedOperators: some have not; it lists all.
    """
    left: dict[tuple[str, str], list[Node]] = {}
    for node, reason in _unsupported(graph.block, why_not):
        left.setdefault((node.kind, reason), []).append(node)
    if left:
        found = [Unsupported(kind, reason, len(nodes), _places(nodes)) for (kind, reason), nodes in left.items()]
        raise UnsupportedOperators(language, found, next(iter(left.values()))[0])


def _unsupported(block: Block, why_not: Callable[[Node], str | None]) -> Iterator[tuple[Node, str]]:
    """The nodes that have no translation, and why; of a branch or loop those within it that are at fault."""
    for node in block.computations:
        reason = why_not(node)
        if reason is not None:
            inside = [found for inner in node.blocks for found in _unsupported(inner, why_not)]
            yield from inside or [(node, reason)]


def _places(nodes: Sequence[Node]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(node.range.location() for node in nodes if node.range is not None))


def whole_graph(
    graph: Graph, owner: torch.nn.Module | None, names: Sequence[str], types: Sequence[Type | None]
) -> WholeGraph:
    """Make a graph one that is handed out.

    Args:
        graph: changed in place.
        owner: the module that the first input is, if it is one.
        names: of the arguments.
        types: of the arguments that are tensors, with the sizes that do not vary.

    Raises:
        EngineRefusal: a result is no tensor and no number, or an attribute is neither.
    """
    made = WholeGraph(graph)
    constants = [] if owner is None else _read_attributes(graph, owner)
    made.conditions += _drop_checks(graph)
    results = _flatten_outputs(graph)
    run(graph, "dce")
    if owner is not None:
        graph.block.erase_input(0)
    for value, name, t in zip(list(graph.inputs), names, types, strict=True):
        value.type = t or value.type
        made.inputs += _flatten_input(graph, value, name)
    for name in results:
        made.outputs.append(_unused(name, {*made.inputs, *made.outputs}))
    _take_out_weights(made, constants)
    return made


# -- weights


def _read_attributes(graph: Graph, owner: torch.nn.Module) -> list[tuple[Value, str]]:
    """Put constants in place of attributes; gives those that are tensors, with their names."""
    found = []
    module = graph.inputs[0]
    for node in [n for n in graph.all_nodes() if n.kind == "prim::GetAttr"]:
        value = attribute_of(node, module, owner)
        if isinstance(value, torch.nn.Module):
            continue
        if not isinstance(value, torch.Tensor | bool | int | float | str | None):
            raise EngineRefusal(f"the attribute {_path(node, module)} is no tensor and no number")
        with graph.inserting_before(node):
            constant = graph.insert_constant(value)
        if isinstance(value, torch.Tensor):
            constant.type = node.output.type
            found.append((constant, _path(node, module)))
        node.output.replace_all_uses_with(constant)
    return found


def _path(node: Node, module: Value) -> str:
    name = str(node.attributes["name"])
    return name if node.input is module else f"{_path(node.input.node, module)}.{name}"


def _take_out_weights(made: WholeGraph, named: Sequence[tuple[Value, str]]) -> None:
    """Let larger constants, and attributes, be inputs; those that are one tensor are one input."""
    names = dict(named)
    known: dict[int, Value] = {}
    for node in [n for n in made.graph.all_nodes() if n.kind == "prim::Constant"]:
        tensor = constant_of(node.output)
        if not isinstance(tensor, torch.Tensor):
            continue
        is_result = any(use.user.kind == "prim::Return" for use in node.output.uses)
        if node.output not in names and not is_result and tensor.numel() <= LARGEST_EMBEDDED:
            continue
        if id(tensor) not in known:
            name = _unused(names.get(node.output, "constant"), {*made.weights, *made.inputs})
            made.weights[name] = tensor
            known[id(tensor)] = made.graph.add_input(TensorType.from_tensor(tensor))
        node.output.replace_all_uses_with(known[id(tensor)])
        node.destroy()


def _unused(name: str, taken: set[str]) -> str:
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


# -- checks


def _drop_checks(graph: Graph) -> list[str]:
    """Remove the nodes that raise unless the arguments are of some kind; gives what they would say."""
    conditions = []
    for node in [n for n in graph.nodes if n.kind == "prim::If" and not n.outputs]:
        message = _raised_by(node)
        if message is not None and _is_about_arguments(node.input):
            conditions.append(message)
            condition = node.input.node
            node.destroy()
            _drop_unused(condition)
    return conditions


def _drop_unused(node: Node) -> None:
    """Remove what has computed a condition, and nothing else uses."""
    if not _is_given(node) and not any(value.has_uses for value in node.outputs):
        makers = [value.node for value in node.inputs]
        node.destroy()
        for maker in dict.fromkeys(makers):
            _drop_unused(maker)


def _is_given(node: Node) -> bool:
    return node.kind in ("prim::Param", "prim::TupleUnpack", "prim::Constant")


def _raised_by(node: Node) -> str | None:
    """The message of a branch that does nothing but raise, where the other does nothing."""
    effects = [list(block.computations) for block in node.blocks]
    raised = [nodes for nodes in effects if nodes]
    if len(raised) != 1 or [n.kind for n in raised[0]] != ["prim::RaiseException"]:
        return None
    message = raised[0][0].inputs[0]
    return str(constant_of(message)) if is_constant(message) else None


def _is_about_arguments(condition: Value) -> bool:
    """Does it depend on sizes, dtypes and numbers that are given, and on no element of a tensor?"""
    waiting, seen = [condition], set[Value]()
    while waiting:
        value = waiting.pop()
        if value in seen or _is_given(value.node):
            continue
        if isinstance(value.type, TensorType) or value.node.blocks:
            return False
        seen.add(value)
        waiting += value.node.inputs
    return True


# -- inputs and outputs


def _flatten_input(graph: Graph, value: Value, name: str) -> Iterator[str]:
    """Put inputs for the parts of a tuple in its place; drop what is no tensor and not used. Gives the names."""
    position = graph.inputs.index(value)
    if isinstance(value.type, T.TupleType):
        parts = value.type.elements
        values = [graph.block.insert_input(position + 1 + i, t) for i, t in enumerate(parts)]
        for use in list(value.uses):
            if use.user.kind != "prim::TupleUnpack":
                raise EngineRefusal(f"the tuple {name} is not taken apart where it is used")
            for old, new in zip(use.user.outputs, values, strict=True):
                if not (isinstance(new.type, TensorType) and new.type.sizes is not None):
                    new.type = old.type
                old.replace_all_uses_with(new)
            use.user.destroy()
        graph.block.erase_input(position)
        for i, part in enumerate(values):
            yield from _flatten_input(graph, part, f"{name}_{i}")
    elif isinstance(value.type, TensorType) or value.has_uses:
        yield name
    else:
        graph.block.erase_input(position)


def _flatten_outputs(graph: Graph) -> list[str]:
    """Return the tensors and numbers that are in tuples, lists and dicts, in order. Gives the names."""
    found = [part for value in graph.outputs for part in _parts(value, "")]
    if not found:
        raise EngineRefusal("it gives no tensor and no number")
    for i in reversed(range(len(graph.outputs))):
        graph.block.erase_output(i)
    for value, _ in found:
        graph.add_output(value)
    return [name or "output" for _, name in found]


def _parts(value: Value, name: str) -> Iterator[tuple[Value, str]]:
    kind = value.node.kind
    if kind in ("prim::TupleConstruct", "prim::ListConstruct"):
        for i, part in enumerate(value.node.inputs):
            yield from _parts(part, f"{name or 'output'}_{i}")
    elif kind == "prim::DictConstruct":
        inputs = value.node.inputs
        for key, part in zip(inputs[::2], inputs[1::2], strict=True):
            text = str(constant_of(key)) if is_constant(key) else "output"
            yield from _parts(part, f"{name}_{text}" if name else text)
    elif is_constant(value) and constant_of(value) is None:
        return
    elif isinstance(value.type, TensorType) or value.type in (T.INT, T.FLOAT, T.BOOL):
        yield value, name
    else:
        raise EngineRefusal(f"a result of type {value.type} is no tensor and no number")
