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

import sys
from typing import TYPE_CHECKING

from jitlite.base.command_line import asks_for_doctor
from jitlite.base.garbage import uncollected
from jitlite.base.on_demand import names_on_demand

if TYPE_CHECKING:
    from jitlite.api.compare import compare
    from jitlite.api.from_exported import from_exported
    from jitlite.api.jit_names import (
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
    from jitlite.api.on_cpu import on_cpu
    from jitlite.api.opnames import export_opnames
    from jitlite.api.optimize import optimize
    from jitlite.api.to_onnx import to_onnx
    from jitlite.api.to_stablehlo import to_stablehlo
    from jitlite.api.trace import (
        TopLevelTracedModule,
        TracedModule,
        TracerWarning,
        TracingCheckError,
        autocast,
        trace,
        trace_module,
    )
    from jitlite.archive.errors import ArchiveError
    from jitlite.compat.drop_in import drop_in
    from jitlite.debug.bisect import bisect
    from jitlite.export.to_fx.exported_program import to_exported
    from jitlite.export.to_fx.fx_graph import to_fx
    from jitlite.export.to_python.python_out import PythonProgram, to_python
    from jitlite.loading.load import load
    from jitlite.objects.run_report import report_run

__version__ = "0.2.0"

if not asks_for_doctor():  # the doctor has to speak where the rest cannot be imported
    with uncollected():
        from jitlite import ir, passes
        from jitlite.api import torch_compile as backend
        from jitlite.api.fork import _awaitable, _awaitable_nowait, _awaitable_wait, fork, wait
        from jitlite.api.report import report, report_side_by_side
        from jitlite.api.script import (
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
        from jitlite.api.script import _isinstance as isinstance
        from jitlite.base import options
        from jitlite.base.background import wait_for_compilation
        from jitlite.base.source import CompileError, Error, NotSupportedError
        from jitlite.compat import testing
        from jitlite.compiler import fx_graphs
        from jitlite.debug import equality

        # `jitlite.debug` and `jitlite.report` are functions from here on; the rooms are found by imports all the same
        from jitlite.debug.stepping import debug, debug_with, post_mortem
        from jitlite.executor.gradient_graphs import last_executed_gradient_graph
        from jitlite.executor.last_run import last_executed_optimized_graph
        from jitlite.executor.plans import optimized_execution, set_fusion_strategy
        from jitlite.freeze.freeze import freeze, optimize_for_inference, run_frozen_optimizations
        from jitlite.objects.containers import ScriptDict, ScriptList
        from jitlite.objects.function import ScriptFunction
        from jitlite.objects.module import RecursiveScriptModule, ScriptModule, script_method

    # What not every program uses: it is imported when it is asked for.
    __getattr__, __dir__ = names_on_demand(
        globals(),
        {
            "jitlite.api.jit_names":
                "RecursiveScriptClass ScriptWarning _Await _fork _get_trace_graph _hide_source_ranges "
                "_isinstance _script_if_tracing _set_fusion_strategy _wait fuser strict_fusion",
            "jitlite.api.from_exported": "from_exported",
            "jitlite.api.on_cpu": "on_cpu",
            "jitlite.api.opnames": "export_opnames",
            "jitlite.api.compare": "compare",
            "jitlite.api.optimize": "optimize",
            "jitlite.objects.run_report": "report_run",
            "jitlite.api.to_onnx": "to_onnx",
            "jitlite.api.to_stablehlo": "to_stablehlo",
            "jitlite.api.trace":
                "TopLevelTracedModule TracedModule TracerWarning TracingCheckError autocast trace "
                "trace_module",
            "jitlite.archive.errors": "ArchiveError",
            "jitlite.compat.drop_in": "drop_in",
            "jitlite.debug.bisect": "bisect",
            "jitlite.export.to_fx.exported_program": "to_exported",
            "jitlite.export.to_fx.fx_graph": "to_fx",
            "jitlite.export.to_python.python_out": "PythonProgram to_python",
            "jitlite.loading.load": "load",
        },
    )  # fmt: skip

    # What users import as modules. The files have their places by what they do.
    _MODULES = {
        "backend": backend, "equality": equality, "fx_graphs": fx_graphs, "options": options, "testing": testing,
    }  # fmt: skip
    sys.modules.update({f"{__name__}.{name}": module for name, module in _MODULES.items()})

__all__ = [
    "ArchiveError", "Attribute", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "CompilationUnit",
    "CompileError", "Error", "Final", "Future", "NotSupportedError", "PythonProgram", "RecursiveScriptClass",
    "RecursiveScriptModule", "ScriptDict", "ScriptFunction", "ScriptList", "ScriptModule", "ScriptWarning",
    "TopLevelTracedModule", "TracedModule", "TracerWarning", "TracingCheckError", "_Await", "_IgnoreContextManager",
    "_awaitable", "_awaitable_nowait", "_awaitable_wait", "_drop", "_fork", "_get_trace_graph", "_hide_source_ranges",
    "_isinstance", "_overload", "_overload_method", "_script_if_tracing", "_set_fusion_strategy", "_unique_state_dict",
    "_unwrap_optional", "_wait", "annotate", "autocast", "bisect", "compare", "debug", "debug_with", "drop_in",
    "enable_onednn_fusion", "export", "export_opnames", "fork", "freeze", "from_exported", "fuser", "ignore",
    "interface", "ir",
    "is_scripting", "is_tracing", "isinstance", "last_executed_gradient_graph",
    "last_executed_optimized_graph", "load", "on_cpu", "onednn_fusion_enabled",
    "optimize", "optimize_for_inference", "optimized_execution", "overload", "overload_method", "passes",
    "post_mortem", "report", "report_run", "report_side_by_side", "run_frozen_optimizations", "save", "script",
    "script_if_tracing",
    "script_method", "set_fusion_strategy", "strict_fusion", "to_exported", "to_fx", "to_onnx", "to_python",
    "to_stablehlo", "trace", "trace_module", "unused", "wait", "wait_for_compilation",
]  # fmt: skip
