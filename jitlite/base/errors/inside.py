"""Kinds of errors: graphs, passes, and what no program causes by itself."""

from __future__ import annotations

from jitlite.base.errors.kinds import ErrorKind
from jitlite.base.source import CompileError, NotSupportedError

BAD_GRAPH_TEXT = ErrorKind(
    CompileError,
    "J0901",
    "text that is no graph",
    """
    The text of a graph does not follow TorchScript's form: docs/ir.md describes it. The place is where the reader
    stopped.
    """,
    wrong="""
from jitlite.ir.parser import parse

graph = parse("graph(%x : int):\\n  return (%y)\\n")
print(graph)
""",
    right="""
from jitlite.ir.parser import parse

graph = parse("graph(%x : int):\\n  return (%x)\\n")
print(graph)
""",
)

BAD_PATTERN = ErrorKind(
    CompileError,
    "J0902",
    "pattern that matches nothing",
    """
    A pattern of graphs is one group of connected nodes without blocks, and returns what they compute.
    """,
)

NO_REWRITE = ErrorKind(
    CompileError,
    "J0903",
    "graph that a pass cannot change as asked",
    """
    A pass that was asked for by name needs a property that the graph does not have: lower_tuples, for instance, needs
    tuples whose elements are all used by known positions. Pipelines ask for no such pass.
    """,
)

NOT_RUNNABLE = ErrorKind(
    CompileError,
    "J0904",
    "graph that cannot be run",
    """
    The graph has an operator that nothing here implements, a call of a function that is only a name, or a function of
    Python that is not there.
    """,
)

BAD_SOURCE_PART = ErrorKind(
    NotSupportedError,
    "J0905",
    "name or value that cannot stand in generated source",
    """
    Generated source takes names that are identifiers and values that have a literal, so that no text of an archive or
    a graph can become code.
    """,
)

TORCH_LACKS = ErrorKind(
    NotSupportedError,
    "J0906",
    "version of torch that lacks something",
    """
    A part of torch that torch does not document is missing in this version. `jitlite doctor` lists all of them, and
    what is done without each.
    """,
)
