"""What an operator does, written with others: it is run once on stand-ins, and what reaches the dispatcher is recorded.

The stand-ins are fake tensors whose sizes are symbols, so what is recorded holds for other sizes; where a number in it
depends on sizes, the graph computes it. What torch decides on the way by looking at sizes holds for such sizes only:
these assumptions are kept. Sizes of one are taken to be one always.

An operator that is wanted is recorded, any other is run as what `table` says it is made of, or as what torch composes
it of. Writes to a tensor that was made on the way are recorded as operators that make a new tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from jitlite.base import torch_internals
from jitlite.base.records import Record
from jitlite.base.without_mkldnn import without_mkldnn
from jitlite.ir import ops
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Value
from jitlite.ir.traits import Trait
from jitlite.ir.types import TensorType, Type
from jitlite.operators.arithmetic import BY_EXPRESSION, Arithmetic

Overload = Any
"""An operator of torch's dispatcher, or of its primitives."""
Expression = Any
"""An expression of sympy, which has no types."""
Table = Mapping[Overload, Callable[..., Any]]
"""What operators are made of."""
Wanted = Callable[[Overload], bool]
"""Does an operator stay as it is?"""


class Undecomposable(Exception):
    """Why an operator is not decomposed."""


class Number(Record, eq=True):
    """An int that is known only when the graph runs, with what it is for example."""

    example: int


class Recording(Record, eq=True, frozen=False):
    """What an operator is made of.

    Attributes:
        graph: its inputs are the tensors and `Number`s among the arguments, in order; its outputs the results.
        assumptions: what torch has found true of sizes on the way.
        results: the complete types of the results, for the example.
        symbols: of each size that is not 1 the symbol, by the number of the input and of the dimension; of a `Number`
            that by the number of the input and None.
        decisions: all that torch has asked about sizes, with the answers.
        shapes: the sizes of each result that is a tensor, as ints and expressions of symbols.
    """

    graph: Graph
    assumptions: list[str]
    results: list[Type]
    symbols: Mapping[tuple[int, int | None], object]
    decisions: Sequence[tuple[Expression, object]]
    shapes: Sequence[Sequence[Expression] | None]


def record(
    overload: Overload,
    args: Sequence[object],
    table: Table,
    wanted: Wanted,
) -> Recording:
    """Record what the operator is made of.

    Args:
        args: in the order of the schema; a tensor is given as its complete TensorType.

    Raises:
        Undecomposable: it cannot be recorded; the text says why.
    """
    sizes = _AssumedSizes()
    graph = Graph()
    fake_mode = torch_internals.FakeTensorMode(shape_env=sizes, allow_non_fake_inputs=True)
    recorder = _Recorder(graph, sizes, table, wanted)
    formals = overload._schema.arguments
    made = [recorder.stand_in(a, fake_mode, f.name) for a, f in zip(args, formals, strict=True)]
    positional = [a for a, f in zip(made, formals, strict=True) if not f.kwarg_only]
    by_name = {f.name: a for a, f in zip(made, formals, strict=True) if f.kwarg_only}
    sizes.is_computing = False
    sizes.decisions.clear()  # those about the memory of stand-ins
    try:
        with torch.no_grad(), without_mkldnn(), torch_internals.python_dispatcher(), fake_mode, recorder:
            result = overload(*positional, **by_name)
    except Undecomposable:
        raise
    except Exception as error:
        raise Undecomposable(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}") from error
    sizes.is_computing = True
    recorder.finish(result)
    symbols = recorder.symbols_of_inputs()
    return Recording(
        graph, sizes.assumptions, recorder.results, symbols, list(sizes.decisions.items()), recorder.shapes
    )


class _AssumedSizes(torch_internals.ShapeEnv):  # type: ignore[misc]
    """Writes down what is asked about sizes, except by operators that compute the size of their result."""

    def __init__(self) -> None:
        super().__init__(specialize_zero_one=False, duck_shape=False)
        self.is_computing = True
        self.assumptions: list[str] = []
        self.decisions: dict[Expression, object] = {}
        self.names: dict[Expression, Expression] = {}
        """What to show in place of symbols."""

    def evaluate_expr(self, orig_expr: object, *args: object, **kwargs: object) -> Any:
        found = super().evaluate_expr(orig_expr, *args, **kwargs)
        if not isinstance(orig_expr, sympy.Basic) or not orig_expr.free_symbols:
            return found
        self.decisions[orig_expr] = found
        if not self.is_computing:
            is_answer = isinstance(found, bool | sympy.logic.boolalg.BooleanAtom)
            shown = orig_expr.xreplace(self.names)
            text = (str(shown) if found else f"not {shown}") if is_answer else f"{shown} is {found}"
            if text not in self.assumptions:
                self.assumptions.append(text)
        return found


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, graph: Graph, sizes: _AssumedSizes, table: Table, wanted: Wanted) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._graph = graph
        self._sizes = sizes
        self._table = table
        self._wanted = wanted
        self._values: dict[int, Value] = {}
        self._kept: list[Any] = []
        self._given: set[int] = set()
        self._symbols: dict[Expression, tuple[Value, int | None]] = {}
        self._fresh: set[Value] = set()
        self.results: list[Type] = []
        self.shapes: list[Sequence[Expression] | None] = []
        self._at_work: list[Any] = []
        """The operators that are being decomposed: what one is made of may call it again."""

    # -- arguments
    def stand_in(self, argument: object, fake_mode: Any, name: str) -> Any:
        """What the operator is run with; an input of the graph where it is a tensor or a number."""
        if isinstance(argument, list):
            return [self.stand_in(a, fake_mode, f"{name}[{i}]") for i, a in enumerate(argument)]
        if isinstance(argument, Number):
            return self._number_input(argument, name)
        if not isinstance(argument, TensorType):
            return argument
        assert argument.sizes is not None
        shape = [n for n in argument.sizes if n is not None]
        meta = torch.empty(shape, dtype=argument.dtype, device="meta")
        dynamic = [torch_internals.DimDynamic.STATIC if n == 1 else torch_internals.DimDynamic.DYNAMIC for n in shape]
        context: Any = torch_internals.StatelessSymbolicContext(dynamic_sizes=dynamic)
        number = len(self._graph.inputs)
        source = torch_internals.ConstantSource(f"t{number}")
        with fake_mode:
            made = fake_mode.from_tensor(meta, symbolic_context=context, source=source)
            device = argument.device or torch.device("cpu")
            if device.type != "meta":
                made = torch.empty_like(made, device=device)
        value = self._graph.add_input(argument)
        self._bind(made, value)
        self._given.add(id(made))
        for dim, size in enumerate(made.shape):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                self._symbols.setdefault(size.node.expr, (value, dim))
                self._sizes.names[size.node.expr] = sympy.Symbol(f"{name}.size({dim})")
        return made

    def _number_input(self, number: Number, name: str) -> Any:
        value = self._graph.add_input(T.INT)
        source = torch_internals.ConstantSource(f"n{len(self._symbols)}")
        symbol: Any = self._sizes.create_symbol(number.example, source, dynamic_dim=torch_internals.DimDynamic.DYNAMIC)
        self._symbols[symbol] = value, None
        self._sizes.names[symbol] = sympy.Symbol(name)
        return self._sizes.create_symintnode(symbol, hint=number.example, source=source)

    def symbols_of_inputs(self) -> dict[tuple[int, int | None], object]:
        """The symbol of each size that has one, by the numbers of the input and the dimension."""
        return {(value.offset, dim): symbol for symbol, (value, dim) in self._symbols.items()}

    def _bind(self, tensor: torch.Tensor, value: Value) -> None:
        self._values[id(tensor)] = value
        self._kept.append(tensor)

    # -- operators
    def __torch_dispatch__(self, func: Overload, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func is torch.ops.prim.device.default:
            return args[0].fake_device
        if func in (torch.ops.aten.size.default, torch.ops.aten.sym_size.default):
            return list(args[0].shape)
        if not self._wanted(func) and func not in self._at_work:
            self._at_work.append(func)
            try:
                result = self._decomposed(func, args, given)
            finally:
                self._at_work.pop()
            if result is not NotImplemented:
                return result
        return self._call(func, args, given)

    def _decomposed(self, func: Overload, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """Run what the operator is made of; NotImplemented where it is made of nothing."""
        made_of = self._table.get(func, getattr(func, "impl_aten", None))  # the latter is that of torch's own prims
        result = NotImplemented
        with self:
            if made_of is not None:
                result = made_of(*args, **kwargs)
            if result is NotImplemented and not func._schema.is_mutable:
                result = func.decompose(*args, **kwargs)
        return result

    def _call(self, func: Overload, args: Any, kwargs: Mapping[str, Any]) -> Any:
        self._sizes.is_computing = True
        try:
            result = func(*args, **kwargs)
        finally:
            self._sizes.is_computing = False
        if func in _ANSWERS:
            return result
        if func._schema.is_mutable:
            return self._write(func, args, kwargs, result)
        if func in _COPIES:
            args = [self._contiguous(args[0]), *args[1:]]
            func = torch.ops.aten.view.default
        self._insert(func, args, kwargs, result)
        return result

    def _insert(self, func: Overload, args: Any, kwargs: Mapping[str, Any], result: Any) -> None:
        schema = func._schema
        name, _, overload = func.name().partition(".")
        found = next((op for op in ops.lookup(name) if op.schema.overload == overload), None)
        if found is None:
            raise Undecomposable(f"it is made of {func.name()}, which graphs do not have")
        inputs = []
        for position, formal in enumerate(schema.arguments):
            given = args[position] if position < len(args) else kwargs.get(formal.name, formal.default_value)
            inputs.append(self._argument(given, found.schema.arguments[position].type))
        node = self._graph.create(name, inputs, [r.type for r in found.schema.returns])
        node.set_op(found)
        node.insert_before(self._graph.insert_point)
        parts = list(result) if len(node.outputs) > 1 else [result]
        for output, part in zip(node.outputs, parts, strict=True):
            self._result(output, part)
        if name in Trait.GIVES_CONTIGUOUS.kinds:
            self._fresh.update(node.outputs)

    def _result(self, output: Value, part: object) -> None:
        if isinstance(part, torch.Tensor):
            output.type = _type_of(part)
            self._bind(part, output)
        elif isinstance(part, list | tuple):
            node = self._graph.create("prim::ListUnpack", [output], [T.TENSOR] * len(part))
            node.insert_before(self._graph.insert_point)
            for value, tensor in zip(node.outputs, part, strict=True):
                self._result(value, tensor)

    def _contiguous(self, tensor: torch.Tensor) -> Value:
        """The tensor, laid out so that it can be viewed: arguments may have any strides."""
        value = self._tensor(tensor)
        if value in self._fresh:
            return value
        packed = self._graph.insert_constant(torch.contiguous_format, T.INT)
        return self._graph.insert("aten::clone", [value, packed], [_type_of(tensor)]).output

    def _write(self, func: Overload, args: Any, kwargs: Mapping[str, Any], result: object) -> Any:
        """A write to a tensor of the recording's own, as the operator that makes a new one."""
        name, _, overload = func.name().partition(".")
        target: Any = args[0] if args else None
        space = getattr(torch.ops.aten, name.removeprefix("aten::").removesuffix("_"), None)
        functional = getattr(space, overload or "default", None)
        if not name.endswith("_") or not self._is_own(target):
            raise Undecomposable(f"it is made of {func.name()}, which writes")
        if name == "aten::copy_":  # `aten::copy` has no derivative
            with self:
                source = args[1] if args[1].dtype == target.dtype else args[1].to(target.dtype)
                made = torch.ops.aten.expand.default(source, list(target.shape))
            self._values[id(target)] = self._values[id(made)]
            return result
        if functional is None:
            raise Undecomposable(f"it is made of {func.name()}, which writes")
        if not self._wanted(functional) and functional in self._table:
            with self:
                made = functional(*args, **kwargs)
            self._values[id(target)] = self._values[id(made)]
        else:
            self._insert(functional, args, kwargs, target)
        return result

    def _is_own(self, target: object) -> bool:
        """Is it a tensor that the recording made, and the only one in its memory?"""
        if not isinstance(target, torch.Tensor) or id(target) in self._given or id(target) not in self._values:
            return False
        storage = target.untyped_storage()._cdata
        return {id(t) for t in self._kept if t.untyped_storage()._cdata == storage} == {id(target)}

    # -- values
    def _argument(self, argument: object, wanted: Type = T.TENSOR) -> Value:
        if isinstance(argument, Value):
            return argument
        if isinstance(argument, torch.Tensor):
            return self._tensor(argument)
        if isinstance(argument, torch.SymInt | torch.SymFloat):
            return self._number(argument.node.expr)
        if isinstance(argument, torch.SymBool):
            raise Undecomposable("what it does depends on sizes")
        if isinstance(argument, list | tuple):
            return self._listed(argument, T.without_none(wanted))
        if wanted is T.TENSOR and isinstance(argument, bool | int | float | complex):
            with torch_internals.no_dispatch():
                number = torch.tensor(argument)
            return self._graph.insert_constant(number)  # without dimensions, it does not promote others
        return self._graph.insert_constant(argument)

    def _listed(self, arguments: Sequence[object], wanted: Type) -> Value:
        """The arguments as a list: a constant where they are numbers that are known."""
        if not arguments:
            return self._graph.insert_constant([], wanted)
        if not any(isinstance(a, torch.Tensor | torch.SymInt) for a in arguments):
            return self._graph.insert_constant(list(arguments))
        inner = wanted.element if isinstance(wanted, T.ListType) else T.TENSOR
        parts = [self._argument(a, T.without_none(inner)) for a in arguments]
        t: Type = T.INT if all(v.type is T.INT for v in parts) else T.TENSOR
        if any(a is None for a in arguments):
            t = T.OptionalType.of(T.TENSOR)
        return self._graph.insert("prim::ListConstruct", parts, [T.ListType.of(t)]).output

    def _tensor(self, tensor: torch.Tensor) -> Value:
        found = self._values.get(id(tensor))
        if found is not None:
            return found
        constant = getattr(tensor, "constant", tensor)
        if constant is None or isinstance(constant, torch_internals.FakeTensor):
            raise Undecomposable("a tensor in it comes from nowhere")
        with torch_internals.no_dispatch():
            constant = constant.detach().clone()
        value = self._graph.insert_constant(constant)
        self._bind(tensor, value)
        return value

    def _number(self, expr: Expression) -> Value:
        """The value of an expression of sizes."""
        if expr.is_Integer:
            return self._graph.insert_constant(int(expr))
        if expr.is_Symbol:
            value, dim = self._symbols.get(expr, (None, None))
            if value is None:
                raise Undecomposable("a size in it depends on what tensors hold")
            if dim is None:
                return value
            at = self._graph.insert_constant(dim)
            return self._graph.insert("aten::size", [value, at], [T.INT]).output
        if expr.is_Float or expr.is_Rational:
            return self._graph.insert_constant(float(expr))
        name = type(expr).__name__
        values = [self._number(a) for a in expr.args]
        if name in ("Pow", "PowByNatural", "FloatPow"):
            return self._power(values[0], expr.args[1])
        found = BY_EXPRESSION.get(name)
        if found is None or found.result is T.BOOL:
            raise Undecomposable(f"a number in it is {expr}")
        first, *others = values
        if not others:
            return self._graph.insert(found.kind, [first], [found.result or first.type]).output
        return reduce(lambda a, b: self._computed(found, a, b), others, first)

    def _computed(self, arithmetic: Arithmetic, a: Value, b: Value) -> Value:
        t = arithmetic.result or (T.FLOAT if T.FLOAT in (a.type, b.type) else T.INT)
        return self._graph.insert(arithmetic.kind, [a, b], [t]).output

    def _power(self, base: Value, exponent: Any) -> Value:
        if exponent in (sympy.Rational(1, 2), 0.5):
            return self._graph.insert("aten::sqrt", [base], [T.FLOAT]).output
        if exponent in (-1, sympy.Rational(-1, 2), -0.5):
            bottom = base if exponent == -1 else self._power(base, sympy.Rational(1, 2))
            return self._graph.insert("aten::div", [self._graph.insert_constant(1), bottom], [T.FLOAT]).output
        if not exponent.is_Integer or exponent < 0:
            raise Undecomposable(f"a number in it is a power with exponent {exponent}")
        result = base if exponent else self._graph.insert_constant(1)
        for _ in range(int(exponent) - 1):
            result = self._graph.insert("aten::mul", [result, base], [base.type]).output
        return result

    def finish(self, result: object) -> None:
        """Make the results the outputs of the graph."""
        for part in result if isinstance(result, tuple) else [result]:
            if isinstance(part, list):
                values = [self._argument(p) for p in part]
                made = self._graph.insert("prim::ListConstruct", values, [T.ListType.of(T.TENSOR)])
                self._graph.add_output(made.output)
                self.results.append(made.output.type)
                self.shapes.append(None)
            elif isinstance(part, torch.Tensor):
                self._graph.add_output(self._argument(part))
                self.results.append(self._example_type(part))
                self.shapes.append([s.node.expr if isinstance(s, torch.SymInt) else s for s in part.shape])
            else:
                raise Undecomposable("it gives something else than tensors")

    def _example_type(self, tensor: torch.Tensor) -> Type:
        shape = [s.node.hint if isinstance(s, torch.SymInt) else s for s in tensor.shape]
        known = [s if isinstance(s, int) else None for s in shape]
        return TensorType.of(tensor.dtype, known, None, tensor.device)


def _type_of(tensor: torch.Tensor) -> TensorType:
    return TensorType.of(tensor.dtype, [None] * tensor.dim(), None, tensor.device)


_ANSWERS = frozenset({
    torch.ops.aten.sym_size.int, torch.ops.aten.sym_numel.default, torch.ops.aten.sym_stride.int,
    torch.ops.aten.is_contiguous.default, torch.ops.aten.is_non_overlapping_and_dense.default,
    torch.ops.aten.sym_storage_offset.default,
})  # fmt: skip
"""Operators that say something about a tensor and are not recorded."""

_COPIES = frozenset({torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default})
