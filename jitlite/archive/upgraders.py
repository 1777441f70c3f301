"""Operators of older versions: what stands for one in an archive that was written when it did something else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from jitlite.compiler import Program
from jitlite.frontend.archive_names import Upgraded
from jitlite.frontend.builder import Builder
from jitlite.frontend.callables import FunctionValue
from jitlite.frontend.values import Args, SugaredValue
from jitlite.ir import types as T
from jitlite.ir.types import Type
from jitlite.ir.unit import Function
from jitlite.source import SourceRange
from jitlite.text import define_text

_TENSOR_IS_FLOAT, _NUMBER_IS_FLOAT = "other.is_floating_point()", "isinstance(other, float)"
_OPTIONS = "dtype: Optional[int] = None, layout: Optional[int] = None, device: Optional[Device] = None, \
pin_memory: Optional[bool] = None"
_PASS_OPTIONS = "dtype=dtype, layout=layout, device=device, pin_memory=pin_memory"

_TEXT = "\n".join(
    [
        "def div_tensor(self: Tensor, other: Tensor) -> Tensor:\n"
        f"    if self.is_floating_point() or {_TENSOR_IS_FLOAT}:\n"
        "        return torch.true_divide(self, other)\n"
        "    return torch.div(self, other, rounding_mode='trunc')\n",
        "def div_number(self: Tensor, other: number) -> Tensor:\n"
        f"    if self.is_floating_point() or {_NUMBER_IS_FLOAT}:\n"
        "        return torch.true_divide(self, other)\n"
        "    return torch.div(self, other, rounding_mode='trunc')\n",
        "def div_out(self: Tensor, other: Tensor, *, out: Tensor) -> Tensor:\n"
        f"    if self.is_floating_point() or {_TENSOR_IS_FLOAT} or out.is_floating_point():\n"
        "        return torch.div(self, other, out=out)\n"
        "    return torch.div(self, other, rounding_mode='trunc', out=out)\n",
        "def div_tensor_(self: Tensor, other: Tensor) -> Tensor:\n"
        f"    if self.is_floating_point() or {_TENSOR_IS_FLOAT}:\n"
        "        return self.div_(other)\n"
        "    return self.div_(other, rounding_mode='trunc')\n",
        "def div_number_(self: Tensor, other: number) -> Tensor:\n"
        f"    if self.is_floating_point() or {_NUMBER_IS_FLOAT}:\n"
        "        return self.div_(other)\n"
        "    return self.div_(other, rounding_mode='trunc')\n",
        f"def full(size: List[int], fill_value: number, *, {_OPTIONS}) -> Tensor:\n"
        "    if dtype is None:\n"
        "        fill_value = float(fill_value)\n"
        f"    return torch.full(size, fill_value, {_PASS_OPTIONS})\n",
        f"def linspace(start: number, end: number, steps: Optional[int] = 100, *, {_OPTIONS}) -> Tensor:\n"
        f"    return torch.linspace(start, end, 100 if steps is None else steps, {_PASS_OPTIONS})\n",
        "def linspace_out(start: number, end: number, steps: Optional[int] = 100, *, out: Tensor) -> Tensor:\n"
        "    return torch.linspace(start, end, 100 if steps is None else steps, out=out)\n",
        f"def logspace(start: number, end: number, steps: Optional[int] = 100, base: float = 10.0, *, {_OPTIONS})"
        " -> Tensor:\n"
        f"    return torch.logspace(start, end, 100 if steps is None else steps, base, {_PASS_OPTIONS})\n",
        "def logspace_out(start: number, end: number, steps: Optional[int] = 100, base: float = 10.0, *, out: Tensor)"
        " -> Tensor:\n"
        "    return torch.logspace(start, end, 100 if steps is None else steps, base, out=out)\n",
    ]
)
"""What the operators did, in terms of today's."""

Chooser = Callable[[list[Type], set[str]], "str | None"]


def _of_div(types: list[Type], keywords: set[str]) -> str | None:
    if not _of_tensors(types) or "rounding_mode" in keywords or len(types) != 2:
        return None
    if "out" in keywords:
        return "div_out"
    return "div_tensor" if T.is_subtype(types[1], T.TENSOR) else "div_number"


def _of_div_(types: list[Type], keywords: set[str]) -> str | None:
    if not _of_tensors(types) or "rounding_mode" in keywords or len(types) != 2:
        return None
    return "div_tensor_" if T.is_subtype(types[1], T.TENSOR) else "div_number_"


def _of_tensors(types: list[Type]) -> bool:
    return bool(types) and T.is_subtype(types[0], T.TENSOR)


def _of_full(types: list[Type], keywords: set[str]) -> str | None:
    return None if keywords & {"names", "out"} else "full"


def _of_range(name: str) -> Chooser:
    def choose(types: list[Type], keywords: set[str]) -> str | None:
        if any(T.is_subtype(t, T.TENSOR) for t in types[:2]):
            return None
        return f"{name}_out" if "out" in keywords else name

    return choose


@dataclass(frozen=True)
class _Upgrade:
    """In archives older than `since` the operator was what `choose` names by the arguments; None for today's."""

    since: int
    choose: Chooser


_UPGRADES: dict[str, _Upgrade] = {
    "aten::div": _Upgrade(4, _of_div), "aten::div_": _Upgrade(4, _of_div_), "aten::full": _Upgrade(5, _of_full),
    "aten::linspace": _Upgrade(8, _of_range("linspace")), "aten::logspace": _Upgrade(9, _of_range("logspace")),
}  # fmt: skip


@cache
def _functions() -> dict[str, Function]:
    return define_text(Program(), _TEXT, {"torch": torch}, filename="<older versions of operators>").functions


def replacements() -> frozenset[Function]:
    """The functions that stand for operators, as far as they have been needed."""
    return frozenset(_functions().values()) if _functions.cache_info().currsize else frozenset()


def upgraded(name: str, version: int) -> SugaredValue | None:
    """What an operator of an archive of that version means, None for the operator of this name as it is today."""
    upgrade = _UPGRADES.get(name)
    if upgrade is None or version >= upgrade.since:
        return None
    choose = upgrade.choose

    def function(b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue | None:
        chosen = choose(_types(b, args), {str(k.name) for k in kwargs})
        return None if chosen is None else FunctionValue(_functions()[chosen])

    return Upgraded(name, function)


def _types(b: Builder, args: Sequence[Any]) -> list[Type]:
    return [a.in_graph(b.graph).type for a in args]
