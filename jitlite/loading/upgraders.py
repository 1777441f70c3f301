"""Operators of older versions: what stands for one in an archive that was written when it did something else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

from jitlite.base.records import Record
from jitlite.base.source import SourceRange
from jitlite.executor.engine import new_program
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.callables import FunctionValue
from jitlite.frontend.emit.values import Args, SugaredValue
from jitlite.ir import types as T
from jitlite.ir.types import Type
from jitlite.ir.unit import Function
from jitlite.loading.archive_names import Upgraded
from jitlite.objects.text import define_text

_TENSOR_IS_FLOAT, _NUMBER_IS_FLOAT = "other.is_floating_point()", "isinstance(other, float)"
_OPTIONS = "dtype: Optional[int] = None, layout: Optional[int] = None, device: Optional[Device] = None, \
pin_memory: Optional[bool] = None"
_PASS_OPTIONS = "dtype=dtype, layout=layout, device=device, pin_memory=pin_memory"

_TEXT = "\n".join(
    [
        "def div_Tensor_0_3(self: Tensor, other: Tensor) -> Tensor:\n"
        f"    if self.is_floating_point() or {_TENSOR_IS_FLOAT}:\n"
        "        return torch.true_divide(self, other)\n"
        "    return torch.div(self, other, rounding_mode='trunc')\n",
        "def div_Scalar_0_3(self: Tensor, other: number) -> Tensor:\n"
        f"    if self.is_floating_point() or {_NUMBER_IS_FLOAT}:\n"
        "        return torch.true_divide(self, other)\n"
        "    return torch.div(self, other, rounding_mode='trunc')\n",
        "def div_out_0_3(self: Tensor, other: Tensor, *, out: Tensor) -> Tensor:\n"
        f"    if self.is_floating_point() or {_TENSOR_IS_FLOAT} or out.is_floating_point():\n"
        "        return torch.div(self, other, out=out)\n"
        "    return torch.div(self, other, rounding_mode='trunc', out=out)\n",
        "def div__Tensor_0_3(self: Tensor, other: Tensor) -> Tensor:\n"
        f"    if self.is_floating_point() or {_TENSOR_IS_FLOAT}:\n"
        "        return self.div_(other)\n"
        "    return self.div_(other, rounding_mode='trunc')\n",
        "def div__Scalar_0_3(self: Tensor, other: number) -> Tensor:\n"
        f"    if self.is_floating_point() or {_NUMBER_IS_FLOAT}:\n"
        "        return self.div_(other)\n"
        "    return self.div_(other, rounding_mode='trunc')\n",
        f"def full_0_4(size: List[int], fill_value: number, *, {_OPTIONS}) -> Tensor:\n"
        "    if dtype is None:\n"
        "        fill_value = float(fill_value)\n"
        f"    return torch.full(size, fill_value, {_PASS_OPTIONS})\n",
        f"def linspace_0_7(start: number, end: number, steps: Optional[int] = 100, *, {_OPTIONS}) -> Tensor:\n"
        f"    return torch.linspace(start, end, 100 if steps is None else steps, {_PASS_OPTIONS})\n",
        "def linspace_out_0_7(start: number, end: number, steps: Optional[int] = 100, *, out: Tensor) -> Tensor:\n"
        "    return torch.linspace(start, end, 100 if steps is None else steps, out=out)\n",
        f"def logspace_0_8(start: number, end: number, steps: Optional[int] = 100, base: float = 10.0, *, {_OPTIONS})"
        " -> Tensor:\n"
        f"    return torch.logspace(start, end, 100 if steps is None else steps, base, {_PASS_OPTIONS})\n",
        "def logspace_out_0_8(start: number, end: number, steps: Optional[int] = 100, base: float = 10.0, *,"
        " out: Tensor) -> Tensor:\n"
        "    return torch.logspace(start, end, 100 if steps is None else steps, base, out=out)\n",
    ]
)
"""What the operators did, in terms of today's."""

Accepts = Callable[[list[Type], set[str]], bool]
"""Is a call with arguments of these types and keywords one of the overload?"""


def _of_div(*, second: bool, out: bool = False) -> Accepts:
    """Divisions without a rounding mode, by a tensor (`second`) or by a number."""

    def accepts(types: list[Type], keywords: set[str]) -> bool:
        if len(types) != 2 or not T.is_subtype(types[0], T.TENSOR) or keywords != ({"out"} if out else set()):
            return False
        return T.is_subtype(types[1], T.TENSOR) == second

    return accepts


def _of_full(types: list[Type], keywords: set[str]) -> bool:
    return not keywords & {"names", "out"}


def _of_range(*, out: bool = False) -> Accepts:
    def accepts(types: list[Type], keywords: set[str]) -> bool:
        return ("out" in keywords) == out and not any(T.is_subtype(t, T.TENSOR) for t in types[:2])

    return accepts


def _any_call(types: list[Type], keywords: set[str]) -> bool:
    return True


class Upgrade(Record, eq=True):
    """In archives older than `since` an operator was what the function `upgrader` is.

    Attributes:
        operator: its name with that of the overload, as in `aten::div.Tensor`.
        accepts: is a call in the text of an archive one of this overload?
    """

    operator: str
    since: int
    upgrader: str
    accepts: Accepts = _any_call


_UPGRADES: list[Upgrade] = [
    Upgrade("aten::div.Tensor", 4, "div_Tensor_0_3", _of_div(second=True)),
    Upgrade("aten::div.Scalar", 4, "div_Scalar_0_3", _of_div(second=False)),
    Upgrade("aten::div.out", 4, "div_out_0_3", _of_div(second=True, out=True)),
    Upgrade("aten::div_.Tensor", 4, "div__Tensor_0_3", _of_div(second=True)),
    Upgrade("aten::div_.Scalar", 4, "div__Scalar_0_3", _of_div(second=False)),
    Upgrade("aten::full", 5, "full_0_4", _of_full),
    Upgrade("aten::linspace", 8, "linspace_0_7", _of_range()),
    Upgrade("aten::linspace.out", 8, "linspace_out_0_7", _of_range(out=True)),
    Upgrade("aten::logspace", 9, "logspace_0_8", _of_range()),
    Upgrade("aten::logspace.out", 9, "logspace_out_0_8", _of_range(out=True)),
]
_added: dict[str, Function] = {}
"""Functions that were given with `add_upgrade`."""


@cache
def _functions() -> dict[str, Function]:
    return define_text(new_program(), _TEXT, {"torch": torch}, filename="<older versions of operators>").functions


def upgrades() -> Sequence[Upgrade]:
    """What is known of older versions of operators."""
    return tuple(_UPGRADES)


def upgraders() -> dict[str, Function]:
    """The functions that stand for operators of older versions, by name."""
    return {**_functions(), **_added}


def add_upgrade(upgrade: Upgrade) -> None:
    """Let archives that are older than it says have another meaning of an operator."""
    _UPGRADES.append(upgrade)


def remove_upgrades(operator: str) -> None:
    """Forget what `add_upgrade` was told of an operator."""
    _UPGRADES[:] = [u for u in _UPGRADES if u.operator != operator]


def add_upgrader(name: str, function: Function) -> None:
    """Give the function of an upgrade that was added."""
    _added[name] = function


def remove_upgrader(name: str) -> None:
    """Forget a function that was given with `add_upgrader`."""
    _added.pop(name, None)


def replacements() -> frozenset[Function]:
    """The functions that stand for operators, as far as they have been needed."""
    known = _functions().values() if _functions.cache_info().currsize else ()
    return frozenset([*known, *_added.values()])


def upgraded(name: str, version: int) -> SugaredValue | None:
    """What an operator of an archive of that version means, None for the operator of this name as it is today."""
    found = [u for u in _UPGRADES if u.since > version and u.operator.partition(".")[0] == name]
    if not found:
        return None

    def function(b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue | None:
        types, keywords = _types(b, args), {str(k.name) for k in kwargs}
        chosen = next((u for u in found if u.accepts(types, keywords)), None)
        return None if chosen is None else FunctionValue(upgraders()[chosen.upgrader])

    return Upgraded(name, function)


def upgrader_of(operator: str, version: int) -> Function | None:
    """What stands for an overload of an operator in an archive of that version, None for the operator itself."""
    found = next((u for u in _UPGRADES if u.operator == operator and u.since > version), None)
    return None if found is None else upgraders()[found.upgrader]


def _types(b: Builder, args: Sequence[Any]) -> list[Type]:
    return [a.in_graph(b.graph).type for a in args]
