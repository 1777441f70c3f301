"""Graphs: the list of nodes and its order, uses, inputs and outputs, names, copies, insertion points."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jitlite.ir import graph as graph_module
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Use, constant_of, is_constant
from jitlite.ir.parser import parse
from jitlite.ir.verify import verify

NESTED = """graph(%x : Tensor, %c : bool, %n : int):
  %a = my::a(%x)
  %l : Tensor = prim::Loop(%n, %c, %a)
    block0(%i : int, %p : Tensor):
      %b = my::b(%p)
      %y = prim::If(%c)
        block0():
          %d = my::d(%b)
          -> (%d)
        block1():
          %e = my::e(%b)
          -> (%e)
      -> (%c, %y)
  %z = my::z(%l)
  return (%z)
"""


def node_of(graph, name):
    return graph._names[name].node


def kinds(graph):
    return [node.kind.removeprefix("my::") for node in graph.nodes]


def chain(*names):
    """A graph of nodes `my::<name>` without inputs and outputs."""
    graph = Graph()
    return graph, [graph.insert(f"my::{name}") for name in names]


# -- the list
def test_nodes_in_order():
    graph, (a, b, c) = chain("a", "b", "c")
    assert list(graph.nodes) == [a, b, c]
    assert list(graph.block.reversed_nodes) == [c, b, a]
    assert (a.prev, a.next, c.prev, c.next) == (None, b, b, None)
    assert not graph.block.is_empty and Graph().block.is_empty


def test_insert_before_and_after():
    graph, (a, b) = chain("a", "b")
    graph.create("my::m").insert_before(b)
    graph.create("my::n").insert_after(b)
    graph.block.append(graph.create("my::end"))
    graph.block.prepend(graph.create("my::start"))
    assert kinds(graph) == ["start", "a", "m", "b", "n", "end"]
    verify(graph)


def test_moving():
    graph, (a, b, c) = chain("a", "b", "c")
    a.move_after(c)
    assert kinds(graph) == ["b", "c", "a"]
    a.move_before(b)
    b.move_before(graph.block.return_node)
    assert kinds(graph) == ["a", "c", "b"]
    verify(graph)


def test_moving_into_another_block():
    graph = parse(NESTED)
    node_of(graph, "d").move_after(node_of(graph, "a"))
    assert node_of(graph, "d").block is graph.block
    assert not list(node_of(graph, "y").blocks[0].nodes)


def test_a_node_has_one_place():
    graph, (a, b) = chain("a", "b")
    with pytest.raises(AssertionError, match="has a place already"):
        a.insert_before(b)


def test_destroying():
    graph = parse(NESTED)
    with pytest.raises(ValueError, match="%z is still used"):
        node_of(graph, "z").destroy()
    graph.block.replace_output(0, graph.inputs[0])
    node_of(graph, "z").destroy()
    node_of(graph, "l").destroy()
    assert kinds(graph) == ["a"]
    assert set(graph._names) == {"x", "c", "n", "a"}
    assert graph.inputs[1].use_count == 0
    verify(graph)


def test_nodes_may_be_removed_and_inserted_while_iterating():
    graph, _ = chain("a", "b", "c", "d")
    seen = []
    for node in graph.nodes:
        seen.append(node.kind)
        graph.create("my::new").insert_before(node)
        if node.kind in ("my::b", "my::d"):
            node.destroy()
    assert seen == ["my::a", "my::b", "my::c", "my::d"]
    assert kinds(graph) == ["new", "a", "new", "new", "c", "new"]
    for node in graph.block.reversed_nodes:
        node.destroy()
    assert graph.block.is_empty


def test_all_nodes_walks_blocks():
    graph = parse(NESTED)
    assert [n.kind for n in graph.all_nodes()] == [
        "my::a", "prim::Loop", "my::b", "prim::If", "my::d", "my::e", "my::z"
    ]  # fmt: skip


# -- order
def test_order_within_a_block():
    graph, nodes = chain(*"abcdefgh")
    for i, a in enumerate(nodes):
        for j, b in enumerate(nodes):
            assert a.is_before(b) == (i < j) and a.is_after(b) == (i > j)


def test_order_across_blocks():
    graph = parse(NESTED)
    a, loop, b, y, d, e, z = graph.all_nodes()
    for node in (loop, b, y, d, e, z):
        assert a.is_before(node) and node.is_after(a)
    for node in (b, y, d, e):
        assert node.is_before(z) and loop.is_before(node) and not node.is_before(loop)
    assert b.is_before(d) and b.is_before(e) and not e.is_before(b)
    assert d.is_inside(loop.blocks[0]) and not z.is_inside(loop.blocks[0]) and a.is_inside(graph.block)


def test_nodes_of_two_graphs_have_no_order():
    (_, (a,)), (_, (b,)) = chain("a"), chain("b")
    with pytest.raises(ValueError, match="different graphs"):
        a.is_before(b)


def test_positions_are_renewed_when_a_gap_is_used_up(monkeypatch):
    monkeypatch.setattr(graph_module, "_GAP", 4)
    graph, (a, b) = chain("a", "b")
    for i in range(20):
        graph.create(f"my::{i}").insert_after(a)
    assert kinds(graph) == ["a", *map(str, reversed(range(20))), "b"]
    verify(graph)


@pytest.mark.parametrize("place", ["front", "one place", "backwards"])
def test_positions_are_renewed_only_nearby(place, monkeypatch):
    class Counting(graph_module.Node):
        given = 0

        @property
        def _position(self):
            return self.kept_position

        @_position.setter
        def _position(self, position):
            Counting.given += 1
            self.kept_position = position

    monkeypatch.setattr(graph_module, "Node", Counting)
    g = Graph()
    for _ in range(1000):
        g.insert("prim::Print")
    at = list(g.nodes)[500]
    for _ in range(4000):
        node = g.create("prim::Print")
        if place == "front":
            g.block.prepend(node)
        elif place == "one place":
            node.insert_before(at)
        else:
            node.insert_after(at)
    nodes = list(g.nodes)
    assert len(nodes) == 5000
    assert all(a.is_before(b) for a, b in zip(nodes, nodes[1:], strict=False))
    assert Counting.given < 20 * len(nodes)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30), st.integers(0, 30)), max_size=60))
def test_the_list_behaves_like_a_python_list(steps):
    """Random insertions, moves and removals, mirrored in a list of the same nodes."""
    graph, model = Graph(), []
    for action, first, second in steps:
        node = graph.create("my::op")
        if not model or action == 0:
            graph.block.append(node)
            model.append(node)
            continue
        place, other = model[first % len(model)], model[second % len(model)]
        if action == 1:
            node.insert_before(place)
            model.insert(model.index(place), node)
        elif action == 2:
            node.insert_after(place)
            model.insert(model.index(place) + 1, node)
        elif action == 3 and place is not other:
            place.move_before(other)
            model.remove(place)
            model.insert(model.index(other), place)
        elif action == 4:
            place.destroy()
            model.remove(place)
    assert list(graph.nodes) == model
    assert list(graph.block.reversed_nodes) == model[::-1]
    assert all(a.is_before(b) for a, b in zip(model, model[1:]))
    verify(graph)


# -- inputs, outputs and uses
def uses(value):
    return [(use.user.kind, use.offset) for use in value.uses]


def test_inputs_and_uses_change_together():
    graph = Graph()
    x, y = graph.add_input(name="x"), graph.add_input(name="y")
    node = graph.insert("my::op", [x, y, x])
    assert x.uses == [Use(node, 0), Use(node, 2)] and x.use_count == 2
    node.insert_input(1, y)
    assert [v.name for v in node.inputs] == ["x", "y", "y", "x"]
    assert set(y.uses) == {Use(node, 1), Use(node, 2)}
    node.remove_input(0)
    assert [v.name for v in node.inputs] == ["y", "y", "x"] and uses(x) == [("my::op", 2)]
    assert node.replace_input(2, y) is x and not x.has_uses
    node.replace_input_with(y, x)
    assert [v.name for v in node.inputs] == ["x", "x", "x"] and not y.has_uses
    node.remove_all_inputs()
    assert not x.has_uses and not node.inputs
    verify(graph)


def test_replace_all_uses():
    graph = parse(NESTED)
    x, b = graph.inputs[0], graph._names["b"]
    b.replace_all_uses_with(x)
    assert not b.has_uses and set(uses(x)) == {("my::a", 0), ("my::d", 0), ("my::e", 0)}
    x.replace_all_uses_with(x)
    assert x.use_count == 3
    verify(graph)


def test_replace_uses_after():
    graph = parse("graph(%x):\n %a = my::a(%x)\n %b = my::b(%x)\n %c = my::c(%x)\n = my::w()\n block0():\n"
                  " %d = my::d(%x)\n -> ()\n return (%x)")  # fmt: skip
    x, b = graph.inputs[0], graph._names["b"]
    x.replace_uses_after(b.node, b)
    assert uses(x) == [("my::a", 0), ("my::b", 0)]
    assert set(uses(b)) == {("my::c", 0), ("my::d", 0), ("prim::Return", 0)}


def test_outputs_keep_their_numbers():
    graph = Graph()
    node = graph.insert("my::op", (), (T.INT, T.FLOAT))
    node.insert_output(1, T.STRING)
    assert [(v.type, v.offset) for v in node.outputs] == [(T.INT, 0), (T.STRING, 1), (T.FLOAT, 2)]
    node.erase_output(0)
    assert [(v.type, v.offset) for v in node.outputs] == [(T.STRING, 0), (T.FLOAT, 1)]
    graph.add_output(node.outputs[0])
    with pytest.raises(ValueError, match="still used"):
        node.erase_output(0)


def test_block_inputs_and_outputs():
    graph = Graph()
    a = graph.add_input(T.INT, "a")
    b = graph.block.insert_input(0, T.FLOAT, "b")
    assert graph.inputs == [b, a] and a.offset == 1
    graph.add_output(a)
    graph.block.insert_output(0, b)
    graph.block.replace_output(1, b)
    assert list(graph.outputs) == [b, b]
    graph.block.erase_output(0)
    graph.block.erase_input(1)
    assert str(graph) == "graph(%b : float):\n  return (%b)\n"
    verify(graph)


def test_single_input_and_output():
    graph = parse(NESTED)
    assert node_of(graph, "a").input is graph.inputs[0] and node_of(graph, "a").output.name == "a"
    with pytest.raises(ValueError):
        _ = node_of(graph, "l").input


def test_named_inputs():
    graph = parse(
        "graph(%x : Tensor):\n %1 : int = prim::Constant[value=1]()\n %y = aten::add(%x, %x, %1)\n return (%y)"
    )
    node = node_of(graph, "y")
    assert constant_of(node.named_input("alpha")) == 1
    with pytest.raises(KeyError, match="has no argument beta"):
        node.named_input("beta")


def test_the_operator_follows_the_types_of_the_inputs():
    graph = parse("graph(%x : Tensor, %n : int):\n %y = aten::neg(%x)\n return (%y)")
    node = node_of(graph, "y")
    assert node.op.schema.qualified == "aten::neg"
    node.replace_input(0, graph.inputs[1])
    assert node.op.schema.qualified == "aten::neg.int"
    graph.inputs[1].type = T.STRING
    assert node.op is None


# -- names
def test_a_taken_name_gets_a_number():
    graph = Graph()
    values = [graph.add_input().set_name("x") for _ in range(3)]
    assert [v.name for v in values] == ["x.1", "x.3", "x"], "as in TorchScript, numbers go up in steps of two"
    values[2].set_name("x.1")
    assert [v.name for v in values] == ["x.5", "x.3", "x.1"]
    verify(graph)


def test_numbers_of_a_name_are_not_used_twice():
    graph = Graph()
    a, b, c = (graph.add_input() for _ in range(3))
    a.set_name("x")
    b.set_name("x")
    assert a.name == "x.1"
    a.set_name(None)
    c.set_name("x")
    assert b.name == "x.3" and a.name == str(a.id) and not a.has_name
    verify(graph)


def test_setting_the_same_name_again():
    value = Graph().add_input(name="x")
    assert value.set_name("x").name == "x"


# -- constants
def test_constants():
    graph = Graph()
    one, none = graph.insert_constant(1), graph.insert_constant(None)
    assert constant_of(one) == 1 and constant_of(none) is None and is_constant(one)
    assert none.type is T.NONE and not none.node.attributes
    x = graph.add_input()
    assert constant_of(x, 7) == 7 and not is_constant(x)
    with pytest.raises(ValueError, match="is no constant"):
        constant_of(x)
    assert constant_of(graph.insert_constant(frozenset([1]))) == {1}
    with pytest.raises(TypeError, match="a bytearray can be no constant"):
        graph.insert_constant(bytearray())


# -- insertion points and copies
def test_insertion_points():
    graph = parse(NESTED)
    body = node_of(graph, "l").blocks[0]
    with graph.inserting_before(node_of(graph, "b")):
        graph.insert("my::first")
        with graph.inserting_at_end(body):
            graph.insert("my::last")
        graph.insert("my::second")
    graph.insert("my::end")
    assert [n.kind for n in body.nodes] == ["my::first", "my::second", "my::b", "prim::If", "my::last"]
    assert kinds(graph)[-1] == "end"
    verify(graph)


def test_the_insertion_point_is_restored_after_an_error():
    graph, (a,) = chain("a")
    with pytest.raises(KeyError), graph.inserting_before(a):
        raise KeyError
    assert graph.insert_point is graph.block.return_node


def test_copies_share_nothing():
    graph = parse(NESTED)
    before = str(graph)
    copied, values = graph.copy_with_map()
    verify(copied)
    assert [v.name for v in copied.inputs] == ["x", "c", "n"]
    assert values[graph._names["d"]] is copied._names["d"]
    for node in copied.all_nodes():
        node.attributes["changed"] = 1
    copied.block.replace_output(0, copied.inputs[0])
    assert str(graph) == before
    verify(graph)


def test_graphs_in_attributes_are_copied():
    graph = parse(
        "graph(%x):\n %1 : Future[Tensor] = prim::fork_0(%x)\n return (%1)\n"
        "with prim::fork_0 = graph(%x):\n return (%x)"
    )
    (fork,), (copied,) = graph.nodes, graph.copy().nodes
    assert copied.attributes["Subgraph"] is not fork.attributes["Subgraph"]


def test_inlining():
    callee = parse("graph(%a, %b):\n %s = my::s(%a, %b)\n return (%s, %a)")
    graph = parse("graph(%x, %y):\n = my::end()\n return (%x)")
    seen = []
    with graph.inserting_before(next(graph.nodes)):
        results = graph.inline_call(callee, graph.inputs, seen.append)
    graph.block.replace_output(0, results[0])
    assert str(graph) == (
        "graph(%x : Tensor,\n      %y : Tensor):\n  %s : Tensor = my::s(%x, %y)\n   = my::end()\n  return (%s)\n"
    )
    assert [n.kind for n in seen] == ["my::s"] and results[1] is graph.inputs[0]
    verify(graph)
