"""Tracing below autograd: every operator that reaches torch's dispatcher, told to a back end.

A `DispatchTracer` gets in as a `TorchDispatchMode`, which torch calls below autograd, autocast and the operators that
are composed of others: it sees the operators that kernels are for, those that autograd runs for the backward pass
included. Operators that are to be kept whole are caught above all that, by the dispatch key of `trace_mode.py`.

autograd makes further objects for a tensor, which arrive here as calls of `detach`. Those of the user come from the
kernel of `detach`, with autograd's keys excluded; the others do not, and are the same tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from jitlite.base import torch_internals
from jitlite.base.errors.ways_out import NO_TRACE, SYMBOLIC_SIZE
from jitlite.base.source import CompileError
from jitlite.base.tracing_state import PythonRun
from jitlite.frontend.tracing.dispatched_calls import (
    PythonOfKinds,
    as_recorded,
    asks_for_array,
    asks_for_contents,
    by_schema,
    depends_on_data,
    is_below_autograd,
    is_fake,
    is_module,
    is_printing,
    kinds_of,
    run_by,
    unfit_python,
)
from jitlite.frontend.tracing.functional_values import FunctionalValues
from jitlite.frontend.tracing.kept_operators import composite
from jitlite.frontend.tracing.places_in_memory import storage_of
from jitlite.frontend.tracing.random_state import GeneratorState
from jitlite.frontend.tracing.trace_aliases import Aliases, Origin
from jitlite.frontend.tracing.trace_backend import Location, Mutation, Sizes, TensorArgument, TraceBackend, Traced
from jitlite.frontend.tracing.trace_places import UserFrames
from jitlite.frontend.tracing.trace_values import Paused, in_schema_order, tensors
from jitlite.ir.traits import Spelling, Trait
from jitlite.ir.unit import Function

_aten = torch.ops.aten
_WAY_OUT = (
    "what depends on contents is kept in a scripted function: decorate the function that does this with "
    "jitlite.script, or with jitlite.script_if_tracing, and call it from here"
)
_COPYING = frozenset({_aten.clone.default, _aten._to_copy.default, _aten._unsafe_view.default})
"""Operators that give copies of what may not have to be copied if it has other strides."""


class DispatchTracer:
    """Tells one back end what one thread does.

    Args:
        backend: who is told.
        state: the tensors of the traced module by identity: the kind (see `Mutation`), the name and the module's own
            tensor.
        keep: the names of composite operators that are kept whole, or "all".
        places: finds the user's lines.
        functional: tell of no writes; see `functional_values.py`.
        sizes: the symbols of sizes, None where all are fixed.
        with_gradients: the backward pass is part of the trace, through all functions.
        own_tensors: lets the traced module have its own tensors in place of fake ones.
    """

    def __init__(
        self,
        backend: TraceBackend,
        state: Mapping[int, tuple[str, str, torch.Tensor]] | None = None,
        *,
        keep: Sequence[str] | str = (),
        places: UserFrames | None = None,
        functional: bool = False,
        sizes: Sizes | None = None,
        with_gradients: bool = False,
        own_tensors: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.backend = backend
        self.own_tensors = own_tensors
        self.location = Location()
        self.op: object = None
        self.paused = 0
        self.kept = frozenset(composite([keep] if isinstance(keep, str) else keep) if keep else ())
        self._state = dict(state or {})
        self._places = places or UserFrames()
        self._sizes = sizes
        self.with_gradients = with_gradients
        self._is_functional = functional
        self.values: Aliases | FunctionalValues = FunctionalValues(self) if functional else Aliases(self)
        self._varying: set[int | None] = set()
        self._grad_mode = torch.is_grad_enabled()
        self._asked: CompileError | None = None
        self._depends_on_data = False
        self._inside: list[torch.Tensor] = []
        self.copies: set[int | None] = set()
        self.lifted: list[tuple[Any, torch.Tensor, Any]] = []
        self.assumed: list[str] = []
        self._began_with_grad = torch.is_grad_enabled()
        self.follows_gradients = self._began_with_grad and not with_gradients
        self.generator = GeneratorState(self._record_seed)

    def mode(self) -> TorchDispatchMode:
        """What intercepts the operators."""
        return _Interception(self)

    # -- arguments
    def add_argument(self, argument: TensorArgument) -> None:
        """A tensor among the arguments."""
        self._varying.add(storage_of(argument.example))
        self.values.add(argument.example, argument.value, Origin("input", argument.name, argument.example))

    def make_contiguous(self, argument: torch.Tensor) -> None:
        """Let an argument that is contiguous in this run be so in others, whatever they are given."""
        given = [Traced(self.values.value_of(argument), argument), torch.contiguous_format]
        (value,) = self.backend.fallback(_aten.contiguous.default, given, [argument])
        self.values.add(argument, value)

    def introduce(self, tensor: torch.Tensor) -> tuple[Any, Origin]:
        """The value of a tensor that has not been seen, and where it comes from.

        Raises:
            CompileError: where it can have none.
        """
        found = self._state.get(id(tensor))
        if found is not None:
            kind, name, _ = found
            self._varying.add(storage_of(tensor))
            return self.backend.add_parameter(name, found[2], kind), Origin(kind, name, tensor)
        if tensor.requires_grad:
            raise NO_TRACE(
                "a tensor that requires grad and is neither an argument nor part of the traced module would be a "
                "constant",
                self.location.range,
                hint="make it an argument or a parameter, or detach it",
            )
        if is_fake(tensor):
            raise NO_TRACE(
                "a fake tensor that is no argument has no contents to be a constant of the trace",
                self.location.range,
                hint="make it an argument",
            )
        return self.backend.add_constant(tensor), Origin("constant", str(self.location), tensor)

    # -- operators
    def dispatched(self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
        """Run an operator that has reached the dispatcher, and record it."""
        if self.paused:
            self._depends_on_data |= depends_on_data(op, args)
            self._inside += as_recorded(op, in_schema_order(op, args, kwargs))[1]
            return op(*args, **kwargs)
        if op is _aten.detach.default and not is_below_autograd():
            copy = op(*args)
            self.values.same(args[0], copy)
            return copy
        return self.call_op(op, args, kwargs)

    def called(self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
        """Run an operator that Python calls, above autograd: one that is kept whole is recorded here."""
        if self.paused or op not in self.kept:
            return op(*args, **kwargs)
        self.locate()
        given = [self.operand(a) for a in in_schema_order(op, args, kwargs)]
        self._depends_on_data, self._inside = False, []
        has_gradient = torch.is_grad_enabled() and any(t.requires_grad for t in tensors([args, kwargs]))
        with self.not_recording():
            result = op(*args, **kwargs) if has_gradient else run_by(self.backend, op, args, kwargs, self.location)
        self._note_inside(op.name())
        if not any(result is a for a in args):  # for such arguments it does nothing
            self._finish_call(op, args, kwargs, given, result, self._depends_on_data)
        return result

    def _note_inside(self, name: str) -> None:
        """Note what has been written by operators that were not recorded, such as running statistics."""
        for tensor in self._inside:
            if self.values.is_known(tensor):
                self.values.note_written(tensor, name)
        self._inside = []

    def call_op(self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
        """Run an operator and record it."""
        name = op.name()
        self.locate()
        self.op = op
        if name in Spelling.ASKS_FOR.by_kind:
            return self._answer(op, args, kwargs, Spelling.ASKS_FOR.by_kind[name])
        if op is _aten.lift_fresh.default:
            return self._lift(args[0], op(*args))
        if op.namespace == "profiler":
            return op(*args, **kwargs)
        if op._schema.returns and not any("Tensor" in str(r.type) for r in op._schema.returns):
            return op(*args, **kwargs)
        if any(isinstance(a, torch.UntypedStorage | torch.TypedStorage) for a in args):
            return self._of_storage(op, args, kwargs)
        given = [self.operand(a) for a in in_schema_order(op, args, kwargs)]
        result = self._run(op, args, kwargs)
        self.generator.note()
        self._finish_call(op, args, kwargs, given, result, depends_on_data(op, args))
        return result

    def _run(self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        try:
            return run_by(self.backend, op, args, kwargs, self.location)
        except Exception as error:
            if not asks_for_contents(error):
                raise
            raise self._refusal(f"{op.name()} on a fake tensor", "what it gives depends on contents") from error

    def _of_storage(self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
        """An operator that takes a storage: it makes a tensor of one that is known."""
        result = op(*args, **kwargs)
        if not self.values.is_known(result):
            raise NO_TRACE(f"{op.name()} of a storage cannot be recorded", self.location.range)
        return result

    def _finish_call(
        self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any], given: list[Any], result: Any, on_data: bool
    ) -> None:
        op, changed = as_recorded(op, in_schema_order(op, args, kwargs))
        results = by_schema(op, result)
        self._follow_grad_mode()
        varies = self._varies([*args, kwargs]) or torch.Tag.nondeterministic_seeded in op.tags
        self.values.record(op, given, changed, results)
        if op.name() in Trait.KERNEL_STATISTICS.kinds and args[5]:
            self._inside = tensors(list(args[3:5]))
            self._note_inside(op.name())
        if op in _COPYING:
            self.copies.update(storage_of(t) for t in tensors(results))
        if varies:
            self._note_varying(results, changed, on_data)

    def _note_varying(self, results: Sequence[object], changed: Sequence[torch.Tensor], on_data: bool) -> None:
        """Note that what an operator gave and wrote depends on the inputs, and perhaps its sizes `on_data`."""
        self._varying.update(storage_of(t) for t in tensors([results, changed]))
        if on_data:
            for tensor in tensors(results):
                self.backend.check_sizes(Traced(self.values.value_of(tensor), tensor))

    def emit(self, op: object, args: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
        """Tell the back end of a call; gives the values of the results."""
        if op is _aten.detach.default:
            return [self.backend.detach(args[0], results[0])]
        if op is _aten.copy_.default and isinstance(args[1], Traced):
            return [self.backend.copy_(args[0], args[1])]
        return self.backend.fallback(op, args, results)

    def write_back(self, destination: Traced, source: Traced, *, gradients: bool) -> object:
        """Tell the back end what something that existed before is to hold in the end; gives its value."""
        self._set_grad_mode(gradients and torch.is_grad_enabled())
        return self.backend.copy_(destination, source)

    def operand(self, argument: object) -> Any:
        """An argument as the back end sees it."""
        if isinstance(argument, torch.Tensor):
            return Traced(self.values.value_of(argument), argument)
        if isinstance(argument, torch.SymInt | torch.SymFloat | torch.SymBool):
            if self._sizes is None:
                raise SYMBOLIC_SIZE("a symbolic number from outside of the trace cannot be recorded")
            value = self._sizes.value_of(argument)
            return value if isinstance(value, int | float | bool) else Traced(value, argument)
        if isinstance(argument, list | tuple):
            return [self.operand(a) for a in argument]
        return argument

    def _follow_grad_mode(self) -> None:
        self._set_grad_mode(torch.is_grad_enabled())

    def _set_grad_mode(self, enabled: bool) -> None:
        if enabled != self._grad_mode and not self.with_gradients:
            self._grad_mode = enabled
            self.backend.set_grad_enabled(enabled)

    def locate(self) -> None:
        """Note what is at work now, and what has seeded the generator before."""
        self.generator.check()
        self._locate()

    def _locate(self) -> None:
        self.op = None
        self.location = self._places.current()
        self.backend.set_source_location(self.location)

    def _record_seed(self, seed: object) -> None:
        self._locate()
        self.backend.set_seed(self.operand(seed))

    def _varies(self, arguments: object) -> bool:
        return any(storage_of(t) in self._varying or id(t) in self._state for t in tensors(arguments))

    # -- contents
    def _answer(self, op: object, args: Sequence[object], kwargs: Mapping[str, object], what: str) -> object:
        """Python asks for contents: it gets those that are the same in each call."""
        if self._varies(args) and not is_printing():
            raise self._refusal("the trace", f"Python asks a tensor for {what}, which depends on the inputs")
        return self._run(op, args, kwargs)

    def _refusal(self, who: str, why: str) -> CompileError:
        return NO_TRACE(f"{who} cannot go on: {why}", self.location.range, hint=_WAY_OUT)

    def asked_for(self, tensor: torch.Tensor, number: object, what: str) -> None:
        """Python has asked a tensor for its contents.

        Raises:
            CompileError: they depend on the inputs.
        """
        self.locate()
        if self._varies([tensor]) and not is_printing():
            told = what or "Python index"
            raise self._refusal("the trace", f"Python asks a tensor for a {told}, which depends on the inputs")

    def _lift(self, made: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
        """A tensor that has been made of Python's numbers: a new one in each call."""
        # modes of the trace, such as the one that makes fake tensors, shall not have a part in it
        with torch.no_grad(), nullcontext() if is_fake(made) else torch_internals.no_dispatch():
            contents = made.detach().clone()
        constant = self.backend.add_constant(contents)
        given = [Traced(constant, contents), None]
        (value,) = [constant] if self._is_functional else self.backend.fallback(_aten.clone.default, given, [result])
        self.values.add(result, value)
        self.lifted.append((value, result, constant))
        return result

    # -- calls that stay calls
    def call_function(self, function: Function, arguments: Sequence[object], run: Callable[[], object]) -> object:
        """Run a compiled function and record the call; where the back end has none, what it does.

        Raises:
            CompileError: where it has none, and the function has control flow.
        """
        self.locate()
        recorded = None
        if not self.with_gradients:
            given = pytree.tree_map(self._call_operand, list(arguments), is_leaf=is_module)
            self._inside = []
            with self.not_recording():
                result = run()
            self._follow_grad_mode()
            recorded = self.backend.call_function(function, given, result)
            if recorded is not None:
                return self._bind_call(function.name, arguments, result, recorded)
        if any(node.blocks for node in function.graph.all_nodes()):
            raise NO_TRACE(
                f"'{function.name}' is a compiled function with control flow, and this trace cannot have it as a call",
                self.location.range,
                hint="trace the parts around it, without backward=True and for jitlite's graphs",
            )
        return run()

    def call_python(self, name: str, function: Callable[..., object], arguments: Sequence[object]) -> object:
        """Call an autograd function; if gradients may flow through it, it stays a call of Python."""
        needs_grad = torch.is_grad_enabled() and any(t.requires_grad for t in tensors(arguments))
        if self.with_gradients or not (needs_grad or not self._began_with_grad):
            if torch.is_grad_enabled():
                self.assume_no_gradients(f"the autograd function {name}")
            return function(*arguments)
        self.locate()
        given = [self._call_operand(a) for a in arguments]
        self._inside = []
        with self.not_recording():
            result = function(*arguments)
        self._follow_grad_mode()
        recorded = self.backend.call_python(name, function, given, result)
        if recorded is None:
            raise NO_TRACE(
                f"the autograd function {name} cannot be a call in this trace", self.location.range,
                hint="trace with backward=True, or under torch.no_grad() for inference",
            )  # fmt: skip
        return self._bind_call(name, arguments, result, recorded)

    def record_python(self, run: PythonRun) -> list[torch.Tensor]:
        """Note that Python has been run; gives the results to go on with, whose dtypes and sizes calls must have.

        Raises:
            CompileError: where the trace can have no such call.
        """
        self.locate()
        is_foreign = any(self.values.is_known(t) or id(t) in self._state for t in self._inside)
        gradients = self.with_gradients and any(r.requires_grad for r in run.results)
        if is_foreign or gradients:
            raise unfit_python(run.name, self.location, gradients=gradients)
        self._inside = []
        self._follow_grad_mode()
        checked = PythonOfKinds(run.name, run.function, kinds_of(run.results))
        given = [self._call_operand(a) for a in run.arguments]
        recorded = self.backend.call_python(run.name, checked, given, tuple(run.results))
        if recorded is None:
            raise NO_TRACE(
                f"the back end {type(self.backend).__name__} has no calls of Python, as {run.name} under on_cpu() is",
                self.location.range, hint="trace the parts before and behind it",
            )  # fmt: skip
        self._bind_call(run.name, run.arguments, list(run.results), recorded)
        for result in run.results:
            self._require_sizes(run.name, result)
        return list(run.results)

    def _require_sizes(self, name: str, result: torch.Tensor) -> None:
        """Let calls raise where what Python gives has other sizes than when traced."""
        traced = Traced(self.values.value_of(result), result)
        for dim, size in enumerate(result.shape):
            wanted = self.operand(size)
            own = self.backend.add_size(traced, dim)
            equal = self.backend.compute("aten::eq", [own, wanted.value if isinstance(wanted, Traced) else wanted])
            told = f"what {name} gives has another size {dim} than when traced, {size}"
            self.backend.check(equal, f"{self.location}: {told}; trace it again for others")

    def assume_no_gradients(self, what: str) -> None:
        """Note that the trace is wrong for inputs that require grad, because of `what`."""
        if self.follows_gradients:
            self.assumed.append(what)

    def _call_operand(self, argument: object) -> object:
        is_number = isinstance(argument, torch.SymInt | torch.SymFloat | torch.SymBool)
        return self.operand(argument) if isinstance(argument, torch.Tensor) or is_number else argument

    def _bind_call(self, name: str, arguments: object, result: object, recorded: Sequence[object]) -> object:
        given = {id(t) for t in tensors(arguments)}
        self._note_inside(name)
        for tensor, value in zip(tensors(result), recorded, strict=True):
            self._varying.add(storage_of(tensor))
            if id(tensor) not in given and not self.values.is_known(tensor):
                self.values.add(tensor, value)
        return result

    def call_module(self, module: torch.nn.Module, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Run the `forward` of a module: it is part of what is traced."""
        return module.forward(*args, **kwargs)

    # -- what `Tracer` follows and torch follows here
    below_autograd = True
    sees_calls = False

    def size(self, tensor: torch.Tensor, dim: int, number: int) -> int:
        return number

    def numel(self, tensor: torch.Tensor, number: int) -> int:
        return number

    def is_followed(self, tensor: torch.Tensor) -> bool:
        """Sizes are torch's own."""
        return False

    def known(self, tensor: torch.Tensor) -> None:
        return None

    def same_memory(self, tensor: torch.Tensor, other: torch.Tensor, *, detached: bool = True) -> None:
        """Note that `other` is the tensor's `.data`."""
        self.locate()
        value = self.backend.data(Traced(self.values.value_of(tensor), tensor), other)
        self.values.detached(tensor, other, value)

    def not_recording(self) -> Any:
        """Within the `with`, operators just run."""
        return _PausedDispatch(self)

    # -- the end
    def finish(self, result: object) -> list[Mutation]:
        """All has been run; says what has been written."""
        self.locate()
        mutations = self.values.finish()
        self.backend.add_result(result, self._result_value)
        return mutations

    def _result_value(self, tensor: torch.Tensor) -> object:
        return self.values.value_of(tensor)


class _Interception(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, tracer: DispatchTracer) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._tracer = tracer

    def __torch_dispatch__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        return self._tracer.dispatched(func, args, kwargs or {})


class _PausedDispatch(Paused):
    """Knows what fake tensors raise where their contents are asked for."""

    def __init__(self, tracer: DispatchTracer) -> None:
        super().__init__(tracer)
        self._tracer = tracer

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        super().__exit__(kind, error, at)
        if error is not None and (asks_for_contents(error) or asks_for_array(error)):
            self._tracer.locate()
            raise self._tracer._refusal("the trace on fake tensors", "Python asks a tensor for its contents") from error
