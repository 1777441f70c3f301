"""Losses of classes: the class of a row is a number, or a probability of each one."""

from __future__ import annotations

from collections.abc import Callable

from jitlite.kernels.building import NestBuilder
from jitlite.kernels.elementwise import cast, custom, elementwise, filled, floating
from jitlite.kernels.loop_ir import BOOL, I64, Fill, Lane, LaneOperator, Place
from jitlite.kernels.losses import MEAN, NONE, SUM, reduction
from jitlite.kernels.rules import Call, rule
from jitlite.kernels.totals import log_softmaxed, reduced
from jitlite.kernels.values import TensorValue, Value, identity
from jitlite.native.code import NotNative


def class_dim(value: TensorValue) -> int:
    """The dimension along which the classes are."""
    return 0 if value.rank == 1 else 1


@rule("aten::nll_loss", "aten::nll_loss_nd", "aten::nll_loss2d")
def nll_loss(call: Call) -> Value:
    return _of_classes(call, call.first())


@rule("aten::cross_entropy_loss")
def cross_entropy_loss(call: Call) -> Value:
    value, target = call.first(), call.tensor("target")
    floating(value.dtype)
    smoothing = call.constant("label_smoothing")
    if not isinstance(smoothing, int | float) or not 0 <= smoothing <= 1 or value.rank == 0:
        raise NotNative("cross_entropy_loss with such a smoothing or of a number")
    if not value.in_order:
        raise NotNative("cross_entropy_loss of a tensor that lies in another order")
    if call.narrow is not None and (smoothing or target.dtype.is_float or call.get("weight") is not None):
        raise NotNative(f"{call.node.kind} of {call.narrow}, which torch rounds in between")
    found = call.rounded(log_softmaxed(call, value, [class_dim(value)]))
    if target.dtype.is_float:
        return _of_probabilities(call, found, target, float(smoothing))
    if smoothing == 0:
        return _of_classes(call, found)
    return _smoothed(call, found, float(smoothing))


def _of_classes(call: Call, value: TensorValue) -> TensorValue:
    """What the log-probability of the class is less than 0, for each row, where the class is not to be ignored."""
    losses, counted = class_losses(call, value)
    return summed_classes(call, losses, lambda: reduced(call.lowering, "sum", counted, range(counted.rank), False))


def summed_classes(call: Call, losses: TensorValue, number: Callable[[], TensorValue]) -> TensorValue:
    """The losses of rows as the operator sums them up; `number` gives how many count."""
    how = reduction(call)
    if how == NONE:
        return losses
    total = reduced(call.lowering, "sum", losses, range(losses.rank), False)
    return total if how == SUM else elementwise(call.lowering, "div", [total, number()], losses.dtype)


def class_weights(call: Call, value: TensorValue) -> TensorValue | None:
    """The weights of classes, in memory; None where each one counts as much."""
    if call.get("weight") is None:
        return None
    weight = call.tensor("weight")
    if call.narrow is not None:
        raise NotNative(f"{call.node.kind} of {call.narrow} with weights, which torch rounds in between")
    if weight.rank != 1 or weight.dtype is not value.dtype:
        raise NotNative(f"{call.node.kind} with weights of another dtype or rank")
    call.lowering.require_equal(weight.sizes[0], value.sizes[class_dim(value)], "there is not a weight for each class")
    call.lowering.force(weight)
    return weight


def rows_with_classes(call: Call, value: TensorValue) -> TensorValue:
    """The target, which says the class of each row."""
    target, dim = call.tensor("target"), class_dim(value)
    if value.rank == 0 or target.rank != value.rank - 1 or target.dtype is not I64 or not target.in_order:
        raise NotNative(f"{call.node.kind} of such shapes")
    rows = [size for d, size in enumerate(value.sizes) if d != dim]
    for size, own in zip(rows, target.sizes, strict=True):
        call.lowering.require_equal(own, size, "there are not as many classes as rows")
    return target


def class_losses(call: Call, value: TensorValue) -> tuple[TensorValue, TensorValue]:
    """The losses of rows, and how much they count: 1 or the weight of the class, or 0."""
    lowering, dim = call.lowering, class_dim(value)
    target, weight = rows_with_classes(call, value), class_weights(call, value)
    ignored, dtype = call.constant("ignore_index"), floating(value.dtype)
    place = lowering.force(value)
    lowering.force(target)

    def counts(nest: NestBuilder) -> Lane:
        return LaneOperator(BOOL, "ne", (nest.lane(target), Fill(I64, ignored)))

    def index(nest: NestBuilder) -> Lane:
        return LaneOperator(I64, "where", (counts(nest), nest.lane(target), Fill(I64, 0)))

    def weighed(nest: NestBuilder) -> Lane:
        assert weight is not None and weight.place is not None
        return nest.gather(weight.place, [index(nest)], wraps=False)

    def build(nest: NestBuilder) -> Lane:
        found = nest.gather(place, [*range(dim), index(nest), *range(dim, target.rank)], wraps=False)
        loss: Lane = LaneOperator(dtype, "neg", (found,))
        if weight is not None:
            loss = LaneOperator(dtype, "mul", (loss, weighed(nest)))
        return LaneOperator(dtype, "where", (counts(nest), loss, Fill(dtype, 0.0)))

    def amount(nest: NestBuilder) -> Lane:
        return LaneOperator(dtype, "where", (counts(nest), weighed(nest), Fill(dtype, 0.0)))

    sizes, parts = target.sizes, (value, target) if weight is None else (value, target, weight)
    losses = lowering.lazy(TensorValue(dtype, sizes, identity(sizes), build=build, parts=parts))
    if weight is None:
        return losses, cast(lowering, custom(lowering, BOOL, [target], counts), dtype)
    counted = TensorValue(dtype, sizes, identity(sizes), build=amount, parts=(target, weight))
    return losses, lowering.lazy(counted)


def along_classes(weight: TensorValue, rank: int) -> TensorValue:
    """The weights of classes as a tensor that broadcasts along all dimensions but that of the classes."""
    place = weight.place
    assert place is not None
    dim = 0 if rank == 1 else 1
    sizes = [1] * dim + [*place.sizes] + [1] * (rank - dim - 1)
    strides = [0] * dim + [*place.strides] + [0] * (rank - dim - 1)
    made = Place(place.buffer, place.offset, tuple(sizes), tuple(strides))
    return TensorValue(weight.dtype, made.sizes, identity(made.sizes), made, source=weight.source)


def _smoothed(call: Call, value: TensorValue, smoothing: float) -> TensorValue:
    """Part of each loss is the mean over all classes."""
    lowering, dtype, dim = call.lowering, value.dtype, class_dim(value)
    losses, counted = class_losses(call, value)
    target, weight = call.tensor("target"), class_weights(call, value)
    count = value.sizes[dim]
    weighed = value if weight is None else _times(call, value, along_classes(weight, value.rank))
    total = reduced(lowering, "sum", weighed, [dim], False)
    ignored = call.constant("ignore_index")

    def build(nest: NestBuilder) -> Lane:
        counts = LaneOperator(BOOL, "ne", (nest.lane(target), Fill(I64, ignored)))
        return LaneOperator(dtype, "where", (counts, LaneOperator(dtype, "neg", (nest.lane(total),)), Fill(dtype, 0.0)))

    smooth = custom(lowering, dtype, [target, total], build)
    number: list[TensorValue] = []
    if reduction(call) == MEAN:
        number.append(reduced(lowering, "sum", counted, range(counted.rank), False))
    plain, even = (summed_classes(call, each, lambda: number[0]) for each in (losses, smooth))
    share = elementwise(lowering, "div", [filled(lowering, dtype, [], smoothing), count], dtype)
    return elementwise(lowering, "add", [_times(call, plain, 1.0 - smoothing), _times(call, even, share)], dtype)


def _times(call: Call, a: TensorValue, b: TensorValue | float) -> TensorValue:
    return elementwise(call.lowering, "mul", [a, b], a.dtype)


def _of_probabilities(call: Call, value: TensorValue, target: TensorValue, smoothing: float) -> TensorValue:
    lowering, dtype, dim = call.lowering, value.dtype, class_dim(value)
    if target.dtype is not dtype or target.rank != value.rank or not target.in_order:
        raise NotNative("cross_entropy_loss with probabilities of another dtype or shape")
    for size, own in zip(value.sizes, target.sizes, strict=True):
        lowering.require_equal(own, size, "there is not a probability for each class")
    weight, count = class_weights(call, value), value.sizes[dim]
    if smoothing:
        share = elementwise(lowering, "div", [filled(lowering, dtype, [], smoothing), count], dtype)
        target = elementwise(lowering, "add", [_times(call, target, 1.0 - smoothing), share], dtype)
    found = _times(call, value, target)
    if weight is not None:
        found = _times(call, found, along_classes(weight, value.rank))
    found = elementwise(lowering, "neg", [found], dtype)
    how = reduction(call)
    if how == NONE:
        return reduced(lowering, "sum", found, [dim], False)
    total = reduced(lowering, "sum", found, range(found.rank), False)
    if how == SUM:
        return total
    rows = lowering.numel([size for d, size in enumerate(value.sizes) if d != dim])
    lowering.check(lowering.index("lt", 0, lowering.numel(value.sizes)), "the mean of no losses")
    return elementwise(lowering, "div", [total, rows], dtype)
