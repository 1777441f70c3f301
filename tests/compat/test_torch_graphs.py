"""Graphs, nodes, values, types and schemas under the names that PyTorch gives to what they tell."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import jitlite
from jitlite.compat import testing
from jitlite.compat.torch_graphs import GraphView
from jitlite.executor.engine import new_program
from jitlite.ir.graph import Graph
from jitlite.ir.types import is_subtype

CONSTANTS = """graph(%x : Tensor):
  %i : int = prim::Constant[value=5]()
  %b : bool = prim::Constant[value=1]()
  %f : float = prim::Constant[value=1.5]()
  %c : complex = prim::Constant[value=2.j]()
  %s : str = prim::Constant[value="a"]()
  %d : Device = prim::Constant[value="cpu"]()
  %l : int[] = prim::Constant[value=[1, 2]]()
  %n : NoneType = prim::Constant()
  return (%x)
"""


def read(text: str) -> Any:
    return testing.TORCH_NAMES["torch._C.parse_ir"](text)


def test_attributes_by_their_kinds():
    nodes = {n.output().debugName(): n for n in read(CONSTANTS).nodes()}
    kinds = {name: n.kindOf("value") for name, n in nodes.items() if n.hasAttributes()}
    assert kinds == {"i": "i", "b": "i", "f": "f", "c": "c", "s": "s", "d": "s", "l": "ival"}
    found = {name: getattr(nodes[name], kind)("value") for name, kind in kinds.items()}
    assert found == {"i": 5, "b": 1, "f": 1.5, "c": 2j, "s": "a", "d": "cpu", "l": [1, 2]}
    assert type(found["b"]) is int and nodes["n"].mustBeNone() and not nodes["i"].mustBeNone()
    with pytest.raises(RuntimeError, match="required keyword attribute 'value' has the wrong type"):
        nodes["i"].s("value")
    for ask in (nodes["i"].i, nodes["i"].kindOf):
        with pytest.raises(RuntimeError, match="required keyword attribute 'other' is undefined"):
            ask("other")


def test_dtypes_are_numbers():
    @jitlite.script
    def f():
        return torch.zeros([2], dtype=torch.float16, layout=torch.strided)

    with jitlite.drop_in():
        inputs = list(f.graph.findNode("aten::zeros").inputs())
        assert [v.toIValue() for v in inputs[1:3]] == [5, 0] == [v.node().i("value") for v in inputs[1:3]]


@pytest.mark.parametrize(
    "kind, value",
    [("i", 3), ("f", 2.5), ("s", "a"), ("is", [1, 2]), ("fs", [1.5]), ("ss", ["a"]), ("ty", torch.ones(0))],
)
def test_attributes_are_set(kind, value):
    node = next(read(CONSTANTS).nodes())
    if kind == "ty":
        value = testing.TORCH_NAMES["torch._C.TensorType"].get()
    node.removeAttribute("value")
    other = next(read(CONSTANTS.replace("%i : int = prim::Constant", "%i : int = my::kind")).nodes())
    assert getattr(other, f"{kind}_")("a", value) == other
    assert other.kindOf("a") == kind and getattr(other, kind)("a") == value and not node.hasAttributes()


def test_changing_a_graph():
    graph = GraphView(Graph())
    x, unused = graph.addInput("x"), graph.addInput("unused")
    two = graph.insertConstant(2)
    made = graph.insert("aten::add", [x, x, two])
    made.setType(x.type())
    other = graph.create("aten::relu", [made], 1)
    graph.appendNode(other)
    graph.registerOutput(other.output())
    graph.registerOutput(made)
    graph.eraseOutput(1)
    graph.eraseInput(unused.offset())
    assert other.isAfter(made.node()) and made.node().isBefore(other) and not made.node().hasMultipleOutputs()
    other.replaceInputWith(made, x)
    made.node().moveAfter(other)
    assert [n.kind() for n in graph.nodes()] == ["prim::Constant", "aten::relu", "aten::add"]
    graph.setInsertPoint(other)
    assert graph.insertPoint() == other and graph.block().owningNode() is None
    clone = graph.insertNode(graph.createClone(other, lambda v: v))
    other.output().replaceAllUsesAfterNodeWith(other, clone.output())
    assert list(graph.outputs()) == [clone.output()]
    testing.TORCH_NAMES["torch._C._jit_pass_lint"](graph)
    assert [n.kind() for n in graph.copy().nodes()] == [n.kind() for n in graph.nodes()]


def test_an_ill_formed_graph_is_found():
    graph = read(CONSTANTS)
    first, second = list(graph.nodes())[:2]
    first.addInput(second.output())
    with pytest.raises(AssertionError):
        testing.TORCH_NAMES["torch._C._jit_pass_lint"](graph)


def test_traced_nodes_know_their_scope():
    traced = testing.TORCH_NAMES["torch.jit.trace"](torch.nn.Sequential(torch.nn.Linear(2, 2)), torch.ones(1, 2))
    node = traced.inlined_graph.findNode("aten::linear")
    assert node.kind() == "aten::linear" and isinstance(node.getModuleHierarchy(), str)


# -- schemas and types


def scripted():
    def f(
        x,
        k: int = 3,
        how: str | None = None,
        sizes: list[int] | None = None,
        t: tuple[int, str] = (1, "a"),
        u: int | str = 1,
        d: torch.device | None = None,
    ):
        return x * k

    return jitlite.script(f)


def test_a_schema_tells_of_arguments():
    arguments = scripted().schema.arguments
    assert [(a.name, str(a.type), a.type.kind(), a.has_default_value(), a.default_value) for a in arguments] == [
        ("x", "Tensor", "TensorType", False, None),
        ("k", "int", "IntType", True, 3),
        ("how", "Optional[str]", "OptionalType", True, None),
        ("sizes", "Optional[List[int]]", "OptionalType", True, None),
        ("t", "Tuple[int, str]", "TupleType", True, (1, "a")),
        ("u", "Union[int, str]", "UnionType", True, 1),
        ("d", "Optional[Device]", "OptionalType", True, None),
    ]
    assert arguments[3].type.str() == "int[]?" and arguments[3].type.annotation_str == "Optional[List[int]]"
    assert all(not a.is_out and not a.kwarg_only and a.N is None and a.alias_info is None for a in arguments)
    assert str(scripted().schema) == str(scripted().__jitlite_function__.schema)


@pytest.mark.parametrize("name", ["aten::zeros", "aten::add.out", "aten::max_pool2d", "aten::to.dtype_layout"])
def test_schemas_of_operators_as_torch_tells_them(name):
    overload = name.replace("::", ".").split(".")
    packet = getattr(torch.ops.aten, overload[1])
    theirs = getattr(packet, overload[2] if len(overload) > 2 else "default")._schema
    ours = testing.TORCH_NAMES["torch._C.parse_schema"](str(theirs))

    def told(schema):
        arguments = [*schema.arguments, *schema.returns]
        sets = [a.alias_info and (a.alias_info.before_set, a.alias_info.is_write) for a in arguments]
        names = ("name", "N", "default_value", "is_out", "is_write", "kwarg_only")
        rows = [[getattr(a, n) for n in names] for a in arguments]
        types = [(str(a.type), str(a.real_type), a.type.kind(), a.has_default_value()) for a in arguments]
        return schema.name, schema.overload_name, schema.is_mutable, rows, types, sets

    assert told(ours) == told(theirs)


def test_schemas_compare():
    f, g = jitlite.script(double_or_more).schema, jitlite.script(double).schema
    parsed = testing.TORCH_NAMES["torch._C.parse_schema"]
    older = parsed(str(g).replace("double(", "double_or_more("))
    assert f.is_backward_compatible_with(older) and not older.is_backward_compatible_with(f)
    assert f.check_forward_compatible_with(older) == (True, "")
    assert f == parsed(str(f)) and len({f, parsed(str(f))}) == 1


def double(x: int) -> int:
    return 2 * x


def double_or_more(x: int, times: int = 2) -> int:
    return times * x


def test_types_are_made_and_asked():
    names = testing.TORCH_NAMES
    ints = names["torch._C.ListType"].ofInts()
    table = names["torch._C.DictType"](names["torch._C.StringType"].get(), ints)
    assert str(table) == "Dict[str, List[int]]" and table.str() == "Dict(str, int[])"
    assert str(table.getKeyType()) == "str" and table.getValueType() == ints and table.kind() == "DictType"
    assert isinstance(ints, names["torch._C.Type"]) and isinstance(table.getKeyType(), names["torch._C.StringType"])
    assert str(names["torch._C.OptionalType"].ofTensor()) == "Optional[Tensor]"
    full = names["torch._C.TensorType"].create_from_tensor(torch.ones(2, 3).t())
    assert str(full) == "Tensor" and "strides=[1, 3]" in full.str() and full.contiguous().strides() == [2, 1]


class Broken:
    def __init__(self) -> None:
        self.a = 1

    def f(self, x: torch.Tensor):
        return x.no_such_method(1)


@jitlite.interface
class HasF:
    def f(self, x: torch.Tensor) -> torch.Tensor:
        pass


def test_asking_whether_a_class_has_an_interface_compiles_nothing_in_vain():
    program = new_program()
    assert not is_subtype(program.type_of_class(Broken), program.type_of_class(HasF))


# -- traces


def test_traces_know_the_tensors_they_were_made_with():
    def f(x, y):
        a, b = torch.split(torch.relu(x).t() @ y, 1)
        return (a + b.shape[0]).to(torch.float64), x.sum()

    traced = jitlite.trace(f, (torch.ones(3, 2), torch.ones(3, 4, requires_grad=True)))
    with jitlite.drop_in():
        graph = traced.graph
        assert all(v.isCompleteTensor() for v in graph.inputs())
        assert [v.type().sizes() for v in graph.inputs()] == [[3, 2], [3, 4]]
        product = graph.findNode("aten::matmul").output()
        assert product.type().sizes() == [2, 4] and product.requires_grad() and product.type().dtype() is torch.float32
        converted = graph.findNode("aten::to").output()
        assert converted.type().scalarType() == "Double" and converted.type().strides() == [4, 1]
        copy = graph.copy()
        assert "Double(1, 4, strides=[4, 1], requires_grad=1, device=cpu)" in str(copy)
        torch._C._jit_pass_erase_shape_information(copy)
        assert "Double" not in str(copy) and "Double" in str(graph)
    assert "Double" not in str(traced.graph) and "Double(1, 4" in traced.graph.to_text(examples=True)


def test_the_tensors_of_a_trace_bind_nothing():
    traced = jitlite.trace(lambda x: torch.relu(x).sum(0), torch.ones(3, 2))
    for x in (torch.ones(5, 7), torch.ones(2, dtype=torch.int64)):
        for _ in range(3):
            assert torch.equal(traced(x), x.sum(0))


def test_modules_called_in_a_trace_have_examples():
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    traced = jitlite.trace(module, torch.ones(4, 2))
    with jitlite.drop_in():
        calls = [n for n in traced.graph.nodes() if n.kind() == "prim::CallMethod"]
        inner = traced.inlined_graph.findNode("aten::relu")
        assert [n.output().type().sizes() for n in [*calls, inner]] == [[4, 3]] * 3
        assert [v.type().sizes() for v in list(getattr(traced, "0").graph.inputs())[1:]] == [[4, 2]]
        assert traced._name == "Sequential"


# -- what else tools ask by torch's names


def test_a_graph_becomes_a_function_of_a_unit():
    unit = jitlite.CompilationUnit("def g(x):\n    return x + 1\n")
    scripted = jitlite.script(double)
    made = unit.create_function("twice", scripted.graph)
    assert made(4) == 8 == unit.twice(4) == unit.find_function("twice")(4) and unit.find_function("thrice") is None
    assert unit.create_function("twice", scripted.graph, shouldMangle=True)(3) == 6
    assert "aten::mul" in made.code or "torch.mul" in made.code


def test_trees_and_tuples():
    tree = testing.TORCH_NAMES["torch.jit.frontend.get_jit_def"](double, "double")
    assert str(tree).startswith("(def") and "def double(x: int)" in tree.range()
    text = "graph(%a : Float(3), %b : Tensor):\n  %c : (Tensor, Tensor) = prim::TupleConstruct(%a, %b)\n  return (%c)\n"
    graph = read(text)
    testing.TORCH_NAMES["torch._C._jit_pass_refine_tuple_types"](graph)
    assert next(graph.outputs()).type().str() == "(Float(3), Tensor)"
    with pytest.raises(RuntimeError, match="Can not create ListType with None type"):
        testing.TORCH_NAMES["torch._C.ListType"](None)


def test_alias_analysis_is_told():
    graph = read(
        "graph(%x : Tensor):\n  %y : Tensor = aten::t(%x)\n  %z : Tensor = aten::relu(%x)\n  return (%y, %z)\n"
    )
    found = graph.alias_db()
    assert "%x may be WILDCARD" in str(found) and "%x may be %y" in str(found) and "%z" not in str(found)
    assert found.to_graphviz_str().startswith("digraph alias_db {")


def test_shapes_of_a_trace_follow_from_its_example():
    traced = testing.TORCH_NAMES["torch.jit.trace"](lambda x: torch.relu(x.t()), torch.ones(2, 3))
    testing.TORCH_NAMES["torch._C._jit_erase_non_input_shape_information"](traced.graph)
    assert next(traced.graph.outputs()).type().sizes() is None
    testing.TORCH_NAMES["torch._C._jit_pass_propagate_shapes_on_graph"](traced.graph)
    assert next(traced.graph.outputs()).type().sizes() == [3, 2]


def test_a_trace_without_writes_is_well_formed():
    def f(x):
        y = torch.zeros_like(x)
        y.copy_(x)
        return y.add_(1)

    graph, _ = testing.TORCH_NAMES["torch.jit._get_trace_graph"](f, (torch.ones(2),), _force_outplace=True)
    testing.TORCH_NAMES["torch._C._jit_pass_lint"](graph)
    assert "aten::add(" in str(graph)


@pytest.mark.parametrize("relu", [torch.relu, torch.relu_])
def test_sums_and_relu_are_one_operator(relu):
    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.relu = relu

        def forward(self, a, b):
            return self.relu(torch.add(a, b)) + torch.add(a, b)

    scripted = testing.TORCH_NAMES["torch.jit.script"](Both())
    a, b = torch.randn(3, 4), torch.randn(3, 4)
    expected = scripted(a, b)
    testing.TORCH_NAMES["torch._C._jit_pass_fuse_add_relu"](scripted.graph)
    assert str(scripted.graph).count("aten::_add_relu(") == 1 and torch.equal(scripted(a, b), expected)


def test_what_a_pass_finds_of_a_tensor_is_shown_before_its_example():
    traced = testing.TORCH_NAMES["torch.jit.trace"](torch.nn.functional.hardtanh, torch.rand(4, 4))
    given = next(traced.graph.inputs())
    given.setType(given.type().with_sizes([2, 2]))
    testing.TORCH_NAMES["torch._C._jit_pass_propagate_shapes_on_graph"](traced.graph)
    assert next(traced.graph.outputs()).type().sizes() == [2, 2]


def test_shapes_from_arguments_say_of_gradients_what_is_true():
    def f(x, y):
        return x * y

    x, y = torch.ones(3, 1, 5), torch.ones(4, 1, 8, 5)
    for one, told, expected in (
        (x, False, False),
        (x.clone().requires_grad_(), False, None),
        (x.clone().requires_grad_(), True, True),
    ):
        graph = testing.TORCH_NAMES["torch.jit.script"](f).graph
        testing.TORCH_NAMES["torch._C._jit_pass_complete_shape_analysis"](graph, (one, y), told)
        output = next(graph.outputs())
        assert output.requiresGrad() is expected and output.type().requiresGrad() is expected
        assert output.type().sizes() == [4, 3, 8, 5] and output.type().strides() == [120, 40, 5, 1]


def test_nodes_match_schemas():
    def f(x):
        return x * 4

    node = testing.TORCH_NAMES["torch.jit.script"](f).graph.findNode("aten::mul")
    for schema in (
        "aten::mul(Tensor self, Scalar other) -> Tensor",
        "aten::mul.Scalar(Tensor self, Scalar other) -> Tensor",
    ):
        assert node.matches(schema)
    for schema in (
        "aten::mul(Tensor self, Tensor other) -> Tensor",
        "aten::mul.Tensor(Tensor self, Scalar other) -> Tensor",
        "aten::mul_(Tensor(a!) self, Scalar other) -> Tensor(a!)",
        "aten::add(Tensor self, Scalar other) -> Tensor",
    ):
        assert not node.matches(schema)


def test_inputs_by_the_names_of_parameters():
    def f(x: torch.Tensor, w: torch.Tensor):
        return torch.conv2d(x, w, stride=2)

    graph = GraphView(jitlite.script(f).graph)
    node = graph.findNode("aten::conv2d")
    assert [node.namedInput(n).debugName() for n in ("input", "weight")] == ["x.1", "w.1"]
    assert node.namedInput("bias").toIValue() is None
    with pytest.raises(RuntimeError, match="aten::conv2d has no parameter named scale"):
        node.namedInput("scale")
    with pytest.raises(RuntimeError, match="has no parameter named x"):
        graph.return_node().namedInput("x")
