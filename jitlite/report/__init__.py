"""A page that shows every stage of a compilation: `fn.report()`, `jitlite report`."""

from typing import TYPE_CHECKING

from jitlite.base.on_demand import modules_on_demand

if TYPE_CHECKING:
    from jitlite.report import both, page, stages

__all__ = ["both", "page", "stages"]

__getattr__, __dir__ = modules_on_demand(
    globals(), "jitlite.report.both", "jitlite.report.page", "jitlite.report.stages"
)
