"""What a trace has frozen: where two traces of one function differ, for the same inputs or for those of other sizes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from jitlite.base.layouts import dense_parts
from jitlite.base.records import Record
from jitlite.ir.graph import Graph, Node, constant_of
from jitlite.ir.unit import Function
from jitlite.passes.registry import run as run_passes


class TraceFinding(Record, eq=True):
    """Something that is as the example had it, and is not for other inputs.

    Attributes:
        kind: "constant" where a value was frozen, "branch" where other operators are called, "result" where the trace
            gives something else than the function, "error" where it cannot be run.
        operator: the kind of the node, such as `aten::view`.
        place: the line of the user's code.
        text: what differs.
        inputs: what the other inputs were, in words.
    """

    kind: str
    operator: str
    place: str
    text: str
    inputs: str = ""

    def __str__(self) -> str:
        start = f"{self.place}: " if self.place else ""
        end = f" (with {self.inputs})" if self.inputs else ""
        return f"{start}{self.text}{end}"


def inlined(graph: Graph) -> Graph:
    """A copy to compare: calls inlined, values numbered."""
    copy = graph.copy()
    run_passes(copy, "inline,lower_simple_tuples")
    _drop_identities(copy)
    run_passes(copy, "canonicalize")
    return copy


def _drop_identities(graph: Graph) -> None:
    """Take out what tells apart two scripts of one function that are made in two runs, and nothing else: the numbers of
    warnings, which are counted in the whole process, and the functions whose calls have been inlined."""
    for node in list(graph.all_nodes()):
        node.attributes.pop("warn_id", None)
        is_function = node.kind == "prim::Constant" and isinstance(constant_of(node.output, None), Function)
        if is_function and not node.output.has_uses:
            node.destroy()


def first_difference(first: Graph, second: Graph, inputs: str = "") -> TraceFinding | None:
    """The first node in which two graphs, made by `inlined`, differ; None where there is none."""
    for one, other in itertools.zip_longest(first.all_nodes(), second.all_nodes()):
        if one is None or other is None or one.kind != other.kind or len(one.inputs) != len(other.inputs):
            return _branch(one, other, inputs)
        if one.kind == "prim::Constant":
            if not _same_constant(one, other):
                return _constant(one, other, inputs)
        elif [v.id for v in one.inputs] != [v.id for v in other.inputs]:
            return _branch(one, other, inputs)
    return None


def _place(node: Node | None) -> str:
    return "" if node is None or node.range is None else node.range.location()


def _branch(one: Node | None, other: Node | None, inputs: str) -> TraceFinding:
    kinds = [n.kind if n is not None else "nothing" for n in (one, other)]
    text = f"the trace calls {kinds[0]}, and another one {kinds[1]}"
    if kinds[0] == kinds[1]:
        text = f"the trace calls {kinds[0]} with other values than another one"
    elsewhere = _place(other)
    if elsewhere and elsewhere != _place(one):
        text += f" at {elsewhere}"
    return TraceFinding("branch", kinds[0], _place(one) or elsewhere, text, inputs)


def _same_constant(one: Node, other: Node) -> bool:
    values = [constant_of(n.output, None) for n in (one, other)]
    if all(isinstance(v, torch.Tensor) for v in values):
        return values[0] is values[1] or _same_tensors(values[0], values[1])
    if all(isinstance(v, Function) for v in values):  # one that is called and not inlined
        return values[0] is values[1] or values[0].name == values[1].name
    return type(values[0]) is type(values[1]) and bool(values[0] == values[1] or values[0] != values[0])


def _same_tensors(one: torch.Tensor, other: torch.Tensor) -> bool:
    try:
        torch.testing.assert_close(dense_parts(one), dense_parts(other), equal_nan=True)
    except (RuntimeError, AssertionError):
        return False
    return True


def _constant(one: Node, other: Node, inputs: str) -> TraceFinding:
    user = _user(one)
    before, after = (_shown(constant_of(n.output, None)) for n in (one, other))
    text = f"{user.kind if user is not None else 'the result'} has {before} baked in, and it is {after}"
    return TraceFinding("constant", "" if user is None else user.kind, _place(one) or _place(user), text, inputs)


def _user(node: Node) -> Node | None:
    """The operator that a constant is for."""
    users = [use.user for use in node.output.uses]
    while users and users[0].kind in ("prim::ListConstruct", "prim::TupleConstruct"):
        users = [use.user for use in users[0].output.uses]
    return users[0] if users and users[0].kind != "prim::Return" else None


def _shown(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {list(value.shape)}" if value.numel() > 4 else f"tensor({value.tolist()})"
    return repr(value)


# -- inputs of other sizes


def varied(inputs: object) -> Iterator[tuple[str, Any]]:
    """The inputs with other sizes, and what is other in words.

    Dimensions of one size are taken to belong together and are varied together, by having what they hold twice; then
    each dimension of each tensor alone.
    """
    shapes = [(name, t) for name, t in _tensors(inputs)]
    sizes = dict.fromkeys(n for _, t in shapes for n in t.shape if n > 0)
    for size in sizes:
        dims = [(name, d) for name, t in shapes for d, n in enumerate(t.shape) if n == size]
        where = ", ".join(f"{name}.size({d})" for name, d in dims)
        yield f"{where} {2 * size} instead of {size}", _doubled(inputs, set(dims), "")
        for name, d in dims if len(dims) > 1 else ():
            yield f"{name}.size({d}) {2 * size} instead of {size}", _doubled(inputs, {(name, d)}, "")


def _tensors(inputs: object, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(inputs, torch.Tensor):
        yield name, inputs
    elif isinstance(inputs, Mapping):
        for key, value in inputs.items():
            yield from _tensors(value, _inner(name, key))
    elif isinstance(inputs, list | tuple):
        for i, value in enumerate(inputs):
            yield from _tensors(value, _inner(name, i))


def _inner(name: str, key: object) -> str:
    return f"{name}[{key!r}]" if name else f"input {key}" if isinstance(key, int) else str(key)


def _doubled(inputs: object, dims: set[tuple[str, int]], name: str) -> Any:
    if isinstance(inputs, torch.Tensor):
        made = inputs.detach()
        for d in range(inputs.dim()):
            if (name, d) in dims:
                made = torch.cat([made, made], d)
        return made.clone().requires_grad_(inputs.requires_grad)
    if isinstance(inputs, Mapping):
        return {key: _doubled(value, dims, _inner(name, key)) for key, value in inputs.items()}
    if isinstance(inputs, list | tuple):
        parts = [_doubled(value, dims, _inner(name, i)) for i, value in enumerate(inputs)]
        return type(inputs)(*parts) if hasattr(inputs, "_fields") else type(inputs)(parts)
    return inputs


def frozen_by_shapes(
    function: Callable[..., Any],
    traced: Any,
    inputs: object,
    again: Callable[[Any], Any],
    run: Callable[[Callable[..., Any], Any], Sequence[torch.Tensor]],
    same: Callable[[torch.Tensor, torch.Tensor], bool],
) -> list[TraceFinding]:
    """What does not hold for inputs of other sizes, as far as the function takes them.

    Args:
        again: traces the function with other inputs.
        run: calls a function with copies of inputs and gives its tensors.
        same: are two results the same?
    """
    found: dict[tuple[str, str, str], TraceFinding] = {}
    own = inlined(traced.__jitlite_function__.graph)
    for words, others in varied(inputs):
        try:
            expected = run(function, others)
            repeated = again(others)
        except Exception:
            continue  # sizes that the function does not take say nothing
        finding = first_difference(own, inlined(repeated.__jitlite_function__.graph), words)
        if finding is None:
            finding = _wrong_results(traced, others, expected, words, run, same)
        if finding is not None:
            found.setdefault((finding.kind, finding.place, finding.operator), finding)
    return list(found.values())


def _wrong_results(
    traced: Any,
    others: Any,
    expected: Sequence[torch.Tensor],
    words: str,
    run: Callable[[Callable[..., Any], Any], Sequence[torch.Tensor]],
    same: Callable[[torch.Tensor, torch.Tensor], bool],
) -> TraceFinding | None:
    try:
        results = run(traced, others)
    except Exception as error:
        return TraceFinding("error", "", "", f"the trace raises {type(error).__name__}: {error}", words)
    for i, (ours, theirs) in enumerate(zip(results, expected, strict=False)):
        if not same(ours, theirs):
            return TraceFinding("result", "", "", f"result {i + 1} of the trace is not the function's", words)
    return None
