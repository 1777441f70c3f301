"""Calls that tell people something: `warnings.warn` with a category, and loggers, which are left to Python."""

from __future__ import annotations

import logging
from collections.abc import Callable

from jitlite.base.errors.calls import KNOWN_WHEN_COMPILED, WRONG_ARGUMENTS, WRONG_COUNT, WRONG_KEYWORD
from jitlite.base.errors.names import NO_ATTRIBUTE, NOT_A_VALUE
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.callables import ExceptionClass, ExceptionInstance, PythonCall
from jitlite.frontend.emit.calls import form
from jitlite.frontend.emit.definition import Scope
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.meanings import LOGGING, Meaning
from jitlite.frontend.emit.values import SimpleValue, SpecialForm, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.ir.schema import Argument
from jitlite.ir.types import Type

_PARAMETERS = ("message", "category", "stacklevel", "source")


@form("warn", 1, 4, _PARAMETERS[1:])
def emit_warn(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue:
    """A warning for the line of the call: the level of the stack says whose line it is in Python, and is not used."""
    given = dict(zip(_PARAMETERS, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.name.name in given:
            raise WRONG_COUNT(f"warn got multiple values for argument '{keyword.name.name}'", keyword.range)
        given[keyword.name.name] = keyword.value
    if "source" in given:
        raise WRONG_KEYWORD.unsupported("'source' of warnings.warn isn't supported", given["source"].range)
    level = em.emit(given["stacklevel"]) if "stacklevel" in given else None
    message, category = _message(em, given["message"]), _category(em, given.get("category"))
    if isinstance(message, ExceptionInstance):
        text, category = message.message, message.cls
    else:
        text = message.as_value(em, call.range)
    if category is None or category.cls is UserWarning:
        em.op("aten::warn", [text] if level is None else [text, level], range=call.range)
    else:
        name = em.constant(category.qualified, call.range, T.STRING)
        place = [em.constant(call.range.filename or "<string>", call.range), em.number(call.range.line, call.range)]
        em.op("prim::WarnOf", [text, name, *place], range=call.range)
    return SimpleValue(em.constant(None, call.range))


def _message(em: Emitter, expr: tree.Expr) -> SugaredValue:
    found = em.emit_sugared(expr)
    if isinstance(found, ExceptionInstance):
        _check(found.cls, expr.range)
    return found


def _category(em: Emitter, expr: tree.Expr | None) -> ExceptionClass | None:
    if expr is None or isinstance(expr, tree.NoneLiteral):
        return None
    found = em.emit_sugared(expr)
    if not isinstance(found, ExceptionClass):
        raise KNOWN_WHEN_COMPILED("the category of a warning has to be a class that is known here", expr.range)
    _check(found, expr.range)
    return found


def _check(cls: ExceptionClass, range: SourceRange) -> None:
    if not issubclass(cls.cls, Warning) or cls.qualified is None:
        raise WRONG_ARGUMENTS(f"category must be a Warning subclass, not '{cls.cls.__name__}'", range)


# -- loggers
class LoggerValue(SugaredValue):
    """A logger. What is called of it runs as it is, in Python."""

    def __init__(self, logger: logging.Logger | logging.LoggerAdapter[logging.Logger]) -> None:
        self.logger = logger
        self.kind = "a logger"

    def as_value(self, b: Builder, range: SourceRange) -> Value:
        raise NOT_A_VALUE.unsupported("a logger cannot be used as a value", range, hint="call it: `logger.info(...)`")

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        if name in LOGGING:
            return _logged(getattr(self.logger, name))
        if name == "isEnabledFor":
            return PythonCall(self.logger.isEnabledFor, [Argument("level", T.INT)], T.BOOL)
        raise NO_ATTRIBUTE.unsupported(
            f"'{name}' of a logger isn't supported", range, hint="use debug, info, warning, error or critical"
        )


def _logged(function: Callable[..., None]) -> PythonCall:
    return PythonCall(function, [Argument("msg", T.ANY)], T.NONE, Argument("args", T.ANY))


def logger_value(scope: Scope, meaning: Meaning, range: SourceRange) -> SugaredValue:
    """A logger, or a function of the module `logging`."""
    return _logged(meaning.object) if meaning.name else LoggerValue(meaning.object)
