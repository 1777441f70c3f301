"""Runs notebooks as Jupyter does, without it: cell after cell, with the last expression of each shown."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import linecache
from pathlib import Path
from typing import Any


def read(path: Path) -> dict[str, Any]:
    """A notebook as data."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def run(path: Path) -> list[tuple[str, str, object]]:
    """Run the code cells of a notebook. Of each, give the source, what it printed and what it showed last."""
    names: dict[str, object] = {"__name__": "__main__"}
    done = []
    for number, cell in enumerate(read(path)["cells"]):
        if cell["cell_type"] == "code":
            done.append(_run_cell("".join(cell["source"]), f"<{path.name}, cell {number}>", names))
    return done


def _run_cell(source: str, place: str, names: dict[str, object]) -> tuple[str, str, object]:
    linecache.cache[place] = (len(source), None, source.splitlines(keepends=True), place)
    module, printed, shown = ast.parse(source), io.StringIO(), None
    last = module.body.pop() if module.body and isinstance(module.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(module, place, "exec", dont_inherit=True), names)
        if isinstance(last, ast.Expr):
            shown = eval(compile(ast.Expression(last.value), place, "eval", dont_inherit=True), names)
    return source, printed.getvalue(), shown


def html_of(shown: object) -> str:
    """What a notebook displays: the object's own markup where it has some, else its text."""
    markup = getattr(shown, "_repr_html_", None)
    return repr(shown) if markup is None else str(markup())
