"""What each kind of node looks like: the rules that `verify` holds nodes to.

Kinds whose types a schema can say have no rule here but are held to their schema.

How to read: the table at the end says which function is the rule of which kind; each function gives what is wrong with
a node, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from jitlite.ir import ops
from jitlite.ir import types as T
from jitlite.ir.analysis import captured_values
from jitlite.ir.constants import type_of_constant
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.node_attributes import attribute_fault
from jitlite.ir.structure import Loop
from jitlite.ir.tensor_items import parse_index
from jitlite.ir.traits import Spelling, Trait
from jitlite.ir.types import Type


def rule_fault(node: Node) -> str | None:
    """What is wrong with the node itself: its inputs, outputs, blocks and attributes; None if nothing is."""
    rule = _RULES.get(node.kind)
    fault = attribute_fault(node)
    if fault is not None:
        return fault
    if rule is not None:
        return rule(node)
    if node.has(Trait.CHECKED_GROUP):
        return _group(node)
    if node.blocks:
        return None if node.has(Trait.EARLY_BLOCKS) else f"{node.kind} has no blocks"
    return _schema(node)


def _fits(actual: Type, formal: Type) -> bool:
    return T.is_subtype(T.unshaped(actual), T.unshaped(formal))


def _related(a: Type, b: Type) -> bool:
    """Is one of the types within the other? A declaration may say more than a schema, and less after a refinement."""
    return _fits(a, b) or _fits(b, a)


def _arity(node: Node, inputs: int | None, outputs: int | None, blocks: int = 0) -> str | None:
    for what, found, wanted in (
        ("inputs", len(node.inputs), inputs),
        ("outputs", len(node.outputs), outputs),
        ("blocks", len(node.blocks), blocks),
    ):
        if wanted is not None and found != wanted:
            return f"{node.kind} has {wanted} {what}, not {found}"
    return None


def _flow(source: Value, target: Value, what: str) -> str | None:
    """What is wrong with `source` becoming `target` at the edge of a block."""
    if _fits(source.type, target.type):
        return None
    return f"{what} %{source.name} is of type {source.type} but becomes %{target.name} of type {target.type}"


def _first(reasons: Iterator[str | None]) -> str | None:
    return next((reason for reason in reasons if reason), None)


def _schema(node: Node) -> str | None:
    """The inputs fit one overload, and the outputs are what it returns. Unknown operators are taken as they are."""
    overloads = ops.lookup(node.kind)
    if not overloads:
        return None
    resolved = node.op
    if resolved is None:
        given = ", ".join(str(v.type) for v in node.inputs)
        known = " or ".join(str(o.schema) for o in overloads[:3])
        return f"no overload of {node.kind} takes ({given}): there is {known}{' ...' * (len(overloads) > 3)}"
    schema = resolved.schema
    if schema.is_varret:
        return None
    if len(schema.returns) != len(node.outputs):
        return f"{node.kind} has {len(schema.returns)} outputs, not {len(node.outputs)}"
    bindings: dict[str, Type] = {}
    for argument, value in zip(schema.arguments, node.inputs, strict=False):
        T.match_variables(argument.type, value.type, bindings)
    for returned, value in zip(schema.returns, node.outputs, strict=True):
        formal = T.substitute(returned.type, bindings)
        if not T.has_variables(formal) and not _related(value.type, formal):
            return f"%{value.name} is of type {value.type}, but {schema} gives {formal}"
    return None


def _param(node: Node) -> str | None:
    return _arity(node, 0, None)


def _return(node: Node) -> str | None:
    return _arity(node, None, 0)


def constant_fault(node: Node) -> str | None:
    """What is wrong with a constant: its value is not of the type of its output; None if nothing is."""
    fault = _arity(node, 0, 1)
    type = node.outputs[0].type if node.outputs else T.NONE
    if fault or type is T.FUNCTION:
        return fault or (None if "name" in node.attributes else "a function constant has the attribute name")
    value = node.attributes.get("value")
    found = type_of_constant(value)
    if found is None:
        is_object = isinstance(type, T.ClassType | T.InterfaceType)
        return None if is_object else f"a {value.__class__.__name__} is no constant"
    return None if _constant_fits(value, found, type) else f"the constant is of type {found}, but its output of {type}"


_Container = list[object] | dict[object, object] | set[object] | frozenset[object]


def _container_fits(value: _Container, type: Type) -> bool:
    if isinstance(value, list):
        return type in (T.ANY, T.ANY_LIST) or (isinstance(type, T.ListType) and _all_fit(value, type.element))
    if isinstance(value, set | frozenset):
        return type is T.ANY or (isinstance(type, T.SetType) and _all_fit(list(value), type.element))
    if not isinstance(type, T.DictType):
        return type in (T.ANY, T.ANY_DICT)
    return _all_fit(list(value), type.key) and _all_fit(list(value.values()), type.value)


def _elements_fit(value: tuple[object, ...], type: T.TupleType) -> bool:
    pairs = zip(value, type.elements, strict=False)
    return len(value) == len(type.elements) and all(_all_fit([v], t) for v, t in pairs)


def _constant_fits(value: object, found: Type, type: Type) -> bool:
    """Does the value fit the type? Elements count one by one: an empty list fits every list type."""
    type = T.without_none(type) if value is not None else type
    if isinstance(type, T.UnionType) and value is not None:
        return any(_constant_fits(value, found, member) for member in type.members)
    if isinstance(value, list | dict | set | frozenset):
        return _container_fits(value, type)
    if isinstance(value, tuple) and isinstance(type, T.TupleType):
        return _elements_fit(value, type)
    if isinstance(found, T.EnumType) and isinstance(type, T.EnumType):
        return found.qualified_name == type.qualified_name
    return _fits(found, type) or (type is T.FLOAT and found is T.INT)  # an int is an acceptable float at run time


def _all_fit(values: list[object], type: Type) -> bool:
    found = [type_of_constant(v) for v in values]
    return all(f is not None and _constant_fits(v, f, type) for v, f in zip(values, found, strict=True))


def _if(node: Node) -> str | None:
    fault = _arity(node, 1, None, 2)
    if fault:
        return fault
    if node.input.type is not T.BOOL:
        return f"the condition of prim::If is a bool, not {node.input.type}"
    if any(block.inputs for block in node.blocks):
        return "the blocks of prim::If have no inputs"
    return _results(node)


def _results(node: Node) -> str | None:
    """Either block returns what the node gives. A function is named where it is called, and never given."""
    if any(output.type is T.FUNCTION for output in node.outputs):
        return f"{node.kind} gives no function"
    for block in node.blocks:
        if len(block.outputs) != len(node.outputs):
            return f"a block of {node.kind} returns {len(block.outputs)} values for {len(node.outputs)} outputs"
        fault = _first(_flow(s, t, "result") for s, t in zip(block.outputs, node.outputs, strict=True))
        if fault:
            return fault
    return None


def _try(node: Node) -> str | None:
    fault = _arity(node, 0, None, 2)
    if fault:
        return fault
    body, handler = node.blocks
    if body.inputs or [v.type for v in handler.inputs] != [T.EXCEPTION]:
        return "the first block of prim::Try has no input, the second one of type Exception"
    return _results(node)


def _loop(node: Node) -> str | None:
    fault = _arity(node, None, None, 1)
    if fault:
        return fault
    if [v.type for v in node.inputs[:2]] != [T.INT, T.BOOL]:
        return "the first inputs of prim::Loop are an iteration count (int) and a condition (bool)"
    loop, body = Loop(node), node.blocks[0]
    if node.attributes.get("over_range") and not _follows_its_range(loop):
        return "a prim::Loop over a range stands behind the aten::__range_length that is its iteration count"
    if any(output.type is T.FUNCTION for output in node.outputs):
        return "prim::Loop carries no function"
    if not len(loop.starts) == len(node.outputs) == len(body.inputs) - 1 == len(body.outputs) - 1:
        return (
            f"prim::Loop carries {len(loop.starts)} values in, but has {len(node.outputs)} outputs, and its body "
            f"{len(body.inputs)} inputs and {len(body.outputs)} outputs (each one more than it carries)"
        )
    if loop.index.type is not T.INT or loop.condition.type is not T.BOOL:
        return "the body of prim::Loop begins with the iteration number (int) and returns the condition (bool) first"
    return _first(
        fault
        for start, parameter, result, output in loop.carried
        for fault in (
            _flow(start, parameter, "initial value"),
            _flow(result, parameter, "carried value"),
            _flow(result, output, "carried value"),
            _flow(start, output, "initial value"),
        )
    )


def _follows_its_range(loop: Loop) -> bool:
    """Is the iteration count the length of a range, with only constants between it and the loop?"""
    before = loop.node.prev
    while before is not None and before.kind == "prim::Constant":
        before = before.prev
    return before is loop.max_iterations.node and before.kind == "aten::__range_length"


def _region(node: Node) -> str | None:
    fault = _arity(node, None, None, 1)
    if fault or not node.attributes.get("kind"):
        return fault or "prim::Region has a name as attribute kind"
    (body,) = node.blocks
    if len(body.inputs) != len(node.inputs):
        return f"the block of prim::Region takes {len(body.inputs)} values, but is given {len(node.inputs)}"
    captured = next(iter(captured_values(node)), None)
    if captured is not None:
        return f"the block of prim::Region reads %{captured.name} from around it, which is none of its inputs"
    return _results(node) or _first(_flow(v, p, "input") for v, p in zip(node.inputs, body.inputs, strict=True))


def _grad_of(node: Node) -> str | None:
    fault = _arity(node, None, None, 1)
    if fault:
        return fault
    if node.blocks[0].inputs:
        return "the block of prim::GradOf has no inputs"
    return _results(node)


def _tuple_construct(node: Node) -> str | None:
    type = node.outputs[0].type if len(node.outputs) == 1 else None
    if not isinstance(type, T.TupleType):
        return "prim::TupleConstruct makes one tuple"
    if len(type.elements) != len(node.inputs):
        return f"a tuple of {len(type.elements)} elements is made of {len(node.inputs)} inputs"
    return _first(
        None if _fits(v.type, t) else f"element %{v.name} is of type {v.type}, but the tuple's of {t}"
        for v, t in zip(node.inputs, type.elements, strict=True)
    )


def _tuple_unpack(node: Node) -> str | None:
    fault = _arity(node, 1, None)
    if fault:
        return fault
    type = node.input.type
    if not isinstance(type, T.TupleType):
        return f"prim::TupleUnpack takes a tuple, not {type}"
    if len(type.elements) != len(node.outputs):
        return f"a tuple of {len(type.elements)} elements is unpacked into {len(node.outputs)} outputs"
    return _first(
        None if _related(v.type, t) else f"output %{v.name} is of type {v.type}, but the element of {t}"
        for v, t in zip(node.outputs, type.elements, strict=True)
    )


def _tuple_index(node: Node) -> str | None:
    fault = _arity(node, 2, 1)
    if fault:
        return fault
    type, output = node.inputs[0].type, node.output
    if not isinstance(type, T.TupleType) or node.inputs[1].type is not T.INT:
        return "prim::TupleIndex takes a tuple and an int"
    if not any(_related(output.type, t) for t in type.elements):
        return f"no element of {type} is of type {output.type}"
    return None


def _tuple_slice(node: Node) -> str | None:
    fault = _arity(node, 1, 1)
    if fault:
        return fault
    if not isinstance(node.input.type, T.TupleType) or not isinstance(node.output.type, T.TupleType):
        return "prim::TupleSlice takes a tuple and makes one"
    begin, end = node.attributes.get("beg"), node.attributes.get("end")
    if type(begin) is not int or type(end) is not int:
        return "prim::TupleSlice has the attributes beg and end"
    if len(node.input.type.elements[begin:end]) != len(node.output.type.elements):
        return f"the slice has {len(node.output.type.elements)} elements for the bounds {begin} and {end}"
    return None


def _tensor_item(node: Node) -> str | None:
    first = 1 if node.kind == "prim::TensorItem" else 2
    try:
        wanted = sum(entry.operands for entry in parse_index(node.attributes["index"]))
    except (AttributeError, KeyError, ValueError):
        return f"{node.kind} has the attribute index, such as `_, :`"
    if len(node.inputs) != first + wanted:
        return f"the index has {wanted} operands, not {len(node.inputs) - first}"
    return _schema(node)


def _list_construct(node: Node) -> str | None:
    type = node.outputs[0].type if len(node.outputs) == 1 else None
    if not isinstance(type, T.ListType):
        return "prim::ListConstruct makes one list"
    return _elements(node.inputs, type.element)


def _elements(values: Sequence[Value], type: Type) -> str | None:
    return _first(
        None if _fits(v.type, type) else f"element %{v.name} is of type {v.type}, but elements are of type {type}"
        for v in values
    )


def _list_unpack(node: Node) -> str | None:
    fault = _arity(node, 1, None)
    if fault:
        return fault
    type = node.input.type
    if not isinstance(type, T.ListType):
        return f"prim::ListUnpack takes a list, not {type}"
    return _first(
        None if _related(v.type, type.element) else f"output %{v.name} is of type {v.type}, but the list is {type}"
        for v in node.outputs
    )


def _dict_construct(node: Node) -> str | None:
    type = node.outputs[0].type if len(node.outputs) == 1 else None
    if not isinstance(type, T.DictType):
        return "prim::DictConstruct makes one dict"
    if len(node.inputs) % 2:
        return "prim::DictConstruct takes keys and values in turn"
    return _elements(node.inputs[::2], type.key) or _elements(node.inputs[1::2], type.value)


def _with_name(inputs: int | None, outputs: int) -> Callable[[Node], str | None]:
    """The rule of kinds whose attribute `name` says what they are about."""

    def rule(node: Node) -> str | None:
        if not isinstance(node.attributes.get("name"), str):
            return f"{node.kind} has the attribute name"
        return _arity(node, inputs, outputs)

    return rule


def _call_method(node: Node) -> str | None:
    return _with_name(None, 1)(node) or (None if node.inputs else "prim::CallMethod takes the object first")


def _call_function(node: Node) -> str | None:
    if not node.inputs or node.inputs[0].type is not T.FUNCTION:
        return "prim::CallFunction takes the function first"
    return _arity(node, None, 1)


def _isinstance(node: Node) -> str | None:
    types = node.attributes.get("types")
    if not isinstance(types, list) or not all(isinstance(t, Type) for t in types):
        return "prim::isinstance has a list of types as attribute types"
    if node.outputs and node.outputs[0].type is not T.BOOL:
        return "prim::isinstance gives a bool"
    return _arity(node, 1, 1)


def _unchecked_cast(node: Node) -> str | None:
    return _arity(node, 1, 1)  # any two types: in code that never runs, refinement may have left nothing in common


def _checked_cast(node: Node) -> str | None:
    types = node.attributes.get("types")
    if not isinstance(types, list) or [o.type for o in node.outputs] != types:
        return "prim::checked_cast has the type of its output as attribute types"
    return _arity(node, 1, 1)


def _no_outputs(node: Node) -> str | None:
    return _arity(node, None, 0)


def _one_output(node: Node) -> str | None:
    return _arity(node, 0, 1)


def _raise(node: Node) -> str | None:
    fault = _arity(node, 2, 0)
    if fault:
        return fault
    message, name = (v.type for v in node.inputs)
    if not _fits(message, T.STRING) or not _fits(name, T.OptionalType.of(T.STRING)):
        return "prim::RaiseException takes a message (str) and the name of a class (str or None)"
    return None


def _exit(node: Node) -> str | None:
    return _arity(node, 1, len(node.outputs) and 1)  # TorchScript's own graphs have an output that nothing uses


def _group(node: Node) -> str | None:
    body = node.attributes.get("Subgraph")
    if not isinstance(body, Graph):
        return f"{node.kind} has a graph as attribute Subgraph"
    if len(body.inputs) != len(node.inputs):
        return f"the graph of {node.kind} takes {len(body.inputs)} values, but is given {len(node.inputs)}"
    if node.has(Trait.DEFERRED):
        return _deferred(node, body)
    if len(body.outputs) != len(node.outputs):
        return f"the graph of {node.kind} gives {len(body.outputs)} values for {len(node.outputs)} outputs"
    return _first(_flow(v, p, "argument") for v, p in zip(node.inputs, body.inputs, strict=True))


def _deferred(node: Node, body: Graph) -> str | None:
    wrapper = Spelling.WRAPPER.by_kind[node.kind]
    type = node.outputs[0].type if len(node.outputs) == 1 else None
    if not isinstance(type, T.FutureType | T.AwaitType) or type.kind != wrapper:
        return f"{node.kind} gives one {wrapper}"
    if len(body.outputs) == 1 and not _related(body.outputs[0].type, type.element):
        return f"the graph of {node.kind} gives {body.outputs[0].type}, but its output is {type}"
    return _first(_flow(v, p, "argument") for v, p in zip(node.inputs, body.inputs, strict=True))


_RULES: dict[str, Callable[[Node], str | None]] = {
    "prim::Param": _param,
    "prim::Return": _return,
    "prim::Constant": constant_fault,
    "prim::If": _if,
    "prim::Loop": _loop,
    "prim::GradOf": _grad_of,
    "prim::Region": _region,
    "prim::Try": _try,
    "prim::TupleConstruct": _tuple_construct,
    "prim::TupleUnpack": _tuple_unpack,
    "prim::TupleIndex": _tuple_index,
    "prim::TupleSlice": _tuple_slice,
    "prim::TensorItem": _tensor_item,
    "prim::SetTensorItem": _tensor_item,
    "prim::ListConstruct": _list_construct,
    "prim::ListUnpack": _list_unpack,
    "prim::DictConstruct": _dict_construct,
    "prim::GetAttr": _with_name(1, 1),
    "prim::SetAttr": _with_name(2, 0),
    "prim::Load": _with_name(0, 1),
    "prim::Store": _with_name(1, 0),
    "prim::CallFunction": _call_function,
    "prim::CallMethod": _call_method,
    "prim::isinstance": _isinstance,
    "prim::unchecked_cast": _unchecked_cast,
    "prim::checked_cast": _checked_cast,
    "prim::Print": _no_outputs,
    "prim::RaiseException": _raise,
    "prim::Uninitialized": _one_output,
    "prim::Exit": _exit,
}
"""Rules that a schema cannot express. Other kinds are held to their schema, if they have one."""
