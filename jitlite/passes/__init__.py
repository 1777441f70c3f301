"""Passes: graph -> graph. `run(graph, "inline,cse,dce")` runs several in order; `insert` puts one into plans."""

from jitlite.ir.match import Match, find_matches
from jitlite.passes.pipelines import insert
from jitlite.passes.registry import PassError, PassHook, find, graph_pass, names, run
from jitlite.passes.rewriting import rewrite

__all__ = [
    "Match", "PassError", "PassHook", "find", "find_matches", "graph_pass", "insert", "names", "rewrite", "run",
]  # fmt: skip
