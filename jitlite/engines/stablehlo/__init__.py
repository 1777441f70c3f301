"""StableHLO: graphs of core ATen as text of MLIR, and the engine that IREE is."""

from typing import TYPE_CHECKING

from jitlite.base.on_demand import modules_on_demand

if TYPE_CHECKING:
    from jitlite.engines.stablehlo import module, runtime

__all__ = ["module", "runtime"]

__getattr__, __dir__ = modules_on_demand(
    globals(), "jitlite.engines.stablehlo.module", "jitlite.engines.stablehlo.runtime"
)
