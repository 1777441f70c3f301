"""Exercise 1: which variables does nobody read?

pytest docs/from_scratch/exercises/test_ex1_unused.py
"""

from __future__ import annotations

from ch1_tree import Tree


def unused(function: Tree) -> list[str]:
    """The parameters and variables of a function that are never read, in alphabetical order."""
    raise NotImplementedError
