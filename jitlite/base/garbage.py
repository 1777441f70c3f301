"""Work during which no garbage is collected."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Within the `with`, Python's garbage collector rests.

    It is for work that makes many objects that stay, as an import does: collecting meanwhile finds nothing, and goes
    over all that torch has made. What is there at the end counts as old, or the next collections would go over it.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            _count_all_as_old()
            gc.enable()


def _count_all_as_old() -> None:
    if gc.get_freeze_count() == 0:  # else the program has set objects aside, which would come back
        gc.freeze()
        gc.unfreeze()
