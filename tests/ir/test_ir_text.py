"""The text form: what is printed, that it reads back, and what the parser says about text that is no graph."""

import collections
import enum
import math
import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jitlite.base.source import CompileError, Source, SourceRange
from jitlite.ir import types as T
from jitlite.ir.compare import constant_key
from jitlite.ir.constants import enum_type, qualified_name
from jitlite.ir.graph import Graph
from jitlite.ir.parser import parse
from jitlite.ir.type_parser import parse_type
from jitlite.ir.value_text import float_text, quote, unquote, value_text


class Color(enum.Enum):
    RED = 1
    BLUE = 2


Pair = collections.namedtuple("Pair", "a b")


def round_trip(text, **options):
    """Reads, prints, compares; gives the graph."""
    graph = parse(text, **options)
    assert str(graph) == text
    return graph


# -- whole graphs
GRAPHS = {
    "empty": "graph():\n  return ()\n",
    "inputs on lines": "graph(%x.1 : Tensor,\n      %n : int):\n  return (%x.1, %n)\n",
    "numbers are kept": (
        "graph(%a : int):\n"
        "  %14 : int = prim::Constant[value=1]()\n"
        "  %6 : int = aten::add(%a, %14)\n"
        "  return (%6)\n"
    ),
    "no outputs": "graph(%x : Tensor):\n   = prim::Print(%x)\n  return ()\n",
    "several outputs": (
        "graph(%t : (int, str)):\n  %i : int, %s : str = prim::TupleUnpack(%t)\n  return (%i, %s)\n"
    ),
    "control flow": (
        "graph(%x.1 : Tensor,\n"
        "      %n.1 : int):\n"
        "  %14 : int = prim::Constant[value=1]()\n"
        "  %6 : bool = prim::Constant[value=1]()\n"
        "  %y : Tensor = prim::Loop(%n.1, %6, %x.1)\n"
        "    block0(%i.1 : int, %y.19 : Tensor):\n"
        "      %10 : bool = aten::gt(%i.1, %14)\n"
        "      %y.17 : Tensor = prim::If(%10)\n"
        "        block0():\n"
        "          %y.3 : Tensor = aten::add(%y.19, %x.1, %14)\n"
        "          -> (%y.3)\n"
        "        block1():\n"
        "          -> (%y.19)\n"
        "      -> (%6, %y.17)\n"
        "  return (%y)\n"
    ),
    "groups": (
        "graph(%x : Tensor):\n"
        "  %1 : Future[Tensor] = prim::fork_0(%x)\n"
        "  %2 : Tensor = prim::FusionGroup_1[kind=3, name=\"g\"](%x)\n"
        "  return (%1, %2)\n"
        "with prim::fork_0 = graph(%x : Tensor):\n"
        "  %1 : Future[Tensor] = prim::fork_0(%x)\n"
        "  %2 : Tensor = aten::wait(%1)\n"
        "  return (%2)\n"
        "with prim::fork_0 = graph(%x : Tensor):\n"
        "  return (%x)\n"
        "with prim::FusionGroup_1 = graph(%x : Tensor):\n"
        "  return (%x)\n"
    ),
    "a kind that only looks like a group": "graph(%x : Tensor):\n  %1 : Tensor = my::op_0(%x)\n  return (%1)\n",
    "attributes": (
        "graph(%y : Tensor):\n"
        "  %1 : Tensor = my::op[a=1, b=\"s\", c=[1, 2], d=2.5, e=[], f=[\"x\", \"y\"], g=-1, h=int[], i=[int, str[]], "
        "j=None, k=Tensor](%y)\n"
        "  return (%1)\n"
    ),
    "Python functions": (
        "graph(%y : Tensor):\n"
        "  %1 : Tensor = ^ign[]()(%y)\n"
        "  %2 : Tensor = ^F[inplace=0, module=\"m\"](1, 2.5, True)(%y)\n"
        "  return (%1, %2)\n"
    ),
    "functions": (
        "graph(%x : Tensor):\n"
        "  %f : Function = prim::Constant[name=\"helper\"]()\n"
        "  %2 : Tensor = prim::CallFunction(%f, %x)\n"
        "  return (%2)\n"
    ),
    "scopes": "graph(%x : Tensor):\n  %1 : Tensor = my::f(%x), scope: __module.l/__module.l.0\n  return (%1)\n",
    "names with dots and letters": (
        "graph(%self.l.weight : Tensor,\n      %größe.1 : int,\n      %_0 : int):\n  return ()\n"
    ),
    "types": (
        "graph(%a : Dict(str, int[]),\n"
        "      %b : Tensor[]?,\n"
        "      %c : Union(int, str),\n"
        "      %d : Future[Tensor],\n"
        "      %e : Await(int),\n"
        "      %f : RRef[int],\n"
        "      %g : Long(2, *, strides=[3, 1], requires_grad=0, device=cuda:1),\n"
        "      %h : Float(requires_grad=0, device=cpu),\n"
        "      %i : NamedTuple(a : int, b : str),\n"
        "      %j : __torch__.mod.___torch_mangle_3.Name,\n"
        "      %k : InterfaceType<One>,\n"
        "      %l : Enum<__torch__.Color>,\n"
        "      %m : (),\n"
        "      %n : (int),\n"
        "      %o : Scalar,\n"
        "      %p : Function,\n"
        "      %q : Device,\n"
        "      %r : list,\n"
        "      %s : Any):\n"
        "  return ()\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", GRAPHS.values(), ids=GRAPHS)
def test_printed_text_reads_back(text):
    graph = round_trip(text)
    assert str(graph.copy().copy()) == str(graph.copy())


def test_a_group_node_gets_its_graph():
    graph = round_trip(GRAPHS["groups"])
    fork, fusion = graph.nodes
    assert fork.kind == "prim::fork" and fusion.kind == "prim::FusionGroup"
    (inner, wait) = fork.attributes["Subgraph"].nodes
    assert inner.attributes["Subgraph"].inputs[0].name == "x" and wait.kind == "aten::wait"
    assert fusion.attributes["kind"] == 3


def test_new_values_do_not_collide_with_the_numbers_read():
    graph = round_trip(GRAPHS["control flow"])
    assert graph.insert_constant(3).id > 14
    assert len({v.id for n in graph.all_nodes() for v in n.outputs}) == sum(len(n.outputs) for n in graph.all_nodes())


def test_nodes_know_the_place_in_the_text():
    graph = parse(GRAPHS["numbers are kept"], filename="g.ir")
    first, second = graph.nodes
    assert second.range.text.startswith("aten::add") and second.range.location() == "g.ir:3:13"


def test_what_is_read_besides_what_is_printed():
    graph = parse("""
        # a comment
        graph(%x, # no type: a Tensor
              %t : (int, str)):
          %s = aten::size(%x)  # int[], says the schema
          %w = my::op(%x)
          %one : int = prim::Constant[value=1]()
          prim::Print(%one)
          %y = prim::If(%c) truth():
              -> (%x)
            other():
              -> (%w)
          return (%s)
    """.replace("%c", "%b").replace("%w = my::op(%x)", "%w = my::op(%x)\n  %b : bool = my::bool()"))  # fmt: skip
    assert str(graph) == (
        "graph(%x : Tensor,\n"
        "      %t : (int, str)):\n"
        "  %s : int[] = aten::size(%x)\n"
        "  %w : Tensor = my::op(%x)\n"
        "  %b : bool = my::bool()\n"
        "  %one : int = prim::Constant[value=1]()\n"
        "   = prim::Print(%one)\n"
        "  %y : Tensor = prim::If(%b)\n"
        "    block0():\n"
        "      -> (%x)\n"
        "    block1():\n"
        "      -> (%w)\n"
        "  return (%s)\n"
    )


def test_functions_are_looked_up_by_name():
    marker = object()
    graph = parse(GRAPHS["functions"], functions={"helper": marker})
    assert next(graph.nodes).attributes["value"] is marker
    assert str(graph) == GRAPHS["functions"]
    with pytest.raises(CompileError, match="unknown function helper.*") as caught:
        parse(GRAPHS["functions"], functions={"helpers": marker})
    assert "did you mean 'helpers'" in str(caught.value)


def test_ranges_are_comments():
    graph = Graph()
    source = Source("def f():\n    return 1\n", "some dir/model.py", first_line=10)
    graph.insert("my::op", range=SourceRange(source, 20, 21))
    graph.insert("my::op", range=SourceRange(Source("text"), 0, 1))
    assert str(graph) == "graph():\n   = my::op() # some dir/model.py:11:11\n   = my::op()\n  return ()\n"
    assert str(parse(str(graph))) == graph.to_text(ranges=False)


# -- constants
NAN = float("nan")
CONSTANTS = [
    (1, "int", "1"), (-5, "int", "-5"), (2**70, "int", str(2**70)),
    (True, "bool", "1"), (False, "bool", "0"), ([True, False], "bool[]", "[True, False]"),
    (1.0, "float", "1."), (-0.0, "float", "-0."), (0.1, "float", "0.10000000000000001"), (1e-8, "float", "1e-08"),
    (1e9, "float", "1000000000."), (1e10, "float", "10000000000"), (1e16, "float", "10000000000000000"),
    (1e17, "float", "1e+17"), (math.inf, "float", "inf"), (-math.inf, "float", "-inf"), (NAN, "float", "nan"),
    (5e-324, "float", "4.9406564584124654e-324"), ([1e16, 2.0], "float[]", "[10000000000000000, 2.]"),
    (3j, "complex", "0.+3.j"), (1 - 2j, "complex", "1.-2.j"), (complex(-0.0, NAN), "complex", "-0.+nanj"),
    (complex(1e-8, -1e20), "complex", "1e-08-1e+20j"), ([1j], "complex[]", "[0.+1.j]"),
    ("", "str", '""'), ("s\n\"q'\\", "str", r'"s\n\"q' + r"\'\\" + '"'), ("\0\x7f\t\a", "str", r'"\000\177\t\a"'),
    ("é 日本 😀", "str", '"é 日本 😀"'), ("\u2028\u00a0", "str", r'"\u2028\u00a0"'), ("# no comment", "str",
     '"# no comment"'),
    (torch.device("cpu"), "Device", '"cpu"'), ([torch.device("cuda:1")], "Device[]", '[torch.device("cuda:1")]'),
    ((), "()", "()"), ((1,), "(int)", "(1,)"), ((1, "a", None), "(int, str, NoneType)", '(1, "a", None)'),
    ([], "int[]", "annotate(List[int], [])"), ([[]], "int[][]", "[annotate(List[int], [])]"),
    ([1, None], "int?[]", "annotate(List[Optional[int]], [1, None])"),
    ({}, "Dict(str, int)", "annotate(Dict[str, int],{})"), ({"a": [1]}, "Dict(str, int[])", '{"a": [1]}'),
    ({1: 2.0}, "Dict(int, float)", "{1: 2.}"), ({True: None}, "Dict(bool, int?)",
     "annotate(Dict[bool, Optional[int]],{True: None})"),
    (1, "int?", "1"), ([(1, 2.0)], "(int, float)[]", "[(1, 2.)]"),
    (torch.tensor(1), "Long(requires_grad=0, device=cpu)", "{1}"),
    (torch.tensor(1), "Tensor", " 1 [ CPULongType{} ]"),
    (torch.tensor([1.5]), "Float(1, strides=[1], requires_grad=0, device=cpu)", "{1.5}"),
    (torch.tensor(1 / 3), "Tensor", " 0.333333343 [ CPUFloatType{} ]"),
    (torch.tensor([1, -2]), "Tensor", " 1 -2 [ CPULongType{2} ]"),
    (torch.tensor([[1.0, 2], [3, 4]]), "Tensor", " 1  2  3  4 [ CPUFloatType{2,2} ]"),
    (torch.tensor([[1.0, 2], [3, 4]]).t(), "Float(2, 2, strides=[1, 2], requires_grad=0, device=cpu)",
     " 1  3  2  4 [ CPUFloatType{2,2} ]"),
    (torch.tensor([True, False]), "Tensor", " 1  0 [ CPUBoolType{2} ]"),
    (torch.tensor(1j), "Tensor", " 0.+1.j [ CPUComplexFloatType{} ]"),
    (torch.tensor([math.inf, 1e-10], dtype=torch.float64), "Tensor", "   inf  1e-10 [ CPUDoubleType{2} ]"),
    (torch.zeros(0, 2), "Tensor", "[ CPUFloatType{0,2} ]"),
    ([torch.ones(2)], "Tensor[]", "[ 1  1 [ CPUFloatType{2} ]]"), ([], "Tensor[]", "annotate(List[Tensor], [])"),
    ((torch.tensor(2), 1), "(Tensor, int)", "( 2 [ CPULongType{} ], 1)"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "type", "text"), CONSTANTS, ids=[f"{t}-{x}" for _, t, x in CONSTANTS])
def test_constants(value, type, text):
    graph = Graph()
    graph.add_output(graph.insert_constant(value, parse_type(type)))
    expected = f"graph():\n  %0 : {type} = prim::Constant[value={text}]()\n  return (%0)\n"
    assert str(graph) == expected
    read = round_trip(expected)
    assert constant_key(next(read.nodes).attributes["value"]) == constant_key(value)


def test_a_none_constant_has_no_attribute():
    round_trip("graph():\n  %0 : int? = prim::Constant()\n  return (%0)\n")


def test_enum_members_need_their_class():
    graph = Graph()
    graph.add_output(graph.insert_constant([Color.RED, Color.BLUE]))
    name = qualified_name(Color)
    assert f"[value=[{name}.RED, {name}.BLUE]]" in str(graph)
    read = round_trip(str(graph), types={name: enum_type(Color)})
    assert next(read.nodes).attributes["value"] == [Color.RED, Color.BLUE]
    with pytest.raises(CompileError, match="the class of enum .*Color is not known"):
        parse(str(graph))


def test_torch_objects_are_written_as_their_code():
    assert [value_text(v) for v in (torch.float32, torch.strided, torch.channels_last, torch.uint64)] == [
        "6", "0", "2", "29"
    ]  # fmt: skip


def test_named_tuples_are_written_as_tuples():
    graph = Graph()
    graph.add_output(graph.insert_constant(Pair(1, "x")))
    text = '%0 : NamedTuple(a : int, b : str) = prim::Constant[value=(1, "x")]()'
    assert text in str(graph)
    round_trip(str(graph))


@pytest.mark.parametrize(
    "tensor",
    [torch.zeros(11), torch.ones(2, requires_grad=True), torch.ones(2, device="meta"), torch.ones(1).expand(3)],
)
def test_tensors_that_are_not_written_out(tensor):
    graph = Graph()
    graph.add_output(graph.insert_constant(tensor, T.TensorType.from_tensor(tensor)))
    assert "[value=<Tensor>]" in str(graph)
    with pytest.raises(CompileError, match="the elements of this tensor are not in the text"):
        parse(str(graph))


def test_placeholders_for_large_tensors():
    text = (
        "graph():\n  %0 : Half(3, 4, strides=[1, 3], requires_grad=0, device=cpu) = prim::Constant[value=<Tensor>]()\n"
        "  return (%0)\n"
    )
    value = next(round_trip(text, placeholder_tensors=True).nodes).attributes["value"]
    assert value.dtype is torch.half and value.stride() == (1, 3) and not value.any()


def test_generators():
    graph = Graph()
    graph.add_output(graph.insert_constant(torch.Generator().manual_seed(7)))
    assert 'prim::Constant[value=torch.Generator(device="cpu", seed=7)]' in str(graph)
    assert next(round_trip(str(graph)).nodes).attributes["value"].initial_seed() == 7


@given(st.text())
def test_any_string_reads_back(text):
    assert unquote(quote(text)) == text
    assert "\n" not in quote(text)


def test_what_is_no_escape_is_kept():
    assert unquote(r'"a\/b\w\101"') == r"a\/b\wA"


@given(st.floats())
def test_any_float_reads_back(value):
    graph = parse(f"graph():\n  %0 : float = prim::Constant[value={float_text(value)}]()\n  return (%0)\n")
    read = next(graph.nodes).attributes["value"]
    assert math.isnan(value) and math.isnan(read) or struct.pack("d", read) == struct.pack("d", value)


_LEAVES = st.one_of(
    st.integers(), st.booleans(), st.floats(allow_nan=False), st.complex_numbers(allow_nan=False), st.text(), st.none(),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.recursive(_LEAVES, lambda inner: st.tuples(inner, inner) | st.tuples(inner), max_leaves=8))
def test_any_nested_constant_reads_back(value):
    graph = Graph()
    graph.add_output(graph.insert_constant((value,)))
    read = next(round_trip(str(graph)).nodes).attributes["value"]
    assert constant_key(read) == constant_key((value,))


# -- errors
ERRORS = {
    "undefined": ("%size : int = my::n()\n  %y : Tensor = aten::neg(%sizes)\n  return (%y)", "undefined value %sizes",
    "%sizes",
                  "did you mean 'size'"),
    "not in scope": (
        "%c : bool = my::c()\n   = prim::If(%c)\n    block0():\n      %z : int = my::z()\n      -> ()\n    block1():\n"
        "      -> ()\n  return (%z)",
        "value %z is not visible here", "%z", "blocks inside it only",
    ),
    "defined twice": ("%x : int = my::op()\n  return ()", "value %x is defined twice", "%x", "one definition"),
    "schema type": ("%y : int = aten::neg(%x)\n  return (%y)", "%y cannot be of type int", "%y",
     "expected: Tensor, by"),
    "outputs": ("%y, %z = aten::neg(%x)\n  return (%y)", "aten::neg has 1 outputs, not 2", "%y",
     "aten::neg(Tensor self)"),
    "type": ("%y : Tensr = my::op(%x)\n  return ()", "unknown type Tensr", "Tensr", "did you mean 'Tensor'"),
    "type arguments": ("%y : Dict(int) = my::op(%x)\n  return ()", "expected 2 types in the brackets", "=", ""),
    "kind": ("%y : int = neg(%x)\n  return ()", "expected the kind of a node", "neg", "found: 'neg'"),
    "no equals sign": ("%y : int aten::neg(%x)\n  return ()", "expected ','", "aten", "found: 'aten'"),
    "bracket": ("%y : Tensor = aten::neg(%x\n  return ()", "expected ','", "return", ""),
    "value": ("%y : int = prim::Constant[value=;]()\n  return ()", "expected a value", ";", ""),
    "value of a type": ("%y : int = prim::Constant[value=abc]()\n  return ()", "expected a value of type int", "abc",
     ""),
    "tensor": ("%y : Tensor = prim::Constant[value={1}]()\n  return ()", "the type says too little", "]", ""),
    "tensor shape": ("%y : Tensor = prim::Constant[value= 1 2 [ CPULongType{3} ]]()\n  return ()",
     "has 3 elements, here are 2", "1", ""),
    "attribute twice": ("%y : int = my::op[a=1, a=2]()\n  return ()", "attribute a is given twice", "a", ""),
    "tensor list": ("%y : Tensor[] = prim::Constant[value=[<Tensors>]]()\n  return ()", "not in the text", "<", ""),
    "return in a block": ("%y : int = my::op(%x)\n    block0():\n    return ()", "expected the results of the block",
     "return", ""),
    "name": ("% : int = my::op(%x)\n    return ()", "expected the name of a value", " ", ""),
    "end of the text": ("%y : int = my::op(%x)", "expected another node", "", "found: the end of the text"),
    "rest": ("return ()\nmore", "expected the end of the graph", "more", ""),
}  # fmt: skip


@pytest.mark.parametrize(("body", "message", "at", "more"), ERRORS.values(), ids=ERRORS)
def test_errors_say_what_and_where(body, message, at, more):
    with pytest.raises(CompileError) as caught:
        parse(f"graph(%x : Tensor):\n  {body}\n", filename="g.ir")
    assert message in str(caught.value) and more in str(caught.value)
    assert str(caught.value).startswith("g.ir:")
    assert caught.value.range.text.startswith(at)


def test_a_missing_subgraph():
    text = (
        "graph():\n  = prim::fork_0()\n  return ()\nwith prim::fork_1 = graph():\n  return ()\n"
        "with prim::fork_0 = graph():\n  return ()\n"
    )
    with pytest.raises(CompileError, match="expected the graph of prim::fork_0"):
        parse(text)


def test_errors_show_the_line():
    with pytest.raises(CompileError) as caught:
        parse("graph(%x : Tensor):\n  %y : Tensor = aten::neg(%z)\n  return (%y)")
    assert str(caught.value) == (
        "<string>:2:26: undefined value %z\n"
        '  at File "<string>", line 2\n'
        "  %y : Tensor = aten::neg(%z)\n"
        "                          ~~ <--- HERE\n"
        "more: jitlite explain J0901"
    )  # fmt: skip


NESTED = """graph(%x : Tensor, %n : int):
  %1 : int = prim::Constant[value=1]()
  %2 : bool = prim::Constant[value=1]()
  %y : Tensor = prim::Loop(%n, %2, %x)
    block0(%i : int, %a : Tensor):
      %b : Tensor = prim::If(%2)
        block0():
          %c : Tensor = aten::add(%a, %i, %1)
          -> (%c)
        block1():
          %d : Tensor = aten::mul(%a, %1)
          -> (%d)
      -> (%2, %b)
  %f : Future(Tensor) = prim::fork_0(%y)
  %z : Tensor = aten::wait(%f)
  return (%z)
with prim::fork_0 = graph(%x : Tensor):
  %y : Tensor = aten::relu(%x)
  %z : Tensor = aten::neg(%y)
  return (%z)
"""


def test_a_text_may_show_the_first_nodes_only():
    graph = parse(NESTED)
    whole, nodes = str(graph), 10
    for most in range(nodes):
        *shown, left, end = graph.to_text(most_nodes=most).splitlines()
        if most >= 8:  # the cut is in the graph of the fork
            shown, left = [*shown, left], end
        assert whole.splitlines()[: len(shown)] == shown
        assert sum(" = " in line and "graph(" not in line for line in shown) == most
        assert left == f"  ... {nodes - most} more nodes"
        with pytest.raises(CompileError):
            parse(graph.to_text(most_nodes=most))
    assert graph.to_text(most_nodes=nodes) == whole
