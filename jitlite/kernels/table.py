"""The table of rules, with all of them in it."""

from jitlite.kernels import (
    activations,
    class_losses,
    composites,
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
    running,
    scattering,
    several_views,
    totals,
    views,
    windows,
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
    takes_sizes,
)

__all__ = [
    "MAY_COPY", "NARROW", "RULES", "VIEWS", "WRITES", "Call", "holds_tensors", "is_dtype_argument", "is_tensor_node",
    "takes_sizes",
]  # fmt: skip

HOLDERS = (
    activations, class_losses, composites, factories, gradients, gradients_of_losses, gradients_reduced, indexing,
    lists, losses, matrices, norms, ordering, pointwise, pooling, reading, rearranging, running, scattering,
    several_views, totals, views, windows, writing,
)  # fmt: skip
"""The modules that hold them."""
