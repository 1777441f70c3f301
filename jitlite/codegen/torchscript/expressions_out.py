"""Nodes as expressions: one small function for each kind that has a text of its own."""

from __future__ import annotations

import itertools
import keyword
from collections.abc import Callable
from typing import Any

import torch

from jitlite.base.errors.ways_out import NOT_IN_ARCHIVE
from jitlite.base.source import NotSupportedError
from jitlite.codegen.torchscript.constants_out import ConstantWriter, is_told_by_members
from jitlite.codegen.torchscript.context_classes import REFUSED
from jitlite.codegen.torchscript.fragments import Fragment, fragment, joined
from jitlite.codegen.torchscript.type_names import BOUND_CLASSES, TypeNames, archive_identifier, is_identifier, is_named
from jitlite.ir import code_text as texts
from jitlite.ir import ops
from jitlite.ir import types as T
from jitlite.ir.code_text import EMPTY, Identifier, Text, code, dotted, fixed, identifier, quoted
from jitlite.ir.graph import Node, Value, constant_of, is_constant
from jitlite.ir.int_codes import int_coded
from jitlite.ir.node_attributes import int_attribute, str_attribute
from jitlite.ir.schema import Argument, Schema
from jitlite.ir.traits import Spelling
from jitlite.ir.unit import Function, called_function, passed_arguments

RESERVED = frozenset(
    {
        *keyword.kwlist, "_", "aten", "attribute", "CONSTANTS", "fork", "getattr", "inf", "nan", "infj", "nanj", "ops",
        "__torch__", "uninitialized", "unchecked_cast", "annotate", "awaitable", "torch", "print", "int", "float",
        "bool", "complex", "str", "sorted", "isinstance", "range",
    }
)  # fmt: skip
"""Names that mean something else in the text."""

OPEN, CLOSE, OPEN_INDEX, CLOSE_INDEX = fixed("("), fixed(")"), fixed("["), fixed("]")
COMMA = fixed(", ")

Pieces = list[Text | Fragment]


class Expressions:
    """What expressions need to know of the function that they stand in.

    Args:
        names, constants: those of the archive.
    """

    def __init__(self, names: TypeNames, constants: ConstantWriter) -> None:
        self.names = names
        self.constants = constants
        self.variables: dict[Value, Identifier] = {}
        """The values that have been assigned, and their names."""
        self.expressions: dict[Value, Fragment] = {}
        """The values that are written in place, and what they are."""

    def use(self, value: Value) -> Fragment:
        """The text that means a value: its name once it has been assigned, else what it is computed from."""
        name = self.variables.get(value)
        return self.expressions[value] if name is None else fragment(None, name)

    def operands(self, node: Node) -> Pieces:
        """What a node is computed from, with commas."""
        return joined(self.use(v) for v in node.inputs)

    def leading(self, value: Value) -> Fragment:
        """The text of what an expression begins with. Where it is a name or an attribute, it is of the expression's
        place: a reader takes that of the first letter for the place of all, and reading these does not fail."""
        root = value
        while root not in self.variables and root.node.kind == "prim::GetAttr":
            root = root.node.input
        is_name = root in self.variables or root.node.kind == "prim::Constant"
        return fragment(None, self.use(value).text) if is_name else self.use(value)

    def type_text(self, node: Node) -> Text:
        """The type of what a node gives, as an annotation."""
        return self.names.text(node.output.type, node.range)


_Write = Callable[[Expressions, Node], Pieces]


def expression(w: Expressions, node: Node) -> Pieces:
    """The text of what a node computes.

    Raises:
        NotSupportedError: where TorchScript has no such thing.
    """
    return _BY_KIND.get(node.kind, _operator)(w, node)


# -- kinds with a form of their own


def _in_brackets(opening: Text) -> _Write:
    return lambda w, node: [opening, *w.operands(node), CLOSE]


def _constant(w: Expressions, node: Node) -> Pieces:
    value = constant_of(node.output)
    if node.output.type is T.FUNCTION and not isinstance(value, Function):
        raise NOT_IN_ARCHIVE(
            f"the Python function '{node.attributes.get('name')}' is not compiled and has no place in an archive",
            node.range,
        )
    return [w.constants.text(value, node.output.type, node.range)]


def _annotated(w: Expressions, node: Node) -> Pieces:
    return [_annotate(w, node), w.use(node.input), CLOSE]


def _annotate(w: Expressions, node: Node) -> Text:
    """The head of `annotate(type, value)`."""
    return code("annotate({}, ", w.type_text(node))


def _subscript(w: Expressions, node: Node) -> Pieces:
    container, index = w.leading(node.inputs[0]), w.use(node.inputs[1])
    held: Pieces = [container] if is_identifier(container.text) else [OPEN, container, CLOSE]
    return [*held, OPEN_INDEX, index, CLOSE_INDEX]


def _tuple(w: Expressions, node: Node) -> Pieces:
    name = w.type_text(node) if is_named(node.output.type) else EMPTY
    return [name, OPEN, *w.operands(node), fixed(",)" if len(node.inputs) == 1 else ")")]


def _tuple_index(w: Expressions, node: Node) -> Pieces:
    return [OPEN, w.use(node.inputs[0]), fixed(")["), w.use(node.inputs[1]), CLOSE_INDEX]


def _tuple_slice(w: Expressions, node: Node) -> Pieces:
    begin, end = (int_attribute(node, name) for name in ("beg", "end"))
    return [OPEN, w.use(node.input), code(")[{}:{}]", begin, end)]


def _list(w: Expressions, node: Node) -> Pieces:
    type = node.output.type
    assert isinstance(type, T.ListType)
    items: Pieces = [OPEN_INDEX, *w.operands(node), CLOSE_INDEX]
    if node.inputs and is_told_by_members(type.element):
        return items
    return [_annotate(w, node), *items, CLOSE]


def _dict(w: Expressions, node: Node) -> Pieces:
    type = node.output.type
    assert isinstance(type, T.DictType)
    items: Pieces = [fixed("{")]
    for number, (key, value) in enumerate(zip(node.inputs[::2], node.inputs[1::2], strict=True)):
        items += [COMMA if number else EMPTY, w.use(key), fixed(": "), w.use(value)]
    items.append(fixed("}"))
    if node.inputs and is_told_by_members(type.key) and is_told_by_members(type.value):
        return items
    return [_annotate(w, node), *items, CLOSE]


def _new_object(w: Expressions, node: Node) -> Pieces:
    name = w.type_text(node)
    if name.startswith(BOUND_CLASSES):
        raise NOT_IN_ARCHIVE(f"objects of the C++ class {name} cannot be made in an archive yet", node.range)
    python_class: Any = getattr(node.output.type, "python_class", None)
    if python_class in REFUSED:
        raise NOT_IN_ARCHIVE(
            f"TorchScript has no {python_class.__name__}, so that it has no place in an archive", node.range,
            hint=REFUSED[python_class],
        )  # fmt: skip
    return [code("{}.__new__({})", name, name)]


def _attribute(w: Expressions, node: Node) -> Pieces:
    name = node.attributes["name"]
    if is_identifier(name):
        return [w.leading(node.input), code(".{}", identifier(name))]
    return [fixed("getattr("), w.use(node.input), code(", {})", quoted(name))]


def _call_function(w: Expressions, node: Node) -> Pieces:
    callee = called_function(node)
    schema = None if callee is None else callee.schema
    return [w.leading(node.inputs[0]), OPEN, *_each(w, passed_arguments(node), schema), CLOSE]


def _call_method(w: Expressions, node: Node) -> Pieces:
    name = archive_identifier(str_attribute(node, "name"), "a method", node.range)
    callee = called_function(node)
    given = _each(w, node.inputs[1:], None if callee is None else callee.schema, 1)
    return [OPEN, w.leading(node.inputs[0]), code(").{}(", name), *given, CLOSE]


def _each(w: Expressions, values: Any, schema: Schema | None, first: int = 0) -> Pieces:
    star = None if schema is None else first_keyword(schema)
    pieces: Pieces = []
    for i, value in enumerate(values, first):
        named = EMPTY
        if schema is not None and star is not None and i >= star:
            named = code("{}=", archive_identifier(schema.arguments[i].name, "a parameter"))
        pieces += [named, w.use(value), COMMA]
    return pieces


def first_keyword(schema: Schema) -> int | None:
    """The parameter of a function before which its declaration has a `*`; None where it needs none.

    It needs one where a keyword-only parameter without a default comes behind one that has a default. TorchScript
    takes other keyword-only parameters for ordinary ones.
    """
    arguments = schema.arguments
    first = next((i for i, a in enumerate(arguments) if a.kwarg_only), len(arguments))
    mixed = any(b.has_default and not a.has_default for a, b in itertools.pairwise(arguments))
    named = all(is_identifier(a.name) and a.name not in RESERVED for a in arguments[first:])
    return first if mixed and named and first < len(arguments) else None


def _unwrap(w: Expressions, node: Node) -> Pieces:
    value = node.input
    if value.type is not T.NONE and not (is_constant(value) and constant_of(value) is None):
        return [fixed("torch._unwrap_optional("), w.use(value), CLOSE]
    wanted = w.names.text(T.OptionalType.of(node.output.type), node.range)  # a None does not tell of what
    return [code("torch._unwrap_optional(annotate({}, ", wanted), w.use(value), fixed("))")]


def _unchecked_cast(w: Expressions, node: Node) -> Pieces:
    return [code("unchecked_cast({}, ", w.type_text(node)), w.use(node.input), CLOSE]


def _isinstance(w: Expressions, node: Node) -> Pieces:
    types = [w.names.text(t, node.range) for t in node.attributes["types"]]
    wanted = types[0] if len(types) == 1 else code("({})", texts.joined(", ", types))
    return [fixed("isinstance("), w.use(node.input), code(", {})", wanted)]


def _tolist(w: Expressions, node: Node) -> Pieces:
    return [_annotate(w, node), w.use(node.inputs[0]), fixed(".tolist())")]


def _enum_part(end: Text) -> _Write:
    return lambda w, node: [OPEN, w.use(node.input), end]


def _uninitialized(w: Expressions, node: Node) -> Pieces:
    return [code("uninitialized({})", w.type_text(node))]


def _python_call(w: Expressions, node: Node) -> Pieces:
    name = node.attributes.get("name", "python")
    raise NOT_IN_ARCHIVE(
        f"Could not export Python function call '{name}': Python functions have no place in an archive", node.range,
        hint="let it be compiled, or mark it with jitlite.unused",
    )  # fmt: skip


_BY_KIND: dict[str, _Write] = {
    "prim::Constant": _constant,
    "aten::ScalarImplicit": _annotated,
    "aten::FloatImplicit": _annotated,
    "aten::IntImplicit": _annotated,
    "aten::Int": _in_brackets(fixed("int(")),
    "aten::Float": _in_brackets(fixed("float(")),
    "aten::Bool": _in_brackets(fixed("bool(")),
    "aten::str": _in_brackets(fixed("str(")),
    "prim::Print": _in_brackets(fixed("print(")),
    "aten::sorted": _in_brackets(fixed("sorted(")),
    "aten::__getitem__": _subscript,
    "prim::TupleConstruct": _tuple,
    "prim::TupleIndex": _tuple_index,
    "prim::TupleSlice": _tuple_slice,
    "prim::ListConstruct": _list,
    "prim::DictConstruct": _dict,
    "prim::CreateObject": _new_object,
    "prim::GetAttr": _attribute,
    "prim::CallFunction": _call_function,
    "prim::CallMethod": _call_method,
    "aten::_unwrap_optional": _unwrap,
    "prim::unchecked_cast": _unchecked_cast,
    "prim::unchecked_unwrap_optional": _unchecked_cast,
    "prim::checked_cast": _unchecked_cast,
    "prim::isinstance": _isinstance,
    "prim::tolist": _tolist,
    "prim::EnumName": _enum_part(fixed(").name")),
    "prim::EnumValue": _enum_part(fixed(").value")),
    "prim::Uninitialized": _uninitialized,
    "prim::PythonOp": _python_call,
    "prim::IgnoredPythonOp": _python_call,
}


# -- operators

_FUNCTIONS = frozenset({"aten::list_with_default"})
"""What TorchScript has as functions written in TorchScript, so that they are no operators of torch."""


def _operator(w: Expressions, node: Node) -> Pieces:
    resolved = node.op
    if resolved is None or not _known_to_torch(resolved):
        raise _unknown(node)
    schema = resolved.schema
    count, outs = necessary_arguments(schema, node.inputs)
    pieces: Pieces = [_operator_name(node.kind), OPEN]
    arguments = schema.arguments
    for i, value in enumerate(node.inputs[:count]):
        named = _named(arguments[i]) if i < len(arguments) and arguments[i].kwarg_only else EMPTY
        pieces += [COMMA if i else EMPTY, named, w.use(value)]
    for i in range(len(arguments) - outs, len(arguments)):
        if i < len(node.inputs):
            pieces += [COMMA, _named(arguments[i]), w.use(node.inputs[i])]
    return [*pieces, CLOSE]


def _named(argument: Argument) -> Text:
    return code("{}=", identifier(argument.name, "a parameter"))


def _operator_name(kind: str) -> Text:
    archived = Spelling.ARCHIVED.of(kind)
    if archived:
        return dotted(archived)
    namespace, _, base = kind.partition("::")
    name = identifier(base, "an operator")
    return code("torch.{}", name) if namespace == "aten" else code("ops.{}.{}", identifier(namespace), name)


def _known_to_torch(op: ops.Op) -> bool:
    """Has torch this overload, or is it jitlite's own?"""
    if op.name in _FUNCTIONS or op.name == "prim::name":
        return True
    namespace, _, base = op.name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    return packet is not None and (op.schema.overload or "default") in packet.overloads()


def _unknown(node: Node) -> NotSupportedError:
    given = ", ".join(v.type.annotation for v in node.inputs)
    return NOT_IN_ARCHIVE(
        f"TorchScript has no {node.kind}({given}), so that it has no place in an archive", node.range,
        hint="define it in torch.library, or say it with other operators",
    )  # fmt: skip


def necessary_arguments(schema: Schema, inputs: Any) -> tuple[int, int]:
    """How many arguments have to be written: those before trailing ones that equal their defaults; and those for
    results, which come last."""
    arguments = schema.arguments
    last = len(arguments)
    while last > 0 and arguments[last - 1].kwarg_only and arguments[last - 1].is_write:
        last -= 1
    outs = len(arguments) - last
    if len(arguments) < len(inputs):
        return len(inputs), outs
    while last > 0 and _equals_default(arguments[last - 1], inputs[last - 1]):
        last -= 1
    return last, outs


def _equals_default(argument: Argument, value: Value) -> bool:
    if not argument.has_default or not is_constant(value):
        return False
    given = int_coded(argument.declared_type, constant_of(value))
    default = int_coded(argument.declared_type, argument.default)
    if isinstance(given, list) and not isinstance(default, list) and argument.size is not None:
        default = [default] * argument.size
    return _same(given, default)


def _same(given: object, default: object) -> bool:
    if isinstance(given, list) and isinstance(default, list):
        return len(given) == len(default) and all(map(_same, given, default))
    if given.__class__ is not default.__class__ or isinstance(given, torch.Tensor):
        return False
    return bool(given == default)
