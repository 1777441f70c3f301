"""Casts in the programs of archives.

What an archive says of a value's type need not be so. An operator looks at what it is given; but attributes and methods
of classes are Python's, and the archive chooses their names. So a cast to a class of the archive is checked when it
runs, unless what stands before it says that the value is one.
"""

from __future__ import annotations

from jitlite.base.errors.ways_out import BAD_ARCHIVE
from jitlite.frontend.emit.calls import form
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.values import SpecialForm
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.ir.types import Type

CHECKED = "prim::checked_cast"
UNCHECKED = "prim::unchecked_cast"


@form("archived_cast", 2, 2)
def emit_archived_cast(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> Value:
    """`unchecked_cast(T, value)` in an archive."""
    wanted = em.parse_type(call.args[0])
    value = em.emit(call.args[1])
    if value.node.kind in (CHECKED, UNCHECKED) and value.type is wanted:
        return value
    if _is_known(value.type, wanted):
        return em.cast(value, wanted)
    if _holds(wanted, (T.ListType, T.DictType)) and _is_open(wanted):
        raise BAD_ARCHIVE.unsupported(
            f"an archive's cast to {wanted.annotation}, whose elements could be anything, isn't supported", call.range,
            hint="give the variable that type where it gets its value",
        )  # fmt: skip
    if not _is_open(wanted, but_any=True):
        return em.cast(value, wanted)
    node = em.node(CHECKED, [value], [wanted], call.range)
    node.attributes["types"] = [wanted]
    return node.output


def _is_known(given: Type, wanted: Type) -> bool:
    """Is the value of the type, or None, or one that Python finds no attribute on?"""
    return given is wanted or T.without_none(given) is wanted or T.without_none(given) is T.without_none(wanted)


def _is_open(t: Type, *, but_any: bool = False) -> bool:
    """Does a type have objects of classes in it, or anything at all?"""
    if isinstance(t, T.InterfaceType) or (isinstance(t, T.ClassType) and t.definition is not None):
        return True
    if t is T.ANY:
        return not but_any
    return any(_is_open(part, but_any=but_any) for part in t.contained)


def _holds(t: Type, kinds: tuple[type, ...]) -> bool:
    return isinstance(t, kinds) or any(_holds(part, kinds) for part in t.contained)


def drop_needless_checks(graph: Graph) -> None:
    """Let casts be unchecked where a branch that `isinstance` has chosen leaves nothing else."""
    for node in list(graph.all_nodes()):
        if node.kind == CHECKED and _is_chosen(node):
            with graph.inserting_before(node):
                cast = graph.insert(UNCHECKED, [node.input], [node.output.type], None, node.range)
            node.output.replace_all_uses_with(cast.output)
            node.destroy()


def _is_chosen(node: Node) -> bool:
    wanted, value = node.output.type, _before_casts(node.input)
    block = node.block
    while block is not None and block.owner is not None:
        if _types_left(block.owner, block, value) == [wanted]:
            return True
        block = block.owner.block
    return False


def _types_left(owner: Node, block: Block, value: Value) -> list[Type] | None:
    """The types that a value may be of in a block of an if that asks for its type; None for other nodes."""
    test = owner.inputs[0].node if owner.kind == "prim::If" else None
    if test is None or test.kind != "prim::isinstance" or _before_casts(test.input) is not value:
        return None
    types: list[Type] = test.attributes["types"]
    return types if block is owner.blocks[0] else [t for t in T.members_of(value.type) if t not in types]


def _before_casts(value: Value) -> Value:
    while value.node.kind in (CHECKED, UNCHECKED):
        value = value.node.input
    return value
