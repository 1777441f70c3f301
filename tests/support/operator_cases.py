# ruff: noqa: E501  (a table: one case a line)
"""Operators on tensors and other objects: arguments to call them with, and what they mean as plain Python.

A case is the operators' names, a list of arguments, the meaning, and attributes of the node.
"""

import enum
import operator
import warnings
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Half(enum.Enum):
    ONE = 0.5


class Word(enum.Enum):
    YES = "yes"


@dataclass
class Case:
    names: list
    arguments: list
    meaning: Any
    attributes: dict = field(default_factory=dict)


def assigned(target, value):
    target[...] = value
    return target


X = torch.arange(6.0).reshape(2, 3)
I = torch.tensor([1, 0])
Z = torch.tensor([[1 + 2j, 3 - 1j]])
S = torch.tensor(2.5)
N = torch.tensor(7)
IMAGE = torch.arange(16.0).reshape(1, 1, 4, 4)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    Q = torch.quantize_per_tensor(X, 0.5, 0, torch.quint8)
CPU = torch.device("cpu")
FLOAT64 = 7  # the int code
INT64 = 4


def names(prefix, *suffixes):
    return [prefix + s for s in suffixes]


def offsets(tensor):
    """Where in memory the elements of a tensor lie."""
    found = [0] if tensor.numel() else []
    for size, stride in zip(tensor.shape, tensor.stride()):
        found = [offset + i * stride for offset in found for i in range(size)]
    return found


def no_number(condition, number):
    """What an implicit conversion means."""

    def convert(t):
        if t.requires_grad:
            raise RuntimeError("Cannot input a tensor that requires grad as a scalar argument")
        if t.dim():
            raise RuntimeError("Cannot input a tensor of dimension other than 0 as a scalar argument")
        if not condition(t):
            raise RuntimeError(f"Cannot input a tensor of type {t.dtype} as an integral argument")
        return number(t)

    return convert


NUMBERS = [(S,), (N,), (torch.tensor(True),), (torch.ones(1),), (torch.tensor(1.0, requires_grad=True),)]

CASES = [
    # any value
    Case(names("aten::", "__is__"), [(None, None), (1, None), ("a", [])], lambda a, b: a is b),
    Case(names("aten::", "__isnot__"), [(None, None), (1, None), ("a", [])], lambda a, b: a is not b),
    Case(["prim::unchecked_unwrap_optional"], [(1,), ("a",)], lambda x: x),
    Case(["prim::IfThenElse"], [(True, 1, "a"), (False, 1, "a")], lambda c, x, y: x if c else y),
    Case(["prim::TupleIndex"], [((1, "a"), 0), ((1, "a"), -1), ((1,), 3)], lambda t, i: t[i]),
    Case(["prim::ModuleContainerIndex.list"], [([1, 2], 1), ([], 0)], lambda t, i: t[i]),
    Case(["prim::ModuleContainerIndex.dict"], [({"a": 2}, "a"), ({}, "a")], lambda t, i: t[i]),
    Case(["prim::EnumName"], [(Color.RED,), (Half.ONE,)], lambda e: e.name),
    Case(["prim::EnumValue.int"], [(Color.BLUE,)], lambda e: 2),
    Case(["prim::EnumValue.float"], [(Half.ONE,)], lambda e: 0.5),
    Case(["prim::EnumValue.str"], [(Word.YES,)], lambda e: "yes"),
    Case(["aten::eq.enum"], [(Color.RED, Color.RED), (Color.RED, Color.BLUE)], operator.is_),
    Case(["aten::ne.enum"], [(Color.RED, Color.RED), (Color.RED, Color.BLUE)], operator.is_not),
    Case(["aten::eq.device"], [(CPU, torch.device("cpu", 0)), (CPU, CPU)], lambda a, b: a == b),
    Case(["aten::ne.device"], [(CPU, torch.device("meta")), (CPU, CPU)], lambda a, b: a != b),
    Case(["aten::format"], [("{} {}", 1, "a"), ("{0} {0!r:>4} {1:.2f}", "a", 2.0), ("{}",), ("{x}", 1), ("é{{}}",)],
         lambda s, *a: s.format(*a)),
    Case(["aten::percentFormat"], [("%s %d", (1, 2)), ("%5.2f|", 2.0), ("%s", [1]), ("%d", "a"), ("%s", ()), ("%%", ())],
         lambda s, a: s % a),
    Case(["aten::percentFormat"], [("%s %d", 1, 2), ("%x", 1, 2)], lambda s, *a: s % a),
    Case(["aten::_assert", "aten::_assert.Tensor"], [(True, "m"), (torch.tensor(1), "m")], lambda c, m: None),
    Case(["aten::list_with_default"], [([2], [3, 4])], lambda a, b: a),
    Case(["aten::is_scripting"], [()], lambda: True),
    Case(["aten::_get_tracing_state"], [()], lambda: False),
    Case(["aten::has_torch_function"], [(), (X, 1)], lambda *a: False),
    Case(["prim::AddStatValue"], [("a", 1)], lambda *a: None),
    Case(["aten::broadcast_shapes", "aten::_infer_size"], [([2, 1], [3]), ([], [4]), ([], [])],
         lambda a, b: list(torch.broadcast_tensors(torch.empty(a), torch.empty(b))[0].shape)),
    # symbolic differentiation and fusion
    Case(["prim::AutogradZero"], [()], lambda: None),
    Case(["prim::AutogradAdd"], [(None, None), (X, None), (None, X), (X, X)],
         lambda a, b: b if a is None else a if b is None else a + b),
    Case(["prim::AutogradAnyNonZero"], [(), (None,), (X, None), ([None, X],)],
         lambda *a: any(x is not None and x != [None] for x in a)),
    Case(["prim::AutogradAllNonZero"], [(), (None,), (X, None), (X, X)], lambda *a: all(x is not None for x in a)),
    Case(["prim::AutogradAllZero"], [(), (None,), (X, None), (X, X)], lambda *a: all(x is None for x in a)),
    Case(["prim::VarConcat"], [(X, X, 0), (X, X, X, 1)], lambda *a: torch.cat(a[:-1], a[-1])),
    Case(["prim::VarStack"], [(X, X, 0), (X, X, X, -1)], lambda *a: torch.stack(a[:-1], a[-1])),
    Case(["prim::FusedConcat"], [(X, X)], lambda *a: torch.cat(a, 1), {"dim": 1}),
    Case(["prim::ConstantChunk"], [(X,)], lambda x: x.chunk(3, 1), {"chunks": 3, "dim": 1}),
    Case(["prim::ChunkSizes"], [([2, 7],), ([4, 6],), ([2, 1],)],
         lambda s: ([s[0], -(-s[1] // 3)], [s[0], torch.empty(s).chunk(3, 1)[-1].shape[1]]), {"chunks": 3, "dim": -1}),
    Case(["prim::BroadcastSizes"], [([2, 1], [3], [1, 1])], lambda *a: [2, 3]),
    Case(["prim::ReductionSizes"], [([2, 3, 4], [0, -1], False), ([2, 3, 4], [1], True)],
         lambda s, axes, keep: list(torch.empty(s).sum(axes, keep).shape)),
    Case(["prim::MMTreeReduce"], [(X, X.t()), (X, X + 1, X.t(), X.t())],
         lambda *a: a[0] @ a[1] if len(a) == 2 else a[0] @ a[2] + a[1] @ a[3]),
    Case(["prim::MMBatchSide"], [(X, X.t(), X.t() + 1)], lambda x, a, b: (x @ a, x @ b), {"side": 0}),
    Case(["prim::MMBatchSide"], [(X, X.t(), X.t() + 1)], lambda x, a, b: (a @ x, b @ x), {"side": 1}),
    Case(["prim::profile", "prim::profile_ivalue"], [(1,), (X,), ()], lambda *a: a[0] if a else None,
         {"record": None}),
    Case(["prim::AsStored"], [(X, X + 1), (X, I.repeat(3, 1).t()), (X[:1], X), (I, I + 0.5)],
         lambda t, r: t.clone().zero_().add_(r)),
    # oneDNN
    Case(["prim::MKLDNNHardSwish"], [(X,)], F.hardswish),
    Case(["prim::MKLDNNHardSwish_"], [(X,)], lambda x: F.hardswish(x, True)),
    Case(["prim::MKLDNNHardSigmoid"], [(X,)], F.hardsigmoid),
    Case(["prim::MKLDNNHardSigmoid_"], [(X,)], lambda x: F.hardsigmoid(x, True)),
    Case(["prim::MKLDNNScalarMul"], [(X, 3), (X, 0.5)], lambda x, n: x * n),
    Case(["prim::MKLDNNScalarMul_"], [(X, 3), (X, 0.5)], lambda x, n: x.mul_(n)),
    Case(["prim::MKLDNNLayerNorm"], [(X, [3], None, None, 1e-5, True)], lambda x, s, w, b, e, c: F.layer_norm(x, s)),
    Case(["prim::MKLDNNLayerNorm_"], [(X, [3], None, None, 1e-5, True)],
         lambda x, s, w, b, e, c: x.copy_(F.layer_norm(x, s))),
    Case(names("prim::MKLDNN", "Clamp", "HardTanh"), [(X,)], lambda x: x.clamp(1, 4), {"min_val": 1.0, "max_val": 4.0}),
    Case(names("prim::MKLDNN", "Clamp_", "HardTanh_"), [(X,)], lambda x: x.clamp_(1, 4),
         {"min_val": 1.0, "max_val": 4.0}),
    Case(["prim::mkldnn_convolution"], [(IMAGE, torch.ones(1, 1, 2, 2), None, [2, 2], [1, 1], [1, 1], 1)],
         lambda x, w, b, s, p, d, g: F.conv2d(x, w, b, s, p, d, g)),
    Case(["prim::BroadcastMKLDNNTensors"], [(X, X + 1), (X, X[:1]), (X[:, :1], X)], torch.broadcast_tensors),
    # numbers
    Case(["aten::FloatImplicit"], NUMBERS, no_number(lambda t: True, float)),
    Case(["aten::ComplexImplicit"], NUMBERS, no_number(lambda t: True, complex)),
    Case(["aten::ScalarImplicit"], NUMBERS, no_number(lambda t: True, lambda t: t.item())),
    Case(["aten::IntImplicit"], NUMBERS,
         no_number(lambda t: t.dtype is torch.int64, int)),
    Case(["aten::ScalarImplicit.bool"], [(True,)], lambda a: a),
    Case(names("aten::tensor.", "bool", "int", "float", "complex"),
         [(True, None, None, False), (3, None, None, False), (2.5, FLOAT64, CPU, True), (1j, None, None, False),
          (2.5, torch.int32, None, False)],
         lambda t, d, device, grad: torch.tensor(t, dtype=torch.float64 if d == FLOAT64 else d, requires_grad=grad)),
    Case(["aten::tensor"], [([], None, None, False), ([[1, 2], [3, 4]], None, None, False), ([True], FLOAT64, CPU, True),
                            ([1.5], INT64, None, False), ([[1], [2, 3]], None, None, False), (["a"], None, None, False)],
         lambda t, d, device, grad: torch.tensor(t, dtype={FLOAT64: torch.float64, INT64: torch.int64, None: None}[d],
                                                 requires_grad=grad)),
    Case(["aten::as_tensor", *names("aten::as_tensor.", "list", "bool", "int", "float", "complex")],
         [(X, None, None), (X, FLOAT64, CPU), ([1, 2], None, None), (True, None, None), (2, FLOAT64, None),
          (2.5, None, None), (1j, None, None)],
         lambda t, d, device: torch.as_tensor(t, dtype=None if d is None else torch.float64)),
    Case(["prim::NumToTensor.Scalar"], [(1,), (1.5,), (1j,)],
         lambda a: torch.tensor(a, dtype={int: torch.int64, float: torch.float64, complex: torch.complex128}[type(a)])),
    Case(["prim::NumToTensor.bool"], [(True,)], torch.tensor),
    Case(["aten::_list_to_tensor"], [([],), ([1, -2],)], lambda l: torch.tensor(l, dtype=torch.int32)),
    Case(["aten::_tensor_to_list"], [(I,), (torch.tensor([True]),)], lambda t: t.int().tolist()),
    # shape and properties
    Case(["aten::size", "aten::sym_size"], [(X,), (S,)], lambda t: list(t.shape)),
    Case(["aten::stride", "aten::sym_stride"], [(X,), (X.t(),), (S,)], lambda t: list(t.stride())),
    Case(["aten::len.Tensor"], [(X,), (S,)], len),
    Case(["aten::element_size", "prim::itemsize"], [(X,), (N,), (torch.tensor(True),)], lambda t: t.element_size()),
    Case(["aten::split"], [(X, [1, 2], 1), (X, [2], 0), (X, [1], 0)], lambda t, s, d: list(t.split(s, d))),
    Case(["aten::numpy_T.a"], [(X,)], lambda t: t.T),
    Case(["aten::matrix_H.a"], [(X,), (Z,)], lambda t: t.H),
    Case(["aten::mT.a"], [(X,)], lambda t: t.mT),
    Case(["aten::mH.a"], [(Z,)], lambda t: t.mH),
    Case(["aten::is_non_overlapping_and_dense"],
         [(X,), (X.t(),), (X[:, ::2],), (X.expand(4, 2, 3),), (S,), (torch.empty(0, 3),), (X[:, :1],), (X[:1, :1],)],
         lambda t: sorted(offsets(t)) == list(range(t.numel()))),
    Case(["aten::is_strides_like_format"],
         [(torch.empty(2, 3, 4, 5), torch.channels_last),
          (torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last), torch.channels_last),
          (torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last), 2),
          (torch.empty(2, 3, 2, 4, 5).to(memory_format=torch.channels_last_3d), torch.channels_last_3d),
          (X, torch.channels_last), (X, torch.contiguous_format)],
         lambda t, f: t.dim() > 3 and t.stride(1) == 1),
    *(Case([f"prim::{n}"], [(X,), (torch.empty(2, device="meta"),), (torch.ones(1, requires_grad=True),)],
           operator.attrgetter(n))
      for n in ("requires_grad", "is_cpu", "is_cuda", "is_ipu", "is_maia", "is_meta", "is_mkldnn", "is_mps", "is_mtia",
                "is_nested", "is_quantized", "is_sparse", "is_sparse_csr", "is_vulkan", "is_xla", "is_xpu", "dtype",
                "layout", "device", "nbytes", "name", "grad")),
    Case(["prim::data"], [(X,), (torch.ones(1, requires_grad=True),)], lambda t: t.detach()),
    Case(["prim::abs"], [(X - 3,)], abs),
    Case(["prim::type"], [(CPU,), (torch.device("cuda:1"),)], lambda d: d.type),
    Case(["prim::index"], [(CPU,), (torch.device("cuda:1"),)], lambda d: d.index),
    Case(["prim::tolist"], [(X, 2, 1), (I, 1, 0), (S, 0, 1), (X > 2, 2, 2), (Z, 2, 3), (I.int(), 1, 0)],
         lambda t, dim, kind: t.tolist()),
    # conversion
    Case(["aten::to.prim_Device"], [(X, None, None, False, False), (X, CPU, FLOAT64, False, False),
                                    (X, torch.device("cpu"), None, False, True)],
         lambda t, d, dtype, *_: t.double() if dtype else t),
    Case(["aten::to.prim_dtype"], [(X, None, False, False), (X, FLOAT64, False, True), (X, torch.float64, False, False)],
         lambda t, dtype, *_: t.double() if dtype else t),
    Case(["aten::to.prim_other"], [(X, False, False), (X, False, True)], lambda t, *_: t),
    Case(["aten::cpu"], [(X,)], lambda t: t),
    Case(["aten::dequantize.tensor", "aten::dequantize.any"], [(Q,)], lambda t: t.dequantize()),
    Case(["aten::dequantize.list", "aten::dequantize.any"], [([Q, Q],), ([],)], lambda l: [t.dequantize() for t in l]),
    Case(["aten::dequantize.any"], [(3,), ((Q, 1),)], lambda l: 3 if l == 3 else (l[0].dequantize(), 1)),
    Case(["aten::device"], [("cpu",), ("cuda:1",), ("nonsense",)], torch.device),
    Case(["aten::device.with_index"], [("cuda", 1), ("cpu", 0)], torch.device),
    # writing
    Case(names("aten::copy_.", "int", "float", "Scalar"), [(X, 3), (X, 2.5), (I, 2.9), (X, 1e300)], lambda t, n: t.fill_(n)),
    Case(["aten::copy_.Tensor"], [(X, S), (X, I), (X, X[None])], assigned),
    Case(["prim::AsElements"], [(S, X), (X, X), (X[None], X), (I, X), (X, I)], lambda v, x: assigned(x * 0, v)),
    Case(["prim::TensorItem"], [(X, I), (X, I[0]), (X, 7), (X, True)], lambda x, i: x[..., i], {"index": "..., _"}),
    Case(["prim::SetTensorItem"], [(X, S, I, I), (X, I, I, I), (X, X, I[0], I)], lambda x, v, i, j: operator.setitem(x, (i, j), v), {"index": "_, _"}),
    Case(["prim::SetTensorItem.Scalar"], [(X, 2, 1, -1), (X, 1e300, 0, 1), (X, 2, 0, 2)], lambda x, v, i, j: operator.setitem(x, (i, slice(j, None)), v), {"index": "_, _:"}),
    Case(["aten::_no_grad_fill_"], [(X, 2.0), (torch.ones(2, requires_grad=True), 3.0)],
         lambda t, v: (t.detach().fill_(v), t)[1]),
    Case(["aten::_no_grad_zero_"], [(X,), (torch.ones(2, requires_grad=True),)], lambda t: (t.detach().zero_(), t)[1]),
    Case(["aten::index.Tensor_hacked_twin", "aten::_unsafe_index.Tensor_hacked_twin"], [(X, [I]), (X, [I, I])],
         lambda t, i: t[tuple(i)]),
    Case(["aten::index_put.hacked_twin", "aten::_unsafe_index_put.hacked_twin"],
         [(X, [I, I], S, False), (X, [I, I], S, True)],
         lambda t, i, v, add: t.clone().index_put_(tuple(i), v, add)),
    Case(["aten::index_put_.hacked_twin"], [(X, [I, I], S, False), (X, [I, I], S, True)],
         lambda t, i, v, add: t.index_put_(tuple(i), v, add)),
    Case(["aten::_index_put_impl_.hacked_twin"], [(X, [I, I], S, False, False), (X, [I, I], S, True, True)],
         lambda t, i, v, add, unsafe: t.index_put_(tuple(i), v, add)),
    # torch's Python functions
    Case(["aten::einsum.sublist"], [(X, [0, 1], X, [2, 1], [0, 2])], lambda a, _, b, *__: a @ b.t()),
    Case(["aten::__interpolate", *names("aten::__interpolate.", "size_list", "scale_list", "size_list_scale_list")],
         [(IMAGE, 2, None, "nearest", None, None, False), (IMAGE, [8, 2], None, "nearest", None, None, False),
          (IMAGE, None, [2.0, 2.0], "bilinear", True, None, False), (IMAGE, None, 0.5, "bilinear", None, True, True)],
         lambda x, size, scale, mode, corners, recompute, anti: F.interpolate(
             x, size=size, scale_factor=scale, mode=mode, align_corners=corners, recompute_scale_factor=recompute,
             antialias=anti)),
    Case(["aten::__upsample", "aten::__upsample.size_list"],
         [(IMAGE, 2, None, "nearest", None), (IMAGE, [8, 2], None, "bilinear", True), (IMAGE, None, 2, "nearest", None)],
         lambda x, size, scale, mode, corners: F.interpolate(x, size, scale, mode, corners)),
    Case(["aten::__upsample_nearest", "aten::__upsample_nearest.size_list"], [(IMAGE, 2, None), (IMAGE, [8, 2], None)],
         lambda x, size, scale: F.interpolate(x, size, scale, "nearest")),
    Case(["aten::__upsample_bilinear",
          *names("aten::__upsample_bilinear.", "size_list", "scale_list", "size_list_scale_list")],
         [(IMAGE, 2, None), (IMAGE, [8, 2], None), (IMAGE, None, [2, 2])],
         lambda x, size, scale: F.interpolate(x, size, scale, "bilinear", True)),
    Case(["aten::_pack_sequence"], [(X, I, None, None)], lambda *a: a),
    # autograd and modes
    Case(["aten::_grad_sum_to_size"], [(X, None), (X, [1, 3]), (X, [3]), (X, [])],
         lambda t, s: t if s is None else t.sum(0) if s == [3] else t.sum(0, True) if s else t.sum()),
    Case(["aten::_ncf_unsqueeze"], [(torch.ones(3), 4), (torch.ones(3), 2)],
         lambda t, n: t.reshape(1, 3, *[1] * (n - 2))),
    Case(["aten::_ncf_view"], [(torch.ones(2), [2, 3, 4], 2)], lambda t, s, n: t.reshape(2, 1, 1)),
    Case(["aten::is_grad_enabled"], [()], lambda: True),
    Case(["aten::is_autocast_enabled"], [()], lambda: False),
    Case(["aten::is_autocast_cpu_enabled"], [()], lambda: False),
    Case(["aten::is_autocast_enabled.device"], [("cpu",)], lambda d: False),
    Case(["aten::is_autocast_cache_enabled"], [()], lambda: True),
    Case(["aten::is_inference_mode_enabled"], [()], lambda: False),
    Case(["aten::get_autocast_dtype"], [("cpu",)], lambda d: torch.bfloat16),
    Case(["aten::_get_cpu_capability"], [()], torch.backends.cpu.get_cpu_capability),
]  # fmt: skip
