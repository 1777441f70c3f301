"""The executor's switches as torch has them: three flags for the whole process, each set and read on its own.

| optimize | profiling executor | profiling mode | switch `executor` |
|---|---|---|---|
| off | - | - | off |
| on | off | - | legacy |
| on | on | off | simple |
| on | on | on | profiling |
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from jitlite.base import options


@dataclass(frozen=True)
class _Flags:
    optimize: bool = True
    executor: bool = True
    mode: bool = True

    @property
    def choice(self) -> str:
        if not self.optimize:
            return "off"
        if not self.executor:
            return "legacy"
        return "profiling" if self.mode else "simple"


_ALL = [_Flags(o, e, m) for o in (True, False) for e in (True, False) for m in (True, False)]
_flags = _Flags()


def _change(**changes: bool) -> _Flags:
    """Change flags; gives those before. What was chosen by other means counts as if flags had chosen it."""
    global _flags
    chosen = options.current().executor
    if _flags.choice != chosen:
        _flags = next(flags for flags in _ALL if flags.choice == chosen)
    before, _flags = _flags, replace(_flags, **changes)
    options.set_globally(executor=_flags.choice)
    return before


def set_profiling_executor(on: bool) -> bool:
    """Choose between the profiling executor and the one with a plan for each kind of arguments; gives what was."""
    return _change(executor=on).executor


def set_profiling_mode(on: bool) -> bool:
    """Say whether the profiling executor specializes; gives what was."""
    return _change(mode=on).mode


def set_graph_executor_optimize(on: bool) -> None:
    """Say whether functions are optimized at all."""
    _change(optimize=on)


def get_graph_executor_optimize(new_settings: bool | None = None) -> bool:
    """Are functions optimized? With an argument, what it says holds from now on."""
    before = options.current().executor != "off"
    if new_settings is not None:
        set_graph_executor_optimize(new_settings)
    return before


def set_num_profiled_runs(runs: int) -> int:
    """Say how many calls are profiled before a function is specialized; gives what was."""
    return options.set_globally(profiled_runs=runs).profiled_runs
