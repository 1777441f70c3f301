"""Core ATen: the operators that torch tags with `torch.Tag.core`, and how others are written with these.

torch's own table (`torch._decomp`) says what most operators are made of, and operators that torch composes of others
say it themselves. Here is what these leave open: operators that need no table, and those for which it is not right.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from jitlite.base import torch_internals
from jitlite.ir import types as T
from jitlite.ir.graph import Graph
from jitlite.ir.ops import Op
from jitlite.ir.parser import parse
from jitlite.ir.traits import Trait


def is_supported(op: Op) -> bool:
    """Is the operator of the set, or none of torch's on tensors?"""
    if op.has(Trait.CORE_KEPT) or op.has(Trait.CORE_QUESTION):
        return True
    if op.overload is None:
        return not _has_tensor(op) or op.schema.name.startswith("prim::") or op.has(Trait.CORE_CONTAINER)
    return is_core(op.overload) or not _has_tensor(op)


def is_core(overload: Any) -> bool:
    """Is the dispatcher's operator of the set?"""
    return torch.Tag.core in overload.tags


def _has_tensor(op: Op) -> bool:
    return any(_is_tensor(a.type) for a in (*op.schema.arguments, *op.schema.returns))


def _is_tensor(t: T.Type) -> bool:
    return isinstance(t, T.TensorType) or any(map(_is_tensor, t.contained))


@functools.cache
def table() -> dict[Any, Callable[..., Any]]:
    """What operators are made of, by the dispatcher's operator: as core ATen has it, else as torch knows at all."""
    core: Any = torch_internals.core_aten_decompositions()
    return {**torch_internals.decomposition_table, **{overload: core[overload] for overload in core}}


RULES: dict[str, str] = {
    # a view where the memory allows it, else a copy: always a copy
    "aten::reshape": """
graph(%self : Tensor, %shape : int[]):
  %contiguous : int = prim::Constant[value=0]()
  %copy : Tensor = aten::clone(%self, %contiguous)
  %view : Tensor = aten::view(%copy, %shape)
  return (%view)""",
    "aten::contiguous": """
graph(%self : Tensor, %format : int):
  %copy : Tensor = aten::clone(%self, %format)
  return (%copy)""",
    "aten::_unsafe_view": """
graph(%self : Tensor, %shape : int[]):
  %view : Tensor = aten::view(%self, %shape)
  return (%view)""",
    "aten::max": """
graph(%self : Tensor):
  %all : int[] = prim::Constant[value=annotate(List[int], [])]()
  %keep : bool = prim::Constant[value=0]()
  %result : Tensor = aten::amax(%self, %all, %keep)
  return (%result)""",
    "aten::min": """
graph(%self : Tensor):
  %all : int[] = prim::Constant[value=annotate(List[int], [])]()
  %keep : bool = prim::Constant[value=0]()
  %result : Tensor = aten::amin(%self, %all, %keep)
  return (%result)""",
    "aten::exp2": """
graph(%self : Tensor):
  %two : float = prim::Constant[value=2.]()
  %result : Tensor = aten::pow(%two, %self)
  return (%result)""",
    "aten::relu6": """
graph(%self : Tensor):
  %low : int = prim::Constant[value=0]()
  %high : int = prim::Constant[value=6]()
  %result : Tensor = aten::hardtanh(%self, %low, %high)
  return (%result)""",
    # the larger one is taken out of the root, so that squares neither overflow nor vanish
    "aten::hypot": """
graph(%self : Tensor, %other : Tensor):
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %infinity : float = prim::Constant[value=inf]()
  %none : NoneType = prim::Constant()
  %a : Tensor = aten::abs(%self)
  %b : Tensor = aten::abs(%other)
  %large : Tensor = aten::maximum(%a, %b)
  %small : Tensor = aten::minimum(%a, %b)
  %part : Tensor = aten::div(%small, %large)
  %square : Tensor = aten::mul(%part, %part)
  %sum : Tensor = aten::add(%square, %one, %one)
  %root : Tensor = aten::sqrt(%sum)
  %product : Tensor = aten::mul(%large, %root)
  %is_zero : Tensor = aten::eq(%large, %zero)
  %finite : Tensor = aten::where(%is_zero, %large, %product)
  %a_infinite : Tensor = aten::isinf(%a)
  %b_infinite : Tensor = aten::isinf(%b)
  %is_infinite : Tensor = aten::logical_or(%a_infinite, %b_infinite)
  %infinite : Tensor = aten::full_like(%finite, %infinity, %none, %none, %none, %none, %none)
  %result : Tensor = aten::where(%is_infinite, %infinite, %finite)
  return (%result)""",
    # torch writes to parts of a tensor in these; a view fails where batches are of different sizes, as they do
    "aten::gru_cell": """
graph(%input : Tensor, %hx : Tensor, %w_ih : Tensor, %w_hh : Tensor, %b_ih : Tensor?, %b_hh : Tensor?):
  %start : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %three : int = prim::Constant[value=3]()
  %size : int = aten::size(%hx, %one)
  %second : int = aten::mul(%size, %two)
  %end : int = aten::mul(%size, %three)
  %batch : int = aten::size(%hx, %start)
  %sizes : int[] = prim::ListConstruct(%batch, %end)
  %any : Tensor = aten::linear(%input, %w_ih, %b_ih)
  %i : Tensor = aten::view(%any, %sizes)
  %h : Tensor = aten::linear(%hx, %w_hh, %b_hh)
  %i_reset : Tensor = aten::slice(%i, %one, %start, %size, %one)
  %h_reset : Tensor = aten::slice(%h, %one, %start, %size, %one)
  %i_update : Tensor = aten::slice(%i, %one, %size, %second, %one)
  %h_update : Tensor = aten::slice(%h, %one, %size, %second, %one)
  %i_new : Tensor = aten::slice(%i, %one, %second, %end, %one)
  %h_new : Tensor = aten::slice(%h, %one, %second, %end, %one)
  %reset_sum : Tensor = aten::add(%h_reset, %i_reset, %one)
  %reset : Tensor = aten::sigmoid(%reset_sum)
  %update_sum : Tensor = aten::add(%h_update, %i_update, %one)
  %update : Tensor = aten::sigmoid(%update_sum)
  %remembered : Tensor = aten::mul(%h_new, %reset)
  %new_sum : Tensor = aten::add(%i_new, %remembered, %one)
  %new : Tensor = aten::tanh(%new_sum)
  %difference : Tensor = aten::sub(%hx, %new, %one)
  %kept : Tensor = aten::mul(%difference, %update)
  %result : Tensor = aten::add(%kept, %new, %one)
  return (%result)""",
    **{
        f"aten::rnn_{name}_cell": f"""
graph(%input : Tensor, %hx : Tensor, %w_ih : Tensor, %w_hh : Tensor, %b_ih : Tensor?, %b_hh : Tensor?):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %batch : int = aten::size(%hx, %zero)
  %size : int = aten::size(%hx, %one)
  %sizes : int[] = prim::ListConstruct(%batch, %size)
  %any : Tensor = aten::linear(%input, %w_ih, %b_ih)
  %i : Tensor = aten::view(%any, %sizes)
  %h : Tensor = aten::linear(%hx, %w_hh, %b_hh)
  %sum : Tensor = aten::add(%h, %i, %one)
  %result : Tensor = aten::{name}(%sum)
  return (%result)"""
        for name in ("tanh", "relu")
    },
}  # fmt: skip
"""Graphs by the operator's name, with the overload's behind a dot if it has one. They hold for any arguments; operators
in them that are not of the set give way in turn."""


@functools.cache
def rule_of(name: str) -> Graph | None:
    """The graph of `RULES` for an operator."""
    return parse(RULES[name]) if name in RULES else None
