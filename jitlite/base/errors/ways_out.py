"""Kinds of errors: traces, archives, and programs as something else."""

from __future__ import annotations

from jitlite.base.errors.kinds import ErrorKind
from jitlite.base.source import CompileError, NotSupportedError

NO_TRACE = ErrorKind(
    CompileError,
    "J0801",
    "call that a trace cannot record",
    """
    A trace records the operators of one call. It cannot have what depends on the values of tensors, arguments that no
    graph has, or writes that have no form as operators. Script the function, or the part that depends on values.
    """,
    wrong="""
import jitlite
import torch

def f(x):
    return object()

traced = jitlite.trace(f, torch.ones(2), level="dispatcher", check_trace=False)
print(traced(torch.ones(2)))
""",
    right="""
import jitlite
import torch

def f(x):
    return x + 1

traced = jitlite.trace(f, torch.ones(2), level="dispatcher", check_trace=False)
print(traced(torch.ones(2)))
""",
)

SYMBOLIC_SIZE = ErrorKind(
    CompileError,
    "J0802",
    "size that a trace cannot follow",
    """
    A trace with symbolic sizes computes sizes from those of its arguments. A size that depends on the contents of a
    tensor, or on a formula that has no operator, cannot be followed.
    """,
)

NO_FUNCTIONAL_FORM = ErrorKind(
    CompileError,
    "J0803",
    "write that has no functional form",
    """
    Where writes are to become operators that give new tensors, a write into a view such as that of expand or
    as_strided has none. Clone the view before writing.
    """,
)

NOT_IN_ARCHIVE = ErrorKind(
    NotSupportedError,
    "J0804",
    "program that has no form in an archive",
    """
    An archive is TorchScript's own format, for torch.jit and libtorch as well. What jitlite accepts beyond
    TorchScript is written in its terms where they have any; some things have none, such as calls of Python and
    integers of over 64 bits.
    """,
    wrong="""
import io
import jitlite

@jitlite.ignore
def shown(n: int) -> int:
    return n

@jitlite.script
def f(n: int) -> int:
    return shown(n)

jitlite.save(f, io.BytesIO())
""",
    right="""
import io
import jitlite

def shown(n: int) -> int:
    return n

@jitlite.script
def f(n: int) -> int:
    return shown(n)

if isinstance(f, jitlite.ScriptFunction):
    jitlite.save(f, io.BytesIO())
print(f(3))
""",
)

NOT_AS_PYTHON = ErrorKind(
    NotSupportedError,
    "J0805",
    "program that cannot be written as Python",
    """
    jitlite.to_python writes a program as Python that needs torch alone. Objects that only the program has, functions
    that were left to Python, and what Python spells in no way cannot be written.
    """,
)

NOT_AS_FX = ErrorKind(
    NotSupportedError,
    "J0806",
    "program that cannot be an FX graph",
    """
    An FX graph is a list of calls without control flow that depends on values, without recursion, and without state
    but parameters and buffers.
    """,
)

NOT_EXPORTED = ErrorKind(
    NotSupportedError,
    "J0807",
    "program that torch.export cannot hold",
    """
    An exported program keeps no state but buffers, and its sizes are fixed or declared to be dynamic.
    """,
)

NOT_FROZEN = ErrorKind(
    NotSupportedError,
    "J0808",
    "module that cannot be frozen",
    """
    Freezing makes constants of a module's attributes. Attributes that are written to stay, and where the submodule is
    known by its interface only, it cannot be seen which attributes these are.
    """,
)

NOT_FROM_TORCH = ErrorKind(
    NotSupportedError,
    "J0809",
    "script of torch.jit that cannot be converted",
    """
    jitlite.script takes what torch.jit has compiled by way of the archive that torch.jit writes of it. What torch.jit
    cannot save cannot be converted; and views with torch.jit's names have not all of its methods.
    """,
)

BAD_ARCHIVE = ErrorKind(
    CompileError,
    "J0810",
    "code of an archive that cannot be read",
    """
    The code in an archive is not what TorchScript writes, or uses an operator that this version of torch does not
    have, or one that may not be used without --allow (`allow=` of jitlite.load).
    """,
)

NO_LITERAL = ErrorKind(
    CompileError,
    "J0811",
    "argument on the command line that is no value",
    """
    Arguments of the command are literals of Python, or ones(2, 3), zeros, rand, randn, arange and tensor([...]) with
    literals as their arguments. Nothing else is evaluated.
    """,
)

NOT_TRANSLATED = ErrorKind(
    NotSupportedError,
    "J0812",
    "model that cannot be written for an engine",
    """
    A model is written in the language of an engine, such as ONNX, as one graph of operators, each of which has a
    translation. A model that assigns attributes, or whose graph depends on the elements of tensors, is none.
    jitlite.optimize runs what an engine knows by the engine, and the rest as it is.
    """,
)
