"""Arguments that torch's Python functions take and the operators behind them do not.

`torch.zeros(3, requires_grad=True)` is `aten::zeros` followed by `aten::requires_grad_`; `x.nonzero(as_tuple=True)` is
`aten::nonzero_numpy`; `torch.max(x, 0, out=(a, b))` is `aten::max` with a keyword for each of the two.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.base.errors.calls import KNOWN_WHEN_COMPILED
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.ir import ops
from jitlite.ir import types as T
from jitlite.ir.graph import Value, constant_of, is_constant
from jitlite.operators.overloads import NamedValue


def call_operator(
    b: Builder,
    range: SourceRange,
    name: str,
    args: Sequence[NamedValue],
    kwargs: Sequence[NamedValue],
    self_value: NamedValue | None = None,
    candidates: Sequence[ops.Op] | None = None,
) -> Value:
    """Call an operator as its Python function is called.

    Raises:
        CompileError: where no overload fits.
    """
    if candidates is None:
        kwargs = [given for keyword in kwargs for given in _each_out(b, name, keyword)]
        for keyword in kwargs:
            rest = [k for k in kwargs if k is not keyword]
            if keyword.name == "requires_grad" and _is_factory(name):
                made = b.op(name, args, rest, range, self_value)
                return b.op("aten::requires_grad_", [made, keyword], range=range)
            if keyword.name == "as_tuple" and name == "aten::nonzero":
                wanted = "aten::nonzero_numpy" if _flag(b, keyword) else name
                return b.op(wanted, args, rest, range, self_value)
    return b.op(name, args, kwargs, range, self_value, candidates)


def _each_out(b: Builder, name: str, keyword: NamedValue) -> list[NamedValue]:
    """`out=(a, b)` as a keyword for each result, named as the overloads with so many results name them."""
    given = keyword.value
    if keyword.name == "out" and given is not None and isinstance(given.type, T.TupleType):
        for operator in ops.lookup(name):
            outs = [a.name for a in operator.schema.arguments if a.kwarg_only and a.is_write]
            if len(outs) == len(given.type.elements) > 1:
                values = b.unpack_tuple(given)
                return [NamedValue(out, v, range=keyword.range) for out, v in zip(outs, values, strict=True)]
    return [keyword]


def _is_factory(name: str) -> bool:
    """Does the operator make tensors with given options, `requires_grad` not being one of them?"""
    arguments = {a.name for operator in ops.lookup(name) for a in operator.schema.arguments}
    return "pin_memory" in arguments and "requires_grad" not in arguments


def _flag(b: Builder, keyword: NamedValue) -> bool:
    value = keyword.in_graph(b.graph)
    flag = constant_of(value) if is_constant(value) else None
    if not isinstance(flag, bool):
        raise KNOWN_WHEN_COMPILED(
            f"'{keyword.name}' has to be True or False where the program is compiled", keyword.range
        )
    return flag
