"""jitlite's counterparts of names of PyTorch, where they are not `jitlite.NAME` for `torch.jit.NAME`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from jitlite.api import script as api
from jitlite.api import trace as tracing
from jitlite.api.opnames import export_opnames
from jitlite.base import options
from jitlite.base.errors.ways_out import NOT_FROM_TORCH
from jitlite.base.source import CompileError, Error, NotSupportedError, SourceRange
from jitlite.base.tracing_state import get_tracing_state
from jitlite.compat import executor_switches, torch_graphs, torch_nodes
from jitlite.compat.shape_names import SHAPE_NAMES
from jitlite.compat.stand_ins import stand_in
from jitlite.compat.torch_graphs import views_shown, with_views
from jitlite.compat.upgrade_names import UPGRADE_NAMES
from jitlite.compiler.caller_names import CallerNames
from jitlite.executor.last_run import last_executed_optimized_graph
from jitlite.executor.plans import get_num_profiled_runs, set_fusion_strategy
from jitlite.freeze import freeze as freezing
from jitlite.frontend.classes.module_types import methods_to_compile
from jitlite.frontend.syntax.python_ast import function_tree
from jitlite.ir.awaits import Await
from jitlite.ir.graph import Graph, Value
from jitlite.ir.parser import parse
from jitlite.ir.verify import verify
from jitlite.loading.load import load
from jitlite.objects import torch_schemas, torch_types
from jitlite.objects.function import ScriptFunction, ScriptMethod, function_of_graph
from jitlite.objects.handle import ModuleHandle, unwrapped
from jitlite.objects.module import ScriptModule, prepared, script_module
from jitlite.objects.torch_schemas import read_schema
from jitlite.passes import rewrite, run
from jitlite.passes.autodiff import differentiate
from jitlite.passes.create_autodiff import DEFAULT_THRESHOLD, create_autodiff_subgraphs
from jitlite.passes.peephole import peephole
from jitlite.passes.pipelines import FROZEN, FROZEN_NUMERICS, inline_and_simplify
from jitlite.passes.rules import decompositions

_PASSES = {
    "canonicalize_graph": "canonicalize", "constant_pooling": "constant_pooling",
    "constant_propagation": "constant_propagation",
    "constant_propagation_immutable_types": "constant_propagation_immutable", "cse": "cse", "dce": "dce",
    "constant_loop_unrolling": "constant_loop_unrolling", "loop_unrolling": "loop_unrolling",
    "refine_integer_values": "refine_integer_values",
    "erase_shape_information": "erase_shapes", "fold_frozen_conv_add_or_sub": "fold_conv_add_sub",
    "convert_frozen_ops_to_mkldnn": "convert_to_mkldnn", "fold_frozen_conv_bn": "fold_conv_bn",
    "fold_frozen_conv_mul_or_div": "fold_conv_mul_div", "fold_frozen_linear_bn": "fold_linear_bn",
    "lower_all_tuples": "lower_tuples", "transpose_frozen_linear": "transpose_linear",
    "remove_mutation": "remove_mutation", "remove_list_mutation": "remove_list_mutation",
    "remove_tensor_mutation": "remove_tensor_mutation", "batch_mm": "batch_mm", "remove_expands": "remove_expands",
    "fuse_linear": "fuse_linear", "fuse_addmm": "fuse_addmm", "canonicalize_ops": "canonicalize_ops",
    "canonicalize_graph_fuser_ops": "canonicalize_ops", "decompose_ops": "decompose_ops",
    "normalize_ops": "normalize_ops", "inline_fork_wait": "inline_fork_wait",
    "create_functional_graphs": "create_functional_graphs", "inline_functional_graphs": "inline_functional_graphs",
    "functional_to_inplace_activation": "functional_to_inplace_activation",
    "inplace_to_functional_activation": "inplace_to_functional_activation", "concat_frozen_linear": "concat_linear",
    "run_decompositions": "run_decompositions", "specialize_autogradzero": "specialize_autogradzero",
}  # fmt: skip
"""Passes by the names that follow `torch._C._jit_pass_`."""


def parse_ir(text: str, parse_tensor_constants: bool = False) -> Graph:
    """The graph written as `text`; a `<Tensor>` is read as zeros if `parse_tensor_constants` is given.

    Raises:
        CompileError: the text is no graph.
    """
    return parse(text, placeholder_tensors=parse_tensor_constants)


def create_function_from_graph(name: str, graph: Graph) -> ScriptFunction:
    """A function that runs a graph. Its parameters are the graph's inputs, by their names.

    The graph is the function's own from then on.
    """
    return function_of_graph(name, graph)


def run_pass(name: str, graph: Graph, *options: object) -> bool:
    """Run one pass on a graph, in place; says whether it changed anything. Options of torch's pass are ignored."""
    return run(graph, name)


def rewrite_pattern(
    pattern: str, replacement: str, graph: Graph, value_name_pairs: Sequence[tuple[str, str]] = ()
) -> None:
    """Replace a pattern wherever it is found, without asking whether a write or an effect comes between."""
    rewrite(pattern, replacement, graph, checked=False, places=dict(value_name_pairs))


def register_decomposition(overload: Any, graph: Graph) -> None:
    """Let `run_decompositions` put `graph` in place of an operator, `torch.ops.aten.square.default` say."""
    decompositions.register(overload.name(), torch_types.unwrap(graph))


def _pass(name: str) -> Callable[..., bool]:
    return partial(run_pass, name)


def create_autodiff_groups(graph: Graph, threshold: int | None = None) -> None:
    """Form differentiable groups of at least so many nodes, two if not said otherwise.

    As with `torch._C._jit_pass_create_autodiff_subgraphs`, of two nodes that would raise it may then be the other one.
    """
    create_autodiff_subgraphs(graph, DEFAULT_THRESHOLD if threshold is None else threshold, errors_may_swap=True)


def simplify_graph(graph: Graph, disable_shape_peepholes: bool = False, addmm_fusion_enabled: bool = False) -> bool:
    """The peephole pass, with the options that `torch._C._jit_pass_peephole` has. Of these, there is no fusion here."""
    return peephole(graph, disable_shape_peepholes=disable_shape_peepholes)


def simplify_lists(graph: Graph, refine_list_len: bool = False) -> bool:
    """The peephole pass and, if asked, what conditions tell of lengths: `torch._C._jit_pass_peephole_list_idioms`."""
    changed = peephole(graph, disable_shape_peepholes=True)
    return (run(graph, "refine_list_lengths") if refine_list_len else False) or changed


def freeze_handle(
    module: ModuleHandle,
    preservedAttrs: Sequence[str] = (),
    freezeInterfaces: bool = True,
    preserveParameters: bool = False,
) -> ModuleHandle:
    """`freezing.freeze_module`, with the names that `torch._C._freeze_module` has."""
    made = freezing.freeze_module(unwrapped(module), preservedAttrs, freezeInterfaces, preserveParameters)
    return made._c


def optimize_frozen_graph(graph: Graph, optimize_numerics: bool = True) -> bool:
    """The optimizations of `freeze`, on a graph."""
    return (FROZEN_NUMERICS if optimize_numerics else FROZEN)(graph)


def canonicalized(graph: Graph, keep_unique_names: bool = True) -> Graph:
    """A copy of the graph with values numbered in order; with `keep_unique_names`, those that have a name keep it."""
    made = graph.copy()
    names = [value.name if value.has_name else None for value in _values_of(made)]
    run(made, "canonicalize")
    if keep_unique_names:
        for value, name in zip(_values_of(made), names, strict=True):
            value.set_name(name)
    return made


def _values_of(graph: Graph) -> list[Value]:
    inside = [v for node in graph.all_nodes() for v in (*node.outputs, *(p for b in node.blocks for p in b.inputs))]
    return [*graph.inputs, *inside]


def interpret_graph(graph: Graph, inputs: Sequence[object]) -> Any:
    """What a graph gives for these inputs, run as it is."""
    return create_function_from_graph("graph", graph.copy())(*inputs)


def as_python_object(value: object) -> Any:
    """The object itself: what a value of TorchScript is at run time is one of Python's."""
    return value


def module_iterators(handle: ModuleHandle) -> dict[str, list[Any]]:
    """What a module gives to those who go through it, by its attributes, and by those of all below it (`_r`)."""
    module = unwrapped(handle)
    found: dict[str, list[Any]] = {
        "modules": [m._c for m in module.modules()],
        "named_modules": [(name, m._c) for name, m in module.named_modules()],
        "children": [m._c for m in module.children()],
        "named_children": [(name, m._c) for name, m in module.named_children()],
        "named_attributes": _attributes_of(module, ""),
        "named_attributes_r": [pair for n, m in module.named_modules() for pair in _attributes_of(m, n)],
    }
    for kind in ("parameters", "buffers"):
        for end, recurse in (("", False), ("_r", True)):
            named = list(getattr(module, f"named_{kind}")(recurse=recurse))
            found[f"named_{kind}{end}"] = named
            found[f"{kind}{end}"] = [tensor for _, tensor in named]
    return found


def _attributes_of(module: ScriptModule, path: str) -> list[tuple[str, Any]]:
    handle: ModuleHandle = module._c
    start = f"{path}." if path else ""
    return [(start + name, handle.getattr(name)) for name in handle._type().attribute_names()]


def refine_tuple_types(graph: Graph) -> None:
    """Let the tuples that a graph makes be of the types of their elements."""
    for node in graph.all_nodes():
        if node.kind == "prim::TupleConstruct":
            node.output.type = node.output.type.with_contained([v.type for v in node.inputs])


def fuse_add_relu(graph: Graph) -> bool:
    """Let one operator do what `relu` of a sum does; says whether there was any."""
    changed = False
    for add, relu, both in (
        ("add", "relu", "_add_relu"),
        ("add", "relu_", "_add_relu"),
        ("add_", "relu_", "_add_relu_"),
    ):
        head = "graph(%a, %b, %alpha):\n"
        pattern = f"{head}  %sum = aten::{add}(%a, %b, %alpha)\n  %r = aten::{relu}(%sum)\n  return (%r)\n"
        replacement = f"{head}  %r = aten::{both}(%a, %b, %alpha)\n  return (%r)\n"
        changed = rewrite(pattern, replacement, graph) or changed
    return changed


class TreeView(torch_types.View):
    """A tree, with its place in the source."""

    def range(self) -> str:
        """The lines of the source, with a mark."""
        source, start = self.inner.range.source, self.inner.range.start
        end = max(node.range.end for node in self.inner.walk() if node.range.source is source)
        return f"SourceRange at:\n{SourceRange(source, start, end).excerpt(marker=' <--- HERE')}"

    def __str__(self) -> str:
        return f"{self.inner}\n"


def get_jit_def(fn: object, def_name: str, self_name: str | None = None, is_classmethod: bool = False) -> TreeView:
    """The tree of a Python function.

    Raises:
        CompileError: its source is not there, or no definition of TorchScript.
    """
    return TreeView(function_tree(fn, name=def_name, self_name=self_name).definition)


def lint(graph: Graph) -> None:
    """See that the graph is one.

    Raises:
        VerifyError: it is not.
    """
    verify(graph)


def remove_dropout(module: ModuleHandle) -> None:
    """Remove dropout from the `forward` of a module.

    Raises:
        RuntimeError: the module is in training mode.
    """
    owner = unwrapped(module)
    if getattr(owner, "training", False):  # frozen modules have no such attribute
        raise RuntimeError("Dropout removal module in training mode is not yet supported")
    run(torch_types.unwrap(owner.forward.graph), "inline,remove_dropout,dce")


class NothingKept:
    """Stands for torch's table of what has been compiled: here each call of `script` compiles anew."""

    def __delitem__(self, function: object) -> None:
        """There is nothing to forget."""


# -- what compiles


def create_script_module(
    nn_module: torch.nn.Module, stubs_fn: Callable[..., object], share_types: bool = True, is_tracing: bool = False
) -> ScriptModule:
    """`torch.jit._recursive.create_script_module`, for `forward` and exported methods.

    Raises:
        NotSupportedError: `stubs_fn` chooses other methods, or it is asked of a tracer.
    """
    if stubs_fn is not methods_to_compile or is_tracing:
        raise NOT_FROM_TORCH(
            "create_script_module compiles forward and exported methods only",
            hint="give it torch.jit._recursive.infer_methods_to_compile, and mark other methods with torch.jit.export",
        )
    return script_module(prepared(nn_module), CallerNames(1), share_types=share_types)


def script(
    obj: object,
    optimize: object = None,
    _frames_up: int = 0,
    _rcb: Callable[[str], object] | None = None,
    example_inputs: object = None,
) -> Any:
    """`jitlite.script`; what it makes shows its graphs as views."""
    with views_shown():
        return api.script(obj, optimize, _frames_up + 1, _rcb, example_inputs)


def _init_unit(self: api.CompilationUnit, lang: str | None = None, _frames_up: int = 0, **others: Any) -> None:
    with views_shown():
        api.CompilationUnit.__init__(self, lang, _frames_up + 1, **others)


_NAMES: dict[str, Any] = {
    **{f"torch._C.{name}": found for name, found in torch_types.TYPES.items()},
    **SHAPE_NAMES,
    **UPGRADE_NAMES,
    "torch.jit.export_opnames": export_opnames,
    "torch.jit.Error": Error,
    "torch.jit._Await": Await,
    "torch.jit.frontend.FrontendError": CompileError,
    "torch.jit.frontend.NotSupportedError": NotSupportedError,
    "torch.jit.frontend.UnsupportedNodeError": NotSupportedError,
    "torch._C._Await": Await,
    "torch._C.Graph": torch_graphs.GraphView,
    "torch._C.Node": torch_nodes.NodeView,
    "torch._C.Value": torch_nodes.ValueView,
    "torch._C.Block": torch_nodes.BlockView,
    "torch._C.Use": torch_nodes.UseView,
    "torch._C.AliasDb": torch_graphs.AliasDbView,
    "torch._C.FunctionSchema": torch_schemas.SchemaView,
    "torch._C.Argument": torch_schemas.ArgumentView,
    "torch._C._AliasInfo": torch_schemas.AliasView,
    "torch._C.ScriptMethod": ScriptMethod,
    "torch._C._jit_pass_inline": inline_and_simplify,
    "torch._C._jit_pass_lint": lint,
    "torch._C._jit_pass_fuse_add_relu": fuse_add_relu,
    "torch._C._jit_pass_refine_tuple_types": refine_tuple_types,
    "torch.jit.frontend.get_jit_def": get_jit_def,
    "torch._C._get_tracing_state": get_tracing_state,
    "torch._C._create_function_from_graph": create_function_from_graph,
    "torch._C._freeze_module": freeze_handle,
    "torch._C._ivalue_debug_python_object": as_python_object,
    "torch._C._jit_debug_module_iterators": module_iterators,
    "torch._C._jit_interpret_graph": interpret_graph,
    "torch._C._jit_pass_canonicalize": canonicalized,
    "torch._C.ScriptModule": ModuleHandle,
    "torch._C._jit_differentiate": differentiate,
    "torch._C._jit_pass_create_autodiff_subgraphs": create_autodiff_groups,
    "torch._C._jit_pass_optimize_frozen_graph": optimize_frozen_graph,
    "torch._C._jit_pass_peephole": simplify_graph,
    "torch._C._jit_pass_peephole_list_idioms": simplify_lists,
    "torch._C._jit_pass_remove_dropout": remove_dropout,
    "torch.jit._recursive.wrap_cpp_module": unwrapped,
    "torch.jit._recursive.infer_methods_to_compile": methods_to_compile,
    "torch.jit._state.disable": partial(options.set_globally, enabled=False),
    "torch.jit._state.enable": partial(options.set_globally, enabled=True),
    "torch.jit._state._jit_caching_layer": NothingKept(),
    "torch._C.parse_ir": parse_ir,
    "torch._C._jit_set_profiling_executor": executor_switches.set_profiling_executor,
    "torch._C._jit_set_profiling_mode": executor_switches.set_profiling_mode,
    "torch._C._jit_set_num_profiled_runs": executor_switches.set_num_profiled_runs,
    "torch._C._jit_get_num_profiled_runs": get_num_profiled_runs,
    "torch._C._jit_set_fusion_strategy": set_fusion_strategy,
    "torch._C._get_graph_executor_optimize": executor_switches.get_graph_executor_optimize,
    "torch._C._set_graph_executor_optimize": executor_switches.set_graph_executor_optimize,
    "torch._C.parse_schema": read_schema,
    "torch._C._jit_pass_custom_pattern_based_rewrite_graph": rewrite_pattern,
    "torch.jit._register_decomposition": register_decomposition,
    **{f"torch._C._jit_pass_{theirs}": _pass(ours) for theirs, ours in _PASSES.items()},
}

_COMPILE: dict[str, Any] = {
    "torch.jit.freeze": freezing.freeze, "torch.jit.trace": tracing.trace,
    "torch.jit.trace_module": tracing.trace_module,
    "torch.jit.load": load, "torch.jit.optimize_for_inference": freezing.optimize_for_inference,
    "torch.jit._get_trace_graph": tracing.trace_graph,
    "torch.jit._recursive.create_script_module": create_script_module,
    "torch.jit.last_executed_optimized_graph": last_executed_optimized_graph,
}  # fmt: skip
"""Functions of torch.jit that make, or give, what has graphs."""


def _named() -> dict[str, Any]:
    compile_by_text = {"__init__": _init_unit}
    compile_by_class = {"_jitlite_compile": with_views(ScriptModule._jitlite_compile)}
    found = {
        **_NAMES,
        **_COMPILE,
        "torch.jit.ScriptModule": stand_in(ScriptModule, None, compile_by_class),
        "torch.jit.CompilationUnit": stand_in(api.CompilationUnit, None, compile_by_text),
    }
    shows_graphs = [n for n in found if n.startswith(("torch._C.", "torch.jit._passes.")) or n in _COMPILE]
    wrapped = {n: with_views(found[n]) for n in shows_graphs if not isinstance(found[n], type)}
    return {**found, **wrapped, "torch.jit.script": script}


TORCH_NAMES: dict[str, Any] = _named()
"""jitlite's counterparts of names of PyTorch, where they are not `jitlite.NAME` for `torch.jit.NAME`.

Functions take views of graphs, nodes, values and types, and give them (`torch_graphs.py`). What is compiled with one of
these names shows its graphs as views; nothing else does.
"""
