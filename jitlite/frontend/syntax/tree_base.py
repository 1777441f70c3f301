"""What all trees have: subtrees by the declaration of their class, a place, and their text as s-expressions.

How a field prints follows from its type, unless the declaration says otherwise:

    name: str                      the bare text
    value: Expr                    the subtree
    type: Expr | None              (option) or (option subtree)
    body: tuple[Stmt, ...]         (list subtree ...)
    kwarg_only: bool               (True) or (False)

    >>> place = SourceRange(Source("return y"), 7, 8)
    >>> print(Return(Var(Ident("y", range=place), range=place), range=place))
    (return (variable (ident y)))

Every tree carries the smallest range of source that holds both the range given to it and those of its subtrees, so
builders give only what a tree adds to its subtrees, such as a keyword. Trees compare by content, not by place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import Field, dataclass, field, fields
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, ClassVar

from jitlite.base.source import SourceRange

_WIDTH = 40
"""A tree is printed on one line when indentation and text together are shorter than this."""


class _Part(Enum):
    """How a field of a tree takes part in it."""

    ATOM = auto()  # its text
    TREE = auto()  # a subtree
    OPTION = auto()  # (option) or (option subtree)
    LIST = auto()  # (list subtree ...)
    OPTIONAL_LIST = auto()  # (option) or (option (list subtree ...))
    MORE = auto()  # (list subtree ...), or nothing where there is none
    MARK = auto()  # a subtree that is only a kind: the value
    KIND = auto()  # not a subtree: the value is the kind of the tree itself
    HIDDEN = auto()  # not a subtree


MARK = MappingProxyType({"part": _Part.MARK})
KIND = MappingProxyType({"part": _Part.KIND})
MORE = MappingProxyType({"part": _Part.MORE})
HIDDEN = MappingProxyType({"part": _Part.HIDDEN})


def _part_of(f: Field[object]) -> _Part:
    declared = f.metadata.get("part")
    if isinstance(declared, _Part):
        return declared
    text = str(f.type)
    is_list, is_optional = text.startswith("tuple["), text.endswith("| None")
    if is_list:
        return _Part.OPTIONAL_LIST if is_optional else _Part.LIST
    if is_optional:
        return _Part.OPTION
    return {"str": _Part.ATOM, "bool": _Part.MARK}.get(text, _Part.TREE)


_LAYOUTS: dict[type[Tree], list[tuple[str, _Part]]] = {}


def _layout(cls: type[Tree]) -> list[tuple[str, _Part]]:
    """Names of the fields that make up a tree of this class, each with its part."""
    layout = _LAYOUTS.get(cls)
    if layout is None:
        layout = [(f.name, part) for f in fields(cls) if (part := _part_of(f)) is not _Part.HIDDEN]
        _LAYOUTS[cls] = layout
    return layout


@dataclass(frozen=True, repr=False)
class Tree:
    """A piece of a program. `str(tree)` is its s-expression."""

    kind: ClassVar[str] = ""
    range: SourceRange = field(kw_only=True, compare=False, metadata=HIDDEN)

    def __post_init__(self) -> None:
        source, start, end = self.range.source, self.range.start, self.range.end
        for child in self.children():
            if child.range.source is source:
                start, end = min(start, child.range.start), max(end, child.range.end)
        if (start, end) != (self.range.start, self.range.end):
            object.__setattr__(self, "range", SourceRange(source, start, end))

    def children(self) -> Iterator[Tree]:
        """The subtrees, in order, lists and options flattened."""
        for name, part in _layout(type(self)):
            value = getattr(self, name)
            if part is _Part.TREE or (part is _Part.OPTION and value is not None):
                yield value
            elif part in (_Part.LIST, _Part.MORE) or (part is _Part.OPTIONAL_LIST and value is not None):
                yield from value

    def walk(self) -> Iterator[Tree]:
        """This tree and all below it, parents before children, left to right."""
        waiting: list[Tree] = [self]
        while waiting:
            tree = waiting.pop()
            yield tree
            waiting.extend(reversed(list(tree.children())))

    def dump(self) -> str:
        """The tree as an s-expression, in TorchScript's layout."""
        return _print(_printable(self))

    def __str__(self) -> str:
        return self.dump()

    def __repr__(self) -> str:
        return self.dump()


def depth_of_tree(tree: Tree) -> int:
    """How deep the compiler goes into a tree: its levels, and a level for each early exit, which nests what follows."""
    deepest = exits = 0
    waiting = [(tree, 1)]
    while waiting:
        current, depth = waiting.pop()
        deepest = max(deepest, depth)
        exits += current.kind in ("return", "break", "continue", "raise")
        waiting += [(child, depth + 1) for child in current.children()]
    return deepest + exits


@dataclass(frozen=True, repr=False)
class Expr(Tree):
    """What has a value (or is a type, in an annotation)."""


@dataclass(frozen=True, repr=False)
class Stmt(Tree):
    """What is executed."""


# Printing. Trees can be thousands deep (a long sum), so nothing here recurses.


@dataclass
class _Node:
    """A tree as the printer sees it: `flat` is its text on one line, None where that is too long for any place."""

    kind: str
    parts: list[str | _Node]
    flat: str | None = None


def _expand(tree: Tree, waiting: list[tuple[Tree, _Node]]) -> _Node:
    """The tree's own node; the subtrees still to be expanded go into `waiting` with the node that replaces them."""

    def later(subtree: Tree) -> _Node:
        node = _Node("", [])
        waiting.append((subtree, node))
        return node

    kind, parts = tree.kind, list[str | _Node]()
    for name, part in _layout(type(tree)):
        value = getattr(tree, name)
        if part is _Part.KIND:
            kind = value
        else:
            parts += _PRINTED[part](value, later)
    return _Node(kind, parts)


def _list(trees: Iterable[Tree], later: Callable[[Tree], _Node]) -> _Node:
    return _Node("list", [later(tree) for tree in trees])


_PRINTED: dict[_Part, Callable[[Any, Callable[[Tree], _Node]], list[str | _Node]]] = {
    _Part.ATOM: lambda text, later: [text],
    _Part.TREE: lambda tree, later: [later(tree)],
    _Part.OPTION: lambda tree, later: [_Node("option", [] if tree is None else [later(tree)])],
    _Part.LIST: lambda trees, later: [_list(trees, later)],
    _Part.MORE: lambda trees, later: [_list(trees, later)] if trees else [],
    _Part.OPTIONAL_LIST: lambda trees, later: [_Node("option", [] if trees is None else [_list(trees, later)])],
    _Part.MARK: lambda value, later: [_Node(str(value), [])],
}
"""How each part of a tree is printed; `later` gives the node of a subtree."""


def _printable(tree: Tree) -> _Node:
    waiting: list[tuple[Tree, _Node]] = []
    root = _expand(tree, waiting)
    while waiting:
        subtree, place = waiting.pop()
        node = _expand(subtree, waiting)
        place.kind, place.parts = node.kind, node.parts
    _flatten(root)
    return root


def _flatten(root: _Node) -> None:
    """Fill in `flat` everywhere, subtrees first."""
    order, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting.extend(part for part in node.parts if isinstance(part, _Node))
    for node in reversed(order):
        node.flat = _on_one_line(node)


def _on_one_line(node: _Node) -> str | None:
    """The text of a node whose subtrees have theirs; None where one has none, or it is too long."""
    texts = [part if isinstance(part, str) else part.flat for part in node.parts]
    known = [text for text in texts if text is not None]
    flat = f"({' '.join([node.kind, *known])})"
    return flat if len(known) == len(texts) and len(flat) < _WIDTH else None


def _print(root: _Node) -> str:
    out: list[str] = []
    waiting: list[tuple[str | _Node, int]] = [(root, 0)]
    while waiting:
        node, indent = waiting.pop()
        if isinstance(node, str):
            out.append(node)
        elif node.flat is not None and indent + len(node.flat) < _WIDTH:
            out.append(node.flat)
        else:
            out.append(f"({node.kind}")
            waiting.append((")", indent))
            for part in reversed(node.parts):
                waiting.append((part, indent + 2))
                waiting.append(("\n" + " " * (indent + 2), indent))
    return "".join(out)
