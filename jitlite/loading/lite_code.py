"""Methods of the lite interpreter (`bytecode.pkl`) -> code of the stack machine.

    ("__torch__.M.forward", (("instructions", (("STOREN", 1, 2), ...)),
     ("operators", (("aten::add", "Tensor", 2), ...)), ("constants", (...)), ("types", ("List[int]", ...)),
     ("register_size", 7)), (("arguments", ...), ("returns", ...)))

Its instructions are the machine's own but for those that reach objects: there an attribute is a number and a method is
a name, and both become operators. A method is checked as a whole before it can run. In these programs dtypes and
layouts are numbers, at run time too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from jitlite.archive.errors import ArchiveError
from jitlite.base.records import Record
from jitlite.executor.executor import executor_of
from jitlite.interpreter.check import CodeError, check_code
from jitlite.interpreter.code import Code, CodePlace, Operator
from jitlite.interpreter.code import Instruction as I
from jitlite.interpreter.instruction_specs import Operand
from jitlite.interpreter.instructions import TABLE, link
from jitlite.ir import ops
from jitlite.ir.int_codes import INT_CODES, is_int_coded
from jitlite.ir.ops import Op
from jitlite.ir.schema import Argument, Schema
from jitlite.ir.traits import Spelling
from jitlite.loading.archive_names import Permissions, may_raise
from jitlite.loading.lite_module import call_method, get_slot, set_slot
from jitlite.loading.lite_types import LiteTypes
from jitlite.loading.upgraders import upgrader_of
from jitlite.operators.prims import make_exception

MEMBER = "bytecode.pkl"

_MOST_REGISTERS = 1 << 20
_SAME = frozenset(
    {"OPN", "LOAD", "MOVE", "STORE", "STOREN", "DROP", "DROPR", "LOADC", "JF", "JMP", "LOOP", "RET", "LIST_CONSTRUCT",
     "LIST_UNPACK", "TUPLE_CONSTRUCT", "TUPLE_SLICE", "TUPLE_INDEX", "DICT_CONSTRUCT", "NAMED_TUPLE_CONSTRUCT",
     "DICT_INDEX", "ISINSTANCE", "__IS__", "__ISNOT__", "__NOT__", "UN_INITIALIZED", "FORMAT", "DEVICE",
     "DIM", "IS_CUDA", "TO_LIST", "NUM_TO_TENSOR", "WARN"}
)  # fmt: skip
"""Instructions that are the machine's."""
_NOT_NEGATIVE = frozenset({"LIST_UNPACK", "TUPLE_CONSTRUCT", "TUPLE_SLICE", "FORMAT"})
_DTYPE = "prim::dtype"
_GIVE_CODES = frozenset({_DTYPE, "prim::layout"})
"""Operators that give a dtype or a layout, which is to be its number."""


class Missing(Record, eq=True, frozen=False):
    """What a program needs and cannot have."""

    operators: dict[str, None] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    instructions: dict[str, None] = field(default_factory=dict)

    def check(self) -> None:
        """See that nothing is missing.

        Raises:
            ArchiveError: something is; all of it is named.
        """
        if self.instructions:
            raise ArchiveError(f"it uses instructions that are not known: {', '.join(self.instructions)}", MEMBER)
        if self.refused:
            listed = "; ".join(f"'{name}' {why}" for name, why in self.refused.items())
            raise ArchiveError(
                f"it uses operators that are refused: {listed}", MEMBER,
                hint=f"if you trust the archive, allow them by name: load(file, allow={list(self.refused)})",
            )  # fmt: skip
        if self.operators:
            raise ArchiveError(
                f"it uses operators that torch does not have here: {', '.join(self.operators)}", MEMBER,
                hint="import the libraries that define them, or export the model anew",
            )  # fmt: skip


class LiteContext(Record, eq=True):
    """What the methods of one file have in common: the version of its operators, what it may use, its types."""

    version: int
    permissions: Permissions
    types: LiteTypes
    missing: Missing


def method_code(name: str, table: object, inputs: int | None, context: LiteContext) -> Code | None:
    """The code of a method, checked; None where something is missing, which `context.missing` is told.

    Args:
        table: its instructions and tables, as the file has them.
        inputs: how many parameters it has; None where the file does not say.

    Raises:
        ArchiveError: it is damaged.
    """
    fields = _fields(table, ("instructions", "operators", "constants", "types", "register_size"), name)
    instructions = [_instruction(entry, name) for entry in _sequence(fields["instructions"], name)]
    if inputs is None:
        inputs = _stored_first(instructions)
    registers = fields["register_size"]
    if type(registers) is not int or not 0 <= registers <= _MOST_REGISTERS:
        raise ArchiveError(f"{name} has {registers!r} registers", MEMBER)
    tables = {key: _sequence(fields[key], name) for key in ("operators", "constants", "types")}
    operators = [_named(entry, name) for entry in tables["operators"]]
    constants, types = list(tables["constants"]), context.types.parse_all(tables["types"])
    # exceptions once had no class; the number of arguments in the file is the same
    raise_arguments = (2, 1) if any(o[0] == "prim::RaiseException" for o in operators) else (2,)
    fault: CodeError | None = None
    for count in raise_arguments:
        code = Code(name, inputs=inputs, outputs=1, register_size=registers, constants=constants, types=types)
        translation = _Translation(code, operators, context, count)
        if not translation.run(instructions):
            return None
        try:
            check_code(code)
        except CodeError as error:
            fault = fault or error
            continue
        code.program = link(code)
        return code
    raise ArchiveError(f"the program is damaged: {fault}", MEMBER)


def _stored_first(instructions: Sequence[I]) -> int:
    """The number of parameters of a method, which it begins by storing."""
    first = instructions[0] if instructions else I("RET")
    return first.n if first.opcode == "STOREN" else 1


# -- the tables


def _fields(table: object, names: Sequence[str], method: str) -> dict[str, Any]:
    entries = _sequence(table, method)
    found = {e[0]: e[1] for e in entries if isinstance(e, tuple) and len(e) == 2 and isinstance(e[0], str)}
    for name in names:
        if name not in found:
            raise ArchiveError(f"{method} has no table '{name}'", MEMBER)
    return found


def _sequence(value: object, method: str) -> Sequence[Any]:
    if not isinstance(value, tuple | list):
        raise ArchiveError(f"a table of {method} is a {type(value).__name__}", MEMBER)
    return value


def _instruction(entry: object, method: str) -> I:
    if not (isinstance(entry, tuple) and len(entry) == 3 and isinstance(entry[0], str)):
        raise ArchiveError(f"an instruction of {method} is none", MEMBER)
    opcode, x, n = entry
    if type(x) is not int or type(n) is not int or not 0 <= n < 1 << 16 or abs(x) >= 1 << 31:
        raise ArchiveError(f"an instruction of {method} has impossible numbers", MEMBER)
    return I(opcode, x, n)


_Named = tuple[str, str, "int | None"]
"""Name and overload of an operator, and how many arguments it is given (None: all)."""


def _named(entry: object, method: str) -> _Named:
    if not (isinstance(entry, tuple) and len(entry) in (2, 3) and all(isinstance(e, str) for e in entry[:2])):
        raise ArchiveError(f"an operator of {method} is none", MEMBER)
    given = entry[2] if len(entry) == 3 else None
    return entry[0], entry[1], given if type(given) is int and given >= 0 else None


# -- instructions


class _Translation:
    """The instructions of one method, being translated."""

    def __init__(self, code: Code, names: Sequence[_Named], context: LiteContext, raise_arguments: int) -> None:
        self.code = code
        self.raise_arguments = raise_arguments
        self.names = names
        self.context = context
        self.operators: dict[int, int | None] = {}

    def run(self, instructions: Sequence[I]) -> bool:
        """Translate all; False where something is missing."""
        complete = True
        for entry, behind in zip(instructions, [*instructions[1:], I("RET")], strict=True):
            made = self.translated(entry, behind)
            complete = complete and made is not None
            self.code.instructions.append(made or entry)
            self.code.places.append(CodePlace(None))
        return complete

    def translated(self, entry: I, behind: I) -> I | None:
        """What stands for an instruction of the file, which `behind` follows; None where something is missing."""
        opcode = entry.opcode
        if opcode in ("OP", "OPN"):
            return self.operator(entry, behind)
        if opcode in _OBJECTS:
            return self.object_access(entry)
        if opcode in _AS_OPERATORS:
            return self.use(_AS_OPERATORS[opcode])
        if opcode in _SAME:
            return self.same(entry)
        self.context.missing.instructions[opcode] = None
        return None

    def same(self, entry: I) -> I:
        opcode, x, n = entry
        spec = TABLE[opcode]
        if spec.x is Operand.JUMP and x == 0:
            raise self._fault(entry, "jumps nowhere")
        if (opcode in _NOT_NEGATIVE and x < 0) or (opcode == "LOOP" and n < 2):
            raise self._fault(entry, "has impossible numbers")
        # numbers that mean nothing need not be zero in a file
        return I(opcode, 0 if spec.x is Operand.NONE else x, 0 if spec.n is Operand.NONE else n)

    def _fault(self, entry: I, what: str) -> ArchiveError:
        return ArchiveError(f"the program is damaged: {self.code.name}: {entry} {what}", MEMBER)

    def use(self, operator: Operator, n: int | None = None) -> I:
        self.code.operators.append(operator)
        at = len(self.code.operators) - 1
        return I("OP", at) if n is None else I("OPN", at, n)

    def object_access(self, entry: I) -> I:
        opcode, x, n = entry
        if opcode == "INTERFACE_CALL":
            name = self.code.constants[x] if 0 <= x < len(self.code.constants) else None
            if not isinstance(name, str) or n < 1:
                raise self._fault(entry, "calls no method")
            return self.use(Operator(f"method {name}", "", call_method(name), -1, 1, False), n)
        if x < 0:
            raise self._fault(entry, "has impossible numbers")
        if opcode == "GET_ATTR":
            return self.use(Operator("prim::GetAttr", "", get_slot(x), 1, 1, False))
        return self.use(Operator("prim::SetAttr", "", set_slot(x), 2, 0, False))

    # -- operators
    def operator(self, entry: I, behind: I) -> I | None:
        """What stands for OP or OPN. The first programs had operators for what has become instructions."""
        opcode, x, n = entry
        if not 0 <= x < len(self.names):
            raise self._fault(entry, f"operator {x} is not among the {len(self.names)}")
        name, overload, given = self.names[x]
        if name == "prim::TupleUnpack":
            outputs = behind.n if behind.opcode == "STOREN" else 1  # where they are several, they are stored at once
            return self.use(Operator(name, "", _elements(outputs), 1, outputs, True))
        direct = Spelling.OPCODE.of(name)
        if direct is not None and name not in _GIVE_CODES:
            return I(direct)
        if name == "prim::RaiseException":
            return self.use(_RAISE if self.raise_arguments == 2 else _RAISE_MESSAGE)
        if name == "prim::Uninitialized":
            return I("UN_INITIALIZED")
        if name == "aten::format":
            return I("FORMAT", n)
        if opcode == "OPN" or x not in self.operators:
            made = self.resolved(name, overload, given)
            if made is None:
                return None
            return self.remembered(x, made) if opcode == "OP" else self.use(made, n)
        return I("OP", self.operators[x] or 0)

    def remembered(self, x: int, operator: Operator) -> I:
        made = self.use(operator)
        self.operators[x] = made.x
        return made

    def resolved(self, name: str, overload: str, given: int | None) -> Operator | None:
        """The operator, in the version of the file, with defaults for arguments that are not given."""
        qualified = f"{name}.{overload}" if overload else name
        missing = self.context.missing
        reason = self.context.permissions.refusal(name)
        if reason is not None:
            missing.refused[name] = reason
            return None
        found = next((op for op in ops.lookup(name) if op.schema.overload == overload), None)
        if found is None or found.fn is None or found.attributes:
            missing.operators[qualified] = None
            return None
        older = upgrader_of(qualified, self.context.version)
        if older is not None:
            run = executor_of(older).run
            return _operator(found, lambda *arguments: run(list(arguments)), older.schema, given)
        return _operator(found, found.fn, found.schema, given)


def _raise(message: Any, name: Any = None) -> None:
    raise make_exception(message, name if may_raise(name) else None)


_RAISE = Operator("prim::RaiseException", "", _raise, 2, 0, False)
"""Raises an exception, but for those that end the process. Code follows it, which is never reached."""
_RAISE_MESSAGE = Operator("prim::RaiseException", "", _raise, 1, 0, False)


def _given_code(fn: Any) -> Callable[..., Any]:
    def call(*arguments: object) -> Any:
        result = fn(*arguments)
        return INT_CODES.get(result, result)

    return call


_AS_OPERATORS = {
    "DTYPE": Operator(_DTYPE, "", _given_code(ops.lookup(_DTYPE)[0].fn), 1, 1, False),
    "UNCHECKED_CAST": Operator("prim::unchecked_cast", "", lambda value: value, 1, 1, False),
    "RAISE_EXCEPTION": _RAISE,
}
"""Instructions that have another meaning here than the machine's."""
_OBJECTS = frozenset({"GET_ATTR", "SET_ATTR", "INTERFACE_CALL"})


def _elements(count: int) -> Callable[[Any], Any]:
    def elements(value: object) -> Any:
        if not isinstance(value, tuple) or len(value) != count:
            raise TypeError(f"the program takes a {type(value).__name__} for a tuple of {count}")
        return value

    return elements


def _operator(found: Op, fn: Callable[..., object], schema: Schema, given: int | None) -> Operator:
    outputs = len(schema.returns)
    if found.name in _GIVE_CODES or (outputs == 1 and is_int_coded(found.schema.returns[0].declared_type)):
        fn = _given_code(fn)
    if schema.is_vararg:
        return Operator(found.name, found.schema.overload, fn, -1, outputs, False)
    arguments = schema.arguments
    if given is None or given == len(arguments):
        return Operator(found.name, found.schema.overload, fn, len(arguments), outputs, outputs > 1)
    written = sum(a.is_write and a.kwarg_only for a in found.schema.arguments)
    filled = _with_defaults(fn, arguments, given, written, found.schema.qualified)
    return Operator(found.name, found.schema.overload, filled, given, outputs, outputs > 1)


def _with_defaults(
    fn: Callable[..., object], arguments: Sequence[Argument], given: int, written: int, name: str
) -> Callable[..., Any]:
    """The function of the arguments that are given: the first, and the last `written`, where results are put."""
    first, last = given - written, len(arguments) - written
    if first < 0 or given > len(arguments) or not all(a.has_default for a in arguments[first:last]):
        raise ArchiveError(f"{name} is given {given} of {len(arguments)} arguments", MEMBER)
    defaults = tuple(a.default for a in arguments[first:last])
    if not written:
        return lambda *values: fn(*values, *defaults)
    return lambda *values: fn(*values[:first], *defaults, *values[first:])
