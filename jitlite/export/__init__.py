"""Ways out: compiled programs as something else, such as Python source."""

from typing import TYPE_CHECKING

from jitlite.base.on_demand import modules_on_demand

if TYPE_CHECKING:
    from jitlite.export.to_fx import exported_program, fx_graph
    from jitlite.export.to_python import python_out

__all__ = ["exported_program", "fx_graph", "python_out"]

__getattr__, __dir__ = modules_on_demand(
    globals(), "jitlite.export.to_fx.exported_program", "jitlite.export.to_fx.fx_graph",
    "jitlite.export.to_python.python_out",
)  # fmt: skip
