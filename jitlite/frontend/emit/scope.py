"""Variables of a function being compiled: frames, refinements, conditions.

First-class values live in the graph as `prim::Store` and `prim::Load` of a named variable until `ssa.py` removes
them; what is no value (modules, functions, iterables) is kept in the frame's table. Each block has a frame.

What a condition says of a variable is stored in the variable. What it says of an attribute (`self.x is not None`) is a
*fact* of the frame, and is dropped as soon as something might make it wrong; see `branch_refinement.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from jitlite.base.errors.types import CHANGED_TYPE, WRONG_TYPE
from jitlite.base.source import CompileError, SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.empty_literals import unknown_elements
from jitlite.frontend.emit.interfaces import bodies_that_fail
from jitlite.frontend.emit.read_once import KeptIterator
from jitlite.frontend.emit.return_types import Unset
from jitlite.frontend.emit.ssa import is_meaningful_name
from jitlite.frontend.emit.values import SimpleValue, SugaredValue
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Node, Value
from jitlite.ir.types import Type
from jitlite.operators.conversions import is_empty_literal

Path = tuple[str, ...]
"""A variable, or what is reached from it: `("self", ".x", "[0]")` is element 0 of the tuple `self.x`. Attributes start
with a dot and may be assigned; elements of tuples cannot change."""

Refinements = dict[Path, Type]
"""Types that variables, and what is reached from them, are known to have."""

Kept = dict[str, tuple[str, Type]]
"""Variables that a condition sets, each with the temporary that has its value and the type of it."""


@dataclass(frozen=True)
class RefinementSet:
    """What is known about variables and attributes when a condition holds, and when it does not.

    `set_when_true` and `set_when_false` are the variables that it has set then; see `conditional_assignment.py`.
    """

    when_true: Refinements = field(default_factory=dict)
    when_false: Refinements = field(default_factory=dict)
    set_when_true: Kept = field(default_factory=dict)
    set_when_false: Kept = field(default_factory=dict)

    def conjunction(self, other: RefinementSet) -> RefinementSet:
        """For `a and b`: both hold, or one of them does not."""
        return RefinementSet(_both(self.when_true, other.when_true), _common(self.when_false, other.when_false))

    def disjunction(self, other: RefinementSet) -> RefinementSet:
        """For `a or b`: one holds, or neither does."""
        return RefinementSet(_common(self.when_true, other.when_true), _both(self.when_false, other.when_false))

    def negation(self) -> RefinementSet:
        return RefinementSet(self.when_false, self.when_true, self.set_when_false, self.set_when_true)

    def sets(self, side: bool) -> Kept:
        """The variables that the condition has set if it is `side`."""
        return self.set_when_true if side else self.set_when_false

    def without(self, names: set[str], side: bool) -> RefinementSet:
        """What remains of it where these variables have been assigned, if the condition is `side`."""
        changed = {path: t for path, t in (self.when_true if side else self.when_false).items() if path[0] not in names}
        return RefinementSet(changed, self.when_false) if side else RefinementSet(self.when_true, changed)

    def where(self, still_holds: Callable[[Path], bool]) -> RefinementSet:
        """What remains of it where something may have changed since."""
        sides = (self.when_true, self.when_false)
        true, false = ({path: t for path, t in side.items() if still_holds(path)} for side in sides)
        return RefinementSet(true, false)


def _both(a: Refinements, b: Refinements) -> Refinements:
    """Refinements of either; of a path refined differently by the two, the narrower where one is."""
    result = dict(a)
    for path, t in b.items():
        if path not in result or T.is_subtype(t, result[path]):
            result[path] = t
        elif not T.is_subtype(result[path], t):
            del result[path]
    return result


def _common(a: Refinements, b: Refinements) -> Refinements:
    return {path: t for path, t in a.items() if b.get(path) is t}


def common_facts(all_facts: list[Refinements]) -> Refinements:
    """What all of them say."""
    result = dict(all_facts[0]) if all_facts else {}
    for facts in all_facts[1:]:
        result = _common(result, facts)
    return result


@dataclass(frozen=True)
class Condition:
    """A bool value, what it says about variables, and its value where that is decided at compile time."""

    value: Value
    refinements: RefinementSet = RefinementSet()
    static: bool | None = None


def _is_module(t: Type) -> bool:
    return isinstance(t, T.ClassType) and t.is_module


class Frame:
    """The variables that one block sets."""

    def __init__(self, block: Block, parent: Frame | None, starts_function: bool = False) -> None:
        self.block = block
        self.parent = parent
        self.starts_function = starts_function
        self.types: dict[str, Type] = {}
        self.declared: dict[str, Type] = {}
        """What variables may be given: the type of their annotation, else that of their first value. An annotation may
        come without a value: `y: int`."""
        self.too_narrow: dict[str, CompileError] = {} if parent is None else parent.too_narrow
        """Errors for variables that are given a value which a condition before the block excludes, shared by all frames
        of a function."""
        self.loop: LoopTypes | None = None
        """Of the body of a loop."""
        self.is_followed = False
        """Does somebody ask, behind the block, for `widened`?"""
        self.widened: set[str] = set()
        """Variables from outside that are given something here, or within, of which more was known."""
        self.sugared: dict[str, SugaredValue] = {}
        self.owned: set[str] = set()
        """Names that mean variables of their own here: those that a comprehension sets."""
        self.renamed: dict[str, str] = {}
        """What owned variables are called in the graph, where one outside has the name and another type."""
        self.iterators: dict[str, KeptIterator | None] = {}
        """Variables that were given iterators here, None for those that were given something else."""
        self.places: dict[str, SourceRange] = {}
        """Where variables were last assigned to, for errors."""
        self.reasons: dict[str, str] = {} if parent is None else parent.reasons
        """Why a variable is not defined, shared by all frames of a function."""
        self.possible: dict[str, Unset] = {}
        """Variables that a loop or branch before may have set; see `possibly_set`."""
        self.symbolic: set[str] = set() if parent is None else parent.symbolic
        """Names that have meant what is no value of the graph, such as a function; shared by all frames."""
        self.facts: Refinements = {} if parent is None else dict(parent.facts)
        """What is known here of the types of attributes and of elements of tuples."""
        self.dropped: set[Path] = set()
        """Paths of which facts have been dropped somewhere in the block."""

    def drop(self, concerned: Callable[[Path], bool]) -> None:
        """Forget the facts of the paths for which `concerned` holds."""
        gone = [path for path in self.facts if concerned(path)]
        for path in gone:
            del self.facts[path]
        self.dropped.update(gone)

    def dropped_here(self) -> set[Path]:
        """Paths of which facts have been dropped before in the function."""
        return set().union(*(frame.dropped for frame in self.chain()))

    def leave(self) -> None:
        """At the end of the block, let the block around forget what may have become wrong anywhere in this one."""
        if self.parent is not None and self.dropped:
            self.parent.dropped |= self.dropped
            self.parent.drop(self.dropped.__contains__)

    def _drop_rooted_at(self, name: str) -> None:
        if self.facts:
            self.drop(lambda path: path[0] == name)

    def chain(self) -> Iterator[Frame]:
        frame: Frame | None = self
        while frame is not None:
            yield frame
            frame = frame.parent

    def graph_name(self, name: str) -> str:
        """What the variable is called in the graph."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.renamed:
                return frame.renamed[name]
            frame = frame.parent
        return name

    def _own_name(self, name: str, value: Value | None) -> str:
        """The name in the graph for an assignment of a value to the variable."""
        current = self.graph_name(name)
        scope = self._owner_of(name)
        if scope is None or scope.parent is None or name in scope.renamed:
            return current
        if not scope.parent.is_defined(name) and all(name not in f.possible for f in scope.parent.chain()):
            return current
        outer = scope.parent.type_of(name)
        if value is None or outer is None or not T.is_subtype(value.type, T.unshaped(outer)):
            current = scope.renamed[name] = f"${current}"
        return current

    def _owner_of(self, name: str) -> Frame | None:
        """The frame in which the name means a variable of its own."""
        frame: Frame | None = self
        while frame is not None and name not in frame.owned:
            frame = frame.parent
        return frame

    def is_defined(self, name: str) -> bool:
        name = self.graph_name(name)
        frame: Frame | None = self
        while frame is not None:
            if name in frame.types or name in frame.sugared:
                return True
            frame = frame.parent
        return False

    def declaration_of(self, name: str) -> Type | None:
        """The type that an annotation without a value tells of a variable that has not been set."""
        return None if self.is_defined(name) else self.declared_type(name)

    def type_of(self, name: str) -> Type | None:
        """The type of a first-class variable, None for others."""
        name = self.graph_name(name)
        for frame in self.chain():
            if name in frame.sugared:
                return None
            if name in frame.types:
                return frame.types[name]
        return None

    def declared_type(self, name: str) -> Type | None:
        """What a first-class variable may be given, whatever conditions say of what it has now."""
        name = self.graph_name(name)
        for frame in self.chain():
            if name in frame.sugared:
                return None
            if name in frame.declared:
                return frame.declared[name]
            if frame.starts_function:
                return None
        return None

    def types_of_loop(self) -> LoopTypes | None:
        """What is followed of types in the innermost loop around."""
        for frame in self.chain():
            if frame.block.owner is not None and frame.block.owner.kind == "prim::Loop":
                return frame.loop
        return None

    def know(self, name: str, type: Type) -> None:
        """Note the type of a variable that has been set."""
        declared = self.declared_type(name)
        if declared is None or not T.is_subtype(type, declared):
            self.declared[name] = type
        self.types[name] = type

    def may_widen(self, name: str) -> bool:
        """May a variable have its declared type from here on? Not where it is set outside a loop or try around this."""
        declared, current = self.declared_type(name), self.type_of(name)
        return declared is not None and declared is not current and self._is_followed(name, declared)

    def _is_followed(self, name: str, type: Type) -> bool:
        """May the variable be of a type of which the blocks around exclude a part? Where these ask for it, they may."""
        for frame in self.chain():
            outer = None if frame.parent is None or frame.starts_function else frame.parent.type_of(name)
            if outer is None or T.is_subtype(type, T.unshaped(outer)):
                return True
            owner = frame.block.owner
            if owner is None or not (owner.kind == "prim::If" or frame.is_followed):
                return False
            frame.widened.add(name)
        return True

    def sugar_of(self, name: str) -> SugaredValue | None:
        """What a variable is that is no first-class value, None for others."""
        name = self.graph_name(name)
        for frame in self.chain():
            if name in frame.sugared or name in frame.types:
                return frame.sugared.get(name)
        return None

    def names(self) -> Iterator[str]:
        """Every variable that can be seen from here."""
        for frame in self.chain():
            yield from frame.types
            yield from frame.sugared

    def find(self, builder: Builder, name: str) -> SugaredValue | None:
        """The value of a variable; a first-class one is loaded at the insertion point."""
        name = self.graph_name(name)
        frame: Frame | None = self
        while frame is not None:
            if name in frame.sugared:
                return frame.sugared[name]
            if name in frame.types:
                return SimpleValue(self.load(builder, name, frame.types[name]))
            frame = frame.parent
        return None

    @staticmethod
    def load(builder: Builder, name: str, type: Type) -> Value:
        value = builder.graph.insert("prim::Load", (), (type,), {"name": name}).output
        return value.set_name(name) if is_meaningful_name(name) else value

    def store(self, builder: Builder, name: str, value: Value, type: Type, range: SourceRange | None) -> Node:
        made = builder.graph.insert("prim::Store", (value,), (), {"name": name}, range)
        self._drop_rooted_at(name)
        self.know(name, type)
        if range is not None:
            self.places[name] = range
        self.sugared.pop(name, None)
        return made

    def set(
        self, builder: Builder, name: str, value: SugaredValue, range: SourceRange, annotation: Type | None = None
    ) -> None:
        """Assign to a variable.

        Raises:
            CompileError: where the value does not have the type the variable has outside of this block, or the
                annotated type, or is no first-class value and the variable is set outside of this block.
        """
        simple = value.value if isinstance(value, SimpleValue) else None
        self.iterators[name] = None
        self._drop_rooted_at(name)
        name = self._own_name(name, simple)
        self._name(simple, name)
        if self.parent is not None and not self.starts_function and self.parent.is_defined(name):
            simple = self._reassign(builder, name, value, simple, range, annotation)
        if simple is None:
            self._drop_rooted_at(name)
            self.sugared[name] = value
            self.symbolic.add(name)
            self.types.pop(name, None)
            return
        if isinstance(simple.type, T.SetType) and is_empty_literal(simple):
            raise unknown_elements(range)
        if annotation is not None:
            _check_annotation(name, annotation, simple.type, range)
        self.store(builder, name, simple, annotation or simple.type, range)

    def _name(self, value: Value | None, name: str) -> None:
        """Let a value that was made in this block have the name of its first variable."""
        if value is not None and not value.has_name and is_meaningful_name(name) and value.node.block is self.block:
            value.set_name(name)

    def _reassign(
        self,
        builder: Builder,
        name: str,
        value: SugaredValue,
        simple: Value | None,
        range: SourceRange,
        annotation: Type | None,
    ) -> Value | None:
        assert self.parent is not None
        if annotation is not None:
            raise CHANGED_TYPE(
                f"Attempting to declare and annotate the type of variable '{name}' but it is already defined in an "
                "outer block",
                range,
                hint="annotate the first assignment",
            )
        outer = self.parent.type_of(name)
        if (simple is not None or value.is_symbolic) and self._is_function_in_branch(name):
            return simple  # `merge_branches` sees whether it is known afterwards which of the two the variable is
        if simple is None or outer is None:
            what = value.kind if simple is None else "a value"
            raise CHANGED_TYPE(
                f"Cannot re-assign '{name}' to {what} in a nested block: only first-class values can depend on "
                "control flow",
                range,
                hint="use another name",
            )
        outer = T.unshaped(outer)
        converted = builder.convert_for_variable(outer, simple, range)
        if T.is_subtype(converted.type, outer):
            return converted
        return self._widen(builder, name, simple, outer, range)

    def _widen(self, builder: Builder, name: str, value: Value, outer: Type, range: SourceRange) -> Value:
        """Give a variable what a condition around excludes: what it says ends here, and may not have held in a loop."""
        error = _keeps_its_type(name, outer, value.type, range)
        declared = self.declared_type(name)
        if declared is None or not T.is_subtype(outer, declared):
            raise error
        converted = builder.convert_for_variable(T.unshaped(declared), value, range)
        if not T.is_subtype(converted.type, declared):
            raise error
        self.too_narrow[name] = error
        if not self._is_followed(name, converted.type):
            raise error
        return converted

    def _is_function_in_branch(self, name: str) -> bool:
        """Is a variable a function that was set outside, and are there only branches between that place and here?"""
        for frame in self.chain():
            if name in frame.sugared or name in frame.types:
                return name in frame.sugared and frame.sugared[name].is_symbolic
            if frame.block.owner is None or frame.block.owner.kind != "prim::If":
                return False
        return False

    def remove(self, name: str) -> bool:
        """Forget a variable (`del x`); says whether there was one."""
        removed = False
        self._drop_rooted_at(name)
        for frame in self.chain():
            removed |= frame.types.pop(name, None) is not None
            frame.declared.pop(name, None)
            frame.possible.pop(name, None)
            removed |= frame.sugared.pop(name, None) is not None
        return removed


class LoopTypes:
    """The variables of which more is known at the start of a loop than their declarations say.

    A condition before a loop may say so:

        n: Optional[int] = first()
        if n is None: return
        while True:
            m = n + 1                # at the first time n is an int
            if m > 9:
                n = None
                break                # behind the loop n is an Optional[int] again
            n = second()             # and at the second time it would be here

    A body that comes back to its start with less is compiled anew, with the declared type from the start of the loop.
    """

    def __init__(self, outer: Frame, body: Frame) -> None:
        self._outer, self._body = outer, body
        self._left: set[str] = set()
        body.loop, body.is_followed = self, True

    def go_on(self, frame: Frame) -> None:
        """Check that the body may start again with what variables have here.

        Raises:
            CompileError: of the assignment that gives a variable more than is known of it at the start.
        """
        for name in self._wider(frame):
            raise frame.too_narrow[name]

    def leave(self, frame: Frame) -> None:
        """Note what variables have where a break leaves the loop."""
        self._left.update(self._wider(frame))

    def finish(self) -> None:
        """Behind the loop, let variables be of the types that its breaks leave in them."""
        for name in self._left:
            declared = self._outer.declared_type(name)
            assert declared is not None
            self._outer.know(self._outer.graph_name(name), declared)

    def _wider(self, frame: Frame) -> list[str]:
        return [name for name in self._body.widened if not self._is_within(frame, name)]

    def _is_within(self, frame: Frame, name: str) -> bool:
        found, entry = frame.type_of(name), self._outer.type_of(name)
        return found is None or entry is None or T.is_subtype(found, T.unshaped(entry))


def _check_annotation(name: str, annotation: Type, found: Type, range: SourceRange | None) -> None:
    if not T.is_subtype(found, annotation):
        raise WRONG_TYPE(
            f"Variable '{name}' is annotated with type {annotation.annotation} but is being assigned to a value of "
            f"type {found.annotation}",
            range,
            expected=annotation.annotation,
            found=found.annotation,
            notes=bodies_that_fail(found, annotation),
        )


def _keeps_its_type(name: str, outer: Type, given: Type, range: SourceRange) -> CompileError:
    """The error for a variable of an outer block that is given a value of another type."""
    if _is_module(outer) or _is_module(given):
        why = " because it is of type module" if _is_module(outer) else " to a value of type module"
        return CHANGED_TYPE(
            f"Cannot re-assign '{name}'{why}: in if and loop bodies a variable keeps its type",
            range,
            hint="use another name",
        )
    hint = "within if and loop bodies a variable keeps its type; use another name"
    if isinstance(outer, T.ListType) and isinstance(given, T.ListType):
        hint = "an empty list is a List[Tensor]; annotate it, e.g. `xs: List[int] = []`"
    return CHANGED_TYPE(
        f"Variable '{name}' previously had type {outer.annotation} but is now being assigned to a value of type "
        f"{given.annotation}",
        range,
        expected=outer.annotation,
        found=given.annotation,
        hint=hint,
    )
