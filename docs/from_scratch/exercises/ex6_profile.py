"""Exercise 6: where does the time go?

pytest docs/from_scratch/exercises/test_ex6_profile.py
"""

from __future__ import annotations

from ch6_interpreter import ScriptFunction


def profile(function: ScriptFunction, *args: object) -> tuple[object, dict[int, int]]:
    """Call a function. Give its result, and how many instructions ran for each line of its source.

    Lines for which nothing ran are not there.
    """
    raise NotImplementedError
