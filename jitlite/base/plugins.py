"""Plugins: what installed packages add to jitlite, by entry points.

    [project.entry-points."jitlite.passes"]         in the pyproject.toml of a package
    merge_relus = "my_package.passes"

`GROUPS` says what the entry points of each group name. They are read, and what they name is imported, when something of
the kind is first looked for that jitlite does not have itself. A plugin that cannot be used is left out with a warning
that names it.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points

from jitlite.base.records import Record

GROUPS = {
    "jitlite.passes": "a pass, or a module that marks passes with graph_pass",
    "jitlite.operators": "a module that declares operators, for jitlite or in torch.library",
    "jitlite.engines": "an engine, or a class or function without arguments that makes one",
}
"""By group: what its entry points name."""


class Plugin(Record, eq=True):
    """An entry point of a package.

    Attributes:
        group: of the entry point, one of `GROUPS`.
        name: of the entry point.
        value: what it names, as `module` or `module:attribute`.
        package: the package that has it, with its version.
        reason: why it cannot be used, else empty.
        found: what it names.
    """

    group: str
    name: str
    value: str
    package: str
    reason: str = ""
    found: object = None


class _InProgress(threading.local):
    """The groups that a thread is loading: a plugin may look for others while it is imported."""

    def __init__(self) -> None:
        self.groups: set[str] = set()


_loading = _InProgress()
_loaded: dict[str, tuple[Plugin, ...]] = {}


def load(group: str, accept: Callable[[Plugin], None]) -> tuple[Plugin, ...]:
    """The plugins of a group. What they name is imported the first time.

    No lock is held meanwhile, for an import waits for other imports. Two threads may both load a group then, and what
    the first of them has found is kept.

    Args:
        accept: told of each plugin that was imported; raises where that is not what the group is for.
    """
    if group not in _loaded and group not in _loading.groups:
        _loading.groups.add(group)
        try:
            made = tuple(_load_all(group, accept))
        finally:
            _loading.groups.remove(group)
        if _loaded.setdefault(group, made) is made:
            for plugin in made:
                _warn_of(plugin)
    return _loaded.get(group, ())


def loaded(group: str) -> tuple[Plugin, ...]:
    """The plugins of a group that have been loaded."""
    return _loaded.get(group, ())


def _load_all(group: str, accept: Callable[[Plugin], None]) -> list[Plugin]:
    made: dict[str, Plugin] = {}
    twice: list[Plugin] = []
    for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, _package_of(entry))):
        first = made.get(entry.name)
        if first is None:
            made[entry.name] = _load_one(entry, accept)
        else:
            twice.append(_plugin(entry, f"{first.package} has one of this name"))
    return [*made.values(), *twice]


def _load_one(entry: EntryPoint, accept: Callable[[Plugin], None]) -> Plugin:
    try:
        plugin = _plugin(entry, found=entry.load())
        accept(plugin)
    except (Exception, SystemExit) as error:  # whatever it is, the rest of jitlite works without it
        return _plugin(entry, f"{type(error).__name__}: {error}".strip().splitlines()[0])
    return plugin


def _plugin(entry: EntryPoint, reason: str = "", found: object = None) -> Plugin:
    return Plugin(entry.group, entry.name, entry.value, _package_of(entry), reason, found)


def _package_of(entry: EntryPoint) -> str:
    return "a package without a name" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def _warn_of(plugin: Plugin) -> None:
    if plugin.reason:
        warnings.warn(
            f"{plugin.package} is left out as a plugin: its {plugin.name} = {plugin.value} ({plugin.group}) cannot be "
            f"used: {plugin.reason}; `jitlite doctor` lists plugins",
            stacklevel=4,
        )
