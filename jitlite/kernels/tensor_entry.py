"""A function that looks at a tensor of Python before a kernel reads it. All kernels of the process call the same one.

Each kernel has to look at each of its tensors, and what it looks at is nearly the same: the class, the dispatch keys,
the dtype, the rank. Written out in each kernel, that would be half of the code of a small one, which LLVM would compile
anew each time.

    i1 look(ptr object, i32 dtype, i64 rank, ptr found)

It says whether the object is such a tensor, and writes three pointers to `found`: to the sizes, to the strides, and to
the elements.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from enum import Enum

import torch

from jitlite.kernels import torch_abi as abi
from jitlite.native.boxing import CLASS_OFFSET
from jitlite.native.capi import pointer
from jitlite.native.code import LLVMBuilder
from jitlite.native.entry import address_of

MISS = "miss"
"""Where a kernel goes when facts that it was made for do not hold."""


class Guard(Enum):
    """What is looked at. Tests switch them off one by one."""

    CLASS = "the class is Tensor or Parameter"
    KEYS = "it is a strided tensor in CPU's memory, and no view that negates or conjugates"
    DTYPE = "elements are of this type"
    RANK = "it has so many dimensions"
    SIZES = "sizes that are known, or those of two tensors that are the same, are as expected"
    ONES = "a size that is not known to be 1 is not 1"
    STRIDES = "strides are as expected, and so is the order of dimensions in memory"
    THREAD = "no autocast, dispatch mode, functorch, tracing ..."
    FUNCTION_MODES = "no torch function mode is active"
    GRADIENTS = "no gradient is recorded"
    TANGENTS = "no tensor has a tangent"
    NONE = "the argument is None, or the very dtype"


EVERY = frozenset(Guard)
_HERE = frozenset({Guard.CLASS, Guard.KEYS, Guard.DTYPE, Guard.RANK})
_CLASSES = (torch.Tensor, torch.nn.Parameter)


def call_torch(code: LLVMBuilder, result: str, name: str, types: str = "", *operands: str) -> str:
    """A call of a function of torch's libraries that `torch_abi` has found: the register of what it gives."""
    written = types.split(", ") if types else []
    arguments = ", ".join(f"{t} {o}" for t, o in zip(written, operands, strict=True))
    return code.value(f"call {result} {pointer(abi.function(name))}({arguments})")


def torch_layout() -> abi.TorchABI:
    """Where things are in torch's objects."""
    found = abi.torch_abi()
    assert found is not None, abi.why_not()
    return found


def look_at(code: LLVMBuilder, held: str, dtype: int, rank: int, guards: frozenset[Guard]) -> tuple[str, str, str]:
    """Look at a tensor, and go to `MISS` where it is not as expected: pointers to its sizes, strides and elements.

    Args:
        code: of the kernel.
        held: the register of the object, a borrowed reference.
        dtype: the code of its dtype.
        rank: how many dimensions it has.
        guards: those that are on.
    """
    function, found = pointer(address_of("look", _text(guards & _HERE))), code.slot("[3 x ptr]")
    is_one = code.value(f"call i1 {function}(ptr {held}, i32 {dtype}, i64 {rank}, ptr {found})")
    code.leave_if(code.value(f"xor i1 {is_one}, true"), MISS)
    sizes, strides, elements = (code.load("ptr", code.field(found, i)) for i in range(3))
    return sizes, strides, elements


def handle_of(code: LLVMBuilder, held: str) -> tuple[str, str]:
    """The handle of a tensor of Python, and its `TensorImpl`."""
    handle = code.value(f"getelementptr i8, ptr {held}, i64 {torch_layout().handle_offset}")
    return handle, code.load("ptr", handle)


@functools.cache
def _text(guards: frozenset[Guard]) -> str:
    """A module of the function, with these guards."""
    code = LLVMBuilder()
    if Guard.CLASS in guards:
        _check_class(code)
    handle, impl = handle_of(code, "%object")
    if Guard.KEYS in guards:
        _check_keys(code, impl)
    answer = code.slot("i64")
    for name, type, expected in ((abi.GET_DTYPE, "i32", Guard.DTYPE), (abi.GET_RANK, "i64", Guard.RANK)):
        if expected in guards:
            wanted = "%dtype" if expected is Guard.DTYPE else "%rank"
            code.leave_if(code.value(f"icmp ne {type} {_asked(code, name, handle, answer, type)}, {wanted}"), MISS)
    for place, name in enumerate((abi.GET_SIZES, abi.GET_STRIDES, abi.GET_DATA)):
        code.store("ptr", _asked(code, name, handle, answer, "ptr"), code.field("%found", place))
    code.emit("ret i1 true")
    code.label(MISS)
    code.emit("ret i1 false")
    head = "define i1 @look(ptr %object, i32 %dtype, i64 %rank, ptr %found) {"
    return "\n".join([head, *code.slots, *code.lines, "}", ""])


def _check_class(code: LLVMBuilder) -> None:
    found = code.load("ptr", code.value(f"getelementptr i8, ptr %object, i64 {CLASS_OFFSET}"))
    code.leave_if(_none_of(code, "ptr", found, [pointer(id(wanted)) for wanted in _CLASSES]), MISS)


def _check_keys(code: LLVMBuilder, impl: str) -> None:
    """A tensor that was made in inference mode is as good as others to a kernel that only reads it."""
    keys = code.load("i64", code.value(f"getelementptr i8, ptr {impl}, i64 {torch_layout().keys_offset}"))
    code.leave_if(_none_of(code, "i64", keys, list(map(str, torch_layout().plain_keys))), MISS)


def _none_of(code: LLVMBuilder, type: str, value: str, others: Sequence[str]) -> str:
    found = "true"
    for other in others:
        differs = code.value(f"icmp ne {type} {value}, {other}")
        found = differs if found == "true" else code.value(f"and i1 {found}, {differs}")
    return found


def _asked(code: LLVMBuilder, name: str, handle: str, answer: str, type: str) -> str:
    """What a function of the C interface says of the tensor; the tensor is not as expected where it fails."""
    failed = call_torch(code, "i32", name, "ptr, ptr", handle, answer)
    code.leave_if(code.value(f"icmp ne i32 {failed}, 0"), MISS)
    return code.load(type, answer)
