"""Operators: what each is called, how it is typed, what it may do, and the Python callable that is its meaning.

Operators of torch's dispatcher are read from `torch.ops` and need no declaration. Everything else is declared once,
with `@op`: what programs use in `prims.py`, `scalars.py`, `strings.py`, `containers.py`, `tensors.py` and
`tensor_items.py`, what only passes make in `pass_prims.py`. Kinds with blocks or with an instruction of their own are
declared in `prims.py` with `structural`. Printer, verifier, passes, interpreter and documentation derive from these
declarations.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar

import torch

from jitlite.base import plugins
from jitlite.base.computed_once import cached_property
from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.int_codes import BY_TYPE, WITH_OBJECTS, int_coded, is_int_coded, on_numbers
from jitlite.ir.schema import Argument, Schema, parse_schema
from jitlite.ir.traits import Known, Trait, known


class Effect(enum.Enum):
    """What running an operator does besides computing its outputs."""

    PURE = "computes its outputs from its inputs and nothing else"
    STATE = "reads state that is not among its inputs: may not be folded or merged"
    RANDOM = "draws random numbers: may not be folded, merged, removed or reordered"
    WRITE = "writes the arguments that its schema marks with `!`"
    SIDE = "is seen from outside (prints, raises, warns, sets a mode): never removed or crossed"


@dataclass(frozen=True, eq=False)
class Op:
    """One overload of an operator.

    Attributes:
        schema: its signature.
        effect: see `Effect`.
        fn: called with the arguments in schema order; gives the result, a tuple for several results, None for no
            result. None for structural kinds, which the interpreter has an instruction for.
        total: cannot raise for arguments of its types, so an unused call may be dropped.
        doc: one or more sentences for `docs/operators.md`.
        overload: the dispatcher's operator, for operators that torch has.
        attributes: names of the node's attributes that `fn` takes as keyword arguments, beside its inputs.
        with_objects: what it means where an operand may be an object such as a dtype, if that was declared.
    """

    schema: Schema
    effect: Effect
    fn: Callable[..., Any] | None
    total: bool = False
    doc: str = ""
    overload: Any = None
    attributes: tuple[str, ...] = ()
    with_objects: Callable[..., Any] | None = None

    @property
    def name(self) -> str:
        return self.schema.name

    def has(self, trait: Trait) -> bool:
        """Does the promise hold for the operator: for all overloads of its name, or for this one?"""
        return self.schema.name in trait.kinds or self.schema.qualified in trait.kinds

    @property
    def is_pointwise(self) -> bool:
        return self.overload is not None and torch.Tag.pointwise in self.overload.tags

    def __repr__(self) -> str:
        return f"<Op {self.schema}>"


class _OperatorDeclaration(Record):
    """What is written down of an operator.

    The schema is read when somebody asks for the operator: most programs use few, and reading all took a third of the
    time of `import jitlite`.
    """

    text: str
    effect: Effect | None
    fn: Callable[..., Any] | None
    total: bool
    doc: str
    with_objects: Callable[..., Any] | None = None

    @cached_property
    def op(self) -> Op:
        schema = parse_schema(self.text)
        effect = self.effect or (Effect.WRITE if schema.is_mutable else Effect.PURE)
        return Op(
            schema,
            effect,
            self.fn,
            self.total,
            self.doc,
            attributes=_keyword_only(self.fn),
            with_objects=self.with_objects or WITH_OBJECTS.get(self.fn),
        )


_F = TypeVar("_F", bound=Callable[..., Any])
_declared: dict[str, dict[str, _OperatorDeclaration]] = {}
"""By name and overload."""

_found: dict[str, tuple[Op, ...]] = {}


def op(
    schema: str,
    effect: Effect | None = None,
    *,
    total: bool = False,
    doc: str | None = None,
    traits: tuple[Known, ...] = (),
    with_objects: Callable[..., Any] | Literal["itself"] | None = None,
) -> Callable[[_F], _F]:
    """Declare the decorated function to be the meaning of the operator with this schema.

    The function's docstring becomes the operator's documentation, unless `doc` is given. Without an effect it is WRITE
    where the schema marks an argument with `!`, else PURE. Stack the decorator to declare several overloads with one
    meaning. Keyword-only parameters of the function are read from the node's attributes of those names.

    `traits` are what else is known of the name, so of all its overloads: one of them declares it. `with_objects` is the
    meaning where ints may be objects such as dtypes, if the function is none of Python's that `int_codes.py` knows.

    Raises:
        ValueError: the overload is declared already, or a package declares an operator that torch has.
    """
    is_own = str(sys._getframe(1).f_globals.get("__name__", "")).startswith("jitlite.")
    known(schema.partition("(")[0].partition(".")[0], *traits)

    def declare(fn: _F) -> _F:
        text = (fn.__doc__ or "").strip() if doc is None else doc
        if not is_own:
            _refuse_torchs(schema.partition("(")[0].strip())
        _add(_OperatorDeclaration(schema, effect, fn, total, text, fn if with_objects == "itself" else with_objects))
        return fn

    return declare


def op_family(
    template: str,
    choices: str,
    effect: Effect | None = None,
    *,
    total: bool | str = False,
    doc: str | None = None,
    with_objects: Callable[..., Any] | Literal["itself"] | None = None,
) -> Callable[[_F], _F]:
    """`op` for every word of `choices`, put in place of each `{}` of the schema.

    `total` may name the choices for which the operator cannot raise.
    """
    total_choices = set(total.split()) if isinstance(total, str) else set(choices.split() if total else ())

    def declare(fn: _F) -> _F:
        for choice in choices.split():
            schema, is_total = template.replace("{}", choice), choice in total_choices
            op(schema, effect, total=is_total, doc=doc, with_objects=with_objects)(fn)
        return fn

    return declare


def structural(schema: str, effect: Effect, doc: str, *, total: bool = False, traits: tuple[Known, ...] = ()) -> None:
    """Declare a kind whose meaning is an instruction of the interpreter (control flow, calls, construction)."""
    known(schema.partition("(")[0].partition(".")[0], *traits)
    _add(_OperatorDeclaration(schema, effect, None, total, doc))


def _add(declared: _OperatorDeclaration) -> None:
    qualified = declared.text.partition("(")[0].strip()
    name, _, overload = qualified.partition(".")
    overloads = _declared.setdefault(name, {})
    if overload in overloads:
        raise ValueError(f"{qualified} is declared twice")
    overloads[overload] = declared
    _found.pop(name, None)


def _refuse_torchs(qualified: str) -> None:
    """Raise for an operator that torch has: graphs of others would run what is declared here."""
    name, _, overload = qualified.partition(".")
    if overload not in _declared.get(name, {}) and any(True for _ in _dispatcher_overloads(name)):
        raise ValueError(
            f"{name} is an operator of torch's: declare yours in a namespace of your own, my_package::name"
        )


def _keyword_only(fn: Callable[..., Any] | None) -> tuple[str, ...]:
    code = getattr(fn, "__code__", None)
    if code is None:
        return ()
    names: tuple[str, ...] = code.co_varnames
    return names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]


def declared_ops() -> Iterator[Op]:
    """Every operator declared by jitlite, in order of declaration."""
    for overloads in _declared.values():
        for declared in overloads.values():
            yield declared.op


def declared_names() -> set[str]:
    """The names of all operators declared by jitlite."""
    return set(_declared)


def lookup(name: str) -> tuple[Op, ...]:
    """All overloads of `aten::add` and the like, in torch's registration order; empty if there is no such operator.

    One that is neither torch's nor declared may be that of an installed package, which is imported then.
    """
    found = _found.get(name)
    if found is None:
        found = tuple(_collect(name))
        if not found and not name.startswith(_OWN):
            load_plugins()
            return _found.get(name) or tuple(_collect(name))  # a library may still define it
        _found[name] = found
    return found


def load_plugins() -> None:
    """Import the modules with which installed packages declare operators, once."""
    plugins.load("jitlite.operators", lambda plugin: None)  # to import it is all


_OWN = ("aten::", "prim::")
"""Namespaces whose operators are torch's and jitlite's."""


def _collect(name: str) -> Iterator[Op]:
    declared = dict(_declared.get(name, ()))
    for overload_name, overload in _dispatcher_overloads(name):
        ours = declared.pop(overload_name, None)
        if ours is not None:
            yield ours.op
        elif overload is not None:
            yield _dispatcher_op(overload)
    for rest in declared.values():
        yield rest.op


def _dispatcher_overloads(name: str) -> Iterator[tuple[str, Any]]:
    """Overload names torch knows for `name`, with the dispatcher's operator where it has one."""
    namespace, _, base = name.partition("::")
    if not base or not base.isidentifier():
        return
    packet = getattr(getattr(torch.ops, namespace), base, None)
    if packet is None or not hasattr(packet, "overloads"):
        return
    for overload_name in packet.overloads():
        overload = getattr(packet, overload_name)
        plain = "" if overload_name == "default" else overload_name
        yield plain, overload if is_dispatched(overload.name()) else None


def is_dispatched(name: str) -> bool:
    """Is the overload of this full name in the dispatcher, as opposed to TorchScript's own table?"""
    return bool(torch._C._dispatch_has_kernel(name))


def _dispatcher_op(overload: Any) -> Op:
    schema = parse_schema(str(overload._schema))
    if torch.Tag.nondeterministic_seeded in overload.tags:
        effect = Effect.RANDOM
    elif schema.is_mutable:
        effect = Effect.WRITE
    elif not schema.returns and not schema.is_varret:  # it must be for something: `_backward`, assertions
        effect = Effect.SIDE
    else:
        effect = Effect.PURE
    total = schema.name in Trait.TOTAL.kinds and not schema.overload
    for_python = FOR_PYTHON_INTS.get(schema.key)
    fn = _positional(overload, schema) if for_python is None else for_python(overload)
    return Op(schema, effect, fn, total, "", overload)


def _sliced(overload: Any) -> Callable[..., Any]:
    """The dispatcher's slice for Python's ints: bounds beyond 64 bits are as good as the last of these."""

    def call(self: Any, dim: int, start: int | None, end: int | None, step: int) -> Any:
        try:
            return overload(self, dim, start, end, step)
        except RuntimeError:
            bounds = [b if b is None else min(max(b, -_MOST - 1), _MOST) for b in (start, end)]
            if bounds == [start, end]:
                raise
        return overload(self, dim, *bounds, step)

    return call


def _selected(overload: Any) -> Callable[..., Any]:
    """The dispatcher's selection for Python's ints: one beyond 64 bits is the ValueError of `x[i]`."""

    def call(self: Any, dim: int, index: int) -> Any:
        try:
            return overload(self, dim, index)
        except RuntimeError:
            if -_MOST - 1 <= index <= _MOST:
                raise
        raise ValueError("Overflow when unpacking long long")

    return call


_MOST = (1 << 63) - 1
FOR_PYTHON_INTS = {("aten::slice", "Tensor"): _sliced, ("aten::select", "int"): _selected}
"""What `x[i]` and `x[a:b]` of eager Python do with ints that the dispatcher does not take."""


def _positional(overload: Any, schema: Schema) -> Callable[..., Any]:
    """A callable that takes all arguments by position and gives ints their meaning as dtypes and layouts."""
    names = [a.name for a in schema.arguments if a.kwarg_only]
    first_keyword = len(schema.arguments) - len(names)
    coded = [(i, a.declared_type) for i, a in enumerate(schema.arguments) if is_int_coded(a.declared_type)]
    result = schema.returns[0].declared_type if len(schema.returns) == 1 else T.NONE
    if not names and not coded and result not in BY_TYPE:
        as_it_is: Callable[..., Any] = overload
        return as_it_is

    def call(*args: object) -> Any:
        if coded:
            listed = list(args)
            for i, declared_type in coded:
                listed[i] = int_coded(declared_type, listed[i])
            args = tuple(listed)
        # torch's dispatcher gives the int code of a dtype
        return int_coded(result, overload(*args[:first_keyword], **dict(zip(names, args[first_keyword:], strict=True))))

    return call


@cache
def fn_with_objects(op: Op) -> Callable[..., Any] | None:
    """What the operator means where its ints may be objects such as dtypes: see `int_codes.py`."""
    if op.fn is None:
        return None
    if op.with_objects is not None:
        return op.with_objects
    positions = tuple(i for i, a in enumerate(op.schema.arguments) if _wants_numbers(a))
    return on_numbers(op.fn, positions) if positions else op.fn


def _wants_numbers(formal: Argument) -> bool:
    """Does the operator compute with what it is given there?"""
    t = formal.declared_type
    t = t.element if isinstance(t, T.OptionalType) else t
    if isinstance(t, T.ListType):
        return t.element in _NUMBERS and not formal.is_write
    return t in _NUMBERS


_NUMBERS = frozenset({T.INT, T.NUMBER, T.SYM_INT})
