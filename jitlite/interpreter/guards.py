"""What a plan was made for, and whether a call is such a call.

`spec_reader(types)` is a small Python function, written for the parameter types of one graph, that reads from the
arguments all that a plan may depend on: whether gradients are recorded; of tensors, also those in tuples, dtype,
device, rank and requires_grad; of what is Optional, whether it is there. Its result is the key of a plan in a cache,
and `ArgumentSpec` says what the key means.

`guard_source(types)` is the condition that arguments are of refined parameter types: then a plan made for these types
may run. In graphs `prim::TypeCheck` says the same.

Only plain tensors are looked at. Of a subclass, a nested tensor and the like nothing is known, and nothing is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.types import Type

PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
"""Classes of tensors that are what they seem to be."""

_NAMES: dict[str, object] = {"PLAIN": PLAIN, "grad_mode": torch.is_grad_enabled, "strided": torch.strided}


def tensor_type_of(value: Any, *, sizes: bool) -> T.TensorType:
    """What is known of a given tensor; with `sizes`, the shape too."""
    if type(value) not in PLAIN or value.layout is not torch.strided or value.is_nested:
        return T.TENSOR
    shape = value.shape if sizes else (None,) * value.dim()
    return T.TensorType.of(value.dtype, shape, None, value.device, value.requires_grad)


# -- the key of a plan


class ArgumentSpec(Record, eq=True):
    """For what kind of arguments a plan is made.

    Attributes:
        key: what the reader gives: hashable, and equal for arguments of one kind.
        types: the type of each parameter, refined by what the key says.
    """

    key: tuple[Any, ...]
    types: tuple[Type, ...]

    @property
    def grad_mode(self) -> bool:
        """Are gradients recorded?"""
        return bool(self.key[0])

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.types))})" + ("" if self.grad_mode else " without gradients")


def spec_reader(types: Sequence[Type]) -> Callable[..., tuple[Any, ...]]:
    """A function of the arguments that gives the key of the plan for them."""
    parts = ["grad_mode()", *(text for i, t in enumerate(types) if (text := _key_source(t, f"a{i}")) is not None)]
    return _function("read", len(types), f"return ({', '.join(parts)},)", _NAMES)


def _key_source(t: Type, value: str) -> str | None:
    """The expression that reads what matters of a value; None where nothing does."""
    if isinstance(t, T.TensorType):
        facts = f"({value}.dtype, {value}.device, {value}.dim(), {value}.requires_grad)"
        return f"({facts} if type({value}) in PLAIN and {value}.layout is strided else {value} is None)"
    if isinstance(t, T.TupleType):
        parts = [_key_source(e, f"{value}[{i}]") for i, e in enumerate(t.elements)]
        known = [p for p in parts if p is not None]
        return f"({', '.join(known)},)" if known else None
    if isinstance(t, T.OptionalType):
        inner = _key_source(t.element, value)
        return f"(None if {value} is None else {inner or True})"
    return None


def spec_of(types: Sequence[Type], key: tuple[object, ...]) -> ArgumentSpec:
    """What a key means for parameters of these types."""
    parts = iter(key[1:])
    return ArgumentSpec(key, tuple(t if _key_source(t, "a") is None else _refined(t, next(parts)) for t in types))


def _refined(t: Type, part: Any) -> Type:
    if isinstance(t, T.TensorType):
        if not isinstance(part, tuple):
            return t
        dtype, device, rank, requires_grad = part
        return T.TensorType.of(dtype, (None,) * rank, None, device, requires_grad)
    if isinstance(t, T.TupleType):
        parts = iter(part)
        elements = [e if _key_source(e, "a") is None else _refined(e, next(parts)) for e in t.elements]
        return t.with_contained(elements)
    if isinstance(t, T.OptionalType):
        if part is None:
            return T.NONE
        return t.element if part is True and _key_source(t.element, "a") is None else _refined(t.element, part)
    return t


# -- conditions


def guard_source(declared: Sequence[Type], refined: Sequence[Type], names: dict[str, object]) -> str:
    """The condition, on arguments a0, a1 ..., that they are of the refined types; `names` gets what it refers to."""
    conditions: list[str] = []
    for i, (before, after) in enumerate(zip(declared, refined, strict=True)):
        conditions += _conditions(before, after, f"a{i}", names)
    return " and ".join(conditions) or "True"


def _conditions(declared: Type, refined: Type, value: str, names: dict[str, object]) -> list[str]:
    if refined is declared:
        return []
    if refined is T.NONE:
        return [f"{value} is None"]
    if isinstance(refined, T.TensorType):
        # a tensor that is None is of no class that counts as plain
        return _tensor_conditions(refined, value, names) or [f"{value} is not None"]
    return [f"{value} is not None"]


def _size_conditions(sizes: Sequence[int | None], value: str) -> list[str]:
    if None not in sizes:
        return [f"{value}.shape == {tuple(sizes)!r}"]
    known = [f"{value}.shape[{i}] == {s}" for i, s in enumerate(sizes) if s is not None]
    return [f"{value}.dim() == {len(sizes)}", *known]


def _tensor_conditions(t: T.TensorType, value: str, names: dict[str, object]) -> list[str]:
    def name(of: object) -> str:
        found = next((n for n, v in names.items() if v is of or (type(v) is type(of) and v == of)), None)
        if found is None:
            found = f"c{len(names)}"
            names[found] = of
        return found

    facts: list[str] = []
    if t.dtype is not None:
        facts.append(f"{value}.dtype is {name(t.dtype)}")
    if t.device is not None:
        on_cpu = t.device.type == "cpu"
        facts.append(f"{value}.is_cpu" if on_cpu else f"{value}.device == {name(t.device)}")
    if t.requires_grad is not None:
        facts.append(f"{value}.requires_grad is {t.requires_grad}")
    if t.sizes is not None:
        facts += _size_conditions(t.sizes, value)
    if not facts:
        return []
    names.update(_NAMES)
    # a sparse tensor, say, has sizes as well, but not all that a plan may conclude from them is true of it
    plain = f" and {value}.layout is strided and not {value}.is_nested" if t.dtype is not None or _has_size(t) else ""
    return [f"type({value}) in PLAIN{plain}", *facts]


def _has_size(t: T.TensorType) -> bool:
    return t.sizes is not None and any(size is not None for size in t.sizes)


def dispatcher(
    declared: Sequence[Type], refined: Sequence[Type], fast: Callable[..., object], otherwise: Callable[..., object],
    hit: Callable[[], object], test: Callable[..., object] | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """A function that calls `fast` where the arguments are of the refined types, after `hit()`, else `otherwise`.

    Args:
        test: what else is asked of the arguments. Where it misses an attribute, the answer is no.
    """
    names: dict[str, object] = {}
    condition = guard_source(declared, refined, names)
    arguments = ", ".join(f"a{i}" for i in range(len(declared)))
    found = {**names, "fast": fast, "otherwise": otherwise, "hit": hit}
    before = ""
    if test is not None:
        found["test"] = test
        before = f"try:\n  fits = {condition} and test({arguments})\n except AttributeError:\n  fits = False\n "
        condition = "fits"
    body = f"{before}if {condition}:\n  hit()\n  return fast({arguments})\n return otherwise({arguments})"
    return _function("dispatch", len(declared), body, found)


def guard_of_one(declared: Type, refined: Type) -> Callable[[object], bool]:
    """A function of one argument that says whether it is of a refined type."""
    names: dict[str, object] = {}
    condition = guard_source([declared], [refined], names)
    return _function("fits", 1, f"return {condition}", names)


def _function(name: str, parameters: int, body: str, names: Mapping[str, object]) -> Callable[..., Any]:
    arguments = ", ".join(f"a{i}" for i in range(parameters))
    namespace: dict[str, Any] = dict(names)
    exec(compile(f"def {name}({arguments}):\n {body}", f"<jitlite {name}>", "exec"), namespace)
    made: Callable[..., Any] = namespace[name]
    return made
