"""The FX module of a script: the state of the original, under its names, around a graph."""

from __future__ import annotations

import copy
import re
from typing import Any

import torch
from torch.fx import Graph, GraphModule

from jitlite.archive.tensor_identity import deep_copy
from jitlite.base.errors.ways_out import NOT_AS_FX
from jitlite.export.to_fx.control_flow import Root
from jitlite.export.to_fx.fx_pickling import can_be_traced, described, restored
from jitlite.ir.code_text import is_attribute_path_part

_STATE = ("_parameters", "_buffers", "_modules")
KEPT = "script_attributes"
"""The attribute of an FX module, or a part of one, with the names of what it has beside parameters and the like."""
ROOT = "root_module"
"""The name of the submodule that stands for the module itself."""


class ScriptGraphModule(GraphModule):
    """A `GraphModule` that keeps all parameters and buffers in copies, also those that its graph does not read."""

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        return deep_copy(self, memo, lambda: self._copied(memo))

    def _copied(self, memo: dict[int, object]) -> GraphModule:
        made = super().__deepcopy__(memo)
        for kind in (*_STATE, "_non_persistent_buffers_set"):
            made.__dict__[kind] = copy.deepcopy(self.__dict__[kind], memo)
        for name, value in self.__dict__.items():
            if name not in made.__dict__ and name != "_graph":
                made.__dict__[name] = copy.deepcopy(value, memo)
        bind_root(made)
        return made

    def __reduce__(self) -> Any:
        if any(isinstance(m, GraphModule) and not can_be_traced(m.graph) for m in self.modules()):
            return rebuild, (type(self).__name__, described(self.graph), self._state())
        make, arguments = super().__reduce__()  # a plain GraphModule, of the generated code
        if ROOT in self._modules:
            return make, arguments, self._state(), None, None, restore
        return make, arguments, self._state()

    def _state(self) -> dict[str, Any]:
        """Everything but the graph."""
        left_out = ("_graph", "_code", "_lineno_map", "_prologue_start")
        return {name: value for name, value in vars(self).items() if name not in left_out}


def rebuild(name: str, nodes: list[tuple[object, ...]], state: dict[str, object]) -> ScriptGraphModule:
    """The module of these nodes."""
    root = torch.nn.Module()
    vars(root).update(state)
    return graph_module(root, restored(nodes), name)


def restore(module: torch.nn.Module, state: dict[str, object]) -> None:
    """Give a module that was pickled its state."""
    module.__dict__.update(state)
    bind_root(module)


def bind_root(module: torch.nn.Module) -> None:
    """Let what stands for the module in its graph find it."""
    root = module._modules.get(ROOT)
    if isinstance(root, Root):
        root.bind(module)


def skeleton(original: torch.nn.Module | None) -> torch.nn.Module:
    """A module with the parameters, buffers and submodules of `original`, the same tensors, and nothing else."""
    return _skeleton(original, {}) if original is not None else torch.nn.Module()


def _skeleton(original: torch.nn.Module, made: dict[int, torch.nn.Module]) -> torch.nn.Module:
    if id(original) in made:
        return made[id(original)]
    result = made[id(original)] = torch.nn.Module()
    for name in (*original._parameters, *original._buffers, *original._modules):
        check_name(name)
    result.training = bool(getattr(original, "training", False))
    result._parameters.update(original._parameters)
    result._buffers.update(original._buffers)
    result._non_persistent_buffers_set.update(original._non_persistent_buffers_set)
    for name, submodule in original._modules.items():
        result._modules[name] = None if submodule is None else _skeleton(submodule, made)
    return result


def check_name(name: str) -> None:
    """Refuse the name of an attribute that no source can hold, however it is written: torch.fx does not escape names.

    Raises:
        NotSupportedError: it has quotes, ends of lines, backslashes, braces or dots in it.
    """
    if not name.isidentifier() and not is_attribute_path_part(name):
        raise NOT_AS_FX(f"the module has an attribute of the name {name!a}, which FX cannot write")


_OF_THE_CODE = ("torch", "device", "inf", "nan", "NoneType", "fx_pytree", "pytree", "getattr", "slice")
"""Names that code of FX may use without saying so in its graph."""


def rename_hiding_parameters(graph: Graph) -> None:
    """Give a parameter another name (`torch_`) where the code that FX writes reads its name as something else."""
    hiding = [n for n in graph.nodes if n.op == "placeholder" and n.target in _OF_THE_CODE]
    if not hiding:
        return
    _, _, body = graph.python_code("self").src.partition("def forward(")
    body = body.partition("\n")[2]
    for node in hiding:
        own = re.escape(f"    {node.name} = {node.target}\n")
        if re.search(rf"(?<![\w.]){node.target}\b", re.sub(own, "", body)):
            node.target = f"{node.target}_"


def graph_module(root: torch.nn.Module, graph: Graph, name: str) -> ScriptGraphModule:
    """The FX module of a graph that is not changed any more, with all of the state of `root`."""
    made: ScriptGraphModule = ScriptGraphModule(torch.nn.Module(), Graph(), class_name=name)
    for kind in (*_STATE, "_non_persistent_buffers_set"):
        made.__dict__[kind] = root.__dict__[kind]
    for key, value in vars(root).items():
        made.__dict__.setdefault(key, value)
    made.training = root.training
    made.graph = graph
    bind_root(made)
    return made
