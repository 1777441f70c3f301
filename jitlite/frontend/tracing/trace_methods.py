"""Calls of submodules in a trace become calls of methods.

While a submodule is at work, what it does is recorded into the block of a node of its own (a region). When the trace is
done, each region becomes a method of the submodule, `forward` for its first call, `forward1` for the next and so on:

    %y = prim::TracedRegion(), block:              graph(%self : Linear, %input : Tensor):
      %y = aten::linear(%x, %weight, %bias)    =>    ...
                                                     %y : Tensor = prim::CallMethod[name="forward"](%fc, %x)

A value that the region takes from outside is a parameter, one that is used outside is a result, whatever the Python
function's parameters and results are. State of the submodule is found in `self`; constants are made where they are
used.
A region in which nothing was recorded is left out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.ir.schema import Argument, function_schema
from jitlite.ir.types import ClassType, Type
from jitlite.ir.unit import Function

Path = tuple[str, ...]
KIND = "prim::TracedRegion"


class TracedCall(Record, eq=True, frozen=False):
    """The call of a submodule.

    Attributes:
        node: has the block.
        path: leads to the submodule.
        names: of values that are arguments, the parameter's name.
        place: of the calls of submodules.
    """

    node: Node
    path: Path
    names: dict[Value, str] = field(default_factory=dict)


class TracedCalls:
    """The calls of submodules that are recorded into one graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._found: list[TracedCall] = []
        self._open: list[TracedCall] = []

    @property
    def outermost(self) -> Node | None:
        """The node of the outermost call that is going on, if any."""
        return self._open[0].node if self._open else None

    @contextmanager
    def inside(self, path: Path, names: Mapping[Value, str]) -> Iterator[None]:
        """Within the `with`, what is recorded belongs to a call of the submodule at `path`."""
        node = self._graph.create(KIND, (), ()).insert_before(self._graph.insert_point)
        region = TracedCall(node, path, dict(names))
        self._found.append(region)
        self._open.append(region)
        try:
            with self._graph.inserting_at_end(node.add_block()):
                yield
        finally:
            self._open.pop()

    def become_methods(self, owner: ClassType, state: Mapping[Path, Value]) -> list[Graph]:
        """Turn the regions into methods of the types of the submodules; gives the methods' graphs.

        Args:
            owner: the type of the traced module.
            state: the values of the graph that are attributes, by the path to each.
        """
        modules: dict[Path, Value] = {(): self._graph.inputs[0]}
        names = {}
        for region in self._found:  # in the order of the calls
            if not _is_empty(region.node):
                self._module_value(region.path, modules)
                names[region.node] = _reserve(type_at(owner, region.path))
        known = {value: path for path, value in state.items()}
        for path, value in modules.items():
            if path and path in state:
                state[path].replace_all_uses_with(value)
            known[value] = path
        made = []
        for region in reversed(self._found):  # what is inside comes first
            if region.node not in names:
                for node in list(region.node.blocks[0].nodes):
                    node.move_before(region.node)  # constants, which may be used elsewhere
                region.node.destroy()
                continue
            lowering = _MethodOfCall(self._graph, region, modules[region.path], names[region.node], known)
            lowering.run()
            made.append(lowering.body)
        return made

    def _module_value(self, path: Path, modules: dict[Path, Value]) -> Value:
        """The value of a submodule, at the start of the graph."""
        if path not in modules:
            holder = self._module_value(path[:-1], modules)
            assert isinstance(holder.type, ClassType)
            node = self._graph.create("prim::GetAttr", [holder], [type_at(holder.type, path[-1:])])
            node.attributes["name"] = path[-1]
            modules[path] = node.output
            if path[:-1]:
                node.insert_after(holder.node)
            else:
                self._graph.block.prepend(node)
        return modules[path]


def _is_empty(node: Node) -> bool:
    return all(n.kind in (KIND, "prim::Constant") and (not n.blocks or _is_empty(n)) for n in node.blocks[0].nodes)


def _reserve(t: ClassType) -> str:
    """A name for the next method of a submodule."""
    number = 0
    while (name := f"forward{number or ''}") in t.methods:
        number += 1
    t.methods[name] = Function(name, qualified_name=f"{t.qualified_name}.{name}")
    return name


def type_at(owner: ClassType, path: Path) -> ClassType:
    """The type of the submodule at a path."""
    for name in path:
        found = owner.attributes[name]
        assert isinstance(found, ClassType)
        owner = found
    return owner


class _MethodOfCall:
    """Makes one region a method and a call of it."""

    def __init__(self, graph: Graph, region: TracedCall, owner: Value, name: str, state: Mapping[Value, Path]) -> None:
        t = owner.type
        assert isinstance(t, ClassType)
        self.graph = graph
        self.region = region
        self.owner = owner
        self.block: Block = region.node.blocks[0]
        self.type = t
        self.name = name
        self.state = state
        self.body = Graph()
        self.attributes: dict[Path, Value] = {region.path: self.body.add_input(t, "self")}
        self.values: dict[Value, Value] = {}

    def run(self) -> None:
        node = self.region.node
        self._free_constants()
        escaping = self._escaping()
        taken = self._parameters()
        for inner in self.block.nodes:
            self.body.clone_node(inner, self.values).insert_before(self.body.insert_point)
        result = self._result(escaping)
        self._declare(taken, result)
        with self.graph.inserting_before(node):
            call = self.graph.insert(
                "prim::CallMethod", [self.owner, *taken], [result], {"name": self.name}, node.range
            )
            given = [call.output]
            if len(escaping) > 1:
                given = list(self.graph.insert("prim::TupleUnpack", given, [v.type for v in escaping]).outputs)
        for old, new in zip(escaping, given, strict=False):
            new.copy_metadata(old)
            old.replace_all_uses_with(new)
        node.destroy()

    def _free_constants(self) -> None:
        """Let what is outside have constants of its own."""
        for node in list(self.block.nodes):
            users = [use for use in node.outputs[0].uses if self._is_outside(use.user)] if _is_constant(node) else []
            if users:
                with self.graph.inserting_before(self.region.node):
                    copy = self.graph.clone_node(node, {}).insert_before(self.graph.insert_point)
                for use in users:
                    use.user.replace_input(use.offset, copy.output)

    def _is_outside(self, user: Node) -> bool:
        return not user.is_inside(self.block)

    def _escaping(self) -> list[Value]:
        return [v for n in self.block.nodes for v in n.outputs if any(self._is_outside(use.user) for use in v.uses)]

    def _parameters(self) -> list[Value]:
        """The values that are taken from outside; makes them parameters, in the order of the arguments first."""
        used = dict.fromkeys(v for n in self.block.nodes for v in n.inputs if self._is_outside(v.node))
        arguments_first = sorted(used, key=self._position)
        taken = []
        for value in arguments_first:
            path = self.state.get(value)
            if _is_constant(value.node):
                self.body.clone_node(value.node, self.values).insert_before(self.body.insert_point)
            elif path is not None and path[: len(self.region.path)] == self.region.path:
                self.values[value] = self._attribute(path, value.type)
            else:
                given = self.body.add_input(value.type, self.region.names.get(value, _name_of(value)))
                given.example_type = value.example_type
                self.values[value] = given
                taken.append(value)
        return taken

    def _position(self, value: Value) -> int:
        """The position of a value among the arguments; behind all if it is none."""
        names = list(self.region.names)
        return names.index(value) if value in self.region.names else len(names)

    def _attribute(self, path: Path, t: Type) -> Value:
        found = self.attributes.get(path)
        if found is None:
            holder = self._attribute(path[:-1], t)
            assert isinstance(holder.type, ClassType)
            kind = holder.type.attributes[path[-1]]
            node = self.body.insert("prim::GetAttr", [holder], [kind], {"name": path[-1]})
            found = self.attributes[path] = node.output
        return found

    def _result(self, escaping: Sequence[Value]) -> Type:
        given = [self.values[v] for v in escaping]
        if not given:
            self.body.add_output(self.body.insert_constant(None))
        elif len(given) == 1:
            self.body.add_output(given[0])
        else:
            made = T.TupleType.of([v.type for v in given])
            self.body.add_output(self.body.insert("prim::TupleConstruct", given, [made]).output)
        return self.body.outputs[0].type

    def _declare(self, taken: Sequence[Value], result: Type) -> None:
        inputs = self.body.inputs[1:]
        names: list[str] = []
        for i, value in enumerate(inputs):
            wanted = value.name.partition(".")[0] if value.has_name else ""
            fine = wanted.isidentifier() and wanted not in (*names, "self")
            names.append(wanted if fine else f"argument_{i}")
        formals = [Argument(n, v.type) for n, v in zip(names, inputs, strict=True)]
        schema = function_schema(self.name, [Argument("self", self.type), *formals], [result])
        qualified = f"{self.type.qualified_name}.{self.name}"
        self.type.methods[self.name] = Function(self.name, qualified_name=qualified, schema=schema, graph=self.body)


def _is_constant(node: Node) -> bool:
    return node.kind == "prim::Constant"


def _name_of(value: Value) -> str | None:
    return value.name if value.has_name else None


def parameter_names(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> dict[str, Any]:
    """Arguments by the names of their parameters, as far as they have one each."""
    try:
        found = inspect.signature(function).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return dict(kwargs)
    return {name: value for name, value in found.items() if isinstance(name, str)}
