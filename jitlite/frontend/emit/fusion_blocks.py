"""`with torch.jit.strict_fusion():`, which changes nothing in a script."""

from __future__ import annotations


class StrictFusion:
    """What scripts have for `torch.jit.strict_fusion` and for jitlite's, both of which warn where Python runs them.

    It has the name of torch's, under which archives know it.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


StrictFusion.__module__ = "torch.jit"
StrictFusion.__qualname__ = StrictFusion.__name__ = "strict_fusion"
