"""How an operation is written in Python.

A `Form` is a template with a hole for each operand: `{0} + {1}`, or `{f}({0}, {1})` where `f` is a function that the
code is given. The rules, first to last:

1. kinds that are syntax (attributes, displays, `is`): `_KINDS`
2. operators that jitlite declares with a function that Python has a spelling for: `_SPELLINGS`
3. torch's operators: the public binding, `torch.add` or a method of Tensor, that takes the same arguments
4. what the dispatcher's own entry calls
5. else a call of the function that is the operator's meaning

A binding is called instead of the dispatcher's own entry, `torch.ops.aten.add.Tensor`, because that converts each
argument twice: it takes about 1 us longer (torch 2.13). Bindings choose the overload by the classes of the arguments.
They choose the same one if each argument is of just the type that the schema declares, which the types of the graph
say; `tests/test_python_forms.py` compares the two on samples of every operator. Bindings are also what eager code
calls, so tensors with a `__torch_function__` of their own and modes see what they would see there.
"""

from __future__ import annotations

import builtins
import operator
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import torch

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
    named_hole,
    replaced,
)
from jitlite.ir.formatting import format_by_position
from jitlite.ir.graph import Node, Value, constant_of, is_constant
from jitlite.ir.int_codes import int_coded, is_int_coded
from jitlite.ir.node_attributes import int_attribute, str_attribute
from jitlite.ir.object_flow import Likelihood, ObjectFlow
from jitlite.ir.ops import FOR_PYTHON_INTS, Op, fn_with_objects
from jitlite.ir.schema import Argument, Schema
from jitlite.ir.traits import Spelling, Trait
from jitlite.ir.types import Type
from jitlite.ir.values import checker, named_tuple_class, object_class
from jitlite.operators import containers, prims, scalars, tensors


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
    if op.fn is None:
        raise CannotTranslate(f"{node.kind} is not an operator")
    if op.attributes:
        fn = partial(op.fn, **{name: node.attributes[name] for name in op.attributes if name in node.attributes})
        return call_form(fn, len(node.inputs))
    return _spelling(op, node) or _binding(op, node) or _dispatched(op, node) or call_form(op.fn, len(node.inputs))


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
    return Form(code("{{f}}({})", holes(range(count))), function)


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
    cls = object_class(made)
    return Form(fixed("{f}()"), partial(cls.__new__, cls))


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
    prims.unchecked_cast: Form(fixed("{0}"), is_atom=False),
    prims.enum_name: Form(fixed("{0}.name")),
    prims.enum_value: Form(fixed("{0}.value")),
    prims.get_cell: Form(fixed("{0}[0]")),
    prims.set_cell: _statement(fixed("{0}[0] = {1}")),
    scalars.derive_index: Form(fixed("{1} + {0} * {2}"), in_order=False, is_atom=False),
    tensors.size: Form(fixed("list({0}.shape)")),
}
"""By the function that an operator is declared with."""

_SPELLINGS |= {
    getattr(builtins, name): Form(code("{}({{0}})", identifier(name)))
    for name in ("len", "bool", "int", "float", "abs", "list", "id")
}


def _spelling(op: Op, node: Node) -> Form | None:
    if op.overload is not None:
        return None
    if op.fn is scalars.derive_index and constant_of(node.inputs[2], None) == 1:
        return Form(fixed("{1} + {0}"), in_order=False, is_atom=False)
    if op.fn is scalars.power and node.inputs[1].type is T.INT:  # only a fractional power can be complex
        return _infix("**")
    if op.fn is operator.mod:
        return _remainder(node)
    if op.fn in _IDENTITY and any(is_constant(v) and constant_of(v) is not None for v in node.inputs):
        return None  # Python warns of `x is 1`
    for_reals = getattr(op.fn, "for_reals", None)
    if for_reals is not None and all(v.type in (T.INT, T.FLOAT, T.BOOL) for v in node.inputs):
        return call_form(for_reals, len(node.inputs))
    return _SPELLINGS.get(op.fn)


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


# -- bindings of torch

_SPACES = {f"{name}_": vars(torch._C)[f"_{name}"] for name in ("linalg", "special", "fft", "sparse")}
"""Where the bindings are of operators whose names begin so."""


def _binding(op: Op, node: Node) -> Form | None:
    """A call of the public binding of a torch operator, where it is provably the same overload."""
    schema = op.schema
    if schema.key == ("aten::index", "Tensor"):
        return call_form(tensors.index, 2)
    if op.overload is None or not schema.name.startswith("aten::"):
        return None
    if op.has(Trait.UNLIKE_BINDING) or schema.key in FOR_PYTHON_INTS:
        return None
    formals, values = schema.arguments, node.inputs
    if not _binds_the_same(schema, values):
        return None
    base = schema.name.removeprefix("aten::")
    function = _function(base)
    written = _written(formals, values)
    if function is not None:
        sign = Spelling.BINARY.of(schema.name) if schema.name in Trait.TENSOR_OR_NUMBER.kinds else None
        if sign and _is_infix(written, values):
            return _infix(sign)
        template = code("{{f}}({})", joined(", ", written))
    elif formals and formals[0].name == "self" and _is_method(base):
        template = code("{{0}}.{}({})", identifier(base), joined(", ", written[1:]))
    else:
        return None
    returned = schema.returns[0].type if len(schema.returns) == 1 else None
    constants = _coded_constants(formals, values)
    return Form(template, function, gives_sequence=isinstance(returned, T.ListType), constants=constants)


def _is_infix(written: Sequence[Text], values: Sequence[Value]) -> bool:
    """Are these two arguments by position, the first of which makes Python's operator that of tensors?"""
    return len(written) == 2 and all("=" not in w for w in written) and values[0].type is not T.NUMBER


def _binds_the_same(schema: Schema, values: Sequence[Value]) -> bool:
    """Does the binding take arguments of these types for this overload, and give the same results?"""
    formals = schema.arguments
    if len(formals) != len(values) or not all(map(_is_exact, formals, values)):
        return False
    if any(a.is_write and a.kwarg_only for a in formals) or schema.is_vararg or schema.is_varret:
        return False  # where several results are put has names that the binding does not know
    # the binding gives a tuple for a list among several results
    return len(schema.returns) == 1 or not any(isinstance(r.type, T.ListType) for r in schema.returns)


def _coded_constants(formals: Sequence[Argument], values: Sequence[Value]) -> tuple[tuple[int, object], ...]:
    """The constant operands, by position, that are ints in the graph and torch's objects at run time."""
    return tuple(
        (i, int_coded(a.declared_type, constant_of(v)))
        for i, (a, v) in enumerate(zip(formals, values, strict=True))
        if is_int_coded(a.declared_type) and is_constant(v)
    )


def function_of(op: Op, node: Node) -> Any:
    """What to call for an operator of torch's dispatcher, with all operands by position.

    It is what generated code calls, so that no tier has another overload, or another way to it, than the others.
    """
    form = _binding(op, node) or _dispatched(op, node)
    if form is None:
        return op.fn
    about = form.template, len(node.inputs), form.gives_sequence, tuple(i for i, _ in form.constants)
    if not form.constants:
        return _shared(form.function, *about)
    return _maker(*about)(form.function, *(value for _, value in form.constants))


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


def _dispatched(op: Op, node: Node) -> Form | None:
    """A call of what a torch operator calls itself, without a Python function in between."""
    schema = op.schema
    formals, values = schema.arguments, node.inputs
    if type(op.overload) is not torch._ops.OpOverload or len(formals) != len(values):
        return None
    if schema.key in FOR_PYTHON_INTS:
        return None
    coded = [is_int_coded(a.declared_type) for a in formals]
    if any(c and not is_constant(v) for c, v in zip(coded, values, strict=True)):
        return None  # it may be an int at run time
    if any(is_int_coded(r.declared_type) for r in schema.returns):
        return None
    written = [named_hole(a.name, i) if a.kwarg_only else hole(i) for i, a in enumerate(formals)]
    constants = _coded_constants(formals, values)
    return Form(code("{{f}}({})", joined(", ", written)), op.overload._op, constants=constants)


_PYTHON_FUNCTIONS = {"norm": torch.norm}
"""Functions of Python that eager code calls by these names: what they call can be differentiated forwards as well."""


def _function(base: str) -> Any:
    if base in _PYTHON_FUNCTIONS:
        return _PYTHON_FUNCTIONS[base]
    for prefix, space in _SPACES.items():
        if base.startswith(prefix):
            return getattr(space, base, None)
    found = getattr(torch._C._VariableFunctions, base, None)
    return found if found is not None else getattr(torch._C._nn, base, None)


def _is_method(base: str) -> bool:
    """Is it a method of tensors that is not written in Python?"""
    found = vars(torch._C.TensorBase).get(base)
    return isinstance(found, types.MethodDescriptorType) and base not in vars(torch.Tensor)


_BY_NAME = frozenset({"memory_format", "alpha"})
"""Parameters that are named: bindings have no place for them, or take `sub(x, 0.5, 2)` for `x - 2 * 0.5`."""


def _written(formals: list[Argument] | tuple[Argument, ...], values: Any) -> list[Text]:
    """The arguments as they are written: what is the default is left out behind the last that is not."""
    written: list[Text] = []
    by_name = False
    for position, (formal, value) in enumerate(zip(formals, values, strict=True)):
        is_default = formal.has_default and is_constant(value) and _same(constant_of(value), formal.default)
        if is_default and formal.name != "reduction":  # its default in bindings is 0, `at::Reduction::Mean` unread
            by_name = True  # what follows has to be named
        elif formal.kwarg_only or by_name or formal.name in _BY_NAME:
            by_name = True  # as what follows has to be, too
            written.append(named_hole(formal.name, position))
        else:
            written.append(hole(position))
    return written


def _same(value: object, default: object) -> bool:
    return type(value) is type(default) and (value is default or bool(value == default))


_NUMBERS = frozenset({T.INT, T.FLOAT, T.BOOL, T.COMPLEX, T.NUMBER})
_WIDER: dict[Type, frozenset[Type]] = {
    T.NUMBER: _NUMBERS,
    T.FLOAT: frozenset({T.FLOAT, T.INT}),
    T.INT: frozenset({T.INT}),
    T.BOOL: frozenset({T.BOOL}),
    T.STRING: frozenset({T.STRING}),
    T.DEVICE: frozenset({T.DEVICE}),
    T.GENERATOR: frozenset({T.GENERATOR}),
}
"""Static types of which every value is taken by a parameter of the type."""


def _is_exact(formal: Argument, value: Value) -> bool:
    """Does the binding's parameter take just the values of this static type?"""
    wanted, given = formal.type, value.type
    if isinstance(wanted, T.OptionalType):
        if given is T.NONE:
            return True
        wanted = wanted.element
        given = given.element if isinstance(given, T.OptionalType) else given
    if is_int_coded(formal.declared_type):  # it may be an int at run time
        return is_constant(value) or value.node.kind == "prim::dtype"
    if isinstance(wanted, T.TensorType):
        return isinstance(given, T.TensorType)
    if isinstance(wanted, T.ListType):
        return isinstance(given, T.ListType) and _is_exact_element(wanted.element, given.element)
    return given in _WIDER.get(wanted, ())


def _is_exact_element(wanted: Type, given: Type) -> bool:
    if isinstance(wanted, T.TensorType):
        return isinstance(given, T.TensorType)
    return given in _WIDER.get(wanted, ())
