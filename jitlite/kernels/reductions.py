from __future__ import annotations

from jitlite.kernels.context import KernelCode
from jitlite.kernels.loop_ir import Reduce


def emit_reduce(kc: KernelCode, reduce: Reduce) -> None:
    raise NotImplementedError
