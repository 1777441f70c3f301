"""What a dispatcher-level trace asks of a call: of the operator, its arguments and the frames that it comes from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

import torch

from jitlite.base import torch_internals
from jitlite.base.errors.ways_out import NO_TRACE
from jitlite.base.records import Record
from jitlite.base.source import CompileError
from jitlite.frontend.tracing.trace_backend import Location, TraceBackend
from jitlite.frontend.tracing.trace_values import in_schema_order, tensors, written
from jitlite.ir.values import CLASS_TYPE

_aten = torch.ops.aten


def is_printing() -> bool:
    """Is it for the text of a tensor that Python asks?"""
    printer = torch_internals.printer_of_tensors.__file__
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename != printer:
        frame = frame.f_back
    return frame is not None


def is_below_autograd() -> bool:
    """Are autograd's kernels behind us, as within the kernel of an operator that the user called?"""
    key = torch_internals.dispatch_key("ADInplaceOrView")
    return bool(torch_internals.is_key_excluded(key))


def is_fake(tensor: torch.Tensor) -> bool:
    return type(tensor).__name__ == "FakeTensor"


def is_module(value: object) -> bool:
    return isinstance(value, torch.nn.Module) and CLASS_TYPE in vars(value)


def by_schema(op: Any, result: Any) -> list[Any]:
    """What an operator has given, by the results of its schema."""
    match len(op._schema.returns):
        case 0:
            return []
        case 1:
            return [result]
        case _:
            return list(result)


def as_recorded(op: object, given: Sequence[object]) -> tuple[Any, list[torch.Tensor]]:
    """The operator as it is recorded, and the tensors that it writes.

    `native_batch_norm` writes running statistics without saying so; there is another that says so.
    """
    if op is _aten.native_batch_norm.default and given[5] and given[3] is not None:
        op = _aten._native_batch_norm_legit.default
    return op, tensors(written(op, given))


def depends_on_data(op: Any, args: Sequence[Any]) -> bool:
    """Does the size of what the operator gives depend on contents?"""
    if torch.Tag.dynamic_output_shape not in op.tags:
        return False
    if op in (_aten.index.Tensor, _aten._unsafe_index.Tensor):
        return any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in args[1])
    return True


def run_by(backend: TraceBackend, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any], location: Location) -> Any:
    """Run an operator: by the back end, or if it does not want to, by torch.

    Raises:
        CompileError: the back end has given something else than the operator does.
    """
    result = backend.execute(op, args, kwargs)
    if result is NotImplemented:
        return op(*args, **kwargs)
    fault = _unfit(op, in_schema_order(op, args, kwargs), result)
    if fault:
        raise NO_TRACE(f"{type(backend).__name__}.execute({op.name()}, ...) {fault}", location.range)
    return result


def _unfit(op: Any, given: Sequence[object], result: object) -> str:
    """What is wrong with what a back end has given for an operator; nothing if it fits the schema."""
    returns = op._schema.returns
    if len(returns) > 1 and not (isinstance(result, tuple | list) and len(result) == len(returns)):
        return f"gave {_kind(result)}, and the operator gives a tuple of {len(returns)}"
    for declared, found in zip(returns, by_schema(op, result), strict=True):
        wanted = torch.Tensor if "Tensor" in str(declared.type) and "List" not in str(declared.type) else object
        if not isinstance(found, wanted):
            return f"gave {_kind(found)}, and the operator gives a tensor"
        is_written = declared.alias_info is not None and declared.alias_info.is_write
        if is_written and not any(found is argument for argument in given):
            return "gave another tensor than the one that the operator writes"
    return ""


def _kind(value: object) -> str:
    return "None" if value is None else f"{type(value).__name__}"


_DATA_ERRORS = ("DataDependentOutputException", "DynamicOutputShapeException", "GuardOnDataDependentSymNode",
                "UnsupportedOperatorException")  # fmt: skip
"""What fake tensors raise where they would need contents."""


def asks_for_contents(error: BaseException) -> bool:
    """Is it what a fake tensor raises whose contents an operator needs?"""
    return type(error).__name__ in _DATA_ERRORS


def asks_for_array(error: BaseException) -> bool:
    """Is it what a fake tensor raises that is to become an array of NumPy's?"""
    is_torchs = isinstance(error, RuntimeError) and not isinstance(error, CompileError)
    return is_torchs and ".numpy()" in str(error)


# -- Python that stays Python


def unfit_python(name: str, location: Location, *, gradients: bool) -> CompileError:
    """The error for Python that writes what is not its own, or through which `gradients` would flow."""
    told, way_out = f"{name}, which on_cpu() leaves to Python", "write behind it what it gives"
    if not gradients:
        return NO_TRACE(f"{told}, writes a tensor that is not its own", location.range, hint=way_out)
    return NO_TRACE(
        f"{told}, gives what requires grad, and a trace with backward=True has no backward pass of Python's",
        location.range, hint="detach what it reads, or trace without backward=True",
    )  # fmt: skip


class PythonOfKinds(Record):
    """Python that a trace calls, and the dtypes, devices and ranks that what it gives must have."""

    name: str
    function: Callable[..., object]
    kinds: Sequence[tuple[torch.dtype, torch.device, int]]
    writes_nothing = True

    def __call__(self, *args: object) -> object:
        results = self.function(*args)
        found = kinds_of(tensors(results))
        if found != self.kinds:
            now, before = _shown_kinds(found), _shown_kinds(self.kinds)
            raise ValueError(f"{self.name} gives {now}, and gave {before} when traced; trace it again for others")
        return results


def kinds_of(results: Sequence[torch.Tensor]) -> list[tuple[torch.dtype, torch.device, int]]:
    """The dtypes, devices and ranks of tensors."""
    return [(r.dtype, r.device, r.dim()) for r in results]


def _shown_kinds(kinds: Sequence[tuple[torch.dtype, torch.device, int]]) -> str:
    return ", ".join(f"{dtype} of {rank} dimensions on {device}" for dtype, device, rank in kinds) or "nothing"
