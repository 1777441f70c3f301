"""Take apart what layers do, so that the elementwise parts can be fused with others.

    %4 : Tensor = aten::linear(%x, %w, %b)      =>    %2 : Tensor = aten::t(%w)
                                                      %3 : Tensor = aten::matmul(%x, %2)
                                                      %4 : Tensor = aten::add(%3, %b, %1)

`addmm` becomes product and sum, `linear` with a bias likewise, `layer_norm` with weight and bias becomes normalization,
product and sum: the table is `PARTS` in `rules/decompositions.py`. Numbers may be rounded otherwise. Types must tell
shapes and dtypes, for sums broadcast and promote where the layers refuse.
"""

from __future__ import annotations

from jitlite.ir.graph import Graph
from jitlite.passes.registry import inexact_pass
from jitlite.passes.rewriting import rewrite
from jitlite.passes.rules.decompositions import PARTS


@inexact_pass
def decompose_ops(graph: Graph) -> bool:
    """Apply the table."""
    found = [rewrite(pattern, replacement, graph, where=condition) for pattern, replacement, condition in PARTS]
    return any(found)
