"""Exercise 8: more machine code.

pytest docs/from_scratch/exercises/test_ex8_lanes.py
"""

from __future__ import annotations

MORE_LANES: dict[str, str] = {}
"""What aten::abs, aten::sigmoid and aten::maximum do with one element, as in `ch8_kernel.LANES`."""
