"""The modules of torch's own module database, scripted: eager, torch.jit and jitlite run copies of the same module.

    python tests/oracle/modules_sweep.py [--module NAME] [--most N]

prints a table: for every module, how many runs of its inputs torch.jit handles (compiles, runs, agrees with eager), how
many of them jitlite gives as eager does, and the first one where it does not. A run counts with its results, the
gradients of inputs and parameters, and the buffers it leaves.
"""

from __future__ import annotations

import argparse
import copy
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch.testing._internal.common_modules import module_db

import jitlite
from jitlite.debug.equality import difference


@dataclass
class Case:
    """One module to build and one call of it."""

    text: str
    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def cases(info: Any, most: int | None = None) -> Iterator[Case]:
    """The modules that an entry of the database describes with the arguments to call them with, in each mode."""
    for training in (True, False) if info.train_and_eval_differ else (True,):
        torch.manual_seed(0)
        inputs = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=training)
        for given in islice((i for i in inputs if i.forward_input is not None), most):
            torch.manual_seed(1)
            built, forward = given.constructor_input, given.forward_input
            module = info.module_cls(*built.args, **built.kwargs).train(training)
            if info.is_lazy:
                module(*forward.args, **forward.kwargs)
            arguments = ", ".join([*map(str, built.args), *(f"{k}={v}" for k, v in built.kwargs.items())])
            text = f"{'training' if training else 'eval'}({' '.join(arguments.split())[:80]})"
            yield Case(text, module, forward.args, forward.kwargs)


def run(script: Callable[[Any], Any], case: Case) -> Any:
    """What one call of a copy of the module gives, with gradients and buffers; an exception is a result too."""
    module = copy.deepcopy(case.module)
    args, kwargs = _copy(case.args), _copy(case.kwargs)
    torch.manual_seed(2)
    try:
        scripted = script(module)
        result = scripted(*args, **kwargs)
    except Exception as error:
        return error
    leaves = [*module.parameters(), *(t for t in tensors_of([args, kwargs]) if t.requires_grad and t.is_leaf)]
    outputs = [t for t in tensors_of(result) if t.requires_grad]
    gradients: tuple[Any, ...] = ()
    if outputs and leaves:
        seeds = [torch.linspace(0.5, 1.5, max(t.numel(), 1))[: t.numel()].reshape(t.shape) for t in outputs]
        gradients = torch.autograd.grad(outputs, leaves, seeds, allow_unused=True)
    return result, gradients, dict(scripted.named_buffers())


def _copy(value: Any) -> Any:
    """Arguments that no other run sees, their tensors leaves."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if type(value) in (list, tuple):
        return type(value)(map(_copy, value))
    if isinstance(value, dict):
        return {k: _copy(v) for k, v in value.items()}
    return copy.deepcopy(value)


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in lists, tuples and dicts."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors_of(part)
    elif isinstance(value, dict):
        yield from tensors_of(list(value.values()))


def is_handled(expected: Any, theirs: Any) -> bool:
    """Does torch.jit give what eager gives? Classes of tuples, which it does not keep, do not count."""
    if isinstance(theirs, Exception):
        return False
    return difference(_plain(expected), _plain(theirs)) is None


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_plain(v) for v in value)
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return value


@dataclass
class Row:
    """What came of one module's cases."""

    name: str
    runs: int = 0
    """Cases that eager runs."""
    handled: int = 0
    """Those that torch.jit gives as eager does."""
    passed: int = 0
    """Those that jitlite gives as eager does."""
    failures: list[str] = field(default_factory=list)
    """Where jitlite differs from eager and torch.jit does not."""
    missed: list[str] = field(default_factory=list)
    """Where both differ."""

    def add(self, other: Row) -> None:
        self.runs += other.runs
        self.handled += other.handled
        self.passed += other.passed
        self.failures += other.failures
        self.missed += other.missed


def sweep(
    info: Any, most: int | None = None, script: Callable[[Any], Any] = jitlite.script, with_oracle: bool = True
) -> Row:
    """Run the cases of one module in eager, torch.jit and jitlite, whose compiler is `script`.

    Args:
        most: at most so many cases in each mode; all if None.
        with_oracle: ask torch.jit too; else it counts as handling everything that eager does.
    """
    row = Row(info.name)
    for case in cases(info, most):
        expected = run(lambda module: module, case)
        if isinstance(expected, Exception):
            continue
        row.runs += 1
        reason = difference(expected, run(script, case))
        handled = not with_oracle or is_handled(expected, run(torch.jit.script, case))
        row.handled += handled
        row.passed += reason is None
        if reason is not None:
            (row.failures if handled else row.missed).append(f"{info.name} {case.text}: {' '.join(reason.split())}")
    return row


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--module", help="only modules with this in their name")
    parser.add_argument("--most", type=int, help="at most so many inputs in each mode")
    options = parser.parse_args(arguments)
    total = Row("in all")
    print(f"{'module':42} {'runs':>5} {'torch.jit':>9} {'jitlite':>7}  first failure")
    for info in module_db:
        if options.module is None or options.module in info.name:
            row = sweep(info, options.most)
            total.add(row)
            _print(row)
    _print(total)
    return 1 if total.failures else 0


def _print(row: Row) -> None:
    first: Iterable[str] = [*row.failures, *(f"(torch.jit differs too) {text}" for text in row.missed)][:1]
    print(f"{row.name:42} {row.runs:5} {row.handled:9} {row.passed:7}  {''.join(first)[:240]}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    sys.exit(main())
