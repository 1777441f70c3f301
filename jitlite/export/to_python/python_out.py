"""Compiled functions and modules -> Python source that needs nothing but torch, and a file with the weights.

How to read: `python_file.py` keeps the text and its names, `python_function.py` writes functions, `python_modules.py`
classes of modules; here a program is put together.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from jitlite.archive.tensor_identity import sharing_memory, tensors_in
from jitlite.base.errors.ways_out import NOT_AS_PYTHON
from jitlite.base.keywords import checks_keywords
from jitlite.base.whole_files import replacing
from jitlite.compiler.program import compiling
from jitlite.export.to_python.known_modules import KnownModules
from jitlite.export.to_python.python_file import PythonFile
from jitlite.export.to_python.python_function import function_lines
from jitlite.export.to_python.python_layout import laid_out
from jitlite.export.to_python.python_modules import ModuleWriter, constant_lines, method_lines
from jitlite.export.to_python.python_names import method_name
from jitlite.ir import types as T
from jitlite.ir.code_text import EMPTY, Identifier, Text, code, dotted, fixed, identifier, indented, joined, literal
from jitlite.ir.unit import Function
from jitlite.ir.values import class_type_of
from jitlite.passes.int_codes_to_objects import Kinds

_ATTEMPTS = 8
"""How often names may have to be chosen anew, because a parameter or variable has the name of something else."""


@dataclass
class PythonProgram:
    """A program as Python source.

    Attributes:
        source: the text of the module. It imports torch and Python's own library only.
        weights: what `load` of the source reads: the state of the module, and tensors that are neither parameters nor
            buffers.
        name: the class or function in the source that is the program.
    """

    source: str
    weights: dict[str, torch.Tensor] = field(repr=False)
    name: str

    def __str__(self) -> str:
        return self.source

    def save(self, path: str | os.PathLike[str]) -> tuple[Path, Path | None]:
        """Write the source to `path`, which ends in `.py`, and the weights, if there are any, beside it: those of
        `net.py` to `net_weights.pt`.

        Gives the paths of the two files.

        Raises:
            ValueError: the path does not end in `.py`.
        """
        target = Path(path)
        if target.suffix != ".py":
            raise ValueError(f"'{target}' is to end in .py, as it will be Python source")
        weights = weights_path(target)
        with replacing(target) as made:
            source = self.source.replace(_weights_name(self.name), literal(weights.name))
            made.write_text(source, encoding="utf-8")
            if self.weights:
                with replacing(weights) as whole, open(whole, "wb") as file:
                    torch.save(self.weights, file)
        return target, weights if self.weights else None


def weights_path(source: Path) -> Path:
    """The file of weights beside a file of source."""
    return source.with_name(f"{source.stem}_weights.pt")


def _weights_name(name: str) -> Text:
    """The name of the file of weights in the source, unless it is written to a file."""
    return literal(f"{name}_weights.pt")


@checks_keywords
def to_python(obj: object, path: str | os.PathLike[str] | None = None) -> PythonProgram:
    """Write a compiled function or module as Python source that needs nothing but torch.

    The source has classes of `torch.nn.Module` with `__init__` and methods, script classes, enums, named tuples and
    functions. Modules of `torch.nn` are used where those of the program are provably the same. A function `load` makes
    the module with its weights.

    Args:
        obj: what `script`, `trace`, `freeze` or `load` gives.
        path: a file `NAME.py` to write the source to; the weights go to `NAME_weights.pt` beside it.

    Raises:
        NotSupportedError: something in the program has no equal in Python with torch; the error names it.
        TypeError: `obj` is not compiled.
    """
    with compiling():
        program = _program(obj)
    if path is not None:
        program.save(path)
    return program


def _program(obj: object) -> PythonProgram:
    avoided: frozenset[str] = frozenset()
    reserved: frozenset[str] = frozenset()
    known = KnownModules()
    kinds = _kinds(obj)
    for _ in range(_ATTEMPTS):
        file = PythonFile(avoided, reserved, kinds)
        program = _write(file, obj, known)
        defined = {n for n in file.names_in_use if n.isidentifier()}
        used_builtins = file.parameters & _BUILTINS
        hidden = (file.parameters & defined) | (used_builtins - avoided)
        covered = (file.variables - file.parameters) & defined
        if not hidden and not covered:
            return program
        avoided, reserved = avoided | hidden, reserved | covered
    raise NOT_AS_PYTHON("the names of parameters and functions of the program are in one another's way")


_BUILTINS = frozenset(dir(builtins))


def _kinds(obj: object) -> Kinds:
    """What the ints of a program mean. Constants of its graphs become the objects that they mean."""
    kinds = Kinds()
    function = getattr(obj, "__jitlite_function__", obj)
    if isinstance(function, Function):
        kinds.add(function.graph)
    elif isinstance(obj, torch.nn.Module):
        for module in obj.modules():
            found = class_type_of(module)
            for method in found.methods.values() if found is not None else ():
                if isinstance(method, Function):
                    kinds.add(method.graph)
    kinds.convert()
    return kinds


def _write(file: PythonFile, obj: object, known: KnownModules) -> PythonProgram:
    function = getattr(obj, "__jitlite_function__", obj)
    if isinstance(obj, torch.nn.Module) and class_type_of(obj) is not None:
        return _write_module(file, obj, known)
    if isinstance(function, Function):
        if getattr(obj, "_owner", None) is not None or _is_method(function):
            raise TypeError("to_python takes a module or a function; a method is written with its module")
        name = file.function(function)
        _Declarations(file, None).run()
        return PythonProgram(_text(file, name, None, bool(file.tensors)), dict(file.tensors), name)
    raise TypeError(f"to_python takes a compiled function or module, not {type(obj).__name__}; compile it first")


def _is_method(function: Function) -> bool:
    arguments = function.schema.arguments
    return bool(arguments) and isinstance(arguments[0].type, T.ClassType) and arguments[0].name == "self"


def _write_module(file: PythonFile, module: torch.nn.Module, known: KnownModules) -> PythonProgram:
    state = {name: value.detach() for name, value in module.state_dict().items() if isinstance(value, torch.Tensor)}
    file.stored_names.update(state)
    file.shared_storages.update(group[0].untyped_storage()._cdata for group in sharing_memory(tensors_in(module)))
    writer = ModuleWriter(file, module, known)
    writer.plan()
    root = class_type_of(module)
    assert root is not None
    written = [t for t in writer.order if writer.is_written(t)]
    blocks = [writer.class_lines(t) for t in written if t is not root]
    if root in written:
        name = file.names[root]
        blocks.append(writer.class_lines(root))
    else:
        name, lines = writer.maker_lines(root)
        blocks.append(lines)
    _Declarations(file, writer).run()
    file.blocks["classes"] += blocks
    weights = {**state, **file.tensors}
    return PythonProgram(_text(file, name, writer, bool(weights)), weights, name)


# -- what a program mentions


class _Declarations:
    """Writes what is pending, and what that mentions."""

    def __init__(self, file: PythonFile, modules: ModuleWriter | None) -> None:
        self.file = file
        self.modules = modules

    def run(self) -> None:
        """Write until nothing is pending."""
        while self.file.pending:
            self.write(self.file.pending.pop(0))

    def write(self, named: object) -> None:
        """Write the declaration of one thing."""
        for kind, write in _WRITERS:
            if isinstance(named, kind):
                write(self, named)
                return

    def function(self, function: Function) -> None:
        lines = function_lines(self.file, function, identifier(self.file.names[function]))
        self.run()
        self.file.blocks["functions"].append(lines)

    def class_(self, type: T.ClassType) -> None:
        base = code("({}.Module)", self.file.imported("nn")) if type.is_module else EMPTY
        lines = [code("class {}{}:", self.file.names[type], base)]
        constants, written = constant_lines(self.file, type), method_lines(self.file, type)
        lines += [*(indented(line, 1) for line in constants), *([EMPTY] if constants and written else []), *written]
        if len(lines) == 1:
            lines.append(_PASS)
        self.run()
        self.file.blocks["classes"].append(lines)

    def enum(self, type: T.EnumType) -> None:
        cls: Any = type.python_class
        lines = [code("class {}({}.Enum):", self.file.names[type], self.file.imported("enum"))]
        for name, member in cls.__members__.items():
            lines.append(code("    {} = {}", member_name(name), self.file.constant(member.value)))
        self.file.blocks["types"].append(lines)

    def named_tuple(self, type: T.TupleType) -> None:
        lines = [code("class {}({}):", self.file.names[type], self.file.imported("NamedTuple"))]
        defaults = getattr(type.python_class, "_field_defaults", {})
        for name, element in zip(type.names or (), type.elements, strict=True):
            line = code("    {}: {}", identifier(name, "the name of a field"), self.file.annotation(element))
            lines.append(code("{} = {}", line, self.file.constant(defaults[name])) if name in defaults else line)
        if len(lines) == 1:
            lines.append(_PASS)
        self.run()
        self.file.blocks["types"].append(lines)

    def interface(self, type: T.InterfaceType) -> None:
        lines = [code("class {}({}):", self.file.names[type], self.file.imported("Protocol"))]
        for name, schema in type.methods.items():
            taken = [
                fixed("self"),
                *(code("{}: {}", identifier(a.name), self.file.annotation(a.type)) for a in schema.arguments[1:]),
            ]
            result = self.file.annotation(schema.returns[0].type)
            lines += laid_out(code("    def {}({}) -> {}: ...", method_name(name), joined(", ", taken), result))
        self.run()
        self.file.blocks["types"].append(lines)


def member_name(name: str) -> Identifier:
    """The name of a member of an enum.

    Raises:
        NotSupportedError: it is none in the source: enums keep names with underscores on both sides for themselves.
    """
    if (name.startswith("_") and name.endswith("_")) or name == "mro":
        raise NOT_AS_PYTHON(f"an enum of Python has no member {name!a}")
    return identifier(name, "the name of a member")


_WRITERS: tuple[tuple[Any, Callable[[_Declarations, Any], None]], ...] = (
    (Function, _Declarations.function),
    (T.ClassType, _Declarations.class_),
    (T.EnumType, _Declarations.enum),
    (T.TupleType, _Declarations.named_tuple),
    (T.InterfaceType, _Declarations.interface),
)


# -- the text


def _text(file: PythonFile, name: Text, modules: ModuleWriter | None, has_weights: bool) -> str:
    loader = _loader(file, name, modules, has_weights)
    parts = [
        code('"""`{}`, written by jitlite from a compiled program."""', name),
        EMPTY,
        fixed("from __future__ import annotations"),
        EMPTY,
    ]
    parts += [*_import_lines(file), EMPTY]
    if file.tensors:
        names = joined(" ", (code("{},", literal(n)) for n in file.tensors))
        text = code("TENSORS = {{name: {}.empty(0) for name in ({})}}", file.imported("torch"), names)
        parts += [*laid_out(text), _ABOUT]
    parts += file.constants
    for kind in ("types", "helpers", "functions", "classes"):
        for block in file.blocks[kind]:
            parts += [EMPTY, EMPTY, *block]
    parts += [EMPTY, EMPTY, *loader] if loader else []
    return "\n".join(parts).replace("\n\n\n\n", "\n\n\n").rstrip("\n") + "\n"


def _import_lines(file: PythonFile) -> list[Text]:
    """What is imported; names from one module in one line."""
    whole = {i.text: i.module for i in file.imports.values() if i.name is None}
    parts: dict[str, list[Text]] = {}
    for found in file.imports.values():
        if found.name is not None:
            parts.setdefault(found.module, []).append(found.text)
    lines = [(code("import {}", text), whole[text]) for text in sorted(whole)]
    lines += [
        (code("from {} import {}", dotted(module), joined(", ", sorted(parts[module]))), module)
        for module in sorted(parts)
    ]
    standard = [line for line, module in lines if not _is_torch(module)]
    others = [line for line, module in lines if _is_torch(module)]
    return [*standard, *([EMPTY] if standard and others else []), *others]


def _is_torch(module: str) -> bool:
    return module.partition(".")[0] == "torch"


_ABOUT = fixed('"""Tensors that are neither parameters nor buffers: `load` reads them."""')
_PASS = fixed("    pass")


def _loader(file: PythonFile, name: Text, modules: ModuleWriter | None, has_weights: bool) -> list[Text]:
    """The function `load` of the source."""
    if not has_weights:
        return _loader_without_weights(name, modules) if modules is not None else []
    torch_ = file.imported("torch")
    result = fixed("None") if modules is None else modules.root_class
    about = fixed("The module with its weights" if modules is not None else "Read the tensors of the program")
    lines = [
        code("def load(path=None, map_location=None) -> {}:", result),
        code('    """{}, from a file."""', about),
        fixed("    if path is None:"),
        code("        path = {}(__file__).with_name({})", file.imported("Path"), _weights_name(name)),
        code("    weights = {}.load(path, map_location=map_location, weights_only=True)", torch_),
    ]
    if file.tensors:
        lines.append(fixed("    TENSORS.update({name: weights.pop(name) for name in TENSORS})"))
    if modules is not None:
        lines += [code("    model = {}()", name), fixed("    model.load_state_dict(weights, assign=True)")]
        lines += [*_tying(name, modules), fixed("    return model")]
    return lines


def _loader_without_weights(name: Text, modules: ModuleWriter) -> list[Text]:
    return [
        code("def load(path=None, map_location=None) -> {}:", modules.root_class),
        fixed('    """The module, which has no weights: no file is read."""'),
        code("    model = {}()", name),
        *_tying(name, modules),
        fixed("    return model"),
    ]


def _tying(name: Text, modules: ModuleWriter) -> list[Text]:
    if not modules.ties:
        return []
    return [fixed("    model.tie_weights()" if modules.root_class == name else "    tie_weights(model)")]
