"""The verifier accepts what is right, and names what is wrong when an invariant is broken by hand."""

import re

import pytest
import torch

from jitlite.base.source import CompileError
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Use
from jitlite.ir.parser import parse
from jitlite.ir.verify import VerifyError, verify

LOOP = """graph(%x : Tensor, %n : int):
  %t : bool = prim::Constant[value=1]()
  %one : int = prim::Constant[value=1]()
  %y : Tensor = prim::Loop(%n, %t, %x)
    block0(%i : int, %c : Tensor):
      %b : bool = aten::gt(%i, %one)
      %d : Tensor = prim::If(%b)
        block0():
          %e : Tensor = aten::add(%c, %x, %one)
          -> (%e)
        block1():
          -> (%c)
      -> (%t, %d)
  %l : Tensor[] = prim::ListConstruct(%y, %x)
  return (%l)
"""


def graph():
    return parse(LOOP)


def named(graph, name):
    return graph._names[name]


def fault(graph):
    with pytest.raises(VerifyError) as caught:
        verify(graph)
    return caught.value


def test_a_good_graph():
    verify(graph())
    verify(graph().copy())
    verify(Graph())


# -- structure: each change breaks one invariant behind the back of the methods that keep it
def break_prev(g):
    named(g, "b").node._next._prev = named(g, "b").node._prev


def break_next(g):
    named(g, "one").node._next = None


def make_loop(g):
    named(g, "l").node._next = named(g, "one").node


def break_position(g):
    named(g, "one").node._position = named(g, "l").node._position + 1


def break_block(g):
    named(g, "e").node.block = g.block


def break_owner(g):
    named(g, "d").node.blocks[1].owner = named(g, "y").node


def break_graph(g):
    named(g, "l").node.graph = Graph()


def add_behind_the_end(g):
    g.block.return_node._next = named(g, "l").node


def place_a_param_node(g):
    named(g, "one").node.kind = "prim::Param"


def drop_use(g):
    del named(g, "x")._uses[Use(named(g, "l").node, 1)]


def invent_use(g):
    named(g, "n")._uses[Use(named(g, "l").node, 1)] = None


def keep_an_unplaced_user(g):
    g.create("my::op", [named(g, "x")])


def break_definition(g):
    named(g, "b").node = named(g, "d").node


def break_offset(g):
    named(g, "c").offset = 5


def forget_output(g):
    node = named(g, "one").node
    node.outputs.clear()
    node.add_output(T.INT)


def use_too_early(g):
    named(g, "t").node.add_input(named(g, "l"))


def use_out_of_scope(g):
    named(g, "l").node.replace_input(1, named(g, "c"))


def use_from_sibling(g):
    named(g, "d").node.blocks[1].replace_output(0, named(g, "e"))


def use_own_output(g):
    named(g, "d").node.blocks[0].replace_output(0, named(g, "d"))


def use_of_another_graph(g):
    g.block.replace_output(0, graph().inputs[0])


def use_of_an_unplaced_node(g):
    g.block.replace_output(0, g.create("my::op", (), (T.TENSOR,)).output)


def forget_name(g):
    del g._names["e"]


def exchange_names(g):
    g._names["e"] = named(g, "d")


def leak_name(g):
    g.create("my::op", (), (T.TENSOR,)).output.set_name("leaked")


def repeat_number(g):
    named(g, "l").id = named(g, "x").id


def lose_insert_point(g):
    g.insert_point = g.create("my::op")


def no_type(g):
    named(g, "l").type = "Tensor[]"


STRUCTURE = {
    break_prev: "`prev` is not the node before it",
    break_next: "ends before the block's return node",
    make_loop: "in two places",
    break_position: "position is not above",
    break_block: "is not the block it is in",
    break_owner: "another owner",
    break_graph: "belongs to another graph",
    add_behind_the_end: "behind the block's return node",
    place_a_param_node: "in the wrong place",
    drop_use: "does not list this use",
    invent_use: "which is another value",
    keep_an_unplaced_user: "which is not in the graph",
    break_definition: "has another definition",
    break_offset: "has another definition",
    forget_output: "is no output of any node",
    use_too_early: "is defined later",
    use_out_of_scope: "does not enclose this node",
    use_from_sibling: "does not enclose this node",
    use_own_output: "is defined later, or in a block",
    use_of_another_graph: "its definition is not in the graph",
    use_of_an_unplaced_node: "its definition is not in the graph",
    forget_name: "not in the graph's table of names",
    exchange_names: "not in the graph's table of names",
    leak_name: "which is not in the graph",
    repeat_number: "have the number",
    lose_insert_point: "insertion point",
    no_type: "is no type",
}


@pytest.mark.parametrize(("change", "reason"), STRUCTURE.items(), ids=[f.__name__ for f in STRUCTURE])
def test_broken_structure(change, reason):
    g = graph()
    verify(g)
    change(g)
    assert reason in fault(g).reason


# -- rules of kinds: the last line before `return` is wrong
HEAD = """graph(%x : Tensor, %n : int, %c : bool, %s : str, %t : (int, str), %l : int[], %any : Any, %f : Function,
      %o : __torch__.C):
  %none : NoneType = prim::Constant()
"""
RULES = {
    "If: condition": ("= prim::If(%n)\n block0():\n -> ()\n block1():\n -> ()", "condition of prim::If is a bool"),
    "If: one block": ("= prim::If(%c)\n block0():\n -> ()", "has 2 blocks, not 1"),
    "If: inputs": ("= prim::If(%c)\n block0(%p : int):\n -> ()\n block1():\n -> ()", "have no inputs"),
    "If: outputs": ("%r : int = prim::If(%c)\n block0():\n -> (%n)\n block1():\n -> ()",
     "returns 0 values for 1 outputs"),
    "If: types": ("%r : int = prim::If(%c)\n block0():\n -> (%n)\n block1():\n -> (%s)", "%s is of type str"),
    "Loop: inputs": ("= prim::Loop(%c, %c)\n block0(%i : int):\n -> (%c)", "first inputs of prim::Loop"),
    "Loop: blocks": ("= prim::Loop(%n, %c)", "has 1 blocks, not 0"),
    "Loop: carried": ("= prim::Loop(%n, %c, %x)\n block0(%i : int):\n -> (%c)", "carries 1 values in"),
    "Loop: body": ("= prim::Loop(%n, %c)\n block0(%i : Tensor):\n -> (%c)", "body of prim::Loop begins"),
    "Loop: condition": ("= prim::Loop(%n, %c)\n block0(%i : int):\n -> (%n)", "returns the condition (bool) first"),
    "Loop: start": ("%r : str = prim::Loop(%n, %c, %n)\n block0(%i : int, %a : str):\n -> (%c, %a)",
     "initial value %n"),
    "Loop: next": ("%r : str = prim::Loop(%n, %c, %s)\n block0(%i : int, %a : str):\n -> (%c, %i)", "carried value %i"),
    "Loop: result": ("%r : int = prim::Loop(%n, %c, %s)\n block0(%i : int, %a : str):\n -> (%c, %a)", "becomes %r"),
    "tuple: type": ("%r : int = prim::TupleConstruct(%n)", "makes one tuple"),
    "tuple: count": ("%r : (int, int) = prim::TupleConstruct(%n)", "2 elements is made of 1"),
    "tuple: element": ("%r : (str) = prim::TupleConstruct(%n)", "element %n is of type int"),
    "unpack: type": ("%r : int = prim::TupleUnpack(%l)", "takes a tuple, not int[]"),
    "unpack: count": ("%r : int = prim::TupleUnpack(%t)", "unpacked into 1"),
    "unpack: element": ("%p : str, %q : str = prim::TupleUnpack(%t)", "output %p is of type str"),
    "index: inputs": ("%r : int = prim::TupleIndex(%l, %n)", "takes a tuple and an int"),
    "index: element": ("%r : Tensor = prim::TupleIndex(%t, %n)", "no element of (int, str) is of type Tensor"),
    "slice: bounds": ("%r : (int) = prim::TupleSlice[beg=0](%t)", "attributes beg and end"),
    "slice: count": ("%r : (int) = prim::TupleSlice[beg=0, end=2](%t)", "has 1 elements for the bounds"),
    "slice: types": ("%r : int = prim::TupleSlice[beg=0, end=1](%t)", "takes a tuple and makes one"),
    "list: type": ("%r : int = prim::ListConstruct(%n)", "makes one list"),
    "list: element": ("%r : int[] = prim::ListConstruct(%n, %s)", "element %s is of type str"),
    "list: None": ("%r : Tensor[] = prim::ListConstruct(%none)", "element %none"),
    "list unpack": ("%r : str = prim::ListUnpack(%l)", "output %r is of type str"),
    "list unpack: type": ("%r : str = prim::ListUnpack(%t)", "takes a list"),
    "dict: type": ("%r : int = prim::DictConstruct()", "makes one dict"),
    "dict: count": ("%r : Dict(str, int) = prim::DictConstruct(%s)", "keys and values in turn"),
    "dict: key": ("%r : Dict(str, int) = prim::DictConstruct(%n, %n)", "element %n"),
    "dict: value": ("%r : Dict(str, int) = prim::DictConstruct(%s, %s)", "element %s"),
    "GetAttr": ("%r : int = prim::GetAttr(%x)", "has the attribute name"),
    "SetAttr": ("= prim::SetAttr[name=\"a\"](%o)", "has 2 inputs, not 1"),
    "CallFunction": ("%r : int = prim::CallFunction(%x)", "takes the function first"),
    "CallMethod": ("%r : int = prim::CallMethod[name=\"m\"]()", "takes the object first"),
    "isinstance: output": ("%r : int = prim::isinstance[types=[int]](%any)", "gives a bool"),
    "unchecked_cast": ("%r : int = prim::unchecked_cast(%any, %any)", "has 1 inputs, not 2"),
    "SetAttr: outputs": ("%r : int = prim::SetAttr[name=\"a\"](%o, %n)", "has 0 outputs, not 1"),
    "Raise": ("= prim::RaiseException(%s, %n)", "takes a message"),
    "Uninitialized": ("%r : int = prim::Uninitialized(%n)", "has 0 inputs, not 1"),
    "Constant: type": ("%r : str = prim::Constant[value=1]()", "the constant is of type int, but its output of str"),
    "Constant: None": ("%r : int = prim::Constant()", "is of type NoneType"),
    "Constant: elements": ("%r : int[] = prim::Constant[value=[1, \"a\"]]()", "is no constant"),
    "Constant: bool element": ("%r : int[] = prim::Constant[value=[True]]()", "is of type bool[]"),
    "Constant: tuple": ("%r : (int, str) = prim::Constant[value=(1, 2)]()", "is of type (int, int)"),
    "Constant: function": ("%r : Function = prim::Constant()", "has the attribute name"),
    "fork: graph": ("%r : Future[int] = prim::fork(%n)", "has a graph"),
    "schema: inputs": ("%r : Tensor = aten::relu(%n)", "no overload of aten::relu takes (int)"),
    "schema: count": ("%r : Tensor = aten::relu(%x, %n)", "no overload of aten::relu"),
    "schema: None": ("%r : Tensor = aten::relu(%none)", "no overload of aten::relu takes (NoneType)"),
    "schema: variable": ("%r : str = aten::__getitem__(%l, %n)", "gives int"),
    "blocks": ("%r : Tensor = aten::relu(%x)\n block0():\n -> ()", "aten::relu has no blocks"),
}  # fmt: skip


CONSTANTS = {name: RULES.pop(name) for name in list(RULES) if name.startswith("Constant: ")}


@pytest.mark.parametrize(("line", "reason"), CONSTANTS.values(), ids=CONSTANTS)
def test_broken_constants(line, reason):
    """Text of one is not read; a pass can make one all the same."""
    with pytest.raises(CompileError, match=re.escape(reason)):
        parse(f"{HEAD}{line}\n return ()\n")
    head = f"{HEAD}%k : int = prim::Constant[value=1]()\n return ()\n"
    graph = parse(head)
    named(graph, "k").node.attributes["value"] = "text"
    assert "the constant is of type str, but its output of int" in fault(graph).reason


@pytest.mark.parametrize(("line", "reason"), RULES.values(), ids=RULES)
def test_broken_rules(line, reason):
    error = fault(parse(f"{HEAD}{line}\n return ()\n"))
    assert reason in error.reason
    assert error.node is not None


GOOD = [
    "%r : int? = prim::If(%c)\n block0():\n -> (%n)\n block1():\n -> (%none)",
    "%r : Any[] = prim::ListConstruct(%n, %s)",
    "%r : Tensor?[] = prim::ListConstruct(%none, %x)",
    "%r : float = prim::Constant[value=1]()",
    "%r : Union(int, str) = prim::Constant[value=\"a\"]()",
    "%r : Dict(str, int[]) = prim::Constant[value={\"a\": []}]()",
    "%r : (Tensor, int?) = prim::TupleConstruct(%x, %none)",
    "%r : NamedTuple(a : int) = prim::TupleConstruct(%n)",
    "%r : Float(2, 3) = aten::relu(%x)",
    "%r = unknown::op(%n, %s)",
    "%r : int = aten::__getitem__(%l, %n)",
    "%r : Device = prim::Constant[value=\"cpu\"]()",
]  # fmt: skip


@pytest.mark.parametrize("line", GOOD)
def test_good_nodes(line):
    verify(parse(f"{HEAD}{line}\n return ()\n"))


def test_types_that_agree_up_to_what_is_said_of_tensors():
    verify(parse("graph(%x : Float(2), %c : bool):\n %y : Long(3) = prim::If(%c)\n block0():\n -> (%x)\n block1():\n"
                 " -> (%x)\n return (%y)"))  # fmt: skip


def test_an_output_of_a_wrong_type_set_later():
    g = parse("graph(%x : Tensor):\n %y : Tensor = aten::relu(%x)\n return (%y)")
    named(g, "y").type = T.INT
    assert "is of type int, but aten::relu(Tensor self) -> Tensor gives Tensor" in fault(g).reason


def test_graphs_in_attributes_are_checked():
    text = (
        "graph(%x : Tensor):\n %1 : Future[Tensor] = prim::fork_0(%x)\n return (%1)\n"
        "with prim::fork_0 = graph({}):\n {}"
    )
    verify(parse(text.format("%y : Tensor", "return (%y)")))
    assert "takes 0 values, but is given 1" in fault(parse(text.format("", "return ()"))).reason
    assert (
        "argument %x is of type Tensor"
        in fault(parse(text.format("%y : int", "%1 : Tensor = my::op()\n return (%1)"))).reason
    )
    assert "gives int" in fault(parse(text.format("%y : Tensor", "%1 : int = my::op()\n return (%1)"))).reason
    inside = "%1 : Tensor = aten::relu(%y, %y, %y)\n return (%1)"
    assert "no overload of aten::relu" in fault(parse(text.format("%y : Tensor", inside))).reason


def test_the_error_shows_the_nodes_around():
    lines = "".join(f"  %{i} : Tensor = aten::relu(%x)\n" for i in range(20))
    g = parse(f"graph(%x : Tensor):\n{lines}  return ()\n")
    node = list(g.nodes)[10]
    node.add_input(g.inputs[0])
    node.add_input(g.inputs[0])
    shown = str(fault(g)).splitlines()
    assert "--> " + "  %10 : Tensor = aten::relu(%x, %x, %x)" in shown
    assert [line for line in shown if "aten::relu(%x)" in line][0].strip().startswith("%5")
    assert len(shown) < 20 and "report" in shown[-1]


def test_it_is_our_fault():
    assert issubclass(VerifyError, AssertionError)


def test_constants_of_all_kinds():
    g = Graph()
    values = [1, 2.5, True, 1j, "s", None, torch.float32, torch.strided, torch.device("cpu"), torch.ones(2), [], {},
              [1], (1, "a"), {"a": [1.0]}, [torch.ones(1)], (None, (torch.int64,))]  # fmt: skip
    for value in values:
        g.insert_constant(value)
    verify(g)
