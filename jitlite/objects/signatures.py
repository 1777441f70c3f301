"""What Python shows of functions that it has no source of: the parameters of their schemas."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Iterable

from jitlite.ir.schema import Argument
from jitlite.ir.unit import Function


class ShowsSignature:
    """A function that shows Python its parameters.

    Attributes:
        hidden_parameters: how many of the first ones it passes itself.
    """

    __slots__ = ()
    hidden_parameters = 0
    __jitlite_function__: Function

    @property
    def __signature__(self) -> inspect.Signature:
        """The parameters of the Python function, else those of the schema."""
        function, hidden = self.__jitlite_function__, self.hidden_parameters
        if function.python_function is None:
            return signature_of(function.schema.arguments[hidden:])
        signature = inspect.signature(function.python_function)
        return signature.replace(parameters=list(signature.parameters.values())[hidden:])


def signature_of(arguments: Iterable[Argument]) -> inspect.Signature:
    """The parameters of a schema, with their defaults. Names that are none in Python become `argument_0` and so on."""
    made = []
    for i, argument in enumerate(arguments):
        is_name = argument.name.isidentifier() and not keyword.iskeyword(argument.name)
        kind = inspect.Parameter.KEYWORD_ONLY if argument.kwarg_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = argument.default if argument.has_default else inspect.Parameter.empty
        made.append(inspect.Parameter(argument.name if is_name else f"argument_{i}", kind, default=default))
    return inspect.Signature(made, __validate_parameters__=False)
