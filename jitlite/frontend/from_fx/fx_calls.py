"""Calls of Python functions, methods of tensors and modules in FX graphs.

What TorchScript knows as an operator becomes that operator, with the overload that fits the types: `torch.relu(x)`,
`x.view(-1)`, `math.sqrt(n)`, `x[1:, n]`. Modules are looked into. Functions of torch's that are written in Python, such
as those of `torch.nn.functional`, are compiled if there is a program to compile them in. What is left Python calls.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.fx
from torch.fx.proxy import TraceError

from jitlite.base.source import CompileError, SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.builtin_names import builtin_op_name
from jitlite.frontend.emit.definition import FunctionCompiler
from jitlite.frontend.emit.denotations import sugared_from_python
from jitlite.frontend.emit.resolver import Resolver
from jitlite.frontend.emit.values import Args, BuiltinFunction, SimpleValue, SugaredValue, TensorCast
from jitlite.frontend.from_fx.fx_converter import Converter
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.ir.traits import Spelling
from jitlite.operators.arithmetic import BY_FUNCTION
from jitlite.operators.overloads import NamedValue

_NUMERIC = (T.INT, T.FLOAT, T.BOOL)


def function(c: Converter, node: torch.fx.Node) -> None:
    """Bind a call of a Python function."""
    target: Any = node.target
    number = _on_numbers(c, node)
    if number is not None:
        c.made.note(target, "exact")
        c.bind(node, number)
    elif target in _SPECIAL and _SPECIAL[target](c, node):
        pass
    elif isinstance(target, torch._ops.OpOverloadPacket):
        _sugared(c, node, BuiltinFunction(target._qualified_op_name))
    elif c.program is not None and _is_of_torch(target):
        _sugared(c, node, _Lazy(c.program, target))
    else:
        name = _name_of_operator(target)
        _sugared(c, node, None if name is None else BuiltinFunction(name))


def _is_of_torch(target: object) -> bool:
    """Is it a function of torch's that is written in Python?"""
    return inspect.isfunction(target) and str(target.__module__).startswith("torch.")


class _Lazy(SugaredValue):
    """A Python function that is compiled when it is called."""

    def __init__(self, program: FunctionCompiler, target: Callable[..., Any]) -> None:
        self.program = program
        self.resolver = Resolver()
        self.target = target

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        return sugared_from_python(self, self.target, self.target.__name__, range).call(b, range, args, kwargs)


def _name_of_operator(target: object) -> str | None:
    if target is operator.getitem:  # of tensors, Python's is more than the operator
        return None
    try:
        return builtin_op_name(target)
    except TypeError:  # it has no hash
        return None


def _on_numbers(c: Converter, node: torch.fx.Node) -> Value | None:
    """The value of a function of numbers, such as `operator.add` on sizes."""
    kind = BY_FUNCTION.get(node.target) if callable(node.target) else None
    if kind is None or node.kwargs:
        return None
    values = [c.argument(a) for a in node.args]
    known = [v for v in values if v is not None and v.type in _NUMERIC]
    if len(known) != len(values) or (kind.startswith("prim::") and len({v.type for v in known}) > 1):
        return None
    return _insert_if_any(c, kind, known)


def _insert_if_any(c: Converter, kind: str, inputs: Sequence[Value]) -> Value | None:
    """Insert an operator; None where it has no overload for these inputs."""
    call = c.graph.create(kind, inputs)
    if call.op is None:
        call.remove_all_inputs()
        return None
    for returned in call.op.schema.returns:
        call.add_output(returned.type)
    return call.insert_before(c.graph.insert_point).output


def _sugared(c: Converter, node: torch.fx.Node, callee: SugaredValue | None, own: int = 0) -> None:
    """Bind a call of what the front end knows how to call; Python calls what comes to nothing.

    `own` says how many arguments the callee has already.
    """
    target: Any = node.target
    name = getattr(callee, "name", "it")
    if callee is None:
        c.eager(node, "a function of Python", *_calling(node))
        return
    positional = _named(c, ((None, a) for a in node.args[own:]))
    keywords = _named(c, node.kwargs.items())
    last = c.graph.insert_point.prev
    if positional is None or keywords is None:
        c.eager(node, "an argument that graphs do not have", *_calling(node))
        return
    try:
        value = callee.call(c.builder, c.here, positional, keywords).as_value(c.builder, c.here)
    except CompileError as error:
        _take_back(c, last)
        why = f"no overload of {name} takes such arguments" if name != "it" else error.message.splitlines()[0]
        c.eager(node, why, *_calling(node))
        return
    is_packet = isinstance(target, torch._ops.OpOverloadPacket)
    c.made.note(target, "packet" if is_packet else "exact", f"as {name}" if name != "it" else "compiled")
    c.bind_result(node, value)


def _take_back(c: Converter, last: object) -> None:
    """Remove what was inserted for a call that came to nothing."""
    node = c.graph.insert_point.prev
    while node is not None and node is not last:
        before = node.prev
        if node.kind != "prim::Constant" and not any(output.has_uses for output in node.outputs):
            node.destroy()
        node = before


def _named(c: Converter, arguments: Iterable[tuple[str | None, Any]]) -> list[NamedValue] | None:
    found = []
    for name, argument in arguments:
        value = c.argument(list(argument) if type(argument) is tuple else argument)
        if value is None:
            return None
        found.append(NamedValue(name, value))
    return found


def _calling(node: torch.fx.Node) -> tuple[Callable[..., Any], ...]:
    """What Python is to call for a method."""
    return (_method(str(node.target)),) if node.op == "call_method" else ()


def _method(name: str) -> Callable[..., object]:
    def call(owner: object, *args: object, **kwargs: object) -> Any:
        return getattr(owner, name)(*args, **kwargs)

    call.__name__ = name
    return call


def method(c: Converter, node: torch.fx.Node) -> None:
    """Bind a call of a method, of a tensor most often."""
    owner = c.argument(node.args[0])
    name = str(node.target)
    if owner is None or not isinstance(owner.type, T.TensorType):
        c.eager(node, "a method of Python", _method(name))
        return
    try:
        callee = SimpleValue(owner).attr(c.builder, c.here, name)
    except CompileError:
        callee = None
    is_plain = isinstance(callee, BuiltinFunction | TensorCast)
    _sugared(c, node, callee if is_plain else None, own=1)


def _attribute(c: Converter, node: torch.fx.Node) -> bool:
    """Bind `getattr(x, "shape")`."""
    owner, name = node.args[0], str(node.args[1])
    found = c.object_of(owner)
    if found is not None:
        c.bind_object(node, getattr(found[0], name))
        return True
    value = c.argument(owner)
    if value is None or not isinstance(value.type, T.TensorType) or name not in Spelling.TENSOR_PROPERTY.kind_of:
        return False
    c.made.note(node.target, "exact", f"as {Spelling.TENSOR_PROPERTY.kind_of[name]}")
    c.bind_result(node, SimpleValue(value).attr(c.builder, c.here, name).as_value(c.builder, c.here))
    return True


def _item(c: Converter, node: torch.fx.Node) -> bool:
    """Bind `x[i]`: an item of a list or tuple, or of a tensor, where every index is a number, a slice or None."""
    owner = c.argument(node.args[0])
    index: Any = node.args[1]
    if owner is None:
        return False
    if isinstance(owner.type, T.TensorType):
        item = _part_of_tensor(c, owner, index if isinstance(index, tuple) else (index,))
    else:
        item = _element(c, owner, index)
    if item is None:
        return False
    c.made.note(node.target, "exact")
    c.bind_result(node, item)
    return True


def _element(c: Converter, owner: Value, index: object) -> Value | None:
    """An element of a list or tuple; None where there is none."""
    position = c.argument(index) if isinstance(owner.type, T.ListType | T.TupleType) else None
    if position is None or position.type is not T.INT:
        return None
    if isinstance(owner.type, T.ListType):
        return c.builder.op("aten::__getitem__", [owner, position])
    elements = owner.type.elements if isinstance(owner.type, T.TupleType) else ()
    if type(index) is not int or not -len(elements) <= index < len(elements):
        return None
    return c.builder.tuple_index(owner, position, elements[index])


def _part_of_tensor(c: Converter, tensor: Value, indices: tuple[object, ...]) -> Value | None:
    """`x[1:, n, None]`; None where an index is something else."""
    given: list[Any] = []
    for index in indices:
        bounds = (index.start, index.stop, index.step) if isinstance(index, slice) else (index,)
        values = [c.argument(bound) for bound in bounds]
        if type(index) is bool or any(v is None or v.type not in (T.INT, T.NONE) for v in values):
            return None
        given.append((index, values))
    dim = 0
    for index, values in given:
        if isinstance(index, slice):
            start, stop, step = values
            step = c.constants.of(1) if step.type is T.NONE else step
            tensor = c.builder.op("aten::slice", [tensor, c.constants.of(dim), start, stop, step])
            dim += 1
        elif index is None:
            tensor = c.builder.op("aten::unsqueeze", [tensor, c.constants.of(dim)])
            dim += 1
        else:
            tensor = c.builder.op("aten::select", [tensor, c.constants.of(dim), values[0]])
    return tensor


_SPECIAL: dict[object, Callable[[Converter, torch.fx.Node], bool]] = {getattr: _attribute, operator.getitem: _item}
"""Functions of Python that need more than their arguments' types."""


def module(c: Converter, node: torch.fx.Node) -> None:
    """Bind a call of a module: what it does is looked into, if that can be seen, and has no hooks."""
    found = c.gm.get_submodule(str(node.target))
    traced = found if isinstance(found, torch.fx.GraphModule) else _traced(found)
    if traced is None or node.kwargs or _has_hooks(found):
        c.eager(node, "a module that stays Python's", found)
        return
    places = traced.graph.find_nodes(op="placeholder")
    if len(places) != len(node.args):
        c.eager(node, "a module called without some of its arguments", found)
        return
    c.made.note(type(found), "exact", "looked into")
    (result,) = c.inline(traced, [c.value(a) for a in node.args], whole=True)
    c.bind(node, result)


class _Tracer(torch.fx.Tracer):
    """Looks into every module."""

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        return False


def _traced(found: torch.nn.Module) -> torch.fx.GraphModule | None:
    try:
        return torch.fx.GraphModule(found, _Tracer().trace(found))
    except (TraceError, TypeError, RuntimeError, AttributeError, NotImplementedError, ValueError):
        return None


def _has_hooks(found: torch.nn.Module) -> bool:
    tables = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(m, table, None) for m in found.modules() for table in tables)
