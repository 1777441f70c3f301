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

How to read: `codegen/structured.py` decides what the statements are, `python_writer.py` knows Python's syntax,
`vocabulary.py` how an operation is spelled; here the function is put together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jitlite.codegen.last_uses import may_be_large
from jitlite.codegen.python.limits import check_depth
from jitlite.codegen.python.python_writer import PythonWriter
from jitlite.codegen.python.vocabulary import GeneratedVocabulary, Runner
from jitlite.codegen.range_loops import with_range_loops
from jitlite.codegen.region_calls import with_open_regions
from jitlite.codegen.structured import Rules, Structure
from jitlite.codegen.tree import StructuredFunction
from jitlite.codegen.variables import identifier
from jitlite.interpreter.frames import exit_contexts
from jitlite.interpreter.python_code import PythonCode
from jitlite.ir.code_text import Identifier, joined, made_identifier
from jitlite.ir.compiling import make_room
from jitlite.ir.graph import Graph, Node
from jitlite.ir.regions import Implementation
from jitlite.ir.unit import Function


def translate(
    graph: Graph,
    name: str,
    runner_of: Callable[[Function], Runner],
    *,
    boxed: bool = False,
    objects: bool = False,
    regions: Sequence[Implementation | None] = (),
) -> PythonCode:
    """The Python function of a graph.

    Args:
        graph: what to run. It may not be changed later.
        name: the name of the function, for tracebacks.
        runner_of: gives what runs a function that the graph calls.
        boxed: the function takes its arguments in one list, which it empties, and forgets each after its last use; it
            gives its results in a list.
        objects: may there be objects such as dtypes among the arguments that are ints?
        regions: what runs each region of the graph, in the order of `regions_in`; a region without runs its block.

    Raises:
        CannotTranslate: where Python's own limits do not allow it, or the graph has something that cannot be run.
    """
    make_room(check_depth(graph))
    opened = with_open_regions(with_range_loops(graph), regions)
    words = GeneratedVocabulary(opened.graph, runner_of, opened.groups, objects)

    def is_expression(node: Node) -> bool:
        # within an expression, what an operand holds is not forgotten before the whole of it is computed
        return not (boxed and may_be_large(node.output.type)) and words.is_expression(node)

    rules = Rules(is_expression, words.is_in_order, words.is_statement, forgets=True, forgets_parameters=boxed)
    made = Structure(opened.graph, rules, opened.calls)
    words.reserve(made.variables.names)
    entry = words.fresh(identifier(name, "graph"))
    writer = PythonWriter(words, boxed)
    _write(writer, words, made.function(), entry)
    return PythonCode(name, writer.lines, words.names, entry)


def _write(writer: PythonWriter, words: GeneratedVocabulary, function: StructuredFunction, entry: Identifier) -> None:
    """Write the function under the name `entry`."""
    parameters = [parameter.name for parameter in function.parameters]
    box = words.fresh(made_identifier("arguments")) if writer.boxed else None
    for temporary in function.temporaries:
        temporary.name = words.fresh(temporary.name)
    writer.write("def {}({}):", entry, box or joined(", ", parameters))
    with writer.indented():
        if box is not None:
            writer.write("{}{}", writer.unpacked(function.parameters), box)
            writer.write("{}.clear()", box)
            writer.forget(function.unread)
        if not words.has_contexts:
            writer.statements(function.body)
            return
        # the managers entered are kept in a list: whatever is raised, those not left yet are left
        writer.write("_entered = []")
        writer.write("try:")
        writer.body(function.body)
        writer.write("except BaseException as _error:")
        with writer.indented():
            writer.write("raise {}(_entered, 0, _error)", words.bind(exit_contexts, "exit_contexts"))
