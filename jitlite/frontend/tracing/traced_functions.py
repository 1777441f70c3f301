"""Sizes that torch's functions take for tensors while a trace is going on.

Under torch's own tracer sizes are tensors, so code that asks whether it is traced stacks them, or takes the smaller of
a size and a tensor. Here they are numbers: where a function of torch refuses one, it gets the number as a tensor. And
`torch.tensor` of sizes is made of operators, so that the trace follows them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch

from jitlite.base.tracing_state import current
from jitlite.frontend.tracing.traced_numbers import node_of

_NUMBERS: tuple[Any, ...] = (torch.SymInt, torch.SymFloat, torch.SymBool)
_torch_tensor, _torch_as_tensor = torch.tensor, torch.as_tensor
_torch_new_tensor: Any = torch.Tensor.new_tensor


def _taking_numbers(function: Callable[..., object]) -> Callable[..., object]:
    """A function of torch; where it refuses numbers that the trace follows, it gets tensors in their place."""

    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError:
            if current.tracer is None or not _has_numbers([*args, *kwargs.values()]):
                raise
        if args:
            with suppress(TypeError):
                return function(as_tensors(args[0]), *args[1:], **kwargs)
        return function(*map(as_tensors, args), **{name: as_tensors(a) for name, a in kwargs.items()})

    return call


def as_tensors(argument: Any) -> object:
    """The argument with tensors for the numbers that the trace follows, also in lists and tuples."""
    if isinstance(argument, _NUMBERS):
        node = node_of(argument)
        if node is not None:
            return node.recorder.number_as_tensor(node)
        dtype = _DTYPES.get(type(argument))
        return torch.scalar_tensor(argument, dtype=dtype or torch.get_default_dtype())
    if type(argument) in (list, tuple):
        return type(argument)(map(as_tensors, argument))
    return argument


_DTYPES: dict[object, torch.dtype] = {torch.SymInt: torch.int64, torch.SymBool: torch.bool}


def method_of_tensor(number: object, name: str) -> Any:
    """An attribute that numbers do not have and tensors do."""
    if name == "node" or name.startswith("__") or current.tracer is None:
        raise AttributeError(f"'{type(number).__name__}' object has no attribute '{name}'")
    return getattr(as_tensors(number), name)


# -- torch.tensor


@functools.wraps(torch.tensor)
def _tensor(
    data: object, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **options: Any
) -> object:
    if current.tracer is None or current.tracer.paused or not _is_followed(data):
        return _torch_tensor(data, dtype=dtype, device=device, requires_grad=requires_grad, **options)
    made = _of_parts(data, dtype, device)
    return made.requires_grad_() if requires_grad else made


@functools.wraps(torch.as_tensor)
def _as_tensor(data: object, dtype: Any = None, device: Any = None) -> object:
    if current.tracer is None or current.tracer.paused or not _is_followed(data):
        return _torch_as_tensor(data, dtype=dtype, device=device)
    return _of_parts(data, dtype, device)


def _has_numbers(data: object) -> bool:
    """Is a number that the trace follows among the elements of nested lists?"""
    return isinstance(data, _NUMBERS) or (isinstance(data, list | tuple) and any(map(_has_numbers, data)))


def new_tensor(self: torch.Tensor, data: object, *, dtype: Any = None, device: Any = None, **options: object) -> object:
    """`Tensor.new_tensor`."""
    if current.tracer is None or current.tracer.paused or not _is_followed(data):
        return _torch_new_tensor(self, data, dtype=dtype, device=device, **options)
    made = _of_parts(data, dtype or self.dtype, self.device if device is None else device)
    return made.requires_grad_() if options.get("requires_grad") else made


def _is_followed(data: object) -> bool:
    """Does the trace follow numbers or tensors among the elements of nested lists?"""
    if isinstance(data, torch.Tensor):
        return False
    return _has_numbers(data) or (isinstance(data, list | tuple) and any(map(_holds_scalar, data)))


def _holds_scalar(data: object) -> bool:
    if isinstance(data, torch.Tensor):
        return data.dim() == 0 and (current.tracer.below_autograd or current.tracer.is_followed(data))
    return isinstance(data, list | tuple) and any(map(_holds_scalar, data))


def _of_parts(data: object, dtype: torch.dtype | None, device: Any) -> torch.Tensor:
    flat, shape = _flattened(data)
    dtype = dtype or _common_dtype(flat)
    parts = [
        n.detach().to(dtype=dtype, device=device)
        if isinstance(n, torch.Tensor)
        else torch.scalar_tensor(n, dtype=dtype, device=device)
        for n in flat
    ]
    return torch.stack(parts).reshape(shape) if shape else parts[0]


def _flattened(data: object) -> tuple[list[Any], list[int]]:
    """The elements of nested lists, and the shape that they have.

    Raises:
        ValueError: the lists are of several lengths.
    """
    if not isinstance(data, list | tuple):
        return [data], []
    parts = [_flattened(part) for part in data]
    if any(shape != parts[0][1] for _, shape in parts):
        raise ValueError("expected sequences of one length, to make a tensor of them")
    return [n for flat, _ in parts for n in flat], [len(data), *parts[0][1]]


def _common_dtype(flat: Sequence[object]) -> torch.dtype:
    kinds: dict[Callable[[object], bool], torch.dtype] = {
        lambda n: isinstance(n, complex): torch.get_default_dtype().to_complex(),
        lambda n: isinstance(n, float | torch.SymFloat): torch.get_default_dtype(),
        lambda n: not isinstance(n, bool | torch.SymBool): torch.int64,
    }
    found = [n.dtype for n in flat if isinstance(n, torch.Tensor)]
    plain = [n for n in flat if not isinstance(n, torch.Tensor)]
    own = next((dtype for is_kind, dtype in kinds.items() if any(map(is_kind, plain))), torch.bool)
    for dtype in found:
        own = torch.promote_types(own, dtype)
    return own


_NAMES = (
    "stack", "cat", "concat", "concatenate", "hstack", "vstack", "dstack", "column_stack", "min", "max", "minimum",
    "maximum", "floor", "ceil", "round", "trunc", "sqrt", "rsqrt", "abs", "neg", "clamp", "clip", "prod", "sum",
    "remainder", "fmod", "floor_divide", "true_divide", "div", "mul", "add", "sub", "pow", "log", "log2", "exp",
    "where", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_not", "atleast_1d", "flatten",
    "reshape",
)  # fmt: skip

FUNCTIONS: dict[str, object] = {
    **{name: _taking_numbers(getattr(torch, name)) for name in _NAMES},
    "tensor": _tensor, "as_tensor": _as_tensor,
}  # fmt: skip
"""Functions of the module torch while a trace is going on. Scripts that are compiled meanwhile see what they wrap."""
_OWN = {made: getattr(torch, name) for name, made in FUNCTIONS.items()}


def own_function(found: object) -> object:
    """torch's own function where one of `FUNCTIONS` stands for it; all else as it is.

    Tables of torch's functions may be made while a trace is going on, and are used long after it.
    """
    try:
        return _OWN.get(found, found)
    except TypeError:  # it cannot be hashed
        return found
