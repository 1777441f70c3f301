"""What the nodes of an FX graph become: types, places in the user's source, constants.

An FX graph passes Python objects around, and says of many nodes in `meta` what they were when it was made: `val`
(below torch.compile and torch.export), or `example_value` (what Dynamo itself makes). Types are read from there; sizes
and strides are not, for a graph may be run with others.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import torch
import torch.fx

from jitlite.base.source import Source, SourceRange
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Value
from jitlite.ir.types import Type

_SIMPLE: tuple[tuple[Any, Type], ...] = (
    (torch.Tensor, T.TENSOR), ((bool, torch.SymBool), T.BOOL), ((int, torch.SymInt), T.INT),
    ((float, torch.SymFloat), T.FLOAT), (complex, T.COMPLEX), (str, T.STRING), (type(None), T.NONE),
    (torch.device, T.DEVICE), ((torch.dtype, torch.layout, torch.memory_format), T.INT), (torch.Generator, T.GENERATOR),
)  # fmt: skip
_ANNOTATIONS: dict[object, Type] = {
    torch.Tensor: T.TENSOR, int: T.INT, float: T.FLOAT, bool: T.BOOL, complex: T.COMPLEX, str: T.STRING,
    "Tensor": T.TENSOR, "torch.Tensor": T.TENSOR, "int": T.INT, "float": T.FLOAT, "bool": T.BOOL,
}  # fmt: skip
"""Annotations, which are text where a module asks for that."""


def type_of_example(example: object) -> Type:
    """The type of a value like this one; Any where graphs have no type for it."""
    for classes, t in _SIMPLE:
        if isinstance(example, classes):
            return t
    if type(example) is tuple:
        return T.TupleType.of([type_of_example(part) for part in example])
    if isinstance(example, list | tuple) and example:
        element = T.unify_all([type_of_example(part) for part in example])
        return T.ANY if element is None else T.ListType.of(element)
    return T.ANY


def known_type(node: torch.fx.Node) -> Type | None:
    """The type that the graph says the node has; None where it says nothing."""
    for key in ("val", "example_value"):
        if key in node.meta:
            return type_of_example(node.meta[key])
    return None


def input_type(node: torch.fx.Node) -> Type:
    """The type of a placeholder: what is known of it, else that of its default, else its annotation, else Tensor."""
    if node.args and node.args[0] is not None and known_type(node) is None:
        return type_of_example(node.args[0])
    return known_type(node) or _ANNOTATIONS.get(node.type, T.TENSOR if node.type in (None, Any) else T.ANY)


# -- places

_FRAME = re.compile(r'File "(?P<file>[^"\n]*)", line (?P<line>\d+)[^\n]*\n(?P<text>[^\n]*)')


class SourceLocations:
    """Where in the user's source the nodes come from: the innermost frame of what `meta` says."""

    def __init__(self) -> None:
        self._ranges: dict[str, SourceRange | None] = {}

    def of(self, node: torch.fx.Node) -> SourceRange | None:
        """The place of a node, None where the graph does not say."""
        trace = node.meta.get("stack_trace")
        if not trace:
            return None
        if trace not in self._ranges:
            self._ranges[trace] = _range_of(trace)
        return self._ranges[trace]


def _range_of(trace: str) -> SourceRange | None:
    start = trace.rfind('File "')
    found = _FRAME.match(trace, start) if start >= 0 else None
    if found is None:
        return None
    text = found["text"].strip()
    source = Source(text, found["file"], int(found["line"]))
    return SourceRange(source, 0, len(text))


# -- constants

_CONSTANTS = (bool, int, float, complex, str, type(None), torch.dtype, torch.layout, torch.memory_format, torch.device)


class Constants:
    """The constants of a graph, each once, at its beginning."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._values: dict[object, Value] = {}

    def of(self, constant: object, t: Type | None = None) -> Value:
        """The value of a Python object that can be a constant.

        Raises:
            TypeError: where it can be none.
        """
        by_text = is_scalar_constant(constant) or isinstance(constant, list)
        key = (type(constant), repr(constant), t) if by_text else (id(constant), t)
        found = self._values.get(key)
        if found is None:
            made = self._graph.create_constant(constant, t)
            made.range = None
            found = self._values[key] = self._graph.block.prepend(made).output
        return found


def is_scalar_constant(argument: object) -> bool:
    """Is it a number, a string, None, or one of torch's small objects?"""
    return type(argument) in _CONSTANTS


def plain(argument: object) -> object:
    """A symbolic number that is a certain number is that number."""
    if isinstance(argument, torch.SymInt | torch.SymFloat | torch.SymBool):
        known = argument.node.maybe_as_int() if isinstance(argument, torch.SymInt) else argument.node.constant
        return argument if known is None else known
    return argument


def name_of(target: object) -> str:
    """What to call a target of a node in reports and graphs."""
    if isinstance(target, str):
        return target
    if isinstance(target, torch._ops.OpOverload | torch._ops.OpOverloadPacket | torch._ops.HigherOrderOperator):
        return str(target)
    name = getattr(target, "__qualname__", None) or getattr(target, "__name__", None) or type(target).__name__
    module = inspect.getmodule(target)
    return name if module is None else f"{module.__name__}.{name}"
