"""Functions of `torch.nn.functional` in a program: found again by comparing what they say, not by their names alone."""

from __future__ import annotations

import re
import weakref
from functools import cache
from typing import Any

import torch.nn.functional as F

from jitlite.base.source import CompileError
from jitlite.codegen.torchscript.source_out import function_source
from jitlite.compiler.program import Program, compiling
from jitlite.ir.compare import canonical_text
from jitlite.ir.unit import Function, called_function

MANGLED = re.compile(r"\.___torch_mangle_\d+")
_PREFIX = "__torch__.torch.nn.functional."
_known: weakref.WeakKeyDictionary[Function, str | None] = weakref.WeakKeyDictionary()


def same_function_of_torch(function: Function) -> str | None:
    """The name in `torch.nn.functional` of the function that a script function is; None if it is none of them."""
    if function not in _known:
        _known[function] = _find(function)
    return _known[function]


def _find(function: Function) -> str | None:
    name = MANGLED.sub("", function.qualified_name)
    plain = name.removeprefix(_PREFIX)
    if not name.startswith(_PREFIX) or not plain.isidentifier():
        return None
    original = getattr(F, plain, None)
    if original is None:
        return None
    if function.python_function is not None:
        return plain if function.python_function is original else None
    current = _current(plain)
    return plain if current is not None and same_meaning(function, current) else None


@cache
def _current(name: str) -> Function | None:
    """The function of torch, compiled."""
    try:
        with compiling():
            return Program().function_for(getattr(F, name))
    except CompileError:
        return None


def same_meaning(one: Function, other: Function) -> bool:
    """Do two functions say the same, and all that they call?"""
    todo, seen = [(one, other)], set[tuple[Function, Function]]()
    while todo:
        pair = todo.pop()
        if pair in seen:
            continue
        seen.add(pair)
        a, b = pair
        if a is b:
            continue
        if _text(a) != _text(b):
            return False
        called = [[called_function(n) for n in f.graph.all_nodes()] for f in pair]
        callees: Any = [[f for f in found if f is not None] for found in called]
        if len(callees[0]) != len(callees[1]):
            return False
        todo += zip(*callees, strict=True)
    return True


_texts: weakref.WeakKeyDictionary[Function, str] = weakref.WeakKeyDictionary()


def _text(function: Function) -> str:
    found = _texts.get(function)
    if found is None:
        try:
            found = function_source(function)
        except CompileError:
            found = canonical_text(function.graph)
        found = _texts[function] = MANGLED.sub("", found)
    return found
