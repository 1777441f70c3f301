"""Generated Python: what it looks like, and that it does what the stack machine does."""

from __future__ import annotations

import linecache
import re
import textwrap
import traceback
import weakref
from typing import Any

import pytest
import torch
from strategies import compile_source

import jitlite
from jitlite.base import options
from jitlite.base.source import Error
from jitlite.codegen.python.python_tier import translate
from jitlite.executor.executor import Executor
from jitlite.interpreter import vm
from jitlite.interpreter.bytecode import lower
from jitlite.interpreter.python_code import PythonCode
from jitlite.ir.parser import parse
from jitlite.operators.python_forms import CannotTranslate


def scripted(source: str) -> Any:
    """The function `f` of a source, compiled."""
    return jitlite.script(compile_source(textwrap.dedent(source))["f"])


def generated(source: str) -> str:
    """The code generated for the function `f` of a source, without the comments that say where lines come from."""
    with options.override(native="off"):  # what loops over numbers look like otherwise: see test_native.py
        text = scripted(source).generated_code
    return "\n".join(line.partition("  # ")[0].rstrip() for line in text.splitlines())


def check_text(source: str, expected: str) -> None:
    assert generated(source) == textwrap.dedent(expected).strip("\n")


def of_graph(text: str, name: str = "f") -> PythonCode:
    return translate(parse(textwrap.dedent(text)), name, lambda function: pytest.fail("nothing is called"))


def both(text: str, *arguments: Any) -> tuple[Any, Any]:
    """The results of the stack machine and of the generated function for a graph."""
    graph = parse(textwrap.dedent(text))
    return vm.run(lower(graph), arguments), of_graph(text).run(*arguments)


# -- what it looks like


def test_a_counted_loop_is_a_for_loop_over_a_range() -> None:
    check_text(
        """
        def f(n: int) -> int:
            total = 0
            for i in range(2, n):
                total = total + i * i
            return total
        """,
        """
        def f(n):
            total = 0
            for i in range(2, n):
                total = total + (i * i)
            return total
        """,
    )


def test_conditions_are_expressions_where_branches_are() -> None:
    check_text(
        """
        def f(a: int, b: int) -> bool:
            big = a if a > b else b
            return big > 10 and b != 3
        """,
        """
        def f(a, b):
            return ((a if (a > b) else b) > 10) and (b != 3)
        """,
    )


def test_carried_values_are_one_variable() -> None:
    check_text(
        """
        def f(n: int) -> int:
            a, b = 0, 1
            while a < n:
                a, b = b, a + b
            return b
        """,
        """
        def f(n):
            b = 1
            a = 0
            while a < n:
                b_1 = a + b
                a = b
                b = b_1
            return b
        """,
    )


def test_chains_of_conditions_are_elifs() -> None:
    check_text(
        """
        def f(xs: List[int], n: int):
            if n == 0:
                xs.append(1)
            elif n == 1:
                xs.append(2)
            else:
                xs[0] = n
        """,
        """
        def f(xs, n):
            if n == 0:
                xs.append(1)
            elif n == 1:
                xs.append(2)
            else:
                xs[0] = n
            return None
        """,
    )


def test_leaving_a_loop_is_a_break() -> None:
    check_text(
        """
        def f(xs: List[int], n: int) -> int:
            found = -1
            for i in range(len(xs)):
                if xs[i] == n:
                    found = i
                    break
                if i > 100:
                    found = -2
                    break
            return found
        """,
        """
        def f(xs, n):
            found = -1
            for v_1 in range(len(xs)):
                if xs[v_1] == n:
                    found = v_1
                    break
                if v_1 > 100:
                    found = -2
                    break
            return found
        """,
    )


def test_a_break_of_an_inner_loop_leaves_the_outer_one_alone() -> None:
    f = scripted("""
        def f(n: int) -> int:
            count = 0
            for i in range(n):
                if i % 2 == 0:
                    for j in range(n):
                        count += 1
                        if j == i:
                            break
                else:
                    count += 100
                count += 10000
            return count
        """)
    assert [f(n) for n in range(4)] == [0, 10001, 20101, 30104]


def test_the_condition_of_a_loop_stands_in_its_head() -> None:
    check_text(
        """
        def f(xs: List[int], n: int) -> int:
            i = 0
            while i < n and xs[i] != 0:
                i = i + 1
            return i
        """,
        """
        def f(xs, n):
            i = 0
            while (i < n) and (xs[i] != 0):
                i = i + 1
            return i
        """,
    )


def test_selecting_and_slicing_are_subscripts() -> None:
    check_text(
        """
        def f(x: Tensor, i: int):
            return x[i, 1:, -1], x[:, 2], x[:3]
        """,
        """
        def f(x, i):
            return (x[i, 1:, -1], x[:, 2], x[:3])
        """,
    )


def test_what_is_read_for_the_last_time_is_forgotten() -> None:
    check_text(
        """
        def f(x: Tensor) -> Tensor:
            y = x.exp()
            z = y + y
            return torch.sigmoid(z * z).log()
        """,
        """
        def f(x):
            y = _exp(x)
            z = y + y
            del y
            return _log(_sigmoid(z * z))
        """,
    )


def test_names_do_not_hide_what_the_code_needs() -> None:
    source = """
        def f(len: List[int], list: int) -> int:
            int = 0
            for range in len:
                int += range * list
            return int
        """
    assert scripted(source)([1, 2, 3], 2) == 12
    assert "for v in range(len(" in generated(source)


# -- what it does


def test_variables_that_change_places() -> None:
    text = """
    graph(%n : int, %x : int, %y : int):
      %t : bool = prim::Constant[value=1]()
      %a : int, %b : int = prim::Loop(%n, %t, %x, %y)
        block0(%i : int, %p : int, %q : int):
          -> (%t, %q, %p)
      return (%a, %b)
    """
    assert of_graph(text).run(3, 1, 2) == (2, 1)
    assert both(text, 4, 1, 2) == ((1, 2), (1, 2))
    assert both(text, 0, 1, 2) == ((1, 2), (1, 2))


def test_a_carried_value_that_is_its_own_bound() -> None:
    text = """
    graph(%n : int):
      %t : bool = prim::Constant[value=1]()
      %one : int = prim::Constant[value=1]()
      %a : int = prim::Loop(%n, %t, %n)
        block0(%i : int, %p : int):
          %q : int = aten::sub(%p, %one)
          -> (%t, %q)
      return (%a)
    """
    assert both(text, 5) == (0, 0)


def test_the_count_of_the_last_trip_survives_the_loop() -> None:
    text = """
    graph(%n : int, %stop : int):
      %t : bool = prim::Constant[value=1]()
      %start : int = prim::Constant[value=-1]()
      %a : int = prim::Loop(%n, %t, %start)
        block0(%i : int, %p : int):
          %on : bool = aten::lt(%i, %stop)
          -> (%on, %i)
      return (%a)
    """
    for n, stop in ((5, 2), (5, 100), (0, 1), (1, 0)):
        machine, python = both(text, n, stop)
        assert machine == python


def test_branches_that_return_what_came_before_them() -> None:
    text = """
    graph(%c : bool, %x : int, %y : int):
      %a : int, %b : int = prim::If(%c)
        block0():
          %s : int = aten::add(%x, %y)
          -> (%y, %s)
        block1():
          -> (%x, %x)
      %r : int = aten::sub(%a, %x)
      return (%a, %b, %r)
    """
    for c in (True, False):
        machine, python = both(text, c, 3, 5)
        assert machine == python


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "-0.", "1e308", "-1"])
def test_constants_that_are_no_plain_literals(value: str) -> None:
    kind = "int" if value == "-1" else "float"
    graph = f"""
    graph(%x : {kind}):
      %c : {kind} = prim::Constant[value={value}]()
      %p : {kind} = aten::mul(%c, %x)
      %n : {kind} = aten::neg(%p)
      return (%n)
    """
    machine, python = both(graph, 2 if kind == "int" else 2.0)
    assert repr(machine) == repr(python)


def test_powers_of_negative_constants() -> None:
    f = scripted("def f(n: int) -> float:\n    return (-2) ** n\n")
    assert f(2) == 4


def test_a_scale_is_no_operand_of_a_difference() -> None:
    text = """
        graph(%x : Tensor):
          %1 : float = prim::Constant[value=0.5]()
          %2 : int = prim::Constant[value=2]()
          %3 : Tensor = aten::sub(%x, %1, %2)
          return (%3)
        """
    machine, python = both(text, torch.tensor([1, 2]))
    assert torch.equal(machine, python) and python.tolist() == [0.0, 1.0]


def test_a_handler_finds_the_values_from_before_the_try() -> None:
    f = scripted(
        textwrap.dedent("""
        def f(xs: List[int]) -> int:
            n = 1
            try:
                n = n + 1
                n = n * xs[3]
            except IndexError:
                n = n + 100
            return n
        """)
    )
    assert f([1, 2, 3, 4]) == 8
    assert f([]) == 102


def test_managers_are_left_when_something_is_raised() -> None:
    f = scripted("def f(xs: List[int]) -> int:\n    with torch.no_grad():\n        return xs[5]\n")
    with pytest.raises(IndexError):
        f([])
    assert torch.is_grad_enabled()


def test_tensors_are_freed_where_they_are_read_for_the_last_time() -> None:
    freed: list[bool] = []

    @torch.jit.ignore
    def look(x: torch.Tensor) -> None:
        freed.append(all(r() is None for r in seen))

    @torch.jit.ignore
    def remember(x: torch.Tensor) -> None:
        seen.append(weakref.ref(x))

    seen: list[Any] = []

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        remember(y)
        z = y * 2
        look(z)
        return z.exp()

    jitlite.script(f)(torch.ones(2))
    assert freed == [True]


def test_what_is_nested_too_deeply_for_python_runs_on_the_stack_machine() -> None:
    def loops(depth: int, margin: str) -> str:
        if depth == 0:
            return ""
        body = loops(depth - 1, f"{margin}    ")
        return f"{margin}= prim::Loop(%n, %t)\n{margin}  block0(%i{depth} : int):\n{body}{margin}    -> (%t)\n"

    graph = parse(f"graph(%n : int):\n  %t : bool = prim::Constant[value=1]()\n{loops(25, '   ')}  return (%n)\n")
    assert Executor(graph, "f").run([1]) == 1
    with pytest.raises(CannotTranslate):
        translate(graph, "f", lambda function: pytest.fail("nothing is called"))


def test_many_early_returns() -> None:
    lines = [
        "def f(n: int) -> int:",
        *(f"    if n == {i}:\n        return {i * i}" for i in range(200)),
        "    return -1",
    ]
    f = scripted("\n".join(lines) + "\n")
    assert [f(n) for n in (0, 7, 199, 200)] == [0, 49, 199 * 199, -1]


@pytest.mark.parametrize("n", [0, 5, -1, -(2**31), 2**31, 2**40 + 3, -(2**70) - 9])
def test_remainders_of_large_powers_of_two(n: int) -> None:
    f = scripted("def f(n: int) -> int:\n    return (n * 3 + 1) % 2147483648\n")
    assert "& 2147483647" in f.generated_code
    assert f(n) == (n * 3 + 1) % 2147483648


def test_both_tiers_count_without_limit() -> None:
    f = scripted("def f(n: int) -> int:\n    k = 0\n    for i in range(n, n + 2):\n        k = i\n    return k\n")
    assert f(2**70) == 2**70 + 1
    with options.override(tier="stack"):
        assert scripted("def f(n: int) -> int:\n    return n + 1\n")(2**70) == 2**70 + 1


# -- where it comes from


SOURCE = """
def g(xs: List[int], i: int) -> int:
    return xs[i]

def f(xs: List[int]) -> int:
    a = xs[0]
    return a + g(
        xs, 7) + 1
"""


def test_an_exception_tells_the_line_of_the_script() -> None:
    f = scripted(SOURCE)
    with pytest.raises(IndexError) as caught:
        f([1, 2])
    (note,) = caught.value.__notes__
    assert note.index("return a + g(") < note.index("return xs[i]")
    assert "in g" in note
    with pytest.raises(IndexError) as caught:
        f([])
    (note,) = caught.value.__notes__
    assert "a = xs[0]" in note
    assert "in g" not in note


def test_tracebacks_show_the_script() -> None:
    f = scripted(SOURCE)
    with pytest.raises(IndexError) as caught:
        f([1, 2])
    shown = "".join(traceback.format_exception(caught.value))
    assert "generated/f.py" not in shown
    assert re.search(r'File "<generated_\d+>", line \d+, in g\n *return xs\[i\]', shown)
    linecache.clearcache()


def test_the_stack_machine_and_generated_code_tell_the_same_calls() -> None:
    notes = []
    for tier in options.TIERS:
        with options.override(tier=tier):
            f = scripted(SOURCE)
            with pytest.raises(IndexError) as caught:
                f([1, 2])
            notes.append([re.sub(r"generated_\d+", "generated", note) for note in caught.value.__notes__])
    assert notes[0] == notes[1]


def test_an_exception_that_is_raised_again_tells_where_it_came_from() -> None:
    f = scripted(
        textwrap.dedent("""
        def f(xs: List[int]) -> int:
            try:
                return xs[3]
            except KeyError:
                return 0
        """)
    )
    with pytest.raises(IndexError) as caught:
        f([])
    assert "return xs[3]" in caught.value.__notes__[0]


def test_generated_code_says_where_lines_come_from() -> None:
    text = scripted(SOURCE).generated_code
    assert any(line.rstrip().endswith(":7") for line in text.splitlines() if "xs[0]" in line)


def test_a_graph_that_cannot_be_run_is_an_error_of_the_stack_machine() -> None:
    with pytest.raises(CannotTranslate):
        of_graph("graph(%x : int):\n  %y : int = my::unknown(%x)\n  return (%y)\n")


def test_errors_of_a_running_program_are_those_of_the_machine() -> None:
    f = scripted("def f(x: int) -> int:\n    assert x > 0, 'positive'\n    return x\n")
    with pytest.raises(AssertionError, match="positive"):
        f(0)
    assert not issubclass(AssertionError, Error)


# -- conditions of loops


def count_until_small(*, between: str, again: str) -> Any:
    return scripted(
        f"""
        def f(xs: List[int]) -> int:
            n = 0
            more = xs.pop() > 0
            {between}
            while more:
                n += 1
                more = {again}
            return n
        """
    )


def test_a_condition_with_effects_is_evaluated_as_often_as_written() -> None:
    f = count_until_small(between="n = n", again="xs.pop() > 0")
    assert "while _pop(" in f.generated_code
    assert f([0, 3, 2]) == 2


def test_a_condition_computed_well_before_the_loop_stays_there() -> None:
    f = count_until_small(between="xs.append(7)", again="xs.pop() > 0")
    left = [0, 3, 2]
    assert f(left) == 3
    assert left == []
    assert count_until_small(between="xs.append(7)", again="xs.pop() > 0")([0]) == 0


def test_a_condition_that_reads_what_the_body_has_computed_is_kept_in_a_variable() -> None:
    f = scripted(
        """
        def f(xs: List[int]) -> int:
            t = 0
            while len(xs) > 0 and xs.pop() > 0:
                t += 10 if len(xs) > 0 else 100
            return t
        """
    )
    assert [f([1, 2]), f([1]), f([0, 1]), f([])] == [110, 100, 10, 0]


def test_a_condition_of_a_constant_that_the_body_hands_on_starts_with_another_value() -> None:
    f = scripted(
        """
        def f(a: int, b: int) -> int:
            n = 0
            while b // 2 != a and n < 5:
                n += 1
                b = b - 1
                a = 0
            return n
        """
    )
    assert [f(5, 10), f(7, 10), f(0, 2)] == [0, 5, 1]


# -- attributes


@pytest.mark.parametrize("name", ["class", "None", "a{b}", "{0}", "{", "\ufb01", "a b", "it's\n"])
def test_attributes_may_have_any_name(name: str) -> None:
    namespace = compile_source(
        textwrap.dedent(
            f"""
            class Named(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    setattr(self, {name!r}, 3)
                    self.register_buffer({"b" + name!r}, torch.ones(2))

                def forward(self, x):
                    return x + getattr(self, {name!r}) + getattr(self, {"b" + name!r})
            """
        )
    )
    module = jitlite.script(namespace["Named"]())
    assert module(torch.zeros(2)).tolist() == [4.0, 4.0]


@pytest.mark.parametrize("tier", ["python", "stack"])
def test_an_attribute_of_the_object_itself_goes_before_its_parameters(tier: str) -> None:
    with options.override(tier=tier):
        module = jitlite.script(torch.nn.Linear(2, 2, bias=False))
        x = torch.ones(1, 2)
        module(x)
        vars(module)["weight"] = torch.zeros(2, 2)
        assert module(x).tolist() == [[0.0, 0.0]]


def test_names_of_generated_code_are_plain_strings() -> None:
    """Python finds globals by their position only where all keys are just that."""
    function = scripted("""
        def f(n: int, x: Tensor):
            s = "a" + str(n)
            for i in range(n):
                n = n * i
            return torch.relu(x).abs(), s.upper(), n
        """)
    with options.override(native="now"):
        function(3, torch.ones(1))
        function(3, torch.ones(1))
    assert function.executor.region_states
    names = function.executor.general.run.__globals__
    assert {type(name) for name in names} == {str}, names


def test_dynamo_leaves_generated_functions_alone() -> None:
    f = scripted("def f(x: Tensor, n: int) -> Tensor:\n    for i in range(n):\n        x = x + i\n    return x")
    x = torch.zeros(2)
    for _ in range(options.current().specialize_after + 2):
        f(x, 3)  # so that nothing is left to be decided
    compiled = torch.compile(lambda x: f(x, 3) * 2, backend="eager")
    assert compiled(x).tolist() == [6.0, 6.0]


def test_kinds_of_the_front_end_are_refused():
    graph = parse(
        'graph(%x : Tensor):\n  %y : Function = prim::Closure[name="f"]()\n   block0():\n    -> ()\n  return (%y)\n'
    )
    with pytest.raises(CannotTranslate, match="prim::Closure has blocks"):
        translate(graph, "f", lambda function: pytest.fail("nothing is called"))
