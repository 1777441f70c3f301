"""What `show` and `run` do with archives. Showing one runs nothing of it."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jitlite.archive.container import ArchiveReader
from jitlite.archive.errors import ArchiveError
from jitlite.base.source import CompileError
from jitlite.cli.commands import UsageError
from jitlite.cli.terminal import heading, paint, table
from jitlite.loading.listing import ListedObject, Listing, TensorListing, compile_methods, describe, read_tensor

_SOURCES = (".py",)
_WIDEST = 60


def is_archive(target: str) -> bool:
    """Does a word of the command line name a file that is no Python source?"""
    path = Path(target)
    return path.suffix not in _SOURCES and (path.is_file() or (":" not in target and path.suffix != ""))


def open_archive(target: str) -> ArchiveReader:
    """The archive of a path.

    Raises:
        UsageError: there is no such file, or it cannot be read.
        ArchiveError: it is no archive.
    """
    if not Path(target).is_file():
        raise UsageError(f"no such file: {target}")
    try:
        return ArchiveReader(target)
    except OSError as error:
        raise UsageError(f"cannot read {target}: {error}") from None


def show_archive(options: argparse.Namespace) -> int:
    """Print what is in an archive: all in short, or one subject."""
    chosen = [name for name in VIEWS if getattr(options, name)]
    if len(chosen) > 1:
        raise UsageError(f"one of {', '.join(f'--{name}' for name in VIEWS)} at a time")
    if options.stats and chosen != ["weights"]:
        raise UsageError("--stats goes with --weights")
    view = VIEWS[chosen[0]] if chosen else overview
    with open_archive(options.target) as reader:
        listing = describe(reader)
        text, data = view(reader, listing, options)
    print(json.dumps({"archive": options.target, **data}, indent=1) if options.json else harmless(text))
    return 0


def harmless(text: str) -> str:
    """The text without what a terminal would take for commands: names in an archive can be anything."""
    return _COMMANDS.sub(lambda found: ascii(found.group())[1:-1], text)


_COMMANDS = re.compile(r"\x1b(?!\[\d{1,2}m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]")


View = Callable[[ArchiveReader, Listing, argparse.Namespace], tuple[str, dict[str, Any]]]
"""The text of a view, and the same as data."""


# -- the whole


def overview(reader: ArchiveReader, listing: Listing, options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """Everything in short."""
    root = listing.root.name if isinstance(listing.root, ListedObject) else type(listing.root).__name__
    counted = {role: _counted(listing, role) for role in ("parameter", "buffer", "attribute")}
    kind = "traced" if listing.traced else "scripted" if listing.code else "bytecode"
    data: dict[str, Any] = {
        "version": listing.version, "kind": kind, "byteorder": listing.byteorder, "bytes": listing.size, "root": root,
        "has_bytecode": listing.has_bytecode, "tensors": counted,
        "classes": {
            name: {"kind": c.kind, "attributes": c.attributes, "constants": c.constants, "methods": c.methods}
            for name, c in listing.classes.items()
        },
        "functions": listing.functions, "operators": _operator_data(listing), "extra_files": listing.extra,
        "members": len(listing.members),
    }  # fmt: skip
    about = [f"format version {listing.version}", kind, f"{listing.byteorder}-endian", _bytes(listing.size)]
    about += ["with bytecode for the lite interpreter"] if listing.has_bytecode else []
    lines = [f"{options.target}: a TorchScript archive, {', '.join(about)}", f"holds an object of {_plain(root)}", ""]
    lines += [_count_line(role, *counted[role].values()) for role in counted]
    lines += _class_lines(listing)
    lines += _operator_summary(listing)
    if listing.extra:
        lines += ["", heading("extra files"), *(f"{name}  {_bytes(size)}" for name, size in listing.extra.items())]
    return "\n".join(lines), data


def _counted(listing: Listing, role: str) -> dict[str, int]:
    found = {id(t.tensor): t.tensor for t in listing.tensors if _role(t) == role}
    storages = {t.storage.key: t for t in found.values() if t.storage is not None}
    return {
        "count": len(found),
        "numbers": sum(t.numel for t in found.values()),
        "bytes": sum(t.storage.count * (t.nbytes // max(t.numel, 1)) for t in storages.values() if t.storage),
    }


def _role(listing: TensorListing) -> str:
    return listing.role if listing.role in ("parameter", "buffer") else "attribute"


def _count_line(role: str, count: int, numbers: int, size: int) -> str:
    name = {"parameter": "parameters", "buffer": "buffers", "attribute": "other tensors"}[role]
    return f"{name}: {count}" + (f" of {numbers:,} numbers, {_bytes(size)}" if count else "")


def _class_lines(listing: Listing) -> list[str]:
    lines: list[str] = []
    counts: dict[str, int] = {}
    for record, _ in _objects(listing.root):
        counts[record.name] = counts.get(record.name, 0) + 1
    for name, found in listing.classes.items():
        number = f", {counts[name]} objects" if counts.get(name, 0) > 1 else ""
        lines.append(f"{_plain(name)} ({found.kind or 'class'}{number})")
        lines += [f"    {_plain(head)}" for head in found.methods.values()]
    head = ["", heading(f"{len(listing.classes)} classes")] if lines else []
    functions = [f"    {_plain(text)}" for text in listing.functions.values()]
    return [*head, *lines, *(["", heading(f"{len(functions)} functions"), *functions] if functions else [])]


def _operator_summary(listing: Listing) -> list[str]:
    if not listing.operators:
        return []
    lines = ["", heading(f"{len(listing.operators)} operators")]
    lines.append(", ".join(f"{o.name}" + (f" x{o.count}" if o.count > 1 else "") for o in listing.operators))
    lines += [paint(f"{o.name}: {_said(o.name, o.status)}", "yellow") for o in listing.operators if o.status]
    return lines


def _said(name: str, status: str) -> str:
    if status == "needs allow":
        return f"refused unless it is allowed: load(..., allow=['{name}']), or --allow {name}"
    return "torch has no such operator here"


def _plain(name: str) -> str:
    return name.replace("__torch__.", "")


def _bytes(count: int) -> str:
    size, unit = float(count), "B"
    for larger in ("kB", "MB", "GB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


# -- one subject


def _code(reader: ArchiveReader, listing: Listing, options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    parts = [part for name, text in listing.code.items() for part in (heading(name), text.rstrip(), "")]
    return "\n".join(parts) or "the archive has no code, only bytecode", {"code": listing.code}


def _graph(reader: ArchiveReader, listing: Listing, options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    graphs: dict[str, str] = {}
    for function in compile_methods(reader, listing, options.allow):
        try:
            graphs[function.qualified_name] = str(function.graph)
        except (CompileError, ArchiveError) as error:
            graphs[function.qualified_name] = f"does not compile: {error}"
    parts = [part for name, text in graphs.items() for part in (heading(_plain(name)), text.rstrip(), "")]
    return "\n".join(parts) or "the archive has no code, only bytecode", {"graphs": graphs}


def _tree(reader: ArchiveReader, listing: Listing, options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    sizes: dict[str, int] = {}
    for found in listing.tensors:
        if _role(found) == "parameter":
            owner = found.path.rpartition(".")[0]
            sizes[owner] = sizes.get(owner, 0) + found.tensor.numel
    rows, tree = [], []
    for record, path in _objects(listing.root):
        depth = path.count(".") + 1 if path else 0
        numbers = sizes.get(path, 0)
        name = path.rpartition(".")[2]
        rows.append(
            ("  " * depth + (f"{name}: " if name else "") + _plain(record.name), f"{numbers:,}" if numbers else "")
        )
        tree.append({"path": path, "class": record.name, "parameters": numbers})
    return table(rows) if rows else "the archive holds no object", {"tree": tree}


def _objects(root: object) -> list[tuple[ListedObject, str]]:
    """The objects with a state, from the outermost one on, with their paths."""
    found: list[tuple[ListedObject, str]] = []
    seen: set[int] = set()
    todo: list[tuple[object, str]] = [(root, "")]
    while todo:
        value, path = todo.pop()
        if not isinstance(value, ListedObject) or id(value) in seen:
            continue
        seen.add(id(value))
        found.append((value, path))
        if isinstance(value.state, dict):
            todo += reversed([(v, f"{path}.{n}".lstrip(".")) for n, v in value.state.items()])
    return found


def _operator_data(listing: Listing) -> list[dict[str, Any]]:
    return [{"name": o.name, "count": o.count, "status": o.status} for o in listing.operators]


def _ops(reader: ArchiveReader, listing: Listing, options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    rows = [("operator", "uses", "")]
    rows += [(o.name, str(o.count), _said(o.name, o.status) if o.status else "") for o in listing.operators]
    return table(rows), {"operators": _operator_data(listing)}


def _weights(reader: ArchiveReader, listing: Listing, options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    first: dict[str, str] = {}
    columns = ("name", "kind", "dtype", "shape", "strides", "device", "bytes", "shares")
    rows: list[tuple[str, ...]] = [(*columns, *_STATISTICS) if options.stats else columns]
    data = []
    for found in listing.tensors:
        storage = found.tensor.storage
        key = "" if storage is None else storage.key
        owner = first.setdefault(key, found.path) if key else found.path
        shared = owner if owner != found.path else ""
        values = _statistics(reader, found) if options.stats else ()
        rows.append((*_weight_row(found), shared, *values))
        numbers = dict(zip(_STATISTICS, values, strict=True)) if options.stats else {}
        data.append({**_weight_data(found), "storage": key, "shares": shared or None, **numbers})
    return table(rows), {"weights": data}


_STATISTICS = ("min", "max", "mean")


def _dtype_name(found: TensorListing) -> str:
    dtype = found.tensor.dtype
    return "?" if dtype is None else str(dtype).removeprefix("torch.")


def _weight_row(found: TensorListing) -> tuple[str, ...]:
    tensor, storage = found.tensor, found.tensor.storage
    strides = "" if tensor.is_contiguous and not tensor.offset else f"{list(tensor.strides)}+{tensor.offset}"
    return (
        found.path, found.role, _dtype_name(found), "x".join(map(str, tensor.shape)) or "()", strides,
        "?" if storage is None else storage.device, _bytes(tensor.nbytes),
    )  # fmt: skip


def _weight_data(found: TensorListing) -> dict[str, object]:
    tensor, storage = found.tensor, found.tensor.storage
    return {
        "name": found.path, "kind": found.role, "dtype": _dtype_name(found), "shape": tensor.shape,
        "strides": tensor.strides, "offset": tensor.offset, "device": None if storage is None else storage.device,
        "bytes": tensor.nbytes, "requires_grad": tensor.requires_grad,
    }  # fmt: skip


_NUMBER = 8
"""Bytes of the numbers that statistics are computed with."""
_ALWAYS_READ = 64 << 20


def _statistics(reader: ArchiveReader, found: TensorListing) -> tuple[str, str, str]:
    """Smallest and largest number and their mean; nothing for tensors without numbers."""
    try:
        if found.tensor.numel * _NUMBER > 8 * reader.size + _ALWAYS_READ:
            return "far larger than the file", "", ""
        tensor = read_tensor(reader, found.tensor)
        tensor = tensor.dequantize() if tensor.is_quantized else tensor
        if not tensor.numel() or tensor.is_complex():
            return "", "", ""
        numbers = tensor.detach().double()
        low, high, mean = (f"{float(v):.4g}" for v in (numbers.min(), numbers.max(), numbers.mean()))
        return low, high, mean
    except (ArchiveError, RuntimeError) as error:
        return str(error).partition("\n")[0][:_WIDEST], "", ""


VIEWS: dict[str, View] = {"code": _code, "graph": _graph, "tree": _tree, "ops": _ops, "weights": _weights}
"""What `show` can be asked for, by the name of the option."""
