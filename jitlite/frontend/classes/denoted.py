"""What Python objects of every kind are to the emitter."""

from __future__ import annotations

from jitlite.frontend.classes.autograd_functions import ApplyValue
from jitlite.frontend.classes.callable_objects import callable_object
from jitlite.frontend.classes.classes import class_value
from jitlite.frontend.classes.decorated_functions import function_value
from jitlite.frontend.emit import denotations
from jitlite.frontend.emit.constant_containers import global_container
from jitlite.frontend.emit.definition import Maker
from jitlite.frontend.emit.meanings import Kind
from jitlite.frontend.emit.messages import logger_value
from jitlite.frontend.emit.partials import partial_value

MAKERS: dict[Kind, Maker] = {
    **denotations.MAKERS,
    Kind.FUNCTION: function_value,
    Kind.CALLABLE: callable_object,
    Kind.CONTAINER: global_container,
    Kind.PARTIAL: partial_value,
    Kind.LOGGER: logger_value,
    Kind.CLASS: class_value,
    Kind.AUTOGRAD_APPLY: lambda scope, meaning, range: ApplyValue(meaning.object),
}
"""How each kind becomes a sugared value; kinds that are missing cannot be used as values."""
