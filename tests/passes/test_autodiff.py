"""Symbolic differentiation: every formula against autograd and against differences, and what autograd promises."""

from __future__ import annotations

import time

import pytest
import torch
from gradient_cases import CASES, NO_DIFFERENCES
from gradient_programs import program
from gradients import (
    as_one_node,
    assert_same,
    gradients_of,
    graph_of,
    leaves,
    outcome,
    runner,
    same,
    tensors_of,
    with_groups,
)

from jitlite.ir.ops import declared_ops, lookup
from jitlite.ir.parser import parse
from jitlite.operators import gradient_prims
from jitlite.passes import autodiff, create_autodiff, registry
from jitlite.passes.autodiff import differentiate
from jitlite.passes.rules import formula
from jitlite.passes.rules.formula import rules
from jitlite.passes.specialize_autogradzero import usual_gradients

_SAMPLES = [(name, number) for name, cases in CASES.items() for number in range(len(cases))]


def test_every_formula_has_a_case():
    with_gradient = {name.removeprefix("aten::") for name, rule in rules().items() if rule.inputs}
    assert with_gradient == set(CASES)


def test_every_formula_is_that_of_an_operator():
    for name in rules():
        kind, _, overload = name.partition(".")
        assert overload in {op.schema.overload for op in lookup(kind)}, name


def test_every_operator_made_for_gradients_is_used():
    made = {o.name for o in declared_ops() if getattr(o.fn, "__module__", "") == gradient_prims.__name__}
    used = set()
    for name, number in _SAMPLES:
        gradient = differentiate(graph_of(name, CASES[name][number])[0])
        used |= {node.kind for graph in (gradient.f, gradient.df) for node in graph.all_nodes()}
    assert made - used == {"prim::AutogradKeep", "prim::AutogradKept"}, "which loops use: see kernels/test_recording.py"


@pytest.mark.parametrize("name, number", _SAMPLES)
def test_gradients_are_those_of_autograd(name, number):
    graph, tensors = graph_of(name, CASES[name][number])
    ours, theirs = as_one_node(graph), runner(graph)
    found = []
    for run in (ours, theirs):
        torch.manual_seed(3)
        found.append(gradients_of(run, leaves(tensors)))
    for mine, other in zip(*found, strict=True):
        assert_same(mine, other)


@pytest.mark.parametrize("name, number", _SAMPLES)
def test_gradients_and_their_gradients_are_differences(name, number):
    graph, tensors = graph_of(name, CASES[name][number])
    run, inputs = as_one_node(graph), leaves(tensors)
    results = tensors_of(run(*inputs))
    if {name, (name, number)} & NO_DIFFERENCES or not any(r.requires_grad for r in results):
        return
    if any(t.numel() == 0 for t in inputs) or any(x.dtype is torch.float32 for x in (*results, *inputs)):
        return

    def smooth(*given):
        return tuple(r for r in tensors_of(run(*given)) if r.requires_grad)

    assert torch.autograd.gradcheck(smooth, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(smooth, inputs, fast_mode=True)


# -- what autograd promises

X = torch.tensor([[0.3, -0.4, 1.2], [2.0, 0.5, -1.1]], dtype=torch.float64)

TANH_MUL = """graph(%x : Tensor, %y : Tensor):
  %a : Tensor = aten::mul(%x, %y)
  %b : Tensor = aten::tanh(%a)
  %c : Tensor = aten::mul(%b, %x)
  return (%c)"""


def both(text: str):
    """The graph as one node of autograd, and run by autograd."""
    graph = parse(text)
    return as_one_node(graph), runner(graph)


def fresh(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [t.detach().clone().requires_grad_() for t in tensors]


def is_one_node(tensor: torch.Tensor) -> bool:
    return type(tensor.grad_fn).__name__ == "DifferentiableGraphBackward"


def test_third_derivatives():
    found = []
    for run in both(TANH_MUL):
        x, y = fresh(X, X[0])
        first = torch.autograd.grad(run(x, y).sum(), x, create_graph=True)[0]
        second = torch.autograd.grad(first.square().sum(), (x, y), create_graph=True)
        found.append([first, *second, *torch.autograd.grad(sum(g.sin().sum() for g in second), (x, y))])
    assert_same(*found)


def test_only_what_is_needed_requires_a_gradient():
    text = """graph(%x : Tensor, %y : Tensor):
      %a : Tensor = aten::relu(%x)
      %b : Tensor = aten::cos(%y)
      %c : Tensor = aten::gt(%a, %b)
      %d : Tensor = aten::tanh(%a)
      return (%b, %d, %c)"""
    run, _ = both(text)
    x, y = fresh(X, X)
    b, d, c = run(x, y.detach())
    assert is_one_node(d) and d.requires_grad and not b.requires_grad and not c.requires_grad
    assert torch.autograd.grad(d.sum(), (x, y), allow_unused=True)[1] is None


def test_a_type_may_say_that_an_input_needs_no_gradient():
    text = TANH_MUL.replace("%y : Tensor)", "%y : Tensor(requires_grad=0))")
    gradient = differentiate(parse(text))
    assert gradient.df_output_vjps == [0] and gradient.f_differentiated_inputs == [0]
    run, plain = both(text)
    x, y = fresh(X, X)
    assert is_one_node(run(x, y.detach())) and not is_one_node(run(x, y)), "it was not made for this"
    assert_same(gradients_of(run, (x, y))[1], gradients_of(plain, (x, y))[1])


def test_undefined_gradients_are_zero():
    text = """graph(%x : Tensor, %y : Tensor):
      %a : Tensor = aten::sin(%x)
      %b : Tensor = aten::mul(%a, %y)
      return (%a, %b)"""
    for run in both(text):
        x, y = fresh(X, X)
        a, _ = run(x, y)
        for_x, for_y = torch.autograd.grad(a.sum(), (x, y), allow_unused=True)
        torch.testing.assert_close(for_x, x.cos().detach())
        assert for_y is None


@pytest.mark.parametrize("write", ["mul_", "zero_"])
def test_writing_what_was_saved_is_an_error(write):
    for run in both(TANH_MUL):
        x, y = fresh(X, X)
        kept = y * 1
        result = run(x, kept)
        getattr(kept, write)(*([2] if write == "mul_" else []))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.sum().backward()


def test_writing_a_result_that_is_kept_is_an_error():
    for run in both("graph(%x : Tensor):\n  %a : Tensor = aten::exp(%x)\n  return (%a)"):
        result = run(*fresh(X))
        result.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.sum().backward()


def test_writing_what_was_not_saved_is_none():
    text = """graph(%x : Tensor, %y : Tensor, %one : int):
      %a : Tensor = aten::add(%x, %y, %one)
      %b : Tensor = aten::neg(%a)
      return (%b)"""
    for run in both(text):
        x, y = fresh(X, X[0])
        kept = x * 1
        result = run(kept, y, 1)
        kept.zero_()
        result.mul_(2)
        result.sum().backward()
        assert y.grad.tolist() == [-4.0] * 3


def test_writing_what_a_gradient_of_zero_would_use_is_none():
    text = """graph(%x : Tensor, %y : Tensor):
      %a : Tensor = aten::exp(%x)
      %b : Tensor = aten::tanh(%y)
      %c : Tensor = aten::mul(%b, %b)
      return (%a, %b, %c)"""
    for run in both(text):
        x, y = fresh(X, X)
        a, b, c = run(x, y)
        a.add_(1)
        torch.testing.assert_close(torch.autograd.grad(b.sum(), y, retain_graph=True)[0], 1 - y.detach().tanh() ** 2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            torch.autograd.grad(a.sum() + c.sum(), (x, y), retain_graph=True)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            b.mul_(2)
            torch.autograd.grad(c.sum(), y)


def test_a_second_backward_needs_the_graph_retained():
    for run in both(TANH_MUL):
        x, y = fresh(X, X)
        result = run(x, y).sum()
        result.backward(retain_graph=True)
        result.backward()
        with pytest.raises(RuntimeError, match="second time"):
            result.backward()


def test_lists_are_kept_as_they_are():
    text = "graph(%x : Tensor, %dims : int[]):\n  %a : Tensor = aten::permute(%x, %dims)\n  return (%a)"
    for run in both(text):
        (x,) = fresh(torch.rand(2, 3, 4))
        dims = [2, 0, 1]
        result = run(x, dims)
        dims[:] = [0, 1, 2]
        assert torch.autograd.grad(result.sum(), x)[0].shape == x.shape


def test_hooks_on_saved_tensors_see_them():
    run, _ = both(TANH_MUL)
    x, y = fresh(X, X)
    seen = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t.shape) or t, lambda t: t):
        result = run(x, y)
    assert seen and is_one_node(result)
    result.sum().backward()


def test_hooks_on_arguments_and_results_run():
    run, _ = both(TANH_MUL)
    x, y = fresh(X, X)
    seen = []
    x.register_hook(lambda g: seen.append("x"))
    result = run(x, y)
    result.register_hook(lambda g: seen.append("result"))
    result.sum().backward()
    assert seen == ["result", "x"]


def _complex(run):
    return run(X.to(torch.complex64).requires_grad_(), X.to(torch.complex64))


def _forward_mode(run):
    x, y = fresh(X, X)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        return torch.autograd.forward_ad.unpack_dual(run(dual, y)).tangent


def _autocast(run):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return run(*fresh(X, X))


class _Subclass(torch.Tensor):
    pass


class _FunctionMode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def _function_mode(run):
    with _FunctionMode():
        return run(*fresh(X, X))


@pytest.mark.parametrize("situation", [
    lambda run: torch.func.vmap(run)(*fresh(X, X)),
    lambda run: torch.func.grad(lambda x: run(x, X).sum())(X),
    lambda run: torch.func.jvp(lambda x: run(x, X), (X,), (X,))[1],
    _forward_mode, _complex, _autocast, _function_mode,
    lambda run: run(X.as_subclass(_Subclass).requires_grad_(), X),
    lambda run: run(X, X),
], ids="vmap grad jvp forward complex autocast mode subclass none".split())  # fmt: skip
def test_the_operators_run_one_by_one_where_something_has_to_see_them(situation):
    ours, theirs = both(TANH_MUL)
    found, wanted = situation(ours), situation(theirs)
    assert not is_one_node(found) and type(found) is type(wanted) and found.requires_grad == wanted.requires_grad
    torch.testing.assert_close(found, wanted)


def test_nothing_is_recorded_without_grad_mode():
    run, _ = both(TANH_MUL)
    with torch.no_grad():
        assert not run(*fresh(X, X)).requires_grad
    with torch.inference_mode():
        assert run(*fresh(X, X)).is_inference()


def test_numbers_that_make_complex_tensors():
    text = """graph(%x : Tensor, %n : Scalar):
      %a : Tensor = aten::mul(%x, %n)
      %b : Tensor = aten::sin(%a)
      return (%b)"""
    run, plain = both(text)
    for number in (2, 0.5, 1j):
        results = []
        for f in (run, plain):
            (x,) = fresh(X)
            result = f(x, number)
            assert is_one_node(result) is (f is run and number != 1j)
            results.append(torch.autograd.grad(result.abs().sum(), x))
        assert_same(*results)


@pytest.mark.parametrize("dtypes", [
    (torch.float32, torch.float64), (torch.float64, torch.float16), (torch.bfloat16, torch.float16),
    (torch.float64, torch.int64), (torch.bool, torch.float32),
], ids=str)  # fmt: skip
def test_gradients_have_the_dtype_of_their_tensor(dtypes):
    text = """graph(%x : Tensor, %y : Tensor):
      %one : int = prim::Constant[value=1]()
      %a : Tensor = aten::mul(%x, %x)
      %b : Tensor = aten::add(%a, %y, %one)
      %c : Tensor = aten::mul(%b, %a)
      return (%c)"""
    found = [gradients_of(run, leaves([X.to(d) for d in dtypes]))[1] for run in both(text)]
    assert_same(*found)
    assert [g.dtype for g in found[0]] == [d for d in dtypes if d.is_floating_point]


@pytest.mark.parametrize(
    "sizes", [((2, 3), (0, 2, 3)), ((1,), (2, 0)), ((), (3,)), ((), ()), ((2, 1), (1, 4))], ids=str
)
def test_broadcasting(sizes):
    tensors = [torch.rand(size, dtype=torch.float64) for size in sizes]
    assert_same(*[gradients_of(run, leaves(tensors))[1] for run in both(TANH_MUL)])


def test_what_is_not_differentiated_is_named():
    for text, kind in (
        ("graph(%x : Tensor):\n  %a : Tensor = aten::lu_solve(%x, %x, %x)\n  return (%a)", "aten::lu_solve"),
        ("graph(%x : Tensor[]):\n  %d : int = prim::Constant[value=0]()\n"
         "  %a : Tensor = aten::cat(%x, %d)\n  return (%a)", "aten::cat"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"differentiation of {kind} is not supported"):
            differentiate(parse(text))


def test_the_graph_that_is_differentiated_stays():
    graph = parse(TANH_MUL)
    before = str(graph)
    differentiate(graph)
    assert str(graph) == before


def test_of_a_kept_tensor_the_size_is_not_kept():
    text = """graph(%x : Tensor, %y : Tensor):
      %a : Tensor = aten::mul(%x, %y)
      return (%a)"""
    gradient = differentiate(parse(text))
    kept = [gradient.f.outputs[i].node.kind for i in gradient.df_input_captured_outputs]
    assert gradient.df_input_captured_inputs == [0, 1] and "aten::size" not in kept
    text = text.replace("aten::mul(%x, %y)", "aten::matmul(%x, %y)")
    assert str(differentiate(parse(text)).df).count("aten::size") == 2


def test_the_text_of_a_gradient():
    typed = "Float(3, strides=[1], device=cpu)"
    text = """graph(%x : T, %y : T):
      %a : T = aten::mul(%x, %y)
      %b : T = aten::tanh(%a)
      return (%b)"""
    gradient = differentiate(parse(text.replace(": T", f": {typed}")))
    expected = """graph(%dy : Tensor, %x : T, %y : T, %b : T):
      %da : Tensor = prim::GradOf[name="aten::tanh"](%dy)
        block0():
          %1 : Tensor = aten::tanh_backward(%dy, %b)
          -> (%1)
      %dx1 : Tensor, %dy1 : Tensor = prim::GradOf[name="aten::mul"](%da)
        block0():
          %2 : Tensor = aten::mul(%da, %y)
          %3 : Tensor = aten::mul(%da, %x)
          -> (%2, %3)
      %r : (Tensor, Tensor) = prim::TupleConstruct(%dx1, %dy1)
      return (%r)"""
    expected = parse(expected.replace(": T,", f": {typed},").replace(": T)", f": {typed})"))
    registry.run(expected, "canonicalize")
    registry.run(gradient.df, "canonicalize")
    assert str(gradient.df) == str(expected)
    assert (gradient.f_real_outputs, gradient.df_input_vjps, gradient.df_output_vjps) == (1, [0], [0, 1])
    assert (gradient.df_input_captured_inputs, gradient.df_input_captured_outputs) == ([0, 1], [0])


BRANCH = """graph(%c : bool, %x : T, %w : T):
  %y : T = prim::If(%c)
    block0():
      %a : T = aten::tanh(%x)
      %b : T = aten::mul(%a, %w)
      -> (%b)
    block1():
      %d : T = aten::neg(%x)
      -> (%d)
  return (%y)"""


def test_the_text_of_the_gradient_of_a_branch():
    """The branch keeps what its block computes, and tells what results depend on; the other takes the same block."""
    typed = "Float(3, strides=[1], device=cpu)"
    gradient = differentiate(parse(BRANCH.replace(": T", f": {typed}")))
    usual = usual_gradients(gradient)
    for graph in (gradient.f, usual):
        registry.run(graph, ("peephole", "cse", "dce", "canonicalize"))
    assert (
        str(gradient.f).replace(typed, "T")
        == """graph(%0 : bool,
      %1 : T,
      %2 : T):
  %3 : int = prim::Constant[value=3]()
  %4 : int[] = prim::ListConstruct(%3)
  %5 : T, %6 : Float(*, device=cpu), %7 : int, %8 : int = prim::If(%0)
    block0():
      %9 : T = aten::tanh(%1)
      %10 : T = aten::mul(%9, %2)
      %11 : int = prim::Constant[value=0]()
      %12 : T = aten::contiguous(%9, %11)
      %13 : int = prim::Constant[value=1]()
      -> (%10, %12, %3, %13)
    block1():
      %14 : T = aten::neg(%1)
      %15 : int[] = prim::Constant[value=[0]]()
      %16 : int = prim::Constant[value=6]()
      %17 : NoneType = prim::Constant()
      %18 : Float(*, device=cpu) = aten::zeros(%15, %16, %17, %17, %17)
      %19 : int = prim::Constant[value=1]()
      %20 : int = prim::Constant[value=0]()
      -> (%14, %18, %19, %20)
  return (%5, %4, %6, %7, %8)
"""
    )
    assert gradient.f_output_reach == {0: 3, 2: 4} and gradient.reach_inputs == [1, 2]
    assert (
        str(usual).replace(typed, "T").replace("Float(device=cpu)", "G")
        == """graph(%0 : Tensor,
      %1 : Tensor,
      %2 : bool,
      %3 : T,
      %4 : int[],
      %5 : Float(*, device=cpu)):
  %6 : int = prim::Constant[value=6]()
  %7 : G, %8 : G = prim::If(%2)
    block0():
      %9 : Tensor = aten::mul(%0, %3)
      %10 : Tensor = aten::mul(%0, %5)
      %11 : Tensor = aten::tanh_backward(%9, %5)
      %12 : int = prim::Constant[value=0]()
      %13 : Tensor = aten::contiguous(%10, %12)
      %14 : Tensor = aten::contiguous(%11, %12)
      -> (%13, %14)
    block1():
      %15 : Tensor = aten::neg(%0)
      %16 : NoneType = prim::Constant()
      %17 : G = aten::new_zeros(%0, %4, %6, %16, %16, %16)
      %18 : int = prim::Constant[value=0]()
      %19 : Tensor = aten::contiguous(%15, %18)
      -> (%17, %19)
  %20 : (G, G) = prim::TupleConstruct(%8, %7)
  return (%20)
"""
    )


def test_what_only_the_other_block_of_a_branch_reads_is_told():
    """The weight is read in one block only; to write it where the other one is taken is no error."""
    gradient = differentiate(parse(BRANCH.replace(": T", ": Float(3, strides=[1], device=cpu)")))
    condition = gradient.df_input_captured_inputs.index(0)
    weight = gradient.df_input_captured_inputs.index(2)
    assert gradient.df_capture_blocks[weight] == (((condition, True),),)
    assert gradient.df_capture_blocks[condition] == ((),)


def test_the_usual_gradients_ask_no_questions():
    gradient = differentiate(parse(TANH_MUL))
    assert len(gradient.df_input_vjps) == 2, "the result, and the tanh that is kept"
    usual = usual_gradients(gradient)
    kinds = {node.kind for node in usual.all_nodes()}
    assert not kinds & {"prim::If", "prim::GradOf", "prim::AutogradZero", "prim::AutogradAnyNonZero"}
    assert len(usual.inputs) == len(gradient.df.inputs) and "prim::GradOf" in str(gradient.df)


# -- groups in programs


def check_program(seed: int) -> int:
    """Hold one random program to what autograd does; gives the number of its groups."""
    graph, arguments = program(seed)
    options = {"errors_may_swap": seed % 2 == 0, "threshold": 1 if seed % 3 == 0 else 2}
    grouped, count = with_groups(graph, **options)
    ours, theirs = outcome(runner(grouped), arguments), outcome(runner(graph), arguments)
    assert same(ours, theirs), f"program {seed}\n{graph}\n{grouped}\n{ours}\n{theirs}"
    return count


def test_random_programs_have_the_gradients_of_autograd():
    assert sum(check_program(seed) for seed in range(60)) > 60


@pytest.mark.slow
def test_more_random_programs():
    assert sum(check_program(seed) for seed in range(60, 1060)) > 1000


FAULTS = {
    "a gradient is not summed to the size of its tensor": (
        formula.Formula, "summed", lambda self, grad, of, result=None: grad),
    "gradients of kept values are dropped": (
        autodiff.Differentiation, "add_late", lambda self, grad: self.df.add_input()),
    "a formula is wrong": (formula, "_rules", {**formula._rules, "aten::mul.Tensor": formula._rules["aten::maximum"]}),
    "a view leaves its group": (create_autodiff, "_is_new", lambda value: True),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_random_programs_find(name, monkeypatch):
    monkeypatch.setattr(*FAULTS[name])
    with pytest.raises((AssertionError, RuntimeError)):
        for seed in (*range(60), *range(90, 110)):
            check_program(seed)


def test_small_groups_are_put_back():
    graph = parse(TANH_MUL)
    before = str(graph)
    (group,) = create_autodiff.create_autodiff_subgraphs(graph)
    assert not create_autodiff.inline_autodiff_subgraphs(graph, 3) and group.kind in str(graph)
    assert create_autodiff.inline_autodiff_subgraphs(graph)
    registry.run(graph, "canonicalize")
    assert group.kind not in str(graph) and str(graph).count("aten::") == before.count("aten::")
    assert same(runner(graph)(X, X), runner(parse(before))(X, X))


def test_long_programs_take_seconds():
    steps = [f"  %v{i + 1} : Tensor = aten::{'tanh' if i % 2 else 'neg'}(%v{i})" for i in range(2000)]
    graph = parse("\n".join(["graph(%v0 : Tensor):", *steps, "  return (%v2000)"]))
    start = time.perf_counter()
    (group,) = create_autodiff.create_autodiff_subgraphs(graph)
    differentiate(group.attributes["Subgraph"])
    assert time.perf_counter() - start < 20
