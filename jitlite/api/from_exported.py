"""`from_exported`: a program of torch.export as a module whose method `forward` is a graph.

An ExportedProgram is an FX graph of ATen's operators with a signature: which of its placeholders are parameters,
buffers and arguments, how arguments and results are nested, what it writes, which sizes may differ. Each part becomes
what it is in a traced module: attributes, inputs that are taken apart, writes at the end, conditions at the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, OutputKind, OutputSpec, TensorArgument
from torch.utils import _pytree as pytree

from jitlite.api.traced_module import TopLevelTracedModule, finish_module, traced_copy, traced_type
from jitlite.base.errors.ways_out import NOT_AS_FX
from jitlite.base.keywords import checks_keywords
from jitlite.compiler.program import Program
from jitlite.executor.engine import ENGINE
from jitlite.frontend.from_fx.fx import convert_into
from jitlite.frontend.tracing import trace_backend
from jitlite.frontend.tracing.graph_backend import GraphBackend
from jitlite.frontend.tracing.symbolic_sizes import SymbolicSizes
from jitlite.frontend.tracing.trace_backend import Signature, Traced
from jitlite.ir.compiling import compiling
from jitlite.ir.graph import Graph, Value
from jitlite.ir.schema import Argument, function_schema
from jitlite.ir.types import ClassType
from jitlite.ir.unit import Function
from jitlite.passes.pipelines import CLEANUP
from jitlite.passes.registry import run

_STATE = {InputKind.PARAMETER: "parameter", InputKind.BUFFER: "buffer", InputKind.CONSTANT_TENSOR: "attribute"}
_RESULTS = frozenset({OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT})
_WRITES = frozenset(
    kind for name, kind in OutputKind.__members__.items() if name.endswith("_MUTATION") and name != "TOKEN"
)
_UNBOUNDED = 2**31
"""Bounds of sizes from here on are none."""


class ExportedModule(torch.nn.Module):
    """The state of an exported program, by the names that it had in the module."""


class _Result(NamedTuple):
    """Stands for a value where a result is put together."""

    value: Value


@checks_keywords
def from_exported(program: ExportedProgram) -> TopLevelTracedModule:
    """A program of torch.export as a module: call it, save it, freeze it, optimize it, call it from scripts.

    It shares the program's parameters, buffers and constants, has gradients as the program has, and writes what that
    writes. Calls take arguments by the names that `forward` had, nested as in the example of the export; they are
    checked for its dtypes and devices, its sizes as far as these are fixed, and the bounds of those that are not.

    Args:
        program: what `torch.export.export` or `torch.export.load` gives.

    Raises:
        TypeError: it is no ExportedProgram.
        NotSupportedError: it has something that modules of jitlite do not have: tensors of a class with operators of
            its own, objects of classes written in C++, tokens of effects, gradients as results.
        CompileError: an argument or result is of a class that no graph has.
    """
    if not isinstance(program, ExportedProgram):
        raise TypeError(
            f"from_exported takes a torch.export.ExportedProgram, not a {type(program).__name__}; "
            "torch.export.load reads one from a file"
        )
    _check_kinds(program)
    module = _state_of(program)
    owner = traced_type(module, {})
    made: TopLevelTracedModule = traced_copy(module, _types_of(module, owner), {})
    with compiling():
        names, graph = _Import(program, owner).run()
    _, *values = graph.inputs
    formals = [Argument("self", owner), *(Argument(n, v.type) for n, v in zip(names, values, strict=True))]
    schema = function_schema("forward", formals, [o.type for o in graph.outputs])
    qualified = f"{owner.qualified_name}.forward"
    owner.methods["forward"] = Function("forward", qualified_name=qualified, schema=schema, graph=graph, engine=ENGINE)
    finish_module(made)
    return made


def _types_of(module: torch.nn.Module, owner: ClassType) -> dict[int, ClassType]:
    """The types of the module and its submodules, by identity."""
    found = {id(module): owner}
    for name, submodule in module._modules.items():
        t = owner.attributes[name]
        if submodule is not None and isinstance(t, ClassType):
            found |= _types_of(submodule, t)
    return found


# -- what is refused


def _check_kinds(program: ExportedProgram) -> None:
    for spec in program.graph_signature.input_specs:
        if spec.kind is not InputKind.USER_INPUT and spec.kind not in _STATE:
            raise NOT_AS_FX(
                f"the exported program has a placeholder '{spec.arg.name}' of the kind {spec.kind.name}, which modules "
                "do not have",
                hint="export the part without custom objects and effects, and call it from Python",
            )
    for output in program.graph_signature.output_specs:
        if output.kind not in _RESULTS and output.kind not in _WRITES:
            raise NOT_AS_FX(
                f"the exported program gives {output.kind.name} for '{output.target}', which modules do not",
                hint="export the module for inference: results of jitlite's modules have gradients",
            )
    for node in program.graph.find_nodes(op="placeholder"):
        example = node.meta.get("val")
        if isinstance(example, torch.Tensor) and not _is_plain(example):
            raise NOT_AS_FX(
                f"'{node.name}' is a {type(example).__name__}, whose class has operators of its own",
                hint="export the module with plain tensors, or run program.run_decompositions() first",
            )
        if isinstance(example, torch.SymInt | torch.SymFloat | torch.SymBool):
            raise NOT_AS_FX(
                f"the argument '{node.name}' is a number that may differ from call to call",
                hint="export with a fixed number, or with a tensor whose size it is",
            )


def _is_plain(tensor: torch.Tensor) -> bool:
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) or type(tensor).__name__ == "FakeTensor"


# -- state


def _state_of(program: ExportedProgram) -> ExportedModule:
    """A module with the state of the program; its submodules have no more than that."""
    module = ExportedModule()
    for spec in program.graph_signature.input_specs:
        if spec.kind in _STATE:
            *path, name = str(spec.target).split(".")
            _set(_submodule(module, path), name, spec, _tensor_of(program, spec))
    return module.train(any(spec.kind is InputKind.PARAMETER for spec in program.graph_signature.input_specs))


def _tensor_of(program: ExportedProgram, spec: InputSpec) -> torch.Tensor:
    known: Mapping[str, object] = {**program.constants, **program.state_dict}
    found = known[str(spec.target)]
    if not isinstance(found, torch.Tensor) or not _is_plain(found):
        raise NOT_AS_FX(f"'{spec.target}' of the exported program is a {type(found).__name__}, and no plain tensor")
    return found


def _submodule(module: torch.nn.Module, path: Sequence[str]) -> torch.nn.Module:
    for name in path:
        if name not in module._modules:
            module.add_module(name, torch.nn.Module())
        module = module.get_submodule(name)
    return module


def _set(module: torch.nn.Module, name: str, spec: InputSpec, tensor: torch.Tensor) -> None:
    if spec.kind is InputKind.BUFFER:
        module.register_buffer(name, tensor, persistent=spec.persistent is not False)
    elif spec.kind is InputKind.PARAMETER and not isinstance(tensor, torch.nn.Parameter):
        module.register_parameter(name, torch.nn.Parameter(tensor, tensor.requires_grad))
    else:
        setattr(module, name, tensor)


# -- the graph


class _Import:
    """Makes the graph of one program.

    Args:
        owner: the type of the module, the first input of the graph.
    """

    def __init__(self, program: ExportedProgram, owner: ClassType) -> None:
        self._program = program
        self._specs = program.graph_signature.input_specs
        self._backend = GraphBackend(owner, functional=True)
        self._backend.signature = Signature()
        self._arguments: list[trace_backend.TensorArgument] = []
        self._placeholders = list(program.graph.find_nodes(op="placeholder"))
        self._values: dict[str, Value] = {}

    def run(self) -> tuple[list[str], Graph]:
        """The names of the arguments, and the graph."""
        names = self._add_arguments()
        for spec, node in zip(self._specs, self._placeholders, strict=True):
            if spec.kind in _STATE:
                value = self._backend.add_parameter(str(spec.target), node.meta["val"], _STATE[spec.kind])
                self._values[node.name] = value
        self._check_sizes()
        graph = self._backend.graph
        given = [self._values[node.name] for node in self._placeholders]
        self._finish(convert_into(graph, self._program.graph_module, given, Program()))
        self._backend.finalize()
        run(graph, "inline")
        CLEANUP(graph)
        return names, graph

    # -- arguments
    def _add_arguments(self) -> list[str]:
        """Make the arguments inputs, and take them apart; gives their names."""
        leaves = [self._example(spec, node) for spec, node in self._inputs()]
        args, kwargs = pytree.tree_unflatten(leaves, self._program.call_spec.in_spec)
        known = self._program.module_call_graph[0].signature
        names = list(getattr(known, "forward_arg_names", None) or [])[: len(args)]
        names += [f"argument_{i}" for i in range(len(names), len(args))]
        for name, example in [*zip(names, args, strict=True), *kwargs.items()]:
            self._arguments += self._backend.add_argument(name, example)
        self._backend.check_arguments(self._arguments, lambda argument: False)
        tensors = iter(self._arguments)
        for spec, node in self._inputs():
            is_tensor = isinstance(spec.arg, TensorArgument)
            self._values[node.name] = (
                next(tensors).value if is_tensor else self._backend.recorder.constant(self._example(spec, node))
            )
        return [*names, *kwargs]

    def _inputs(self) -> Iterator[tuple[InputSpec, torch.fx.Node]]:
        pairs = zip(self._specs, self._placeholders, strict=True)
        return ((spec, node) for spec, node in pairs if spec.kind is InputKind.USER_INPUT)

    @staticmethod
    def _example(spec: InputSpec, node: torch.fx.Node) -> object:
        return node.meta["val"] if isinstance(spec.arg, TensorArgument) else getattr(spec.arg, "value", None)

    # -- sizes
    def _check_sizes(self) -> None:
        """Let calls raise where sizes are not related, or bounded, as the program says."""
        backend, sizes = self._backend, SymbolicSizes(self._backend, True)
        with backend.inserting_checks():
            for argument in self._arguments:
                sizes.bind(argument)
            for argument in self._arguments:
                for dim, size in enumerate(argument.example.shape):
                    if not isinstance(size, int):
                        self._check_size(argument, dim, sizes.value_of(size))
            for symbol, bounds in self._program.range_constraints.items():
                self._check_bounds(sizes.value_of_symbol(symbol), bounds)

    def _check_size(self, argument: trace_backend.TensorArgument, dim: int, wanted: object) -> None:
        size = self._backend.add_size(Traced(argument.value, argument.example), dim)
        text = f"{argument.name}: size {dim} was to be {argument.sizes[dim]} when the program was exported"
        self._backend.check(self._backend.compute("aten::eq", [size, wanted]), text)

    def _check_bounds(self, size: object, bounds: object) -> None:
        lower, upper = getattr(bounds, "lower", 0), getattr(bounds, "upper", _UNBOUNDED)
        if size is None:
            return
        for name, bound in (("aten::ge", lower), ("aten::le", upper)):
            if 0 < bound < _UNBOUNDED:
                text = f"the program was exported for sizes from {lower} to {upper} in this place"
                self._backend.check(self._backend.compute(name, [size, int(bound)]), text)

    # -- results
    def _finish(self, outputs: Sequence[Value]) -> None:
        """Add the writes and the result."""
        specs = self._program.graph_signature.output_specs
        written: dict[Value, Value] = {}
        for spec, value in zip(specs, outputs, strict=True):
            if spec.kind in _WRITES:
                written[value] = self._write(spec, value)
        leaves = [_Result(written.get(v, v)) for s, v in zip(specs, outputs, strict=True) if s.kind in _RESULTS]
        result = pytree.tree_unflatten(leaves, self._program.call_spec.out_spec)
        self._backend.add_output(self._result(result))

    def _result(self, result: object) -> Value:
        if isinstance(result, _Result):
            return result.value
        found = self._backend.result_of(result, self._result)
        if found is None:
            raise NOT_AS_FX(
                f"the exported program gives a {type(result).__name__}, which can be no result of a graph",
                hint="give tensors, numbers and None, and tuples, lists and dicts of these",
            )
        return found

    def _write(self, spec: OutputSpec, value: Value) -> Value:
        """Write a value to what it is to be in the end; gives what holds it then."""
        places = {str(s.target): s.arg.name for s in self._specs if s.kind in _STATE}
        name = str(spec.target) if spec.kind is OutputKind.USER_INPUT_MUTATION else places[str(spec.target)]
        node = next(n for n in self._placeholders if n.name == name)
        destination = Traced(self._values[name], node.meta["val"])
        record: Callable[[Traced, Traced], Value] = self._backend.copy_
        is_leaf = node.meta["val"].requires_grad
        if not is_leaf:
            return record(destination, Traced(value, node.meta["val"]))
        self._backend.set_grad_enabled(False)
        made = record(destination, Traced(value, node.meta["val"]))
        self._backend.set_grad_enabled(True)
        return made
