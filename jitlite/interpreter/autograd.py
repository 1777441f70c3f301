"""A differentiable graph as one node of autograd.

`differentiable(forward, backward, gradient)` is a callable that computes what the graph computes. Where autograd has to
record, it runs `f` unrecorded and gives autograd one node in place of one for each operator, whose backward runs `df`.

* Tensors that `df` needs are saved for backward, so autograd's rules hold: to write them in between is an error, the
  second backward without `retain_graph` is one, and hooks on saved tensors see them.
* Kept values that have gradients are outputs of the node, which only the node itself gets to see. When the backward
  pass is recorded (`create_graph`), gradients of gradients flow through them.
* A gradient that is zero everywhere is None, in and out. Outputs that depend on no input that requires a gradient have
  none.

Where that could differ from autograd, the operators are run one by one, recorded or not: grad mode is off, no input
requires a gradient, one requires it that the gradient was not made for, a tensor is complex, sparse or of a subclass,
autocast, forward mode, a transform of `torch.func`, a function mode or a tracer is at work.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from jitlite.base import torch_internals
from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.graph import Graph
from jitlite.ir.regions import Runner
from jitlite.operators.gradient import Gradient

_PLAIN = (torch.Tensor, torch.nn.Parameter)

Without = Callable[[Sequence[bool]], Runner]
"""Gives what runs `df` where only these of `df_input_vjps` have a gradient; it takes zeros for the others."""


def differentiable(
    forward: Runner,
    backward: Runner,
    gradient: Gradient,
    plain: Runner | None = None,
    usual: Runner | None = None,
    without: Without | None = None,
) -> Runner:
    """A function that computes the graph `gradient` was made of, and records one node for autograd.

    Args:
        forward: runs `gradient.f`; gives its output, a tuple for several.
        backward: runs `gradient.df`.
        gradient: what the two are made of.
        plain: runs the graph itself, for calls that record nothing or cannot record it as one node; without it,
            `forward` is run.
        usual: runs `gradient.df` where all results have a gradient and nothing that is kept has one.
        without: what runs it where some results have no gradient, and zeros for them will not do.
    """
    real, total = gradient.f_real_outputs, len(gradient.f.outputs)
    others = [i for i, v in enumerate(gradient.f.inputs) if not isinstance(v.type, T.TensorType)]
    tensors = [i for i, v in enumerate(gradient.f.inputs) if isinstance(v.type, T.TensorType)]
    unexpected = [i for i in tensors if i not in set(gradient.f_differentiated_inputs)]
    reached = {*gradient.df_output_vjps, *gradient.df_input_captured_inputs}
    apart = [i for i in tensors if i not in reached]  # autograd would go on to what made them, with nothing to do there
    apply = _node(forward, backward, usual or backward, gradient, without)

    def run_plain(*inputs: object) -> Any:
        return forward(*inputs)

    if total != real:

        def run_plain(*inputs: object) -> Any:
            outputs = forward(*inputs)
            return outputs[0] if real == 1 else outputs[:real]

    run = plain or run_plain

    def call(*inputs: Any) -> Any:
        if not torch.is_grad_enabled() or not _is_recorded(inputs, tensors):
            return run(*inputs)
        if any(inputs[i].requires_grad for i in unexpected) or not all(_is_real(inputs[i]) for i in others):
            return run(*inputs)
        if is_transformed():
            return run(*inputs)
        if apart:
            given = list(inputs)
            for i in apart:
                given[i] = given[i].detach()
            inputs = tuple(given)
        outputs = apply(*inputs)
        return outputs[0] if real == 1 else outputs[:real]

    return call


def differentiable_on_demand(
    make: Callable[[tuple[bool, ...]], Callable[..., object]], plain: Callable[..., object], graph: Graph
) -> Runner:
    """A function that makes itself differentiable for the inputs that require a gradient, each time they are others.

    So nothing is computed or kept for gradients that nobody wants, as autograd does it.

    Args:
        make: gives what `differentiable` does for those inputs of the graph that are to have gradients.
        plain: runs the graph itself; is used for all further combinations once there are many.
        graph: the graph.
    """
    tensors = [isinstance(v.type, T.TensorType) for v in graph.inputs]
    made: dict[tuple[bool, ...], Runner] = {}

    def call(*inputs: Any) -> Any:
        if not torch.is_grad_enabled():
            return plain(*inputs)
        needs = tuple([tensor and x.requires_grad for tensor, x in zip(tensors, inputs, strict=True)])
        found = made.get(needs)
        if found is None:
            found = made[needs] = make(needs) if any(needs) and len(made) < _COMBINATIONS else plain
        return found(*inputs)

    return call


_COMBINATIONS = 8
"""How many combinations of inputs that require gradients get code of their own."""


def _is_recorded(inputs: Sequence[Any], tensors: Sequence[int]) -> bool:
    """Does a tensor require a gradient, and are all of them plain real ones?"""
    recorded = False
    for i in tensors:
        x = inputs[i]
        if type(x) not in _PLAIN or x.layout is not torch.strided or x.is_complex():
            return False
        recorded = recorded or x.requires_grad
    return recorded


def _is_real(value: object) -> bool:
    """Is the argument something that makes no complex tensor of a real one?"""
    if isinstance(value, torch.dtype):
        return not value.is_complex
    if isinstance(value, list | tuple):
        return all(map(_is_real, value))
    return not isinstance(value, complex)


def is_transformed() -> bool:
    """Is something at work that must see the operators themselves?"""
    return bool(
        torch_internals.functorch_level() is not None
        or torch._C._is_any_autocast_enabled()
        or torch._C._len_torch_function_stack()
        or forward_ad._current_level >= 0
        or torch._C._get_tracing_state() is not None
        or torch.compiler.is_compiling()
    )


class _Way(Record):
    """What a backward pass does for the gradients that there are.

    Attributes:
        fills: does it take zeros for those that are missing?
        run: what gives the gradients; None where there are none.
        places: positions among what the node gives, and of what is there among the gradients.
        present: which of `df_input_vjps` have a gradient.
    """

    fills: bool
    run: Runner | None
    places: Sequence[tuple[int, int]]
    present: tuple[bool, ...]


class Layout:
    """Where things are: computed once for a gradient."""

    def __init__(self, gradient: Gradient) -> None:
        real = gradient.f_real_outputs
        self.inputs, self.targets, self.is_total = len(gradient.f.inputs), gradient.df_output_vjps, gradient.is_total
        self.may_fill = gradient.may_fill
        self.usually = [index < real for index in gradient.df_input_vjps]
        kept = [i for i in gradient.df_input_vjps if i >= real]
        self.returned = [*range(real), *kept]
        """Outputs of f that are outputs of the node."""
        self.vjps = [self.returned.index(i) for i in gradient.df_input_vjps]
        self.sources = [frozenset(gradient.f_output_sources[i]) for i in self.returned]
        known = gradient.f_output_reach
        self.reach = [known[i] for i in self.returned if i in known]
        """The outputs of f that tell what those depend on of which that is not known before."""
        self._reaching = [position for position, i in enumerate(self.returned) if i in known]
        self._reach_inputs = gradient.reach_inputs
        self.has_gradient = [i in set(gradient.df_input_vjps) for i in self.returned]
        self.own = [v for v in self.vjps if v < real]
        """The positions among what is returned of the graph's own outputs that have gradients."""
        self._constant: dict[tuple[tuple[bool, ...], tuple[int, ...]], tuple[int, ...]] = {}
        self._place_captured(gradient)

    def sources_for(self, reached: Sequence[int]) -> list[frozenset[int]]:
        """For each output that is returned, the inputs that it depends on, given what the outputs of `reach` are."""
        found = list(self.sources)
        for i, bits in zip(self._reaching, reached, strict=True):
            found[i] = frozenset(index for n, index in enumerate(self._reach_inputs) if bits >> n & 1)
        return found

    def way(
        self, present: Sequence[bool], reached: Sequence[int], fills: bool, backward: Runner, usual: Runner
    ) -> _Way:
        """What a backward pass does.

        Args:
            present: which results have a gradient.
            reached: what the outputs of `reach` are.
            fills: are gradients of the graph's own results that are missing zeros, unless all are missing?
            backward: runs `df`.
            usual: runs it where all results have a gradient and nothing that is kept has one.
        """
        of = self.sources_for(reached)
        found = frozenset().union(*(sources for sources, p in zip(of, present, strict=True) if p))
        is_filled = fills and any(present) and not all(present[i] for i in self.own)
        given = [present[i] or (is_filled and i in self.own) for i in self.vjps]
        run = None if True not in given else usual if given == self.usually else backward
        pairs = [(i + 1, n) for n, i in enumerate(self.targets) if not self.is_total or i in found]
        return _Way(is_filled, run, pairs, tuple([present[i] for i in self.vjps]))

    def _place_captured(self, gradient: Gradient) -> None:
        f = gradient.f
        captured = [(0, i, f.inputs[i]) for i in gradient.df_input_captured_inputs]
        captured += [(1, i, f.outputs[i]) for i in gradient.df_input_captured_outputs]
        is_tensor = [isinstance(value.type, T.TensorType) for _, _, value in captured]
        is_other = [not tensor for tensor in is_tensor]
        places = [(place, i) for place, i, _ in captured]
        self.saved = list(itertools.compress(places, is_tensor))
        self.users = list(map(frozenset, itertools.compress(gradient.df_capture_users, is_tensor)))
        """For each of what is saved, the positions among the gradients of those it is used with."""
        self.others = list(itertools.compress(places, is_other))
        first, second = iter(range(len(self.saved))), iter(range(len(self.saved), len(captured)))
        self.order = [next(first if tensor else second) for tensor in is_tensor]
        """Positions of what df takes among what is saved followed by what is kept otherwise."""
        self.blocks = list(itertools.compress(gradient.df_capture_blocks, is_tensor))
        """For each of what is saved, see `Gradient.df_capture_blocks`."""

    def is_read(self, position: int, others: Sequence[Any]) -> bool:
        """Is what is saved here read, given what is kept otherwise?"""
        start = len(self.saved)
        return any(all(others[self.order[c] - start] is wanted for c, wanted in way) for way in self.blocks[position])

    def constant(self, needs: tuple[bool, ...], reached: tuple[int, ...]) -> tuple[int, ...]:
        """The returned outputs that have no gradient, if these inputs need one, given what those of `reach` are."""
        found = self._constant.get((needs, reached))
        if found is None:
            needed = {i for i, need in enumerate(needs) if need}
            pairs = zip(self.sources_for(reached), self.has_gradient, strict=True)
            found = tuple(i for i, (sources, has) in enumerate(pairs) if not (has and sources & needed))
            self._constant[needs, reached] = found
        return found


def _node(forward: Runner, backward: Runner, usual: Runner, gradient: Gradient, without: Without | None) -> Runner:
    """The `apply` of a function class for autograd, whose forward gives a tuple."""
    apply = node_of(Layout(gradient), backward, usual, without)
    single = len(gradient.f.outputs) == 1

    def run_and_record(*inputs: object) -> Any:
        with torch.no_grad():
            outputs = forward(*inputs)
        return apply((outputs,) if single else outputs, *inputs)

    return run_and_record


class _Exactly:
    """Backward passes in which what has no gradient takes no part, as autograd computes them."""

    def __init__(self, layout: Layout, backward: Runner, without: Without | None) -> None:
        self._takes_none = layout.may_fill or without is None
        self._backward, self._without = backward, without
        self._made: dict[tuple[bool, ...], Runner] = {}

    def run(
        self, present: tuple[bool, ...], filled: Sequence[Any], given: Sequence[Any], captured: Sequence[Any]
    ) -> Any:
        """The gradients.

        Args:
            present: which results have a gradient.
            filled: the gradients of results, zeros where one is missing.
            given: the same, None where one is missing.
            captured: what `df` takes beside them.
        """
        if self._takes_none:
            return self._backward(*given, *captured)
        if present not in self._made:
            assert self._without is not None
            self._made[present] = self._without(present)
        return self._made[present](*filled, *captured)


def node_of(layout: Layout, backward: Runner, usual: Runner, without: Without | None = None) -> Runner:
    """A function that records a node for autograd: takes what `f` has given, as a tuple, and what it was given.

    It gives the outputs of the graph itself, and those that are kept and have gradients.

    Args:
        layout: of the gradient.
        backward: runs `df`.
        usual: runs it where all results have a gradient and nothing that is kept has one.
        without: what runs it where some have none, and zero times infinity is not to be computed.
    """
    fills = layout.is_total and len(layout.vjps) > 1  # else the only one is there, or there is nothing to do
    known: dict[tuple[tuple[bool, ...], tuple[int, ...]], _Way] = {}

    def way_of(present: tuple[bool, ...], reached: tuple[int, ...]) -> _Way:
        """What is done where these gradients are there, and results depend on these inputs."""
        found = known.get((present, reached))
        if found is None:
            found = known[present, reached] = layout.way(present, reached, fills, backward, usual)
        return found

    exactly = _Exactly(layout, backward, without)

    class DifferentiableGraph(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, outputs: Sequence[Any], *inputs: Any) -> Any:
            where = (inputs, outputs)
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(*[where[place][i] for place, i in layout.saved])
            ctx.others = [_kept(where[place][i]) for place, i in layout.others]
            returned = tuple([outputs[i] for i in layout.returned])
            if fills:
                ctx.shapes = [(x.shape, x.dtype, x.device) for x in map(returned.__getitem__, layout.own)]
            ctx.reached = tuple([outputs[i] for i in layout.reach])
            constant = layout.constant(ctx.needs_input_grad[1:], ctx.reached)
            if constant:
                ctx.mark_non_differentiable(*[x for x in map(returned.__getitem__, constant) if torch.is_tensor(x)])
            return returned

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            way = way_of(tuple([g is not None for g in grads]), ctx.reached)
            given = _filled(grads, layout.own, ctx.shapes) if way.fills else grads
            vjps = [given[i] for i in layout.vjps]
            saved = _saved(ctx, layout, vjps)
            found = [None] * (layout.inputs + 1)
            if way.run is not None:
                kept = [*saved, *ctx.others]
                captured = [kept[i] for i in layout.order]
                # 0 * inf is NaN, here or in the gradient of the gradient
                results = None if way.fills and torch.is_grad_enabled() else way.run(*vjps, *captured)
                if results is None or (way.fills and _has_nan(results)):
                    results = exactly.run(way.present, vjps, [grads[i] for i in layout.vjps], captured)
                for target, source in way.places:
                    found[target] = results[source]
            return tuple(found)

    plain_apply: Runner | None = getattr(super(torch.autograd.Function, DifferentiableGraph), "apply", None)
    return plain_apply or DifferentiableGraph.apply  # the latter looks for transforms once more


def _filled(
    grads: Sequence[torch.Tensor | None], own: Sequence[int], shapes: Sequence[tuple[Any, torch.dtype, torch.device]]
) -> Sequence[torch.Tensor | None]:
    """The gradients of results, with zeros for those that are missing."""
    filled = list(grads)
    for i, (shape, dtype, device) in zip(own, shapes, strict=True):
        if filled[i] is None:
            filled[i] = torch.zeros(shape, dtype=dtype, device=device)
    return filled


def _has_nan(results: Sequence[torch.Tensor | None]) -> bool:
    return any(r is not None and bool(r.isnan().any()) for r in results)


def _saved(ctx: Any, layout: Layout, vjps: Sequence[object]) -> Sequence[Any]:
    """The saved tensors. What is only used with gradients that are zero may have been written by now."""
    try:
        saved: Sequence[Any] = ctx.saved_tensors
        return saved
    except RuntimeError as error:
        given = {i for i, v in enumerate(vjps) if v is not None}
        raw = ctx._raw_saved_tensors
        wanted = [bool(given & users) and layout.is_read(i, ctx.others) for i, users in enumerate(layout.users)]
        if all(wanted) or not all(hasattr(t, "unpack") for t in raw):
            raise
        return [_unpacked(t, error) if is_wanted else None for t, is_wanted in zip(raw, wanted, strict=True)]


def _unpacked(saved: Any, error: Exception) -> torch.Tensor:
    """One saved tensor. Outputs of the node cannot be unpacked alone: what they hold is taken, if nobody wrote it."""
    found: torch.Tensor
    try:
        found = saved.unpack()
    except RuntimeError:
        if torch.is_grad_enabled() or saved.data._version:
            raise error from None
        found = saved.data
    return found


def _kept(value: object) -> Any:
    """The value as it is now: lists may be changed before the backward pass."""
    return list(value) if type(value) is list else value
