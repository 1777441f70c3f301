"""The steps between emission and SSA form: golden cases, and random programs against Python.

`golden/frontend/*.txt` holds cases: `--- case: name`, a graph, then one or more times `--- step, step` and the graph
after these steps, which run on the one before.
"""

import ast
import contextlib
import io
import random
import re
from pathlib import Path

import pytest

from jitlite.base.source import CompileError
from jitlite.frontend.emit import closures, exits, loops, normalize, ssa
from jitlite.interpreter.bytecode import lower
from jitlite.interpreter.vm import run
from jitlite.ir import loop_forms
from jitlite.ir import types as T
from jitlite.ir.compare import canonical_text
from jitlite.ir.graph import Graph
from jitlite.ir.ops import lookup
from jitlite.ir.parser import parse
from jitlite.ir.structure import UNBOUNDED
from jitlite.ir.traits import Link
from jitlite.ir.verify import verify

GOLDEN = Path(__file__).parents[1] / "golden" / "frontend"


def drop_unused(graph):
    """What the clean-up after these steps does, so that cases show no constants that nothing uses."""
    for node in reversed(list(graph.block.nodes)):
        if node.kind in ("prim::Constant", "prim::Uninitialized") and not node.output.has_uses:
            node.destroy()


def remove_loop_exits(graph):
    exits.remove_exits(graph, "prim::LoopContinuation")


def remove_exits(graph):
    exits.remove_exits(graph, "prim::LoopContinuation")
    exits.remove_exits(graph, "prim::ReturnStmt")


STEPS = {
    step.__name__: step
    for step in (
        ssa.to_ssa, ssa.add_control_flow_variables, ssa.replace_loop_exits, ssa.erase_variables,
        loops.inline_loop_conditions, loop_forms.canonicalize_modified_loops,
        exits.transform_exits, exits.wrap_with_bodies, exits.unwrap_with_bodies, exits.merge_consecutive_ifs,
        remove_exits, remove_loop_exits, drop_unused,
        closures.lift_closures, closures.inline_forked_closures, normalize.normalize_ops,
    )
}  # fmt: skip


def cases():
    for path in sorted(GOLDEN.glob("*.txt")):
        for text in re.split(r"^--- case: ", path.read_text(), flags=re.MULTILINE)[1:]:
            name, _, body = text.partition("\n")
            yield pytest.param(path, name, body, id=f"{path.stem}: {name}")


def after_steps(body):
    """The case's body as it should be."""
    start, *stages = re.split(r"^(?=--- )", body, flags=re.MULTILINE)
    graph = parse(start)
    parts = [start]
    for stage in stages:
        heading = stage.partition("\n")[0]
        for step in heading.removeprefix("--- ").split(", "):
            STEPS[step](graph)
            if not any(len(n.blocks) > 1 and n.kind not in ("prim::If", "prim::Try") for n in graph.all_nodes()):
                verify(graph)  # loops with a condition block and wrapped with bodies are forms of the way
        parts.append(f"{heading}\n{canonical_text(graph, keep_names=True)}")
    return "".join(parts).rstrip("\n")


@pytest.mark.parametrize(("path", "name", "body"), list(cases()))
def test_golden(path, name, body, request):
    expected, found = body.rstrip("\n"), after_steps(body)
    if found != expected and request.config.getoption("--accept", default=False):
        path.write_text(path.read_text().replace(f"--- case: {name}\n{expected}", f"--- case: {name}\n{found}"))
    assert found == expected


def test_every_alias_is_another_name_of_an_operator_with_the_same_arguments():
    for alias, usual in Link.USUAL_NAME.by_kind.items():
        usual_shapes = [[str(a.type) for a in op.schema.arguments] for op in lookup(usual)]
        assert lookup(alias), alias
        for op in lookup(alias):
            assert [str(a.type) for a in op.schema.arguments] in usual_shapes, op.schema


def test_warnings_are_numbered_across_graphs():
    text = """graph(%m : str, %c : bool):
  %l : int = prim::Constant[value=2]()
  aten::warn(%m, %l)
  prim::If(%c)
    block0():
      aten::warn(%m, %l)
      -> ()
    block1():
      -> ()
  return (%m)
"""
    ids = []
    for graph in (parse(text), parse(text)):
        normalize.annotate_warns(graph)
        ids += [node.attributes["warn_id"] for node in graph.all_nodes() if node.kind == "aten::warn"]
    assert ids == list(range(ids[0], ids[0] + 4))


def test_errors():
    read = parse('graph():\n  %1 : int = prim::Load[name="x"]()\n  return (%1)\n')
    with pytest.raises(CompileError, match="'x' is read before it is set"):
        ssa.erase_variables(read)
    with pytest.raises(CompileError, match="outside a loop"):
        ssa.replace_loop_exits(parse("graph():\n  prim::BreakStmt()\n  return ()\n"))
    with pytest.raises(CompileError, match="only a function can be forked"):
        closures.inline_forked_closures(
            parse("graph(%x : Tensor):\n  %1 : Future[Tensor] = prim::forkClosure(%x)\n  return (%1)\n")
        )


@pytest.mark.parametrize(
    ("name", "meaningful"),
    [("x", True), ("_x", True), ("__", True), ("_1a", True), ("", False), ("_", False), ("_12", False), ("$x", False)],
)
def test_meaningful_names(name, meaningful):
    assert ssa.is_meaningful_name(name) is meaningful


# -- random programs
class Emitter:
    """Emits functions of ints a, b, c with ifs, loops, with statements and every kind of exit."""

    def __init__(self, function):
        self.graph = Graph()
        for name in "abc":
            self.store(name, self.graph.add_input(T.INT, name))
        self.manager = self.graph.add_input(T.PY_OBJECT, "m")
        self.body(function.body)
        self.graph.add_output(self.graph.insert("prim::Uninitialized", (), (T.INT,)).output)

    def store(self, name, value):
        self.graph.insert("prim::Store", (value,), (), {"name": name})

    def expression(self, tree):
        insert = self.graph.insert
        if isinstance(tree, ast.Constant):
            return self.graph.insert_constant(tree.value)
        if isinstance(tree, ast.Name):
            return insert("prim::Load", (), (T.INT,), {"name": tree.id}).output
        if isinstance(tree, ast.Compare):
            operands, kind, type = (tree.left, *tree.comparators), "aten::lt", T.BOOL
        else:
            operands, kind, type = (tree.left, tree.right), "aten::add", T.INT
        return insert(kind, [self.expression(operand) for operand in operands], (type,)).output

    def body(self, statements):
        for statement in statements:
            getattr(self, type(statement).__name__)(statement)

    def block(self, node, statements):
        with self.graph.inserting_at_end(node.add_block()):
            self.body(statements)

    def Assign(self, tree):
        self.store(tree.targets[0].id, self.expression(tree.value))

    def Expr(self, tree):
        self.graph.insert("prim::Print", [self.expression(tree.value.args[0])])

    def Return(self, tree):
        self.graph.insert("prim::ReturnStmt", [self.expression(tree.value)])

    def Break(self, tree):
        self.graph.insert("prim::BreakStmt")

    def Continue(self, tree):
        self.graph.insert("prim::ContinueStmt")

    def Raise(self, tree):
        words = [self.graph.insert_constant(word) for word in ("no", "builtins.ValueError")]
        self.graph.insert("prim::RaiseException", words)

    def If(self, tree):
        node = self.graph.insert("prim::If", [self.expression(tree.test)])
        self.block(node, tree.body)
        self.block(node, tree.orelse)

    def While(self, tree):
        node = self.graph.insert("prim::Loop", [self.graph.insert_constant(UNBOUNDED)])
        condition = node.add_block()
        with self.graph.inserting_at_end(condition):
            condition.add_output(self.expression(tree.test))
        self.block(node, tree.body)
        node.blocks[1].add_input(T.INT)

    def For(self, tree):
        bound, true = self.expression(tree.iter.args[0]), self.graph.insert_constant(True)
        node = self.graph.insert("prim::Loop", [bound])
        node.add_block().add_output(true)
        body = node.add_block()
        with self.graph.inserting_at_end(body):
            self.store(tree.target.id, body.add_input(T.INT))
            self.body(tree.body)

    def With(self, tree):
        self.graph.insert("prim::Enter", [self.manager], (T.NONE,))
        self.body(tree.body)
        self.graph.insert("prim::Exit", [self.manager], (T.NONE,))


def random_source(pick):
    """A function of three ints; `pick(n)` gives a number below n."""

    def expression():
        return f"{'abc'[pick(3)]} + {pick(4)}" if pick(2) else "abc0123"[pick(7)]

    def body(depth, in_loop):
        lines = [line for _ in range(1 + pick(3)) for line in statement(depth, in_loop)]
        choice = pick(8)
        if choice == 0:
            lines.append(f"return {expression()}")
        elif choice == 1:
            lines.append("raise ValueError('no')")
        elif choice < 4 and in_loop:
            lines.append("break" if choice == 2 else "continue")
        return ["    " + line for line in lines]

    def statement(depth, in_loop):
        choice = pick(8) if depth else pick(2)
        if choice < 1:
            return [f"print({expression()})"]
        if choice < 3:
            return [f"{'abc'[pick(3)]} = {expression()}"]
        if choice < 6:
            otherwise = ["else:", *body(depth - 1, in_loop)] if pick(2) else []
            return [f"if {expression()} < {expression()}:", *body(depth - 1, in_loop), *otherwise]
        if choice == 6:
            heading = f"for {'abc'[pick(3)]} in range({expression()}):"
            return [heading if pick(2) else f"while {expression()} < {expression()}:", *body(depth - 1, True)]
        return ["with m:", *body(depth - 1, in_loop)]

    return "\n".join(["def f(a, b, c, m):", *body(4, False), "    return a"])


class Manager:
    def __enter__(self):
        print("enter")

    def __exit__(self, *exception):
        print("exit")


class TooLong(Exception):
    pass


def behaviour(call):
    """What the call returns or raises, and prints; None if it takes too long."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            result = call()
        except ValueError as error:
            result = str(error)
        except TooLong:
            return None
    return result, printed.getvalue()


def python_behaviour(tree, arguments):
    rounds = iter(range(60))

    def tick():
        if next(rounds, None) is None:
            raise TooLong

    for node in ast.walk(tree):
        if isinstance(node, ast.While | ast.For):
            node.body.insert(0, ast.parse("tick()").body[0])
    namespace = {"tick": tick}
    exec(compile(ast.fix_missing_locations(tree), "<random>", "exec"), namespace)
    return behaviour(lambda: namespace["f"](*arguments))


@pytest.mark.parametrize("seed", range(80))
def test_random_programs_do_what_they_do_in_python(seed):
    source = random_source(random.Random(seed).randrange)
    graph = Emitter(ast.parse(source).body[0]).graph
    ssa.to_ssa(graph)
    verify(graph)
    loop_forms.canonicalize_modified_loops(graph)
    verify(graph)
    code = lower(graph)
    for numbers in ((0, 0, 0), (1, 3, 2), (3, 1, 0)):
        arguments = (*numbers, Manager())
        expected = python_behaviour(ast.parse(source), arguments)
        if expected is not None:
            assert behaviour(lambda: run(code, arguments)) == expected, f"{source}\n{numbers}"  # noqa: B023


def test_long_chains_of_exits_need_no_deep_stack():
    lines = ["def f(a, b, c, m):", "    while a < 9:"]
    lines += [f"        if b < {i}:\n            {'continue' if i % 2 else 'return b'}" for i in range(600)]
    graph = Emitter(ast.parse("\n".join([*lines, "        a = a + 1", "    return a"])).body[0]).graph
    ssa.to_ssa(graph)
    assert not any(node.kind in ("prim::ReturnStmt", "prim::LoopContinuation") for node in graph.all_nodes())
