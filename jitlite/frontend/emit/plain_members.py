"""The members of torch's class of tensors as C++ has them, while the class Tensor and a mode of torch are a trace's.

A member in C++ asks modes first, and these look the member up in the class Tensor again, where a trace has put its own.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch


class _Plain:
    """The members of torch's class of tensors in C++, as they are without modes: modes would look ours up again."""

    def __getattr__(self, name: str) -> Any:
        member: Any = inspect.getattr_static(torch._C.TensorBase, name)
        is_property = inspect.isdatadescriptor(member)
        read = member.__get__ if is_property else member

        def call(*args: object, **kwargs: object) -> Any:
            with torch._C.DisableTorchFunction():
                return read(*args, **kwargs)

        setattr(self, name, call)
        return call


PLAIN: object = _Plain()
"""`PLAIN.size(tensor, 0)`; what is a property is called, too: `PLAIN.shape(tensor)`."""
