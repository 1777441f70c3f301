"""How an operator is called in an FX graph.

Operators of torch's dispatcher are called as what they are, `torch.ops.aten.add.Tensor`, so that it is plain which
overload runs; what is the default is left out. Questions about a tensor (`size`, `dim`, `item`) are methods, as these
know about symbolic sizes. Operators on numbers and texts are Python's own functions and methods. What remains are
functions of jitlite; a graph with such a call needs jitlite where it runs.
"""

from __future__ import annotations

import functools
import importlib
import keyword
import math
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx.node import has_side_effect

from jitlite.base import torch_internals
from jitlite.base.errors.ways_out import NOT_AS_FX
from jitlite.export.to_fx import control_flow, symbolic
from jitlite.ir import ops
from jitlite.ir import types as T
from jitlite.ir.graph import Node, Value, constant_of, is_constant
from jitlite.ir.int_codes import int_coded, is_int_coded
from jitlite.ir.object_creation import maker_of
from jitlite.ir.ops import Effect, Op
from jitlite.ir.schema import Argument
from jitlite.ir.type_parser import parse_type
from jitlite.ir.values import value_has_type
from jitlite.operators import containers, scalars, tensors


class FxCall(NamedTuple):
    """A node of an FX graph: a call of a function, or of the method of the first argument if `target` is a text."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = {}


def operator_call(node: Node, args: Sequence[object], *, for_export: bool) -> FxCall | None:
    """The call for an operator; `args` are its operands in the FX graph. None where it has none.

    Args:
        for_export: let functions take numbers that are not known yet.
    """
    op = node.op
    if op is None or op.fn is None:
        return None
    method = _METHODS.get(op.schema.key)
    if method is not None:
        return FxCall(method, tuple(args))
    if op.overload is not None and not keyword.iskeyword(op.schema.overload):  # `random_.from` cannot be written
        return _overload_call(op, node.inputs, args)
    if for_export and op.schema.name == "prim::data":
        return FxCall("detach", tuple(args))  # torch.export does not see through `.data`
    made = _declared_call(op, node, args)
    if for_export and made.target in _FOR_EXPORT:
        made = made._replace(target=_FOR_EXPORT[made.target])
    return made


_METHODS = {
    ("aten::size", "int"): "size",
    ("aten::stride", "int"): "stride",
    **{
        (f"aten::{name}", ""): name
        for name in ("dim", "numel", "item", "storage_offset", "is_floating_point", "is_complex")
    },
}
"""Questions about a tensor: methods that understand symbolic sizes, which TorchScript's operators do not."""


# -- the dispatcher's operators


def _overload_call(op: Op, values: Sequence[Value], args: Sequence[object]) -> FxCall:
    formals = op.schema.arguments
    positional, keywords = [], {}
    by_name = False
    for formal, value, arg in zip(formals, values, args, strict=True):
        if formal.has_default and is_constant(value) and _same(constant_of(value), formal.default):
            by_name = True
            continue
        arg = int_coded(formal.declared_type, arg) if is_int_coded(formal.declared_type) else arg
        if formal.kwarg_only or by_name:
            keywords[formal.name] = arg
        else:
            positional.append(arg)
    return FxCall(op.overload, tuple(positional), keywords)


def _same(value: object, default: object) -> bool:
    return type(value) is type(default) and (value is default or bool(value == default))


def int_coded_operands(op: Op, values: Sequence[Value]) -> list[tuple[int, Argument]]:
    """The operands that may be the int code of a dtype, a layout or a memory format at run time."""
    found = []
    for position, (formal, value) in enumerate(zip(op.schema.arguments, values, strict=False)):
        is_code = is_int_coded(formal.declared_type) and not is_constant(value)
        if is_code and value.node.kind not in ("prim::dtype", "prim::layout"):
            found.append((position, formal))
    return found


def as_dtype(value: object) -> Any:
    """The dtype behind its int code; other values are given back."""
    return int_coded(T.SCALAR_TYPE, value)


def as_layout(value: object) -> Any:
    """The layout behind its int code; other values are given back."""
    return int_coded(T.LAYOUT, value)


def as_memory_format(value: object) -> Any:
    """The memory format behind its int code; other values are given back."""
    return int_coded(T.MEMORY_FORMAT, value)


def decoder(declared: T.Type) -> Callable[[Any], Any]:
    """The function that turns the int code of this type into torch's object."""
    bare = declared.element if isinstance(declared, T.OptionalType) else declared
    return _DECODERS[bare]


_DECODERS: dict[T.Type, Callable[[object], object]] = {
    T.SCALAR_TYPE: as_dtype,
    T.LAYOUT: as_layout,
    T.MEMORY_FORMAT: as_memory_format,
}


# -- operators that jitlite declares


def _declared_call(op: Op, node: Node, args: Sequence[object]) -> FxCall:
    fn: object = op.fn
    if op.overload is not None:
        return _generic(op, args)
    if op.attributes:
        return FxCall(_named(op), tuple(args), {name: node.attributes[name] for name in op.attributes})
    special = _SPECIAL.get(fn)
    if special is not None:
        return special(node, args)
    simple = _SIMPLE.get(fn)
    if simple is not None:
        return FxCall(simple, tuple(args))
    if isinstance(fn, operator.attrgetter):
        return FxCall(getattr, (*args, fn.__reduce__()[1][0]))
    return _declared_function_call(op, node, args)


def _declared_function_call(op: Op, node: Node, args: Sequence[object]) -> FxCall:
    name = _method_name(op)
    if name is not None:
        return FxCall(run_method, (args[0], name, *args[1:])) if _is_effect(op) else FxCall(name, tuple(args))
    for_reals = getattr(op.fn, "for_reals", None)
    if for_reals is not None and all(v.type in (T.INT, T.FLOAT, T.BOOL) for v in node.inputs):
        return FxCall(for_reals, tuple(args))
    return _generic(op, args)


def _generic(op: Op, args: Sequence[object]) -> FxCall:
    """A call of the function that is the operator's meaning, by its own name or the operator's."""
    if op.overload is None and is_importable(op.fn):
        return FxCall(_named(op), tuple(args))
    return FxCall(run_effect if _is_effect(op) else run_operator, (op.schema.qualified, *args))


def _named(op: Op) -> Any:
    return has_side_effect(op.fn) if _is_effect(op) and op.fn is not None else op.fn


def _is_effect(op: Op) -> bool:
    return op.effect in (Effect.SIDE, Effect.WRITE, Effect.RANDOM)


def is_importable(function: Any) -> bool:
    """Does the name of a function lead to it? Then a pickled graph can name it."""
    found: Any = None
    try:
        found = importlib.import_module(function.__module__)
        for name in function.__qualname__.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError, TypeError, ValueError):
        return False
    return found is function


@functools.lru_cache(maxsize=1024)
def _meaning(qualified: str) -> Callable[..., Any]:
    name, _, overload = qualified.partition(".")
    return next(op.fn for op in ops.lookup(name) if op.schema.overload == overload and op.fn is not None)


def run_operator(qualified: str, *args: object) -> Any:
    """Run the operator of this name and overload."""
    return _meaning(qualified)(*args)


@has_side_effect
def run_effect(qualified: str, *args: object) -> Any:
    """Run the operator of this name and overload, for what it does."""
    return _meaning(qualified)(*args)


def _method_name(op: Op) -> str | None:
    """The name of the method of `str`, `list` or `dict` that the operator is."""
    fn = op.fn
    if isinstance(fn, types.MethodDescriptorType):
        return fn.__name__
    is_method = getattr(fn, "__qualname__", "") == "_method.<locals>.call"
    name = op.name.removeprefix("aten::")
    return name if is_method and hasattr(dict, name) else None


@has_side_effect
def run_method(self: object, name: str, *args: object) -> Any:
    """Call a method that changes its object: `self.append(value)`."""
    return getattr(self, name)(*args)


_NUMBER_DTYPES: dict[T.Type, torch.dtype] = {
    T.INT: torch.int64,
    T.FLOAT: torch.float64,
    T.BOOL: torch.bool,
    T.COMPLEX: torch.complex128,
}


def _tensor(node: Node, args: Sequence[object]) -> FxCall:
    """`torch.tensor(data, ...)`. Of a number it is an operator; the function itself does not bear being traced."""
    data, dtype, device, requires_grad = args
    dtype = int_coded(T.SCALAR_TYPE, dtype)
    number = node.inputs[0].type
    if number not in _NUMBER_DTYPES or number is T.COMPLEX or requires_grad is not False:
        return FxCall(tensors.tensor, (data, dtype, device, requires_grad))
    if dtype is None and number is not T.FLOAT:  # floats are of the default dtype
        dtype = _NUMBER_DTYPES[number]
    given = {name: value for name, value in (("dtype", dtype), ("device", device)) if value is not None}
    return FxCall(torch.ops.aten.scalar_tensor.default, (data,), given)


def _number_to_tensor(node: Node, args: Sequence[object]) -> FxCall:
    dtype = _NUMBER_DTYPES.get(node.inputs[0].type)
    if dtype is None:
        return FxCall(tensors.number_to_tensor, tuple(args))
    return FxCall(torch.ops.aten.scalar_tensor.default, tuple(args), {"dtype": dtype})


def _sum_of_products(node: Node, args: Sequence[object]) -> FxCall:
    if constant_of(node.inputs[1], None) == 0 and constant_of(node.inputs[2], None) == 1:
        return FxCall(operator.pos, (args[0],))
    return FxCall(scalars.derive_index, tuple(args))


_SPECIAL: dict[object, Callable[[Node, Sequence[object]], FxCall]] = {
    tensors.tensor: _tensor,
    tensors.number_to_tensor: _number_to_tensor,
    scalars.derive_index: _sum_of_products,
    tensors.warn: lambda node, args: FxCall(control_flow.warn, (args[0],)),
}
"""Operators whose call depends on the node, by the function that they are declared with."""

_SIMPLE: dict[object, object] = {
    containers.list_item: operator.getitem,
    containers.tuple_index: operator.getitem,
    containers.list_set_item: has_side_effect(operator.setitem),  # as torch itself says in newer versions
    containers.dict_set_item: operator.setitem,
    containers.dict_keys: list,
    tensors.to_cpu: "cpu",
    tensors.to_cuda: "cuda",
}
"""What to call for an operator, by the function that it is declared with."""

_FOR_EXPORT: dict[object, object] = {
    int: symbolic.to_int,
    float: symbolic.to_float,
    bool: symbolic.to_bool,
    min: symbolic.smaller,
    max: symbolic.larger,
    operator.not_: symbolic.negation,
    scalars.implicit_int: symbolic.to_int,
    scalars.implicit_float: symbolic.to_float,
    scalars.implicit_number: "item",
    scalars.range_length: symbolic.range_length,
    math.sqrt: symbolic.square_root,
    tensors.number_to_tensor: torch.scalar_tensor,
}
"""What to call where an argument may be a number that is not known yet."""


# -- types


def has_type(value: object, names: Sequence[str]) -> bool:
    """Is the value of one of the types of these names?"""
    return any(value_has_type(value, _type(name)) for name in names)


@functools.lru_cache(maxsize=1024)
def _type(name: str) -> T.Type:
    return parse_type(name)


def is_name_of(name: str, t: T.Type) -> bool:
    """Does the text lead to the type?"""
    try:
        return _type(name) == t
    except (ValueError, RuntimeError):
        return False


def qualified_class(cls: type) -> str:
    """The name by which `make` and `new_object` find a class."""
    return f"{cls.__module__}:{cls.__qualname__}"


def _class(name: str) -> Any:
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _refuse_tracing(what: str) -> None:
    """See that nobody takes what is made in each call for a constant.

    Raises:
        NotSupportedError: where the module is traced again: FX runs a call without traced arguments once and for all.
    """
    if torch_internals.is_fx_tracing():
        raise NOT_AS_FX(
            f"the graph makes {what} in each call, which torch.fx.symbolic_trace would make once",
            hint="work on the graph that is there (torch.fx.Transformer, Interpreter, passes); it need not be traced",
        )


def new_list(*values: object) -> list[Any]:
    """A new list."""
    _refuse_tracing("a list")
    return list(values)


def new_dict(*pairs: tuple[object, object]) -> dict[Any, Any]:
    """A new dict of keys and values."""
    _refuse_tracing("a dict")
    return dict(pairs)


def new_object(name: str) -> Any:
    """An instance of the class of this name, `module:Class`, before its `__init__`."""
    _refuse_tracing("an object")
    return maker_of(_class(name))()


def make(name: str, *args: object) -> Any:
    """An instance of the class of this name, `module:Class`."""
    _refuse_tracing("an object")
    return _class(name)(*args)


def call_value(function: Any, *args: object) -> Any:
    """`function(*args)`, for a function or class that has no name to be found by."""
    return function(*args)


@has_side_effect
def set_attribute(owner: object, name: str, value: object) -> None:
    """`owner.name = value`, for an object that is no module."""
    setattr(owner, name, value)


def or_default(value: object, default: object) -> Any:
    """The value of a parameter; its default, which Python code cannot spell, for None."""
    return default if value is None else value


def unpack(sequence: Any, count: int) -> tuple[Any, ...]:
    """The elements of a sequence. Another number of them than `count` is a ValueError."""
    values = tuple(sequence)
    if len(values) != count:
        few = "not enough values" if len(values) < count else "too many values"
        found = f"expected {count}, got {len(values)}" if len(values) < count else f"expected {count}"
        raise ValueError(f"{few} to unpack ({found})")
    return values
