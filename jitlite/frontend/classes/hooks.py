"""Forward hooks of modules: compiled like methods, with signatures that have to go with that of `forward`.

def pre_hook(self, input: Tuple[A, B]) -> Tuple[A, B]     before forward(self, a: A, b: B) -> C; or -> None
def hook(self, input: Tuple[A, B], output: C) -> D        after it; the next hook's output is D
"""

from __future__ import annotations

import inspect
from typing import Any

from jitlite.base.errors.modules import WRONG_HOOK
from jitlite.base.source import CompileError
from jitlite.frontend.classes.computed_parameters import computing_hook
from jitlite.frontend.classes.modules import ModuleDefinition
from jitlite.frontend.emit.definition import Definition
from jitlite.frontend.emit.functions import declared_schema
from jitlite.frontend.emit.resolver import FunctionResolver
from jitlite.frontend.syntax.python_ast import function_tree
from jitlite.ir import types as T
from jitlite.ir.schema import Schema
from jitlite.ir.types import TupleType, Type
from jitlite.ir.unit import Function


def declare_hooks(definition: ModuleDefinition) -> None:
    """Declare the hooks of a module, which calls of it from scripts run.

    Raises:
        CompileError: where two different hooks have one name, or a hook is no function that can be compiled.
    """
    module, seen = definition.module, dict[str, Any]()
    for what, hooks, into in (
        ("Pre-hook", module._forward_pre_hooks, definition.type.forward_pre_hooks),
        ("Hook", module._forward_hooks, definition.type.forward_hooks),
    ):
        into.clear()
        for hook in hooks.values():
            name = getattr(hook, "__name__", type(hook).__name__)
            if computing_hook(hook) is not None and name in seen:
                name = f"{name}_{len(seen)}"  # such hooks have no name of their own
            if seen.setdefault(name, hook) is not hook:
                raise WRONG_HOOK(
                    f"{what} '{name}' on {type(module).__name__} has at least two different python definitions. Please "
                    "use unique names for all hooks."
                )
            into.append(_declare_hook(definition, name, hook))


def _declare_hook(definition: ModuleDefinition, name: str, hook: object) -> Function:
    if definition.method(name) is not None:
        raise WRONG_HOOK(
            f"Can't define hook: {name} on class: {definition.type.annotation} because a method or hook with that name "
            "already exists."
        )
    computing = computing_hook(hook)
    function = computing or hook
    if not inspect.isroutine(function):
        raise WRONG_HOOK(
            f"Hook '{name}' on {type(definition.module).__name__} is an object, not a function that can be compiled",
            hint="remove it before scripting, or register a function",
        )
    source = function_tree(function, is_method=True)
    resolver = FunctionResolver(source.function, class_types=definition.program.type_of_class)
    made = Definition(
        name, source.definition, resolver, source.defaults, self_type=definition.type,
        inferred={"input": _taken(definition)} if computing else {},
    )  # fmt: skip
    qualified = f"{definition.type.qualified_name}.{name}"
    declared = definition.program.declare(made, source.function, qualified)
    if computing is not None:
        definition.computing_hooks.append(declared)
    return declared


def _taken(definition: ModuleDefinition) -> TupleType:
    """What `forward` takes, as a hook gets it."""
    forward = definition.method("forward")
    if forward is None:
        return TupleType.of([])
    declared = declared_schema(definition.program.definition_of(forward))
    return TupleType.of([a.type for a in declared.arguments[1:]])


def check_hooks(definition: ModuleDefinition) -> None:
    """Do the signatures of the hooks go with that of `forward`?

    Raises:
        CompileError: where one does not; it says what was expected.
    """
    t = definition.type
    forward = definition.method("forward") if t.forward_pre_hooks or t.forward_hooks else None
    if forward is None:
        return
    definition.program.ready(forward)
    taken = [a.type for a in forward.schema.arguments[1:]]
    for pre_hook in t.forward_pre_hooks:
        check = _HookCheck("Pre-hook", definition, pre_hook, taken)
        check.input(2)
        check.replacement()
    output = forward.schema.returns[0].type
    for hook in t.forward_hooks:
        check = _HookCheck("Hook", definition, hook, taken)
        check.input(3)
        output = check.output(output)


class _HookCheck:
    def __init__(self, what: str, definition: ModuleDefinition, hook: Function, taken: list[Type]) -> None:
        self.schema: Schema = definition.program.ready(hook).schema
        self.hook = hook
        self.taken = taken
        name = type(definition.module).__name__
        self.who = f"{what} '{hook.name}' on module '{name}' "
        wanted = TupleType.of(taken).annotation
        self.hint = f"its input is {wanted}, as forward takes ({', '.join(t.annotation for t in taken)})"

    def fail(self, text: str) -> CompileError:
        return WRONG_HOOK(self.who + text, self.hook.range, hint=self.hint)

    def input(self, count: int) -> None:
        arguments = self.schema.arguments
        if len(arguments) != count:
            raise self.fail(f"was expected to only have exactly {count} inputs but it had {len(arguments)} inputs")
        found = arguments[1].type
        if not isinstance(found, TupleType):
            raise self.fail(
                f"expected the input argument to be typed as a Tuple but found type: '{found.annotation}' instead."
            )
        received = f"Received type: '{found.annotation}'"
        if not self.taken and found.elements:
            raise self.fail(f"was expecting Tuple[()] as the input type. {received}")
        if len(found.elements) != len(self.taken):
            raise self.fail(f"has the wrong number of contained types for the input argument's Tuple. {received}")
        if list(found.elements) != self.taken:
            raise self.fail(f"has the wrong inner types for the input tuple argument. {received}")

    def _is_declared(self) -> bool:
        function = self.hook.python_function
        annotations = getattr(function, "__annotations__", {})
        return "return" in annotations or self.schema.returns[0].type is T.NONE

    def replacement(self) -> None:
        """A pre-hook gives None, or what takes the place of the arguments."""
        if not self._is_declared():
            raise self.fail("is missing a return annotation. Return annotations are required, please add one.")
        found, taken = self.schema.returns[0].type, self.taken
        wrong = f"returned the wrong type of: '{found.annotation}'"
        if found is T.NONE:
            return
        if len(taken) == 1 and found is taken[0]:
            if not isinstance(found, TupleType):
                return
            raise self.fail(
                f"{wrong}. When forward has a single tuple input argument, the return needs to be 'None' or a nested "
                f"tuple containing forward's input tuple argument as in: 'Tuple[{found.annotation}]'"
            )
        if not isinstance(found, TupleType):
            raise self.fail(wrong)
        if not taken and found.elements:
            raise self.fail(f"{wrong}. Was expecting either 'None' or 'Tuple[()]' since forward had no arguments")
        if len(found.elements) != len(taken):
            raise self.fail(f"{wrong}. The returned tuple contains the wrong number of contained types")
        if list(found.elements) != taken:
            raise self.fail(f"{wrong}. The returned tuple contains the wrong inner types")

    def output(self, previous: Type) -> Type:
        """A hook takes what forward, or the hook before it, gives; its own result is for the next one."""
        found = self.schema.arguments[2].type
        if found is not previous:
            raise self.fail(
                f"has the wrong type for the output argument. Received type: '{found.annotation}'. Expected type: "
                f"'{previous.annotation}'"
            )
        result = self.schema.returns[0].type
        return previous if result is T.NONE else result
