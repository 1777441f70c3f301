"""Pools over windows: the largest element of each, or the mean.

Each position in a window is a view of the elements, with steps as wide as the windows are apart. What is put around
the elements is there before: a copy of them is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from jitlite.base.records import Record
from jitlite.kernels.activations import Lanes
from jitlite.kernels.building import KernelBuilder, NestBuilder
from jitlite.kernels.elementwise import filled, floating
from jitlite.kernels.loop_ir import BOOL, I64, Fill, Lane, LaneOperator, Operand, Place
from jitlite.kernels.narrow_types import Narrow
from jitlite.kernels.rearranging import padded
from jitlite.kernels.rules import Call, rule
from jitlite.kernels.scattering import Point, for_each, part, position, put
from jitlite.kernels.values import TensorValue, Value, identity
from jitlite.kernels.views import sliced
from jitlite.native.code import NotNative

_MOST = 49
"""Elements of a window: each one is an instruction in the kernel."""


class Windows(Record):
    """Windows over the last two dimensions.

    Attributes:
        size: of each window.
        step: how far one is from the next.
        around: how much is put around the elements.
        apart: how far the elements of a window are from one another.
        counts: how many windows there are along either dimension.
    """

    size: tuple[int, int]
    step: tuple[int, int]
    around: tuple[int, int]
    apart: tuple[int, int]
    counts: tuple[Operand, Operand]

    @property
    def taps(self) -> list[tuple[int, int]]:
        """The positions in a window, in the order in which torch looks at them."""
        return [(i, j) for i in range(self.size[0]) for j in range(self.size[1])]


def _pair(call: Call, name: str, default: tuple[int, int]) -> tuple[int, int]:
    found = call.constant(name) if call.has(name) else None
    listed = [found] if isinstance(found, int) else found
    if not listed:
        return default
    if any(type(n) is not int for n in listed) or len(listed) > 2:
        raise NotNative(f"{call.node.kind} with {name} = {found!r}")
    return listed[0], listed[-1]


def windows_of(call: Call, value: TensorValue) -> Windows:
    """The windows that an operator goes over."""
    lowering = call.lowering
    size = _pair(call, "kernel_size", (0, 0))
    step, around = _pair(call, "stride", size), _pair(call, "padding", (0, 0))
    apart = _pair(call, "dilation", (1, 1))
    call.default("ceil_mode", False)
    if value.rank not in (3, 4) or not value.in_order or min(*size, *step, *apart) < 1 or min(around) < 0:
        raise NotNative(f"{call.node.kind} of such a tensor, or with such windows")
    if size[0] * size[1] > _MOST or any(2 * a > s for a, s in zip(around, size, strict=True)):
        raise NotNative(f"{call.node.kind} with such windows")
    if max(apart) > 1 and max(around) > 0:
        raise NotNative(f"{call.node.kind} with windows that have gaps, around what is padded")
    lowering.check(lowering.index("lt", 0, value.sizes[-3]), "a pool of no channels")
    counts = []
    for d in (0, 1):
        reach = lowering.index("add", value.sizes[d - 2], 2 * around[d] - apart[d] * (size[d] - 1) - 1)
        lowering.check(lowering.index("le", 0, reach), "a window is larger than the tensor")
        counts.append(lowering.index("add", lowering.index("floordiv", reach, step[d]), 1))
    return Windows(size, step, around, apart, (counts[0], counts[1]))


def _with_border(builder: KernelBuilder, value: TensorValue, windows: Windows, number: float) -> TensorValue:
    """The elements with what is around them, in memory."""
    builder.force(value)
    if windows.around == (0, 0):
        return value
    (top, left), dtype = windows.around, value.dtype
    return padded(builder, value, [left, left, top, top], number if dtype.is_float else 0)


def _tap(builder: KernelBuilder, place: Place, windows: Windows, at: tuple[int, int]) -> Place:
    """The elements at one position of all windows."""
    offset, strides = place.offset, list(place.strides)
    for d in (0, 1):
        offset = builder.index("add", offset, builder.index("mul", at[d] * windows.apart[d], place.strides[d - 2]))
        strides[d - 2] = builder.index("mul", windows.step[d], place.strides[d - 2])
    return Place(place.buffer, offset, (*place.sizes[:-2], *windows.counts), tuple(strides))


def _pooled(
    builder: KernelBuilder, source: TensorValue, windows: Windows, write: Callable[[NestBuilder, Sequence[Place]], Lane]
) -> TensorValue:
    place = builder.force(source)
    taps = [_tap(builder, place, windows, at) for at in windows.taps]
    sizes = taps[0].sizes
    made = TensorValue(
        source.dtype, sizes, identity(sizes), build=lambda nest: write(nest, taps), parts=(source,), functions=1
    )
    return builder.lazy(made)


# -- the largest


def _is_larger(lane: Lane, best: Lane) -> Lane:
    larger = LaneOperator(BOOL, "gt", (lane, best))
    return LaneOperator(BOOL, "logical_or", (larger, LaneOperator(BOOL, "isnan", (lane,))))


@rule("aten::max_pool2d")
def max_pool2d(call: Call) -> Value:
    value = call.first()
    lanes, windows = Lanes(floating(value.dtype)), windows_of(call, value)

    def write(nest: NestBuilder, taps: Sequence[Place]) -> Lane:
        best: Lane = nest.load(taps[0])
        for tap in taps[1:]:
            best = lanes("maximum", best, nest.load(tap))
        return best

    return _pooled(call.lowering, _with_border(call.lowering, value, windows, -math.inf), windows, write)


@rule("aten::max_pool2d_with_indices")
def max_pool2d_with_indices(call: Call) -> Value:
    """The largest element, and where it is: the first of several; the last one that is NaN."""
    value, lowering = call.first(), call.lowering
    found = max_pool2d(call)
    windows = windows_of(call, value)
    source = _with_border(lowering, value, windows, -math.inf)
    width = value.sizes[-1]
    lanes = Lanes(floating(value.dtype))

    def corner(nest: NestBuilder, d: int, at: int) -> Lane:
        window = nest.position(value.rank - 2 + d) or Fill(I64, 0)
        start = LaneOperator(I64, "mul", (window, Fill(I64, windows.step[d])))
        return LaneOperator(I64, "add", (start, Fill(I64, at * windows.apart[d] - windows.around[d])))

    def index(rows: Lane, columns: Lane) -> Lane:
        return LaneOperator(I64, "add", (LaneOperator(I64, "mul", (rows, Fill(I64, width))), columns))

    def write(nest: NestBuilder, taps: Sequence[Place]) -> Lane:
        first = [LaneOperator(I64, "maximum", (corner(nest, d, 0), Fill(I64, 0))) for d in (0, 1)]
        where: Lane = index(*first)
        best: Lane = lanes.number(-math.inf)
        for (i, j), tap in zip(windows.taps, taps, strict=True):
            lane = nest.load(tap)
            larger = _is_larger(lane, best)
            best = lanes.choose(larger, lane, best)
            where = LaneOperator(I64, "where", (larger, index(corner(nest, 0, i), corner(nest, 1, j)), where))
        return where

    places = _pooled(lowering, source, windows, write)
    places.dtype = I64
    return [found, places]


@rule("aten::max_pool2d_with_indices_backward", narrow=Narrow.LEFT)
def max_pool2d_backward(call: Call) -> Value:
    lowering, grad, value, indices = call.lowering, call.first(), call.tensor("self"), call.tensor("indices")
    if grad.dtype is not value.dtype or indices.dtype is not I64 or grad.rank != value.rank:
        raise NotNative("the gradient of a pool of another dtype or rank")
    made = filled(lowering, grad.dtype, value.sizes, 0)
    lowering.force_all([grad, indices])
    into, from_grad, where = lowering.force(made), grad.place, indices.place
    assert from_grad is not None and where is not None
    batch = grad.rank - 2
    count = lowering.numel(value.sizes[-2:])
    rows = Place(into.buffer, into.offset, (*into.sizes[:batch], count), (*into.strides[:batch], 1))

    def one(at: Point) -> None:
        to = position(lowering, where, at, count, wraps=False)
        element = part(lowering, rows, range(rows.rank), (*at[:batch], to))
        put(lowering, element, part(lowering, from_grad, range(grad.rank), at), adds=True)

    for_each(lowering, from_grad.sizes, one)
    return made


# -- the mean


def _divisor(call: Call, windows: Windows) -> int:
    given = call.constant("divisor_override") if call.has("divisor_override") else None
    if given is not None:
        if type(given) is not int or given == 0:
            raise NotNative("avg_pool2d with such a divisor")
        return given
    if windows.around != (0, 0) and call.constant("count_include_pad") is not True:
        raise NotNative("avg_pool2d that does not count what is around")
    return windows.size[0] * windows.size[1]


@rule("aten::avg_pool2d", narrow=Narrow.LEFT)
def avg_pool2d(call: Call) -> Value:
    value = call.first()
    lanes, windows = Lanes(floating(value.dtype)), windows_of(call, value)
    divisor = float(_divisor(call, windows))

    def write(nest: NestBuilder, taps: Sequence[Place]) -> Lane:
        total: Lane = nest.load(taps[0])
        for tap in taps[1:]:
            total = lanes("add", total, nest.load(tap))
        return lanes("div", total, divisor)

    return _pooled(call.lowering, _with_border(call.lowering, value, windows, 0.0), windows, write)


@rule("aten::avg_pool2d_backward", narrow=Narrow.LEFT)
def avg_pool2d_backward(call: Call) -> Value:
    lowering, grad, value = call.lowering, call.first(), call.tensor("self")
    windows = windows_of(call, value)
    if grad.dtype is not value.dtype or grad.rank != value.rank:
        raise NotNative("the gradient of a pool of another dtype or rank")
    for size, count in zip(grad.sizes[-2:], windows.counts, strict=True):
        lowering.require_equal(size, count, "a gradient of another shape")
    lanes, divisor = Lanes(floating(grad.dtype)), float(_divisor(call, windows))
    lowering.force(grad)
    around = [2 * n for n in windows.around]
    sizes = [lowering.index("add", size, more) for size, more in zip(value.sizes[-2:], around, strict=True)]
    made = filled(lowering, grad.dtype, [*value.sizes[:-2], *sizes], 0)
    into = lowering.force(made)
    for at in windows.taps:
        tap = _tap(lowering, into, windows, at)
        nest = NestBuilder(lowering, tap.sizes, identity(tap.sizes))
        nest.write([(tap, lanes("add", nest.load(tap), lanes("div", nest.lane(grad), divisor)))])
    for d in (0, 1):
        start, dim = windows.around[d], value.rank - 2 + d
        if start:
            made = sliced(lowering, made, dim, start, lowering.index("add", start, value.sizes[dim]))
    return made
