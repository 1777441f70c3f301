"""Sources of an archive -> types and functions, each when it is first named.

The class `__torch__.a.b.C` stands in `code/__torch__/a/b.py`. What its kind is, its base says. Classes become types
with Python classes made for them, so that everything else sees no difference; nothing of the archive is run.
"""

from __future__ import annotations

import ast
import collections
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch

from jitlite.archive.errors import ArchiveError
from jitlite.base.errors.ways_out import BAD_ARCHIVE
from jitlite.base.source import CompileError, SourceRange
from jitlite.codegen.torchscript.context_classes import loaded_context
from jitlite.executor.engine import ENGINE
from jitlite.frontend.classes.classes import interface_schema
from jitlite.frontend.classes.modules import ModuleDefinition, overloads_by_name
from jitlite.frontend.classes.text_classes import TextClass
from jitlite.frontend.emit.annotations import parse_type, type_from_python
from jitlite.frontend.emit.callables import FunctionValue, NamedTupleConstructor
from jitlite.frontend.emit.definition import Definition
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.enum_members import EnumClass
from jitlite.frontend.emit.objects import InterfaceDefinition
from jitlite.frontend.emit.values import SugaredValue
from jitlite.frontend.syntax import tree as t
from jitlite.ir import types as T
from jitlite.ir.code_text import is_dunder
from jitlite.ir.constants import enum_type, made_enum
from jitlite.ir.graph import Value, constant_of, is_constant
from jitlite.ir.types import ClassType, EnumType, InterfaceType, TupleType, Type
from jitlite.ir.unit import Function
from jitlite.ir.values import CLASS_TYPE, type_of_value
from jitlite.loading.archive_names import (
    ArchivedClass,
    ArchivedConstants,
    ArchiveResolver,
    OperatorNamespace,
    OperatorNamespaces,
    Permissions,
    QualifiedName,
)
from jitlite.loading.archive_program import ArchiveProgram
from jitlite.loading.attribute_names import may_be_attribute, may_be_method, may_python_call
from jitlite.loading.source_text import CodeFile
from jitlite.loading.unset import UnsetObject
from jitlite.loading.upgraders import upgraded
from jitlite.objects.text import let_python_call, literal_value

CUSTOM = "__torch__.torch.classes."
"""What the names of classes begin with that libraries define in C++."""
_MANGLE = re.compile(r"\.___torch_mangle_\d+")
_LISTS = ("__parameters__", "__buffers__", "__forward_pre_hooks__", "__forward_hooks__")
_BUILT_IN = {
    f"__torch__.torch.nn.modules.container.{cls.__name__}": cls
    for cls in (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict)
}
"""Containers, which stay containers of submodules to Python."""
_PACKED = {
    "linear.LinearPackedParams": "LinearPackedParamsBase", "linear.Linear": "LinearPackedParamsBase",
    "conv.Conv2d": "Conv2dPackedParamsBase", "conv.Conv3d": "Conv3dPackedParamsBase",
    "conv_relu.ConvReLU2d": "Conv2dPackedParamsBase", "conv_relu.ConvReLU3d": "Conv3dPackedParamsBase",
}  # fmt: skip
"""Quantized modules whose packed parameters the first versions took for a Tensor, and the class that it is."""


class ArchivedObject(TextClass):
    """A class of an archive as scripts see it: it has the attributes and methods that stand in the archive."""

    def complete(self) -> None:
        pass


class ArchivedModule(ModuleDefinition):
    """A module of an archive as scripts see it."""

    def python_method(self, name: str) -> Callable[..., Any] | None:
        return None

    def python_property(self, name: str) -> property | None:
        return None

    def may_python_call(self, name: str) -> bool:
        return may_python_call(name)

    def _is_view(self, name: str) -> bool:
        return name not in self.type.methods and super()._is_view(name)


class Importer:
    """Makes the types and functions of an archive.

    Args:
        members: the files of code and their tables of places, by name.
        version: of the archive, which says what operators mean.
        constants: gives the entries of the table of constants.
        allow: operators that the program may use though they are refused otherwise.
    """

    def __init__(
        self, members: Mapping[str, bytes], version: int, constants: Callable[[int], object], allow: Collection[str]
    ) -> None:
        self.members = members
        self.program = ArchiveProgram(ENGINE, self.function)
        self.files: dict[str, CodeFile | None] = {}
        self.types: dict[str, Type] = {}
        self.functions: dict[str, Function] = {}
        self._unfinished: set[str] = set()
        permissions = Permissions(allow)

        def upgrades(name: str) -> SugaredValue | None:
            return upgraded(name, version)

        self.resolver = ArchiveResolver(
            {
                "torch": OperatorNamespace("aten", permissions, upgrades),
                "ops": OperatorNamespaces(permissions, upgrades),
                "CONSTANTS": ArchivedConstants(constants, _type_of_constant),
                "__torch__": QualifiedName("__torch__", self._meaning),
            },
            self.type_of,
        )

    # -- names
    def type_of(self, name: str) -> Type | None:
        """The type of a qualified name, None where the archive has no class of that name.

        Raises:
            ArchiveError, CompileError: where it has one that is not as it should be.
        """
        known = self.types.get(name)
        if known is not None:
            return known
        if name.startswith(CUSTOM):
            return ClassType.of(name)
        context = loaded_context(name)
        if context is not None:
            self.types[name] = context
            return context
        file, node = self._definition(name)
        if file is None or not isinstance(node, ast.ClassDef):
            return None
        if name in self._unfinished:
            raise BAD_ARCHIVE(f"'{name}' is defined in terms of itself", file.place(node))
        self._unfinished.add(name)
        try:
            return _ClassImport(self, file, name, node).run()
        except CompileError as error:
            error.notes.append(f"while the class '{name}' was read")
            raise
        finally:
            self._unfinished.discard(name)

    def needed_type(self, name: str, member: str) -> Type:
        """The type of a qualified name that a pickle uses.

        Raises:
            ArchiveError: there is none.
        """
        found = self.type_of(name)
        if found is None:
            raise ArchiveError(
                f"Unknown type name '{name}': it uses this class, which the archive does not define; expected it in "
                f"'{_file_of(name)}'",
                member,
            )
        return found

    def function(self, name: str) -> Function | None:
        """The function of a qualified name, None where the archive has none."""
        known = self.functions.get(name)
        if known is None:
            file, node = self._definition(name)
            if file is None or not isinstance(node, ast.FunctionDef):
                return None
            definition = self.definition(file, node, is_method=False)
            known = self.functions[name] = self.program.declare(definition, qualified=name)
        return known

    def _definition(self, name: str) -> tuple[CodeFile | None, ast.ClassDef | ast.FunctionDef | None]:
        file = self._file(name)
        return file, None if file is None else file.definitions.get(name.rpartition(".")[2])

    def _file(self, name: str) -> CodeFile | None:
        member = _file_of(name)
        if member not in self.files:
            text = self.members.get(member)
            found = None if text is None else CodeFile(member, text, self.members.get(f"{member}.debug_pkl", b""))
            self.files[member] = found
            if found is not None:
                self.program.files[found.source] = found
        return self.files[member]

    def _meaning(self, em: Emitter, name: str, range: SourceRange) -> SugaredValue | None:
        """What a qualified name means in a program."""
        found = self.type_of(name)
        if isinstance(found, ClassType):
            return ArchivedClass(found)
        if isinstance(found, TupleType):
            cls: Any = found.python_class
            return NamedTupleConstructor(found, dict(cls._field_defaults))
        if isinstance(found, EnumType):
            return EnumClass(found)
        function = self.function(name)
        return None if function is None else FunctionValue(self.program.ready(function, range))

    # -- definitions
    def definition(self, file: CodeFile, node: ast.FunctionDef, *, is_method: bool) -> Definition:
        """What a function of a file is compiled from."""
        built = file.function(node, is_method=is_method)
        given = [p for p in built.decl.params if p.default is not None]
        defaults = {p.ident.name: self._default(p.default) for p in given if p.default is not None}
        return Definition(node.name, built, self.resolver, defaults)

    def _default(self, expr: t.Expr) -> object:
        try:
            return literal_value(expr)
        except ValueError:
            return self._computed(expr)

    def _computed(self, expr: t.Expr) -> object:
        """A default that is no literal: `inf`, an entry of the table of constants, a device, a member of an Enum."""
        place = expr.range
        body = (t.Return(expr, range=place),)
        definition = t.Def(t.Ident("default", range=place), t.Decl((), None, range=place), body, range=place)
        graph, _ = self.program.compile(Definition("default", definition, self.resolver, {}))
        return _evaluated(graph.outputs[0], place)


def _evaluated(value: Value, place: SourceRange) -> Any:
    """What a value is that is put together from constants. No operator is run.

    Raises:
        CompileError: it needs one.
    """
    if is_constant(value):
        return constant_of(value)
    make = _CONSTRUCTORS.get(value.node.kind)
    if make is None:
        raise BAD_ARCHIVE(f"the default of a parameter is no constant but a {value.node.kind}", place)
    return make(value.type, [_evaluated(part, place) for part in value.node.inputs])


def _tuple(type: Type, parts: list[Any]) -> Any:
    cls: Any = type.python_class if isinstance(type, TupleType) else None
    return tuple(parts) if cls is None else cls(*parts)


_CONSTRUCTORS: dict[str, Callable[[Type, list[Any]], Any]] = {
    "prim::TupleConstruct": _tuple,
    "prim::ListConstruct": lambda type, parts: parts,
    "prim::DictConstruct": lambda type, parts: dict(zip(parts[::2], parts[1::2], strict=True)),
    "aten::device": lambda type, parts: torch.device(*(part for part in parts if part is not None)),
}
"""What makes values of constants, by the kind of the node."""


def _file_of(name: str) -> str:
    return f"code/{name.rpartition('.')[0].replace('.', '/')}.py"


def _type_of_constant(value: object) -> Type | None:
    return ClassType.of(value.class_name) if isinstance(value, UnsetObject) else type_of_value(value)


_Member = tuple[str, ast.expr | None, ast.expr | None, ast.stmt]


class _ClassImport:
    """One class of an archive, being made."""

    def __init__(self, importer: Importer, file: CodeFile, name: str, node: ast.ClassDef) -> None:
        self.importer = importer
        self.program = importer.program
        self.file = file
        self.name = name
        self.node = node
        self.lists: dict[str, list[str]] = {name: [] for name in _LISTS}

    def run(self) -> Type:
        """The type.

        Raises:
            CompileError: the class has a member that its kind does not have.
        """
        bases = [base.id if isinstance(base, ast.Name) else "?" for base in self.node.bases]
        kind = _KINDS.get(bases[0] if bases else None)
        if kind is None or len(bases) > 1:
            raise BAD_ARCHIVE("Torchscript does not support class inheritance", self.file.place(self.node))
        return kind(self)

    # -- parts of the body
    def _plain_python_class(self, base: type = object) -> type:
        return type(self.node.name, (base,), {"__module__": _MANGLE.sub("", self._module)})

    @property
    def _module(self) -> str:
        """The Python module whose classes have such a qualified name."""
        return self.name.rpartition(".")[0].partition(".")[2] or "__main__"

    def _members(self) -> list[_Member]:
        """Attributes: name, type, value, statement. What the class says of itself goes to `lists`."""
        found: list[_Member] = []
        for statement in self.node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                found.append((statement.target.id, statement.annotation, statement.value, statement))
            elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                found += self._assigned(statement, statement.targets[0])
            elif not isinstance(statement, ast.FunctionDef | ast.Pass | ast.Expr):
                raise BAD_ARCHIVE("expected a method or an attribute", self.file.place(statement))
        return found

    def _assigned(self, statement: ast.Assign, target: ast.expr) -> list[_Member]:
        if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
            return [(str(target.slice.value), statement.value, None, statement)]
        if isinstance(target, ast.Name) and target.id in _LISTS:
            self.lists[target.id] = self._names(statement)
        elif isinstance(target, ast.Name) and target.id != "__annotations__":
            return [(target.id, None, statement.value, statement)]
        return []

    def _names(self, statement: ast.Assign) -> list[str]:
        elements = statement.value.elts if isinstance(statement.value, ast.List) else [statement.value]
        found = [e.value for e in elements if isinstance(e, ast.Constant) and isinstance(e.value, str)]
        if len(found) != len(elements):
            raise BAD_ARCHIVE("expected a list of names", self.file.place(statement))
        return found

    def _methods(self) -> list[ast.FunctionDef]:
        found = [statement for statement in self.node.body if isinstance(statement, ast.FunctionDef)]
        for method in found:
            if not may_be_method(method.name):
                raise BAD_ARCHIVE(f"'{method.name}' is no name for a method", self.file.place(method))
        return found

    def _type(self, annotation: ast.expr) -> Type:
        return parse_type(self.file.expression(annotation), self.importer.resolver.resolve_type)

    def _value(self, node: ast.expr) -> Any:
        return self.importer._default(self.file.expression(node))

    # -- kinds of classes
    def make_class(self) -> Type:
        cls = self._plain_python_class()
        made = self.importer.types[self.name] = ClassType.new(self.name, cls)
        setattr(cls, CLASS_TYPE, made)
        definition = ArchivedObject(made, self.program)
        definition.resolver = self.importer.resolver
        self.program.name_type(self.name, made)
        self._fill(made)
        let_python_call(cls, self.program, is_trusted=False)
        return made

    def make_module(self) -> Type:
        base = _BUILT_IN.get(_MANGLE.sub("", self.name), torch.nn.Module)
        cls = self._plain_python_class(base)
        made = self.importer.types[self.name] = ClassType.new(self.name, cls, is_module=True)
        example: Any = object.__new__(cls)
        torch.nn.Module.__init__(example)
        definition = ArchivedModule(example, made, self.program)
        self.program.name_type(self.name, made)
        self._fill(made)
        for kind, hooks, takes in (
            ("__forward_pre_hooks__", made.forward_pre_hooks, "self, input"),
            ("__forward_hooks__", made.forward_hooks, "self, input, output"),
        ):
            for name in self.lists[kind]:
                if name not in made.methods:
                    raise BAD_ARCHIVE(f"the hook '{name}' is not defined", self.file.place(self.node))
                self._check_hook(name, takes)
                hooks.append(made.methods[name])
        for name in {*self.lists["__forward_pre_hooks__"], *self.lists["__forward_hooks__"]}:
            del made.methods[name]
        definition.entry_points = list(made.methods)
        definition.overloads.update(overloads_by_name(definition.entry_points))
        return made

    def _check_hook(self, name: str, takes: str) -> None:
        method = next(m for m in self._methods() if m.name == name)
        if len(method.args.args) != len(takes.split(", ")):
            raise BAD_ARCHIVE(f"the hook '{name}' does not take ({takes})", self.file.place(method))

    def _fill(self, made: ClassType) -> None:
        self._fill_attributes(made)
        if not made.is_module:
            for name, value in made.constants.items():
                setattr(made.python_class, name, value)
        for method in self._methods():
            if method.name in made.methods or method.name in made.attributes:
                raise BAD_ARCHIVE(f"'{method.name}' is defined twice", self.file.place(method))
            made.definition.add(method.name, self.importer.definition(self.file, method, is_method=True))

    def _fill_attributes(self, made: ClassType) -> None:
        for name, annotation, value, statement in self._members():
            if not may_be_attribute(name) or is_dunder(name) or (value is not None and name.startswith("__")):
                raise BAD_ARCHIVE(f"'{name}' is no name for an attribute", self.file.place(statement))
            if value is not None:
                made.constants[name] = self._value(value)
            elif annotation is not None:
                made.attributes[name] = self._attribute_type(name, annotation)
            else:
                raise BAD_ARCHIVE("an attribute needs a type", self.file.place(statement))
        made.parameters.update(n for n in self.lists["__parameters__"] if n in made.attributes)
        made.buffers.update(n for n in self.lists["__buffers__"] if n in made.attributes)

    def _attribute_type(self, name: str, annotation: ast.expr) -> Type:
        found = self._type(annotation)
        if name == "_packed_params" and found is T.TENSOR:
            plain = _MANGLE.sub("", self.name)
            for ending, custom in _PACKED.items():
                if plain.startswith("__torch__.torch.") and plain.endswith(f".{ending}"):
                    return ClassType.of(f"{CUSTOM}quantized.{custom}")
        return found

    def make_interface(self, *, is_module: bool) -> Type:
        cls = self._plain_python_class()
        made = self.importer.types[self.name] = InterfaceType.new(self.name, cls, is_module)
        made.definition = InterfaceDefinition(made)
        setattr(cls, CLASS_TYPE, made)
        self.program.name_type(self.name, made)
        for method in self._methods():
            described = self.importer.definition(self.file, method, is_method=True)
            made.methods[method.name] = interface_schema(
                Definition(method.name, described.tree, described.resolver, described.defaults, self_type=made)
            )
        return made

    def make_named_tuple(self) -> Type:
        fields: dict[str, Type] = {}
        defaults: list[Any] = []
        for name, annotation, value, statement in self._members():
            if annotation is None or name.startswith("_"):
                raise BAD_ARCHIVE("a field of a named tuple needs a name and a type", self.file.place(statement))
            fields[name] = self._type(annotation)
            if value is not None:
                defaults.append(self._value(value))
        make: Any = collections.namedtuple
        cls: Any = make(self.node.name, list(fields), defaults=defaults, module=self._module)
        cls.__annotations__ = fields
        made = self.importer.types[self.name] = TupleType.of(list(fields.values()), list(fields), self.name, cls)
        return made

    def make_enum(self) -> Type:
        members = []
        for name, _, value, statement in self._members():
            if value is None:
                raise BAD_ARCHIVE("a member of an Enum needs a value", self.file.place(statement))
            members.append((name, self._value(value)))
        try:
            cls = made_enum(self.node.name, members, self._module)
        except ValueError as error:
            raise BAD_ARCHIVE(str(error), self.file.place(self.node)) from None
        common = enum_type(cls)
        if common is None:
            raise BAD_ARCHIVE("the members of an Enum have values of several types", self.file.place(self.node))
        made = self.importer.types[self.name] = type_from_python(cls, self.file.place(self.node))
        return made


_KINDS: dict[str | None, Callable[[_ClassImport], Type]] = {
    None: _ClassImport.make_class,
    "Module": _ClassImport.make_module,
    "NamedTuple": _ClassImport.make_named_tuple,
    "Enum": _ClassImport.make_enum,
    "Interface": lambda c: c.make_interface(is_module=False),
    "ModuleInterface": lambda c: c.make_interface(is_module=True),
}
"""How a class is made, by its base."""
