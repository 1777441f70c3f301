"""Cast tensors of half precision by a policy.

    %y : Tensor = aten::add(%half, %float, %one)    =>    %c : Tensor = aten::to(%float, %float16, ...)
                                                          %y : Tensor = aten::add(%half, %c, %one)

The pass itself changes nothing: without a policy, types are PyTorch's. `cast_by_policy` takes `CastingOptions`:

`half_casts` says what an operator does with operands of both half and float32. "native" leaves it to the operator.
Otherwise all are cast to half, or to float32; an operator that writes casts to the type of what it writes. And requests
for float32 are not taken at their word, for in a model written for half precision they mean "half or float": what
`x.to(torch.float32)` gives, and `zeros`, `ones`, `rand` and the like with that dtype, has the type of the first operand
whose type is known that it meets, and is half if at least one of its users gives half, else float32.

`running_statistics_always_float` lets batch normalization of half inputs have statistics in float32 (True), or of the
type of the input (False). Where it trains, they are cast for it, and what it leaves in them is written back.

`policy` casts the operands of functions: to half for those of its list `fp16`, to float32 for `fp32`; for `promote` and
`demote`, where operands are of both, to float32 or to half. A list may name classes of modules too: then it is about
what is called in their `forward`. `autocast(False)` around a block, function or module leaves it out.

Values change, by rounding, as the policy says; nothing else does. Control flow is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch

from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value, constant_of, is_constant
from jitlite.ir.traits import Trait
from jitlite.ir.types import ClassType, TensorType, Type
from jitlite.ir.unit import called_function, name_of_call, passed_arguments
from jitlite.passes.example_facts import facts_of
from jitlite.passes.registry import inexact_pass

HalfCasts = Literal["native", "downcast_to_half", "upcast_to_float"]


def _listed(text: str) -> frozenset[str | type]:
    return frozenset(text.split())


@dataclass(frozen=True)
class AutocastPolicy:
    """Which functions, by name, and classes of modules are computed in which type.

    Raises:
        ValueError: one is in two lists.
    """

    fp16: frozenset[str | type] = _listed(
        "addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d conv_transpose1d conv_transpose2d"
        " conv_transpose3d conv_tbc matmul mm mv linear"
    ) | {torch.nn.Conv2d}  # fmt: skip
    fp32: frozenset[str | type] = frozenset()
    promote: frozenset[str | type] = _listed(
        "addcdiv addcmul atan2 bilinear cat cross dot equal index_put stack tensordot"
    )
    demote: frozenset[str | type] = frozenset()
    enabled: bool = True

    def __post_init__(self) -> None:
        lists = (self.fp16, self.fp32, self.promote, self.demote)
        for name in frozenset().union(*lists):
            if sum(name in one for one in lists) > 1:
                raise ValueError(f"{name} is in more than one list of the casting policy")

    def rule_for(self, node: Node) -> str | None:
        """The name of the list that decides about a node."""
        base = node.kind.removeprefix("aten::").removesuffix("_")
        for name in ("fp16", "fp32", "promote", "demote"):
            if base in getattr(self, name):
                return name
        for scope in reversed(node.scope.split("/")):
            for name in ("fp16", "fp32", "promote", "demote"):
                if any(isinstance(c, type) and scope in _class_scopes(c) for c in getattr(self, name)):
                    return name
        return None

    def is_on(self, node: Node) -> bool:
        """Is the node to be cast at all?"""
        switches = [s for s in node.scope.split("/") if s.startswith("autocast:")]
        return switches[-1] == "autocast:1" if switches else self.enabled


def _class_scopes(cls: type) -> frozenset[str]:
    return frozenset(f"module:{c.__module__}.{c.__qualname__}" for c in (cls, *cls.__subclasses__()))


@dataclass(frozen=True)
class CastingOptions:
    """How tensors of half precision are treated; see the top of the file. The default is PyTorch's way."""

    half_casts: HalfCasts = "native"
    running_statistics_always_float: bool | None = None
    policy: AutocastPolicy | None = None

    def __post_init__(self) -> None:
        if self.half_casts not in get_args(HalfCasts):
            raise ValueError(f"half_casts: expected one of {', '.join(get_args(HalfCasts))}, got {self.half_casts!r}")
        if self.running_statistics_always_float not in (None, True, False):
            found = self.running_statistics_always_float
            raise ValueError(f"running_statistics_always_float: expected a bool or None, got {found!r}")
        if self.policy is not None and not isinstance(self.policy, AutocastPolicy):
            raise TypeError(f"policy: expected an AutocastPolicy or None, got {type(self.policy).__name__}")

    @property
    def is_native(self) -> bool:
        """Do the options ask for nothing?"""
        return self == CastingOptions()


@inexact_pass
def casting_policy(graph: Graph) -> bool:
    """PyTorch's own types: there is nothing to do."""
    return False


def cast_by_policy(
    graph: Graph,
    options: CastingOptions,
    example_inputs: Sequence[object] | None = None,
    module: torch.nn.Module | None = None,
) -> bool:
    """Insert casts; says whether the graph changed.

    Args:
        graph: changed in place; calls are inlined.
        example_inputs: arguments, which say what is half and what is float32; what types say if not given.
        module: the module, if the graph is that of a method; then `example_inputs` are the others.
    """
    if options.is_native:
        return False
    changed = _inline_with_scopes(graph)
    facts = facts_of(graph, example_inputs, module)
    as_float = facts_of(graph, example_inputs, module, halves_as_float=True)
    changed = _Casts(graph, options, facts, as_float).run() or changed
    for node in graph.all_nodes():
        node.scope = ""
    return changed


def _inline_with_scopes(graph: Graph) -> bool:
    """Inline calls, and write down which module a node was called in."""
    changed = False
    while calls := [n for n in graph.all_nodes() if called_function(n) is not None]:
        for call in calls:
            _inline(graph, call)
        changed = True
    return changed


def _inline(graph: Graph, call: Node) -> None:
    function = called_function(call)
    assert function is not None
    is_method = call.kind == "prim::CallMethod"
    owner = call.inputs[0].type
    cls = owner.python_class if is_method and isinstance(owner, ClassType) else None
    parts = [call.scope] if call.scope else []
    parts += [f"module:{cls.__module__}.{cls.__qualname__}"] if cls is not None else []

    def place(made: Node) -> None:
        for node in (made, *(n for b in made.blocks for n in b.nodes)):
            node.scope = "/".join([*parts, *([node.scope] if node.scope else [])])
            node.call_stack = (*call.call_stack, (name_of_call(call, function), call.range), *node.call_stack)

    with graph.inserting_before(call):
        results = graph.inline_call(function.graph, passed_arguments(call), place)
    call.output.replace_all_uses_with(results[0])
    call.destroy()


def half_states(
    graph: Graph,
    example_inputs: Sequence[object] | None = None,
    module: torch.nn.Module | None = None,
    options: CastingOptions | None = None,
) -> str:
    """The text of a graph in which half and float32 tensors, and those that are either until casts are put in, say so.

        %x : Half<-Float(2, 3)      half, and a float32 tensor stood for it in the trace
        %y : half or float          a request for float32, which `cast_by_policy` is yet to decide

    Args:
        graph: it is not changed; calls are inlined in what is shown.
        example_inputs, module: as for `cast_by_policy`.
        options: where operands are cast to; "downcast_to_half" if not given.
    """
    shown = graph.copy()
    _inline_with_scopes(shown)
    facts, as_float = (facts_of(shown, example_inputs, module, halves_as_float=f) for f in (False, True))
    casts = _Casts(shown, options or CastingOptions("downcast_to_half"), facts, as_float)
    states = casts.states()
    for node in shown.all_nodes():
        node.scope = ""
    text = str(shown)
    for value, kind in states.items():
        state = _state_text(kind, casts.facts.get(value, value.type), value.example_type)
        text = text.replace(f"%{value.name} : {value.type}", f"%{value.name} : {state}", 1)
    return text


def _state_text(kind: Kind, known: Type, traced: Type | None) -> str:
    if not isinstance(kind, torch.dtype):
        return str(kind)
    example = traced if isinstance(traced, TensorType) else known
    sizes = example.sizes if isinstance(example, TensorType) else None
    text = str(TensorType.of(kind, sizes, None))
    if not isinstance(traced, TensorType) or traced.dtype in (None, kind):
        return text
    return f"{TensorType.of(kind, None, None)}<-{TensorType.of(traced.dtype, sizes, None)}"


# -- what is half and what is float


HALF, FLOAT, EITHER = torch.float16, torch.float32, "half or float"
Kind = torch.dtype | str | None
"""HALF, FLOAT, EITHER; None for what is neither, or not known."""


def _promoted(kinds: Sequence[Kind]) -> Kind:
    """What operands of these kinds are promoted to; operands that may be either follow the others."""
    known = [k for k in kinds if k is not EITHER]
    return EITHER if not known else FLOAT if FLOAT in known else HALF


@dataclass
class _Casts:
    graph: Graph
    options: CastingOptions
    facts: Mapping[Value, Type]
    as_float: Mapping[Value, Type]
    """What would be known were all halves float32: halves that meet floats hide what comes of them."""
    kinds: dict[Value, Kind] = field(default_factory=dict)
    targets: dict[Node, torch.dtype] = field(default_factory=dict)
    changed: bool = False

    def run(self) -> bool:
        nodes = list(self.graph.all_nodes())
        for node in nodes:
            self._decide(node)
        for node in reversed(nodes):
            self._resolve(node)
        for node in nodes:
            if node.has(Trait.UNMARKED_STATISTICS):
                self._cast_statistics(node)
            elif node in self.targets:
                self._cast_operands(node, self.targets[node])
        return self.changed

    def states(self) -> dict[Value, Kind]:
        """What is half, float32, or either of them until it is decided, of all values that are one of these."""
        nodes = list(self.graph.all_nodes())
        for node in nodes:
            self._decide(node)
        values = (*self.graph.inputs, *(v for n in nodes for v in n.outputs))
        return {v: kind for v in values if (kind := self.kind(v)) is not None}

    def kind(self, value: Value) -> Kind:
        """What is known about the elements of a tensor."""
        if value not in self.kinds:
            self.kinds[value] = self._declared(value)
        return self.kinds[value]

    def _declared(self, value: Value) -> Kind:
        t = self.facts.get(value, value.type)
        found = constant_of(value, None) if is_constant(value) else None
        dtype = found.dtype if isinstance(found, torch.Tensor) else t.dtype if isinstance(t, TensorType) else None
        return dtype if dtype in (HALF, FLOAT) else None

    # -- forwards
    def _decide(self, node: Node) -> None:
        """Find out what operands are to be cast to, and what the results are."""
        if node.op is None or not node.kind.startswith("aten::"):
            return
        asked = self._asked_for(node)
        operands = self._operands(node)
        kinds = [k for k in map(self.kind, operands) if k is not None]
        target = None if node.has(Trait.NOT_CAST) or node.has(Trait.UNMARKED_STATISTICS) else self._target(node, kinds)
        if target is not None:
            self.targets[node] = target
        given = asked or target or self._followed(node, operands, kinds)
        for output in node.outputs if given is not None else ():
            if self._is_given(output, is_cast=target is not None):
                self.kinds[output] = given

    def _is_given(self, output: Value, is_cast: bool) -> bool:
        """Is a result half or float32, be it that nobody knows which, as operands are of both?"""
        if self._declared(output) is not None or (is_cast and output.type is T.TENSOR):
            return True
        own, seen = (known.get(output, output.type) for known in (self.facts, self.as_float))
        is_unknown = isinstance(own, TensorType) and own.dtype is None
        return is_unknown and isinstance(seen, TensorType) and seen.dtype in (HALF, FLOAT)

    def _followed(self, node: Node, operands: Sequence[Value], kinds: Sequence[Kind]) -> Kind:
        """What results are by what the operands are; normalizations follow the first."""
        if not kinds:
            return None
        first = self.kind(operands[0]) if node.has(Trait.UNMARKED_STATISTICS) else None
        return first or _promoted(kinds)

    def _asked_for(self, node: Node) -> Kind:
        """What a node gives by its argument `dtype`."""
        assert node.op is not None
        position = node.op.schema.argument_index("dtype")
        if position is None or not is_constant(node.inputs[position]):
            return None
        dtype = _dtype_of(constant_of(node.inputs[position]))
        may_be_either = node.has(Trait.TYPED_MAKER) or node.kind in ("aten::to", "aten::_to_copy")
        if dtype is FLOAT and may_be_either and self.options.half_casts != "native":
            return EITHER
        return dtype if dtype in (HALF, FLOAT) else None

    def _target(self, node: Node, kinds: Sequence[Kind]) -> torch.dtype | None:
        """What the operands of a node are cast to; None where they stay."""
        is_mixed = HALF in kinds and FLOAT in kinds
        assert node.op is not None
        if node.op.schema.is_mutable:
            written = self.kind(node.inputs[0])
            return written if isinstance(written, torch.dtype) and self._is_asked(is_mixed) else None
        policy = self.options.policy
        rule = policy.rule_for(node) if policy is not None and policy.is_on(node) else None
        if rule in ("fp16", "fp32"):
            return (HALF if rule == "fp16" else FLOAT) if kinds else None
        if is_mixed and rule in ("promote", "demote"):
            return FLOAT if rule == "promote" else HALF
        return self._target_without_rule(kinds, is_mixed)

    def _target_without_rule(self, kinds: Sequence[Kind], is_mixed: bool) -> torch.dtype | None:
        """The target by the option `half_casts` alone."""
        if self.options.half_casts == "native":
            return None
        if is_mixed:
            return HALF if self.options.half_casts == "downcast_to_half" else FLOAT
        known = [k for k in kinds if isinstance(k, torch.dtype)]
        return known[0] if known and EITHER in kinds else None

    def _is_asked(self, is_mixed: bool) -> bool:
        return is_mixed and self.options.half_casts != "native"

    def _operands(self, node: Node) -> list[Value]:
        """The tensors among the arguments, those in lists too."""
        found = []
        for value in node.inputs:
            inner = value.node.inputs if value.node.kind == "prim::ListConstruct" else [value]
            found += [v for v in inner if isinstance(T.without_none(v.type), TensorType)]
        return found

    # -- backwards
    def _resolve(self, node: Node) -> None:
        for output in node.outputs:
            if self.kinds.get(output) is not EITHER:
                continue
            users = [use.user for use in output.uses]
            lists = [u for u in users if u.kind == "prim::ListConstruct"]
            users += [use.user for u in lists for use in u.output.uses]
            is_half = any(self.kinds.get(o) is HALF for u in users for o in u.outputs)
            self.kinds[output] = HALF if is_half else FLOAT
            if is_half and self._asked_for(node) is EITHER:
                self._ask_for_half(node)

    def _ask_for_half(self, node: Node) -> None:
        assert node.op is not None
        position = node.op.schema.argument_index("dtype")
        assert position is not None
        with self.graph.inserting_before(node):
            node.replace_input(position, self.graph.insert_constant(HALF))
        self.changed = True

    # -- casts
    def _cast_operands(self, node: Node, target: torch.dtype) -> None:
        for i, value in enumerate(node.inputs):
            if value.node.kind == "prim::ListConstruct":
                made = [self._cast(node, v, target) for v in value.node.inputs]
                if any(m is not v for m, v in zip(made, value.node.inputs, strict=True)):
                    with self.graph.inserting_before(node):
                        node.replace_input(i, self.graph.insert("prim::ListConstruct", made, [value.type]).output)
            else:
                node.replace_input(i, self._cast(node, value, target))

    def _cast(self, node: Node, value: Value, target: torch.dtype) -> Value:
        """The tensor in the type that is wanted, made before the node."""
        if self.kind(value) in (None, target):
            return value
        self.changed = True
        with self.graph.inserting_before(node):
            no = self.graph.insert_constant(False)
            rest = [no, no, self.graph.insert_constant(None)]
            dtype = self.graph.insert_constant(target)
            made = self.graph.insert("aten::to", [value, dtype, *rest], [T.TENSOR])
        made.range = node.range
        self.kinds[made.output] = target
        return made.output

    def _cast_statistics(self, node: Node) -> None:
        always = self.options.running_statistics_always_float
        if always is None or self.kind(node.inputs[0]) is not HALF:
            return
        target = FLOAT if always else HALF
        positions = list(_positions(node, ("running_mean", "running_var")))
        statistics = {i: node.inputs[i] for i in positions if self.kind(node.inputs[i]) not in (None, target)}
        if not statistics:
            return
        # torch wants weight and bias in the same type
        for i in [*statistics, *_positions(node, ("weight", "bias"))]:
            node.replace_input(i, self._cast(node, node.inputs[i], target))
        self._write_back(node, {node.inputs[i]: own for i, own in statistics.items()})

    def _write_back(self, node: Node, statistics: Mapping[Value, Value]) -> None:
        """Have statistics hold what a node that trains leaves in the casts that it was given."""
        training = next((node.inputs[i] for i in _positions(node, ("training", "use_input_stats"))), None)
        known = None if training is None else constant_of(training, None) if is_constant(training) else training
        if known is False:
            return
        branch = None
        if isinstance(known, Value):
            branch = self.graph.create("prim::If", [known]).insert_after(node)
            branch.add_block()
            branch.add_block()
        last = node
        for cast, own in statistics.items():
            with self.graph.inserting_before(node):
                now = self.graph.insert_constant(False)
            copy = self.graph.create("aten::copy_", [own, cast, now], [T.TENSOR])
            copy.range = node.range
            last = copy.insert_after(last) if branch is None else branch.blocks[0].append(copy)


def _positions(node: Node, names: Sequence[str]) -> Iterator[int]:
    """Where the arguments of these names are, as far as the operator has them."""
    assert node.op is not None
    found = (node.op.schema.argument_index(name) for name in names)
    return (i for i in found if i is not None)


def _dtype_of(code: object) -> torch.dtype | None:
    if isinstance(code, torch.dtype):
        return code
    return {6: FLOAT, 5: HALF}.get(code) if type(code) is int else None
