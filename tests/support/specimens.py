"""Graphs to run passes on, generated and real, each with a way to see all that a run of it does.

Generated: programs of `strategies.py` (lists, dicts, strings, exceptions, prints) and graphs of `gradient_programs.py`
(gradients, and gradients of those). Real: the models of `examples/models` and each of their parts that is different
from the others, and the modules of torch's own module database, with all calls inlined.

Each is given as a function that makes it, so that those who take a few of them do not wait for the others; None where
there is nothing to make, for the module is not TorchScript or not called as TorchScript calls.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import io
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from gradient_programs import program as gradient_program
from gradients import outcome as gradient_outcome
from gradients import same
from strategies import THEMES, compile_source, random_program

import jitlite
from jitlite.base.source import CompileError
from jitlite.debug.equality import difference
from jitlite.debug.outcome import copied, observe, sharing
from jitlite.ir.graph import Graph
from jitlite.passes import registry

MODELS = Path(__file__).parents[2] / "examples" / "models"

Run = Callable[..., Any]


@dataclass
class Specimen:
    """A graph that can be run.

    Attributes:
        name: where it comes from.
        graph: the graph; it is not changed.
        look: what a way to run the graph does: results, exceptions, what is written and printed, gradients.
        difference: None where two such looks are alike, else a sentence; the third argument says whether numbers have
            to be the same to the last bit.
    """

    name: str
    graph: Graph
    look: Callable[[Run], Any]
    difference: Callable[[Any, Any, bool], str | None]


Maker = Callable[[], "Specimen | None"]

# -- generated


def programs(count: int) -> list[Maker]:
    """So many random programs of each theme."""
    return [partial(_program, number, theme) for number in range(count) for theme in THEMES]


def _program(number: int, theme: str) -> Specimen:
    made = random_program(number, theme)
    function = compile_source(made.source)["f"]

    def look(run: Run) -> Any:
        return [observe(run, arguments).told for arguments in made.inputs]

    return Specimen(f"{theme} {number}", jitlite.script(function).graph, look, _difference)


def _difference(expected: Any, got: Any, exact: bool) -> str | None:
    if not exact:  # numbers that are printed may be rounded otherwise
        expected, got = ([(*told[:3], "", told[4]) for told in all_told] for all_told in (expected, got))
    return difference(expected, got, "outcome")


def gradient_programs(count: int) -> list[Maker]:
    """So many random graphs with inputs that require gradients."""
    return [partial(_gradient_program, number) for number in range(count)]


def _gradient_program(number: int) -> Specimen:
    graph, arguments = gradient_program(number)
    return Specimen(f"gradients {number}", graph, lambda run: gradient_outcome(run, arguments), _far_apart)


def _far_apart(expected: Any, got: Any, exact: bool) -> str | None:
    # the order in which contributions to a gradient are added is autograd's, and differs with what was merged
    return None if same(got, expected, 1e-2) else f"{got}, expected {expected}"


# -- real


class _Module:
    """A scripted module and a call of one of its methods, which can be run again and again."""

    def __init__(self, module: Any, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        function = getattr(module, method)
        self.graph = function.graph.copy()
        registry.run(self.graph, "inline,constant_pooling,dce")
        self.bound = function._bind(args, kwargs)
        self.tensors = dict(sorted({**dict(module.named_parameters()), **dict(module.named_buffers())}.items()))
        self.before = {name: t.detach().clone() for name, t in self.tensors.items()}

    def look(self, run: Run) -> Any:
        """Result or exception, text, arguments and tensors of the module afterwards, what is shared, gradients."""
        with torch.no_grad():
            for name, tensor in self.tensors.items():
                tensor.copy_(self.before[name])
        arguments = [self.bound[0], *copied(self.bound[1:])]
        torch.manual_seed(3)
        result, raised, printed = None, "", io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                result = run(*arguments)
            except Exception as error:
                raised = type(error).__name__
            gradients = self.gradients([result, arguments[1:]], [arguments[1:], *self.tensors.values()])
        pattern = sharing([result, arguments[1:], list(self.tensors.values())])
        after = {name: t.detach().clone() for name, t in self.tensors.items()}
        return _bare(result), raised, printed.getvalue(), arguments[1:], pattern, after, gradients

    @staticmethod
    def gradients(results: Any, inputs: Any) -> Any:
        targets = [t for t in dict.fromkeys(_tensors(results)) if t.requires_grad and t.grad_fn is not None]
        wanted = [t for t in dict.fromkeys(_tensors(inputs)) if t.requires_grad and t.is_leaf]
        if not targets or not wanted:
            return None
        weights = [torch.linspace(0.5, 1.5, max(t.numel(), 1))[: t.numel()].reshape(t.shape).to(t) for t in targets]
        try:
            return torch.autograd.grad(targets, wanted, weights, allow_unused=True)
        except RuntimeError as error:
            return str(error).partition(":")[0]


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(part)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _bare(value: Any) -> Any:
    """Without the names of named tuples: graphs without types of classes give tuples."""
    if isinstance(value, tuple | list):
        return type(value)(map(_bare, value)) if type(value) in (tuple, list) else tuple(map(_bare, value))
    return {k: _bare(v) for k, v in value.items()} if isinstance(value, dict) else value


def _alike(expected: Any, got: Any, exact: bool) -> str | None:
    if exact:
        if same(got[-1], expected[-1], 1e-3):
            return difference(expected[:-1], got[:-1])
        return f"gradients: {got[-1]}, expected {expected[-1]}"
    if expected[1] != got[1] or expected[4] != got[4]:
        return f"{got[1]}, sharing {got[4]}; expected {expected[1]}, {expected[4]}"
    lists = [[*_tensors([told[0], told[3], told[5], told[6]])] for told in (expected, got)]
    return None if same(lists[1], lists[0], 1e-3) else f"{lists[1]}, expected {lists[0]}"


def _of_module(
    name: str, module: Any, training: bool, args: Any, kwargs: Any, method: str = "forward"
) -> Specimen | None:
    try:
        call = _Module(jitlite.script(copy.deepcopy(module)).train(training), method, args, kwargs)
    except (CompileError, RuntimeError, AttributeError):
        return None
    return Specimen(name, call.graph, call.look, _alike)


def model_parts() -> Iterator[Maker]:
    """The methods of the example models, and the forward methods of their parts, each kind once."""
    if str(MODELS) not in sys.path:
        sys.path.insert(0, str(MODELS))
    seen: set[str] = set()
    for path in sorted(MODELS.glob("*.py")):
        if path.stem == "training":
            continue
        example = importlib.import_module(path.stem)
        torch.manual_seed(0)
        model, batch = example.build(), example.batches(1)[0]
        whole = batch if path.stem == "transformer" else (batch,) if path.stem == "language_model" else batch[:1]
        calls = [("", model, tuple(whole), {}), *_calls_of_parts(model, whole)]
        for training in (True, False):
            for part, module, args, kwargs in calls:
                kind = f"{training} {type(module)} {module}"
                if kind not in seen:
                    seen.add(kind)
                    yield partial(_of_module, f"{path.stem} {part}", module, training, args, kwargs)
        generating = {"language_model": (3, 6), "transformer": tuple(whole)[:1]}
        if path.stem in generating:
            given = generating[path.stem]
            yield partial(_of_module, f"{path.stem} generate", model, False, given, {}, "generate")


def _calls_of_parts(model: Any, whole: Any) -> list[tuple[str, Any, Any, Any]]:
    """The submodules that a call of the model calls, with the arguments of the first call."""
    calls: dict[str, tuple[str, Any, Any, Any]] = {}

    def record(name: str) -> Callable[..., None]:
        def hook(module: Any, args: Any, kwargs: Any) -> None:
            calls.setdefault(name, (name, module, copied(args), copied(kwargs)))

        return hook

    handles = [
        module.register_forward_pre_hook(record(name), with_kwargs=True)
        for name, module in model.named_modules()
        if name
    ]
    model.eval()(*whole)
    for handle in handles:
        handle.remove()
    return list(calls.values())


def torch_modules() -> Iterator[Maker]:
    """The modules of torch's module database, with two calls in each mode."""
    sweep = importlib.import_module("oracle.modules_sweep")  # its import takes seconds
    for info in sweep.module_db:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for case in sweep.cases(info, 2):
                name = f"{info.name} {case.text}"
                yield partial(_of_module, name, case.module, case.module.training, case.args, case.kwargs)


def all_specimens() -> Iterator[Maker]:
    """More than six hundred."""
    yield from programs(50)
    yield from gradient_programs(100)
    yield from model_parts()
    yield from torch_modules()
