"""Values as the pickles of an archive: the part of pickle's protocol 2 that TorchScript reads.

A value is written by its TorchScript type: where a float is wanted, an int is one. Equal values give equal bytes.
"""

from __future__ import annotations

import ctypes
import enum
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from jitlite.base.errors.ways_out import NOT_IN_ARCHIVE
from jitlite.base.source import NotSupportedError
from jitlite.codegen.torchscript.constants_out import checked_int, int_code, member_of
from jitlite.codegen.torchscript.declarations_out import slots
from jitlite.codegen.torchscript.type_names import TypeNames
from jitlite.ir import types as T
from jitlite.ir.int_codes import INT_OBJECTS
from jitlite.ir.types import ClassType, Type
from jitlite.ir.values import class_type_of, type_of_value

_BUILDERS: dict[Type, str] = {
    T.INT: "build_intlist", T.FLOAT: "build_doublelist", T.BOOL: "build_boollist", T.TENSOR: "build_tensorlist",
}  # fmt: skip
"""The functions that make lists of elements of one type."""
OUTSIDE = "outside"
"""What a persistent id begins with that is the number of a tensor outside the archive."""


class PickleStream:
    """The opcodes, with a memo for what is written more than once."""

    def __init__(self) -> None:
        self._parts = [b"\x80\x02"]
        self._memo: dict[object, int] = {}
        self._count = 0
        self._tuple = _Marked(self)

    def finish(self) -> bytes:
        """The whole pickle."""
        return b"".join([*self._parts, b"."])

    def op(self, code: bytes) -> None:
        self._parts.append(code)

    def put(self, key: object) -> None:
        """Remember what is on the stack."""
        number = self._memo[key] = self._count
        self._count += 1
        self.op(b"q" + bytes([number]) if number < 256 else b"r" + struct.pack("<I", number))

    def get(self, key: object) -> bool:
        """Push what is remembered, if it is."""
        number = self._memo.get(key)
        if number is None:
            return False
        self.op(b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number))
        return True

    def integer(self, value: int) -> None:
        if 0 <= value < 256:
            self.op(b"K" + bytes([value]))
        elif 0 <= value < 65536:
            self.op(b"M" + struct.pack("<H", value))
        elif -(2**31) <= value < 2**31:
            self.op(b"J" + struct.pack("<i", value))
        else:
            self.op(b"\x8a\x08" + struct.pack("<q", value))

    def boolean(self, value: bool) -> None:
        self.op(b"\x88" if value else b"\x89")

    def none(self) -> None:
        self.op(b"N")

    def real(self, value: float) -> None:
        self.op(b"G" + struct.pack(">d", value))

    def string(self, value: str) -> None:
        if self.get(("str", value)):
            return
        try:
            data = value.encode()
        except UnicodeEncodeError as error:
            raise NOT_IN_ARCHIVE(f"an archive cannot hold the text {value!r}, which is no Unicode") from error
        self.op(b"X" + struct.pack("<I", len(data)) + data)
        self.put(("str", value))

    def global_(self, module: str, name: str) -> None:
        key = ("global", module, name)
        if not self.get(key):
            self.op(f"c{module}\n{name}\n".encode())
            self.put(key)

    def marked_tuple(self) -> _Marked:
        """Inside, the elements of a tuple of any length are written."""
        return self._tuple

    def short_tuple(self, size: int) -> None:
        """Make a tuple of the last `size` (one to three) values."""
        self.op((b"\x85", b"\x86", b"\x87")[size - 1])

    def integers(self, values: Sequence[int]) -> None:
        """A `List[int]`."""
        self.global_("torch.jit._pickle", "build_intlist")
        with self.marked_tuple():
            self.op(b"](")
            for value in values:
                self.integer(value)
            self.op(b"e")
        self.op(b"R")


class _Marked:
    """`with`: a mark, and a tuple of what stands behind it."""

    def __init__(self, stream: PickleStream) -> None:
        self.op = stream.op

    def __enter__(self) -> None:
        self.op(b"(")

    def __exit__(self, *exception: object) -> None:
        self.op(b"t")


class StoredTensor(NamedTuple):
    """A storage to write, by way of a tensor on it."""

    name: str
    tensor: torch.Tensor


class ValuePickler:
    """Writes one pickle.

    Args:
        outside: a list that gets the tensors; the pickle then has only their numbers.

    Attributes:
        storages: those that have been met, in order.
        classes: the class types of the objects that have been met, in order.
    """

    def __init__(self, names: TypeNames, what: str, outside: list[torch.Tensor] | None = None) -> None:
        self.names = names
        self.outside = outside
        self.stream = PickleStream()
        self.storages: list[StoredTensor] = []
        self.classes: dict[ClassType, None] = {}
        self._record_names: dict[int, str] = {}
        self._path = [what]
        self._step = _Step(self._path)
        self._kept: list[object] = []
        self._slots: dict[ClassType, dict[str, Type]] = {}

    def fail(self, message: str, hint: str | None = None) -> NotSupportedError:
        return NOT_IN_ARCHIVE(f"{''.join(self._path)} {message}", hint=hint)

    def _inside(self, step: str) -> _Step:
        self._path.append(step)
        return self._step

    def _known(self, value: object) -> bool:
        return self.stream.get(("object", id(value)))

    def _remember(self, value: object) -> None:
        self._kept.append(value)  # so that no other object gets its identity
        self.stream.put(("object", id(value)))

    # -- values
    def value(self, value: object, type: Type) -> None:
        """Write a value of a type.

        Raises:
            NotSupportedError: where an archive cannot hold it; the error says where it is.
        """
        type = member_of(type, value)
        if isinstance(value, torch.Tensor):
            self.tensor(value)
            return
        simple = _SIMPLE.get(value.__class__)
        if simple is not None and not (type is T.FLOAT and isinstance(value, int)):
            simple(self, value)
        elif isinstance(value, enum.Enum) and isinstance(type, T.EnumType):
            self._enum(value, type)
        elif isinstance(value, int) and not isinstance(value, bool) and type is T.FLOAT:
            self.stream.real(float(value))
        else:
            self._structured(value, type)

    def _structured(self, value: object, type: Type) -> None:
        if isinstance(value, bool | int | float | complex | str):  # of a class of the program's own
            base: Any = next(b for b in (bool, int, float, complex, str) if isinstance(value, b))
            _SIMPLE[base](self, base(value))
        elif isinstance(value, INT_OBJECTS):
            self.stream.integer(int_code(value))
        elif isinstance(value, torch.device):
            self._device(value)
        elif isinstance(value, tuple):
            self._tuple(value, type)
        else:
            self._mutable(value, type)

    def _mutable(self, value: object, type: Type) -> None:
        if isinstance(value, list) and isinstance(type, T.ListType):
            self._list(value, type)
        elif isinstance(value, dict) and isinstance(type, T.DictType):
            self._dict(value, type)
        else:
            self._object(value, type)

    def _int(self, value: int) -> None:
        self.stream.integer(checked_int(value, "".join(self._path)))

    def _complex(self, value: complex) -> None:
        self.stream.global_("builtins", "complex")
        self.stream.real(value.real)
        self.stream.real(value.imag)
        self.stream.op(b"\x86R")

    def _device(self, value: torch.device) -> None:
        if self.stream.get(("device", str(value))):
            return
        self.stream.global_("torch", "device")
        self.stream.string(str(value))
        self.stream.op(b"\x85R")
        self.stream.put(("device", str(value)))

    def _enum(self, value: enum.Enum, type: T.EnumType) -> None:
        module, _, name = self.names.name(type).rpartition(".")
        self.stream.global_(module, name)
        self.value(value.value, type.value_type)
        self.stream.op(b"R")

    # -- containers
    def _tuple(self, value: tuple[object, ...], type: Type) -> None:
        known = isinstance(type, T.TupleType) and len(type.elements) == len(value)
        types: Sequence[Type] = type.elements if known and isinstance(type, T.TupleType) else [T.ANY] * len(value)
        if not value:
            self.stream.op(b")")
            return
        if len(value) > 3:
            self.stream.op(b"(")
        for number, (element, t) in enumerate(zip(value, types, strict=True)):
            with self._inside(f"[{number}]"):
                self.value(element, t)
        if len(value) > 3:
            self.stream.op(b"t")
        else:
            self.stream.short_tuple(len(value))

    def _list(self, value: list[object], type: T.ListType) -> None:
        if self._known(value):
            return
        builder = _BUILDERS.get(T.unshaped(type.element))
        self.stream.global_("torch.jit._pickle", builder or "restore_type_tag")
        if builder:
            self.stream.op(b"(")
        self.stream.op(b"](")
        for number, element in enumerate(value):
            with self._inside(f"[{number}]"):
                self.value(element, type.element)
        self.stream.op(b"e")
        if builder:
            self.stream.op(b"tR")
        else:
            self._tag(type)
        self._remember(value)

    def _dict(self, value: dict[object, object], type: T.DictType) -> None:
        if self._known(value):
            return
        self.stream.global_("torch.jit._pickle", "restore_type_tag")
        self.stream.op(b"}(")
        for key, element in value.items():
            with self._inside(f"[{key!r}]"):
                self.value(key, type.key)
                self.value(element, type.value)
        self.stream.op(b"u")
        self._tag(type)
        self._remember(value)

    def _tag(self, type: Type) -> None:
        self.stream.string(self.names.text(type))
        self.stream.op(b"\x86R")

    # -- objects
    def _object(self, value: object, type: Type) -> None:
        if self._known(value):
            return
        if isinstance(value, torch.ScriptObject):
            self._bound_object(value)
            return
        found = class_type_of(value)
        if found is None:
            raise self.fail(
                f"is of the class {value.__class__.__module__}.{value.__class__.__qualname__}, which has no place in "
                "an archive", hint="keep it out of the module's attributes, or give it a class that can be scripted",
            )  # fmt: skip
        self.classes.setdefault(found)
        self._new(self.names.name(found))
        self._state(value, found)
        self.stream.op(b"b")
        self._remember(value)

    def _new(self, name: str) -> None:
        """Make an object of the class of this name, without state yet."""
        module, _, plain = name.rpartition(".")
        self.stream.global_(module, plain)
        self.stream.op(b")\x81")

    def _bound_object(self, value: Any) -> None:
        """An object of a class that a library defines in C++, which says itself what it is made of."""
        try:
            state, name = value.__getstate__()
        except Exception as error:
            text = str(error).partition("\n")[0]
            raise self.fail(f"is an object of C++ that cannot be saved: {text}") from error
        self._new(name)
        self.value(state, type_of_value(state))
        self.stream.op(b"b")
        self._remember(value)

    def _state(self, value: object, type: ClassType) -> None:
        getstate = type.methods.get("__getstate__")
        if getstate is not None:
            self._check_setstate(type)
            with self._inside(".__getstate__()"):
                self.value(getstate(value), getstate.schema.returns[0].type)
            return
        self.stream.op(b"}(")
        found = self._slots.get(type)
        if found is None:
            found = self._slots[type] = slots(type)
        for name, t in found.items():
            self.stream.string(name)
            with self._inside(f".{name}"):
                self.value(self._attribute(value, name, type), t)
        self.stream.op(b"u")

    def _check_setstate(self, type: ClassType) -> None:
        setstate = type.methods.get("__setstate__")
        if setstate is None:
            raise self.fail(
                "has a compiled __getstate__ but no __setstate__, so that it could not be loaded",
                hint="define __setstate__ and mark it with jitlite.export too",
            )

    def _attribute(self, value: object, name: str, type: ClassType) -> Any:
        if name not in type.attributes:  # what torch.jit writes and scripts do not see
            return None
        try:
            return getattr(value, name)
        except AttributeError:
            raise self.fail(f"is not set, but '{type.annotation}' has it") from None

    # -- tensors
    def tensor(self, value: torch.Tensor) -> None:
        """Write a tensor: where its numbers are, and how they are laid out."""
        if self._known(value):
            return
        if self.outside is not None:
            self._number(value, self.outside)
        elif value.layout in (torch.sparse_coo, torch.sparse_csr):
            self._sparse(value)
        elif value.is_nested:
            raise self.fail("is a nested tensor, which has no place in an archive",
                            hint="keep its parts, .unbind(), in a list")  # fmt: skip
        elif value.layout is torch.strided:
            self._strided(value)
        else:
            raise self.fail(f"is a tensor of the layout {value.layout}, which has no place in an archive",
                            hint="convert it with .to_dense()")  # fmt: skip
        self._remember(value)

    def _number(self, value: torch.Tensor, outside: list[torch.Tensor]) -> None:
        self.stream.string(OUTSIDE)
        self.stream.integer(len(outside))
        self.stream.op(b"\x86Q")
        outside.append(value)

    def _strided(self, value: torch.Tensor) -> None:
        stream = self.stream
        stream.global_("torch._utils", "_rebuild_qtensor" if value.is_quantized else "_rebuild_tensor_v2")
        with stream.marked_tuple():
            self._storage(value)
            stream.integer(int(value.storage_offset()))
            for numbers in (value.shape, value.stride()):
                with stream.marked_tuple():
                    for number in numbers:
                        stream.integer(number)
            if value.is_quantized:
                self._quantizer(value)
            stream.boolean(value.requires_grad)
            self._no_hooks()
            bits = {"conj": value.is_conj(), "neg": value.is_neg()}
            if any(bits.values()):
                self._dict({k: v for k, v in bits.items() if v}, T.DictType.of(T.STRING, T.BOOL))
        stream.op(b"R")

    def _no_hooks(self) -> None:
        self.stream.global_("collections", "OrderedDict")
        self.stream.op(b")R")

    def _quantizer(self, value: torch.Tensor) -> None:
        scheme = value.qscheme()
        with self.stream.marked_tuple():
            self.stream.global_("torch", str(scheme).removeprefix("torch."))
            if scheme is torch.per_tensor_affine:
                self.stream.real(value.q_scale())
                self.stream.integer(value.q_zero_point())
            else:
                self.tensor(value.q_per_channel_scales())
                self.tensor(value.q_per_channel_zero_points())
                self.stream.integer(value.q_per_channel_axis())

    def _sparse(self, value: torch.Tensor) -> None:
        stream, is_coo = self.stream, value.layout is torch.sparse_coo
        stream.global_("torch._utils", "_rebuild_sparse_tensor")
        with stream.marked_tuple():
            stream.integer(int_code(value.layout))
            with stream.marked_tuple():
                for size in value.shape:
                    stream.integer(size)
            stream.boolean(value.requires_grad)
            plain = value.detach()
            parts = (
                [plain._indices(), plain._values()]
                if is_coo
                else [plain.crow_indices(), plain.col_indices(), plain.values()]
            )
            for part in parts:
                self.tensor(part)
            self._no_hooks()
        stream.op(b"R")

    def _storage(self, value: torch.Tensor) -> None:
        try:
            storage = value.untyped_storage()
        except (NotImplementedError, RuntimeError) as error:
            raise self.fail(f"is a {value.__class__.__name__} without a storage of its own: {error}") from error
        self._kept.append(storage)
        identity, dtype = storage._cdata, T.DTYPE_NAMES.get(value.dtype)
        if dtype is None:
            raise self.fail(f"is a tensor of {value.dtype}, which has no place in an archive")
        if self.stream.get(("storage", identity, dtype)):
            return
        record = self._record_names.get(identity)
        if record is None:
            record = self._record_names[identity] = str(len(self.storages))
            self.storages.append(StoredTensor(record, value))
        with self.stream.marked_tuple():
            self.stream.string("storage")
            self.stream.global_("torch", f"{dtype}Storage")
            self.stream.string(record)
            self.stream.string(str(value.device))
            self.stream.integer(storage.nbytes() // value.element_size())
        self.stream.op(b"Q")
        self.stream.put(("storage", identity, dtype))


class _Step:
    """`with`: one step deeper into the value that is written."""

    def __init__(self, path: list[str]) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        self.path.pop()


_SIMPLE: dict[type, Callable[[ValuePickler, Any], None]] = {
    type(None): lambda p, value: p.stream.none(),
    bool: lambda p, value: p.stream.boolean(value),
    int: ValuePickler._int,
    float: lambda p, value: p.stream.real(value),
    complex: ValuePickler._complex,
    str: lambda p, value: p.stream.string(value),
}
"""Values without parts, by class."""


@contextmanager
def storage_bytes(tensor: torch.Tensor) -> Iterator[memoryview | bytes]:
    """Inside, the bytes of the whole storage that a tensor lies on; they are not copied if the CPU has them."""
    storage: Any = tensor.untyped_storage()
    if tensor.is_meta or not storage.nbytes():
        yield b""
        return
    held = storage if storage.device.type == "cpu" else storage.cpu()
    yield memoryview((ctypes.c_char * held.nbytes()).from_address(held.data_ptr())).cast("B")
