"""The table of rules, with all of them in it."""

from jitlite.kernels import (
    activations,
    factories,
    gradients,
    gradients_of_losses,
    gradients_reduced,
    indexing,
    lists,
    losses,
    matrices,
    norms,
    ordering,
    pointwise,
    pooling,
    reading,
    rearranging,
    scattering,
    totals,
    views,
    writing,
)
from jitlite.kernels.rules import (
    MAY_COPY,
    NARROW,
    RULES,
    VIEWS,
    WRITES,
    Call,
    holds_tensors,
    is_dtype_argument,
    is_tensor_node,
)

__all__ = [
    "MAY_COPY",
    "NARROW",
    "RULES",
    "VIEWS",
    "WRITES",
    "Call",
    "holds_tensors",
    "is_dtype_argument",
    "is_tensor_node",
]  # fmt: skip

HOLDERS = (
    activations, factories, gradients, gradients_of_losses, gradients_reduced, indexing, lists, losses, matrices, norms,
    ordering, pointwise, pooling, reading, rearranging, scattering, totals, views, writing,
)  # fmt: skip
"""The modules that hold them."""
