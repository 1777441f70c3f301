"""Freezing: a copy of a script module in which attributes have become constants of its methods' graphs.

`freeze` makes the copy and optimizes it; `run_frozen_optimizations` and `optimize_for_inference` go on with it. In
order: inline all calls; replace what nobody can write by its value and drop branches that can no longer be taken; find
out what is written (`attribute_folding.py`); replace the rest; make new classes with what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from jitlite.base.errors.ways_out import NOT_FROZEN
from jitlite.base.keywords import checks_keywords
from jitlite.compiler import program as compiler
from jitlite.executor.alternatives import LAYOUT_PASSES
from jitlite.freeze.attribute_folding import (
    Folding,
    ReachableObjects,
    all_graphs,
    all_nodes,
    is_object,
    named_types,
    read,
)
from jitlite.freeze.frozen_module import (
    FrozenModule,
    define,
    frozen_copy,
    frozen_function,
    frozen_type,
    inline_everything,
    retype_graph,
    retyped,
)
from jitlite.ir.graph import Graph, Node
from jitlite.ir.traits import Trait
from jitlite.ir.types import ClassType, InterfaceType
from jitlite.ir.unit import Function
from jitlite.ir.values import class_type_of
from jitlite.objects.module import ScriptModule
from jitlite.passes.lay_out_weights import lay_out_weights
from jitlite.passes.pipelines import FREEZE, FROZEN, FROZEN_NUMERICS, INFERENCE


@checks_keywords
def freeze(
    mod: ScriptModule, preserved_attrs: Sequence[str] | None = None, optimize_numerics: bool = True
) -> FrozenModule:
    """A copy of a script module that has its parameters, attributes and submodules built in as constants.

    `forward` is kept, and what `preserved_attrs` names; attributes that a kept method writes stay attributes. The copy
    shares tensors with the original and takes the values of everything else as they are now.

    Args:
        mod: in eval mode.
        preserved_attrs: attributes and methods to keep, those of submodules as "sub.name".
        optimize_numerics: also apply what may change results by rounding; see `run_frozen_optimizations`.

    Raises:
        RuntimeError: where it is no script module, is in training mode, has no attribute of a given name, returns
            itself, or has interface attributes that are assigned.
    """
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input. Please use jitlite.script to script your 'nn.Module'."
        )
    if getattr(mod, "training", False):
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module "
            "before freezing."
        )
    preserved = list(preserved_attrs or ())
    made = freeze_module(mod, preserved)
    run_frozen_optimizations(made, optimize_numerics, [name for name in preserved if "." not in name])
    return made


@checks_keywords
def run_frozen_optimizations(
    mod: ScriptModule, optimize_numerics: bool = True, preserved_methods: Iterable[str] | None = None
) -> None:
    """Optimize the methods of a frozen module, in place.

    Args:
        optimize_numerics: also fold batch norms and arithmetic into convolutions and linear layers, which changes
            results by rounding.
        preserved_methods: those to optimize beside `forward`; names of other attributes are left alone.
    """
    pipeline = FROZEN_NUMERICS if optimize_numerics else FROZEN
    with compiler.compiling():
        for graph in _graphs(mod, preserved_methods):
            pipeline(graph)


@checks_keywords
def optimize_for_inference(mod: ScriptModule, other_methods: Sequence[str] | None = None) -> ScriptModule:
    """Freeze a module, unless it is frozen, and have it run in the way that is fastest on this machine.

    That is found out while it is called: for arguments of new sizes, a few calls run what may be faster beside the
    method as it is. `mod.forward.explain(*args)` tells what was found.

    Args:
        other_methods: methods to keep and optimize beside `forward`.

    Raises:
        RuntimeError: as `freeze`, and where a frozen module has no such method.
    """
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(
            "optimize_for_inference expects a ScriptModule as input. Please use jitlite.script to script your "
            "'nn.Module'."
        )
    if hasattr(mod, "training") or not isinstance(mod, FrozenModule):
        mod = freeze(mod.eval(), list(other_methods or ()))
    known = [*_class_of(mod).methods, *_class_of(mod).definition.overloads]
    for name in other_methods or ():
        if name not in known:
            raise RuntimeError(f"the frozen module has no method '{name}' to optimize; it has {', '.join(known)}")
    with compiler.compiling():
        for graph in _graphs(mod, other_methods):
            lay_out_weights(graph)
            INFERENCE(graph)
        for method in _methods(mod, other_methods):
            if any(node.has(Trait.CONVOLUTION) for node in method.graph.all_nodes()):
                method.alternatives, method.compiled = LAYOUT_PASSES, None
    return mod


def _methods(mod: ScriptModule, others: Iterable[str] | None) -> Iterator[Function]:
    """`forward` and the other methods."""
    type = _class_of(mod)
    for name in dict.fromkeys(["forward", *(others or ())]):
        for single in type.definition.overloads.get(name, [name]):
            method = type.methods.get(single)
            if isinstance(method, Function):
                yield method


def _graphs(mod: ScriptModule, others: Iterable[str] | None) -> Iterator[Graph]:
    """The graphs of `forward` and of the other methods, and those that they fork."""
    for method in _methods(mod, others):
        yield from all_graphs(method.graph)


def freeze_module(
    module: ScriptModule,
    preserved_attrs: Sequence[str] = (),
    freeze_interfaces: bool = True,
    preserve_parameters: bool = False,
) -> FrozenModule:
    """Freeze a module without optimizing it further. In training mode parameters, buffers and `training` stay.

    Args:
        freeze_interfaces: whether modules behind attributes of interface type may be built in.
        preserve_parameters: let parameters and buffers stay in eval mode too.

    Raises:
        RuntimeError: as `freeze`.
    """
    with compiler.compiling():
        return _Freezing(module, preserved_attrs, freeze_interfaces, preserve_parameters).run()


def _class_of(module: object) -> ClassType:
    found = class_type_of(module)
    assert found is not None
    return found


@dataclass
class _KeptMethod:
    """A method that is kept, of one module, with the graph that is being frozen."""

    owner: ScriptModule
    method: Function
    graph: Graph


class _Freezing:
    """One module on its way."""

    def __init__(
        self, module: ScriptModule, preserved: Sequence[str], freeze_interfaces: bool, preserve_parameters: bool
    ) -> None:
        self.module = module
        self.freeze_interfaces = freeze_interfaces
        self.training = bool(getattr(module, "training", False))
        self.keeps_parameters = preserve_parameters or self.training
        self.entries: list[_KeptMethod] = []
        self.kept: dict[ClassType, set[str]] = {}
        """Attributes that stay, by class."""
        self.whole: set[ClassType] = set()
        """Classes of modules that stay as they are, with all they hold."""
        self._pinned: set[tuple[int, str]] = set()
        t = _class_of(module)
        if any("forward" in names for names in (t.methods, t.definition.entry_points, t.definition.overloads)):
            self._add_method(module, "forward")
        for name in preserved:
            self._preserve(name)

    # -- what is kept

    def _preserve(self, path: str) -> None:
        *way, name = path.split(".")
        owner: Any = self.module
        steps: list[tuple[object, str]] = []
        for step in way:
            steps.append((owner, step))
            owner = owner._modules.get(step) if isinstance(owner, torch.nn.Module) else None
        t = class_type_of(owner)
        if t is None or t.definition is None:
            raise RuntimeError(f"Unknown name: {path}")
        if name in t.attributes:
            self._pinned.add((id(owner), name))
            self.kept.setdefault(t, set()).add(name)
            if isinstance(read(owner, name), ScriptModule):
                self.whole.add(_class_of(read(owner, name)))
        elif name not in t.constants:
            self._add_method(owner, name, path)
        for holder, step in steps:
            self.kept.setdefault(_class_of(holder), set()).add(step)

    def _add_method(self, owner: ScriptModule, name: str, path: str = "") -> None:
        definition = _class_of(owner).definition
        if name in definition.overloads:
            for single in definition.overloads[name]:
                self._add_method(owner, single, path)
            return
        method = definition.method(name)
        if method is None:
            raise RuntimeError(f"Unknown name: {path or name}")
        definition.program.ready(method)
        if any(entry.method is method for entry in self.entries):
            return
        if any(_class_of(owner) is t for output in method.graph.outputs for t in named_types(output.type)):
            raise RuntimeError("attempted to freeze a module that return itself")
        self.entries.append(_KeptMethod(owner, method, method.graph.copy()))

    def _is_pinned(self, owner: object, name: str) -> bool:
        if (id(owner), name) in self._pinned or (self.training and name == "training"):
            return True
        t = _class_of(owner)
        return self.keeps_parameters and (name in t.parameters or name in t.buffers)

    # -- the work

    def run(self) -> FrozenModule:
        objects = ReachableObjects(self.module)
        # a method of a submodule serves every object of its class, so nothing is known of the object
        known = [(e.graph, e.owner if e.owner is self.module else None) for e in self.entries]
        folding = Folding(objects, known, self._is_pinned)
        self._inline(folding)
        while folding.fold_unwritten(scalars_only=True):
            self._simplify()
            self._inline(folding)
        folding.refresh()
        folding.fold_unwritten(scalars_only=False)
        self._drop_unused_objects()
        folding.refresh()
        self._note_what_is_left(objects, folding)
        return self._build(objects)

    def _inline(self, folding: Folding) -> None:
        again = True
        while again:
            for entry in self.entries:
                inline_everything(entry.graph)
            folding.refresh()
            self._check_assignments()
            again = self.freeze_interfaces and folding.settle_interfaces()
        self._check_reads()

    def _check_assignments(self) -> None:
        for node in self._nodes():
            if node.kind == "prim::ModuleContainerIndex":
                raise NOT_FROZEN(
                    "Freezing modules containing prim::ModuleContainerIndex is not supported", node.range,
                    hint="index the container with a constant, or loop over it",
                )  # fmt: skip
            if node.kind == "prim::SetAttr" and isinstance(_declared(node), InterfaceType):
                name = node.attributes["name"]
                raise NOT_FROZEN(
                    f"Freezing does not support SetAttr on an interface type. SetAttr is attempted on '{name}'",
                    node.range,
                )

    def _check_reads(self) -> None:
        for node in self._nodes():
            if node.kind == "prim::GetAttr" and isinstance(node.output.type, InterfaceType):
                name = node.attributes["name"]
                why = f"failed to freeze interface attribute '{name}'"
                not_asked = "attempted to freeze a module that uses interface attributes"
                raise NOT_FROZEN(why if self.freeze_interfaces else not_asked, node.range)

    def _nodes(self) -> Iterator[Node]:
        for entry in self.entries:
            yield from all_nodes(entry.graph)

    def _simplify(self) -> None:
        for entry in self.entries:
            for graph in all_graphs(entry.graph):
                FREEZE(graph)

    def _drop_unused_objects(self) -> None:
        """Do not hand objects to forked graphs that no longer use them."""
        self._simplify()
        dropped = False
        for entry in self.entries:
            for graph in reversed(all_graphs(entry.graph)):
                for node in graph.all_nodes():
                    forked = node.attributes.get("Subgraph")
                    if isinstance(forked, Graph):
                        dropped = _drop_unused_inputs(node, forked) or dropped
        if dropped:
            self._simplify()

    def _note_what_is_left(self, objects: ReachableObjects, folding: Folding) -> None:
        for node in self._nodes():
            t = node.inputs[0].type if node.kind in ("prim::GetAttr", "prim::SetAttr") else None
            if isinstance(t, ClassType):
                self.kept.setdefault(t, set()).add(node.attributes["name"])
        self.whole |= {t for t in folding.escaped if t.is_module}
        self.whole = {t for start in self.whole for t in objects.types_below(start) if t.is_module}

    # -- new classes

    def _build(self, objects: ReachableObjects) -> FrozenModule:
        root = _class_of(self.module)
        if root in self.whole:
            self.kept[root] = set(root.attributes)
        old = [t for _, t in objects.found.values() if t.is_module and (t is root or t not in self.whole)]
        types = {t: frozen_type(t) for t in dict.fromkeys(old)}
        for t, made in types.items():
            _declare_attributes(made, t, self.kept.get(t, set()), types)
        for entry in self.entries:
            owner = types.get(_class_of(entry.owner))
            if owner is not None:
                retype_graph(entry.graph, types)
                frozen_function(entry.method, entry.graph, owner, types)
        self._copy_called_methods(root, types)
        result = self._copy(self.module, types, {})
        assert isinstance(result, FrozenModule)
        return result

    def _copy_called_methods(self, root: ClassType, types: dict[ClassType, ClassType]) -> None:
        """Methods that could not be inlined, as they call themselves, are kept as they are."""
        made = types[root]
        pending = [entry.graph for entry in self.entries]
        while pending:
            for node in all_nodes(pending.pop()):
                if node.kind != "prim::CallMethod" or node.inputs[0].type is not made:
                    continue
                name = node.attributes["name"]
                if name not in made.methods:
                    graph = root.methods[name].graph.copy()
                    retype_graph(graph, types)
                    frozen_function(root.methods[name], graph, made, types)
                    pending.append(graph)

    def _copy(self, module: Any, types: dict[ClassType, ClassType], copies: dict[int, Any]) -> Any:
        if id(module) in copies:
            return copies[id(module)]
        t = _class_of(module)
        made = types.get(t)
        if made is None:
            return copies.setdefault(id(module), module)
        result = copies[id(module)] = frozen_copy(module, made, self.kept.get(t, set()))
        for name, submodule in result._modules.items():
            if is_object(submodule):
                result._modules[name] = self._copy(submodule, types, copies)
                if isinstance(made.attributes.get(name), InterfaceType):
                    made.attributes[name] = _class_of(result._modules[name])
        if made.definition is None:
            define(result, made)
        return result


def _declared(node: Node) -> Any:
    """The type of the attribute that a `prim::SetAttr` assigns."""
    owner = node.inputs[0].type
    return owner.attributes.get(node.attributes["name"]) if isinstance(owner, ClassType) else None


def _drop_unused_inputs(node: Node, forked: Graph) -> bool:
    dropped = False
    for index in reversed(range(len(forked.inputs))):
        value = forked.inputs[index]
        if not value.has_uses and isinstance(value.type, ClassType | InterfaceType):
            forked.block.erase_input(index)
            node.remove_input(index)
            dropped = True
    return dropped


def _declare_attributes(made: ClassType, old: ClassType, names: set[str], types: dict[ClassType, ClassType]) -> None:
    """Give a frozen type the attributes of these names."""
    made.attributes.update((n, retyped(a, types)) for n, a in old.attributes.items() if n in names)
    made.parameters.update(old.parameters & names)
    made.buffers.update(old.buffers & names)
