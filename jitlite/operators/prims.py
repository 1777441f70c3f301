"""The `prim::` kinds of programs, and the operators that work on values of any kind.

Kinds with blocks, attributes or a changing number of outputs are `structural`: they are instructions of the
interpreter and have no Python callable. What only passes make is in `pass_prims.py`.
"""

from __future__ import annotations

import operator
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from jitlite.base.source import Error
from jitlite.ir import types as T
from jitlite.ir.awaits import Await
from jitlite.ir.constants import QualifiedClassName
from jitlite.ir.ops import Effect, op, structural
from jitlite.ir.traits import Link, Spelling, Trait, known
from jitlite.ir.values import value_has_type

# -- structure

OVER_RANGE = "over_range"
"""The attribute of a loop whose counter is the element of the range that it runs over, not the number of the iteration:
made in the copy of a graph that code is generated from."""

_STRUCTURAL: tuple[tuple[Any, ...], ...] = (
    ("prim::Constant() -> Any", Effect.PURE, True,
     "The value of attribute `value`; None without it. A function is named by attribute `name`.",
     Trait.TAKES_UNSEEN, Trait.NOT_FOLDED, Trait.STAYS_IN_LOOPS, Trait.NEVER_PROFILED, Trait.FORWARDS_TUPLES),
    ("prim::Uninitialized() -> Any", Effect.PURE, True, "A value that is never read.",
     Trait.NOT_FOLDED, Trait.STAYS_IN_LOOPS, Trait.NEVER_PROFILED, Trait.FORWARDS_TUPLES),
    ("prim::If(bool condition) -> ...", Effect.PURE, False,
     "Run the first block if the condition holds, else the second; the outputs are what that block returns."
     " Its effects are those of its blocks.",
     Trait.TAKES_UNSEEN, Trait.FORWARDS_TUPLES, Trait.IS_STATEMENT, Trait.KEEPS_OBJECTS_INSIDE,
     Spelling.VARIABLE("result")),
    ("prim::Loop(int max_trip_count, bool condition, ...) -> ...", Effect.PURE, False,
     "Run the block with the iteration number and the carried values, as long as the condition holds and the count is"
     " not reached; the block returns the next condition and the next carried values. Its effects are those of its"
     " block.",
     Trait.TAKES_UNSEEN, Trait.FORWARDS_TUPLES, Trait.IS_STATEMENT, Trait.KEEPS_OBJECTS_INSIDE),
    ("prim::Try() -> ...", Effect.PURE, False,
     "Run the first block; if it raises, run the second, which is given the exception. The outputs are what the block"
     " that came to its end returns. Its effects are those of its blocks. torch.jit has no such kind.",
     Trait.FORWARDS_TUPLES, Trait.IS_STATEMENT, Trait.KEEPS_OBJECTS_INSIDE, Spelling.LOST("the try statement")),
    ("prim::Region(...) -> ...", Effect.PURE, False,
     "Run the block with the inputs for its parameters, or else what there is for regions of this `kind`; the outputs"
     " are what the block returns. Its effects are those of its block. torch.jit has no such kind.",
     Trait.CLOSED, Trait.IS_STATEMENT, Trait.NEVER_NESTED, Trait.KEEPS_OBJECTS_INSIDE),
    ("prim::TupleConstruct(...) -> Any", Effect.PURE, True, "A tuple of the inputs; named as the output's type is.",
     Trait.TAKES_UNSEEN, Trait.DISPLAY, Trait.FORWARDS_TUPLES, Trait.KEEPS_OBJECTS_INSIDE, Spelling.VARIABLE("pair")),
    ("prim::TupleUnpack(Any tup) -> ...", Effect.PURE, True, "The elements of a tuple.",
     Trait.DISPLAY, Trait.FORWARDS_TUPLES, Trait.IS_STATEMENT, Trait.KEEPS_OBJECTS_INSIDE),
    ("prim::TupleSlice(Any tup) -> Any", Effect.PURE, True,
     "Elements `beg` (attribute) to `end` (attribute, exclusive) of a tuple.",
     Trait.DISPLAY, Trait.FORWARDS_TUPLES, Trait.KEEPS_OBJECTS_INSIDE),
    ("prim::ListConstruct(...) -> Any", Effect.PURE, True, "A new list of the inputs.",
     Trait.TAKES_UNSEEN, Trait.NEW_CONTAINER, Trait.LIST, Trait.DISPLAY, Trait.PACKS_NUMBERS,
     Trait.KEEPS_OBJECTS_INSIDE, Spelling.VARIABLE("items")),
    ("prim::ListUnpack(Any list) -> ...", Effect.PURE, False,
     "The elements of a list. Another number of elements than outputs is a ValueError.",
     Trait.LIST, Trait.DISPLAY, Trait.IS_STATEMENT, Trait.KEEPS_OBJECTS_INSIDE),
    ("prim::DictConstruct(...) -> Any", Effect.PURE, True, "A new dict of the inputs: key, value, key, value ...",
     Trait.NEW_CONTAINER, Trait.DISPLAY, Trait.KEEPS_OBJECTS_INSIDE, Spelling.VARIABLE("table")),
    ("prim::CreateObject() -> Any", Effect.PURE, True, "An instance of the output's class, before `__init__`.",
     Trait.NOT_FOLDED),
    ("prim::GetAttr(Any(a) self) -> Any(*)", Effect.PURE, True, "The object's attribute of the name in `name`.",
     Trait.NOT_FOLDED, Trait.ALWAYS_NESTED, Trait.KEEPS_OBJECTS_INSIDE),
    ("prim::SetAttr(Any(a!) self, Any(b -> *) value) -> ()", Effect.WRITE, False,
     "Set the object's attribute of the name in `name`.",
     Trait.KEEPS_OBJECTS_INSIDE, Spelling.LOST("what is assigned to attributes")),
    ("prim::isinstance(Any value) -> bool", Effect.PURE, True, "Is the value of one of the types in `types`?",
     Trait.KEEPS_OBJECTS_INSIDE, Spelling.VARIABLE("is_kind")),
    ("prim::CallFunction(Any function, ...) -> Any", Effect.SIDE, False,
     "Call the function, a constant, with the other inputs.",
     Trait.CALL, Spelling.LOST("the call")),
    ("prim::CallMethod(Any self, ...) -> Any", Effect.SIDE, False, "Call the object's method of the name in `name`.",
     Trait.CALL, Spelling.LOST("the call")),
    ("prim::PythonOp(...) -> ...", Effect.SIDE, False, "Call a Python function that is not compiled.",
     Trait.REFUSED_IN_ARCHIVES, Trait.RUNS_UNKNOWN, Trait.PYTHON_CALL),
    ("prim::IgnoredPythonOp(...) -> NoneType", Effect.SIDE, False,
     "Stands where a Python function was called that the archive could not contain.",
     Trait.PYTHON_CALL),
    ("prim::fork(...) -> Any", Effect.SIDE, False, "Run the graph in `Subgraph` on the inputs: a Future.",
     Trait.RUNS_UNKNOWN, Trait.GROUP, Trait.CHECKED_GROUP, Trait.DEFERS_CALL, Trait.DEFERRED,
     Spelling.LOST("the forked call"), Spelling.DEFERRED_FUNCTION("<forked function>"), Spelling.WRAPPER("Future")),
    ("prim::awaitable(...) -> Any", Effect.SIDE, False,
     "Run the graph in `Subgraph` on the inputs when the output, an Await, is first waited for.",
     Trait.RUNS_UNKNOWN, Trait.GROUP, Trait.CHECKED_GROUP, Trait.DEFERS_CALL, Trait.DEFERRED,
     Spelling.DEFERRED_FUNCTION("<awaitable function>"), Spelling.WRAPPER("Await")),
    ("prim::Enter(Any self) -> Any", Effect.SIDE, False, "Enter a context: the result of the object's `__enter__`.",
     Trait.IS_STATEMENT, Spelling.CONTEXT_METHOD("__enter__"), Spelling.LOST("the context")),
    ("prim::Exit(Any self) -> ()", Effect.SIDE, False, "Leave a context: the object's `__exit__` with three Nones.",
     Trait.IS_STATEMENT, Spelling.CONTEXT_METHOD("__exit__")),
    ("prim::Param() -> ...", Effect.SIDE, False, "The inputs of a block, as outputs of its first node.",
     Trait.NEVER_NESTED),
    ("prim::Return(...) -> ()", Effect.SIDE, False, "The outputs of a block, as inputs of its last node."),
    ("prim::Load() -> Any", Effect.STATE, False, "Read the variable `name`. Gone after SSA conversion."),
    ("prim::Store(Any value) -> ()", Effect.SIDE, False, "Write the variable `name`. Gone after SSA conversion."),
    ("prim::ReturnStmt(...) -> ()", Effect.SIDE, False, "A `return` statement. Gone after exits are removed.",
     Trait.EARLY_EXIT),
    ("prim::BreakStmt() -> ()", Effect.SIDE, False, "A `break` statement. Gone after exits are removed.",
     Trait.EARLY_EXIT),
    ("prim::ContinueStmt() -> ()", Effect.SIDE, False, "A `continue` statement. Gone after exits are removed.",
     Trait.EARLY_EXIT),
    ("prim::LeaveTry() -> ()", Effect.SIDE, False,
     "Leave what a `finally` protects for a `break` or `continue` behind it. Gone after exits are removed."),
    ("prim::LoopContinuation() -> ()", Effect.SIDE, False,
     "The block that computes the condition of a `while` loop. Gone after exits are removed.",
     Trait.EARLY_BLOCKS),
    ("prim::EmptyLiteral() -> Any", Effect.PURE, True,
     "`[]`, `{}` or `set()`, of which the type of the elements is not known yet. Gone after emission."),
    ("prim::Closure() -> Any", Effect.PURE, True,
     "The block of a call to be deferred. Gone after closures are lifted.",
     Trait.EARLY_BLOCKS, Trait.FUNCTION_SCOPE),
    ("prim::LocalCall() -> Any", Effect.SIDE, False,
     "A call of the nested function `name`, whose body is the block. Gone after exits are removed.",
     Trait.EARLY_BLOCKS, Trait.FUNCTION_SCOPE),
    ("prim::forkClosure(Any closure) -> Any", Effect.SIDE, False, "Becomes `prim::fork`.",
     Trait.RUNS_UNKNOWN, Trait.EARLY_BLOCKS),
    ("prim::awaitableClosure(Any closure) -> Any", Effect.SIDE, False, "Becomes `prim::awaitable`.",
     Trait.RUNS_UNKNOWN, Trait.EARLY_BLOCKS),
    ("prim::With() -> ()", Effect.SIDE, False,
     "The body of a `with` statement and its end, as blocks. Gone after exits are removed.",
     Trait.EARLY_BLOCKS),
    ("prim::Drop(...) -> ()", Effect.SIDE, True,
     "Forget values that are not read again. Made when a graph is turned into bytecode.",
     Trait.KEEPS_FACTS, Trait.STAYS_IN_LOOPS),
    ("prim::ComprehensionScope() -> ()", Effect.SIDE, False,
     "The block of a comprehension, whose variables are its own. Gone after SSA conversion.",
     Trait.EARLY_BLOCKS),
)  # fmt: skip
"""Schema, effect, whether it cannot raise, documentation, traits."""

for _schema, _effect, _total, _doc, *_traits in _STRUCTURAL:
    structural(_schema, _effect, _doc, total=_total, traits=tuple(_traits))


# -- any value

op(
    "aten::__is__(t1 self, t2 obj) -> bool",
    total=True,
    doc="`self is obj`.",
    traits=(
        Trait.OBSERVES_IDENTITY,
        Trait.COMPARES_CODES,
        Trait.NONE_TEST,
        Trait.CORE_QUESTION,
        Trait.KEEPS_OBJECTS_INSIDE,
        Link.OPPOSITE("aten::__isnot__"),
        Link.OF_BOOLS("aten::eq"),
        Spelling.OPCODE("__IS__"),
    ),
)(operator.is_)
op(
    "aten::__isnot__(t1 self, t2 obj) -> bool",
    total=True,
    doc="`self is not obj`.",
    traits=(
        Trait.OBSERVES_IDENTITY,
        Trait.COMPARES_CODES,
        Trait.NONE_TEST,
        Trait.CORE_QUESTION,
        Trait.KEEPS_OBJECTS_INSIDE,
        Link.OPPOSITE("aten::__is__"),
        Link.OF_BOOLS("aten::ne"),
        Spelling.OPCODE("__ISNOT__"),
    ),
)(operator.is_not)
op("aten::hash.generic(t value) -> int", Effect.STATE,
   doc="`hash(value)`, which differs from process to process.",
   traits=(Trait.OBSERVES_IDENTITY,))(hash)  # fmt: skip
op("prim::id(AnyClassType? x) -> int", Effect.STATE, total=True, doc="`id(x)`.", traits=(Trait.OBSERVES_IDENTITY,))(id)


@op(
    "prim::unchecked_cast(t x) -> t",
    total=True,
    traits=(
        Trait.SAME_VALUE,
        Trait.UNCHECKED,
        Trait.STAYS_IN_LOOPS,
        Trait.KEEPS_BOOLS,
        Trait.KEEPS_OBJECTS_INSIDE,
        Spelling.VARIABLE("known"),
    ),
)
@op(
    "prim::unchecked_unwrap_optional(t(a)? optional) -> t(a)",
    total=True,
    traits=(
        Trait.SAME_VALUE,
        Trait.UNCHECKED,
        Trait.NOT_FOLDED,
        Trait.STAYS_IN_LOOPS,
        Trait.NONE_TEST,
        Trait.KEEPS_OBJECTS_INSIDE,
    ),
)
def unchecked_cast(x: object) -> Any:
    """The value itself, known to be of a narrower type."""
    return x


@op("prim::checked_cast(t(a) x) -> t(a)", traits=(Trait.SAME_VALUE, Trait.CHECKS_CLASS))
def checked_cast(x: object, *, types: list[T.Type]) -> Any:
    """The value itself, known to be of the narrower type in `types`; a TypeError where it is not.

    Programs from archives cast so to their classes, as attributes and methods of anything else are out of their reach.
    """
    if not value_has_type(x, types[0]):
        raise TypeError(f"the program takes a {type(x).__name__} for an object of type {types[0].annotation}")
    return x


@op(
    "aten::_unwrap_optional(t(a)? optional) -> t(a)",
    traits=(
        Trait.SAME_VALUE,
        Trait.NONE_TEST,
        Trait.KEEPS_OBJECTS_INSIDE,
        Trait.SUGAR,
        Spelling.PRIVATE_FUNCTION("_unwrap_optional"),
        Spelling.VARIABLE("known"),
    ),
)
def unwrap_optional(optional: object) -> Any:
    """The value itself; an AssertionError for None."""
    if optional is None:
        raise AssertionError("Unwrapping null optional")
    return optional


for _sign, _fn in (("==", operator.eq), ("!=", operator.ne)):
    _name = f"aten::{_fn.__name__}"
    op(f"{_name}.device(Device a, Device b) -> bool", total=True, doc=f"`a {_sign} b`.")(_fn)
    op(f"{_name}.enum(AnyEnumType a, AnyEnumType b) -> bool", total=True, doc=f"`a {_sign} b`.")(_fn)


@op("prim::EnumName(AnyEnumType enum) -> str", total=True)
def enum_name(enum: Any) -> str:
    """`enum.name`."""
    name: str = enum.name
    return name


@op("prim::EnumValue.float(AnyEnumType enum) -> float", total=True)
@op("prim::EnumValue.int(AnyEnumType enum) -> int", total=True)
@op("prim::EnumValue.str(AnyEnumType enum) -> str", total=True)
def enum_value(enum: Any) -> Any:
    """`enum.value`."""
    return enum.value


op(
    "prim::Print(...) -> ()",
    Effect.SIDE,
    doc="`print(*args)`.",
    traits=(
        Trait.KEEPS_MODES,
        Trait.KEEPS_FACTS,
        Trait.SILENT,
        Trait.RUNS_METHODS,
        Trait.SHOWS,
        Spelling.LOST("what is printed"),
    ),
)(print)


# -- exceptions


def exception_class(name: str) -> type[BaseException] | None:
    """The exception class of a name. One from text or an archive means a class that Python has already.

    Those that end a process or a thread are no `Exception`; they are for programs in Python.
    """
    if isinstance(name, QualifiedClassName):
        made = name.python_class
        return made if issubclass(made, BaseException) else None
    module, _, attribute = name.removeprefix("__torch__.").rpartition(".")
    holder = sys.modules.get(module or "__main__")
    found = vars(holder).get(attribute) if isinstance(holder, ModuleType) else None
    return found if isinstance(found, type) and issubclass(found, Exception) else None


_set_arguments: Any = vars(BaseException)["args"].__set__


def instance_of(name: str, cls: type[BaseException], *args: object, **keywords: object) -> BaseException:
    """An exception of the class that a name means.

    For a name from text or an archive no code of the class runs: Python's own exception is made, of that class.
    """
    if isinstance(name, QualifiedClassName):
        return cls(*args, **keywords)
    plain: type[BaseException] = next(base for base in cls.__mro__ if base.__module__ == "builtins")
    values = (*args, *keywords.values())
    made = plain.__new__(cls, *values)
    _set_arguments(made, values)  # some classes leave that to their constructor
    return made


def shows_empty_text(cls: type[BaseException] | None) -> bool:
    """Is an exception that is made with an empty text told from one that is made of nothing? A KeyError shows the repr
    of what it is given. In graphs, no text is the empty one."""
    return cls is not None and issubclass(cls, KeyError)


def make_exception(message: str, class_name: str | None) -> BaseException:
    """The exception that `raise` in a program means.

    Args:
        message: the text given to the exception.
        class_name: the qualified name of its class. None for an assertion, whose class is written in the message, and
            where the class was not known to the compiler.

    Returns:
        An exception of that class; an `Error` where the class is not available or cannot be made of a text.
    """
    if class_name is None:
        kind, separator, text = message.partition(": ")
        if separator and kind == "AssertionError":
            return AssertionError(text) if text else AssertionError()
        return Error(message)
    cls = exception_class(class_name)
    if cls is not None:
        try:
            return instance_of(class_name, cls, *([message] if message or shows_empty_text(cls) else []))
        except TypeError:  # its constructor wants something else
            pass
    return Error(f"{class_name.removeprefix('builtins.')}: {message}")


# -- variables that a `try` sets: what its handler finds in them depends on how far the body came


@op("prim::GetCell(t[] cell) -> t(*)", total=True, traits=(Spelling.VARIABLE("cell"),))
def get_cell(cell: list[Any]) -> Any:
    """The value of a variable: the only element of the list."""
    return cell[0]


@op("prim::SetCell(t[](a!) cell, t(b -> *) value) -> ()", total=True, traits=(Trait.KEEPS_LENGTH,))
def set_cell(cell: list[Any], value: object) -> None:
    """Set a variable: the only element of the list."""
    cell[0] = value


# -- futures


@op(
    "aten::wait(Future(t) self) -> t",
    Effect.SIDE,
    traits=(Trait.RUNS_UNKNOWN, Trait.CORE_CONTAINER, Trait.KEEPS_OBJECTS_INSIDE, Spelling.OPCODE("WAIT")),
)
@op("prim::awaitable_wait(Await(t) self) -> t", Effect.SIDE, traits=(Trait.RUNS_UNKNOWN,))
def wait(self: Any) -> Any:
    """`self.wait()`: the result, or the exception that the computation ended with."""
    return self.wait()


@op("prim::awaitable_nowait(t self) -> Await(t)", total=True, traits=(Spelling.PRIVATE_FUNCTION("_awaitable_nowait"),))
def ready(self: object) -> Await:
    """A result that is there already."""
    return Await.ready(self)


# -- tensors and devices


def _property(
    name: str, effect: Effect = Effect.PURE, *, result: str = "bool", attribute: str = "", operand: str = "Tensor a"
) -> None:
    read = operator.attrgetter(attribute or name)
    doc = f"`{operand.split()[-1]}.{attribute or name}`."
    op(f"prim::{name}({operand}) -> {result}", effect, total=True, doc=doc)(read)


_FLAGS = (
    "requires_grad is_cpu is_cuda is_ipu is_maia is_meta is_mkldnn is_mps is_mtia is_nested is_quantized is_sparse"
    " is_sparse_csr is_vulkan is_xla is_xpu"
)
for _name in _FLAGS.split():
    _property(_name)
_property("dtype", result="int")
_property("layout", result="Layout")
_property("device", result="Device")
_property("itemsize", result="int")
_property("nbytes", result="int")
_property("name", result="str?")
_property("data", operand="Tensor(a) a", result="Tensor(a)")
_property("grad", Effect.STATE, result="Tensor(*)")
_property("type", operand="Device self", result="str")
_property("index", operand="Device self", result="int?")

op("prim::abs(Tensor x) -> Tensor", doc="`abs(x)`.")(abs)

_ELEMENT_KINDS: tuple[tuple[str, Callable[[torch.dtype], bool]], ...] = (
    ("int", lambda d: not (d.is_floating_point or d.is_complex or d is torch.bool)),
    ("float", lambda d: d.is_floating_point),
    ("bool", lambda d: d is torch.bool),
    ("complex", lambda d: d.is_complex),
)


@op("prim::tolist(...) -> ...", traits=(Spelling.OPCODE("TO_LIST"),))
def tolist(tensor: torch.Tensor, dim: int, element_kind: int) -> Any:
    """`tensor.tolist()`: nested lists of `dim` levels, of int, float, bool or complex (kinds 0 to 3).

    A tensor of another rank or kind of element is a RuntimeError.
    """
    name, fits = _ELEMENT_KINDS[element_kind]
    if not fits(tensor.dtype):
        raise RuntimeError(
            "Output annotation element type and runtime tensor element type must match for tolist(): the annotation "
            f"has {name}, the tensor is {tensor.dtype}"
        )
    if tensor.dim() != dim:
        raise RuntimeError(
            "Output annotation list dimension and runtime tensor dimension must match for tolist(): the annotation has "
            f"{dim}, the tensor {tensor.dim()}"
        )
    return tensor.tolist()


op(
    "prim::PythonType(Any value) -> Any",
    total=True,
    traits=(Trait.NOT_FOLDED, Trait.REFUSED_IN_ARCHIVES),
    doc="`type(value)`, the class of the object. torch.jit has no such kind.",
)(type)


# -- the surroundings


@op("aten::is_scripting() -> bool", total=True)
def is_scripting() -> bool:
    """True: this is a compiled program."""
    return True


@op("aten::_get_tracing_state() -> bool", total=True)
def is_tracing() -> bool:
    """False: a compiled program is not traced."""
    return False


@op("aten::has_torch_function(...) -> bool", total=True)
def has_torch_function(*args: object) -> bool:
    """False: `__torch_function__` is not called by compiled programs."""
    return False


op("prim::TimePoint() -> int", Effect.STATE, total=True, doc="A clock in nanoseconds.")(time.perf_counter_ns)


@op(
    "prim::AddStatValue(str key, int val) -> ()", Effect.SIDE, total=True, traits=(Trait.KEEPS_MODES, Trait.KEEPS_FACTS)
)
def add_statistic(key: str, val: int) -> None:
    """Count something for a logger. No logger is set up, so nothing happens."""


# -- what is known of operators that are declared in families

known("prim::grad", Trait.OBSERVES_IDENTITY, Trait.OBSERVES_HISTORY, Spelling.TENSOR_PROPERTY("grad"))
known("prim::name", Trait.OBSERVES_HISTORY, Spelling.TENSOR_PROPERTY("name"))
known("prim::requires_grad", Trait.OBSERVES_HISTORY, Spelling.TENSOR_PROPERTY("requires_grad"))
known(
    "prim::dtype",
    Spelling.CODED("dtype"),
    Trait.GIVES_CODE,
    Trait.ABOUT_FORM,
    Spelling.TENSOR_PROPERTY("dtype"),
    Spelling.OPCODE("DTYPE"),
)
known("prim::layout", Spelling.CODED("layout"), Trait.GIVES_CODE, Spelling.TENSOR_PROPERTY("layout"))
known("prim::device", Trait.ABOUT_FORM, Spelling.TENSOR_PROPERTY("device"), Spelling.OPCODE("DEVICE"))
known("prim::type", Spelling.DEVICE_PROPERTY("type"))
known("prim::index", Spelling.DEVICE_PROPERTY("index"))
known("prim::is_cuda", Spelling.TENSOR_PROPERTY("is_cuda"), Spelling.OPCODE("IS_CUDA"))
for _name in (
    "data", "is_cpu", "is_xpu", "is_sparse", "is_sparse_csr", "is_mkldnn", "is_mps", "is_quantized", "is_vulkan",
    "is_ipu", "is_meta", "is_nested", "itemsize", "nbytes",
):  # fmt: skip
    known(f"prim::{_name}", Spelling.TENSOR_PROPERTY(_name))
known("prim::forkClosure", Link.LIFTED("prim::fork"))
known("prim::awaitableClosure", Link.LIFTED("prim::awaitable"))
