"""Golden tests of passes: graph text in, graph text out.

A file `golden/passes/<pass>.txt` holds cases:

    --- case: what the case shows
    graph(%x : Tensor):
      return (%x)
    --- dce
    same

The second heading is the pipeline to run; `same` says that it must change nothing (and say so); a line
`error: text` that it must fail with that text. Several headings run one after the other. A case may begin with
functions that the graph calls:

    --- function double
    graph(%x : Tensor): ...
    --- graph
    graph(%x : Tensor): ...
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from faults import FAULTS, RARE_FAULTS

from jitlite.base.source import CompileError
from jitlite.ir.graph import Graph
from jitlite.ir.parser import parse
from jitlite.ir.schema import Argument, function_schema
from jitlite.ir.unit import Function
from jitlite.ir.verify import verify
from jitlite.passes import registry

FILES = sorted((Path(__file__).parents[1] / "golden" / "passes").glob("*.txt"))


@dataclass
class Case:
    """One case: its title, and the headings with the text under each."""

    title: str
    sections: list[tuple[str, str]] = field(default_factory=list)

    def text(self) -> str:
        parts = []
        for number, (heading, body) in enumerate(self.sections):
            parts.append(f"--- case: {self.title}\n" if number == 0 else "")
            parts.append(f"--- {heading}\n" if number or heading != "graph" else "")
            parts.append(body)
        return "".join(parts)


def read_cases(path: Path) -> list[Case]:
    cases: list[Case] = []
    for piece in re.split(r"^--- ", path.read_text(), flags=re.MULTILINE)[1:]:
        heading, _, body = piece.partition("\n")
        body = body.strip("\n") + "\n" if body.strip() else ""
        if heading.startswith("case: "):
            cases.append(Case(heading.removeprefix("case: ")))
            if body:
                cases[-1].sections.append(("graph", body))
        else:
            cases[-1].sections.append((heading, body))
    return cases


def run_case(case: Case) -> Case:
    """The case with what really comes out."""
    functions: dict[str, Function] = {}
    graph: Graph | None = None
    outcome = Case(case.title)
    for heading, body in case.sections:
        if heading.startswith("function "):
            name = heading.removeprefix("function ")
            functions[name] = define(name, body, functions)
        elif heading == "graph":
            graph = read_graph(body, functions)
        else:
            assert graph is not None, f"case {case.title!r} has no graph"
            body = outcome_of(graph, heading)
        outcome.sections.append((heading, body))
    return outcome


def define(name: str, text: str, functions: dict[str, Function]) -> Function:
    function = functions[name] = Function(name)
    function.graph = graph = read_graph(text, functions)
    arguments = [Argument(v.name, v.type) for v in graph.inputs]
    function.schema = function_schema(name, arguments, [v.type for v in graph.outputs])
    return function


def read_graph(text: str, functions: dict[str, Function]) -> Graph:
    graph = parse(text, functions=functions)
    verify(graph)
    assert str(parse(str(graph), functions=functions)) == str(graph), "the text does not read back"
    return graph


def outcome_of(graph: Graph, pipeline: str) -> str:
    before = graph.to_text(ranges=False)
    try:
        changed = registry.run(graph, pipeline, registry.PassHook(verify=True))
    except (CompileError, registry.PassError) as error:
        assert graph.to_text(ranges=False) == before, "the pass failed after it had changed the graph"
        return f"error: {str(error).splitlines()[0]}\n"
    after = graph.to_text(ranges=False)
    assert changed or after == before, f"{pipeline} changed the graph and did not say so"
    assert not changed or after != before or "inline" in pipeline, f"{pipeline} said it changed the graph and did not"
    return after if changed else "same\n"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_passes_do_what_the_golden_file_says(path, accept):
    cases = read_cases(path)
    outcomes = [run_case(case) for case in cases]
    if accept:
        text = "\n".join(outcome.text() for outcome in outcomes)
        if text != path.read_text():
            path.write_text(text)
            pytest.fail(f"{path.name} was rewritten: look at the difference before you commit it")
    for case, outcome in zip(cases, outcomes, strict=True):
        assert outcome.text() == case.text()


def test_every_pass_has_a_golden_file():
    assert {path.stem for path in FILES} == set(registry.names())


@pytest.mark.parametrize("name, plant", FAULTS + RARE_FAULTS, ids=[name for name, _ in FAULTS + RARE_FAULTS])
def test_the_golden_files_find(name, plant):
    cases = [case for path in FILES for case in read_cases(path)]
    with plant():
        assert any(is_noticed_by(case) for case in cases), f"no golden case notices the fault {name!r}"


def is_noticed_by(case: Case) -> bool:
    try:
        return run_case(case).text() != case.text()
    except Exception:
        return True
