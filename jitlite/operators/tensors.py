"""Operators on tensors that torch's dispatcher does not have: construction from numbers, conversion, autograd, modes.

dtypes, layouts and memory formats are ints in graph text and torch's objects at run time; an operator takes both.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F

from jitlite.ir import types as T
from jitlite.ir.int_codes import int_coded
from jitlite.ir.ops import Effect, is_dispatched, op, op_family
from jitlite.ir.traits import Spelling, Trait, known
from jitlite.operators.prims import exception_class

_Tensor = torch.Tensor
_Dtype = Any
"""A torch.dtype, its int code, or None."""
_Device = torch.device | None


def _dtype(dtype: _Dtype) -> Any:
    return int_coded(T.SCALAR_TYPE, dtype)


# -- from numbers and lists


@op_family("aten::tensor.{}({} t, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
           "bool complex float int")  # fmt: skip
@op(
    "aten::tensor(t[] data, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    traits=(Trait.FRESH, Trait.TENSOR_OF_NUMBER),
)
def tensor(data: object, dtype: _Dtype, device: _Device, requires_grad: bool) -> _Tensor:
    """`torch.tensor(data, dtype=dtype, device=device, requires_grad=requires_grad)`: always a copy."""
    return torch.tensor(data, dtype=_dtype(dtype), device=device, requires_grad=requires_grad)


@op_family("aten::as_tensor.{}({} t, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
           "bool complex float int")  # fmt: skip
@op(
    "aten::as_tensor.list(t[] data, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
    traits=(Trait.TENSOR_OF_NUMBER,),
)
@op("aten::as_tensor(Tensor(a) data, *, ScalarType? dtype=None, Device? device=None) -> Tensor(b|a)")
def as_tensor(data: object, dtype: _Dtype, device: _Device) -> _Tensor:
    """`torch.as_tensor(data, dtype=dtype, device=device)`: a tensor that needs no conversion is given back."""
    return torch.as_tensor(data, dtype=_dtype(dtype), device=device)


_WIDE = {float: torch.float64, complex: torch.complex128}


@op(
    "prim::NumToTensor.Scalar(Scalar a) -> Tensor",
    traits=(Trait.FRESH, Trait.TENSOR_OF_NUMBER, Trait.PACKS_NUMBERS, Spelling.OPCODE("NUM_TO_TENSOR")),
)
@op("prim::NumToTensor.bool(bool a) -> Tensor", total=True)
def number_to_tensor(a: object) -> _Tensor:
    """A 0-dimensional tensor of the number in full precision."""
    return torch.tensor(a, dtype=_WIDE.get(type(a)))


@op("aten::_list_to_tensor(int[] self) -> Tensor")
def list_to_tensor(self: list[int]) -> _Tensor:
    """A tensor of int32 numbers."""
    return torch.tensor(self, dtype=torch.int32)


@op("aten::_tensor_to_list(Tensor self) -> int[]")
def tensor_to_list(self: _Tensor) -> list[int]:
    """The numbers of a one-dimensional tensor of integers."""
    if self.dim() != 1 or self.is_floating_point() or self.is_complex():
        raise RuntimeError(
            f"expected a one-dimensional tensor of integers, got {self.dim()} dimensions of {self.dtype}"
        )
    return [int(n) for n in self.tolist()]


# -- shape


@op(
    "aten::size(Tensor self) -> int[]",
    total=True,
    traits=(
        Trait.ABOUT_SHAPE,
        Trait.ABOUT_FORM,
        Trait.NOT_CAST,
        Trait.CORE_QUESTION,
        Spelling.TENSOR_PROPERTY("shape"),
        Spelling.VARIABLE("size"),
    ),
)
@op("aten::sym_size(Tensor self) -> SymInt[]", total=True, traits=(Trait.CORE_QUESTION,))
def size(self: _Tensor) -> list[int]:
    """`self.size()`, as a list."""
    return list(self.size())


def _dim(self: _Tensor) -> int:
    return self.dim()


def _numel(self: _Tensor) -> int:
    return self.numel()


if not is_dispatched("aten::dim"):  # older versions of torch have these two in TorchScript's own table alone
    op("aten::dim(Tensor self) -> int", total=True, doc="`self.dim()`.")(_dim)
    op("aten::numel(Tensor self) -> int", total=True, doc="`self.numel()`.")(_numel)


@op("aten::stride(Tensor self) -> int[]", traits=(Trait.CORE_QUESTION,))
@op("aten::sym_stride(Tensor self) -> SymInt[]")
def stride(self: _Tensor) -> list[int]:
    """`self.stride()`, as a list."""
    return list(self.stride())


op("aten::len.Tensor(Tensor t) -> int", doc="`len(t)`: the first size; a TypeError for a 0-dimensional tensor.")(len)


@op("aten::element_size(Tensor self) -> int", total=True, traits=(Trait.PLAIN_INT,))
def element_size(self: _Tensor) -> int:
    """`self.element_size()`: the bytes of an element."""
    return self.element_size()


@op("aten::split(Tensor(a -> *) self, int[] split_sizes, int dim=0) -> Tensor(a)[]")
def split(self: _Tensor, split_sizes: list[int], dim: int) -> list[_Tensor]:
    """`self.split(split_sizes, dim)`, as a list."""
    return list(torch.split(self, split_sizes, dim))


@op("aten::numpy_T.a(Tensor(a) self) -> Tensor(a)", traits=(Spelling.TENSOR_PROPERTY("T"),))
def transposed(self: _Tensor) -> _Tensor:
    """`self.T`."""
    return self.T


@op("aten::matrix_H.a(Tensor(a) self) -> Tensor(a)", traits=(Spelling.TENSOR_PROPERTY("H"),))
def conjugate_transposed(self: _Tensor) -> _Tensor:
    """`self.H`."""
    return self.H


@op("aten::mT.a(Tensor(a) self) -> Tensor(a)", traits=(Spelling.TENSOR_PROPERTY("mT"),))
def batch_transposed(self: _Tensor) -> _Tensor:
    """`self.mT`."""
    return self.mT


@op("aten::mH.a(Tensor(a) self) -> Tensor(a)", traits=(Spelling.TENSOR_PROPERTY("mH"),))
def batch_conjugate_transposed(self: _Tensor) -> _Tensor:
    """`self.mH`."""
    return self.mH


def _packed_strides(sizes: list[int], order: list[int]) -> list[int]:
    """Strides of a tensor without gaps whose dimensions vary from fastest to slowest in this order."""
    strides, step = [0] * len(sizes), 1
    for dim in order:
        strides[dim] = step
        step *= max(1, sizes[dim])
    return strides


@op("aten::is_non_overlapping_and_dense(Tensor self) -> bool")
def is_non_overlapping_and_dense(self: _Tensor) -> bool:
    """Do the elements fill their memory without gaps and overlap, in whatever order of dimensions?"""
    if self.numel() < 2:
        return True
    sizes, strides = list(self.shape), self.stride()
    wide = sorted((d for d in range(len(sizes)) if sizes[d] != 1), key=lambda d: strides[d])
    packed = _packed_strides(sizes, wide)
    return all(strides[d] == packed[d] for d in wide)


_FASTEST_FIRST: dict[object, list[int]] = {torch.channels_last: [1, 3, 2, 0], torch.channels_last_3d: [1, 4, 3, 2, 0]}


@op("aten::is_strides_like_format(Tensor self, MemoryFormat memory_format) -> bool")
def is_strides_like_format(self: _Tensor, memory_format: object) -> bool:
    """Do the strides grow in the order of channels_last or channels_last_3d? False for other formats."""
    order = _FASTEST_FIRST.get(int_coded(T.MEMORY_FORMAT, memory_format))
    if order is None or self.dim() != len(order):
        return False
    sizes, strides, least = self.shape, self.stride(), 0
    if strides[1] == 0:
        return False
    for dim in order:
        # With a batch of one in contiguous order the strides would fit by chance.
        if sizes[dim] == 0 or strides[dim] < least or (dim == 0 and least == strides[1]):
            return False
        least = strides[dim] * max(1, sizes[dim])
    return True


# -- conversion


@op("aten::to.prim_Device(Tensor(a) self, Device? device, int? dtype=None, bool non_blocking=False, bool copy=False)"
    " -> Tensor(b|a)", traits=(Trait.CONVERSION, Trait.OTHER_ELEMENTS, Trait.NOT_CAST))  # fmt: skip
def to_device(self: _Tensor, device: _Device, dtype: _Dtype, non_blocking: bool, copy: bool) -> _Tensor:
    """`self.to(device, dtype, non_blocking, copy)`."""
    wanted = self.dtype if dtype is None else _dtype(dtype)
    return self.to(self.device if device is None else device, wanted, non_blocking, copy)


@op("aten::to.prim_dtype(Tensor(a) self, int? dtype=None, bool non_blocking=False, bool copy=False) -> Tensor(b|a)")
def to_dtype(self: _Tensor, dtype: _Dtype, non_blocking: bool, copy: bool) -> _Tensor:
    """`self.to(dtype, non_blocking, copy)`."""
    return self.to(self.dtype if dtype is None else _dtype(dtype), non_blocking, copy)


@op("aten::to.prim_other(Tensor(a) self, bool non_blocking=False, bool copy=False) -> Tensor(b|a)")
def to_other(self: _Tensor, non_blocking: bool, copy: bool) -> _Tensor:
    """The tensor itself, or a copy of it."""
    return self.to(self.dtype, non_blocking, copy)


@op("aten::cpu(Tensor(a) self) -> Tensor(b|a)", traits=(Trait.CONVERSION, Trait.OTHER_ELEMENTS, Trait.MOVES_DEVICE))
def to_cpu(self: _Tensor) -> _Tensor:
    """`self.cpu()`."""
    return self.cpu()


@op(
    "aten::cuda(Tensor(a) self) -> Tensor(b|a)",
    traits=(Trait.CONVERSION, Trait.OTHER_ELEMENTS, Trait.MOVES_DEVICE, Trait.NEVER_SAMPLED),
)
def to_cuda(self: _Tensor) -> _Tensor:
    """`self.cuda()`."""
    return self.cuda()


@op("aten::dequantize.tensor(Tensor qtensor) -> Tensor")
@op("aten::dequantize.list(Tensor[] qtensors) -> Tensor[]")
@op("aten::dequantize.any(Any tensors) -> Any")
def dequantize(tensors: object) -> Any:
    """The tensor, or each tensor of a list or tuple, in floating point. Other values are given back."""
    if isinstance(tensors, torch.Tensor):
        return tensors.dequantize()
    if isinstance(tensors, list | tuple):
        return type(tensors)([dequantize(t) for t in tensors])
    return tensors


@op("aten::device(str a) -> Device")
def device(a: str) -> torch.device:
    """`torch.device(a)`. A name that is no device is a RuntimeError."""
    return torch.device(a)


@op("aten::device.with_index(str type, int index) -> Device")
def device_with_index(type: str, index: int) -> torch.device:
    """`torch.device(type, index)`."""
    return torch.device(type, index)


# -- writing


@op("aten::_no_grad_fill_(Tensor(a!) tensor, float val) -> Tensor(a!)")
def no_grad_fill_(tensor: _Tensor, val: float) -> _Tensor:
    """`tensor.fill_(val)`, not recorded by autograd."""
    with torch.no_grad():
        return tensor.fill_(val)


@op("aten::_no_grad_zero_(Tensor(a!) tensor) -> Tensor(a!)")
def no_grad_zero_(tensor: _Tensor) -> _Tensor:
    """`tensor.zero_()`, not recorded by autograd."""
    with torch.no_grad():
        return tensor.zero_()


@op("aten::_no_grad_normal_(Tensor(a!) tensor, float mean, float std, Generator? generator=None) -> Tensor(a!)",
    Effect.RANDOM)  # fmt: skip
def no_grad_normal_(tensor: _Tensor, mean: float, std: float, generator: torch.Generator | None) -> _Tensor:
    """`tensor.normal_(mean, std)`, not recorded by autograd."""
    with torch.no_grad():
        return tensor.normal_(mean, std, generator=generator)


@op("aten::_no_grad_uniform_(Tensor(a!) tensor, float a, float b, Generator? generator=None) -> Tensor(a!)",
    Effect.RANDOM)  # fmt: skip
def no_grad_uniform_(tensor: _Tensor, a: float, b: float, generator: torch.Generator | None) -> _Tensor:
    """`tensor.uniform_(a, b)`, not recorded by autograd."""
    with torch.no_grad():
        return tensor.uniform_(a, b, generator=generator)


@op("aten::_no_grad_embedding_renorm_(Tensor weight, Tensor input, float max_norm, float norm_type) -> Tensor",
    Effect.SIDE)  # fmt: skip
def no_grad_embedding_renorm_(weight: _Tensor, input: _Tensor, max_norm: float, norm_type: float) -> _Tensor:
    """`torch.embedding_renorm_(weight, input, max_norm, norm_type)`, not recorded by autograd.

    It writes the weight, although the schema does not say so.
    """
    with torch.no_grad():
        return torch.embedding_renorm_(weight, input, max_norm, norm_type)


# -- indexing with a list of tensors, none of them optional


@op("aten::index.Tensor_hacked_twin(Tensor self, Tensor[] indices) -> Tensor")
def index(self: _Tensor, indices: list[_Tensor]) -> _Tensor:
    """The elements at the places that tensors of indices say, as a new tensor."""
    if len(indices) == 1:
        only = indices[0]
        if only is not None and only.dim():  # takes half as long; a single number would select, and give a view
            return self[only]
    result: _Tensor = torch.ops.aten.index.Tensor(self, indices)
    return result


@op(
    "aten::_unsafe_index.Tensor_hacked_twin(Tensor self, Tensor[] indices) -> Tensor",
    traits=(Trait.FRESH, Trait.DTYPE_OF_FIRST, Trait.SHAPE_DEPENDS_ON_VALUES),
)
def unsafe_index(self: _Tensor, indices: list[_Tensor]) -> _Tensor:
    """`self[indices]`, for positions that are known to be inside."""
    result: _Tensor = torch.ops.aten._unsafe_index.Tensor(self, indices)
    return result


@op(
    "aten::index_put.hacked_twin(Tensor self, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor",
    traits=(Trait.FRESH, Trait.DTYPE_OF_FIRST),
)
def index_put(self: _Tensor, indices: list[_Tensor], values: _Tensor, accumulate: bool) -> _Tensor:
    """A copy with values put at the indices, or added there."""
    return self.index_put(tuple(indices), values, accumulate)


@op("aten::_unsafe_index_put.hacked_twin(Tensor self, Tensor[] indices, Tensor values, bool accumulate=False)"
    " -> Tensor", traits=(Trait.FRESH, Trait.DTYPE_OF_FIRST))  # fmt: skip
def unsafe_index_put(self: _Tensor, indices: list[_Tensor], values: _Tensor, accumulate: bool) -> _Tensor:
    """A copy with values put or added at indices that are known to be inside."""
    result: _Tensor = torch.ops.aten._unsafe_index_put.default(self, indices, values, accumulate)
    return result


@op("aten::index_put_.hacked_twin(Tensor(a!) self, Tensor[] indices, Tensor values, bool accumulate=False)"
    " -> Tensor(a!)")  # fmt: skip
def index_put_(self: _Tensor, indices: list[_Tensor], values: _Tensor, accumulate: bool) -> _Tensor:
    """Put values at the indices of the tensor itself, or add them there."""
    return self.index_put_(tuple(indices), values, accumulate)


@op("aten::_index_put_impl_.hacked_twin(Tensor(a!) self, Tensor[] indices, Tensor values, bool accumulate=False,"
    " bool unsafe=False) -> Tensor(a!)")  # fmt: skip
def index_put_impl_(self: _Tensor, indices: list[_Tensor], values: _Tensor, accumulate: bool, unsafe: bool) -> _Tensor:
    """`index_put_`; `unsafe` leaves out the check that the indices are inside."""
    result: _Tensor = torch.ops.aten._index_put_impl_.default(self, indices, values, accumulate, unsafe)
    return result


# -- torch's Python functions


@op("aten::einsum.sublist(Tensor a, ...) -> Tensor")
def einsum(a: _Tensor, *args: object) -> _Tensor:
    """`torch.einsum(a, [0, 1], b, [1, 2], [0, 2])`: operands each followed by the numbers of their dimensions."""
    return torch.einsum(a, *args)


_INTERPOLATE = 'Tensor input, {} size=None, {} scale_factor=None, str mode="nearest", bool? align_corners=None'


@op(f"aten::__interpolate({_INTERPOLATE.format('int?', 'float?')}, bool? recompute_scale_factor=None,"
    " bool antialias=False) -> Tensor")  # fmt: skip
@op(f"aten::__interpolate.size_list({_INTERPOLATE.format('int[]?', 'float?')}, bool? recompute_scale_factor=None,"
    " bool antialias=False) -> Tensor")  # fmt: skip
@op(f"aten::__interpolate.scale_list({_INTERPOLATE.format('int?', 'float[]?')}, bool? recompute_scale_factor=None,"
    " bool antialias=False) -> Tensor")  # fmt: skip
@op(f"aten::__interpolate.size_list_scale_list({_INTERPOLATE.format('int[]?', 'float[]?')},"
    " bool? recompute_scale_factor=None, bool antialias=False) -> Tensor")  # fmt: skip
def interpolate(
    input: _Tensor,
    size: Any,
    scale_factor: Any,
    mode: str,
    align_corners: bool | None,
    recompute_scale_factor: bool | None,
    antialias: bool,
) -> _Tensor:
    """`torch.nn.functional.interpolate`."""
    return F.interpolate(
        input,
        size,
        scale_factor,
        mode,
        align_corners,
        recompute_scale_factor=recompute_scale_factor,
        antialias=antialias,
    )


@op(f"aten::__upsample({_INTERPOLATE.format('int?', 'int?')}) -> Tensor")
@op(f"aten::__upsample.size_list({_INTERPOLATE.format('int[]?', 'int?')}) -> Tensor")
def upsample(input: _Tensor, size: object, scale_factor: object, mode: str, align_corners: bool | None) -> _Tensor:
    """`torch.nn.functional.upsample`."""
    return F.upsample(input, size, scale_factor, mode, align_corners)


@op(
    "aten::__upsample_nearest(Tensor input, int? size=None, int? scale_factor=None) -> Tensor",
    traits=(Trait.DTYPE_OF_FIRST,),
)
@op("aten::__upsample_nearest.size_list(Tensor input, int[]? size=None, int? scale_factor=None) -> Tensor")
def upsample_nearest(input: _Tensor, size: object, scale_factor: object) -> _Tensor:
    """`torch.nn.functional.upsample_nearest`."""
    return F.upsample_nearest(input, size, scale_factor)


@op(
    "aten::__upsample_bilinear(Tensor input, int? size=None, int? scale_factor=None) -> Tensor",
    traits=(Trait.DTYPE_OF_FIRST,),
)
@op("aten::__upsample_bilinear.size_list(Tensor input, int[]? size=None, int? scale_factor=None) -> Tensor")
@op("aten::__upsample_bilinear.scale_list(Tensor input, int? size=None, int[]? scale_factor=None) -> Tensor")
@op("aten::__upsample_bilinear.size_list_scale_list(Tensor input, int[]? size=None, int[]? scale_factor=None)"
    " -> Tensor")  # fmt: skip
def upsample_bilinear(input: _Tensor, size: object, scale_factor: object) -> _Tensor:
    """`torch.nn.functional.upsample_bilinear`."""
    return F.upsample_bilinear(input, size, scale_factor)


@op("aten::_pack_sequence(Tensor output, Tensor batch_sizes, Tensor? sorted_indices, Tensor? unsorted_indices)"
    " -> (Tensor, Tensor, Tensor?, Tensor?)", total=True)  # fmt: skip
def pack_sequence(output: _Tensor, batch_sizes: _Tensor, sorted_indices: object, unsorted_indices: object) -> Any:
    """The four fields of a PackedSequence as they are."""
    return output, batch_sizes, sorted_indices, unsorted_indices


# -- autograd and modes


@op("aten::backward(Tensor self, Tensor? gradient=None, bool? retain_graph=None, bool create_graph=False) -> ()",
    Effect.SIDE, traits=(Trait.SUGAR, Spelling.ARCHIVED("torch.autograd.backward")))  # fmt: skip
def backward(self: _Tensor, gradient: _Tensor | None, retain_graph: bool | None, create_graph: bool) -> None:
    """`self.backward(gradient, retain_graph, create_graph)`."""
    self.backward(gradient, retain_graph, create_graph)  # type: ignore[no-untyped-call]


@op("aten::backward.TensorList(Tensor[] tensors, Tensor?[]? grad_tensors=None, bool? retain_graph=None,"
    " bool create_graph=False) -> ()", Effect.SIDE)  # fmt: skip
def backward_of_list(tensors: Any, grad_tensors: Any, retain_graph: bool | None, create_graph: bool) -> None:
    """`torch.autograd.backward(tensors, grad_tensors, retain_graph, create_graph)`."""
    torch.autograd.backward(tensors, grad_tensors, retain_graph, create_graph)


@op("aten::grad(Tensor[] outputs, Tensor[] inputs, Tensor?[]? grad_outputs=None, bool? retain_graph=None,"
    " bool create_graph=False, bool allow_unused=False) -> Tensor?[]", Effect.SIDE,
    traits=(Trait.SUGAR, Spelling.ARCHIVED("torch.autograd.grad")))  # fmt: skip
def grad(
    outputs: Any, inputs: Any, grad_outputs: Any, retain_graph: bool | None, create_graph: bool, allow_unused: bool
) -> list[_Tensor | None]:
    """`torch.autograd.grad(...)`, as a list. It frees the recorded graph unless told to keep it."""
    return list(
        torch.autograd.grad(
            outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused=allow_unused, is_grads_batched=False
        )
    )


_GRAD_OPTIONS = "bool? retain_graph=None, bool create_graph=False, bool allow_unused=False"


@op(f"aten::grad.Tensor(Tensor outputs, Tensor inputs, Tensor? grad_outputs=None, {_GRAD_OPTIONS}) -> Tensor?[]",
    Effect.SIDE)  # fmt: skip
@op(f"aten::grad.inputs(Tensor outputs, Tensor[] inputs, Tensor? grad_outputs=None, {_GRAD_OPTIONS}) -> Tensor?[]",
    Effect.SIDE)  # fmt: skip
@op(f"aten::grad.outputs(Tensor[] outputs, Tensor inputs, Tensor?[]? grad_outputs=None, {_GRAD_OPTIONS}) -> Tensor?[]",
    Effect.SIDE)  # fmt: skip
def grad_of_tensor(
    outputs: object,
    inputs: object,
    grad_outputs: object,
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool,
) -> list[_Tensor | None]:
    """`torch.autograd.grad(...)` with a single tensor for a list, which torch.jit does not take; as a list."""
    return grad(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused)


@op("aten::backward.Tensor(Tensor tensors, Tensor? grad_tensors=None, bool? retain_graph=None,"
    " bool create_graph=False) -> ()", Effect.SIDE)  # fmt: skip
def backward_function(
    tensors: _Tensor, grad_tensors: _Tensor | None, retain_graph: bool | None, create_graph: bool
) -> None:
    """`torch.autograd.backward(tensor, grad_tensors, retain_graph, create_graph)`."""
    torch.autograd.backward(tensors, grad_tensors, retain_graph, create_graph)


@op("aten::_grad_sum_to_size(Tensor(a) self, int[]? size) -> Tensor(a)")
def grad_sum_to_size(self: _Tensor, size: list[int] | None) -> _Tensor:
    """`self.sum_to_size(size)`; the tensor itself for no size."""
    return self if size is None else self.sum_to_size(size)


@op("aten::_ncf_unsqueeze(Tensor(a) self, int ndim) -> Tensor(a)")
def channel_unsqueeze(self: _Tensor, ndim: int) -> _Tensor:
    """A vector as the channels, dimension 1, of a tensor of so many dimensions."""
    if self.dim() != 1 or ndim < 2:
        raise RuntimeError(f"expected a vector and at least 2 dimensions, got {self.dim()} dimensions and {ndim}")
    return self.reshape([1, -1] + [1] * (ndim - 2))


@op("aten::_ncf_view(Tensor(a) self, int[] input_shape, int normalized_ndim) -> Tensor(a)")
def statistics_view(self: _Tensor, input_shape: list[int], normalized_ndim: int) -> _Tensor:
    """Statistics over the last dimensions in a shape that broadcasts to the input's."""
    kept = len(input_shape) - normalized_ndim
    return self.reshape(input_shape[:kept] + [1] * normalized_ndim)


@op("aten::is_grad_enabled() -> bool", Effect.STATE, total=True)
def is_grad_enabled() -> bool:
    """`torch.is_grad_enabled()`."""
    return torch.is_grad_enabled()


@op("aten::set_grad_enabled(bool val) -> ()", Effect.SIDE)
def set_grad_enabled(val: bool) -> None:
    """`torch.set_grad_enabled(val)`."""
    torch.set_grad_enabled(val)


@op("aten::is_autocast_enabled() -> bool", Effect.STATE, total=True)
def is_autocast_enabled() -> bool:
    """`torch.is_autocast_enabled()`: for CUDA."""
    return torch.is_autocast_enabled()


@op("aten::is_autocast_enabled.device(str device_type) -> bool", Effect.STATE)
def is_autocast_enabled_for(device_type: str) -> bool:
    """`torch.is_autocast_enabled(device_type)`."""
    return torch.is_autocast_enabled(device_type)


@op("aten::is_autocast_cache_enabled() -> bool", Effect.STATE, total=True)
def is_autocast_cache_enabled() -> bool:
    """`torch.is_autocast_cache_enabled()`."""
    return torch.is_autocast_cache_enabled()


@op("aten::is_inference_mode_enabled() -> bool", Effect.STATE, total=True)
def is_inference_mode_enabled() -> bool:
    """`torch.is_inference_mode_enabled()`."""
    return torch.is_inference_mode_enabled()


@op("aten::is_autocast_cpu_enabled() -> bool", Effect.STATE, total=True)
def is_autocast_cpu_enabled() -> bool:
    """`torch.is_autocast_enabled("cpu")`."""
    return torch.is_autocast_enabled("cpu")


@op("aten::get_autocast_dtype(str device_type) -> ScalarType", Effect.STATE)
def get_autocast_dtype(device_type: str) -> torch.dtype:
    """`torch.get_autocast_dtype(device_type)`."""
    return torch.get_autocast_dtype(device_type)


@op("aten::_get_cpu_capability() -> str", Effect.STATE, total=True)
def get_cpu_capability() -> str:
    """The vector instructions that torch uses on this machine, e.g. `AVX2`."""
    return torch.backends.cpu.get_cpu_capability()


# -- random numbers, warnings, files


@op("aten::Generator(*, Device? device=None, int? seed=None) -> Generator", Effect.STATE)
def generator(device: _Device, seed: int | None) -> torch.Generator:
    """`torch.Generator(device)`, with a seed if given."""
    made = torch.Generator(torch.device("cpu") if device is None else device)
    return made if seed is None else made.manual_seed(seed)


@op("aten::manual_seed(int seed) -> ()", Effect.SIDE)
def manual_seed(seed: int) -> None:
    """`torch.manual_seed(seed)`."""
    torch.manual_seed(seed)


@op("aten::manual_seed.generator(Generator(a!) self, int seed) -> Generator(a!)")
def generator_manual_seed(self: torch.Generator, seed: int) -> torch.Generator:
    """`self.manual_seed(seed)`."""
    return self.manual_seed(seed)


@op("aten::initial_seed(Generator self) -> int")
def initial_seed(self: torch.Generator) -> int:
    """`self.initial_seed()`."""
    return self.initial_seed()


@op("aten::seed(Generator(a!) self) -> int", Effect.RANDOM)
def seed(self: torch.Generator) -> int:
    """`self.seed()`: seed it with a number from the system."""
    return self.seed()


@op(
    "aten::warn(str message, int stacklevel=2) -> ()",
    Effect.SIDE,
    traits=(Trait.KEEPS_MODES, Trait.KEEPS_FACTS, Trait.SILENT, Trait.RAISES_OR_WARNS, Trait.IS_STATEMENT),
)
def warn(message: str, stacklevel: int) -> None:
    """`warnings.warn(message)`. The level is not used: the frames of the program are not Python's."""
    warnings.warn(message, stacklevel=2)


@op(
    "prim::WarnOf(str message, str category, str filename, int line) -> ()",
    Effect.SIDE,
    traits=(Trait.KEEPS_MODES, Trait.KEEPS_FACTS, Trait.SILENT, Trait.RAISES_OR_WARNS, Trait.IS_STATEMENT),
)
def warn_of(message: str, category: str, filename: str, line: int) -> None:
    """`warnings.warn(message, category)` for a line."""
    cls = exception_class(category)
    known = cls if cls is not None and issubclass(cls, Warning) else UserWarning
    warnings.warn_explicit(message, known, filename, line, registry=_warned_in(filename))


@cache
def _warned_in(filename: str) -> dict[str | tuple[str, type[Warning], int], int]:
    """What Python keeps for each module: the warnings that have been shown."""
    return {}


@op("aten::save(t item, str filename) -> ()", Effect.SIDE, traits=(Trait.REACHES_OUT,))
def save(item: object, filename: str) -> None:
    """`torch.save(item, filename)`."""
    torch.save(item, filename)


# -- what is known of operators that are declared in families

known("aten::__interpolate", Trait.DTYPE_OF_FIRST)
known("aten::__upsample", Trait.DTYPE_OF_FIRST)
