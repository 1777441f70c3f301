"""Chapter 2: from the tree to a graph, with a type for every value.

python docs/from_scratch/code/ch2_graph.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ch1_tree import CompileError, Tree, parse, smooth
from graphs import Block, Graph, Node, Value
from operators import OPERATORS

MAX_INT = 2**63 - 1
"""How often a loop runs at most whose condition ends it."""


class Emitter:
    """Walks the tree once and adds nodes to the block that is being filled.

    Attributes:
        types: the variables that have a value at this point of the program, and the type of each.
    """

    def __init__(self) -> None:
        self.graph = Graph()
        self.block: Block = self.graph
        self.types: dict[str, str] = {}

    def add(self, kind: str, inputs: Sequence[Value], tree: Tree, *types: str, attribute: object = None) -> Node:
        return self.graph.add(self.block, Node(kind, list(inputs), tree.line, attribute), *types)

    def constant(self, value: bool | int | float, tree: Tree) -> Value:
        return self.add("prim::Constant", [], tree, type(value).__name__, attribute=value).outputs[0]

    def expression(self, tree: Tree) -> Value:
        match tree:
            case Tree("const", (bool() | int() | float() as value,)):
                return self.constant(value, tree)
            case Tree("name", (str(name),)):
                if name not in self.types:
                    raise CompileError(f"line {tree.line}: `{name}` does not always have a value here")
                return self.add("prim::Load", [], tree, self.types[name], attribute=name).outputs[0]
        inputs = [self.expression(part) for part in tree.parts if isinstance(part, Tree)]
        return self.operation(tree.head, inputs, tree)

    def operation(self, kind: str, inputs: Sequence[Value], tree: Tree) -> Value:
        known = OPERATORS.get(kind)
        result = known.result(*(v.type for v in inputs)) if known and known.arity == len(inputs) else None
        if result is None:
            raise CompileError(f"line {tree.line}: no {kind} takes ({', '.join(v.type for v in inputs)})")
        return self.add(kind, inputs, tree, result).outputs[0]

    def condition(self, tree: Tree) -> Value:
        value = self.expression(tree)
        return value if value.type == "bool" else self.operation("aten::Bool", [value], tree)

    def store(self, name: str, value: Value, tree: Tree) -> None:
        self.add("prim::Store", [value], tree, attribute=name)
        self.types[name] = value.type

    def statement(self, tree: Tree) -> None:
        match tree:
            case Tree("=", (str(name), Tree() as value)):
                self.store(name, self.expression(value), tree)
            case Tree("return", (Tree() as value,)):
                self.graph.returns = [self.expression(value)]
            case Tree("if", (Tree() as test, Tree() as then, Tree() as orelse)):
                self.if_statement(tree, self.condition(test), then, orelse)
            case Tree("while", (Tree() as test, Tree() as body)):
                self.loop(tree, self.constant(MAX_INT, tree), test, body, None)
            case Tree("for", (str(name), Tree() as count, Tree() as body)):
                self.loop(tree, self.expression(count), Tree("const", (True,), tree.line), body, name)

    def if_statement(self, tree: Tree, condition: Value, *branches: Tree) -> None:
        node, before = self.add("prim::If", [condition], tree), self.types
        after = []
        for branch in branches:
            with self.inside(node):
                self.types = dict(before)
                self.statements(branch)
                after.append(self.types)
        self.types = joined(tree, *after)

    def loop(self, tree: Tree, count: Value, test: Tree, body: Tree, name: str | None) -> None:
        if count.type != "int":
            raise CompileError(f"line {tree.line}: range takes an int, not a {count.type}")
        node, before = self.add("prim::Loop", [count, self.condition(test)], tree), dict(self.types)
        with self.inside(node) as block:
            block.params = [self.graph.value("int")]
            if name is not None:
                self.store(name, block.params[0], tree)
            self.statements(body)
            block.returns = [self.condition(test)]
        self.types = joined(tree, before, self.types)

    def statements(self, block: Tree) -> None:
        for statement in block.parts:
            assert isinstance(statement, Tree)
            self.statement(statement)

    @contextmanager
    def inside(self, node: Node) -> Iterator[Block]:
        """Add to a new block of a node, until the `with` ends."""
        around, self.block = self.block, Block()
        node.blocks.append(self.block)
        yield self.block
        self.block = around


def joined(tree: Tree, one: dict[str, str], other: dict[str, str]) -> dict[str, str]:
    """The variables that have a value whichever way the program came."""
    for name in one.keys() & other.keys():
        if one[name] != other[name]:
            raise CompileError(f"line {tree.line}: `{name}` would be {one[name]} or {other[name]}, as the case may be")
    return {name: one[name] for name in one if name in other}


def emit(tree: Tree) -> Graph:
    """The graph of a function, whose variables are still stored and loaded.

    Raises:
        CompileError: if a name has no value, or an operator does not take such types.
    """
    emitter = Emitter()
    *params, body = [part for part in tree.parts if isinstance(part, Tree)]
    for param in params:
        name, type_ = map(str, param.parts)
        emitter.graph.params.append(Value(name, type_))
        emitter.store(name, emitter.graph.params[-1], param)
    emitter.statements(body)
    return emitter.graph


if __name__ == "__main__":
    print(emit(parse(smooth)))
