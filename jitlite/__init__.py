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
    CompilationUnit,
    Final,
    Future,
    ScriptFunction,
    annotate,
    export,
    fork,
    ignore,
    is_scripting,
    is_tracing,
    script,
    unused,
    wait,
)
from jitlite.api import _isinstance as isinstance
from jitlite.source import CompileError, Error, NotSupportedError

__version__ = "0.1.0"

__all__ = [
    "CompilationUnit", "CompileError", "Error", "Final", "Future", "NotSupportedError", "ScriptFunction", "annotate",
    "export", "fork", "ignore", "ir", "is_scripting", "is_tracing", "isinstance", "passes", "script", "unused", "wait",
]  # fmt: skip
