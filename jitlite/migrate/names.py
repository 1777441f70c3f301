"""What the names of torch.jit are in jitlite, and why some have no counterpart."""

from __future__ import annotations

import builtins
import re
from collections.abc import Collection

HOME = "torch.jit"

_HOMES = (
    HOME, "torch._jit_internal",
    "torch.jit._async", "torch.jit._await", "torch.jit._freeze", "torch.jit._fuser", "torch.jit._script",
    "torch.jit._serialization", "torch.jit._trace", "torch.jit.annotations", "torch.jit.frontend",
)  # fmt: skip
"""Modules whose public names torch.jit has too; programs import from them what they should get from torch.jit."""

_RENAMED = {
    "_fork": "fork",
    "_wait": "wait",
    "_isinstance": "isinstance",
    "_set_fusion_strategy": "set_fusion_strategy",
    "_script_if_tracing": "script_if_tracing",
    "_overload": "overload",
    "_overload_method": "overload_method",
}
"""Names of torch.jit under which jitlite's is not found."""

TO_LOOK_AT = {
    "Error": "what a script raises keeps its own type; only errors without one in eager Python are jitlite.Error",
    "freeze": "lists and dicts of the module stay the caller's, so attributes that hold them are kept",
    "load": "operators of other libraries are refused unless allowed by name: load(path, allow=['torchvision'])",
}
"""Names whose counterpart does not do the very same thing."""

_REASONS = {
    "ONNXTracedModule": "it belongs to the export to ONNX, which is torch's",
    "jit_module_from_flatbuffer": "the flatbuffer format is not TorchScript's archive",
    "save_jit_module_to_flatbuffer": "the flatbuffer format is not TorchScript's archive",
    "mobile": "it belongs to the lite interpreter; jitlite.load reads .ptl files",
    "supported_ops": "it lists the operators of torch.jit; docs/operators.md lists jitlite's",
    "quantized": "it was removed from torch",
}
_TYPING = {
    "Any": None, "Dict": "dict", "List": "list", "Optional": None, "Tuple": "tuple", "Union": None,
}  # fmt: skip
"""Names of `typing` that torch.jit.annotations has from there, with the built-in class of the same meaning."""

_PRIVATE = "it is not public in torch.jit, and jitlite has nothing of that name"
_UNKNOWN = "jitlite has nothing of that name"
_BARE = "it belongs to torch.jit's own machinery"


def is_of_torch_jit(path: str) -> bool:
    """Does this dotted name lead into torch.jit?"""
    return any(path == home or path.startswith(home + ".") for home in _HOMES)


def is_public(name: str) -> bool:
    """Might `from torch.jit import *` bind this name?"""
    return not name.startswith("_") and (name in _REASONS or not hasattr(builtins, name) or name == "isinstance")


def is_home(path: str) -> bool:
    """Is it a module whose names jitlite has?"""
    return path in _HOMES


def counterpart(path: str, available: Collection[str]) -> str | None:
    """jitlite's name for what is called `path`, such as "torch.jit.script"; None if there is none.

    Args:
        path: the full dotted name.
        available: the names that jitlite has.
    """
    home, _, name = path.rpartition(".")
    if home not in _HOMES:
        return None
    name = _RENAMED.get(name, name)
    return name if name in available else None


def name_in_typing(path: str) -> str | None:
    """The name in `typing` of what torch.jit.annotations has from there, None for anything else."""
    home, _, name = path.rpartition(".")
    return name if home == "torch.jit.annotations" and name in _TYPING else None


def builtin_type(path: str) -> str | None:
    """The built-in class that means what such a name of `typing` does, None where there is none."""
    name = name_in_typing(path)
    return None if name is None else _TYPING[name]


def reason_against(path: str) -> str:
    """Why there is no counterpart of `path`."""
    for home in sorted(_HOMES, key=len, reverse=True):
        if path.startswith(home + "."):
            name = path[len(home) + 1 :].partition(".")[0]
            default = _UNKNOWN if not name.startswith("_") else _PRIVATE if home == HOME else _BARE
            return _REASONS.get(name, default)
    return "it is the module itself, from which anything may be taken"


_COMPILER = "torch._C"
HOMES_OF_COMPILER = (_COMPILER, f"{_COMPILER}._jit_tree_views")
"""Modules of the compiler in C++."""
_SETTINGS = re.compile(
    r"_jit_(set|override|can_fuse|cat_wo|texpr|try_infer|clear)_|_(set|get)_graph_executor|_debug_set_"
)
_EXCHANGED = re.compile(
    r"AliasDb|Argument|Block|FunctionSchema|Graph|Node|ScriptFunction|ScriptMethod|ScriptModule|Type|Use|Value|parse_ir"
    r"|parse_schema|_create_function_from_graph|_freeze_module|PyTorchFile(Reader|Writer)"
    r"|(Any|Await|Bool|Class|Complex|DeviceObj|Dict|Enum|Float|Future|Inferred|Int|Interface|List|None|Number|Optional)Type"
    r"|(PyObject|RRef|StreamObj|String|SymBool|SymInt|Tensor|Tuple|Union)Type"
)
"""Names of torch._C that `drop_in` exchanges for jitlite's, passes apart."""
_OTHERS = frozenset(
    ["CompilationUnit", "ScriptObject", "ScriptDict", "ScriptList", "ConcreteModuleType", "ScriptModuleSerializer"]
)


def reason_against_compiler(path: str) -> str | None:
    """What to say about a name of torch._C that belongs to torch.jit; None for any other name.

    Args:
        path: the full dotted name.
    """
    if not path.startswith(f"{_COMPILER}."):
        return None
    name = path[len(_COMPILER) + 1 :].partition(".")[0]
    if _SETTINGS.match(name):
        return "it sets torch.jit's executor or asks about it, and jitlite has its own: leave it out"
    if name.startswith("_jit_pass_"):
        return "passes are jitlite.passes.run(graph, name); within `with jitlite.drop_in():` many go by torch's names"
    if _EXCHANGED.fullmatch(name):
        return "within `with jitlite.drop_in():` it is jitlite's too"
    if name.startswith("_jit_") or name in _OTHERS:
        return "it belongs to torch.jit's C++ runtime, and jitlite has nothing of that name"
    return None
