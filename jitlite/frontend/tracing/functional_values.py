"""Which value of a trace a tensor is, when values never change: for back ends that have no writes.

Each memory has a base, whose value is what it holds now. A view is known by the steps that lead to it from its base.
A write is recorded as the operator that gives what is written; the base gets a new value, by the inverse of each step,
and all views are stale: the next one that is read is made anew. In the end, what existed before the call and has been
written gets its last value by `copy_`, and what the function gives is made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from jitlite.base.errors.ways_out import NO_FUNCTIONAL_FORM
from jitlite.base.records import Record
from jitlite.base.source import CompileError
from jitlite.frontend.tracing.functional_views import Step, functional_form, view_of_inplace
from jitlite.frontend.tracing.places_in_memory import place_in_memory, storage_of
from jitlite.frontend.tracing.trace_aliases import Origin, ValueRecorder
from jitlite.frontend.tracing.trace_backend import Mutation, Traced

_aten = torch.ops.aten


class _Base(Record, frozen=False):
    """A memory: the first tensor that was seen of it, what it held first, and what it holds now.

    `is_shared` is it with another argument, so that it may not be written. `without_gradients` says that it requires
    grad and has been written where none were recorded: it goes on to be a leaf, which no value of a graph is.
    """

    tensor: torch.Tensor
    value: Any
    origin: Origin | None = None
    generation: int = 0
    first: object = None
    is_shared: bool = False
    without_gradients: bool = False


class _View(Record, frozen=False):
    """A tensor: the steps that lead to it, and its value as of a generation of the base."""

    tensor: torch.Tensor
    base: _Base
    steps: tuple[Step, ...]
    value: Any
    generation: int
    place: Any = None


class FunctionalValues:
    """The values of tensors, for a back end without writes."""

    def __init__(self, emitter: ValueRecorder) -> None:
        self._emitter = emitter
        self._views: dict[int, _View] = {}
        self._places: dict[object, _View] = {}
        self._bases: dict[int, _Base] = {}
        self._storages: list[object] = []
        self.written: set[int | None] = set()
        self._is_finished = False

    # -- finding
    def is_known(self, tensor: torch.Tensor) -> bool:
        """Has the tensor been seen?"""
        return id(tensor) in self._views or place_in_memory(tensor) in self._places

    def value_of(self, tensor: torch.Tensor) -> Any:
        """The value of a tensor; made anew where its base has been written.

        Raises:
            CompileError: where it can have none.
        """
        view = self._find(tensor)
        if tensor.requires_grad and view.base.without_gradients and self._follows_gradients():
            raise self._refused(
                "gradients of a tensor that was written without gradients have no functional form",
                "compute what needs gradients before the write, as a step of an optimizer does, or trace with "
                "backward=True",
            )
        if view.generation != view.base.generation:
            value = view.base.value
            for step in view.steps:
                value = step.forwards(self._emit, value)
            view.value, view.generation = value, view.base.generation
        return view.value

    def _follows_gradients(self) -> bool:
        """Will gradients flow to the arguments of what is at work?"""
        is_detached = self._emitter.op is _aten.detach.default
        return torch.is_grad_enabled() and not is_detached and not self._is_finished

    def _emit(self, op: object, args: Sequence[object], results: Sequence[object]) -> object:
        return self._emitter.emit(op, args, results)[0]

    def _find(self, tensor: torch.Tensor) -> _View:
        found, place = self._views.get(id(tensor)), place_in_memory(tensor)
        if found is not None and found.place == place:
            return found
        other = self._places.get(place)
        if found is not None and (other is None or self._is_origin(found)):
            raise self._refused("assigning to .data has no functional form", "use copy_")
        if other is not None:
            return self._see(tensor, other.base, other.steps, other.value, other.generation)
        storage = storage_of(tensor)
        if storage in self._bases:
            raise self._refused(
                "two tensors from outside of the function overlap in memory, which has no functional form",
                "clone one of them, or trace without functional=True",
            )
        value, origin = self._emitter.introduce(tensor)
        return self.add(tensor, value, origin)

    def _is_origin(self, view: _View) -> bool:
        return view.base.origin is not None and view.base.origin.tensor is view.tensor

    def _refused(self, message: str, hint: str) -> CompileError:
        return NO_FUNCTIONAL_FORM(message, self._emitter.location.range, hint=hint)

    # -- adding
    def add(self, tensor: torch.Tensor, value: object, origin: Origin | None = None) -> _View:
        """Let a tensor stand for a value of its own.

        Raises:
            CompileError: where its memory is known already.
        """
        storage, same = storage_of(tensor), self._places.get(place_in_memory(tensor))
        if origin is not None and storage in self._bases:
            if same is None:
                raise self._refused(
                    "two of the arguments overlap in memory, which has no functional form", "clone one of them"
                )
            same.base.is_shared = True
        base = _Base(tensor, value, origin, first=value, is_shared=same is not None and origin is not None)
        if storage is not None and not base.is_shared:
            self._bases[storage] = base
        return self._see(tensor, base, (), value, 0)

    def _see(self, tensor: torch.Tensor, base: _Base, steps: tuple[Step, ...], value: object, generation: int) -> _View:
        place = place_in_memory(tensor)
        view = self._views[id(tensor)] = _View(tensor, base, steps, value, generation, place)
        if place is not None:
            self._storages.append(tensor.untyped_storage())
            self._places[place] = view
        return view

    def same(self, tensor: torch.Tensor, copy: torch.Tensor) -> None:
        """Note that autograd has made another object for a tensor."""
        view = self._find(tensor)
        self._see(copy, view.base, view.steps, view.value, view.generation)

    def detached(self, tensor: torch.Tensor, result: torch.Tensor, value: object) -> None:
        """Note the result of `detach`."""
        view = self._find(tensor)
        step = Step(_aten.detach.default, (), tensor, (result,))
        self._see(result, view.base, (*view.steps, step), value, view.base.generation)

    # -- calls
    def record(
        self, op: object, args: Sequence[object], written: Sequence[torch.Tensor], results: Sequence[object]
    ) -> None:
        """Record a call that has been made; `args` are what `operand` gave before it was made."""
        if written:
            self._write(op, args, written, results)
            return
        values = self._emitter.emit(op, args, results)
        sources = [a for a in args if isinstance(a, Traced) and isinstance(a.example, torch.Tensor)]
        for result, value in zip(results, values, strict=True):
            if isinstance(result, list | tuple):
                for i, (tensor, part) in enumerate(zip(result, value, strict=True)):
                    self._bind(op, args, sources, tuple(result), i, tensor, part)
            elif isinstance(result, torch.Tensor):
                self._bind(op, args, sources, (result,), None, result, value)

    def _bind(
        self, op: Any, args: Any, sources: Any, results: Any, index: Any, tensor: torch.Tensor, value: object
    ) -> None:
        if id(tensor) in self._views:
            return  # an argument itself
        storage = storage_of(tensor)
        if storage not in self._bases:
            self.add(tensor, value)
            return
        source = next((s for s in sources if storage_of(s.example) == storage), None)
        if source is None:
            raise self._refused(f"{op.name()} gives a view of something that is no argument", "clone the tensor")
        view = self._find(source.example)
        # copies of the objects, as an operator such as t_ may change what these are
        step = Step(op, tuple(args[1:]), source.example.detach(), tuple(r.detach() for r in results), index)
        self._see(tensor, view.base, (*view.steps, step), value, view.base.generation)

    def _write(
        self, op: Any, args: Sequence[object], written: Sequence[torch.Tensor], results: Sequence[object]
    ) -> None:
        kind = op.name().partition(".")[0]
        if kind in ("aten::set_", "aten::resize_"):
            raise self._refused(f"{kind} has no functional form", "make a new tensor, or trace without functional=True")
        as_view = view_of_inplace(op)
        if as_view is not None:
            self._move(as_view, args, written[0])
            return
        targets = [self._find(t) for t in written]
        detached = any(s.op is _aten.detach.default for view in targets for s in view.steps)
        if self._emitter.follows_gradients and (detached or not torch.is_grad_enabled()):
            self._write_without_gradients(op, args, targets)
        for view, new in zip(targets, self._new_values(op, args, written, results), strict=True):
            self._assign(view, new)
            self._note(view.base, kind)

    def _write_without_gradients(self, op: Any, args: Sequence[object], targets: Sequence[_View]) -> None:
        """Note that tensors that have gradients, or may have some in other runs, are written as if they had none."""
        with_gradients = [v for v in targets if v.base.tensor.requires_grad or v.tensor.requires_grad]
        recorded = torch.is_grad_enabled() and any(_requires_grad(a) for a in args)
        if any(recorded or not view.base.tensor.is_leaf or view.base.origin is None for view in with_gradients):
            raise self._refused(
                "a write without gradients into a tensor that has some has no functional form",
                "trace with backward=True, or under torch.no_grad() for inference",
            )
        for view in with_gradients:
            view.base.without_gradients = True
        if any(view.tensor.is_floating_point() and view not in with_gradients for view in targets):
            self._emitter.assume_no_gradients(f"a write without gradients by {op.name()}")

    def _move(self, op: Any, args: Sequence[Any], tensor: torch.Tensor) -> None:
        """An operator that makes its argument a view of what it was."""
        view = self._views[id(tensor)]
        if self._is_origin(view):
            raise self._refused(f"{op.name()}_ of an argument has no functional form", "make a view instead")
        before = _like(tensor, view)
        step = Step(op, tuple(args[1:]), before, (tensor.detach(),))
        value = step.forwards(self._emit, args[0].value)
        self._see(tensor, view.base, (*view.steps, step), value, view.base.generation)

    def _new_values(
        self, op: Any, args: Sequence[Any], written: Sequence[torch.Tensor], results: Sequence[Any]
    ) -> list[object]:
        """What the operator writes into each of the tensors; notes what else it gives."""
        if op is _aten.copy_.default:
            return [self._copied(written[0], args[1])]
        form, positions = functional_form(op)
        given = [a for a, formal in zip(args, op._schema.arguments, strict=True) if not formal.is_out]
        examples = [*results[: positions[0]], *written] if positions[0] else _on_meta(form, given, written)
        values = self._emitter.emit(form, given, examples)
        for result, value in zip(results[: positions[0]], values, strict=False):
            self.add(result, value)
        flat: list[tuple[Any, torch.Tensor]] = []
        for position in positions:
            value, example = values[position], examples[position]
            flat += zip(value, example, strict=True) if isinstance(example, list) else [(value, example)]
        return [self._as(target, value, example) for target, (value, example) in zip(written, flat, strict=True)]

    def _copied(self, target: torch.Tensor, source: object) -> Any:
        if not isinstance(source, Traced):
            return self._emit(_aten.fill.Scalar, [Traced(self.value_of(target), target), source], [target])
        value = source.value
        if source.example.shape != target.shape:
            value = self._emit(_aten.expand.default, [source, list(target.shape), False], [target])
        if source.example.dtype != target.dtype:
            return self._as(target, value, source.example)
        return self._emit(_aten.clone.default, [Traced(value, target), None], [target])

    def _as(self, target: torch.Tensor, value: object, example: torch.Tensor) -> Any:
        """The value in the dtype of what it is written into."""
        if example.dtype == target.dtype:
            return value
        given = [Traced(value, example), target.dtype, None, None, None, False, None]
        return self._emit(_aten._to_copy.default, given, [target])

    def _assign(self, view: _View, new: object) -> None:
        """Let the view have a new value."""
        befores = [view.base.value]
        for step in view.steps[:-1]:
            befores.append(step.forwards(self._emit, befores[-1]))
        value = new
        for step, before in zip(reversed(view.steps), reversed(befores[: len(view.steps)]), strict=True):
            value = step.backwards(self._emit, before, value)
        base = view.base
        if base.is_shared:
            raise self._refused(
                "a write into a tensor that two of the arguments are has no functional form", "clone one of them"
            )
        base.value, base.generation = value, base.generation + 1
        view.value, view.generation = new, base.generation
        self.written.add(storage_of(base.tensor))

    def _note(self, base: _Base, kind: str) -> None:
        origin = base.origin
        if origin is not None:
            if not origin.writers:
                origin.location = self._emitter.location
            origin.writers += [kind] if kind not in origin.writers else []

    def note_written(self, tensor: torch.Tensor, kind: str) -> None:
        """Something that is no operator has written a tensor.

        Raises:
            CompileError: always, as nobody knows what.
        """
        raise self._refused(f"{kind} writes its arguments, which has no functional form", "trace without functional")

    # -- the end
    def finish(self) -> list[Mutation]:
        """All has been recorded: let what existed before have its last value; says what that was."""
        found = []
        for view in list(self._views.values()):
            self._find(view.tensor)  # notices what was exchanged
        self._is_finished = True
        for base in self._bases.values():
            origin = base.origin
            if origin is not None and origin.writers:
                first, last = (Traced(v, origin.tensor) for v in (base.first, base.value))
                base.value = self._emitter.write_back(first, last, gradients=not base.without_gradients)
                base.generation += 1
                found.append(origin.mutation())
        return found

    def aliases_origin(self, tensor: torch.Tensor) -> bool:
        """Is the tensor's memory that of something that existed before?"""
        base = self._bases.get(storage_of(tensor) or 0)
        return base is not None and base.origin is not None


def _requires_grad(argument: object) -> bool:
    if isinstance(argument, list | tuple):
        return any(map(_requires_grad, argument))
    return (
        isinstance(argument, Traced) and isinstance(argument.example, torch.Tensor) and argument.example.requires_grad
    )


def _like(tensor: torch.Tensor, view: _View) -> torch.Tensor:
    """What a tensor was before its sizes and strides were changed."""
    _, dim, offset, *numbers = view.place[:-3]
    return tensor.as_strided(numbers[:dim], numbers[dim:], offset)


def _on_meta(op: Any, args: Sequence[object], written: Sequence[torch.Tensor]) -> list[Any]:
    """What the results of an operator would be, without its being run."""

    def example(argument: object) -> Any:
        if isinstance(argument, Traced):
            return argument.example.to("meta") if isinstance(argument.example, torch.Tensor) else argument.example
        return [example(a) for a in argument] if isinstance(argument, list | tuple) else argument

    names = [a.name for a in op._schema.arguments if not a.kwarg_only]
    given = [example(a) for a in args]
    keywords = {a.name: g for a, g in zip(op._schema.arguments, given, strict=True) if a.kwarg_only}
    keywords.pop("generator", None)
    try:
        result = op(*given[: len(names)], **keywords)
    except (RuntimeError, NotImplementedError):
        result = tuple(written) if len(written) > 1 else written[0]  # the dtype is that of the target
    return list(result) if len(op._schema.returns) > 1 else [result]
