"""Which operator computes out of place what an in-place operator writes, and when the two agree.

An in-place operator keeps dtype and shape of the tensor it writes, and raises where the result does not fit. Its
counterpart gives whatever dtype and shape the operands promote and broadcast to. The two agree

- always, for the operators of `KEEPS`;
- for a floating or complex tensor, for those of `FLOATS`;
- where the operands change neither dtype nor shape, for those of `PROMOTES`.

`Link.OUT_OF_PLACE` has the names that differ by more than the underscore.
"""

from __future__ import annotations

from jitlite.ir import ops
from jitlite.ir.ops import Effect, Op
from jitlite.ir.schema import Schema
from jitlite.ir.traits import Link
from jitlite.ir.types import TensorType


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


KEEPS = _names(
    "ceil celu elu fix floor frac gelu hardsigmoid hardswish hardtanh leaky_relu mish nan_to_num neg negative relu"
    " relu6 round rrelu selu sgn sign silu threshold tril triu trunc zero fill bitwise_not index_fill index_copy"
    " index_add index_put masked_fill masked_scatter scatter scatter_add uniform exponential random geometric cauchy"
    " log_normal normal bernoulli"
)
"""Operators whose result has dtype and shape of their first argument. They raise where the in-place variant does."""

BROADCASTS = _names("masked_fill masked_scatter")
"""Of these, the ones whose result has the dtype of their first argument, but grows to the shape of the second."""

FLOATS = _names(
    "acos acosh arccos arccosh asin asinh arcsin arcsinh atan atanh arctan arctanh cos cosh deg2rad digamma erf erfc"
    " erfinv exp exp2 expm1 i0 lgamma log log10 log1p log2 logit rad2deg reciprocal rsqrt sigmoid sin sinc sinh sqrt"
    " square tan tanh"
)
"""Operators that give a float tensor for an integral one, which the in-place variant refuses."""

PROMOTES = _names(
    "add sub subtract mul multiply div divide true_divide fmod remainder floor_divide clamp clip clamp_min clamp_max"
    " addcmul addcdiv bitwise_and bitwise_or bitwise_xor pow"
)
"""Operators whose result has the dtype and shape that all operands promote and broadcast to."""

TO_FLOAT = _names("div divide true_divide addcdiv")
"""Of these, the ones that give floats for integers."""

NO_OPERANDS = frozenset(("self", "alpha", "value", "rounding_mode"))
"""Arguments that have no say in dtype and shape of the result of the operators of `PROMOTES`."""

PACKS = _names("masked_fill masked_scatter scatter scatter_add index_add index_copy rrelu tril triu bernoulli")
"""Operators whose result is laid out anew, unless the tensor is contiguous."""

UNDIFFERENTIABLE = frozenset(("normal", "bernoulli"))
"""Operators whose counterpart cannot be differentiated although the in-place variant can."""

ACTIVATIONS = _names(
    "celu elu hardsigmoid hardswish hardtanh leaky_relu relu relu6 rrelu selu silu gelu mish sigmoid tanh"
)
"""Activation functions with an in-place variant."""

KEEPS_NO_RESULT = _names(
    "add sub mul div neg clone matmul mm bmm mv addmm baddbmm addmv linear conv1d conv2d conv3d conv_transpose1d"
    " conv_transpose2d conv_transpose3d convolution _convolution cat stack hstack vstack dstack index index_select"
    " gather embedding sum mean zeros_like ones_like full_like empty_like rand_like randn_like zero fill abs sin cos"
    " log where slice_scatter select_scatter index_put index_fill index_copy index_add masked_fill masked_scatter"
    " scatter scatter_add clamp clamp_min clamp_max hardswish hardsigmoid silu gelu mish square pow to repeat roll flip"
    " uniform exponential random remainder fmod addcmul addcdiv floor ceil round trunc sign type_as avg_pool1d"
    " avg_pool2d avg_pool3d contiguous zeros ones full empty rand randn"
)
"""Operators that do not need their result to differentiate: writing it does not make the backward pass fail."""


ASSIGNMENTS = frozenset(("aten::copy_", overload) for overload in ("Tensor", "int", "float", "Scalar"))
"""`x[...] = value`, whose value may have more dimensions of size 1 in front, or be a number."""


def keeps_form(op: Op) -> bool:
    """Does the operator leave shape, dtype and memory of the tensor that it writes as they are?"""
    return is_plain_write(op) or op.schema.name == "prim::SetTensorItem"


def base_name(kind: str) -> str:
    """`add` for `aten::add_` and `aten::add`."""
    return kind.removeprefix("aten::").removesuffix("_")


def counterpart(op: Op) -> Op | None:
    """The operator that computes what `op` writes to its first argument, if there is one with the same arguments."""
    schema = op.schema
    if not schema.name.startswith("aten::") or not is_plain_write(op) or base_name(schema.name) not in _KNOWN:
        return None
    candidates = ops.lookup(Link.OUT_OF_PLACE.of(schema.name) or schema.name.removesuffix("_"))
    return next((candidate for candidate in candidates if _computes_the_same(candidate, schema)), None)


def _computes_the_same(candidate: Op, written: Schema) -> bool:
    theirs = candidate.schema
    if theirs.is_mutable or len(theirs.returns) != 1 or candidate.overload is None:
        return False
    return [(a.name, a.type) for a in theirs.arguments] == [(a.name, a.type) for a in written.arguments]


def is_plain_write(op: Op) -> bool:
    """Does the operator write the elements of its first argument, a tensor, and nothing else?

    So it keeps dtype, shape and everything else of the tensor.
    """
    arguments = op.schema.arguments
    if op.overload is None and op.schema.key not in ASSIGNMENTS:
        return False
    if op.effect not in (Effect.WRITE, Effect.RANDOM) or not arguments or not isinstance(arguments[0].type, TensorType):
        return False
    written = [i for i, a in enumerate(arguments) if a.alias is not None and a.alias.is_write]
    return written == [0] and base_name(op.schema.name) in _KNOWN | {"copy"}


_KNOWN = KEEPS | FLOATS | PROMOTES
