"""What becomes of a case: it works, it is refused, or what it does is not what eager Python does."""

from __future__ import annotations

import copy
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from client_cases import Case, cases_of
from public_models import differences, limited, tensors_of

import jitlite
from jitlite.base.source import CompileError

WORKS = "works"
_SECONDS = 90
"""A case gets as long to be compiled and to run."""


@dataclass
class Outcome:
    """What became of a case.

    Attributes:
        kind: `works`, the code of the error that refuses it, or what else went wrong.
        text: the first line of what was said.
    """

    name: str
    kind: str
    text: str = ""


Observed = tuple[list[torch.Tensor], dict[str, torch.Tensor | None]]


def _with_gradients(value: object) -> object:
    """The same arguments; gradients of floating point tensors are asked for."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.is_floating_point())
    if isinstance(value, list | tuple):
        return type(value)(_with_gradients(v) for v in value)
    return copy.deepcopy(value)


def observed(model: Callable[..., object], arguments: tuple[object, ...]) -> Observed:
    """The tensors and numbers that a model gives, and the gradients of its parameters and of its arguments."""
    given = tuple(_with_gradients(a) for a in arguments)
    by_name = {f"argument {n}": t for n, t in enumerate(tensors_of(list(given)))}
    if isinstance(model, torch.nn.Module):
        model.zero_grad()
        by_name.update(model.named_parameters())
    torch.manual_seed(0)
    result = model(*given)
    found = list(tensors_of(result)) or [torch.tensor(n) for n in [result] if isinstance(n, int | float)]
    sums = [(t.abs() if t.is_complex() else t.float()).square().mean() for t in found if t.requires_grad]
    if sums:
        torch.stack(sums).sum().backward()
    return [t.detach() if t.layout is torch.strided else t.detach().to_dense() for t in found], {
        name: t.grad for name, t in by_name.items()
    }


def outcome_of(case: Case) -> Outcome | None:
    """What becomes of a case; None where eager Python itself does not take it with gradients."""
    try:
        with limited(_SECONDS):
            expected = observed(_copied(case.model), case.arguments)
            again = observed(_copied(case.model), case.arguments)
    except Exception:
        return None
    if differences(again, expected):
        return None  # it draws numbers that no seed determines, or keeps something of each call
    try:
        with limited(_SECONDS):
            compiled = jitlite.script(_copied(case.model))
            wrong = [differences(observed(compiled, case.arguments), expected) for _ in range(3)]
    except CompileError as error:
        return Outcome(case.name, error.code or type(error).__name__, _first_line(error))
    except TimeoutError:
        return Outcome(case.name, "too slow")
    except Exception as error:
        return Outcome(case.name, f"raises {type(error).__name__}", _first_line(error))
    return Outcome(case.name, "differs" if any(wrong) else WORKS, next(filter(None, wrong), ""))


def _copied(model: Callable[..., object]) -> Callable[..., object]:
    return copy.deepcopy(model) if isinstance(model, torch.nn.Module) else model


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")


def outcomes_of(package: str, chosen: Callable[[str], bool] = lambda name: True) -> Iterable[Outcome]:
    """What becomes of each case of a package.

    Raises:
        ImportError: it is not installed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases_of(package, chosen):
            found = outcome_of(case)
            if found is not None:
                yield found


def table(package: str, outcomes: list[Outcome]) -> str:
    """How many work, and of what kinds the others are."""
    counts = Counter(o.kind for o in outcomes)
    lines = [f"{package}: {counts.pop(WORKS, 0)} of {len(outcomes)} work"]
    lines += [f"{count:6} {kind}" for kind, count in counts.most_common()]
    return "\n".join(lines)


def main(package: str, *words: str) -> None:
    """Print what becomes of the cases whose names have one of the words, then the table."""
    found = []
    for outcome in outcomes_of(package, lambda name: not words or any(w in name for w in words)):
        found.append(outcome)
        print(f"{outcome.name}: {outcome.kind} {outcome.text}", flush=True)
    print(table(package, found))


if __name__ == "__main__":
    main(*sys.argv[1:])
