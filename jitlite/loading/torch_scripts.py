"""What torch.jit has compiled, as our scripts: each says itself what it is, in an archive that stays in memory."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import torch

from jitlite import loading
from jitlite.base.errors.ways_out import NOT_FROM_TORCH
from jitlite.base.source import CompileError
from jitlite.executor.engine import new_program
from jitlite.frontend.tracing.torch_scripts import convert_with, is_torch_script_function
from jitlite.ir.schema import Argument, function_schema
from jitlite.ir.unit import Function
from jitlite.objects.function import ScriptFunction


def _everything() -> set[str]:
    """All operators and their libraries: the program is not from outside."""
    names = {name.partition(".")[0] for name in torch._C._dispatch_get_all_op_names()}
    return names | {name.partition("::")[0] for name in names}


def from_torch_script(found: Any) -> Any:
    """The script function or script module for one of torch.jit. A module keeps its parameters and buffers.

    Raises:
        NotSupportedError: where torch.jit cannot write it to an archive.
    """
    try:
        content = found.save_to_buffer()
    except RuntimeError as error:
        lines = str(error).strip().splitlines() or [""]
        raise NOT_FROM_TORCH(
            f"this {type(found).__name__} of torch.jit cannot be converted, as torch.jit cannot save it: {lines[0]}",
            hint="give jitlite.script the Python function or module that it was made from",
        ) from error
    loaded = loading.load.load(io.BytesIO(content), allow=_everything())
    if is_torch_script_function(found):
        try:
            return _function(found, loaded)
        except CompileError as error:
            raise NOT_FROM_TORCH(
                "this function of torch.jit cannot be converted, as the archive that torch.jit writes of it does not "
                f"compile: {error.message}",
                hint="give jitlite.script, or jitlite.CompilationUnit, what it was made from",
            ) from error
    _share_tensors(found, loaded)
    loaded.train(found.training)
    return loaded


def _function(found: Any, holder: Any) -> ScriptFunction:
    """The function that the `forward` of `holder`, a module without attributes, has become in the archive."""
    method: Function = holder.forward.__jitlite_function__
    graph = method.graph.copy()
    graph.block.erase_input(0)
    arguments = [
        _with_default(a, given) for a, given in zip(method.schema.arguments[1:], found.schema.arguments, strict=True)
    ]
    name = str(found.name).rpartition(".")[2] or "function"
    schema = function_schema(name, arguments, [r.type for r in method.schema.returns])
    program = new_program()
    function = Function(
        name, qualified_name=str(found.qualified_name), schema=schema, graph=graph, range=method.range,
        engine=program.engine,
    )  # fmt: skip
    return ScriptFunction(program, program.unit.add(function))


def _with_default(argument: Argument, given: Any) -> Argument:
    """The parameter with the default of torch.jit's own, which archives of functions do not keep."""
    if not given.has_default_value():
        return argument
    return replace(argument, default=given.default_value, default_text=repr(given.default_value))


def _share_tensors(found: torch.nn.Module, loaded: torch.nn.Module) -> None:
    """Give the loaded module, and the modules in it, the parameters and buffers themselves."""
    modules = dict(loaded.named_modules(remove_duplicate=False))
    for name, module in found.named_modules(remove_duplicate=False):
        target = modules.get(name)
        if target is None:
            continue
        for key, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            target._parameters[key] = parameter
        for key, buffer in module.named_buffers(recurse=False, remove_duplicate=False):
            target._buffers[key] = buffer


convert_with(from_torch_script)
