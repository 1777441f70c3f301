"""Exercise 4: a pass of your own.

pytest docs/from_scratch/exercises/test_ex4_simplify.py
"""

from __future__ import annotations

from graphs import Graph


def simplify(graph: Graph) -> bool:
    """Where an operation with a constant changes nothing, let its users use its operand: `x * 1` is `x`.

    Rules for `x + 0`, `0 + x`, `x - 0`, `x * 1`, `1 * x`, with constants of type int or float. Each rule may only be
    applied where the result is the operand for every value of it: the same number, the same type, the same sign of
    zero. The tests know where that is.

    Returns:
        Was there anything to change?
    """
    raise NotImplementedError
