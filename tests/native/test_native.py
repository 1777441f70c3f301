"""Machine code for loops over numbers: what it gives is what Python gives, and what it cannot do Python does."""

from __future__ import annotations

import contextvars
import ctypes
import functools
import gc
import importlib
import itertools
import math
import os
import signal
import textwrap
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from native_programs import FLOATS, INTS, number_programs
from strategies import Program, compile_source

import jitlite
from jitlite.base import options
from jitlite.debug.equality import difference
from jitlite.debug.outcome import compare, observe
from jitlite.native import entry, policy
from jitlite.native.entry import MachineCode
from jitlite.native.rules import SCALAR_RULES

_COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": True}


@pytest.fixture(autouse=True)
def compiled_at_once() -> Iterator[None]:
    with options.override(native="now"):
        yield


def scripted(source: str, name: str = "f") -> Any:
    """The function `f` of a source, compiled."""
    return jitlite.script(compile_source(textwrap.dedent(source))[name])


def counts(function: Any) -> tuple[int, int]:
    """How often regions of a function ran as machine code, and how often they bailed out."""
    counters = function.get_debug_state().counters
    return counters["native_runs"], counters["native_misses"]


def check(source: str, *calls: tuple[Any, ...]) -> tuple[int, int]:
    """Hold a function to what it does in eager Python; gives its counts."""
    source = textwrap.dedent(source)
    eager, function = compile_source(source)["f"], scripted(source)
    for arguments in calls:
        found = compare(observe(eager, arguments), observe(function, arguments))
        assert found is None, f"f{arguments}: {found}\n{source}\n{function.generated_code}"
    assert function.executor.region_states, f"no region was found\n{function.generated_code}"
    return counts(function)


# -- programs made at random


@settings(max_examples=60, derandomize=True, database=None, phases=[Phase.generate], **_COMMON)
@given(number_programs())
def test_programs_do_what_they_do_in_eager(program: Program) -> None:
    eager = compile_source(program.source)["f"]
    function = jitlite.script(eager)
    for arguments in program.inputs:
        found = compare(observe(eager, arguments), observe(function, arguments))
        assert found is None, f"f{tuple(arguments)}: {found}\n{program}\n{function.generated_code}"


# -- each operator, on extreme numbers

_ONE = {
    "int": ["-a", "abs(a)", "float(a)", "bool(a)", "math.sqrt(a)", "math.log(a)", "math.fabs(a)", "a // 7", "a % -7",
            "a % 8", "a // -1", "a & 12", "a << 3", "a >> 2", "a / 3", "3 / a", "abs(a) ** 0.5", "a * 1.5", "a // 2.5"],
    "float": ["-a", "abs(a)", "int(a)", "bool(a)", "math.floor(a)", "math.ceil(a)", "math.sqrt(a)", "math.exp(a)",
              "math.log(a)", "math.log10(a)", "math.sin(a)", "math.cos(a)", "math.tan(a)", "math.asin(a)",
              "math.acos(a)",
              "math.atan(a)", "math.sinh(a)", "math.cosh(a)", "math.tanh(a)", "math.asinh(a)", "math.acosh(a)",
              "math.atanh(a)", "math.expm1(a)", "math.isnan(a)", "math.isinf(a)", "math.isfinite(a)", "a ** 2", "a * a",
              "a // 0.3", "a % 0.3", "a % -0.3", "a // -1e308"],
    "bool": ["not a", "int(a)", "float(a)", "a + 1", "a * 3", "a < 1"],
}  # fmt: skip
_TWO = ["a + b", "a - b", "a * b", "a / b", "a // b", "a % b", "a < b", "a <= b", "a > b", "a >= b", "a == b", "a != b"]
_OF_INTS = ["a & b", "a | b", "a ^ b", "a << b", "a >> b", "min(a, b)", "max(a, b)"]
_OF_FLOATS = ["min(a, b)", "max(a, b)", "abs(a) ** b", "math.fmod(a, b)", "math.copysign(a, b)"]
_NUMBERS: dict[str, list[Any]] = {"int": INTS, "float": FLOATS, "bool": [False, True]}

_CASES = [
    *((k, "", e) for k, es in _ONE.items() for e in es),
    *((k, o, e) for k in ("int", "float") for o in ("int", "float") for e in _TWO),
    *(("int", "int", e) for e in _OF_INTS),
    *(("float", "float", e) for e in _OF_FLOATS),
    *(("bool", "bool", e) for e in ("a & b", "a | b", "a ^ b", "a == b", "a != b", "a and b", "a or b")),
    *(("int", "bool", e) for e in ("a + b", "a - b", "a < b", "a // b", "a == b")),
]


@pytest.mark.slow
def test_every_operator_on_extreme_numbers() -> None:
    """Several to a function, for compiling takes longer than running; which one is computed is an argument."""
    by_types: dict[tuple[str, str, str], list[str]] = {}
    for left, right, expression in _CASES:
        parameters = f"a: {left}, b: {right}" if right else f"a: {left}"
        by_types.setdefault((left, right, result_of(expression, parameters)), []).append(expression)
    for (left, right, result), expressions in by_types.items():
        parameters = f"a: {left}, b: {right}" if right else f"a: {left}"
        branches = "".join(f"        if which == {i}:\n            r.append({e})\n" for i, e in enumerate(expressions))
        source = f"def f(which: int, n: int, {parameters}) -> List[{result}]:\n    r: List[{result}] = []\n"
        source += f"    for _ in range(n):\n{branches}    return r\n"
        operands = itertools.product(*(_NUMBERS[kind] for kind in (left, right) if kind))
        runs, _ = check(source, *((i, 1, *given) for given in operands for i in range(len(expressions))))
        assert runs > 0, f"nothing ran as machine code\n{source}"


def result_of(expression: str, parameters: str) -> str:
    """The type that a script gives an expression."""
    function = jitlite.script(compile_source(f"def f({parameters}):\n    return {expression}\n")["f"])
    return str(function.schema.returns[0].type)


# -- when it bails out


@pytest.mark.parametrize(
    "step, arguments, raised",
    [
        ("s = s * 3 + i", (200,), ""),
        ("s = s << i", (100,), ""),
        ("s = s - 9223372036854775807", (9,), ""),
        ("s = 100 // (5 - i)", (9,), "ZeroDivisionError"),
        ("s = 100 % (5 - i)", (9,), "ZeroDivisionError"),
        ("s = s << (3 - i)", (9,), "ValueError"),
        ("s = int(10.0 ** (i * 40))", (9,), "OverflowError"),
        ("s = int(math.sqrt(float(4 - i)))", (30,), "ValueError"),
        ("s = xs[i]", (9,), "IndexError"),
        ("s = d[i]", (9,), "KeyError"),
        ("s = xs.pop()", (9,), "IndexError"),
    ],
)
def test_what_goes_another_way_in_64_bits_is_done_by_python(step: str, arguments: Any, raised: str) -> None:
    source = f"""
        def f(n: int) -> int:
            s = 1
            xs = [5, 6, 7]
            d = {{0: 1, n: 2}}
            for i in range(n):
                {step}
            return s + len(xs) + len(d)
        """
    eager = compile_source(textwrap.dedent(source))["f"]
    assert observe(eager, arguments).raised == raised
    assert check(source, (1,), arguments) == (1, 1)


def test_an_exception_comes_with_the_line_of_the_script() -> None:
    function = scripted("""
        def f(n: int) -> int:
            s = 0
            for i in range(n):
                s += 10 // (3 - i)
            return s
        """)
    assert function(3) == 10 // 3 + 10 // 2 + 10
    with pytest.raises(ZeroDivisionError) as caught:
        function(5)
    assert "s += 10 // (3 - i)" in "".join(caught.value.__notes__)


def test_arguments_that_are_not_just_of_the_type_are_done_by_python() -> None:
    source = """
        def f(x: float, n: int) -> float:
            for i in range(n):
                if i > 5:
                    x = x + 0.5
            return x
        """
    assert check(source, (2, 3), (2, 9), (2.0, 3), (2.0, 2**70)[:1] + (9,), (float("nan"), 2)) == (3, 2)
    function = scripted(source)
    assert type(function(2, 3)) is int, "an int that is given for a float stays one"


def test_elements_from_outside_are_looked_at_where_they_are_read() -> None:
    source = """
        def f(xs: List[float], n: int) -> float:
            s = 0.0
            for i in range(n):
                s = s + xs[i]
            return s
        """
    assert check(source, ([1.0, 2], 1), ([1.0, 2], 2), ([1.0, -0.0], -1), ([], 1)) == (2, 2)


def test_a_list_of_constants_is_one_from_outside() -> None:
    source = """
        def f(n: int) -> float:
            weights = [0.5, -1.0, 2.0]
            s = 0.0
            for i in range(n):
                s += weights[i % 3] + weights[-1] * len(weights)
            return s
        """
    assert check(source, (0,), (7,), (100,)) == (3, 0)


def test_a_copy_of_a_list_from_outside_may_be_written() -> None:
    source = """
        def f(xs: List[int], n: int) -> Tuple[List[int], List[int], List[float]]:
            ys = xs.copy()
            zs = xs * 2
            ws = [0.0] * n
            for i in range(n):
                ys[i] += zs[i]
                ws[i] = ys[i] / 2
            return ys, zs, ws
        """
    assert check(source, ([1, 2, 3], 3), ([], 0), ([5, 2**62, 2**62], 1), ([2**70], 1)) == (3, 1)


def test_a_list_from_outside_is_not_written() -> None:
    function = scripted("""
        def f(xs: List[int], n: int) -> int:
            s = 0
            for i in range(n):
                xs[i] = i
            for i in range(n):
                s += xs[i]
            return s
        """)
    xs = [9, 9, 9]
    assert (function(xs, 3), xs) == (3, [0, 1, 2])
    assert counts(function) == (1, 0)
    assert "comes from outside" in str(function.explain(xs, 3))


def test_what_is_given_up() -> None:
    function = scripted("""
        def f(n: int) -> int:
            s = 1
            for i in range(1, n):
                s *= i
            return s
        """)
    for _ in range(3 * policy.BAILOUTS):
        assert function(30) == math.factorial(29)
    runs, misses = counts(function)
    assert (runs, misses) == (0, policy.BAILOUTS)
    assert "given up" in str(function.explain(30))


# -- containers


def test_lists_and_dicts_that_a_region_makes_leave_it_as_python_objects() -> None:
    assert check(
        """
        def f(n: int) -> Tuple[List[int], Dict[int, float], List[List[int]], List[Tuple[int, bool]]]:
            xs: List[int] = []
            d: Dict[int, float] = {}
            rows: List[List[int]] = []
            pairs: List[Tuple[int, bool]] = []
            for i in range(n):
                xs.append(i * i)
                d[i % 5] = i * 0.5
                rows.append(xs)
                rows.append([i])
                pairs.append((i, i > 2))
            return xs, d, rows, pairs
        """,
        (0,),
        (1,),
        (20,),
    ) == (3, 0)


def test_lists_of_one_name_stay_one_object() -> None:
    check(
        """
        def f(n: int) -> Tuple[List[int], List[int], List[List[int]]]:
            a = [0]
            b = a
            c = [7]
            for i in range(n):
                if i % 2 == 0:
                    b = c
                else:
                    b = a
                b.append(i)
            return a, b, [a, b, c]
        """,
        *((n,) for n in range(5)),
    )


def test_lists_that_are_not_there_yet_leave_a_region() -> None:
    """The result before `return` has run: nobody looks at it, but it is handed on."""
    source = """
        def f(n: int) -> Tuple[Tuple[List[int], int], Dict[int, List[int]]]:
            for i in range(n):
                for j in range(i):
                    if i * j == 6:
                        return ([i], j), {i: [j]}
            print(n)
            while n > 0:
                n -= 2
                if n == 1:
                    return ([n], n), {n: [n]}
            print(n)
            return ([0], 0), {0: [0]}
        """
    assert check(source, (0,), (2,), (3,), (9,))[1] == 0


def test_dicts_are_ordered_and_grow() -> None:
    source = """
        def f(n: int, step: int) -> Tuple[Dict[int, int], List[int], List[int], int]:
            d: Dict[int, int] = {}
            for i in range(n):
                k = (i * step) ^ (i >> 3)
                if k in d:
                    d[k] = d[k] + 1
                else:
                    d[k] = d.get(i, 100)
            total = 0
            for k, v in d.items():
                total = total * 3 % 1000003 + k % 1000 + v
            return d, list(d.keys()), list(d.values()), total
        """
    runs, misses = check(source, (0, 1), (1, 0), (500, 1), (500, -7), (3000, 2**40 + 1), (300, 2**54))
    assert (runs, misses) == (6, 0)


def test_lists_of_a_trip_are_freed_at_its_end() -> None:
    function = scripted("""
        def f(n: int) -> int:
            s = 0
            for i in range(n):
                row = [i] * 1000
                row[1] = 2
                s += row[0] % 7 + row[1] + len(row)
            return s
        """)
    assert function(300_000) == sum(i % 7 + 1002 for i in range(300_000))  # 2.4 GB in all
    assert counts(function) == (1, 0)


def test_too_much_memory_is_a_miss() -> None:
    with options.override(native="now"):
        function = scripted("""
            def f(n: int) -> int:
                s = 0
                for i in range(min(n, 2)):
                    xs = [1] * n
                    s += len(xs)
                return s
            """)
        assert function(10) == 20
        with pytest.raises((MemoryError, OverflowError)):
            function(2**61)
        assert counts(function) == (1, 1)


# -- what else happens meanwhile

_LONG = """
    def f(n: int) -> int:
        s = 0
        for i in range(n):
            s = (s * 31 + i) % 1000003
        return s
    """


def test_a_signal_interrupts_a_loop() -> None:
    function = scripted(_LONG)
    function(1)

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            function(10**13)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_another_thread_may_end_a_loop() -> None:
    """An exception that it sets is raised between two iterations, as Python does between two instructions."""

    class Ended(Exception):
        pass

    function = scripted(_LONG)
    function(1)
    raised: list[type] = []

    def run() -> None:
        try:
            function(10**13)
        except Ended as error:
            raised.append(type(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    time.sleep(0.1)
    assert thread.ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Ended))
    thread.join(20)
    assert raised == [Ended]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_is_not_forked_while_another_thread_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the child nobody would ever unlock what that thread has locked."""
    begun, ended, real = threading.Event(), threading.Event(), entry.emit

    def slowly(*arguments: Any) -> str:
        begun.set()
        time.sleep(0.2)
        ended.set()
        return real(*arguments)

    function, other = scripted(_LONG), scripted(_LONG)
    monkeypatch.setattr(entry, "emit", slowly)
    thread = threading.Thread(target=contextvars.copy_context().run, args=(function, 10))
    thread.start()
    assert begun.wait(20)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        status = 1
        try:
            status = 0 if ended.is_set() and other(10) == function(10) else 2
        finally:
            os._exit(status)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_other_threads_go_on_meanwhile() -> None:
    function = scripted(_LONG)
    function(1)
    ended = threading.Event()
    iterations = 0

    def count() -> None:
        nonlocal iterations
        while not ended.is_set():
            iterations += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    function(10**7)
    seen = iterations
    ended.set()
    thread.join()
    assert seen > 3


def test_threads_may_call_at_once() -> None:
    function = scripted(_LONG)
    expected = compile_source(textwrap.dedent(_LONG))["f"](20_000)
    results: list[int] = []
    threads = [threading.Thread(target=lambda: results.extend(function(20_000) for _ in range(20))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 80


# -- when


def test_what_runs_for_an_instant_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "compile_region", lambda region, name: pytest.fail("it was compiled"))
    with options.override(native="auto"):
        function = scripted(_LONG)
        assert [function(10) for _ in range(50)] == [function(10)] * 50


def test_what_takes_longer_than_compiling_is_compiled() -> None:
    with options.override(native="auto"):
        function = scripted(_LONG)
        expected, end = function(20_000), time.monotonic() + 30
        while counts(function)[0] < 3 and time.monotonic() < end:
            assert function(20_000) == expected
    assert counts(function)[0] == 3
    assert "machine code" in str(function.explain(5))


def test_without_llvmlite_python_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def absent(name: str, package: str | None = None) -> Any:
        if name.startswith("llvmlite"):
            raise ModuleNotFoundError(f"No module named {name!r}")
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", absent)
    for name in ("_loaded", "_is_refused", "_has_been_tried"):
        monkeypatch.setattr(entry, name, None if name == "_loaded" else False)
    function = scripted(_LONG)
    assert function(1000) == compile_source(textwrap.dedent(_LONG))["f"](1000)
    assert counts(function) == (0, 0)
    assert "llvmlite is missing" in str(function.explain(5))


@pytest.mark.parametrize("error", [RecursionError, MemoryError])
def test_too_little_room_to_compile_says_nothing_about_the_next_region(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(entry, "_has_been_tried", False)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(entry, "_self_test", fail)
        function = scripted(_LONG)
        function(10)
    assert counts(function) == (0, 0)
    function = scripted(_LONG)
    function(10)
    assert counts(function) == (1, 0)


def test_off_is_off() -> None:
    with options.override(native="off"):
        function = scripted(_LONG)
        assert "_native" not in function.generated_code
        function(1000)
    assert counts(function) == (0, 0)


def test_the_stack_machine_has_none() -> None:
    with options.override(tier="stack"):
        function = scripted(_LONG)
        function(1000)
    assert counts(function) == (0, 0)


def test_machine_code_is_freed_with_its_plan() -> None:
    def alive() -> int:
        gc.collect()
        return sum(isinstance(o, MachineCode) for o in gc.get_objects())

    before = alive()
    function = scripted(_LONG)
    function(10)
    assert alive() == before + 1
    del function
    assert alive() == before


# -- where


def test_what_it_looks_like() -> None:
    text = "\n".join(line.partition("  # ")[0].rstrip() for line in scripted(_LONG).generated_code.splitlines())
    assert text == textwrap.dedent("""\
        def f(n):
            _done = _native and _native(n)
            if _done is not None:
                s = _done
            else:
                _since = _clock()
                s = 0
                for i in range(n):
                    s = ((s * 31) + i) % 1000003
                _spent(_since)
            return s""")


def test_regions_between_what_python_does() -> None:
    source = """
        def f(x: Tensor, n: int) -> Tuple[Tensor, int, float]:
            k = x.size(0)
            for i in range(k):
                n += i
            print('then', n)
            y = x
            total = 0.0
            for i in range(n):
                y = torch.bucketize(y, y) + y
                for j in range(i):
                    total += j * 0.5
                if total > 50.0:
                    break
            try:
                m = 1
                for i in range(k + 7):
                    m = m * 5 // (7 - i)
                n += m
            except ZeroDivisionError:
                n = -n
            return y, n, total
        """
    runs, misses = check(source, (torch.zeros(3), 4), (torch.zeros(1), 2), (torch.zeros(0), 30))
    assert runs > 10
    assert misses == 2, "the division by zero"


def test_a_region_overwrites_what_python_needs_to_do_it_again_only_when_it_is_done() -> None:
    source = """
        def f(s: int, n: int) -> int:
            for i in range(n):
                s = s * s + 1
            return s
        """
    assert check(source, (3, 2), (3, 8), (-(2**63), 1), (0, 0)) == (2, 2)


def test_a_branch_that_raises_is_a_miss() -> None:
    source = """
        def f(n: int, limit: int) -> int:
            s = 0
            for i in range(n):
                if s > limit:
                    raise ValueError(f'{s} is too large')
                assert i < 50, 'far'
                s += i
            return s
        """
    assert check(source, (10, 100), (20, 100), (90, 10**6)) == (1, 2)


def test_every_rule_says_what_it_takes_and_gives() -> None:
    for kind, rules in SCALAR_RULES.items():
        for letters in rules:
            operands, _, result = letters.partition("->")
            assert set(operands) <= set("ifb") and result in ("i", "f", "b"), f"{kind}: {letters}"


@functools.cache
def _identity(kind: str) -> Any:
    return scripted(f"""
        def f(x: {kind}, n: int) -> {kind}:
            y = x
            for i in range(n):
                y = x
            return y
        """)


@given(st.floats() | st.integers(-(2**64), 2**64))
@settings(max_examples=200, derandomize=True, database=None, **_COMMON)
def test_numbers_cross_the_border_unchanged(number: Any) -> None:
    function = _identity("int" if isinstance(number, int) else "float")
    assert difference(number, function(number, 2)) is None
