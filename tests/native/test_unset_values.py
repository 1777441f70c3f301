"""Programs in text may read what was never set; machine code must not follow what is not there."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

import jitlite
from jitlite import options
from jitlite.objects.function import function_of_graph

LOOP = """graph(%n : int):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %t : bool = prim::Constant[value=1]()
  %u : {type} = prim::Uninitialized()
{before}
  %r : int, %w : {type} = prim::Loop(%n, %t, %zero, %u)
    block0(%i : int, %s : int, %d : {type}):
{body}
      %a : int = aten::add(%s, %l)
      -> (%t, %a, {next})
  return (%r)
"""
MERGED = """      %c : bool = aten::lt(%i, %one)
      %m : int[] = prim::If(%c)
        block0():
          -> (%d)
        block1():
          -> (%u)
      %l : int = aten::len(%m)"""
CASES = {
    "length": ("int[]", "", "      %l : int = aten::len(%u)", "%d"),
    "element": ("int[]", "", "      %l : int = aten::__getitem__(%u, %zero)", "%d"),
    "append": ("int[]", "", "      %z : int[] = aten::append(%d, %i)\n      %l : int = aten::len(%d)", "%d"),
    "item": ("Dict(int, int)", "", "       = aten::_set_item(%d, %i, %i)\n      %l : int = aten::len(%d)", "%d"),
    "contains": (
        "Dict(int, int)", "", "      %b : bool = aten::__contains__(%d, %i)\n      %l : int = aten::Int(%b)", "%d"
    ),
    "merged": ("int[]", "", MERGED, "%m"),
    "in a tuple": (
        "(int[], int)", "", "      %x : int[], %y : int = prim::TupleUnpack(%d)\n      %l : int = aten::len(%x)", "%d"
    ),
    "kept in a list": (
        "int[]", "  %ll : int[][] = prim::ListConstruct(%u)",
        "      %e : int[] = aten::__getitem__(%ll, %zero)\n      %l : int = aten::len(%e)", "%d",
    ),
    "kept in a tuple in a list": (
        "int[]",
        "  %p : (int[], int) = prim::TupleConstruct(%u, %one)\n  %ll : (int[], int)[] = prim::ListConstruct(%p)",
        "      %e : (int[], int) = aten::__getitem__(%ll, %zero)\n      %x : int[], %y : int = prim::TupleUnpack(%e)\n"
        "      %l : int = aten::len(%x)", "%d",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_was_never_set_is_left_to_python(case):
    kind, before, body, following = CASES[case]
    text = LOOP.format(type=kind, before=before, body=body, next=following)
    answers = []
    for native in ("off", "now"):
        with options.override(native=native, background=False):
            function = function_of_graph("f", jitlite.ir.parse(text))
            for n in (0, 3):
                with pytest.raises(Exception) if n else nullcontext() as found:  # noqa: PT011 - its kind is compared
                    function(n)
                answers.append((n, type(found.value) if n else None))
    assert answers[:2] == answers[2:]
