"""Names of torch.jit that programs use, and that ask for nothing that jitlite would do in another way.

torch.jit has some more that are not here: `ONNXTracedModule`, which belongs to torch's export to ONNX, and
`save_jit_module_to_flatbuffer` and `jit_module_from_flatbuffer`, as a flatbuffer is not TorchScript's archive.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from jitlite.api import fork as concurrency
from jitlite.api import script as api
from jitlite.api import trace as tracing
from jitlite.executor import plans
from jitlite.ir.awaits import Await
from jitlite.ir.printer import hiding_ranges
from jitlite.ir.values import class_type_of

_Await = Await
_fork, _wait = concurrency.fork, concurrency.wait
_get_trace_graph = tracing.trace_graph
_isinstance = api._isinstance
_script_if_tracing = api.script_if_tracing
_set_fusion_strategy = plans.set_fusion_strategy

_FUSERS = ("fuser0", "fuser1", "fuser2", "fuser3", "none")


class ScriptWarning(Warning):
    """The category of torch.jit's warnings about scripts. jitlite raises an error, or says nothing."""


class strict_fusion:
    """`with strict_fusion():` in a script, which changes nothing: what jitlite fuses gives what the script gives.

    torch.jit raises there where its fuser has left an operator out. `f.explain(...)` says what jitlite does.
    """

    def __init__(self) -> None:
        warnings.warn("strict_fusion only works in scripts", stacklevel=2)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


@contextmanager
def fuser(name: str) -> Iterator[None]:
    """Choose one of torch.jit's fusers, none of which jitlite has: it goes its own way, whatever is chosen.

    Raises:
        ValueError: torch.jit knows no fuser of this name.
    """
    if name not in _FUSERS:
        raise ValueError(f"unrecognized fuser '{name}': there are {', '.join(_FUSERS)}")
    yield


class _HasClassType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return not isinstance(instance, type | torch.nn.Module) and class_type_of(instance) is not None


class RecursiveScriptClass(metaclass=_HasClassType):
    """What `isinstance` is asked for: is it an object of a script class? Such an object is Python's own."""


_hide_source_ranges = hiding_ranges
