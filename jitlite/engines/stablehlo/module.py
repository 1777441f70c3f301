"""Graphs as modules of StableHLO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import torch

from jitlite.base.records import Record, replace
from jitlite.engines.converters import dtype_of_number, ref_of
from jitlite.engines.engine import EngineRefusal
from jitlite.engines.stablehlo import (
    control_flow,
    elementwise,
    indexing,
    integers,
    layers,
    ordering,
    pooling,
    reductions,
    views,
)
from jitlite.engines.stablehlo.arrays import Array, SizeCondition
from jitlite.engines.stablehlo.builder import CONVERTERS, StableHloBuilder
from jitlite.engines.stablehlo.sizes import text_of
from jitlite.engines.whole_graphs import WholeGraph, check_supported
from jitlite.ir.graph import Graph, Value, constant_of, is_constant
from jitlite.ir.types import TensorType

_SUBJECTS = (control_flow, elementwise, indexing, integers, layers, ordering, pooling, reductions, views)
"""The modules that declare converters."""


class StableHloModule(Record):
    """Text, and what has to be known to call it.

    Attributes:
        text: of the module, whose function is `main`.
        inputs, outputs: what goes in and out. Behind the outputs are the bools of `checks`.
        conditions: what has to hold for the sizes of a call.
        checks: what is wrong with a call for which a bool is false.
    """

    text: str
    inputs: list[Array]
    outputs: list[Array]
    conditions: list[SizeCondition]
    checks: list[str]


class _Function(Record, frozen=False):
    """The function of a module in the making."""

    builder: StableHloBuilder
    values: dict[Value, Array] = field(default_factory=dict)
    inputs: list[Array] = field(default_factory=list)

    def take(self, value: Value) -> None:
        """Have a value be an argument."""
        sizes = value.type.sizes if isinstance(value.type, TensorType) else ()
        made = self.builder.argument(f"%arg{len(self.inputs)}", ref_of(value, ""), sizes or ())
        self.values[value] = made
        self.inputs.append(made)

    def finish(self, graph: Graph, head: Sequence[str], *, with_checks: bool) -> StableHloModule:
        """Write the nodes and what is returned."""
        values = dict[Value, Array](self.values)
        CONVERTERS.write(graph, self.builder, values)  # type: ignore[arg-type]
        outputs = [self._output(value, values) for value in graph.outputs]
        checks = self.builder.checks if with_checks else []
        returned = [*outputs, *(found for found, _ in checks)]
        arguments = ", ".join(f"{x.name}: {x.type}" for x in self.inputs)
        types = ", ".join(x.type for x in returned)
        names = ", ".join(x.name for x in returned)
        lines = [f"    {line}" for text in self.builder.lines for line in text.splitlines()]
        text = "\n".join(
            [
                *(f"// {line}" for line in head),
                "module @jitlite {",
                f"  func.func public @main({arguments}) -> ({types}) {{",
                *lines,
                f"    return {names} : {types}",
                "  }",
                "}\n",
            ]
        )
        found = list(dict.fromkeys(self.builder.conditions))
        return StableHloModule(text, self.inputs, outputs, found, [why for _, why in checks])

    def _output(self, value: Value, values: dict[Value, Array]) -> Array:
        """What is returned, as a value that has a name."""
        if is_constant(value):
            constant = constant_of(value)
            if isinstance(constant, torch.Tensor):
                return self.builder.constant(constant)
            return replace(self.builder.operand(constant, dtype_of_number(constant)), is_number=True)
        found = values.get(value)
        if found is None:
            raise EngineRefusal("an output is a list")
        return self.builder.given(found)


def module_of(graph: Graph) -> StableHloModule:
    """The text of a group, as IREE reads it.

    Args:
        graph: one whose inputs have types that say dtype and rank. A size that they do not say is 2 or more.

    Raises:
        EngineRefusal: a node has no translation, or an input or output is of a type that StableHLO has not.
    """
    made = _Function(StableHloBuilder(for_iree=True))
    for value in graph.inputs:
        made.take(value)
    return made.finish(graph, [], with_checks=True)


def text_of_whole(whole: WholeGraph, name: str) -> str:
    """The text of a model, with its weights as constants.

    Args:
        whole: what the model computes.
        name: of the model.

    Raises:
        UnsupportedOperators: nodes have no translation; it lists all.
        EngineRefusal: an input or output is of a type that StableHLO has not.
    """
    check_supported(whole.graph, "StableHLO", CONVERTERS.why_not)
    made = _Function(StableHloBuilder())
    given = whole.graph.inputs[: len(whole.inputs)]
    for value in given:
        made.take(value)
    for value, tensor in zip(whole.graph.inputs[len(given) :], whole.weights.values(), strict=True):
        made.values[value] = made.builder.constant(tensor)
    module = made.finish(whole.graph, [], with_checks=False)
    names = dict[str, str]()
    for x, wanted in zip(module.inputs, whole.inputs, strict=True):
        names |= {x.name: wanted, **{f"{x.name}.{d}": f"{wanted}.size({d})" for d in range(x.rank)}}
    head = [f"{name} of {', '.join(whole.inputs)}, to {', '.join(whole.outputs)}"]
    head += [f"condition: {text}" for text in whole.conditions]
    for c in module.conditions:
        head.append(f"condition: {text_of(c.left, names)} {c.relation} {text_of(c.right, names)}")
    head += [f"condition: it is not so that {why}" for why in dict.fromkeys(w for _, w in made.builder.checks)]
    return "".join(f"// {_on_one_line(line)}\n" for line in head) + module.text


def _on_one_line(text: str) -> str:
    """Text that cannot end the comment that it is in."""
    return "".join(c if c.isascii() and c.isprintable() else " " for c in text)
