"""Ways out where an argument of a call from Python is not of the type of its parameter."""

from __future__ import annotations

import numbers

import torch

from jitlite.ir import types as T
from jitlite.ir.types import Type

_NUMBERS = (T.INT, T.FLOAT, T.COMPLEX, T.BOOL)


def hint_for_argument(t: Type, name: str, value: object) -> str | None:
    """What to pass instead, None where nothing is known."""
    wanted = T.without_none(t)
    if isinstance(value, type) and issubclass(value, torch.nn.Module):
        return f"{value.__name__} is a class: make an object of it, {value.__name__}(...)"
    if wanted is T.TENSOR:
        return _for_a_tensor(name, value)
    if isinstance(value, torch.Tensor):
        if wanted in _NUMBERS:
            return f"pass {name}.item(), if it has one element, or annotate the parameter as a Tensor"
        if isinstance(wanted, T.ListType) and wanted.element in _NUMBERS:
            return f"pass {name}.tolist(), or annotate the parameter as a Tensor"
        return None
    if wanted is T.INT and type(value) is float:
        return f"pass int({name}), which cuts off what stands after the point, or annotate the parameter as a float"
    if wanted in (T.INT, T.FLOAT) and type(value) is str:
        return f"pass {wanted.annotation}({name})"
    if value is None:
        return f"annotate the parameter as Optional[{wanted.annotation}] if it may be None"
    return None


def _for_a_tensor(name: str, value: object) -> str | None:
    is_list = type(value) in (list, tuple)
    if isinstance(value, list | tuple) and value and all(isinstance(v, torch.Tensor) for v in value):
        return f"pass torch.stack({name}) or torch.cat({name}), or annotate the parameter as List[Tensor]"
    if is_list or type(value).__name__ == "ndarray" or isinstance(value, numbers.Number):
        return f"pass torch.as_tensor({name})"
    if isinstance(value, torch.nn.Module):
        return f"pass what it gives for an input, {type(value).__name__.lower()}(x)"
    return None
