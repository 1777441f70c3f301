"""Alias analysis: what shares memory, who writes it, what may move."""

from __future__ import annotations

import time

import pytest

from jitlite.analysis.alias import AliasDb, keeps_nothing
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.parser import parse


class Facts:
    """A graph, its analysis, and its values by name."""

    def __init__(self, text: str) -> None:
        self.graph: Graph = parse(text)
        self.db = AliasDb(self.graph)
        self.values: dict[str, Value] = {v.name: v for v in self.graph.inputs}
        for node in self.graph.all_nodes():
            for value in (*node.outputs, *(p for block in node.blocks for p in block.inputs)):
                self.values[value.name] = value

    def node(self, name: str) -> Node:
        return self.values[name].node

    def alias(self, a: str, b: str) -> bool:
        return self.db.may_alias(self.values[a], self.values[b])

    def share(self, a: str, b: str) -> bool:
        return self.db.may_contain_alias(self.values[a], self.values[b])

    def written(self, name: str) -> bool:
        return self.db.has_writers(self.values[name])


def test_views_share_memory_and_fresh_results_do_not():
    facts = Facts("""
graph(%x : Tensor, %l : Tensor[]):
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::relu(%x)
  %v : Tensor = aten::t(%a)
  %w : Tensor = aten::add_(%v, %x, %1)
  %y : Tensor = aten::neg(%x)
  %z : Tensor[] = aten::append(%l, %y)
  return (%a, %z)""")
    assert facts.alias("a", "v") and facts.alias("a", "w")
    assert not facts.alias("a", "x") and not facts.alias("a", "y")
    assert facts.written("a") and facts.written("v") and not facts.written("y")
    assert not facts.written("x"), "add_ writes another tensor"
    assert facts.written("l")
    assert facts.share("l", "y"), "y went into l"
    assert facts.db.escapes(facts.values["y"])


def test_values_that_cannot_be_written_alias_nothing():
    facts = Facts("graph(%n : int, %s : str, %t : (int, str)):\n  return (%n)")
    assert not facts.alias("n", "n") and not facts.share("t", "t")


def test_two_arguments_may_be_one_object():
    facts = Facts("graph(%a : int[], %b : int[], %c : str[], %x : Tensor, %y : Tensor):\n  return (%a)")
    assert facts.alias("a", "b") and facts.alias("x", "y")
    assert facts.alias("a", "c"), "an empty list is a list of anything"
    assert not facts.alias("a", "x")


def test_elements_of_containers():
    facts = Facts("""
graph(%n : int, %i : int):
  %l : int[] = prim::ListConstruct(%n)
  %m : int[] = prim::ListConstruct(%n)
  %o : int[][] = prim::ListConstruct(%l)
  %p : int[][] = aten::append(%o, %m)
  %e : int[] = aten::__getitem__(%o, %i)
  %f : int[] = aten::append(%e, %n)
  %q : int[] = prim::ListConstruct(%n)
  return (%l)""")
    assert facts.alias("e", "l") and facts.alias("e", "m")
    assert not facts.alias("l", "m") and not facts.alias("e", "q")
    assert facts.written("l") and facts.written("m") and not facts.written("q")


def test_a_list_that_is_only_read_keeps_its_elements_apart():
    facts = Facts("""
graph(%x : Tensor, %l : Tensor[]):
  %0 : int = prim::Constant[value=0]()
  %a : Tensor = aten::neg(%x)
  %p : Tensor[] = prim::ListConstruct(%a, %x)
  %c : Tensor = aten::cat(%p, %0)
  %e : Tensor = aten::__getitem__(%l, %0)
  %w : Tensor = aten::add_(%e, %0, %0)
  return (%c)""")
    assert not facts.written("a") and not facts.alias("a", "e")
    assert facts.share("p", "a")
    assert facts.written("x"), "x may be an element of l"


def test_tuples_are_their_elements():
    facts = Facts("""
graph(%x : Tensor, %n : int):
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::neg(%a)
  %t : (Tensor, Tensor, int) = prim::TupleConstruct(%a, %b, %n)
  %c : Tensor, %d : Tensor, %e : int = prim::TupleUnpack(%t)
  return (%t)""")
    assert facts.alias("c", "a") and facts.share("t", "b") and not facts.alias("a", "b")
    assert facts.db.escapes(facts.values["a"])


def test_branches_and_loops():
    facts = Facts("""
graph(%c : bool, %n : int, %x : Tensor, %y : Tensor):
  %t : bool = prim::Constant[value=1]()
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::neg(%y)
  %r : Tensor = prim::If(%c)
    block0():
      -> (%a)
    block1():
      -> (%b)
  %s : Tensor = prim::Loop(%n, %t, %a)
    block0(%i : int, %p : Tensor):
      %q : Tensor = aten::neg(%p)
      %w : Tensor = aten::add_(%p, %i, %i)
      -> (%t, %q)
  return (%r, %s)""")
    assert facts.alias("r", "a") and facts.alias("r", "b")
    assert facts.alias("s", "a"), "the loop may not run"
    assert facts.alias("p", "q"), "what one round makes is what the next one starts with"
    assert facts.written("q") and facts.written("a") and not facts.written("b")
    loop = facts.node("s")
    assert facts.db.writes(loop) & facts.db.locations(facts.values["a"])


def test_calls_and_unknown_operators_may_do_anything():
    facts = Facts("""
graph(%x : Tensor, %l : Tensor[]):
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::neg(%x)
  %r : Tensor = my::unknown(%a)
  return (%r)""")
    assert facts.written("a") and facts.alias("r", "a") and facts.alias("r", "x") and facts.written("x")
    assert not facts.written("b") and not facts.alias("r", "b")


@pytest.mark.parametrize("kind", ["aten::type_as(%a, %x)", "aten::atleast_1d(%a)", "aten::_unsafe_view(%a, %s)"])
def test_results_that_may_be_the_input_although_the_schema_does_not_say_so(kind):
    facts = Facts(
        f"graph(%x : Tensor, %s : int[]):\n  %a : Tensor = aten::neg(%x)\n  %r : Tensor = {kind}\n  return (%r)"
    )
    assert facts.alias("r", "a")


def test_the_list_of_an_in_place_concatenation():
    facts = Facts("""
graph(%n : int):
  %a : int[] = prim::ListConstruct(%n)
  %b : int[] = prim::ListConstruct(%n)
  %c : int[] = aten::add_(%a, %b)
  %d : int[] = aten::add(%a, %b)
  return (%n)""")
    assert facts.alias("c", "a") and not facts.alias("c", "b") and not facts.alias("d", "a")
    assert facts.written("a") and not facts.written("b")


@pytest.mark.parametrize("training, writes", [("1", True), ("0", False)])
def test_batch_norm_writes_its_statistics_when_it_trains(training, writes):
    facts = Facts(f"""
graph(%x : Tensor, %m : Tensor, %v : Tensor, %f : float):
  %t : bool = prim::Constant[value={training}]()
  %none : NoneType = prim::Constant()
  %y : Tensor = aten::batch_norm(%x, %none, %none, %m, %v, %t, %f, %f, %t)
  return (%y)""")
    assert facts.written("m") is writes


MOVES = """
graph(%x : Tensor, %n : int, %l : int[]):
  %1 : int = prim::Constant[value=1]()
  %a : int = aten::neg(%n)
  %b : int = aten::mul(%a, %n)
  %c : int = aten::len(%l)
  %d : int[] = aten::append(%l, %n)
  %e : int = aten::len(%l)
  %f : Tensor = aten::neg(%x)
  %g : int = aten::sub(%n, %n)
   = prim::Print(%n)
  %h : int = aten::add(%n, %n)
  return (%a)"""


@pytest.mark.parametrize(
    "node, target, after, may",
    [
        ("a", "g", True, True),  # takes b along
        ("c", "e", True, False),  # a read past a write
        ("c", "b", False, True),
        ("d", "c", False, False),
        ("f", "d", False, False),  # it may raise: the append would not have happened
        ("g", "a", False, True),
        ("g", "h", True, False),  # past a print
        ("h", "g", False, False),
        ("b", "a", False, False),  # past what it uses
    ],
)
def test_moves(node, target, after, may):
    facts = Facts(MOVES)
    ask = facts.db.can_move_after if after else facts.db.can_move_before
    assert ask(facts.node(node), facts.node(target)) is may


def test_a_move_takes_along_what_must_come():
    facts = Facts(MOVES)
    assert facts.db.move_after(facts.node("a"), facts.node("g"))
    order = [node.outputs[0].name for node in facts.graph.nodes if node.outputs]
    assert order == ["1", "c", "d", "e", "f", "g", "a", "b", "h"]


def test_errors_swap_only_on_request():
    facts = Facts(
        "graph(%x : Tensor):\n  %a : Tensor = aten::neg(%x)\n  %b : Tensor = aten::exp(%x)\n  return (%a, %b)"
    )
    assert not facts.db.can_move_before(facts.node("b"), facts.node("a"))
    assert facts.db.can_move_before(facts.node("b"), facts.node("a"), errors_may_swap=True)


def test_values_made_after_the_analysis_may_alias_anything():
    facts = Facts("graph(%x : Tensor):\n  %a : Tensor = aten::neg(%x)\n  %w : Tensor = aten::relu_(%a)\n  return (%a)")
    with facts.graph.inserting_at_end(facts.graph.block):
        new = facts.graph.insert("aten::neg", facts.graph.inputs, [facts.values["x"].type]).output
    assert facts.db.may_alias(new, facts.values["a"]) and facts.db.has_writers(new) and facts.db.escapes(new)


def test_the_time_is_about_linear():
    def seconds(size: int) -> float:
        lines = ["graph(%x0 : Tensor, %n : int):"]
        for i in range(size):
            lines.append(f"  %l{i} : Tensor[] = prim::ListConstruct(%x{i}, %x0)")
            lines.append(f"  %m{i} : Tensor[] = aten::append(%l{i}, %x{i})")
            lines.append(f"  %x{i + 1} : Tensor = aten::__getitem__(%l{i}, %n)")
        graph = parse("\n".join([*lines, f"  return (%x{size})"]))
        start = time.perf_counter()
        db = AliasDb(graph)
        for node in graph.nodes:
            db.has_writers(node.outputs)
        return time.perf_counter() - start

    assert seconds(3000) < 5


def test_parts_of_a_tensor_are_views_of_it():
    facts = Facts("""
graph(%x : Tensor):
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::relu(%x)
  %p : Tensor, %q : Tensor = prim::ConstantChunk[chunks=2, dim=0](%a)
  %w : Tensor = aten::add_(%p, %x, %1)
  %r : Tensor, %s : Tensor = prim::MMBatchSide[side=0](%x, %x, %x)
  return (%a)""")
    assert facts.alias("a", "p") and facts.alias("a", "q") and facts.written("a")
    assert not facts.written("x") and not facts.alias("r", "s") and not facts.alias("r", "x")


def test_what_is_only_returned_is_not_seen_when_something_raises():
    facts = Facts("""
graph(%x : Tensor, %d : Dict(str, Tensor)):
  %k : str = prim::Constant[value="k"]()
  %own : Dict(str, Tensor) = prim::DictConstruct()
  %a : Tensor = aten::neg(%x)
   = aten::_set_item(%own, %k, %a)
  %b : Tensor = aten::relu(%x)
   = aten::_set_item(%d, %k, %x)
  %c : Tensor = aten::exp(%x)
  return (%own, %b, %c)""")
    first, second = (n for n in facts.graph.nodes if n.kind == "aten::_set_item")
    assert facts.db.may_swap(first, facts.node("b"))
    assert not facts.db.may_swap(second, facts.node("c")), "the caller has the dict"
    assert not facts.db.may_swap(facts.node("a"), facts.node("b")), "either may raise"


def test_values_made_later_stand_for_memory_that_is_known():
    facts = Facts("graph(%x : Tensor):\n  %a : Tensor = aten::relu(%x)\n  return (%a)")
    old = facts.values["a"]
    with facts.graph.inserting_before(old.node):
        new = facts.graph.insert("aten::neg", (facts.values["x"],), (old.type,)).output
    assert facts.db.may_alias(new, facts.values["x"]), "nothing is known of it yet"
    facts.db.put_in_place_of(old, new)
    assert not facts.db.may_alias(new, facts.values["x"]) and facts.db.may_alias(new, old)


def test_uses_that_keep_nothing_of_a_container():
    facts = Facts("""
graph(%l : Tensor[], %k : Tensor[][], %i : int):
  %n : int = aten::len(%l)
  %t : Tensor = aten::cat(%l, %i)
  %e : Tensor = aten::__getitem__(%l, %i)
  %a : Tensor[][] = aten::append(%k, %l)
  %c : Tensor[] = aten::copy(%l)
  %s : bool = aten::__is__(%l, %l)
  return (%l)""")
    kept = {use.user.kind: keeps_nothing(use) for use in facts.values["l"].uses}
    assert kept == {
        "aten::len": True, "aten::cat": True, "aten::__getitem__": True, "aten::append": False, "aten::copy": False,
        "aten::__is__": False, "prim::Return": False,
    }  # fmt: skip
