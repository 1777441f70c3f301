"""Tensors of an archive: storages read from its records, and the tensors that are views of them.

Tensors that shared a storage share it again. A tensor never reaches beyond its storage, whatever the archive says.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Sequence
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

    def find(self, described: object, member: str) -> Storage:
        """The storage of a persistent id.

        Raises:
            ArchiveError: it is none, or its record is missing or damaged.
        """
        dtype, key, location, count = _parts_of_id(described, member)
        known = self._read.get(key)
        if known is None:
            known = self._read[key] = self._storage(key, dtype, location, count, member), dtype
        if known[1] is not dtype and self.swapped:
            raise ArchiveError(f"record '{key}' is used with two dtypes", member)
        return Storage(known[0], dtype)

    def _swap(self, made: torch.UntypedStorage, dtype: torch.dtype, width: int) -> None:
        if self.swapped and width > 1:
            swap: Any = made.byteswap
            swap(dtype)

    def _storage(
        self, key: str, dtype: torch.dtype, location: str, count: int, member: str
    ) -> torch.UntypedStorage:  # fmt: skip
        device = self._device(location, member)
        width = torch.empty(0, dtype=torch.uint8 if dtype in _PACKED else dtype).element_size()
        record = f"{self.folder}/{key}"
        if device.type == "meta":
            return _bytes(count * width, device)
        length = self._checked_length(record, dtype, count * width, member)
        if self.mapped and device.type == "cpu" and not self.swapped and length >= _WORTH_MAPPING:
            mapped = self.reader.mapped(record, _ALIGNMENT)
            if mapped is not None:
                return torch.frombuffer(mapped, dtype=torch.uint8).untyped_storage()
        made = self._read_bytes(record, length)
        self._swap(made, dtype, width)
        if device.type == "cpu":
            return made
        with faults_of(record):
            return torch.empty(0, dtype=torch.uint8).set_(made).to(device).untyped_storage()

    def _checked_length(self, record: str, dtype: torch.dtype, size: int, member: str) -> int:
        """The bytes of a record, which has as many as its elements need; `size` counts a byte for each packed one."""
        length = self.reader.length(record) if size or record in self.reader else 0
        expected = -(-size // _PACKED[dtype]) if dtype in _PACKED else size
        if length < expected:
            raise ArchiveError(f"it has {length} bytes, but {member} says that {expected} are needed", record)
        return length

    def _read_bytes(self, record: str, length: int) -> torch.UntypedStorage:
        made = _bytes(length)
        if length:
            self.reader.read_into(record, memoryview((ctypes.c_char * length).from_address(made.data_ptr())).cast("B"))
        return made

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


def _is_text(value: object, text: str) -> bool:
    """Is a value this text? Objects could say that they are equal to anything."""
    return type(value) is str and value == text


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


def _shape(value: object) -> tuple[int, ...]:
    parts = tuple(value) if isinstance(value, tuple | list) else None
    if parts is None or len(parts) > _DEEPEST or not all(type(n) is int and n >= 0 for n in parts):
        raise ValueError("sizes and strides are to be tuples of numbers")
    return parts


def _parts_of_id(described: object, member: str) -> tuple[torch.dtype, str, str, int]:
    """The dtype, key, location and number of elements in a persistent id."""
    if not (isinstance(described, tuple) and len(described) in (5, 6) and _is_text(described[0], "storage")):
        raise ArchiveError("a persistent id that is no storage", member)
    _, dtype, key, location, count = described[:5]
    dtype = getattr(dtype, "dtype", None)
    if not isinstance(dtype, torch.dtype) or not isinstance(key, str) or not isinstance(location, str):
        raise ArchiveError("a persistent id that is no storage", member)
    if type(count) is not int or count < 0:
        raise ArchiveError(f"a storage of {count if type(count) is int else 'so many'} elements", member)
    return dtype, key, location, count


def _width_and_count(storage: Storage) -> tuple[int, int]:
    """The bytes of an element, one for those of which a byte holds several, and the number of elements."""
    per_byte = _PACKED.get(storage.dtype)
    if per_byte:
        return 1, storage.untyped.nbytes() * per_byte
    width = torch.empty(0, dtype=storage.dtype).element_size()
    return width, storage.untyped.nbytes() // width


def _check_view(storage: Storage, offset: object, size: tuple[int, ...], stride: tuple[int, ...]) -> None:
    """See that a view stays within its storage, and that its number of bytes is one that torch can count."""
    if type(offset) is not int or offset < 0 or len(size) != len(stride):
        raise ValueError("a tensor with an impossible offset, or not as many strides as sizes")
    width, held = _width_and_count(storage)
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if offset > held or (0 not in size and last >= held):
        raise ValueError(f"a tensor of size {size} reaches beyond its storage, which has {held} elements")
    _check_count(size, width)
    if any(step * width > _MOST_BYTES for step in stride):
        raise ValueError("a tensor with impossible strides")


def _check_count(size: tuple[int, ...], width: int) -> None:
    """See that a tensor has no more bytes, written out, than torch can count."""
    if math.prod(max(n, 1) for n in size) * max(width, _WIDEST) > _MOST_BYTES:
        raise ValueError(f"a tensor of size {size} has more elements than can be counted")


_MOST_BYTES = 2**62
_WIDEST = 16
"""Bytes of an element of the widest dtype, which a program may convert the tensor to."""


def rebuild_tensor(
    storage: Any, offset: Any, size: Any, stride: Any, grad: object = False, *rest: object
) -> torch.Tensor:
    """`torch._utils._rebuild_tensor_v2`. Of what follows, hooks are left out; marks such as conj are kept."""
    if not isinstance(storage, Storage) or storage.dtype in _QUANTIZED:
        raise ValueError("a tensor without a storage of plain numbers")
    size, stride = _shape(size), _shape(stride)
    _check_view(storage, offset, size, stride)
    made = torch.empty(0, dtype=storage.dtype, device=storage.untyped.device)
    with torch.no_grad():
        made = made.set_(storage.untyped, offset, size, stride)
    if len(rest) > 1 and isinstance(rest[1], dict):
        made = made.conj() if rest[1].get("conj") is True else made
        made = torch._neg_view(made) if rest[1].get("neg") is True and made.dtype in _NEGATED else made
    return made.requires_grad_() if grad is True else made


_NEGATED = (torch.float16, torch.float32, torch.float64, torch.complex32, torch.complex64, torch.complex128)
"""dtypes of imaginary parts of conjugates, which are negated when they are read."""
_QUANTIZED = frozenset({torch.qint8, torch.quint8, torch.qint32, *_PACKED})


class NamedScheme:
    """A way to quantize, as the value of a global name in a pickle."""

    scheme: torch.qscheme


def _check_scale(scale: object, zero_point: object) -> None:
    if type(scale) is not float or type(zero_point) is not int or abs(zero_point) > _LARGEST_ZERO:
        raise ValueError("a quantized tensor with an impossible scale or zero")


def rebuild_quantized(
    storage: Any, offset: Any, size: Any, stride: Any, quantizer: object, grad: object = False, *rest: object
) -> torch.Tensor:
    """`torch._utils._rebuild_qtensor`."""
    if not isinstance(storage, Storage) or storage.dtype not in _QUANTIZED or type(quantizer) is not tuple:
        raise ValueError("a quantized tensor without a storage of its kind, or without its scales")
    size, stride = _shape(size), _shape(stride)
    _check_view(storage, offset, size, stride)
    named, *parameters = quantizer
    scheme = named.scheme if isinstance(named, NamedScheme) else named
    device = storage.untyped.device
    made: torch.Tensor
    if scheme is torch.per_tensor_affine:
        scale, zero_point = parameters
        _check_scale(scale, zero_point)
        make: Any = torch._empty_affine_quantized
        made = make(size, scale=scale, zero_point=zero_point, dtype=storage.dtype, device=device)
    elif scheme is torch.per_channel_affine or scheme is torch.per_channel_affine_float_qparams:
        scales, zero_points, axis = parameters
        _check_channels(storage, size, scales, zero_points, axis)
        make = torch._empty_per_channel_affine_quantized
        made = make(size, scales=scales, zero_points=zero_points, axis=axis, dtype=storage.dtype, device=device)
    else:
        raise ValueError("a quantized tensor of an unknown scheme")
    with torch.no_grad():
        return made.set_(storage.untyped, offset, size, stride)


_LARGEST_ZERO = 2**31 - 1


def _check_channels(storage: Storage, size: tuple[int, ...], scales: Any, zeros: Any, axis: Any) -> None:
    """See that each channel has its scale and zero."""
    if not all(_is_plain(t, storage.untyped.device) and t.dim() == 1 for t in (scales, zeros)):
        raise ValueError("a quantized tensor without its scales")
    if scales.dtype not in _SCALES or zeros.dtype not in _ZEROS or type(axis) is not int:
        raise ValueError("the scales of a quantized tensor are no numbers")
    if not 0 <= axis < len(size) or {scales.numel(), zeros.numel()} != {size[axis]}:
        raise ValueError("the scales of a quantized tensor are not as many as it has channels")


_SCALES = (torch.float32, torch.float64)
_ZEROS = (torch.int32, torch.int64, torch.float32, torch.float64)


def _is_plain(value: object, device: torch.device) -> bool:
    """Is it a tensor whose numbers lie in memory of this device, as they are?"""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or value.device != device:
        return False
    return not (value.is_quantized or value.is_meta)


def _sparse_parts(given: Sequence[object], dtypes_of_indices: Sequence[torch.dtype]) -> list[torch.Tensor]:
    """The tensors with indices, and last that with elements."""
    parts = [part for part in given if isinstance(part, torch.Tensor)]
    if not parts or not all(_is_plain(part, parts[0].device) for part in parts):
        raise ValueError("a sparse tensor whose parts are no plain tensors")
    if any(part.dtype not in dtypes_of_indices for part in parts[:-1]):
        raise ValueError("a sparse tensor whose indices are no ints")
    return parts


def rebuild_sparse(*arguments: object) -> torch.Tensor:
    """`torch._utils._rebuild_sparse_tensor`: the layout's number, the size, parts, then whatever version has more."""
    layout, size, *rest = arguments
    size = _shape(size)
    number = layout if type(layout) is int else None
    parts = _sparse_parts(rest, _INDICES[: 1 if number == _COO else 2])
    _check_count(size, parts[-1].element_size())
    if number == _COO and len(parts) == 2:
        made: torch.Tensor = torch.sparse_coo_tensor(parts[0], parts[1], size, check_invariants=True)
        return made
    if number in _COMPRESSED and len(parts) == 3:
        make: Any = torch.sparse_compressed_tensor
        compressed: torch.Tensor = make(*parts, size, layout=_COMPRESSED[number], check_invariants=True)
        return compressed
    raise ValueError("a sparse tensor of an unknown layout")


_COO = 1
_INDICES = (torch.int64, torch.int32)
_COMPRESSED: dict[int | None, torch.layout] = {2: torch.sparse_csr}
"""Layouts by their numbers in archives."""


def as_parameter(tensor: torch.Tensor) -> torch.nn.Parameter:
    """Make a tensor a parameter. It stays the same object, as attributes, lists and other modules may hold it too."""
    if isinstance(tensor, torch.nn.Parameter):
        return tensor
    if type(tensor) is not torch.Tensor or not tensor.is_leaf:
        return torch.nn.Parameter(tensor.detach(), requires_grad=tensor.requires_grad)
    changed: Any = tensor
    changed.__class__ = torch.nn.Parameter
    made: torch.nn.Parameter = changed
    return made


Rebuild = Callable[..., torch.Tensor]
REBUILD: dict[str, Rebuild] = {
    "_rebuild_tensor_v2": rebuild_tensor, "_rebuild_tensor": rebuild_tensor, "_rebuild_qtensor": rebuild_quantized,
    "_rebuild_sparse_tensor": rebuild_sparse,
}  # fmt: skip
"""Functions of `torch._utils` that pickles name, and what does their work here."""
