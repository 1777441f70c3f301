"""The tree between graphs and text: what is decided in it, and that writers decide nothing of that themselves."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path
from typing import Any

import pytest
from strategies import compile_source

import jitlite
from jitlite.base.records import Record
from jitlite.base.source import NotSupportedError
from jitlite.codegen import tree, variables
from jitlite.codegen.python.python_tier import translate
from jitlite.codegen.python.vocabulary import GeneratedVocabulary
from jitlite.codegen.range_loops import with_range_loops
from jitlite.codegen.structured import Rules, Structure
from jitlite.codegen.tree import Name, Operation
from jitlite.codegen.variables import Variable
from jitlite.export.to_python.python_function import ReadableVocabulary
from jitlite.ir.code_text import made_identifier, numbered
from jitlite.ir.graph import Graph

PACKAGE = Path(jitlite.__file__).parent


def no_runner(function: object) -> Any:
    raise AssertionError("nothing is run")


def structured(graph: Graph, **rules: Any) -> tree.StructuredFunction:
    graph = with_range_loops(graph)
    words = GeneratedVocabulary(graph, no_runner)
    return Structure(graph, Rules(words.is_expression, words.is_in_order, words.is_statement, **rules)).function()


def optimized(source: str) -> Graph:
    """The graph that is run for the function `f` of a source."""
    graph: Graph = jitlite.script(compile_source(textwrap.dedent(source))["f"]).executor.optimized_graph
    return graph


def sketch(value: Any) -> Any:
    """A statement or expression as nested tuples: its class, and what it is made of but places."""
    if isinstance(value, tuple):
        return [sketch(part) for part in value]
    if isinstance(value, Name):
        return str(value.variable.name)
    if isinstance(value, Operation):
        return (value.node.kind.partition("::")[2], *map(sketch, value.operands))
    if isinstance(value, Variable):
        return str(value.name)
    if not isinstance(value, Record):
        return value
    fields = [name for name in value.field_names if name not in ("place", "values")]
    if isinstance(value, tree.ReturnValues | tree.Exchange):
        fields.append("values")
    return (type(value).__name__, *(sketch(getattr(value, name)) for name in fields))


# -- what is decided


def test_a_loop_over_a_range_that_is_left_early():
    graph = optimized("""
        def f(xs: List[int], n: int) -> int:
            found = -1
            for i in range(2, n):
                if xs[i] + i == n:
                    found = i
                    break
                if i > 100:
                    found = -2
                    break
            return found
        """)
    (start, loop, end) = sketch(structured(graph).body)
    assert start == ("AssignVariable", "found", ("Constant", -1))
    counter = loop[1]
    assert loop == ("ForLoop", counter, ("Range", "n", ("Constant", 2), None), None, [
        ("IfBlock", ("eq", ("add", ("__getitem__", "xs", counter), counter), "n"),
            [("AssignVariable", "found", counter), ("LeaveLoop",)], []),
        ("IfBlock", ("gt", counter, ("Constant", 100)),
            [("AssignVariable", "found", ("Constant", -2)), ("LeaveLoop",)], []),
    ])  # fmt: skip
    assert end == ("ReturnValues", ["found"])


def test_variables_change_places_at_once():
    graph = optimized("""
        def f(n: int, a: int, b: int) -> Tuple[int, int]:
            for i in range(n):
                a, b = b, a
            return a, b
        """)
    (loop, _) = structured(graph).body
    assert isinstance(loop, tree.ForLoop) and loop.target is None
    (swap,) = loop.body
    assert isinstance(swap, tree.Exchange)
    assert [v.variable for v in swap.values if isinstance(v, Name)] == [*reversed(swap.targets)]


def test_a_condition_with_a_variable_of_its_own():
    graph = optimized("""
        def f(xs: List[int]) -> int:
            t = 0
            while len(xs) > 0 and xs.pop() > 0:
                t += 10 if len(xs) > 0 else 100
            return t
        """)
    made = structured(graph)
    (goes_on,) = made.temporaries
    loop = next(s for s in made.body if isinstance(s, tree.WhileLoop))
    assert loop.condition == Name(goes_on)
    assert any(isinstance(s, tree.AssignVariable) and s.target is goes_on for s in loop.body)


CONTEXTS = """
    def f(x: Tensor, c: bool) -> Tensor:
        with torch.no_grad():
            y = x + 1
            with torch.enable_grad():
                y = y * 2
        return y
    """


def test_contexts_are_statements_only_in_languages_that_have_them():
    graph = optimized(CONTEXTS)
    kinds = [type(s).__name__ for s in structured(graph).body]
    assert "WithBlock" not in kinds and kinds.count("Perform") == 4
    outer = next(s for s in structured(graph, has_with=True).body if isinstance(s, tree.WithBlock))
    assert [type(s).__name__ for s in outer.body if not isinstance(s, tree.AssignVariable | tree.Evaluate)] == [
        "WithBlock"
    ]


def test_a_context_that_is_left_elsewhere_is_refused_with_its_line():
    graph = optimized(CONTEXTS)
    graph = graph.copy()
    last = [n for n in graph.all_nodes() if n.kind == "prim::Exit"][-1]
    last.destroy()
    with pytest.raises(NotSupportedError, match="not left in the block") as caught:
        structured(graph, has_with=True)
    assert caught.value.range is not None and caught.value.range.line == 3


# -- places


def every_part(value: Any) -> Any:
    if isinstance(value, tuple):
        for part in value:
            yield from every_part(part)
    elif isinstance(value, Name | Record):
        yield value
        for name in ("variable",) if isinstance(value, Name) else value.field_names:
            yield from every_part(getattr(value, name))


def many_branches(count: int) -> str:
    lines = ["def f(x: Tensor, k: int) -> Tensor:", *(f"    y{i} = x + {i}" for i in range(count))]
    for i in range(count):
        lines += [f"    if k > {i}:", "        x = x * 2", "    else:", f"        x = x + y{i}"]
    return "\n".join([*lines, "    return x\n"])


def test_what_is_alive_behind_branches_is_one_range():
    def ranges(count: int) -> int:
        graph = optimized(many_branches(count))
        words = GeneratedVocabulary(graph, no_runner)
        made = Structure(graph, Rules(words.is_expression, words.is_in_order, words.is_statement))
        return sum(len(variable.ranges) for variable in made.variables)

    few, some, many = ranges(10), ranges(20), ranges(30)
    assert many - some == some - few


def test_numbers_of_names_are_not_looked_for_anew(monkeypatch):
    given = []
    monkeypatch.setattr(variables, "numbered", lambda base, number: given.append(number) or numbered(base, number))
    taken: set[str] = set()
    numbers: dict[Any, int] = {}
    names = [variables.unused(made_identifier("v"), taken, numbers) for _ in range(50)]
    assert names[:3] == ["v", "v_1", "v_2"] and len(set(names)) == 50
    assert given == list(range(1, 50))


SPREAD = """
    def f(x: Tensor, xs: List[int], n: int) -> Tensor:
        y = (
            x[:, 1:].exp() +
            xs[n + 1]
        )
        while n > 0 and xs[n] != 7:
            n -= 1
            if n == 3:
                y = y * 2
                break
        return y if n > 2 else (
            y.log()
        )
    """


def test_everything_has_the_line_it_comes_from():
    graph = optimized(SPREAD)
    lines = set()
    for part in every_part(structured(graph, forgets=True)):
        if isinstance(part, Record) and "place" in part.field_names:
            assert part.place is not None and part.place.range is not None, part
            lines.add(part.place.range.line)
    assert lines == {4, 5, 7, 8, 9, 10, 12, 13}


def test_places_of_parts_of_lines_are_columns_of_operations():
    """Their spans are not found in the text, so they have to agree with what Python makes of it."""
    graph = optimized(SPREAD)
    code = translate(graph, "f", no_runner)
    found = {}
    for node in ast.walk(ast.parse(code.source)):
        if isinstance(node, ast.Subscript | ast.Call | ast.BinOp):
            place = code.place_of(node.lineno, node.col_offset, node.end_col_offset)
            found[ast.unparse(node)] = place.range.line
    assert found["x[:, 1:]"] == 4
    assert found["xs[n + 1]"] == found["n + 1"] == 5
    assert next(line for text, line in found.items() if text.startswith("_log(")) == 13


# -- one tree, and writers that share nothing else


@pytest.mark.parametrize("cls", [GeneratedVocabulary, ReadableVocabulary])
def test_no_writer_is_another_one_with_other_methods(cls):
    assert cls.__mro__ == (cls, object)


def test_writers_do_not_look_into_lines_that_they_wrote():
    """Layout is decided in the tree: a line that was written is read only to be put out."""
    for path in (*(PACKAGE / "codegen" / "python").glob("*.py"), PACKAGE / "export/to_python/python_function.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("lines"):
                raise AssertionError(f"{path}:{node.lineno}: {ast.unparse(node)}")
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                looks = node.func.attr in ("startswith", "endswith", "lstrip", "strip", "find", "index")
                assert not (looks and "line" in ast.unparse(node.func.value)), f"{path}:{node.lineno}"
