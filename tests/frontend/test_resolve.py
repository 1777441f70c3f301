"""What names and Python objects mean to a script."""

from __future__ import annotations

import cmath
import collections
import enum
import functools
import math
import operator
import types
import typing

import pytest
import torch
import torch.nn.functional as F
from torch import _jit_internal

import jitlite
from jitlite.frontend.emit.builtin_names import builtin_op_name
from jitlite.frontend.emit.meanings import (
    Kind,
    Mark,
    boolean_dispatch,
    declared_overloads,
    function_mark,
    meaning_of,
    module_attribute,
    original_function,
)
from jitlite.frontend.emit.resolver import FunctionResolver, Resolver
from jitlite.ir.unit import Function

LIMIT = 3


class Point(typing.NamedTuple):
    x: int


class Color(enum.Enum):
    RED = 1


def plain(x):
    return x


@functools.wraps(plain)
def wrapper(x):
    return plain(x) + 1


# -- names


def test_a_function_sees_its_closure_its_module_and_builtins():
    inner = 5
    LIMIT_HERE = 7

    def fn(x):
        return x + inner + LIMIT

    resolver = FunctionResolver(fn, {"LIMIT": 99, "Extra": 1})
    assert LIMIT_HERE == 7
    assert resolver.lookup("inner") == 5
    assert resolver.lookup("LIMIT") == 3
    assert resolver.lookup("Extra") == 1
    assert resolver.lookup("len") is len
    assert {"inner", "LIMIT", "Extra"} <= set(resolver.names())
    with pytest.raises(LookupError):
        resolver.lookup("LIMIT_HERE")


def test_a_name_that_is_not_bound_yet():
    def make():
        def fn():
            return later

        found = FunctionResolver(fn)
        with pytest.raises(LookupError):
            found.lookup("later")
        later = 1
        return found, later

    resolver, later = make()
    assert resolver.lookup("later") == later


def test_the_scope_of_a_decorated_function_is_its_own():
    hidden = 1

    def inner(x):
        return x + hidden

    @functools.lru_cache
    @functools.wraps(inner)
    def outer(x):
        return inner(x)

    assert FunctionResolver(outer).lookup("inner") is inner
    assert FunctionResolver(torch.no_grad()(functools.lru_cache(inner))).lookup("hidden") == 1


def test_types_need_no_import_and_may_be_dotted():
    resolver = Resolver({"torch": torch, "nn": torch.nn})
    assert resolver.resolve_type("torch.Tensor") is torch.Tensor
    assert resolver.resolve_type("nn.modules.Linear") is torch.nn.Linear
    assert resolver.resolve_type("List") is typing.List
    assert resolver.resolve_type("int") is int
    for name in ("nothing", "torch.nothing.more"):
        with pytest.raises(LookupError):
            resolver.resolve_type(name)


# -- operators


@pytest.mark.parametrize(
    "found, name",
    [
        (torch.add, "aten::add"), (torch.nn.functional.linear, "aten::linear"), (torch.linalg.svd, "aten::linalg_svd"),
        (torch.fft.fft, "aten::fft_fft"), (torch.special.expit, "aten::special_expit"), (torch._VF.lstm, "aten::lstm"),
        (math.sqrt, "aten::sqrt"), (math.remainder, "aten::mathremainder"), (cmath.phase, "aten::angle"),
        (torch._C._infer_size, "aten::_infer_size"), (torch.split, "aten::split"),
        (torch.ops.aten.mul, "aten::mul"), (torch.ops.aten.mul.Tensor, "aten::mul"), (torch._VF.norm, "aten::norm"),
        (operator.truediv, "aten::div"), (operator.and_, "aten::__and__"), (torch.Tensor.add, "aten::add"),
        (torch.nn.modules.utils._pair, "aten::_pair"), (torch._assert, "aten::_assert"), (torch.Size, "aten::Size"),
    ],
)  # fmt: skip
def test_operators(found, name):
    assert builtin_op_name(found) == name
    assert (meaning_of(found).kind, meaning_of(found).name) == (Kind.OPERATOR, name)


@pytest.mark.parametrize(
    "found", [torch.norm, torch.stft, torch.tensordot, torch.unique, torch.is_tensor, F.relu, torch.Tensor]
)
def test_no_operators(found):
    assert builtin_op_name(found) is None


# -- kinds


class Thing:
    def method(self):
        return 1


class Broken:
    __hash__ = None  # type: ignore[assignment]

    def __call__(self):
        return 1


@pytest.mark.parametrize(
    "found, kind, name",
    [
        (len, Kind.FORM, "len"), (int, Kind.FORM, "int"), (isinstance, Kind.FORM, "isinstance"),
        (dict, Kind.FORM, "dict"), (collections.OrderedDict, Kind.FORM, "dict"), (torch.device, Kind.FORM, "device"),
        (torch.jit.annotate, Kind.FORM, "annotate"), (torch.jit.isinstance, Kind.FORM, "isinstance"),
        (torch.jit.fork, Kind.FORM, "fork"), (typing.cast, Kind.FORM, "unchecked_cast"),
        (torch.jit._unwrap_optional, Kind.OPERATOR, "aten::_unwrap_optional"), (torch.jit.wait, Kind.FORM, "wait"),
        (torch.jit.is_scripting, Kind.FORM, "is_scripting"), (torch.jit.is_tracing, Kind.FORM, "is_tracing"),
        (torch.overrides.has_torch_function_unary, Kind.FORM, "has_torch_function"),
        (torch.no_grad, Kind.CONTEXT, "no_grad"), (torch.autocast, Kind.CONTEXT, "autocast"),
        (torch, Kind.MODULE, "torch"), (F, Kind.MODULE, "torch.nn.functional"),
        (plain, Kind.FUNCTION, "plain"), (F.relu, Kind.FUNCTION, "relu"), (torch.is_tensor, Kind.FUNCTION, "is_tensor"),
        (F.max_pool2d, Kind.BOOLEAN_DISPATCH, "max_pool2d"), (F.interpolate, Kind.OVERLOADED, "interpolate"),
        (Point, Kind.NAMED_TUPLE, ""), (Color, Kind.ENUM, ""), (ValueError, Kind.EXCEPTION, ""),
        (KeyboardInterrupt, Kind.EXCEPTION, ""), (Thing, Kind.CLASS, ""), (torch.Tensor, Kind.CLASS, ""),
        (typing.List, Kind.TYPE, ""), (typing.Optional[int], Kind.TYPE, ""), (list[int], Kind.TYPE, ""),
        (torch.nn.ReLU(), Kind.NN_MODULE, "ReLU"), (Thing().method, Kind.METHOD, "method"),
    ],
)  # fmt: skip
def test_kinds(found, kind, name):
    meaning = meaning_of(found)
    assert (meaning.kind, meaning.name) == (kind, name)


@pytest.mark.parametrize(
    "found", [1, 2.5, True, "a", None, 1j, torch.float32, torch.strided, torch.channels_last, torch.device("cpu"),
              Color.RED, (1, ("a", None)), Point(3)],
)  # fmt: skip
def test_literals_are_constants(found):
    meaning = meaning_of(found)
    assert meaning.kind is Kind.CONSTANT
    assert meaning.object == found and type(meaning.object) is type(found)


def test_instances_of_number_classes_become_numbers():
    class Meters(float):
        pass

    found = meaning_of((Meters(2.5), 1))
    assert found.kind is Kind.CONSTANT
    assert [type(v) for v in found.object] == [float, int]


@pytest.mark.parametrize(
    "found, reason",
    [
        (collections.defaultdict(int), "a global defaultdict cannot be used"),
        (torch.zeros(1), "a global tensor cannot be used"),
        (bytearray(b"a"), "python value of type 'bytearray'"),
        (functools.partial(plain, [1]), "functools.partial"),
        (operator.length_hint, "Python builtin"),
        (object(), "python value of type 'object'"),
    ],
)
def test_what_cannot_be_used_says_why(found, reason):
    meaning = meaning_of(found)
    assert meaning.kind is Kind.UNSUPPORTED
    assert reason in meaning.reason


def test_legacy_constructors():
    meaning = meaning_of(torch.LongTensor)
    assert (meaning.kind, meaning.object) == (Kind.LEGACY_TENSOR, torch.int64)


def test_compiled_functions_are_recognised():
    function = Function("f")
    holder = types.SimpleNamespace(__jitlite_function__=function)
    assert meaning_of(function).object is function
    assert meaning_of(holder).object is function


# -- modules


def test_attributes_of_modules():
    assert module_attribute(math, "pi").object == math.pi
    assert module_attribute(torch, "float32").kind is Kind.CONSTANT
    assert module_attribute(torch, "nn").kind is Kind.MODULE
    assert module_attribute(torch.cuda, "synchronize").name == "cuda::synchronize"
    assert module_attribute(torch.cuda, "current_device").name == "cuda::_current_device"
    with pytest.raises(LookupError, match=r"module 'torch': object has no attribute rellu, did you mean 'relu'"):
        module_attribute(torch, "rellu")


# -- marks and wrappers


def test_marks():
    assert function_mark(plain) is Mark.DEFAULT
    for decorator, mark in ((_jit_internal.ignore, Mark.IGNORE), (_jit_internal.unused, Mark.UNUSED),
                            (_jit_internal.export, Mark.EXPORT), (_jit_internal._drop, Mark.UNUSED)):  # fmt: skip
        marked = decorator(types.FunctionType(plain.__code__, globals()))
        assert function_mark(marked) is mark
    ignored = _jit_internal.ignore(types.FunctionType(plain.__code__, globals()))
    assert meaning_of(ignored).kind is Kind.IGNORED


def test_wrappers_are_taken_off():
    assert original_function(functools.lru_cache(plain)) is plain
    assert meaning_of(functools.lru_cache(plain)).object is plain
    guarded = torch.no_grad()(plain)
    assert meaning_of(guarded).object is guarded  # what it enters is part of what is compiled
    assert meaning_of(functools.lru_cache(guarded)).object is guarded
    assert meaning_of(wrapper).object is wrapper  # it does something else than what it wraps
    assert meaning_of(Broken()).kind is Kind.CALLABLE
    traced = types.FunctionType(wrapper.__code__, globals())
    setattr(traced, "__original_fn", plain)
    setattr(traced, "__script_if_tracing_wrapper", True)
    assert meaning_of(traced).object is plain


def test_a_mark_on_a_wrapper_counts():
    marked = _jit_internal.ignore(functools.wraps(plain)(types.FunctionType(plain.__code__, globals())))
    assert meaning_of(marked).kind is Kind.IGNORED


def test_boolean_dispatch():
    found = boolean_dispatch(F.max_pool2d)
    assert found is not None
    assert (found.name, found.default) == ("return_indices", False)
    assert found.if_true is F.max_pool2d_with_indices
    assert boolean_dispatch(plain) is None


def test_overloads_are_kept():
    declared = declared_overloads(F.interpolate)
    assert len(declared) == 4
    kept = _jit_internal._overloaded_fns.pop("__torch__.torch.nn.functional.interpolate", None)
    try:
        assert declared_overloads(F.interpolate) == declared
    finally:
        if kept is not None:
            _jit_internal._overloaded_fns["__torch__.torch.nn.functional.interpolate"] = kept
    assert declared_overloads(plain) == ()


# -- names that a function assigns


COUNT = 3


def after_a_loop_over_it():
    for COUNT in range(2):
        pass
    return COUNT


def before_the_assignment():
    found = COUNT  # noqa: F823
    COUNT = 4
    return found + COUNT


def after_a_loop_that_breaks(stop: bool):
    for k in (1, 2):
        COUNT = k
        if stop:
            break
    return COUNT


def after_its_deletion():
    COUNT = 4
    del COUNT
    return COUNT  # noqa: F821


def added_to():
    COUNT += 1  # noqa: F823
    return COUNT


def test_a_name_that_a_loop_assigns_is_not_the_global_one():
    assert jitlite.script(after_a_loop_over_it)() == 1
    assert [jitlite.script(after_a_loop_that_breaks)(stop) for stop in (True, False)] == [1, 2]


@pytest.mark.parametrize("function", [before_the_assignment, after_its_deletion, added_to])
def test_a_name_that_the_function_assigns_is_never_the_global_one(function):
    with pytest.raises(
        jitlite.CompileError, match="undefined value COUNT: it is (assigned at .*, but not on every way|deleted at )"
    ):
        jitlite.script(function)


def test_names_that_parts_of_a_function_assign_are_theirs():
    def parts(xs: list[int]):
        def inner():
            COUNT = 10
            return COUNT

        return [COUNT for COUNT in xs], inner(), COUNT

    assert jitlite.script(parts)([1]) == parts([1]) == ([1], 10, 3)
