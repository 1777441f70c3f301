"""Operators written as several simpler ones.

`DECOMPOSITIONS` has a graph for an overload, as text: its parameters are the operator's arguments. `decomposition_of`
finds it, and what `register` added. Numbers may be rounded otherwise.

`PARTS` is for `decompose_ops`: a pattern, a replacement, and when the two give the same dtype and shape.
"""

from __future__ import annotations

from collections.abc import Callable

from jitlite.analysis import promotion
from jitlite.ir.graph import Graph
from jitlite.ir.match import Match
from jitlite.ir.ops import Op
from jitlite.ir.parser import parse

DECOMPOSITIONS: dict[str, str] = {
    "aten::var": """
graph(%self : Tensor, %unbiased : bool):
  %none : NoneType = prim::Constant()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %mean : Tensor = aten::mean(%self, %none)
  %far : Tensor = aten::sub(%self, %mean, %one)
  %distance : Tensor = aten::abs(%far)
  %square : Tensor = aten::pow(%distance, %two)
  %sum : Tensor = aten::sum(%square, %none)
  %count : int = aten::numel(%self)
  %less : int = aten::Int(%unbiased)
  %zero : int = prim::Constant[value=0]()
  %free : int = aten::sub(%count, %less)
  %divisor : int = prim::max(%free, %zero)
  %var : Tensor = aten::div(%sum, %divisor)
  return (%var)""",
    "aten::std": """
graph(%self : Tensor, %unbiased : bool):
  %var : Tensor = aten::var(%self, %unbiased)
  %std : Tensor = aten::sqrt(%var)
  return (%std)""",
    "aten::square": """
graph(%self : Tensor):
  %two : int = prim::Constant[value=2]()
  %square : Tensor = aten::pow(%self, %two)
  return (%square)""",
}
"""The graph by the operator's name, with the overload's behind a dot if it has one."""

_registered: dict[str, Graph] = {}
_parsed: dict[str, Graph] = {}


def register(name: str, graph: Graph) -> None:
    """Let an overload, `aten::square` or `aten::add.Tensor`, be decomposed into a graph of the user's."""
    _registered[name] = graph.copy()


def decomposition_of(op: Op) -> Graph | None:
    """The graph that does what the operator does."""
    name = op.schema.name if not op.schema.overload else f"{op.schema.name}.{op.schema.overload}"
    found = _registered.get(name)
    if found is None and name in DECOMPOSITIONS:
        found = _parsed.get(name)
        if found is None:
            found = _parsed[name] = parse(DECOMPOSITIONS[name])
    return found


# -- parts of layers


def _has_one_dtype(match: Match, names: str) -> bool:
    dtypes = {promotion.dtype_of(match[name]) for name in names}
    return len(dtypes) == 1 and None not in dtypes


def _is_product_plus_term(match: Match) -> bool:
    """Does the term of `addmm` broadcast to the product, all of one dtype?"""
    left, right, term = (promotion.sizes_of(match[name]) for name in "abc")
    if left is None or right is None or term is None or len(left) != 2 or len(right) != 2 or len(term) > 2:
        return False
    ends = zip((right[1], left[0]), reversed(term), strict=False)
    return _has_one_dtype(match, "abc") and all(n == 1 or (n is not None and n == own) for own, n in ends)


def _has_vector_bias(match: Match) -> bool:
    """Is the bias of `linear` a vector, the weight a matrix, all of one dtype?"""
    weight, bias = promotion.sizes_of(match["w"]), promotion.sizes_of(match["b"])
    if weight is None or bias is None or len(weight) != 2 or len(bias) != 1 or weight[0] is None:
        return False
    return weight[0] == bias[0] and _has_one_dtype(match, "xwb")


def _has_affine_parts(match: Match) -> bool:
    """Have weight and bias of `layer_norm` the same shape, which is that of the last dimensions, and one dtype?"""
    given, weight, bias = (promotion.sizes_of(match[name]) for name in "xwb")
    if given is None or not weight or weight != bias or None in weight or len(given) < len(weight):
        return False
    return given[-len(weight) :] == weight and _has_one_dtype(match, "xwb")


PARTS: tuple[tuple[str, str, Callable[[Match], bool]], ...] = (
    (
        """
graph(%c, %a, %b):
  %one : int = prim::Constant[value=1]()
  %r : Tensor = aten::addmm(%c, %a, %b, %one, %one)
  return (%r)""",
        """
graph(%c, %a, %b):
  %one : int = prim::Constant[value=1]()
  %p : Tensor = aten::mm(%a, %b)
  %r : Tensor = aten::add(%p, %c, %one)
  return (%r)""",
        _is_product_plus_term,
    ),
    (
        """
graph(%x, %w, %b):
  %r : Tensor = aten::linear(%x, %w, %b)
  return (%r)""",
        """
graph(%x, %w, %b):
  %one : int = prim::Constant[value=1]()
  %t : Tensor = aten::t(%w)
  %p : Tensor = aten::matmul(%x, %t)
  %r : Tensor = aten::add(%p, %b, %one)
  return (%r)""",
        _has_vector_bias,
    ),
    (
        """
graph(%x, %shape : int[], %w, %b, %eps : float, %cudnn : bool):
  %r : Tensor = aten::layer_norm(%x, %shape, %w, %b, %eps, %cudnn)
  return (%r)""",
        """
graph(%x, %shape : int[], %w, %b, %eps : float, %cudnn : bool):
  %none : NoneType = prim::Constant()
  %one : int = prim::Constant[value=1]()
  %n : Tensor = aten::layer_norm(%x, %shape, %none, %none, %eps, %cudnn)
  %m : Tensor = aten::mul(%n, %w)
  %r : Tensor = aten::add(%m, %b, %one)
  return (%r)""",
        _has_affine_parts,
    ),
)
"""Pattern, replacement, condition."""
