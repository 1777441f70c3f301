"""Sizes that may differ from call to call, in a trace on fake tensors.

torch's `ShapeEnv` gives each dimension a symbol, follows arithmetic with them, and notes what it has decided so far:
that two sizes are equal, that one is greater than 1. Here a symbol becomes a size of an input in the back end, an
expression what computes it, and each decision a check that calls make first.
"""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

from jitlite.base import torch_internals
from jitlite.base.errors.ways_out import SYMBOLIC_SIZE
from jitlite.frontend.tracing.fake_kernels import result_of
from jitlite.frontend.tracing.trace_backend import TensorArgument, TraceBackend, Traced
from jitlite.operators.arithmetic import BY_EXPRESSION

_NO_KEYWORDS: Mapping[str, object] = types.MappingProxyType({})


@dataclass(frozen=True)
class _ArgumentSource(torch_internals.Source):  # type: ignore[misc]
    """Where a tensor is among the arguments, as torch wants to know it."""

    place: str

    @property
    def name(self) -> str:
        return _CallableName(self.place)

    @property
    def _name_template(self) -> str:
        return self.place


class _CallableName(str):
    """A name for those who read it and, as torch before 2.10 does, for those who call it."""

    def __call__(self) -> str:
        return self


class _SizesMode(torch_internals.FakeTensorMode):  # type: ignore[misc]
    """Makes fake tensors whose convolutions hold for all sizes of images and batches that have a result, and so do
    resized images and what `fake_kernels` knows.

    torch asks for sizes when it chooses one of its implementations of a convolution, another for less than 16 images
    than for more. For contiguous tensors these differ in rounding alone. So the choice is no condition of the trace;
    that the result has elements is one.
    """

    def dispatch(
        self, func: object, kinds: object, args: Sequence[object] = (), kwargs: Mapping[str, object] = _NO_KEYWORDS
    ) -> object:
        known = result_of(func, args) if not kwargs else None
        if known is not None:
            return known
        if func is not torch.ops.aten.convolution.default or not _is_decided_by_sizes_alone(*args[:3]):
            return super().dispatch(func, kinds, args, kwargs)
        with self.shape_env.suppress_guards():
            found: torch.Tensor = super().dispatch(func, kinds, args, kwargs)
        if not all(size >= 1 for size in found.shape):
            return super().dispatch(func, kinds, args, kwargs)
        return found


def _is_decided_by_sizes_alone(x: object, weight: object, bias: object) -> bool:
    """Are only the sizes of images and batches of a convolution unknown, and its strides those of its sizes?"""
    if not isinstance(x, torch.Tensor) or not isinstance(weight, torch.Tensor):
        return False
    known = [x.shape[1], *weight.shape, *(bias.shape if isinstance(bias, torch.Tensor) else ())]
    return all(type(size) is int for size in known) and x.is_contiguous() and weight.is_contiguous()


Dynamic = bool | Mapping[str, Collection[int]]
"""Which sizes may differ: those of all arguments, or the dimensions of some, by the argument's place."""


class SymbolicSizes:
    """The symbols of one trace.

    Args:
        backend: where sizes and computations go.
        dynamic: see `Dynamic`.
    """

    def __init__(self, backend: TraceBackend, dynamic: Dynamic) -> None:
        self._backend = backend
        self._dynamic = dynamic
        self._environment = torch_internals.ShapeEnv(
            duck_shape=False, allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False
        )
        self._values: dict[object, object] = {}
        self._bound: set[object] = set()
        self.mode = _SizesMode(shape_env=self._environment, allow_non_fake_inputs=True)

    def fake(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """A fake tensor with symbols for its sizes."""
        chosen = range(tensor.dim()) if self._dynamic is True else self._dims(name, tensor)
        kinds = [
            torch_internals.DimDynamic.DYNAMIC if d in chosen else torch_internals.DimDynamic.STATIC
            for d in range(tensor.dim())
        ]
        context: object = torch_internals.StatelessSymbolicContext(dynamic_sizes=kinds)
        made: torch.Tensor = self.mode.from_tensor(tensor, source=_ArgumentSource(name), symbolic_context=context)
        return made

    def _dims(self, name: str, tensor: torch.Tensor) -> Collection[int]:
        given = self._dynamic if isinstance(self._dynamic, Mapping) else {}
        return {d % max(tensor.dim(), 1) for d in given.get(name, ())}

    def bind(self, argument: TensorArgument) -> None:
        """Let symbols be sizes of an argument."""
        for dim, size in enumerate(argument.example.shape):
            expression = _expression(size)
            if isinstance(expression, sympy.Symbol) and expression not in self._values:
                self._bound.add(expression)
                given = Traced(argument.value, argument.example)
                self._values[expression] = self._backend.add_size(given, dim)

    def value_of(self, number: Any) -> Any:
        """The value of a symbolic number; a number of Python's where it is certain.

        Raises:
            CompileError: where it is computed in a way that has no operator.
        """
        node = number.node
        expression = node.expr
        if expression.is_number:
            return node.pytype(expression)
        return self._value(expression)

    def value_of_symbol(self, symbol: object) -> object:
        """The value of the size that a symbol is; None where it is the size of no argument."""
        return self._values.get(symbol)

    def _value(self, expression: object) -> object:
        found = self._values.get(expression)
        if found is None:
            found = self._values[expression] = self._computed(expression)
        return found

    def _computed(self, expression: object) -> object:
        constant = _constant(expression)
        if constant is not None:
            return constant
        if isinstance(expression, sympy.Symbol):
            return self._symbol(expression)
        if isinstance(expression, sympy.Pow):
            return self._power(expression)
        if isinstance(expression, _functions.ModularIndexing):
            base, divisor, modulus = expression.args
            return self._value(_functions.PythonMod(_functions.FloorDiv(base, divisor), modulus))
        return self._operator(expression)

    def _symbol(self, symbol: object) -> object:
        replaced = self._environment.replacements.get(symbol)
        if replaced is None:
            raise SYMBOLIC_SIZE(f"the size {symbol} depends on data, and cannot be followed")
        return self._value(replaced)

    def _operator(self, expression: Any) -> object:
        name = next((n for kind, n in _OPERATORS.items() if isinstance(expression, kind)), None)
        if name is None:
            raise SYMBOLIC_SIZE(
                f"a size is computed as {expression}, which has no operator", hint="trace without dynamic_shapes"
            )
        first, *others = [self._value(a) for a in expression.args]
        if not others:
            return self._backend.compute(name, [first])
        for other in others:
            first = self._backend.compute(name, [first, other])
        return first

    def _power(self, expression: Any) -> object:
        base, exponent = expression.args
        if exponent == -1:
            return self._backend.compute("aten::div", [1, self._value(base)])
        if not exponent.is_Integer or exponent < 1:
            raise SYMBOLIC_SIZE(f"a size is computed as {expression}, which has no operator")
        result = value = self._value(base)
        for _ in range(int(exponent) - 1):
            result = self._backend.compute("aten::mul", [result, value])
        return result

    def forget_computed(self) -> None:
        """What is computed from now on comes before what has been: only the symbols' own values are there."""
        self._values = {e: v for e, v in self._values.items() if isinstance(e, sympy.Symbol) and e in self._bound}

    def check(self) -> None:
        """Tell the back end what has been decided."""
        environment = self._environment
        for guard in environment.guards:
            self._require(guard.expr)
        for symbol, found in environment.var_to_range.items():
            if symbol in self._values and symbol not in environment.replacements and found.lower > 0:
                self._require(sympy.Ge(symbol, found.lower, evaluate=False))
            if symbol in self._values and symbol not in environment.replacements and found.upper < 2**31:
                self._require(sympy.Le(symbol, found.upper, evaluate=False))

    def _require(self, condition: Any) -> None:
        if condition in (sympy.true, True):
            return
        names = {symbol: self._shown(symbol) for symbol in condition.free_symbols}
        text = str(condition)
        for symbol, shown in names.items():
            text = text.replace(str(symbol), shown)
        self._backend.check(self._value(condition), f"the trace was made for sizes with {text}")

    def _shown(self, symbol: object) -> str:
        sources = self._environment.var_to_sources.get(symbol, [])
        return sources[0].name if sources and isinstance(sources[0].name, str) else str(symbol)


def _expression(size: object) -> object:
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)


_functions: Any = torch_internals.sympy_functions
_OPERATORS: dict[Any, str] = {
    getattr(module, name): arithmetic.kind
    for name, arithmetic in BY_EXPRESSION.items()
    for module in (sympy, _functions)
    if hasattr(module, name)
}
"""Expressions and the operators that compute them; a version of torch need not have all kinds of its own."""


def _constant(expression: Any) -> int | float | bool | None:
    """The number that an expression is; None for what depends on symbols."""
    if expression.is_Integer:
        return int(expression)
    if expression.is_Float or expression.is_Rational:
        return float(expression)
    return bool(expression) if expression in (sympy.true, sympy.false) else None
