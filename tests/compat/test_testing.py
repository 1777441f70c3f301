"""jitlite.testing: functions from graphs, and PyTorch's names."""

import pytest
import torch

import jitlite
from jitlite.compat import testing

TEXT = """graph(%x : Tensor, %n : int):
  %two : int = prim::Constant[value=2]()
  %unused : int = aten::sub(%n, %two)
  %sum : Tensor = aten::add(%x, %n, %two)
  return (%sum)
"""


def test_a_function_from_a_graph():
    function = testing.create_function_from_graph("twice", testing.parse_ir(TEXT))
    assert function(torch.ones(1), 3) == 7 == function(x=torch.ones(1), n=3)
    assert str(function.schema) == "twice(Tensor x, int n) -> Tensor"
    with pytest.raises(RuntimeError, match="missing value for argument 'n'"):
        function(torch.ones(1))


def test_placeholder_tensors():
    text = """graph():
  %x : Long(2, strides=[1], requires_grad=0, device=cpu) = prim::Constant[value=<Tensor>]()
  return (%x)
"""
    function = testing.create_function_from_graph("zeros", testing.parse_ir(text, True))
    assert function().tolist() == [0, 0]


def test_passes_by_the_names_of_torch():
    graph = testing.parse_ir(TEXT)
    assert testing.TORCH_NAMES["torch._C._jit_pass_dce"](graph)
    assert "aten::sub" not in str(graph)
    assert not testing.TORCH_NAMES["torch._C._jit_pass_dce"](graph)


def test_every_pass_named_here_exists():
    for name, found in testing.TORCH_NAMES.items():
        if name.startswith("torch._C._jit_pass_") and hasattr(found.__wrapped__, "args"):
            jitlite.passes.find(found.__wrapped__.args[0])


def test_errors_under_the_names_of_torch():
    def generator(x):
        yield x

    with pytest.raises(testing.TORCH_NAMES["torch.jit.frontend.UnsupportedNodeError"]):
        jitlite.script(generator)


# -- schemas and graphs under torch's names


def read(text):
    return testing.TORCH_NAMES["torch._C.parse_schema"](text)


@pytest.mark.parametrize(
    "old, new, compatible",
    [
        ("f(int a) -> int", "f(int a, int b=1) -> int", True),
        ("f(int a) -> int", "f(int a, int b) -> int", False),
        ("f(int a) -> int", "f(int? a) -> int", True),
        ("f(int? a) -> int", "f(int a) -> int", False),
        ("f(int a) -> int?", "f(int a) -> int", True),
        ("f(*, int a) -> int", "f(int a) -> int", True),
        ("f(int a) -> int", "f(*, int a) -> int", False),
        ("f(int a=1) -> int", "f(int a=2) -> int", False),
        ("f(int a) -> int", "g(int a) -> int", False),
        ("f(*, Tensor(a!) out) -> ()", "f(*, int b=1, Tensor(a!) out) -> ()", True),
    ],
)
def test_schemas_that_take_over(old, new, compatible):
    assert read(new).is_backward_compatible_with(read(old)) is compatible


@pytest.mark.parametrize(
    "old, new, reason",
    [
        ("f(int a, int b=1) -> int", "f(int a) -> int", ""),
        ("f(int a) -> int", "f(int a, int b=1) -> int", ""),
        ("f(int a) -> int", "f(int a, int b) -> int", "did not provide a default value"),
        ("f(int a) -> int", "f(int a, int[2] b=1) -> int", "container type as its default value"),
        ("f(int a=1) -> int", "f(int a=2) -> int", "'a' is not forward compatible"),
        ("f(int a) -> int", "f(int? a) -> int", "'a' is not forward compatible"),
        ("f(int a) -> int", "f(int a, *, Tensor(a!) out) -> int", "same number of out arguments"),
    ],
)
def test_schemas_that_can_be_sent_back(old, new, reason):
    fits, told = read(new).check_forward_compatible_with(read(old))
    assert fits is not bool(reason)
    assert reason in told


def test_arguments_of_schemas():
    schema = read("f(Tensor self, SymInt n, *, Tensor(a!)[] out) -> ()")
    assert [a.is_out for a in schema.arguments] == [False, False, True]
    assert schema.arguments[2].alias_info.is_write
    assert (schema.arguments[1].type.str(), schema.arguments[1].real_type.str()) == ("int", "SymInt")
    with pytest.raises(RuntimeError, match="vararg"):
        read("f(int a=1, ...) -> int")


def test_module_types_are_equal_where_modules_look_the_same():
    one, two, other = (jitlite.script(torch.nn.Linear(3, 2))._c._type() for _ in range(3))
    assert one == two == other
    assert one != jitlite.script(torch.nn.ReLU())._c._type()
    assert jitlite.trace(torch.nn.ReLU(), torch.ones(1))._c._type() != jitlite.script(torch.nn.ReLU())._c._type()


def test_modules_share_no_types_if_asked():
    names = testing.TORCH_NAMES
    infer = names["torch.jit._recursive.infer_methods_to_compile"]
    create = names["torch.jit._recursive.create_script_module"]
    layers = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.ReLU())
    for share in (True, False):
        made = create(layers, infer, share_types=share)
        assert (made[0]._c._type() == made[1]._c._type()) is share and made(torch.tensor(-1.0)) == 0
    with pytest.raises(jitlite.NotSupportedError, match="exported methods only"):
        create(layers, lambda module: [])


def test_compiling_is_switched_off():
    def f(x):
        return x + 1

    layer = torch.nn.Linear(2, 2)
    testing.TORCH_NAMES["torch.jit._state.disable"]()
    try:
        assert jitlite.script(f) is f and jitlite.script(layer) is layer and jitlite.script_method(f) is f
        assert jitlite.trace(f, torch.ones(1)) is f and jitlite.trace(layer, torch.ones(2)) is layer
        assert jitlite.trace_module(layer, {"forward": torch.ones(2)}) is layer
    finally:
        testing.TORCH_NAMES["torch.jit._state.enable"]()
    assert jitlite.script(f) is not f


def test_only_what_is_compiled_by_torch_s_names_shows_views():
    names = {n: testing.TORCH_NAMES[f"torch.jit.{n}"] for n in ("script", "ScriptModule", "CompilationUnit", "trace")}

    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    class Old(names["ScriptModule"]):
        @jitlite.script_method
        def forward(self, x):
            return x + 1

    unit = names["CompilationUnit"]("def g(x):\n    return x + 1\n")
    seen = [
        names["script"](f), names["script"](torch.nn.ReLU()), names["script"](torch.nn.ReLU()).forward, unit.g, Old(),
        names["trace"](f, torch.ones(2)),
    ]  # fmt: skip
    assert all(next(m.graph.nodes()).kind() for m in seen)
    assert isinstance(Old(), names["ScriptModule"]) and isinstance(seen[1], names["ScriptModule"])
    others = [jitlite.script(f), jitlite.script(torch.nn.ReLU()), jitlite.trace(f, torch.ones(2))]
    assert all(isinstance(m.graph, jitlite.ir.graph.Graph) for m in others)
