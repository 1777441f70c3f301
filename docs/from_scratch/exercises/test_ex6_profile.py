"""Is exercise 6 solved?"""

from ch5_bytecode import Instruction
from ch6_interpreter import Frame, collatz, script
from ex6_profile import profile


def branches(flag: bool, n: int) -> int:
    if flag:
        n = n * 2
    else:
        n = n - 1
    return n + 1


FIRST = branches.__code__.co_firstlineno


def test_the_result_is_that_of_the_call():
    assert profile(collatz, 27)[0] == 111


def test_only_what_ran_is_counted():
    _, taken = profile(script(branches), True, 4)
    assert FIRST + 2 in taken and FIRST + 4 not in taken and FIRST + 5 in taken
    _, other = profile(script(branches), False, 4)
    assert FIRST + 2 not in other and FIRST + 4 in other


def test_each_instruction_is_counted_once_for_each_time_it_runs():
    frame, steps = Frame(collatz.code, [6]), 1
    while frame.step():
        steps += 1
    counts = profile(collatz, 6)[1]
    assert sum(counts.values()) == steps
    lines = {instruction.line for instruction in collatz.code.instructions}
    assert set(counts) <= lines and isinstance(collatz.code.instructions[0], Instruction)
