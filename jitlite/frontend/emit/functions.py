"""A whole function: from its tree to a graph in SSA form, step by step."""

from __future__ import annotations

from collections.abc import Callable

# the modules that register how each kind of tree is emitted
from jitlite.frontend.emit import (
    assignment,
    calls,
    conditional_expressions,
    constant_containers,
    dataclass_calls,
    displays,
    exceptions,
    expressions,
    in_place_calls,
    indexing,
    item_getters,
    lazy_iterables,
    library_calls,
    match_statements,
    messages,
    names_outside,
    next_calls,
    numeric_limits,
    partials,
    set_calls,
    statements,
    tensor_methods,
)
from jitlite.frontend.emit.annotations import parse_type
from jitlite.frontend.emit.closures import inline_forked_closures, inline_local_calls, lift_closures
from jitlite.frontend.emit.definition import Definition, FunctionCompiler
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.exits import transform_exits
from jitlite.frontend.emit.learned_types import LearnedTypes, with_learned_types
from jitlite.frontend.emit.loops import inline_loop_conditions
from jitlite.frontend.emit.normalize import annotate_warns, normalize_ops
from jitlite.frontend.emit.parameters import declared_arguments
from jitlite.frontend.emit.shown_sequences import show_sequences
from jitlite.frontend.emit.ssa import add_control_flow_variables, erase_variables, replace_loop_exits
from jitlite.frontend.emit.unset import check_reads
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.graph import Graph
from jitlite.ir.loop_forms import canonicalize_modified_loops
from jitlite.ir.schema import Schema, function_schema
from jitlite.ir.types import Type

REGISTERED = (
    assignment,
    calls,
    conditional_expressions,
    constant_containers,
    dataclass_calls,
    displays,
    exceptions,
    expressions,
    in_place_calls,
    indexing,
    item_getters,
    lazy_iterables,
    library_calls,
    match_statements,
    messages,
    names_outside,
    next_calls,
    numeric_limits,
    partials,
    set_calls,
    statements,
    tensor_methods,
)

Step = Callable[[Graph], object]

SSA_STEPS: tuple[tuple[str, Step], ...] = (
    ("variables", add_control_flow_variables),
    ("loop exits", replace_loop_exits),
    ("loop conditions", inline_loop_conditions),
    ("ssa", erase_variables),
    ("exits", transform_exits),
    ("local calls", inline_local_calls),
)
"""From named variables to values; what `ssa.to_ssa` runs."""

NORMAL_FORM_STEPS: tuple[tuple[str, Step], ...] = (
    ("loops", canonicalize_modified_loops),
    ("normalize", normalize_ops),
    ("shown sequences", show_sequences),
    ("closures", lift_closures),
    ("forks", inline_forked_closures),
)
"""From SSA to the form that passes expect."""

FINAL_STEPS: tuple[tuple[str, Step], ...] = (("warnings", annotate_warns),)
"""After cleanup."""


def declared_schema(definition: Definition) -> Schema:
    """The schema as the annotations give it; without a return annotation the result is None until it is known."""
    source = definition.signature or definition.tree
    arguments = declared_arguments(source, definition)
    result: Type = T.NONE
    if source.decl.return_type is not None:
        resolver = definition.resolver
        result = parse_type(source.decl.return_type, resolver.resolve_type, class_types=resolver.class_types)
    return function_schema(definition.name, arguments, [result])


def emit(
    program: FunctionCompiler, definition: Definition, schema: Schema, *, marks_statements: bool = False
) -> tuple[Graph, Schema]:
    """The graph with variables and early exits, and the schema with the result type that was found.

    With `marks_statements`, a `prim::Line` stands where a statement begins.
    """
    return with_learned_types(
        definition.tree, lambda learned: _emitted(program, definition, schema, learned, marks_statements)
    )


def _emitted(
    program: FunctionCompiler,
    definition: Definition,
    schema: Schema,
    learned: LearnedTypes | None,
    marks_statements: bool,
) -> tuple[Graph, Schema]:
    graph = Graph()
    emitter = Emitter(program, definition, graph)
    emitter.marks_statements = marks_statements
    emitter.learned = learned
    source = definition.tree
    if definition.signature is not None:
        source = tree.replaced(source, decl=definition.signature.decl)
    found = emitter.emit_function(source, schema)
    check_reads(emitter)
    return graph, found
