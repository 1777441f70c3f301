"""Exercise 7: more gradients.

pytest docs/from_scratch/exercises/test_ex7_formulas.py
"""

from __future__ import annotations

from collections.abc import Callable

from graphs import Value

MORE_FORMULAS: dict[str, Callable[..., tuple[Value, ...]]] = {}
"""Formulas for aten::sigmoid, aten::abs and aten::maximum, as those of `ch7_autodiff.FORMULAS`."""
