"""TorchScript archives: the files that `torch.jit.save` writes, read and written in pure Python."""

from typing import TYPE_CHECKING

from jitlite.base.on_demand import modules_on_demand

if TYPE_CHECKING:
    from jitlite.archive import save

__all__ = ["save"]

__getattr__, __dir__ = modules_on_demand(globals(), "jitlite.archive.save")
