"""Removing in-place operations keeps results, shared memory, gradients, and failures of the program or its backward."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from strategies import compile_source

import jitlite
from jitlite.interpreter import bytecode, vm
from jitlite.ir import ops
from jitlite.operators import in_place
from jitlite.passes import registry

PASSES = ("remove_tensor_mutation", "remove_view_mutation", "remove_mutation", "remove_view_mutation,remove_mutation")

FRESH = ["a * b", "a + b", "a.clone()", "torch.zeros(2, 3)", "torch.zeros_like(a)", "torch.sigmoid(a)", "a - 1",
         "torch.tensor([[1, 2, 3], [4, 5, 6]])", "a * 2 + b", "a if c else b + 1", "a + 1 if c else b.clone()",
         "torch.relu(a)", "a > 0"]  # fmt: skip
VIEWS = ["a[1]", "a[:, 1:]", "a.t()", "a[0][1:]", "a.unsqueeze(0)"]
WRITES = ["a.add_(b)", "a.mul_(2)", "a.mul_(b)", "a.add_(1.5)", "a.relu_()", "a.sigmoid_()", "a.zero_()", "a.fill_(3)",
          "a.copy_(b)", "a[0] = b[1]", "a[1:, 1:] += 2", "a[:, 1] *= b[:, 0]", "a[1] = 5", "a.t().mul_(2)", "a += b",
          "a.div_(b)", "a.clamp_(0, 1)", "a.masked_fill_(b > 0, 1.0)", "a[1].add_(b[0])", "torch.neg_(a)",
          "a.add_(torch.ones(4, 2, 3))", "a[0, 1:] = 7", "a.exp_()", "a.pow_(2)", "a.requires_grad_()", "a[1:] = 2",
          "a.mul_(3)", "a.copy_(x)", "a[0] = x[1]", "a.sub_(1)", "a[0] += 1", "a.normal_()"]  # fmt: skip
READS = ["print(a.size())", "l.append(a)", "n += a.dim()", "a.sum()"]


def program(seed: int) -> str:
    """A function that makes tensors, views and writes at random."""
    chance = random.Random(seed)
    lines, names = ["def f(x, y, c: bool):", "    l = [x]", "    n = 0"], ["x", "y"]

    def filled(template: str) -> str:
        first, second = chance.choice(names[2:] or names) if chance.random() < 0.8 else "x", chance.choice(names[:4])
        return "".join({"a": first, "b": second}.get(w, w) for w in split(template))

    for number in range(chance.randint(3, 7)):
        kind = chance.choice(["fresh", "fresh", "view", "write", "write", "write", "write", "read", "branch"])
        if kind in ("fresh", "view"):
            lines.append(f"    v{number} = {filled(chance.choice(FRESH if kind == 'fresh' else VIEWS))}")
            names.append(f"v{number}")
        elif kind == "branch":
            lines += ["    if c:", f"        {filled(chance.choice(WRITES))}"]
        else:
            lines.append("    " + filled(chance.choice(WRITES if kind == "write" else READS)))
    return "\n".join([*lines, f"    return {', '.join(names[-3:])}, l, n", ""])


def split(template: str) -> list[str]:
    """The words of a template and what is between them."""
    words, at = [""], False
    for letter in template:
        if letter.isalnum() or letter == "_":
            words = [*words[:-1], words[-1] + letter] if at else [*words, letter]
            at = True
        else:
            words, at = [*words, letter], False
    return words


def outcome(function: Callable[..., Any], needs_grad: bool, choice: bool) -> list[Any]:
    """What a call gives: values, which of them share memory, gradients, or the type of what it raises."""
    torch.manual_seed(0)
    inputs = [torch.randn(2, 3, requires_grad=needs_grad) for _ in "xy"]
    try:
        result = function(*(t * 1 for t in inputs), choice)
    except Exception as error:
        return [type(error)]
    values = list(flat(result))
    tensors = [v for v in values if isinstance(v, torch.Tensor)]
    told: list[Any] = [v if not isinstance(v, torch.Tensor) else about(v) for v in values]
    told.append([min(i for i, u in enumerate(tensors) if shares(u, t)) for t in tensors])
    total = sum((t * torch.arange(t.numel()).reshape(t.shape)).sum() for t in tensors)
    if isinstance(total, torch.Tensor) and total.requires_grad:
        try:
            gradients = torch.autograd.grad(total, inputs, allow_unused=True)
            told += [None if g is None else (g + 0.0).tolist() for g in gradients]
        except RuntimeError:
            told.append("backward fails")
    return told


def flat(value: Any) -> Any:
    if isinstance(value, tuple | list):
        for part in value:
            yield from flat(part)
    else:
        yield value


def about(t: torch.Tensor) -> Any:
    return str(t.tolist()), t.dtype, t.stride(), t.requires_grad


def shares(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def run_code(code: Any, *arguments: Any) -> Any:
    return vm.run(code, arguments)


def check(source: str) -> list[str]:
    """The passes that changed the program, none of which changed what it does."""
    graph = jitlite.script(compile_source(source)["f"]).graph
    before = bytecode.lower(graph.copy())
    changed = []
    for passes in PASSES:
        copy = graph.copy()
        if not registry.run(copy, passes, registry.PassHook(verify=True)):
            continue
        changed.append(passes)
        after = bytecode.lower(copy)
        for needs_grad in (False, True):
            for choice in (False, True):
                wanted = outcome(partial(run_code, before), needs_grad, choice)
                got = outcome(partial(run_code, after), needs_grad, choice)
                assert str(got) == str(wanted), f"{passes}\n{source}\n{copy}"
    return changed


def test_programs_do_the_same_without_in_place_operations():
    changed = [passes for seed in range(400) for passes in check(program(seed))]
    for passes in PASSES:
        assert changed.count(passes) >= 5, f"{passes} had hardly anything to do"


@pytest.mark.parametrize("name", sorted(in_place.KEEPS | in_place.FLOATS | in_place.PROMOTES))
def test_every_operator_has_a_counterpart(name):
    found = [in_place.counterpart(op) for op in ops.lookup(f"aten::{name}_") if in_place.is_plain_write(op)]
    assert any(found), f"aten::{name}_ has no counterpart"
    for op in found:
        assert op is None or not op.schema.is_mutable


@pytest.mark.parametrize("name", sorted(in_place.KEEPS - in_place.PACKS - {"normal", "bitwise_not", "index_fill"}))
def test_what_is_said_to_keep_the_tensor_s_form_does(name):
    given = {
        "threshold": (0.5, 0.25),
        "fill": (2,),
        "index_put": ([torch.tensor([0])], torch.tensor(1.0)),
        "geometric": (0.5,),
    }
    for dtype in (torch.int64, torch.float32, torch.float64, torch.bfloat16):
        tensor = torch.rand(4, 3).mul(3).to(dtype).t().clone()
        arguments = given.get(name, ())
        if name == "index_put":
            arguments = (arguments[0], arguments[1].to(dtype))
        torch.manual_seed(1)
        written = tried(getattr(torch.ops.aten, name + "_"), tensor.clone(), arguments)
        torch.manual_seed(1)
        made = tried(getattr(torch.ops.aten, name), tensor, arguments)
        if isinstance(written, torch.Tensor) and isinstance(made, torch.Tensor):
            assert about(written) == about(made)
        else:
            assert type(written) is type(made)


def tried(function: Any, tensor: torch.Tensor, arguments: Any) -> Any:
    try:
        return function(tensor, *arguments)
    except Exception as error:
        return error
