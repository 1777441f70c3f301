"""What names mean in the sources of an archive, and which operators these may use.

    torch.add(x, 1)         the operator aten::add          CONSTANTS.c0            an entry of the table of constants
    ops.prim.data(x)        the operator prim::data         __torch__.a.b.C         a class or function of the archive

An archive is not trusted. Operators that touch files, processes or networks, Python's functions, and operators of
libraries other than torch's own are refused unless the reader of the archive allows them by name.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Collection, Iterable

from jitlite.base.errors.classes import NO_SCRIPT_CLASS
from jitlite.base.errors.ways_out import BAD_ARCHIVE
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.callables import FunctionValue
from jitlite.frontend.emit.calls import form
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.resolver import Resolver
from jitlite.frontend.emit.values import Args, BuiltinFunction, ConstantValue, SimpleValue, SpecialForm, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.ir import ops
from jitlite.ir import types as T
from jitlite.ir.compiling import make_room
from jitlite.ir.graph import Value, constant_of, is_constant
from jitlite.ir.traits import Trait
from jitlite.ir.types import ClassType, Type
from jitlite.ir.unit import Function

_HARMLESS = frozenset(
    {"aten", "prim", "quantized", "_quantized", "quantization", "sparse", "mkldnn", "mkldnn_prepacked", "prepacked",
     "onednn", "profiler", "cuda", "xnnpack", "metal", "vulkan", "mkl", "mkldnn_reorder"}
)  # fmt: skip
"""Namespaces of operators of torch's own that compute and do nothing else."""


class Permissions:
    """Which operators the program of an archive may use.

    Args:
        allow: names of operators such as `torchvision::nms`, or of whole namespaces such as `torchvision`.
    """

    def __init__(self, allow: Collection[str] = ()) -> None:
        self.allow = frozenset(allow)

    def check(self, name: str, range: SourceRange) -> None:
        """May an operator be used?

        Raises:
            NotSupportedError: it is refused.
        """
        reason = self.refusal(name)
        if reason is not None:
            raise BAD_ARCHIVE.unsupported(
                f"the archive uses the operator '{name}', which {reason}", range,
                hint=f"if you trust the archive, allow it by name: load(file, allow=['{name}'])",
            )  # fmt: skip

    def refusal(self, name: str) -> str | None:
        """Why an operator may not be used, None if it may."""
        namespace = name.partition("::")[0]
        if name in self.allow or namespace in self.allow:
            return None
        if name in Trait.REACHES_OUT.kinds or name in Trait.REFUSED_IN_ARCHIVES.kinds:
            return "touches what is outside of the program: files, processes, networks or Python"
        return None if namespace in _HARMLESS else "belongs to a library that is not part of torch"


Upgrades = Callable[[str], "SugaredValue | None"]
"""What stands for an operator in an archive of the version that is being read; None for the operator itself."""


class OperatorNamespace(SugaredValue):
    """`torch`, or `ops.NAME`: its attributes are operators."""

    def __init__(self, namespace: str, permissions: Permissions, upgrades: Upgrades) -> None:
        self.namespace = namespace
        self.permissions = permissions
        self.upgrades = upgrades
        self.kind = f"the operators {namespace}::"

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        if self.namespace == "aten" and name == "autograd":
            return self  # torch.autograd.grad and torch.autograd.backward are operators like others
        qualified = f"{self.namespace}::{name}"
        self.permissions.check(qualified, range)
        found = _SPECIAL.get(qualified) or self.upgrades(qualified)
        if found is not None:
            return found
        if not ops.lookup(qualified) and self.namespace != "prim":
            raise BAD_ARCHIVE.unsupported(
                f"the archive uses the operator '{qualified}', which torch does not have here", range,
                hint="import the library that defines it" if self.namespace != "aten" else None,
            )  # fmt: skip
        return BuiltinFunction(qualified)


class OperatorNamespaces(SugaredValue):
    """`ops`: its attributes are namespaces."""

    kind = "the operators"

    def __init__(self, permissions: Permissions, upgrades: Upgrades) -> None:
        self.permissions = permissions
        self.upgrades = upgrades

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        return OperatorNamespace(name, self.permissions, self.upgrades)


class ArchivedConstants(SugaredValue):
    """`CONSTANTS`: `c0`, `c1` and so on are its entries. `typed` gives the type of one."""

    kind = "the table of constants"

    def __init__(self, entries: Callable[[int], object], typed: Callable[[object], Type | None]) -> None:
        self.entries = entries
        self.typed = typed

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        if not (name[:1] == "c" and name[1:].isascii() and name[1:].isdigit()):
            raise BAD_ARCHIVE(f"the table of constants has no '{name}'", range)
        value = self.entries(int(name[1:]))
        return SimpleValue(b.constant(value, range, self.typed(value)))


class QualifiedName(SugaredValue):
    """`__torch__.a.b`: the beginning of the name of a class or function.

    Args:
        find: what a whole name means, None where it is the beginning of one.
    """

    def __init__(self, name: str, find: Callable[[Emitter, str, SourceRange], SugaredValue | None]) -> None:
        self.name = name
        self.find = find
        self.kind = f"the name '{name}', under which the archive has no class or function"

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        assert isinstance(b, Emitter)
        qualified = f"{self.name}.{name}"
        return self.find(b, qualified, range) or QualifiedName(qualified, self.find)


class ArchivedClass(SugaredValue):
    """A class of the archive, of which objects can be made, `C.__new__(C)`, and hooks called, `C.hook(module, ...)`."""

    def __init__(self, type: ClassType) -> None:
        self.type = type
        self.kind = f"the class {type.annotation}"

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        if name == "__new__":
            return SpecialForm("new_object", self)
        hooks = (*self.type.forward_pre_hooks, *self.type.forward_hooks)
        found = next((f for f in hooks if f.name == name), self.type.methods.get(name))
        if not isinstance(found, Function):
            return super().attr(b, range, name)
        return FunctionValue(self.type.definition.program.ready(found, range))


class _Raise(SugaredValue):
    """`ops.prim.RaiseException(message, class)`."""

    kind = "the operator prim::RaiseException"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        message, *others = [a.in_graph(b.graph) for a in args]
        named = others[0] if others else b.constant(None, range)
        if is_constant(named) and not may_raise(constant_of(named)):
            named = b.constant(None, range)
        b.node("prim::RaiseException", [message, named], [], range)
        return SimpleValue(b.constant(None, range))


def may_raise(name: object) -> bool:
    """May a program raise the class of this name? Not those that end the process, such as SystemExit."""
    if not isinstance(name, str) or not name.startswith("builtins."):
        return isinstance(name, str)
    found = getattr(builtins, name.removeprefix("builtins."), None)
    return isinstance(found, type) and issubclass(found, Exception)


class _Unwrap(SugaredValue):
    """`ops.prim.unchecked_unwrap_optional(x)`, as old archives have it."""

    kind = "the operator prim::unchecked_unwrap_optional"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        value = args[0].in_graph(b.graph)
        return SimpleValue(b.cast(value, T.without_none(value.type)))


_SPECIAL: dict[str, SugaredValue] = {
    "prim::RaiseException": _Raise(), "prim::unchecked_unwrap_optional": _Unwrap(),
    "aten::device": SpecialForm("device"),
}  # fmt: skip
"""Operators that are called in another way than others."""


_LEVELS_OF_A_CLASS = 2
"""What reading the class that another one names nests, in levels of a program."""


class ArchiveResolver(Resolver):
    """Names in the sources of an archive.

    Args:
        roots: what names mean besides those that mean the same in all archives.
        types: the type of a qualified name, None where there is none.
    """

    def __init__(self, roots: dict[str, SugaredValue], types: Callable[[str], Type | None]) -> None:
        super().__init__()
        self.roots = {**_FORMS, **roots}
        self.types = types

    def lookup(self, name: str) -> object:
        if name in self.roots:
            return self.roots[name]
        raise LookupError(name)

    def resolve_type(self, name: str) -> object:
        make_room(_LEVELS_OF_A_CLASS)
        found = self.types(name) if name.startswith("__torch__.") else None
        if found is None:
            raise LookupError(name)
        return found

    def names(self) -> Iterable[str]:
        return self.roots.keys()


_FORMS: dict[str, SugaredValue] = {
    **{name: SpecialForm(name) for name in ("fork", "awaitable", "annotate", "uninitialized")},
    "unchecked_cast": SpecialForm("archived_cast"),
    "inf": ConstantValue(math.inf), "nan": ConstantValue(math.nan),
    "infj": ConstantValue(complex(0, math.inf)), "nanj": ConstantValue(complex(0, math.nan)),
}  # fmt: skip


@form("uninitialized", 1, 1)
def emit_uninitialized(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> Value:
    """A value that is never read."""
    return em.uninitialized(em.parse_type(call.args[0]))


@form("new_object", 1, 1)
def emit_new_object(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> Value:
    """`C.__new__(C)`: an object without its attributes, which `__init__` gives it next."""
    cls = special.subject
    assert isinstance(cls, ArchivedClass)
    if cls.type.is_module:
        raise NO_SCRIPT_CLASS("a program cannot make modules", call.range)
    return em.node("prim::CreateObject", [], [cls.type], call.range).output


class Upgraded(BuiltinFunction):
    """An operator of an older version: a function of today's operators that does what it did.

    Args:
        choose: the function for arguments of these types, None where the operator does the same today.
    """

    def __init__(self, name: str, choose: Callable[[Builder, SourceRange, Args, Args], SugaredValue | None]) -> None:
        super().__init__(name)
        self.choose = choose

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        found = self.choose(b, range, args, kwargs)
        return super().call(b, range, args, kwargs) if found is None else found.call(b, range, args, kwargs)
