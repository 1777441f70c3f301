"""Modules of the lite interpreter: attributes by number, and methods that the stack machine runs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import torch

from jitlite.archive.errors import ArchiveError
from jitlite.base.dynamo import unseen_by_dynamo
from jitlite.base.records import Record
from jitlite.interpreter.binding import bind_arguments
from jitlite.interpreter.code import Code
from jitlite.interpreter.vm import run
from jitlite.ir.int_codes import INT_CODES, INT_OBJECTS
from jitlite.ir.schema import Schema
from jitlite.loading.attribute_names import may_be_attribute
from jitlite.loading.unset import is_unset, unset_error

_COPIED = frozenset({"_slots", *vars(torch.nn.Module())} - {"training", "_is_full_backward_hook"})
"""Attributes in which a module keeps its state, of which a copy has its own."""


class LiteMethod(Record, frozen=False):
    """A method as the file has it."""

    name: str
    code: Code
    schema: Schema | None


class LiteClass(Record, frozen=False):
    """What the objects of one class of a file have in common. Copies of an object share it."""

    qualified_name: str
    methods: dict[str, LiteMethod] = field(default_factory=dict)

    def __deepcopy__(self, memo: dict[int, object]) -> LiteClass:
        return self


class BoundLiteMethod:
    """A method of a module of the lite interpreter."""

    def __init__(self, method: LiteMethod, owner: LiteModule) -> None:
        self.method = method
        self.owner = owner
        self.__name__ = method.name.rpartition(".")[2]
        self.__qualname__ = method.name

    @unseen_by_dynamo
    def __call__(self, *args: object, **kwargs: object) -> Any:
        if is_unset(self.owner):
            raise unset_error(self.owner._lite_class.qualified_name)
        schema = self.method.schema
        if schema is not None:
            bound = bind_arguments(schema, [self.owner, *args], kwargs)
        elif kwargs:
            raise TypeError(f"the parameters of {self.__name__} have no names in the file: give them by position")
        else:
            bound = [self.owner, *args]
        # dtypes are numbers in these programs
        return run(self.method.code, [INT_CODES[v] if isinstance(v, INT_OBJECTS) else v for v in bound])

    @property
    def code(self) -> str:
        """The instructions, one a line."""
        return "".join(f"{at:4} {each}\n" for at, each in enumerate(self.method.code.instructions))

    def __repr__(self) -> str:
        return f"<method {self.method.name} of the lite interpreter>"


class LiteModule(torch.nn.Module):
    """A module of the lite interpreter. Its program is bytecode only: it runs, but has no graph and no source.

    Tensors that require a gradient are its parameters and all others its buffers, as a file does not tell.
    """

    _lite_class: LiteClass
    _slots: list[str]

    def __init__(self, cls: LiteClass) -> None:
        super().__init__()
        vars(self)["_lite_class"] = cls
        vars(self)["_slots"] = []

    def forward(self, *args: object, **kwargs: object) -> Any:
        """Run the method `forward`."""
        return self.find_method("forward")(*args, **kwargs)

    def find_method(self, name: str) -> BoundLiteMethod:
        """The method of that name.

        Raises:
            AttributeError: there is none.
        """
        found = self._lite_class.methods.get(name)
        if found is None:
            raise AttributeError(f"{self._lite_class.qualified_name} has no method '{name}'")
        return BoundLiteMethod(found, self)

    def run_method(self, name: str, *args: object) -> Any:
        """Run the method of that name."""
        return self.find_method(name)(*args)

    def __getattr__(self, name: str) -> Any:
        cls = vars(self).get("_lite_class")
        if cls is not None and name in cls.methods:
            return self.find_method(name)
        return super().__getattr__(name)

    def __copy__(self) -> LiteModule:
        made = type(self).__new__(type(self))
        vars(made).update({n: copy.copy(v) if n in _COPIED else v for n, v in vars(self).items()})
        return made

    def __deepcopy__(self, memo: dict[int, object]) -> LiteModule:
        made = memo[id(self)] = type(self).__new__(type(self))
        vars(made).update(copy.deepcopy(vars(self), memo))
        return made

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError("a module of the lite interpreter cannot be pickled: keep its file")

    def _get_name(self) -> str:
        return self._lite_class.qualified_name.rpartition(".")[2]

    # -- attributes
    def add_slot(self, name: str, value: object) -> None:
        """Give the next attribute.

        Raises:
            ArchiveError: it has a name that no attribute can have.
        """
        if not may_be_attribute(name) or name in ("_slots", "_lite_class") or name in self._slots:
            raise ArchiveError(f"'{name}' of {self._lite_class.qualified_name} is no name for an attribute", "data.pkl")
        self._slots.append(name)
        self._keep(name, value)

    def _keep(self, name: str, value: object) -> None:
        for kept in (self._parameters, self._buffers, self._modules, vars(self)):
            kept.pop(name, None)
        if isinstance(value, torch.nn.Parameter):
            self._parameters[name] = value
        elif isinstance(value, torch.Tensor):
            self._buffers[name] = value
        elif isinstance(value, torch.nn.Module):
            self._modules[name] = value
        else:
            vars(self)[name] = value

    def slot(self, index: int) -> Any:
        """The value of an attribute by its number."""
        if is_unset(self):
            raise unset_error(self._lite_class.qualified_name)
        name = self._slots[index]
        for kept in (vars(self), self._parameters, self._buffers, self._modules):
            if name in kept:
                return kept[name]
        raise AttributeError(f"{self._lite_class.qualified_name} has lost its attribute '{name}'")

    def set_slot(self, index: int, value: object) -> None:
        """Set an attribute by its number. A new object has none yet: they get their numbers for names."""
        if index > len(self._slots) + _MOST_NEW:
            raise IndexError(f"{self._lite_class.qualified_name} has no attribute {index}")
        while len(self._slots) <= index:
            self.add_slot(str(len(self._slots)), None)
        self._keep(self._slots[index], value)


_MOST_NEW = 10_000


# -- what instructions do with objects


def get_slot(index: int) -> Callable[[Any], Any]:
    """GET_ATTR."""

    def get(owner: object) -> Any:
        return _module(owner).slot(index)

    return get


def set_slot(index: int) -> Callable[[Any, Any], None]:
    """SET_ATTR."""

    def set(owner: object, value: object) -> None:
        _module(owner).set_slot(index, value)

    return set


def call_method(name: str, runs: Callable[[Code, Sequence[Any]], Any] = run) -> Callable[..., Any]:
    """INTERFACE_CALL: of a module, or of an object of a class that a library defines in C++. `runs` runs its code."""

    def call(owner: Any, *arguments: object) -> Any:
        if isinstance(owner, torch.ScriptObject):
            return _custom_method(owner, name)(*arguments)
        found = _module(owner)._lite_class.methods.get(name)
        if found is None:
            raise AttributeError(f"{owner._lite_class.qualified_name} has no method '{name}'")
        return runs(found.code, _filled(found.schema, [owner, *arguments]))

    return call


def _custom_method(owner: Any, name: str) -> Callable[..., Any]:
    if name.startswith("__") or not owner._has_method(name):
        raise AttributeError(f"{owner._type()} has no method '{name}'")
    found: Callable[..., Any] = owner._get_method(name)
    return found


def _module(owner: object) -> LiteModule:
    if not isinstance(owner, LiteModule):
        raise TypeError(f"the program takes a {type(owner).__name__} for a module")
    return owner


def _filled(schema: Schema | None, arguments: Sequence[object]) -> list[Any]:
    missing = [] if schema is None else [a.default for a in schema.arguments[len(arguments) :]]
    return [*arguments, *missing]
