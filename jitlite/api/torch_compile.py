"""`torch.compile(model, backend="jitlite")`: Dynamo's graphs, run as Python functions that jitlite generates.

Dynamo turns Python into FX graphs, AOTAutograd turns each into one of ATen's operators for inference, or into one for
the forward and one for the backward pass. Here such a graph becomes a jitlite graph (`frontend/fx.py`), some passes
clean it, and one Python function is generated from it. torch calls that function itself: it takes the list of tensors
that AOTAutograd has, empties it, and forgets each tensor after its last use. Nothing is copied or converted on the way.

Kernels are eager's, so operators are not taken apart unless a table of decompositions asks for it. The options:

    torch.compile(model, backend="jitlite", options={"partitioner": "min_cut"})

are listed in `Options`; `last_report()` says how each operator was found.
"""

from __future__ import annotations

import functools
import logging
import math
import time
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch
import torch.fx

from jitlite.api.watched_operators import LoweringError as LoweringError
from jitlite.api.watched_operators import checked, print_operators
from jitlite.base import options as switches
from jitlite.base import torch_internals
from jitlite.base.source import did_you_mean
from jitlite.codegen.python.python_tier import translate
from jitlite.executor.executor import executor_of
from jitlite.executor.graph_runners import runner_for
from jitlite.frontend.from_fx.fx import convert
from jitlite.frontend.from_fx.fx_converter import ConvertedGraph, Lookup, Lowerings
from jitlite.frontend.from_fx.fx_values import name_of
from jitlite.interpreter.python_code import PythonCode
from jitlite.ir.compiling import compiling
from jitlite.ir.graph import Graph, Node
from jitlite.operators.python_forms import CannotTranslate
from jitlite.passes.peephole import peephole
from jitlite.passes.registry import run
from jitlite.passes.remove_noops import remove_where
from jitlite.passes.rules.context import RewriteContext

log = logging.getLogger("jitlite.backend")

_PARTITIONERS: dict[str, Callable[[], object]] = {
    "default": lambda: _default_partition,
    "min_cut": lambda: torch_internals.min_cut_partition,
}


@dataclass(frozen=True)
class Options:
    """What `options` of `torch.compile` may say.

    Attributes:
        decompositions: functions by OpOverload or packet, used instead of operators before gradients are split off;
            "core_aten" for torch's table of these.
        lowerings: functions by OpOverload or packet that run instead of operators.
        partitioner: what the backward pass is given. `default`: what the forward pass has computed; `min_cut`: less, it
            computes again what is cheap, which saves memory.
        optimize: run passes over the graphs.
        report: called with a `Report` for each graph that was compiled.
        print: print a line for each operator that runs: the user's line, the operator, what it gave.
        check: run each lowering beside the operator that it stands for, on copies of the arguments, and raise a
            `LoweringError` where they are further apart than this, relatively and absolutely.
    """

    decompositions: Mapping[Any, Callable[..., Any]] | str | None = None
    lowerings: Lowerings = field(default_factory=dict)
    partitioner: str = "default"
    optimize: bool = True
    report: Callable[[Report], None] | None = None
    print: bool = False
    check: float | None = None

    @staticmethod
    def of(given: Mapping[str, Any] | None) -> Options:
        """The options as given to `torch.compile`.

        Raises:
            ValueError: where there is no such option, or it cannot be that.
            TypeError: where an option is of another type.
        """
        if given is not None and not isinstance(given, Mapping):
            raise TypeError(f"options={given!r}: expected a dict")
        names = [f.name for f in fields(Options)]
        chosen = dict(given or {})
        for name in chosen:
            if name not in names:
                raise _no_option(name, names)
        made = Options(**{name: value for name, value in chosen.items() if value is not None})
        made._check()
        return made

    def _check(self) -> None:
        if self.partitioner not in _PARTITIONERS:
            raise ValueError(f"partitioner={self.partitioner!r}: expected one of {', '.join(_PARTITIONERS)}")
        if isinstance(self.decompositions, str) and self.decompositions != "core_aten":
            raise ValueError(f"decompositions={self.decompositions!r}: expected a table, or 'core_aten'")
        for name in ("optimize", "print"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name}={getattr(self, name)!r}: expected True or False")
        if self.check is not None:
            _check_tolerance(self.check)
        if self.report is not None and not callable(self.report):
            raise TypeError(f"report={self.report!r}: expected a function of a Report")
        if not isinstance(self.decompositions, str | None):
            _check_table("decompositions", self.decompositions, (torch._ops.OpOverload, torch._ops.OpOverloadPacket))
        _check_table("lowerings", self.lowerings, (Callable,))  # type: ignore[arg-type]


def _check_tolerance(tolerance: object) -> None:
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float):
        raise TypeError(f"check={tolerance!r}: expected how far results may be apart, such as 1e-4")
    if not 0 <= tolerance < math.inf:
        raise ValueError(f"check={tolerance!r}: expected a number from 0 on")


def _check_table(name: str, table: object, keys: tuple[type, ...]) -> None:
    """Refuse what is no table of functions by operators: an operator that is not found would be missed silently."""
    if not isinstance(table, Mapping):
        raise TypeError(f"{name}={table!r}: expected a dict of functions by OpOverload or packet")
    for key, function in table.items():
        if not isinstance(key, keys):
            raise TypeError(f"{name}: {key!r} is not an operator; give an OpOverload or packet, as torch.ops.aten.add")
        if not callable(function):
            raise TypeError(f"{name}[{key}]={function!r}: expected a function")


DEFAULTS = Options()


# -- reports


@dataclass(eq=False)
class Report:
    """What became of one graph.

    Attributes:
        kind: `inference`, `forward` or `backward`.
        lookups: how each operator was found: see `jitlite.frontend.from_fx.fx`.
        nodes: how many nodes the graph has.
        seconds: what compiling it took, apart from what torch does before.
    """

    kind: str
    lookups: list[Lookup]
    nodes: int
    seconds: float
    _code: weakref.ref[PythonCode] | None = None

    @property
    def source(self) -> str:
        """The generated function; empty where there is none, or it is gone."""
        code = self._code() if self._code is not None else None
        return code.source if code is not None else ""

    @property
    def eager(self) -> list[Lookup]:
        """What was left to Python."""
        return [found for found in self.lookups if found.how == "eager"]

    def __str__(self) -> str:
        calls = Counter[str]()
        for found in self.lookups:
            calls[found.how] += found.count
        counted = ", ".join(f"{calls[how]} {how}" for how in _WAYS if calls[how]) or "nothing to call"
        lines = [f"{self.kind}: {self.nodes} nodes in {self.seconds * 1e3:.1f} ms; calls: {counted}"]
        width = max((len(found.target) for found in self.lookups), default=0)
        for found in sorted(self.lookups, key=lambda found: (_WAYS.index(found.how), found.target)):
            lines.append(f"  {found.target:<{width}} {found.count:4}  {found.how:13} {found.why}".rstrip())
        return "\n".join(lines)


_WAYS = ("exact", "packet", "decomposition", "eager")
_last: list[Report] = []


def last_report() -> list[Report]:
    """The reports on what was compiled last: on the graph for inference, or the ones of a forward and backward pass.

    A backward pass is compiled with its forward pass, or when it is first run.
    """
    return list(_last)


# -- the backend


def backend(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[object],
    *,
    mode: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Callable[..., Any]:
    """What `torch.compile` calls to compile a graph of Dynamo's.

    Raises:
        ValueError: where an option is none, or a mode is asked for.
        TypeError: where an option is of another type, or what is given is no graph module.
    """
    if not isinstance(gm, torch.fx.GraphModule):
        raise TypeError(
            f"a backend takes a graph module, not a {type(gm).__name__}; "
            "compile functions and modules with torch.compile(f, backend='jitlite')"
        )
    if mode not in (None, "default"):
        raise ValueError(f"the backend 'jitlite' has no mode {mode!r}; leave it out")
    chosen = Options.of(options)
    decomposed: Counter[str] = Counter()
    _last.clear()
    compilers = {
        kind: functools.partial(_compile, chosen, decomposed, kind) for kind in ("forward", "backward", "inference")
    }
    compiled: Callable[..., object] = torch_internals.aot_autograd(
        fw_compiler=compilers["forward"],
        bw_compiler=compilers["backward"],
        inference_compiler=compilers["inference"],
        decompositions=_counting(chosen, decomposed),
        partition_fn=_PARTITIONERS[chosen.partitioner](),
        keep_inference_input_mutations=True,
    )(gm, example_inputs)
    return compiled


def _default_partition(*args: object, **kwargs: object) -> Any:
    """What the forward pass keeps for the backward pass: all that the latter asks for.

    Before 2.10, torch's own way to divide so stops at an operator with several results that are all kept.
    """
    try:
        return torch_internals.default_partition(*args, **kwargs)
    except AssertionError:
        return torch_internals.min_cut_partition(*args, **kwargs)


def _counting(chosen: Options, decomposed: Counter[str]) -> dict[Any, Callable[..., Any]]:
    """The table of decompositions by overload, whose functions count their calls."""
    if isinstance(chosen.decompositions, str):
        core: dict[Any, Callable[..., Any]] = torch_internals.core_aten_decompositions()
        return core
    table: dict[Any, Callable[..., Any]] = {}
    for target, function in (chosen.decompositions or {}).items():
        is_packet = isinstance(target, torch._ops.OpOverloadPacket)
        overloads = [getattr(target, name) for name in target.overloads()] if is_packet else [target]
        for overload in overloads:
            table.setdefault(overload, _counted(overload, function, decomposed))
    for target, function in (chosen.decompositions or {}).items():  # an overload goes before its packet
        if not isinstance(target, torch._ops.OpOverloadPacket):
            table[target] = _counted(target, function, decomposed)
    return table


def _counted(overload: object, function: Callable[..., object], decomposed: Counter[str]) -> Callable[..., Any]:
    @functools.wraps(function)
    def decompose(*args: object, **kwargs: object) -> Any:
        result = function(*args, **kwargs)
        if result is not NotImplemented:
            decomposed[name_of(overload)] += 1
        return result

    return decompose


def compile_graph(
    gm: torch.fx.GraphModule, kind: str = "inference", chosen: Options = DEFAULTS
) -> Callable[[list[Any]], list[Any]]:
    """The function that runs a graph of ATen's operators that writes nothing but its inputs, and records no gradients.

    It takes a list of arguments, which it empties, and gives a list of results.

    Args:
        kind: what the graph is for: `inference`, `forward`, `backward`.
    """
    return _compile(chosen, Counter(), kind, gm, ())


def _compile(
    chosen: Options, decomposed: Counter[str], kind: str, gm: torch.fx.GraphModule, example_inputs: Sequence[object]
) -> Callable[[list[Any]], Any]:
    start = time.perf_counter()
    given = chosen.decompositions
    table = {} if given is None or isinstance(given, str) else given
    with compiling():
        around = None if chosen.check is None else functools.partial(checked, chosen.check)
        made = convert(gm, lowerings=chosen.lowerings, decompositions=table, flat=True, around=around)
        if chosen.optimize:
            optimize(made.graph)
        if chosen.print:
            print_operators(made.graph, kind)
        boxed, code = _boxed(made.graph, kind)
    report = _report(made, kind, decomposed, time.perf_counter() - start, code)
    _last.append(report)
    for found in report.eager:
        log.info("%s: %s is left to Python: %s", kind, found.target, found.why)
    if chosen.report is not None:
        chosen.report(report)
    return boxed


def _report(
    made: ConvertedGraph, kind: str, decomposed: Counter[str], seconds: float, code: PythonCode | None
) -> Report:
    lookups = list(made.lookups.values())
    lookups += [Lookup(name, "decomposition", "before this graph was made", n) for name, n in decomposed.items()]
    decomposed.clear()
    nodes = sum(node.kind != "prim::Constant" for node in made.graph.all_nodes())
    return Report(kind, lookups, nodes, seconds, None if code is None else weakref.ref(code))


def _boxed(graph: Graph, kind: str) -> tuple[Callable[[list[Any]], Any], PythonCode | None]:
    """What runs the graph with arguments in a list that it empties, and the generated code if that is it."""
    if switches.current().tier == "python":
        try:
            code = translate(graph, kind, lambda function: executor_of(function).general.run, boxed=True)
        except CannotTranslate as error:
            log.info("%s: the stack machine runs it: %s", kind, error)
        else:
            code.run._boxed_call = True  # type: ignore[attr-defined]
            return code.run, code
    return _emptying(runner_for(graph, kind), len(graph.outputs)), None


def _emptying(run: Callable[..., Any], count: int) -> Callable[[list[Any]], Any]:
    def boxed(arguments: list[Any]) -> Any:
        taken = tuple(arguments)
        arguments.clear()
        result = run(*taken)
        return [result] if count == 1 else list(result or ())

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed


# -- passes


def optimize(graph: Graph) -> None:
    """Clean a graph that nothing records gradients of: AOTAutograd has seen to them.

    `detach` and `alias` give another tensor object for the same memory. Where nobody gets hold of it, the first does.
    """
    run(graph, "cse")
    remove_where(graph, dict.fromkeys(("aten::detach", "aten::alias"), _is_unseen))
    peephole(graph, disable_shape_peepholes=True)
    run(graph, "dce")


def _is_unseen(node: Node, context: RewriteContext) -> bool:
    return context.may_be_input(node.output, node.inputs[0])


def _no_option(name: object, names: list[str]) -> ValueError:
    hint = did_you_mean(str(name), names) or f"there are {', '.join(names)}"
    return ValueError(f"the backend 'jitlite' has no option {name!r}; {hint}")
