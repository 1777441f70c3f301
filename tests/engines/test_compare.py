"""`jitlite.compare`: what an engine computes beside what jitlite computes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

import jitlite
from jitlite.api.compare import _difference
from jitlite.engines.engine import CompiledGroup, Engine, EngineRefusal, Operand
from jitlite.ir.graph import Graph, Node
from jitlite.ir.types import TensorType
from jitlite.objects.function import function_of_graph


class Wrong(Engine):
    """Adds something to the results of one kind of operators."""

    name = "wrong"
    least = 1

    def __init__(self, kind: str, error: float, fails: bool = False) -> None:
        self.kind, self.error, self.fails = kind, error, fails

    def supports(self, node: Node) -> str | None:
        makes = any(isinstance(v.type, TensorType) for v in node.outputs)
        return None if makes and node.op is not None and node.op.fn is not None else "it makes no tensor"

    def compile(self, graph: Graph) -> CompiledGroup:
        if self.fails:
            raise EngineRefusal("it fails")
        changed = graph.copy()
        for node in list(changed.nodes):
            if node.kind == self.kind:
                with changed.inserting_before(node.next or changed.block.return_node):
                    error, one = changed.insert_constant(self.error), changed.insert_constant(1)
                    wrong = changed.insert("aten::add", [node.output, error, one], [node.output.type]).output
                node.output.replace_uses_after(wrong.node, wrong)
        run = function_of_graph("group", changed)

        def call(inputs: Sequence[Operand]) -> Sequence[Operand]:
            found = run(*inputs)
            return list(found) if isinstance(found, tuple) else [found]

        return call


def chain(x: Tensor, y: Tensor) -> Tensor:
    z = torch.tanh(x * y)
    return torch.relu(z + 3) - y


def args() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(4), torch.randn(4)


@pytest.mark.parametrize("kind", ["aten::mul", "aten::tanh", "aten::relu", "aten::sub"])
def test_the_first_node_that_is_wrong_is_named(kind):
    fast = jitlite.optimize(chain, args(), engine=Wrong(kind, 0.5))
    found = jitlite.compare(fast, *args(), by="node")
    first = found.first_beyond
    assert first is not None and first.node.startswith(kind) and "test_compare.py" in first.node
    assert first.absolute == pytest.approx(0.5) and f"first beyond: {kind}" in repr(found)
    assert len(found.rows) == 5
    (group,) = jitlite.compare(fast, *args()).rows
    assert group.exceeds and group.node == "" and group.group.startswith("group 0")


def test_what_is_within_the_tolerance():
    fast = jitlite.optimize(chain, args(), engine=Wrong("aten::sub", 1e-6))
    found = jitlite.compare(fast, *args())
    assert found.first_beyond is None and 0 < found.rows[0].absolute < 1e-5 and repr(found).endswith("all within")
    assert jitlite.compare(fast, *args(), atol=0, rtol=0).first_beyond is not None


def test_each_group_gets_what_jitlite_computes():
    """A group is not blamed for what another has done before it."""
    fast = jitlite.optimize(chain, args(), engine=Wrong("aten::mul", 0.5), deny=["aten::tanh"])
    found = jitlite.compare(fast, *args())
    assert [row.exceeds for row in found.rows] == [True, False]


def looped(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        x = torch.sin(x) * i + 1
    return x


@pytest.mark.parametrize("n", [0, 3])
def test_groups_in_loops(n):
    fast = jitlite.optimize(looped, (torch.ones(3), n), engine="reference")
    found = jitlite.compare(fast, torch.ones(3), n, by="node")
    assert found.first_beyond is None and all(row.absolute == 0 for row in found.rows)
    assert bool(found.rows) == (n > 0)


def test_an_engine_that_fails_is_told():
    fast = jitlite.optimize(chain, args(), engine=Wrong("aten::mul", 0.5, fails=True))
    found = jitlite.compare(fast, *args())
    assert found.rows[0].failure == "it fails" and "not compared: it fails" in repr(found)


def test_a_comparison_leaves_the_model_as_it_was():
    fast = jitlite.optimize(chain, args(), engine=Wrong("aten::mul", 0.5))
    before = fast(*args())
    jitlite.compare(fast, *args(), by="node")
    torch.testing.assert_close(fast(*args()), before)
    assert fast.counters.fallbacks == 0


def test_what_cannot_be_compared():
    with pytest.raises(TypeError, match="optimize"):
        jitlite.compare(chain, *args())
    fast = jitlite.optimize(chain, args(), engine=Wrong("aten::mul", 0.5))
    with pytest.raises(ValueError, match="by is"):
        jitlite.compare(fast, *args(), by="line")
    with pytest.raises(RuntimeError, match="gradients are recorded"):
        jitlite.compare(fast, args()[0].requires_grad_(), args()[1])


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.5], (0.5, 0.25, True)), ([NAN, INF], [NAN, INF], (0.0, 0.0, False)),
        ([1.0], [NAN], (INF, INF, True)), ([INF], [-INF], (INF, INF, True)), ([0.0], [1e-9], (1e-9, 0.0, False)),
        ([], [], (0.0, 0.0, False)), ([1.0], [1.0, 1.0], (INF, INF, True)), ([NAN], [1.0], (INF, INF, True)),
    ],
    ids=["different", "same", "nan", "signs", "zero", "empty", "shapes", "not nan"],
)  # fmt: skip
def test_differences(ours, theirs, expected):
    found = _difference(torch.tensor(ours).double(), torch.tensor(theirs).double(), 1e-4, 1e-5)
    assert found == pytest.approx(expected)
