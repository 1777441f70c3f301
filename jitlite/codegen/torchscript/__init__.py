"""A graph as the TorchScript of an archive."""

from typing import TYPE_CHECKING

from jitlite.base.on_demand import modules_on_demand

if TYPE_CHECKING:
    from jitlite.codegen.torchscript import source_out

__all__ = ["source_out"]

__getattr__, __dir__ = modules_on_demand(globals(), "jitlite.codegen.torchscript.source_out")
