"""Annotations of attributes in `__init__`: `self.last: Optional[int] = None`, `self.seen = annotate(List[int], [])`.

torch.jit does not read them: the type of an attribute is that of its value. Here one counts where the value alone may
say too little: for a list, dict or set, to which more may be added, and for what a method replaces. Whether an
attribute is None for good matters, for then `if self.downsample is not None:` is decided when the module is compiled,
and what it guards is not compiled; likewise, an Optional[int] that nothing replaces is an int.
"""

from __future__ import annotations

import ast
import inspect
import weakref
from collections.abc import Callable, Iterator
from dataclasses import field

import torch

from jitlite.base.records import Record
from jitlite.base.source import CompileError
from jitlite.frontend.emit.annotations import ClassTypes, type_from_python
from jitlite.frontend.emit.resolver import FunctionResolver
from jitlite.frontend.syntax.python_source import parsed_source_of
from jitlite.ir.constants import module_name
from jitlite.ir.types import ANY, Type
from jitlite.ir.values import value_has_type


class _AttributesOfMethods(Record, frozen=False):
    """What the methods of one class say about attributes.

    Attributes:
        annotations: of the attributes that `__init__` annotates.
        replaced: names of attributes that other methods assign.
    """

    annotations: dict[str, str] = field(default_factory=dict)
    replaced: set[str] = field(default_factory=set)


_found: weakref.WeakKeyDictionary[type, _AttributesOfMethods] = weakref.WeakKeyDictionary()


def declared_in_init(cls: type, name: str, value: object, class_types: ClassTypes) -> Type | None:
    """The type that `__init__` declares for an attribute with this value, None where it does not count."""
    order = [c for c in cls.__mro__ if c not in (torch.nn.Module, object)]
    if not isinstance(value, list | dict | set | frozenset) and not any(name in _look_at(c).replaced for c in order):
        return None
    for owner in order:
        text = _look_at(owner).annotations.get(name)
        if text is None:
            continue
        try:
            resolver = FunctionResolver(inspect.unwrap(owner.__dict__["__init__"]))
            found = type_from_python(text, None, resolver.resolve_type, class_types=class_types)
        except CompileError:
            return None
        return found if found is not ANY and value_has_type(value, found) else None
    return None


def _look_at(cls: type) -> _AttributesOfMethods:
    found = _found.get(cls)
    if found is None:
        found = _found[cls] = _AttributesOfMethods()
        methods = {} if _is_of_torch(cls) else {n: f for n, f in vars(cls).items() if inspect.isfunction(f)}
        for name, method in methods.items():
            for node in _nodes(method):
                if name != "__init__":
                    found.replaced.update(_assigned_attributes(node))
                else:
                    found.annotations.update(_annotated_attributes(node))
    return found


def _is_of_torch(cls: type) -> bool:
    """Is it one of torch's own modules, which annotate their classes where it matters?"""
    return module_name(cls).partition(".")[0] == "torch"


def _nodes(function: Callable[..., object]) -> Iterator[ast.AST]:
    try:
        body = parsed_source_of(inspect.unwrap(function))[1].body
    except CompileError:  # without source, or not valid as it stands: told when it is compiled
        return
    for statement in body:
        yield from ast.walk(statement)


def _annotated_attributes(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The attribute, and its type, of `self.x: T = value` or `self.x = annotate(T, value)`."""
    targets: list[ast.expr]
    if isinstance(node, ast.AnnAssign):
        targets, annotation = [node.target], node.annotation
    elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and len(node.value.args) == 2:
        called = node.value.func
        if (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)) != "annotate":
            return
        targets, annotation = node.targets, node.value.args[0]
    else:
        return
    for attribute in map(_attribute_of_self, targets):
        if attribute is not None:
            yield attribute, ast.unparse(annotation)


def _assigned_attributes(node: ast.AST) -> Iterator[str]:
    """The attributes of `self` that a target in an assignment, a loop or a `with` sets."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        name = _attribute_of_self(node)
        if name is not None:
            yield name


def _attribute_of_self(target: ast.expr) -> str | None:
    on_self = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    return target.attr if on_self and isinstance(target, ast.Attribute) else None
