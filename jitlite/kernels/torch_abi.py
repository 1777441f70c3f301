"""What kernels know of torch's binary layout and of the functions that its libraries export.

Nothing of this is documented. So nothing is taken for granted: the first time it is needed, each item is looked for in
this process and tried on tensors whose answers are known, which takes a few milliseconds. Where an item is not as it
should be, there are no kernels (`torch_abi`), or none that use it (`symbol`), and Python goes on.

The trials run in a thread of their own: modes of the thread that happens to be first (autocast, inference mode, a
dispatch mode that watches) neither disturb them nor see them.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

import torch

from jitlite.base.records import Record
from jitlite.kernels.forks import threads_are_lost
from jitlite.kernels.loop_ir import DTYPES
from jitlite.kernels.thread_locals import NotHere, thread_index, thread_local

GET_DATA = "aoti_torch_get_data_ptr"
GET_SIZES = "aoti_torch_get_sizes"
GET_STRIDES = "aoti_torch_get_strides"
GET_RANK = "aoti_torch_get_dim"
GET_DTYPE = "aoti_torch_get_dtype"
EMPTY = "aoti_torch_empty_strided"
DELETE = "aoti_torch_delete_tensor_object"
WRAP = "_Z16THPVariable_WrapRKN2at10TensorBaseE"
"""`PyObject *THPVariable_Wrap(const at::TensorBase &)`"""
GRAD_MODE = "_ZN3c108GradMode10is_enabledEv"
"""`bool c10::GradMode::is_enabled()`"""
REQUIRES_GRAD = "_ZNK3c1010TensorImpl13requires_gradEv"
"""`bool c10::TensorImpl::requires_grad() const`"""
TANGENT = "_ZNK3c1010TensorImpl8_fw_gradEmRKN2at10TensorBaseE"
"""`const at::Tensor &c10::TensorImpl::_fw_grad(uint64_t level, const at::TensorBase &self) const`"""
FUNCTION_MODES = "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv"
"""`int64_t at::impl::PythonTorchFunctionTLS::stack_len()`"""
_THREAD_KEYS = "_ZN3c104impl26raw_local_dispatch_key_setE"
"""`thread_local c10::impl::PODLocalDispatchKeySet`: two words, the keys that are included and those that are excluded.
Each differs from what torch says by a constant, so that a new thread may start with zeros."""
PARALLEL_FOR = "torch_parallel_for"
SINGLE_PRODUCT, DOUBLE_PRODUCT = "sgemm_", "dgemm_"


class TorchABI(Record, eq=True):
    """What kernels take for granted once it has been tried.

    Attributes:
        handle_offset: where in a tensor of Python its `at::Tensor` is. The address of that is what torch's C interface
            calls a handle; what is there is the address of the `TensorImpl`.
        keys_offset: where in a `TensorImpl` the set of its dispatch keys is.
        plain_keys: those of strided tensors in CPU's memory that nothing is special about: as they are usually, and
            as they are when made in inference mode.
        thread_keys: the address of what `__tls_get_addr` is to be given for the thread's included and excluded keys.
        plain_threads: these two words outside and inside of inference mode, where nothing else is on.
        derivatives_offset: where in a `TensorImpl` is what autograd keeps about it: null where it keeps nothing, so
            that the tensor neither requires gradients nor has a tangent.
        undefined: the `TensorImpl` of an undefined tensor.
    """

    handle_offset: int
    keys_offset: int
    plain_keys: tuple[int, ...]
    thread_keys: int
    plain_threads: tuple[tuple[int, int], ...]
    derivatives_offset: int
    undefined: int


def _unsupported() -> str:
    """Why nothing is even tried; "" where it is."""
    if sys.implementation.name != "cpython":
        return f"Python is {sys.implementation.name}"
    if sys.platform != "linux":
        return f"the system is {sys.platform}"
    if platform.machine() not in ("x86_64", "AMD64") or sys.maxsize < 2**32:
        return f"the machine is {platform.machine()}"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "Python has no global lock"
    return ""


@functools.cache
def _libraries() -> ctypes.CDLL:
    """torch's extension module, as it is loaded; names are looked up in what it is linked with, too."""
    return ctypes.CDLL(sys.modules["torch._C"].__file__, mode=os.RTLD_NOLOAD | os.RTLD_NOW)


def _address(name: str) -> int:
    try:
        return ctypes.cast(getattr(_libraries(), name), ctypes.c_void_p).value or 0
    except AttributeError:
        raise NotHere(f"torch exports no {name}") from None


@functools.cache
def _found(name: str) -> tuple[int | None, str]:
    """Where a function is, or why it cannot be used."""
    why = _unsupported()
    if why:
        return None, why
    try:
        address = _address(name)
        trial = _trial_of(name)
        if trial is not None:
            trial(address)
    except Exception as error:
        return None, _text(error)
    return address, ""


def symbol(name: str) -> int | None:
    """The address of a function that torch's libraries export; None where there is none or it fails its trial."""
    return _found(name)[0]


def function(name: str) -> int:
    """The address of a function that `torch_abi` has made sure of.

    Raises:
        NotHere: where it has not.
    """
    address, why = _found(name)
    if address is None:
        raise NotHere(why)
    return address


def _text(error: Exception) -> str:
    return str(error) if isinstance(error, NotHere) else f"{type(error).__name__}: {error}"


# -- the layout


@functools.cache
def _abi() -> tuple[TorchABI | None, str]:
    why = _unsupported()
    if why:
        return None, why
    try:
        return elsewhere(_try_layout), ""
    except Exception as error:
        return None, _text(error)


def torch_abi() -> TorchABI | None:
    """What kernels need to know of torch's layout; None where something is not as it should be (`why_not`)."""
    return _abi()[0]


def why_not() -> str:
    """Why there is no `torch_abi`; "" where there is one."""
    return _abi()[1]


Found = TypeVar("Found")


def elsewhere(call: Callable[[], Found]) -> Found:
    """Call in a new thread, where no mode is on."""
    done: list[Found] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(call())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="jitlite-trial")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]


def _try_layout() -> TorchABI:
    handle = _handle_offset()
    keys, plain = _key_words()
    _try_getters()
    _try_making()
    undefined = _try_gradients()
    _try_function_modes()
    thread_keys, threads = _thread_words()
    return TorchABI(handle, keys, plain, thread_keys, threads, _derivatives_offset(), undefined)


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def _expect(found: object, wanted: object, what: str) -> None:
    if found != wanted:
        raise NotHere(f"{what}: {found!r} instead of {wanted!r}")


def _cpu(*sizes: int, dtype: torch.dtype = torch.float32, device: str = "cpu") -> torch.Tensor:
    return torch.empty(sizes, dtype=dtype, device=device)


def _samples() -> list[torch.Tensor]:
    """Tensors of all sorts, whose dispatch keys differ."""
    conjugate = _cpu(2, dtype=torch.complex64).conj()
    with torch.inference_mode():
        inference = _cpu(3)
    meta = _cpu(3, device="meta")
    return [
        _cpu(3), _cpu(2, 5, dtype=torch.float64), _cpu(dtype=torch.int64), torch.nn.Parameter(_cpu(2)),
        conjugate, conjugate.imag, inference, meta,
    ]  # fmt: skip


def _handle_offset() -> int:
    samples = _samples()
    for offset in range(16, torch._C.TensorBase.__basicsize__, 8):
        if all(_word(id(t) + offset) == t._cdata for t in samples):
            return offset
    raise NotHere("tensors of Python do not say where their own handle is")


_KEYS_END = 208
"""Where the search for dispatch keys ends: they are found before the end of a `TensorImpl` is reached."""
_DERIVATIVES_END = 64
"""Where the search for what autograd keeps ends: it is among the first fields."""


def _key_words() -> tuple[int, tuple[int, ...]]:
    """Where dispatch keys are, and those of plain tensors: usual ones, and those made in inference mode."""
    samples = _samples()
    words = [torch._C._dispatch_keys(t).raw_repr() for t in samples]
    dense, _, _, parameter, conjugate, negative, inference, meta = words
    if len({dense, conjugate, negative, inference, meta}) != 5 or dense != parameter:
        raise NotHere("dispatch keys do not tell plain tensors from others")
    for offset in range(8, _KEYS_END, 8):
        if all(_word(t._cdata + offset) == word for t, word in zip(samples, words, strict=True)):
            return offset, (dense, inference)
    raise NotHere("tensors do not hold their dispatch keys where they were looked for")


def _derivatives_offset() -> int:
    """The only word that is 0 before a tensor has to do with derivatives, and not afterwards."""
    tensors, offsets = [_cpu(2), _cpu(2, 3, dtype=torch.float64), _cpu(5)[1:].detach()], range(16, _DERIVATIVES_END, 8)
    before = [[_word(t._cdata + offset) for offset in offsets] for t in tensors]
    for t in tensors:
        t.requires_grad_()
    after = [[_word(t._cdata + offset) for offset in offsets] for t in tensors]
    leaf, view, derived = tensors[0], tensors[0].view(2), tensors[0].exp()
    found = [
        offset
        for i, offset in enumerate(offsets)
        if all(b[i] == 0 != a[i] for b, a in zip(before, after, strict=True))
        and all(_word(t._cdata + offset) for t in (leaf, view, derived))
    ]
    if len(found) != 1:
        raise NotHere("tensors do not say whether autograd keeps something about them")
    return found[0]


def handle_of(tensor: torch.Tensor) -> ctypes.c_uint64:
    """A handle of a tensor for functions that are tried. It lasts as long as the object that is given."""
    return ctypes.c_uint64(tensor._cdata)


def _getter(
    name: str, kind: type[ctypes.c_void_p] | type[ctypes.c_int64] | type[ctypes.c_int32]
) -> Callable[[torch.Tensor], int]:
    get = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(function(name))

    def ask(tensor: torch.Tensor) -> int:
        handle, found = handle_of(tensor), kind()  # both live until the call is over
        _expect(get(ctypes.addressof(handle), ctypes.addressof(found)), 0, name)
        return int(found.value or 0)

    return ask


def _try_getters() -> None:
    data, rank = _getter(GET_DATA, ctypes.c_void_p), _getter(GET_RANK, ctypes.c_int64)
    sizes, strides = _getter(GET_SIZES, ctypes.c_void_p), _getter(GET_STRIDES, ctypes.c_void_p)
    dtype = _getter(GET_DTYPE, ctypes.c_int32)
    many = _cpu(7, 6, 5, 4, 3, 2)
    for tensor in (_cpu(), _cpu(5, 7)[1:, 2:].t(), _cpu(0, 3), many.permute(5, 0, 4, 1, 3, 2)):
        _expect(data(tensor) or 0, tensor.data_ptr(), GET_DATA)
        _expect(rank(tensor), tensor.dim(), GET_RANK)
        for name, get, wanted in ((GET_SIZES, sizes, tensor.shape), (GET_STRIDES, strides, tensor.stride())):
            _expect((ctypes.c_int64 * tensor.dim())(*wanted)[:], _numbers(get(tensor), tensor.dim()), name)
    for known in DTYPES.values():
        _expect(dtype(_cpu(1, dtype=known.torch)), known.code, GET_DTYPE)


def _numbers(address: int, count: int) -> list[int]:
    return (ctypes.c_int64 * count).from_address(address)[:] if count else []


def _try_making() -> None:
    """Make a tensor through the C interface, have Python have it, and forget the handle."""
    make = ctypes.PYFUNCTYPE(
        ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32,
        ctypes.c_int32, ctypes.c_void_p,
    )(function(EMPTY))  # fmt: skip
    delete = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(function(DELETE))
    wrap = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)(function(WRAP))
    handle = ctypes.c_void_p()
    sizes, strides = (ctypes.c_int64 * 2)(3, 4), (ctypes.c_int64 * 2)(1, 3)
    for known in DTYPES.values():
        failed = make(2, ctypes.addressof(sizes), ctypes.addressof(strides), known.code, 0, 0, ctypes.addressof(handle))
        _expect(failed, 0, EMPTY)
        tensor = wrap(handle.value)
        _expect(delete(handle.value), 0, DELETE)
        is_plain = type(tensor) is torch.Tensor and not tensor.requires_grad and tensor.device == torch.device("cpu")
        found = (is_plain, tensor.dtype, tuple(tensor.shape), tensor.stride())
        _expect(found, (True, known.torch, (3, 4), (1, 3)), WRAP)


def _try_gradients() -> int:
    """Try what says whether gradients are recorded; gives the `TensorImpl` of an undefined tensor."""
    is_on = ctypes.PYFUNCTYPE(ctypes.c_bool)(function(GRAD_MODE))
    requires_grad = ctypes.PYFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)(function(REQUIRES_GRAD))
    tangent = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p)(function(TANGENT))
    plain, leaf = _cpu(2), _cpu(2).requires_grad_()
    with torch.enable_grad():
        _expect(is_on(), True, GRAD_MODE)
        derived = leaf.view(2)
    with torch.no_grad():
        _expect(is_on(), False, GRAD_MODE)
    answers = [requires_grad(t._cdata) for t in (plain, leaf, derived, torch.nn.Parameter(_cpu(2), False))]
    _expect(answers, [False, True, True, False], REQUIRES_GRAD)
    handles = [(t, handle_of(t)) for t in (plain, leaf, derived)]
    tangents = {_word(tangent(t._cdata, 0, ctypes.addressof(handle))) for t, handle in handles}
    if len(tangents) != 1 or tangents & {t._cdata for t in (plain, leaf, derived)}:
        raise NotHere(f"{TANGENT} gives tangents where there are none")
    return tangents.pop()


def _try_function_modes() -> None:
    count = ctypes.PYFUNCTYPE(ctypes.c_int64)(function(FUNCTION_MODES))
    with torch.overrides.BaseTorchFunctionMode():
        found = count()
    _expect((count(), found), (0, 1), FUNCTION_MODES)


# -- what is local to a thread


def _thread_words() -> tuple[int, tuple[tuple[int, int], ...]]:
    """Where the words for `__tls_get_addr` are, and what plain threads have there. Called in a new thread."""
    index = thread_index(_THREAD_KEYS, function(GRAD_MODE))
    place = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(thread_local())

    def words() -> tuple[int, int]:
        at = place(index)
        return _word(at), _word(at + 8)

    def said() -> tuple[int, int]:
        included = torch._C._dispatch_tls_local_include_set().raw_repr()
        return included, torch._C._dispatch_tls_local_exclude_set().raw_repr()

    plain, torch_plain = words(), said()
    differences = [w ^ s for w, s in zip(plain, torch_plain, strict=True)]
    found = [plain]
    for change in _changes():
        with change:
            now = words()
            _expect([w ^ s for w, s in zip(now, said(), strict=True)], differences, "dispatch keys of a thread")
            found.append(now)
    if len(set(found)) != len(found) or words() != plain:
        raise NotHere("dispatch keys of a thread do not change where they should")
    return index, (plain, found[1])


def _changes() -> Iterator[AbstractContextManager[object]]:
    """Contexts that change the dispatch keys of a thread; the first is inference mode."""
    yield torch.inference_mode()
    yield torch.autocast("cpu", dtype=torch.bfloat16)


# -- functions that are not needed by all kernels


def _try_product(kind: type[ctypes.c_float] | type[ctypes.c_double]) -> Callable[[int], None]:
    """A trial of BLAS: a product of small matrices, column by column."""

    def trial(address: int) -> None:
        parameters = [ctypes.c_void_p] * 13
        product = ctypes.CFUNCTYPE(None, *parameters)(address)
        m, n, k = 2, 3, 4
        a, b = (kind * (m * k))(*range(m * k)), (kind * (k * n))(*range(k * n))
        c = (kind * (m * n))(*[1.0] * (m * n))
        sizes = [ctypes.c_int32(v) for v in (m, n, k, m, k, m)]
        transposed, one = ctypes.c_char(b"N"), kind(1.0)
        *mnk, lda, ldb, ldc = [ctypes.addressof(v) for v in sizes]
        flag, scale = ctypes.addressof(transposed), ctypes.addressof(one)
        product(flag, flag, *mnk, scale, ctypes.addressof(a), lda, ctypes.addressof(b), ldb, scale,
                ctypes.addressof(c), ldc)  # fmt: skip
        wanted = [1.0 + sum(a[i + m * s] * b[s + k * j] for s in range(k)) for j in range(n) for i in range(m)]
        _expect(list(c), wanted, "a product of matrices")

    return trial


def _try_parallel_for(address: int) -> None:
    """A trial: each iteration of a loop that torch's threads share is done once. A new thread asks for it, so that
    torch's threads wait for that one and not for the caller's: processes that it forks could not call them."""
    if threads_are_lost():
        raise NotHere("the process was forked, and has not inherited torch's threads")
    called: list[tuple[int, int]] = []
    Body = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    body = Body(lambda start, end, context: called.append((start, end)))
    run = ctypes.CFUNCTYPE(
        ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, Body, ctypes.c_void_p
    )(address)  # fmt: skip
    failed = elsewhere(lambda: run(3, 1000, 1, body, None))
    done = [i for start, end in sorted(called) for i in range(start, end)]
    _expect((failed, done), (0, list(range(3, 1000))), PARALLEL_FOR)


def _needs(*capabilities: str) -> Callable[[int], None]:
    """A trial: does the processor have it, and does torch use it here?"""

    def trial(address: int) -> None:
        found = torch.backends.cpu.get_cpu_capability()
        if found not in capabilities:
            raise NotHere(f"the processor's capability is {found}")

    return trial


_PRODUCTS: dict[str, type[ctypes.c_float] | type[ctypes.c_double]] = {
    SINGLE_PRODUCT: ctypes.c_float,
    DOUBLE_PRODUCT: ctypes.c_double,
}
_ELEMENTS = {"f": "f32", "d": "f64"}
_VECTORS = {"f16": ("AVX512",), "d8": ("AVX512",), "f8": ("AVX512", "AVX2"), "d4": ("AVX512", "AVX2")}
"""Widths of SLEEF's functions, and the capabilities that each needs: one of these."""
MATHEMATICS = ("exp", "log", "tanh", "erf", "sin", "cos")
"""Some of the functions of SLEEF."""


def vector_function(name: str, lanes: str) -> str:
    """SLEEF's name of a function that torch itself uses: `vector_function("exp", "f16")`."""
    return f"Sleef_{name}{lanes}_u10"


def _trial_of(name: str) -> Callable[[int], None] | None:
    if name in _PRODUCTS:
        return _try_product(_PRODUCTS[name])
    if name == PARALLEL_FOR:
        return _try_parallel_for
    head, _, rest = name.partition("_")
    lanes = [kind for kind in _VECTORS if rest.partition("_")[0].endswith(kind)]
    return _needs(*_VECTORS[max(lanes, key=len)]) if head == "Sleef" and lanes else None


# -- what the doctor says


def status() -> list[tuple[str, bool, str]]:
    """Each item, whether it works, and if it does not, why."""
    found = [("tensors in machine code", torch_abi() is not None, why_not())]
    for what, name in (
        ("products of f32", SINGLE_PRODUCT),
        ("products of f64", DOUBLE_PRODUCT),
        ("several threads", PARALLEL_FOR),
        *(
            (f"functions of {lanes[1:]} {_ELEMENTS[lanes[0]]} at once", vector_function("exp", lanes))
            for lanes in _VECTORS
        ),
    ):
        address, why = _found(name)
        found.append((f"{what} ({name})", address is not None, why))
    return found
