"""How tensors cross the border between Python and kernels: guards, new tensors.

A kernel is made for facts about its arguments and about the thread that calls it. Guards look whether they hold, before
anything else is done; where one does not hold, control goes to `MISS`: another kernel may fit, or Python does it.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.ir import types as T
from jitlite.kernels import torch_abi as abi
from jitlite.kernels.context import KernelCode
from jitlite.kernels.large_memory import advise
from jitlite.kernels.loop_ir import Buffer, Operand, Scalar, ScalarInput, SizesInput, TensorInput
from jitlite.kernels.tensor_entry import EVERY, MISS, Guard, call_torch, handle_of, look_at, torch_layout
from jitlite.kernels.thread_locals import thread_local
from jitlite.kernels.values import is_one
from jitlite.native.boxing import boxed, check_list, unboxed
from jitlite.native.capi import pointer
from jitlite.native.code import RAISED, LLVMBuilder

# -- arguments


def take_tensor(kc: KernelCode, held: str, argument: TensorInput, guards: frozenset[Guard] = EVERY) -> None:
    """Guard a tensor, and take what its sizes, strides and memory are. A guard that fails goes to `MISS`.

    A scalar that has a register already is compared with what the tensor has; else it gets one.

    Dimensions of size 1 do not matter to guards of strides. For the others holds:

    * A stride that is a number is this number.
    * Where the argument is dense, the strides are those of dense memory in `order`.
    * Else they decrease strictly along `order`, and none of them is 0; dimensions whose stride is the number 0 are
      passed over. The order of any two dimensions is known then, as torch uses it to lay out results.
    * A tensor without elements passes only where `order` ascends: to torch it is contiguous, whatever its strides are,
      but not always. Dense ones have the strides that a new tensor would have.

    Args:
        kc: the kernel.
        held: the register of the object, a borrowed reference.
        argument: what it has to be.
        guards: those that are on.
    """
    rank = len(argument.sizes)
    sizes_at, strides_at, elements = look_at(kc.code, held, argument.buffer.dtype.code, rank, guards)
    if rank:
        sizes = _take_sizes(kc, sizes_at, argument, guards)
        _take_strides(kc, _numbers(kc.code, strides_at, rank), sizes, argument, guards)
    kc.set_pointer(argument.buffer, elements)


def _numbers(code: LLVMBuilder, first: str, count: int) -> list[str]:
    return [code.load("i64", code.field(first, d)) for d in range(count)]


def _all(code: LLVMBuilder, conditions: Sequence[str]) -> str:
    found = "true"
    for condition in conditions:
        found = condition if found == "true" else code.value(f"and i1 {found}, {condition}")
    return found


def _any(code: LLVMBuilder, conditions: Sequence[str]) -> str:
    found = "false"
    for condition in conditions:
        found = condition if found == "false" else code.value(f"or i1 {found}, {condition}")
    return found


def _take_sizes(kc: KernelCode, first: str, argument: TensorInput, guards: frozenset[Guard]) -> list[str]:
    code = kc.code
    found, wrong = _numbers(code, first, len(argument.sizes)), []
    for size, operand in zip(found, argument.sizes, strict=True):
        if not isinstance(operand, Scalar) or operand in kc.registers:
            if Guard.SIZES in guards:
                wrong.append(code.value(f"icmp ne i64 {size}, {kc.operand(operand)}"))
            continue
        kc.registers[operand] = size
        if Guard.ONES in guards:
            wrong.append(code.value(f"icmp eq i64 {size}, 1"))
    if wrong:
        code.leave_if(_any(code, wrong), MISS)
    return found


def _take_strides(
    kc: KernelCode, strides: list[str], sizes: list[str], argument: TensorInput, guards: frozenset[Guard]
) -> None:
    code = kc.code
    for d, operand in enumerate(argument.strides):
        if d not in argument.order and isinstance(operand, Scalar):
            kc.registers.setdefault(operand, strides[d])
    take = _dense_strides if argument.is_dense else _ordered_strides
    wrong = [c for c in take(kc, strides, sizes, argument) if c != "false"]
    if Guard.STRIDES not in guards:
        return
    if list(argument.order) != sorted(argument.order):
        wrong += [code.value(f"icmp eq i64 {sizes[d]}, 0") for d in argument.order]
    if wrong:
        code.leave_if(_any(code, wrong), MISS)


def _dense_strides(kc: KernelCode, strides: list[str], sizes: list[str], argument: TensorInput) -> list[str]:
    """Conditions under which strides are not those of dense memory in the order of the argument.

    To the kernel a stride is the product of the sizes within, 0 where there are no elements; to torch these count as 1.
    """
    code, wrong, dense, product = kc.code, [], "1", "1"
    for d in reversed(argument.order):
        operand = argument.strides[d]
        wrong.append(_differs(code, strides[d], dense))
        known = kc.registers.setdefault(operand, product) if isinstance(operand, Scalar) else kc.operand(operand)
        wrong.append(_differs(code, known, product))
        dense = kc.multiply(dense, _at_least_1(code, sizes[d]))
        product = kc.multiply(product, sizes[d])
    return wrong


def _ordered_strides(kc: KernelCode, strides: list[str], sizes: list[str], argument: TensorInput) -> list[str]:
    """Conditions under which strides are not the known ones, or not in the order of the argument."""
    code, wrong = kc.code, []
    outer: str | None = None
    for d, operand in enumerate(argument.strides):
        if d not in argument.order and not is_one(argument.sizes[d]) and not isinstance(operand, Scalar):
            wrong.append(_differs(code, strides[d], kc.operand(operand)))
    for d in argument.order:
        operand = argument.strides[d]
        if isinstance(operand, Scalar):
            known = kc.registers.setdefault(operand, strides[d])
        else:
            known = kc.operand(operand)
        wrong.append(_differs(code, strides[d], known))
        if known != "0":
            if outer is not None:
                wrong.append(code.value(f"icmp sle i64 {outer}, {strides[d]}"))
            outer = strides[d]
    if outer is not None:
        wrong.append(code.value(f"icmp sle i64 {outer}, 0"))
    return wrong


def _differs(code: LLVMBuilder, a: str, b: str) -> str:
    return "false" if a == b else code.value(f"icmp ne i64 {a}, {b}")


def _at_least_1(code: LLVMBuilder, size: str) -> str:
    return code.intrinsic("i64 @llvm.smax.i64(i64, i64)", size, "1")


def take_scalar(kc: KernelCode, held: str, argument: ScalarInput) -> None:
    """Take a number, or a list that is only read. Another class gives the kernel up: no facts would make it fit."""
    if argument.is_outside:
        check_list(kc.code, held)
        kc.registers[argument.scalar] = held
    else:
        kc.registers[argument.scalar] = unboxed(kc.code, held, argument.scalar.type)


def take_sizes(kc: KernelCode, held: str, argument: SizesInput, guards: frozenset[Guard] = EVERY) -> None:
    """Guard a list of ints, and take what they are. A list of another length, or other sizes that are 1, miss."""
    code, wrong = kc.code, []
    check_list(code, held)
    count = code.call("i64", "PyList_Size", "ptr", held)
    if Guard.RANK in guards:
        code.leave_if(code.value(f"icmp ne i64 {count}, {len(argument.sizes)}"), MISS)
    for i, operand in enumerate(argument.sizes):
        size = unboxed(code, code.call("ptr", "PyList_GetItem", "ptr, i64", held, str(i)), T.INT)
        if isinstance(operand, Scalar):
            kc.registers[operand] = size
        if Guard.ONES in guards:
            wrong.append(code.value(f"icmp {'eq' if isinstance(operand, Scalar) else 'ne'} i64 {size}, 1"))
    if wrong:
        code.leave_if(_any(code, wrong), MISS)


def boxed_sizes(kc: KernelCode, sizes: Sequence[Operand]) -> str:
    """A new list of Python's ints. Where there is no memory for it, the exception leaves the function."""
    code = kc.code
    made = code.call("ptr", "PyList_New", "i64", str(len(sizes)))
    code.leave_if(code.value(f"icmp eq ptr {made}, null"), RAISED)
    for i, size in enumerate(sizes):
        held = boxed(code, kc.operand(size), T.INT)
        code.call("i32", "PyList_SetItem", "ptr, i64, ptr", made, str(i), held)  # it takes the reference
    return made


def take_none(kc: KernelCode, held: str, guards: frozenset[Guard] = EVERY) -> None:
    """Guard an argument that has to be None."""
    take_object(kc, held, None, guards)


def take_object(kc: KernelCode, held: str, wanted: object, guards: frozenset[Guard] = EVERY) -> None:
    """Guard an argument that has to be an object that lasts, such as a dtype."""
    if Guard.NONE in guards:
        kc.code.leave_if(kc.code.value(f"icmp ne ptr {held}, {pointer(id(wanted))}"), MISS)


# -- the thread


def guard_thread(kc: KernelCode, tensors: Sequence[str], guards: frozenset[Guard] = EVERY) -> None:
    """Guard what decides, at each call, what operators on plain tensors do: all is as it is by default, inference mode
    aside, and no derivative is computed. A guard that fails goes to `MISS`.

    Args:
        kc: the kernel.
        tensors: the registers of all arguments that are tensors; their classes have been looked at.
        guards: those that are on.
    """
    code = kc.code
    if Guard.THREAD in guards:
        _check_thread(code)
    if Guard.FUNCTION_MODES in guards:
        count = call_torch(code, "i64", abi.FUNCTION_MODES)
        code.leave_if(code.value(f"icmp ne i64 {count}, 0"), MISS)
    if tensors:
        _check_derivatives(code, [handle_of(code, held) for held in tensors], guards)


def _check_thread(code: LLVMBuilder) -> None:
    layout = torch_layout()
    place = code.value(f"call ptr {pointer(thread_local())}(ptr {pointer(layout.thread_keys)})")
    found = [code.load("i64", place), code.load("i64", code.field(place, 1))]
    plain = []
    for words in layout.plain_threads:
        same = [code.value(f"icmp eq i64 {f}, {w}") for f, w in zip(found, words, strict=True)]
        plain.append(_all(code, same))
    code.leave_if(code.value(f"xor i1 {_any(code, plain)}, true"), MISS)


def _check_derivatives(code: LLVMBuilder, tensors: Sequence[tuple[str, str]], guards: frozenset[Guard]) -> None:
    """Look at gradients and tangents, unless autograd knows none of the tensors."""
    look, onward = code.fresh("look"), code.fresh("on")
    kept = [code.value(f"getelementptr i8, ptr {impl}, i64 {torch_layout().derivatives_offset}") for _, impl in tensors]
    known = [code.value(f"icmp ne ptr {code.load('ptr', place)}, null") for place in kept]
    code.branch(_any(code, known), look, onward)
    code.label(look)
    if Guard.TANGENTS in guards:
        for handle, impl in tensors:
            tangent = code.load("ptr", call_torch(code, "ptr", abi.TANGENT, "ptr, i64, ptr", impl, "0", handle))
            code.leave_if(code.value(f"icmp ne ptr {tangent}, {pointer(torch_layout().undefined)}"), MISS)
    if Guard.GRADIENTS in guards:
        records = code.fresh("records")
        code.branch(call_torch(code, "zeroext i1", abi.GRAD_MODE), records, onward)
        code.label(records)
        for _, impl in tensors:
            code.leave_if(call_torch(code, "zeroext i1", abi.REQUIRES_GRAD, "ptr", impl), MISS)
    code.go(onward)
    code.label(onward)


# -- new tensors


def make_result(
    kc: KernelCode,
    buffer: Buffer,
    sizes: Sequence[Operand],
    strides: Sequence[Operand] | None = None,
    order: Sequence[int] | None = None,
) -> None:
    """Make a new tensor for a buffer, contiguous where there are no strides and no order of dimensions.

    The kernel is given up where there is no memory for it. One that was made for the buffer before, in a loop, is
    forgotten.
    """
    code = kc.code
    slot = kc.handles.get(buffer)
    if slot is None:
        slot = kc.handles[buffer] = code.slot("ptr")
        code.slots.append(f"  store ptr null, ptr {slot}")
    _forget(code, slot)
    numbers = [kc.operand(size) for size in sizes]
    if order is not None or strides is None:
        spread = _contiguous(kc, numbers, order)
    else:
        spread = [kc.operand(stride) for stride in strides]
    failed = call_torch(
        code, "i32", abi.EMPTY, "i64, ptr, ptr, i32, i32, i32, ptr", str(len(numbers)), _array(code, numbers),
        _array(code, spread), str(buffer.dtype.code), "0", "0", slot,
    )  # fmt: skip
    code.bail_out_if(code.value(f"icmp ne i32 {failed}, 0"))
    answer = code.slot("ptr")
    failed = call_torch(code, "i32", abi.GET_DATA, "ptr, ptr", code.load("ptr", slot), answer)
    code.bail_out_if(code.value(f"icmp ne i32 {failed}, 0"))
    start = code.load("ptr", answer)
    advise(kc, start, sizes, buffer.dtype.bytes)
    kc.set_pointer(buffer, start)


def _contiguous(kc: KernelCode, sizes: Sequence[str], order: Sequence[int] | None) -> list[str]:
    """The strides of memory without gaps; dimensions that the order does not have lie outermost."""
    dims = list(range(len(sizes))) if order is None else [d for d in range(len(sizes)) if d not in order] + list(order)
    strides, inner = ["1"] * len(sizes), "1"
    for d in reversed(dims):
        strides[d] = inner
        if d != dims[0]:
            inner = kc.multiply(inner, _at_least_1(kc.code, sizes[d]))
    return strides


def _array(code: LLVMBuilder, numbers: Sequence[str]) -> str:
    place = code.slot(f"[{max(len(numbers), 1)} x i64]")
    for i, number in enumerate(numbers):
        code.store("i64", number, code.field(place, i))
    return place


def _forget(code: LLVMBuilder, slot: str) -> None:
    """Give back the tensor that a slot holds, if it holds one."""
    held, onward = code.fresh("held"), code.fresh("on")
    handle = code.load("ptr", slot)
    code.branch(code.value(f"icmp ne ptr {handle}, null"), held, onward)
    code.label(held)
    call_torch(code, "i32", abi.DELETE, "ptr", handle)
    code.store("ptr", "null", slot)
    code.go(onward)
    code.label(onward)


def wrap(kc: KernelCode, buffer: Buffer) -> str:
    """The tensor of Python that a result is, a new reference. Twice the same buffer gives twice the same object.

    Where Python cannot make one, its exception leaves the function.
    """
    code = kc.code
    made = call_torch(code, "ptr", abi.WRAP, "ptr", code.load("ptr", kc.handles[buffer]))
    code.leave_if(code.value(f"icmp eq ptr {made}, null"), RAISED)
    return made


def release_results(kc: KernelCode) -> None:
    """Give back the handles of all results that have been made: after wrapping, and wherever a kernel is given up.

    It is written after all else that makes results.
    """
    for slot in kc.handles.values():
        _forget(kc.code, slot)
