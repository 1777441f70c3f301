"""Methods of strings, numbers and sizes that TorchScript lacks: functions of `python_library.py`, bound to a value."""

from __future__ import annotations

import collections
import math

from jitlite.base.errors.calls import WRONG_COUNT
from jitlite.base.source import SourceRange
from jitlite.frontend.emit import python_library as library
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.definition import Scope
from jitlite.frontend.emit.denotations import LibraryFunction
from jitlite.frontend.emit.iterable_library import move_to_end
from jitlite.frontend.emit.named_tuples import BoundFunction
from jitlite.frontend.emit.possibly_set import accesses
from jitlite.frontend.emit.sequences import ListAsTuple
from jitlite.frontend.emit.values import Args, SimpleValue, SugaredValue
from jitlite.ir import types as T
from jitlite.ir.graph import Value

_CLASSES = (T.STRING, str), (T.INT, int), (T.FLOAT, float)


def method_of_plain_value(scope: Scope, value: Value, name: str) -> SugaredValue | None:
    """The method of this name of a string, number or size; None where no function stands for it."""
    told = _told_of_python(scope, value, name) if isinstance(scope, Builder) else None
    if told is not None:
        return told
    if name == "numel" and (is_size(value) or _holds_sizes(value)):
        return _NumberOfElements(scope, value)
    if name == "move_to_end" and isinstance(value.type, T.DictType):
        moves = LibraryFunction(scope, move_to_end, collections.OrderedDict.move_to_end)
        return BoundFunction(moves, value, name)
    original = next((getattr(cls, name, None) for t, cls in _CLASSES if t is value.type), None)
    function = library.library_of(original)
    return None if function is None else BoundFunction(LibraryFunction(scope, function, original), value, name)


def _told_of_python(builder: Builder, value: Value, name: str) -> SugaredValue | None:
    """What an exception was made with, and the name of a class."""
    if name == "args" and value.type is T.EXCEPTION:
        return ListAsTuple(builder.op("python::exception_args", [value]))
    if name == "__name__" and value.node.kind == "prim::PythonType":
        return SimpleValue(builder.op("python::class_name", [value.node.inputs[0]]))
    return None


def is_size(value: Value) -> bool:
    """Is a list a torch.Size to eager Python, for all that can be seen here: the size of a tensor, or a slice of it?"""
    node = value.node
    if not isinstance(value.type, T.ListType):
        return False
    return node.kind == "aten::size" or (node.kind == "aten::slice" and is_size(node.inputs[0]))


def _holds_sizes(value: Value, seen: frozenset[str] = frozenset()) -> bool:
    """Is a value read from a variable that has been given nothing but sizes?"""
    if value.node.kind == "aten::slice":
        return _holds_sizes(value.node.inputs[0], seen)
    name = str(value.node.attributes.get("name"))
    if value.node.kind != "prim::Load":
        return False
    if name in seen:
        return True
    stored = [n.input for n in accesses(value.node.graph.block, name) if n.kind == "prim::Store"]
    return bool(stored) and all(is_size(v) or _holds_sizes(v, seen | {name}) for v in stored)


class _NumberOfElements(BoundFunction):
    """`x.shape.numel`, which is `x.numel` while nothing can have happened to the tensor since its size was asked."""

    def __init__(self, scope: Scope, size: Value) -> None:
        product = library.library_of(math.prod)
        assert product is not None
        super().__init__(LibraryFunction(scope, product, math.prod), size, "numel")

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        asked = self.owner.node
        if args or kwargs:
            raise WRONG_COUNT(f"numel takes no arguments, got {len(args) + len(kwargs)}", range)
        asked = self.owner.node
        if asked.kind == "aten::size" and asked.next is None and asked.block is b.graph.insert_point.block:
            return SimpleValue(b.op("aten::numel", [asked.inputs[0]], range=range))
        return super().call(b, range, args, kwargs)
