"""Who looks on while graphs of torch.compile run: operators that are printed, lowerings that are checked."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import torch
from torch.utils import _pytree as pytree

from jitlite.base.source import SourceRange
from jitlite.frontend.from_fx.fx_values import name_of
from jitlite.ir import types as T
from jitlite.ir.graph import Graph

# -- print


def print_operators(graph: Graph, kind: str) -> None:
    """Have each operator of the graph print a line when it has run: the place, the operator, what it gave.

    Args:
        kind: what the graph is for, said at the start of each line.
    """
    for node in list(graph.all_nodes()):
        if node.kind.startswith("prim::") and node.kind != "prim::PythonOp":
            continue  # constants, what puts lists together, control flow
        where = f"{node.range.location()}: " if node.range is not None else ""
        name = str(node.attributes["name"]) if node.kind == "prim::PythonOp" else node.kind
        told = graph.create("prim::PythonOp", node.outputs, [T.NONE])
        told.attributes["name"] = "print"
        told.attributes["callable"] = functools.partial(_print, f"{kind}: {where}{name}")
        told.range = node.range
        told.insert_after(node)


def _print(text: str, *results: object) -> None:
    print(text, "->", ", ".join(map(_shown, results)) or "nothing", flush=True)


def _shown(result: object) -> str:
    """A tensor by its dtype and sizes, all else as Python shows it."""
    if isinstance(result, torch.Tensor):
        return f"{str(result.dtype).removeprefix('torch.')}{list(result.shape)}"
    if isinstance(result, list | tuple):
        return f"[{', '.join(map(_shown, result))}]"
    return repr(result)


# -- check


class LoweringError(RuntimeError):
    """A lowering does not do what the operator does that it stands for."""


def checked(
    tolerance: float, target: object, lowering: Callable[..., object], place: SourceRange | None
) -> Callable[..., object]:
    """The lowering of an operator that runs beside the operator, on copies of its arguments.

    It raises a LoweringError where results, or arguments that were written, differ: in structure, dtype, size, or by
    more than the tolerance, relatively or absolutely. Of random draws the values may differ.
    """
    is_random = torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())
    where = "" if place is None else f"{place.location()}: "

    @functools.wraps(lowering)
    def call(*args: object, **kwargs: object) -> object:
        copies = pytree.tree_map_only(torch.Tensor, _copy, (args, kwargs))
        with torch.random.fork_rng(devices=[]):
            expected = _called(target, *copies)
        given = lowering(*args, **kwargs)
        why = _difference("the result", expected, given, None if is_random else tolerance)
        why = why or _difference("what it has written", copies, (args, kwargs), tolerance)
        if why is not None:
            raise LoweringError(f"{where}the lowering of {name_of(target)} differs from the operator: {why}")
        return given

    return call


def _called(target: object, args: Sequence[object], kwargs: dict[str, object]) -> object:
    assert callable(target)
    return target(*args, **kwargs)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides."""
    return tensor.detach().clone()


def _difference(what: str, expected: object, given: object, tolerance: float | None) -> str | None:
    """Where two values differ first; None where they do not. Without a tolerance, values of tensors may differ."""
    ours, structure = pytree.tree_flatten_with_path(given)
    theirs, wanted = pytree.tree_flatten_with_path(expected)
    if len(ours) != len(theirs):
        return f"{what} has {len(ours)} parts ({structure}), expected {len(theirs)} ({wanted})"
    found = (
        _of_leaf(f"{what}{pytree.keystr(path)}", one, other, tolerance)
        for (path, one), (_, other) in zip(theirs, ours, strict=True)
    )
    return next((sentence for sentence in found if sentence is not None), None)


def _of_leaf(what: str, expected: object, given: object, tolerance: float | None) -> str | None:
    if not (isinstance(expected, torch.Tensor) and isinstance(given, torch.Tensor)):
        is_same = type(expected) is type(given) and (expected == given or expected != expected)
        return None if is_same else f"{what} is {_shown(given)}, expected {_shown(expected)}"
    if (expected.dtype, expected.shape, expected.device) != (given.dtype, given.shape, given.device):
        return f"{what} is {_shown(given)} on {given.device}, expected {_shown(expected)} on {expected.device}"
    return None if tolerance is None else _of_values(what, expected, given, tolerance)


def _of_values(what: str, expected: torch.Tensor, given: torch.Tensor, tolerance: float) -> str | None:
    try:
        torch.testing.assert_close(given, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    except AssertionError as error:
        return f"{what}: {' '.join(_sentences(str(error)))}"
    return None


def _sentences(message: str) -> Iterator[str]:
    """What torch says of two tensors, on one line."""
    return (line.strip() for line in message.splitlines() if line.strip())
