"""What values are, in few words: for the debugger, for errors of running programs, and for the report."""

from __future__ import annotations

import reprlib
from itertools import islice

import torch

from jitlite.ir.types import TensorType

_MOST_ITEMS = 3
"""Items of a list or dict that are told."""
_MOST_CHARACTERS = 40
"""Characters of a string that are told."""
_MOST_BITS = 64
"""Of a number whose digits are told."""
DESCRIBED_TENSORS = (torch.Tensor, torch.nn.Parameter)
"""Classes whose objects errors describe; what others say of themselves is a program's."""
_LONGEST_REPR = 1200
"""Characters of a value's own text that are shown, each of whose items takes one at least."""
_MOST_LINES = 20
"""Lines of it."""


def tensor_in_brief(tensor: torch.Tensor) -> str:
    """The dtype and the sizes of a tensor: `float32[2, 3]`."""
    with torch._C.DisableTorchFunction():
        sizes = "[nested]" if tensor.is_nested else list(tensor.shape)
        return f"{str(tensor.dtype).removeprefix('torch.')}{sizes}"


def in_brief(value: object) -> str:
    """What `in_words` says, and of a tensor on its own only dtype and sizes."""
    return tensor_in_brief(value) if isinstance(value, torch.Tensor) else in_words(value)


def in_words(value: object, depth: int = 2) -> str:
    """What a value is, in a few words: the type of a tensor with its sizes, a number, the items of a container."""
    if isinstance(value, torch.Tensor):
        return "a nested tensor" if value.is_nested else str(TensorType.from_tensor(value))
    if isinstance(value, list | tuple | dict):
        head = f"{type(value).__name__} of {len(value)}"
        return head + _items(value, depth - 1) if depth and value else head
    if type(value) is int and value.bit_length() > _MOST_BITS:
        return f"an int of {value.bit_length()} bits"
    if type(value) is str:
        return repr(value) if len(value) <= _MOST_CHARACTERS else f"{value[:_MOST_CHARACTERS]!r}…"
    if value is None or type(value) in (bool, int, float, complex):
        return repr(value)
    return f"an object of {type(value).__qualname__}"


def _items(values: list[object] | tuple[object, ...] | dict[object, object], depth: int) -> str:
    """The first items of a container."""
    if isinstance(values, dict):
        found = [f"{in_words(k, depth)}: {in_words(v, depth)}" for k, v in islice(values.items(), _MOST_ITEMS)]
    else:
        found = [in_words(value, depth) for value in islice(values, _MOST_ITEMS)]
    return f": {', '.join(found)}{', …' if len(values) > _MOST_ITEMS else ''}"


class _ShortRepr(reprlib.Repr):
    """The text of a value in which each part is cut: containers after some items, tensors to what they are."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother, self.maxlong = 4, 60, 200, 80
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = 6

    def repr1(self, value: object, level: int) -> str:
        if isinstance(value, torch.Tensor):
            return f"<{tensor_in_brief(value)}>"
        if isinstance(value, torch.nn.Module):
            return f"<{type(value).__qualname__}>"
        return super().repr1(value, level)


_SHORT = _ShortRepr()


def short_repr(value: object) -> str:
    """A value's own text where that is short, else the beginning of each of its parts."""
    if _has_few_parts(value):
        own = repr(value)
        if isinstance(value, torch.Tensor) or (len(own) <= _LONGEST_REPR and own.count("\n") < _MOST_LINES):
            return own
    return _SHORT.repr(value)


def _has_few_parts(value: object) -> bool:
    """Are there few enough items in it, and in them, that its own text may be short?"""
    pending, count = [value], 0
    while pending:
        found = pending.pop()
        count += 1
        if isinstance(found, list | tuple | set | frozenset | dict):
            count += len(found)
            if count <= _LONGEST_REPR:
                pending += found.values() if isinstance(found, dict) else found
        if count > _LONGEST_REPR:
            return False
    return True
