"""What a dispatcher-level trace is told to: the interface between the interception of operators and what builds
something of them.

A back end gives a value of its own, of any kind, for each input, parameter, constant and result; arguments of operators
come back as `Traced` with that value. Nothing else is asked of it: a table from operators to builders will do.
`graph_backend.py` is the one that makes jitlite's graphs; `docs/tracing.md` shows a small one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch.utils import _pytree as pytree

from jitlite.base.errors.ways_out import NO_TRACE, SYMBOLIC_SIZE
from jitlite.base.records import Record
from jitlite.base.source import CompileError, SourceRange
from jitlite.frontend.tracing.argument_trees import places_of_leaves, put_together, taken_apart


class Traced(Record, eq=True):
    """An argument that the trace follows: a tensor, or a size of one.

    Attributes:
        value: what the back end gave for it.
        example: what it is in this run; its dtype and device are those of every run, and its sizes too unless they are
            symbolic.
    """

    value: Any
    example: Any


class Location(Record, eq=True):
    """Where the traced code is at work.

    Attributes:
        range: the line of the innermost frame that is the user's, None where there is no source.
        stack: the calls that lead there from the traced function, outermost first: the name of the function that is
            called, and the line of the call. The last name is that of the function at work.
    """

    range: SourceRange | None = None
    stack: tuple[tuple[str, SourceRange | None], ...] = ()

    def __str__(self) -> str:
        return self.range.location() if self.range is not None else "an unknown place"


class Mutation(NamedTuple):
    """Something that existed before a call and that the call writes.

    Attributes:
        kind: "input", "parameter", "buffer", "attribute" or "constant" (a tensor from outside of the function).
        name: `x`, `x[0]`, `layers.0.weight`; of a constant, where it was first used.
        operators: the kinds of operators that write it, each once, in order.
        location: of the first write.
    """

    kind: str
    name: str
    operators: tuple[str, ...]
    location: Location


@dataclass
class TensorArgument:
    """A tensor among the arguments: its place in them (`x`, `x[0]`, `x['a']`), what it is in this run, and its value.

    Attributes:
        sizes, strides, dtype, device: those it came with; the function may change them.
    """

    name: str
    example: torch.Tensor
    value: Any

    def __post_init__(self) -> None:
        self.sizes = list(self.example.shape)
        self.strides = list(self.example.stride()) if self.example.layout is torch.strided else []
        self.dtype = self.example.dtype
        self.device = self.example.device


class Sizes(Protocol):
    """What follows sizes that differ from call to call: `SymbolicSizes`."""

    mode: Any

    def fake(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """A fake tensor with symbols for its sizes."""
        ...

    def bind(self, argument: TensorArgument) -> None:
        """Let symbols be sizes of an argument."""
        ...

    def value_of(self, number: object) -> object:
        """The value of a symbolic number; a number of Python's where it is certain."""
        ...

    def forget_computed(self) -> None:
        """What is computed from now on comes before what has been."""
        ...

    def check(self) -> None:
        """Tell the back end what has been decided."""
        ...


class Signature(Record, eq=True, frozen=False):
    """What is known of a trace when it is done; for back ends whose results are called with Python's arguments.

    Attributes:
        names: the parameters' names.
        arguments: the tensors among the arguments, in the order of `add_input`.
        mutations: what a call writes.
        gradient_names: what the gradients of a trace with `backward` are of.
    """

    names: list[str] = field(default_factory=list)
    arguments: list[TensorArgument] = field(default_factory=list)
    mutations: list[Mutation] = field(default_factory=list)
    gradient_names: list[str] = field(default_factory=list)
    _structures: list[tuple[Any, list[Any]]] = field(default_factory=list)
    _result: Any = None

    def add_argument(self, name: str, example: object) -> list[tuple[str, torch.Tensor]]:
        """Note a parameter; gives the tensors in its example, with their places."""
        example = taken_apart(example)
        leaves, structure = pytree.tree_flatten(example)
        paths = [name + place for place in places_of_leaves(example)]
        self.names.append(name)
        self._structures.append((structure, [_A_TENSOR if isinstance(v, torch.Tensor) else v for v in leaves]))
        return [(p, leaf) for p, leaf in zip(paths, leaves, strict=True) if isinstance(leaf, torch.Tensor)]

    def set_result(self, result: Any) -> list[torch.Tensor]:
        """Note the result; gives the tensors in it."""
        leaves, structure = pytree.tree_flatten(taken_apart(result))
        self._result = structure, [_A_TENSOR if isinstance(v, torch.Tensor) else v for v in leaves]
        return [v for v in leaves if isinstance(v, torch.Tensor)]

    def flatten(self, *args: object, **kwargs: object) -> list[torch.Tensor]:
        """The tensors in the arguments of a call, in the order of `add_input`.

        Raises:
            ValueError: where the arguments are not like those that the trace was made with.
        """
        given = dict(zip(self.names, args, strict=False)) | kwargs
        if len(args) > len(self.names) or set(given) != set(self.names):
            raise ValueError(f"the trace was made for the arguments {', '.join(self.names)}")
        found: list[torch.Tensor] = []
        for name, (structure, leaves) in zip(self.names, self._structures, strict=True):
            found += _leaves_like(name, given[name], structure, leaves)
        for known, tensor in zip(self.arguments, found, strict=False):
            if tensor.dtype != known.dtype or not _same_sizes(tensor, known.sizes):
                raise ValueError(
                    f"{known.name}: the trace was made for a tensor of size {known.sizes} and dtype "
                    f"{known.dtype}, not {list(tensor.shape)} and {tensor.dtype}"
                )
        return found

    def unflatten(self, tensors: Sequence[torch.Tensor]) -> Any:
        """The result of a call, built of its tensors as in the order of `add_output`."""
        structure, leaves = self._result
        rest = iter(tensors)
        found = pytree.tree_unflatten([next(rest) if leaf is _A_TENSOR else leaf for leaf in leaves], structure)
        return put_together(found)


_A_TENSOR: Any = object()


def _leaves_like(name: str, argument: object, structure: object, leaves: Sequence[object]) -> list[torch.Tensor]:
    """The tensors in an argument, which has to be built as the one of the trace was."""
    values, other = pytree.tree_flatten(taken_apart(argument))
    if other != structure:
        raise ValueError(f"{name}: the trace was made for arguments built in another way")
    for value, leaf in zip(values, leaves, strict=True):
        _check_leaf(name, value, leaf)
    return [v for v in values if isinstance(v, torch.Tensor)]


def _check_leaf(name: str, value: object, leaf: object) -> None:
    """Refuse a part of an argument that is another than in the trace."""
    if (leaf is _A_TENSOR) != isinstance(value, torch.Tensor):
        raise ValueError(f"{name}: the trace was made for tensors in other places")
    if leaf is not _A_TENSOR and (type(leaf) is not type(value) or leaf != value):
        raise ValueError(f"{name}: the trace was made for {leaf!r}, not {value!r}")


def _same_sizes(tensor: torch.Tensor, wanted: Sequence[Any]) -> bool:
    sizes = list(zip(tensor.shape, wanted, strict=False))
    return tensor.dim() == len(wanted) and all(type(theirs) is not int or ours == theirs for ours, theirs in sizes)


class TraceBackend(ABC):
    """Builds something of the operators of a trace. All methods are called in the order of the run."""

    signature: Signature
    """Set before anything else is called."""

    def add_argument(self, name: str, example: object) -> list[TensorArgument]:
        """A parameter of the traced function, which may be nested: by default, an input for each tensor in it."""
        found = self.signature.add_argument(name, example)
        return [TensorArgument(path, tensor, self.add_input(path, tensor)) for path, tensor in found]

    def add_result(self, result: Any, value_of: Callable[[torch.Tensor], Any]) -> None:
        """The result of the traced function: by default, an output for each tensor in it."""
        for tensor in self.signature.set_result(result):
            self.add_output(value_of(tensor))

    @abstractmethod
    def add_input(self, name: str, example: torch.Tensor) -> Any:
        """A tensor among the arguments; gives its value."""

    @abstractmethod
    def add_parameter(self, name: str, tensor: torch.Tensor, kind: str) -> Any:
        """A tensor of the traced module, when it is first used; gives its value. `kind` is as in `Mutation`."""

    @abstractmethod
    def add_constant(self, tensor: torch.Tensor) -> Any:
        """Any other tensor from outside of the function, when it is first used; gives its value."""

    @abstractmethod
    def add_output(self, value: Any) -> None:
        """A value that the traced function gives."""

    @abstractmethod
    def fallback(self, op: Any, args: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
        """A call of any operator.

        Args:
            op: the `torch._ops.OpOverload`, with its `_schema`.
            args: all arguments in the order of the schema, defaults filled in. Tensors and symbolic sizes are `Traced`,
                also inside lists; all else is as Python has it.
            results: for each result of the schema, what it was in this run: a tensor or a list of tensors.

        Returns:
            for each result, its value, or a list of values where it is a list of tensors.

        Raises:
            CompileError: where the back end has no such operator.
        """

    def execute(self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator in place of torch, before it is told of; `NotImplemented`, as by default, leaves it to torch.

        Args:
            op, args, kwargs: as autograd calls it; of operators that are kept whole, as Python does, unless gradients
                flow through them.

        Returns:
            what torch would give: new tensors by the schema, for what is written the argument itself.
        """
        return NotImplemented

    @abstractmethod
    def finalize(self) -> Any:
        """All has been told; gives what `trace` is to give."""

    def detach(self, source: Traced, result: torch.Tensor) -> Any:
        """The same memory without its past; by default, the same value."""
        return source.value

    def data(self, source: Traced, result: torch.Tensor) -> Any:
        """What `.data` gives: like `detach`, but autograd does not notice writes into it."""
        return self.detach(source, result)

    def copy_(self, destination: Traced, source: Traced) -> Any:
        """Write `source`, whose sizes may have to be expanded and whose dtype may be another, into `destination`.

        In a functional trace this comes last, for inputs and parameters that have been written, with what they are to
        hold in the end. Gives the value of the destination from now on.
        """
        op = torch.ops.aten.copy_.default
        return self.fallback(op, [destination, source, False], [destination.example])[0]

    def set_source_location(self, location: Location) -> None:
        """Where the calls that follow come from."""
        self.location = location

    def set_grad_enabled(self, enabled: bool) -> None:
        """Whether gradients are to flow through the operators that follow; for back ends that care."""
        self.grad_enabled = enabled

    def set_seed(self, seed: object) -> None:
        """A call of `torch.manual_seed`: the seed is an int, or `Traced` where it is computed from sizes.

        Raises:
            CompileError: where the back end has no seeds, as by default.
        """
        raise NO_TRACE(
            f"the back end {type(self).__name__} has nothing for torch.manual_seed", self.location.range,
            hint="seed outside of the traced function",
        )  # fmt: skip

    def call_function(self, function: Any, args: Sequence[Any], results: Any) -> Sequence[Any] | None:
        """A call of a compiled function; gives the values of the tensors in `results`, in `pytree`'s order.

        None, as by default, if the back end has no calls: then the operators of the function are recorded.
        """
        return None

    def call_python(self, name: str, function: Any, args: Sequence[Any], results: Any) -> Sequence[Any] | None:
        """A call of an autograd function of Python's, likewise."""
        return None

    def add_size(self, source: Traced, dim: int) -> Any:
        """The size of a dimension of an input, as a number that differs from call to call.

        Raises:
            CompileError: where the back end has none, as by default.
        """
        raise self._no_sizes()

    def compute(self, name: str, operands: Sequence[Any]) -> Any:
        """A computation on such numbers: `aten::mul`, `aten::floordiv` and so on. Operands are values or numbers.

        Raises:
            CompileError: where the back end has none, as by default.
        """
        raise self._no_sizes()

    def check(self, condition: Any, message: str) -> None:
        """See to it that calls raise where the condition, a value that `compute` gave, does not hold.

        Raises:
            CompileError: where the back end cannot, as by default.
        """
        raise self._no_sizes()

    def check_sizes(self, tensor: Traced) -> None:
        """See to it that calls raise where the tensor, whose size depends on data, has another one than in this run.

        Raises:
            CompileError: where the back end cannot, as by default.
        """
        raise SYMBOLIC_SIZE(
            f"the back end {type(self).__name__} has no results whose size depends on data", self.location.range
        )

    def _no_sizes(self) -> CompileError:
        return SYMBOLIC_SIZE(
            f"the back end {type(self).__name__} has no symbolic sizes",
            hint="trace without dynamic_shapes",
        )


Table = Mapping[str, Callable[..., Any]]
"""Builders by the name of the operator, `aten::add.Tensor` or `aten::add` for all its overloads."""


def builder_of(op: Any, tables: Sequence[Table], location: Location) -> Callable[..., Any]:
    """The first builder for an operator in some tables.

    Raises:
        CompileError: where there is none.
    """
    name = op.name()
    for table in tables:
        found = table.get(name) or table.get(name.partition(".")[0])
        if found is not None:
            return found
    raise NO_TRACE(f"the back end has no builder for {name}", location.range, hint="add one to its table")
