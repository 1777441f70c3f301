"""The abstract syntax of TorchScript: what the frontend reads and the emitter translates.

A class per kind of tree. The declaration of a class is all there is to know about it: `kind` is the word it prints
with, and its fields, in order, are its subtrees.
"""

from __future__ import annotations

from jitlite.frontend.syntax.tree_base import HIDDEN, KIND, MARK, MORE, part
from jitlite.frontend.syntax.tree_base import Expr as Expr
from jitlite.frontend.syntax.tree_base import Stmt as Stmt
from jitlite.frontend.syntax.tree_base import Tree as Tree
from jitlite.frontend.syntax.tree_base import replaced as replaced

# Names, functions and classes


class Ident(Tree):
    """A name where it stands in the program."""

    kind = "ident"
    name: str


class Param(Tree):
    """A parameter of a function; one with a star takes all other arguments, one with two stars the other keywords.

    `default` is filled only for functions given as text and nested ones.
    """

    kind = "param"
    ident: Ident
    type: Expr | None
    default: Expr | None
    kwarg_only: bool
    stars: int = part(HIDDEN, default=0, kw_only=True)


class Decl(Tree):
    """What a function takes and gives."""

    kind = "decl"
    params: tuple[Param, ...]
    return_type: Expr | None


class Def(Stmt):
    """A function; `named` are the variables that its expressions set by `:=`."""

    kind = "def"
    name: Ident
    decl: Decl
    body: tuple[Stmt, ...]
    named: tuple[str, ...] = part(HIDDEN, default=(), kw_only=True)


class Property(Tree):
    """A property of a class."""

    kind = "property"
    name: Ident
    getter: Def
    setter: Def | None


class ClassDef(Tree):
    """A class. `assigns` are the assignments at class level."""

    kind = "class"
    name: Ident
    superclass: Expr | None
    body: tuple[Stmt, ...]
    properties: tuple[Property, ...] | None
    assigns: tuple[Assign, ...] | None


class KeywordArgument(Tree):
    """A keyword argument of a call."""

    kind = "attribute"
    name: Ident
    value: Expr


# Statements


class IfStmt(Stmt):
    """`if cond: then else: orelse`; an `elif` is an `orelse` of one `IfStmt`."""

    kind = "if"
    cond: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]


class For(Stmt):
    """`for targets in iterables: body`; Python source gives one target (maybe a tuple) and one iterable."""

    kind = "for"
    targets: tuple[Expr, ...]
    iterables: tuple[Expr, ...]
    body: tuple[Stmt, ...]


class While(Stmt):
    """`while cond: body`."""

    kind = "while"
    cond: Expr
    body: tuple[Stmt, ...]


class LoopElse(Stmt):
    """`loop` with `else: orelse`, which is run unless the loop is left by break."""

    kind = "loop else"
    loop: For | While
    orelse: tuple[Stmt, ...]


class Handler(Tree):
    """`except type as name: body`."""

    kind = "except"
    type: Expr | None
    name: Ident | None
    body: tuple[Stmt, ...]


class TryStmt(Stmt):
    """`try: body`, handlers, `else: orelse`, `finally: final`."""

    kind = "try"
    body: tuple[Stmt, ...]
    handlers: tuple[Handler, ...]
    orelse: tuple[Stmt, ...]
    final: tuple[Stmt, ...]


class Global(Stmt):
    """`global names`."""

    kind = "global"
    names: tuple[Ident, ...]


class Import(Stmt):
    """`import module as name`, or `from module import attribute as name`; `level` is the number of dots in front."""

    kind = "import"
    module: str
    attribute: str
    name: Ident
    level: int = part(HIDDEN, default=0, kw_only=True)


class Imports(Stmt):
    """The imports of one statement."""

    kind = "imports"
    imports: tuple[Import, ...]


class Assign(Stmt):
    """`targets[0] = targets[1] = ... = value`, or `targets[0]: type = value`."""

    kind = "assign"
    targets: tuple[Expr, ...]
    value: Expr | None
    type: Expr | None


class AugAssign(Stmt):
    """`target op= value`; `op` as in `BinOp`."""

    kind = "aug_assign"
    target: Expr
    op: str = part(MARK)
    value: Expr


class Return(Stmt):
    """`return value`; `value` is a `NoneLiteral` when none is written."""

    kind = "return"
    value: Expr


class Raise(Stmt):
    """`raise exception`."""

    kind = "raise"
    exception: Expr


class RaiseFrom(Stmt):
    """`raise exception from cause`."""

    kind = "raise from"
    exception: Expr
    cause: Expr


class RaiseAgain(Stmt):
    """`raise` alone, in a handler."""

    kind = "raise again"


class Assert(Stmt):
    """`assert condition, message`."""

    kind = "assert"
    condition: Expr
    message: Expr | None


class Pass(Stmt):
    """`pass`."""

    kind = "pass"


class Break(Stmt):
    """`break`."""

    kind = "break"


class Continue(Stmt):
    """`continue`."""

    kind = "continue"


class Delete(Stmt):
    """`del targets`."""

    kind = "del"
    targets: tuple[Expr, ...]


class ExprStmt(Stmt):
    """An expression evaluated for its effect; a doc string is one too."""

    kind = "expression statement"
    value: Expr


class WithItem(Tree):
    """`value as target`."""

    kind = "withitem"
    value: Expr
    target: Var | None


class With(Stmt):
    """`with items: body`."""

    kind = "with"
    items: tuple[WithItem, ...]
    body: tuple[Stmt, ...]


# Expressions


class TernaryIf(Expr):
    """`true if cond else false`."""

    kind = "if"
    cond: Expr
    true: Expr
    false: Expr


class BinOp(Expr):
    """`left op right`.

    `op` is one of `and or < > is`, `is not`, `in eq ne le ge + - * / % floordiv @`, `pow operator`, `<< >> & ^ |`.
    """

    op: str = part(KIND)
    left: Expr
    right: Expr


class UnaryOp(Expr):
    """`op operand`; `op` is one of `not`, `~`, `unary minus`, `unary plus`."""

    op: str = part(KIND)
    operand: Expr


class Const(Expr):
    """A number. `text` is how Python prints it."""

    kind = "const"
    text: str
    value: int | float | complex = part(HIDDEN)


class StringLiteral(Expr):
    """A string, escapes already decoded."""

    kind = "string_literal"
    value: str


class TrueLiteral(Expr):
    """`True`."""

    kind = "True"


class FalseLiteral(Expr):
    """`False`."""

    kind = "False"


class NoneLiteral(Expr):
    """`None`."""

    kind = "None"


class Dots(Expr):
    """`...`."""

    kind = "dots"


class Apply(Expr):
    """`callee(args, keywords)`; `*x` among the arguments is a `Starred`, and so `**x` a `KeywordStarred`."""

    kind = "apply"
    callee: Expr
    args: tuple[Expr, ...]
    keywords: tuple[KeywordArgument, ...]


class Select(Expr):
    """`value.name`."""

    kind = "."
    value: Expr
    name: Ident


class Subscript(Expr):
    """`value[indices]`, an entry for each index between commas."""

    kind = "subscript"
    value: Expr
    indices: tuple[Expr, ...]
    has_comma: bool = part(HIDDEN, default=False, kw_only=True)

    @property
    def is_of_tuple(self) -> bool:
        """Is the index a tuple? `x[1,]` has a tuple of one."""
        return self.has_comma or len(self.indices) != 1


class SliceExpr(Expr):
    """`start:stop:step` as an index."""

    kind = "slice expr"
    start: Expr | None
    stop: Expr | None
    step: Expr | None


class Var(Expr):
    """A name as an expression."""

    kind = "variable"
    name: Ident


class ListLiteral(Expr):
    """`[elements]`."""

    kind = "list-literal"
    elements: tuple[Expr, ...]


class TupleLiteral(Expr):
    """`(elements)`."""

    kind = "tuple-literal"
    elements: tuple[Expr, ...]


class DictLiteral(Expr):
    """`{keys[0]: values[0], ...}`; the key of `**value` is a `KeywordStarred` of it, and so is the value."""

    kind = "dict-literal"
    keys: tuple[Expr, ...]
    values: tuple[Expr, ...]


class Lambda(Expr):
    """`lambda params: body`."""

    kind = "lambda"
    decl: Decl
    body: Expr


class Yield(Stmt):
    """`yield value`."""

    kind = "yield"
    value: Expr


class ComprehensionFor(Tree):
    """`for target in iterable` behind the first one of a comprehension."""

    kind = "for"
    target: Expr
    iterable: Expr


class ComprehensionIf(Tree):
    """`if condition` in a comprehension."""

    kind = "if"
    condition: Expr


class ListComp(Expr):
    """`[element for target in iterable]`, or the same as a generator expression; `clauses` are its further parts."""

    kind = "list comprehension"
    element: Expr
    target: Expr
    iterable: Expr
    clauses: tuple[ComprehensionFor | ComprehensionIf, ...] = part(MORE, default=())
    is_generator: bool = part(HIDDEN, default=False, kw_only=True)

    @property
    def targets(self) -> tuple[Expr, ...]:
        """What all its loops assign to."""
        return _all_targets(self)


class DictComp(Expr):
    """`{key: value for target in iterable}`; `clauses` are its further parts."""

    kind = "dict comprehension"
    key: Expr
    value: Expr
    target: Expr
    iterable: Expr
    clauses: tuple[ComprehensionFor | ComprehensionIf, ...] = part(MORE, default=())

    @property
    def targets(self) -> tuple[Expr, ...]:
        """What all its loops assign to."""
        return _all_targets(self)


def _all_targets(at: ListComp | DictComp) -> tuple[Expr, ...]:
    return at.target, *(c.target for c in at.clauses if isinstance(c, ComprehensionFor))


class Starred(Expr):
    """`*value` among arguments or assignment targets."""

    kind = "starred"
    value: Expr


class KeywordStarred(Expr):
    """`**value` among arguments."""

    kind = "keyword-starred"
    value: Expr


class NamedExpr(Expr):
    """`target := value`."""

    kind = "named-expression"
    target: Var
    value: Expr


class SetLiteral(Expr):
    """`{elements}`."""

    kind = "set-literal"
    elements: tuple[Expr, ...]
