"""Nodes as expressions: one small function for each kind that has a text of its own."""

from __future__ import annotations

import itertools
import keyword
from collections.abc import Callable
from typing import Any

import torch

from jitlite.base.source import NotSupportedError
from jitlite.codegen.torchscript.constants_out import ConstantWriter, is_told_by_members
from jitlite.codegen.torchscript.context_classes import REFUSED
from jitlite.codegen.torchscript.fragments import Fragment, fragment, joined
from jitlite.codegen.torchscript.type_names import BOUND_CLASSES, TypeNames, archive_identifier, is_identifier, is_named
from jitlite.ir import ops
from jitlite.ir import types as T
from jitlite.ir.graph import Node, Value, constant_of, is_constant
from jitlite.ir.int_codes import int_coded
from jitlite.ir.node_attributes import int_attribute, str_attribute
from jitlite.ir.schema import Argument, Schema
from jitlite.ir.traits import Spelling
from jitlite.ir.unit import Function, called_function, passed_arguments
from jitlite.ir.value_text import quote

RESERVED = frozenset(
    {
        *keyword.kwlist, "_", "aten", "attribute", "CONSTANTS", "fork", "getattr", "inf", "nan", "infj", "nanj", "ops",
        "__torch__", "uninitialized", "unchecked_cast", "annotate", "awaitable", "torch", "print", "int", "float",
        "bool", "complex", "str", "sorted", "isinstance", "range",
    }
)  # fmt: skip
"""Names that mean something else in the text."""

Pieces = list[str | Fragment]


class Expressions:
    """What expressions need to know of the function that they stand in.

    Args:
        names, constants: those of the archive.
    """

    def __init__(self, names: TypeNames, constants: ConstantWriter) -> None:
        self.names = names
        self.constants = constants
        self.variables: dict[Value, str] = {}
        """The values that have been assigned, and their names."""
        self.expressions: dict[Value, Fragment] = {}
        """The values that are written in place, and what they are."""

    def use(self, value: Value) -> Fragment:
        """The text that means a value: its name once it has been assigned, else what it is computed from."""
        name = self.variables.get(value)
        return self.expressions[value] if name is None else fragment(None, name)

    def leading(self, value: Value) -> Fragment:
        """The text of what an expression begins with. Where it is a name or an attribute, it is of the expression's
        place: a reader takes that of the first letter for the place of all, and reading these does not fail."""
        root = value
        while root not in self.variables and root.node.kind == "prim::GetAttr":
            root = root.node.input
        is_name = root in self.variables or root.node.kind == "prim::Constant"
        return fragment(None, str(self.use(value))) if is_name else self.use(value)

    def type_text(self, node: Node) -> str:
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


def _in_brackets(opening: str) -> _Write:
    return lambda w, node: [opening, *joined([w.use(v) for v in node.inputs]), ")"]


def _constant(w: Expressions, node: Node) -> Pieces:
    value = constant_of(node.output)
    if node.output.type is T.FUNCTION and not isinstance(value, Function):
        raise NotSupportedError(
            f"the Python function '{node.attributes.get('name')}' is not compiled and has no place in an archive",
            node.range,
        )
    return [w.constants.text(value, node.output.type, node.range)]


def _annotated(w: Expressions, node: Node) -> Pieces:
    return [f"annotate({w.type_text(node)}, ", w.use(node.input), ")"]


def _subscript(w: Expressions, node: Node) -> Pieces:
    container, index = w.leading(node.inputs[0]), w.use(node.inputs[1])
    held: Pieces = [container] if is_identifier(str(container)) else ["(", container, ")"]
    return [*held, "[", index, "]"]


def _tuple(w: Expressions, node: Node) -> Pieces:
    name = w.type_text(node) if is_named(node.output.type) else ""
    return [name, "(", *joined([w.use(v) for v in node.inputs]), ",)" if len(node.inputs) == 1 else ")"]


def _tuple_index(w: Expressions, node: Node) -> Pieces:
    return ["(", w.use(node.inputs[0]), ")[", w.use(node.inputs[1]), "]"]


def _tuple_slice(w: Expressions, node: Node) -> Pieces:
    begin, end = (int_attribute(node, name) for name in ("beg", "end"))
    return ["(", w.use(node.input), f")[{begin}:{end}]"]


def _list(w: Expressions, node: Node) -> Pieces:
    type = node.output.type
    assert isinstance(type, T.ListType)
    items: Pieces = ["[", *joined([w.use(v) for v in node.inputs]), "]"]
    if node.inputs and is_told_by_members(type.element):
        return items
    return [f"annotate({w.type_text(node)}, ", *items, ")"]


def _dict(w: Expressions, node: Node) -> Pieces:
    type = node.output.type
    assert isinstance(type, T.DictType)
    items: Pieces = ["{"]
    for number, (key, value) in enumerate(zip(node.inputs[::2], node.inputs[1::2], strict=True)):
        items += [", " if number else "", w.use(key), ": ", w.use(value)]
    items.append("}")
    if node.inputs and is_told_by_members(type.key) and is_told_by_members(type.value):
        return items
    return [f"annotate({w.type_text(node)}, ", *items, ")"]


def _new_object(w: Expressions, node: Node) -> Pieces:
    name = w.type_text(node)
    if name.startswith(BOUND_CLASSES):
        raise NotSupportedError(f"objects of the C++ class {name} cannot be made in an archive yet", node.range)
    python_class: Any = getattr(node.output.type, "python_class", None)
    if python_class in REFUSED:
        raise NotSupportedError(
            f"TorchScript has no {python_class.__name__}, so that it has no place in an archive", node.range,
            hint=REFUSED[python_class],
        )  # fmt: skip
    return [f"{name}.__new__({name})"]


def _attribute(w: Expressions, node: Node) -> Pieces:
    name = node.attributes["name"]
    if is_identifier(name):
        return [w.leading(node.input), f".{name}"]
    return ["getattr(", w.use(node.input), f", {quote(name)})"]


def _call_function(w: Expressions, node: Node) -> Pieces:
    callee = called_function(node)
    schema = None if callee is None else callee.schema
    return [w.leading(node.inputs[0]), "(", *_each(w, passed_arguments(node), schema), ")"]


def _call_method(w: Expressions, node: Node) -> Pieces:
    name = archive_identifier(str_attribute(node, "name"), "a method", node.range)
    callee = called_function(node)
    return [
        "(",
        w.leading(node.inputs[0]),
        f").{name}(",
        *_each(w, node.inputs[1:], None if callee is None else callee.schema, 1),
        ")",
    ]


def _each(w: Expressions, values: Any, schema: Schema | None, first: int = 0) -> Pieces:
    star = None if schema is None else first_keyword(schema)
    pieces: Pieces = []
    for i, value in enumerate(values, first):
        named = ""
        if schema is not None and star is not None and i >= star:
            named = f"{archive_identifier(schema.arguments[i].name, 'a parameter')}="
        pieces += [named, w.use(value), ", "]
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
        return ["torch._unwrap_optional(", w.use(value), ")"]
    wanted = w.names.text(T.OptionalType.of(node.output.type), node.range)  # a None does not tell of what
    return [f"torch._unwrap_optional(annotate({wanted}, ", w.use(value), "))"]


def _unchecked_cast(w: Expressions, node: Node) -> Pieces:
    return [f"unchecked_cast({w.type_text(node)}, ", w.use(node.input), ")"]


def _isinstance(w: Expressions, node: Node) -> Pieces:
    types = [w.names.text(t, node.range) for t in node.attributes["types"]]
    wanted = types[0] if len(types) == 1 else f"({', '.join(types)})"
    return ["isinstance(", w.use(node.input), f", {wanted})"]


def _tolist(w: Expressions, node: Node) -> Pieces:
    return [f"annotate({w.type_text(node)}, ", w.use(node.inputs[0]), ".tolist())"]


def _enum_part(name: str) -> _Write:
    return lambda w, node: ["(", w.use(node.input), f").{name}"]


def _uninitialized(w: Expressions, node: Node) -> Pieces:
    return [f"uninitialized({w.type_text(node)})"]


def _python_call(w: Expressions, node: Node) -> Pieces:
    name = node.attributes.get("name", "python")
    raise NotSupportedError(
        f"Could not export Python function call '{name}': Python functions have no place in an archive", node.range,
        hint="let it be compiled, or mark it with jitlite.unused",
    )  # fmt: skip


_BY_KIND: dict[str, _Write] = {
    "prim::Constant": _constant,
    "aten::ScalarImplicit": _annotated,
    "aten::FloatImplicit": _annotated,
    "aten::IntImplicit": _annotated,
    "aten::Int": _in_brackets("int("),
    "aten::Float": _in_brackets("float("),
    "aten::Bool": _in_brackets("bool("),
    "aten::str": _in_brackets("str("),
    "prim::Print": _in_brackets("print("),
    "aten::sorted": _in_brackets("sorted("),
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
    "prim::EnumName": _enum_part("name"),
    "prim::EnumValue": _enum_part("value"),
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
    pieces: Pieces = [_operator_name(node.kind), "("]
    arguments = schema.arguments
    for i, value in enumerate(node.inputs[:count]):
        named = f"{arguments[i].name}=" if i < len(arguments) and arguments[i].kwarg_only else ""
        pieces += [", " if i else "", named, w.use(value)]
    for i in range(len(arguments) - outs, len(arguments)):
        if i < len(node.inputs):
            pieces += [", ", f"{arguments[i].name}=", w.use(node.inputs[i])]
    return [*pieces, ")"]


def _operator_name(kind: str) -> str:
    namespace, _, base = kind.partition("::")
    return Spelling.ARCHIVED.of(kind) or (f"torch.{base}" if namespace == "aten" else f"ops.{namespace}.{base}")


def _known_to_torch(op: ops.Op) -> bool:
    """Has torch this overload, or is it jitlite's own?"""
    if op.name in _FUNCTIONS or op.name == "prim::name":
        return True
    namespace, _, base = op.name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    return packet is not None and (op.schema.overload or "default") in packet.overloads()


def _unknown(node: Node) -> NotSupportedError:
    given = ", ".join(v.type.annotation for v in node.inputs)
    return NotSupportedError(
        f"TorchScript has no {node.kind}({given}), so that it has no place in an archive", node.range,
        hint="say it with other operators",
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
