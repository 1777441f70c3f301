"""Containers of modules and parameters: ModuleList, ModuleDict, ParameterList, named_parameters() ... in scripts.

What they hold is known when the program is compiled, so loops over them are unrolled and indices are constants.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jitlite.base.errors.modules import CONTAINER_INDEX, UNNAMED_SUBMODULES
from jitlite.base.source import SourceRange, did_you_mean
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.values import ConstantValue, SimpleValue, SugaredTuple, SugaredValue
from jitlite.ir import types as T
from jitlite.ir.graph import Value, constant_of, is_constant
from jitlite.ir.types import ClassType, InterfaceType, Type


class SugaredDict(SugaredValue):
    """Names and what they denote, in order. A loop over it goes through pairs, as over `items()`."""

    kind = "a container of modules"

    def __init__(self, names: Sequence[str], parts: Sequence[SugaredValue]) -> None:
        self.names = list(names)
        self.values = SugaredTuple(parts)

    @property
    def keys(self) -> SugaredTuple:
        return SugaredTuple([ConstantValue(name) for name in self.names])

    @property
    def pairs(self) -> SugaredTuple:
        together = zip(self.keys.parts, self.values.parts, strict=True)
        return SugaredTuple([SugaredTuple(pair) for pair in together])

    def iterate(self, b: Builder, range: SourceRange) -> SugaredValue:
        return self.pairs

    def as_tuple(self, b: Builder, range: SourceRange, size: int | None = None) -> list[SugaredValue]:
        return self.pairs.as_tuple(b, range, size)

    def as_value(self, b: Builder, range: SourceRange) -> Value:
        return self.pairs.as_value(b, range)

    def length(self, b: Builder, range: SourceRange) -> Value:
        return b.constant(len(self.names), range)

    def element(self, b: Builder, range: SourceRange, index: Value) -> SugaredValue:
        """The part of a constant name or position.

        Raises:
            CompileError: where the index is not constant, or there is no such part.
        """
        found = constant_of(index) if is_constant(index) else None
        if isinstance(found, str):
            if found not in self.names:
                raise CONTAINER_INDEX(f"Key Error, {found}", range, hint=did_you_mean(found, self.names))
            return self.values.parts[self.names.index(found)]
        if isinstance(found, int):
            if not -len(self.names) <= found < len(self.names):
                raise CONTAINER_INDEX(f"Index {found} out of range of a container of {len(self.names)} elements", range)
            return self.values.parts[found]
        raise CONTAINER_INDEX(
            "Unable to extract string literal index. ModuleDict indexing is only supported with string literals."
            if index.type is T.STRING
            else "Expected integer literal for index: a container of modules takes constant indices only",
            range,
            hint="loop over the container, or annotate the result with a module interface: `m: Interface = self.ms[i]`",
        )

    def contains(self, b: Builder, range: SourceRange, key: Value) -> SugaredValue:
        """Is there a part of this name?"""
        if is_constant(key):
            return SimpleValue(b.constant(constant_of(key) in self.names, range))
        names = b.make_list(T.STRING, [b.constant(name, range) for name in self.names])
        return SimpleValue(b.op("aten::__contains__", [names, key], range=range))

    @property
    def static_length(self) -> int | None:
        return len(self.names)


MODULE_VIEWS = frozenset({"named_modules", "modules", "children", "named_children", "named_buffers", "buffers",
                          "named_parameters", "parameters"})  # fmt: skip
"""Methods of modules that give iterators over parts of a module."""


class PartsMethod(SugaredValue):
    """A method of a module that goes through parts of it, waiting for its call."""


def is_module_type(t: Type) -> bool:
    """Is it the type of a submodule?"""
    return isinstance(t, ClassType | InterfaceType) and t.is_module


def get_attribute(b: Builder, range: SourceRange, owner: Value, name: str) -> Value:
    """`owner.name`, for an attribute of the class type of `owner`."""
    assert isinstance(owner.type, ClassType)
    node = b.node("prim::GetAttr", [owner], [owner.type.attributes[name]], range)
    node.attributes["name"] = name
    return node.output


def module_items(b: Builder, range: SourceRange, type: ClassType, value: Value, what: str) -> SugaredDict:
    """The submodules (`what` is "modules") or parameters ("parameters") of a module itself."""
    if what == "modules":
        names = [name for name, t in type.attributes.items() if is_module_type(t)]
    else:
        names = [name for name in type.attributes if name in type.parameters]
    return SugaredDict(names, [SimpleValue(get_attribute(b, range, value, name)) for name in names])


def module_views(b: Builder, range: SourceRange, type: ClassType, value: Value, view: str) -> SugaredValue:
    """What `named_modules()`, `children()`, `named_parameters()` and the like give."""
    if view in ("children", "named_children"):
        found = module_items(b, range, type, value, "modules")
    elif view in ("modules", "named_modules"):
        pairs = list(_walk(b, range, value, ""))
        found = SugaredDict([name for name, _ in pairs], [SimpleValue(v) for _, v in pairs])
    else:
        found = _tensors(b, range, value, "parameters" if view.endswith("parameters") else "buffers")
    return found if view.startswith("named") else found.values


def _walk(b: Builder, range: SourceRange, value: Value, prefix: str) -> Iterator[tuple[str, Value]]:
    yield prefix, value
    if not isinstance(value.type, ClassType):
        raise UNNAMED_SUBMODULES(
            "Could not compile the listing of submodules: one is known by its interface only", range
        )
    for name, t in value.type.attributes.items():
        if is_module_type(t):
            yield from _walk(b, range, get_attribute(b, range, value, name), f"{prefix}.{name}" if prefix else name)


def _tensors(b: Builder, range: SourceRange, value: Value, kind: str) -> SugaredDict:
    names, parts = [], []
    for prefix, module in _walk(b, range, value, ""):
        assert isinstance(module.type, ClassType)
        own = module.type.parameters if kind == "parameters" else module.type.buffers
        for name, t in module.type.attributes.items():
            if name in own and t is not T.NONE:
                names.append(f"{prefix}.{name}" if prefix else name)
                parts.append(SimpleValue(get_attribute(b, range, module, name)))
    return SugaredDict(names, parts)
