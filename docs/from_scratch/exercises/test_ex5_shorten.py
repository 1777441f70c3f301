"""Is exercise 5 solved?"""

import torch
from ch1_tree import smooth
from ch3_ssa import compile_graph
from ch4_passes import optimize
from ch5_bytecode import Code, Instruction, lower
from ch6_interpreter import collatz, run
from ex5_shorten import shorten


def code(*instructions):
    return Code([Instruction(opcode, x, 1) for opcode, x in instructions], 3)


def opcodes(code):
    return [(opcode, x) for opcode, x, _ in code.instructions]


def test_a_pair_goes():
    assert opcodes(shorten(code(("LOADC", 1), ("STORE", 1), ("LOAD", 1), ("RET", "")))) == [("LOADC", 1), ("RET", "")]


def test_a_register_that_is_read_again_stays():
    again = code(("LOADC", 1), ("STORE", 1), ("LOAD", 1), ("STORE", 2), ("LOAD", 1), ("RET", ""))
    assert opcodes(shorten(again)) == opcodes(again)


def test_the_load_of_another_register_stays():
    other = code(("LOADC", 1), ("STORE", 1), ("LOAD", 0), ("RET", ""))
    assert opcodes(shorten(other)) == opcodes(other)


def test_a_load_that_a_jump_leads_to_stays():
    jumped = code(("LOADC", 1), ("STORE", 1), ("LOAD", 1), ("JF", 2), ("LOADC", 2), ("RET", ""))
    assert opcodes(shorten(jumped)) == opcodes(jumped)


def test_jumps_lead_to_the_same_places():
    before = code(("LOADC", 1), ("STORE", 1), ("LOAD", 1), ("JF", 0), ("LOADC", 5), ("JMP", 6), ("RET", ""))
    assert opcodes(shorten(before)) == [("LOADC", 1), ("JF", 0), ("LOADC", 5), ("JMP", 4), ("RET", "")]


def test_real_code_is_shorter_and_does_the_same():
    short = shorten(collatz.code)
    assert len(short.instructions) < len(collatz.code.instructions) - 8
    assert run(short, [27]) == [111]
    x = torch.randn(5)
    assert torch.equal(run(shorten(lower(optimize(compile_graph(smooth)))), [x, 3])[0], smooth(x, 3))
