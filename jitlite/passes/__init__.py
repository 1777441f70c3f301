"""Passes: graph -> graph. `run(graph, "inline,cse,dce")` runs several in order."""

from jitlite.passes.registry import PassHook, find, names, run

__all__ = ["PassHook", "find", "names", "run"]
