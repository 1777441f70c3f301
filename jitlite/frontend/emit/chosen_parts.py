"""`self.layers[name](x)`, where the name is known at run time only and the submodules are of several types: a chain of
ifs, one for each submodule, around what is done with the one that is chosen. So is `getattr(self, f"layer{i}")(x)`, for
the attributes whose names are like that, and one of several functions, `FUNCTIONS[name](x)`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from jitlite.base.errors.calls import KNOWN_WHEN_COMPILED
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.conditions import emit_if_expression
from jitlite.frontend.emit.containers import get_attribute, is_module_type
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.scope import Condition
from jitlite.frontend.emit.values import Args, SimpleValue, SugaredValue
from jitlite.ir import types as T
from jitlite.ir.constants import QualifiedClassName
from jitlite.ir.graph import Value, constant_of, is_constant
from jitlite.operators.overloads import NamedValue

Read = Callable[[SugaredValue], SugaredValue]


class ChosenPart(SugaredValue):
    """One of the parts of a container, or what `read` makes of it. What is done with it gives values of one type.

    Args:
        index: a name, or a position, which may be negative.
        names: the names of the parts.
    """

    kind = "one of several values, known at run time only"

    def __init__(self, index: Value, names: Sequence[str], parts: Sequence[SugaredValue], read: Read | None = None):
        self.index = index
        self.names = list(names)
        self.parts = list(parts)
        self.read: Read = read or (lambda part: part)
        self.is_function = read is None and all(part.is_function for part in parts)

    @property
    def is_symbolic(self) -> bool:
        return self.is_function or all(part.is_symbolic for part in self.parts)

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        return ChosenPart(self.index, self.names, self.parts, lambda part: self.read(part).attr(b, range, name))

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        given = [_evaluated(b, range, a) for a in args]
        named = [_evaluated(b, range, a) for a in kwargs]
        return SimpleValue(self._chosen(b, range, lambda part: part.call(b, range, given, named).as_value(b, range)))

    def as_value(self, b: Builder, range: SourceRange) -> Value:
        return self._chosen(b, range, lambda part: part.as_value(b, range))

    def as_tuple(self, b: Builder, range: SourceRange, size: int | None = None) -> list[SugaredValue]:
        return SimpleValue(self.as_value(b, range)).as_tuple(b, range, size)

    def iterate(self, b: Builder, range: SourceRange) -> SugaredValue:
        return SimpleValue(self.as_value(b, range)).iterate(b, range)

    def element(self, b: Builder, range: SourceRange, index: Value) -> SugaredValue:
        return SimpleValue(self.as_value(b, range)).element(b, range, index)

    def _chosen(self, b: Builder, range: SourceRange, use: Callable[[SugaredValue], Value]) -> Value:
        assert isinstance(b, Emitter)

        def emit(position: int) -> Value:
            def taken() -> Value:
                return use(self.read(self.parts[position]))

            if position == len(self.parts) - 1:
                return taken()
            condition = Condition(self._is(b, range, position))
            return emit_if_expression(b, range, condition, taken, lambda: emit(position + 1))

        return emit(0)

    def _is(self, b: Builder, range: SourceRange, position: int) -> Value:
        """Does the index mean this part?"""
        if self.index.type is T.STRING:
            return b.op("aten::eq", [self.index, b.constant(self.names[position], range)], range=range)
        wanted = (position, position - len(self.parts))
        tests = [b.op("aten::eq", [self.index, b.constant(w, range)], range=range) for w in wanted]
        return b.op("aten::__or__", tests, range=range)


def chosen_part(
    b: Builder,
    range: SourceRange,
    index: Value,
    names: Sequence[str],
    parts: Sequence[SugaredValue],
    owner: str | None = None,
) -> ChosenPart:
    """The part of an index, after a check that there is one: otherwise it raises what Python raises.

    Args:
        owner: the class of which the parts are attributes, where they are not those of a container.
    """
    assert isinstance(b, Emitter)
    cls: type[Exception]
    if index.type is T.STRING:
        known = b.make_list(T.STRING, [b.constant(name, range) for name in names])
        found, cls, message = b.op("aten::__contains__", [known, index], range=range), KeyError, index
        if owner is not None:
            cls, before = AttributeError, b.constant(f"'{owner}' object has no attribute '", range)
            message = b.op("aten::add", [before, index], range=range)
            message = b.op("aten::add", [message, b.constant("'", range)], range=range)
    else:
        least = b.op("aten::ge", [index, b.constant(-len(parts), range)], range=range)
        most = b.op("aten::lt", [index, b.constant(len(parts), range)], range=range)
        found, cls = b.op("aten::__and__", [least, most], range=range), IndexError
        message = b.op("aten::str", [index], range=range)
        message = b.op("aten::add", [b.constant("index ", range), message], range=range)
        message = b.op("aten::add", [message, b.constant(" is out of range", range)], range=range)
    node = b.node("prim::If", [found], [], range)
    node.add_block()
    with b.graph.inserting_at_end(node.add_block()):
        name = b.constant(QualifiedClassName(f"builtins.{cls.__name__}", cls), range, T.STRING)
        b.node("prim::RaiseException", [message, name], [], range)
    return ChosenPart(index, names, parts)


def _evaluated(b: Builder, range: SourceRange, given: NamedValue) -> NamedValue:
    is_known = isinstance(given.constant, SugaredValue)
    return given if is_known else NamedValue(given.name, given.in_graph(b.graph), range=range)


def attribute_by_name(b: Builder, range: SourceRange, owner: SugaredValue, name: Value) -> SugaredValue:
    """`getattr(owner, name)`, for a name that is computed.

    Raises:
        CompileError: where it is known at run time only, and the owner has no submodules or tensors of such names.
    """
    if is_constant(name) and name.type is T.STRING:
        return owner.attr(b, range, str(constant_of(name)))
    t = owner.value.type if isinstance(owner, SimpleValue) else None
    pattern = _pattern(name)
    names = _attributes_like(pattern, t) if isinstance(t, T.ClassType) and t.is_module else []
    if not names or name.type is not T.STRING or not isinstance(owner, SimpleValue) or not isinstance(t, T.ClassType):
        raise KNOWN_WHEN_COMPILED(
            "the name that getattr is given has to be known where the program is compiled, unless it is that of a "
            "submodule",
            range,
            hint="write the name out, or put the modules into a ModuleDict",
        )
    parts = [SimpleValue(get_attribute(b, range, owner.value, n)) for n in names]
    return chosen_part(b, range, name, names, parts, t.python_class.__name__)


def _attributes_like(pattern: str, t: T.ClassType) -> list[str]:
    """The submodules whose names are like that; where there are none, and it says something of names, the tensors."""
    names = [n for n in t.attributes if re.fullmatch(pattern, n)]
    modules = [n for n in names if is_module_type(t.attributes[n])]
    tensors = [n for n in names if T.is_subtype(t.attributes[n], T.TENSOR)]
    return modules or (tensors if pattern != _ANYTHING else [])


_ANYTHING = ".*"


def _pattern(name: Value) -> str:
    """A regular expression for the texts that a value may be: what is written out in an f-string, or added."""
    if is_constant(name) and name.type is T.STRING:
        return re.escape(str(constant_of(name)))
    first = name.node.inputs[0] if name.node.inputs else None
    if name.node.kind == "aten::format" and first is not None and is_constant(first):
        written = re.split(r"\{[^{}]*\}", str(constant_of(first)))
        return _ANYTHING.join(re.escape(part) for part in written)
    if name.node.kind == "aten::add" and name.type is T.STRING:
        return "".join(map(_pattern, name.node.inputs))
    return _ANYTHING
