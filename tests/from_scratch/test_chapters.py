"""The compiler of the book agrees with eager Python, chapter by chapter."""

from __future__ import annotations

import math
import runpy
from pathlib import Path

import ch1_tree
import ch3_ssa
import ch4_passes
import ch5_bytecode
import ch6_interpreter
import ch7_autodiff
import ch8_kernel
import graphs
import pytest
import torch
from torch import Tensor

BOOK = Path(__file__).parent.parent.parent / "docs" / "from_scratch"


@pytest.mark.parametrize("path", sorted((BOOK / "code").glob("*.py")), ids=lambda path: path.stem)
def test_a_file_runs_alone_and_fits_an_evening(path, capsys):
    runpy.run_path(str(path), run_name="__main__")
    assert len(path.read_text().splitlines()) < 150
    assert capsys.readouterr().out.strip() or not path.name.startswith("ch")


# -- programs: each is compiled, and compared with what Python does with the same text


def no_statement(x: Tensor) -> Tensor:
    return x


def numbers(a: int, b: float) -> float:
    c = a + 2 * 3 - -1
    c //= 2
    c %= 5
    return c / 4 + b * c - abs_of(a)


def abs_of(a: int) -> int:  # a call of a function is outside the language
    return a


def swapped(a: int, b: int, n: int) -> int:
    for i in range(n):
        old = a
        a = b
        b = old + i
    return a * 1000 + b


def zero_iterations(n: int) -> int:
    i = 7
    for i in range(n):
        i = i * 2
    return i


def nested(n: int, m: int) -> int:
    total = 0
    for i in range(n):
        for j in range(i):
            if (i + j) % 3 == 0:
                total += i * j
            elif j > m:
                while total > 5:
                    total -= m + 1
            else:
                total = total + 1
    return total


def chosen(flag: bool, x: float) -> float:
    if flag:
        y = x + 1
        z = y
    else:
        z = x
        y = z - 1
    return y * 10 + z


def decided(x: float) -> float:
    debug = 1 > 2
    if debug:
        x = x / 0
    if not debug:
        x = x + 0.5
    return x


def equal_but_not_the_same(x: float) -> float:
    a = x * 0.0
    b = x * -0.0
    c = x / 1 + 1 - 1.0
    return (a + 1) * 1.0 / 1 + b + c


def signs_of_zero(x: float) -> float:
    a = x * 0.0
    b = x * -0.0
    if x > 5:
        b = a
    return b


def one_and_one(n: int) -> float:
    a = n * 1
    b = n * 1.0
    return b + a - a


def truthy(n: int, x: float) -> int:
    k = 0
    while n:
        n -= 1
        if x:
            k += 1
    return k


def on_tensors(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        if bool(x.sum() > i):
            x = (x * 2 - x.mean()).relu()
        else:
            x = -x / 3 + torch.exp(x)
    return x


def to_numbers(x: Tensor) -> float:
    return float(x.sum()) + int(x.max()) + 0.5


INF, NAN = float("inf"), float("nan")
PROGRAMS = [
    (no_statement, [(torch.ones(2),), (torch.ones(0),)]),
    (swapped, [(1, 2, 0), (1, 2, 1), (1, 2, 7), (1, 2, -3)]),
    (zero_iterations, [(0,), (-1,), (1,), (5,)]),
    (nested, [(0, 1), (9, 3), (12, 0)]),
    (chosen, [(True, 1.0), (False, 2.5), (True, NAN)]),
    (decided, [(1.0,), (-0.0,), (INF,)]),
    (equal_but_not_the_same, [(1.0,), (-1.0,), (0.0,), (-0.0,), (NAN,), (1e308,)]),
    (signs_of_zero, [(1.0,), (-1.0,)]),
    (one_and_one, [(3,)]),
    (truthy, [(0, 1.0), (3, 0.0), (3, NAN)]),
    (on_tensors, [(torch.randn(4), 3), (torch.randn(0), 2), (torch.tensor([NAN, 1.0]), 2), (torch.ones(2, 3), 0)]),
    (to_numbers, [(torch.tensor([1.5, 2.5]),)]),
    (ch1_tree.smooth, [(torch.randn(8), 4), (torch.randn(8), 0)]),
    (ch4_passes.area, [(2.0, 3)]),
]
IDS = [f.__name__ for f, _ in PROGRAMS]


def same(one: object, other: object) -> bool:
    if isinstance(one, Tensor):
        return (
            isinstance(other, Tensor)
            and one.dtype == other.dtype
            and torch.equal(one.nan_to_num(7), other.nan_to_num(7))
        )
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return repr(one) == repr(other)


@pytest.mark.parametrize("function, calls", PROGRAMS, ids=IDS)
@pytest.mark.parametrize("passes", [(), *((p,) for p in ch4_passes.PASSES), ch4_passes.PASSES],
                         ids=["none", *(p.__name__ for p in ch4_passes.PASSES), "all"])  # fmt: skip
def test_compiled_is_eager(function, calls, passes):
    compiled = ch6_interpreter.ScriptFunction(function, lambda graph: ch4_passes.optimize(graph, passes))
    for args in calls:
        assert same(compiled(*args), function(*args)), args


@pytest.mark.parametrize("function, calls", PROGRAMS, ids=IDS)
def test_every_value_has_one_definition_before_its_uses(function, calls):
    for graph in (ch3_ssa.compile_graph(function), ch4_passes.optimize(ch3_ssa.compile_graph(function))):
        assert not {"prim::Load", "prim::Store"} & {node.kind for node in graphs.all_nodes(graph)}
        check_block(graph, set())


def check_block(block, known):
    defined = set(known)

    def define(values):
        for value in values:
            assert value not in defined
            defined.add(value)

    define(block.params)
    for node in block.nodes:
        assert set(node.inputs) <= defined
        for inner in node.blocks:
            check_block(inner, defined)
        define(node.outputs)
    assert set(block.returns) <= defined


def test_passes_find_what_there_is():
    kinds = [node.kind for node in ch6_interpreter.script(ch4_passes.area).optimized.nodes]
    assert kinds == ["prim::Constant", "aten::mul", "aten::mul", "aten::add", "aten::add"]
    assert "prim::If" not in str(ch6_interpreter.script(decided).optimized)


def dead_loop(n: int) -> int:
    m = n
    while m > 0:
        m = m - 1
    return n


def dead_branch_with_a_loop(n: int) -> int:
    if n > 3:
        m = n
        while m > 0:
            m -= 1
    return n


@pytest.mark.parametrize("function", [dead_loop, dead_branch_with_a_loop], ids=["loop", "branch"])
def test_a_loop_is_never_dead(function):
    assert "prim::Loop" in str(ch6_interpreter.script(function).optimized)


def divides(a: int, b: int) -> int:
    c = 1
    return c + a // b


def divides_constants(x: int) -> int:
    return x + 1 // 0


def test_an_exception_is_pythons_and_names_the_line():
    line = divides.__code__.co_firstlineno + 2
    with pytest.raises(ZeroDivisionError) as caught:
        ch6_interpreter.script(divides)(1, 0)
    assert caught.value.__notes__ == [f"at line {line}, in the scripted function divides"]
    compiled = ch6_interpreter.script(divides_constants)
    with pytest.raises(ZeroDivisionError):
        compiled(1)


@pytest.mark.parametrize(
    "args, message",
    [
        ((1,), "takes 2 arguments, not 1"),
        ((1, 2.0), "expects int for b, not float"),
        ((True, 1), "expects int for a, not bool"),
    ],
    ids=["count", "type", "bool"],
)
def test_a_call_is_checked(args, message):
    with pytest.raises(TypeError, match=message):
        ch6_interpreter.script(divides)(*args)


# -- programs that are refused


def early(x: int) -> int:
    if x > 1:
        return 2
    return 3


def endless(x: int) -> int:
    while True:
        x += 1


def unassigned(x: int) -> int:
    if x > 1:
        y = 1
    return y


def after_the_loop(n: int) -> int:
    for i in range(n):
        k = i
    return k


def two_types(x: int) -> float:
    if x > 1:
        x = 2.5
    return x


def type_changes_in_loop(x: int) -> float:
    for _ in range(3):
        x = x / 2
    return x


def no_such_operator(x: Tensor) -> Tensor:
    return x.cummax(0)


def wrong_type(x: int) -> Tensor:
    return torch.relu(x)


def default(x: int = 1) -> int:
    return x


def strings(x: int) -> int:
    x = "text"
    return x


def over_a_list(x: int) -> int:
    for y in [1, 2]:
        x += y
    return x


def float_range(x: float) -> float:
    for _ in range(x):
        x += 1
    return x


def reserved(torch: Tensor) -> Tensor:
    return torch


def other_type(x: str) -> int:
    return 1


def keyword(x: Tensor) -> Tensor:
    return x.sum(dim=0)


def internal_name(x: Tensor) -> bool:
    return torch.Bool(x)


def internal_method(x: Tensor, y: Tensor) -> Tensor:
    return x.floordiv(y)


def power(x: int) -> int:
    return x**2


REFUSED = [
    (early, "no other return"), (endless, "ends with `return VALUE`"), (unassigned, "`y` does not always have a value"),
    (after_the_loop, "`k` does not always have a value"), (two_types, "`x` would be float or int"),
    (type_changes_in_loop, "`x` would be int or float"), (no_such_operator, r"no aten::cummax takes \(Tensor, int\)"),
    (wrong_type, r"no aten::relu takes \(int\)"), (default, "no defaults"), (strings, "no such expression"),
    (over_a_list, "no such statement"), (float_range, "range takes an int, not a float"), 
    (reserved, "`torch` has a meaning"),
    (other_type, "no type str"), (keyword, "no such expression"), (power, "no such operation"), (numbers, "no such"),
    (internal_name, "no such expression"), (internal_method, "no such expression"),
]  # fmt: skip


@pytest.mark.parametrize("function, message", REFUSED, ids=[f.__name__ for f, _ in REFUSED])
def test_what_is_outside_the_language_is_refused_with_its_line(function, message):
    with pytest.raises(ch1_tree.CompileError, match=rf"line \d+: .*{message}"):
        ch3_ssa.compile_graph(function)


def test_a_function_without_source_is_refused():
    scope = {}
    exec("def f(x: int) -> int:\n    return x", scope)
    with pytest.raises(ch1_tree.CompileError, match="no source text"):
        ch1_tree.parse(scope["f"])
    with pytest.raises(ch1_tree.CompileError, match="made with `def`"):
        ch1_tree.parse(lambda x: x)


# -- gradients


def smooth_parts(x: Tensor, y: Tensor) -> Tensor:
    return (x * y - x / y + y.exp() * x.tanh() - (-x) + (y * y + 1).log()).mean()


def used_twice(x: Tensor, y: Tensor) -> Tensor:
    z = x * y
    return z * z + z + x * 3 - 2 / y


def branch(x: Tensor, y: Tensor) -> Tensor:
    scale = 2.0
    if float(x.sum()) > 0:
        z = x * y
        if bool(y.sum() > 100):
            z = z.exp()
        w = z * scale
    else:
        w = x
    return (w * w).sum() + x.relu()


def masked(x: Tensor, y: Tensor) -> Tensor:
    return x * (x > 0) + y * (y < x)


def ignores_one(x: Tensor, y: Tensor) -> Tensor:
    n = float(y.sum())
    return x * n


DIFFERENTIABLE = [smooth_parts, used_twice, branch, masked, ignores_one]


@pytest.mark.parametrize("function", DIFFERENTIABLE, ids=[f.__name__ for f in DIFFERENTIABLE])
@pytest.mark.parametrize("shapes", [((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2,)), ((0,), (1,))], ids=str)
@pytest.mark.parametrize("sign", [1, -1], ids=["positive", "negative"])
def test_gradients_are_those_of_autograd(function, shapes, sign):
    torch.manual_seed(len(shapes[0]))
    args = [(torch.rand(shape, dtype=torch.float64) + 0.5) * s for shape, s in zip(shapes, (sign, 1))]
    found = ch7_autodiff.GradientFunction(function)(*args)
    leaves = [arg.clone().requires_grad_() for arg in args]
    wanted = torch.autograd.grad(function(*leaves).sum(), leaves, allow_unused=True, materialize_grads=True)
    torch.testing.assert_close(found, wanted)


def test_gradient_of_relu_at_nan_and_zero_is_autograds():
    def kink(x: Tensor) -> Tensor:
        return x.relu()

    x = torch.tensor([NAN, 0.0, -0.0, INF, -INF, 2.0], requires_grad=True)
    (wanted,) = torch.autograd.grad(kink(x).sum(), x)
    assert torch.equal(ch7_autodiff.GradientFunction(kink)(x.detach())[0], wanted)


def test_gradient_of_a_product_of_matrices():
    args = torch.randn(3, 4), torch.randn(4, 2), torch.randn(2)
    leaves = [arg.clone().requires_grad_() for arg in args]
    wanted = torch.autograd.grad(ch7_autodiff.loss(*leaves), leaves)
    torch.testing.assert_close(ch7_autodiff.GradientFunction(ch7_autodiff.loss)(*args), wanted)


def looped(x: Tensor) -> Tensor:
    for _ in range(3):
        x = x * 2
    return x


def without_formula(x: Tensor) -> Tensor:
    return x.max() * 2


def of_a_number(x: Tensor) -> float:
    return float(x)


NO_GRADIENT = [(looped, "prim::Loop"), (without_formula, "aten::max"), (of_a_number, "only tensors have gradients")]


@pytest.mark.parametrize("function, message", NO_GRADIENT, ids=[f.__name__ for f, _ in NO_GRADIENT])
def test_what_has_no_gradient_is_refused(function, message):
    with pytest.raises(ch1_tree.CompileError, match=message):
        ch7_autodiff.GradientFunction(function)


def test_gradients_need_floats():
    with pytest.raises(TypeError, match="tensors of floats"):
        ch7_autodiff.GradientFunction(used_twice)(torch.ones(2, dtype=torch.int64), torch.ones(2))


# -- kernels


def chain(x: Tensor, y: Tensor, a: float, n: int) -> Tensor:
    z = (x * a + y).tanh() / n
    t = z - x
    if bool(t.sum() > 0):
        t = (-t).relu() * z + 1
    return t.exp() + z


def clipped(x: Tensor) -> Tensor:
    return (x * 2).relu()


def with_flag(x: Tensor, flag: bool) -> Tensor:
    return x * flag + x * flag


def fused(function):
    return ch6_interpreter.ScriptFunction(function, lambda graph: ch8_kernel.fuse(ch4_passes.optimize(graph)))


def runs(compiled):
    return [kernel.runs for kernel in ch8_kernel.kernels(compiled)]


@pytest.mark.parametrize("sign", [1, -1], ids=["one branch", "the other"])
@pytest.mark.parametrize("size", [0, 1, 7, 1000])
def test_a_kernel_computes_what_eager_does(size, sign):
    compiled = fused(chain)
    args = torch.rand(size) * sign, torch.randn(size), 1.5, 3
    torch.testing.assert_close(compiled(*args), chain(*args))
    assert len(runs(compiled)) >= 2 and sum(runs(compiled)) >= 2


def test_a_kernel_knows_nan_and_infinity():
    x = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1e38])
    torch.testing.assert_close(fused(chain)(x, x, 1e10, 1), chain(x, x, 1e10, 1), equal_nan=True)
    torch.testing.assert_close(fused(clipped)(x), clipped(x), equal_nan=True)


OTHERS = {
    "dtype": lambda x: x.double(), "whole numbers": lambda x: x.long() + 1,
    "strides": lambda x: torch.stack([x, x], 1)[:, 0],
    "broadcast": lambda x: x[:1], "gradient": lambda x: x.clone().requires_grad_(), "parameter": torch.nn.Parameter,
    "negative bit": lambda x: torch._neg_view(x),
}  # fmt: skip


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
def test_a_guard_keeps_other_arguments_from_the_kernel(make):
    compiled, x = fused(chain), torch.rand(6)
    args = make(x), x, 1.5, 3
    torch.testing.assert_close(compiled(*args), chain(*args))
    assert runs(compiled)[0] == 0


@pytest.mark.parametrize("n", [2**53, -(2**53)], ids=str)
def test_a_guard_keeps_large_numbers_from_the_kernel(n):
    compiled, x = fused(chain), torch.rand(6)
    torch.testing.assert_close(compiled(x, x, 1.5, n), chain(x, x, 1.5, n))
    assert runs(compiled)[0] == 0


def test_bools_are_no_lanes():
    compiled, x = fused(with_flag), torch.rand(3)
    assert not runs(compiled) and torch.equal(compiled(x, True), with_flag(x, True))


def test_gradients_run_as_kernels():
    class Fused(ch7_autodiff.GradientFunction):
        def __init__(self, function):
            optimize, gradient = ch4_passes.optimize, ch7_autodiff.gradient
            ch6_interpreter.ScriptFunction.__init__(
                self, function, lambda g: ch8_kernel.fuse(optimize(gradient(optimize(g))))
            )

    def simple(x: Tensor) -> Tensor:
        return (x * x + x).tanh() * x

    x = torch.rand(9)
    leaf = x.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(simple(leaf).sum(), leaf)
    compiled = Fused(simple)
    torch.testing.assert_close(compiled(x)[0], wanted)
    assert any(runs(compiled))


def test_the_code_prints_an_instruction_a_line():
    code = ch6_interpreter.script(swapped).code
    lines = str(code).splitlines()
    assert len(lines) == len(code.instructions) and lines[-1].split() == [str(len(lines) - 1), "RET"]
    assert isinstance(code, ch5_bytecode.Code)
