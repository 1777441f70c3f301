"""What Python's `print` does and TorchScript's does not."""

from __future__ import annotations

import sys

from jitlite.ir.ops import Effect, op
from jitlite.ir.traits import Spelling, Trait


@op(
    "python::print(str text, str end, bool to_stderr) -> ()",
    Effect.SIDE,
    traits=(Trait.KEEPS_MODES, Trait.KEEPS_FACTS, Trait.SILENT, Spelling.LOST("what is printed")),
)
def print_text(text: str, end: str, to_stderr: bool) -> None:
    """`print(text, end=end, file=sys.stderr)`; without `to_stderr`, on the standard output."""
    print(text, end=end, file=sys.stderr if to_stderr else None)
