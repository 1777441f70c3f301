"""Classes that a text defines.

Each is a Python class made for it, so that everything else sees no difference: the class is what its name denotes, the
objects are instances of it. What scripts know of it comes from the text alone. Types belong to the program the text was
defined in; two programs with classes of one name have nothing in common.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

from jitlite.base.errors.classes import TEXT_CLASS
from jitlite.base.source import SourceRange
from jitlite.frontend.classes.classes import ScriptClass, interface_schema
from jitlite.frontend.emit.annotations import parse_type
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.callables import FunctionValue
from jitlite.frontend.emit.definition import Definition, FunctionCompiler
from jitlite.frontend.emit.objects import InterfaceDefinition
from jitlite.frontend.emit.resolver import Resolver
from jitlite.frontend.emit.values import SugaredValue
from jitlite.frontend.syntax import tree as t
from jitlite.ir.constants import made_enum
from jitlite.ir.graph import Value
from jitlite.ir.types import ClassType, InterfaceType
from jitlite.ir.unit import Function
from jitlite.ir.values import CLASS_TYPE

Defaults = Callable[[t.Def], dict[str, object]]
"""Gives the values of the defaults of a definition's parameters."""
Literal = Callable[[t.Expr], object]
"""Gives the value of an expression in a class body."""


class TextClass(ScriptClass):
    """A class from a text as scripts see it. Its attributes are declared in the body, or assigned by `__init__`."""

    def __init__(self, type: ClassType, program: FunctionCompiler) -> None:
        super().__init__(type, program)
        self.resolver = Resolver()

    def python_method(self, name: str) -> Callable[..., object] | None:
        return None  # all methods are known from the start

    def compile_all(self, names: Callable[[str], object] | None = None) -> None:
        self.complete()
        for method in list(self.type.methods.values()):
            self.program.ready(method)

    def class_attr(self, b: Builder, range: SourceRange, name: str, value: Value | None = None) -> SugaredValue | None:
        method = self.type.methods.get(name)
        if method is None:
            return super().class_attr(b, range, name, value)
        return None if value is not None else FunctionValue(self.program.ready(method, range))

    def _resolver(self) -> Resolver:
        return self.resolver


class TextClasses:
    """The classes of one text, which may refer to each other in any order.

    Args:
        program: who compiles them.
        names: what names mean; the classes are added.
        resolver: looks names up in `names` and elsewhere.
        prefix: what qualified names start with.
    """

    def __init__(
        self, program: FunctionCompiler, names: dict[str, object], resolver: Resolver, defaults: Defaults,
        literal: Literal, prefix: str = "__torch__",
    ) -> None:  # fmt: skip
        self.program = program
        self.names = names
        self.resolver = resolver
        self.defaults = defaults
        self.literal = literal
        self.prefix = prefix
        self.made: dict[str, type] = {}
        self.methods: list[Function] = []
        self._pending: dict[str, t.ClassDef] = {}

    def define(self, definitions: Sequence[t.ClassDef]) -> None:
        """Make the classes. Their methods are declared, not yet compiled.

        Raises:
            CompileError: where a class has a member that its kind does not have.
            NotSupportedError: where a class is of no kind that a text can define.
        """
        kinds = [(definition, self._kind(definition)) for definition in definitions]
        for definition, kind in kinds:  # a type has to exist before another one can name it
            if kind is not _NAMED_TUPLE:
                self._enter(definition, kind.make(self, definition))
        self._pending = {d.name.name: d for d, kind in kinds if kind is _NAMED_TUPLE}
        for definition in definitions:
            self._make_pending(definition.name.name)
        for definition, kind in kinds:
            kind.fill(self, definition)

    def _kind(self, definition: t.ClassDef) -> _ClassKind:
        base = definition.superclass
        name = None if base is None else base.range.text.rpartition(".")[2]
        if name not in _KINDS:
            raise TEXT_CLASS.unsupported(
                f"a class in a text cannot inherit from '{name}'", definition.range,
                hint=f"it may have no base, or be one of {', '.join(k for k in _KINDS if k)}",
            )  # fmt: skip
        return _KINDS[name]

    def _enter(self, definition: t.ClassDef, cls: type) -> None:
        self.names[definition.name.name] = self.made[definition.name.name] = cls

    def _python_class(self, definition: t.ClassDef) -> type:
        return type(definition.name.name, (), {"__module__": self._module})

    @property
    def _module(self) -> str:
        """The module whose classes have the qualified names of this text."""
        return self.prefix.partition(".")[2] or "__main__"

    def _qualified(self, definition: t.ClassDef) -> str:
        return self.program.unique_name(f"{self.prefix}.{definition.name.name}")

    # -- named tuples, which need the types of their fields at once
    def _make_pending(self, name: str) -> None:
        definition = self._pending.pop(name, None)
        if definition is not None:
            self._enter(definition, self._named_tuple(definition))

    def _named_tuple(self, definition: t.ClassDef) -> type:
        fields, defaults = {}, []
        for member in _assigns(definition):
            assert isinstance(member.targets[0], t.Var)
            if member.type is None:
                raise TEXT_CLASS("a field of a named tuple needs a type", member.range)
            fields[member.targets[0].name.name] = parse_type(
                member.type, self._resolve_field, class_types=self.resolver.class_types
            )
            if member.value is not None:
                defaults.append(self.literal(member.value))
            elif defaults:
                raise TEXT_CLASS("a field without default follows one that has a default", member.range)
        make: Any = collections.namedtuple
        made: type = make(definition.name.name, list(fields), defaults=defaults, module=self._module)
        made.__annotations__ = fields
        return made

    def _resolve_field(self, name: str) -> object:
        self._make_pending(name)
        return self.resolver.resolve_type(name)

    def _enum(self, definition: t.ClassDef) -> type:
        members = []
        for member in _assigns(definition):
            assert isinstance(member.targets[0], t.Var)
            if member.value is None:
                raise TEXT_CLASS("a member of an Enum needs a value", member.range)
            members.append((member.targets[0].name.name, self.literal(member.value)))
        try:
            return made_enum(definition.name.name, members, self._module)
        except ValueError as error:
            raise TEXT_CLASS(str(error), definition.range) from None

    # -- interfaces
    def _interface(self, definition: t.ClassDef, *, is_module: bool) -> type:
        cls = self._python_class(definition)
        made = InterfaceType.new(self._qualified(definition), cls, is_module)
        self.program.name_type(made.qualified_name, made)
        made.definition = InterfaceDefinition(made)
        setattr(cls, CLASS_TYPE, made)
        return cls

    def _fill_interface(self, definition: t.ClassDef) -> None:
        made = vars(self.made[definition.name.name])[CLASS_TYPE]
        for method in _methods(definition):
            name = method.name.name
            signature = Definition(name, method, self.resolver, self.defaults(method), self_type=made)
            made.methods[name] = interface_schema(signature)

    # -- classes
    def _class(self, definition: t.ClassDef) -> type:
        cls = self._python_class(definition)
        made = ClassType.new(self._qualified(definition), cls)
        self.program.name_type(made.qualified_name, made)
        setattr(cls, CLASS_TYPE, made)
        TextClass(made, self.program).resolver = self.resolver
        return cls

    def _fill_class(self, definition: t.ClassDef) -> None:
        cls = self.made[definition.name.name]
        made: ClassType = vars(cls)[CLASS_TYPE]
        for member in _assigns(definition):
            assert isinstance(member.targets[0], t.Var)
            name = member.targets[0].name.name
            if member.value is not None:
                setattr(cls, name, self.literal(member.value))
            elif member.type is not None:
                made.attributes[name] = parse_type(
                    member.type, self.resolver.resolve_type, class_types=self.resolver.class_types
                )
        for method in _methods(definition):
            name = method.name.name
            described = Definition(name, method, self.resolver, self.defaults(method))
            self.methods.append(made.definition.add(name, described))


class _ClassKind:
    """What a class is, by its base in the text: how it is made, and what happens when all classes have been made."""

    def __init__(
        self,
        make: Callable[[TextClasses, t.ClassDef], type],
        fill: Callable[[TextClasses, t.ClassDef], None] | None = None,
    ) -> None:
        self.make = make
        self.fill = fill or _only_members


def _only_members(classes: TextClasses, definition: t.ClassDef) -> None:
    for method in _methods(definition):
        raise TEXT_CLASS.unsupported("methods of named tuples and enums aren't supported in a text", method.range)


_NAMED_TUPLE = _ClassKind(TextClasses._named_tuple)
_KINDS: dict[str | None, _ClassKind] = {
    None: _ClassKind(TextClasses._class, TextClasses._fill_class),
    "object": _ClassKind(TextClasses._class, TextClasses._fill_class),
    "NamedTuple": _NAMED_TUPLE,
    "Enum": _ClassKind(TextClasses._enum),
    "Interface": _ClassKind(lambda c, d: c._interface(d, is_module=False), TextClasses._fill_interface),
    "ModuleInterface": _ClassKind(lambda c, d: c._interface(d, is_module=True), TextClasses._fill_interface),
}
"""By what stands in brackets behind the name of the class."""


def _assigns(definition: t.ClassDef) -> list[t.Assign]:
    return [member for member in definition.body if isinstance(member, t.Assign)]


def _methods(definition: t.ClassDef) -> list[t.Def]:
    return [member for member in definition.body if isinstance(member, t.Def)]
