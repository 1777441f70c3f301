"""What notebooks show of functions, modules and graphs."""

from __future__ import annotations

import re

import pytest
import torch
from test_report import GRAPH, HOSTILE, Page, Small

import jitlite


def checked(html: str) -> Page:
    page = Page(html)
    ids = [found["id"] for _, found in page.elements if "id" in found]
    links = [found["href"][1:] for found, _ in page.all("a")]
    assert len(ids) == len(set(ids)) and set(links) <= set(ids)
    assert {tag for tag, _ in page.elements} <= {"pre", "span", "a"}
    return page


def test_a_graph_shows_its_text():
    graph = jitlite.ir.parse(GRAPH)
    page = checked(graph._repr_html_())
    shown = [re.sub(r"^ *\d* *(?=(graph|%|return))", "", line) for line in page.all("pre")[0][1].splitlines()]
    assert shown == [line.strip() for line in GRAPH.splitlines()]


def test_a_function_links_its_graph_to_its_source():
    program = jitlite.CompilationUnit(HOSTILE)
    page = checked(program.f._repr_html_())
    assert page.all("a") and "<img src=x" in page.all("pre")[0][1]
    assert checked(program.f._repr_html_() + program.f._repr_html_())  # ids of each output are its own


def test_a_module_shows_its_modules():
    module = jitlite.script(Small())
    page = checked(module._repr_html_())
    assert "Linear" in page.all("pre")[0][1] and "forward" in page.all("pre")[1][1]
    checked(jitlite.script(torch.nn.Module())._repr_html_())


def scripted(x: torch.Tensor, limit: float) -> torch.Tensor:
    for _ in range(3):
        if bool(x.sum() > limit):
            x = x * 2
    return x


def test_a_schema_is_escaped():
    html = jitlite.script(scripted).schema._repr_html_()
    assert "scripted" in html and "-&gt; Tensor" in html and "->" not in html


def test_an_explanation_has_a_heading_for_each_subject():
    explained = jitlite.script(scripted).explain(torch.ones(2), 1.0)
    explained = type(explained)(explained.name, {**explained.sections, "<b>": ["<script>", "a & b"], "Empty": []})
    page = Page(explained._repr_html_())
    assert [text for _, text in page.all("b")] == list(explained.sections)
    assert "script" not in {tag for tag, _ in page.elements}
    assert len(page.all("li")) == sum(max(1, len(found)) for found in explained.sections.values())


def public_objects():
    function = jitlite.script(scripted)
    function(torch.ones(2), 1.0)
    module, unit = jitlite.script(Small()), jitlite.CompilationUnit("def f(x):\n  return x\n")
    return {
        "function": function, "module": module, "method": module.forward, "handle": module._c, "unit": unit,
        "empty unit": jitlite.CompilationUnit(), "traced": jitlite.trace(lambda x: x * 2, torch.ones(2)),
        "graph": function.graph, "optimized graph": function.optimized_graph, "block": function.graph.block,
        "inner block": next(n for n in function.graph.nodes if n.blocks).blocks[0], "value": function.graph.inputs[0],
        "node": next(iter(function.graph.nodes)), "schema": function.schema, "argument": function.schema.arguments[0],
        "type": function.graph.inputs[0].type, "tree": function.tree, "executor": function.executor,
        "state": function.get_debug_state(), "plan": function.get_debug_state().fallback,
        "explanation": function.explain(torch.ones(2), 1.0), "kernels": function.kernels,
        "report": function.report(), "list": jitlite.ScriptList([1, 2]), "dict": jitlite.ScriptDict({1: 2}),
        "python": jitlite.to_python(function),
    }  # fmt: skip


@pytest.mark.parametrize("name", public_objects())
def test_an_object_shows_itself_as_a_line_or_as_its_text(name):
    found = public_objects()[name]
    shown = repr(found)
    assert not re.search(r" at 0x[0-9a-f]+", shown)
    assert "\n" not in shown or shown == str(found)


def test_a_module_lists_what_it_has_of_its_forward():
    module = jitlite.script(Small())
    wanted = {"graph", "code", "stages", "explain", "report", "schema", "bytecode", "generated_code"}
    assert wanted <= set(dir(module))
    assert all(getattr(module, name) is not None for name in wanted)
    assert not wanted & set(dir(jitlite.script(torch.nn.Module())))
