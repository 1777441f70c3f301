"""Reading archives."""

from typing import TYPE_CHECKING

from jitlite.base.on_demand import modules_on_demand

if TYPE_CHECKING:
    from jitlite.loading import load

__all__ = ["load"]

__getattr__, __dir__ = modules_on_demand(globals(), "jitlite.loading.load")
