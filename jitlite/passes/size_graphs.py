"""Graphs that compute sizes: of the sizes of its inputs, those that the types in a graph name.

    graph(%x : Float(*, 3), %y : Float(2, 3)):          graph(%x : int[], %y : int[]):
      ...                                                 %0 : int = prim::Constant[value=0]()
      %l : Tensor[] = prim::ListConstruct(%x, %y)         %2 : int = prim::Constant[value=2]()
      %z : Tensor = aten::cat(%l, %0)             =>      %n : int = aten::__getitem__(%x, %0)
      return (%z)                                         %m : int = aten::add(%n, %2)
                                                          return (%n, %m)

Here the types become `%x : Float(SS(-1), 3)` and `%z : Float(SS(-2), 3)`, and the results are the sizes SS(-1) and
SS(-2). A caller that knows the sizes of its arguments learns all others without running the program.

Why that is true: a symbol is one number in every run (`propagation.py`). Those of the inputs' types are read there; one
that is computed from others is defined by that arithmetic (`Symbols.definitions`), which the rules for sizes use for
every call that succeeds. A size without such a definition, as that of `nonzero` or one that changes from one iteration
of a loop to the next, is no result.
"""

from __future__ import annotations

from jitlite.analysis.annotation import annotate, numbering
from jitlite.analysis.propagation import Propagation
from jitlite.analysis.result_types import ModeFacts
from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Value
from jitlite.operators.tensor_lattice import Dim, Symbol, Symbols, TensorFact


class SizeGraph(Record, eq=True, frozen=False):
    """A graph of sizes, and which symbol each of its results is."""

    graph: Graph
    """A tensor of the program is a list of its sizes here, an int itself. Other inputs of the program are left out."""
    parameters: list[int]
    """Which inputs of the program those of the graph are about, counted from 0."""
    symbols: dict[Value, int]
    """For each result the number `n` of `SS(-n)`, in the order of the results."""


def build_size_graph(graph: Graph) -> SizeGraph:
    """Propagate shapes through `graph` from the types of its inputs, and give the computation of the sizes.

    What it says is true of runs under the modes of now. The rank of an input must be in its type for anything to be
    known of what is made of it.
    """
    found = Propagation(graph, ModeFacts.current())
    spelled = numbering(graph, found, fewest=1)
    annotate(graph, found, spelled=spelled)
    builder = _Builder(graph, found)
    symbols: dict[Value, int] = {}
    for symbol, number in spelled.items():
        value = builder.compute(symbol)
        if value is not None and value not in symbols:
            symbols[value] = number
            builder.made.add_output(value)
    return SizeGraph(builder.made, builder.parameters, symbols)


class _Builder:
    """Writes the arithmetic of symbols as nodes of the graph `made`."""

    def __init__(self, graph: Graph, found: Propagation) -> None:
        self.made = Graph()
        self._symbols: Symbols = found.symbols
        self._constants: dict[int, Value] = {}
        self._values: dict[int, Value | None] = {}
        """By the numbers of symbols: one may be known to be a size in one place and not in another."""
        self.parameters: list[int] = []
        for position, value in enumerate(graph.inputs):
            fact = found.fact(value)
            if isinstance(fact, TensorFact | Symbol):
                self.parameters.append(position)
                self._take(value, fact)

    def _take(self, value: Value, fact: TensorFact | Symbol) -> None:
        name = value.name if value.has_name else None
        if isinstance(fact, TensorFact):
            self._read(self.made.add_input(T.ListType.of(T.INT), name), fact)
        else:
            self._values.setdefault(fact.number, self.made.add_input(T.INT, name))

    def _read(self, sizes: Value, fact: TensorFact) -> None:
        for position, dim in enumerate(fact.dims or ()):
            if isinstance(dim, Symbol) and dim.number not in self._values:
                self._values[dim.number] = self._node("aten::__getitem__", sizes, self._constant(position))

    def _constant(self, number: int) -> Value:
        if number not in self._constants:
            self._constants[number] = self.made.insert_constant(number)
        return self._constants[number]

    def compute(self, dim: Dim) -> Value | None:
        """The number in the graph; None if it cannot be computed."""
        if isinstance(dim, int):
            return self._constant(dim)
        if dim.number not in self._values:
            self._values[dim.number] = self._defined(dim)
        return self._values[dim.number]

    def _defined(self, symbol: Symbol) -> Value | None:
        definition = self._symbols.definition(symbol)
        if definition is None:
            return None
        how, *operands = definition
        values = [self.compute(d) for d in operands if isinstance(d, Symbol)]
        if None in values:
            return None
        a, b = (v for v in map(self.compute, operands) if v is not None)
        return self._arithmetic(how, a, b)

    def _arithmetic(self, how: str, a: Value, b: Value) -> Value:
        if how == "broadcast":
            return self._broadcast(a, b)
        if how == "ceildiv":
            return self._node("aten::neg", self._node("aten::floordiv", self._node("aten::neg", a), b))
        home = "prim" if how in ("min", "max") else "aten"
        return self._node(f"{home}::{how}", a, b)

    def _broadcast(self, a: Value, b: Value) -> Value:
        """`b if a == 1 else a`"""
        is_one = self._node("aten::eq", a, self._constant(1), type=T.BOOL)
        choice = self.made.insert("prim::If", (is_one,), (T.INT,))
        for value in (b, a):
            choice.add_block().add_output(value)
        return choice.output

    def _node(self, kind: str, *inputs: Value, type: T.Type = T.INT) -> Value:
        return self.made.insert(kind, inputs, (type,)).output
