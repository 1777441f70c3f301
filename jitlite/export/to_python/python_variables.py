"""Names for the variables of a function: the program's own, else ones that say what they hold."""

from __future__ import annotations

import builtins
import re

from jitlite.codegen.variables import Variable
from jitlite.ir import types as T
from jitlite.ir.code_text import Identifier, Text, made_identifier
from jitlite.ir.graph import Node, Value, constant_of
from jitlite.ir.traits import Spelling
from jitlite.ir.unit import called_function


class ModulePath(Text):
    """`self.layers[0]`: a submodule, as a constant of a graph. No program changes what it is."""

    __slots__ = ()


def wanted_name(variable: Variable) -> Identifier:
    """A name for a variable: the program's own, else one that says what it holds."""
    return _own_name(variable) or _described(variable.values[0])


def _own_name(variable: Variable) -> Identifier | None:
    for value in variable.values:
        if value.has_name:
            base = value.name
            head, dot, number = base.rpartition(".")
            base = head if dot and number.isdigit() else base
            found = made_identifier(base)
            if found.strip("_"):
                return found
    return None


def _described(value: Value) -> Identifier:
    node = value.node
    if node.kind == "prim::Param":
        return made_identifier("i" if value.type is T.INT else "value")
    if node.kind == "prim::GetAttr":
        return _attribute_name(node)
    if node.kind == "prim::CallMethod":
        return _method_result_name(node)
    if node.kind == "prim::CallFunction":
        return _function_result_name(node)
    if node.kind == "prim::Loop":
        return made_identifier("value")
    named = Spelling.VARIABLE.by_kind.get(node.kind)
    return made_identifier(named) if named is not None else _operator_name(node.kind)


def _attribute_name(node: Node) -> Identifier:
    name = made_identifier(node.attributes["name"])
    return made_identifier(f"layer{name}") if name.strip("_").isdigit() else name


def _method_result_name(node: Node) -> Identifier:
    called = node.attributes["name"]
    path = constant_of(node.inputs[0], None)
    if called == "forward" and isinstance(path, ModulePath):
        called = re.split(r"[.\[]", path.rstrip("]'\")"))[-1]
    return made_identifier(f"{called}_out" if called.isidentifier() else "hidden")


def _function_result_name(node: Node) -> Identifier:
    callee = called_function(node)
    return made_identifier(f"{made_identifier(callee.name)}_out" if callee is not None else "result")


def _operator_name(kind: str) -> Identifier:
    base = kind.partition("::")[2].strip("_")
    name = made_identifier(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", base).lower())
    return made_identifier(f"{name}_") if name in _BUILTINS else name


_BUILTINS = frozenset(dir(builtins))
