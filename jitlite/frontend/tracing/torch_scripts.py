"""Functions and modules that `torch.jit.script` or `torch.jit.trace` has made. Scripts use what they are converted to.

How they are converted is known further up, where archives are read: `convert_with` says it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from jitlite.base.errors.ways_out import NOT_FROM_TORCH
from jitlite.ir.constants import module_name

_converters: list[Callable[[object], object]] = []


def is_torch_script_function(found: object) -> bool:
    """Is it a function that torch.jit has compiled or traced?"""
    return type(found).__name__ == "ScriptFunction" and module_name(type(found)).startswith(("torch.jit", "torch._C"))


def is_torch_script_module(found: object) -> bool:
    """Is it a module that torch.jit has compiled, traced or loaded?"""
    return isinstance(found, torch.nn.Module) and any(
        cls.__name__ == "ScriptModule" and module_name(cls).startswith("torch.jit") for cls in type(found).__mro__
    )


def was_traced(function: Any) -> bool:
    """Does the function come from `torch.jit.trace`? Only there do values have all that is known of tensors."""
    return "requires_grad=" in str(function.graph).partition("):\n")[0]


def convert_with(convert: Callable[[Any], object]) -> None:
    """Say what converts a function or module of torch.jit."""
    _converters[:] = [convert]


def source_of_script(function: object) -> Callable[..., object] | None:
    """The Python function that a compiled function of torch.jit was made from; None where it does something else."""
    original: Callable[..., object] | None = getattr(function, "_torchdynamo_inline", None)
    return None if original is None or was_traced(function) else original


def converted_function(function: object) -> Any:
    """`converted`, once for each function."""
    made = vars(function).get(_CONVERTED)
    if made is None:
        made = converted(function)
        setattr(function, _CONVERTED, made)
    return made


_CONVERTED = "__jitlite_converted__"


def converted(found: object) -> Any:
    """The script function or script module that does what a function or module of torch.jit does.

    Raises:
        NotSupportedError: where it cannot be written to an archive.
    """
    if not _converters:
        raise NOT_FROM_TORCH(f"nothing is known here that converts the {type(found).__name__} of torch.jit")
    return _converters[0](found)


@contextmanager
def with_converted_submodules(module: torch.nn.Module) -> Iterator[None]:
    """Within the `with`, the submodules that torch.jit has compiled are exchanged for what they are converted to."""
    exchanged = []
    made: dict[torch.nn.Module, Any] = {}
    try:
        for owner in list(module.modules()):
            if is_torch_script_module(owner):
                continue
            for name, found in owner._modules.items():
                if found is not None and is_torch_script_module(found):
                    exchanged.append((owner, name, found))
                    if found not in made:
                        made[found] = converted(found)
                    owner._modules[name] = made[found]
        yield
    finally:
        for owner, name, found in exchanged:
            owner._modules[name] = found
