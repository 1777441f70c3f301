"""What a kernel knows of the tensors of a graph, as types of its values.

Passes over graphs know what follows from the types of inputs. Lowering knows more: what facts say, and which sizes are
the same because operators have asked for that.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from jitlite.ir import types as T
from jitlite.ir.graph import Graph
from jitlite.kernels.decided import name_numbers, settle_branches
from jitlite.kernels.facts import Fact
from jitlite.kernels.loop_ir import Operand, Scalar
from jitlite.kernels.lower import Lowering, lowered
from jitlite.kernels.values import TensorValue
from jitlite.native.regions import NativeRegion

_CPU = torch.device("cpu")


def annotate(graph: Graph, facts: Sequence[Fact]) -> None:
    """Give the tensors of a graph the types that they have where facts hold, and take the branches that these decide.

    Raises:
        NotNative: there is no kernel of the graph for these facts.
    """
    lowering = lowered(NativeRegion.of_block(graph.block), facts, "", gives_tuple=True, is_uniform=True)
    numbers: dict[Operand, int] = {}
    for value, found in lowering.values.items():
        if isinstance(found, TensorValue) and isinstance(value.type, T.TensorType):
            symbols = [_symbol(lowering, size, numbers) for size in found.sizes]
            sizes = [None if isinstance(size, Scalar) else int(size) for size in found.sizes]
            value.type = T.TensorType.of(found.dtype.torch, sizes, None, _CPU, value.type.requires_grad, symbols)
    settle_branches(graph, lowering.values)
    name_numbers(graph, lowering.values)


def _symbol(lowering: Lowering, size: Operand, numbers: dict[Operand, int]) -> int | None:
    known = lowering.canonical(size)
    return numbers.setdefault(known, len(numbers) + 1) if isinstance(known, Scalar) else None
