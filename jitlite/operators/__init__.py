"""What operators are: declarations, overloads, conversions, and the rules for each."""

# Imported for what they declare: operators can be looked up as soon as anything of this package is imported.
from jitlite.operators import (
    aliases,
    builtin_functions,
    containers,
    debug_prims,
    dispatcher,
    exception_prims,
    gradient_prims,
    pass_prims,
    prims,
    printing,
    scalars,
    sets,
    strings,
    tensors,
)

__all__ = [
    "aliases", "builtin_functions", "containers", "debug_prims", "dispatcher", "exception_prims", "gradient_prims",
    "pass_prims", "prims", "printing", "scalars", "sets", "strings", "tensors",
]  # fmt: skip
