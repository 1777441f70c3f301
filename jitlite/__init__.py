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

from jitlite import ir, passes
from jitlite.api import (
    Attribute,
    CompilationUnit,
    Final,
    Future,
    _drop,
    _IgnoreContextManager,
    _overload,
    _overload_method,
    _unwrap_optional,
    annotate,
    export,
    ignore,
    interface,
    is_scripting,
    is_tracing,
    script,
    script_if_tracing,
    unused,
)
from jitlite.api import _isinstance as isinstance
from jitlite.concurrency import _awaitable, _awaitable_nowait, _awaitable_wait, fork, wait
from jitlite.drop_in import drop_in
from jitlite.script_containers import ScriptDict, ScriptList
from jitlite.script_function import ScriptFunction
from jitlite.script_module import RecursiveScriptModule, ScriptModule, script_method
from jitlite.source import CompileError, Error, NotSupportedError

__version__ = "0.1.0"

__all__ = [
    "Attribute", "CompilationUnit", "CompileError", "Error", "Final", "Future", "NotSupportedError",
    "RecursiveScriptModule", "ScriptDict", "ScriptFunction", "ScriptList", "ScriptModule", "_IgnoreContextManager",
    "_awaitable", "_awaitable_nowait", "_awaitable_wait", "_drop", "_overload", "_overload_method",
    "_unwrap_optional", "annotate", "drop_in", "export", "fork", "ignore", "interface", "ir", "is_scripting",
    "is_tracing", "isinstance", "passes", "script", "script_if_tracing", "script_method", "unused", "wait",
]  # fmt: skip
