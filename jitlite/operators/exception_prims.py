"""Exceptions in graphs: making, raising and looking at them; the classes of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch

from jitlite.base.source import Error
from jitlite.ir.ops import Effect, op
from jitlite.ir.traits import Trait
from jitlite.operators.prims import exception_class, instance_of, make_exception


@op(
    "prim::RaiseException(str msg, str? cls=None) -> ()",
    Effect.SIDE,
    traits=(Trait.KEEPS_MODES, Trait.KEEPS_FACTS, Trait.RAISES_OR_WARNS, Trait.IS_STATEMENT),
)
def raise_exception(msg: str, cls: str | None) -> NoReturn:
    """`raise cls(msg)`."""
    raise make_exception(msg, cls)


@op("prim::MakeException(str msg, str? cls=None) -> Exception", Effect.STATE)
def exception_object(msg: str, cls: str | None) -> BaseException:
    """`cls(msg)`: a new exception, not raised yet."""
    return make_exception(msg, cls)


@op("prim::NewException(...) -> Exception", Effect.SIDE, traits=(Trait.KEEPS_FACTS, Trait.SHOWS))
def new_exception(cls: str, *args: object, keywords: Sequence[str] = ()) -> BaseException:
    """`cls(*args)`, for arguments that are not one text or a class with a constructor of its own; not raised yet. The
    last arguments go by the names in `keywords`."""
    found = exception_class(cls)
    if found is None:
        raise Error(f"there is no exception class {cls.removeprefix('builtins.')}")
    first = len(args) - len(keywords)
    return instance_of(cls, found, *args[:first], **dict(zip(keywords, args[first:], strict=True)))


@op("prim::ExceptionInfo(Exception e) -> (Any, Any, Any)")
def exception_info(e: BaseException) -> tuple[Any, Any, Any]:
    """What `__exit__` is told of an exception: its class, the exception and its traceback."""
    return type(e), e, e.__traceback__


@op("python::exception_args(Exception e) -> Any[]")
def exception_args(e: BaseException) -> list[object]:
    """`e.args`: what the exception was made with."""
    return list(e.args)


@op("python::class_name(Any value) -> str", traits=(Trait.NOT_FOLDED, Trait.SHOWS))
def class_name(value: object) -> str:
    """`type(value).__name__`."""
    return type(value).__name__


@op("python::is_plain_tensor(Tensor value) -> bool", traits=(Trait.NOT_FOLDED,))
def is_plain_tensor(value: torch.Tensor) -> bool:
    """`type(value) is torch.Tensor`: of a parameter and of other classes that inherit from Tensor it is not."""
    return type(value) is torch.Tensor


@op("prim::IsException(Exception e, str cls) -> bool")
def is_exception(e: BaseException, cls: str) -> bool:
    """`isinstance(e, cls)`, for the class of this qualified name; an Error where there is no such class."""
    wanted = exception_class(cls)
    if wanted is None:
        raise Error(f"there is no exception class {cls.removeprefix('builtins.')}")
    return wanted in type(e).__mro__  # `isinstance` would ask a metaclass, which may be anybody's


@op("prim::Raise(Exception? e) -> ()", Effect.SIDE, traits=(Trait.KEEPS_MODES, Trait.KEEPS_FACTS))
def raise_again(e: BaseException | None) -> None:
    """`raise e`, or nothing for None."""
    if e is not None:
        raise e


@op("prim::RaiseFrom(Exception e, Exception? cause) -> ()", Effect.SIDE, traits=(Trait.KEEPS_MODES, Trait.KEEPS_FACTS))
def raise_from(e: BaseException, cause: BaseException | None) -> NoReturn:
    """`raise e from cause`."""
    raise e from cause
