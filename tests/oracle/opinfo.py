"""OpInfo samples of the installed torch as scripts: eager, torch.jit and jitlite run the same source text.

    python tests/oracle/opinfo.py [--op NAME] [--samples N] [--jobs N]

prints a table: for every operator, how many calls torch.jit handles (compiles, runs, agrees with eager), how many of
them jitlite gives as eager does, and the first one where it does not. Results count with type, dtype, shape, values
and gradients, errors with type and message.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import inspect
import linecache
import multiprocessing
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, count, islice
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db

import jitlite
from jitlite.debug.equality import difference

DTYPES = (torch.float32, torch.int64)
MOST_ELEMENTS = 20_000
"""Samples with more elements than this are left out: they say nothing that smaller ones do not."""

SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "and_": "&", "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>", "eq": "==", "ne": "!=", "lt": "<",
    "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
"""Functions of Python's `operator` and how they are written."""


class NotWritable(Exception):
    """An argument that has no literal and is no tensor."""


# -- calls as text -----------------------------------------------------------------------------------------------------


class Arguments:
    """Writes the arguments of a sample. Tensors become parameters, everything else a literal.

    Args:
        literal: whether numbers, texts and lists of them stay literals, or become parameters too.
    """

    def __init__(self, literal: bool = True) -> None:
        self.literal = literal
        self.values: list[Any] = []
        self.parameters: list[str] = []

    def text(self, value: Any) -> str:
        """The text of one argument.

        Raises:
            NotWritable: where it has none.
        """
        if isinstance(value, torch.Tensor):
            return self._parameter(value, "")
        annotation = None if self.literal else _annotation(value)
        if annotation is not None:
            return self._parameter(list(value) if annotation.startswith("List") else value, f": {annotation}")
        if isinstance(value, list | torch.Size):
            return f"[{', '.join(map(self.text, value))}]"
        if isinstance(value, tuple):
            return f"({''.join(self.text(v) + ', ' for v in value)})"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self.text(k)}: {self.text(v)}" for k, v in value.items()) + "}"
        if isinstance(value, slice):
            return f"slice({self.text(value.start)}, {self.text(value.stop)}, {self.text(value.step)})"
        return _literal(value)

    def _parameter(self, value: Any, annotation: str) -> str:
        name = f"i{len(self.values)}"
        self.values.append(value)
        self.parameters.append(name + annotation)
        return name

    def keywords(self, values: dict[str, Any]) -> list[str]:
        """The texts of keyword arguments. `requires_grad=False`, which scripts cannot write, is left out."""
        return [f"{k}={self.text(v)}" for k, v in values.items() if (k, v) != ("requires_grad", False)]


def _annotation(value: Any) -> str | None:
    """The type of a parameter for a number, a text, or a list of these of one type."""
    if type(value) in (int, float, bool, str):
        return type(value).__name__
    if isinstance(value, list | tuple) and value and len({type(v) for v in value}) == 1:
        element = _annotation(value[0])
        return None if element is None or element.startswith("List") else f"List[{element}]"
    return None


def _literal(value: Any) -> str:
    if value is Ellipsis:
        return "..."
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) is float:
        return repr(value) if np.isfinite(value) else f"float('{value}')"
    if value is None or type(value) in (bool, int, str):
        return repr(value)
    if type(value) is complex and np.isfinite(value):
        return f"complex({value.real!r}, {value.imag!r})"
    if isinstance(value, torch.device):
        return f"torch.device('{value}')"
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return str(value)
    raise NotWritable(type(value).__name__)


def _in_torch(path: str) -> Any:
    """The function `torch.<path>`; None if there is none."""
    found: Any = torch
    for name in path.split("."):
        found = getattr(found, name, None)
    return found if callable(found) else None


def _takes_input_second(op: Any, function: Any, sample: Any) -> bool:
    """Does the function take the sample's input after its first argument, as `torch.where` and `torch.einsum` do?"""
    is_reordered = inspect.isfunction(op.op) and op.op.__name__ == "<lambda>"
    if not is_reordered or not sample.args:
        return False
    try:
        function(_copy(sample.input), *map(_copy, sample.args), **sample.kwargs)
    except Exception:
        return True
    return False


_Write = Callable[[str, list[str]], str]
"""Gives the text of a call with a first argument and others."""


def _joined(*parts: str) -> str:
    return ", ".join(parts)


def variants(op: Any, sample: Any) -> Iterator[tuple[str, _Write]]:
    """The ways to call an operator with a sample, and what each is called."""
    for name in (op.name, *(alias.name for alias in op.aliases)):
        plus = "" if name == op.name else f" {name}"
        function = _in_torch(name)
        if function is not None and _takes_input_second(op, function, sample):
            yield f"function{plus}", lambda x, rest, name=name: f"torch.{name}({_joined(*rest[:1], x, *rest[1:])})"
        elif function is not None:
            yield f"function{plus}", lambda x, rest, name=name: f"torch.{name}({_joined(_fresh(name, x), *rest)})"
        method = None if "." in name else getattr(torch.Tensor, name, None)
        if callable(method):
            yield f"method{plus}", lambda x, rest, name=name: f"{_fresh(name, x)}.{name}({_joined(*rest)})"
        elif method is not None:
            yield f"property{plus}", lambda x, rest, name=name: f"{x}.{name}"
    yield from _inplace_and_operators(op)


def _fresh(name: str, x: str) -> str:
    """The argument, or a copy of it for what writes it."""
    return f"{x}.clone()" if name.endswith("_") and not name.endswith("__") else x


def _inplace_and_operators(op: Any) -> Iterator[tuple[str, _Write]]:
    inplace = getattr(op.inplace_variant, "__name__", None)
    if inplace is not None and callable(getattr(torch.Tensor, inplace, None)):
        yield "inplace", lambda x, rest: f"{x}.clone().{inplace}({_joined(*rest)})"
    symbol = SYMBOLS.get(getattr(op.operator_variant, "__name__", ""))
    if symbol is not None:
        yield "operator", lambda x, rest: f"{x} {symbol} {rest[0]}"
    reflected = SYMBOLS.get({"__rdiv__": "truediv", "__rand__": "and_", "__ror__": "or_"}.get(op.name, op.name[3:-2]))
    if reflected is not None and op.name.startswith("__r"):
        yield "operator", lambda x, rest: f"{rest[0]} {reflected} {x}"
    if op.name == "__getitem__":
        yield "operator", lambda x, rest: f"{x}[{_joined(*rest)}]"


@dataclass
class Call:
    """One way to make one call: a function's source text and what to call it with."""

    variant: str
    text: str
    parameters: list[str]
    values: list[Any]
    with_grad: bool

    @property
    def source(self) -> str:
        return f"def call({', '.join(self.parameters)}):\n    return {self.text}\n"


def _samples(op: Any, dtype: torch.dtype, most: int) -> Iterator[Any]:
    """Up to `most` samples: those that differ in their arguments' types come first."""
    with_grad = op.supports_autograd and dtype.is_floating_point
    random.seed(0)
    np.random.seed(0)
    torch.default_generator.manual_seed(0)
    seen: set[str] = set()
    late = []
    # not op.sample_inputs, which looks through the stack for the running test at every sample
    for sample in islice(op.sample_inputs_func(op, "cpu", dtype, requires_grad=with_grad), 100):
        kind = repr(([type(a) for a in sample.args], [(k, type(v)) for k, v in sample.kwargs.items()]))
        if _elements(sample) > MOST_ELEMENTS:
            continue
        if kind in seen:
            late.append(sample)
            continue
        seen.add(kind)
        yield sample
    yield from late


def _faulty_samples(op: Any) -> Iterator[Any]:
    """Samples that eager refuses."""
    if op.error_inputs_func is not None:
        yield from (faulty.sample_input for faulty in op.error_inputs_func(op, "cpu"))


def _elements(sample: Any) -> int:
    return sum(t.numel() for t in _tensors_of([sample.input, sample.args, list(sample.kwargs.values())]))


def calls(op: Any, dtype: torch.dtype, most: int) -> Iterator[Call]:
    """The calls of an operator's first samples, in every variant."""
    if dtype not in op.supported_dtypes("cpu"):
        return
    samples = islice(_samples(op, dtype, most), most)
    faulty = islice(_faulty_samples(op), most if dtype.is_floating_point else 0)
    for number, sample in enumerate(chain(samples, faulty)):
        for variant, write in variants(op, sample):
            if " " in variant and number > 0:
                continue  # other names for the same: once is enough
            for literal in (True, False):
                call = _call(op, dtype, sample, variant, write, literal)
                if call is not None:
                    yield call


def _call(op: Any, dtype: torch.dtype, sample: Any, variant: str, write: _Write, literal: bool) -> Call | None:
    """A call; None where the sample does not suit the variant, or where there is nothing but tensors to pass."""
    arguments = Arguments(literal)
    try:
        first = arguments.text(sample.input)
        rest = [arguments.text(a) for a in sample.args] + arguments.keywords(sample.kwargs)
    except NotWritable:
        return None
    if variant == "operator" and len(rest) != 1:
        return None
    if not variant.startswith(("function", "operator")) and not isinstance(sample.input, torch.Tensor):
        return None
    if not literal and (variant != "function" or not any(":" in p for p in arguments.parameters)):
        return None
    with_grad = op.supports_autograd and dtype.is_floating_point
    name = variant if literal else f"{variant} of variables"
    return Call(name, write(first, rest), arguments.parameters, arguments.values, with_grad)


# -- running them ------------------------------------------------------------------------------------------------------

_numbers = count()


def python_function(source: str) -> Any:
    """The function `call` of a text, with source lines that `inspect` finds."""
    filename = f"<opinfo {next(_numbers)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    scope: dict[str, Any] = {"torch": torch, "List": list, "__name__": "opinfo"}
    exec(compile(source, filename, "exec"), scope)
    return scope["call"]


def _tensors_of(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors_of(part)


def _copy(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    return list(value) if isinstance(value, list) else value


def run(fn: Any, call: Call) -> Any:
    """The result of a call, with the gradients of its inputs; an exception is a result too."""
    inputs = [_copy(value) for value in call.values]
    torch.default_generator.manual_seed(1)  # torch.manual_seed would note the stack for every kind of device
    try:
        result = fn(*inputs)
    except Exception as error:
        return error
    if not call.with_grad:
        return result
    leaves = [t for t in _tensors_of(inputs) if t.requires_grad]
    outputs = [t for t in _tensors_of(result) if t.requires_grad and t.grad_fn is not None]
    if not leaves or not outputs:
        return result
    try:
        gradients = torch.autograd.grad(
            outputs, leaves, [torch.ones_like(t) for t in outputs], allow_unused=True, materialize_grads=False
        )
    except Exception as error:
        gradients = (error,)
    return result, *gradients


def plain(value: Any) -> Any:
    """Without the classes of tuples, which torch.jit does not keep."""
    if isinstance(value, tuple):
        return tuple(plain(v) for v in value)
    return [plain(v) for v in value] if isinstance(value, list) else value


def typed_as(typed: Any, value: Any) -> Any:
    """Eager's result with lists where TorchScript's types say List and eager gives a tuple, as for `torch.split`."""
    if isinstance(typed, list) and isinstance(value, tuple | list) and len(typed) == len(value):
        return [typed_as(t, v) for t, v in zip(typed, value, strict=True)]
    if isinstance(typed, tuple) and isinstance(value, tuple) and len(typed) == len(value):
        parts = [typed_as(t, v) for t, v in zip(typed, value, strict=True)]
        return type(value)(parts)  # torch's result classes take a list too
    return value


def _dense(value: Any) -> Any:
    """With tensors of special layouts and quantized ones spelled out."""
    if isinstance(value, torch.Tensor) and value.layout is not torch.strided:
        return str(value.layout), value.to_dense()
    if isinstance(value, torch.Tensor) and value.is_quantized:
        return str(value.dtype), value.dequantize()
    if type(value) in (tuple, list):
        return type(value)(map(_dense, value))
    return value


_SIZE = re.compile(r"torch\.Size\((\[.*?\])\)")
"""How eager prints the shape that is a list in a script."""


def compared(expected: Any, got: Any) -> str | None:
    """None where results are equal, else where they differ."""
    if isinstance(expected, Exception) and isinstance(got, Exception) and type(expected) is type(got):
        return difference(*(_SIZE.sub(r"\1", str(error).partition("\n")[0]) for error in (expected, got)))
    try:
        return difference(_dense(expected), _dense(got))
    except RuntimeError as error:
        return f"cannot be compared: {error}"


@dataclass
class Row:
    """What came of one operator's calls."""

    name: str
    handled: int = 0
    passed: int = 0
    beyond: int = 0
    """Calls that jitlite gives as eager does, although torch.jit does not."""
    failures: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    """Calls that neither handles."""

    def count(self, call: Call, dtype: torch.dtype, python: Any, theirs: Any, ours: Any) -> None:
        """Run a call three ways and count what came of it."""
        expected, result = run(python, call), run(theirs, call)
        if isinstance(expected, Exception):
            # eager's parser of arguments has errors of its own, for what scripts refuse when they are compiled
            handled = isinstance(result, Exception) and not _is_refused(theirs) and not isinstance(expected, TypeError)
        else:
            expected = typed_as(result, expected)
            handled = compared(plain(expected), plain(result)) is None
        reason = compared(expected, run(ours, call))
        self.handled += handled
        self.passed += handled and reason is None
        self.beyond += not handled and reason is None
        if reason is not None:
            where = self.failures if handled else self.missed
            where.append(f"{dtype} {call.variant} {call.text}: {' '.join(reason.split())}")

    def add(self, other: Row) -> None:
        self.handled += other.handled
        self.passed += other.passed
        self.beyond += other.beyond
        self.failures += other.failures
        self.missed += other.missed


def full_name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def _scripted(script: Callable[[Any], Any], function: Any) -> Any:
    """The compiled function, or one that raises why it could not be compiled."""
    try:
        return script(function)
    except Exception as error:
        return functools.partial(_raise, error)


def _is_refused(function: Any) -> bool:
    """Did it fail to compile?"""
    return isinstance(function, functools.partial)


def _raise(error: Exception, *args: Any) -> None:
    raise error


def sweep(
    op: Any, samples: int, dtypes: Iterable[torch.dtype] = DTYPES, script: Callable[[Any], Any] = jitlite.script
) -> Row:
    """Run an operator's calls in eager, torch.jit and jitlite, whose compiler is `script`."""
    row = Row(full_name(op))
    compiled: dict[str, tuple[Any, Any, Any]] = {}
    for dtype in dtypes:
        for call in calls(op, dtype, samples):
            if call.source not in compiled:
                python = python_function(call.source)
                compiled[call.source] = python, _scripted(torch.jit.script, python), _scripted(script, python)
            row.count(call, dtype, *compiled[call.source])
    return row


@contextlib.contextmanager
def reproducible() -> Iterator[None]:
    """Uninitialized memory is filled, so that `torch.empty` gives the same every time; warnings are not shown."""
    before = torch.are_deterministic_algorithms_enabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before)


def _sweep_into(connection: Connection, number: int, samples: int) -> None:
    torch.set_num_threads(1)
    with reproducible():
        connection.send(sweep(op_db[number], samples))


def isolated(number: int, samples: int) -> Row:
    """`sweep` in a process of its own: torch.jit, and torch itself, end the process for some arguments."""
    fork = multiprocessing.get_context("fork")
    receiving, sending = fork.Pipe(duplex=False)
    process = fork.Process(target=_sweep_into, args=(sending, number, samples))
    process.start()
    sending.close()
    try:
        row: Row = receiving.recv()
    except EOFError:
        process.join()
        row = Row(full_name(op_db[number]), failures=[f"the process ended with {process.exitcode}"])
    process.join()
    return row


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", help="only operators with this in their name")
    parser.add_argument("--samples", type=int, default=5, help="samples per operator and dtype (%(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (%(default)s)")
    parser.add_argument("--all", action="store_true", help="show every failure, not the first of each operator")
    parser.add_argument(
        "--missed", action="store_true", help="show also what neither handles, and why jitlite does not"
    )
    options = parser.parse_args(arguments)
    numbers = [i for i, op in enumerate(op_db) if not options.op or options.op in full_name(op)]
    total = Row("in all")
    print(f"{'operator':44} {'handled':>7} {'passed':>7} {'beyond':>7}  first failure")
    work = functools.partial(isolated, samples=options.samples)
    with ThreadPoolExecutor(options.jobs) as pool:
        for row in pool.map(work, numbers):
            shown = (row.failures if options.all else row.failures[:1]) + (row.missed if options.missed else [])
            print(f"{row.name:44} {row.handled:7} {row.passed:7} {row.beyond:7}  {' | '.join(s[:400] for s in shown)}")
            sys.stdout.flush()
            total.add(row)
    rate = 100 * total.passed / max(1, total.handled)
    print(
        f"{total.name:44} {total.handled:7} {total.passed:7} {total.beyond:7}  {rate:.2f} % of what torch.jit handles"
    )
    return 0 if not total.failures else 1


if __name__ == "__main__":
    sys.exit(main())
