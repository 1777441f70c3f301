"""The text of torch.jit's graphs is read, verified and printed back as it was; torch reads ours."""

import inspect
import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import jitlite
from jitlite.ir import types as T
from jitlite.ir.compare import canonical_text
from jitlite.ir.graph import Graph
from jitlite.ir.int_codes import INT_CODES
from jitlite.ir.parser import parse
from jitlite.ir.printer import graph_text
from jitlite.ir.verify import verify

_COMMENT = re.compile(r" # .*:\d+:\d+$", re.MULTILINE)


class Pair(NamedTuple):
    a: int
    b: Tensor


def control_flow(x: Tensor, n: int):
    total = 0
    for i in range(n):
        if i == 3:
            continue
        while total < i:
            total += 2
            if total == 7:
                return x
        x = x + total
    return x * 2


def containers(xs: List[Tensor], d: Dict[str, List[int]], t: Tuple[int, str], o: Optional[int]):
    words: List[str] = []
    more: Dict[str, Optional[int]] = {"a": o}
    for k in d:
        words.append(k)
        d[k] = [1, 2]
    a, b = t
    if o is not None:
        a += o
    return words, more, Pair(a, xs[0]), [(a, b)], (1, 2.5, "s", None, True)[1:]


def effects(x: Tensor, a: Any):
    print("one", x, 1e-8, 1e16, -0.0)
    if isinstance(a, (int, str)):
        print(a)
    assert x.dim() > 0, "no dimensions"
    if torch.jit.isinstance(a, List[int]):
        raise ValueError("a list")
    with torch.no_grad():
        x += 1
    future = torch.jit.fork(control_flow, x, 3)
    return torch.jit.wait(future), x.to(torch.float64), torch.zeros([2], device=torch.device("cpu"))


FUNCTIONS = [control_flow, containers, effects]
FUNCTIONS += [
    getattr(F, name)
    for name in ("layer_norm", "gumbel_softmax", "cosine_embedding_loss", "grid_sample", "ctc_loss",
                 "multi_head_attention_forward", "max_pool2d_with_indices", "embedding_bag")
]  # fmt: skip


def graphs_of(function):
    script = torch.jit.script(function)
    return script.graph, script.inlined_graph


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_text_of_scripted_functions(function):
    for graph in graphs_of(function):
        text = _COMMENT.sub("", str(graph))
        ours = parse(str(graph))
        assert str(ours) == text
        verify(ours)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_canonical_text_agrees(function):
    for graph in graphs_of(function):
        theirs = _COMMENT.sub("", str(torch._C._jit_pass_canonicalize(graph)))
        assert canonical_text(parse(str(graph)), keep_names=True) == theirs


def test_most_of_torch_nn_functional():
    """Every function of the module that scripts."""
    count = 0
    for function in vars(F).values():
        if inspect.isfunction(function) and function.__module__ == F.__name__:
            try:
                graph = torch.jit.script(function).graph
            except Exception:
                continue
            assert str(parse(str(graph))) == _COMMENT.sub("", str(graph))
            count += 1
    assert count > 60


CONSTANTS = [
    1, -3, 2**62, True, 1.0, -0.0, 0.1, 1e9, 1e10, 1e16, 1e17, 1e-5, 5e-324, float("inf"), -float("inf"),
    float("nan"), 1 / 3,
    3j, 1 - 2j, 1e-8 + 1e20j, "", "a\"b'\\\n\t\a\0\x7f", (1,), (), ((1, "a"), 2.5, None), [1, 2], [1.5, 2.0, 1e16],
    [True, False], ["a", "b"], [[1], [2]], {"a": [1]}, {1: 2.0}, [(1, 2.0)], torch.device("cpu"), [torch.device("cpu")],
    torch.float32, torch.strided, torch.tensor(1), torch.tensor([1.5]), torch.tensor(True), torch.tensor([1, 2]),
    torch.tensor([[1, -2], [3, 4]]), torch.zeros(0), torch.zeros(20), torch.ones(2, dtype=torch.uint8),
]  # fmt: skip


@pytest.mark.parametrize("value", CONSTANTS, ids=repr)
def test_text_of_constants(value):
    theirs, ours = torch._C.Graph(), Graph()
    theirs.registerOutput(theirs.insertConstant(value))
    type = T.TensorType.from_tensor(value) if isinstance(value, torch.Tensor) else None
    if type is not None:
        type = T.TensorType.of(type.dtype, type.sizes, type.strides, type.device, requires_grad=False)
    ours.add_output(ours.insert_constant(value, type))
    assert str(ours) == str(theirs)


def test_int_codes_are_torch_s():
    for value, code in INT_CODES.items():
        if isinstance(value, torch.memory_format):
            continue  # torch.jit makes no constants of these
        graph = torch._C.Graph()
        graph.registerOutput(graph.insertConstant(value))
        assert f"[value={code}]" in str(graph), value


TEXTS = [
    "graph(%x : Tensor,\n      %c : bool):\n"
    "  %2 : Tensor = prim::If(%c)\n"
    "    block0():\n"
    "      %3 : int = prim::Constant[value=1]()\n"
    "      %4 : Tensor = aten::add(%x, %x, %3)\n"
    "      -> (%4)\n"
    "    block1():\n"
    "      -> (%x)\n"
    '  %5 : Tensor = my::op[a=1, b="s\\n\\"", c=[1, 2], d=2.5, e=["x"], f=[int, str[]]](%2)\n'
    "  return (%5)\n",
    "graph():\n"
    "  %0 : float = prim::Constant[value=2.5]()\n"
    "  %1 : bool = prim::Constant[value=1]()\n"
    '  %2 : Device = prim::Constant[value="cpu"]()\n'
    "  %3 : int[] = prim::Constant[value=annotate(List[int], [])]()\n"
    "  %4 : Dict(str, int) = prim::Constant[value=annotate(Dict[str, int],{})]()\n"
    "  %5 : NoneType = prim::Constant()\n"
    "  return (%0, %1, %2, %3, %4, %5)\n",
    "graph(%n : int,\n      %t : bool,\n      %x : Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)):\n"
    "  %3 : Tensor = prim::Loop(%n, %t, %x)\n"
    "    block0(%i : int, %y : Tensor):\n"
    "      -> (%t, %y)\n"
    "  %6 : (int, Tensor?, Dict(str, float)) = my::op(%3)\n"
    "  return (%6)\n",
]


@pytest.mark.parametrize("text", TEXTS)
def test_torch_reads_what_we_print(text):
    """Only texts that torch.jit's own parser can read: it has no `= prim::Print(...)`, no tuples, no `Future[T]`."""
    printed = graph_text(parse(text))
    assert printed == text
    assert canonical_text(parse(str(torch._C.parse_ir(printed)))) == canonical_text(parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "graph(%x : Tensor):\n  %y : Tensor = aten::neg(%z)\n  return (%y)",
        "graph(%x : Tensor):\n  %y : int = aten::neg(%x)\n  return (%y)",
        "graph(%x : Tensor):\n  %y : Tensor = neg(%x)\n  return (%y)",
        "graph(%x : Tensor):\n  %y : Tensor = aten::neg(%x)\n",
        "graph(%x : Tensr):\n  return (%x)",
    ],
)
def test_both_refuse(text):
    with pytest.raises(RuntimeError):
        torch._C.parse_ir(text)
    with pytest.raises(RuntimeError):
        parse(text)


def test_number_suffixes_of_names():
    def name_all(graph, add):
        for name in ["x", "x", "x", "y.7", "y.7", "y", "x", "y.7", "x.1"]:
            add(graph, name)
        return [v for v in re.findall(r"%([\w.]+) :", str(graph))]

    theirs = name_all(torch._C.Graph(), lambda g, name: g.addInput(name))
    ours = name_all(Graph(), lambda g, name: g.add_input(name=name))
    assert ours == theirs


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor([0.0015, -0.00003]), torch.tensor([[0.0015, -0.03], [1e-3, 2e-4]]), torch.tensor([1e10, 1.0]),
        torch.arange(8.0).reshape(2, 2, 2) * 0.001, torch.ones(2, 1, 2, 1), torch.arange(4).reshape(2, 1, 2),
        torch.tensor([[20000.0, 0.001]]), torch.tensor([-0.001, 0.0]), torch.tensor([float("nan"), 1.0, float("inf")]),
        torch.tensor([0.25, -1], dtype=torch.bfloat16), torch.tensor([True, False]), torch.zeros(0, 3),
        torch.tensor(1.5e-8), torch.tensor([1, 2, -3]), torch.tensor([12345678.0, 1.0]),
    ],
)  # fmt: skip
def test_constant_tensors_as_torch_prints_them(tensor):
    graph = torch._C.Graph()
    node = graph.create("prim::Constant")
    node.t_("value", tensor)
    node.output().inferTypeFrom(tensor)
    graph.appendNode(node)
    graph.registerOutput(node.output())
    (read,) = jitlite.ir.parse(str(graph)).nodes
    torch.testing.assert_close(read.attributes["value"], tensor, rtol=1e-4, atol=1e-4 * 1e-3, equal_nan=True)


def test_complex_tensors_without_imaginary_parts_are_refused():
    text = "graph():\n  %0 : Tensor = prim::Constant[value= 1  0 [ CPUComplexFloatType{2} ]]()\n  return (%0)"
    with pytest.raises(jitlite.CompileError, match="imaginary parts of this tensor are not in the text"):
        jitlite.ir.parse(text)
