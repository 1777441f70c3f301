"""Calls of torch's operators by their public bindings.

A binding is called instead of the dispatcher's own entry, `torch.ops.aten.add.Tensor`, because that converts each
argument twice: it takes about 1 us longer (torch 2.13). Bindings choose the overload by the classes of the arguments.
They choose the same one if each argument is of just the type that the schema declares, which the types of the graph
say; tests compare the two on samples of every operator. Bindings are also what eager code calls, so tensors with a
`__torch_function__` of their own and modes see what they would see there.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from jitlite.ir import types as T
from jitlite.ir.code_text import Text, code, fixed, hole, identifier, infix_sign, joined, named_hole
from jitlite.ir.graph import Node, Value, constant_of, is_constant
from jitlite.ir.int_codes import int_coded, is_int_coded
from jitlite.ir.ops import FOR_PYTHON_INTS, Op
from jitlite.ir.schema import Argument, Schema
from jitlite.ir.traits import Spelling, Trait
from jitlite.ir.types import Type
from jitlite.operators import tensors


class TorchCall(NamedTuple):
    """A call of a torch operator.

    Attributes:
        template: with `{0}`, `{1}`... for the operands, `{f}` for the function.
        function: what `{f}` stands for.
        is_atom: does it need no parentheses within an expression?
        gives_sequence: the output is to be a list and this gives some sequence.
        constants: what to write for operands that are constants in another form, by position.
    """

    template: Text
    function: Any = None
    is_atom: bool = True
    gives_sequence: bool = False
    constants: tuple[tuple[int, object], ...] = ()


_SPACES = {f"{name}_": vars(torch._C)[f"_{name}"] for name in ("linalg", "special", "fft", "sparse")}
"""Where the bindings are of operators whose names begin so."""


def _may_have_binding(op: Op) -> bool:
    if op.overload is None or not op.schema.name.startswith("aten::"):
        return False
    return not op.has(Trait.UNLIKE_BINDING) and op.schema.key not in FOR_PYTHON_INTS


def binding_of(op: Op, node: Node) -> TorchCall | None:
    """A call of the public binding of a torch operator, where it is provably the same overload."""
    schema = op.schema
    if schema.key == ("aten::index", "Tensor"):
        return TorchCall(fixed("{f}({0}, {1})"), tensors.index)
    formals, values = schema.arguments, node.inputs
    if not _may_have_binding(op) or not _binds_the_same(schema, values):
        return None
    base = schema.name.removeprefix("aten::")
    function = _function(base)
    written = _written(formals, values)
    if function is not None:
        sign = _sign(schema, written, values)
        if sign is not None:
            return TorchCall(code("{{0}} {} {{1}}", infix_sign(sign)), is_atom=False)
        template = code("{{f}}({})", joined(", ", written))
    elif formals and formals[0].name == "self" and _is_method(base):
        template = code("{{0}}.{}({})", identifier(base), joined(", ", written[1:]))
    else:
        return None
    gives_list = len(schema.returns) == 1 and isinstance(schema.returns[0].type, T.ListType)
    return TorchCall(template, function, gives_sequence=gives_list, constants=_coded_constants(formals, values))


def _sign(schema: Schema, written: Sequence[Text], values: Sequence[Value]) -> str | None:
    """The sign of Python's operator, for two arguments by position, the first of which makes it that of tensors."""
    is_infix = len(written) == 2 and all("=" not in w for w in written) and values[0].type is not T.NUMBER
    return Spelling.BINARY.of(schema.name) if is_infix and schema.name in Trait.TENSOR_OR_NUMBER.kinds else None


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


def dispatcher_call(op: Op, node: Node) -> TorchCall | None:
    """A call of what a torch operator calls itself, without a Python function in between."""
    schema = op.schema
    formals, values = schema.arguments, node.inputs
    if type(op.overload) is not torch._ops.OpOverload or len(formals) != len(values):
        return None
    if schema.key in FOR_PYTHON_INTS or _may_get_ints_for_objects(schema, values):
        return None
    written = [named_hole(a.name, i) if a.kwarg_only else hole(i) for i, a in enumerate(formals)]
    constants = _coded_constants(formals, values)
    return TorchCall(code("{{f}}({})", joined(", ", written)), op.overload._op, constants=constants)


def _may_get_ints_for_objects(schema: Schema, values: Sequence[Value]) -> bool:
    """May an operand or result be an int at run time where torch has an object, such as a dtype?"""
    operands = zip(schema.arguments, values, strict=True)
    return any(is_int_coded(a.declared_type) and not is_constant(v) for a, v in operands) or any(
        is_int_coded(r.declared_type) for r in schema.returns
    )


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


def _written(formals: Sequence[Argument], values: Sequence[Value]) -> list[Text]:
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
