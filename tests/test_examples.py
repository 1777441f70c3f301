"""Every example runs, prints something and is content with what it finds."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import notebooks
import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_example(path, capsys):
    assert runpy.run_path(str(path))["main"]() == 0
    assert capsys.readouterr().out.strip()


def test_data_is_what_its_script_makes(tmp_path):
    folder = Path(__file__).parent.parent / "examples" / "data"
    made = runpy.run_path(str(folder / "make_data.py"))
    rng = made["random"].Random(20)
    made["write"].__globals__["HERE"] = tmp_path
    made["write"]("detections.csv", ["x1", "y1", "x2", "y2", "class", "score"], made["detections"](rng))
    assert (tmp_path / "detections.csv").read_text() == (folder / "detections.csv").read_text()


NOTEBOOKS = sorted((Path(__file__).parent.parent / "examples").glob("*.ipynb"))
WITH_MARKUP = (
    "settle",
    "settle.schema",
    "settle.graph",
    "settle.optimized_graph",
    "settle.explain",
    "settle.report",
    "graph",
    "net",
)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_notebook(path):
    shown = {}
    for source, printed, last in notebooks.run(path):
        assert printed or last is not None, source
        shown[source.splitlines()[-1].partition("(")[0]] = last
    for name in WITH_MARKUP:
        assert hasattr(shown[name], "_repr_html_"), name
        assert len(notebooks.html_of(shown[name])) > 50


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_is_kept_without_outputs_and_its_links_lead_somewhere(path):
    found = notebooks.read(path)
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in found["cells"]}) == len(found["cells"]) > 10
    for cell in found["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None
        else:
            for target in re.findall(r"\]\(([^)#]+)", "".join(cell["source"])):
                assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_is_one_to_jupyter(path):
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbformat.validate(nbformat.read(path, as_version=4))
