"""How nodes that are no calls of an operator are written in FX graphs: control flow, attributes, objects, calls."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import fx

from jitlite.export.to_fx import control_flow, fx_calls, symbolic
from jitlite.export.to_fx.fx_calls import FxCall, is_importable
from jitlite.export.to_fx.fx_modules import graph_module
from jitlite.export.to_fx.fx_scope import FxScope, has_nodes
from jitlite.export.to_fx.preparation import always_raises
from jitlite.ir import types as T
from jitlite.ir.constants import QualifiedClassName
from jitlite.ir.graph import Block, Node, Value, constant_of, is_constant
from jitlite.ir.tensor_items import index_of
from jitlite.ir.values import class_type_of, named_tuple_class, object_class

# -- control flow


def _if(scope: FxScope, node: Node) -> None:
    condition = scope.read(node.inputs[0])
    raising = [always_raises(b) for b in node.blocks]
    if not node.outputs and raising[0] != raising[1]:
        message = _plain_error(node.blocks[raising[1]])
        if message is not None and node.blocks[raising[0]].is_empty:
            _check(scope, node, condition, raising[0], message)
            return
    inner = [_inner(scope, block.nodes, (), block.outputs) for block in node.blocks]
    operands = _join(scope, inner)
    names = ("true_graph", "false_graph")
    parts = [_attach(scope, part, name, node) for part, name in zip(inner, names, strict=True)]
    made = scope.call(FxCall(control_flow.run_if, (condition, *parts, operands)), node)
    scope.result(made, node)


def _plain_error(block: Block) -> tuple[str, str | None] | None:
    """Message and class of the exception that a block raises, if it does nothing else and they are constants."""
    nodes = list(block.computations)
    if len(nodes) != 1 or nodes[0].kind != "prim::RaiseException" or not all(map(is_constant, nodes[0].inputs)):
        return None
    message, *class_name = map(constant_of, nodes[0].inputs)
    return message, class_name[0] if class_name else None


def _check(scope: FxScope, node: Node, condition: object, is_negated: bool, error: tuple[str, str | None]) -> None:
    message, class_name = error
    target: Any
    if is_negated:
        target = symbolic.negation if scope.conversion.for_export else operator.not_
        condition = scope.call(FxCall(target, (condition,)), node)
    prefix, _, text = message.partition(": ")
    if class_name is None and prefix == "AssertionError" and text:
        target = control_flow.check if scope.conversion.for_export else torch._assert
        scope.call(FxCall(target, (condition, text)), node)
        return
    scope.call(FxCall(control_flow.check, (condition, message, _error_class(scope, class_name))), node)


def _error_class(scope: FxScope, name: str | None) -> object:
    if isinstance(name, QualifiedClassName) and name.python_class.__module__ != "builtins":
        return scope.get_attribute(scope.conversion.store(name, "exception")) or ""
    return str(name or "")


def _loop(scope: FxScope, node: Node) -> None:
    (block,) = node.blocks
    count, condition, *carried = [scope.read(v) for v in node.inputs]
    body = _inner(scope, block.nodes, block.inputs, block.outputs)
    operands = _join(scope, [body])
    part = _attach(scope, body, "body_graph", node)
    arguments = (count, condition, part, tuple(carried), operands)
    scope.result(scope.call(FxCall(control_flow.run_loop, arguments), node), node)


def _try(scope: FxScope, node: Node) -> None:
    if scope.conversion.for_export:
        raise scope.refusal(
            "a `try` has no place in an exported program", node, "test for what may go wrong, instead of catching it"
        )
    body, handler = node.blocks
    inner = [_inner(scope, body.nodes, (), body.outputs), _inner(scope, handler.nodes, handler.inputs, handler.outputs)]
    operands = _join(scope, inner)
    parts = [_attach(scope, p, n, node) for p, n in zip(inner, ("body_graph", "handler_graph"), strict=True)]
    scope.result(scope.call(FxCall(control_flow.run_try, (*parts, operands)), node), node)


def write_with(scope: FxScope, enter: Node, nodes: Sequence[Node]) -> None:
    """Write the body of a `with` statement."""
    inside = set(nodes)
    outputs = [v for n in nodes for v in n.outputs if any(_is_outside(u.user, inside) for u in v.uses)]
    outputs = [v for v in outputs if not is_constant(v)]
    manager = scope.read(enter.inputs[0])
    entered = enter.output if enter.outputs else None
    if entered is not None and any(not _is_outside(u.user, inside) for u in entered.uses):
        raise scope.refusal(
            "what a context manager gives is used in its `with`", enter, "enter it without `as`, and use it itself"
        )
    body = _inner(scope, nodes, (), outputs)
    operands = _join(scope, [body])
    part = _attach(scope, body, "with_graph", enter)
    made = scope.call(FxCall(control_flow.run_with, (manager, part, operands)), enter)
    for i, value in enumerate([entered, *outputs]):
        if value is not None and value.has_uses:
            scope.values[value] = scope.call(FxCall(operator.getitem, (made, i)), enter)


def _is_outside(user: Node, inside: set[Node]) -> bool:
    at: Node | None = user
    while at is not None:
        if at in inside:
            return False
        at = at.block.owner if at.block is not None else None
    return True


def _inner(scope: FxScope, nodes: Iterable[Node], inputs: Sequence[Value], outputs: Sequence[Value]) -> FxScope:
    """The graph of a branch or body."""
    inner = FxScope(scope.conversion, scope, torch.nn.Module())
    inner.holder.training = scope.holder.training
    for value in inputs:
        inner.values[value] = inner.placeholder(value.name)
    inner.emit(list(nodes))
    inner.graph.output(tuple(inner.read(v) for v in outputs))
    return inner


def _join(scope: FxScope, inner: Sequence[FxScope]) -> tuple[Any, ...]:
    """Let all of these graphs take the same operands, behind their own parameters; gives the operands."""
    keys = list(dict.fromkeys(key for part in inner for key in part.captured))
    given = [next(part.captured[key][0] for part in inner if key in part.captured) for key in keys]
    names = [next(part.captured[key][1].name for part in inner if key in part.captured) for key in keys]
    for part in inner:
        for key, name in zip(keys, names, strict=True):
            if key in part.captured:
                _place_last(part, part.captured[key][1])
            else:
                part.placeholder(name)
    return tuple(given)


def _place_last(part: FxScope, node: torch.fx.Node) -> None:
    """Let a parameter be the last so far."""
    last = [n for n in part.graph.nodes if n.op == "placeholder"][-1]
    if last is not node:
        last.append(node)


def _attach(scope: FxScope, inner: FxScope, name: str, node: Node) -> fx.Node:
    """Make a graph an attribute of the module around it; gives the node that reads it."""
    number = 0
    while hasattr(scope.holder, f"{name}_{number}"):
        number += 1
    made = graph_module(inner.holder, inner.graph, f"{name}_{number}")
    if scope.conversion.for_export and scope.conversion.is_written_outside(node):
        made.meta[symbolic.WRITTEN] = True
    scope.holder.add_module(f"{name}_{number}", made)
    read = scope.graph.get_attr(f"{name}_{number}")
    scope.mark(read, node)
    return read


# -- attributes and objects


def _get_attribute(scope: FxScope, node: Node) -> None:
    prepared, name = scope.prepared, node.attributes["name"]
    owner = prepared.module_of(node.inputs[0])
    if owner is None:
        scope.values[node.output] = scope.call(FxCall(getattr, (scope.read(node.inputs[0]), name)), node)
        return
    found = prepared.object_of(node.output)
    if scope.is_fixed_attribute(node.output) or not node.output.has_uses:
        return  # read where it is needed
    path = prepared.path_of(node.inputs[0]) or ()
    scope.place_attribute(path, name, getattr(owner, name, found))
    reference = scope.owner_reference(node.inputs[0])
    made = scope.call(FxCall(control_flow.read_attribute, (reference, name)), node, name)
    scope.values[node.output] = made


def _set_attribute(scope: FxScope, node: Node) -> None:
    owner, value = node.inputs
    name = node.attributes["name"]
    if scope.prepared.module_of(owner) is None:
        scope.call(FxCall(fx_calls.set_attribute, (scope.read(owner), name, scope.read(value))), node)
        return
    if isinstance(value.type, T.ClassType) and value.type.is_module:
        raise scope.refusal(
            f"the submodule '{name}' is assigned", node, "choose between submodules where they are called"
        )
    module = scope.prepared.module_of(owner)
    scope.place_attribute(scope.prepared.path_of(owner) or (), name, getattr(module, name, None))
    scope.call(FxCall(control_flow.write_attribute, (scope.owner_reference(owner), name, scope.read(value))), node)


def _new_object(scope: FxScope, node: Node) -> None:
    if _constructor(node) is not None:
        return  # made where `__init__` is called
    made: Any = node.output.type
    cls = object_class(made)
    if not is_importable(cls):
        raise scope.refusal(
            f"an object of the class '{cls.__qualname__}' is made, which cannot be found by its name",
            node,
            "define the class at the top of a module",
        )
    call = FxCall(fx_calls.new_object, (fx_calls.qualified_class(cls),))
    scope.values[node.output] = scope.call(call, node)


def _construction(scope: FxScope, cls: Any, args: tuple[Any, ...]) -> FxCall:
    """A call of a class."""
    if is_importable(cls):
        return FxCall(fx_calls.make, (fx_calls.qualified_class(cls), *args))
    return FxCall(fx_calls.call_value, (scope.get_attribute(scope.conversion.store(cls, "class")), *args))


def _constructor(node: Node) -> Node | None:
    """The call of the `__init__` of a class that is not compiled, such as `torch.no_grad`."""
    for use in node.output.uses:
        user = use.user
        if user.kind == "prim::CallMethod" and user.attributes["name"] == "__init__" and user.block is node.block:
            return user
    return None


def _call_method(scope: FxScope, node: Node) -> None:
    name, (receiver, *arguments) = node.attributes["name"], node.inputs
    args = tuple(scope.read(v) for v in arguments)
    if name == "__init__" and receiver.node.kind == "prim::CreateObject":
        made: Any = receiver.type
        scope.values[receiver] = scope.call(_construction(scope, object_class(made), args), node)
        return
    module = scope.prepared.module_of(receiver)
    if module is not None and scope.prepared.is_call_of_kept(node):
        target = ".".join(scope.prepared.path_of(receiver) or ())
        _keep(scope.conversion.root, target, module)
        if scope.parent is not None:
            raise scope.refusal(f"the call of '{target}', which is to be kept, is in a branch or loop", node)
        call = scope.graph.call_module(scope.conversion.written_target(target), args)
        scope.mark(call, node)
        scope.values[node.output] = call
        return
    known = class_type_of(module) if module is not None else receiver.type
    raise scope.refusal(f"the method '{name}' of {known} is called, of which it is not known what it does", node)


def _keep(root: torch.nn.Module, target: str, module: torch.nn.Module) -> None:
    """Let the FX module have the submodule itself, and not only its state."""
    prefix, _, name = target.rpartition(".")
    root.get_submodule(prefix)._modules[name] = module


def _call_function(scope: FxScope, node: Node) -> None:
    raise scope.refusal("a function is called that is not known here", node)


def _python_call(scope: FxScope, node: Node) -> None:
    function = node.attributes.get("callable")
    if function is None:
        raise scope.refusal("a Python function is called that is not available", node)
    args = tuple(scope.read(v) for v in node.inputs)
    if not is_importable(function):
        raise scope.refusal(
            f"the Python function '{getattr(function, '__name__', function)}' cannot be found by its name",
            node,
            "define it at the top of a module",
        )
    target = fx.node.has_side_effect(function)
    made = scope.call(FxCall(target, args), node)
    if len(node.outputs) == 1:
        scope.values[node.output] = made
    else:
        scope.result(made, node)


def _deferred(scope: FxScope, node: Node) -> None:
    what = "fork" if node.kind == "prim::fork" else "an awaitable"
    raise scope.refusal(
        f"the result of {what} is not waited for where it is made",
        node,
        "call the function, or wait for it in the same block",
    )


# -- values


def _same(scope: FxScope, node: Node) -> None:
    scope.values[node.output] = scope.read(node.inputs[0])


def _tuple(scope: FxScope, node: Node) -> None:
    made: Any = node.output.type
    cls = named_tuple_class(made)
    args = tuple(scope.read(v) for v in node.inputs)
    is_plain_class = is_importable(cls) and not cls.__module__.startswith("torch")
    scope.values[node.output] = scope.call(
        FxCall(cls, args) if is_plain_class else _construction(scope, cls, args), node
    )


def _list(scope: FxScope, node: Node) -> None:
    values = [scope.read(v) for v in node.inputs]
    call = FxCall(list, (values,)) if has_nodes(values) else FxCall(fx_calls.new_list, tuple(values))
    scope.values[node.output] = scope.call(call, node)


def _dict(scope: FxScope, node: Node) -> None:
    values = [scope.read(v) for v in node.inputs]
    pairs = list(zip(values[::2], values[1::2], strict=True))
    call = FxCall(dict, (pairs,)) if has_nodes(pairs) else FxCall(fx_calls.new_dict, tuple(pairs))
    scope.values[node.output] = scope.call(call, node)


def _unpack(scope: FxScope, node: Node) -> None:
    value = scope.read(node.inputs[0])
    if node.kind == "prim::ListUnpack":
        value = scope.call(FxCall(fx_calls.unpack, (value, len(node.outputs))), node)
    for i, output in enumerate(node.outputs):
        if output.has_uses:
            is_display = isinstance(value, (tuple, list))
            scope.values[output] = value[i] if is_display else scope.call(FxCall(operator.getitem, (value, i)), node)


def _tuple_slice(scope: FxScope, node: Node) -> None:
    part = slice(node.attributes["beg"], node.attributes["end"])
    scope.values[node.output] = scope.call(FxCall(operator.getitem, (scope.read(node.inputs[0]), part)), node)


def _isinstance(scope: FxScope, node: Node) -> None:
    value, wanted = scope.read(node.inputs[0]), node.attributes["types"]
    if list(wanted) == [T.NONE]:
        call = FxCall(operator.is_, (value, None))
    else:
        names = [str(t) for t in wanted]
        if not all(fx_calls.is_name_of(name, t) for name, t in zip(names, wanted, strict=True)):
            raise scope.refusal(f"isinstance of {', '.join(names)} has no meaning in an FX graph", node)
        call = FxCall(fx_calls.has_type, (value, names))
    scope.values[node.output] = scope.call(call, node)


def _truth(scope: FxScope, node: Node) -> None:
    """`bool(x)` of a tensor; the condition of branches takes the tensor itself while a program is exported."""
    (value,) = node.inputs
    if scope.conversion.for_export and isinstance(value.type, T.TensorType) and _is_condition_only(node.output):
        scope.values[node.output] = scope.read(value)
        return
    target = symbolic.to_bool if scope.conversion.for_export else bool
    scope.values[node.output] = scope.call(FxCall(target, (scope.read(value),)), node)


def _checked_cast(scope: FxScope, node: Node) -> None:
    raise scope.refusal(
        f"a cast to {node.output.type.annotation} that has to be checked has no meaning in an FX graph", node,
        "let 'isinstance' choose the branch that it is in",
    )  # fmt: skip


def _is_condition_only(value: Value) -> bool:
    for user, offset in value.uses:
        if (user.kind, offset) in (("prim::If", 0), ("prim::Loop", 1)):
            continue
        owner = user.block.owner if user.kind == "prim::Return" and user.block is not None else None
        if owner is None or owner.kind != "prim::Loop" or offset != 0:
            return False
    return True


def _tensor_item(scope: FxScope, node: Node) -> None:
    tensor, *operands = map(scope.read, node.inputs)
    index = index_of(node.attributes["index"], operands)
    scope.values[node.output] = scope.call(FxCall(operator.getitem, (tensor, index)), node)


def _set_tensor_item(scope: FxScope, node: Node) -> None:
    tensor, value, *operands = map(scope.read, node.inputs)
    index = index_of(node.attributes["index"], operands)
    scope.call(FxCall(operator.setitem, (tensor, index, value)), node)


KINDS: dict[str, Callable[[FxScope, Node], None]] = {
    "prim::If": _if,
    "prim::Loop": _loop,
    "prim::Try": _try,
    "prim::GetAttr": _get_attribute,
    "prim::SetAttr": _set_attribute,
    "prim::CreateObject": _new_object,
    "prim::CallMethod": _call_method,
    "prim::CallFunction": _call_function,
    "prim::PythonOp": _python_call,
    "prim::IgnoredPythonOp": _python_call,
    "prim::fork": _deferred,
    "prim::awaitable": _deferred,
    "prim::unchecked_cast": _same,
    "prim::checked_cast": _checked_cast,
    "prim::unchecked_unwrap_optional": _same,
    "prim::TupleConstruct": _tuple,
    "prim::ListConstruct": _list,
    "prim::DictConstruct": _dict,
    "prim::TupleUnpack": _unpack,
    "prim::ListUnpack": _unpack,
    "prim::TupleSlice": _tuple_slice,
    "prim::TensorItem": _tensor_item,
    "prim::SetTensorItem": _set_tensor_item,
    "prim::isinstance": _isinstance,
    "aten::Bool": _truth,
}
"""How each kind is written that is no call of an operator, or a special one."""
