"""What notebooks show of functions, modules and graphs."""

from __future__ import annotations

import re

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
