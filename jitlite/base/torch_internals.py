"""What jitlite uses of torch that torch does not document.

torch may drop or change such a name in any release. Those that some release lacks, or that may well go, are declared
here: what each is for, where torch has it, what is used instead, and what is lost then. A name is looked up and tried
when it is first used, as an attribute of this module; importing jitlite leans on none of them:

    from jitlite.base import torch_internals

    if torch_internals.is_exporting(): ...

Names that every supported version of torch has are used in place, under torch's own name; `USED_IN_PLACE` lists them,
and a test finds a name that is in neither list. `jitlite doctor` tries all of them, and imports this module where the
rest of jitlite cannot be imported: nothing is imported here before it is needed but the standard library and `base/`.
"""

from __future__ import annotations

import ctypes
import importlib
import inspect
import math
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import field
from types import SimpleNamespace
from typing import Any

from jitlite.base.errors.inside import TORCH_LACKS
from jitlite.base.records import Record
from jitlite.base.source import NotSupportedError

OLDEST = (2, 6)
"""The oldest version of torch that jitlite works with; setup.cfg asks for it."""
TESTED = ((2, 6), (2, 9), (2, 13), (2, 14), (2, 15))
"""The versions of torch that jitlite has been tried with; docs/versions.md says how."""


class Internal(Record, eq=True):
    """A part of torch that is not documented.

    Attributes:
        places: the names under which torch has it, best first.
        purpose: what it is for.
        lost: what does not work, or works less well, where torch has it under none of these names.
        fallback: makes what is used then; without one, `NotSupportedError` is raised at the first use.
        trial: raises if what was found is not what it should be.
        adapt: for a place, what makes the part of what is found there.
    """

    places: tuple[str, ...]
    purpose: str
    lost: str
    fallback: Callable[[], Any] | None = None
    trial: Callable[[Any], object] | None = None
    adapt: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)


class State(Record, eq=True):
    """What became of an `Internal` with this torch.

    Attributes:
        place: the name that torch has it under; None where the fallback is used, or nothing.
        reason: why it is not found under any of its names; empty if it is.
        value: what is used.
        usable: is there something to use?
    """

    place: str | None
    reason: str
    value: Any
    usable: bool


class KeyQuestion(Record, eq=True):
    """A C function that tells whether a dispatch key is included in the calling thread.

    Attributes:
        address: of the function, which takes 16 bits and gives a bool.
        key: what it is to be asked.
    """

    address: int
    key: int


def find(declared: Internal) -> State:
    """Look a part of torch up, and try it."""
    reasons = []
    for place in declared.places:
        try:
            value = resolve(place)
            if place in declared.adapt:
                value = declared.adapt[place](value)
            if declared.trial is not None:
                declared.trial(value)
        except Exception as error:
            reasons.append(f"{place}: {type(error).__name__}: {error}")
        else:
            return State(place, "", value, True)
    try:
        if declared.fallback is not None:
            return State(None, "; ".join(reasons), declared.fallback(), True)
    except Exception as error:
        reasons.append(f"what is used instead: {type(error).__name__}: {error}")
    return State(None, "; ".join(reasons), None, False)


def resolve(place: str) -> Any:
    """What a dotted name means; modules on the way are imported. A class gives its members as they are stored.

    Raises:
        ImportError: where a module cannot be imported.
        AttributeError: where there is no such name.
    """
    head, *rest = place.split(".")
    found: Any = importlib.import_module(head)
    path = head
    for name in rest:
        path = f"{path}.{name}"
        if inspect.ismodule(found) and not hasattr(found, name) and hasattr(found, "__path__"):
            found = importlib.import_module(path)
        else:
            found = inspect.getattr_static(found, name) if inspect.isclass(found) else getattr(found, name)
    return found


def __getattr__(name: str) -> Any:
    """A declared part of torch, looked up once.

    Raises:
        AttributeError: for a name that is not declared.
        NotSupportedError: where this torch does not have it and nothing can be used instead.
    """
    declared = INTERNALS.get(name)
    if declared is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    state = find(declared)
    if not state.usable:
        raise _missing(declared, state.reason)
    globals()[name] = state.value
    return state.value


def _missing(declared: Internal, reason: str) -> NotSupportedError:
    return TORCH_LACKS(
        f"this version of torch has no {declared.places[0]}, which is needed for {declared.purpose}",
        notes=[reason] if reason else [],
        hint="`jitlite doctor` lists what works with this version of torch",
    )


def forget() -> None:
    """Look everything up anew at its next use; for tests."""
    for name in INTERNALS:
        globals().pop(name, None)


# -- trials


def _callable(found: object) -> None:
    if not callable(found):
        raise TypeError("it cannot be called")


def _answers(kind: type | tuple[type, ...]) -> Callable[[Any], None]:
    """Called without arguments, it gives a value of this type."""

    def trial(found: Any) -> None:
        answer = found()
        if not isinstance(answer, kind):
            raise TypeError(f"it gives {type(answer).__name__}")

    return trial


def _binds_to_a_class(found: Any) -> None:
    torch: Any = importlib.import_module("torch")
    _callable(found.__get__(None, torch.autograd.Function))


def _knows_our_key(found: Any) -> None:
    if "Undefined" in str(found("DeferredInit")):
        raise ValueError("it does not know the key DeferredInit")


def _finds_functions(found: Any) -> None:
    if found._find_builtin(math.floor) != "aten::floor":
        raise ValueError("it does not know math.floor")


# -- adaptations


def _reading_the_flag(_: object) -> Callable[[], bool]:
    """Before torch had `is_exporting`, only torch.export set this flag."""
    compiler: Any = importlib.import_module("torch.compiler")
    return lambda: bool(compiler._is_compiling_flag)


def _unless_compiling(is_tracing: Callable[[], bool]) -> Callable[[], bool]:
    """torch.export traces as well, and what it makes is a program for itself."""
    compiler: Any = importlib.import_module("torch.compiler")
    return lambda: bool(is_tracing() and not compiler.is_compiling())


def _skipping(set_strategy: Callable[..., None]) -> Callable[[Any], None]:
    """Set the strategy of a code object: Dynamo skips its frames, and those of all that they call."""
    eval_frame: Any = importlib.import_module("torch._C._dynamo.eval_frame")
    skip = eval_frame._FrameAction.SKIP
    return lambda code: set_strategy(code, eval_frame._FrameExecStrategy(skip, skip))


def _marks_code(leave: Callable[[Any], None]) -> None:
    leave((lambda: None).__code__)


def _asked_in_c(is_included: Callable[[Any], bool]) -> KeyQuestion:
    """The function of C++ that stands behind `is_included`, if it gives the same."""
    torch: Any = importlib.import_module("torch")
    key = torch._C._dispatch_key_parse("Tracer")
    library = "libc10.dylib" if sys.platform == "darwin" else "libc10.so"
    loaded = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", library))
    function = getattr(loaded, _IS_INCLUDED)
    function.restype, function.argtypes = ctypes.c_bool, (ctypes.c_uint16,)
    before = function(int(key)), is_included(key)
    with torch._C._IncludeDispatchKeyGuard(key):
        within = function(int(key)), is_included(key)
    if before != (False, False) or within != (True, True):
        raise ValueError("it gives something else")
    return KeyQuestion(ctypes.cast(function, ctypes.c_void_p).value or 0, int(key))


_IS_INCLUDED = "_ZN3c104impl28tls_is_dispatch_key_includedENS_11DispatchKeyE"
"""`c10::impl::tls_is_dispatch_key_included(DispatchKey)`."""


# -- fallbacks


def _constantly(value: object) -> Callable[[], Callable[..., Any]]:
    """A fallback: a function that gives this value, whatever its arguments."""
    return lambda: lambda *args: value


def _no_builtins() -> Any:
    return SimpleNamespace(_find_builtin=None)


def _no_printer() -> Any:
    return SimpleNamespace(__file__="")


def _refusing_class(name: str) -> Callable[[], type]:
    """A fallback for a class that others are derived from: the refusal comes when one of these is made."""

    def refuse(self: object, *args: object, **kwargs: object) -> None:
        raise _missing(INTERNALS[name], "")

    return lambda: type(name, (), {"__init__": refuse})


def _stand_in(name: str) -> Callable[[], type]:
    """A fallback for a class of torch's: one of which there are no objects."""
    return lambda: type(name, (), {})


_TRACE = "jitlite.trace and trace_module"
_DISPATCH = "traces below autograd, torch.compile and to_core_aten"
_SYMBOLS = "traces with dynamic_shapes, and passes.to_core_aten"
_BACKEND = 'torch.compile(backend="jitlite")'

INTERNALS: dict[str, Internal] = {
    # tracing
    "function_apply": Internal(
        ("torch.autograd.Function.apply",),
        "traces of calls of autograd functions", _TRACE, trial=_binds_to_a_class,
    ),
    "script_class": Internal(
        ("torch._C.ScriptFunction",),
        "functions of torch.jit in traces", "control flow of functions of torch.jit in traces",
        fallback=_stand_in("ScriptFunction"),
    ),
    "script_call": Internal(
        ("torch._C.ScriptFunction.__call__",),
        "functions of torch.jit in traces", "control flow of functions of torch.jit in traces",
        fallback=_constantly(None), trial=lambda found: found.__get__,
    ),
    "builtins_of_scripts": Internal(
        ("torch.jit._builtins",),
        "functions that torch.jit compiles in traces", "functions that torch.jit compiles in traces",
        fallback=_no_builtins, trial=_finds_functions,
    ),
    "dispatch_key": Internal(
        ("torch._C._dispatch_key_parse",),
        "seeing operators above autograd", _TRACE, trial=_knows_our_key,
    ),
    "dispatch_key_set": Internal(("torch._C.DispatchKeySet",), "seeing operators above autograd", _TRACE),
    "include_key": Internal(("torch._C._IncludeDispatchKeyGuard",), "seeing operators above autograd", _TRACE),
    "exclude_key": Internal(("torch._C._ExcludeDispatchKeyGuard",), "seeing operators above autograd", _TRACE),
    "is_key_excluded": Internal(
        ("torch._C._dispatch_tls_is_dispatch_key_excluded",),
        "telling the user's detach from autograd's", _DISPATCH,
    ),
    "is_functorch_tensor": Internal(
        ("torch._C._functorch.is_functorch_wrapped_tensor",),
        "traces that call functorch's transforms", "values of tensors under functorch's transforms in traces",
        fallback=_constantly(False), trial=_callable,
    ),
    "autograd_node": Internal(
        ("torch._C._current_autograd_node",),
        "lines of backward passes in traces", "operators of a backward pass do not know the line they differentiate",
        fallback=_constantly(None), trial=lambda found: found(),
    ),
    "autograd_sequence_number": Internal(
        ("torch.autograd._get_sequence_nr", "torch._C._autograd._get_sequence_nr"),
        "lines of backward passes in traces", "operators of a backward pass do not know the line they differentiate",
        fallback=_constantly(0), trial=_answers(int),
    ),
    "printer_of_tensors": Internal(
        ("torch._tensor_str",),
        "printing of tensors in traces", "a tensor printed in a trace below autograd is recorded as read",
        fallback=_no_printer,
    ),
    # execution
    "functorch_level": Internal(
        ("torch._C._functorch.peek_interpreter_stack",),
        "leaving operators to functorch's transforms", "functorch's transforms of functions with symbolic gradients",
        fallback=_constantly(None), trial=lambda found: found(),
    ),
    "saved_tensor_hooks": Internal(
        ("torch._C._autograd._top_saved_tensors_default_hooks",),
        "noticing hooks on saved tensors before a call is forked",
        "hooks on saved tensors (torch.autograd.graph) are not called by what is forked",
        fallback=_constantly(None), trial=lambda found: found(False),
    ),
    "is_recorded_in_c": Internal(
        ("torch._C._dispatch_tls_is_dispatch_key_included",),
        "telling in machine code whether torch's tracer records a thread", "calls of scripts take longer",
        fallback=lambda: None, adapt={"torch._C._dispatch_tls_is_dispatch_key_included": _asked_in_c},
    ),
    "is_profiler_on": Internal(
        ("torch._C._autograd._profiler_enabled",),
        "noticing a profiler before a call is forked", "a profiler may not see what is forked",
        fallback=_constantly(False), trial=_answers(bool),
    ),
    "privateuse_backend": Internal(
        ("torch._C._get_privateuse1_backend_name",),
        "autocast of other devices in forked calls", "autocast of devices that other packages add, in forked calls",
        fallback=_constantly("privateuseone"), trial=_answers(str),
    ),
    # scripts
    "await_class": Internal(
        ("torch._awaits._Await",), "torch's awaitables in annotations", "torch's own awaitables (jitlite has its own)",
        fallback=_stand_in("_Await"),
    ),
    "await_base": Internal(
        ("torch._C._Await",), "torch's awaitables as arguments", "torch's own awaitables (jitlite has its own)",
        fallback=_stand_in("_AwaitBase"),
    ),
    "infer_size": Internal(
        ("torch._C._infer_size",), "scripts that call it", "scripts that call torch._C._infer_size",
        fallback=_constantly(None),
    ),
    "cpu_capability": Internal(
        ("torch._C._get_cpu_capability", "torch.backends.cpu.get_cpu_capability"),
        "scripts that call it", "scripts that call torch.backends.cpu.get_cpu_capability",
        fallback=_constantly("DEFAULT"), trial=_answers(str),
    ),
    # other programs from scripts
    "is_fx_tracing": Internal(
        ("torch.fx._symbolic_trace.is_fx_symbolic_tracing", "torch.fx._symbolic_trace.is_fx_tracing"),
        "refusing to trace an FX graph anew where that would freeze values",
        "FX graphs that cannot be traced anew do not say so",
        fallback=_constantly(False), trial=_answers(bool),
        adapt={"torch.fx._symbolic_trace.is_fx_tracing": _unless_compiling},
    ),
    "is_exporting": Internal(
        ("torch.compiler.is_exporting", "torch.compiler._is_compiling_flag"),
        "control flow that torch.export records", "branches and loops on open values become those of the example",
        fallback=_constantly(False), trial=_answers(bool),
        adapt={"torch.compiler._is_compiling_flag": _reading_the_flag},
    ),
    "sym_sqrt": Internal(
        ("torch._sym_sqrt",),
        "square roots of sizes in exported programs", "math.sqrt of a size that may vary",
        fallback=lambda: math.sqrt,
    ),
    "assert_async": Internal(
        ("torch._assert_async",), "assertions in exported programs", "assertions about contents of tensors",
    ),
    "preserve_node_meta": Internal(
        ("torch.fx.traceback.preserve_node_meta",),
        "lines of scripts in exported programs", "nodes of exported programs do not know their line",
        fallback=lambda: nullcontext,
    ),
    "magic_methods": Internal(
        ("torch.fx.graph.magic_methods",),
        "telling which FX modules can be traced again", "more FX modules than need be are pickled as lists of nodes",
        fallback=dict,
    ),
    # symbols and decompositions
    "Source": Internal(("torch._guards.Source",), "naming sizes that may vary", _SYMBOLS),
    "ConstantSource": Internal(("torch._dynamo.source.ConstantSource",), "naming sizes that may vary", _SYMBOLS),
    "FakeTensor": Internal(("torch._subclasses.FakeTensor",), "tensors without contents", _SYMBOLS),
    "FakeTensorMode": Internal(
        ("torch._subclasses.FakeTensorMode", "torch._subclasses.fake_tensor.FakeTensorMode"),
        "tensors without contents", _SYMBOLS,
    ),
    "ShapeEnv": Internal(
        ("torch.fx.experimental.symbolic_shapes.ShapeEnv",), "sizes that may vary", _SYMBOLS,
        fallback=_refusing_class("ShapeEnv"),
    ),
    "DimDynamic": Internal(("torch.fx.experimental.symbolic_shapes.DimDynamic",), "sizes that may vary", _SYMBOLS),
    "StatelessSymbolicContext": Internal(
        ("torch.fx.experimental.symbolic_shapes.StatelessSymbolicContext",), "sizes that may vary", _SYMBOLS,
    ),
    "sympy_functions": Internal(("torch.utils._sympy.functions",), "arithmetic with sizes that may vary", _SYMBOLS),
    "python_dispatcher": Internal(
        ("torch._dispatch.python.enable_python_dispatcher",), "decompositions written in Python", _SYMBOLS,
    ),
    "no_dispatch": Internal(("torch.utils._mode_utils.no_dispatch",), "decompositions written in Python", _SYMBOLS),
    "decomposition_table": Internal(
        ("torch._decomp.decomposition_table",), "what operators are made of", "passes.to_core_aten",
    ),
    "core_aten_decompositions": Internal(
        ("torch._decomp.core_aten_decompositions", "torch.export.default_decompositions"),
        "what operators are made of", "passes.to_core_aten, and decompositions in torch.compile", trial=_callable,
    ),
    "make_fx": Internal(
        ("torch.fx.experimental.proxy_tensor.make_fx",),
        "operators that only a decomposition explains", "FX graphs with operators that have no kernel of their own",
    ),
    # torch.compile
    "leave_code_to_python": Internal(
        ("torch._C._dynamo.eval_frame.set_code_exec_strategy", "torch._C._dynamo.eval_frame.skip_code"),
        "keeping Dynamo out of the interpreter", "torch.compile of code that calls scripts takes longer",
        fallback=_constantly(None), trial=_marks_code,
        adapt={"torch._C._dynamo.eval_frame.set_code_exec_strategy": _skipping},
    ),
    "aot_autograd": Internal(("torch._dynamo.backends.common.aot_autograd",), "taking Dynamo's graphs", _BACKEND),
    "default_partition": Internal(
        ("torch._functorch.partitioners.default_partition",), "dividing forward from backward pass", _BACKEND,
    ),
    "min_cut_partition": Internal(
        ("torch._functorch.partitioners.min_cut_rematerialization_partition",),
        "dividing forward from backward pass", f'{_BACKEND} with the option partitioner="min_cut"',
    ),
}  # fmt: skip
"""Every part of torch's inside that may be missing, by its name here."""

USED_IN_PLACE: dict[str, tuple[str, ...]] = {
    "classes of torch, and trees of values": (
        "torch._C.TensorBase", "torch._ops.OpOverload", "torch._ops.OpOverloadPacket", "torch._ops.HigherOrderOperator",
        "torch.utils._python_dispatch.TorchDispatchMode", "torch.utils._pytree", "torch.utils._pytree.GetAttrKey",
        "torch.utils._pytree.KeyEntry", "torch.utils._pytree.SUPPORTED_NODES", "torch.utils._pytree.TreeSpec",
        "torch.utils._pytree.keystr", "torch.utils._pytree.register_pytree_node", "torch.utils._pytree.tree_flatten",
        "torch.utils._pytree.tree_flatten_with_path", "torch.utils._pytree.tree_map",
        "torch.utils._pytree.tree_map_only", "torch.utils._pytree.tree_unflatten", "torch._C.Future",
    ),
    "what the dispatcher knows": (
        "torch._C._dispatch_get_all_op_names", "torch._C._dispatch_has_kernel",
        "torch._C._dispatch_has_kernel_for_dispatch_key", "torch._C._dispatch_keys",
        "torch._C._dispatch_tls_local_include_set", "torch._C._dispatch_tls_local_exclude_set",
    ),
    "what scripts call, and how torch spells operators": (
        "torch._C._nn", "torch._C._fft", "torch._C._linalg", "torch._C._nested", "torch._C._sparse",
        "torch._C._special", "torch._C._VariableFunctions", "torch._VF", "torch.nn.modules.utils._list_with_default",
        "torch.nn.modules.utils._pair", "torch.nn.modules.utils._quadruple", "torch.nn.modules.utils._single",
        "torch.nn.modules.utils._triple",
    ),
    "marks of functions, and functions with several meanings": (
        "torch._jit_internal", "torch._jit_internal.BroadcastingList1", "torch._jit_internal.BroadcastingList2",
        "torch._jit_internal.BroadcastingList3", "torch._jit_internal.FunctionModifiers",
        "torch._jit_internal.FunctionModifiers._DROP", "torch._jit_internal._drop",
        "torch._jit_internal._get_overloaded_methods", "torch._jit_internal._isinstance",
        "torch._jit_internal._overload", "torch._jit_internal._overload_method",
        "torch._jit_internal._overloaded_fns", "torch._jit_internal._qualified_name",
        "torch._jit_internal.boolean_dispatched", "torch._jit_internal.export", "torch._jit_internal.ignore",
        "torch._jit_internal.is_final", "torch._jit_internal.is_scripting", "torch._jit_internal.unused",
    ),
    "modes": (
        "torch._C.DisableTorchFunction", "torch._C.DisableTorchFunctionSubclass", "torch._C._DisableAutocast",
        "torch._C._InferenceMode", "torch._C._get_mkldnn_enabled", "torch._C._get_tracing_state",
        "torch._C._is_any_autocast_enabled", "torch._C._is_fwd_grad_enabled", "torch._C._is_tracing",
        "torch._C._len_torch_dispatch_stack", "torch._C._len_torch_function_stack", "torch._C._set_fwd_grad_enabled",
        "torch._C._set_grad_enabled", "torch._C._set_mkldnn_enabled", "torch.autograd.forward_ad._current_level",
    ),
    "tensors of archives": (
        "torch._neg_view", "torch._empty_affine_quantized", "torch._empty_per_channel_affine_quantized",
    ),
    "FX graphs and exported programs": (
        "torch._assert", "torch._check", "torch._C._is_alias_of", "torch.fx.node.has_side_effect",
        "torch.fx.immutable_collections.immutable_dict", "torch.fx.immutable_collections.immutable_list",
        "torch.fx.proxy.TraceError",
    ),
}  # fmt: skip
"""Names that all supported versions of torch have, used where they are needed under torch's own name, by purpose."""
