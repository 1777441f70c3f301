"""Damage to archives: the same for the same number, at all levels of the format."""

from __future__ import annotations

import io
import pickle
import pickletools
import random
import re
import struct
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

Members = dict[str, bytes]

_NUMBERS = (-1, 0, 1, 2, 3, 7, 127, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**48, 2**62, 2**63 - 1,
            -(2**63), -(2**31))  # fmt: skip
_NAMES = ("__torch__ M", "__torch__.a.b C", "__torch__.torch.classes.quantized LinearPackedParamsBase", "os system",
          "builtins eval", "builtins complex", "torch device", "torch FloatStorage", "torch QInt8Storage",
          "torch UntypedStorage", "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_qtensor",
          "torch._utils _rebuild_sparse_tensor", "torch._utils _rebuild_parameter", "collections OrderedDict",
          "torch.jit._pickle build_intlist", "torch.jit._pickle restore_type_tag", "torch per_tensor_affine",
          "torch.serialization _get_layout", "__torch__ Color", "__torch__ Pair", "__torch__ Counter")  # fmt: skip
_TEXTS = (
    "", "0", "1", "..", "../../etc/passwd", "cpu", "meta", "cuda:99", "storage", "forward", "__class__", "__dict__",
    "__setstate__", "_parameters", "training", "List[int]", "Dict[str, __torch__.Pair]", "\x00", "é" * 20,
    "__torch__.Counter", "a.b", "List[" * 200 + "int" + "]" * 200
)  # fmt: skip
_WORDS = (
    "self", "x", "int", "Tensor", "None", "0", "1", "9999999999999999999999", "CONSTANTS", "CONSTANTS.c0", "torch",
    "ops.prim", "__torch__", "return", "while", "if", "for", "def", "class", "lambda", "yield", "await", "import os",
    "**", "*", "//", "%", "<<", "==", "is", "not", "=", ":=", ":", ",", ".", "(", ")", "[", "]", "{", "}", "@", "\\",
    "'", '"', "#", "\n", "\n  ", "\n    ", "\t", "\x00", "é", "List", "Optional", "Dict", "NamedTuple", "Enum",
    "Module", "Interface", "inf", "annotate", "uninitialized", "unchecked_cast", "fork", "getattr", "isinstance",
    "__init__", "__setstate__", "__parameters__", "__forward_hooks__", "__annotations__", "torch.save",
    "ops.prim.RaiseException"
)  # fmt: skip
_MEMBERS = ("version", ".data/version", "data.pkl", "constants.pkl", "code/__torch__.py", "bytecode.pkl", "data/0",
            "constants/0", "../data.pkl", "/etc/passwd", "code/../code/__torch__.py", "byteorder", "model.json",
            "extra/x", "code/__torch__.py.debug_pkl", "code/os.py")  # fmt: skip
_VERSIONS = (b"", b"0\n", b"1\n", b"2\n", b"3\n", b"4\n", b"5\n", b"7\n", b"9\n", b"10\n", b"11\n", b"-3\n", b"3.0\n",
             b"9" * 40, b"x", b"\xff", b"\x00")  # fmt: skip


def members_of(content: bytes) -> Members:
    """The members of an archive by their names in its folder."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {name.partition("/")[2]: file.read(name) for name in file.namelist()}


def packed(members: Mapping[str, bytes] | list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> bytes:
    """An archive with these members, whose checksums are right."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, content in members.items() if isinstance(members, Mapping) else members:
            file.writestr(zipfile.ZipInfo(f"m/{name}"), content, compression)
    return buffer.getvalue()


# -- bytes


def _bytes(data: bytes, chance: random.Random) -> bytes:
    """A few bytes changed, taken out, repeated, moved or zero, or the end cut off."""
    found = bytearray(data or b"\x00")
    start = chance.randrange(len(found))
    end = start + chance.randint(1, 40)
    action = chance.randrange(7)
    if action == 0:
        for _ in range(chance.randint(1, 6)):
            found[chance.randrange(len(found))] = chance.randrange(256)
    elif action == 1:
        del found[start:end]
    elif action == 2:
        found[start:start] = found[start:end] * chance.choice((1, 1, 5, 200))
    elif action == 3:
        found[start:end] = bytes(min(end, len(found)) - start)
    elif action == 4:
        moved = found[start:end]
        del found[start:end]
        at = chance.randrange(len(found) + 1)
        found[at:at] = moved
    elif action == 5:
        del found[start:]
    else:
        for _ in range(chance.randint(1, 3)):
            found[chance.randrange(len(found))] ^= 1 << chance.randrange(8)
    return bytes(found)


def of_file(content: bytes, chance: random.Random) -> bytes:
    """Bytes anywhere."""
    return _bytes(content, chance)


def of_directory(content: bytes, chance: random.Random) -> bytes:
    """Sizes, counts and offsets in the headers of the ZIP file."""
    found = bytearray(content)
    heads = [m.start() for m in re.finditer(rb"PK(\x01\x02|\x03\x04|\x05\x06|\x06\x06|\x06\x07|\x07\x08)", content)]
    for _ in range(chance.randint(1, 3)):
        at = chance.choice(heads) + 4 + 2 * chance.randrange(21)
        width, layout = chance.choice(((2, "<H"), (4, "<I"), (8, "<Q")))
        if at + width <= len(found):
            found[at : at + width] = struct.pack(layout, chance.choice(_NUMBERS) % (1 << 8 * width))
    return bytes(found)


def of_member(content: bytes, chance: random.Random) -> bytes:
    """Bytes of one member, whose checksum is right again."""
    members = members_of(content)
    name = chance.choice(list(members))
    members[name] = _bytes(members[name], chance)
    return packed(members, chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))


def of_members(content: bytes, chance: random.Random) -> bytes:
    """Members left out, doubled, renamed, exchanged, emptied or put elsewhere."""
    listed = list(members_of(content).items())
    for _ in range(chance.choice((1, 1, 1, 2))):
        at, other = chance.randrange(len(listed)), chance.randrange(len(listed))
        name, data = listed[at]
        action = chance.randrange(6)
        if action == 0 and len(listed) > 1:
            del listed[at]
        elif action == 1:
            listed.append((chance.choice(_MEMBERS), data))
        elif action == 2:
            listed[at] = chance.choice(_MEMBERS), data
        elif action == 3:
            listed[at], listed[other] = (name, listed[other][1]), (listed[other][0], data)
        elif action == 4:
            listed[at] = name, b""
        else:
            listed[at] = name, data * chance.choice((2, 3, 1000))
    unique = listed if chance.randrange(4) == 0 else list(dict(listed).items())
    return packed(unique, chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))


def of_version(content: bytes, chance: random.Random) -> bytes:
    """Another version, with the code left as it is or changed too."""
    members = members_of(content)
    name = next(n for n in members if n.endswith("version"))
    members[name] = chance.choice(_VERSIONS)
    changed = packed(members)
    return changed if chance.randrange(3) else of_code(changed, chance)


# -- pickles


def _operations(data: bytes) -> list[bytes]:
    """The operations of a pickle, each with its argument."""
    starts = [position for _, _, position in pickletools.genops(data)]
    return [data[start:end] for start, end in zip(starts, [*starts[1:], len(data)], strict=True)]


def _operation(chance: random.Random) -> bytes:
    """An operation that may occur in a pickle of an archive."""
    kind = chance.randrange(5)
    if kind == 0:
        return b"\x8a\x08" + chance.choice(_NUMBERS).to_bytes(9, "little", signed=True)[:8]
    if kind == 1:
        text = chance.choice(_TEXTS).encode()
        return b"X" + struct.pack("<I", len(text)) + text
    if kind == 2:
        module, name = chance.choice(_NAMES).split()
        return f"c{module}\n{name}\n".encode()
    if kind == 3:
        return bytes([chance.choice(b"hqKM"), chance.randrange(40), 0])[: chance.choice((2, 2, 3))]
    return bytes([chance.choice(b"(tNR)}]aesub0lQ.\x81\x85\x86\x87\x88\x89")])


def _pickle(data: bytes, chance: random.Random) -> bytes:
    """Operations left out, doubled, exchanged, replaced or put in."""
    try:
        found = _operations(data)
    except Exception:  # it is damaged already
        return _bytes(data, chance)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at, other = chance.randrange(len(found)), chance.randrange(len(found))
        action = chance.randrange(6)
        if action == 0 and len(found) > 1:
            del found[at]
        elif action == 1:
            found.insert(other, found[at])
        elif action == 2:
            found[at], found[other] = found[other], found[at]
        elif action == 3:
            found[at] = _operation(chance)
        elif action == 4:
            found.insert(at, _operation(chance))
        else:
            same = [i for i, each in enumerate(found) if each[:1] == found[at][:1]]
            found[at] = found[chance.choice(same)]
    return b"".join(found)


def of_data(content: bytes, chance: random.Random) -> bytes:
    """The pickle of the module."""
    members = members_of(content)
    members["data.pkl"] = _pickle(members["data.pkl"], chance)
    return packed(members)


def of_tables(content: bytes, chance: random.Random) -> bytes:
    """The other pickles: constants, tables of places, bytecode."""
    members = members_of(content)
    name = chance.choice([n for n in members if n.endswith("pkl") and n != "data.pkl"])
    members[name] = _pickle(members[name], chance)
    if name == "constants.pkl" and chance.randrange(2):
        members[name] = b"\x80\x02" + b"".join(_operation(chance) for _ in range(4)) + b"t."
    return packed(members)


# -- code

_TOKEN = re.compile(r"\w+|\"[^\"\n]*\"|\n *|[^\w\s]| +")


def _like(parts: list[str], chance: random.Random) -> None:
    """A part becomes another of its kind, so that the text can mostly be read still."""
    at = chance.randrange(len(parts))
    for _ in range(20):
        if not parts[at].isspace():
            break
        at = chance.randrange(len(parts))
    kind = _kind(parts[at])
    parts[at] = chance.choice([each for each in (*parts, *_WORDS) if _kind(each) == kind])


def _kind(part: str) -> str:
    known = "line" if len(part.split()) > 1 else "name" if part.isidentifier() else "number" if part.isdigit() else part
    return "operator" if known in "+-*/%<>=&|^" else "text" if known[:1] == '"' else known


def _anything(parts: list[str], chance: random.Random) -> None:
    at, other = (chance.randrange(len(parts)) for _ in range(2)) if parts else (0, 0)
    action = chance.randrange(6)
    if not parts or action == 0:
        parts.insert(at, chance.choice(_WORDS))
    elif action == 1:
        del parts[at]
    elif action == 2:
        parts.insert(other, parts[at] * chance.choice((1, 1, 1, 400)))
    elif action == 3:
        parts[at], parts[other] = parts[other], parts[at]
    elif action == 4:
        parts[at] = chance.choice(_WORDS)
    else:
        parts[at : at + 5] = parts[other : other + 5]


def of_code(content: bytes, chance: random.Random) -> bytes:
    """Words and lines of the code left out, doubled, exchanged or replaced; its length may go off, too."""
    members = members_of(content)
    files = [n for n in members if n.endswith(".py")]
    if not files:
        return of_program(content, chance)
    name = chance.choice(files)
    text = members[name].decode("utf-8", "replace") or "\n"
    parts = text.splitlines(keepends=True) if chance.randrange(3) == 0 else _TOKEN.findall(text)
    change = _like if chance.randrange(2) else _anything
    for _ in range(chance.choice((1, 1, 2, 3))):
        change(parts, chance)
    members[name] = "".join(parts).encode()
    return packed(members, zipfile.ZIP_DEFLATED)


# -- bytecode


class _Nothing:
    def __init__(self, *arguments: Any) -> None:
        pass


class _Reader(pickle.Unpickler):
    """Reads the bytecode of a specimen, which has no names but those of functions that make lists."""

    def find_class(self, module: str, name: str) -> Any:
        return (lambda values: values) if name.startswith("build_") else _Nothing

    def persistent_load(self, pid: Any) -> Any:
        return None


def _changed(value: Any, chance: random.Random) -> Any:
    """Something else for a value in the tables of bytecode, near it or not."""
    if isinstance(value, bool) or value is None:
        return chance.choice((None, True, 0, "", ()))
    if isinstance(value, int):
        return chance.choice((value + 1, value - 1, value * 2 + 1, -value, chance.choice(_NUMBERS), None, "1"))
    if isinstance(value, str):
        return chance.choice((*_TEXTS, *_OPCODES, *_OPERATORS, 3, None))
    parts = list(value) if isinstance(value, tuple | list) else []
    if parts:
        at, other = chance.randrange(len(parts)), chance.randrange(len(parts))
        action = chance.randrange(4)
        if action == 0:
            del parts[at]
        elif action == 1:
            parts.insert(other, parts[at])
        elif action == 2:
            parts[at], parts[other] = parts[other], parts[at]
        else:
            parts[at] = chance.choice((None, 1, "OP", (), ("JMP", -1, 0), ("LOOP", -3, 2)))
    return tuple(parts)


_OPCODES = (
    "OP", "OPN", "JF", "JMP", "LOOP", "RET", "LOAD", "STORE", "STOREN", "MOVE", "DROP", "LOADC", "GET_ATTR",
    "SET_ATTR", "LIST_CONSTRUCT", "TUPLE_CONSTRUCT", "TUPLE_INDEX", "DICT_CONSTRUCT", "NAMED_TUPLE_CONSTRUCT",
    "WARN", "CALL", "INTERFACE_CALL", "FORK", "ENTER", "EXIT", "UNCHECKED_CAST", "RAISE_EXCEPTION", "LIST_UNPACK",
    "TO_LIST"
)  # fmt: skip
_OPERATORS = (
    "aten::add", "aten::save", "aten::from_file", "prim::PythonOp", "aten::mul", "prim::TupleUnpack",
    "aten::format", "prim::RaiseException", "aten::__getitem__", "evil::run", "aten::zeros",
    "prim::Uninitialized", "aten::str"
)  # fmt: skip


def _changed_within(value: Any, chance: random.Random) -> Any:
    """The value with one change somewhere in it."""
    if isinstance(value, tuple | list) and value and chance.randrange(12):
        at = chance.randrange(len(value))
        return (*value[:at], _changed_within(value[at], chance), *value[at + 1 :])
    return _changed(value, chance)


def of_program(content: bytes, chance: random.Random) -> bytes:
    """The tables of bytecode; the code where there is none."""
    members = members_of(content)
    if "bytecode.pkl" not in members:
        return of_code(content, chance)
    try:
        program = _Reader(io.BytesIO(members["bytecode.pkl"])).load()
    except Exception:  # it is damaged already
        return of_member(content, chance)
    for _ in range(chance.choice((1, 1, 2, 3))):
        program = _changed_within(program, chance)
    members["bytecode.pkl"] = pickle.dumps(program, protocol=2)
    return packed(members)


def of_several(content: bytes, chance: random.Random) -> bytes:
    """Two kinds of damage at once."""
    for _ in range(2):
        try:
            content = chance.choice((of_member, of_data, of_tables, of_code, of_version))(content, chance)
        except (StopIteration, IndexError, KeyError, zipfile.BadZipFile):
            pass  # the first took away what the second needs
    return content


KINDS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "file": of_file, "directory": of_directory, "member": of_member, "members": of_members, "version": of_version,
    "data": of_data, "tables": of_tables, "code": of_code, "program": of_program, "several": of_several,
}  # fmt: skip
"""Kinds of damage by name."""


def mutated(content: bytes, specimen: str, kind: str, number: int) -> bytes:
    """An archive with damage of a kind, always the same for the same arguments."""
    return KINDS[kind](content, random.Random(f"{specimen}/{kind}/{number}"))
