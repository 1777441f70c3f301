"""Every example runs, prints something and is content with what it finds."""

from __future__ import annotations

import runpy
from pathlib import Path

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
