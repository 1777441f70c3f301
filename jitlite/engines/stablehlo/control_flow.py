"""Branches and loops, and what they depend on: bools and numbers.

    %5:2 = "stablehlo.while"(%3, %x) ({ ... }, { ... }) : (tensor<i64>, tensor<4xf32>) -> (tensor<i64>, tensor<4xf32>)

What has to be true while a branch or loop runs, such as that an index is in range, is one more bool that it gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from jitlite.base.records import replace
from jitlite.engines.converters import Blocks, NeverRead, Ref
from jitlite.engines.engine import EngineRefusal
from jitlite.engines.stablehlo.arrays import Array, RegionText
from jitlite.engines.stablehlo.builder import CONVERTERS, StableHloBuilder, is_static
from jitlite.engines.stablehlo.literals import tensor_type
from jitlite.engines.stablehlo.sizes import Dim, least, names_in, product
from jitlite.ir.graph import Block
from jitlite.ir.structure import UNBOUNDED, If, Loop

_of = CONVERTERS.of
_BOOL = tensor_type(torch.bool, ())


def _tensor(out: StableHloBuilder, value: object, wanted: Ref) -> Array | None:
    """What a block gives or is given; None if it is never read.

    Raises:
        EngineRefusal: it is of another dtype or rank than the node gives.
    """
    if isinstance(value, NeverRead):
        return None
    given = out.operand(value, wanted.dtype) if wanted.is_number else out.given(value)
    if (given.dtype, given.rank) != (wanted.dtype, wanted.rank):
        raise EngineRefusal("what is carried through it changes its dtype or the number of its dimensions")
    return given


def _fit(out: StableHloBuilder, dims: Sequence[Dim], others: Sequence[Dim]) -> None:
    """See that what is carried keeps its sizes.

    Raises:
        EngineRefusal: it does not.
    """
    for a, b in zip(dims, others, strict=True):
        differences = [least(a - b), least(b - a)]
        is_known = isinstance(a, int) == isinstance(b, int) and not set(names_in(a)).isdisjoint(names_in(b))
        is_other = isinstance(a, int) and isinstance(b, int) and a != b
        if is_other or (is_known and any(d is not None and d > 0 for d in differences)):
            raise EngineRefusal("what is carried through it changes its sizes")
        out.need(a, "==", b)


def _check_what_varies(out: StableHloBuilder, types: Sequence[Array]) -> None:
    """See that IREE computes what is carried. Of several tensors of sizes that vary, it loses where the second begins.

    Raises:
        EngineRefusal: the text is for IREE, and there are several.
    """
    if out.for_iree and sum(not is_static(x.dims) for x in types) > 1:
        raise EngineRefusal("IREE takes no branch or loop that gives several tensors of sizes that vary")


def _as_results(out: StableHloBuilder, name: str, types: Sequence[Array], why: Sequence[str]) -> list[Array]:
    """The results of an operation; the last one says whether all was in order if there are reasons why not."""
    if why:
        out.checks.append((Array(f"{name}#{len(types)}", torch.bool, 0), " or ".join(dict.fromkeys(why))))
    found = [replace(x, name=f"{name}#{i}", amount=None) for i, x in enumerate(types)]
    return [out.computed_int(x) if x.is_number and x.dtype is torch.int64 else x for x in found]


def _text(region: RegionText, parameters: Sequence[Array] = ()) -> str:
    head = f"^bb0({', '.join(f'{p.name}: {p.type}' for p in parameters)}):" if parameters else ""
    return "\n".join([head] * bool(head) + [f"  {line}" for text in region.lines for line in text.splitlines()])


def _return(region: RegionText, values: Sequence[Array]) -> None:
    names, types = ", ".join(v.name for v in values), ", ".join(v.type for v in values)
    region.lines.append(f'"stablehlo.return"({names}) : ({types}) -> ()')


def _all_in_order(out: StableHloBuilder, region: RegionText) -> Array:
    found = out.full(1, torch.bool)
    for passed, _ in list(region.checks):
        found = out.binary("and", found, passed)
    return found


@CONVERTERS.of_blocks("prim::If")
def branch(out: StableHloBuilder, blocks: Blocks) -> Sequence[Ref]:
    """Both branches give tensors of the same types."""
    parts = If(blocks.node)
    condition = out.operand(blocks.arguments[0], torch.bool)
    regions, given = [], []
    for block in (parts.then, parts.orelse):
        with out.region() as region:
            regions.append(region)
            given.append(_given(out, blocks, block))
    types = _joined_types(out, *given)
    _check_what_varies(out, types)
    why = [text for region in regions for _, text in region.checks]
    for i, region in enumerate(regions):
        with out.region() as last:
            filled = [x or out.full(0, t.dtype, t.dims) for x, t in zip(given[i], types, strict=True)]
            returned = [*filled, *([_all_in_order(out, region)] if why else [])]
        region.lines.extend(last.lines)
        _return(region, returned)
    if not (types or why):
        return []
    return _as_results(out, _operation(out, "if", [condition], [*types], why, regions, []), types, why)


def _given(out: StableHloBuilder, blocks: Blocks, block: Block) -> list[Array | None]:
    found = blocks.write(block, [])
    return [_tensor(out, value, wanted) for value, wanted in zip(found, blocks.results, strict=True)]


def _joined_types(out: StableHloBuilder, first: Sequence[Array | None], second: Sequence[Array | None]) -> list[Array]:
    types = []
    for a, b in zip(first, second, strict=True):
        one = a or b
        if one is None:
            raise EngineRefusal("neither branch gives a value")
        if a and b:
            _fit(out, a.dims, b.dims)
        types.append(one)
    return types


def _operation(
    out: StableHloBuilder, op: str, operands: Sequence[Array], types: Sequence[Array], why: Sequence[str],
    regions: Sequence[RegionText], parameters: Sequence[Array],
) -> str:  # fmt: skip
    """Write an operation with regions; gives the name of its results."""
    name = out.new_name()
    bodies = "}, {".join(f"\n{_text(region, parameters)}\n" for region in regions)
    results = ", ".join([*(t.type for t in types), *[_BOOL] * bool(why)])
    names, kinds = ", ".join(x.name for x in operands), ", ".join(x.type for x in operands)
    count = len(types) + bool(why)
    out.lines.append(f'{name}:{count} = "stablehlo.{op}"({names}) ({{{bodies}}}) : ({kinds}) -> ({results})')
    return name


@CONVERTERS.of_blocks("prim::Loop")
def loop(out: StableHloBuilder, blocks: Blocks) -> Sequence[Ref]:
    """What is carried keeps its type. The number of the iteration and the condition are carried, too."""
    count, start, *carried = blocks.arguments
    most = None if count == UNBOUNDED else out.operand(count, torch.int64)
    starts = [_tensor(out, value, wanted) for value, wanted in zip(carried, blocks.results, strict=True)]
    types = [replace(out.with_sizes(x, x.dims), amount=None) for x in _started(out, blocks, starts)]
    _check_what_varies(out, types)
    first = [out.full(0, torch.int64), out.operand(start, torch.bool), *types]
    known = [*_COUNT_AND_CONDITION, *blocks.results]
    named = zip(first, known, strict=True)
    parameters = [replace(x, name=out.new_name(), is_number=r.is_number, amount=None) for x, r in named]
    with out.region() as body:
        ends = _iteration(out, blocks, parameters)
        following = out.binary("add", parameters[0], out.full(1, torch.int64))
        why = [text for _, text in body.checks]
        passed = Array(out.new_name(), torch.bool, 0)
        returned = [following, *ends]
        if why:
            returned.append(out.binary("and", passed, _all_in_order(out, body)))
    _return(body, returned)
    with out.region() as condition:
        goes_on = parameters[1]
        if most is not None:
            goes_on = out.binary("and", goes_on, out.compare("LT", parameters[0], most))
    _return(condition, [goes_on])
    inputs, operands = list(parameters), list(first)
    if why:
        inputs.append(passed)
        operands.append(out.full(1, torch.bool))
    name = _operation(out, "while", operands, first, why, [condition, body], inputs)
    return _as_results(out, name, parameters, why)[2:]


_COUNT_AND_CONDITION = (Ref("", torch.int64, 0, True), Ref("", torch.bool, 0, True))
"""What a loop carries besides that of the graph."""


def _iteration(out: StableHloBuilder, blocks: Blocks, parameters: Sequence[Array]) -> list[Array]:
    """Write the body; gives whether it goes on, and what is carried on."""
    numbered = [out.computed_int(p) if p.is_number and p.dtype is torch.int64 else p for p in parameters]
    found = blocks.write(Loop(blocks.node).body, [numbered[0], *numbered[2:]])
    wanted = [_COUNT_AND_CONDITION[1], *blocks.results]
    given = [_tensor(out, value, ref) for value, ref in zip(found, wanted, strict=True)]
    ends = [end or p for end, p in zip(given, parameters[1:], strict=True)]
    for end, p in zip(ends, parameters[1:], strict=True):
        _fit(out, p.dims, end.dims)
    return [out.with_sizes(end, p.dims) for end, p in zip(ends, parameters[1:], strict=True)]


def _started(out: StableHloBuilder, blocks: Blocks, starts: Sequence[Array | None]) -> list[Array]:
    """What is carried at the start; zeros of the sizes that the body gives where there is nothing yet.

    Raises:
        EngineRefusal: sizes of what is not there yet are not known.
    """
    types = []
    for x, wanted in zip(starts, blocks.results, strict=True):
        if x is None and wanted.rank and None in wanted.sizes:
            raise EngineRefusal("the sizes of what it carries are not known before it runs")
        dims = [n for n in wanted.sizes if n is not None]
        types.append(out.full(0, wanted.dtype, dims) if x is None else x)
    return types


# -- numbers


def _of_one_element(out: StableHloBuilder, x: object) -> Array:
    given = out.given(x)
    out.need(product(given.dims), "==", 1)
    return out.reshape(given, [])


@_of("aten::Bool")
def to_bool(out: StableHloBuilder, x: object) -> Array:
    return out.cast(_of_one_element(out, x), torch.bool)


@_of("aten::Int", "aten::IntImplicit")
def to_int(out: StableHloBuilder, x: object) -> Array:
    given = _of_one_element(out, x)
    if given.dtype.is_floating_point:
        raise EngineRefusal("it makes an int of a float, which may be nan or too large")
    return out.computed_int(out.cast(given, torch.int64))


@_of("aten::FloatImplicit")
def to_float(out: StableHloBuilder, x: object) -> Array:
    return out.cast(_of_one_element(out, x), torch.float64)


@_of("aten::item")
def item(out: StableHloBuilder, x: object) -> Array:
    given = out.cast(_of_one_element(out, x), out.results[0].dtype)
    return out.computed_int(given) if given.dtype is torch.int64 else given


@_of("aten::__not__")
def negated(out: StableHloBuilder, x: object) -> Array:
    return out.unary("not", out.operand(x, torch.bool))


def _joined(op: str, out: StableHloBuilder, a: object, b: object) -> Array:
    dtype = out.results[0].dtype
    return out.binary(op, out.operand(a, dtype), out.operand(b, dtype))


_of("aten::__and__")(partial(_joined, "and"))
_of("aten::__or__")(partial(_joined, "or"))
_of("aten::__xor__")(partial(_joined, "xor"))
