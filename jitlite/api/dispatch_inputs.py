"""What is traced at the dispatcher is called with: the arguments, and the state of its module, real or fake."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from jitlite.base.dataclass_values import fields_of, with_fields
from jitlite.base.errors.ways_out import NO_TRACE
from jitlite.frontend.tracing.argument_trees import with_other_parts
from jitlite.frontend.tracing.trace_backend import Sizes

State = dict[int, tuple[str, str, torch.Tensor]]
"""Tensors of a module by identity: their kind, their name, and the module's own tensor."""


class ExampleArguments:
    """Makes of examples what the function is called with: each tensor once, fake if that is wanted."""

    def __init__(self, fake_mode: Any, sizes: Sizes | None, with_gradients: bool) -> None:
        self._fake_mode = fake_mode
        self._sizes = sizes
        self._with_gradients = with_gradients
        self._seen: set[int] = set()
        self._kept: list[torch.Tensor] = []

    def __call__(self, example: object, place: str) -> Any:
        if isinstance(example, torch.Tensor):
            return self.tensor(example, place)
        if isinstance(example, dict):
            return type(example)((k, self(v, f"{place}[{k!r}]")) for k, v in example.items())
        if isinstance(example, list):
            return [self(v, f"{place}[{i}]") for i, v in enumerate(example)]
        if isinstance(example, tuple) and not isinstance(example, torch.Size):
            return self._tuple(example, place)
        fields = fields_of(example)
        if fields is not None:
            return with_fields(example, {name: self(field, f"{place}.{name}") for name, field in fields.items()})
        return with_other_parts(example, lambda part, where: self(part, place + where))

    def _tuple(self, example: tuple[object, ...], place: str) -> object:
        names = getattr(type(example), "_fields", None)
        if names is None:
            return tuple(self(v, f"{place}[{i}]") for i, v in enumerate(example))
        return type(example)(*(self(v, f"{place}.{name}") for name, v in zip(names, example, strict=True)))

    def tensor(self, tensor: torch.Tensor, place: str) -> torch.Tensor:
        """What the function is called with instead of a tensor."""
        if self._sizes is not None:
            tensor = self._sizes.fake(place, tensor)
        elif self._fake_mode is not None and not hasattr(tensor, "fake_mode"):
            tensor = self._fake_mode.from_tensor(tensor)
        if id(tensor) in self._seen:  # another object for the same memory
            detached = tensor.detach().requires_grad_(tensor.requires_grad)
            tensor = detached if self._with_gradients else tensor.view_as(tensor)
        self._seen.add(id(tensor))
        self._kept.append(tensor)
        return tensor


def named_tensors(module: torch.nn.Module) -> Iterator[tuple[dict[str, Any], str, str, str]]:
    """Where the tensors of a module and its submodules are: the dict and the key, their kind and their name."""
    for prefix, inner in module.named_modules():
        holders = (("parameter", inner._parameters), ("buffer", inner._buffers), ("attribute", vars(inner)))
        for kind, holder in holders:
            for key, value in holder.items():
                if isinstance(value, torch.Tensor):
                    yield holder, key, kind, f"{prefix}.{key}".lstrip(".")


@contextmanager
def state_of(module: torch.nn.Module | None, fake_mode: Any) -> Iterator[State]:
    """The tensors of a module; within the `with`, it has fake ones if there is a mode for these."""
    state: State = {}
    exchanged: list[tuple[dict[str, object], str, object]] = []
    fakes: dict[int, torch.Tensor] = {}
    for holder, key, kind, name in [] if module is None else list(named_tensors(module)):
        tensor = holder[key]
        if fake_mode is not None:
            fake = fakes.get(id(tensor))
            if fake is None:
                fake = fakes[id(tensor)] = fake_mode.from_tensor(tensor, static_shapes=True)
            exchanged.append((holder, key, tensor))
            holder[key] = fake
        state.setdefault(id(holder[key]), (kind, name, tensor))
    try:
        yield state
    finally:
        for holder, key, tensor in exchanged:
            holder[key] = tensor


@contextmanager
def own_tensors(module: torch.nn.Module | None, state: State) -> Iterator[None]:
    """Within the `with`, a module that has fake tensors has its own again, which nobody may write.

    Raises:
        CompileError: one has been written.
    """
    exchanged: list[tuple[dict[str, object], str, object]] = []
    versions: list[tuple[str, torch.Tensor, int]] = []
    for holder, key, _, name in [] if module is None else list(named_tensors(module)):
        own = state[id(holder[key])][2] if id(holder[key]) in state else holder[key]
        if own is not holder[key]:
            exchanged.append((holder, key, holder[key]))
            versions.append((name, own, -1 if own.is_inference() else own._version))
            holder[key] = own
    try:
        yield
    finally:
        for holder, key, fake in exchanged:
            holder[key] = fake
    for name, own, version in versions:
        if version not in (-1, own._version):
            raise NO_TRACE(f"what on_cpu() leaves to Python writes {name}", hint="write it behind the block")


def by_tensor(module: torch.nn.Module | None, state: State) -> Iterator[tuple[torch.Tensor, Any]]:
    """The tensors that the module has now, each once, with what is known of them."""
    seen: set[int] = set()
    for holder, key, _, _ in [] if module is None else named_tensors(module):
        tensor = holder[key]
        if id(tensor) in state and id(tensor) not in seen:
            seen.add(id(tensor))
            yield tensor, state[id(tensor)]


def named_arguments(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> tuple[list[tuple[str, Any]], dict[str, Any]]:
    """Positional arguments with the names of their parameters, and those by keyword.

    Raises:
        TypeError: where the function takes no such arguments.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return [(f"argument_{i}", a) for i, a in enumerate(args)], dict(kwargs)
    signature.bind(*args, **kwargs)
    plain = [p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in signature.parameters.values() if p.kind is p.VAR_POSITIONAL), "argument")
    names = [*plain[: len(args)], *(f"{rest}_{i}" for i in range(len(args) - len(plain)))]
    return list(zip(names, args, strict=True)), dict(kwargs)
