"""Lowering, the checker and the listing."""

import copy
import json

import pytest

from jitlite.base.source import Source, SourceRange
from jitlite.interpreter.bytecode import lower
from jitlite.interpreter.check import CodeError, check_code
from jitlite.interpreter.code import Instruction
from jitlite.interpreter.disassemble import describe, disassemble
from jitlite.interpreter.vm import run
from jitlite.ir import types as T
from jitlite.ir.graph import Graph
from jitlite.ir.parser import parse

LOOP = """graph(%x : Tensor, %n : int):
  %t : bool = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %y : Tensor = prim::Loop(%n, %t, %x)
    block0(%i : int, %c : Tensor):
      %r : int = aten::remainder(%i, %two)
      %even : bool = aten::eq(%r, %zero)
      %d : Tensor = prim::If(%even)
        block0():
          %s : Tensor = aten::add(%c, %x, %one)
          -> (%s)
        block1():
          -> (%c)
      -> (%t, %d)
  %l : int[] = prim::ListConstruct(%one, %n)
  %p : (Tensor, int[]) = prim::TupleConstruct(%y, %l)
  return (%p)
"""

LISTING = """f: 2 inputs, 1 outputs, 6 registers
 0  STOREN 1 2
 1  LOADC 4                 ; 0
 2  LOAD 2
 3  LOADC 0                 ; True
 4  LOAD 1
 5  LOOP 19 3               ; to 24
 6  STOREN 3 2
 7  MOVE 3
 8  LOADC 1                 ; 2
 9  OP 0                    ; aten::remainder.int
10  LOADC 2                 ; 0
11  OP 1                    ; aten::eq.int
12  JF 6                    ; to 18
13  LOAD 4
14  LOAD 1
15  LOADC 3                 ; 1
16  OP 2                    ; aten::add.Tensor
17  JMP 2                   ; to 19
18  LOAD 4
19  STORE 5
20  DROPR 4
21  LOADC 0                 ; True
22  MOVE 5
23  JMP -18                 ; to 5
24  STORE 6
25  DROPR 1
26  MOVE 6
27  LOADC 3                 ; 1
28  MOVE 2
29  LIST_CONSTRUCT 0 2      ; List[int]
30  TUPLE_CONSTRUCT 2
31  RET
"""


def opcodes(graph):
    code = lower(parse(graph) if isinstance(graph, str) else graph)
    check_code(code)
    return [str(i) for i in code.instructions]


def test_a_loop_with_a_branch():
    code = lower(parse(LOOP), "f")
    check_code(code)
    code.places = [place._replace(range=None) for place in code.places]
    assert disassemble(code) == LISTING


def test_the_graph_is_not_changed():
    graph = parse(LOOP)
    before = str(graph)
    lower(graph)
    assert str(graph) == before


def test_expressions_stay_on_the_stack():
    text = """graph(%a : int, %b : int):
  %c : int = aten::mul(%a, %b)
  %d : int = aten::sub(%b, %a)
  %e : int = aten::add(%c, %d)
  return (%e)
"""
    expected = ["STOREN 1 2", "LOAD 1 0", "LOAD 2 0", "OP 0 0", "MOVE 2 0", "MOVE 1 0", "OP 1 0", "OP 2 0", "RET 0 0"]
    assert opcodes(text) == expected


def test_computations_keep_their_order():
    text = """graph(%a : int, %b : int):
  %d : int = aten::sub(%b, %a)
  %c : int = aten::mul(%a, %b)
  %e : int = aten::add(%c, %d)
  return (%e)
"""
    assert opcodes(text) == [
        "STOREN 1 2", "LOAD 2 0", "LOAD 1 0", "OP 0 0", "STORE 3 0",
        "MOVE 1 0", "MOVE 2 0", "OP 1 0", "MOVE 3 0", "OP 2 0", "RET 0 0",
    ]  # fmt: skip


def test_unused_values_are_dropped():
    text = """graph(%a : int, %b : int):
  %c : int = aten::mul(%a, %a)
  %l : int[] = prim::ListConstruct(%a, %a)
  %x : int, %y : int = prim::ListUnpack(%l)
  return (%x)
"""
    assert opcodes(text) == [
        "STOREN 1 2", "DROPR 2 0", "LOAD 1 0", "LOAD 1 0", "OP 0 0", "DROP 0 0",
        "LOAD 1 0", "MOVE 1 0", "LIST_CONSTRUCT 0 2", "LIST_UNPACK 2 0", "STOREN 3 2", "DROPR 4 0", "MOVE 3 0",
        "RET 0 0",
    ]  # fmt: skip


def test_operators_are_entered_once():
    text = """graph(%a : int):
  %b : int = aten::mul(%a, %a)
  %c : int = aten::mul(%b, %b)
   = prim::Print(%c)
   = prim::Print(%c, %c)
  return (%c)
"""
    code = lower(parse(text))
    assert [(o.qualified, o.inputs) for o in code.operators] == [
        ("aten::mul.int", 2), ("prim::Print", -1), ("prim::Print", -1),
    ]  # fmt: skip


LOOP_AS_OPERAND = """  %s : int = prim::Loop(%n, %t, %zero)
    block0(%i : int, %c : int):
      %d : int = aten::add(%c, %n)
      -> (%t, %d)
"""
LOOP_IN_BRANCH_AS_OPERAND = """  %s : int = prim::If(%t)
    block0():
      %l : int = prim::Loop(%n, %t, %zero)
        block0(%i : int, %c : int):
          %d : int = aten::add(%c, %n)
          -> (%t, %d)
      -> (%l)
    block1():
      -> (%zero)
"""


@pytest.mark.parametrize("operand", [LOOP_AS_OPERAND, LOOP_IN_BRANCH_AS_OPERAND])
def test_a_loop_inside_an_expression_does_not_use_up_what_it_reads(operand):
    text = """graph(%n : int):
  %t : bool = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
"""
    text += operand + "  %r : int = aten::add(%n, %s)\n  return (%r)\n"
    code = lower(parse(text))
    check_code(code)
    assert run(code, [3]) == 12


def test_deep_expressions_need_no_recursion():
    graph = Graph()
    value = graph.add_input(T.INT)
    one = graph.insert_constant(1)
    for _ in range(5000):
        value = graph.insert("aten::add", [value, one], [T.INT]).output
    graph.add_output(value)
    code = lower(graph)
    assert code.register_size == 1
    assert run(code, [0]) == 5000


def test_the_listing_shows_source_lines():
    source = Source("def f(a):\n    return a * 2\n", "dir/model.py", 7)
    graph = Graph()
    graph.current_range = SourceRange(source, 21, 26)
    a = graph.add_input(T.INT, "a")
    graph.add_output(graph.insert("aten::mul", [a, graph.insert_constant(2)], [T.INT]).output)
    listing = disassemble(lower(graph, "f"))
    assert listing.splitlines()[2] == "1  MOVE 1" + " " * 44 + "# model.py:8"
    assert listing.count("model.py:8") == 1


def test_plain_data():
    data = describe(lower(parse(LOOP), "f"))
    assert json.loads(json.dumps(data)) == data
    assert data["operators"] == ["aten::remainder.int", "aten::eq.int", "aten::add.Tensor"]
    assert data["instructions"][5]["meaning"] == "to 24"


@pytest.mark.parametrize(
    ("position", "instruction", "message"),
    [
        (2, Instruction("LOAD", 7), "register 7 is outside"),
        (3, Instruction("LOADC", 9), "constant 9 is outside"),
        (9, Instruction("LOAD", 1), "values on the stack"),
        (12, Instruction("JF", 200), "jump 200 is outside"),
        (12, Instruction("JF", 5), "values on the stack"),
        (31, Instruction("DROP"), "runs off the end"),
        (30, Instruction("TUPLE_CONSTRUCT", 9), "pops 9 values of 2"),
        (26, Instruction("NOSUCH"), "no such instruction"),
        (26, Instruction("MOVE", 6, 1), "N is not used"),
        (28, Instruction("DROPR", 2), "pops 2 values of 1|values on the stack|leaves"),
    ],
)
def test_the_checker_finds_faults(position, instruction, message):
    code = copy.copy(lower(parse(LOOP)))
    code.instructions = list(code.instructions)
    code.instructions[position] = instruction
    with pytest.raises(CodeError, match=message):
        check_code(code)
