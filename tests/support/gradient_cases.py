"""Arguments for every operator that is differentiated symbolically: each rule is tried with all of its cases.

A case is a tuple of arguments in schema order; those left out have their defaults. Tensors of real numbers get
gradients.
"""

from __future__ import annotations

import math
from typing import Any

import torch

Case = tuple[Any, ...]
_generator = torch.Generator()


def _t(*size: int, low: float = -1.0, high: float = 1.0) -> torch.Tensor:
    """Random numbers, no two of them closer than numeric differentiation looks."""
    count = math.prod(size)
    _generator.manual_seed(count + len(size))
    order = torch.randperm(count, generator=_generator).double()
    return (low + (high - low) * (order + 0.37) / max(count, 1)).reshape(size)


def _positive(*size: int) -> torch.Tensor:
    return _t(*size, low=0.2, high=2.0)


def _fixed(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, marked as one that gets no gradient."""
    tensor.is_fixed = True  # type: ignore[attr-defined]
    return tensor


_A, _B, _ROW, _NUMBER = _t(2, 3), _t(2, 3, low=-2, high=3), _t(3, low=0.3, high=1.7), _t(low=0.5)
_OTHERS = ((_A, _B), (_A, _ROW), (_ROW, _A), (_A, _NUMBER), (_NUMBER, _A), (_t(2, 1), _t(1, 3, low=0.4)), (_A, _A))
_MASK = torch.tensor([[True, False, True], [False, False, True]])
_EMPTY = torch.ones(0, 3, dtype=torch.float64)
_MEAN, _VAR = _fixed(torch.zeros(3).double()), _fixed(torch.ones(3).double())
_INDEX = torch.tensor([0, 2, 0])
_SPOTS = torch.tensor([[0, 2, 1, 1], [2, 0, 0, 1]])
_SHARES = _t(2, 3, low=0.1, high=0.9)
_TIES = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], dtype=torch.float64)


def _unary(text: str, *cases: Case) -> dict[str, list[Case]]:
    return {name: list(cases) for name in text.split()}


_MATRICES = [(_t(2, 3), _t(3, 4)), (_t(3, 2).t(), _t(4, 3).t()), (_t(0, 3), _t(3, 2))]

CASES: dict[str, list[Case]] = {
    **_unary(
        "abs asinh atan ceil clone contiguous cos cosh erf erfc exp exp2 expm1 floor frac hardsigmoid hardswish mish"
        " neg relu relu6 round sigmoid sign silu sin sinh square tan tanh trunc gelu hardshrink hardtanh leaky_relu"
        " softplus softshrink elu",
        (_A,), (_t(3, 2).t(),), (_NUMBER,), (_EMPTY,),
    ),
    **_unary("acos asin atanh", (_t(2, 3, low=-0.9, high=0.9),)),
    "acosh": [(_t(2, 3, low=1.2, high=3),)],
    **_unary("log log10 log1p log2 sqrt rsqrt reciprocal lgamma", (_positive(2, 3),), (_positive(3, 2).t(),)),
    **_unary(
        "add.Scalar sub.Scalar mul.Scalar div.Scalar fmod.Scalar remainder.Scalar", (_A, 2), (_A, 0.5), (_NUMBER, 3)
    ),
    "rsub.Scalar": [(_A, 2), (_A, 0.5, 3), (_A, 2, 1)],
    "add.Tensor": [*_OTHERS, (_A, _ROW, 2.5), (_A, torch.ones(3, dtype=torch.int64))],
    "sub.Tensor": [*_OTHERS, (_A, _ROW, 3)],
    "mul.Tensor": [*_OTHERS, (_A, _MASK), (_EMPTY, _ROW)],
    "div.Tensor": [(_A, _positive(2, 3)), (_A, _ROW), (_ROW, _positive(2, 3)), (_A, _NUMBER)],
    "div.Scalar_mode": [(_A, 2.0, None), (_A, 0.3, "floor"), (_A, 0.3, "trunc")],
    "div.Tensor_mode": [(_A, _ROW, None), (_A, _ROW, "floor"), (_ROW, _positive(2, 3), "trunc")],
    "pow.Scalar": [(2.0, _A), (0.5, _A), (1, _A), (0, _positive(3))],
    "pow.Tensor_Scalar": [(_A, 2), (_A, 3.0), (_positive(2, 3), 0.5), (_A, 0), (_A, 1), (_positive(3), -1.5)],
    "pow.Tensor_Tensor": [(_positive(2, 3), _ROW), (_ROW, _B), (_positive(2, 3), _B), (_NUMBER, _ROW)],
    "elu": [(_A, 0.5, 2.0, 1.5), (_A,)],
    "gelu": [(_A, "none"), (_A, "tanh")],
    "hardshrink": [(_A, 0.5), (_A, 0.1)],
    "softshrink": [(_A, 0.3)],
    "hardtanh": [(_A, -0.5, 0.4)],
    "leaky_relu": [(_A, 0.2)],
    "softplus": [(_A, 2, 0.5), (_A, 1.0, 20.0)],
    "threshold": [(_A, 0.1, 5.0)],
    "masked_fill.Scalar": [(_A, _MASK, 2.0)],
    "clamp": [(_A, -0.5, 0.5), (_A, None, 0.1), (_A, 0, None)],
    "clamp.Tensor": [(_A, _t(3, low=-0.8, high=-0.3), _ROW), (_A, None, _NUMBER),
                     (_A, _t(2, 3, low=-0.7, high=0.6), None)],
    "addcmul": [(_A, _B, _ROW), (_ROW, _A, _B, 0.5), (_A, _NUMBER, _ROW, 2)],
    "lerp.Scalar": [(_A, _B, 0.3), (_ROW, _A, 0.75)],
    "lerp.Tensor": [(_A, _B, _ROW), (_ROW, _A, _NUMBER)],
    **_unary("maximum minimum max.other min.other", (_A, _t(2, 3, low=-0.97, high=0.9)), (_A, _ROW), (_ROW, _A)),
    "where.self": [(_MASK, _A, _B), (_MASK, _A, _NUMBER), (_MASK, _ROW, _A), (_MASK[0], _A, _A)],
    "to.prim_Device": [(_A, None, torch.float32), (_A, torch.device("cpu"), None)],
    "to.dtype": [(_A, torch.float32), (_A, torch.float64)],
    "to.dtype_layout": [(_A, torch.float32)],
    "to.device": [(_A, torch.device("cpu"), torch.float32)],
    "to.other": [(_A, torch.ones(1)), (_A, torch.ones(1, dtype=torch.float64))],
    "type_as": [(_A, torch.ones(1)), (_A, _B)],
    "_autocast_to_full_precision": [(_A, True, True)],
    "_autocast_to_reduced_precision": [(_A, False, False, torch.float16, torch.bfloat16)],
    "sum": [(_A,), (_A, torch.float32), (_NUMBER,), (_EMPTY,)],
    "mean": [(_A,), (_A, torch.float32), (_NUMBER,)],
    "sum.dim_IntList": [(_A, [0]), (_A, [-1], True), (_A, [0, 1]), (_t(2, 2, 3), [0, -1]), (_A, None), (_A, []),
                        (_NUMBER, [0])],
    "mean.dim": [(_A, [0]), (_A, [-1], True), (_A, [0, 1]), (_t(2, 2, 3), [2, 0]), (_A, None),
                 (_A, [1], False, torch.float32)],
    **_unary("var std", (_A,), (_A, False), (_ROW, True)),
    **_unary("var.dim std.dim", (_A, [0]), (_A, [1], False, True), (_A, [0, 1], True)),
    **_unary("var.correction std.correction", (_A, [1], 0), (_A, [0], 1, True), (_A, None, 2), (_A, [0, 1])),
    "logsumexp": [(_A, [0]), (_A, [1], True), (_t(2, 2, 3), [0, -1]), (_NUMBER, [0])],
    **_unary("softmax.int log_softmax.int", (_A, 0), (_A, -1), (_A, 1, torch.float32), (_t(2, 2, 3), 1)),
    "view": [(_A, [3, 2]), (_A, [-1])],
    "reshape": [(_A, [3, -1]), (_t(3, 2).t(), [6])],
    "view_as": [(_A, torch.ones(3, 2))],
    "reshape_as": [(_t(3, 2).t(), torch.ones(6))],
    "flatten.using_ints": [(_t(2, 2, 3), 1), (_A,)],
    "squeeze": [(_t(1, 3, 1),), (_A,)],
    "squeeze.dim": [(_t(1, 3, 1), 0), (_t(1, 3, 1), 1), (_t(1, 3, 1), -1)],
    "squeeze.dims": [(_t(1, 3, 1), [0, 2])],
    "expand": [(_ROW, [2, 3]), (_t(2, 1), [-1, 4]), (_A, [2, 3])],
    "expand_as": [(_ROW, torch.ones(2, 3)), (_A, torch.ones(2, 3))],
    "_grad_sum_to_size": [(_A, [1, 3]), (_A, [3]), (_A, None)],
    "permute": [(_t(2, 3, 4), [2, 0, 1]), (_t(2, 3, 4), [-1, 0, 1])],
    "t": [(_A,), (_ROW,)],
    "transpose.int": [(_t(2, 3, 4), 0, -1)],
    "unsqueeze": [(_A, 1), (_A, -1)],
    "select.int": [(_A, 1, 2), (_A, 0, -1)],
    "slice.Tensor": [(_A, 1, 1, 3, 1), (_A, 1, None, None, 2), (_A, 0, -1, None, 1)],
    "cat": [([_A, _B],), ([_A, _ROW.reshape(1, 3)], 0), ([_A, _B, _A], -1), ([_A],), ([_A, torch.ones(2, 3)], 1),
            ([torch.ones(0, dtype=torch.float64), _A], 0)],
    "stack": [([_A, _B],), ([_A, _B, _A], -1), ([_A],)],
    "chunk": [(_A, 2, 0), (_A, 3, 1), (_A, 2, -1)],
    "split.Tensor": [(_A, 2, 1), (_A, 1)],
    "split_with_sizes": [(_A, [1, 2], 1)],
    "unbind.int": [(_A,), (_A, 1), (_A, -1)],
    "prim::ConstantChunk": [(_A, 3, 1), (_A, 2, 1)],
    "index.Tensor": [(_B.t(), [_INDEX]), (_A, [torch.tensor([0, 1, 1]), _INDEX])],
    "index.Tensor_hacked_twin": [(_B.t(), [_INDEX])],
    "prim::TensorItem": [("_", _B.t(), _INDEX), (":, _", _A, _INDEX), ("_, _", _A, torch.tensor([0, 1, 1]), _INDEX),
                         ("_", _ROW, torch.tensor([[0, 1], [-1, 0]]))],
    "mm": list(_MATRICES),
    "bmm": [(_t(2, 2, 3), _t(2, 3, 4))],
    "mv": [(_A, _ROW)],
    "dot": [(_ROW, _t(3))],
    "addmm": [(_t(2, 4), *_MATRICES[0]), (_t(4), *_MATRICES[0], 0.5, 2), (_NUMBER, *_MATRICES[1])],
    "matmul": [*_MATRICES, (_ROW, _t(3)), (_A, _ROW), (_ROW, _t(3, 4)), (_t(2, 2, 3), _t(3, 4)), (_t(2, 2, 3), _ROW),
               (_ROW, _t(2, 3, 4)), (_t(2, 1, 2, 3), _t(3, 3, 2)), (_A, _t(2, 3, 4))],
    "linear": [(_A, _t(4, 3), _t(4)), (_A, _t(4, 3)), (_ROW, _t(4, 3), _t(4)),
               (_t(2, 2, 3), _t(4, 3), _t(4)), (_A, _ROW)],
    "conv1d": [(_t(2, 2, 5), _t(3, 2, 2), _t(3)), (_t(2, 5), _t(3, 2, 2), None, [2], [1])],
    "conv2d": [(_t(1, 2, 4, 4), _t(2, 1, 2, 2), _t(2), [1, 2], [1, 0], [1, 1], 2),
               (_t(2, 4, 4), _t(3, 2, 2, 2), _t(3), [2])],
    "conv3d": [(_t(1, 1, 3, 3, 3), _t(2, 1, 2, 2, 2), _t(2))],
    "convolution": [(_t(1, 2, 4), _t(2, 3, 2), _t(3), [1], [0], [1], True, [0], 1)],
    "_slow_conv2d_forward": [(_t(1, 2, 4, 4), _t(3, 2, 2, 2), [2, 2], _t(3), [1, 1], [0, 0])],
    "layer_norm": [(_B, [3], _ROW, _t(3), 1e-5), (_B, [3], None, None, 1e-5), (_t(2, 2, 3), [2, 3])],
    "native_layer_norm": [(_B, [3], _ROW, _t(3), 1e-5), (_B, [3], _ROW, None, 1e-5)],
    "batch_norm": [
        (_t(4, 3), _ROW, _t(3), None, None, True, 0.1, 1e-5, False),
        (_t(2, 3, 2), _ROW, _t(3), _MEAN, _VAR, False, 0.1, 1e-5, False),
        (_t(4, 3), None, None, _MEAN, _VAR, False, 0.1, 1e-5, False),
    ],
    "native_batch_norm": [(_t(4, 3), _ROW, _t(3), None, None, True, 0.1, 1e-5)],
    "dropout": [(_A, 0.5, True), (_A, 0.5, False)],
    "embedding": [(_t(4, 3), _INDEX, 0), (_t(4, 3), torch.tensor([[1, 2], [3, 3]]), -1, True), (_t(4, 3), _INDEX)],
    "nll_loss": [(_t(3, 4), _INDEX), (_t(3, 4), _INDEX, _fixed(torch.ones(4).double()), 2),
                 (_t(3, 4), _INDEX, None, 0, 2)],
    "nll_loss_forward": [(_t(3, 4), _INDEX, None, 1, -100)],
    "nll_loss_nd": [(_t(2, 3, 4), _SPOTS, None, 0), (_t(2, 3, 4), _SPOTS),
                    (_t(3, 4), _INDEX), (_t(4), torch.tensor(2), None, 2), (_t(3, 4), _INDEX, None, 0, 2)],
    "cross_entropy_loss": [
        (_t(3, 4), _INDEX), (_t(4), torch.tensor(2)), (_t(3, 4), _INDEX, None, 0), (_t(3, 4), _INDEX, None, 2, 2),
        (_t(3, 4), _INDEX, None, 1, 2), (_t(3, 4), _INDEX, _fixed(torch.ones(4).double())),
        *[(_t(3, 4), _INDEX, _fixed(_positive(4)), how, 2, 0.3) for how in (0, 1, 2)],
        *[(_t(3, 4), _INDEX, None, how, 2, 0.3) for how in (0, 1, 2)],
        *[(_t(2, 3, 4), _SPOTS, None, how, -100, 0.0) for how in (0, 1, 2)],
        *[(_t(2, 3, 4), _positive(2, 3, 4), None, how, -100, 0.2) for how in (0, 1, 2)],
        (_t(2, 3, 2, 2), _SPOTS.reshape(2, 2, 2), _fixed(_positive(3)), 1, 0, 0.1),
    ],
    **_unary("mse_loss l1_loss",
             (_A, _B), (_A, _B, 0), (_A, _B, 2), (_A, _ROW), (_A, _ROW, 0), (_NUMBER, _NUMBER)),
    "smooth_l1_loss": [(_A, _B, 1, 0.3), (_A, _B, 0), (_A, _A, 2), (_A, _ROW, 1, 2.0)],
    "huber_loss": [(_A, _B, 1, 0.3), (_A, _B, 0), (_A, _A, 2), (_A, _ROW, 1, 2.0)],
    "binary_cross_entropy_with_logits": [
        (_B, _positive(2, 3)), (_B, _A, None, None, 0), (_B, _A, None, None, 2),
        (_B, _A, _fixed(_positive(3)), None, 1), (_B, _A, None, _fixed(_positive(3)), 1),
        (_B, _A, _fixed(_positive(2, 3)), _fixed(_positive(3)), 2), (_B, _fixed(_positive(2, 3))),
    ],
    "nll_loss2d_forward": [(_t(2, 3, 2, 2), torch.tensor([[[0, 2], [1, 0]], [[2, 2], [1, 1]]]), weight, how, 1)
                           for weight in (None, _fixed(_positive(3))) for how in (0, 1, 2)],
    "binary_cross_entropy": [(_SHARES, _fixed(_SHARES.flip(0)), weight, how)
                             for weight in (None, _fixed(_positive(3))) for how in (0, 1, 2)]
                            + [(_SHARES, _SHARES.flip(1))],
    "kl_div": [(_A, _positive(2, 3), 1), (_A, _positive(3), 0), (_A, _B, 2, True), (_A, _SHARES, 2)],
    "xlogy.Tensor": [(_A, _positive(2, 3)), (_A, _positive(3)), (_ROW, _positive(2, 3)), (_NUMBER, _positive(3))],
    "where.ScalarSelf": [(_MASK, 2.0, _A), (_MASK, 0, _ROW)],
    "where.ScalarOther": [(_MASK, _A, 2.0), (_MASK, _ROW, 0)],
    **_unary("clamp_min clamp_max", (_A, 0.1), (_A, -0.5), (_NUMBER, 0)),
    **_unary("selu", (_A,), (_t(3, 2).t(),)),
    "celu": [(_A,), (_A, 0.7)],
    **_unary("alpha_dropout feature_dropout feature_alpha_dropout", (_A, 0.5, False)),
    **_unary("norm.Scalar", (_A,), (_A, 1), (_NUMBER,)),
    **_unary("norm.ScalarOpt_dim", (_A, 2, [0]), (_A, 2, [-1], True), (_A, 1, [0]), (_t(2, 2, 3), 2, [0, -1]),
             (torch.zeros(2, 3).double(), 2, [1])),
    **_unary("linalg_vector_norm", (_A,), (_A, 1, [0]), (_A, 2, [-1], True)),
    "broadcast_tensors": [([_A, _ROW],), ([_A, _B],), ([_t(2, 1), _ROW, _NUMBER],)],
    "gather": [(_A, 1, torch.tensor([[0, 2, 2, 1], [1, 1, 0, 0]])), (_A, 0, torch.tensor([[1, 0, 1]])),
               (_NUMBER, 0, torch.tensor(0))],
    "index_select": [(_A, 1, _INDEX), (_A, -1, _INDEX), (_A, 0, torch.tensor([], dtype=torch.int64)), (_ROW, 0, _INDEX),
                     (_NUMBER, 0, torch.tensor([0]))],
    "flip": [(_A, [0]), (_A, [0, -1]), (_ROW, [0])],
    **_unary("tril triu", (_A,), (_t(3, 3), 1), (_t(2, 2, 3), -1)),
    **_unary("amax amin", (_A, [0]), (_A, [1], True), (_A, []), (_t(2, 2, 3), [0, -1]), (_TIES, [1]), (_TIES,),
             (_NUMBER, [0])),
    "cumsum": [(_A, 0), (_A, -1), (_ROW, 0), (_NUMBER, 0), (_EMPTY, 1)],
    "glu": [(_t(2, 4),), (_t(4, 3), 0)],
    "log_sigmoid": [(_A,), (_B,), (_NUMBER,)],
    "rsub.Tensor": [*_OTHERS, (_A, _ROW, 2.5)],
    **_unary("max min", (_A,), (_TIES,), (_NUMBER,)),
    **_unary("max.dim min.dim", (_A, 0), (_A, -1, True), (_ROW, 0)),
    "narrow": [(_A, 1, 1, 2), (_A, 0, 0, 1)],
    "movedim.int": [(_t(2, 3, 4), 0, -1)],
    "movedim.intlist": [(_t(2, 3, 4), [0, 1], [2, 0])],
    "swapaxes": [(_A, 0, 1)],
    "roll": [(_A, [1], [0]), (_A, [-2], [1])],
    "scatter_add": [(_A, 1, _SPOTS[:, :3], _B)],
    "scatter.src": [(_t(2, 4), 1, torch.tensor([[0, 3], [1, 2]]), _t(2, 2))],
    "scatter.value": [(_A, 1, torch.tensor([[0, 2], [1, 1]]), 2.0)],
    "index_add": [(_A, 1, _INDEX, _B)],
    "logaddexp": [(_A, _B), (_A, _ROW), (_NUMBER, _ROW)],
    "pad": [(_A, [1, 2]), (_A, [0, 1, 2, 0], "constant", 3.0)],
    "constant_pad_nd": [(_A, [1, 2], 2)],
    "outer": [(_ROW, _t(4)), (_ROW, _ROW)],
    "adaptive_avg_pool1d": [(_t(2, 2, 5), [2]), (_t(2, 5), [1])],
    "adaptive_avg_pool2d": [(_t(1, 2, 4, 3), [2, 2]), (_t(1, 2, 4, 3), [1, 1])],
    "adaptive_avg_pool3d": [(_t(1, 1, 2, 3, 4), [1, 2, 2]), (_t(1, 1, 2, 3, 4), [1, 1, 1])],
    "avg_pool2d": [(_t(1, 2, 4, 4), [2, 2]), (_t(1, 1, 4, 4), [2, 2], [1, 1], [1, 1], True, False)],
    "max_pool2d": [(_t(1, 2, 4, 4), [2, 2]), (_t(2, 4, 4), [3, 3], [1, 1], [1, 1])],
    "max_pool2d_with_indices": [(_t(1, 2, 4, 4), [2, 2])],
    "prim::AutogradAdd": [(_A, _B)],
}  # fmt: skip
"""By operator, as in `rules()`."""

_NOTHING = _t(3, 0)
_NO_ROWS = _t(0, 3)
_PAIRS = [
    (_t(2, 1, 3, low=0.2), _t(4, 1, low=0.3)), (_NO_ROWS, _ROW), (_ROW, _NO_ROWS), (_NO_ROWS, _NUMBER),
    (_NUMBER, _NO_ROWS), (_NOTHING, _t(3, 1, low=0.5)), (_t(3, 1, low=0.5), _NOTHING), (_NUMBER, _t(low=0.4)),
]  # fmt: skip
"""Of each pair one operand broadcasts to more dimensions, to none of a size, or both are numbers."""

_MASKS = [torch.tensor([[True], [False]]), torch.ones(0, 3, dtype=torch.bool), torch.tensor(True)]

_MORE: dict[str, list[Case]] = {
    **_unary("add.Tensor sub.Tensor mul.Tensor div.Tensor maximum minimum max.other min.other", *_PAIRS),
    "div.Tensor_mode": [(*pair, mode) for pair in _PAIRS for mode in (None, "floor")],
    "pow.Tensor_Tensor": [(a.abs() + 0.1, b) for a, b in _PAIRS],
    "masked_fill.Scalar": [(x, mask, 2.0) for x in (_ROW, _NUMBER, _t(1, 3)) for mask in (_MASK, *_MASKS)],
    "where.self": [(_MASK, _ROW, _NUMBER), (_MASKS[0], _ROW, _NUMBER), (_MASKS[1], _ROW, _NUMBER),
                   (_MASKS[2], _A, _ROW), (_MASKS[2], _NO_ROWS, _ROW), (_MASKS[2], _NUMBER, _NUMBER)],
    "clamp.Tensor": [(_NUMBER, _ROW, None), (_NO_ROWS, _ROW, None), (_ROW, None, _NO_ROWS)],
    "addcmul": [(_ROW, _NO_ROWS, _NUMBER), (_NUMBER, _A, _ROW), (_NO_ROWS, _ROW, _NUMBER)],
    "lerp.Scalar": [(*pair, 0.3) for pair in _PAIRS],
    "lerp.Tensor": [(*pair, _NUMBER) for pair in _PAIRS] + [(_NUMBER, _NUMBER, _A), (_NUMBER, _ROW, _NO_ROWS)],
    **_unary("sum", (_NOTHING,)),
    **_unary("sum.dim_IntList", (_NOTHING, [0]), (_NOTHING, [1]), (_NO_ROWS, [0], True), (_NUMBER, None)),
    "mean.dim": [(_NO_ROWS, [1]), (_NOTHING, [0], True)],
    "logsumexp": [(_NO_ROWS, [1])],
    **_unary("softmax.int log_softmax.int", (_NO_ROWS, 1), (_NOTHING, 1), (_NUMBER, 0)),
    "view": [(_NO_ROWS, [3, 0]), (_NUMBER, [1, 1])],
    "reshape": [(_NOTHING, [0]), (_NUMBER, [1])],
    "flatten.using_ints": [(_NOTHING,), (_NUMBER,)],
    "squeeze": [(_NOTHING,), (_NUMBER,)],
    "squeeze.dim": [(_NUMBER, 0), (_t(1, 0), 0)],
    "expand": [(_NUMBER, [2, 3]), (_ROW, [0, 3]), (_t(1, 3), [0, -1])],
    "expand_as": [(_NUMBER, torch.ones(2, 3)), (_ROW, torch.ones(0, 3))],
    "_grad_sum_to_size": [(_A, []), (_NO_ROWS, [1, 3])],
    "permute": [(_t(2, 0, 3), [2, 0, 1]), (_NUMBER, [])],
    "t": [(_NO_ROWS,), (_NUMBER,)],
    "transpose.int": [(_NOTHING, 0, 1)],
    "unsqueeze": [(_NUMBER, 0), (_NOTHING, 1)],
    "select.int": [(_NOTHING, 0, 1)],
    "slice.Tensor": [(_A, 0, 5, None, 1), (_NOTHING, 0, 1, 2, 1)],
    "cat": [([_NO_ROWS, _A],), ([_NO_ROWS, _NO_ROWS],), ([_NOTHING, _t(3, 2)], 1)],
    "stack": [([_NO_ROWS, _NO_ROWS],), ([_NUMBER, _NUMBER],)],
    "split_with_sizes": [(_A, [0, 3], 1), (_NO_ROWS, [0], 0)],
    "chunk": [(_NO_ROWS, 3, 1)],
    "unbind.int": [(_NOTHING, 0)],
    "index.Tensor": [
        (_A, [torch.tensor([], dtype=torch.int64)]), (_A, [torch.tensor([[0, 1], [1, 1]])]), (_A, [_MASK]),
        (_NOTHING, [_INDEX]), (_A, [torch.tensor(1), _INDEX]),
    ],
    "mm": [(_t(2, 0), _t(0, 4)), (_t(0, 3), _t(3, 0))],
    "bmm": [(_t(0, 2, 3), _t(0, 3, 4)), (_t(2, 2, 0), _t(2, 0, 4))],
    "mv": [(_t(2, 0), _t(0)), (_NO_ROWS, _ROW)],
    "dot": [(_t(0), _t(0))],
    "addmm": [(_NUMBER, _t(2, 0), _t(0, 4)), (_t(4), _NO_ROWS, _t(3, 4))],
    "matmul": [(_t(2, 0), _t(0, 4)), (_t(2, 2, 0), _t(0, 4)), (_t(0, 2, 3), _t(3, 4)), (_t(0), _t(0)),
               (_t(0), _t(0, 2)), (_t(2, 0), _t(0)), (_t(2, 2, 0), _t(2, 0, 4)), (_t(1, 2, 3), _t(0, 3, 4)),
               (_t(2, 0, 3), _ROW)],
    "linear": [(_t(2, 0), _t(4, 0), _t(4)), (_NO_ROWS, _t(4, 3), _t(4)), (_t(2, 2, 0), _t(4, 0)), (_t(0), _t(4, 0)),
               (_t(2, 0, 3), _t(4, 3)), (_NO_ROWS, _ROW), (_t(2, 0), _t(0)), (_A, _t(0, 3))],
    "layer_norm": [(_NO_ROWS, [3], _ROW, _t(3), 1e-5)],
    "embedding": [(_t(4, 3), torch.tensor([], dtype=torch.int64)), (_t(4, 0), _INDEX)],
}  # fmt: skip
"""Shapes that broadcast, are empty or have no dimensions."""
for _operator, _cases in _MORE.items():
    CASES[_operator] = [*CASES[_operator], *_cases]

NO_DIFFERENCES = frozenset({
    "ceil", "floor", "round", "trunc", "sign", "div.Scalar_mode", "div.Tensor_mode",  # jump
    "dropout",  # random
    ("norm.ScalarOpt_dim", 4),  # has a corner there
    "hardsigmoid", ("pow.Scalar", 3),  # autograd itself has no second derivative, or gives NaN
    ("mse_loss", 3), ("smooth_l1_loss", 3), ("huber_loss", 3),  # autograd divides by the elements of one operand
    ("l1_loss", 5), ("amax", 4), ("amax", 5), ("amin", 4), ("amin", 5), ("max", 1), ("min", 1),  # ties
    ("embedding", 0), ("embedding", 1),  # no derivatives: rows without gradient, gradients scaled by frequency
})  # fmt: skip
"""Operators, and cases of them, whose gradients are compared with autograd's only, not with differences."""
