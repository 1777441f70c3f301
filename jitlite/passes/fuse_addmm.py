"""Add to a matrix product while multiplying.

    %3 : Tensor = aten::mm(%a, %b)
    %4 : Tensor = aten::add(%c, %3, %1)      =>    %4 : Tensor = aten::addmm(%c, %a, %b, %1, %1)

Numbers may be rounded otherwise. Types must tell that the term broadcasts to the shape of the product and that there is
one dtype: an addition would broadcast the product, or promote, what `addmm` refuses. What may not be moved together
stays: see `passes/rewriting.py`.
"""

from __future__ import annotations

from jitlite.analysis import promotion
from jitlite.ir.graph import Graph
from jitlite.ir.match import Match
from jitlite.passes.registry import inexact_pass
from jitlite.passes.rewriting import rewrite

_ADDITIONS = ("%c, %p", "%p, %c")

_ADDMM = """
graph(%a, %b, %c):
  %one : int = prim::Constant[value=1]()
  %r : Tensor = aten::addmm(%c, %a, %b, %one, %one)
  return (%r)"""


@inexact_pass
def fuse_addmm(graph: Graph) -> bool:
    """Replace additions to products."""
    changed = False
    for operands in _ADDITIONS:
        pattern = f"""
graph(%a, %b, %c):
  %one : int = prim::Constant[value=1]()
  %p : Tensor = aten::mm(%a, %b)
  %r : Tensor = aten::add({operands}, %one)
  return (%r)"""
        changed = rewrite(pattern, _ADDMM, graph, where=_fits) or changed
    return changed


def _fits(match: Match) -> bool:
    """Does the term broadcast to the product's shape, and is there one dtype?"""
    left, right, term = (promotion.sizes_of(match[name]) for name in "abc")
    dtypes = {promotion.dtype_of(match[name]) for name in "abc"}
    if left is None or right is None or term is None or len(left) != 2 or len(right) != 2 or len(term) > 2:
        return False
    shape = (left[0], right[1])
    ends = zip(reversed(shape), reversed(term), strict=False)
    return len(dtypes) == 1 and None not in dtypes and all(n == 1 or (n is not None and n == own) for own, n in ends)
