"""Records of archives and versions of operators under the names of `torch._C`, for tools that know them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from jitlite.archive.records import RecordReader, RecordWriter
from jitlite.codegen.torchscript.source_out import VERSIONS
from jitlite.ir.parser import parse
from jitlite.ir.schema import parse_schema
from jitlite.ir.unit import Function
from jitlite.loading import upgraders
from jitlite.loading.load import NEWEST
from jitlite.loading.upgraders import Upgrade


class UpgraderEntry(NamedTuple):
    """That an operator changed: in which version, what stands for the older one, and how it was called."""

    bumped_at_version: int
    upgrader_name: str
    old_schema: str = ""


_entries: dict[str, UpgraderEntry] = {}


def operator_version_map() -> dict[str, list[UpgraderEntry]]:
    """The operators that have changed, by their names with those of the overloads."""
    names = {u.operator: u.upgrader for u in upgraders.upgrades()}
    found = {name: [UpgraderEntry(since, names.get(name, ""))] for name, since in VERSIONS.items()}
    return {**found, **{name: [entry] for name, entry in _entries.items()}}


def add_entry(operator: str, entry: UpgraderEntry) -> None:
    """Let an operator have changed."""
    _entries[operator] = entry
    upgraders.add_upgrade(Upgrade(operator, entry.bumped_at_version, entry.upgrader_name))


def remove_entry(operator: str) -> None:
    """Forget what `add_entry` was told."""
    if _entries.pop(operator, None) is not None:
        upgraders.remove_upgrades(operator)


def populate_upgraders(graphs: Mapping[str, str]) -> None:
    """Let functions stand for older operators, given as text of graphs by name."""
    schemas = {entry.upgrader_name: entry.old_schema for entry in _entries.values()}
    for name, text in graphs.items():
        graph = parse(text)
        schema = parse_schema(schemas[name]) if schemas.get(name) else None
        upgraders.add_upgrader(name, Function(name, schema=schema, graph=graph))


def remove_upgraders(graphs: Mapping[str, str]) -> None:
    """Forget functions that `populate_upgraders` was given."""
    for name in graphs:
        upgraders.remove_upgrader(name)


def dump_upgraders() -> dict[str, str]:
    """The graphs of the functions that stand for older operators, by name."""
    return {name: str(function.graph) for name, function in upgraders.upgraders().items()}


UPGRADE_NAMES: dict[str, object] = {
    "torch._C.PyTorchFileReader": RecordReader,
    "torch._C.PyTorchFileWriter": RecordWriter,
    "torch._C._UpgraderEntry": UpgraderEntry,
    "torch._C._get_operator_version_map": operator_version_map,
    "torch._C._get_max_operator_version": lambda: NEWEST,
    "torch._C._get_upgraders_map_size": lambda: len(upgraders.upgraders()),
    "torch._C._dump_upgraders_map": dump_upgraders,
    "torch._C._test_only_add_entry_to_op_version_map": add_entry,
    "torch._C._test_only_remove_entry_to_op_version_map": remove_entry,
    "torch._C._test_only_populate_upgraders": populate_upgraders,
    "torch._C._test_only_remove_upgraders": remove_upgraders,
}
