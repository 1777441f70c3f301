"""What operators do to a list or dict whose contents are known: see `passes/contents.py`.

`LIST_WRITES` changes lists; `READS` gives what is in a container; `DICT_WRITES` changes dicts. Kinds of dicts have
`dict ` before them. A step that would raise is not known: the operator stays and raises.
"""

from __future__ import annotations

from jitlite.analysis.alias import keeps_nothing
from jitlite.analysis.contents import MISSING, SAME, Contents, Step, key_of
from jitlite.ir import types as T
from jitlite.ir.graph import Node, Value, constant_of, is_constant

_PLAIN = (int, str)
"""Constants that are equal exactly where Python says so. A float may be NaN."""


def _itself(node: Node) -> list[Value]:
    """The results of an operator that gives the container it wrote, or nothing."""
    return [SAME] * len(node.outputs)


# -- lists, written


def _append(node: Node, contents: Contents) -> list[Value] | None:
    contents.items.append(node.inputs[1])
    return _changed(node, contents)


def _changed(node: Node, contents: Contents) -> list[Value]:
    contents.is_stale = True
    return _itself(node)


def _insert(node: Node, contents: Contents) -> list[Value] | None:
    index = constant_of(node.inputs[1], None)
    if type(index) is not int:
        return None
    contents.items.insert(index, node.inputs[2])
    return _changed(node, contents)


def _set_list_item(node: Node, contents: Contents) -> list[Value] | None:
    at = contents.position(node.inputs[1])
    if at is None:
        return None
    contents.items[at] = node.inputs[2]
    return _changed(node, contents)


def _extend(node: Node, contents: Contents) -> list[Value] | None:
    added = _listed(node.inputs[1])
    if added is None:
        return None
    contents.items += added
    return _changed(node, contents)


def _listed(value: Value) -> list[Value] | None:
    """The elements of another list, if nobody writes it."""
    node = value.node
    if node.kind != "prim::ListConstruct":
        return None
    others = [use for use in value.uses if use.user.kind not in ("aten::extend", "aten::add_") or use.offset != 1]
    return list(node.inputs) if all(map(keeps_nothing, others)) else None


def _pop(node: Node, contents: Contents) -> list[Value] | None:
    at = contents.position(node.inputs[1])
    if at is None:
        return None
    value = contents.items[at]
    contents.remove(at)
    contents.is_stale = True
    return [value]


def _delete_list_item(node: Node, contents: Contents) -> list[Value] | None:
    at = contents.position(node.inputs[1])
    if at is None:
        return None
    contents.remove(at)
    return _changed(node, contents)


def _clear(node: Node, contents: Contents) -> list[Value] | None:
    contents.clear()
    return _changed(node, contents)


def _reverse(node: Node, contents: Contents) -> list[Value] | None:
    contents.items.reverse()
    return _changed(node, contents)


LIST_WRITES: dict[str, Step] = {
    "aten::append": _append,
    "aten::insert": _insert,
    "aten::_set_item": _set_list_item,
    "aten::extend": _extend,
    "aten::add_": _extend,
    "aten::pop": _pop,
    "aten::Delete": _delete_list_item,
    "aten::clear": _clear,
    "aten::reverse": _reverse,
}


# -- lists, read


def _length(node: Node, contents: Contents) -> list[Value] | None:
    return [node.graph.insert_constant(len(contents.items))]


def _list_item(node: Node, contents: Contents) -> list[Value] | None:
    at = contents.position(node.inputs[1])
    return None if at is None else [contents.items[at]]


def _unpacked(node: Node, contents: Contents) -> list[Value] | None:
    return list(contents.items) if len(contents.items) == len(node.outputs) else None


def _is_in_list(node: Node, contents: Contents) -> list[Value] | None:
    wanted = constant_of(node.inputs[1], None)
    if not isinstance(wanted, _PLAIN) or not all(map(is_constant, contents.items)):
        return None
    known = [constant_of(v) for v in contents.items]
    return [node.graph.insert_constant(wanted in known)] if all(isinstance(k, _PLAIN) for k in known) else None


def _sliced(node: Node, contents: Contents) -> list[Value] | None:
    _, *ends = node.inputs
    bounds = [constant_of(v, MISSING) for v in ends]
    if any(b is not None and type(b) is not int for b in bounds) or bounds[2:] == [0]:
        return None
    return [new_list(node, contents.items[slice(*bounds)])]


def _copied_list(node: Node, contents: Contents) -> list[Value] | None:
    return [new_list(node, contents.items)]


def new_list(node: Node, items: list[Value]) -> Value:
    """A new list in place of the output of `node`."""
    return node.graph.insert("prim::ListConstruct", items, (node.output.type,), range=node.range).output


# -- dicts, read


def _dict_item(node: Node, contents: Contents) -> list[Value] | None:
    at = contents.find(node.inputs[1])
    return None if at is None else [contents.items[at]]


def _is_in_dict(node: Node, contents: Contents) -> list[Value] | None:
    if key_of(node.inputs[1]) is MISSING:
        return None
    return [node.graph.insert_constant(contents.find(node.inputs[1]) is not None)]


def _get(node: Node, contents: Contents) -> list[Value] | None:
    if key_of(node.inputs[1]) is MISSING:
        return None
    at = contents.find(node.inputs[1])
    if at is not None:
        return [contents.items[at]]
    return [node.inputs[2] if len(node.inputs) == 3 else node.graph.insert_constant(None)]


def _keys(node: Node, contents: Contents) -> list[Value] | None:
    return [new_list(node, contents.key_values)]


def _items(node: Node, contents: Contents) -> list[Value] | None:
    pairs = zip(contents.key_values, contents.items, strict=True)
    return [new_list(node, [_pair(node, node.output.type.contained[0], *pair) for pair in pairs])]


def _pair(node: Node, type: T.Type, key: Value, value: Value) -> Value:
    return node.graph.insert("prim::TupleConstruct", (key, value), (type,), range=node.range).output


def _copied_dict(node: Node, contents: Contents) -> list[Value] | None:
    inputs = [v for pair in zip(contents.key_values, contents.items, strict=True) for v in pair]
    return [node.graph.insert("prim::DictConstruct", inputs, (node.output.type,), range=node.range).output]


READS: dict[str, Step] = {
    "aten::len": _length,
    "aten::__getitem__": _list_item,
    "prim::ListUnpack": _unpacked,
    "aten::__contains__": _is_in_list,
    "aten::slice": _sliced,
    "aten::list": _copied_list,
    "aten::copy": _copied_list,
    "dict aten::len": _length,
    "dict aten::__getitem__": _dict_item,
    "dict aten::__contains__": _is_in_dict,
    "dict aten::get": _get,
    "dict aten::keys": _keys,
    "dict aten::values": _copied_list,
    "dict aten::items": _items,
    "dict aten::copy": _copied_dict,
}


# -- dicts, written


def _set_dict_item(node: Node, contents: Contents) -> list[Value] | None:
    if key_of(node.inputs[1]) is MISSING:
        return None
    contents.set(node.inputs[1], node.inputs[2])
    return _changed(node, contents)


def _delete_dict_item(node: Node, contents: Contents) -> list[Value] | None:
    at = contents.find(node.inputs[1])
    if at is None:
        return None
    contents.remove(at)
    return _changed(node, contents)


def _pop_dict(node: Node, contents: Contents) -> list[Value] | None:
    if key_of(node.inputs[1]) is MISSING:
        return None
    at = contents.find(node.inputs[1])
    if at is None:
        return [node.inputs[2]] if len(node.inputs) == 3 else None
    value = contents.items[at]
    contents.remove(at)
    contents.is_stale = True
    return [value]


def _pop_item(node: Node, contents: Contents) -> list[Value] | None:
    if not contents.items:
        return None
    pair = _pair(node, node.output.type, contents.key_values[-1], contents.items[-1])
    contents.remove(-1)
    contents.is_stale = True
    return [pair]


def _set_default(node: Node, contents: Contents) -> list[Value] | None:
    if key_of(node.inputs[1]) is MISSING:
        return None
    at = contents.find(node.inputs[1])
    if at is not None:
        return [contents.items[at]]
    contents.set(node.inputs[1], node.inputs[2])
    contents.is_stale = True
    return [node.inputs[2]]


DICT_WRITES: dict[str, Step] = {
    "dict aten::_set_item": _set_dict_item,
    "dict aten::Delete": _delete_dict_item,
    "dict aten::pop": _pop_dict,
    "dict aten::popitem": _pop_item,
    "dict aten::setdefault": _set_default,
    "dict aten::clear": _clear,
}
