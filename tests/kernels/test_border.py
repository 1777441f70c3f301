"""Tensors cross the border between Python and kernels: what guards let through or not, and what comes out."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
from contextlib import nullcontext

import pytest
import torch
from kernel_entries import GAVE_UP, MISSED, argument, argument_at, entry_of, numbers, scalar
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from jitlite.kernels import torch_abi
from jitlite.kernels.border import (
    guard_thread,
    make_result,
    take_none,
    take_object,
    take_scalar,
    take_tensor,
    wrap,
)
from jitlite.kernels.loop_ir import DTYPES, F32, Buffer, Owner, ScalarInput
from jitlite.kernels.tensor_entry import EVERY, Guard

pytestmark = pytest.mark.skipif(torch_abi.torch_abi() is None, reason=torch_abi.why_not())

F = torch.float32


@functools.cache
def taker(*arguments, guards=EVERY):
    """Takes tensors; gives the scalars that it knows, and where memory is."""

    def write(kc):
        held = [argument_at(kc, a.position) for a in arguments]
        for register, a in zip(held, arguments, strict=True):
            take_tensor(kc, register, a, guards)
        guard_thread(kc, held, guards)
        places = [kc.code.value(f"ptrtoint ptr {kc.pointer(a.buffer)} to i64") for a in arguments]
        known = [kc.operand(v) for a in arguments for v in (*a.sizes, *a.strides)]
        return numbers(kc, [*known, *places])

    return entry_of(write)


DENSE = argument([None, None], F)
TRANSPOSED = argument([None, None], F, order=(1, 0))
ROWS = argument([None, None], F, is_dense=False, strides=[None, 1])
COLUMNS = argument([None, None], F, order=(1, 0), is_dense=False)
LOOSE = argument([None, None], F, is_dense=False)
SPREAD = argument([None, None], F, order=(0, 1), is_dense=False, strides=[0, None])
OF_FACTS = argument([None, None], F, order=(1,), is_dense=False, strides=[0, 1])
ALL_SPREAD = argument([None, None], F, is_dense=False, strides=[0, 0])
COLUMN = argument([None, 1], F)
CUBE = argument([None, None, None], F, order=(2, 0, 1))
FLAT = argument([], F)
SQUARE = argument([_n := scalar("n"), _n], F, strides=[_n, None])
X = torch.arange(12.0).view(3, 4)


@pytest.mark.parametrize(
    ("wanted", "tensor"),
    [
        (DENSE, X),
        (DENSE, X[1:]),
        (DENSE, torch.nn.Parameter(X, requires_grad=False)),
        (DENSE, X.new_empty(0, 4)),
        (DENSE, X.new_empty(0, 0)),
        (TRANSPOSED, X.t()),
        (ROWS, X[:, 1:]),
        (ROWS, X),
        (COLUMNS, X[:, 1:].t()),
        (LOOSE, X[:, ::2]),
        (LOOSE, X[::2]),
        (LOOSE, X.new_empty(0, 5)[:, ::2]),
        (SPREAD, X[0].expand(5, 4)),
        (OF_FACTS, X[0].expand(5, 4)),
        (ALL_SPREAD, X[0, 1].expand(5, 4)),
        (COLUMN, X[:, :1].contiguous()),
        (COLUMN, X.view(12, 1)),
        (COLUMN, torch.as_strided(X, (12, 1), (1, 77))),
        (CUBE, torch.empty(4, 2, 3).permute(1, 2, 0)),
        (FLAT, X[1, 2]),
        (SQUARE, torch.ones(5, 5)),
        (argument([None], torch.int64), torch.arange(5)),
        (argument([None], torch.int32), torch.arange(5, dtype=torch.int32)),
        (argument([None], torch.bool), torch.ones(5, dtype=torch.bool)),
        (argument([None], torch.float64), torch.ones(5, dtype=torch.float64)),
        (argument([None] * 7, F), torch.empty(2, 3, 4, 5, 6, 7, 8)),
    ],
)
def test_tensors_that_fit(wanted, tensor):
    found = taker(wanted)(tensor)
    assert found != MISSED
    rank = tensor.dim()
    assert found[:rank] == tuple(tensor.shape) and found[-1] == tensor.data_ptr()
    for d in range(rank):
        assert tensor.size(d) == 1 or not tensor.numel() or found[rank + d] == tensor.stride(d)


def test_every_layout_of_small_tensors():
    """An argument takes a tensor if, and only if, its dimensions lie in memory as it says."""
    tensors = []
    for sizes in ((2, 3), (3, 2), (2, 2), (0, 3), (2, 0)):
        for strides in itertools.product((0, 1, 2, 3, 4, 7), repeat=2):
            tensors.append(torch.as_strided(torch.empty(40), sizes, strides))
    for order in ((0, 1), (1, 0)):
        dense = taker(argument([None, None], F, order))
        loose = taker(argument([None, None], F, order, is_dense=False))
        outer, inner = order
        for t in tensors:
            strides, is_fine = t.stride(), t.numel() or order == (0, 1)
            is_dense = strides[inner] == 1 and strides[outer] == max(t.size(inner), 1)
            wanted = [is_fine and is_dense, is_fine and strides[outer] > strides[inner] > 0]
            assert [f(t) != MISSED for f in (dense, loose)] == wanted, (order, t.shape, strides)


def test_the_order_is_that_of_results():
    """The order that guards make sure of is the one in which torch lays out what it makes of the tensor."""
    for sizes in ((2, 3, 4), (4, 3, 2), (2, 2, 2), (0, 2, 3)):
        for order in itertools.permutations(range(3)):
            taken = taker(argument([None] * 3, F, order, is_dense=False))
            for steps in itertools.product((0, 1, 2, 4, 8, 24), repeat=3):
                t = torch.as_strided(torch.zeros(200), sizes, steps)
                if taken(t) != MISSED:
                    wanted, inner = [0] * 3, 1
                    for d in reversed(order):
                        wanted[d], inner = inner, inner * max(sizes[d], 1)
                    for made in (t + 1, t + t, t.neg(), t * torch.ones(1)):
                        assert made.stride() == tuple(wanted), (sizes, order, steps)


class Sub(torch.Tensor):
    pass


class Passing(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class PassingFunctions(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def modified_base():
    base = torch.zeros(3, 4)
    view = base[:]
    base.mul_(torch.ones(3, 4, requires_grad=True))
    return view


@contextlib.contextmanager
def dual():
    with torch.autograd.forward_ad.dual_level():
        yield torch.autograd.forward_ad.make_dual(torch.ones(3, 4), torch.ones(3, 4))


@contextlib.contextmanager
def view_of_dual():
    with dual() as x:
        yield x.view(4, 3)


IN_PLACE = torch._C.DispatchKey.ADInplaceOrView
ONE_GUARD = {
    Guard.CLASS: [
        (DENSE, lambda: X.as_subclass(Sub)),
        (DENSE, lambda: torch.nn.Parameter(X, False).as_subclass(Sub)),
    ],
    Guard.KEYS: [
        (DENSE, lambda: torch._neg_view(X)),
        (DENSE, lambda: X.to("meta")),
        *([(DENSE, lambda: X.rename("a", "b"))] if hasattr(X, "rename") else []),
        (DENSE, lambda: torch._efficientzerotensor((3, 4))),
        (DENSE, lambda: torch._to_functional_tensor(X)),
        (LOOSE, lambda: torch.complex(X, X).conj().imag),
    ],
    Guard.DTYPE: [(DENSE, X.double), (DENSE, X.int), (DENSE, X.half), (DENSE, X.bool), (DENSE, X.cfloat)],
    Guard.RANK: [(DENSE, lambda: X.view(3, 4, 1)), (FLAT, X.clone), (FLAT, lambda: X.view(12)[:1])],
    Guard.SIZES: [
        (COLUMN, lambda: torch.as_strided(X, (3, 4), (1, 1))),
        (argument([None, 4], F, is_dense=False), lambda: X.view(2, 6)),
        (argument([_n, _n], F), lambda: torch.ones(3, 4)),
    ],
    Guard.ONES: [(DENSE, lambda: X[:1]), (DENSE, lambda: X.view(12, 1)), (argument([None], F), lambda: X[0, :1])],
    Guard.STRIDES: [
        (DENSE, lambda: X.t()),
        (DENSE, lambda: X[:, 1:]),
        (DENSE, lambda: X[:1].expand(3, 4)),
        (TRANSPOSED, X.clone),
        (TRANSPOSED, lambda: X.new_empty(0, 3)),
        (COLUMNS, lambda: X.new_empty(0, 3)),
        (ROWS, lambda: X[:, ::2]),
        (LOOSE, lambda: X.t()),
        (LOOSE, lambda: X.view(12).unfold(0, 3, 1)),
        (SPREAD, X.clone),
        (OF_FACTS, X.clone),
        (OF_FACTS, lambda: X[:, :1].expand(3, 4)),
        (LOOSE, lambda: X[:1].expand(3, 4)),
        (LOOSE, lambda: X[:, :1].expand(3, 4)),
        (CUBE, lambda: torch.empty(2, 3, 4)),
        (SQUARE, lambda: torch.as_strided(X, (3, 3), (4, 1))),
    ],
    Guard.THREAD: [
        (DENSE, lambda: torch.autocast("cpu", dtype=torch.bfloat16)),
        (DENSE, Passing),
        (DENSE, lambda: torch._C._AutoDispatchBelowAutograd()),
        (DENSE, lambda: torch._C._IncludeDispatchKeyGuard(torch._C.DispatchKey.Functionalize)),
        (DENSE, lambda: torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(IN_PLACE))),
    ],
    Guard.FUNCTION_MODES: [(DENSE, PassingFunctions), (DENSE, lambda: torch.device("cpu"))],
    Guard.GRADIENTS: [
        (DENSE, lambda: torch.ones(3, 4, requires_grad=True)),
        (DENSE, lambda: torch.ones(3, 4, requires_grad=True).exp()),
        (DENSE, lambda: torch.nn.Parameter(X)),
        (DENSE, modified_base),
    ],
    Guard.TANGENTS: [(DENSE, dual), (DENSE, view_of_dual)],
}
"""For each guard: tensors that no other guard keeps out, or contexts, which may give the tensor."""
CASES = [(guard, i) for guard, cases in ONE_GUARD.items() for i in range(len(cases))]


@pytest.mark.parametrize(("guard", "i"), CASES, ids=lambda v: v.name if isinstance(v, Guard) else str(v))
@pytest.mark.parametrize("mode", [nullcontext, torch.no_grad], ids=["", "no_grad"])
def test_each_guard_matters(guard, i, mode):
    wanted, make = ONE_GUARD[guard][i]
    guarded, unguarded = taker(wanted), taker(wanted, guards=EVERY - {guard})
    made = make()
    tensor = made if isinstance(made, torch.Tensor) else X
    context = nullcontext() if isinstance(made, torch.Tensor) else made
    with mode(), context as given:
        tensor = given if isinstance(given, torch.Tensor) else tensor
        is_fine = mode is torch.no_grad and guard is Guard.GRADIENTS
        assert (guarded(tensor) == MISSED) is not is_fine
        assert unguarded(tensor) != MISSED, "another guard keeps this out, so the case shows nothing"
    if tensor is X:
        assert guarded(tensor) != MISSED


def test_every_guard_has_a_case():
    assert {*ONE_GUARD, Guard.NONE} == EVERY


def test_two_tensors_of_one_size():
    n = scalar("n")
    taken = taker(argument([n], F), argument([n], F, position=1))
    unguarded = taker(argument([n], F), argument([n], F, position=1), guards=EVERY - {Guard.SIZES})
    assert taken(torch.ones(3), torch.ones(3)) != MISSED
    assert taken(torch.ones(3), torch.ones(4)) == MISSED != unguarded(torch.ones(3), torch.ones(4))


def test_each_tensor_may_require_gradients():
    taken = taker(argument([None], F), argument([None], F, position=1))
    plain, leaf = torch.ones(3), torch.ones(3, requires_grad=True)
    assert taken(plain, plain) != MISSED
    assert taken(plain, leaf) == MISSED and taken(leaf, plain) == MISSED
    with torch.no_grad():
        assert taken(plain, leaf) != MISSED


# -- what several guards keep out


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_tensors_that_are_not_plain():
    taken = taker(DENSE)
    quantized = torch.quantize_per_tensor(X, 0.1, 0, torch.quint8)
    mode = torch._subclasses.FakeTensorMode()
    others = [
        X.to_sparse(), X.to_sparse_csr(), X.to_mkldnn(), quantized, torch.complex(X, X).conj(), mode.from_tensor(X),
        torch.nested.nested_tensor([X, X]), torch.nn.parameter.UninitializedParameter(), torch.nn.UninitializedBuffer(),
        torch.masked.as_masked_tensor(X, X > 0),
    ]  # fmt: skip
    assert {taken(t) for t in others} == {MISSED}
    with mode:
        assert taken(X) == MISSED and taken(torch.ones(3, 4)) == MISSED


@pytest.mark.parametrize(
    "transform",
    [
        torch.func.vmap,
        torch.func.grad,
        torch.func.functionalize,
        lambda f: lambda x: torch.func.jvp(f, (x,), (x,)),
        lambda f: lambda x: torch.func.vmap(torch.func.grad(f))(x),
    ],
    ids=["vmap", "grad", "functionalize", "jvp", "both"],
)
def test_transforms_of_functions(transform):
    taken, found = taker(argument([None], F)), []
    three = taker(argument([None] * 2, F))
    outside = torch.ones(3)

    def f(x):
        found.extend([taken(x), three(x), taken(outside)])
        return x.sum()

    transform(f)(torch.ones(3, 4) if transform is torch.func.vmap else torch.ones(2, 3))
    assert set(found) == {MISSED}


def test_graphs_that_are_being_made():
    taken, found = taker(DENSE), []

    def f(x):
        found.append((taken(x), taken(X)))
        return x + 1

    torch.fx.experimental.proxy_tensor.make_fx(f)(X)
    torch.fx.experimental.proxy_tensor.make_fx(f, tracing_mode="fake")(X)
    assert found == [(MISSED, MISSED)] * 2


def test_backward_and_other_threads():
    """A thread of autograd's, and a hook: all that matters is what is on there."""
    taken, found = taker(DENSE), []
    x = torch.ones(3, 4, requires_grad=True)
    x.register_hook(lambda g: found.append(taken(g)))
    (x * 2).sum().backward()
    (g,) = torch.autograd.grad((x * x).sum(), x, create_graph=True)
    assert found[0] != MISSED and found[1] == MISSED and taken(g) == MISSED


def test_inference_mode():
    taken = taker(DENSE)
    with torch.inference_mode():
        inner = torch.ones(3, 4)
        assert taken(inner) != MISSED and taken(X) != MISSED and taken(torch.nn.Parameter(X)) != MISSED
        with torch.autocast("cpu"):
            assert taken(inner) == MISSED
        with Passing():
            assert taken(inner) == MISSED
    assert taken(inner) != MISSED and inner.is_inference()


# -- numbers and None


def test_numbers_lists_and_none():
    def write(kc):
        held = [argument_at(kc, i) for i in range(3)]
        n = scalar("n")
        take_scalar(kc, held[0], ScalarInput(0, n))
        take_scalar(kc, held[1], ScalarInput(1, scalar("list"), is_outside=True))
        take_none(kc, held[2])
        take_object(kc, argument_at(kc, 3), torch.int64)
        return numbers(kc, [kc.operand(n)])

    entry = entry_of(write)
    assert entry(7, [], None, torch.int64) == (7,)
    assert entry(7, [], 0, torch.int64) == entry(7, [], None, torch.int32) == entry(7, [], None, 4) == MISSED
    wrong = ((7.0, [], None), (True, [], None), (2**70, [], None), (7, (), None))
    assert [entry(*v, torch.int64) for v in wrong] == [GAVE_UP] * 4
    unguarded = entry_of(lambda kc: take_none(kc, argument_at(kc, 0), EVERY - {Guard.NONE}) or numbers(kc, ["1"]))
    assert unguarded(0) == (1,)


# -- results


def maker(rank, dtype=F32, has_strides=False):
    """Takes sizes, and strides if it has them; gives a new tensor whose memory it has written to if it has any."""

    def write(kc):
        scalars = [scalar(f"n{i}") for i in range(rank * (1 + has_strides))]
        for i, s in enumerate(scalars):
            take_scalar(kc, argument_at(kc, i), ScalarInput(i, s))
        buffer = Buffer("r", dtype, Owner.RESULT)
        make_result(kc, buffer, scalars[:rank], scalars[rank:] if has_strides else None)
        with kc.code.counting(kc.product(scalars[:rank])) as i:
            stored = dtype.stored
            one = {"i": "1", "f": "1.0", "d": "1.0"}[stored[0]]
            if dtype.wide is not None and dtype.is_float:
                one = str(torch.ones((), dtype=dtype.torch).view(torch.int16).item())
            kc.code.store(stored, one, kc.element(buffer, kc.pointer(buffer), i))
        return wrap(kc, buffer)

    return entry_of(write)


@pytest.mark.parametrize("dtype", list(DTYPES.values()), ids=repr)
def test_results(dtype):
    for sizes in ((), (3,), (2, 3), (1, 5, 1), (0,), (3, 0), (0, 3), (2, 0, 3), (2, 1, 2, 1, 2, 1, 2)):
        made = maker(len(sizes), dtype)(*sizes)
        like = torch.ones(sizes, dtype=dtype.torch)
        assert type(made) is torch.Tensor and torch.equal(made, like)
        for name in ("dtype", "device", "layout", "shape", "is_leaf", "requires_grad", "_version", "grad_fn"):
            assert getattr(made, name) == getattr(like, name), name
        assert made.stride() == like.stride() and made.untyped_storage().nbytes() == like.untyped_storage().nbytes()
        assert torch._C._dispatch_keys(made) == torch._C._dispatch_keys(like) and not made.is_inference()
        assert repr(made) == repr(like) and made.untyped_storage().resizable()


def test_results_with_strides():
    made = maker(2, has_strides=True)(2, 3, 1, 2)
    assert made.stride() == (1, 2) and torch.equal(made, torch.ones(2, 3)) and made.untyped_storage().nbytes() == 24


def test_results_in_inference_mode_and_with_gradients():
    make = maker(1)
    with torch.inference_mode():
        made = make(3)
        assert made.is_inference() and torch._C._dispatch_keys(made) == torch._C._dispatch_keys(torch.ones(3))
    made = make(3).requires_grad_()
    (made * 2).sum().backward()
    assert made.grad.tolist() == [2.0] * 3
    made = make(3).add_(torch.ones(3, requires_grad=True))
    assert made.requires_grad


@pytest.mark.parametrize("sizes", [(2**50, 1), (2**40, 2**40), (-1, 3), (2**31, 2**32)])
def test_results_that_cannot_be(sizes, capfd):
    assert maker(2)(*sizes) == GAVE_UP
    assert capfd.readouterr() == ("", "")


def test_one_result_twice_and_one_made_anew():
    def write(kc):
        buffer, other = Buffer("r", F32, Owner.RESULT), Buffer("o", F32, Owner.RESULT)
        take_scalar(kc, argument_at(kc, 0), ScalarInput(0, n := scalar("n")))
        with kc.code.counting(kc.operand(n)):
            make_result(kc, buffer, [n])
        make_result(kc, other, [n])
        objects = [wrap(kc, buffer), wrap(kc, buffer), wrap(kc, other)]
        made = kc.code.call("ptr", "PyTuple_New", "i64", "3")
        for i, held in enumerate(objects):
            kc.code.call("i32", "PyTuple_SetItem", "ptr, i64, ptr", made, str(i), held)
        return made

    first, second, third = entry_of(write)(3)
    assert first is second is not third and first.shape == (3,)


def test_a_kernel_that_gives_up_forgets_its_results():
    def write(kc):
        buffer = Buffer("r", F32, Owner.RESULT)
        make_result(kc, buffer, [1 << 20])
        take_scalar(kc, argument_at(kc, 0), ScalarInput(0, scalar("n")))
        return wrap(kc, buffer)

    entry = entry_of(write)
    before = resident()
    for _ in range(200):
        assert entry(None) == GAVE_UP
    touched = [entry(1).zero_() for _ in range(2)]
    assert resident() - before < 40e6 and len(touched) == 2


def growth(call):
    """By how many bytes the process grows with a call: the least of three, for others may have a part in it."""
    found = []
    for _ in range(3):
        before = resident()
        call()
        found.append(resident() - before)
    return min(found)


def resident():
    """Bytes of memory that the process has."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.parametrize("count", [20_000, pytest.param(300_000, marks=pytest.mark.slow)])
def test_memory_does_not_grow(count):
    taken = taker(DENSE)
    make = maker(2)
    for _ in range(2000):
        taken(X), make(3, 4), taken(None.__class__)

    def calls():
        for _ in range(count):
            make(3, 4), taken(X), taken(0)

    assert growth(calls) < 500_000
