"""How an operation is written in Python.

A `Form` is a template with a hole for each operand: `{0} + {1}`, or `{f}({0}, {1})` where `f` is a function that the
code is given. The rules, first to last:

1. kinds that are syntax (attributes, displays, `is`): `_KINDS`
2. operators that jitlite declares with a function that Python has a spelling for: `_SPELLINGS`
3. torch's operators: the public binding, `torch.add` or a method of Tensor, that takes the same arguments; see
   `torch_bindings.py`
4. what the dispatcher's own entry calls
5. else a call of the function that is the operator's meaning
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from jitlite.ir import int_codes, tensor_items
from jitlite.ir import types as T
from jitlite.ir.code_text import (
    Text,
    code,
    doubled,
    filled,
    fixed,
    hole,
    holes,
    identifier,
    infix_sign,
    is_identifier,
    joined,
    literal,
    replaced,
)
from jitlite.ir.formatting import format_by_position
from jitlite.ir.graph import Node, Value, constant_of, is_constant
from jitlite.ir.node_attributes import int_attribute, str_attribute
from jitlite.ir.object_creation import maker_of
from jitlite.ir.object_flow import Likelihood, ObjectFlow
from jitlite.ir.ops import Op, fn_with_objects
from jitlite.ir.types import Type
from jitlite.ir.values import checker, named_tuple_class, object_class
from jitlite.operators import containers, prims, scalars, sets, strings, tensors
from jitlite.operators.torch_bindings import TorchCall, binding_of, dispatcher_call


class CannotTranslate(Exception):
    """The graph has something that Python code cannot be made of. The stack machine runs it."""


@dataclass(frozen=True)
class Form:
    """How to write an operation.

    Attributes:
        template: Python text with `{0}`, `{1}`... for the operands, `{f}` for the function.
        function: what `{f}` stands for.
        in_order: are the operands evaluated from first to last?
        is_atom: does it need no parentheses within an expression?
        is_statement: it is no expression; the output, if there is one, is operand 0.
        gives_sequence: the output is to be a list and this gives some sequence.
        constants: what to write for operands that are constants in another form, by position.
        of_variables: another template, no atom, for operands that are all variables or literals: it repeats them.
    """

    template: Text
    function: Any = None
    in_order: bool = True
    is_atom: bool = True
    is_statement: bool = False
    gives_sequence: bool = False
    constants: tuple[tuple[int, object], ...] = ()
    of_variables: Text | None = None


def form_of(node: Node, flow: ObjectFlow | None = None) -> Form:
    """How to write a node.

    Args:
        node: the operation.
        flow: tells which operands may be objects such as dtypes where others are numbers; without it, none.

    Raises:
        CannotTranslate: where there is no way.
    """
    op = node.op
    if op is not None and flow is not None and flow.needs_objects(node):
        return _with_objects(op, node)
    made = _KINDS.get(node.kind)
    if made is not None:
        return _dict(node, flow) if made is _dict else made(node)
    if op is None:
        raise CannotTranslate(f"there is no operator {node.kind} for these inputs")
    return _operator(op, node)


def _operator(op: Op, node: Node) -> Form:
    if op.fn is None:
        raise CannotTranslate(f"{node.kind} is not an operator")
    if op.attributes:
        fn = partial(op.fn, **{name: node.attributes[name] for name in op.attributes if name in node.attributes})
        return call_form(fn, len(node.inputs))
    return _spelling(op, node) or _bound(op, node) or call_form(op.fn, len(node.inputs))


_COMPARED: dict[Any, Text] = {
    operator.eq: fixed("{0} == {1} or <0> is not <1> and {f}({0}, {1})"),
    operator.ne: fixed("{0} != {1} and (<0> is <1> or {f}({0}, {1}))"),
}
"""Comparisons of what may be an object with what may be a number; `<0>` is the class of the first operand.

Nearly always both are numbers."""


def _with_objects(op: Op, node: Node) -> Form:
    """A form for operands that may be objects such as dtypes where others are numbers."""
    if op.fn in _COMPARED and all(v.type is T.INT for v in node.inputs):
        form = call_form(int_codes.WITH_OBJECTS[op.fn], 2)
        template = _COMPARED[op.fn]
        for i, value in enumerate(node.inputs):
            is_number = type(constant_of(value, None)) is int
            kind = fixed("int") if is_number else code("{}.__class__", hole(i))
            template = replaced(template, f"<{i}>", kind)
        return replace(form, is_atom=False, of_variables=template)
    return call_form(fn_with_objects(op), len(node.inputs))


def call_form(function: object, count: int) -> Form:
    """A call with so many operands."""
    return Form(_call_of(count), function)


@cache
def _call_of(count: int) -> Text:
    return code("{{f}}({})", holes(range(count)))


# -- kinds that are syntax


def _attribute(node: Node) -> Form:
    name, owner = node.attributes["name"], node.inputs[0].type
    if isinstance(owner, T.ClassType) and owner.is_module:
        table = _table_of(owner, name)
        if table:
            return Form(code("{{f}}({{0}}, {})", doubled(literal(name))), _READERS[table])
    return Form(attribute_of(name))


def attribute_of(name: str) -> Text:
    """The template that reads an attribute of operand 0.

    Behind a dot, keywords are refused, and Python normalizes names beyond ASCII.
    """
    if is_identifier(name) and name.isascii():
        return code("{{0}}.{}", identifier(name))
    return code("getattr({{0}}, {})", doubled(literal(name)))


def assigned_attribute(name: str) -> Text:
    """The template of a statement that assigns operand 1 to an attribute of operand 0."""
    if is_identifier(name) and name.isascii():
        return code("{{0}}.{} = {{1}}", identifier(name))
    return code("setattr({{0}}, {}, {{1}})", doubled(literal(name)))


def _table_of(owner: T.ClassType, name: str) -> str:
    """The dict of an nn.Module in which it keeps this attribute."""
    found = owner.attributes.get(name)
    if name in owner.parameters:
        return "_parameters"
    if name in owner.buffers:
        return "_buffers"
    return "_modules" if isinstance(found, T.ClassType) and found.is_module else ""


def _reader(table: str) -> Callable[[Any, str], Any]:
    """What reads an attribute that a module keeps in one of its dicts.

    nn.Module finds it there only after looking everywhere else, which takes Python code. It may have been moved, as a
    parametrization does; then the ordinary way leads to it. An attribute of the object itself goes first, as always.
    """

    def read(module: object, name: str) -> Any:
        own = module.__dict__
        if name in own:
            return own[name]
        try:
            return own[table][name]
        except KeyError:
            return getattr(module, name)

    return read


_READERS = {table: _reader(table) for table in ("_parameters", "_buffers", "_modules")}


def _set_attribute(node: Node) -> Form:
    name, owner = node.attributes["name"], node.inputs[0].type
    if isinstance(owner, T.ClassType) and owner.is_frozen:
        return Form(code("{{f}}({{0}}, {}, {{1}})", doubled(literal(name))), object.__setattr__)
    return Form(assigned_attribute(name), in_order=False, is_statement=True)


def _tuple(node: Node) -> Form:
    made = node.output.type
    if isinstance(made, T.TupleType) and made.names is not None:
        return call_form(named_tuple_class(made), len(node.inputs))
    items = holes(range(len(node.inputs)))
    return Form(code("({},)", items) if len(node.inputs) == 1 else code("({})", items))


def _dict(node: Node, flow: ObjectFlow | None = None) -> Form:
    if flow is not None and flow.of_any(node.inputs[::2]) >= Likelihood.STORED and len(node.inputs) > 2:
        return call_form(int_codes.dict_display, len(node.inputs))
    pairs = [code("{{{}}}: {{{}}}", i, i + 1) for i in range(0, len(node.inputs), 2)]
    return Form(code("{{{{{}}}}}", joined(", ", pairs)))


def tuple_slice(node: Node) -> Form:
    """`t[beg:end]`; the bounds are attributes."""
    begin, end = (literal(int_attribute(node, name)) for name in ("beg", "end"))
    return Form(code("{{0}}[{}:{}]", begin, end))


def _tensor_item(node: Node) -> Form:
    return Form(code("{{0}}[{}]", _index(node, 1)))


def _set_tensor_item(node: Node) -> Form:
    return _statement(code("{{0}}[{}] = {{1}}", _index(node, 2)))


def _index(node: Node, first: int) -> Text:
    """The index of a tensor as a template, whose operands begin at the input `first`."""
    operands = map(hole, range(first, len(node.inputs)))
    try:
        entries = tensor_items.parse_index(str_attribute(node, "index"))
        return joined(", ", [entry.filled(operands) for entry in entries])
    except (ValueError, StopIteration):
        raise CannotTranslate(f"{node.kind} does not say how its index is written") from None


def _new_object(node: Node) -> Form:
    made: Any = node.output.type
    return Form(fixed("{f}()"), maker_of(object_class(made)))


def _python_function(node: Node) -> Form:
    return call_form(node.attributes["callable"], len(node.inputs))


def isinstance_form(checks: list[Type]) -> Form:
    """How to ask whether a value is of one of the types."""
    if checks == [T.NONE]:
        return Form(fixed("{0} is None"), is_atom=False)
    tests = [checker(t) for t in checks]
    if len(tests) == 1:
        return call_form(tests[0], 1)
    return call_form(lambda value: any(test(value) for test in tests), 1)


_KINDS: dict[str, Callable[[Node], Form]] = {
    "prim::GetAttr": _attribute,
    "prim::SetAttr": _set_attribute,
    "prim::TupleConstruct": _tuple,
    "prim::ListConstruct": lambda node: Form(code("[{}]", holes(range(len(node.inputs))))),
    "prim::DictConstruct": _dict,
    "prim::TupleIndex": lambda node: Form(fixed("{0}[{1}]")),
    "prim::TupleSlice": tuple_slice,
    "prim::TensorItem": _tensor_item,
    "prim::SetTensorItem": _set_tensor_item,
    "prim::CreateObject": _new_object,
    "prim::dtype": lambda node: Form(fixed("{0}.dtype")),
    "prim::device": lambda node: Form(fixed("{0}.device")),
    "prim::is_cuda": lambda node: Form(fixed("{0}.is_cuda")),
    "aten::dim": lambda node: Form(fixed("{0}.dim()")),
    "aten::format": lambda node: call_form(format_by_position, len(node.inputs)),
    "prim::NumToTensor": lambda node: call_form(tensors.number_to_tensor, 1),
    "prim::tolist": lambda node: call_form(prims.tolist, 3),
}


# -- functions that Python has a spelling for


def _infix(sign: str) -> Form:
    return Form(code("{{0}} {} {{1}}", infix_sign(sign)), is_atom=False)


def _statement(template: Text) -> Form:
    return Form(template, in_order=False, is_statement=True)


ASSIGN_ELEMENTS = _statement(fixed("{0}[...] = {1}"))
"""Of all elements of a tensor. Where the tensor is itself written as a subscript, that is assigned to."""

_SPELLINGS: dict[Any, Form] = {
    operator.add: _infix("+"),
    operator.sub: _infix("-"),
    operator.mul: _infix("*"),
    operator.truediv: _infix("/"),
    operator.floordiv: _infix("//"),
    operator.mod: _infix("%"),
    operator.lshift: _infix("<<"),
    operator.rshift: _infix(">>"),
    operator.and_: _infix("&"),
    operator.or_: _infix("|"),
    operator.xor: _infix("^"),
    operator.eq: _infix("=="),
    operator.ne: _infix("!="),
    operator.lt: _infix("<"),
    operator.le: _infix("<="),
    operator.gt: _infix(">"),
    operator.ge: _infix(">="),
    operator.is_: _infix("is"),
    operator.is_not: _infix("is not"),
    operator.neg: Form(fixed("-{0}"), is_atom=False),
    operator.not_: Form(fixed("not {0}"), is_atom=False),
    operator.contains: Form(fixed("{1} in {0}"), in_order=False, is_atom=False),
    operator.getitem: Form(fixed("{0}[{1}]")),
    operator.delitem: _statement(fixed("del {0}[{1}]")),
    tensor_items.assign_elements: ASSIGN_ELEMENTS,
    containers.list_item: Form(fixed("{0}[{1}]")),
    containers.list_slice: Form(fixed("{0}[{1}:{2}:{3}]")),
    containers.list_append: _statement(fixed("{0}.append({1})")),
    containers.list_set_item: _statement(fixed("{0}[{1}] = {2}")),
    containers.dict_set_item: _statement(fixed("{0}[{1}] = {2}")),
    containers.list_delete: _statement(fixed("del {0}[{1}]")),
    containers.dict_keys: Form(fixed("list({0})")),
    containers.dict_values: Form(fixed("list({0}.values())")),
    containers.dict_items: Form(fixed("list({0}.items())")),
    containers.tuple_index: Form(fixed("{0}[{1}]")),
    sets.new_set: Form(fixed("set({0})")),
    sets.new_frozenset: Form(fixed("frozenset({0})")),
    sets.elements: Form(fixed("list({0})")),
    prims.unchecked_cast: Form(fixed("{0}"), is_atom=False),
    prims.enum_name: Form(fixed("{0}.name")),
    prims.enum_value: Form(fixed("{0}.value")),
    prims.get_cell: Form(fixed("{0}[0]")),
    prims.set_cell: _statement(fixed("{0}[0] = {1}")),
    strings.to_string: Form(fixed("str({0})")),
    scalars.derive_index: Form(fixed("{1} + {0} * {2}"), in_order=False, is_atom=False),
    tensors.size: Form(fixed("list({0}.shape)")),
}
"""By the function that an operator is declared with."""

_SPELLINGS |= {
    getattr(builtins, name): Form(code("{}({{0}})", identifier(name)))
    for name in ("len", "bool", "int", "float", "abs", "list", "id")
}


def _arithmetic(op: Op, node: Node) -> Form | None:
    """Of what is written otherwise for some operands."""
    if op.fn is scalars.derive_index and constant_of(node.inputs[2], None) == 1:
        return Form(fixed("{1} + {0}"), in_order=False, is_atom=False)
    if op.fn is scalars.power and node.inputs[1].type is T.INT:
        return _infix("**")  # only a fractional power can be complex
    return _remainder(node) if op.fn is operator.mod else None


def _spelling(op: Op, node: Node) -> Form | None:
    if op.overload is not None:
        return None
    found = _arithmetic(op, node)
    if found is not None:
        return found
    if op.fn in _IDENTITY and any(map(_is_literal, node.inputs)):
        return None  # Python warns of `x is 1`
    for_reals = getattr(op.fn, "for_reals", None)
    if for_reals is not None and all(v.type in (T.INT, T.FLOAT, T.BOOL) for v in node.inputs):
        return call_form(for_reals, len(node.inputs))
    return _SPELLINGS.get(op.fn)


def _is_literal(value: Value) -> bool:
    return is_constant(value) and constant_of(value) is not None


def _remainder(node: Node) -> Form:
    """Of large powers of two the remainder is a mask, for negative numbers too.

    Where both numbers have more than one digit of 30 bits, Python takes 60 ns to divide and 25 ns to mask.
    """
    divisor = constant_of(node.inputs[1], None)
    is_int = all(v.type is T.INT for v in node.inputs) and type(divisor) is int
    if is_int and divisor >= 1 << 30 and divisor & (divisor - 1) == 0:
        return Form(code("{{0}} & {}", divisor - 1), is_atom=False)
    return _infix("%")


_IDENTITY = (operator.is_, operator.is_not)


# -- operators of torch


def function_of(op: Op, node: Node) -> Any:
    """What to call for an operator of torch's dispatcher, with all operands by position.

    It is what generated code calls, so that no tier has another overload, or another way to it, than the others.
    """
    found = _call(op, node)
    if found is None:
        return op.fn
    about = found.template, len(node.inputs), found.gives_sequence, tuple(i for i, _ in found.constants)
    if not found.constants:
        return _shared(found.function, *about)
    return _maker(*about)(found.function, *(value for _, value in found.constants))


def _call(op: Op, node: Node) -> TorchCall | None:
    return binding_of(op, node) or dispatcher_call(op, node)


def _bound(op: Op, node: Node) -> Form | None:
    found = _call(op, node)
    if found is None:
        return None
    return Form(
        found.template,
        found.function,
        is_atom=found.is_atom,
        gives_sequence=found.gives_sequence,
        constants=found.constants,
    )


@cache
def _shared(function: object, *about: object) -> Any:
    return _maker(*about)(function)


@cache
def _maker(template: Text, count: int, gives_sequence: bool, constants: tuple[int, ...]) -> Any:
    """Makes functions that do what the template says, of what it calls and the operands that are constants."""
    operands = [code("a{}", i) for i in range(count)]
    written = [code("c{}", i) if i in constants else operands[i] for i in range(count)]
    called = filled(template, *written, f=fixed("f"))
    called = code("list({})", called) if gives_sequence else called
    outer = joined(", ", [fixed("f"), *(code("c{}", i) for i in constants)])
    text = code("lambda {}: lambda {}: {}", outer, joined(", ", operands), called)
    return eval(compile(text, "generated/operator.py", "eval", dont_inherit=True), {"list": list})
