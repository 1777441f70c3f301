"""Is a trace right? Compare it with the function it was made from, and with a second trace."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from jitlite.api.trace_findings import TraceFinding, first_difference, frozen_by_shapes, inlined
from jitlite.base.dataclass_values import fields_of, with_fields
from jitlite.base.layouts import dense_parts
from jitlite.frontend.tracing.trace_warnings import TracerWarning
from jitlite.ir import ops
from jitlite.ir.graph import Graph, Node, constant_of


class TracingCheckError(Exception):
    """A trace is not right for all inputs: another one differs, or it does something else than the function.

    Attributes:
        message: the text.
        findings: what is frozen, or what is first to differ, with the user's line.
    """

    def __init__(
        self,
        graph_diff_error: str | None,
        tensor_compare_error: str | None,
        extra_msg: str | None = None,
        findings: Sequence[TraceFinding] = (),
    ) -> None:
        self.findings = tuple(findings)
        lines = ["Tracing failed sanity checks!"]
        lines += [extra_msg] if extra_msg else []
        if graph_diff_error:
            lines += ["ERROR: Graphs differed across invocations!", _indented(graph_diff_error)]
        if tensor_compare_error:
            lines += [
                "ERROR: Tensor-valued Constant nodes differed in value across invocations. This often indicates that "
                "the tracer has encountered untraceable code.",
                _indented(tensor_compare_error),
            ]
        self.message = "\n".join(lines) + "\n"
        super().__init__(self.message)


def check_shapes_of(
    function: Callable[..., object], traced: object, inputs: object, again: Callable[[Any], object], tolerance: float
) -> None:
    """Try inputs of other sizes: does the trace do what the function does?

    Raises:
        TracingCheckError: it does not; `findings` says what was frozen, and where.
    """

    def run(called: Callable[..., object], given: object) -> list[torch.Tensor]:
        arguments = copied(given)
        with torch.random.fork_rng(devices=[]):
            result = called(**arguments) if isinstance(arguments, Mapping) else called(*arguments)
        return list(_tensors(result))

    def trace_again(given: object) -> Any:
        with torch.random.fork_rng(devices=[]):
            return again(given)

    def same(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
        try:
            _assert_close(ours, theirs, tolerance)
        except AssertionError:
            return False
        return True

    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", TracerWarning)
        found = frozen_by_shapes(function, traced, inputs, trace_again, run, same)
    if found:
        told = "\n".join(_indented(str(f)) for f in found)
        raise TracingCheckError(None, None, f"The trace does not hold for other sizes:\n{told}", found)


def _assert_close(ours: torch.Tensor, theirs: torch.Tensor, tolerance: float) -> None:
    absolute = _tolerances(ours, theirs)
    torch.testing.assert_close(_comparable(ours), _comparable(theirs), rtol=tolerance, atol=absolute, equal_nan=True)


def _indented(text: str) -> str:
    return "\n".join("\t" + line for line in text.splitlines())


def check_trace_of(
    function: Callable[..., Any],
    traced: Any,
    inputs: Sequence[Any] | Mapping[str, Any],
    again: Callable[[Any], Any],
    tolerance: float,
) -> None:
    """Warn where the trace's results are not the function's, or not those of another trace.

    Args:
        again: traces the function with other inputs.

    Raises:
        TracingCheckError: where the other trace has another graph, or one of them cannot be run.
    """
    repeated = again(copied(inputs))
    difference = _Difference(traced, repeated)
    with torch.no_grad():
        results = _run(traced, inputs, "trace", difference)
        expected = _run(function, inputs, "Python function", difference)
        if _compare(traced, results, expected, "Python function", tolerance):
            others = _run(repeated, inputs, "repeated trace", difference)
            _compare(traced, results, others, "repeated trace", tolerance)
    difference.raise_if_any()


def copied(inputs: object) -> Any:
    """Inputs with tensors of their own."""
    if isinstance(inputs, torch.Tensor):
        return _copied_tensor(inputs)
    if isinstance(inputs, Mapping):
        return type(inputs)((k, copied(v)) for k, v in inputs.items())  # type: ignore[call-arg]
    if isinstance(inputs, list | tuple):
        parts = [copied(i) for i in inputs]
        return type(inputs)(*parts) if hasattr(inputs, "_fields") else type(inputs)(parts)
    fields = fields_of(inputs)
    return inputs if fields is None else with_fields(inputs, copied(fields))


def _copied_tensor(tensor: torch.Tensor) -> torch.Tensor:
    memory_format = torch.preserve_format if tensor.layout is torch.strided else None
    made = tensor.detach().clone(memory_format=memory_format).requires_grad_(tensor.requires_grad)
    if tensor.is_leaf and tensor.grad is not None:
        made.grad = _copied_tensor(tensor.grad)
    return made


def _run(function: Callable[..., object], inputs: object, what: str, difference: _Difference) -> list[torch.Tensor]:
    arguments = copied(inputs)
    try:
        result = function(**arguments) if isinstance(arguments, Mapping) else function(*arguments)
    except Exception as error:
        told = _indented(str(error))
        text = f"encountered an exception while running the {what} with test inputs.\nException:\n{told}"
        raise TracingCheckError(difference.of_graphs(), difference.of_constants(), text) from error
    return list(_tensors(result))


def _tensors(result: object) -> Iterator[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, list | tuple):
        for part in result:
            yield from _tensors(part)
    elif isinstance(result, Mapping):
        yield from _tensors(list(result.values()))


def _compare(
    traced: object, found: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor], what: str, tolerance: float
) -> bool:
    all_equal = True
    for i, (ours, theirs) in enumerate(zip(found, wanted, strict=False)):
        try:
            _assert_close(ours, theirs, tolerance)
        except AssertionError as error:
            if all_equal:
                _warn_of_randomness(_graph_of(traced))
            all_equal = False
            warnings.warn(
                f"Output nr {i + 1}. of the traced function does not match the corresponding output of the {what}. "
                f"Detailed error:\n{error}",
                TracerWarning,
                stacklevel=4,
            )
    return all_equal


def _tolerances(*tensors: torch.Tensor) -> float:
    return max(_ABSOLUTE.get(t.dtype, 0.0) for t in tensors)


_ABSOLUTE = {
    torch.float16: 1e-5, torch.bfloat16: 1e-5, torch.float32: 1e-5, torch.float64: 1e-7, torch.complex64: 1e-5,
    torch.complex128: 1e-7,
}  # fmt: skip
"""How much values near zero may differ."""


def _comparable(tensor: torch.Tensor) -> list[torch.Tensor]:
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    return [part.to(torch.complex128 if part.is_complex() else torch.float64) for part in dense_parts(tensor)]


def _warn_of_randomness(graph: Graph) -> None:
    nodes = [node for node in graph.all_nodes() if _is_random(node)]
    if nodes:
        shown = "\n".join(_indented(f"{node.kind}({', '.join(v.name for v in node.inputs)})") for node in nodes[:20])
        warnings.warn(
            "Trace had nondeterministic nodes. Did you forget call .eval() on your model? Nodes:\n"
            f"{shown}\nThis may cause errors in trace checking. To disable trace checking, pass check_trace=False to "
            "torch.jit.trace()",
            TracerWarning,
            stacklevel=5,
        )


def _is_random(node: Node) -> bool:
    if node.op is None or node.op.effect is not ops.Effect.RANDOM:
        return False
    trains = node.op.schema.argument_index("train")
    return trains is None or constant_of(node.inputs[trains], True) is not False


def _graph_of(traced: Any) -> Graph:
    graph: Graph = traced.__jitlite_function__.graph
    return graph


class _Difference:
    """What two traces of one function differ in."""

    def __init__(self, first: object, second: object) -> None:
        self._graphs = [inlined(_graph_of(traced)) for traced in (first, second)]

    def of_graphs(self) -> str | None:
        """The lines that differ, None where all are equal."""
        first, second = (graph.to_text(ranges=False) for graph in self._graphs)
        if first == second:
            return None
        lines = difflib.ndiff(first.splitlines(), second.splitlines())
        return "\n".join(["Graph diff:", *(f"\t{line}" for line in lines), *self._first_place()])

    def first(self) -> TraceFinding | None:
        """The first node in which they differ, None where there is none."""
        return first_difference(self._graphs[0], self._graphs[1])

    def _first_place(self) -> list[str]:
        finding = self.first()
        return [] if finding is None else [f"First diverging operator: {finding.operator}", str(finding)]

    def of_constants(self) -> str | None:
        """The first pair of constants with different tensors, None where there is none."""
        for one, other in zip(*(graph.nodes for graph in self._graphs), strict=False):
            if one.kind != other.kind:
                return None
            values = [node.attributes.get("value") for node in (one, other)]
            if one.kind != "prim::Constant" or not all(isinstance(v, torch.Tensor) for v in values):
                continue
            try:
                torch.testing.assert_close(dense_parts(values[0]), dense_parts(values[1]), equal_nan=True)
            except (RuntimeError, AssertionError) as error:
                place = "" if one.range is None else f"{one.range.location()}\n"
                return f"{place}Comparison exception: {error}"
        return None

    def raise_if_any(self) -> None:
        """Raise where there is a difference.

        Raises:
            TracingCheckError: there is one.
        """
        graphs, constants = self.of_graphs(), self.of_constants()
        if graphs or constants:
            finding = self.first()
            raise TracingCheckError(graphs, constants, findings=[] if finding is None else [finding])
