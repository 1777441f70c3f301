"""Names that no attribute of an object in an archive can have: Python and torch keep there what an object is."""

from __future__ import annotations

import torch

from jitlite.archive.unset import RAW_STATE
from jitlite.ir.values import CLASS_TYPE

_OF_MODULES = frozenset(vars(torch.nn.Module())) - {"training", "_is_full_backward_hook"}
_OF_OBJECTS = frozenset({"", "__class__", "__dict__", "__slots__", "__doc__", "__weakref__", CLASS_TYPE, RAW_STATE})


def may_be_attribute(name: str) -> bool:
    """Can an attribute that an archive names be set without changing what its object is?"""
    return name not in _OF_MODULES and name not in _OF_OBJECTS and not name.startswith("__jitlite")
