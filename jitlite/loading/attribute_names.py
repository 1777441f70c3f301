"""Names that no attribute of an object in an archive can have: Python and torch keep there what an object is."""

from __future__ import annotations

import builtins
import inspect
import types

import torch

from jitlite.ir.code_text import is_dunder
from jitlite.objects.text import SPECIAL_METHODS

_OF_MODULES = frozenset(vars(torch.nn.Module())) - {"training", "_is_full_backward_hook"}
_CONVERSIONS = frozenset({
    "type", "to", "float", "double", "half", "bfloat16", "cpu", "cuda", "ipu", "xpu", "mtia", "compile", "extra_repr",
    "forward",
})  # fmt: skip
MODULE_METHODS = (
    frozenset(
        name
        for name, member in vars(torch.nn.Module).items()
        if inspect.isfunction(member) and not name.startswith("__")
    )
    - _CONVERSIONS
)
"""Methods of nn.Module that its other methods, or jitlite, call: what an archive has under such a name is not called in
their place."""
_TO_PYTHON = frozenset({
    "gi_frame", "gi_code", "gi_yieldfrom", "cr_frame", "cr_code", "cr_await", "cr_origin", "ag_frame", "ag_code",
    "ag_await", "tb_frame", "tb_next", "f_back", "f_builtins", "f_code", "f_globals", "f_locals",
})  # fmt: skip
"""Attributes of Python's own objects that lead to code and global names."""


def may_be_attribute(name: str) -> bool:
    """Can an attribute that an archive names be set without changing what its object is, and be read of any object?"""
    return name != "" and name not in _OF_MODULES | MODULE_METHODS | _TO_PYTHON and not is_special(name)


def is_special(name: str) -> bool:
    """Does Python, or jitlite, have a meaning of its own for such a name?"""
    return (name.startswith("__") and name.endswith("__")) or name.startswith(("__jitlite", "_jitlite"))


_MORE_METHODS = frozenset({"__getstate__", "__setstate__", "__post_init__"})

_OF_PYTHON = frozenset(
    name
    for known in (*vars(builtins).values(), *vars(types).values(), torch.Tensor, torch.nn.Module)
    if isinstance(known, type)
    for name in dir(known)
) | {
    "__del__", "__getattr__", "__set_name__", "__instancecheck__", "__subclasscheck__", "__missing__", "__reversed__",
    "__length_hint__", "__aenter__", "__aexit__", "__aiter__", "__anext__", "__await__", "__fspath__", "__bytes__",
    "__copy__", "__deepcopy__", "__replace__", "__getnewargs__", "__getnewargs_ex__", "__getinitargs__",
    "__mro_entries__", "__prepare__", "__classcell__", "__buffer__", "__release_buffer__",
}  # fmt: skip
"""Special names that Python or torch has a meaning for."""


def may_be_method(name: str) -> bool:
    """Can a class of an archive have a method of this name?"""
    return may_python_call(name) or (is_dunder(name) and name not in _OF_PYTHON and "jitlite" not in name)


def may_python_call(name: str) -> bool:
    """Can Python find such a method of an archive in its object?

    It does not find those that have a special name of which it knows nothing: libraries look for names of their own
    when they are given an object. Scripts call them by that name.
    """
    return not is_special(name) or name in SPECIAL_METHODS or name in _MORE_METHODS
