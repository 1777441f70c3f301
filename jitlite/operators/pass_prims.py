"""Kinds that passes, other runtimes and other processes make, not programs.

Graphs and archives may hold them, so each has its schema. Those whose meaning is a function of inputs and attributes
run; the others name the machinery they belong to when they are run.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
import torch.nn.functional as F

from jitlite.base.source import Error
from jitlite.ir.ops import Effect, op, op_family
from jitlite.ir.traits import Trait, known
from jitlite.ir.types import Type
from jitlite.ir.values import value_has_type
from jitlite.operators.containers import broadcast

_Tensor = torch.Tensor


# -- symbolic differentiation: a gradient that is zero everywhere is None


@op("prim::AutogradZero() -> Tensor", total=True, traits=(Trait.NOT_FOLDED, Trait.AUTOGRAD_ZERO))
def autograd_zero() -> None:
    """None: a gradient that is zero."""


@op("prim::AutogradAdd(Any a, Any b) -> Any", traits=(Trait.AUTOGRAD_ZERO,))
def autograd_add(a: _Tensor | None, b: _Tensor | None) -> _Tensor | None:
    """The sum of two gradients, either of which may be None."""
    if a is None or b is None:
        return b if a is None else a
    return a + b


def _gradients(args: tuple[object, ...]) -> list[Any]:
    return [g for a in args for g in (a if isinstance(a, list) else [a])]


@op("prim::AutogradAnyNonZero(...) -> bool", total=True)
def autograd_any_nonzero(*args: object) -> bool:
    """Is any of the gradients not None?"""
    return any(g is not None for g in _gradients(args))


@op("prim::AutogradAllNonZero(...) -> bool", total=True)
def autograd_all_nonzero(*args: object) -> bool:
    """Is none of the gradients None?"""
    return all(g is not None for g in _gradients(args))


@op("prim::AutogradAllZero(...) -> bool", total=True)
def autograd_all_zero(*args: object) -> bool:
    """Are all gradients None?"""
    return all(g is None for g in _gradients(args))


# -- simple rewrites


@op("prim::IfThenElse(bool cond, Any(a) x, Any(b) y) -> Any(b|a)", total=True)
def if_then_else(cond: bool, x: object, y: object) -> Any:
    """`x if cond else y`, both of which are there."""
    return x if cond else y


@op("prim::VarConcat(...) -> Tensor")
def variadic_cat(*args: Any) -> _Tensor:
    """`torch.cat` of all inputs but the last, which is the dimension."""
    return torch.cat(args[:-1], args[-1])


@op("prim::VarStack(...) -> Tensor")
def variadic_stack(*args: Any) -> _Tensor:
    """`torch.stack` of all inputs but the last, which is the dimension."""
    return torch.stack(args[:-1], args[-1])


@op("prim::FusedConcat(...) -> ...")
def fused_concat(*tensors: _Tensor, dim: int) -> _Tensor:
    """`torch.cat(tensors, dim)`."""
    return torch.cat(tensors, dim)


@op("prim::ConstantChunk(...) -> ...", traits=(Trait.SPREADS,))
def constant_chunk(self: _Tensor, *, chunks: int, dim: int) -> tuple[_Tensor, ...]:
    """`self.chunk(chunks, dim)`; a RuntimeError where it gives fewer than so many tensors."""
    parts = self.chunk(chunks, dim)
    if len(parts) != chunks:
        raise RuntimeError(f"expected chunk to give {chunks} tensors, but it gave {len(parts)}")
    return parts


@op("prim::ChunkSizes(...) -> ...")
def chunk_sizes(size: list[int], *, chunks: int, dim: int) -> tuple[list[int], list[int]]:
    """The shapes of all chunks but the last, and of the last."""
    step = -(-size[dim] // chunks)
    regular, last = list(size), list(size)
    regular[dim] = step
    last[dim] = size[dim] - step * max(-(-size[dim] // step) - 1, 0) if step else 0
    return regular, last


@op("prim::BroadcastSizes(...) -> int[]")
def broadcast_sizes(*sizes: list[int]) -> list[int]:
    """The shape that all these shapes broadcast to."""
    return broadcast(*sizes)


@op("prim::ReductionSizes(int[] size, int[] red_axes, bool keepdim=False) -> int[]")
def reduction_sizes(size: list[int], red_axes: list[int], keepdim: bool) -> list[int]:
    """The shape after a reduction over these axes."""
    axes = {a % len(size) for a in red_axes}
    return [1 if d in axes else n for d, n in enumerate(size) if keepdim or d not in axes]


@op("prim::MMTreeReduce(...) -> Tensor")
def mm_tree_reduce(*tensors: _Tensor) -> _Tensor:
    """The sum of the products of the left matrices, the first half, with the right ones, the second half.

    Where all left ones have one shape and all right ones, it is one product of the matrices put side by side.
    """
    half = len(tensors) // 2
    lefts, rights = tensors[:half], tensors[half:]
    if _are_alike(lefts) and _are_alike(rights):
        return torch.cat(lefts, 1).mm(torch.cat(rights, 0))
    return functools.reduce(operator.add, (a.mm(b) for a, b in zip(lefts, rights, strict=True)))


def _are_alike(tensors: tuple[_Tensor, ...]) -> bool:
    first = tensors[0]
    return first.dim() == 2 and all(
        t.shape == first.shape and t.dtype is first.dtype and t.layout is torch.strided for t in tensors
    )


@op("prim::MMBatchSide(...) -> ...", traits=(Trait.SPREADS,))
def mm_batch_side(single: _Tensor, *others: _Tensor, side: int) -> tuple[_Tensor, ...]:
    """One matrix times each of the others, on the left (side 0) or on the right (side 1)."""
    return tuple(single.mm(other) if side == 0 else other.mm(single) for other in others)


@op(
    "prim::profile(...) -> ...",
    Effect.SIDE,
    traits=(Trait.KEEPS_FACTS, Trait.REFUSED_IN_ARCHIVES, Trait.NEVER_PROFILED, Trait.PROFILES),
)
@op(
    "prim::profile_ivalue(...) -> ...",
    Effect.SIDE,
    traits=(Trait.KEEPS_FACTS, Trait.REFUSED_IN_ARCHIVES, Trait.PROFILES),
)
def profile(*values: object, record: Callable[[Any], object] | None = None) -> Any:
    """The value itself; the profile that the node belongs to, if any, sees it."""
    if record is not None:
        record(values[0] if values else None)
    return values[0] if values else None


@op("prim::TypeCheck(...) -> ...", Effect.SIDE, traits=(Trait.KEEPS_FACTS,))
@op("prim::RequiresGradCheck(...) -> ...", Effect.SIDE, traits=(Trait.KEEPS_FACTS,))
def type_check(*tensors: object, types: Sequence[Type]) -> tuple[Any, ...]:
    """The tensors themselves, and whether all are of these types: then code made for the types may be run on them."""
    return *tensors, all(value_has_type(v, t) for v, t in zip(tensors, types, strict=True))


def _checked_for_storing(self: _Tensor, result: _Tensor) -> None:
    if not torch.can_cast(result.dtype, self.dtype):
        theirs, mine = (torch.empty(0, dtype=t.dtype) for t in (result, self))
        mine.add_(theirs)  # raises, in torch's words
    if result.shape != self.shape:
        raise RuntimeError(
            f"output with shape {list(self.shape)} doesn't match the broadcast shape {list(result.shape)}"
        )


@op("prim::AsStored(Tensor self, Tensor(a) result) -> Tensor(a)")
def as_stored(self: _Tensor, result: _Tensor) -> _Tensor:
    """`result` as `self` would hold it after an in-place operation: with its dtype and layout.

    A RuntimeError, as from the in-place operation, where `self` could not hold it.
    """
    _checked_for_storing(self, result)
    if result.dtype == self.dtype and result.stride() == self.stride():
        return result
    return torch.empty_like(self, requires_grad=False).copy_(result)


# -- oneDNN: the plain function, on tensors in oneDNN's layout or not


def _on_mkldnn(fn: Callable[..., _Tensor]) -> Callable[..., _Tensor]:
    """`fn`, whose first argument may be in oneDNN's layout; then so is the result."""

    def call(self: _Tensor, *args: object, **attributes: object) -> _Tensor:
        if not self.is_mkldnn:
            return fn(self, *args, **attributes)
        return fn(self.to_dense(), *args, **attributes).to_mkldnn()

    return call


def _writing(fn: Callable[..., _Tensor]) -> Callable[..., _Tensor]:
    """`fn` with the result written over its first argument."""

    def call(self: _Tensor, *args: object, **attributes: object) -> _Tensor:
        return self.copy_(fn(self, *args, **attributes))

    return call


def _layer_norm(input: _Tensor, shape: list[int], weight: Any, bias: Any, eps: float, cudnn_enable: bool) -> _Tensor:
    return F.layer_norm(input, shape, weight, bias, eps)


_NORM_ARGUMENTS = (
    "int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05,"
    " bool cudnn_enable=True"
)
_MKLDNN: tuple[tuple[str, str, str, Callable[..., _Tensor], str], ...] = (
    ("HardSwish", "Tensor a", "Tensor(a!) self", F.hardswish, "`torch.nn.functional.hardswish`"),
    ("HardSigmoid", "Tensor a", "Tensor(a!) self", F.hardsigmoid, "`torch.nn.functional.hardsigmoid`"),
    ("ScalarMul", "Tensor self, Scalar other", "Tensor(a!) self, Scalar other", operator.mul, "`self * other`"),
    ("LayerNorm", f"Tensor input, {_NORM_ARGUMENTS}", f"Tensor(a!) input, {_NORM_ARGUMENTS}", _layer_norm,
     "`torch.nn.functional.layer_norm`"),
)  # fmt: skip
"""Name, arguments, arguments of the variant that writes, meaning, documentation."""

for _name, _arguments, _written, _fn, _doc in _MKLDNN:
    op(f"prim::MKLDNN{_name}({_arguments}) -> Tensor", doc=f"{_doc}.")(_on_mkldnn(_fn))
    op(f"prim::MKLDNN{_name}_({_written}) -> Tensor(a!)", doc=f"{_doc}, in place.")(_writing(_on_mkldnn(_fn)))


@op_family("prim::MKLDNN{}(Tensor self) -> Tensor", "Clamp HardTanh")
def clamp(self: _Tensor, *, min_val: float, max_val: float) -> _Tensor:
    """`self.clamp(min_val, max_val)`."""
    return _on_mkldnn(torch.clamp)(self, min_val, max_val)


@op_family("prim::MKLDNN{}_(Tensor(a!) self) -> Tensor(a!)", "Clamp HardTanh")
def clamp_(self: _Tensor, *, min_val: float, max_val: float) -> _Tensor:
    """`self.clamp(min_val, max_val)`, in place."""
    return _writing(_on_mkldnn(torch.clamp))(self, min_val, max_val)


@op("prim::mkldnn_convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation,"
    " int groups) -> Tensor")  # fmt: skip
def convolution(
    input: _Tensor,
    weight: _Tensor,
    bias: _Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> _Tensor:
    """The convolution with these arguments. An input without batch dimension gives a result without one."""
    if not input.is_mkldnn or not weight.is_mkldnn or input.numel() == 0:
        dense = weight.to_dense() if weight.is_mkldnn else weight
        plain = bias.to_dense() if bias is not None and bias.is_mkldnn else bias
        none = [0] * len(stride)
        return _on_mkldnn(torch.convolution)(input, dense, plain, stride, padding, dilation, False, none, groups)
    if input.dim() == weight.dim():
        return torch.mkldnn_convolution(input, weight, bias, padding, stride, dilation, groups)
    batch = input.to_dense().unsqueeze(0).to_mkldnn()
    result = torch.mkldnn_convolution(batch, weight, bias, padding, stride, dilation, groups)
    return result.to_dense().squeeze(0).to_mkldnn()


@op("prim::BroadcastMKLDNNTensors(...) -> ...")
def broadcast_mkldnn(x: _Tensor, y: _Tensor) -> tuple[_Tensor, _Tensor]:
    """Both tensors in the shape that they broadcast to; one that has it already is given as it is."""
    shape = tuple(broadcast(x.shape, y.shape))
    return _expanded(x, shape), _expanded(y, shape)


def _expanded(tensor: _Tensor, shape: tuple[int, ...]) -> _Tensor:
    if tuple(tensor.shape) == tuple(shape):
        return tensor
    dense = tensor.to_dense() if tensor.is_mkldnn else tensor
    expanded = dense.expand(shape).contiguous()
    return expanded.to_mkldnn() if tensor.is_mkldnn else expanded


# -- other processes


@op("aten::to_here(RRef(t) self, float timeout=60.) -> t(*)", Effect.SIDE)
def to_here(self: Any, timeout: float) -> Any:
    """`self.to_here(timeout)`: fetch the value from its owner."""
    return self.to_here(timeout)


@op("aten::local_value(RRef(t) self) -> t(*)", Effect.STATE)
def local_value(self: Any) -> Any:
    """`self.local_value()`: the value, on its owner."""
    return self.local_value()


@op("aten::is_owner(RRef(t) self) -> bool", Effect.STATE)
def is_owner(self: Any) -> bool:
    """`self.is_owner()`."""
    found: bool = self.is_owner()
    return found


@op("aten::confirmed_by_owner(RRef(t) self) -> bool", Effect.STATE)
def confirmed_by_owner(self: Any) -> bool:
    """`self.confirmed_by_owner()`."""
    found: bool = self.confirmed_by_owner()
    return found


@op("aten::owner(RRef(t) self) -> __torch__.torch.classes.dist_rpc.WorkerInfo", Effect.STATE)
def owner(self: Any) -> Any:
    """`self.owner()`."""
    return self.owner()


@op("aten::owner_name(RRef(t) self) -> str", Effect.STATE)
def owner_name(self: Any) -> str:
    """`self.owner_name()`."""
    found: str = self.owner_name()
    return found


def _distributed(module: str, function: str) -> Callable[..., Any]:
    """A function of `torch.distributed`, which not every build of torch has."""

    def call(*args: object) -> Any:
        found = getattr(sys.modules.get(f"torch.distributed.{module}"), function, None)
        if found is None:
            raise Error(f"this torch has no torch.distributed.{module}.{function}")
        return found(*args)

    return call


op(
    "aten::dist_backward(int context_id, Tensor[] roots, bool retain_graph=False) -> ()",
    Effect.SIDE,
    doc="`torch.distributed.autograd.backward(...)`.",
)(_distributed("autograd", "backward"))
for _name in ("rpc_async", "rpc_sync"):
    op(f"prim::{_name}(...) -> ...", Effect.SIDE, doc=f"`torch.distributed.rpc.{_name}(...)`.")(
        _distributed("rpc", _name)
    )
op(
    "prim::rpc_remote(...) -> ...",
    Effect.SIDE,
    doc="`torch.distributed.rpc.remote(...)`.",
    traits=(Trait.REACHES_OUT, Trait.DEFERS_CALL),
)(_distributed("rpc", "remote"))


# -- kinds without a meaning outside the machinery that makes them


def _unsupported(name: str, machinery: str) -> Callable[..., NoReturn]:
    def refuse(*args: object) -> NoReturn:
        raise Error(f"{name} belongs to {machinery} and has no meaning of its own: compile the program again to run it")

    return refuse


_MACHINERY: tuple[tuple[str, str], ...] = (
    ("prim::BailOut(...) -> Tensor(a)", "torch.jit's profiling executor"),
    ("prim::BailoutTemplate() -> int", "torch.jit's profiling executor"),
    ("prim::Guard(Tensor(a) t) -> Tensor(a)", "torch.jit's profiling executor"),
    ("prim::FallbackGraph(...) -> ...", "torch.jit's profiling executor"),
    ("prim::FusionGroup(...) -> ...", "torch.jit's fusers"),
    ("prim::TensorExprGroup(...) -> ...", "torch.jit's fusers"),
    ("prim::TensorExprDynamicGroup(...) -> ...", "torch.jit's fusers"),
    ("prim::TensorExprDynamicGuard(...) -> bool", "torch.jit's fusers"),
    ("prim::oneDNNFusionGroup(...) -> ...", "torch.jit's fusers"),
    ("prim::oneDNNFusionGuard(...) -> ...", "torch.jit's fusers"),
    ("prim::StaticSubgraph(...) -> ...", "torch's static runtime"),
    ("prim::StaticRuntimeCopyOuts(...) -> ...", "torch's static runtime"),
    ("prim::ConstantMKLDNNTensor(...) -> ...", "torch.jit's conversion to oneDNN"),
)
"""Schema, and what makes nodes of this kind."""

for _schema, _made_by in _MACHINERY:
    op(_schema, Effect.SIDE, doc=f"Made by {_made_by}; cannot be run.")(
        _unsupported(_schema.partition("(")[0], _made_by)
    )


# -- what is known of operators that are declared in families

known("prim::BailOut", Trait.KEEPS_FACTS)
known("prim::Guard", Trait.KEEPS_FACTS)
known("prim::rpc_async", Trait.REACHES_OUT, Trait.DEFERS_CALL)
known("prim::rpc_sync", Trait.REACHES_OUT, Trait.DEFERS_CALL)
known("prim::MKLDNNHardSigmoid", Trait.MKLDNN_IN_PLACE)
known("prim::MKLDNNHardSwish", Trait.MKLDNN_IN_PLACE)
known("prim::MKLDNNScalarMul", Trait.MKLDNN_IN_PLACE)
known("prim::FusionGroup", Trait.GROUP, Trait.CHECKED_GROUP, Trait.NEVER_NESTED)
known("prim::StaticSubgraph", Trait.GROUP, Trait.CHECKED_GROUP, Trait.NEVER_NESTED)
known("prim::TensorExprDynamicGroup", Trait.GROUP)
known("prim::TensorExprGroup", Trait.GROUP, Trait.CHECKED_GROUP, Trait.NEVER_NESTED)
known("prim::oneDNNFusionGroup", Trait.GROUP)
