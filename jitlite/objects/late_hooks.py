"""Hooks that are put on a script module when it is compiled already."""

from __future__ import annotations

import warnings
from typing import Any

import torch

INNER = "__jitlite_inner__"
"""The attribute that marks a script module as one that a script calls."""
_METHODS = (
    "register_forward_pre_hook", "register_forward_hook", "register_full_backward_pre_hook",
    "register_full_backward_hook", "register_backward_hook",
)  # fmt: skip


class LateHooks(torch.nn.Module):
    """A module that warns of hooks which scripts would not run.

    Python's call of a module runs its hooks. A script that calls it knows those that it had when it was compiled.
    """


def _warning(name: str) -> Any:
    inherited = getattr(torch.nn.Module, name)

    def register(self: torch.nn.Module, *args: object, **kwargs: object) -> Any:
        if INNER in vars(self):
            warnings.warn(
                f"{name} on a submodule of a script module: the script was compiled without this hook and calls the "
                "submodule without it; only Python's own calls of the submodule run it. Register hooks on the Python "
                "module, and script it then",
                stacklevel=2,
            )
        return inherited(self, *args, **kwargs)

    register.__name__, register.__qualname__ = name, f"{LateHooks.__name__}.{name}"
    register.__doc__ = inherited.__doc__
    return register


for _name in _METHODS:
    setattr(LateHooks, _name, _warning(_name))
