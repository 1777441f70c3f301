"""The program as data: types, schemas, operators, graphs, their text form and their verifier."""

# Imported for what they declare: operators can be looked up and graphs printed as soon as anything of this package is
# imported.
from jitlite.ir import (
    builtin_functions,
    containers,
    gradient_prims,
    pass_prims,
    prims,
    printer,
    scalars,
    strings,
    tensor_items,
    tensors,
)
from jitlite.ir.parser import parse
from jitlite.ir.verify import verify

__all__ = [
           "builtin_functions",
           "containers",
           "gradient_prims",
           "parse",
           "pass_prims",
           "prims",
           "printer",
           "scalars",
           "strings",
           "tensor_items",
           "tensors",
           "verify",
]  # fmt: skip
