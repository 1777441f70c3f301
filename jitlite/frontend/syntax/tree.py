"""The abstract syntax of TorchScript: what the frontend reads and the emitter translates.

A class per kind of tree. The declaration of a class is all there is to know about it: `kind` is the word it prints
with, and its fields, in order, are its subtrees.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from jitlite.frontend.syntax.tree_base import HIDDEN, KIND, MARK, MORE
from jitlite.frontend.syntax.tree_base import Expr as Expr
from jitlite.frontend.syntax.tree_base import Stmt as Stmt
from jitlite.frontend.syntax.tree_base import Tree as Tree

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
class KeywordArgument(Tree):
    """A keyword argument of a call."""

    kind = "attribute"
    name: Ident
    value: Expr


# Statements


@dataclass(frozen=True, repr=False)
class IfStmt(Stmt):
    """`if cond: then else: orelse`; an `elif` is an `orelse` of one `IfStmt`."""

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
class TryStmt(Stmt):
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
    op: str = field(metadata=MARK)
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

    op: str = field(metadata=KIND)
    left: Expr
    right: Expr


@dataclass(frozen=True, repr=False)
class UnaryOp(Expr):
    """`op operand`; `op` is one of `not`, `~`, `unary minus`, `unary plus`."""

    op: str = field(metadata=KIND)
    operand: Expr


@dataclass(frozen=True, repr=False)
class Const(Expr):
    """A number. `text` is how Python prints it."""

    kind = "const"
    text: str
    value: int | float | complex = field(metadata=HIDDEN)


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
    keywords: tuple[KeywordArgument, ...]


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
    clauses: tuple[ComprehensionFor | ComprehensionIf, ...] = field(default=(), metadata=MORE)
    is_generator: bool = field(default=False, kw_only=True, compare=False, metadata=HIDDEN)

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
    clauses: tuple[ComprehensionFor | ComprehensionIf, ...] = field(default=(), metadata=MORE)

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
