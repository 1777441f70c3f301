"""The classes of Python whose instances are values of a type as they are."""

from __future__ import annotations

import torch

from jitlite.ir import types as T
from jitlite.ir.types import Type

_AS_THEY_ARE: dict[Type, tuple[type, ...]] = {
    T.TENSOR: (torch.Tensor, torch.nn.Parameter),
    T.INT: (int, bool),
    T.FLOAT: (float, int, bool),
    T.BOOL: (bool,),
    T.STRING: (str,),
    T.COMPLEX: (complex, float, int, bool),
    T.NUMBER: (float, int, bool, complex),
    T.DEVICE: (torch.device,),
}


def classes_as_they_are(t: Type) -> tuple[type, ...]:
    """Classes whose instances are never converted where a value of the type is wanted, the commonest first.

    Other values may be of the type as well. There are none for types whose values have parts.
    """
    return _AS_THEY_ARE.get(T.TENSOR if isinstance(t, T.TensorType) else t, ())
