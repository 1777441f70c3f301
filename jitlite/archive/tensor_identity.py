"""Tensors of a module that have several names keep them when they are exchanged for others.

`.to(dtype)` makes new buffers, and an assignment a new parameter. What a list of the module held of the old ones, it
holds of the new ones afterwards. Tensors that share memory share it in copies too, which Python's own copies of
parameters and plain pickles of tensors do not see to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import torch

from jitlite.base.dynamo import unseen_by_dynamo
from jitlite.ir.values import class_type_of

_WEIGHTS, _NAMES = "_flat_weights", "_flat_weights_names"
"""Attributes of torch's recurrent modules: a list of parameters, and what these are called."""

Function = Callable[[torch.Tensor], torch.Tensor]


class SharedResults:
    """A function of tensors that gives one result for each tensor, however often it is asked.

    Attributes:
        results: by identity: the tensors, which are kept so that the identities stay theirs, and their results.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self.results: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        known = self.results.get(id(tensor))
        if known is None:
            known = self.results[id(tensor)] = tensor, self.function(tensor)
        return known[1]


def exchange_buffers(module: torch.nn.Module, apply: Callable[[Function], object], function: Function) -> None:
    """Run `apply`, which exchanges the buffers of a module for what the function makes of them, and let all other
    places in the module, and in the modules in it, that held one of them hold the new one."""
    shared = SharedResults(function)
    before = [buffer for buffer in module.buffers() if buffer is not None]
    apply(shared)
    new = {id(b): shared.results[id(b)][1] for b in before if id(b) in shared.results}
    new = {key: tensor for key, tensor in new.items() if id(tensor) != key}
    exchange = _TensorExchange(new)
    for inner in module.modules():
        if new:
            exchange.attributes(inner)
        collect_weights(inner)


class _TensorExchange:
    """Puts new tensors in the places of others: in attributes, containers and objects of script classes."""

    def __init__(self, new: dict[int, torch.Tensor]) -> None:
        self.new = new
        self.seen: dict[int, object] = {}

    def attributes(self, owner: object) -> None:
        held = getattr(owner, "__dict__", {})
        for name, value in list(held.items()):
            if name not in _REGISTERED:
                exchanged = self.exchanged(value)
                if exchanged is not value:
                    held[name] = exchanged

    def _exchanged_tuple(self, value: tuple[object, ...]) -> object:
        parts = [self.exchanged(element) for element in value]
        if all(one is other for one, other in zip(parts, value, strict=True)):
            return value
        return getattr(type(value), "_make", tuple)(parts)

    def exchanged(self, value: object) -> Any:
        """The value with the new tensors in it. Lists, dicts and objects stay the objects that they are."""
        if isinstance(value, torch.Tensor):
            return self.new.get(id(value), value)
        if isinstance(value, tuple):
            return self._exchanged_tuple(value)
        if id(value) not in self.seen:
            self.seen[id(value)] = value
            if type(value) is list:
                value[:] = [self.exchanged(element) for element in value]
            elif type(value) is dict:
                value.update({key: self.exchanged(element) for key, element in value.items()})
            elif _is_object(value):
                self.attributes(value)
        return value


_REGISTERED = ("_parameters", "_buffers", "_modules")


def _is_object(value: object) -> bool:
    """Is it an object of a script class?"""
    return not isinstance(value, torch.nn.Module | type) and class_type_of(value) is not None


def collect_weights(module: torch.nn.Module, changed: str | None = None) -> None:
    """Let the list of weights of a recurrent module hold its parameters, as the Python class does.

    Args:
        changed: the one attribute that was assigned; None for any.
    """
    weights, names = vars(module).get(_WEIGHTS), vars(module).get(_NAMES)
    if type(weights) is not list or not isinstance(names, list) or len(weights) != len(names):
        return
    for i, name in enumerate(names):
        if changed in (None, name) and isinstance(getattr(module, name, None), torch.Tensor):
            weights[i] = getattr(module, name)


def collecting_weights(call: Callable[..., Any], module: object) -> Callable[..., Any]:
    """A call during which the recurrent modules in a module hold their parameters; `call` itself where there are none.

    `torch.func.functional_call` puts other parameters into a module past `__setattr__`, which says nothing of it, and
    takes them out again.
    """
    found = module.modules() if isinstance(module, torch.nn.Module) else ()
    recurrent = [vars(inner) for inner in found if _WEIGHTS in vars(inner) and _NAMES in vars(inner)]
    if not recurrent:
        return call

    @unseen_by_dynamo
    def collect_and_call(*args: object, **kwargs: object) -> Any:
        exchanged: list[tuple[list[torch.Tensor], int, torch.Tensor]] = []
        for attributes in recurrent:
            weights, parameters = attributes[_WEIGHTS], attributes["_parameters"]
            for at, name in enumerate(attributes[_NAMES]):
                parameter = parameters.get(name)
                if parameter is not None and parameter is not weights[at]:
                    exchanged.append((weights, at, weights[at]))
                    weights[at] = parameter
        try:
            return call(*args, **kwargs)
        finally:
            for weights, at, weight in exchanged:
                weights[at] = weight

    return collect_and_call


# -- memory that several tensors share

_COPYING = "jitlite is copying a module"
"""The key that a memo of deepcopy has while the copy is being made of the module that others are in."""
_Copy = TypeVar("_Copy")


def tensors_in(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    """The tensors in the attributes of a module and of those in it, each once."""
    seen: set[int] = set()
    todo: list[object] = [vars(inner) for inner in module.modules()]
    while todo:
        value = todo.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, dict):
            todo += value.values()
        elif isinstance(value, list | tuple):
            todo += value
        elif _is_object(value):
            todo += getattr(value, "__dict__", {}).values()


def sharing_memory(tensors: Iterable[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Those of the tensors that lie on one storage with others, by storage."""
    groups: dict[int, list[torch.Tensor]] = {}
    for tensor in tensors:
        if tensor.layout is torch.strided and not tensor.is_quantized and type(tensor) in _PLAIN:
            storage = tensor.untyped_storage()
            if storage.nbytes():
                groups.setdefault(storage._cdata, []).append(tensor)
    return [group for group in groups.values() if len(group) > 1]


_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def share_memory(tensors: Sequence[torch.Tensor], like: Sequence[torch.Tensor] | None = None) -> None:
    """Let tensors lie on one storage.

    Args:
        like: tensors that do so, of which these are copies; the storage is then a copy of theirs. Else every tensor has
            a copy of the whole storage.
    """
    first = tensors[0].untyped_storage()
    if all(tensor.untyped_storage()._cdata == first._cdata for tensor in tensors):
        return
    if like is not None:
        storage: Any = like[0].untyped_storage()
        first = storage.clone()
    elif any(tensor.untyped_storage().nbytes() != first.nbytes() for tensor in tensors):
        return
    for tensor, shape in zip(tensors, like or tensors, strict=True):
        view = torch.empty(0, dtype=tensor.dtype, device=first.device)
        tensor.data = view.set_(first, shape.storage_offset(), shape.shape, shape.stride())


def deep_copy(module: torch.nn.Module, memo: dict[Any, Any], copied: Callable[[], _Copy]) -> _Copy:
    """What `copied` makes, a deep copy of a module with this memo, whose tensors share memory as the module's do."""
    if _COPYING in memo:
        return copied()
    memo[_COPYING] = True
    try:
        made = copied()
    finally:
        del memo[_COPYING]
    for group in sharing_memory(tensors_in(module)):
        copies = [(tensor, memo[id(tensor)]) for tensor in group if id(tensor) in memo]
        if len(copies) > 1:
            share_memory([new for _, new in copies], [old for old, _ in copies])
    return made
