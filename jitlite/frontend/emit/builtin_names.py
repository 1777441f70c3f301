"""Which Python callables are operators: `torch.relu` is `aten::relu`, `math.sqrt` is `aten::sqrt`.

The table is built from the modules whose functions are operators by name, and from the pairs below. It is TorchScript's
table, plus Python's `operator` module and methods written as functions (`torch.Tensor.add`).
"""

from __future__ import annotations

import cmath
import functools
import inspect
import math
import operator
import types
import warnings
from collections.abc import Iterator
from typing import Any

import torch
import torch.backends.cudnn
import torch.nn.functional
from torch.nn.modules.utils import _list_with_default, _pair, _quadruple, _single, _triple

from jitlite.base import torch_internals
from jitlite.base.tracing_state import get_tracing_state
from jitlite.frontend.tracing.traced_functions import own_function
from jitlite.ir import ops
from jitlite.ir import types as T
from jitlite.ir.types import Type
from jitlite.operators.overloads import can_call
from jitlite.operators.scalars import PYTHON_3_11_MATH, PYTHON_MATH

_MODULES: tuple[object, ...] = (
    torch,
    *(getattr(torch._C, name) for name in ("_nn", "_fft", "_linalg", "_nested", "_sparse", "_special")),
)
"""A callable `f` of these modules is `aten::f`."""

_MATH = (
    "ceil", "copysign", "erf", "erfc", "exp", "expm1", "fabs", "floor", "gamma", "lgamma", "log", "log10", "log1p",
    "sqrt", "isnan", "asinh", "atanh", "cosh", "sinh", "tanh", "acos", "asin", "atan", "atan2", "cos", "sin",
    "tan", "acosh", "fmod", "modf", "factorial", "frexp", "isinf", "degrees", "radians", "ldexp", "gcd", "isfinite",
)  # fmt: skip
_CMATH = (
    "isnan", "isfinite", "isinf", "log", "log10", "sqrt", "exp", "sin", "tan", "cos", "asin", "acos", "atan", "sinh",
    "cosh", "tanh", "asinh", "acosh", "atanh",
)  # fmt: skip
_VARIABLE_FUNCTIONS = (
    "stft", "istft", "cdist", "norm", "unique_dim", "unique_consecutive", "nuclear_norm", "frobenius_norm",
    "tensordot",
)  # fmt: skip
"""Operators under names that in `torch` itself belong to Python functions around them."""

_COMPILED_FROM_PYTHON = frozenset(
    getattr(torch.functional, name)
    for name in ("stft", "istft", "lu", "cdist", "norm", "unique", "unique_consecutive", "tensordot")
    if hasattr(torch.functional, name)
)
"""Functions of `torch` that are compiled from their Python source."""

PYTHON_METHODS = tuple(
    sorted(f.__name__ for f in _COMPILED_FROM_PYTHON if inspect.isfunction(getattr(torch.Tensor, f.__name__, None)))
)
"""Methods of tensors that call one of these, so that they take other arguments than the operator of their name."""

BINARY_METHODS = {
    "+": "__add__", "-": "__sub__", "*": "__mul__", "/": "__truediv__", "%": "__mod__", "floordiv": "__floordiv__",
    "@": "__matmul__", "pow operator": "__pow__", "<<": "__lshift__", ">>": "__rshift__", "&": "__and__",
    "^": "__xor__", "|": "__or__", "eq": "__eq__", "ne": "__ne__", "<": "__lt__", "le": "__le__", ">": "__gt__",
    "ge": "__ge__",
}  # fmt: skip
"""The special methods of binary operators, by the operator's name in the tree."""

_COMPARISONS = frozenset({"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"})
OPERATOR_METHODS = frozenset(BINARY_METHODS.values()) | {
    f"__r{name[2:]}" for name in BINARY_METHODS.values() if name not in _COMPARISONS
}
"""The special methods of binary operators, with the operands in order and exchanged."""

OTHER_MEANING = frozenset({"stft", "unique_consecutive"})
"""Operators that give something else than the function and the method of their name."""

_WITHOUT_GRAD: tuple[tuple[object, str], ...] = (
    (torch.nn.functional, "_no_grad_embedding_renorm_"), (torch.nn.init, "_no_grad_fill_"),
    (torch.nn.init, "_no_grad_normal_"), (torch.nn.init, "_no_grad_uniform_"), (torch.nn.init, "_no_grad_zero_"),
)  # fmt: skip
"""Functions that run under torch.no_grad(), which a script cannot see into."""

_PYTHON_OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floordiv", "mod": "remainder",
    "pow": "pow", "matmul": "matmul", "neg": "neg", "abs": "abs", "invert": "bitwise_not", "not_": "__not__",
    "and_": "__and__", "or_": "__or__", "xor": "__xor__", "lshift": "__lshift__", "rshift": "__rshift__",
    "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "contains": "__contains__",
}  # fmt: skip

_CUDA = frozenset({
    "current_stream", "default_stream", "current_device", "_exchange_device", "_maybe_exchange_device", "set_device",
    "device_index", "device_count", "set_stream", "synchronize",
})  # fmt: skip
"""Functions of `torch.cuda` that are operators."""


def _pairs() -> Iterator[tuple[Any, str]]:
    """Callables and operators, more important ones later."""
    for name, op in _PYTHON_OPERATORS.items():
        yield getattr(operator, name), f"aten::{op}"
    yield from _by_hand()
    for name in _MATH:
        yield getattr(math, name), f"aten::{name}"
    for name in _CMATH:
        yield getattr(cmath, name), f"aten::{name}"
    for name in _VARIABLE_FUNCTIONS:
        yield getattr(torch._VF, name), f"aten::{name}"
    for module in _MODULES:
        for name in dir(module):
            found = own_function(getattr(module, name))
            if callable(found) and not _is_compiled_from_python(found):
                yield found, f"aten::{'segment_reduce' if name == '_segment_reduce' else name}"


def _by_hand() -> Iterator[tuple[Any, str]]:
    yield math.remainder, "aten::mathremainder"
    yield math.pow, "aten::mathpow"
    for name in (*PYTHON_MATH, *PYTHON_3_11_MATH):
        yield getattr(math, name), f"python::{name}"
    yield cmath.phase, "aten::angle"
    yield cmath.rect, "aten::polar"
    yield _single, "aten::_single"
    yield _pair, "aten::_pair"
    yield _triple, "aten::_triple"
    yield _quadruple, "aten::_quadruple"
    yield _list_with_default, "aten::list_with_default"
    yield torch.backends.cudnn.is_acceptable, "aten::cudnn_is_acceptable"
    yield torch.autograd.grad, "aten::grad"
    yield torch.autograd.backward, "aten::backward"
    yield torch_internals.infer_size, "aten::_infer_size"
    yield torch.nn.functional.assert_int_or_pair, "aten::_assert_int_or_pair"
    yield torch._C._get_tracing_state, "aten::_get_tracing_state"
    yield get_tracing_state, "aten::_get_tracing_state"
    yield torch_internals.cpu_capability, "aten::_get_cpu_capability"
    yield warnings.warn, "aten::warn"
    for module, name in _WITHOUT_GRAD:
        yield getattr(module, name), f"aten::{name}"


@functools.cache
def _table() -> dict[int, tuple[Any, str]]:
    # by identity, as not every callable can be hashed; the callable is kept so that its id is not given to another
    return {id(found): (found, name) for found, name in _pairs()}


def _is_compiled_from_python(found: object) -> bool:
    return inspect.isroutine(found) and found in _COMPILED_FROM_PYTHON


_CUSTOM_OPERATOR = getattr(torch.library, "CustomOpDef", ())
"""The class of what `torch.library.custom_op` makes, in versions of torch that have it."""


def builtin_op_name(found: object) -> str | None:
    """The operator that a Python callable is, as `aten::add`; None if it is none.

    A Python function or a class that merely lives where operators live, with no operator of its name, is none; a
    function in C without an operator is given a name all the same, as there is nothing else that it could be.
    """
    if isinstance(found, torch._ops.OpOverloadPacket):
        return str(found._qualified_op_name)
    if isinstance(found, torch._ops.OpOverload):
        return str(found._schema.name)
    if isinstance(found, _CUSTOM_OPERATOR):
        return str(found._qualname)
    entry = _table().get(id(found))
    if entry is not None:
        name = entry[1]
        return None if (inspect.isfunction(found) or inspect.isclass(found)) and not can_call(name) else name
    if isinstance(found, types.MethodDescriptorType) and issubclass(torch.Tensor, found.__objclass__):
        name = f"aten::{found.__name__}"
        return name if can_call(name) else None
    return None


_NAMESPACES = "torch.ops."


def declared_operator(module: types.ModuleType, name: str) -> str | None:
    """The operator `torch.ops.namespace.name` that torch does not have, but scripts do; None if there is none."""
    if not module.__name__.startswith(_NAMESPACES):
        return None
    qualified = f"{module.__name__.removeprefix(_NAMESPACES)}::{name}"
    return qualified if ops.lookup(qualified) else None


def operators_declared_in(module: types.ModuleType) -> list[str]:
    """The operators that scripts have in the namespace `torch.ops.namespace`, beside those of torch."""
    namespace = f"{module.__name__.removeprefix(_NAMESPACES)}::"
    return [name.removeprefix(namespace) for name in ops.declared_names() if name.startswith(namespace)]


def cuda_op_name(name: str) -> str | None:
    """The operator behind `torch.cuda.<name>`, if it is one."""
    if name not in _CUDA:
        return None
    return f"cuda::_{name}" if name in ("current_device", "set_device") else f"cuda::{name}"


def takes_as_self(name: str, t: Type) -> bool:
    """Has an operator an overload whose `self` may be a value of type `t`?"""
    for op in ops.lookup(name):
        arguments = op.schema.arguments
        position = op.schema.argument_index("self")
        if position is None:
            continue
        bindings: dict[str, Type] = {}
        formal = arguments[position].type
        if T.match_variables(formal, t, bindings) is None and T.is_subtype(t, T.substitute(formal, bindings)):
            return True
    return False
