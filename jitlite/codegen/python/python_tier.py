"""From graph to a Python function: structured control flow, no dispatch loop.

    graph(%x : Tensor, %n : int):                        def f(x, n):
      %1 : bool = prim::Constant[value=1]()                  for i in range(n):
      %y : Tensor = prim::Loop(%n, %1, %x)          =>           x = x + i
        block0(%i : int, %p : Tensor):                       return x
          %q : Tensor = aten::add(%p, %i, %2)
          -> (%1, %q)
      return (%y)

The function does what the stack machine does with the graph, in the same order, and raises the same exceptions. What
it does not do is stepping and counting: for these the stack machine is used.

How to read: `python_forms.py` says how an operation is written, `nesting.py` which operations are written within
others, `variables.py` which values share a variable; here the statements are put together.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from jitlite.codegen.python.contexts import enter_context, exit_context
from jitlite.codegen.python.last_uses import last_uses, may_be_large
from jitlite.codegen.python.leaving import Leaving, last_if, position_in
from jitlite.codegen.python.limits import check_depth
from jitlite.codegen.python.python_writer import ExpressionWriter, Runner
from jitlite.codegen.range_loops import same_at_start, with_range_loops
from jitlite.codegen.variables import identifier
from jitlite.interpreter.code import CodePlace
from jitlite.interpreter.frames import exit_contexts
from jitlite.interpreter.python_code import Line, PythonCode
from jitlite.ir.code_text import Identifier, Text, code, cut, fixed, indented, joined, literal, made_identifier, private
from jitlite.ir.compiling import make_room
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of, is_constant
from jitlite.ir.structure import UNBOUNDED, Loop
from jitlite.ir.traits import Trait
from jitlite.ir.unit import Function
from jitlite.native.policy import RegionStates
from jitlite.native.regions import NativeRegion, find_regions
from jitlite.operators.prims import OVER_RANGE, make_exception
from jitlite.operators.python_forms import CannotTranslate


def translate(
    graph: Graph,
    name: str,
    runner_of: Callable[[Function], Runner],
    *,
    boxed: bool = False,
    native: str = "off",
    objects: bool = False,
) -> PythonCode:
    """The Python function of a graph.

    Args:
        graph: what to run. It may not be changed later.
        name: the name of the function, for tracebacks.
        runner_of: gives what runs a function that the graph calls.
        boxed: the function takes its arguments in one list, which it empties, and forgets each after its last use; it
            gives its results in a list.
        native: when regions of it become machine code, as the switch of that name says.
        objects: may there be objects such as dtypes among the arguments that are ints?

    Raises:
        CannotTranslate: where Python's own limits do not allow it, or the graph has something that cannot be run.
    """
    make_room(check_depth(graph))
    return FunctionWriter(graph, name, runner_of, boxed, native, objects).code()


class FunctionWriter(ExpressionWriter):
    """Writes the function of one graph."""

    def __init__(
        self,
        graph: Graph,
        name: str,
        runner_of: Callable[[Function], Runner],
        boxed: bool = False,
        native: str = "off",
        objects: bool = False,
    ) -> None:
        ranges = with_range_loops(graph)
        self.parts = {} if native == "off" else find_regions(ranges).parts()
        self.boxed = boxed
        super().__init__(ranges, runner_of, self.parts, objects)
        self.region_states = RegionStates(native, self.names, self.fresh)
        self.name: str = name
        self.lines: list[Line] = []
        self.indent = 0
        self.has_contexts = any(n.kind in ("prim::Enter", "prim::Exit") for n in self.graph.all_nodes())
        self.last_uses = self._last_uses()

    def code(self) -> PythonCode:
        entry = self.fresh(identifier(self.name, "graph"))
        parameters = [self.variables[v].name for v in self.graph.inputs]
        box = self.fresh(made_identifier("arguments")) if self.boxed else None
        self.write("def {}({}):", entry, box or joined(", ", parameters))
        with self.indented():
            if box is not None:
                self.unpack(parameters, box)
                self.write("{}.clear()", box)
                self.forget([v for v in self.graph.inputs if not v.has_uses])
            if self.has_contexts:
                self._write_with_contexts()
            else:
                self.block(self.graph.block)
                self.returned()
        return PythonCode(self.name, self.lines, self.nested_places, self.names, entry, self.region_states.made)

    def _write_with_contexts(self) -> None:
        """The managers entered are kept in a list: whatever is raised, those not left yet are left."""
        self.write("_entered = []")
        self.write("try:")
        with self.indented():
            self.block(self.graph.block)
            self.returned()
        self.write("except BaseException as _error:")
        with self.indented():
            self.write("raise {}(_entered, 0, _error)", self.bind(exit_contexts, "exit_contexts"))

    def _is_expression(self, node: Node) -> bool:
        # within an expression, what an operand holds is not forgotten before the whole of it is computed
        return not (self.boxed and may_be_large(node.output.type)) and super()._is_expression(node)

    def returned(self) -> None:
        outputs = self.graph.outputs
        self.place = CodePlace(outputs[0].node.range, outputs[0].node.call_stack) if outputs else None
        texts = [self.text(v, self.graph.block.return_node) for v in outputs]
        if self.boxed:
            self.write("return [{}]", joined(", ", texts))
            return
        if texts:
            self.write("return {}" if len(texts) == 1 else "return ({})", joined(", ", texts))
        else:
            self.write("return")

    # -- lines
    def write(self, template: str, *parts: Text | int) -> None:
        """A line: a literal of this file, with the parts in it."""
        self.lines.append(Line(indented(code(template, *parts), self.indent), self.place))

    @contextmanager
    def indented(self) -> Iterator[None]:
        self.indent += 1
        count = len(self.lines)
        yield
        if len(self.lines) == count:
            self.write("pass")
        self.indent -= 1

    # -- blocks
    def block(self, block: Block, last: Node | None = None, leaving: Leaving | None = None) -> None:
        """The statements of a block, without what becomes of its outputs.

        `last` is the `prim::If` at the end of it that may leave a loop.
        """
        region: NativeRegion | None = None
        for node in block.nodes:
            if node.kind == "prim::Constant" or node in self.nesting.nested:
                continue
            entered = self.parts.get(node)
            if entered is not region:
                self._leave_region(region)
                self._enter_region(entered)
                region = entered
            self.place = CodePlace(node.range, node.call_stack)
            if node is last:
                self.if_(node, leaving)
                return
            self.statement(node)
            self.forget(self.last_uses.get(node, ()))
        self._leave_region(region)

    def _enter_region(self, region: NativeRegion | None) -> None:
        """Machine code, or else what follows."""
        if region is None:
            return
        native = self.region_states.native(region)
        arguments = joined(", ", [self.variables[v].name for v in region.inputs])
        names = [self.variables[v].name for v in region.outputs]
        self.write("_done = {} and {}({})", native, native, arguments)
        self.write("if _done is not None:")
        self.write("    {} = _done", joined(", ", names))
        self.write("else:")
        self.indent += 1
        self.write("_since = {}()", self.bind(time.perf_counter, "clock"))

    def _leave_region(self, region: NativeRegion | None) -> None:
        if region is not None:
            self.write("{}(_since)", self.region_states.record_run(region))
            self.indent -= 1

    def statement(self, node: Node) -> None:
        """Write a node that is not part of another one."""
        special = None if node in self.nesting.conditional else _STATEMENTS.get(node.kind)
        (special or FunctionWriter.operation)(self, node)

    def operation(self, node: Node) -> None:
        """A statement that is one operation."""
        form = None if node in self.nesting.conditional else self.form(node)
        if form is not None and form.is_statement:
            self.write("{}", self.fill(form, node))
            if node.outputs and node.output.has_uses:
                self.write("{} = {}", self.variables[node.output].name, self.text(node.inputs[0], node))
            return
        text, _ = self.expression(node)
        names = [self.variables[v].name for v in node.outputs if v.has_uses or len(node.outputs) > 1]
        if len(node.outputs) > 1 or node.has(Trait.SPREADS):
            self.unpack(names, text)
        elif names != [text]:
            self.write("{}", code("{} = {}", names[0], text) if names else text)

    def unpack(self, names: Sequence[Identifier], text: Text) -> None:
        """Give the elements of a sequence names."""
        if names:
            self.write("{}, = {}" if len(names) == 1 else "{} = {}", joined(", ", names), text)
        else:
            self.write("() = {}", text)

    def unpacking(self, node: Node) -> None:
        self.unpack([self.variables[v].name for v in node.outputs], self.text(node.inputs[0], node))

    def copy(self, targets: Sequence[Value], sources: Sequence[Value], user: Node) -> None:
        """Let variables take over values, all at once."""
        pairs = [(self.variables[t].name, self.text(s, user)) for t, s in zip(targets, sources, strict=True)]
        pending = {target: source for target, source in pairs if target != source}
        while pending:
            read = set(pending.values())
            free = next((target for target in pending if target not in read), None)
            if free is None:  # they change places
                self.write("{} = {}", joined(", ", pending), joined(", ", pending.values()))
                return
            self.write("{} = {}", free, pending.pop(free))

    def forget(self, values: Sequence[Value]) -> None:
        names = sorted({self.variables[v].name for v in values})
        if names:
            self.write("del {}", joined(", ", names))

    def _last_uses(self) -> dict[Node, list[Value]]:
        return last_uses(self.graph, self.nesting, self.variables, of_parameters=self.boxed)

    # -- control flow
    def if_(self, node: Node, leaving: Leaving | None = None) -> None:
        condition = self.text(node.inputs[0], node)
        negated = code("not {}", self.text(node.inputs[0], node, True))
        then_lines, else_lines = (self.branch(node, block, leaving) for block in node.blocks)
        place = CodePlace(node.range, node.call_stack)

        def head(template: str, text: Text) -> None:
            self.lines.append(Line(indented(code(template, text), self.indent), place))

        if not then_lines and not else_lines:
            if node.inputs[0].node in self.nesting.nested:
                head("{}", condition)
        elif not then_lines:
            head("if {}:", negated)
            self.lines += else_lines
        elif then_lines[-1].text == indented(fixed("break"), self.indent + 1):  # what follows need not be indented
            head("if {}:", condition)
            self.lines += then_lines
            self.lines += map(outdented, else_lines)
        else:
            head("if {}:", condition)
            self.lines += then_lines
            self.lines += self._else(else_lines, place)

    def _else(self, lines: list[Line], place: CodePlace) -> list[Line]:
        """The lines of an else branch; one that is nothing but an if becomes `elif`."""
        if not lines:
            return []
        margin = "    " * (self.indent + 1)
        heads = [line.text[len(margin) :] for line in lines if line.text[len(margin)] != " "]
        if heads[0].startswith("if ") and all(h.startswith(("elif ", "else:")) for h in heads[1:]):
            first, *following = map(outdented, lines)
            head = code("el{}", cut(first.text, len(margin) - 4))
            return [Line(indented(head, self.indent), first.place), *following]
        return [Line(indented(fixed("else:"), self.indent), place), *lines]

    def branch(self, node: Node, block: Block, leaving: Leaving | None = None) -> list[Line]:
        """The lines of a branch: its statements, and what becomes of its outputs."""
        start = len(self.lines)
        self.indent += 1

        def take_over() -> None:
            pairs = [(o, v) for o, v in zip(node.outputs, block.outputs, strict=True) if o.has_uses]
            if leaving is not None:
                del pairs[[o for o, _ in pairs].index(node.outputs[leaving.position])]
            self.copy([o for o, _ in pairs], [v for _, v in pairs], block.return_node)

        inner = None if leaving is None else last_if(block, block.outputs[leaving.position], self.nesting.conditional)
        if leaving is None or inner is None:
            self.block(block)
        else:
            self.block(block, inner, Leaving(position_in(inner, block, leaving), (take_over, *leaving.on_the_way)))
        self.place = CodePlace(node.range, node.call_stack)
        take_over()
        if leaving is not None and inner is None:
            self.leave(block.outputs[leaving.position], block.return_node, leaving)
        self.indent -= 1
        lines = self.lines[start:]
        del self.lines[start:]
        return lines

    def leave(self, goes_on: Value, user: Node, leaving: Leaving) -> None:
        """Leave the loop unless it goes on."""
        if constant_of(goes_on, None) is True:
            return
        always = constant_of(goes_on, None) is False
        if not always:
            self.write("if not {}:", self.text(goes_on, user, True))
            self.indent += 1
        for step in leaving.on_the_way:
            step()
        self.write("break")
        if not always:
            self.indent -= 1

    # -- loops
    def loop(self, node: Node) -> None:
        loop = Loop(node)
        last = None
        if constant_of(loop.start_condition, None) is True:
            last = last_if(loop.body, loop.condition, self.nesting.conditional)
        if last is not None:
            self.loop_left_inside(node, last)
        elif not loop.has_condition:
            self.loop_with(node, None)
        else:
            self.loop_while(node)

    def loop_left_inside(self, node: Node, last: Node) -> None:
        """A loop whose last statement decides whether to leave it."""
        loop, body = Loop(node), node.blocks[0]
        head = self.loop_head(node, None)
        self.copy(loop.parameters, loop.starts, node)
        self.write("{}", head)

        def carry() -> None:
            self.copy(loop.parameters, loop.followings, body.return_node)

        with self.indented():
            self.block(body, last, Leaving(last.outputs.index(loop.condition), (carry,)))
            self.place = CodePlace(node.range, node.call_stack)
            carry()

    def loop_while(self, node: Node) -> None:
        """A loop with a condition: written in its head if it is the same each time, else kept in a variable."""
        loop, body = Loop(node), node.blocks[0]
        if self.repeats(node):
            self.in_head = {c.following: c.parameter for c in loop.carried if not is_constant(c.following)}
            condition = self.text(loop.condition, body.return_node)
            negated = self.text(loop.condition, body.return_node, True)
            self.in_head = {}
            self.loop_with(node, condition, negated)
            return
        condition = self.fresh(private("goes_on"))
        self.write("{} = {}", condition, self.text(loop.start_condition, node))
        self.loop_with(node, condition, condition, loop.condition)

    def repeats(self, node: Node) -> bool:
        """Is the first condition of a loop the one computed at the end of its body, of the values it starts with?"""
        loop = Loop(node)
        if loop.condition.node not in self.nesting.nested:
            return False
        # a constant is written as it is, whatever the loop starts with
        start = {c.following: c.start for c in loop.carried if not is_constant(c.following)}
        return same_at_start(loop.start_condition, loop.condition, start, loop.body, self.nesting.nested)

    def loop_with(
        self, node: Node, condition: Text | None, negated: Text | None = None, again: Value | None = None
    ) -> None:
        """A loop with this condition; `again` is what the condition becomes at the end of the body."""
        loop, body = Loop(node), node.blocks[0]
        head = self.loop_head(node, condition)
        self.copy(loop.parameters, loop.starts, node)
        self.write("{}", head)
        with self.indented():
            if negated is not None and not head.startswith("while"):
                self.write("if not {}: break", negated)
            self.block(body)
            self.place = CodePlace(node.range, node.call_stack)
            if again is not None and condition is not None:
                self.write("{} = {}", condition, self.text(again, body.return_node))
            self.copy(loop.parameters, loop.followings, body.return_node)

    def loop_head(self, node: Node, condition: Text | None) -> Text:
        """The first line of a loop. What it reads is put aside if the first values of the loop overwrite it."""
        loop = Loop(node)
        counter, count = loop.index, loop.max_iterations
        is_endless = is_constant(count) and constant_of(count) >= UNBOUNDED
        if is_endless and not counter.has_uses:
            return code("while {}:", condition or fixed("True"))
        text = self.range_text(count) if node.attributes.get(OVER_RANGE) else self.text(count, node)
        if is_endless:
            text = code("{}()", self.bind(itertools.count, "count"))
        elif not node.attributes.get(OVER_RANGE):
            text = code("range({})", text)
        overwritten = {self.variables[v].name for v in loop.parameters}
        if not overwritten.isdisjoint(self.variables[v].name for v in self.variables.read_in(count)):
            aside = self.fresh(private("iterations"))
            self.write("{} = {}", aside, text)
            text = aside
        return code("for {} in {}:", self.variables[counter].name if counter.has_uses else fixed("_"), text)

    def range_text(self, count: Value) -> Text:
        length = count.node
        if length not in self.nesting.nested:
            raise CannotTranslate("a range is computed apart from the loop over it")
        start, stop, step = (self.text(v, length) for v in length.inputs)
        return code("range({}, {})", start, stop) if step == "1" else code("range({}, {}, {})", start, stop, step)

    def try_(self, node: Node) -> None:
        body, handler = node.blocks
        error = handler.inputs[0]
        depth: Identifier | None = None
        if self.has_contexts:
            depth = self.fresh(private("depth"))
            self.write("{} = len(_entered)", depth)
        self.write("try:")
        with self.indented():
            self.lines += self.branch_at(node, body)
        name = self.variables[error].name
        self.write("except BaseException as {}:", name)
        with self.indented():
            if depth is not None:
                self.write("{} = {}(_entered, {}, {})", name, self.bind(exit_contexts, "exit_contexts"), depth, name)
            self.lines += self.branch_at(node, handler)

    def branch_at(self, node: Node, block: Block) -> list[Line]:
        """The lines of a block at the indentation that is in force."""
        self.indent -= 1
        lines = self.branch(node, block)
        self.indent += 1
        return lines

    # -- effects
    def raise_exception(self, node: Node) -> None:
        operands = [self.text(v, node) for v in node.inputs]
        self.write(
            "raise {}({})", self.bind(make_exception, "make_exception"), joined(", ", [*operands, literal(None)][:2])
        )

    def warn(self, node: Node) -> None:
        found = node.range
        filename, line = (found.filename or "<string>", found.line) if found else ("<string>", 0)
        self.names.setdefault("_warned", {})
        message = self.text(node.inputs[0], node)
        warn = self.bind(warnings.warn_explicit, "warn_explicit")
        self.write("{}({}, UserWarning, {}, {}, registry=_warned)", warn, message, literal(filename), line)

    def enter(self, node: Node) -> None:
        text = code("{}(_entered, {})", self.bind(enter_context, "enter"), self.text(node.inputs[0], node))
        self.write("{}", code("{} = {}", self.variables[node.output].name, text) if _is_read(node) else text)

    def exit(self, node: Node) -> None:
        text = code("{}(_entered)", self.bind(exit_context, "exit"))
        self.write("{}", code("{} = {}", self.variables[node.output].name, text) if _is_read(node) else text)


def outdented(line: Line) -> Line:
    """The line, one level further out."""
    return Line(cut(line.text, 4), line.place)


def _is_read(node: Node) -> bool:
    return bool(node.outputs) and node.output.has_uses


# -- context managers


_STATEMENTS: dict[str, Callable[[FunctionWriter, Node], None]] = {
    "prim::If": FunctionWriter.if_,
    "prim::Loop": FunctionWriter.loop,
    "prim::Try": FunctionWriter.try_,
    "prim::TupleUnpack": FunctionWriter.unpacking,
    "prim::ListUnpack": FunctionWriter.unpacking,
    "prim::RaiseException": FunctionWriter.raise_exception,
    "prim::Enter": FunctionWriter.enter,
    "prim::Exit": FunctionWriter.exit,
    "aten::warn": FunctionWriter.warn,
}
"""How each kind with the trait IS_STATEMENT is written."""
