"""What is in an archive, without making any of it: no class is made, no method compiled, no `__setstate__` run.

The pickles become records of names and values, the sources syntax trees. `describe` reads it all; tensors are told of,
not read.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import field
from typing import Any

import torch

from jitlite.archive.container import ArchiveReader
from jitlite.archive.errors import ArchiveError, faults_of
from jitlite.archive.tensors import STORAGE_TYPES, Storages, rebuild_quantized, rebuild_tensor
from jitlite.base.records import Record
from jitlite.base.source import CompileError, Source, SourceRange
from jitlite.ir import ops
from jitlite.ir.traits import Trait
from jitlite.ir.types import ClassType
from jitlite.ir.unit import Function
from jitlite.loading.archive_names import Permissions
from jitlite.loading.import_source import Importer
from jitlite.loading.load import check_kind, code_of, is_lite, version_of
from jitlite.loading.objects import Objects
from jitlite.loading.source_text import CodeFile
from jitlite.loading.unpickling import PickledGlobal, Unpickler

_DEEPEST = 200
"""Objects within one another that are listed."""
_NOT_OPERATORS = frozenset({"torch.device", "torch.inf", "torch.nan"})
_LISTS = {"__parameters__": "parameters", "__buffers__": "buffers", "__forward_pre_hooks__": "pre_hooks",
          "__forward_hooks__": "hooks"}  # fmt: skip


class ListedObject(Record, frozen=False):
    """An object in a pickle: the name of its class, and its state."""

    name: str
    state: Any = None


class StorageRecord(Record, eq=True):
    """A storage that a pickle names."""

    dtype: str
    key: str
    device: str
    count: int


class TensorRecord(Record, frozen=False):
    """A tensor in a pickle.

    Attributes:
        arguments: what the function that rebuilds it is called with.
    """

    function: str
    arguments: tuple[Any, ...]

    @property
    def storage(self) -> StorageRecord | None:
        """Where its data are; None for sparse tensors, whose parts are tensors."""
        found = self.arguments[0] if self.arguments else None
        return found if isinstance(found, StorageRecord) else None

    @property
    def shape(self) -> tuple[int, ...]:
        return _numbers(self.arguments, 1 if self.storage is None else 2)

    @property
    def strides(self) -> tuple[int, ...]:
        return () if self.storage is None else _numbers(self.arguments, 3)

    @property
    def offset(self) -> int:
        found = self.arguments[1] if self.storage is not None and len(self.arguments) > 1 else 0
        return found if isinstance(found, int) else 0

    @property
    def requires_grad(self) -> bool:
        position = 5 if "qtensor" in self.function else 4
        return len(self.arguments) > position and self.arguments[position] is True

    @property
    def dtype(self) -> torch.dtype | None:
        return None if self.storage is None else STORAGE_TYPES.get(self.storage.dtype)

    @property
    def numel(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def nbytes(self) -> int:
        """The bytes of its elements; views of one storage may share them."""
        dtype = self.dtype
        return 0 if dtype is None else self.numel * torch.empty(0, dtype=dtype).element_size()

    @property
    def is_contiguous(self) -> bool:
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=False):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return True


_MOST_DIMENSIONS = 64


def _numbers(arguments: tuple[Any, ...], position: int) -> tuple[int, ...]:
    found = arguments[position] if len(arguments) > position else ()
    is_shape = isinstance(found, tuple | list) and len(found) <= _MOST_DIMENSIONS
    return tuple(n for n in found if isinstance(n, int)) if is_shape else ()


class ClassListing(Record, eq=True, frozen=False):
    """A class in the code of an archive.

    Attributes:
        kind: `Module`, `NamedTuple`, `Enum`, `Interface`, `ModuleInterface`, or empty for a plain class.
        methods: the heads of the methods by name.
    """

    name: str
    kind: str
    attributes: dict[str, str] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    methods: dict[str, str] = field(default_factory=dict)
    parameters: list[str] = field(default_factory=list)
    buffers: list[str] = field(default_factory=list)
    pre_hooks: list[str] = field(default_factory=list)
    hooks: list[str] = field(default_factory=list)


class OperatorListing(Record, eq=True, frozen=False):
    """An operator that the code uses.

    Attributes:
        status: empty, or `needs allow`, or `unknown` where torch has no such operator here.
    """

    name: str
    count: int
    status: str


class TensorListing(Record, eq=True, frozen=False):
    """A tensor of the module, with where it is."""

    path: str
    role: str
    tensor: TensorRecord


class Listing(Record, eq=True, frozen=False):
    """What is in an archive.

    Attributes:
        version: of the format.
        traced: was it written from a trace?
        has_bytecode: does it hold code of the lite interpreter?
        code: the files of code by name.
        root: the object that the archive holds.
    """

    version: int
    traced: bool
    has_bytecode: bool
    byteorder: str
    size: int
    members: dict[str, int]
    code: dict[str, str]
    classes: dict[str, ClassListing]
    functions: dict[str, str]
    operators: list[OperatorListing]
    root: object
    tensors: list[TensorListing]
    extra: dict[str, int]


def describe(reader: ArchiveReader) -> Listing:
    """Read what is in an archive.

    Raises:
        ArchiveError: it is no archive, or damaged.
    """
    version = version_of(reader)
    if not is_lite(reader):
        check_kind(reader)
    files = code_of(reader)
    code = {name: data for name, data in files.items() if name.endswith(".py")}
    classes: dict[str, ClassListing] = {}
    functions: dict[str, str] = {}
    used: Counter[str] = Counter()
    for name, data in code.items():
        _read_code(CodeFile(name, data), classes, functions, used)
    names = reader.names()
    if is_lite(reader):
        used += _bytecode_operators(reader)
    root = _records(reader, "data.pkl")
    return Listing(
        version=version,
        traced=any(n.startswith("traced_inputs") for n in names),
        has_bytecode="bytecode.pkl" in reader,
        byteorder=reader.read("byteorder").decode("ascii", "replace").strip() if "byteorder" in reader else "little",
        size=reader.size,
        members={name: reader.length(name) for name in names},
        code={name: data.decode("utf-8", "replace") for name, data in code.items()},
        classes=classes,
        functions=functions,
        operators=[OperatorListing(name, used[name], _status(name)) for name in sorted(used)],
        root=root,
        tensors=list(_tensors(root, classes)),
        extra={name.removeprefix("extra/"): reader.length(name) for name in names if name.startswith("extra/")},
    )


# -- code


def _read_code(file: CodeFile, classes: dict[str, ClassListing], functions: dict[str, str], used: Counter[str]) -> None:
    prefix = file.member.removeprefix("code/").removesuffix(".py").replace("/", ".")
    with faults_of(file.member):
        for name, node in file.definitions.items():
            qualified = f"{prefix}.{name}"
            if isinstance(node, ast.ClassDef):
                classes[qualified] = _class(qualified, node)
            else:
                functions[qualified] = _head(node)
            for inner in ast.walk(node):
                if isinstance(inner, ast.Call):
                    found = _operator(inner.func)
                    used.update([found] if found else [])


def _head(node: ast.FunctionDef) -> str:
    returned = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    return f"{node.name}({ast.unparse(node.args)}){returned}"


def _class(qualified: str, node: ast.ClassDef) -> ClassListing:
    kind = ast.unparse(node.bases[0]) if node.bases else ""
    found = ClassListing(qualified, kind)
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef):
            if statement.args.args:
                statement.args.args[0].annotation = None  # it is the class
            found.methods[statement.name] = _head(statement)
        elif isinstance(statement, ast.AnnAssign):
            name = ast.unparse(statement.target)
            if statement.value is not None:
                found.constants[name] = ast.unparse(statement.value)
            else:
                found.attributes[name] = ast.unparse(statement.annotation)
        elif isinstance(statement, ast.Assign):
            _assigned(found, statement)
    return found


def _assigned(found: ClassListing, statement: ast.Assign) -> None:
    target = statement.targets[0]
    if isinstance(target, ast.Name) and target.id in _LISTS:
        values = statement.value.elts if isinstance(statement.value, ast.List) else []
        names = [e.value for e in values if isinstance(e, ast.Constant) and isinstance(e.value, str)]
        setattr(found, _LISTS[target.id], names)
    elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        found.attributes[str(target.slice.value)] = ast.unparse(statement.value)
    elif isinstance(target, ast.Name) and target.id != "__annotations__":
        found.constants[target.id] = ast.unparse(statement.value)


def _operator(function: ast.expr) -> str | None:
    """The operator that is called, `aten::add`; None where it is something else."""
    parts: list[str] = []
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    if not isinstance(function, ast.Name) or not parts:
        return None
    parts.reverse()
    if function.id == "torch" and ".".join(["torch", *parts]) not in _NOT_OPERATORS:
        return f"aten::{parts[-1]}"
    return f"{parts[0]}::{parts[1]}" if function.id == "ops" and len(parts) == 2 else None


_NOWHERE = SourceRange(Source("", "archive"), 0, 0)
_PERMISSIONS = Permissions()


def _status(name: str) -> str:
    try:
        _PERMISSIONS.check(name, _NOWHERE)
    except CompileError:
        return "needs allow"
    return "" if ops.lookup(name) or name in Trait.SUGAR.kinds else "unknown"


def _bytecode_operators(reader: ArchiveReader) -> Counter[str]:
    """The operators of the code of the lite interpreter, and in how many methods each is used."""
    found: Counter[str] = Counter()
    program = _records(reader, "bytecode.pkl")
    todo = [program]
    while todo:
        value = todo.pop()
        if isinstance(value, tuple | list):
            if len(value) == 2 and value[0] == "operators" and isinstance(value[1], tuple | list):
                found.update(str(entry[0]) for entry in value[1] if isinstance(entry, tuple | list) and entry)
            else:
                todo += value
    return found


# -- pickles


class _ListedName:
    """A global name in a pickle that is only noted."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def call(self, argument: object) -> Any:
        arguments = argument if isinstance(argument, tuple) else (argument,)
        if self.name.startswith("_rebuild_"):
            return TensorRecord(self.name, arguments)
        if self.module == "torch.jit._pickle":
            return arguments[0] if arguments else None
        if self.name == "OrderedDict":
            return {}
        if (self.module, self.name) == ("builtins", "complex"):
            return complex(*(a for a in arguments if isinstance(a, int | float)))
        return ListedObject(f"{self.module}.{self.name}", argument)

    def build(self, state: object) -> Any:
        return ListedObject(f"{self.module}.{self.name}", state)


def _records(reader: ArchiveReader, member: str) -> Any:
    names: dict[tuple[str, str], PickledGlobal] = {}

    def find(module: str, name: str) -> PickledGlobal:
        return names.setdefault((module, name), _ListedName(module, name))

    with faults_of(member):
        return Unpickler(reader.read(member), member, find, _storage).load()


def _storage(described: object) -> StorageRecord:
    if not (isinstance(described, tuple) and len(described) >= 5 and described[0] == "storage"):
        raise ValueError("a persistent id that is no storage")
    dtype = described[1].name if isinstance(described[1], _ListedName) else str(described[1])
    count = described[4] if isinstance(described[4], int) else 0
    return StorageRecord(dtype, str(described[2]), str(described[3]), count)


def _tensors(root: object, classes: dict[str, ClassListing]) -> Iterator[TensorListing]:
    """The tensors of an object and what is in it, those of one place once."""
    seen: set[int] = set()
    todo: list[tuple[str, str, object, int]] = [("", "attribute", root, 0)]
    while todo:
        path, role, value, depth = todo.pop()
        if isinstance(value, TensorRecord):
            yield TensorListing(path, role, value)
        elif depth < _DEEPEST and isinstance(value, ListedObject | dict | list | tuple) and id(value) not in seen:
            seen.add(id(value))
            todo += reversed(_parts(path, value, classes, depth + 1))


def _parts(
    path: str, value: Any, classes: dict[str, ClassListing], depth: int
) -> list[tuple[str, str, Any, int]]:  # fmt: skip
    if isinstance(value, ListedObject) and isinstance(value.state, dict):
        known = classes.get(value.name)
        parameters, buffers = (known.parameters, known.buffers) if known else ([], [])
        return [
            (f"{path}.{n}".lstrip("."), "parameter" if n in parameters else "buffer" if n in buffers else "attribute",
             v, depth)
            for n, v in value.state.items()
        ]  # fmt: skip
    if isinstance(value, ListedObject):
        return [(f"{path}.__getstate__()".lstrip("."), "state", value.state, depth)]
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return [(f"{path}[{key!r}]", "element", v, depth) for key, v in items]


# -- tensors that are read after all


def read_tensor(reader: ArchiveReader, tensor: TensorRecord) -> torch.Tensor:
    """The tensor itself, on the CPU.

    Raises:
        ArchiveError: its data are missing or damaged, or it is of a kind that is not read here.
    """
    rebuild: Callable[..., torch.Tensor] | None = _REBUILD.get(tensor.function)
    record = tensor.storage
    if rebuild is None or record is None or tensor.dtype is None:
        raise ArchiveError(f"a tensor made by {tensor.function} is not read alone", "data.pkl")
    storages = Storages(reader, "data", torch.device("cpu"))

    class _Dtype:
        dtype = tensor.dtype

    with faults_of("data.pkl"):
        found = storages.find(("storage", _Dtype, record.key, "cpu", record.count), "data.pkl")
        return rebuild(found, *tensor.arguments[1:])


_REBUILD: dict[str, Callable[..., torch.Tensor]] = {
    "_rebuild_tensor_v2": rebuild_tensor, "_rebuild_tensor": rebuild_tensor, "_rebuild_qtensor": rebuild_quantized,
}  # fmt: skip


# -- graphs, which are compiled but not run


def compile_methods(reader: ArchiveReader, listing: Listing, allow: Collection[str] = ()) -> Iterator[Function]:
    """The functions and methods of an archive, compiled, each when it is asked for. Nothing is run.

    Raises:
        ArchiveError, CompileError: something in it is not as it should be.
    """
    table: list[object] = []

    def constant(number: int) -> Any:
        if not table:
            storages = Storages(reader, "constants", torch.device("cpu"))
            objects = Objects(lambda: importer, storages, "constants.pkl", allow, run_code=False)
            table.append(objects.load(reader.read("constants.pkl")))
        found = table[0]
        if not isinstance(found, tuple) or number >= len(found):
            raise ArchiveError(f"the code uses constant {number}, which is not there", "constants.pkl")
        return found[number]

    importer = Importer(code_of(reader), listing.version, constant, allow)
    for name in listing.functions:
        function = importer.function(name)
        if function is not None:
            yield function
    for name, described in listing.classes.items():
        found = importer.type_of(name) if described.kind in ("", "Module") else None
        if isinstance(found, ClassType):
            yield from found.methods.values()
            yield from (*found.forward_pre_hooks, *found.forward_hooks)
