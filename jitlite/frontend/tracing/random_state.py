"""What becomes of torch's random numbers in a trace: seeds are recorded, other changes of the generator refused.

Draws are operators, and are recorded as such. What sets the generator that they draw from is none: `torch.manual_seed`
is noticed as it is called, `fork_rng`, `set_rng_state` and the like are remembered with their line. Whatever else does
it, such as `torch.default_generator.manual_seed`, shows in the state of the generator, which is compared before each
operator with what it was after the last one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType

import torch

from jitlite.base.errors.ways_out import NO_TRACE
from jitlite.base.source import SourceRange
from jitlite.base.tracing_state import current
from jitlite.frontend.tracing.own_generators import GeneratorOfTrace, OwnGenerators, contents_of
from jitlite.frontend.tracing.trace_warnings import SourceLines, current_place, warn_user
from jitlite.frontend.tracing.traced_numbers import plain

_Generator = torch.Generator
_LARGEST_SEED = 2**32
"""Seeds from here on that no call of `torch.manual_seed` gave come from the system, as those of `seed()` do."""
_HINT = "seed with torch.manual_seed(n), which is recorded, or set the generator outside of the traced function"


class GeneratorState:
    """Notices what sets the default generator of the CPU between the operators of a trace.

    Args:
        record: records that the generator is seeded; it is given the seed.

    Attributes:
        own: the generators that the traced function has for itself.
    """

    def __init__(self, record: Callable[[object], None]) -> None:
        self._record = record
        self._lines = SourceLines()
        self._setters: list[tuple[str, SourceRange | None]] = []
        self.own = OwnGenerators()
        self.note()

    def note(self) -> None:
        """The generator is as the operators that were recorded have left it."""
        self._contents, self._seed = contents_of(torch.default_generator), torch.default_generator.initial_seed()
        self.own.note()

    def remember(self, setter: str) -> None:
        """A function has been called that sets a generator, now or later."""
        if current_place().filename != torch.random.__file__:  # not the end of a fork_rng
            self._setters.append((setter, self._lines.of_user()))

    def seeded(self, seed: object) -> None:
        """Record that `torch.manual_seed` is called.

        Raises:
            CompileError: as `check` does.
        """
        self.check()
        self._record(seed)

    def check(self) -> None:
        """Record the seed that the generator was given since `note`.

        Raises:
            CompileError: it was set to something else, or a generator of the function's own was set.
        """
        self.own.check()
        if contents_of(torch.default_generator) == self._contents:
            return
        seed, before = torch.default_generator.initial_seed(), self._seed
        is_new = contents_of(_Generator().manual_seed(seed)) == contents_of(torch.default_generator)
        self.note()
        if self._setters:
            setter, place = self._setters[-1]
            raise NO_TRACE(f"{setter} sets the random numbers that follow, which no operator does", place, hint=_HINT)
        if is_new and seed < _LARGEST_SEED:
            self._record(seed)
        elif seed != before:
            raise NO_TRACE(
                "the generator of random numbers was set before this line, and no operator does that",
                self._lines.of_user(),
                hint=_HINT,
            )
        else:  # it may be another thread that draws
            warn_user(
                "Random numbers were drawn, or the state of torch's generator set, by something that is not recorded "
                "by the tracer: calls of the trace draw what comes next."
            )


# -- functions of torch while a trace is going on


def _recorded(seed_all: Callable[[int], torch.Generator]) -> Callable[[int], torch.Generator]:
    """`torch.manual_seed`, which tells the tracer."""

    @functools.wraps(seed_all)
    def manual_seed(seed: int) -> torch.Generator:
        tracer = current.tracer
        if tracer is None or tracer.paused:
            return seed_all(seed)
        tracer.generator.seeded(seed)
        generator = seed_all(_number(seed))
        tracer.generator.note()
        return generator

    return manual_seed


def _number(seed: int) -> int:
    """The seed in this run, which no condition is made of."""
    known = plain(seed)
    if isinstance(known, torch.SymInt):
        known = getattr(known.node, "hint", None)
    return known if isinstance(known, int) else int(seed)


def _remembered(name: str, setter: Callable[..., object]) -> Callable[..., object]:
    """A function that sets a generator: the tracer remembers its line, should it have an effect on what follows."""

    @functools.wraps(setter)
    def call(*args: object, **kwargs: object) -> object:
        if current.tracer is not None and not current.tracer.paused:
            current.tracer.generator.remember(name)
        return setter(*args, **kwargs)

    return call


def _refused(name: str, setter: Callable[..., object]) -> Callable[..., object]:
    """A function that seeds CUDA's generators; without CUDA it does nothing."""

    @functools.wraps(setter)
    def call(*args: object, **kwargs: object) -> object:
        if current.tracer is not None and not current.tracer.paused and torch.cuda.is_available():
            raise NO_TRACE(
                f"{name} seeds generators of CUDA alone, which no operator does",
                SourceLines().of_user(),
                hint="torch.manual_seed(n), which is recorded, seeds the generators of all devices",
            )
        return setter(*args, **kwargs)

    return call


def setters_of_generators() -> list[tuple[ModuleType, str, Callable[..., object]]]:
    """Functions of torch while a trace is going on: the module, the name, and what is there in place of torch's own."""
    found: list[tuple[ModuleType, str, Callable[..., object]]] = [(torch, "Generator", GeneratorOfTrace)]
    for module in (torch, torch.random):
        found.append((module, "manual_seed", _recorded(module.manual_seed)))
        for name in ("seed", "set_rng_state"):
            found.append((module, name, _remembered(f"torch.{name}", getattr(module, name))))
    found.append((torch.random, "fork_rng", _remembered("torch.random.fork_rng", torch.random.fork_rng)))
    for name in ("manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state", "set_rng_state_all"):
        found.append((torch.cuda, name, _refused(f"torch.cuda.{name}", getattr(torch.cuda, name))))
    return found
