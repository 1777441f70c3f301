"""What a debugger needs in a program: `breakpoint()`, and the marks of graphs that keep the variables of a script."""

from __future__ import annotations

from jitlite.ir.ops import Effect, op, structural
from jitlite.ir.traits import Spelling, Trait

structural(
    "prim::Variable(Any value) -> ()",
    Effect.SIDE,
    "The variable `name` of the script has the value from here on. Only in graphs for the debugger.",
)
structural(
    "prim::Line() -> ()",
    Effect.SIDE,
    "A statement begins, a `loop` or another, or a `return` or `break` that `leaves` its block is done. "
    "Only in graphs for the debugger.",
    traits=(Spelling.OPCODE("LINE"),),
)
op(
    "prim::Breakpoint() -> ()",
    Effect.SIDE,
    doc="`breakpoint()`: the debugger opens here.",
    traits=(
        Trait.KEEPS_MODES,
        Trait.KEEPS_FACTS,
        Trait.SILENT,
        Trait.REFUSED_IN_ARCHIVES,
        Spelling.OPCODE("BREAKPOINT"),
        Spelling.LOST("the breakpoint"),
    ),
)(breakpoint)
