"""Writing a prepared graph as FX graphs: one for the function, one for each branch and body within it."""

from __future__ import annotations

import enum
import keyword
import operator
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import fx

from jitlite.analysis.alias import AliasDb
from jitlite.analysis.effects import effect_of
from jitlite.base.errors.ways_out import NOT_AS_FX
from jitlite.base.source import NotSupportedError, SourceRange
from jitlite.export.to_fx import fx_calls
from jitlite.export.to_fx.control_flow import Root
from jitlite.export.to_fx.fx_calls import FxCall, is_importable, operator_call
from jitlite.export.to_fx.fx_modules import KEPT, ROOT, check_name
from jitlite.export.to_fx.fx_pickling import RENAMED
from jitlite.export.to_fx.preparation import Prepared, is_plain
from jitlite.ir import types as T
from jitlite.ir.code_text import Identifier, comment, identifier, is_attribute_path_part, is_identifier, made_identifier
from jitlite.ir.constants import QualifiedClassName
from jitlite.ir.graph import Block, Node, Use, Value, constant_of, is_constant
from jitlite.ir.int_codes import is_int_coded
from jitlite.ir.ops import Effect, Op
from jitlite.ir.traits import Trait
from jitlite.operators import containers, tensors

_READERS = frozenset(
    {containers.list_item, containers.list_slice, len, operator.contains, tensors.tensor, sum, max, min}
)
"""Functions that read a list and keep nothing of it."""

_SUFFIX = re.compile(r"\.\d+$")


class FxExport:
    """What the scopes of one conversion share.

    Args:
        kinds: how nodes that are no calls of an operator are written, by kind (`fx_kinds.py`).
        write_with: how the nodes between `prim::Enter` and `prim::Exit` are written.
    """

    def __init__(
        self,
        prepared: Prepared,
        root: torch.nn.Module,
        for_export: bool,
        kinds: dict[str, Callable[[FxScope, Node], None]],
        write_with: Callable[[FxScope, Node, Sequence[Node]], None],
    ) -> None:
        self.prepared = prepared
        self.root = root
        self.for_export = for_export
        self.kinds = kinds
        self.write_with = write_with
        self._aliases: AliasDb | None = None
        self._constants: dict[int, str] = {}
        self._writers = [n for n in prepared.graph.all_nodes() if effect_of(n) is Effect.WRITE]

    @property
    def writes(self) -> bool:
        """Does the graph write anything in place?"""
        return bool(self._writers)

    @property
    def aliases(self) -> AliasDb:
        if self._aliases is None:
            self._aliases = AliasDb(self.prepared.graph)
        return self._aliases

    def is_written_outside(self, node: Node) -> bool:
        """Does something other than what is in the node write what the node gives?"""
        outside = [n for n in self._writers if not any(n.is_inside(b) for b in node.blocks)]
        written = self.aliases.all_reachable(node.outputs) if outside and node.outputs else None
        return written is not None and any(self.aliases.writes(n) & written for n in outside)

    def store(self, value: object, base: str) -> str:
        """Keep a constant as an attribute of the module; gives its name."""
        name = self._constants.get(id(value))
        if name is None:
            number = 0
            while hasattr(self.root, f"_{base}{number}"):
                number += 1
            name = self._constants[id(value)] = f"_{base}{number}"
            vars(self.root)[name] = value
        return name

    def written_target(self, target: str) -> str:
        """The path of an attribute as FX can write it: what is behind a name that it cannot gets a second, plain name.

        Raises:
            NotSupportedError: it is a tensor whose own name is a keyword, or the like.
        """
        parts = target.split(".")
        unwritable = [i for i, part in enumerate(parts) if not is_attribute_path_part(part)]
        if not unwritable:
            return target
        end = unwritable[-1] + 1
        found: Any = self.root
        for part in parts[:end]:
            found = getattr(found, part)
        if not isinstance(found, torch.nn.Module):
            why = "a name that is a keyword" if keyword.iskeyword(parts[end - 1]) else "a name that is no identifier"
            raise NOT_AS_FX(f"the attribute {target!a} has {why}, which FX cannot write")
        return ".".join([self.store(found, RENAMED), *parts[end:]])

    # -- what need not be a node of its own
    def is_inline(self, node: Node) -> bool:
        """Is it a display that can be written wherever it is read?"""
        if node.kind == "prim::TupleConstruct":
            t = node.output.type
            return isinstance(t, T.TupleType) and t.names is None
        if node.kind == "prim::DictConstruct" and not all(map(is_constant, node.inputs[::2])):
            return False
        if node.kind not in ("prim::ListConstruct", "prim::DictConstruct"):
            return False
        uses = node.output.uses
        if len(uses) == 1 and self._is_given_away(uses[0], node):
            return True
        return all(_keeps_nothing(use) for use in uses)

    def _is_given_away(self, use: Use, node: Node) -> bool:
        """Is the value put into something that is made, or returned, in the block where it is made?"""
        if use.user.block is not node.block:
            return False
        if use.user.kind == "prim::Return":
            return True
        return use.user.kind in ("prim::TupleConstruct", "prim::ListConstruct") and self.is_inline(use.user)


def _keeps_nothing(use: Use) -> bool:
    op = use.user.op
    if op is None or op.effect not in (Effect.PURE, Effect.RANDOM, Effect.WRITE):
        return False
    if op.overload is not None:  # the dispatcher's operators never write a list itself, and keep none
        return True
    return op.fn in _READERS


class FxScope:
    """One FX graph that is being written.

    Args:
        parent: the scope around a branch or body.
        holder: the module that gets the branches and bodies of this one as attributes.
    """

    def __init__(self, conversion: FxExport, parent: FxScope | None, holder: torch.nn.Module) -> None:
        self.conversion = conversion
        self.prepared = conversion.prepared
        self.parent = parent
        self.holder = holder
        self.graph = fx.Graph()
        self.values: dict[Value, Any] = {}
        self.attributes: dict[str, fx.Node] = {}
        self.captured: dict[object, tuple[object, fx.Node]] = {}
        """What is read from around: what it is there, and the placeholder here, by value or name."""

    # -- reading
    def read(self, value: Value) -> Any:
        """What stands for a value in this graph: a node, or a literal."""
        if value in self.values:
            return self.values[value]
        node = value.node
        if node.kind == "prim::Constant":
            return self._constant(constant_of(value), node)
        if node.kind == "prim::Uninitialized":
            return None
        if self.conversion.is_inline(node):
            return self._display(node)
        if self.is_fixed_attribute(value):
            return self._attribute(value)
        if self.parent is None:
            raise self.refusal(f"{node.kind} is used where its value is not available", node)
        return self._capture(value, partial(self.parent.read, value), value.name)

    def _capture(self, key: object, outer: Callable[[], object], name: str) -> Any:
        if key not in self.captured:
            given = outer()
            if not has_nodes(given):
                return given
            self.captured[key] = given, self.placeholder(name)
        return self.captured[key][1]

    def placeholder(self, name: str) -> fx.Node:
        """A new parameter, behind those that there are."""
        last = next((n for n in reversed(self.graph.nodes) if n.op == "placeholder"), None)
        with self.graph.inserting_after(last) if last else self.graph.inserting_before(_first(self.graph)):
            made = self.graph.placeholder(_bare(name))
        made.target = made.name  # names of parameters differ, too
        return made

    def _constant(self, value: Any, node: Node) -> Any:
        if isinstance(value, torch.Tensor):
            return self.get_attribute(self.conversion.store(value, "tensor_constant"))
        if is_literal(value):
            return str(value) if isinstance(value, QualifiedClassName) else value
        if type(value) in (list, tuple) and _holds_only_constants(value):
            return type(value)(self._constant(p, node) for p in value)
        return self.get_attribute(self.conversion.store(value, "constant"))

    def _display(self, node: Node) -> Any:
        values = [self.read(v) for v in node.inputs]
        if node.kind == "prim::DictConstruct":
            return dict(zip(values[::2], values[1::2], strict=True))
        return tuple(values) if node.kind == "prim::TupleConstruct" else values

    def _attribute(self, value: Value) -> Any:
        """An attribute of the module that nothing assigns."""
        node = value.node
        path, name = self.prepared.path_of(node.inputs[0]), node.attributes["name"]
        found = self.prepared.object_of(value)
        if is_literal(found):
            return found
        if isinstance(found, torch.nn.Module):
            return self.owner_reference(value)
        self.place_attribute(path or (), name, found)
        return self.get_attribute(".".join([*(path or ()), name]))

    def is_fixed_attribute(self, value: Value) -> bool:
        """Is it an attribute of the module that can be read at any time, as nothing in the graph changes it?"""
        if value.node.kind != "prim::GetAttr" or self.prepared.path_of(value) is None:
            return False
        owner = self.prepared.module_of(value.node.inputs[0])
        if owner is None or (id(owner), value.node.attributes["name"]) in self.prepared.assigned:
            return False
        found = self.prepared.object_of(value)
        return isinstance(found, (torch.Tensor, torch.nn.Module)) or is_literal(found) or not self.conversion.writes

    def place_attribute(self, path: Sequence[str], name: str, found: object) -> None:
        """Let the FX module have an attribute that is no parameter, buffer or submodule."""
        check_name(name)
        holder = self.conversion.root.get_submodule(".".join(path))
        if name not in holder._parameters and name not in holder._buffers:
            vars(holder)[name] = found
            vars(holder).setdefault(KEPT, []).append(name)

    def get_attribute(self, target: str) -> Any:
        """A `get_attr` at the beginning of the outermost graph; within others, what is handed in for it."""
        if self.parent is not None:
            return self._capture(target, partial(self.parent.get_attribute, target), target)
        if target not in self.attributes:
            written = self.conversion.written_target(target)
            with self.graph.inserting_before(_first(self.graph)):
                self.attributes[target] = self.graph.get_attr(written)
        return self.attributes[target]

    def owner_reference(self, value: Value) -> Any:
        """A node that is the module itself, for functions that read or write its attributes."""
        path = self.prepared.path_of(value)
        if path is None:
            return self.read(value)
        if not path:
            self.conversion.root._modules.setdefault(ROOT, Root())
        return self.get_attribute(".".join(path) or ROOT)

    # -- writing
    def call(self, call: FxCall, node: Node, name: str | None = None) -> fx.Node:
        """Add a call to the graph."""
        if isinstance(call.target, str):
            made = self.graph.call_method(call.target, call.args, call.kwargs)
        else:
            made = self.graph.call_function(call.target, call.args, call.kwargs)
            if not str(call.target.__module__).startswith("torch"):  # torch's own know about tracing
                made.meta["is_wrapped"] = True  # tracing the module again keeps the call
        self.mark(made, node)
        if name:
            made._rename(name)
        return made

    def mark(self, made: fx.Node, node: Node) -> None:
        """Note where in the script a node comes from."""
        made.meta["source_range"], made.meta["script_kind"] = node.range, node.kind
        text = stack_trace(node)
        if text:
            made.meta["stack_trace"] = text

    def result(self, made: fx.Node, node: Node) -> None:
        """Let a call that gives a tuple stand for several outputs."""
        for i, output in enumerate(node.outputs):
            if output.has_uses:
                self.values[output] = self.call(FxCall(operator.getitem, (made, i)), node)

    def emit_block(self, block: Block) -> None:
        """Write the nodes of a block."""
        self.emit(list(block.nodes))

    def emit(self, nodes: Sequence[Node]) -> None:
        """Write nodes of one block in order."""
        index = 0
        while index < len(nodes):
            node = nodes[index]
            index += 1
            if node.kind == "prim::Enter":
                end = self._end_of_with(nodes, index)
                self.conversion.write_with(self, node, nodes[index:end])
                index = end + 1
            else:
                self._emit_node(node)

    def _end_of_with(self, nodes: Sequence[Node], start: int) -> int:
        depth = 1
        for index in range(start, len(nodes)):
            depth += {"prim::Enter": 1, "prim::Exit": -1}.get(nodes[index].kind, 0)
            if depth == 0:
                return index
        raise self.refusal(
            "a `with` is left on several ways", nodes[start - 1], "let no `return`, `break` or `continue` stand in it"
        )

    def _emit_node(self, node: Node) -> None:
        if node.kind in ("prim::Constant", "prim::Uninitialized") or self.conversion.is_inline(node):
            return
        special = self.conversion.kinds.get(node.kind)
        if special is not None:
            special(self, node)
            return
        args = [self.read(v) for v in node.inputs]
        call = operator_call(node, args, for_export=self.conversion.for_export)
        if call is None:
            raise self.refusal(f"{node.kind} has no meaning in an FX graph", node)
        self._operation(node, call)

    def _decoded_result(self, node: Node, op: Op, made: object) -> Any:
        """The result as what the graph has: the number of a dtype, layout or the like for what torch gives."""
        returned = op.schema.returns[0].declared_type if op.schema.returns else T.NONE
        if op.overload is None or not is_int_coded(returned):
            return made
        return self.call(FxCall(fx_calls.decoder(returned), (made,)), node)

    def _operation(self, node: Node, call: FxCall) -> None:
        op = node.op
        assert op is not None
        if op.overload is not None and not isinstance(call.target, str):
            call = self._decoded(node, call)
        name = _name_of(node)
        if op.fn is tensors.size:
            call = FxCall("size", call.args)
            if not all(map(_keeps_nothing, node.output.uses)):
                call = FxCall(list, (self.call(call, node),))
        made = self.call(call, node, name)
        if len(node.outputs) == 1 and not node.has(Trait.SPREADS):
            self.values[node.output] = self._decoded_result(node, op, made)
        elif node.outputs:
            self.result(made, node)

    def _decoded(self, node: Node, call: FxCall) -> FxCall:
        """Let operands that may be int codes be dtypes."""
        assert node.op is not None
        args, kwargs = list(call.args), dict(call.kwargs)
        for position, formal in fx_calls.int_coded_operands(node.op, node.inputs):
            given = self.read(node.inputs[position])
            decoded = self.call(FxCall(fx_calls.decoder(formal.declared_type), (given,)), node)
            if formal.name in kwargs:
                kwargs[formal.name] = decoded
            else:
                args[position] = decoded
        return FxCall(call.target, tuple(args), kwargs)

    def refusal(self, what: str, node: Node, hint: str | None = None) -> NotSupportedError:
        """The error for something that cannot leave."""
        error = NOT_AS_FX(what, node.range, hint=hint)
        for callee, place in reversed(node.call_stack):
            if place is not None and error.range is not None:
                error.notes.append(f"'{callee}' is called at {place.location()}")
        return error


def is_literal(value: object) -> bool:
    """Can the value stand in the code of an FX graph as it is?"""
    if isinstance(value, QualifiedClassName):
        return value.python_class.__module__ == "builtins"
    if isinstance(value, enum.Enum):
        return is_importable(type(value))
    return is_plain(value)


def has_nodes(value: object) -> bool:
    """Is there a node of an FX graph in an argument?"""
    if isinstance(value, dict):
        return any(map(has_nodes, value.values()))
    return isinstance(value, fx.Node) or (isinstance(value, (list, tuple)) and any(map(has_nodes, value)))


def _first(graph: fx.Graph) -> fx.Node:
    """The first node that is no placeholder, before which attributes are read; the end of an empty graph."""
    return next((n for n in graph.nodes if n.op != "placeholder"), graph._root)


def _bare(name: str) -> Identifier:
    name = _SUFFIX.sub("", name).replace(".", "_")
    return identifier(name) if is_identifier(name) else made_identifier("arg")


def _name_of(node: Node) -> str | None:
    """The name that the script gives the result of a node."""
    named = len(node.outputs) == 1 and node.output.has_name and not node.output.name.isdigit()
    return _bare(node.output.name) if named else None


def stack_trace(node: Node) -> str:
    """The place of a node, with the calls that lead there, as Python's tracebacks have it."""
    places: list[tuple[str, SourceRange | None]] = []
    names = [name for name, _ in node.call_stack]
    function = node.range.surroundings().name if node.range else None
    for i, (_, place) in enumerate(node.call_stack):
        places.append((names[i - 1] if i else "", place))
    places.append((function or (names[-1] if names else ""), node.range))
    return "".join(_frame(name, place) for name, place in places if place is not None)


def _frame(name: str, place: SourceRange) -> str:
    found = comment(place.surroundings().name or name or "<script>")
    line = comment(place.source.line_text(place.source.line_index(place.start)).strip())
    filename = comment(place.filename or "<string>").replace('"', "'")
    return f'  File "{filename}", line {place.line}, in {found}\n    {line}\n'


def _holds_only_constants(parts: Sequence[object]) -> bool:
    return all(is_literal(part) or isinstance(part, torch.Tensor) for part in parts)
