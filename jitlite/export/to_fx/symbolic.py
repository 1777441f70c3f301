"""Control flow on values that are open while torch.export records a program.

Open is what is not known yet: the contents of a tensor, and numbers computed from them or from sizes that may vary.
Branches on such a value become `torch.ops.higher_order.cond`, loops `while_loop`. These ask more than Python does:

- what is carried or returned is a tensor: numbers travel as 0-dimensional tensors and are read again behind;
- results are new tensors: one that is an operand, or shares memory with one, is cloned. Nobody may write it then, which
  the conversion has seen to (`FxExport` in `fx_graph.py`);
- both branches give tensors of the same shape, dtype and layout, each iteration of a loop too. torch checks that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.immutable_collections import immutable_dict, immutable_list

from jitlite.base import torch_internals
from jitlite.base.source import NotSupportedError
from jitlite.ir.structure import UNBOUNDED

_Module = Callable[..., Any]
_torch: Any = torch
"""For what torch has no types of."""
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
_DTYPES: tuple[tuple[tuple[type, ...], torch.dtype], ...] = (
    ((bool, torch.SymBool), torch.bool),
    ((int, torch.SymInt), torch.int64),
    ((float, torch.SymFloat), torch.float64),
)
"""How numbers travel. `bool` is before `int`, which it is a kind of."""


class Refused(NotSupportedError):
    """Something cannot be part of an exported program; what runs the node adds the place."""


def is_exporting() -> bool:
    """Is torch.export recording a program?"""
    return bool(torch_internals.is_exporting())


def is_open(value: object) -> bool:
    """Is it not known yet whether this holds, or what number it is?"""
    return isinstance(value, (torch.Tensor, *_SYMBOLS)) and is_exporting()


def call(module: _Module, *arguments: object) -> Any:
    """Call a branch or body; while a program is recorded, so that errors know the node they come from."""
    if isinstance(module, GraphModule) and is_exporting():
        return LocatedInterpreter(module).run(*arguments)
    return module(*arguments)


class LocatedInterpreter(Interpreter):
    """Runs the nodes of a module one by one and notes on an exception which node it comes from."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.extra_traceback = False  # which makes a RuntimeError of a KeyError

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args, kwargs = super().fetch_args_kwargs_from_env(n)
        return _plain(args), _plain(kwargs)

    def run_node(self, n: Node) -> Any:
        try:
            return super().run_node(n)
        except Exception as error:
            if not hasattr(error, FAILED):
                setattr(error, FAILED, n)
            raise


WRITTEN = "jitlite_written"
"""In the `meta` of a branch or body: something writes its results afterwards, so that they may not be clones."""


def _plain(value: object) -> Any:
    """Lists and dicts in the arguments of FX nodes are immutable; those of a script are not."""
    if isinstance(value, immutable_list):
        return [_plain(v) for v in value]
    if isinstance(value, immutable_dict):
        return {k: _plain(v) for k, v in value.items()}
    return tuple(map(_plain, value)) if type(value) is tuple else value


FAILED = "jitlite_failed_node"
"""The attribute of an exception that names the node it comes from."""


# -- branches


def cond(condition: object, true_graph: _Module, false_graph: _Module, operands: tuple[object, ...]) -> Any:
    """A branch on a value that is open: both sides become part of the program."""
    if is_guarded(condition):  # torch.export notes which sizes the answer holds for, as it does for Python code
        return call(true_graph if condition else false_graph, *operands)
    _refuse_writes(true_graph, "a branch")
    kinds: dict[str, Any] = {}

    def side(name: str, module: _Module) -> Callable[..., Any]:
        def run(*tensors: object) -> Any:
            results = call(module, *passed.restored(tensors))
            packed, kinds[name] = _pack(results, f"the {name} branch returns")
            return tuple(_new(t, tensors) for t in packed)

        return run

    passed = _Passed(operands)
    predicate = _predicate(condition)
    sides = side("true", true_graph), side("false", false_graph)
    try:
        results = torch.ops.higher_order.cond(predicate, *sides, passed.tensors)
    except Exception as error:
        _refuse_difference(kinds, error)
        raise
    _refuse_difference(kinds, None)
    return _unpack(results, kinds["true"])


def _refuse_difference(kinds: dict[str, Any], cause: Exception | None) -> None:
    """Say so where the branches give different things, which torch tells in its own terms."""
    if len(kinds) == 2 and kinds["true"] != kinds["false"]:
        raise Refused(
            f"the branches of an if on a value of a tensor give ({_shown(kinds['true'])}) and "
            f"({_shown(kinds['false'])})",
            hint="let both give values of the same types; a `return` or `break` in one of them counts as a difference",
        ) from cause


def _refuse_writes(module: _Module, what: str) -> None:
    if getattr(module, "meta", {}).get(WRITTEN):
        raise Refused(
            f"what {what} that depends on the contents of a tensor gives is written in place",
            hint="write a new tensor instead: x = x + 1 for x += 1",
        )


def is_guarded(value: object) -> bool:
    """Is it a symbol that follows from the sizes of inputs? Then it has a value for the example inputs."""
    return isinstance(value, _SYMBOLS) and bool(value.node.has_hint())


def _predicate(condition: object) -> Any:
    if isinstance(condition, torch.Tensor):
        if condition.numel() != 1:
            raise RuntimeError(f"Boolean value of Tensor with {condition.numel()} values is ambiguous")
        return condition.reshape(()).to(torch.bool)
    return condition if isinstance(condition, torch.SymBool) else condition != 0


class _Passed:
    """Operands of a branch or loop: tensors and numbers go as operands, what else there is goes by itself."""

    def __init__(self, operands: tuple[object, ...]) -> None:
        self.operands = operands
        self.places: list[tuple[int, int]] = []
        """Positions of operands, and of what stands for them among those that go as operands."""
        unique: dict[int, int] = {}
        for i, value in enumerate(operands):
            if _is_operand(value):  # a tensor may not be an operand twice
                self.places.append((i, unique.setdefault(id(value), len(unique))))
        by_position = {position: operands[i] for i, position in reversed(self.places)}
        self.tensors = tuple(by_position[i] for i in range(len(unique)))

    def restored(self, tensors: Sequence[object]) -> list[Any]:
        """The operands, with these for the tensors."""
        values = list(self.operands)
        for place, position in self.places:
            values[place] = tensors[position]
        return values


def _is_operand(value: object) -> bool:
    if isinstance(value, (list, tuple, dict)) and _tensors_in(value):
        raise Refused(
            f"a {type(value).__name__} of tensors is used in a branch or loop that depends on the contents of a tensor",
            hint="take the tensors out of it before, and use them",
        )
    return isinstance(value, torch.Tensor) or (isinstance(value, _SYMBOLS) and isinstance(value, torch.SymInt))


def _tensors_in(value: object) -> bool:
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    return isinstance(value, torch.Tensor) or (isinstance(value, (list, tuple)) and any(map(_tensors_in, value)))


def _pack(values: Sequence[Any], what: str) -> tuple[list[torch.Tensor], list[Any]]:
    """Values as tensors, and what each is: "Tensor", the dtype of a number, or the value itself of what is neither."""
    tensors: list[torch.Tensor] = []
    kinds: list[Any] = []
    for value in values:
        dtype = next((d for classes, d in _DTYPES if isinstance(value, classes)), None)
        if isinstance(value, torch.Tensor):
            tensors.append(value)
            kinds.append("Tensor")
        elif dtype is not None:
            tensors.append(torch.scalar_tensor(value, dtype=dtype))
            kinds.append(dtype)
        elif value is None or isinstance(value, (str, torch.dtype, torch.device)):
            kinds.append(("constant", value))
        else:
            raise Refused(
                f"{what} a {type(value).__name__}, and it depends on the contents of a tensor whether it does",
                hint="let it give tensors and numbers, and put them into containers behind it",
            )
    return tensors, kinds


def _unpack(tensors: Sequence[torch.Tensor], kinds: Sequence[object]) -> tuple[Any, ...]:
    rest = iter(tensors)
    values: list[Any] = []
    for kind in kinds:
        if isinstance(kind, tuple):
            values.append(kind[1])
            continue
        tensor = next(rest)
        values.append(tensor if kind == "Tensor" else tensor.item())
    return tuple(values)


def _shown(kinds: Sequence[object]) -> str:
    return ", ".join(repr(k[1]) if isinstance(k, tuple) else str(k).removeprefix("torch.") for k in kinds)


def _new(tensor: torch.Tensor, operands: Sequence[object]) -> torch.Tensor:
    """The tensor, or a clone where it may share memory with an operand."""
    if any(isinstance(o, torch.Tensor) and (o is tensor or _shares(o, tensor)) for o in operands):
        return tensor.clone()
    return tensor


def _shares(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(b._is_view() or _torch._C._is_alias_of(a, b))


# -- loops


def while_loop(
    count: Any, condition: Any, body_graph: _Module, number: int, carried: tuple[Any, ...], operands: tuple[Any, ...]
) -> Any:
    """A loop of which it is open how often it runs: its body becomes part of the program, once."""
    if not is_open(condition) and is_guarded(count):
        return _unrolled(int(count), condition, body_graph, number, carried, operands)
    if not is_open(condition) and not condition:
        return carried
    _refuse_writes(body_graph, "a loop")
    packed, kinds = _pack(carried, "the loop carries")
    first = [torch.scalar_tensor(number, dtype=torch.int64), _as_tensor(condition)]
    is_endless = isinstance(count, int) and count >= UNBOUNDED
    passed = _Passed((*operands, count))

    def goes_on(number: Any, condition: Any, *rest: object) -> Any:
        limit = passed.restored(rest[len(packed) :])[-1]
        return condition.clone() if is_endless else torch.logical_and(condition, number < limit)

    def body(number: Any, condition: object, *rest: Any) -> Any:
        values = _unpack(rest[: len(packed)], kinds)
        *given, _ = passed.restored(rest[len(packed) :])
        again, *results = call(body_graph, number.item() if _reads_first(body_graph) else 0, *values, *given)
        tensors, found = _pack(results, "the body of the loop gives")
        if found != kinds:
            raise Refused(
                f"a loop that depends on the contents of a tensor starts with {_shown(kinds)} and its body gives "
                f"{_shown(found)}",
                hint="let what the loop changes be of one type throughout",
            )
        return (number + 1, _as_tensor(again), *(_new(t, rest) for t in tensors))

    start = [*first, *(t.clone() if _is_fresh_needed(t, packed, i) else t for i, t in enumerate(packed))]
    _, _, *results = torch.ops.higher_order.while_loop(goes_on, body, tuple(start), passed.tensors)
    return _unpack(results, kinds)


def _unrolled(
    count: int,
    condition: object,
    body_graph: _Module,
    number: int,
    carried: tuple[object, ...],
    operands: tuple[object, ...],
) -> Any:
    """The rounds one by one: the count follows from sizes, which torch.export then asks to be as they are."""
    values: Sequence[Any] = carried
    while number < count and not is_open(condition) and condition:
        condition, *values = call(body_graph, number, *values, *operands)
        number += 1
    if is_open(condition) and number < count:
        return while_loop(count, condition, body_graph, number, tuple(values), operands)
    return tuple(values)


def _is_fresh_needed(tensor: torch.Tensor, packed: Sequence[torch.Tensor], position: int) -> bool:
    """Is the same tensor carried twice?"""
    return any(tensor is other for other in packed[:position])


def _reads_first(module: _Module) -> bool:
    """Does the body read the number of the round?"""
    if not isinstance(module, GraphModule):
        return True
    first = next(iter(module.graph.nodes))
    return bool(first.users)


def _as_tensor(condition: Any) -> torch.Tensor:
    if isinstance(condition, torch.Tensor):
        return condition.reshape(()).to(torch.bool, copy=True)
    return torch.scalar_tensor(condition, dtype=torch.bool)


# -- what else depends on values


def square_root(value: object) -> Any:
    """`math.sqrt` of a number that may not be known yet."""
    return torch_internals.sym_sqrt(value)


def check(condition: object, message: str) -> None:
    """An assertion, as part of the program."""
    if isinstance(condition, torch.Tensor):
        torch_internals.assert_async(_predicate(condition), message)
    else:
        _torch._check(_predicate(condition), lambda: message)


def refuse_try(error: BaseException) -> None:
    """Errors of recording a program are nobody's to catch."""
    if isinstance(error, Refused) or (is_exporting() and not isinstance(error, Exception)):
        raise error


def check_attribute(owner: torch.nn.Module, name: str) -> None:
    """See that an exported program can write the attribute: it can write buffers only."""
    if is_exporting() and name not in owner._buffers:
        raise Refused(
            f"the attribute '{name}' is assigned, and exported programs keep no state but buffers",
            hint="register it as a buffer, or pass it in and return it",
        )


# -- numbers


def to_int(value: Any) -> Any:
    """`int(value)`."""
    if is_open(value):
        if not isinstance(value, torch.Tensor):
            return _torch.sym_int(value)
        return (value if _is_integral(value) else value.to(torch.int64)).item()
    return int(value)


def to_float(value: Any) -> Any:
    """`float(value)`."""
    if is_open(value):
        return value.to(torch.float64).item() if isinstance(value, torch.Tensor) else _torch.sym_float(value)
    return float(value)


def to_bool(value: object) -> Any:
    """`bool(value)`."""
    if is_open(value):
        return _predicate(value).item() if isinstance(value, torch.Tensor) else _predicate(value)
    return bool(value)


def _is_integral(value: torch.Tensor) -> bool:
    return not (value.is_floating_point() or value.is_complex() or value.dtype is torch.bool)


def negation(value: object) -> Any:
    """`not value`."""
    if not is_open(value):
        return not value
    predicate = _predicate(value)
    return predicate.logical_not() if isinstance(predicate, torch.Tensor) else _torch.sym_not(predicate)


def smaller(*values: Any) -> Any:
    """`min(*values)`."""
    if len(values) == 2 and any(map(is_open, values)):
        return _torch.sym_min(*values)
    return min(*values)


def larger(*values: Any) -> Any:
    """`max(*values)`."""
    if len(values) == 2 and any(map(is_open, values)):
        return _torch.sym_max(*values)
    return max(*values)


def range_length(lo: Any, hi: Any, step: Any) -> Any:
    """`len(range(lo, hi, step))`."""
    if not any(map(is_open, (lo, hi, step))):
        return len(range(lo, hi, step))
    if is_open(step):
        raise Refused("the step of a range is not known when the program is exported", hint="let it be a constant")
    sign = 1 if step > 0 else -1
    return _torch.sym_max(0, ((hi - lo) * sign + abs(step) - 1) // abs(step))
