"""Named variables become values: the steps between emission and a graph in SSA form.

The emitter writes and reads variables with nodes, whatever the control flow around them:

    prim::Store[name="x"](%v)
    %v : int = prim::Load[name="x"]()

`to_ssa` runs the steps in order; each leaves a graph that can be printed:

1. `add_control_flow_variables`: ifs, loops and tries get inputs and outputs for the variables their blocks set
2. `replace_loop_exits`: break and continue become `prim::LoopContinuation(condition, carried...)`
3. `inline_loop_conditions`: the condition block of a loop moves to where it is evaluated (`loops.py`)
4. `erase_variables`: every Load is replaced by the value stored last, and Loads and Stores go
5. `transform_exits`: return, break and continue go (`exits.py`)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from jitlite.base.errors.names import MAYBE_UNSET
from jitlite.base.errors.statements import BAD_SYNTAX
from jitlite.base.errors.types import CHANGED_TYPE
from jitlite.frontend.emit.closures import inline_local_calls
from jitlite.frontend.emit.exits import FINALLY, transform_exits
from jitlite.frontend.emit.loops import inline_loop_conditions, move_nodes_before
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.ir.traits import Trait
from jitlite.ir.types import Type

_V = TypeVar("_V")


def to_ssa(graph: Graph) -> None:
    """Replace variables by values and remove early exits, in a graph fresh from the emitter."""
    add_control_flow_variables(graph)
    replace_loop_exits(graph)
    inline_loop_conditions(graph)
    erase_variables(graph)
    transform_exits(graph)
    inline_local_calls(graph)


def _is_scope(node: Node) -> bool:
    """Does the block of the node set no variables of what is around it?"""
    return node.has(Trait.FUNCTION_SCOPE) or node.kind == "prim::ComprehensionScope"


def _is_exit(node: Node) -> bool:
    """Does the node leave the body of a loop, or go on with the next iteration?"""
    return node.kind in ("prim::BreakStmt", "prim::ContinueStmt")


def is_meaningful_name(name: str) -> bool:
    """May a value carry this variable's name? Not if it is the compiler's own (`$x`), `_` or `_` with a number."""
    if not name or name[0] == "$":
        return False
    return name[0] != "_" or not (name[1:] == "" or name[1:].isdecimal())


class _Scopes(Generic[_V]):
    """What each variable is, in nested scopes. One table and an undo log a scope: look-ups cost no search."""

    def __init__(self) -> None:
        self._current: dict[str, _V] = {}
        self._overwritten: list[dict[str, _V | None]] = []

    def push(self) -> None:
        self._overwritten.append({})

    def pop(self) -> dict[str, _V]:
        """Leave the scope; gives the variables it has set."""
        set_here: dict[str, _V] = {}
        for name, previous in self._overwritten.pop().items():
            set_here[name] = self._current.pop(name)
            if previous is not None:
                self._current[name] = previous
        return set_here

    def set(self, name: str, what: _V) -> None:
        self._overwritten[-1].setdefault(name, self._current.get(name))
        self._current[name] = what

    def get(self, name: str) -> _V | None:
        return self._current.get(name)

    def all(self) -> dict[str, _V]:
        """What all variables are here."""
        return dict(self._current)


# -- step 1
def add_control_flow_variables(graph: Graph) -> None:
    """Give ifs and loops block inputs, block outputs and outputs for the variables that their blocks set.

    At the edges Loads and Stores connect them with the variables:

        prim::If(%c)                            %x.2 : int = prim::If(%c)
          block0():                               block0():
            prim::Store[name="x"](%a)               prim::Store[name="x"](%a)
            -> ()                         =>        %1 : int = prim::Load[name="x"]()
          ...                                       -> (%1)
                                                  ...
                                                prim::Store[name="x"](%x.2)

    An if gives the variables that both branches have after it; a loop those that exist before it.
    """
    _ControlFlowVariables().visit(graph.block)


class _ControlFlowVariables:
    def __init__(self) -> None:
        self.types: _Scopes[Type] = _Scopes()
        self.at_exits: list[dict[str, list[dict[str, Type]]]] = []
        """For each loop around, the types of variables where a break or continue leaves its body."""

    def visit(self, block: Block) -> dict[str, Type]:
        """Treat the block and those in it; gives the variables it sets, with their last types."""
        self.types.push()
        for node in block.nodes:
            if node.kind == "prim::Store":
                self.types.set(node.attributes["name"], node.input.type)
            elif node.kind == "prim::Load":
                _narrow(node, self.types.get(node.attributes["name"]))
            elif node.kind in ("prim::If", "prim::Try"):
                self._visit_if(node)
            elif node.kind == "prim::Loop":
                self._visit_loop(node)
            elif _is_exit(node) and self.at_exits:
                self.at_exits[-1].setdefault(node.kind, []).append(self.types.all())
            elif _is_scope(node):
                for inner in node.blocks:
                    self.visit(inner)
        return self.types.pop()

    def _visit_if(self, node: Node) -> None:
        if node.kind == "prim::Try":
            self._keep_in_cells(node)
        then_block, else_block = node.blocks
        then_types, else_types = self.visit(then_block), self.visit(else_block)
        for name in sorted(then_types.keys() | else_types.keys()):
            then_type = then_types.get(name) or self.types.get(name)
            else_type = else_types.get(name) or self.types.get(name)
            if then_type is None or else_type is None:
                continue
            unified = T.unify(then_type, else_type, default_to_union=True)
            assert unified is not None
            _add_block_output(then_block, then_type, name)
            _add_block_output(else_block, else_type, name)
            _add_node_output(node, unified, name)

    def _keep_in_cells(self, node: Node) -> None:
        """Let every variable that the body of a try sets be a cell, from which the handler, or finally, reads it.

        The body may be left anywhere, so no value of it can be a block output then. In the body itself the variable
        stays a variable; what is stored in it goes to the cell too.
        """
        body = node.blocks[0]
        stores: dict[str, list[Node]] = {}
        for store in _stores(body):
            stores.setdefault(store.attributes["name"], []).append(store)
        for name in sorted(stores):
            outer_type = self.types.get(name)
            if outer_type is None:
                continue
            stored = [outer_type, *(store.input.type for store in stores[name])]
            unified = T.unify_all(map(T.unshaped, stored), default_to_union=True)
            assert unified is not None
            self._keep_in_cell(node, name, outer_type, unified, stores[name])

    def _keep_in_cell(self, node: Node, name: str, outer: Type, type: Type, stores: list[Node]) -> None:
        graph = node.graph
        with graph.inserting_before(node):
            before = graph.insert("prim::Load", (), (outer,), {"name": name}, node.range).output
            cell = graph.insert("prim::ListConstruct", (before,), (T.ListType.of(type),), None, node.range).output
        for store in stores:
            graph.create("prim::SetCell", (cell, store.input), range=store.range).insert_after(store)
        handler = node.blocks[1]
        place = node.next if FINALLY in node.attributes else next(handler.nodes, handler.return_node)
        assert place is not None
        with graph.inserting_before(place):
            found = graph.insert("prim::GetCell", (cell,), (type,), None, node.range).output
            graph.insert("prim::Store", (found,), (), {"name": name}, node.range)

    def _visit_loop(self, node: Node) -> None:
        condition, body = node.blocks
        self.visit(condition)  # an expression, which sets no variables but its own
        self.at_exits.append({})
        body_types, at_exits = self.visit(body), self.at_exits.pop()
        for name in sorted(body_types):
            outer_type = self.types.get(name)
            if outer_type is None:
                continue
            # The body may run never or many times: carry what suits the value from before and the one from the body.
            unified = T.unify(outer_type, body_types[name], default_to_union=True)
            if unified is None:
                raise CHANGED_TYPE(
                    f"variable '{name}' changes its type in the loop",
                    node.range,
                    expected=outer_type.annotation,
                    found=body_types[name].annotation,
                )
            # A continue or break may leave it with another value, which a condition says nothing of.
            at_start = _with_exits(unified, name, at_exits.get("prim::ContinueStmt", ()))
            carried = _with_exits(at_start, name, at_exits.get("prim::BreakStmt", ()))
            node.add_input(_load(node.graph, name, outer_type).insert_before(node).output)
            _add_block_input(body, carried, name, at_start)
            _add_block_output(body, body_types[name], name)
            _add_node_output(node, carried, name)


def _with_exits(type: Type, name: str, exits: Sequence[Mapping[str, Type]]) -> Type:
    """The type of a variable that has one type, or what it has at one of the exits."""
    found = T.unify_all([type, *(types[name] for types in exits if name in types)], default_to_union=True)
    assert found is not None
    return found


def _stores(block: Block) -> Iterator[Node]:
    """The Stores in the block that set variables of the function and give them another value."""
    for node in block.nodes:
        if node.kind == "prim::Store" and not _only_refines(node):
            yield node
        elif not _is_scope(node):
            for inner in node.blocks:
                yield from _stores(inner)


def _only_refines(store: Node) -> bool:
    """Does the Store say no more than that the variable's value is of a narrower type?"""
    cast = store.input.node
    if cast.kind != "prim::unchecked_cast":
        return False
    load = cast.input.node
    return load.kind == "prim::Load" and load.attributes["name"] == store.attributes["name"]


def _narrow(load: Node, known: Type | None) -> None:
    """Let a Load whose reader counts on a narrower type than the variable's have it.

    A branch that leaves the function says nothing of its variables to the reader, and yet hands on what they hold.
    """
    if known is None or not _is_narrower(T.unshaped(load.output.type), known):
        return
    cast = load.graph.create("prim::unchecked_cast", (load.output,), (load.output.type,), range=load.range)
    cast.insert_after(load)
    load.output.replace_uses_after(cast, cast.output)
    load.output.type = known


def _is_narrower(read: Type, known: Type) -> bool:
    may_be_several = isinstance(known, T.OptionalType | T.UnionType)
    return may_be_several and T.is_subtype(read, known) and not T.is_subtype(known, read)


def _load(graph: Graph, name: str, type: Type) -> Node:
    return graph.create("prim::Load", (), (type,), {"name": name})


def _store(graph: Graph, name: str, value: Value) -> Node:
    return graph.create("prim::Store", (value,), (), {"name": name})


def _add_block_input(block: Block, type: Type, name: str, known: Type) -> None:
    """Let the block have what is carried, of which a narrower type may be known where the block starts."""
    given = block.add_input(type, name)
    if known is type:
        block.prepend(_store(block.graph, name, given))
        return
    cast = block.graph.create("prim::unchecked_cast", (given,), (known,))
    block.prepend(_store(block.graph, name, cast.output))
    block.prepend(cast)


def _add_block_output(block: Block, type: Type, name: str) -> None:
    block.add_output(block.append(_load(block.graph, name, type)).output)


def _add_node_output(node: Node, type: Type, name: str) -> None:
    output = node.add_output(type)
    if is_meaningful_name(name):
        output.set_name(name)
    _store(node.graph, name, output).insert_after(node)


# -- step 2
def replace_loop_exits(graph: Graph) -> None:
    """Turn break and continue into `prim::LoopContinuation(condition, carried...)`: what the loop goes on with.

    A break goes on with a false condition. A continue evaluates the loop's condition, so a copy of the condition
    block is put in front of it.
    """
    _replace_exits_of_function(graph.block)


def _replace_exits_of_function(block: Block) -> None:
    with block.graph.inserting_before(next(block.nodes, block.return_node)):
        false = block.graph.insert_constant(False)
    _replace_exits(block, None, false)


def _replace_exits(block: Block, loop: Node | None, false: Value) -> None:
    for node in block.nodes:
        if node.kind in ("prim::If", "prim::Try", "prim::ComprehensionScope"):
            for inner in node.blocks:
                _replace_exits(inner, loop, false)
        elif node.kind == "prim::Loop":
            _replace_exits(node.blocks[0], None, false)
            _replace_exits(node.blocks[1], node, false)
        elif node.has(Trait.FUNCTION_SCOPE):
            _replace_exits_of_function(node.blocks[0])
        elif _is_exit(node):
            if loop is None:
                raise BAD_SYNTAX("break or continue outside a loop", node.range)
            _replace_exit(node, loop, false)


def _replace_exit(exit: Node, loop: Node, false: Value) -> None:
    graph = exit.graph
    condition_block, body = loop.blocks
    continuation = graph.create("prim::LoopContinuation", range=exit.range).insert_after(exit)
    if exit.kind == "prim::BreakStmt":
        continuation.add_input(false)
    else:
        copied = continuation.add_block()
        copied.clone_from(condition_block, {})
        move_nodes_before(copied, exit)
        continuation.add_input(copied.outputs[0])
        continuation.erase_block(0)
    for carried in body.outputs:
        load = _load(graph, carried.node.attributes["name"], carried.type)
        continuation.add_input(load.insert_before(continuation).output)
    exit.destroy()


# -- step 4
def erase_variables(graph: Graph) -> None:
    """Replace what each Load reads by the value stored last; remove Loads, Stores and the scopes of comprehensions.

    Raises:
        CompileError: where a variable is read that nothing has set.
    """
    _erase_variables(graph.block, _Scopes())


def _erase_variables(block: Block, values: _Scopes[Value]) -> Mapping[str, Value]:
    values.push()
    for node in block.nodes:
        if node.kind == "prim::Store":
            values.set(node.attributes["name"], node.input)
            node.destroy()
        elif node.kind == "prim::Load":
            name = node.attributes["name"]
            value = values.get(name)
            if value is None:
                raise MAYBE_UNSET(f"variable '{name}' is read before it is set", node.range)
            node.output.replace_all_uses_with(value)
            node.destroy()
        else:
            for inner in node.blocks:
                _erase_variables(inner, values)
            if node.kind == "prim::ComprehensionScope":
                move_nodes_before(node.blocks[0], node)
                node.destroy()
    return values.pop()
