"""Write products with a transposed weight as `aten::linear`.

    %3 : Tensor = aten::t(%w)
    %4 : Tensor = aten::matmul(%x, %3)       =>    %5 : Tensor = aten::linear(%x, %w, %b)
    %5 : Tensor = aten::add(%4, %b, %1)

Likewise `addmm` with a transposed weight, `add_` to the product, and the product alone. Numbers may be rounded
otherwise, for the bias may be added while multiplying.

The bias must be known (by types or constants) to be a vector as long as the weight has rows, of the dtype of weight and
input: an addition would broadcast, or promote, what `linear` refuses. What may not be moved together stays: see
`passes/rewriting.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from jitlite.analysis import promotion
from jitlite.ir.graph import Graph
from jitlite.ir.match import Match
from jitlite.passes.registry import inexact_pass
from jitlite.passes.rewriting import rewrite


def _takes_bias(match: Match) -> bool:
    """Is the bias a vector of one number for each row of the weight, and is there one dtype?"""
    weight, bias, given = match["w"], match["b"], match["x"]
    shape, length = promotion.sizes_of(weight), promotion.sizes_of(bias)
    if shape is None or len(shape) != 2 or length is None or len(length) != 1:
        return False
    dtypes = {promotion.dtype_of(v) for v in (weight, bias, given)}
    return shape[0] is not None and shape[0] == length[0] and len(dtypes) == 1 and None not in dtypes


def _is_matrix(match: Match) -> bool:
    sizes = promotion.sizes_of(match["w"])
    return sizes is not None and len(sizes) == 2


_WITH_BIAS = """
graph(%x, %w, %b):
  %r : Tensor = aten::linear(%x, %w, %b)
  return (%r)"""

_RULES: tuple[tuple[str, str, Callable[[Match], bool]], ...] = (
    (
        """
graph(%x, %w, %b):
  %one : int = prim::Constant[value=1]()
  %t : Tensor = aten::t(%w)
  %r : Tensor = aten::addmm(%b, %x, %t, %one, %one)
  return (%r)""",
        _WITH_BIAS,
        _takes_bias,
    ),
    *(
        (
            f"""
graph(%x, %w, %b):
  %one : int = prim::Constant[value=1]()
  %t : Tensor = aten::t(%w)
  %p : Tensor = {product}(%x, %t)
  %r : Tensor = {addition}(%p, %b, %one)
  return (%r)""",
            _WITH_BIAS,
            _takes_bias,
        )
        for product in ("aten::matmul", "aten::mm")
        for addition in ("aten::add", "aten::add_")
    ),
    (
        """
graph(%x, %w):
  %t : Tensor = aten::t(%w)
  %r : Tensor = aten::matmul(%x, %t)
  return (%r)""",
        """
graph(%x, %w):
  %none : NoneType = prim::Constant()
  %r : Tensor = aten::linear(%x, %w, %none)
  return (%r)""",
        _is_matrix,
    ),
)
"""Pattern, replacement and condition."""


@inexact_pass
def fuse_linear(graph: Graph) -> bool:
    """Apply the rules, those with a bias first."""
    changed = False
    for pattern, replacement, condition in _RULES:
        changed = rewrite(pattern, replacement, graph, where=condition) or changed
    return changed
