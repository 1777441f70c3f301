"""The instruction table.

Every instruction is declared once: what its operands X and N mean, how many values it pops and pushes, and, as a
function, what it does. The compiler, the loop, the stack checker, the disassembler and `docs/instructions.md` derive
from these declarations.

The function gets the frame, X with its meaning looked up (the constant, the callable of the operator, ...) and N. It
returns None to go on with the next instruction, an offset to jump, or SWITCH after entering or leaving a frame.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from jitlite.interpreter.code import Code, Linked
from jitlite.interpreter.frames import SWITCH, CallFrame, Protection
from jitlite.interpreter.futures import wait
from jitlite.interpreter.instruction_specs import (
    CALL_INPUTS,
    CALL_OUTPUTS,
    CODE_OUTPUTS,
    LOOP_RESULTS,
    LOOP_SLOTS,
    OP_INPUTS,
    OP_OUTPUTS,
    TABLES,
    Count,
    Handler,
    InstructionSpec,
    N,
    Operand,
    X,
    fixed,
)
from jitlite.interpreter.stack import CALL_FOR_ONE_RESULT, call_with, pop_several
from jitlite.ir.awaits import Await
from jitlite.ir.formatting import format_by_position
from jitlite.ir.object_creation import maker_of
from jitlite.ir.values import UNINITIALIZED, checker, named_tuple_class, object_class, script_method, special_method
from jitlite.operators.prims import make_exception, tolist
from jitlite.operators.tensors import number_to_tensor

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
        counts = [fixed(c) if isinstance(c, int) else c for c in (pops, pushes)]
        doc = (run.__doc__ or "").strip()
        TABLE[name] = InstructionSpec(name, run, x, n, counts[0], counts[1], taken, falls_through, link, doc)
        return run

    return declare


def link(code: Code) -> list[Linked]:
    """The instructions of `code` ready to run."""
    return [_link_one(code, position) for position in range(len(code.instructions))]


def _link_one(code: Code, position: int) -> Linked:
    opcode, x, n = code.instructions[position]
    spec = TABLE[opcode]
    if spec.link is not None:
        return spec.link(code, position)
    table = TABLES.get(spec.x)
    return spec.run, x if table is None else table(code)[x], n


# -- operators


def _link_operator(code: Code, position: int) -> Linked:
    operator = code.operators[code.instructions[position].x]
    if operator.outputs == 1 and not operator.spread:
        special = CALL_FOR_ONE_RESULT.get(operator.inputs)
        if special is not None:
            return special, operator.fn, 0
    return OP, operator, 0


@instruction(x=Operand.OPERATOR, pops=OP_INPUTS, pushes=OP_OUTPUTS, link=_link_operator)
def OP(frame: CallFrame, x: Any, n: int) -> None:
    """Call operator X with as many arguments as it has inputs; push its results."""
    call_with(frame.stack, x, x.inputs)


@instruction(
    x=Operand.OPERATOR,
    n=Operand.NUMBER,
    pops=N,
    pushes=OP_OUTPUTS,
    link=lambda code, at: (OPN, code.operators[code.instructions[at].x], code.instructions[at].n),
)
def OPN(frame: CallFrame, x: Any, n: int) -> None:
    """Call operator X, which takes any number of arguments, with N; push its results."""
    call_with(frame.stack, x, n)


# -- registers and constants


@instruction(x=Operand.REGISTER, pushes=1)
def LOAD(frame: CallFrame, x: int, n: int) -> None:
    """Push register X."""
    frame.stack.append(frame.registers[x])


@instruction(x=Operand.REGISTER, pushes=1)
def MOVE(frame: CallFrame, x: int, n: int) -> None:
    """Push register X and clear it: this is its last use."""
    registers = frame.registers
    frame.stack.append(registers[x])
    registers[x] = None


@instruction(x=Operand.REGISTER, pops=1)
def STORE(frame: CallFrame, x: int, n: int) -> None:
    """Pop into register X."""
    frame.registers[x] = frame.stack.pop()


@instruction(x=Operand.REGISTER, n=Operand.NUMBER, pops=N)
def STOREN(frame: CallFrame, x: int, n: int) -> None:
    """Pop N values into registers X, X+1 ...; the topmost goes into the last."""
    frame.registers[x : x + n] = pop_several(frame.stack, n)


@instruction(pops=1)
def DROP(frame: CallFrame, x: int, n: int) -> None:
    """Pop and forget."""
    frame.stack.pop()


@instruction(x=Operand.REGISTER)
def DROPR(frame: CallFrame, x: int, n: int) -> None:
    """Clear register X."""
    frame.registers[x] = None


@instruction(x=Operand.CONSTANT, pushes=1)
def LOADC(frame: CallFrame, x: object, n: int) -> None:
    """Push constant X."""
    frame.stack.append(x)


@instruction(pushes=1)
def UN_INITIALIZED(frame: CallFrame, x: int, n: int) -> None:
    """Push a value that is never read."""
    frame.stack.append(UNINITIALIZED)


# -- control flow


@instruction(x=Operand.JUMP, pops=1)
def JF(frame: CallFrame, x: int, n: int) -> int | None:
    """Pop a bool; jump by X if it is false."""
    return None if frame.stack.pop() else x


@instruction(x=Operand.JUMP, falls_through=False)
def JMP(frame: CallFrame, x: int, n: int) -> int:
    """Jump by X."""
    return x


@instruction(x=Operand.JUMP, n=Operand.NUMBER, pops=LOOP_SLOTS, pushes=LOOP_SLOTS, taken=(LOOP_SLOTS, LOOP_RESULTS))
def LOOP(frame: CallFrame, x: int, n: int) -> int | None:
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


@instruction(x=Operand.JUMP, taken=(fixed(0), fixed(1)), link=_link_try)
def TRY(frame: CallFrame, x: int, n: int) -> None:
    """Begin what is protected. An exception before the END_TRY leaves the frames and contexts entered since, shortens
    the stack to what it is now, pushes itself and goes on at the handler, by X from here.
    """
    machine = frame.machine
    machine.handlers.append(Protection(len(machine.frames), x, len(frame.stack), len(machine.entered)))


@instruction(x=Operand.JUMP, falls_through=False)
def END_TRY(frame: CallFrame, x: int, n: int) -> int:
    """End what is protected; jump by X, behind the handler."""
    frame.machine.handlers.pop()
    return x


@instruction(pops=CODE_OUTPUTS, falls_through=False)
def RET(frame: CallFrame, x: int, n: int) -> int:
    """Leave the function; its results are on the stack."""
    frame.machine.frames.pop()
    return SWITCH


@instruction(x=Operand.FUNCTION, pops=CALL_INPUTS, pushes=CALL_OUTPUTS)
def CALL(frame: CallFrame, x: Any, n: int) -> int:
    """Call function X with the arguments on the stack."""
    machine = frame.machine
    machine.enter(machine.code_for(x))
    return SWITCH


@instruction(x=Operand.CONSTANT, n=Operand.NUMBER, pops=N, pushes=1)
def INTERFACE_CALL(frame: CallFrame, x: str, n: int) -> None:
    """Call the method named by constant X of the first of N arguments, looked up when running."""
    receiver, *arguments = pop_several(frame.stack, n)
    frame.stack.append(script_method(receiver, x)(*arguments))


@instruction(x=Operand.CONSTANT, n=Operand.NUMBER, pops=N, pushes=1)
def PY_CALL(frame: CallFrame, x: Any, n: int) -> None:
    """Call the Python callable that is constant X with N arguments."""
    frame.stack.append(x(*pop_several(frame.stack, n)))


@instruction(x=Operand.FUNCTION, n=Operand.NUMBER, pops=N, pushes=1)
def FORK(frame: CallFrame, x: Any, n: int) -> None:
    """Push a future of function X called with N arguments, which a thread of a pool runs. WAIT raises its errors."""
    machine = frame.machine
    frame.stack.append(machine.fork(partial(machine.evaluate, x, pop_several(frame.stack, n))))


@instruction(x=Operand.FUNCTION, n=Operand.NUMBER, pops=N, pushes=1)
def AWAITABLE(frame: CallFrame, x: Any, n: int) -> None:
    """Push a result that is computed, by calling function X with N arguments, when it is first waited for."""
    frame.stack.append(Await(partial(frame.machine.evaluate, x, pop_several(frame.stack, n))))


@instruction(pops=1, pushes=1)
def WAIT(frame: CallFrame, x: int, n: int) -> None:
    """Replace a future by its value."""
    stack = frame.stack
    stack[-1] = wait(stack[-1])


# -- objects and context managers


@instruction(x=Operand.NAME, pops=1, pushes=1)
def GET_ATTR(frame: CallFrame, x: str, n: int) -> None:
    """Replace an object by its attribute X."""
    stack = frame.stack
    stack[-1] = getattr(stack[-1], x)


@instruction(x=Operand.NAME, pops=2)
def SET_ATTR(frame: CallFrame, x: str, n: int) -> None:
    """Pop an object and a value; make the value attribute X of the object."""
    value = frame.stack.pop()
    setattr(frame.stack.pop(), x, value)


@instruction(x=Operand.NAME, pops=2)
def INIT_ATTR(frame: CallFrame, x: str, n: int) -> None:
    """The same for an object of a frozen dataclass, whose attributes only its `__init__` sets."""
    value = frame.stack.pop()
    object.__setattr__(frame.stack.pop(), x, value)


def _link_class(code: Code, position: int) -> Linked:
    wanted: Any = code.types[code.instructions[position].x]
    return CREATE_OBJECT, maker_of(object_class(wanted)), 0


@instruction(x=Operand.TYPE, pushes=1, link=_link_class)
def CREATE_OBJECT(frame: CallFrame, x: Any, n: int) -> None:
    """Push a new object of class X; its `__init__` is called separately."""
    frame.stack.append(x())


@instruction(pops=1, pushes=1)
def ENTER(frame: CallFrame, x: int, n: int) -> None:
    """Enter a context manager: replace it by what its `__enter__` gives."""
    stack = frame.stack
    manager = stack.pop()
    stack.append(special_method(manager, "__enter__")())
    frame.machine.entered.append(manager)


@instruction(pushes=1)
def EXIT(frame: CallFrame, x: int, n: int) -> None:
    """Leave the context manager entered last; push what its `__exit__` gives for (None, None, None)."""
    manager = frame.machine.entered.pop()
    frame.stack.append(special_method(manager, "__exit__")(None, None, None))


# -- containers


@instruction(x=Operand.NUMBER, pops=X, pushes=1)
def TUPLE_CONSTRUCT(frame: CallFrame, x: int, n: int) -> None:
    """Make a tuple of X values."""
    frame.stack.append(tuple(pop_several(frame.stack, x)))


def _link_named_tuple(code: Code, position: int) -> Linked:
    _, x, n = code.instructions[position]
    wanted: Any = code.types[x]
    return NAMED_TUPLE_CONSTRUCT, named_tuple_class(wanted), n


@instruction(x=Operand.TYPE, n=Operand.NUMBER, pops=N, pushes=1, link=_link_named_tuple)
def NAMED_TUPLE_CONSTRUCT(frame: CallFrame, x: Any, n: int) -> None:
    """Make a named tuple of type X of N values."""
    frame.stack.append(x(*pop_several(frame.stack, n)))


@instruction(x=Operand.TYPE, n=Operand.NUMBER, pops=N, pushes=1)
def LIST_CONSTRUCT(frame: CallFrame, x: object, n: int) -> None:
    """Make a list of N values."""
    frame.stack.append(pop_several(frame.stack, n))


@instruction(x=Operand.TYPE, n=Operand.NUMBER, pops=N, pushes=1)
def DICT_CONSTRUCT(frame: CallFrame, x: object, n: int) -> None:
    """Make a dict of N/2 keys and values, alternating; a later key wins."""
    values = pop_several(frame.stack, n)
    frame.stack.append(dict(zip(values[::2], values[1::2], strict=True)))


@instruction(x=Operand.NUMBER, pops=1, pushes=X)
def LIST_UNPACK(frame: CallFrame, x: int, n: int) -> None:
    """Push the X elements of a list; ValueError if it has another length."""
    values = frame.stack.pop()
    if len(values) < x:
        raise ValueError(f"not enough values to unpack (expected {x}, got {len(values)})")
    if len(values) > x:
        raise ValueError(f"too many values to unpack (expected {x})")
    frame.stack.extend(values)


@instruction(pops=2, pushes=1)
def TUPLE_INDEX(frame: CallFrame, x: int, n: int) -> None:
    """Pop a tuple and an index; push the element."""
    index = frame.stack.pop()
    frame.stack[-1] = frame.stack[-1][index]


@instruction(x=Operand.NUMBER, n=Operand.NUMBER, pops=1, pushes=1)
def TUPLE_SLICE(frame: CallFrame, x: int, n: int) -> None:
    """Replace a tuple by its N elements from X on."""
    frame.stack[-1] = frame.stack[-1][x : x + n]


@instruction(pops=2, pushes=1)
def DICT_INDEX(frame: CallFrame, x: int, n: int) -> None:
    """Pop a dict and a key; push the value, or raise KeyError."""
    key = frame.stack.pop()
    frame.stack[-1] = frame.stack[-1][key]


# -- types, identity, truth


def _link_isinstance(code: Code, position: int) -> Linked:
    _, x, n = code.instructions[position]
    return ISINSTANCE, tuple(checker(t) for t in code.types[x : x + n]), n


@instruction(x=Operand.TYPE, n=Operand.NUMBER, pops=1, pushes=1, link=_link_isinstance)
def ISINSTANCE(frame: CallFrame, x: Any, n: int) -> None:
    """Replace a value by whether it is of one of the N types from X on."""
    value = frame.stack[-1]
    frame.stack[-1] = any(has_type(value) for has_type in x)


@instruction(pops=2, pushes=1)
def __IS__(frame: CallFrame, x: int, n: int) -> None:
    """Pop two values; push whether they are the same object."""
    second = frame.stack.pop()
    frame.stack[-1] = frame.stack[-1] is second


@instruction(pops=2, pushes=1)
def __ISNOT__(frame: CallFrame, x: int, n: int) -> None:
    """Pop two values; push whether they are different objects."""
    second = frame.stack.pop()
    frame.stack[-1] = frame.stack[-1] is not second


@instruction(pops=1, pushes=1)
def __NOT__(frame: CallFrame, x: int, n: int) -> None:
    """Negate a bool."""
    frame.stack[-1] = not frame.stack[-1]


# -- strings, warnings, errors


@instruction(x=Operand.NUMBER, pops=X, pushes=1)
def FORMAT(frame: CallFrame, x: int, n: int) -> None:
    """Pop a format string and X-1 values; push `format_string.format(values ...)`."""
    frame.stack.append(format_by_position(*pop_several(frame.stack, x)))


def _link_warning(code: Code, position: int) -> Linked:
    found = code.places[position].range
    where = (found.filename or "<string>", found.line) if found else ("<string>", 0)
    return WARN, (where, code.warned), 0


@instruction(x=Operand.NUMBER, pops=2, link=_link_warning)
def WARN(frame: CallFrame, x: Any, n: int) -> None:
    """Pop a message and a stack level; give a UserWarning for the line. X is the warning's number, -1 for none."""
    frame.stack.pop()
    message = frame.stack.pop()
    (filename, line), registry = x
    warnings.warn_explicit(message, UserWarning, filename, line, registry=registry)


@instruction(pops=2, falls_through=False)
def RAISE_EXCEPTION(frame: CallFrame, x: int, n: int) -> None:
    """Pop a message and a qualified class name, or None, and raise that exception."""
    name = frame.stack.pop()
    raise make_exception(frame.stack.pop(), name)


# -- tensors


@instruction(pops=1, pushes=1)
def DTYPE(frame: CallFrame, x: int, n: int) -> None:
    """Replace a tensor by its dtype."""
    frame.stack[-1] = frame.stack[-1].dtype


@instruction(pops=1, pushes=1)
def DEVICE(frame: CallFrame, x: int, n: int) -> None:
    """Replace a tensor by its device."""
    frame.stack[-1] = frame.stack[-1].device


@instruction(pops=1, pushes=1)
def DIM(frame: CallFrame, x: int, n: int) -> None:
    """Replace a tensor by its number of dimensions."""
    frame.stack[-1] = frame.stack[-1].dim()


@instruction(pops=1, pushes=1)
def IS_CUDA(frame: CallFrame, x: int, n: int) -> None:
    """Replace a tensor by whether it is on a CUDA device."""
    frame.stack[-1] = frame.stack[-1].is_cuda


@instruction(pops=1, pushes=1)
def NUM_TO_TENSOR(frame: CallFrame, x: int, n: int) -> None:
    """Replace a number by a tensor without dimensions: int64, float64, complex128 or bool."""
    frame.stack[-1] = number_to_tensor(frame.stack[-1])


@instruction(pops=3, pushes=1)
def TO_LIST(frame: CallFrame, x: int, n: int) -> None:
    """Pop a tensor, the depth of the list wanted and the kind of its elements; push the nested list."""
    frame.stack.append(tolist(*pop_several(frame.stack, 3)))
