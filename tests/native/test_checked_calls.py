"""Calls whose arguments machine code checks do what they do where Python checks them."""

from __future__ import annotations

import collections
import contextlib
import functools
import gc
import inspect
import itertools
import re
import sys
import textwrap
import threading
import traceback
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from strategies import compile_source
from torch import nn

import jitlite
from jitlite.base import options
from jitlite.executor import entries
from jitlite.ir import types as T
from jitlite.ir.schema import Argument
from jitlite.native import checked_calls, emit_checks, entry
from jitlite.native.checked_calls import CheckedTarget, checked_call, prepare


class MyInt(int):
    pass


class MyFloat(float):
    pass


class MyStr(str):
    pass


class MyList(list[Any]):
    pass


class MyTensor(torch.Tensor):
    pass


Pair = collections.namedtuple("Pair", "a b")

VALUES: list[Any] = [
    0, 7, -(2**63), 2**80, True, False, 1.5, float("nan"), 2j, "text", "", b"text", None,
    MyInt(3), MyFloat(0.5), MyStr("s"), torch.float32, torch.strided, torch.device("cpu"), "cpu",
    torch.ones(2), torch.ones(()), torch.tensor(3), nn.Parameter(torch.ones(1)), torch.ones(2).as_subclass(MyTensor),
    [], [1, 2], [1, True], [1, 2**70], [1, 2.5], [1.5, 2.5], [True], ["a", "b"], ["a", 1], [None, 1],
    [torch.float32, 1], [1, MyInt(2)], MyList([1, 2]), [[1], [2, 3]], [[1], [2.5]], [[], ()],
    [torch.ones(1), torch.ones(2)], [torch.ones(1), nn.Parameter(torch.ones(1)), None], (), (1, 2),
    (1, 2.5), (1.5, "a"), ("a", 1), ([1], {"k": 2}), Pair(1, 2.5), {},
    {"a": 1}, {"a": 1.5, "b": True}, {1: [2]}, {1: [2.5]}, {1.5: 2}, {"a": None},
    {"a": torch.ones(1)}, {1, 2}, range(3), object(), len,
]  # fmt: skip
"""Values of all kinds, those among them that are nearly of a type."""

ANNOTATIONS = (
    "int", "float", "bool", "complex", "str", "Tensor", "Any", "torch.device", "Optional[int]", "Optional[Tensor]",
    "List[int]", "List[float]", "List[bool]", "List[str]", "List[Tensor]", "List[Optional[int]]", "List[List[int]]",
    "Optional[List[int]]", "Tuple[int, float]", "Tuple[float, str]", "Tuple[List[int], Dict[str, int]]",
    "Dict[str, int]", "Dict[str, float]", "Dict[int, List[int]]", "Dict[str, Optional[int]]", "Dict[str, Tensor]",
)  # fmt: skip


def scripted(source: str, native: str = "now") -> Any:
    """The function `f` of a source, as it is called with the switch `native`."""
    function = jitlite.script(compile_source(source)["f"])
    with options.override(native=native), contextlib.suppress(RuntimeError):
        function()  # the first call, of whatever arguments, chooses
    is_checked = isinstance(function.__call__, types.BuiltinFunctionType)
    assert is_checked == (native == "now"), f"{native} gives {function.__call__}"
    return function


def outcome(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[str, Any]:
    """What a call gives, the object itself, or raises."""
    try:
        return "gives", function(*args, **kwargs)
    except Exception as error:
        return type(error).__name__, str(error)


def same(one: tuple[str, Any], other: tuple[str, Any], given: list[Any]) -> bool:
    """Are two outcomes the same? Results that were given are the same object, others have the same class and text."""
    if one[0] != other[0] or type(one[1]) is not type(other[1]):
        return False
    if any(one[1] is g for g in given) or any(other[1] is g for g in given):
        return one[1] is other[1]
    return repr(one[1]) == repr(other[1])


ONE_INT = [Argument("n", T.INT)]


# -- arguments of all kinds


@pytest.mark.parametrize("annotation", ANNOTATIONS)
def test_any_value_for_any_type(annotation: str) -> None:
    source = f"def f(x: {annotation}):\n    return x\n"
    checked, python = scripted(source), scripted(source, "off")
    for value in VALUES:
        found, wanted = outcome(checked, value), outcome(python, value)
        assert same(found, wanted, [value]), f"{value!r} as {annotation}: {found}, in Python {wanted}"


def test_pairs_of_values_keywords_and_defaults() -> None:
    source = "def f(a: int, b: List[float], c: Optional[str] = None):\n    return a, b, c\n"
    checked, python = scripted(source), scripted(source, "off")
    some = [0, True, 2**80, 1.5, [1.0], [1], [MyInt(1)], (1.0,), "s", None, MyStr("s")]
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        *((given, {}) for n in range(5) for given in itertools.product(some[:6] if n > 2 else some, repeat=n)),
        *(((1,), {"b": b, "c": c}) for b in some for c in some),
        ((), {"b": [1.0], "a": 2}), ((1, [1.0]), {"a": 1}), ((1, [1.0]), {"d": 1}), ((1, [1.0], "s"), {"c": "s"}),
    ]  # fmt: skip
    for args, kwargs in calls:
        found, wanted = outcome(checked, *args, **kwargs), outcome(python, *args, **kwargs)
        assert same(found, wanted, []), f"{args} {kwargs}: {found}, in Python {wanted}"


KEYWORDS = """
def f(a: int, b: List[int], *, c: float = 2, d: Optional[str], e: Any = None):
    return a, b, c, d, e
"""


def test_parameters_that_are_given_by_keyword_only() -> None:
    checked, python = scripted(KEYWORDS), scripted(KEYWORDS, "off")
    for kwargs in (
        {"d": "x"},
        {"d": None, "c": 1.5},
        {"e": 3, "c": 1, "d": "y"},
        {"c": 1.0},
        {"d": 1},
        {"x": 1, "d": ""},
    ):
        for args in ((1, [2]), (1,), (1, [2], 2.5), (1, (2,))):
            found, wanted = outcome(checked, *args, **kwargs), outcome(python, *args, **kwargs)
            assert same(found, wanted, []), f"{args} {kwargs}: {found}, in Python {wanted}"


def test_names_that_are_not_interned_and_given_twice() -> None:
    checked = scripted("def f(first: int, second: int = 5):\n    return first - second\n")
    assert checked(7, **{"".join(["sec", "ond"]): 4}) == 3
    assert checked(**{"".join(["fir", "st"]): 4}) == -1
    assert "both as positional and keyword" in outcome(checked, 1, first=2)[1]


@pytest.mark.parametrize("native", ["now", "off"])
def test_objects_such_as_dtypes_are_noticed_among_defaults(native: str) -> None:
    source = "def f(x: Tensor, dtype: torch.dtype = torch.float64):\n    return x.to(dtype), dtype == 7, str(dtype)\n"
    function = jitlite.script(compile_source(source)["f"])
    with options.override(native=native):
        for kwargs, number in (({}, 7), ({"dtype": torch.float32}, 6), ({"dtype": torch.float64}, 7), ({}, 7)):
            given, is_double, text = function(torch.ones(1), **kwargs)
            assert (given.dtype, is_double) == ((torch.float64, True) if number == 7 else (torch.float32, False))
            assert text == f"torch.float{64 if number == 7 else 32}"


def test_no_parameters_and_many() -> None:
    assert scripted("def f():\n    return 3\n")() == 3
    names = [f"p{i}" for i in range(300)]
    many = scripted(f"def f({', '.join(f'{n}: int' for n in names)}):\n    return p0 + p299\n")
    assert many(*range(300)) == 299
    assert many(*range(299), p299=1) == 1


def test_types_without_a_test_stay_with_python() -> None:
    source = "class C:\n    def __init__(self):\n        self.n = 3\ndef f(c: C) -> int:\n    return c.n\n"
    names = compile_source(source)
    function = jitlite.script(names["f"])
    with options.override(native="now"):
        assert function(names["C"]()) == 3
    assert inspect.isfunction(function.__call__)


def test_the_argument_is_the_object_that_was_given() -> None:
    function = scripted("def f(x: List[int], y: Dict[str, float]):\n    x.append(len(y))\n    return x\n")
    given = [1, 2]
    assert function(given, {"a": 1.0}) is given
    assert given == [1, 2, 1]


# -- methods


class Owner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.k = 3

    def forward(self, x: torch.Tensor, n: int = 2) -> torch.Tensor:
        return x * n * self.k


def test_methods_get_their_object() -> None:
    module = jitlite.script(Owner())
    with options.override(native="now"):
        module(torch.ones(1))
    assert isinstance(module.forward.__call__, types.BuiltinFunctionType)
    x = torch.ones(2)
    for call in (lambda m: m(x, 5), lambda m: m(x), lambda m: m(x, n=4), lambda m: m.forward(x, 1)):
        assert torch.equal(call(module), call(Owner()))
    module.k = 4
    assert torch.equal(module(x, 1), x * 4)
    assert "forward() Expected a value of type 'int'" in outcome(module, x, "s")[1]


def test_a_module_is_freed_with_its_methods() -> None:
    module = jitlite.script(Owner())
    with options.override(native="now"):
        module(torch.ones(1))
    gone = weakref.ref(module)
    call = module.forward.__call__
    del module
    gc.collect()
    assert torch.equal(call(torch.ones(1), 1), torch.full((1,), 3.0)), "what is called keeps its module"
    del call
    gc.collect()
    assert gone() is None


# -- exceptions


def test_exceptions_carry_the_lines_of_the_script() -> None:
    source = "def f(n: int):\n    if n > 2:\n        raise ValueError('too many')\n    return [1, 2][n]\n"
    checked, python = scripted(source), scripted(source, "off")
    for n in (2, 3):
        texts = []
        for function in (checked, python):
            with pytest.raises((IndexError, ValueError)) as caught:
                function(n)
            lines = "".join(traceback.format_exception(caught.value))
            assert "TorchScript" in lines
            texts.append((caught.value.args, re.sub(r"generated_\d+", "", lines.partition("The following")[2])))
        assert texts[0] == texts[1]


def test_exceptions_of_all_kinds_pass_and_nothing_is_lost() -> None:
    class Odd(BaseException):
        pass

    noted: list[BaseException] = []
    assert prepare()
    for raised in (KeyboardInterrupt(), Odd("x"), StopIteration(3), RecursionError("deep")):

        def run(n: int, error: BaseException = raised) -> None:
            raise error

        call = checked_call(ONE_INT, CheckedTarget([run], len, noted.append, []))
        assert call is not None
        for _ in range(3):
            with pytest.raises(type(raised)) as caught:
                call(1)
            assert caught.value is raised and noted[-1] is raised
        del caught
    raised.__traceback__ = None
    noted.clear()
    gc.collect()
    before = sys.getrefcount(raised)
    for _ in range(100):
        with contextlib.suppress(RecursionError):
            call(1)
    noted.clear()
    raised.__traceback__ = None
    assert sys.getrefcount(raised) == before


def test_what_note_raises_takes_the_place_of_the_exception() -> None:
    def note(error: BaseException) -> None:
        raise LookupError("noted") from error

    assert prepare()
    call = checked_call(ONE_INT, CheckedTarget([lambda n: 1 // n], len, note, []))
    assert call is not None
    with pytest.raises(LookupError, match="noted") as caught:
        call(0)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_recursion_through_python_ends_with_an_error() -> None:
    source = """
        CALLS = []
        @torch.jit.ignore
        def again(n: int) -> int:
            return CALLS[0](n + 1)
        def f(n: int) -> int:
            return again(n)
        """
    names = compile_source(textwrap.dedent(source))
    function = jitlite.script(names["f"])
    names["CALLS"].append(function)
    with options.override(native="now"), pytest.raises(RecursionError):
        function(0)
    assert isinstance(function.__call__, types.BuiltinFunctionType)
    for _ in range(3):
        with pytest.raises(RecursionError):
            function(0)


# -- who records


def test_calls_within_traces_are_recorded() -> None:
    function = scripted("def f(x: Tensor, n: int):\n    for i in range(n):\n        x = x + i\n    return x\n")
    x = torch.zeros(2)
    assert torch.equal(function(x, 3), torch.full((2,), 3.0))
    traced = jitlite.trace(lambda x: function(x, 3) * 2, (x,))
    assert "prim::CallFunction" in str(traced.graph)
    assert torch.equal(traced(x), torch.full((2,), 6.0))
    recorded = torch.fx.symbolic_trace(lambda x: function(x, 3) * 2)
    assert torch.equal(recorded(x), torch.full((2,), 6.0))


def test_threads_that_do_not_trace_are_not_recorded() -> None:
    function = scripted("def f(x: Tensor):\n    return x + 1\n")
    seen: list[Any] = []

    def program(x: torch.Tensor) -> torch.Tensor:
        other = threading.Thread(target=lambda: seen.append(function(torch.zeros(1))))
        other.start()
        other.join()
        return function(x) * 2

    traced = jitlite.trace(program, (torch.zeros(2),))
    assert torch.equal(seen[0], torch.ones(1))
    assert str(traced.graph).count("prim::CallFunction") == 1


def test_modes_see_the_operators_of_a_call() -> None:
    from torch.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    seen: list[str] = []
    function = scripted("def f(x: Tensor):\n    return torch.relu(x)\n")
    with Mode():
        function(torch.ones(1))
    assert "relu" in seen


def test_dynamo_leaves_checked_calls_alone() -> None:
    from torch._dynamo.utils import counters

    function = scripted("def f(x: Tensor, n: int):\n    for i in range(n):\n        x = x + i\n    return x\n")
    torch._dynamo.reset()
    counters.clear()
    compiled = torch.compile(lambda x: function(x * 2, 3) + 1, backend="eager")
    for x in (torch.ones(2), -torch.ones(2)):
        torch.testing.assert_close(compiled(x), function(x * 2, 3) + 1)
    assert counters["frames"]["total"] <= 3


# -- plans that are exchanged, switches that change


def test_switches_that_change_are_followed() -> None:
    function = scripted("def f(x: Tensor, n: int):\n    return x + n\n")
    x = torch.ones(1)
    function(x, 1)
    hits = function.get_debug_state().counters["hits"]
    with options.override(executor="legacy"):
        for _ in range(3):
            function(x, 1)
    assert function.get_debug_state().counters["hits"] > hits
    with options.override(executor="off"):
        assert torch.equal(function(x, 1), x + 1)


def test_threads_may_exchange_what_is_called() -> None:
    assert prepare()
    way: list[Callable[..., Any]] = [lambda n: n + 1]
    call = checked_call(ONE_INT, CheckedTarget(way, len, lambda error: None, []))
    assert call is not None
    is_over = threading.Event()

    def exchange() -> None:
        while not is_over.is_set():
            way[0] = lambda n: n + 1

    others = [threading.Thread(target=exchange) for _ in range(2)]
    for other in others:
        other.start()
    wrong = [n for n in range(20_000) if call(n) != n + 1]
    is_over.set()
    for other in others:
        other.join()
    assert not wrong


def test_what_is_called_may_replace_itself() -> None:
    assert prepare()
    way: list[Callable[..., Any]] = []

    def replace(n: int) -> int:
        way[0] = lambda n: -n
        gc.collect()
        assert running() is not None, "it is kept until it is done"
        return n

    way.append(functools.partial(replace))
    running = weakref.ref(way[0])
    call = checked_call(ONE_INT, CheckedTarget(way, len, lambda error: None, []))
    assert call is not None and (call(3), call(3)) == (3, -3)
    assert running() is None


def test_arguments_are_neither_kept_nor_lost() -> None:
    function = scripted("def f(x: Tensor, xs: List[Tensor], n: int):\n    return xs\n")
    x, xs = torch.ones(1), [torch.ones(1)]
    bad = [torch.ones(1), 3]
    counts = [sys.getrefcount(v) for v in (x, xs, xs[0], bad)]
    for _ in range(100):
        function(x, xs, 10**6)
        outcome(function, x, bad, 3)
        outcome(function, x, xs, n="s")
    assert [sys.getrefcount(v) for v in (x, xs, xs[0], bad)] == counts


# -- when there is machine code, and when not


@pytest.fixture
def not_compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process that has just begun."""
    monkeypatch.setattr(checked_calls, "_state", checked_calls._CheckState())
    monkeypatch.setattr(entries, "_state", entries._EntryState())
    yield


def call_often(function: Any, times: int) -> None:
    for _ in range(times):
        function(1)


@pytest.mark.parametrize("background", [False, True])
def test_functions_that_are_called_often_get_it(monkeypatch, not_compiled, background: bool) -> None:
    monkeypatch.setattr(entries, "_SAVED_SECONDS", 1e-4)
    one, other = (jitlite.script(compile_source("def f(x: int):\n    return x\n")["f"]) for _ in range(2))
    with options.override(background=background, native="auto"):
        call_often(other, 10)
        assert inspect.isfunction(one.__call__) or not isinstance(one.__call__, types.BuiltinFunctionType)
        call_often(one, 4_000)
        assert jitlite.wait_for_compilation(60)
        assert isinstance(one.__call__, types.BuiltinFunctionType)
        assert not isinstance(other.__call__, types.BuiltinFunctionType)
        call_often(other, 257)
        assert isinstance(other.__call__, types.BuiltinFunctionType), "it is there, and is looked for"
        third = jitlite.script(compile_source("def f(x: int):\n    return x\n")["f"])
        third(1)
        assert isinstance(third.__call__, types.BuiltinFunctionType), "new functions need not wait"


@pytest.mark.parametrize("lacking", ["llvmlite", "symbol", "layout", "outcome"])
def test_without_machine_code_python_goes_on(monkeypatch, not_compiled, lacking: str) -> None:
    if lacking == "llvmlite":
        monkeypatch.setattr(entry, "_is_refused", True)
    elif lacking == "symbol":
        monkeypatch.setattr(checked_calls.torch_internals, "is_recorded_in_c", None, raising=False)
    elif lacking == "layout":
        monkeypatch.setattr(emit_checks, "_ITEMS_OFFSET", 32)
    else:
        monkeypatch.setattr(emit_checks, "OTHERWISE", emit_checks.NOTE)
    monkeypatch.setattr(entries, "_SAVED_SECONDS", 1e-4)
    function = jitlite.script(compile_source("def f(x: int):\n    return x\n")["f"])
    with options.override(background=False, native="auto"):
        call_often(function, 5_000)
        assert function(3) == 3
        assert "expected at most 1 argument" in outcome(function, 1, 2)[1]
    assert inspect.isfunction(function.__call__)
    assert "count" not in function.__call__.__code__.co_names, "nothing is counted any more"
    with options.override(native="now"):
        other = jitlite.script(compile_source("def f(x: int):\n    return x\n")["f"])
        assert other(3) == 3 and inspect.isfunction(other.__call__)
    report = entries.machine_code_report()
    assert report["calls"].startswith("off: ")
    assert report["loops"].startswith("off: " if lacking == "llvmlite" else "on")


def test_the_doctor_is_told_what_is_on() -> None:
    assert entries.machine_code_report() == {"loops": "on", "calls": "on"}
    with options.override(native="off"):
        assert "JITLITE_NATIVE" in entries.machine_code_report()["calls"]


def test_first_calls_compile_nothing(not_compiled) -> None:
    function = jitlite.script(compile_source("def f(x: int):\n    return x\n")["f"])
    with options.override(native="auto"):
        call_often(function, 5_000)
    assert not checked_calls.is_ready() and not entries._state.is_compiling
