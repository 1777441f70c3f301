"""Sets in terms of TorchScript, which has none: only a look whether something is in one that nobody changes.

Dicts keyed by members of enums or by tuples have no form there either.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.base.errors.ways_out import NOT_IN_ARCHIVE
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value, constant_of, is_constant
from jitlite.ir.types import Type

_COMPARED = (T.INT, T.FLOAT, T.BOOL, T.STRING)
"""The types of elements for which TorchScript looks into lists."""


def lower_lookup(node: Node) -> bool:
    """`x in s`, where `s` is a set of what is written out and is used for nothing else, as a look into a list."""
    looked_in, item = node.inputs
    if not isinstance(looked_in.type, T.SetType) or looked_in.type.element not in _COMPARED:
        return False
    elements = _elements(looked_in)
    if elements is None or item.type is not looked_in.type.element:
        return False
    graph = node.graph
    held = graph.insert("prim::ListConstruct", elements, [T.ListType.of(item.type)], range=node.range).output
    found = graph.insert("aten::__contains__", [held, item], [T.BOOL], range=node.range).output
    node.output.replace_all_uses_with(found)
    return True


def _elements(looked_in: Value) -> Sequence[Value] | None:
    if is_constant(looked_in):
        return [looked_in.node.graph.insert_constant(v) for v in constant_of(looked_in)]
    node = looked_in.node
    if node.kind not in ("set::new", "set::frozen") or not all(_only_looks(u.user) for u in looked_in.uses):
        return None
    source = node.input
    if isinstance(source.type, T.SetType):
        return _elements(source)
    is_display = source.node.kind == "prim::ListConstruct" and len(source.uses) == 1
    return source.node.inputs if is_display else None


def _only_looks(user: Node) -> bool:
    return user.kind == "aten::__contains__" or (user.kind in ("set::new", "set::frozen"))


def drop_unused_sets(graph: Graph) -> None:
    """Remove what made the sets that are no longer looked into."""
    for node in reversed(list(graph.all_nodes())):
        if node.kind in ("set::new", "set::frozen") and not node.output.has_uses:
            node.destroy()


def refuse_unknown_containers(graph: Graph) -> None:
    """Raise for the first node that takes or gives a set, or a dict whose keys TorchScript does not know.

    Raises:
        NotSupportedError: there is one.
    """
    for node in (*graph.all_nodes(), graph.block.return_node):
        has_operator = node.kind.startswith("aten::")
        for value in (*node.inputs, *node.outputs):
            if (found := _unknown_in(value.type, has_operator)) is not None:
                what, hint = (
                    ("dicts with such keys", "use strings or ints as keys")
                    if isinstance(found, T.DictType)
                    else ("sets", "use a list, or a dict with True as values")
                )
                raise NOT_IN_ARCHIVE(
                    f"TorchScript has no {what}, so {found.annotation} has no form in an archive", node.range, hint=hint
                )


def _unknown_in(t: Type, has_operator: bool) -> Type | None:
    """A set in a type, or a dict with such keys; TorchScript has dicts keyed by devices, but no operators on them."""
    by_device = has_operator and isinstance(t, T.DictType) and t.key is T.DEVICE
    if by_device or unknown_container(t):
        return t
    return next((found for part in t.contained if (found := _unknown_in(part, has_operator)) is not None), None)


def unknown_container(t: Type) -> str | None:
    """What a set is, or a dict whose keys TorchScript's dicts cannot have; None for other types."""
    if isinstance(t, T.SetType):
        return "a set"
    if isinstance(t, T.DictType) and T.unshaped(t.key) not in T.DICT_KEYS:
        return f"a dict with keys of type {t.key.annotation}"
    return None
