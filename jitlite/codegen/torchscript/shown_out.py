"""What is shown as in Python, in terms of TorchScript, which has lists for it.

Where a list comes from tells what it is in Python, so who reads the text shows it as in Python again. A tuple that a
program makes of a list comes from a list there, so its text is written out.
"""

from __future__ import annotations

from collections.abc import Callable

from jitlite.base.errors.ways_out import NOT_IN_ARCHIVE
from jitlite.codegen.torchscript.formats_out import format_function
from jitlite.frontend.emit.shown_sequences import TUPLE, SequenceForms
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, constant_of
from jitlite.ir.unit import insert_call
from jitlite.operators.strings import SHOWN


def shows_as_text(user: Node) -> bool:
    """Does the node write `str` of its inputs?"""
    if user.kind in ("aten::str", "prim::Print"):
        return True
    template = constant_of(user.inputs[0], None) if user.kind == "aten::format" else None
    return isinstance(template, str) and "!" not in template


def refuse_texts_of_objects(graph: Graph) -> None:
    """Refuse texts that a class of the program has Python make: whoever reads the archive has not that class.

    Raises:
        NotSupportedError: where such a text is made.
    """
    for node in graph.all_nodes():
        if shows_as_text(node) or node.kind in ("aten::format", "aten::percentFormat"):
            found = next(filter(None, (_class_with_text(value.type) for value in node.inputs)), None)
            if found is not None:
                raise _refused(f"text of objects of '{found.annotation}'", "show its attributes", node)


def _class_with_text(t: T.Type) -> T.ClassType | None:
    """The class, in a type, that says itself how its objects are shown."""
    if isinstance(t, T.ClassType):
        cls = t.python_class
        own = isinstance(cls, type) and any(getattr(cls, n) is not getattr(object, n) for n in ("__repr__", "__str__"))
        return t if own and not t.is_module else None
    return next(filter(None, map(_class_with_text, t.contained)), None)


def _as_list(node: Node) -> bool:
    """The list that it is in scripts."""
    shown = node.input
    holders = [use.user for use in node.output.uses]
    node.output.replace_all_uses_with(shown)
    while holders:
        holder = holders.pop()
        if holder.kind in ("prim::TupleConstruct", "prim::ListConstruct", "prim::DictConstruct"):  # whose types tell it
            holder.output.type = _type_of_display(holder)
            holders += [use.user for use in holder.output.uses]
    return True


def _type_of_display(node: Node) -> T.Type:
    parts = [value.type for value in node.inputs]
    if node.kind == "prim::TupleConstruct":
        return T.TupleType.of(parts)
    if node.kind == "prim::ListConstruct":
        return T.ListType.of(T.unify_all(parts) or T.ANY)
    return T.DictType.of(parts[0], T.unify_all(parts[1::2]) or T.ANY)


def _tuple(node: Node) -> bool:
    """A tuple of torch's is a list; one that the program makes becomes its text."""
    if SequenceForms().of(node.input) == TUPLE:
        return _as_list(node)
    if not all(shows_as_text(use.user) for use in node.output.uses):
        raise _refused("tuples of any length", "show the list", node)
    graph = node.graph
    text = graph.insert("aten::str", [node.input], [T.STRING]).output
    length = graph.insert("aten::len", [node.input], [T.INT]).output
    node.output.replace_all_uses_with(insert_call(graph, format_function("tupled"), [text, length], node.range))
    return True


def _range(node: Node) -> bool:
    raise _refused("ranges as values", "show its bounds, or the list of its elements", node)


def _refused(what: str, hint: str, node: Node) -> Exception:
    message = f"TorchScript has no {what}, so that what is shown has no place in an archive"
    return NOT_IN_ARCHIVE(message, node.range, hint=hint)


LOWERINGS: dict[str, Callable[[Node], bool]] = {
    **dict.fromkeys(SHOWN, _as_list), "python::tuple": _tuple, "python::range": _range,
}  # fmt: skip
