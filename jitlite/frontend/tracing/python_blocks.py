"""What a trace leaves to Python: the blocks and functions under `jitlite.on_cpu()`.

A block runs as it is while the function is traced, and the trace does not look on. It becomes one node, which calls the
block as a function: of the variables that it reads, for those that it sets and the rest of the function uses. Tensors
go in and come out; everything else that the block reads is as it was when the trace was made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import combinations
from types import FrameType, TracebackType
from typing import Any, TypeVar

import torch
from torch.utils import _pytree as pytree

from jitlite.base.errors.ways_out import NO_TRACE
from jitlite.base.python_frames import set_variables
from jitlite.base.source import SourceRange
from jitlite.base.tracing_state import Listener, PythonRun
from jitlite.frontend.tracing.argument_trees import put_together, taken_apart
from jitlite.frontend.tracing.block_source import block_at
from jitlite.frontend.tracing.stand_ins import StandIns

_R = TypeVar("_R")


class TracedBlock:
    """The block that a frame is about to run, and that becomes one node of the trace.

    Raises:
        CompileError: where the block can be none; see `block_at`.
    """

    def __init__(self, tracer: Listener, frame: FrameType) -> None:
        self._tracer = tracer
        self._frame = frame
        self._source = block_at(frame)

    def begin(self) -> None:
        """Let the frame run the block."""
        source, variables = self._source, self._frame.f_locals
        self._before = {n: v for n, v in variables.items() if n in source.read or n in source.stored}
        with ExitStack() as entered:
            entered.enter_context(self._tracer.not_recording())
            self._given = _Given(list(self._before.values()), source.range)
            self._plain = dict(zip(self._before, self._given.plain, strict=True))
            _set(self._frame, self._plain, source.range)
            entered.enter_context(self._tracer.own_tensors())
            entered.enter_context(self._given.running())
            self._running = entered.pop_all()

    def end(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """The frame has run it, or an error has ended it.

        Raises:
            CompileError: it writes what it is given, or sets what is no tensor and is used behind it.
        """
        if error is not None:
            self._running.__exit__(kind, error, at)
            return
        source, variables = self._source, self._frame.f_locals
        wanted = source.stored & (source.used_outside | source.carried)
        now = {n: v for n, v in variables.items() if n in wanted and v is not self._plain.get(n, _MISSING)}
        with self._running:
            call = PythonBlock(source.function(self._frame, list(self._before), list(now)), self._given.structure)
            found = call.note(list(now.values()), list(now), self._given)
        with self._tracer.not_recording():
            results = self._given.followed(found)
        followed = self._tracer.record_python(PythonRun("on_cpu", call, self._given.leaves, results))
        kept = {n: v for n, v in self._before.items() if n in variables and n not in now}
        _set(self._frame, {**kept, **dict(zip(now, call.put_together(followed), strict=True))}, source.range)


_MISSING = object()


def python_call(
    tracer: Listener, function: Callable[..., _R], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> _R:
    """Call a function that becomes one node of the trace.

    Raises:
        CompileError: as a block does.
    """
    name = getattr(function, "__name__", type(function).__name__)

    def called(args: Any, kwargs: Any) -> tuple[_R]:
        return (function(*args, **kwargs),)

    with tracer.not_recording():
        given = _Given([args, dict(kwargs)], None)
        with tracer.own_tensors(), given.running():
            (result,) = called(*given.plain)
            call = PythonBlock(called, given.structure)
            found = call.note([result], [f"what {name} gives"], given)
        results = given.followed(found)
    followed = tracer.record_python(PythonRun(name, call, given.leaves, results))
    given_back: _R = call.put_together(followed)[0]  # type: ignore[assignment]
    return given_back


def _set(frame: FrameType, values: Mapping[str, object], range: SourceRange) -> None:
    changed = {n: v for n, v in values.items() if frame.f_locals.get(n) is not v}
    if not set_variables(frame, changed):
        raise NO_TRACE(
            f"this Python cannot set {', '.join(changed)} for a block under on_cpu()", range,
            hint="put the block into a function of its own under @jitlite.on_cpu()",
        )  # fmt: skip


class _Given:
    """What a block reads.

    Attributes:
        leaves: the parts of all values, as the trace has them.
        structure: how the values are built of them.
        plain: the values as the block gets them.
    """

    def __init__(self, values: Sequence[object], range: SourceRange | None) -> None:
        self.range = range
        self.leaves, self.structure = pytree.tree_flatten(taken_apart(list(values)))
        self._stand_ins = StandIns(self.leaves, range)
        self._parts = self._stand_ins.values
        is_same = all(a is b for a, b in zip(self._parts, self.leaves, strict=True))
        self.plain = list(values) if is_same else _together(self.structure, self._parts)
        self.running = self._stand_ins.running
        with self.running():
            self._contents = [_contents(part) for part in self._parts]
        self._versions = [_version(part) for part in self._parts]
        self._modes = _modes()

    def check_unchanged(self) -> None:
        """Refuse a block that has changed what it was given, or modes."""
        leaves, structure = pytree.tree_flatten(taken_apart(self.plain))
        is_same = structure == self.structure and all(a is b for a, b in zip(leaves, self._parts, strict=True))
        is_same = is_same and self._versions == [_version(part) for part in self._parts]
        if not is_same or not all(map(_holds, self._parts, self._contents)):  # NumPy changes no version
            raise NO_TRACE(
                "what on_cpu() leaves to Python writes what it is given, and a trace has only what it gives",
                self.range, hint="write a copy: y = x.clone(), outs = [*outs, y]",
            )  # fmt: skip

        if self._modes != _modes():
            raise NO_TRACE(
                "what on_cpu() leaves to Python sets the grad mode, or the default dtype or device", self.range,
                hint="set it around the block",
            )  # fmt: skip

    def shares(self, tensor: torch.Tensor) -> bool:
        """Is a tensor in the memory of one that the block was given?"""
        return _shares(tensor, self._parts)

    def followed(self, results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """What the trace goes on with: the results, or fake tensors for them."""
        return self._stand_ins.followed(results)


def _together(structure: pytree.TreeSpec, leaves: Sequence[object]) -> list[object]:
    found: list[object] = put_together(pytree.tree_unflatten(list(leaves), structure))  # type: ignore[assignment]
    return found


def _modes() -> tuple[object, ...]:
    return torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_default_device()


def _version(leaf: object) -> int:
    return -1 if not isinstance(leaf, torch.Tensor) or leaf.is_inference() else leaf._version


def _contents(leaf: object) -> torch.Tensor | None:
    """A copy of a tensor that can be compared; None for anything else."""
    if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided or leaf.is_quantized or leaf.is_meta:
        return None
    with torch.no_grad():
        return leaf.detach().clone()


def _holds(leaf: object, contents: torch.Tensor | None) -> bool:
    """Does a tensor hold what it held before?"""
    if contents is None or not isinstance(leaf, torch.Tensor):
        return True
    with torch.no_grad():
        is_like = leaf.shape == contents.shape and leaf.dtype == contents.dtype
        return is_like and bool(((leaf == contents) | (leaf != leaf) & (contents != contents)).all())


def _memory(tensor: torch.Tensor) -> tuple[int, int]:
    """Where a tensor's memory begins and ends; nowhere if it has none of its own."""
    try:
        storage = tensor.untyped_storage()
        return storage.data_ptr(), storage.data_ptr() + storage.nbytes()
    except (RuntimeError, NotImplementedError):
        return 0, 0


def _shares(tensor: torch.Tensor, others: Sequence[object]) -> bool:
    """Is a tensor in the memory of others? An array of NumPy's may have been between them, so storages say nothing."""
    start, end = _memory(tensor)
    for other in others:
        if isinstance(other, torch.Tensor):
            other_start, other_end = _memory(other)
            if other is tensor or (start < other_end and other_start < end):
                return True
    return False


class PythonBlock:
    """A block as the node calls it: a function of the parts of what it reads, for the tensors in what it sets."""

    writes_nothing = True

    def __init__(self, function: Callable[..., Sequence[object]], structure: pytree.TreeSpec) -> None:
        self._function = function
        self._structure = structure
        self._results = structure

    def note(self, values: Sequence[object], names: Sequence[str], given: _Given) -> list[torch.Tensor]:
        """The tensors in what the block has set; calls have to give them in the same places.

        Raises:
            CompileError: where there is anything else, or they share memory.
        """
        given.check_unchanged()
        for name, value in zip(names, values, strict=True):
            for leaf in pytree.tree_flatten(taken_apart(value))[0]:
                _check_result(leaf, name, given)
        leaves, self._results = pytree.tree_flatten(taken_apart(list(values)))
        if any(_shares(a, [b]) for a, b in combinations(leaves, 2)):
            raise NO_TRACE(
                f"tensors in {', '.join(names)}, which on_cpu() leaves to Python, share memory", given.range,
                hint="give a copy: y = x.clone()",
            )  # fmt: skip
        return leaves

    def put_together(self, leaves: Sequence[torch.Tensor]) -> list[object]:
        """What the block sets, of other tensors."""
        return _together(self._results, leaves)

    def __call__(self, *leaves: object) -> tuple[torch.Tensor, ...] | None:
        given = _together(self._structure, leaves)
        results, structure = pytree.tree_flatten(taken_apart(list(self._function(*given))))
        if structure != self._results or not all(isinstance(r, torch.Tensor) for r in results):
            raise RuntimeError("what on_cpu() leaves to Python gives something built in another way than when traced")
        # who writes a result must not write what the block was given
        return tuple(r.clone() if _shares(r, leaves) else r for r in results) or None


def _check_result(leaf: object, name: str, given: _Given) -> None:
    if not isinstance(leaf, torch.Tensor):
        raise NO_TRACE(
            f"on_cpu() leaves {name} to Python, a {type(leaf).__name__} that the trace cannot follow", given.range,
            expected="tensors, and tuples, lists and dicts of tensors", hint="make it a tensor: torch.tensor(n)",
        )  # fmt: skip
    if given.shares(leaf):
        raise NO_TRACE(
            f"{name}, which on_cpu() leaves to Python, shares memory with what the block reads", given.range,
            hint="give a copy: y = x.clone()",
        )  # fmt: skip
