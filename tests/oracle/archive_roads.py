"""Programs through archives: what torch.jit writes jitlite reads, what jitlite writes both read, with the same results.

    python tests/oracle/archive_roads.py corpus
    python tests/oracle/archive_roads.py opinfo --samples 5
    python tests/oracle/archive_roads.py conformance PATH     a folder of cases, as their own README describes them

prints the roads on which a result is another one than before the program was saved.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import importlib
import io
import os
import pkgutil
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

import jitlite
from jitlite.debug.equality import difference

Outcome = Callable[[Any], Any]
"""Runs a program, and gives what came of it, an exception too."""


@dataclass
class Roads:
    """What came of programs on their way through archives.

    Attributes:
        tried: how often each road was taken.
        failures: what became another result there.
        refused: programs that jitlite does not write, and why.
    """

    tried: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def take(self, name: str, program: Any, outcomes: list[Outcome], torch_program: Any = None) -> None:
        """Send a program along all roads.

        Args:
            program: a function or module, or what makes a module anew.
            torch_program: what torch.jit is to script, where that is another one.
        """
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            ours = _made(jitlite.script, program)
            theirs = _made(torch.jit.script, program if torch_program is None else torch_program)
            if ours is None:
                return
            self._from_jitlite(name, ours, theirs, outcomes)
            if theirs is not None:
                self._from_torch(name, ours, theirs, outcomes)

    def _from_jitlite(self, name: str, ours: Any, theirs: Any, outcomes: list[Outcome]) -> None:
        try:
            data = ours.save_to_buffer()
        except jitlite.NotSupportedError as error:
            self.refused.append(f"{name}: {str(error).splitlines()[0]}")
            return
        self.compare(f"{name}: jitlite to jitlite", ours, lambda: jitlite.load(io.BytesIO(data)), outcomes)
        for outcome in outcomes:  # libtorch's own values are the measure, where it has any
            before = ours if theirs is None or _is_lost(outcome, ours, theirs) else theirs
            self.compare(f"{name}: jitlite to torch", before, lambda: torch.jit.load(io.BytesIO(data)), [outcome])

    def _from_torch(self, name: str, ours: Any, theirs: Any, outcomes: list[Outcome]) -> None:
        buffer = io.BytesIO()
        try:
            torch.jit.save(theirs, buffer)
            torch.jit.load(io.BytesIO(buffer.getvalue()))
        except Exception:
            return  # torch.jit itself cannot
        alone = torch.jit.load(io.BytesIO(buffer.getvalue()))
        kept = [outcome for outcome in outcomes if not _is_lost(outcome, ours, alone)]
        self.compare(f"{name}: torch to jitlite", ours, lambda: jitlite.load(io.BytesIO(buffer.getvalue())), kept)

    def compare(self, road: str, before: Any, load: Callable[[], Any], outcomes: list[Outcome]) -> None:
        """Compare what a program does before and after."""
        self.tried[road.rpartition(": ")[2]] += 1
        by_torch = road.endswith("to torch")
        try:
            after = load()
        except Exception as error:
            self.failures.append(f"{road}: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
            return
        for outcome in outcomes:
            expected, got = outcome(before), outcome(after)
            if isinstance(expected, Exception) and isinstance(got, Exception):
                if by_torch or type(expected).__name__ == type(got).__name__:
                    continue
            reason = _difference(expected, got)
            if reason is not None:
                self.failures.append(f"{road}: {' '.join(reason.split())[:400]}")
                return


def _is_lost(outcome: Outcome, before: Any, after: Any) -> bool:
    """Does torch.jit itself not run it, or lose it on the way, as it does defaults of functions?"""
    return isinstance(outcome(after), Exception) and not isinstance(outcome(before), Exception)


def _made(script: Callable[[Any], Any], program: Any) -> Any:
    torch.manual_seed(0)
    try:
        return script(program() if isinstance(program, type) else program)
    except Exception:
        return None  # neither compilers nor cases that they refuse are what is tried here


def _difference(expected: Any, got: Any) -> str | None:
    try:
        return difference(_plain(expected), _plain(got))
    except RuntimeError as error:
        return f"cannot be compared: {error}"


def _plain(value: Any) -> Any:
    """Objects, which each side makes of its own classes, as what they hold; named tuples as tuples, ints for dtypes."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if isinstance(value, list):
        return list(map(_plain, value))
    if isinstance(value, dict):
        return {_plain(k) if not isinstance(k, torch.Tensor) else k: _plain(v) for k, v in value.items()}
    if isinstance(value, torch.Tensor):
        dense = value.to_dense() if value.layout is not torch.strided else value
        return dense.dequantize() if dense.is_quantized else dense
    if hasattr(value, "name") and hasattr(value, "value"):
        return value.name
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return jitlite.ir.int_codes.number_of(value) if hasattr(jitlite.ir.int_codes, "number_of") else str(value)
    if isinstance(value, Exception):
        return f"{type(value).__name__}: {str(value).splitlines()[0] if str(value) else ''}"
    simple = value is None or isinstance(value, bool | int | float | complex | str | torch.device)
    return value if simple else type(value).__name__


# -- the programs


def corpus(roads: Roads, part: slice = slice(None)) -> None:
    """The programs of `oracle.corpus`."""
    from oracle.corpus import EXAMPLES

    for item in EXAMPLES[part]:
        count = len(item.originals)
        roads.take(
            item.name, item.function, [_called(lambda i=i, e=item: list(e.arguments())[i]) for i in range(count)]
        )


def _called(arguments: Callable[[], tuple[Any, ...]], keywords: dict[str, Any] | None = None) -> Outcome:
    def outcome(program: Any) -> Any:
        given, named = arguments(), copy.deepcopy(keywords or {})
        torch.manual_seed(0)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                return program(*given, **named), given
        except Exception as error:
            return error

    return outcome


def opinfo(roads: Roads, samples: int, part: slice = slice(None)) -> None:
    """OpInfo's samples as functions, with gradients."""
    from oracle import opinfo as source

    with source.reproducible():
        for op in source.op_db[part]:
            for dtype in source.DTYPES:
                for call in source.calls(op, dtype, samples):
                    function = source.python_function(call.source)
                    name = f"{source.full_name(op)} {dtype} {call.text}"
                    roads.take(name, function, [lambda program, c=call: source.run(program, c)])


def conformance(roads: Roads, folder: str) -> None:
    """The cases of a folder: functions and modules with their arguments."""
    os.environ["LANG_IMPL"] = "jitlite"
    sys.path.insert(0, folder)
    core: Any = importlib.import_module("lang.core")
    for found in pkgutil.iter_modules([os.path.join(folder, "lang")]):
        if not found.name.startswith("_") and found.name != "core":
            importlib.import_module(f"lang.{found.name}")
    for topic, cases in core.REGISTRY.items():
        print(f"{topic}: {len(roads.failures)} failures so far", *roads.failures[-3:], sep="\n  ", flush=True)
        for name, case in cases.items():
            if case.kind in ("driver", "rejects", "unsupported", "refuses_call") or case.opts.get("prints"):
                continue
            outcomes = [_called(lambda c=c: copy.deepcopy(c.args), c.kwargs) for c in case.calls]
            program = case.obj if not isinstance(case.obj, type) else _maker(case.obj, case.init)
            roads.take(f"{topic}.{name}", program, outcomes)


def _maker(cls: type, arguments: tuple[Any, ...]) -> type:
    """A class whose objects are those of another one, made with the arguments."""
    return type(cls.__name__, (), {"__new__": lambda _: cls(*copy.deepcopy(arguments))})


def main() -> int:
    """Print what failed, and how much was tried."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", choices=["corpus", "opinfo", "conformance"])
    parser.add_argument("folder", nargs="?", help="of the conformance cases")
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), metavar=("FIRST", "STEP"))
    options = parser.parse_args()
    roads = Roads()
    part = slice(options.part[0], None, options.part[1])
    if options.programs == "corpus":
        corpus(roads, part)
    elif options.programs == "opinfo":
        opinfo(roads, options.samples, part)
    else:
        conformance(roads, options.folder)
    print(*roads.failures, sep="\n")
    print(*(f"refused: {text}" for text in roads.refused), sep="\n")
    print(f"{dict(roads.tried)}, {len(roads.failures)} failures, {len(roads.refused)} refused")
    return bool(roads.failures)


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.exit(main())
