"""Classes, interfaces, enums and named tuples as TorchScript text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import torch

from jitlite.base.errors.ways_out import NOT_IN_ARCHIVE
from jitlite.base.source import CompileError
from jitlite.codegen.torchscript.context_classes import body_of
from jitlite.codegen.torchscript.fragments import LINE_END
from jitlite.codegen.torchscript.source_out import SourceFile
from jitlite.codegen.torchscript.type_names import BOUND_CLASSES, archive_identifier, is_identifier
from jitlite.frontend.classes.classes import ScriptClass
from jitlite.frontend.classes.modules import ModuleDefinition
from jitlite.ir import types as T
from jitlite.ir.code_text import Text, code, cut, filled, fixed, identifier, joined, plainly_quoted
from jitlite.ir.graph import Graph
from jitlite.ir.schema import Argument, function_schema
from jitlite.ir.types import ClassType, Type
from jitlite.ir.unit import Function
from jitlite.ir.values import type_of_value

_FULL_BACKWARD = "_is_full_backward_hook"
"""An attribute that every nn.Module has, which scripts do not see and torch.jit writes."""


def write_declaration(file: SourceFile, named: object) -> None:
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


def _plain_name(file: SourceFile, named: object) -> Text:
    name = file.names.name(named)
    return cut(name, name.rfind(".") + 1)


def _write_lines(file: SourceFile, lines: Iterable[Text]) -> None:
    for line in lines:
        file.lines.write(None, line, LINE_END)


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
    head = code("class {}(Module):\n" if type.is_module else "class {}:\n", _plain_name(file, type))
    body = body_of(type.python_class) if type.definition is None else None
    if body is not None:
        file.lines.write(None, head, filled(body, name=name))
        return
    lines: list[Text] = [] if not type.is_module else _module_lines(type)
    for number, (attribute, t) in enumerate(slots(type).items()):
        file.dependencies.add_type(t)
        lines += _attribute_lines(file, number, attribute, t)
    for constant, value in type.constants.items():
        t = type_of_value(value)
        if not is_identifier(constant) or not _is_constant(value):
            continue  # scripts have read it when they were compiled
        annotation = file.names.text(t)
        lines.append(code("{} : Final[{}] = {}", identifier(constant), annotation, file.constants.text(value, t)))
    written = methods(type)
    hooks = {hook.name: hook for hook in (*type.forward_hooks, *type.forward_pre_hooks)}
    if not lines and not written:
        written = [_empty_init(type)]
    file.lines.write(None, head)
    _write_lines(file, (code("  {}", line) for line in lines))
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


def _module_lines(type: ClassType) -> list[Text]:
    order = slots(type)
    listed: list[tuple[Text, Iterable[str]]] = [
        (fixed("__parameters__"), (n for n in order if n in type.parameters)),
        (fixed("__buffers__"), (n for n in order if n in type.buffers)),
    ]
    if type.forward_pre_hooks:
        listed.append((fixed("__forward_pre_hooks__"), [hook.name for hook in type.forward_pre_hooks]))
    if type.forward_hooks:
        listed.append((fixed("__forward_hooks__"), [hook.name for hook in type.forward_hooks]))
    return [code("{} = [{}]", name, joined("", [code("{}, ", _quoted(n)) for n in names])) for name, names in listed]


def _quoted(name: str) -> Text:
    text = plainly_quoted(name)
    if text is None:
        raise NOT_IN_ARCHIVE(f"an archive cannot hold an attribute of the name {name!a}")
    return text


def _attribute_lines(file: SourceFile, number: int, name: str, type: Type) -> list[Text]:
    text = file.names.text(type)
    if is_identifier(name):
        return [code("{} : {}", identifier(name), text)]
    begin = [fixed("__annotations__ = []")] if number == 0 else []
    return [*begin, code("__annotations__[{}] = {}", _quoted(name), text)]


# -- other named types


def _named_tuple(file: SourceFile, type: T.TupleType) -> None:
    lines = [code("class {}(NamedTuple):", _plain_name(file, type))]
    for name, element in zip(type.names or (), type.elements, strict=True):
        file.dependencies.add_type(element)
        field = archive_identifier(name, "a field of a named tuple")
        lines.append(code("  {} : {}", field, file.names.text(element)))
    if not type.elements:
        lines.append(fixed("  pass"))
    _write_lines(file, lines)


def _enum(file: SourceFile, type: T.EnumType) -> None:
    lines = [code("class {}(Enum):", _plain_name(file, type))]
    for name, member in type.python_class.__members__.items():
        member_name = archive_identifier(name, "a member of an enum")
        value = member.value
        is_foreign = isinstance(value, str) and not value.isascii()
        text = plainly_quoted(value) if is_foreign else file.constants.text(value, type.value_type)
        if text is None:
            raise NOT_IN_ARCHIVE(f"an archive cannot hold the value of {type.qualified_name}.{name}")
        lines.append(code("  {} = {}", member_name, text))
    _write_lines(file, lines)


def _interface(file: SourceFile, type: T.InterfaceType) -> None:
    kind = fixed("ModuleInterface" if type.is_module else "Interface")
    _write_lines(file, [code("class {}({}):", _plain_name(file, type), kind)])
    for name, schema in type.methods.items():
        parameters = [fixed("self")]
        for argument in schema.arguments[1:]:
            file.dependencies.add_type(argument.type)
            parameter = archive_identifier(argument.name, "a parameter")
            parameters.append(code("{}: {}", parameter, file.names.text(argument.type)))
        returned = schema.returns[0].type
        file.dependencies.add_type(returned)
        method, given = archive_identifier(name, "a method"), joined(", ", parameters)
        head = code("  def {}({}) -> {}:", method, given, file.names.text(returned))
        _write_lines(file, [head, fixed("    pass")])


_WRITERS: tuple[tuple[Any, Callable[[SourceFile, Any], None]], ...] = (
    (ClassType, _class),
    (T.TupleType, _named_tuple),
    (T.EnumType, _enum),
    (T.InterfaceType, _interface),
)
