"""`x[index]` of tensors, as Python has it: what an index means that torch has no operators for.

TorchScript takes an index apart: ints, slices and None become views, and all tensors together become one
`aten::index`. Python asks each tensor what it is: one of no dimensions and of integers is an int, one of no dimensions
and of bools adds a dimension, a mask takes several. So an index with tensors in it is one operation here, whose
attribute says how the index is written, with `_` for each operand:

    %y : Tensor = prim::TensorItem[index="_, :, _:"](%x, %i, %n)      # x[i, :, n:]
    prim::SetTensorItem[index="_, _"](%x, %value, %i, %j)             # x[i, j] = value

`parse_index` is the only reader of that text, for all that run, write or lower these operations.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch

from jitlite.ir.code_text import Text, code, fixed
from jitlite.ir.ops import op
from jitlite.ir.traits import Trait

_Tensor = torch.Tensor


class Entry(NamedTuple):
    """What an index says of one place: `kind` is `item` (one operand), `slice`, `None` or `...`.

    Attributes:
        given: for a slice, which of start, stop and step are operands.
    """

    kind: str
    given: tuple[bool, bool, bool] = (False, False, False)

    @property
    def operands(self) -> int:
        return 1 if self.kind == "item" else sum(self.given)

    def filled(self, operands: Iterator[Text]) -> Text:
        """How Python writes the entry, with what its operands are written as."""
        if self.kind == "slice":
            start, stop, step = [next(operands) if g else fixed("") for g in self.given]
            return code("{}:{}:{}", start, stop, step) if self.given[2] else code("{}:{}", start, stop)
        return next(operands) if self.kind == "item" else fixed("None") if self.kind == "None" else fixed("...")


ITEM, NEW_DIMENSION, DOTS, WHOLE = Entry("item"), Entry("None"), Entry("..."), Entry("slice")

_SLICE = re.compile(r"(_?):(_?)(?::(_?))?")


@lru_cache(maxsize=1024)
def parse_index(text: str) -> tuple[Entry, ...]:
    """The entries of the index that an attribute describes.

    Raises:
        ValueError: it describes none.
    """
    return tuple(map(_parse_entry, text.split(", ")))


def _parse_entry(text: str) -> Entry:
    if text == "_":
        return ITEM
    if text in ("None", "..."):
        return Entry(text)
    matched = _SLICE.fullmatch(text)
    if matched is None:
        raise ValueError(f"{text!r} is no entry of an index")
    start, stop, step = (bool(part) for part in matched.groups())
    return Entry("slice", (start, stop, step))


def index_text(entries: Sequence[Entry]) -> str:
    """The text that `parse_index` reads."""
    return ", ".join(entry.filled(itertools.repeat(fixed("_"))) for entry in entries)


def index_of(text: str, operands: Sequence[object]) -> Any:
    """The index itself."""
    left = iter(operands)
    parts: list[Any] = []
    for kind, given in parse_index(text):
        if kind == "item":
            parts.append(next(left))
        elif kind == "slice":
            parts.append(slice(*[next(left) if g else None for g in given]))
        else:
            parts.append(None if kind == "None" else ...)
    return parts[0] if len(parts) == 1 else tuple(parts)


@op("prim::TensorItem(Tensor(a) self, ...) -> Tensor(b|a)")
def tensor_item(self: _Tensor, *operands: object, index: str) -> _Tensor:
    """`self[index]`: a view, or a copy of the elements where a tensor with dimensions is part of the index."""
    return self[index_of(index, operands)]


@op("prim::SetTensorItem(Tensor(a!) self, Tensor value, ...) -> ()")
@op("prim::SetTensorItem.Scalar(Tensor(a!) self, Scalar value, ...) -> ()")
def set_tensor_item(self: _Tensor, value: Any, *operands: Any, index: str) -> None:
    """`self[index] = value`, for a tensor or a number."""
    self[index_of(index, operands)] = value


@op("aten::copy_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", traits=(Trait.NOT_CAST,))
@op("aten::copy_.int(Tensor(a!) self, int other) -> Tensor(a!)")
@op("aten::copy_.float(Tensor(a!) self, float other) -> Tensor(a!)")
@op("aten::copy_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)")
def assign_elements(self: _Tensor, other: Any) -> _Tensor:
    """`self[...] = other`: a tensor may have more dimensions of size 1 in front, a number has to fit the dtype."""
    self[...] = other
    return self


@op("prim::AsElements(Tensor(a) value, Tensor like) -> Tensor(a)")
def as_elements(value: _Tensor, like: _Tensor) -> _Tensor:
    """What `like[...] = value` writes: without dimensions of size 1 in front, and expanded to the shape of `like`."""
    extra = value.dim() - like.dim()
    if extra > 0 and all(n == 1 for n in value.shape[:extra]):
        value = value.reshape(value.shape[extra:])
    return value.expand_as(like)
