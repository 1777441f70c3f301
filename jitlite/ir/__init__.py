"""The program as data: types, schemas, graphs, their text form and their verifier."""

# Imported for what they declare: a graph can be printed as soon as anything of this package is imported.
from jitlite.ir import printer, tensor_items
from jitlite.ir.parser import parse
from jitlite.ir.verify import verify

__all__ = ["parse", "printer", "tensor_items", "verify"]
