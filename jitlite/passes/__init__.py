"""Passes: graph -> graph. `run(graph, "inline,cse,dce")` runs several in order."""

from jitlite.ir.match import Match, find_matches
from jitlite.passes.registry import PassHook, find, names, run
from jitlite.passes.rewriting import rewrite

__all__ = ["Match", "PassHook", "find", "find_matches", "names", "rewrite", "run"]
