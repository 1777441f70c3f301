"""Sequences that scripts have as lists and Python as something else are shown as what they are in Python.

    %s : int[] = aten::size(%x)              %s : int[] = aten::size(%x)
    %t : str = aten::format(%text, %s)  =>   %2 : Any = python::Size(%s)
                                             %t : str = aten::format(%text, %2)

What a list is in Python is known by where it comes from, through variables, branches, loops, slices, sums, elements of
tuples and results of functions. Where several may come, and they are not of one kind, it is shown as a list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value, constant_of
from jitlite.ir.structure import Loop
from jitlite.ir.traits import Trait
from jitlite.ir.unit import called_function

SIZE, TUPLE, LIST = "python::Size", "python::tuple", "list"
"""Forms of lists: the operators that make a list what it is in Python, and that of what is one there, too."""


def show_sequences(graph: Graph) -> bool:
    """Let what shows values show lists as what they are in Python. Says whether there was any."""
    shown = _Shown(graph)
    changed = False
    for node in [n for n in graph.all_nodes() if n.has(Trait.SHOWS)]:
        with graph.inserting_before(node):
            graph.current_range = node.range
            for position, value in enumerate(list(node.inputs)):
                made = shown.as_in_python(value)
                if made is not value:
                    node.replace_input(position, made)
                    changed = True
    return changed


class _Shown:
    """Makes values that are shown as in Python."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.forms = SequenceForms()

    def as_in_python(self, value: Value) -> Value:
        """The value itself where it is the same in Python."""
        form = self.forms.of(value)
        if form != LIST:
            return self.graph.insert(form, [value], [T.ANY]).output
        node, t = value.node, value.type
        if isinstance(t, T.TupleType):
            return self._tuple_as_in_python(value, t)
        if node.kind not in ("prim::ListConstruct", "prim::DictConstruct") or not all(
            use.user.has(Trait.SHOWS) for use in value.uses
        ):
            return value  # who else has it may have changed it
        return self._display(value, list(node.inputs), node.kind)

    def _tuple_as_in_python(self, value: Value, t: T.TupleType) -> Value:
        known = value.node.kind == "prim::TupleConstruct"
        is_other = any(self.forms.of(value, (position,)) != LIST for position in range(len(t.elements)))
        if t.names is not None or not (known or is_other):
            return value
        if known:
            return self._display(value, list(value.node.inputs), "prim::TupleConstruct")
        parts = self.graph.insert("prim::TupleUnpack", [value], t.elements).outputs
        return self._display(value, parts, "prim::TupleConstruct")

    def _display(self, value: Value, parts: Sequence[Value], kind: str) -> Value:
        made = [self.as_in_python(part) for part in parts]
        if made == list(parts):
            return value
        return self.graph.insert(kind, made, [_type_of_display(value.type, made)]).output


def _type_of_display(shown: T.Type, parts: Sequence[Value]) -> T.Type:
    if isinstance(shown, T.DictType):
        return T.DictType.of(shown.key, T.ANY)
    return T.ListType.of(T.ANY) if isinstance(shown, T.ListType) else T.TupleType.of([p.type for p in parts])


_DEEPEST = 200
"""Through how many operators a list is followed to where it comes from."""

Path = tuple[int, ...]
"""Positions in tuples within one another: which element of a value is meant; the value itself where there are none."""


_Rule = Callable[["SequenceForms", Value, Path], "str | None"]


def _always(form: str | None) -> _Rule:
    return lambda forms, value, path: form


class SequenceForms:
    """What lists are in Python, by where they come from: what each may be is found until nothing more is."""

    def __init__(self) -> None:
        self._known: dict[tuple[Value, Path], str | None] = {}
        self._settled: set[tuple[Value, Path]] = set()
        self._visited: set[tuple[Value, Path]] = set()
        self._changed = False
        self._depth = 0

    def of(self, value: Value, path: Path = ()) -> str:
        """The form of a value; that of a list where it is another one, or may be of several."""
        self._changed = True
        while self._changed:
            self._changed = False
            self._visited.clear()
            found = self.ask(value, path)
        self._settled |= self._visited
        return found or LIST

    def ask(self, value: Value, path: Path) -> str | None:
        """The form as far as it is known by now; None where nothing is, and where it is None."""
        key = (value, path)
        if key in self._visited or key in self._settled:
            return self._known.get(key)
        self._visited.add(key)
        self._depth += 1
        found = LIST if self._depth > _DEEPEST else self._found(value, path)
        self._depth -= 1
        if self._known.get(key) != found:
            self._known[key] = found
            self._changed = True
        return found

    def _found(self, value: Value, path: Path) -> str | None:
        meant = _type_within(value.type, path)
        if meant is not None and not any(isinstance(t, T.ListType) for t in T.members_of(meant)):
            return None if meant is T.NONE else LIST
        rule = self._RULES.get(value.node.kind)
        if rule is not None:
            return rule(self, value, path)
        return TUPLE if not path and _is_tuple_of_torch(value.node) else LIST

    def joined(self, values: Sequence[Value], path: Path) -> str | None:
        """The form of what may be any of these."""
        found = {self.ask(value, path) for value in values} - {None}
        return LIST if len(found) > 1 else next(iter(found), None)

    def of_parameter(self, value: Value, path: Path) -> str | None:
        """Of a value that a loop carries; nothing is known of other parameters."""
        owner = value.node.block.owner if value.node.block is not None else None
        if owner is None or owner.kind != "prim::Loop":
            return LIST
        carried = next((c for c in Loop(owner).carried if c.parameter is value), None)
        return LIST if carried is None else self.joined([carried.start, carried.following], path)

    def of_loop(self, value: Value, path: Path) -> str | None:
        """Of a value behind the loop that carries it."""
        return self.joined(Loop(value.node).sources(value.offset), path)

    def of_branch(self, value: Value, path: Path) -> str | None:
        """Of a value that two blocks give."""
        return self.joined([block.outputs[value.offset] for block in value.node.blocks], path)

    def of_sum(self, value: Value, path: Path) -> str | None:
        """A size and a tuple are a size; what is neither can be added to lists only."""
        found = [self.ask(v, path) for v in value.node.inputs[:2]]
        return next((form for form in (SIZE, TUPLE, None) if form in found), LIST)

    def of_first(self, value: Value, path: Path) -> str | None:
        """A part or a multiple of what is given first."""
        found = self.ask(value.node.inputs[0], path)
        return found if found in (SIZE, TUPLE, None) else LIST

    def of_itself(self, value: Value, path: Path) -> str | None:
        """What is another view of the same value."""
        return self.ask(value.node.inputs[0], path)

    def of_display(self, value: Value, path: Path) -> str | None:
        """An element of a tuple that is written out."""
        return self.ask(value.node.inputs[path[0]], path[1:]) if path else LIST

    def of_part(self, value: Value, path: Path) -> str | None:
        """An element of a tuple."""
        node = value.node
        whole = node.inputs[0]
        index = value.offset if node.kind == "prim::TupleUnpack" else constant_of(node.inputs[1], None)
        if not isinstance(index, int) or not isinstance(whole.type, T.TupleType) or not whole.type.elements:
            return LIST
        return self.ask(whole, (index % len(whole.type.elements), *path))

    def of_call(self, value: Value, path: Path) -> str | None:
        """The result of a function that is compiled."""
        function = called_function(value.node)
        if function is None or not function.is_compiled or len(function.graph.outputs) != 1:
            return LIST
        return self.ask(function.graph.outputs[0], path)

    _RULES: ClassVar[dict[str, _Rule]] = {
        "aten::size": _always(SIZE),
        "aten::broadcast_shapes": _always(SIZE),
        "aten::stride": _always(TUPLE),
        "aten::keys": _always("python::dict_keys"),
        "aten::values": _always("python::dict_values"),
        "aten::items": _always("python::dict_items"),
        "prim::Uninitialized": _always(None),
        "prim::unchecked_cast": of_itself,
        "aten::_unwrap_optional": of_itself,
        "aten::add": of_sum,
        "aten::slice": of_first,
        "aten::mul": of_first,
        "prim::Param": of_parameter,
        "prim::Loop": of_loop,
        "prim::If": of_branch,
        "prim::TupleConstruct": of_display,
        "prim::TupleUnpack": of_part,
        "prim::TupleIndex": of_part,
        "prim::CallFunction": of_call,
        "prim::CallMethod": of_call,
    }
    """What a list is in Python that comes from a node of the kind."""


def _type_within(t: T.Type, path: Path) -> T.Type | None:
    """The type of an element; None where the tuple is one of several types."""
    for position in path:
        if not isinstance(t, T.TupleType):
            return None
        t = t.elements[position]
    return t


def _is_tuple_of_torch(node: Node) -> bool:
    """Does an operator of torch's give several tensors or numbers, which its functions and methods give as a tuple?"""
    op = node.op
    return op is not None and op.overload is not None
