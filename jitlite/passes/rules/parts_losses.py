"""What losses and distances are made of. How to read them: see `composites.py`."""

from __future__ import annotations

import math

from jitlite.ir.graph import Node
from jitlite.passes.rules.composites import both, declare_parts, known, rank_of
from jitlite.passes.rules.formula import Formula, Sym, call, constants
from jitlite.passes.rules.gradients_losses import reduced, reduces

# -- distances


def _cosine(f: Formula) -> list[Sym]:
    """Both norms are at least `eps`, which autograd does not see."""
    dim = [f.constant("dim")]
    shape = call(f.before, "prim::BroadcastSizes", f.size(f.x1), f.size(f.x2))
    parts = []
    for x in (f.x1, f.x2):
        x = x.expand(shape)
        length = x.norm(2, dim, True)
        parts.append(x / (length + (length.clamp_min(f.eps) - length).detach()))
    return [(parts[0] * parts[1]).sum(dim)]


def _pairwise(f: Formula) -> list[Sym]:
    return [(f.x1 - f.x2 + f.eps).norm(f.p, [-1], f.keepdim)]


declare_parts("cosine_similarity", _cosine, both(known("x1", "x2"), constants("dim")))
declare_parts("pairwise_distance", _pairwise, both(known("x1", "x2"), constants("p", "keepdim")))

# -- losses


def _poisson(f: Formula) -> list[Sym]:
    if f.constant("log_input"):
        loss = f.input.exp() - f.target * f.input
    else:
        loss = f.input - f.target * (f.input + f.eps).log()
    if f.constant("full"):
        stirling = f.target * f.target.log() - f.target + 0.5 * (2 * math.pi * f.target).log()
        loss = loss + stirling.masked_fill(f.target.le(1), 0)
    return [reduced(f, loss)]


def _is_known(node: Node) -> bool:
    return reduces(node) and constants("log_input", "full")(node)


declare_parts("poisson_nll_loss", _poisson, both(known("input", "target"), _is_known))


def _of_angles(f: Formula) -> list[Sym]:
    """The distance of those that are to be alike, and how far beyond the margin the others are alike."""
    dim = [1]
    a, b = f.input1, f.input2
    dot = (a * b).sum(dim)
    lengths = [(x * x).sum(dim) + 1e-12 for x in (a, b)]
    cosine = dot / (lengths[0] * lengths[1]).sqrt()
    alike = f.target.eq(1).where(1 - cosine, 0)
    apart = f.target.eq(-1).where((cosine - f.margin).clamp_min(0), 0)
    return [reduced(f, alike + apart)]


def _of_sides(f: Formula) -> list[Sym]:
    """Nothing where the first is larger by the margin, or smaller, as the target says."""
    return [reduced(f, (-f.target * (f.input1 - f.input2) + f.margin).clamp_min(0))]


def _is_matrix_pair(node: Node) -> bool:
    return reduces(node) and [rank_of(v.type) for v in node.inputs[:3]] == [2, 2, 1]


declare_parts("cosine_embedding_loss", _of_angles,
              both(known("input1", "input2"), known("target", alike=False), _is_matrix_pair))  # fmt: skip
declare_parts("margin_ranking_loss", _of_sides, both(known("input1", "input2", "target"), reduces))


def _of_signs(f: Formula) -> list[Sym]:
    near = f.target.ne(1).where((-f.self + f.margin).clamp_min(0), 0)
    return [reduced(f, near + f.target.ne(-1).where(f.self, 0))]


declare_parts("hinge_embedding_loss", _of_signs, both(known("self", "target"), reduces))
