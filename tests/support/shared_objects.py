"""Random modules whose tensors, containers and submodules have several names, and which names mean the same object."""

from __future__ import annotations

import copy
import io
import pickle
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Tuple

import torch
from hypothesis import strategies as st
from torch import nn

import jitlite

NAMES = [f"a{i}" for i in range(6)]
"""The attributes that a module may have."""


@jitlite.script
class Holder:
    """An object of a script class with a tensor and a list."""

    def __init__(self, held: torch.Tensor, more: List[torch.Tensor]):
        self.held = held
        self.more = more


class Node(nn.Module):
    """A module with any attributes; what it computes says nothing."""

    def forward(self, x: torch.Tensor):
        return x + 1


class Pools:
    """The objects that a module is put together from, each made once."""

    def __init__(self) -> None:
        base = torch.arange(12.0)
        self.tensors: List[torch.Tensor] = [
            nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3), requires_grad=False), nn.Parameter(torch.ones(1)),
            torch.zeros(2), torch.zeros(1, dtype=torch.int64), torch.ones(2, requires_grad=True),
            base, base[2:6], base.reshape(3, 4).t(), base[2:6],
        ]  # fmt: skip
        t = self.tensors
        self.values: List[Any] = [
            *t, [t[0], t[3]], [t[0], t[0]], {"k": t[1], "l": t[7]}, (t[2], t[6]), [[t[3]], [t[3], t[5]]],
            ([t[0]], 2, "s"), {"a": [t[4]], "b": [t[0], t[2]]}, [(t[7], t[9])], [1, 2], [3], {1: 2.5},
        ]  # fmt: skip
        self.values += [Holder(t[0], self.values[10]), Holder(t[3], [t[3]])]


@dataclass
class Plan:
    """What a module has: numbers of values, of tensors registered as buffers, and plans of submodules."""

    values: Dict[str, int]
    buffers: Dict[str, int] = field(default_factory=dict)
    children: Dict[str, int] = field(default_factory=dict)


@st.composite
def plans(draw: Any) -> List[Plan]:
    """The modules of a program, each of which has some of those before it as submodules; the last one has the rest."""
    found: List[Plan] = []
    for number in range(draw(st.integers(1, 4))):
        names = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1))
        values = {n: draw(st.integers(0, 22)) for n in names}
        buffers = {n: values.pop(n) for n in names if 3 <= values[n] <= 9 and draw(st.booleans())}
        children = draw(st.lists(st.integers(0, number - 1), max_size=3)) if number else []
        found.append(Plan(values, buffers, {f"m{i}": c for i, c in enumerate(children)}))
    return found


def build(found: List[Plan]) -> Node:
    """The module of a program."""
    pools, made = Pools(), []
    for plan in found:
        module = Node()
        for name, number in plan.values.items():
            setattr(module, name, pools.values[number])
        for name, number in plan.buffers.items():
            module.register_buffer(name, pools.tensors[number], persistent=number % 2 == 0)
        for name, child in plan.children.items():
            setattr(module, name, made[child])
        made.append(module)
    return made[-1]


class Pattern:
    """Which names in a module mean the same object, and which tensors share memory."""

    def __init__(self, module: Any, *, storages: bool = True) -> None:
        self.storages = storages
        self.numbers: Dict[Any, int] = {}
        self.kept: List[Any] = []
        self.found: List[Any] = []
        self.module(module, "")

    def number(self, kind: str, key: Any) -> int:
        return self.numbers.setdefault((kind, key), len(self.numbers))

    def module(self, module: Any, path: str) -> None:
        first = ("module", id(module)) not in self.numbers
        self.found.append((path, "module", self.number("module", id(module))))
        if not first:
            return
        self.kept.append(module)
        for name in NAMES:
            if hasattr(module, name):
                place = "buffer" if name in dict(module.named_buffers(recurse=False)) else ""
                self.value(getattr(module, name), f"{path}.{name}{place}")
        for name, child in sorted(dict(module.named_children()).items()):
            self.module(child, f"{path}.{name}")
        for name in ("m0", "m1", "m2"):  # named_children leaves out what it has given
            if hasattr(module, name):
                self.module(getattr(module, name), f"{path}.{name}")

    def value(self, value: Any, path: str) -> None:
        self.kept.append(value)
        if isinstance(value, torch.Tensor):
            self.tensor(value, path)
        elif isinstance(value, list | dict):
            self.found.append((path, "container", self.number("container", id(value))))
            for key, element in value.items() if isinstance(value, dict) else enumerate(value):
                self.value(element, f"{path}[{key!r}]")
        elif isinstance(value, tuple):
            for i, element in enumerate(value):
                self.value(element, f"{path}({i})")
        elif hasattr(value, "held"):
            self.found.append((path, "object", self.number("object", id(value))))
            self.value(value.held, f"{path}.held")
            self.value(value.more, f"{path}.more")
        else:
            self.found.append((path, value))

    def tensor(self, value: torch.Tensor, path: str) -> None:
        storage = value.untyped_storage()
        self.kept.append(storage)
        seen: Tuple[Any, ...] = (path, "tensor", self.number("tensor", id(value)), value.requires_grad)
        if self.storages:
            seen += (self.number("storage", storage._cdata), value.storage_offset(), value.stride())
        self.found.append(seen)


def loaded(module: Any) -> Any:
    return jitlite.load(io.BytesIO(jitlite.script(module).save_to_buffer()))


def pickled(module: Any) -> Any:
    return pickle.loads(pickle.dumps(module))


ROADS: Dict[str, Callable[[Any], Any]] = {
    "script": jitlite.script,
    "load": loaded,
    "deepcopy": lambda m: copy.deepcopy(jitlite.script(m)),
    "copy": lambda m: copy.copy(jitlite.script(m)),
    "pickle": lambda m: pickled(jitlite.script(m)),
    "deepcopy of loaded": lambda m: copy.deepcopy(loaded(m)),
    "copy of loaded": lambda m: copy.copy(loaded(m)),
    "pickle of loaded": lambda m: pickled(loaded(m)),
    "saved again": lambda m: jitlite.load(io.BytesIO(loaded(m).save_to_buffer())),
}
