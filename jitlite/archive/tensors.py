"""Tensors of an archive: storages read from its records, and the tensors that are views of them.

Tensors that shared a storage share it again. A tensor never reaches beyond its storage, whatever the archive says.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import torch

from jitlite.archive.container import ArchiveReader
from jitlite.archive.errors import ArchiveError, faults_of

STORAGE_TYPES: dict[str, torch.dtype] = {
    "DoubleStorage": torch.float64, "FloatStorage": torch.float32, "HalfStorage": torch.float16,
    "LongStorage": torch.int64, "IntStorage": torch.int32, "ShortStorage": torch.int16, "CharStorage": torch.int8,
    "ByteStorage": torch.uint8, "BoolStorage": torch.bool, "BFloat16Storage": torch.bfloat16,
    "ComplexFloatStorage": torch.complex64, "ComplexDoubleStorage": torch.complex128,
    "ComplexHalfStorage": torch.complex32, "QInt8Storage": torch.qint8, "QUInt8Storage": torch.quint8,
    "QInt32Storage": torch.qint32, "QUInt4x2Storage": torch.quint4x2, "QUInt2x4Storage": torch.quint2x4,
    **{f"{name}Storage": found for name in ("UInt16", "UInt32", "UInt64", "Float8_e5m2", "Float8_e4m3fn",
       "Float8_e5m2fnuz", "Float8_e4m3fnuz")
       if isinstance(found := getattr(torch, name.lower(), None), torch.dtype)},
}  # fmt: skip
"""The dtypes of storages, by their names in archives."""

_PACKED = {torch.quint4x2: 2, torch.quint2x4: 4}
"""How many elements a byte holds, of dtypes that have several in one."""

_WORTH_MAPPING = 1 << 14
"""Smaller storages are read at once."""
_ALIGNMENT = 16
"""At a multiple of this, numbers of all dtypes may begin."""
_DEEPEST = 64
"""Dimensions that a tensor can have."""


class Storages:
    """The storages that the tensors of one pickle use.

    Args:
        folder: where their records are, `data` or `constants`.
        device: where all are to be put, None for where they were when they were written.
        mapped: let large ones lie in the file itself.
    """

    def __init__(
        self, reader: ArchiveReader, folder: str, device: torch.device | None, *, mapped: bool = False
    ) -> None:
        self.reader = reader
        self.mapped = mapped
        self.folder = folder
        self.device = device
        self.swapped = _written_elsewhere(reader)
        self._read: dict[str, tuple[torch.UntypedStorage, torch.dtype]] = {}

    def find(self, described: Any, member: str) -> Storage:
        """The storage of a persistent id.

        Raises:
            ArchiveError: it is none, or its record is missing or damaged.
        """
        if not (isinstance(described, tuple) and len(described) in (5, 6) and described[0] == "storage"):
            raise ArchiveError("a persistent id that is no storage", member)
        _, dtype, key, location, count = described[:5]
        dtype = getattr(dtype, "dtype", None)
        if not isinstance(dtype, torch.dtype) or not isinstance(key, str) or not isinstance(location, str):
            raise ArchiveError("a persistent id that is no storage", member)
        if type(count) is not int or count < 0:
            raise ArchiveError(f"a storage of {count!r} elements", member)
        known = self._read.get(key)
        if known is None:
            known = self._read[key] = self._storage(key, dtype, location, count, member), dtype
        if known[1] is not dtype and self.swapped:
            raise ArchiveError(f"record '{key}' is used with two dtypes", member)
        return Storage(known[0], dtype)

    def _storage(
        self, key: str, dtype: torch.dtype, location: str, count: int, member: str
    ) -> torch.UntypedStorage:  # fmt: skip
        device = self._device(location, member)
        width = torch.empty(0, dtype=torch.uint8 if dtype in _PACKED else dtype).element_size()
        record = f"{self.folder}/{key}"
        if device.type == "meta":
            return _bytes(count * width, device)
        length = self.reader.length(record) if count or record in self.reader else 0
        expected = -(-count // _PACKED[dtype]) if dtype in _PACKED else count * width
        if length < expected:
            raise ArchiveError(f"it has {length} bytes, but {member} says that {expected} are needed", record)
        if self.mapped and device.type == "cpu" and not self.swapped and length >= _WORTH_MAPPING:
            mapped = self.reader.mapped(record, _ALIGNMENT)
            if mapped is not None:
                return torch.frombuffer(mapped, dtype=torch.uint8).untyped_storage()
        made = _bytes(length)
        if length:
            self.reader.read_into(record, memoryview((ctypes.c_char * length).from_address(made.data_ptr())).cast("B"))
        if self.swapped and width > 1:
            swap: Any = made.byteswap
            swap(dtype)
        if device.type == "cpu":
            return made
        with faults_of(record):
            return torch.empty(0, dtype=torch.uint8).set_(made).to(device).untyped_storage()

    def _device(self, location: str, member: str) -> torch.device:
        if self.device is not None:
            return self.device
        if location == "cpu":
            return torch.device("cpu")
        try:
            device = torch.device(location)
            torch.empty(0, device=device)
        except Exception as error:
            raise ArchiveError(
                f"a tensor was on the device '{location}', which cannot be used here: {str(error).splitlines()[0]}",
                member, hint="say where to put tensors: load(file, map_location='cpu')",
            ) from None  # fmt: skip
        return device


def _bytes(count: int, device: torch.device | None = None) -> torch.UntypedStorage:
    make: Any = torch.UntypedStorage
    made: torch.UntypedStorage = make(count) if device is None else make(count, device=device)
    return made


class Storage:
    """A storage with the dtype that a pickle sees it with."""

    def __init__(self, untyped: torch.UntypedStorage, dtype: torch.dtype) -> None:
        self.untyped = untyped
        self.dtype = dtype


def _written_elsewhere(reader: ArchiveReader) -> bool:
    """Are the bytes of numbers in the other order?"""
    if "byteorder" not in reader:
        return False
    order = reader.read("byteorder").decode("ascii", "replace").strip()
    if order not in ("little", "big"):
        raise ArchiveError(f"the order of bytes is '{order[:20]}', which is neither 'little' nor 'big'", "byteorder")
    return order != sys.byteorder


# -- tensors from the arguments in the pickle


def _shape(value: Any) -> tuple[int, ...]:
    parts = tuple(value) if isinstance(value, tuple | list) else None
    if parts is None or len(parts) > _DEEPEST or not all(type(n) is int and n >= 0 for n in parts):
        raise ValueError("sizes and strides are to be tuples of numbers")
    return parts


def _check_view(storage: Storage, offset: Any, size: tuple[int, ...], stride: tuple[int, ...]) -> None:
    """See that a view stays within its storage."""
    if type(offset) is not int or offset < 0 or len(size) != len(stride):
        raise ValueError("a tensor with an impossible offset, or not as many strides as sizes")
    if 0 in size:
        return
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    per_byte = _PACKED.get(storage.dtype)
    width = torch.empty(0, dtype=torch.uint8 if per_byte else storage.dtype).element_size()
    held = storage.untyped.nbytes() * per_byte if per_byte else storage.untyped.nbytes() // width
    if last >= held:
        raise ValueError(f"a tensor of size {size} reaches beyond its storage, which has {held} elements")


def rebuild_tensor(storage: Any, offset: Any, size: Any, stride: Any, grad: Any = False, *rest: Any) -> torch.Tensor:
    """`torch._utils._rebuild_tensor_v2`. Of what follows, hooks are left out; marks such as conj are kept."""
    if not isinstance(storage, Storage):
        raise ValueError("a tensor without a storage")
    size, stride = _shape(size), _shape(stride)
    _check_view(storage, offset, size, stride)
    made = torch.empty(0, dtype=storage.dtype, device=storage.untyped.device)
    with torch.no_grad():
        made = made.set_(storage.untyped, offset, size, stride)
    if len(rest) > 1 and isinstance(rest[1], dict):
        made = made.conj() if rest[1].get("conj") else made
        made = torch._neg_view(made) if rest[1].get("neg") else made
    return made.requires_grad_() if grad is True else made


def rebuild_quantized(
    storage: Any, offset: Any, size: Any, stride: Any, quantizer: Any, grad: Any = False, *rest: Any
) -> torch.Tensor:
    """`torch._utils._rebuild_qtensor`."""
    size, stride = _shape(size), _shape(stride)
    _check_view(storage, offset, size, stride)
    scheme, *parameters = quantizer
    scheme = getattr(scheme, "value", scheme)
    device = storage.untyped.device
    made: torch.Tensor
    if scheme is torch.per_tensor_affine:
        scale, zero_point = parameters
        make: Any = torch._empty_affine_quantized
        made = make(size, scale=scale, zero_point=zero_point, dtype=storage.dtype, device=device)
    elif scheme in (torch.per_channel_affine, torch.per_channel_affine_float_qparams):
        scales, zero_points, axis = parameters
        if not all(isinstance(t, torch.Tensor) for t in (scales, zero_points)) or type(axis) is not int:
            raise ValueError("a quantized tensor without its scales")
        if not 0 <= axis < len(size) or {scales.numel(), zero_points.numel()} != {size[axis]}:
            raise ValueError("the scales of a quantized tensor are not as many as it has channels")
        make = torch._empty_per_channel_affine_quantized
        made = make(size, scales=scales, zero_points=zero_points, axis=axis, dtype=storage.dtype, device=device)
    else:
        raise ValueError("a quantized tensor of an unknown scheme")
    with torch.no_grad():
        return made.set_(storage.untyped, offset, size, stride)


def rebuild_sparse(*arguments: Any) -> torch.Tensor:
    """`torch._utils._rebuild_sparse_tensor`: the layout's number, the size, parts, then whatever version has more."""
    layout, size, *rest = arguments
    size = _shape(size)
    parts = [part for part in rest if isinstance(part, torch.Tensor)]
    number = layout if type(layout) is int else None
    if number == _COO and len(parts) == 2:
        made: torch.Tensor = torch.sparse_coo_tensor(parts[0], parts[1], size, check_invariants=True)
        return made
    if number in _COMPRESSED and len(parts) == 3:
        make: Any = torch.sparse_compressed_tensor
        compressed: torch.Tensor = make(*parts, size, layout=_COMPRESSED[number], check_invariants=True)
        return compressed
    raise ValueError("a sparse tensor of an unknown layout")


_COO = 1
_COMPRESSED: dict[int | None, torch.layout] = {2: torch.sparse_csr}
"""Layouts by their numbers in archives."""


def as_parameter(tensor: torch.Tensor) -> torch.nn.Parameter:
    """The tensor, which requires a gradient if its parameter did, as a parameter."""
    return torch.nn.Parameter(tensor.detach(), requires_grad=tensor.requires_grad)


Rebuild = Callable[..., torch.Tensor]
REBUILD: dict[str, Rebuild] = {
    "_rebuild_tensor_v2": rebuild_tensor, "_rebuild_tensor": rebuild_tensor, "_rebuild_qtensor": rebuild_quantized,
    "_rebuild_sparse_tensor": rebuild_sparse,
}  # fmt: skip
"""Functions of `torch._utils` that pickles name, and what does their work here."""
