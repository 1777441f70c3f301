"""`trace(..., halves_as_float=True)`: half arguments, parameters and buffers are float32 while the function is traced.

A model for halves and floats together cannot always run as it is, as torch multiplies no matrix of halves with one of
floats. Its trace can be made on floats, and `cast_by_policy` then says what is half. What is traced has the tensors of
the module, halves again, and remembers in `halves` which arguments and tensors of the module were half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import torch

from jitlite.api.dispatch_inputs import ExampleArguments, named_tensors
from jitlite.frontend.tracing.trace_values import tensors

_T = TypeVar("_T")
Exchanged = dict[str, torch.Tensor]
"""The halves of a module that gave way, by their names."""


class Floats(ExampleArguments):
    """Makes float32 tensors of halves in arguments, of each tensor one."""

    def __init__(self) -> None:
        super().__init__(None, None, with_gradients=False)
        self._floats: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def tensor(self, tensor: torch.Tensor, place: str = "") -> torch.Tensor:
        """The tensor in float32, if it is half."""
        if tensor.dtype is not torch.float16:
            return tensor
        if id(tensor) not in self._floats:
            made = tensor.detach().float().requires_grad_(tensor.requires_grad)
            if isinstance(tensor, torch.nn.Parameter):
                made = torch.nn.Parameter(made, tensor.requires_grad)
            self._floats[id(tensor)] = tensor, made
        return self._floats[id(tensor)][1]


@contextmanager
def floats_in(module: torch.nn.Module | None, floats: Floats) -> Iterator[Exchanged]:
    """Within the `with`, the module has float32 tensors instead of halves; gives these."""
    exchanged = []
    for holder, key, _, name in [] if module is None else list(named_tensors(module)):
        if holder[key].dtype is torch.float16:
            exchanged.append((holder, key, name, holder[key]))
            holder[key] = floats.tensor(holder[key])
    try:
        yield {name: half for _, _, name, half in exchanged}
    finally:
        for holder, key, _, half in exchanged:
            holder[key] = half


def trace_of_halves(
    traced: Callable[[Floats], _T], module: torch.nn.Module | None, examples: Mapping[str, object]
) -> _T:
    """What is traced while halves are float32.

    Args:
        traced: makes the trace, and is given what makes float32 tensors of halves in arguments.
        module: whose tensors take part, if there is one.
        examples: the arguments by their names.
    """
    floats = Floats()
    with floats_in(module, floats) as exchanged:
        made = traced(floats)
    if isinstance(made, torch.nn.Module):
        for holder, key, _, name in list(named_tensors(made)):
            if name in exchanged:
                holder[key] = exchanged[name]
    arguments = [n for n, given in examples.items() if any(t.dtype is torch.float16 for t in tensors(given))]
    vars(made)["halves"] = (*arguments, *exchanged)
    return made
