"""dtypes and layouts, which programs of archives write as numbers."""

from __future__ import annotations

from typing import Any

import torch

from jitlite.ir import types as T
from jitlite.ir.graph import Graph, constant_of, is_constant
from jitlite.ir.traits import Spelling

DTYPES = (
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
    torch.complex32, torch.complex64, torch.complex128, torch.bool, torch.qint8, torch.quint8, torch.qint32,
    torch.bfloat16, torch.quint4x2, torch.quint2x4,
)  # fmt: skip
"""dtypes by their numbers in programs."""

LAYOUTS: tuple[object, ...] = (
    torch.strided, torch.sparse_coo, torch.sparse_csr, None, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc,
)  # fmt: skip
"""Layouts by their numbers in programs."""

_NUMBERED: dict[str | None, tuple[Any, ...]] = {"dtype": DTYPES, "layout": LAYOUTS}
"""What programs write as a number, by what `Spelling.CODED` says of the operator that gives it."""


def compare_as_objects(graph: Graph, node: Any) -> None:
    """In `x.dtype == 6`, let the number be the dtype that it stands for, as that is what x.dtype is at run time."""
    if node.kind not in ("aten::eq", "aten::ne") or len(node.inputs) != 2:
        return
    for one, other in ((0, 1), (1, 0)):
        meanings = _NUMBERED.get(Spelling.CODED.of(node.inputs[one].node.kind), ())
        value = node.inputs[other]
        number = constant_of(value) if is_constant(value) else None
        if type(number) is int and 0 <= number < len(meanings) and meanings[number] is not None:
            with graph.inserting_before(node):
                named = graph.insert_constant(meanings[number], T.INT, node.range)
            node.replace_input(other, named)
