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
from enum import Enum, auto
from inspect import get_annotations
from typing import Any, ClassVar, NamedTuple, TypeVar

from typing_extensions import dataclass_transform

from jitlite.base.records import Record
from jitlite.base.source import SourceRange

_T = TypeVar("_T", bound="Tree")

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


MARK, KIND, MORE, HIDDEN = _Part.MARK, _Part.KIND, _Part.MORE, _Part.HIDDEN
_LISTS = (_Part.LIST, _Part.OPTIONAL_LIST, _Part.MORE)
_TREES = (_Part.TREE, _Part.OPTION, *_LISTS)
_EXITS = ("return", "break", "continue", "raise")
_FUNCTIONS = ("def", "lambda")
_NO_DEFAULT: Any = object()


class _Declared(NamedTuple):
    """What the declaration of a field says that its type does not."""

    part: _Part
    default: Any
    kw_only: bool


def part(kind: _Part, *, default: Any = _NO_DEFAULT, kw_only: bool = False) -> Any:
    """The declaration of a field that takes part in another way than its type tells.

    Args:
        kw_only: it is given by name only, and trees that differ in it alone are equal.
    """
    return _Declared(kind, default, kw_only)


def _part_of(annotation: str) -> _Part:
    is_list, is_optional = annotation.startswith("tuple["), annotation.endswith("| None")
    if is_list:
        return _Part.OPTIONAL_LIST if is_optional else _Part.LIST
    if is_optional:
        return _Part.OPTION
    return {"str": _Part.ATOM, "bool": _Part.MARK}.get(annotation, _Part.TREE)


@dataclass_transform(frozen_default=True, field_specifiers=(part,))
class _Declaration:
    """What the classes of trees are made from: they are declared as dataclasses are. As there are many, they share the
    methods that each dataclass has of its own."""

    kind: ClassVar[str] = ""
    parts: ClassVar[tuple[str, ...]] = ()
    """The names of all fields but those that are given by name only."""
    layout: ClassVar[tuple[tuple[str, _Part], ...]] = ()
    """The fields that are printed, each with its part."""
    _subtrees: ClassVar[tuple[tuple[str, bool], ...]] = ()
    """The fields that hold subtrees; is it a list of them?"""
    depth = 1
    """Its levels."""
    exits = 0
    """How many returns, breaks, continues and raises it has."""
    has_functions = False
    """Is it a function, or are there any in it?"""

    def __init_subclass__(cls) -> None:
        cls.exits, cls.has_functions = int(cls.kind in _EXITS), cls.kind in _FUNCTIONS
        for name, annotation in get_annotations(cls).items():
            declared = vars(cls).get(name, _Declared(_part_of(annotation), _NO_DEFAULT, False))
            if declared.default is not _NO_DEFAULT:
                setattr(cls, name, declared.default)
            elif name in vars(cls):
                delattr(cls, name)
            if not declared.kw_only:
                cls.parts += (name,)
            if declared.part is not HIDDEN:
                cls.layout += ((name, declared.part),)
            if declared.part in _TREES:
                cls._subtrees += ((name, declared.part in _LISTS),)


class Tree(_Declaration):
    """A piece of a program. `str(tree)` is its s-expression. Nobody changes a tree; `replaced` gives another one."""

    range: SourceRange = part(HIDDEN, kw_only=True)

    def __init__(self, *given: Any, range: SourceRange, **named: Any) -> None:
        fields = self.__dict__
        if named or len(given) != len(self.parts):
            self._take_some(given, named)
        else:
            fields.update(zip(self.parts, given))  # noqa: B905 (they are as many; to say `strict` takes its time)
        if not self._subtrees:
            fields["range"] = range
            return
        source, start, end = range.source, range.start, range.end
        depth, exits, has_functions = 0, self.exits, self.has_functions
        for child in self.children():
            place = child.range
            if place is not range and place.source is source:
                if place.start < start:
                    start = place.start
                if place.end > end:
                    end = place.end
            if child.depth > depth:
                depth = child.depth
            exits += child.exits
            has_functions = has_functions or child.has_functions
        is_wide = start == range.start and end == range.end
        range = range if is_wide else SourceRange(source, start, end)
        fields.update(depth=depth + 1, exits=exits, has_functions=has_functions, range=range)

    def _take_some(self, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Take parts by name, and leave out those that have a default."""
        self.__dict__.update(zip(self.parts, given, strict=False))
        self.__dict__.update(named)
        if len(given) > len(self.parts) or not all(hasattr(self, name) for name in self.parts):
            raise TypeError(f"{type(self).__name__} is made of {', '.join(self.parts)}")

    def _compared(self) -> list[object]:
        return [getattr(self, name) for name in self.parts]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._compared() == self._compared()

    def __hash__(self) -> int:
        return hash(tuple(self._compared()))

    def children(self) -> list[Tree]:
        """The subtrees, in order, lists and options flattened."""
        found: list[Tree] = []
        for name, is_list in self._subtrees:
            value = getattr(self, name)
            if is_list:
                found += value or ()
            elif value is not None:
                found.append(value)
        return found

    def walk(self) -> Iterator[Tree]:
        """This tree and all below it, parents before children, left to right."""
        waiting: list[Tree] = [self]
        while waiting:
            tree = waiting.pop()
            yield tree
            waiting.extend(reversed(tree.children()))

    def dump(self) -> str:
        """The tree as an s-expression, in TorchScript's layout."""
        return _print(_printable(self))

    def __str__(self) -> str:
        return self.dump()

    def __repr__(self) -> str:
        return self.dump()


def replaced(tree: _T, **changed: Any) -> _T:
    """The tree with other parts, which stands in the same place."""
    return type(tree)(**{**vars(tree), **changed})  # what has been counted is counted anew


def depth_of_tree(tree: Tree) -> int:
    """How deep the compiler goes into a tree: its levels, and a level for each early exit, which nests what follows."""
    return tree.depth + tree.exits


class Expr(Tree):
    """What has a value (or is a type, in an annotation)."""


class Stmt(Tree):
    """What is executed."""


# Printing. Trees can be thousands deep (a long sum), so nothing here recurses.


class _Node(Record, frozen=False):
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
    for name, part in tree.layout:
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
