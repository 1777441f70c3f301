"""FX graphs become graphs that do the same, whatever made them: symbolic_trace, Dynamo, AOTAutograd, torch.export."""

from __future__ import annotations

import math
import operator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from jitlite.compiler.fx_graphs import graph_of_fx
from jitlite.debug.equality import difference
from jitlite.executor.graph_runners import runner_for
from jitlite.frontend.from_fx.fx import convert
from jitlite.ir.graph import Graph
from jitlite.ir.verify import verify
from jitlite.passes.pipelines import OPTIMIZE

aten = torch.ops.aten


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph.all_nodes() if node.kind != "prim::Constant"]


def check(gm: fx.GraphModule, *args: Any) -> Graph:
    """Does the graph do what the module does, optimized too? Gives the graph."""
    graph = graph_of_fx(gm)
    verify(graph)
    optimized = graph.copy()
    OPTIMIZE(optimized)
    for made in (graph, optimized):
        torch.manual_seed(1)
        expected = gm(*args)
        torch.manual_seed(1)
        assert difference(expected, runner_for(made, "f")(*args)) is None
    return graph


def calls(*nodes: tuple[Any, tuple[Any, ...]] | tuple[Any, tuple[Any, ...], dict[str, Any]]) -> fx.GraphModule:
    """A graph of calls; in arguments, ints in a one-element set stand for the results of earlier calls, `"x"` for the
    input."""
    graph = fx.Graph()
    found: list[Any] = [graph.placeholder("x")]

    def argument(given: Any) -> Any:
        if isinstance(given, set):
            return found[next(iter(given))]
        if isinstance(given, slice):
            return slice(*(argument(part) for part in (given.start, given.stop, given.step)))
        return type(given)(map(argument, given)) if isinstance(given, list | tuple) else given

    for target, args, *rest in nodes:
        kwargs = {k: argument(v) for k, v in (rest[0] if rest else {}).items()}
        found.append(graph.call_function(target, argument(args), kwargs))
    graph.output(found[-1])
    return fx.GraphModule(nn.Module(), graph)


# -- operators of the dispatcher ---------------------------------------------------------------------------------------


def test_arguments_in_the_order_of_the_schema():
    gm = calls((aten.sum.dim_IntList, ({0}, [0]), {"dtype": torch.float64, "keepdim": True}))
    graph = check(gm, torch.randn(2, 3))
    (node,) = (n for n in graph.nodes if n.kind == "aten::sum")
    assert [v.type.annotation for v in node.inputs] == ["Tensor", "List[int]", "bool", "int"]


def test_numbers_in_the_place_of_tensors():
    gm = calls((aten.add.Tensor, ({0}, 2), {"alpha": 3}), (aten.mul.Tensor, ({1}, 0.5)), (aten.sub.Tensor, ({2}, {1})))
    graph = check(gm, torch.arange(3))
    assert [n.op.schema.overload for n in graph.nodes if n.op and n.op.overload] == ["Scalar", "Scalar", "Tensor"]


def test_a_number_that_no_overload_takes():
    gm = calls((aten.maximum.default, ({0}, {0})), (aten.mul.Tensor, (2, {1})))
    conversion = convert(gm)
    assert {lookup.target: lookup.how for lookup in conversion.lookups.values()} == {
        "aten.maximum.default": "exact",
        "aten.mul.Tensor": "eager",
    }
    check(gm, torch.ones(2))


def test_several_results_and_lists():
    gm = calls(
        (aten.max.dim, ({0}, 1)),
        (operator.getitem, ({1}, 1)),
        (aten.split.Tensor, ({0}, 1)),
        (operator.getitem, ({3}, 0)),
        (aten.cat.default, ([{4}, {0}],)),
        (aten.index_select.default, ({5}, 1, {2})),
    )
    check(gm, torch.randn(2, 3))


def test_optional_tensors_in_lists():
    gm = calls((aten.new_zeros.default, ({0}, [2]), {"dtype": torch.long}), (aten.index.Tensor, ({0}, [None, {1}])))
    check(gm, torch.randn(3, 3))


def test_dtypes_devices_layouts_and_formats():
    gm = calls(
        (
            aten.full.default,
            ([2, 2], 1),
            {"dtype": torch.int16, "layout": torch.strided, "device": torch.device("cpu")},
        ),
        (aten._to_copy.default, ({1},), {"dtype": torch.float64}),
        (aten.clone.default, ({2},), {"memory_format": torch.contiguous_format}),
    )
    check(gm, torch.ones(1))


def test_packets_choose_by_types():
    gm = calls((aten.add, ({0}, 1)), (torch.ops.aten.relu, ({1},)))
    assert kinds(check(gm, torch.randn(2))) == ["aten::add", "aten::relu"]


def test_writes_stay_in_order():
    gm = calls(
        (aten.clone.default, ({0},)),
        (aten.add_.Tensor, ({1}, 1)),
        (aten.mul.Tensor, ({1}, {1})),
        (aten.zero_.default, ({1},)),
        (aten.add.Tensor, ({1}, {3})),
    )
    check(gm, torch.ones(2))


@pytest.mark.parametrize(
    "function, x",
    [
        (lambda x: (x.softmax(-1), x.std(), x.topk(2)), torch.randn(3, 4)),
        (lambda x: F.layer_norm(x, (4,)).view(2, 6).t() @ x.reshape(2, 6), torch.randn(3, 4)),
        (lambda x: F.conv2d(x, x[:1, :, :2, :2]), torch.randn(2, 2, 4, 4)),
        (lambda x: torch.ops.aten.avg_pool2d(x, 2, 2, 0), torch.randn(1, 4, 4)),
        (lambda x: [torch.rand(2), F.dropout(x, 0.5), torch.randint(0, 9, (3,))], torch.randn(4)),
        (lambda x: {"fft": torch.fft.rfft(x).abs(), "svd": torch.linalg.svdvals(x)}, torch.randn(4, 4)),
        (lambda x: x.new_empty(0, 3).sum(0), torch.randn(1)),
        (lambda x: (F.selu(x), F.elu(x, 0.5), F.gelu(x, approximate="tanh")), torch.randn(3)),
    ],
)
def test_graphs_of_make_fx(function, x):
    gm = make_fx(function)(x)
    flat = convert(gm, flat=True)
    assert not [lookup for lookup in flat.lookups.values() if lookup.how == "eager"]
    check(gm, x)


# -- numbers -----------------------------------------------------------------------------------------------------------


def test_sizes_are_ints():
    gm = make_fx(
        lambda x: (x.view(x.shape[0] * 2, -1), x.new_zeros(x.shape[0] // 2 + x.shape[1] % 3), x.numel() / 2),
        tracing_mode="symbolic",
    )(torch.randn(4, 6))
    graph = check(gm, torch.randn(4, 6))
    assert not {"prim::PythonOp", "aten::sym_size"} & set(kinds(graph)) and "aten::size" in kinds(graph)
    run = runner_for(graph, "f")
    assert run(torch.randn(8, 2))[0].shape == (16, 1) and run(torch.randn(8, 2))[2] == 8.0


@pytest.mark.parametrize(
    "function, args",
    [
        (operator.add, (3,)), (operator.sub, (3,)), (operator.mul, (3,)), (operator.truediv, (2,)),
        (operator.floordiv, (-3,)), (operator.mod, (-3,)), (operator.neg, ()), (operator.lt, (9,)), (operator.eq, (4,)),
        (operator.pow, (2,)), (operator.and_, (6,)), (operator.lshift, (2,)), (math.sqrt, ()), (math.ceil, ()),
        (math.trunc, ()), (torch.sym_max, (7,)), (torch.sym_min, (2.5,)), (torch.sym_float, ()), (torch.sym_int, ()),
        (torch._sym_sqrt, ()), (torch.sym_ite, None), (max, (5,)),
    ],
)  # fmt: skip
def test_functions_of_numbers(function, args):
    given = ({2}, {1}, 0) if args is None else ({1}, *args)
    gm = calls((aten.sym_size.int, ({0}, 0)), (operator.gt, ({1}, 2)), (function, given))
    n = 4
    expected = function(n > 2, n, 0) if args is None else function(n, *args)
    got = runner_for(graph_of_fx(gm), "f")(torch.ones(n))
    assert got == expected and type(got) is type(expected)


# -- Python's functions, methods and modules ---------------------------------------------------------------------------


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Dropout(0.5))
        self.register_buffer("shift", torch.ones(3))
        self.scale = nn.Parameter(torch.full((3,), 2.0))

    def forward(self, x: Tensor, k: float = 2.0) -> dict[str, Any]:
        y = self.layers(x) * self.scale + self.shift
        values, indices = y.max(dim=1)
        parts = torch.split(y, 1)
        return {
            "y": F.softmax(y, dim=-1) * k,
            "t": (y.reshape(x.shape[0], -1).float(), [y.to(torch.float64), y.mean((0, 1))], None),
            "max": (values, indices),
            "items": (y[0], y[:, 1:, None], y[..., 0], y[y > 0].sum(), parts[0]),
            "cat": torch.cat([y, y.relu()], dim=1),
            "pool": F.max_pool1d(y, 2),
            "dim": y.dim(),
        }


def test_traced_modules():
    gm = fx.symbolic_trace(Model().eval())
    graph = check(gm, torch.randn(2, 4), 3.0)
    found = kinds(graph)
    assert {"aten::linear", "aten::relu", "aten::softmax", "aten::max", "aten::select", "aten::slice"} <= set(found)
    assert "prim::CallFunction" not in found


def test_parameters_are_the_very_tensors():
    model = Model().eval()
    graph = graph_of_fx(fx.symbolic_trace(model))
    constants = [n.attributes.get("value") for n in graph.all_nodes() if n.kind == "prim::Constant"]
    assert any(c is model.scale for c in constants) and any(c is model.layers[0].weight for c in constants)


def test_modules_with_hooks_and_modules_that_cannot_be_looked_into():
    class Branching(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + 1 if x.sum() > 0 else x - 1

    class Leaf(fx.Tracer):
        def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
            return True

    hooked = nn.ReLU()
    hooked.register_forward_hook(lambda module, args, result: result * 3)
    model = nn.Sequential(hooked, Branching(), nn.Tanh())
    gm = fx.GraphModule(model, Leaf().trace(model))
    graph = check(gm, torch.randn(3))
    check(gm, -torch.ones(3))
    assert kinds(graph).count("prim::PythonOp") == 3  # after Python, anything is possible


def test_arguments_of_any_structure_go_to_python():
    seen: list[Any] = []

    def odd(x: Tensor, *rest: Any, **named: Any) -> Tensor:
        seen.append((rest, named))
        return x + 1

    gm = calls(
        (aten.sym_size.int, ({0}, 0)),
        (odd, ({0}, [{1}, (None, "a")], slice(None, {1}, 2)), {"k": {0}, "dtype": torch.float16}),
    )
    x = torch.ones(3)
    assert torch.equal(runner_for(graph_of_fx(gm), "f")(x), x + 1)
    ((rest, named),) = seen
    assert rest == ([3, (None, "a")], slice(None, 3, 2)) and named["k"] is x and named["dtype"] is torch.float16


def test_exported_programs():
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Softmax(-1)).eval()
    exported = torch.export.export(model, (torch.randn(3, 4),), dynamic_shapes=({0: torch.export.Dim("n", min=2)},))
    program = exported.run_decompositions({})
    graph = convert(program.graph_module, flat=True).graph
    verify(graph)
    names = program.graph_signature
    own = {**names.inputs_to_parameters, **names.inputs_to_buffers}
    given = [program.state_dict[own[n.name]] for n in program.graph.find_nodes(op="placeholder") if n.name in own]
    for n in (3, 5):
        y = torch.randn(n, 4)
        got = runner_for(graph, "f")(*given, y)
        assert difference(model(y), got) is None


# -- regions, lowerings, decompositions, places ------------------------------------------------------------------------


def test_regions_within_regions():
    def f(i: Tensor, x: Tensor) -> Any:
        def body(i: Tensor, x: Tensor) -> Any:
            return i + 1, torch.cond(i > 2, lambda x: x * 2, lambda x: x + 1, (x,))

        return torch._higher_order_ops.while_loop(lambda i, x: i < 5, body, (i, x))

    gm = make_fx(f)(torch.tensor(0), torch.ones(2))
    graph = check(gm, torch.tensor(0), torch.ones(2))
    assert {"prim::Loop", "prim::If"} <= set(kinds(graph)) and "prim::PythonOp" not in kinds(graph)
    assert kinds(graph).index("prim::Loop") < kinds(graph).index("prim::If")


def test_lowerings_and_decompositions():
    gm = calls((aten.sin.default, ({0},)), (aten.cos.default, ({1},)))
    conversion = convert(gm, lowerings={aten.sin: torch.exp, aten.cos.default: torch.neg})
    assert [(v.target, v.how) for v in conversion.lookups.values()] == [
        ("aten.sin.default", "packet"),
        ("aten.cos.default", "exact"),
    ]
    x = torch.ones(2)
    assert torch.equal(runner_for(conversion.graph, "f")(x), -x.exp())

    gm = calls((aten.mul.Tensor, (2, {0})))
    (node,) = gm.graph.find_nodes(op="placeholder")
    node.meta["val"] = x
    conversion = convert(gm, decompositions={aten.mul: lambda a, b: b + b})
    assert [v.how for v in conversion.lookups.values() if v.target == "aten.mul.Tensor"] == ["decomposition"]
    assert torch.equal(runner_for(conversion.graph, "f")(x), x + x)


def test_nodes_know_the_users_line():
    def f(x: Tensor) -> Tensor:
        return x.sin() * 2

    graphs: list[fx.GraphModule] = []

    def keep(gm: fx.GraphModule, inputs: Any) -> Any:
        graphs.append(gm)
        return gm.forward

    torch._dynamo.reset()
    torch.compile(f, backend=keep)(torch.ones(2))
    torch._dynamo.reset()
    (node,) = (n for n in graph_of_fx(graphs[0]).nodes if n.kind == "aten::sin")
    assert node.range is not None and node.range.filename is not None
    assert Path(node.range.filename).name == "test_fx.py" and node.range.text == "return x.sin() * 2"
    assert node.range.line == f.__code__.co_firstlineno + 1
