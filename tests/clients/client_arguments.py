"""Arguments for functions that nobody described: what parameters are called and annotated with suggests some.

A function is called in eager Python with one combination after another, until one is accepted.
"""

# ruff: noqa: E501 - a case a line reads better

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterable, Iterator

import torch

IMAGE, POINTS, BATCH, MATRICES = (1, 3, 16, 16), (1, 12, 2), (2, 4), (2, 3, 3)
_SHAPES = (
    IMAGE, BATCH, MATRICES, (2, 3), (2, 4, 3), (1, 1, 16, 16), POINTS, (4,), (2, 3, 8), (1, 3, 4, 8, 8), (1, 2, 3), (2, 3, 4),
    (5, 4), (1, 400), (1, 16, 16), (4, 4), (2, 16, 16, 3), (1, 3, 3), (1, 2), (1,), (),
)  # fmt: skip
_MOST_COMBINATIONS = 160
"""So many are tried: what takes none of them takes something of its own."""

Choices = list[object]


def _edges() -> torch.Tensor:
    return torch.tensor([[0, 1, 2, 3, 4, 0, 2], [1, 2, 3, 4, 0, 2, 1]])


def _numbers(*shape: int, end: int = 2) -> torch.Tensor:
    count = torch.Size(shape).numel()
    return (torch.arange(count) % end).reshape(shape)


def _tensors() -> Choices:
    floats: Choices = [torch.rand(shape) for shape in _SHAPES]
    return [*floats, _numbers(2), _numbers(2, 3), _numbers(1, 16, 16), _numbers(5)]


_BY_NAME: tuple[tuple[str, Choices], ...] = (
    (r"edge_index", [_edges()]),
    (r"(batch|index|ptr|target|labels?|lengths?|indices)$", [
        _numbers(2), _numbers(2, 3), torch.rand(IMAGE), torch.rand(BATCH), _numbers(1, 16, 16), _numbers(5), _numbers(4),
        torch.rand(2, 3), _numbers(1, 1, 16, 16),
    ]),
    (r"(mode|reduction|interpolation)$", ["bilinear", "mean", "reflect"]),
    (r"(kernel_size|window_size|ksize)$", [3, (3, 3)]),
    (r"(sigma|std)", [(1.5, 1.5), 1.5, torch.rand(1, 2)]),
    (r"(p|dropout|prob|momentum|alpha|eps)$", [0.5]),
    (r"(size|output_size|shape|dsize|out_size)$", [(8, 8), 8, (1, 3, 8, 8), [8, 8]]),
)  # fmt: skip
_BY_ANNOTATION: tuple[tuple[str, Choices], ...] = (
    (r"(list|sequence|iterable|tuple)\[(torch\.)?tensor", [[torch.rand(2, 3), torch.rand(2, 3)], [torch.rand(IMAGE)]]),
    (r"\bstr\b", ["mean", "same", "relu"]),
    (r"\bbool\b", [True]),
    (r"tensor", []),
    (r"(tuple|list|sequence|size_2|size_any|size_1|size_3)", [(3, 3), 3, [3], (3,), (3, 3, 3), (0.5, 0.5)]),
    (r"\bint\b", [3, 4, 1, 2, 8, 400]),
    (r"float", [0.5, 2.0]),
)  # fmt: skip
_TENSOR = re.compile(
    r"^(x|y|a|input\d?|inputs|img\d?|image\d?|images|tensor|src|tgt|query|key|value|weight|pred|.*points.*|waveform)$"
)


_EXACTLY: tuple[tuple[str, Choices], ...] = (
    (r"^(typing\.)?(list|sequence)\[int\]$", [[3, 3], [3], [8, 8, 8]]),
    (r"^(typing\.)?(list|sequence)\[float\]$", [[0.5, 0.5, 0.5], [0.5, 0.5]]),
    (r"^(typing\.)?tuple\[int, int\]$", [(8, 8), (3, 3)]),
    (r"^(<class '|)int('>|)$", [3, 4, 1, 2, 8, 400]),
)
"""What annotations say that leave nothing open."""


def _choices(parameter: inspect.Parameter) -> Choices:
    annotation = parameter.annotation
    told = "" if annotation is inspect.Parameter.empty else str(getattr(annotation, "__name__", "") or annotation)
    text = str(annotation) if "[" in str(annotation) else told
    for pattern, choices in _EXACTLY:
        if re.search(pattern, text.lower()):
            return list(choices)
    for pattern, choices in _BY_NAME:
        if re.search(pattern, parameter.name):
            return list(choices)
    for pattern, choices in _BY_ANNOTATION:
        if re.search(pattern, text.lower()):
            return list(choices) or _tensors()
    if _TENSOR.match(parameter.name):
        return _tensors()
    return [3, 4, 0.5, *_tensors()[:8]]


def required_parameters(function: object) -> list[inspect.Parameter] | None:
    """The parameters that have to be given, None where nobody can tell."""
    try:
        found = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p for p in found if p.default is inspect.Parameter.empty and p.kind in by_position]
    return (
        needed if all(p.kind is not inspect.Parameter.KEYWORD_ONLY or p.default is not p.empty for p in found) else None
    )


def combinations(
    parameters: Iterable[inspect.Parameter], most: int = _MOST_COMBINATIONS
) -> Iterator[tuple[object, ...]]:
    """Arguments for the parameters: first those in which each takes its choice of one number, then others."""
    choices = [_choices(p) for p in parameters]
    if not choices:
        yield ()
        return
    longest = max(map(len, choices))
    alike = [tuple(min(n, len(c) - 1) for c in choices) for n in range(longest)]
    by_sum = sorted(itertools.islice(itertools.product(*(range(len(c)) for c in choices)), 20_000), key=sum)
    for position in itertools.islice(dict.fromkeys([*alike, *by_sum]), most):
        yield tuple(c[n] for c, n in zip(choices, position, strict=True))
