"""The program as data: types, schemas, graphs, their text form and their verifier."""

from jitlite.ir import tensor_items  # imported for the operators that it declares
from jitlite.ir.parser import parse
from jitlite.ir.verify import verify

__all__ = ["parse", "tensor_items", "verify"]
