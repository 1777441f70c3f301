"""Exercise 2: is a graph well formed?

pytest docs/from_scratch/exercises/test_ex2_verify.py
"""

from __future__ import annotations

from graphs import Graph


def verify(graph: Graph) -> None:
    """Check a graph.

    Raises:
        ValueError: if a value is defined twice, or is used where it is not defined: before its node, or outside the
            block that it belongs to. Blocks may use the values of the blocks around them.
    """
    raise NotImplementedError
