"""Which value of a trace a tensor is, when values are memory: what is written through one of them is seen in others.

torch makes many tensor objects for one tensor: for what `.data` gives, for what autograd keeps, for views whose base
has been written. A tensor is found by identity first, then by its place in memory: storage, offset, sizes, strides and
dtype. All tensors are kept alive until the trace is done, so that neither is used again for another one. As the values
alias each other as the tensors do, it does not matter for contents which of several tensors in one place is taken. It
does for gradients: places lead to the tensor that has not been detached.

Writes are recorded as they are. What existed before the call and is written is noted; see `Mutation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, Protocol

import torch

from jitlite.base.errors.ways_out import NO_TRACE
from jitlite.base.records import Record
from jitlite.frontend.tracing.places_in_memory import Place, place_in_memory, storage_of
from jitlite.frontend.tracing.trace_backend import Location, Mutation, Traced
from jitlite.ir.traits import Trait

_aten = torch.ops.aten


class Origin(Record, eq=True, frozen=False):
    """Where a tensor that existed before comes from; see `Mutation`."""

    kind: str
    name: str
    tensor: torch.Tensor
    writers: list[str] = field(default_factory=list)
    location: Location = field(default_factory=Location)

    def mutation(self) -> Mutation:
        return Mutation(self.kind, self.name, tuple(self.writers), self.location)


class Known(Record, eq=True, frozen=False):
    """A tensor that has been seen, its value, and where it was then."""

    tensor: torch.Tensor
    value: Any
    place: Place | None
    origin: Origin | None = None


class ValueRecorder(Protocol):
    """What the values of a trace want of it."""

    location: Location
    follows_gradients: bool
    """Are gradients to flow through what is recorded?"""
    op: object
    """The operator whose arguments are looked up; None for a call of something else."""

    def emit(self, op: object, args: Sequence[object], results: Sequence[object]) -> Sequence[Any]:
        """Tell the back end of a call; gives the values of the results."""
        ...

    def assume_no_gradients(self, what: str) -> None:
        """Note that the trace is wrong for inputs that require grad, because of `what`."""
        ...

    def write_back(self, destination: Traced, source: Traced, *, gradients: bool) -> object:
        """Tell the back end what something that existed before is to hold in the end; gives its value."""
        ...

    def introduce(self, tensor: torch.Tensor) -> tuple[Any, Origin]:
        """The value of a tensor that has not been seen, and where it comes from.

        Raises:
            CompileError: where it can have none.
        """
        ...


class Aliases:
    """The values of tensors, for a back end in which values alias each other as tensors do."""

    def __init__(self, emitter: ValueRecorder) -> None:
        self._emitter = emitter
        self._known: dict[int, Known] = {}
        self._places: dict[Place, Known] = {}
        self._origins: dict[object, list[Origin]] = {}
        self._storages: list[object] = []
        self.written: set[int | None] = set()

    # -- finding
    def is_known(self, tensor: torch.Tensor) -> bool:
        """Has the tensor been seen?"""
        if id(tensor) in self._known:
            return True
        place = place_in_memory(tensor)
        return place is not None and place in self._places

    def value_of(self, tensor: torch.Tensor) -> Any:
        """The value of a tensor.

        Raises:
            CompileError: where it can have none.
        """
        return self._find(tensor).value

    def _find(self, tensor: torch.Tensor) -> Known:
        found, place = self._known.get(id(tensor)), place_in_memory(tensor)
        if found is not None and found.place == place:
            return found
        other = None if place is None else self._places.get(place)
        if found is not None:
            return self._exchanged(found, other, place)
        if other is not None:
            return self._add(tensor, other.value, other.origin, keep_place=True)
        value, origin = self._emitter.introduce(tensor)
        return self.add(tensor, value, origin)

    def _exchanged(self, found: Known, other: Known | None, place: Place | None) -> Known:
        """The memory of a tensor has been exchanged by `x.data = y`, which is no operator: record that."""
        if other is None:
            value, origin = self._emitter.introduce(found.tensor.detach())
            other = self.add(found.tensor.detach(), value, origin)
        if other.tensor.dtype != found.tensor.dtype or found.place is None:
            raise NO_TRACE(
                "assigning a tensor of another kind to .data cannot be recorded", self._emitter.location.range
            )
        self._leave_place(found)
        op = _aten.set_.source_Tensor
        given = [Traced(found.value, found.tensor), Traced(other.value, other.tensor)]
        (found.value,) = self._emitter.emit(op, given, [found.tensor])
        found.place = place
        self._note(found, "aten::set_")
        return found

    def _leave_place(self, known: Known) -> None:
        """The tensor is about to be elsewhere in memory: others that are where it was get a value of their own."""
        if known.place is not None and self._places.get(known.place) is known:
            example = known.tensor
            (value,) = self._emitter.emit(_aten.alias.default, [Traced(known.value, example)], [example])
            self._places[known.place] = Known(known.tensor, value, known.place, known.origin)

    # -- adding
    def add(self, tensor: torch.Tensor, value: object, origin: Origin | None = None) -> Known:
        """Let a tensor stand for a value."""
        return self._add(tensor, value, origin)

    def _add(self, tensor: torch.Tensor, value: object, origin: Origin | None, keep_place: bool = False) -> Known:
        known = self._known[id(tensor)] = Known(tensor, value, place_in_memory(tensor), origin)
        if known.place is not None:
            self._storages.append(tensor.untyped_storage())  # its address must not be used again
            if not keep_place:
                self._places[known.place] = known
        if origin is not None:
            listed = self._origins.setdefault(storage_of(tensor), [])
            listed += [origin] if origin not in listed else []
        return known

    def same(self, tensor: torch.Tensor, copy: torch.Tensor) -> None:
        """Note that autograd has made another object for a tensor."""
        known = self._find(tensor)
        self._add(copy, known.value, known.origin, keep_place=True)

    def detached(self, tensor: torch.Tensor, result: torch.Tensor, value: object) -> None:
        """Note the result of `detach`."""
        self._add(result, value, self._find(tensor).origin, keep_place=True)

    # -- calls
    def record(
        self, op: Any, args: Sequence[object], written: Sequence[torch.Tensor], results: Sequence[object]
    ) -> None:
        """Record a call that has been made; `args` are what `operand` gave before it was made."""
        moved = [k for k in map(self._kept, written) if k is not None and k.place != place_in_memory(k.tensor)]
        for known in moved:
            self._leave_place(known)
        values = self._emitter.emit(op, args, results)
        for result, value in zip(results, values, strict=True):
            parts = zip(result, value, strict=True) if isinstance(result, list | tuple) else [(result, value)]
            for tensor, part in parts:
                if isinstance(tensor, torch.Tensor):
                    self._bind(tensor, part)
        for tensor in written:
            known = self._find_again(tensor)
            self.written.add(storage_of(tensor))
            self._note(known, op.name().partition(".")[0])

    def _kept(self, tensor: torch.Tensor) -> Known | None:
        return self._known.get(id(tensor))

    def _find_again(self, tensor: torch.Tensor) -> Known:
        known = self._known.get(id(tensor))
        if known is None:
            return self._find(tensor)
        place = place_in_memory(tensor)
        if known.place != place:
            known.place = place
            if place is not None:
                self._places.setdefault(place, known)
        return known

    def _bind(self, tensor: torch.Tensor, value: object) -> None:
        known = self._known.get(id(tensor))
        if known is None:
            self.add(tensor, value)
        else:
            known.value = value
            self._find_again(tensor)

    def note_written(self, tensor: torch.Tensor, kind: str) -> None:
        """Note that a tensor has been written by what is no operator."""
        known = self._find(tensor)
        self.written.add(storage_of(tensor))
        self._note(known, kind)

    def _note(self, known: Known, kind: str) -> None:
        own = [] if known.origin is None else [known.origin]
        sharing = [] if kind in Trait.EXCHANGES_MEMORY.kinds else self._origins.get(storage_of(known.tensor), [])
        for origin in {id(o): o for o in [*sharing, *own]}.values():
            if not origin.writers:
                origin.location = self._emitter.location
            if kind not in origin.writers:
                origin.writers.append(kind)

    # -- the end
    def finish(self) -> list[Mutation]:
        """All has been recorded: what is written of all that existed before."""
        for known in list(self._known.values()):
            if known.origin is not None and known.tensor is known.origin.tensor:
                self._find(known.tensor)  # notices what was exchanged
        listed = [o for origins in self._origins.values() for o in origins if o.writers]
        return [o.mutation() for o in {id(o): o for o in listed}.values()]

    def aliases_origin(self, tensor: torch.Tensor) -> bool:
        """Is the tensor's memory that of something that existed before?"""
        return bool(self._origins.get(storage_of(tensor)))
