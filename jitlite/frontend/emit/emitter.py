"""Tree views -> Graph: the emitter.

One `Emitter` compiles one function. This module holds its state and the entry points; the work is done by subject:
`statements.py`, `conditions.py`, `expressions.py`, `displays.py` (list, dict, comprehension), `indexing.py`,
`calls.py` (special forms). Each registers functions `(emitter, tree) -> ...` by tree class.

The emitted graph still has variables (`prim::Load`, `prim::Store`), early exits (`prim::ReturnStmt` ...) and loops with
a condition block; `ssa.py`, `exits.py` and `loops.py` remove those.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from jitlite.base.changed import Changed
from jitlite.base.errors.calls import DICT_AS_KEYWORDS
from jitlite.base.errors.names import MAYBE_UNSET, UNKNOWN_NAME
from jitlite.base.errors.types import MISSING_RETURN, RETURN_TYPES
from jitlite.base.source import CompileError, SourceRange, did_you_mean
from jitlite.frontend.emit.annotations import parse_type
from jitlite.frontend.emit.attribute_refinement import (
    follow_effect,
    is_changeable,
    is_item,
    may_assign,
    runs_methods,
    shown_path,
    writes_items,
)
from jitlite.frontend.emit.builder import StatementLeaves
from jitlite.frontend.emit.definition import Definition, FunctionCompiler
from jitlite.frontend.emit.denotations import BUILTINS, sugared_from_python
from jitlite.frontend.emit.empty_literals import settle
from jitlite.frontend.emit.interfaces import SeenTypes
from jitlite.frontend.emit.known_values import LazyIterable
from jitlite.frontend.emit.learned_types import LearningBuilder
from jitlite.frontend.emit.loop_carried import read_in_loop
from jitlite.frontend.emit.open_types import is_tuple_of_any_length
from jitlite.frontend.emit.plain_methods import method_of_plain_value
from jitlite.frontend.emit.possibly_set import UnsetVariables, read_possible
from jitlite.frontend.emit.return_types import ReturnTypes, hint_for_result
from jitlite.frontend.emit.scope import Frame, Path, Refinements, RefinementSet
from jitlite.frontend.emit.sequences import ListAsTuple, SequencePart, spread_list
from jitlite.frontend.emit.sets import listed, method_of_set
from jitlite.frontend.emit.shown_values import Reading, as_argument
from jitlite.frontend.emit.ssa import is_meaningful_name
from jitlite.frontend.emit.statement_marks import mark_statement
from jitlite.frontend.emit.value_members import member_of_value
from jitlite.frontend.emit.values import ConstantValue, SimpleValue, SugaredValue
from jitlite.frontend.emit.ways_out import NOT_THERE, way_to_one_type
from jitlite.frontend.syntax import tree
from jitlite.frontend.syntax.nested_scopes import (
    OUTSIDE,
    bound_names,
    display_name,
    has_nested_functions,
    why_unset,
    with_own_names,
)
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.ir.ops import Op
from jitlite.ir.schema import Schema, function_schema
from jitlite.ir.types import Type
from jitlite.operators.overloads import NamedValue

_F = TypeVar("_F", bound=Callable[..., Any])
_statements: dict[type, Callable[[Emitter, Any], None]] = {}
_expressions: dict[type, Callable[[Emitter, Any, Type | None], SugaredValue | Value]] = {}


def statement(kind: type) -> Callable[[_F], _F]:
    """Register the function that emits statements of class `kind`."""

    def register(fn: _F) -> _F:
        _statements[kind] = fn
        return fn

    return register


def expression(*kinds: type) -> Callable[[_F], _F]:
    """Register the function `(emitter, tree, hint)` that emits expressions of these classes."""

    def register(fn: _F) -> _F:
        for kind in kinds:
            _expressions[kind] = fn
        return fn

    return register


class Emitter(LearningBuilder):
    """Compiles one function into a graph with variables."""

    def __init__(self, program: FunctionCompiler, definition: Definition, graph: Graph) -> None:
        super().__init__(graph)
        self.program = program
        self.definition = definition
        self.body = definition.tree
        """The function; where it has nested functions, the variables of its comprehensions have names of their own."""
        self.own_names: set[str] = set()
        """What it assigns, which is its own everywhere in it, whatever the name means around it."""
        self.resolver = definition.resolver
        self.frame = Frame(graph.block, None, starts_function=True)
        self.frame.sugared.update(definition.variables)
        self.frame.symbolic.update(definition.variables)
        self.leaving: set[Block] = set()
        """Blocks that end in return or raise."""
        self.jumping: set[Block] = set()  # that end in break or continue
        self.statement_block = graph.block  # in which the current statement stands
        self.is_excluded = False  # is this a branch that a module does not take as it is now?
        self.loop = "none"
        """The innermost loop: `none`, `loop`, `unrolled`; `finally` in a finally that a jump would leave."""
        self.on_break: Callable[[], None] | None = None
        """What a break of the innermost loop does first."""
        self.on_yield: Callable[[tree.Expr], None] | None = None
        """What a `yield` does, where the `__iter__` of an object is being emitted for a loop; see `generators`."""
        self.leave_try: Callable[[str], None] | None = None
        """How to get to the innermost `finally` from where a `break` or `continue` leaves it; None if none does."""
        self.handled: list[Value] = []
        """The exceptions whose handlers are being compiled, outermost first."""
        self.returns: list[ReturnTypes] = []
        self.effects: list[Node] = []  # just emitted, may assign attributes; see `facts`
        self.outdated: dict[Path, Type] = {}  # what the statement has read that was known better; see `refined`
        self.active: list[Any] = []
        """The nested functions whose calls are being emitted, outermost first."""
        self.separate: dict[Any, Any] = {}  # functions made of recursive nested ones, by what their calls share
        self.unset = UnsetVariables()
        self.settled: dict[Value, RefinementSet] = {}  # what bools say of variables that `:=` sets
        self.seen_types = SeenTypes()
        self.marks_statements = False  # is it for a debugger?
        self._temporaries = 0

    def unannotated(self, value: Value) -> str | None:
        name = value.node.attributes.get("name") if value.node.kind == "prim::Load" else None
        for param in (self.definition.signature or self.definition.tree).decl.params:
            if param.ident.name == name and param.type is None and value.type is T.TENSOR:
                return display_name(name)
        return None

    # -- statements
    def emit_statements(self, statements: Sequence[tree.Stmt]) -> None:
        """Emit statements up to the first that leaves the block; what follows it can never run."""
        with Changed(self, "is_excluded", self.is_excluded):
            self._emit_statements(statements)

    def _emit_statements(self, statements: Sequence[tree.Stmt]) -> None:
        for stmt in statements:
            with self.at(stmt.range):
                self.outdated = {}
                self.statement_block = self.frame.block
                if self.marks_statements:
                    mark_statement(self.graph, stmt)
                try:
                    _statements[type(stmt)](self, stmt)
                except StatementLeaves:
                    self.leaving.add(self.frame.block)
                except CompileError as error:
                    self._explain_outdated(error)
                    raise
            if self.frame.block in self.leaving or self.frame.block in self.jumping:
                return

    # -- expressions
    def emit_sugared(self, expr: tree.Expr, hint: Type | None = None) -> SugaredValue:
        """Whatever the expression denotes. `hint` is the type it is expected to have; it may be ignored."""
        graph = self.graph
        before, graph.current_range = graph.current_range, expr.range
        try:  # what `self.at` does: every expression comes here
            result = _expressions[type(expr)](self, expr, hint)
        finally:
            graph.current_range = before
        found = result if isinstance(result, SugaredValue) else SimpleValue(result)
        if isinstance(found, SimpleValue):
            self.seen_types.note(found.value.type)
        return found

    def emit(self, expr: tree.Expr, hint: Type | None = None) -> Value:
        """The value of an expression."""
        value = self.emit_sugared(expr, hint).as_value(self, expr.range)
        if hint is T.ANY and value.type is not T.ANY:
            value = self.cast(value, T.ANY)
        self.seen_types.note(value.type)
        return value

    def emit_arguments(self, exprs: Sequence[tree.Expr], functions: bool = False) -> list[NamedValue]:
        """Values of call arguments, starred ones spread.

        Args:
            functions: those that are functions stay what they are, as constants of their `NamedValue`s.
        """
        values: list[NamedValue] = []
        for expr in exprs:
            if isinstance(expr, tree.KeywordStarred):
                raise DICT_AS_KEYWORDS("keyword-arg expansion is not supported here", expr.range)
            if isinstance(expr, tree.Starred):
                parts = self.emit_sugared(expr.value).as_tuple(self, expr.range)
                values += [self.argument(None, p, expr.range, functions) for p in parts]
            elif functions:
                values.append(self.argument(None, self.emit_sugared(expr), expr.range, True))
            else:
                values.append(NamedValue(None, self.emit(expr), range=expr.range))
        return values

    def emit_parts(self, exprs: Sequence[tree.Expr], reading: Reading = as_argument) -> list[SequencePart]:
        """Values of arguments or elements; of a list that is spread, the list.

        Args:
            reading: how each is read.
        """
        parts: list[SequencePart] = []
        for expr in exprs:
            if not isinstance(expr, tree.Starred):
                found = self.emit_sugared(expr)
                value = reading(found, self, expr.range)
                parts.append(SequencePart(value, False, expr.range))
                continue
            found = listed(self, self.emit_sugared(expr.value), expr.range)
            is_lazy = isinstance(found, LazyIterable) and found.static_length is None
            whole = found.as_argument(self, expr.range) if is_lazy else spread_list(found)
            if whole is not None:
                parts.append(SequencePart(whole, True, expr.range))
            else:
                spread = found.as_tuple(self, expr.range)
                parts += [SequencePart(p.as_value(self, expr.range), False, expr.range) for p in spread]
        return parts

    def emit_keywords(self, keywords: Sequence[tree.KeywordArgument], functions: bool = False) -> list[NamedValue]:
        if functions:
            return [self.argument(k.name.name, self.emit_sugared(k.value), k.value.range, True) for k in keywords]
        return [NamedValue(k.name.name, self.emit(k.value), range=k.value.range) for k in keywords]

    def argument(self, name: str | None, found: SugaredValue, range: SourceRange, functions: bool) -> NamedValue:
        """What an expression denotes as an argument of a call."""
        if functions and found.is_symbolic:
            return NamedValue(name, None, found, range)
        value = found.as_value(self, range)
        self.seen_types.note(value.type)
        return NamedValue(name, value, range=range)

    def member(self, value: Value, name: str, range: SourceRange) -> SugaredValue | None:
        self.learn_method(value, name)
        found = method_of_set(value, name, range) or member_of_value(self, self, range, value, name)
        return found or method_of_plain_value(self, value, name)

    # -- names
    def lookup(self, name: str, range: SourceRange) -> SugaredValue:
        """What a name denotes: a variable, a builtin of the language, or something of the Python scope.

        Raises:
            CompileError: where it is nothing.
        """
        if name.startswith(OUTSIDE):
            name = name.removeprefix(OUTSIDE)
            return BUILTINS.get(name) or self._from_outside(name, range)
        found = self.frame.find(self, name) or read_possible(self, self.frame, self.unset.read, name)
        found = found or BUILTINS.get(name) or read_in_loop(self, self.frame, self.body, self.unset.read, name)
        if found is not None:
            return found
        if name in self.frame.reasons:
            raise MAYBE_UNSET(self.frame.reasons[name], range, hint=way_to_one_type(name, self.frame.reasons[name]))
        if name in self.own_names:
            raise self._unset_error(name, range)
        return self._from_outside(name, range)

    def _from_outside(self, name: str, range: SourceRange) -> SugaredValue:
        """What a name of the Python scope denotes."""
        try:
            python_object = self.resolver.lookup(name)
        except LookupError:
            candidates = [*map(display_name, self.frame.names()), *BUILTINS, *dir(builtins), *self.resolver.names()]
            shown = display_name(name)
            hint = self._hint_of_self(shown) or did_you_mean(shown, candidates) or NOT_THERE
            raise UNKNOWN_NAME(f"undefined value {shown}", range, hint=hint) from None
        return sugared_from_python(self, python_object, name, range)

    def _hint_of_self(self, name: str) -> str | None:
        """A way out where `self` is meant to have what this name stands for."""
        this = self.frame.find(self, "self")
        type = this.value.type if isinstance(this, SimpleValue) else None
        if not isinstance(type, T.ClassType):
            return None
        is_member = name in type.attributes or callable(getattr(type.python_class, name, None))
        return f"write self.{name}" if is_member else None

    def _unset_error(self, name: str, range: SourceRange) -> CompileError:
        where, hint = why_unset(self.body, name)
        return MAYBE_UNSET(f"undefined value {display_name(name)}{where}", range, hint=hint)

    @contextmanager
    def within(self, definition: Definition) -> Iterator[None]:
        """Within the `with`, names mean what they mean in the body of another function."""
        saved = self.definition, self.resolver
        self.definition, self.resolver = definition, definition.resolver
        try:
            yield
        finally:
            self.definition, self.resolver = saved

    def temporary(self, prefix: str) -> str:
        """A variable name of our own, which no program can spell."""
        self._temporaries += 1
        return f"${prefix}{self._temporaries}"

    def put_aside(self, name: str, temporary: str, type: Type) -> None:
        """Let a temporary have what a variable holds, which need not be set."""
        value = self.frame.load(self, name, type)
        self.unset.moves |= {value.node, self.graph.insert("prim::Store", (value,), (), {"name": temporary})}

    def take_back(self, temporary: str, name: str, type: Type, range: SourceRange) -> None:
        """Let a variable have again what was put aside."""
        value = self.frame.load(self, temporary, type)
        self.unset.moves |= {value.node, self.frame.store(self, name, value, type, range)}

    def assign(self, name: str, value: SugaredValue, range: SourceRange, annotation: Type | None = None) -> None:
        if isinstance(value, ConstantValue) or value.is_made_anew:
            value = SimpleValue(value.as_value(self, range))
        _ = self.facts
        annotation = annotation or self.frame.declaration_of(name) or self.declared_by_use(self.frame, name, range)
        if isinstance(value, SimpleValue):
            value = self.as_learned(value, annotation, range)
            self.seen_types.note(value.value.type)
        if annotation is not None:
            self.seen_types.note(annotation)
        try:
            self.frame.set(self, name, value, range, annotation)
        except CompileError:
            if isinstance(value, SimpleValue):
                self.learn_variable(name, value.value.type)
            raise

    def parse_type(self, expr: tree.Expr) -> Type:
        """The type that an annotation denotes."""
        found = parse_type(expr, self._denoted_in_type, class_types=self.resolver.class_types)
        self.seen_types.note(found)
        return found

    def _denoted_in_type(self, name: str) -> object:
        return self.resolver.resolve_type(name.removeprefix(OUTSIDE))

    # -- facts about attributes
    def node(self, kind: str, inputs: Iterable[Value], types: Iterable[Type], range: SourceRange | None = None) -> Node:
        node = super().node(kind, inputs, types, range)
        if may_assign(kind):
            self.effects.append(node)
        self._follow_operator(kind, (v.type for v in node.inputs))
        return node

    def op(
        self,
        name: str,
        args: Sequence[Value | NamedValue],
        kwargs: Sequence[NamedValue] = (),
        range: SourceRange | None = None,
        self_value: NamedValue | None = None,
        candidates: Sequence[Op] | None = None,
    ) -> Value:
        result = super().op(name, args, kwargs, range, self_value, candidates)
        given = [*args, *kwargs] if self_value is None else [self_value, *args, *kwargs]
        self._follow_operator(name, (v.type for v in given))
        return result

    def _follow_operator(self, name: str, types: Iterable[Type]) -> None:
        if runs_methods(name, types) and self.facts:
            self.frame.drop(is_changeable)
        elif self.frame.facts and writes_items(name):
            self.frame.drop(is_item)

    def _explain_outdated(self, error: CompileError) -> None:
        """Where an error is about a type that was refined before, say why it no longer is; it has a place at least."""
        error.range, outdated, self.outdated = error.range or self.graph.current_range, self.outdated, {}
        if error.called_from:  # an error in a function that is called
            return
        for path, t in outdated.items():
            if t.annotation in (error.found or error.message):
                shown, name = shown_path(path)
                error.hint = (
                    f"what was found out about '{shown}' need not hold here any more, for something since then may "
                    f"have assigned it: put it into a variable before the test, `{name} = {shown}`"
                )

    @property
    def facts(self) -> Refinements:
        """What is known here about attributes and elements of tuples, after all that has been emitted."""
        if self.effects:
            effects, self.effects = self.effects, []
            for node in effects:
                follow_effect(self.frame, node)
        return self.frame.facts

    # -- frames
    @contextmanager
    def inside(self, block: Block, starts_function: bool = False) -> Iterator[Frame]:
        """Within the `with`, nodes go to the end of `block` and assignments to a frame of its own."""
        outer, _ = self.frame, self.facts
        self.frame = frame = Frame(block, outer, starts_function)
        try:
            with self.graph.inserting_at_end(block):
                yield frame
                _ = self.facts
        finally:
            frame.leave()
            self.frame = outer

    @contextmanager
    def in_loop(self, kind: str, on_break: Callable[[], None] | None = None) -> Iterator[None]:
        saved = self.loop, self.on_break, self.leave_try
        self.loop, self.on_break, self.leave_try = kind, on_break, None
        try:
            yield
        finally:
            self.loop, self.on_break, self.leave_try = saved

    @contextmanager
    def in_try(self, leave: Callable[[str], None]) -> Iterator[None]:
        """Within the `with`, breaks and continues of the loop around go by way of a finally."""
        saved, self.leave_try = self.leave_try, leave
        try:
            yield
        finally:
            self.leave_try = saved

    # -- functions
    def emit_function(self, definition: tree.Def, schema: Schema) -> Schema:
        """Emit a whole function; gives its schema with the return type that was found."""
        if has_nested_functions(definition):
            definition = with_own_names(definition)
        self.body, self.own_names = definition, bound_names(definition)
        declared = schema.returns[0].type if definition.decl.return_type is not None else None
        self.returns.append(ReturnTypes(declared))
        for param, argument in zip(definition.decl.params, schema.arguments, strict=True):
            value = self.graph.add_input(argument.type)
            if is_meaningful_name(argument.name):
                value.set_name(argument.name)
            self.assign(argument.name, self._parameter(param, value), param.ident.range)
        self.emit_statements(definition.body)
        result = self.finish(definition)
        self.graph.add_output(self.uninitialized(result))
        settle(self.graph, self.empty_literals)
        return function_schema(schema.name, schema.arguments, [result])

    def _parameter(self, param: tree.Param, value: Value) -> SugaredValue:
        """What a parameter denotes: a tuple of any length is a list in the graph."""
        is_tuple = isinstance(value.type, T.ListType) and is_tuple_of_any_length(param.type, self.resolver)
        if not is_tuple:
            return SimpleValue(value)
        return ListAsTuple(self.op("aten::list", [value], range=param.ident.range))

    def finish(self, definition: tree.Def) -> Type:
        """Return None at the end if control gets there; gives the function's return type."""
        types = self.returns[-1]
        if self.frame.block not in self.leaving:
            if types.declared is not None and not T.may_be_none(types.declared):
                raise MISSING_RETURN(
                    f"Function was annotated as returning {types.declared.annotation}, but does not return along all "
                    "paths",
                    definition.body[-1].range if definition.body else definition.range,
                    expected=f"a return of type {types.declared.annotation}",
                    found="the end of the function",
                    hint="return or raise at the end",
                )
            self.emit_return(self.constant(None, definition.range), definition.range)
        elif types.merged is None:
            types.merged = types.declared or T.NONE
        assert types.merged is not None
        self.returns.pop()
        return types.merged

    def emit_return(self, value: Value, range: SourceRange) -> None:
        """Leave the function with `value`, after checking it against the declared or earlier return types."""
        types = self.returns[-1]
        if types.declared is not None:
            result = types.declared
            value = self.expect(
                result, value, range,
                f"Return value was annotated as having type {result.annotation} but is actually of type "
                f"{value.type.annotation}",
                hint=hint_for_result(result, value.type),
            )  # fmt: skip
        else:
            merged = value.type if types.merged is None else T.unify(types.merged, value.type)
            if merged is None:
                assert types.merged is not None
                self.learn_result(value)
                raise RETURN_TYPES(
                    f"Previous return statement returned a value of type {types.merged.annotation} but this return "
                    f"statement returns a value of type {value.type.annotation}",
                    range,
                    hint=f"annotate the result: `-> Union[{types.merged.annotation}, {value.type.annotation}]`",
                )
            result = merged
        types.merged = result
        if result is T.ANY and value.type is not T.ANY:
            value = self.cast(value, T.ANY)
        self.node("prim::ReturnStmt", [value], [], range)
        self.leaving.add(self.frame.block)
