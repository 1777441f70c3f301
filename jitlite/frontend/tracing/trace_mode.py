"""Where the tracer gets in: between Python and the dispatcher, for one thread, while a function is being traced.

Operators arrive by a dispatch key above autograd and above the operators that are composed of others, so the tracer
sees what Python calls. The key, `DeferredInit`, is there for libraries that defer what operators do; torch itself has
no kernels for it. What is no operator is looked at where Python finds it: sizes and the like in the class Tensor, and
the questions "is a trace going on?" in torch's C module. All of that is put back when the last trace ends, and is
torch's own for threads that do not trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from jitlite.base import torch_internals
from jitlite.base.errors.ways_out import NO_TRACE
from jitlite.base.locks import Lock
from jitlite.base.source import NotSupportedError
from jitlite.base.tracing_state import Listener, current, get_tracing_state, is_tracing, recorded_by
from jitlite.frontend.emit.plain_members import PLAIN
from jitlite.frontend.tracing.random_state import setters_of_generators
from jitlite.frontend.tracing.torch_scripts import converted_function
from jitlite.frontend.tracing.trace_values import OWN_OPERATORS, has_own_operators
from jitlite.frontend.tracing.trace_warnings import current_place
from jitlite.frontend.tracing.traced_functions import FUNCTIONS, method_of_tensor, new_tensor, own_function
from jitlite.frontend.tracing.traced_indexing import get_item, set_item
from jitlite.ir import types as T

_KEY = "DeferredInit"


_lock = Lock("tracing", reentrant=True)
active_tracers: list[Listener] = []
"""The tracers of all threads: false while nobody traces."""
_undo: list[Callable[[], None]] = []
_library: list[object] = []
"""torch's registration of `_on_operator`, once there has been a trace."""


def current_tracer() -> Listener | None:
    """The tracer that records what this thread does now, if any."""
    if not active_tracers:
        return None
    tracer: Listener | None = current.tracer
    return None if tracer is None or tracer.paused else tracer


@contextmanager
def recording(tracer: Listener) -> Iterator[None]:
    """Within the `with`, the tracer is told of what this thread does.

    Raises:
        RuntimeError: where a trace at the other level is going on.
    """
    before: Listener | None = current.tracer
    if before is not None and before.below_autograd != tracer.below_autograd:
        raise RuntimeError("a trace at one level cannot be made inside of a trace at the other")
    _enter(tracer)
    try:
        key = torch_internals.dispatch_key(_KEY)
        including = torch_internals.include_key(key) if tracer.sees_calls else nullcontext()
        with recorded_by(tracer), including, _Indexing():
            yield
    finally:
        _leave(tracer)


def _enter(tracer: Listener) -> None:
    with _lock:
        if not _library:
            library = _Library("_", "IMPL")
            library.fallback(_on_operator, _KEY)
            _library.append(library)
        if not active_tracers:
            _exchange()
        active_tracers.append(tracer)


def _leave(tracer: Listener) -> None:
    with _lock:
        active_tracers.remove(tracer)
        while not active_tracers and _undo:
            _undo.pop()()


def _on_operator(overload: Any, *args: Any, **kwargs: Any) -> object:
    with _below_key():
        tracer = current_tracer()
        return overload(*args, **kwargs) if tracer is None else tracer.called(overload, args, kwargs)


def _below_key() -> Any:
    return torch_internals.exclude_key(torch_internals.dispatch_key_set(torch_internals.dispatch_key(_KEY)))


# -- what is no operator


def _exchange() -> None:
    for name, made in _MEMBERS.items():
        _set(torch.Tensor, name, made)
    _ = torch_internals.function_apply, torch_internals.script_call  # torch's own, before ours take their place
    _set(torch.autograd.Function, "apply", classmethod(_apply))
    _set(torch.nn.Module, "_slow_forward", _module_forward)
    for number in (torch.SymInt, torch.SymFloat, torch.SymBool):
        _set(number, "__getattr__", method_of_tensor)
    for name, function in FUNCTIONS.items():
        _set(torch, name, function)
    for module, name, function in _SETTERS:
        _set(module, name, function)
    _set(torch_internals.script_class, "__call__", _torch_script)
    _set(torch_internals.builtins_of_scripts, "_find_builtin", _by_own_functions(torch_internals.builtins_of_scripts))
    _set(torch._C, "_get_tracing_state", get_tracing_state)
    _set(torch._C, "_is_tracing", is_tracing)


def _set(owner: object, name: str, made: object) -> None:
    original = vars(owner).get(name, _MISSING)
    setattr(owner, name, made)

    def put_back() -> None:
        if original is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, original)

    _undo.append(put_back)


_MISSING = object()


def _following(tensor: torch.Tensor) -> Listener | None:
    tracer = current_tracer()
    return tracer if tracer is not None and tracer.is_followed(tensor) else None


_Base: Any = PLAIN
_torchs_state = torch._C._get_tracing_state
_SETTERS = setters_of_generators()
_tensor_len: Callable[[torch.Tensor], int] = torch.Tensor.__len__
_tensor_iter: Callable[[torch.Tensor], Iterator[torch.Tensor]] = torch.Tensor.__iter__
_Library: Any = torch.library.Library  # which torch does not annotate


def example_type(tensor: torch.Tensor) -> T.TensorType | None:
    """All about a tensor, without a record of the question; None where sizes are no numbers or strides are unknown."""
    try:
        sizes = _Base.shape(tensor)
        strides = _Base.stride(tensor) if tensor.layout is torch.strided else None
        whole = all(type(n) is int for n in (*sizes, *(strides or ())))
        return T.TensorType.of(tensor.dtype, sizes, strides, tensor.device, tensor.requires_grad) if whole else None
    except (RuntimeError, NotImplementedError, KeyError):
        return None


def _shape(tensor: torch.Tensor) -> torch.Size:
    shape: torch.Size = _Base.shape(tensor)
    tracer = _following(tensor)
    return shape if tracer is None else torch.Size([tracer.size(tensor, d, n) for d, n in enumerate(shape)])


def _size(tensor: torch.Tensor, dim: Any = None) -> object:
    if _following(tensor) is None:
        return _Base.size(tensor) if dim is None else _Base.size(tensor, dim)
    if dim is None:
        return _shape(tensor)
    tracer, position = _following(tensor), int(dim)
    assert tracer is not None
    return tracer.size(tensor, position, _Base.size(tensor, position))


def _numel(tensor: torch.Tensor) -> object:
    tracer = _following(tensor)
    return _Base.numel(tensor) if tracer is None else tracer.numel(tensor, _Base.numel(tensor))


def _contiguous(tensor: torch.Tensor, memory_format: torch.memory_format = torch.contiguous_format) -> torch.Tensor:
    # torch does not call the operator where the tensor is contiguous already
    result: torch.Tensor = torch.ops.aten.contiguous.default(tensor, memory_format=memory_format)
    return result


def _data(tensor: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = _Base.data(tensor)
    tracer = current_tracer()
    if tracer is not None and (tracer.below_autograd or tracer.is_followed(tensor)):
        tracer.same_memory(tensor, found)
    return found


def _as_subclass(tensor: torch.Tensor, cls: type[torch.Tensor]) -> torch.Tensor:
    tracer = current_tracer()
    with _below_key():  # where an operator is Python's, its result is an object of the class Tensor already
        made: torch.Tensor = _Base.as_subclass(tensor, cls)
    if tracer is not None and tracer.sees_calls:
        tracer.same_memory(tensor, made, detached=False)
    return made


def _set_data(tensor: torch.Tensor, new: torch.Tensor) -> None:
    tracer = _following(tensor) or _following(new)
    if tracer is not None and not tracer.below_autograd:
        current_place().warn(
            "Assigning to .data is not recorded by the tracer: the trace will use the tensor as it was before."
        )
    with torch._C.DisableTorchFunction():
        torch._C.TensorBase.data.__set__(tensor, new)  # type: ignore[attr-defined]


def _len(tensor: torch.Tensor) -> int:
    if _following(tensor) is not None:
        current_place().warn(
            "Using len to get tensor shape might cause the trace to be incorrect. Recommended usage would be "
            "tensor.shape[0]. Passing a tensor of different shape might lead to errors or silently give incorrect "
            "results."
        )
    if current.tracer is None:
        return _tensor_len(tensor)
    if _Base.dim(tensor) == 0:
        raise TypeError("len() of a 0-d tensor")
    return int(_Base.size(tensor, 0))


def _iter(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    if current.tracer is None:
        return _tensor_iter(tensor)
    if _Base.dim(tensor) == 0:
        raise TypeError("iteration over a 0-d tensor")
    if current.tracer.known(tensor) is not None:
        current_place().warn(
            "Iterating over a tensor might cause the trace to be incorrect. Passing a tensor of different shape won't "
            "change the number of iterations executed (and might lead to errors or silently give incorrect results)."
        )
    return iter(tensor.unbind(0))


# -- what Python asks tensors for


class _Indexing(TorchFunctionMode):
    """Sees indices of tensors, for the thread that traces.

    Setting `Tensor.__getitem__` and deleting it again would leave a slot of the class filled that was empty before,
    and tensors would be sequences to C code from then on: `torch.tensor([t, t])` would raise for tensors without
    dimensions.
    """

    def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        _refuse_own_operators(args)
        if func is _GET_ITEM and _following(args[0]) is not None:
            return get_item(*args)
        if func is _SET_ITEM and _following(args[0]) is not None:
            return set_item(*args)
        return func(*args, **(kwargs or {}))


def _refuse_own_operators(args: tuple[object, ...]) -> None:
    """Where Python's kernels would get such tensors, torch ends with an internal assertion."""
    tracer = current_tracer()
    if tracer is not None and tracer.sees_calls:
        for argument in args:
            if isinstance(argument, torch.Tensor) and has_own_operators(argument):
                raise NO_TRACE.unsupported(OWN_OPERATORS.format(type(argument).__name__))


_GET_ITEM, _SET_ITEM = torch.Tensor.__getitem__, torch.Tensor.__setitem__


def _asking(name: str, what: str) -> Callable[..., object]:
    """A member of Tensor that gives the contents to Python; `what` says what as, nothing if there is no warning."""
    original = getattr(torch.Tensor, name)

    def member(tensor: torch.Tensor, *args: object, **kwargs: object) -> object:
        tracer = current_tracer()
        if tracer is None:
            return original(tensor, *args, **kwargs)
        with tracer.not_recording(), torch._C.DisableTorchFunction():
            found = original(tensor, *args, **kwargs)
        tracer.asked_for(tensor, found, what)
        return found

    member.__name__ = name
    return member


def _apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """`Function.apply`: its own way to differentiate is kept, as the call stays one of Python."""
    tracer, apply = current_tracer(), torch_internals.function_apply.__get__(None, cls)
    if tracer is None or kwargs:
        return apply(*args, **kwargs)
    return tracer.call_python(cls.__name__, apply, args)


def _torch_script(function: object, *args: object, **kwargs: object) -> Any:
    """The call of a function that torch.jit has compiled: of what it is converted to, so that control flow stays."""
    tracer = current_tracer()
    if tracer is None:
        return torch_internals.script_call.__get__(function, type(function))(*args, **kwargs)
    try:
        with tracer.not_recording():
            ours = converted_function(function)
    except NotSupportedError as error:
        current_place().warn(
            f"Calling a function of torch.jit that cannot be converted might cause the trace to be incorrect: its "
            f"control flow is recorded as the example has it. {error.message}"
        )
        return torch_internals.script_call.__get__(function, type(function))(*args, **kwargs)
    return ours(*args, **kwargs)


def _by_own_functions(builtins: Any) -> Callable[[object], object]:
    """What torch.jit looks functions up with: it compiles what a trace comes by, and knows torch's own alone."""
    find = builtins._find_builtin
    return lambda function: find(_torchs_state if function is get_tracing_state else own_function(function))


def _module_forward(module: torch.nn.Module, *args: object, **kwargs: object) -> Any:
    """What nn.Module calls in place of `forward` while a trace is going on."""
    tracer = current_tracer()
    return module.forward(*args, **kwargs) if tracer is None else tracer.call_module(module, args, kwargs)


_MEMBERS: dict[str, object] = {
    "shape": property(_shape), "size": _size, "numel": _numel, "nelement": _numel, "data": property(_data, _set_data),
    "contiguous": _contiguous, "as_subclass": _as_subclass, "new_tensor": new_tensor,
    "__len__": _len, "__iter__": _iter,
    "__int__": _asking("__int__", "Python integer"), "__float__": _asking("__float__", "Python float"),
    "__bool__": _asking("__bool__", "Python boolean"), "__index__": _asking("__index__", ""),
    "__complex__": _asking("__complex__", "Python number"), "tolist": _asking("tolist", "Python list"),
    "numpy": _asking("numpy", "NumPy array"),
}  # fmt: skip
"""Members of the class Tensor while a trace is going on."""
