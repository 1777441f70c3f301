"""Pooling to a single pixel, which is the mean of a channel. Other pools are left to torch."""

from __future__ import annotations

from jitlite.kernels.elementwise import floating
from jitlite.kernels.narrow_types import Narrow
from jitlite.kernels.rules import Call, rule
from jitlite.kernels.totals import averaged
from jitlite.kernels.values import Value
from jitlite.native.code import NotNative


@rule("aten::adaptive_avg_pool2d", "aten::adaptive_avg_pool1d")
def adaptive_average(call: Call) -> Value:
    value, lowering = call.first(), call.lowering
    floating(value.dtype)
    pooled = 2 if call.name.endswith("2d") else 1
    if call.constant("output_size") not in ([1] * pooled, 1) or value.rank not in (pooled + 1, pooled + 2):
        raise NotNative(f"{call.node.kind} to more than a pixel, or of such a tensor")
    if not value.in_order:
        raise NotNative(f"{call.node.kind} of a tensor that lies in another order")
    for size in value.sizes[-pooled - 1 :]:
        lowering.check(lowering.index("lt", 0, size), "what the mean of nothing is, torch says")
    return averaged(lowering, value, list(range(value.rank - pooled, value.rank)), keep=True)


@rule("aten::list_with_default", of_sizes=True, narrow=Narrow.AS_THEY_ARE)
def list_with_default(call: Call) -> Value:
    wanted, sizes = call.get("out_size"), call.get("defaults")
    if not isinstance(wanted, list) or not isinstance(sizes, list) or len(sizes) <= len(wanted):
        raise NotNative("sizes with defaults that are not known, or do not fit")
    return wanted
