"""The abstract syntax of TorchScript: what the frontend reads and the emitter translates.

A class per kind of tree. The declaration of a class is all there is to know about it: `kind` is the word it prints
with, and its fields, in order, are its subtrees. How a field prints follows from its type, unless the declaration says
otherwise:

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

from collections.abc import Iterator
from dataclasses import Field, dataclass, field, fields
from enum import Enum, auto
from types import MappingProxyType
from typing import ClassVar

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


_MARK = MappingProxyType({"part": _Part.MARK})
_KIND = MappingProxyType({"part": _Part.KIND})
_MORE = MappingProxyType({"part": _Part.MORE})
_HIDDEN = MappingProxyType({"part": _Part.HIDDEN})


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
    range: SourceRange = field(kw_only=True, compare=False, metadata=_HIDDEN)

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


# Names, functions and classes


@dataclass(frozen=True, repr=False)
class Ident(Tree):
    """A name where it stands in the program."""

    kind = "ident"
    name: str


@dataclass(frozen=True, repr=False)
class Param(Tree):
    """A parameter of a function. `default` is filled only for functions given as text and nested ones."""

    kind = "param"
    ident: Ident
    type: Expr | None
    default: Expr | None
    kwarg_only: bool


@dataclass(frozen=True, repr=False)
class Decl(Tree):
    """What a function takes and gives."""

    kind = "decl"
    params: tuple[Param, ...]
    return_type: Expr | None


@dataclass(frozen=True, repr=False)
class Def(Stmt):
    """A function."""

    kind = "def"
    name: Ident
    decl: Decl
    body: tuple[Stmt, ...]


@dataclass(frozen=True, repr=False)
class Property(Tree):
    """A property of a class."""

    kind = "property"
    name: Ident
    getter: Def
    setter: Def | None


@dataclass(frozen=True, repr=False)
class ClassDef(Tree):
    """A class. `assigns` are the assignments at class level."""

    kind = "class"
    name: Ident
    superclass: Expr | None
    body: tuple[Stmt, ...]
    properties: tuple[Property, ...] | None
    assigns: tuple[Assign, ...] | None


@dataclass(frozen=True, repr=False)
class Attribute(Tree):
    """A keyword argument of a call."""

    kind = "attribute"
    name: Ident
    value: Expr


# Statements


@dataclass(frozen=True, repr=False)
class If(Stmt):
    """`if cond: then else: orelse`; an `elif` is an `orelse` of one `If`."""

    kind = "if"
    cond: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]


@dataclass(frozen=True, repr=False)
class For(Stmt):
    """`for targets in iterables: body`; Python source gives one target (maybe a tuple) and one iterable."""

    kind = "for"
    targets: tuple[Expr, ...]
    iterables: tuple[Expr, ...]
    body: tuple[Stmt, ...]


@dataclass(frozen=True, repr=False)
class While(Stmt):
    """`while cond: body`."""

    kind = "while"
    cond: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, repr=False)
class LoopElse(Stmt):
    """`loop` with `else: orelse`, which is run unless the loop is left by break."""

    kind = "loop else"
    loop: For | While
    orelse: tuple[Stmt, ...]


@dataclass(frozen=True, repr=False)
class Handler(Tree):
    """`except type as name: body`."""

    kind = "except"
    type: Expr | None
    name: Ident | None
    body: tuple[Stmt, ...]


@dataclass(frozen=True, repr=False)
class Try(Stmt):
    """`try: body`, handlers, `else: orelse`, `finally: final`."""

    kind = "try"
    body: tuple[Stmt, ...]
    handlers: tuple[Handler, ...]
    orelse: tuple[Stmt, ...]
    final: tuple[Stmt, ...]


@dataclass(frozen=True, repr=False)
class Global(Stmt):
    """`global names`."""

    kind = "global"
    names: tuple[Ident, ...]


@dataclass(frozen=True, repr=False)
class Assign(Stmt):
    """`targets[0] = targets[1] = ... = value`, or `targets[0]: type = value`."""

    kind = "assign"
    targets: tuple[Expr, ...]
    value: Expr | None
    type: Expr | None


@dataclass(frozen=True, repr=False)
class AugAssign(Stmt):
    """`target op= value`; `op` as in `BinOp`."""

    kind = "aug_assign"
    target: Expr
    op: str = field(metadata=_MARK)
    value: Expr


@dataclass(frozen=True, repr=False)
class Return(Stmt):
    """`return value`; `value` is a `NoneLiteral` when none is written."""

    kind = "return"
    value: Expr


@dataclass(frozen=True, repr=False)
class Raise(Stmt):
    """`raise exception`."""

    kind = "raise"
    exception: Expr


@dataclass(frozen=True, repr=False)
class RaiseFrom(Stmt):
    """`raise exception from cause`."""

    kind = "raise from"
    exception: Expr
    cause: Expr


@dataclass(frozen=True, repr=False)
class RaiseAgain(Stmt):
    """`raise` alone, in a handler."""

    kind = "raise again"


@dataclass(frozen=True, repr=False)
class Assert(Stmt):
    """`assert condition, message`."""

    kind = "assert"
    condition: Expr
    message: Expr | None


@dataclass(frozen=True, repr=False)
class Pass(Stmt):
    """`pass`."""

    kind = "pass"


@dataclass(frozen=True, repr=False)
class Break(Stmt):
    """`break`."""

    kind = "break"


@dataclass(frozen=True, repr=False)
class Continue(Stmt):
    """`continue`."""

    kind = "continue"


@dataclass(frozen=True, repr=False)
class Delete(Stmt):
    """`del targets`."""

    kind = "del"
    targets: tuple[Expr, ...]


@dataclass(frozen=True, repr=False)
class ExprStmt(Stmt):
    """An expression evaluated for its effect; a doc string is one too."""

    kind = "expression statement"
    value: Expr


@dataclass(frozen=True, repr=False)
class WithItem(Tree):
    """`value as target`."""

    kind = "withitem"
    value: Expr
    target: Var | None


@dataclass(frozen=True, repr=False)
class With(Stmt):
    """`with items: body`."""

    kind = "with"
    items: tuple[WithItem, ...]
    body: tuple[Stmt, ...]


# Expressions


@dataclass(frozen=True, repr=False)
class TernaryIf(Expr):
    """`true if cond else false`."""

    kind = "if"
    cond: Expr
    true: Expr
    false: Expr


@dataclass(frozen=True, repr=False)
class BinOp(Expr):
    """`left op right`.

    `op` is one of `and or < > is`, `is not`, `in eq ne le ge + - * / % floordiv @`, `pow operator`, `<< >> & ^ |`.
    """

    op: str = field(metadata=_KIND)
    left: Expr
    right: Expr


@dataclass(frozen=True, repr=False)
class UnaryOp(Expr):
    """`op operand`; `op` is one of `not`, `~`, `unary minus`, `unary plus`."""

    op: str = field(metadata=_KIND)
    operand: Expr


@dataclass(frozen=True, repr=False)
class Const(Expr):
    """A number. `text` is how Python prints it."""

    kind = "const"
    text: str
    value: int | float | complex = field(metadata=_HIDDEN)


@dataclass(frozen=True, repr=False)
class StringLiteral(Expr):
    """A string, escapes already decoded."""

    kind = "string_literal"
    value: str


@dataclass(frozen=True, repr=False)
class TrueLiteral(Expr):
    """`True`."""

    kind = "True"


@dataclass(frozen=True, repr=False)
class FalseLiteral(Expr):
    """`False`."""

    kind = "False"


@dataclass(frozen=True, repr=False)
class NoneLiteral(Expr):
    """`None`."""

    kind = "None"


@dataclass(frozen=True, repr=False)
class Dots(Expr):
    """`...`."""

    kind = "dots"


@dataclass(frozen=True, repr=False)
class Apply(Expr):
    """`callee(args, keywords)`; `*x` among the arguments is a `Starred`."""

    kind = "apply"
    callee: Expr
    args: tuple[Expr, ...]
    keywords: tuple[Attribute, ...]


@dataclass(frozen=True, repr=False)
class Select(Expr):
    """`value.name`."""

    kind = "."
    value: Expr
    name: Ident


@dataclass(frozen=True, repr=False)
class Subscript(Expr):
    """`value[indices]`, an entry for each index between commas."""

    kind = "subscript"
    value: Expr
    indices: tuple[Expr, ...]


@dataclass(frozen=True, repr=False)
class SliceExpr(Expr):
    """`start:stop:step` as an index."""

    kind = "slice expr"
    start: Expr | None
    stop: Expr | None
    step: Expr | None


@dataclass(frozen=True, repr=False)
class Var(Expr):
    """A name as an expression."""

    kind = "variable"
    name: Ident


@dataclass(frozen=True, repr=False)
class ListLiteral(Expr):
    """`[elements]`."""

    kind = "list-literal"
    elements: tuple[Expr, ...]


@dataclass(frozen=True, repr=False)
class TupleLiteral(Expr):
    """`(elements)`."""

    kind = "tuple-literal"
    elements: tuple[Expr, ...]


@dataclass(frozen=True, repr=False)
class DictLiteral(Expr):
    """`{keys[0]: values[0], ...}`."""

    kind = "dict-literal"
    keys: tuple[Expr, ...]
    values: tuple[Expr, ...]


@dataclass(frozen=True, repr=False)
class Lambda(Expr):
    """`lambda params: body`."""

    kind = "lambda"
    decl: Decl
    body: Expr


@dataclass(frozen=True, repr=False)
class Yield(Stmt):
    """`yield value`."""

    kind = "yield"
    value: Expr


@dataclass(frozen=True, repr=False)
class ComprehensionFor(Tree):
    """`for target in iterable` behind the first one of a comprehension."""

    kind = "for"
    target: Expr
    iterable: Expr


@dataclass(frozen=True, repr=False)
class ComprehensionIf(Tree):
    """`if condition` in a comprehension."""

    kind = "if"
    condition: Expr


@dataclass(frozen=True, repr=False)
class ListComp(Expr):
    """`[element for target in iterable]`, or the same as a generator expression; `clauses` are its further parts."""

    kind = "list comprehension"
    element: Expr
    target: Expr
    iterable: Expr
    clauses: tuple[ComprehensionFor | ComprehensionIf, ...] = field(default=(), metadata=_MORE)
    is_generator: bool = field(default=False, kw_only=True, compare=False, metadata=_HIDDEN)

    @property
    def targets(self) -> tuple[Expr, ...]:
        """What all its loops assign to."""
        return _all_targets(self)


@dataclass(frozen=True, repr=False)
class DictComp(Expr):
    """`{key: value for target in iterable}`; `clauses` are its further parts."""

    kind = "dict comprehension"
    key: Expr
    value: Expr
    target: Expr
    iterable: Expr
    clauses: tuple[ComprehensionFor | ComprehensionIf, ...] = field(default=(), metadata=_MORE)

    @property
    def targets(self) -> tuple[Expr, ...]:
        """What all its loops assign to."""
        return _all_targets(self)


def _all_targets(at: ListComp | DictComp) -> tuple[Expr, ...]:
    return at.target, *(c.target for c in at.clauses if isinstance(c, ComprehensionFor))


@dataclass(frozen=True, repr=False)
class Starred(Expr):
    """`*value` among arguments or assignment targets."""

    kind = "starred"
    value: Expr


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
        match part:
            case _Part.ATOM:
                parts.append(value)
            case _Part.TREE:
                parts.append(later(value))
            case _Part.OPTION:
                parts.append(_Node("option", [] if value is None else [later(value)]))
            case _Part.LIST:
                parts.append(_Node("list", [later(v) for v in value]))
            case _Part.MORE:
                parts += [_Node("list", [later(v) for v in value])] if value else []
            case _Part.OPTIONAL_LIST:
                parts.append(_Node("option", [] if value is None else [_Node("list", [later(v) for v in value])]))
            case _Part.MARK:
                parts.append(_Node(str(value), []))
            case _Part.KIND:
                kind = value
    return _Node(kind, parts)


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
        texts = [part if isinstance(part, str) else part.flat for part in node.parts]
        known = [text for text in texts if text is not None]
        if len(known) == len(texts):
            flat = f"({' '.join([node.kind, *known])})"
            node.flat = flat if len(flat) < _WIDTH else None


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
