"""The types of `[]`, `{}`, `[None] * n` and `[0] * n` that are told by what is put into them.

    names = []               a List[Tensor], as in TorchScript
    names.append("a")        which does not fit

A display of None, or of ints, may get more: its elements are Optional, or floats, then. A variable of an int stays one.

A function that does not compile is emitted again. Then an operator that takes no such list says what type it had to be,
and the function is emitted from its start with that type for the literal, until it compiles or nothing new is learned.
So what compiles without this compiles as it did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import TypeVar

from jitlite.base.errors.names import MAYBE_UNSET
from jitlite.base.errors.types import CHANGED_TYPE
from jitlite.base.source import CompileError, SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.possibly_set import accesses
from jitlite.frontend.emit.scope import Frame
from jitlite.frontend.emit.values import SimpleValue
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.ops import Op
from jitlite.ir.types import Type
from jitlite.operators.conversions import EMPTY_LITERAL, is_empty_literal
from jitlite.operators.overloads import NamedValue

_R = TypeVar("_R")
_Place = tuple[str | None, int, int, int]

MOST_ATTEMPTS = 40
"""How often a function is emitted at most: each time a literal gets another type, and few have more than two."""


GUESSES: tuple[Type, ...] = (T.TENSOR, T.INT, T.STRING, T.ListType.of(T.TENSOR), T.ListType.of(T.INT))
"""The types that a variable may have of which nothing is known yet, for the lines between its first use and the next
assignment to it: most of what can be done with a value can be done with one of these."""


class LearnedType(Exception):
    """Ends an attempt that has told the type of a literal."""


class LearnedTypes:
    """What is known of the literals of a function, by where they stand."""

    def __init__(self, converts_tensors: bool = False) -> None:
        self.converts_tensors = converts_tensors
        """Does a variable of numbers convert the tensors that it is given, as in TorchScript?"""
        self.types: dict[_Place, Type] = {}
        self.variables: dict[tuple[str, _Place], Type] = {}
        """Of variables that begin as None or as numbers."""

        self.carried: dict[str, Type] = {}
        """Of variables that a loop reads before it sets them, in an earlier iteration; see `loop_carried`."""
        self._guessed: dict[str, int] = {}
        """Which of `GUESSES` it is, where nothing has told the type."""

    def of(self, range: SourceRange, default: Type) -> Type:
        """The type of the literal at a place."""
        return self.types.get(_place(range), default)

    def of_display(self, type: Type, range: SourceRange) -> Type:
        """The type of a display whose elements have given it this type."""
        return _widened(type, self.of(range, type)) if may_hold_more(type) else type

    def learn(self, literal: Value, type: Type) -> bool:
        """Note the type of a literal; says whether it is another one than before."""
        range = literal.node.range
        if range is None or literal.type is type or self.types.get(_place(range)) is type:
            return False
        self.types[_place(range)] = type
        return True

    def learn_variable(self, name: str, range: SourceRange | None, first: Type, type: Type) -> bool:
        """Note what a variable that is None, or a number, at first may be given; says whether that is new."""
        if range is None:
            return False
        place = name, _place(range)
        before = self.variables.get(place, first)
        wanted = _common(T.unshaped(before), type)
        if wanted is None or wanted is before or wanted is T.FLOAT:  # an int stays one, as in TorchScript
            return False
        self.variables[place] = wanted
        return True

    def type_of_carried(self, name: str, stored: Type | None) -> Type:
        """The type of a variable that a loop carries: what something has told, or `stored`, or a guess."""
        if name not in self.carried:
            if stored is None:
                self._guessed[name] = 0
            self.carried[name] = stored or GUESSES[0]
        return self.carried[name]

    def learn_carried(self, name: str, type: Type) -> bool:
        """Note what a variable that a loop carries is given; says whether that is new."""
        before = self.carried.get(name)
        if before is None:
            return False
        is_guess = self._guessed.pop(name, None) is not None
        wanted = type if is_guess else T.unify(before, type)
        if wanted is None or wanted is before:
            return False
        self.carried[name] = wanted
        return True

    @property
    def has_guesses(self) -> bool:
        """Is there a variable of whose type nothing is known?"""
        return bool(self._guessed)

    def guess_again(self) -> bool:
        """Take other types for the variables whose types are guesses; says whether there are any left."""
        left = False
        for name, number in self._guessed.items():
            if number + 1 < len(GUESSES):
                self._guessed[name], self.carried[name], left = number + 1, GUESSES[number + 1], True
        return left

    def is_told(self, literal: Value) -> bool:
        """Has something told the type of the literal?"""
        return literal.node.range is not None and _place(literal.node.range) in self.types


def _place(range: SourceRange) -> _Place:
    return range.source.filename, range.source.first_line, range.start, range.end


_LEARNING: ContextVar[frozenset[tree.Def]] = ContextVar("learning", default=frozenset())
"""The functions that are being emitted again: one that calls itself is not within its own attempts."""


def with_learned_types(function: tree.Def, emit: Callable[[LearnedTypes | None], _R]) -> _R:
    """What `emit` gives for a function, which is told the types of literals once it has failed without.

    Raises:
        CompileError: it fails whatever their types are.
    """
    try:
        return emit(None)
    except CompileError as error:
        is_open = error.code in (MAYBE_UNSET.code, CHANGED_TYPE.code) or any(map(_is_open, function.walk()))
        if function in _LEARNING.get() or not is_open:
            raise
        failure = error
    token = _LEARNING.set(_LEARNING.get() | {function})
    try:
        return _with_types_of_uses(emit, LearnedTypes(), failure)
    except CompileError:
        if not _is_of_tensor_for_number(failure):
            raise
        return _with_types_of_uses(emit, LearnedTypes(converts_tensors=True), failure)
    finally:
        _LEARNING.reset(token)


def _with_types_of_uses(emit: Callable[[LearnedTypes], _R], learned: LearnedTypes, failure: CompileError) -> _R:
    """What `emit` gives once it knows the types that it tells.

    Args:
        failure: what is wrong where nothing is known.
    """
    for _ in range(MOST_ATTEMPTS):
        try:
            return emit(learned)
        except LearnedType:
            continue
        except CompileError as error:
            if learned.guess_again():
                continue
            raise (failure if learned.has_guesses else error) from None
    raise failure


def _is_of_tensor_for_number(error: CompileError) -> bool:
    """Is the error that of a variable of numbers that is given a tensor?"""
    numbers = [t.annotation for t in _NUMBERS]
    return error.code == CHANGED_TYPE.code and error.expected in numbers and error.found == T.TENSOR.annotation


def _is_open(at: tree.Tree) -> bool:
    """May uses tell the type of what is written here?"""
    match at:
        case tree.ListLiteral():
            return all(isinstance(e, tree.Const | tree.UnaryOp) for e in at.elements)
        case tree.DictLiteral():
            return all(isinstance(v, tree.Const | tree.UnaryOp) for v in at.values)
        case tree.ListComp(element=kept) | tree.DictComp(value=kept):
            return isinstance(kept, tree.Const | tree.UnaryOp)
        case tree.Apply(callee=tree.Var(name=name)):
            return name.name in ("list", "dict")
    return isinstance(at, tree.NoneLiteral)


_NUMBERS: frozenset[Type] = frozenset({T.INT, T.FLOAT})


def may_hold_more(display: Type) -> bool:
    """May the elements of a display be of other types than those it begins with?"""
    return isinstance(display, T.ListType | T.DictType) and display.contained[-1] in _NUMBERS | {T.NONE}


class LearningBuilder(Builder):
    """A builder whose empty literals may be told their types by their uses."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.learned: LearnedTypes | None = None
        self.empty_literals: list[Value] = []
        self.displays: list[Value] = []
        """Displays of None and of numbers, while something is learned."""

    def empty(self, type: Type, range: SourceRange) -> Value:
        """An empty literal, of this type unless something wants another."""
        type = type if self.learned is None else self.learned.of(range, type)
        literal = self.node(EMPTY_LITERAL, [], [type], range).output
        self.empty_literals.append(literal)
        return literal

    def display_type(self, type: Type, range: SourceRange) -> Type:
        """The type of a display, of this type unless more is put into it later."""
        return type if self.learned is None else self.learned.of_display(type, range)

    def note_display(self, display: Value) -> Value:
        """Let what is put into a display later tell its type."""
        if self.learned is not None and (may_hold_more(display.type) or self.learned.is_told(display)):
            self.displays.append(display)
        return display

    def op(
        self,
        name: str,
        args: Sequence[Value | NamedValue],
        kwargs: Sequence[NamedValue] = (),
        range: SourceRange | None = None,
        self_value: NamedValue | None = None,
        candidates: Sequence[Op] | None = None,
    ) -> Value:
        try:
            return super().op(name, args, kwargs, range, self_value, candidates)
        except CompileError:
            if self.learned is not None:
                given = [*args, *kwargs] if self_value is None else [self_value, *args, *kwargs]
                values = [v.in_graph(self.graph) if isinstance(v, NamedValue) else v for v in given]
                self._learn_from_operator(name, values)
            raise

    def convert(self, type: Type, value: Value, range: SourceRange) -> Value:
        found = super().convert(type, value, range)
        wanted = T.without_none(type)
        if self.learned is not None and isinstance(wanted, T.ListType | T.DictType):
            self._learn_if_other(value, wanted, T.is_subtype(found.type, type))
        return found

    def _learn_if_other(self, value: Value, wanted: Type, fits: bool) -> None:
        if not fits:
            self._learn(value, wanted, of_displays=False)  # which are wrong where they are given

    def declared_by_use(self, frame: Frame, name: str, range: SourceRange) -> Type | None:
        """The type of a variable that begins as None or a number, where something has told what else it is given."""
        if self.learned is None or frame.is_defined(name):
            return None
        return self.learned.variables.get((name, _place(range)))

    def convert_for_variable(self, type: Type, value: Value, range: SourceRange) -> Value:
        is_exact = self.learned is None or not self.learned.converts_tensors
        is_other = type in _NUMBERS and T.unshaped(value.type) is T.TENSOR
        return value if is_exact and is_other else super().convert_for_variable(type, value, range)

    def as_learned(self, value: SimpleValue, declared: Type | None, range: SourceRange) -> SimpleValue:
        """The first value of a variable, of which something has told that it may be given floats, or tensors, later."""
        if self.learned is not None and declared is T.FLOAT and value.value.type is T.INT:
            return SimpleValue(self.convert(T.FLOAT, value.value, range))
        if isinstance(declared, T.UnionType) and value.value.type in _NUMBERS:
            return SimpleValue(self.cast(value.value, declared))  # which tells a loop of libtorch what it carries
        return value

    def learn_variable(self, name: str, type: Type) -> None:
        """Learn from a variable that is given a value of a type which it has not.

        Raises:
            LearnedType: it was an empty literal, None, or a number before.
        """
        if self.learned is None:
            return
        if self.learned.learn_carried(name, T.unshaped(type)):
            raise LearnedType
        for store in self._stores(name):
            if store.input.type in _NUMBERS | {T.NONE}:
                if self.learned.learn_variable(name, store.range, store.input.type, T.unshaped(type)):
                    raise LearnedType
            elif isinstance(type, T.ListType | T.DictType):
                self._learn(store.input, type)

    def learn_result(self, value: Value) -> None:
        """Learn from a result that is not of the type of those before.

        Raises:
            LearnedType: it, or one of those, is an empty literal.
        """
        if self.learned is None or not isinstance(value.type, T.ListType | T.DictType):
            return
        for node in self.graph.all_nodes():
            if node.kind == "prim::ReturnStmt" and type(node.input.type) is type(value.type):
                self._learn(node.input, value.type)
                self._learn(value, node.input.type)

    def learn_method(self, value: Value, name: str) -> None:
        """Learn from a method that a value is asked for.

        Raises:
            LearnedType: the value is in an empty literal.
        """
        if self.learned is not None and value.type is T.TENSOR and name in _LIST_METHODS:
            self._learn(value, T.ListType.of(T.TENSOR))

    # -- what is learned
    def _learn_from_operator(self, name: str, values: Sequence[Value]) -> None:
        if len(values) == 2 and _compares(name):
            for one, other in (values, values[::-1]):
                if one.type is T.TENSOR:
                    self._learn(one, other.type)
        if not values or not isinstance(values[0].type, T.ListType | T.DictType):
            return
        wanted = _wanted(name, values[0].type, [v.type for v in values[1:]])
        if wanted is not None:
            self._learn(values[0], wanted)

    def _learn(self, value: Value, wanted: Type, of_displays: bool = True) -> None:
        """Learn that a value had to be of a type, if it is, or is in, what an empty literal has begun.

        Args:
            of_displays: or what a display of None or of numbers has.

        Raises:
            LearnedType: that was not known.
        """
        assert self.learned is not None
        is_new = False
        for root, depth in _roots(self, value, 0, set()):
            for literal in self._literals(root, depth, of_displays):
                told = literal in self.displays or self.learned.is_told(literal)
                within = depth if literal is root else 0
                is_new |= self.learned.learn(literal, _at_depth(literal.type, within, wanted, told))
        if is_new:
            raise LearnedType

    def _literals(self, root: Value, depth: int, of_displays: bool) -> Iterable[Value]:
        """The literals of which what is learned of a container, or of what is in it, may be true."""
        is_literal = is_empty_literal(root) or root in self.displays
        found = [root] if is_literal else self._literals_within(root) if depth else []
        return (literal for literal in found if of_displays or is_empty_literal(literal))

    def _literals_within(self, display: Value) -> Iterator[Value]:
        """The empty literals in what makes a list or a dict."""
        outer = display.node.range
        for literal in [*self.empty_literals, *self.displays]:
            inner = literal.node.range
            if outer is not None and inner is not None and outer.start <= inner.start and inner.end <= outer.end:
                yield literal

    def _stores(self, name: str) -> Iterable[Node]:
        return [n for n in accesses(self.graph.block, name) if n.kind == "prim::Store"]


_LIST_METHODS = frozenset({"append", "extend", "insert"})
"""Methods that only lists have."""


def _roots(b: LearningBuilder, value: Value, depth: int, seen: set[str]) -> Iterator[tuple[Value, int]]:
    """What made the containers that a value is (depth 0) or is in, so many containers deep."""
    node = value.node
    if node.kind == "prim::Load":
        name = node.attributes["name"]
        if name not in seen:
            for store in b._stores(name):
                yield from _roots(b, store.input, depth, seen | {name})
    elif _gives_part(node.kind):
        yield from _roots(b, node.inputs[0], depth + 1, seen)
    elif node.kind == "prim::If":
        for block in node.blocks:
            yield from _roots(b, block.outputs[node.outputs.index(value)], depth, seen)
    elif node.kind == "prim::unchecked_cast" or (node.kind == "aten::mul" and isinstance(value.type, T.ListType)):
        yield from _roots(b, node.inputs[0], depth, seen)
    else:
        yield value, depth


def _at_depth(t: Type, depth: int, wanted: Type, is_told: bool) -> Type:
    """The type of a literal that is to hold, so many containers deep in it, what is wanted."""
    if depth == 0 or not isinstance(t, T.ListType | T.DictType):
        return _widened(t, wanted) if is_told else wanted
    return t.with_contained([*t.contained[:-1], _at_depth(t.contained[-1], depth - 1, wanted, is_told)])


def _widened(old: Type, wanted: Type) -> Type:
    """A type for both of what has been told of a literal, or of what is in it; the old one where there is none."""
    if type(old) is not type(wanted) or not isinstance(old, T.ListType | T.DictType):
        return _common(old, wanted) or old
    parts = [_common(a, b) for a, b in zip(old.contained, wanted.contained, strict=True)]
    known = [p for p in parts if p is not None]
    return old.with_contained(known) if len(known) == len(parts) else old


def _common(a: Type, b: Type) -> Type | None:
    if {a, b} == {T.INT, T.FLOAT}:
        return T.FLOAT
    if a in _NUMBERS and b is T.TENSOR:
        return T.unify(a, b, default_to_union=True)
    if type(a) is type(b) and isinstance(a, T.ListType | T.DictType):
        return _widened(a, b)
    common = T.unify(a, b)
    return b if common is None and a is T.TENSOR else common  # of a literal in it, of which nothing was told


def _wanted(name: str, this: Type, given: Sequence[Type]) -> Type | None:
    """The type that the first operand of an operator had to be of for the others to fit."""
    kinds = [T.unshaped(t) for t in given]
    if not kinds:
        return None
    position = _position_of_element(name)
    if position is None:
        return kinds[0] if type(kinds[0]) is type(this) else None
    found = dict(enumerate(kinds)).get(position)
    if isinstance(this, T.DictType):
        return T.DictType.of(kinds[0], found if found is not None and len(kinds) > 1 else this.value)
    return None if found is None else T.ListType.of(found)


def _position_of_element(name: str) -> int | None:
    """Where an operator on a list or dict has an element, or a value, behind the container; -1 where it has none.

    None where the second operand is of the type of the first.
    """
    match name.removeprefix("aten::"):
        case "extend" | "add" | "add_" | "update":
            return None
        case "append" | "index" | "count" | "remove" | "__contains__":
            return 0
        case "insert" | "_set_item" | "setdefault" | "get":
            return 1
    return -1


def _gives_part(kind: str) -> bool:
    """Does an operator give what is in its first operand?"""
    return kind.removeprefix("aten::") in ("__getitem__", "setdefault", "get", "pop")


def _compares(name: str) -> bool:
    return name.removeprefix("aten::") in ("eq", "ne", "lt", "le", "gt", "ge")
