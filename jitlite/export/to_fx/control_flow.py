"""What FX graphs call where the script had a branch, a loop, a `with`, a `try` or an assertion.

FX has no control flow of its own. A branch or a body is a `GraphModule`, an attribute of the module that has the node,
and takes everything it reads as an argument:

    %y : Tensor = prim::If(%c)                    true_graph_0 = self.true_graph_0
      block0():                                   false_graph_0 = self.false_graph_0
        %a : Tensor = aten::relu(%x)        =>    run_if = jitlite...run_if(c, true_graph_0, false_graph_0, (x,))
        -> (%a)
      block1():
        -> (%x)

Called as they are, these functions do what Python does. While torch.export records a program they do the same with all
that is known by then, so that such branches are decided and such loops unrolled; what depends on the contents of
tensors or on sizes that are left open becomes `torch.cond` and `while_loop` (`symbolic.py`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.node import has_side_effect

from jitlite.export.to_fx import symbolic
from jitlite.operators.prims import make_exception

Module = Callable[..., Any]
"""A GraphModule. Its result is a tuple, whatever the number of values."""


@has_side_effect
def run_if(condition: object, true_graph: Module, false_graph: Module, operands: Sequence[object]) -> Any:
    """`true_graph(*operands) if condition else false_graph(*operands)`."""
    if symbolic.is_open(condition):
        return symbolic.cond(condition, true_graph, false_graph, tuple(operands))
    return symbolic.call(true_graph if condition else false_graph, *operands)


@has_side_effect
def run_loop(
    count: Any, condition: Any, body_graph: Module, carried: Sequence[object], operands: Sequence[object]
) -> Any:
    """Call the body with the number of the round, the carried values and the operands, while the condition holds.

    Args:
        count: the number of rounds, at most.
        condition: for the first round.
        body_graph: gives the condition for the next round and the next carried values.

    Returns:
        The carried values after the last round.
    """
    values: Sequence[Any] = carried
    number = 0
    while True:
        if symbolic.is_open(condition) or symbolic.is_open(count):
            return symbolic.while_loop(count, condition, body_graph, number, tuple(values), tuple(operands))
        if number >= count or not condition:
            return tuple(values)
        condition, *values = symbolic.call(body_graph, number, *values, *operands)
        number += 1


@has_side_effect
def run_try(body_graph: Module, handler_graph: Module, operands: Sequence[object]) -> Any:
    """Call the body; if it raises, the handler, with the exception as its first argument."""
    try:
        return symbolic.call(body_graph, *operands)
    except BaseException as error:
        symbolic.refuse_try(error)
        return symbolic.call(handler_graph, error, *operands)


@has_side_effect
def run_with(manager: Any, body_graph: Module, operands: Sequence[object]) -> Any:
    """Call the body within a context manager. Its first result is what `__enter__` gave."""
    with manager as entered:
        return (entered, *symbolic.call(body_graph, *operands))


@has_side_effect
def check(condition: object, message: str, class_name: str | None = None) -> None:
    """Raise an exception unless the condition holds.

    Args:
        class_name: the qualified name of its class. None for an AssertionError.
    """
    if symbolic.is_open(condition):
        symbolic.check(condition, message)
    elif not condition:
        raise AssertionError(message) if class_name is None else make_exception(message, class_name)


@has_side_effect
def write_attribute(owner: Any, name: str, value: object) -> None:
    """`owner.name = value`."""
    owner = owner.module if isinstance(owner, Root) else owner
    symbolic.check_attribute(owner, name)
    setattr(owner, name, value)


@has_side_effect
def read_attribute(owner: object, name: str) -> Any:
    """`owner.name`, read where the node stands: it may be written in the same graph."""
    return getattr(owner.module if isinstance(owner, Root) else owner, name)


@has_side_effect
def warn(message: str) -> None:
    """`warnings.warn(message)`."""
    warnings.warn(message, stacklevel=2)


has_side_effect(print)


class Root(torch.nn.Module):
    """Stands for the module that has it as a submodule, for nodes that write attributes of that.

    A module cannot be its own submodule.
    """

    def __init__(self, module: torch.nn.Module | None = None) -> None:
        super().__init__()
        self._found = (module,)  # in a tuple it is no submodule

    @property
    def module(self) -> torch.nn.Module:
        """The module itself."""
        (found,) = self._found
        if found is None:
            raise RuntimeError("the module of this jitlite.export.to_fx.control_flow.Root is not set")
        return found

    def bind(self, module: torch.nn.Module) -> None:
        """Stand for `module`."""
        self._found = (module,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Root:
        made = memo[id(self)] = Root(memo.get(id(self._found[0])))
        return made

    def __reduce__(self) -> Any:
        return Root, ()  # the module is being pickled, and binds it again
