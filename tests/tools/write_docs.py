"""Write the generated pages of docs/ anew: `make docs`."""

from __future__ import annotations

from pathlib import Path

from jitlite.base.errors.catalog import codes_markdown
from jitlite.interpreter.instruction_docs import reference
from jitlite.operators.operator_docs import operators_markdown
from jitlite.passes.registry import passes_markdown

GENERATED = {"operators.md": operators_markdown, "instructions.md": reference, "passes.md": passes_markdown,
             "error_codes.md": codes_markdown}  # fmt: skip
"""Page -> the function that gives its text."""

if __name__ == "__main__":
    for name, text in GENERATED.items():
        (Path(__file__).parents[2] / "docs" / name).write_text(text())
