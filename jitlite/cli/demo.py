"""`jitlite demo`: a function at every stage, then a real algorithm on real data."""

from __future__ import annotations

import inspect
import json
import os
import runpy
import time
from pathlib import Path
from typing import Any

from jitlite.api.script import script
from jitlite.cli import sample
from jitlite.cli.functions import STAGES, changing_stages, stage_heading, stages_of
from jitlite.cli.terminal import colored_graph, heading, paint
from jitlite.debug.equality import difference

_EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "nms_decoder.py"
"""In a checkout the demo goes on with this example; an installed package has no examples."""

_HOME = os.path.join(Path(__file__).resolve().parents[2], "")
"""Where jitlite lies, which paths in the demo leave out."""

_SHOWN = ("tree", "emitted", "graph", "optimized", "bytecode", "python")
_LONGEST_STAGE = 6
"""Lines shown of each stage, so that the demo fits on two screens; `jitlite show` prints all of them."""
_TARGET = "jitlite.cli.sample:collapse"
_GREETING = """\
jitlite compiles Python functions for PyTorch in stages. Each stage has a text that you can look at: this is what one
function becomes, the beginning of each stage. docs/how_to_read_a_graph.md reads such texts line by line."""


def run(as_json: bool = False) -> int:
    """Run the demo; returns the exit status: 1 if a result differs from eager Python's."""
    started = time.perf_counter()
    function = script(sample.collapse)
    compiled = time.perf_counter() - started
    expected = sample.collapse(*sample.arguments())
    got = function(*sample.arguments())
    differs = difference(expected, got)
    if as_json:
        print(json.dumps(_summary(function.stages, got, differs), indent=1))
        return 1 if differs else 0
    print(_GREETING, heading("source"), inspect.getsource(sample.collapse).rstrip(), sep="\n")
    _show_stages(changing_stages(stages_of(function)))
    print(
        heading("result"), f"compiled in {1e3 * compiled:.1f} ms", f"jitlite: {got}", f"eager:   {expected}", sep="\n"
    )
    print(paint(f"they differ: {differs}", "red") if differs else paint("the same", "green"))
    status = 1 if differs else 0
    if _EXAMPLE.is_file():
        print("\n" + heading(f"a real algorithm on real data: examples/{_EXAMPLE.name}"))
        status |= int(runpy.run_path(str(_EXAMPLE))["main"]())
    print("\nnext: jitlite show FILE:FN --stage all, jitlite run FILE:FN ARGS, jitlite --help")
    return status


def _show_stages(texts: dict[str, str]) -> None:
    """The beginning of each stage, and of those that only lead from one to the next what they do."""
    steps = [name for name in texts if name not in _SHOWN]
    for name in _SHOWN:
        if name == "graph":
            print(heading("steps from there to the graph"), *(f"{step:16} {STAGES[step]}" for step in steps), sep="\n")
        print(stage_heading(name) + colored_graph(_cut(texts[name].replace(_HOME, ""))))
    print(f"\nall of it: jitlite show {_TARGET} --stage all; one: --stage {_SHOWN[0]}, {steps[0]}, ...")


def _summary(stages: Any, got: object, differs: str | None) -> dict[str, Any]:
    lines = {name: len(text.splitlines()) for name, text in stages.items()}
    return {"function": _TARGET, "lines": lines, "result": repr(got), "differs": differs}


def _cut(text: str) -> str:
    lines = text.rstrip().splitlines()
    if len(lines) > _LONGEST_STAGE:
        lines = [*lines[: _LONGEST_STAGE - 1], f"... {len(lines) - _LONGEST_STAGE + 1} more lines"]
    return "\n".join(lines)
