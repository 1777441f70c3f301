"""`optimize`: a module or function whose operators an engine runs, as far as it can.

For each kind of arguments (dtypes, ranks, sizes that do not vary) a *variant* is made once: the graph of the model for
such arguments, written in the engine's vocabulary, with the nodes that it supports in groups. For an engine that takes
any operators this is the graph of the script. For others the model is recorded at the dispatcher without writes, with
symbols for the sizes that vary.

A call runs the model as it was where no variant holds: while it trains, while gradients are recorded for its arguments
or parameters, under autocast, modes and transforms, for arguments that a variant could not be made for, and after
parameters were exchanged for others of another dtype or size. It does so, too, where a variant raises: nothing that
can be seen has happened then, and the model as it was raises what eager Python raises.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

import torch

from jitlite.api.core_graphs import DynamicShapes, ExampleInputs, names_of, parameters_of
from jitlite.api.engine_arguments import callable_model, check_engine, example_arguments, texts
from jitlite.api.engine_variants import Limits, Variant, VariantMaker
from jitlite.api.script import save, script
from jitlite.base.keywords import checks_keywords
from jitlite.base.records import Record
from jitlite.engines.engine import Engine
from jitlite.engines.group_cache import EngineCounters, GroupCache
from jitlite.engines.shipped import engine_of
from jitlite.interpreter.autograd import is_transformed
from jitlite.interpreter.modes import is_intercepted
from jitlite.objects.module import ScriptModule

_P = ParamSpec("_P")
_R = TypeVar("_R")
_R_co = TypeVar("_R_co", covariant=True)
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_MOST_FORGOTTEN = 64
"""So often it is tried again to make a variant of a kind of arguments that the model raised an error for."""
_MOST_VARIANTS = 8
"""A model has variants for at most so many kinds of arguments. Others run it as it was."""


@overload
def optimize(  # type: ignore[overload-overlap]  # the first overload that fits is meant
    model: torch.nn.Module,
    inputs: ExampleInputs,
    engine: str | Engine = "reference",
    dynamic_shapes: DynamicShapes = False,
    *,
    allow: Sequence[str] | None = None,
    deny: Sequence[str] = (),
) -> OptimizedModule: ...
@overload
def optimize(
    model: Callable[_P, _R],
    inputs: ExampleInputs,
    engine: str | Engine = "reference",
    dynamic_shapes: DynamicShapes = False,
    *,
    allow: Sequence[str] | None = None,
    deny: Sequence[str] = (),
) -> OptimizedFunction[_P, _R]: ...
@checks_keywords
def optimize(
    model: Callable[..., object],
    inputs: ExampleInputs,
    engine: str | Engine = "reference",
    dynamic_shapes: DynamicShapes = False,
    *,
    allow: Sequence[str] | None = None,
    deny: Sequence[str] = (),
) -> OptimizedModule | OptimizedFunction[..., Any]:
    """A module (or function) that does what `model` does, with as many operators as possible run by an engine.

    Args:
        model: an nn.Module, scripted, traced, loaded or plain, or a function that `script` takes.
        inputs: example arguments, a tuple of them or a single tensor.
        engine: the name of one that is shipped ("reference", "onnxruntime", "iree"), or an `Engine`.
        dynamic_shapes: which sizes may vary: True for all, or dimensions by the name of the argument, `{"x": [0]}`.
            For arguments with other sizes than these, another variant is made.
        allow: only these kinds of nodes, `aten::conv2d`, or single ones, `aten::conv2d@3` for the third in the graph.
        deny: not these.

    Raises:
        TypeError: an argument is of a wrong type; the text says which, and what is expected.
        ValueError: there is no engine of this name; a kind is written otherwise.
        ImportError: the engine needs a package that is missing; the text says which.
    """
    examples = example_arguments(inputs)
    check_engine(engine)
    found = engine_of(engine)
    kinds = "kinds of nodes, such as ['aten::conv2d']"
    allowed = None if allow is None else texts("allow", allow, kinds)
    limits = Limits(found, dynamic_shapes, allowed, texts("deny", deny, kinds))
    original = original_of(model)
    limits.check(names_of(original), examples)
    made: OptimizedModule | OptimizedFunction[..., object]
    if isinstance(original, torch.nn.Module):
        made = OptimizedModule(original, limits)
    else:
        made = OptimizedFunction(original, limits)
    with torch.no_grad():
        prepared = made._dispatcher.prepare(examples)
    made._dispatcher.not_prepared = prepared if isinstance(prepared, str) else ""
    return made


def original_of(model: object) -> Callable[..., object]:
    """What a model is made of: a module, or the script of a function."""
    if isinstance(model, OptimizedModule | OptimizedFunction):
        return model._dispatcher.original
    return callable_model(model)


class Dispatcher(Record, frozen=False):
    """Chooses for each call the variant that holds for its arguments.

    Attributes:
        original: the model as it was.
        limits: the engine, and what it may be asked for.
        cache: what the engine has compiled.
        names: of the parameters.
        parameters: by name.
        variants: by the kind of arguments; a sentence where none could be made.
        identities: of the parameters and buffers that the variants were made for.
        reasons: why calls ran the model as it was, and how often.
        not_prepared: why the examples have no variant; "" where they have one.
        forgotten: how often a kind of arguments was forgotten again, as the model raised an error.
    """

    original: Callable[..., object]
    limits: Limits
    cache: GroupCache
    names: Sequence[str]
    parameters: Mapping[str, inspect.Parameter]
    variants: dict[Hashable, Variant | str] = field(default_factory=dict)
    identities: tuple[int, ...] = ()
    reasons: dict[str, int] = field(default_factory=dict)
    not_prepared: str = ""
    forgotten: int = 0

    def __call__(self, *args: object, **kwargs: object) -> object:
        given = self._by_position(args, kwargs)
        if given is not None:
            args, kwargs = given, {}
        variant = self._variant_for(args, kwargs)
        if isinstance(variant, str):
            try:
                return self._run_original(variant, args, kwargs)
            except Exception:
                self._forget(variant)
                raise
        try:
            found = variant.run(*args)
        except Exception:
            if variant.has_effects:
                raise
            return self._run_original("the variant raised an error", args, kwargs)
        variant.calls += 1
        return found

    def prepare(self, args: Sequence[object]) -> Variant | str:
        """The variant for these arguments, which is made where there is none yet."""
        return self._variant_for(args, {})

    def _by_position(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> tuple[object, ...] | None:
        """All arguments by position, with the defaults in between; None where there is no such call."""
        if not kwargs or len(args) > len(self.names):
            return None
        rest, left = list(args), dict(kwargs)
        for name in self.names[len(args) :]:
            if not left:
                break
            parameter = self.parameters[name]
            if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
                return None
            if name not in left and parameter.default is parameter.empty:
                return None
            rest.append(left.pop(name) if name in left else parameter.default)
        return None if left else tuple(rest)

    def _forget(self, reason: str) -> None:
        """Have other arguments of a kind decide about it: for these the model itself raised an error."""
        for kind, found in list(self.variants.items()):
            if found is reason and self.forgotten < _MOST_FORGOTTEN:
                self.forgotten += 1
                self.variants.pop(kind, None)

    def _run_original(self, reason: str, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        return self.original(*args, **kwargs)

    def _variant_for(self, args: Sequence[object], kwargs: Mapping[str, object]) -> Variant | str:
        if kwargs or len(args) > len(self.names):
            return "it was called with keywords"
        if is_intercepted() or is_transformed():
            return "it was called under autocast, or a mode or transform that sees operators"
        state, modules = list(self._state()), list(self._modules())
        reason = _why_not_with(args, state) or _why_not_in_state(modules)
        if reason is not None:
            return reason
        identities = (*map(id, state), *map(id, modules))
        if identities != self.identities:  # variants hold the tensors that were there
            self.identities = identities
            self.variants.clear()
        kind = (torch.is_grad_enabled(), *map(self._kind_of, self.names, args), *((t.dtype, t.shape) for t in state))
        found = self.variants.get(kind)
        return self._make(kind, args) if found is None else found

    def _state(self) -> Iterator[torch.Tensor]:
        if isinstance(self.original, torch.nn.Module):
            yield from self.original.parameters()
            yield from self.original.buffers()

    def _modules(self) -> Iterator[torch.nn.Module]:
        if isinstance(self.original, torch.nn.Module):
            yield from self.original.modules()

    def _kind_of(self, name: str, value: object) -> Hashable:
        if isinstance(value, torch.Tensor):
            layout = value.is_contiguous(), value.is_neg(), value.is_conj(), value.requires_grad
            return value.dtype, self.limits.fixed_sizes(name, value), *layout
        if isinstance(value, tuple):
            return tuple(self._kind_of("", part) for part in value)
        return type(value).__name__, repr(value)  # 0.0 and -0.0 differ

    def _make(self, kind: Hashable, args: Sequence[object]) -> Variant | str:
        if len(self.variants) >= _MOST_VARIANTS:
            return f"there are variants for {_MOST_VARIANTS} kinds of arguments"
        self.variants[kind] = made = VariantMaker(self.original, self.limits, self.cache).make(args)
        return made


def _dispatcher_of(original: Callable[..., object], limits: Limits) -> Dispatcher:
    parameters = parameters_of(original)
    return Dispatcher(original, limits, GroupCache(limits.engine), list(parameters), parameters)


class _Explained:
    """What optimized modules and functions say of themselves."""

    _dispatcher: Dispatcher

    @property
    def counters(self) -> EngineCounters:
        """What the engine has compiled, and what failed."""
        return self._dispatcher.cache.counters

    def explain(self, *args: object) -> str:
        """What runs where: the groups, what was left out and why, and what calls did. Arguments are run first."""
        if args:
            self._dispatcher(*args)
        return "\n".join(_explanation(self._dispatcher))


class OptimizedFunction(_Explained, Generic[_P, _R_co]):
    """What `optimize` makes of a function, with its parameters and its result."""

    def __init__(self, original: Callable[_P, _R_co], limits: Limits) -> None:
        self._dispatcher = _dispatcher_of(original, limits)
        self.__name__ = getattr(original, "__name__", "function")
        self.__doc__ = original.__doc__

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R_co:
        return cast(_R_co, self._dispatcher(*args, **kwargs))


class OptimizedModule(_Explained, torch.nn.Module):
    """What `optimize` makes of a module: parameters, buffers and submodules are those of the model."""

    def __init__(self, original: torch.nn.Module, limits: Limits) -> None:
        super().__init__()
        for kind in ("_parameters", "_buffers", "_modules"):
            vars(self)[kind] = vars(original)[kind]
        vars(self)["training"] = original.training
        vars(self)["_dispatcher"] = _dispatcher_of(original, limits)

    def forward(self, *args: object, **kwargs: object) -> object:
        """What the model's `forward` does."""
        return self._dispatcher(*args, **kwargs)

    def train(self, mode: bool = True) -> OptimizedModule:
        """As that of nn.Module, for the model too."""
        vars(self)["training"] = mode
        self._model.train(mode)
        return self

    @property
    def _model(self) -> torch.nn.Module:
        original = self._dispatcher.original
        assert isinstance(original, torch.nn.Module)
        return original

    def __deepcopy__(self, memo: dict[int, object]) -> OptimizedModule:
        made = OptimizedModule(copy.deepcopy(self._model, memo), self._dispatcher.limits)
        memo[id(self)] = made
        return made

    def __reduce__(self) -> tuple[type[OptimizedModule], tuple[torch.nn.Module, Limits]]:
        return OptimizedModule, (self._model, self._dispatcher.limits)

    def save(self, f: str, _extra_files: Mapping[str, str | bytes] | None = None) -> None:
        """Write the model as it was as an archive, which libtorch and jitlite read; engines are no part of it.

        Raises:
            CompileError: the model is no script, and no script can be made of it.
        """
        save(self._model if isinstance(self._model, ScriptModule) else script(self._model), f, _extra_files)


def _why_not_with(args: Sequence[object], state: Sequence[torch.Tensor]) -> str | None:
    """Why no variant holds for these arguments, whatever the model does."""
    if not all(map(_is_plain_argument, args)):
        return "an argument is a list, a dict or another object, which the model may change"
    tensors = list(_tensors_in(args))
    if any(type(a) not in _PLAIN or a.layout is not torch.strided or not a.is_cpu for a in tensors):
        return "an argument is no plain tensor on the CPU"
    if torch.is_grad_enabled() and any(t.requires_grad for t in (*tensors, *state)):
        return "gradients are recorded: call it under torch.no_grad()"
    return None


def _why_not_in_state(modules: Sequence[torch.nn.Module]) -> str | None:
    """Why no variant holds for the modules as they are."""
    if any(m.training for m in modules):
        return "it is in training mode"
    return "a module has hooks" if any(map(_has_hooks, modules)) else None


def _is_plain_argument(value: object) -> bool:
    """Is it one that nobody can change but by writing into its tensors?"""
    if type(value) is tuple:
        return all(map(_is_plain_argument, value))
    return value is None or isinstance(value, torch.Tensor) or type(value) in (bool, int, float, str)


def _tensors_in(values: object) -> Iterator[torch.Tensor]:
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, tuple | list):
        for value in values:
            yield from _tensors_in(value)


def _has_hooks(module: torch.nn.Module) -> bool:
    state = vars(module)
    return bool(state["_forward_hooks"] or state["_forward_pre_hooks"] or state["_backward_hooks"])


def _explanation(dispatcher: Dispatcher) -> Iterator[str]:
    engine, counters = dispatcher.limits.engine, dispatcher.cache.counters
    yield f"engine {engine.name} {engine.version}: {counters.compiled} groups compiled, {counters.hits} found compiled"
    if dispatcher.not_prepared and dispatcher.not_prepared not in dispatcher.variants.values():
        yield f"the examples have no variant: {dispatcher.not_prepared}"
    for variant in dispatcher.variants.values():
        if isinstance(variant, str):
            yield f"no variant: {variant}"
        else:
            yield from variant.explanation()
    for reason, times in dispatcher.reasons.items():
        yield f"{times} call{'s'[: times != 1]} ran the model as it was: {reason}"
