"""The methods that `dataclasses.dataclass` generates, which have no source, written out as scripts.

Each is what the documentation of `dataclasses` says the generated method does; annotations are kept as the objects that
they are, under made-up names.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any

from jitlite.base.errors.classes import NO_SCRIPT_CLASS
from jitlite.frontend.syntax.python_ast import parse_functions
from jitlite.frontend.syntax.tree import Def

_MISSING = dataclasses.MISSING
_ORDER = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}

Generated = tuple[Def, dict[str, object], dict[str, object]]
"""A definition, the defaults of its parameters, and what the made-up names in it denote."""


def dataclass_method(cls: type, function: Any) -> Generated | None:
    """The script of a generated method of a dataclass; None for a function that somebody wrote.

    Raises:
        NotSupportedError: where TorchScript cannot express the method.
    """
    function = _unwrapped(function)  # `__repr__` is wrapped, so that it does not recurse for ever
    if not is_generated(function):
        return None
    owners = [c for c in cls.__mro__ if any(_unwrapped(m) is function for m in c.__dict__.values())]
    if not owners or not dataclasses.is_dataclass(owners[0]):
        return None
    owner: Any = owners[0]
    name = function.__name__
    if name == "__init__":
        return _initializer(owner)
    fields = dataclasses.fields(owner)
    compared = [f for f in fields if f.compare]
    if name == "__eq__":
        head, lines = "__eq__(self, other: _Owner) -> bool", _equality(compared)
    elif name in _ORDER:
        head, lines = f"{name}(self, other: _Owner) -> bool", _ordering(compared, _ORDER[name])
    elif name == "__repr__":
        head, lines = "__repr__(self) -> str", _representation(owner.__qualname__, fields)
    elif name == "__hash__":
        head, lines = "__hash__(self) -> int", _hash(fields)
    else:
        raise NO_SCRIPT_CLASS(f"the method '{name}' that dataclasses generates is not supported in scripts")
    return _parsed(head, lines), {}, {"_Owner": cls}


def _representation(qualified: str, fields: Sequence[dataclasses.Field[object]]) -> list[str]:
    shown = ", ".join(f"{f.name}={{self.{f.name}!r}}" for f in fields if f.repr)
    return [f'return f"{qualified.rpartition(".")[2]}({shown})"']


def _hash(fields: Sequence[dataclasses.Field[object]]) -> list[str]:
    hashed = [f.name for f in fields if (f.compare if f.hash is None else f.hash)]
    return [f"return hash(({''.join(f'self.{n}, ' for n in hashed)}))"]


def is_generated(function: object) -> bool:
    """Was the function made by `dataclasses`, from a text?"""
    return inspect.isfunction(function) and function.__code__.co_filename == "<string>"


def is_for_python_only(function: object) -> bool:
    """Is it a generated method that scripts do without: what guards a frozen object, or what pickle and copies call?"""
    found = _unwrapped(function)
    if not inspect.isfunction(found):
        return False
    if is_generated(found):
        return found.__name__ in ("__setattr__", "__delattr__")
    return found.__code__.co_filename == dataclasses.__file__


def _unwrapped(member: object) -> object:
    while hasattr(member, "__wrapped__"):
        member = member.__wrapped__
    return member


def _parsed(head: str, lines: list[str]) -> Def:
    text = f"def {head}:\n" + "".join(f"    {line}\n" for line in lines or ["pass"])
    return parse_functions(text, "<dataclass>")[0]


def _initializer(owner: Any) -> Generated:
    """`__init__`: takes the fields and `InitVar`s, assigns the fields, calls `__post_init__`."""
    fields: dict[str, Any] = owner.__dataclass_fields__
    defaults: dict[str, object] = {}
    known: dict[str, object] = {}
    formals, lines, init_only, starred = ["self"], [], [], False
    for parameter in list(inspect.signature(owner.__init__).parameters.values())[1:]:
        field = fields[parameter.name]
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            formals.append("*")
            starred = True
        annotation = _init_only_type(field.type) if _is_init_only(field) else field.type
        known[f"_type_{field.name}"] = annotation
        formal = f"{field.name}: _type_{field.name}"
        if field.default is not _MISSING:
            defaults[field.name] = field.default
        if field.default_factory is not _MISSING:
            formal = f"{field.name}: Optional[_type_{field.name}]"
            defaults[field.name] = None
        formals.append(formal)
        if _is_init_only(field):
            init_only.append(field.name)
    for field in dataclasses.fields(owner):
        lines += _assignment(field, known)
    if hasattr(owner, "__post_init__"):
        lines.append(f"self.__post_init__({', '.join(init_only)})")
    return _parsed(f"__init__({', '.join(formals)})", lines), defaults, known


def _is_init_only(field: Any) -> bool:
    return str(field._field_type) == "_FIELD_INITVAR"


def _init_only_type(annotation: Any) -> object:
    """What is in the brackets of `InitVar[...]`, whether that is an object or text."""
    if isinstance(annotation, str):
        return annotation.partition("[")[2].rpartition("]")[0]
    return annotation.type


def _assignment(field: Any, known: dict[str, object]) -> list[str]:
    """The lines that give a field its value."""
    name = field.name
    if field.default_factory is _MISSING:
        if field.init:
            return [f"self.{name} = {name}"]
        if field.default is _MISSING:
            return []
        known[f"_default_{name}"] = field.default
        return [f"self.{name} = _default_{name}"]
    made = {list: "[]", dict: "{}"}.get(field.default_factory)
    if made is None:
        known[f"_factory_{name}"] = field.default_factory
        made = f"_factory_{name}()"
    known[f"_type_{name}"] = field.type
    lines = [f"_made_{name}: _type_{name} = {made}"]
    if field.init:
        lines += [f"if {name} is not None:", f"    _made_{name} = {name}"]
    return [*lines, f"self.{name} = _made_{name}"]


def _pairs(fields: list[Any], differ: str) -> list[str]:
    """For each field, `differ` where self and other have different values of it; None differs from everything else."""
    lines = []
    for field in fields:
        left, right = f"_left_{field.name}", f"_right_{field.name}"
        lines += [f"{left} = self.{field.name}", f"{right} = other.{field.name}"]
        lines += [f"if {left} is None or {right} is None:", f"    if ({left} is None) != ({right} is None):"]
        lines += [f"        {_raise_or(differ)}", f"elif bool({left} != {right}):"]
        lines += [f"    {differ.format(left=left, right=right)}"]
    return lines


def _raise_or(differ: str) -> str:
    return "raise TypeError('values of which one is None have no order')" if "{left}" in differ else differ


def _equality(fields: list[Any]) -> list[str]:
    return [*_pairs(fields, "return False"), "return True"]


def _ordering(fields: list[Any], operator: str) -> list[str]:
    """As tuples: the first field that differs decides."""
    strict = operator.rstrip("=")
    return [*_pairs(fields, f"return bool({{left}} {strict} {{right}})"), f"return {operator != strict}"]
