"""Calls of scripts that somebody else records: torch's own tracer, and torch.fx.

torch's tracer records operators, so what a script decides on the way would be frozen without a word. A script is traced
through only where nothing in it depends on the inputs but tensors; a test that can only raise may. Everything else is
refused. torch.fx gets one node for the whole call, as it does for functions of torch.jit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from jitlite.base import torch_internals
from jitlite.base.errors.ways_out import NO_TRACE
from jitlite.base.source import SourceRange
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node
from jitlite.ir.ops import Effect
from jitlite.ir.structure import Loop
from jitlite.ir.traits import Spelling, Trait
from jitlite.ir.types import Type

torchs_is_tracing = torch._C._is_tracing
"""Does torch's own tracer record this thread?"""

_HINT = (
    "put what torch.jit.load reads from the file that jitlite.save writes in place of the script, as a submodule "
    "of what is traced; or trace with jitlite.trace, which keeps the call"
)


class GivenToFx(Exception):
    """An argument is a stand-in of torch.fx, which is recording."""

    def __init__(self, proxy: torch.fx.Proxy) -> None:
        super().__init__("torch.fx is recording")
        self.proxy = proxy


def look_for_proxies(args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """Notice torch.fx.

    Raises:
        GivenToFx: an argument is one of its stand-ins.
    """
    for argument in (*args, *kwargs.values()):
        if isinstance(argument, torch.fx.Proxy):
            raise GivenToFx(argument)


def record_in_fx(function: Any, owner: object, name: str, proxy: torch.fx.Proxy, args: Any, kwargs: Any) -> Any:
    """Record the call as one node: of a function, or of a module that is a part of what is being traced."""
    tracer: Any = proxy.tracer
    if not isinstance(owner, torch.nn.Module):
        return tracer.create_proxy("call_function", function, tuple(args), dict(kwargs))
    path = tracer.path_of_module(owner)
    if name == "forward":
        return tracer.create_proxy("call_module", path, tuple(args), dict(kwargs))
    module = tracer.create_proxy("get_attr", path, (), {})
    return tracer.create_proxy("call_method", name, (module, *args), dict(kwargs))


def explain_export(error: BaseException) -> None:
    """Where torch.export is at work, say in a note how to export a script."""
    if torch_internals.is_exporting() and not any(_EXPORT in note for note in getattr(error, "__notes__", ())):
        note: Any = getattr(error, "add_note", None)  # Python 3.10 has no notes
        if note is not None:
            note(_EXPORT)


_EXPORT = (
    "This was raised in a script while torch.export was running it, which decides branches and loops by the example. "
    "jitlite.to_exported exports the script itself, with torch.cond and while_loop for what is open."
)


def refuse_to_be_frozen(name: str, graph: Graph) -> None:
    """See that torch's tracer gets all of what a script does.

    Args:
        graph: the optimized graph.

    Raises:
        NotSupportedError: it does not; the error names what depends on the inputs, and the line.
    """
    found = _Search(graph).run()
    if found is not None:
        what, place = found
        raise NO_TRACE.unsupported(f"torch's tracer would lose {what} in the script '{name}'", place, hint=_HINT)


class _InputDependence(Exception):
    def __init__(self, what: str, place: SourceRange | None) -> None:
        super().__init__(what)
        self.what, self.place = what, place


class _Search:
    """Looks for what depends on the inputs and is no tensor. `open` are the values that depend on them."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        # numbers that the caller gives are the caller's, as in eager code
        self.open = {v for v in graph.inputs if _has_tensors(v.type)}

    def run(self) -> tuple[str, SourceRange | None] | None:
        """What the tracer would lose first, and where; None where it loses nothing."""
        try:
            self._block(self.graph.block)
            for value in self.graph.outputs:
                if value in self.open and _has_numbers(value.type):
                    raise _InputDependence("the result that is no tensor", value.node.range)
        except _InputDependence as found:
            return found.what, found.place
        return None

    def _block(self, block: Block) -> None:
        for node in block.nodes:
            if node.kind in Spelling.LOST.by_kind:
                raise _InputDependence(Spelling.LOST.by_kind[node.kind], node.range)
            if node.kind == "prim::If":
                self._if(node)
            elif node.kind == "prim::Loop":
                self._loop(node)
            else:
                self._operator(node)

    def _operator(self, node: Node) -> None:
        given = [v for v in node.inputs if v in self.open]
        if not given:
            return
        if any(_has_tensors(v.type) for v in node.outputs) or not node.outputs:
            number = next((v for v in given if _has_numbers(v.type)), None)
            if number is not None and not node.has(Trait.RAISES_OR_WARNS):
                raise _InputDependence(f"'{number.node.kind}', a number that depends on the inputs,", node.range)
        self.open.update(node.outputs)

    def _if(self, node: Node) -> None:
        taken = [b for b in node.blocks if not _always_raises(b)]
        is_open = node.input in self.open
        if is_open and len(taken) > 1:
            self._only_numbers(node, "the branch that depends on the inputs")
            return
        for block in taken:
            self._block(block)
        for position, output in enumerate(node.outputs):
            if is_open or any(block.outputs[position] in self.open for block in taken):
                self.open.add(output)

    def _loop(self, node: Node) -> None:
        loop = Loop(node)
        carried = loop.carried
        if loop.max_iterations in self.open or loop.start_condition in self.open:
            self._only_numbers(node, "the loop that depends on the inputs")
            return
        self.open.update(c.parameter for c in carried if c.start in self.open)
        for _ in range(len(carried) + 1):  # until what is carried from one iteration to the next is known
            self._block(loop.body)
            more = {c.parameter for c in carried if c.following in self.open} - self.open
            if not more:
                break
            self.open |= more
        if loop.condition in self.open:
            self._only_numbers(node, "the loop that depends on the inputs")
        self.open.update(c.result for c in carried if {c.parameter, c.following} & self.open)

    def _only_numbers(self, node: Node, what: str) -> None:
        """Go on behind a decision about numbers: it matters where they are used. It may raise, and do nothing else."""
        if any(_has_tensors(v.type) for v in node.outputs) or not all(map(_is_of_numbers, _nested(node))):
            raise _InputDependence(what, node.range)
        self.open.update(node.outputs)


def _always_raises(block: Block) -> bool:
    return any(node.kind in ("prim::RaiseException", "prim::Raise", "prim::RaiseFrom") for node in block.nodes)


def _is_of_numbers(node: Node) -> bool:
    """Does a node do nothing that a trace would have to know of, but raise?"""
    if node.has(Trait.RAISES_OR_WARNS) or node.blocks or node.kind == "prim::Constant":
        return True
    is_pure = node.op is not None and node.op.effect is Effect.PURE
    return is_pure and not any(_has_tensors(v.type) for v in node.outputs)


def _nested(node: Node) -> Iterator[Node]:
    for block in node.blocks:
        for inner in block.nodes:
            yield inner
            yield from _nested(inner)


def _has_tensors(t: Type) -> bool:
    """Is it a tensor, or may there be some in it?"""
    if isinstance(t, T.TensorType | T.InterfaceType) or t is T.ANY or (isinstance(t, T.ClassType) and not t.is_module):
        return True
    parts = T.members_of(t) if isinstance(t, T.UnionType) else t.contained
    return any(_has_tensors(part) for part in parts)


def _has_numbers(t: Type) -> bool:
    """Is there anything in it but tensors and None?"""
    if isinstance(t, T.TensorType) or t is T.NONE:
        return False
    if isinstance(t, T.UnionType):
        return any(_has_numbers(m) for m in T.members_of(t))
    if isinstance(t, T.DictType):
        return _has_numbers(t.value)
    if isinstance(t, T.ListType | T.TupleType):
        return any(_has_numbers(part) for part in t.contained)
    return True
