"""Sizes, and operators that move elements."""

from __future__ import annotations

import torch

from jitlite.engines.converters import Ref, constants
from jitlite.engines.engine import EngineRefusal
from jitlite.engines.onnx.builder import CONVERTERS, OnnxBuilder

_of = CONVERTERS.of
_END = 2**63 - 1


@_of("aten::size", "aten::sym_size")
def size(out: OnnxBuilder, x: object, dim: object = None) -> Ref:
    given = out.given(x)
    if not isinstance(dim, int):
        raise EngineRefusal("it gives all sizes, or the dimension is no constant")
    at = out.tensor(torch.tensor(dim % max(given.rank, 1)))
    found = out.node("Gather", [out.shape(given), at], torch.int64, 0, axis=0)
    return Ref(found.name, torch.int64, 0, True)


@_of("aten::view", "aten::reshape", "aten::_unsafe_view")
def view(out: OnnxBuilder, x: object, sizes: object) -> Ref:
    if not isinstance(sizes, list):
        raise EngineRefusal("its sizes are not written out")
    return out.result("Reshape", [out.given(x), out.ints(sizes)], allowzero=int(0 in sizes and -1 not in sizes))


@_of("aten::permute")
def permute(out: OnnxBuilder, x: object, dims: object) -> Ref:
    given = out.given(x)
    return out.result("Transpose", [given], perm=[d % given.rank for d in constants(dims)])


@_of("aten::transpose")
def transpose(out: OnnxBuilder, x: object, a: object, b: object) -> Ref:
    given = out.given(x)
    order = list(range(given.rank))
    first, second = (d % max(given.rank, 1) for d in constants([a, b]))
    if order:
        order[first], order[second] = order[second], order[first]
    return out.result("Transpose", [given], perm=order)


@_of("aten::t")
def t(out: OnnxBuilder, x: object) -> Ref:
    given = out.given(x)
    return out.result("Transpose", [given], perm=list(reversed(range(given.rank))))


@_of("aten::unsqueeze")
def unsqueeze(out: OnnxBuilder, x: object, dim: object) -> Ref:
    given = out.given(x)
    return out.result("Unsqueeze", [given, out.ints([d % (given.rank + 1) for d in constants(dim)])])


@_of("aten::squeeze")
def squeeze(out: OnnxBuilder, x: object, dims: object = None) -> Ref:
    given = out.given(x)
    removed = given.rank - out.results[0].rank
    wanted = [dims] if isinstance(dims, int) else dims
    if not isinstance(wanted, list) or removed != len(wanted):
        raise EngineRefusal("which dimensions go depends on sizes")
    return out.result("Squeeze", [given, out.ints([d % given.rank for d in constants(wanted)])])


@_of("aten::expand")
def expand(out: OnnxBuilder, x: object, sizes: object, implicit: object = False) -> Ref:
    if not isinstance(sizes, list):
        raise EngineRefusal("its sizes are not written out")
    return out.result("Expand", [out.given(x), out.ints([1 if n == -1 else n for n in sizes])])


@_of("aten::select")
def select(out: OnnxBuilder, x: object, dim: object, index: object) -> Ref:
    given = out.given(x)
    at = out.operand(index, torch.int64)
    return out.result("Gather", [given, at], axis=constants(dim)[0] % given.rank)


@_of("aten::slice")
def slice(
    out: OnnxBuilder, x: object, dim: object = 0, start: object = None, end: object = None, step: object = 1
) -> Ref:
    given = out.given(x)
    bounds = [0 if start is None else start, _END if end is None else end]
    axis = constants(dim)[0] % given.rank
    numbers = [out.ints([v if isinstance(v, Ref) else constants(v)[0]]) for v in (*bounds, axis, step)]
    return out.result("Slice", [given, *numbers])


@_of("aten::cat")
def cat(out: OnnxBuilder, tensors: object, dim: object = 0) -> Ref:
    dtype, rank = out.results[0].dtype, out.results[0].rank
    if not isinstance(tensors, list):
        raise EngineRefusal("its tensors are not written out")
    parts = [out.operand(v, dtype) for v in tensors]
    if any(part.rank != rank for part in parts):
        raise EngineRefusal("an operand has another rank")
    return out.result("Concat", parts, axis=constants(dim)[0] % rank)


@_of("aten::stack")
def stack(out: OnnxBuilder, tensors: object, dim: object = 0) -> Ref:
    if not isinstance(tensors, list):
        raise EngineRefusal("its tensors are not written out")
    dtype, rank = out.results[0].dtype, out.results[0].rank
    axis = constants(dim)[0] % rank
    parts = [out.node("Unsqueeze", [out.operand(v, dtype), out.ints([axis])], dtype, rank) for v in tensors]
    return out.result("Concat", parts, axis=axis)


@_of("aten::repeat")
def repeat(out: OnnxBuilder, x: object, times: object) -> Ref:
    given = out.given(x)
    if not isinstance(times, list):
        raise EngineRefusal("its repetitions are not written out")
    for _ in range(len(times) - given.rank):
        given = out.node("Unsqueeze", [given, out.ints([0])], given.dtype, given.rank + 1)
    return out.result("Tile", [given, out.ints(times)])


@_of("aten::gather")
def gather(out: OnnxBuilder, x: object, dim: object, index: object, sparse_grad: object = False) -> Ref:
    given, at = out.given(x), out.given(index)
    if given.rank == 0 or at.rank != given.rank:
        raise EngineRefusal("a tensor without dimensions is gathered from")
    return out.result("GatherElements", [given, at], axis=constants(dim)[0] % given.rank)


@_of("aten::index_select")
def index_select(out: OnnxBuilder, x: object, dim: object, index: object) -> Ref:
    given = out.given(x)
    if given.rank == 0:
        raise EngineRefusal("a tensor without dimensions is selected from")
    return out.result("Gather", [given, out.given(index)], axis=constants(dim)[0] % given.rank)


@_of("aten::embedding")
def embedding(out: OnnxBuilder, weight: object, indices: object, *options: object) -> Ref:
    return out.result("Gather", [out.given(weight), out.given(indices)], axis=0)


@_of("aten::constant_pad_nd")
def constant_pad_nd(out: OnnxBuilder, x: object, pads: object, value: object = 0) -> Ref:
    given, dtype = out.given(x), out.results[0].dtype
    before, after = [0] * given.rank, [0] * given.rank
    numbers = constants(pads)
    for i in range(len(numbers) // 2):
        before[given.rank - 1 - i], after[given.rank - 1 - i] = numbers[2 * i : 2 * i + 2]
    return out.result("Pad", [given, out.ints([*before, *after]), out.operand(value, dtype)], mode="constant")
