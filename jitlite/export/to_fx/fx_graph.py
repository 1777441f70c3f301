"""From a script to a `torch.fx.GraphModule`.

    graph(%self, %x : Tensor):                            def forward(self, x):
      %w : Tensor = prim::GetAttr[name="weight"](%self)       weight = self.weight
      %y : Tensor = aten::mul(%x, %w)                =>       mul = torch.ops.aten.mul.Tensor(x, weight)
      %1 : int = prim::Constant[value=1]()                    add = torch.ops.aten.add.Tensor(mul, 1)
      %z : Tensor = aten::add(%y, %1, %1)                     return add
      return (%z)

`preparation.py` makes one graph without calls of it, `fx_scope.py` writes that node by node, `fx_calls.py` says what an
operator is in FX, `control_flow.py` what branches and loops call, `fx_modules.py` holds the state.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch.fx import GraphModule

from jitlite.base.errors.ways_out import NOT_AS_FX
from jitlite.base.keywords import checks_keywords
from jitlite.base.source import did_you_mean
from jitlite.compiler import program as compiler
from jitlite.export.to_fx import fx_calls
from jitlite.export.to_fx.fx_kinds import KINDS, write_with
from jitlite.export.to_fx.fx_modules import graph_module, rename_hiding_parameters, skeleton
from jitlite.export.to_fx.fx_scope import FxExport, FxScope, is_literal
from jitlite.export.to_fx.preparation import Hooks, Prepared
from jitlite.ir import types as T
from jitlite.ir.code_text import identifier, is_identifier
from jitlite.ir.int_codes import int_coded, is_int_coded
from jitlite.ir.unit import Function
from jitlite.ir.values import class_type_of

Kept = Collection[str] | Callable[[str, torch.nn.Module], bool]


@checks_keywords
def to_fx(obj: object, *, method: str = "forward", keep: Kept = (), for_export: bool = False) -> GraphModule:
    """An FX module that does what a script does. It shares the parameters and buffers of a module, under their names.

    Branches on attributes are decided by what these are now, `training` among them. What depends on arguments stays:
    branches, loops, `with` and `try` call functions of `jitlite.export.to_fx.control_flow` with their bodies, which are
    FX modules too. Without such calls, and calls of other functions of jitlite, the result does not need jitlite.

    Args:
        obj: a compiled function, a method of a script module, or a script module.
        method: the method of the module.
        keep: names of submodules whose calls stay calls (`call_module`), or a function that is asked for each, with
            name and module.
        for_export: let functions take symbolic numbers; for `torch.export`.

    Raises:
        NotSupportedError: where something has no meaning in FX; the error names it and its place.
    """
    function, owner = _function_of(obj, method)
    is_kept = keep if callable(keep) else _named(keep, owner)
    with compiler.compiling():
        prepared = Prepared(function, owner, is_kept, _hooks_of(obj, method))
        root = skeleton(owner)
        conversion = FxExport(prepared, root, for_export, KINDS, write_with)
        scope = FxScope(conversion, None, root)
        _add_parameters(scope, function, owner is not None)
        scope.emit_block(prepared.graph.block)
        outputs = [scope.read(v) for v in prepared.graph.outputs]
        scope.graph.output(outputs[0] if len(outputs) == 1 else tuple(outputs))
        rename_hiding_parameters(scope.graph)
        return graph_module(root, scope.graph, _class_name(function, owner))


def _named(keep: Collection[str], owner: Any) -> Callable[[str, torch.nn.Module], bool]:
    """Is a submodule one of these?

    Raises:
        TypeError: `keep` is a single text, not a collection of names.
        ValueError: there is no such submodule.
    """
    if isinstance(keep, str):
        raise TypeError(f"keep={keep!r}: expected a list of names of submodules")
    known = [name for name, _ in owner.named_modules() if name] if owner is not None else []
    for name in keep:
        if name not in known:
            hint = did_you_mean(name, known) or f"there are {', '.join(known) or 'none'}"
            raise ValueError(f"keep: there is no submodule '{name}'; {hint}")
    return lambda name, module: name in keep


def _function_of(obj: object, method: str) -> tuple[Function, Any]:
    function = getattr(obj, "__jitlite_function__", None)
    if isinstance(function, Function):
        return function, getattr(obj, "owner", None)
    if isinstance(obj, torch.nn.Module) and class_type_of(obj) is not None:
        found = getattr(getattr(obj, method, None), "__jitlite_function__", None)
        if isinstance(found, Function):
            return found, obj
        raise NOT_AS_FX(f"the module has no compiled method '{method}'")
    raise NOT_AS_FX(
        f"a {type(obj).__name__} is no script",
        hint="give a function or module that jitlite.script or jitlite.load made",
    )


def _hooks_of(obj: object, method: str) -> Hooks:
    """What a call of the module itself runs beside `forward`; a call of one of its methods runs no hooks."""
    known = class_type_of(obj) if isinstance(obj, torch.nn.Module) and method == "forward" else None
    return (known.forward_pre_hooks, known.forward_hooks) if known is not None else ((), ())


def _add_parameters(scope: FxScope, function: Function, is_method: bool) -> None:
    inputs = scope.conversion.prepared.graph.inputs
    for formal, value in list(zip(function.schema.arguments, inputs, strict=True))[is_method:]:
        default = formal.default if formal.has_default else None
        default = int_coded(formal.declared_type, default) if is_int_coded(formal.declared_type) else default
        given = ((default if is_literal(default) else None),) if formal.has_default else ()
        node = scope.graph.placeholder(
            identifier(formal.name, "the name of a parameter"), _annotation(formal.type), *given
        )
        scope.values[value] = node
        if not is_literal(default):
            constant = scope.get_attribute(scope.conversion.store(default, "default"))
            scope.values[value] = scope.graph.call_function(fx_calls.or_default, (node, constant))
            scope.values[value].meta["is_wrapped"] = True


_PLAIN: dict[T.Type, Any] = {
    T.TENSOR: torch.Tensor, T.INT: int, T.FLOAT: float, T.BOOL: bool, T.STRING: str, T.COMPLEX: complex,
}  # fmt: skip


_typing: Any = typing


def _annotation(t: T.Type) -> Any:
    """The annotation of a parameter, for readers and for those who make a graph of the module again."""
    if isinstance(t, T.OptionalType):
        element = _annotation(t.element)
        return None if element is None else typing.Optional[element]  # noqa: UP045
    parts = [_annotation(part) for part in t.contained]
    if not parts or None in parts:
        return _PLAIN.get(t)
    if isinstance(t, T.ListType | T.DictType | T.SetType):
        return getattr(_typing, t.kind)[tuple(parts)]
    is_plain = isinstance(t, T.TupleType) and t.names is None
    return typing.Tuple[tuple(parts)] if is_plain else None  # noqa: UP006


def _class_name(function: Function, owner: object) -> str:
    known = class_type_of(owner) if owner is not None else None
    name = known.qualified_name.rpartition(".")[2] if known is not None else function.name
    return name if is_identifier(name) else "GraphModule"
