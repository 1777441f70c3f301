"""The instruction table.

Every instruction is declared once: what its operands X and N mean, how many values it pops and pushes, and, as a
function, what it does. The compiler, the loop, the stack checker, the disassembler and `docs/instructions.md` derive
from these declarations.

The function gets the frame, X with its meaning looked up (the constant, the callable of the operator, ...) and N. It
returns None to go on with the next instruction, an offset to jump, or SWITCH after entering or leaving a frame.
"""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from jitlite.interpreter.code import Code, Instruction, Linked
from jitlite.interpreter.frames import SWITCH, Frame, Protection
from jitlite.interpreter.futures import wait
from jitlite.ir.awaits import Await
from jitlite.ir.formatting import format_by_position
from jitlite.ir.values import UNINITIALIZED, checker, named_tuple_class, object_class, script_method, special_method
from jitlite.operators.prims import make_exception, tolist
from jitlite.operators.tensors import number_to_tensor


class Operand(enum.Enum):
    """What an operand is."""

    NONE = "-"
    REGISTER = "register"
    NUMBER = "number"
    CONSTANT = "constant"
    OPERATOR = "operator"
    FUNCTION = "function"
    TYPE = "type"
    NAME = "name"
    JUMP = "jump"


@dataclass(frozen=True)
class Count:
    """How many values: a number known from the instruction."""

    text: str
    of: Callable[[Code, Instruction], int]


def _fixed(number: int) -> Count:
    return Count(str(number), lambda code, i: number)


X = Count("X", lambda code, i: i.x)
N = Count("N", lambda code, i: i.n)
LOOP_SLOTS = Count("N+1", lambda code, i: i.n + 1)
LOOP_RESULTS = Count("N-2", lambda code, i: i.n - 2)
OP_INPUTS = Count("inputs", lambda code, i: code.operators[i.x].inputs)
OP_OUTPUTS = Count("outputs", lambda code, i: code.operators[i.x].outputs)
CALL_INPUTS = Count("parameters", lambda code, i: len(code.functions[i.x].graph.inputs))
CALL_OUTPUTS = Count("results", lambda code, i: len(code.functions[i.x].graph.outputs))
CODE_OUTPUTS = Count("results", lambda code, i: code.outputs)

Handler = Callable[[Frame, Any, int], "int | None"]


@dataclass(frozen=True)
class InstructionSpec:
    """The declaration of an instruction. `taken` holds pops and pushes on the jump where they differ."""

    name: str
    run: Handler
    x: Operand
    n: Operand
    pops: Count
    pushes: Count
    taken: tuple[Count, Count] | None
    falls_through: bool
    link: Callable[[Code, int], Linked] | None
    doc: str


TABLE: dict[str, InstructionSpec] = {}
"""Every instruction by opcode, in order of declaration."""


def instruction(
    *,
    x: Operand = Operand.NONE,
    n: Operand = Operand.NONE,
    pops: int | Count = 0,
    pushes: int | Count = 0,
    taken: tuple[Count, Count] | None = None,
    falls_through: bool = True,
    link: Callable[[Code, int], Linked] | None = None,
) -> Callable[[Handler], Handler]:
    """Declare the decorated function to be the instruction of its name; its docstring is the documentation.

    `link` prepares an instruction whose X needs more than a look into a table.
    """

    def declare(run: Handler) -> Handler:
        name = run.__name__
        counts = [_fixed(c) if isinstance(c, int) else c for c in (pops, pushes)]
        doc = (run.__doc__ or "").strip()
        TABLE[name] = InstructionSpec(name, run, x, n, counts[0], counts[1], taken, falls_through, link, doc)
        return run

    return declare


_TABLES: dict[Operand, Callable[[Code], list[Any]]] = {
    Operand.CONSTANT: lambda code: code.constants,
    Operand.FUNCTION: lambda code: code.functions,
    Operand.TYPE: lambda code: code.types,
    Operand.NAME: lambda code: code.names,
}


def link(code: Code) -> list[Linked]:
    """The instructions of `code` ready to run."""
    return [_link_one(code, position) for position in range(len(code.instructions))]


def _link_one(code: Code, position: int) -> Linked:
    opcode, x, n = code.instructions[position]
    spec = TABLE[opcode]
    if spec.link is not None:
        return spec.link(code, position)
    table = _TABLES.get(spec.x)
    return spec.run, x if table is None else table(code)[x], n


# -- operators


def _link_operator(code: Code, position: int) -> Linked:
    operator = code.operators[code.instructions[position].x]
    if operator.outputs == 1 and not operator.spread:
        special = _ONE_RESULT.get(operator.inputs)
        if special is not None:
            return special, operator.fn, 0
    return OP, operator, 0


@instruction(x=Operand.OPERATOR, pops=OP_INPUTS, pushes=OP_OUTPUTS, link=_link_operator)
def OP(frame: Frame, x: Any, n: int) -> None:
    """Call operator X with as many arguments as it has inputs; push its results."""
    stack = frame.stack
    start = len(stack) - x.inputs
    arguments = stack[start:]
    del stack[start:]
    _push(stack, x, x.fn(*arguments))


def _push(stack: list[Any], operator: Any, result: Any) -> None:
    if operator.spread:
        stack.extend(result)
    elif operator.outputs:
        stack.append(result)


def _one_from_one(frame: Frame, x: Any, n: int) -> None:
    stack = frame.stack
    stack[-1] = x(stack[-1])


def _one_from_two(frame: Frame, x: Any, n: int) -> None:
    stack = frame.stack
    second = stack.pop()
    stack[-1] = x(stack[-1], second)


def _one_from_three(frame: Frame, x: Any, n: int) -> None:
    stack = frame.stack
    third = stack.pop()
    second = stack.pop()
    stack[-1] = x(stack[-1], second, third)


_ONE_RESULT: dict[int, Handler] = {1: _one_from_one, 2: _one_from_two, 3: _one_from_three}
"""What OP does for the commonest numbers of arguments: scalar code is made of these."""


@instruction(
    x=Operand.OPERATOR,
    n=Operand.NUMBER,
    pops=N,
    pushes=OP_OUTPUTS,
    link=lambda code, at: (OPN, code.operators[code.instructions[at].x], code.instructions[at].n),
)
def OPN(frame: Frame, x: Any, n: int) -> None:
    """Call operator X, which takes any number of arguments, with N; push its results."""
    _push(frame.stack, x, x.fn(*_pop_several(frame.stack, n)))


def _pop_several(stack: list[Any], n: int) -> list[Any]:
    start = len(stack) - n
    values = stack[start:]
    del stack[start:]
    return values


# -- registers and constants


@instruction(x=Operand.REGISTER, pushes=1)
def LOAD(frame: Frame, x: int, n: int) -> None:
    """Push register X."""
    frame.stack.append(frame.registers[x])


@instruction(x=Operand.REGISTER, pushes=1)
def MOVE(frame: Frame, x: int, n: int) -> None:
    """Push register X and clear it: this is its last use."""
    registers = frame.registers
    frame.stack.append(registers[x])
    registers[x] = None


@instruction(x=Operand.REGISTER, pops=1)
def STORE(frame: Frame, x: int, n: int) -> None:
    """Pop into register X."""
    frame.registers[x] = frame.stack.pop()


@instruction(x=Operand.REGISTER, n=Operand.NUMBER, pops=N)
def STOREN(frame: Frame, x: int, n: int) -> None:
    """Pop N values into registers X, X+1 ...; the topmost goes into the last."""
    frame.registers[x : x + n] = _pop_several(frame.stack, n)


@instruction(pops=1)
def DROP(frame: Frame, x: int, n: int) -> None:
    """Pop and forget."""
    frame.stack.pop()


@instruction(x=Operand.REGISTER)
def DROPR(frame: Frame, x: int, n: int) -> None:
    """Clear register X."""
    frame.registers[x] = None


@instruction(x=Operand.CONSTANT, pushes=1)
def LOADC(frame: Frame, x: Any, n: int) -> None:
    """Push constant X."""
    frame.stack.append(x)


@instruction(pushes=1)
def UN_INITIALIZED(frame: Frame, x: int, n: int) -> None:
    """Push a value that is never read."""
    frame.stack.append(UNINITIALIZED)


# -- control flow


@instruction(x=Operand.JUMP, pops=1)
def JF(frame: Frame, x: int, n: int) -> int | None:
    """Pop a bool; jump by X if it is false."""
    return None if frame.stack.pop() else x


@instruction(x=Operand.JUMP, falls_through=False)
def JMP(frame: Frame, x: int, n: int) -> int:
    """Jump by X."""
    return x


@instruction(x=Operand.JUMP, n=Operand.NUMBER, pops=LOOP_SLOTS, pushes=LOOP_SLOTS, taken=(LOOP_SLOTS, LOOP_RESULTS))
def LOOP(frame: Frame, x: int, n: int) -> int | None:
    """Head of a loop with N-2 carried values.

    On the stack are iteration number i, maximum, condition, carried values. If i < maximum and the condition holds, the
    slots become i+1, maximum, i, carried: the body takes i and the carried values and leaves a new condition and new
    carried values. Else the first three are removed and the loop is left by X.
    """
    stack = frame.stack
    base = len(stack) - n - 1
    iteration = stack[base]
    if stack[base + 2] and iteration < stack[base + 1]:
        stack[base] = iteration + 1
        stack[base + 2] = iteration
        return None
    del stack[base : base + 3]
    return x


def _link_try(code: Code, position: int) -> Linked:
    return TRY, position + code.instructions[position].x, 0


@instruction(x=Operand.JUMP, taken=(_fixed(0), _fixed(1)), link=_link_try)
def TRY(frame: Frame, x: int, n: int) -> None:
    """Begin what is protected. An exception before the END_TRY leaves the frames and contexts entered since, shortens
    the stack to what it is now, pushes itself and goes on at the handler, by X from here.
    """
    machine = frame.machine
    machine.handlers.append(Protection(len(machine.frames), x, len(frame.stack), len(machine.entered)))


@instruction(x=Operand.JUMP, falls_through=False)
def END_TRY(frame: Frame, x: int, n: int) -> int:
    """End what is protected; jump by X, behind the handler."""
    frame.machine.handlers.pop()
    return x


@instruction(pops=CODE_OUTPUTS, falls_through=False)
def RET(frame: Frame, x: int, n: int) -> int:
    """Leave the function; its results are on the stack."""
    frame.machine.frames.pop()
    return SWITCH


@instruction(x=Operand.FUNCTION, pops=CALL_INPUTS, pushes=CALL_OUTPUTS)
def CALL(frame: Frame, x: Any, n: int) -> int:
    """Call function X with the arguments on the stack."""
    machine = frame.machine
    machine.enter(machine.code_for(x))
    return SWITCH


@instruction(x=Operand.CONSTANT, n=Operand.NUMBER, pops=N, pushes=1)
def INTERFACE_CALL(frame: Frame, x: str, n: int) -> None:
    """Call the method named by constant X of the first of N arguments, looked up when running."""
    receiver, *arguments = _pop_several(frame.stack, n)
    frame.stack.append(script_method(receiver, x)(*arguments))


@instruction(x=Operand.CONSTANT, n=Operand.NUMBER, pops=N, pushes=1)
def PY_CALL(frame: Frame, x: Any, n: int) -> None:
    """Call the Python callable that is constant X with N arguments."""
    frame.stack.append(x(*_pop_several(frame.stack, n)))


@instruction(x=Operand.FUNCTION, n=Operand.NUMBER, pops=N, pushes=1)
def FORK(frame: Frame, x: Any, n: int) -> None:
    """Push a future of function X called with N arguments, which a thread of a pool runs. WAIT raises its errors."""
    machine = frame.machine
    frame.stack.append(machine.fork(partial(machine.evaluate, x, _pop_several(frame.stack, n))))


@instruction(x=Operand.FUNCTION, n=Operand.NUMBER, pops=N, pushes=1)
def AWAITABLE(frame: Frame, x: Any, n: int) -> None:
    """Push a result that is computed, by calling function X with N arguments, when it is first waited for."""
    frame.stack.append(Await(partial(frame.machine.evaluate, x, _pop_several(frame.stack, n))))


@instruction(pops=1, pushes=1)
def WAIT(frame: Frame, x: int, n: int) -> None:
    """Replace a future by its value."""
    stack = frame.stack
    stack[-1] = wait(stack[-1])


# -- objects and context managers


@instruction(x=Operand.NAME, pops=1, pushes=1)
def GET_ATTR(frame: Frame, x: str, n: int) -> None:
    """Replace an object by its attribute X."""
    stack = frame.stack
    stack[-1] = getattr(stack[-1], x)


@instruction(x=Operand.NAME, pops=2)
def SET_ATTR(frame: Frame, x: str, n: int) -> None:
    """Pop an object and a value; make the value attribute X of the object."""
    value = frame.stack.pop()
    setattr(frame.stack.pop(), x, value)


@instruction(x=Operand.NAME, pops=2)
def INIT_ATTR(frame: Frame, x: str, n: int) -> None:
    """The same for an object of a frozen dataclass, whose attributes only its `__init__` sets."""
    value = frame.stack.pop()
    object.__setattr__(frame.stack.pop(), x, value)


def _link_class(code: Code, position: int) -> Linked:
    wanted: Any = code.types[code.instructions[position].x]
    return CREATE_OBJECT, object_class(wanted), 0


@instruction(x=Operand.TYPE, pushes=1, link=_link_class)
def CREATE_OBJECT(frame: Frame, x: Any, n: int) -> None:
    """Push a new object of class X; its `__init__` is called separately."""
    frame.stack.append(x.__new__(x))


@instruction(pops=1, pushes=1)
def ENTER(frame: Frame, x: int, n: int) -> None:
    """Enter a context manager: replace it by what its `__enter__` gives."""
    stack = frame.stack
    manager = stack.pop()
    stack.append(special_method(manager, "__enter__")())
    frame.machine.entered.append(manager)


@instruction(pushes=1)
def EXIT(frame: Frame, x: int, n: int) -> None:
    """Leave the context manager entered last; push what its `__exit__` gives for (None, None, None)."""
    manager = frame.machine.entered.pop()
    frame.stack.append(special_method(manager, "__exit__")(None, None, None))


# -- containers


@instruction(x=Operand.NUMBER, pops=X, pushes=1)
def TUPLE_CONSTRUCT(frame: Frame, x: int, n: int) -> None:
    """Make a tuple of X values."""
    frame.stack.append(tuple(_pop_several(frame.stack, x)))


def _link_named_tuple(code: Code, position: int) -> Linked:
    _, x, n = code.instructions[position]
    wanted: Any = code.types[x]
    return NAMED_TUPLE_CONSTRUCT, named_tuple_class(wanted), n


@instruction(x=Operand.TYPE, n=Operand.NUMBER, pops=N, pushes=1, link=_link_named_tuple)
def NAMED_TUPLE_CONSTRUCT(frame: Frame, x: Any, n: int) -> None:
    """Make a named tuple of type X of N values."""
    frame.stack.append(x(*_pop_several(frame.stack, n)))


@instruction(x=Operand.TYPE, n=Operand.NUMBER, pops=N, pushes=1)
def LIST_CONSTRUCT(frame: Frame, x: Any, n: int) -> None:
    """Make a list of N values."""
    frame.stack.append(_pop_several(frame.stack, n))


@instruction(x=Operand.TYPE, n=Operand.NUMBER, pops=N, pushes=1)
def DICT_CONSTRUCT(frame: Frame, x: Any, n: int) -> None:
    """Make a dict of N/2 keys and values, alternating; a later key wins."""
    values = _pop_several(frame.stack, n)
    frame.stack.append(dict(zip(values[::2], values[1::2], strict=True)))


@instruction(x=Operand.NUMBER, pops=1, pushes=X)
def LIST_UNPACK(frame: Frame, x: int, n: int) -> None:
    """Push the X elements of a list; ValueError if it has another length."""
    values = frame.stack.pop()
    if len(values) < x:
        raise ValueError(f"not enough values to unpack (expected {x}, got {len(values)})")
    if len(values) > x:
        raise ValueError(f"too many values to unpack (expected {x})")
    frame.stack.extend(values)


@instruction(pops=2, pushes=1)
def TUPLE_INDEX(frame: Frame, x: int, n: int) -> None:
    """Pop a tuple and an index; push the element."""
    index = frame.stack.pop()
    frame.stack[-1] = frame.stack[-1][index]


@instruction(x=Operand.NUMBER, n=Operand.NUMBER, pops=1, pushes=1)
def TUPLE_SLICE(frame: Frame, x: int, n: int) -> None:
    """Replace a tuple by its N elements from X on."""
    frame.stack[-1] = frame.stack[-1][x : x + n]


@instruction(pops=2, pushes=1)
def DICT_INDEX(frame: Frame, x: int, n: int) -> None:
    """Pop a dict and a key; push the value, or raise KeyError."""
    key = frame.stack.pop()
    frame.stack[-1] = frame.stack[-1][key]


# -- types, identity, truth


def _link_isinstance(code: Code, position: int) -> Linked:
    _, x, n = code.instructions[position]
    return ISINSTANCE, tuple(checker(t) for t in code.types[x : x + n]), n


@instruction(x=Operand.TYPE, n=Operand.NUMBER, pops=1, pushes=1, link=_link_isinstance)
def ISINSTANCE(frame: Frame, x: Any, n: int) -> None:
    """Replace a value by whether it is of one of the N types from X on."""
    value = frame.stack[-1]
    frame.stack[-1] = any(has_type(value) for has_type in x)


@instruction(pops=2, pushes=1)
def __IS__(frame: Frame, x: int, n: int) -> None:
    """Pop two values; push whether they are the same object."""
    second = frame.stack.pop()
    frame.stack[-1] = frame.stack[-1] is second


@instruction(pops=2, pushes=1)
def __ISNOT__(frame: Frame, x: int, n: int) -> None:
    """Pop two values; push whether they are different objects."""
    second = frame.stack.pop()
    frame.stack[-1] = frame.stack[-1] is not second


@instruction(pops=1, pushes=1)
def __NOT__(frame: Frame, x: int, n: int) -> None:
    """Negate a bool."""
    frame.stack[-1] = not frame.stack[-1]


# -- strings, warnings, errors


@instruction(x=Operand.NUMBER, pops=X, pushes=1)
def FORMAT(frame: Frame, x: int, n: int) -> None:
    """Pop a format string and X-1 values; push `format_string.format(values ...)`."""
    frame.stack.append(format_by_position(*_pop_several(frame.stack, x)))


def _link_warning(code: Code, position: int) -> Linked:
    found = code.places[position].range
    where = (found.filename or "<string>", found.line) if found else ("<string>", 0)
    return WARN, (where, code.warned), 0


@instruction(x=Operand.NUMBER, pops=2, link=_link_warning)
def WARN(frame: Frame, x: Any, n: int) -> None:
    """Pop a message and a stack level; give a UserWarning for the line. X is the warning's number, -1 for none."""
    frame.stack.pop()
    message = frame.stack.pop()
    (filename, line), registry = x
    warnings.warn_explicit(message, UserWarning, filename, line, registry=registry)


@instruction(pops=2, falls_through=False)
def RAISE_EXCEPTION(frame: Frame, x: int, n: int) -> None:
    """Pop a message and a qualified class name, or None, and raise that exception."""
    name = frame.stack.pop()
    raise make_exception(frame.stack.pop(), name)


# -- tensors


@instruction(pops=1, pushes=1)
def DTYPE(frame: Frame, x: int, n: int) -> None:
    """Replace a tensor by its dtype."""
    frame.stack[-1] = frame.stack[-1].dtype


@instruction(pops=1, pushes=1)
def DEVICE(frame: Frame, x: int, n: int) -> None:
    """Replace a tensor by its device."""
    frame.stack[-1] = frame.stack[-1].device


@instruction(pops=1, pushes=1)
def DIM(frame: Frame, x: int, n: int) -> None:
    """Replace a tensor by its number of dimensions."""
    frame.stack[-1] = frame.stack[-1].dim()


@instruction(pops=1, pushes=1)
def IS_CUDA(frame: Frame, x: int, n: int) -> None:
    """Replace a tensor by whether it is on a CUDA device."""
    frame.stack[-1] = frame.stack[-1].is_cuda


@instruction(pops=1, pushes=1)
def NUM_TO_TENSOR(frame: Frame, x: int, n: int) -> None:
    """Replace a number by a tensor without dimensions: int64, float64, complex128 or bool."""
    frame.stack[-1] = number_to_tensor(frame.stack[-1])


@instruction(pops=3, pushes=1)
def TO_LIST(frame: Frame, x: int, n: int) -> None:
    """Pop a tensor, the depth of the list wanted and the kind of its elements; push the nested list."""
    frame.stack.append(tolist(*_pop_several(frame.stack, 3)))


def reference() -> str:
    """The text of `docs/instructions.md`."""
    lines = [
        "# Instructions",
        "",
        "Generated from `jitlite/interpreter/instructions.py`. An instruction is an opcode with two numbers X and N;"
        + " the columns X and N say what they are (`-`: unused, 0). *pops* and *pushes* count values of the stack."
        + " Jumps are relative to the jump itself. Registers count from 1.",
        "",
        "| opcode | X | N | pops | pushes | effect |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for spec in TABLE.values():
        doc = " ".join(spec.doc.split())
        pushes = spec.pushes.text + (f" (jump: {spec.taken[1].text})" if spec.taken else "")
        name = spec.name.replace("_", r"\_")
        lines.append(f"| {name} | {spec.x.value} | {spec.n.value} | {spec.pops.text} | {pushes} | {doc} |")
    return "\n".join(lines) + "\n"
