"""jitlite: TorchScript without torch.jit.

import jitlite, torch

@jitlite.script
def f(x: torch.Tensor, n: int):
    for i in range(n):
        x = x + i
    return x

f(torch.ones(2), 3)
print(f.graph)
"""

from jitlite.doctor import is_asked

__version__ = "0.2.0"

if not is_asked():  # the doctor has to speak where the rest cannot be imported
    from jitlite import ir, passes
    from jitlite.api import (
        Attribute,
        BroadcastingList1,
        BroadcastingList2,
        BroadcastingList3,
        CompilationUnit,
        Final,
        Future,
        _drop,
        _IgnoreContextManager,
        _overload,
        _overload_method,
        _unique_state_dict,
        _unwrap_optional,
        annotate,
        enable_onednn_fusion,
        export,
        ignore,
        interface,
        is_scripting,
        is_tracing,
        onednn_fusion_enabled,
        overload,
        overload_method,
        save,
        script,
        script_if_tracing,
        unused,
    )
    from jitlite.api import _isinstance as isinstance
    from jitlite.archive.errors import ArchiveError
    from jitlite.archive.load import load
    from jitlite.archive.opnames import export_opnames
    from jitlite.background import wait_for_compilation
    from jitlite.bisection import bisect
    from jitlite.concurrency import _awaitable, _awaitable_nowait, _awaitable_wait, fork, wait
    from jitlite.converters.exported_program import to_exported
    from jitlite.converters.fx_graph import to_fx
    from jitlite.converters.python_out import PythonProgram, to_python
    from jitlite.drop_in import drop_in
    from jitlite.executor import last_executed_optimized_graph, optimized_execution
    from jitlite.freezing import freeze, optimize_for_inference, run_frozen_optimizations
    from jitlite.jit_names import (
        RecursiveScriptClass,
        ScriptWarning,
        _Await,
        _fork,
        _get_trace_graph,
        _hide_source_ranges,
        _isinstance,
        _script_if_tracing,
        _set_fusion_strategy,
        _wait,
        fuser,
        strict_fusion,
    )
    from jitlite.plans import set_fusion_strategy
    from jitlite.script_containers import ScriptDict, ScriptList
    from jitlite.script_function import ScriptFunction
    from jitlite.script_module import RecursiveScriptModule, ScriptModule, script_method
    from jitlite.source import CompileError, Error, NotSupportedError
    from jitlite.tracing import (
        TopLevelTracedModule,
        TracedModule,
        TracerWarning,
        TracingCheckError,
        autocast,
        trace,
        trace_module,
    )

__all__ = [
    "ArchiveError", "Attribute", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "CompilationUnit",
    "CompileError", "Error", "Final", "Future", "NotSupportedError", "PythonProgram", "RecursiveScriptClass",
    "RecursiveScriptModule", "ScriptDict", "ScriptFunction", "ScriptList", "ScriptModule", "ScriptWarning",
    "TopLevelTracedModule", "TracedModule", "TracerWarning", "TracingCheckError", "_Await", "_IgnoreContextManager",
    "_awaitable", "_awaitable_nowait", "_awaitable_wait", "_drop", "_fork", "_get_trace_graph", "_hide_source_ranges",
    "_isinstance", "_overload", "_overload_method", "_script_if_tracing", "_set_fusion_strategy", "_unique_state_dict",
    "_unwrap_optional", "_wait", "annotate", "autocast", "bisect", "drop_in", "enable_onednn_fusion", "export",
    "export_opnames", "fork", "freeze", "fuser", "ignore", "interface", "ir", "is_scripting", "is_tracing",
    "isinstance", "last_executed_optimized_graph", "load", "onednn_fusion_enabled", "optimize_for_inference",
    "optimized_execution", "overload", "overload_method", "passes", "run_frozen_optimizations", "save", "script",
    "script_if_tracing", "script_method", "set_fusion_strategy", "strict_fusion", "to_exported", "to_fx", "to_python",
    "trace", "trace_module", "unused", "wait", "wait_for_compilation",
]  # fmt: skip
