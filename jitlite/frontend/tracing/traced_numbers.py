"""Numbers that a trace follows: sizes of tensors, numeric inputs, and what is computed from them.

They are torch's symbolic numbers with a known value: operators take them where they take ints and floats, and the
dispatcher hands them on to the tracer as they are, so that it sees which argument came from where. Arithmetic is
recorded as it happens. Where Python itself wants to know the number (`range(n)`, `if n > 2`), it gets it, and the trace
is fixed to it; the user is warned.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Protocol

import torch

from jitlite.ir.graph import Value
from jitlite.operators.arithmetic import BY_METHOD, Number


class NumberRecorder(Protocol):
    """What numbers want of the tracer."""

    def scalar_op(self, name: str, operands: list[Any], result: Number) -> object:
        """Record a computation on numbers; gives its result as a number to go on with."""
        ...

    def converted(self, node: NumberNode, what: str) -> None:
        """Note that Python has asked for the number itself; `what` says what as."""
        ...

    def number_as_tensor(self, node: NumberNode) -> torch.Tensor:
        """The number as a tensor without dimensions."""
        ...


class NumberNode:
    """What torch's C++ sees of a number: the protocol of symbolic nodes, as far as operators use it."""

    def __init__(self, recorder: NumberRecorder, value: Value, number: Number) -> None:
        self.recorder = recorder
        self.value = value
        self.number = number

    def wrapped(self) -> Any:
        """The number as Python sees it."""
        return _CLASSES[type(self.number)](self)

    # -- what it is
    def is_int(self) -> bool:
        return type(self.number) is int

    def is_float(self) -> bool:
        return type(self.number) is float

    def is_bool(self) -> bool:
        return type(self.number) is bool

    def is_nested_int(self) -> bool:
        return False

    def is_symbolic(self) -> bool:
        return True

    def is_constant(self) -> bool:
        return False

    def has_hint(self) -> bool:
        return True

    def maybe_as_int(self) -> None:
        return None

    def maybe_as_float(self) -> None:
        return None

    def maybe_as_bool(self) -> None:
        return None

    def nested_int(self) -> None:
        return None

    def nested_int_coeff(self) -> None:
        return None

    def constant_int(self) -> None:
        return None

    def constant_bool(self) -> None:
        return None

    def clone(self) -> NumberNode:
        return self

    def str(self) -> str:
        return str(self.number)

    _graph_repr = str

    @property
    def expr(self) -> Number:
        return self.number

    @property
    def hint(self) -> Number:
        return self.number

    # -- the number itself, for C++
    def guard_int(self, file: object, line: object) -> int:
        self.recorder.converted(self, "Python index")
        return int(self.number)

    def guard_float(self, file: object, line: object) -> float:
        self.recorder.converted(self, "Python float")
        return float(self.number)

    def guard_bool(self, file: object, line: object) -> bool:
        return bool(self.number)

    guard_size_oblivious = guard_or_false = guard_or_true = expect_true = expect_size = guard_bool

    def statically_known_true(self, file: object, line: object) -> bool:
        return False

    def int_(self) -> int:
        self.recorder.converted(self, "Python index")
        return int(self.number)

    def bool_(self) -> bool:
        return bool(self.number)

    # -- computing
    def _constant(self, number: Number) -> NumberNode:
        return _Constant(self.recorder, None, number)  # type: ignore[arg-type]

    wrap_int = wrap_float = wrap_bool = _constant

    def __getattr__(self, name: object) -> Callable[..., NumberNode]:
        if name not in BY_METHOD:
            raise AttributeError(name)

        def compute(*others: NumberNode) -> NumberNode:
            found = _compute(name, self, *others)
            return found.node if hasattr(found, "node") else self._constant(found)

        return compute


class _Constant(NumberNode):
    """A number that is the same in each run."""

    def is_symbolic(self) -> bool:
        return False

    def is_constant(self) -> bool:
        return True

    def constant_int(self) -> Any:
        return self.number if type(self.number) is int else None

    maybe_as_int = constant_int

    def guard_int(self, file: object, line: object) -> int:
        return int(self.number)

    def guard_float(self, file: object, line: object) -> float:
        return float(self.number)

    def int_(self) -> int:
        return int(self.number)


def node_of(number: object) -> NumberNode | None:
    """The node of a number that a trace follows; None for anything else."""
    if isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool):
        node = number.node
        return node if isinstance(node, NumberNode) else None
    return number if isinstance(number, NumberNode) else None


def plain(argument: Any) -> object:
    """The argument with plain numbers in place of those that a trace follows, also inside lists and tuples."""
    node = node_of(argument)
    if node is not None:
        return node.number
    if type(argument) in (list, tuple, torch.Size):
        return type(argument)([plain(a) for a in argument])
    return argument


def _compute(name: str, *operands: object) -> Any:
    arithmetic = BY_METHOD[name]
    nodes = [node_of(o) for o in operands]
    result = arithmetic.compute(*map(plain, operands))
    known = next((n for n in nodes if n is not None and not isinstance(n, _Constant)), None)
    if known is None:
        return result
    return known.recorder.scalar_op(arithmetic.kind, list(operands), result)


# -- the numbers as Python sees them


def _is_number(operand: object) -> bool:
    return isinstance(operand, int | float) or node_of(operand) is not None


def _binary(name: str, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: object, other: object) -> Any:
        if not _is_number(other):
            return NotImplemented
        return _compute(name, *((other, self) if swapped else (self, other)))

    return method


def _unary(name: str) -> Callable[[Any], Any]:
    return lambda self: _compute(name, self)


def _as(what: str, convert: Callable[[Any], object]) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        self.node.recorder.converted(self.node, what)
        return convert(self.node.number)

    return method


def _of_tensor(self: Any, name: str) -> object:
    """An attribute that numbers do not have: while tracing, torch's own code takes sizes to be tensors."""
    if name == "node" or name.startswith("__"):
        raise AttributeError(name)
    return getattr(self.node.recorder.number_as_tensor(self.node), name)


_METHODS: dict[str, object] = {
    **{f"__{n}__": _binary(n) for n in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow",
                                        "eq", "ne", "lt", "le", "gt", "ge")},
    **{f"__r{n}__": _binary(n, True) for n in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")},
    **{f"__{n}__": _unary(n) for n in ("neg", "abs", "ceil", "floor")},
    "__sym_float__": _unary("sym_float"), "__sym_max__": _binary("sym_max"), "__sym_min__": _binary("sym_min"),
    "__pos__": lambda self: self,
    "__bool__": _as("Python boolean", bool), "__int__": _as("Python integer", int),
    "__index__": _as("Python index", operator.index), "__float__": _as("Python float", float),
    "__complex__": _as("Python number", complex), "__trunc__": _unary("trunc"),
    "__hash__": lambda self: hash(self.node.number), "__repr__": lambda self: repr(self.node.number),
    "__str__": lambda self: str(self.node.number),
    "__format__": lambda self, spec: format(self.node.number, spec), "__getattr__": _of_tensor,
}  # fmt: skip


def _divmod(self: Any, other: Any) -> object:
    return self // other, self % other


def _rdivmod(self: Any, other: Any) -> object:
    return other // self, other % self


def _round(self: Any, digits: Any = None) -> object:
    self.node.recorder.converted(self.node, "Python number")
    return round(self.node.number, digits)


class TracedInt(torch.SymInt):
    """An int."""


class TracedFloat(torch.SymFloat):
    """A float."""


class TracedBool(torch.SymBool):
    """A bool."""


_CLASSES: dict[type, Any] = {int: TracedInt, float: TracedFloat, bool: TracedBool}
for _cls in _CLASSES.values():
    for _name, _method in {**_METHODS, "__round__": _round, "__divmod__": _divmod, "__rdivmod__": _rdivmod}.items():
        setattr(_cls, _name, _method)
