"""Nested functions and lambdas mean what they mean to Python."""

from __future__ import annotations

import copy
import textwrap

import pytest
import torch
from strategies import compile_source
from torch import Tensor

import jitlite
from jitlite.ir.verify import verify

SCALE = 3


def agree(fn, *arguments):
    """Script and Python give the same, and change the arguments alike."""
    ours, theirs = copy.deepcopy(arguments), copy.deepcopy(arguments)
    scripted = jitlite.script(fn)
    verify(scripted.graph)
    got = scripted(*ours)
    assert got == fn(*theirs)
    assert ours == theirs
    return got


def refused(text):
    """The error of compiling a function."""
    with pytest.raises(jitlite.CompileError) as caught:
        jitlite.script(compile_source(textwrap.dedent(text))["f"])
    return str(caught.value)


# -- what a name means
def test_captured_variables_have_the_value_of_the_moment():
    def f(x: int):
        def scaled(y):
            return x * y

        first = scaled(2)
        x = 10
        return first, scaled(2), [scaled(x) for x in range(3)]

    assert agree(f, 1) == (2, 20, [0, 10, 20])


def test_variables_of_different_functions_are_apart():
    def f(x: int):
        y = 100

        def outer(x):
            y = x + 1

            def inner(z):
                x = z * y
                return x + y

            return inner(y) + x + y

        return outer(x) + y + x

    agree(f, 4)


def test_a_comprehension_does_not_hide_what_a_function_captures():
    def f(xs: list[int], x: int):
        def add(y):
            return y + x

        def each(g, ys):
            return [g(x) for x in ys]

        return [add(x) for x in xs], each(add, xs), each(lambda y: sum([y * x for y in xs]), xs)

    agree(f, [1, 2, 3], 100)


def test_a_function_used_within_itself_by_way_of_another_keeps_its_variables():
    def f(n: int):
        def twice(g, v):
            w = g(v)
            return g(w) + v

        return twice(lambda a: twice(lambda b: a * b + n, a), n)

    agree(f, 3)


def test_globals_and_functions_of_enclosing_scopes():
    def triple(x: int):
        return x * SCALE

    two = 2

    def f(x: int):
        def g(y):
            return triple(y) + two

        return g(x)

    assert agree(f, 5) == 17


def test_captured_variables_are_refined():
    def f(x: int | None):
        def g(y: int):
            return y if x is None else y + x

        return g(1)

    assert agree(f, None) == 1
    assert agree(f, 5) == 6


def test_a_captured_list_is_the_list():
    def f(xs: list[int]):
        def note(x):
            xs.append(x)

        for i in range(3):
            note(i)
        return len(xs)

    agree(f, [7])


# -- parameters
def test_parameters_have_the_types_of_the_call():
    def f(x: int):
        double = lambda a: a + a  # noqa: E731
        return double(1), double("s"), double([1.5]), double((x, "t")), double(torch.ones(x)).sum().item()

    assert agree(f, 3) == (2, "ss", [1.5, 1.5], (3, "t", 3, "t"), 6.0)


def test_defaults_are_evaluated_at_the_definition():
    def f(x: int):
        def g(a, b: int = x, *, c=x + 1):
            return a, b, c

        x = 100
        return g(x), g(x, 1), g(b=2, a=3, c=4)

    assert agree(f, 5) == ((100, 5, 6), (100, 1, 6), (3, 2, 4))


def test_annotated_parameters_are_converted_and_checked():
    def f(x: int | None):
        def g(a: int | None = None) -> int:
            if a is None:
                a = 3
            return a

        return g(), g(x), g(None)

    assert agree(f, 5) == (3, 5, 3)
    assert "for argument 'a'" in refused("def f(x: int):\n    def g(a: str):\n        return a\n    return g(x)")


def test_type_comments():
    def f(x, n):
        # type: (Tensor, int) -> int
        def g(a):
            # type: (int) -> int
            return a * n

        return g(n)

    assert jitlite.script(f)(torch.ones(1), 4) == 16


def test_star_arguments_are_spread():
    def f(pair: tuple[int, str]):
        def g(a, b, c):
            return b + str(a) + c

        return g(*pair, "!")

    assert agree(f, (2, "x")) == "x2!"


# -- control flow
def test_returns_lead_to_the_call():
    def f(x: int, xs: list[int]):
        def position(v):
            for i, y in enumerate(xs):
                if y == v:
                    return i
                if y > 100:
                    break
            else:
                return -1
            return -2

        if position(x) >= 0:
            x += 1
        while position(x) >= 0:
            x += 1
        return x, [position(y) for y in range(3)]

    agree(f, 1, [1, 2, 4])
    agree(f, 1, [1, 101, 2])


def test_returns_go_by_way_of_their_own_finally_only():
    def f(x: int, log: list[int]):
        def g(a):
            try:
                if a > 1:
                    return a
                if a < 0:
                    raise ValueError("negative")
            finally:
                log.append(a)
            return 0

        try:
            return g(x) + g(1)
        except ValueError:
            return -1
        finally:
            log.append(100)

    for x in (2, 0, -1):
        agree(f, x, [])


def test_an_error_tells_the_way():
    def f(x: int):
        def check(v):
            if v > 1:
                raise ValueError("too big")
            return v

        return check(x)

    with pytest.raises(ValueError, match="too big") as caught:
        jitlite.script(f)(3)
    assert "in check" in "".join(caught.value.__notes__)


def test_a_definition_in_a_branch_is_known_there():
    def f(x: int):
        if x > 1:

            def g(a):
                return a + x

            x = g(x)
        return x

    agree(f, 3)
    agree(f, 0)


def test_fork():
    def f(x: Tensor, k: int):
        def power(a, n: int = 2):
            return a**n + k

        first, second = jitlite.fork(power, x), jitlite.fork(power, x, n=3)
        k = 100
        return jitlite.wait(first) + jitlite.wait(second)

    assert jitlite.script(f)(torch.tensor(2.0), 1) == torch.tensor(14.0)


def test_in_methods():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.k = 2
            self.inner = torch.nn.Linear(2, 2)

        def forward(self, x):
            def block(y, f):
                return f(self.inner(y)) * self.k

            return block(block(x, torch.relu), lambda t: t + self.k)

    model = Model()
    x = torch.ones(2)
    torch.testing.assert_close(jitlite.script(model)(x), model(x))


def test_functions_in_a_tuple_that_is_unpacked():
    def f(x: int):
        double, add, n = lambda a: a * 2, lambda a: a + x, x + 1
        double, add = add, double
        return double(add(n)), n

    assert agree(f, 3) == (11, 4)


# -- recursion
def test_recursion():
    def f(n: int):
        def factorial(k: int) -> int:
            return 1 if k < 2 else k * factorial(k - 1)

        def even(k: int) -> bool:
            return True if k == 0 else odd(k - 1)

        def odd(k: int) -> bool:
            return False if k == 0 else even(k - 1)

        return [factorial(k) for k in range(n)], even(n), odd(n)

    assert agree(f, 5) == ([1, 1, 2, 6, 24], False, True)


def test_recursive_functions_see_the_variables_around():
    def f(xs: list[int], k: int | None):
        log: list[int] = []

        def walk(i: int, step: int = len(xs)) -> int:
            if i >= len(xs):
                return step if k is None else k
            log.append(xs[i])
            result = walk(i + 1)
            xs[i] = result + i
            return result

        first = walk(0)
        k = 7
        return first, walk(1), walk(5, step=-1), log

    agree(f, [4, 5, 6], None)
    agree(f, [4, 5, 6], 2)


def test_variables_of_the_same_name_in_a_recursion():
    def f(n: int):
        x = 10

        def go(n: int, total: int = x) -> int:
            return total + x if n <= 0 else helper(n)

        def helper(x):
            def go_on(y=x):
                total = go(y - 1, n)
                return total + y

            return go_on()

        x = 20
        return go(3), go(n, 5), helper(2)

    agree(f, 4)


def test_a_recursive_function_within_another():
    def f(n: int):
        def outer(m: int) -> int:
            def outer_again(k: int, step: int = 1) -> int:
                return m if k <= 0 else outer_again(k - step) + n

            return outer_again(2) if m <= 0 else outer(m - 1) + outer_again(m)

        def shadowing(m: int) -> int:
            def shadowing(k: int) -> int:
                return k + m

            return shadowing(n)

        return outer(n), shadowing(5)

    agree(f, 4)


def test_a_recursive_function_is_compiled_once_for_each_tuple_of_types():
    def f(n: int):
        def size(x, m: int) -> int:
            return len(x) if m == 0 else size(x, m - 1) + 1

        return size("abc", n), size([1, 2], n), size([3], n + 1), size("", n), n

    assert agree(f, 3) == (6, 5, 5, 3, 3)
    graph = jitlite.script(f).graph
    called = {
        node.inputs[0].node.attributes["value"] for node in graph.all_nodes() if node.kind == "prim::CallFunction"
    }
    assert len(called) == 2


def test_functions_are_passed_on_in_a_recursion():
    def f(n: int):
        k = 3

        def repeat(g, m: int, v: int) -> int:
            return v if m == 0 else repeat(g, m - 1, g(v))

        return repeat(lambda a: a * 2 + k, n, 1), repeat(abs, 2, -4)

    assert agree(f, 3) == (29, 4)


def test_recursion_with_errors_and_fork():
    def f(n: int, log: list[int]):
        def down(k: int) -> int:
            if k == 0:
                raise ValueError("end")
            try:
                return down(k - 1)
            finally:
                log.append(k)

        try:
            jitlite.wait(jitlite.fork(down, n))
            return str(down(n))
        except ValueError as e:
            return str(e)

    assert jitlite.script(f)(3, log := []) == "end"
    assert log == [1, 2, 3]


def test_recursion_in_methods():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([torch.nn.Linear(2, 2) for _ in range(2)])
            self.visits = 0

        def scaled(self, x):
            return x * 2

        def forward(self, x):
            def go(y, n: int) -> Tensor:
                self.visits += 1
                if n == 0:
                    return self.scaled(y)
                for layer in self.layers:
                    y = layer(y)
                return go(y, n - 1)

            return go(x, 3)

    model = Model()
    x = torch.ones(2)
    scripted = jitlite.script(model)
    torch.testing.assert_close(scripted(x), model(x))
    assert scripted.visits == model.visits == 4


def test_what_a_recursive_function_assigns_is_not_refined_after_its_call():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.last: int | None = 1

        def forward(self, n: int) -> int:
            def clear(k: int) -> None:
                if k > 0:
                    clear(k - 1)
                self.last = None

            if self.last is not None:
                clear(n)
                return self.last
            return 0

    with pytest.raises(jitlite.CompileError, match="Return value was annotated as having type int"):
        jitlite.script(Model())


def test_a_bound_method_within_a_recursive_function_is_refused():
    class Model(torch.nn.Module):
        def scaled(self, x):
            return x * 2

        def forward(self, x):
            scaled = self.scaled

            def go(y, n: int) -> Tensor:
                return scaled(y) if n == 0 else go(y, n - 1)

            return go(x, 3)

    with pytest.raises(jitlite.NotSupportedError, match="the method scaled cannot be used in the nested function 'go'"):
        jitlite.script(Model())


# -- what is refused
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("def g(a):\n        return a\n    return g", "the nested function 'g' cannot be used as a value"),
        ("return [lambda a: a]", "a lambda cannot be used as a value"),
        ("g = lambda a: a\n    while x > 1:\n        g = lambda a: a + 1\n    return g(x)", "Cannot re-assign 'g'"),
        ("y = 1\n    def g():\n        nonlocal y\n        y = 2\n    g()\n    return y", "nonlocal"),
        ("def g(n):\n        return g(n)\n    return g(x)", "g' calls itself, and its result type is not known"),
        ("g = lambda n: g([n])\n    return g(x)", "a lambda calls itself, and its result type is not known"),
        ("def g(n):\n        return h(n)\n    def h(n):\n        return g(n)\n    return g(x)", "calls itself"),
        ("g = lambda h: h(h)\n    return g(g)", "calls itself by way of its arguments"),
        (
            "def g(f, n: int) -> int:\n        return g(lambda v: f(v), n)\n    return g(abs, x)",
            "another function for 'f'",
        ),
        ("def g(n: int) -> int:\n        return g(str(n))\n    return g(x)", "for argument 'n'"),
        ("def g(n) -> int:\n        return g(str(n))\n    return g(x)", "for argument 'n'"),
        (
            "if x > 1:\n        def g(a):\n            return a\n    else:\n        x = 2\n    return g(x)",
            "g is the nested function 'g' in a branch of the if",
        ),
        ("def g(a):\n        return a\n    return g()", r"g() is missing the argument 'a'"),
        ("def g(a):\n        return a\n    return g(1, 2)", r"g() takes 1 positional arguments but 2 were given"),
        ("def g(a):\n        return a\n    return g(1, a=2)", r"g() got multiple values for argument 'a'"),
        ("def g(a):\n        return a\n    return g(b=2)", r"g() got an unexpected keyword argument 'b'"),
        ("@torch.no_grad()\n    def g(a):\n        return a\n    return g(1)", "decorators of nested functions"),
        ("def g(a):\n        return a + b\n    return g(1)", "undefined value b"),
        ("def g(a):\n        c = 1\n        return c\n    return c", "undefined value c"),
    ],
)
def test_refusals(body, message):
    error = refused(f"def f(x: int):\n    {body}\n")
    assert message in error


def test_an_error_in_a_body_names_the_call():
    assert "'g' is being compiled since it was called from 'f'" in refused(
        "def f(x: int):\n    def g(a):\n        return a + b\n    return g(x)"
    )
