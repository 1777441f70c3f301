"""A function's graph on its way out: calls inlined, attributes resolved, what is known decided.

What leaves is one graph without calls. Attributes of the module that nothing assigns become constants if they are
numbers, texts and the like, so that branches on them are decided; loops of few rounds are unrolled; what is put into
and read from lists and dicts within the graph is followed; forks are run where they are waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from jitlite.base.errors.ways_out import NOT_AS_FX
from jitlite.base.source import SourceRange
from jitlite.ir import types as T
from jitlite.ir.constants import type_of_constant
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of
from jitlite.ir.int_codes import INT_OBJECTS
from jitlite.ir.structure import Loop
from jitlite.ir.unit import Function, called_function, insert_call
from jitlite.ir.values import class_type_of
from jitlite.passes.inline import inline_call
from jitlite.passes.loop_copies import insert_copy, is_counted, replace_by, size_of
from jitlite.passes.registry import run

MOST_ROUNDS = 63
"""Loops of a constant number of rounds up to this are unrolled."""

LARGEST_RESULT = 2_000
"""Nodes that one loop may become."""

_ROUND = ("lower_simple_tuples", "constant_propagation", "peephole", "cse", "dce")

IsKept = Callable[[str, torch.nn.Module], bool]
"""Is a call of the submodule of this name to stay a call?"""

Hooks = tuple[Sequence[Function], Sequence[Function]]
"""What a call of a module runs before and behind its method."""


class Prepared:
    """A graph that is ready to leave.

    Attributes:
        graph: a copy, changed as the module's documentation says.
        owner: the module whose method it is; its first input then.
        assigned: what the graph assigns, as object and name.
    """

    def __init__(self, function: Function, owner: object, is_kept: IsKept, hooks: Hooks = ((), ())) -> None:
        self.graph = function.graph.copy()
        self.owner = owner
        self._is_kept = is_kept
        add_hooks(self.graph, *hooks)
        self._inline_calls(function)
        self.assigned = set(self._assigned())
        self._put_attributes()
        run(self.graph, ("inline_fork_wait", "int_codes_to_objects", *_ROUND))
        for _ in range(4):
            changed = flatten_raises(self.graph.block)
            changed = run(self.graph, ("simulate_containers", "load_elimination")) or changed
            changed = _unroll(self.graph.block) or changed
            if not (run(self.graph, _ROUND) or changed):
                break
        run(self.graph, ("constant_pooling", "dce"))

    # -- modules
    def path_of(self, value: Value) -> tuple[str, ...] | None:
        """The names that lead from the module to a value, if they do."""
        names: list[str] = []
        while value.node.kind == "prim::GetAttr":
            names.insert(0, value.node.attributes["name"])
            value = value.node.inputs[0]
        is_root = self.owner is not None and value is self.graph.inputs[0]
        return tuple(names) if is_root else None

    def object_of(self, value: Value) -> Any:
        """The module, or part of it, that a value is; None where it is not known."""
        path = self.path_of(value)
        found = self.owner if path is not None else None
        for name in path or ():
            if not isinstance(found, torch.nn.Module) or (id(found), name) in getattr(self, "assigned", ()):
                return None
            found = attribute(found, name)
        return found

    def module_of(self, value: Value) -> torch.nn.Module | None:
        """The module that a value is."""
        if not isinstance(value.type, (T.ClassType, T.InterfaceType)):
            return None
        found = self.object_of(value)
        return found if isinstance(found, torch.nn.Module) else None

    # -- calls
    def _inline_calls(self, function: Function) -> None:
        pending: list[tuple[Node, tuple[Function, ...]]] = [(n, (function,)) for n in _calls(self.graph)]
        while pending:
            node, callers = pending.pop()
            callee = self.callee(node)
            if callee is None or self.is_call_of_kept(node):
                continue
            if callee in callers:
                raise NOT_AS_FX(
                    f"'{callee.name}' calls itself, and FX graphs have no functions to call",
                    node.range,
                    hint="write it as a loop, or keep the call: leave it to jitlite and export what is around it",
                )
            made = inline_call(self.graph, node, callee)
            pending += [(n, (*callers, callee)) for n in made if n.kind in ("prim::CallFunction", "prim::CallMethod")]
        for node in self.graph.all_nodes():
            if isinstance(node.attributes.get("Subgraph"), Graph):
                run(node.attributes["Subgraph"], "inline")

    def callee(self, node: Node) -> Function | None:
        """The compiled function that a node calls."""
        if node.kind == "prim::CallMethod":
            module = self.module_of(node.inputs[0])
            found = class_type_of(module) if module is not None else None
            if found is not None:
                method = found.methods.get(node.attributes["name"])
                return method if isinstance(method, Function) else None
        return called_function(node)

    def is_call_of_kept(self, node: Node) -> bool:
        """Is it a call of a submodule that is to stay one?"""
        if node.kind != "prim::CallMethod" or node.attributes["name"] != "forward":
            return False
        module = self.module_of(node.inputs[0])
        path = self.path_of(node.inputs[0])
        return module is not None and bool(path) and self._is_kept(".".join(path or ()), module)

    # -- attributes
    def _assigned(self) -> Iterator[tuple[int, str]]:
        for node in self.graph.all_nodes():
            if node.kind == "prim::SetAttr":
                module = self.module_of(node.inputs[0])
                if module is not None:
                    yield id(module), node.attributes["name"]

    def _put_attributes(self) -> None:
        """Put constants in place of attributes that have no parts and are not assigned."""
        for node in list(self.graph.all_nodes()):
            if node.kind != "prim::GetAttr":
                continue
            owner = self.module_of(node.inputs[0])
            if owner is None or (id(owner), node.attributes["name"]) in self.assigned:
                continue
            value = attribute(owner, node.attributes["name"])
            if is_plain(value) and (value is None or type_of_constant(value) is not None):
                with self.graph.inserting_before(node):
                    kind = T.NONE if value is None else node.output.type
                    kind = type_of_constant(value) or kind
                    made = self.graph.insert_constant(value, kind, node.range)
                node.output.replace_all_uses_with(made)
                node.destroy()


def attribute(owner: torch.nn.Module, name: str) -> Any:
    """An attribute of a module, a constant of its class too."""
    found = getattr(owner, name, _NOTHING)
    if found is not _NOTHING:
        return found
    known = class_type_of(owner)
    return known.constants.get(name) if known is not None else None


_NOTHING = object()


def is_plain(value: object) -> bool:
    """Is it a value without identity: a number, a text, None, a dtype, a device, or a tuple of such?"""
    if type(value) is tuple:
        return all(map(is_plain, value))
    return value is None or isinstance(value, (bool, int, float, complex, str, torch.device, *INT_OBJECTS))


def _calls(graph: Graph) -> list[Node]:
    return [n for n in graph.all_nodes() if n.kind in ("prim::CallFunction", "prim::CallMethod")]


# -- hooks


def _use_elements(graph: Graph, inputs: Sequence[Value], given: Value, range: SourceRange | None) -> None:
    """Use the elements of a tuple for the inputs from now on."""
    replaced = graph.insert("prim::TupleUnpack", (given,), [v.type for v in inputs], None, range)
    for value, new in zip(inputs, replaced.outputs, strict=True):
        value.replace_uses_after(replaced, new)


def add_hooks(graph: Graph, before: Sequence[Function], behind: Sequence[Function]) -> None:
    """Call hooks around the body of a method, as a call of its module does. They see the arguments as a tuple."""
    if not before and not behind:
        return
    expected = (*before, *behind)[0].schema.arguments[1].type
    inputs = graph.inputs[1 : 1 + len(expected.contained)]
    first = next(iter(graph.nodes), graph.block.return_node)
    with graph.inserting_before(first):
        given = _as_tuple(graph, inputs)
        for hook in before:
            result = insert_call(graph, hook, (graph.inputs[0], given), hook.range)
            if result.type is not T.NONE:
                given = result if isinstance(result.type, T.TupleType) else _as_tuple(graph, (result,))
        if before:
            _use_elements(graph, inputs, given, before[0].range)
    with graph.inserting_before(graph.block.return_node):
        for hook in behind:
            result = insert_call(graph, hook, (graph.inputs[0], given, graph.outputs[0]), hook.range)
            if result.type is not T.NONE:
                graph.block.replace_output(0, result)


def _as_tuple(graph: Graph, values: Sequence[Value]) -> Value:
    return graph.insert("prim::TupleConstruct", values, (T.TupleType.of([v.type for v in values]),)).output


# -- control flow


def always_raises(block: Block) -> bool:
    """Does a run of the block never come to its end?"""
    return any(map(_raises, block.nodes))


def _raises(node: Node) -> bool:
    is_certain = node.kind == "prim::Raise" and not isinstance(node.inputs[0].type, T.OptionalType)
    return node.kind in ("prim::RaiseException", "prim::RaiseFrom") or is_certain


def flatten_raises(block: Block) -> bool:
    """Move what follows an assertion out of the branch it is in.

        %y = prim::If(%c)                        prim::If(%c)
          block0():                                block0(): -> ()
            %a = aten::relu(%x)           =>       block1(): prim::RaiseException(...)
            -> (%a)                              %a = aten::relu(%x)
          block1():
            prim::RaiseException(...)
            -> (%uninitialized)

    Behind the branch, the condition was such that the other side ran.
    """
    changed = False
    for node in list(block.nodes):
        for inner in node.blocks:
            changed = flatten_raises(inner) or changed
        if node.kind != "prim::If":
            continue
        raising = [always_raises(b) for b in node.blocks]
        if raising[0] == raising[1]:
            continue
        other = node.blocks[raising[0]]
        if other.is_empty and not node.outputs:
            continue
        _move_behind(node, other)
        changed = True
    return changed


def _move_behind(node: Node, block: Block) -> None:
    """Move what a block of a branch holds behind the branch, whose outputs are what it gives."""
    for moved in list(block.nodes)[::-1]:
        moved.move_after(node)
    for index in reversed(range(len(node.outputs))):
        node.outputs[index].replace_all_uses_with(block.outputs[index])
        node.erase_output(index)
        for inner in node.blocks:
            inner.erase_output(index)


def _unroll(block: Block) -> bool:
    changed = False
    for node in block.nodes:
        for inner in node.blocks:
            changed = _unroll(inner) or changed
        count = constant_of(node.inputs[0], None) if is_counted(node) else None
        if type(count) is int and count <= MOST_ROUNDS and max(count, 0) * size_of(node.blocks[0]) <= LARGEST_RESULT:
            _repeat(node, max(count, 0))
            changed = True
    return changed


def _repeat(node: Node, count: int) -> None:
    graph, loop = node.graph, Loop(node)
    carried = list(loop.starts)
    with graph.inserting_before(node):
        for number in range(count):
            carried = insert_copy(graph, loop.body, [graph.insert_constant(number), *carried])[1:]
    replace_by(node, carried)
