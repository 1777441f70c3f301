"""The attributes of nodes: which a kind has, and of which kind their values are.

Graph text may hold anything. What is declared here is what the parser takes, what the verifier holds nodes to, and what
those ask who write source (`int_attribute`, `str_attribute`): they never see a text where a number belongs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitlite.base.errors.inside import BAD_SOURCE_PART
from jitlite.ir import ops
from jitlite.ir import types as T
from jitlite.ir.code_text import is_dunder
from jitlite.ir.graph import Graph, Node
from jitlite.ir.traits import Trait
from jitlite.ir.types import Type

Test = Callable[[Any], bool]


def _is_int(value: object) -> bool:
    return type(value) is int


def _is_flag(value: object) -> bool:
    return type(value) is bool or (type(value) is int and value in (0, 1))


def _is_str(value: object) -> bool:
    return isinstance(value, str)


def _is_type(value: object) -> bool:
    return isinstance(value, Type)


def _is_type_list(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_type, value))


def _is_graph(value: object) -> bool:
    return isinstance(value, Graph)


def _is_int_list(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_int, value))


def _is_plain_tuple(value: object) -> bool:
    return isinstance(value, tuple)


def _is_callable(value: object) -> bool:
    return callable(value)


def _is_anything(value: object) -> bool:
    return True


_KINDS: dict[str, tuple[Test, str]] = {
    "int": (_is_int, "an int"),
    "flag": (_is_flag, "0 or 1"),
    "str": (_is_str, "a str"),
    "type": (_is_type, "a type"),
    "types": (_is_type_list, "a list of types"),
    "graph": (_is_graph, "a graph"),
    "ints": (_is_int_list, "a list of ints"),
    "tuple": (_is_plain_tuple, "a tuple"),
    "callable": (_is_callable, "a function"),
    "any": (_is_anything, "anything"),
}

_NAMED = {"name": "str"}
_CALLED = {
    "name": "str", "callable": "callable", "scalars": "tuple", "fallback": "flag", "module": "str",
    "writes_nothing": "flag",
}  # fmt: skip
_GROUP = {"Subgraph": "graph"}

_DECLARED: dict[str, dict[str, str]] = {
    "prim::Constant": {"value": "any", "name": "str", "fallback": "flag"},
    **dict.fromkeys(
        ("prim::GetAttr", "prim::SetAttr", "prim::CallMethod", "prim::CallFunction", "prim::Load", "prim::Store",
         "prim::LocalCall", "prim::Closure", "prim::GradOf"), _NAMED,
    ),
    "prim::PythonOp": _CALLED,
    "prim::IgnoredPythonOp": _CALLED,
    "prim::Line": {"leaves": "flag", "loop": "flag"},
    "prim::TupleSlice": {"beg": "int", "end": "int"},
    "prim::isinstance": {"types": "types"},
    "prim::Loop": {"over_range": "flag", "measured_lists": "ints"},
    "prim::Region": {"kind": "str"},
    "prim::Try": {"finally": "flag"},
    "prim::Raise": {"finally": "flag"},
    "aten::warn": {"warn_id": "int"},
    "prim::profile": {"profiled_type": "type", "seen_none": "int", "record": "callable"},
    "prim::TypeCheck": {"types": "types"},
    "prim::RequiresGradCheck": {"types": "types"},
    "prim::BailOut": {"index": "int", "Subgraph": "graph"},
    "prim::EmptyLiteral": {"self": "any"},
}  # fmt: skip
"""By kind of node: the names of its attributes and what their values are."""


def declared_attributes(kind: str) -> dict[str, str] | None:
    """The names of the attributes that a kind of node has, each with what its value is; None for an unknown kind."""
    found = _DECLARED.get(kind)
    if found is not None:
        return found
    if kind in Trait.GROUP.kinds:
        return _GROUP
    overloads = ops.lookup(kind)
    if not overloads:
        return None
    annotated: dict[str, str] = {}
    for op in overloads:
        for name in op.attributes:
            annotated[name] = _kind_of_parameter(getattr(op.fn, "__annotations__", {}).get(name))
    return annotated


def _kind_of_parameter(annotation: object) -> str:
    """What a keyword-only parameter of an operator's function takes."""
    return {"int": "int", "str": "str", "bool": "flag", "list[int]": "ints", "list[Type]": "types"}.get(
        str(annotation), "any"
    )


def attribute_fault(node: Node) -> str | None:
    """What is wrong with the values of a node's attributes, None if nothing is.

    Attributes that no kind of this name has are notes of passes, which nothing writes into source.
    """
    declared = declared_attributes(node.kind)
    for name, value in node.attributes.items():
        kind = (declared or {}).get(name)
        if kind is not None and not _KINDS[kind][0](value):
            return f"the attribute {name} of {node.kind} is {_KINDS[kind][1]}, not {_shown(value)}"
    return None


_METHODS = frozenset(
    f"__{name}__"
    for name in (
        "init", "call", "len", "contains", "getitem", "setitem", "delitem", "enter", "exit", "iter", "next", "str",
        "getstate", "setstate", "bool", "int", "float", "hash", "eq", "ne", "lt", "le", "gt", "ge", "neg", "abs", "pos",
        "invert", "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift",
        "rshift", "iadd", "isub", "imul", "itruediv", "radd", "rsub", "rmul", "rtruediv", "reversed",
    )
)  # fmt: skip
"""The names with two underscores on each side that methods of scripts have. All others are Python's own machinery."""


def owner_fault(node: Node) -> str | None:
    """What is wrong with the attribute or method that a node names, None if nothing is: its object has it."""
    if node.kind not in ("prim::GetAttr", "prim::SetAttr", "prim::CallMethod") or not node.inputs:
        return None
    owner, name = node.inputs[0].type, node.attributes.get("name")
    if not isinstance(name, str) or node.inputs[0].node.kind == "match::module":  # of a pattern, which nobody runs
        return None
    owner = owner.element if isinstance(owner, T.OptionalType) else owner
    if not isinstance(owner, T.ClassType | T.InterfaceType):
        return f"{node.kind} is about an object of a class, not of type {owner}"
    if node.kind == "prim::CallMethod":
        is_known = name in owner.methods or name in _METHODS or not is_dunder(name)
        return None if is_known else f"{owner.annotation} has no method {name!a}"
    if isinstance(owner, T.ClassType) and (name in owner.attributes or not (owner.attributes or name.startswith("_"))):
        return None
    return f"{owner.annotation} has no attribute {name!a}"


def undeclared(node: Node) -> str | None:
    """The name of an attribute that the kind of the node does not have, None if there is none."""
    declared = declared_attributes(node.kind)
    if declared is None or node.has(Trait.GROUP) or node.has(Trait.PYTHON_CALL):
        return None
    return next((name for name in node.attributes if name not in declared), None)


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def int_attribute(node: Node, name: str) -> int:
    """An attribute that is an int.

    Raises:
        NotSupportedError: it is none, or is missing.
    """
    found = node.attributes.get(name)
    if type(found) is not int:
        raise BAD_SOURCE_PART(f"the attribute {name} of {node.kind} is an int, not {_shown(found)}", node.range)
    return found


def str_attribute(node: Node, name: str) -> str:
    """An attribute that is a str.

    Raises:
        NotSupportedError: it is none, or is missing.
    """
    found = node.attributes.get(name)
    if not isinstance(found, str):
        raise BAD_SOURCE_PART(f"the attribute {name} of {node.kind} is a str, not {_shown(found)}", node.range)
    return found
