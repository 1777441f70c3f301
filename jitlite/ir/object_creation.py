"""How an object of a class is made before its `__init__` is called, where the class has a `__new__` of its own.

Graphs make an object and initialize it in two steps, and only `__init__` is given the arguments of the call. So a
`__new__` that looks at them is refused where it is compiled, and one that does not is given None for
those that it must have.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable
from functools import partial

from torch.nn.utils.rnn import PackedSequence


def looks_at_arguments(cls: type) -> bool:
    """Does the `__new__` of a class use what it is given, but for the class?"""
    new: Callable[..., object] = cls.__new__
    if not inspect.isfunction(new):
        return False
    given = list(inspect.signature(new).parameters)[1:]
    code = new.__code__
    read = {i.argval for i in dis.get_instructions(code) if i.opname.startswith("LOAD_")}
    return any(name in read or name in code.co_cellvars for name in given)


def maker_of(cls: type) -> Callable[[], object]:
    """What makes an object that has yet to be initialized."""
    new: Callable[..., object] = cls.__new__
    if not inspect.isfunction(new):
        return partial(new, cls)
    parameters = list(inspect.signature(new).parameters.values())[1:]
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    by_position = [None for p in needed if p.kind is not p.KEYWORD_ONLY]
    by_name = {p.name: None for p in needed if p.kind is p.KEYWORD_ONLY}

    def make() -> object:
        made = new(cls, *by_position, **by_name)
        if not isinstance(made, cls):
            raise TypeError(f"{cls.__name__}.__new__ gave an object of {type(made).__name__}: scripts initialize it")
        return made

    return make


def constructor_of_named_tuple(cls: type | None) -> str | None:
    """The name of what a class that inherits from a named tuple's defines to make its objects.

    A PackedSequence is made as it is by those who give all of its fields, as torch's recurrent layers do.
    """
    for base in () if cls is None or cls is PackedSequence else cls.__mro__:
        if "_fields" in base.__dict__:
            return None
        for name in ("__new__", "__init__"):
            if name in base.__dict__:
                return name
    return None
