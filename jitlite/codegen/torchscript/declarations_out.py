"""Classes, interfaces, enums and named tuples as TorchScript text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import torch

from jitlite.base.source import CompileError, NotSupportedError
from jitlite.codegen.torchscript.context_classes import body_of
from jitlite.codegen.torchscript.source_out import SourceFile
from jitlite.codegen.torchscript.type_names import BOUND_CLASSES, archive_identifier, is_identifier
from jitlite.frontend.classes.classes import ScriptClass
from jitlite.frontend.classes.modules import ModuleDefinition
from jitlite.ir import types as T
from jitlite.ir.graph import Graph
from jitlite.ir.schema import Argument, function_schema
from jitlite.ir.types import ClassType, Type
from jitlite.ir.unit import Function
from jitlite.ir.value_text import quote
from jitlite.ir.values import type_of_value

_FULL_BACKWARD = "_is_full_backward_hook"
"""An attribute that every nn.Module has, which scripts do not see and torch.jit writes."""


def write_declaration(file: SourceFile, named: Any) -> None:
    """Write what a name means.

    Raises:
        NotSupportedError: where there is something in it that TorchScript has not.
    """
    if isinstance(named, Function):
        file.function(named, name=_plain_name(file, named))
        return
    for kind, write in _WRITERS:
        if isinstance(named, kind):
            write(file, named)


def _plain_name(file: SourceFile, named: object) -> str:
    return file.names.name(named).rpartition(".")[2]


# -- classes


def slots(type: ClassType) -> dict[str, Type]:
    """The attributes that an object has in an archive, in order.

    Those of a compiled nn.Module are in torch's order: parameters, buffers, other attributes, modules.
    """
    if type.definition.__class__ is not ModuleDefinition or _FULL_BACKWARD in type.attributes:
        return dict(type.attributes)  # of a class from an archive or a text, too
    groups: list[dict[str, Type]] = [{}, {}, {}, {}, {}]
    for name, t in type.attributes.items():
        groups[_slot_group(type, name, t)][name] = t
    if "training" in groups[2]:
        groups[2][_FULL_BACKWARD] = _type_of_full_backward(type)
    return {name: t for group in groups for name, t in group.items()}


def _type_of_full_backward(type: ClassType) -> Type:
    """As torch.jit has it, which takes the annotations of the first class that has any for those of the object."""
    annotated = (vars(cls).get("__annotations__") for cls in type.python_class.__mro__)
    return T.OptionalType.of(T.BOOL) if _FULL_BACKWARD in next(filter(None, annotated), {}) else T.NONE


def _slot_group(type: ClassType, name: str, t: Type) -> int:
    if name in type.parameters:
        return 0
    if name in type.buffers:
        return 1
    if name == "training":
        return 2
    return 4 if isinstance(t, ClassType | T.InterfaceType) and t.is_module else 3


def methods(type: ClassType) -> list[Function]:
    """The methods of a class that are compiled or can be, in torch's order: what gets and sets properties first."""
    tried = 0
    while tried < len(type.methods):  # compiling one may add others
        for method in list(type.methods.values())[tried:]:
            tried += 1
            if not method.is_compiled:
                with suppress(CompileError):  # nothing that is compiled reaches it, or that would have failed
                    method.ensure_compiled()
    found = [method for method in type.methods.values() if method.is_compiled]
    accessors = {name for pair in type.properties.values() for name in pair}
    if type.definition.__class__ in (ModuleDefinition, ScriptClass):  # others have the order of their text
        found.sort(key=lambda m: (m.name not in accessors, "" if type.is_module else m.name))
    known = {method.name for method in found}
    return [*found, *(m for m in _container_methods(type) if m.name not in known)]


def _container_methods(type: ClassType) -> Iterable[Function]:
    """`len(container)`, which scripts know when they are compiled, for programs that load the archive."""
    module = getattr(type.definition, "module", None)
    if isinstance(module, torch.nn.ModuleList | torch.nn.Sequential | torch.nn.ModuleDict):
        graph = Graph()
        graph.add_input(type, "self")
        graph.add_output(graph.insert_constant(len(module)))
        schema = function_schema("__len__", [Argument("self", type)], [T.INT])
        yield Function("__len__", qualified_name=f"{type.qualified_name}.__len__", schema=schema, graph=graph)


def _class(file: SourceFile, type: ClassType) -> None:
    name = file.names.name(type)
    if name.startswith(BOUND_CLASSES):
        return
    head = f"class {name.rpartition('.')[2]}{'(Module)' if type.is_module else ''}:\n"
    body = body_of(type.python_class) if type.definition is None else None
    if body is not None:
        file.lines.write(None, head, body.format(name=name))
        return
    lines = [] if not type.is_module else _module_lines(type)
    for number, (attribute, t) in enumerate(slots(type).items()):
        file.dependencies.add_type(t)
        lines += _attribute_lines(file, number, attribute, t)
    for constant, value in type.constants.items():
        t = type_of_value(value)
        if not is_identifier(constant) or not _is_constant(value):
            continue  # scripts have read it when they were compiled
        lines.append(f"{constant} : Final[{file.names.text(t)}] = {file.constants.text(value, t)}")
    written = methods(type)
    hooks = {hook.name: hook for hook in (*type.forward_hooks, *type.forward_pre_hooks)}
    if not lines and not written:
        written = [_empty_init(type)]
    file.lines.write(None, head, *(f"  {line}\n" for line in lines))
    for method in (*written, *hooks.values()):
        file.function(method, level=1)


def _empty_init(type: ClassType) -> Function:
    """A method for a class that has nothing, as readers want something in it."""
    graph = Graph()
    graph.add_input(type, "self")
    graph.add_output(graph.insert_constant(None))
    schema = function_schema("__init__", [Argument("self", type)], [T.NONE])
    return Function("__init__", qualified_name=f"{type.qualified_name}.__init__", schema=schema, graph=graph)


def _is_constant(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_constant, value))
    return value is None or isinstance(value, bool | int | float | complex | str | torch.device | torch.dtype)


def _module_lines(type: ClassType) -> list[str]:
    order = slots(type)
    listed: list[tuple[str, Iterable[str]]] = [
        ("__parameters__", (n for n in order if n in type.parameters)),
        ("__buffers__", (n for n in order if n in type.buffers)),
    ]
    for name, hooks in (
        ("__forward_pre_hooks__", type.forward_pre_hooks),
        ("__forward_hooks__", type.forward_hooks),
    ):
        if hooks:
            listed.append((name, [hook.name for hook in hooks]))
    return [f"{name} = [{''.join(f'{_quoted(n)}, ' for n in names)}]" for name, names in listed]


def _quoted(name: str) -> str:
    if name.isascii():
        return quote(name)
    if not _stays_one_text(name):
        raise NotSupportedError(f"an archive cannot hold an attribute of the name {name!a}")
    return f'"{name}"'


def _stays_one_text(text: str) -> bool:
    """Does it mean itself between double quotes for readers that know no escapes beyond ASCII?"""
    return text.isprintable() and '"' not in text and "\\" not in text


def _attribute_lines(file: SourceFile, number: int, name: str, type: Type) -> list[str]:
    text = file.names.text(type)
    if is_identifier(name):
        return [f"{name} : {text}"]
    begin = ["__annotations__ = []"] if number == 0 else []
    return [*begin, f"__annotations__[{_quoted(name)}] = {text}"]


# -- other named types


def _named_tuple(file: SourceFile, type: T.TupleType) -> None:
    lines = [f"class {_plain_name(file, type)}(NamedTuple):"]
    for name, element in zip(type.names or (), type.elements, strict=True):
        file.dependencies.add_type(element)
        lines.append(f"  {archive_identifier(name, 'a field of a named tuple')} : {file.names.text(element)}")
    if not type.elements:
        lines.append("  pass")
    file.lines.write(None, *(f"{line}\n" for line in lines))


def _enum(file: SourceFile, type: T.EnumType) -> None:
    lines = [f"class {_plain_name(file, type)}(Enum):"]
    for name, member in type.python_class.__members__.items():
        member_name = archive_identifier(name, "a member of an enum")
        value = member.value
        if isinstance(value, str) and not value.isascii():
            text = f'"{value}"' if _stays_one_text(value) else None
            if text is None:
                raise NotSupportedError(f"an archive cannot hold the value of {type.qualified_name}.{name}")
        else:
            text = file.constants.text(value, type.value_type)
        lines.append(f"  {member_name} = {text}")
    file.lines.write(None, *(f"{line}\n" for line in lines))


def _interface(file: SourceFile, type: T.InterfaceType) -> None:
    kind = "ModuleInterface" if type.is_module else "Interface"
    file.lines.write(None, f"class {_plain_name(file, type)}({kind}):\n")
    for name, schema in type.methods.items():
        parameters = ["self"]
        for argument in schema.arguments[1:]:
            file.dependencies.add_type(argument.type)
            parameter = archive_identifier(argument.name, "a parameter")
            parameters.append(f"{parameter}: {file.names.text(argument.type)}")
        returned = schema.returns[0].type
        file.dependencies.add_type(returned)
        head = (
            f"  def {archive_identifier(name, 'a method')}({', '.join(parameters)}) -> {file.names.text(returned)}:\n"
        )
        file.lines.write(None, head, "    pass\n")


_WRITERS: tuple[tuple[Any, Callable[[SourceFile, Any], None]], ...] = (
    (ClassType, _class),
    (T.TupleType, _named_tuple),
    (T.EnumType, _enum),
    (T.InterfaceType, _interface),
)
