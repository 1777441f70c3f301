"""Views, run forwards and backwards: how a view is made of its base again, and the base of a view that was written.

For each operator that gives a view there is an inverse: from the value of what it is a view of, and a new value of the
view, the new value of what it is a view of. The order of elements is kept by all operators of `_RESHAPING`, so that
their inverse is a reshape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from jitlite.base.errors.ways_out import NO_FUNCTIONAL_FORM
from jitlite.base.records import Record
from jitlite.frontend.tracing.trace_backend import Traced
from jitlite.frontend.tracing.trace_values import is_written

_aten = torch.ops.aten
Emit = Callable[..., Any]
"""Emits a call: the operator, its arguments, the example of its result; gives the value of the result."""


class Step(Record, eq=True):
    """One view of another: the operator, its arguments (the first is left out), what is viewed and what is seen now.

    `index` says which of the results of the operator it is, where it gives a list.
    """

    op: Any
    rest: tuple[Any, ...]
    source: torch.Tensor
    results: tuple[torch.Tensor, ...]
    index: int | None = None

    @property
    def result(self) -> torch.Tensor:
        return self.results[self.index or 0]

    def forwards(self, emit: Emit, value: object) -> object:
        """The value of the view of a value."""
        given = Traced(value, self.source)
        if self.op in _RESHAPING:
            return _reshape(emit, value, self.source, self.result)
        if self.index is not None:
            return emit(self.op, [given, *self.rest], [list(self.results)])[self.index]
        return emit(self.op, [given, *self.rest], [self.result])

    def backwards(self, emit: Emit, value: object, new: object) -> object:
        """The new value of what is viewed: `value`, with `new` in place of the view.

        Raises:
            CompileError: where there is no way.
        """
        if self.op in _SAME:
            return new
        if self.op in _RESHAPING:
            return _reshape(emit, new, self.result, self.source)
        inverse = _INVERSES.get(self.op)
        if inverse is None:
            raise NO_FUNCTIONAL_FORM(
                f"a write into what {self.op.name()} gives has no functional form",
                hint="write into a clone, or trace without functional=True",
            )
        return inverse(self, emit, Traced(value, self.source), Traced(new, self.result))


def _reshape(emit: Emit, value: object, source: torch.Tensor, like: torch.Tensor) -> object:
    return emit(_aten.reshape.default, [Traced(value, source), list(like.shape)], [like])


_SAME = {_aten.alias.default, _aten.detach.default, _aten.lift_fresh.default}
_RESHAPING = {
    _aten.view.default, _aten._unsafe_view.default, _aten.reshape.default, _aten.squeeze.default,
    _aten.squeeze.dim, _aten.squeeze.dims, _aten.unsqueeze.default, _aten._reshape_alias.default,
}  # fmt: skip


def _transpose(step: Step, emit: Emit, old: Traced, new: Traced) -> object:
    return emit(step.op, [new, *step.rest], [step.source])


def _permute(step: Step, emit: Emit, old: Traced, new: Traced) -> object:
    order = [int(d) % step.source.dim() for d in step.rest[0]]
    inverse = [order.index(d) for d in range(len(order))]
    return emit(step.op, [new, inverse], [step.source])


def _scatter(op: object) -> Callable[..., object]:
    """The operator takes the old value, the new value of the view, and the arguments of the view."""

    def inverse(step: Step, emit: Emit, old: Traced, new: Traced) -> object:
        return emit(op, [old, new, *step.rest], [step.source])

    return inverse


def _slice(step: Step, emit: Emit, old: Traced, new: Traced) -> object:
    return emit(_aten.slice_scatter.default, [old, new, *step.rest], [step.source])


def _part(step: Step, emit: Emit, old: Traced, new: Traced) -> object:
    """One of the parts that split and its like give."""
    dim = int(step.rest[1]) % step.source.dim()
    assert step.index is not None
    start = sum(part.shape[dim] for part in step.results[: step.index])
    stop = start + step.result.shape[dim]
    return emit(_aten.slice_scatter.default, [old, new, dim, start, stop, 1], [step.source])


def _unbound(step: Step, emit: Emit, old: Traced, new: Traced) -> object:
    return emit(_aten.select_scatter.default, [old, new, step.rest[0], step.index], [step.source])


def _strided(step: Step, emit: Emit, old: Traced, new: Traced) -> object:
    if not step.source.is_contiguous() or step.source.storage_offset() != 0:
        raise NO_FUNCTIONAL_FORM(
            "a write into what as_strided gives of a tensor that is not contiguous has no functional form"
        )
    return emit(_aten.as_strided_scatter.default, [old, new, *step.rest], [step.source])


def _expanded(step: Step, emit: Emit, old: Traced, new: Traced) -> object:
    if step.source.numel() != step.result.numel():
        raise NO_FUNCTIONAL_FORM("a write into what expand gives has no functional form", hint="write into a clone")
    return _reshape(emit, new.value, step.result, step.source)


def _as_complex(step: Step, emit: Emit, old: Traced, new: Traced) -> object:
    return emit(_aten.view_as_complex.default, [new], [step.source])


def _as_real(step: Step, emit: Emit, old: Traced, new: Traced) -> object:
    return emit(_aten.view_as_real.default, [new], [step.source])


def _conjugated(step: Step, emit: Emit, old: Traced, new: Traced) -> object:
    return emit(_aten._conj.default, [new], [step.source])


def _other_dtype(step: Step, emit: Emit, old: Traced, new: Traced) -> object:
    return emit(_aten.view.dtype, [new, step.source.dtype], [step.source])


_INVERSES: dict[object, Callable[[Step, Emit, Traced, Traced], object]] = {
    _aten.t.default: _transpose, _aten.transpose.int: _transpose, _aten.permute.default: _permute,
    _aten.select.int: _scatter(_aten.select_scatter.default), _aten.slice.Tensor: _slice,
    _aten.diagonal.default: _scatter(_aten.diagonal_scatter.default), _aten.split.Tensor: _part,
    _aten.split_with_sizes.default: _part, _aten.unsafe_split.Tensor: _part,
    _aten.unsafe_split_with_sizes.default: _part, _aten.unbind.int: _unbound, _aten.as_strided.default: _strided,
    _aten.expand.default: _expanded, _aten.view_as_real.default: _as_complex, _aten.view_as_complex.default: _as_real,
    _aten._conj.default: _conjugated, _aten.view.dtype: _other_dtype,
}  # fmt: skip


def view_of_inplace(op: Any) -> object:
    """The operator that gives as a view what `op` makes of its argument itself, such as t of t_; None for others."""
    return _IN_PLACE.get(op)


_IN_PLACE = {
    _aten.t_.default: _aten.t.default, _aten.transpose_.default: _aten.transpose.int,
    _aten.squeeze_.default: _aten.squeeze.default, _aten.squeeze_.dim: _aten.squeeze.dim,
    _aten.squeeze_.dims: _aten.squeeze.dims, _aten.unsqueeze_.default: _aten.unsqueeze.default,
    _aten.as_strided_.default: _aten.as_strided.default,
}  # fmt: skip


def functional_form(op: Any) -> tuple[Any, Sequence[int]]:
    """The operator that gives what `op` writes, and which of its results that are, by written argument.

    Raises:
        CompileError: where there is none.
    """
    schema = op._schema
    written = [a for a in schema.arguments if is_written(a)]
    if op in _WITHOUT_DERIVATIVE:
        raise NO_FUNCTIONAL_FORM(f"{op.name()} has no form that gives a new tensor and has a derivative")
    renamed = _RENAMED.get(op)
    if renamed is not None:
        return renamed, range(len(written))
    name, _, overload = op.name().partition("::")[2].partition(".")
    appended = getattr(getattr(_aten, f"{name.rstrip('_')}_functional", None), overload or "default", None)
    if appended is not None:
        count = 0 if name[-1] == "_" else len(schema.returns)
        return appended, range(count, count + len(written))
    found = _same_without_write(name, schema, is_out=all(a.is_out for a in written))
    if found is None:
        raise NO_FUNCTIONAL_FORM(
            f"{op.name()} has no form that gives a new tensor", hint="trace without functional=True"
        )
    return found, range(len(written))


def _is_pure(overload: Any) -> bool:
    return not overload._schema.is_mutable


def _same_without_write(name: str, schema: Any, *, is_out: bool) -> object:
    """The operator that takes the same, apart from what is `out`, and writes nothing; None if there is none."""
    if not is_out and name[-1] != "_":
        return None
    packet = getattr(_aten, name if is_out else name.removesuffix("_"), None)
    wanted = [(a.name, str(a.type)) for a in schema.arguments if not a.is_out]
    overloads = [] if packet is None else [getattr(packet, name) for name in packet.overloads()]
    return next((o for o in overloads if _is_pure(o) and _formals(o) == wanted), None)


def _formals(op: Any) -> list[tuple[str, str]]:
    return [(a.name, str(a.type)) for a in op._schema.arguments]


_RENAMED = {_aten.bernoulli_.float: _aten.bernoulli.p}
"""Operators whose counterpart is called otherwise."""

_WITHOUT_DERIVATIVE = {_aten.rrelu_with_noise.default, _aten.rrelu_with_noise_.default}
"""Operators whose counterpart gives results that do not require grad."""
