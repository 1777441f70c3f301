"""Random programs of objects (`object_programs.py`) do in jitlite what they do in eager Python.

Each runs on the stack machine or as generated Python, with machine code at once, and in one of the other ways that
there are: a plan for each kind of arguments, unoptimized, saved and loaded, written as Python. Results, classes of
exceptions, printed text, what became of the arguments and which objects are one have to be the same. A program that
fails is made smaller and printed.

`make explore` runs new ones; `PYTHONPATH=tests/support python tests/test_object_programs.py 0 1000` those of these
numbers.
"""

from __future__ import annotations

import collections
import contextlib
import io
import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from object_programs import Block, Program, copied, forget, load, random_program, reduced

import jitlite
from jitlite.base import options
from jitlite.base.source import CompileError, NotSupportedError
from jitlite.debug.equality import difference
from jitlite.debug.outcome import Outcome, observe

PROGRAMS = 150
EXPLORE_SECONDS = float(os.environ.get("EXPLORE_SECONDS", "0"))
TOLD = "(result, exception, arguments, printed, sharing)"

Way = Callable[[Program], Any]


def compiled(**changes: Any) -> Way:
    """The program compiled, with options set while it is compiled and run."""

    def make(program: Program) -> Any:
        with options.override(**changes):
            scripted = jitlite.script(load(program))

        def run(*arguments: Any) -> Any:
            with options.override(**changes):
                return scripted(*arguments)

        run.module = scripted if program.is_module else None  # type: ignore[attr-defined]
        return run

    return make


def written(program: Program) -> Any:
    """The program compiled and written as Python again."""
    source = jitlite.to_python(jitlite.script(load(program)))
    namespace: dict[str, Any] = {}
    exec(source.source, namespace)
    if not program.is_module:
        return namespace["f"]
    weights = io.BytesIO()
    torch.save(source.weights, weights)
    weights.seek(0)
    return namespace["load"](weights)


def saved(program: Program) -> Any:
    """The program compiled, saved and loaded."""
    buffer = io.BytesIO()
    jitlite.save(jitlite.script(load(program)), buffer)
    buffer.seek(0)
    return jitlite.load(buffer)


WAYS: dict[str, Way] = {
    "python": compiled(native="off"), "stack": compiled(tier="stack"), "native": compiled(native="now"),
    "off": compiled(executor="off"), "debug": compiled(executor="debug"),
    "legacy": compiled(executor="legacy"),
    "specialized": compiled(specialize_after=1, profiled_runs=1), "saved": saved, "written": written,
}  # fmt: skip
NARROWED = "within if and loop bodies a variable keeps its type"
"""Said of `if x is not None:` and an assignment of None in a block within it, which TorchScript's rules forbid."""
MAY_REFUSE = ("saved", "written")
"""Ways that some constructs have no place in."""


def state(run: Any) -> list[Any]:
    """What a module holds."""
    module = run if isinstance(run, torch.nn.Module) else run.module
    return [module.buf.clone(), module.count, list(module.seen)]


def outcomes(run: Any, program: Program) -> Iterator[Outcome]:
    """What each call does; a module keeps what the calls before have left."""
    for arguments in program.inputs:
        outcome = observe(run, arguments)
        outcome.arguments += state(run) if program.is_module else []
        yield outcome


def fault(program: Program, ways: tuple[str, ...]) -> str | None:
    """What the first of the ways that differs from eager Python does.

    Raises:
        CompileError: the program is not accepted.
    """
    try:
        return _first_fault(program, ways)
    finally:
        forget()


def _first_fault(program: Program, ways: tuple[str, ...]) -> str | None:
    eager = load(program)
    try:
        with at_most(2.0):
            expected = list(outcomes(eager, copied(program)))
    except TooLong:
        return None  # such as a loop over a list that it makes longer by another name
    if any(e.raised in ("NameError", "UnboundLocalError", "AttributeError", "TypeError") for e in expected):
        return None  # which the typing rules forbid, or a reduced program without some of its parts
    if any(e.raised == "RecursionError" for e in expected):
        return None  # how deep calls may go is not the same
    for name in ways:
        try:
            run = WAYS[name](program)
        except NotSupportedError:
            if name in MAY_REFUSE:
                continue
            raise
        except CompileError as error:
            if NARROWED in str(error):
                return None
            raise
        for number, (wanted, got) in enumerate(zip(expected, list(outcomes(run, copied(program))), strict=True)):
            if name == "saved" and wanted.raised:
                if not got.raised:
                    return f"{name}: call {number} raises no {wanted.raised}"
                continue  # archives know less of exceptions, and what they leave is that of another way
            found = difference(wanted.told, got.told, TOLD)
            if found:
                return f"{name}, call {number}: {found}; raised {got.raised or 'nothing'}"
    return None


class TooLong(BaseException):
    """A program takes too long."""


AGAIN = 0.01
"""Seconds after which a program that goes on is told again that it takes too long."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise `TooLong` in the block after so many seconds, and again until it leaves the block.

    A `with` of the program may swallow it.
    """

    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def chosen(seed: int) -> tuple[str, ...]:
    """Three of the ways: one tier, machine code, and one of the others."""
    others = ("off", "legacy", "debug", "specialized", "saved", "written")
    return ("python", "stack")[seed % 2], "native", others[seed % len(others)]


def check(seed: int, ways: tuple[str, ...] | None = None) -> None:
    """Hold the program of a number to eager Python.

    Raises:
        AssertionError: it does something else; the text is the program, made as small as it goes.
    """
    program = random_program(seed)
    ways = ways or chosen(seed)
    found = fault(program, ways)
    if found is None:
        return
    only = (found.partition(":")[0].partition(",")[0],)

    def still_fails(candidate: Program) -> bool:
        try:
            return fault(candidate, only) is not None
        except Exception:
            return False

    smaller = reduced(program, still_fails)
    raise AssertionError(f"program {seed}: {fault(smaller, only)}\n\n{smaller!r}")


@pytest.mark.parametrize("part", range(3))
def test_programs_of_objects_do_what_they_do_in_eager(part):
    for seed in range(part, PROGRAMS, 3):
        check(seed)


def test_a_program_that_fails_is_made_smaller():
    program = random_program(3)

    def fails(candidate: Program) -> bool:
        return "class Tally" in candidate.source and "self.n += 1" in candidate.source

    smaller = reduced(program, fails, most=2000)
    assert fails(smaller)
    assert len(smaller.source.splitlines()) < len(program.source.splitlines()) / 3


def test_loops_of_smaller_programs_end():
    loop = Block([("while turns_1 < 3:", ["turns_1 += 1", "int_2: int = 4"])])
    program = Program([Block([("def f(n: int) -> int:", ["turns_1 = 0", loop, "return n"])])], False, [[1]])
    smaller = reduced(program, lambda candidate: "while" in candidate.source)
    assert "turns_1 += 1" in smaller.source and "int_2" not in smaller.source


def test_a_function_within_finally_stays():
    for seed in (*range(100), 3857):  # the last one has one there
        text = random_program(seed).source
        for name in set(re.findall(r"local_\d+", text)):
            assert f"def {name}(" in text, f"program {seed} calls {name}"


class SwallowsThree:
    """A context that the first three exceptions do not leave."""

    def __init__(self) -> None:
        self.swallowed = 0

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, *_: object) -> bool:
        self.swallowed += kind is not None
        return self.swallowed <= 3


def test_a_program_that_swallows_exceptions_is_ended_too():
    context, end = SwallowsThree(), time.monotonic() + 20
    with pytest.raises(TooLong), at_most(0.01):
        while time.monotonic() < end:
            with context:
                time.sleep(20)


@pytest.mark.skipif(not EXPLORE_SECONDS, reason="random: make explore")
def test_explore_objects():
    end, done = time.monotonic() + EXPLORE_SECONDS, 0
    while time.monotonic() < end:
        print(f"\rprograms of objects: {done}", end="", flush=True)
        check(random.getrandbits(40), tuple(WAYS))
        done += 1


def main(first: int, last: int) -> None:
    """Run the programs of these numbers; print what fails, and how many ran."""
    counts: collections.Counter[str] = collections.Counter()
    for seed in range(first, last):
        try:
            check(seed)
            counts["clean"] += 1
        except AssertionError as error:
            counts["failed"] += 1
            print(error, "\n", flush=True)
        except CompileError as error:
            counts["refused"] += 1
            print(f"program {seed} is refused: {str(error).splitlines()[0]}", flush=True)
    print(f"{first} to {last}: {dict(counts)}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
