"""Exercise 3: the way back, from a graph in SSA form to Python.

pytest docs/from_scratch/exercises/test_ex3_to_python.py
"""

from __future__ import annotations

from graphs import Graph


def to_python(graph: Graph) -> str:
    """The text of a function `f` that computes what the graph does.

    The value %3 is the variable `v3`. A node is a call of what its operator computes:

        v3 = OPERATORS["aten::add"].function(v1, v2)
    """
    raise NotImplementedError
