"""Operators that only gradients are made of: those whose formula depends on more than operators can express at once.

They are functions of tensors made of differentiable operators, so that gradients of gradients come by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from jitlite.ir.ops import Effect, op, structural
from jitlite.ir.traits import Spelling, Trait

_Tensor = torch.Tensor

structural(
    "prim::DifferentiableGraph(...) -> ...",
    Effect.SIDE,
    "A group of nodes that autograd sees as one operator: the graph in the attribute `Subgraph`, given the inputs.",
    traits=(Trait.GROUP, Trait.CHECKED_GROUP, Spelling.REGION("differentiable")),
)
structural(
    "prim::EngineGroup(...) -> ...",
    Effect.SIDE,
    "A group of nodes that an engine may run: the graph in the attribute `Subgraph`, given the inputs.",
    traits=(Trait.GROUP, Trait.CHECKED_GROUP, Spelling.REGION("engine")),
)
structural(
    "prim::GradOf(...) -> ...",
    Effect.PURE,
    "The gradient formula of one operator, as a block: zero (None) if all inputs are, without running the block.",
)


# -- what a loop keeps for its gradient


@op("prim::AutogradKeep(Tensor[](a!) kept, Tensor value) -> Tensor[](a!)")
def autograd_keep(kept: list[_Tensor], value: _Tensor) -> list[_Tensor]:
    """Keep a value of this iteration."""
    kept.append(value)
    return kept


@op("prim::AutogradKept(Tensor[] kept) -> Tensor")
def autograd_kept(kept: list[_Tensor]) -> _Tensor:
    """The values of all iterations, which are of one size, along a new first dimension."""
    return torch.stack(kept) if kept else torch.empty(0)


# -- shapes and dtypes


@op("prim::AutogradOptions(Tensor self, Tensor result) -> Any", total=True)
def autograd_options(self: _Tensor, result: _Tensor) -> tuple[torch.dtype, torch.device] | None:
    """The dtype and device that a gradient of `result` must be brought to for `self`; None if it has them already."""
    if self.dtype is result.dtype and self.device == result.device:
        return None
    return self.dtype, self.device


@op("prim::AutogradTo(Tensor grad, Any options) -> Tensor")
def autograd_to(grad: _Tensor, options: tuple[torch.dtype, torch.device] | None) -> _Tensor:
    """The gradient with these options. For a dtype that has no gradients it stays as it is: nobody will use it."""
    if options is None or not options[0].is_floating_point:
        return grad
    dtype, device = options
    return grad.to(device, dtype)


def _restored(grad: _Tensor, rank: int, dim: Sequence[int] | None, keepdim: bool) -> _Tensor:
    """The result of a reduction with the reduced dimensions as ones."""
    if keepdim or rank == 0:
        return grad
    if not dim:  # all of them
        return grad.reshape([1] * rank)
    for d in sorted(d % rank for d in dim):
        grad = grad.unsqueeze(d)
    return grad


@op("prim::AutogradUnreduce(Tensor grad, int[] size, int[]? dim, bool keepdim) -> Tensor")
def autograd_unreduce(grad: _Tensor, size: list[int], dim: list[int] | None, keepdim: bool) -> _Tensor:
    """The gradient of a sum: `grad`, repeated along the dimensions that were summed."""
    return _restored(grad, len(size), dim, keepdim).expand(size)


@op("prim::AutogradMean(Tensor grad, int[] size, int[]? dim, bool keepdim) -> Tensor")
def autograd_mean(grad: _Tensor, size: list[int], dim: list[int] | None, keepdim: bool) -> _Tensor:
    """The gradient of a mean over the dimensions (all of them if there are none)."""
    return autograd_unreduce(grad, size, dim, keepdim) / _count(size, dim)


def _count(size: Sequence[int], dim: Sequence[int] | None) -> int:
    if not dim or not size:
        return math.prod(size)
    return math.prod(size[d] for d in {d % len(size) for d in dim})


@op("prim::AutogradPermute(Tensor grad, int[] dims) -> Tensor")
def autograd_permute(grad: _Tensor, dims: list[int]) -> _Tensor:
    """The inverse permutation of the dimensions."""
    order = [d % len(dims) for d in dims]
    return grad.permute(sorted(range(len(order)), key=order.__getitem__))


@op("prim::AutogradSplit(Tensor grad, int[][] sizes, int dim) -> Tensor[]")
def autograd_split(grad: _Tensor, sizes: list[list[int]], dim: int) -> list[_Tensor]:
    """The gradients of tensors of these sizes that were concatenated. Empty vectors are concatenated with anything."""
    parts: list[_Tensor] = []
    start = 0
    for size in sizes:
        if size == [0]:
            parts.append(grad.new_zeros(size))
            continue
        parts.append(grad.narrow(dim, start, size[dim]))
        start += size[dim]
    return parts


@op("prim::AutogradCat(Tensor[] grads, int[][] sizes, int dim) -> Tensor")
def autograd_cat(grads: list[_Tensor | None], sizes: list[list[int]], dim: int) -> _Tensor:
    """The gradient of a tensor that was split into parts of these sizes; zeros stand for gradients that are None."""
    known = next(g for g in grads if g is not None)
    return torch.cat([known.new_zeros(s) if g is None else g for g, s in zip(grads, sizes, strict=True)], dim)


@op("prim::AutogradStack(Tensor[] grads, int[] size, int dim) -> Tensor")
def autograd_stack(grads: list[_Tensor | None], size: list[int], dim: int) -> _Tensor:
    """The gradient of a tensor of this size of which each part along `dim` was taken."""
    known = next(g for g in grads if g is not None)
    part = [n for d, n in enumerate(size) if d != dim % len(size)]
    return torch.stack([known.new_zeros(part) if g is None else g for g in grads], dim)


# -- pointwise, where autograd's operator for the gradient cannot be differentiated itself


@op("prim::AutogradSilu(Tensor grad, Tensor self) -> Tensor")
def autograd_silu(grad: _Tensor, self: _Tensor) -> _Tensor:
    """The gradient of `silu(self)`."""
    if not torch.is_grad_enabled():
        result: _Tensor = torch.ops.aten.silu_backward(grad, self)
        return result
    sigmoid = self.sigmoid()
    return grad * sigmoid * (1 + self * (1 - sigmoid))


@op("prim::AutogradMish(Tensor grad, Tensor self) -> Tensor")
def autograd_mish(grad: _Tensor, self: _Tensor) -> _Tensor:
    """The gradient of `mish(self)`."""
    if not torch.is_grad_enabled():
        result: _Tensor = torch.ops.aten.mish_backward(grad, self)
        return result
    inner = torch.nn.functional.softplus(self).tanh()
    return grad * (inner + self * self.sigmoid() * (1 - inner * inner))


# -- powers and statistics


@op("prim::AutogradPow(Tensor grad, Tensor self, Scalar exponent) -> Tensor")
def autograd_pow(grad: _Tensor, self: _Tensor, exponent: float) -> _Tensor:
    """The gradient of `self ** exponent` for `self`."""
    if exponent == 0:
        return torch.zeros_like(self)
    return grad * (exponent * self.pow(exponent - 1))


@op("prim::AutogradPowBase(Tensor grad, Tensor self, Tensor exponent) -> Tensor")
def autograd_pow_base(grad: _Tensor, self: _Tensor, exponent: _Tensor) -> _Tensor:
    """The gradient of `self ** exponent` for `self`, where the exponent is a tensor."""
    return torch.where(exponent == 0.0, torch.zeros((), dtype=grad.dtype, device=grad.device),
                       grad * (exponent * self.pow(exponent - 1)))  # fmt: skip


@op("prim::AutogradPowExponent(Tensor grad, Tensor self, Tensor exponent, Tensor result) -> Tensor")
def autograd_pow_exponent(grad: _Tensor, self: _Tensor, exponent: _Tensor, result: _Tensor) -> _Tensor:
    """The gradient of `self ** exponent` for the exponent; zero for the powers of zero that are constant."""
    settled = (self == 0) & (exponent >= 0)
    return grad * torch.where(settled, torch.zeros((), dtype=grad.dtype, device=grad.device), result * self.log())


@op("prim::AutogradPowScalarBase(Tensor grad, Scalar self, Tensor exponent, Tensor result) -> Tensor")
def autograd_pow_scalar_base(grad: _Tensor, self: float, exponent: _Tensor, result: _Tensor) -> _Tensor:
    """The gradient of `self ** exponent` for the exponent, where the base is a number."""
    log = torch.tensor(self, dtype=torch.float64).log().item()
    if self == 0:
        zero = torch.zeros((), dtype=grad.dtype, device=grad.device)
        return grad * torch.where(exponent >= 0, zero, result * log)
    return grad * (result * log)


@op("prim::AutogradVar(Tensor grad, Tensor self, int[]? dim, Scalar? correction, bool keepdim) -> Tensor")
def autograd_var(
    grad: _Tensor, self: _Tensor, dim: list[int] | None, correction: float | None, keepdim: bool
) -> _Tensor:
    """The gradient of `self.var(dim, correction=correction, keepdim=keepdim)`."""
    dims = list(dim or range(self.dim()))
    freedom = _count(self.shape, dims) - (1 if correction is None else correction)
    grad = _restored(grad, self.dim(), dims, keepdim)
    mean = self.mean(dims, True) if dims else self
    if freedom <= 0:
        return grad * torch.where(self == mean, math.nan, math.inf)
    return (2.0 / freedom) * grad * (self - mean)


@op("prim::AutogradStd(Tensor grad, Tensor self, Tensor result, int[]? dim, Scalar? correction, bool keepdim)"
    " -> Tensor")  # fmt: skip
def autograd_std(
    grad: _Tensor, self: _Tensor, result: _Tensor, dim: list[int] | None, correction: float | None, keepdim: bool
) -> _Tensor:
    """The gradient of `self.std(dim, correction=correction, keepdim=keepdim)`, which gave `result`."""
    return autograd_var((grad / (result * 2)).masked_fill(result == 0, 0), self, dim, correction, keepdim)


@op("prim::AutogradLogsumexp(Tensor grad, Tensor self, Tensor result, int[] dim, bool keepdim) -> Tensor")
def autograd_logsumexp(grad: _Tensor, self: _Tensor, result: _Tensor, dim: list[int], keepdim: bool) -> _Tensor:
    """The gradient of `self.logsumexp(dim, keepdim)`, which gave `result`."""
    grad, result = (_restored(t, self.dim(), dim, keepdim) for t in (grad, result))
    return grad * (self - result).exp()


# -- products and convolutions


def _rows(x: _Tensor) -> _Tensor:
    """The vectors along the last dimension as the rows of a matrix, also where there are none or they are empty."""
    *rows, length = x.shape
    return x.reshape(math.prod(rows), length)  # `flatten` has no rule for batched gradients


@op("prim::AutogradMatmulSelf(Tensor grad, Tensor other, int[] size) -> Tensor")
def autograd_matmul_self(grad: _Tensor, other: _Tensor, size: list[int]) -> _Tensor:
    """The gradient of `self.matmul(other)` for `self`, which is of this size."""
    if other.dim() == 1:
        product = grad.unsqueeze(-1) * other
    elif len(size) == 1:
        product = other.matmul(grad.unsqueeze(-1)).squeeze(-1)
    else:
        product = grad.matmul(other.mT)
    return product.sum_to_size(size)


@op("prim::AutogradMatmulOther(Tensor grad, Tensor self, int[] size) -> Tensor")
def autograd_matmul_other(grad: _Tensor, self: _Tensor, size: list[int]) -> _Tensor:
    """The gradient of `self.matmul(other)` for `other`, which is of this size."""
    if self.dim() == 1:
        if len(size) == 1:
            return grad * self
        product = self.unsqueeze(-1) * grad.unsqueeze(-2)
    elif len(size) == 1:
        product = self.mT.matmul(grad.unsqueeze(-1)).squeeze(-1)
    elif len(size) == 2:  # one matrix for the whole batch
        return _rows(self).t().mm(_rows(grad))
    else:
        product = self.mT.matmul(grad)
    return product.sum_to_size(size)


@op("prim::AutogradLinearInput(Tensor grad, Tensor weight) -> Tensor")
def autograd_linear_input(grad: _Tensor, weight: _Tensor) -> _Tensor:
    """The gradient of `linear(input, weight)` for the input."""
    return grad.unsqueeze(-1) * weight if weight.dim() == 1 else grad.matmul(weight)


@op("prim::AutogradLinearWeight(Tensor grad, Tensor input, int[] size) -> Tensor")
def autograd_linear_weight(grad: _Tensor, input: _Tensor, size: list[int]) -> _Tensor:
    """The gradient of `linear(input, weight)` for the weight, which is of this size."""
    if len(size) == 1:
        return _rows(grad.unsqueeze(-1) * input).sum(0)
    return _rows(grad).t().mm(_rows(input))


@op("prim::AutogradConvolution(Tensor grad, Tensor input, Tensor weight, int[]? bias_size, int[] stride, int[] padding,"
    " int[] dilation, bool transposed, int[] output_padding, int groups, bool[] output_mask)"
    " -> (Tensor, Tensor, Tensor)", traits=(Trait.AUTOGRAD_ZERO,))  # fmt: skip
def autograd_convolution(
    grad: _Tensor,
    input: _Tensor,
    weight: _Tensor,
    bias_size: list[int] | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
    output_mask: list[bool],
) -> tuple[_Tensor | None, ...]:
    """`torch.ops.aten.convolution_backward`, for single samples and for geometry given by one number as well."""
    spatial = weight.dim() - 2
    is_sample = input.dim() == spatial + 1
    if is_sample:
        grad, input = grad.unsqueeze(0), input.unsqueeze(0)
    geometry = [g * spatial if len(g) == 1 else g for g in (stride, padding, dilation, output_padding)]
    first, second, third = torch.ops.aten.convolution_backward(
        grad, input, weight, bias_size, *geometry[:3], transposed, geometry[3], groups, output_mask
    )
    return first.squeeze(0) if is_sample and first is not None else first, second, third
