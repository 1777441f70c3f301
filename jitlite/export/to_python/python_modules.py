"""Modules as Python: for each class an `__init__` that builds what all its objects have, and takes what differs.

    class Block(nn.Module):
        def __init__(self, conv) -> None:         Net: self.first = Block(conv=nn.Conv2d(3, 8, 3))
            super().__init__()                         self.second = Block(conv=nn.Conv2d(8, 8, 3))
            self.conv = conv
            self.scale = 0.5

What one class cannot say is said at the end of the `__init__` of the outermost module: tensors and modules that are in
two places, parts of it that are not in the same mode.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import Any

import torch
from torch import nn

from jitlite.base.errors.ways_out import NOT_AS_PYTHON
from jitlite.base.records import Record
from jitlite.base.source import NotSupportedError
from jitlite.codegen.torchscript.declarations_out import methods
from jitlite.export.to_python.known_modules import KnownModules, class_of_torch, is_container
from jitlite.export.to_python.python_file import PythonFile, plain_name
from jitlite.export.to_python.python_function import function_lines
from jitlite.export.to_python.python_layout import laid_out
from jitlite.export.to_python.python_names import is_attribute_name, method_name
from jitlite.export.to_python.python_values import ValueWriter
from jitlite.ir.code_text import (
    EMPTY,
    Identifier,
    Text,
    code,
    digits,
    doubled,
    filled,
    fixed,
    identifier,
    indented,
    is_dunder,
    joined,
    literal,
    made_identifier,
    substituted,
)
from jitlite.ir.types import ClassType
from jitlite.ir.unit import Function
from jitlite.ir.values import class_type_of

_STANDARD = frozenset({"training", "_is_full_backward_hook"})
"""Attributes that every module has."""


class _Attribute(Record, frozen=False):
    """An attribute as the objects of a class have it.

    Attributes:
        kind: how it is set; a template of the statement, with `{0}` for the value.
        texts: the value in each object.
    """

    name: str
    kind: Text
    texts: list[Text] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        return len(set(self.texts)) > 1


class _ModuleClassPlan(Record, frozen=False):
    """What the class of some modules is."""

    type: ClassType
    modules: list[tuple[Text, nn.Module]] = field(default_factory=list)
    attributes: dict[str, _Attribute] = field(default_factory=dict)


class ModuleWriter:
    """Writes the modules in one outermost module."""

    def __init__(self, file: PythonFile, root: nn.Module, known: KnownModules) -> None:
        self.file = file
        self.root = root
        self.known = known
        self.values = ValueWriter(file)
        self.plans: dict[ClassType, _ModuleClassPlan] = {}
        self.texts: dict[int, Text] = {}
        self.ties: list[Text] = []
        """Statements that make two places of the outermost module hold one object."""
        self.settings: list[Text] = []
        self.order: list[ClassType] = []
        self._first: dict[int, Text] = {}
        self._in_progress: set[ClassType] = set()
        self._of_torch: dict[ClassType, bool] = {}

    # -- finding out
    def plan(self) -> None:
        """Look at all modules.

        Raises:
            NotSupportedError: something in them cannot be written as Python.
        """
        self._visit(self.root, _SELF)
        for type in self._kinds():
            self._name(type)
        for type in self.order:
            self._plan_class(self.plans[type])
        self._check_forward()
        self._note_modes()

    def _check_forward(self) -> None:
        """A module with several `forward`s has none that Python could call."""
        type = class_type_of(self.root)
        assert type is not None
        if self.is_written(type) and "forward" not in type.methods and "forward__1" in type.methods:
            raise NOT_AS_PYTHON(
                f"'{plain_name(type)}' has a forward for each of several signatures, and Python has one function",
                hint="write the module that calls it, in which it is known which one is meant",
            )

    def _visit(self, module: nn.Module, path: Text) -> None:
        if id(module) in self._first:
            self.ties.append(code("{} = {}", path, self._first[id(module)]))
            return
        self._first[id(module)] = path
        type = class_type_of(module)
        if type is None:
            raise NOT_AS_PYTHON(f"the module at '{path}' is not compiled")
        if type not in self.plans:
            self.plans[type] = _ModuleClassPlan(type)
        self.plans[type].modules.append((path, module))
        if type in self._in_progress:
            raise NOT_AS_PYTHON(f"modules of the class '{plain_name(type)}' contain others of the same class")
        self._in_progress.add(type)
        if not self._is_of_torch(type, module):
            for name, child in module._modules.items():
                if child is not None:
                    self._visit(child, self._step(path, type, name))
        self._in_progress.discard(type)
        if type not in self.order:
            self.order.append(type)

    def _is_of_torch(self, type: ClassType, module: nn.Module) -> bool:
        if self.known.arguments(module) is None:
            self._of_torch[type] = False
        return self._of_torch.setdefault(type, True)

    def _step(self, path: Text, type: ClassType, name: str) -> Text:
        if name.isdecimal() and name.isascii() and is_container(type) is not None:
            return code("{}[{}]", path, digits(name))
        return _attribute_of(path, name)

    def _kinds(self) -> list[ClassType]:
        root = class_type_of(self.root)
        return [t for t in self.order if t is not root] + [t for t in self.order if t is root]

    def _name(self, type: ClassType) -> None:
        """Settle what the class is called in the source."""
        modules = self.plans[type].modules
        container = is_container(type)
        if container is not None:
            self.file.names[type] = code("{}.{}", self.file.imported("nn"), identifier(container.__name__))
            if container is not nn.ModuleDict and all(_is_numbered(m) for _, m in modules):
                self.file.sequences.add(type)
        elif all(self.known.arguments(m) is not None for _, m in modules):
            cls = class_of_torch(type)
            is_public = getattr(nn, cls.__name__, None) is cls
            if is_public:
                self.file.names[type] = code("{}.{}", self.file.imported("nn"), identifier(cls.__name__))
            else:
                self.file.names[type] = self.file.dotted(cls)
            self.file.of_torch.add(type)
        else:
            self.file.names[type] = self.file.unique(made_identifier(plain_name(type)))

    @property
    def root_class(self) -> Text:
        """The name of the class of the outermost module."""
        type = class_type_of(self.root)
        assert type is not None
        return self.file.names[type]

    def is_written(self, type: ClassType) -> bool:
        """Does the source define this class?"""
        return "." not in self.file.names[type]

    # -- values
    def _plan_class(self, plan: _ModuleClassPlan) -> None:
        if not self.is_written(plan.type):
            for path, module in plan.modules:
                self.texts[id(module)] = self._text_of_torch(plan.type, module, path)
            return
        for path, module in plan.modules:
            self._add_state(plan, path, module)
            self._add_attributes(plan, path, module)
            self._add_modules(plan, module)
        for number, (_, module) in enumerate(plan.modules):
            differing = (a for a in plan.attributes.values() if a.differs)
            given = joined(", ", (code("{}={}", _argument(a.name), a.texts[number]) for a in differing))
            self.texts[id(module)] = code("{}({})", self.file.names[plan.type], given)

    def _set(self, plan: _ModuleClassPlan, name: str, kind: Text, text: Text) -> None:
        if is_dunder(name):
            raise NOT_AS_PYTHON(f"'{name}' of '{plain_name(plan.type)}' is a name that Python keeps for itself")
        attribute = plan.attributes.setdefault(name, _Attribute(name, kind))
        attribute.texts.append(text)
        if attribute.kind != kind:
            raise NOT_AS_PYTHON(f"'{name}' of '{plain_name(plan.type)}' is set in different ways")

    def _add_state(self, plan: _ModuleClassPlan, path: Text, module: nn.Module) -> None:
        for name, parameter in module._parameters.items():
            place = self._step(path, plan.type, name)
            registered = code("self.register_parameter({}, {{0}})", _quoted(name))
            if parameter is None:
                self._set(plan, name, registered, literal(None))
                continue
            self._note_shared(parameter, place)
            grad = fixed("" if parameter.requires_grad else ", requires_grad=False")
            text = code("{}.Parameter({}{})", self.file.imported("nn"), self.values.empty(parameter, place), grad)
            self._set(plan, name, _assigned(name, registered), text)
        for name, buffer in module._buffers.items():
            place = self._step(path, plan.type, name)
            is_kept = name not in module._non_persistent_buffers_set
            text = literal(None) if buffer is None else self._buffer(buffer, place, is_kept)
            persistent = fixed("" if is_kept else ", persistent=False")
            self._set(plan, name, code("self.register_buffer({}, {{0}}{})", _quoted(name), persistent), text)

    def _buffer(self, buffer: torch.Tensor, place: Text, is_kept: bool) -> Text:
        self._note_shared(buffer, place)
        return self.values.empty(buffer, place) if is_kept else self.values.tensor(buffer, place)

    def _note_shared(self, tensor: torch.Tensor, place: Text) -> None:
        first = self.values.paths.setdefault(id(tensor), (tensor, place))[1]
        if first != place:
            self.ties.append(code("{} = {}", place, first))

    def _add_attributes(self, plan: _ModuleClassPlan, path: Text, module: nn.Module) -> None:
        type = plan.type
        for name in type.attributes:
            if name in _STANDARD or name in module._modules or name in type.parameters or name in type.buffers:
                continue
            if name in module._parameters or name in module._buffers or name not in vars(module):
                continue
            value = self.file.kinds.object_of_attribute(type, name, vars(module)[name])
            place = self._step(path, type, name)
            text, same_as = self.values.attribute(value, place)
            if same_as is not None:
                self.ties.append(code("{} = {}", place, same_as))
            self._set(plan, name, _assigned(name, code("setattr(self, {}, {{0}})", _quoted(name))), text)

    def _add_modules(self, plan: _ModuleClassPlan, module: nn.Module) -> None:
        for name, child in module._modules.items():
            self._set(
                plan, name, _assigned(name, code("self.add_module({}, {{0}})", _quoted(name))), self._child(child)
            )

    def _child(self, module: nn.Module | None) -> Text:
        return literal(None) if module is None else self.texts[id(module)]

    def _text_of_torch(self, type: ClassType, module: nn.Module, path: Text) -> Text:
        name = self.file.names[type]
        if is_container(type) is not None:
            return code("{}({})", name, self._contents(type, module))
        found = self.known.arguments(module)
        assert found is not None
        for place, holder in _walk(path, module):
            self._note_state_of_torch(place, holder)
        return code("{}({})", name, joined(", ", self._called(found[0], found[1])))

    def _note_state_of_torch(self, path: Text, module: nn.Module) -> None:
        for table in (module._parameters, module._buffers):
            for name, tensor in table.items():
                if tensor is None:
                    continue
                place = code("{}.{}", path, identifier(name))
                self._note_shared(tensor, place)
                if isinstance(tensor, nn.Parameter) and not tensor.requires_grad:
                    self.settings.append(code("{}.requires_grad_(False)", place))

    def _called(self, cls: Any, given: dict[str, object]) -> list[Text]:
        """The arguments of a class of torch: the first ones by position, as far as none is left out."""
        written, by_name = [], False
        names = self.known.parameter_names(cls)
        for name in names:
            if name not in given:
                by_name = True
                continue
            text = self.file.constant(given[name])
            written.append(code("{}={}", identifier(name), text) if by_name else text)
        return written

    def _contents(self, type: ClassType, module: nn.Module) -> Text:
        children = {name: self._child(child) for name, child in module._modules.items()}
        if isinstance(module, nn.ModuleDict) or class_of_torch(type) is nn.ModuleDict:
            pairs = joined(", ", (code("{}: {}", literal(name), text) for name, text in children.items()))
            return code("{{{}}}", pairs) if pairs else EMPTY
        if class_of_torch(type) is nn.ModuleList:
            return code("[{}]", joined(", ", children.values())) if children else EMPTY
        if _is_numbered(module):
            return joined(", ", children.values())
        pairs = joined(", ", (code("({}, {})", literal(name), text) for name, text in children.items()))
        return code("{}([{}])", self.file.imported("OrderedDict"), pairs)

    # -- modes
    def _note_modes(self) -> None:
        """Statements for `training` where it is not True."""
        modes = {path: vars(module).get("training", True) for path, module in _all_modules(self)}
        if not modes[_SELF]:
            self.settings.append(fixed("self.eval()"))
        for path, mode in modes.items():
            if mode != modes[_SELF]:
                self.settings.append(code("{}.training = {}", path, literal(mode)))

    # -- an outermost module of torch
    def maker_lines(self, type: ClassType) -> tuple[Text, list[Text]]:
        """The name and the lines of a function that makes the outermost module, where its class is one of torch's."""
        name = self.file.unique(made_identifier(plain_name(type)))
        lines = [
            code("def {}() -> {}:", name, self.file.names[type]),
            fixed('    """The module, without its weights."""'),
            *laid_out(code("    model = {}", self.texts[id(self.root)])),
            *([fixed("    tie_weights(model)")] if self.ties else []),
            *(indented(_of_model(line), 1) for line in self.settings),
            fixed("    return model"),
        ]
        if self.ties:
            lines += [EMPTY, EMPTY, fixed("def tie_weights(model) -> None:"), indented(_ABOUT_TIES, 1)]
            lines += [indented(_of_model(line), 1) for line in self.ties]
        return name, lines

    # -- classes
    def class_lines(self, type: ClassType) -> list[Text]:
        """The lines of a class."""
        plan = self.plans[type]
        is_root = any(m is self.root for _, m in plan.modules)
        lines = [code("class {}({}.Module):", self.file.names[type], self.file.imported("nn"))]
        constants = constant_lines(self.file, type)
        lines += [*(indented(line, 1) for line in constants), *([EMPTY] if constants else [])]
        lines += [indented(line, 1) for line in self._init(plan, is_root)]
        if is_root and self.ties:
            lines += [EMPTY, fixed("    def tie_weights(self) -> None:"), indented(_ABOUT_TIES, 2)]
            lines += [indented(line, 2) for line in self.ties]
        written = method_lines(self.file, type)
        return [*lines, *([EMPTY] if written else []), *written]

    def _init(self, plan: _ModuleClassPlan, is_root: bool) -> list[Text]:
        taken = [_argument(a.name) for a in plan.attributes.values() if a.differs]
        lines = laid_out(code("def __init__({}) -> None:", joined(", ", [_SELF, *taken])))
        body = [fixed("super().__init__()")]
        for attribute in plan.attributes.values():
            text = _argument(attribute.name) if attribute.differs else attribute.texts[0]
            body += laid_out(filled(attribute.kind, text))
        body += self._hooks(plan.type)
        if is_root and self.ties:
            body.append(fixed("self.tie_weights()"))
        if is_root:
            body += self.settings
        return [*lines, *(indented(line, 1) for line in body)]

    def _hooks(self, type: ClassType) -> list[Text]:
        before = [self.file.function(hook) for hook in type.forward_pre_hooks]
        after = [self.file.function(hook) for hook in type.forward_hooks]
        return [
            *(code("self.register_forward_pre_hook({})", name) for name in before),
            *(code("self.register_forward_hook({})", name) for name in after),
        ]


_SELF = fixed("self")
_OF_SELF = re.compile(r"(?<![\w.'\"])self(?=[.\[])|(?<=\()self(?=,)")
_ABOUT_TIES = fixed('"""Let places that share an object share it."""')


def _of_model(line: Text) -> Text:
    """A statement about `self` as one about `model`."""
    return substituted(_OF_SELF, lambda found: fixed("model"), line)


def _attribute_of(path: Text, name: str) -> Text:
    """An attribute of what is at a path."""
    return (
        code("{}.{}", path, identifier(name))
        if is_attribute_name(name)
        else code("getattr({}, {})", path, literal(name))
    )


def _assigned(name: str, otherwise: Text) -> Text:
    """The statement that sets an attribute, whose name may be one that cannot be assigned to."""
    return code("self.{} = {{0}}", identifier(name)) if is_attribute_name(name) else otherwise


def _quoted(name: str) -> Text:
    """The name as a text within a template."""
    return doubled(literal(name))


def _argument(name: str) -> Identifier:
    return made_identifier(name)


def _is_numbered(module: nn.Module) -> bool:
    return list(module._modules) == [str(i) for i in range(len(module._modules))]


def _walk(path: Text, module: nn.Module) -> list[tuple[Text, nn.Module]]:
    found = [(path, module)]
    for name, child in module._modules.items():
        if child is not None:
            found += _walk(_attribute_of(path, name), child)
    return found


def _all_modules(writer: ModuleWriter) -> list[tuple[Text, nn.Module]]:
    """All modules with their paths, also those within modules of torch."""
    found: dict[int, tuple[Text, nn.Module]] = {}
    for plan in writer.plans.values():
        for path, module in plan.modules:
            inner = [(path, module)] if writer.is_written(plan.type) or is_container(plan.type) else _walk(path, module)
            for place, part in inner:
                found.setdefault(id(part), (place, part))
    return sorted(found.values(), key=lambda item: item[0] != _SELF)


# -- parts of classes


def constant_lines(file: PythonFile, type: ClassType) -> list[Text]:
    """The constants of a class that can be written."""
    lines = []
    for name, value in type.constants.items():
        if not is_attribute_name(name) or name in type.attributes or hasattr(nn.Module, name):
            continue
        if isinstance(value, bool | int | float | complex | str | list | tuple) or value is None:
            try:
                lines.append(code("{}: {} = {}", identifier(name), file.imported("Final"), file.constant(value)))
            except NotSupportedError:
                continue  # nothing reads it: it was read when the program was compiled
    return lines


def method_lines(file: PythonFile, type: ClassType) -> list[Text]:
    """The methods of a class, and its properties."""
    blocks: list[list[Text]] = []
    for method in methods(type):
        blocks.append(_method(file, method))
    for name, (getter, setter) in type.properties.items():
        if getter in type.methods:
            written = [getter] + ([setter] if setter in type.methods and setter is not None else [])
            accessors = joined(", ", map(method_name, written))
            blocks.append([code("{} = property({})", identifier(name), accessors)])
    lines: list[Text] = []
    for block in blocks:
        lines += ([EMPTY] if lines else []) + [indented(line, 1) if line else EMPTY for line in block]
    return lines


def _method(file: PythonFile, method: Function) -> list[Text]:
    return function_lines(file, method, method_name(method.name), is_method=True)
