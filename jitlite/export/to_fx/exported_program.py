"""From a script to a `torch.export.ExportedProgram`, with which old archives get to be `.pt2` files.

The script becomes an FX module (`fx_graph.py`) whose functions know about symbolic numbers (`symbolic.py`), and
`torch.export.export` records that. What is then not possible is told by the line of the script.
"""

from __future__ import annotations

import copy
import inspect
import operator
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.utils._pytree import tree_map

from jitlite.base import torch_internals
from jitlite.base.errors.ways_out import NOT_EXPORTED
from jitlite.base.keywords import checks_keywords
from jitlite.base.source import NotSupportedError
from jitlite.export.to_fx import control_flow
from jitlite.export.to_fx.fx_graph import to_fx
from jitlite.export.to_fx.fx_modules import KEPT
from jitlite.export.to_fx.symbolic import FAILED, LocatedInterpreter
from jitlite.ir.code_text import is_attribute_path_part
from jitlite.operators.exception_prims import raise_again, raise_exception, raise_from

_OWN_ERRORS = (raise_exception, raise_again, raise_from, control_flow.check)
"""Functions that raise what the script raises."""


@checks_keywords
def to_exported(
    obj: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    method: str = "forward",
    **options: Any,
) -> ExportedProgram:
    """Export a script with `torch.export`.

    Branches and loops that numbers known by now decide are decided; those on contents of tensors become `torch.cond`
    and `while_loop`. Parameters and buffers keep their names.

    Args:
        obj: a compiled function, a method of a script module, or a script module, also a loaded one.
        args, kwargs: example inputs: a tuple and a dict.
        dynamic_shapes, options: as for `torch.export.export`.
        strict: let Dynamo read the FX module, instead of running it. Its errors do not name lines of the script.
        method: the method of the module.

    Raises:
        NotSupportedError: where something has no place in an exported program; the error names it and its place.
        TypeError: `args` is a tensor by itself.
        Exception: what the script raises for the example inputs.
    """
    if isinstance(args, torch.Tensor):
        raise TypeError("args is a tuple of example inputs, not a tensor; write to_exported((x,))")
    module = to_fx(obj, method=method, for_export=True)
    _check_names(module)
    _use_one_name(module)
    _register_written(module)
    originals = _take_containers(module)
    recorded = module if strict else _Recorded(module)
    arguments, given = _distinct((tuple(args), dict(kwargs) if kwargs else None))
    try:
        made = torch.export.export(recorded, arguments, given, dynamic_shapes=dynamic_shapes, strict=strict, **options)
        _refuse_changes(originals)
        _refuse_written_elements(made)
        return made
    except Exception as error:
        told = _told(error)
        if told is error:
            raise
        raise told from error


def _check_names(module: GraphModule) -> None:
    """Refuse names that the source of exported programs cannot hold, as torch.export writes them."""
    for path, _ in (*module.named_parameters(), *module.named_buffers(), *module.named_modules()):
        for name in filter(None, path.split(".")):
            if not is_attribute_path_part(name):
                raise NOT_EXPORTED(f"the name {name!a} of '{path}' cannot stand in an exported program")


def _distinct(examples: object) -> Any:
    """The example inputs, with a clone where a tensor is given again: torch.export would take the two for one input."""
    seen: set[int] = set()

    def own(value: object) -> Any:
        if not isinstance(value, torch.Tensor) or id(value) not in seen:
            seen.add(id(value))
            return value
        return value.detach().clone().requires_grad_(value.requires_grad)

    return tree_map(own, examples)


def _use_one_name(module: GraphModule) -> None:
    """Let the graph read a tensor of several names by one of them: a program has a state for each name."""
    names: dict[int, str] = {}
    for named in (module.named_parameters, module.named_buffers):
        for name, tensor in named():
            names.setdefault(id(tensor), name)
    for node in module.graph.nodes:
        if node.op == "get_attr":
            value = operator.attrgetter(node.target)(module)
            if isinstance(value, torch.Tensor):
                node.target = names.setdefault(id(value), node.target)


def _register_written(module: GraphModule) -> None:
    """Make buffers of the other tensors that the graph writes to: torch.export would run what writes to a constant."""
    for name in written_names(module.graph, "get_attr"):
        if isinstance(vars(module).get(name), torch.Tensor):
            module.register_buffer(name, vars(module).pop(name), persistent=False)


def _refuse_written_elements(program: ExportedProgram) -> None:
    """See that no tensor in a list, dict or tuple of the module is written to.

    Raises:
        NotSupportedError: one is; the program has a copy of it, on which the recording has run some of that already.
    """
    known = program.graph_signature.inputs_to_lifted_tensor_constants
    written = [known[name] for name in written_names(program.graph, "placeholder") if name in known]
    if written:
        shape = list(program.constants[written[0]].shape)
        raise NOT_EXPORTED(
            f"a tensor of size {shape} in a list, dict or tuple of the module is written to, and exported programs "
            "keep no state but buffers",
            hint="register it as a buffer of the module, and read it as self.name",
        )


def written_names(graph: torch.fx.Graph, kind: str) -> set[str]:
    """What operators write to, by way of views too, of the inputs (`placeholder`) or attributes (`get_attr`)."""
    found, todo = set[str](), list[torch.fx.Node]()
    for node in graph.nodes:
        todo += _aliased(node, lambda alias: bool(alias.is_write))
    while todo:
        node = todo.pop()
        if node.op == kind:
            found.add(node.name if kind == "placeholder" else str(node.target))
        todo += _aliased(node, lambda alias: True)
    return found


def _aliased(node: torch.fx.Node, counts: Callable[[Any], bool]) -> list[torch.fx.Node]:
    """The arguments of an operator that it writes to, or gives views of."""
    schema = getattr(node.target, "_schema", None)
    found: list[torch.fx.Node] = []
    if schema is None:
        return found
    for i, argument in enumerate(schema.arguments):
        value = node.args[i] if i < len(node.args) else node.kwargs.get(argument.name)
        if argument.alias_info is not None and counts(argument.alias_info):
            several = value if isinstance(value, list | tuple) else [value]
            found += [one for one in several if isinstance(one, torch.fx.Node)]
    return found


def _take_containers(module: GraphModule) -> list[tuple[str, Any, Any]]:
    """Let the module have its own copies of lists and dicts that are attributes; gives names, originals and copies."""
    found = []
    for path, holder in module.named_modules():
        for name, value in vars(holder).items():
            if type(value) in (list, dict, OrderedDict) and name in holder.__dict__.get(KEPT, ()):
                vars(holder)[name] = copy.copy(value)
                found.append((f"{path}.{name}".lstrip("."), value, vars(holder)[name]))
    return found


def _refuse_changes(originals: list[tuple[str, Any, Any]]) -> None:
    for name, before, after in originals:
        now = list(after.items()) if isinstance(after, dict) else list(after)
        then = list(before.items()) if isinstance(before, dict) else list(before)
        if len(now) != len(then) or any(_parts(a) != _parts(b) for a, b in zip(now, then, strict=True)):
            raise NOT_EXPORTED(
                f"the {type(before).__name__} '{name}' of the module is changed, and exported programs keep no state "
                "but buffers",
                hint="if it remembers results, call the module with these inputs before it is exported",
            )


def _parts(item: object) -> list[int]:
    return [id(part) for part in (item if isinstance(item, tuple) else (item,))]


class _Recorded(torch.nn.Module):
    """Runs an FX module node by node. It has the same parameters, buffers and submodules, in the same dicts."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__()
        shared = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "training")
        named = {id(tensor) for kind in (module.parameters, module.buffers) for tensor in kind()}
        for name, value in vars(module).items():
            if isinstance(value, torch.Tensor):
                if id(value) in named:
                    continue
                named.add(id(value))
            elif name not in shared:
                continue
            vars(self)[name] = value
        self.forward = _runner(module)


def _runner(module: GraphModule) -> Callable[..., Any]:
    signature = inspect.signature(module.forward)

    def forward(*args: object, **kwargs: object) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        with torch_internals.preserve_node_meta():  # nodes then tell the lines of the script
            return LocatedInterpreter(module).run(*bound.args)

    described: Any = forward
    described.__signature__ = signature
    return forward


def _told(error: BaseException) -> BaseException:
    """The error that the user is to see."""
    node = _failed_node(error)
    if node is None:
        is_told = isinstance(error, NotSupportedError) or type(error).__module__.startswith("torch._dynamo")
        return error if is_told else _unplaced(error)
    if node.target in _OWN_ERRORS:
        return error
    place = node.meta.get("source_range")
    refused = _first_refusal(error)
    if refused is not None:
        if refused.range is None:
            refused.range = place
        return refused
    kind = node.meta.get("script_kind", node.target)
    lines = str(error).strip().splitlines()
    notes = [f"{type(error).__name__}: {lines[0] if lines else ''}"]
    return NOT_EXPORTED(f"torch.export cannot record {kind} here", place, notes=notes, hint=_hint(error))


def _unplaced(error: BaseException) -> NotSupportedError:
    line = next(iter(str(error).strip().splitlines()), "")
    return NOT_EXPORTED("torch.export refuses the program", notes=[f"{type(error).__name__}: {line}"])


def _chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _failed_node(error: BaseException) -> torch.fx.Node | None:
    nodes = [getattr(e, FAILED, None) for e in _chain(error)]
    return next((n for n in nodes if n is not None), None)


def _first_refusal(error: BaseException) -> NotSupportedError | None:
    return next((e for e in _chain(error) if isinstance(e, NotSupportedError)), None)


def _hint(error: BaseException) -> str:
    if any(type(e).__name__ == "GuardOnDataDependentSymNode" for e in _chain(error)):  # its module imports sympy
        return (
            "a number taken out of a tensor decides something here; compute with the tensor instead, or say what holds "
            "for the number: assert n >= 0"
        )
    return "the error that caused this one has the details"
