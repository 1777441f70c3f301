"""The stages that a function goes through, in order, and what each is, in a sentence."""

from __future__ import annotations

ABOUT_STAGES: dict[str, str] = {
    "tree": "The abstract syntax, as the parser read it.",
    "emitted": "The graph as the tree was walked: variables are stored and loaded, returns stay where they stand.",
    "variables": "Branches and loops get inputs and outputs for the variables that they set.",
    "loop exits": "A `break` or `continue` becomes a value that says whether the loop goes on.",
    "loop conditions": "The condition of a loop is computed before it, and again at the end of its body.",
    "ssa": "Variables are gone: each use refers to the value that was stored last.",
    "exits": "A `return` or `raise` within a block becomes a flag that what follows asks.",
    "local calls": "Functions that are defined within the function stand where they are called.",
    "lists": "A `for` over a list that its body makes longer sees the new elements too.",
    "loops": "A loop with a bound and a condition becomes one with a condition only.",
    "normalize": "Operators that have several names get the usual one.",
    "shown sequences": "What prints values prints lists and sizes as Python does.",
    "closures": "Blocks that run at another time become graphs of their own.",
    "forks": "What `fork` starts becomes a graph that the node holds.",
    "graph": "The graph after cleanup: what the function means, each value with one definition (SSA).",
    "optimized": "The optimized graph, right for all arguments.",
    "bytecode": "The bytecode of the stack machine, the reference for whatever else runs.",
    "python": "The generated Python function that calls run.",
}
"""Names as `ScriptFunction.stages` has them; where a word is needed, a hyphen stands for each blank."""
