"""Rules for the sizes of results, one for an operator or a family of them.

A rule is given the call, with what is known about its arguments, and gives the dimensions of each result: a tuple of
ints and symbols, None where nothing is known, or a list of such tuples for a list of tensors. It raises `Unclear` where
it cannot say anything. What it says is true of every call that succeeds; of one that raises, nothing need be true.

This file has views, joins and splits, reductions, gathers and builders of tensors; `shapes_nn.py` has products,
convolutions, pools and losses. `shape_call.py` has what rules are given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from jitlite.operators.shape_call import Dims, Rule, ShapeCall, Sizes, Unclear, as_size, broadcast, dims_of, same
from jitlite.operators.tensor_lattice import Dim, Fact, Symbol, TensorFact, is_listed

_LONGEST_LIST = 64
"""Of longer lists of tensors, the elements are not told apart."""


# -- operators element by element


def pointwise(call: ShapeCall) -> Sequence[Sizes]:
    """Every result has the sizes that the tensors given are expanded to."""
    shapes = []
    for argument in call.op.schema.arguments:
        fact = call.fact(argument.name)
        if isinstance(fact, TensorFact):
            shapes.append(dims_of(fact))
        elif "Tensor" in str(argument.declared_type) and fact is not None:
            raise Unclear
    return [broadcast(call, shapes)] * len(call.op.schema.returns)


def like_first(call: ShapeCall) -> Sequence[Sizes]:
    return [call.dims()] * len(call.op.schema.returns)


def _batch_norm(call: ShapeCall) -> Sequence[Sizes]:
    """The result is like the first argument, and statistics are vectors: of the channels, or empty."""
    statistics = [(call.symbols.fresh(),) for _ in call.op.schema.returns[1:]]
    return [call.dims(), *statistics]


def like(name: str) -> Rule:
    return lambda call: [call.dims(name)] * len(call.op.schema.returns)


# -- views


def _size_of_rest(call: ShapeCall, wanted: Sequence[object], known: list[Dim]) -> Dim:
    """The size that is written -1."""
    own = call.fact("self")
    may_be_rest = any(isinstance(s, Symbol) and not s.is_size for s in wanted)
    dims = own.dims if isinstance(own, TensorFact) and not may_be_rest else None
    return call.symbols.fresh() if dims is None else _rest(call, dims, known)


def _view(call: ShapeCall) -> Sequence[Sizes]:
    wanted = call.items("size" if call.has("size") else "shape")
    sizes: list[Dim | None] = [None if s == -1 and type(s) is int else as_size(s, call.symbols) for s in wanted]
    if sizes.count(None) > 1:
        raise Unclear
    known = [s for s in sizes if s is not None]
    if None not in sizes:
        return [tuple(known)]
    rest = _size_of_rest(call, wanted, known)
    at = sizes.index(None)
    return [(*known[:at], rest, *known[at:])]


def _rest(call: ShapeCall, dims: Dims, known: list[Dim]) -> Dim:
    """What is left of the product of `dims` without that of `known`."""
    left = list(dims)
    divisors = []
    for dim in known:
        if isinstance(dim, Symbol) and dim in left:
            left.remove(dim)  # if it is 0, the view fails
        else:
            divisors.append(dim)
    return call.compute("floordiv", call.product(left), call.product(divisors))


def _expand(call: ShapeCall) -> Sequence[Sizes]:
    dims, wanted = call.dims(), call.items("size")
    added = len(wanted) - len(dims)
    if added < 0:
        raise Unclear
    padded = (None,) * added + dims
    sizes = []
    for size, own in zip(wanted, padded, strict=True):
        if size == -1 and type(size) is int:
            if own is None:
                raise Unclear
            sizes.append(own)
        else:
            sizes.append(as_size(size, call.symbols))
    return [tuple(sizes)]


def _permute(call: ShapeCall) -> Sequence[Sizes]:
    dims = call.dims()
    order = [d for d in call.items("dims") if type(d) is int]
    if len(order) != len(dims):
        raise Unclear
    return [tuple(dims[call.wrap(d, len(dims))] for d in order)]


def _transpose(call: ShapeCall) -> Sequence[Sizes]:
    dims = list(call.dims())
    names = ("dim0", "dim1") if call.has("dim0") else ("axis0", "axis1")
    a, b = (call.wrap(call.number(name), len(dims)) for name in names)
    if dims:
        dims[a], dims[b] = dims[b], dims[a]
    return [tuple(dims)]


def _reversed(call: ShapeCall) -> Sequence[Sizes]:
    return [call.dims()[::-1]]


def _last_two_swapped(call: ShapeCall) -> Sequence[Sizes]:
    dims = call.dims()
    return [dims if len(dims) < 2 else (*dims[:-2], dims[-1], dims[-2])]


def _given_dims(call: ShapeCall, count: int) -> Sequence[int]:
    """The dimensions in the argument `dim`, one or several."""
    given = call.fact("dim")
    numbers = given if is_listed(given) else (given,)
    if not all(type(n) is int for n in numbers):
        raise Unclear
    return [call.wrap(n, count) for n in numbers]


def _squeeze(call: ShapeCall) -> Sequence[Sizes]:
    dims = call.dims()
    chosen = _given_dims(call, len(dims)) if call.has("dim") else range(len(dims))
    if any(isinstance(dims[d], Symbol) for d in chosen if dims):
        raise Unclear
    return [tuple(d for i, d in enumerate(dims) if i not in chosen or d != 1)]


def _unsqueeze(call: ShapeCall) -> Sequence[Sizes]:
    dims = list(call.dims())
    dims.insert(call.wrap(call.number("dim"), len(dims) + 1), 1)
    return [tuple(dims)]


def _flatten(call: ShapeCall) -> Sequence[Sizes]:
    dims = call.dims()
    start, end = (call.wrap(call.number(n), len(dims)) for n in ("start_dim", "end_dim"))
    if start > end:
        raise Unclear
    return [(*dims[:start], call.product(dims[start : end + 1]), *dims[end + 1 :])]


def _unflatten(call: ShapeCall) -> Sequence[Sizes]:
    dims = call.dims()
    dim = call.wrap(call.number("dim"), len(dims))
    sizes = call.items("sizes")
    parts = [call.symbols.fresh() if s == -1 else as_size(s, call.symbols) for s in sizes]
    return [(*dims[:dim], *parts, *dims[dim + 1 :])]


def _select(call: ShapeCall) -> Sequence[Sizes]:
    dims = call.dims()
    dim = call.wrap(call.number("dim"), len(dims))
    return [dims[:dim] + dims[dim + 1 :]]


def replaced(dims: Dims, dim: int, size: Dim) -> Dims:
    return (*dims[:dim], size, *dims[dim + 1 :])


def _slice(call: ShapeCall) -> Sequence[Sizes]:
    dims = call.dims()
    dim = call.wrap(call.number("dim"), len(dims))
    if not dims:
        raise Unclear
    bounds = [call.fact(n) for n in ("start", "end", "step")]
    size = dims[dim]
    if _is_whole(*bounds):
        return [dims]
    if isinstance(size, int) and all(b is None or type(b) is int for b in bounds):
        return [replaced(dims, dim, len(range(size)[slice(*bounds)]))]
    return [replaced(dims, dim, call.symbols.fresh())]


def _is_whole(start: Fact, end: Fact, step: Fact) -> bool:
    """Does a slice with these bounds take all there is?"""
    is_start = start is None or (type(start) is int and start == 0)
    is_end = end is None or (type(end) is int and end >= 2**62)
    return is_start and is_end and type(step) is int and step == 1


def _narrow(call: ShapeCall) -> Sequence[Sizes]:
    dims = call.dims()
    return [replaced(dims, call.wrap(call.number("dim"), len(dims)), as_size(call.fact("length"), call.symbols))]


def _repeat(call: ShapeCall) -> Sequence[Sizes]:
    dims, repeats = call.dims(), call.items("repeats")
    if len(repeats) < len(dims):
        raise Unclear
    padded = (1,) * (len(repeats) - len(dims)) + dims
    return [tuple(call.compute("mul", d, as_size(r, call.symbols)) for d, r in zip(padded, repeats, strict=True))]


# -- joins and splits


def _common_tensors(call: ShapeCall) -> list[Dims]:
    shapes = [dims_of(f) for f in call.items("tensors")]
    if not shapes or len({len(s) for s in shapes}) > 1:
        raise Unclear
    return shapes


def _merged(shapes: Sequence[Dims]) -> list[Dim]:
    merged = list(shapes[0])
    for dims in shapes[1:]:
        merged = [same(a, b) for a, b in zip(merged, dims, strict=True)]
    return merged


def _cat(call: ShapeCall) -> Sequence[Sizes]:
    shapes = [dims_of(f) for f in call.items("tensors")]
    rank = max(map(len, shapes), default=0)
    if rank > 1:
        shapes = [s for s in shapes if len(s) != 1]  # they are of size (0,), and are left out
    if not rank or any(len(s) != rank for s in shapes):
        raise Unclear
    dim = call.wrap(call.number("dim"), rank)
    total: Dim = 0
    for dims in shapes:
        total = call.compute("add", total, dims[dim])
    rest = _merged([replaced(dims, dim, 0) for dims in shapes])
    return [replaced(tuple(rest), dim, total)]


def _stack(call: ShapeCall) -> Sequence[Sizes]:
    shapes = _common_tensors(call)
    merged = _merged(shapes)
    merged.insert(call.wrap(call.number("dim"), len(merged) + 1), len(shapes))
    return [tuple(merged)]


def _pieces(call: ShapeCall, sizes: Sequence[Dim]) -> Sequence[Sizes]:
    dims = call.dims()
    if len(sizes) > _LONGEST_LIST:
        raise Unclear
    dim = call.wrap(call.number("dim"), len(dims))
    return [[replaced(dims, dim, size) for size in sizes]]


def _size_to_cut(call: ShapeCall) -> int:
    dims = call.dims()
    if not dims:
        raise Unclear
    size = dims[call.wrap(call.number("dim"), len(dims))]
    if not isinstance(size, int):
        raise Unclear
    return size


def _split(call: ShapeCall) -> Sequence[Sizes]:
    name = "split_size" if call.has("split_size") else "split_sizes"
    given = call.fact(name)
    if is_listed(given):
        return _pieces(call, [as_size(s, call.symbols) for s in given])
    return _pieces(call, _cut(_size_to_cut(call), call.number(name)))


def _cut(total: int, size: int) -> list[int]:
    if size <= 0:
        raise Unclear
    return [min(size, total - start) for start in range(0, total, size)] or [0]


def _chunk(call: ShapeCall) -> Sequence[Sizes]:
    total, count = _size_to_cut(call), call.number("chunks")
    if count <= 0:
        raise Unclear
    size = -(-total // count)
    return _pieces(call, _cut(total, size) if size else [0] * count)


def _unbind(call: ShapeCall) -> Sequence[Sizes]:
    dims, size = call.dims(), _size_to_cut(call)
    dim = call.wrap(call.number("dim"), len(dims))
    if size > _LONGEST_LIST:
        raise Unclear
    return [[dims[:dim] + dims[dim + 1 :]] * size]


# -- reductions


def _reduce(call: ShapeCall) -> Sequence[Sizes]:
    dims = call.dims()
    chosen = _reduced_dims(call, len(dims))
    keep = call.flag("keepdim") if call.has("keepdim") else False
    sizes: Dims = tuple(1 if i in chosen else d for i, d in enumerate(dims) if keep or i not in chosen)
    return [sizes] * len(call.op.schema.returns)


def _reduced_dims(call: ShapeCall, rank: int) -> Sequence[int]:
    name = next((n for n in ("dim", "axis", "dims") if call.has(n)), None)
    given = None if name is None else call.fact(name)
    if given is None or given == ():
        return range(rank)
    numbers = given if is_listed(given) else (given,)
    if not all(type(n) is int for n in numbers):
        raise Unclear
    return [call.wrap(n, rank) for n in numbers]


def _top(call: ShapeCall) -> Sequence[Sizes]:
    dims = call.dims()
    dim = call.wrap(call.number("dim"), len(dims))
    return [replaced(dims, dim, as_size(call.fact("k"), call.symbols)) if dims else ()] * 2


# -- gathers


def _index_select(call: ShapeCall) -> Sequence[Sizes]:
    dims, index = call.dims(), call.dims("index")
    if not dims:
        return [()]
    return [replaced(dims, call.wrap(call.number("dim"), len(dims)), index[0] if index else 1)]


def _embedding(call: ShapeCall) -> Sequence[Sizes]:
    weight = call.dims("weight")
    return [(*call.dims("indices"), *weight[1:])]


def _holds_positions(index: object) -> bool:
    return isinstance(index, TensorFact) and index.dtype in (torch.int64, torch.int32)


def _index(call: ShapeCall) -> Sequence[Sizes]:
    dims, indices = call.dims(), call.items("indices")
    places = [i for i, index in enumerate(indices) if index is not None]
    if len(indices) > len(dims) or not all(_holds_positions(indices[place]) for place in places):
        raise Unclear
    if not places:
        return [dims]
    found = broadcast(call, [dims_of(indices[p]) for p in places])
    rest = tuple(d for i, d in enumerate(dims) if i not in places)
    together = places == list(range(places[0], places[-1] + 1))
    at = places[0] if together else 0
    return [(*rest[:at], *found, *rest[at:])]


def _nonzero(call: ShapeCall) -> Sequence[Sizes]:
    return [(call.symbols.fresh(), len(call.dims()))]


def _some(call: ShapeCall) -> Sequence[Sizes]:
    return [(call.symbols.fresh(),)]


# -- builders of tensors


def _sized(call: ShapeCall) -> Sequence[Sizes]:
    return [tuple(as_size(s, call.symbols) for s in call.items("size"))]


def _eye(call: ShapeCall) -> Sequence[Sizes]:
    rows = as_size(call.fact("n"), call.symbols)
    return [(rows, as_size(call.fact("m"), call.symbols) if call.has("m") else rows)]


def _arange(call: ShapeCall) -> Sequence[Sizes]:
    start: Any
    end: Any
    step: Any
    start, end, step = (call.fact(n) if call.has(n) else d for n, d in (("start", 0), ("end", None), ("step", 1)))
    if isinstance(end, Symbol) and end.is_size and (start, step) == (0, 1):
        return [(end,)]
    some = call.symbols.fresh()
    kinds = {type(b) for b in (start, end, step)}
    if not kinds <= {int, float} or step == 0:
        return [(some,)]
    if kinds == {int}:
        return [(max(0, -((start - end) // step)),)]
    if not _counts_floats(call):
        return [(some,)]
    size = math.ceil((end - start) / step)
    return [(size if size >= 0 else some,)]


def _counts_floats(call: ShapeCall) -> bool:
    """Is what `arange` makes of floats? Ints are counted after the bounds have been rounded."""
    dtype = call.fact("dtype") if call.has("dtype") else None
    return dtype is None or (isinstance(dtype, torch.dtype) and dtype.is_floating_point)


def _steps(name: str) -> Rule:
    return lambda call: [(as_size(call.fact(name), call.symbols),)]


def _rules(names: str, rule: Rule) -> dict[str, Rule]:
    return {f"aten::{name}": rule for name in names.split()}


RULES: dict[str, Rule] = {
    **_rules("view reshape _unsafe_view view_copy", _view),
    **_rules("view_as reshape_as expand_as", like("other")),
    **_rules("expand broadcast_to", _expand),
    **_rules("permute", _permute),
    **_rules("transpose swapaxes swapdims", _transpose),
    **_rules("t numpy_T", _reversed),
    **_rules("mT mH H adjoint", _last_two_swapped),
    **_rules("squeeze", _squeeze),
    **_rules("unsqueeze", _unsqueeze),
    **_rules("flatten", _flatten),
    **_rules("unflatten", _unflatten),
    **_rules("select", _select),
    **_rules("slice", _slice),
    **_rules("narrow", _narrow),
    **_rules("repeat", _repeat),
    **_rules("cat concat concatenate", _cat),
    **_rules("stack", _stack),
    **_rules("split split_with_sizes", _split),
    **_rules("chunk", _chunk),
    **_rules("unbind", _unbind),
    **_rules(
        "sum mean prod amax amin argmax argmin any all std var std_mean var_mean norm logsumexp median nanmedian mode "
        "nansum nanmean count_nonzero linalg_vector_norm kthvalue max min aminmax",
        _reduce,
    ),
    **_rules("topk", _top),
    **_rules("gather", like("index")),
    **_rules("take", like("index")),
    **_rules("index_select", _index_select),
    **_rules("embedding", _embedding),
    **_rules("index", _index),
    **_rules("masked_scatter", lambda call: [broadcast(call, [call.dims(), call.dims("mask")])]),
    **_rules("nonzero argwhere", _nonzero),
    **_rules("masked_select", _some),
    **_rules("zeros ones empty full rand randn randint normal new_zeros new_ones new_empty new_full", _sized),
    **_rules("eye", _eye),
    **_rules("arange", _arange),
    **_rules("linspace logspace", _steps("steps")),
    **_rules("randperm", _steps("n")),
    **_rules(
        "softmax log_softmax _softmax _log_softmax cumsum cumprod cummax cummin logcumsumexp dropout feature_dropout "
        "alpha_dropout feature_alpha_dropout native_dropout clone contiguous detach to type_as _to_copy zeros_like "
        "ones_like empty_like full_like rand_like randn_like randint_like triu tril flip fliplr flipud roll sort "
        "argsort renorm index_fill index_add index_copy index_put _unsafe_index_put scatter scatter_add scatter_reduce "
        "bernoulli rrelu prelu cpu cuda alias lift_fresh fill relu relu6 hardtanh gelu celu elu selu "
        "silu mish hardswish hardsigmoid leaky_relu nan_to_num square data layer_norm "
        "batch_norm instance_norm group_norm",
        like_first,
    ),
    **_rules("native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training", _batch_norm),
}  # fmt: skip
"""By kind. An operator that torch says works element by element has the rule `pointwise`, unless it is here."""
